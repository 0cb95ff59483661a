"""What linear and generalized regressions have in common as models of moments.

Both are a response on features; what differs is the law of the response, what is believed of it, and how it is learnt.
Here stand their names, their sites (`learnt_as`, `at_site`), what is simulated, counted and asked of a release at
parameter values (through `rows_at`, which each has itself), and the way to spec files.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Self, cast

import numpy as np
from numpy.typing import NDArray

from noisewise.models.base import InformationSettings, ModelBase
from noisewise.populations.parameters import Theta
from noisewise.regression.configurations import has_conditions
from noisewise.regression.priors import INTERCEPT
from noisewise.regression.sites.sharing import Sharing, changed_copy
from noisewise.statistics.feature import Feature
from noisewise.types import Floats

if TYPE_CHECKING:
    from noisewise.inference.degrees import Degrees
    from noisewise.inference.posterior import Posterior
    from noisewise.models.protocol import Model
    from noisewise.planning import Plan, Simulable
    from noisewise.regression.confidential import MomentsLaws
    from noisewise.regression.information import MomentsInformation
    from noisewise.regression.sites.subject import BySite
    from noisewise.regression.subject import MomentsRegression
    from noisewise.release import NoisyValue

__all__ = ["MomentsModel", "coefficient_names"]


def coefficient_names(features: tuple[Feature, ...], *, intercept: bool) -> tuple[str, ...]:
    """The coefficients, by name: the intercept first, then each feature as it is written."""
    return (*([INTERCEPT] if intercept else []), *map(str, features))


class MomentsModel(ModelBase):
    """A response on features, learnt from releases of Moments."""

    __slots__ = ()

    features: tuple[Feature, ...]
    response: Feature
    intercept: bool
    sharing: Sharing

    @property
    def names(self) -> tuple[str, ...]:
        """The coefficients, by name: the intercept first, then each feature as it is written."""
        return coefficient_names(self.features, intercept=self.intercept)

    @property
    def title(self) -> str:
        return f"Inferring {', '.join(self.names)}"

    @property
    def conditions(self) -> tuple[Feature, ...]:
        """The features that hold a yes/no condition, so that no normal law is theirs."""
        return tuple(feature for feature in self.features if has_conditions(feature))

    # ---- coefficients by site ----

    @property
    def learnt_as(self) -> Model:
        """Itself, or the model of its sites."""
        from noisewise.regression.sites.model import SiteRegression

        return SiteRegression(cast("BySite", self)) if self.sharing.is_by_site else self

    def with_sites(self, names: tuple[str, ...]) -> Self:
        """The same with its sites by name."""
        return changed_copy(self, sharing=replace(self.sharing, sites=names))

    def at_one_site(self) -> Self:
        """The same of one site alone."""
        return changed_copy(self, sharing=Sharing())

    def at_site(self, posterior: Posterior, site: str | None) -> Posterior:
        """The posterior of one site alone, by its name, or of a "new" one: with its own check, summary, predictions."""
        from noisewise.regression.sites.answers import posterior_at

        return posterior_at(posterior, site)

    # ---- what is asked at parameter values ----

    @property
    def _at_values(self) -> MomentsRegression:
        """Itself with the members that each regression adds: `free`, `covariates`, `rows_at`."""
        return cast("MomentsRegression", self)

    def simulate_values(
        self,
        rng: np.random.Generator,
        plan: Simulable,
        theta: Theta,
        *,
        n: int | None = None,
        approximate: bool = False,
    ) -> NDArray[np.int64]:
        """The published integers (K, size) of K simulated data sets, one for each row of theta."""
        from noisewise.regression.replicate import simulate_values

        return simulate_values(rng, self._at_values, plan, theta, n=n)

    def degrees(self, releases: tuple[NoisyValue, ...], theta: Theta) -> Degrees:
        """Released sums against what is asked for, and the law of the covariates where it is not given."""
        from noisewise.regression.degrees import moment_degrees

        return moment_degrees(self._at_values, releases)

    def joint_likelihood(
        self, releases: tuple[NoisyValue, ...], *, likelihood: str = "auto", n: object = None
    ) -> MomentsLaws:
        """The laws from which the confidential moments are drawn, one for each release."""
        from noisewise.regression.confidential import MomentsLaws

        return MomentsLaws.of(self._at_values, releases, n=n)

    def engine(self, plan: Plan, asked: InformationSettings) -> MomentsInformation:
        """How the information of a plan's release about this regression is computed; each kind has its unknowns."""
        raise self._lacks("information_engine", "the information of a release about it")

    def spread_information(self, plan: Plan, theta: Theta, *, n: object = None) -> Floats | None:
        """Under normal noise with the variance of Laplace noise; `epsilon_for` asks for it."""
        return self.engine(plan, InformationSettings(n=n)).spread(theta)

    # ---- text ----

    @classmethod
    def from_nodes(cls, nodes: Mapping[str, ast.expr]) -> Self:
        """The regression that these arguments describe."""
        from noisewise.regression.text import arguments_of

        return cls(**arguments_of(nodes))

    def row_text(self) -> dict[str, str]:
        """Features, response and intercept as a spec file writes them."""
        named = {"features": repr([str(feature) for feature in self.features]), "response": repr(str(self.response))}
        return named if self.intercept else named | {"intercept": "False"}

    def __repr__(self) -> str:
        features = ", ".join(str(feature) for feature in self.features)
        return f"{type(self).__name__}([{features}], {self.response}{'' if self.intercept else ', intercept=False'})"
