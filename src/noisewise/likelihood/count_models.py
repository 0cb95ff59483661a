"""Releases of counts, scored by the statistic's own law at every n.

    CountModel   one or several releases of the same count      s ~ Binomial(n, p(theta))
    TableModel   a Histogram, or the Marginals of one clique    s ~ Multinomial(n, p(theta))
    CellsModel   Records under randomized response              answers ~ Multinomial(n, p(theta) R)

p(theta) is the law of one *cleaned* record's cell (`populations.cleaned`), so clamping and truncation are inside, and
    d log p(y | theta)/d theta = sum_j E[s_j | y, theta]/p_j dp_j/d theta.
Where p(theta) is itself the parameter, with a beta or Dirichlet prior, `conjugate` offers independent draws from the
exact posterior (a mixture of conjugate ones, Bernstein & Sheldon 2018 without its central limit theorem).

A mean or a sum of one condition is its count on a finer lattice, and scored as such: only its noise differs.

Promise: nothing is approximated; log-likelihoods are log-probabilities of the published integers, to 9 digits or more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from noisewise.errors import InvalidArgument, Unregistered, Unsupported
from noisewise.laws import DiscreteLaplace, Form, action_law, additive_law, cell_law, normal_mixture
from noisewise.likelihood import binomial_laplace, binomial_sum, cells, conjugate
from noisewise.likelihood.binomial_sum import BinomialSum
from noisewise.likelihood.differences import central_difference
from noisewise.likelihood.large_table import LargeTable
from noisewise.likelihood.model import GroupLaw, Parameters, scalar_supports
from noisewise.likelihood.normal_sum import row_of
from noisewise.likelihood.table_sum import PoissonCells, TableSum
from noisewise.populations.cleaned import attach, cell_probabilities
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import AnyPopulation
from noisewise.release import NoisyValue
from noisewise.statistics import Count, Histogram, Marginals, Records
from noisewise.statistics.tables import refuse_tied

__all__ = ["FARTHEST", "MOST_WORK", "CellsModel", "CountModel", "TableLaw", "TableModel", "table_work"]

FARTHEST = 2e-20  # of the noise is beyond what is looked at
MOST_WORK = 300_000  # entries of the transforms of one row of theta: some 50 milliseconds


class _LaplaceNoise(NamedTuple):
    """A single noisy count in records, one record over the noise's scale, and its highest log-probability if finer."""

    y: float
    rate: float
    log_norm: float | None


