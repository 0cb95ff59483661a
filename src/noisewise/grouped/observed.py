"""What releases say about groups: which groups there are, and for each a term of every set of records.

Releases by group (`Mean(f, by="region")`, `Sum(..., by=)`, `Count(..., by=)`) publish, for every declared level, sums
of features over its records, and the number of these where the feature is 1. Releases of the same records are stacked:
their components are all about the same sizes and sums. With holders=True every data set is a group by itself, its
releases are ungrouped, and its number of records is known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.grouped.few_normals import may_be_skewed
from noisewise.grouped.group_sizes import FAR, CountSeen, Rest, SizeWindow, Totals
from noisewise.grouped.lines import Line
from noisewise.grouped.present import NumberPresent
from noisewise.grouped.record_moments import RecordMoments
from noisewise.grouped.sum_law import Seen, SumLaw
from noisewise.grouped.terms import AnyTerm, HolderTerm, SumsTerm
from noisewise.joining import Joined, one_schema
from noisewise.laws import additive_law, normal_mixture
from noisewise.likelihood.joint import joint_likelihood
from noisewise.likelihood.size_prior import SizePrior
from noisewise.likelihood.unknown_size import possible_sizes
from noisewise.populations.cleaned import attach
from noisewise.populations.population import AnyPopulation
from noisewise.release import NoisyValue
from noisewise.statistics.feature import Feature
from noisewise.statistics.groups import ONE, short_group_names
from noisewise.types import Floats

__all__ = ["Holders", "RecordSet", "group_names", "holder_terms", "record_set"]


@dataclass(frozen=True, slots=True, eq=False)
class RecordSet:
    """One set of records seen by group: its number of records, its features, and a term for each group."""

    releases: tuple[NoisyValue, ...]
    totals: Totals
    moments: RecordMoments
    terms: tuple[SumsTerm, ...]
    is_public: bool  # whether the number of records is
    present: NumberPresent | None = None  # the law of how many are, where missing values were left out


@dataclass(frozen=True, slots=True, eq=False)
class Holders:
    """Data sets that are groups each."""

    releases: tuple[tuple[NoisyValue, ...], ...]
    terms: tuple[HolderTerm, ...]
    words: str
    cautions: tuple[str, ...]


def group_names(release: NoisyValue, by: tuple[str, ...]) -> tuple[str, ...]:
    """The groups of a release by these columns, as its parameters are called: 'north', or 'north, f'."""
    own, _ = release.statistic.by_group()
    if not own:
        raise Unsupported(
            f"{release.statistic} says nothing by group; Grouped({_quoted(by)}, ...) learns from statistics with "
            f"by={_quoted(by)}, such as mean(x, by={', '.join(by)}). For whole data sets as groups use "
            "Grouped(holders=True, ...)."
        )
    if own != by:
        raise Unsupported(
            f"{release.statistic} is by {' and '.join(own)}, but the population is grouped by {' and '.join(by)}."
        )
    return short_group_names(by, release.schema)


def record_set(
    releases: tuple[NoisyValue, ...],
    size: int,
    prior: SizePrior | None,
    population: AnyPopulation,
    column: str,
    lines: Sequence[Line],
    alpha: Floats,
    present: NumberPresent | None = None,
) -> RecordSet:
    """The terms of every group from releases of the same records, of which some may not be present."""
    stacked = one_schema(releases)
    schema = stacked[0].schema
    features = _features(stacked, column)
    if features:
        attach(population, schema, [column])
    moments = RecordMoments(population, schema, column, features, lines)
    two_values, squared, widest = moments.two_values(), _squared(features), 0.0
    if squared is not None:
        widest = float(np.nanmax(moments.spread()[:, squared[0]]))
    has_tails = any(normal_mixture(additive_law(release.law)).is_laplace for release in stacked)
    parts = _components(stacked, features, len(alpha))
    rests = Rest.of_each([counts for counts, _ in parts], has_tails=has_tails)
    totals = Totals.known(size)
    if present is not None:
        totals = Totals(*_sizes_present([counts for counts, _ in parts], size), present, float(alpha.sum()))
    elif prior is not None:
        totals = Totals(*possible_sizes(stacked, prior), prior, float(alpha.sum()))
    terms = []
    for g, ((counts, seen), rest) in enumerate(zip(parts, rests, strict=True)):
        window = SizeWindow.of(counts, totals, float(alpha[g]), float(alpha.sum() - alpha[g]), rest)
        law = SumLaw(seen, len(features))
        is_pair = squared is not None and sorted(one.feature for one in seen) == [0, 1]
        is_few = is_pair and may_be_skewed(widest, float(law.noise_variance[squared[1]] if squared else np.inf))
        terms.append(SumsTerm(window, law, moments, two_values, squared if is_few else None))
    return RecordSet(releases, totals, moments, tuple(terms), schema.is_change_one, present)


def _sizes_present(counts: Sequence[tuple[CountSeen, ...]], size: int) -> tuple[int, int]:
    """How many records may be present at least and at most, by the noisy counts of all groups; of `size` in all."""
    if not all(counts):
        return 0, size
    closest = [min(own, key=lambda one: one.sd) for own in counts]
    total, far = sum(one.number for one in closest), FAR * float(np.hypot.reduce([one.sd for one in closest]))
    low, high = max(0, math.floor(total - far)), min(size, math.ceil(total + far))
    return (low, high) if low <= high else (0, size)  # counts beyond all bounds: whatever is possible is looked at


def _features(releases: tuple[NoisyValue, ...], column: str) -> tuple[Feature, ...]:
    """The distinct features that are summed in each group; what reads other columns is refused."""
    found: dict[Feature, None] = {}
    for release in releases:
        by, own = release.statistic.by_group()
        for feature in own:
            if feature == ONE:
                continue
            others = sorted(feature.columns() - {column})
            if others:
                grouping = " the column that makes the groups" if others[0] in by else f" column {others[0]!r}"
                raise Unsupported(
                    f"{release.statistic} sums {feature}, which reads{grouping}; this population describes "
                    f"{column!r} alone. Release features of {column!r}, or describe the other column by a Grouped of "
                    "its own."
                )
            found[feature] = None
    return tuple(found)


def _squared(features: tuple[Feature, ...]) -> tuple[int, int] | None:
    """The places of a feature and its square, where these are all there is."""
    if len(features) != 2:
        return None
    for one, two in ((0, 1), (1, 0)):
        if features[two] in (features[one] ** 2, features[one] * features[one]):
            return one, two
    return None


def _components(
    releases: tuple[NoisyValue, ...], features: tuple[Feature, ...], groups: int
) -> list[tuple[tuple[CountSeen, ...], tuple[Seen, ...]]]:
    """The noisy counts and sums of each group, over releases of the same records."""
    counts: list[list[CountSeen]] = [[] for _ in range(groups)]
    seen: list[list[Seen]] = [[] for _ in range(groups)]
    for release in releases:
        _, own = release.statistic.by_group()
        law = additive_law(release.law)
        mixture, step, sd, value = normal_mixture(law), law.step, law.sd, release.value
        for k, (group, feature) in enumerate(itertools.product(range(groups), own)):
            if feature == ONE:
                counts[group].append(CountSeen(law, k, value[k], step[k], sd[k]))
            else:
                number, scale = value[k] * step[k], mixture.scale[k]
                seen[group].append(Seen(features.index(feature), number, scale, step[k], mixture.is_laplace))
    return [(tuple(a), tuple(b)) for a, b in zip(counts, seen, strict=True)]


def holder_terms(
    joined: Joined, population: AnyPopulation, column: str, lines: Sequence[Line], likelihood: str
) -> Holders:
    """A term for each data set, by every law that `likelihood` has."""
    by_holder: dict[str, list[int]] = {}
    for index, release in enumerate(joined.releases):
        if release.statistic.groups(release.schema):
            raise Unsupported(
                f"{release.statistic} is by group, but with holders=True each data set is one group. Describe it by "
                "Grouped('the column', ...), or use releases without by=."
            )
        others = sorted(set(release.statistic.columns()) - {column})
        if others:
            raise Unsupported(f"{release.statistic} reads column {others[0]!r}; this population describes {column!r}.")
        by_holder.setdefault(release.dataset, []).append(index)
    terms: list[HolderTerm] = []
    words: dict[str, None] = {}
    cautions: list[str] = []
    releases: list[tuple[NoisyValue, ...]] = []
    for indices in by_holder.values():
        own = tuple(joined.releases[k] for k in indices)
        private = any(not release.schema.is_change_one for release in own)
        law = joint_likelihood(
            own, population, likelihood=likelihood, n=[joined.sizes[k] for k in indices] if private else None
        )
        whole = law.integrated() if law.mixing else law
        if whole is None:
            raise Unsupported(
                "Laplace noise on three or more sums of one holder has no law that is computed for Grouped; release "
                "at most two features, or use Gaussian noise."
            )
        size = sum({(r.dataset, r.part): joined.sizes[k] for r, k in zip(own, indices, strict=True)}.values())
        terms.append(HolderTerm(whole, tuple(lines), size))
        words[whole.because] = None
        cautions += list(whole.cautions)
        releases.append(own)
    if len(terms) < 2:
        raise InvalidArgument(
            "Grouped(holders=True, ...) needs releases of at least two data sets, and these are of one. Use the "
            "population itself, or Grouped('the column', ...) for releases by group.",
            argument="releases",
        )
    return Holders(tuple(releases), tuple(terms), "; ".join(words), tuple(dict.fromkeys(cautions)))


def terms_by_group(sets: Sequence[RecordSet], moments: Sequence[Sequence[RecordMoments]]) -> list[list[AnyTerm]]:
    """For each group its terms, one of each set of records, with moments of each group (or one for all)."""
    return [
        [replace(one.terms[g], moments=own[g % len(own)]) for one, own in zip(sets, moments, strict=True)]
        for g in range(len(sets[0].terms))
    ]


def _quoted(by: tuple[str, ...]) -> str:
    return repr(by[0]) if len(by) == 1 else repr(list(by))
