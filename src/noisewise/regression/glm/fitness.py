"""What the fitted model says of its own assumptions: numbers beyond their bounds, skew sums, sums that contradict it.

A number beyond its bounds was clamped (or its record refused), which M and C leave out: n times the share counts rows,
computed within each combination by the normal law at draws of the posterior. The skewness of a noisy sum,
n mu_3/(n mu_2 + noise variance)^(3/2), is that of rows at one draw, the median over some draws.

Released sums t and what the posterior makes of them differ by D^2 = (t - nM)'V^-1(t - nM), V = nC + noise, with M and V
averaged over some draws, summed over holders. Where all is as assumed that is at most a chi-square of as many degrees
as there are sums, less the p that the sums have settled: p = tr V^-1 Cov(nM) over the draws (as in Spiegelhalter et
al. 2002), never more than there are unknowns. Where noise hides nearly everything p is nearly 0, and D^2 that of the
noise. Beyond the 99 % quantile (1.6 times that with Laplace noise, whose tails are longer) the sums contradict model or
prior. Counts that scatter more than Poisson counts do so; a wrong law of the features, of which moments tell as many
numbers as there are unknowns, does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
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
from noisewise.types import Floats

if TYPE_CHECKING:
    from noisewise.regression.glm.model import MomentsGlm

MOST_DRAWS, SURE = 200, 0.1
SKEW_DRAWS, SKEW_ROWS = 9, 10_000
POINTLIKE = 1e-9
CONTRADICTED, LONGER_TAILS, MISFIT_DRAWS = 0.99, 1.6, 32


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


def misfit(model: MomentsGlm, observed: Observed, draws: Mapping[str, Floats]) -> Misfit | None:
    """At draws (chains, draws, ...); None without a law of rows, or where releases are of the same records."""
    from scipy.special import chdtri

    if len(observed.holders) < len(observed.releases):
        return None
    flat = {name: _flat(value) for name, value in draws.items()}
    places = _places(min(len(value) for value in flat.values()), MISFIT_DRAWS)
    theta = {name: value[places] for name, value in flat.items()}
    distance, settled, tails = 0.0, 0.0, 1.0
    for release, holder in zip(observed.releases, observed.holders, strict=True):
        law = additive_law(release.law)
        try:
            means, covariances = MomentsLaw(model, release, int(holder.n)).sums(theta)
        except Unsupported:
            return None
        precision = np.linalg.inv(covariances.mean(axis=0) + np.diag(np.square(law.sd)))
        away, around = np.asarray(release.estimate, float) - means.mean(axis=0), means - means.mean(axis=0)
        distance += float(away @ precision @ away)
        settled += float(np.einsum("ki,ij,kj->", around, precision, around)) / max(len(places) - 1, 1)
        tails = max(tails, LONGER_TAILS if normal_mixture(law).is_laplace else 1.0)
    told = model.degrees(observed.releases, {name: value[:1] for name, value in theta.items()})
    degrees = max(told.told - min(told.unknowns, settled), 1)
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
    return _places(fit.theta.shape[0] * fit.theta.shape[1], most)


def _places(count: int, most: int) -> Floats:
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int))


def _flat(values: Floats) -> Floats:
    return values.reshape(values.shape[0] * values.shape[1], *values.shape[2:])  # also where there are no numbers


def _features(problem: GlmProblem, fit: GlmFit, places: Floats) -> tuple[Floats, Floats]:
    """Means (K, C, d) and factors (K, C, d, k) of the features in working units."""
    x = problem.covariates
    means = x.offset + np.einsum("cik,nck->nci", x.slope, _flat(fit.means)[places])
    return means, np.einsum("cik,nkl->ncil", x.slope, _flat(fit.factor)[places])
