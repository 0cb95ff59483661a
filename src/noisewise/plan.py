"""A plan: what would be released, with which noise, at which price. No records are needed to make one.

`plan(statistic, schema, guarantee=...)` settles every public choice in order: the joint sensitivity Delta_w of the
weighted statistic, the noise scale Delta_w/(w_k epsilon) of each component, the lattice step that goes with it, the
sensitivity of the values *as rounded to that lattice*, and the noise law calibrated to that. The result is plain
data that `choose`, `information`, `simulate` and `make_release` all take.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import float_above, fraction, power_of_two_below
from noisewise.lattice import Lattice, entry_steps, lattice_for, rounded_sensitivity, sum_step, unit_lattice
from noisewise.laws import ExponentialQuantile, Form, Law, SmoothCauchy, SmoothLaplace, additive_law
from noisewise.laws.finite import FiniteLaw, adjacent, randomized_response, satisfies
from noisewise.printable import printable
from noisewise.privacy import smooth
from noisewise.privacy.guarantee import ApproxDP, Guarantee, PureDP, checked_guarantee
from noisewise.privacy.mechanism import AddedNoise, added_noise, check_validity, default_mechanism
from noisewise.schema import Schema, checked_schema
from noisewise.statistics import Marginals, Moments, Records, SmallestEigenvalue, Statistic
from noisewise.statistics.enclosure import feature_range, feature_ranges
from noisewise.statistics.order import OrderStatistic, Quantile
from noisewise.statistics.sensitivity import Sensitivity, checked_weights, exact, norm_above, proving, short_above

Part = tuple[Fraction, Fraction]

SEARCHED = frozenset({"mean", "sum", "truncated-sum", "moments"})  # statistics whose sensitivity is searched for


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise one component gets, in the units of the statistic as people read it (a mean, not a sum)."""

    label: str
    sd: float | None  # None where it is secret (smooth sensitivity) or not a number (randomized response)
    words: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be released, and its bill. Make one with `plan(...)`."""

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
        return reading_divisor(self.statistic, self.part_schema)

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
        lines.append(f"Price: {self.guarantee} ({self.guarantee.kind}), by the {self.mechanism} mechanism.")
        if self.sensitivity is not None:
            lines.append(f"Sensitivity of the weighted sums: {self.sensitivity}.")
        shown = self.noise[:20]
        width = max(len(noise.label) for noise in shown)
        lines.extend(f"  {noise.label:<{width}}  {noise.words}" for noise in shown)
        if len(self.noise) > len(shown):
            lines.append(f"  ... and {len(self.noise) - len(shown)} more components.")
        return "\n".join(map(printable, lines))

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
    """Settle everything public about a release: sensitivity, weights, lattice, noise law and price.

    `mechanism` is a name of the validity table, an optimal estimator (anything with exact `rows` and `actions`), or
    None for the table's first choice. `part=(start, stop)` takes a fraction of the records: by position under
    change-one, by key hash under add-remove.
    """
    if not isinstance(statistic, Statistic):
        raise InvalidArgument(f"statistic = {statistic!r:.60}; use Mean, Median, ... or statistic('...').",
                              argument="statistic")  # fmt: skip
    checked_schema(schema)
    checked_guarantee(guarantee)
    read = _part(part)
    finite = _finite_law(mechanism)
    chosen = "finite" if finite is not None else mechanism
    here = schema.part_size(read)
    if chosen is None:
        categorical = isinstance(statistic, Records) and statistic.is_categorical(here)
        chosen = default_mechanism(statistic.kind, guarantee, is_categorical=categorical)
    check_validity(chosen, statistic.kind, guarantee, neighbours=schema.neighbours)  # type: ignore[arg-type]
    settled = _settle(statistic, here, guarantee, str(chosen), _given_weights(weights), finite)
    return Plan(schema, statistic, guarantee, str(chosen), settled[0], read, *settled[1:])


def proven(made: Plan, share: float) -> Plan:
    """The plan again, its sensitivity searched for longer and only until that share of its noise is shown to be enough.

    A noise scale is proportional to the sensitivity: that of the features, and a few steps of the lattice for rounding.
    """
    if made.sensitivity is None or made.statistic.kind not in SEARCHED:
        return made
    steps = [4 * weight * Fraction(step) for weight, step in zip(made.weights, made.lattice.step, strict=True)]
    with proving(Fraction(share) * made.sensitivity.value - norm_above(steps, made.sensitivity.norm)):
        settled = _settle.__wrapped__(
            made.statistic, made.part_schema, made.guarantee, made.mechanism, made.weights, None
        )
    return replace(made, law=settled[1], lattice=settled[2], sensitivity=settled[3])


def reading_divisor(statistic: Statistic, schema: Schema) -> int:
    """n for a mean, the whole weight of one record for a tied table, else 1."""
    if isinstance(statistic, Marginals):
        return statistic.unit()
    return schema.largest_n if statistic.kind == "mean" else 1


def canonical(data: object) -> bytes:
    """One JSON text for one value: sorted keys, no spaces, no NaN."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True).encode()


