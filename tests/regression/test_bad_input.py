"""What cannot be meant is refused by the name of the argument that is wrong, never by an error from further below."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument
from noisewise.regression.priors import coefficient_moments, noise_shape

FEATURES = ["age", "bmi"]
HUGE = 10**400  # too large for a float
BELIEFS = {
    "coefficients": stats.norm(0, 10),
    "noise": stats.invgamma(3, scale=400),
    "covariates": nw.NormalCovariates([45, 26], 1, [720, 80], 8),
}


@pytest.mark.parametrize("count", [-1, 1.5, 2.0, None, "3", True, HUGE, [2]],
                         ids=["negative", "half", "float", "none", "text", "true", "huge", "list"])  # fmt: skip
def test_a_number_of_draws_that_is_none_is_refused(rng: np.random.Generator, count: Any) -> None:
    model = nw.LinearRegression(FEATURES, "cost", **BELIEFS)
    assert model.sample_prior(rng, np.int64(3))["age"].shape == (3,)
    with pytest.raises(InvalidArgument) as error:
        model.sample_prior(rng, count)
    assert error.value.argument == "count"


@pytest.mark.parametrize("other", [None, 3, "rng"], ids=["none", "number", "text"])
def test_a_generator_is_asked_for(other: Any) -> None:
    with pytest.raises(InvalidArgument) as error:
        nw.LinearRegression(FEATURES, "cost", **BELIEFS).sample_prior(other, 3)
    assert error.value.argument == "rng"


def norms(name: str, bad: Any) -> list[Any]:
    """The ways in which the number `bad` can stand in the norm of a coefficient, as its mean or its sd."""
    one = stats.norm(bad, 1) if name == "mean" else stats.norm(1, bad)
    return [one, [stats.norm(0, 1), one, stats.norm(0, 1)], {"intercept": one, "age": one, "bmi": stats.norm(0, 1)}]


@pytest.mark.parametrize("name", ["mean", "sd"])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, HUGE, [1, 2, 3], [1.0], "1"],
                         ids=["inf", "minus-inf", "nan", "huge", "array", "array-of-one", "text"])  # fmt: skip
def test_the_prior_of_a_coefficient_has_one_finite_mean_and_sd(name: str, bad: Any) -> None:
    for given in norms(name, bad):
        with pytest.raises(InvalidArgument, match="finite") as error:
            nw.LinearRegression(FEATURES, "cost", coefficients=given)
        assert error.value.argument == "coefficients"


@pytest.mark.parametrize("sd", [0, -1, 1e200, 1e-200], ids=["zero", "negative", "no-square", "square-zero"])
def test_the_prior_of_a_coefficient_has_a_variance(sd: float) -> None:
    with pytest.raises(InvalidArgument, match="sd") as error:
        nw.LinearRegression(FEATURES, "cost", coefficients=stats.norm(0, sd))
    assert error.value.argument == "coefficients"


def test_a_joint_prior_of_the_coefficients_is_finite() -> None:
    for mean, covariance in (([np.inf, 0, 0], np.eye(3)), ([np.nan, 0, 0], np.eye(3))):
        with pytest.raises(InvalidArgument, match="proper") as error:
            nw.LinearRegression(FEATURES, "cost", coefficients=stats.multivariate_normal(mean, covariance))
        assert error.value.argument == "coefficients"


@pytest.mark.parametrize(
    "given",
    [stats.invgamma([1, 2]), stats.invgamma(2, scale=[1, 2]), stats.invgamma(2, loc=[0, 0]), stats.invgamma(np.nan),
     stats.invgamma(np.inf), stats.invgamma(2, scale=np.inf), stats.invgamma(HUGE), stats.invgamma(2, scale=HUGE),
     stats.invgamma("2"), stats.invgamma(2, scale=-1)],
    ids=["shapes", "scales", "places", "nan", "inf", "inf-scale", "huge", "huge-scale", "text", "negative"],
)  # fmt: skip
def test_the_prior_of_the_noise_has_one_finite_shape_and_scale(given: Any) -> None:
    with pytest.raises(InvalidArgument, match="finite numbers above 0, one each") as error:
        nw.LinearRegression(FEATURES, "cost", noise=given)
    assert error.value.argument == "noise"


def test_sound_priors_are_read_as_scipy_has_them() -> None:
    """Oracle: scipy's own mean and variance; parameters may be given by place, by name, or as numpy numbers."""
    for prior in (
        stats.norm(3, 2),
        stats.norm(loc=3, scale=2),
        stats.norm(np.float64(3), scale=np.array(2)),
        stats.norm(3),
    ):
        moments = coefficient_moments(prior, ["a", "b"])
        assert moments is not None
        np.testing.assert_allclose(moments[0], prior.mean())
        np.testing.assert_allclose(moments[1], np.eye(2) * prior.var())
    for prior in (stats.invgamma(3, scale=2), stats.invgamma(a=np.int64(3), scale=2.0), stats.invgamma(3, 0, 2)):
        found = noise_shape(prior)
        assert found == (3.0, 2.0)
        assert prior.mean() == pytest.approx(found[1] / (found[0] - 1))


