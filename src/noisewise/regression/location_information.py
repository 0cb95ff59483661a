"""What is unknown beside the coefficients where covariates follow the location model, for `information`.

    shares of the configurations   P(c) proportional to P(c) exp(h t(c)), one coordinate for each column of t
    means of the numbers           moved along each column of h(c), one for each number and column
    covariance of the numbers      its entries
with the curvature of their priors (location.py): 1, Sigma^-1, and degrees/2 tr(Sigma^-1 dSigma Sigma^-1 dSigma).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewise.populations.parameters import Theta
from noisewise.regression.configurations import Configurations
from noisewise.regression.location import (
    CONFIGURATION_SHARE,
    DIFFERENCE_SD,
    DIRECTION_SD,
    MEAN_SD,
    MORE_DEGREES,
    NUMBER_COVARIANCE,
    NUMBER_MEAN,
    PRODUCT_SD,
)
from noisewise.regression.problem import Floats


@dataclass(frozen=True, slots=True, eq=False)
class ShareCoordinate:
    """Shares tilted along a direction (C,), in units of the prior sd of its coefficient."""

    direction: Floats

    def moved(self, theta: Theta, amount: Floats) -> Theta:
        """theta with this coordinate moved by (K,) amounts."""
        tilted = np.asarray(theta[CONFIGURATION_SHARE]) * np.exp(np.multiply.outer(amount, self.direction))
        return {**theta, CONFIGURATION_SHARE: tilted / tilted.sum(axis=1, keepdims=True)}

    def unit(self, theta: Theta) -> Floats:
        """A length (K,) that is small beside the scale on which the law of a row changes."""
        return np.ones(len(np.asarray(theta[CONFIGURATION_SHARE])))


@dataclass(frozen=True, slots=True, eq=False)
class MeanCoordinate:
    """The mean of one number, moved along a direction (C,)."""

    number: int
    direction: Floats

    def moved(self, theta: Theta, amount: Floats) -> Theta:
        """theta with this coordinate moved by (K,) amounts."""
        mean = np.array(theta[NUMBER_MEAN], dtype=float)
        mean[:, :, self.number] += np.multiply.outer(amount, self.direction)
        return {**theta, NUMBER_MEAN: mean}

    def unit(self, theta: Theta) -> Floats:
        """As above, in the units of the number."""
        size = float(np.max(np.abs(self.direction)))
        return np.asarray(np.sqrt(np.asarray(theta[NUMBER_COVARIANCE])[:, self.number, self.number]) / size)


@dataclass(frozen=True, slots=True, eq=False)
class CovarianceCoordinate:
    """One entry of the numbers' covariance, with its mirror image."""

    row: int
    column: int

    def moved(self, theta: Theta, amount: Floats) -> Theta:
        """theta with this coordinate moved by (K,) amounts."""
        covariance = np.array(theta[NUMBER_COVARIANCE], dtype=float)
        covariance[:, self.row, self.column] += amount
        if self.row != self.column:
            covariance[:, self.column, self.row] += amount
        return {**theta, NUMBER_COVARIANCE: covariance}

    def unit(self, theta: Theta) -> Floats:
        """The smallest eigenvalue: a covariance moved by less stays one."""
        return np.asarray(np.linalg.eigvalsh(np.asarray(theta[NUMBER_COVARIANCE]))[:, 0])


Nuisance = ShareCoordinate | MeanCoordinate | CovarianceCoordinate


def nuisances(made: Configurations) -> list[Nuisance]:
    """Every unknown of the location model, in the order of `nuisance_prior`."""
    first, size = made.directions(), len(made.numbers)
    tilts = [*(DIRECTION_SD * first).T, *(PRODUCT_SD * made.products()).T]
    contrasts = [np.full(made.count, MEAN_SD), *(DIFFERENCE_SD * first).T]
    return [
        *(ShareCoordinate(direction) for direction in tilts),
        *(MeanCoordinate(k, direction) for direction in contrasts for k in range(size)),
        *(CovarianceCoordinate(i, j) for i in range(size) for j in range(i + 1)),
    ]


def nuisance_prior(made: Configurations, theta: Theta) -> Floats:
    """The curvature (K, P, P) of the model's prior at each parameter value."""
    found = nuisances(made)
    count = len(np.asarray(theta[CONFIGURATION_SHARE]))
    tilts = sum(isinstance(each, ShareCoordinate) for each in found)
    prior = np.zeros((count, len(found), len(found)))
    prior[:, :tilts, :tilts] = np.eye(tilts)
    size = len(made.numbers)
    if not size:
        return prior
    inverse = np.linalg.inv(np.asarray(theta[NUMBER_COVARIANCE]))
    spreads = size * (size + 1) // 2
    for at in range(tilts, len(found) - spreads, size):
        prior[:, at : at + size, at : at + size] = inverse
    units = np.zeros((spreads, size, size))
    for unit, row, column in zip(units, *np.tril_indices(size), strict=True):
        unit[row, column] = unit[column, row] = 1.0
    relative = np.einsum("nab,ubc->nuac", inverse, units)
    prior[:, -spreads:, -spreads:] = (size + MORE_DEGREES) / 2 * np.einsum("niab,njba->nij", relative, relative)
    return prior
