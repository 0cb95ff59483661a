"""Noisy tables, exactly: sums over every table of n records, for many theta at once.

The cells of a multinomial table are independent Poisson numbers given that they sum to n, and those of a
Dirichlet-multinomial table independent negative binomial numbers. With independent noise on each cell,
    p(y | theta) = P(sum_j S_j = n) prod_j m_j / Q(n),      S_j with law proportional to f_j(s) P(y_j | s), of mass m_j,
Q(n) the probability that the f_j alone sum to n. Any common tilt e^{lambda s} of the f_j changes nothing; lambda is
chosen so that the sum has its mass at n, and all is relatively exact however far theta is from y. The law of the sum is
a product of discrete Fourier transforms on a circle of at least 24 of its standard deviations and twice the widest cell
(log-concave laws have exponential tails: what wraps around is below 1e-14). The mean of each cell and draws of whole
tables come from the same transforms: forward laws F_j of the first j cells, then backward, S_j = s given the total t of
the first j with weight f_j(s) F_{j-1}(t - s).

Promise: 10 digits of p(y | theta); draws up to a total variation of 1e-10; memory in pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import logsumexp

from noisewise.compilation import njit
from noisewise.errors import InvalidArgument
from noisewise.likelihood import log_concave
from noisewise.likelihood.discrete_laws import log_rising, poisson_log_pmf
from noisewise.types import Floats, Ints

__all__ = ["NegativeBinomialCells", "PoissonCells", "TableSum"]

Rows = NDArray[np.intp]
FALL = 45.0
MOST_CELLS = 1_000_000
MOST_TILTS = 60


class Cells(Protocol):
    """Independent counts whose total is n: their laws f_j at a tilt, cells on axis 1, K rows of parameters."""

    @property
    def shape(self) -> tuple[int, int]: ...  # K, m
    def log_pmf(self, s: Floats, tilt: Floats, rows: Rows) -> Floats: ...  # s (R, m, ...), tilt (R,)
    def slope(self, s: Floats, tilt: Floats, rows: Rows) -> Floats: ...  # log f(s+1)/f(s) of a log-concave majorant
    def log_total(self, n: int, tilt: Floats) -> Floats: ...  # log Q(n), (R,)


@dataclass(frozen=True, slots=True)
class PoissonCells:
    """S_j ~ Poisson(n p_j), tilted: a multinomial table given its total."""

    n: int
    p: Floats  # (K, m)

    @property
    def shape(self) -> tuple[int, int]:
        return self.p.shape[0], self.p.shape[1]

    def log_pmf(self, s: Floats, tilt: Floats, rows: Rows) -> Floats:
        inner, outer = _split(tilt)
        mean = self.n * self.p[rows] * np.exp(inner)[:, None]
        law = poisson_log_pmf(s, mean.reshape(mean.shape + (1,) * (s.ndim - 2)))
        return law + s * outer.reshape(-1, *(1,) * (s.ndim - 1))

    def slope(self, s: Floats, tilt: Floats, rows: Rows) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.n * self.p[rows]) + tilt[:, None] - np.log(s + 1))

    def log_total(self, n: int, tilt: Floats) -> Floats:
        inner, outer = _split(tilt)
        return poisson_log_pmf(n, n * np.exp(inner)) + n * outer


@dataclass(frozen=True, slots=True)
class NegativeBinomialCells:
    """S_j ~ h_j(s) z^s (1-z)^alpha_j, z/(1-z) = n/alpha, tilted: a Dirichlet-multinomial table given its total."""

    n: int
    alpha: Floats  # (1, m)

    @property
    def shape(self) -> tuple[int, int]:
        return 1, self.alpha.shape[1]

    def log_pmf(self, s: Floats, tilt: Floats, rows: Rows) -> Floats:
        alpha = self.alpha[rows].reshape(len(rows), -1, *(1,) * (s.ndim - 2))
        log_z, log_rest = self._odds
        slope = (log_z + tilt).reshape(-1, *(1,) * (s.ndim - 1))
        return np.asarray(log_rising(alpha, s) + s * slope + alpha * log_rest)

    def slope(self, s: Floats, tilt: Floats, rows: Rows) -> Floats:
        alpha = np.maximum(self.alpha[rows], 1.0)
        return np.asarray(np.log((alpha + s) / (s + 1)) + self._odds[0] + tilt[:, None])

    def log_total(self, n: int, tilt: Floats) -> Floats:
        whole = float(np.sum(self.alpha))
        log_z, log_rest = self._odds
        return np.asarray(log_rising(whole, n) + n * (log_z + tilt) + whole * log_rest)

    @property
    def _odds(self) -> tuple[float, float]:
        """log z and log(1 - z)."""
        ratio = float(np.sum(self.alpha)) / self.n
        return -float(np.log1p(ratio)), float(np.log(ratio) - np.log1p(ratio))


def _split(tilt: Floats) -> tuple[Floats, Floats]:
    """A small tilt goes into the mean, where it costs no digits; the rest, rarely any, stands beside it."""
    inner = np.clip(tilt, -1.0, 1.0)
    return inner, tilt - inner


class _Terms(NamedTuple):
    """Tilted laws of the cells on their windows: weights (R, m, M) that sum to 1, from `first` (R, m) on."""

    first: Floats
    weights: Floats
    log_mass: Floats  # (R,): sum over cells
    mean: Floats  # (R,): of the total
    sd: Floats  # (R,)


@dataclass(frozen=True, slots=True)
class TableSum:
    """The law of a noisy table; log_noise(s) for s (R, m, ...) is log P(y_j | s), log-concave in s."""

    n: int
    cells: Cells
    log_noise: Callable[[Floats], Floats]

    def log_likelihood(self) -> Floats:
        """log p(y | theta), (K,); -inf where no table of n records can give y."""
        return self._over_rows(self._likelihood)

    def means(self) -> Floats:
        """E[s_j | y, theta], (K, m)."""
        return self.moments()[0]

    def moments(self) -> tuple[Floats, Floats]:
        """E[s_j | y, theta] and Var[s_j | y, theta], (K, m) each."""
        both = self._over_rows(self._moments)
        return both[..., 0], both[..., 1]

    def draw(self, rng: np.random.Generator, size: int | None = None) -> NDArray[np.int64]:
        """One table a row of theta, (K, m); or `size` tables for a single row."""
        if size is not None:
            return self._draw(rng, np.zeros(1, dtype=np.intp), size)
        return self._over_rows(lambda rows: self._draw(rng, rows, rows.size)).astype(np.int64)

    def _over_rows(self, function: Callable[[Rows], NDArray[np.generic]]) -> NDArray[np.float64]:
        """In pieces of rows whose transforms fit into memory, by the circle that the first row needs."""
        count, start, done = self.cells.shape[0], 0, list[NDArray[np.generic]]()
        each = 1
        while start < count:
            rows = np.arange(start, min(start + each, count))
            done.append(function(rows))
            start += rows.size
            if each == 1:
                terms = self._tilted(rows)[1]
                each = max(1, MOST_CELLS // (self.cells.shape[1] * _circle(terms)))
        return np.concatenate(done)

    def _likelihood(self, rows: Rows) -> Floats:
        tilt, terms = self._tilted(rows)
        circle, target = self._target(terms)
        product = np.prod(rfft(terms.weights, circle, axis=-1), axis=1)
        chance = irfft(product, circle, axis=-1)[np.arange(rows.size), target]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(terms.log_mass + np.log(np.maximum(chance, 0.0)) - self.cells.log_total(self.n, tilt))

    def _moments(self, rows: Rows) -> Floats:
        """Mean and variance of every cell, (R, m, 2): about each cell's own centre, so that digits are kept."""
        _, terms = self._tilted(rows)
        circle, target = self._target(terms)
        transforms = rfft(terms.weights, circle, axis=-1)
        before = np.cumprod(np.concatenate([np.ones_like(transforms[:, :1]), transforms[:, :-1]], axis=1), axis=1)
        after = np.cumprod(np.concatenate([np.ones_like(transforms[:, :1]), transforms[:, :0:-1]], axis=1), axis=1)
        others = before * after[:, ::-1]
        offsets = np.arange(terms.weights.shape[-1])
        centre = np.rint(np.sum(terms.weights * offsets, axis=-1, keepdims=True))

        def at_target(weights: Floats) -> Floats:
            each = irfft(others * rfft(weights, circle, axis=-1), circle, axis=-1)
            return np.asarray(np.take_along_axis(each, target[:, None, None], axis=-1)[..., 0])

        chance, first, second = (at_target(terms.weights * (offsets - centre) ** k) for k in range(3))
        with np.errstate(divide="ignore", invalid="ignore"):
            mean, square = first / chance, second / chance
        place = np.maximum(centre[..., 0] + mean, 0.0)
        return np.stack([terms.first + place, np.maximum(square - mean**2, 0.0)], axis=-1)

    def _target(self, terms: _Terms) -> tuple[int, NDArray[np.int64]]:
        """The size of the circle, and the place on it where the total is n, (R,)."""
        circle = _circle(terms)
        return circle, np.mod(self.n - np.sum(terms.first, axis=1), circle).astype(np.int64)

    def _draw(self, rng: np.random.Generator, rows: Rows, size: int) -> NDArray[np.int64]:
        _, terms = self._tilted(rows)
        circle = _circle(terms)
        forward = irfft(np.cumprod(rfft(terms.weights, circle, axis=-1), axis=1), circle, axis=-1)
        starts = np.cumsum(terms.first, axis=1)
        m = terms.weights.shape[1]
        owner = np.zeros(size, dtype=np.intp) if rows.size == 1 else np.arange(size)
        left = np.full(size, float(self.n))
        s = np.empty((size, m), dtype=np.int64)
        for j in range(m - 1, 0, -1):
            place = np.mod(left - terms.first[owner, j] - starts[owner, j - 1], circle).astype(np.int64)
            weights, before = (np.ascontiguousarray(each) for each in (terms.weights[:, j], forward[:, j - 1]))
            offset = _drawn_offsets(weights, before, owner, place, rng.random(size))
            if np.any(offset < 0):
                raise InvalidArgument("No table of n records can give this release.", argument="log_noise")
            s[:, j] = terms.first[owner, j] + offset
            left = left - s[:, j]
        s[:, 0] = left
        return s

    def _tilted(self, rows: Rows) -> tuple[Floats, _Terms]:
        """The tilt of each row at which the total has mean n, within two standard deviations, by guarded Newton.

        A row for which there is none keeps NaN as its mass: no number is given in its place.
        """
        tilt, low, high = np.zeros(rows.size), np.full(rows.size, -np.inf), np.full(rows.size, np.inf)
        terms = self._terms(rows, tilt)
        for k in range(MOST_TILTS):
            gap = self.n - terms.mean
            off = np.abs(gap) > np.maximum(2 * terms.sd, 0.5)
            if not off.any():
                return tilt, terms
            low, high = np.where(off & (gap > 0), tilt, low), np.where(off & (gap < 0), tilt, high)
            wide = 2 * np.abs(tilt) + 1
            moved = tilt + np.clip(gap / np.square(np.maximum(terms.sd, 1e-3)), -wide, wide)
            bracketed = np.isfinite(low) & np.isfinite(high)
            middle = 0.5 * (np.where(bracketed, low, 0.0) + np.where(bracketed, high, 0.0))
            halved = bracketed & ((moved <= low) | (moved >= high) | (k % 3 == 2))
            tilt = np.where(off, np.where(halved, middle, moved), tilt)
            terms = self._terms(rows, tilt)
        return tilt, terms._replace(log_mass=np.where(off, np.nan, terms.log_mass))

    def _terms(self, rows: Rows, tilt: Floats) -> _Terms:
        shape = (rows.size, self.cells.shape[1])

        def rises(s: Floats) -> NDArray[np.bool_]:
            s = np.minimum(s, self.n - 1)
            slope = self.cells.slope(s, tilt, rows) + self.log_noise(s + 1) - self.log_noise(s)
            return np.asarray(slope > 0)

        def log_f(s: Floats) -> Floats:
            return self.cells.log_pmf(s, tilt, rows) + self.log_noise(s)

        peak = log_concave.mode(rises, np.zeros(shape), np.full(shape, float(self.n)))
        first, last = log_concave.reach(log_f, peak, np.zeros(shape), np.full(shape, float(self.n)), fall=FALL)
        s = first[..., None] + np.arange(int(np.max(last - first)) + 1)
        values = np.where(s <= last[..., None], log_f(np.minimum(s, self.n)), -np.inf)
        mass = logsumexp(values, axis=-1)
        weights = np.exp(values - mass[..., None])
        mean = np.sum(weights * (s - first[..., None]), axis=-1)
        variance = np.sum(weights * np.square(s - first[..., None] - mean[..., None]), axis=-1)
        total = np.sum(first + mean, axis=1)
        return _Terms(first, weights, np.sum(mass, axis=1), total, np.sqrt(np.sum(variance, axis=1)))


@njit(cache=True)
def _drawn_offsets(weights: Floats, before: Floats, owner: Ints, place: Ints, u: Floats) -> Ints:
    """k with chances weights[k] before[place - k] of each draw's row, by inversion at u; -1 where all are 0."""
    found = np.full(u.size, -1)
    for i in range(u.size):
        row, law = weights[owner[i]], before[owner[i]]
        total = 0.0
        for k in range(row.size):
            total += row[k] * max(law[place[i] - k], 0.0)  # a negative place counts from the end, as on a circle
        if not total > 0:
            continue
        wanted, upto, k = u[i] * total, 0.0, -1
        while upto <= wanted and k < row.size - 1:
            k += 1
            upto += row[k] * max(law[place[i] - k], 0.0)
        found[i] = k
    return found


def _circle(terms: _Terms) -> int:
    """The size of a circle that holds every row; one without a law (no record can be inside the bounds) needs none."""
    widest = float(np.max(terms.sd, where=np.isfinite(terms.sd), initial=0.0))
    needed = max(24 * widest + 100, 2 * terms.weights.shape[-1])
    return int(next_fast_len(int(np.ceil(needed)), real=True))
