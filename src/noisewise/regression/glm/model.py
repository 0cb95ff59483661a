"""Regressions whose response is yes/no or a count, learnt from the same moments as a line.

    P(y = 1 | f) = 1/(1 + e^-s)  or  Phi(s),        y | f ~ Poisson(e^s),        s = beta_0 + beta' f

`infer(releases, LogisticRegression([...], ...))` learns it from releases of Moments by any number of holders. Features
and response are written as in the releases; priors and results are in the units of the columns. Nothing here can see a
record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.models.base import InformationSettings
from noisewise.populations.parameters import REAL, Supports, Theta
from noisewise.printable import shown
from noisewise.regression.base import MomentsModel, coefficient_names
from noisewise.regression.configurations import Configurations
from noisewise.regression.glm.given_rows import GivenRows
from noisewise.regression.glm.histograms import ReleasedHistograms, law_of
from noisewise.regression.glm.links import LOGIT_LINK, POISSON_LINK, PROBIT_LINK, Link
from noisewise.regression.glm.stated import StatedCovariates
from noisewise.regression.location import CONFIGURATION_SHARE, NUMBER_COVARIANCE, NUMBER_MEAN
from noisewise.regression.model import RESERVED, read_response
from noisewise.regression.priors import NormalCovariates, coefficient_moments
from noisewise.regression.sites.sharing import Sharing, read_sharing
from noisewise.schema import Schema
from noisewise.statistics.additive import read_features
from noisewise.statistics.feature import Feature
from noisewise.statistics.moments import several
from noisewise.types import Floats

if TYPE_CHECKING:
    from noisewise.inference.answer_sources import AnswerSource
    from noisewise.inference.methods import Found, Method, Methods
    from noisewise.inference.posterior import Posterior
    from noisewise.inference.settings import Settings
    from noisewise.planning import Plan
    from noisewise.regression.glm.answers import Effects
    from noisewise.regression.glm.rows import GlmRows
    from noisewise.regression.information import MomentsInformation
    from noisewise.regression.observed import Observed
    from noisewise.regression.prediction import Prediction
    from noisewise.regression.sites.generalized import GlmFrame
    from noisewise.regression.subject import Place
    from noisewise.release import NoisyValue

__all__ = ["LogisticRegression", "MomentsGlm", "PoissonRegression", "ProbitRegression"]


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class MomentsGlm(MomentsModel):
    """What the three regressions share; `link` says how the response follows s."""

    takes: ClassVar[tuple[str, ...]] = (
        "features",
        "response",
        "intercept",
        "coefficients",
        "covariates",
        "prior",
        "spread",
        "sites",
    )
    needs: ClassVar[tuple[str, ...]] = ("features", "response")
    link: ClassVar[Link]

    features: tuple[Feature, ...]
    response: Feature
    intercept: bool
    coefficients: object
    covariates: NormalCovariates | GivenRows | StatedCovariates | ReleasedHistograms | None
    sharing: Sharing

    def __init__(
        self,
        features: str | Feature | Sequence[str | Feature],
        response: str | Feature,
        *,
        intercept: bool = True,
        coefficients: object = None,
        covariates: NormalCovariates | GivenRows | StatedCovariates | Mapping[str, object] | str | None = None,
        prior: object = None,
        spread: object = None,
        sites: Sequence[str] | None = None,
    ) -> None:
        kind = type(self).__name__
        x = read_features(several(features, kind), kind)
        if intercept is not True and intercept is not False:
            raise InvalidArgument(f"intercept = {shown(intercept)} must be True or False.", argument="intercept")
        fields: dict[str, object] = {
            "features": x,
            "response": read_response(response, x, kind),
            "intercept": intercept,
        }
        names = coefficient_names(x, intercept=intercept)
        sharing = read_sharing(coefficients, spread=spread, sites=sites, names=names)
        coefficients = sharing.belief(coefficients, prior)
        fields |= {"coefficients": coefficients, "covariates": law_of(covariates), "sharing": sharing}
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        if taken := [str(feature) for feature in x if str(feature) in RESERVED]:
            raise InvalidArgument(f"A feature cannot be named {taken[0]!r}; rename the column.", argument="features")
        coefficient_moments(coefficients, self.names)
        self._check_covariates()

    def _check_covariates(self) -> None:
        if self.covariates is None:
            return
        if not isinstance(self.covariates, NormalCovariates | GivenRows | StatedCovariates | ReleasedHistograms):
            raise InvalidArgument(
                f"covariates = {shown(self.covariates)}: give NormalCovariates(...), GivenRows(...), a population for "
                'every number such as {"income": Gamma(shape=2, rate=0.05)}, "released", or nothing. Moments '
                f"of a public sample, or released ones, will not do for a {self.link.name} regression: how often the "
                "response occurs depends on the whole law of the features, not on their moments.",
                argument="covariates",
            )
        self.covariates.sized(len(self.features))
        if self.conditions and self.covariates.is_normal:
            raise InvalidArgument(
                f"NormalCovariates says that every feature is normal, but {self.conditions[0]} holds a yes/no "
                "condition and never is. Leave out covariates=, and its share is learnt.",
                argument="covariates",
            )

    # ---- what it is ----

    @property
    def free(self) -> tuple[str, ...]:
        return self.names

    @property
    def supports(self) -> Supports:
        return dict.fromkeys(self.free, REAL)

    @property
    def unlisted(self) -> tuple[str, ...]:
        """Draws of the features' law, kept for later questions and not shown in tables."""
        return (CONFIGURATION_SHARE, NUMBER_MEAN, NUMBER_COVARIANCE)

    def configurations(self, schemas: Sequence[Schema]) -> Configurations:
        """The combinations of yes/no features, and what each feature is within them."""
        from noisewise.regression.glm.covariates import combinations

        return combinations(self.covariates, self.features, schemas)

    # ---- learning ----

    @property
    def methods(self) -> Methods[Method]:
        from noisewise.regression.glm.learn import METHODS

        return METHODS

    def observe(self, releases: object, settings: Settings) -> Observed:
        """What the releases say, by holder."""
        from noisewise.regression.glm.covariates import observed_by

        return observed_by(
            self.covariates, releases, self.features, self.response, intercept=self.intercept, n=settings.n
        )

    def learn(self, observed: Observed, settings: Settings) -> Found:
        """Draws of the coefficients and of the features' law."""
        from noisewise.regression.glm.learn import learn

        return learn(self, observed, settings)

    # ---- simulation, checks ----

    def sample_prior(self, rng: np.random.Generator, count: int) -> dict[str, Floats]:
        """`count` draws from the prior, of the features' law too; defaults need a release first."""
        from noisewise.regression.glm.prior_draws import sample_prior

        return sample_prior(self, rng, count)

    def theta_at(self, at: object) -> dict[str, Floats]:
        """Rows of parameters from numbers by name: the coefficients, and the features' law.

        That law is configuration_share (C,), number_mean (C, k) and number_covariance (k, k), for C combinations of
        yes/no features and k numbers; with covariates= it may be left out, and is the one expected by it.
        """
        from noisewise.regression.glm.prior_draws import theta_at

        return theta_at(self, at)

    def rows_at(self, place: Place, theta: Theta) -> GlmRows:
        """The law of one row of a release at parameter values."""
        from noisewise.regression.glm.prior_draws import rows_at

        return rows_at(self, place, theta)

    def prior_rows(self, count: int) -> dict[str, Floats]:
        """`count` values from the prior, always the same ones; of the coefficients alone where no law is stated."""
        from noisewise.regression.glm.prior_draws import sample_coefficients

        rng = np.random.default_rng(0)
        return sample_coefficients(self, rng, count) if self.covariates is None else self.sample_prior(rng, count)

    def engine(self, plan: Plan, asked: InformationSettings) -> MomentsInformation:
        """How the information of a plan's release about this regression is computed."""
        from noisewise.regression.glm.information import glm_information

        return glm_information(plan, self, method=asked.method, n=asked.n, seed=asked.seed, draws=asked.draws)

    # ---- answers ----

    def predict(
        self,
        posterior: Posterior,
        X: object,
        *,
        level: float = 0.9,
        kind: str = "mean",
        seed: int | None = None,
        site: str | None = None,
    ) -> Prediction:
        """The law of the probability (or rate) at each row of X; kind="response" is that of a new response.

        X is an array (rows, features), or columns by name, in the units of the columns. `site` names one where
        coefficients are by site, or is "new".
        """
        from noisewise.regression.glm.answers import predict

        return predict(self, self.at_site(posterior, site), X, level=level, kind=kind, seed=seed)

    def predict_mean(self, posterior: Posterior, X: object, *, site: str | None = None) -> Floats:
        """The posterior mean of the probability (or rate) at each row of X."""
        from noisewise.regression.glm.answers import mean_draws

        return np.asarray(mean_draws(self, self.at_site(posterior, site), X)[1].mean(axis=0))

    def predict_proba(self, posterior: Posterior, X: object, *, site: str | None = None) -> Floats:
        """P(y = 0) and P(y = 1) (rows, 2) of a new response at each row of X; for yes/no responses."""
        if self.link.is_count:
            raise Unsupported("A count has no probability of yes; ask for predict(posterior, X), its rate.")
        yes = self.predict_mean(posterior, X, site=site)
        return np.column_stack([1 - yes, yes])

    def effects(self, posterior: Posterior, *, level: float = 0.9, site: str | None = None) -> Effects:
        """e^beta of every feature, with its interval: odds ratios, or rate ratios, for one more unit of it."""
        from noisewise.regression.glm.answers import effects

        return effects(self, self.at_site(posterior, site), level=level)

    def marginal_effects(self, posterior: Posterior, *, level: float = 0.9, site: str | None = None) -> Effects:
        """By how much each feature moves the probability (or rate) on the average of all records, with its interval.

        Per unit of a number; of a condition from the reference of its column, everything else as it is.
        """
        from noisewise.regression.glm.marginal_effects import marginal_effects

        return marginal_effects(self, self.at_site(posterior, site), level=level)

    def answer_sources(self, theta: Theta, releases: Sequence[NoisyValue]) -> tuple[AnswerSource, ...]:
        """Coefficients, and odds ratios or rate ratios, in people's terms."""
        from noisewise.regression.glm.answers import answer_sources

        return answer_sources(self, theta, releases)

    def site_frame(self, by_site: tuple[Observed, ...], settings: Settings) -> GlmFrame:
        """Its sites as the sampler of their common law takes them."""
        from noisewise.regression.sites.generalized import GlmFrame

        return GlmFrame.of(self, by_site, settings)

    # ---- text ----

    def text_arguments(self) -> dict[str, str]:
        """Its arguments as a spec file writes them."""
        from noisewise.regression.text import belief_text

        beliefs = {"coefficients": self.coefficients, "covariates": self.covariates}
        told = {name: belief_text(value) for name, value in beliefs.items() if value is not None}
        return self.row_text() | self.sharing.text(told.pop("coefficients", None), None) | told


