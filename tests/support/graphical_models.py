"""Graphical models with releases of hand-made records, and their tables by plain counting."""

from __future__ import annotations

import itertools

import numpy as np

import noisewise as nw
from noisewise.inference.posterior import Posterior
from noisewise.inference.verdict import Verdict, Words
from noisewise.release import Release

LEVELS = {"a": ["x", "y"], "b": ["u", "v", "w"], "c": [0, 1], "d": ["p", "q"]}
CLIQUES = [["a", "b"], ["b", "c"], ["c", "d"]]
FAST = {"draws": 60, "warmup": 60, "chains": 2, "progress": False, "seed": 1}


def schema_of(levels, *, n=None, n_max=None):
    columns = {name: nw.Levels(one) for name, one in levels.items()}
    if n is not None:
        return nw.Schema(columns, n=n, neighbours="change-one")
    return nw.Schema(columns, n_max=n_max, neighbours="add-remove")


def some_records(rng, n, levels=LEVELS):
    return {name: [one[k] for k in rng.integers(0, len(one), n)] for name, one in levels.items()}


def tally(records, columns, levels=LEVELS):
    """Counts of every combination of levels, the last column's changing first."""
    rows = list(zip(*(records[name] for name in columns), strict=True))
    return np.array([rows.count(cell) for cell in itertools.product(*(levels[name] for name in columns))], float)


def released(statistic, schema, records, *, guarantee=None, dataset="made", part=None, noise=0):
    """A release of records (rows of levels by column) with given noise in place of drawn noise."""
    plan = nw.plan(statistic, schema, guarantee=nw.PureDP(1) if guarantee is None else guarantee, part=part)
    own = plan.part_schema
    codes = {name: np.array([own.levels(name).index(value) for value in values]) for name, values in records.items()}
    value = np.asarray(statistic.value(codes, own)) + noise
    return Release.of(plan, value.tolist(), dataset=dataset, ledger_head=None, simulated=True)


def joint_law(model, theta):
    """Every record as levels, and its probability, by the definition of the model."""
    spread, starts = model.spread, model.tables.starts
    records = list(itertools.product(*(one.levels for one in model.levels)))
    scores = []
    for record in records:
        by_name = dict(zip(model.columns, record, strict=True))
        score = 0.0
        for r, clique in enumerate(model.cliques):
            cell = 0
            for name in clique:
                levels = model.levels[model.columns.index(name)].levels
                cell = cell * len(levels) + levels.index(by_name[name])
            score += theta[spread[starts[r] + cell]]
        scores.append(score)
    p = np.exp(np.array(scores) - max(scores))
    return records, p / p.sum()


def table_of(model, theta, columns, given=None):
    """P(columns | given) by adding up records, the last column's level changing first."""
    records, p = joint_law(model, theta)
    places = [model.columns.index(name) for name in columns]
    known = {model.columns.index(name): level for name, level in (given or {}).items()}
    total = {}
    for record, probability in zip(records, p, strict=True):
        if all(record[v] == level for v, level in known.items()):
            cell = tuple(record[v] for v in places)
            total[cell] = total.get(cell, 0.0) + probability
    cells = itertools.product(*(model.levels[v].levels for v in places))
    values = np.array([total.get(cell, 0.0) for cell in cells])
    return values / values.sum()


def posterior_at(model, rows, *, is_point=False):
    """A posterior whose draws are given rows of potentials."""
    draws = np.asarray(rows, float)[None]
    settings = {"method": "map" if is_point else "posterior", "how": "made", "likelihood": "auto",
                "verdict": Verdict(Words())}  # fmt: skip
    return Posterior(draws={"potentials": draws}, population=model, releases=(), seed=1, is_point=is_point, **settings)
