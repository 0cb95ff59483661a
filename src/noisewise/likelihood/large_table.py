"""Large noisy tables: every cell summed over exactly, their total by a saddlepoint.

As in `table_sum`, the cells of a multinomial table are independent Poisson numbers given that they sum to n. With
lambda_j = n p_j and independent noise on each cell,

    p(y | theta) = n! n^-n e^{-n t} P_t(S = n) prod_j M_j(t),      M_j(t) = sum_s (lambda_j e^t)^s/s! P(y_j | s),

for every tilt t, S the sum of independent S_j with laws proportional to the terms of M_j. The M_j and the cumulants of
S_j are sums over a few counts around their mode. At the t where S has mean n (Newton's method) the chance of n is

    P_t(S = n) = (2 pi k2)^-1/2 (1 + k4/(8 k2^2) - 5 k3^2/(24 k2^3) + ...),      k2, k3, k4 the cumulants of S:

relatively exact far from the truth, too, and the better the more cells there are. Where the two terms are not small (a
total that is all but known), the law of S is convolved instead. Time and memory grow with the cells, not with their
square: 20 000 cells cost milliseconds for each theta.

Promise: at least 4 digits of p(y | theta) from `FEWEST_CELLS` cells on (Daniels 1954; Butler 2007, section 1.2); the
largest error seen against the exact sum was 6e-6, at 200 cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from noisewise.compilation import njit
from noisewise.errors import Unsupported
from noisewise.laws import Form, additive_law
from noisewise.likelihood.model import GroupLaw, Parameters, numerical_score, scalar_supports
from noisewise.likelihood.table_sum import PoissonCells, TableSum
from noisewise.populations.cleaned import attach, cell_probabilities
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import AnyPopulation
from noisewise.release import NoisyValue
from noisewise.statistics import Histogram, Marginals
from noisewise.types import Floats, Ints

__all__ = ["LargeTable"]

FEWEST_CELLS = 200
MOST_COUNTS = 2**22  # that a cell may differ from its published value by
MOST_WORK = 4_000_000  # counts summed over for one theta: some 50 milliseconds
MOST_LAWS = 8  # different noise scales
LAST_CELLS = 300  # drawn exactly, when a whole table is drawn
FALL = 1e-14  # a term this far below the largest, and its successors, are not felt
MOST_STEPS = 60
SMALL = 1e-3  # of the saddlepoint's terms; the next ones are near their square


@dataclass(frozen=True, slots=True, eq=False)
class LargeTable(GroupLaw):
    """Releases of the same large table of the same records, each cell with its own noise."""

    releases: tuple[NoisyValue, ...]
    population: AnyPopulation
    n: int
    published: Any  # (releases, cells), whole numbers
    law_of: Any  # (releases, cells): the row of `log_noise` that is a cell's own
    log_noise: Array  # (laws, counts): log P(noise = k), k = 0, 1, ...; noise is symmetric
    small: float = SMALL
    is_exact: ClassVar[bool] = True
    cautions: ClassVar[tuple[str, ...]] = ()
    roughness: ClassVar[float] = 1e-6  # digits beyond the saddlepoint's own are not worth a finer quadrature

    @classmethod
    def is_affordable(cls, releases: tuple[NoisyValue, ...], *, n: int) -> bool:
        """True where one row of theta costs some 50 milliseconds at most."""
        cells = len(releases[0].value)
        laws = [additive_law(release.law) for release in releases if release.law.form is Form.NUMBER]
        if cells < FEWEST_CELLS or len(laws) != len(releases) or not cls.holds(releases, n=n):
            return False
        # A cell is known to the narrowest noise, or to its own spread if that is narrower: some 20 of them matter.
        sd = min(max(law.sd) for law in laws)
        reach = 20 + 20 * min(sd, math.sqrt(n / cells) + 1)
        return cells * reach * len(releases) <= MOST_WORK

    @classmethod
    def holds(cls, releases: tuple[NoisyValue, ...], *, n: int) -> bool:
        """Whether noise is of whole numbers, and that at all counts fits into memory."""
        if any(set(additive_law(release.law).step) != {1.0} for release in releases):
            return False
        farthest = n + max(max(map(abs, release.value)) for release in releases)
        laws = sum(len(set(additive_law(release.law).ratio)) for release in releases)
        return farthest < MOST_COUNTS and laws <= MOST_LAWS

    @classmethod
    def of(
        cls, releases: tuple[NoisyValue, ...], population: AnyPopulation, *, n: int, small: float = SMALL
    ) -> LargeTable:
        """`small` says from which size of the saddlepoint's terms on the total is convolved; inf: never."""
        attach(population, releases[0].schema, releases[0].statistic.columns())
        published = np.array([release.value for release in releases], dtype=np.int64)
        most = n + int(np.max(np.abs(published))) + 2
        rows, law_of = list[Array](), np.zeros(published.shape, dtype=np.int64)
        for r, release in enumerate(releases):
            law = additive_law(release.law)
            ratios = np.array(law.ratio)
            for ratio in np.unique(ratios):
                same = np.flatnonzero(ratios == ratio)
                law_of[r, same] = len(rows)
                rows.append(law.log_pmf(np.arange(most), int(same[0])))
        # Far tails of Gaussian noise are -inf in a double; a finite floor keeps differences of them numbers.
        return cls(releases, population, n, published, law_of, np.maximum(np.stack(rows), -1e15), small)

    @property
    def because(self) -> str:
        return (
            f"the {self.published.shape[1]} cells of {self.n} records are multinomial: each is summed over exactly, "
            "and their total by a saddlepoint"
        )

    def probabilities(self, theta: Theta) -> Array:
        """The law of the cell of one record, (K, m)."""
        statistic = self.releases[0].statistic
        assert isinstance(statistic, Histogram | Marginals)
        return cell_probabilities(self.population, self.releases[0].schema, statistic, theta)

    def log_likelihood(self, theta: Theta) -> Array:
        rows = len(next(iter(theta.values())))
        each = max(1, 2**20 // self.published.shape[1])
        found = np.empty(rows)
        for start in range(0, rows, each):
            some = {name: value[start : start + each] for name, value in theta.items()}
            found[start : start + each] = self._log_likelihood(self.probabilities(some))
        return found

    def score(self, theta: Theta) -> dict[str, Array]:
        return numerical_score(self.log_likelihood, theta, scalar_supports(self.population))

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """The whole table given y and theta, (K, m): cell after cell, given what the cells not yet drawn must sum to.

        Their sum is taken to be normal; the last cells, those with the widest laws, are drawn by their own law.
        """
        p = self.probabilities(theta)
        drawn = np.empty(p.shape)
        for k, row in enumerate(p):
            drawn[k] = self._draw(rng, row)
        return drawn

    def latent(self, parameters: Parameters) -> None:
        """None: the table is already summed out."""

    def _log_likelihood(self, p: Array) -> Array:
        logs = _log_chances(self.n * p, self.published, self.law_of, self.log_noise, self.n, self.small)
        return np.asarray(logs + (math.lgamma(self.n + 1) - self.n * math.log(self.n)))

    def _draw(self, rng: np.random.Generator, p: Array) -> Array:
        rates = self.n * p
        tilt, cumulants = _saddle(rates, self.published, self.law_of, self.log_noise, self.n)
        if not np.isfinite(tilt):
            raise Unsupported("No table of n records can give this release.")
        order = np.argsort(cumulants[:, 1], kind="stable")
        first, last = order[:-LAST_CELLS], order[-LAST_CELLS:]
        table = np.zeros(p.size)
        left = _draw_in_turn(
            rates * np.exp(tilt), self.published, self.law_of, self.log_noise, self.n, first,
            cumulants[last].sum(axis=0), cumulants, rng.random(first.size), table,
        )  # fmt: skip
        share = p[last] / np.sum(p[last])
        noise = TableSum(int(left), PoissonCells(int(left), share[None]), lambda s: self._noise_at(s, last))
        table[last] = noise.draw(rng)[0] if left > 0 else 0.0
        return table

    def _noise_at(self, s: Array, cells: Any) -> Array:
        total = np.zeros(s.shape)
        shape = (1, -1, *(1,) * (s.ndim - 2))
        for published, law_of in zip(self.published[:, cells], self.law_of[:, cells], strict=True):
            away = np.abs(published.reshape(shape) - s).astype(np.int64)
            total += self.log_noise[law_of.reshape(shape), away]
        return total


@njit(cache=True)
def _noise(s: int, j: int, published: Ints, law_of: Ints, log_noise: Floats) -> float:
    total = 0.0
    for r in range(published.shape[0]):
        total += log_noise[law_of[r, j], abs(published[r, j] - s)]
    return total


@njit(cache=True)
def _rises(s: int, log_rate: float, j: int, published: Ints, law_of: Ints, log_noise: Floats) -> bool:
    """Whether the term of s + 1 is larger than that of s."""
    further = _noise(s + 1, j, published, law_of, log_noise) - _noise(s, j, published, law_of, log_noise)
    return log_rate - math.log(s + 1.0) + further > 0


@njit(cache=True)
def _mode(guess: float, log_rate: float, j: int, published: Ints, law_of: Ints, log_noise: Floats, n: int) -> int:
    """The count with the largest term: terms are log-concave, so it is found by steps that double, then by halving."""
    low, high, width = 0, n, 1
    start = int(min(max(guess, 0.0), n - 1.0))
    if _rises(start, log_rate, j, published, law_of, log_noise):
        low = start + 1
        while low + width < n and _rises(low + width, log_rate, j, published, law_of, log_noise):
            low, width = low + width + 1, 2 * width
        high = min(low + width, n)
    else:
        high = start
        while high - width >= 0 and not _rises(high - width, log_rate, j, published, law_of, log_noise):
            high, width = high - width, 2 * width
        low = max(high - width + 1, 0)
    while low < high:
        middle = (low + high) // 2
        if _rises(middle, log_rate, j, published, law_of, log_noise):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _cell(rate: float, j: int, published: Ints, law_of: Ints, log_noise: Floats, n: int, found: Floats) -> float:
    """log M_j, and the mean and cumulants of S_j in `found`, which holds a guess of the mean before."""
    guess = found[0]
    found[:] = 0.0
    if rate <= 0.0:
        return _noise(0, j, published, law_of, log_noise)
    log_rate = math.log(rate)
    mode = _mode(guess, log_rate, j, published, law_of, log_noise, n)
    at_mode = _noise(mode, j, published, law_of, log_noise)
    mass, m1, m2, m3, m4 = 1.0, 0.0, 0.0, 0.0, 0.0
    for way in (1, -1):
        term, s, before = 1.0, mode, at_mode
        while term > FALL and 0 <= s + way <= n:
            noise = _noise(s + way, j, published, law_of, log_noise)
            ratio = rate / (s + 1.0) if way == 1 else s / rate
            term *= ratio * math.exp(noise - before)
            s += way
            before = noise
            x = float(s - mode)
            mass += term
            m1 += term * x
            m2 += term * x * x
            m3 += term * x * x * x
            m4 += term * x * x * x * x
    m1, m2, m3, m4 = m1 / mass, m2 / mass, m3 / mass, m4 / mass
    variance = max(m2 - m1 * m1, 0.0)
    third = m3 - 3 * m1 * m2 + 2 * m1**3
    fourth = m4 - 4 * m1 * m3 + 6 * m1 * m1 * m2 - 3 * m1**4
    found[0], found[1], found[2], found[3] = mode + m1, variance, third, fourth - 3 * variance * variance
    return mode * log_rate - math.lgamma(mode + 1.0) + at_mode + math.log(mass)


@njit(cache=True)
def _cells(
    rates: Floats, tilt: float, published: Ints, law_of: Ints, log_noise: Floats, n: int, cumulants: Floats
) -> float:
    """sum_j log M_j(t), and every cell's mean and cumulants."""
    grown, total = math.exp(tilt), 0.0
    for j in range(rates.size):
        total += _cell(rates[j] * grown, j, published, law_of, log_noise, n, cumulants[j])
    return total


@njit(cache=True)
def _tilted(
    rates: Floats, published: Ints, law_of: Ints, log_noise: Floats, n: int, cumulants: Floats
) -> tuple[float, float]:
    """The tilt at which the total has mean n, by guarded Newton, and sum_j log M_j there; NaN if there is none."""
    tilt, low, high = 0.0, -np.inf, np.inf
    for step in range(MOST_STEPS):
        log_mass = _cells(rates, tilt, published, law_of, log_noise, n, cumulants)
        gap, variance = n - np.sum(cumulants[:, 0]), np.sum(cumulants[:, 1])
        if not np.isfinite(gap):
            break
        if abs(gap) <= 1e-7 * math.sqrt(variance) or (abs(gap) <= 1e-6 and variance < 1e-6):
            return tilt, log_mass
        if gap > 0:
            low = tilt
        else:
            high = tilt
        wide = 2 * abs(tilt) + 1
        moved = tilt + min(max(gap / max(variance, 1e-6), -wide), wide)
        if np.isfinite(low) and np.isfinite(high) and (moved <= low or moved >= high or step % 8 == 7):
            moved = 0.5 * (low + high)
        if moved == tilt or abs(moved) > 700:
            break
        tilt = moved
    return np.nan, np.nan


@njit(cache=True)
def _log_chance_of_total(
    rates: Floats,
    tilt: float,
    published: Ints,
    law_of: Ints,
    log_noise: Floats,
    n: int,
    cumulants: Floats,
    small: float,
) -> float:
    """log P_t(S = n), at the tilt where S has mean n."""
    k2, k3, k4 = np.sum(cumulants[:, 1]), np.sum(cumulants[:, 2]), np.sum(cumulants[:, 3])
    if k2 > 1.0:
        by_fourth, by_third = k4 / (8 * k2 * k2), 5 * k3 * k3 / (24 * k2 * k2 * k2)
        if k2 > 1e4 or abs(by_fourth) + by_third < small:
            return -0.5 * math.log(2 * math.pi * k2) + math.log1p(max(by_fourth - by_third, -0.9))
    return _log_chance_convolved(rates, tilt, published, law_of, log_noise, n, k2)


@njit(cache=True)
def _log_chance_convolved(
    rates: Floats, tilt: float, published: Ints, law_of: Ints, log_noise: Floats, n: int, variance: float
) -> float:
    """log P_t(S = n) by convolving the cells one after another, on a circle that holds all of the total's law."""
    circle = int(30 * math.sqrt(variance)) + 200
    law, grown = np.zeros(circle), math.exp(tilt)
    law[0] = 1.0
    for j in range(rates.size):
        rate = rates[j] * grown
        if rate <= 0.0:
            continue
        mode = _mode(published[0, j], math.log(rate), j, published, law_of, log_noise, n)
        at_mode, mass, new = _noise(mode, j, published, law_of, log_noise), 1.0, np.zeros(circle)
        for i in range(circle):
            new[(i + mode) % circle] += law[i]
        for way in (1, -1):
            term, s, before = 1.0, mode, at_mode
            while term > FALL and 0 <= s + way <= n:
                noise = _noise(s + way, j, published, law_of, log_noise)
                term *= (rate / (s + 1.0) if way == 1 else s / rate) * math.exp(noise - before)
                s += way
                before = noise
                mass += term
                shift = s % circle
                for i in range(circle - shift):
                    new[i + shift] += term * law[i]
                for i in range(circle - shift, circle):
                    new[i + shift - circle] += term * law[i]
        law = new / mass
    chance = law[n % circle]
    return math.log(chance) if chance > 0 else -np.inf


@njit(cache=True)
def _log_chances(rates: Floats, published: Ints, law_of: Ints, log_noise: Floats, n: int, small: float) -> Floats:
    """log of e^{-n t} P_t(S = n) prod_j M_j(t) for each row of rates."""
    found, cumulants = np.empty(rates.shape[0]), np.zeros((rates.shape[1], 4))
    for k in range(rates.shape[0]):
        tilt, log_mass = _tilted(rates[k], published, law_of, log_noise, n, cumulants)
        if np.isnan(tilt):
            found[k] = np.nan
            continue
        total = _log_chance_of_total(rates[k], tilt, published, law_of, log_noise, n, cumulants, small)
        found[k] = log_mass - n * tilt + total
    return found


@njit(cache=True)
def _saddle(rates: Floats, published: Ints, law_of: Ints, log_noise: Floats, n: int) -> tuple[float, Floats]:
    cumulants = np.zeros((rates.size, 4))
    tilt, _ = _tilted(rates, published, law_of, log_noise, n, cumulants)
    return tilt, cumulants


@njit(cache=True)
def _draw_in_turn(
    rates: Floats,
    published: Ints,
    law_of: Ints,
    log_noise: Floats,
    n: int,
    order: Ints,
    last: Floats,
    cumulants: Floats,
    u: Floats,
    table: Floats,
) -> float:
    """Fill `table` in the cells of `order`; returns what the cells after them must sum to."""
    left, mean, variance = float(n), last[0], last[1]
    for j in order:
        mean += cumulants[j, 0]
        variance += cumulants[j, 1]
    for i in range(order.size):
        j = order[i]
        mean -= cumulants[j, 0]
        variance -= cumulants[j, 1]
        rate = rates[j]
        if rate <= 0.0:
            continue
        spread = max(variance, last[1], 1e-9)
        mode = _mode(published[0, j], math.log(rate), j, published, law_of, log_noise, n)
        first, stop = mode, mode
        while stop - mode < 60 + 12 * math.sqrt(cumulants[j, 1]) and stop < n:
            stop += 1
        while mode - first < 60 + 12 * math.sqrt(cumulants[j, 1]) and first > 0:
            first -= 1
        logs = np.empty(stop - first + 1)
        for s in range(first, stop + 1):
            away = left - s - mean
            logs[s - first] = s * math.log(rate) - math.lgamma(s + 1.0) - 0.5 * away * away / spread
            logs[s - first] += _noise(s, j, published, law_of, log_noise)
        weights = np.exp(logs - np.max(logs))
        wanted, upto, s = u[i] * np.sum(weights), 0.0, first - 1
        while upto <= wanted and s < stop:
            s += 1
            upto += weights[s - first]
        table[j] = s
        left -= s
    return left
