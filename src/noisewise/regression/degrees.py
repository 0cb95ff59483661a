"""How many numbers releases of Moments tell a regression, and how many unknowns they must settle."""

from __future__ import annotations

from noisewise.inference.degrees import Degrees
from noisewise.joining import same_records
from noisewise.release import Release
from noisewise.statistics import Moments

__all__ = ["moment_degrees"]


def moment_degrees(releases: tuple[Release, ...], unknowns: int) -> Degrees:
    """Distinct sums that were released against so many unknowns."""
    of_moments = [release for release in releases if isinstance(release.statistic, Moments)]
    sums = [_distinct_sums(release) for release in of_moments]
    told = sum(len(set[tuple[int, ...]]().union(*(sums[k] for k in group))) for group in same_records(of_moments))
    shapes = len(set[tuple[int, ...]]().union(*sums))
    advice = (
        "Moments of disjoint parts of the records, or of another holder, would show whether they agree, and "
        "Moments(..., fourth=True) whether the covariates are as the model has them."
    )
    return Degrees(told, shapes, unknowns, "" if told > unknowns else advice)


def _distinct_sums(release: Release) -> set[tuple[int, ...]]:
    """The sums that no other gives away: not 1 * 1; of yes/no features not x * x, nor two levels of one column."""
    statistic = release.statistic
    assert isinstance(statistic, Moments)
    first, pairs = int(statistic.intercept), set(statistic.pairs(release.schema))
    kinds = {first + k: feature for k, feature in enumerate(statistic.features)}
    yes_no = {k for k, feature in kinds.items() if feature.operation in ("equals", "between")}

    def is_given_away(pair: tuple[int, ...]) -> bool:
        if all(k < first for k in pair):
            return True
        if len(pair) != 2 or not statistic.intercept or not yes_no.issuperset(pair):
            return False
        one, other = (kinds[k] for k in pair)
        is_same_column = one.columns() == other.columns() and one.operation == other.operation == "equals"
        return (pair[0] == pair[1] or is_same_column) and (0, pair[0]) in pairs

    return {pair for pair in pairs if not is_given_away(pair)}
