"""A log-density between the points of a grid: cubic splines along every line at once.

Tensor splines pass through every point of the grid, and what they miss between points falls with the fourth power of
the step, where straight lines miss by its square. So a table of a few thousand values stands for a law that would cost
a quadrature at every draw; `is_near` says whether it may, when the law itself was asked at some of the draws.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import ndimage

from noisewise.types import Array, Floats

__all__ = ["TESTED", "LogSpline", "grid_places", "is_near"]

DEEP = 150.0  # below the top of its row a logarithm is taken as so much
PADDING = 4
TESTED = 40  # draws at which spline and law are compared
MISSED = 0.1  # of a logarithm


class LogSpline:
    """A spline over a grid. The first `rows` lines are cases, such as sizes, each with a top of its own."""

    def __init__(self, log: Floats, *, rows: int = 0) -> None:
        inner = tuple(range(rows, log.ndim))
        safe = np.where(np.isnan(log), -np.inf, log)
        top = np.max(safe, axis=inner, keepdims=True)
        top = np.where(np.isfinite(top), top, -DEEP)
        # A mirrored end has no slope; some points straight on keep that from where values are asked for.
        longer = np.pad(np.maximum(safe, top - DEEP), PADDING, mode="reflect", reflect_type="odd")
        self._coefficients = ndimage.spline_filter(longer, order=3, mode="mirror")
        self._last = np.array(log.shape) - 1

    def at(self, places: Array) -> Floats:
        """The logarithm at places (S, lines) counted in grid points; beyond an end it is that of the end."""
        inside = np.clip(places, 0, self._last) + PADDING
        return np.asarray(ndimage.map_coordinates(self._coefficients, inside.T, mode="mirror", prefilter=False))


def grid_places(points: Array, grids: Sequence[Floats]) -> Floats:
    """Points (S, p) counted in steps of the grids."""
    return np.stack([(points[:, k] - grid[0]) / (grid[1] - grid[0]) for k, grid in enumerate(grids)], axis=1)


def is_near(spline: Array, law: Array) -> bool:
    """Whether logarithms differ by a constant alone, as far as draws can tell."""
    miss = spline - law
    return bool(np.all(np.abs(miss - np.median(miss)) < MISSED))
