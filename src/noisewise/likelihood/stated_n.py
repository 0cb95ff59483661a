"""A stated n against the noisy totals of the same records.

Under add-remove the number of records is private and the analyst states it. Some releases count everybody all the same:
a count whose condition every record meets, a histogram, each clique of a table, the entry 1 * 1 of Moments. Of these
    total = n + noise,
with noise of a published law, so that a wrong n shows. The two-sided tail probability
    p = 2 P(noise >= |total - n|),   times the number of totals compared (Bonferroni),
is exact for one component; for a sum of cells the noises are convolved by the fast Fourier transform (on a lattice
coarsened to 1/400 of their sd where that is wide). Below .01 the verdict opens with it; below 1e-6 n is refused.

Every other sum speaks on one side: a feature between low and high has n low <= sum <= n high, so that a count or a cell
is at most n, and a noisy one beyond it,
    p = P(noise >= y - n high)   or   P(noise >= n low - y),
speaks against n just so. These are a family of their own (p times their number): they alarm falsely only where every
record is at its bound. Read the other way, they say which n a release allows at all. Where missing values are left out
(`statistics.presence`) a count of those present is no total but such a sum: a record may add nothing to it.

Parts by key hash hold a record with probability equal to their width, so that of two disjoint parts of one data set
    n_1 | n_1 + n_2  ~  Binomial(n_1 + n_2, w_1/(w_1 + w_2)),
by which numbers stated for parts are compared with each other.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from typing import Any

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.laws import AdditiveLaw, Form, additive_law
from noisewise.release import NoisyValue
from noisewise.schema import Schema
from noisewise.statistics import (
    Count,
    Histogram,
    Marginals,
    Mean,
    Moments,
    Records,
    SmallestEigenvalue,
    Sum,
    TruncatedSum,
)
from noisewise.statistics.enclosure import feature_range
from noisewise.statistics.grouped import GroupedSums
from noisewise.statistics.order import OrderStatistic
from noisewise.statistics.presence import left_out_of

__all__ = [
    "Partial",
    "Total",
    "all_are_counted",
    "bounded_sums",
    "contradictions",
    "counted_totals",
    "noise_on_sums",
    "noisy_totals",
    "partial_counts",
    "refuse_contradicted",
    "tail_words",
]

NAMED, REFUSED = 0.01, 1e-6
STEPS_PER_SD = 400.0
REACH, SINGLE_REACH = 12.0, 30.0  # of the window, in sds of the sum and of one component
CONSTANT = 1e-9
TAIL = "{tail}"  # where the tail probability goes; labels may hold braces of their own
Components = tuple[tuple[tuple[int, ...], float, str], ...]  # which components, what one record adds, and its name
Ranges = tuple[tuple[int, float, float], ...]  # which component, and what one record adds at least and at most


@dataclass(frozen=True, slots=True)
class Total:
    """One noisy number of everybody: n plus noise of a known law."""

    label: str
    value: float
    sd: float
    release: NoisyValue
    components: tuple[int, ...]
    unit: float  # what one record adds, in lattice steps

    def tail(self, n: int) -> float:
        """The two-sided tail probability of noise this large, if there are n records."""
        law = additive_law(self.release.law)
        excess = math.floor(abs(sum(self.release.value[j] for j in self.components) - n * self.unit) + CONSTANT)
        if excess == 0:
            return 1.0
        if len(self.components) == 1:
            return min(1.0, 2 * float(law.cdf(-excess, self.components[0])))
        return min(1.0, 2 * _tail_of_sum(law, self.components, excess))


@dataclass(frozen=True, slots=True)
class Partial:
    """One noisy sum to which a record adds something between two bounds, in lattice steps."""

    release: NoisyValue
    law: AdditiveLaw
    component: int
    low: int
    high: int

    @property
    def label(self) -> str:
        return self.release.labels[self.component]

    def value(self, steps: int) -> float:
        """A number of steps in units of the sum."""
        return steps * self.law.step[self.component]

    @property
    def released(self) -> float:
        return self.value(self.release.value[self.component])

    @property
    def sd(self) -> float:
        return self.law.sd[self.component]

    def tail(self, n: int) -> float:
        """The tail probability of noise that lifts the sum of n records this far beyond what they can add up to."""
        released = self.release.value[self.component]
        excess = max(released - n * self.high, n * self.low - released)
        if excess <= 0:
            return 1.0
        sides = 1 if self.low == 0 else 2
        return min(1.0, sides * float(self.law.cdf(-excess, self.component)))

    def allowed(self, n: int) -> tuple[int, int | None]:
        """The least and the most records (None: any number) that it allows (tail probability .01), n among them."""
        limit = self.release.schema.largest_n
        least = self._edge(-1, n)
        most = None if self.tail(limit) >= NAMED else self._edge(n, limit)
        return least, most

    def bound(self, n: int, divisor: int = 1) -> str:
        """What n records add up to at most or at least, whichever the sum is beyond; divided as people read it."""
        is_above = self.release.value[self.component] > n * self.high
        end = self.value(n * (self.high if is_above else self.low)) / divisor
        return f"{'most' if is_above else 'least'} {end:.6g}"

    def _edge(self, below: int, above: int) -> int:
        """Between an allowed number and one that is not, the allowed number beside the change; -1 is not allowed."""
        is_rising = below < 0 or self.tail(below) < NAMED
        while above - below > 1:
            middle = (below + above) // 2
            if (self.tail(middle) >= NAMED) == is_rising:
                above = middle
            else:
                below = middle
        return above if is_rising else below


def partial_counts(release: NoisyValue) -> tuple[Partial, ...]:
    """Every noisy sum that is no total but bounds n on one side or both; none under change-one, where n is public."""
    return () if release.schema.is_change_one else bounded_sums(release)


def bounded_sums(release: NoisyValue) -> tuple[Partial, ...]:
    """Every noisy sum that is no total, with what one record adds to it at least and at most."""
    if (law := noise_on_sums(release)) is None:
        return ()
    totals = {components for components, _, _ in total_components(release.statistic, release.schema)}
    found = []
    for j, low, high in component_ranges(release.statistic, release.schema):
        if (j,) not in totals:  # features are rounded to whole steps, by half a step at most
            ends = math.ceil(low / law.step[j] - 0.5 - CONSTANT), math.floor(high / law.step[j] + 0.5 + CONSTANT)
            found.append(Partial(release, law, j, *ends))
    return tuple(found)


def noise_on_sums(release: NoisyValue) -> AdditiveLaw | None:
    """The noise on sums over records, if that is what is published."""
    return additive_law(release.law) if release.law.form is Form.NUMBER else None


def noisy_totals(release: NoisyValue) -> tuple[Total, ...]:
    """Every noisy total of the records that a release holds; none under change-one, where n is public."""
    return () if release.schema.is_change_one else counted_totals(release)


def counted_totals(release: NoisyValue) -> tuple[Total, ...]:
    """Every noisy total of the records that a release holds, whether n is public or not."""
    if (law := noise_on_sums(release)) is None:
        return ()
    found, sds = [], law.sd
    for components, each, label in total_components(release.statistic, release.schema):
        sd = math.sqrt(sum(sds[j] ** 2 for j in components)) / each
        units = {each / law.step[j] for j in components}
        if len(units) == 1:  # on one lattice, as tables are
            value = sum(release.value[j] * law.step[j] for j in components) / each
            found.append(Total(label, value, sd, release, components, units.pop()))
    return tuple(found)


def all_are_counted(releases: tuple[NoisyValue, ...]) -> bool:
    """Whether every n that is private has a noisy total of the same records."""
    private = {(release.dataset, release.part) for release in releases if not release.schema.is_change_one}
    return private <= {(release.dataset, release.part) for release in releases if noisy_totals(release)}


def contradictions(releases: tuple[NoisyValue, ...], sizes: list[int]) -> tuple[str, ...]:
    """Sentences on every stated n that a noisy total, or another part's n, makes improbable (below .01)."""
    return tuple(sentence for probability, sentence in _compared(releases, sizes) if probability < NAMED)


