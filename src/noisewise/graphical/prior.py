"""The prior of a model's potentials: mostly small, a few large, on a scale that the tables decide.

    theta_i = tau t_i,     t_i ~ Student's t with nu = 4 degrees of freedom,     tau^2 ~ IG(a, b) = IG(2, 1/2)
and, the same law with a latent l,
    theta_i ~ N(0, tau^2 l_i),     l_i ~ IG(nu/2, nu/2),
    l_i | theta, tau ~ IG((nu + 1)/2, nu/2 + theta_i^2 / 2 tau^2),
    tau^2 | theta, l ~ IG(a + p/2, b + sum_i theta_i^2 / 2 l_i).
"""

from __future__ import annotations

import math

import numpy as np

from noisewise.types import Floats

__all__ = ["SD", "draw", "draw_width", "log_width", "precision", "score"]

DEGREES = 4.0  # nu
SHAPE, RATE = 2.0, 0.5  # a, b
SD = math.sqrt(DEGREES / (DEGREES - 2))  # of a potential, in units of tau


def draw(rng: np.random.Generator, count: int, parameters: int) -> tuple[Floats, Floats]:
    """tau (count,) and theta (count, p)."""
    tau = np.sqrt(RATE / rng.standard_gamma(SHAPE, size=count))
    return tau, tau[:, None] * rng.standard_t(DEGREES, size=(count, parameters))


def score(theta: Floats, tau: Floats) -> tuple[Floats, Floats]:
    """log p(theta | tau) (K,), but for what depends on tau alone, and its gradient in theta (K, p)."""
    ratio = theta / tau[:, None]
    value = -(DEGREES + 1) / 2 * np.sum(np.log1p(np.square(ratio) / DEGREES), axis=1)
    return value, -(DEGREES + 1) * ratio / (DEGREES + np.square(ratio)) / tau[:, None]


def precision(theta: Floats, tau: Floats) -> Floats:
    """E[1 / (tau^2 l) | theta, tau] = (nu + 1) / (nu tau^2 + theta^2), (K, p)."""
    return np.asarray((DEGREES + 1) / (DEGREES * np.square(tau)[:, None] + np.square(theta)))


def log_width(tau: Floats) -> Floats:
    """log p(log tau), but for a constant: all that changes of the prior when theta/tau is held."""
    return np.asarray(-2 * SHAPE * np.log(tau) - RATE * tau**-2.0)


def draw_width(rng: np.random.Generator, theta: Floats, tau: Floats) -> Floats:
    """tau (K,) given theta and l, after the l given theta and tau."""
    squares = np.square(theta)
    mixing = (DEGREES / 2 + squares / (2 * np.square(tau)[:, None])) / rng.gamma((DEGREES + 1) / 2, size=squares.shape)
    rate = RATE + np.sum(squares / (2 * mixing), axis=1)
    return np.asarray(np.sqrt(rate / rng.gamma(SHAPE + theta.shape[1] / 2, size=len(rate))))
