"""Many clipped answers under many normal populations at once: the closed forms as compiled loops.

    total_k = sum_i weight_i log p(y_i | mean_k, sd_k),      and each log p by itself.
Laplace noise (`likelihood.clipped_normal` has the formula): with a, b the standardised ends, z the answer clipped to
them and k = sd/scale,
    2 scale p(y) = e^{-dist/scale} Q,   Q = Phi(a) e^{-k(z-a)} + Phi(-b) e^{-k(b-z)} + I(a, z, k) + I(-b, -z, k).
Q never falls below e^{-epsilon}, so it is summed as it is, without logarithms. In the total, where answers to one
question stand together, all that z does not enter is done once: with S(z) = e^{-z^2/2} M(k - z), M Mills' ratio,
    Q = (Phi(a) - S(a)) e^{-k(z-a)} + (Phi(-b) - S(-b)) e^{-k(b-z)} + S(z) + S(-z),
which cancels no more than a factor e^epsilon and is used up to epsilon = 12. Gaussian noise
(`likelihood.clipped_normal_gaussian`) can be as unlikely as it likes and is summed on the log scale.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noisewise.compilation import njit
from noisewise.likelihood.compiled import ROOT_2, erfcx
from noisewise.online.asked import Asked
from noisewise.online.mills import mills
from noisewise.populations.parameters import Array

__all__ = ["Listed", "log_densities", "log_total"]

LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
MOST_EPSILON = 12.0


def log_densities(y: Array, asked: Asked, mean: Array, sd: Array) -> Array:
    """log p(y_i | theta_k) of one question, (K, n), in units of x."""
    form = _laplace_one if asked.is_laplace else _gaussian_one
    out = np.empty((mean.size, y.size))
    form(y, asked.low, asked.high, asked.noise, mean, sd, out)
    return out


class Listed(NamedTuple):
    """Weighted answers, question after question: question j has answers starts[j] .. starts[j + 1]."""

    starts: NDArray[np.int64]
    low: Array
    high: Array
    noise: Array
    y: Array
    weight: Array


def log_total(listed: Listed, mean: Array, sd: Array, *, is_laplace: bool) -> Array:
    """sum_i weight_i log p(y_i | theta_k), (K,)."""
    form = _laplace_total if is_laplace else _gaussian_total
    out = np.empty(mean.size)
    form(*listed, mean, sd, out)
    return out


@njit(cache=True, error_model="numpy")
def _phi(x: float) -> float:
    return 0.5 * math.erfc(-x / ROOT_2)


@njit(cache=True, error_model="numpy")
def _mills(x: float) -> float:
    """Phi(-x) exp(x^2/2) for x >= 0."""
    return 0.5 * erfcx(x / ROOT_2)


@njit(cache=True, error_model="numpy")
def _tilted(c: float, d: float, k: float, width: float) -> float:
    """int_c^d phi(x) exp(k (x - d)) dx."""
    if width <= 0.0:
        return 0.0
    below, above = c - k, d - k
    if above <= 0.0:
        return math.exp(-0.5 * d * d) * (_mills(-above) - math.exp(0.5 * width * (below + above)) * _mills(-below))
    if below >= 0.0:
        faded = math.exp(-0.5 * width * (below + above)) * _mills(above)
        return math.exp(-0.5 * c * c - k * width) * (_mills(below) - faded)
    return math.exp(k * (0.5 * k - d)) * (_phi(above) - _phi(below))


@njit(cache=True, error_model="numpy")
def _log_laplace(y: float, low: float, high: float, noise: float, mean: float, sd: float) -> float:
    a, b, k = (low - mean) / sd, (high - mean) / sd, sd / noise
    at = min(max(y, low), high)
    below, above = (at - low) / sd, (high - at) / sd
    z = min(max((at - mean) / sd, a), b)
    q = _phi(a) * math.exp(-k * below) + _phi(-b) * math.exp(-k * above)
    q += _tilted(a, z, k, below) + _tilted(-b, -z, k, above)
    return math.log(q) - abs(y - at) / noise - math.log(2.0 * noise)


@njit(cache=True, error_model="numpy")
def _log_phi(x: float) -> float:
    if x > -5.0:
        return math.log(_phi(x))
    return -0.5 * x * x + math.log(_mills(-x))


@njit(cache=True, error_model="numpy")
def _log_gaussian(y: float, low: float, high: float, noise: float, mean: float, sd: float) -> float:
    a, b = (low - mean) / sd, (high - mean) / sd
    total = math.hypot(sd, noise)
    centre, spread = (y - mean) / total * (sd / total), noise / total
    c, d = (a - centre) / spread, (b - centre) / spread
    d1, d2, d3 = (y - low) / noise, (y - high) / noise, (y - mean) / total
    one = _log_phi(a) - 0.5 * d1 * d1 - math.log(noise)
    two = _log_phi(-b) - 0.5 * d2 * d2 - math.log(noise)
    width = (high - low) / sd / spread
    # P(c < Z < d) from the nearer tail: I(c, d, 0) of the formula above, with its leading power taken out.
    if d <= 0.0:
        inside = -0.5 * d * d + math.log(_mills(-d) - math.exp(0.5 * width * (c + d)) * _mills(-c))
    elif c >= 0.0:
        inside = -0.5 * c * c + math.log(_mills(c) - math.exp(-0.5 * width * (c + d)) * _mills(d))
    else:
        inside = math.log(_phi(d) - _phi(c))
    three = inside - 0.5 * d3 * d3 - math.log(total)
    top = max(one, max(two, three))
    return top + math.log(math.exp(one - top) + math.exp(two - top) + math.exp(three - top)) - LOG_ROOT_2PI


@njit(cache=True, error_model="numpy")
def _laplace_one(y: Array, low: float, high: float, noise: float, mean: Array, sd: Array, out: Array) -> None:
    for k in range(mean.size):
        for i in range(y.size):
            out[k, i] = _log_laplace(y[i], low, high, noise, mean[k], sd[k])


@njit(cache=True, error_model="numpy")
def _gaussian_one(y: Array, low: float, high: float, noise: float, mean: Array, sd: Array, out: Array) -> None:
    for k in range(mean.size):
        for i in range(y.size):
            out[k, i] = _log_gaussian(y[i], low, high, noise, mean[k], sd[k])


@njit(cache=True, error_model="numpy")
def _faded(z: float, k: float, density: float) -> float:
    """S(z) = e^{-z^2/2} M(k - z), with density = e^{-z^2/2}; for z > k M is what is left of e^{(k-z)^2/2}."""
    if z <= k:
        return density * mills(k - z)
    return math.exp(k * (0.5 * k - z)) - density * mills(z - k)


@njit(cache=True, error_model="numpy")
def _laplace_total(
    starts: Any, low: Array, high: Array, noise: Array, y: Array, weight: Array, mean: Array, sd: Array, out: Array
) -> None:
    for i in range(mean.size):
        total = 0.0
        for j in range(low.size):
            start, stop = starts[j], starts[j + 1]
            if high[j] - low[j] > MOST_EPSILON * noise[j]:
                for m in range(start, stop):
                    total += weight[m] * _log_laplace(y[m], low[j], high[j], noise[j], mean[i], sd[i])
                continue
            a, b, k = (low[j] - mean[i]) / sd[i], (high[j] - mean[i]) / sd[i], sd[i] / noise[j]
            at_low = _phi(a) - _faded(a, k, math.exp(-0.5 * a * a))
            at_high = _phi(-b) - _faded(-b, k, math.exp(-0.5 * b * b))
            log_scale = math.log(2.0 * noise[j])
            for m in range(start, stop):
                at = min(max(y[m], low[j]), high[j])
                z = (at - mean[i]) / sd[i]
                density = math.exp(-0.5 * z * z)
                fall = math.exp((low[j] - at) / noise[j])
                q = at_low * fall + at_high * math.exp((at - high[j]) / noise[j])
                q += _faded(z, k, density) + _faded(-z, k, density)
                total += weight[m] * (math.log(q) - abs(y[m] - at) / noise[j] - log_scale)
        out[i] = total


@njit(cache=True, error_model="numpy")
def _gaussian_total(
    starts: Any, low: Array, high: Array, noise: Array, y: Array, weight: Array, mean: Array, sd: Array, out: Array
) -> None:
    for i in range(mean.size):
        total = 0.0
        for j in range(low.size):
            for m in range(starts[j], starts[j + 1]):
                total += weight[m] * _log_gaussian(y[m], low[j], high[j], noise[j], mean[i], sd[i])
        out[i] = total
