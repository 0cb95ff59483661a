"""Rows of a release under a generalized linear model at known parameters, and what is known of their law.

    f = a(c) + D(c) z,   z | c ~ N(mean(c), covariance),   s = beta_0 + beta' f,   y by the link
A row of the release is v = k ((f, y) - centre). M and C of products of a row are those of row_moments.py, mixed over
the combinations c. Rows drawn one by one are cleaned as the holder cleans them; in M and C only counts are, which are
clamped or refused at their bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewise.errors import Unsupported
from noisewise.regression.configurations import Configurations
from noisewise.regression.glm.density import Shared, mixed_moments
from noisewise.regression.glm.links import Link
from noisewise.regression.glm.problem import Cap, shared_arrays
from noisewise.regression.glm.row_moments import row_scratch
from noisewise.regression.location import CONFIGURATION_SHARE, NUMBER_COVARIANCE, NUMBER_MEAN, draw_configurations
from noisewise.regression.location_rows import bounded_rows
from noisewise.regression.units import Units
from noisewise.types import Floats, Integers, Theta


@dataclass(frozen=True, slots=True, eq=False)
class GlmRows:
    """The law of a release's rows at K parameter values, in the units of the columns until `units` are applied."""

    link: Link
    share: Floats  # (K, C)
    mean: Floats  # (K, C, d): of the features
    factor: Floats  # (K, C, d, k)
    theta: Floats  # (K, d + 1): beta_0 first
    units: Units  # of the release's rows
    low: Floats  # (d + 1,), in those units
    high: Floats
    clamps: bool
    cap: Cap

    def moments(self, pairs: Integers, *, intercept: bool, block: int = 1) -> tuple[Floats, Floats]:
        """M (K, size) and C (K, size, size) of the products of one row's entries w = ([1,] v)."""
        assert block == 1
        count, combinations, d, k = self.factor.shape
        own = pairs if intercept else pairs + 1
        size = len(pairs)
        mapping = Units(np.zeros(d + 1), np.ones(d + 1), True).row_map(
            Units(self.units.centre, self.units.factor, True)
        )
        response = np.array([self.link.code, self.cap.cap, self.cap.is_kept], float)
        shared: Shared = shared_arrays(combinations, d, k, 1, size)
        row, covariance = row_scratch(d, k, size), np.zeros((size, size))
        mean, spread = np.empty((count, size)), np.empty((count, size, size))
        for at in range(count):
            shared.share[:], shared.mean[:], shared.factor[:] = self.share[at], self.mean[at], self.factor[at]
            shared.theta[:] = self.theta[at]
            if not mixed_moments(mapping, own, size, response, shared, row, covariance):
                raise Unsupported("Hardly any row of the fitted model lies within the bounds; it cannot be simulated.")
            mean[at], spread[at] = shared.middle, covariance
        return mean, spread

    def rows(self, rng: np.random.Generator, k: int, count: int) -> Floats:
        """Rows (count, d + 1) of the k-th parameter value; where records outside are refused, drawn again."""
        bounds = (self.low, self.high)
        return bounded_rows(lambda more: self._drawn(rng, k, more), count, bounds, clamps=self.clamps)

    def _drawn(self, rng: np.random.Generator, k: int, count: int) -> Floats:
        which = draw_configurations(rng, np.broadcast_to(self.share[k], (count, self.share.shape[1])))
        z = rng.standard_normal((count, self.factor.shape[-1]))
        f = self.mean[k, which] + np.einsum("nij,nj->ni", self.factor[k, which], z)
        y = self.link.draw(rng, self.theta[k, 0] + f @ self.theta[k, 1:])
        return np.asarray(self.units.factor * (np.column_stack([f, y]) - self.units.centre))


def covariate_arrays(made: Configurations, theta: Theta) -> tuple[Floats, Floats, Floats]:
    """Shares (K, C), means (K, C, d) and factors (K, C, d, k) of the features, at draws of the model."""
    share = np.asarray(theta[CONFIGURATION_SHARE], float)
    if share.shape[1] != made.count:
        raise Unsupported(
            f"These draws know {share.shape[1]} combinations of yes/no features; a release under this schema has "
            f"{made.count}. Holders whose levels differ are not simulated one by one."
        )
    count, d, k = len(share), made.constant.shape[1], len(made.numbers)
    mean = np.array(np.broadcast_to(made.constant, (count, made.count, d)))
    factor = np.zeros((count, made.count, d, k))
    if k:
        mean += np.einsum("cik,nck->nci", made.coefficient, np.asarray(theta[NUMBER_MEAN], float))
        root = np.linalg.cholesky(np.asarray(theta[NUMBER_COVARIANCE], float))
        factor = np.einsum("cik,nkl->ncil", made.coefficient, root)
    return share, mean, factor
