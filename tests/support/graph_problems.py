"""Small problems of graphical models: what is published about them, and their means by enumeration."""

from __future__ import annotations

import numpy as np
from graphs import cells_of, every_record
from numpy.typing import NDArray
from scipy import sparse

from noisewise.graphical.engine import JunctionEngine
from noisewise.graphical.problem import GAUSSIAN, LAPLACE, Holder, Problem
from noisewise.graphical.structure import Regions

Floats = NDArray[np.float64]


def holder(observed: Floats, *, n: float, variance: float, family: str = LAPLACE, sums: Floats | None = None) -> Holder:
    """Entries with noise of one variance; each counts one cell unless `sums` says otherwise."""
    matrix = np.eye(len(observed)) if sums is None else sums
    return Holder(n, sparse.csr_array(matrix), observed, np.full(len(observed), variance), family)


def published(
    rng: np.random.Generator,
    tables: Regions,
    potentials: Floats,
    *,
    n: int,
    variance: float,
    family: str = LAPLACE,
    sums: Floats | None = None,
) -> Holder:
    """The tables of n records drawn from the model, with noise."""
    states = every_record(tables)
    t = cells_of(tables, states)
    weight = np.exp(t @ potentials - (t @ potentials).max())
    counts = rng.multinomial(n, weight / weight.sum()) @ t
    entries = counts if sums is None else sums @ counts
    scale = np.sqrt(variance)
    noise = rng.normal(0, scale, len(entries)) if family == GAUSSIAN else rng.laplace(0, scale / 2**0.5, len(entries))
    return holder(entries + noise, n=float(n), variance=variance, family=family, sums=sums)


def problem(tables: Regions, *holders: Holder, spread: list[int] | None = None) -> Problem:
    """A parameter for each cell, unless `spread` ties them or leaves some out."""
    spread_of = np.arange(tables.cells) if spread is None else np.array(spread)
    return Problem(JunctionEngine(tables), spread_of, holders)
