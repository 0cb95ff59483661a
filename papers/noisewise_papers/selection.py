"""What the studies of selection share: a noisy sum of powers on a grid of theta, posterior means, and the verdict.

Under a flat prior on (0, high) the posterior mean of many releases at once is a ratio of two sums over one grid in
log theta,
    E[theta | y] = sum_g theta_g w_g p(y | theta_g) / sum_g w_g p(y | theta_g),      w_g the width of cell g,
which is what `infer(..., method="exact")` computes for one release (tests say so). The likelihood of a sum is normal
(central limit theorem, with the clamp in its moments), with the noise inside.

Statistics are compared on common random numbers: the same records and the same standard noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from noisewise.design.blank import blank_release
from noisewise.likelihood import normal_laplace
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.planning import Plan, plan
from noisewise.populations.parameters import Array
from noisewise.populations.population import Normal, Population
from noisewise.privacy.guarantee import GaussianDP, PureDP
from noisewise.schema import Bounded, Schema
from noisewise.statistics import Mean, Records, column
from noisewise.statistics.feature import Feature
from noisewise_papers.study import Row, Rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Point = tuple[str, float, Mapping[str, Any]]  # mechanism, epsilon, settings
MECHANISMS = ("gaussian", "laplace")
NO_PRIVACY = 1e6  # the epsilon that stands for none: noise too small to matter beside the spread of a sum
LEAST_NODES, SMALLEST = 300, 1e-5  # of the grid in log theta, and its lower end as a share of the upper
CLEAR = 1.15  # information that differs by this factor should show in the error


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells of (0, high) in log theta, and a flat prior's weight of each."""

    theta: Array
    log_width: Array

    @classmethod
    def of(cls, high: float, n: int) -> Grid:
        """Fine enough for n records: their posterior is about theta / sqrt(n) wide."""
        edges = np.geomspace(SMALLEST * high, high, max(LEAST_NODES, 30 * math.isqrt(n)) + 1)
        return cls(np.sqrt(edges[:-1] * edges[1:]), np.log(np.diff(edges)))

    def weights(self, log_likelihood: Array) -> Array:
        """Posterior probabilities of the cells (G, R) from log p(y_r | theta_g)."""
        log_weight = log_likelihood + self.log_width[:, None]
        return np.asarray(np.exp(log_weight - logsumexp(log_weight, axis=0)))

    def means(self, log_likelihood: Array) -> Array:
        """E[theta | y_r] for every release."""
        return np.asarray(self.theta @ self.weights(log_likelihood))


@dataclass(frozen=True, slots=True)
class Scene:
    """One mechanism and epsilon: a normal population of variance theta, flat a priori, and clamped data sets of it."""

    mechanism: str
    epsilon: float
    theta: float
    schema: Schema
    population: Population
    grid: Grid
    records: Array  # (repeats, n)

    @classmethod
    def of(cls, rng: np.random.Generator, point: Point) -> Scene:
        from scipy import stats

        mechanism, epsilon, settings = point
        n, bound, theta, high = (settings[name] for name in ("n", "bound", "theta", "prior_high"))
        records = np.clip(np.sqrt(theta) * rng.standard_normal((settings["repeats"], n)), -bound, bound)
        schema = Schema({"x": Bounded(-bound, bound)}, n=n, neighbours="change-one")
        population = Normal(mean=0, variance=stats.uniform(0, high))
        return cls(mechanism, epsilon, theta, schema, population, Grid.of(high, n), records)

    def row(self, plan: Plan, information: float, log_likelihood: Array) -> Row:
        """What was told, and the errors of the posterior means."""
        errors = self.grid.means(log_likelihood) - self.theta
        return row_of(self.mechanism, self.epsilon, plan.statistic, information, errors)


@dataclass(frozen=True, slots=True)
class NoisySum:
    """The sum of |x|^exponent over n records, taken as normal at every theta of a grid, and the noise on it."""

    exponent: float
    mean: Array
    variance: Array
    scale: float
    is_laplace: bool

    @classmethod
    def of(cls, plan: Plan, population: Population, theta: Array, exponent: float) -> NoisySum:
        model = NormalSum((blank_release(plan),), population, n=plan.part_schema.largest_n)
        mean, covariance = model.moments({population.free[0]: theta})
        variance = np.maximum(covariance[:, 0, 0], 0.0)
        return cls(exponent, mean[:, 0], variance, float(model.noise.scale[0]), bool(model.noise.is_laplace[0]))

    def released(self, records: Array, noise: Array) -> Array:
        """Noisy sums of cleaned records (R, n), with standard noise (R,)."""
        return np.asarray((np.abs(records) ** self.exponent).sum(axis=1) + self.scale * noise)

    def log_likelihood(self, y: Array) -> Array:
        """log p(y_r | theta_g), (G, R)."""
        mean, variance = self.mean[:, None], self.variance[:, None]
        if self.is_laplace:
            return np.asarray(normal_laplace.log_density(y, mean=mean, variance=variance, scale=self.scale))
        total = variance + self.scale**2
        return np.asarray(-0.5 * (np.square(y - mean) / total + np.log(2 * np.pi * total)))


