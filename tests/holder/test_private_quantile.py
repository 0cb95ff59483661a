"""The exponential mechanism of a private quantile, as a law, draw by draw and point by point."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from curated_records import x
from goodness_of_fit import FALSE_ALARM, chi_square

import noisewise as nw
from noisewise.holder import curator
from noisewise.lattice import lattice_for
from noisewise.laws import ExponentialQuantile


def coarse_quantile(values: Sequence[float], q: str, epsilon: object, top: int = 8) -> tuple[nw.Table, nw.Plan]:
    """The private quantile on the whole numbers 0..top, where every point can be enumerated."""
    schema = nw.Schema({"x": nw.Bounded(0, top)}, n=len(values), neighbours="change-one")
    plan = nw.plan(nw.Quantile(x, q), schema, guarantee=nw.PureDP(epsilon))
    coarse = replace(
        plan,
        law=ExponentialQuantile(plan.law.epsilon, 1.0),
        lattice=lattice_for([1.0], [(0.0, float(top), 0.0)]),
    )
    return nw.Table.read(pd.DataFrame({"x": values}), schema), coarse


def exponential_law(values: Sequence[float], q: str, epsilon: float, top: int = 8, *, closed: bool = False) -> Any:
    """P(y) over y = 0..top by the definition; `closed` is the planted fault #{x <= y}."""
    target = float(Fraction(q) * len(values))
    ranks = [sum(v <= point if closed else v < point for v in values) for point in range(top + 1)]
    weights = np.exp(-epsilon / 2 * np.abs(np.array(ranks) - target))
    return weights / weights.sum()


SMALL = [
    ([3.0], "0.5", 2),
    ([1.0, 1.0, 6.0], "0.5", 3),
    ([0.0, 2.0, 2.0, 5.0, 8.0], "0.3", 2),
    ([0.0, 2.0, 2.0, 5.0, 8.0], "0.99", 1),
    ([8.0, 8.0, 8.0, 8.0], "0.1", 4),
    ([1.0, 3.0, 4.0, 6.0, 7.0], "0.6", 20),
]


@pytest.mark.parametrize(("values", "q", "epsilon"), SMALL)
def test_private_quantiles_have_the_enumerated_exponential_law(values: list[float], q: str, epsilon: int) -> None:
    table, plan = coarse_quantile(values, q, epsilon)
    draw = curator._drawer(table, plan)
    points = [draw()[0] for _ in range(4000)]
    counts = [points.count(point) for point in range(9)]
    assert sum(counts) == 4000
    assert chi_square(counts, exponential_law(values, q, epsilon)) > FALSE_ALARM


@pytest.mark.parametrize("nearby", [0, 1])
def test_private_quantiles_have_the_same_law_when_far_ranks_go_through_rejection(
    nearby: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, q, epsilon = [0.0, 1.0, 2.0, 5.0, 7.0], "0.5", Fraction(1, 2)
    table, plan = coarse_quantile(values, q, epsilon)
    monkeypatch.setattr(curator, "NEARBY_RANKS", nearby)
    asked: list[int] = []

    def by_hand(rows: object, feature: object, lattice: object, point: int) -> int:
        asked.append(point)
        return sum(v < point for v in values)

    # The database's own answer to a rank is tested in test_evaluate.py, and once more below.
    monkeypatch.setattr(curator.IbisRows, "rank_below", by_hand)
    draw = curator._drawer(table, plan)
    points = [draw()[0] for _ in range(6000)]
    counts = [points.count(point) for point in range(9)]
    assert len(asked) > 1000
    assert chi_square(counts, exponential_law(values, q, 0.5)) > FALSE_ALARM


def test_the_rejection_asks_the_database_for_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [0.0, 1.0, 2.0, 5.0, 7.0]
    table, plan = coarse_quantile(values, "0.5", 1)
    monkeypatch.setattr(curator, "NEARBY_RANKS", 0)
    draw = curator._drawer(table, plan)
    points = [draw()[0] for _ in range(100)]
    counts = [points.count(point) for point in range(9)]
    assert chi_square(counts, exponential_law(values, "0.5", 1)) > FALSE_ALARM


def test_the_quantile_test_catches_a_closed_count_a_doubled_epsilon_and_a_missing_rejection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: 4000 draws of each wrong law are rejected by the same test."""
    values, q, epsilon = [0.0, 2.0, 2.0, 5.0, 8.0], "0.3", 2
    law = exponential_law(values, q, epsilon)
    rng = np.random.default_rng()
    for wrong in (exponential_law(values, q, epsilon, closed=True), exponential_law(values, q, 2 * epsilon)):
        assert chi_square(rng.multinomial(4000, wrong), law) < FALSE_ALARM
    table, plan = coarse_quantile(values, q, epsilon)
    monkeypatch.setattr(curator, "NEARBY_RANKS", 0)
    monkeypatch.setattr(curator.IbisRows, "rank_below", lambda *_: 1)  # always kept, as if at the largest density
    draw = curator._drawer(table, plan)
    points = [draw()[0] for _ in range(4000)]
    assert chi_square([points.count(point) for point in range(9)], law) < FALSE_ALARM


def test_a_quantile_on_the_fine_lattice_weighs_the_intervals_between_records(tmp_path: Path) -> None:
    values, epsilon = [-2.0, 0.5, 0.5, 3.0, 6.0], 2.0
    schema = nw.Schema({"x": nw.Bounded(-3, 7)}, n=5, neighbours="change-one")
    plan = nw.plan(nw.Quantile(x, "0.4"), schema, guarantee=nw.PureDP(2))
    draw = curator._drawer(nw.Table.read(pd.DataFrame({"x": values}), schema), plan)
    step = plan.law.step
    points = np.array([draw()[0] for _ in range(4000)]) * step
    ends = [-3.0, *values, 7.0]
    # Each interval in two halves, so that uniformity inside it is tested as well.
    cuts = sorted({*ends, *((a + b) / 2 for a, b in itertools.pairwise(ends))})
    weights = [
        (b - a) * math.exp(-epsilon / 2 * abs(sum(v < (a + b) / 2 for v in values) - 2.0))
        for a, b in itertools.pairwise(cuts)
    ]
    counts, _ = np.histogram(points, bins=np.array(cuts) + np.array([0] + [step / 2] * (len(cuts) - 1)))
    assert counts.sum() == 4000
    assert chi_square(counts.tolist(), np.array(weights) / sum(weights)) > FALSE_ALARM
