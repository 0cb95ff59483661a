"""Accounting: what several charges add up to, and whether they fit a limit.

Charges on the same records add; charges on disjoint parts of the records run in parallel, so the total of a ledger
is the worst total over the points of [0, 1), the fractions of the records. All sums are exact.

The total is expressed in the kind of the limit:
    PureDP, GaussianDP    charges of that kind only, added
    ZeroConcentratedDP    charges of that kind, and PureDP as rho = epsilon^2/2
    ApproxDP              every kind; the smallest epsilon among the bounds below at the limit's delta

Under an ApproxDP limit (E, d) the ApproxDP charges add (epsilon_A, delta_A) first and leave d' = d - delta_A. Each
line is a proved bound, its epsilon added to epsilon_A; two conversions in one line share d' in the best of a few
fixed proportions:
    1. PureDP by addition, ZeroConcentratedDP converted, GaussianDP converted
    2. PureDP and ZeroConcentratedDP converted together (rho adds), GaussianDP converted
    3. everything converted together (mu-GDP is mu^2/2-zCDP, being a post-processing of Gaussian noise)
PureDP and ApproxDP charges alone only add. With nothing converted delta_A itself is reported. If no delta is left for
a conversion that must be made, it is made on top of delta_A: the total is then true, and beyond the limit.

The conversions at a given delta are those of `privacy.conversion`. A kind of another package says by `shares` what it
is under an ApproxDP limit, and by a conversion without a delta what it costs under any other.

Mechanisms may always be chosen after seeing earlier releases. If all charges are of one kind, or PureDP with ApproxDP,
or PureDP with ZeroConcentratedDP under a limit of the latter, so may the *sizes* of later charges: these totals are
privacy filters (Rogers et al. 2016; Feldman & Zrnic 2021; Smith & Thakurta 2022; for PureDP under ApproxDP, a path
within the plain sum loses at most epsilon whatever happens, and the other paths are those of one filter). For other
mixtures under an ApproxDP limit the proof is for sizes that do not depend on earlier releases.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import localcontext
from fractions import Fraction
from functools import singledispatch
from itertools import pairwise

from noisewise.errors import Incomparable, InvalidArgument, Unregistered
from noisewise.exact import SMALLEST, fraction
from noisewise.privacy.calibration import decimal_context, decimal_of
from noisewise.privacy.conversion import gaussian_epsilon, round_up, zero_concentrated_epsilon
from noisewise.privacy.guarantee import (
    CONVERSIONS,
    KINDS,
    ApproxDP,
    GaussianDP,
    Guarantee,
    PureDP,
    ZeroConcentratedDP,
)

_SHARES = tuple(Fraction(k, 32) for k in (1, 4, 8, 12, 16, 20, 24, 28, 31))


@dataclass(frozen=True, slots=True)
class Charge:
    """A guarantee spent on the records between two fractions of the data set, or on all of them (`part=None`)."""

    guarantee: Guarantee
    part: tuple[Fraction, Fraction] | None = None

    def __post_init__(self) -> None:
        if self.part is not None:
            object.__setattr__(self, "part", _exact_part(self.part))


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of records that all charges treat alike; `total` is None where nothing was charged."""

    part: tuple[Fraction, Fraction]
    total: Guarantee | None


@dataclass(frozen=True, slots=True)
class ParallelTotal:
    """The totals of every segment of [0, 1), in order, and the largest; `worst` is None where nothing was charged.

    Under an ApproxDP limit totals are only partially ordered: `worst` has the largest epsilon and the largest delta of
    any segment, so it bounds them all.
    """

    segments: tuple[Segment, ...]
    worst: Guarantee | None


def compose(charges: Sequence[Guarantee], *, like: Guarantee) -> Guarantee:
    """The total of several charges on the same records, in the kind of the limit `like` (rules above)."""
    if not charges:
        raise InvalidArgument("charges = [] cannot be used: expected at least one charge.", argument="charges")
    return _total(like, charges)


def parallel_total(charges: Sequence[Charge], *, like: Guarantee) -> ParallelTotal:
    """The totals over disjoint parts: every record is touched only by the charges on its part."""
    segments = tuple(Segment(part, compose(spent, like=like) if spent else None) for part, spent in _sweep(charges))
    totals = [segment.total.parts for segment in segments if segment.total is not None]
    worst = type(like).from_parts(*map(max, zip(*totals, strict=True))) if totals else None
    return ParallelTotal(segments, worst)


def fits(charges: Sequence[Charge], limit: Guarantee) -> bool:
    """Whether no record is charged more than the limit."""
    return all(_fit_together(spent, limit) for _, spent in _sweep(charges) if spent)


