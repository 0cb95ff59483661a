"""Who infers in the regression studies, and the synthetic regression of Bernstein & Sheldon (2019).

Every method but one is `noisewise.infer(releases, LinearRegression(...), method=...)`:
    auto, marginal, exact-gibbs        ours; auto takes one of the other two
    gibbs-update, -prior, -noisy       Bernstein & Sheldon's sampler, with three ways to know the covariates' moments
    normal-x, fixed-s, fixed-s-fast    of Alparslan, Yildirim & Birbil (2022), and their bernstein-distributed
    individual                         a latent row for everyone, by NUTS; needs the extra `nuts`
    naive                              the noise ignored; noisy moments that no data set has are projected to some
    non-private                        reads the records: the conjugate posterior, the yardstick
All see the same records and the same releases; gibbs-noisy alone reads a release with the covariates' fourth moments.

The synthetic regression, after Bernstein (2020, thesis, section 5.3.2), with an intercept and d covariates:
    sigma^2 ~ InverseGamma(20, 1/2),   theta | sigma^2 ~ N(0, (19/0.5) sigma^2 I),   y = theta' (1, x) + N(0, sigma^2)
    T ~ InverseWishart(I, 50),         mu | T ~ N(0, T),                             x ~ N(mu, T)
As in print, the noise is that of records in [-1, 1], but records are not clamped, so that the model is exact: each
method is judged, not the clamp. The release says so: it declares the bounds [-20, 20], which no record meets, and the
guarantee that the noise then gives, not the epsilon of the study.

Two settings leave that model. `bound` declares other bounds, to which records are clamped (at 2, about one record in
twenty). `covariates` draws x = mu + T^(1/2) z with independent z of mean 0 and variance 1 that are not normal:
    uniform      on [-sqrt 3, sqrt 3]
    log-normal   exp N(0, 1), standardised: skewness 6, kurtosis 114
    two-point    0 or 1, the latter with probability 1/5, standardised: skewness 1.5, kurtosis 3.25
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from noisewise.inference.infer import infer
from noisewise.laws import additive_law
from noisewise.likelihood.simulate import noisy_values
from noisewise.planning import Plan, plan
from noisewise.privacy.guarantee import GaussianDP, PureDP
from noisewise.published.baselines.non_private_regression import non_private_regression
from noisewise.regression.model import LinearRegression
from noisewise.regression.priors import (
    COVARIATE_COVARIANCE,
    COVARIATE_MEAN,
    NOISE_VARIANCE,
    NormalCovariates,
    NormalInverseGamma,
    coefficient_moments,
    noise_shape,
)
from noisewise.regression.problem import Floats, Prior
from noisewise.release import Release
from noisewise.schema import Bounded, Schema
from noisewise.statistics import Moments
from noisewise_papers.setting import Setting
from noisewise_papers.study import Row

OURS = ("auto", "marginal", "exact-gibbs")
BY_MOMENTS = ("gibbs-update", "gibbs-prior", "gibbs-noisy")
DISTRIBUTED = ("normal-x", "fixed-s", "fixed-s-fast", "bernstein-distributed")
METHODS = (*OURS, *BY_MOMENTS, *DISTRIBUTED, "individual", "naive", "non-private")
WITH_INTERCEPT = tuple(method for method in METHODS if method != "bernstein-distributed")
WITHOUT_EXTRA = tuple(method for method in WITH_INTERCEPT if method != "individual")
SHOWN = ("auto", "gibbs-update", "fixed-s", "naive", "non-private")  # by default
CREEPING = (*BY_MOMENTS, "normal-x", "bernstein-distributed")  # chains that need `iterations`
CHAINS, DRAWS = 4, 500  # of the others: draws and warm-up of each chain
NOISES = ("laplace", "gaussian")
SHAPE, RATE, DEGREES = 20.0, 0.5, 50.0
RELATIVE_PRECISION = RATE / (SHAPE - 1)
NEAR, FAR = 1.0, 20.0  # the bound behind the noise, and the one that is declared
BATCH = 10  # trials of one task


class RemarkedRows(list[Row]):
    """Rows with a sentence about where they come from; a file holds the rows alone."""

    def __init__(self, rows: Iterable[Row], remark: str) -> None:
        super().__init__(rows)
        self.remark = remark


class Fitted(NamedTuple):
    """Draws of one posterior, by chain, and the processor's seconds they took."""

    theta: Floats  # (chains, draws, q), the intercept first
    variance: Floats  # (chains, draws), NaN for a method that takes it as known
    seconds: float

    @property
    def coefficients(self) -> Floats:
        """theta of all chains, (K, q)."""
        return self.theta.reshape(-1, self.theta.shape[-1])

    @property
    def joint(self) -> Floats:
        """(theta, sigma^2) of all chains, (K, q + 1)."""
        return np.column_stack([self.coefficients, self.variance.ravel()])

    def lines(self, x: Floats) -> Floats:
        """theta' (1, x) (K, rows) at covariates x (rows, d)."""
        return np.asarray(self.coefficients @ np.column_stack([np.ones(len(x)), x]).T)


