"""What a generalized linear model assumes, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noisewise.regression.glm import covariates
from noisewise.regression.glm.problem import GlmProblem

if TYPE_CHECKING:
    from noisewise.regression.glm.model import MomentsGlm

__all__ = ["assumptions", "law_in_words"]


def law_in_words(model: MomentsGlm, problem: GlmProblem) -> str:
    """Holders, response, covariates and priors: one sentence without its full stop."""
    holders = len(problem.holders)
    rows = sum(holder.n for holder in problem.holders)
    parts = [f"noisy moments of {rows} rows from {holders} holder{'s' if holders > 1 else ''}"]
    if problem.link.is_count:
        caps = sorted({f"{cap.cap:.0f}" for cap in problem.caps}, key=float)
        kept = "kept up to" if all(cap.is_kept for cap in problem.caps) else "clamped at"
        parts.append(f"Poisson counts {kept} {' or '.join(caps)}")
    else:
        parts.append(f"{problem.link.name} response")
    parts.append(covariates.law_in_words(model.covariates, problem.covariates, problem.link.name)[0])
    if problem.prior.is_learned:
        parts.append("coefficients with a common, learned prior scale")
    elif model.coefficients is None:
        width = f"{problem.link.width:g}"
        parts.append(f"coefficients N(0, ({width} / sd of feature)^2) by default, from public numbers")
    return ", ".join(parts)


def assumptions(model: MomentsGlm, problem: GlmProblem) -> list[str]:
    """Which law of the features was used and what it cannot test; which parts nobody released."""
    said = [covariates.law_in_words(model.covariates, problem.covariates, problem.link.name)[1]]
    if not model.intercept and model.covariates is None and problem.covariates.numbers:
        said.append(
            "Without the sums of an intercept nothing tells where numbers lie: near the release's centre, by "
            "assumption."
        )
    last = problem.d + 1
    seen = {count for holder in problem.holders for count in (holder.pairs == last).sum(axis=1).tolist()}
    if 1 not in seen:
        said.append("X'y was not released: the coefficients are not identified and follow their prior.")
    if 0 not in seen:
        said.append("X'X was not released: the coefficients are no better known than the spread of the covariates.")
    if any(holder.eigenvalue is not None for holder in problem.holders):
        said.append("The smallest eigenvalue is not used.")
    return said