def remaining(
    charges: Sequence[Charge], limit: Guarantee, part: tuple[Fraction, Fraction] | None = None
) -> Guarantee | None:
    """The largest charge of the limit's kind that still fits on every record of `part`; None when nothing is left.

    Defined where totals are sums. Under an ApproxDP limit that is so for PureDP and ApproxDP charges; the price of
    another kind depends on everything spent with it, so there is no such number and `Incomparable` is raised.
    """
    start, stop = (Fraction(0), Fraction(1)) if part is None else _exact_part(part)
    left = limit.parts
    for (first, last), spent in _sweep(charges):
        if first < stop and start < last and spent:
            here = (most - gone for most, gone in zip(limit.parts, _sum_of_parts(limit, spent), strict=True))
            left = tuple(map(min, zip(left, here, strict=True)))
    return type(limit).from_parts(*left) if min(left) > 0 else None


@singledispatch
def for_two_records(guarantee: Guarantee) -> Guarantee:
    """What a promise about one record promises about two together (group privacy), rounded up.

    PureDP: 2 epsilon. ZeroConcentratedDP: 4 rho. GaussianDP: 2 mu. ApproxDP: 2 epsilon and (1 + e^epsilon) delta.
    To change one record is to remove it and to add another, so this is the price of an add-remove release under
    change-one. Refused with `Incomparable` where no delta below 1 is left.
    """
    raise Incomparable(
        f"{guarantee!r} has no known price for two records together: register one with "
        "`noisewise.privacy.accounting.for_two_records`. Nothing was spent.",
        guarantee=guarantee,
    )


@for_two_records.register
def _(guarantee: PureDP) -> Guarantee:
    return guarantee.times(2)


@for_two_records.register
def _(guarantee: ZeroConcentratedDP) -> Guarantee:
    return guarantee.times(4)


@for_two_records.register
def _(guarantee: GaussianDP) -> Guarantee:
    return guarantee.times(4)  # mu^2 is what is kept


@for_two_records.register
def _(guarantee: ApproxDP) -> Guarantee:
    # At 300 the smallest delta there is, 1e-100, has long grown beyond 1; further digits of e^epsilon tell no more.
    with localcontext(decimal_context(60)):
        growth = round_up(1 + decimal_of(min(guarantee.epsilon, Fraction(300))).exp())
    if growth * guarantee.delta >= 1:
        raise Incomparable(
            f"{guarantee!r} promises nothing about two records together: its delta would be 1. Nothing was spent.",
            guarantee=guarantee,
        )
    return ApproxDP(2 * guarantee.epsilon, growth * guarantee.delta)


@dataclass(frozen=True, slots=True)
class Shares:
    """What charges are under an ApproxDP limit: amounts of the kinds whose composition is known, each exact."""

    epsilon: Fraction = Fraction(0)  # with delta, of ApproxDP
    delta: Fraction = Fraction(0)
    pure: tuple[Fraction, ...] = ()
    rho: Fraction = Fraction(0)
    mu_squared: Fraction = Fraction(0)

    def __add__(self, other: Shares) -> Shares:
        return Shares(
            self.epsilon + other.epsilon,
            self.delta + other.delta,
            self.pure + other.pure,
            self.rho + other.rho,
            self.mu_squared + other.mu_squared,
        )

    @property
    def must_convert(self) -> bool:
        """Whether something in it has an epsilon only at a delta."""
        return self.rho > 0 or self.mu_squared > 0

    @property
    def added(self) -> Fraction:
        """The epsilon of what only adds."""
        return self.epsilon + sum(self.pure)


@singledispatch
def shares(charge: Guarantee) -> Shares:
    """What one charge is under an ApproxDP limit."""
    raise Unregistered(
        f"{charge!r} has no price under an ApproxDP limit: say what it is with "
        "`noisewise.privacy.accounting.shares.register`, or use a limit of its own kind. Nothing was spent.",
        piece="shares",
    )


@shares.register
def _(charge: PureDP) -> Shares:
    return Shares(pure=(charge.epsilon,))


@shares.register
def _(charge: ApproxDP) -> Shares:
    return Shares(charge.epsilon, charge.delta)


@shares.register
def _(charge: ZeroConcentratedDP) -> Shares:
    return Shares(rho=charge.rho)


@shares.register
def _(charge: GaussianDP) -> Shares:
    return Shares(mu_squared=charge.mu_squared)


def _shares_of(charges: Sequence[Guarantee]) -> Shares:
    return sum((shares(charge) for charge in charges), Shares())


@singledispatch
def _total(like: Guarantee, charges: Sequence[Guarantee]) -> Guarantee:
    """The parts add: that is what a part is."""
    return type(like).from_parts(*_sum_of_parts(like, charges))


