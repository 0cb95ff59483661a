"""Learning groups: a table for each group, common laws drawn first, then sizes, then each group's parameters.

    1  a table of each group's likelihood over sizes and parameters (`group_table`)
    2  where parameters are pooled: (M, tau) from the product of the groups' I_g (`pooling`)
    3  sizes that add up to n, by a forward and a backward pass over what each group says of its own (`group_sizes`)
    4  each group's parameters given its size and (M, tau): the table proposes, the law itself accepts (`draws`)
    5  shares ~ Dirichlet(alpha + sizes)
Draws are independent. With several sets of records parameters are drawn first, all sizes summed out, and sizes given
them; these are then moved by a common shift onto the known totals, group by group in proportion to their variances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.grouped.draws import Pool, Slices, settled_draws
from noisewise.grouped.group_sizes import Totals, draw_sizes
from noisewise.grouped.group_table import GroupTable, Place, group_box, group_table, start_box
from noisewise.grouped.lines import Line
from noisewise.grouped.log_spline import TESTED, LogSpline, grid_places, is_near
from noisewise.grouped.model import SHARE, SIZE, Grouped, centre_name, spread_name
from noisewise.grouped.observed import (
    Holders,
    RecordSet,
    group_names,
    holder_terms,
    record_set,
    terms_by_group,
)
from noisewise.grouped.pooling import Pooled, Spread, draw_common
from noisewise.grouped.present import PRESENT, left_out_columns
from noisewise.grouped.record_moments import Box, RecordMoments, shared_moments
from noisewise.grouped.tents import chosen, normal_masses
from noisewise.grouped.terms import AnyTerm
from noisewise.grouped.words import law_words, sentences
from noisewise.grouped.zoom import log_total
from noisewise.inference.exact import independent
from noisewise.inference.methods import AUTO, Found, Method, Methods
from noisewise.inference.settings import Settings
from noisewise.inference.verdict import Verdict
from noisewise.joining import joined_by_prior, listed_releases
from noisewise.release import NoisyValue
from noisewise.types import Floats, Ints

__all__ = ["METHODS", "Observed", "Problem", "learn", "observe", "record_sets"]

TURNS = 6
AVERAGED = 400  # draws of (M, tau) over which what is said of sizes is averaged
REACHES = (4.0, 16.0, 64.0)  # times as far as the prior's mass, where a group's likelihood ends beyond it
ROUGH = (41, 31)  # points of the splines by which places are found


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """The model with its groups, the releases, and what they say of each group."""

    model: Grouped
    releases: tuple[NoisyValue, ...]
    sets: tuple[RecordSet, ...]  # none where each data set is a group
    holders: Holders | None
    warnings: tuple[str, ...]


def observe(model: Grouped, releases: object, settings: Settings) -> Observed:
    """Read releases by group, or of holders that are groups each."""
    given = listed_releases(releases)
    together = joined_by_prior(given, settings.n)
    if model.is_by_holder:
        model.with_presence(given)  # refused here: who is present is told apart within a data set alone
        for group in together.groups:
            together.size(group)  # a prior is refused here: holders are groups by their known numbers of records
        found = holder_terms(together, model.population, model.column, model.lines, settings.likelihood)
        names = model.names or tuple(str(k + 1) for k in range(len(found.terms)))
        return Observed(model.of_groups(names), given, (), found, together.warnings)
    own = model.of_groups(group_names(given[0], model.by)).with_presence(given)
    return Observed(own, given, record_sets(own, given, settings.n), None, together.warnings)


def record_sets(model: Grouped, releases: tuple[NoisyValue, ...], n: object) -> tuple[RecordSet, ...]:
    """One for each set of records."""
    together = joined_by_prior(releases, n)
    for release in releases:
        model.of_groups(group_names(release, model.by))
    if len(together.groups) > 1 and any(together.priors):
        raise Unsupported(
            "Groups are learnt with a prior of n from one set of records; these releases are of several. State n, or "
            "infer from one of them."
        )
    is_left_out = bool(left_out_columns(releases))
    if is_left_out and (len(together.groups) > 1 or any(together.priors)):
        several = "from one set of records; these releases are of several. Infer from one of them."
        raise Unsupported(
            "Where missing values were left out, groups are learnt "
            + (several if len(together.groups) > 1 else "with a known number of records. State n, as in n=4000.")
        )
    if not is_left_out and model.present is not None:
        raise InvalidArgument(
            "present= is for releases in which missing values were left out, and these have none: leave it out.",
            argument="present",
        )
    found = []
    for group in together.groups:
        prior, members = together.prior(group), together.members(group)
        size = together.sizes[group[0]] if prior else together.size(group)
        present = model.share_present.of(size) if is_left_out else None
        found.append(
            record_set(members, size, prior, model.population, model.column, model.lines, model.alpha, present)
        )
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Tables of all groups, and what is pooled."""

    model: Grouped
    tables: tuple[GroupTable, ...]
    pooled: tuple[Pooled, ...]
    sets: tuple[RecordSet, ...]


