"""adaSSP: the estimate by hand, and what it refuses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from moment_releases import SEED, exact_release, health_schema, noisy_release, records

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.release import Release

FEATURES = ["age", "bmi"]
CENTRE = {"age": 45, "bmi": 26, "cost": 180}
N = 400
MODEL = nw.LinearRegression(FEATURES, "cost", intercept=False)


def pair(
    guarantee: Any, rng: np.random.Generator, dataset: str, scale: dict[str, float] | None = None
) -> list[Release]:
    """Moments and the smallest eigenvalue of the same records."""
    columns = records(rng, N)
    schema = health_schema(N)
    options: dict[str, Any] = {"centre": CENTRE} if scale is None else {"centre": CENTRE, "scale": scale}
    plans = [
        nw.plan(nw.Moments(FEATURES, "cost", intercept=False, parts=["xx", "xy"], **options), schema,
                guarantee=guarantee),
        nw.plan(nw.SmallestEigenvalue(FEATURES, shrink=100, centre={"age": 45, "bmi": 26},
                                      scale=None if scale is None else {k: scale[k] for k in FEATURES}),
                schema, guarantee=guarantee),
    ]  # fmt: skip
    return [noisy_release(plan, columns, rng, dataset=dataset) for plan in plans]


def by_hand(releases: list[list[Release]], margin: Any) -> np.ndarray:
    """(sum S_j + lambda_j I)^-1 sum z_j, written out from the release's own numbers."""
    gram, cross = np.zeros((2, 2)), np.zeros(2)
    for moments, eigenvalue in releases:
        aa, ab, ay, bb, by = moments.estimate
        noise = max(moments.law.sd[0], moments.law.sd[1], moments.law.sd[3])
        low = max(eigenvalue.estimate[0] - margin(eigenvalue), 0)
        ridge = max(noise * math.sqrt(2 * math.log(8 / 0.05)) - low, 0)
        gram += [[aa + ridge, ab], [ab, bb + ridge]]
        cross += [ay, by]
    return np.linalg.inv(gram) @ cross


@pytest.mark.parametrize("holders", [1, 3])
def test_the_estimate_is_the_formula_with_gaussian_noise(holders: int) -> None:
    rng = np.random.default_rng([SEED, 1])
    delta = 1e-6
    releases = [pair(nw.ApproxDP(1, delta), rng, f"d{k}") for k in range(holders)]
    found = nw.infer([one for both in releases for one in both], MODEL, method="adassp")
    expected = by_hand(releases, lambda r: r.law.sd[0] * math.sqrt(math.log(2 / delta)))
    np.testing.assert_allclose([found.mean["age"], found.mean["bmi"]], expected, rtol=1e-10)
    assert found.is_point
    assert "no draws to judge" in str(found.verdict)


def test_the_estimate_is_the_formula_with_laplace_noise() -> None:
    releases = [pair(nw.PureDP(1), np.random.default_rng([SEED, 2]), "d")]
    found = nw.infer(releases[0], MODEL, method="adassp", tail=1e-4)
    expected = by_hand(releases, lambda r: r.law.scale[0] * math.log(1e4) / 2)
    np.testing.assert_allclose([found.mean["age"], found.mean["bmi"]], expected, rtol=1e-10)


def test_with_next_to_no_noise_it_is_least_squares_and_the_line_passes_through_the_centre() -> None:
    rng = np.random.default_rng([SEED, 3])
    columns = records(rng, N)
    schema, epsilon = health_schema(N), nw.PureDP(10**6)
    releases = [exact_release(nw.plan(statistic, schema, guarantee=epsilon), columns) for statistic in
                (nw.Moments(FEATURES, "cost", intercept=False, centre=CENTRE),
                 nw.SmallestEigenvalue(FEATURES, shrink=200, centre={"age": 45, "bmi": 26}))]  # fmt: skip
    found = nw.infer(releases, MODEL, method="adassp")
    x = np.column_stack([columns["age"] - 45, columns["bmi"] - 26])
    expected = np.linalg.lstsq(x, columns["cost"] - 180)[0]
    np.testing.assert_allclose([found.mean["age"], found.mean["bmi"]], expected, rtol=1e-4)
    assert found.mean["intercept"] == pytest.approx(180 - expected @ [45, 26], rel=1e-3)
    np.testing.assert_allclose(MODEL.predict_mean(found, [[45, 26]]), [180], rtol=1e-6)


def test_holders_with_other_scales_are_brought_to_common_units() -> None:
    """With little noise, two holders in different units give what one holder with all records gives."""
    rng = np.random.default_rng([SEED, 4])
    loud = nw.PureDP(10**6)
    mixed = [*pair(loud, rng, "a"), *pair(loud, rng, "b", scale={"age": 12, "bmi": 4, "cost": 50})]
    rng = np.random.default_rng([SEED, 4])
    plain = [*pair(loud, rng, "a"), *pair(loud, rng, "b")]
    one, other = (nw.infer(releases, MODEL, method="adassp").mean for releases in (mixed, plain))
    assert one["age"] == pytest.approx(other["age"], rel=1e-3)
    assert one["bmi"] == pytest.approx(other["bmi"], rel=1e-3)


def test_a_point_has_no_spread_and_names_a_method_that_has_one() -> None:
    found = nw.infer(pair(nw.PureDP(1), np.random.default_rng([SEED, 5]), "d"), MODEL, method="adassp")
    with pytest.raises(Unsupported, match="marginal"):
        found.interval()
    with pytest.raises(Unsupported, match="predict_mean"):
        MODEL.predict(found, [[45, 26]])
    assert "estimate" in found.summary()


def test_what_it_cannot_do_is_said() -> None:
    rng = np.random.default_rng([SEED, 6])
    moments, _ = pair(nw.PureDP(1), rng, "d")
    with pytest.raises(Unsupported, match="SmallestEigenvalue"):
        nw.infer(moments, MODEL, method="adassp")
    with_intercept = nw.plan(nw.Moments(FEATURES, "cost"), health_schema(N), guarantee=nw.PureDP(1))
    one = exact_release(with_intercept, records(rng, N))
    with pytest.raises(Unsupported, match="no intercept"):
        nw.infer(one, nw.LinearRegression(FEATURES, "cost"), method="adassp")
    for option in ("rho", "tail"):
        with pytest.raises(InvalidArgument, match=option):
            nw.infer(pair(nw.PureDP(1), rng, "d"), MODEL, method="adassp", **{option: 0})
