"""A graphical model and what was published about it, as numbers: what every method starts from.

    potentials = theta[spread]                            one parameter a cell; tied cells share one
    y = n W mu(theta) + sampling + noise                  W adds the cells that a published entry counts
    Var(sampling) = n W Sigma(theta) W',                  Var(noise) = variance, the privacy noise

Entries are in persons: a tied table, in which each person's whole mass is 1, has been divided by its unit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from noisewise.graphical.engine import Engine
from noisewise.types import Floats, Ints

__all__ = ["GAUSSIAN", "LAPLACE", "Fit", "Holder", "Problem"]

LAPLACE, GAUSSIAN = "laplace", "gaussian"


@dataclass(frozen=True, slots=True, eq=False)
class Holder:
    """The published tables of one data set, stacked."""

    n: float  # records
    sums: sparse.csr_array  # W, (entries, cells)
    observed: Floats  # y, (entries,)
    variance: Floats  # of the privacy noise, (entries,)
    family: str  # LAPLACE or GAUSSIAN; discrete laws are scored as these, with their own variance
    tables: tuple[slice, ...] = ()  # the entries of each published table; none given: all entries are one table

    def mean(self, mu: Floats) -> Floats:
        """n W mu, for one mu (cells,) or rows of them."""
        return np.asarray(self.n * (self.sums @ mu.T).T)

    def covariance(self, sigma: Floats) -> Floats:
        """n W Sigma W'."""
        return np.asarray(self.n * (self.sums @ (self.sums @ sigma).T))

    def back(self, residual: Floats) -> Floats:
        """W' r: what an entry says, at the cells it counts; one r (entries,) or rows of them."""
        return np.asarray((self.sums.T @ residual.T).T)

    @property
    def quantum(self) -> Floats:
        """What one record adds to an entry: 1, or its share in a tied table; (entries,)."""
        return np.asarray(self.sums.max(axis=1).toarray()).ravel()

    @property
    def scale(self) -> Floats:
        """b of a Laplace law with this variance."""
        return np.sqrt(self.variance / 2)


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A model's engine, its parameters, and the holders' tables."""

    engine: Engine
    spread: Ints  # of each cell: its parameter, or -1 (a table that is asked for, not a factor of the model)
    holders: tuple[Holder, ...]

    @property
    def parameters(self) -> int:
        return int(self.spread.max()) + 1

    def potentials(self, theta: Floats) -> Floats:
        """Cell by cell, for one theta (p,) or rows of them."""
        return np.where(self.spread >= 0, theta[..., self.spread], 0.0)

    def gather(self, cells: Floats) -> Floats:
        """The chain rule of `potentials`: for each parameter the sum over its cells; one vector or rows."""
        is_factor = self.spread >= 0
        rows = np.atleast_2d(cells)[:, is_factor]
        out = np.zeros((len(rows), self.parameters))
        np.add.at(out.T, self.spread[is_factor], rows.T)
        return out.reshape(*cells.shape[:-1], self.parameters)

    @property
    def n(self) -> float:
        """Records of all holders."""
        return sum(holder.n for holder in self.holders)


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A point estimate: the parameters, how many steps it took, and what is to be said about it."""

    theta: Floats
    steps: int
    notes: tuple[str, ...] = ()
    tau: float | None = None  # the width of the prior, where it was learnt
    log_evidence: float | None = None
    effective: float | None = None  # parameters that the tables determine, where a method counts them
