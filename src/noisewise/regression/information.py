"""How much a release of Moments would tell about a regression: the Fisher information of its noisy sums.

Noisy sums of products are Y = T + noise with T ~ N(n M, n C), M and C the moments of a row's products (`row_law`), so
with Gaussian noise and H = n C + noise variances, over all coordinates (beta, noise variance, mu, Sigma),
    F_ij = dM_i' (n^2 H^-1) dM_j + tr(H^-1 dH_i H^-1 dH_j)/2;
Laplace noise is matched by a normal one, sum by sum, or simulated (method="monte-carlo"; `design.laplace_vector`).
What is asked is the information about beta and the noise variance where mu and Sigma are unknown, too: the Schur
complement of their block, to which their prior's curvature is added, strength Sigma^-1 for mu and
degrees/2 tr(Sigma^-1 dSigma Sigma^-1 dSigma) for Sigma. `choose` ranks weights, centres, scales and `shrink` by it;
rows that would be clamped or shortened are so in M and C. With yes/no features, at draws of a posterior that knows
their law, what is unknown of it stands in the place of mu and Sigma (location_information.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from noisewise.design.laplace_vector import laplace_vector_information, matched_variance
from noisewise.errors import Unsupported
from noisewise.joining import record_count
from noisewise.laws import additive_law, normal_mixture
from noisewise.likelihood import normal_gaussian
from noisewise.planning import Plan
from noisewise.populations.parameters import Theta, rows_of
from noisewise.regression.configurations import Configurations
from noisewise.regression.location import CONFIGURATION_SHARE
from noisewise.regression.location_information import nuisance_prior, nuisances
from noisewise.regression.priors import (
    COVARIATE_COVARIANCE,
    COVARIATE_MEAN,
    MORE_DEGREES,
    NOISE_VARIANCE,
    STRENGTH,
    NormalCovariates,
)
from noisewise.regression.problem import Floats
from noisewise.regression.row_law import row_law
from noisewise.regression.subject import MomentsRegression
from noisewise.schema import Schema
from noisewise.statistics import Moments

if TYPE_CHECKING:
    from noisewise.regression.model import LinearRegression

STEP = 1e-4
POINTS = (-2, -1, 1, 2)


@dataclass(frozen=True, slots=True)
class Coordinate:
    """One number of theta: a scalar, an entry of a mean, or two entries of a symmetric matrix."""

    name: str
    index: tuple[int, ...] = ()

    def moved(self, theta: Theta, amount: Floats) -> Theta:
        """theta with this coordinate moved by (K,) amounts."""
        value = np.array(theta[self.name], dtype=float)
        direction = np.zeros(value.shape[1:])
        direction[self.index] = direction[self.index[::-1]] = 1.0
        return {**theta, self.name: value + np.multiply.outer(amount, direction)}

    def unit(self, theta: Theta) -> Floats:
        """A length (K,) that is small beside the scale on which the law of a row changes."""
        covariance = np.asarray(theta[COVARIATE_COVARIANCE])
        if self.name == COVARIATE_COVARIANCE:
            return np.asarray(np.linalg.eigvalsh(covariance)[:, 0])
        if self.name == COVARIATE_MEAN:
            return np.sqrt(covariance[:, self.index[0], self.index[0]])
        noise = np.asarray(theta[NOISE_VARIANCE], float)
        if self.name == NOISE_VARIANCE:
            return noise
        largest = np.diagonal(covariance, axis1=1, axis2=2).max(axis=1)
        return np.asarray(np.maximum(np.abs(np.asarray(theta[self.name], float)), np.sqrt(noise / (1 + largest))))


class Moved(Protocol):
    """One unknown number."""

    def moved(self, theta: Theta, amount: Floats) -> Theta:
        """theta with it moved by (K,) amounts."""
        ...

    def unit(self, theta: Theta) -> Floats:
        """A length (K,) that is small beside the scale on which the law of a row changes."""
        ...


class Unknowns(Protocol):
    """Everything unknown of a regression: what is asked for, then the law of its covariates with its prior."""

    def coordinates(self, theta: Theta) -> Sequence[Moved]: ...
    def prior(self, theta: Theta) -> Floats: ...


class MomentsInformation:
    """The information of one plan about what a regression asks for, at many parameter values."""

    is_exact = False
    shares_draws = False

    def __init__(
        self,
        plan: Plan,
        model: MomentsRegression,
        unknowns: Unknowns,
        *,
        n: object,
        method: str = "auto",
        seed: object = None,
        draws: int | None = None,
    ) -> None:
        if not isinstance(plan.statistic, Moments):
            raise Unsupported(f"A regression learns from Moments; {plan.statistic} tells it nothing.")
        self.plan, self.model, self.unknowns, self.statistic = plan, model, unknowns, plan.statistic
        self.n = record_count(plan.part_schema, n) // plan.statistic.block
        self.seed, self.draws = seed, draws
        kept = [k for k, pair in enumerate(self.statistic.pairs(plan.part_schema)) if len(pair) == 2]
        self.pairs = np.array([self.statistic.pairs(plan.part_schema)[k] for k in kept], np.int64)
        law = additive_law(plan.law)
        self.sd, self.scale = np.array(law.sd)[kept], np.array(law.scale)[kept]
        self.is_laplace = normal_mixture(law).is_laplace
        self.is_simulated = self.is_laplace and method == "monte-carlo"

    @property
    def method(self) -> str:
        if self.is_simulated:
            return "monte-carlo (remainder beside a closed form)"
        return "closed form (Laplace noise matched sum by sum)" if self.is_laplace else "closed form"

    def rows(self, theta: Theta) -> tuple[Floats, Floats]:
        """F (K, P, P) about what is asked for, and its standard error."""
        if not self.is_simulated:
            told = self._told(theta, None if self.is_laplace else np.square(self.sd))
            return told, np.zeros_like(told)
        covariance, d_mean, d_covariance = self._slopes(theta)
        rng = np.random.default_rng(self.seed)  # type: ignore[arg-type]
        full, error = laplace_vector_information(
            rng, covariance=covariance, d_mean=d_mean, d_covariance=d_covariance, scale=self.scale, draws=self.draws
        )
        asked = len(self.model.free)
        return self._efficient(full, theta, asked), error[:, :asked, :asked]

    def _told(self, theta: Theta, variance: Floats | None) -> Floats:
        """F under normal noise of these variances, or of those that match Laplace noise."""
        covariance, d_mean, d_covariance = self._slopes(theta)
        noise = matched_variance(covariance, self.scale) if variance is None else variance
        noisy = covariance + np.eye(len(self.pairs)) * np.broadcast_to(noise, covariance.shape[:2])[:, None, :]
        full = normal_gaussian.information(d_mean=d_mean, d_covariance=d_covariance, covariance=noisy)
        return self._efficient(full, theta, len(self.model.free))

    def _slopes(self, theta: Theta) -> tuple[Floats, Floats, Floats]:
        """n C, and the slopes of n M and n C along every coordinate."""
        size, packed = len(self.pairs), self._packed(theta)
        slopes = np.stack([_slope(self._packed, theta, one) for one in self.unknowns.coordinates(theta)], axis=1)
        d_covariance = slopes[..., size:].reshape(*slopes.shape[:2], size, size)
        return packed[:, size:].reshape(-1, size, size), slopes[..., :size], d_covariance

    def spread(self, theta: Theta) -> Floats | None:
        """F under normal noise with the variance of Laplace noise, where that is what the plan adds."""
        if not self.is_laplace:
            return None
        return self._told(theta, np.square(self.sd))

    def _packed(self, theta: Theta) -> Floats:
        """n M and n C in one row, (K, size + size^2)."""
        law = row_law(self.model, self.statistic, self.plan.part_schema, theta)
        mean, covariance = law.moments(self.pairs, intercept=self.statistic.intercept, block=self.statistic.block)
        return self.n * np.concatenate([mean, covariance.reshape(len(mean), -1)], axis=1)

    def _efficient(self, full: Floats, theta: Theta, asked: int) -> Floats:
        """F_bb - F_bn (F_nn + prior)^-1 F_nb."""
        nuisance = full[:, asked:, asked:] + self.unknowns.prior(theta)
        cross = full[:, :asked, asked:]
        scale = np.sqrt(np.diagonal(nuisance, axis1=1, axis2=2))
        scaled = nuisance / (scale[:, :, None] * scale[:, None, :])
        solved = np.linalg.solve(scaled, np.swapaxes(cross / scale[:, None, :], 1, 2))
        return np.asarray(full[:, :asked, :asked] - (cross / scale[:, None, :]) @ solved)


@dataclass(frozen=True, slots=True, eq=False)
class LinearUnknowns:
    """Coefficients and noise variance, then the covariates' law."""

    model: LinearRegression
    schema: Schema

    def coordinates(self, theta: Theta) -> list[Moved]:
        """Everything unknown: what is asked for first, then the covariates' law."""
        if CONFIGURATION_SHARE in theta:
            return [*(Coordinate(name) for name in self.model.free), *nuisances(self._configurations())]
        d = len(self.model.features)
        means = [Coordinate(COVARIATE_MEAN, (i,)) for i in range(d)] if self.model.intercept else []
        spreads = [Coordinate(COVARIATE_COVARIANCE, (i, j)) for i in range(d) for j in range(i + 1)]
        return [*(Coordinate(name) for name in self.model.free), *means, *spreads]

    def _configurations(self) -> Configurations:
        return Configurations.of(self.model.features, (self.schema,))

    def prior(self, theta: Theta) -> Floats:
        """The curvature of the covariates' prior at each parameter value."""
        if CONFIGURATION_SHARE in theta:
            return nuisance_prior(self._configurations(), theta)
        covariance = np.asarray(theta[COVARIATE_COVARIANCE])
        count, d, _ = covariance.shape
        given = self.model.covariates
        is_normal = isinstance(given, NormalCovariates)
        strength, degrees = (given.strength, given.degrees) if is_normal else (STRENGTH, d + MORE_DEGREES)
        inverse = np.linalg.inv(covariance)
        units = []
        for i in range(d):
            for j in range(i + 1):
                unit = np.zeros((d, d))
                unit[i, j] = unit[j, i] = 1.0
                units.append(unit)
        relative = np.stack([inverse @ unit for unit in units], axis=1)
        spread = 0.5 * degrees * np.einsum("kiab,kjba->kij", relative, relative)
        means = d if self.model.intercept else 0
        prior = np.zeros((count, means + len(units), means + len(units)))
        prior[:, :means, :means] = strength * inverse[:, :means, :means]
        prior[:, means:, means:] = spread
        return prior


def _slope(function: Callable[[Theta], Floats], theta: Theta, coordinate: Moved) -> Floats:
    """The derivative of a function (K, ...) along a coordinate: a central difference of fourth order."""
    rows = rows_of(theta)
    h = STEP * coordinate.unit(theta)
    repeated = {name: np.concatenate([np.asarray(value)] * len(POINTS)) for name, value in theta.items()}
    moved = coordinate.moved(repeated, np.concatenate([k * h for k in POINTS]))
    at = function(moved).reshape(len(POINTS), rows, -1)
    return np.asarray((8 * (at[2] - at[1]) - (at[3] - at[0])) / (12 * h[:, None]))
