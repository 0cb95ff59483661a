"""The methods of a regression by name, and which of them `auto` takes.

Every method is a module of this room with one function from a `Problem` to a `Fit`; it is imported when it is asked
for. `auto` takes `marginal`, whose law of the noisy moments is normal, unless some released square is visibly skew: the
sum of n squares of N(mu, s^2) with noise of variance t^2 has skewness
    n (8 s^6 + 24 s^4 mu^2) / (n (2 s^4 + 4 s^2 mu^2) + t^2)^(3/2),
and where that exceeds 1/4 (few rows, little noise) `exact-gibbs` keeps the exact law. Neither rule knows how many rows
were clamped: where the fit says that it is more than one in a hundred, `learn` goes back to `marginal`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.regression.pooled import moment_matrix
from noisewise.regression.problem import Fit, Holder, LocationX, NormalX, Problem

SKEWNESS_LIMIT = 0.25


@dataclass(frozen=True, slots=True)
class Method:
    """Where a method lives, and what it is worth."""

    module: str
    function: str = "sample"
    models_shortening: bool = False  # rows that were clamped or shortened are in its law
    models_conditions: bool = False  # yes/no features are, as such
    has_law_of_x: bool = True  # covariates are taken to have one: normal, unless it models conditions
    runs_longer: bool = False  # where the chains have not mixed; published methods are run as asked

    @property
    def run(self) -> Callable[..., Fit]:
        module = importlib.import_module(f"noisewise.regression.{self.module}")
        found: Callable[..., Fit] = getattr(module, self.function)
        return found


METHODS: Mapping[str, Method] = {
    "marginal": Method("marginal", models_shortening=True, models_conditions=True),
    "exact-gibbs": Method("exact_gibbs", runs_longer=True),
    "naive": Method("naive", has_law_of_x=False),
    "individual": Method("individual", models_shortening=True),
    "gibbs-noisy": Method("gibbs_moments", "sample_noisy", has_law_of_x=False),
    "gibbs-prior": Method("gibbs_moments", "sample_prior"),
    "gibbs-update": Method("gibbs_moments", "sample_update"),
    "bernstein-distributed": Method("gibbs_moments", "sample_distributed"),
    "normal-x": Method("normal_x"),
    "fixed-s": Method("fixed_s", has_law_of_x=False),
    "fixed-s-fast": Method("fixed_s", "sample_fast", has_law_of_x=False),
    "adassp": Method("adassp", "estimate", has_law_of_x=False),
}


def method_named(name: object) -> Method:
    """The method of that name, or a sentence that lists them."""
    if not isinstance(name, str) or name not in METHODS:
        raise InvalidArgument(
            f"method = {name!r:.40}: for a linear regression there are auto, {', '.join(METHODS)}.", argument="method"
        )
    return METHODS[name]


def automatic(problem: Problem, *, likelihood: str) -> tuple[str, str]:
    """The method `auto` takes for a problem, and the reason in words."""
    if isinstance(problem.covariates, LocationX):
        return "marginal", "it alone models yes/no features as such"
    if likelihood == "clt":
        return "marginal", "the normal law of the moments was asked for"
    if not isinstance(problem.covariates, NormalX):
        return "marginal", "the moments of the covariates are given"
    if any(holder.shrink is not None for holder in problem.holders):
        return "marginal", "rows were shortened, which only it models"
    worst = largest_skewness(problem)
    if worst <= SKEWNESS_LIMIT:
        return "marginal", f"skewness of the noisy moments {worst:.2g}, so their law is nearly normal"
    if min(holder.n for holder in problem.holders) <= problem.d + problem.intercept:
        return "marginal", f"skewness of the noisy moments {worst:.2g}, but a holder has too few rows for an exact law"
    return "exact-gibbs", f"skewness of the noisy moments {worst:.2g}, so a normal law would not do"


def largest_skewness(problem: Problem) -> float:
    """Of all holders' noisy sums."""
    return max(skewness_of(holder, problem) for holder in problem.holders)


def skewness_of(holder: Holder, problem: Problem) -> float:
    """The skewness of the holder's noisiest-to-normal square, at its noisy variance plus one noise deviation."""
    matrix = moment_matrix(holder, problem.m, intercept=problem.intercept)
    noise = np.full((problem.m, problem.m), np.nan)
    noise[tuple(holder.pairs.T)] = holder.variance
    skewness = 0.0
    for a in range(int(problem.intercept), problem.m):
        if np.isnan(matrix[a, a]):
            continue
        n, tau = holder.n, float(np.sqrt(noise[a, a]))
        mean = float(np.nan_to_num(matrix[0, a])) / (n * np.sqrt(holder.block)) if problem.intercept else 0.0
        spread = max(float(matrix[a, a]) / n - mean**2, 0.0) + tau / n
        third = n * (8 * spread**3 + 24 * spread**2 * mean**2)
        skewness = max(skewness, third / (n * (2 * spread**2 + 4 * spread * mean**2) + tau**2) ** 1.5)
    return skewness
