"""A continuous family of plans: what its members share, how they are scored, and the answer once the best is found."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np

from noisewise.design.objective import Objective
from noisewise.design.optimum import Optimum
from noisewise.design.search import Point, rounded_in_turn
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.planning import Plan, plan
from noisewise.populations.cleaned import records_from_base
from noisewise.populations.parameters import Array
from noisewise.printable import shown
from noisewise.privacy.guarantee import Guarantee
from noisewise.schema import Schema, checked_schema
from noisewise.statistics import Mean, Statistic, Sum
from noisewise.statistics.feature import Feature

QUANTILES = 2048  # of one record, a parameter value
Member = tuple[tuple[Any, ...], Plan]  # the numbers, and the plan they make


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Everything about the plans that does not vary in the search."""

    schema: Schema
    guarantee: Guarantee
    mechanism: str | None
    part: tuple[object, object] | None
    objective: Objective
    tolerance: float  # the share of the information that round numbers may cost

    @classmethod
    def of(
        cls,
        source: object,
        *,
        schema: Schema,
        guarantee: Guarantee,
        mechanism: str | None,
        at: object,
        score: object,
        likelihood: str,
        n: int | None,
        part: tuple[object, object] | None,
        tolerance: object,
    ) -> Family:
        if isinstance(tolerance, bool) or not isinstance(tolerance, Real) or not 0 <= float(tolerance) < 1:
            raise InvalidArgument(
                f"tolerance = {shown(tolerance, 40)} must be a share in [0, 1).", argument="tolerance"
            )
        objective = Objective.of(source, at=at, score=score, likelihood=likelihood, n=n)
        return cls(checked_schema(schema), guarantee, mechanism, part, objective, float(tolerance))

    @property
    def total(self) -> type[Mean] | type[Sum]:
        """What is published of a feature: its mean, or its sum where n is private."""
        return Mean if self.schema.is_change_one else Sum

    def plan(self, statistic: Statistic, weights: Sequence[Fraction] | None = None) -> Plan:
        return plan(
            statistic,
            self.schema,
            guarantee=self.guarantee,
            mechanism=self.mechanism,
            weights=weights,
            part=self.part,
        )

    def quantiles(self, feature: Feature, levels: Sequence[float]) -> Array:
        """Quantiles of a feature of one cleaned record, over the belief."""
        (name,) = feature.columns()
        base = (np.arange(QUANTILES) + 0.5) / QUANTILES
        belief = self.objective.belief
        records = records_from_base(belief.population, self.schema, {name: base}, belief.rows, (name,))
        return np.asarray(np.quantile(feature.value(records, self.schema), levels))

    def rounded(
        self, level: Callable[[Point], float], best: Point, *, width: float, fixed: Point = ()
    ) -> tuple[float, ...]:
        """Round numbers near the best ones, by the level that the search used."""
        return rounded_in_turn(level, best, width=width, tolerance=self.tolerance, fixed=fixed)

    def roundest(self, members: Iterable[Member], best: Member) -> tuple[Member, float, float]:
        """The first member that keeps the tolerated share of the best one's score, its score, and the best score."""
        top = self.objective.value(best[1])
        if not math.isfinite(self.objective.level(top)):
            raise self.untold()
        quick = self.objective.quick_level(best[1])
        for member in members:
            # Half of the gap between the two levels is left to the law that inference would use.
            if not self.objective.quick_level(member[1]) >= quick + 1.5 * math.log1p(-self.tolerance):
                continue
            score = self.objective.value(member[1])
            if self.objective.is_close(score, top, self.tolerance):
                return member, score, max(top, score)
        return best, top, top

    def untold(self) -> Unsupported:
        """What to say where no plan has a finite score."""
        return Unsupported(
            f"No plan of this family tells all that the score {self.objective.score.name!r} asks for, "
            f"{self.objective.belief.words}. Ask for another score, or take a statistic that tells the unknowns "
            f"{', '.join(self.objective.belief.names)} apart."
        )

    def optimum(
        self,
        what: str,
        members: Iterable[Member],
        best: Member,
        *,
        baseline: Plan,
        compared: Sequence[Plan] = (),
        note: str = "",
    ) -> Optimum:
        """The answer, with what it gains over the baseline."""
        objective = self.objective
        (values, chosen), score, top = self.roundest(members, best)
        base = objective.value(baseline)
        return Optimum(
            what=what,
            plan=chosen,
            values=tuple(values),
            best=tuple(float(v) for v in best[0]),
            score=score,
            best_score=top,
            score_name=objective.score.name,
            baseline=baseline,
            baseline_score=base,
            gain=objective.gain(score, base),
            compared=tuple((other, objective.gain(objective.value(other), base)) for other in compared),
            where=objective.belief.words,
            note=note,
        )


def one_column(features: Iterable[Feature], user: str) -> str:
    """The only column that the features read."""
    names = sorted(frozenset().union(*(feature.columns() for feature in features)))
    if len(names) != 1:
        raise Unsupported(f"{user} searches over one column; this statistic reads {', '.join(names)}.")
    return names[0]
