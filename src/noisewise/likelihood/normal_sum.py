"""Additive statistics under the central limit theorem: a normal sum behind Laplace or Gaussian noise, any dimension.

The features of n records sum to U ~ N(n mu(theta), n Sigma(theta)), moments taken of the *cleaned* record, so clamping
is inside the model. Releases of the same records are stacked: one U, one Sigma. Of the published components some
carry Gaussian noise and some Laplace noise; the Gaussian ones are conditioned on, and the Laplace ones left are
    none      N(y; n mu, n Sigma + noise)                                    `normal_gaussian`
    one       the closed normal-Laplace density                              `normal_laplace`
    two       one quadrature                                                 `normal_laplace_pair`
    more      a scale mixture: V_j ~ N(0, w_j), w_j ~ Exponential(mean 2 b_j^2), and the w_j are sampled with theta.
For the last the likelihood is given at (theta, w); `mixing` says how many w there are. Components that read columns
independent of each other (`Joint`) are blocks of their own, and their densities multiply.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.likelihood import normal_gaussian, normal_laplace, normal_laplace_pair
from noisewise.likelihood.differences import central_difference
from noisewise.likelihood.model import Parameters, numerical_score, scalar_supports
from noisewise.populations.cleaned import row_moments
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import Joint
from noisewise.privacy.law import AdditiveLaw, DiscreteLaplace
from noisewise.release import Release
from noisewise.statistics.feature import Feature, as_feature
from noisewise.statistics.tables import Histogram, Marginals, refuse_tied

SWEEPS = 40  # of the scale mixture, when the confidential statistic is drawn given theta


@dataclass(frozen=True, slots=True)
class Noise:
    """The additive noise of stacked components, in units of the sums."""

    is_laplace: np.ndarray[Any, np.dtype[np.bool_]]
    scale: Array  # Laplace b, or Gaussian sd
    step: Array

    @classmethod
    def of(cls, releases: tuple[Release, ...]) -> Noise:
        laws = [release.law for release in releases]
        assert all(isinstance(law, AdditiveLaw) for law in laws)
        kinds = [isinstance(law, DiscreteLaplace) for law in laws for _ in range(law.size)]  # type: ignore[union-attr]
        scales = [v for law in laws for v in (law.scale if isinstance(law, DiscreteLaplace) else law.sd)]  # type: ignore[union-attr]
        steps = [v for law in laws for v in law.step]  # type: ignore[union-attr]
        return cls(np.array(kinds), np.array(scales, dtype=float), np.array(steps, dtype=float))

    @property
    def variance(self) -> Array:
        return np.where(self.is_laplace, 2.0, 1.0) * np.square(self.scale)

    def log_density(self, residual: Array) -> Array:
        """log g(v), summed over the last axis."""
        z = residual / self.scale
        laplace = -np.abs(z) - np.log(2 * self.scale)
        gauss = -0.5 * z * z - np.log(self.scale) - 0.5 * np.log(2 * np.pi)
        return np.asarray(np.where(self.is_laplace, laplace, gauss).sum(axis=-1))


class NormalSum:
    """The likelihood of additive releases of the same n records, by the central limit theorem."""

    is_exact = False

    def __init__(self, releases: tuple[Release, ...], population: Any, *, n: int, reason: str = "") -> None:
        self.releases, self.population, self.n = releases, population, n
        self.row = tuple(feature for release in releases for feature in row_of(release))
        self.noise = Noise.of(releases)
        self.observed: Array = np.concatenate([np.array(release.value, dtype=float) for release in releases])
        self.observed = self.observed * self.noise.step
        self.reason = reason

    @property
    def because(self) -> str:
        kinds = {True: "Laplace", False: "Gaussian"}
        noise = " and ".join(kinds[kind] for kind in sorted(set(self.noise.is_laplace.tolist()), reverse=True))
        what = "the sum is" if len(self.row) == 1 else f"the {len(self.row)} sums are jointly"
        reason = f" ({self.reason})" if self.reason else ""
        return f"central limit theorem: {what} normal over {self.n} records, with {noise} noise{reason}"

    @cached_property
    def blocks(self) -> tuple[Any, ...]:
        """Components in groups that share columns, as arrays of indices; one group unless columns are independent."""
        if not isinstance(self.population, Joint):
            return (np.arange(len(self.row)),)
        groups: list[tuple[set[str], list[int]]] = []
        for index, feature in enumerate(self.row):
            names, members = set(feature.columns()), [index]
            for group in [group for group in groups if group[0] & names]:
                groups.remove(group)
                names, members = names | group[0], group[1] + members
            groups.append((names, members))
        return tuple(np.array(sorted(members)) for _, members in groups)

    @cached_property
    def mixed(self) -> Any:
        """The components whose mixing variances must be sampled with theta: those of blocks with three or more."""
        laplace = self.noise.is_laplace
        chosen = [block[laplace[block]] for block in self.blocks if laplace[block].sum() > 2]
        return np.sort(np.concatenate([np.empty(0, int), *chosen]))

    @property
    def mixing(self) -> int:
        """How many mixing variances must be sampled with theta: none where the noise is integrated out."""
        return int(self.mixed.size)

    @cached_property
    def mixing_scale(self) -> Array:
        """The Laplace scales b_j of the components that are mixed."""
        return np.asarray(self.noise.scale[self.mixed])

    def moments(self, theta: Theta) -> tuple[Array, Array]:
        """The mean (K, d) and covariance (K, d, d) of the sums."""
        try:
            mean, covariance = row_moments(self.population, self.releases[0].schema, self.row, theta)
        except InvalidArgument:  # no theta of this batch can have left a record inside the bounds
            rows, d = len(next(iter(theta.values()))), len(self.row)
            mean, covariance = np.full((rows, d), np.nan), np.full((rows, d, d), np.nan)
        return self.n * mean, self.n * covariance

    def log_likelihood(self, theta: Theta) -> Array:
        if self.mixing:
            raise Unsupported("With three or more components under Laplace noise the likelihood is a scale mixture.")
        return self.log_likelihood_given(theta, np.empty((1, 0)))

    def log_likelihood_given(self, theta: Theta, variances: Array) -> Array:
        """log p(y | theta, w): mixed Laplace components as normal ones with variances w (K, mixing)."""
        mean, covariance = self.moments(theta)
        total: Array = np.zeros(1)
        for block in self.blocks:
            place = np.searchsorted(self.mixed, block[np.isin(block, self.mixed)])
            part = self._log_density(block, mean, covariance, variances[:, place])
            total = total + part
        if self.releases[0].schema.outside == "refuse":
            # Where no record could be inside the bounds the release is impossible, not undefined.
            total = np.where(np.isnan(mean).any(axis=1), -np.inf, total)
        return np.asarray(total + np.log(self.noise.step).sum())

    def _log_density(self, block: Any, mean: Array, covariance: Array, variances: Array) -> Array:
        """log p of one block: Gaussian and mixed components in closed form, then the Laplace ones given them."""
        mean, covariance = mean[:, block], covariance[:, block[:, None], block]
        y, scale = self.observed[block], self.noise.scale[block]
        is_laplace = self.noise.is_laplace[block]
        if variances.shape[1]:
            added = np.broadcast_to(np.where(is_laplace, 0.0, np.square(scale)), (len(variances), block.size)).copy()
            added[:, is_laplace] = variances
            noisy = covariance + np.einsum("kd,de->kde", added, np.eye(block.size))
            return normal_gaussian.log_density(y, mean=mean, covariance=noisy)
        laplace, gauss = np.flatnonzero(is_laplace), np.flatnonzero(~is_laplace)
        total = np.zeros(len(mean))
        if gauss.size:
            noise = np.square(scale[gauss])
            total = normal_gaussian.log_density(
                y[gauss], mean=mean[:, gauss], covariance=covariance[:, gauss[:, None], gauss], noise_variance=noise
            )
            if laplace.size == 0:
                return total
            mean, covariance = _given(y, mean, covariance, noise, gauss, laplace)
        y, b = y[laplace], scale[laplace]
        if laplace.size == 1:
            return np.asarray(
                total + normal_laplace.log_density(y[0], mean=mean[:, 0], variance=covariance[:, 0, 0], scale=b[0])
            )
        return np.asarray(total + normal_laplace_pair.log_density(y, mean=mean, covariance=covariance, scale=b))

    def score(self, theta: Theta) -> dict[str, Array]:
        """Closed in the moments for Gaussian noise and for one component; else differences of log p."""
        supports = scalar_supports(self.population)
        if self.noise.is_laplace.any() and len(self.row) > 1:
            return numerical_score(self.log_likelihood, theta, supports)
        mean, covariance = self.moments(theta)
        if self.noise.is_laplace.any():
            slopes = normal_laplace.score(
                self.observed[0], mean=mean[:, 0], variance=covariance[:, 0, 0], scale=self.noise.scale[0]
            )
            in_mean, in_covariance = slopes[0][:, None], slopes[1][:, None, None]
        else:
            in_mean, in_covariance = normal_gaussian.score(
                self.observed, mean=mean, covariance=covariance, noise_variance=np.square(self.noise.scale)
            )
        scores = {}
        for name, support in supports.items():
            d_mean, d_covariance = self.moment_slopes(theta, name, support)
            scores[name] = np.sum(in_mean * d_mean, axis=1) + np.sum(in_covariance * d_covariance, axis=(1, 2))
        return scores

    def moment_slopes(self, theta: Theta, name: str, support: Any) -> tuple[Array, Array]:
        """The derivatives of the sums' mean (K, d) and covariance (K, d, d) in one parameter."""
        d = len(self.row)

        def packed(at: Theta) -> Array:
            mean, covariance = self.moments(at)
            return np.concatenate([mean, covariance.reshape(len(mean), -1)], axis=1)

        slope = central_difference(packed, theta, name, support)
        return slope[:, :d], slope[:, d:].reshape(-1, d, d)

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """U given y and theta: two truncated normals for one Laplace component, else sweeps of the scale mixture."""
        mean, covariance = self.moments(theta)
        if len(self.row) == 1 and self.noise.is_laplace[0]:
            drawn = _draw_normal_laplace(
                rng, self.observed[0], mean[:, 0], covariance[:, 0, 0], float(self.noise.scale[0])
            )[:, None]
        else:
            drawn = self._draw_mixed(rng, mean, covariance)
        divisors = [np.full(len(release.value), release.divisor) for release in self.releases]
        return np.asarray(drawn / np.concatenate(divisors))

    def _draw_mixed(self, rng: np.random.Generator, mean: Array, covariance: Array) -> Array:
        variances = np.broadcast_to(self.noise.variance, mean.shape).copy()
        laplace = np.flatnonzero(self.noise.is_laplace)
        b = self.noise.scale[laplace]
        # A component that cannot move (a constant feature) keeps its mean; the jitter only makes the factor exist.
        covariance = (
            covariance + np.eye(covariance.shape[1]) * 1e-12 * np.trace(covariance, axis1=1, axis2=2)[:, None, None]
        )
        for _ in range(SWEEPS if laplace.size else 1):
            total = covariance + np.einsum("kd,de->kde", variances, np.eye(mean.shape[1]))
            gain = np.linalg.solve(total, covariance).swapaxes(-1, -2)
            centre = mean + np.einsum("kde,ke->kd", gain, self.observed - mean)
            spread = covariance - gain @ covariance
            root = np.linalg.cholesky(0.5 * (spread + spread.swapaxes(-1, -2)) + 1e-12 * covariance)
            u = centre + np.einsum("kde,ke->kd", root, rng.standard_normal(mean.shape))
            variances[:, laplace] = normal_laplace.draw_mixing(rng, self.observed[laplace] - u[:, laplace], b)
        return np.asarray(u)

    def latent(self, parameters: Parameters) -> Any:
        return SumLatent(self, parameters)


