"""Two statistics from outside the package: one that is a row of features, and one that evaluates itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from noisewise.lattice import lattice_for, sum_step
from noisewise.privacy.mechanism import added_noise
from noisewise.statistics import Feature, Settled, Sort, Statistic
from noisewise.statistics.additive import FeatureSums
from noisewise.statistics.enclosure import feature_range
from noisewise.statistics.protocol import refuse_weights
from noisewise.statistics.registry import KINDS, register_statistic
from noisewise.statistics.sensitivity import exact
from noisewise.statistics.settling import ONE, calibrated, scales


@dataclass(frozen=True, slots=True)
class Shortfall(FeatureSums):
    """How much is missing below a line, and how many are below it: the two sums of a poverty gap."""

    feature: Feature
    line: float
    kind: ClassVar[str] = "shortfall"

    def columns(self):
        return tuple(sorted(self.feature.columns()))

    def labels(self, schema):
        return (f"missing below {self.line:g}", f"records at or below {self.line:g}")

    def row(self, schema):
        low, _, _ = feature_range(self.feature, schema)
        return (self.line - self.feature.clip(low, self.line), self.feature.between(low, self.line))

    def to_dict(self):
        return {"kind": self.kind, "feature": str(self.feature), "line": self.line}

    def __str__(self):
        return f"shortfall({self.feature}, {self.line:g})"


@dataclass(frozen=True, slots=True)
class Spread(Statistic):
    """Largest minus smallest value: no sum over records, with a settling and an evaluation of its own."""

    feature: Feature
    kind: ClassVar[str] = "spread"
    sort: ClassVar[Sort] = Sort.SUMS
    takes_weights: ClassVar[bool] = False
    needs_public_n: ClassVar[bool] = True

    def columns(self):
        return tuple(sorted(self.feature.columns()))

    def labels(self, schema):
        return (str(self),)

    def sensitivity(self, schema, norm=1, weights=None):
        refuse_weights(self, weights)
        low, high, _ = feature_range(self.feature, schema)
        return exact(Fraction(high) - Fraction(low), norm, "one record can be an end")

    def settle(self, schema, guarantee, mechanism, weights):
        refuse_weights(self, weights)
        noise, bounds = added_noise(mechanism), feature_range(self.feature, schema)
        (scale,) = scales(noise, self.sensitivity(schema, noise.norm), guarantee, ONE)
        lattice = lattice_for([sum_step(scale=scale, n=1, low=bounds[0], high=bounds[1], error=bounds[2])], [bounds])
        span = exact((lattice.high[0] - lattice.low[0]) * Fraction(lattice.step[0]), noise.norm, "of lattice points")
        return Settled(ONE, calibrated(noise, span, lattice, guarantee, ONE), lattice, span)

    def evaluate(self, rows, lattice):
        answers = rows.answers(self.feature, lattice)
        return (answers.max(axis=-1) - answers.min(axis=-1))[:, None]

    def value(self, columns, schema):
        values = self.feature.value(columns, schema)
        return (np.max(values, axis=-1) - np.min(values, axis=-1))[..., None]

    def to_dict(self):
        return {"kind": self.kind, "feature": str(self.feature)}

    def __str__(self):
        return f"spread({self.feature})"


@contextmanager
def registered(*kinds: type[Statistic]) -> Iterator[None]:
    for kind in kinds:
        register_statistic(kind)
    try:
        yield
    finally:
        for kind in kinds:
            KINDS.pop(kind.kind, None)
