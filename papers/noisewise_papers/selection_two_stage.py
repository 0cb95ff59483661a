"""selection-two-stage: spend a few records on learning which statistic to share, the rest on sharing it.

Records X ~ Unif(-theta, theta) in [-bound, bound], n of them (Alparslan 2023, section 6.5, Figure 6.5).
    fixed       all n records: the mean of |x|, under epsilon
    two-stage   the `first` records: the mean of |x|, under epsilon; then, among exponents a, the one of least
                    E[1 / F_a(theta) | y_0],
                F_a the Fisher information of the rest's noisy mean of |x|^a; the rest: that mean, under epsilon; then
                the posterior given both
The parts hold different people, so both ways cost epsilon. The estimate is the posterior mean under a flat prior on
(0, bound); both ways see the same records and standard noise. Which exponent is best depends on theta / bound: where
records lie far below the bound, a small power suffers less from noise that must hide values up to the bound.

Only |x| matters, and |X| ~ Unif(0, theta): the plans speak of x in [0, bound]. Likelihood and information are those of
the central limit theorem, as in the thesis; the average over the first posterior is an integral over its grid where
the thesis averages draws. `chosen_exponent` is the median over repeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise.design.information import information_rows
from noisewise.errors import InvalidArgument
from noisewise.planning import Plan
from noisewise.populations.parameters import Array
from noisewise.populations.population import Population, Uniform
from noisewise.schema import Bounded, Schema
from noisewise.statistics import Mean, column
from noisewise_papers.selection import MECHANISMS, Grid, NoisySum, first_part, planned, standard_noise
from noisewise_papers.setting import Setting
from noisewise_papers.study import Row, Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIXED = 1.0  # the exponent of the fixed statistic and of the first part
EXPONENTS = tuple(k / 10 for k in range(1, 21))
PIECE = 1000  # repeats at once


def measure(setup: Setup) -> Rows:
    """Two rows a true theta."""
    if not setup["first"] < setup["n"]:
        raise InvalidArgument("first must be less than n: the rest of the records is what is shared.", argument="first")
    if max(setup["theta"]) > setup["bound"]:
        raise InvalidArgument("theta must not exceed the bound: the records are said to lie within.", argument="theta")
    problem = Problem.of(setup.settings)
    points = [(problem, theta, setup.settings) for theta in setup["theta"]]
    found = setup.map(rows_at, points, "widths")
    return [row for rows in found for row in rows]


def rows_at(rng: np.random.Generator, point: tuple[Problem, float, Mapping[str, Any]]) -> list[Row]:
    """Both ways at one true theta."""
    problem, theta, settings = point
    repeats, n, first = (settings[name] for name in ("repeats", "n", "first"))
    fixed, staged, chosen = [], [], []
    for start in range(0, repeats, PIECE):
        count = min(PIECE, repeats - start)
        records = theta * rng.random((count, n))
        noise = standard_noise(rng, settings["mechanism"], (2, count))
        fixed.append(problem.estimate_fixed(records, noise[1]))
        estimates, exponents = problem.estimate_in_two_stages(records[:, :first], records[:, first:], noise)
        staged.append(estimates)
        chosen.append(exponents)
    return [
        _row(theta, "fixed", np.concatenate(fixed), FIXED),
        _row(theta, "two-stage", np.concatenate(staged), float(np.median(np.concatenate(chosen)))),
    ]


@dataclass(frozen=True, slots=True)
class Problem:
    """The noisy sums that may be released, on one grid of theta, and what each choice for the rest would leave."""

    grid: Grid
    whole: NoisySum
    first: NoisySum
    rest: tuple[NoisySum, ...]
    variance_left: Array  # (E, G): 1 / F of the rest's release, a row an exponent

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Problem:
        n, bound = settings["n"], settings["bound"]
        grid, population = Grid.of(bound, n), width_population(bound)
        start, end = first_part(settings["first"], n)

        def summed(exponent: float, part: Any) -> NoisySum:
            return NoisySum.of(power_plan(settings, exponent, part), population, grid.theta, exponent)

        left = [
            1 / information_rows(power_plan(settings, a, end), population, {"width": grid.theta}, likelihood="clt")[0]
            for a in settings["exponent"]
        ]
        rest = tuple(summed(exponent, end) for exponent in settings["exponent"])
        return cls(grid, summed(FIXED, None), summed(FIXED, start), rest, np.stack(left)[:, :, 0, 0])

    def estimate_fixed(self, records: Array, noise: Array) -> Array:
        """E[theta | y] from one release of all records."""
        return self.grid.means(self.whole.log_likelihood(self.whole.released(records, noise)))

    def estimate_in_two_stages(self, first: Array, rest: Array, noise: Array) -> tuple[Array, Array]:
        """E[theta | y_0, y_1], and the exponent chosen for y_1, for every data set."""
        log_likelihood = self.first.log_likelihood(self.first.released(first, noise[0]))
        best = np.argmin(self.variance_left @ self.grid.weights(log_likelihood), axis=0)
        for index in np.unique(best):
            mine, model = best == index, self.rest[index]
            log_likelihood[:, mine] += model.log_likelihood(model.released(rest[mine], noise[1, mine]))
        return self.grid.means(log_likelihood), np.array([model.exponent for model in self.rest])[best]


def width_population(bound: float) -> Population:
    """|X| for X ~ Unif(-theta, theta), theta anywhere below the bound."""
    from scipy import stats

    return Uniform(low=0, width=stats.uniform(0, bound))


def power_plan(settings: Mapping[str, Any], exponent: float, part: Any) -> Plan:
    """The mean of |x|^exponent over a part of the records."""
    schema = Schema({"x": Bounded(0, settings["bound"])}, n=settings["n"], neighbours="change-one")
    x = column("x")
    feature = x if exponent == 1 else x**exponent
    return planned(Mean(feature), schema, settings["mechanism"], settings["epsilon"], part=part)


def _row(theta: float, method: str, estimates: Array, exponent: float) -> Row:
    mse = float(np.mean(np.square(estimates - theta)))
    return {"theta": theta, "method": method, "mse": mse, "chosen_exponent": exponent}


def averages(rows: Rows) -> dict[str, float]:
    """The mean squared error of each way, averaged over theta."""
    return {
        method: float(np.mean([row["mse"] for row in rows if row["method"] == method]))
        for method in ("fixed", "two-stage")
    }


def draw(figure: Figure, rows: Rows) -> None:
    """Error of both ways, and the exponent chosen, against theta."""
    left, right = figure.subplots(1, 2)
    for method in dict.fromkeys(row["method"] for row in rows):
        line = [row for row in rows if row["method"] == method]
        theta = [row["theta"] for row in line]
        left.plot(theta, [row["mse"] for row in line], marker="o", label=method)
        right.plot(theta, [row["chosen_exponent"] for row in line], marker="o", label=method)
    left.set(xlabel="θ", ylabel="mean squared error of E[θ | y]", ylim=(0, None))
    right.set(xlabel="θ", ylabel="exponent (median)", ylim=(0, None))
    left.legend()


def note(rows: Rows) -> str:
    """Which way is better on average."""
    error = averages(rows)
    ratio = error["fixed"] / error["two-stage"]
    verdict = f"{ratio:.2f} times smaller" if ratio > 1 else f"{1 / ratio:.2f} times larger"
    return (
        f"Averaged over theta the error in two stages is {verdict} ({error['two-stage']:.4g} against "
        f"{error['fixed']:.4g}). Two stages pay where records lie far below the bound. Where they reach it, the first "
        "part is mostly spent: --set bound=1 --set epsilon=0.5 shows it."
    )


STUDY = Study(
    name="selection-two-stage",
    about="Choosing the statistic after a first part of the records, or keeping mean |x|.",
    source="Alparslan (2023), Figure 6.5",
    settings={
        "n": Setting(int, 100, "records", at_least=2),
        "first": Setting(int, 10, "of them in the first part", at_least=1),
        "bound": Setting(float, 10.0, "records lie in [-bound, bound]", above=0),
        "theta": Setting(float, EXPONENTS[:10], "the true half widths", above=0),
        "epsilon": Setting(
            float,
            1.0,
            "of epsilon-DP (laplace) or epsilon-GDP (gaussian); inf: no privacy",
            above=0,
            may_be_infinite=True,
        ),
        "exponent": Setting(float, EXPONENTS, "the candidates are means of |x|^exponent", above=0),
        "mechanism": Setting(str, "laplace", "the noise", choices=MECHANISMS),
        "repeats": Setting(int, 1000, "data sets at each theta", full=15_000, at_least=1),
    },
    columns=("theta", "method", "mse", "chosen_exponent"),
    measure=measure,
    draw=draw,
    note=note,
)
