"""Several columns that are normal together.

    x ~ N(mean, D R D),   D = diag(sd),   R the correlation matrix,

with a number or a prior for each mean and sd. `correlation` is a number or a prior for two columns; for more a known
matrix, or a prior of the whole matrix, LKJ(eta) (`correlation`). Parameters are named column.mean, column.sd and
correlation, of which a matrix has one for each pair, correlation[a, b]. The marginal law of each column is `Normal`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.populations.correlation import LKJ, cholesky, matrix_of, pair_labels
from noisewise.populations.parameters import Array, Parameters, Support, Theta, is_prior, read_parameters, rows_of
from noisewise.populations.population import AnyPopulation, Joint, Normal, Population

CORRELATION = Support(-1.0, 1.0)
MOST_COLUMNS = 20  # whose correlations are unknown


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class MultivariateNormal:
    """Columns that are jointly normal, with a number or a prior for each mean, each sd and the correlations.

    Parameters
    ----------
    columns
        Their names, two or more.
    mean, sd
        Lists with a number or a prior for each column, in its unit.
    correlation
        Of two columns a number or a prior on (-1, 1); of any number of columns a known matrix, or `LKJ(eta)`, the
        prior of a whole matrix.

    Examples
    --------
    >>> nw.MultivariateNormal(columns=["height", "weight"], mean=[stats.norm(170, 20), stats.norm(70, 20)], sd=[10, 15],
    ...                       correlation=stats.uniform(-1, 2)).free
    ('height.mean', 'weight.mean', 'correlation')
    """

    margins: Joint
    coupling: Parameters  # of the correlations that are unknown
    matrix: Array | None

    def __init__(
        self, *, columns: Sequence[str], mean: Sequence[object], sd: Sequence[object], correlation: object
    ) -> None:
        names = _names(columns)
        for given, argument in ((mean, "mean"), (sd, "sd")):
            if isinstance(given, str) or not isinstance(given, Sized) or len(given) != len(names):
                raise InvalidArgument(
                    f"{argument} must list one number or prior for each of the {len(names)} columns.", argument=argument
                )
        margins = {name: Normal(mean=m, sd=s) for name, m, s in zip(names, mean, sd, strict=True)}
        object.__setattr__(self, "margins", Joint(**margins))
        matrix, coupling = _correlations(correlation, len(names))
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "coupling", coupling)

    def __repr__(self) -> str:
        """As it was written."""
        from noisewise.populations.written import value_text

        laws = [law.parameters for law in self.columns.values()]
        parts = [
            f"{key}=[{', '.join(value_text({**law.known, **law.priors}[key]) for law in laws)}]"
            for key in ("mean", "sd")
        ]
        own = {**self.coupling.known, **self.coupling.priors}
        coupled = value_text(own["correlation"] if self.matrix is None else self.matrix)
        return f"MultivariateNormal(columns={list(self.columns)!r}, {', '.join(parts)}, correlation={coupled})"

    @property
    def columns(self) -> Mapping[str, Population]:
        """The marginal law of each column."""
        return self.margins.columns

    @property
    def free(self) -> tuple[str, ...]:
        return (*self.margins.free, *self.coupling.free)

    @property
    def supports(self) -> Mapping[str, Support]:
        return {**self.margins.supports, **self.coupling.supports}

    def marginal(self, column: str) -> Population:
        return self.margins.marginal(column)

    def theta_of(self, column: str, theta: Theta) -> Theta:
        return self.margins.theta_of(column, theta)

    @property
    def independent_priors(self) -> Mapping[str, Any] | None:
        """None: draws of it are taken as they come."""
        return None

    def prior_of(self, name: str) -> Any:
        """That of a mean, of an sd, or of one correlation of a matrix; the single correlation's is not drawn."""
        if name in self.correlation_labels:
            return self.coupling.priors["correlation"].one
        return self.margins.prior_of(name)

    @property
    def correlation_labels(self) -> tuple[str, ...]:
        """What the unknown correlations of a matrix are called; none of two columns, or of a known matrix."""
        own = self.coupling.supports.get("correlation")
        return pair_labels("correlation", list(self.columns)) if own is not None and own.order else ()

    def correlation_of(self, first: str, second: str, theta: Theta) -> Array:
        """The correlation of two columns, (K,)."""
        return np.asarray(self.root(theta, [first, second])[:, 1, 0])

    def log_prior(self, theta: Theta) -> Array:
        coupling = {name: theta[name] for name in self.coupling.free}
        return np.asarray(self.margins.log_prior(theta) + self.coupling.log_prior(coupling))

    def sample_prior(self, rng: np.random.Generator, count: int) -> dict[str, Array]:
        return {**self.margins.sample_prior(rng, count), **self.coupling.sample(rng, count)}

    def location(self, theta: Theta, columns: Sequence[str]) -> tuple[Array, Array]:
        """Means and standard deviations of the columns, (K, d) each."""
        K = rows_of(theta)
        full = [self.columns[name].parameters.full(self.theta_of(name, theta)) for name in columns]
        return tuple(np.stack([np.broadcast_to(p[key], K) for p in full], axis=-1) for key in ("mean", "sd"))  # type: ignore[return-value]

    def root(self, theta: Theta, columns: Sequence[str]) -> Array:
        """The Cholesky factor (K, d, d) of the correlation of these columns, in this order."""
        K = rows_of(theta)
        if self.matrix is not None:
            index = [list(self.columns).index(name) for name in columns]
            factor = np.linalg.cholesky(self.matrix[np.ix_(index, index)])
            return np.broadcast_to(factor, (K, *factor.shape))
        rho = self.coupling.full(theta)["correlation"]
        if rho.ndim == 2:
            index = [list(self.columns).index(name) for name in columns]
            return cholesky(matrix_of(rho, len(self.columns))[:, index][:, :, index])
        rho = np.broadcast_to(rho, K)
        factor = np.zeros((K, len(columns), len(columns)))
        factor[:, 0, 0] = 1.0
        if len(columns) == 2:
            factor[:, 1, 0], factor[:, 1, 1] = rho, np.sqrt((1 - rho) * (1 + rho))
        return factor

    def from_normals(self, z: Array, theta: Theta, columns: Sequence[str]) -> dict[str, Array]:
        """Records (K, n) by column from standard normals z (n, d), shared by all rows, or (K, n, d)."""
        mean, sd = self.location(theta, columns)
        x = mean[:, None, :] + sd[:, None, :] * (z @ np.swapaxes(self.root(theta, columns), -1, -2))
        return {name: x[..., j] for j, name in enumerate(columns)}

    def sample(self, rng: np.random.Generator, n: int, theta: Theta) -> dict[str, Array]:
        """n records for each row of theta, by column."""
        return self.from_normals(rng.standard_normal((rows_of(theta), n, len(self.columns))), theta, list(self.columns))


