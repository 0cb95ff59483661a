"""The law of an answer: log p(y | question, theta) for many theta at once, exact for every pair that is accepted.

    cells, any population          q_j = other + (keep - other) P(x in cell j)
    clip, normal                   closed form                                              (`clipped_normal_sum`)
    clip, Laplace, exponential, uniform     closed pieces                                   (`clipped_pieces`)
    clip, logistic, Student-t ...  panels of quadrature                                     (`clipped_smooth`)
    clip, Poisson, Bernoulli ...   the sum over values; where they are many, to 1e-9         (`clipped_steps`)
A clipped answer is scored as step * density: its lattice is so fine (2^-20 of the noise) that nothing else shows.
Other populations (gamma, lognormal, any of scipy.stats) are asked about cells only, which needs no more than their cdf.
A categorical population is asked for its level, which is a question about cells whose masses are p itself.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.online import clipped_pieces, clipped_smooth, clipped_steps
from noisewise.online.asked import Asked, level_edges
from noisewise.online.clipped_normal_sum import log_densities
from noisewise.online.clipped_pieces import PIECES
from noisewise.online.clipped_record import Channel
from noisewise.online.clipped_smooth import SMOOTH, Base
from noisewise.populations.distribution import CategoricalLaw, GammaLaw, NormalLaw, UniformLaw
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import Population

__all__ = ["AnswerLaw", "ColumnLaw"]

MOST_VALUES = 1_000_000  # of a discrete record inside one interval


class ColumnLaw(Protocol):
    """What learning from answers about one column needs: `AnswerLaw`, or one that allows for false answers."""

    @property
    def form(self) -> str: ...
    @property
    def population(self) -> Population: ...
    def place(self, theta: Theta) -> tuple[Array, Array]: ...
    def log_density(self, asked: Asked, y: Array, theta: Theta) -> Array: ...
    def cell_mass(self, low: Array, high: Array, cells: Array, theta: Theta) -> Array: ...


class AnswerLaw:
    """The law of answers about one column, whose population is given."""

    __slots__ = ("form", "population")

    def __init__(self, population: object) -> None:
        if not isinstance(population, Population):
            raise InvalidArgument(
                "A question is about one column: give its population, such as Normal(...), or a Joint(...) of several "
                f"such, not {type(population).__name__}.",
                argument="population",
            )
        if population.is_discrete and not _is_whole(population):
            raise InvalidArgument(
                f"A survey counts in whole numbers, but the values of this {population.distribution.name} population "
                "lie beside them: its loc must be a known whole number. Subtract it from what people answer about.",
                argument="population",
            )
        self.population, self.form = population, _form(population)

    @property
    def can_clip(self) -> bool:
        """Whether clipped answers have an exact law here."""
        return self.form not in ("cells", "levels")

    @property
    def level_count(self) -> int | None:
        """How many levels a record may have; None for numbers."""
        if self.form != "levels":
            return None
        p = self.population.parameters
        return p.supports["p"].size if "p" in p.supports else int(np.shape(p.known["p"])[-1])

    def check(self, asked: Asked) -> None:
        """Refuse a question whose answers have no exact law under this population."""
        count = self.level_count
        if count is not None and asked.edges != level_edges(count):
            raise Unsupported(f"A categorical population is asked for its level: Query.choice of {count} levels.")
        if not asked.is_cells and not self.can_clip:
            raise Unsupported(
                f"Clipped answers about a {self.population.distribution.name} population have no exact law here; "
                "ask with queries=('sign', 'cells')."
            )
        if self.form == "steps" and not asked.is_cells and asked.high - asked.low > MOST_VALUES:
            raise Unsupported(f"An interval over more than {MOST_VALUES} values is too wide; clip to fewer.")

    def log_density(self, asked: Asked, y: Array, theta: Theta) -> Array:
        """log P(answer y_i | theta_k), (K, n): readings in the units of x, or the numbers of cells."""
        y = np.asarray(y, dtype=np.float64)
        if asked.is_cells:
            low, high = (end[y.astype(int)] for end in asked.cell_ends)
            found = np.log(asked.other + (asked.keep - asked.other) * self.mass(low, high, theta))
        else:
            found = _CLIPPED[self.form](self, asked, y, theta) + np.log(asked.step)
        law = self.population.distribution
        if isinstance(law, UniformLaw):  # a prior of both ends may cross them: no population
            found = np.where(law.width(self.population.values(theta)) > 0, found, -np.inf)
        return np.asarray(found)

    def cell_mass(self, low: Array, high: Array, cells: Array, theta: Theta) -> Array:
        """P(the device is told the cell [low, high)), (K, M), of a question with so many cells: that of the record."""
        return self.mass(low, high, theta)

    def mass(self, low: Array, high: Array, theta: Theta) -> Array:
        """P(low <= x < high), (K, M), each from the nearer tail."""
        if self.form == "levels":
            shares = np.atleast_2d(self.population.parameters.full(theta)["p"])
            first = np.ceil(np.where(np.isneginf(low), 0.0, low)).astype(int)
            return np.broadcast_to(shares[:, first], (rows_of(theta), np.size(low)))
        if clipped_steps.is_summed(self.population):
            return clipped_steps.summed_mass(self.population, low, high, theta)
        law, p = self.population.distribution, self.population.values(theta)
        is_first, is_last = np.isneginf(low), np.isposinf(high)
        # Neighbouring cells share an edge, and many people are asked the same: each edge is looked up once.
        ends = np.concatenate([np.where(is_first, 0.0, low), np.where(is_last, 0.0, high)])
        edges, places = np.unique(self.inner(ends), return_inverse=True)
        cdf, survival = (
            np.broadcast_to(tail(edges, p), (rows_of(theta), edges.size)) for tail in (law.cdf, law.survival)
        )
        first, last = np.split(places.ravel(), 2)
        below, above = np.where(is_first, 0.0, cdf[:, first]), np.where(is_first, 1.0, survival[:, first])
        up, beyond = np.where(is_last, 1.0, cdf[:, last]), np.where(is_last, 0.0, survival[:, last])
        return np.maximum(np.where(below < above, up - below, above - beyond), 0.0)

    def inner(self, edge: Array) -> Array:
        """The largest x below an edge, which belongs to the cell above it."""
        return np.nextafter(edge, -np.inf) if self.population.is_discrete else np.asarray(edge)

    def _normal(self, asked: Asked, y: Array, theta: Theta) -> Array:
        mean, sd = self.place(theta)
        return log_densities(y, asked, mean, sd)

    def place(self, theta: Theta) -> tuple[Array, Array]:
        """Location and scale (K,) of a location-scale population."""
        found = self.population.distribution.location_scale(self.population.values(theta))
        assert found is not None
        rows = rows_of(theta)
        loc, scale = (np.ascontiguousarray(np.broadcast_to(np.ravel(v), (rows,)), np.float64) for v in found)
        return loc, scale

    def _steps(self, asked: Asked, y: Array, theta: Theta) -> Array:
        if clipped_steps.value_count(asked) > clipped_steps.FEW_VALUES:
            return clipped_steps.log_densities(self.population, asked, y, theta)
        inside = np.arange(np.floor(asked.low) + 1, np.ceil(asked.high))
        x = np.concatenate([[asked.low], inside, [asked.high]])
        ends = np.concatenate([[-np.inf], np.nextafter(asked.low, np.inf)[None], inside[1:], [asked.high], [np.inf]])
        ends = ends if inside.size else np.array([-np.inf, asked.high, np.inf])
        return Channel.at_points(asked, y, x).log_density(self.mass(ends[:-1], ends[1:], theta))

    def _pieces(self, asked: Asked, y: Array, theta: Theta) -> Array:
        loc, scale = self.place(theta)
        return clipped_pieces.log_densities(y, asked, loc, scale, PIECES[self.population.distribution.name])

    def _smooth(self, asked: Asked, y: Array, theta: Theta) -> Array:
        loc, scale = self.place(theta)
        law = self.population.distribution
        return clipped_smooth.log_densities(
            y, asked, loc, scale, Base(SMOOTH[law.name], float((*law.standard, 1.0)[0]))
        )


_CLIPPED = {
    "normal": AnswerLaw._normal,
    "steps": AnswerLaw._steps,
    "pieces": AnswerLaw._pieces,
    "smooth": AnswerLaw._smooth,
}


def _is_whole(population: Population) -> bool:
    """Whether a discrete population lives on the whole numbers."""
    if "loc" not in population.distribution.domains:
        return True
    loc = population.parameters.known.get("loc")
    return loc is not None and bool(np.all(loc == np.round(loc)))


def _form(population: Population) -> str:
    law = population.distribution
    if isinstance(law, CategoricalLaw):
        return "levels"
    if isinstance(law, NormalLaw):
        return "normal"
    if population.is_discrete:
        return "steps"
    if isinstance(law, UniformLaw) or (isinstance(law, GammaLaw) and not law.has_shape):
        return "pieces"
    if set(law.domains) == {"loc", "scale"}:
        return "pieces" if law.name == "laplace" else "smooth" if law.name in SMOOTH else "cells"
    return "cells"
