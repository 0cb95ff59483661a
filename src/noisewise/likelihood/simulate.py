"""Simulated releases: records from a population, the statistic on its lattice, and noise of the declared law.

What `make_release` does to records is done here to made-up ones, with the same integers and the same laws, but with an
explicit generator: for calibration, Monte Carlo and studies (`models.simulate` makes releases of them). None of it is
privacy noise. Noise in steps, r = scale/step:

    discrete Laplace     floor(r E1) - floor(r E2), E ~ Exponential(1): the difference of two geometric numbers
    discrete Gaussian    discrete Laplace K of scale t = floor(r) + 1, kept with chance exp(-(|K| - r^2/t)^2 / 2r^2)
    rounded Gaussian     floor(r Z + 1/2);   smooth laws   floor(S/(alpha step) V + 1/2), V Laplace or Cauchy

Promise: draws have exactly the law that `laws` scores (up to the 53 bits of a float; a Cauchy draw stops at
2^62 steps), by one goodness-of-fit test a law. Records are taken in pieces, so memory does not grow with n except for
order statistics and local answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noisewise.errors import InvalidArgument, Unregistered, Unsupported
from noisewise.exact import integer
from noisewise.joining import record_count
from noisewise.lattice import Lattice, entry_steps, lattice_for
from noisewise.laws import (
    DiscreteGaussian,
    DiscreteLaplace,
    Form,
    Law,
    RoundedGaussian,
    SmoothCauchy,
    SmoothLaplace,
    SmoothLaw,
    action_law,
    additive_law,
    cell_law,
    smooth_law,
)
from noisewise.plan import Plan, eigenvalue_gram_step
from noisewise.populations.cleaned import cell_probabilities, row_moments, sample_records
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import AnyPopulation
from noisewise.privacy import smooth
from noisewise.schema import Schema
from noisewise.statistics import Count, Histogram, Marginals, Moments, Records, SmallestEigenvalue, Statistic
from noisewise.statistics.enclosure import feature_range
from noisewise.statistics.feature import Feature
from noisewise.statistics.moment_rows import evaluated
from noisewise.statistics.order import OrderStatistic
from noisewise.statistics.tables import cell_index

__all__ = ["columns_of", "draw_answers", "draw_noise", "noisy_values", "simulate_values"]

Integers = NDArray[np.int64]  # of dtype object where sums pass 2^63: whole numbers all the same
Rng = np.random.Generator
PIECE = 1_000_000  # records of one column at once: some ten arrays of 8 MB
LARGEST_NOISE = 2.0**62
MANY_RECORDS = 200_000
NO_QUANTILE = "A quantile by the exponential mechanism is not simulated: it sets bounds only."


def simulate_values(
    rng: Rng, plan: Plan, population: AnyPopulation, theta: Theta, *, n: int | None = None, approximate: bool = False
) -> Integers:
    """The published integers (K, size) of K data sets, one a row of theta.

    With `approximate=True` the sum of more than 200 000 records is drawn from its own law instead of record by record:
    multinomial for counts and one table, normal (the central limit theorem) for other sums.
    """
    if plan.law.form is Form.POINT:
        raise Unsupported(NO_QUANTILE)
    size = record_count(plan.part_schema, n)
    rows = len(next(iter(theta.values()))) if theta else 1
    if approximate and size > MANY_RECORDS and _has_sum_law(plan.statistic):
        return _publish(rng, plan, _sums_from_their_law(rng, plan, population, theta, size))
    columns = columns_of(plan.statistic, plan.part_schema)
    each = max(1, PIECE // (size * len(columns)))
    done = []
    for start in range(0, rows, each):
        some = {name: np.asarray(value)[start : start + each] for name, value in theta.items()}
        if _is_sum(plan.statistic):
            sums = [_sums(plan, records) for records in _pieces(rng, plan, population, some, size, columns)]
            done.append(_publish(rng, plan, _finished(plan, sum(sums[1:], sums[0]))))
        else:
            records = sample_records(rng, population, plan.part_schema, size, some, columns)
            done.append(noisy_values(rng, plan, records))
    return np.concatenate(done)


def noisy_values(rng: Rng, plan: Plan, records: Mapping[str, Array]) -> Integers:
    """The published integers (K, size) of given records, by column (K, n): the plan's statistic with fresh noise."""
    statistic, law = plan.statistic, plan.law
    if isinstance(statistic, Records):
        return _local_answers(rng, plan, statistic, records)
    if isinstance(statistic, OrderStatistic):
        if law.form is not Form.SCALED:
            raise Unsupported(NO_QUANTILE)
        return _order_statistic(rng, plan, statistic, smooth_law(law), records)
    return _publish(rng, plan, _finished(plan, _sums(plan, records)))


