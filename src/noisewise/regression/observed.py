"""From releases to holders: what was published about ([1,] x, y), as numbers in the units of each holder's rows.

Releases of different records are independent holders; those of the same records (`joining`) hold the same sums T,
noised twice, and are one holder. Two Gaussian noises on the same T_ab weigh by their precisions and stay Gaussian; two
Laplace noises have no such sum, and are refused. The count n is public under change-one; under add-remove the analyst
states it, and a noisy count that contradicts it is named or refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.joining import joined, listed_releases, refuse_left_out
from noisewise.laws import additive_law, normal_mixture
from noisewise.regression.configurations import Configurations, has_conditions
from noisewise.regression.problem import Eigenvalue, Floats, Holder
from noisewise.regression.units import Units, same_covariates
from noisewise.release import NoisyValue
from noisewise.schema import Schema
from noisewise.statistics import Moments, SmallestEigenvalue
from noisewise.statistics.feature import Feature
from noisewise.statistics.moment_rows import entry_box, standardised

if TYPE_CHECKING:
    from noisewise.regression.glm.histograms import CellCounts

Sum = tuple[float, float, float]  # a noisy sum: value, noise variance, Laplace scale (0 where Gaussian)


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """Holders in the order of their first release, the units of the first one's rows, and what is to be said."""

    holders: tuple[Holder, ...]
    units: Units
    centre: Floats  # (d + 1,): where entries are likely to lie, in working units, by public numbers alone
    spread: Floats  # (d + 1,): their likely standard deviation
    releases: tuple[NoisyValue, ...]
    warnings: tuple[str, ...]  # on a stated n that a noisy count makes improbable
    schemas: tuple[Schema, ...]
    holder_schemas: tuple[Schema, ...] = ()  # one for each holder
    features: tuple[Feature, ...] = ()
    datasets: tuple[str, ...] = ()  # whose records they are, one for each holder
    tables: tuple[CellCounts, ...] = ()  # released counts of cells, where the law of the features is learnt from them


def observe(
    releases: object, features: Sequence[Feature], response: Feature, *, intercept: bool, n: object
) -> Observed:
    """The holders behind releases of Moments (and of SmallestEigenvalue) of these features and this response."""
    given = regression_releases(releases)
    for release in given:
        _check_subject(release, features, response, intercept)
    together = joined(given, n)
    units: Units | None = None
    holders, of_holders, datasets = [], [], []
    for group in together.groups:
        same = together.members(group)
        holders.append(_holder(same, together.size(group), units))
        of_holders.append(_moments(same)[0][0].schema)
        datasets.append(same[0].dataset)
        units = Units.of(_moments(same)[0][1]) if units is None else units
    assert units is not None
    schemas = tuple(release.schema for release, _ in _moments(given))
    return Observed(
        tuple(holders),
        units,
        *_likely(given, units),
        given,
        together.warnings,
        schemas,
        tuple(of_holders),
        tuple(features),
        tuple(datasets),
    )


def regression_releases(releases: object) -> tuple[NoisyValue, ...]:
    """One release or several, each of Moments or of SmallestEigenvalue."""
    given = listed_releases(releases)
    refuse_left_out(given, "a regression")
    for release in given:
        if not isinstance(release.statistic, Moments | SmallestEigenvalue):
            raise Unsupported(
                f"A regression learns from releases of Moments; {release.statistic} is one of "
                f"{release.statistic.kind}. Plan Moments(features, response), or describe these records by a "
                "population."
            )
    if not any(isinstance(release.statistic, Moments) for release in given):
        raise Unsupported("A smallest eigenvalue alone tells nothing about coefficients; add a release of Moments.")
    return given