Settled = tuple[tuple[Fraction, ...], Law, Lattice, Sensitivity | None]


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
    """Weights, law, lattice and sensitivity of one statistic, by its kind."""
    if isinstance(statistic, OrderStatistic | Records | SmallestEigenvalue) and weights is not None:
        raise InvalidArgument(f"{statistic.kind} has one component and takes no weights.", argument="weights")
    if finite is not None:
        return _settle_finite(schema, guarantee, finite)
    if isinstance(statistic, OrderStatistic):
        return (Fraction(1),), *_order_law(statistic, schema, guarantee, mechanism)
    if isinstance(statistic, Records):
        return (Fraction(1),), *_records_law(statistic, schema, guarantee, mechanism)
    if isinstance(statistic, SmallestEigenvalue):
        return (Fraction(1),), *_eigenvalue_law(statistic, schema, guarantee, mechanism)
    noise = added_noise(mechanism)
    given = statistic.default_weights(schema)
    if weights is not None:
        given = checked_weights(weights, len(given))
    if len(given) > 1 and not noise.is_for_vectors:
        raise Unsupported(
            f"The mechanism {mechanism!r} hides one number, and {statistic} has {len(given)} components. Nothing was "
            "spent."
        )
    unrounded = statistic.sensitivity(schema, norm=noise.norm, weights=given)
    if statistic.is_count:
        most = statistic.unit() if isinstance(statistic, Marginals) else 1
        lattice, sensitivity = unit_lattice(len(given), most), unrounded
    else:
        lattice, sensitivity = _sum_lattice(statistic, schema, guarantee, noise, unrounded, given)
    if sensitivity.value <= 0:
        raise Unsupported(
            "No record can move this statistic within the declared bounds, so it tells nothing: change its features' "
            "limits (clip, between) or the schema's bounds. Nothing was spent."
        )
    return given, _additive_law(noise, sensitivity, lattice, guarantee, given), lattice, sensitivity


def _sum_lattice(
    statistic: Any,
    schema: Schema,
    guarantee: Guarantee,
    noise: AddedNoise,
    unrounded: Sensitivity,
    weights: tuple[Fraction, ...],
) -> tuple[Lattice, Sensitivity]:
    row = statistic.row(schema)
    ranges, n = feature_ranges(row, schema), schema.largest_n
    if isinstance(statistic, Moments) and statistic.block > 1:
        unrounded, ranges = _averaged(statistic, schema, unrounded.norm, weights)
        n //= statistic.block
    steps = [
        sum_step(scale=scale, n=n, low=low, high=high, error=error)
        for scale, (low, high, error) in zip(_scales(noise, unrounded, guarantee, weights), ranges, strict=True)
    ]
    lattice = lattice_for(steps, ranges)
    rounded = rounded_sensitivity(
        unrounded,
        lattice,
        weights=weights,
        errors=[_rounding(*bounds, step) for bounds, step in zip(ranges, steps, strict=True)],
        extra_steps=[int(feature.has_general_power) for feature in row],
        is_change_one=schema.is_change_one,
    )
    return lattice, rounded


