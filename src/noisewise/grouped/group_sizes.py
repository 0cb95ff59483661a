"""How many people a group has: whole numbers that add up to n, behind noisy counts.

Shares p ~ Dirichlet(alpha) integrated out, the sizes of G groups are
    p(n_1 .. n_G) ~ prod_g w_g(n_g)  where they add up to n,      w_g(k) = Gamma(k + alpha_g)/k!,
and one size alone is beta-binomial, w_g(k) Gamma(n - k + alpha_0 - alpha_g)/(n - k)!, alpha_0 the sum of all. A noisy
count of the group is a factor P(published - k) of its own, exact.

`draw_sizes` draws all sizes together, given what each group says of its own (z_g(k), its other unknowns integrated
out), by a forward pass that adds the groups up and a backward pass that takes them apart: independent draws of
    p(n_1 .. n_G) ~ prod_g w_g(n_g) z_g(n_g),    n_1 + .. + n_G = n.
The sums are convolved by the fast Fourier transform after a common exponential tilt e^{lambda k}, which the constraint
makes harmless and which puts n in the middle of what is added up, where nothing is lost to rounding.

Where the total is unknown, with a law p(n) of its own (a prior of n, `likelihood.size_prior`, or how many records are
present where missing values were left out, `present`), the sizes of all groups have the law
    p(n_1 .. n_G) ~ p(n) n!/Gamma(n + alpha_0) prod_g w_g(n_g),      n = n_1 + .. + n_G:
one size alone is summed over the n that matter (`Totals`), and `draw_sizes` draws n first, from what the forward pass
has added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import brentq
from scipy.signal import fftconvolve
from scipy.special import gammaln

from noisewise.compilation import njit
from noisewise.types import Array, Floats, Ints

__all__ = ["CountSeen", "Rest", "SizeWindow", "Totals", "draw_sizes", "log_weight"]

FALL = 25.0  # below the largest by so much in logarithm, a size is left out
MOST_TOTALS = 257  # numbers of all records over which a group's size alone is summed
MOST_SIZES = 20_000  # of a window; beyond, every h-th size stands for h of them
FAR = 60.0  # standard deviations of a noisy count


class CountNoise(Protocol):
    """What is asked of a count's noise: independent whole steps of a law with its probabilities."""

    def log_pmf(self, k: Floats, component: int = 0) -> Floats: ...


class TotalLaw(Protocol):
    """The law of a number of records that nobody knows: a prior of n, or how many are present."""

    def log_pmf(self, n: Array | Ints) -> Floats: ...


@dataclass(frozen=True, slots=True)
class CountSeen:
    """A noisy count of everybody in the group."""

    law: CountNoise
    component: int
    value: int
    step: float
    sd: float

    def log_noise(self, n: Array | Ints) -> Floats:
        """log P(published | n people)."""
        steps = np.rint(self.value - np.asarray(n, dtype=float) / self.step)
        return self.law.log_pmf(steps, component=self.component)

    @property
    def number(self) -> float:
        return self.value * self.step


def log_weight(n: Array | Ints, alpha: float) -> Floats:
    """log w(n) = log Gamma(n + alpha) - log n!."""
    return np.asarray(gammaln(np.asarray(n, dtype=float) + alpha) - gammaln(np.asarray(n, dtype=float) + 1))


