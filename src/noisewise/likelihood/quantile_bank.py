"""A private quantile by the exponential mechanism: its law given theta, records averaged out.

A lattice point y is published with probability w(#{x < y})/Z(x), w(i) = exp(-(epsilon/2) |i - q n|), and
    Z(x) = sum_i w(i) (s_{i+1} - s_i)/step,    s_1 <= .. <= s_n the sorted values, s_0 and s_{n+1} the bounds.
Z depends on the records and stays inside the mean. Of n records r lie below y with a binomial chance, so
    p(y | theta) = sum_r Binomial(r; n, F(y)) w(r) E[1/Z | r],       F(y) = P(feature < y | theta),
and given r the records beside y are order statistics of uniforms below and above F(y):
    u_(r), u_(i)/u_(r), ..   and the like above, products of independent Beta ratios, free of theta,
read through the feature's quantile function. The sum over r is exact. E[1/Z | r] is taken by randomised quasi-Monte
Carlo at some r (all near q n, fewer farther off) and interpolated, on a logarithmic scale; the same base draws serve
all theta, so log p is smooth. Far from q n, where w has fallen, the s_i are read at some ranks only, and the gaps
between two of them share the average of w. Eight scrambles give the Monte Carlo error, and the bank grows until that
is about half a per cent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from scipy.special import betaincinv, gammaln, polygamma

from noisewise.errors import Unsupported
from noisewise.laws import quantile_law
from noisewise.likelihood.bank_law import BankLaw
from noisewise.likelihood.feature_quantile import FeatureQuantile, Table, inverse
from noisewise.likelihood.order_bank import expected_logit, plain_table, read_all
from noisewise.likelihood.scrambles import N_SCRAMBLES, log_mean, log_sum, net
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import AnyPopulation
from noisewise.release import NoisyValue
from noisewise.statistics.order import quantile_statistic
from noisewise.types import Floats, Ints

__all__ = ["QuantileBank", "log_normaliser"]

FEWEST, MOST = 16, 128  # base draws in one scramble
NEAR = 6  # ranks on each side of the target that are all looked at
FINE, GROWTH = 0.15, 0.25  # a block of ranks: in e-folds of w, and beside its distance from the target
FALL = 25.0  # logarithms below the largest term that are left out
MOST_RECORDS = 10**6
TINY = 1e-250


class Beside(NamedTuple):
    """Base draws of the records beside y, where r of n lie below it; nodes from the lowest rank to the highest."""

    rank: Ints  # (W,) of the nodes
    below: int  # how many of them are below y
    log_ratio: Floats  # (B, W): log u/F below, log (1 - u)/(1 - F) above
    log_weight: Floats  # (W + 1,): log of the average of w over the gaps before, between and after the nodes


@dataclass(frozen=True)
class QuantileBank(BankLaw):
    """The likelihood of one private quantile."""

    release: NoisyValue
    population: AnyPopulation
    target: float  # q n
    rate: float  # epsilon/2
    step: float
    rank: int
    quantile: FeatureQuantile
    bounds: tuple[float, float]
    knots: Ints
    beside: tuple[Beside, ...]
    seed: int
    tried: Theta | None = None

    @classmethod
    def of(cls, release: NoisyValue, population: AnyPopulation, *, seed: int = 0, size: int | None = None) -> Self:
        """`size` is the number of base draws in one scramble; by default 16 to 128, by the error they leave."""
        if size is not None:
            return cls._of(release, population, seed, size)
        return cls.grown(lambda some: cls._of(release, population, seed, some), fewest=FEWEST, most=MOST)

    @classmethod
    def _of(cls, release: NoisyValue, population: AnyPopulation, seed: int, size: int) -> Self:
        schema, n = release.schema, release.schema.largest_n
        statistic, law = quantile_statistic(release.statistic), quantile_law(release.law)
        if n > MOST_RECORDS:
            raise Unsupported(f"A private quantile of more than {MOST_RECORDS} records is not scored.")
        target, rate, rank = float(statistic.q * n), float(law.epsilon) / 2, statistic.rank(n)
        spread = math.sqrt(float(polygamma(1, rank) + polygamma(1, n + 1 - rank)))
        centre = expected_logit(rank, n)
        quantile = FeatureQuantile.of(population, schema, statistic.feature, centre=centre, spread=spread)
        ends = statistic.bounds(schema)
        rng = np.random.default_rng(seed)
        nodes = _ranks(rank, n, least=1, fine=max(1.0, FINE / rate))
        knots = _ranks(rank, n, least=0, fine=1.0)
        points = np.concatenate([net(rng, size, 4 + 2 * nodes.size) for _ in range(N_SCRAMBLES)])
        log_w = -rate * np.abs(np.arange(n + 1) - target)
        beside = tuple(_beside(int(r), nodes, points, log_w) for r in knots)
        return cls(release, population, target, rate, law.step, rank, quantile, ends, knots, beside, seed)

    @property
    def n(self) -> int:
        return self.release.schema.largest_n

    @property
    def releases(self) -> tuple[NoisyValue, ...]:
        return (self.release,)

    @cached_property
    def because(self) -> str:
        return (
            f"exact law of the exponential mechanism, its normaliser averaged over a bank of "
            f"{len(self.beside[0].log_ratio)} base draws ({self.error_words})"
        )

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """The value at the target's rank given y and theta: r by its chance, then a base draw by its 1/Z."""
        drawn = np.empty((rows_of(theta), 1))
        for k, table in enumerate(self.quantile.tables(theta)):
            r, log_r, logs, values = self._terms(table)
            mean = np.array([log_mean(one[None])[0] for one in logs.values()])
            chances = log_r + np.interp(r, list(logs), mean)
            chosen = r[_picked(rng, chances)]
            knot = min(logs, key=lambda one: abs(one - chosen))
            own = self.beside[int(np.searchsorted(self.knots, knot))]
            place = int(np.searchsorted(own.rank, self.rank))
            drawn[k, 0] = values[knot][_picked(rng, logs[knot]), place]
        return drawn

    def _scramble_logs(self, theta: Theta) -> Array:
        """log p of each scramble alone, (K, N_SCRAMBLES); NaN where theta gives no law."""
        found = np.full((rows_of(theta), N_SCRAMBLES), np.nan)
        for k, table in enumerate(self.quantile.tables(theta)):
            if np.all(np.isfinite(table.values)) and not np.any(np.isnan(table.edges)):
                r, log_r, logs, _ = self._terms(table)
                each = np.stack([log_mean(one.reshape(N_SCRAMBLES, -1)) for one in logs.values()])
                at = np.array([np.interp(r, list(logs), each[:, j]) for j in range(N_SCRAMBLES)]) + log_r
                top = at.max()
                found[k] = np.log(np.exp(at - top).sum(axis=1)) + top
        return found

    def _terms(self, table: Table) -> tuple[Floats, Floats, dict[int, Floats], dict[int, Floats]]:
        """The r that matter with log Binomial(r) w(r); log 1/Z (B,) and the values (B, W) at the knots beside them."""
        y = self.release.value[0] * self.step
        ell = float(inverse(y, *plain_table(table)))
        log_below, log_above = -float(np.logaddexp(0.0, -ell)), -float(np.logaddexp(0.0, ell))
        share, n = math.exp(log_below), self.n
        reach = 10 * math.sqrt(n * share * (1 - share)) + 50
        first = max(0, int(min(share * n, self.target) - reach))
        last = min(n, int(max(share * n, self.target) + reach) + 1)
        r = np.arange(first, last + 1, dtype=float)
        log_r = gammaln(n + 1) - gammaln(r + 1) - gammaln(n - r + 1) + r * log_below + (n - r) * log_above
        log_r = log_r - self.rate * np.abs(r - self.target)
        kept = np.flatnonzero(log_r > log_r.max() - FALL)
        r, log_r = r[kept], log_r[kept]
        low, high = np.searchsorted(self.knots, r[0], side="right") - 1, np.searchsorted(self.knots, r[-1])
        logs, values = {}, {}
        for knot in range(int(low), int(high) + 1):
            own = self.beside[knot]
            values[int(self.knots[knot])] = at = self._values(table, own, log_below, log_above)
            gaps = np.diff(at, axis=1, prepend=self.bounds[0], append=self.bounds[1])
            logs[int(self.knots[knot])] = -log_normaliser(np.maximum(gaps, 0.0), own.log_weight) + math.log(self.step)
        return r, log_r, logs, values

    def _values(self, table: Table, own: Beside, log_below: float, log_above: float) -> Floats:
        """The feature (B, W) of the records at the nodes."""
        ell = np.empty(own.log_ratio.shape)
        down, up = log_below + own.log_ratio[:, : own.below], log_above + own.log_ratio[:, own.below :]
        ell[:, : own.below] = down - np.log(-np.expm1(np.minimum(down, -1e-300)))
        ell[:, own.below :] = np.log(-np.expm1(np.minimum(up, -1e-300))) - up
        return read_all(ell.ravel(), *plain_table(table)).reshape(ell.shape)


