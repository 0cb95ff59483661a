"""A noisy sum of n whole numbers, exactly, at a cost free of n: the discrete Fourier transform of its tilted law.

Let S/gap be whole, f_tau the law of S tilted by e^{tau s} and h(s) = g(s) e^{-tau s} the noise with the tilt taken out
(as in `exponential_sum`). All but e^{-37} of f_tau lies on a window of N lattice points, and
    p(y | theta) = e^{n K(tau)} sum_k H_k phi_tau(w_k)^n,    w_k = 2 pi k/N,    H_k = (1/N) sum_s h(s) e^{-i w_k s},
exactly, however few values S takes. Under Laplace noise H_k is a sum of geometric series. Under Gaussian noise it is a
sum over the points the noise reaches; where these are many the noise is so wide that integral and sum agree. NaN where
the release lies in a gap that the law all but surely avoids.

phi^n fades like a normal law's. The sum stops where |phi| is certainly small from there on to the highest frequency:
    |phi(w)|^2 <= 1 - (4/pi^2) (w sd)^2                 up to w = pi/(largest - smallest value)
    |phi(w)|^2 <= 1 - 2 (1 - cos w) sum_x p_x p_{x+1},   |phi(w)| <= sum_x |p_x - p_{x-1}| / 2 sin(w/2)     up to pi.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from noisewise.compilation import njit
from noisewise.likelihood.exponential_sum import line_integral
from noisewise.likelihood.record_law import NO_PIECE, ends, tilted
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

UNSEEN = 80.0  # a term of e^-80 is none
FAINT = 58.0  # e^-58 of the heaviest value: left out, even of a million records
FEW_POINTS = 64  # summed one by one
SMOOTH = 1.75  # gaps: Gaussian noise this wide sees no lattice
REACH = 9.0
MOST_TERMS = 200_000
MOST_PRODUCTS = 1_000_000  # of terms and values, where every term is needed


def log_likelihood(noise: SumNoise, *, n: int, log_pmf: Array, low: float, gap: float) -> Array:
    """log p(y | theta), (K,), of the sum of n values low + gap k with log_pmf (K, size)."""
    # In units of the gap, from n times the lowest value: the sum is then a whole number.
    unit = noise._replace(
        centre=(noise.centre - n * low) / gap,
        sd=noise.sd / gap,
        knots=(noise.knots - n * low) / gap,
        slopes=noise.slopes * gap,
    )
    return np.asarray(_rows(unit.plain(), n, np.ascontiguousarray(log_pmf), np.array(NO_PIECE)))


@njit(cache=True)
def _rows(noise: PlainNoise, n: int, log_pmf: Floats, no_piece: Floats) -> Floats:
    found = np.full(len(log_pmf), np.nan)
    for k in range(len(log_pmf)):
        first, last = _visible(noise, log_pmf[k])
        if first <= last:
            values = np.arange(first, last + 1).astype(np.float64)
            found[k] = _one(noise, n, (values, log_pmf[k, first : last + 1], no_piece))
    return found


@njit(cache=True)
def _visible(noise: PlainNoise, logs: Floats) -> tuple[int, int]:
    """The first and the last value that no tilt in reach leaves out; none if the law is not a number."""
    steepest = 0.0 if noise[0] else noise[6][0]
    mode = 0
    for x in range(logs.size):
        if np.isnan(logs[x]):
            return 0, -1
        if logs[x] > logs[mode]:
            mode = x
    if logs[mode] == -np.inf:
        return 0, -1
    least = -np.inf if noise[0] else logs[mode] - FAINT
    first, last = mode, mode
    for x in range(logs.size):
        if logs[x] > -np.inf and logs[x] + steepest * abs(x - mode) >= least:
            first, last = min(first, x), max(last, x)
    return first, last


@njit(cache=True)
def _one(noise: PlainNoise, n: int, law: tuple[Floats, Floats, Floats]) -> float:
    """log p(y | theta) of one theta."""
    values, logs, piece = law
    tilt, stretch = choose_tilt(noise, n, law)
    log_moment, mean, variance, _ = tilted(tilt, values, logs, piece)
    low, high = ends(tilt, n, log_moment, variance, law)
    straight = on_one_stretch(noise, tilt, stretch, n * log_moment, low, high)
    if not np.isnan(straight):
        return float(straight)
    peak = highest_point(noise, tilt, stretch, n * mean)
    unit = n * log_moment + log_noise(noise, peak) - tilt * peak
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    pmf = np.exp(logs + tilt * values - log_moment)
    value = _transformed(noise, n, values, pmf, tilt, mean, variance, first, last, peak)
    return unit + math.log(value) if value > least_value(noise, n * variance) else np.nan


@njit(cache=True)
def _transformed(
    noise: PlainNoise,
    n: int,
    values: Floats,
    pmf: Floats,
    tilt: float,
    mean: float,
    variance: float,
    first: int,
    last: int,
    peak: float,
) -> float:
    """sum_s f_tau(s) h(s)/h(peak)."""
    is_gaussian, sd = noise[0], noise[2]
    base = log_noise(noise, peak) - tilt * peak
    shift = math.floor(n * mean)  # phases are taken about the mean
    a, b = _reached(noise, tilt, first, last)
    is_smooth = is_gaussian and b - a >= FEW_POINTS and sd > SMOOTH
    period = float(last - first + 1)
    highest = math.pi
    if is_smooth:
        period = last - first + 2 * REACH * sd
        highest = REACH / sd
    step = 2 * math.pi / period
    adjacent, variation = _steps(pmf)
    known = math.pi / max(float(values[-1] - values[0]), 1.0)
    past_known = _log_bound(n, known, adjacent, variation)
    # Values of no mass, as between whole numbers and a clamped end off them, cost nothing.
    offsets = values[pmf > 0] - mean
    pmf = pmf[pmf > 0]
    lag = shift - n * mean
    turn = np.exp(1j * step * offsets)
    wave = np.ones(pmf.size, np.complex128)
    # The sum stops early only where the bound at the highest frequency is low.
    is_long = _log_bound(n, min(highest, math.pi), adjacent, variation) > math.log(1e-14)
    if highest / step > MOST_TERMS or (is_long and highest / step * pmf.size > MOST_PRODUCTS):
        return np.nan
    unseen = math.exp(-2 * UNSEEN / n)
    total, largest = 0.0, 0.0
    for k in range(MOST_TERMS + 2):
        omega = k * step
        if omega > highest * (1 + 1e-12):
            break
        if k % 64 == 0:
            for x in range(pmf.size):
                angle = omega * offsets[x]
                wave[x] = complex(math.cos(angle), math.sin(angle))
        value = 0j
        for x in range(pmf.size):
            value += pmf[x] * wave[x]
            wave[x] *= turn[x]
        if is_long and value.real * value.real + value.imag * value.imag < unseen:
            continue
        powered = np.exp(n * np.log(value)) if value != 0 else 0j
        angle = -omega * lag  # e^{i w n mean} against e^{-i w shift}
        powered *= complex(math.cos(angle), math.sin(angle))
        if is_smooth:
            weight = _smooth(noise, omega, tilt, float(shift), base)
        else:
            weight = _on_points(noise, omega, tilt, a, b, base, shift)
        is_middle = not is_smooth and 2 * k == last - first + 1
        total += (powered * weight).real * (1.0 if k == 0 or is_middle else 2.0)
        largest = max(largest, abs(weight))
        if k == 0 or total <= 0 or is_long:
            continue
        log_bound = _log_bound(n, min(omega, math.pi), adjacent, variation)
        if omega <= known:
            inner = 0.5 * n * math.log1p(-min(4 / math.pi**2 * variance * omega * omega, 1 - 1e-16))
            log_bound = min(log_bound, max(inner, past_known))
        # Past pi a smooth kernel would meet the transform again, near 2 pi, where it is itself negligible.
        if (omega < 1.0 or not is_smooth) and log_bound + math.log(largest * (highest / step + 1)) < math.log(
            1e-14 * total
        ):
            break
    return total / period


@njit(cache=True)
def _reached(noise: PlainNoise, tilt: float, first: int, last: int) -> tuple[int, int]:
    """The points of the window that the noise reaches: all of them, or those within nine sds of a Gaussian."""
    if not noise[0]:
        return first, last
    sd = noise[2]
    middle = noise[1] - sd * sd * tilt
    a, b = max(first, math.ceil(middle - REACH * sd)), min(last, math.floor(middle + REACH * sd))
    if b < a:  # no point to within e^-40; the nearest one tells
        a = b = min(max(round(middle), first), last)
    return a, b


@njit(cache=True)
def _steps(pmf: Floats) -> tuple[float, float]:
    """sum_x p_x p_{x+1}, and the total variation sum_x |p_x - p_{x-1}|."""
    adjacent, variation = 0.0, pmf[0] + pmf[-1]
    for x in range(1, pmf.size):
        adjacent += pmf[x] * pmf[x - 1]
        variation += abs(pmf[x] - pmf[x - 1])
    return adjacent, variation


@njit(cache=True)
def _on_points(
    noise: PlainNoise,
    omega: float,
    tilt: float,
    a: int,
    b: int,
    base: float,
    shift: int,
) -> Any:
    """sum of h(s)/h(peak) e^{-i w (s - shift)} over s = a .. b."""
    if noise[0]:
        return _point_by_point(noise, omega, tilt, a, b, base, shift)
    return _geometric(noise, omega, tilt, a, b, base, shift)


@njit(cache=True)
def _log_bound(n: int, omega: float, adjacent: float, variation: float) -> float:
    """A bound of n log|phi(w)| for every w from omega to pi."""
    near = 1.0 - 2.0 * adjacent * (1.0 - math.cos(omega))
    bound = min(0.5 * math.log(max(near, 1e-300)), math.log(variation / (2.0 * math.sin(0.5 * omega))))
    return n * min(bound, 0.0)


@njit(cache=True)
def _smooth(
    noise: PlainNoise,
    omega: float,
    tilt: float,
    shift: float,
    base: float,
) -> complex:
    """int h(s)/h(peak) e^{-i w (s - shift)} ds for Gaussian noise."""
    _, centre, sd, log_height, _, _, _ = noise
    size = log_height - base + 0.5 * math.log(2 * math.pi * sd * sd) - tilt * centre
    size += 0.5 * sd * sd * (tilt * tilt - omega * omega)
    angle = omega * (shift - centre + sd * sd * tilt)
    return math.exp(size) * complex(math.cos(angle), math.sin(angle))


@njit(cache=True)
def _point_by_point(
    noise: PlainNoise,
    omega: float,
    tilt: float,
    a: int,
    b: int,
    base: float,
    shift: int,
) -> complex:
    """The same sum, term by term, for Gaussian noise."""
    total = 0j
    for s in range(a, b + 1):
        angle = -omega * (s - shift)
        total += math.exp(log_noise(noise, float(s)) - tilt * s - base) * complex(math.cos(angle), math.sin(angle))
    return total


@njit(cache=True)
def _geometric(
    noise: PlainNoise,
    omega: float,
    tilt: float,
    first: int,
    last: int,
    base: float,
    shift: int,
) -> complex:
    """The same sum for Laplace noise, s = first .. last: a geometric series between any two knots."""
    knots, slopes = noise[4], noise[6]
    total = 0j
    a = first
    for j in range(knots.size + 1):
        b = last if j == knots.size else min(last, math.floor(knots[j]))
        if b < a:
            continue
        slope = slopes[j] - tilt
        top = b if slope >= 0 else a
        angle = -omega * (top - shift)
        height = math.exp(log_noise(noise, float(top)) - tilt * top - base)
        turned = -omega if slope >= 0 else omega
        # sum_{u=0}^{L-1} r^u = int_0^L / int_0^1 of the same exponential
        series = line_integral(abs(slope), float(b - a + 1), turned) / line_integral(abs(slope), 1.0, turned)
        total += height * complex(math.cos(angle), math.sin(angle)) * series
        a = b + 1
    return total
