"""Laplace noise on a statistic that is normal: Y = U + V, U ~ N(mu, tau^2), V ~ Laplace(b).

With z = (y - mu)/tau and r = tau/b (Reed & Jorgensen 2004; the additive statistic of Alparslan & Yildirim 2022, 3.2),
    log f(y) = logaddexp(l1, l2) - log 2b,     l1,2 = r^2/2 -+ z r + log Phi(+-z - r),
    d/dmu log f = tanh((l1 - l2)/2)/b,         d/dtau^2 log f = 1/(2b^2) - phi(z)/(b tau exp(logaddexp(l1, l2))),
    F(y) = Phi(z) - (exp l1 - exp l2)/2.
V is also normal with a random variance w (Andrews & Mallows 1974), which given V has
    1/w ~ InverseGaussian(mean 1/(b |V|), shape 1/b^2).
The terms are computed through h(x) = log(Phi(-x) exp(x^2/2)), so that l1 = -z^2/2 + h(r - z) cancels nothing. Where the
noise is far below the spread (r > 50, |z| < r/20) the scores use f = sum_k r^(-2k) phi^(2k)(z)/tau instead.

Promise: relative error of log f and of the scores (in units of 1/tau and 1/tau^2) near 1e-12 for every z and r;
tau = 0 gives the Laplace law, b = 0 the normal law; both zero, or a negative value, gives nan.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, log_ndtr, ndtr

from noisewise.likelihood.quadrature import on_panels
from noisewise.types import Floats

__all__ = ["cdf", "draw_mixing", "information", "log_density", "score"]

LOG_2PI = float(np.log(2 * np.pi))
SERIES_RATIO = 50.0
SERIES_TERMS = 8


def draw_mixing(rng: np.random.Generator, noise: Floats, scale: ArrayLike, *, least: float = 1e-12) -> Floats:
    """The variances w given the noise V; |V| counts as `least` scales or more, so that w is never 0."""
    b = np.asarray(scale)
    distance = np.maximum(np.abs(noise), least * b)
    return np.asarray(1 / rng.wald(1 / (b * distance), 1 / np.square(b)))


def log_density(y: ArrayLike, *, mean: ArrayLike, variance: ArrayLike, scale: ArrayLike) -> Floats:
    """log f(y) of N(mean, variance) plus Laplace(scale)."""
    with np.errstate(all="ignore"):
        d, tau, b = _standard(y, mean, variance, scale)
        z, r = _ratios(d, tau, b)
        log_f = np.logaddexp(_term(d, z, r, b), _term(-d, -z, r, b)) - np.log(2 * b)
        is_normal = (b == 0) | (r > 1e150)
        return np.asarray(np.where(is_normal, -0.5 * np.square(z) - np.log(tau) - 0.5 * LOG_2PI, log_f))[()]


def score(y: ArrayLike, *, mean: ArrayLike, variance: ArrayLike, scale: ArrayLike) -> tuple[Floats, Floats]:
    """The derivatives of log f(y) in the mean and in the variance."""
    with np.errstate(all="ignore"):
        d, tau, b = _standard(y, mean, variance, scale)
        z, r = _ratios(d, tau, b)
        upper, lower = _log_mills(r - z), _log_mills(r + z)
        in_mean = np.tanh(0.5 * (upper - lower)) / b
        core = np.exp(-0.5 * LOG_2PI - np.logaddexp(upper, lower)) / (b * tau)
        in_variance = 0.5 / np.square(b) - np.where((tau == 0) & (d != 0), 0.0, core)
        small = (r > SERIES_RATIO) & (np.abs(z) < r / 20)
        first, second = _series(np.where(small, z, 0.0), np.where(small, 1 / r, 0.0))
        in_mean = np.where(small, first / tau, in_mean)
        in_variance = np.where(small, 0.5 * second / np.square(tau), in_variance)
        return np.asarray(in_mean)[()], np.asarray(in_variance)[()]


def cdf(y: ArrayLike, *, mean: ArrayLike, variance: ArrayLike, scale: ArrayLike) -> Floats:
    """P(Y <= y), relatively exact in the lower tail; the upper tail is cdf(2 mean - y)."""
    with np.errstate(all="ignore"):
        d, tau, b = _standard(y, mean, variance, scale)
        z, r = _ratios(d, tau, b)
        below = _lower_tail(-np.abs(d), -np.abs(z), r, b)
        below = np.where((b == 0) | (r > 1e150), ndtr(-np.abs(z)), below)
        return np.asarray(np.where(d > 0, 1 - below, below))[()]


def information(*, variance: ArrayLike, scale: ArrayLike) -> tuple[Floats, Floats]:
    """Fisher information of one Y on the mean and on the variance (they are orthogonal, by symmetry).

    Quadrature of score^2 f over z > 0 on nine panels: the normal core |z| < 10, then the exponential tail of rate r.
    """
    tau, b = np.broadcast_arrays(np.sqrt(np.asarray(variance, dtype=np.float64)), np.asarray(scale, dtype=np.float64))
    with np.errstate(all="ignore"):
        tail = np.minimum(b / tau, 1e15)[..., None]
    core = np.broadcast_to([0.0, 1.5, 3.0, 5.0, 7.5, 10.0], (*tau.shape, 6))
    edges = np.concatenate([core, 10 + tail * np.array([3.0, 10.0, 22.0, 45.0])], axis=-1)
    z, weights = on_panels(edges, 24)
    tau, b = tau[..., None, None], b[..., None, None]
    law = {"mean": 0.0, "variance": np.square(tau), "scale": b}
    mass = 2 * weights * tau * np.exp(log_density(z * tau, **law))
    in_mean, in_variance = score(z * tau, **law)
    return np.sum(mass * np.square(in_mean), axis=(-2, -1)), np.sum(mass * np.square(in_variance), axis=(-2, -1))


def _standard(y: ArrayLike, mean: ArrayLike, variance: ArrayLike, scale: ArrayLike) -> tuple[Floats, Floats, Floats]:
    d = np.asarray(y, dtype=np.float64) - np.asarray(mean, dtype=np.float64)
    tau = np.sqrt(np.asarray(variance, dtype=np.float64))
    b = np.asarray(scale, dtype=np.float64)
    return d, tau, np.where(b >= 0, b, np.nan)


def _ratios(d: Floats, tau: Floats, b: Floats) -> tuple[Floats, Floats]:
    return np.where((d == 0) & (tau == 0), np.where(b == 0, np.nan, 0.0), d / tau), tau / b


def _log_mills(x: Floats) -> Floats:
    """h(x) = log(Phi(-x) exp(x^2/2)), for either sign of x."""
    tail = np.log(0.5 * erfcx(np.maximum(x, 0) / np.sqrt(2)))
    return np.asarray(np.where(x >= 0, tail, 0.5 * np.square(x) + log_ndtr(-x)))


def _term(d: Floats, z: Floats, r: Floats, b: Floats) -> Floats:
    """l = r^2/2 - z r + log Phi(z - r); far below z = r as -z^2/2 + h(r - z)."""
    return np.where(z < r, -0.5 * np.square(z) + _log_mills(r - z), 0.5 * np.square(r) - d / b + log_ndtr(z - r))


def _lower_tail(d: Floats, z: Floats, r: Floats, b: Floats) -> Floats:
    """F at z <= 0: every part carries exp(-z^2/2), and Phi(z) exceeds the part that is subtracted."""
    return np.asarray(ndtr(z) - 0.5 * np.exp(_term(d, z, r, b)) + 0.5 * np.exp(_term(-d, -z, r, b)))


def _series(z: Floats, rho: Floats) -> tuple[Floats, Floats]:
    """-f'/f and f''/f in units of z, from f proportional to sum_k rho^(2k) He_2k(z) exp(-z^2/2)."""
    before, here = np.ones_like(z), z  # He_0, He_1
    sums = [np.zeros_like(z), np.zeros_like(z), np.zeros_like(z)]
    for k in range(SERIES_TERMS):
        power = np.power(rho, 2 * k)
        after = z * here - (2 * k + 1) * before
        for total, hermite in zip(sums, (before, here, after), strict=True):
            total += power * hermite
        before, here = after, z * after - (2 * k + 2) * here
    return sums[1] / sums[0], sums[2] / sums[0]