def _picked(rng: np.random.Generator, logs: Floats) -> int:
    upto = np.cumsum(np.exp(logs - logs.max()))
    return int(np.searchsorted(upto, upto[-1] * rng.random(), side="right"))


def _ranks(rank: int, n: int, *, least: int, fine: float) -> Ints:
    """Ranks from the least to n: close together near the target, ever fewer farther off, and the ends."""
    found = {rank, least, n}
    for side in (-1, 1):
        distance = 0.0
        while least <= rank + side * round(distance) <= n:
            found.add(rank + side * round(distance))
            distance += fine if distance < NEAR * fine else max(fine, GROWTH * distance)
    return np.array(sorted(found), dtype=np.int64)


def log_normaliser(gaps: Floats, log_weight: Floats) -> Floats:
    """log of the weighted sum of the gaps, (B,); on the logarithmic scale where only far gaps are open."""
    total = gaps @ np.exp(log_weight)
    found = np.log(np.maximum(total, TINY))
    lost = np.flatnonzero(total < TINY)
    if lost.size:
        with np.errstate(divide="ignore"):
            found[lost] = log_sum(np.log(gaps[lost]) + log_weight)
    return found


def _beside(r: int, nodes: Ints, points: Floats, log_w: Floats) -> Beside:
    """Base draws at the nodes and at the two records next to y, where r are below it."""
    n = len(log_w) - 1
    below = np.unique(np.append(nodes[nodes < r], [r] if r > 0 else np.empty(0, int)))[::-1]
    above = np.unique(np.append(nodes[nodes > r + 1], [r + 1] if r < n else np.empty(0, int)))
    size = len(points)
    sides = []
    for ranks, count, column in ((below, r, 0), (n + 1 - above, n - r, 1)):
        # Of `count` uniforms the i-th smallest; the next lower one of those below it, and so on: Beta ratios.
        before = np.append(count + 1, ranks[:-1])
        columns = np.append(column, 2 + np.arange(1, ranks.size) * 2 - 1 + column)
        uniforms = points[:, columns[: ranks.size]]
        ratio = betaincinv(ranks[None], (before - ranks)[None], uniforms) if ranks.size else np.empty((size, 0))
        sides.append(np.cumsum(np.log(np.maximum(ratio, 1e-300)), axis=1))
    rank = np.concatenate([below[::-1], above]).astype(np.int64)
    edges = np.concatenate([[0], rank, [n + 1]])
    log_weight = np.logaddexp.reduceat(log_w, edges[:-1]) - np.log(np.diff(edges))
    return Beside(rank, below.size, np.concatenate([sides[0][:, ::-1], sides[1]], axis=1), log_weight)
