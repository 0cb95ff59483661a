"""The door: a release is the one thing that passes from the holder to the analyst.

It holds the noisy value and everything needed to learn from it: the statistic, the noise law, the clamping, n, the
neighbour relation and the budget spent. It never holds records, paths or names, nor a smooth-sensitivity scale,
which depends on the records and is itself secret: only the rule. On disk it is JSON of a versioned format; `load`
checks every field and the hash, so a damaged or edited file is refused.

Values are integers in lattice steps: a component reads value * step (divided by n for a mean, by a record's weight
for a tied table).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Integral
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, ValidationError

from noisewise.errors import InvalidArgument, InvalidRelease, NoisewiseError, Unsupported
from noisewise.exact import fraction
from noisewise.laws import Form, Law, action_law, additive_law, cell_law, law_from_dict, smooth_law
from noisewise.noisy_value import LARGEST_FILE, NoisyFile, NoisyValue, checked_words, digest, first_fault
from noisewise.planning import Part, Plan, Simulable, planned_again, proven
from noisewise.printable import printable, shown
from noisewise.privacy.guarantee import Guarantee, guarantee_from_dict
from noisewise.privacy.mechanism import mechanism_named
from noisewise.schema import Schema, schema_from_dict
from noisewise.statistics import Sort, Statistic, statistic_from_dict
from noisewise.statistics.sensitivity import checked_weights
from noisewise.statistics.text import is_new_in_format_2
from noisewise.types import Floats

__all__ = [
    "LARGEST_FILE",
    "MEASURED",
    "NoisyValue",
    "Release",
    "ReleaseFile",
    "checked_signature",
    "json_schema",
    "published_answers",
]

MEASURED = "noisewise-measurement/1"  # a file of a number published elsewhere, which is no release
FORMAT, FORMAT_2 = "noisewise-release/1", "noisewise-release/2"  # 2 only where 1 has no word for what is in it
LARGEST_VALUE = 2**100
LONGEST_SIGNATURE = 300
ASK_AGAIN = "A paid release is stored in its ledger; asking for it again is free."
ENOUGH = 1 - 1e-9  # of the noise that is due; a margin for later rounding rules

Whole = Annotated[StrictInt, Field(gt=-LARGEST_VALUE, lt=LARGEST_VALUE)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Counts(_Strict):
    counts: list[Whole]


class _Answers(_Strict):
    answers: list[Whole]


class ReleaseFile(_Strict):
    """The JSON form of a release, format noisewise-release/1 or /2."""

    format: Literal["noisewise-release/1", "noisewise-release/2"]
    dataset: Annotated[StrictStr, Field(min_length=1, max_length=64)]
    part: tuple[StrictStr, StrictStr] | None
    simulated: StrictBool
    statistic: dict[str, Any]
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    law: dict[str, Any]
    guarantee: dict[str, StrictStr]
    value: list[Whole] | _Counts | _Answers
    ledger_head: Annotated[StrictStr, Field(max_length=128)] | None
    signed: Annotated[StrictStr, Field(min_length=1, max_length=LONGEST_SIGNATURE)] | None = None
    hash: Annotated[StrictStr, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


@dataclass(frozen=True, slots=True, repr=False)
class Release(NoisyFile):
    """A published value with its own likelihood. Made by `make_release`; `Release.load(path)`, `release.save(path)`.

    Attributes
    ----------
    dataset
        The random id of the records.
    schema, statistic, weights, law, guarantee, part
        Those of the plan.
    value
        The noisy value in whole steps of the lattice; `estimate` has it as people read it.
    simulated
        Whether the records were simulated.
    ledger_head
        The hash of the ledger's last entry before this one.
    signed
        The holder's word for a sensitivity that nobody has proved; else None.

    Examples
    --------
    >>> schema = nw.Schema({"smokes": nw.Levels(["no", "yes"])}, n=500, neighbours="change-one")
    >>> count = nw.plan(nw.Count(nw.column("smokes").equals("yes")), schema, guarantee=nw.PureDP(1))
    >>> nw.simulate(count, nw.Bernoulli(p=0.3), seed=1).save("smokers.release.json")
    >>> release = nw.Release.load("smokers.release.json")
    >>> release.labels, release.estimate.shape
    (("count(equals(smokes, 'yes'))",), (1,))
    """

    dataset: str
    schema: Schema
    statistic: Statistic
    weights: tuple[Fraction, ...]
    law: Law
    guarantee: Guarantee
    value: tuple[int, ...]
    part: Part | None = None
    simulated: bool = False
    ledger_head: str | None = None
    signed: str | None = None  # the holder's word for a sensitivity that nobody has proved
    is_foreign: ClassVar[bool] = False
    noun: ClassVar[str] = "release"
    comfort: ClassVar[str] = ASK_AGAIN

    def __post_init__(self) -> None:
        _check(self)

    @classmethod
    def of(
        cls,
        made: Plan,
        value: Sequence[int],
        *,
        dataset: str,
        ledger_head: str | None,
        simulated: bool,
        signed: str | None = None,
    ) -> Release:
        """The release of a plan with its noisy value: whole numbers of lattice steps, as the plan's law draws them.

        A number in the units of the data is refused: it is not known on which lattice its noise was drawn, and rounded
        to this one it would be another number with another law.
        """
        return cls(
            dataset=dataset,
            schema=made.part_schema,
            statistic=made.statistic,
            weights=made.weights,
            law=made.law,
            guarantee=made.guarantee,
            value=_in_steps(value),
            part=made.part,
            simulated=simulated,
            ledger_head=ledger_head,
            signed=signed,
        )

    @property
    def is_categorical(self) -> bool:
        """True where the value counts answers under randomized response."""
        return self.law.form is Form.CELL

    @property
    def estimate(self) -> Floats:
        """The noisy value as people read it: value * step (/ divisor), the action for an estimator."""
        read = self.law.read(np.array([float(v) for v in self.value]))
        return read / self.divisor if self.law.form in (Form.NUMBER, Form.SCALED, Form.POINT) else read

    @property
    def format(self) -> str:
        """The format of its file: 2 where readers of format 1 do not know a unit, a feature, a group or "leave-out"."""
        is_new = bool(self.schema.units) or bool(self.schema.left_out) or is_new_in_format_2(self.statistic)
        is_new_rank = self.law.form is Form.SCALED and self.statistic.sort is Sort.QUANTILE
        return FORMAT_2 if is_new or is_new_rank or self.signed is not None else FORMAT

    @property
    def price(self) -> str:
        """What was paid for it, and on whose word."""
        if self.signed is None:
            return f"{self.guarantee} ({self.guarantee.kind})."
        word = f"its sensitivity is stated, not proved; the holder signed for it: {self.signed}"
        return f"{self.guarantee} ({self.guarantee.kind}; {word})."

    @property
    def noise_words(self) -> str:
        """Its noise, in a sentence."""
        return self.law.words()

    @property
    def origin(self) -> str:
        """Whose records it is of."""
        return f"Data set {self.dataset}"

    def with_schema(self, schema: Schema, statistic: Statistic | None = None) -> Release:
        """The same numbers under a schema of more columns (and as another statistic of them), for a likelihood."""
        return replace(self, schema=schema, statistic=self.statistic if statistic is None else statistic)

    def some_components(self, chosen: Sequence[int], statistic: Statistic) -> Release:
        """Some of its components, as the statistic that they are by themselves.

        It serves as data of a likelihood and is never published: its guarantee stays that of the whole.
        """
        law = additive_law(self.law)
        scale, step = (tuple(values[j] for j in chosen) for values in (law.scale, law.step))
        return replace(
            self,
            statistic=statistic,
            weights=tuple(self.weights[j] for j in chosen),
            law=replace(law, scale=scale, step=step),
            value=tuple(self.value[j] for j in chosen),
        )

    def as_plan(self) -> Simulable:
        """The plan it was made by, settled again from what it says."""
        made = planned_again(self)
        if _steps_of(made.law) != _steps_of(self.law):
            raise Unsupported(
                f"{self.statistic} was released on another lattice than this version would use; it cannot be simulated "
                "again."
            )
        return replace(made, law=self.law)

    def __str__(self) -> str:
        simulated = " (simulated)" if self.simulated else ""
        return printable(f"{self.statistic} of {self.size_words} at {self.guarantee}: {self.estimate_words}{simulated}")

    def _repr_html_(self) -> str:
        text = f"Of {self.size_words}, at {self.guarantee}; neighbours: {self.schema.neighbours}. "
        text += f"Noise: {self.law.words()}"
        text = f"SIMULATED: it describes no real records.\n\n{text}" if self.simulated else text
        return self.page(text, additive_law(self.law).sd if self.law.form is Form.NUMBER else None)

    @classmethod
    def from_dict(cls, plain: object, *, where: str = "") -> Release:
        """Check and read the plain form."""
        where = where or "this release"
        if not isinstance(plain, Mapping):
            raise InvalidRelease(f"{where} is not a release: expected a JSON object.")
        if plain.get("format") == MEASURED:
            raise InvalidRelease(
                f"{where} is a measurement that was made elsewhere, and no release: nobody paid for it from a ledger "
                "here. Read it with Measurement.load, and learn from it with infer."
            )
        if "survey" in plain:
            raise InvalidRelease(f"{where} holds all answers of a survey: read it with SurveyRelease.load(path).")
        if plain.get("format") not in (FORMAT, FORMAT_2):
            raise InvalidRelease(
                f"{where} has format {shown(plain.get('format'))}; this version reads {FORMAT!r} and {FORMAT_2!r}. "
                "A newer Noisewise may be needed."
            )
        try:
            # Validated as JSON text: there lists are lists and numbers are numbers, in the order of the file.
            form = ReleaseFile.model_validate_json(json.dumps(dict(plain), allow_nan=False))
            hashed = digest({key: value for key, value in plain.items() if key != "hash"})
        except (ValidationError, ValueError, TypeError, RecursionError) as error:
            raise InvalidRelease(f"{where} is not a valid release: {first_fault(error)}.") from None
        if form.hash != hashed:
            raise InvalidRelease(f"{where} was changed after it was made: its hash does not match. Ask for it again.")
        try:
            release = _from_form(cls, form)
            if release.format != form.format:
                raise InvalidRelease(
                    f"{where} says {form.format!r}, but what it holds is written as {release.format!r}."
                )
            _check_promise(release)
            return release
        except InvalidRelease:
            raise
        except NoisewiseError as error:
            raise InvalidRelease(f"{where} is not a valid release: {error}") from None
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
            raise InvalidRelease(f"{where} is not a valid release: {first_fault(error)}.") from None

    def _plain(self) -> dict[str, object]:
        statistic = self.statistic.to_dict()
        if self.law.form in (Form.NUMBER, Form.ACTION) and not self.statistic.is_local:
            statistic["weights"] = [str(weight) for weight in self.weights]
        values: object = list(self.value)
        if self.statistic.is_local:
            values = {"counts": values} if self.is_categorical else {"answers": values}
        return {
            "format": self.format,
            "dataset": self.dataset,
            "part": None if self.part is None else [str(end) for end in self.part],
            "simulated": self.simulated,
            "schema": self.schema.captioned(),
            "statistic": statistic,
            "law": self.law.to_dict(),
            "guarantee": self.guarantee.to_dict(),
            "value": values,
            "ledger_head": self.ledger_head,
            **({} if self.signed is None else {"signed": self.signed}),
        }


def checked_signature(statistic: Statistic, signed: object) -> str | None:
    """The holder's word for what nobody has proved: needed there, and nowhere else."""
    unproved = statistic.unproved
    if not unproved:
        if signed is not None:
            raise InvalidArgument(
                f"signed= is for statistics of one's own; the sensitivity of {statistic.kind} is proved here.",
                argument="signed",
            )
        return None
    if signed is None:
        raise InvalidArgument(
            f"Written outside this library: {', '.join(unproved)} of {statistic.kind}. So that one record moves it no "
            "farther than it states is its author's word. Write it as a row of features "
            "(FeatureSums), whose sensitivity is computed; or sign for it: make_release(..., signed='checked by ..., "
            "see ...'), which the release will say.",
            argument="signed",
        )
    return checked_words(signed, "signed", LONGEST_SIGNATURE, is_needed=True)


