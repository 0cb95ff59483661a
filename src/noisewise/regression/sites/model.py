"""A regression whose coefficients differ between sites, as a model: one number for each site under each name.

    age[1], age[2], ...    the coefficient of a site;      age.centre, age.spread    of all, with coefficients="partial"
The regression that was given describes it, and keeps everything that does not depend on sites. What is asked of one
site alone (a check, the confidential sums, a prediction) is asked of `regression.at_site(posterior, site)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.models.base import ModelBase
from noisewise.populations.parameters import POSITIVE, Array, Supports, Theta
from noisewise.regression.priors import INTERCEPT
from noisewise.regression.sites.sharing import PARTIAL
from noisewise.regression.sites.subject import BySite

if TYPE_CHECKING:
    from noisewise.inference.answer_sources import AnswerSource
    from noisewise.inference.degrees import Degrees
    from noisewise.inference.methods import Found, Method, Methods
    from noisewise.inference.settings import Settings
    from noisewise.models.protocol import Laws
    from noisewise.planning import Simulable
    from noisewise.regression.sites.learn import SiteReleases
    from noisewise.release import NoisyValue

__all__ = ["SiteRegression"]


@dataclass(frozen=True, slots=True, eq=False)
class SiteRegression(ModelBase):
    """Built by a regression with coefficients="separate" or "partial" (`learnt_as`)."""

    regression: BySite

    @property
    def described(self) -> BySite:
        return self.regression

    @property
    def is_partial(self) -> bool:
        return self.regression.sharing.how == PARTIAL

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites by name; refused before they are known."""
        if self.regression.sharing.sites is None:
            raise InvalidArgument(
                "Which sites there are is not known before there are releases; sites=['north', 'south'] names them.",
                argument="sites",
            )
        return self.regression.sharing.sites

    @property
    def free(self) -> tuple[str, ...]:
        own = self.regression.free
        common = [f"{name}.{what}" for name in own for what in ("centre", "spread")] if self.is_partial else []
        return (*own, *common)

    @property
    def unlisted(self) -> tuple[str, ...]:
        return self.regression.unlisted

    @property
    def component_labels(self) -> dict[str, tuple[str, ...]]:
        names = dict.fromkeys((INTERCEPT, *self.regression.free))
        return {name: tuple(f"{name}[{site}]" for site in self.sites) for name in names}

    @property
    def supports(self) -> Supports:
        own, labels = self.regression.supports, self.component_labels
        found = {label: own[name] for name in self.regression.free for label in labels[name]}
        if self.is_partial:
            for name in self.regression.free:
                found |= {f"{name}.centre": own[name], f"{name}.spread": POSITIVE}
        return found

    @property
    def coordinates(self) -> tuple[str, ...]:
        raise Unsupported(
            "The information of a release about coefficients that differ between sites is not computed; compare plans "
            "for one site, with the regression as it is without 'separate' or 'partial'."
        )

    @property
    def title(self) -> str:
        return f"Inferring {', '.join(self.regression.names)} by site"

    # ---- learning ----

    @property
    def methods(self) -> Methods[Method]:
        from noisewise.regression.sites.learn import METHODS

        return METHODS if self.is_partial else cast("Methods[Method]", self.regression.methods)

    def observe(self, releases: object, settings: Settings) -> SiteReleases:
        """What the releases say, by site."""
        from noisewise.regression.sites.learn import site_releases

        return site_releases(self.regression.sharing, self.regression.observe(releases, settings))

    def learn(self, observed: SiteReleases, settings: Settings) -> Found:
        """Each site by itself, or all with a common law."""
        from noisewise.regression.sites.learn import learn_partial, learn_separate

        return (learn_partial if self.is_partial else learn_separate)(self.regression, observed, settings)

    # ---- answers ----

    def answer_sources(self, theta: Theta, releases: Sequence[NoisyValue]) -> tuple[AnswerSource, ...]:
        """Those of the regression for each site, and of the centre of all."""
        from noisewise.regression.sites.answers import site_sources

        return site_sources(self, theta, releases)

    def parameter_units(self, releases: Sequence[NoisyValue]) -> Mapping[str, str]:
        """Those of the regression, for each site, for centres and for spreads."""
        units = self.regression.parameter_units(releases)
        labels = self.component_labels
        found = {label: unit for name, unit in units.items() for label in labels.get(name, ())}
        for name, unit in units.items() if self.is_partial else ():
            found |= {f"{name}.centre": unit, f"{name}.spread": unit}
        return found

    # ---- what is asked of one site at a time ----

    def degrees(self, releases: tuple[NoisyValue, ...], theta: Theta) -> Degrees:
        self._one_at_a_time("checked", "check")

    def joint_likelihood(self, releases: tuple[NoisyValue, ...], *, likelihood: str = "auto", n: object = None) -> Laws:
        self._one_at_a_time("drawn", "statistic")

    def _one_at_a_time(self, done: str, member: str) -> NoReturn:
        site = self.sites[0]
        raise Unsupported(
            f"Sites are {done} one at a time: model.at_site(posterior, {site!r}).{member}, with the regression as "
            "model (posterior.population)."
        )

    # ---- simulation ----

    def sample_prior(self, rng: np.random.Generator, count: int) -> dict[str, Array]:
        self._no_plan()

    def theta_at(self, at: object) -> dict[str, Array]:
        self._no_plan()

    def simulate_values(
        self,
        rng: np.random.Generator,
        plan: Simulable,
        theta: Theta,
        *,
        n: int | None = None,
        approximate: bool = False,
    ) -> NDArray[np.int64]:
        self._no_plan()

    def _no_plan(self) -> NoReturn:
        raise Unsupported(
            "A plan does not say which site it is of: simulate each site's release from the regression without "
            "'separate' or 'partial', at that site's coefficients."
        )

    # ---- text ----

    def to_spec(self) -> dict[str, str]:
        """That of the regression."""
        return self.regression.to_spec()

    def text_arguments(self) -> dict[str, str]:
        return self.regression.text_arguments()
