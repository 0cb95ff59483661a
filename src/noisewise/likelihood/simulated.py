"""Releases of records that a function draws (`populations.simulator`): every law, by a bank of simulated records.

    sums, means, grouped sums, several tables     normal, by the central limit theorem: per-record mean and covariance
                                                  from the bank of B records, the sum of n of them with the variance
                                                  n C (1 + n/B), which has the bank's own error inside
    counts, one table, randomized response        their own laws, at the shares of cells in the bank
    local answers with noise                      sum_i log sum_m share_m h(y_i - g_m): the noise averaged over the
                                                  bank, which is laid on equally spaced places g_m once for each theta
    few records; medians, maxima, quantiles;      B/n whole data sets, over which the noise of all releases of the same
    any of them beside sums of the same records   records is averaged: p(y | theta) = mean_b prod_r h_r(y_r | x_b)

The same random streams serve every theta, so each of these is a function of theta. Its error comes from batches: eight
of them are independent, and the log-likelihoods l_(k) without batch k tell by the jackknife
    error^2 = 7/8 sum_k (l_(k) - mean l_(.))^2,
and, with posterior draws weighted by exp(l_(k) - l), what that does to a posterior mean (`bank_effect`).

How large a bank must be follows from n: averages of B records are off by sqrt(n/B) of what n records are off by, less
where noise hides it. So B is 32 n times the share of a sum's variance that is not noise (64 where the law has no room
for the bank's own error), between 2^14 and 2^18 unless somebody says it (`Simulator.sized`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from noisewise.errors import Unsupported
from noisewise.laws import Form, additive_law, quantile_law
from noisewise.likelihood.any_noise import AnyNoiseSum, is_any_noise
from noisewise.likelihood.bank import log_noise
from noisewise.likelihood.bank_law import BankLaw
from noisewise.likelihood.count_models import CellsModel, CountModel, TableModel
from noisewise.likelihood.independent_sums import possible_records
from noisewise.likelihood.large_table import LargeTable
from noisewise.likelihood.model import GroupLaw, Parameters, numerical_score, scalar_supports
from noisewise.likelihood.normal_sum import Noise, NormalSum, row_of
from noisewise.likelihood.quantile_bank import log_normaliser
from noisewise.likelihood.record_points import unlisted_records
from noisewise.likelihood.scrambles import log_mean
from noisewise.populations.averages import N_BATCHES
from noisewise.populations.cleaned import attach, row_moments, single_rows
from noisewise.populations.drawing import Point
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.simulator import Simulator
from noisewise.release import NoisyValue
from noisewise.schema import Schema
from noisewise.statistics import Histogram, Marginals, Sort
from noisewise.statistics.enclosure import feature_range
from noisewise.statistics.feature import Feature
from noisewise.statistics.local import Records
from noisewise.statistics.order import quantile_statistic
from noisewise.types import Floats

__all__ = ["BankEffect", "SimulatedLaw", "SimulatedSets", "bank_effect", "simulated_law", "sized_for"]

SMALLEST, LARGEST, QUICK = 2**14, 2**18, 2**12  # records of a bank
SMOOTH, ROUGH = 1e-4, 1e-2  # how finely a likelihood is worth integrating
FOR_SUMS, FOR_CELLS = 32, 64  # records of a bank for each record that was summed
PRIOR_ROWS = 8
FEW_RECORDS = 100  # up to here sums are worth whole data sets
FEWEST_SETS, MOST_DRAWN = 1024, 2**22
NEGLIGIBLE = 0.05  # error of the log-likelihood of sums at which data sets are preferred to the theorem
PLACES, MOST_PLACES = 128, 8192  # of a feature that is answered locally, for each scale of the noise
POSSIBLE = 2048


class BankEffect(NamedTuple):
    """The Monte Carlo error of a log-likelihood, and how far it moves posterior means, in posterior sds."""

    error: float
    shift: float
    unknown: str  # the parameter that moves most


@dataclass(frozen=True, eq=False)
class SimulatedLaw(GroupLaw):
    """A law at the averages of a bank, with the error that the bank leaves."""

    simulator: Simulator
    make: Callable[[Simulator], Any]

    @cached_property
    def inner(self) -> Any:
        """The law at the whole bank."""
        return self.make(self.simulator)

    @property
    def releases(self) -> tuple[NoisyValue, ...]:
        return tuple(self.inner.releases)

    @property
    def population(self) -> Simulator:
        return self.simulator

    @property
    def n(self) -> int:
        return int(self.inner.n)

    @property
    def is_exact(self) -> bool:
        return bool(self.inner.is_exact)

    @property
    def cautions(self) -> tuple[str, ...]:
        return tuple(self.inner.cautions)

    @property
    def because(self) -> str:
        law = str(self.inner.because).removeprefix("exact: ")
        return f"by a bank of {self.simulator.bank_size} simulated records: {law}"

    @property
    def settled(self) -> Simulator:
        return self.simulator

    @cached_property
    def roughness(self) -> float:
        """Cells, and a function that rejects draws, make log p jump wherever theta moves: no work for a quadrature.

        With two unknowns a quadrature would ask for more parameters than a bank can bear.
        """
        is_line = sum(support.unknowns for support in self.simulator.supports.values()) == 1
        return SMOOTH if is_line and not self.inner.is_exact and self.simulator.is_smooth else ROUGH

    @property
    def quick(self) -> SimulatedLaw | None:
        """The same by a smaller bank; the error of its sums is inside, so that it is the wider law."""
        size = max(QUICK, self.simulator.bank_size // 16)
        return replace(self, simulator=self.simulator.sized(size)) if self.simulator.bank_size > size else None

    def log_likelihood(self, theta: Theta) -> Array:
        return np.asarray(self.inner.log_likelihood(theta))

    def score(self, theta: Theta) -> dict[str, Array]:
        """By differences at common random streams."""
        return dict(self.inner.score(theta))

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        return np.asarray(self.inner.draw_statistic(rng, theta))

    def left_out_logs(self, theta: Theta) -> Array | None:
        """log p without each of the batches, (K, 8); None while noise is mixed over theta."""
        if self.mixing:
            return None
        laws = [self.make(self.simulator.without(k)) for k in range(N_BATCHES)]
        # Row by row, so that one bank of records serves all eight whatever is remembered.
        rows = [np.concatenate([law.log_likelihood(row) for law in laws]) for row in single_rows(theta)]
        return np.stack(rows)

    def error(self, theta: Theta) -> Array:
        """The Monte Carlo standard error of log p(y | theta), (K,)."""
        logs = self.left_out_logs(theta)
        return np.full(rows_of(theta), np.nan) if logs is None else _jackknife(logs)

    # ---- sums under several Laplace noises ----

    @property
    def mixing(self) -> int:
        return int(self.inner.mixing)

    @property
    def mixing_scale(self) -> Array:
        return np.asarray(self.inner.mixing_scale)

    def integrated(self) -> SimulatedLaw | None:
        if not self.mixing:
            return self
        if self.inner.integrated() is None:
            return None
        return SimulatedLaw(self.simulator, lambda simulator: self.make(simulator).integrated())

    def log_likelihood_given(self, theta: Theta, variances: Array) -> Array:
        return np.asarray(self.inner.log_likelihood_given(theta, variances))

    def latent(self, parameters: Parameters) -> Any:
        return self.inner.latent(parameters)

    # ---- sums as they are checked ----

    def moments(self, theta: Theta) -> tuple[Array, Array]:
        """The mean and covariance of the sums."""
        mean, covariance = self._sums.moments(theta)
        return mean, covariance

    @property
    def noise(self) -> Noise:
        return self._sums.noise

    @property
    def observed(self) -> Array:
        return self._sums.observed

    @property
    def _sums(self) -> NormalSum:
        return NormalSum(self.releases, self.simulator, n=self.n)


def _jackknife(logs: Array) -> Array:
    """The standard error (K,) of a number from its values without each of the batches (K, 8)."""
    return np.asarray(np.sqrt((N_BATCHES - 1) * np.var(logs, axis=1)))


def bank_effect(groups: Sequence[Any], theta: Theta) -> BankEffect | None:
    """What the banks behind these laws leave open, at rows of theta drawn from the posterior; None without a bank."""
    left_out = [logs for group in groups if (logs := group.left_out_logs(theta)) is not None]
    if not left_out:
        return None
    logs = np.sum(left_out, axis=0)
    usable = np.isfinite(logs).all(axis=1)
    if np.count_nonzero(usable) < N_BATCHES:
        return BankEffect(math.inf, math.inf, next(iter(theta), ""))
    logs = logs[usable]
    # Weights exp(l_(k) - l) to first order: a posterior mean moves by Cov(theta, l_(k)). The constants cancel.
    shift, unknown = 0.0, next(iter(theta), "")
    for name, value in theta.items():
        columns = np.asarray(value, np.float64)[usable].reshape(len(logs), -1)
        sd = columns.std(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            away = np.where(sd > 0, (columns - columns.mean(axis=0)) / sd, 0.0)
        moved = float(np.max(_jackknife(away.T @ (logs - logs.mean(axis=0)) / len(logs))))
        if moved > shift:
            shift, unknown = moved, name
    return BankEffect(float(np.median(_jackknife(logs))), shift, unknown)


# ---- which law ----


def simulated_law(
    releases: tuple[NoisyValue, ...], simulator: Simulator, *, likelihood: str, n: int
) -> SimulatedLaw | SimulatedSets:
    """The law of releases of the same n records of a population that is known by its draws."""
    statistics = [release.statistic for release in releases]
    for release in releases:
        attach(simulator, release.schema, release.statistic.columns())
    is_additive = all(statistic.sort in (Sort.SUMS, Sort.COUNT, Sort.TABLE) for statistic in statistics)
    has_finite = any(release.law.form is Form.ACTION for release in releases)
    if likelihood == "clt":
        if not is_additive or has_finite:
            raise Unsupported("likelihood='clt' needs sums, means, counts or tables; use likelihood='auto'.")
        return _sums(releases, simulator, n)
    if any(statistic.is_local for statistic in statistics):
        if len(releases) > 1:
            raise Unsupported(
                "Local answers and another release of the same records have no joint law that can be computed; "
                "release them from disjoint parts, or infer from one of them."
            )
        if releases[0].is_categorical:
            return _cells(releases, simulator, n, lambda bank: CellsModel.of(releases, bank, n=n))
        return _cells(releases, simulator, n, lambda bank: SimulatedAnswers(releases[0], bank))
    if not is_additive:
        return SimulatedSets.of(releases, simulator, n=n)
    if CountModel.counts(releases):
        return _cells(releases, simulator, n, lambda bank: CountModel.of(releases, bank, n=n))
    if has_finite:
        raise Unsupported("An estimator's output joins only with releases of the same count of the same records.")
    if _is_one_table(releases):
        bank = sized_for(releases, simulator, n=n, each=FOR_CELLS)
        if all(TableModel.is_affordable(release, n=n) for release in releases) and _is_ample(bank, n):
            return SimulatedLaw(bank, lambda some: TableModel.of(releases, some, n=n))
        if LargeTable.is_affordable(releases, n=n) and _is_ample(bank, n):
            return SimulatedLaw(bank, lambda some: LargeTable.of(releases, some, n=n))
        return _sums(releases, simulator, n)
    is_grouped = any(one.groups(release.schema) for one, release in zip(statistics, releases, strict=True))
    if n <= FEW_RECORDS and not is_grouped:
        sets = SimulatedSets.of(releases, simulator, n=n)
        if sets.typical_error <= NEGLIGIBLE:
            return sets
    return _sums(releases, simulator, n)


def _sums(releases: tuple[NoisyValue, ...], simulator: Simulator, n: int) -> SimulatedLaw:
    bank = sized_for(releases, simulator, n=n, each=FOR_SUMS)
    if is_any_noise(releases):
        return SimulatedLaw(bank, lambda some: AnyNoiseSum(releases, some, n=n))
    return SimulatedLaw(bank, lambda some: NormalSum(releases, some, n=n))


def _cells(
    releases: tuple[NoisyValue, ...], simulator: Simulator, n: int, make: Callable[[Simulator], Any]
) -> SimulatedLaw:
    return SimulatedLaw(sized_for(releases, simulator, n=n, each=FOR_CELLS), make)


def _is_ample(bank: Simulator, n: int) -> bool:
    """Whether a bank is large beside n, so that a law without room for its error may be taken."""
    return bank.bank_size >= FOR_SUMS * n


def _is_one_table(releases: tuple[NoisyValue, ...]) -> bool:
    first = releases[0].statistic
    is_table = isinstance(first, Histogram) or (isinstance(first, Marginals) and len(first.cliques) == 1)
    return is_table and all(release.statistic == first for release in releases)


def sized_for(releases: tuple[NoisyValue, ...], simulator: Simulator, *, n: int, each: int = FOR_CELLS) -> Simulator:
    """The simulator with a bank that is large enough for these releases; as it is, where that was settled before."""
    if simulator.size is not None:
        return simulator
    wanted = each * n * max(_visible(release, simulator, n) for release in releases)
    return simulator.sized(1 << math.ceil(math.log2(min(max(wanted, SMALLEST), LARGEST))))


def _visible(release: NoisyValue, simulator: Simulator, n: int) -> float:
    """The share of a release's variance that is not noise, at most over its components, in the middle of the prior."""
    if release.law.form is not Form.NUMBER or is_any_noise((release,)):
        return 1.0
    records = 1 if release.statistic.is_local else n
    row = (release.statistic.feature,) if isinstance(release.statistic, Records) else row_of(release)
    theta = simulator.sample_prior(np.random.default_rng(0), PRIOR_ROWS)
    noise = Noise.of((release,)).variance[: len(row)]
    variance = np.diagonal(row_moments(simulator.sized(SMALLEST), release.schema, row, theta)[1], axis1=1, axis2=2)
    seen = records * variance / (records * variance + noise)
    return float(np.median(np.nan_to_num(seen, nan=1.0).max(axis=1)))


