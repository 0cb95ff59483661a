"""Clipped answers under smooth location-scale populations (logistic, Student-t, Cauchy, ...), compiled.

In the population's own units u = (x - loc)/scale, with a and b the ends of the interval, z the answer, g the noise,
    p(y | theta) = F(a) g(y - low) + (1 - F(b)) g(y - high) + int_a^b f(u) g(y - loc - scale u) du.
The integral is done by Gauss-Legendre panels that every population lays out for itself: none is wider than f needs
where it lies (about a scale in the middle, more and more in a heavy tail), nor than the noise needs, and Laplace noise
has its kink on an edge. So a population far narrower than the interval costs little more than a wide one, and nobody
else pays for it. Everything is summed on the log scale, each term from its own tail.

Promise: log p to 1e-9, from epsilon = 0.001 to 300 and mu = 0.001 to 60, for scales from 1e-9 to 1e6 of the interval.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import special

from noisewise.compilation import njit
from noisewise.likelihood.quadrature import gauss_legendre
from noisewise.online.asked import Asked
from noisewise.populations.parameters import Array

__all__ = ["SMOOTH", "Base", "log_densities"]

NORMAL, LOGISTIC, STUDENT, SECANT, GUMBEL, MIRRORED_GUMBEL = range(6)
SMOOTH = {"norm": NORMAL, "logistic": LOGISTIC, "t": STUDENT, "cauchy": STUDENT, "hypsecant": SECANT,
          "gumbel_r": GUMBEL, "gumbel_l": MIRRORED_GUMBEL}  # fmt: skip
WIDEST = np.array([1.1, 1.5, 1.1, 0.8, 0.4, 0.4])  # panels, in scales
MIRROR = (NORMAL, LOGISTIC, STUDENT, SECANT, MIRRORED_GUMBEL, GUMBEL)
ORDERS = np.array([4, 6, 8])
SHARES = (0.15, 0.5)  # of the widest panel: up to the first the first order is enough, up to the second the second
NODES, WEIGHTS = (
    np.stack([np.pad(gauss_legendre(int(order))[part], (0, int(ORDERS[-1] - order))) for order in ORDERS])
    for part in (0, 1)
)
STEEPEST, BENT = 5.0, 1.5  # log g may fall by so much across a panel; a panel may span so many Gaussian sds
NEGLIGIBLE, FARTHEST = 45.0, 1e150
LOG_2, LOG_PI, LOG_ROOT_2PI = math.log(2), math.log(math.pi), 0.5 * math.log(2 * math.pi)


class Base(NamedTuple):
    """A standard density: which one, and the degrees of freedom of Student's."""

    kind: int
    nu: float = 1.0

    @property
    def log_constant(self) -> float:
        """The log of what Student's density has in front."""
        half = 0.5 * self.nu
        return float(special.gammaln(half + 0.5) - special.gammaln(half) - 0.5 * (math.log(self.nu) + LOG_PI))

    def log_below(self, u: Array) -> Array:
        """log P(U <= u)."""
        with np.errstate(over="ignore", divide="ignore"):
            if self.kind == NORMAL:
                return np.asarray(special.log_ndtr(u))
            if self.kind == LOGISTIC:
                return np.asarray(special.log_expit(u))
            if self.kind == STUDENT:
                return np.asarray(np.log(special.stdtr(self.nu, u)))
            if self.kind == SECANT:
                return np.asarray(np.where(u < -30, u, np.log(np.arctan(np.exp(np.maximum(u, -30)))))) + LOG_2 - LOG_PI
            if self.kind == GUMBEL:
                return np.asarray(-np.exp(-u))
            return np.asarray(np.where(u < -30, u, np.log(-np.expm1(-np.exp(np.maximum(u, -30))))))

    def log_above(self, u: Array) -> Array:
        """log P(U >= u): the lower tail of the mirror image."""
        return Base(MIRROR[self.kind], self.nu).log_below(-u)


def log_densities(y: Array, asked: Asked, loc: Array, scale: Array, base: Base) -> Array:
    """log p(y_i | theta_k) of one question, (K, n), in units of x."""
    below, above = base.log_below((asked.low - loc) / scale), base.log_above((asked.high - loc) / scale)
    out = np.empty((loc.size, y.size))
    _each(y, asked.low, asked.high, asked.noise, asked.is_laplace, loc, scale, below, above,
          base.kind, base.nu, base.log_constant, out)  # fmt: skip
    return out


