"""What a statistic is: the members that plans, releases, the holder and the analyst ask of it.

A statistic knows the columns it reads, the names of its components, how far one record moves it, the noise that hides
this (`settle`), and how its whole numbers come from records (`evaluate`). Records are seen only as `Rows`, which has
two back ends: Ibis where the data lives (`holder/evaluate.py`) and NumPy for simulated ones (`evaluation.py`). So the
holder's integers and the simulated ones come from the same lines.

A member that a statistic does not have raises, and says which piece is missing: nothing is taken for another kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noisewise.errors import InvalidArgument, Unregistered, Unsupported
from noisewise.lattice import Lattice
from noisewise.laws import Law
from noisewise.schema import Schema

if TYPE_CHECKING:
    from noisewise.privacy.guarantee import Guarantee
    from noisewise.statistics.feature import Feature
    from noisewise.statistics.sensitivity import Sensitivity

Whole = NDArray[np.int64]  # one row a data set; of dtype object where sums pass 2^63: whole numbers all the same
Columns = Mapping[str, ArrayLike]


class Sort(StrEnum):
    """What comes out of a statistic, which decides the mechanisms that can hide a record in it."""

    SUMS = "sums"  # numbers that one record moves by a bounded amount
    COUNT = "count"  # one whole number
    TABLE = "table"  # whole numbers, one for each cell
    ORDER = "order"  # one value of the sorted records
    QUANTILE = "quantile"  # a point chosen near a rank
    ANSWERS = "answers"  # one answer for each record


@dataclass(frozen=True, slots=True)
class Settled:
    """What a statistic needs to be released under a guarantee: weights, noise law, lattice, sensitivity as rounded."""

    weights: tuple[Fraction, ...]
    law: Law
    lattice: Lattice
    sensitivity: Sensitivity | None


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of one table: the levels of a clique of columns, row by row, or one column cut at inner edges."""

    columns: tuple[str, ...]
    edges: tuple[float, ...] | None
    size: int
    needs: tuple[str, ...] = ()  # columns that may be absent: a record without one of them is in no cell


@dataclass(frozen=True, slots=True)
class Blocks:
    """Products of sums over blocks of rows: each entry is summed on its own lattice, then multiplied and divided."""

    entries: tuple[Feature, ...]
    fine: Lattice
    monomials: tuple[tuple[int, ...], ...]
    divisors: tuple[int, ...]
    block: int


@dataclass(frozen=True, slots=True)
class Window:
    """The sorted lattice values around a rank: values[:, k] is the order statistic of rank first + k (1-based)."""

    values: Whole
    first: int


class Rows(Protocol):
    """The records of one part, as a back end sees them. What it returns has one row for each data set."""

    @property
    def schema(self) -> Schema: ...
    @property
    def n(self) -> int:
        """How many records there are; at most how many, where the number is private."""

    def sums(self, features: Sequence[Feature], lattice: Lattice) -> Whole:
        """Features rounded to their steps, clamped, and summed."""

    def group_sums(self, features: Sequence[Feature], groups: Cells, lattice: Lattice) -> Whole:
        """The same for each group, group by group: the lattice is that of one group."""

    def block_sums(self, blocks: Blocks, lattice: Lattice) -> Whole:
        """Products of block sums, rounded to their steps and summed."""

    def counts(self, tables: Sequence[Cells]) -> Whole:
        """How many records lie in each cell of each table."""

    def shared_counts(self, tables: Sequence[Cells], *, unit: int, left_out: int | None) -> Whole:
        """One table: each record gives `unit` in all, in equal shares to its cells other than `left_out`."""

    def window(self, feature: Feature, lattice: Lattice, *, rank: int, reach: int) -> Window:
        """The order statistics of ranks rank - reach to rank + reach, as far as they exist."""

    def rank_below(self, feature: Feature, lattice: Lattice, point: int) -> int:
        """How many records lie strictly below a lattice point (of the only data set)."""

    def answers(self, feature: Feature, lattice: Lattice) -> Whole:
        """The lattice value of each record."""

    def answered_cells(self, feature: Feature, edges: tuple[float, ...] | None) -> Whole:
        """The cell of each record: how many edges it has reached, or the whole number that the feature is."""


@dataclass(frozen=True, slots=True)
class Average:
    """A mean that is released as a sum and a count: whose it is, of which feature, and the two components."""

    group: str
    feature: Feature
    count: int
    total: int


# The members on which privacy rests. Where one of them was written outside this package, nobody here has proved it.
PROVED = frozenset({
    "sensitivity", "settle", "evaluate", "scaled", "sort", "is_count", "is_local", "block", "takes_weights",
    "needs_public_n", "needs_n", "leaves_out", "why_not_left_out", "is_categorical", "cell_count", "is_searched",
})  # fmt: skip


