"""Local answers and sums of the same records: each record enters both, so their laws do not multiply.

Given theta records are independent, and given theta and the answers they still are, each with a law of its own,
    p(x_i | y_i) ~ p(x_i | theta) h(y_i | x_i),
h the law of an answer. So, for the features f that were summed,
    p(answers, sums | theta) = prod_i p(y_i | theta) x p(sums | T),    T = sum_i f(x_i),
where T given the answers is a sum of independent terms, with mean sum_i E[f | y_i] and covariance sum_i Cov[f | y_i]:
normal by the central limit theorem (Lindeberg's, as features are bounded), behind the noise that was added to the sums
(`normal_sum`). Answers are published in no order, and neither T nor their own law asks for one. Multiplying the two
laws instead would tell the records twice.

    E[f | y] = sum_m w_m f(x_m) h(y | x_m) / sum_m w_m h(y | x_m)         over the nodes of one record's law
Under Laplace noise the sums about all answers are one recursion (`local_general.laplace_sums`); answers in cells have
as many laws as there are cells. How far T is from normal is told by its skewness beside its noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.laws import cell_law
from noisewise.likelihood import local_general
from noisewise.likelihood.answers import FEWEST, Summed
from noisewise.likelihood.cells import response_matrix
from noisewise.likelihood.count_models import CellsModel
from noisewise.likelihood.local_answers import LocalAnswers
from noisewise.likelihood.model import GroupLaw, numerical_score, scalar_supports
from noisewise.likelihood.normal_rows import SeenRows
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.populations.cleaned import attach
from noisewise.populations.nodes import kinks_of, record_nodes
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import AnyPopulation
from noisewise.release import NoisyValue
from noisewise.schema import Schema
from noisewise.statistics import Records
from noisewise.types import Floats, Ints

if TYPE_CHECKING:
    from noisewise.likelihood.integrated_noise import IntegratedNoise

__all__ = ["AnswersAndSums"]

PIECE = 64  # thetas whose nodes are laid at once
MOST_ENTRIES = 4_000_000  # answers times nodes that are held at once
SKEWED = 0.25  # skewness of a sum with its noise, from which a normal law of it is told
TINIEST = 1e-250
LEAST_WEIGHT = 1e-26  # of a node beside the heaviest
LARGEST_ERROR = 1e-3  # of the sums through nodes, in sds of the sum


class AnswersAndSums(GroupLaw):
    """The joint likelihood of one release of local answers and of sums of the same records."""

    is_exact = False

    def __init__(self, releases: tuple[NoisyValue, ...], population: AnyPopulation, *, n: int) -> None:
        local = [release for release in releases if release.statistic.is_local]
        if len(local) > 1:
            raise Unsupported(
                "Two sets of answers of the same people have no joint law that can be computed, since nobody says "
                "which answers are of one person; ask disjoint parts, or infer from one of them."
            )
        (asked,) = local
        self.releases, self.population, self.n, self.asked = releases, population, n, asked
        self.plain = NormalSum(tuple(one for one in releases if one is not asked), population, n=n)
        names = set(asked.statistic.columns())
        others = sorted({name for feature in self.plain.row for name in feature.columns()} - names)
        if len(names) != 1 or others:
            raise Unsupported(
                f"{asked.statistic!s:.80} and sums that read {others[0] if others else 'several columns'} of the same "
                "records have no joint law here; sums of the one column that was asked about have one. Infer from one "
                "of them, or release them from disjoint parts."
            )
        (self.column,) = names
        self.one = attach(population, asked.schema, names)[self.column]
        self.answers: LocalAnswers | CellsModel
        self.tilt: Tilt
        if asked.is_categorical:
            self.answers, self.tilt = CellsModel.of((asked,), population, n=n), CellTilt.of(asked, self.column)
        else:
            self.answers = LocalAnswers(asked, population, n=n)
            self.tilt = NumberTilt(self.answers)
        if self.tilt.size != n:
            raise Unsupported(f"There are {self.tilt.size} answers of {n} records; every record must have given one.")
        self.kinks = tuple(sorted({*kinks_of(self.plain.row, asked.schema, self.column), *self.tilt.kinks}))
        self.seen = SeenRows()

    # ---- which law ----

    @property
    def because(self) -> str:
        sums = self.plain.because.removeprefix("central limit theorem: ")
        return f"{self.answers.because}; given the answers, by the central limit theorem, {sums}"

    @property
    def cautions(self) -> tuple[str, ...]:
        """Whether a sum is visibly skewed given the answers, at the likely parameters that were seen."""
        theta, logs = self.seen.likely()
        if not logs.size:
            return ()
        found = self._sums(theta)
        variance = np.diagonal(found.covariance, axis1=1, axis2=2) + self.plain.noise.variance
        with np.errstate(all="ignore"):
            skewness = float(np.nanmax(np.abs(found.third) / variance**1.5, initial=0.0))
        if skewness < SKEWED:
            return ()
        return (
            f"Given the answers, a sum of the same {self.n} records is taken as normal behind its noise, but has a "
            f"skewness of {skewness:.1g} there: intervals may be off.",
        )

    @property
    def mixing(self) -> int:
        return self.plain.mixing

    @property
    def mixing_scale(self) -> Array:
        return self.plain.mixing_scale

    def integrated(self) -> AnswersAndSums | IntegratedNoise | None:
        from noisewise.likelihood.integrated_noise import affordable

        return affordable(self) if self.mixing else self

    # ---- what it says ----

    def placed(self, theta: Theta) -> tuple[Array, Array, Array]:
        """log p(answers) (K,), and the sums' mean (K, d) and covariance (K, d, d) given the answers."""
        found = self._sums(theta)
        return self.answers.log_likelihood(theta), found.mean, found.covariance

    def remember(self, theta: Theta, log_likelihood: Array) -> None:
        """Keep some of these rows, so that the theorem can be doubted where the release is likely."""
        self.seen.add(theta, log_likelihood)

    def log_likelihood(self, theta: Theta) -> Array:
        return self.log_likelihood_given(theta, np.empty((1, 0)))

    def log_likelihood_given(self, theta: Theta, variances: Array) -> Array:
        """log p(y | theta, w): mixed Laplace components of the sums as normal ones with variances w (K, mixing)."""
        factor, mean, covariance = self.placed(theta)
        is_possible = ~np.isnan(mean).any(axis=1)
        sums = self.plain.log_density_at(mean, covariance, variances, is_possible=is_possible)
        found: Array = np.asarray(np.where(factor == -np.inf, -np.inf, factor + sums))
        self.remember(theta, found)
        return found

    def score(self, theta: Theta) -> dict[str, Array]:
        return numerical_score(self.log_likelihood, theta, scalar_supports(self.population))

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """The sums given all that was published, then the true answers' mean (or their cells) given the sums, too."""
        found, d = self._sums(theta, with_truth=True), len(self.plain.row)
        mean, covariance = found.mean, found.covariance
        drawn = self.plain.draw_at(rng, mean[:, :d], covariance[:, :d, :d])
        divisors = np.concatenate([np.full(len(one.value), one.divisor) for one in self.plain.releases])
        gain = covariance[:, d:, :d] @ np.linalg.pinv(covariance[:, :d, :d], hermitian=True)
        centre = mean[:, d:] + np.einsum("kij,kj->ki", gain, drawn * divisors - mean[:, :d])
        left = covariance[:, d:, d:] - gain @ covariance[:, :d, d:]
        values, vectors = np.linalg.eigh(0.5 * (left + left.swapaxes(-1, -2)))
        root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        truth = (centre + np.einsum("kij,kj->ki", root, rng.standard_normal(centre.shape))) / self.tilt.divisor
        parts, start = [], 0
        for release in self.releases:  # in the order in which they are labelled
            size = len(release.value)
            parts.append(truth if release is self.asked else drawn[:, start : start + size])
            start += 0 if release is self.asked else size
        return np.concatenate(parts, axis=1)

    # ---- inner ----

    def _sums(self, theta: Theta, *, with_truth: bool = False) -> SumMoments:
        """The moments of the sums given the answers; with those of the true answers behind them where asked for."""
        schema, own = self.asked.schema, self.population.theta_of(self.column, theta)
        rows = rows_of(theta)
        size = len(self.plain.row) + (self.tilt.truths if with_truth else 0)
        found = SumMoments(
            np.full((rows, size), np.nan), np.full((rows, size, size), np.nan), np.full((rows, size), np.nan)
        )
        for start in range(0, rows, PIECE):
            some = {name: np.asarray(value)[start : start + PIECE] for name, value in own.items()}
            try:
                nodes = record_nodes(self.one, schema, self.column, some, self.kinks)
            except InvalidArgument:  # no mass inside the bounds under any of these
                continue
            every = np.broadcast_to(nodes.x, nodes.weight.shape)
            for k, (x, weight) in enumerate(zip(every, nodes.weight, strict=True)):
                if np.isnan(weight).any():
                    continue
                kept = weight > LEAST_WEIGHT * weight.max()
                features = self._features(x[kept], schema, with_truth=with_truth)
                found.put(start + k, *self._given_answers(x[kept], weight[kept], features))
        return found

    def _features(self, x: Array, schema: Schema, *, with_truth: bool) -> Floats:
        """What is summed (M, d), at the nodes."""
        columns = [np.broadcast_to(one.value({self.column: x}, schema), x.shape) for one in self.plain.row]
        found = np.stack([np.asarray(column, float) for column in columns], axis=1)
        return np.concatenate([found, self.tilt.truth(x)], axis=1) if with_truth else found

    def _given_answers(self, x: Array, weight: Array, features: Floats) -> tuple[Floats, Floats, Floats]:
        """Mean (d,), covariance (d, d) and third central moments (d,) of the sums, for one theta."""
        centre = weight @ features
        spread = np.sqrt(np.maximum(weight @ np.square(features - centre), 0.0))
        unit = np.where(spread > 0, spread, 1.0)
        scaled = (features - centre) / unit  # so that nothing cancels, and errors are in sds of one record
        mean, covariance, third = self.tilt.totals(x, weight, scaled)
        return self.n * centre + unit * mean, covariance * np.outer(unit, unit), third * unit**3


