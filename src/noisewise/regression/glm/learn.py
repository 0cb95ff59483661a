"""From releases to the posterior of a generalized linear model: build the problem, draw, say what it is worth."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from noisewise.errors import Unsupported
from noisewise.inference.methods import AUTO, Found, Method, Methods
from noisewise.inference.settings import Settings
from noisewise.inference.verdict import Verdict
from noisewise.regression.glm.covariates import working_law
from noisewise.regression.glm.fitness import clamped_share, skewness
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

SKEW_STREAM, FELT = 5, 0.01
METHODS: Methods[Method] = Methods(
    "a generalized linear model",
    Method(WEIGHTS, lambda: sample, "independent draws by importance sampling"),
    Method(CHAINS, lambda: sample, "Hamiltonian Monte Carlo"),
    instead=WEIGHTS,
)


def learn(model: MomentsGlm, observed: Observed, settings: Settings) -> Found:
    """Draws of the unknowns given what was observed, in the units of the columns, and how far to trust them."""
    problem = problem_of(model, observed)
    fit = sample(
        problem,
        settings.rng,
        chains=settings.chains,
        draws=settings.draws,
        warmup=settings.warmup,
        progress=settings.report,
        by=None if settings.method == AUTO else settings.method,
    )
    verdict = Verdict(
        fit.evidence,
        notes=(*assumptions(model, problem), *undeclared(model.link, model.response), *fit.notes),
        warnings=(*observed.warnings, *collinear_caution(model, observed), *_warnings(settings.seed, problem, fit)),
    )
    return Found(
        draws=columns_draws(model, observed, problem, fit),
        method=fit.method,
        how=fit.how,
        law=law_in_words(model, problem),
        verdict=verdict,
        energy=fit.energy,
    )


def problem_of(model: MomentsGlm, observed: Observed) -> GlmProblem:
    """Priors and observations in common units."""
    check_rows(model, observed)
    check_response(model.link, model.response, model.features, observed.schemas)
    units = feature_units(observed.units)
    made = model.configurations(observed.schemas)
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
    units = observed.units
    slopes = fit.theta[..., 1:] * units.factor[:-1]
    draws = {INTERCEPT: fit.theta[..., 0] - slopes @ units.centre[:-1]} if model.intercept else {}
    draws |= {str(feature): slopes[..., i] for i, feature in enumerate(model.features)}
    return draws | natural_draws(problem.covariates, fit.share, fit.means, fit.factor)


def _warnings(seed: int, problem: GlmProblem, fit: GlmFit) -> list[str]:
    """What stands before every number."""
    said, clamped = [], clamped_share(problem, fit)
    if clamped.rows * clamped.share > 1 and clamped.share > FELT:
        what = "were clamped" if clamped.clamps else "would have been refused"
        said.append(
            f"By the fitted model {100 * clamped.share:.2g} % of rows have a number beyond its bounds and {what}, "
            "which is not modelled: coefficients may be biased. Release with wider bounds, and a centre and scale."
        )
    skew = skewness(np.random.default_rng([seed, SKEW_STREAM]), problem, fit)
    if skew > SKEWNESS_LIMIT:
        said.append(
            f"The noisy sums are taken to be normal and are not (skewness {skew:.2g}): with so few rows, or so few of "
            "a kind, and so little noise intervals may be too narrow."
        )
    return said