def problem_of(observed: Observed) -> Problem:
    """Every group's table, on lines that reach as far beyond the prior's mass as the releases point."""
    model = observed.model
    lines = list(model.lines)
    wide = {k for k, line in enumerate(lines) if line.name in model.pooled}
    terms, found = _places(observed, lines, wide)
    for reach in REACHES:
        short = {k for one in found for k in one.short}
        if not short:
            break
        lines = [line.reaching(reach) if k in short else line for k, line in enumerate(lines)]
        terms, found = _places(observed, lines, wide)
    if observed.holders is None:
        terms = _finer(observed, lines, wide, found)
    tables = [group_table(own, lines, wide, place) for own, place in zip(terms, found, strict=True)]
    pooled = tuple(Pooled(k, lines[k], Spread(model.spread_of(lines[k].name))) for k in sorted(wide))
    return Problem(model, tuple(tables), pooled, observed.sets)


def _places(observed: Observed, lines: Sequence[Line], wide: set[int]) -> tuple[list[list[AnyTerm]], list[Place]]:
    """Every group's terms by rough splines, and where their mass is."""
    if observed.holders is not None:
        terms: list[list[AnyTerm]] = [[term] for term in observed.holders.terms]
    else:
        rough = _rough(observed, start_box(lines, wide))
        terms = terms_by_group(observed.sets, [[one] for one in rough])
    return terms, [group_box(own, lines, wide) for own in terms]


def _rough(observed: Observed, whole: Box) -> list[RecordMoments]:
    """The moments of each set of records by splines over everything."""
    return [one.moments.over(whole, ROUGH) for one in observed.sets]


def _finer(observed: Observed, lines: Sequence[Line], wide: set[int], found: Sequence[Place]) -> list[list[AnyTerm]]:
    """Every group's terms by splines that are fine enough around its place."""
    whole = start_box(lines, wide)
    roomy = [
        tuple(
            (max(low - 0.5 * (high - low), a), min(high + 0.5 * (high - low), b))
            for (low, high), (a, b) in zip(one.box, whole, strict=True)
        )
        for one in found
    ]
    fine = [
        shared_moments(
            one.moments,
            near,
            roomy,
            [float(term.window.sizes[-1]) for term in one.terms],
            [term.law.noise_variance for term in one.terms],
        )
        for one, near in zip(observed.sets, _rough(observed, whole), strict=True)
    ]
    return terms_by_group(observed.sets, fine)


