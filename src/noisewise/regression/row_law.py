"""The law of one row (x, y) of a release, at many parameter values at once, and what cleaning does to its sums.

In the users' units x ~ N(mu, Sigma) and y = beta_0 + beta' x + e, so (x, y) is normal; a release's rows are an affine
function of it, clamped to the declared bounds and shortened to norm R before products are summed:
    v = k ((x, y) - c),     v~ = clamp(v) min(1, R/|clamp(v)|).
Sums of n rows have mean n M and covariance n C, the moments of v~_a v~_b: in closed form where hardly any row is
cleaned, else by a fixed bank of base points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from noisewise.errors import Unsupported
from noisewise.populations.parameters import Theta
from noisewise.regression.location import CONFIGURATION_SHARE
from noisewise.regression.location_rows import LocationLaw
from noisewise.regression.moments import at_pairs, normal_moment_covariance
from noisewise.regression.observed import clamp_bounds
from noisewise.regression.points import base_points
from noisewise.regression.priors import COVARIATE_COVARIANCE, COVARIATE_MEAN, INTERCEPT, NOISE_VARIANCE, GivenMoments
from noisewise.regression.problem import Floats, Integers
from noisewise.regression.subject import MomentsRegression, SummedRows
from noisewise.regression.units import Units
from noisewise.schema import Schema
from noisewise.statistics import Moments

NEGLIGIBLE = 1e-5  # a share of cleaned rows that no release shows
BANK = 4096


@dataclass(frozen=True, slots=True, eq=False)
class RowLaw:
    """v ~ N(mean, covariance) for K parameter values, and how v is cleaned."""

    mean: Floats  # (K, p), p = d + 1
    covariance: Floats  # (K, p, p)
    low: Floats  # (p,)
    high: Floats
    clamps: bool
    shrink: float | None

    @classmethod
    def of(cls, model: MomentsRegression, statistic: Moments, schema: Schema, theta: Theta) -> RowLaw:
        """The law of a release's rows at parameter values in the users' units."""
        units = Units.of(statistic)
        mean, covariance = joint_law(model, theta)
        if not model.intercept:  # a line through the release's centre, about which the covariates lie
            mean = np.broadcast_to(units.centre, mean.shape)
        low, high = clamp_bounds(statistic, schema)
        return cls(
            units.factor * (mean - units.centre),
            covariance * np.outer(units.factor, units.factor),
            low,
            high,
            schema.outside == "clamp",
            None if statistic.shrink is None else float(statistic.shrink),
        )

    @property
    def root(self) -> Floats:
        return np.asarray(np.linalg.cholesky(self.covariance))

    def is_cleaned(self) -> bool:
        """Whether more than a negligible share of rows would be clamped or shortened at some parameter value."""
        from scipy.special import ndtr

        sd = np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2))
        outside = (ndtr((self.low - self.mean) / sd) + ndtr((self.mean - self.high) / sd)).sum(axis=1)
        if outside.max() > NEGLIGIBLE:
            return True
        if self.shrink is None:
            return False
        z, weights = base_points(self.mean.shape[1], BANK)
        longer = [
            float(weights[np.linalg.norm(mean + z @ root.T, axis=1) > self.shrink].sum())
            for mean, root in zip(self.mean, self.root, strict=True)
        ]
        return max(longer) > NEGLIGIBLE

    def clean(self, rows: Floats) -> Floats:
        """Rows (..., p) as the holder's statistic sees them."""
        kept = np.clip(rows, self.low, self.high)
        if self.shrink is None:
            return kept
        length = np.linalg.norm(kept, axis=-1, keepdims=True)
        return np.asarray(kept * (self.shrink / np.maximum(length, self.shrink)))

    def moments(self, pairs: Integers, *, intercept: bool, block: int = 1) -> tuple[Floats, Floats]:
        """M (K, size) and C (K, size, size) of the products of one row's entries w = ([1,] v~).

        Of rows averaged in blocks of k, (w_1 + .. + w_k)/sqrt k: the mean is sqrt k times as large.
        """
        is_cleaned = self.is_cleaned()
        if is_cleaned and (block > 1 or not self.clamps):
            raise Unsupported(
                "Some rows would be clamped or shortened; with averaged rows, or with records refused outside their "
                "bounds, the moments of such rows are not computed."
            )
        means, covariances = [], []
        for mean, covariance, root in zip(self.mean, self.covariance, self.root, strict=True):
            if is_cleaned:
                z, weights = base_points(len(mean), BANK)
                rows = self.clean(mean + z @ root.T)
                w = np.column_stack([np.ones(len(rows)), rows]) if intercept else rows
                products = w[:, pairs[:, 0]] * w[:, pairs[:, 1]]
                means.append(weights @ products)
                away = products - means[-1]
                covariances.append((away * weights[:, None]).T @ away)
            else:
                first = np.sqrt(block) * (np.concatenate([[1.0], mean]) if intercept else mean)
                second = np.outer(first, first)
                second[-len(mean) :, -len(mean) :] += covariance
                means.append(second[pairs[:, 0], pairs[:, 1]])
                covariances.append(at_pairs(_normal_fourth(second, first), pairs))
        return np.array(means), np.array(covariances)


