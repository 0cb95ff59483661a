"""fisher: how much a noisy statistic tells, against theta (Alparslan & Yıldırım 2022, Examples 1-4, Figures 1-4).

    1   X ~ N(theta, 1) on (0, 10)                  mean of x^a, a = 1, 3
    2   X ~ N(0, theta) on (-100, 100)              mean of |x|^a
    3   X ~ Unif(-theta, theta) on (-100, 100)      mean of |x|^a
    4   X ~ Bernoulli(theta)                        randomized responses, noisy answers, noisy mean
Rows say how they were computed:
    formula       the paper's, by the central limit theorem, which lets records leave the bounds (Gaussian noise only)
    other, clt    this library's, by the same theorem, with the clamp in the moments
    other, exact  this library's, by the statistic's own law
The formulas are F = (m')^2 / H + (H'/H)^2 / 2 with H = Var(s(X)) / n + noise. In Example 4 the print lacks the half
before (1 - 2 theta)^2, and takes all noisy answers as no more than their mean: theirs is a mixture of two normals, and
`answers(x)` shows what it really tells. At small n the theorem can promise more than the records hold.

`repeats` > 0 adds the published Monte Carlo algorithms, with that many draws. Noise is under epsilon-GDP (gaussian) or
epsilon-DP (laplace, and randomized response always): curves of different kinds are not of the same privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gamma

from noisewise.design.information import engine_for
from noisewise.errors import InvalidArgument
from noisewise.planning import Plan, plan
from noisewise.populations.parameters import Array
from noisewise.populations.population import Bernoulli, Normal, Population, Uniform
from noisewise.privacy.guarantee import PureDP
from noisewise.schema import Bounded, Schema
from noisewise.statistics import Mean, Records, column
from noisewise_papers.selection import MECHANISMS, NO_PRIVACY, planned, power
from noisewise_papers.setting import Setting
from noisewise_papers.study import Row, Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST_DRAWS = 72  # of the Monte Carlo algorithms
SMALL = 0.01  # noise, as a share of the statistic's spread, that stands for none under the statistic's own law
Moments = tuple[float, float, float]  # of s(X): slope of the mean, variance, slope of the variance
Point = tuple[int, float | None, float, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Example:
    """One example of the paper: its population, its bounds and the grid of its figure."""

    population: Callable[[float], Population]  # of the bound
    is_signed: bool  # whether records range over (-bound, bound), or (0, bound)
    bound: float
    theta: tuple[float, ...]
    exponent: tuple[float, ...]
    moments: Callable[[float, float], Moments | None]  # of exponent and theta
    reach: Callable[[float], float]  # of theta: a bound that no record meets


def normal_mean(exponent: float, theta: float) -> Moments | None:
    """Of X^a, X ~ N(theta, 1), by E X^(k+1) = theta E X^k + k E X^(k-1); d E X^k / d theta = k E X^(k-1)."""
    if exponent != int(exponent):
        return None
    a, raw = int(exponent), [1.0, theta]
    for k in range(1, 2 * a):
        raw.append(theta * raw[k] + k * raw[k - 1])
    slope = a * raw[a - 1]
    return slope, raw[2 * a] - raw[a] ** 2, 2 * a * raw[2 * a - 1] - 2 * raw[a] * slope


def normal_variance(exponent: float, theta: float) -> Moments:
    """Of |X|^a, X ~ N(0, theta): E |X|^a = (2 theta)^(a/2) Gamma((a + 1)/2) / sqrt(pi)."""
    mean = (2 * theta) ** (exponent / 2) * gamma((exponent + 1) / 2) / math.sqrt(math.pi)
    variance = (2 * theta) ** exponent * gamma(exponent + 0.5) / math.sqrt(math.pi) - mean**2
    return 0.5 * exponent * mean / theta, variance, exponent * variance / theta


def uniform_width(exponent: float, theta: float) -> Moments:
    """Of |X|^a, X ~ Unif(-theta, theta)."""
    slope = exponent * theta ** (exponent - 1) / (exponent + 1)
    variance = theta ** (2 * exponent) * exponent**2 / ((exponent + 1) ** 2 * (2 * exponent + 1))
    return slope, variance, 2 * exponent * variance / theta


def _uniform_prior(high: float) -> Any:
    from scipy import stats

    return stats.uniform(0, high)


EXAMPLES = {
    1: Example(
        population=lambda bound: Normal(mean=_uniform_prior(bound), sd=1),
        is_signed=False,
        bound=10.0,
        theta=tuple(k + 0.5 for k in range(10)),
        exponent=(1.0, 3.0),
        moments=normal_mean,
        reach=lambda theta: theta + 9,
    ),
    2: Example(
        population=lambda bound: Normal(mean=0, variance=_uniform_prior(bound)),
        is_signed=True,
        bound=100.0,
        theta=(0.5, *(float(k) for k in range(1, 11))),
        exponent=(0.2, 0.5, 1.0, 1.5, 2.0),
        moments=normal_variance,
        reach=lambda theta: 9 * math.sqrt(theta),
    ),
    # Only |x| matters, and |X| ~ Unif(0, theta).
    3: Example(
        population=lambda bound: Uniform(low=0, width=_uniform_prior(bound)),
        is_signed=False,
        bound=100.0,
        theta=(1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0),
        exponent=(0.5, 1.0, 2.0),
        moments=uniform_width,
        reach=lambda theta: 1.25 * theta,
    ),
}
SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)  # the thetas of Example 4
BINARY = 4
BUDGETS, BINARY_BUDGETS = (1.0, math.inf), (0.5, 1.0, 2.0, 5.0, math.inf)  # Figure 4 has epsilon along its axis


def measure(setup: Setup) -> Rows:
    """A few rows an example, exponent, epsilon and theta."""
    points: list[Point] = []
    for number in setup["example"]:
        if number == BINARY:
            _check_shares(setup["theta"])
            points += [(BINARY, None, epsilon, setup.settings) for epsilon in setup["epsilon"] or BINARY_BUDGETS]
        elif number in EXAMPLES:
            exponents = setup["exponent"] or EXAMPLES[number].exponent
            budgets = setup["epsilon"] or BUDGETS
            points += [(number, exponent, epsilon, setup.settings) for epsilon in budgets for exponent in exponents]
        else:
            raise InvalidArgument(f"example = {number}: the examples are 1, 2, 3 and 4.", argument="example")
    return [row for rows in setup.map(rows_at, points, "curves") for row in rows]


def rows_at(rng: np.random.Generator, point: Point) -> list[Row]:
    """Every way to compute one curve, at every theta."""
    number, exponent, _, settings = point
    seed = int(rng.integers(2**31))
    is_binary = number == BINARY
    thetas = settings["theta"] or (SHARES if is_binary else EXAMPLES[number].theta)
    find = binary_rows if is_binary else power_rows
    found = [row for theta in thetas for row in find(point, theta, seed)]
    return [{"example": number, "statistic": row.pop("statistic"), "exponent": exponent} | row for row in found]


def power_rows(point: Point, theta: float, seed: int) -> list[Row]:
    """Examples 1-3 at one theta: the formula, and the noisy mean by the library."""
    number, exponent, epsilon, settings = point
    assert exponent is not None
    example = EXAMPLES[number]
    bound, n, mechanism = settings["bound"] or example.bound, settings["n"], settings["mechanism"]
    moments = example.moments(exponent, theta)
    x = column("x")
    feature = power(exponent) if example.is_signed else x if exponent == 1 else x**exponent
    population = example.population(max(bound, 2 * theta))
    rows = []
    if moments is not None and mechanism == "gaussian":
        rows.append(_formula(f"mean({feature})", theta, epsilon, moments, n, (bound**exponent / (n * epsilon)) ** 2))
    # Without privacy the bound makes no noise, and the own law is resolved best where it is no wider than the records.
    narrow = bound if math.isfinite(epsilon) else min(bound, example.reach(theta))
    spread = math.sqrt(moments[1]) if moments is not None else narrow**exponent
    budgets = _stand_ins(epsilon, spread * math.sqrt(n) / narrow**exponent)
    plans = []
    for high, budget in zip((bound, narrow), budgets, strict=True):
        schema = Schema({"x": Bounded(-high if example.is_signed else 0, high)}, n=n, neighbours="change-one")
        plans.append(planned(Mean(feature), schema, mechanism, budget))
    return rows + _both_laws(plans, population, theta, epsilon, settings, seed)


def binary_rows(point: Point, theta: float, seed: int) -> list[Row]:
    """Example 4 at one theta: randomized responses, noisy answers and their mean, the noisy mean."""
    from scipy import stats

    _, _, epsilon, settings = point
    n, mechanism, x = settings["n"], settings["mechanism"], column("x")
    schema = Schema({"x": Bounded(0, 1)}, n=n, neighbours="change-one")
    population = Bernoulli(p=stats.beta(1, 1))
    budget = min(epsilon, 1 / SMALL)
    yes = plan(Records(x.between(0.5, 1)), schema, guarantee=PureDP(budget), mechanism="randomized-response")
    answers = planned(Records(x), schema, mechanism, budget)
    rows = [
        _row("randomized-response(x)", yes, population, theta, epsilon, settings, seed),
        _row("answers(x)", answers, population, theta, epsilon, settings, seed),
    ]
    if mechanism == "gaussian":
        moments = (1.0, theta * (1 - theta), 1 - 2 * theta)
        rows.append(_formula("mean of answers(x)", theta, epsilon, moments, n, 1 / (n * epsilon**2)))
        rows.append(_formula("mean(x)", theta, epsilon, moments, n, 1 / (n * epsilon) ** 2))
    budgets = _stand_ins(epsilon, math.sqrt(n * theta * (1 - theta)))
    plans = [planned(Mean(x), schema, mechanism, one) for one in budgets]
    return rows + _both_laws(plans, population, theta, epsilon, settings, seed)


def _check_shares(thetas: tuple[float, ...]) -> None:
    if max(thetas, default=0.0) >= 1:
        raise InvalidArgument(
            "theta of Example 4 is a probability below 1. Leave Example 4 out (example=1,2,3), or theta.",
            argument="theta",
        )


def _stand_ins(epsilon: float, spread: float) -> tuple[float, float]:
    """The epsilons to plan with, for the normal and the own law; `spread` is the sum's, in units of its sensitivity.

    Without privacy the noise is made negligible. A statistic's own law behind vanishing noise cannot be resolved on
    any grid, so there it is a hundredth of the spread, which takes 10^-4 from the information.
    """
    return (epsilon, epsilon) if math.isfinite(epsilon) else (NO_PRIVACY, min(NO_PRIVACY, 1 / (SMALL * spread)))


def _both_laws(
    plans: list[Plan], population: Population, theta: float, epsilon: float, settings: Mapping[str, Any], seed: int
) -> list[Row]:
    normal, own = plans
    name = str(normal.statistic)
    rows = [
        _row(name, normal, population, theta, epsilon, settings, seed, likelihood="clt"),
        _row(name, own, population, theta, epsilon, settings, seed),
    ]
    if settings["repeats"] and math.isfinite(epsilon):  # without noise its importance weights are all but zero
        options = {"method": "monte-carlo", "likelihood": "clt"}
        rows.append(_row(name, normal, population, theta, epsilon, settings, seed, **options))
    return rows


def _row(
    name: str, plan: Plan, population: Population, theta: float, epsilon: float, settings: Mapping[str, Any], seed: int,
    **options: str,
) -> Row:  # fmt: skip
    draws = max(LEAST_DRAWS, settings["repeats"]) if options.get("method") == "monte-carlo" else None
    engine = engine_for(plan, population, seed=seed, draws=draws, **options)
    matrices, _ = engine.rows({population.free[0]: np.array([theta])})
    law = "exact" if engine.is_exact else "clt"
    return _fields(name, theta, epsilon, float(matrices[0, 0, 0]), engine.method, law)


def _formula(name: str, theta: float, epsilon: float, moments: Moments, n: int, noise: float) -> Row:
    slope, variance, variance_slope = moments
    total = variance / n + noise
    value = slope**2 / total + 0.5 * (variance_slope / n / total) ** 2
    return _fields(name, theta, epsilon, value, "formula", "clt")


def _fields(name: str, theta: float, epsilon: float, value: float, method: str, law: str) -> Row:
    return {
        "statistic": name,
        "theta": theta,
        "epsilon": epsilon,
        "information": value,
        "method": method,
        "likelihood": law,
    }


def curve(rows: Rows, **fields: Any) -> tuple[Array, Array]:
    """theta and information of the rows with these fields."""
    mine = [row for row in rows if all(row[name] == value for name, value in fields.items())]
    return np.array([row["theta"] for row in mine]), np.array([row["information"] for row in mine])


def draw(figure: Figure, rows: Rows) -> None:
    """A panel an example and epsilon: lines by the statistic's own law, dots by the formula."""
    panels = list(dict.fromkeys((row["example"], row["epsilon"]) for row in rows))
    across = min(4, len(panels))
    figure.set_size_inches(4 * across, 3 * math.ceil(len(panels) / across))
    for place, (example, epsilon) in enumerate(panels):
        axes = figure.add_subplot(math.ceil(len(panels) / across), across, place + 1)
        here = [row for row in rows if (row["example"], row["epsilon"]) == (example, epsilon)]
        for name in dict.fromkeys(row["statistic"] for row in here):
            drawn = axes.plot(*curve(here, statistic=name, likelihood="exact"), label=name)[0]
            axes.plot(*curve(here, statistic=name, method="formula"), ".", color=drawn.get_color())
        axes.set(yscale="log", xlabel="θ", title=f"Example {example}, ε = {epsilon:g}")
        axes.legend(fontsize="x-small")
    figure.supylabel("Fisher information")