def draw(problem: Problem, rng: np.random.Generator, count: int) -> tuple[dict[str, Floats], float]:
    """`count` independent draws by name, and the smallest share of accepted proposals."""
    model, accepted = problem.model, [1.0]
    pools: list[Pool | None] = [None] * len(model.lines)
    if problem.pooled:
        common, share = draw_common(rng, problem.tables, problem.pooled, count)
        accepted.append(share)
        for one, pool in zip(problem.pooled, common, strict=True):
            pools[one.index] = pool
    sizes = _joint_sizes(problem, rng, pools, count) if len(problem.sets) == 1 else None
    points, taken = [], []
    for g, table in enumerate(problem.tables):
        if sizes is not None:
            u, share = _given_sizes(table, sizes[:, g], pools, model, rng)
        else:
            u, own, share = _with_sizes(table, pools, model, rng, count)
            taken.append(own)
        points.append(u)
        accepted.append(share)
    found: dict[str, Floats] = {}
    for k, line in enumerate(model.lines):
        found[line.name] = line.parameter(np.stack([u[:, k] for u in points], axis=1))
    if problem.sets:
        if sizes is None:
            every = np.stack(taken, axis=2)  # (S, sets, G)
            every = np.stack([_onto_total(rng, every[:, d], one.totals) for d, one in enumerate(problem.sets)], axis=1)
            sizes = every if len(problem.sets) > 1 else every[:, 0]
        total = sizes if sizes.ndim == 2 else sizes.sum(axis=1)
        gamma = rng.standard_gamma(model.alpha + total)
        found[SHARE] = gamma / gamma.sum(axis=1, keepdims=True)
        found[SIZE] = sizes.astype(float)
        if (present := problem.sets[0].present) is not None:
            if PRESENT in model.free:
                found[PRESENT] = present.draw_share(rng, sizes.sum(axis=1).astype(float))
        elif problem.sets[0].totals.prior is not None:
            found["n"] = sizes.sum(axis=1).astype(float)
    for one in problem.pooled:
        own_pool = pools[one.index]
        assert own_pool is not None
        name = one.line.name
        found |= {centre_name(name): one.line.parameter(own_pool[0]), spread_name(name): own_pool[1]}
    return found, min(accepted)


def _joint_sizes(problem: Problem, rng: np.random.Generator, pools: Sequence[Pool | None], count: int) -> Ints | None:
    """Sizes (S, G) that add up to the total, parameters integrated out; None where windows are too wide for that."""
    if any(table.terms[0].window.stride > 1 for table in problem.tables):
        return None
    windows = []
    for table in problem.tables:
        term, nodes = table.terms[0], table.nodes[0]
        log = table.log_sums[0] + table.log_prior
        for axis, pool in reversed(list(enumerate(pools))):
            if pool is None:
                weight = np.full(table.grids[axis].size, table.steps[axis])
            else:
                some = (part[:AVERAGED] for part in pool)
                weight = normal_masses(table.grids[axis], *some).mean(axis=0)
            with np.errstate(divide="ignore"):
                log = log_total(log + np.log(weight).reshape(-1, *(1,) * (log.ndim - 2 - axis)), axis + 1)
        last = min(int(nodes.places[-1]), term.window.sizes.size - 1)
        places = np.arange(max(int(nodes.places[0]), 0), last + 1)
        safe = np.where(np.isfinite(log), log, -1e300)
        own = np.interp(places, nodes.places, safe) + term.window.log_own[places]
        windows.append((term.window.sizes[places], np.asarray(own - own.max())))
    return draw_sizes(rng, windows, problem.sets[0].totals, count)


def _log_priors(model: Grouped, pools: Sequence[Pool | None], u: Floats) -> Floats:
    """The log-density of each draw's parameters under their priors, or under the common law."""
    total = np.zeros(len(u))
    for k, (line, pool) in enumerate(zip(model.lines, pools, strict=True)):
        if pool is None:
            total += line.log_prior(u[:, k])
        else:
            total += -0.5 * np.square((u[:, k] - pool[0]) / pool[1]) - np.log(pool[1])
    return total


