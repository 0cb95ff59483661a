"""Mean and variance of a law from its quantiles, where no closed form is known.

    E X = integral of Q(u) over (0, 1),      Var X = integral of (Q(u) - E X)^2

Each half is cut in t = -log v, v the probability of the nearer tail, and every panel gets Gauss-Legendre nodes. What
the last panel still adds, out to v = e^-700, tells whether the integral exists: a law whose tail it cannot exhaust has
an infinite moment, or none (both tails), and never a number.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np

from noisewise.types import Array, Values

__all__ = ["quantile_moments", "scipy_moments_are_closed", "scipy_quantiles_are_closed"]

PANELS = (float(np.log(2)), 2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 700.0)
PER_PANEL = 16
LEFT = 1e-6  # of an integral, still coming from the last panel: it has no end
SCIPY_BASE = "scipy.stats._distn_infrastructure"


class Quantiles(Protocol):
    """What these moments are made of."""

    def quantile(self, u: object, p: Values) -> Array: ...
    def upper_quantile(self, v: object, p: Values) -> Array: ...


@lru_cache(maxsize=1)
def _tail_nodes() -> tuple[Array, Array]:
    """Probabilities v of one tail and their weights, panel after panel."""
    x, w = np.polynomial.legendre.leggauss(PER_PANEL)
    low, high = np.array(PANELS[:-1])[:, None], np.array(PANELS[1:])[:, None]
    t = (low + high) / 2 + (high - low) / 2 * x
    v = np.exp(-t)
    return v.ravel(), (v * (high - low) / 2 * w).ravel()


def quantile_moments(law: Quantiles, p: Values) -> tuple[Array, Array]:
    """Mean and variance (K,) at K rows of parameters; infinite or NaN where there are none."""
    v, weight = _tail_nodes()
    with np.errstate(all="ignore"):
        tails = [np.atleast_2d(law.quantile(v, p)), np.atleast_2d(law.upper_quantile(v, p))]
        mean = np.asarray(sum(_settled(side, weight) for side in tails))
        centred = [np.square(side - np.where(np.isfinite(mean), mean, np.nan)[:, None]) for side in tails]
        variance = np.asarray(sum(_settled(side, weight) for side in centred))
    return mean, np.where(np.isfinite(mean), variance, np.where(np.isnan(mean), np.nan, np.inf))


def _settled(values: Array, weight: Array) -> Array:
    """The integral of one tail, infinite with its sign where the last panel still adds to it."""
    terms = values * weight
    size = np.abs(terms)
    total, last = terms.sum(axis=1), size[:, -PER_PANEL:].sum(axis=1)
    is_open = ~np.isfinite(total) | (last > LEFT * size.sum(axis=1))
    return np.where(is_open, np.copysign(np.inf, values[:, -1]), total)


def scipy_moments_are_closed(law: object) -> bool:
    """Whether a scipy.stats distribution has formulas of its own for its moments, rather than numerical integrals."""
    return _has_own(law, "_stats", "_munp")


def scipy_quantiles_are_closed(law: object) -> bool:
    """The same of its quantiles."""
    return _has_own(law, "_ppf")


def _has_own(law: object, *names: str) -> bool:
    owned = [kind for kind in type(law).__mro__ if kind.__module__ != SCIPY_BASE]
    return any(set(names) & vars(kind).keys() for kind in owned)
