"""The five conjugate families of the expfam studies: what is drawn, what is released, who infers from it.

    family        prior, by default            records                        released, with Laplace noise
    binomial      p ~ Beta(10, 10)             0 or 1                         the count of ones
    multinomial   p ~ Dirichlet(5, 5, 5)       one of three levels            the histogram
    poisson       rate ~ Gamma(8, rate 2)      clamped at the 99.9 % point    their sum
    exponential   rate ~ Gamma(8, rate 2)      redacted but the middle 95 %   the sum of the others
    normal        (m, k, a, b) = (0, 1, 8, 8)  clamped to the middle 99.9 %   the sums of x and x^2

Points and middles are those of the prior predictive law, so they are public. The priors of the first, second and fourth
are those of Bernstein & Sheldon (2018) in their code, which differs in two things: it takes the exponential's bounds
from quantiles at the *true* rate, which no one knows, and the sensitivity of the table is 1 there, not the 2 of
change-one neighbours. What is studied is the first component of the parameter: p, p_1, the rate, the mean.

A trial draws the parameter from the prior and the records from the population; all methods see the same records and,
where they read a release, the same release.
    exact                    noisewise.infer: the statistic's own law (for the normal above 30 records, its normal law)
    gibbs                    noisewise.infer: Bernstein & Sheldon's sampler
    naive                    noisewise.infer: the noise ignored, clamp and window kept in the model. In print it may
                             cheat for truncated models: there it reads the noisy sum of *all* records
    one-posterior-sampling   reads the records: 100 samples at epsilon/100 each (binomial, poisson, exponential)
    non-private              reads the records: the conjugate posterior
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from noisewise.errors import InvalidArgument, NoisewiseError
from noisewise.evaluate.trials import PublicSizes, Sampled
from noisewise.families.family import gamma_numbers
from noisewise.inference.infer import infer
from noisewise.likelihood.conjugate import beta_shapes
from noisewise.likelihood.simulate import noisy_values
from noisewise.planning import Plan, plan
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import Bernoulli, Categorical, Exponential, Normal, Poisson, Population
from noisewise.populations.text import population_from_text
from noisewise.privacy.guarantee import PureDP
from noisewise.published.baselines.non_private import non_private
from noisewise.published.baselines.one_posterior_sampling import PARAMETERS as SAMPLED_FAMILIES
from noisewise.published.baselines.one_posterior_sampling import one_posterior_sampling
from noisewise.release import Release
from noisewise.schema import Bounded, Levels, Schema
from noisewise.statistics import Count, Histogram, Statistic, Sum, TruncatedSum, column
from noisewise_papers.setting import Setting

PRIORS: Mapping[str, tuple[float, ...]] = {
    "binomial": (10.0, 10.0),
    "multinomial": (5.0, 5.0, 5.0),
    "poisson": (8.0, 2.0),
    "exponential": (8.0, 2.0),
    "normal": (0.0, 1.0, 8.0, 8.0),
}
WANTED = {
    "binomial": "a,b or beta(a, b)",
    "multinomial": "alpha_1,alpha_2,... or dirichlet([alpha_1, alpha_2, ...])",
    "poisson": "a,b (shape and rate) or gamma(a, scale=1/b as a number)",
    "exponential": "a,b (shape and rate) or gamma(a, scale=1/b as a number)",
    "normal": "m,k,a,b or normal_inverse_gamma(m, k, a, b)",
}
SPELLED = {
    "binomial": "bernoulli(p={})",
    "multinomial": "categorical(p={})",
    "poisson": "poisson(rate={})",
    "exponential": "exponential(rate={})",
    "normal": "normal(prior={})",
}
FAMILIES = tuple(PRIORS)
FROM_RELEASES = ("exact", "gibbs", "naive")
METHODS = (*FROM_RELEASES, "one-posterior-sampling", "non-private")
SHARE = (0.1, 0.9)  # where one-posterior sampling keeps the binomial's p, as in print
KEPT = 0.95  # of the exponential's records
ALMOST_ALL = 0.999
CHAINS, DRAWS = 4, 400  # independent draws of one posterior; chains give 4 * iterations
SAMPLES = 100  # of one-posterior sampling, and ranked in a trial
BATCH = 10  # trials of one task
X = column("x")


class Data(NamedTuple):
    """The confidential records of a trial, and what was released of them."""

    records: Array
    release: Release


@dataclass(frozen=True, slots=True, eq=False)
class Experiment(PublicSizes):
    """One family at one n, epsilon and prior: a world that trials can be drawn from."""

    family: str
    n: int
    epsilon: float
    prior: tuple[float, ...]
    iterations: int
    population: Population
    plan: Plan
    bounds: tuple[float, float]  # of the records that count

    @classmethod
    def of(
        cls, family: str, n: int, epsilon: float, prior: Sequence[float] | None = None, *, iterations: int = 2000
    ) -> Experiment:
        given = PRIORS[family] if prior is None else checked_prior(family, prior)
        population, entry, statistic, bounds = _setup(family, given)
        schema = Schema({"x": entry}, n=n, neighbours="change-one")
        planned = plan(statistic, schema, guarantee=PureDP(epsilon))
        return cls(family, n, epsilon, given, iterations, population, planned, bounds)

    @property
    def parameter(self) -> str:
        """The parameter of which the first component is studied."""
        return self.population.free[0]

    @property
    def methods(self) -> tuple[str, ...]:
        """Those that are there for this family."""
        return tuple(m for m in METHODS if m != "one-posterior-sampling" or self.family in SAMPLED_FAMILIES)

    @property
    def support(self) -> tuple[float, float]:
        """Where one-posterior sampling keeps the parameter: as in print, or the middle 99.9 % of the prior."""
        if self.family == "binomial":
            return SHARE
        low, high = self.population.parameters.priors["rate"].interval(ALMOST_ALL)
        return float(low), float(high)

    def releases(self, rng: np.random.Generator, theta: Theta, sizes: Sequence[int | None] = ()) -> list[Data]:
        """Records at one value of theta, and their release."""
        records = self.population.sample(rng, self.n, theta)
        entry = self.plan.schema.columns["x"]
        clean = np.clip(records, entry.low, entry.high) if isinstance(entry, Bounded) else records
        value = noisy_values(rng, self.plan, {"x": clean})[0]
        name = f"simulated-{rng.bytes(8).hex()}"
        release = Release.of(self.plan, value.tolist(), dataset=name, ledger_head=None, simulated=True)
        return [Data(records[0], release)]

    def sampler(self, method: str) -> Callable[[Sequence[Data], Any, int], Sampled]:
        """Draws of the posterior by that method, given the data of one trial and a seed."""

        def sample(data: Sequence[Data], population: Any, seed: int) -> Sampled:
            ((records, release),) = data
            rng = np.random.default_rng(seed)
            if method == "non-private":
                return Sampled(non_private(rng, self.family, records, prior=self.prior, draws=DRAWS), DRAWS)
            if method == "one-posterior-sampling":
                return Sampled(self._sampled_once(rng, records), SAMPLES)
            length = self.iterations if method == "gibbs" else DRAWS // CHAINS
            found = infer(
                release, population, method=method, draws=length, warmup=self.iterations // 2, chains=CHAINS, seed=seed,
                progress=False,
            )  # fmt: skip
            return Sampled(found.draws, math.nan)

        return sample

    def first(self, draws: Mapping[str, Any]) -> Array:
        """All draws of the first component of the parameter, flat."""
        values = np.asarray(draws[self.parameter], float)
        return (values[..., 0] if self.family == "multinomial" else values).ravel()

    def _sampled_once(self, rng: np.random.Generator, records: Array) -> dict[str, Array]:
        return one_posterior_sampling(
            rng, self.family, records, prior=self.prior, epsilon=self.epsilon, support=self.support,
            bounds=self.bounds, samples=SAMPLES,
        )  # fmt: skip


def _setup(
    family: str, prior: tuple[float, ...]
) -> tuple[Population, Bounded | Levels, Statistic, tuple[float, float]]:
    """The population, its column, the statistic, and the bounds of the records that count."""
    from scipy import stats

    if family == "binomial":
        return Bernoulli(p=stats.beta(*prior)), Levels(["no", "yes"]), Count(X.equals("yes")), (0, 1)
    if family == "multinomial":
        levels = [f"level {k + 1}" for k in range(len(prior))]
        return Categorical(p=stats.dirichlet(prior)), Levels(levels), Histogram("x"), (0, len(prior) - 1)
    if family == "normal":
        m, k, a, b = prior
        half = stats.t.isf((1 - ALMOST_ALL) / 2, 2 * a) * math.sqrt(b * (k + 1) / (a * k))
        bounds = _readable(m - half), _readable(m + half)
        return Normal(prior=stats.normal_inverse_gamma(*prior)), Bounded(*bounds), Sum(X, X**2), bounds
    (a, b), rate = prior, stats.gamma(prior[0], scale=1 / prior[1])
    if family == "poisson":
        bounds = 0, max(1.0, float(stats.nbinom.ppf(ALMOST_ALL, a, b / (b + 1))))
        return Poisson(rate=rate), Bounded(*bounds), Sum(X), bounds
    low, high = (_readable(b * q) for q in stats.lomax(a).interval(KEPT))
    # Records above the window are clamped to a value outside it, so they stay redacted.
    return Exponential(rate=rate), Bounded(0, 2 * high), TruncatedSum([X], "x", low, high), (low, high)


def _readable(value: float) -> float:
    """To three digits."""
    return float(f"{value:.3g}")


def read_prior(family: str, text: str | None) -> tuple[float, ...]:
    """The numbers of a prior given as numbers ("0.5,5") or as in a spec file ("beta(0.5, 5)"); by default its own."""
    if text is None:
        return PRIORS[family]
    try:
        numbers: tuple[float, ...] = tuple(float(word) for word in text.strip("()[] ").split(","))
    except ValueError:
        numbers = _frozen_numbers(family, text)
    return checked_prior(family, numbers)


def _frozen_numbers(family: str, text: str) -> tuple[float, ...]:
    try:
        population = population_from_text(SPELLED[family].format(text))
    except NoisewiseError as error:
        raise InvalidArgument(f"prior = {text!r:.60}: {error}", argument="prior") from None
    assert isinstance(population, Population)
    if family == "normal":
        assert population.parameters.joint is not None
        return tuple(float(number) for number in population.parameters.joint[1]._shapes)
    prior = next(iter(population.parameters.priors.values()), None)
    if family == "multinomial":
        return tuple(float(number) for number in getattr(prior, "alpha", ()))
    return (beta_shapes(prior) if family == "binomial" else gamma_numbers(prior)) or ()


def checked_prior(family: str, given: Sequence[float]) -> tuple[float, ...]:
    """As many numbers as the family's prior has, in their ranges."""
    is_long_enough = len(given) >= 2 if family == "multinomial" else len(given) == len(PRIORS[family])
    positive = given[1:] if family == "normal" else given
    if (
        not is_long_enough
        or not all(0 < number < math.inf for number in positive)
        or not all(map(math.isfinite, given))
    ):
        raise InvalidArgument(
            f"prior = {tuple(given)}: the prior of {family} is {WANTED[family]}. For several families at once leave it "
            "out.",
            argument="prior",
        )
    return tuple(given)