class LogisticRegression(MomentsGlm):
    """A yes/no response whose log odds are linear in features: P(y = 1) = 1/(1 + exp(-(beta_0 + beta' f))).

    Parameters
    ----------
    features
        Columns and features, as in the release.
    response
        A condition such as `column("relapse").equals("yes")`, or a column with bounds [0, 1].
    intercept
        Whether there is one. Default True.
    coefficients
        `stats.norm` for all, a mapping or list of them, `stats.multivariate_normal`, "learned", or for several sites
        "separate" and "partial". Default None: N(0, (2.5/s)^2) for the log odds ratio of one unit, s the likely sd of
        a number by public numbers (1 for a yes/no feature), and N(0, 2.5^2) for the log odds where features are likely
        to lie.
    covariates
        `NormalCovariates`, `GivenRows`, a mapping from every column that is a number to its population (with known
        numbers as parameters), or "released" (by histograms given beside the moments). Default None: yes/no features
        as such, numbers normal within their combinations.
    prior
        Of the coefficients, where `coefficients` is "separate" or "partial". Default None.
    spread
        With several sites: the prior of how far their coefficients lie apart. Default None.
    sites
        Names of the sites. Default None: 1, 2, ...

    Examples
    --------
    >>> nw.LogisticRegression(["age"], nw.column("relapse").equals("yes")).free
    ('intercept', 'age')
    """

    __slots__ = ()
    text_name: ClassVar[str] = "logistic_regression"
    link: ClassVar[Link] = LOGIT_LINK