def _averaged(
    statistic: Moments, schema: Schema, norm: int, weights: tuple[Fraction, ...]
) -> tuple[Sensitivity, list[tuple[float, float, float]]]:
    """Averaged rows: the sensitivity with entries already rounded, and the range of each product of block sums."""
    bounds = feature_ranges(statistic.entries(schema), schema)
    moves = [
        Fraction(step) / 2 + Fraction(_rounding(*entry, step))
        for step, entry in zip(entry_steps(bounds), bounds, strict=True)
    ]
    sensitivity = statistic.rounded_sensitivity(schema, entry_moves=moves, norm=norm, weights=weights)
    sizes = [max(abs(low), abs(high)) * (1 + 2.0**-29) for low, high, _ in bounds]
    largest = [statistic.block * math.prod(sizes[i] for i in monomial) for monomial in statistic.monomials(schema)]
    return sensitivity, [(-size, size, 4 * 2.0**-53 * size) for size in largest]


def _rounding(low: float, high: float, error: float, step: float) -> float:
    """What separates the lattice value from the exact one beyond half a step: the rounding of the feature, of its
    declared range (hence twice), and of v/step + 1/2."""
    return 2 * error + 2.0**-52 * (max(abs(low), abs(high)) + step)


def _scales(
    noise: AddedNoise, sensitivity: Sensitivity, guarantee: Guarantee, weights: tuple[Fraction, ...]
) -> list[Fraction]:
    """The noise scale of each component's sum: Delta_w/(w_k epsilon), or sigma/w_k."""
    base = noise.scale(short_above(sensitivity.value), guarantee)
    return [base / weight for weight in weights]


def _additive_law(
    noise: AddedNoise, sensitivity: Sensitivity, lattice: Lattice, guarantee: Guarantee, weights: tuple[Fraction, ...]
) -> Law:
    scale = tuple(float_above(value) for value in _scales(noise, sensitivity, guarantee, weights))
    return noise.law(scale, lattice.step, guarantee)


def _order_law(
    statistic: OrderStatistic, schema: Schema, guarantee: Guarantee, mechanism: str
) -> tuple[Law, Lattice, Sensitivity | None]:
    step = statistic.step(schema)
    low, high = statistic.bounds(schema)
    lattice = lattice_for([step], [(low, high, 0.0)])
    if isinstance(statistic, Quantile):
        assert isinstance(guarantee, PureDP)
        return ExponentialQuantile(guarantee.epsilon, step), lattice, None
    if mechanism == "smooth-laplace":
        assert isinstance(guarantee, ApproxDP)
        return SmoothLaplace(*smooth.laplace_rule(guarantee), step), lattice, None
    assert isinstance(guarantee, PureDP)
    return SmoothCauchy(*smooth.cauchy_rule(guarantee), step), lattice, None


def _records_law(
    statistic: Records, schema: Schema, guarantee: Guarantee, mechanism: str
) -> tuple[Law, Lattice, Sensitivity | None]:
    if mechanism == "randomized-response":
        assert isinstance(guarantee, PureDP)
        cells = statistic.cell_count(schema)
        return randomized_response(cells, guarantee.epsilon), unit_lattice(cells), None
    low, high, error = feature_range(statistic.feature, schema)
    if not low < high:
        raise InvalidArgument(
            f"The feature {statistic.feature!s:.200} is the same for every record within the declared bounds, so its "
            "answers tell nothing: change its limits (clip, between) or the schema's bounds. Nothing was spent.",
            argument="feature",
        )
    noise = added_noise(mechanism)
    unrounded = statistic.sensitivity(schema, norm=noise.norm)
    (scale,) = _scales(noise, unrounded, guarantee, (Fraction(1),))
    lattice = lattice_for([sum_step(scale=scale, n=1, low=low, high=high, error=error)], [(low, high, error)])
    span = (lattice.high[0] - lattice.low[0]) * Fraction(lattice.step[0])
    rounded = exact(span, unrounded.norm, unrounded.argument)
    return _additive_law(noise, rounded, lattice, guarantee, (Fraction(1),)), lattice, rounded