@dataclass(frozen=True, slots=True, eq=False)
class SumMoments:
    """Mean (K, d), covariance (K, d, d) and third central moments (K, d) of sums."""

    mean: Array
    covariance: Array
    third: Array

    def put(self, row: int, mean: Floats, covariance: Floats, third: Floats) -> None:
        self.mean[row], self.covariance[row], self.third[row] = mean, covariance, third


class Tilt(Protocol):
    """What answers say of the records that gave them."""

    @property
    def size(self) -> int:
        """How many answers there are."""
        ...

    @property
    def kinks(self) -> tuple[float, ...]:
        """Where panels of nodes are cut for its sake."""
        ...

    @property
    def truths(self) -> int:
        """How many numbers the true answers are told by."""
        ...

    @property
    def divisor(self) -> float: ...
    def truth(self, x: Array) -> Floats:
        """The true answer at the nodes, (M, truths)."""
        ...

    def totals(self, x: Array, weight: Array, features: Floats) -> tuple[Floats, Floats, Floats]:
        """Mean, covariance and third moments of the features summed over the answers' records."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class CellTilt:
    """Answers in cells, by randomized response: as many laws of a record as there are cells."""

    statistic: Records
    schema: Schema
    column: str
    counts: Floats
    keep: float
    kinks: tuple[float, ...]

    @classmethod
    def of(cls, release: NoisyValue, column: str) -> CellTilt:
        statistic = release.statistic
        assert isinstance(statistic, Records)
        edges = statistic.cells or ()
        inside = tuple(statistic.feature.between(edge, edge) for edge in edges)  # bends at the edges of the cells
        kinks = kinks_of((statistic.feature, *inside), release.schema, column)
        counts = np.array(release.value, dtype=float)
        return cls(statistic, release.schema, column, counts, float(cell_law(release.law).keep), kinks)

    @property
    def size(self) -> int:
        return int(self.counts.sum())

    @property
    def truths(self) -> int:
        return int(self.counts.size)

    @property
    def divisor(self) -> float:
        return 1.0

    def truth(self, x: Array) -> Floats:
        return np.asarray(np.eye(self.counts.size)[self._cell(x)], np.float64)

    def totals(self, x: Array, weight: Array, features: Floats) -> tuple[Floats, Floats, Floats]:
        chances = response_matrix(keep=self.keep, cells=self.counts.size)[self._cell(x)].T  # (answers, M)
        found = _conditional(chances * weight, features)
        return _unpacked(self.counts @ found, features.shape[1])

    def _cell(self, x: Array) -> Ints:
        return np.asarray(self.statistic.cell({self.column: x}, self.schema), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class NumberTilt:
    """Numbers with Laplace or Gaussian noise: every answer has a law of its own record."""

    law: LocalAnswers

    @property
    def size(self) -> int:
        return int(self.law.answers.size)

    @property
    def kinks(self) -> tuple[float, ...]:
        return self.law.kinks

    @property
    def truths(self) -> int:
        return 1

    @property
    def divisor(self) -> float:
        return float(self.size)

    @cached_property
    def summed(self) -> Summed | None:
        """Gaussian answers through few nodes; Laplace ones are summed by a recursion, however many there are."""
        answers = self.law.answers
        is_many = not self.law.is_laplace and answers.size >= FEWEST and np.ptp(answers) > 0
        return Summed.of(answers) if is_many else None

    def truth(self, x: Array) -> Floats:
        schema = self.law.releases[0].schema
        values = self.law.feature.value({self.law.column: x}, schema)
        return np.asarray(np.broadcast_to(values, x.shape), float)[:, None]

    def totals(self, x: Array, weight: Array, features: Floats) -> tuple[Floats, Floats, Floats]:
        d, values = features.shape[1], self.truth(x)[:, 0]
        if self.summed is not None:
            total, error = self.summed.total(self._each(self.summed.points, values, weight, features).T)
            mean, covariance, third = _unpacked(total, d)
            least = np.sqrt(np.maximum(np.diagonal(covariance), 1e-300))
            if np.all(error[:d] <= LARGEST_ERROR * least) and np.all(
                error[d : d + d * d] <= LARGEST_ERROR * np.outer(least, least).ravel()
            ):
                return mean, covariance, third
        each = max(1, MOST_ENTRIES // max(values.size, 1))
        answers = self.law.answers
        pieces = [answers] if self.law.is_laplace else np.split(answers, range(each, answers.size, each))
        return _unpacked(np.sum([self._each(y, values, weight, features).sum(axis=0) for y in pieces], axis=0), d)

    def _each(self, y: Array, values: Floats, weight: Array, features: Floats) -> Floats:
        """What each answer's record is expected to be: packed moments (answers, .)."""
        if not self.law.is_laplace:
            return _conditional(self._joint(y, values, weight), features)
        columns = weight[:, None] * _with_products(features)
        total = local_general.laplace_sums(
            y, nodes=values, weights=np.column_stack([weight, columns]), scale=self.law.scale
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = total[:, 1:] / total[:, :1]
        found = _centred(expected, features.shape[1])
        lost = ~(total[:, 0] > TINIEST)
        if lost.any():
            found[lost] = _conditional(self._joint(y[lost], values, weight), features)
        return found

    def _joint(self, y: Array, values: Floats, weight: Array) -> Floats:
        """w_m h(y | x_m) of each answer, up to a factor: (answers, M)."""
        log = self.law.log_noise_of(y[:, None] - values) + np.log(weight)
        return np.asarray(np.exp(log - log.max(axis=1, keepdims=True)))


def _with_products(features: Floats) -> Floats:
    """f, f f' and f^3 side by side: (M, d + d^2 + d)."""
    products = features[:, :, None] * features[:, None, :]
    return np.concatenate([features, products.reshape(len(features), -1), features**3], axis=1)


def _conditional(joint: Floats, features: Floats) -> Floats:
    """Packed central moments of the features under each row of weights (answers, M)."""
    share = joint / joint.sum(axis=1, keepdims=True)
    return _centred(share @ _with_products(features), features.shape[1])


def _centred(expected: Floats, d: int) -> Floats:
    """E f, Cov f and the third central moments, from E f, E f f' and E f^3, side by side."""
    mean = expected[:, :d]
    second = expected[:, d : d + d * d].reshape(-1, d, d)
    squares = np.diagonal(second, axis1=1, axis2=2)
    third = expected[:, d + d * d :] - 3 * mean * squares + 2 * mean**3
    covariance = second - mean[:, :, None] * mean[:, None, :]
    return np.concatenate([mean, covariance.reshape(len(mean), -1), third], axis=1)


def _unpacked(total: Floats, d: int) -> tuple[Floats, Floats, Floats]:
    covariance = total[d : d + d * d].reshape(d, d)
    return total[:d], 0.5 * (covariance + covariance.T), total[d + d * d :]
