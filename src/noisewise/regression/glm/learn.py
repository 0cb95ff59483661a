"""From releases to the posterior of a generalized linear model: build the problem, draw, say what it is worth."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from noisewise.errors import Unsupported
from noisewise.inference.methods import AUTO, Found, Method, Methods
from noisewise.inference.settings import Settings
from noisewise.inference.verdict import Verdict
from noisewise.regression.glm.covariates import completed, observed_combinations, wide_cells, working_law
from noisewise.regression.glm.fitness import clamped_share, few_clamped, misfit, skewness
from noisewise.regression.glm.histograms import without_cells
from noisewise.regression.glm.problem import (
    GlmProblem,
    coefficient_belief,
    default_widths,
    feature_units,
    whole_rows,
)
from noisewise.regression.glm.responses import check_response, largest_count, response_cap, undeclared
from noisewise.regression.glm.sampler import CHAINS, WEIGHTS, GlmFit, sample
from noisewise.regression.glm.words import assumptions, law_in_words
from noisewise.regression.location import natural_draws
from noisewise.regression.methods import SKEWNESS_LIMIT
from noisewise.regression.observed import Observed
from noisewise.regression.priors import INTERCEPT, LEARNED, coefficient_moments
from noisewise.regression.problem import Holder
from noisewise.regression.units import Units
from noisewise.regression.words import collinear_caution
from noisewise.types import Floats

if TYPE_CHECKING:
    from noisewise.regression.glm.model import MomentsGlm

SKEW_STREAM = 5
METHODS: Methods[Method] = Methods(
    "a generalized linear model",
    Method(WEIGHTS, lambda: sample, "independent draws by importance sampling"),
    Method(CHAINS, lambda: sample, "Hamiltonian Monte Carlo"),
    instead=WEIGHTS,
)


def learn(model: MomentsGlm, observed: Observed, settings: Settings) -> Found:
    """Draws of the unknowns given what was observed, in the units of the columns, and how far to trust them."""
    problem = seen_problem(model, observed)
    fit = sample(
        problem,
        settings.rng,
        chains=settings.chains,
        draws=settings.draws,
        warmup=settings.warmup,
        progress=settings.report,
        by=None if settings.method == AUTO else settings.method,
    )
    warnings, notes = remarks(model, problem, observed, fit, settings.seed)
    verdict = Verdict(fit.evidence, notes=notes, warnings=(*observed.warnings, *warnings))
    fit = replace(fit, theta=fit.theta[..., : len(model.features) + 1])  # what holders saw besides has no coefficient
    return Found(
        draws=columns_draws(model, observed, problem, fit),
        method=fit.method,
        how=fit.how,
        law=law_in_words(model, problem),
        verdict=verdict,
        energy=fit.energy,
    )


def remarks(
    model: MomentsGlm, problem: GlmProblem, observed: Observed, fit: GlmFit, seed: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is to be said before and after the numbers of a fit."""
    notes = (
        *assumptions(model, problem),
        *few_clamped(problem, fit),
        *undeclared(model.link, model.response),
        *fit.notes,
    )
    warnings = (
        *collinear_caution(model, observed),
        *wide_cells(model.covariates, observed, fit.share),
        *_warnings(seed, problem, fit),
        *_contradictions(model, problem, observed, fit),
    )
    return warnings, notes


def _contradictions(model: MomentsGlm, problem: GlmProblem, observed: Observed, fit: GlmFit) -> list[str]:
    """What is to be said where the released sums are not as the fitted model has them."""
    fit = replace(fit, theta=fit.theta[..., : len(model.features) + 1])
    found = misfit(model, observed, columns_draws(model, observed, problem, fit))
    if found is None or not found.is_felt:
        return []
    counts = "counts scatter more than Poisson counts do, " if model.link.is_count else ""
    return [
        f"The released sums contradict the fitted model or its prior (a distance of {found.distance:.3g}, which would "
        f"exceed {found.bound:.3g} once in a hundred times): {counts}coefficients are larger than the prior believes, "
        "or the features follow another law. Intervals may miss."
    ]


