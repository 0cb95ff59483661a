"""How many rows were clamped or shortened before they were summed, as the fitted model predicts it.

No release says how many records met their bounds; the posterior predictive share
    P(some entry of (x, y) outside its bounds),   P(|(x, y)| > R after clamping)
at draws of (theta, sigma^2, mu, Sigma) does. It is where normal covariates are most likely to mislead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewise.regression import location
from noisewise.regression.problem import Fit, Floats, Holder, LocationX, Problem

NOTICEABLE, FELT = 1e-3, 1e-2
DOUBT = 0.1  # of the draws may have fewer covariates beyond their bounds
ROWS = 20_000


@dataclass(frozen=True, slots=True)
class CleanedShare:
    """The predictive probability that a row was clamped, and that it was shortened; of the worst holder."""

    clamped: float
    shortened: float
    clamps: bool  # False where records outside the bounds were refused instead
    covariates: float = 0.0  # how often a covariate was clamped at least, as nine in ten draws have it

    @property
    def is_felt(self) -> bool:
        """True where so many rows were clamped that a law without clamping misleads more than a normal one."""
        return self.clamps and self.clamped > FELT

    @property
    def is_doubtful(self) -> bool:
        """True where so many covariates meet their bounds by a normal law that the law itself is in doubt."""
        return self.covariates > FELT

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
    return CleanedShare(*worst, max(_clamped_covariates(problem, holder, fit) for holder in problem.holders))


def _clamped_covariates(problem: Problem, holder: Holder, fit: Fit) -> float:
    """The probability that the most clamped covariate of a holder was, exceeded by nine in ten draws of the fit."""
    from scipy.special import ndtr

    if not holder.clamps:
        return 0.0
    assert fit.covariance_x is not None
    o, d = int(problem.intercept), problem.d
    covariance = fit.covariance_x.reshape(-1, d, d)
    mean = np.zeros((len(covariance), d)) if fit.mean_x is None else fit.mean_x.reshape(-1, d)
    own = holder.map[o:-1, o:-1]
    middle = mean @ own.T + (holder.map[o:-1, 0] if o else 0.0)
    sd = np.sqrt(np.einsum("ij,njk,ik->ni", own, covariance, own))
    outside = ndtr((holder.low[:-1] - middle) / sd) + ndtr((middle - holder.high[:-1]) / sd)
    return float(np.quantile(outside.max(axis=1), DOUBT))


def predictive_rows(rng: np.random.Generator, problem: Problem, fit: Fit, count: int) -> Floats:
    """`count` rows w = ([1,] x, y) in working units, each at a draw of the fit."""
    assert fit.covariance_x is not None
    assert fit.variance is not None
    chains, draws = fit.variance.shape
    chain, draw = rng.integers(0, chains, count), rng.integers(0, draws, count)
    if isinstance(problem.covariates, LocationX):
        some = {name: value[chain, draw] for name, value in fit.latent.items()}
        x = location.draw_covariates(rng, problem.covariates, some)
    else:
        root = np.linalg.cholesky(fit.covariance_x[chain, draw])
        x = np.einsum("kij,kj->ki", root, rng.standard_normal((count, problem.d)))
        if fit.mean_x is not None:
            x = x + fit.mean_x[chain, draw]
    known = np.column_stack([np.ones(count), x]) if problem.intercept else x
    noise = np.sqrt(fit.variance[chain, draw]) * rng.standard_normal(count)
    y = np.einsum("kj,kj->k", known, fit.theta[chain, draw]) + noise
    return np.column_stack([known, y])


def predictive_skewness(rng: np.random.Generator, problem: Problem, fit: Fit) -> float:
    """The largest skewness of a noisy sum, n mu_3/(n mu_2 + noise variance)^(3/2), by rows of the fitted model."""
    rows, worst = predictive_rows(rng, problem, fit, ROWS), 0.0
    for holder in problem.holders:
        own = rows @ holder.map.T
        products = own[:, holder.pairs[:, 0]] * own[:, holder.pairs[:, 1]]
        away = products - products.mean(axis=0)
        spread = holder.n * np.square(away).mean(axis=0) + holder.variance
        worst = max(worst, float(np.max(np.abs(holder.n * (away**3).mean(axis=0)) / spread**1.5)))
    return worst
