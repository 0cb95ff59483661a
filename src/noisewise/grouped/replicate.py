"""Simulated groups: draws of the prior, records, and releases made from them.

A row of theta has parameters and shares of every group. Records fall into groups by a multinomial draw of the sizes,
each group's column is drawn from its law and cleaned as the schema says, and the statistic is computed from the records
exactly as the holder's would be (`likelihood.simulate`). A position among the records says nothing, so groups stand
one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.grouped.present import PRESENT
from noisewise.inference.degrees import Degrees
from noisewise.joining import record_count, same_records
from noisewise.likelihood.simulate import noisy_values
from noisewise.planning import Simulable
from noisewise.populations.cleaned import sample_records as column_records
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.printable import shown
from noisewise.release import NoisyValue
from noisewise.schema import Schema, presence_name
from noisewise.statistics.feature import Feature
from noisewise.statistics.presence import left_out_of
from noisewise.types import Floats, Ints

if TYPE_CHECKING:
    from noisewise.grouped.model import Grouped

__all__ = ["degrees", "sample_prior", "sample_records", "simulate_values", "theta_at"]

PIECE = 2_000_000  # records at once
SHARE = "share"


def sample_prior(rng: np.random.Generator, model: Grouped, count: int) -> dict[str, Array]:
    """`count` draws of parameters (count, G), shares, centres and spreads."""
    groups = len(model.groups)
    found: dict[str, Array] = {}
    common: dict[str, Array] = {}
    for line in model.lines:
        if line.name in model.pooled:
            centre = line.sample(rng, count)
            spread = np.asarray(model.spread_of(line.name).rvs(size=count, random_state=rng), dtype=float)
            u = centre[:, None] + spread[:, None] * rng.standard_normal((count, groups))
            found[line.name] = line.parameter(u)
            common |= {f"{line.name}.centre": line.parameter(centre), f"{line.name}.spread": spread}
        else:
            found[line.name] = line.parameter(line.sample(rng, count * groups)).reshape(count, groups)
    if not model.is_by_holder:
        found[SHARE] = rng.dirichlet(model.alpha, count)
    if PRESENT in model.free:
        own = model.share_present
        common[PRESENT] = rng.beta(own.a, own.b, count)
    return {**found, **common}


def theta_at(model: Grouped, at: object) -> dict[str, Array]:
    """Rows of theta from lists by name, or from numbers by label; shares need not be given where all are alike."""
    given: dict[str, object] = {}
    with suppress(TypeError, ValueError):
        given = dict(cast("Mapping[str, object]", at))
    found: dict[str, Array] = {}
    labels = model.component_labels
    for name in model.free:
        parts = labels.get(name, (name,))
        value = given.pop(name, None) if name in given else [given.pop(label, None) for label in parts]
        try:
            row = np.asarray(value, dtype=float).ravel()
        except (TypeError, ValueError):
            row = np.array([np.nan])
        if row.size != len(parts) or not np.isfinite(row).all():
            wanted = ", ".join(model.free)
            raise InvalidArgument(
                f"at= must give {len(parts)} number{'s' if len(parts) > 1 else ''} for {name}; it takes {wanted}.",
                argument="at",
            )
        found[name] = row[None, :] if name in labels else row
    if given:
        raise InvalidArgument(f"at= gives {shown(next(iter(given)))}, which is no unknown here.", argument="at")
    return found


def simulate_values(rng: np.random.Generator, model: Grouped, plan: Simulable, theta: Theta, *, n: int | None) -> Ints:
    """The published integers (K, size) of K data sets, one for each row of theta."""
    if model.is_by_holder:
        raise Unsupported(
            "Of a population with holders=True one plan does not say which holder it is of: simulate each holder's "
            "release from the law of its own group."
        )
    size = record_count(plan.part_schema, n)
    rows, each = rows_of(theta), max(1, PIECE // max(size, 1))
    done = []
    for start in range(0, rows, each):
        some = {name: np.asarray(value)[start : start + each] for name, value in theta.items()}
        records = sample_records(rng, model, plan.part_schema, size, some, plan.statistic.columns())
        done.append(noisy_values(rng, plan, records))
    return np.concatenate(done)


def sample_records(
    rng: np.random.Generator, model: Grouped, schema: Schema, n: int, theta: Theta, columns: Iterable[str]
) -> dict[str, Array]:
    """n cleaned records for each row of theta, by column (K, n)."""
    if model.is_by_holder:
        raise Unsupported("With holders=True every data set is a group: simulate each from the law of its own group.")
    own = model.of_schema(schema)
    wanted = set(columns)
    shares = np.asarray(theta[SHARE], dtype=float)
    sizes = rng.multinomial(n, shares / shares.sum(axis=1, keepdims=True))  # (K, G)
    rows, groups = sizes.shape
    found: dict[str, Array] = {}
    which = np.repeat(np.tile(np.arange(groups), rows), sizes.ravel()).reshape(rows, n)
    levels = np.unravel_index(which, [len(schema.levels(name)) for name in model.by])
    for name, level in zip(model.by, levels, strict=True):
        if name in wanted:
            found[name] = level.astype(float)
    if model.column in wanted:
        found[model.column] = _column(rng, own, schema, theta, sizes)
    left_out = left_out_of(wanted, schema)
    if left_out:
        known = own.share_present.known
        share = np.asarray(theta[PRESENT], dtype=float) if known is None else np.full(len(shares), known)
        is_present = (rng.random(which.shape) < share[:, None]).astype(float)
        found |= {presence_name(name): is_present for name in left_out}
    return found


def _column(rng: np.random.Generator, model: Grouped, schema: Schema, theta: Theta, sizes: Ints) -> Floats:
    """The described column: each group's records from its own law, one group after the other."""
    starts = np.cumsum(sizes.ravel()).reshape(sizes.shape) - sizes  # in all rows laid end to end
    x = np.zeros(int(sizes.sum()))
    for g, group in enumerate(model.groups):
        most = int(sizes[:, g].max())
        if most:
            population, own = model.population_of(theta, group)
            drawn = column_records(rng, population, schema, most, own, [model.column])[model.column]
            place = np.arange(most)[None, :]
            is_there = place < sizes[:, g, None]
            x[(starts[:, g, None] + place)[is_there]] = drawn[is_there]
    return x.reshape(len(sizes), -1)


def degrees(model: Grouped, releases: tuple[NoisyValue, ...]) -> Degrees:
    """Distinct sums of each group, and counts (one of which n gives away), against the unknowns of all groups."""
    if model.is_by_holder:
        raise Unsupported("Releases of holders that are groups each are not simulated together, so no check is made.")
    groups = len(model.groups)
    told = 0
    for indices in same_records(releases):
        features: set[Feature] = set()
        for k in indices:
            features |= set(releases[k].statistic.by_group()[1])
        counts = sum(1 for feature in features if not feature.columns())
        told += groups * len(features) - (0 if PRESENT in model.free else counts)
    unknowns = groups * len(model.lines) + groups - 1 + (PRESENT in model.free)
    advice = f"Release one more feature of {model.column} by {' and '.join(model.by)}, or of other records like these."
    return Degrees(told, told, unknowns, advice if told <= unknowns else "")
