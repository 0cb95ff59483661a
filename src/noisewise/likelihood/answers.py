"""Many numbers summed through few nodes: sum_t f(y_t) at a cost that does not grow with the number of answers.

On each panel of the range f is replaced by the polynomial through its values at Gauss-Legendre nodes, so
    sum_t f(y_t) = sum_j weight_j f(node_j),    weight_j = sum_t l_j(y_t),
with weights computed once from the answers. Where f is not resolved (a population much narrower than a panel) the sum
over a spread-out sample of the answers disagrees with their own values, and the caller is told to sum directly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noisewise.likelihood.quadrature import interpolation_matrix, on_panels
from noisewise.populations.parameters import Array

PANELS, ORDER = 64, 10
SAMPLE = 256
FEWEST = 1000  # below this number of answers their own values are as cheap


class Summed(NamedTuple):
    """The answers as weighted nodes, with a sample of them to check the interpolation."""

    nodes: Array  # (M,)
    weights: Array  # (M,)
    sample: Array  # (S,)
    at_sample: Array  # (S, M): the interpolation matrix at the sample
    size: int

    @classmethod
    def of(cls, answers: Array) -> Summed:
        low, high = float(answers.min()), float(answers.max())
        # Panels of equal width and of equal numbers of answers, and panels that shrink towards both ends, where the
        # density of a folded feature (x^2 at 0) bends without bound.
        even = np.linspace(low, high, PANELS // 2 + 1)
        dense = np.quantile(answers, np.linspace(0, 1, PANELS // 2 + 1))
        graded = (high - low) * 4.0 ** -np.arange(2, 16)
        edges = np.unique(np.concatenate([even, dense, low + graded, high - graded]))
        edges = edges[np.concatenate([[True], np.diff(edges) > 1e-12 * (high - low)])]
        edges[-1] = high
        nodes = on_panels(edges, ORDER)[0]
        weights = np.zeros(nodes.shape)
        panel, unit = _places(answers, edges)
        for index in range(len(nodes)):
            inside = unit[panel == index]
            if inside.size:
                weights[index] = interpolation_matrix(ORDER, inside).sum(axis=0)
        sample = np.sort(answers)[np.linspace(0, answers.size - 1, min(SAMPLE, answers.size)).astype(int)]
        panel, unit = _places(sample, edges)
        matrix = np.zeros((sample.size, *nodes.shape))
        matrix[np.arange(sample.size), panel] = interpolation_matrix(ORDER, unit)
        return cls(nodes.ravel(), weights.ravel(), sample, matrix.reshape(sample.size, -1), answers.size)

    @property
    def points(self) -> Array:
        """Where f is wanted: the nodes, then the sample."""
        return np.concatenate([self.nodes, self.sample])

    def weighted(self, values: Array) -> Array:
        """sum_t f(y_t) from values (..., M) at the nodes alone."""
        return np.asarray(values @ self.weights)

    def total(self, values: Array) -> tuple[Array, Array]:
        """sum_t f(y_t) and an estimate of its error, (K,), from values (K, M + S) at `points`."""
        at_nodes, at_sample = values[:, : self.nodes.size], values[:, self.nodes.size :]
        gap = at_nodes @ self.at_sample.T - at_sample
        return np.asarray(at_nodes @ self.weights), np.asarray(self.size * np.abs(gap).mean(axis=1))


def _places(values: Array, edges: Array) -> tuple[np.ndarray[tuple[int], np.dtype[np.intp]], Array]:
    """The panel of each value and where it lies in it, in [-1, 1]."""
    panel = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, edges.size - 2)
    low, high = edges[panel], edges[panel + 1]
    return panel, np.asarray(2 * (values - low) / (high - low) - 1)
