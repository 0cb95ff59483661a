"""A plan: what would be released, with which noise, at which price. No records are needed to make one.

`plan(statistic, schema, guarantee=...)` settles every public choice in order: the joint sensitivity Delta_w of the
weighted statistic, the noise scale Delta_w/(w_k epsilon) of each component, the lattice step that goes with it, the
sensitivity of the values *as rounded to that lattice*, and the noise law calibrated to that. The result is plain
data that `choose`, `information`, `simulate` and `make_release` all take.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import fraction
from noisewise.html import MOST_SHOWN, Section, pieces
from noisewise.lattice import Lattice
from noisewise.laws import Form, Law, additive_law
from noisewise.laws.finite import FiniteLaw, adjacent, satisfies
from noisewise.printable import printable, shown
from noisewise.privacy.guarantee import Guarantee, PureDP, checked_guarantee
from noisewise.schema import Schema, checked_schema
from noisewise.statistics.protocol import Settled, Statistic
from noisewise.statistics.sensitivity import Sensitivity, exact, norm_above, proving
from noisewise.statistics.validity import check_validity, default_mechanism

Part = tuple[Fraction, Fraction]


class Planned(Protocol):
    """What a plan and a release have in common: everything public that a plan is settled from."""

    @property
    def schema(self) -> Schema: ...
    @property
    def statistic(self) -> Statistic: ...
    @property
    def guarantee(self) -> Guarantee: ...
    @property
    def weights(self) -> tuple[Fraction, ...]: ...
    @property
    def law(self) -> Law: ...


class Simulable(Protocol):
    """What simulated records are summed and noised by: a plan, or what a measurement made elsewhere says of itself."""

    @property
    def schema(self) -> Schema: ...
    @property
    def part_schema(self) -> Schema: ...
    @property
    def statistic(self) -> Statistic: ...
    @property
    def law(self) -> Law: ...
    @property
    def lattice(self) -> Lattice: ...


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise one component gets, in the units of the statistic as people read it (a mean, not a sum)."""

    label: str
    sd: float | None  # None where it is secret (smooth sensitivity) or not a number (randomized response)
    words: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be released, and its bill. Make one with `plan(...)`.

    Attributes
    ----------
    schema, statistic, guarantee, mechanism, weights, part
        As they were given, or settled.
    law
        The noise, as plain data.
    lattice
        The public steps in which values are published.
    sensitivity
        How far one record moves the weighted sums; None where it is not one number.

    Examples
    --------
    >>> schema = nw.Schema({"income": nw.Bounded(0, 250)}, n=4000, neighbours="change-one")
    >>> made = nw.plan(nw.Mean("income"), schema, guarantee=nw.PureDP(1))
    >>> made.mechanism, float(made.sensitivity.value)
    ('laplace', 1.0)
    """

    schema: Schema
    statistic: Statistic
    guarantee: Guarantee
    mechanism: str
    weights: tuple[Fraction, ...]
    part: Part | None
    law: Law
    lattice: Lattice
    sensitivity: Sensitivity | None

    @property
    def cost(self) -> Guarantee:
        """What a release by this plan takes from the ledger."""
        return self.guarantee

    @property
    def part_schema(self) -> Schema:
        """The schema of the records this plan reads: n is that of the part."""
        return self.schema.part_size(self.part)

    @property
    def divisor(self) -> int:
        """What the sums are divided by for reading: n for a mean, a record's weight for a tied table, else 1."""
        return self.statistic.divisor(self.part_schema)

    @property
    def noise(self) -> tuple[Noise, ...]:
        """What each component gets."""
        labels = self.statistic.labels(self.part_schema)
        if self.law.form is Form.NUMBER:
            law = additive_law(self.law)
            sds = law.sd * (len(labels) if law.size == 1 else 1)
            return tuple(
                Noise(label, sd / self.divisor, f"sd {sd / self.divisor:.4g}")
                for label, sd in zip(labels, sds, strict=True)
            )
        return tuple(Noise(label, None, self.law.brief()) for label in labels)

    def again(self) -> Plan:
        """The same plan settled again: equal to this one, unless this one was altered."""
        return planned_again(self, mechanism=self.mechanism, part=self.part)

    def earlier(self) -> Plan | None:
        """The plan that earlier versions made of the same words, where its request is another one; else None.

        With weights of one's own it is not known which plan that would be.
        """
        statistic = self.statistic.earlier
        if statistic is None:
            return None
        by_default, before = (
            plan(one, self.schema, guarantee=self.guarantee, mechanism=self.mechanism, part=self.part)
            for one in (self.statistic, statistic)
        )
        return before if by_default == self else None

    def request(self) -> bytes:
        """The canonical bytes of everything that defines this release: the same request is the same release."""
        return canonical(
            {
                "schema": self.schema.to_dict(),
                "statistic": self.statistic.to_dict(),
                "weights": [str(weight) for weight in self.weights],
                "law": self.law.to_dict(),
                "guarantee": self.guarantee.to_dict(),
                "mechanism": self.mechanism,
                "part": None if self.part is None else [str(end) for end in self.part],
            }
        )

    def describe(self) -> str:
        """The plan in words: what, of whom, with which noise, for which price."""
        schema = self.part_schema
        size = f"n = {schema.n}" if schema.is_change_one else f"at most {schema.n_max} records (the number is private)"
        part = "" if self.part is None else f", part {self.part[0]} to {self.part[1]}"
        lines = [f"{self.statistic} over {size}{part}; neighbours: {schema.neighbours}."]
        absent = [name for name in self.statistic.columns() if name in schema.left_out]
        if absent:
            lines.append(f"Left out where {' or '.join(absent)} is missing; how many are present is private.")
        lines.append(f"Price: {self.guarantee} ({self.guarantee.kind}), by the {self.mechanism} mechanism.")
        if self.sensitivity is not None:
            lines.append(f"Sensitivity of the weighted sums: {self.sensitivity}.")
        shown = self.noise[:20]
        width = max(len(noise.label) for noise in shown)
        lines.extend(f"  {noise.label:<{width}}  {noise.words}" for noise in shown)
        if len(self.noise) > len(shown):
            lines.append(f"  ... and {len(self.noise) - len(shown)} more components.")
        return "\n".join(map(printable, lines))

    def _repr_html_(self) -> str:
        schema, shown = self.part_schema, self.noise[:MOST_SHOWN]
        size = f"n = {schema.n}" if schema.is_change_one else f"at most {schema.n_max} records, their number private"
        part = "" if self.part is None else f", part {self.part[0]} to {self.part[1]}"
        lines = [f"Over {size}{part}; neighbours: {schema.neighbours}. Price: {self.guarantee}."]
        if self.sensitivity is not None:
            lines.append(f"Sensitivity of the weighted sums: {self.sensitivity}.")
        if len(self.noise) > len(shown):
            lines.append(f"{len(self.noise) - len(shown)} more components.")
        rows = [(noise.label, noise.words) for noise in shown]
        title = f"Plan: {self.statistic} by {self.mechanism}"
        return pieces(Section(title, text="\n\n".join(lines), header=("component", "noise"), rows=rows))

    def __str__(self) -> str:
        return f"{self.statistic} by {self.mechanism} at {self.guarantee}"


