"""Noise-aware Gibbs sampling of conjugate families (Bernstein & Sheldon 2018), many compiled chains.

A sweep draws the confidential sufficient statistic given the parameters and the release (normal, by the central limit
theorem), the parameters given that statistic (conjugate), and the mixing variances that make Laplace noise normal.
    variant="joint"        the published and the sufficient sums are jointly normal (the default)
    variant="published"    the parts below, inside and above the window are independent of each other, as in the paper
    variant="as-printed"   and the sum inside is drawn without the release before the mixing variances (line 10 of the
                           print), which makes posteriors too wide: for comparison only
The variants differ only for sums of a window (`sum_gibbs`, `normal_gibbs`); counts and tables have one (`table_gibbs`).

The central limit theorem is the price: good from n of about 100 on and away from the edges. A redacted sum need not be
monotone in the parameter, and then the posterior has two modes between which chains do not move: they start from the
prior times a tenth of the log-likelihood, so that they find both and R-hat shows it. Same seed, same draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.families.family import BERNOULLI, CATEGORICAL, NORMAL, POISSON, Family
from noisewise.populations.parameters import Array
from noisewise.printable import shown

__all__ = ["VARIANTS", "GibbsDraws", "gibbs"]

VARIANTS = ("joint", "published", "as-printed")
FEW_RECORDS = 30  # below which the central limit theorem is poor
TOLD = 1e-3  # a larger share of projected draws is told
SHARE = 0.1  # of the log-likelihood, or of the records, for the start
FROM_PRIOR, AT_FACE_VALUE = 400, 100  # candidates for the start of a chain

Progress = Callable[[int, int], None]
Chain = Callable[[np.random.Generator, int], tuple[Array, int]]  # draws (sweeps, ...) and projections


@dataclass(frozen=True, slots=True, eq=False)
class GibbsDraws:
    """Draws by parameter, (chains, draws) or (chains, draws, cells), and how they came about."""

    draws: Mapping[str, Array]
    how: str
    projections: int  # confidential sums that no data could have, moved to the nearest possible ones
    sweeps: int
    notes: tuple[str, ...] = ()  # what no diagnostic of the chains can see


def gibbs(
    rng: np.random.Generator,
    family: Family,
    *,
    chains: int = 4,
    draws: int = 1000,
    warmup: int = 1000,
    variant: str = "joint",
    progress: Progress | None = None,
) -> GibbsDraws:
    """Draws from the posterior of a conjugate family, `warmup` sweeps of each chain left out."""
    if variant not in VARIANTS:
        raise InvalidArgument(f"variant = {shown(variant, 40)}: there are {', '.join(VARIANTS)}.", argument="variant")
    run = _runner(family, variant)
    kept, projections = [], 0
    for index, own in enumerate(rng.spawn(chains)):
        drawn, projected = run(own, warmup + draws)
        kept.append(drawn[warmup:])
        projections += projected
        if progress is not None:
            progress(index + 1, chains)
    values = np.stack(kept)
    sweeps = chains * (warmup + draws)
    each = np.moveaxis(values, 2, 0) if family.kind == NORMAL else values[None]
    by_name = dict(zip(family.parameters, each, strict=True))
    return GibbsDraws(by_name, _how(family, variant, projections, sweeps), projections, sweeps, _notes(family))


def _notes(family: Family) -> tuple[str, ...]:
    """Sentences for the verdict: where converged chains may still be wrong."""
    notes = []
    windows = [each.window for each in family.observations if each.window is not None]
    if any(not (window.is_clamped_below and window.is_clamped_above) for window in windows):
        notes.append(
            "A redacted sum can have two explanations, and chains do not move between them; method='exact' sees both."
        )
    fewest = min(each.n for each in family.observations)
    if fewest < FEW_RECORDS:
        notes.append(f"The central limit theorem is poor at n = {fewest}; method='exact' does without where it can.")
    return tuple(notes)


def _how(family: Family, variant: str, projections: int, sweeps: int) -> str:
    words = f"Gibbs sampling of the {family.kind} model"
    if family.observations[0].window is not None and variant != "joint":
        words += f", variant {variant!r}"
    if projections > TOLD * sweeps:
        words += (
            f" ({projections} of {sweeps} sweeps met sums that no records have and moved them to the nearest possible "
            "ones: the normal approximation is poor here, use method='exact')"
        )
    return words


def _runner(family: Family, variant: str) -> Chain:
    """One chain as a function of a generator and a number of sweeps."""
    told = _Told.of(family)
    if family.kind == CATEGORICAL:
        return _table_chain(family, told)
    if family.kind == BERNOULLI:
        return _proportion_chain(family, told.scalar())
    if family.kind == NORMAL:
        return _normal_chain(family, told, variant)
    return _rate_chain(family, told.scalar(), variant)


def _proportion_chain(family: Family, told: _Told) -> Chain:
    from noisewise.families.table_gibbs import proportion_chain

    a, b = family.prior
    yes = float(np.clip(told.observed, 0.0, told.sizes).sum())
    no = float(told.sizes.sum()) - yes

    def run(rng: np.random.Generator, sweeps: int) -> tuple[Array, int]:
        start = rng.beta(a + SHARE * yes, b + SHARE * no)
        return proportion_chain(rng, a, b, *told.fresh(), start, sweeps), 0

    return run


def _table_chain(family: Family, told: _Told) -> Chain:
    from noisewise.families.table_gibbs import table_chain

    alpha = np.array(family.prior)
    seen = np.clip(told.observed, 0.0, told.sizes[:, None]).sum(axis=0)

    def run(rng: np.random.Generator, sweeps: int) -> tuple[Array, int]:
        start = rng.dirichlet(alpha + SHARE * seen)
        return table_chain(rng, alpha, *told.fresh(), start, sweeps), 0

    return run


def _rate_chain(family: Family, told: _Told, variant: str) -> Chain:
    from noisewise.families.sum_gibbs import LARGEST_RATE, LEAST_RATE, log_fit, rate_chain

    a, b = family.prior
    is_poisson = family.kind == POISSON
    limits, clamped = _windows(family)
    ranges = told.sizes[:, None] * np.array([w.range_from(0.0) for o in family.observations if (w := o.window)])
    s, n = SHARE * float(np.clip(told.observed, *ranges.T).sum()), SHARE * float(told.sizes.sum())

    def run(rng: np.random.Generator, sweeps: int) -> tuple[Array, int]:
        shape, rate = (a + s, b + n) if is_poisson else (a + n, b + max(s, 0.0))
        drawn = [rng.standard_gamma(a, FROM_PRIOR) / b, rng.standard_gamma(shape, AT_FACE_VALUE) / rate]
        rates = np.clip(np.concatenate(drawn), LEAST_RATE, LARGEST_RATE)
        fit = log_fit(is_poisson, rates, told.sizes, told.observed, told.variance, limits, clamped)
        start = float(rates[_chosen(rng, fit)])
        return rate_chain(
            rng, is_poisson, a, b, *told.fresh(), limits, clamped, ranges, *_flags(variant), start, sweeps
        ), 0

    return run


def _normal_chain(family: Family, told: _Told, variant: str) -> Chain:
    from noisewise.families.normal_gibbs import log_fit, normal_chain, updated

    prior = np.array(family.prior)
    limits, clamped = _windows(family)
    n = SHARE * told.sizes
    average = np.clip(told.observed[:, 0] / told.sizes, limits[:, 0], limits[:, 1])
    # At least a tenth of the window: a start that is too wide is soon left, one that is too narrow is not.
    spread = np.maximum(told.observed[:, 1] / told.sizes - average**2, (0.1 * (limits[:, 1] - limits[:, 0])) ** 2)
    whole = float(n.sum())
    middle = float(np.sum(n * average)) / whole
    seen = updated(prior, whole, middle, float(np.sum(n * (spread + (average - middle) ** 2))))

    def run(rng: np.random.Generator, sweeps: int) -> tuple[Array, int]:
        theta = np.concatenate([_draw_normal(rng, prior, FROM_PRIOR), _draw_normal(rng, seen, AT_FACE_VALUE)])
        start = theta[_chosen(rng, log_fit(theta, told.sizes, told.observed, told.variance, limits, clamped))]
        drawn, projected = normal_chain(rng, prior, *told.fresh(), limits, clamped, *_flags(variant), start, sweeps)
        return drawn, int(projected)

    return run


def _draw_normal(rng: np.random.Generator, numbers: Any, size: int) -> Array:
    """(mean, variance) from the normal-inverse-gamma law of (mu, lmbda, a, b), one a row."""
    mu, weight, a, b = numbers
    variance = np.clip(b / np.maximum(rng.standard_gamma(a, size), 1e-300), 1e-200, 1e200)
    return np.stack([mu + np.sqrt(variance / weight) * rng.standard_normal(size), variance], axis=1)


def _chosen(rng: np.random.Generator, log_likelihood: Array) -> int:
    """A row with chances as its likelihood to the power of a tenth, by Gumbel's trick: wider than the posterior."""
    fit = np.where(np.isfinite(log_likelihood), SHARE * log_likelihood, -np.inf)
    return int(np.argmax(fit + rng.gumbel(size=fit.size)))