@dataclass(frozen=True, slots=True, eq=False)
class Summing:
    """Where rows are summed: a statistic under a schema (`subject.Place`)."""

    statistic: Moments
    schema: Schema

    @property
    def units(self) -> Units:
        return Units.of(self.statistic)

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        return clamp_bounds(self.statistic, self.schema)

    @property
    def is_plain(self) -> bool:
        return self.statistic.shrink is None and self.statistic.block == 1


def row_law(model: MomentsRegression, statistic: Moments, schema: Schema, theta: Theta) -> SummedRows:
    """The law of a release's rows, as the model has it."""
    return model.rows_at(Summing(statistic, schema), theta)


def linear_rows(model: MomentsRegression, place: Summing, theta: Theta) -> RowLaw | LocationLaw:
    """Those of a line with normal scatter: normal, or with yes/no features the law that was learned for them."""
    statistic, schema = place.statistic, place.schema
    if CONFIGURATION_SHARE in theta:
        return LocationLaw.of(model, statistic, schema, theta)
    if model.conditions and not isinstance(model.covariates, GivenMoments | str):
        raise Unsupported(
            f"Rows with yes/no features such as {model.conditions[0]} are not normal, and these parameters say nothing "
            "else of them, so they are not simulated. A posterior by method 'auto' without covariates= knows their law."
        )
    return RowLaw.of(model, statistic, schema, theta)


def _normal_fourth(second: Floats, mean: Floats) -> Floats:
    found: Floats = normal_moment_covariance(second, mean)
    return found


def joint_law(model: MomentsRegression, theta: Theta) -> tuple[Floats, Floats]:
    """Mean (K, p) and covariance (K, p, p) of (x, y) in the users' units."""
    _check_names(model, theta)
    slopes = np.stack([np.asarray(theta[str(feature)], float) for feature in model.features], axis=1)
    mean_x, covariance_x = np.asarray(theta[COVARIATE_MEAN]), np.asarray(theta[COVARIATE_COVARIANCE])
    start = np.asarray(theta.get(INTERCEPT, np.zeros(len(slopes))), float)
    mean_y = start + np.einsum("ki,ki->k", slopes, mean_x)
    cross = np.einsum("kij,kj->ki", covariance_x, slopes)
    variance_y = np.einsum("ki,ki->k", slopes, cross) + np.asarray(theta[NOISE_VARIANCE], float)
    size = mean_x.shape[1] + 1
    covariance = np.empty((len(slopes), size, size))
    covariance[:, :-1, :-1], covariance[:, -1, -1] = covariance_x, variance_y
    covariance[:, :-1, -1] = covariance[:, -1, :-1] = cross
    return np.column_stack([mean_x, mean_y]), covariance


def _check_names(model: MomentsRegression, theta: Mapping[str, object]) -> None:
    if {COVARIATE_MEAN, COVARIATE_COVARIANCE, NOISE_VARIANCE} <= set(theta):
        return
    if isinstance(model.covariates, GivenMoments | str):
        raise Unsupported(
            "There is no law of the covariates, only their moments, so rows cannot be simulated. Fit with "
            "covariates=NormalCovariates(...), or without covariates=."
        )
    raise Unsupported("This method has no law of the covariates, so its rows cannot be simulated; use 'marginal'.")
