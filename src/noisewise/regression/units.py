"""From the units people use to the units of a release's rows, and back: every map of a regression is affine.

A release's rows hold v = k (f - c), with its public centre c and k = 1/scale for each feature and the response. With
    f_y = beta_0 + beta' f_x + e        and        v_y = theta_0 + theta' v_x + e k_y,
    theta_i = k_y beta_i / k_i,         theta_0 = k_y (beta_0 + beta' c_x - c_y),       sigma_v^2 = k_y^2 sigma_f^2,
so theta = A beta + a: normal laws stay normal. Without intercept the line passes through the release's centre.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewise.errors import Unsupported
from noisewise.regression.problem import Floats
from noisewise.statistics import Moments, SmallestEigenvalue


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """The public centre c and factor k of each entry (x_1..x_d, y) of a row."""

    centre: Floats  # (d + 1,)
    factor: Floats  # (d + 1,)
    intercept: bool

    @classmethod
    def of(cls, statistic: Moments) -> Units:
        """Those of the rows that a statistic multiplies, to the last bit."""
        entries = (*statistic.features, statistic.response)
        return cls(*_public(statistic, [str(entry) for entry in entries]), statistic.intercept)

    @property
    def coefficient_map(self) -> tuple[Floats, Floats]:
        """A (q, q) and a (q,) of theta = A beta + a."""
        centre, factor, response = self.centre[:-1], self.factor[:-1], float(self.factor[-1])
        slopes = np.diag(response / factor)
        if not self.intercept:
            return slopes, np.zeros(len(factor))
        size = len(factor) + 1
        matrix, offset = np.zeros((size, size)), np.zeros(size)
        matrix[0, 0], matrix[0, 1:], matrix[1:, 1:] = response, response * centre, slopes
        offset[0] = -response * float(self.centre[-1])
        return matrix, offset

    @property
    def covariate_map(self) -> Floats:
        """L with ([1,] v_x) = L ([1,] f_x); without intercept, of f_x less its centre."""
        factor = self.factor[:-1]
        if not self.intercept:
            return np.diag(factor)
        matrix = np.zeros((len(factor) + 1, len(factor) + 1))
        matrix[0, 0], matrix[1:, 0], matrix[1:, 1:] = 1.0, -factor * self.centre[:-1], np.diag(factor)
        return matrix

    @property
    def variance_factor(self) -> float:
        """k_y^2: what the noise variance is multiplied by."""
        return float(self.factor[-1]) ** 2

    def working(self, beta: Floats) -> Floats:
        """Coefficients in the users' units (..., q) to those of the rows."""
        matrix, offset = self.coefficient_map
        return np.asarray(beta @ matrix.T + offset)

    def natural(self, theta: Floats) -> Floats:
        """Coefficients of the rows (..., q) to the users' units."""
        matrix, offset = self.coefficient_map
        return np.asarray(np.linalg.solve(matrix, (theta - offset)[..., None])[..., 0])

    def implied_intercept(self, slopes: Floats) -> Floats:
        """Where a line without intercept, through the centre of its rows, meets f_x = 0: c_y - beta' c_x."""
        return np.asarray(self.centre[-1] - slopes @ self.centre[:-1])

    def natural_mean(self, mean: Floats) -> Floats:
        """The mean of v_x (..., d) as that of f_x."""
        return np.asarray(mean / self.factor[:-1] + self.centre[:-1])

    def natural_covariance(self, covariance: Floats) -> Floats:
        """The covariance of v_x (..., d, d) as that of f_x."""
        return np.asarray(covariance / np.outer(self.factor[:-1], self.factor[:-1]))

    def row_map(self, other: Units) -> Floats:
        """R with (a row w in the other's units) = R (the same row in these units), w = ([1,] v_x, v_y)."""
        ratio = other.factor / self.factor
        shift = (self.centre - other.centre) * other.factor
        if not self.intercept:
            if np.any(shift != 0):
                raise Unsupported(
                    "Without an intercept the line passes through the centre of the rows, so all holders must use the "
                    "same centre. Use intercept=True, or releases with one centre."
                )
            return np.diag(ratio)
        size = len(ratio) + 1
        matrix = np.zeros((size, size))
        matrix[0, 0], matrix[1:, 0], matrix[1:, 1:] = 1.0, shift, np.diag(ratio)
        return matrix


def same_covariates(moments: Moments, eigenvalue: SmallestEigenvalue) -> bool:
    """True where X of both statistics has the same features, centre and scale."""
    names = [str(feature) for feature in moments.features]
    if names != [str(feature) for feature in eigenvalue.features]:
        return False
    ours, theirs = _public(moments, names), _public(eigenvalue, names)
    return all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True))


def _public(statistic: Moments | SmallestEigenvalue, names: list[str]) -> tuple[Floats, Floats]:
    centres, scales = dict(statistic.centre), dict(statistic.scale)
    centre = np.array([float(centres.get(name, 0)) for name in names])
    factor = np.array([float(1 / scales[name]) if name in scales else 1.0 for name in names])
    return centre, factor
