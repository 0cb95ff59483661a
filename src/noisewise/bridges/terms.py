"""What a release says about one record's moments or chances: one term of a model, for whichever library samples it.

The sums of n records are U ~ N(n m, n C), with m and C the mean and covariance of one record's released features, as
they were summed (clamped to the bounds, if values were). Published is y = U + noise:
    Gaussian noise           y ~ N(n m, n C + diag sd^2)                                            closed
    Laplace, one component   the normal-Laplace density (Reed & Jorgensen 2004)                    closed
    Laplace, several         V_j ~ N(0, 2 b_j^2 E_j), E_j ~ Exponential(1) sampled with the model  closed given E
Counts are whole numbers, and scored as such:
    a count                  s ~ Binomial(n, p), every s (of very many, those near the published)  exact
    a table                  s ~ Multinomial(n, p): Poisson numbers given their total              see below
    answers                  counts ~ Multinomial(n, p R) under randomized response                exact
The cells S_j of a table are Poisson(n p_j e^t) given that they sum to n, whatever t is. Given y_j each is summed over
by itself; their total has its mean at n for one t, and there its probability at n is taken from the normal law with a
correction for its third and fourth cumulants (the saddle point of Daniels 1954). Checked against the exact law of
tables of 20 to 4000 records: docs/extend.md says how near.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, cast

import numpy as np
from scipy.special import gammaln

from noisewise.bridges.arrays import Arrays, Tensor, log_mills, stacked
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.joining import Joined, joined, refuse_left_out
from noisewise.laws import additive_law, cell_law, normal_mixture
from noisewise.likelihood.joint import checked_releases
from noisewise.release import NoisyValue
from noisewise.statistics import Sort
from noisewise.types import Floats

__all__ = ["Given", "ObservedTerm", "term_of"]

LOG_2PI = float(np.log(2 * np.pi))
FARTHEST = 1e-17  # of the noise is beyond the counts that are summed over
MOST_POINTS = 200_000  # counts that are summed over in one term
EVERY_POINT = 10_000  # with no more than these in all, every count is
STEPS = 4  # of Newton's method towards the tilt of a table
TINY = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """What the model says of one record: its moments, or the chances of its cells."""

    mean: Tensor = None
    covariance: Tensor = None
    probabilities: Tensor = None

    def only(self, *names: str) -> tuple[Tensor, ...]:
        """These members, all of them stated and no other."""
        members = {"mean": self.mean, "covariance": self.covariance, "probabilities": self.probabilities}
        for name, value in members.items():
            if (value is None) is (name in names):
                raise InvalidArgument(
                    f"{name} {'is missing' if value is None else 'has no place here'}: this release is observed by "
                    f"{' and '.join(f'{needed}=' for needed in names)} of one record.",
                    argument=name,
                )
        return tuple(members[name] for name in names)


class ObservedTerm(Protocol):
    """log p(release | what the model says of one record)."""

    @property
    def mixing(self) -> int:
        """How many exponential numbers are sampled with the model, for noise that is normal only given them."""

    def log_density(self, arrays: Arrays, given: Given, exponentials: Tensor) -> Tensor:
        """A number of the library's own kind, up to a constant."""


def term_of(releases: NoisyValue | Sequence[NoisyValue], *, given: Given, n: object = None) -> ObservedTerm:
    """The term of one release, or of several of the same records, by what the model says of a record.

    Sums, means and several counts are observed by moments; a count, a table and local answers by chances.
    """
    together = joined(checked_releases(releases), n)
    _check_one_group(together)
    members, size = together.releases, together.sizes[0]
    refuse_left_out(members, "a bridge")
    (first, *rest) = members
    if first.statistic.is_local:
        if rest or not first.is_categorical:
            raise Unsupported(
                "A bridge observes local answers in cells (randomized response), alone. Noisy answers that are numbers "
                "have a law for each of them: use likelihood_of(release, population)."
            )
        return AnsweredCells.of(first, given)
    if any(release.statistic.sort not in ADDED for release in members):
        raise Unsupported(
            "A bridge observes sums, means, counts, tables and answers in cells, whose noise has a public scale. Of "
            "order statistics and quantiles use likelihood_of(release, population)."
        )
    if given.probabilities is None:
        return NormalSums.of(members, size, given)
    given.only("probabilities")
    if rest or not (first.statistic.sort is Sort.COUNT or _is_one_table(first)):
        raise Unsupported(
            "probabilities= are the chances of the cells of one count or one table. Several cliques, or several "
            "releases of the same records, overlap: observe them by mean= and covariance= of their 0/1 features."
        )
    cells = CountedTable.of(first, size)
    return cells if len(first.value) > 1 else CountTerm(cells.places[0], cells.log_noise[0], size)


ADDED = (Sort.SUMS, Sort.COUNT, Sort.TABLE)