def published_answers(made: Plan, answers: Sequence[int]) -> list[int]:
    """Single answers as a release holds them: counted by cell, or sorted; in no order that tells who gave which."""
    if made.law.form is not Form.CELL:
        return sorted(answers)
    counts = Counter(answers)
    return [counts[cell] for cell in range(cell_law(made.law).cells)]


def json_schema() -> dict[str, Any]:
    """The JSON schema of the release format."""
    return ReleaseFile.model_json_schema(by_alias=True)


def _from_form(cls: type[Release], form: ReleaseFile) -> Release:
    schema = schema_from_dict(form.schema_)
    entries = dict(form.statistic)
    weights = entries.pop("weights", None)
    statistic = statistic_from_dict(entries)
    if weights is None:
        read: tuple[Fraction, ...] = (Fraction(1),)
    else:
        read = checked_weights(weights, len(weights) if isinstance(weights, list) else 0)
    law = law_from_dict(form.law)
    expected = list if not statistic.is_local else _Counts if law.form is Form.CELL else _Answers
    if not isinstance(form.value, expected):
        raise InvalidRelease(f"The value of {statistic.kind} with the law {law.family!r} is not written like this one.")
    value = form.value if isinstance(form.value, list) else next(iter(form.value.model_dump().values()))
    part = None if form.part is None else (fraction(form.part[0], "part"), fraction(form.part[1], "part"))
    return cls(
        dataset=form.dataset,
        schema=schema,
        statistic=statistic,
        weights=read,
        law=law,
        guarantee=guarantee_from_dict(form.guarantee),
        value=tuple(value),
        part=part,
        simulated=form.simulated,
        ledger_head=form.ledger_head,
        signed=form.signed,
    )