@dataclass(frozen=True, slots=True)
class CountModel(GroupLaw):
    """Releases of the same count of the same records: their noise factors multiply given the count."""

    releases: tuple[NoisyValue, ...]
    population: AnyPopulation
    n: int
    is_exact: ClassVar[bool] = True
    is_quick: ClassVar[bool] = True
    cautions: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def of(cls, releases: tuple[NoisyValue, ...], population: AnyPopulation, *, n: int) -> CountModel:
        if not cls.counts(releases):
            raise Unsupported(
                "CountModel scores releases of one Count only, or of the mean or the sum of its condition. Releases of "
                "different counts of the same records have no joint law here; infer from one."
            )
        _check_same_records(releases)
        for release in releases:
            law = release.law
            if law.form not in (Form.NUMBER, Form.ACTION):
                raise Unsupported(f"A count has no likelihood under the law {law.family!r}.")
            if law.form is Form.ACTION and (rows := len(action_law(law).rows)) != n + 1:
                raise Unsupported(f"This estimator was made for counts up to {rows - 1}, not up to n = {n}.")
        _check_population(releases[0], population)
        return cls(releases, population, n)

    @classmethod
    def counts(cls, releases: tuple[NoisyValue, ...]) -> bool:
        """Whether all releases count by one and the same condition, each on a lattice that holds whole records."""
        if not all(release.statistic.kind in ("count", "mean", "sum") for release in releases):
            return False
        rows = {row_of(release) for release in releases}
        if len(rows) != 1 or len(row := rows.pop()) != 1:
            return False
        try:
            Count(row[0])
        except InvalidArgument:  # not a condition
            return False
        return all(float(_record_steps(release)).is_integer() for release in releases)

    @property
    def count(self) -> Count:
        """What is counted."""
        return Count(row_of(self.releases[0])[0])

    @property
    def because(self) -> str:
        """Which law, and why."""
        law = f"the count of {self.n} records is binomial"
        if not self._is_log_concave:
            return f"exact: {law}, and every value it can take is summed over"
        if self._is_single_laplace:
            return f"exact: {law}, and its sum with discrete Laplace noise is closed"
        if len(self.releases) > 1:
            return f"exact: {law}, and it is summed over given all {len(self.releases)} releases of it"
        return f"exact: {law}, and summed over wherever it matters"

    def probability(self, theta: Theta) -> Array:
        """p(theta), that one record is counted, (K,)."""
        return cell_probabilities(self.population, self.releases[0].schema, self.count, theta)[:, 1]

    def log_noise(self, s: Array) -> Array:
        """log P(y_1, y_2, ... | s)."""
        total = np.zeros(np.shape(s))
        for release in self.releases:
            law, y = release.law, release.value[0]
            if law.form is Form.ACTION:
                total = total + action_law(law).log_pmf(np.full(np.shape(s), y), np.asarray(s).astype(np.int64))
            else:
                total = total + additive_law(law).log_pmf(float(y) - _record_steps(release) * np.asarray(s))
        return total

    def log_likelihood(self, theta: Theta) -> Array:
        p = self.probability(theta)
        if self._is_single_laplace:
            noise = self._laplace
            return binomial_laplace.log_likelihood(p, y=noise.y, n=self.n, rate=noise.rate, log_norm=noise.log_norm)
        return self._summed(p).log_total

    def score(self, theta: Theta) -> dict[str, Array]:
        slope = self._slope(self.probability(theta))
        supports = scalar_supports(self.population)
        return {name: slope * central_difference(self.probability, theta, name, support)
                for name, support in supports.items()}  # fmt: skip

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """s | y, theta, exactly: (K, 1); as a share of all records where only means of it were released."""
        p = self.probability(theta)
        divisors = {release.divisor for release in self.releases}
        read = divisors.pop() if len(divisors) == 1 else 1
        if not self._is_log_concave:
            return binomial_sum.draw_enumerated(rng, p, self._every_log_noise())[:, None] / read
        return binomial_sum.draw_count(rng, p, self.log_noise, self.log_likelihood(theta), n=self.n)[:, None] / read

    def latent(self, parameters: Parameters) -> None:
        """None: the count is already summed out."""

    @property
    def beta_prior(self) -> conjugate.BetaPrior | None:
        """The unknown that p(theta) is (or is 1 minus), where its prior is a beta law; else None."""
        return conjugate.beta_prior(self.population, self.releases[0].schema, self.count)

    def beta_posterior(self, prior: conjugate.BetaPrior) -> conjugate.BetaPosterior:
        """The exact posterior of that unknown, as a mixture of beta laws."""
        log_concave = self.log_noise if self._is_log_concave else None
        return conjugate.BetaPosterior.of(prior, self.n, log_concave, self._every_log_noise)

    def conjugate(self) -> conjugate.BetaPosterior | conjugate.MergedPosterior | None:
        """That mixture where the prior is a beta law, or a Dirichlet law of levels, and counts can be mixed over."""
        prior, merged = self.beta_prior, None
        if prior is None:
            merged = conjugate.merged_prior(self.population, self.count.condition.columns(), self._chances)
            if merged is None:
                return None
            others, counted = merged.merged
            prior = conjugate.BetaPrior(merged.name, counted, others)
        try:
            found = self.beta_posterior(prior)
        except Unsupported:  # too many counts: the parameter is integrated instead
            return None
        return found if merged is None else conjugate.MergedPosterior(merged, found)

    def _chances(self, law: AnyPopulation, p: Array) -> Array:
        return cell_probabilities(law, self.releases[0].schema, self.count, {"p": p})

    @property
    def _is_log_concave(self) -> bool:
        """Whether noise falls ever faster from its peak; else every count is looked at."""
        laws = [release.law for release in self.releases]
        return all(law.form is Form.NUMBER and additive_law(law).is_log_concave for law in laws)

    @property
    def _is_single_laplace(self) -> bool:
        return len(self.releases) == 1 and self.releases[0].law.family == DiscreteLaplace.family

    @property
    def _laplace(self) -> _LaplaceNoise:
        (release,) = self.releases
        law, steps = additive_law(release.law), _record_steps(release)
        log_norm = None if steps == 1 else float(law.log_pmf(0.0))
        return _LaplaceNoise(release.value[0] / steps, steps / law.ratio_of(0), log_norm)

    def _every_log_noise(self) -> Array:
        return self.log_noise(np.arange(self.n + 1, dtype=float))

    def _summed(self, p: Array) -> BinomialSum:
        if not self._is_log_concave:
            return binomial_sum.enumerated_sum(p, self._every_log_noise())
        laws = [additive_law(release.law) for release in self.releases]
        is_smooth = not any(normal_mixture(law).is_laplace for law in laws)
        # A rounded Gaussian is at most as curved as its standard deviation with the rounding says.
        precision = sum(
            _record_steps(release) ** 2 / (law.ratio_of(0) ** 2 + 1 / 12)
            for release, law in zip(self.releases, laws, strict=True)
        )
        return binomial_sum.log_sum(
            p, self.log_noise, n=self.n, precision=precision if is_smooth else 0.0, is_smooth=is_smooth
        )

    def _slope(self, p: Array) -> Array:
        """d log p(y | p)/dp, (K,): E[s]/p - E[n-s]/q; at the ends by one record more or less."""
        if self._is_single_laplace:
            return binomial_laplace.score(p, y=self._laplace.y, n=self.n, rate=self._laplace.rate)
        found = self._summed(p)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            inner = found.counted / p - found.others / (1 - p)
            none, one, last, every = self.log_noise(np.array([0.0, 1.0, self.n - 1.0, float(self.n)]))
            ends = self.n * np.expm1(one - none), -self.n * np.expm1(last - every)
        return np.asarray(np.where(p == 0, ends[0], np.where(p == 1, ends[1], inner)))


