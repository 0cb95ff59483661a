"""A measurement: a noisy number that another tool published, with the noise as its publisher states it.

It says what a release says, so that the same likelihoods score it: the statistic, the schema, and a law on a lattice.
Continuous noise of scale b is put on a lattice of at most 2^-36 b, where its probabilities are its density to ten
digits; noise of whole numbers keeps its own. What it lacks is our proof of price: nothing here was paid for, checked or
drawn, and that the number is private is its publisher's word. So it is no release: no ledger takes it, no release file
holds it, and it is joined with nothing unless the analyst has said whose records it is of (`dataset=`).

Noise is that of the *published* value: Laplace noise of scale b on a mean of n records is of scale n b on their sum.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr, ValidationError

from noisewise.errors import InvalidArgument, InvalidRelease, NoisewiseError, Unsupported
from noisewise.exact import fraction
from noisewise.lattice import Lattice, lattice_for
from noisewise.laws import Law, StatedNoise, additive_law, noise_from_dict, stated_response
from noisewise.noisy_value import NoisyFile, checked_words, first_fault
from noisewise.planning import Part, Simulable, checked_statistic
from noisewise.printable import printable
from noisewise.privacy.guarantee import Guarantee, checked_guarantee, guarantee_from_dict
from noisewise.release import MEASURED, Release
from noisewise.schema import Schema, checked_schema, schema_from_dict
from noisewise.statistics import Sort, Statistic, statistic_from_dict
from noisewise.statistics.enclosure import feature_ranges
from noisewise.types import Floats

__all__ = [
    "ELSEWHERE",
    "Measurement",
    "MeasurementFile",
    "measurement",
    "noisy_value_from_dict",
    "randomized_response",
]

ELSEWHERE = "measured elsewhere; its privacy is the publisher's word"
LONGEST_NAME, LONGEST_SOURCE = 64, 300
MOST_NUMBERS = 2**22


class MeasurementFile(BaseModel):
    """The JSON form of a measurement, format noisewise-measurement/1."""

    model_config = ConfigDict(extra="forbid", strict=True)

    format: Literal["noisewise-measurement/1"]
    source: Annotated[StrictStr, Field(max_length=LONGEST_SOURCE)]
    dataset: Annotated[StrictStr, Field(min_length=1, max_length=LONGEST_NAME)] | None
    statistic: dict[str, object]
    schema_: Annotated[dict[str, object], Field(alias="schema")]
    noise: dict[str, object]
    guarantee: dict[str, StrictStr] | None
    value: Annotated[list[StrictInt | StrictFloat], Field(max_length=MOST_NUMBERS)]
    hash: Annotated[StrictStr, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


@dataclass(frozen=True, slots=True)
class _Pattern:
    """What records are simulated for where nothing was planned here."""

    schema: Schema
    statistic: Statistic
    law: Law
    lattice: Lattice

    @property
    def part_schema(self) -> Schema:
        return self.schema


@dataclass(frozen=True, slots=True, repr=False)
class Measurement(NoisyFile):
    """A noisy value that was published elsewhere. Made by `measurement`; `Measurement.load(path)`, `.save`.

    It has the members of a Release that a likelihood reads, and no price: `guarantee` is what its publisher states, or
    None. `dataset` is empty where nobody has said whose records they are.

    Attributes
    ----------
    statistic, schema, published, noise, dataset, guarantee, source
        As they were stated.

    Examples
    --------
    >>> schema = nw.Schema({"smokes": nw.Levels(["no", "yes"])}, n=500, neighbours="change-one")
    >>> smokers = nw.Count(nw.column("smokes").equals("yes"))
    >>> nw.measurement(smokers, schema, 142, noise=nw.geometric_noise(scale=2)).estimate
    array([142.])
    """

    statistic: Statistic
    schema: Schema
    published: tuple[float, ...]
    noise: StatedNoise
    _: KW_ONLY
    dataset: str = ""
    guarantee: Guarantee | None = None
    source: str = ""
    law: Law = field(init=False, compare=False)
    value: tuple[int, ...] = field(init=False, compare=False)
    part: ClassVar[Part | None] = None
    simulated: ClassVar[bool] = False
    is_foreign: ClassVar[bool] = True
    noun: ClassVar[str] = "measurement"

    def __post_init__(self) -> None:
        # Readers print them: a file that somebody wrote must not move a terminal's cursor, nor end a line.
        checked_words(self.dataset, "dataset", LONGEST_NAME)
        checked_words(self.source, "source", LONGEST_SOURCE)
        law, value = _settled(self)
        object.__setattr__(self, "law", law)
        object.__setattr__(self, "value", value)

    @property
    def is_categorical(self) -> bool:
        """True where the value counts answers under randomized response."""
        return self.noise.counts_answers

    @property
    def estimate(self) -> Floats:
        """The value as it was published."""
        return np.array(self.published)

    @property
    def price(self) -> str:
        """What is known of its privacy."""
        stated = "" if self.guarantee is None else f" (it states {self.guarantee}, {self.guarantee.kind})"
        return f"{ELSEWHERE}{stated}."

    @property
    def noise_words(self) -> str:
        """Its noise as the publisher states it, in a sentence."""
        return f"on the published value, as its publisher states: {self.noise.words()}"

    @property
    def origin(self) -> str:
        """Whose number it is and whose records it is of, as far as somebody said so."""
        by = f"Published by {self.source}, of" if self.source else "Of"
        return f"{by} data set {self.dataset}" if self.dataset else f"{by} records that nobody has named"

    def with_schema(self, schema: Schema, statistic: Statistic | None = None) -> Measurement:
        """The same numbers under a schema of more columns (and as another statistic of them)."""
        return replace(self, schema=schema, statistic=self.statistic if statistic is None else statistic)

    def some_components(self, chosen: Sequence[int], statistic: Statistic) -> Measurement:
        """Some of its components, as the statistic that they are by themselves."""
        published = tuple(self.published[j] for j in chosen)
        return replace(self, statistic=statistic, published=published, noise=self.noise.some(chosen))

    def as_plan(self) -> Simulable:
        """What simulated records are summed and noised by, to be compared with it."""
        return _Pattern(self.schema, self.statistic, self.law, _lattice(self))

    def __str__(self) -> str:
        return printable(f"{self.statistic} of {self.size_words}, {ELSEWHERE}: {self.estimate_words}")

    def _repr_html_(self) -> str:
        text = f"Of {self.size_words}, {self.price} {self.origin}.\n\nNoise {self.noise_words}"
        return self.page(text, None if self.statistic.is_local else additive_law(self.law).sd)

    @classmethod
    def from_dict(cls, plain: object, *, where: str = "") -> Measurement:
        """Check and read the plain form."""
        where = where or "this measurement"
        try:
            form = MeasurementFile.model_validate_json(json.dumps(plain, allow_nan=False))
            found = cls(
                statistic=statistic_from_dict(form.statistic),
                schema=schema_from_dict(form.schema_),
                published=tuple(map(float, form.value)),
                noise=noise_from_dict(form.noise),
                dataset=form.dataset or "",
                guarantee=None if form.guarantee is None else guarantee_from_dict(form.guarantee),
                source=form.source,
            )
        except NoisewiseError as error:
            raise InvalidRelease(f"{where} is not a valid measurement: {error}") from None
        except (ValidationError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
            raise InvalidRelease(f"{where} is not a valid measurement: {first_fault(error)}.") from None
        if form.hash != found.hash:
            raise InvalidRelease(f"{where} was changed after it was made: its hash does not match. Ask for it again.")
        return found

    def _plain(self) -> dict[str, object]:
        return {
            "format": MEASURED,
            "source": self.source,
            "dataset": self.dataset or None,
            "schema": self.schema.captioned(),
            "statistic": self.statistic.to_dict(),
            "noise": self.noise.to_dict(),
            "guarantee": None if self.guarantee is None else self.guarantee.to_dict(),
            "value": list(self.published),
        }


def measurement(
    statistic: Statistic,
    schema: Schema,
    value: object,
    *,
    noise: StatedNoise,
    dataset: str | None = None,
    guarantee: Guarantee | None = None,
    source: str = "",
) -> Measurement:
    """A noisy number that another tool published, to be learnt from by `infer`.

    Nothing of it is checked. It is no release: it was not paid for here, and no ledger takes it.

    Parameters
    ----------
    statistic
        What was published: a sum, a mean, a count, a table, moments, local answers, sums and counts by group.
    schema
        The public facts of its records: bounds or levels of the columns, n (or n_max), neighbours.
    value
        The published number or numbers, in their units and in the order of `statistic.labels(schema)`; of local
        answers all of them, or under randomized response how many gave each answer.
    noise
        As its publisher states it, on the published value: `laplace_noise(scale=)`, `gaussian_noise(sd=)`,
        `geometric_noise(scale=)` or `randomized_response(keep=, cells=)`.
    dataset
        Whose records it is of, by a name of your own (or the data set of a release of the same records). Numbers of
        one name are of the same records, those of different names of different ones. Default None: it is learnt from
        alone.
    guarantee
        What its publisher promises. Default None: not stated. It is printed, and believed nowhere.
    source
        Who published it, for the reader (at most 300 characters). Default "".

    Returns
    -------
    Measurement

    Examples
    --------
    >>> schema = nw.Schema({"age": nw.Bounded(0, 100)}, n=1200, neighbours="change-one")
    >>> report = nw.measurement(nw.Mean("age"), schema, 37.2, noise=nw.laplace_noise(scale=0.5), source="annual report")
    >>> population = nw.Normal(mean=stats.norm(40, 20), sd=15)
    >>> round(nw.infer(report, population, seed=1, progress=False).mean["mean"], 1)
    37.2
    """
    checked_statistic(statistic)
    checked_schema(schema)
    if not hasattr(noise, "settle"):
        raise InvalidArgument(
            f"noise is a {type(noise).__name__}; state it with laplace_noise(scale=...), gaussian_noise(sd=...), "
            "geometric_noise(scale=...) or randomized_response(keep=..., cells=...).",
            argument="noise",
        )
    return Measurement(
        statistic=statistic,
        schema=schema,
        published=_numbers(value, sort=statistic.is_local and not noise.counts_answers),
        noise=noise,
        dataset="" if dataset is None else checked_words(dataset, "dataset", LONGEST_NAME, is_needed=True),
        guarantee=None if guarantee is None else checked_guarantee(guarantee),
        source=checked_words(source, "source", LONGEST_SOURCE),
    )


def randomized_response(*, keep: object, cells: int) -> StatedNoise:
    """Randomized response as a survey states it: the true cell with probability `keep`, each other one equally likely.

    Parameters
    ----------
    keep
        A probability (a Fraction or text such as "3/4" is exact).
    cells
        How many answers there are.

    Returns
    -------
    StatedNoise

    Examples
    --------
    >>> nw.randomized_response(keep="3/4", cells=2)
    _Response(law=RandomizedResponse(keep=Fraction(3, 4), cells=2))
    """
    return stated_response(keep=keep, cells=cells)


def noisy_value_from_dict(plain: object, *, where: str = "this file") -> Release | Measurement:
    """A release or a measurement, whichever the plain form says it is."""
    is_foreign = isinstance(plain, Mapping) and plain.get("format") == MEASURED
    return Measurement.from_dict(plain, where=where) if is_foreign else Release.from_dict(plain, where=where)


def _numbers(value: object, *, sort: bool) -> tuple[float, ...]:
    """The published numbers; local answers sorted, since row order would tell who gave which."""
    try:
        numbers = np.atleast_1d(np.asarray(value, dtype=float))
        if np.ma.is_masked(value) or np.asarray(value).dtype == bool:  # a number that is not there, or that is none
            numbers = np.array([np.nan])
    except (TypeError, ValueError, OverflowError):
        numbers = np.array([np.nan])
    if numbers.ndim != 1 or not 0 < numbers.size <= MOST_NUMBERS or not np.isfinite(numbers).all():
        raise InvalidArgument(
            f"value must be a finite number, or list one for each component (at most {MOST_NUMBERS}).", argument="value"
        )
    return tuple(float(one) for one in (np.sort(numbers) if sort else numbers))


def _settled(made: Measurement) -> tuple[Law, tuple[int, ...]]:
    """The law on a lattice, and the published numbers in its steps; what cannot be learnt from is refused."""
    statistic, schema = made.statistic, made.schema
    if statistic.sort in (Sort.ORDER, Sort.QUANTILE):
        raise Unsupported(
            f"{statistic} is no sum over records: the noise that tools publish it with depends on the records. Only "
            "sums, means, counts, tables, moments and local answers can be measured elsewhere."
        )
    labels, size = statistic.labels(schema), len(made.published)
    is_cells = statistic.is_local and made.noise.counts_answers
    wanted = schema.largest_n if statistic.is_local and not is_cells else len(labels)
    if size != wanted:
        what = f"{wanted} records answer for themselves" if wanted != len(labels) else f"it has {wanted} components"
        raise InvalidArgument(f"value has {size} numbers, but of {statistic!s:.100} {what}.", argument="value")
    divisor = statistic.divisor(schema)
    if statistic.is_count and divisor != 1:
        raise Unsupported("A tied table shares each record among its cells; only tables of whole records are read.")
    sums = [fraction(value, "value") * divisor for value in made.published]
    largest = _largest(made, sums)
    settle = partial(made.noise.settle, sums, divisor=divisor, largest=largest, period=_period(made, len(largest)))
    law, value = settle(is_count=statistic.is_count)
    if is_cells and (sum(value) != schema.largest_n or len(value) != statistic.cell_count(schema)):
        raise InvalidArgument(f"The counts of answers must sum to n = {schema.largest_n}.", argument="value")
    return law, value


def _period(made: Measurement, size: int) -> int:
    """After how many components the same feature comes again: one lattice serves all cells, and all groups."""
    if made.statistic.sort is Sort.TABLE:
        return 1
    groups = made.statistic.groups(made.schema)
    return size // len(groups) if groups else size


def _largest(made: Measurement, sums: Sequence[Fraction]) -> list[Fraction]:
    """How large each sum can be, by the declared bounds or as it was published."""
    if made.statistic.is_local:
        most = max(map(abs, sums))
        return [most] * (len(sums) if made.noise.counts_answers else 1)
    n = made.schema.largest_n
    possible = [n * max(abs(Fraction(low)), abs(Fraction(high))) for low, high, _ in _ranges(made)]
    return [max(most, abs(own)) for most, own in zip(possible, sums, strict=True)]


def _ranges(made: Measurement) -> list[tuple[float, float, float]]:
    """What one record adds to each component."""
    if made.statistic.sort is Sort.TABLE:
        return [(0.0, 1.0, 0.0)] * len(made.published)
    return feature_ranges(made.statistic.row(made.schema), made.schema)


def _lattice(made: Measurement) -> Lattice:
    """The whole numbers of steps between which one record's value lies."""
    return lattice_for(additive_law(made.law).step, _ranges(made))