def _given_sizes(
    table: GroupTable, sizes: Ints, pools: Sequence[Pool | None], model: Grouped, rng: np.random.Generator
) -> tuple[Floats, float]:
    """u (S, p) of one group given its sizes in the only set of records."""
    term, nodes = table.terms[0], table.nodes[0]
    slices = Slices.of(table.grids, table.log_sums[0] + table.log_prior)
    spline = LogSpline(table.log_sums[0], rows=1)
    at = ((sizes - term.window.sizes[0]) / term.window.stride - nodes.places[0]) / nodes.step
    n = sizes.astype(float)

    tested = slice(0, TESTED)

    def target(u: Floats) -> Floats:
        return spline.at(np.column_stack([at, grid_places(u, table.grids)])) + _log_priors(model, pools, u)

    def itself(u: Floats) -> Floats:
        return term.each(n, u) + _log_priors(model, pools, u)

    def propose() -> tuple[Floats, Floats]:
        return slices.propose(rng, at, pools)

    u, share = settled_draws(propose, target, rng, TURNS)
    few = np.asarray(u[tested])
    near = spline.at(np.column_stack([at[tested], grid_places(few, table.grids)]))
    if is_near(near, term.each(n[tested], few)):
        return u, share
    return settled_draws(propose, itself, rng, TURNS)


def _with_sizes(
    table: GroupTable, pools: Sequence[Pool | None], model: Grouped, rng: np.random.Generator, count: int
) -> tuple[Floats, Ints, float]:
    """u (S, p) of one group with all sizes summed out, then its size in every set of records (S, sets)."""
    slices = Slices.of(table.grids, (table.log_likelihood + table.log_prior)[None])
    p = len(table.grids)

    def propose() -> tuple[Floats, Floats]:
        u, log_q = slices.propose(rng, np.zeros(count), pools)
        parts = [_sizes_at(table, d, u, rng) for d in range(len(table.terms))]
        return np.column_stack([u, *(part[0] for part in parts)]), log_q + sum(part[1] for part in parts)

    splines = [LogSpline(log, rows=1) for log in table.log_sums]

    def summed(state: Floats, *, is_spline: bool) -> Floats:
        u, total = np.asarray(state[:, :p]), np.zeros(len(state))
        for d, (term, nodes) in enumerate(zip(table.terms, table.nodes, strict=True)):
            place = np.asarray(state[:, p + d]).astype(int)
            if is_spline:
                at = (place - nodes.places[0]) / nodes.step
                total += splines[d].at(np.column_stack([at, grid_places(u, table.grids)]))
            else:
                total += term.each(term.window.sizes[place].astype(float), u)
        return total

    def target(state: Floats, *, is_spline: bool = True) -> Floats:
        total = _log_priors(model, pools, np.asarray(state[:, :p]))
        for d, term in enumerate(table.terms):
            total = total + term.window.log_alone[state[:, p + d].astype(int)]
        return np.asarray(total + summed(state, is_spline=is_spline))

    state, share = settled_draws(propose, target, rng, TURNS)
    few = np.asarray(state[:TESTED])
    if not is_near(summed(few, is_spline=True), summed(few, is_spline=False)):
        state, share = settled_draws(propose, partial(target, is_spline=False), rng, TURNS)
    places = state[:, p:].astype(int)
    sizes = np.stack([term.window.sizes[places[:, d]] for d, term in enumerate(table.terms)], axis=1)
    return np.asarray(state[:, :p]), sizes, share


