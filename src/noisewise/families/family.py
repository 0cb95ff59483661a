"""Which conjugate family a population, its prior and the releases form, and what each release says about it.

    beta-Bernoulli          Bernoulli(p=stats.beta(a, b))                      Count, or Sum/Mean(x) of a 0/1 column
    Dirichlet-categorical   Categorical(p=stats.dirichlet(alpha))              Histogram
    gamma-Poisson           Poisson(rate=stats.gamma(a, scale=1/b))            Sum/Mean(x), TruncatedSum([x], ...)
    gamma-exponential       Exponential(rate=stats.gamma(a, scale=1/b))        the same
    normal-inverse-gamma    Normal(prior=stats.normal_inverse_gamma(...))      the same of (x, x**2)
A record outside the window of a published sum is clamped to its end or redacted (`Window`); the window is on the record
before the schema's own clamping, so one description serves both. Everything else is refused in a sentence that says
what would be needed; exact inference has no such need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.joining import joined
from noisewise.laws import Form, additive_law
from noisewise.likelihood.conjugate import beta_prior, beta_shapes, dirichlet_prior
from noisewise.likelihood.joint import checked_releases
from noisewise.likelihood.normal_sum import Noise
from noisewise.populations.cleaned import attach
from noisewise.populations.distribution import BernoulliLaw, CategoricalLaw, GammaLaw, NormalLaw, PoissonLaw
from noisewise.populations.parameters import Array, scipy_name
from noisewise.populations.population import AnyPopulation, Population
from noisewise.release import NoisyValue
from noisewise.schema import Levels
from noisewise.statistics import Count, Mean, Sum, TruncatedSum
from noisewise.statistics.feature import Feature, as_feature

__all__ = ["Family", "Observation", "Window", "conjugate_family"]

BERNOULLI, CATEGORICAL, POISSON, EXPONENTIAL, NORMAL = (
    "beta-Bernoulli",
    "Dirichlet-categorical",
    "gamma-Poisson",
    "gamma-exponential",
    "normal-inverse-gamma",
)
NEEDS = {
    BERNOULLI: "Count(...) of one level, or Sum(x) or Mean(x) of a 0/1 column whose bounds hold 0 and 1",
    CATEGORICAL: "Histogram(...) of the column's levels",
    POISSON: "Sum(x), Mean(x) or TruncatedSum([x], 'x', low, high)",
    EXPONENTIAL: "Sum(x), Mean(x) or TruncatedSum([x], 'x', low, high)",
    NORMAL: "Sum(x, x**2), Mean(x, x**2) or TruncatedSum([x, x**2], 'x', low, high)",
}
PRIORS = {
    BERNOULLI: "p=stats.beta(a, b) on (0, 1)",
    POISSON: "rate=stats.gamma(a, scale=1/b), which starts at 0",
    EXPONENTIAL: "rate=stats.gamma(a, scale=1/b), which starts at 0",
    NORMAL: "prior=stats.normal_inverse_gamma(mu, lmbda, a, b)",
}
ELSE = "method='exact' has no such need."


@dataclass(frozen=True, slots=True)
class Window:
    """Records in [low, high] enter a sum as they are; beyond an end they are clamped to it, or redacted (0)."""

    low: float
    high: float
    is_clamped_below: bool
    is_clamped_above: bool

    def range_from(self, least: float) -> tuple[float, float]:
        """The smallest and largest contribution of a record that is never below `least`."""
        values = [min(max(self.low, least), self.high), self.high]
        if not self.is_clamped_above or (not self.is_clamped_below and self.low > least):
            values.append(0.0)
        return min(values), max(values)


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """One release of n records: the noisy sums and their noise, in units of the sums."""

    n: int
    observed: Array
    noise: Noise
    window: Window | None = None  # None where the sufficient statistic itself was published


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """A conjugate family with its prior's numbers, and the releases of different records that tell about it."""

    kind: str
    parameters: tuple[str, ...]
    prior: tuple[float, ...]
    observations: tuple[Observation, ...]


