"""regression-cirrhosis: do predictions from a private regression cover what they claim, on real records?

Wine (or liquor) drunk in 46 states against deaths by cirrhosis: 36 rows make a release, the 10 others are predicted.
Public bounds of both columns become 0 and 1, so that rows lie in [0, 1]^2 (Bernstein 2020, thesis, section 5.3.3):
    sigma^2 ~ InverseGamma(20, 1/2),    theta | sigma^2 ~ N((0, 1), 4 sigma^2 I)    (intercept, slope)
    a test row (x, y) is covered at level p if y lies between the (1 - p)/2 and (1 + p)/2 points of its predictive law.
The thesis shows the coverage at 50 and 90 % over 100 splits (Figure 5.9), names neither its epsilon nor which drink,
and scales by the data's own extremes, which is not private. Without the data, 46 rows like them are simulated.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.planning import Plan, plan
from noisewise.privacy.guarantee import PureDP
from noisewise.regression.model import LinearRegression
from noisewise.regression.prediction import mixture_quantile
from noisewise.regression.priors import NormalInverseGamma
from noisewise.regression.problem import Floats
from noisewise.schema import Bounded, Schema
from noisewise.statistics import Moments
from noisewise_papers.regression import WITHOUT_EXTRA, Fitted, RemarkedRows, fitted, release_of, seed_for
from noisewise_papers.setting import Setting
from noisewise_papers.study import Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILE = "cirrhosis.csv"
WHERE = "people.sc.fsu.edu/~jburkardt/datasets/regression/x20.txt"
COLUMNS = "index,one,urban_pct,late_births_recip100,wine,liquor,cirrhosis"
BOUNDS = {"wine": (0.0, 35.0), "liquor": (0.0, 150.0), "cirrhosis": (20.0, 140.0)}  # round, public, met by every state
TRAINING, ROWS = 36, 46
LEVELS = (0.5, 0.9)
CHOICES = tuple(method for method in WITHOUT_EXTRA if method != "fixed-s-fast")  # it has no sigma^2
SHOWN = ("auto", "gibbs-update", "gibbs-noisy", "naive", "non-private")


class Split(NamedTuple):
    """36 rows to learn from and 10 to predict, in [0, 1]^2, and who does it."""

    training: Floats
    test: Floats
    methods: tuple[str, ...]
    epsilon: float
    iterations: int


def measure(setup: Setup) -> Rows:
    """One row a method and level."""
    drink, methods = setup["covariate"], setup["method"]
    rows, remark = records(setup.data, drink, setup.rng("stand-in"))
    shuffled = [setup.rng("splits", k).permutation(rows) for k in range(setup["splits"])]
    splits = [Split(order[:TRAINING], order[TRAINING:], methods, setup["epsilon"], setup["iterations"])
              for order in shuffled]  # fmt: skip
    found = setup.map(covered, splits, "splits")
    return RemarkedRows(
        (
            {"method": method, "level": level, "coverage": float(np.mean([each[method, level] for each in found]))}
            for method in methods
            for level in LEVELS
        ),
        remark,
    )


def records(folder: Path | None, drink: str, rng: np.random.Generator) -> tuple[Floats, str]:
    """(x, y) of the 46 states in [0, 1]^2, and where they come from."""
    if folder is None or not (folder / FILE).is_file():
        x = np.clip(rng.gamma(2.5, 0.12, ROWS), 0, 1)
        y = np.clip(0.1 + 0.85 * x + 0.1 * rng.standard_normal(ROWS), 0, 1)
        return np.column_stack([x, y]), (
            f"These are simulated rows. For the real ones download {WHERE}, write it as {FILE} with the header "
            f"{COLUMNS}, and name its folder by --data."
        )
    table = np.genfromtxt(folder / FILE, delimiter=",", names=True)
    if table.dtype.names is None or not {drink, "cirrhosis"} <= set(table.dtype.names) or table.shape != (ROWS,):
        raise InvalidArgument(f"{FILE} must have {ROWS} rows and the header {COLUMNS}.", argument="data")
    ends = {name: BOUNDS[name] for name in (drink, "cirrhosis")}
    scaled = np.column_stack([(table[name] - low) / (high - low) for name, (low, high) in ends.items()])
    if not (np.all(scaled >= 0) and np.all(scaled <= 1)):  # also where a number is missing
        raise InvalidArgument(f"{FILE} holds numbers that are missing or out of bounds.", argument="data")
    return scaled, f"Real records: {drink} and cirrhosis in {ROWS} states."


def model_of() -> LinearRegression:
    return LinearRegression("x", "y", prior=NormalInverseGamma([0, 1], 0.25, 20, 0.5))


def planned(epsilon: float, *, fourth: bool) -> Plan:
    schema = Schema({"x": Bounded(0, 1), "y": Bounded(0, 1)}, n=TRAINING, neighbours="change-one", outside="refuse")
    return plan(Moments("x", "y", fourth=fourth), schema, guarantee=PureDP(epsilon))


def covered(rng: np.random.Generator, split: Split) -> dict[tuple[str, float], float]:
    """The share of test rows within their predictive intervals, by method and level."""
    model, base = model_of(), int(rng.integers(2**62))
    found = {}
    for method in split.methods:
        fourth = method == "gibbs-noisy"
        noise = np.random.default_rng([base, fourth])
        releases = [] if method == "non-private" else [release_of(noise, planned(split.epsilon, fourth=fourth),
                                                                  split.training)]  # fmt: skip
        fit = fitted(method, releases, split.training, model, seed=seed_for(base, method), iterations=split.iterations)
        for level in LEVELS:
            low, high = predictive_interval(fit, split.test[:, :1], level)
            found[method, level] = float(np.mean((low <= split.test[:, 1]) & (split.test[:, 1] <= high)))
    return found


def predictive_interval(fit: Fitted, x: Floats, level: float) -> tuple[Floats, Floats]:
    """The central interval of a new response at each row of x."""
    lines, sd = fit.lines(x), np.sqrt(fit.joint[:, -1:])
    return mixture_quantile(lines, sd, (1 - level) / 2), mixture_quantile(lines, sd, (1 + level) / 2)


def draw(figure: Figure, rows: Rows) -> None:
    """Bars of coverage, one group a level (Figure 5.9)."""
    axes = figure.subplots()
    methods, levels = (list(dict.fromkeys(row[name] for row in rows)) for name in ("method", "level"))
    width = 0.8 / len(methods)
    for k, method in enumerate(methods):
        bars = [next(r["coverage"] for r in rows if (r["method"], r["level"]) == (method, p)) for p in levels]
        axes.bar([j + (k + 0.5) * width - 0.4 for j in range(len(levels))], bars, 0.9 * width, label=method)
    for j, level in enumerate(levels):
        axes.hlines(level, j - 0.45, j + 0.45, color="0.3", lw=1)
    axes.set(xticks=range(len(levels)), xticklabels=[f"{100 * p:g} % intervals" for p in levels], ylim=(0, 1.12),
             ylabel="share of test rows covered")  # fmt: skip
    axes.legend(frameon=False, fontsize="small", ncols=len(methods), loc="upper left")


def note(rows: Rows) -> str:
    """Our coverage beside the figure's."""
    lines = [
        "In print (figure only): non-private is near 50 and 90 %, gibbs-noisy nearly as near, naive drastically lower."
    ]
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = " and ".join(f"{100 * row['coverage']:.0f} %" for row in rows if row["method"] == method)
        lines.append(f"Here {method} covers {mine}.")
    return " ".join([*lines, getattr(rows, "remark", "")]).strip()


STUDY = Study(
    name="regression-cirrhosis",
    about="Whose predictions of cirrhosis rates from a private regression cover what they claim.",
    source="Bernstein (2020, thesis), Figure 5.9; Bernstein & Sheldon (2019)",
    settings={
        "epsilon": Setting(float, 1.0, "the privacy of the release", above=0),
        "splits": Setting(int, 30, "random splits into 36 and 10 rows", full=100, at_least=2),
        "covariate": Setting(str, "wine", "what is drunk: wine or liquor", choices=("wine", "liquor")),
        "method": Setting(str, SHOWN, "who infers", full=CHOICES, choices=CHOICES),
        "iterations": Setting(int, 3000, "of each of 4 chains of a slow sampler, after as many", full=5000,
                              at_least=100),
    },
    columns=("method", "level", "coverage"),
    measure=measure,
    draw=draw,
    note=note,
)  # fmt: skip
