"""Who learns in the graphical studies, and the synthetic graphs of Bernstein (2020, thesis, section 3.3.2).

    chain          x_1 - x_2 - ... - x_T
    third-order    edges between columns at most three apart
    erdos-renyi    each pair with chance 1/4, drawn anew until connected
The potentials of an edge are log d, d ~ Dirichlet(1) over the cells of its table. Tables of n records are drawn
exactly; the noise is that of a plan of `Marginals` of all edges, simulated.

    naive            the noisy tables taken at their word: projection and a ridge, by the stated rule
    naive-fixed      the same with a ridge of 1e-6, whatever the noise: what "arbitrarily small" amounts to
    naive-oracle     the best of 13 ridges, 1e-6 to 1 in half decades, by the true divergence: an oracle
    collective       EM for collective graphical models with its stated stopping rule
    map, posterior   noise-aware, ours; the posterior's estimate is the model with its mean tables
    dp-sgd           private stochastic gradients at (epsilon, 1/n), records added or removed; constants by the true
                     divergence, an oracle, as in print
    non-private      maximum likelihood with the true tables
    direct           no model: y/n and an interval from noise and sampling alone
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from noisewise.graphical import matrix_free, sampler
from noisewise.graphical.engine import Floats, Ints, JunctionEngine
from noisewise.graphical.matching import match
from noisewise.graphical.model import GraphicalModel
from noisewise.graphical.problem import Problem
from noisewise.graphical.structure import Regions
from noisewise.laws import additive_law
from noisewise.likelihood.simulate import draw_noise
from noisewise.planning import Plan, plan
from noisewise.privacy.guarantee import ApproxDP, PureDP
from noisewise.published.baselines.dp_sgd import dp_sgd
from noisewise.published.baselines.non_private_graphical import TINY_RIDGE, non_private_graphical
from noisewise.published.graphical import collective, naive
from noisewise.release import Release
from noisewise.schema import Levels, Schema
from noisewise.statistics import Histogram, Marginals

GRAPHS = ("chain", "third-order", "erdos-renyi")
STATES = {"chain": 10, "third-order": 4, "erdos-renyi": 4}  # as in print, where none are given
EDGE_CHANCE = 0.25
MECHANISMS = ("laplace", "geometric", "gaussian")
NEIGHBOURS = ("change-one", "add-remove")
METHODS = ("naive", "naive-fixed", "naive-oracle", "collective", "map", "posterior", "dp-sgd", "non-private", "direct")
RIDGES = tuple(10.0 ** (-6 + k / 2) for k in range(13))
GRADIENTS = tuple(itertools.product((100, 400, 1600), (0.5, 2.0, 8.0)))  # steps and learning rates of dp-sgd
BATCH = 2000  # records of a minibatch, or a tenth of all
CHAINS = 4
LEVEL = 0.9


class Estimate(NamedTuple):
    """What one method found: parameters, the ends of 90 % intervals of the cells, the processor's seconds."""

    theta: Floats | None
    interval: tuple[Floats, Floats] | None
    seconds: float


class Data(NamedTuple):
    """The true tables of some records, and the records themselves where a method reads them."""

    n: int
    counts: Ints
    records: Ints | None


@dataclass(frozen=True, eq=False)
class World:
    """A graphical model and its true potentials, clique by clique."""

    model: GraphicalModel
    potentials: Floats

    @classmethod
    def drawn(cls, rng: np.random.Generator, graph: str, nodes: int, states: int | None) -> World:
        """A graph, and potentials for its edges."""
        size = STATES[graph] if states is None else states
        names = [f"x{v + 1}" for v in range(nodes)]
        edges = edges_of(rng, graph, nodes)
        model = GraphicalModel([(names[v], names[w]) for v, w in edges], {name: range(size) for name in names})
        return cls(model, np.concatenate([np.log(rng.dirichlet(np.ones(size**2))) for _ in edges]))

    @cached_property
    def engine(self) -> JunctionEngine:
        return JunctionEngine(self.model.tables)

    @cached_property
    def truth(self) -> tuple[float, Floats]:
        """A and the probability of every cell."""
        return self.engine.marginals(self.potentials)

    def divergence(self, theta: Floats) -> float:
        """KL(p_true || p_theta) = (theta* - theta) . mu* - A(theta*) + A(theta), exactly."""
        total, mu = self.truth
        return float((self.potentials - theta) @ mu - total + self.engine.marginals(theta)[0])

    def draw(self, rng: np.random.Generator, n: int, *, with_records: bool) -> Data:
        """Tables of n records; without the records at a cost that does not grow with n."""
        if not with_records:
            return Data(n, self.engine.sample_tables(rng, self.potentials, n), None)
        records = self.engine.sample(rng, self.potentials, n)
        return Data(n, counted(self.engine.tables, records), records)

    def plan(self, n: int, epsilon: float, *, neighbours: str, mechanism: str) -> Plan:
        """All edge tables: epsilon-DP, or (epsilon, 1/n)-DP for Gaussian noise."""
        columns = dict(zip(self.model.columns, self.model.levels, strict=True))
        return tables_plan(Marginals(*self.model.cliques), columns, n, epsilon, neighbours, mechanism)


def edges_of(rng: np.random.Generator, graph: str, nodes: int) -> list[tuple[int, int]]:
    """Pairs v < w."""
    pairs = list(itertools.combinations(range(nodes), 2))
    if graph != "erdos-renyi":
        reach = 1 if graph == "chain" else 3
        return [(v, w) for v, w in pairs if w - v <= reach]
    while True:
        edges = [pair for pair in pairs if rng.random() < EDGE_CHANCE]
        if is_connected(edges, nodes):
            return edges


