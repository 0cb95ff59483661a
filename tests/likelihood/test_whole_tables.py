"""Sums of records of few kinds: every table of them is summed over, whatever was released of it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from made_releases import release_of
from scipy import stats

import noisewise as nw
from noisewise.likelihood.excluding_counts import ExcludingCounts
from noisewise.likelihood.joint import joint_likelihood
from noisewise.likelihood.whole_tables import WholeTables

S, X = nw.column("s"), nw.column("x")
LEVELS = nw.Categorical(p=stats.dirichlet([1, 1, 1]))
SHARES = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]])


def schema(n: int) -> nw.Schema:
    return nw.Schema({"s": nw.Levels(["a", "b", "c"]), "x": nw.Bounded(0, 3)}, n=n, neighbours="change-one")


def brute_force(releases: list[nw.Release], n: int, chances: np.ndarray, sums: object) -> float:
    """log p over every sequence of n records; `sums` lists what each release adds up, for one sequence."""
    total = 0.0
    for records in itertools.product(range(len(chances)), repeat=n):
        weight = float(np.prod(chances[list(records)]))
        for release, values in zip(releases, sums(np.array(records)), strict=True):
            for k, value in enumerate(values):
                weight *= np.exp(
                    float(release.law.log_pmf(release.value[k] - value / release.law.step[k], component=k))
                )
        total += weight
    return float(np.log(total))


def test_a_histogram_and_a_count_of_one_of_its_cells_are_scored_by_all_sequences_of_records() -> None:
    releases = [
        release_of(nw.Histogram("s"), schema(5), nw.PureDP(2), [1, 3, 2]),
        release_of(nw.Count(S.equals("a")), schema(5), nw.PureDP(1), [2]),
    ]
    law = WholeTables.of(tuple(releases), LEVELS, n=5)
    chosen = joint_likelihood(releases, LEVELS)  # cells that exclude each other need no list of tables
    assert type(chosen.groups[0]) is ExcludingCounts
    assert law.is_exact
    assert chosen.is_exact
    assert law.mixing == chosen.mixing == 0

    def sums(records: np.ndarray) -> list[list[float]]:
        return [[float(np.sum(records == j)) for j in range(3)], [float(np.sum(records == 0))]]

    expected = [brute_force(releases, 5, p, sums) for p in SHARES]
    assert law.log_likelihood({"p": SHARES}) == pytest.approx(expected, abs=1e-10)
    assert chosen.log_likelihood({"p": SHARES}) == pytest.approx(expected, abs=1e-9)


def test_whole_numbers_and_their_squares_are_scored_by_all_sequences_of_records() -> None:
    release = release_of(nw.Mean(X, X**2), schema(4), nw.PureDP(6), [1.2, 2.4])
    population = nw.Poisson(rate=stats.gamma(2))
    law = joint_likelihood([release], population)
    assert type(law.groups[0]) is WholeTables
    rate = np.array([0.7, 2.5])
    chances = np.stack([[*stats.poisson.pmf([0, 1, 2], r), stats.poisson.sf(2, r)] for r in rate])
    expected = [brute_force([release], 4, p, lambda x: [[float(x.sum()), float(np.sum(x**2))]]) for p in chances]
    assert law.log_likelihood({"rate": rate}) == pytest.approx(expected, abs=1e-9)


def test_a_level_without_chance_is_never_counted() -> None:
    release = release_of(nw.Mean(S.equals("a"), S.equals("b")), schema(6), nw.PureDP(3), [0.4, 0.5])
    law = joint_likelihood([release], LEVELS)
    nearly, never = law.log_likelihood({"p": np.array([[1e-12, 0.5, 0.5 - 1e-12], [0.0, 0.5, 0.5]])})
    assert never == pytest.approx(nearly, abs=1e-9)


def test_tables_are_drawn_in_proportion_to_their_chance() -> None:
    """The mean of many drawn counts is that of the enumeration, within chance of 1e-6."""
    release = release_of(nw.Mean(S.equals("a"), S.equals("b")), schema(12), nw.PureDP(4), [0.5, 0.25])
    model = joint_likelihood([release], LEVELS).groups[0]
    p, count = np.array([0.3, 0.3, 0.4]), 4000
    drawn = model.draw_statistic(np.random.default_rng(5), {"p": np.tile(p, (count, 1))})
    weights, values = [], []
    for a in range(13):
        for b in range(13 - a):
            noise = sum(
                float(release.law.log_pmf(release.value[k] - s / release.law.step[k], component=k))
                for k, s in enumerate((a, b))
            )
            weights.append(stats.multinomial.pmf([a, b, 12 - a - b], 12, p) * np.exp(noise))
            values.append((a / 12, b / 12))
    mean = np.average(values, axis=0, weights=weights)
    sd = np.sqrt(np.average((np.array(values) - mean) ** 2, axis=0, weights=weights))
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < stats.norm.isf(2.5e-7) * sd / np.sqrt(count))


def test_records_of_many_values_or_too_many_tables_are_left_to_other_laws() -> None:
    normal = nw.Normal(mean=stats.norm(1, 1), sd=1)
    assert WholeTables.of((release_of(nw.Mean(X, X**2), schema(5), nw.PureDP(1), [1, 2]),), normal, n=5) is None
    many = release_of(nw.Mean(S.equals("a"), S.equals("b")), schema(400), nw.PureDP(1), [0.1, 0.2])
    assert WholeTables.of((many,), LEVELS, n=400) is None


# ---- conditions on a continuous column ----

WAITS = nw.LogNormal(log_mean=1.0, log_sd=stats.halfnorm(scale=0.9))


@pytest.mark.parametrize("outside", ["clamp", "refuse"])
def test_overlapping_conditions_on_a_continuous_column_are_scored_by_all_sequences_of_records(outside: str) -> None:
    """A histogram and a sum that lies across its cells: four kinds of records."""
    wide = nw.Schema({"x": nw.Bounded(0, 20)}, n=4, neighbours="change-one", outside=outside)
    releases = [
        release_of(nw.Sum(X.between(0, 3)), wide, nw.PureDP(2), [1.3]),
        release_of(nw.Histogram("x", edges=[2.1, 3.5]), wide, nw.PureDP(1), [2, -1, 4]),
    ]
    law = joint_likelihood(releases, WAITS)
    assert type(law.groups[0]) is WholeTables
    log_sd = np.array([0.3, 1.4])
    upto = np.stack([stats.lognorm(s, scale=np.e).cdf([2.1, 3.0, 3.5, 20.0]) for s in log_sd])
    whole = upto[:, 3:] if outside == "refuse" else np.ones((2, 1))
    chances = np.diff(np.concatenate([np.zeros((2, 1)), upto[:, :3], whole], axis=1), axis=1) / whole

    def sums(kinds: np.ndarray) -> list[list[float]]:
        count = [float(np.sum(kinds == j)) for j in range(4)]
        return [[count[0] + count[1]], [count[0], count[1] + count[2], count[3]]]

    expected = [brute_force(releases, 4, p, sums) for p in chances]
    assert law.log_likelihood({"log_sd": log_sd}) == pytest.approx(expected, abs=1e-9)


def test_records_piled_up_at_a_bound_are_a_kind_of_their_own() -> None:
    """A condition that holds at the upper bound alone counts the clamped records."""
    narrow = nw.Schema({"x": nw.Bounded(0, 2)}, n=3, neighbours="change-one", outside="clamp")
    releases = [
        release_of(nw.Mean(X.between(2, 5), X.between(0, 1)), narrow, nw.GaussianDP(3), [0.5, 0.2]),
    ]
    law = joint_likelihood(releases, nw.Normal(mean=stats.norm(0, 1), sd=1))
    assert type(law.groups[0]) is WholeTables
    mean = np.array([-0.4, 2.2])
    upto = stats.norm.cdf([[1.0], [2.0]] - mean)
    chances = np.stack([upto[0], upto[1] - upto[0], 1 - upto[1]], axis=1)

    def sums(kinds: np.ndarray) -> list[list[float]]:
        return [[float(np.sum(kinds == 2)), float(np.sum(kinds == 0))]]

    expected = [brute_force(releases, 3, p, sums) for p in chances]
    assert law.log_likelihood({"mean": mean}) == pytest.approx(expected, abs=1e-9)