class ProbitRegression(MomentsGlm):
    """A yes/no response with P(y = 1) = Phi(beta_0 + beta' f).

    Parameters
    ----------
    features, response, intercept, coefficients, covariates, prior, spread, sites
        As of `LogisticRegression`; the default prior has 1.5 for 2.5.

    Examples
    --------
    >>> nw.ProbitRegression(["dose"], nw.column("died").equals("yes")).free
    ('intercept', 'dose')
    """

    __slots__ = ()
    text_name: ClassVar[str] = "probit_regression"
    link: ClassVar[Link] = PROBIT_LINK


class PoissonRegression(MomentsGlm):
    """A count whose log rate is linear in features, as it was clamped at its declared bound: y ~ Poisson(e^s).

    Parameters
    ----------
    features
        Columns and features, as in the release.
    response
        One column `Bounded(0, B)`, B whole; counts above B are B (or were refused, if the schema says so).
    intercept
        Whether there is one. Default True.
    coefficients
        As of `LogisticRegression`. Default None: N(0, (1.5/s)^2), and N(log(B/4), 1.5^2) for the log rate where
        features are likely to lie.
    covariates, prior, spread, sites
        As of `LogisticRegression`.

    Examples
    --------
    >>> nw.PoissonRegression(["age"], "visits").free
    ('intercept', 'age')
    """

    __slots__ = ()
    text_name: ClassVar[str] = "poisson_regression"
    link: ClassVar[Link] = POISSON_LINK
