"""Everything that a survey does not know, and the law of its answers given all of it.

The unknowns are those of the population, of one column or of several independent ones (`Joint`), and the shares of
answers that are not honest where they are allowed for (`contamination`). A question is about one column, so its answer
depends on that column's unknowns (and the shares) alone:
    log p(answers | theta) = sum over columns of log p(answers about it | its theta).
A `Part` is one column with its own coordinates among those of the whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.inference.transform import Transform
from noisewise.online import contamination as lies
from noisewise.online.answer_law import AnswerLaw, ColumnLaw
from noisewise.online.answered import Group, Total, joint_law
from noisewise.online.asked import Asked, asked_of
from noisewise.online.contamination import ContaminatedLaw
from noisewise.populations.parameters import Array, Supports, Theta, rows_of
from noisewise.populations.population import Joint, Population
from noisewise.printable import shown
from noisewise.query import Query
from noisewise.schema import Level, Levels

__all__ = ["LevelNames", "Part", "SurveyLaw"]

LevelNames = Sequence[Level] | Mapping[str, Sequence[Level]]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One column: the law of its records, that of answers about it, and where its unknowns are."""

    column: str | None  # None where there is one column, which needs no name
    honest: AnswerLaw
    law: ColumnLaw  # what answers are scored by
    transform: Transform  # of the column's own unknowns, by their own names
    start: int  # of its coordinates among all
    levels: tuple[Level, ...] | None

    @property
    def stop(self) -> int:
        return self.start + self.transform.size

    def block(self, matrix: Array) -> Array:
        """The part of a matrix over all coordinates that is this column's."""
        return np.asarray(matrix[self.start : self.stop, self.start : self.stop])