@_total.register
def _(like: ApproxDP, charges: Sequence[Guarantee]) -> ApproxDP:
    of = _shares_of(charges)
    left = like.delta - of.delta
    if not of.must_convert and (of.epsilon > 0 or left < SMALLEST):
        return ApproxDP(of.added, of.delta)
    if left < SMALLEST:
        left = min(like.delta, (1 - of.delta) / 2)
    together = of.rho + sum((one**2 / 2 for one in of.pure), Fraction(0))
    candidates = [
        (of.added + _converted(of.rho, of.mu_squared, left), of.delta + left)
        if of.must_convert
        else (of.added, like.delta),
        (of.epsilon + _converted(together, of.mu_squared, left), of.delta + left),
        (of.epsilon + _converted(together + of.mu_squared / 2, Fraction(0), left), of.delta + left),
    ]
    return ApproxDP(*min(candidates))


def _converted(rho: Fraction, mu_squared: Fraction, delta: Fraction) -> Fraction:
    """The epsilon of rho-zCDP beside mu-GDP at this delta, shared between them."""
    if rho == 0 or mu_squared == 0:
        return zero_concentrated_epsilon(rho, delta) if rho else gaussian_epsilon(mu_squared, delta)
    return min(
        zero_concentrated_epsilon(rho, share * delta) + gaussian_epsilon(mu_squared, (1 - share) * delta)
        for share in _SHARES
    )


@singledispatch
def _sum_of_parts(like: Guarantee, charges: Sequence[Guarantee]) -> tuple[Fraction, ...]:
    """What charges add to each part of a total of the kind of `like`, where every price is fixed."""
    columns = zip(*(_parts_like(charge, like) for charge in charges), strict=True)
    return tuple(sum(column, Fraction(0)) for column in columns)


@_sum_of_parts.register
def _(like: ApproxDP, charges: Sequence[Guarantee]) -> tuple[Fraction, ...]:
    for charge in charges:
        if shares(charge).must_convert:
            raise _no_fixed_price(
                charge,
                like,
                "What remains is a number only after PureDP and ApproxDP charges; ask instead whether a charge fits.",
            )
    of = _shares_of(charges)
    return (of.added, of.delta)


def _parts_like(charge: Guarantee, like: Guarantee) -> tuple[Fraction, ...]:
    """The parts of a charge, or of what it is by a conversion that needs no delta."""
    kind = type(like)
    if charge.kind == like.kind:
        return charge.parts
    if (charge.kind, like.kind) in CONVERSIONS and not kind.takes_delta:
        return charge.to(kind).parts
    known = [one.__name__ for one in KINDS.values() if one is kind or (one.kind, like.kind) in CONVERSIONS]
    advice = f"Release with {' or '.join(known)}, or open the ledger with an ApproxDP limit, which accepts every kind."
    raise _no_fixed_price(charge, like, advice)


def _no_fixed_price(charge: Guarantee, like: Guarantee, advice: str) -> Incomparable:
    return Incomparable(
        f"{charge!r} has no fixed price under a limit of {like!r}. {advice} Nothing was spent.",
        charge=charge,
        limit=like,
    )


def _fit_together(spent: Sequence[Guarantee], limit: Guarantee) -> bool:
    if _is_beyond(limit, spent):
        return False
    total = compose(spent, like=limit)
    return all(gone <= most for gone, most in zip(total.parts, limit.parts, strict=True))


@singledispatch
def _is_beyond(_limit: Guarantee, _spent: Sequence[Guarantee]) -> bool:
    """Whether charges pass a limit in a way that no total can say; totals of most kinds say everything."""
    return False


@_is_beyond.register
def _(limit: ApproxDP, spent: Sequence[Guarantee]) -> bool:
    """Deltas that add up to 1 or more have no ApproxDP total; they certainly do not fit."""
    return _shares_of(spent).delta > limit.delta


def _sweep(charges: Sequence[Charge]) -> Iterator[tuple[tuple[Fraction, Fraction], list[Guarantee]]]:
    """The stretches of [0, 1) between neighbouring ends of parts, in order, each with the charges that cover it."""
    zero, one = Fraction(0), Fraction(1)
    opening, closing = defaultdict(list), defaultdict(list)
    for index, charge in enumerate(charges):
        start, stop = charge.part or (zero, one)
        opening[start].append(index)
        closing[stop].append(index)
    active: dict[int, Guarantee] = {}
    for start, stop in pairwise(sorted({zero, one, *opening, *closing})):
        for index in closing[start]:
            del active[index]
        active.update({index: charges[index].guarantee for index in opening[start]})
        yield (start, stop), list(active.values())


def _exact_part(part: tuple[Fraction, Fraction]) -> tuple[Fraction, Fraction]:
    if isinstance(part, tuple | list) and len(part) == 2:
        start, stop = (fraction(edge, "part", minimum=0) for edge in part)
        if start < stop <= 1:
            return start, stop
    raise InvalidArgument(
        f"part = {part!r} cannot be used: expected (start, stop) with 0 <= start < stop <= 1. Nothing was spent.",
        argument="part",
    )