def draw_noise(
    rng: Rng, law: Law, shape: int | tuple[int, ...], *, smooth_scale: ArrayLike | None = None, component: int = 0
) -> Integers:
    """Independent noise in whole steps; a smooth law needs its scale S, broadcast against `shape`."""
    if law.form is Form.NUMBER:
        k = integer(component, "component", minimum=0, maximum=additive_law(law).size - 1)
        return simulated_steps(law, rng, np.asarray(additive_law(law).ratio[k]), shape)
    if law.form is not Form.SCALED:
        raise Unsupported(f"The law {law.family!r} adds no noise to a number; use draw_answers, or there is none.")
    if smooth_scale is None:
        raise InvalidArgument(f"The noise of {law.family} is scaled to S: give smooth_scale=.", argument="smooth_scale")
    scaled = smooth_law(law)
    ratios = np.asarray(smooth_scale, dtype=np.float64) / (float(scaled.alpha) * scaled.step)
    return simulated_steps(law, rng, ratios, shape)


@singledispatch
def simulated_steps(law: Law, _rng: Rng, _ratio: Array, _shape: int | tuple[int, ...]) -> Integers:
    """Simulated noise in whole steps at r = scale/step (of one component, or broadcast against the shape).

    Registered for each law, as in `@simulated_steps.register`; a law without a registration is refused.
    """
    raise Unregistered(
        f"The law {law.family!r} cannot be simulated: register a function with "
        "`noisewise.likelihood.simulate.simulated_steps.register`.",
        law=law.family,
        piece="simulated_steps",
    )


@simulated_steps.register
def _(_law: DiscreteLaplace, rng: Rng, ratio: Array, shape: int | tuple[int, ...]) -> Integers:
    return _discrete_laplace(rng, float(ratio), shape)


@simulated_steps.register
def _(_law: DiscreteGaussian, rng: Rng, ratio: Array, shape: int | tuple[int, ...]) -> Integers:
    return _discrete_gaussian(rng, float(ratio), shape)


@simulated_steps.register
def _(_law: RoundedGaussian, rng: Rng, ratio: Array, shape: int | tuple[int, ...]) -> Integers:
    return _nearest(float(ratio) * rng.standard_normal(shape))


@simulated_steps.register
def _(_law: SmoothLaplace, rng: Rng, ratio: Array, shape: int | tuple[int, ...]) -> Integers:
    return _nearest(np.clip(ratio * rng.laplace(size=shape), -LARGEST_NOISE, LARGEST_NOISE))


@simulated_steps.register
def _(_law: SmoothCauchy, rng: Rng, ratio: Array, shape: int | tuple[int, ...]) -> Integers:
    return _nearest(np.clip(ratio * rng.standard_cauchy(shape), -LARGEST_NOISE, LARGEST_NOISE))


