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

Features may be tied to each other (two releases of one sum, x beside 1 - x, a count of everybody): `independent_sums`.
Any number of Laplace noises on one sum are closed again (`normal_laplaces`), and a component that cannot vary is noise
alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.laws import additive_law, normal_mixture
from noisewise.likelihood import normal_gaussian, normal_laplace, normal_laplace_pair, normal_laplaces
from noisewise.likelihood.differences import central_difference
from noisewise.likelihood.independent_sums import IndependentSums
from noisewise.likelihood.model import GroupLaw, Parameters, numerical_score, scalar_supports
from noisewise.likelihood.normal_rows import SeenRows
from noisewise.populations.cleaned import sum_moments
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import AnyPopulation, Joint
from noisewise.release import NoisyValue
from noisewise.statistics.feature import Feature

if TYPE_CHECKING:
    from noisewise.likelihood.integrated_noise import IntegratedNoise

LARGEST_DOUBTED = 20_000  # records, beyond which the theorem is not doubted
SWEEPS = 40  # of the scale mixture, when the confidential statistic is drawn given theta


@dataclass(frozen=True, slots=True)
class Noise:
    """The additive noise of stacked components, in units of the sums."""

    is_laplace: np.ndarray[Any, np.dtype[np.bool_]]
    scale: Array  # Laplace b, or Gaussian sd
    step: Array

    @classmethod
    def of(cls, releases: tuple[NoisyValue, ...]) -> Noise:
        laws = [additive_law(release.law) for release in releases]
        kinds = [normal_mixture(law).is_laplace for law in laws for _ in range(law.size)]
        scales = [scale for law in laws for scale in normal_mixture(law).scale]
        steps = [step for law in laws for step in law.step]
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


class Shares(NamedTuple):
    """The components of one block, as indices, by how they are scored."""

    gauss: Any
    laplace: Any  # that vary
    constant: Any  # Laplace noise on what cannot vary
    knots: normal_laplaces.Knots | None  # where all Laplace components see one sum
    is_mixed: bool