class Batch(NamedTuple):
    """Some trials of one experiment, by some methods."""

    experiment: Experiment
    methods: tuple[str, ...]
    trials: int


def batches_of(settings: Mapping[str, Any]) -> list[Batch]:
    """The grid of the settings as tasks of a few trials each; methods that a family does not have are left out."""
    found = []
    for family, n, epsilon in itertools.product(*(settings[name] for name in ("family", "n", "epsilon"))):
        prior = read_prior(family, settings["prior"])
        experiment = Experiment.of(family, n, epsilon, prior, iterations=settings["iterations"])
        methods = tuple(m for m in settings["method"] if m in experiment.methods)
        done = range(0, settings["trials"], BATCH)
        found += [Batch(experiment, methods, min(BATCH, settings["trials"] - start)) for start in done if methods]
    if not found:
        raise InvalidArgument(
            f"method: one-posterior-sampling is there for {', '.join(SAMPLED_FAMILIES)}.", argument="method"
        )
    return found


def trial_seeds(rng: np.random.Generator, trials: int) -> Callable[[], list[np.random.SeedSequence]]:
    """Makes the same seeds, one a trial, whenever it is called: spawning from a seed changes it."""
    entropy = int(rng.integers(2**63))
    return lambda: np.random.SeedSequence(entropy).spawn(trials)


def settings_of(*, default: Mapping[str, Any], full: Mapping[str, Any], methods: Sequence[str]) -> dict[str, Setting]:
    """What both studies let one set."""
    return {
        "family": Setting(str, default["family"], "conjugate families", full=FAMILIES, choices=FAMILIES),
        "n": Setting(int, default["n"], "records", full=full["n"], at_least=1),
        "epsilon": Setting(float, default["epsilon"], "the privacy of the release", full=full["epsilon"], above=0),
        "trials": Setting(int, default["trials"], "parameters, data sets and releases a cell", full=full["trials"],
                          at_least=2),
        "prior": Setting(str, None, "as in 0.5,5 or beta(0.5, 5); null: the family's own"),
        "method": Setting(str, tuple(methods), "who infers", full=tuple(methods), choices=METHODS),
        "iterations": Setting(int, 2000, "of each of the Gibbs sampler's 4 chains, after half as many", full=5000,
                              at_least=100),
    }  # fmt: skip
