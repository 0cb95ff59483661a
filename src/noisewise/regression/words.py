"""What a regression assumes, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noisewise.regression.problem import NormalX, Problem

if TYPE_CHECKING:
    from noisewise.regression.model import LinearRegression


def law_in_words(model: LinearRegression, problem: Problem) -> str:
    """Holders, covariates and priors: one sentence without its full stop."""
    holders = len(problem.holders)
    rows = sum(holder.n * holder.block for holder in problem.holders)
    parts = [f"noisy moments of {rows} rows from {holders} holder{'s' if holders > 1 else ''}"]
    if isinstance(problem.covariates, NormalX):
        weak = " with a weak prior from public numbers" if model.covariates is None else ""
        parts.append(f"normal covariates{weak}")
    else:
        parts.append("covariates by their moments, as " + ("released" if model.covariates == "released" else "given"))
    if model.coefficients is None and model.prior is None:
        parts.append("coefficients N(0, (2.5 sd of response / sd of feature)^2) by default, from public numbers")
    elif problem.prior.is_learned:
        parts.append("coefficients with a common, learned prior scale")
    if model.noise is None and model.prior is None:
        parts.append("noise variance InverseGamma(1, response variance / 20) by default")
    return ", ".join(parts)


def unseen_response(problem: Problem) -> list[str]:
    """What is to be said where no holder released y'y."""
    last = problem.m - 1
    has_response = any(((holder.pairs == last).all(axis=1)).any() for holder in problem.holders)
    if has_response:
        return []
    if len(problem.holders) == 1:
        return ["y'y was not released: with one holder the noise variance is not identified and follows its prior."]
    return ["y'y was not released: the noise variance is known only from how the holders differ."]