def refuse_contradicted(releases: tuple[NoisyValue, ...], sizes: list[int]) -> None:
    """Refuse a stated n that is all but impossible (below 1e-6)."""
    for probability, sentence in _compared(releases, sizes):
        if probability < REFUSED:
            raise InvalidArgument(f"{sentence} State a number that agrees. Nothing was spent.", argument="n")


def _compared(releases: tuple[NoisyValue, ...], sizes: list[int]) -> list[tuple[float, str]]:
    """(tail probability, sentence) of every comparison, the tail times the number of comparisons."""
    found: list[tuple[float, str]] = []
    bounded: list[tuple[float, str]] = []
    own: dict[Any, int] = {}
    for release, n in zip(releases, sizes, strict=True):
        if release.schema.is_change_one:
            continue
        own.setdefault((release.dataset, release.part), n)
        for total in noisy_totals(release):
            sentence = (
                f"n = {n} was stated, but {total.label} of the same records is {total.value:.6g}, with a noise sd of "
                f"{total.sd:.2g} (tail probability {TAIL})."
            )
            found.append((total.tail(n), sentence))
        bounded += _bounded(release, n)
    for ((dataset, part), n), ((other_dataset, other_part), other_n) in itertools.combinations(own.items(), 2):
        if dataset == other_dataset and part is not None and other_part is not None:
            found.append(_parts(part, n, other_part, other_n))
    corrected = [
        (min(1.0, len(family) * probability), sentence)
        for family in (found, bounded)
        for probability, sentence in family
    ]
    return [(probability, sentence.replace(TAIL, tail_words(probability))) for probability, sentence in corrected]


