"""A noisy sum of n records whose law is an exponential piece and at most two atoms, exactly, at a cost free of n.

With S the sum, g the noise as a function of it, and f_tau the law of S tilted by e^{tau s} (`record_law`),
    p(y | theta) = e^{n K(tau)} int f_tau(s) h(s) ds,     h(s) = g(s) e^{-tau s}.
The tilt is the slope of log g where the tilted sum has its mean, so h is largest there and the digits are relative
digits of p, however unlikely y is. All but e^{-37} of f_tau lies in a window of length P, and on it Laplace noise has
closed Fourier coefficients H_k:
    int f_tau h = sum_k H_k phi_tau(2 pi k/P)^n,          some 30 terms for a sum that is nearly normal.
Where the window sees no kink of g, p = e^{n K(tau)} g is closed: noise far wider than the sum costs least.

Atoms and few records make phi^n fade slowly. With M records off the atoms, M ~ Binomial, the cases M < 8 are taken out
of phi^n and added in closed form: under the exponential law M such records sum to
    f^{*M}(M c + s) = e^{M h - kappa s} w^{M-1} I_M(s/w),       I_M the density of a sum of M uniforms,
a piecewise polynomial, integrated against g by 12 Gauss-Legendre nodes between its kinks. What is left fades at least
like t^-8, below the stated envelope of |phi|, so the cut-off is certain.

Promise: a relative error near 1e-10 (and n roundings); NaN where two heavy atoms and many records would need more, or
where the release lies in a gap that the law of the sum all but surely avoids.
"""

from __future__ import annotations

import math

import numpy as np

from noisewise.compilation import njit
from noisewise.likelihood.few_records import FEW, few_off_atoms
from noisewise.likelihood.record_law import ends, tilted, transform
from noisewise.likelihood.sum_noise import (
    PlainNoise,
    SumNoise,
    choose_tilt,
    highest_point,
    least_value,
    log_noise,
    on_one_stretch,
)
from noisewise.populations.parameters import Array
from noisewise.types import Floats

__all__ = ["log_likelihood"]

MOST_TERMS = 100_000
TINY = 1e-18


def log_likelihood(noise: SumNoise, *, n: int, atoms: Array, log_weights: Array, pieces: Array) -> Array:
    """log p(y | theta), (K,): atoms (2,) with log_weights (K, 2), pieces (K, 4) as in `record_law`."""
    return np.asarray(_rows(noise.plain(), n, atoms, log_weights, pieces))


@njit(cache=True)
def _rows(
    noise: PlainNoise,
    n: int,
    atoms: Floats,
    log_weights: Floats,
    pieces: Floats,
) -> Floats:
    found = np.full(len(pieces), np.nan)
    for k in range(len(pieces)):
        law = (atoms, log_weights[k], pieces[k])
        if np.isnan(pieces[k]).any() or np.isnan(log_weights[k]).any():
            continue
        found[k] = _one(noise, n, law)
    return found


@njit(cache=True)
def _one(noise: PlainNoise, n: int, law: tuple[Floats, Floats, Floats]) -> float:
    """log p(y | theta) of one theta."""
    is_gaussian, sd = noise[0], noise[2]
    atoms, logs, piece = law
    tilt, stretch = choose_tilt(noise, n, law)
    log_moment, mean, variance, log_off = tilted(tilt, atoms, logs, piece)
    low, high = ends(tilt, n, log_moment, variance, law)
    straight = on_one_stretch(noise, tilt, stretch, n * log_moment, low, high)
    if not np.isnan(straight):
        return float(straight)
    peak = highest_point(noise, tilt, stretch, n * mean)
    # p in units of e^unit, the unit at which the integral of f_tau h is taken.
    unit = n * log_moment + log_noise(noise, peak) - tilt * peak
    is_split, log_beyond = _shares(n, log_off)
    few = 0.0
    if is_split:
        few = few_off_atoms(noise, n, law, unit, tilt, log_moment)
        if np.isnan(few):
            return np.nan
    if n < FEW or log_beyond < math.log(TINY):
        return unit + math.log(few) if few > 0 else np.nan
    if is_gaussian:
        low, high = low - 5 * sd, high + 5 * sd
    many = _many(noise, n, law, tilt, low, high, peak, is_split, few)
    return unit + math.log(few + many) if few + many > least_value(noise, n * variance) else np.nan


