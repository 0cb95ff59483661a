"""Exact posteriors of a proportion, or of proportions, behind a noisy count or table.

If p ~ Beta(a, b) and s ~ Binomial(n, p) is published with noise, p | y is a mixture of Beta(a + s, b + n - s) over
s | y; if p ~ Dirichlet(alpha) and s is multinomial, a mixture of Dirichlet(alpha + s) over the tables s | y (`counts`,
`table_sum`). Draws are independent and exact: no chain, no warm-up. This serves where the probability of a cell *is*
the unknown parameter: Bernoulli records and a count of one of their two levels, Categorical ones and their histogram.

Where only sums of levels were counted (one level of four, two of ten), the proportions of these sums are a Dirichlet
law of the added concentrations, and the shares of levels within one sum are independent of them, and stay as the prior
has them: p_i = q_c d_i for level i of sum c, q | y as above, d within c ~ Dirichlet(alpha of its levels).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from noisewise.errors import Unsupported
from noisewise.likelihood import counts
from noisewise.likelihood.table_sum import NegativeBinomialCells, TableSum
from noisewise.populations.cleaned import cell_probabilities
from noisewise.populations.distribution import BernoulliLaw, CategoricalLaw
from noisewise.populations.parameters import Array, scipy_name
from noisewise.populations.population import AnyPopulation, Population
from noisewise.release import NoisyValue
from noisewise.schema import Schema
from noisewise.statistics import Count, Histogram, Marginals
from noisewise.types import Integers

__all__ = [
    *("BetaPosterior", "BetaPrior", "DirichletPosterior", "DirichletPrior", "MergedPosterior", "MergedPrior"),
    *("beta_prior", "beta_shapes", "dirichlet_prior", "merged_prior"),
]

LogNoise = Callable[[Array], Array]
FULL_RANGE = 20_000  # up to here every count is kept, and no window is looked for
MOST_COUNTS = 2_000_000


@dataclass(frozen=True, slots=True)
class BetaPrior:
    """The unknown `name` ~ Beta(a, b); a record is counted with that probability, or with 1 minus it."""

    name: str
    a: float
    b: float
    is_complement: bool = False


@dataclass(frozen=True, slots=True)
class DirichletPrior:
    """The unknown `name` ~ Dirichlet(alpha): the probabilities of the cells, in their order."""

    name: str
    alpha: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class MergedPrior:
    """The unknown `name` ~ Dirichlet(alpha) of levels, each of which belongs to one cell: 0, 1, ..., `cells` - 1."""

    name: str
    alpha: tuple[float, ...]
    cell_of: tuple[int, ...]
    cells: int

    @property
    def merged(self) -> tuple[float, ...]:
        """The concentrations of the cells' proportions."""
        return tuple(np.bincount(self.cell_of, self.alpha, minlength=self.cells).tolist())

    @property
    def law(self) -> Population:
        """Records that show their cell alone."""
        return Population(CategoricalLaw(), p=stats.dirichlet(self.merged))

    def split(self, q: Array) -> Array:
        """Proportions of levels (K, levels) with these proportions q (K, cells) of cells: shares as on average."""
        return np.asarray(q[:, list(self.cell_of)] * self._shares[0])

    def draw_split(self, rng: np.random.Generator, q: Array) -> Array:
        """The same with shares drawn from the prior, which nothing has been learnt about."""
        p = q[:, list(self.cell_of)]
        for c in range(self.cells):
            own = np.flatnonzero(np.array(self.cell_of) == c)
            p[:, own] *= _dirichlet(rng, np.broadcast_to(np.array(self.alpha)[own], (len(q), own.size)))
        return p

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Mean and variance of each level's proportion, from those of the cells.

        E[p_i] = E[q_c] E[d_i],  Var[p_i] = Var[q_c] E[d_i^2] + E[q_c]^2 Var[d_i].
        """
        within, spread = self._shares
        m, v = mean[list(self.cell_of)], variance[list(self.cell_of)]
        return np.asarray(m * within), np.asarray(v * (spread + within**2) + m**2 * spread)

    @property
    def _shares(self) -> tuple[Array, Array]:
        """Mean and variance of each level's share of its cell."""
        alpha, whole = np.array(self.alpha), np.array(self.merged)[list(self.cell_of)]
        within = alpha / whole
        return within, within * (1 - within) / (whole + 1)