def conjugate_family(releases: object, population: AnyPopulation, *, n: object = None) -> Family:
    """The family that a population and releases form; refused where the prior or a statistic is not of one."""
    together = joined(checked_releases(releases), n)
    if len(together.groups) < len(together.releases):
        raise Unsupported(
            "method='gibbs' takes releases of different records; several releases of the same records have one joint "
            "law, which method='exact' uses."
        )
    found = [_one(release, population, n) for release, n in zip(together.releases, together.sizes, strict=True)]
    first = found[0]
    if any((one.kind, one.parameters, one.prior) != (first.kind, first.parameters, first.prior) for one in found):
        raise Unsupported(f"method='gibbs' needs releases that all tell about the same unknowns; {ELSE}")
    if first.parameters != tuple(population.free):
        raise Unsupported(
            f"The population has the unknowns {', '.join(population.free)}, and these releases tell method='gibbs' "
            f"about {', '.join(first.parameters)} only. Describe that column alone; {ELSE}"
        )
    return Family(first.kind, first.parameters, first.prior, tuple(o for one in found for o in one.observations))


def _one(release: NoisyValue, population: AnyPopulation, n: int) -> Family:
    """The family behind one release."""
    if release.law.form is not Form.NUMBER or additive_law(release.law).mixture() is None:
        raise Unsupported(f"method='gibbs' needs Laplace, geometric or Gaussian noise; {ELSE}")
    columns = release.statistic.columns()
    laws = attach(population, release.schema, columns)
    if len(laws) != 1:
        raise Unsupported(f"method='gibbs' is for one column; this release uses {', '.join(columns)}. {ELSE}")
    ((column, law),) = laws.items()
    kind = _kind(law)
    names = {name: next(full for full in (name, f"{column}.{name}") if full in population.free) for name in law.free}
    if kind == BERNOULLI:
        prior, observation = _proportion(release, population, law, column, n)
    elif kind == CATEGORICAL:
        prior, observation = _table(release, population, n)
    else:
        prior, observation = _sum(kind, release, law, column, n)
    return Family(kind, tuple(names.values()), prior, (observation,))


def _kind(law: Population) -> str:
    """The family by the law of a record; its parameters must all be unknown."""
    distribution = law.distribution
    kinds = ((BernoulliLaw, BERNOULLI), (CategoricalLaw, CATEGORICAL), (PoissonLaw, POISSON), (NormalLaw, NORMAL))
    kind = next((kind for type_, kind in kinds if isinstance(distribution, type_)), None)
    if isinstance(distribution, GammaLaw) and not distribution.has_shape:
        kind = EXPONENTIAL
    if kind is None:
        raise Unsupported(
            "method='gibbs' is for Bernoulli, Categorical, Poisson, Exponential and Normal populations with conjugate "
            f"priors, not for {distribution.name}; {ELSE}"
        )
    if law.parameters.known:
        raise Unsupported(f"method='gibbs' needs every parameter of {distribution.name} to be unknown; {ELSE}")
    return kind


def _proportion(
    release: NoisyValue, population: AnyPopulation, law: Population, column: str, n: int
) -> tuple[tuple[float, ...], Observation]:
    shapes = beta_shapes(law.parameters.priors["p"])
    if shapes is None:
        raise _wrong_prior(BERNOULLI)
    told = _observation(release, n)
    if isinstance(release.statistic, Count):
        prior = beta_prior(population, release.schema, release.statistic)
        if prior is None:
            raise _wrong_statistic(BERNOULLI, release)
        # A count of the level 0 is one of the level 1 seen from the other side; the noise is symmetric.
        return shapes, Observation(n, n - told.observed if prior.is_complement else told.observed, told.noise)
    window = _window(release, column, powers=1)
    if window is None or window.low > 0 or window.high < 1 or isinstance(release.statistic, TruncatedSum):
        raise _wrong_statistic(BERNOULLI, release)
    return shapes, told


