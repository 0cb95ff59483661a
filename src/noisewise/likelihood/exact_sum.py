"""One additive component, without the central limit theorem: the sum's own law behind the noise.

A continuous population is laid out on panels on which the feature is monotone (cut at its kinks and turning points,
and at quantiles of the population), with atoms where the clamp or a clip piles mass up, and its characteristic function
is inverted (`inversion`). Panels are shared by rows of theta of similar spread, so a wide prior costs a few layouts.
A density that breaks off or has a pole inside a panel (a uniform law within the bounds, a gamma law of shape below 1)
is not seen right by shared panels: their mass shows it. Such rows get panels of their own, cut and filled in
probability, x = Q(u), where a break is an end and a pole is none.
A discrete population whose feature takes evenly spaced values is convolved exactly (`integers`).

Rows whose inversion is not resolved at an affordable cost (two or three records under noise far below their range) keep
the central limit value.

The cost grows slowly with n and the gain falls like 1/sqrt(n): `joint` uses this law up to n = LARGEST_N.
"""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from noisewise.likelihood import integers, inversion
from noisewise.likelihood.additive_noise import GaussianNoise, LaplaceNoise
from noisewise.likelihood.model import GroupLaw, Parameters, numerical_score, scalar_supports
from noisewise.likelihood.normal_rows import NormalRows, cautions_at
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.likelihood.quadrature import on_panels
from noisewise.populations.cleaned import attach
from noisewise.populations.nodes import kinks_of, record_nodes, turning_points
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import AnyPopulation, Population
from noisewise.release import NoisyValue
from noisewise.schema import Bounded
from noisewise.statistics.feature import Feature

LARGEST_N = 500
ORDER = 14
# Beyond the outermost cuts a panel holds nothing that counts, and need not be resolved however long it is.
CUTS = np.array([2e-16, 1e-8, 1e-4, 0.01, 0.1, 0.5, 0.9, 0.99, 1 - 1e-4, 1 - 1e-8, 1 - 2e-16])
WIDEST_RATIO = 1.6
LARGEST_ERROR = 0.02
TOLERANCE = 1e-6  # of p: far below what a posterior could show
HOPELESS = 300.0
PRIOR_DRAWS = 256
LARGEST_MISS = 1e-9  # of the mass of one record on shared panels
NARROWEST = 1e-3  # of the noise scale
MOST_CONVOLVED = 20_000


class Layout(NamedTuple):
    """The law of one record's feature for rows of theta: panels of nodes, and atoms."""

    nodes: Array  # (P, m) values of the feature
    weights: Array  # (K, P, m)
    atoms: Array  # (J,)
    atom_weights: Array  # (K, J)