class SurveyLaw:
    """The unknowns of a survey with their prior, and the law of answers given them."""

    def __init__(self, population: object, *, contamination: float = 0.0, levels: LevelNames | None = None) -> None:
        laws: dict[str | None, AnswerLaw]
        if isinstance(population, Joint):
            self.population: Population | Joint = population
            laws = {name: AnswerLaw(own) for name, own in population.columns.items()}
        else:
            laws = {None: AnswerLaw(population)}
            self.population = laws[None].population
        self.contamination = contamination
        named = _level_names(levels, is_one=None in laws)
        self.parts: dict[str | None, Part] = {}
        start = 0
        for name, honest in laws.items():
            law: ColumnLaw = ContaminatedLaw(honest) if contamination else honest
            names = _own_levels(honest, named.pop(name, None), name)
            part = Part(name, honest, law, Transform(honest.population.supports), start, names)
            self.parts[name] = part
            start = part.stop
        if named:
            raise InvalidArgument(
                f"levels names {', '.join(map(repr, named))}, which is no column of this population.",
                argument="levels",
            )

    @property
    def is_one(self) -> bool:
        """Whether there is one column, without a name."""
        return None in self.parts

    @property
    def only(self) -> Part:
        """The one part of a survey about one column."""
        return self.parts[None]

    def part(self, column: str | None) -> Part:
        """The part of a column; a sentence where there is none."""
        if column not in self.parts:
            known = ", ".join(repr(name) for name in self.parts if name is not None) or "one that has no name"
            raise InvalidArgument(
                f"A query is about {'a column without a name' if column is None else repr(column)}; this survey asks "
                f"about {known}.",
                argument="queries",
            )
        return self.parts[column]

    # ---- what is unknown ----

    @property
    def supports(self) -> Supports:
        """Where each unknown lives: the population's, and the shares of false answers."""
        return {**self.population.supports, **(lies.SUPPORTS if self.contamination else {})}

    def log_prior(self, theta: Theta) -> Array:
        """The log density of the prior at each row of theta."""
        found = self.population.log_prior(theta)
        return found + lies.log_prior(theta, self.contamination) if self.contamination else found

    def sample_prior(self, rng: np.random.Generator, count: int) -> dict[str, Array]:
        """Draws of everything unknown."""
        found = self.population.sample_prior(rng, count)
        return {**found, **lies.sample_prior(rng, count, self.contamination)} if self.contamination else found

    def theta_of(self, part: Part, theta: Theta) -> Theta:
        """The unknowns that answers about one column depend on, by the column's own names."""
        if part.column is None:
            return theta
        own = self.population.theta_of(part.column, theta)
        return {**own, **{name: theta[name] for name in lies.LIES}} if self.contamination else own

    def coordinates(self, part: Part) -> tuple[list[int], Transform]:
        """The coordinates that answers about one column depend on, and their transform by the column's own names."""
        own = list(range(part.start, part.stop))
        if not self.contamination:
            return own, part.transform
        first = max(one.stop for one in self.parts.values())
        shares = range(first, first + len(lies.LIES))
        return [*own, *shares], Transform({**part.transform.supports, **lies.SUPPORTS})

    # ---- answers ----

    def check(self, query: Query) -> None:
        """Refuse a query whose answers have no exact law here."""
        part = self.part(query.column)
        if part.levels != query.levels:
            raise InvalidArgument(
                "A query about a column of numbers has no levels."
                if part.levels is None
                else f"A query about this column is Query.choice({shown(list(part.levels), 80)}, ...).",
                argument="queries",
            )
        part.honest.check(asked_of(query))

    def log_density(self, asked: Asked, y: Array, theta: Theta) -> Array:
        """log P(answer y_i | theta_k), (K, n)."""
        part = self.part(asked.column)
        return part.law.log_density(asked, y, self.theta_of(part, theta))

    def answer_probabilities(self, asked: Asked, theta: Theta) -> Array:
        """P(each answer to a question about cells), (K, cells)."""
        part = self.part(asked.column)
        low, high = asked.cell_ends
        told = part.law.cell_mass(low, high, np.full(low.shape, asked.answer_count), self.theta_of(part, theta))
        return np.asarray(asked.other + (asked.keep - asked.other) * told)

    def joint(self, groups: Iterable[Group], near: Theta) -> Total:
        """theta -> sum of log P(answer | theta) over all answers, (K,); `near` is a sample of theta that matters."""
        by_column: dict[str | None, list[Group]] = {}
        for group in groups:
            by_column.setdefault(group.asked.column, []).append(group)
        parts = [self.part(column) for column in by_column]
        totals = [joint_law(part.law, by_column[part.column], self.theta_of(part, near)) for part in parts]

        def total(theta: Theta) -> Array:
            if not totals:
                return np.zeros(rows_of(theta))
            each = [one(self.theta_of(part, theta)) for part, one in zip(parts, totals, strict=True)]
            return np.asarray(np.sum(each, axis=0)) if len(each) > 1 else each[0]

        return total


def _level_names(given: LevelNames | None, *, is_one: bool) -> dict[str | None, Sequence[Level]]:
    """The names of levels by column."""
    if given is None:
        return {}
    if is_one:
        return {None: cast(Sequence[Level], given)}
    try:
        return dict(cast(Mapping[str | None, Sequence[Level]], given))
    except (TypeError, ValueError):
        raise InvalidArgument(
            "levels of several columns are given by column: levels={'region': ['north', 'south']}.", argument="levels"
        ) from None


def _own_levels(law: AnswerLaw, given: Sequence[Level] | None, column: str | None) -> tuple[Level, ...] | None:
    """The names of a column's levels: those given, else their numbers."""
    count = law.level_count
    if count is None:
        if given is not None:
            about = "This population" if column is None else f"The population of {column!r}"
            raise InvalidArgument(f"{about} is one of numbers and has no levels.", argument="levels")
        return None
    found = tuple(itertools.islice(itertools.count(), count)) if given is None else Levels(given).levels
    if len(found) != count:
        raise InvalidArgument(
            f"levels lists {len(found)} names, but the population has {count} levels.", argument="levels"
        )
    return found
