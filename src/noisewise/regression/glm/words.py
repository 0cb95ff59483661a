"""What a generalized linear model assumes, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noisewise.regression.glm.problem import GlmProblem

if TYPE_CHECKING:
    from noisewise.regression.glm.model import MomentsGlm


def law_in_words(model: MomentsGlm, problem: GlmProblem) -> str:
    """Holders, response, covariates and priors: one sentence without its full stop."""
    holders, x = len(problem.holders), problem.covariates
    rows = sum(holder.n for holder in problem.holders)
    parts = [f"noisy moments of {rows} rows from {holders} holder{'s' if holders > 1 else ''}"]
    if problem.link.is_count:
        caps = sorted({f"{cap.cap:.0f}" for cap in problem.caps}, key=float)
        kept = "kept up to" if all(cap.is_kept for cap in problem.caps) else "clamped at"
        parts.append(f"Poisson counts {kept} {' or '.join(caps)}")
    else:
        parts.append(f"{problem.link.name} response")
    if x.configurations > 1:
        numbers = ", numbers normal within each" if x.numbers else ""
        parts.append(f"{x.configurations} combinations of yes/no features{numbers}, with weak priors")
    else:
        parts.append(f"normal covariates{' with a weak prior from public numbers' if model.covariates is None else ''}")
    if problem.prior.is_learned:
        parts.append("coefficients with a common, learned prior scale")
    elif model.coefficients is None:
        width = f"{problem.link.width:g}"
        parts.append(f"coefficients N(0, ({width} / sd of feature)^2) by default, from public numbers")
    return ", ".join(parts)


def law_of_covariates(problem: GlmProblem) -> str:
    """Which law of the features was used, and what it cannot test."""
    x, name = problem.covariates, problem.link.name
    if not x.numbers:
        return f"Features are yes/no: the shares of {x.configurations} combinations are learnt with the coefficients."
    what = "Numbers among the features are" if x.configurations > 1 else "Covariates are"
    within = f" within each of {x.configurations} combinations of yes/no features" if x.configurations > 1 else ""
    return (
        f"{what} taken to be normal{within}. Moments alone cannot test that, and a {name} regression leans on it: "
        "where they are skew, or end at their bounds, intervals are too narrow. The logarithm of a skew number may be "
        "near normal, and can be a feature."
    )


def unseen_parts(problem: GlmProblem) -> list[str]:
    """What is to be said where no holder released X'X, X'y or y'y."""
    last = problem.d + 1
    seen = {count for holder in problem.holders for count in (holder.pairs == last).sum(axis=1).tolist()}
    said = []
    if 1 not in seen:
        said.append("X'y was not released: the coefficients are not identified and follow their prior.")
    if 0 not in seen:
        said.append("X'X was not released: the coefficients are no better known than the spread of the covariates.")
    return said
