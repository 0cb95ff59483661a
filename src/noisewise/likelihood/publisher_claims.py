"""What is said of a measurement, against the measurement itself.

Of a release the statistic, its bounds, its noise and a public n are what was paid for. Of a number that was published
elsewhere they are somebody's word, and a wrong unit is the commonest fault there is. Four things no record can bring
about, each with the tail probability of the noise that would have to:
    a sum beyond what n records add up to         4130 for a mean between 0 and 100
    a total of everybody that is not n            a table of 3500 for n = 4000
    a count that is no whole number, although its noise is too narrow to hide that: 0.203, where a share was meant
    two noisy values of one sum, farther from each other than their noises go
As with a stated n (`stated_n`) the tails are multiplied by the number of comparisons of their kind; below .01 the
verdict opens with it, below 1e-6 it is refused. Where n is private it is compared there.

A number that is given twice, from two sources, is one number if the second repeats the first: that is told, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.likelihood.stated_n import NAMED, REFUSED, bounded_sums, counted_totals, noise_on_sums, tail_words
from noisewise.release import NoisyValue

__all__ = ["claim_warnings", "refuse_false_claims"]

WIDE = 0.1  # scales of noise, in records, that hide from where on whether a count is whole
Finding = tuple[float, str]  # a tail probability, and a sentence with a place for it


def refuse_false_claims(releases: Sequence[NoisyValue]) -> None:
    """Refuse measurements that are not what is said of them (below 1e-6)."""
    for tail, sentence in _findings(releases):
        if tail < REFUSED:
            raise InvalidArgument(
                f"{sentence} The number, its unit, a bound, the noise or n is not what was said. Nothing was spent.",
                argument="releases",
            )


def claim_warnings(releases: Sequence[NoisyValue]) -> tuple[str, ...]:
    """Sentences on measurements that are hardly what is said of them (below .01), or that are given twice."""
    doubted = tuple(sentence for tail, sentence in _findings(releases) if tail < NAMED)
    return doubted + tuple(_repeats(releases))


def _findings(releases: Sequence[NoisyValue]) -> list[Finding]:
    """Every comparison that speaks against a measurement, with its tail probability in its sentence."""
    found: list[Finding] = []
    foreign = [one for one in releases if one.is_foreign and not one.statistic.is_local]
    for release in foreign:
        if release.schema.is_change_one:
            with suppress(Unsupported):  # what a record adds to a statistic of one's own is not known
                found += [*_beyond(release), *_miscounted(release)]
        if release.statistic.is_count:
            found += _between(release)
    found += [one for pair in _pairs(foreign) for one in _apart(*pair)]
    return [(tail, f"{sentence} (tail probability {tail_words(tail)}).") for tail, sentence in found]


def _beyond(release: NoisyValue) -> Iterator[Finding]:
    """The sum farthest beyond what n records add up to."""
    sums, n, unit = bounded_sums(release), release.schema.largest_n, release.divisor
    if not sums:
        return
    tail, k = min((one.tail(n), k) for k, one in enumerate(sums))
    worst = sums[k]
    yield (
        min(1.0, len(sums) * tail),
        f"{worst.label} was published as {worst.released / unit:.6g} with a noise sd of {worst.sd / unit:.2g}, but of "
        f"{n} records within the bounds it is at {worst.bound(n, unit)}",
    )


def _miscounted(release: NoisyValue) -> Iterator[Finding]:
    """Every total of everybody, beside n."""
    totals, n = counted_totals(release), release.schema.largest_n
    for total in totals:
        yield (
            min(1.0, len(totals) * total.tail(n)),
            f"n = {n} was stated, but {total.label} of the same records is {total.value:.6g}, with a noise sd of "
            f"{total.sd:.2g}",
        )


def _between(release: NoisyValue) -> Iterator[Finding]:
    """The count farthest from a whole number, in scales of its noise, where that is too narrow to hide it."""
    if (law := noise_on_sums(release)) is None:
        return
    steps, scale = 1 / np.array(law.step), np.array(law.scale)  # steps of one record
    value = np.array(release.value, dtype=float)
    away = np.floor(np.abs(value - steps * np.round(value / steps)))
    doubtful = np.flatnonzero((scale < WIDE) & (away >= 1))
    if doubtful.size:
        j = int(doubtful[np.argmax((away / steps / scale)[doubtful])])
        yield (
            min(1.0, 2 * doubtful.size * float(law.cdf(-away[j], j))),
            f"{release.labels[j]} was published as {release.estimate[j]:.6g}, which is no whole number of records, "
            f"although its noise sd is {law.sd[j]:.2g}: is it a share?",
        )


def _pairs(releases: Sequence[NoisyValue]) -> Iterator[tuple[NoisyValue, NoisyValue]]:
    """Measurements of the same statistic of the same records."""
    for one, other in itertools.combinations(releases, 2):
        is_same = one.dataset == other.dataset != "" and one.statistic == other.statistic
        if is_same and one.labels == other.labels:  # their schemas may have other levels, which is refused elsewhere
            yield one, other


def _apart(one: NoisyValue, other: NoisyValue) -> Iterator[Finding]:
    """The component in which two noisy values of one sum differ most, by P(|V - W| > d) <= P(|V| > a) + P(|W| > b).

    a + b = d is split by the noises' sds.
    """
    laws = [law for law in (noise_on_sums(one), noise_on_sums(other)) if law is not None]
    if len(laws) < 2:
        return
    sds = tuple(np.array(law.sd) for law in laws)
    far = np.abs(one.estimate - other.estimate) * one.divisor / (sds[0] + sds[1])
    j = int(np.argmax(far))
    steps = [np.floor(far[j] * sd[j] / law.step[j]) for law, sd in zip(laws, sds, strict=True)]
    yield (
        min(1.0, 2 * far.size * sum(float(law.cdf(-k, j)) for law, k in zip(laws, steps, strict=True))),
        f"{one.labels[j]} of the same records was published as {one.estimate[j]:.6g} and as {other.estimate[j]:.6g}, "
        f"with noise sds of {sds[0][j] / one.divisor:.2g} and {sds[1][j] / one.divisor:.2g}",
    )


def _repeats(releases: Sequence[NoisyValue]) -> Iterator[str]:
    """A sentence for every number that stands twice among measurements of the same records."""
    for one, other in _pairs([one for one in releases if one.is_foreign and not one.statistic.is_local]):
        if one.value == other.value and one.law == other.law:
            yield (
                f"{one.statistic!s:.100} of the same records is given twice, with the same noise and the same value. "
                "If the second repeats the first, learn from one of them: taken for two draws of the noise they make "
                "the answer too sure."
            )