def _flags(variant: str) -> tuple[bool, bool]:
    """Whether the parts of a sum are taken as independent, and whether line 10 forgets the release."""
    return variant != "joint", variant == "as-printed"


def _windows(family: Family) -> tuple[Array, Any]:
    """The ends (groups, 2) of the windows, and whether records beyond each are clamped to it."""
    windows = [each.window for each in family.observations if each.window is not None]
    limits = np.array([[window.low, window.high] for window in windows])
    return limits, np.array([[window.is_clamped_below, window.is_clamped_above] for window in windows])


class _Told(NamedTuple):
    """What the releases say, one row a release: n, then by component the sums and their noise."""

    sizes: Array
    observed: Array
    scale: Array
    is_laplace: Any
    variance: Array

    @classmethod
    def of(cls, family: Family) -> _Told:
        every = family.observations
        return cls(
            np.array([float(each.n) for each in every]),
            np.stack([each.observed for each in every]),
            np.stack([each.noise.scale for each in every]),
            np.stack([each.noise.is_laplace for each in every]),
            np.stack([each.noise.variance for each in every]),
        )

    def scalar(self) -> _Told:
        """The same of releases with one component each, (groups,)."""
        observed, scale, is_laplace, variance = (np.ascontiguousarray(each[:, 0]) for each in self[1:])
        return self._replace(observed=observed, scale=scale, is_laplace=is_laplace, variance=variance)

    def fresh(self) -> _Told:
        """With noise variances of its own, which a chain overwrites."""
        return self._replace(variance=self.variance.copy())
