"""Releases of the same records whose number is unknown: every law, summed over the number of records.

With a prior p(n) (`size_prior`) the releases of one group have the likelihood
    p(y | theta) = sum_n p(n) prod_t P(y_t - n) f(theta, n),
where y_t are noisy counts of everybody (`stated_n`), whose noise is scored as it is, and f(theta, n) = p(y' | theta, n)
is the law of all other releases at n records: a closed one where there is such (counts, one table of few cells), else
the central limit theorem's.

    tables      cells that exclude each other, s ~ Multinomial(n, p(theta)), are independent Poisson numbers given their
                sum, so that f of every n at once is a convolution over the cells (by the fast Fourier transform),
                    f(theta, n) = n! e^m m^-n sum_{s_1 + .. + s_k = n} prod_j Poisson(s_j; m p_j) P(y_j - s_j).
    few n       (at most 4000 between the ends of what prior and totals allow) log f at some numbers, equally far from
                each other in n^(1/4), a cubic spline through these, and the sum over all n. Numbers are doubled until
                log p(y | theta) moves by less than 1e-5, for each theta by itself.
    many n      f by the central limit theorem, s | n ~ N(n m, n C), at any n at the cost of a closed form: the window
                of n that matters is found for each theta by itself (what lies 30 below the largest term is left out),
                and summed over all its numbers, or over 257 of them where it holds more.
The spline is of log f, which bends on the scale of n itself or of the noise, not of f. n given theta and y is drawn
from these very terms, so that draws of (theta, n) are as exact as those of theta.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cached_property
from typing import Protocol, cast

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import gammaln, logsumexp

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.laws import additive_law
from noisewise.likelihood.count_models import TableLaw
from noisewise.likelihood.discrete_laws import poisson_log_pmf
from noisewise.likelihood.model import GroupLaw, Likelihood, numerical_score, scalar_supports
from noisewise.likelihood.normal_rows import cautions_at
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.likelihood.size_prior import SizePrior
from noisewise.likelihood.stated_n import REFUSED, Total, noisy_totals, partial_counts
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import AnyPopulation
from noisewise.release import NoisyValue
from noisewise.types import Floats, Ints

__all__ = ["UnknownSize", "possible_sizes"]

MOST_SUMMED = 4000  # numbers of records that are all summed over
FIRST, SETTLED = 5, 1e-5  # numbers at which a law is asked first, and when there are enough of them
FALL = 30.0  # in logarithm: terms this far below the largest are left out
COARSE, FINE, ZOOMS = 33, 257, 12
MOST_PAIRS, MOST_TERMS = 40_000, 2**20  # of theta and n: covariances and terms that are held at once
FAR, SINGLE_FAR = 12.0, 30.0  # sds of a total, and of one of its cells, beyond which n is not looked for
TAIL = 1e-30  # of the noise of a count of everybody: beyond, no n is looked for
IMPROBABLE = 0.01
CELL_FALL, MOST_CELLS, LOST = 50.0, 40_000, 1e-13  # of the noise of a cell; numbers of all cells; of a convolution


class GroupLikelihood(Likelihood, Protocol):
    """What is asked of a law at one number of records."""

    @property
    def is_quick(self) -> bool: ...
    @property
    def is_table(self) -> bool: ...
    @property
    def mixing(self) -> int: ...
    def integrated(self) -> GroupLikelihood | None: ...


MakeLaw = Callable[[tuple[NoisyValue, ...], int], GroupLikelihood]


def possible_sizes(releases: tuple[NoisyValue, ...], prior: SizePrior) -> tuple[int, int]:
    """The least and the largest number of records that prior and noisy totals allow; refused where none does."""
    low, high = prior.ends
    for release in releases:
        for total in noisy_totals(release):
            far = _reach(total)
            low, high = max(low, math.floor(total.value - far)), min(high, math.ceil(total.value + far))
            if low > high:
                raise InvalidArgument(
                    f"The prior of n, {prior}, and {total.label} of the same records, {total.value:.6g} with a noise "
                    f"sd of {total.sd:.2g}, contradict each other: no number of records agrees with both. Give a "
                    "wider prior. Nothing was spent.",
                    argument="n",
                )
    for release in releases:
        _refuse_beyond(release, prior, low, high)
    return low, high


def _refuse_beyond(release: NoisyValue, prior: SizePrior, low: int, high: int) -> None:
    """Refuse numbers of records of which none adds up to a sum that was released, with whatever noise it has."""
    for partial in partial_counts(release):
        released = partial.released
        is_short = [released > partial.value(n * partial.high) for n in (low, high)]
        if is_short[0] is is_short[1] and max(partial.tail(low), partial.tail(high)) < REFUSED:
            nearest = max((low, high), key=partial.tail)
            raise InvalidArgument(
                f"The prior of n, {prior}, and {partial.label} of the same records contradict each other: of {nearest} "
                f"records within the bounds it is at {partial.bound(nearest)}, and {released:.6g} was released "
                f"(noise sd {partial.sd:.2g}). Give a wider prior. Nothing was spent.",
                argument="n",
            )


class UnknownSize(GroupLaw):
    """The likelihood of releases of the same records, whose number has a prior."""

    def __init__(
        self, releases: tuple[NoisyValue, ...], population: AnyPopulation, prior: SizePrior, make: MakeLaw
    ) -> None:
        self.releases, self.population, self.prior = releases, population, prior
        self.totals = tuple(total for one in releases if _is_total(one) for total in noisy_totals(one))
        self.others = tuple(release for release in releases if not _is_total(release))
        self.low, self.high = possible_sizes(releases, prior)
        self.law = self._law_by_size(make)

    # ---- which numbers, and what is known of them without theta ----

    def log_weight(self, n: Array | Ints) -> Floats:
        """log p(n) with the noise of the counts of everybody, where n is a whole number of at least 1."""
        found = self.prior.log_pmf(n)
        for total in self.totals:
            law, (component,) = additive_law(total.release.law), total.components
            away = np.rint(total.release.value[component] - np.asarray(n, dtype=float) * total.unit)
            found = found + law.log_pmf(away, component=component)
        return found

    @property
    def is_summed_whole(self) -> bool:
        """Whether there are so few numbers that all are summed over."""
        return self.high - self.low + 1 <= MOST_SUMMED

    @cached_property
    def _every(self) -> tuple[Ints, Floats]:
        sizes = np.arange(self.low, self.high + 1)
        return sizes, self.log_weight(sizes)

    def _law_by_size(self, make: MakeLaw) -> _NormalBySize | _LawBySize | _TablesBySize | _Nothing:
        if not self.others:
            return _Nothing()
        normal = _NormalBySize.of(self.others, self.population)
        if self.is_summed_whole:
            places = sorted({self.low, (self.low + self.high) // 2, self.high})
            found = [make(self.others, n) for n in places]
            is_quick = all(law.is_quick for law in found) and len({type(law) for law in found}) == 1
            if is_quick and found[0].is_exact:
                return _LawBySize(self.others, make, found[len(found) // 2])
            tables = _TablesBySize.of(found[len(found) // 2], make, self.low, self.high)
            if tables is not None:
                return tables
        if normal is None:
            raise Unsupported(
                f"Between {self.low} and {self.high} records are possible, and these releases (tables beside other "
                "sums, sums that are tied to each other, three or more sums under Laplace noise) have no law that can "
                "be summed over so many. State n, infer from fewer of these releases together with a noisy count of "
                "everybody, or ask for Gaussian noise."
            )
        return normal

    # ---- the law ----

    @property
    def is_exact(self) -> bool:
        return self.law.is_exact

    @property
    def because(self) -> str:
        summed = f"{self.low} to {self.high} records are summed over"
        return f"the number of records is unknown (prior {self.prior}; {summed}); given it, {self.law.because}"

    @property
    def cautions(self) -> tuple[str, ...]:
        return self.law.cautions

    @property
    def roughness(self) -> float:
        """Which numbers are asked differs from theta to theta, and the sum moves with them by so much."""
        return 1e-4 if self.is_summed_whole else 1e-3

    def log_likelihood(self, theta: Theta) -> Array:
        """log p(y | theta), (K,)."""
        rows = self.law.rows(theta)
        return np.concatenate(
            [self._summed(rows.some(piece))[0] for piece in _pieces(rows.size, self._held, MOST_TERMS)]
        )

    def score(self, theta: Theta) -> dict[str, Array]:
        return numerical_score(self.log_likelihood, theta, scalar_supports(self.population))

    def draw_sizes(self, rng: np.random.Generator, theta: Theta) -> Ints:
        """The number of records given y and each row of theta."""
        rows = self.law.rows(theta)
        drawn = [self._drawn(rng, rows.some(piece)) for piece in _pieces(rows.size, self._held, MOST_TERMS)]
        return np.concatenate(drawn)

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """The confidential statistic with its number of records drawn first; a count of everybody is that number."""
        sizes = self.draw_sizes(rng, theta)
        widths = [len(release.value) for release in self.others]
        own = np.zeros((len(sizes), sum(widths)))
        for n in np.unique(sizes) if widths else ():
            some = np.flatnonzero(sizes == n)
            law = self.law.at_size(int(n))
            own[some] = law.draw_statistic(rng, {name: np.asarray(value)[some] for name, value in theta.items()})
        starts = np.cumsum([0, *widths])
        others = iter(own[:, a:b] for a, b in itertools.pairwise(starts))
        totals = iter(
            sizes[:, None] * float(total.unit * additive_law(total.release.law).step[0]) for total in self.totals
        )
        return np.concatenate([next(totals if _is_total(release) else others) for release in self.releases], axis=1)

    @property
    def _held(self) -> int:
        return self.high - self.low + 1 if self.is_summed_whole else 4 * FINE

    def _summed(self, rows: Rows) -> tuple[Floats, Ints, Floats]:
        """log p(y | theta) (K,), and the numbers (K, J) or (J,) with the logarithms of their terms (K, J)."""
        return self._by_spline(rows) if self.is_summed_whole else self._by_windows(rows)

    def _drawn(self, rng: np.random.Generator, rows: Rows) -> Ints:
        total, sizes, terms = self._summed(rows)
        with np.errstate(invalid="ignore", over="ignore"):
            chance = np.exp(terms - total[:, None])
        chance = np.where(np.isfinite(chance), chance, 0.0)
        upto = np.cumsum(chance, axis=1)
        picked = (upto < rng.random(len(total))[:, None] * upto[:, -1:]).sum(axis=1).clip(0, terms.shape[1] - 1)
        every = np.broadcast_to(sizes, terms.shape)
        found = every[np.arange(len(total)), picked]
        if self.is_summed_whole:
            return np.asarray(found)
        # One number stands for those around it: any of them, as likely as each other to second order.
        width = np.maximum(every[:, 1] - every[:, 0], 1)
        moved = found + np.floor((rng.random(len(total)) - 0.5) * width + 0.5).astype(np.int64)
        return np.asarray(np.clip(moved, self.low, self.high))

    def _by_spline(self, rows: Rows) -> tuple[Floats, Ints, Floats]:
        sizes, weight = self._every
        count = min(FIRST, sizes.size)
        nodes = sizes if self.law.tells_all else _nodes(self.low, self.high, count)
        values = self.law.at(rows, nodes)
        terms = _interpolated(nodes, values, sizes) + weight
        total = _log_sum(terms)
        open_rows = np.arange(rows.size)
        while nodes.size < sizes.size and open_rows.size:
            count = 2 * count - 1
            finer = np.union1d(nodes, _nodes(self.low, self.high, count))
            if finer.size == nodes.size:
                continue
            fresh = np.setdiff1d(finer, nodes)
            some = rows.some(open_rows)
            found = np.empty((open_rows.size, finer.size))
            found[:, np.isin(finer, nodes)] = values
            found[:, ~np.isin(finer, nodes)] = self.law.at(some, fresh)
            terms[open_rows] = _interpolated(finer, found, sizes) + weight
            now = _log_sum(terms[open_rows])
            is_open = ~(np.abs(now - total[open_rows]) < SETTLED) & np.isfinite(now)
            total[open_rows] = now
            open_rows, values, nodes = open_rows[is_open], found[is_open], finer
        return total, sizes, terms

    def _by_windows(self, rows: Rows) -> tuple[Floats, Ints, Floats]:
        low = np.full(rows.size, float(self.low))
        high = np.full(rows.size, float(self.high))
        for _ in range(ZOOMS):
            sizes = np.rint(low[:, None] + (high - low)[:, None] * np.linspace(0, 1, COARSE))
            terms = self.law.at(rows, sizes) + self.log_weight(sizes)
            terms = np.where(np.isnan(terms), -np.inf, terms)
            kept = terms > terms.max(axis=1, keepdims=True) - FALL
            first = np.maximum(np.argmax(kept, axis=1) - 1, 0)
            last = np.minimum(COARSE - np.argmax(kept[:, ::-1], axis=1), COARSE - 1)
            at = np.arange(rows.size)
            narrower_low, narrower_high = sizes[at, first], sizes[at, last]
            has_narrowed = (narrower_high - narrower_low) < 0.7 * (high - low)
            low, high = narrower_low, narrower_high
            if not np.any(has_narrowed & (high - low >= FINE)):
                break
        few = high - low < FINE
        spaced = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, FINE)
        sizes = np.where(few[:, None], low[:, None] + np.arange(FINE), np.rint(spaced))
        # Where numbers are left out each stands for those half-way to its neighbours.
        each = np.where(few[:, None], 1.0, np.gradient(sizes, axis=1))
        each[~few, 0] = each[~few, -1] = 0.5 * each[~few, 1]
        terms = self.law.at(rows, sizes) + self.log_weight(sizes) + np.log(each)
        terms = np.where(sizes <= high[:, None], terms, -np.inf)
        return _log_sum(terms), sizes.astype(np.int64), terms

    # ---- what is said of it ----

    def cautions_at(self, theta: Theta) -> tuple[str, ...]:
        """Where the law falls short at the middle of the numbers that are likely at these rows of theta."""
        if not self.others:
            return ()
        middle = int(np.median(self.draw_sizes(np.random.default_rng(0), theta)))
        law = self.law.at_size(middle)
        law.log_likelihood(theta)
        return tuple(law.cautions)

    def contradictions(self) -> tuple[str, ...]:
        """Sentences on every noisy total that is improbable under the prior (two-sided tail below .01)."""
        found = []
        sizes = np.unique(np.linspace(*self.prior.ends, MOST_SUMMED).round())
        chance = np.exp(self.prior.log_pmf(sizes) - logsumexp(self.prior.log_pmf(sizes)))
        mean = float(chance @ sizes)
        sd = math.sqrt(float(chance @ np.square(sizes - mean)))
        for release in self.releases:
            for total in noisy_totals(release):
                below = float(chance @ (sizes <= total.value + 2 * total.sd))
                above = float(chance @ (sizes >= total.value - 2 * total.sd))
                if 2 * min(below, above) < IMPROBABLE:
                    found.append(
                        f"The prior of n ({self.prior}: mean {mean:.6g}, sd {sd:.2g}) hardly agrees with {total.label} "
                        f"of the same records, {total.value:.6g} with a noise sd of {total.sd:.2g}."
                    )
        return tuple(found)


@cautions_at.register
def _(model: UnknownSize, theta: Theta) -> tuple[str, ...]:
    """What the law at a middling number of records says of itself, asked at these draws."""
    return model.cautions_at(theta)


class Rows:
    """Rows of theta as a law by size needs them."""

    def __init__(self, size: int, parts: dict[str, Array]) -> None:
        self.size, self.parts = size, parts

    def some(self, chosen: slice | Ints) -> Rows:
        """Some of these rows."""
        own = {name: value[chosen] for name, value in self.parts.items()}
        return Rows(len(next(iter(own.values()))), own)


class _Nothing:
    """No release but counts of everybody: theta is not told about."""

    is_exact, because, cautions = True, "counts of everybody alone, which tell n and no parameter", ()
    tells_all = True

    def rows(self, theta: Theta) -> Rows:
        return Rows(len(next(iter(theta.values()))), {name: np.asarray(value) for name, value in theta.items()})

    def at(self, rows: Rows, sizes: Array | Ints) -> Floats:
        return np.zeros((rows.size, np.shape(sizes)[-1]))

    def at_size(self, n: int) -> Likelihood:
        raise Unsupported(f"No release but counts of everybody tells about {n} records.")


class _LawBySize:
    """Any law, made for each number of records that it is asked about."""

    tells_all = False

    def __init__(self, releases: tuple[NoisyValue, ...], make: MakeLaw, middle: GroupLikelihood) -> None:
        self.releases, self.make, self.middle = releases, make, middle
        self.made: dict[int, GroupLikelihood] = {}

    @property
    def is_exact(self) -> bool:
        return bool(self.middle.is_exact)

    @property
    def because(self) -> str:
        return str(self.middle.because)

    @property
    def cautions(self) -> tuple[str, ...]:
        return tuple(self.middle.cautions)

    def rows(self, theta: Theta) -> Rows:
        return Rows(len(next(iter(theta.values()))), {name: np.asarray(value) for name, value in theta.items()})

    def at_size(self, n: int) -> GroupLikelihood:
        """The law at n records, with mixed noise integrated out."""
        if n not in self.made:
            law = self.make(self.releases, n)
            whole = law.integrated() if law.mixing else law
            if whole is None:
                raise Unsupported(
                    "Laplace noise on three or more sums has no law that is summed over the number of records; state "
                    "n, or infer from at most two of these sums, or from sums with Gaussian noise."
                )
            self.made[n] = whole
        return self.made[n]

    def at(self, rows: Rows, sizes: Array | Ints) -> Floats:
        return np.stack([self.at_size(int(n)).log_likelihood(rows.parts) for n in np.ravel(sizes)], axis=1)


class _TablesBySize:
    """Cells that exclude each other: every number of records at once."""

    is_exact, tells_all = True, True
    cautions: tuple[str, ...] = ()

    def __init__(self, law: TableLaw, make: MakeLaw, releases: tuple[NoisyValue, ...], mean: float) -> None:
        self.law, self.make, self.releases, self.mean = law, make, releases, mean
        self.starts, self.noise = _noise_windows(law)

    @classmethod
    def of(cls, law: GroupLikelihood | TableLaw, make: MakeLaw, low: int, high: int) -> _TablesBySize | None:
        """None where it is no table, a cell has no noise to bound it, or the cells reach too far."""
        if not law.is_table:
            return None
        law = cast("TableLaw", law)
        # Cells are summed around the noisy total: far from it the convolution keeps no digits.
        totals = [total.value for release in law.releases for total in noisy_totals(release)]
        found = cls(law, make, law.releases, min(max(low, *totals, 1.0), high) if totals else 0.5 * (low + high))
        is_bounded = all(noise.size < law.n + 1 or noise.min() < -CELL_FALL / 2 for noise in found.noise)
        return found if is_bounded and sum(noise.size for noise in found.noise) <= MOST_CELLS else None

    @property
    def because(self) -> str:
        return "exact: the cells are multinomial, and every table that matters is summed over"

    def rows(self, theta: Theta) -> Rows:
        p = self.law.probabilities(theta)
        return Rows(len(p), {"p": p})

    def at_size(self, n: int) -> Likelihood:
        return self.make(self.releases, n)

    def at(self, rows: Rows, sizes: Array | Ints) -> Floats:
        """By the convolution of all cells, whose numbers of records add up to every n."""
        p, first = rows.parts["p"], int(self.starts.sum())
        length = sum(noise.size - 1 for noise in self.noise) + 1
        padded = 1 << (length - 1).bit_length()
        found = np.full((rows.size, np.size(sizes)), -np.inf)
        place = np.ravel(sizes).astype(np.int64) - first
        inside = (place >= 0) & (place < length)
        n = np.ravel(sizes).astype(float)
        log_shift = gammaln(n + 1) + self.mean - n * np.log(self.mean)
        for piece in _pieces(rows.size, padded, MOST_TERMS):
            spectrum, top = np.ones(1, complex), np.zeros(len(p[piece]))
            for j, (start, noise) in enumerate(zip(self.starts, self.noise, strict=True)):
                s = start + np.arange(noise.size)
                log = poisson_log_pmf(s, self.mean * p[piece, j, None]) + noise
                highest = log.max(axis=1)
                top = top + highest
                spectrum = spectrum * np.fft.rfft(np.exp(log - highest[:, None]), n=padded, axis=1)
            summed = np.fft.irfft(spectrum, n=padded, axis=1)
            floor = LOST * summed.max(axis=1, keepdims=True)  # what rounding leaves where nothing is
            with np.errstate(divide="ignore", invalid="ignore"):
                log = np.where(summed > floor, np.log(np.maximum(summed, 1e-300)), -np.inf)
            found[piece, inside] = log[:, place[inside]] + top[:, None] + log_shift[inside]
        return found


def _noise_windows(law: TableLaw) -> tuple[Ints, list[Floats]]:
    """For each cell the first of its numbers of records that its noise allows, and log P(y | s) from there on."""
    cells = law.probabilities(law.population.sample_prior(np.random.default_rng(0), 1)).shape[1]
    largest = max(law.n, *(int(max(release.value)) for release in law.releases)) * 2 + 200
    s = np.broadcast_to(np.arange(largest + 1, dtype=float), (1, cells, largest + 1))
    every = law.log_noise(s)[0]
    starts, windows = [], []
    for own in every:
        kept = np.flatnonzero(own > own.max() - CELL_FALL)
        starts.append(kept[0])
        windows.append(np.asarray(own[kept[0] : kept[-1] + 1]))
    return np.array(starts, np.int64), windows


class _NormalBySize:
    """Sums by the central limit theorem: the moments of one record serve every number of them."""

    is_exact, tells_all = False, False

    def __init__(self, law: NormalSum) -> None:
        self.law = law

    @classmethod
    def of(cls, releases: tuple[NoisyValue, ...], population: AnyPopulation) -> _NormalBySize | None:
        """None where the sums are tied by a constant for each record, or their noise is mixed."""
        law = NormalSum(releases, population, n=1)
        is_tied = any(part.knots is not None for part in law.shares) and bool(np.any(law.ties.constant != 0))
        return None if is_tied or law.mixing else cls(law)

    @property
    def because(self) -> str:
        kinds = "the sum is" if len(self.law.row) == 1 else f"the {len(self.law.row)} sums are jointly"
        return f"central limit theorem: {kinds} normal"

    @property
    def cautions(self) -> tuple[str, ...]:
        return ()

    def rows(self, theta: Theta) -> Rows:
        mean, covariance = self.law.moments(theta)
        return Rows(len(mean), {"mean": mean, "covariance": covariance})

    def at_size(self, n: int) -> NormalSum:
        return NormalSum(self.law.releases, self.law.population, n=n)

    def at(self, rows: Rows, sizes: Array | Ints) -> Floats:
        mean, covariance = rows.parts["mean"], rows.parts["covariance"]
        every = np.broadcast_to(np.asarray(sizes, dtype=float), (rows.size, np.shape(sizes)[-1]))
        found = np.empty(every.shape)
        for piece in _pieces(rows.size, every.shape[1], MOST_PAIRS):
            n = every[piece]
            flat = (n[:, :, None] * mean[piece, None]).reshape(-1, mean.shape[1])
            spread = (n[:, :, None, None] * covariance[piece, None]).reshape(-1, *covariance.shape[1:])
            possible = ~np.isnan(flat).any(axis=1)
            found[piece] = self.law.log_density_at(flat, spread, np.empty((1, 0)), is_possible=possible).reshape(
                n.shape
            )
        return found


def _is_total(release: NoisyValue) -> bool:
    """Whether a release is one count of everybody, and nothing else."""
    return len(release.value) == 1 and len(noisy_totals(release)) == 1


def _reach(total: Total) -> float:
    """How far from a total the number of records may be."""
    law = additive_law(total.release.law)
    if len(total.components) == 1:
        return law.reach(TAIL, total.components[0]) / total.unit + 1
    sds = law.sd
    largest = max(sds[j] / law.step[j] for j in total.components)
    return FAR * total.sd + SINGLE_FAR * largest / total.unit + 1


def _pieces(rows: int, held: int, most: int) -> list[slice]:
    each = max(1, most // max(held, 1))
    return [slice(start, min(start + each, rows)) for start in range(0, rows, each)]


def _nodes(low: int, high: int, count: int) -> Ints:
    """About `count` whole numbers from low to high, equally far from each other in n^(1/4)."""
    return np.unique(np.rint(np.linspace(low**0.25, high**0.25, count) ** 4).astype(np.int64))


def _interpolated(nodes: Ints, values: Floats, sizes: Ints) -> Floats:
    """A cubic spline through values (K, J) at nodes, at all sizes: (K, G); rows that are not finite stay so."""
    if nodes.size == sizes.size:
        return np.array(values)
    is_finite = np.isfinite(values).all(axis=1)
    found = np.full((len(values), sizes.size), np.nan)
    found[~is_finite] = values.max(axis=1, initial=-np.inf)[~is_finite, None]
    if is_finite.any():
        x = sizes.astype(float) ** 0.25
        found[is_finite] = CubicSpline(nodes.astype(float) ** 0.25, values[is_finite], axis=1)(x)
    return found


def _log_sum(terms: Floats) -> Floats:
    """log sum exp along rows; -inf where every term is, NaN where one is."""
    top = terms.max(axis=1)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(np.where(np.isfinite(top), safe + np.log(np.exp(terms - safe[:, None]).sum(axis=1)), top))
