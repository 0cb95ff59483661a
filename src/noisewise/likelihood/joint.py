"""The likelihood of one or several releases, chosen from their structure.

Likelihoods of different records multiply; releases of the same records have one joint law of the stacked statistic
(`joining` tells which is which). Within a group of the same records the law is the statistic's own where that is
affordable (counts and tables; sums of waiting times and of whole numbers; one to three other sums of up to a thousand
records; local answers; order statistics through a bank), else the central limit theorem with the clamp inside its
moments: taken where the release is while records are few, plainly where they are many. `because` says which, and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, cast

import numpy as np

from noisewise.errors import Unsupported
from noisewise.joining import Joined, joined_by_prior, listed_releases, one_schema
from noisewise.laws import Form
from noisewise.likelihood.answers_and_sums import AnswersAndSums
from noisewise.likelihood.any_noise import AnyNoiseSum, is_any_noise
from noisewise.likelihood.bank import RecordsBank
from noisewise.likelihood.closed_sum import ClosedSum
from noisewise.likelihood.column_blocks import ColumnBlocks
from noisewise.likelihood.count_models import CellsModel, CountModel, TableModel
from noisewise.likelihood.exact_sum import ExactSum
from noisewise.likelihood.excluding_counts import ExcludingCounts
from noisewise.likelihood.joint_sum import JointSum
from noisewise.likelihood.large_table import LargeTable
from noisewise.likelihood.local_answers import LocalAnswers
from noisewise.likelihood.model import Likelihood, Parameters, check_likelihood
from noisewise.likelihood.normal_rows import cautions_at
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.likelihood.order_bank import OrderBank
from noisewise.likelihood.quantile_bank import QuantileBank
from noisewise.likelihood.record_points import unlisted_records
from noisewise.likelihood.simulated import simulated_law
from noisewise.likelihood.tilted_sum import TiltedSum
from noisewise.likelihood.unknown_size import GroupLikelihood, UnknownSize
from noisewise.likelihood.whole_tables import WholeTables
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import AnyPopulation, Joint
from noisewise.populations.simulator import Simulator
from noisewise.release import NoisyValue
from noisewise.statistics import Histogram, Marginals, Sort
from noisewise.statistics.protocol import no_population
from noisewise.statistics.tables import refuse_tied

SMALL_N = 30  # up to here several sums of few records are worth a bank
TINY_N = 8  # up to here they are worth it before an inversion, whose integrand hardly fades
LARGEST_TILTED = 1000  # beyond, the central limit theorem needs no help
MOST_DENSE = 600  # components whose joint covariance is made
MOST_UNKNOWNS = 50  # beside a large table
MOST_ENTRIES = 2**22  # of the covariances that are held at once


@dataclass(frozen=True, slots=True)
class Product:
    """Independent groups of records: log-likelihoods add."""

    groups: tuple[Any, ...]

    @property
    def releases(self) -> tuple[NoisyValue, ...]:
        return tuple(release for group in self.groups for release in group.releases)

    @property
    def is_exact(self) -> bool:
        return all(group.is_exact for group in self.groups)

    @property
    def because(self) -> str:
        reasons = list(dict.fromkeys(group.because for group in self.groups))
        if len(self.groups) == 1:
            return str(reasons[0])
        return f"{len(self.groups)} independent groups of records: {'; '.join(reasons)}"

    @property
    def cautions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(caution for group in self.groups for caution in group.cautions))

    @property
    def mixing(self) -> int:
        """Mixing variances to be sampled with theta, over all groups."""
        return sum(group.mixing for group in self.groups)

    @property
    def mixing_scale(self) -> Array:
        """The Laplace scale behind each mixing variance."""
        return np.concatenate([group.mixing_scale for group in self.groups if group.mixing] or [np.empty(0)])

    def integrated(self) -> Product | None:
        """The same with the noise of all groups integrated out, so that no mixing is left; None where it is felt."""
        groups = tuple(group.integrated() for group in self.groups)
        return None if any(group is None for group in groups) else Product(groups)

    def factors(self, population: AnyPopulation) -> tuple[tuple[Any, Product | None], ...]:
        """Populations whose unknowns are independent given the releases, each with its part of the likelihood.

        None stands for unknowns that no release tells anything about. One factor, unless columns are independent.
        """
        if not isinstance(population, Joint):
            return ((population, self),)
        laws = [part for group in self.groups for part in group.by_columns]
        factors: list[tuple[set[str], list[Any]]] = [({name}, []) for name in population.columns]
        for law in laws:
            own = frozenset[str]().union(*(r.statistic.columns() for r in law.releases))
            linked = [factor for factor in factors if factor[0] & own]
            factors = [factor for factor in factors if not factor[0] & own]
            names = set().union(*(factor[0] for factor in linked))
            factors.append((names, [*(member for factor in linked for member in factor[1]), law]))
        made = [(population.of_columns(names), members) for names, members in factors]
        return tuple((own, Product(tuple(members)) if members else None) for own, members in made if own.free)

    @property
    def quick(self) -> Product | None:
        """A product near this one at a small part of its cost, for proposals; None where no group has such a law."""
        groups = tuple(group.quick or group for group in self.groups)
        is_new = any(new is not old for new, old in zip(groups, self.groups, strict=True))
        return Product(groups) if is_new else None

    @property
    def roughness(self) -> float:
        """The relative error of the likelihood itself, where it is computed from base draws: finer is not worth it."""
        return max((float(group.roughness) for group in self.groups), default=0.0)

    @property
    def is_quick(self) -> bool:
        """Whether every group's law is a closed form."""
        return all(group.is_quick for group in self.groups)

    def log_likelihood(self, theta: Theta) -> Array:
        rows = len(next(iter(theta.values())))
        pieces = [{name: value[start:stop] for name, value in theta.items()} for start, stop in self._pieces(rows)]
        return np.concatenate([np.asarray(sum(group.log_likelihood(some) for group in self.groups)) for some in pieces])

    def _pieces(self, rows: int) -> list[tuple[int, int]]:
        """Rows of theta by turns, so that what many components need fits into memory."""
        largest = max(sum(len(release.value) for release in group.releases) for group in self.groups)
        held = largest**2 if largest <= MOST_DENSE else 4 * largest  # a covariance, or the chances of all cells
        each = rows if largest < 50 else max(1, MOST_ENTRIES // held)
        return [(start, start + each) for start in range(0, max(rows, 1), max(each, 1))]

    def log_likelihood_given(self, theta: Theta, variances: Array) -> Array:
        """log p(y | theta, w) with the mixing variances w (K, mixing), group by group."""
        total, start = np.zeros(len(variances)), 0
        for group in self.groups:
            size = group.mixing
            mixed = variances[:, start : start + size]
            total = total + (group.log_likelihood_given(theta, mixed) if size else group.log_likelihood(theta))
            start += size
        return total

    def score(self, theta: Theta) -> dict[str, Array]:
        scores = [group.score(theta) for group in self.groups]
        return {name: np.asarray(sum(score[name] for score in scores)) for name in scores[0]}

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        return np.concatenate([group.draw_statistic(rng, theta) for group in self.groups], axis=1)

    def latent(self, parameters: Parameters) -> Any:
        return self.groups[0].latent(parameters) if len(self.groups) == 1 else None


@cautions_at.register
def _(model: Product, theta: Theta) -> tuple[str, ...]:
    return tuple(dict.fromkeys(caution for group in model.groups for caution in cautions_at(group, theta)))


def joint_likelihood(
    releases: Sequence[NoisyValue], population: AnyPopulation, *, likelihood: str = "auto", n: object = None
) -> Product:
    """p(releases | theta) by the rule above; `n` is the stated number of records under add-remove, or its prior."""
    check_likelihood(likelihood)
    together = joined_by_prior(checked_releases(releases), n)
    return Product(tuple(_law(together, index, population, likelihood) for index in range(len(together.groups))))


def _law(together: Joined, index: int, population: AnyPopulation, likelihood: str) -> Likelihood:
    """The law of one group, summed over the number of its records where that is unknown."""
    group = together.groups[index]
    releases = one_schema(together.members(group))
    prior = together.prior(group)
    if prior is None:
        return group_law(population, releases, likelihood, together.size(group))
    if unlisted_records(population):
        raise Unsupported(
            "A prior on n needs laws of the columns, and a Simulator is known by its draws alone: state n=, or "
            "describe the columns by laws."
        )
    return UnknownSize(
        releases, population, prior, lambda some, n: cast(GroupLikelihood, _group(some, population, likelihood, n))
    )


def checked_releases(releases: object) -> tuple[NoisyValue, ...]:
    """One release or several, all of a kind that a population can be learnt from."""
    given = listed_releases(releases)
    for release in given:
        if reason := release.statistic.why_no_population():
            raise no_population(release.statistic.kind, reason)
        refuse_tied(release.statistic)
    return given


@singledispatch
def group_law(population: AnyPopulation, releases: tuple[NoisyValue, ...], likelihood: str, n: int) -> Likelihood:
    """The law of releases of the same records."""
    return _group(releases, population, likelihood, n)


@group_law.register
def _(population: Simulator, releases: tuple[NoisyValue, ...], likelihood: str, n: int) -> Likelihood:
    return simulated_law(releases, population, likelihood=likelihood, n=n)


def _group(releases: tuple[NoisyValue, ...], population: AnyPopulation, likelihood: str, n: int) -> Likelihood:
    """The same for a population that is described by laws of its columns."""
    statistics = [release.statistic for release in releases]
    is_additive = all(statistic.sort in (Sort.SUMS, Sort.COUNT, Sort.TABLE) for statistic in statistics)
    has_finite = any(release.law.form is Form.ACTION for release in releases)
    if likelihood == "clt":
        if not is_additive or has_finite:
            raise Unsupported("likelihood='clt' needs sums, means, counts or tables; use likelihood='auto'.")
        return _normal(releases, population, n)
    if any(statistic.is_local for statistic in statistics):
        if len(releases) > 1:
            return _with_answers(releases, population, n)
        local = CellsModel.of if releases[0].is_categorical else None
        return local(releases, population, n=n) if local else LocalAnswers(releases[0], population, n=n)
    if any(release.law.form is Form.POINT for release in releases):
        if len(releases) > 1:
            raise Unsupported(
                "A private quantile and another release of the same records have no joint law here: its chance depends "
                "on all records beside it, and it may have set the other's bounds. Release them from disjoint parts, "
                "or infer from one of them."
            )
        return QuantileBank.of(releases[0], population)
    if not is_additive:
        if len(releases) == 1:
            return OrderBank.of(releases[0], population)
        return RecordsBank.of(releases, population, n=n)
    if any(statistic.groups(release.schema) for statistic, release in zip(statistics, releases, strict=True)):
        counted = None if has_finite else ExcludingCounts.of(releases, population, n=n)
        return counted or _normal(releases, population, n, "sums by group")
    if CountModel.counts(releases):
        return CountModel.of(releases, population, n=n)
    if not has_finite and n <= LARGEST_TILTED:

        def law_of(some: tuple[NoisyValue, ...], own: Any) -> Likelihood:
            return _group(some, own, likelihood, n)

        if (blocks := ColumnBlocks.of(releases, population, n=n, make=law_of)) is not None:
            return blocks
    if has_finite:
        raise Unsupported("An estimator's output joins only with releases of the same count of the same records.")
    return _additive(releases, population, n)


def _with_answers(releases: tuple[NoisyValue, ...], population: AnyPopulation, n: int) -> AnswersAndSums:
    """Local answers beside sums of the same records; beside anything else there is no law."""
    for release in releases:
        statistic = release.statistic
        is_sum = statistic.sort in (Sort.SUMS, Sort.COUNT, Sort.TABLE) and release.law.form is Form.NUMBER
        if not (statistic.is_local or is_sum):
            raise Unsupported(
                f"Local answers and {statistic!s:.80} of the same records have no joint law that can be computed; "
                "beside sums, means, counts and tables with added noise they have one. Release them from disjoint "
                "parts, or infer from one of them."
            )
    return AnswersAndSums(releases, population, n=n)


def _additive(releases: tuple[NoisyValue, ...], population: AnyPopulation, n: int) -> Likelihood:
    """Sums, means and tables: exact where affordable, else the central limit theorem, saying why."""
    first = releases[0].statistic
    is_repeated = all(release.statistic == first for release in releases)
    if is_repeated and isinstance(first, Histogram | Marginals):
        if isinstance(first, Marginals) and len(first.cliques) > 1:
            return _normal(releases, population, n, "cliques overlap")
        if all(TableModel.is_affordable(release, n=n) for release in releases):
            return TableModel.of(releases, population, n=n)
        if LargeTable.is_affordable(releases, n=n):
            return _large_table(releases, population, n)
        return _normal(releases, population, n, "the table is too large to enumerate")
    if is_any_noise(releases):
        bank = RecordsBank.of(releases, population, n=n) if n <= SMALL_N else None
        return bank if bank is not None and bank.is_affordable() else AnyNoiseSum(releases, population, n=n)
    closed = ClosedSum.of(releases, population, n=n)
    if closed is not None:
        return closed
    counted = ExcludingCounts.of(releases, population, n=n)
    if counted is not None and counted.conjugate() is not None:
        return counted
    if (tables := WholeTables.of(releases, population, n=n) or counted) is not None:
        return tables
    if len(releases) == 1 and len(population.free) == 1 and ExactSum.refusal(releases[0], population, n=n) is None:
        return ExactSum(releases[0], population, n=n)
    reason = JointSum.refusal(releases, population, n=n)
    if n <= (SMALL_N if reason else TINY_N):
        bank = RecordsBank.of(releases, population, n=n)
        if bank.is_affordable():
            return bank
    if reason is None:
        return JointSum(releases, population, n=n)
    if n <= LARGEST_TILTED and TiltedSum.refusal(releases, population, n=n) is None:
        return TiltedSum(releases, population, n=n, reason=reason)
    return _normal(releases, population, n, reason)


def _normal(releases: tuple[NoisyValue, ...], population: AnyPopulation, n: int, reason: str = "") -> NormalSum:
    """The central limit theorem, where the covariance of all components can be made."""
    size = sum(len(release.value) for release in releases)
    if size > MOST_DENSE:
        raise Unsupported(
            f"{releases[0].statistic!s:.80} has {size} components in all and no exact law that is affordable, and the "
            f"normal law of more than {MOST_DENSE} together is not computed. Infer from fewer components (a coarser "
            "table, or one of the cliques); several cliques of columns with levels are for a GraphicalModel."
        )
    return NormalSum(releases, population, n=n, reason=reason)


def _large_table(releases: tuple[NoisyValue, ...], population: AnyPopulation, n: int) -> LargeTable:
    """A table of many cells behind few unknowns; as many unknowns as cells would be drawn for ever."""
    unknowns = sum(support.unknowns for support in population.supports.values())
    if unknowns > MOST_UNKNOWNS:
        raise Unsupported(
            f"{releases[0].statistic!s:.80} has {len(releases[0].value)} cells and the population {unknowns} unknowns; "
            f"more than {MOST_UNKNOWNS} are not drawn beside a table this large. Describe the records by a law with "
            "fewer unknowns, or release a coarser table."
        )
    return LargeTable.of(releases, population, n=n)
