"""What a regression assumes, in words."""

from __future__ import annotations

from fractions import Fraction

from noisewise.errors import Unsupported
from noisewise.regression.configurations import Configurations, has_conditions
from noisewise.regression.observed import Observed
from noisewise.regression.priors import NOISE_SHAPE, NOISE_SHARE, GivenMoments
from noisewise.regression.problem import LocationX, NormalX, Problem
from noisewise.regression.subject import LinearMoments, MomentsRegression


def law_in_words(model: LinearMoments, problem: Problem) -> str:
    """Holders, covariates and priors: one sentence without its full stop."""
    holders = len(problem.holders)
    rows = sum(holder.n * holder.block for holder in problem.holders)
    parts = [f"noisy moments of {rows} rows from {holders} holder{'s' if holders > 1 else ''}"]
    if isinstance(problem.covariates, NormalX):
        weak = " with a weak prior from public numbers" if model.covariates is None else ""
        parts.append(f"normal covariates{weak}")
    elif isinstance(problem.covariates, LocationX):
        numbers = ", numbers normal within each" if problem.covariates.numbers else ""
        parts.append(f"{problem.covariates.configurations} combinations of yes/no features{numbers}, with weak priors")
    else:
        parts.append("covariates by their moments, as " + ("released" if model.covariates == "released" else "given"))
    if model.coefficients is None and model.prior is None:
        parts.append("coefficients N(0, (2.5 sd of response / sd of feature)^2) by default, from public numbers")
    elif problem.prior.is_learned:
        parts.append("coefficients with a common, learned prior scale")
    if model.noise is None and model.prior is None:
        shape, share = (Fraction(number).limit_denominator() for number in (NOISE_SHAPE, NOISE_SHARE))
        parts.append(f"noise variance InverseGamma({shape}, response variance / {1 / share}) by default")
    return ", ".join(parts)


def unseen_parts(problem: Problem) -> list[str]:
    """What is to be said where no holder released X'X, X'y or y'y."""
    last = problem.m - 1
    responses = {count for holder in problem.holders for count in (holder.pairs == last).sum(axis=1).tolist()}
    said = []
    if 1 not in responses:
        said.append("X'y was not released: the coefficients are not identified and follow their prior.")
    elif 0 not in responses:
        said.append("X'X was not released: the coefficients are not identified without what is believed about the "
                    "covariates.")  # fmt: skip
    if 2 not in responses and len(problem.holders) == 1:
        said.append("y'y was not released: with one holder the noise variance is not identified and follows its prior.")
    elif 2 not in responses:
        said.append("y'y was not released: the noise variance is known only from how the holders differ.")
    return said


def conditions_in_words(model: LinearMoments) -> str:
    """The features that hold a yes/no condition, by name."""
    names = [str(feature) for feature in model.conditions]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def taken_for_normal(model: LinearMoments, method: str) -> str:
    """What is to be said first where a method takes yes/no features for normal numbers."""
    one = len(model.conditions) == 1
    return (
        f"{conditions_in_words(model)} {'is a yes/no feature' if one else 'are yes/no features'}, never normal, but "
        f"method {method!r} takes {'it' if one else 'them'} for normal here: slopes and their intervals are not to be "
        "trusted. Use method 'auto' without covariates=, or give GivenMoments(...)."
    )


def response_caution(model: LinearMoments) -> list[str]:
    """What is to be said first of a response that no normal scatter describes."""
    if not has_conditions(model.response):
        return []
    return [
        f"The response {model.response} holds a yes/no condition, so its scatter about a line is not normal, nor of "
        "one size. Read slopes as differences of shares, their intervals as approximate, and leave the noise variance "
        "and the intervals of single predictions alone."
    ]


def collinear_caution(model: MomentsRegression, observed: Observed) -> list[str]:
    """What is to be said first of features of which one is a linear combination of others."""
    try:
        made = Configurations.of(model.features, observed.schemas)
    except Unsupported:
        return []
    said = []
    for group in made.dependences(intercept=model.intercept):
        names = [str(model.features[i]) for i in group if i >= 0]
        named = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        if group[0] >= 0:
            what, learnt = "are linear combinations of each other", "only what they make together is learnt"
        elif len(names) > 1:
            what = "add up to a constant, as the intercept is"
            learnt = "only the differences of their coefficients, and each with the intercept, are learnt"
        else:
            what, learnt = "is a constant, as the intercept is", "only its sum with the intercept is learnt"
        said.append(
            f"{named} {what}: {learnt}, and each coefficient alone follows its prior. Leave out one of them"
            f"{' or the intercept' if group[0] < 0 else ''}."
        )
    return said


def require_location_model(model: LinearMoments, observed: Observed) -> None:
    """Refuse yes/no features where nothing that is right for them can be done."""
    if not model.conditions or isinstance(model.covariates, GivenMoments | str):
        return
    names, way_out = conditions_in_words(model), "give covariates=GivenMoments(...), the moments of a public sample"
    anyway = "A method that is named is run all the same, and its verdict warns."
    if model.covariates is not None:
        raise Unsupported(
            f"NormalCovariates says that every feature is normal, but {names} holds a yes/no condition and never is. "
            f"Leave out covariates=, and its shares are learned; or {way_out}. {anyway}"
        )
    if any(holder.shrink is not None for holder in observed.holders):
        raise Unsupported(
            f"Rows with {names} were shortened (shrink=), after which a yes/no feature is no longer 0 or 1: no law of "
            "such rows is known here. Release Moments without shrink=, with a centre and scale for the numbers. "
            f"{anyway}"
        )
    if any(holder.block > 1 for holder in observed.holders):
        raise Unsupported(
            f"Rows with {names} were averaged (average=), and averaged rows with yes/no features are not modelled. "
            f"Release Moments without average=, or {way_out}. {anyway}"
        )