def draw_answers(rng: Rng, law: Law, true: ArrayLike) -> Integers:
    """One answer for each true cell (randomized response), or one output for each statistic value (a finite law)."""
    true = np.asarray(true, dtype=np.int64)
    if law.form is Form.CELL:
        law = cell_law(law)
        # Answer true + shift, where shift = 0 is kept and the other shifts are equally likely.
        lied = rng.random(true.shape) >= float(law.keep)
        shift = np.where(lied, rng.integers(1, law.cells, size=true.shape), 0)
        return np.asarray((true + shift) % law.cells)
    law, drawn = action_law(law), np.empty(true.shape, dtype=np.int64)
    for value in np.unique(true):
        asked = true == value
        drawn[asked] = rng.choice(len(law.actions), size=int(asked.sum()), p=np.array(law.rows[value], dtype=float))
    return drawn


def columns_of(statistic: Statistic, schema: Schema) -> tuple[str, ...]:
    """The columns a statistic reads."""
    if isinstance(statistic, Histogram):
        return (statistic.column,)
    if isinstance(statistic, Marginals):
        return tuple(sorted({name for clique in statistic.cliques for name in clique}))
    if isinstance(statistic, OrderStatistic | Records):
        row: Sequence[Feature] = (statistic.feature,)
    else:
        row = statistic.gram_row(schema) if isinstance(statistic, SmallestEigenvalue) else statistic.row(schema)
    return tuple(sorted(frozenset().union(*(feature.columns() for feature in row))))


# ---- noise ----


def _discrete_laplace(rng: Rng, ratio: float, shape: int | tuple[int, ...]) -> Integers:
    one, other = (np.floor(ratio * rng.standard_exponential(shape)) for _ in range(2))
    return np.asarray(one - other).astype(np.int64)


def _discrete_gaussian(rng: Rng, ratio: float, shape: int | tuple[int, ...]) -> Integers:
    """Rejection from the discrete Laplace law (Canonne, Kamath & Steinke 2020, Algorithm 3); 46 to 76 % are kept."""
    scale = np.floor(ratio) + 1
    drawn = np.empty(shape, dtype=np.int64)
    missing = np.ones(shape, dtype=bool)
    while count := int(missing.sum()):
        k = _discrete_laplace(rng, float(scale), count)
        excess = (np.abs(k) - ratio * (ratio / scale)) / ratio
        kept = rng.standard_exponential(count) >= 0.5 * np.square(excess)
        places = np.flatnonzero(missing)[kept]
        drawn.flat[places], missing.flat[places] = k[kept], False
    return drawn


def _nearest(values: Any) -> Integers:
    return np.floor(np.asarray(values) + 0.5).astype(np.int64)


# ---- sums of records ----


def _is_sum(statistic: Statistic) -> bool:
    return not isinstance(statistic, OrderStatistic | Records)