class TableLaw(GroupLaw):
    """The law of a noisy table: what is common to the kinds of tables."""

    __slots__ = ()
    releases: tuple[NoisyValue, ...]
    population: AnyPopulation
    n: int

    @property
    def is_table(self) -> bool:
        return True

    def probabilities(self, theta: Theta) -> Array:
        """The law of the cell of one record, (K, m)."""
        raise NotImplementedError

    def log_noise(self, s: Array) -> Array:
        """log P(y_j | s) for s (R, m, ...), over all releases."""
        raise NotImplementedError

    def log_likelihood(self, theta: Theta) -> Array:
        return self._table(theta).log_likelihood()

    def score(self, theta: Theta) -> dict[str, Array]:
        supports = scalar_supports(self.population)
        if not supports:
            return {}
        p, means = self.probabilities(theta), self._table(theta).means()
        return {name: _pulled(means, p, central_difference(self.probabilities, theta, name, support))
                for name, support in supports.items()}  # fmt: skip

    def latent(self, parameters: Parameters) -> None:
        """None: the table is already summed out."""

    def _table(self, theta: Theta) -> TableSum:
        return TableSum(self.n, PoissonCells(self.n, self.probabilities(theta)), self.log_noise)


@dataclass(frozen=True, slots=True)
class TableModel(TableLaw):
    """Releases of the same table of the same records, each cell with its own noise."""

    releases: tuple[NoisyValue, ...]
    population: AnyPopulation
    n: int
    is_exact: ClassVar[bool] = True
    cautions: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def of(cls, releases: tuple[NoisyValue, ...], population: AnyPopulation, *, n: int) -> TableModel:
        _check_one_statistic(releases, (Histogram, Marginals), "TableModel")
        statistic = releases[0].statistic
        refuse_tied(statistic)
        if isinstance(statistic, Marginals) and len(statistic.cliques) != 1:
            raise Unsupported("The tables of several cliques share records; only one of them has an exact law.")
        for release in releases:
            if release.law.form is not Form.NUMBER:
                raise Unsupported(f"A table has no likelihood under the law {release.law.family!r}.")
            if not additive_law(release.law).is_log_concave:
                raise Unregistered(
                    f"The cells of a table are summed over under log-concave noise, and the law {release.law.family!r} "
                    "does not claim to be (`is_log_concave`).",
                    law=release.law.family,
                    piece="is_log_concave",
                )
        _check_population(releases[0], population)
        return cls(releases, population, n)

    @classmethod
    def is_affordable(cls, release: NoisyValue, *, n: int) -> bool:
        """True where one row of theta costs some 50 milliseconds at most: what the noise reaches times the cells."""
        if release.law.form is not Form.NUMBER:
            return False
        law = additive_law(release.law)
        reach = [law.reach(FARTHEST, k) * law.step[k] for k in range(law.size)]
        return table_work(law.sd, reach, n=n) <= MOST_WORK

    @property
    def because(self) -> str:
        cells = len(self.releases[0].value)
        return (
            f"exact: the {cells} cells of {self.n} records are multinomial, and every table that matters is summed over"
        )

    def probabilities(self, theta: Theta) -> Array:
        """The law of the cell of one record, (K, m)."""
        return _probabilities(self, theta)

    def log_noise(self, s: Array) -> Array:
        """log P(y_j | s) for s (R, m, ...), over all releases."""
        total = np.zeros(s.shape)
        for release in self.releases:
            law = additive_law(release.law)
            shape = (1, -1, *(1,) * (s.ndim - 2))
            # One record is one step, unless continuous noise of a measurement made elsewhere is on a finer lattice.
            residual = np.array(release.value, dtype=float).reshape(shape) - s / np.array(law.step).reshape(shape)
            ratios = np.array(law.ratio)
            for ratio in np.unique(ratios):
                same = np.flatnonzero(ratios == ratio)
                total[:, same] += law.log_pmf(residual[:, same], int(same[0]))
        return total

    @property
    def quick(self) -> LargeTable | None:
        """The same with the total by a saddlepoint, for proposals."""
        if not LargeTable.holds(self.releases, n=self.n):
            return None
        return LargeTable.of(self.releases, self.population, n=self.n, small=math.inf)

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """The whole table given y and theta, exactly: (K, m)."""
        return self._table(theta).draw(rng).astype(float)

    @property
    def dirichlet_prior(self) -> conjugate.DirichletPrior | None:
        """The unknown that the cell probabilities are, where its prior is a Dirichlet law; else None."""
        return conjugate.dirichlet_prior(self.population, self.releases[0])

    def dirichlet_posterior(self, prior: conjugate.DirichletPrior) -> conjugate.DirichletPosterior:
        """The exact posterior of that unknown, as a mixture of Dirichlet laws."""
        return conjugate.DirichletPosterior.of(prior, self.n, self.log_noise)

    def conjugate(self) -> conjugate.DirichletPosterior | None:
        """That mixture where the prior is a Dirichlet law."""
        return None if self.dirichlet_prior is None else self.dirichlet_posterior(self.dirichlet_prior)