def is_connected(edges: Sequence[tuple[int, int]], nodes: int) -> bool:
    """Whether every node is reached from the first."""
    reached, before = {0}, 0
    while len(reached) > before:
        before = len(reached)
        reached |= {w for pair in edges if reached & set(pair) for w in pair}
    return len(reached) == nodes


def counted(tables: Regions, records: Ints) -> Ints:
    """The tables (cells,) of records (n, variables)."""
    counts = []
    for region in tables.regions:
        shape = tables.shape(region)
        cells = np.ravel_multi_index([records[:, v] for v in region], shape)
        counts.append(np.bincount(cells, minlength=math.prod(shape)))
    return np.concatenate(counts)


def tables_plan(
    statistic: Marginals | Histogram,
    columns: dict[str, Levels],
    n: int,
    epsilon: float,
    neighbours: str,
    mechanism: str,
    part: tuple[Fraction, Fraction] | None = None,
) -> Plan:
    """A plan for (a part of) n records, which is private under add-remove."""
    size: dict[str, Any] = {"n": n} if neighbours == "change-one" else {"n_max": n}
    schema = Schema(columns, neighbours=neighbours, **size)
    guarantee = ApproxDP(epsilon, 1 / n) if mechanism == "gaussian" else PureDP(epsilon)
    return plan(statistic, schema, guarantee=guarantee, mechanism=mechanism, part=part)


def released(rng: np.random.Generator, planned: Plan, counts: Ints) -> Release:
    """The release of true tables, in their units, with simulated noise of the plan's law."""
    assert len(set(additive_law(planned.law).ratio)) == 1
    value = counts + draw_noise(rng, planned.law, len(counts))
    name = f"simulated-{rng.bytes(8).hex()}"
    return Release.of(planned, value.tolist(), dataset=name, ledger_head=None, simulated=True)


@dataclass(frozen=True, eq=False)
class Case:
    """One release of one world's records, and what methods may read."""

    world: World
    data: Data
    release: Release
    problem: Problem
    epsilon: float
    draws: int

    @classmethod
    def drawn(
        cls, rng: np.random.Generator, world: World, n: int, epsilon: float, *, neighbours: str, mechanism: str,
        draws: int, with_records: bool,
    ) -> Case:  # fmt: skip
        """Records, and a release of their tables."""
        data = world.draw(rng, n, with_records=with_records)
        planned = world.plan(n, epsilon, neighbours=neighbours, mechanism=mechanism)
        release = released(rng, planned, data.counts)
        problem = world.model.problem(release, n=None if neighbours == "change-one" else n)
        return cls(world, data, release, problem, epsilon, draws)

    def fit(self, rng: np.random.Generator, method: str) -> Estimate:
        """What one method finds, and how long it takes."""
        began = time.process_time()
        theta, interval = FITTERS[method](rng, self)
        return Estimate(theta, interval, time.process_time() - began)


Found = tuple[Floats | None, tuple[Floats, Floats] | None]


def _point(fit: Callable[[Problem], Any]) -> Callable[[np.random.Generator, Case], Found]:
    return lambda _, case: (fit(case.problem).theta, None)


def _naive_oracle(_: np.random.Generator, case: Case) -> Found:
    tried = [naive.fit(case.problem, ridge=ridge).theta for ridge in RIDGES]
    return min(tried, key=case.world.divergence), None


def _posterior(rng: np.random.Generator, case: Case) -> Found:
    theta, mu = posterior_tables(rng, case.problem, case.draws)
    low, high = np.quantile(mu, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return theta, (low, high)


def posterior_tables(rng: np.random.Generator, problem: Problem, draws: int) -> tuple[Floats, Floats]:
    """The model with the posterior's mean tables, and the tables of all draws (K, cells)."""
    found = sampler.sample(problem, rng, chains=CHAINS, draws=draws, warmup=draws)
    theta = found.theta.reshape(-1, problem.parameters)
    _, mu = problem.engine.marginals_of_rows(problem.potentials(theta))
    return match(problem, problem.gather(mu.mean(axis=0)), start=theta.mean(axis=0)), mu


def _dp_sgd(rng: np.random.Generator, case: Case) -> Found:
    n = case.data.n
    assert case.data.records is not None
    tried = [
        dp_sgd(
            rng, case.problem, case.data.records, epsilon=case.epsilon, delta=1 / n, steps=steps, learning_rate=rate,
            sampling_rate=min(0.1, BATCH / n),
        ).theta
        for steps, rate in GRADIENTS
    ]  # fmt: skip
    return min(tried, key=case.world.divergence), None


def _non_private(_: np.random.Generator, case: Case) -> Found:
    return non_private_graphical(case.problem, case.data.counts, n=case.data.n).theta, None


def _direct(_: np.random.Generator, case: Case) -> Found:
    found = case.world.model.direct(case.release, level=LEVEL, n=None if case.release.schema.n else case.data.n)
    return None, (np.asarray(found.low), np.asarray(found.high))


FITTERS: dict[str, Callable[[np.random.Generator, Case], Found]] = {
    "naive": _point(naive.fit),
    "naive-fixed": _point(lambda problem: naive.fit(problem, ridge=TINY_RIDGE)),
    "naive-oracle": _naive_oracle,
    "collective": _point(collective.fit),
    "map": _point(matrix_free.estimate),
    "posterior": _posterior,
    "dp-sgd": _dp_sgd,
    "non-private": _non_private,
    "direct": _direct,
}


def colour(method: str) -> str:
    """The same method has the same colour in every figure."""
    return f"C{METHODS.index(method)}"