def plan(
    statistic: Statistic,
    schema: Schema,
    *,
    guarantee: Guarantee,
    mechanism: object = None,
    weights: Sequence[object] | None = None,
    part: tuple[object, object] | None = None,
) -> Plan:
    """Settle everything public about a release: sensitivity, weights, lattice, noise law and price. Reads no record.

    Parameters
    ----------
    statistic
        What would be published, such as `Mean("income")`.
    schema
        The public facts about the records.
    guarantee
        The price of the whole release, such as `PureDP(1)`.
    mechanism
        A name of the validity table (docs/mechanisms.md), or an optimal estimator (anything with exact `rows` and
        `actions`). Default None: the first of the table that fits.
    weights
        How the budget is split among the components; larger is less noise. Default None: each component scaled to unit
        range.
    part
        (start, stop), a fraction of the records such as (0, "1/10"): by position under change-one, by key hash under
        add-remove. Default None: all of them.

    Returns
    -------
    Plan
        What `make_release` releases, `choose` ranks and `simulate` simulates.

    Examples
    --------
    >>> schema = nw.Schema({"income": nw.Bounded(0, 250)}, n=4000, neighbours="change-one")
    >>> print(nw.plan(nw.Mean("income"), schema, guarantee=nw.PureDP(1)).describe())
    mean(income) over n = 4000; neighbours: change-one.
    Price: epsilon = 1 (pure-dp), by the laplace mechanism.
    Sensitivity of the weighted sums: 1 (L1, exact: the ends of all ranges are reached together).
      mean(income)  sd 0.08839
    """
    checked_statistic(statistic)
    checked_schema(schema)
    checked_guarantee(guarantee)
    read = _part(part)
    finite = _finite_law(mechanism)
    chosen = "finite" if finite is not None else mechanism
    here = schema.part_size(read)
    if chosen is None:
        chosen = default_mechanism(statistic, here, guarantee)
    check_validity(chosen, statistic, here, guarantee)
    made = _settle(statistic, here, guarantee, str(chosen), _given_weights(weights), finite)
    return Plan(schema, statistic, guarantee, str(chosen), made.weights, read, made.law, made.lattice, made.sensitivity)


