"""Several columns that are normal together.

    x ~ N(mean, D R D),   D = diag(sd),   R the correlation matrix,

with a number or a prior for each mean and sd; `correlation` is a number or a prior for two columns, a known matrix
for more. Parameters are named column.mean, column.sd and correlation. The marginal law of each column is `Normal`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.populations.parameters import Array, Parameters, Support, Theta, is_prior, read_parameters, rows_of
from noisewise.populations.population import Joint, Normal, Population

CORRELATION = Support(-1.0, 1.0)


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class MultivariateNormal:
    """Columns that are jointly normal, with a number or a prior for each mean, sd and (for two columns) correlation."""

    margins: Joint
    coupling: Parameters  # the one correlation of two columns; empty where the matrix is known
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
        is_matrix = not is_prior(correlation) and np.ndim(correlation) == 2  # type: ignore[arg-type]
        object.__setattr__(self, "matrix", _matrix(correlation, len(names)) if is_matrix else None)
        if not is_matrix and len(names) != 2:
            raise InvalidArgument(
                f"With {len(names)} columns the correlation must be a known {len(names)} x {len(names)} matrix.",
                argument="correlation",
            )
        own = {} if is_matrix else {"correlation": correlation}
        object.__setattr__(self, "coupling", read_parameters(own, dict.fromkeys(own, CORRELATION), None, ()))
        known = self.coupling.known.get("correlation")
        if known is not None and abs(float(known[0])) >= 1:
            raise InvalidArgument("correlation must lie strictly between -1 and 1.", argument="correlation")

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
        """That of a mean or an sd; the correlation's is not drawn."""
        return self.margins.prior_of(name)

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
        rho = np.broadcast_to(self.coupling.full(theta)["correlation"], K)
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
