"""How many rows were clamped or shortened before they were summed, as the fitted model predicts it.

No release says how many records met their bounds; the posterior predictive share
    P(some entry of (x, y) outside its bounds),   P(|(x, y)| > R after clamping)
at draws of (theta, sigma^2, mu, Sigma) does. It is where normal covariates are most likely to mislead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewise.regression.problem import Fit, Floats, Problem

NOTICEABLE, FELT = 1e-3, 1e-2
ROWS = 20_000


@dataclass(frozen=True, slots=True)
class CleanedShare:
    """The predictive probability that a row was clamped, and that it was shortened; of the worst holder."""

    clamped: float
    shortened: float
    clamps: bool  # False where records outside the bounds were refused instead

    @property
    def is_felt(self) -> bool:
        """True where so many rows were clamped that a law without clamping misleads more than a normal one."""
        return self.clamps and self.clamped > FELT

    def sentences(self) -> list[str]:
        """What is to be said of a method that leaves cleaning out of its law; nothing where hardly any row was."""
        done = []
        if self.clamped > NOTICEABLE:
            done.append(f"{100 * self.clamped:.2g} % of rows were {'clamped' if self.clamps else 'out of bounds'}")
        if self.shortened > NOTICEABLE:
            done.append(f"{100 * self.shortened:.2g} % of rows were shortened")
        if not done:
            return []
        return [f"By the fitted model {' and '.join(done)}, which this method ignores: coefficients may be biased."]


def cleaned_share(rng: np.random.Generator, problem: Problem, fit: Fit) -> CleanedShare | None:
    """The shares at draws of the fit, or None where the method has no law of the covariates."""
    if fit.covariance_x is None or fit.variance is None or fit.is_point:
        return None
    rows = predictive_rows(rng, problem, fit, ROWS)
    shares = []
    for holder in problem.holders:
        own = (rows @ holder.map.T)[:, int(problem.intercept) :]
        outside = np.any((own < holder.low) | (own > holder.high), axis=1)
        length = np.linalg.norm(np.clip(own, holder.low, holder.high), axis=1)
        shortened = 0.0 if holder.shrink is None else float(np.mean(length > holder.shrink))
        shares.append((float(outside.mean()), shortened, holder.clamps))
    worst = max(shares, key=lambda share: share[0] + share[1])
    return CleanedShare(*worst)


def predictive_rows(rng: np.random.Generator, problem: Problem, fit: Fit, count: int) -> Floats:
    """`count` rows w = ([1,] x, y) in working units, each at a draw of the fit."""
    assert fit.covariance_x is not None
    assert fit.variance is not None
    chains, draws = fit.variance.shape
    chain, draw = rng.integers(0, chains, count), rng.integers(0, draws, count)
    root = np.linalg.cholesky(fit.covariance_x[chain, draw])
    x = np.einsum("kij,kj->ki", root, rng.standard_normal((count, problem.d)))
    if fit.mean_x is not None:
        x = x + fit.mean_x[chain, draw]
    known = np.column_stack([np.ones(count), x]) if problem.intercept else x
    noise = np.sqrt(fit.variance[chain, draw]) * rng.standard_normal(count)
    y = np.einsum("kj,kj->k", known, fit.theta[chain, draw]) + noise
    return np.column_stack([known, y])