@pytest.mark.parametrize("bad", [HUGE, "3", [HUGE], ["3"]], ids=["huge", "text", "huge-list", "text-list"])
def test_numbers_in_beliefs_are_numbers(bad: Any) -> None:
    for make, fields in (
        (nw.NormalInverseGamma, {"mean": 0, "precision": 1, "shape": 1, "rate": 1}),
        (nw.NormalCovariates, {"location": 0, "strength": 1, "scale": 1, "degrees": 5}),
    ):
        for name in fields:
            with pytest.raises(InvalidArgument) as error:
                make(**{**fields, name: bad})
            assert error.value.argument == name


@pytest.mark.parametrize("bad", [None, 3, "", ["cost"], True, 2 * np.ones(3)],
                         ids=["none", "number", "empty", "list", "true", "array"])  # fmt: skip
def test_a_bad_response_is_not_blamed_on_the_features(bad: Any) -> None:
    with pytest.raises(InvalidArgument, match="response") as error:
        nw.LinearRegression(FEATURES, bad)
    assert error.value.argument == "response"


def test_an_array_is_no_belief_about_covariates() -> None:
    with pytest.raises(InvalidArgument) as error:
        nw.LinearRegression(FEATURES, "cost", covariates=np.eye(3))  # type: ignore[arg-type]
    assert error.value.argument == "covariates"


@pytest.mark.parametrize("bad", [HUGE, "1", None, np.inf], ids=["huge", "text", "none", "inf"])
def test_parameter_values_are_finite_numbers(bad: Any) -> None:
    at = {"intercept": 0, "age": 1, "bmi": 1, "noise_variance": 1}
    with pytest.raises(InvalidArgument) as error:
        nw.LinearRegression(FEATURES, "cost", **BELIEFS).theta_at({**at, "age": bad})
    assert error.value.argument == "at"


def test_with_an_intercept_given_moments_begin_with_the_constant_one() -> None:
    """Moments of x alone, or of (c, x), have the right shape and are another thing."""
    rows = np.random.default_rng().normal(3, 0.5, (60, 3)) * [1, 0.01, 100]
    sound = nw.GivenMoments.of_rows(rows[:, 1:])
    assert nw.LinearRegression(FEATURES, "cost", covariates=sound).covariates is sound
    of_x = nw.GivenMoments.of_rows(rows, intercept=False)
    nw.LinearRegression([*FEATURES, "height"], "cost", intercept=False, covariates=of_x)
    twice = nw.GivenMoments(4 * sound.second, 16 * sound.fourth)
    shaken = np.array(sound.fourth)
    shaken[0, 0, 1, 1] = shaken[1, 1, 0, 0] = 1.001 * sound.second[1, 1]
    for other in (of_x, twice, nw.GivenMoments(sound.second, shaken)):
        with pytest.raises(InvalidArgument, match="constant 1") as error:
            nw.LinearRegression(FEATURES, "cost", covariates=other)
        assert error.value.argument == "covariates"
