"""order-statistics: is the median or the maximum worth sharing?

Records X ~ N(0, variance theta) clamped to [-bound, bound]; what is released is the median or the maximum of |x| with
Laplace noise scaled to its smooth sensitivity S(x), under (epsilon, delta). For each true theta, `repeats` releases are
simulated, and the posterior mean under a flat prior on (0, prior_high) is compared with theta (Alparslan & Yıldırım
2022, Table 4 and Figure 8; Alparslan 2023, Table 6.2 and Figure 6.3).

The likelihood has no closed form. Here many releases of one kind are scored, so one bank of simulated data sets serves
all of them: with s_m(theta) and S_m(theta) of M data sets |x| = min(sqrt(theta) |z|, bound), the same z for all theta,
    p(y | theta) = (1/M) sum_m alpha/(2 S_m) exp(-alpha |y - s_m| / S_m),
smooth in theta, integrated over a grid in log theta. (For a single release `OrderBank` does the same more sharply.)
The Fisher information is E[a(y) b(y)], where a and b are the scores of y by two banks that share nothing, so that their
errors do not add up as a square would. `mse_low` and `mse_high` are the 5 % and 95 % points of the mean squared error
under resampling of the repeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from noisewise.laws import SmoothLaw, smooth_law
from noisewise.likelihood.simulate import simulate_values
from noisewise.likelihood.smooth_scale import of_sorted
from noisewise.planning import Plan, plan
from noisewise.populations.parameters import Array
from noisewise.populations.population import Normal
from noisewise.privacy.guarantee import ApproxDP
from noisewise.privacy.smooth import scale_floor
from noisewise.schema import Bounded, Schema
from noisewise.statistics import Maximum, Median, column
from noisewise_papers.resample import mean_with_range
from noisewise_papers.setting import Setting
from noisewise_papers.study import Row, Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STATISTICS: dict[str, type[Median] | type[Maximum]] = {"median": Median, "max": Maximum}
IN_PRINT = {
    ("median", 0.5): 0.027, ("median", 1.0): 0.061, ("median", 2.0): 0.391,
    ("max", 0.5): 10.80, ("max", 1.0): 15.57, ("max", 2.0): 22.64,
}  # fmt: skip
N_NODES, SMALLEST = 200, 1e-5  # of the grid in log theta, and its lower end as a share of prior_high
PIECE = 2_000_000  # terms of the likelihood at once
RELATIVE_STEP = 0.02  # of theta, for the score
Point = tuple[str, float, Mapping[str, Any]]


def measure(setup: Setup) -> Rows:
    """One row a statistic and true theta."""
    points: list[Point] = [(name, theta, setup.settings) for name in STATISTICS for theta in setup["theta"]]
    return setup.map(row_at, points, "statistics")


def row_at(rng: np.random.Generator, point: Point) -> Row:
    """Simulate releases at one theta, estimate theta from each, and score them."""
    name, theta, settings = point
    problem = Problem.of(name, settings)
    y = problem.simulate(rng, theta, settings["repeats"])
    estimates = posterior_means(problem, y, problem.base(rng, settings["bank"]), settings["prior_high"])
    mse, low, high = mean_with_range(rng, np.square(estimates - theta))
    return {
        "statistic": name,
        "theta": theta,
        "mse": mse,
        "mse_low": low,
        "mse_high": high,
        "information": information(rng, problem, theta, settings["bank"]),
        "paper": IN_PRINT.get((name, theta)) if is_as_in_print(settings) else None,
    }


@dataclass(frozen=True, slots=True)
class Problem:
    """One order statistic of |x| and the rule of its noise."""

    plan: Plan
    rank: int
    n: int
    bound: float
    law: SmoothLaw

    @classmethod
    def of(cls, name: str, settings: Mapping[str, Any]) -> Problem:
        n, bound, delta = settings["n"], settings["bound"], settings["delta"]
        statistic = STATISTICS[name](abs(column("x")))
        schema = Schema({"x": Bounded(-bound, bound)}, n=n, neighbours="change-one")
        guarantee = ApproxDP(settings["epsilon"], Fraction(1, n * n) if delta is None else delta)
        planned = plan(statistic, schema, guarantee=guarantee, mechanism="smooth-laplace")
        return cls(planned, statistic.rank(n), n, bound, smooth_law(planned.law))

    def simulate(self, rng: np.random.Generator, theta: float, count: int) -> Array:
        """Released values of `count` data sets, as people read them."""
        population = Normal(mean=0, variance=theta)
        values = simulate_values(rng, self.plan, population, {"variance": np.full(count, theta)})
        return np.asarray(values[:, 0] * self.law.step, dtype=float)

    def base(self, rng: np.random.Generator, count: int) -> Array:
        """Sorted |z| of `count` data sets, free of theta."""
        return np.sort(np.abs(rng.standard_normal((count, self.n))), axis=1)

    def log_density(self, y: Array, base: Array, theta: float) -> Array:
        """log p(y | theta) by the bank, for every y."""
        values = np.minimum(np.sqrt(theta) * base, self.bound)
        smooth = of_sorted(values, rank=self.rank, low=0.0, high=self.bound, beta=self.law.beta)
        floor = scale_floor(step=self.law.step, alpha=self.law.alpha)
        scale = np.maximum(smooth, floor) / float(self.law.alpha)
        statistic = values[:, self.rank - 1]
        pieces = np.array_split(y, max(1, y.size * scale.size // PIECE))
        found = [logsumexp(-np.abs(piece[:, None] - statistic) / scale, axis=1, b=0.5 / scale) for piece in pieces]
        return np.asarray(np.concatenate(found) - np.log(scale.size))


def posterior_means(problem: Problem, y: Array, base: Array, high: float) -> Array:
    """E[theta | y] under a flat prior on (0, high), for every y, by the midpoint rule in log theta."""
    edges = np.geomspace(SMALLEST * high, high, N_NODES + 1)
    theta = np.sqrt(edges[:-1] * edges[1:])
    log_weight = np.log(np.diff(edges))[:, None] + np.stack([problem.log_density(y, base, at) for at in theta])
    weight = np.exp(log_weight - logsumexp(log_weight, axis=0))
    return np.asarray(theta @ weight)


def information(rng: np.random.Generator, problem: Problem, theta: float, count: int) -> float:
    """Fisher information on theta: the mean product of two banks' scores, over as many fresh releases."""
    y = problem.simulate(rng, theta, count)
    step = RELATIVE_STEP * theta
    scores = []
    for base in (problem.base(rng, count), problem.base(rng, count)):
        above, below = (problem.log_density(y, base, theta + side * step) for side in (1, -1))
        scores.append((above - below) / (2 * step))
    return float(np.mean(scores[0] * scores[1]))


