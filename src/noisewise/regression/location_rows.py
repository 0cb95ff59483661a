"""Rows of a release under the general location model (location.py), at many parameter values at once.

A configuration c of the yes/no conditions, numbers z ~ N(mean(c), covariance), features f = a(c) + D(c) z, a response
y = beta_0 + beta' f + e; the release's row is v = k ((f, y) - centre). Given c it is normal, so sums of n rows have
mean n M and covariance n C with the moments of a mixture of normal rows:
    M = sum_c p_c M_c,      C = sum_c p_c (C_c + (M_c - M)(M_c - M)').
Rows that meet their bounds are clamped where they are drawn one by one, and not in M and C.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from noisewise.errors import Unsupported
from noisewise.populations.parameters import Theta
from noisewise.regression.configurations import Configurations
from noisewise.regression.location import CONFIGURATION_SHARE, NUMBER_COVARIANCE, NUMBER_MEAN, draw_configurations
from noisewise.regression.moments import normal_covariance_at
from noisewise.regression.observed import clamp_bounds
from noisewise.regression.priors import INTERCEPT, NOISE_VARIANCE
from noisewise.regression.problem import Floats, Integers
from noisewise.regression.subject import MomentsRegression
from noisewise.regression.units import Units
from noisewise.schema import Schema
from noisewise.statistics import Moments

MOST_TRIES = 1000


@dataclass(frozen=True, slots=True, eq=False)
class LocationLaw:
    """The law of v for K parameter values: shares (K, C); means (K, C, p) and factors (K, C, p, k + 1) given c."""

    share: Floats
    mean: Floats
    factor: Floats
    low: Floats  # (p,)
    high: Floats
    clamps: bool

    @classmethod
    def of(cls, model: MomentsRegression, statistic: Moments, schema: Schema, theta: Theta) -> LocationLaw:
        """The law of a release's rows at draws of a posterior, in the users' units."""
        made, units = Configurations.of(model.features, (schema,)), Units.of(statistic)
        share = np.asarray(theta[CONFIGURATION_SHARE], float)
        if share.shape[1] != made.count:
            raise Unsupported(
                f"These draws know {share.shape[1]} combinations of yes/no features; a release under this schema has "
                f"{made.count}. Holders whose levels differ are not simulated one by one."
            )
        if statistic.shrink is not None or statistic.block > 1:
            raise Unsupported("Shortened or averaged rows with yes/no features cannot be simulated.")
        count, d, k = len(share), len(model.features), len(made.numbers)
        slopes = np.stack([np.asarray(theta[str(feature)], float) for feature in model.features], axis=1)
        start = units.implied_intercept(slopes) if not model.intercept else np.asarray(theta[INTERCEPT], float)
        mean = np.broadcast_to(made.constant, (count, *made.constant.shape))
        factor = np.zeros((count, made.count, d + 1, k + 1))
        if k:
            mean = mean + np.einsum("cik,nck->nci", made.coefficient, np.asarray(theta[NUMBER_MEAN]))
            root = np.linalg.cholesky(np.asarray(theta[NUMBER_COVARIANCE]))
            factor[:, :, :-1, :-1] = np.einsum("cik,nkl->ncil", made.coefficient, root)
        factor[:, :, -1] = np.einsum("ni,ncil->ncl", slopes, factor[:, :, :-1])
        factor[:, :, -1, -1] = np.sqrt(np.asarray(theta[NOISE_VARIANCE], float))[:, None]
        response = start[:, None] + np.einsum("ni,nci->nc", slopes, mean)
        row = np.concatenate([mean, response[..., None]], axis=2)
        low, high = clamp_bounds(statistic, schema)
        return cls(
            share, units.factor * (row - units.centre), units.factor[:, None] * factor, low, high,
            schema.outside == "clamp",
        )  # fmt: skip

    def moments(self, pairs: Integers, *, intercept: bool, block: int = 1) -> tuple[Floats, Floats]:
        """M (K, size) and C (K, size, size) of the products of one row's entries w = ([1,] v)."""
        assert block == 1
        means, covariances = [], []
        for share, mean, factor in zip(self.share, self.mean, self.factor, strict=True):
            second, fourth = np.empty((len(share), len(pairs))), np.zeros((len(pairs), len(pairs)))
            own = np.empty_like(fourth)
            for c in range(len(share)):
                m = np.concatenate([[1.0], mean[c]]) if intercept else mean[c]
                spread = np.zeros((len(m), len(m)))
                spread[len(m) - len(mean[c]) :, len(m) - len(mean[c]) :] = factor[c] @ factor[c].T
                square = np.outer(m, m)
                second[c] = (spread + square)[pairs[:, 0], pairs[:, 1]]
                normal_covariance_at(spread, square, pairs, len(pairs), own)
                fourth += share[c] * own
            means.append(share @ second)
            away = second - means[-1]
            covariances.append(fourth + (share[:, None] * away).T @ away)
        return np.array(means), np.array(covariances)

    def rows(self, rng: np.random.Generator, k: int, count: int) -> Floats:
        """Rows (count, p) of the k-th parameter value; those outside are drawn again where they would be refused."""
        bounds = (self.low, self.high)
        return bounded_rows(lambda more: self._drawn(rng, k, more), count, bounds, clamps=self.clamps)

    def _drawn(self, rng: np.random.Generator, k: int, count: int) -> Floats:
        which = draw_configurations(rng, np.broadcast_to(self.share[k], (count, self.share.shape[1])))
        z = rng.standard_normal((count, self.factor.shape[-1]))
        return np.asarray(self.mean[k, which] + np.einsum("nij,nj->ni", self.factor[k, which], z))


def bounded_rows(drawn: Callable[[int], Floats], count: int, bounds: tuple[Floats, Floats], *, clamps: bool) -> Floats:
    """`count` rows clamped to the bounds, or, where records outside are refused, drawn again until all are inside."""
    rows, (low, high) = drawn(count), bounds
    if clamps:
        return np.clip(rows, low, high)
    for _ in range(MOST_TRIES):
        outside = np.any((rows < low) | (rows > high), axis=1)
        if not outside.any():
            return rows
        rows[outside] = drawn(int(outside.sum()))
    raise Unsupported("Hardly any row of the fitted model lies within the bounds; it cannot be simulated.")
