"""Several Laplace noises on one normal sum: U ~ N(mu, tau^2), and releases of it with noises of scales b_1 .. b_J.

Given U the noises multiply, and the logarithm of their product is straight between the knots k_1 < .. < k_J (where a
release would put the sum if it had no noise):
    log g(u) = -sum_j |u - k_j| / b_j.
So p = E g(U) is a sum of J + 1 normal masses under an exponential tilt (`tilted_normal`), and U given the releases is
one of J + 1 truncated normals, drawn by inversion.

Promise: near 1e-12 of log p for every spread and scale; tau = 0 is the product of the noises at mu.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from noisewise.likelihood.tilted_normal import log_mass
from noisewise.types import Floats

__all__ = ["Knots", "draw", "log_density"]

NARROW = 1e-9  # of the sharpest noise: a sum this sure of itself is a point


class Knots(NamedTuple):
    """log g: knots (J,) rising, its values there, and the slopes (J + 1,) of the stretches between them, falling."""

    places: Floats
    values: Floats
    slopes: Floats

    @classmethod
    def of(cls, places: ArrayLike, scale: ArrayLike) -> Knots:
        """From where each release would put the sum, and its Laplace scale in units of the sum."""
        order = np.argsort(np.asarray(places, dtype=float), kind="stable")
        k = np.asarray(places, dtype=float)[order]
        rates = 1 / np.asarray(scale, dtype=float)[order]
        slopes = rates.sum() - 2 * np.concatenate([[0.0], np.cumsum(rates)])
        slopes[-1] = -slopes[0]
        return cls(k, -np.abs(k[:, None] - k) @ rates, slopes)

    def log_noise(self, u: ArrayLike) -> Floats:
        """log g(u)."""
        rates = -0.5 * np.diff(self.slopes)
        return np.asarray(-np.abs(np.asarray(u, dtype=float)[..., None] - self.places) @ rates)

    @property
    def sharpest(self) -> float:
        return float(1 / self.slopes[0])


def log_density(knots: Knots, *, mean: ArrayLike, variance: ArrayLike) -> Floats:
    """log E g(U), (K,), of U ~ N(mean, variance); the heights 1/2b of the noises are not in it."""
    mean, tau = np.asarray(mean, dtype=float), np.sqrt(np.asarray(variance, dtype=float))
    point = tau <= NARROW * knots.sharpest
    masses = logsumexp(_log_masses(knots, mean, np.where(point, 1.0, tau)), axis=-1)
    return np.asarray(np.where(point, knots.log_noise(mean), masses))


def draw(rng: np.random.Generator, knots: Knots, *, mean: Floats, variance: Floats) -> Floats:
    """U given the releases, one draw for each row (K,)."""
    tau = np.sqrt(np.maximum(variance, 0.0))
    point = tau <= NARROW * knots.sharpest
    safe = np.where(point, 1.0, tau)
    logs = _log_masses(knots, mean, safe)
    stretch = np.argmax(logs + rng.gumbel(size=logs.shape), axis=1)
    ends = np.concatenate([[-np.inf], knots.places, [np.inf]])
    # On a stretch of slope s the normal law is the same with its mean moved by s tau^2.
    centre = mean + knots.slopes[stretch] * np.square(safe)
    low, high = (ends[stretch] - centre) / safe, (ends[stretch + 1] - centre) / safe
    flip = np.where(low > 0, -1.0, 1.0)  # the nearer tail keeps its digits
    a, b = np.where(low > 0, -high, low), np.where(low > 0, -low, high)
    share = rng.random(mean.shape)
    with np.errstate(divide="ignore"):
        upto = np.logaddexp(log_ndtr(a) + np.log1p(-share), log_ndtr(b) + np.log(share))
    z = flip * np.clip(ndtri_exp(upto), a, b)
    return np.asarray(np.where(point, mean, centre + safe * z))


def _log_masses(knots: Knots, mean: Floats, tau: Floats) -> Floats:
    """The logarithm of E[g(U); U on the stretch], (K, J + 1), each measured from the higher end of its stretch."""
    z = (knots.places - mean[:, None]) / tau[:, None]
    width = np.diff(knots.places) / tau[:, None]
    steep = np.abs(knots.slopes) * tau[:, None]
    parts = [knots.values[0] + log_mass(np.full_like(mean, -np.inf), z[:, 0], steep[:, 0], np.full_like(mean, np.inf))]
    for j in range(1, knots.places.size):
        if knots.slopes[j] >= 0:
            parts.append(knots.values[j] + log_mass(z[:, j - 1], z[:, j], steep[:, j], width[:, j - 1]))
        else:
            parts.append(knots.values[j - 1] + log_mass(-z[:, j], -z[:, j - 1], steep[:, j], width[:, j - 1]))
    last = log_mass(np.full_like(mean, -np.inf), -z[:, -1], steep[:, -1], np.full_like(mean, np.inf))
    return np.stack([*parts, knots.values[-1] + last], axis=-1)
