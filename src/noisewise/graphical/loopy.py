"""Loopy belief propagation: approximate answers for models whose junction tree is too large.

Each region r tells each of its variables v what it knows, until nobody has news (m a log probability over x_v):

    n_vr = sum of m_r'v over the other regions r' of v
    m_rv(x_v) = log sum over x_r with that x_v of exp(theta_r(x_r) + sum over u in r, u != v, of n_ur(x_u))

At a fixed point mu_r ~ exp(theta_r + sum of n_vr), and A is the Bethe approximation

    A = sum_r log Z_r + sum_v (1 - number of v's regions) log Z_v,     dA/dtheta = mu,     d mu/dtheta = Sigma

Z_r = sum of exp(theta_r + sum of n_vr), Z_v = sum of exp(all m to v). Exact when regions and variables form a tree.
With loops it is an approximation whose error is not known: there may be no fixed point or several, and the answer is
the one reached from m = 0 (Yedidia, Freeman & Weiss 2005). A pass visits the regions in their order and back. The first
passes replace messages; if they still move after that, messages are mixed with their old values (damped), which
settles most oscillations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from noisewise.compilation import njit
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.graphical.engine import Engine, JunctionEngine, Product, one_a_cell
from noisewise.graphical.propagation import cell_map, ends
from noisewise.graphical.structure import Regions, junction_tree
from noisewise.types import Floats, Ints

__all__ = ["LARGEST_TREE", "Beliefs", "LoopyEngine", "engine_for"]

LARGEST_TREE = 2_000_000  # cells of a junction tree
UNDAMPED = 50  # passes


def engine_for(tables: Regions, *, largest: int = LARGEST_TREE) -> Engine:
    """Exact if the cliques of a junction tree have at most `largest` cells in all, else loopy; `reason` says why."""
    tree = junction_tree(tables)
    cells = sum(math.prod(tables.shape(clique)) for clique in tree.cliques)
    if cells <= largest:
        return JunctionEngine(tables, tree)
    widest = max(len(clique) for clique in tree.cliques)
    reason = (
        f"Answers are approximate: exact inference in this model needs tables over up to {widest} variables "
        f"({cells:.2g} cells; the limit is {largest:.2g}), so loopy belief propagation is used. Its error is not "
        "known; a model with fewer or smaller cliques is answered exactly."
    )
    return LoopyEngine(tables, reason=reason)


class Beliefs(NamedTuple):
    """Where propagation came to rest."""

    total: float  # A
    mu: Floats
    passes: int
    change: float  # of the messages in the last pass, the largest
    converged: bool


class Factors(NamedTuple):
    """Flat arrays. A link joins a region with one of its variables; region r's are links[r]:links[r+1]."""

    region_starts: Ints
    links: Ints
    variables: Ints  # of each link
    variable_starts: Ints  # where a variable's states begin
    message_starts: Ints  # where a link's message begins
    state_starts: Ints  # where a link's map from the region's cells to states begins
    states: Ints