@njit(cache=True)
def _shares(n: int, log_off: float) -> tuple[bool, float]:
    """Whether fewer than FEW records may be off the atoms, and the log of the probability that there are more."""
    off = min(math.exp(log_off), 1.0)
    if n < FEW:
        return True, -np.inf
    if off >= 1.0:
        return False, 0.0
    term = n * math.log1p(-off)
    below = 0.0
    for m in range(FEW):
        below += math.exp(term)
        if off > 0:
            term += math.log((n - m) / (m + 1.0)) + log_off - math.log1p(-off)
        else:
            term = -np.inf
    # The first case left over bounds the rest where they are rare.
    return below > TINY, term + math.log(2.0) if n * off < 0.5 * FEW else 0.0


@njit(cache=True)
def line_integral(slope: float, length: float, omega: float) -> complex:
    """int_0^length e^{-(slope + i omega) u} du, slope >= 0."""
    x, y = -slope * length, -omega * length
    rate = complex(slope, omega)
    if rate == 0:
        return complex(length, 0.0)
    half = math.sin(0.5 * y)
    e = math.exp(x)
    return -complex(math.expm1(x) - 2.0 * e * half * half, e * math.sin(y)) / rate


@njit(cache=True)
def _stretches(noise: PlainNoise, tilt: float, low: float, high: float, peak: float) -> Floats:
    """h/h(peak) on the window, for Laplace noise, as rows (height, where, slope >= 0, length, direction of decay)."""
    _, _, _, _, knots, _, slopes = noise
    base = log_noise(noise, peak) - tilt * peak
    rows = np.empty((knots.size + 1, 5))
    size = 0
    for j in range(knots.size + 1):
        a = max(low, knots[j - 1]) if j > 0 else low
        b = min(high, knots[j]) if j < knots.size else high
        if b <= a:
            continue
        slope = slopes[j] - tilt
        at = b if slope >= 0 else a
        rows[size, 0] = math.exp(log_noise(noise, at) - tilt * at - base)
        rows[size, 1], rows[size, 2], rows[size, 3] = at, abs(slope), b - a
        rows[size, 4] = -1.0 if slope >= 0 else 1.0
        size += 1
    return rows[:size]


@njit(cache=True)
def _coefficient(stretches: Floats, omega: float, centre: float) -> complex:
    """int over the window of h(s)/h(peak) e^{-i omega (s - centre)} ds."""
    total = 0j
    for j in range(len(stretches)):
        angle = -omega * (stretches[j, 1] - centre)
        turn = stretches[j, 0] * complex(math.cos(angle), math.sin(angle))
        total += turn * line_integral(stretches[j, 2], stretches[j, 3], stretches[j, 4] * omega)
    return total


@njit(cache=True)
def _smooth(
    noise: PlainNoise,
    omega: float,
    tilt: float,
    peak: float,
    centre: float,
) -> complex:
    """int h(s)/h(peak) e^{-i omega (s - centre)} ds for Gaussian noise."""
    _, middle, sd, _, _, _, _ = noise
    size = 0.5 * math.log(2 * math.pi * sd * sd) + 0.5 * ((peak - middle) / sd) ** 2 + tilt * (peak - middle)
    size += 0.5 * sd * sd * (tilt * tilt - omega * omega)
    angle = omega * (centre - middle + sd * sd * tilt)
    return math.exp(size) * complex(math.cos(angle), math.sin(angle))


@njit(cache=True)
def _power(base: complex, n: int) -> complex:
    """base^n: by squaring while that keeps more digits than the logarithm."""
    if n > 64:
        return np.exp(n * np.log(base)) if base != 0 else 0j
    result = 1.0 + 0j
    while n:
        if n & 1:
            result *= base
        base *= base
        n >>= 1
    return result


