"""How many rows were clamped or shortened before they were summed, as the fitted model predicts it.

No release says how many records met their bounds; the posterior predictive share
    P(some entry of (x, y) outside its bounds),   P(|(x, y)| > R after clamping)
at draws of (theta, sigma^2, mu, Sigma) does. It is where normal covariates are most likely to mislead.

What counts is rows, n times the share, and what the posterior is sure of: a combination of yes/no features with hardly
anybody in it has a coefficient that follows its prior, and some draws of it throw every such row beyond the bounds. So
with yes/no features the share is computed draw by draw, in closed form within each combination c,
    share = sum_c P(c) min(1, sum_i P(entry i of (x, y) outside its bounds | c)),
and clamping is sure where nine in ten draws have one row in a hundred, and one row at all. Likewise the skewness of the
noisy sums is that of rows at one draw, the median over some draws, never that of rows of all draws together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewise.regression import location
from noisewise.regression.problem import Fit, Floats, Holder, LocationX, Problem

NOTICEABLE, FELT = 1e-3, 1e-2
DOUBT = 0.1  # of the draws may have fewer covariates beyond their bounds
ROWS = 20_000
MOST_DRAWS = 400  # at which the share is computed draw by draw
SKEW_DRAWS, SKEW_ROWS = 9, 10_000
POINTLIKE = 1e-9  # of an entry's range: an sd below it is that of a number that a combination fixes


@dataclass(frozen=True, slots=True)
class CleanedShare:
    """The predictive probability that a row was clamped, and that it was shortened; of the worst holder."""

    clamped: float
    shortened: float
    clamps: bool  # False where records outside the bounds were refused instead
    covariates: float = 0.0  # how often a covariate was clamped at least, as nine in ten draws have it
    rows: float = np.inf  # of that holder
    is_sure: bool = False  # nine in ten draws of a model with yes/no features have so many rows clamped

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
        if self.clamped > NOTICEABLE and self.rows * self.clamped >= 1:
            done.append(f"{100 * self.clamped:.2g} % of rows were {'clamped' if self.clamps else 'out of bounds'}")
        if self.shortened > NOTICEABLE and self.rows * self.shortened >= 1:
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
        shares.append((float(outside.mean()), shortened, holder.clamps, holder.n * holder.block))
    clamped, shortened, clamps, n = max(shares, key=lambda share: share[0] + share[1])
    return CleanedShare(
        clamped,
        shortened,
        clamps,
        max(_clamped_covariates(problem, holder, fit) for holder in problem.holders),
        rows=n,
        is_sure=any(_is_surely_clamped(problem, holder, fit) for holder in problem.holders),
    )


def _is_surely_clamped(problem: Problem, holder: Holder, fit: Fit) -> bool:
    """Whether nine in ten draws of a model with yes/no features have one row in a hundred clamped, and one at all."""
    if not holder.clamps or not isinstance(problem.covariates, LocationX):
        return False
    share = float(np.quantile(clamped_shares(problem.covariates, problem, holder, fit), DOUBT))
    return share > FELT and holder.n * share >= 1


def clamped_shares(x: LocationX, problem: Problem, holder: Holder, fit: Fit) -> Floats:
    """At some draws, the probability that a row of the holder was clamped; closed within each combination."""
    from scipy.special import ndtr

    assert fit.variance is not None
    chains, draws = fit.variance.shape
    some = np.unique(np.linspace(0, chains * draws - 1, min(MOST_DRAWS, chains * draws)).round().astype(int))
    chain, draw = some // draws, some % draws
    latent = {name: value[chain, draw] for name, value in fit.latent.items()}
    theta, variance = fit.theta[chain, draw], fit.variance[chain, draw]
    share = latent[location.CONFIGURATION_SHARE]
    middle = np.broadcast_to(x.offset, (len(some), *x.offset.shape))
    scatter = np.zeros((*middle.shape, x.numbers))
    if x.numbers:
        middle = middle + np.einsum("cik,nck->nci", x.slope, (latent[location.NUMBER_MEAN] - x.centre) / x.spread)
        root = np.linalg.cholesky(latent[location.NUMBER_COVARIANCE]) / x.spread[:, None]
        scatter = np.einsum("cik,nkl->ncil", x.slope, root)
    o = int(problem.intercept)
    known = np.concatenate([np.ones((*middle.shape[:2], o)), middle], axis=2)
    row = np.concatenate([known, np.einsum("nci,ni->nc", known, theta)[..., None]], axis=2)
    moved = np.concatenate([scatter, np.einsum("ncil,ni->ncl", scatter, theta[:, o:])[:, :, None]], axis=2)
    own = (row @ holder.map.T)[..., o:]
    sd = np.einsum("ij,ncjl->ncil", holder.map[o:, o:], moved)
    sd = np.sqrt(np.square(sd).sum(axis=3) + holder.map[o:, -1] ** 2 * variance[:, None, None])
    varies = sd > POINTLIKE * (holder.high - holder.low)
    sd = np.where(varies, sd, 1.0)
    outside = np.where(varies, ndtr((holder.low - own) / sd) + ndtr((own - holder.high) / sd), 0.0)
    return np.asarray(np.sum(share * np.minimum(1.0, outside.sum(axis=2)), axis=1))


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


def predictive_rows(
    rng: np.random.Generator, problem: Problem, fit: Fit, count: int, at: tuple[int, int] | None = None
) -> Floats:
    """`count` rows w = ([1,] x, y) in working units, each at a draw of the fit, or all at one (chain, draw)."""
    assert fit.covariance_x is not None
    assert fit.variance is not None
    chains, draws = fit.variance.shape
    if at is None:
        chain, draw = rng.integers(0, chains, count), rng.integers(0, draws, count)
    else:
        chain, draw = np.full(count, at[0]), np.full(count, at[1])
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
    """The largest skewness of a noisy sum, n mu_3/(n mu_2 + noise variance)^(3/2), as half of some draws have it."""
    assert fit.variance is not None
    chains, draws = fit.variance.shape
    places = np.linspace(0, chains * draws - 1, min(SKEW_DRAWS, chains * draws)).round().astype(int).tolist()
    return float(np.median([_skewness_at(rng, problem, fit, divmod(place, draws)) for place in places]))


def _skewness_at(rng: np.random.Generator, problem: Problem, fit: Fit, at: tuple[int, int]) -> float:
    rows, worst = predictive_rows(rng, problem, fit, SKEW_ROWS, at), 0.0
    for holder in problem.holders:
        own = rows @ holder.map.T
        products = own[:, holder.pairs[:, 0]] * own[:, holder.pairs[:, 1]]
        away = products - products.mean(axis=0)
        spread = holder.n * np.square(away).mean(axis=0) + holder.variance
        worst = max(worst, float(np.max(np.abs(holder.n * (away**3).mean(axis=0)) / spread**1.5)))
    return worst
