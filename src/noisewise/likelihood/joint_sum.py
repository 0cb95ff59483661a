"""The joint law of several noisy sums of the same records, without the central limit theorem.

Components are reduced to independent sums (`independent_sums`), each with all its noises on it (`noise_on_sum`). Sums
of columns that are independent of each other are inverted apart, up to three at a time (`joint_inversion`), and their
log-probabilities add; a component that cannot vary adds its noise. The cost does not grow with n, but what is gained
over the central limit theorem falls: `joint` uses this law up to n = LARGEST_N.

Rows of theta whose inversion is not resolved keep the tilted central limit value (`tilted_sum`); where such a row could
be seen in a posterior `because` says so after evaluation, and `cautions` warns. Beyond a hundred records that value is
as good as where `tilted_sum` is the law for all rows, and then only what that law warns of itself is warned of.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisewise.errors import InvalidArgument
from noisewise.likelihood import joint_inversion
from noisewise.likelihood.integrated_noise import IntegratedNoise
from noisewise.likelihood.model import GroupLaw, Parameters, numerical_score, scalar_supports
from noisewise.likelihood.noise_on_sum import NoiseOnSum
from noisewise.likelihood.normal_rows import SEEN, NormalRows, cautions_at
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.likelihood.sum_setting import SumSetting
from noisewise.likelihood.tilted_sum import FEW_RECORDS, TiltedSum
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import AnyPopulation
from noisewise.release import NoisyValue

__all__ = ["JointSum"]

LARGEST_N = 1000
MOST_SUMS = 3  # that depend on each other
MOST_UNKNOWNS = 2
LARGEST_ERROR = 0.02  # of the p of the best row, beyond which a row is not resolved
LARGEST_OWN = 0.5  # the same, of the row's own p
PRIOR_DRAWS = 256
VISIBLE_LATTICE = 4.0  # gaps: two lattices of whole numbers under narrower noise are summed over all frequencies


class JointSum(GroupLaw):
    """The likelihood of additive releases of the same n records: their own joint law."""

    roughness = 1e-5  # what frequencies left out may add to p, row by row
    is_joint_sum = True

    def __init__(self, releases: tuple[NoisyValue, ...], population: AnyPopulation, *, n: int) -> None:
        self.releases, self.population, self.n = releases, population, n
        self.tilted = TiltedSum(releases, population, n=n)
        self.normal: NormalSum = self.tilted.normal
        self.normal_rows = NormalRows()

    @classmethod
    def refusal(cls, releases: tuple[NoisyValue, ...], population: AnyPopulation, *, n: int) -> str | None:
        """Why this law is out of reach, or None."""
        if n > LARGEST_N:
            return f"more than {LARGEST_N} records"
        if sum(support.unknowns for support in population.supports.values()) > MOST_UNKNOWNS:
            return "more than two unknowns, for which the joint law of the sums would be slow"
        if (why := TiltedSum.refusal(releases, population, n=n)) is not None:
            return why
        model = NormalSum(releases, population, n=n)
        if np.any(model.ties.sum_of == -2):
            return "a component that adds several sums up"
        most = max(sum(j in set(block.tolist()) for j in model.ties.basis) for block in model.blocks)
        return f"{most} sums that depend on each other" if most > MOST_SUMS else None

    @property
    def is_exact(self) -> bool:
        return not self.normal_rows.matter

    @property
    def because(self) -> str:
        rank = self.normal.ties.rank
        what = "the sum" if rank == 1 else f"the {rank} sums"
        return (
            f"exact joint law of {what} over {self.n} records (characteristic function inverted), with the noise "
            f"inside{self.normal_rows.words()}"
        )

    @property
    def cautions(self) -> tuple[str, ...]:
        return self.normal_rows.cautions(self.n)

    @cached_property
    def quick(self) -> TiltedSum | IntegratedNoise | None:
        """A law near this one at a small part of its cost, for proposals; None where there is none."""
        return self.tilted.integrated() if self.normal.mixing else self.tilted

    @cached_property
    def settings(self) -> tuple[SumSetting, ...]:
        """One for each group of sums that depend on each other."""
        return tuple(self._setting(group, smears=True) for group in self.tilted.groups)

    def _setting(self, group: Any, *, smears: bool) -> SumSetting:
        lattices = group.points.lattices
        noises = tuple(
            NoiseOnSum.of(self.normal, int(k), None if lattice is None else lattice[1])
            for k, lattice in zip(group.sums, lattices, strict=True)
        )
        # Sums of whole numbers of one discrete record may share a coarser lattice, which only all frequencies see.
        gaps = [noise.finest / lattice[1] for noise, lattice in zip(noises, lattices, strict=True) if lattice]
        is_whole = group.points.is_discrete and len(gaps) > 1 and min(gaps) < VISIBLE_LATTICE
        return SumSetting(self.n, noises, lattices, smears, is_whole)

    def log_likelihood(self, theta: Theta) -> Array:
        rows = rows_of(theta)
        constant = self._constant
        total, error = np.full(rows, constant), np.zeros(rows)
        impossible = np.zeros(rows, bool)
        for group, setting in zip(self.tilted.groups, self.settings, strict=True):
            try:
                record = group.points.record(theta)
            except InvalidArgument:  # no theta of this batch can have left a record inside the bounds
                return np.full(rows, -np.inf)
            reached = self.normal_rows.best if len(self.settings) == 1 else -np.inf
            found = joint_inversion.log_probability(
                setting, record, group.points.atoms, reached=reached - constant, most=self._products
            )
            impossible |= np.isnan(record.logs).any(axis=1)
            total = total + found.log_probability
            error = np.maximum(error, np.where(np.isfinite(found.log_probability), found.error, np.inf))
        is_normal = ~self._is_resolved(total, error) & ~impossible
        if is_normal.any():
            lost = {name: np.asarray(value)[is_normal] for name, value in theta.items()}
            total[is_normal] = self._stand_in(lost)
        total[impossible] = -np.inf if self.releases[0].schema.outside == "refuse" else np.nan
        self.normal_rows.add(total, is_normal)
        return total

    def _is_resolved(self, log_p: Array, error: Array) -> NDArray[np.bool_]:
        """Rows whose error cannot be seen: of a row far below the best one a larger part of it.

        A stand-in is no better there, and where it takes over the density has a step.
        """
        best = np.max(log_p, where=error < LARGEST_ERROR, initial=self.normal_rows.best)
        with np.errstate(invalid="ignore"):
            felt = error * np.exp(np.minimum(log_p - best, 0.0))
        return np.asarray((error < LARGEST_ERROR) | ((error < LARGEST_OWN) & (felt < LARGEST_ERROR)))

    @cached_property
    def _products(self) -> float:
        """What a row may cost. Of one unknown rows are few; but one that is left out makes a step in the density, so
        where likely ones would be, all are."""
        if sum(support.unknowns for support in self.population.supports.values()) > 1:
            return joint_inversion.MOST_PRODUCTS
        most = 2 * joint_inversion.MOST_PRODUCTS
        drawn = self.population.sample_prior(np.random.default_rng(0), PRIOR_DRAWS)
        with np.errstate(all="ignore"):
            logs = self._stand_in(drawn)
        likely = np.flatnonzero(logs > np.nanmax(logs, initial=-np.inf) - SEEN)
        rows = {name: np.asarray(value)[likely] for name, value in drawn.items()}
        for group, setting in zip(self.tilted.groups, self.settings, strict=True):
            if likely.size and np.any(joint_inversion.products(setting, group.points.record(rows)) > most):
                return 0.0
        return most

    @cached_property
    def _constant(self) -> float:
        """Components that cannot vary: their noise alone, the same for every theta."""
        total, ties, offset = 0.0, self.normal.ties, 0
        for release in self.releases:
            law: Any = release.law
            for k, value in enumerate(release.value):
                if ties.sum_of[offset + k] == -1:
                    away = value - self.n * ties.constant[offset + k] / law.step[k]
                    total += float(law.log_pmf(away, component=k))
            offset += len(release.value)
        return total

    def _stand_in(self, theta: Theta) -> Array:
        """The tilted central limit law; with three and more Laplace components, under Gaussian noise as wide."""
        if not self.normal.mixing:
            return self.tilted.log_likelihood(theta)
        variances = np.broadcast_to(2 * np.square(self.normal.mixing_scale), (rows_of(theta), self.normal.mixing))
        return self.tilted.log_likelihood_given(theta, variances)

    def score(self, theta: Theta) -> dict[str, Array]:
        return numerical_score(self.log_likelihood, theta, scalar_supports(self.population))

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """The sums given y and theta, from their own joint law; by the central limit theorem where that is lost."""
        ties = self.normal.ties
        sums = np.full((rows_of(theta), ties.rank), np.nan)
        for group in self.tilted.groups:
            setting = self._setting(group, smears=False)
            record = group.points.record(theta)
            sums[:, group.sums] = joint_inversion.draw(rng, setting, record, group.points.atoms)
        divisors = np.concatenate([np.full(len(release.value), release.divisor) for release in self.releases])
        drawn = ties.expanded(sums, self.n) / divisors
        lost = np.flatnonzero(~np.isfinite(sums).all(axis=1))
        if lost.size:
            rows = {name: np.asarray(value)[lost] for name, value in theta.items()}
            drawn[lost] = self.tilted.draw_statistic(rng, rows)
        return np.asarray(drawn)

    def latent(self, parameters: Parameters) -> Any:
        return None


@cautions_at.register
def _(model: JointSum, theta: Theta) -> tuple[str, ...]:
    found = model.normal_rows.cautions_at(model.log_likelihood, theta, model.n)
    return found if not found or model.n <= FEW_RECORDS else model.tilted.cautions