@dataclass(frozen=True, slots=True)
class Rest:
    """The noisy number of people in all groups but one, by their counts.

    Its noise is taken as normal, or as Student's with four degrees of freedom where counts have Laplace noise, whose
    tails are long: it stands in for the sum of all sizes where groups are looked at one by one.
    """

    number: float
    variance: float
    has_tails: bool

    @classmethod
    def of_each(cls, counts: Sequence[tuple[CountSeen, ...]], *, has_tails: bool) -> list[Rest | None]:
        """For each group that of all others; None where one of these has no count."""
        known = np.array([bool(own) for own in counts])
        number, variance = np.zeros(len(counts)), np.zeros(len(counts))
        for g, own in enumerate(counts):
            precision = np.array([one.sd**-2 for one in own])
            if own:
                number[g] = precision @ [one.number for one in own] / precision.sum()
                variance[g] = 1 / precision.sum()
        unknown = known.size - known.sum() - ~known
        rest = np.stack([number.sum() - number, variance.sum() - variance], axis=1)
        return [
            cls(float(a), float(v), has_tails) if not some and v > 0 else None
            for (a, v), some in zip(rest, unknown, strict=True)
        ]

    def log_noise(self, n: Array | Ints) -> Floats:
        """log of how well n people agree with it, up to a constant."""
        d = np.square(np.asarray(n, dtype=float) - self.number) / self.variance
        return np.asarray(-2.5 * np.log1p(d / 2) if self.has_tails else -0.5 * d)


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """The numbers of records of all groups together that are possible, with their weights; one where it is known."""

    low: int
    high: int
    prior: TotalLaw | None = None
    alpha: float = 1.0  # the sum of all groups'

    @classmethod
    def known(cls, total: int) -> Totals:
        """Of records whose number is public or stated."""
        return cls(total, total)

    @property
    def some(self) -> Ints:
        """Numbers at equal distances that stand for all."""
        return np.unique(np.linspace(self.low, self.high, MOST_TOTALS).round().astype(np.int64))

    def log_weight(self, n: Array | Ints) -> Floats:
        """log p(n) n!/Gamma(n + alpha_0), up to a constant."""
        return np.zeros(np.shape(n)) if self.prior is None else self.prior.log_pmf(n) - log_weight(n, self.alpha)

    def log_rest(self, sizes: Ints, others: float, rest: Rest | None) -> Floats:
        """What shares and counts of all other groups say of one group's sizes, summed over the total."""
        found: Floats = np.full(sizes.shape, -np.inf)
        for n in self.some:
            left = np.maximum(n - sizes, 0)
            log = log_weight(left, others) + self.log_weight(n)
            log = log if rest is None else log + rest.log_noise(left)
            found = np.logaddexp(found, np.where(sizes <= n, log, -np.inf))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class SizeWindow:
    """The sizes of one group that are worth looking at: every `stride`-th, with what counts and shares say of each."""

    sizes: Ints
    stride: int
    log_own: Floats  # w_g and the noisy counts, of each size
    log_rest: Floats  # what the other groups' shares add where the sum of all sizes is not asked for

    @classmethod
    def of(
        cls, counts: tuple[CountSeen, ...], totals: Totals, alpha: float, others: float, rest: Rest | None = None
    ) -> SizeWindow:
        """From the noisy counts of a group in a set of records; alpha is its own, others that of the rest.

        `rest` is what noisy counts say of all other groups together.
        """
        low, high = 0, totals.high
        for one in counts:
            low = max(low, int(np.floor(one.number - FAR * one.sd)))
            high = min(high, int(np.ceil(one.number + FAR * one.sd)))
        if low > high:  # counts that contradict each other or n: all that is possible is looked at
            low, high = 0, totals.high
        stride = max(1, -(-(high - low + 1) // MOST_SIZES))
        sizes: Ints = np.arange(low, high + 1, stride, dtype=np.int64)
        log_own: Array = log_weight(sizes, alpha)
        for one in counts:
            log_own = log_own + one.log_noise(sizes)
        log_rest = totals.log_rest(sizes, others, rest)
        seen = log_own + log_rest
        kept = np.flatnonzero(seen > seen.max() - FALL)
        inside = slice(int(kept[0]), int(kept[-1]) + 1)
        return cls(sizes[inside], stride, log_own[inside] - seen.max(), log_rest[inside])

    @property
    def log_alone(self) -> Floats:
        """What is said of each size where groups are looked at one by one."""
        return np.asarray(self.log_own + self.log_rest)

    @property
    def is_one(self) -> bool:
        return self.sizes.size == 1


def draw_sizes(rng: np.random.Generator, windows: list[tuple[Ints, Floats]], totals: Totals, count: int) -> Ints | None:
    """`count` draws (count, G) of sizes that add up to a total, given each group's sizes and their log-weights.

    Every window is of consecutive whole numbers. None where no sizes in the windows add up to a possible total.
    """
    least = sum(int(sizes[0]) for sizes, _ in windows)
    most = sum(int(sizes[-1]) for sizes, _ in windows)
    low, high = max(least, totals.low), min(most, totals.high)
    if low > high:
        return None
    tilt = _tilt(windows, low) if totals.prior is None else 0.0
    tilted = [_normal(log + tilt * (sizes - sizes[0])) for sizes, log in windows]
    sums: list[Floats] = [tilted[0]]
    for weight in tilted[1:-1]:
        sums.append(np.maximum(fftconvolve(sums[-1], weight), 0.0))
    left = np.full(count, low - least)  # counted from the least sizes
    if totals.prior is not None:
        every = np.maximum(fftconvolve(sums[-1], tilted[-1]), 0.0) if len(windows) > 1 else tilted[0]
        n = np.arange(low, high + 1)
        with np.errstate(divide="ignore"):
            chance = _normal(np.log(every[n - least]) + totals.log_weight(n))
        left = rng.choice(n - least, count, p=chance)
    drawn = np.zeros((count, len(windows)), np.int64)
    for g in range(len(windows) - 1, 0, -1):
        if not _taken_apart(tilted[g], sums[g - 1], left, drawn[:, g], rng.random(count)):
            return None
    drawn[:, 0] = left
    if np.any(left < 0) or np.any(left >= tilted[0].size):
        return None
    return np.asarray(drawn + np.array([sizes[0] for sizes, _ in windows]))


@njit(cache=True)
def _taken_apart(weight: Floats, before: Floats, left: Ints, drawn: Ints, chance: Floats) -> bool:
    """The size of one group for each draw, given what is left for it and the groups before it; `left` goes down."""
    upto = np.empty(weight.size)
    for s in range(left.size):
        first, last = max(0, left[s] - before.size + 1), min(weight.size - 1, left[s])
        total = 0.0
        for k in range(first, last + 1):
            total += weight[k] * before[left[s] - k]
            upto[k] = total
        if not total > 0:
            return False
        drawn[s] = min(first + np.searchsorted(upto[first : last + 1], chance[s] * total, side="right"), last)
        left[s] -= drawn[s]
    return True


def _normal(log: Floats) -> Floats:
    weight = np.exp(log - log.max())
    return np.asarray(weight / weight.sum())


def _tilt(windows: list[tuple[Ints, Floats]], total: int) -> float:
    """lambda at which the sizes add up to the total on average, as far as that is in reach."""
    width = max(sizes.size for sizes, _ in windows)

    def excess(tilt: float) -> float:
        means = [float(_normal(log + tilt * (sizes - sizes[0])) @ sizes) for sizes, log in windows]
        return sum(means) - total

    reach = 1.0 / max(width, 1)
    for _ in range(40):
        if excess(-reach) <= 0 <= excess(reach):
            return float(brentq(excess, -reach, reach, xtol=1e-12, rtol=1e-10))
        reach *= 2
    return 0.0
