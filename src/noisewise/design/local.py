"""Information of local answers: n times that of one answer, Y = f(X) + V.

A clipped normal has a closed form (`clipped_normal`, `clipped_normal_gaussian`). Else
    F = n int score score' p dy,
over panels of y: under Laplace noise the score outside the range [l, r] of f is that at the nearer end, so the tails
are two atoms of mass b p(l) and b p(r). The score is the derivative of a closed density where there is one (|x| and x^2
of a centred normal), and else Fisher's identity over the weighted points of one record (`record_score`,
`local_general`); where the support moves with theta, differences of the mixture itself.
The answers together tell more than their mean does: their law is not normal (Alparslan & Yıldırım 2022, Example 4,
state the opposite, which holds only in the limit of dominating Gaussian noise).
"""

from __future__ import annotations

import numpy as np

from noisewise.design.blank import blank_release
from noisewise.design.coordinates import coordinate_slopes
from noisewise.design.record_score import scored_record
from noisewise.likelihood import clipped_normal, clipped_normal_gaussian, local_general
from noisewise.likelihood.local_answers import LocalAnswers
from noisewise.likelihood.quadrature import on_panels
from noisewise.planning import Plan
from noisewise.populations.distribution import NormalLaw
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import AnyPopulation
from noisewise.schema import Schema
from noisewise.statistics.enclosure import feature_range

ORDER = 12
EVEN = 16
GRADES = 4.0 ** -np.arange(2, 13)
SHARES = np.array([1e-6, 1e-4, 0.01, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 0.99, 1 - 1e-4, 1 - 1e-6])
LAYERS = np.array([1.0, 3.0, 8.0, 20.0, 40.0])
MOST_ATOMS = 100


class LocalInformation:
    """Information of n independent noisy answers."""

    is_exact = True
    shares_draws = False

    def __init__(self, plan: Plan, population: AnyPopulation, *, n: int) -> None:
        self.model = LocalAnswers(blank_release(plan), population, n=1)
        self.population, self.n = population, n
        self.low, self.high, _ = feature_range(self.model.feature, plan.part_schema)
        self.is_clipped_normal = self.model.form.startswith("clipped normal")

    @property
    def method(self) -> str:
        return "closed form" if self.is_clipped_normal else "quadrature"

    def rows(self, theta: Theta) -> tuple[Array, Array]:
        """F (K, P, P); its standard error is zero."""
        found = self._clipped(theta) if self.is_clipped_normal else np.stack(
            [self._integral({name: np.asarray(value)[k : k + 1] for name, value in theta.items()})
             for k in range(rows_of(theta))]
        )  # fmt: skip
        return self.n * found, np.zeros_like(found)

    def _clipped(self, theta: Theta) -> Array:
        law = self.model.one.distribution
        assert isinstance(law, NormalLaw)
        rows = rows_of(theta)

        def mean_and_sd(at: Theta) -> Array:
            p = self.model.one.values(self.population.theta_of(self.model.column, at))
            columns = [np.broadcast_to(v, (rows_of(at), 1)) for v in (p["mean"], law.sd(p))]
            return np.concatenate(columns, axis=1)

        both, slope = mean_and_sd(theta), coordinate_slopes(mean_and_sd, theta, self.population.supports)
        place = {"mean": both[:, 0], "sd": both[:, 1], "low": np.full(rows, self.low), "high": np.full(rows, self.high)}
        if self.model.is_laplace:
            inner = clipped_normal.information(**place, scale=self.model.scale)
        else:
            inner = clipped_normal_gaussian.information(**place, noise_sd=self.model.scale)
        return np.asarray(slope @ inner @ slope.swapaxes(-1, -2))

    def _integral(self, theta: Theta) -> Array:
        """One row: int score score' p dy."""
        record = scored_record(self.population, self.schema, self.model.column, theta, self.model.kinks)
        feature = self.model.feature.value({self.model.column: record.x[0]}, self.schema)
        values = np.broadcast_to(feature, record.x[0].shape)
        y, weights = self._panels(np.asarray(values), record.weight[0])
        if self.model.is_closed or not record.is_regular:
            log_p, score = self._differences(y, theta)
        else:
            with np.errstate(divide="ignore"):
                logs = np.log(record.weight)
            kept = logs[0] > logs[0].max() - 60
            mixture = {"nodes": values[kept], "log_weights": logs[:, kept], "log_noise": self.model.log_noise_of}
            log_p = local_general.log_density(y, **mixture)[0]
            score = local_general.score(y, d_log_weights=record.slope[:, kept], **mixture)[0]
        half = np.sqrt(weights * np.exp(log_p))[:, None] * score
        return np.asarray(half.T @ half)

    def _differences(self, y: Array, theta: Theta) -> tuple[Array, Array]:
        """log p and its derivatives at y, (Y,) and (Y, P), from the density itself."""

        def log_density(at: Theta) -> Array:
            return np.asarray(self.model.density(y, self.population.theta_of(self.model.column, at)))

        return log_density(theta)[0], coordinate_slopes(log_density, theta, self.population.supports)[0].T

    @property
    def schema(self) -> Schema:
        return self.model.releases[0].schema

    def _panels(self, values: Array, weight: Array) -> tuple[Array, Array]:
        """Nodes and weights in y: between the ends of f, and its tails as atoms (Laplace) or panels (Gaussian)."""
        low, high, scale = self.low, self.high, self.model.scale
        order = np.argsort(values)
        shares = np.interp(SHARES, np.cumsum(weight[order]), values[order])
        atoms = np.unique(values) if self.model.one.is_discrete else np.array([low, high])
        near = (atoms[:MOST_ATOMS, None] + scale * np.concatenate([-LAYERS, LAYERS])).ravel()
        graded = (high - low) * GRADES
        points = [np.linspace(low, high, EVEN + 1), shares, atoms, near, low + graded, high - graded]
        if self.model.is_laplace:
            edges = np.unique(np.clip(np.concatenate(points), low, high))
            y, weights = (v.ravel() for v in on_panels(edges, ORDER))
            return np.append(y, [low, high]), np.append(weights, [scale, scale])
        steps = np.arange(-9.0, 9.1, 1.5) * scale
        inside = np.linspace(low, high, min(400, int((high - low) / (1.5 * scale)) + 2))
        points += [low + steps, high + steps, inside]
        edges = np.unique(np.clip(np.concatenate(points), low - 9 * scale, high + 9 * scale))
        y, weights = (v.ravel() for v in on_panels(edges, ORDER))
        return y, weights
