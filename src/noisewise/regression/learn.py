"""From releases to the posterior of a regression: build the problem, run a method, say what it is worth.

A method works in the units of the first release's rows; its draws are turned back to the units of the columns here.
`exact-gibbs` is run again, twice and then four times as long, where its chains disagree (R-hat above 1.01; fewer than
1000 draws show no less than 1.05) or creep (an effective size below a twentieth of the draws, or below what the verdict
asks for where a tenth of the draws would do), and then thinned to the draws asked for; `marginal` sees to that itself.
The verdict says what was assumed, and what the method passes over.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from noisewise.inference.diagnostics import judged
from noisewise.inference.methods import AUTO, Found
from noisewise.inference.settings import Settings
from noisewise.inference.verdict import ESS_A_CHAIN, RHAT_LIMIT, Chains, PointEstimate, Verdict
from noisewise.regression.cleaning import CleanedShare, cleaned_share, predictive_skewness
from noisewise.regression.methods import (
    INSTEAD,
    METHODS,
    SKEWNESS_LIMIT,
    RegressionMethod,
    automatic,
    largest_skewness,
)
from noisewise.regression.observed import Observed
from noisewise.regression.priors import COVARIATE_COVARIANCE, COVARIATE_MEAN, INTERCEPT, NOISE_VARIANCE, RELEASED
from noisewise.regression.problem import Fit, Floats, LocationX, NormalX, Problem
from noisewise.regression.subject import LinearMoments
from noisewise.regression.words import (
    collinear_caution,
    law_in_words,
    require_location_model,
    response_caution,
    taken_for_normal,
    unseen_parts,
)

LENGTHS = (1, 2, 4)
CLEANING_STREAM = 3
LONG, SHORT_LIMIT = 1000, 1.05


def learn(model: LinearMoments, observed: Observed, settings: Settings) -> Found:
    """A method run on what releases say about a regression, and what it is worth."""
    if settings.method == AUTO:
        require_location_model(model, observed)
        problem = model.problem_of(observed)
        name, reason = automatic(problem, likelihood=settings.likelihood)
        chosen = METHODS[name]
    else:
        name, reason, chosen = settings.method, "", METHODS[settings.method]
        problem = model.problem_of(observed, as_normal=not _models_conditions(chosen, observed))
    rng = settings.rng
    fit, verdict = _run(chosen, problem, rng, settings, model.names)
    share = cleaned_share(np.random.default_rng([settings.seed, CLEANING_STREAM]), problem, fit)
    skewness = _skewness(np.random.default_rng([settings.seed, CLEANING_STREAM, 1]), problem, fit)
    if reason and not chosen.models_shortening and share is not None and share.is_felt:
        # Only a fit can tell how many rows met their bounds: no release says so. By a fit of its own `marginal` may
        # find too few of them to model, and is then no better.
        other, opinion = _run(METHODS[INSTEAD], problem, rng, settings, model.names)
        if other.models_cleaning:
            name, fit, verdict = INSTEAD, other, opinion
            reason = f"{100 * share.clamped:.2g} % of rows were clamped, which only it models"
    said = verdict.saying(notes=_notes(name, problem, share))
    warnings = (*_warnings(model, name, problem, observed, share, skewness), *observed.warnings, *verdict.warnings)
    return Found(
        draws=natural_draws(model, observed, fit),
        method=name,
        how=f"{fit.how}, taken because {reason}" if reason else fit.how,
        law=law_in_words(model, problem),
        verdict=Verdict(PointEstimate() if fit.is_point else said.evidence, said.notes, warnings),
        is_point=fit.is_point,
        energy=fit.energy,
    )


def remarks(
    model: LinearMoments, problem: Problem, observed: Observed, fit: Fit, seed: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is to be said before and after the numbers of a fit by `marginal`."""
    share = cleaned_share(np.random.default_rng([seed, CLEANING_STREAM]), problem, fit)
    skewness = _skewness(np.random.default_rng([seed, CLEANING_STREAM, 1]), problem, fit)
    warnings = _warnings(model, INSTEAD, problem, observed, share, skewness)
    return warnings, (*_fit_notes(fit), *_notes(INSTEAD, problem, share))


def natural_draws(model: LinearMoments, observed: Observed, fit: Fit) -> dict[str, Floats]:
    """A fit's draws by name, in the units of the columns."""
    units = observed.units
    beta = units.natural(fit.theta)
    draws = {name: beta[..., k] for k, name in enumerate(model.names)}
    if not model.intercept and np.any(units.centre != 0):
        draws = {INTERCEPT: units.implied_intercept(beta), **draws}
    if fit.variance is not None:
        draws[NOISE_VARIANCE] = fit.variance / units.variance_factor
    if fit.covariance_x is not None:
        mean = np.zeros((*fit.theta.shape[:2], len(model.features))) if fit.mean_x is None else fit.mean_x
        draws[COVARIATE_MEAN] = units.natural_mean(mean)
        draws[COVARIATE_COVARIANCE] = units.natural_covariance(fit.covariance_x)
    return draws | dict(fit.latent)


