"""The general location model of covariates: a table of configurations, and normal numbers within each of them.

    P(c) proportional to exp(u' t(c)),     z | c ~ N(A Z h(c), A A'),      x = a(c) + D(c) z      (Olkin & Tate 1961)
t holds the directions in which configurations differ and their products: as many unknowns as the release has first and
second moments of the yes/no features; dependence of three conditions at once is left at its simplest (none beyond
pairs), and enters the scatter of the sums only. Numbers have one covariance in all configurations, and means that
move along the directions h. All in working units, numbers as (z - likely centre)/(likely sd). Weak priors:
    u ~ N(0, 2.5^2) for a direction (between one end and the other), N(0, 1.5^2) for a product
    A A' ~ InverseWishart(I/16, k + 1),    mean: N(0, 100 A A'),   differences along a direction: N(0, 25 A A')
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from noisewise.regression.configurations import Configurations
from noisewise.regression.problem import Floats, LocationX

DIRECTION_SD, PRODUCT_SD = 2.5, 1.5
MEAN_SD, DIFFERENCE_SD = 10.0, 5.0
SPREAD_SHARE, MORE_DEGREES = 1 / 16, 1.0
CONFIGURATION_SHARE = "configuration_share"
NUMBER_MEAN, NUMBER_COVARIANCE = "number_mean", "number_covariance"


def location_model(made: Configurations, *, centre: Floats, factor: Floats, likely: tuple[Floats, Floats]) -> LocationX:
    """The model in the units factor * (f - centre) of a release's rows; `likely` are centre and sd of the numbers."""
    where, size = likely
    first, products = made.directions(), made.products()
    return LocationX(
        offset=factor * (made.constant + made.coefficient @ where - centre),
        slope=factor[:, None] * made.coefficient * size,
        tilt=np.concatenate([DIRECTION_SD * first, PRODUCT_SD * products], axis=1),
        contrast=np.concatenate([np.full((made.count, 1), MEAN_SD), DIFFERENCE_SD * first], axis=1),
        scale=SPREAD_SHARE * np.eye(len(where)),
        degrees=len(where) + MORE_DEGREES,
        centre=where,
        spread=size,
    )


def shares(x: LocationX, tilts: Floats) -> Floats:
    """P(c) (..., C) at coefficients (..., s)."""
    logits = tilts @ x.tilt.T + (0.0 if x.log_weight is None else x.log_weight)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def number_means(x: LocationX, factor: Floats, effects: Floats) -> Floats:
    """A Z h(c) (..., C, k) at A (..., k, k) and Z (..., k, r)."""
    return np.asarray(np.swapaxes(factor @ effects @ x.contrast.T, -1, -2))


def covariate_moments(x: LocationX, share: Floats, means: Floats, factor: Floats) -> tuple[Floats, Floats]:
    """Mean (..., d) and covariance (..., d, d) of the covariates over all configurations."""
    within = x.offset + np.einsum("cik,...ck->...ci", x.slope, means)
    mean = np.einsum("...c,...ci->...i", share, within)
    away = within - mean[..., None, :]
    spread = np.einsum("cik,...kl->...cil", x.slope, factor)
    covariance = np.einsum("...c,...ci,...cj->...ij", share, away, away)
    return mean, covariance + np.einsum("...c,...cil,...cjl->...ij", share, spread, spread)


def natural_draws(x: LocationX, share: Floats, means: Floats, factor: Floats) -> dict[str, Floats]:
    """Draws of the model by name, numbers in the units of the columns."""
    found = {CONFIGURATION_SHARE: share}
    if x.numbers:
        found[NUMBER_MEAN] = x.centre + x.spread * means
        found[NUMBER_COVARIANCE] = factor @ np.swapaxes(factor, -1, -2) * np.outer(x.spread, x.spread)
    return found


def draw_covariates(rng: np.random.Generator, x: LocationX, theta: Mapping[str, Floats]) -> Floats:
    """One row of covariates (K, d) in working units for each of K values of the model's draws."""
    share = theta[CONFIGURATION_SHARE]
    which = draw_configurations(rng, share)
    drawn = x.offset[which]
    if not x.numbers:
        return np.asarray(drawn)
    root = np.linalg.cholesky(theta[NUMBER_COVARIANCE])
    z = theta[NUMBER_MEAN][np.arange(len(which)), which]
    z = z + np.einsum("kij,kj->ki", root, rng.standard_normal(z.shape))
    return np.asarray(drawn + np.einsum("kij,kj->ki", x.slope[which], (z - x.centre) / x.spread))


def draw_configurations(rng: np.random.Generator, share: Floats) -> NDArray[np.int64]:
    """One configuration (K,) for each row of shares (K, C)."""
    below = np.cumsum(share, axis=1) < rng.random((len(share), 1))
    return np.asarray(np.minimum(below.sum(axis=1), share.shape[1] - 1))