def problem_of(model: MomentsGlm, observed: Observed) -> GlmProblem:
    """Priors and observations in common units."""
    check_rows(model, observed)
    check_response(model.link, model.response, model.features, observed.schemas)
    units = feature_units(observed.units)
    made = observed_combinations(model.covariates, observed)
    holders = [_whole(holder, observed, units, intercept=model.intercept) for holder in observed.holders]
    caps = [response_cap(model.link, _natural_high(holder), clamps=holder.clamps) for holder in holders]
    prior = coefficient_belief(
        coefficient_moments(model.coefficients, model.names),
        is_learned=model.coefficients == LEARNED,
        intercept=model.intercept,
        observed=observed,
        widths=default_widths(model.features, observed, made, model.link),
        link=model.link,
        cap=largest_count(caps),
    )
    return GlmProblem(
        model.link,
        tuple(holders),
        tuple(caps),
        prior,
        working_law(model.covariates, made, observed, intercept=model.intercept),
        units,
    )


def seen_problem(model: MomentsGlm, observed: Observed) -> GlmProblem:
    """The same with what holders saw of the features, where that is not what the response follows, and what counted."""
    return completed(model.covariates, problem_of(model, observed), observed)


def check_rows(model: MomentsGlm, observed: Observed) -> None:
    """Refuse rows of which no law is known here."""
    kind = type(model).__name__
    if any(holder.shrink is not None for holder in observed.holders):
        raise Unsupported(
            f"Rows were shortened (shrink=), after which the response is no longer what {kind} describes: no law of "
            "such rows is known here. Release Moments without shrink=, with a centre and scale for the numbers."
        )
    if any(holder.block > 1 for holder in observed.holders):
        raise Unsupported(
            f"Rows were averaged (average=), and of averages {kind} has no law. Release Moments without average=."
        )


def _whole(holder: Holder, observed: Observed, units: Units, *, intercept: bool) -> Holder:
    """The holder with rows P (1, v, y), y in the units of its column."""
    first = units.row_map(replace(observed.units, intercept=True))
    own = np.eye(len(first))
    own[int(not intercept) :, int(not intercept) :] = holder.map
    return whole_rows(holder, own @ first, intercept=intercept)


def _natural_high(holder: Holder) -> float:
    """The response's upper bound in the units of its column."""
    return float((holder.high[-1] - holder.map[-1, 0]) / holder.map[-1, -1])


def columns_draws(model: MomentsGlm, observed: Observed, problem: GlmProblem, fit: GlmFit) -> dict[str, Floats]:
    """The draws by name, in the units of the columns."""
    draws = columns_coefficients(model, observed, fit.theta)
    return draws | natural_draws(problem.covariates, fit.share, fit.means, fit.factor)


def columns_coefficients(model: MomentsGlm, observed: Observed, theta: Floats) -> dict[str, Floats]:
    """The coefficients theta (..., d + 1) by name, in the units of the columns."""
    units = observed.units
    slopes = theta[..., 1:] * units.factor[:-1]
    draws = {INTERCEPT: theta[..., 0] - slopes @ units.centre[:-1]} if model.intercept else {}
    return draws | {str(feature): slopes[..., i] for i, feature in enumerate(model.features)}


def _warnings(seed: int, problem: GlmProblem, fit: GlmFit) -> list[str]:
    """What stands before every number."""
    said, clamped = [], clamped_share(problem, fit)
    if clamped.is_felt:
        what = "were clamped" if clamped.clamps else "would have been refused"
        said.append(
            f"By the fitted model {100 * clamped.share:.2g} % of rows have a number beyond its bounds and {what}, "
            "which is not modelled: coefficients may be biased. Release with wider bounds, and a centre and scale, or "
            "state the populations of numbers (covariates={...}), by which clamping is modelled."
        )
    of_sums = replace(problem, holders=tuple(without_cells(holder, problem) for holder in problem.holders))
    skew = skewness(np.random.default_rng([seed, SKEW_STREAM]), of_sums, fit)
    if skew > SKEWNESS_LIMIT:
        said.append(
            f"The noisy sums are taken to be normal and are not (skewness {skew:.2g}): with so few rows, or so few of "
            "a kind, and so little noise intervals may be too narrow."
        )
    return said