def _pieces(
    rng: Rng, plan: Plan, population: AnyPopulation, theta: Theta, size: int, columns: Sequence[str]
) -> Iterator[dict[str, Array]]:
    """Records in pieces; rows that are averaged in blocks stay together."""
    block = plan.statistic.block if isinstance(plan.statistic, Moments) else 1
    step = max(block, PIECE // len(columns) // block * block)
    for start in range(0, size, step):
        yield sample_records(rng, population, plan.part_schema, min(step, size - start), theta, columns)


def _sums(plan: Plan, records: Mapping[str, Array]) -> Any:
    """The noise-free sums (K, d) of records, in steps; of the Gram matrix for the smallest eigenvalue."""
    statistic, schema = plan.statistic, plan.part_schema
    if isinstance(statistic, Histogram):
        cells = cell_index(np.asarray(records[statistic.column], dtype=float), statistic.inner_edges(schema))
        return _cell_counts(cells, statistic.tables(schema)[0])
    if isinstance(statistic, Marginals):
        if statistic.tied:
            return statistic.value(records, schema)
        return np.concatenate(_clique_counts(statistic, records, schema), axis=-1)
    shape, n = np.shape(next(iter(records.values()))), schema.largest_n
    if isinstance(statistic, SmallestEigenvalue):
        return _lattice_sums(evaluated(statistic.gram_row(schema), records, schema), _gram_lattice(plan), shape, n)
    assert not isinstance(statistic, OrderStatistic | Records)
    if isinstance(statistic, Moments) and statistic.block > 1:
        blocks = (shape[0], shape[1] // statistic.block)
        return _lattice_sums(_block_products(statistic, records, schema), plan.lattice, blocks, n)
    return _lattice_sums(evaluated(statistic.row(schema), records, schema), plan.lattice, shape, n)


def _clique_counts(statistic: Marginals, records: Mapping[str, Array], schema: Schema) -> list[Integers]:
    counts = []
    for clique, size in zip(statistic.cliques, statistic.tables(schema), strict=True):
        cells = np.zeros(np.shape(records[clique[0]]), dtype=np.int64)
        for name in clique:
            cells = cells * len(schema.levels(name)) + np.asarray(records[name], dtype=np.int64)
        counts.append(_cell_counts(cells, size))
    return counts


def _lattice_sums(values: Sequence[Any], lattice: Lattice, shape: tuple[int, ...], n: int) -> Any:
    """Values rounded to their step, clamped, and summed as integers; Python's where n of them would pass 64 bits."""
    totals = []
    for k, value in enumerate(values):
        steps = _steps(np.broadcast_to(value, shape), lattice, k)
        total: Any = np.sum(steps - lattice.low[k], axis=-1)
        if abs(lattice.low[k]) * n >= 2**61:
            total = total.astype(object)
        totals.append(total + lattice.low[k] * shape[-1])
    return np.stack(totals, axis=-1)


def _steps(value: Any, lattice: Lattice, k: int) -> Integers:
    return np.clip(_nearest(np.asarray(value) / lattice.step[k]), lattice.low[k], lattice.high[k])


def _block_products(statistic: Moments, records: Mapping[str, Array], schema: Schema) -> list[Any]:
    """Entries rounded and summed over each block of rows, then multiplied, as the holder does."""
    entries = statistic.entries(schema)
    ranges = [feature_range(entry, schema) for entry in entries]
    fine = lattice_for(entry_steps(ranges), ranges)
    values = evaluated(entries, records, schema)
    blocks = [
        _steps(value, fine, k).reshape(len(value), -1, statistic.block).sum(axis=-1) * fine.step[k]
        for k, value in enumerate(values)
    ]
    products = []
    for monomial, divisor in zip(statistic.monomials(schema), statistic.divisors(schema), strict=True):
        product = blocks[monomial[0]] if len(monomial) == 1 else blocks[monomial[0]] * blocks[monomial[1]]
        products.append(product / divisor)
    return products


def _gram_lattice(plan: Plan) -> Lattice:
    statistic, schema = plan.statistic, plan.part_schema
    assert isinstance(statistic, SmallestEigenvalue)
    row = statistic.gram_row(schema)
    step = eigenvalue_gram_step(statistic, schema)
    return lattice_for([step] * len(row), [feature_range(feature, schema) for feature in row])


def _finished(plan: Plan, sums: Any) -> Any:
    """The statistic from its sums: the sums themselves, or the smallest eigenvalue of the Gram matrix they make."""
    if not isinstance(plan.statistic, SmallestEigenvalue):
        return sums
    size, step = len(plan.statistic.features), _gram_lattice(plan).step[0]
    gram = np.zeros((len(sums), size, size))
    above = np.triu_indices(size)
    gram[:, above[0], above[1]] = np.asarray(sums, dtype=float) * step
    return _steps(np.linalg.eigvalsh(gram, UPLO="U")[:, :1], plan.lattice, 0)


def _publish(rng: Rng, plan: Plan, sums: Any) -> Integers:
    """Noise on every component, or the output of a finite law."""
    law, rows = plan.law, len(sums)
    if law.form is Form.ACTION:
        return draw_answers(rng, law, sums)
    noise = [draw_noise(rng, law, rows, component=k) for k in range(additive_law(law).size)]
    return np.asarray(sums + np.stack(noise, axis=-1))


def _is_one_table(statistic: Statistic) -> bool:
    return statistic.kind in ("count", "histogram") or (
        isinstance(statistic, Marginals) and len(statistic.cliques) == 1
    )


def _has_sum_law(statistic: Statistic) -> bool:
    """True where the sums need not be made of records: one table, or a row of features, rows not averaged."""
    if isinstance(statistic, OrderStatistic | Records | SmallestEigenvalue | Marginals):
        return _is_one_table(statistic)
    return not (isinstance(statistic, Moments) and statistic.block > 1)


def _sums_from_their_law(rng: Rng, plan: Plan, population: AnyPopulation, theta: Theta, n: int) -> Any:
    """The noise-free sums (K, d): multinomial, or normal and moved to the lattice."""
    statistic, schema = plan.statistic, plan.part_schema
    if _is_one_table(statistic):
        counts = rng.multinomial(n, cell_probabilities(population, schema, statistic, theta))  # type: ignore[arg-type]
        return counts[:, 1:] if isinstance(statistic, Count) else counts
    assert not isinstance(statistic, OrderStatistic | Records | Histogram | Marginals | SmallestEigenvalue)
    mean, covariance = row_moments(population, schema, statistic.row(schema), theta)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
    normal = rng.standard_normal(mean.shape)
    sums = n * mean + np.sqrt(n) * np.einsum("kij,kj->ki", root, normal)
    lattice, totals = plan.lattice, list[Any]()
    for k, step in enumerate(lattice.step):
        inside = np.clip(sums[:, k] / step, n * float(lattice.low[k]), n * float(lattice.high[k]))
        whole = np.floor(inside + 0.5)
        is_large = np.max(np.abs(whole)) >= LARGEST_NOISE
        totals.append(np.array([int(v) for v in whole], dtype=object) if is_large else whole.astype(np.int64))
    return np.stack(totals, axis=-1)


# ---- order statistics and local answers ----


def _order_statistic(
    rng: Rng, plan: Plan, statistic: OrderStatistic, law: SmoothLaw, records: Mapping[str, Array]
) -> Integers:
    """The order statistic and its smooth sensitivity, on the lattice as the holder computes them."""
    (value,) = evaluated((statistic.feature,), records, plan.part_schema)
    ranked = np.sort(_steps(value, plan.lattice, 0), axis=-1)
    n = ranked.shape[-1]
    rank, low, high = statistic.rank(n), float(plan.lattice.low[0]), float(plan.lattice.high[0])
    floor = smooth.scale_floor(step=1.0, alpha=law.alpha)
    reach = smooth.reach(beta=law.beta, low=low, high=high, floor=floor) + 1
    first = max(0, rank - 1 - reach)
    window = ranked[:, first : rank + reach].astype(float)
    scale = [smooth.smooth_scale(row, index=rank - first, low=low, high=high, beta=law.beta) for row in window]
    secret_scale = np.array([smooth.floored(s, step=1.0, alpha=law.alpha) * law.step for s in scale])
    noise = draw_noise(rng, law, len(ranked), smooth_scale=secret_scale)
    return np.asarray(ranked[:, rank - 1] + noise)[:, None]


def _local_answers(rng: Rng, plan: Plan, statistic: Records, records: Mapping[str, Array]) -> Integers:
    law, schema = plan.law, plan.part_schema
    if law.form is Form.CELL:
        return _cell_counts(draw_answers(rng, law, statistic.cell(records, schema)), cell_law(law).cells)
    (value,) = evaluated((statistic.feature,), records, schema)
    steps = _steps(value, plan.lattice, 0)
    return np.sort(steps + draw_noise(rng, law, steps.shape), axis=-1)


def _cell_counts(cells: Any, size: int) -> Integers:
    """How many of the last axis lie in each cell, (K, size)."""
    rows = len(cells)
    flat = np.asarray(cells, dtype=np.int64) + size * np.arange(rows)[:, None]
    return np.bincount(flat.ravel(), minlength=rows * size).reshape(rows, size)