def tail_words(probability: float) -> str:
    """A tail probability, never as 0."""
    return f"{probability:.1g}" if probability >= REFUSED else f"below {REFUSED:g}"


def _bounded(release: NoisyValue, n: int) -> list[tuple[float, str]]:
    """(tail probability, sentence) of the sum farthest beyond what n records add up to, times the number of sums."""
    partials = partial_counts(release)
    if not partials:
        return []
    tail, index = min((partial.tail(n), k) for k, partial in enumerate(partials))
    worst = partials[index]
    sentence = (
        f"n = {n} was stated, but {worst.label} of that many records is at {worst.bound(n)}, and of the same records "
        f"it is {worst.released:.6g}, with a noise sd of {worst.sd:.2g} (tail probability {TAIL})."
    )
    return [(min(1.0, len(partials) * tail), sentence)]


def _parts(part: tuple[Fraction, Fraction], n: int, other: tuple[Fraction, Fraction], m: int) -> tuple[float, str]:
    """The numbers stated for two parts of one data set, against the binomial law of their split."""
    from scipy.special import bdtr, bdtrc

    width, other_width = float(part[1] - part[0]), float(other[1] - other[0])
    share = width / (width + other_width)
    below, above = float(bdtr(n, n + m, share)), float(bdtrc(n - 1, n + m, share)) if n else 1.0
    return min(1.0, 2 * min(below, above)), (
        f"n = {n} and {m} were stated for the parts {part[0]} to {part[1]} and {other[0]} to {other[1]} of one data "
        f"set, but of {n + m} records a part of that width holds about {(n + m) * share:.0f} (sd "
        f"{math.sqrt((n + m) * share * (1 - share)):.2g}; tail probability {TAIL}): n= is the number of records of "
        "each part, one for each release."
    )


@singledispatch
def total_components(statistic: object, schema: Schema) -> Components:
    """The components that add up to everybody, what one record adds to them, and how people call that number."""
    columns = ", ".join(schema.columns)
    raise Unsupported(f"Whether {type(statistic).__name__} of {columns} counts everybody is not known.")


@total_components.register
def _(statistic: Mean | Sum | Count | TruncatedSum, schema: Schema) -> Components:
    found = []
    complete = schema.completed()
    for j, (feature, label) in enumerate(zip(statistic.row(schema), statistic.labels(schema), strict=True)):
        low, high, error = feature_range(feature, complete)
        if low > 0 and high - low + error <= CONSTANT * low:
            found.append(((j,), low, label))
    return tuple(found)


@total_components.register
def _(statistic: Moments, schema: Schema) -> Components:
    pairs = statistic.pairs(schema)
    if not statistic.intercept or (0, 0) not in pairs or left_out_of(statistic.columns(), schema):
        return ()
    return (((pairs.index((0, 0)),), 1.0, "the noisy count"),)


@total_components.register
def _(statistic: Histogram, schema: Schema) -> Components:
    (size,) = statistic.tables(schema)
    return () if left_out_of(statistic.columns(), schema) else ((tuple(range(size)), 1.0, f"the sum of {statistic}"),)