def _check_one_group(together: Joined) -> None:
    if len(together.groups) > 1:
        raise InvalidArgument(
            "observe takes releases of the same records together. Observe those of other records by terms of their "
            "own, one observe(...) for each data set: given the parameters they are independent.",
            argument="release",
        )


def _is_one_table(release: NoisyValue) -> bool:
    """Whether the cells are those of one table: every record is in exactly one."""
    entries = release.statistic.to_dict()
    cliques = cast("Sequence[object]", entries.get("cliques", ()))
    return entries["kind"] == "histogram" or len(cliques) == 1


def checked_shape(arrays: Arrays, value: Tensor, wanted: tuple[int, ...], argument: str) -> Tensor:
    """The array, refused where its shape is known and another one."""
    made = stacked(arrays, value)
    shape = arrays.shape(made)
    if len(shape) != len(wanted) or any(own not in (None, size) for own, size in zip(shape, wanted, strict=True)):
        raise InvalidArgument(
            f"{argument} has shape {shape}, and of this release it is {wanted}: one entry for each component, in the "
            "order of release.labels.",
            argument=argument,
        )
    return made


# ---- sums ----


@dataclass(frozen=True, slots=True, eq=False)
class NormalSums:
    """Noisy sums of the same n records, in units of their own noise."""

    observed: Floats  # sums over their noise's scale, (d,)
    scale: Floats  # Laplace's b, or the sd
    is_laplace: Floats  # 1 where it is Laplace noise
    n: int

    @classmethod
    def of(cls, releases: Sequence[NoisyValue], n: int, given: Given) -> NormalSums:
        given.only("mean", "covariance")
        laws = [additive_law(release.law) for release in releases]
        scale = np.concatenate([normal_mixture(law).scale for law in laws])
        step = np.concatenate([law.step for law in laws])
        kinds = np.concatenate([np.full(law.size, float(normal_mixture(law).is_laplace)) for law in laws])
        value = np.concatenate([np.array(release.value, dtype=float) for release in releases])
        return cls(value * step / scale, scale, kinds, n)

    @property
    def mixing(self) -> int:
        return int(self.is_laplace.sum()) if len(self.scale) > 1 else 0

    def log_density(self, arrays: Arrays, given: Given, exponentials: Tensor) -> Tensor:
        d = len(self.scale)
        if d == 1 and arrays.shape(stacked(arrays, given.mean)) == ():
            given = Given([given.mean], [[given.covariance]])
        mean = checked_shape(arrays, given.mean, (d,), "mean") * (self.n / self.scale)
        spread = checked_shape(arrays, given.covariance, (d, d), "covariance")
        covariance = spread * (self.n / np.outer(self.scale, self.scale))
        away = self.observed - mean
        if d == 1 and self.is_laplace[0]:
            return _normal_laplace(arrays, away[0], covariance[0, 0])
        variance = np.ones(d)
        if self.mixing:
            # E_j stands where component j is Laplace: a matrix of zeros and ones puts each in its place.
            places = np.eye(d)[:, self.is_laplace > 0]
            variance = (1 - self.is_laplace) + 2 * arrays.sum(places * exponentials, axis=-1)
        root = arrays.root(covariance + np.eye(d) * variance)
        z = arrays.solve_lower(root, away)
        return -0.5 * arrays.sum(z * z) - arrays.sum(arrays.log(arrays.diagonal(root))) - 0.5 * d * LOG_2PI


def _normal_laplace(arrays: Arrays, away: Tensor, variance: Tensor) -> Tensor:
    """log density at `away` of N(0, variance) + Laplace(1)."""
    tau = arrays.sqrt(arrays.maximum(variance, 1e-24))
    z = away / tau
    left, right = log_mills(arrays, tau - z), log_mills(arrays, tau + z)
    top = arrays.maximum(left, right)
    return top + arrays.log(arrays.exp(left - top) + arrays.exp(right - top)) - 0.5 * z * z - float(np.log(2))


# ---- whole numbers ----