def _run(
    chosen: RegressionMethod, problem: Problem, rng: np.random.Generator, settings: Settings, names: tuple[str, ...]
) -> tuple[Fit, Verdict]:
    """The fit, and what its chains are worth; exact-gibbs is run longer where they have not mixed."""
    options = chosen.read(settings.options)
    for times in LENGTHS if chosen.runs_longer else (1,):
        lengths = {"draws": settings.draws * times, "warmup": settings.warmup * times}
        fit = chosen.run(problem, rng, chains=settings.chains, progress=settings.report, **lengths, **options)
        evidence = _evidence(fit, names)
        if not _needs_longer(evidence):
            break
    notes = _fit_notes(fit)
    if times == 1:
        return fit, Verdict(evidence, notes)
    fit = _thinned(fit, times)
    said = f"The chains had not mixed at first; they were run {times} times as long, and thinned."
    return fit, Verdict(_evidence(fit, names), (said, *notes))


def _needs_longer(judged: Chains) -> bool:
    limit = RHAT_LIMIT if judged.draws >= LONG else SHORT_LIMIT
    enough = min(ESS_A_CHAIN * judged.chains, judged.draws / 10)  # what the verdict asks for, where draws allow it
    return judged.rhat > limit or judged.smallest_ess < max(enough, judged.draws / 20)


def _evidence(fit: Fit, names: tuple[str, ...]) -> Chains:
    positions = fit.theta if fit.variance is None else np.concatenate([fit.theta, fit.variance[..., None]], axis=2)
    labels = names if fit.variance is None else (*names, NOISE_VARIANCE)
    with np.errstate(all="ignore"):
        return judged(positions, names=labels)


def _fit_notes(fit: Fit) -> tuple[str, ...]:
    stumbled = () if not fit.non_finite else (f"{fit.non_finite} steps met a non-finite density and were rejected.",)
    return (*fit.notes, *stumbled)


def _thinned(fit: Fit, times: int) -> Fit:
    def thin(values: Floats | None) -> Any:
        return None if values is None else values[:, times - 1 :: times]

    return replace(fit, theta=thin(fit.theta), variance=thin(fit.variance), mean_x=thin(fit.mean_x),
                   covariance_x=thin(fit.covariance_x), energy=thin(fit.energy))  # fmt: skip


def _models_conditions(chosen: RegressionMethod, observed: Observed) -> bool:
    """Whether a method that was named models yes/no features in these rows; where not, it takes them for normal."""
    return chosen.models_conditions and all(h.shrink is None and h.block == 1 for h in observed.holders)


def _skewness(rng: np.random.Generator, problem: Problem, fit: Fit) -> float:
    """Of the noisy sums, which `marginal` takes to be normal; by the fitted law where that is not normal itself."""
    if isinstance(problem.covariates, LocationX):
        return predictive_skewness(rng, problem, fit)
    return largest_skewness(problem)


def _warnings(
    model: LinearMoments,
    name: str,
    problem: Problem,
    observed: Observed,
    share: CleanedShare | None,
    skewness: float,
) -> tuple[str, ...]:
    """What stands before every number."""
    said = [*response_caution(model), *collinear_caution(model, observed)]
    if model.conditions and isinstance(problem.covariates, NormalX) and METHODS[name].has_law_of_x:
        said.append(taken_for_normal(model, name))
    if isinstance(problem.covariates, NormalX) and not model.conditions and share is not None and share.is_doubtful:
        said.append(
            f"By a normal law at least {100 * share.covariates:.2g} % of a covariate lie beyond its bounds, and are "
            "taken to be clamped. If records end there by nature (uniform, skewed, 0 or 1), that is wrong, no release "
            "of moments can tell, and slopes and their intervals are not to be trusted: declare yes/no columns as "
            "Levels, numbers with wider bounds, or give covariates=GivenMoments(...)."
        )
    if share is not None and share.is_sure:
        said.append(
            f"By the fitted model {100 * share.clamped:.2g} % of rows were clamped, which is not modelled beside "
            "yes/no features: coefficients may be biased. Release with wider bounds."
        )
    if model.covariates == RELEASED:
        said.append(
            "Moments of the covariates are taken as released, and the noise in them is not in the intervals, which are "
            "too narrow for it: of 90 % intervals 80 to 83 % were seen to hold. Give moments of a public sample, or "
            "leave out covariates=."
        )
    if name == "marginal" and skewness > SKEWNESS_LIMIT:
        said.append(
            f"The noisy sums are taken to be normal and are not (skewness {skewness:.2g}): with so few rows, or so few "
            "of a kind, and so little noise intervals may be too narrow."
        )
    return tuple(said)


def _notes(name: str, problem: Problem, share: CleanedShare | None) -> list[str]:
    """What was assumed, and what the method passes over."""
    notes: list[str] = []
    if isinstance(problem.covariates, NormalX) and METHODS[name].has_law_of_x:
        notes.append("Covariates are taken to be normal.")
    if isinstance(problem.covariates, LocationX) and share is not None and not share.is_sure:
        notes += share.sentences()
    if not METHODS[name].models_shortening:
        if share is not None:
            notes += share.sentences()
        elif any(holder.shrink is not None for holder in problem.holders):
            notes.append(f"Rows were shortened, which method {name!r} ignores: coefficients may be biased towards 0.")
    if name != "adassp":
        notes += unseen_parts(problem)
        if any(holder.eigenvalue is not None for holder in problem.holders):
            notes.append("The smallest eigenvalue is used by method 'adassp' only.")
    return notes