class ExactSum(GroupLaw):
    """The likelihood of one noisy sum of one feature of one column, exactly."""

    def __init__(
        self, release: NoisyValue, population: AnyPopulation, *, n: int, normal_rows: NormalRows | None = None
    ) -> None:
        self.releases, self.population, self.n = (release,), population, n
        self.normal = NormalSum((release,), population, n=n)
        self.feature = self.normal.row[0]
        (self.column,) = self.feature.columns()
        self.one: Population = attach(population, release.schema, (self.column,))[self.column]
        self.normal_rows = NormalRows() if normal_rows is None else normal_rows

    @property
    def cautions(self) -> tuple[str, ...]:
        return self.normal_rows.cautions(self.n)

    @property
    def is_exact(self) -> bool:
        return not self.normal_rows.matter

    @property
    def because(self) -> str:
        how = "convolved" if self.one.is_discrete else "characteristic function inverted"
        words = f"exact law of the sum over {self.n} records ({how}), with the noise inside"
        return words + self.normal_rows.words()

    @classmethod
    def refusal(cls, release: NoisyValue, population: AnyPopulation, *, n: int) -> str | None:
        """Why this law is out of reach, or None."""
        row = NormalSum((release,), population, n=n).row
        if len(row) != 1:
            return "several components"
        names = row[0].columns()
        if len(names) != 1:
            return "the feature mixes columns"
        (column,) = names
        one = attach(population, release.schema, (column,))[column]
        if one.is_discrete:
            return _discrete_refusal(row[0], release, column, n)
        if n > LARGEST_N:
            return f"n > {LARGEST_N}, where it would tell no difference"
        cuts, constants = pieces(row[0], release.schema, column)
        if len(constants) == len(cuts) - 1:
            return "the feature is constant in pieces"
        values = {value for *_, value in constants}
        values |= _ends(row[0], release.schema, column) if _clamps(release) else set()
        return "the clipped feature has more than two atoms" if len(values) > 2 else None

    def log_likelihood(self, theta: Theta) -> Array:
        if self.one.is_discrete:
            return self._convolved(theta)
        # A sum far narrower than the noise is scored as if it were normal: its shape is in the 1e-9th part of p.
        result = self.normal.log_likelihood(theta)
        spread = np.sqrt(np.maximum(self.normal.moments(theta)[1][:, 0, 0], 0))
        is_wide = spread > NARROWEST * self.normal.noise.scale[0]
        # Far below what other parameters reach, either law is zero; inverting there is slow and tells nothing.
        is_near = ~(result < self._reached - HOPELESS)
        wide = np.flatnonzero(is_wide & is_near)
        mine = {name: np.asarray(value)[wide] for name, value in self.population.theta_of(self.column, theta).items()}
        is_normal = is_wide & is_near
        for group in similar(self.one, mine, wide.size):
            chosen = {name: value[group] for name, value in mine.items()}
            found = self._inverted(chosen, group.size)
            resolved = (found.error < LARGEST_ERROR) & np.isfinite(found.log_density)
            result[wide[group[resolved]]] = found.log_density[resolved] + np.log(self.normal.noise.step[0])
            is_normal[wide[group[resolved]]] = False
        self.normal_rows.add(result, is_normal)
        return result

    def _inverted(self, theta: Theta, rows: int) -> inversion.Inverted:
        layout, missed = self._shared_layout(theta, rows)
        rough = np.flatnonzero(~(np.abs(missed) <= LARGEST_MISS))
        if not rough.size:
            return self._inverted_on(layout, rows)
        found = inversion.Inverted(np.full(rows, np.nan), np.full(rows, np.inf))
        smooth = np.setdiff1d(np.arange(rows), rough)
        if smooth.size:
            parts = {"weights": layout.weights[smooth], "atom_weights": layout.atom_weights[smooth]}
            found.log_density[smooth], found.error[smooth] = self._inverted_on(layout._replace(**parts), smooth.size)
        for row in rough:
            one = {name: np.asarray(value)[row : row + 1] for name, value in theta.items()}
            found.log_density[row : row + 1], found.error[row : row + 1] = self._inverted_on(self._own_layout(one), 1)
        return found

    def _inverted_on(self, layout: Layout, rows: int) -> inversion.Inverted:
        if not np.all(np.isfinite(layout.weights)):
            return inversion.Inverted(np.full(rows, np.nan), np.full(rows, np.inf))
        scale = float(self.normal.noise.scale[0])
        noise = LaplaceNoise(scale) if self.normal.noise.is_laplace[0] else GaussianNoise(scale)
        return inversion.log_density(
            float(self.normal.observed[0]), n=self.n, noise=noise, tolerance=TOLERANCE, **layout._asdict()
        )

    def layout(self, theta: Theta, rows: int) -> Layout:
        """The law of one record's feature, on panels that all rows share; of a single row on panels that fit."""
        layout, missed = self._shared_layout(theta, rows)
        return self._own_layout(theta) if rows == 1 and not abs(missed[0]) <= LARGEST_MISS else layout

    def _shared_layout(self, theta: Theta, rows: int) -> tuple[Layout, Array]:
        """Panels that all rows share, and the mass of each row that they do not see."""
        schema = self.releases[0].schema
        entry = schema.bounded(self.column)
        cuts, constants = self._pieces
        ends = self.one.quantile(CUTS, theta).clip(entry.low, entry.high)
        edges = thinned(np.concatenate([cuts, ends.min(axis=0), ends.max(axis=0)]), fixed=cuts)
        middle = 0.5 * (edges[:-1] + edges[1:])
        is_flat = np.zeros(middle.size, bool)
        for low, high, _ in constants:
            is_flat |= (middle > low) & (middle < high)
        x, w = on_panels(edges, ORDER)
        x, w = x[~is_flat], w[~is_flat]
        log_density = self.one.log_density(x.ravel(), theta)
        wanted = np.ones(rows)
        if not _clamps(self.releases[0]):
            # Truncated: only ratios count, so a law that lies far outside the bounds keeps its digits.
            largest = np.max(log_density, axis=1, keepdims=True)
            log_density = log_density - largest
            mass = self.one.between([entry.low], [entry.high], theta)[:, 0]
            with np.errstate(over="ignore", invalid="ignore"):
                wanted = np.broadcast_to(np.where(mass >= 1e-9, mass / np.exp(largest[:, 0]), np.nan), rows)
        with np.errstate(under="ignore", invalid="ignore"):
            density = np.exp(log_density).reshape(-1, *x.shape)
        weights = np.broadcast_to(density, (rows, *x.shape)) * w
        values = np.broadcast_to(self.feature.value({self.column: x}, schema), x.shape)
        atoms = self._atoms(theta, rows)
        total = weights.sum(axis=(1, 2)) + sum(atoms.values(), np.zeros(rows))
        # Truncation divides by the mass inside; under a clamp the total is 1 up to what lies beyond the last cut.
        weights = weights / total[:, None, None]
        shares = np.stack([*atoms.values()], axis=1) / total[:, None] if atoms else np.zeros((rows, 0))
        # Of a law almost wholly outside the bounds only the shape is known: its mass tells nothing.
        missed = np.where(np.isnan(wanted) & np.isfinite(total), 0.0, total / wanted - 1)
        return Layout(np.asarray(values), weights, np.array([*atoms]), shares), missed

    def _own_layout(self, theta: Theta) -> Layout:
        """Panels of one row, in probability: u runs between the values of the distribution function at all cuts."""
        schema = self.releases[0].schema
        cuts, constants = self._pieces
        at_cuts = self.one.cdf(cuts, theta)[0]
        ends = np.unique(np.clip([*at_cuts, *CUTS], at_cuts[0], at_cuts[-1]))
        if not np.all(np.isfinite(ends)) or ends.size < 2:
            return Layout(np.zeros((1, ORDER)), np.full((1, 1, ORDER), np.nan), np.empty(0), np.zeros((1, 0)))
        u, w = on_panels(ends, ORDER)
        p, law = self.one.values(theta), self.one.distribution
        low = law.quantile(u.ravel()[None], p).reshape(u.shape)
        high = law.upper_quantile(law.survival(cuts[-1:], p)[0] + (at_cuts[-1] - u.ravel())[None], p).reshape(u.shape)
        x = np.clip(np.where(u < 0.5, low, high), cuts[0], cuts[-1])
        middle = x[:, ORDER // 2]
        is_flat = np.zeros(len(x), bool)
        for start, stop, _ in constants:
            is_flat |= (middle > start) & (middle < stop)
        values = np.broadcast_to(self.feature.value({self.column: x[~is_flat]}, schema), x[~is_flat].shape)
        atoms = self._atoms(theta, 1)
        total = w[~is_flat].sum() + sum(float(mass[0]) for mass in atoms.values())
        shares = np.array([[float(mass[0]) / total for mass in atoms.values()]])
        return Layout(np.asarray(values), w[None, ~is_flat] / total, np.array([*atoms]), shares)

    def _atoms(self, theta: Theta, rows: int) -> dict[float, Array]:
        """Mass by value: constant stretches of the feature, and the clamped ends."""
        schema = self.releases[0].schema
        entry = schema.bounded(self.column)
        atoms: dict[float, Array] = {}

        def add(value: float, mass: Array) -> None:
            atoms[value] = atoms.get(value, np.zeros(rows)) + np.broadcast_to(mass, (rows,))

        for low, high, value in self._pieces[1]:
            cdf = self.one.cdf([low, high], theta)
            add(value, cdf[:, 1] - cdf[:, 0])
        if _clamps(self.releases[0]):
            low_value, high_value = (
                float(np.asarray(self.feature.value({self.column: np.array([end])}, schema)).ravel()[0])
                for end in (entry.low, entry.high)
            )
            cdf = self.one.cdf([entry.low, entry.high], theta)
            add(low_value, cdf[:, 0])
            add(high_value, 1 - cdf[:, 1])
        return atoms

    @cached_property
    def _reached(self) -> float:
        """A log-likelihood that some parameters reach: the best of a fixed set of prior draws."""
        drawn = self.population.sample_prior(np.random.default_rng(0), PRIOR_DRAWS)
        return float(np.nanmax(self.normal.log_likelihood(drawn)))

    @cached_property
    def _pieces(self) -> tuple[Array, list[tuple[float, float, float]]]:
        return pieces(self.feature, self.releases[0].schema, self.column)

    def _convolved(self, theta: Theta) -> Array:
        mine = self.population.theta_of(self.column, theta)
        nodes = record_nodes(self.one, self.releases[0].schema, self.column, mine, ())
        low, gap, size = _spacing(self.feature, self.releases[0], self.column)
        values = np.broadcast_to(self.feature.value({self.column: nodes.x}, self.releases[0].schema), nodes.x.shape)
        place = np.rint((values - low) / gap).astype(int)
        pmf = np.zeros((len(values), size))
        for k, (where, weight) in enumerate(zip(place, nodes.weight, strict=True)):
            pmf[k] = np.bincount(where, weight, size)
        sums = self.n * low + gap * np.arange(self.n * (size - 1) + 1)
        law: Any = self.releases[0].law
        log_noise = law.log_pmf(self.releases[0].value[0] - sums / law.step[0])
        centre = float(np.clip((self.normal.observed[0] - self.n * low) / gap, 0, self.n * (size - 1)))
        with np.errstate(divide="ignore"):
            return integers.log_likelihood(np.log(pmf), log_noise, n=self.n, centre=centre)

    def score(self, theta: Theta) -> dict[str, Array]:
        return numerical_score(self.log_likelihood, theta, scalar_supports(self.population))

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """The sum given y and theta, from its own law where that is inverted, else by the central limit theorem."""
        from noisewise.likelihood.joint_sum import JointSum

        if JointSum.refusal(self.releases, self.population, n=self.n) is None:
            return JointSum(self.releases, self.population, n=self.n).draw_statistic(rng, theta)
        return self.normal.draw_statistic(rng, theta)

    def latent(self, parameters: Parameters) -> Any:
        return None


def similar(one: Population, theta: Theta, rows: int) -> list[Any]:
    """Rows of theta in groups of similar spread and place, so that a group can share its panels."""
    spread = np.broadcast_to(one.quantile([0.1, 0.5, 0.9], theta), (rows, 3))
    width = np.maximum(spread[:, 2] - spread[:, 0], 1e-300)
    order = np.lexsort((spread[:, 1], np.floor(np.log(width) / np.log(WIDEST_RATIO))))
    groups, first = [], 0
    for k in range(1, rows + 1):
        start = order[first]
        is_other = k == rows or (
            not 1 / WIDEST_RATIO < width[order[k]] / width[start] < WIDEST_RATIO
            or abs(spread[order[k], 1] - spread[start, 1]) > width[start]
        )
        if is_other:
            groups.append(order[first:k])
            first = k
    return groups


def pieces(feature: Feature, schema: Any, column: str) -> tuple[Array, list[tuple[float, float, float]]]:
    """Edges between which a feature is monotone and smooth, and stretches (low, high, value) where it is constant."""
    entry = schema.bounded(column)
    kinks = kinks_of((feature,), schema, column)
    grid = np.linspace(entry.low, entry.high, 2049)
    turns = turning_points(feature, grid, schema, column)
    cuts = np.unique([entry.low, *kinks, *turns, entry.high])
    constants = []
    for low, high in itertools.pairwise(cuts):
        inside = np.broadcast_to(feature.value({column: np.linspace(low, high, 9)[1:-1]}, schema), (7,))
        if np.ptp(inside) == 0:
            constants.append((float(low), float(high), float(inside[0])))
    return cuts, constants


def thinned(edges: Array, fixed: Array) -> Array:
    """Sorted edges; of two that nearly meet the fixed one stays, so no panel is empty."""
    span = fixed[-1] - fixed[0]
    kept = list(fixed)
    for edge in edges:
        if np.min(np.abs(np.array(kept) - edge)) > 1e-9 * span:
            kept.append(edge)
    return np.sort(np.array(kept))


def _clamps(release: NoisyValue) -> bool:
    return release.schema.outside == "clamp"


def _ends(feature: Feature, schema: Any, column: str) -> set[float]:
    entry = schema.bounded(column)
    values = np.broadcast_to(feature.value({column: np.array([entry.low, entry.high])}, schema), (2,))
    return {float(value) for value in values}


def _discrete_refusal(feature: Feature, release: NoisyValue, column: str, n: int) -> str | None:
    if not isinstance(release.schema.column(column), Bounded):
        return "levels are counted, not summed"
    entry = release.schema.bounded(column)
    points = np.arange(np.ceil(entry.low), np.floor(entry.high) + 1)
    ends = {entry.low, entry.high} - set(points.tolist())
    if points.size > MOST_CONVOLVED or ends:
        return "the bounds are not whole numbers, or too far apart"
    values = np.broadcast_to(feature.value({column: points}, release.schema), points.shape)
    gaps = np.diff(np.unique(values))
    if gaps.size == 0 or np.any(np.rint(gaps / gaps.min()) * gaps.min() != gaps):
        return "the feature's values are not evenly spaced"
    size = np.ptp(values) / gaps.min() + 1
    return f"{n} sums of {int(size)} values are too many to convolve" if n * size > MOST_CONVOLVED else None


def _spacing(feature: Feature, release: NoisyValue, column: str) -> tuple[float, float, int]:
    """The lowest value, the gap between values and their number, over the whole declared range."""
    entry = release.schema.bounded(column)
    points = np.arange(np.ceil(entry.low), np.floor(entry.high) + 1)
    values = np.unique(np.broadcast_to(feature.value({column: points}, release.schema), points.shape))
    gap = float(np.diff(values).min())
    return float(values[0]), gap, round(float(np.ptp(values)) / gap) + 1


@cautions_at.register
def _(model: ExactSum, theta: Theta) -> tuple[str, ...]:
    return model.normal_rows.cautions_at(model.log_likelihood, theta, model.n)