@njit(cache=True, error_model="numpy")
def _log_standard(u: float, kind: int, nu: float, log_constant: float) -> float:
    """log f of the standard density."""
    if kind == STUDENT:
        return log_constant - 0.5 * (nu + 1.0) * math.log1p(u * u / nu)
    if kind == NORMAL:
        return -0.5 * u * u - LOG_ROOT_2PI
    if kind == LOGISTIC:
        return -abs(u) - 2.0 * math.log1p(math.exp(-abs(u)))
    if kind == SECANT:
        return LOG_2 - LOG_PI - abs(u) - math.log1p(math.exp(-2.0 * abs(u)))
    return -u - math.exp(-u) if kind == GUMBEL else u - math.exp(u)


@njit(cache=True, error_model="numpy")
def _log_noise(u: float, z: float, k: float, is_laplace: bool) -> float:
    """log g at u, but for what g has in front."""
    r = k * (z - u)
    return -abs(r) if is_laplace else -0.5 * r * r


@njit(cache=True, error_model="numpy")
def _panel(u: float, z: float, k: float, is_laplace: bool, kind: int, nu: float) -> float:
    """How wide the panel that begins at u may be."""
    width = WIDEST[kind]
    if kind == STUDENT:
        away = math.sqrt(nu + u * u)  # from the poles of f
        width = away * min(width / math.sqrt(nu + 1.0), 0.5)
    if is_laplace:
        return min(width, STEEPEST / k)  # type: ignore[no-any-return]
    return min(width, min(BENT, STEEPEST / max(k * abs(z - u), 1.0)) / k)  # type: ignore[no-any-return]


@njit(cache=True, error_model="numpy")
def _added(
    total: float, top: float, start: float, stop: float, z: float, k: float, is_laplace: bool, kind: int, nu: float,
    log_constant: float,
) -> tuple[float, float]:  # fmt: skip
    """total e^top plus int f g over [start, stop], again as (total, top)."""
    u = start
    left = _log_standard(u, kind, nu, log_constant) + _log_noise(u, z, k, is_laplace)
    while u < stop:
        widest = _panel(u, z, k, is_laplace, kind, nu)
        end = min(stop, u + widest)
        if end <= u:
            break
        right = _log_standard(end, kind, nu, log_constant) + _log_noise(end, z, k, is_laplace)
        half = 0.5 * (end - u)
        highest = max(left, right) + math.log(2.0 * half)
        if highest > top - NEGLIGIBLE:
            if highest > top:
                total *= math.exp(top - highest)
                top = highest
            part, middle = 0.0, 0.5 * (u + end)
            rule = 0 if end - u <= SHARES[0] * widest else 1 if end - u <= SHARES[1] * widest else 2
            for j in range(ORDERS[rule]):
                at = middle + half * NODES[rule, j]
                log_value = _log_standard(at, kind, nu, log_constant) + _log_noise(at, z, k, is_laplace)
                part += WEIGHTS[rule, j] * math.exp(log_value - top)
            total += part * half
        u, left = end, right
    return total, top


@njit(cache=True, error_model="numpy")
def _log_density(
    y: float, low: float, high: float, noise: float, is_laplace: bool, loc: float, scale: float, below: float,
    above: float, kind: int, nu: float, log_constant: float,
) -> float:  # fmt: skip
    a, b, z, k = (low - loc) / scale, (high - loc) / scale, (y - loc) / scale, scale / noise
    one, two = below + _log_noise(low, y, 1.0 / noise, is_laplace), above + _log_noise(high, y, 1.0 / noise, is_laplace)
    top = max(one, two)
    total = math.exp(one - top) + math.exp(two - top) if top > -math.inf else 0.0
    reach = FARTHEST
    if kind != STUDENT:  # an exponential tail ends, at the latest where no noise can lift it
        lift = abs(_log_noise(a, z, k, is_laplace) - _log_noise(b, z, k, is_laplace))
        reach = NEGLIGIBLE + min(lift, 700.0)
    a, b = max(a, -reach), min(b, reach)
    kink = min(max(z, a), b) if is_laplace else a
    if a < b:
        total, top = _added(total, top, a, kink, z, k, is_laplace, kind, nu, log_constant)
        total, top = _added(total, top, kink, b, z, k, is_laplace, kind, nu, log_constant)
    return top + math.log(total) - math.log(noise) - (LOG_2 if is_laplace else LOG_ROOT_2PI)


@njit(cache=True, error_model="numpy")
def _each(
    y: Array, low: float, high: float, noise: float, is_laplace: bool, loc: Array, scale: Array, below: Array,
    above: Array, kind: int, nu: float, log_constant: float, out: Array,
) -> None:  # fmt: skip
    for i in range(loc.size):
        for j in range(y.size):
            out[i, j] = _log_density(
                y[j], low, high, noise, is_laplace, loc[i], scale[i], below[i], above[i], kind, nu, log_constant
            )
