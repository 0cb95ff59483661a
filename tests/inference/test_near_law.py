"""A quick law near a slow one proposes: draws are from the slow one, which is asked little more than once a draw."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from made_releases import release_of
from scipy import stats

import noisewise as nw
from noisewise.inference.exact import exact
from noisewise.inference.target import Target
from noisewise.inference.transform import Transform
from noisewise.likelihood.bank import RecordsBank
from noisewise.likelihood.count_models import TableModel
from noisewise.likelihood.integrated_noise import IntegratedNoise
from noisewise.likelihood.joint_sum import JointSum
from noisewise.likelihood.whole_tables import WholeTables
from noisewise.populations.parameters import Support

ALARM = 1e-6
X, S = nw.column("x"), nw.column("s")
LINE = Support(-np.inf, np.inf)


class Counted:
    """A likelihood of two numbers, and how many rows it was asked about."""

    def __init__(self, mean: float, sd: float) -> None:
        self.mean, self.sd, self.rows = mean, sd, 0

    def __call__(self, theta: dict[str, np.ndarray]) -> np.ndarray:
        self.rows += len(theta["a"])
        return stats.norm.logpdf(theta["a"], self.mean, self.sd) + stats.norm.logpdf(theta["b"], 0, 1)


def target_of(likelihood: Counted) -> Target:
    prior = stats.norm(0, 3)

    def draw(rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
        return {name: prior.rvs(size=count, random_state=rng) for name in ("a", "b")}

    return Target(
        Transform({"a": LINE, "b": LINE}),
        lambda theta: prior.logpdf(theta["a"]) + prior.logpdf(theta["b"]),
        likelihood,
        draw,
    )


def posterior_of(likelihood: Counted) -> tuple[float, float, float]:
    """log evidence, and mean and sd of `a`: conjugate."""
    variance = 1 / (1 / 9 + 1 / likelihood.sd**2)
    evidence = stats.norm.logpdf(likelihood.mean, 0, np.hypot(3, likelihood.sd)) + stats.norm.logpdf(
        0, 0, np.hypot(3, 1)
    )
    return float(evidence), variance * likelihood.mean / likelihood.sd**2, float(np.sqrt(variance))


def test_draws_are_from_the_slow_law_at_one_evaluation_for_each_proposal(rng: np.random.Generator) -> None:
    slow, near = Counted(1.0, 1.0), Counted(1.15, 1.1)
    found = exact(rng, target_of(slow), quick=target_of(near), is_quick=False, chains=4, draws=10_000)
    assert slow.rows == 4 * 10_025
    assert "which a quicker law made" in found.how
    _, mean, sd = posterior_of(slow)
    a = found.positions[:, ::5, 0].ravel()  # nearly independent
    assert stats.kstest(a, stats.norm(mean, sd).cdf).pvalue > ALARM
    assert stats.kstest(a, stats.norm(*posterior_of(near)[1:]).cdf).pvalue < 0.05  # the other law would be seen


def test_evidence_and_moments_of_a_law_that_is_close_are_better_than_those_of_draws(rng: np.random.Generator) -> None:
    slow, near = Counted(1.0, 1.0), Counted(1.02, 1.01)
    found = exact(rng, target_of(slow), quick=target_of(near), is_quick=False, chains=4, draws=1000)
    evidence, mean, sd = posterior_of(slow)
    assert found.moments is not None
    assert found.log_evidence == pytest.approx(evidence, abs=3e-3)
    assert found.moments["a"] == (pytest.approx(mean, abs=3e-3 * sd), pytest.approx(sd, rel=3e-3))
    assert abs(posterior_of(near)[1] - mean) > 0.01 * sd  # they are not those of the near law


@pytest.mark.parametrize("far", [Counted(9.0, 0.3), Counted(1.0, 0.1)], ids=["elsewhere", "too narrow"])
def test_a_law_that_is_not_near_is_not_used(rng: np.random.Generator, far: Counted) -> None:
    slow = Counted(1.0, 1.0)
    found = exact(rng, target_of(slow), quick=target_of(far), is_quick=False, chains=4, draws=1000)
    assert "quicker" not in found.how
    _, mean, sd = posterior_of(slow)
    assert stats.kstest(found.positions[:, ::5, 0].ravel(), stats.norm(mean, sd).cdf).pvalue > ALARM


def test_a_law_without_any_density_is_not_used(rng: np.random.Generator) -> None:
    slow = Counted(1.0, 1.0)
    none = replace(target_of(slow), likelihood=lambda theta: np.full(len(theta["a"]), np.nan))
    found = exact(rng, target_of(slow), quick=none, is_quick=False, chains=2, draws=300)
    assert "quicker" not in found.how


# ---- ordinary releases, by the work that they take ----

UNIT = nw.Normal(mean=stats.norm(0.5, 1), sd=stats.halfnorm(scale=1))
INCOME = nw.Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50))
LEVELS = nw.Categorical(p=stats.dirichlet([1, 1, 1]))


def schema(n: int, high: float = 1) -> nw.Schema:
    return nw.Schema({"x": nw.Bounded(0, high), "s": nw.Levels(["a", "b", "c"])}, n=n, neighbours="change-one")


def made(n: int, high: float, *parts: tuple[object, float, list[float]]) -> list[nw.Release]:
    return [release_of(what, schema(n, high), nw.PureDP(budget), value) for what, budget, value in parts]


def thirds() -> list[nw.Release]:
    """Three means of three parts of one data set of 50 records."""
    cuts, values = [Fraction(0), Fraction(1, 3), Fraction(7, 11), Fraction(1)], [0.3, 0.25, 0.32]
    found = []
    for low, high, value in zip(cuts[:-1], cuts[1:], values, strict=True):
        plan = nw.plan(nw.Mean(X), schema(50), guarantee=nw.PureDP(1), part=(low, high))
        steps = round(value * plan.divisor / plan.law.step[0])
        found.append(nw.Release.of(plan, [steps], dataset="d" * 32, ledger_head=None, simulated=True))
    return found


EDGES = [25, 50, 75, 100]
CASES = {
    "a mean and its complement": (made(50, 1, (nw.Mean(X, 1 - X), 1, [0.3, 0.69])), UNIT, JointSum),
    "three odd parts": (thirds(), UNIT, JointSum),
    "a sum of features beside them": (
        made(50, 1, (nw.Mean(X, X**2, X + X**2), 1, [0.29, 0.11, 0.42])), UNIT, IntegratedNoise,
    ),
    "yes and no as numbers": (made(60, 1, (nw.Mean(X), 2, [0.1])), UNIT, JointSum),
    "a mean and a histogram": (
        made(50, 1, (nw.Mean(X), 1, [0.27]), (nw.Histogram("x", [0.3, 0.6]), 1, [31, 16, 4])), UNIT, IntegratedNoise,
    ),
    "moments and a histogram of many": (
        made(4000, 250, (nw.Mean(X, X**2), 1, [50.1, 2620.0]), (nw.Histogram("x", EDGES), 1, [24, 1970, 1985, 22, 1])),
        INCOME, IntegratedNoise,
    ),
    "a histogram of many": (
        made(4000, 250, (nw.Histogram("x", EDGES), 1, [24, 1970, 1985, 22, 1])), INCOME, TableModel,
    ),
    "a mean and a median": (
        [
            release_of(nw.Mean(X), schema(10), nw.PureDP(1), [0.3]),
            release_of(nw.Median(X), schema(10), nw.PureDP(1), [0.27]),
        ],
        UNIT, RecordsBank,
    ),
    "a histogram and a sum of two cells": (
        made(100, 1, (nw.Histogram("s"), 1, [4, 25, 71]), (nw.Sum(S.equals("a") + S.equals("b")), 1, [27])),
        LEVELS, WholeTables,
    ),
    "shares of two levels": (
        made(20, 1, (nw.Mean(S.equals("a"), S.equals("a") + S.equals("b")), 5, [0.06, 0.3])), LEVELS, WholeTables,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if "median" in name else name for name in CASES]
)
def test_an_ordinary_release_asks_its_slow_law_little_more_than_once_a_draw(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    releases, population, law = CASES[name]
    rows, asked = [0], law.log_likelihood

    def counted(self: object, theta: dict[str, np.ndarray]) -> np.ndarray:
        # What a quicker law of the same kind is asked does not count at its full price.
        share = self.size / 4096 if hasattr(self, "size") else 1.0
        rows[0] += share * len(next(iter(theta.values())))
        return asked(self, theta)

    monkeypatch.setattr(law, "log_likelihood", counted)
    posterior = nw.infer(releases, population, seed=1, draws=100, progress=False)
    assert "slice" not in posterior.because
    assert "two parameters" in posterior.because
    per_law = len(releases) if law is JointSum else 1
    limit = 15_000 if law is WholeTables else 5000  # all tables cost tens of microseconds
    assert 0 < rows[0] < limit * per_law, f"{rows[0]} rows"
