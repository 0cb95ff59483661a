"""Standard errors of a point, and of whatever is computed from it: the delta method, once for everything.

A point keeps the covariance C = L L' of its position on the real line (the inverse of the observed information). Rows
of theta are laid around it at position +- h L e_j; any number f of theta at these rows has, to first order,
    se(f)^2 = g' C g = sum_j (g' L e_j)^2,      g' L e_j = (f_j+ - f_j-) / 2h,
so answers, contrasts and functions need no derivatives of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noisewise.errors import Unsupported
from noisewise.inference.transform import Transform
from noisewise.types import Floats

if TYPE_CHECKING:
    from noisewise.inference.posterior import Posterior

__all__ = ["error_of", "rows_around", "standard_errors"]

STEP = 1e-3  # of a standard error


def rows_around(posterior: Posterior) -> dict[str, Floats]:
    """The point itself, then the pairs of rows around it along each axis of its covariance."""
    assert posterior.covariance is not None
    transform = Transform(posterior.model.supports)
    centre = {name: posterior.draws[name].reshape(1, *posterior.draws[name].shape[2:]) for name in transform.supports}
    values, vectors = np.linalg.eigh(posterior.covariance)
    axes = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    moves = STEP * np.concatenate([[step, -step] for step in axes])
    around = transform.parameters(transform.position(centre) + moves)
    return {name: np.concatenate([own, around[name]]) for name, own in centre.items()}


def error_of(values: Floats) -> float | None:
    """The standard error of a number from its values at these rows; None where there is the point alone."""
    if len(values) < 3:
        return None
    slopes = (values[1::2] - values[2::2]) / (2 * STEP)
    return float(np.sqrt(np.sum(np.square(slopes))))


def standard_errors(posterior: Posterior) -> dict[str, float | Floats]:
    """Of each parameter; NaN for one that has none."""
    if not posterior.is_point:
        raise Unsupported("Standard errors are those of a point estimate; a posterior has posterior.sd.")
    if posterior.covariance is None:
        raise Unsupported(
            f"method={posterior.method!r} has no standard errors here: {posterior.verdict} "
            f"Use method={posterior.instead!r}."
        )
    rows, found = rows_around(posterior), dict[str, float | Floats]()
    for name, value in rows.items():
        flat = value.reshape(len(value), -1)
        errors = np.array([error_of(flat[:, k]) for k in range(flat.shape[1])], np.float64)
        errors = np.where(errors > 0, errors, np.nan)
        found[name] = float(errors[0]) if value.ndim == 1 else errors
    return found
