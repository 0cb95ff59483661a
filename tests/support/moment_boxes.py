"""Rows in boxes, and how far one of them moves their moments, found without the code under test."""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy import optimize

from noisewise.schema import Bounded, Schema

RELATIONS = ["change-one", "add-remove"]
PARTS = [("xx", "xy", "yy"), ("xx", "xy"), ("xy",), ("xx",), ("yy",), ("xy", "yy")]


def schema_of(boxes, neighbours="change-one", n=12):
    """Columns x0, x1, ..., y with the given bounds; the last is y."""
    names = [*(f"x{i}" for i in range(len(boxes) - 1)), "y"]
    size = {"n": n} if neighbours == "change-one" else {"n_max": n}
    return Schema({k: Bounded(*b) for k, b in zip(names, boxes, strict=True)}, neighbours=neighbours, **size)


def names_of(schema):
    return [name for name in schema.columns if name != "y"]


def products(row, *, intercept, parts=("xx", "xy", "yy"), constant=False, fourth=False):
    """The oracle's own list of products of one row (x.., y), in the documented order, in any arithmetic."""
    w = [1, *row] if intercept else list(row)
    last = len(w) - 1
    result = []
    for a in range(len(w)):
        for b in range(a, len(w)):
            part = "yy" if a == last else ("xy" if b == last else "xx")
            if part in parts and (constant or not (intercept and a == b == 0)):
                result.append(w[a] * w[b])
    if fourth:
        x = w[:-1]
        for q in itertools.combinations_with_replacement(range(len(x)), 4):
            if not intercept or sum(a > 0 for a in q) >= 3:
                result.append(x[q[0]] * x[q[1]] * x[q[2]] * x[q[3]])
    return result


def distance_power(a, b, weights, norm):
    """The L1 distance, or the squared L2 distance (so that it stays exact in Fractions)."""
    moved = [w * (s - t) for w, s, t in zip(weights, a, b, strict=True)]
    return sum(abs(m) for m in moved) if norm == 1 else sum(m * m for m in moved)


def is_within(power, sensitivity):
    bound = sensitivity.value if sensitivity.norm == 1 else sensitivity.value**2
    return power <= bound


def shortened(v, radius):
    norm = np.linalg.norm(v)
    return v if norm <= radius else v * (radius / norm)


def largest_attack(moments, schema, norm, rng, restarts):
    """The largest distance an optimiser finds; an independent implementation of rows, blocks and products."""
    bounds = np.array([(schema.columns[c].low, schema.columns[c].high) for c in schema.columns])
    weights = np.array([float(w) for w in moments.default_weights(schema)])
    k, p = moments.average or 1, len(bounds)
    is_change = schema.is_change_one

    def statistic_of(total):
        intercept = moments.intercept
        if k == 1:
            options = {"parts": moments.parts, "constant": not is_change, "fourth": moments.fourth}
            return np.array(products(total, intercept=intercept, **options))
        scaled = [math.sqrt(k), *(total / math.sqrt(k))] if intercept else list(total / math.sqrt(k))
        last = len(scaled) - 1
        return np.array(
            [scaled[a] * scaled[b] for a in range(last + 1) for b in range(a, last + 1) if not (intercept and b == 0)]
        )

    def loss(t):
        records = bounds[:, 0] + (bounds[:, 1] - bounds[:, 0]) / (1 + np.exp(-np.clip(t, -40, 40).reshape(-1, p)))
        if moments.shrink is not None:
            records = np.array([shortened(v, float(moments.shrink)) for v in records])
        if not is_change:
            return -np.linalg.norm(weights * statistic_of(records[0]), ord=norm)
        rest = (k - 1) * records[2]
        return -np.linalg.norm(weights * (statistic_of(rest + records[0]) - statistic_of(rest + records[1])), ord=norm)

    best = 0.0
    for _ in range(restarts):
        start = rng.normal(size=3 * p) * rng.choice([0.3, 2.0, 6.0])
        for candidate in (start, np.sign(start) * 30):
            best = max(best, -loss(candidate))
        iterations = 60 if p <= 4 else 3
        best = max(best, -optimize.minimize(loss, start, method="L-BFGS-B", options={"maxiter": iterations}).fun)
    return best