def _table(release: NoisyValue, population: AnyPopulation, n: int) -> tuple[tuple[float, ...], Observation]:
    prior = dirichlet_prior(population, release)
    if prior is None:
        raise _wrong_statistic(CATEGORICAL, release)
    return prior.alpha, _observation(release, n)


def _sum(kind: str, release: NoisyValue, law: Population, column: str, n: int) -> tuple[tuple[float, ...], Observation]:
    prior = _normal_inverse_gamma(law) if kind == NORMAL else gamma_numbers(law.parameters.priors["rate"])
    if prior is None:
        raise _wrong_prior(kind)
    window = _window(release, column, powers=2 if kind == NORMAL else 1)
    if window is None:
        raise _wrong_statistic(kind, release)
    if release.schema.outside == "refuse":
        raise Unsupported(
            "Records outside the bounds were refused, so those that remain follow a truncated law, which has no "
            f"conjugate prior. Declare outside='clamp' or redact with TruncatedSum; {ELSE}"
        )
    return prior, _observation(release, n, window)


def _window(release: NoisyValue, column: str, *, powers: int) -> Window | None:
    """The window of a sum of the column (and its square), clipped or truncated; None for any other statistic."""
    statistic = release.statistic
    if not isinstance(statistic, Sum | Mean | TruncatedSum) or isinstance(release.schema.column(column), Levels):
        return None
    bounds = release.schema.bounded(column)
    base = statistic.features[0]
    if tuple(statistic.features) != tuple(base**k for k in range(1, powers + 1)):
        return None
    if isinstance(statistic, TruncatedSum):
        if base != as_feature(column):
            return None
        low, high = max(bounds.low, statistic.low), min(bounds.high, statistic.high)
        return Window(low, high, statistic.low <= bounds.low, statistic.high >= bounds.high)
    ends = _clip(base, column)
    return None if ends is None else Window(max(bounds.low, ends[0]), min(bounds.high, ends[1]), True, True)


def _clip(feature: Feature, column: str) -> tuple[float, float] | None:
    """The ends between which a feature is the column, clipped there; None if it is anything else."""
    if feature == as_feature(column):
        return -np.inf, np.inf
    if feature.operation == "clip" and feature.arguments[0] == as_feature(column):
        return float(feature.arguments[1]), float(feature.arguments[2])
    return None


def _observation(release: NoisyValue, n: int, window: Window | None = None) -> Observation:
    noise = Noise.of((release,))
    return Observation(n, np.array(release.value, dtype=float) * noise.step, noise, window)


def gamma_numbers(prior: Any) -> tuple[float, float] | None:
    """(shape, rate) of a frozen scipy.stats gamma law that starts at 0, under any of its names; else None."""
    kind = scipy_name(prior)
    if kind not in ("gamma", "erlang", "expon", "chi2") or prior.support()[0] != 0.0:
        return None
    shapes, _, scale = prior.dist._parse_args(*prior.args, **prior.kwds)
    if kind == "expon":
        return 1.0, 1 / float(scale)
    if kind == "chi2":
        return 0.5 * float(shapes[0]), 0.5 / float(scale)
    return float(shapes[0]), 1 / float(scale)


def _normal_inverse_gamma(law: Population) -> tuple[float, ...] | None:
    joint = law.parameters.joint
    return None if joint is None else tuple(float(value) for value in joint[1]._shapes)


def _wrong_prior(kind: str) -> InvalidArgument:
    return InvalidArgument(f"method='gibbs' for a {kind} model needs {PRIORS[kind]}; {ELSE}", argument="population")


def _wrong_statistic(kind: str, release: NoisyValue) -> Unsupported:
    return Unsupported(f"method='gibbs' for a {kind} model needs {NEEDS[kind]}, not {release.statistic}; {ELSE}")
