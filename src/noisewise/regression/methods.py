"""The methods of a regression by name, and which of them `auto` takes.

Every method is one function of this room from a `Problem` to a `Fit`; it is imported when it is asked for. `auto` takes
`marginal`, whose law of the noisy moments is normal, unless some released square is visibly skew: the sum of n squares
of N(mu, s^2) with noise of variance t^2 has skewness
    n (8 s^6 + 24 s^4 mu^2) / (n (2 s^4 + 4 s^2 mu^2) + t^2)^(3/2),
and where that exceeds 1/4 (few rows, little noise) `exact-gibbs` keeps the exact law. Neither rule knows how many rows
were clamped: where the fit says that it is more than one in a hundred, `learn` goes back to `marginal`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from noisewise.inference.methods import Method, Methods, Option
from noisewise.inference.options import between_0_and_1, positive_or_none, power_of_two, yes_or_no
from noisewise.regression.pooled import moment_matrix
from noisewise.regression.problem import Fit, Holder, LocationX, NormalX, Problem

SKEWNESS_LIMIT = 0.25
INSTEAD = "marginal"  # where a point or another law will not do


Sampler = Callable[..., Fit]


@dataclass(frozen=True, slots=True)
class RegressionMethod(Method):
    """What a method of a regression is worth."""

    models_shortening: bool = False  # rows that were clamped or shortened are in its law
    models_conditions: bool = False  # yes/no features are, as such
    has_law_of_x: bool = True  # covariates are taken to have one: normal, unless it models conditions
    runs_longer: bool = False  # where the chains have not mixed; published methods are run as asked


def _marginal() -> Sampler:
    from noisewise.regression.marginal import sample

    return sample


def _exact_gibbs() -> Sampler:
    from noisewise.regression.exact_gibbs import sample

    return sample


def _naive() -> Sampler:
    from noisewise.published.regression.naive import sample

    return sample


def _individual() -> Sampler:
    from noisewise.published.regression.individual import sample

    return sample


def _gibbs() -> ModuleType:
    from noisewise.published.regression import gibbs_moments

    return gibbs_moments


def _normal_x() -> Sampler:
    from noisewise.published.regression.normal_x import sample

    return sample


def _fixed_s() -> ModuleType:
    from noisewise.published.regression import fixed_s

    return fixed_s


def _adassp() -> Sampler:
    from noisewise.published.regression.adassp import estimate

    return estimate


RIDGE_OPTIONS = (Option("rho", 0.05, between_0_and_1), Option("tail", 1e-6, between_0_and_1))
METHODS: Methods[RegressionMethod] = Methods(
    "a linear regression",
    RegressionMethod("marginal", _marginal, "a normal law of the moments", (Option("points", None, power_of_two),),
                     models_shortening=True, models_conditions=True),
    RegressionMethod("exact-gibbs", _exact_gibbs, "the exact law of the moments", runs_longer=True),
    RegressionMethod("naive", _naive, "the noise ignored", (Option("project", False, yes_or_no),), has_law_of_x=False),
    RegressionMethod("individual", _individual, "rows as unknowns", (Option("accept", 0.9, between_0_and_1),),
                     models_shortening=True),
    RegressionMethod("gibbs-noisy", lambda: _gibbs().sample_noisy, "Gibbs at released moments", has_law_of_x=False),
    RegressionMethod("gibbs-prior", lambda: _gibbs().sample_prior, "Gibbs at given fourth moments"),
    RegressionMethod("gibbs-update", lambda: _gibbs().sample_update, "Gibbs with moments updated"),
    RegressionMethod("bernstein-distributed", lambda: _gibbs().sample_distributed, "Gibbs over several holders"),
    RegressionMethod("normal-x", _normal_x, "normal covariates"),
    RegressionMethod("fixed-s", lambda: _fixed_s().sample, "the covariates' moments held", has_law_of_x=False),
    RegressionMethod("fixed-s-fast", lambda: _fixed_s().sample_fast, "the same, conjugate",
                     (Option("noise_variance", None, positive_or_none),), has_law_of_x=False),
    RegressionMethod("adassp", _adassp, "a ridge estimate", RIDGE_OPTIONS,
                     is_point=True, has_law_of_x=False),
    instead=INSTEAD,
)  # fmt: skip


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
        if np.isnan(noise[a, a]):
            continue
        n, tau = holder.n, float(np.sqrt(noise[a, a]))
        mean = float(np.nan_to_num(matrix[0, a])) / (n * np.sqrt(holder.block)) if problem.intercept else 0.0
        spread = max(float(matrix[a, a]) / n - mean**2, 0.0) + tau / n
        third = n * (8 * spread**3 + 24 * spread**2 * mean**2)
        skewness = max(skewness, third / (n * (2 * spread**2 + 4 * spread * mean**2) + tau**2) ** 1.5)
    return skewness