def _sizes_at(table: GroupTable, which: int, u: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """A size's place in its window for each row of u, and its log-probability: a node, then a size under its tent."""
    term, nodes, log = table.terms[which], table.nodes[which], table.log_sums[which]
    corners, weights = _corners(table, u)
    rows = np.zeros((len(u), nodes.places.size))
    flat = log.reshape(len(log), -1)
    top = np.max(np.where(np.isfinite(flat), flat, -np.inf))
    with np.errstate(under="ignore"):
        density = np.exp(flat - top)
    for index, weight in zip(corners, weights, strict=True):
        rows += weight[:, None] * density[:, index].T
    rows = np.maximum(rows, 1e-250)
    weight = np.exp(nodes.log_weight(term) - np.log(term.window.stride))
    node = chosen(rng, rows * weight)
    last = term.window.sizes.size - 1
    place = np.zeros(len(u))
    alone = np.exp(term.window.log_alone - term.window.log_alone.max())
    for i in np.unique(node):
        mine = np.flatnonzero(node == i)
        around = np.arange(nodes.places[i] - nodes.step + 1, nodes.places[i] + nodes.step)
        around = around[(around >= 0) & (around <= last)]
        own = alone[around] * (1 - np.abs(around - nodes.places[i]) / nodes.step)
        place[mine] = rng.choice(around, mine.size, p=own / own.sum())
    at = (place - nodes.places[0]) / nodes.step
    low = np.clip(np.floor(at).astype(int), 0, nodes.places.size - 1)
    share = at - low
    pick = np.arange(len(u))
    found = (1 - share) * rows[pick, low] + share * rows[pick, np.minimum(low + 1, nodes.places.size - 1)]
    with np.errstate(divide="ignore"):
        return place, np.log(alone[place.astype(int)]) + np.log(found) - np.log((rows * weight).sum(axis=1))


def _corners(table: GroupTable, u: Floats) -> tuple[list[Ints], list[Floats]]:
    """The grid points around each row of u, by their flat places, and their shares."""
    index: list[Ints] = [np.zeros(len(u), np.int64)]
    weight: list[Floats] = [np.ones(len(u))]
    for k, grid in enumerate(table.grids):
        at = np.clip((u[:, k] - grid[0]) / (grid[1] - grid[0]), 0, grid.size - 1)
        low = np.minimum(at.astype(np.int64), grid.size - 2)
        part = at - low
        index = [one * grid.size + low + step for one in index for step in (0, 1)]
        weight = [one * side for one in weight for side in (1 - part, part)]
    return index, weight


def _onto_total(rng: np.random.Generator, sizes: Ints, totals: Totals) -> Ints:
    """Sizes (S, G) moved to add up to the total, each by its share of the variance, at random to whole numbers."""
    if totals.prior is not None:
        raise Unsupported(
            "The counts by group leave so many sizes open that they are not summed over together, as a prior of n or "
            "missing values ask for. State n where that is unknown, or ask for counts with less noise."
        )
    total = totals.high
    variance = sizes.var(axis=0) + 1e-9
    moved = sizes - (sizes.sum(axis=1) - total)[:, None] * (variance / variance.sum())
    moved = np.maximum(moved, 0.0)
    whole = np.floor(moved).astype(np.int64)
    for _ in range(200):
        missing = total - whole.sum(axis=1)
        if not missing.any():
            break
        g = chosen(rng, np.where(whole + np.sign(missing)[:, None] >= 0, variance, 0.0) + 1e-300)
        whole[np.arange(len(whole)), g] += np.sign(missing)
    return np.asarray(np.maximum(whole, 0))


def learn(observed: Observed, settings: Settings) -> Found:
    """Draws, how they were made, the law in words, and a verdict."""
    method = METHODS["table" if settings.method == AUTO else settings.method]
    method.read(settings.options)
    problem = problem_of(observed)
    flat, accepted = draw(problem, settings.rng, settings.chains * settings.draws)
    draws = {name: value.reshape(settings.chains, settings.draws, *value.shape[1:]) for name, value in flat.items()}
    shown = np.concatenate([draws[name].reshape(settings.chains, settings.draws, -1) for name in problem.model.free], 2)
    evidence = independent(shown, by="a table for each group")
    said = sentences(observed, flat, accepted)
    verdict = Verdict(evidence).saying(warnings=(*observed.warnings, *said.warnings), notes=said.notes)
    return Found(draws, method.name, method.words, law_words(observed), verdict, described=problem.model)


METHODS: Methods[Method] = Methods(
    "groups",
    Method("table", lambda: learn, "independent draws from a table of each group's likelihood, accepted by the law"),
    instead="table",
)
