"""Small graphical models with everything about them enumerated, and the graphs of Bernstein (2020, section 3.3.2)."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noisewise.graphical.structure import Regions

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Enumerated(NamedTuple):
    """What a model says, by summing over all of its records; shares no code with the engines."""

    A: float
    mu: Floats  # (cells,)
    Sigma: Floats  # (cells, cells)
    entropy: float
    states: Ints  # (records, variables): every possible record
    probabilities: Floats  # of each


def cells_of(tables: Regions, records: Ints) -> Floats:
    """t(x) of each record, (records, cells): a one in every region's table, at the record's cell."""
    blocks = [np.zeros((len(records), 0), dtype=bool)]
    for region in tables.regions:
        columns = [records[:, v] for v in region]
        everywhere = itertools.product(*(range(tables.states[v]) for v in region))
        cells = [np.all([c == i for c, i in zip(columns, cell, strict=True)], axis=0) for cell in everywhere]
        blocks.append(np.stack(cells, axis=1))
    return np.concatenate(blocks, axis=1).astype(float)


def every_record(tables: Regions) -> Ints:
    return np.array(list(itertools.product(*(range(count) for count in tables.states))), dtype=np.int64)


def enumerated(tables: Regions, potentials: Floats) -> Enumerated:
    states = every_record(tables)
    t = cells_of(tables, states)
    score = t @ potentials
    top = score.max()
    weight = np.exp(score - top)
    p = weight / weight.sum()
    mu = p @ t
    entropy = -float(np.sum(p[p > 0] * np.log(p[p > 0])))
    return Enumerated(float(top + np.log(weight.sum())), mu, (t - mu).T @ (p[:, None] * (t - mu)), entropy, states, p)


def chain(nodes: int, states: int) -> Regions:
    return Regions((states,) * nodes, tuple(itertools.pairwise(range(nodes))))


def third_order(nodes: int, states: int) -> Regions:
    """An edge between nodes that are at most three apart."""
    edges = ((i, j) for i, j in itertools.combinations(range(nodes), 2) if j - i <= 3)
    return Regions((states,) * nodes, tuple(edges))


def erdos_renyi(rng: np.random.Generator, nodes: int, states: int, p: float = 0.25) -> Regions:
    """Each edge with probability p, drawn again until the graph is connected."""
    pairs = list(itertools.combinations(range(nodes), 2))
    while True:
        edges = [pair for pair in pairs if rng.random() < p]
        reached = {0}
        for _ in range(nodes):
            reached |= {w for edge in edges if reached & set(edge) for w in edge}
        if len(reached) == nodes:
            return Regions((states,) * nodes, tuple(edges))


def dirichlet_potentials(rng: np.random.Generator, tables: Regions) -> Floats:
    """Of each region the logarithms of one Dirichlet(1, ..., 1) draw."""
    sizes = np.diff(tables.starts)
    return np.concatenate([np.zeros(0), *(np.log(rng.dirichlet(np.ones(size))) for size in sizes)])
