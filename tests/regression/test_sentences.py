"""What is missing is said in a sentence that tells what to do, by what was asked and not by what was tried below."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from moment_releases import SEED, exact_release, health_schema, records

import noisewise as nw
from noisewise.errors import Unsupported
from noisewise.regression.words import unseen_parts
from noisewise.release import Release

FEATURES = ["age", "bmi"]
CONJUGATE = nw.NormalInverseGamma(mean=0, precision=1e-3, shape=2, rate=400)
SHORT: dict[str, Any] = {"seed": SEED, "draws": 20, "warmup": 20, "chains": 2, "progress": False}


def release(dataset: str = "a", **options: Any) -> Release:
    made = nw.plan(nw.Moments(FEATURES, "cost", **options), health_schema(200), guarantee=nw.GaussianDP(100))
    return exact_release(made, records(np.random.default_rng([SEED, 1]), 200), dataset=dataset)


@pytest.mark.parametrize("degrees", [None, 5], ids=["default", "too-few"])
def test_gibbs_prior_says_which_prior_it_needs(degrees: float | None) -> None:
    """The default prior of the covariates has no fourth moments, nor has any with d + 3 degrees of freedom."""
    covariates = None if degrees is None else nw.NormalCovariates([45, 26], 1, [720, 80], degrees)
    model = nw.LinearRegression(FEATURES, "cost", prior=CONJUGATE, covariates=covariates)
    with pytest.raises(Unsupported, match=r"'gibbs-prior' takes.*NormalCovariates\(\.\.\., degrees=\) above 5, or Giv"):
        nw.infer(release(), model, method="gibbs-prior", **SHORT)


def test_gibbs_prior_runs_with_the_prior_that_it_asks_for() -> None:
    covariates = nw.NormalCovariates([45, 26], 1, [720, 80], 5.5)
    model = nw.LinearRegression(FEATURES, "cost", prior=CONJUGATE, covariates=covariates)
    assert nw.infer(release(), model, method="gibbs-prior", **SHORT).method == "gibbs-prior"


def test_gibbs_noisy_says_that_it_is_the_one_that_needs_fourth_moments() -> None:
    model = nw.LinearRegression(FEATURES, "cost", prior=CONJUGATE)
    with pytest.raises(Unsupported, match=r"^method 'gibbs-noisy' needs the fourth.*fourth=True"):
        nw.infer(release(), model, method="gibbs-noisy", **SHORT)
    with pytest.raises(Unsupported, match=r"^covariates='released' needs the fourth.*fourth=True"):
        nw.infer(release(), nw.LinearRegression(FEATURES, "cost", covariates="released"), **SHORT)
    found = nw.infer(release(fourth=True), model, method="gibbs-noisy", **SHORT)
    assert "taken to be normal" not in str(found.verdict)


@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "through-centre"])
@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("xx", "xy", "yy"), []),
        (("xx",), ["X'y was not released: the coefficients are not identified", "y'y was not released: with one"]),
        (("yy",), ["X'y was not released: the coefficients are not identified"]),
        (("xx", "yy"), ["X'y was not released: the coefficients are not identified"]),
        (("xy",), ["X'X was not released: the coefficients are not identified without", "y'y was not released"]),
        (("xy", "yy"), ["X'X was not released: the coefficients are not identified without"]),
        (("xx", "xy"), ["y'y was not released: with one holder the noise variance is not identified"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_parts_that_nobody_released_are_named(parts: tuple[str, ...], expected: list[str], intercept: bool) -> None:
    model = nw.LinearRegression(FEATURES, "cost", intercept=intercept)
    found = unseen_parts(model.problem(release(parts=parts, intercept=intercept)))
    assert len(found) == len(expected)
    for sentence, start in zip(found, expected, strict=True):
        assert sentence.startswith(start)


def test_a_part_that_another_holder_released_is_not_missed() -> None:
    model = nw.LinearRegression(FEATURES, "cost")
    both = [release(parts=("xx",)), release("b", parts=("xy", "yy"))]
    assert unseen_parts(model.problem(both)) == []
    alone = nw.infer(both[0], model, method="exact-gibbs", **SHORT)
    assert "X'y was not released: the coefficients are not identified" in str(alone.verdict)


def test_given_moments_say_that_they_are_why_there_is_no_check(rng: np.random.Generator) -> None:
    survey = np.column_stack([rng.normal(45, 12, 1000), rng.normal(26, 4, 1000)])
    for covariates in (nw.GivenMoments.of_rows(survey), "released"):
        model = nw.LinearRegression(FEATURES, "cost", covariates=covariates)
        found = nw.infer(release(fourth=True), model, **SHORT)
        assert found.method == "marginal"  # so the way out is not another method
        with pytest.raises(Unsupported, match=r"only their moments.*covariates=NormalCovariates\(") as error:
            _ = found.check
        assert "use 'marginal'" not in str(error.value)
        assert "only their moments" in found.summary()


def test_the_default_prior_of_the_noise_is_said_as_it_is() -> None:
    """Oracle: the prior in the problem; the public standard deviation of the response is a quarter of its bounds."""
    one, model = release(), nw.LinearRegression(FEATURES, "cost")
    prior = model.problem(one).prior
    found = nw.infer(one, model, method="exact-gibbs", **SHORT)
    assert "InverseGamma(1/2, response variance / 50)" in found.because
    assert (prior.shape, prior.rate) == (0.5, pytest.approx((1500 / 4) ** 2 / 50))
