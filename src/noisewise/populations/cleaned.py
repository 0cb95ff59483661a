"""The population as seen through a schema: what a cleaned record's features, cells and draws are like.

A record is clamped to the declared bounds (outside="clamp"), or records outside were refused, so that those that remain
follow the population truncated to the bounds (outside="refuse"). Every function here takes K parameter values at once
and answers with K rows:

    attach               which population describes each column, or why none does
    row_moments          mean (K, d) and covariance (K, d, d) of the features of one cleaned record
    sum_moments          those of the sum of n records
    cell_probabilities   the law of the cell that one cleaned record falls into, (K, cells)
    sample_records       cleaned records, by column (K, n)
    records_from_base    cleaned records as functions of uniform base draws shared by all rows, smooth in theta

Columns of a `Joint` are independent: moments of sums of products are products of one-column moments, exact to the
rounding of the nodes (`products`, `nodes`). Other features that mix columns, and columns of a `MultivariateNormal`, are
summed over weighted points of several columns (`grids`, which states its accuracy). What is said here is of laws of
columns; a population known otherwise registers its own answers (`simulator`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray
from scipy import special

from noisewise.errors import Unsupported
from noisewise.populations.cells import column_cells
from noisewise.populations.distribution import BernoulliLaw, CategoricalLaw
from noisewise.populations.grids import CHUNK, normal_points, row_chunks, weighted_points
from noisewise.populations.multivariate import MultivariateNormal
from noisewise.populations.nodes import Nodes, feature_moments, quantile_inside
from noisewise.populations.normal_products import (
    are_polynomials,
    clamped_moments,
    corrected,
    far_rows,
    polynomial_moments,
)
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import AnyPopulation, Joint, Population
from noisewise.populations.products import Term, expanded
from noisewise.schema import Bounded, Levels, Schema
from noisewise.statistics.additive import Count
from noisewise.statistics.feature import Feature
from noisewise.statistics.local import Records
from noisewise.statistics.tables import Histogram, Marginals, refuse_tied

__all__ = [
    "AnyPopulation",
    "attach",
    "base_size",
    "cell_probabilities",
    "condition_probability",
    "drawn_records",
    "records_from_base",
    "row_moments",
    "sample_records",
    "single_rows",
    "sum_moments",
]

CellStatistic = Records | Histogram | Marginals | Count
MOST_REDRAWS = 10_000
MOST_LISTED = 4096  # values of a discrete record between its bounds


@singledispatch
def attach(population: AnyPopulation, schema: Schema, columns: Iterable[str]) -> Mapping[str, Population]:
    """The law of each column that is used; a population of one column describes exactly one."""
    names = sorted(set(columns))
    if isinstance(population, Population) and len(names) != 1:
        raise Unsupported(
            f"The release uses the columns {', '.join(names)}; describe each of them, as in "
            f"Joint({'=..., '.join(names)}=...), or a law in every group, as in Grouped('region', income=...)."
        )
    for name in names:
        if population.columns and name not in population.columns:
            raise Unsupported(
                f"The release uses column {name!r}, which the population does not describe; "
                f"it describes {', '.join(population.columns)}."
            )
        _check_fit(population.marginal(name), schema, name)
    return {name: population.marginal(name) for name in names}


@singledispatch
def is_possible(population: AnyPopulation, schema: Schema, columns: Iterable[str], theta: Theta) -> NDArray[np.bool_]:
    """(K,): False where records inside the bounds are impossible, so that a schema that refuses others has none."""
    possible = np.ones(rows_of(theta), bool)
    for name, law in attach(population, schema, columns).items():
        entry = schema.column(name)
        if schema.outside == "clamp" or not isinstance(entry, Bounded):
            continue
        mine = population.theta_of(name, theta)
        mass = law.between([np.nextafter(entry.low, -np.inf)], [entry.high], mine)[:, 0]
        # A mass too small for a double is not impossible: then the density itself tells.
        inside = law.log_density(np.linspace(entry.low, entry.high, 129), mine)
        possible &= (mass != 0) | (inside != -np.inf).any(axis=1)
    return possible


@singledispatch
def row_moments(
    population: AnyPopulation, schema: Schema, features: Sequence[Feature], theta: Theta
) -> tuple[Array, Array]:
    """Mean (K, d) and covariance (K, d, d) of the features of one cleaned record."""
    used = attach(population, schema, _columns(features))
    scope = _scope(population, schema, used)
    terms = [expansion for expansion in map(expanded, features) if expansion is not None]
    if len(terms) < len(features):
        return _mixed_moments(population, schema, features, scope, theta)
    return _product_moments(population, used, schema, terms, theta)


@row_moments.register
def _(population: MultivariateNormal, schema: Schema, features: Sequence[Feature], theta: Theta) -> tuple[Array, Array]:
    """The same of columns that are normal together: closed for polynomials of them, as far as nobody is clamped."""
    used = attach(population, schema, _columns(features))
    scope = _scope(population, schema, used)
    if len(scope) > 1 and are_polynomials(features):
        return _polynomial_moments(population, schema, features, scope, theta)
    terms = [expansion for expansion in map(expanded, features) if expansion is not None]
    if len(scope) > 1 or len(terms) < len(features):
        return _mixed_moments(population, schema, features, scope, theta)
    return _product_moments(population, used, schema, terms, theta)


@singledispatch
def sum_moments(
    population: AnyPopulation, schema: Schema, features: Sequence[Feature], theta: Theta, n: int
) -> tuple[Array, Array]:
    """Mean (K, d) and covariance (K, d, d) of the features summed over n cleaned records."""
    mean, covariance = row_moments(population, schema, features, theta)
    return n * mean, n * covariance


@singledispatch
def cell_probabilities(population: AnyPopulation, schema: Schema, statistic: CellStatistic, theta: Theta) -> Array:
    """The probability (K, cells) of each cell that one cleaned record may fall into; Count gives [no, yes]."""
    if isinstance(statistic, Marginals):
        return _clique_probabilities(population, schema, statistic, theta)
    if isinstance(statistic, Count) or (isinstance(statistic, Records) and _is_indicator(statistic)):
        condition = statistic.condition if isinstance(statistic, Count) else statistic.feature
        yes = np.clip(condition_probability(population, schema, condition, theta), 0.0, 1.0)
        return np.stack([1 - yes, yes], axis=-1)
    if isinstance(statistic, Histogram):
        feature, edges = Feature("column", (statistic.column,)), statistic.inner_edges(schema)
    else:
        statistic.cell_count(schema)
        feature, edges = statistic.feature, statistic.cells
    used = attach(population, schema, feature.columns())
    scope = _scope(population, schema, used)
    if len(scope) > 1:
        return _point_cells(population, schema, feature, edges or (), scope, theta)
    ((column, law),) = used.items()
    p = column_cells(law, schema, column, feature, edges, population.theta_of(column, theta))
    return np.array(np.broadcast_to(p, (rows_of(theta), p.shape[-1])))


def sample_records(
    rng: np.random.Generator, population: AnyPopulation, schema: Schema, n: int, theta: Theta, columns: Iterable[str]
) -> dict[str, Array]:
    """n cleaned records for each row of theta, by column (K, n)."""
    return drawn_records(population, rng, schema, n, theta, columns)


@singledispatch
def drawn_records(
    population: AnyPopulation, rng: np.random.Generator, schema: Schema, n: int, theta: Theta, columns: Iterable[str]
) -> dict[str, Array]:
    """The same, by the kind of the population."""
    used, shape = attach(population, schema, columns), (rows_of(theta), n)
    if isinstance(population, MultivariateNormal):
        return _sample_normals(rng, population, schema, n, theta, used)
    drawn = {}
    for column, law in used.items():
        own, entry = population.theta_of(column, theta), schema.column(column)
        if isinstance(entry, Bounded) and schema.outside == "refuse":
            drawn[column] = quantile_inside(law, entry, rng.random(shape), own)
        else:
            drawn[column] = _clamped(law.distribution.sample(rng, shape, law.values(own)), entry)
    return drawn


@singledispatch
def records_from_base(
    population: AnyPopulation, schema: Schema, u: Mapping[str, Array], theta: Theta, columns: Iterable[str]
) -> dict[str, Array]:
    """Cleaned records (K, ..., n) from uniform base draws u (..., n) of each column, shared by all rows of theta."""
    used, K = attach(population, schema, columns), rows_of(theta)
    flat = {column: np.asarray(u[column], dtype=float).reshape(-1) for column in used}
    if isinstance(population, MultivariateNormal):
        if schema.outside == "refuse":
            raise Unsupported("A multivariate normal truncated to bounds (outside='refuse') has no base draws.")
        z = special.ndtri(np.stack(list(flat.values()), axis=-1))
        raw: Mapping[str, Array] = population.from_normals(z, theta, list(used))
        made = {column: _clamped(x, schema.column(column)) for column, x in raw.items()}
    else:
        made = {
            column: _from_base(population, law, schema, column, flat[column], theta) for column, law in used.items()
        }
    return {column: np.broadcast_to(x, (K, x.shape[-1])).reshape(K, *np.shape(u[column])) for column, x in made.items()}


def single_rows(theta: Theta) -> list[dict[str, Array]]:
    """theta one row at a time, for work that is too large for many rows at once."""
    return [{name: np.asarray(value)[k : k + 1] for name, value in theta.items()} for k in range(rows_of(theta))]


def base_size(columns: Iterable[str]) -> int:
    """How many uniform base draws one record takes: one a column."""
    return len(set(columns))


def _from_base(
    population: AnyPopulation, law: Population, schema: Schema, column: str, u: Array, theta: Theta
) -> Array:
    own, entry = population.theta_of(column, theta), schema.column(column)
    if isinstance(entry, Bounded) and schema.outside == "refuse":
        return quantile_inside(law, entry, u, own)
    if law.is_discrete and isinstance(entry, Bounded) and entry.high - entry.low < min(MOST_LISTED, u.size):
        return _listed_quantile(law, entry, u, own)
    return _clamped(law.quantile(u, own), entry)


def _listed_quantile(law: Population, entry: Bounded, u: Array, theta: Theta) -> Array:
    """Clamped quantiles of a discrete record, looked up in a list of its few values: far faster than one by one."""
    middle = law.quantile([0.5], theta)
    origin = float(middle[np.isfinite(middle)][0]) % 1 if np.isfinite(middle).any() else 0.0
    points = origin + np.arange(np.ceil(entry.low - origin), np.floor(entry.high - origin) + 1)
    values = np.array([entry.low, *points, entry.high])
    upto = law.cdf([np.nextafter(entry.low, -np.inf), *points], theta)
    found = np.stack([values[np.searchsorted(row, u)] for row in upto])
    return np.where(np.isnan(upto).any(axis=1, keepdims=True), np.nan, found)


def _sample_normals(
    rng: np.random.Generator,
    population: MultivariateNormal,
    schema: Schema,
    n: int,
    theta: Theta,
    columns: Iterable[str],
) -> dict[str, Array]:
    """Clamped records; or, under outside="refuse", records drawn again until all their columns are inside."""
    drawn = population.sample(rng, n, theta)
    if schema.outside == "clamp":
        return {name: _clamped(drawn[name], schema.column(name)) for name in columns}
    bounds = {name: schema.bounded(name) for name in population.columns if name in schema.columns}
    for _ in range(MOST_REDRAWS):
        outside = np.any([(drawn[c] < b.low) | (drawn[c] > b.high) for c, b in bounds.items()], axis=0)
        if not outside.any():
            return {name: drawn[name] for name in columns}
        again = population.sample(rng, n, theta)
        drawn = {name: np.where(outside, again[name], x) for name, x in drawn.items()}
    raise Unsupported("Under some parameters almost no record of this population lies inside the declared bounds.")


def _columns(features: Sequence[Feature]) -> frozenset[str]:
    return frozenset().union(*(feature.columns() for feature in features))


def _check_fit(population: Population, schema: Schema, name: str) -> None:
    """Levels take Categorical (or Bernoulli for two); numeric columns take everything but Categorical."""
    entry, law = schema.column(name), population.distribution
    if isinstance(law, CategoricalLaw):
        if not isinstance(entry, Levels):
            raise Unsupported(
                f"Column {name!r} is numeric, so Categorical cannot describe it; use Normal, Poisson, ..."
            )
        size = np.shape(population.parameters.known["p"])[-1] if "p" in population.parameters.known else (
            population.supports["p"].size)  # fmt: skip
        if size != len(entry):
            raise Unsupported(
                f"Column {name!r} has {len(entry)} levels, but its Categorical lists {size} probabilities."
            )
    elif isinstance(entry, Levels) and not (isinstance(law, BernoulliLaw) and len(entry) == 2):
        two = " or Bernoulli(p=...), p the probability of the second level" if len(entry) == 2 else ""
        raise Unsupported(
            f"Column {name!r} has {len(entry)} levels, which {law.name} cannot describe; use Categorical(p=...){two}."
        )


def _product_moments(
    population: AnyPopulation,
    used: Mapping[str, Population],
    schema: Schema,
    features: Sequence[tuple[Term, ...]],
    theta: Theta,
) -> tuple[Array, Array]:
    """Moments of sums of products over independent columns."""
    K, d = rows_of(theta), len(features)
    every = list(itertools.chain(*features))
    factors = {name: list(dict.fromkeys(t.factors[name] for t in every if name in t.factors)) for name in used}
    moments = {name: _column_moments(population, used[name], schema, name, row, theta)
               for name, row in factors.items() if row}  # fmt: skip
    mean, covariance = np.zeros((K, d)), np.zeros((K, d, d))
    for i, terms in enumerate(features):
        for term in terms:
            product = np.full(K, term.coefficient)
            for name, factor in term.factors.items():
                product = product * moments[name][0][:, factors[name].index(factor)]
            mean[:, i] += product
    for i, j in itertools.combinations_with_replacement(range(d), 2):
        for s, t in itertools.product(features[i], features[j]):
            covariance[:, i, j] += _term_covariance(s, t, factors, moments, K)
        covariance[:, j, i] = covariance[:, i, j]
    return mean, covariance


def _term_covariance(
    s: Term, t: Term, factors: Mapping[str, list[Feature]], moments: Mapping[str, tuple[Array, Array]], K: int
) -> Array:
    """c_s c_t (prod_j (a_j + b_j) - prod_j a_j), telescoped: no difference of large numbers is taken."""
    if not set(s.factors) & set(t.factors):
        return np.zeros(K)
    total, raw = np.zeros(K), np.ones(K)  # so far: prod (a + b) - prod a, and prod (a + b)
    for name in {**s.factors, **t.factors}:
        mean, covariance = moments[name]
        k = factors[name].index(s.factors[name]) if name in s.factors else None
        m = factors[name].index(t.factors[name]) if name in t.factors else None
        a = (1.0 if k is None else mean[:, k]) * (1.0 if m is None else mean[:, m])
        b = covariance[:, k, m] if k is not None and m is not None else np.zeros(K)
        total = total * a + raw * b
        raw = raw * (a + b)
    return np.asarray(s.coefficient * t.coefficient * total)


def _column_moments(
    population: AnyPopulation, law: Population, schema: Schema, name: str, row: Sequence[Feature], theta: Theta
) -> tuple[Array, Array]:
    """Mean (K, d) and covariance (K, d, d) of features of one column."""
    mean, covariance = feature_moments(law, schema, row, population.theta_of(name, theta))
    K, d = rows_of(theta), len(row)
    return np.broadcast_to(mean, (K, d)), np.broadcast_to(covariance, (K, d, d))


def _scope(population: AnyPopulation, schema: Schema, columns: Iterable[str]) -> list[str]:
    """The columns to integrate over: under truncation a dependent column matters even where no feature reads it."""
    names = set(columns)
    if isinstance(population, MultivariateNormal) and schema.outside == "refuse" and names:
        names |= {name for name in population.columns if name in schema.columns}
    return sorted(names)


def _mixed_moments(
    population: AnyPopulation, schema: Schema, features: Sequence[Feature], scope: Sequence[str], theta: Theta
) -> tuple[Array, Array]:
    """Moments of features that mix columns: by pairs of columns where that is enough."""
    if _widest(features) <= 2 < len(scope) and (isinstance(population, Joint) or schema.outside == "clamp"):
        return _pairwise_moments(population, schema, features, theta)
    return _point_moments(population, schema, features, scope, theta)


def _widest(features: Sequence[Feature]) -> int:
    """The most columns that two of these features read together."""
    return max(len(f.columns() | g.columns()) for f in features for g in features)


def _polynomial_moments(
    population: MultivariateNormal, schema: Schema, features: Sequence[Feature], scope: Sequence[str], theta: Theta
) -> tuple[Array, Array]:
    """Moments of polynomials of normal columns: closed where no record reaches its bounds, else by points."""
    is_far = far_rows(population, schema, scope, theta)
    if is_far.all():
        return polynomial_moments(population, features, scope, theta)
    d = len(features)
    mean, covariance = np.zeros((len(is_far), d)), np.zeros((len(is_far), d, d))
    near: Callable[[MultivariateNormal, Schema, Sequence[Feature], Sequence[str], Theta], tuple[Array, Array]]
    near = _mixed_moments
    if schema.outside == "clamp" and len(scope) == 3:
        near = clamped_moments
    elif schema.outside == "clamp" and _widest(features) > 2:
        near = _corrected_moments

    def fill(rows: NDArray[np.int64], found: tuple[Array, Array]) -> None:
        mean[rows], covariance[rows] = found

    for some, rows in _split(theta, is_far):
        fill(rows, polynomial_moments(population, features, scope, some))
    for some, rows in _split(theta, ~is_far):
        fill(rows, near(population, schema, features, scope, some))
    return mean, covariance


def _split(theta: Theta, wanted: NDArray[np.bool_]) -> Iterable[tuple[dict[str, Array], NDArray[np.int64]]]:
    """The rows that are wanted, some at a time, with their places."""
    index = np.flatnonzero(wanted).astype(np.int64)
    for start in range(0, len(index), CHUNK):
        rows = index[start : start + CHUNK]
        yield {name: np.asarray(value)[rows] for name, value in theta.items()}, rows


def _point_moments(
    population: AnyPopulation, schema: Schema, features: Sequence[Feature], columns: Sequence[str], theta: Theta
) -> tuple[Array, Array]:
    """Moments as sums over weighted points of several columns."""
    assert isinstance(population, Joint | MultivariateNormal)
    pieces = []
    for points, weight in weighted_points(population, schema, columns, features, (), theta):
        values = [np.broadcast_to(f.value(points, schema), weight.shape) for f in features]
        pieces.append(Nodes(weight, weight).moments(np.stack(values, axis=-1)))
    mean, covariance = (np.concatenate(piece) for piece in zip(*pieces, strict=True))
    return mean, covariance


def _corrected_moments(
    population: MultivariateNormal, schema: Schema, features: Sequence[Feature], columns: Sequence[str], theta: Theta
) -> tuple[Array, Array]:
    """The same of polynomials of clamped normals, with the moments before the clamp as control variates."""
    pieces = []
    for rows in row_chunks(theta, CHUNK):
        raw, cleaned = normal_points(population, schema, columns, rows)
        shape = next(iter(raw.values())).shape
        before, after = (
            np.stack([np.broadcast_to(f.value(points, schema), shape) for f in features], axis=-1)
            for points in (raw, cleaned)
        )
        pieces.append(corrected(after, before, polynomial_moments(population, features, columns, rows)))
    mean, covariance = (np.concatenate(piece) for piece in zip(*pieces, strict=True))
    return mean, covariance


def _pairwise_moments(
    population: AnyPopulation, schema: Schema, features: Sequence[Feature], theta: Theta
) -> tuple[Array, Array]:
    """Moments of features that no two of read more than two columns: two columns at a time."""
    K, d = rows_of(theta), len(features)
    mean, covariance = np.zeros((K, d)), np.zeros((K, d, d))
    for pair in itertools.combinations(sorted(_columns(features)), 2):
        own = [i for i, feature in enumerate(features) if feature.columns() <= set(pair)]
        if own:
            m, c = _point_moments(population, schema, [features[i] for i in own], pair, theta)
            mean[:, own] = m
            covariance[np.ix_(range(K), own, own)] = c
    return mean, covariance


def _point_cells(
    population: AnyPopulation,
    schema: Schema,
    feature: Feature,
    edges: Sequence[float],
    columns: Sequence[str],
    theta: Theta,
) -> Array:
    """Cell probabilities (K, cells) of a feature that mixes columns, as sums over weighted points."""
    assert isinstance(population, Joint | MultivariateNormal)
    bends = [(feature, float(edge)) for edge in edges]
    found = []
    for points, weight in weighted_points(population, schema, columns, [feature], bends, theta):
        cell = np.searchsorted(np.asarray(edges), feature.value(points, schema), side="right")
        found.append(np.stack([np.where(cell == j, weight, 0.0).sum(axis=1) for j in range(len(edges) + 1)], axis=-1))
    p = np.concatenate(found)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


@singledispatch
def condition_probability(population: AnyPopulation, schema: Schema, condition: Feature, theta: Theta) -> Array:
    """The probability (K,) that a cleaned record satisfies a condition: a product over independent columns."""
    used, scope = attach(population, schema, condition.columns()), _scope(population, schema, condition.columns())
    terms = expanded(condition)
    if terms is None or (isinstance(population, MultivariateNormal) and len(scope) > 1):
        return _point_cells(population, schema, condition, (0.5,), scope, theta)[:, 1]
    (term,) = terms  # a condition is one product of indicators
    yes = np.full(rows_of(theta), term.coefficient)
    for name, factor in term.factors.items():
        yes = yes * column_cells(used[name], schema, name, factor, (0.5,), population.theta_of(name, theta))[:, 1]
    return yes


def _clique_probabilities(population: AnyPopulation, schema: Schema, statistic: Marginals, theta: Theta) -> Array:
    refuse_tied(statistic)
    if len(statistic.cliques) != 1:
        raise Unsupported("Several marginals of the same records have no cells in common; take one clique at a time.")
    used = attach(population, schema, statistic.cliques[0])
    statistic.tables(schema)
    table = np.ones((rows_of(theta), 1))
    for name in statistic.cliques[0]:
        own = population.theta_of(name, theta)
        p = column_cells(used[name], schema, name, Feature("column", (name,)), None, own)
        table = (table[:, :, None] * p[:, None, :]).reshape(len(table), -1)
    return table


def _is_indicator(statistic: Records) -> bool:
    return statistic.cells is None and statistic.feature.operation in ("between", "equals")


def _clamped(x: Array, entry: Bounded | Levels) -> Array:
    return np.clip(x, entry.low, entry.high) if isinstance(entry, Bounded) else x
