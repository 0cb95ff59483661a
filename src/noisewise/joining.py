"""Which releases share records, and how many records stand behind each: said once, for every likelihood and model.

    different data sets, or disjoint parts of one      independent given the parameters
    the same data set and part                         the same records: one joint law
    overlapping parts                                  refused: neither rule is right
The number of records is public under change-one; under add-remove it is private, and the analyst states it, or gives a
prior of it (`likelihood.size_prior`). A noisy total of the same records that contradicts a stated n names or refuses it
(`likelihood.stated_n`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import integer
from noisewise.likelihood.publisher_claims import claim_warnings, refuse_false_claims
from noisewise.likelihood.size_prior import SizePrior, is_size_law, listed_sizes, read_size
from noisewise.likelihood.stated_n import contradictions, refuse_contradicted
from noisewise.populations.parameters import missing_members
from noisewise.printable import shown
from noisewise.release import NoisyValue
from noisewise.schema import Schema
from noisewise.statistics import Statistic
from noisewise.statistics.presence import left_out_of

if TYPE_CHECKING:
    from noisewise.populations.presence import Told

__all__ = [
    "Joined",
    "joined",
    "joined_by_prior",
    "listed_releases",
    "one_schema",
    "record_count",
    "same_records",
    "stated_sizes",
]

WHOLE = (Fraction(0), Fraction(1))


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Releases, the number of records behind each, and which of them (by position) are of the same records."""

    releases: tuple[NoisyValue, ...]
    sizes: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    priors: tuple[SizePrior | None, ...] = ()  # of each group's number of records, where that is unknown

    def members(self, group: Sequence[int]) -> tuple[NoisyValue, ...]:
        """The releases of one group."""
        return tuple(self.releases[index] for index in group)

    def size(self, group: Sequence[int]) -> int:
        """The number of records of one group; refused where it is unknown, or given differently for its releases."""
        if self.prior(group) is not None:
            raise Unsupported("n is a prior, and here a number of records is needed. State it, as in n=4000.")
        if len({self.sizes[index] for index in group}) > 1:
            raise InvalidArgument("Releases of the same records were given different n.", argument="n")
        return self.sizes[group[0]]

    def prior(self, group: Sequence[int]) -> SizePrior | None:
        """The prior of one group's number of records, where that is unknown."""
        return self.priors[self.groups.index(tuple(group))] if self.priors else None

    def size_names(self, taken: Iterable[str]) -> dict[int, str]:
        """How each unknown number of records is called, by the position of its group: n, or n[1], n[2] of several."""
        unknown = [k for k, prior in enumerate(self.priors) if prior is not None]
        name = "n" if "n" not in set(taken) else "n_records"
        return {k: name if len(unknown) == 1 else f"{name}[{order + 1}]" for order, k in enumerate(unknown)}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences on a stated n, or on what is said of a measurement, that the numbers make improbable."""
        unknown = {
            k for group, prior in zip(self.groups, self.priors, strict=False) if prior is not None for k in group
        }
        stated = [k for k in range(len(self.releases)) if k not in unknown]
        doubted = contradictions(tuple(self.releases[k] for k in stated), [self.sizes[k] for k in stated])
        return (*claim_warnings(self.releases), *doubted)


def joined(releases: tuple[NoisyValue, ...], n: object) -> Joined:
    """Releases by the records they share, with n as it is public or stated."""
    check_disjoint(releases)
    refuse_false_claims(releases)
    return Joined(releases, tuple(stated_sizes(releases, n)), same_records(releases))


def joined_by_prior(releases: tuple[NoisyValue, ...], n: object) -> Joined:
    """The same where n may be a prior: of every data set, or one entry for each release.

    `sizes` then holds the largest number that is possible, and `priors` one entry for each group.
    """
    entries = listed_sizes(n)
    given = [n] * len(releases) if entries is None else entries
    if not any(map(is_size_law, given)):
        return joined(releases, n)
    check_disjoint(releases)
    refuse_false_claims(releases)
    if all(release.schema.is_change_one for release in releases):
        raise InvalidArgument("n is public in these releases; leave n= out.", argument="n")
    if len(given) != len(releases):
        raise InvalidArgument(f"n lists {len(given)} entries for {len(releases)} releases.", argument="n")
    groups = same_records(releases)
    known: dict[int, int] = {}
    priors: list[SizePrior | None] = []
    for group in groups:
        first = releases[group[0]]
        if len({id(given[k]) if is_size_law(given[k]) else given[k] for k in group}) > 1:
            raise InvalidArgument("Releases of the same records were given different n.", argument="n")
        if first.schema.is_change_one:
            size, prior = first.schema.largest_n, None
        else:
            most = min(releases[k].schema.largest_n for k in group)
            size, prior = read_size(given[group[0]], most)
        if prior is not None and first.part is not None:
            prior = prior.of_part(float(first.part[1] - first.part[0]))
        known |= dict.fromkeys(group, size)
        priors.append(prior)
    _refuse_dependent_parts(releases, groups, priors)
    stated = [k for group, prior in zip(groups, priors, strict=True) if prior is None for k in group]
    refuse_contradicted(tuple(releases[k] for k in stated), [known[k] for k in stated])
    return Joined(releases, tuple(known[k] for k in range(len(releases))), groups, tuple(priors))


def _refuse_dependent_parts(
    releases: tuple[NoisyValue, ...], groups: tuple[tuple[int, ...], ...], priors: Sequence[SizePrior | None]
) -> None:
    """Refuse a prior for several parts of one data set, but a Poisson law, by which their numbers are independent."""
    seen: set[str] = set()
    for group, prior in zip(groups, priors, strict=True):
        dataset = releases[group[0]].dataset
        if prior is not None and dataset in seen and not prior.is_poisson:
            raise Unsupported(
                "These releases are of different parts of one data set, and given a prior of n other than Poisson's "
                "the numbers of their records depend on each other, which no law here computes. Give "
                "n=stats.poisson(...), or infer from one part."
            )
        if prior is not None:
            seen.add(dataset)


def same_records(releases: Iterable[NoisyValue]) -> tuple[tuple[int, ...], ...]:
    """Positions of releases of the same data set and part, group by group in the order of their first."""
    groups: dict[tuple[str, object], list[int]] = {}
    for index, release in enumerate(releases):
        groups.setdefault((release.dataset, release.part), []).append(index)
    return tuple(map(tuple, groups.values()))


def listed_releases(releases: object) -> tuple[NoisyValue, ...]:
    """One release or several different ones, of whatever kind."""
    given = releases if missing_members(releases, NoisyValue) else (releases,)
    if isinstance(given, str | bytes) or not isinstance(given, Sequence) or not given:
        raise InvalidArgument(
            "Give a Release or a Measurement, or a list of them, as from Release.load('income.release.json').",
            argument="releases",
        )
    for release in given:
        if missing_members(release, NoisyValue):
            raise InvalidArgument(
                f"releases holds a {type(release).__name__}; only releases can be learnt from, and "
                "measurements made elsewhere. Load files with Release.load(path) or Measurement.load(path).",
                argument="releases",
            )
    if len({release.hash for release in given}) != len(given):
        raise InvalidArgument("The same release is given twice; it tells nothing new.", argument="releases")
    if len(given) > 1:
        refuse_unnamed(given)
    return tuple(given)


def refuse_unnamed(releases: Iterable[NoisyValue]) -> None:
    """Refuse to join a measurement of which nobody has said whose records it is of."""
    for release in releases:
        if not release.dataset:
            raise InvalidArgument(
                f"{release.statistic!s:.100} was measured elsewhere, and nobody has said whose records it is of: "
                "together with anything else it would be taken for independent, or for the same records, and one of "
                "the two is wrong. Name them, as in measurement(..., dataset='registry 2020'): one name for the same "
                "records, another for other people. Or infer from it alone.",
                argument="releases",
            )


def refuse_left_out(releases: Iterable[Told], learner: str) -> None:
    """Refuse releases, or plans of such, of those present, for whom n is not the number of records behind a sum."""
    for release in releases:
        refuse_absent_values(release.statistic, release.schema, learner)


def refuse_absent_values(statistic: Statistic, schema: Schema, learner: str) -> None:
    """Refuse a statistic of those present, where the learner takes n for the number of records behind it."""
    columns = left_out_of(statistic.columns(), schema)
    if columns:
        raise Unsupported(
            f"Missing values of {shown(columns[0])} were left out of {statistic!s:.100}, so that how many rows are "
            f"behind its sums is private, and {learner} takes n for it. Ask for a release in which missing values were "
            "refused or filled in with a public value, or infer the columns' own laws from means or tables of those "
            "present."
        )


def stated_sizes(releases: tuple[NoisyValue, ...], n: object) -> list[int]:
    """The number of records behind each release: public under change-one, else as the analyst states it."""
    private = [release for release in releases if not release.schema.is_change_one]
    if not private:
        if n is not None:
            raise InvalidArgument("n is public in these releases; leave n= out.", argument="n")
        return [release.schema.largest_n for release in releases]
    if n is None:
        raise _not_stated("infer(..., n=4000); the verdict will say so")
    parts = {(release.dataset, release.part) for release in private}
    entries = listed_sizes(n)
    if entries is None and len(parts) > len({dataset for dataset, _ in parts}):
        raise InvalidArgument(
            "n is one number, but these releases are of different parts of one data set, and each part has a number of "
            "records of its own. State one for each release, as in infer(..., n=[2000, 2000]).",
            argument="n",
        )
    stated = [n] * len(releases) if entries is None else entries
    if any(map(is_size_law, stated)):
        raise Unsupported(
            "n is a prior, and here a number of records is needed. State it, as in n=4000; a prior of n is for infer "
            "with a population or with Grouped, by direct computation."
        )
    if len(stated) != len(releases):
        raise InvalidArgument(f"n lists {len(stated)} numbers for {len(releases)} releases.", argument="n")
    sizes = [
        release.schema.largest_n
        if release.schema.is_change_one
        else integer(value, "n", minimum=1, maximum=release.schema.largest_n)
        for release, value in zip(releases, stated, strict=True)
    ]
    refuse_contradicted(releases, sizes)
    return sizes


def record_count(schema: Schema, n: object) -> int:
    """The number of records of a plan with that schema: public under change-one, else as stated."""
    if schema.n is not None:
        if n is not None and n != schema.n:
            raise InvalidArgument(f"n = {shown(n)}, but it is public: {schema.n}. Leave n= out.", argument="n")
        return schema.n
    if n is None:
        raise _not_stated("n=4000")
    if is_size_law(n):
        raise Unsupported("n is a prior, and here a number of records is needed. State it, as in n=4000.")
    return integer(n, "n", minimum=1, maximum=schema.largest_n)


def _not_stated(how: str) -> InvalidArgument:
    return InvalidArgument(
        f"Under add-remove the number of records is private. State the n you assume, as in {how}.", argument="n"
    )


def check_disjoint(releases: tuple[NoisyValue, ...]) -> None:
    """Refuse releases of parts of one data set that overlap without being the same."""
    for index, one in enumerate(releases):
        for other in releases[index + 1 :]:
            if one.dataset != other.dataset or one.part == other.part:
                continue
            a, b = one.part or WHOLE, other.part or WHOLE
            if a[0] < b[1] and b[0] < a[1]:
                raise Unsupported(
                    f"{one.statistic} and {other.statistic} come from overlapping parts of one data set "
                    f"({a[0]} to {a[1]} and {b[0]} to {b[1]}): they share some records, so they are neither "
                    "independent nor about the same records. Use releases of equal or of disjoint parts."
                )


def one_schema(releases: tuple[NoisyValue, ...]) -> tuple[NoisyValue, ...]:
    """Releases of the same records under one schema, so that their features can be stacked.

    They may describe different columns of the same records; they must agree on those they share, since a clamp is part
    of what was summed.
    """
    first = releases[0].schema
    if len(releases) == 1:
        return releases
    for release in releases[1:]:
        for name in release.schema.columns.keys() & first.columns.keys():
            if release.schema.column(name) != first.column(name):
                raise Unsupported(
                    f"Two releases of the same records declare column {name!r} differently. Use the same bounds, and "
                    f"clip inside the statistic instead, as in mean({name}.clip(low, high))."
                )
        if release.schema.outside != first.outside or release.schema.neighbours != first.neighbours:
            raise Unsupported("Two releases of the same records have different policies for values outside the bounds.")
    columns = {name: entry for release in releases for name, entry in release.schema.columns.items()}
    size = {"n": first.n} if first.is_change_one else {"n_max": max(release.schema.largest_n for release in releases)}
    schema = Schema(columns, neighbours=first.neighbours, outside=first.outside, **size)
    return tuple(release.with_schema(schema) for release in releases)