class Statistic(ABC):
    """What is computed from records."""

    __slots__ = ()
    kind: ClassVar[str]
    sort: ClassVar[Sort]
    takes_weights: ClassVar[bool] = True
    needs_public_n: ClassVar[bool] = False  # change-one only
    leaves_out: ClassVar[bool] = False  # records with a missing value can be left out of it
    is_searched: ClassVar[bool] = False  # its sensitivity is found by a search, which may be given up

    @property
    def is_count(self) -> bool:
        """True where every record adds whole numbers, so that the step is 1 and nothing is rounded."""
        return self.sort in (Sort.COUNT, Sort.TABLE)

    @property
    def is_local(self) -> bool:
        """True where every record answers for itself."""
        return self.sort is Sort.ANSWERS

    @property
    def block(self) -> int:
        """How many rows, by position, are averaged before anything else: 1 unless the statistic says otherwise."""
        return 1

    @property
    def is_new_in_format_2(self) -> bool:
        """True where readers of release format 1 would misread it, its features apart."""
        return False

    @property
    def earlier(self) -> Statistic | None:
        """What earlier versions released where today this statistic is, where the two differ; else None."""
        return None

    @property
    def unproved(self) -> tuple[str, ...]:
        """The members that privacy rests on and that were written outside this package: their author's word.

        A row of features is proved wherever it is written, since its sensitivity is computed from the features.
        """
        own = [kind for kind in type(self).__mro__ if kind.__module__.partition(".")[0] not in ("noisewise", "abc")]
        return tuple(sorted({name for kind in own for name in vars(kind)} & PROVED))

    @classmethod
    def from_entries(cls, entries: Mapping[str, object]) -> Self:
        """The statistic from its plain form in a file, its features read."""
        return cls(**entries)

    @classmethod
    def from_formula(cls, formula: str, schema: Schema, *, family: str = "linear", **options: Any) -> Statistic:
        """The statistic that a regression in words needs, as in moments('cost ~ age'); most kinds have none."""
        del schema, family, options
        raise Unsupported(f"A {cls.kind} takes no formula such as {formula[:60]!r}; moments('cost ~ age') does.")

    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns it reads, in alphabetical order."""

    @abstractmethod
    def labels(self, schema: Schema) -> tuple[str, ...]:
        """The name of each component."""

    @abstractmethod
    def sensitivity(self, schema: Schema, norm: int = 1, weights: Sequence[object] | None = None) -> Sensitivity:
        """How far one record moves the weighted sums, jointly over the components."""

    @abstractmethod
    def settle(
        self, schema: Schema, guarantee: Guarantee, mechanism: str, weights: tuple[Fraction, ...] | None
    ) -> Settled:
        """Weights, noise law, lattice and sensitivity under a guarantee."""

    @abstractmethod
    def evaluate(self, rows: Rows, lattice: Lattice) -> Whole:
        """The value before noise, in whole lattice steps. Rows are asked once: simulated ones pass by in pieces."""

    @abstractmethod
    def value(self, columns: Columns, schema: Schema) -> NDArray[np.float64]:
        """The value on NumPy columns, unrounded; the last axis of a column is the record's."""

    @abstractmethod
    def to_dict(self) -> dict[str, object]:
        """The plain form that a release holds."""

    def divisor(self, schema: Schema) -> int:
        """What a sum is divided by for reading: n for a mean."""
        return 1

    def groups(self, schema: Schema) -> tuple[str, ...]:
        """The groups in words, where it is a statistic of each group."""
        return ()

    def averages(self, schema: Schema) -> tuple[Average, ...]:
        """The means that are ratios of its components, where there are any."""
        return ()

    def needs_n(self, schema: Schema) -> bool:
        """True where its value cannot be read without the number of records, which must then be public."""
        return self.needs_public_n

    def why_no_population(self) -> str | None:
        """Why a population cannot be learnt from it, where it is for regressions alone; None where one can."""
        return None

    def why_not_left_out(self) -> str | None:
        """Why records with a missing value cannot be left out of it; None where they can."""
        return None if self.leaves_out else "what it would be without them is not said"

    def by_group(self) -> tuple[tuple[str, ...], tuple[Feature, ...]]:
        """The columns that make groups and the features summed in each, where it is a statistic of each group."""
        return (), ()

    def is_categorical(self, schema: Schema) -> bool:
        """True where each record answers with one of a few cells."""
        return False

    def cell_count(self, schema: Schema) -> int:
        """How many cells an answer has."""
        raise self.lacking("cell_count", "its answers are not cells")

    def row(self, schema: Schema) -> tuple[Feature, ...]:
        """The features that are summed over records, one for each component."""
        raise self.lacking("row", "what it sums over records, as features, is not said")

    def scaled(
        self, rows: Rows, lattice: Lattice, *, alpha: Fraction, beta: float
    ) -> tuple[Whole, NDArray[np.float64]]:
        """The value and its smooth sensitivity in steps, which stays secret."""
        raise self.lacking("scaled", "it has no smooth sensitivity")

    def lacking(self, piece: str, reason: str) -> Unregistered:
        """What to raise where a statistic is asked for a member that its kind does not have."""
        return Unregistered(
            f"{self.kind} has no `{piece}`: {reason}. Nothing was spent.", piece=piece, statistic=self.kind
        )


def refuse_weights(statistic: Statistic, weights: object) -> None:
    """One component needs no weights."""
    if weights is not None:
        raise InvalidArgument(f"{statistic.kind} has one component and takes no weights.", argument="weights")


def no_population(kind: str, reason: str) -> Unsupported:
    """What to raise where a population is to be learnt from a statistic that is for regressions alone."""
    return Unsupported(f"A release of {kind} is for a regression model, not for a population: {reason}.")