@dataclass(frozen=True, slots=True)
class CellsModel(GroupLaw):
    """Answers under randomized response: their counts are multinomial, cell by cell through the response matrix."""

    releases: tuple[NoisyValue, ...]
    population: AnyPopulation
    n: int
    is_exact: ClassVar[bool] = True
    cautions: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def of(cls, releases: tuple[NoisyValue, ...], population: AnyPopulation, *, n: int) -> CellsModel:
        if len(releases) != 1:
            raise Unsupported(
                "Two sets of answers of the same people have no joint law that can be computed; ask disjoint parts."
            )
        if not isinstance(releases[0].statistic, Records) or releases[0].law.form is not Form.CELL:
            raise Unsupported(f"{releases[0].statistic} did not come through randomized response.")
        _check_population(releases[0], population)
        return cls(releases, population, n)

    @property
    def because(self) -> str:
        return f"exact: {self.n} answers under randomized response are multinomial"

    def probabilities(self, theta: Theta) -> Array:
        """The law of the true cell of one record, (K, m)."""
        return _probabilities(self, theta)

    def log_likelihood(self, theta: Theta) -> Array:
        counts = self._counts
        ways = float(gammaln(self.n + 1) - np.sum(gammaln(counts + 1)))
        return ways + cells.log_likelihood(counts, self.probabilities(theta), keep=self._keep)

    def score(self, theta: Theta) -> dict[str, Array]:
        pull = cells.score(self._counts, self.probabilities(theta), keep=self._keep)
        return {
            name: np.asarray(np.sum(pull * central_difference(self.probabilities, theta, name, support), axis=-1))
            for name, support in scalar_supports(self.population).items()
        }

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """The true cell counts given the answers and theta: of c_j answers j, cell i has a share p_i R_ij/q_j."""
        return cells.draw_cells(rng, self._counts, self.probabilities(theta), keep=self._keep)

    def latent(self, parameters: Parameters) -> None:
        """None: the true cells are already summed out."""

    @property
    def _counts(self) -> Array:
        return np.array(self.releases[0].value, dtype=float)

    @property
    def _keep(self) -> float:
        return float(cell_law(self.releases[0].law).keep)


