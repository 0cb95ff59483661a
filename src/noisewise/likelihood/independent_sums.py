"""Dependent features as few independent sums: what two releases of one sum, x beside 1 - x, or a constant amount to.

Features of a record may be tied to each other wherever a record can be:
    f_j(x) = c_j + sum_k A_jk f_{basis k}(x)      for all x,
so that their sums over n records are n c_j + sum_k A_jk S_k with fewer sums S_k, whose covariance has full rank. The
noises of all components that load on one sum alone multiply given it. A feature that cannot vary (a count of everybody)
loads on none.

The ties are found by elimination on the values of the features at the places a record can take: whole numbers, or a
grid with every place where a feature bends and the middles between them, within the bounds and the population's
support. Two features that agree at all of these agree everywhere, since between bends a feature is smooth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from noisewise.populations.cleaned import attach
from noisewise.populations.nodes import kinks_of
from noisewise.populations.parameters import Array
from noisewise.populations.population import AnyPopulation
from noisewise.schema import Bounded, Schema
from noisewise.statistics.feature import Feature

__all__ = ["IndependentSums", "possible_records"]

GRID = 129
MOST_WHOLE = 1025  # whole numbers that are all looked at
MOST_COMBINED = 2048  # records of several columns
PRIOR_DRAWS = 64
TIED = 1e-9  # of a feature's spread
MOST_FEATURES = 32  # a larger row is a table, whose cells are scored as they are


@dataclass(frozen=True, slots=True, eq=False)
class IndependentSums:
    """f_j = constant_j + loading_j . f[basis]: constant (d,), loading (d, r), basis (r,) indices into the row."""

    basis: tuple[int, ...]
    constant: Array
    loading: Array

    @classmethod
    def of(cls, row: Sequence[Feature], schema: Schema, population: AnyPopulation) -> IndependentSums:
        """The ties between the features of one cleaned record of this population."""
        d = len(row)
        if d > MOST_FEATURES:
            return cls(tuple(range(d)), np.zeros(d), np.eye(d))
        records = possible_records(population, row, schema)
        size = len(next(iter(records.values())))
        values = np.stack([np.broadcast_to(np.asarray(f.value(records, schema), float), (size,)) for f in row], axis=1)
        return cls.of_values(values)

    @classmethod
    def of_values(cls, values: Array) -> IndependentSums:
        """The ties between the columns of values (P, d), one row for each place."""
        d = values.shape[1]
        basis: list[int] = []
        constant, loading = np.zeros(d), np.zeros((d, d))
        for j in range(d):
            f = values[:, j]
            if np.ptp(f) == 0:
                constant[j] = f[0]
                continue
            design = np.column_stack([np.ones(len(f)), values[:, basis]])
            size = np.maximum(np.abs(design).max(axis=0), 1e-300)
            fit = np.linalg.lstsq(design / size, f, rcond=1e-13)[0] / size
            spread = max(float(np.ptp(f)), 1e-13 * float(np.abs(f).max()))
            if float(np.max(np.abs(design @ fit - f))) <= TIED * spread:
                constant[j] = _rounded(fit[0])
                reach = np.ptp(values[:, basis], axis=0)
                loading[j, : len(basis)] = [
                    0.0 if abs(a * r) < TIED * spread else _rounded(a) for a, r in zip(fit[1:], reach, strict=True)
                ]
            else:
                loading[j, len(basis)] = 1.0
                basis.append(j)
        return cls(tuple(basis), constant, loading[:, : len(basis)])

    @property
    def rank(self) -> int:
        return len(self.basis)

    @property
    def is_trivial(self) -> bool:
        """Whether no feature is tied to others."""
        return len(self.basis) == len(self.constant)

    @property
    def sum_of(self) -> Array:
        """(d,): which sum a component loads on; -1 for a constant, -2 where it mixes several."""
        count = np.count_nonzero(self.loading, axis=1)
        which = np.argmax(self.loading != 0, axis=1) if self.rank else np.zeros(len(count), int)
        return np.where(count == 0, -1, np.where(count == 1, which, -2))

    def of_components(self, chosen: Any) -> IndependentSums:
        """The ties among some of the components alone, over a basis of theirs."""
        # A generic point cloud stands in for the sums: ties between combinations of independent ones are linear.
        cloud = np.random.default_rng(0).standard_normal((4 * self.rank + 8, self.rank))
        return IndependentSums.of_values(self.constant[chosen] + cloud @ self.loading[chosen].T)

    def expanded(self, sums: Array, n: int) -> Array:
        """All components' sums (..., d) from the independent ones (..., r)."""
        return np.asarray(n * self.constant + sums @ self.loading.T)


@singledispatch
def possible_records(population: AnyPopulation, row: Sequence[Feature], schema: Schema) -> dict[str, Array]:
    """Places that a cleaned record can take, by column (P,), dense enough to tell any two features apart."""
    names = sorted(frozenset().union(*(feature.columns() for feature in row)))
    used = attach(population, schema, names)
    theta = population.sample_prior(np.random.default_rng(0), PRIOR_DRAWS) if population.free else {}
    each = {}
    for name in names:
        entry = schema.column(name)
        if not isinstance(entry, Bounded):
            each[name] = np.arange(len(entry), dtype=float)
            continue
        own = tuple(node for feature in row for node in feature.nodes() if node.columns() == {name})
        points = _places(used[name], entry, kinks_of(own, schema, name), schema.outside)
        with np.errstate(all="ignore"):
            logs = np.atleast_2d(used[name].log_density(points, population.theta_of(name, theta)))
            possible = (logs > -np.inf).any(axis=0)
            if schema.outside == "clamp":  # the bounds collect what lies beyond them
                cdf = np.atleast_2d(used[name].cdf([entry.low, entry.high], population.theta_of(name, theta)))
                possible |= (points == entry.low) & bool((cdf[:, 0] > 0).any())
                possible |= (points == entry.high) & bool((cdf[:, 1] < 1).any())
        each[name] = points[possible] if possible.any() else points
    if len(each) == 1:
        return each
    rng = np.random.default_rng(0)
    if np.prod([float(len(points)) for points in each.values()]) <= MOST_COMBINED:
        grids = np.meshgrid(*each.values(), indexing="ij")
        return {name: grid.ravel() for name, grid in zip(each, grids, strict=True)}
    return {name: rng.choice(points, MOST_COMBINED) for name, points in each.items()}


def _places(law: Any, entry: Bounded, kinks: Sequence[float], outside: str) -> Array:
    """Of one column: its whole numbers, or a grid cut at the kinks."""
    if law.is_discrete and entry.high - entry.low < MOST_WHOLE:
        whole = np.arange(np.ceil(entry.low), np.floor(entry.high) + 1)
        return np.unique([entry.low, *whole, entry.high]) if outside == "clamp" else whole
    cuts = np.unique([entry.low, *kinks, entry.high])
    return np.unique([*cuts, *(0.5 * (cuts[1:] + cuts[:-1])), *np.linspace(entry.low, entry.high, GRID)])


def _rounded(value: float) -> float:
    """A coefficient without the last digits, which elimination leaves uncertain."""
    if abs(value) < 1e-300:
        return 0.0
    unit = 10.0 ** (np.floor(np.log10(abs(value))) - 12)
    return float(np.round(value / unit) * unit)