def checked_statistic(statistic: object) -> Statistic:
    """A statistic, or a sentence that says how to make one."""
    if not isinstance(statistic, Statistic):
        raise InvalidArgument(f"statistic = {shown(statistic)}; use Mean, Median, ... or statistic('...').",
                              argument="statistic")  # fmt: skip
    return statistic


def planned_again(of: Planned, *, mechanism: str | None = None, part: Part | None = None) -> Plan:
    """The plan settled again from public facts alone: statistic, schema, guarantee, mechanism and weights.

    Nobody's noise or price is taken on trust: a plan before it is paid for, a release when it is read.
    """
    law, is_estimator = of.law, of.law.form is Form.ACTION
    return plan(
        of.statistic,
        of.schema,
        guarantee=of.guarantee,
        mechanism=law if is_estimator else mechanism or law.mechanism,
        weights=of.weights if of.statistic.takes_weights and not is_estimator else None,
        part=part,
    )


def proven(made: Plan, share: float) -> Plan:
    """The plan again, its sensitivity searched for longer and only until that share of its noise is shown to be enough.

    A noise scale is proportional to the sensitivity: that of the features, and a few steps of the lattice for rounding.
    """
    if made.sensitivity is None or not made.statistic.is_searched:
        return made
    steps = [4 * weight * Fraction(step) for weight, step in zip(made.weights, made.lattice.step, strict=True)]
    with proving(Fraction(share) * made.sensitivity.value - norm_above(steps, made.sensitivity.norm)):
        again = made.statistic.settle(made.part_schema, made.guarantee, made.mechanism, made.weights)
    return replace(made, law=again.law, lattice=again.lattice, sensitivity=again.sensitivity)


def canonical(data: object) -> bytes:
    """One JSON text for one value: sorted keys, no spaces, no NaN."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True).encode()


def _given_weights(weights: object) -> tuple[Fraction, ...] | None:
    if weights is None:
        return None
    if isinstance(weights, str) or not isinstance(weights, Sequence):
        raise InvalidArgument("weights must list positive numbers, one a component.", argument="weights")
    return tuple(fraction(weight, f"weights[{k}]", positive=True) for k, weight in enumerate(weights))


@lru_cache(maxsize=64)  # a plan is settled again when its release is paid for and when it is read
def _settle(
    statistic: Statistic,
    schema: Schema,
    guarantee: Guarantee,
    mechanism: str,
    weights: tuple[Fraction, ...] | None,
    finite: FiniteLaw | None,
) -> Settled:
    """Weights, law, lattice and sensitivity of one statistic."""
    if finite is not None:
        return _settle_finite(schema, guarantee, finite)
    return statistic.settle(schema, guarantee, mechanism, weights)


def _settle_finite(schema: Schema, guarantee: Guarantee, law: FiniteLaw) -> Settled:
    assert isinstance(guarantee, PureDP)
    size = schema.largest_n + 1
    if not schema.is_change_one or len(law.rows) != size:
        raise Unsupported(
            f"This estimator has {len(law.rows)} rows, but a count over these records has {size} values "
            "(an estimator needs neighbours='change-one' and one row for each count). Nothing was spent."
        )
    if not satisfies(law.rows, adjacent(size), guarantee.epsilon):
        raise Unsupported(f"This estimator's matrix is not {guarantee}-private by exact check. Nothing was spent.")
    sensitivity = exact(Fraction(1), 1, "one record is in the count or not")
    return Settled((Fraction(1),), law, Lattice((1.0,), (0,), (1,)), sensitivity)


def _finite_law(mechanism: object) -> FiniteLaw | None:
    """An estimator (anything with exact rows and actions) as a finite law; None for names."""
    if mechanism is None or isinstance(mechanism, str):
        return None
    if isinstance(mechanism, FiniteLaw):
        return mechanism
    if hasattr(mechanism, "rows") and hasattr(mechanism, "actions"):
        return FiniteLaw(mechanism.rows, mechanism.actions)
    raise InvalidArgument(f"mechanism = {shown(mechanism)} is neither a name nor an estimator.", argument="mechanism")


def _part(part: object) -> Part | None:
    if part is None:
        return None
    if isinstance(part, str) or not isinstance(part, Sequence) or len(part) != 2:
        raise InvalidArgument("part must be (start, stop) with 0 <= start < stop <= 1.", argument="part")
    start, stop = fraction(part[0], "part"), fraction(part[1], "part")
    if not 0 <= start < stop <= 1:
        raise InvalidArgument(f"part = ({start}, {stop}) must satisfy 0 <= start < stop <= 1.", argument="part")
    return None if start == 0 and stop == 1 else (start, stop)
