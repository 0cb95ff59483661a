"""Several noisy sums by the central limit theorem where the release is, and not where the sums are expected.

With the tilt tau that puts the records where the release says they are (`record_tilt`),
    p(y) = e^{n K(tau)} E_tau g(S) e^{-tau S},      S under the tilted law about N(m, V), m = n K'(tau), V = n K''(tau),
         = exp(n K - tau m + tau' V tau/2)  int N(s; m - V tau, V) g(s) ds      (Barndorff-Nielsen & Cox 1979),
so it is the plain law's density (`normal_sum`) at other moments, times a factor. The centre of the expansion is where
the release is, so what the theorem neglects is of relative order 1/n there, not of order 1/sqrt(n) in the tails: the
posterior mean is off by .01 of its sd at n = 20 to 40 where the plain law is off by .09, and by at most .3 where that
is off by .7. What it still misses is the lattice of indicators under noise narrower than one person.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.likelihood.integrated_noise import IntegratedNoise, affordable
from noisewise.likelihood.model import GroupLaw, Parameters, numerical_score, scalar_supports
from noisewise.likelihood.noise_on_sum import NoiseOnSum
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.likelihood.record_points import RecordPoints
from noisewise.likelihood.record_tilt import Pull, best_tilt
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import AnyPopulation
from noisewise.release import NoisyValue

__all__ = ["FEW_RECORDS", "TiltedSum", "shortfall"]

VISIBLE = 0.1  # sds of a posterior by which the plain law may be off before it is said
FEW_RECORDS = 100
FEWEST_SEEN = 8
SEEN_LATTICE = 1.5  # gaps: noise wider than this hides the lattice of an indicator


@dataclass(frozen=True, eq=False)
class _Group:
    """Sums that depend on each other: their places among all sums, their record, and the pull of their noise."""

    sums: Any
    points: RecordPoints
    pull: Pull


class TiltedSum(GroupLaw):
    """The likelihood of additive releases of the same n records, by the central limit theorem of the tilted record."""

    is_exact = False
    is_joint_sum = True

    def __init__(
        self, releases: tuple[NoisyValue, ...], population: AnyPopulation, *, n: int, reason: str = ""
    ) -> None:
        self.releases, self.population, self.n, self.reason = releases, population, n, reason
        self.normal = NormalSum(releases, population, n=n)
        self._last: tuple[Theta, tuple[Array, Array, Array]] | None = None

    @classmethod
    def refusal(cls, releases: tuple[NoisyValue, ...], population: AnyPopulation, *, n: int) -> str | None:
        """Why the tilted law is out of reach, or None."""
        model = NormalSum(releases, population, n=n)
        ties = model.ties
        if ties.rank == 0:
            return "nothing that varies"
        for block in model.blocks:
            own = [model.row[j] for j in ties.basis if j in set(block.tolist())]
            if own and (why := RecordPoints.refusal(population, releases[0].schema, own)):
                return why
        return None

    @cached_property
    def groups(self) -> tuple[_Group, ...]:
        model, schema = self.normal, self.releases[0].schema
        found = []
        for block in model.blocks:
            members = set(block.tolist())
            sums = np.array([k for k, j in enumerate(model.ties.basis) if j in members], int)
            if sums.size == 0:
                continue
            features = tuple(model.row[model.ties.basis[k]] for k in sums)
            place, scale, kind = zip(*(NoiseOnSum.of(model, int(k), None).pull for k in sums), strict=True)
            pull = Pull(np.array(place), np.array(scale), np.array(kind))
            found.append(_Group(sums, RecordPoints.of(self.population, schema, features), pull))
        return tuple(found)

    @property
    def because(self) -> str:
        what = "the sum is" if self.normal.ties.rank == 1 else f"the {self.normal.ties.rank} sums are jointly"
        reason = f" ({self.reason})" if self.reason else ""
        return f"central limit theorem where the release is (tilted): {what} normal over {self.n} records{reason}"

    @cached_property
    def cautions(self) -> tuple[str, ...]:
        """An indicator's lattice that shows through its noise is not in this law."""
        for group in self.groups:
            for k, lattice in zip(group.sums, group.points.lattices, strict=True):
                if lattice is not None and NoiseOnSum.of(self.normal, int(k), None).finest < SEEN_LATTICE * lattice[1]:
                    return (
                        "A count among these sums takes whole numbers that its noise does not hide, and the law used "
                        "takes it as continuous: the evidence, and intervals narrower than one person, may be off.",
                    )
        return ()

    @property
    def mixing(self) -> int:
        return self.normal.mixing

    @property
    def mixing_scale(self) -> Array:
        return self.normal.mixing_scale

    def moments(self, theta: Theta) -> tuple[Array, Array, Array]:
        """The log factor (K,), and the moments (K, d), (K, d, d) at which the plain density is taken."""
        if self._last is not None and _are_equal(self._last[0], theta):
            return self._last[1]  # a sampler of mixing variances asks again and again for the same theta
        rows, ties = rows_of(theta), self.normal.ties
        factor = np.zeros(rows)
        mean, covariance = np.zeros((rows, ties.rank)), np.zeros((rows, ties.rank, ties.rank))
        for group in self.groups:
            k = group.sums
            try:
                record = group.points.record(theta)
            except InvalidArgument:  # no theta of this batch can have left a record inside the bounds
                factor[:] = np.nan
                continue
            usable = np.flatnonzero(np.isfinite(record.logs.max(axis=1)))
            factor[np.setdiff1d(np.arange(rows), usable)] = np.nan
            if usable.size == 0:
                continue
            own = record.rows(usable)
            tilt = best_tilt(own, self.n, group.pull)
            at = own.tilted(tilt)
            moved = self.n * np.einsum("krs,ks->kr", at.covariance, tilt)
            exponent = at.log_moment - np.sum(tilt * at.mean, axis=1)
            factor[usable] += self.n * exponent + 0.5 * np.sum(tilt * moved, axis=1)
            mean[usable[:, None], k] = self.n * at.mean - moved
            covariance[usable[:, None, None], k[:, None], k] = self.n * at.covariance
        full = ties.expanded(mean, self.n), ties.loading @ covariance @ ties.loading.T
        self._last = ({name: np.array(value) for name, value in theta.items()}, (factor, *full))
        return self._last[1]

    def integrated(self) -> TiltedSum | IntegratedNoise | None:
        """The same with the mixing variances integrated out, itself without any; None where the error is felt."""
        return affordable(self) if self.mixing else self

    @property
    def plain(self) -> NormalSum:
        return self.normal

    def placed(self, theta: Theta) -> tuple[Array, Array, Array]:
        return self.moments(theta)

    def remember(self, theta: Theta, log_likelihood: Array) -> None:
        """Nothing: this law's cautions do not depend on theta."""

    def log_likelihood(self, theta: Theta) -> Array:
        return self.log_likelihood_given(theta, np.empty((1, 0)))

    def log_likelihood_given(self, theta: Theta, variances: Array) -> Array:
        """log p(y | theta, w), as `normal_sum` has it at the tilted moments."""
        factor, mean, covariance = self.moments(theta)
        return np.asarray(
            factor + self.normal.log_density_at(mean, covariance, variances, is_possible=~np.isnan(factor))
        )

    def score(self, theta: Theta) -> dict[str, Array]:
        return numerical_score(self.log_likelihood, theta, scalar_supports(self.population))

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """The sums given y and theta, by the same law: the plain law's draw at the tilted moments."""
        _, mean, covariance = self.moments(theta)
        return self.normal.draw_at(rng, mean, covariance)

    def latent(self, parameters: Parameters) -> Any:
        return None


