"""A private quantile by the exponential mechanism: its law given theta, records averaged out.

A lattice point y is published with probability w(#{x < y})/Z(x), w(i) = exp(-(epsilon/2) |i - q n|), and
    Z(x) = sum_i w(i) (s_{i+1} - s_i)/step,    s_1 <= .. <= s_n the sorted values, s_0 + step and s_{n+1} the bounds.
Z depends on the records and stays inside the mean. Of n records r lie below y with a binomial chance, so
    p(y | theta) = sum_r Binomial(r; n, F(y)) w(r) E[1/Z | r],       F(y) = P(feature < y | theta),
and given r the records beside y are order statistics of uniforms below and above F(y):
    u_(r), u_(i)/u_(r), ..   and the like above, products of independent Beta ratios, free of theta,
read through the feature's quantile function. The sum over r is exact. E[1/Z | r] is taken by randomised quasi-Monte
Carlo at some r (all near q n, fewer farther off, more where it bends) and interpolated, on a logarithmic scale; the
same base draws serve all theta, so log p is smooth. Far from q n, where w has fallen, the s_i are read at some ranks
only, and the gaps between two of them share the average of w; where records between are equal, which of them weighs
what is drawn, too (`tied_gaps`). Where a clamp leaves no gap near q n, the ranks that are all read are those around
the nearest gap that is open. The lower bound itself is a point, so the first gap is one step longer: where almost
everybody is at that bound, it may be the likeliest of all. Eight scrambles give the Monte Carlo error, and the bank
grows until that is about half a per cent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from scipy.special import betaincinv, expit, gammaln, polygamma

from noisewise.errors import Unsupported
from noisewise.laws import quantile_law
from noisewise.likelihood.bank_law import BankLaw
from noisewise.likelihood.feature_quantile import FeatureQuantile, Table, inverse
from noisewise.likelihood.order_bank import expected_logit, plain_table, read_all
from noisewise.likelihood.scrambles import N_SCRAMBLES, log_mean, log_sum, net
from noisewise.likelihood.tied_gaps import Points, Shape, tied_weights
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import AnyPopulation
from noisewise.release import NoisyValue
from noisewise.statistics.order import quantile_statistic
from noisewise.types import Floats, Ints

__all__ = ["QuantileBank", "log_normaliser"]

FEWEST, MOST = 16, 128  # base draws in one scramble
CLOSE = 64  # ranks read on each side of the first open gap, where that is not near the target
NEAR = 6  # ranks on each side of the target that are all looked at
FINE, GROWTH = 0.15, 0.25  # a block of ranks: in e-folds of w, and beside its distance from the target
BEND = 0.005  # error of log E[1/Z | r] between two r above which it is taken at one more between them
MOST_KEPT = 2**24  # base draws kept, of all r together
FALL = 25.0  # logarithms below the largest term that are left out
MOST_RECORDS = 10**6
TINY = 1e-250


class Place(NamedTuple):
    """How many records lie below y, and around which rank the records are all read, and how far on each side."""

    r: int
    centre: int
    reach: int


class Beside(NamedTuple):
    """Base draws of the records beside y, where r of n lie below it; nodes from the lowest rank to the highest."""

    rank: Ints  # (W,) of the nodes
    below: int  # how many of them are below y
    log_ratio: Floats  # (B, W): log u/F below, log (1 - u)/(1 - F) above
    log_weight: Floats  # (W + 1,): log of the average of w over the gaps before, between and after the nodes
    uniform: Floats  # (B, W + 1): one for each of these gaps, for which of the records there are equal


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
    bounds: tuple[float, float]  # below the lowest point by a step, and the highest point
    knots: Ints
    points: Floats  # (B, ..) of all scrambles
    seed: int
    tried: Theta | None = None
    made: dict[Place, Beside] = field(default_factory=dict)  # made when first needed

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
        low, high = statistic.bounds(schema)
        rng = np.random.default_rng(seed)
        nodes = _ranks(rank, n, least=1, fine=max(1.0, FINE / rate)).size + 2 * CLOSE
        knots = _ranks(rank, n, least=0, fine=1.0)
        points = np.concatenate([net(rng, size, 7 + 3 * nodes) for _ in range(N_SCRAMBLES)])
        ends = low - law.step, high
        return cls(release, population, target, rate, law.step, rank, quantile, ends, knots, points, seed)

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
            f"{len(self.points)} base draws ({self.error_words})"
        )

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """The value at the target's rank given y and theta: r by its chance, then a base draw by its 1/Z."""
        drawn = np.empty((rows_of(theta), 1))
        for k, table in enumerate(self.quantile.tables(theta)):
            r, log_r, logs = self._terms(table)
            mean = np.array([log_mean(one[None])[0] for one in logs.values()])
            chosen = r[_picked(rng, log_r + np.interp(r, list(logs), mean))]
            knot = min(logs, key=lambda one: abs(one - chosen))
            log_below, log_above = _log_tails(self._released_at(table))
            own = self._beside(self._place(table, knot, math.exp(log_below)))
            place = _places(own, log_below, log_above)[:, int(np.searchsorted(own.rank, self.rank))]
            drawn[k, 0] = read_all(place, *plain_table(table))[_picked(rng, logs[knot])]
        return drawn

    def _scramble_logs(self, theta: Theta) -> Array:
        """log p of each scramble alone, (K, N_SCRAMBLES); NaN where theta gives no law."""
        found = np.full((rows_of(theta), N_SCRAMBLES), np.nan)
        for k, table in enumerate(self.quantile.tables(theta)):
            if np.all(np.isfinite(table.values)) and not np.any(np.isnan(table.edges)):
                r, log_r, logs = self._terms(table)
                each = np.stack([log_mean(one.reshape(N_SCRAMBLES, -1)) for one in logs.values()])
                at = np.array([np.interp(r, list(logs), each[:, j]) for j in range(N_SCRAMBLES)]) + log_r
                top = at.max()
                found[k] = np.log(np.exp(at - top).sum(axis=1)) + top
        return found

    def _terms(self, table: Table) -> tuple[Floats, Floats, dict[int, Floats]]:
        """The r that matter with log Binomial(r) w(r); log 1/Z (B,) at knots beside them, in rising order."""
        log_below, log_above = _log_tails(self._released_at(table))
        share, n = math.exp(log_below), self.n
        reach = 10 * math.sqrt(n * share * (1 - share)) + 50
        first = max(0, int(min(share * n, self.target) - reach))
        last = min(n, int(max(share * n, self.target) + reach) + 1)
        r = np.arange(first, last + 1, dtype=float)
        log_chance = gammaln(n + 1) - gammaln(r + 1) - gammaln(n - r + 1) + r * log_below + (n - r) * log_above
        log_r = log_chance - self.rate * np.abs(r - self.target)
        kept = np.flatnonzero(log_r > log_r.max() - FALL)
        if table.is_step or self._place(table, round(share * n), share).reach:  # 1/Z may rise as fast as w(r) falls
            likely = np.flatnonzero(log_chance > log_chance.max() - FALL)
            kept = np.arange(min(kept[0], likely[0]), max(kept[-1], likely[-1]) + 1)
        r, log_r = r[kept], log_r[kept]
        low, high = np.searchsorted(self.knots, r[0], side="right") - 1, np.searchsorted(self.knots, r[-1])
        wanted = [int(knot) for knot in self.knots[low : high + 1]]
        logs: dict[int, Floats] = {}
        while wanted:
            for knot in wanted:
                own = self._beside(self._place(table, knot, share))
                logs[knot] = self._log_inverse(table, own, log_below, log_above)
            logs = dict(sorted(logs.items()))
            wanted = _bent(r, log_r, logs)
        return r, log_r, logs

    def _released_at(self, table: Table) -> float:
        """ell of F(y)."""
        return float(inverse(self.release.value[0] * self.step, *plain_table(table)))

    def _place(self, table: Table, r: int, share: float) -> Place:
        """Where to read the records, given r: around the target, or around the nearest gap that a clamp leaves open."""
        if table.is_step:
            return Place(r, self.rank, 0)
        nearest, spread = self.target, 0.0
        for end, side in ((table.least_until, 1), (table.largest_from, -1)):
            at = float(expit(end))
            within = at / share if at < share else (at - share) / (1 - share) if share < 1 else 0.0
            start, m = (0, r) if at < share else (r, self.n - r)
            closed, sd = start + m * within, math.sqrt(m * within * (1 - within))
            if side * (closed - self.target) > -4 * sd - 1:
                nearest, spread = side * max(side * nearest, side * closed), max(spread, sd, 1.0)
        if not spread:
            return Place(r, self.rank, 0)
        reach = 1 << math.ceil(math.log2(3 * spread + NEAR))
        return Place(r, min(max(round(nearest / reach * 4) * reach // 4, 1), self.n), reach)

    def _beside(self, place: Place) -> Beside:
        """Base draws at a place; those used longest ago make room."""
        found = self.made.pop(place, None)
        if found is None:
            fine = max(1.0, FINE / self.rate, place.reach / CLOSE)
            nodes = np.union1d(_ranks(place.centre, self.n, least=1, fine=fine, reach=place.reach), [self.rank])
            log_w = -self.rate * np.abs(np.arange(self.n + 1) - self.target)
            found = _beside(place.r, nodes, self.points, log_w)
        while self.made and (len(self.made) + 1) * found.log_ratio.size > MOST_KEPT:
            self.made.pop(next(iter(self.made)), None)
        self.made[place] = found
        return found

    def _log_inverse(self, table: Table, own: Beside, log_below: float, log_above: float) -> Floats:
        """log 1/Z (B,) given r."""
        place = _places(own, log_below, log_above)
        at = read_all(place.ravel(), *plain_table(table)).reshape(place.shape)
        gaps = np.maximum(np.diff(at, axis=1, prepend=self.bounds[0], append=self.bounds[1]), 0.0)
        return math.log(self.step) - log_normaliser(gaps, self._weights(table, own, place, at))

    def _weights(self, table: Table, own: Beside, place: Floats, at: Floats) -> Floats:
        """log of the average of w over each gap, (W + 1,), or (B, W + 1) where records may be equal."""
        flat = table.least_until, table.largest_from
        if not table.is_step and flat[0] <= place[:, 0].min() and place[:, -1].max() <= flat[1]:
            return own.log_weight
        jumps, heights = (table.edges, np.diff(table.values)) if table.is_step else (np.empty(0), np.empty(0))
        shape, points = Shape(jumps, heights, flat), Points(*self.bounds, self.target, self.rate)
        return tied_weights(at, place, own.rank, own.below, own.uniform, own.log_weight, shape, points)


def _log_tails(ell: float) -> tuple[float, float]:
    """log F and log (1 - F) at ell = logit F."""
    return -float(np.logaddexp(0.0, -ell)), -float(np.logaddexp(0.0, ell))


def _bent(r: Floats, log_r: Floats, logs: dict[int, Floats]) -> list[int]:
    """Ranks halfway between knots, where log E[1/Z | r] bends so much that a straight line would be seen to be off."""
    knots = np.array(list(logs))
    mean = np.array([log_mean(one[None])[0] for one in logs.values()])
    slope = np.diff(mean) / np.diff(knots)
    turn = np.abs(np.diff(slope))
    off = np.maximum(np.append(turn, 0.0), np.append(0.0, turn)) * np.diff(knots) / 8
    weight = log_r + np.interp(r, knots, mean)
    top = weight.max()
    found = []
    for left, right, by in zip(knots[:-1], knots[1:], off, strict=True):
        own = weight[(r > left) & (r < right)]
        if own.size and by * math.exp(min(0.0, own.max() - top)) > BEND:
            found.append(int(left + right) // 2)
    return found


def _places(own: Beside, log_below: float, log_above: float) -> Floats:
    """ell (B, W) of the records at the nodes."""
    ell = np.empty(own.log_ratio.shape)
    down, up = log_below + own.log_ratio[:, : own.below], log_above + own.log_ratio[:, own.below :]
    ell[:, : own.below] = down - np.log(-np.expm1(np.minimum(down, -1e-300)))
    ell[:, own.below :] = np.log(-np.expm1(np.minimum(up, -1e-300))) - up
    return ell


def _picked(rng: np.random.Generator, logs: Floats) -> int:
    upto = np.cumsum(np.exp(logs - logs.max()))
    return int(np.searchsorted(upto, upto[-1] * rng.random(), side="right"))


def _ranks(rank: int, n: int, *, least: int, fine: float, reach: float = 0.0) -> Ints:
    """Ranks from the least to n: close together within reach of one, ever fewer farther off, and the ends."""
    found = {rank, least, n}
    for side in (-1, 1):
        distance = 0.0
        while least <= rank + side * round(distance) <= n:
            found.add(rank + side * round(distance))
            distance += fine if distance < max(NEAR * fine, reach) else max(fine, GROWTH * (distance - reach))
    return np.array(sorted(found), dtype=np.int64)


def log_normaliser(gaps: Floats, log_weight: Floats) -> Floats:
    """log of the sum of the gaps by their weights, (B,); on the logarithmic scale where only far gaps are open."""
    total = np.sum(gaps * np.exp(log_weight), axis=-1)
    found = np.log(np.maximum(total, TINY))
    lost = np.flatnonzero(total < TINY)
    if lost.size:
        with np.errstate(divide="ignore"):
            found[lost] = log_sum(np.log(gaps[lost]) + np.broadcast_to(log_weight, gaps.shape)[lost])
    return np.asarray(found)


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
    uniform = points[:, -(rank.size + 1) :]
    return Beside(rank, below.size, np.concatenate([sides[0][:, ::-1], sides[1]], axis=1), log_weight, uniform)