@dataclass(frozen=True)
class LoopyEngine:
    """Approximate inference by loopy belief propagation; what it approximates is `Engine`'s."""

    tables: Regions
    tolerance: float = 1e-10  # the largest change of a message, next to one plus the largest message
    passes: int = 500
    damping: float = 0.5  # the weight of a message's old value, once damped
    reason: str = "Answers are approximate: loopy belief propagation was asked for."

    is_exact = False

    def __post_init__(self) -> None:
        if not 0 <= self.damping < 1:
            raise InvalidArgument(f"damping must lie in [0, 1), not {self.damping}", argument="damping")

    @cached_property
    def factors(self) -> Factors:
        tables = self.tables
        links = [(r, v) for r, region in enumerate(tables.regions) for v in region]
        maps = [cell_map(tables, tables.regions[r], (v,)) for r, v in links]
        return Factors(
            tables.starts.astype(np.int64),
            ends([len(region) for region in tables.regions]),
            np.array([v for _, v in links], dtype=np.int64),
            ends(list(tables.states)),
            ends([tables.states[v] for _, v in links]),
            ends([len(part) for part in maps]),
            np.concatenate([*maps, np.zeros(0, dtype=np.int64)]),
        )

    def beliefs(self, potentials: Floats) -> Beliefs:
        """A and mu, with how many passes it took and whether the messages came to rest."""
        factors, theta = self.factors, one_a_cell(self.tables, potentials)
        messages = np.zeros(factors.message_starts[-1])
        passes, change = _settle(theta, factors, messages, self.tolerance, self.passes, self.damping)
        mu = np.empty(self.tables.cells)
        total = _bethe(theta, factors, messages, mu)
        return Beliefs(total, mu, passes, change, bool(change <= self.tolerance))

    def marginals(self, potentials: Floats) -> tuple[float, Floats]:
        found = self.beliefs(potentials)
        return found.total, found.mu

    def marginals_of_rows(self, potentials: Floats) -> tuple[Floats, Floats]:
        total, mu, _ = self.linearised(potentials)
        return total, mu

    def linearised(self, potentials: Floats) -> tuple[Floats, Floats, Product]:
        """Sigma as in `covariance`, its size judged by the products alone."""
        found = [self.beliefs(row) for row in potentials]

        def product(directions: Floats) -> Floats:
            pairs = zip(found, directions, strict=True)
            products = [self._response(beliefs, direction[:, None])[:, 0] for beliefs, direction in pairs]
            return np.array(products).reshape(np.shape(potentials))

        mu = np.array([beliefs.mu for beliefs in found]).reshape(np.shape(potentials))
        return np.array([beliefs.total for beliefs in found]), mu, product

    def covariance(self, potentials: Floats) -> Floats:
        """Sigma by linear response: the exact derivative of mu at the fixed point, with all regions' dependence.

        Where the messages did not come to rest there is no such derivative, and near a point where fixed points part
        it grows far beyond what a covariance can be; then covariances within each region are given, and zero between.
        """
        sigma = self._response(self.beliefs(potentials), np.eye(self.tables.cells))
        return (sigma + sigma.T) / 2

    def _response(self, found: Beliefs, directions: Floats) -> Floats:
        """Sigma directions, a column each."""
        within = self._within_regions(found.mu, directions)
        if not found.converged:
            return within
        try:
            heard = linear_news(self.tables, self.factors, found.mu, directions)
        except RuntimeError:  # the system is singular: fixed points part here
            return within
        response = self._within_regions(found.mu, directions + heard)
        # |Cov(t_i, v . t)| is at most a quarter of the range of v . t, so of the sum of the tables' ranges; a response
        # that is approximate may pass that a little, one beyond four times that says nothing.
        ranges = sum((np.ptp(directions[part], axis=0) for part in self._parts), np.zeros(directions.shape[1]))
        return response if np.all(np.abs(response) <= ranges + 1e-9) else within

    def _within_regions(self, mu: Floats, slope: Floats) -> Floats:
        """mu_r (g - mean of g under mu_r), region by region, a column of g each."""
        products = np.empty_like(slope)
        for part in self._parts:
            products[part] = mu[part, None] * (slope[part] - mu[part] @ slope[part])
        return products

    @cached_property
    def _parts(self) -> list[slice]:
        return [self.tables.part(r) for r in range(len(self.tables.regions))]

    def entropy(self, potentials: Floats) -> float:
        raise Unsupported(_REFUSED.format("The entropy of the whole distribution"))

    def sample(self, rng: np.random.Generator, potentials: Floats, count: int) -> Ints:
        raise Unsupported(_REFUSED.format("Drawing records"))

    def sample_tables(self, rng: np.random.Generator, potentials: Floats, count: int) -> Ints:
        raise Unsupported(_REFUSED.format("Drawing tables"))


_REFUSED = (
    "{} needs exact inference, which this model's cliques are too large for: loopy belief propagation knows the tables "
    "of regions, not one distribution that has them all. Use a model with fewer or smaller cliques."
)


@njit(cache=True)
def _log_sum(values: Floats) -> float:
    top = values.max()
    return float(top + math.log(np.exp(values - top).sum()))


@njit(cache=True)
def _known(factors: Factors, messages: Floats, known: Floats) -> None:
    """Of each variable the sum of all messages to it."""
    _, _, variables, variable_starts, message_starts, _, _ = factors
    known[:] = 0.0
    for link in range(len(variables)):
        begin, offset = message_starts[link], variable_starts[variables[link]]
        for x in range(message_starts[link + 1] - begin):
            known[offset + x] += messages[begin + x]


@njit(cache=True)
def _region_table(r: int, potentials: Floats, factors: Factors, messages: Floats, known: Floats) -> Floats:
    """theta_r + the sum of n_vr: the region's log belief, not normalised."""
    region_starts, links, variables, variable_starts, message_starts, state_starts, states = factors
    table = potentials[region_starts[r] : region_starts[r + 1]].copy()
    for link in range(links[r], links[r + 1]):
        offset, begin, where = variable_starts[variables[link]], message_starts[link], state_starts[link]
        for t in range(len(table)):
            x = states[where + t]
            table[t] += known[offset + x] - messages[begin + x]
    return table


@njit(cache=True)
def _tell(
    r: int, potentials: Floats, factors: Factors, messages: Floats, known: Floats, damping: float
) -> tuple[float, float]:
    """Region r's new messages, in place; their largest change and size."""
    _, links, variables, variable_starts, message_starts, state_starts, states = factors
    change, size = 0.0, 0.0
    for link in range(links[r], links[r + 1]):
        table = _region_table(r, potentials, factors, messages, known)
        offset, begin, where = variable_starts[variables[link]], message_starts[link], state_starts[link]
        count = message_starts[link + 1] - begin
        top, total = np.full(count, -np.inf), np.zeros(count)
        for t in range(len(table)):
            top[states[where + t]] = max(top[states[where + t]], table[t])
        for t in range(len(table)):
            total[states[where + t]] += math.exp(table[t] - top[states[where + t]])
        fresh = top + np.log(total)
        for x in range(count):
            fresh[x] -= known[offset + x] - messages[begin + x]
        fresh -= _log_sum(fresh)
        for x in range(count):
            change, size = max(change, abs(fresh[x] - messages[begin + x])), max(size, abs(fresh[x]))
            moved = (1.0 - damping) * (fresh[x] - messages[begin + x])
            messages[begin + x] += moved
            known[offset + x] += moved
    return change, size