def shortfall(model: NormalSum) -> tuple[str, ...]:
    """What the plain central limit law misses where the release is, as a caution: none where that is nothing.

    Over the rows of theta that the release makes likely, the two laws' log-likelihoods differ by D(theta). If that
    grows along a parameter by d for each of its sds, the posterior moves by d of them: so the spread of D is the bias.
    """
    theta, logs = model.seen.likely()
    if logs.size < FEWEST_SEEN or model.ties.rank == 0:
        return ()
    what = "This sum is" if model.ties.rank == 1 else f"These {model.ties.rank} sums are"
    if TiltedSum.refusal(model.releases, model.population, n=model.n) is not None:
        if model.n > FEW_RECORDS or model.ties.rank == 1:
            return ()
        return (
            f"{what} taken as normal over only {model.n} records, and nothing better is at hand: intervals may be "
            "somewhat off.",
        )
    tilted = TiltedSum(model.releases, model.population, n=model.n)
    variances = np.broadcast_to(2 * np.square(model.mixing_scale), (logs.size, model.mixing))
    mean, covariance = model.moments(theta)
    with np.errstate(all="ignore"):
        plain = model.log_density_at(mean, covariance, variances, is_possible=np.ones(logs.size, bool))
        away = plain - tilted.log_likelihood_given(theta, variances)
    weight = np.ones(logs.size) if model.mixing else np.exp(logs - logs.max())
    weight = np.where(np.isfinite(away), weight, 0.0)
    if weight.sum() == 0:
        return ()
    away = np.where(weight > 0, away, 0.0)
    spread = float(np.sqrt(np.average(np.square(away - np.average(away, weights=weight)), weights=weight)))
    if spread < VISIBLE:
        return ()
    return (
        f"{what} taken as normal over {model.n} records, which they visibly are not: estimates may be off by about "
        f"{spread:.1g} of their sd.",
    )


def _are_equal(one: Theta, other: Theta) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