@njit(cache=True)
def _log_bound(n: int, omega: float, on: float, ends_height: float, slope: float, is_split: bool) -> float:
    """A bound of log|phi^n| from omega on, less what is split off: |phi| <= a + (f(low) + f(high))/|slope + iw|."""
    off = ends_height / math.sqrt(slope * slope + omega * omega)
    whole = math.log(min(on + off, 1.0))
    if not is_split:
        return n * whole
    ways = math.lgamma(n + 1.0) - math.lgamma(FEW + 1.0) - math.lgamma(n - FEW + 1.0)
    return min(0.0, ways + FEW * math.log(off) + (n - FEW) * whole)


@njit(cache=True)
def _many(
    noise: PlainNoise,
    n: int,
    law: tuple[Floats, Floats, Floats],
    tilt: float,
    low: float,
    high: float,
    peak: float,
    is_split: bool,
    known: float,
) -> float:
    """int f_tau h/h(peak), by its Fourier series, less the part `known` with few records off the atoms if it is split.

    Beside the bound above, |phi(t)|^2 <= 1 - (4/pi^2)(t sd)^2 as long as t times the range of a record is below pi.
    """
    is_gaussian = noise[0]
    atoms, logs, piece = law
    log_moment, mean, variance, _ = tilted(tilt, atoms, logs, piece)
    stretches = _stretches(noise, tilt, low, high, peak) if not is_gaussian else np.empty((0, 5))
    period = high - low
    step = 2 * math.pi / period
    slope = tilt - piece[1]
    ends_height = math.exp(piece[0] + tilt * piece[2] - log_moment + max(slope * piece[3], 0.0))
    ends_height *= 1.0 + math.exp(-abs(slope * piece[3]))
    on_atoms = transform(tilt, 0.0, mean, log_moment, atoms, logs, piece)[0].real
    spread = math.pi / (max(atoms.max(), piece[2] + piece[3]) - min(atoms.min(), piece[2]))
    beyond_spread = _log_bound(n, spread, on_atoms, ends_height, slope, is_split)
    # The bound falls with omega and the whole is at most 1 on the window: where it is not met at the last term, and
    # for a whole this large, no number of terms up to there will do.
    last = MOST_TERMS * step
    at_last = _log_bound(n, last, on_atoms, ends_height, slope, is_split)
    if last < spread and not is_split:
        inner = 0.5 * n * math.log1p(-4 / math.pi**2 * variance * last * last)
        at_last = min(at_last, max(inner, beyond_spread))
    if is_gaussian:
        at_last += math.log(max(abs(_smooth(noise, last, tilt, peak, n * mean)), 1e-300))
    else:
        at_last += math.log(4.0 / last)
    if at_last + math.log(float(MOST_TERMS)) > math.log(1e-13 * (1.0 + known) * period):
        return np.nan
    total, largest = 0.0, 0.0
    for k in range(MOST_TERMS):
        omega = k * step
        on, off = transform(tilt, omega, mean, log_moment, atoms, logs, piece)
        powered = _power(on + off, n)
        if is_split and on != 0:
            term, ratio = _power(on, n), off / on
            for m in range(FEW):
                powered -= term
                term *= ratio * ((n - m) / (m + 1.0))
        if is_gaussian:
            weight = _smooth(noise, omega, tilt, peak, n * mean)
        else:
            weight = _coefficient(stretches, omega, n * mean)
        total += (powered * weight).real * (1.0 if k == 0 else 2.0)
        largest = max(largest, abs(weight))
        if k % 4 != 3:
            continue
        log_bound = _log_bound(n, omega, on_atoms, ends_height, slope, is_split)
        if omega < spread and not is_split:
            inner = 0.5 * n * math.log1p(-4 / math.pi**2 * variance * omega * omega)
            log_bound = min(log_bound, max(inner, beyond_spread))
        # Gaussian weights fall from here on; those of Laplace noise are at most the length of the window's two ends.
        log_bound += math.log(max(abs(weight), 1e-300) if is_gaussian else min(largest, 4.0 / omega))
        enough = abs(total) + known * period
        if enough > 0 and log_bound + math.log(k + 1.0) < math.log(1e-13 * enough):
            return float(total / period)
    return np.nan
