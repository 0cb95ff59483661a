"""Clipped answers under populations whose log density is linear in pieces (exponential, Laplace, uniform), compiled.

    p(y | theta) = P(x <= low) g(y - low) + P(x >= high) g(y - high) + int_low^high f(x | theta) g(y - x) dx,
g the density of the noise. A piece of f is led from its higher end, and everything is measured in noises: t is the way
from there, w the piece's length, r how far along the answer lies, v = noise/scale the fall of log f (0 if uniform), so
    int_p^q f g dx = f(p) noise int_0^w e^{-v t} g(t - r) dt,    f(p) noise = v e^{-|p - loc|/scale} (Laplace: half).
Laplace noise: two exponentials that meet at r, with the larger power taken out.
Gaussian noise: with a = v - r and b = a + w, where the integrand's own bell would have the ends, and M Mills' ratio,
    a >= 0         g(r) J(a, w),                  J(a, w) = int_0^w e^{-a t - t^2/2} dt
    b <= 0         e^{-v w} g(w - r) J(-b, w)             = sqrt(2 pi) [M(a) - e^{-(a + w/2) w} M(a + w)]
    a < 0 < b      e^{v (v/2 - r)} [erf(b/sqrt 2) + erf(-a/sqrt 2)]/2
and where the two M nearly cancel, J by five nodes of Gauss-Legendre. Nothing is then the difference of large numbers,
however narrow the population or far the answer: in the limit p(y) = g(y - clip(loc)), the law of a point.

Promise: log p to 1e-10 (relative where it is large) for every loc, scale, interval and noise.
"""

from __future__ import annotations

import math

import numpy as np

from noisewise.compilation import njit
from noisewise.likelihood.compiled import ROOT_2
from noisewise.likelihood.quadrature import gauss_legendre
from noisewise.online.asked import Asked
from noisewise.online.mills import mills
from noisewise.populations.parameters import Array

__all__ = ["PIECES", "log_densities"]

EXPONENTIAL, LAPLACE, UNIFORM = range(3)
PIECES = {"gamma": EXPONENTIAL, "laplace": LAPLACE, "uniform": UNIFORM}  # a gamma law without a shape
NARROWEST = 1e-150  # a population narrower than so many noises is a point, to every digit
FLAT = 0.1  # where log of the integrand falls by less across a piece, M(a) and M(a + w) nearly cancel
ORDER = 5
NODES, WEIGHTS = 0.5 * (1 + gauss_legendre(ORDER)[0]), 0.5 * gauss_legendre(ORDER)[1]
LOG_2, ROOT_2PI, LOG_ROOT_2PI = math.log(2), math.sqrt(2 * math.pi), 0.5 * math.log(2 * math.pi)


def log_densities(y: Array, asked: Asked, loc: Array, scale: Array, kind: int) -> Array:
    """log p(y_i | theta_k) of one question, (K, n), in units of x; -inf where the scale is not positive."""
    out = np.empty((loc.size, y.size))
    _each(y, asked.low, asked.high, asked.noise, asked.is_laplace, loc, scale, kind, out)
    return out


@njit(cache=True, error_model="numpy")
def _log_below(d: float, kind: int) -> float:
    """log P(U <= d) of the standard population, and by mirroring Laplace's log P(U >= -d)."""
    if kind == LAPLACE:
        return d - LOG_2 if d < 0.0 else math.log1p(-0.5 * math.exp(-d))
    if d <= 0.0:
        return -math.inf
    return math.log(-math.expm1(-d)) if kind == EXPONENTIAL else math.log(min(d, 1.0))


@njit(cache=True, error_model="numpy")
def _log_above(d: float, kind: int) -> float:
    """log P(U >= d) of the standard population."""
    if kind == LAPLACE:
        return _log_below(-d, kind)
    if d <= 0.0:
        return 0.0
    return -d if kind == EXPONENTIAL else math.log(max(1.0 - d, 0.0))


@njit(cache=True, error_model="numpy")
def _log_noise(r: float, is_laplace: bool) -> float:
    """log g, but for what it has in front."""
    return -abs(r) if is_laplace else -0.5 * r * r


@njit(cache=True, error_model="numpy")
def _fallen(a: float, w: float) -> float:
    """int_0^w e^{-a t} dt, a >= 0."""
    fall = a * w
    return w if fall == 0.0 else -math.expm1(-fall) / a


@njit(cache=True, error_model="numpy")
def _bent(a: float, w: float) -> float:
    """J(a, w), a >= 0."""
    fall = (a + 0.5 * w) * w
    if fall > FLAT:
        return ROOT_2PI * (mills(a) - math.exp(-fall) * mills(a + w))
    total = 0.0
    for j in range(ORDER):
        t = w * NODES[j]
        total += WEIGHTS[j] * math.exp(-(a + 0.5 * t) * t)
    return w * total


@njit(cache=True, error_model="numpy")
def _log_piece(r: float, w: float, v: float, is_laplace: bool) -> float:
    """log int_0^w e^{-v t} g(t - r) dt, but for what g has in front."""
    if is_laplace:
        kink = min(max(r, 0.0), w)
        rise, fall = _fallen(abs(v - 1.0), kink), _fallen(v + 1.0, w - kink)
        return -abs(r - kink) - min(v, 1.0) * kink + math.log(rise + fall * math.exp(-max(v - 1.0, 0.0) * kink))
    a = v - r
    b = a + w
    if a >= 0.0:
        return -0.5 * r * r + math.log(_bent(a, w))
    if b <= 0.0:
        return -v * w - 0.5 * (w - r) * (w - r) + math.log(_bent(-b, w))
    return v * (0.5 * v - r) + math.log(0.5 * ROOT_2PI * (math.erf(b / ROOT_2) + math.erf(-a / ROOT_2)))


@njit(cache=True, error_model="numpy")
def _each(
    y: Array, low: float, high: float, noise: float, is_laplace: bool, locs: Array, scales: Array, kind: int,
    out: Array,
) -> None:  # fmt: skip
    front = math.log(noise) + (LOG_2 if is_laplace else LOG_ROOT_2PI)
    for i in range(locs.size):
        if not scales[i] > 0.0:
            out[i] = -math.inf
            continue
        loc, scale = locs[i], max(scales[i], NARROWEST * noise)
        v = noise / scale
        fall = 0.0 if kind == UNIFORM else v
        # To the right of loc, and for Laplace to the left of it too: where each begins, its length, f there.
        start, back = max(loc, low), min(loc, high)
        ahead = high - start if kind != UNIFORM else min(high - start, scale - (start - loc))
        behind = back - low if kind == LAPLACE else 0.0
        log_v = math.log(v) - (LOG_2 if kind == LAPLACE else 0.0)
        log_ahead = log_v - ((start - loc) / scale if kind != UNIFORM else 0.0)
        log_behind = log_v - (loc - back) / scale
        below, above = _log_below((low - loc) / scale, kind), _log_above((high - loc) / scale, kind)
        for j in range(y.size):
            one = below + _log_noise((y[j] - low) / noise, is_laplace)
            two = above + _log_noise((y[j] - high) / noise, is_laplace)
            three, four = -math.inf, -math.inf
            if ahead > 0.0:
                three = log_ahead + _log_piece((y[j] - start) / noise, ahead / noise, fall, is_laplace)
            if behind > 0.0:
                four = log_behind + _log_piece((back - y[j]) / noise, behind / noise, fall, is_laplace)
            top = max(max(one, two), max(three, four))
            total = math.exp(one - top) + math.exp(two - top) + math.exp(three - top) + math.exp(four - top)
            out[i, j] = top + math.log(total) - front
