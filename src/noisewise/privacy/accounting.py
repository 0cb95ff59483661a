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

Conversions, at a given delta, rounded up in the 12th digit:
    rho-zCDP  epsilon = min over t > 0 of rho (1+t) + (log(1/delta) - log(1+t))/t - log(1+1/t)
              (order 1+t; Canonne, Kamath & Steinke 2020; every t is valid, so the search need not be exact)
    mu-GDP    the root of delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)   (Dong, Roth & Su 2022)

Mechanisms may always be chosen after seeing earlier releases. If all charges are of one kind, or PureDP with ApproxDP,
or PureDP with ZeroConcentratedDP under a limit of the latter, so may the *sizes* of later charges: these totals are
privacy filters (Rogers et al. 2016; Feldman & Zrnic 2021; Smith & Thakurta 2022; for PureDP under ApproxDP, a path
within the plain sum loses at most epsilon whatever happens, and the other paths are those of one filter). For other
mixtures under an ApproxDP limit the proof is for sizes that do not depend on earlier releases.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache, singledispatch
from itertools import pairwise

from noisewise.errors import Incomparable, InvalidArgument
from noisewise.exact import SMALLEST, fraction
from noisewise.privacy.calibration import decimal_context, decimal_of, gaussian_curve
from noisewise.privacy.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP

# The smallest epsilon reported where a conversion would allow none at all: an ApproxDP has epsilon > 0.
LEAST_EPSILON = Fraction(1, 2**64)
_SHARES = tuple(Fraction(k, 32) for k in (1, 4, 8, 12, 16, 20, 24, 28, 31))
_BISECTION = Fraction(1, 2**45)


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
    if isinstance(like, ApproxDP):
        return _compose_approximately(charges, like)
    return type(like).from_parts(*_sum_of_parts(charges, like))


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
            here = (most - gone for most, gone in zip(limit.parts, _sum_of_parts(spent, limit), strict=True))
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
        f"{guarantee!r} has no known price for two records together. Nothing was spent.", guarantee=guarantee
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
        growth = _round_up(1 + decimal_of(min(guarantee.epsilon, Fraction(300))).exp())
    if growth * guarantee.delta >= 1:
        raise Incomparable(
            f"{guarantee!r} promises nothing about two records together: its delta would be 1. Nothing was spent.",
            guarantee=guarantee,
        )
    return ApproxDP(2 * guarantee.epsilon, growth * guarantee.delta)


@lru_cache(maxsize=1024)
def zero_concentrated_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """The epsilon that rho-zCDP promises at this delta, rounded up."""
    log_inverse_delta = math.log(delta.denominator) - math.log(delta.numerator)
    rate = float(rho)

    def bound(log_t: float) -> float:
        t = math.exp(log_t)
        return rate * (1 + t) + (log_inverse_delta - math.log1p(t)) / t - math.log1p(1 / t)

    t = Decimal(math.exp(_argmin(bound, -300.0, 300.0)))
    with localcontext(decimal_context(60 + max(0, t.adjusted()))):
        log_delta = decimal_of(delta).ln()
        return _round_up(decimal_of(rho) * (1 + t) - (log_delta + (1 + t).ln()) / t - (1 + 1 / t).ln())


@lru_cache(maxsize=1024)
def gaussian_epsilon(mu_squared: Fraction, delta: Fraction) -> Fraction:
    """The epsilon that mu-GDP promises at this delta, rounded up."""
    with localcontext(decimal_context(60)):
        target = decimal_of(delta)
    if gaussian_curve(LEAST_EPSILON, mu_squared) <= target:
        return LEAST_EPSILON
    low, high = LEAST_EPSILON, zero_concentrated_epsilon(mu_squared / 2, delta)
    while high - low > _BISECTION * high:
        middle = (low + high) / 2
        if gaussian_curve(middle, mu_squared) <= target:
            high = middle
        else:
            low = middle
    with localcontext(decimal_context(60)):
        return _round_up(decimal_of(high))


def _compose_approximately(charges: Sequence[Guarantee], like: ApproxDP) -> ApproxDP:
    approx = [charge for charge in charges if isinstance(charge, ApproxDP)]
    epsilon = sum((charge.epsilon for charge in approx), Fraction(0))
    delta = sum((charge.delta for charge in approx), Fraction(0))
    pure = [charge.epsilon for charge in charges if isinstance(charge, PureDP)]
    rho = sum((charge.rho for charge in charges if isinstance(charge, ZeroConcentratedDP)), Fraction(0))
    mu_squared = sum((charge.mu_squared for charge in charges if isinstance(charge, GaussianDP)), Fraction(0))
    added = epsilon + sum(pure)
    left = like.delta - delta
    must_convert = rho > 0 or mu_squared > 0
    if not must_convert and (approx or left < SMALLEST):
        return ApproxDP(added, delta)
    if left < SMALLEST:
        left = min(like.delta, (1 - delta) / 2)
    together = rho + sum((one**2 / 2 for one in pure), Fraction(0))
    candidates = [
        (added + _converted(rho, mu_squared, left), delta + left) if must_convert else (added, like.delta),
        (epsilon + _converted(together, mu_squared, left), delta + left),
        (epsilon + _converted(together + mu_squared / 2, Fraction(0), left), delta + left),
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


def _sum_of_parts(charges: Sequence[Guarantee], like: Guarantee) -> tuple[Fraction, ...]:
    columns = zip(*(_parts_like(charge, like) for charge in charges), strict=True)
    return tuple(sum(column, Fraction(0)) for column in columns)


def _parts_like(charge: Guarantee, like: Guarantee) -> tuple[Fraction, ...]:
    """What a charge adds to each part of a total of the kind of `like`."""
    if type(charge) is type(like):
        return charge.parts
    if isinstance(charge, PureDP) and isinstance(like, ZeroConcentratedDP):
        return charge.to(ZeroConcentratedDP).parts
    if isinstance(charge, PureDP) and isinstance(like, ApproxDP):
        return (charge.epsilon, Fraction(0))
    raise Incomparable(
        f"{charge!r} has no fixed price under a limit of {like!r}. {_FIXES[type(like)]} Nothing was spent.",
        charge=charge,
        limit=like,
    )


_FIXES: dict[type, str] = {
    PureDP: "Release with PureDP, or open the ledger with an ApproxDP limit, which accepts every kind.",
    ZeroConcentratedDP: "Release with PureDP or ZeroConcentratedDP, or open the ledger with an ApproxDP limit.",
    GaussianDP: "Release with GaussianDP, or open the ledger with an ApproxDP limit, which accepts every kind.",
    ApproxDP: "What remains is a number only after PureDP and ApproxDP charges; ask instead whether a charge fits.",
}


def _fit_together(spent: Sequence[Guarantee], limit: Guarantee) -> bool:
    # Deltas that add up to 1 or more have no ApproxDP total; they certainly do not fit.
    if isinstance(limit, ApproxDP) and sum(one.delta for one in spent if isinstance(one, ApproxDP)) > limit.delta:
        return False
    total = compose(spent, like=limit)
    return all(gone <= most for gone, most in zip(total.parts, limit.parts, strict=True))


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


def _argmin(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one valley is lowest, by golden section."""
    golden = (math.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > 1e-9:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = function(right)
    return (low + high) / 2


def _round_up(value: Decimal) -> Fraction:
    """`value`, computed to sixty digits, in twelve digits that are not below it; at least LEAST_EPSILON."""
    surely_above = value + abs(value).scaleb(-40)
    return max(Fraction(Context(prec=12, rounding=ROUND_CEILING).plus(surely_above)), LEAST_EPSILON)