def note(rows: Rows) -> str:
    """How far the three ways to compute are apart."""
    found: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in rows:
        kind = "formula" if row["method"] == "formula" else row["likelihood"]
        if not row["method"].startswith("monte"):
            key = tuple(row[name] for name in ("example", "statistic", "theta", "epsilon"))
            found.setdefault(key, {})[kind] = row["information"]
    both = [v for v in found.values() if {"clt", "exact"} <= v.keys()]
    most = max((v["clt"] / v["exact"] for v in both), default=1.0)
    return (
        f"The central limit theorem promises up to {100 * (most - 1):.0f} % more than the statistic's own law holds. "
        "`formula` also lets records leave their bounds. Among powers a >= 1 the paper compares, |x| tells most of a "
        "normal variance under privacy; smaller powers tell far more. epsilon = inf means no privacy."
    )


STUDY = Study(
    name="fisher",
    about="How much a noisy statistic tells: the paper's four examples, by formula and exactly.",
    source="Alparslan & Yıldırım (2022), Figures 1-4",
    settings={
        "example": Setting(int, (1, 2, 3, 4), "which of the paper's examples", at_least=1),
        "n": Setting(int, 100, "records", at_least=2),
        "bound": Setting(float, None, "records are clamped to it; null: 10 in Example 1, 100 in 2 and 3", above=0),
        "theta": Setting(float, (), "parameter values; null: each example's own", above=0),
        "epsilon": Setting(
            float, (), "null: 1 and inf, more in Example 4; inf: no privacy", above=0, may_be_infinite=True
        ),
        "exponent": Setting(float, (), "of the powers; null: each example's own", above=0),
        "mechanism": Setting(str, "gaussian", "the noise", choices=MECHANISMS),
        "repeats": Setting(int, 0, "draws of the published Monte Carlo; 0: none", full=2000, at_least=0),
    },
    columns=("example", "statistic", "exponent", "theta", "epsilon", "information", "method", "likelihood"),
    measure=measure,
    draw=draw,
    note=note,
)
