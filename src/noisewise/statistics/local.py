"""The local model: every record answers for itself, with the noise added before the answer leaves it.

`Records(f)` publishes one noisy answer a record, sorted, never in row order; `Records(f, cells=[...])` publishes how
many records answered each cell under randomized response. One record gives one answer, so the guarantee is that
of a single answer: its sensitivity is the range of f, whatever n is.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.lattice import Lattice, lattice_for, sum_step, unit_lattice
from noisewise.privacy.guarantee import Guarantee
from noisewise.privacy.mechanism import added_noise, mechanism_named, ruled_law
from noisewise.schema import Levels, Schema, checked_schema
from noisewise.statistics.additive import columns_of, read_features
from noisewise.statistics.enclosure import feature_range
from noisewise.statistics.evaluation import cell_counts, cell_index
from noisewise.statistics.feature import Feature, number_text
from noisewise.statistics.polynomial import is_constant
from noisewise.statistics.protocol import Rows, Settled, Sort, Statistic, Whole, refuse_weights
from noisewise.statistics.sensitivity import Sensitivity, checked_norm, exact
from noisewise.statistics.settling import ONE, calibrated, scales
from noisewise.statistics.tables import read_edges


@dataclass(frozen=True, slots=True, init=False)
class Records(Statistic):
    """One private answer for each record: the feature with noise, or its cell by randomized response. Change-one only.

    Parameters
    ----------
    feature
        A column, or a feature. Of a column with levels, or of a feature that is 0 or 1, the answer is a cell.
    cells
        Thresholds, ascending: the answer is the cell in which the feature lies. Default None.

    Examples
    --------
    >>> schema = nw.Schema({"smokes": nw.Levels(["no", "yes"])}, n=500, neighbours="change-one")
    >>> nw.plan(nw.Records("smokes"), schema, guarantee=nw.PureDP(1)).mechanism
    'randomized-response'
    """

    feature: Feature
    cells: tuple[float, ...] | None
    kind: ClassVar[str] = "records"
    sort: ClassVar[Sort] = Sort.ANSWERS
    takes_weights: ClassVar[bool] = False
    needs_public_n: ClassVar[bool] = True

    def why_not_left_out(self) -> str | None:
        return "every record answers, and who does not would be told"

    def __init__(self, feature: object, cells: Sequence[object] | None = None) -> None:
        object.__setattr__(self, "feature", read_features((feature,), "Records")[0])
        object.__setattr__(self, "cells", None if cells is None else read_edges(cells, "cells"))

    def columns(self) -> tuple[str, ...]:
        return columns_of((self.feature,))

    def is_categorical(self, schema: Schema) -> bool:
        """True where an answer is a cell (levels, thresholds, cells), so that randomized response applies."""
        if self.cells is not None and self._levels(checked_schema(schema)) is not None:
            raise InvalidArgument(f"{self.feature} has levels, which are its cells: leave cells out.", argument="cells")
        return self.cells is not None or self._levels(schema) is not None or self._is_indicator()

    def cell_count(self, schema: Schema) -> int:
        self.is_categorical(schema)
        levels = self._levels(schema)
        if levels is not None:
            return len(levels)
        if self.cells is not None:
            return len(self.cells) + 1
        if self._is_indicator():
            return 2
        raise Unsupported(
            "randomized-response needs cells: Records(f, cells=[...]), a column with levels, or a 0/1 feature."
        )

    def cell(self, columns: Mapping[str, Any], schema: Schema) -> Any:
        """The true cell of each record."""
        levels = self._levels(schema)
        if levels is not None:
            return np.asarray(columns[self.feature.arguments[0]], dtype=int)
        values = self.feature.value(columns, schema)
        return cell_index(values, self.cells) if self.cells is not None else values.astype(int)

    def labels(self, schema: Schema) -> tuple[str, ...]:
        if not self.is_categorical(schema):
            return (str(self.feature),)
        levels = self._levels(schema)
        if levels is not None:
            return tuple(f"{self.feature}={level}" for level in levels.levels)
        if self.cells is None:
            return ("no", "yes")
        ends = ["-inf", *map(number_text, self.cells), "inf"]
        return tuple(f"{self.feature} in [{a}, {b})" for a, b in itertools.pairwise(ends))

    def sensitivity(self, schema: Schema, norm: int = 1, weights: Sequence[object] | None = None) -> Sensitivity:
        """The range of one answer: the record of one person may be any other."""
        refuse_weights(self, weights)
        if self.is_categorical(schema):
            raise Unsupported("An answer that is a cell has no numeric sensitivity; it uses randomized-response.")
        low, high, _ = feature_range(self.feature, schema)
        return exact(Fraction(high) - Fraction(low), checked_norm(norm), "the range of one answer")

    def settle(
        self, schema: Schema, guarantee: Guarantee, mechanism: str, weights: tuple[Fraction, ...] | None
    ) -> Settled:
        refuse_weights(self, weights)
        if mechanism_named(mechanism).added is None:
            cells = self.cell_count(schema)
            return Settled(ONE, ruled_law(mechanism, guarantee, cells), unit_lattice(cells), None)
        low, high, error = feature_range(self.feature, schema)
        if not low < high or is_constant(self.feature):
            raise InvalidArgument(
                f"The feature {self.feature!s:.200} is the same for every record within the declared bounds, so its "
                "answers tell nothing: change its limits (clip, between) or the schema's bounds. Nothing was spent.",
                argument="feature",
            )
        noise = added_noise(mechanism)
        unrounded = self.sensitivity(schema, norm=noise.norm)
        (scale,) = scales(noise, unrounded, guarantee, ONE)
        lattice = lattice_for([sum_step(scale=scale, n=1, low=low, high=high, error=error)], [(low, high, error)])
        span = (lattice.high[0] - lattice.low[0]) * Fraction(lattice.step[0])
        rounded = exact(span, unrounded.norm, unrounded.argument)
        return Settled(ONE, calibrated(noise, rounded, lattice, guarantee, ONE), lattice, rounded)

    def evaluate(self, rows: Rows, lattice: Lattice) -> Whole:
        """The answer of each record before noise: its lattice value, or its cell."""
        if self.is_categorical(rows.schema):
            return rows.answered_cells(self.feature, self.cells)
        return rows.answers(self.feature, lattice)

    def value(self, columns: Mapping[str, Any], schema: Schema) -> Any:
        """The noise-free answers, sorted; or the count of each cell."""
        if not self.is_categorical(schema):
            return np.sort(self.feature.value(columns, schema), axis=-1)
        return cell_counts(self.cell(columns, schema), self.cell_count(schema))

    def to_dict(self) -> dict[str, object]:
        cells = None if self.cells is None else list(self.cells)
        return {"kind": self.kind, "feature": str(self.feature), **({} if cells is None else {"cells": cells})}

    def __str__(self) -> str:
        cells = "" if self.cells is None else f", cells=[{', '.join(map(number_text, self.cells))}]"
        return f"records({self.feature}{cells})"

    def _levels(self, schema: Schema) -> Levels | None:
        if self.feature.operation != "column":
            return None
        column = schema.column(self.feature.arguments[0])
        return column if isinstance(column, Levels) else None

    def _is_indicator(self) -> bool:
        return self.feature.operation in ("between", "equals")
