"""How many numbers published tables tell a graphical model, and how many unknowns they must settle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from noisewise.inference.degrees import Degrees, log_linear_terms, told_by_tables
from noisewise.joining import same_records
from noisewise.release import NoisyValue
from noisewise.statistics import Histogram, Marginals

__all__ = ["table_degrees"]


def table_degrees(
    releases: tuple[NoisyValue, ...], cliques: Sequence[Sequence[str]], levels: Mapping[str, int], *, most: int | None
) -> Degrees:
    """Independent cells of the published tables against independent potentials of the cliques, or `most` of them."""
    unknowns = log_linear_terms(cliques, levels) if most is None else most
    told = sum(_told([releases[index] for index in group], levels) for group in same_records(releases))
    shapes = min(told, _told(releases, levels))
    advice = (
        "Every set of such tables fits some potentials. A table of columns that share no clique, which the model takes "
        "for independent given those between them, would check that; so would tables of disjoint parts of the records."
    )
    return Degrees(told, shapes, unknowns, "" if told > unknowns else advice)


def _told(releases: Sequence[NoisyValue], levels: Mapping[str, int]) -> int:
    """Independent cells of all tables of the same records."""
    cliques: list[tuple[str, ...]] = []
    tied = 0
    for release in releases:
        statistic = release.statistic
        if isinstance(statistic, Marginals) and statistic.tied:
            tied += told_by_tables(release)
        elif isinstance(statistic, Marginals):
            cliques += [tuple(map(str, clique)) for clique in statistic.cliques]
        elif isinstance(statistic, Histogram):
            cliques.append((statistic.column,))
    return tied + log_linear_terms(cliques, levels)