def fitted(
    method: str,
    releases: Sequence[Release],
    rows: Floats,
    model: LinearRegression,
    *,
    seed: int,
    iterations: int = DRAWS,
) -> Fitted:
    """The posterior by one method, from the releases or (non-private) from all holders' rows (n, d + 1), y last."""
    began = time.process_time()
    if method == "non-private":
        fit = non_private_regression(
            np.random.default_rng(seed), rows[:, :-1], rows[:, -1], prior=plain_prior(model), intercept=model.intercept,
            chains=CHAINS, draws=DRAWS,
        )  # fmt: skip
        assert fit.variance is not None
        return Fitted(fit.theta, fit.variance, time.process_time() - began)
    length = iterations if method in CREEPING else DRAWS
    options: dict[str, Any] = {"project": True} if method == "naive" else {}
    found = infer(releases, model, method=method, draws=length, warmup=length, chains=CHAINS, seed=seed, progress=False,
                  **options)  # fmt: skip
    theta = np.stack([found.draws[name] for name in model.names], axis=-1)
    variance = found.draws.get(NOISE_VARIANCE, np.full(theta.shape[:2], np.nan))
    return Fitted(theta, variance, time.process_time() - began)


def plain_prior(model: LinearRegression) -> Prior:
    """What a model believes of coefficients and noise, in the units of its columns."""
    if model.prior is not None:
        return Prior(*model.prior.sized(len(model.names)), model.prior.shape, model.prior.rate, is_relative=True)
    coefficients, noise = coefficient_moments(model.coefficients, model.names), noise_shape(model.noise)
    assert coefficients is not None
    assert noise is not None
    return Prior(coefficients[0], np.asarray(np.linalg.inv(coefficients[1]), np.float64), *noise)


def release_of(rng: np.random.Generator, planned: Plan, rows: Floats) -> Release:
    """The release of one holder's rows, columns in the order of the plan's schema, with simulated noise."""
    columns = {}
    for name, values in zip(planned.schema.columns, rows.T, strict=True):
        entry = planned.schema.columns[name]
        assert isinstance(entry, Bounded)
        columns[name] = np.clip(values, float(entry.low), float(entry.high))[None]
    value = noisy_values(rng, planned, columns)[0]
    name = f"simulated-{rng.bytes(8).hex()}"
    return Release.of(planned, value.tolist(), dataset=name, ledger_head=None, simulated=True)


