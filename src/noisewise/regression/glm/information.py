"""What a release would tell about a generalized linear model: the unknowns beside its coefficients.

The information is that of the linear regression's noisy sums (`regression/information.py`), with M and C of rows of
this model. Beside the coefficients the features' law is unknown, as it is when it is learnt:
    nothing stated      shares of the combinations, means of the numbers within them, their covariance
    NormalCovariates    mean and covariance, with the prior that it states
    GivenRows           the tilt of the given rows
each with the curvature of its prior. Of a law that is not registered here the sentence says so.
"""

# ruff: noqa: ARG001 (a registered function takes what some other one needs)

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np

from noisewise.errors import Unsupported
from noisewise.populations.parameters import Theta
from noisewise.regression.configurations import Configurations
from noisewise.regression.glm.covariates import NEAR_CENTRE
from noisewise.regression.glm.given_rows import GivenRows
from noisewise.regression.glm.rows import covariate_arrays
from noisewise.regression.information import Coordinate, MomentsInformation
from noisewise.regression.location import CONFIGURATION_SHARE, MEAN_SD, MORE_DEGREES
from noisewise.regression.location_information import Nuisance, ShareCoordinate, nuisance_prior, nuisances
from noisewise.regression.priors import INTERCEPT, NormalCovariates
from noisewise.types import Floats

if TYPE_CHECKING:
    from noisewise.planning import Plan
    from noisewise.regression.glm.model import MomentsGlm

__all__ = ["glm_information"]


def glm_information(
    plan: Plan, model: MomentsGlm, *, method: str, n: object, seed: object, draws: int | None
) -> MomentsInformation:
    """How the information of a plan about this regression is computed."""
    made = model.configurations((plan.part_schema,))
    unknowns = GlmUnknowns(model, made, tuple(_nuisances(model.covariates, made)))
    return MomentsInformation(plan, model, unknowns, method=method, n=n, seed=seed, draws=draws)


@dataclass(frozen=True, slots=True, eq=False)
class Coefficient:
    """One coefficient, moved in units of what it multiplies."""

    name: str
    made: Configurations
    place: int | None  # among the features; None for the intercept

    def moved(self, theta: Theta, amount: Floats) -> Theta:
        """theta with this coefficient moved by (K,) amounts."""
        return Coordinate(self.name).moved(theta, amount)

    def unit(self, theta: Theta) -> Floats:
        """1 over the root mean square of the feature: s moves by about 1."""
        share, mean, factor = covariate_arrays(self.made, theta)
        if self.place is None:
            return np.ones(len(share))
        second = mean[:, :, self.place] ** 2 + (factor[:, :, self.place] ** 2).sum(axis=2)
        return np.asarray(1 / np.sqrt(np.maximum((share * second).sum(axis=1), 1e-300)))


@dataclass(frozen=True, slots=True, eq=False)
class GlmUnknowns:
    """The coefficients, then the features' law (`information.Unknowns`)."""

    model: MomentsGlm
    made: Configurations
    nuisances: tuple[Nuisance, ...]

    def coordinates(self, theta: Theta) -> list[Coefficient | Nuisance]:
        """Everything unknown: what is asked for first."""
        places = {str(feature): k for k, feature in enumerate(self.model.features)}
        asked = [Coefficient(name, self.made, None if name == INTERCEPT else places[name]) for name in self.model.names]
        return [*asked, *self.nuisances]

    def prior(self, theta: Theta) -> Floats:
        """The curvature (K, P, P) of the prior of the features' law."""
        return _curvature(self.model.covariates, self.made, theta, intercept=self.model.intercept)


@singledispatch
def _nuisances(given: object, made: Configurations) -> list[Nuisance]:
    """What is unknown of the features' law."""
    raise Unsupported(
        f"What a release would tell where the features' law is a {type(given).__name__} is not known yet; choose by "
        "the same model without covariates=."
    )


@_nuisances.register
def _(given: None, made: Configurations) -> list[Nuisance]:
    return nuisances(made)


@_nuisances.register
def _(given: NormalCovariates, made: Configurations) -> list[Nuisance]:
    return nuisances(made)


@_nuisances.register
def _(given: GivenRows, made: Configurations) -> list[Nuisance]:
    return [ShareCoordinate(direction) for direction in given.tilt().T]


@singledispatch
def _curvature(given: object, made: Configurations, theta: Theta, *, intercept: bool) -> Floats:
    """That of its prior."""
    raise Unsupported(f"A {type(given).__name__} has no prior here.")


@_curvature.register
def _(given: None, made: Configurations, theta: Theta, *, intercept: bool) -> Floats:
    return _with_means(nuisance_prior(made, theta), made, 1.0 if intercept else (MEAN_SD / NEAR_CENTRE) ** 2)


@_curvature.register
def _(given: NormalCovariates, made: Configurations, theta: Theta, *, intercept: bool) -> Floats:
    prior, size = nuisance_prior(made, theta), len(made.numbers)
    prior = _with_means(prior, made, given.strength * MEAN_SD**2)
    prior[:, size:, size:] *= given.degrees / (size + MORE_DEGREES)
    return prior


@_curvature.register
def _(given: GivenRows, made: Configurations, theta: Theta, *, intercept: bool) -> Floats:
    size = given.tilt().shape[1]
    return np.array(np.broadcast_to(np.eye(size), (len(np.asarray(theta[CONFIGURATION_SHARE])), size, size)))


def _with_means(prior: Floats, made: Configurations, factor: float) -> Floats:
    """The curvature with that of the numbers' common means times a factor; shares come before them."""
    size = len(made.numbers)
    start = made.directions().shape[1] + made.products().shape[1]
    prior[:, start : start + size, start : start + size] *= factor
    return prior
