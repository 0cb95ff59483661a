"""One record, clipped and answered with Gaussian noise: Y = clip(X, l, r) + V, X ~ N(mu, sigma^2), V ~ N(0, tau^2).

With v = sigma tau/sqrt(sigma^2 + tau^2) and m = mu + (y - mu) sigma^2/(sigma^2 + tau^2), of X given y unclipped,
    p(y) = Phi(a) N(y; l, tau^2) + Phi(-b) N(y; r, tau^2) + N(y; mu, sigma^2 + tau^2) P,   P = P(l < N(m, v^2) < r),
a = (l - mu)/sigma, b = (r - mu)/sigma. Fisher's identity gives the score from the truncated moments of x given y:
    p sigma d/dmu log p = -phi(a) N(y; l, tau^2) + phi(b) N(y; r, tau^2)
                          + N(y; mu, sigma^2 + tau^2) P E[(x - mu)/sigma | y, l < x < r],
with -a phi(a), b phi(b), ((x - mu)/sigma)^2 - 1 in their places for d/dsigma.
The Fisher information is the integral of score score' p over the line, in panels about l, r and mu.
Promise: log p to 1e-12 relative, the score to 1e-11 in units of 1/sigma, for any y, l < r, sigma and tau.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from noisewise.likelihood.quadrature import on_panels
from noisewise.likelihood.tilted_normal import log_mass, moments
from noisewise.types import Floats

__all__ = ["information", "log_density", "score"]

LOG_ROOT_2PI = 0.5 * float(np.log(2 * np.pi))


def log_density(
    y: ArrayLike, *, mean: ArrayLike, sd: ArrayLike, low: ArrayLike, high: ArrayLike, noise_sd: ArrayLike
) -> Floats:
    """log p(y)."""
    parts = _parts(*_floats(y, mean, sd, low, high, noise_sd))
    return np.asarray(np.logaddexp(np.logaddexp(parts[0], parts[1]), parts[2]))[()]


def score(
    y: ArrayLike, *, mean: ArrayLike, sd: ArrayLike, low: ArrayLike, high: ArrayLike, noise_sd: ArrayLike
) -> tuple[Floats, Floats]:
    """The derivatives of log p(y) in the mean and in the standard deviation."""
    y, mean, sd, low, high, noise_sd = np.broadcast_arrays(*_floats(y, mean, sd, low, high, noise_sd))
    parts = _parts(y, mean, sd, low, high, noise_sd)
    log_p = np.logaddexp(np.logaddexp(parts[0], parts[1]), parts[2])
    a, b, centre, spread = _given(y, mean, sd, low, high, noise_sd)
    ends = (a - centre) / spread, (b - centre) / spread
    inner = moments(*ends, np.zeros_like(a), (high - low) / sd / spread)
    share = np.exp(parts[2] - log_p)
    x = centre + spread * inner.mean
    square = np.square(centre) + 2 * centre * spread * inner.mean + np.square(spread) * inner.square
    at_low = np.exp(_log_normal(a, 1.0) + _log_normal(y - low, noise_sd) - log_p)
    at_high = np.exp(_log_normal(b, 1.0) + _log_normal(y - high, noise_sd) - log_p)
    in_mean = share * x - at_low + at_high
    in_sd = share * (square - 1) - a * at_low + b * at_high
    return np.asarray(in_mean / sd)[()], np.asarray(in_sd / sd)[()]


def information(*, mean: ArrayLike, sd: ArrayLike, low: ArrayLike, high: ArrayLike, noise_sd: ArrayLike) -> Floats:
    """Fisher information (..., 2, 2) of one answer on (mean, sd)."""
    mean, sd, low, high, noise_sd = np.broadcast_arrays(*_floats(mean, sd, low, high, noise_sd))
    near = np.array([-10.0, -7.0, -5.0, -3.0, -1.5, 0.0, 1.5, 3.0, 5.0, 7.0, 10.0])
    ends = [noise_sd[..., None] * near + end[..., None] for end in (low, high)]
    bulk = mean[..., None] + np.hypot(sd, noise_sd)[..., None] * near
    first, last = ends[0][..., :1], ends[1][..., -1:]
    edges = np.sort(np.minimum(np.maximum(np.concatenate([*ends, bulk], axis=-1), first), last), axis=-1)
    y, weights = on_panels(edges, 16)
    y, weights = (v.reshape(*mean.shape, -1) for v in (y, weights))
    law = {"mean": mean[..., None], "sd": sd[..., None], "low": low[..., None], "high": high[..., None]}
    law["noise_sd"] = noise_sd[..., None]
    half = np.sqrt(weights * np.exp(log_density(y, **law)))[..., None] * np.stack(score(y, **law), axis=-1)
    return np.asarray(np.einsum("...mp,...mq->...pq", half, half))


def _floats(*values: ArrayLike) -> tuple[Floats, ...]:
    return tuple(np.asarray(value, dtype=np.float64) for value in values)


def _log_normal(d: Floats, sd: Floats | float) -> Floats:
    return np.asarray(-0.5 * np.square(d / sd) - np.log(sd) - LOG_ROOT_2PI)


def _given(y: Floats, mean: Floats, sd: Floats, low: Floats, high: Floats, noise_sd: Floats) -> tuple[Floats, ...]:
    """a, b, and the mean and sd of (x - mu)/sigma given y, before clipping."""
    total = np.hypot(sd, noise_sd)
    return (low - mean) / sd, (high - mean) / sd, (y - mean) / total * (sd / total), noise_sd / total


def _parts(y: Floats, mean: Floats, sd: Floats, low: Floats, high: Floats, noise_sd: Floats) -> tuple[Floats, ...]:
    """The logs of the two atoms' terms and of the part inside the bounds."""
    a, b, centre, spread = _given(y, mean, sd, low, high, noise_sd)
    width = (high - low) / sd / spread
    inside = log_mass((a - centre) / spread, (b - centre) / spread, np.zeros_like(a * centre), width)
    return (
        log_ndtr(a) + _log_normal(y - low, noise_sd),
        log_ndtr(-b) + _log_normal(y - high, noise_sd),
        inside + _log_normal(y - mean, np.hypot(sd, noise_sd)),
    )