@njit(cache=True)
def _settle(
    potentials: Floats, factors: Factors, messages: Floats, tolerance: float, passes: int, damping: float
) -> tuple[int, float]:
    """Messages in place; passes made, and the largest change in the last, next to one plus the largest message."""
    regions = len(factors[1]) - 1
    known = np.empty(factors[3][-1])
    share = 0.0
    for done in range(passes):
        _known(factors, messages, known)
        mixed = damping if done >= UNDAMPED else 0.0
        change, size = 0.0, 0.0
        for step in range(2 * regions):
            r = step if step < regions else 2 * regions - 1 - step
            moved, length = _tell(r, potentials, factors, messages, known, mixed)
            change, size = max(change, moved), max(size, length)
        share = change / (1.0 + size)
        if share <= tolerance:
            return done + 1, share
    return passes, share


@njit(cache=True)
def _bethe(potentials: Floats, factors: Factors, messages: Floats, mu: Floats) -> float:
    """A; writes mu."""
    region_starts, links, variables, variable_starts, _, _, _ = factors
    known = np.empty(variable_starts[-1])
    _known(factors, messages, known)
    total = 0.0
    for v in range(len(variable_starts) - 1):
        total += _log_sum(known[variable_starts[v] : variable_starts[v + 1]])
    for r in range(len(links) - 1):
        table = _region_table(r, potentials, factors, messages, known)
        normaliser = _log_sum(table)
        mu[region_starts[r] : region_starts[r + 1]] = np.exp(table - normaliser)
        total += normaliser
        for link in range(links[r], links[r + 1]):
            v = variables[link]
            total -= _log_sum(known[variable_starts[v] : variable_starts[v + 1]])
    return total


def linear_news(tables: Regions, factors: Factors, mu: Floats, directions: Floats) -> Floats:
    """What the cells of each region hear, sum of dn_vr, when theta moves in a direction; a column each.

    (1 - dm'/dm) dm = dm'/dtheta direction, m' the next messages:
    dm'_rv(x_v) = mean over mu_r given x_v of (dtheta_r + sum over u != v of dn_ur),    centred over x_v.
    """
    size = int(factors.message_starts[-1])
    gives: list[Block] = []  # dm' by dtheta
    tells: list[Block] = []  # dm' by dn
    hears: list[Block] = []  # a region's cells by dn
    for r in range(len(tables.regions)):
        part = tables.part(r)
        links = range(factors.links[r], factors.links[r + 1])
        marks = {_span(factors, link).start: _marks(factors, link, part) for link in links}
        for here, mark in marks.items():
            hears.append((part.start, here, mark))
            weights = mark * mu[part, None]
            below = weights.sum(axis=0)
            given = np.divide(weights, below, out=np.zeros_like(weights), where=below > 0).T
            given = given - given.mean(axis=0)
            gives.append((here, part.start, given))
            tells.extend((here, there, given @ other) for there, other in marks.items() if there != here)
    states = factors.variable_starts[np.repeat(factors.variables, np.diff(factors.message_starts))] + (
        np.arange(size) - np.repeat(factors.message_starts[:-1], np.diff(factors.message_starts))
    )
    same = sparse.csc_array((np.ones(size), (states, np.arange(size))), shape=(int(factors.variable_starts[-1]), size))
    others = same.T @ same - sparse.eye_array(size, format="csc")  # dn = others dm
    pull = sparse.eye_array(size, format="csc") - _assembled(tells, (size, size)) @ others
    change = splu(sparse.csc_array(pull)).solve(_assembled(gives, (size, tables.cells)) @ directions)
    return np.asarray(_assembled(hears, (tables.cells, size)) @ (others @ change))


Block = tuple[int, int, Floats]  # first row, first column, entries


def _assembled(blocks: list[Block], shape: tuple[int, int]) -> sparse.csc_array:
    grids = [np.indices(entries.shape).reshape(2, -1) + np.array([[i], [j]]) for i, j, entries in blocks]
    where = np.concatenate([*grids, np.zeros((2, 0), dtype=np.int64)], axis=1)
    values = np.concatenate([*(entries.ravel() for _, _, entries in blocks), np.zeros(0)])
    return sparse.csc_array((values, (where[0], where[1])), shape=shape)


def _span(factors: Factors, link: int) -> slice:
    return slice(int(factors.message_starts[link]), int(factors.message_starts[link + 1]))


def _marks(factors: Factors, link: int, part: slice) -> Floats:
    """(cells of the region, states of the link's variable): a one at each cell's state."""
    where, span = int(factors.state_starts[link]), _span(factors, link)
    return np.asarray(np.eye(span.stop - span.start)[factors.states[where : where + part.stop - part.start]])