@dataclass(frozen=True, slots=True, eq=False)
class BetaPosterior:
    """The posterior of a proportion, as weights of the counts start, start + 1, ...; (a, b) are of the counted side."""

    family: ClassVar[str] = "beta"
    prior: BetaPrior
    a: float
    b: float
    n: int
    start: int
    log_weights: Array
    log_evidence: float

    @classmethod
    def of(
        cls, prior: BetaPrior, n: int, log_noise: LogNoise | None, every_log_noise: Callable[[], Array]
    ) -> BetaPosterior:
        """From log P(y | s): `log_noise` where that is concave in s, so that a window can be found; else all."""
        a, b = (prior.b, prior.a) if prior.is_complement else (prior.a, prior.b)
        if log_noise is None or n <= FULL_RANGE:
            start, values = 0, every_log_noise()
        else:
            start, last = counts.beta_window(log_noise, a=a, b=b, n=n)
            if last - start >= MOST_COUNTS:
                raise Unsupported(
                    f"The noise leaves {last - start + 1} counts possible, too many to mix over one by one; "
                    "integrate over the parameter instead."
                )
            values = log_noise(np.arange(start, last + 1, dtype=float))
        log_weights, evidence = counts.beta_binomial_log_weights(values, a=a, b=b, start=start, n=n)
        return cls(prior, a, b, n, start, log_weights, evidence)

    @property
    def mean(self) -> float:
        mean = self._moments()[0]
        return 1 - mean if self.prior.is_complement else mean

    @property
    def variance(self) -> float:
        return self._moments()[1]

    def draw(self, rng: np.random.Generator, size: int) -> tuple[Array, Integers]:
        """Independent draws of the unknown and of the confidential count."""
        p, s = counts.draw_beta_binomial(
            rng, self.log_weights, a=self.a, b=self.b, size=size, start=self.start, n=self.n
        )
        return (1 - p if self.prior.is_complement else p), s

    def log_density(self, value: ArrayLike) -> Array:
        """log p(value | y), down to e^-100 of its peak; beyond it, counts outside the window would matter."""
        p = 1 - np.asarray(value) if self.prior.is_complement else np.asarray(value)
        return counts.beta_mixture_log_density(p, self.log_weights, a=self.a, b=self.b, start=self.start, n=self.n)

    def _moments(self) -> tuple[float, float]:
        return counts.beta_mixture_moments(self.log_weights, a=self.a, b=self.b, start=self.start, n=self.n)


@dataclass(frozen=True, slots=True, eq=False)
class DirichletPosterior:
    """The posterior of the proportions of a table."""

    family: ClassVar[str] = "Dirichlet"
    prior: DirichletPrior
    table: TableSum

    @classmethod
    def of(cls, prior: DirichletPrior, n: int, log_noise: LogNoise) -> DirichletPosterior:
        """From log P(y_j | s) for s (1, m, ...), concave in s."""
        return cls(prior, TableSum(n, NegativeBinomialCells(n, np.array([prior.alpha])), log_noise))

    @property
    def log_evidence(self) -> float:
        return float(self.table.log_likelihood()[0])

    @property
    def mean(self) -> Array:
        """E[p | y] = (alpha + E[s | y])/(sum alpha + n), (m,)."""
        alpha = np.array(self.prior.alpha)
        return np.asarray((alpha + self.table.means()[0]) / (np.sum(alpha) + self.table.n))

    @property
    def variance(self) -> Array:
        """Var[p | y] = v + (E[p](1 - E[p]) - v)/(A + 1),  v = Var[s | y]/A^2,  A = sum alpha + n, (m,)."""
        whole = float(np.sum(self.prior.alpha)) + self.table.n
        mean, v = self.mean, self.table.moments()[1][0] / whole**2
        return np.asarray(v + (mean * (1 - mean) - v) / (whole + 1))

    def draw(self, rng: np.random.Generator, size: int) -> tuple[Array, Integers]:
        """Independent draws of the unknown (size, m) and of the confidential table (size, m)."""
        s = self.table.draw(rng, size)
        return _dirichlet(rng, np.array(self.prior.alpha) + s), s


@dataclass(frozen=True, slots=True, eq=False)
class MergedPosterior:
    """The posterior of the proportions of levels, given that of the cells they belong to."""

    prior: MergedPrior
    cells: BetaPosterior | DirichletPosterior

    @property
    def family(self) -> str:
        return self.cells.family

    @property
    def log_evidence(self) -> float:
        return self.cells.log_evidence

    @property
    def mean(self) -> Array:
        return self._moments[0]

    @property
    def variance(self) -> Array:
        return self._moments[1]

    def draw(self, rng: np.random.Generator, size: int) -> tuple[Array, Integers]:
        """Independent draws of the unknown (size, levels) and of the confidential counts."""
        q, s = self.cells.draw(rng, size)
        return self.prior.draw_split(rng, q if q.ndim == 2 else np.stack([1 - q, q], axis=-1)), s

    @property
    def _moments(self) -> tuple[Array, Array]:
        mean, variance = self.cells.mean, self.cells.variance
        if np.ndim(mean) == 0:  # of two cells the second is told
            mean = np.array([1 - mean, mean])
        return self.prior.moments(np.asarray(mean), np.broadcast_to(variance, self.prior.cells))


