"""The law of one group's published sums, given how many people it has and what one of them is like.

Given n people whose features have mean mu and covariance Sigma (of the cleaned record: clamped or refused), the sums
are U ~ N(n mu, n Sigma), and what was published is U plus noise. Gaussian noise is closed,
    y ~ N(n mu, n Sigma + V);
Laplace noise on one sum is closed, too (`normal_laplace`; several releases of it: `normal_laplaces`), on two sums it is
one quadrature (`normal_laplace_pair`); the Gaussian components are conditioned on first. Log-likelihoods are of the
published whole numbers, so that the branches can be compared:
    n = 0    nothing but noise: the same formulas with no variance
    n = 1    the record itself: sum over the nodes of its law of the noise around its features
    two-valued features (yes/no columns, conditions)  binomial, summed where n p (1 - p) is small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from noisewise.errors import Unsupported
from noisewise.grouped.zoom import log_total
from noisewise.likelihood import normal_laplace, normal_laplace_pair, normal_laplaces
from noisewise.types import Array, Floats, Ints

__all__ = ["Seen", "SumLaw"]

LOG_2PI = float(np.log(2 * np.pi))
MOST_LAPLACE = 2
FEW = 36.0  # n p (1 - p) up to which a binomial is summed: ten standard deviations are 60 on either side
REACH = 62


@dataclass(frozen=True, slots=True)
class Seen:
    """One published component: which feature it sums, the number read, the noise's scale, and its lattice step."""

    feature: int
    value: float
    scale: float
    step: float
    is_laplace: bool

    def log_noise(self, total: Array) -> Floats:
        """log P(published | the sum was `total`)."""
        z = np.abs(self.value - total) / self.scale
        if self.is_laplace:
            return np.asarray(-z - np.log(2 * self.scale / self.step))
        return np.asarray(-0.5 * z * z - np.log(self.scale / self.step) - 0.5 * LOG_2PI)


