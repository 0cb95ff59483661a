"""From releases to holders: what is read, what is joined, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from moment_releases import SEED, exact_release, health_schema, noisy_release, records

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.regression.observed import Observed
from noisewise.release import Release

FEATURES = ["age", "bmi"]
N = 60
MODEL = nw.LinearRegression(FEATURES, "cost")


def moments(**options: Any) -> nw.Moments:
    return nw.Moments(FEATURES, "cost", **options)


def release(
    statistic: Any, *, dataset: str = "a", guarantee: Any = None, schema: nw.Schema | None = None, seed: int = 1,
    part: tuple[Fraction, Fraction] | None = None, n: int = N,
) -> Release:  # fmt: skip
    made = nw.plan(statistic, schema or health_schema(n), guarantee=guarantee or nw.PureDP(1), part=part)
    size = made.part_schema.n or n
    return exact_release(made, records(np.random.default_rng([SEED, seed]), size), dataset=dataset)


def observed(releases: Any, model: nw.LinearRegression = MODEL, **options: Any) -> Observed:
    return model.observed(releases, **options)


def test_the_sums_are_those_of_the_rows_with_their_noise() -> None:
    one = release(moments(centre={"age": 40}, scale={"age": 10}))
    (holder,) = observed(one).holders
    columns = records(np.random.default_rng([SEED, 1]), N)
    w = np.column_stack([np.ones(N), (columns["age"] - 40) / 10, columns["bmi"], columns["cost"]])
    expected = (w.T @ w)[tuple(holder.pairs.T)]
    assert (np.abs(holder.observed - expected) <= one.law.step).all()  # what the lattice leaves
    assert holder.n == N
    assert (0, 0) not in [tuple(pair) for pair in holder.pairs]
    np.testing.assert_allclose(holder.variance, np.square(one.law.sd))
    np.testing.assert_allclose(holder.laplace, one.law.scale)
    np.testing.assert_allclose(holder.low, [-9, -20, -500])


def test_gaussian_noise_has_no_laplace_scale() -> None:
    (holder,) = observed(release(moments(), guarantee=nw.GaussianDP(1))).holders
    assert not holder.laplace.any()
    assert (holder.variance > 0).all()


def test_averaged_rows_count_blocks() -> None:
    (holder,) = observed(release(moments(average=4))).holders
    columns = records(np.random.default_rng([SEED, 1]), N)
    w = np.column_stack([np.ones(N), columns["age"], columns["bmi"], columns["cost"]])
    blocks = w.reshape(N // 4, 4, -1).sum(axis=1) / 2
    expected = (blocks.T @ blocks)[tuple(holder.pairs.T)]
    assert (holder.n, holder.block) == (N // 4, 4)
    np.testing.assert_allclose(holder.observed, expected, atol=1e-3 * np.sqrt(holder.variance.min()), rtol=1e-4)


def test_fourth_moments_are_kept_apart() -> None:
    (holder,) = observed(release(moments(fourth=True))).holders
    columns = records(np.random.default_rng([SEED, 1]), N)
    assert holder.fourth[1, 1, 2, 2][0] == pytest.approx(np.sum(columns["age"] ** 2 * columns["bmi"] ** 2), rel=1e-4)
    assert all(len(pair) == 2 for pair in holder.pairs)


def test_different_data_sets_and_disjoint_parts_are_holders_of_their_own() -> None:
    half = Fraction(1, 2)
    parts = [release(moments(), part=(Fraction(0), half)), release(moments(), part=(half, Fraction(1)), seed=2)]
    other = release(moments(), dataset="b", seed=3)
    assert [holder.n for holder in observed([*parts, other]).holders] == [N // 2, N // 2, N]


def test_overlapping_parts_are_refused() -> None:
    with pytest.raises(Unsupported, match="overlapping"):
        observed([release(moments()), release(moments(), part=(Fraction(0), Fraction(1, 2)), seed=2)])


def test_two_gaussian_releases_of_the_same_records_weigh_by_precision() -> None:
    rng = np.random.default_rng([SEED, 7])
    columns = records(rng, N)
    plans = [nw.plan(moments(), health_schema(N), guarantee=nw.GaussianDP(mu)) for mu in (1, 2)]
    one, other = (noisy_release(plan, columns, rng, dataset="a") for plan in plans)
    (holder,) = observed([one, other]).holders
    weights = 1 / np.square([one.law.sd, other.law.sd])
    np.testing.assert_allclose(holder.variance, 1 / weights.sum(axis=0))
    both = np.array([one.estimate, other.estimate])
    np.testing.assert_allclose(holder.observed, (weights * both).sum(axis=0) / weights.sum(axis=0))
    np.testing.assert_allclose(both.mean(axis=0), holder.observed, atol=5 * max(one.law.sd))


def test_parts_of_the_moments_of_the_same_records_are_put_together() -> None:
    one, other = release(moments(parts=["xx", "xy"])), release(moments(parts=["yy"]))
    (holder,) = observed([one, other]).holders
    (whole,) = observed(release(moments())).holders
    np.testing.assert_array_equal(holder.pairs, whole.pairs[:, :])
    np.testing.assert_allclose(holder.observed[:-2], whole.observed[:-2], rtol=1e-4)


def test_two_laplace_noises_on_one_sum_are_refused() -> None:
    with pytest.raises(Unsupported, match="Laplace"):
        observed([release(moments()), release(moments(), guarantee=nw.PureDP(2))])


@pytest.mark.parametrize("changes", [{"shrink": 50}, {"scale": {"age": 3}}, {"average": 2}, {"centre": {"cost": 5}}])
def test_different_rows_of_the_same_records_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Unsupported, match="same records"):
        observed([release(moments(parts=["xx", "xy"])), release(moments(parts=["yy"], **changes))])


def test_under_add_remove_n_is_stated_and_a_contradicting_count_is_refused() -> None:
    schema = health_schema(None)
    made = nw.plan(moments(), schema, guarantee=nw.PureDP(1000))
    one = exact_release(made, records(np.random.default_rng([SEED, 1]), N), dataset="a")
    with pytest.raises(InvalidArgument, match="private"):
        observed(one)
    right = observed(one, n=N)
    assert right.holders[0].n == N
    assert (0, 0) not in [tuple(pair) for pair in right.holders[0].pairs]
    assert not right.warnings
    with pytest.raises(InvalidArgument, match="but the noisy count of the same records is 60, with a noise sd of"):
        observed(one, n=10 * N)


def test_a_smallest_eigenvalue_belongs_to_the_moments_of_its_records() -> None:
    model = nw.LinearRegression(FEATURES, "cost", intercept=False)
    eigenvalue = nw.SmallestEigenvalue(FEATURES, shrink=100)
    first = release(moments(intercept=False))
    (holder,) = model.observed([first, release(eigenvalue)]).holders
    columns = records(np.random.default_rng([SEED, 1]), N)
    x = np.column_stack([columns["age"], columns["bmi"]])
    assert holder.eigenvalue is not None
    assert holder.eigenvalue.value == pytest.approx(np.linalg.eigvalsh(x.T @ x)[0], rel=1e-3)
    with pytest.raises(Unsupported, match="same data set"):
        model.observed([first, release(eigenvalue, dataset="b")])
    with pytest.raises(Unsupported, match="differently"):
        model.observed([first, release(nw.SmallestEigenvalue(FEATURES, shrink=9, scale={"age": 10}))])
    with pytest.raises(Unsupported, match="use one"):
        model.observed([first, release(eigenvalue), release(eigenvalue, guarantee=nw.PureDP(2))])
    with pytest.raises(Unsupported, match="alone tells nothing"):
        model.observed(release(eigenvalue))


@pytest.mark.parametrize(
    ("model", "argument", "words"),
    [
        (nw.LinearRegression(["bmi", "age"], "cost"), "features", "in this order"),
        (nw.LinearRegression(["age"], "cost"), "features", "the model has age"),
        (nw.LinearRegression(["age", "bmi"], "income"), "response", "has the response cost"),
        (nw.LinearRegression(["age", "bmi"], "cost", intercept=False), "intercept", "the model has none"),
    ],
    ids=["order", "fewer", "response", "intercept"],
)
def test_a_release_about_something_else_is_refused(model: nw.LinearRegression, argument: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words) as error:
        model.observed(release(moments()))
    assert error.value.argument == argument


def test_a_model_with_intercept_needs_its_sums() -> None:
    with pytest.raises(InvalidArgument, match="not identified"):
        observed(release(moments(intercept=False)))


@pytest.mark.parametrize("given", [None, [], "a.json", 3, [1]], ids=["none", "empty", "path", "number", "list"])
def test_what_is_no_release_is_refused(given: Any) -> None:
    with pytest.raises(InvalidArgument, match="Release"):
        observed(given)


def test_a_release_of_another_kind_or_given_twice_is_refused() -> None:
    mean = nw.plan(nw.Mean("age"), health_schema(N), guarantee=nw.PureDP(1))
    with pytest.raises(Unsupported, match="Moments"):
        observed(exact_release(mean, records(np.random.default_rng([SEED, 1]), N)))
    one = release(moments())
    with pytest.raises(InvalidArgument, match="twice"):
        observed([one, one])


def test_released_fourth_moments_are_those_of_the_rows() -> None:
    """covariates='released' with next to no noise: the empirical moments, pooled over holders with other scales."""
    model = nw.LinearRegression(FEATURES, "cost", covariates="released")
    n = 400
    options = {"fourth": True, "centre": {"age": 45, "bmi": 26}}
    one = release(moments(**options), n=n, guarantee=nw.PureDP(10**6))
    two = release(moments(**options, scale={"age": 12, "bmi": 4}), n=n, seed=2, dataset="b",
                  guarantee=nw.PureDP(10**6))  # fmt: skip
    found = model.problem([one, two]).covariates
    columns = [records(np.random.default_rng([SEED, seed]), n) for seed in (1, 2)]
    x = np.concatenate([np.column_stack([c["age"] - 45, c["bmi"] - 26]) for c in columns])
    expected = nw.GivenMoments.of_rows(x)
    np.testing.assert_allclose(found.second, expected.second, rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(found.fourth, expected.fourth, rtol=1e-2, atol=1.0)
    with pytest.raises(Unsupported, match="fourth=True"):
        model.problem(release(moments()))


def test_released_moments_drowned_in_noise_are_still_those_of_some_law() -> None:
    model = nw.LinearRegression(FEATURES, "cost", covariates="released")
    rng = np.random.default_rng([SEED, 8])
    plan = nw.plan(moments(fourth=True, centre={"age": 45, "bmi": 26}), health_schema(N), guarantee=nw.PureDP(0.1))
    found = model.problem(noisy_release(plan, records(rng, N), rng, dataset="a")).covariates
    assert np.linalg.eigvalsh(found.second)[0] > 0
    rest = found.fourth.reshape(9, 9) - np.outer(found.second.ravel(), found.second.ravel())
    assert np.linalg.eigvalsh(rest)[0] >= -1e-6 * np.abs(rest).max()
    np.testing.assert_allclose(found.fourth, np.transpose(found.fourth, (2, 0, 3, 1)))


CENTRED = {"centre": {"age": 40, "bmi": 25, "cost": 500}, "scale": {"age": 20, "bmi": 5, "cost": 400}}


def in_columns(found: Observed) -> tuple[Any, Any]:
    """Where entries are likely to lie, and their spread, in the units of the columns."""
    return found.centre / found.units.factor + found.units.centre, found.spread / found.units.factor


def test_likely_values_are_the_stated_ones_whatever_the_order_of_the_releases() -> None:
    raw, centred = release(moments(), dataset="a"), release(moments(**CENTRED), dataset="b", seed=2)
    for given in ([raw, centred], [centred, raw], [centred]):
        centre, spread = in_columns(observed(given))
        np.testing.assert_allclose(centre, [40, 25, 500])
        np.testing.assert_allclose(spread, [20, 5, 400])


def test_without_stated_numbers_the_narrowest_bounds_tell() -> None:
    columns = {"age": nw.Bounded(0, 400), "bmi": nw.Bounded(20, 30), "cost": nw.Bounded(0, 10)}
    narrow = nw.Schema({**health_schema(N).columns, **columns}, n=N, neighbours="change-one")
    one, other = release(moments()), release(moments(), dataset="b", schema=narrow, seed=2)
    wide = health_schema(N).columns["age"]
    for given in ([one, other], [other, one]):
        centre, spread = in_columns(observed(given))
        np.testing.assert_allclose(centre, [(wide.low + wide.high) / 2, 25, 5])  # type: ignore[union-attr]
        np.testing.assert_allclose(spread, [(wide.high - wide.low) / 4, 2.5, 2.5])  # type: ignore[union-attr]


def test_a_centre_that_is_stated_without_a_scale_counts() -> None:
    only = release(moments(centre={"age": 33}))
    centre, _ = in_columns(observed([release(moments(), dataset="b", seed=2), only]))
    assert centre[0] == pytest.approx(33)
