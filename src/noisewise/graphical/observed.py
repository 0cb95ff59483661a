"""From releases to a problem: what was published about the model's columns, holder by holder, as numbers.

Releases of different records are independent holders, whose likelihoods multiply; those of the same records (`joining`)
are noised again, and their tables are stacked. A table whose columns are a clique of the model observes that clique's
cells; any other becomes a table of its own that is asked for and has no potentials, so that different structures can be
compared on the same releases. n is public under change-one; under add-remove the analyst states it, and a table whose
sum contradicts it is named or refused.

How much a release can teach is told by its strength, n sqrt(2) Delta_1/sd, Delta_1 the L1 sensitivity of its tables and
sd that of the noise on a cell: n epsilon for Laplace noise. Strengths of the same records add up as epsilons do, those
of different records as root mean squares do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.graphical.counted import CountedTable, counted_tables, home_of, sums_of, with_regions
from noisewise.graphical.engine import Engine
from noisewise.graphical.loopy import engine_for
from noisewise.graphical.null_pairs import null_share
from noisewise.graphical.problem import GAUSSIAN, LAPLACE, Holder, Problem
from noisewise.graphical.structure import Region, Regions
from noisewise.joining import joined, listed_releases, refuse_left_out
from noisewise.laws import additive_law, normal_mixture
from noisewise.release import NoisyValue
from noisewise.statistics import Marginals
from noisewise.types import Floats

if TYPE_CHECKING:
    from noisewise.graphical.model import GraphicalModel

__all__ = ["TOO_NARROW", "WEAK", "Observed", "observe"]

WEAK = 5000.0  # below this strength intervals of the model may cover less than they claim
TOO_NARROW = "the model's intervals may cover less than they claim"
SMALLEST, TINY = 1e-4, 1e-11


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """The problem, the releases it came from, what they can teach, and what is to be said."""

    problem: Problem
    releases: tuple[NoisyValue, ...]
    groups: tuple[tuple[int, ...], ...]  # the releases of each holder, by position
    strength: float
    notes: tuple[str, ...]
    warnings: tuple[str, ...]  # on a stated n that a table makes improbable

    @property
    def is_weak(self) -> bool:
        return self.strength < WEAK

    def weak_note(self, what: str) -> tuple[str, ...]:
        """What weak releases do, and where to turn; nothing of strong ones."""
        said = (
            f"The releases are weak (n epsilon, or its like, is {self.strength:.0f}, below {WEAK:.0f}): {what}. "
            "model.direct(release) has intervals that do not rest on the model."
        )
        return (said,) if self.is_weak else ()


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """One release: its tables, the entries that count, and their weight."""

    tables: tuple[CountedTable, ...]
    kept: Any  # (entries,) bool: the null cell of a tied table is left out
    value: Floats
    variance: Floats
    family: str
    n: float
    factor: float  # W adds factor x the cells that an entry counts


def observe(model: GraphicalModel, releases: object, *, n: object = None, has_prior: bool = True) -> Observed:
    """The problem of a model and releases of tables; `has_prior` says how the notes speak of what none counts."""
    given = listed_releases(releases)
    refuse_left_out(given, "a graphical model")
    counted = [tuple(counted_tables(model, release.statistic, release.schema)) for release in given]
    together = joined(given, n)
    notes = [] if n is None else [f"It holds if n = {n}, as stated: the number of records is private."]
    parts = []
    for index, release in enumerate(given):
        part, said = _part(release, counted[index], together.sizes[index])
        parts.append(part)
        notes += said
    engine = _engine(model.tables, [clique for part in parts for table in part.tables for clique in table.cliques])
    tables = engine.tables
    spread = np.full(tables.cells, -1, dtype=np.int64)
    own = model.spread
    spread[: len(own)] = own
    holders = tuple(_holder(tables, [parts[index] for index in members]) for members in together.groups)
    strengths = [sum(_strength(given[index], parts[index].n) for index in members) for members in together.groups]
    notes += _engine_note(engine) + _unseen(model, parts, has_prior=has_prior)
    return Observed(
        Problem(engine, spread, holders),
        given,
        together.groups,
        math.hypot(*strengths),
        tuple(dict.fromkeys(notes)),
        together.warnings,
    )


def _engine(own: Regions, cliques: Sequence[Region]) -> Engine:
    """Inference over the model's cliques and the published tables.

    Loopy propagation would take the columns of a table without potentials for independent, so there each table is read
    from a clique that holds it.
    """
    engine = engine_for(with_regions(own, cliques))
    if engine.is_exact:
        return engine
    if any(home_of(own, clique) is None for clique in cliques):
        raise Unsupported(
            "A release counts columns together that are in no common clique, and the model is too large for the exact "
            "sums that would take. Add a clique with these columns, or leave that release out."
        )
    return engine_for(own)


def _part(release: NoisyValue, tables: tuple[CountedTable, ...], n: int) -> tuple[_Part, list[str]]:
    statistic, law = release.statistic, release.law
    value = release.estimate
    variance = _noise_variance(release, n)
    family = LAPLACE if normal_mixture(law).is_laplace else GAUSSIAN
    kept = np.ones(len(value), dtype=bool)
    if isinstance(statistic, Marginals) and statistic.tied:
        factor = 1 / len(statistic.cliques)
        left_out = statistic.null_cell(release.schema)
        if left_out is not None:
            kept[left_out] = False
            people, share, said = null_share(statistic, release.schema, value, variance, n)
            return _Part(tables, kept, value, variance, family, people, factor / (1 - share)), said
        return _Part(tables, kept, value, variance, family, n, factor), []
    return _Part(tables, kept, value, variance, family, n, 1.0), []


def _noise_variance(release: NoisyValue, n: int) -> Floats:
    """Of each entry; with a floor far below sampling, as noise that is all but surely 0 leaves a sum no variance."""
    return np.asarray(
        np.maximum(np.square(np.array(additive_law(release.law).sd) / release.divisor), max(SMALLEST, n * TINY))
    )


def _holder(tables: Regions, parts: Sequence[_Part]) -> Holder:
    """Releases of the same records, stacked."""
    if len({part.n for part in parts}) > 1:
        if any(not part.kept.all() for part in parts):
            raise Unsupported(
                "A table tied with null= counts only some of the people, so it joins no other release of the same "
                "records. Use one of them, or release from disjoint parts."
            )
        raise InvalidArgument("Releases of the same records were given different n.", argument="n")
    if len({part.family for part in parts}) > 1:
        raise Unsupported(
            "Releases of the same records have Laplace noise and Gaussian noise; their stacked tables are scored for "
            "one of them only. Use releases with one kind of noise, or from disjoint parts."
        )
    blocks, slices, start = [], [], 0
    for part in parts:
        begin = 0
        for table in part.tables:
            kept = part.kept[begin : begin + table.size]
            begin += table.size
            blocks.append(part.factor * sums_of(tables, table)[np.flatnonzero(kept)])
            size = int(kept.sum())
            slices.append(slice(start, start + size))
            start += size
    return Holder(
        n=parts[0].n,
        sums=sparse.csr_array(sparse.vstack(blocks, format="csr")),
        observed=np.concatenate([part.value[part.kept] for part in parts]),
        variance=np.concatenate([part.variance[part.kept] for part in parts]),
        family=parts[0].family,
        tables=tuple(slices),
    )


def _strength(release: NoisyValue, n: float) -> float:
    """n sqrt(2) Delta_1/sd, at the cell with the most noise; sd is that of the continuous law, also below one count."""
    noise = normal_mixture(release.law)
    change = float(release.statistic.sensitivity(release.schema, norm=1).value)
    width = math.sqrt(2) if noise.is_laplace else 1.0
    return n * math.sqrt(2) * change / (width * max(additive_law(release.law).scale))


def _engine_note(engine: Any) -> list[str]:
    return [] if engine.is_exact else [f"{engine.reason} Intervals say nothing about that error."]


def _unseen(model: GraphicalModel, parts: Sequence[_Part], *, has_prior: bool) -> list[str]:
    """Columns that no release counts, and cliques of which no table was published together, or only a tied one."""
    tables = [table for part in parts for table in part.tables]
    seen = [set(clique) for table in tables for clique in table.cliques]
    alone = [set(table.cliques[0]) for table in tables if len(table.cliques) == 1]
    tied = {index for group in model.ties for index in group}
    hidden = [
        clique for index, clique in enumerate(model.cliques)
        if index not in tied and not any(set(model.region(clique)) <= one for one in alone)
        and any(set(model.region(clique)) <= one for one in seen)
    ]  # fmt: skip
    columns = [name for v, name in enumerate(model.columns) if not any(v in clique for clique in seen)]
    pairs = [
        clique for clique in model.cliques
        if not set(clique) & set(columns) and not any(set(model.region(clique)) <= one for one in seen)
    ]  # fmt: skip
    said = []
    if columns:
        rules = "there the prior rules" if has_prior else "nothing is learnt there, and no prior speaks for it"
        said.append(f"No release counts {', '.join(columns)}: {rules}.")
    if hidden:
        said.append(f"[{', '.join(hidden[0])}] is counted only in a tied table, added up with other columns: it is "
                    "hardly known by itself. Publish its own table, too.")  # fmt: skip
    if pairs:
        shown = ", ".join(f"[{', '.join(clique)}]" for clique in pairs[:3]) + (", ..." if len(pairs) > 3 else "")
        said.append(f"No release counts the columns of {shown} together: how they act on each other is known from the "
                    f"other tables{' and the prior' if has_prior else ''} only.")  # fmt: skip
    return said
