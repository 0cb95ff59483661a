"""One site's density under a law that all sites have in common, on top of any density of this room.

A position of a site is (u, rest): u what sites share a law of (coefficients, and log sigma where there is one), rest
its own (the law of its covariates, mixing variances). With b = T u - s, the numbers that vary between sites,
    log p(u, rest) = log likelihood + log prior(rest) - sum_k (b_k - centre_k)^2/(2 spread_k^2).
A density that has a prior N(0, 1) on some u by itself is given back that much (`own`). An infinite spread leaves the
likelihood. The arrays of the law are overwritten between steps: nothing is compiled again.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from noisewise.compilation import is_ours, njit
from noisewise.populations.parameters import offers
from noisewise.types import Floats

if TYPE_CHECKING:
    from numba.core.dispatcher import Dispatcher

__all__ = ["CommonLaw", "SiteData", "with_common_law"]


class CommonLaw(NamedTuple):
    """b ~ N(centre, diag spread^2), b = turn u - shift."""

    turn: Floats  # (p, p)
    centre: Floats  # (p,)
    spread: Floats  # (p,)
    own: Floats  # (p,): the precision of the density's own prior on u, taken back
    shift: Floats  # (p,)


class SiteData(NamedTuple):
    """What the density of one site reads: the data of a density, and the common law."""

    data: object
    law: CommonLaw


def density(position: Floats, data: object, gradient: Floats) -> float:  # noqa: ARG001
    """The standard normal law; `with_common_law` puts another in its place."""
    gradient[:] = -position
    return -0.5 * float(position @ position)


def common_density(position: Floats, site: SiteData, gradient: Floats) -> float:
    """log density (up to a constant) of a site's position; writes its gradient."""
    value = density(position, site.data, gradient)
    if not np.isfinite(value):
        return value
    turn, centre, spread, own, shift = site.law
    count = len(centre)
    for j in range(count):
        value += 0.5 * own[j] * position[j] * position[j]
        gradient[j] += own[j] * position[j]
    for k in range(count):
        away = -centre[k] - shift[k]
        for j in range(count):
            away += turn[k, j] * position[j]
        away /= spread[k]
        value -= 0.5 * away * away
        for j in range(count):
            gradient[j] -= turn[k, j] * away / spread[k]
    return value


def with_common_law(of: Callable[..., float], name: str) -> Callable[..., float]:
    """The density of a site on top of another, compiled where that is; `name` tells it on disk (see `walk_of`)."""
    copy = FunctionType(common_density.__code__, {**common_density.__globals__, "density": of}, name)
    copy.__qualname__ = name
    return njit(cache=is_ours(cast("Dispatcher", of)))(copy) if offers(of, "py_func") else copy
