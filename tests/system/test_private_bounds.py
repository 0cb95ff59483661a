"""Bounds bought by a private quantile of a first part: priced once, clipped into the model, calibrated at the end.

Everything goes through the real table, the real ledger and `make_release`; the analyst sees the second release only and
takes its clip as given.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.evaluate.calibration import Calibration
from noisewise.release import Release

N, DRAWS = 1000, 25
WIDEST = 1440
PRIOR = stats.gamma(2, scale=2)
EPSILON = nw.PureDP(1)
x = nw.column("x")
SCHEMA = nw.Schema({"x": nw.Bounded(0, WIDEST)}, n=N, neighbours="change-one")
MEDIAN = nw.plan(nw.Quantile(x, "1/2"), SCHEMA, guarantee=EPSILON, part=(0, "1/10"))

FAMILIES: dict[str, tuple[Any, Callable[..., Any]]] = {
    "exponential": (nw.Exponential(rate=PRIOR), lambda rng, rate: rng.exponential(1 / rate, N)),
    "poisson": (nw.Poisson(rate=PRIOR), lambda rng, rate: rng.poisson(rate, N)),
}


def outward(bound: float) -> float:
    """Up to a number with one digit, and at least 1/2: readable, and no secret is in it that was not published."""
    digit = 10.0 ** math.floor(math.log10(max(bound, 0.5)))
    return min(float(WIDEST), digit * math.ceil(max(bound, 0.5) / digit))


def bought(table: nw.Table, ledger: nw.Ledger) -> float:
    """Twice the private median of the first tenth, rounded outward."""
    return outward(2 * nw.make_release(table, MEDIAN, ledger=ledger).estimate[0])


def rest(high: float, part: Any = ("1/10", 1)) -> nw.Plan:
    return nw.plan(nw.Mean(x.clip(0, high)), SCHEMA, guarantee=EPSILON, part=part)


def ranked(rng: np.random.Generator, truths: list[float], draws: list[np.ndarray]) -> Calibration:
    """Where the truth lies among as many draws, trial by trial."""
    ranks = np.array([[np.sum(own < truth)] for truth, own in zip(truths, draws, strict=True)])
    size = draws[0].size
    uniforms = (ranks + rng.random(ranks.shape)) / (size + 1)
    known = np.array(truths)[:, None]
    return Calibration(("rate",), ranks, uniforms, known, np.full(len(truths), np.nan), (), size, 0, 0.0, "bounds")


def naive_conjugate(rng: np.random.Generator, release: Release, family: str) -> np.ndarray:
    """What follows if the clipped, noisy mean is taken for the mean of the records."""
    n, total = release.schema.n, max(float(release.estimate[0]) * release.schema.n, 1e-6)
    shape, rate = (2 + n, 0.5 + total) if family == "exponential" else (2 + total, 0.5 + n)
    return rng.gamma(shape, 1 / rate, 4 * DRAWS)


@pytest.mark.parametrize(
    ("family", "trials"),
    [
        pytest.param("exponential", 40, id="exponential"),
        pytest.param("exponential", 200, id="exponential, many", marks=pytest.mark.slow),
        pytest.param("poisson", 200, id="poisson, many", marks=pytest.mark.slow),
    ],
)
def test_posteriors_under_bought_bounds_are_calibrated_and_only_with_clip_and_noise_inside(
    family: str, trials: int, tmp_path: Path
) -> None:
    population, records = FAMILIES[family]
    rng = np.random.default_rng()
    truths, posteriors, naive = [], [], []
    for trial in range(trials):
        rate = float(PRIOR.rvs(random_state=rng))
        table = nw.Table.read({"x": records(rng, rate)}, SCHEMA)
        ledger = nw.Ledger.open(tmp_path / f"{trial}.ledger", limit=EPSILON)
        release = nw.make_release(table, rest(bought(table, ledger)), ledger=ledger)
        posterior = nw.infer(release, population, draws=DRAWS, seed=trial, progress=False)
        truths.append(rate)
        posteriors.append(posterior.draws["rate"].ravel())
        naive.append(naive_conjugate(rng, release, family))
    assert ranked(rng, truths, posteriors).is_calibrated()
    assert not ranked(rng, truths, naive).is_calibrated()


def test_two_parts_cost_what_one_does_and_the_same_records_cost_twice(tmp_path: Path) -> None:
    table = nw.Table.read({"x": np.random.default_rng(1).exponential(2.5, N)}, SCHEMA)
    ledger = nw.Ledger.open(tmp_path / "one.ledger", limit=EPSILON)
    high = bought(table, ledger)
    nw.make_release(table, rest(high), ledger=ledger)
    assert ledger.spent() == EPSILON
    for overlapping in (None, (0, "1/10"), (0, 1), ("1/20", "1/5")):
        with pytest.raises(nw.BudgetExceeded):
            nw.make_release(table, rest(high, overlapping), ledger=ledger)
    assert ledger.spent() == EPSILON

    wider = nw.Ledger.open(tmp_path / "two.ledger", limit=nw.PureDP(2))
    nw.make_release(table, rest(bought(table, wider), None), ledger=wider)
    assert wider.spent() == nw.PureDP(2)


def test_the_release_carries_the_bought_bound_and_the_quantile_of_other_records_tells_more(tmp_path: Path) -> None:
    table = nw.Table.read({"x": np.random.default_rng(1).exponential(2.5, N)}, SCHEMA)
    ledger = nw.Ledger.open(tmp_path / "l.ledger", limit=EPSILON)
    quantile = nw.make_release(table, MEDIAN, ledger=ledger)
    release = nw.make_release(table, rest(8.0), ledger=ledger)
    release.save(tmp_path / "waits.release.json")
    loaded = Release.load(tmp_path / "waits.release.json")
    assert str(loaded.statistic) == "mean(clip(x, 0, 8))"
    assert (loaded.schema.n, quantile.schema.n) == (900, 100)
    population = FAMILIES["exponential"][0]
    alone, both = (nw.infer(given, population, progress=False, draws=250) for given in ([loaded], [quantile, loaded]))
    assert both.sd["rate"] < 1.1 * alone.sd["rate"]  # disjoint parts: the law of the rest, given the bound, and its own
    assert abs(both.mean["rate"] - alone.mean["rate"]) < 6 * alone.sd["rate"]


def test_a_quantile_is_not_learnt_from_beside_what_it_may_have_set_the_bounds_of(tmp_path: Path) -> None:
    table = nw.Table.read({"x": np.random.default_rng(1).exponential(2.5, N)}, SCHEMA)
    ledger = nw.Ledger.open(tmp_path / "l.ledger", limit=nw.PureDP(4))
    whole = nw.plan(MEDIAN.statistic, SCHEMA, guarantee=EPSILON)
    given = [nw.make_release(table, one, ledger=ledger) for one in (whole, rest(8.0, None))]
    with pytest.raises(nw.Unsupported, match="quantile"):
        nw.infer(given, FAMILIES["exponential"][0], progress=False)


def test_a_quantile_holds_where_fifty_over_epsilon_records_lie_above_it_and_is_lost_where_few_do(
    tmp_path: Path,
) -> None:
    waits = np.random.default_rng(1).exponential(2.5, N)
    table = nw.Table.read({"x": waits}, SCHEMA)
    names = itertools.count()

    def buy(q: str) -> float:
        ledger = nw.Ledger.open(tmp_path / f"{next(names)}.ledger", limit=EPSILON)
        return nw.make_release(table, nw.plan(nw.Quantile(x, q), SCHEMA, guarantee=EPSILON), ledger=ledger).estimate[0]

    # Above five times the quantile: at most WIDEST e^(-25 + ...) of the mass, some 1e-7 of all draws.
    assert np.quantile(waits, 0.95) / 2 < buy("0.95") < 5 * np.quantile(waits, 0.95)
    # Two records above it: nineteen draws in twenty come from the empty range. None of twelve: odds of 1e-15.
    assert max(buy("0.998") for _ in range(12)) > 5 * np.quantile(waits, 0.998)
