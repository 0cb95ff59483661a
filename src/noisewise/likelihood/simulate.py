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
from noisewise.laws import (
    DiscreteGaussian,
    DiscreteLaplace,
    Form,
    Law,
    RoundedGaussian,
    SmoothCauchy,
    SmoothLaplace,
    action_law,
    additive_law,
    cell_law,
    quantile_law,
    smooth_law,
)
from noisewise.planning import Simulable
from noisewise.populations.cleaned import cell_probabilities, row_moments
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import AnyPopulation
from noisewise.populations.presence import sample_present
from noisewise.statistics import Count, Marginals, Rows, Sort, Statistic
from noisewise.statistics.additive import FeatureSums
from noisewise.statistics.evaluation import NumPyRows, cell_counts
from noisewise.statistics.order import quantile_statistic

__all__ = ["draw_answers", "draw_noise", "noisy_values", "simulate_values"]

Integers = NDArray[np.int64]  # of dtype object where sums pass 2^63: whole numbers all the same
Rng = np.random.Generator
PIECE = 1_000_000  # records of one column at once: some ten arrays of 8 MB
LARGEST_NOISE = 2.0**62
MANY_RECORDS = 200_000


def simulate_values(
    rng: Rng,
    plan: Simulable,
    population: AnyPopulation,
    theta: Theta,
    *,
    n: int | None = None,
    approximate: bool = False,
) -> Integers:
    """The published integers (K, size) of K data sets, one a row of theta.

    With `approximate=True` the sum of more than 200 000 records is drawn from its own law instead of record by record:
    multinomial for counts and one table, normal (the central limit theorem) for other sums.
    """
    size = record_count(plan.part_schema, n)
    rows = len(next(iter(theta.values()))) if theta else 1
    if approximate and size > MANY_RECORDS and _has_sum_law(plan.statistic) and not plan.schema.left_out:
        return _publish(rng, plan, _sums_from_their_law(rng, plan, population, theta, size))
    columns = plan.statistic.columns()
    each = max(1, PIECE // (size * len(columns)))
    done = []
    for start in range(0, rows, each):
        some = {name: np.asarray(value)[start : start + each] for name, value in theta.items()}
        pieces = _pieces(rng, plan, population, some, size, columns)
        done.append(_noisy(rng, plan, NumPyRows(plan.part_schema, pieces, size)))
    return np.concatenate(done)


def noisy_values(rng: Rng, plan: Simulable, records: Mapping[str, Array]) -> Integers:
    """The published integers (K, size) of given records, by column (K, n): the plan's statistic with fresh noise."""
    size = np.shape(next(iter(records.values())))[-1]
    return _noisy(rng, plan, NumPyRows(plan.part_schema, [records], size))


def draw_noise(
    rng: Rng, law: Law, shape: int | tuple[int, ...], *, smooth_scale: ArrayLike | None = None, component: int = 0
) -> Integers:
    """Independent noise in whole steps; a smooth law needs its scale S, broadcast against `shape`."""
    if law.form is Form.NUMBER:
        k = integer(component, "component", minimum=0, maximum=additive_law(law).size - 1)
        return simulated_steps(law, rng, np.asarray(additive_law(law).ratio_of(k)), shape)
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


def _pieces(
    rng: Rng, plan: Simulable, population: AnyPopulation, theta: Theta, size: int, columns: Sequence[str]
) -> Iterator[dict[str, Array]]:
    """Records in pieces; rows that are averaged in blocks stay together."""
    block = plan.statistic.block
    step = max(block, PIECE // len(columns) // block * block)
    for start in range(0, size, step):
        yield sample_present(rng, population, plan.part_schema, min(step, size - start), theta, columns)


def _noisy(rng: Rng, plan: Simulable, rows: Rows) -> Integers:
    """The statistic on its lattice as the holder computes it, with noise of its law."""
    statistic, law = plan.statistic, plan.law
    if law.form is Form.POINT:
        return _quantile_points(rng, plan, rows)
    if law.form is Form.SCALED:
        rule = smooth_law(law)
        values, secret = statistic.scaled(rows, plan.lattice, alpha=rule.alpha, beta=rule.beta)
        return np.asarray(values + draw_noise(rng, law, len(values), smooth_scale=secret * rule.step)[:, None])
    values = statistic.evaluate(rows, plan.lattice)
    if law.form is Form.CELL:
        return cell_counts(draw_answers(rng, law, values), cell_law(law).cells)
    if statistic.is_local:
        return np.sort(values + draw_noise(rng, law, values.shape), axis=-1)
    return _publish(rng, plan, values)


def _quantile_points(rng: Rng, plan: Simulable, rows: Rows) -> Integers:
    """Lattice points (K, 1) by the exponential mechanism: an interval between sorted values, then a point of it."""
    statistic, law = quantile_statistic(plan.statistic), quantile_law(plan.law)
    ranked = rows.window(statistic.feature, plan.lattice, rank=1, reach=rows.n).values
    # Interval i holds the points y with #{x < y} = i: s_i < y <= s_{i+1}, and all from the lower bound on for i = 0.
    edges = np.pad(ranked, ((0, 0), (1, 1)))
    edges[:, 0], edges[:, -1] = plan.lattice.low[0] - 1, plan.lattice.high[0]
    away = np.abs(np.arange(rows.n + 1) - float(statistic.q * rows.n))
    with np.errstate(divide="ignore"):
        logs = np.log(np.diff(edges, axis=1).astype(float)) - 0.5 * float(law.epsilon) * away
    upto = np.cumsum(np.exp(logs - logs.max(axis=1, keepdims=True)), axis=1)
    chosen = np.sum(upto <= upto[:, -1:] * rng.random((len(ranked), 1)), axis=1)
    every = np.arange(len(ranked))
    drawn = rng.integers(edges[every, chosen] + 1, edges[every, chosen + 1], endpoint=True)
    return np.asarray(drawn, dtype=np.int64)[:, None]


def _publish(rng: Rng, plan: Simulable, sums: Integers) -> Integers:
    """Noise on every component, or the output of a finite law."""
    law, rows = plan.law, len(sums)
    if law.form is Form.ACTION:
        return draw_answers(rng, law, sums)
    noise = [draw_noise(rng, law, rows, component=k) for k in range(additive_law(law).size)]
    return np.asarray(sums * table_unit(plan) + np.stack(noise, axis=-1))


def table_unit(plan: Simulable) -> Integers:
    """What one record adds to each cell of a table in lattice steps: 1, unless noise made elsewhere is continuous."""
    if plan.statistic.sort is not Sort.TABLE:
        return np.ones(1, dtype=np.int64)
    return np.array([round(1 / step) for step in plan.lattice.step], dtype=np.int64)


def _is_one_table(statistic: Statistic) -> bool:
    return statistic.kind in ("count", "histogram") or (
        isinstance(statistic, Marginals) and len(statistic.cliques) == 1
    )


def _has_sum_law(statistic: Statistic) -> bool:
    """True where the sums need not be made of records: one table, or a row of features, rows not averaged."""
    return _is_one_table(statistic) or (isinstance(statistic, FeatureSums) and statistic.block == 1)


def _sums_from_their_law(rng: Rng, plan: Simulable, population: AnyPopulation, theta: Theta, n: int) -> Any:
    """The noise-free sums (K, d): multinomial, or normal and moved to the lattice."""
    statistic, schema = plan.statistic, plan.part_schema
    if _is_one_table(statistic):
        counts = rng.multinomial(n, cell_probabilities(population, schema, statistic, theta))  # type: ignore[arg-type]
        return counts[:, 1:] * round(1 / plan.lattice.step[0]) if isinstance(statistic, Count) else counts
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
