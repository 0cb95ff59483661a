"""Linear regression: the model, what is believed about it, and what can be asked of it.

    y = beta_0 + beta_1 f_1 + .. + beta_d f_d + e,      e ~ N(0, noise_variance)

`infer(releases, LinearRegression([...], ...))` learns it from moments that any number of holders published. Features
and response are written as in the releases; priors and results are in the units of the columns, whatever centre and
scale the releases use. Nothing here can see a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.models.base import InformationSettings
from noisewise.populations.parameters import POSITIVE, REAL, Supports, Theta, offers
from noisewise.printable import shown
from noisewise.regression.base import MomentsModel, coefficient_names
from noisewise.regression.configurations import Configurations
from noisewise.regression.location import CONFIGURATION_SHARE, NUMBER_COVARIANCE, NUMBER_MEAN, location_model
from noisewise.regression.priors import (
    COVARIATE_COVARIANCE,
    COVARIATE_MEAN,
    INTERCEPT,
    LEARNED,
    NOISE_VARIANCE,
    RELEASED,
    GivenMoments,
    NormalCovariates,
    NormalInverseGamma,
    coefficient_moments,
    noise_shape,
    working_covariates,
    working_prior,
)
from noisewise.regression.problem import Floats, Problem
from noisewise.regression.released import released_moments
from noisewise.regression.sites.sharing import Sharing, read_sharing
from noisewise.statistics.additive import read_features
from noisewise.statistics.feature import Feature

if TYPE_CHECKING:
    from noisewise.inference.answer_sources import AnswerSource
    from noisewise.inference.methods import Found, Methods
    from noisewise.inference.posterior import Posterior
    from noisewise.inference.settings import Settings
    from noisewise.planning import Plan
    from noisewise.regression.information import MomentsInformation
    from noisewise.regression.methods import RegressionMethod
    from noisewise.regression.observed import Observed
    from noisewise.regression.prediction import Prediction
    from noisewise.regression.row_law import Summing
    from noisewise.regression.sites.linear import LinearFrame
    from noisewise.regression.subject import SummedRows
    from noisewise.release import NoisyValue

RESERVED = (
    INTERCEPT, NOISE_VARIANCE, COVARIATE_MEAN, COVARIATE_COVARIANCE, CONFIGURATION_SHARE, NUMBER_MEAN,
    NUMBER_COVARIANCE,
)  # fmt: skip


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class LinearRegression(MomentsModel):
    """A response that is linear in features, with normal noise: y = beta_0 + beta' f + e, e ~ N(0, noise_variance).

    Priors and results are in the units of the columns, whatever centre and scale the releases use.

    Parameters
    ----------
    features
        Columns and features, as in the release.
    response
        A column or a feature, as in the release.
    intercept
        Whether there is one. Default True.
    coefficients
        `stats.norm` for all, a mapping or list of them, `stats.multivariate_normal`, "learned" (a common unknown
        scale), or for several sites "separate" and "partial". Default None: weak, from public numbers alone.
    noise
        The prior of the noise variance, `stats.invgamma(a, scale=b)`. Default None: weak, from public numbers alone.
    prior
        A `NormalInverseGamma` in the place of `coefficients` and `noise`; beside "separate" or "partial" the prior of
        the coefficients. Default None.
    covariates
        What is assumed of the features: `NormalCovariates`, `GivenMoments`, or "released" (fourth moments that were
        released). Default None: numbers normal, with a weak prior.
    spread
        With several sites: the prior of how far their coefficients lie apart. Default None.
    sites
        Names of the sites. Default None: 1, 2, ...

    Examples
    --------
    >>> nw.LinearRegression(["age"], "cost", coefficients=stats.norm(0, 5)).free
    ('intercept', 'age', 'noise_variance')
    """

    text_name: ClassVar[str] = "linear_regression"
    takes: ClassVar[tuple[str, ...]] = (
        "features", "response", "intercept", "coefficients", "noise", "prior", "covariates", "spread", "sites",
    )  # fmt: skip
    needs: ClassVar[tuple[str, ...]] = ("features", "response")

    features: tuple[Feature, ...]
    response: Feature
    intercept: bool
    coefficients: Any
    noise: Any
    prior: NormalInverseGamma | None
    covariates: Any
    sharing: Sharing

    def __init__(
        self,
        features: str | Feature | Sequence[str | Feature],
        response: str | Feature,
        *,
        intercept: bool = True,
        coefficients: Any = None,
        noise: Any = None,
        prior: object = None,
        covariates: NormalCovariates | GivenMoments | str | None = None,
        spread: object = None,
        sites: Sequence[str] | None = None,
    ) -> None:
        listed = (features,) if isinstance(features, str | Feature) else features
        if not isinstance(listed, Sequence) or not listed:
            raise InvalidArgument("features must be a list such as ['age', 'bmi'].", argument="features")
        x = read_features(listed, "LinearRegression")
        y = read_response(response, x, "LinearRegression")
        if not isinstance(intercept, bool):
            raise InvalidArgument(f"intercept = {shown(intercept)} must be True or False.", argument="intercept")
        names = coefficient_names(x, intercept=intercept)
        sharing = read_sharing(coefficients, spread=spread, sites=sites, names=names, noise=(NOISE_VARIANCE,))
        if sharing.is_said:
            joint = prior if offers(prior, "sized") else None
            coefficients = sharing.belief(coefficients, None if joint is not None else prior, joint=joint)
            prior = joint
        for name, value in (
            ("features", x), ("response", y), ("intercept", intercept), ("coefficients", coefficients),
            ("noise", noise), ("prior", prior), ("covariates", covariates), ("sharing", sharing),
        ):  # fmt: skip
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        if taken := [str(feature) for feature in self.features if str(feature) in RESERVED]:
            raise InvalidArgument(f"A feature cannot be named {taken[0]!r}; rename the column.", argument="features")
        size = len(self.names)
        coefficient_moments(self.coefficients, self.names)
        noise_shape(self.noise)
        if self.prior is not None:
            if not isinstance(self.prior, NormalInverseGamma):
                raise InvalidArgument(f"prior is a {type(self.prior).__name__}; give a NormalInverseGamma, or leave "
                                      "it out and give coefficients and noise.", argument="prior")  # fmt: skip
            if self.coefficients is not None or self.noise is not None:
                raise InvalidArgument("prior already says what coefficients and noise are; leave those out.",
                                      argument="prior")  # fmt: skip
            self.prior.sized(size)
        if isinstance(self.covariates, NormalCovariates):
            self.covariates.sized(len(self.features))
        elif isinstance(self.covariates, GivenMoments):
            if len(self.covariates.second) != size:
                raise InvalidArgument(
                    f"The given moments are of {len(self.covariates.second)} entries; ([1,] x) has {size} here.",
                    argument="covariates",
                )
            if self.intercept:
                self.covariates.require_constant()
        elif self.covariates is not None and not (isinstance(self.covariates, str) and self.covariates == RELEASED):
            raise InvalidArgument(
                f"covariates = {shown(self.covariates)}: give NormalCovariates(...), GivenMoments(...), 'released' or "
                "nothing.",
                argument="covariates",
            )

    @property
    def unlisted(self) -> tuple[str, ...]:
        """Draws that are kept for later questions and not shown in tables."""
        return (COVARIATE_MEAN, COVARIATE_COVARIANCE, CONFIGURATION_SHARE, NUMBER_MEAN, NUMBER_COVARIANCE)

    @property
    def free(self) -> tuple[str, ...]:
        """What is unknown and asked for: the coefficients and the noise variance."""
        return (*self.names, NOISE_VARIANCE)

    @property
    def supports(self) -> Supports:
        return {name: POSITIVE if name == NOISE_VARIANCE else REAL for name in self.free}

    def sample_prior(self, rng: np.random.Generator, count: int) -> dict[str, Floats]:
        """`count` draws from the prior, of the covariates' mean and covariance too; defaults need a release first."""
        from noisewise.regression.replicate import sample_prior

        return sample_prior(rng, self, count)

    def theta_at(self, at: object) -> dict[str, Floats]:
        """Rows of parameters from numbers by name: coefficients, noise variance, and covariates if not as believed.

        Without covariate_mean and covariate_covariance these are the expected ones of NormalCovariates.
        """
        from noisewise.regression.replicate import theta_at

        return theta_at(self, at)

    def problem(self, releases: NoisyValue | Sequence[NoisyValue], *, n: int | Sequence[int] | None = None) -> Problem:
        """The regression as numbers, in the units of the first release's rows: what every method starts from."""
        return self.problem_of(self.observed(releases, n=n))

    @property
    def methods(self) -> Methods[RegressionMethod]:
        """How it can be learnt."""
        from noisewise.regression.methods import METHODS

        return METHODS

    def observe(self, releases: object, settings: Settings) -> Observed:
        """What the releases say, by holder."""
        return self.observed(releases, n=settings.n)

    def learn(self, observed: Observed, settings: Settings) -> Found:
        """A method run on that."""
        from noisewise.regression.learn import learn

        return learn(self, observed, settings)

    def observed(self, releases: object, *, n: object = None) -> Observed:
        """What the releases say, by holder."""
        from noisewise.regression.observed import observe

        return observe(releases, self.features, self.response, intercept=self.intercept, n=n)

    def problem_of(self, observed: Observed, *, as_normal: bool = False) -> Problem:
        """Priors and observations in common units; `as_normal` takes yes/no features for normal ones."""
        from noisewise.regression.observed import likely_numbers

        public = {"units": observed.units, "centre": observed.centre, "spread": observed.spread}
        prior = working_prior(
            coefficient_moments(self.coefficients, self.names),
            noise_shape(self.noise),
            self.prior,
            is_learned=self.coefficients == LEARNED,
            **public,  # type: ignore[arg-type]
        )
        if self.covariates == RELEASED:
            covariates: Any = released_moments(observed.holders, intercept=self.intercept)
        elif self.covariates is None and self.conditions and not as_normal:
            made = Configurations.of(self.features, observed.schemas)
            covariates = location_model(
                made, centre=observed.units.centre[:-1], factor=observed.units.factor[:-1],
                likely=likely_numbers(made, observed),
            )  # fmt: skip
        else:
            covariates = working_covariates(self.covariates, **public)  # type: ignore[arg-type]
        holders = tuple(holder.with_square_of_response() for holder in observed.holders)
        return Problem(holders, prior, covariates, self.intercept)

    def predict(
        self,
        posterior: Posterior,
        X: Any,
        *,
        level: float = 0.9,
        kind: str = "response",
        seed: int | None = None,
        site: str | None = None,
    ) -> Prediction:
        """The posterior predictive law at each row of X: of a new response, or (kind="mean") of the mean response.

        X is an array (rows, features), or columns by name, in the units of the columns. `site` names one where
        coefficients are by site, or is "new".
        """
        from noisewise.regression.prediction import predict

        return predict(self, self.at_site(posterior, site), X, level=level, kind=kind, seed=seed)

    def predict_mean(self, posterior: Posterior, X: Any, *, site: str | None = None) -> Floats:
        """The mean of the prediction at each row of X; a point estimate has it too."""
        from noisewise.regression.prediction import predict_mean

        return predict_mean(self, self.at_site(posterior, site), X)

    def site_frame(self, by_site: tuple[Observed, ...], settings: Settings) -> LinearFrame:
        """Its sites as the sampler of their common law takes them."""
        from noisewise.regression.sites.linear import LinearFrame

        return LinearFrame.of(self, by_site, settings)

    def rows_at(self, place: Summing, theta: Theta) -> SummedRows:
        """The law of one row of a release at parameter values."""
        from noisewise.regression.row_law import linear_rows

        return linear_rows(self, place, theta)

    def engine(self, plan: Plan, asked: InformationSettings) -> MomentsInformation:
        """How the information of a plan's release about this regression is computed."""
        from noisewise.regression.information import LinearUnknowns, MomentsInformation

        unknowns = LinearUnknowns(self, plan.part_schema)
        return MomentsInformation(
            plan, self, unknowns, method=asked.method, n=asked.n, seed=asked.seed, draws=asked.draws
        )

    def answer_sources(self, theta: Theta, releases: Sequence[NoisyValue]) -> tuple[AnswerSource, ...]:
        """The coefficients in units of the response, the residual sd, and R2 where it is known."""
        from noisewise.regression.answers import regression_sources

        return regression_sources(theta, self.features, self.response, releases)

    def parameter_units(self, releases: Sequence[NoisyValue]) -> dict[str, str]:
        """The units of the coefficients."""
        from noisewise.regression.answers import coefficient_units

        return coefficient_units(self.features, self.response, releases)

    def text_arguments(self) -> dict[str, str]:
        """Its arguments as a spec file writes them."""
        from noisewise.regression.text import belief_text

        beliefs = {"coefficients": self.coefficients, "noise": self.noise, "prior": self.prior,
                   "covariates": self.covariates}  # fmt: skip
        told = {name: belief_text(value) for name, value in beliefs.items() if value is not None}
        return self.row_text() | self.sharing.text(told.pop("coefficients", None), told.pop("prior", None)) | told


def read_response(response: object, features: tuple[Feature, ...], kind: str) -> Feature:
    """The response as a feature that is none of the others."""
    try:
        (read,) = read_features((response,), kind)
    except InvalidArgument:
        raise InvalidArgument(
            f"response = {shown(response)}: give one column by name, or a feature made of columns.", argument="response"
        ) from None
    if read in features:
        raise InvalidArgument(f"{read} is the response and a feature too; leave it out of one.", argument="features")
    return read