def power(exponent: float) -> Feature:
    """|x|^a, in its plainest spelling."""
    x = column("x")
    if exponent % 2 == 0:
        return x ** int(exponent)
    return abs(x) if exponent == 1 else abs(x) ** exponent


def planned(statistic: Mean | Records, schema: Schema, mechanism: str, epsilon: float, *, part: Any = None) -> Plan:
    """A plan at epsilon: epsilon-DP with Laplace noise, epsilon-Gaussian DP with Gaussian noise."""
    budget = min(epsilon, NO_PRIVACY)
    guarantee = PureDP(budget) if mechanism == "laplace" else GaussianDP(budget)
    return plan(statistic, schema, guarantee=guarantee, mechanism=mechanism, part=part)


def first_part(first: int, n: int) -> tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction]]:
    """The first records and the rest, as parts."""
    cut = Fraction(first, n)
    return (Fraction(0), cut), (cut, Fraction(1))


def standard_noise(rng: np.random.Generator, mechanism: str, shape: int | tuple[int, ...]) -> Array:
    """Noise of scale 1, in the manner of the mechanism."""
    return rng.laplace(size=shape) if mechanism == "laplace" else rng.standard_normal(shape)


def row_of(mechanism: str, epsilon: float, statistic: object, information: float, errors: Array) -> Row:
    """One row of a comparison: what information foretold, and the errors of posterior means."""
    squares = np.square(errors)
    return {
        "mechanism": mechanism,
        "epsilon": epsilon,
        "statistic": str(statistic),
        "information": information,
        "mse": float(squares.mean()),
        "mse_se": float(squares.std(ddof=1) / math.sqrt(squares.size)),
    }


def groups(rows: Rows) -> list[list[Row]]:
    """Rows that differ in the statistic alone."""
    keys = dict.fromkeys((row["mechanism"], row["epsilon"]) for row in rows)
    return [[row for row in rows if (row["mechanism"], row["epsilon"]) == key] for key in keys]


def clear_pairs(rows: Rows) -> list[tuple[Row, Row]]:
    """Pairs (more, less informative) whose information differs by more than 15 %."""
    return [
        (a, b) for group in groups(rows) for a in group for b in group if a["information"] > CLEAR * b["information"]
    ]


def misordered(rows: Rows) -> list[tuple[Row, Row]]:
    """The clear pairs in which the more informative statistic has the larger error."""
    return [(a, b) for a, b in clear_pairs(rows) if a["mse"] >= b["mse"]]


def draw(figure: Figure, rows: Rows) -> None:
    """Error and information against epsilon, one row of panels a mechanism."""
    mechanisms = list(dict.fromkeys(row["mechanism"] for row in rows))
    panels = figure.subplots(len(mechanisms), 2, squeeze=False)
    finite = [row["epsilon"] for row in rows if math.isfinite(row["epsilon"])]
    beyond = 3 * max(finite, default=1.0)
    label = "ε" if len(finite) == len(rows) else "ε (last: no privacy)"
    for (left, right), mechanism in zip(panels, mechanisms, strict=True):
        here = [row for row in rows if row["mechanism"] == mechanism]
        for name in dict.fromkeys(row["statistic"] for row in here):
            line = sorted((row for row in here if row["statistic"] == name), key=lambda row: row["epsilon"])
            epsilon = [min(row["epsilon"], beyond) for row in line]
            error = [2 * row["mse_se"] for row in line]
            left.errorbar(epsilon, [row["mse"] for row in line], yerr=error, marker="o", ms=3, capsize=2, label=name)
            right.plot(epsilon, [row["information"] for row in line], marker="o", ms=3, label=name)
        for axes, what in ((left, "mean squared error of E[θ | y]"), (right, "Fisher information")):
            axes.set(xscale="log", yscale="log", xlabel=label, ylabel=what, title=mechanism)
        left.legend(fontsize="small")


def note(rows: Rows) -> str:
    """Whether the error follows the information."""
    clear, wrong = clear_pairs(rows), misordered(rows)
    verdict = "has" if not wrong else f"fails {len(wrong)} times to have"
    where = "; ".join(
        f"{a['mechanism']}, epsilon {a['epsilon']:g}: {a['statistic']} {a['mse']:.4g} ± {a['mse_se']:.2g}, "
        f"{b['statistic']} {b['mse']:.4g} ± {b['mse_se']:.2g}" for a, b in wrong
    )  # fmt: skip
    return (
        f"In {len(clear)} pairs the information differs by more than 15 %, and the more informative statistic "
        f"{verdict} the smaller error.{' ' + where if where else ''} epsilon = inf means no privacy. "
        "Gaussian noise is under epsilon-GDP, Laplace noise under epsilon-DP: the two are not the same privacy."
    )


def points_of(settings: Mapping[str, Any]) -> Sequence[Point]:
    """The grid of mechanisms and epsilons."""
    return [(mechanism, epsilon, settings) for mechanism in settings["mechanism"] for epsilon in settings["epsilon"]]
