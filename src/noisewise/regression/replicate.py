"""Releases of a regression, simulated: for the posterior predictive check, for calibration and for studies.

Rows are drawn at each parameter value, cleaned as the holder cleans them, and their products summed; the sums are put
on the lattice of the plan and get noise of its law. Many rows that need no cleaning are not drawn one by one: their sum
of products is that of a normal mean and a Wishart scatter (Bartlett 1933), exactly:
    sum v v' = L W L' + s s'/n,    s ~ N(n mean, n covariance),   W ~ Wishart(n - 1, I),   L L' = covariance.
Many rows that do are taken by the central limit theorem.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import integer
from noisewise.joining import record_count
from noisewise.laws import additive_law
from noisewise.likelihood.simulate import Integers, draw_noise
from noisewise.planning import Simulable
from noisewise.populations.parameters import Theta, rows_of
from noisewise.regression.glm.rows import GlmRows
from noisewise.regression.location_rows import LocationLaw
from noisewise.regression.priors import (
    COVARIATE_COVARIANCE,
    COVARIATE_MEAN,
    NOISE_VARIANCE,
    NormalCovariates,
    coefficient_moments,
    noise_shape,
)
from noisewise.regression.problem import Floats
from noisewise.regression.row_law import RowLaw, row_law
from noisewise.regression.subject import MomentsRegression, SummedRows
from noisewise.statistics import Moments

if TYPE_CHECKING:
    from noisewise.regression.model import LinearRegression

MANY_ROWS = 2000
DEFAULTS = "A default prior comes from the public numbers of a release. To simulate without one, give "
PIECE = 2_000_000  # numbers at once
MOST_TRIES = 1000


def simulate_values(
    rng: np.random.Generator, model: MomentsRegression, plan: Simulable, theta: Theta, *, n: int | None
) -> Integers:
    """The published integers (K, size) of K data sets, one a row of theta (in the users' units)."""
    statistic, schema = plan.statistic, plan.part_schema
    if not isinstance(statistic, Moments):
        raise Unsupported(f"A regression simulates releases of Moments, not of {statistic.kind}.")
    size = record_count(schema, n)
    sums = draw_sums(row_law(model, statistic, schema, theta), rng, statistic, plan, size)
    law = additive_law(plan.law)
    steps = np.floor(sums / np.array(law.step) + 0.5).astype(np.int64)
    count = rows_of(theta)
    noise = [draw_noise(rng, law, count, component=k) for k in range(law.size)]
    return np.asarray(steps + np.stack(noise, axis=1))


def sample_prior(rng: np.random.Generator, model: LinearRegression, count: int) -> dict[str, Floats]:
    """`count` draws of coefficients, noise variance, and the mean and covariance of the covariates."""
    count = integer(count, "count", minimum=0, maximum=10**8)
    if not isinstance(rng, np.random.Generator):
        raise InvalidArgument(f"rng is a {type(rng).__name__}; give a numpy.random.Generator.", argument="rng")
    theta: dict[str, Floats] = {}
    if model.prior is not None:
        mean, precision = model.prior.sized(len(model.names))
        variance = model.prior.rate / rng.standard_gamma(model.prior.shape, size=count)
        root, scale = np.linalg.inv(np.linalg.cholesky(precision)).T, np.sqrt(variance)
    else:
        given, noise = coefficient_moments(model.coefficients, model.names), noise_shape(model.noise)
        if given is None or noise is None:
            raise InvalidArgument(f"{DEFAULTS}coefficients= and noise=, or prior=.", argument="coefficients")
        mean, root, scale = given[0], np.linalg.cholesky(given[1]), np.ones(count)
        variance = noise[1] / rng.standard_gamma(noise[0], size=count)
    beta = mean + scale[:, None] * (rng.standard_normal((count, len(mean))) @ root.T)
    theta |= {name: beta[:, k] for k, name in enumerate(model.names)}
    theta[NOISE_VARIANCE] = variance
    x = model.covariates
    if not isinstance(x, NormalCovariates):
        raise InvalidArgument(f"{DEFAULTS}covariates=NormalCovariates(...).", argument="covariates")
    location, matrix = x.sized(len(model.features))
    covariance = inverse_wishart(rng, matrix, x.degrees, count)
    z = rng.standard_normal((count, len(location))) / np.sqrt(x.strength)
    theta[COVARIATE_MEAN] = location + np.einsum("kij,kj->ki", np.linalg.cholesky(covariance), z) * model.intercept
    theta[COVARIATE_COVARIANCE] = covariance
    return theta


def theta_at(model: LinearRegression, at: object) -> dict[str, Floats]:
    """Rows of theta from numbers (or arrays of K) by name; covariates not given are those NormalCovariates expects."""
    size = len(model.features)
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(model.free, ())
    shapes |= {COVARIATE_MEAN: (size,), COVARIATE_COVARIANCE: (size, size)}
    if not isinstance(at, Mapping) or not set(model.free) <= set(at) <= set(shapes):
        raise InvalidArgument(f"at= must give a number for each of {', '.join(model.free)}.", argument="at")
    given = dict(at)
    if isinstance(model.covariates, NormalCovariates):
        location, matrix = model.covariates.sized(size)
        given = {COVARIATE_MEAN: location * model.intercept,
                 COVARIATE_COVARIANCE: matrix / max(model.covariates.degrees - size - 1, 1.0), **given}  # fmt: skip
    theta: dict[str, Floats] = {}
    for name, shape in shapes.items():
        try:
            is_text = np.asarray(given.get(name)).dtype.kind in "SU"  # NumPy would read "3" as a number
            value = np.array(np.nan) if is_text else np.asarray(given.get(name), dtype=float)
        except (TypeError, ValueError, OverflowError):
            value = np.array(np.nan)
        is_one = value.shape == shape
        is_shaped = is_one or (value.shape[1:] == shape and value.size > 0)
        if not is_shaped or not np.all(np.isfinite(value)) or isinstance(given.get(name), bool):
            what = "a finite number" if not shape else f"an array of shape {shape}"
            raise InvalidArgument(f"at[{name!r}] must be {what}.", argument="at")
        theta[name] = value[None] if is_one else value
    if not np.all(theta[NOISE_VARIANCE] > 0) or not np.all(np.linalg.eigvalsh(theta[COVARIATE_COVARIANCE]) > 0):
        raise InvalidArgument("Variances must be positive.", argument="at")
    count = rows_of(theta)
    if any(len(value) not in (1, count) for value in theta.values()):
        raise InvalidArgument("at= lists different numbers of values for its parameters.", argument="at")
    return {name: np.array(np.broadcast_to(value, (count, *value.shape[1:]))) for name, value in theta.items()}


def inverse_wishart(rng: np.random.Generator, scale: Floats, degrees: float, count: int) -> Floats:
    """Sigma with Sigma^-1 ~ Wishart(degrees, scale^-1) (Bartlett 1933)."""
    size = len(scale)
    factor = np.tril(rng.standard_normal((count, size, size)), -1)
    diagonal = np.arange(size)
    factor[:, diagonal, diagonal] = np.sqrt(2 * rng.standard_gamma((degrees - diagonal) / 2, size=(count, size)))
    root = np.linalg.cholesky(np.linalg.inv(scale)) @ factor
    inverse = np.linalg.inv(root)
    return np.asarray(np.swapaxes(inverse, 1, 2) @ inverse)


@singledispatch
def draw_sums(law: object, rng: np.random.Generator, statistic: Moments, plan: Simulable, n: int) -> Floats:
    """The statistic of n rows of a law, unrounded, (K, size)."""
    del rng, statistic, plan, n
    raise TypeError(f"no sums are drawn of rows with a {type(law).__name__}")


@draw_sums.register
def _location_sums(
    law: LocationLaw | GlmRows, rng: np.random.Generator, statistic: Moments, plan: Simulable, n: int
) -> Floats:
    """Row by row, or by the central limit theorem where rows are many."""
    indices = statistic.pairs(plan.part_schema)
    if n > MANY_ROWS and not statistic.fourth:
        return _normal_sums(rng, law, statistic, plan, n)
    total = np.zeros((len(law.share), len(indices)))
    for k in range(len(law.share)):
        rows = law.rows(rng, k, n)
        w = np.column_stack([np.ones(n), rows]) if statistic.intercept else rows
        total[k] = [np.prod(w[:, pair], axis=1).sum() for pair in indices]
    return total


@draw_sums.register
def _normal_row_sums(law: RowLaw, rng: np.random.Generator, statistic: Moments, plan: Simulable, n: int) -> Floats:
    """By their Wishart law, row by row, or by the central limit theorem."""
    schema, block = plan.part_schema, statistic.block
    blocks, indices = n // block, statistic.pairs(schema)
    is_long = blocks > max(MANY_ROWS, 2 * law.mean.shape[1])
    is_cleaned = law.is_cleaned()
    if is_long and not statistic.fourth and not is_cleaned:
        mean = law.mean * np.sqrt(block)
        sums, totals = _wishart_sums(rng, mean, law.root, blocks)
        return _by_pair(sums, totals * np.sqrt(block), indices, n, statistic.intercept)
    if is_long and not statistic.fourth and block == 1 and law.clamps:
        return _normal_sums(rng, law, statistic, plan, n)
    return _row_sums(rng, law, statistic, indices, blocks)


def _wishart_sums(rng: np.random.Generator, mean: Floats, root: Floats, n: int) -> tuple[Floats, Floats]:
    """sum v v' (K, p, p) and sum v (K, p) of n rows v ~ N(mean, root root')."""
    count, size = mean.shape
    factor = np.tril(rng.standard_normal((count, size, size)), -1)
    degrees = n - 1 - np.arange(size)
    factor[:, np.arange(size), np.arange(size)] = np.sqrt(2 * rng.standard_gamma(degrees / 2, size=(count, size)))
    scatter = root @ factor
    total = n * mean + np.sqrt(n) * np.einsum("kij,kj->ki", root, rng.standard_normal((count, size)))
    return scatter @ np.swapaxes(scatter, 1, 2) + total[:, :, None] * total[:, None, :] / n, total


def _by_pair(sums: Floats, totals: Floats, indices: tuple[tuple[int, ...], ...], n: int, intercept: bool) -> Floats:
    """Components in the order of the statistic's pairs."""
    first = int(intercept)
    columns = []
    for a, b in indices:
        if b < first:
            columns.append(np.full(len(sums), float(n)))
        elif a < first:
            columns.append(totals[:, b - first])
        else:
            columns.append(sums[:, a - first, b - first])
    return np.stack(columns, axis=1)


def _normal_sums(rng: np.random.Generator, law: SummedRows, statistic: Moments, plan: Simulable, n: int) -> Floats:
    pairs = np.array(statistic.pairs(plan.part_schema), np.int64)
    mean, covariance = law.moments(pairs, intercept=statistic.intercept)
    values, vectors = np.linalg.eigh(covariance)
    z = rng.standard_normal(mean.shape) * np.sqrt(n * np.maximum(values, 0.0))
    return np.asarray(n * mean + np.einsum("kij,kj->ki", vectors, z))


def _row_sums(
    rng: np.random.Generator, law: RowLaw, statistic: Moments, indices: tuple[tuple[int, ...], ...], blocks: int
) -> Floats:
    """Row by row, in pieces."""
    block, count = statistic.block, len(law.mean)
    total = np.zeros((count, len(indices)))
    each = max(1, PIECE // (law.mean.shape[1] * block))
    roots = law.root
    for k in range(count):
        for start in range(0, blocks, each):
            some = min(each, blocks - start)
            rows = _cleaned_rows(rng, law, k, roots[k], some * block)
            rows = rows.reshape(some, block, -1).sum(axis=1) / np.sqrt(block)
            w = np.column_stack([np.full(some, np.sqrt(block)), rows]) if statistic.intercept else rows
            total[k] += [np.prod(w[:, pair], axis=1).sum() for pair in indices]
    return total


def _cleaned_rows(rng: np.random.Generator, law: RowLaw, k: int, root: Floats, count: int) -> Floats:
    """Rows of the k-th parameter value; those outside are drawn again where they would have been refused."""
    rows = law.mean[k] + rng.standard_normal((count, len(root))) @ root.T
    if law.clamps:
        return law.clean(rows)
    for _ in range(MOST_TRIES):
        outside = np.any((rows < law.low) | (rows > law.high), axis=1)
        if not outside.any():
            return law.clean(rows)
        rows[outside] = law.mean[k] + rng.standard_normal((int(outside.sum()), len(root))) @ root.T
    raise Unsupported("Hardly any row of the fitted model lies within the bounds; it cannot be simulated.")
