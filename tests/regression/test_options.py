"""Options of single methods, and runs as short as they can be: refused by name, or answered without a warning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from moment_releases import SEED, exact_release, health_schema, records

import noisewise as nw
from noisewise.errors import InvalidArgument
from noisewise.inference.posterior import Posterior
from noisewise.regression import marginal
from noisewise.release import Release

FEATURES = ["age", "bmi"]
MODEL = nw.LinearRegression(FEATURES, "cost")
N = 200


@pytest.fixture(scope="module")
def release() -> Release:
    plan = nw.plan(nw.Moments(FEATURES, "cost"), health_schema(N), guarantee=nw.PureDP(10**4))
    return exact_release(plan, records(np.random.default_rng([SEED, 1]), N))


def short(release: Release, method: str, **options: Any) -> Posterior:
    return nw.infer(release, MODEL, method=method, seed=SEED, **{"draws": 5, "warmup": 5, "chains": 2, **options})


@pytest.mark.parametrize(
    "bad",
    [0, -3, 1, 10, 128, 300, 2.5, 2048.0, "a", "2048", True, [2048], 2**40],
    ids=[
        "none",
        "negative",
        "one",
        "ten",
        "few",
        "no-power",
        "half",
        "float",
        "text",
        "digits",
        "true",
        "list",
        "huge",
    ],
)
def test_a_bank_has_a_power_of_two_of_points(bad: Any, release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    """No row of this release is clamped, and still nothing is computed before the number of points is read."""

    def computed(*_: object, **__: object) -> None:
        raise AssertionError("computed before the option was read")

    monkeypatch.setattr(marginal, "fitted", computed)
    with pytest.raises(InvalidArgument) as error:
        short(release, "marginal", points=bad)
    assert error.value.argument == "points"


def test_a_sound_number_of_points_is_handed_on(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    class Handed(Exception):
        pass

    def handed(*_: object, points: int | None) -> None:
        raise Handed(points)

    monkeypatch.setattr(marginal, "fitted", handed)
    for points in (None, 256, np.int64(2048)):
        with pytest.raises(Handed) as seen:
            short(release, "marginal", points=points)
        assert seen.value.args == (points,)


@pytest.mark.parametrize(
    ("method", "option", "bad"),
    [
        ("naive", "project", "no"),
        ("naive", "project", 1),
        ("naive", "project", None),
        *[("fixed-s-fast", "noise_variance", bad) for bad in ("a", np.nan, np.inf, 0, -1, [1.0], True)],
        *[("individual", "accept", bad) for bad in ("a", np.nan, 0, 1, 2, None, [0.9])],
        *[("adassp", option, bad) for option in ("rho", "tail") for bad in ("a", np.nan, 0, 1, None, [0.1])],
    ],
    ids=lambda value: str(value),
)
def test_options_that_cannot_be_meant_are_refused_by_name(method: str, option: str, bad: Any, release: Release) -> None:
    with pytest.raises(InvalidArgument) as error:
        short(release, method, **{option: bad})
    assert error.value.argument == option


def test_sound_options_are_taken(release: Release) -> None:
    assert short(release, "naive", project=True).method == "naive"
    assert "set to 0.25" in str(short(release, "fixed-s-fast", noise_variance=np.float64(0.25)).verdict)


@pytest.mark.parametrize("method", ["marginal", "naive", "fixed-s-fast", "exact-gibbs"])
@pytest.mark.parametrize("chains", [1, 3])
def test_one_draw_a_chain_is_an_answer_that_nobody_should_trust(method: str, chains: int, release: Release) -> None:
    """Warnings are errors here; R-hat of one draw is not a number, and the verdict says that it has not converged."""
    found = short(release, method, draws=1, chains=chains)
    assert found.draws["age"].shape == (chains, 1)
    assert np.isfinite(found.draws["age"]).all()
    assert not found.verdict.is_converged


def test_the_worst_rhat_is_the_largest_and_one_where_there_is_none(release: Release) -> None:
    problem = MODEL.problem(release)
    belief = marginal._belief(problem)
    rng = np.random.default_rng([SEED, 2])
    positions = rng.standard_normal((4, 100, belief.mixing + 1))
    assert marginal._worst_rhat(positions[:, :1], belief) == 1.0
    positions[0, :, 0] += 50
    assert marginal._worst_rhat(positions, belief) > 1.5
    positions[:, :, 1] = np.nan
    assert marginal._worst_rhat(positions, belief) > 1.5


@pytest.mark.parametrize("name", ["problem", "rng", "colour"])
def test_what_no_method_takes_is_refused_by_name(name: str, release: Release) -> None:
    """The first two are what a method is called with, so that Python would speak of two values for one argument."""
    with pytest.raises(InvalidArgument, match=f"'{name}' is not an option"):
        short(release, "naive", **{name: 1})
