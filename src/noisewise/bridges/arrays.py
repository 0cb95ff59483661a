"""The few array operations that the terms are written in, and NumPy's way of doing them.

A library that differentiates (JAX, PyTensor) has arrays of its own. The terms are written once, over these operations;
NumPy's are here, so that what is scored can be looked at, and tested, without any of those libraries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy import linalg, special

__all__ = ["Arrays", "NumpyArrays", "Tensor", "log_mills", "stacked"]

Tensor: TypeAlias = Any  # an array of whichever library a model is written in: NumPy's, JAX's, PyTensor's
FAR = 25.0  # from where the ratio of the normal tail to its density is a series


class Arrays(Protocol):
    """Array operations of one library; `axis` counts from the end."""

    def array(self, value: Tensor) -> Tensor: ...
    def stack(self, values: Sequence[Tensor]) -> Tensor: ...
    def shape(self, value: Tensor) -> tuple[int | None, ...]: ...
    def log(self, value: Tensor) -> Tensor: ...
    def exp(self, value: Tensor) -> Tensor: ...
    def sqrt(self, value: Tensor) -> Tensor: ...
    def where(self, condition: Tensor, yes: Tensor, no: Tensor) -> Tensor: ...
    def maximum(self, one: Tensor, other: Tensor) -> Tensor: ...
    def clip(self, value: Tensor, low: float, high: float) -> Tensor: ...
    def sum(self, value: Tensor, *, axis: int | None = None) -> Tensor: ...
    def max(self, value: Tensor, *, axis: int | None = None) -> Tensor: ...
    def log_ndtr(self, value: Tensor) -> Tensor: ...
    def root(self, matrix: Tensor) -> Tensor: ...
    def solve_lower(self, root: Tensor, vector: Tensor) -> Tensor: ...
    def diagonal(self, matrix: Tensor) -> Tensor: ...


class NumpyArrays:
    """The operations as NumPy and SciPy have them."""

    def array(self, value: Tensor) -> Tensor:
        return np.asarray(value, dtype=float)

    def stack(self, values: Sequence[Tensor]) -> Tensor:
        return np.stack(list(values))

    def shape(self, value: Tensor) -> tuple[int | None, ...]:
        return np.shape(value)

    def log(self, value: Tensor) -> Tensor:
        return np.log(value)

    def exp(self, value: Tensor) -> Tensor:
        return np.exp(value)

    def sqrt(self, value: Tensor) -> Tensor:
        return np.sqrt(value)

    def where(self, condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
        return np.where(condition, yes, no)

    def maximum(self, one: Tensor, other: Tensor) -> Tensor:
        return np.maximum(one, other)

    def clip(self, value: Tensor, low: float, high: float) -> Tensor:
        return np.clip(value, low, high)

    def sum(self, value: Tensor, *, axis: int | None = None) -> Tensor:
        return np.sum(value, axis=axis)

    def max(self, value: Tensor, *, axis: int | None = None) -> Tensor:
        return np.max(value, axis=axis)

    def log_ndtr(self, value: Tensor) -> Tensor:
        return special.log_ndtr(value)

    def root(self, matrix: Tensor) -> Tensor:
        return np.linalg.cholesky(matrix)

    def solve_lower(self, root: Tensor, vector: Tensor) -> Tensor:
        return linalg.solve_triangular(root, vector, lower=True)

    def diagonal(self, matrix: Tensor) -> Tensor:
        return np.diagonal(matrix)


def stacked(arrays: Arrays, value: Tensor) -> Tensor:
    """A number, an array, or lists of them (of lists), as one array of the library."""
    match value:
        case [*members]:
            return arrays.stack([stacked(arrays, one) for one in members])
        case _:
            return arrays.array(value)


def log_mills(arrays: Arrays, x: Tensor) -> Tensor:
    """h(x) = log(Phi(-x) exp(x^2/2)), without loss for large x, and with a slope everywhere."""
    near, far = arrays.where(x < FAR, x, 0.0), arrays.where(x < FAR, FAR, x)
    u = 1 / (far * far)
    series = 1 - u * (1 - u * (3 - u * (15 - u * 105)))
    beyond = arrays.log(series) - arrays.log(far) - 0.5 * float(np.log(2 * np.pi))
    return arrays.where(x < FAR, arrays.log_ndtr(-near) + 0.5 * near * near, beyond)