@dataclass(frozen=True, slots=True, eq=False)
class CountedTable:
    """A noisy table of n records: which counts each cell may have had, and how likely the published one is then."""

    places: Floats  # (m, R) counts, from the lowest that matters on
    log_noise: Floats  # (m, R) log P(y_j | s_j = place); minus infinity beyond the last
    n: int
    mixing: ClassVar[int] = 0

    @classmethod
    def of(cls, release: NoisyValue, n: int) -> CountedTable:
        law, m = additive_law(release.law), len(release.value)
        steps = [1 / step for step in law.step]  # of one record; a power of two, so exact
        reach = [law.reach(FARTHEST, j) / steps[j] + 1 for j in range(m)]
        centre = [min(max(release.value[j] / steps[j], 0.0), float(n)) for j in range(m)]
        low = [max(0, int(centre[j] - reach[j])) for j in range(m)]
        width = max(min(n, int(centre[j] + reach[j]) + 1) - low[j] + 1 for j in range(m))
        if (n + 1) * m <= EVERY_POINT:
            low, width = [0] * m, n + 1
        if width * m > MOST_POINTS:
            raise Unsupported(
                f"{m} cells with {width} counts each that the noise may have come from are too many to be summed over. "
                "Noise this wide hides that counts are whole: observe the release by mean= and covariance= of its 0/1 "
                "features, which are p and diag(p) - p p'."
            )
        places = np.array(low, dtype=float)[:, None] + np.arange(width, dtype=float)
        noise = np.array([law.log_pmf(float(release.value[j]) - steps[j] * places[j], j) for j in range(m)])
        return cls(places, np.where(places <= n, noise - noise.max(axis=1, keepdims=True), -np.inf), n)

    def log_density(self, arrays: Arrays, given: Given, exponentials: Tensor) -> Tensor:
        m = len(self.places)
        p = checked_shape(arrays, given.probabilities, (m,), "probabilities")
        base = np.where(np.isfinite(self.log_noise), self.log_noise - gammaln(self.places + 1), -1e30)
        # s log(n p) of a cell that cannot be is 0 at s = 0, and hopeless elsewhere.
        log_mean = arrays.log(arrays.maximum(self.n * p, TINY))[:, None]
        tilt = arrays.sum(0.0 * p)
        for _ in range(STEPS):
            _, mean, central = self._moments(arrays, base + self.places * (log_mean + tilt))
            tilt = tilt + arrays.clip((self.n - arrays.sum(mean)) / (arrays.sum(central[0]) + 1e-12), -1.0, 1.0)
        log_mass, mean, central = self._moments(arrays, base + self.places * (log_mean + tilt))
        second, third, fourth = (arrays.sum(one) for one in central)
        fourth = fourth - 3 * arrays.sum(central[0] * central[0])  # the fourth cumulant of a sum
        short = self.n - arrays.sum(mean)
        second = second + 1e-12
        correction = fourth / (8 * second**2) - 5 * third**2 / (24 * second**3)
        # With all cells pinned the total is one whole number, and its law is no density: the correction is kept small.
        at_n = -0.5 * (arrays.log(second) + short**2 / second) + arrays.clip(correction, -0.5, 0.5)
        return arrays.sum(log_mass) + at_n - self.n * tilt

    def _moments(self, arrays: Arrays, log_weights: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor]]:
        """log mass, mean and central moments two to four of every cell."""
        top = arrays.max(log_weights, axis=-1)
        weights = arrays.exp(log_weights - top[:, None])
        mass = arrays.sum(weights, axis=-1)
        weights = weights / mass[:, None]
        mean = arrays.sum(weights * self.places, axis=-1)
        away = self.places - mean[:, None]
        square = away * away
        central = tuple(arrays.sum(weights * one, axis=-1) for one in (square, square * away, square * square))
        return arrays.log(mass) + top, mean, cast("tuple[Tensor, Tensor, Tensor]", central)


@dataclass(frozen=True, slots=True, eq=False)
class CountTerm:
    """A noisy count: binomial, and summed over wherever the noise may have come from."""

    places: Floats
    log_noise: Floats
    n: int
    mixing: ClassVar[int] = 0

    def log_density(self, arrays: Arrays, given: Given, exponentials: Tensor) -> Tensor:
        p = checked_shape(arrays, given.probabilities, (), "probabilities")
        can_be = np.isfinite(self.log_noise)
        s, noise = self.places[can_be], self.log_noise[can_be]
        ways = gammaln(self.n + 1) - gammaln(s + 1) - gammaln(self.n - s + 1)
        yes, no = (arrays.log(arrays.maximum(one, TINY)) for one in (p, 1 - p))
        terms = noise + ways + s * yes + (self.n - s) * no
        top = arrays.max(terms)
        return top + arrays.log(arrays.sum(arrays.exp(terms - top)))


@dataclass(frozen=True, slots=True, eq=False)
class AnsweredCells:
    """Answers that may be untrue: each is the true cell with a known chance."""

    counts: Floats
    keep: float
    other: float
    mixing: ClassVar[int] = 0

    @classmethod
    def of(cls, release: NoisyValue, given: Given) -> AnsweredCells:
        given.only("probabilities")
        law = cell_law(release.law)
        rows = np.array(law.rows(), dtype=float)
        return cls(np.array(release.value, dtype=float), float(rows[0, 0]), float(rows[0, 1]))

    def log_density(self, arrays: Arrays, given: Given, exponentials: Tensor) -> Tensor:
        p = checked_shape(arrays, given.probabilities, (len(self.counts),), "probabilities")
        answered = self.other * arrays.sum(p) + (self.keep - self.other) * p
        return arrays.sum(self.counts * arrays.log(answered))
