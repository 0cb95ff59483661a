"""Local answers: one noisy number a record, independent given theta, so log p is a sum over answers.

The density of one answer is closed for a normal population (clipped; |x| and x^2 about a known mean of 0 under Laplace
noise); any other population and feature is a mixture over nodes. Outside the range of the answered feature Laplace
noise only adds -distance/b, which is free of theta; inside, thousands of answers are summed through a few hundred nodes
(`answers`), so the cost does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.laws import additive_law, normal_mixture
from noisewise.likelihood import clipped_normal, clipped_normal_gaussian, local_absolute, local_general, local_square
from noisewise.likelihood.answers import FEWEST, Summed
from noisewise.likelihood.model import GroupLaw, Parameters, numerical_score, scalar_supports
from noisewise.populations.cleaned import attach, records_from_base
from noisewise.populations.distribution import NormalLaw
from noisewise.populations.nodes import kinks_of, record_nodes
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import AnyPopulation, Population
from noisewise.release import NoisyValue
from noisewise.schema import Bounded
from noisewise.statistics.enclosure import feature_range
from noisewise.statistics.local import Records

LARGEST_ERROR = 1e-4  # of a log-likelihood summed through nodes
LARGEST_SHARE = 1e-5  # of it an answer, where the density is itself a mixture over nodes
MOST_CUTS = 200
PIECE = 128  # thetas whose nodes are laid at once


class LocalAnswers(GroupLaw):
    """The likelihood of local answers under Laplace or Gaussian noise."""

    is_exact = True
    cautions: tuple[str, ...] = ()

    def __init__(self, release: NoisyValue, population: AnyPopulation, *, n: int) -> None:
        statistic, law = release.statistic, additive_law(release.law)
        assert isinstance(statistic, Records)
        names = statistic.feature.columns()
        if len(names) != 1:
            raise Unsupported(f"Local answers about {statistic.feature} mix columns; ask about one column at a time.")
        self.releases, self.population, self.feature = (release,), population, statistic.feature
        (self.column,) = names
        self.one: Population = attach(population, release.schema, names)[self.column]
        noise = normal_mixture(law)
        self.is_laplace, self.scale = noise.is_laplace, float(noise.scale[0])
        self.step = float(law.step[0])
        low, high, _ = feature_range(self.feature, release.schema)
        answers = np.array(release.value, dtype=float) * self.step
        self.answers = np.clip(answers, low, high) if self.is_laplace else answers
        self.beyond = float(np.abs(answers - self.answers).sum()) / self.scale
        self.summed = Summed.of(self.answers) if answers.size >= FEWEST and np.ptp(self.answers) > 0 else None
        self.form, self.density = _density(self, release)
        self.is_closed = self.density != self._mixture

    @property
    def because(self) -> str:
        return f"exact law of {self.answers.size} local answers ({self.form})"

    def log_likelihood(self, theta: Theta) -> Array:
        constant = -self.beyond + self.answers.size * np.log(self.step)
        mine = self.population.theta_of(self.column, theta)
        if self.summed is None:
            return np.asarray(self.density(self.answers, mine).sum(axis=1) + constant)
        total, error = self.summed.total(self.density(self.summed.points, mine))
        limit = LARGEST_ERROR if self.is_closed else max(LARGEST_ERROR, LARGEST_SHARE * self.answers.size)
        for row in np.flatnonzero(~(error < limit)):
            one = {name: np.asarray(value)[row : row + 1] for name, value in mine.items()}
            total[row] = self.density(self.answers, one).sum()
        return np.asarray(total + constant)

    def score(self, theta: Theta) -> dict[str, Array]:
        return numerical_score(self.log_likelihood, theta, scalar_supports(self.population))

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """The mean of the true answers given the noisy ones: each has its own law, and their mean is normal."""
        schema, mine = self.releases[0].schema, self.population.theta_of(self.column, theta)
        rows, count = len(next(iter(mine.values()))), self.answers.size
        at = self.answers if self.summed is None else self.summed.nodes
        drawn = np.empty((rows, 1))
        for row in range(rows):
            one = {name: np.asarray(value)[row : row + 1] for name, value in mine.items()}
            nodes = record_nodes(self.one, schema, self.column, one, self.kinks)
            kept = nodes.weight[0] > 1e-12 * nodes.weight[0].max()
            values = np.broadcast_to(self.feature.value({self.column: nodes.x}, schema), nodes.x.shape)[0, kept]
            joint = self.log_noise_of(at[:, None] - values) + np.log(nodes.weight[0, kept])
            share = np.exp(joint - joint.max(axis=1, keepdims=True))
            share /= share.sum(axis=1, keepdims=True)
            mean = share @ values
            moments = np.stack([mean, share @ values**2 - mean**2])
            total = moments.sum(axis=1) if self.summed is None else self.summed.weighted(moments)
            drawn[row] = (total[0] + rng.standard_normal() * np.sqrt(max(total[1], 0.0))) / count
        return drawn

    def latent(self, parameters: Parameters) -> AnswersLatent:
        return AnswersLatent(self, parameters)

    @cached_property
    def kinks(self) -> tuple[float, ...]:
        """Where panels of nodes are cut: at the feature's bends, and so that none is wider than half the noise."""
        schema = self.releases[0].schema
        kinks = kinks_of((self.feature,), schema, self.column)
        entry = schema.column(self.column)
        if not isinstance(entry, Bounded):
            return kinks
        grid = np.linspace(entry.low, entry.high, 8193)
        values = np.broadcast_to(np.asarray(self.feature.value({self.column: grid}, schema), float), grid.shape)
        way = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(values)))])
        count = min(int(2 * way[-1] / self.scale), MOST_CUTS)
        cuts = grid[np.searchsorted(way, way[-1] * np.arange(1, count) / max(count, 1))]
        return tuple(sorted({*kinks, *(float(cut) for cut in cuts)}))

    def log_noise_of(self, residual: Array) -> Array:
        z = residual / self.scale
        if self.is_laplace:
            return np.asarray(-np.abs(z) - np.log(2 * self.scale))
        return np.asarray(-0.5 * z * z - np.log(self.scale) - 0.5 * np.log(2 * np.pi))

    def _mixture(self, y: Array, theta: Theta) -> Array:
        """The density of an answer as a mixture over the nodes of a record; -inf where there can be no record."""
        rows = len(next(iter(theta.values()))) if theta else 1
        result = np.empty((rows, y.size))
        for start in range(0, rows, PIECE):
            piece = slice(start, min(start + PIECE, rows))
            result[piece] = self._mixtures(y, {name: np.asarray(value)[piece] for name, value in theta.items()})
        return result

    def _mixtures(self, y: Array, theta: Theta) -> Array:
        schema = self.releases[0].schema
        rows = len(next(iter(theta.values()))) if theta else 1
        try:
            nodes = record_nodes(self.one, schema, self.column, theta, self.kinks)
        except InvalidArgument:  # no mass inside the bounds under any of these
            return np.full((rows, y.size), -np.inf)
        values = np.broadcast_to(self.feature.value({self.column: nodes.x}, schema), nodes.x.shape)
        with np.errstate(divide="ignore"):
            logs = np.log(nodes.weight)
        result = np.empty((rows, y.size))
        for row in range(rows):
            if np.isnan(logs[row]).any():
                one = {name: np.asarray(value)[row : row + 1] for name, value in theta.items()}
                is_defined = not np.isnan(self.one.log_density(nodes.x[row : row + 1], one)).any()
                result[row] = -np.inf if is_defined else np.nan
                continue
            kept = logs[row] > logs[row].max() - 60
            at, weights = values[row, kept], logs[row, kept]
            if self.is_laplace:
                result[row] = local_general.laplace_log_density(y, nodes=at, log_weights=weights, scale=self.scale)
            else:
                noise = self.log_noise_of
                result[row] = local_general.log_density(y, nodes=at, log_weights=weights, log_noise=noise)[0]
        return result