def _check_subject(release: NoisyValue, features: Sequence[Feature], response: Feature, intercept: bool) -> None:
    """Refuse a release about other columns, or one whose rows have or lack the intercept."""
    statistic = release.statistic
    assert isinstance(statistic, Moments | SmallestEigenvalue)
    wanted, found = [str(feature) for feature in features], [str(feature) for feature in statistic.features]
    if found != wanted:
        raise InvalidArgument(
            f"{statistic} has the features {', '.join(found)}; the model has {', '.join(wanted)}, in this order. "
            "Name the same features in both.",
            argument="features",
        )
    if isinstance(statistic, SmallestEigenvalue):
        return
    if str(statistic.response) != str(response):
        raise InvalidArgument(
            f"{statistic} has the response {statistic.response}; the model has {response}.", argument="response"
        )
    if statistic.intercept and not intercept:
        raise InvalidArgument(
            f"{statistic} holds the sums of an intercept, and the model has none. Give it intercept=True, "
            "or release Moments(..., intercept=False).",
            argument="intercept",
        )
    if intercept and not statistic.intercept:
        raise InvalidArgument(
            f"{statistic} holds no sums of x and y, without which an intercept is not identified. Give "
            "the model intercept=False: a line then passes through the release's public centre.",
            argument="intercept",
        )


def _moments(releases: Sequence[NoisyValue]) -> list[tuple[NoisyValue, Moments]]:
    return [(release, release.statistic) for release in releases if isinstance(release.statistic, Moments)]


def _holder(releases: Sequence[NoisyValue], n: int, units: Units | None) -> Holder:
    """The holder behind releases of the same records."""
    moments = _moments(releases)
    if not moments:
        raise Unsupported(
            "A smallest eigenvalue was released of records of which no Moments were; it must be of the same data set "
            "and part as a release of Moments."
        )
    first, statistic = moments[0]
    _check_same_rows(moments)
    sums: dict[tuple[int, ...], Sum] = {}
    for release, one in moments:
        for indices, noisy in _sums(release, one):
            sums[indices] = noisy if indices not in sums else _merged(sums[indices], noisy)
    if statistic.intercept:
        sums.pop((0, 0), None)  # the noisy count: given n it tells nothing else
    pairs = sorted(indices for indices in sums if len(indices) == 2)
    value, variance, laplace = (np.array([sums[pair][k] for pair in pairs]) for k in range(3))
    own = Units.of(statistic)
    low, high = clamp_bounds(statistic, first.schema)
    return Holder(
        n=n // statistic.block,
        pairs=np.array(pairs, np.int64),
        observed=value,
        variance=variance,
        laplace=laplace,
        map=np.eye(len(own.factor) + own.intercept) if units is None else units.row_map(own),
        low=low,
        high=high,
        clamps=first.schema.outside == "clamp",
        shrink=None if statistic.shrink is None else float(statistic.shrink),
        block=statistic.block,
        fourth={indices: noisy[:2] for indices, noisy in sums.items() if len(indices) == 4},
        eigenvalue=_eigenvalue(releases, statistic),
        implied={
            (a, b): (float(slope), float(constant))
            for (a, b), (slope, constant) in statistic.implied(first.schema).items()
            if (a, b) not in sums
        },
    )


def clamp_bounds(statistic: Moments, schema: Schema) -> tuple[Floats, Floats]:
    """Where the entries of a row (d + 1,) meet their bounds; a yes/no condition has none that a record could cross."""
    entries = (*statistic.features, statistic.response)
    box = entry_box(standardised(entries, statistic.centre, statistic.scale), schema)
    is_open = np.array([has_conditions(entry) for entry in entries])
    low, high = np.array([[float(end) for end in ends] for ends in box]).T
    return np.where(is_open, -np.inf, low), np.where(is_open, np.inf, high)


def _sums(release: NoisyValue, statistic: Moments) -> list[tuple[tuple[int, ...], Sum]]:
    """Every released sum by its indices into w."""
    law = additive_law(release.law)
    scales = normal_mixture(law).laplace_scale or (0.0,) * law.size
    noisy = zip(release.estimate.tolist(), (sd * sd for sd in law.sd), scales, strict=True)
    return list(zip(statistic.pairs(release.schema), noisy, strict=True))


def _check_same_rows(moments: Sequence[tuple[NoisyValue, Moments]]) -> None:
    """Releases of the same records join where they sum products of the same rows."""
    (first, one), *others = moments
    for release, other in others:
        same = all(getattr(one, name) == getattr(other, name) for name in ("centre", "scale", "shrink", "block"))
        bounds = [entry_box((*s.features, s.response), r.schema) for r, s in ((first, one), (release, other))]
        if not same or bounds[0] != bounds[1] or first.schema.outside != release.schema.outside:
            raise Unsupported(
                f"{one} and {other} are of the same records, but of rows that were bounded, centred, scaled, shortened "
                "or averaged differently, so their sums have no simple joint law. Use one of them, or release from "
                "disjoint parts."
            )


