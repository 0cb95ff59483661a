"""Releases of a graphical model, simulated: for the posterior predictive check, for calibration and for studies.

Tables of n records are drawn clique by clique along the junction tree, each separator's counts split by a multinomial:
exactly the law of n records, at a cost that does not grow with n. A table tied with `null` needs records one by one.
Noise has the plan's law.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import integer
from noisewise.graphical import prior
from noisewise.graphical.counted import CountedTable, counted_tables, sums_of, with_regions
from noisewise.graphical.gauge import GaugeFree
from noisewise.graphical.loopy import engine_for
from noisewise.graphical.model import POTENTIALS, TAU
from noisewise.graphical.probabilities import clique_tables, column_tables, table_rows
from noisewise.graphical.synthetic import record_engine
from noisewise.joining import record_count
from noisewise.laws import additive_law
from noisewise.likelihood.simulate import draw_noise, table_unit
from noisewise.planning import Simulable
from noisewise.populations.parameters import Theta
from noisewise.printable import shown
from noisewise.schema import Schema
from noisewise.statistics import Marginals
from noisewise.types import Floats, Integers

if TYPE_CHECKING:
    from noisewise.graphical.model import GraphicalModel

__all__ = ["sample_prior", "sample_records", "simulate_values", "theta_at"]

MOST_NUMBERS = 10**9  # drawn from the prior at once


def sample_prior(rng: np.random.Generator, model: GraphicalModel, count: int) -> dict[str, Floats]:
    """`count` draws of the width, the potentials without their gauge, and the probabilities they give."""
    size = integer(count, "count", minimum=0, maximum=MOST_NUMBERS // model.parameters)
    if not isinstance(rng, np.random.Generator):
        raise InvalidArgument(f"rng is a {type(rng).__name__}; give a numpy.random.Generator.", argument="rng")
    tau, theta = prior.draw(rng, size, model.parameters)
    return {**probabilities_of(model, theta), TAU: tau}


def theta_at(model: GraphicalModel, at: object) -> dict[str, Floats]:
    """Rows of theta from at={"potentials": numbers}, one row or several."""
    given = at.get(POTENTIALS) if isinstance(at, Mapping) and set(at) == {POTENTIALS} else None
    try:
        value = np.atleast_2d(np.asarray(given, dtype=float))
    except (TypeError, ValueError, OverflowError):
        value = np.full((1, 1), np.nan)
    if value.ndim != 2 or value.shape[1] != model.parameters or not np.all(np.isfinite(value)):
        raise InvalidArgument(
            f"at= must be {{'potentials': ...}} with {model.parameters} finite numbers: a table for each clique, in "
            "their order (tied ones once), the last column's level changing first.",
            argument="at",
        )
    return probabilities_of(model, value)


def probabilities_of(model: GraphicalModel, theta: Floats) -> dict[str, Floats]:
    """Rows of parameters by name, with the probabilities they give."""
    mu = table_rows(model, theta)
    free = GaugeFree(model.tables, model.spread)(theta)
    return {**column_tables(model, mu), **clique_tables(model, mu), POTENTIALS: free}


def simulate_values(
    rng: np.random.Generator, model: GraphicalModel, plan: Simulable, theta: Theta, *, n: int | None
) -> Integers:
    """The published integers (K, size) of K data sets, one a row of theta."""
    statistic, schema = plan.statistic, plan.part_schema
    counted = counted_tables(model, statistic, schema)
    size = record_count(schema, n)
    if POTENTIALS not in theta:
        raise InvalidArgument("Records are simulated at potentials; this theta has none.", argument="theta")
    rows = np.asarray(theta[POTENTIALS])
    if isinstance(statistic, Marginals) and statistic.null is not None:
        records = sample_records(rng, model, schema, size, theta, statistic.columns())
        counts = list(statistic.value(records, schema))
    else:
        counts = _from_tables(rng, model, rows, counted, size)
    law = additive_law(plan.law)
    noise = [draw_noise(rng, law, len(rows), component=k) for k in range(law.size)]
    return np.asarray(np.stack(counts) * table_unit(plan) + np.stack(noise, axis=1))


def _from_tables(
    rng: np.random.Generator, model: GraphicalModel, rows: Floats, counted: list[CountedTable], n: int
) -> list[Integers]:
    tables = with_regions(model.tables, [clique for table in counted for clique in table.cliques])
    engine: Any = engine_for(tables)
    if not engine.is_exact:
        raise Unsupported("Releases of this model are not simulated: its junction tree is too large to draw from.")
    sums = sparse.vstack([sums_of(tables, table) for table in counted], format="csr").astype(np.int64)
    potentials = np.zeros(tables.cells)
    drawn = []
    for row in rows:
        potentials[: len(model.spread)] = row[model.spread]
        drawn.append(np.asarray(sums @ engine.sample_tables(rng, potentials, n)))
    return drawn


def sample_records(
    rng: np.random.Generator, model: GraphicalModel, schema: Schema, n: int, theta: Theta, columns: Iterable[str]
) -> dict[str, Floats]:
    """n records for each row of theta, by column (K, n), as numbers of the schema's levels."""
    engine, spread = record_engine(model), model.spread
    drawn = np.stack([engine.sample(rng, row[spread], n) for row in np.asarray(theta[POTENTIALS])])
    found = {}
    for name in columns:
        if name not in model.columns:
            raise InvalidArgument(f"The model has no column {shown(name)}.", argument="columns")
        v = model.columns.index(name)
        order = np.array([schema.levels(name).index(level) for level in model.levels[v].levels], dtype=float)
        found[name] = order[drawn[:, :, v]]
    return found
