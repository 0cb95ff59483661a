"""What the fitted model says of its own assumptions: numbers beyond their bounds, skew sums, sums that contradict it.

A number beyond its bounds was clamped (or its record refused), which M and C leave out: n times the share counts rows,
computed within each combination by the normal law at draws of the posterior. The skewness of a noisy sum,
n mu_3/(n mu_2 + noise variance)^(3/2), is that of rows at one draw, the median over some draws.

Released sums t and what the model at the posterior mean makes of them differ by D^2 = (t - nM)'(nC + noise)^-1(t - nM),
summed over holders: a chi-square of as many degrees as sums are more than unknowns, where all is as assumed. Beyond its
99 % quantile (1.6 times that with Laplace noise, whose tails are longer) the sums contradict model or prior. Counts
that scatter more than Poisson counts do so; a wrong law of the features, of which moments tell as many numbers as there
are unknowns, does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noisewise.errors import Unsupported
from noisewise.laws import additive_law, normal_mixture
from noisewise.regression.confidential import MomentsLaw
from noisewise.regression.glm.problem import GlmProblem
from noisewise.regression.glm.sampler import GlmFit
from noisewise.regression.location import draw_configurations
from noisewise.regression.marginal import FEWEST_ROWS, SHARE_OF_ROOT
from noisewise.regression.observed import Observed
from noisewise.regression.problem import Holder
from noisewise.types import Floats, Theta

if TYPE_CHECKING:
    from noisewise.regression.glm.model import MomentsGlm

MOST_DRAWS, SURE = 200, 0.1
SKEW_DRAWS, SKEW_ROWS = 9, 10_000
POINTLIKE = 1e-9
CONTRADICTED, LONGER_TAILS = 0.99, 1.6


@dataclass(frozen=True, slots=True)
class ClampedShare:
    """The share of a holder's rows with a number beyond its bounds, that nine in ten draws exceed; rows; clamped?"""

    share: float
    rows: float
    clamps: bool

    @property
    def is_felt(self) -> bool:
        """Whether that is more than one row, and more than the sums' own scatter hides (as for a line)."""
        return self.rows * self.share > max(FEWEST_ROWS, SHARE_OF_ROOT * math.sqrt(self.rows))


def clamped_share(problem: GlmProblem, fit: GlmFit) -> ClampedShare:
    """Of the holder with most of them."""
    means, factors = _features(problem, fit, _some(fit, MOST_DRAWS))
    shares = _flat(fit.share)[_some(fit, MOST_DRAWS)]
    found = [_holder_share(holder, shares, means, factors) for holder in problem.holders]
    return max(found, key=lambda one: one.share * one.rows)


def few_clamped(problem: GlmProblem, fit: GlmFit) -> list[str]:
    """What is to be said where some rows were clamped, but so few that it does not show."""
    found = clamped_share(problem, fit)
    if found.is_felt or found.rows * found.share <= FEWEST_ROWS:
        return []
    return [
        f"By the fitted model about {found.rows * found.share:.0f} of {found.rows:.0f} rows have a number beyond its "
        "bounds, which is not modelled, and too few to matter."
    ]


def _holder_share(holder: Holder, shares: Floats, means: Floats, factors: Floats) -> ClampedShare:
    from scipy.special import ndtr

    own = holder.map[1:-1, 1:-1]
    middle = means @ own.T + holder.map[1:-1, 0]
    sd = np.sqrt(np.square(np.einsum("ij,ncjl->ncil", own, factors)).sum(axis=3))
    low, high = holder.low[:-1], holder.high[:-1]
    varies = (sd > POINTLIKE * (np.abs(middle) + sd)) & np.isfinite(high - low)
    sd = np.where(varies, sd, 1.0)
    outside = np.where(varies, ndtr((low - middle) / sd) + ndtr((middle - high) / sd), 0.0)
    each = np.sum(shares * np.minimum(1.0, outside.sum(axis=2)), axis=1)
    return ClampedShare(float(np.quantile(each, SURE)), holder.n, holder.clamps)


@dataclass(frozen=True, slots=True)
class Misfit:
    """D^2 of released sums from the fitted model, and what it exceeds once in a hundred where all is as assumed."""

    distance: float
    bound: float

    @property
    def is_felt(self) -> bool:
        return self.distance > self.bound


def misfit(model: MomentsGlm, observed: Observed, theta: Theta) -> Misfit | None:
    """At one row of theta; None where the law of rows is not known here, or releases are of the same records."""
    from scipy.special import chdtri

    if len(observed.holders) < len(observed.releases):
        return None
    distance, tails = 0.0, 1.0
    for release, holder in zip(observed.releases, observed.holders, strict=True):
        law = additive_law(release.law)
        try:
            mean, covariance = MomentsLaw(model, release, int(holder.n)).sums(theta)
        except Unsupported:
            return None
        away = np.asarray(release.estimate, float) - mean[0]
        distance += float(away @ np.linalg.solve(covariance[0] + np.diag(np.square(law.sd)), away))
        tails = max(tails, LONGER_TAILS if normal_mixture(law).is_laplace else 1.0)
    told = model.degrees(observed.releases, theta)
    degrees = max(told.told - told.unknowns, 1)
    return Misfit(distance, tails * float(chdtri(degrees, 1 - CONTRADICTED)))


def skewness(rng: np.random.Generator, problem: GlmProblem, fit: GlmFit) -> float:
    """The largest of all noisy sums, as half of some draws have it."""
    places = _some(fit, SKEW_DRAWS)
    means, factors = _features(problem, fit, places)
    shares, theta = _flat(fit.share)[places], _flat(fit.theta)[places]
    found = []
    for k in range(len(places)):
        which = draw_configurations(rng, np.broadcast_to(shares[k], (SKEW_ROWS, shares.shape[1])))
        z = rng.standard_normal((SKEW_ROWS, factors.shape[3]))
        x = means[k, which] + np.einsum("nij,nj->ni", factors[k, which], z)
        y = problem.link.draw(rng, theta[k, 0] + x @ theta[k, 1:])
        found.append(_largest(problem, x, y))
    return float(np.median(found))


def _largest(problem: GlmProblem, x: Floats, y: Floats) -> float:
    worst = 0.0
    for holder, cap in zip(problem.holders, problem.caps, strict=True):
        own = np.column_stack([np.ones(len(x)), x, np.minimum(y, cap.cap)]) @ holder.map.T
        products = own[:, holder.pairs[:, 0]] * own[:, holder.pairs[:, 1]]
        away = products - products.mean(axis=0)
        spread = holder.n * np.square(away).mean(axis=0) + holder.variance
        skew = np.abs(holder.n * (away**3).mean(axis=0)) / spread**1.5
        worst = max(worst, float(np.max(skew, initial=0.0)))
    return worst


def _some(fit: GlmFit, most: int) -> Floats:
    count = fit.theta.shape[0] * fit.theta.shape[1]
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int))


def _flat(values: Floats) -> Floats:
    return values.reshape(values.shape[0] * values.shape[1], *values.shape[2:])  # also where there are no numbers


def _features(problem: GlmProblem, fit: GlmFit, places: Floats) -> tuple[Floats, Floats]:
    """Means (K, C, d) and factors (K, C, d, k) of the features in working units."""
    x = problem.covariates
    means = x.offset + np.einsum("cik,nck->nci", x.slope, _flat(fit.means)[places])
    return means, np.einsum("cik,nkl->ncil", x.slope, _flat(fit.factor)[places])