Model = TableModel | CellsModel


def table_work(sd: ArrayLike, reach: ArrayLike, *, n: int) -> float:
    """Entries of the transforms of one row of theta: cells whose noise has an sd and a reach, in records."""
    widest = float(np.sqrt(n)) * 0.5
    far, wide = np.minimum(reach, 10 * widest) + 50, np.minimum(sd, widest)
    circle = max(24 * float(np.sqrt(np.sum(np.square(wide)))) + 100, 4 * float(np.max(far)))
    return np.size(sd) * circle


def _probabilities(model: Model, theta: Theta) -> Array:
    release = model.releases[0]
    assert isinstance(release.statistic, Histogram | Marginals | Records)
    return cell_probabilities(model.population, release.schema, release.statistic, theta)


def _pulled(means: Array, p: Array, slopes: Array) -> Array:
    """sum_j E[s_j]/p_j dp_j; a cell without probability has no records and pulls nothing."""
    return np.asarray(np.sum(np.where(p > 0, means / np.where(p > 0, p, 1.0), 0.0) * slopes, axis=-1))


def _record_steps(release: NoisyValue) -> float:
    """What one record adds to a count, in lattice steps."""
    return 1 / additive_law(release.law).step[0] if release.law.form is Form.NUMBER else 1.0


def _check_one_statistic(releases: tuple[NoisyValue, ...], kinds: tuple[type, ...], name: str) -> None:
    if not releases or not all(isinstance(release.statistic, kinds) for release in releases):
        words = " or ".join(kind.__name__ for kind in kinds)
        raise Unsupported(f"{name} scores releases of {words} only.")
    if any(release.statistic != releases[0].statistic for release in releases):
        raise Unsupported("Releases of different tables of the same records have no joint law here; infer from one.")
    _check_same_records(releases)


def _check_same_records(releases: tuple[NoisyValue, ...]) -> None:
    if any((release.dataset, release.part) != (releases[0].dataset, releases[0].part) for release in releases):
        raise Unsupported("Releases of different records are independent: their log-likelihoods add.")


def _check_population(release: NoisyValue, population: AnyPopulation) -> None:
    """Refuse now, in one sentence, a population that does not describe the columns."""
    attach(population, release.schema, release.statistic.columns())
