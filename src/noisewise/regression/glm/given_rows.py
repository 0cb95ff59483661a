"""The law of the features by example: rows of a public sample, or drawn from a population that somebody states.

    P(row i) proportional to exp(u' t_i),      t_i = the row in units of the sample's sd about its mean, and products,
so the law has the sample's shape, while its means, spreads and correlations are learnt from the release along with the
coefficients: u ~ N(0, 1/2^2) for a mean, N(0, 1/4^2) for a spread or a correlation, in units in which u moves a mean by
u sd where it is small. Nothing is assumed beyond that, and nothing has to be normal, or within combinations. That the
sample is finite is not in the intervals.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.regression.configurations import Configurations
from noisewise.regression.problem import LocationX
from noisewise.types import Floats

__all__ = ["GivenRows"]

FEWEST, MOST = 20, 500
MEAN_SD, SPREAD_SD = 0.5, 0.25
SAME = 1e-9


@dataclass(frozen=True, slots=True, init=False, eq=False)
class GivenRows:
    """The features of some records like those that were released: a public sample, or draws of a stated population.

    Parameters
    ----------
    rows
        An array (rows, features) of 20 to 500 rows, in the model's order of features and the units of their columns; a
        condition is 0 or 1. Values are as they are after clamping.

    Examples
    --------
    >>> sample = nw.GivenRows(np.random.default_rng(1).gamma(4, 10, (400, 1)))
    >>> nw.LogisticRegression(["income"], nw.column("relapse").equals("yes"), covariates=sample).free
    ('intercept', 'income')
    """

    is_normal: ClassVar[bool] = False

    rows: Floats

    def __init__(self, rows: object) -> None:
        try:
            found = np.asarray(rows)
            found = np.full((0, 0), np.nan) if found.dtype.kind in "SU" else np.array(found, float)
        except (TypeError, ValueError, OverflowError):
            found = np.full((0, 0), np.nan)
        if found.ndim != 2 or not FEWEST <= len(found) <= MOST or not np.all(np.isfinite(found)):
            raise InvalidArgument(
                f"rows must be an array (rows, features) of finite numbers with {FEWEST} to {MOST} rows.",
                argument="rows",
            )
        if np.any(np.ptp(found, axis=0) <= 0):
            raise InvalidArgument("A feature is the same in all rows; such a law says nothing of it.", argument="rows")
        object.__setattr__(self, "rows", found)

    def sized(self, size: int) -> Floats:
        """The rows, of so many features."""
        if self.rows.shape[1] != size:
            raise InvalidArgument(
                f"rows has {self.rows.shape[1]} columns; the model has {size} features.", argument="covariates"
            )
        return self.rows

    def configurations(self) -> Configurations:
        """Every row as a combination of its own, with no numbers left."""
        count, d = self.rows.shape
        return Configurations((), np.zeros((count, 0)), (), self.rows, np.zeros((count, d, 0)))

    def law(self, *, centre: Floats, factor: Floats) -> LocationX:
        """The law in the units factor * (f - centre) of a release's rows."""
        count, d = self.rows.shape
        nothing = np.zeros(0)
        return LocationX(
            offset=factor * (self.rows - centre),
            slope=np.zeros((count, d, 0)),
            tilt=self.tilt(),
            contrast=np.zeros((count, 1)),
            scale=np.zeros((0, 0)),
            degrees=1.0,
            centre=nothing,
            spread=nothing,
        )

    def tilt(self) -> Floats:
        """(rows, s): what log probabilities are linear in, times the prior sd of its coefficient."""
        z = (self.rows - self.rows.mean(axis=0)) / self.rows.std(axis=0)
        products = [z[:, i] * z[:, j] for i, j in itertools.combinations_with_replacement(range(z.shape[1]), 2)]
        basis, kept = [np.full(len(z), len(z) ** -0.5)], []
        for column, sd in [*((own, MEAN_SD) for own in z.T), *((own, SPREAD_SD) for own in products)]:
            rest = column - column.mean()
            for _ in range(2):
                for unit in basis:
                    rest = rest - (unit @ rest) * unit
            size = float(np.linalg.norm(rest))
            if size > SAME * float(np.linalg.norm(column)):
                basis.append(rest / size)
                kept.append(sd * (column - column.mean()))
        return np.stack(kept, axis=1)