@dataclass(frozen=True, slots=True)
class AnswersLatent:
    """One base draw an answer (`published.samplers.latent.SequentialLatent`)."""

    model: LocalAnswers
    parameters: Parameters
    is_sequential: ClassVar[bool] = True

    @property
    def n(self) -> int:
        return int(self.model.answers.size)

    def base(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return rng.random((*shape, self.n))

    def log_noise(self, z: Array, position: Array) -> Array:
        """log h(y_t | z_t, theta), (K, N, n)."""
        model, theta = self.model, self.parameters(position)
        schema = model.releases[0].schema
        result = np.empty(z.shape)
        for k, base in enumerate(z):
            one = {name: np.asarray(value)[k : k + 1] for name, value in theta.items()}
            records = records_from_base(model.population, schema, {model.column: base}, one, (model.column,))
            values = np.broadcast_to(model.feature.value(records, schema), (1, *base.shape))[0]
            result[k] = model.log_noise_of(model.answers - values)
        return result


Density = Callable[[Array, Theta], Array]


def _density(model: LocalAnswers, release: NoisyValue) -> tuple[str, Density]:
    """The closed form that fits, in words, and as a function of answers (n,) and theta giving (K, n)."""
    law, entry = model.one.distribution, release.schema.column(model.column)
    if not isinstance(law, NormalLaw) or not isinstance(entry, Bounded) or release.schema.outside != "clamp":
        return "a mixture over nodes", model._mixture
    window = _window(model, entry)
    if window is not None:
        low, high = window
        closed = clipped_normal if model.is_laplace else clipped_normal_gaussian
        noise = {"scale" if model.is_laplace else "noise_sd": model.scale}

        def clipped(y: Array, theta: Theta) -> Array:
            p = model.one.values(theta)
            return np.atleast_2d(closed.log_density(y, mean=p["mean"], sd=law.sd(p), low=low, high=high, **noise))

        return "clipped normal, closed form", clipped
    mean = model.one.parameters.known.get("mean")
    is_centred = mean is not None and mean[0] == 0 and entry.low == -entry.high and model.is_laplace
    folded = {"absolute": local_absolute, "power": local_square}.get(model.feature.operation)
    if is_centred and folded is not None and _is_plain(model):

        def even(y: Array, theta: Theta) -> Array:
            p = model.one.values(theta)
            return np.atleast_2d(folded.log_density(y, variance=law.sd(p) ** 2, scale=model.scale, bound=entry.high))

        return f"{model.feature} of a centred normal, closed form", even
    return "a mixture over nodes", model._mixture


def _window(model: LocalAnswers, entry: Bounded) -> tuple[float, float] | None:
    """The interval that a column, possibly clipped, is clipped to; None for any other feature."""
    feature, low, high = model.feature, entry.low, entry.high
    while feature.operation == "clip":
        low, high = max(low, float(feature.arguments[1])), min(high, float(feature.arguments[2]))
        feature = feature.arguments[0]
    return (low, high) if feature.operation == "column" and low < high else None


def _is_plain(model: LocalAnswers) -> bool:
    """True for |x| and x**2 of the column itself."""
    feature = model.feature
    if feature.arguments[0].operation != "column":
        return False
    return feature.operation == "absolute" or feature.arguments[1] == 2
