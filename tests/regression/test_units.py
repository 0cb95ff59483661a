"""The affine maps between the units of the columns and those of a release's rows."""

from __future__ import annotations

import numpy as np
import pytest
from moment_releases import SEED, health_schema, records
from scipy import stats

import noisewise as nw
from noisewise.errors import Unsupported
from noisewise.regression.priors import coefficient_moments, working_covariates, working_prior
from noisewise.regression.units import Units
from noisewise.statistics.evaluation import evaluated

FEATURES = ["age", "bmi"]
VARIANTS = {
    "raw": {},
    "centred": {"centre": {"age": 40, "bmi": 25, "cost": 150}},
    "scaled": {"scale": {"age": 12, "cost": 50}},
    "both": {"centre": {"age": 40, "cost": 150}, "scale": {"age": 12, "bmi": 4, "cost": 50}},
}


def statistic(variant: str, intercept: bool = True) -> nw.Moments:
    return nw.Moments(FEATURES, "cost", intercept=intercept, **VARIANTS[variant])


def rows(made: nw.Moments, columns: dict[str, object]) -> np.ndarray:
    """The rows that the statistic itself multiplies: its own features on NumPy columns."""
    schema = health_schema(50)
    return np.stack(evaluated(made.entries(schema), columns, schema), axis=-1)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_line_is_the_same_line_in_the_units_of_the_rows(variant: str) -> None:
    columns = records(np.random.default_rng([SEED, 1]), 50)
    made = statistic(variant)
    beta = np.array([7.0, 3.0, -2.0])
    theta = Units.of(made).working(beta)
    v = rows(made, columns)
    fitted = beta[0] + beta[1] * columns["age"] + beta[2] * columns["bmi"]
    expected = rows(made, {**columns, "cost": fitted})[:, -1]
    np.testing.assert_allclose(theta[0] + v[:, :-1] @ theta[1:], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("variant", VARIANTS)
def test_there_and_back_is_where_one_was(variant: str, intercept: bool) -> None:
    units = Units.of(statistic(variant, intercept))
    beta = np.random.default_rng([SEED, 2]).normal(size=(4, 5, 2 + intercept))
    np.testing.assert_allclose(units.natural(units.working(beta)), beta, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_line_without_intercept_passes_through_the_centre(variant: str) -> None:
    units = Units.of(statistic(variant, intercept=False))
    slopes = np.array([3.0, -2.0])
    at_centre = units.implied_intercept(slopes) + slopes @ units.centre[:-1]
    assert at_centre == pytest.approx(units.centre[-1])


def test_another_holders_rows_are_the_map_of_ours() -> None:
    columns = records(np.random.default_rng([SEED, 3]), 30)
    one, other = statistic("centred"), statistic("both")
    ours, theirs = (np.column_stack([np.ones(30), rows(made, columns)]) for made in (one, other))
    np.testing.assert_allclose(ours @ Units.of(one).row_map(Units.of(other)).T, theirs, rtol=1e-12, atol=1e-12)


def test_without_intercept_two_centres_have_no_common_line() -> None:
    one, other = (Units.of(statistic(variant, intercept=False)) for variant in ("raw", "centred"))
    with pytest.raises(Unsupported, match="same centre"):
        one.row_map(other)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_normal_prior_and_its_map_differ_by_a_constant_factor(variant: str) -> None:
    """log p(beta, s^2) in the columns' units less that in working units is the same everywhere: a change of units."""
    rng = np.random.default_rng([SEED, 4])
    units = Units.of(statistic(variant))
    root = rng.normal(size=(3, 3))
    given = stats.multivariate_normal([1, 2, 3], root @ root.T + np.eye(3))
    prior = working_prior(
        coefficient_moments(given, ["intercept", "age", "bmi"]), (3.0, 5.0), None, is_learned=False, units=units,
        centre=np.zeros(3), spread=np.ones(3),
    )  # fmt: skip
    beta, variance = rng.normal(size=(6, 3)), rng.gamma(2, size=6)
    theirs = given.logpdf(beta) + stats.invgamma(3, scale=5).logpdf(variance)
    working = stats.multivariate_normal(prior.mean, np.linalg.inv(prior.precision))
    ours = working.logpdf(units.working(beta)) + stats.invgamma(prior.shape, scale=prior.rate).logpdf(
        variance * units.variance_factor
    )
    assert np.ptp(theirs - ours) < 1e-6


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_conjugate_prior_and_its_map_differ_by_a_constant_factor(variant: str) -> None:
    rng = np.random.default_rng([SEED, 5])
    units = Units.of(statistic(variant))
    given = nw.NormalInverseGamma(mean=[1, 2, 3], precision=[1, 4, 0.5], shape=3, rate=5)
    prior = working_prior(
        None, None, given, is_learned=False, units=units, centre=np.zeros(3), spread=np.ones(3)
    )  # fmt: skip
    assert prior.is_relative
    theirs, ours = [], []
    for beta, variance in zip(rng.normal(size=(6, 3)), rng.gamma(2, size=6), strict=True):
        covariance = variance * np.diag([1, 1 / 4, 2.0])
        theirs.append(
            stats.multivariate_normal([1, 2, 3], covariance).logpdf(beta) + stats.invgamma(3, scale=5).logpdf(variance)
        )
        scaled = variance * units.variance_factor
        spread = scaled * np.linalg.inv(prior.precision)
        ours.append(
            stats.multivariate_normal(prior.mean, spread).logpdf(units.working(beta))
            + stats.invgamma(prior.shape, scale=prior.rate).logpdf(scaled)
        )
    assert np.ptp(np.array(theirs) - np.array(ours)) < 1e-6


def test_given_moments_are_those_of_the_mapped_rows() -> None:
    """Moments of public rows, mapped, are the moments of the rows in working units, computed directly."""
    columns = records(np.random.default_rng([SEED, 6]), 200)
    made = statistic("both")
    x = np.column_stack([columns["age"], columns["bmi"]])
    found = working_covariates(
        nw.GivenMoments.of_rows(x), units=Units.of(made), centre=np.zeros(3), spread=np.ones(3)
    )  # fmt: skip
    expected = nw.GivenMoments.of_rows(rows(made, columns)[:, :-1])
    np.testing.assert_allclose(found.second, expected.second, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.fourth, expected.fourth, rtol=1e-8, atol=1e-8)


def test_believed_covariates_are_mapped_with_the_rows() -> None:
    made = statistic("both")
    given = nw.NormalCovariates(location=[45, 26], strength=2, scale=[[144, 5], [5, 16]], degrees=5)
    found = working_covariates(given, units=Units.of(made), centre=np.zeros(3), spread=np.ones(3))
    np.testing.assert_allclose(found.location, [(45 - 40) / 12, 26 / 4])
    np.testing.assert_allclose(found.scale, [[1, 5 / 48], [5 / 48, 1]])
    assert (found.strength, found.degrees) == (2, 5)
