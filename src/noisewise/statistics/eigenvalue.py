"""The smallest eigenvalue of X'X of rows shortened to norm R; one record moves it by at most R^2 (Weyl)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import fraction, power_of_two_below
from noisewise.lattice import Lattice, lattice_for
from noisewise.privacy.guarantee import Guarantee
from noisewise.privacy.mechanism import added_noise
from noisewise.schema import Schema
from noisewise.statistics.additive import columns_of, read_features
from noisewise.statistics.enclosure import feature_ranges
from noisewise.statistics.evaluation import evaluated, steps
from noisewise.statistics.feature import Feature, shrunk
from noisewise.statistics.moment_rows import (
    Named,
    checked_box,
    fills_its_box,
    monomial_feature,
    named_numbers,
    shrunk_box,
    standardised,
)
from noisewise.statistics.moments import LARGEST_ROW, check_shortened, listed, plain, several, written
from noisewise.statistics.protocol import Rows, Settled, Sort, Statistic, Whole, refuse_weights
from noisewise.statistics.sensitivity import Sensitivity, checked_norm, checked_weights
from noisewise.statistics.settling import ONE, calibrated, rounding, scales


@dataclass(frozen=True, slots=True, init=False)
class SmallestEigenvalue(Statistic):
    """lambda_min(X'X) of rows x shortened to norm R: adding u u' and taking v v' away moves it by at most R^2.

    Parameters
    ----------
    features
        x: one feature or a list.
    shrink
        R, the norm to which longer rows (centred and scaled) are shortened.
    centre, scale
        Public numbers by feature that are taken off, and by which what is left is divided. Default None: 0 and 1.

    Examples
    --------
    >>> schema = nw.Schema({"age": nw.Bounded(18, 90)}, n=400, neighbours="change-one")
    >>> row = nw.SmallestEigenvalue(["age"], 2, centre={"age": 54}, scale={"age": 18})
    >>> float(row.sensitivity(schema).value)
    3.9999999999999996
    """

    features: tuple[Feature, ...]
    shrink: Fraction
    centre: Named
    scale: Named
    kind: ClassVar[str] = "smallest-eigenvalue"
    sort: ClassVar[Sort] = Sort.SUMS
    takes_weights: ClassVar[bool] = False

    def why_no_population(self) -> str | None:
        return "the smallest eigenvalue is no sum over records"

    def why_not_left_out(self) -> str | None:
        return "what it is used for needs every row of the regression"

    def __init__(
        self,
        features: str | Feature | Sequence[str | Feature],
        shrink: object,
        centre: Mapping[str, object] | None = None,
        scale: Mapping[str, object] | None = None,
    ) -> None:
        assign = object.__setattr__
        x = read_features(several(features, "SmallestEigenvalue"), "SmallestEigenvalue")
        if math.comb(len(x) + 1, 2) > LARGEST_ROW:
            raise InvalidArgument(f"More than {LARGEST_ROW} products; name fewer features.", argument="features")
        check_shortened(x, 2)
        assign(self, "features", x)
        assign(self, "shrink", fraction(shrink, "shrink", positive=True))
        assign(self, "centre", named_numbers(centre, x, "centre"))
        assign(self, "scale", named_numbers(scale, x, "scale"))

    def columns(self) -> tuple[str, ...]:
        return columns_of(self.features)

    def entries(self, schema: Schema) -> tuple[Feature, ...]:
        """(x_1..x_d) as features: centred, scaled and shortened together."""
        row = standardised(self.features, self.centre, self.scale)
        checked_box(row, schema, 2)
        return tuple(shrunk(row, i, float(self.shrink)) for i in range(len(row)))

    def gram_row(self, schema: Schema) -> tuple[Feature, ...]:
        """The features whose sums are the entries of X'X on and above its diagonal, row by row."""
        entries = self.entries(schema)
        pairs = itertools.combinations_with_replacement(range(len(entries)), 2)
        return tuple(monomial_feature(entries, pair) for pair in pairs)

    def labels(self, schema: Schema) -> tuple[str, ...]:
        return (str(self),)

    def default_weights(self, schema: Schema) -> tuple[Fraction, ...]:
        return (Fraction(1),)

    def sensitivity(self, schema: Schema, norm: int = 1, weights: Sequence[object] | None = None) -> Sensitivity:
        """R^2 (or the longest row of the box squared, if that is shorter) under both neighbour relations."""
        (weight,) = (Fraction(1),) if weights is None else checked_weights(weights, 1)
        row = standardised(self.features, self.centre, self.scale)
        box = checked_box(row, schema, 2)
        radius = max(self.shrink, Fraction(float(self.shrink)))
        longest = sum((max(low * low, high * high) for low, high in box), Fraction(0))
        value = weight * min(radius * radius, longest)
        # d orthogonal rows along the axes, one of them removed: lambda_min falls from the shortest's square to 0.
        shortened, _ = shrunk_box([(Fraction(0), max(abs(low), abs(high))) for low, high in box], radius)
        has_axes = fills_its_box(row, schema) and all(low <= 0 <= high for low, high in box)
        has_axes = has_axes and schema.largest_n >= len(box)
        reached = float(weight * min(high * high for _, high in shortened)) if has_axes else 0.0
        return Sensitivity(value, min(reached, float(value)), checked_norm(norm), "Weyl's inequality")

    def settle(
        self, schema: Schema, guarantee: Guarantee, mechanism: str, weights: tuple[Fraction, ...] | None
    ) -> Settled:
        """One record moves it by at most R^2; its computation by the rounding of the Gram matrix and the solver's."""
        refuse_weights(self, weights)
        noise = added_noise(mechanism)
        unrounded = self.sensitivity(schema, norm=noise.norm)
        (scale,) = scales(noise, unrounded, guarantee, ONE)
        step = power_of_two_below(scale / 2**12)
        n, size = schema.largest_n, len(self.features)
        radius_squared = Fraction(self.shrink) ** 2
        gram_step = self.gram_step(schema)
        row_error = max(rounding(*bounds, gram_step) for bounds in feature_ranges(self.gram_row(schema), schema))
        gram_error = n * size * (Fraction(gram_step) / 2 + Fraction(row_error))
        solver_error = n * radius_squared * size * Fraction(16, 2**52)
        value = unrounded.value + step + 2 * (gram_error + solver_error)
        if value > 2 * unrounded.value:
            raise Unsupported(
                f"The smallest eigenvalue cannot be computed exactly enough over n = {n} records. Nothing was spent."
            )
        lattice = Lattice((float(step),), (0,), (math.ceil(n * radius_squared / step),))
        rounded = Sensitivity(value, float(unrounded.value), unrounded.norm, unrounded.argument)
        return Settled(ONE, calibrated(noise, rounded, lattice, guarantee, ONE), lattice, rounded)

    def gram_step(self, schema: Schema) -> float:
        """The finest step on which the Gram matrix sums exactly in 62 bits and entries round as doubles."""
        square = 2 * Fraction(self.shrink) ** 2
        return float(2 * power_of_two_below(max(schema.largest_n * square / 2**62, square / 2**48)))

    def evaluate(self, rows: Rows, lattice: Lattice) -> Whole:
        """lambda_min of the exactly summed Gram matrix, rounded to the lattice and clamped to [0, n R^2]."""
        row, step = self.gram_row(rows.schema), self.gram_step(rows.schema)
        sums = rows.sums(row, lattice_for([step] * len(row), feature_ranges(row, rows.schema)))
        size = len(self.features)
        gram = np.zeros((len(sums), size, size))
        above = np.triu_indices(size)
        gram[:, above[0], above[1]] = np.asarray(sums, dtype=float) * step
        return steps(np.linalg.eigvalsh(gram, UPLO="U")[:, :1], lattice, 0)

    def value(self, columns: Mapping[str, Any], schema: Schema) -> Any:
        """lambda_min(X'X) on NumPy columns; the last axis of a column is the record's."""
        x = np.stack(evaluated(self.entries(schema), columns, schema), axis=-1)
        return np.linalg.eigvalsh(np.swapaxes(x, -1, -2) @ x)[..., :1]

    def to_dict(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "features": [str(feature) for feature in self.features],
            "shrink": plain(self.shrink),
            "centre": {name: plain(number) for name, number in self.centre},
            "scale": {name: plain(number) for name, number in self.scale},
        }

    def __str__(self) -> str:
        return (
            f"smallest_eigenvalue({', '.join([listed(self.features), *written((), (), self.shrink)])}"
            f"{''.join(', ' + option for option in written(self.centre, self.scale, None))})"
        )
