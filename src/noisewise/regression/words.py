"""What a regression assumes, in words."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from noisewise.regression.priors import NOISE_SHAPE, NOISE_SHARE
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