def beta_prior(population: AnyPopulation, schema: Schema, count: Count) -> BetaPrior | None:
    """The unknown proportion behind a count, where there is one and its prior is a beta law; else None."""
    if (found := _unknown(population, count.condition.columns())) is None:
        return None
    name, law = found
    if not isinstance(law.distribution, BernoulliLaw) or (shapes := beta_shapes(law.parameters.priors["p"])) is None:
        return None
    at = np.array([0.2, 0.7])
    counted = cell_probabilities(law, schema, count, {"p": at})[:, 1]
    for is_complement in (False, True):
        if np.allclose(counted, 1 - at if is_complement else at, rtol=0, atol=1e-12):
            return BetaPrior(name, *shapes, is_complement=is_complement)
    return None


def dirichlet_prior(population: AnyPopulation, release: NoisyValue) -> DirichletPrior | None:
    """The unknown proportions behind a table of the levels of one column, with a Dirichlet prior; else None."""
    statistic = release.statistic
    if isinstance(statistic, Histogram):
        columns = frozenset({statistic.column})
    elif isinstance(statistic, Marginals) and len(statistic.cliques) == 1:
        columns = frozenset(statistic.cliques[0])
    else:
        return None
    found = _dirichlet_unknown(population, columns)
    return None if found is None else found[0]


def merged_prior(
    population: AnyPopulation, columns: frozenset[str], chances: Callable[[AnyPopulation, Array], Array]
) -> MergedPrior | None:
    """The unknown proportions behind cells that levels of one column fall into, with a Dirichlet prior; else None.

    `chances(law, p)` are the probabilities (K, cells) of the cells under proportions p (K, levels) of that column.
    """
    found = _dirichlet_unknown(population, columns)
    if found is None:
        return None
    prior, law = found
    each = chances(law, np.eye(len(prior.alpha)))  # where a record of each level is counted
    if not np.all(np.isclose(each, 0, atol=1e-12) | np.isclose(each, 1, atol=1e-12)):
        return None
    owner, cells = np.argmax(each, axis=1), each.shape[1]
    if len(set(owner.tolist())) < cells:  # a cell without levels
        return None
    return MergedPrior(prior.name, prior.alpha, tuple(owner.tolist()), cells)


def _dirichlet_unknown(
    population: AnyPopulation, columns: frozenset[str]
) -> tuple[DirichletPrior, AnyPopulation] | None:
    """The unknown proportions of the levels of one column, and its law; None where there are none."""
    found = _unknown(population, columns)
    if found is None or not isinstance(found[1].distribution, CategoricalLaw):
        return None
    prior = found[1].parameters.priors["p"]
    return DirichletPrior(found[0], tuple(float(v) for v in np.atleast_1d(prior.alpha))), found[1]


def _unknown(population: AnyPopulation, columns: frozenset[str]) -> tuple[str, Any] | None:
    """The full name and the law of the one column whose unknown is `p`."""
    if len(columns) != 1:
        return None
    (column,) = columns
    law = population.marginal(column)
    if "p" not in law.parameters.priors:
        return None
    return next((name for name in ("p", f"{column}.p") if name in population.free), "p"), law


def beta_shapes(prior: Any) -> tuple[float, float] | None:
    """(a, b) of a frozen scipy.stats.beta on (0, 1); the uniform law is Beta(1, 1)."""
    kind = scipy_name(prior)
    if kind not in ("beta", "uniform") or tuple(prior.support()) != (0.0, 1.0):
        return None
    shapes, _, _ = prior.dist._parse_args(*prior.args, **prior.kwds)
    return (float(shapes[0]), float(shapes[1])) if kind == "beta" else (1.0, 1.0)


def _dirichlet(rng: np.random.Generator, alpha: Array) -> Array:
    """One Dirichlet draw a row; gamma numbers of small shape are drawn by their logarithms, so none is 0/0."""
    boosted = np.log(rng.standard_gamma(alpha + 1)) + np.log(rng.random(alpha.shape)) / alpha
    weights = np.exp(boosted - np.max(boosted, axis=-1, keepdims=True))
    return np.asarray(weights / np.sum(weights, axis=-1, keepdims=True))
