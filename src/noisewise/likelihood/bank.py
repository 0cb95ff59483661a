"""Any releases of the same few records, by a bank of whole data sets shared by all theta.

Two statistics of the same records are dependent given theta, and mostly no closed joint law exists (a median beside a
mean; a vector of sums of ten records under Laplace noise). But given the records their noises are independent:
    p(y_1, .., y_R | theta) = E_x prod_r h_r(y_r | x)  ~  (1/B) sum_b prod_r h_r(y_r | x_b(theta)),
with records x_b(theta) that are smooth functions of uniform base draws u_b free of theta (Alparslan & Yıldırım 2022,
section 4.3). Base draws are quasi-random while a data set has few coordinates, plain beyond; in eight independent
scrambles, which give the Monte Carlo error of log p. The seed is part of a quadrature rule, not of a result.

The error grows with n and with epsilon: where the noise is far narrower than the spread of the statistics, few of the
data sets explain the releases. `error` says how large it is, `is_affordable` whether it can be neglected.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import integer
from noisewise.joining import one_schema
from noisewise.laws import Form, SmoothLaw, action_law, additive_law, smooth_law
from noisewise.likelihood.bank_law import BankLaw
from noisewise.likelihood.bank_sums import PolynomialSums
from noisewise.likelihood.model import Parameters
from noisewise.likelihood.scrambles import N_SCRAMBLES, log_mean, net
from noisewise.likelihood.smooth_scale import of_sorted
from noisewise.populations.cleaned import attach, records_from_base, single_rows
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import AnyPopulation
from noisewise.privacy.smooth import scale_floor
from noisewise.release import NoisyValue
from noisewise.statistics import Moments, Records, SmallestEigenvalue
from noisewise.statistics.order import OrderStatistic

MOST_STRATIFIED = 60  # coordinates of a data set; beyond, a quasi-random net is no better than plain draws
NUMBERS = 2**18  # records of all data sets together that are worth looking at for each theta
FEWEST, MOST = 1024, 8192
QUICK = 256
MOST_NUMBERS = 2**24
NEGLIGIBLE_ERROR = 0.05
ENOUGH = 2e-3  # error of log p at which a larger bank would tell nothing more


@dataclass(frozen=True)
class RecordsBank(BankLaw):
    """The joint likelihood of releases of the same n records, by B data sets of base draws."""

    releases: tuple[NoisyValue, ...]
    population: AnyPopulation
    n: int
    base: Mapping[str, Array]  # by column (B, n), uniform; blocks of B/8 were scrambled independently
    seed: int
    tried: Theta | None = None

    @classmethod
    def of(
        cls,
        releases: Sequence[NoisyValue],
        population: AnyPopulation,
        *,
        n: int,
        seed: int = 0,
        size: int | None = None,
    ) -> RecordsBank:
        """`size` is the number of data sets, rounded to a power of two; by default 1024 to 8192, by their length.

        Where the noise is wide and 1024 data sets leave no error worth speaking of, more are not looked at.
        """
        given = one_schema(tuple(releases))
        for release in given:
            _check_is_scored(release, alone=len(given) == 1)
        count = integer(n, "n", minimum=1)
        columns = sorted(frozenset().union(*(r.statistic.columns() for r in given)))
        most = count * len(columns)
        if most * FEWEST > MOST_NUMBERS:
            raise Unsupported(
                f"{' and '.join(str(release.statistic) for release in given)} of the same {count} records have no "
                f"closed joint law, and a bank of data sets is affordable up to "
                f"{MOST_NUMBERS // FEWEST // len(columns)} records. Release them from disjoint parts instead."
            )
        largest = _checked_size(size, most)
        for tried in _sizes(FEWEST, largest) if size is None else (largest,):
            base = _draw_base(np.random.default_rng(seed), columns, count, tried)
            bank = cls(given, population, count, base, seed)
            if tried == largest or bank.typical_error <= ENOUGH:
                break
        return bank

    @property
    def size(self) -> int:
        """B, the number of data sets."""
        return len(next(iter(self.base.values())))

    @property
    def roughness(self) -> float:
        """How finely the likelihood is worth integrating: well below its own Monte Carlo error.

        Discrete records move in jumps as theta does, and a finer rule would chase each of them.
        """
        laws = attach(self.population, self.releases[0].schema, tuple(self.base)).values()
        return 5e-4 if any(law.is_discrete for law in laws) else 1e-4

    @cached_property
    def because(self) -> str:
        return (
            f"exact joint law by a bank of {self.size} data sets of base draws "
            f"({self.error_words}): the releases share their {self.n} records"
        )

    @cached_property
    def quick(self) -> RecordsBank | None:
        """A smaller bank, for proposals; None where this one is small."""
        if self.size <= QUICK:
            return None
        return RecordsBank.of(self.releases, self.population, n=self.n, seed=self.seed, size=QUICK)

    def is_affordable(self) -> bool:
        """True where the Monte Carlo error is negligible wherever the posterior has its mass."""
        return self.typical_error <= NEGLIGIBLE_ERROR

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """The statistics given y and theta: those of a data set picked in proportion to the noise density there."""
        drawn = []
        for row in single_rows(theta):
            records = self._records(self.base, row)
            logs = self._log_noise(records)
            chosen = int(np.argmax(logs + rng.gumbel(size=logs.size)))
            one = {column: x[chosen : chosen + 1] for column, x in records.items()}
            drawn.append(np.concatenate([np.ravel(r.statistic.value(one, r.schema)) for r in self.releases]))
        return np.array(drawn, dtype=float)

    def latent(self, parameters: Parameters) -> BankRecords:
        return BankRecords(self, parameters)

    @cached_property
    def _sums(self) -> PolynomialSums | None:
        """The same law, compiled, where every release sums polynomials of one column."""
        if len(self.base) != 1:
            return None
        return PolynomialSums.of(self.releases, self.population, next(iter(self.base.values())))

    def _scramble_logs(self, theta: Theta) -> Array:
        if self._sums is not None:
            return self._sums.scramble_logs(self.population.theta_of(self._sums.column, theta))
        if self._standard is not None:
            return self._standard_logs(theta, *self._standard)
        logs = np.empty((rows_of(theta), N_SCRAMBLES))
        for k, row in enumerate(single_rows(theta)):
            logs[k] = log_mean(self._log_noise(self._records(self.base, row)).reshape(N_SCRAMBLES, -1))
        return logs

    @cached_property
    def _standard(self) -> tuple[str, Array] | None:
        """The one column that is a(theta) + c(theta) z before clamping, and its z (B, n); None if it is not so."""
        schema = self.releases[0].schema
        if len(self.base) > 1 or schema.outside != "clamp":
            return None
        theta = self.population.sample_prior(np.random.default_rng(0), 1) if self.population.free else {}
        ((column, u),) = self.base.items()
        law, own = attach(self.population, schema, (column,))[column], self.population.theta_of(column, theta)
        place = None if law.is_discrete else law.distribution.location_scale(law.values(own))
        if place is None:
            return None
        return column, (law.quantile(u.ravel(), own).reshape(u.shape) - place[0]) / place[1]

    def _standard_logs(self, theta: Theta, column: str, z: Array) -> Array:
        """The same for such a column: many rows of theta at once where data sets are small, and no quantiles."""
        schema, rows = self.releases[0].schema, rows_of(theta)
        entry, law = schema.bounded(column), attach(self.population, schema, (column,))[column]
        found = law.distribution.location_scale(law.values(self.population.theta_of(column, theta)))
        assert found is not None
        place, scale = (np.broadcast_to(np.ravel(part), (rows,)) for part in found)
        logs = np.full((rows, N_SCRAMBLES), np.nan)
        usable = np.flatnonzero(np.isfinite(place) & np.isfinite(scale))
        each = max(1, NUMBERS // z.size)
        for start in range(0, usable.size, each):
            k = usable[start : start + each]
            x = np.clip(place[k, None, None] + scale[k, None, None] * z, entry.low, entry.high)
            noise = self._log_noise({column: x.reshape(-1, z.shape[1])})
            logs[k] = log_mean(noise.reshape(k.size, N_SCRAMBLES, -1))
        return logs

    def _records(self, base: Mapping[str, Array], theta: Theta) -> dict[str, Array]:
        """Data sets (B, n) by column, at one row of theta."""
        made = records_from_base(self.population, self.releases[0].schema, base, theta, tuple(base))
        return {column: x[0] for column, x in made.items()}

    def _log_noise(self, records: Mapping[str, Array]) -> Array:
        """sum_r log h_r(y_r | x_b), (B,); NaN where theta gives no records."""
        if not all(np.isfinite(x).all() for x in records.values()):
            return np.full(len(next(iter(records.values()))), np.nan)
        return np.asarray(np.sum([log_noise(release, records) for release in self.releases], axis=0))


@dataclass(frozen=True, slots=True)
class BankRecords:
    """The same law with all base draws as latent variables z, column after column, for averaged acceptance ratios."""

    model: RecordsBank
    parameters: Parameters
    is_sequential: ClassVar[bool] = False

    @property
    def n(self) -> int:
        """How many base draws a data set takes."""
        return self.model.n * len(self.model.base)

    def base(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return rng.random((*shape, self.n))

    def log_noise(self, z: Array, position: Array) -> Array:
        """log h(y | z, theta), (K, N), for z (K, N, n)."""
        found = np.empty(z.shape[:2])
        for k, theta in enumerate(single_rows(self.parameters(position))):
            parts = np.split(z[k], len(self.model.base), axis=-1)
            base = dict(zip(self.model.base, parts, strict=True))
            found[k] = self.model._log_noise(self.model._records(base, theta))
        return found


def log_noise(release: NoisyValue, records: Mapping[str, Array]) -> Array:
    """log h(y | x) of one release for data sets x by column (B, n): (B,)."""
    statistic, law, schema = release.statistic, release.law, release.schema
    if law.form is Form.SCALED:
        assert isinstance(statistic, OrderStatistic)
        return _log_smooth_noise(release, statistic, smooth_law(law), records)
    value = np.asarray(statistic.value(records, schema), dtype=float)
    if law.form is Form.ACTION:
        return action_law(law).log_pmf(release.value[0], value[:, 0].astype(int))
    if release.statistic.kind == "mean":
        value = value * np.shape(next(iter(records.values())))[-1]
    return log_noise_at((release,), value)


def log_noise_at(releases: Sequence[NoisyValue], sums: Array) -> Array:
    """log P(y | sums) of additive releases, at stacked sums (T, d): (T,)."""
    total, offset = np.zeros(len(sums)), 0
    for release in releases:
        law = additive_law(release.law)
        for k, (value, step) in enumerate(zip(release.value, law.step, strict=True)):
            total += law.log_pmf(value - sums[:, offset + k] / step, component=k)
        offset += len(release.value)
    return total


def _log_smooth_noise(
    release: NoisyValue, statistic: OrderStatistic, law: SmoothLaw, records: Mapping[str, Array]
) -> Array:
    (low, high), shape = statistic.bounds(release.schema), np.shape(next(iter(records.values())))
    values = np.sort(np.broadcast_to(statistic.feature.value(records, release.schema), shape), axis=-1)
    rank = statistic.rank(shape[-1])
    scale = of_sorted(values, rank=rank, low=low, high=high, beta=law.beta)
    floor = scale_floor(step=law.step, alpha=law.alpha)
    return law.log_pmf(release.value[0] - values[:, rank - 1] / law.step, smooth_scale=np.maximum(scale, floor))


def _check_is_scored(release: NoisyValue, *, alone: bool) -> None:
    statistic = release.statistic
    if isinstance(statistic, Records):
        other = "" if alone else " beside another release of the same records"
        raise Unsupported(
            f"Local answers ({statistic}){other} are not scored by a bank of data sets: their order is unknown, so "
            "every matching of answers to records would have to be summed. Release them from disjoint parts, or "
            "infer from one of them."
        )
    if release.law.form is Form.POINT or isinstance(statistic, Moments | SmallestEigenvalue):
        raise Unsupported(f"A release of {statistic.kind} is not scored by a bank of data sets.")


def _checked_size(size: int | None, numbers: int) -> int:
    """B: as given, or as many data sets of `numbers` records as are worth looking at; a power of two."""
    if size is None:
        wanted = min(MOST, max(FEWEST, NUMBERS // numbers))
    elif isinstance(size, bool) or not isinstance(size, int) or not N_SCRAMBLES <= size <= MOST_NUMBERS:
        raise InvalidArgument(
            f"size = {size!r}: a bank needs at least {N_SCRAMBLES} data sets (at most {MOST_NUMBERS}).", argument="size"
        )
    else:
        wanted = size
    return 1 << round(math.log2(wanted))


def _sizes(first: int, last: int) -> list[int]:
    """Powers of two from the first to the last."""
    return [first << k for k in range((last // first).bit_length())]


def _draw_base(rng: np.random.Generator, columns: Sequence[str], n: int, size: int) -> dict[str, Array]:
    """Uniform base draws by column (B, n)."""
    width = n * len(columns)
    if width <= MOST_STRATIFIED:
        points = np.concatenate([net(rng, size // N_SCRAMBLES, width) for _ in range(N_SCRAMBLES)])
    else:
        points = rng.random((size, width))
    return {
        name: np.ascontiguousarray(part)
        for name, part in zip(columns, np.split(points, len(columns), axis=1), strict=True)
    }