class NormalSum(GroupLaw):
    """The likelihood of additive releases of the same n records, by the central limit theorem."""

    is_exact = False
    is_quick = True

    def __init__(
        self, releases: tuple[NoisyValue, ...], population: AnyPopulation, *, n: int, reason: str = ""
    ) -> None:
        self.seen = SeenRows()
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

    @property
    def cautions(self) -> tuple[str, ...]:
        """Where the theorem visibly falls short of these sums, and by how much, once the likelihood was asked."""
        from noisewise.likelihood.tilted_sum import shortfall

        return shortfall(self)

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
    def ties(self) -> IndependentSums:
        """The independent sums behind the components."""
        if len(self.row) == 1:
            return IndependentSums((0,), np.zeros(1), np.eye(1))
        return IndependentSums.of(self.row, self.releases[0].schema, self.population)

    @cached_property
    def shares(self) -> tuple[Shares, ...]:
        """The components of each block, by how they are scored."""
        varies = self.ties.sum_of != -1
        found = []
        for block in self.blocks:
            laplace = block[self.noise.is_laplace[block] & varies[block]]
            constant = block[self.noise.is_laplace[block] & ~varies[block]]
            knots = None
            if laplace.size > 1:
                own = self.ties.of_components(laplace)
                if own.rank == 1:
                    slope = own.loading[:, 0]
                    places = (self.observed[laplace] - self.n * own.constant) / slope
                    knots = normal_laplaces.Knots.of(places, self.noise.scale[laplace] / np.abs(slope))
            is_mixed = knots is None and laplace.size > 2
            found.append(Shares(block[~self.noise.is_laplace[block]], laplace, constant, knots, is_mixed))
        return tuple(found)

    @cached_property
    def mixed(self) -> Any:
        """The components whose mixing variances must be sampled with theta: where three or more sums are Laplace."""
        return np.sort(np.concatenate([np.empty(0, int), *(part.laplace for part in self.shares if part.is_mixed)]))

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
            return sum_moments(self.population, self.releases[0].schema, self.row, theta, self.n)
        except InvalidArgument:  # no theta of this batch can have left a record inside the bounds
            rows, d = len(next(iter(theta.values()))), len(self.row)
            return np.full((rows, d), np.nan), np.full((rows, d, d), np.nan)

    def integrated(self) -> NormalSum | IntegratedNoise | None:
        """The same with the mixing variances integrated out, itself without any; None where the error is felt."""
        from noisewise.likelihood.integrated_noise import affordable

        return affordable(self) if self.mixing else self

    @property
    def plain(self) -> NormalSum:
        return self

    def placed(self, theta: Theta) -> tuple[Array, Array, Array]:
        """A log factor (K,), NaN where no records can be, and the sums' mean (K, d) and covariance (K, d, d)."""
        mean, covariance = self.moments(theta)
        return np.where(np.isnan(mean).any(axis=1), np.nan, 0.0), mean, covariance

    def remember(self, theta: Theta, log_likelihood: Array) -> None:
        """Keep some of these rows, so that the theorem can be doubted where the release is likely."""
        if self.n <= LARGEST_DOUBTED:
            self.seen.add(theta, log_likelihood)

    def log_likelihood(self, theta: Theta) -> Array:
        return self.log_likelihood_given(theta, np.empty((1, 0)))

    def log_likelihood_given(self, theta: Theta, variances: Array) -> Array:
        """log p(y | theta, w): mixed Laplace components as normal ones with variances w (K, mixing)."""
        mean, covariance = self.moments(theta)
        found = self.log_density_at(mean, covariance, variances, is_possible=~np.isnan(mean).any(axis=1))
        self.remember(theta, found)
        return found

    def log_density_at(self, mean: Array, covariance: Array, variances: Array, *, is_possible: Any) -> Array:
        """log p(y | w) of sums with these moments (K, d), (K, d, d); rows that no records can have are not possible."""
        if self.mixing and variances.shape[1] == 0:
            raise Unsupported("With three or more components under Laplace noise the likelihood is a scale mixture.")
        total: Array = np.zeros(1)
        for part in self.shares:
            place = np.searchsorted(self.mixed, part.laplace) if part.is_mixed else np.empty(0, int)
            total = total + self.log_density_of(part, mean, covariance, variances[:, place])
        if self.releases[0].schema.outside == "refuse":
            # Where no record could be inside the bounds the release is impossible, not undefined.
            total = np.where(is_possible, total, -np.inf)
        return np.asarray(total + np.log(self.noise.step).sum())

    def log_constant(self, part: Shares, mean: Array) -> Array:
        """log p of what cannot vary in one block, seen through its noise alone: (K, 1)."""
        own, scale = part.constant, self.noise.scale[part.constant]
        away = np.abs(self.observed - mean)[:, own]
        return np.asarray(-np.sum(away / scale + np.log(2 * scale), axis=1, keepdims=True))

    def log_density_of(self, part: Shares, mean: Array, covariance: Array, variances: Array) -> Array:
        """log p of one block: Gaussian and mixed components in closed form, then the Laplace ones given them."""
        y, scale = self.observed, self.noise.scale
        gauss, laplace = part.gauss, part.laplace
        total: Array = np.zeros(len(mean))
        if part.constant.size:
            total = total + self.log_constant(part, mean)[:, 0]
        if part.is_mixed:
            own = np.sort(np.concatenate([gauss, laplace]))
            added = np.broadcast_to(np.square(scale[own]), (len(variances), own.size)).copy()
            added[:, np.isin(own, laplace)] = variances
            noisy = covariance[:, own[:, None], own] + np.einsum("kd,de->kde", added, np.eye(own.size))
            return np.asarray(total + normal_gaussian.log_density(y[own], mean=mean[:, own], covariance=noisy))
        if gauss.size:
            noise = np.square(scale[gauss])
            total = total + normal_gaussian.log_density(
                y[gauss], mean=mean[:, gauss], covariance=covariance[:, gauss[:, None], gauss], noise_variance=noise
            )
            if laplace.size:
                mean, covariance = _given(y, mean, covariance, noise, gauss, laplace)
        elif laplace.size:
            mean, covariance = mean[:, laplace], covariance[:, laplace[:, None], laplace]
        if laplace.size == 0:
            return total
        y, b = y[laplace], scale[laplace]
        if laplace.size == 1:
            found = normal_laplace.log_density(y[0], mean=mean[:, 0], variance=covariance[:, 0, 0], scale=b[0])
        elif part.knots is not None:
            variance = np.maximum(covariance[:, 0, 0], 0.0)
            found = normal_laplaces.log_density(part.knots, mean=mean[:, 0], variance=variance) - np.log(2 * b).sum()
        else:
            found = normal_laplace_pair.log_density(y, mean=mean, covariance=covariance, scale=b)
        return np.asarray(total + found)

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
        """The sums given y and theta: truncated normals where one sum varies, else sweeps of the scale mixture."""
        return self.draw_at(rng, *self.moments(theta))

    def draw_at(self, rng: np.random.Generator, mean: Array, covariance: Array) -> Array:
        """The statistic (K, d) given y, of sums with these moments."""
        basis = np.array(self.ties.basis, int)
        mean, covariance = mean[:, basis], covariance[:, basis[:, None], basis]
        if basis.size == 0:
            sums = mean
        elif basis.size == 1:
            sums = self._draw_one(rng, mean[:, 0], covariance[:, 0, 0])[:, None]
        else:
            sums = self._draw_mixed(rng, mean, covariance)
        divisors = [np.full(len(release.value), release.divisor) for release in self.releases]
        return np.asarray(self.ties.expanded(sums, self.n) / np.concatenate(divisors))

    def _draw_one(self, rng: np.random.Generator, mean: Array, variance: Array) -> Array:
        """The one sum that varies: normal given its Gaussian releases, then cut by its Laplace ones."""
        slope = self.ties.loading[:, 0]
        places = self.observed - self.n * self.ties.constant
        gauss, laplace = (np.flatnonzero((slope != 0) & (self.noise.is_laplace == kind)) for kind in (False, True))
        variance = np.maximum(variance, 0.0)
        for j in gauss:
            gain = variance * slope[j] / (np.square(slope[j]) * variance + np.square(self.noise.scale[j]))
            mean, variance = mean + gain * (places[j] - slope[j] * mean), variance * (1 - gain * slope[j])
        if laplace.size == 0:
            return np.asarray(mean + np.sqrt(np.maximum(variance, 0.0)) * rng.standard_normal(mean.shape))
        size = slope[laplace]
        knots = normal_laplaces.Knots.of(places[laplace] / size, self.noise.scale[laplace] / np.abs(size))
        return normal_laplaces.draw(rng, knots, mean=mean, variance=variance)

    def _draw_mixed(self, rng: np.random.Generator, mean: Array, covariance: Array) -> Array:
        """Independent sums (K, r) by sweeps: the sums given the mixing variances, and these given the noise."""
        loading, y = self.ties.loading, self.observed - self.n * self.ties.constant
        variances = np.broadcast_to(self.noise.variance, (len(mean), y.size)).copy()
        laplace = np.flatnonzero(self.noise.is_laplace)
        b = self.noise.scale[laplace]
        # Sums that the population itself ties together keep a sliver of their own, so that the factor exists.
        sliver = 1e-12 * np.diagonal(covariance, axis1=1, axis2=2)
        covariance = covariance + np.einsum("kd,de->kde", np.maximum(sliver, 1e-300), np.eye(mean.shape[1]))
        cross = covariance @ loading.T
        for _ in range(SWEEPS if laplace.size else 1):
            total = loading @ cross + np.einsum("kd,de->kde", variances, np.eye(y.size))
            gain = np.linalg.solve(total, cross.swapaxes(-1, -2)).swapaxes(-1, -2)
            centre = mean + np.einsum("kde,ke->kd", gain, y - mean @ loading.T)
            spread = covariance - gain @ cross.swapaxes(-1, -2)
            root = _factor(0.5 * (spread + spread.swapaxes(-1, -2)) + 1e-12 * covariance)
            u = centre + np.einsum("kde,ke->kd", root, rng.standard_normal(mean.shape))
            noise = y[laplace] - u @ loading[laplace].T
            variances[:, laplace] = normal_laplace.draw_mixing(rng, noise, b)
        return np.asarray(u)

    def latent(self, parameters: Parameters) -> Any:
        return SumLatent(self, parameters)