def _check(release: Release) -> None:
    """What must agree inside a release: kinds, lengths, and the range of counts."""
    if not isinstance(release.value, tuple) or not all(type(entry) is int for entry in release.value):
        raise InvalidRelease("The value of a release is a tuple of whole numbers of lattice steps.")
    law, statistic, size = release.law, release.statistic, len(release.value)
    if release.part is not None and not 0 <= release.part[0] < release.part[1] <= 1:
        raise InvalidRelease("The part of a release must satisfy 0 <= start < stop <= 1.")
    if statistic.is_local:
        _check_records(release)
        return
    components = len(statistic.labels(release.schema))
    if size != components:
        raise InvalidRelease(f"{statistic.kind} has {components} components, but the value has {size}.")
    if not mechanism_named(law.mechanism).serves(statistic):
        raise InvalidRelease(f"A release of {statistic.kind} cannot have the law {law.family!r}.")
    if law.form is Form.NUMBER and (additive_law(law).size != components or len(release.weights) != components):
        raise InvalidRelease(f"The law {law.family!r} and the weights must have one entry for each of {components}.")
    if law.form is Form.ACTION and not 0 <= release.value[0] < len(action_law(law).actions):
        raise InvalidRelease("The value is not one of the estimator's outputs.")


def _check_records(release: Release) -> None:
    law, statistic, size = release.law, release.statistic, len(release.value)
    n = release.schema.largest_n
    if law.form is Form.CELL:
        cells = cell_law(law).cells
        if size != cells or cells != statistic.cell_count(release.schema):
            raise InvalidRelease(f"There are {cells} cells, but {size} counts.")
        if min(release.value) < 0 or sum(release.value) != n:
            raise InvalidRelease(f"The counts of answers must be at least 0 and sum to n = {n}.")
    elif law.form is not Form.NUMBER or additive_law(law).size != 1 or size != n:
        raise InvalidRelease(f"Local answers need one law and n = {n} answers.")
    elif any(a > b for a, b in zip(release.value, release.value[1:], strict=False)):
        raise InvalidRelease("Local answers must be sorted: row order would tell who gave which.")


