"""One record, clipped and answered with Laplace noise: Y = clip(X, l, r) + V, X ~ N(mu, sigma^2), V ~ Laplace(lambda).

For epsilon-DP lambda = (r - l)/epsilon (Yildirim, online Bayesian estimation with adaptive truncation). With
a = (l - mu)/sigma, b = (r - mu)/sigma, k = sigma/lambda and z = clip((y - mu)/sigma, a, b),
    2 lambda p(y) = exp(-dist(y, [l, r])/lambda) Q,
    Q = Phi(a) e^{-k(z - a)} + Phi(-b) e^{-k(b - z)} + W,     W = int_a^b phi(x) e^{-k|x - z|} dx  (`tilted_normal`).
The score has two equal forms, of which the one that cancels less is used. Clipped values do not move with theta, so
    Q sigma d/dmu log p = k int_a^b sign(z - x) phi(x) e^{-k|x - z|} dx           (times x for d/dsigma)   when the
noise is wide (k <= 1 or k(b - a) <= 1); else, differentiating the population (Fisher's identity),
    Q sigma d/dmu log p = -phi(a) e^{-k(z - a)} + phi(b) e^{-k(b - z)} + int_a^b x phi(x) e^{-k|x - z|} dx,
with -a phi(a), b phi(b), x^2 - 1 in their places for d/dsigma. Outside [l, r] the score is that at the nearer end, so
the Fisher information is two atoms, Q(a)/2 and Q(b)/2, plus a smooth integral over [l, r]: 40 Gauss-Legendre nodes, and
more panels when the noise is small or the interval wide.

Promise: log p and the scores (in units of 1/sigma) to about 1e-12 for any y, any l < r however far from mu, any lambda.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from noisewise.likelihood.quadrature import on_panels
from noisewise.likelihood.tilted_normal import log_mass, window_moments
from noisewise.types import Floats

__all__ = ["information", "log_density", "score"]

LOG_ROOT_2PI = 0.5 * float(np.log(2 * np.pi))


def log_density(
    y: ArrayLike, *, mean: ArrayLike, sd: ArrayLike, low: ArrayLike, high: ArrayLike, scale: ArrayLike
) -> Floats:
    """log p(y)."""
    y, mean, sd, low, high, scale = _floats(y, mean, sd, low, high, scale)
    distance = np.maximum(np.maximum(low - y, y - high), 0)
    window = _Window.of(y, mean, sd, low, high, scale)
    return np.asarray(window.log_total() - distance / scale - np.log(2 * scale))[()]


def score(
    y: ArrayLike, *, mean: ArrayLike, sd: ArrayLike, low: ArrayLike, high: ArrayLike, scale: ArrayLike
) -> tuple[Floats, Floats]:
    """The derivatives of log p(y) in the mean and in the standard deviation."""
    y, mean, sd, low, high, scale = _floats(y, mean, sd, low, high, scale)
    in_mean, in_sd = _Window.of(y, mean, sd, low, high, scale).score()
    return np.asarray(in_mean / sd)[()], np.asarray(in_sd / sd)[()]


def information(*, mean: ArrayLike, sd: ArrayLike, low: ArrayLike, high: ArrayLike, scale: ArrayLike) -> Floats:
    """Fisher information (..., 2, 2) of one answer on (mean, sd)."""
    mean, sd, low, high, scale = np.broadcast_arrays(*_floats(mean, sd, low, high, scale))
    shape = mean.shape
    a, k, width = (np.ravel(v) for v in ((low - mean) / sd, sd / scale, (high - low) / sd))
    result = np.empty((a.size, 2, 2))
    is_easy = (k * width <= 8) & (width <= 5)
    for rows, order in ((is_easy, 40), (~is_easy, 28)):
        if rows.any():
            ends = np.stack([np.zeros(rows.sum()), width[rows]], axis=-1)
            edges = ends if order == 40 else _edges(a[rows], k[rows], width[rows])
            result[rows] = _standard_information(a[rows], k[rows], width[rows], edges, order)
    return np.asarray(result.reshape(*shape, 2, 2) / np.square(sd)[..., None, None])


def _floats(*values: ArrayLike) -> tuple[Floats, ...]:
    return tuple(np.asarray(value, dtype=np.float64) for value in values)


class _Window(NamedTuple):
    """The standardised problem: a <= z <= b, k, and the distances z - a and b - z, which differences would blur."""

    a: Floats
    z: Floats
    b: Floats
    k: Floats
    below: Floats
    above: Floats

    @classmethod
    def of(cls, y: Floats, mean: Floats, sd: Floats, low: Floats, high: Floats, scale: Floats) -> _Window:
        a, b = (low - mean) / sd, (high - mean) / sd
        y = np.minimum(np.maximum(y, low), high)
        z = np.minimum(np.maximum((y - mean) / sd, a), b)
        return cls(*np.broadcast_arrays(a, z, b, sd / scale, (y - low) / sd, (high - y) / sd))

    def log_total(self) -> Floats:
        """log Q."""
        atoms = np.logaddexp(log_ndtr(self.a) - self.k * self.below, log_ndtr(-self.b) - self.k * self.above)
        inside = log_mass(self.a, self.z, self.k, self.below), log_mass(-self.b, -self.z, self.k, self.above)
        return np.asarray(np.logaddexp(atoms, np.logaddexp(*inside)))

    def score(self) -> tuple[Floats, Floats]:
        """sigma times the score, in both parameters."""
        a, z, b, k, width_below, width_above = self
        log_below, below, log_above, above = window_moments(a, z, b, k, width_below, width_above)
        log_q = self.log_total()
        p, q = np.exp(log_below - log_q), np.exp(log_above - log_q)
        at_low = np.exp(-0.5 * np.square(a) - LOG_ROOT_2PI - k * width_below - log_q)
        at_high = np.exp(-0.5 * np.square(b) - LOG_ROOT_2PI - k * width_above - log_q)
        is_wide = (k <= 1) | (k * (width_below + width_above) <= 1)
        in_mean = np.where(is_wide, k * (p - q), p * below.mean + q * above.mean - at_low + at_high)
        in_sd = np.where(
            is_wide,
            k * (p * below.mean - q * above.mean),
            p * (below.square - 1) + q * (above.square - 1) - a * at_low + b * at_high,
        )
        return in_mean, in_sd


def _standard_information(a: Floats, k: Floats, width: Floats, edges: Floats, order: int) -> Floats:
    """Two atoms and the integral over [a, b] of (k/2) Q score score'; edges are measured from a."""
    t, weights = on_panels(edges, order)
    t, weights = t.reshape(a.size, -1), weights.reshape(a.size, -1)
    a, k, width = a[:, None], k[:, None], width[:, None]
    t = np.concatenate([t, np.zeros_like(a), width], axis=-1)
    window = _Window(*np.broadcast_arrays(a, a + t, a + width, k, t, width - t))
    mass = np.concatenate([weights * k, np.ones((a.size, 2))], axis=-1) * 0.5 * np.exp(window.log_total())
    half = np.sqrt(mass)[..., None] * np.stack(window.score(), axis=-1)
    return np.asarray(np.einsum("imp,imq->ipq", half, half))


def _edges(a: Floats, k: Floats, width: Floats) -> Floats:
    """Panels from a: a layer of 48/k at each end, where an atom meets the density; the normal bulk and its tails."""
    layer = np.array([3.0, 10.0, 22.0, 48.0]) / k[:, None]
    bulk = np.array([-9.0, -6.0, -4.0, -2.0, 0.0, 2.0, 4.0, 6.0, 9.0]) - a[:, None]
    start, stop = np.zeros((a.size, 1)), width[:, None]
    tails = [bulk[:, :1] - layer, bulk[:, -1:] + layer]
    points = np.concatenate([start, layer, bulk, *tails, stop - layer, stop], axis=-1)
    return np.sort(np.minimum(np.maximum(points, start), stop), axis=-1)