class SumLaw:
    """p(published sums of one group | n, one record's moments): see the head of this file."""

    def __init__(self, seen: tuple[Seen, ...], size: int) -> None:
        self.seen, self.size = seen, size
        gauss = [one for one in seen if not one.is_laplace]
        laplace = [one for one in seen if one.is_laplace]
        self.log_steps = float(sum(np.log(one.step) for one in laplace))
        self._read_gauss(gauss)
        self.laplace = sorted({one.feature for one in laplace})
        self.by_feature = {k: [one for one in laplace if one.feature == k] for k in self.laplace}
        is_repeated = any(len(found) > 1 for found in self.by_feature.values())
        if len(self.laplace) > MOST_LAPLACE or (is_repeated and len(self.laplace) > 1):
            raise Unsupported(
                f"Laplace noise on {len(laplace)} sums of each group has no law that is computed for Grouped: use at "
                "most two different features, each released once, or Gaussian noise (guarantee={rho} or {mu})."
            )

    def _read_gauss(self, gauss: list[Seen]) -> None:
        """Gaussian components of the same sum as one, with the precisions added."""
        self.gauss = sorted({one.feature for one in gauss})
        self.place, self.variance, self.constant = np.zeros(len(self.gauss)), np.zeros(len(self.gauss)), 0.0
        for k, feature in enumerate(self.gauss):
            own = [one for one in gauss if one.feature == feature]
            precision = np.array([one.scale**-2 for one in own])
            values = np.array([one.value for one in own])
            self.variance[k] = 1 / precision.sum()
            self.place[k] = precision @ values * self.variance[k]
            spare = 0.5 * LOG_2PI * (len(own) - 1) + 0.5 * float(precision @ np.square(values - self.place[k]))
            self.constant += sum(float(np.log(one.step / one.scale)) for one in own) - spare
            self.constant += 0.5 * float(np.log(self.variance[k]))

    @property
    def is_gaussian(self) -> bool:
        return not self.laplace

    @property
    def is_slow(self) -> bool:
        """Whether each value costs a quadrature."""
        return len(self.laplace) > 1

    @property
    def noise_variance(self) -> Floats:
        """The variance of the noise on each feature's sum, all releases of it together; infinite without any."""
        precision = np.zeros(self.size)
        for one in self.seen:
            precision[one.feature] += 1 / ((2 if one.is_laplace else 1) * one.scale**2)
        with np.errstate(divide="ignore"):
            return np.asarray(1 / precision)

    def rough(self, widening: float = 1.0) -> SumLaw:
        """The same with every noise taken as Gaussian of its variance: for finding the place, never for the answer.

        `widening` multiplies its standard deviation, where tails are to be held that fall as Laplace's do.
        """
        if self.is_gaussian:
            return self
        normal = [
            Seen(one.feature, one.value, one.scale * (2**0.5 * widening if one.is_laplace else 1), one.step, False)
            for one in self.seen
        ]
        return SumLaw(tuple(normal), self.size)

    def log_density(self, n: Array | Ints, mean: Array, covariance: Array) -> Floats:
        """log p(published | n) with one record's moments (..., d), (..., d, d); n broadcasts against `...`."""
        n = np.asarray(n, dtype=float)
        total = np.zeros(np.broadcast_shapes(n.shape, mean.shape[:-1]))
        if not self.seen:
            return total
        centre, spread = n[..., None] * mean, n[..., None, None] * covariance
        if self.gauss:
            found, centre, spread = self._given_gauss(centre, spread)
            total = total + found + self.constant
        if self.laplace:
            total = total + self._laplace(centre, spread) + self.log_steps
        return np.asarray(total)

    def _given_gauss(self, centre: Array, spread: Array) -> tuple[Floats, Array, Array]:
        """log N of the Gaussian components, and the moments of the sums given them (where Laplace ones are left)."""
        index = np.array(self.gauss)
        d = self.place - centre[..., index]
        if index.size == 1:
            v = spread[..., index[0], index[0]] + self.variance[0]
            log_n = -0.5 * (np.square(d[..., 0]) / v + np.log(v) + LOG_2PI)
            solved = d / v[..., None]
            inverse = 1 / v[..., None, None]
        elif index.size == 2:
            own, other = (np.maximum(spread[..., k, k], 0.0) for k in index)
            most = np.sqrt(own) * np.sqrt(other)  # moments by splines may claim a little more than that
            c = np.clip(spread[..., index[0], index[1]], -most, most)
            a, b = own + self.variance[0], other + self.variance[1]
            # a b - c^2 without cancellation of what the noise adds
            rest = self.variance[0] * other + self.variance[1] * own + self.variance[0] * self.variance[1]
            det = np.maximum((most - c) * (most + c), 0.0) + rest
            solved = np.stack([b * d[..., 0] - c * d[..., 1], a * d[..., 1] - c * d[..., 0]], axis=-1) / det[..., None]
            log_n = -0.5 * (np.sum(d * solved, axis=-1) + np.log(det) + 2 * LOG_2PI)
            inverse = np.stack([np.stack([b, -c], -1), np.stack([-c, a], -1)], -2) / det[..., None, None]
        else:
            block = spread[..., index[:, None], index] + np.diag(self.variance)
            inverse = np.linalg.inv(block)
            solved = np.einsum("...ij,...j->...i", inverse, d)
            log_n = -0.5 * (np.sum(d * solved, axis=-1) + np.linalg.slogdet(block)[1] + index.size * LOG_2PI)
        if not self.laplace:
            return log_n, centre, spread
        cross = spread[..., :, index]
        moved = centre + np.einsum("...ij,...j->...i", cross, solved)
        left = spread - cross @ inverse @ np.swapaxes(cross, -1, -2)
        return log_n, moved, left

    def _laplace(self, centre: Array, spread: Array) -> Floats:
        """log-density of the Laplace components around normal sums."""
        first = self.laplace[0]
        if len(self.laplace) == 1:
            own = self.by_feature[first]
            mean, variance = centre[..., first], np.maximum(spread[..., first, first], 0.0)
            if len(own) == 1:
                return normal_laplace.log_density(own[0].value, mean=mean, variance=variance, scale=own[0].scale)
            knots = normal_laplaces.Knots.of([one.value for one in own], [one.scale for one in own])
            shape = np.broadcast_shapes(np.shape(mean), np.shape(variance))
            flat = [np.broadcast_to(part, shape).ravel() for part in (mean, variance)]
            found = normal_laplaces.log_density(knots, mean=flat[0], variance=flat[1]).reshape(shape)
            return np.asarray(found - sum(np.log(2 * one.scale) for one in own))
        pair = np.array(self.laplace)
        values = [self.by_feature[k][0] for k in self.laplace]
        return normal_laplace_pair.log_density(
            [one.value for one in values],
            mean=centre[..., pair],
            covariance=spread[..., pair[:, None], pair],
            scale=[one.scale for one in values],
            is_quick=True,
        )

    # ---- branches of their own ----

    @property
    def marks(self) -> list[tuple[int, float]]:
        """Feature values around the published ones, as a cusp or a narrow noise needs nodes there."""
        reach = (-30.0, -8.0, -3.0, -1.0, 0.0, 1.0, 3.0, 8.0, 30.0)
        return [(one.feature, one.value + m * one.scale) for one in self.seen for m in reach]

    def of_one(self, values: Array, weight: Array) -> Floats:
        """n = 1: the features (K, M, d) of one record at the nodes of its law, with their weights (K, M)."""
        total = np.zeros(weight.shape)
        for one in self.seen:
            total = total + one.log_noise(values[..., one.feature])
        with np.errstate(divide="ignore"):
            return log_total(total + np.log(weight), -1)

    def of_yes_and_no(self, n: Array | Ints, share: Array, ends: tuple[float, float]) -> Floats:
        """Features that take two values: n low + k (high - low), k ~ Binomial(n, share), where that is summed.

        `n` and `share` have one shape; NaN where n share (1 - share) is large, and the normal law stands as it is.
        """
        n, share = np.broadcast_arrays(np.asarray(n, dtype=float), share)
        found = np.full(n.shape, np.nan)
        few = n * share * (1 - share) <= FEW
        size, p = n[few][:, None], share[few][:, None]
        k = np.floor(size * p) + np.arange(-REACH, REACH + 1)
        inside = (k >= 0) & (k <= size)
        k = np.clip(k, 0, size)
        log_k = gammaln(size + 1) - gammaln(k + 1) - gammaln(size - k + 1) + xlogy(k, p) + xlog1py(size - k, -p)
        total = size * ends[0] + k * (ends[1] - ends[0])
        for one in self.seen:
            log_k = log_k + one.log_noise(total)
        found[few] = log_total(np.where(inside, log_k, -np.inf), -1)
        return found
