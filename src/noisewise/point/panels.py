"""A continuous prior as weighted points, and integrals over a part of it.

The points are Gauss-Legendre nodes in the probability u = F(theta), on panels between equally likely quantiles, finer
in the tails. A smooth function of theta is summed over the points; its integral up to some theta takes all panels below
and, in the panel of theta, the integral of the polynomial through the nodes,
    int_(-1)^x f = sum_j w_j f_j A_j(x),   A_j(x) = sum_k (k + 1/2) P_k(x_j) int_(-1)^x P_k,
where int_(-1)^x P_k = (P_(k+1)(x) - P_(k-1)(x))/(2k + 1), and x + 1 for k = 0. So a distribution function has no steps
between the points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial import legendre

from noisewise.likelihood.quadrature import gauss_legendre, on_panels
from noisewise.populations.parameters import Array

PANELS, TAILS, ORDER = 256, 24, 8


@dataclass(frozen=True, slots=True, eq=False)
class PriorPanels:
    """Panels of probability of one prior, (P + 1,) of them up to the median; the others mirror these."""

    prior: Any
    edges: Array

    @classmethod
    def of(cls, prior: Any) -> PriorPanels:
        even = np.arange(1, PANELS // 2 + 1) / PANELS
        return cls(prior, np.concatenate([[0.0], np.geomspace(1e-15, even[0], TAILS)[:-1], even]))

    def points(self) -> tuple[Array, Array]:
        """The points theta, in increasing order, and their probabilities."""
        nodes, weights = (part.ravel() for part in on_panels(self.edges, ORDER))
        theta = np.concatenate([self.prior.ppf(nodes), self.prior.isf(nodes)[::-1]])
        low, high = (float(end) for end in self.prior.support())
        # Quantiles may reach or leave the ends by their rounding; an estimand may be infinite there.
        theta = np.clip(theta, np.nextafter(low, np.inf), np.nextafter(high, -np.inf))
        return np.asarray(theta, dtype=float), np.concatenate([weights, weights[::-1]])

    def below(self, terms: Array, theta: Array) -> Array:
        """The part of each row's sum of `terms` (S, I), one a point, that lies at or below each theta, (S, M)."""
        panel, shares = self._place(theta)
        rows = terms.reshape(len(terms), -1, ORDER)
        whole = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(rows.sum(axis=2), axis=1)], axis=1)[:, panel]
        for j in range(ORDER):
            whole += rows[:, panel, j] * shares[:, j]
        return np.asarray(whole)

    def _place(self, theta: Array) -> tuple[np.ndarray[Any, np.dtype[np.intp]], Array]:
        """The panel of each theta, and the share A_j of each of its nodes that lies below, (M, order)."""
        count = len(self.edges) - 1
        lower, upper = self.prior.cdf(theta), self.prior.sf(theta)
        tail = np.minimum(lower, upper)
        k = np.clip(np.searchsorted(self.edges, tail, side="right") - 1, 0, count - 1)
        x = np.clip(2 * (tail - self.edges[k]) / (self.edges[k + 1] - self.edges[k]) - 1, -1, 1)
        is_low = lower <= upper
        x = np.where(is_low, x, -x)
        nodes, _ = gauss_legendre(ORDER)
        degrees = np.arange(ORDER)
        values = legendre.legvander(x, ORDER)
        integrals = (values[:, 1:] - np.pad(values, ((0, 0), (1, 0)))[:, :ORDER]) / (2 * degrees + 1)
        integrals[:, 0] += 1
        shares = integrals @ ((degrees + 0.5)[:, None] * legendre.legvander(nodes, ORDER - 1).T)
        return np.where(is_low, k, 2 * count - 1 - k), shares