def is_as_in_print(settings: Mapping[str, Any]) -> bool:
    """True where the settings are the papers', so that their figures may stand beside ours."""
    n, delta = settings["n"], settings["delta"]
    return (n, settings["bound"], settings["epsilon"]) == (100, 10.0, 5.0) and delta in (None, 1e-4)


def draw(figure: Figure, rows: Rows) -> None:
    """Mean squared error and information against theta, one line a statistic."""
    left, right = figure.subplots(1, 2)
    for name in dict.fromkeys(row["statistic"] for row in rows):
        line = [row for row in rows if row["statistic"] == name]
        theta = [row["theta"] for row in line]
        drawn = left.plot(theta, [row["mse"] for row in line], marker="o", label=name)[0]
        low, high = ([row[end] for row in line] for end in ("mse_low", "mse_high"))
        left.fill_between(theta, low, high, alpha=0.2, lw=0, color=drawn.get_color())
        printed = [(row["theta"], row["paper"]) for row in line if row["paper"] is not None]
        if printed:
            left.plot(*zip(*printed, strict=True), "x", color=drawn.get_color(), label=f"{name}, in print")
        right.plot(theta, [row["information"] for row in line], marker="o", label=name)
    left.set(yscale="log", xlabel="θ", ylabel="mean squared error of E[θ | y]")
    right.set(yscale="log", xlabel="θ", ylabel="Fisher information F(θ)")
    left.legend(fontsize="small")


def note(rows: Rows) -> str:
    """What the table shows."""
    error = {name: [row["mse"] for row in rows if row["statistic"] == name] for name in STATISTICS}
    ratio = min(most / median for median, most in zip(error["median"], error["max"], strict=True))
    return (
        f"The median's error is at least {ratio:.0f} times smaller: its noise is scaled to the spacing of records near "
        "the middle, that of the maximum to the gap between the largest record and the bound. `paper` is Alparslan "
        "(2023), Table 6.2 (100 repeats and Markov chains; Alparslan & Yıldırım 2022, Table 4, has theta = 2)."
    )


STUDY = Study(
    name="order-statistics",
    about="Median or maximum under smooth sensitivity: error of the estimate, and information.",
    source="Alparslan & Yıldırım (2022), Table 4, Figure 8; Alparslan (2023), Table 6.2",
    settings={
        "n": Setting(int, 100, "records", at_least=2),
        "bound": Setting(float, 10.0, "records are clamped to [-bound, bound]", above=0),
        "theta": Setting(float, (0.5, 1.0, 2.0), "the true variances", above=0),
        "epsilon": Setting(float, 5.0, "of (epsilon, delta)", above=0),
        "delta": Setting(float, None, "of (epsilon, delta); null: 1/n^2", above=0),
        "prior_high": Setting(float, 100.0, "the prior is uniform on (0, prior_high)", above=0),
        "repeats": Setting(int, 500, "releases at each theta", full=1000, at_least=2),
        "bank": Setting(int, 2000, "simulated data sets behind the likelihood", full=10_000, at_least=100),
    },
    columns=("statistic", "theta", "mse", "mse_low", "mse_high", "information", "paper"),
    measure=measure,
    draw=draw,
    note=note,
)