def _check_promise(release: Release) -> None:
    """Plan the release again: its noise must be at least what its guarantee asks for, whoever wrote the file."""
    law, statistic = release.law, release.statistic
    if not (release.simulated and release.signed is None):  # made-up records need nobody's word
        checked_signature(statistic, release.signed)
    due = planned_again(release)
    share = law.share_of_noise(due.law) if law.family == due.law.family else 0.0
    if share < ENOUGH and not _is_shown_enough(law, due, share):
        raise InvalidRelease(
            f"The noise of this release is less than {release.guarantee} asks for {statistic!s:.200}: its guarantee is "
            "not to be trusted."
        )
    if law.form is Form.NUMBER and statistic.is_count and set(additive_law(law).step) != {1.0}:
        raise InvalidRelease("Counts are released on the whole numbers: the step must be 1.")
    if law.form is Form.POINT and not due.lattice.low[0] <= release.value[0] <= due.lattice.high[0]:
        raise InvalidRelease("A private quantile lies between the bounds of its column.")


def _is_shown_enough(law: Law, due: Plan, share: float) -> bool:
    """True where a longer search shows that a share of the noise of today's plan is enough: an earlier went farther.

    Noise that two records refute is refused without it; noise that neither refutes is told from that which is too low.
    """
    sensitivity = due.sensitivity
    if sensitivity is None or sensitivity.is_exact or share * float(sensitivity.value) < sensitivity.attained * ENOUGH:
        return False
    if law.share_of_noise(proven(due, share).law) >= ENOUGH:
        return True
    raise InvalidRelease(
        f"Whether the noise of this release is as much as {due.guarantee} asks for cannot be shown: it has "
        f"{share:.4g} of the noise that a bound certified here asks for, no two records were found that need more than "
        f"{sensitivity.attained / float(sensitivity.value):.4g} of it, and the search between the two was given up "
        "after its share of work. Ask the holder for a release with simpler features or of the present version."
    )


def _steps_of(law: Law) -> tuple[float, ...]:
    """The lattice of a law; nothing where what it publishes is on none."""
    if law.form is Form.SCALED:
        return (smooth_law(law).step,)
    return additive_law(law).step if law.form is Form.NUMBER else ()


def _in_steps(value: object) -> tuple[int, ...]:
    """The noisy value of a new release; never quoted, for who knows where it comes from."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidArgument("value must list whole numbers of lattice steps, one for each component.",
                              argument="value")  # fmt: skip
    steps: list[int] = []
    for entry in value:
        if isinstance(entry, bool | np.bool_) or not isinstance(entry, Integral) or abs(int(entry)) >= LARGEST_VALUE:
            raise InvalidArgument(
                f"value[{len(steps)}] is not a whole number of lattice steps (below 2^100): a release holds integers k "
                "that read k * law.step, divided by n for a mean. Publish records with make_release(table, plan, "
                "ledger=...), or simulate with simulate(plan, ...): both draw on the lattice. A number in the units "
                "of the data has lost its lattice and is no release.",
                argument="value",
            )
        steps.append(int(entry))
    return tuple(steps)