@singledispatch
def component_labels(_population: AnyPopulation) -> Mapping[str, Sequence[str]]:
    """What the numbers in a vector of unknowns are called, where they have names."""
    return {}


@component_labels.register
def _(population: MultivariateNormal) -> Mapping[str, Sequence[str]]:
    labels = population.correlation_labels
    return {"correlation": labels} if labels else {}


@singledispatch
def unknown_correlations(_population: AnyPopulation, _theta: Theta) -> list[tuple[str, str, Array]]:
    """Two columns and their correlation (K,), for each pair of which it is not known."""
    return []


@unknown_correlations.register
def _(population: MultivariateNormal, theta: Theta) -> list[tuple[str, str, Array]]:
    pairs = itertools.combinations(population.columns, 2) if population.coupling.free else ()
    return [(first, second, population.correlation_of(first, second, theta)) for first, second in pairs]


@singledispatch
def _correlations(correlation: object, size: int) -> tuple[Array | None, Parameters]:
    """The known matrix, or what is believed of the one correlation of two columns."""
    if not is_prior(correlation) and np.ndim(correlation) == 2:  # type: ignore[arg-type]
        return _matrix(correlation, size), Parameters({}, {}, None, {})
    if size != 2:
        raise InvalidArgument(
            f"With {size} columns the correlations are a known {size} x {size} matrix, or have the prior LKJ(eta) "
            "together: a prior of each by itself would allow what is no correlation matrix.",
            argument="correlation",
        )
    coupling = read_parameters({"correlation": correlation}, {"correlation": CORRELATION}, None, ())
    known = coupling.known.get("correlation")
    if known is not None and abs(float(known[0])) >= 1:
        raise InvalidArgument("correlation must lie strictly between -1 and 1.", argument="correlation")
    return None, coupling


@_correlations.register
def _(correlation: LKJ, size: int) -> tuple[Array | None, Parameters]:
    """Correlations with one prior together; of two columns there is one, with its law under that prior."""
    if size > MOST_COLUMNS:
        raise InvalidArgument(
            f"{size} columns have {size * (size - 1) // 2} correlations; at most {MOST_COLUMNS} columns may have "
            "unknown ones.",
            argument="correlation",
        )
    law = correlation.of(size)
    if size == 2:
        return None, Parameters({}, {"correlation": law.one}, None, {"correlation": CORRELATION})
    return None, Parameters({}, {"correlation": law}, None, {"correlation": Support.correlations(size)})


def _names(columns: object) -> list[str]:
    names = list(columns) if isinstance(columns, Sequence) and not isinstance(columns, str) else []
    if len(names) < 2 or len(set(names)) != len(names) or not all(isinstance(name, str) and name for name in names):
        raise InvalidArgument("columns must list at least two different column names.", argument="columns")
    return names


def _matrix(value: object, size: int) -> Array:
    try:
        matrix = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise InvalidArgument("The correlation matrix must hold numbers only.", argument="correlation") from None
    if matrix.shape != (size, size) or not np.allclose(matrix, matrix.T) or not np.allclose(np.diag(matrix), 1.0):
        raise InvalidArgument(
            f"correlation must be a symmetric {size} x {size} matrix with ones on its diagonal.", argument="correlation"
        )
    if np.linalg.eigvalsh(matrix)[0] <= 1e-12:
        raise InvalidArgument("The correlation matrix is not positive definite.", argument="correlation")
    return matrix