def _eigenvalue_law(
    statistic: SmallestEigenvalue, schema: Schema, guarantee: Guarantee, mechanism: str
) -> tuple[Law, Lattice, Sensitivity | None]:
    """lambda_min moves by at most R^2 (Weyl); its computation moves it by the Gram matrix's rounding and LAPACK's."""
    noise = added_noise(mechanism)
    unrounded = statistic.sensitivity(schema, norm=noise.norm)
    (scale,) = _scales(noise, unrounded, guarantee, (Fraction(1),))
    step = power_of_two_below(scale / 2**12)
    n, size = schema.largest_n, len(statistic.features)
    radius_squared = Fraction(statistic.shrink) ** 2
    gram_step = eigenvalue_gram_step(statistic, schema)
    ranges = feature_ranges(statistic.gram_row(schema), schema)
    row_error = max(_rounding(*bounds, gram_step) for bounds in ranges)
    gram_error = n * size * (Fraction(gram_step) / 2 + Fraction(row_error))
    solver_error = n * radius_squared * size * Fraction(16, 2**52)
    value = unrounded.value + step + 2 * (gram_error + solver_error)
    if value > 2 * unrounded.value:
        raise Unsupported(
            f"The smallest eigenvalue cannot be computed exactly enough over n = {n} records. Nothing was spent."
        )
    lattice = Lattice((float(step),), (0,), (math.ceil(n * radius_squared / step),))
    rounded = Sensitivity(value, float(unrounded.value), unrounded.norm, unrounded.argument)
    return _additive_law(noise, rounded, lattice, guarantee, (Fraction(1),)), lattice, rounded


def eigenvalue_gram_step(statistic: SmallestEigenvalue, schema: Schema) -> float:
    """The finest step on which the Gram matrix sums exactly in 62 bits and entries round as doubles."""
    square = 2 * Fraction(statistic.shrink) ** 2
    return float(2 * power_of_two_below(max(schema.largest_n * square / 2**62, square / 2**48)))


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
    return (Fraction(1),), law, Lattice((1.0,), (0,), (1,)), exact(Fraction(1), 1, "one record is in the count or not")


def _finite_law(mechanism: object) -> FiniteLaw | None:
    """An estimator (anything with exact rows and actions) as a finite law; None for names."""
    if mechanism is None or isinstance(mechanism, str):
        return None
    if isinstance(mechanism, FiniteLaw):
        return mechanism
    if hasattr(mechanism, "rows") and hasattr(mechanism, "actions"):
        return FiniteLaw(mechanism.rows, mechanism.actions)
    raise InvalidArgument(f"mechanism = {mechanism!r:.60} is neither a name nor an estimator.", argument="mechanism")


def _part(part: object) -> Part | None:
    if part is None:
        return None
    if isinstance(part, str) or not isinstance(part, Sequence) or len(part) != 2:
        raise InvalidArgument("part must be (start, stop) with 0 <= start < stop <= 1.", argument="part")
    start, stop = fraction(part[0], "part"), fraction(part[1], "part")
    if not 0 <= start < stop <= 1:
        raise InvalidArgument(f"part = ({start}, {stop}) must satisfy 0 <= start < stop <= 1.", argument="part")
    return None if start == 0 and stop == 1 else (start, stop)
