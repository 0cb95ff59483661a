"""The Monte Carlo estimates of Alparslan & Yıldırım 2022 (Algorithms 1 to 3), as printed, with a standard error.

All three average gamma gamma' over simulated releases y, where gamma estimates the score at y by weighted draws:
    Algorithm 1   a sum, normal by the central limit theorem     u ~ q,  w = f(u) g(y | u)/q(u),       d log f(u)
    Algorithm 2   any statistic of the records themselves        x_1:n,  w = p(y | x_1:n),   sum_t d log p(x_t)
    Algorithm 3   local answers, n times one of them             x,      w = g(y | s(x)),            d log p(x)
with q the law of u (or x) itself. The inner sums run to M (Algorithm 3 prints N). The score's own Monte Carlo error
enters squared, so F is too large by about its variance, which falls like 1/M; the standard error is over the N outer
draws alone and does not see that. `method="auto"` has neither error; these are here to be compared with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from noisewise.design.additive import moment_slopes
from noisewise.design.blank import blank_release
from noisewise.design.coordinates import coordinate_slopes
from noisewise.errors import Unsupported
from noisewise.laws import Form, action_law, additive_law, cell_law, smooth_law
from noisewise.likelihood import normal_gaussian
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.likelihood.simulate import draw_answers, draw_noise, simulate_values
from noisewise.likelihood.smooth_scale import of_sorted
from noisewise.planning import Plan
from noisewise.populations.cleaned import attach
from noisewise.populations.distribution import NormalLaw
from noisewise.populations.multivariate import MultivariateNormal
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import AnyPopulation, Population
from noisewise.privacy.smooth import scale_floor
from noisewise.schema import Bounded
from noisewise.statistics import Records
from noisewise.statistics.order import OrderStatistic

OUTER, INNER = 1000, 1000  # N and M


class MonteCarloInformation:
    """F by Algorithm 1, 2 or 3, whichever the plan and the likelihood ask for."""

    shares_draws = False

    def __init__(
        self,
        plan: Plan,
        population: AnyPopulation,
        *,
        n: int,
        is_clt: bool,
        seed: object,
        draws: int | None,
        inner: int | None = None,
    ) -> None:
        self.plan, self.population, self.n, self.is_exact = plan, population, n, not is_clt
        self.seed, self.outer, self.inner = seed, draws or OUTER, inner or draws or INNER

    @property
    def algorithm(self) -> int:
        if not self.is_exact:
            return 1
        return 3 if isinstance(self.plan.statistic, Records) else 2

    @property
    def method(self) -> str:
        return f"monte-carlo (Algorithm {self.algorithm}, N = {self.outer}, M = {self.inner})"

    def rows(self, theta: Theta) -> tuple[Array, Array]:
        """F and its standard error over the outer draws, (K, P, P)."""
        rng = np.random.default_rng(self.seed)  # type: ignore[arg-type]
        estimate = {1: self._algorithm_1, 2: self._algorithm_2, 3: self._algorithm_3}[self.algorithm]
        rows = [{name: np.asarray(value)[k : k + 1] for name, value in theta.items()} for k in range(rows_of(theta))]
        products = [_products(estimate(rng, one)) for one in rows]
        times = self.n if self.algorithm == 3 else 1
        error = [p.std(axis=0, ddof=1) / np.sqrt(len(p)) for p in products]
        return times * np.stack([p.mean(axis=0) for p in products]), times * np.stack(error)

    def _algorithm_1(self, rng: np.random.Generator, theta: Theta) -> Array:
        """gamma (N, P) for a statistic that is normal."""
        model = NormalSum((blank_release(self.plan),), self.population, n=self.n)
        covariance, d_mean, d_covariance = moment_slopes(model, self.population, theta)
        mean, noise = model.moments(theta)[0], model.noise
        # Components that are tied to each other have no joint density; the independent sums behind them do.
        basis = np.array(model.ties.basis, int)
        mean, d_mean = mean[:, basis], d_mean[..., basis]
        covariance, d_covariance = covariance[:, basis[:, None], basis], d_covariance[..., basis[:, None], basis]
        try:
            root = np.linalg.cholesky(covariance[0])
        except np.linalg.LinAlgError:
            raise Unsupported(
                "The components of this statistic are tied to each other, so their sum has no density of its own, "
                "which Algorithm 1 needs; use method='auto'."
            ) from None
        gamma = np.empty((self.outer, d_mean.shape[1]))
        for i in range(self.outer):
            size = noise.scale.size
            v = np.where(noise.is_laplace, rng.laplace(size=size), rng.standard_normal(size)) * noise.scale
            y = model.ties.expanded(mean[0] + root @ rng.standard_normal(len(root)), self.n) + v
            u = mean[0] + rng.standard_normal((self.inner, len(root))) @ root.T
            log_w = noise.log_density(y - model.ties.expanded(u, self.n))
            in_mean, in_covariance = normal_gaussian.score(u, mean=mean, covariance=covariance)
            d_log_f = in_mean @ d_mean[0].T + np.einsum("mab,pab->mp", in_covariance, d_covariance[0])
            gamma[i] = _normalised(log_w) @ d_log_f
        return gamma

    def _algorithm_2(self, rng: np.random.Generator, theta: Theta) -> Array:
        """gamma (N, P) from whole data sets."""
        plan, n = self.plan, self.n
        many = {name: np.repeat(np.asarray(value), self.outer, axis=0) for name, value in theta.items()}
        released = simulate_values(rng, plan, self.population, many, n=n)
        gamma = []
        for y in released:
            x, d_log_p = self._draw_records(rng, theta, self.inner * n)
            log_w = self._log_noise(y, {name: column.reshape(self.inner, n) for name, column in x.items()})
            gamma.append(_normalised(log_w) @ d_log_p.reshape(self.inner, n, -1).sum(axis=1))
        return np.stack(gamma)

    def _algorithm_3(self, rng: np.random.Generator, theta: Theta) -> Array:
        """gamma (N, P) for one local answer."""
        gamma = []
        for _ in range(self.outer):
            one, _ = self._draw_records(rng, theta, 1)
            x, d_log_p = self._draw_records(rng, theta, self.inner)
            gamma.append(_normalised(self._log_answer(rng, one, x)) @ d_log_p)
        return np.stack(gamma)

    def _draw_records(self, rng: np.random.Generator, theta: Theta, count: int) -> tuple[dict[str, Array], Array]:
        """Cleaned records, by column (count,), and the score of each as it was drawn, (count, P)."""
        plan, population = self.plan, self.population
        if isinstance(population, MultivariateNormal):
            raise Unsupported("Algorithms 2 and 3 draw columns one by one; use method='auto'.")
        columns = plan.statistic.columns()
        used = attach(population, plan.part_schema, columns)
        raw: dict[str, Array] = {}
        for name, one in used.items():
            own, entry = population.theta_of(name, theta), plan.part_schema.column(name)
            if self._is_truncated(name):
                assert isinstance(entry, Bounded)
                raw[name] = one.quantile_between(entry.low, entry.high, rng.random((1, count)), own)[0]
            else:
                raw[name] = one.sample(rng, count, own)[0]

        score = sum(self._score(one, name, raw[name], theta) for name, one in used.items())
        return {name: self._clamped(name, x) for name, x in raw.items()}, np.asarray(score)

    def _score(self, one: Population, name: str, x: Array, theta: Theta) -> Array:
        """d log p(x) of one column's records, (count, P); equal records are scored once."""
        population, entry = self.population, self.plan.part_schema.column(name)
        points, place = np.unique(x, return_inverse=True) if one.is_discrete else (x, slice(None))

        def log_density(at: Theta) -> Array:
            own = population.theta_of(name, at)
            logs = np.broadcast_to(one.log_density(points, own), (rows_of(at), points.size))
            if self._is_truncated(name):
                assert isinstance(entry, Bounded)
                return np.asarray(logs - np.log(one.between([entry.low], [entry.high], own)))
            return logs

        if (
            isinstance(population, Population)
            and isinstance(one.distribution, NormalLaw)
            and not self._is_truncated(name)
        ):
            closed = one.score(points, theta)
            return np.stack([closed[free][0] for free in population.free], axis=-1)
        return np.asarray(coordinate_slopes(log_density, theta, population.supports)[0].T[place])

    def _is_truncated(self, name: str) -> bool:
        schema = self.plan.part_schema
        return schema.outside == "refuse" and isinstance(schema.column(name), Bounded)

    def _clamped(self, name: str, x: Array) -> Array:
        entry = self.plan.part_schema.column(name)
        return np.clip(x, entry.low, entry.high) if isinstance(entry, Bounded) else x

    def _log_noise(self, y: Any, records: Mapping[str, Array]) -> Array:
        """log p(y | x_1:n) of data sets given by column (M, n)."""
        statistic, law, schema = self.plan.statistic, self.plan.law, self.plan.part_schema
        if isinstance(statistic, OrderStatistic):
            scaled = smooth_law(law)
            values = np.sort(np.broadcast_to(statistic.feature.value(records, schema), (self.inner, self.n)), axis=-1)
            low, high = statistic.bounds(schema)
            rank = statistic.rank(self.n)
            scale = of_sorted(values, rank=rank, low=low, high=high, beta=scaled.beta)
            floored = np.maximum(scale, scale_floor(step=scaled.step, alpha=scaled.alpha))
            return scaled.log_pmf(y[0] - values[:, rank - 1] / scaled.step, smooth_scale=floored)
        sums = np.asarray(statistic.value(records, schema)) * (self.n if statistic.kind == "mean" else 1)
        if law.form is Form.ACTION:
            return action_law(law).log_pmf(np.full(self.inner, y[0]), np.rint(sums[..., 0]).astype(int))
        added = additive_law(law)
        each = [added.log_pmf(float(y[k]) - sums[..., k] / step, k) for k, step in enumerate(added.step)]
        return np.asarray(np.sum(each, axis=0))

    def _log_answer(self, rng: np.random.Generator, one: Mapping[str, Array], x: Mapping[str, Array]) -> Array:
        """log g(y | s(x)) for records x (M,), y answered by the record `one`."""
        statistic, law, schema = self.plan.statistic, self.plan.law, self.plan.part_schema
        assert isinstance(statistic, Records)
        if law.form is Form.CELL:
            answer = draw_answers(rng, law, statistic.cell(one, schema))
            return cell_law(law).log_pmf(np.broadcast_to(answer, (self.inner,)), np.asarray(statistic.cell(x, schema)))
        added = additive_law(law)
        (true,), values = (np.broadcast_to(statistic.feature.value(r, schema), np.shape(next(iter(r.values()))))
                           for r in (one, x))  # fmt: skip
        noise = draw_noise(rng, law, 1)[0]
        return added.log_pmf(np.rint(true / added.step[0]) + noise - values / added.step[0])


def _normalised(log_w: Array) -> Array:
    w = np.exp(log_w - np.max(log_w))
    return np.asarray(w / w.sum())


def _products(gamma: Array) -> Array:
    return np.asarray(gamma[:, :, None] * gamma[:, None, :])