@dataclass(frozen=True, slots=True)
class SumLatent:
    """The independent sums as a latent variable, for kernels that keep it (`published.samplers.latent.BatchLatent`).

    A kernel proposes each sum as if its noise were normal: with the precisions of all components that see it alone.
    """

    model: NormalSum
    parameters: Parameters

    @property
    def size(self) -> int:
        return self.model.ties.rank

    @property
    def noise_variance(self) -> Array:
        return np.asarray(1 / self._precision.sum(axis=0))

    @property
    def observed(self) -> Array:
        ties, model = self.model.ties, self.model
        with np.errstate(divide="ignore", invalid="ignore"):
            places = (model.observed - model.n * ties.constant)[:, None] / ties.loading
        weighted = np.where(self._precision > 0, self._precision * places, 0.0).sum(axis=0)
        return np.asarray(weighted * self.noise_variance)

    @property
    def _precision(self) -> Array:
        """Of each sum by each component that loads on it alone, (d, r)."""
        ties = self.model.ties
        alone = (ties.sum_of >= 0)[:, None]
        return np.where(alone, np.square(ties.loading) / self.model.noise.variance[:, None], 0.0)

    def moments(self, position: Array) -> tuple[Array, Array]:
        mean, covariance = self.model.moments(self.parameters(position))
        basis = np.array(self.model.ties.basis, int)
        return mean[:, basis], covariance[:, basis[:, None], basis]

    def log_noise(self, u: Array) -> Array:
        return self.model.noise.log_density(self.model.observed - self.model.ties.expanded(u, self.model.n))


def row_of(release: NoisyValue) -> tuple[Feature, ...]:
    """The features that a release sums, one a component; the cells of a table are 0/1 features."""
    return release.statistic.row(release.schema)


def _given(y: Array, mean: Array, covariance: Array, noise: Array, gauss: Any, laplace: Any) -> tuple[Array, Array]:
    """The moments of the Laplace components' sums, given the released Gaussian components."""
    block = covariance[:, gauss[:, None], gauss] + np.diag(noise)
    cross = covariance[:, laplace[:, None], gauss]
    gain = np.linalg.solve(block, cross.swapaxes(-1, -2)).swapaxes(-1, -2)
    moved = mean[:, laplace] + np.einsum("kij,kj->ki", gain, y[gauss] - mean[:, gauss])
    left = covariance[:, laplace[:, None], laplace] - gain @ cross.swapaxes(-1, -2)
    return moved, 0.5 * (left + left.swapaxes(-1, -2))


def _factor(matrices: Array) -> Array:
    """Roots (K, d, d) of matrices that are positive but for rounding."""
    try:
        return np.asarray(np.linalg.cholesky(matrices))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrices)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])