@total_components.register
def _(statistic: Marginals, schema: Schema) -> Components:
    if statistic.tied:
        left_out = statistic.null_cell(schema)  # some records are in no cell
        size = sum(statistic.tables(schema))
        return (
            () if left_out is not None else ((tuple(range(size)), float(statistic.unit()), f"the sum of {statistic}"),)
        )
    found, start = [], 0
    for clique, size in zip(statistic.cliques, statistic.tables(schema), strict=True):
        if not left_out_of(clique, schema):
            found.append((tuple(range(start, start + size)), 1.0, f"the sum of the table of {', '.join(clique)}"))
        start += size
    return tuple(found)


@total_components.register
def _(statistic: GroupedSums, schema: Schema) -> Components:
    by, own = statistic.by_group()
    if left_out_of(statistic.columns(), schema):  # a record may be in no group, or in one without its value
        return ()
    count = len(statistic.groups(schema)) * len(own)
    label = f"the sum of the counts by {' and '.join(by)}"
    return tuple(
        (tuple(range(j, count, len(own))), 1.0, label) for j, feature in enumerate(own) if not feature.columns()
    )


@singledispatch
def component_ranges(statistic: object, schema: Schema) -> Ranges:
    """The components that are sums over records, with what one record adds at least and at most."""
    columns = ", ".join(schema.columns)
    raise Unsupported(f"What a record adds to {type(statistic).__name__} of {columns} is not known.")


@component_ranges.register
def _(statistic: Mean | Sum | Count | TruncatedSum | GroupedSums, schema: Schema) -> Ranges:
    complete = schema.completed()
    ranges = enumerate(feature_range(feature, complete) for feature in statistic.row(schema))
    return tuple((j, low - error, high + error) for j, (low, high, error) in ranges)


@component_ranges.register
def _(statistic: Histogram, schema: Schema) -> Ranges:
    return tuple((j, 0.0, 1.0) for j in range(sum(statistic.tables(schema))))


@component_ranges.register
def _(statistic: Marginals, schema: Schema) -> Ranges:
    return tuple((j, 0.0, float(statistic.unit())) for j in range(sum(statistic.tables(schema))))


@component_ranges.register
def _(statistic: Moments, schema: Schema) -> Ranges:
    """The count of those present alone: it says more than the sums beside it."""
    pairs = statistic.pairs(schema)
    return ((pairs.index((0, 0)), 0.0, 1.0),) if statistic.intercept and (0, 0) in pairs else ()


def _nobody(*_: object) -> Components:
    """Answers and order statistics count nobody."""
    return ()


def _no_sums(*_: object) -> Ranges:
    return ()


for _kind in (OrderStatistic, Records, SmallestEigenvalue):
    total_components.register(_kind, _nobody)
    component_ranges.register(_kind, _no_sums)


def _tail_of_sum(law: AdditiveLaw, components: tuple[int, ...], excess: int) -> float:
    """P(sum of the components' noises >= excess), in steps."""
    every = law.sd  # asked for once: made for each component anew, the cost would be the square of their number
    sds = [every[j] / law.step[j] for j in components]
    sd = math.sqrt(sum(one * one for one in sds))
    width = max(1, math.floor(sd / STEPS_PER_SD))  # an odd number of steps, centred on 0
    width += 1 - width % 2
    reach = math.ceil((REACH * sd + SINGLE_REACH * max(sds)) / width)
    if excess > reach * width:
        return 0.0
    size = 1 << (2 * reach + 1).bit_length()
    ratios: dict[float, list[int]] = {}
    for j in components:
        ratios.setdefault(law.ratio_of(j), []).append(j)
    edges = (np.arange(-reach, reach + 2) * width) - (width + 1) // 2
    spectrum = np.ones(size // 2 + 1, complex)
    for members in ratios.values():
        pmf = np.zeros(size)
        cells = np.diff(law.cdf(edges.astype(float), members[0]))
        pmf[: reach + 1], pmf[size - reach :] = cells[reach:], cells[:reach]
        spectrum = spectrum * np.fft.rfft(pmf) ** len(members)
    total = np.fft.irfft(spectrum, n=size)
    first = round(excess / width)
    return float(max(np.sum(total[first : size // 2]), 0.0))