@possible_records.register
def _(simulator: Simulator, row: Sequence[Feature], schema: Schema) -> dict[str, Array]:
    """Records of the bank at parameters from the prior."""
    names = sorted(frozenset[str]().union(*(feature.columns() for feature in row)))
    theta = simulator.sample_prior(np.random.default_rng(0), PRIOR_ROWS) if simulator.free else {}
    rng = np.random.default_rng(0)
    each = [simulator.records(rng, simulator.point(theta, k), POSSIBLE // PRIOR_ROWS) for k in range(rows_of(theta))]
    cleaned = [simulator.cleaned(schema, records, names) for records in each]
    return {name: np.concatenate([records[name] for records in cleaned]) for name in names}


@unlisted_records.register
def _(simulator: Simulator) -> str:
    del simulator
    return "records known by their draws alone"


# ---- local answers ----


class SimulatedAnswers(GroupLaw):
    """Local answers: the noise averaged over the bank, laid on equally spaced places of the answered feature."""

    is_exact = True
    cautions: tuple[str, ...] = ()

    def __init__(self, release: NoisyValue, simulator: Simulator) -> None:
        statistic = release.statistic
        assert isinstance(statistic, Records)
        self.releases, self.simulator, self.feature = (release,), simulator, statistic.feature
        low, high, _ = feature_range(self.feature, release.schema)
        law = additive_law(release.law)
        step, scale = float(law.step[0]), float(Noise.of((release,)).scale[0])
        count = int(np.clip(PLACES * (high - low) / scale, PLACES, MOST_PLACES))
        self.grid: Floats = np.linspace(low, high, count + 1)
        values, self.times = np.unique(np.array(release.value, dtype=float), return_counts=True)
        self.log_noise = law.log_pmf(values[:, None] - self.grid / step)  # (answers, places)
        self.answers = values

    @property
    def n(self) -> int:
        return len(self.releases[0].value)

    @property
    def because(self) -> str:
        return f"exact: law of {self.n} local answers, the noise averaged over the bank"

    def shares(self, point: Point) -> Floats:
        """The law of the feature over the places."""
        return self.simulator.spread_over(self.releases[0].schema, self.feature, self.grid, point)

    def log_likelihood(self, theta: Theta) -> Array:
        top = self.log_noise.max(axis=1)
        noise = np.exp(self.log_noise - top[:, None])
        found = []
        for k in range(rows_of(theta)):
            with np.errstate(divide="ignore"):
                logs = np.log(noise @ self.shares(self.simulator.point(theta, k))) + top
            found.append(float(self.times @ logs))
        return np.array(found)

    def score(self, theta: Theta) -> dict[str, Array]:
        return numerical_score(self.log_likelihood, theta, scalar_supports(self.simulator))

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """The feature of every respondent given the answer and theta, (K, n), in the order of the answers."""
        drawn = []
        for k in range(rows_of(theta)):
            shares = self.shares(self.simulator.point(theta, k))
            weight = np.exp(self.log_noise - self.log_noise.max(axis=1, keepdims=True)) * shares
            upto = np.cumsum(np.repeat(weight, self.times, axis=0), axis=1)
            place = (upto < upto[:, -1:] * rng.random((len(upto), 1))).sum(axis=1)
            drawn.append(self.grid[np.minimum(place, self.grid.size - 1)])
        return np.array(drawn)


# ---- whole data sets ----


@dataclass(frozen=True)
class SimulatedSets(BankLaw):
    """Any releases of the same few records: their noise averaged over whole simulated data sets."""

    releases: tuple[NoisyValue, ...]
    population: Simulator
    n: int
    size: int  # data sets in one batch
    seed: int = 0
    tried: Theta | None = None

    @classmethod
    def of(cls, releases: tuple[NoisyValue, ...], simulator: Simulator, *, n: int) -> SimulatedSets:
        """1024 to 2^22/n data sets, by the error that they leave."""
        most = MOST_DRAWN // n
        if most < FEWEST_SETS:
            raise Unsupported(
                f"{' and '.join(str(release.statistic) for release in releases):.120} of {n} records that a function "
                f"draws are scored by whole data sets, which is affordable up to {MOST_DRAWN // FEWEST_SETS} records. "
                "Release sums, counts or a histogram, or describe the column by a law (Normal, Population, ...)."
            )
        fewest, most = FEWEST_SETS // N_BATCHES, (1 << int(math.log2(min(most, 16 * FEWEST_SETS)))) // N_BATCHES
        return cls.grown(lambda size: cls(releases, simulator, n, size), fewest=fewest, most=most)

    @property
    def columns(self) -> list[str]:
        return sorted(frozenset[str]().union(*(release.statistic.columns() for release in self.releases)))

    @property
    def roughness(self) -> float:
        return ROUGH

    @property
    def quick(self) -> SimulatedSets | None:
        """The same by fewer data sets."""
        fewest = FEWEST_SETS // N_BATCHES // 4
        return replace(self, size=fewest, tried=None) if self.size > fewest else None

    @property
    def settled(self) -> Simulator:
        return self.population

    @cached_property
    def because(self) -> str:
        return f"by {self.size * N_BATCHES} simulated data sets of {self.n} records ({self.error_words})"

    def left_out_logs(self, theta: Theta) -> Array:
        """log p without each of the batches, (K, 8)."""
        logs = self._scramble_logs(theta)
        return np.stack([log_mean(np.delete(logs, k, axis=1)) for k in range(N_BATCHES)], axis=1)

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """The statistics of a data set picked in proportion to the noise density there."""
        drawn = []
        for k in range(rows_of(theta)):
            point = self.population.point(theta, k)
            batches = [self._sets(point, batch) for batch in range(N_BATCHES)]
            records = {name: np.concatenate([one[name] for one in batches]) for name in batches[0]}
            chosen = int(np.argmax(self._log_noise(records) + rng.gumbel(size=self.size * N_BATCHES)))
            one = {name: x[chosen : chosen + 1] for name, x in records.items()}
            drawn.append(np.concatenate([np.ravel(r.statistic.value(one, r.schema)) for r in self.releases]))
        return np.array(drawn, dtype=float)

    def _scramble_logs(self, theta: Theta) -> Array:
        logs = np.empty((rows_of(theta), N_BATCHES))
        for k in range(rows_of(theta)):
            point = self.population.point(theta, k)
            for batch in range(N_BATCHES):
                logs[k, batch] = log_mean(self._log_noise(self._sets(point, batch))[None])[0]
        return logs

    def _sets(self, point: Point, batch: int) -> dict[str, Floats]:
        """The data sets of one batch, by column (size, n)."""
        rng, schema = np.random.default_rng([1, batch]), self.releases[0].schema
        made = self.population.inside(rng, schema, self.size * self.n, point, self.columns)
        return {name: x.reshape(self.size, self.n) for name, x in made.items()}

    def _log_noise(self, records: Mapping[str, Floats]) -> Array:
        """sum_r log h_r(y_r | x_b), one number for each data set."""
        return np.asarray(np.sum([_log_noise(release, records) for release in self.releases], axis=0))


def _log_noise(release: NoisyValue, records: Mapping[str, Floats]) -> Array:
    if release.law.form is not Form.POINT:
        return log_noise(release, records)
    # The exponential mechanism: w(#{x < y}) over the sum of w over all lattice points (`quantile_bank`).
    statistic, law = quantile_statistic(release.statistic), quantile_law(release.law)
    shape = np.shape(next(iter(records.values())))
    values = np.sort(np.broadcast_to(statistic.feature.value(records, release.schema), shape), axis=-1)
    low, high = statistic.bounds(release.schema)
    log_w = -float(law.epsilon) / 2 * np.abs(np.arange(shape[-1] + 1) - float(statistic.q * shape[-1]))
    below = np.sum(values < release.value[0] * law.step, axis=-1)
    gaps = np.maximum(np.diff(values, axis=-1, prepend=low - law.step, append=high), 0.0)
    return np.asarray(log_w[below] + math.log(law.step) - log_normaliser(gaps, log_w))