def _merged(one: Sum, other: Sum) -> Sum:
    """The same sum with two independent Gaussian noises: the mean weighted by precision."""
    if one[2] or other[2]:
        raise Unsupported(
            "Two releases of the same records hold the same sum with Laplace noise, and two Laplace noises do not make "
            "one. Use the release with less noise, or release from disjoint parts."
        )
    precision = 1 / one[1] + 1 / other[1]
    return (one[0] / one[1] + other[0] / other[1]) / precision, 1 / precision, 0.0


def _eigenvalue(releases: Sequence[NoisyValue], statistic: Moments) -> Eigenvalue | None:
    found = [release for release in releases if isinstance(release.statistic, SmallestEigenvalue)]
    if not found:
        return None
    if len(found) > 1:
        raise Unsupported("Two smallest eigenvalues of the same records were given; use one.")
    (release,) = found
    assert isinstance(release.statistic, SmallestEigenvalue)
    if not same_covariates(statistic, release.statistic):
        raise Unsupported(f"{release.statistic} and {statistic} centre or scale their features differently.")
    delta = getattr(release.guarantee, "delta", None)
    return Eigenvalue(
        value=float(release.estimate[0]),
        sd=additive_law(release.law).sd[0],
        is_laplace=normal_mixture(release.law).is_laplace,
        delta=None if delta is None else float(delta),
    )


def likely_numbers(made: Configurations, observed: Observed) -> tuple[Floats, Floats]:
    """Where the numbers within configurations are likely to lie, and their sd, in the units of the columns.

    As the feature that is such a number, or an affine function of it; else by the narrowest declared bounds.
    """
    units = observed.units
    centres = observed.centre[:-1] / units.factor[:-1] + units.centre[:-1]
    spreads = observed.spread[:-1] / units.factor[:-1]
    found = []
    for k, number in enumerate(made.numbers):
        boxes = [entry_box((number,), schema)[0] for schema in observed.schemas]
        low, high = min(boxes, key=lambda ends: ends[1] - ends[0])
        where, size = float(low + high) / 2, float(high - low) / 4
        for i in range(len(centres)):
            own, others = made.coefficient[:, i, k], np.delete(made.coefficient[:, i], k, axis=1)
            if own[0] != 0 and np.ptp(own) == 0 and np.ptp(made.constant[:, i]) == 0 and not others.any():
                where, size = (centres[i] - made.constant[0, i]) / own[0], spreads[i] / abs(own[0])
                break
        found.append((where, size))
    centre, spread = np.array(found, float).reshape(-1, 2).T
    return centre, spread


def _likely(releases: Sequence[NoisyValue], units: Units) -> tuple[Floats, Floats]:
    """Where entries lie and how far they spread, in working units, from public numbers of all releases in any order.

    An entry spreads as far as the smallest scale that is stated for it, or a quarter of the narrowest bounds; it lies
    about the centre that is stated beside the smallest spread, or the middle of the narrowest bounds.
    """
    guesses = [_guess(release, statistic) for release, statistic in _moments(releases)]
    by_entry = list(zip(*guesses, strict=True))
    spread = np.array([min((not g.is_scaled, g.spread) for g in entry)[1] for entry in by_entry])
    centre = np.array([min((not g.is_centred, g.spread, g.centre) for g in entry)[2] for entry in by_entry])
    return (centre - units.centre) * units.factor, spread * units.factor


class _Guess(NamedTuple):
    """Where an entry lies by one release, in the units of its column, and whether that was stated."""

    is_centred: bool
    centre: float
    is_scaled: bool
    spread: float


def _guess(release: NoisyValue, statistic: Moments) -> list[_Guess]:
    """One for each feature, and one for the response."""
    entries = (*statistic.features, statistic.response)
    own, centred, scaled = Units.of(statistic), dict(statistic.centre), dict(statistic.scale)
    found = []
    for k, (entry, ends) in enumerate(zip(map(str, entries), entry_box(entries, release.schema), strict=True)):
        low, high = map(float, ends)
        centre = float(own.centre[k]) if entry in centred else (low + high) / 2
        spread = float(1 / own.factor[k]) if entry in scaled else (high - low) / 4
        found.append(_Guess(entry in centred, centre, entry in scaled, spread))
    return found