@dataclass(frozen=True, slots=True)
class SumLatent:
    """The sums as a latent variable, for kernels that keep it (`inference.kernels.latent.BatchLatent`)."""

    model: NormalSum
    parameters: Parameters

    @property
    def size(self) -> int:
        return len(self.model.row)

    @property
    def noise_variance(self) -> Array:
        return self.model.noise.variance

    @property
    def observed(self) -> Array:
        return self.model.observed

    def moments(self, position: Array) -> tuple[Array, Array]:
        return self.model.moments(self.parameters(position))

    def log_noise(self, u: Array) -> Array:
        return self.model.noise.log_density(self.model.observed - u)


def row_of(release: Release) -> tuple[Feature, ...]:
    """The features that a release sums, one a component; the cells of a table are 0/1 features."""
    statistic, schema = release.statistic, release.schema
    if isinstance(statistic, Histogram):
        name, edges = statistic.column, statistic.inner_edges(schema)
        column = as_feature(name)
        if edges is None:
            return tuple(column.equals(level) for level in schema.levels(name).levels)
        bounds = schema.bounded(name)
        ends = (bounds.low, *edges, bounds.high)
        # Cell j is [edge, next edge); the shared end has probability 0 under a density and is counted once below.
        return tuple(
            column.between(low, _below(high) if k < len(ends) - 2 else high)
            for k, (low, high) in enumerate(itertools.pairwise(ends))
        )
    refuse_tied(statistic)
    if isinstance(statistic, Marginals):
        return _marginal_row(statistic, release)
    if hasattr(statistic, "row"):
        return tuple(statistic.row(schema))
    raise Unsupported(f"{statistic.kind} is not a sum over records.")