def seed_for(base: int, method: str) -> int:
    """The seed of a method's fit: its own, whoever else is there."""
    return int(np.random.SeedSequence([base, METHODS.index(method)]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def plan_with_small_noise(statistic: Moments, n: int, guarantee: PureDP | GaussianDP, *, bound: float = FAR) -> Plan:
    """The noise of records in [-1, 1] at that guarantee, in a plan that lets them reach the bound."""
    near, far = (_box(statistic, n, reach) for reach in (NEAR, bound))
    weights = [1 / scale for scale in additive_law(plan(statistic, near, guarantee=guarantee).law).scale]
    norm = 1 if isinstance(guarantee, PureDP) else 2
    moved = statistic.sensitivity(far, norm=norm, weights=weights).value  # scale_k = moved/(weight_k epsilon)
    return plan(statistic, far, guarantee=type(guarantee)(float(moved)), weights=weights)


def _box(statistic: Moments, n: int, bound: float) -> Schema:
    names = [*map(str, statistic.features), str(statistic.response)]
    return Schema({name: Bounded(-bound, bound) for name in names}, n=n, neighbours="change-one")


def uniform(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Uniform on an interval around 0, variance 1."""
    return math.sqrt(3) * rng.uniform(-1, 1, shape)


def log_normal(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """exp N(0, 1) minus its mean e^(1/2), over its sd (e^2 - e)^(1/2)."""
    return np.asarray((rng.lognormal(size=shape) - math.exp(0.5)) / math.sqrt(math.exp(2) - math.e))


def two_point(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """0 or 1, minus the mean 1/5, over the sd 2/5."""
    return np.where(rng.random(shape) < 0.2, 2.0, -0.5)


STANDARDISED: Mapping[str, Callable[[np.random.Generator, tuple[int, int]], Floats]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "uniform": uniform,
    "log-normal": log_normal,
    "two-point": two_point,
}


class Truth(NamedTuple):
    """What a trial drew: the unknowns, and each holder's rows (n, d + 1), y last."""

    theta: Mapping[str, float]
    rows: list[Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Synthetic:
    """The synthetic regression at one n (of each holder) and epsilon."""

    n: int
    epsilon: float
    d: int
    holders: int
    noise: str
    iterations: int
    model: LinearRegression
    plans: Mapping[bool, Plan]  # without and with the covariates' fourth moments
    covariates: str

    @classmethod
    def of(
        cls, n: int, epsilon: float, *, d: int, holders: int, noise: str, iterations: int, methods: Sequence[str],
        covariates: str = "normal", bound: float = FAR,
    ) -> Synthetic:  # fmt: skip
        names = [f"x{k + 1}" for k in range(d)]
        model = LinearRegression(
            names, "y", prior=NormalInverseGamma(0, RELATIVE_PRECISION, SHAPE, RATE),
            covariates=NormalCovariates(0, 1, 1, DEGREES),
        )  # fmt: skip
        guarantee = PureDP(epsilon) if noise == "laplace" else GaussianDP(epsilon)
        kinds = {method == "gibbs-noisy" for method in methods}
        plans = {
            fourth: plan_with_small_noise(Moments(names, "y", fourth=fourth), n, guarantee, bound=bound)
            for fourth in sorted(kinds)
        }
        return cls(n, epsilon, d, holders, noise, iterations, model, plans, covariates)

    def draw(self, rng: np.random.Generator) -> Truth:
        """Unknowns from the prior, rows from the model or, if covariates are not normal, nearly so."""
        drawn = self.model.sample_prior(rng, 1)
        beta = np.array([drawn[name][0] for name in self.model.names])
        root = np.linalg.cholesky(drawn[COVARIATE_COVARIANCE][0])
        rows = []
        for _ in range(self.holders):
            x = drawn[COVARIATE_MEAN][0] + STANDARDISED[self.covariates](rng, (self.n, self.d)) @ root.T
            e = math.sqrt(drawn[NOISE_VARIANCE][0]) * rng.standard_normal(self.n)
            rows.append(np.column_stack([x, beta[0] + x @ beta[1:] + e]))
        return Truth({name: float(drawn[name][0]) for name in self.model.free}, rows)

    def fits(self, truth: Truth, methods: Sequence[str], base: int) -> dict[str, Fitted]:
        """What each method finds; `base` seeds the noise and the samplers."""
        releases = {
            fourth: [release_of(rng, planned, rows) for rows in truth.rows]
            for fourth, planned in self.plans.items()
            for rng in [np.random.default_rng([base, fourth])]
        }
        everyone = np.concatenate(truth.rows)
        return {
            method: fitted(method, releases.get(method == "gibbs-noisy", []), everyone, self.model,
                           seed=seed_for(base, method), iterations=self.iterations)
            for method in methods
        }  # fmt: skip


class Batch(NamedTuple):
    """Some trials of one synthetic regression, by some methods."""

    world: Synthetic
    methods: tuple[str, ...]
    trials: int


def batches_of(settings: Mapping[str, Any]) -> list[Batch]:
    """The grid of the settings as tasks of a few trials each."""
    found = []
    methods = settings["method"]
    shared = {name: settings[name] for name in ("d", "holders", "noise", "iterations", "covariates", "bound")}
    for n in settings["n"]:
        for epsilon in settings["epsilon"]:
            world = Synthetic.of(n, epsilon, **shared, methods=methods)
            starts = range(0, settings["trials"], BATCH)
            found += [Batch(world, methods, min(BATCH, settings["trials"] - start)) for start in starts]
    return found


def settings_of(*, default: Mapping[str, Any], full: Mapping[str, Any]) -> dict[str, Setting]:
    """What both studies of the synthetic regression let one set."""
    return {
        "n": Setting(int, default["n"], "records of each holder", full=full["n"], at_least=1),
        "epsilon": Setting(float, default["epsilon"], "the privacy of each release", full=full["epsilon"], above=0),
        "trials": Setting(int, default["trials"], "regressions, data sets and releases a cell", full=full["trials"],
                          at_least=2),
        "method": Setting(str, SHOWN, "who infers", full=WITHOUT_EXTRA, choices=WITH_INTERCEPT),
        "d": Setting(int, 1, "covariates, beside the intercept", at_least=1),
        "holders": Setting(int, 1, "data holders", at_least=1),
        "noise": Setting(str, "laplace", "laplace (epsilon-DP) or gaussian (epsilon-GDP)", choices=NOISES),
        "iterations": Setting(int, 3000, "of each of 4 chains of a slow sampler, after as many", full=5000,
                              at_least=100),
        "covariates": Setting(str, "normal", "their law; the model takes them to be normal",
                              choices=tuple(STANDARDISED)),
        "bound": Setting(float, FAR, "records are clamped to this distance from 0", above=0),
    }  # fmt: skip


def colour(method: str) -> str:
    """The same method has the same colour in every figure."""
    return f"C{METHODS.index(method) % 10}"