def _marginal_row(statistic: Marginals, release: Release) -> tuple[Feature, ...]:

    features = []
    for clique in statistic.cliques:
        for cell in itertools.product(*(release.schema.levels(name).levels for name in clique)):
            indicator = as_feature(clique[0]).equals(cell[0])
            for name, level in zip(clique[1:], cell[1:], strict=True):
                indicator = indicator * as_feature(name).equals(level)
            features.append(indicator)
    return tuple(features)


def _given(y: Array, mean: Array, covariance: Array, noise: Array, gauss: Any, laplace: Any) -> tuple[Array, Array]:
    """The moments of the Laplace components' sums, given the released Gaussian components."""
    block = covariance[:, gauss[:, None], gauss] + np.diag(noise)
    cross = covariance[:, laplace[:, None], gauss]
    gain = np.linalg.solve(block, cross.swapaxes(-1, -2)).swapaxes(-1, -2)
    moved = mean[:, laplace] + np.einsum("kij,kj->ki", gain, y[gauss] - mean[:, gauss])
    left = covariance[:, laplace[:, None], laplace] - gain @ cross.swapaxes(-1, -2)
    return moved, 0.5 * (left + left.swapaxes(-1, -2))


def _draw_normal_laplace(rng: np.random.Generator, y: float, mean: Array, variance: Array, b: float) -> Array:
    """U given U + V = y: N(mean +- variance/b, variance) cut at y, on the side chosen by its mass."""
    sd = np.sqrt(np.maximum(variance, 1e-300))
    # Below y the factor e^{-(y-u)/b} tilts U up; above y it tilts U down.
    low_centre, high_centre = mean + variance / b, mean - variance / b

    log_low = (mean - y) / b + log_ndtr((y - low_centre) / sd)
    log_high = (y - mean) / b + log_ndtr((high_centre - y) / sd)
    is_low = rng.random(len(mean)) < 1 / (1 + np.exp(np.clip(log_high - log_low, -700, 700)))
    centre = np.where(is_low, low_centre, high_centre)
    level = np.where(is_low, 1.0, -1.0)
    # Draw level * (u - centre)/sd below level * (y - centre)/sd, by inverting the lower tail.
    edge = level * (y - centre) / sd
    z = _truncated_above(rng, edge)
    return np.asarray(centre + sd * level * z)


def _truncated_above(rng: np.random.Generator, edge: Array) -> Array:
    """Standard normals below `edge`, one each; far in the tail by the exponential limit's inverse."""

    return np.asarray(ndtri_exp(log_ndtr(edge) + np.log(rng.uniform(np.finfo(float).tiny, 1, edge.shape))))


def _below(edge: float) -> float:
    """The largest number below an edge that a feature can name: next to 0, nothing smaller than 1e-90."""
    return min(float(np.nextafter(edge, -np.inf)), edge - 1e-90)
