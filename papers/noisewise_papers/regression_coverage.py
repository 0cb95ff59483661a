"""regression-coverage: do intervals of coefficients hold with covariates as real records have them?

Linear, logistic and Poisson regressions on covariates that are normal, yes/no (20 % yes), of three levels, uniform,
gamma with shape 4, log-normal through their logarithm, or mixed (three numbers, two yes/no), at three numbers of
records, with Gaussian noise and with Laplace noise: 126 cells. In every trial coefficients are drawn from their prior,
records from these, one release of Moments from the records, and a posterior from the release. What the model takes the
covariates to be:
    right    what they are: yes/no features as such, and for logistic and Poisson regressions a stated population of
             uniform and gamma numbers
    wrong    normal, whatever they are (yes/no ones as numbers)
With 400 trials a cell, 90 % intervals of a right posterior hold the truth in .827 to .973 of them (at the 1e-6 level).
One coefficient for each trial, drawn at random, is counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noisewise.evaluate.coverage import Coverage
from noisewise.evaluate.discrepancy import uniformity
from noisewise.inference.infer import infer
from noisewise.laws import additive_law, normal_mixture
from noisewise.planning import Plan, plan
from noisewise.populations.text import Written, population_from_text
from noisewise.privacy.guarantee import guarantee_from_dict
from noisewise.release import Release
from noisewise.schema import Bounded, Levels, Schema
from noisewise.statistics import statistic
from noisewise.statistics.feature import Feature, column
from noisewise.types import Floats
from noisewise_papers.setting import Setting
from noisewise_papers.study import Row, Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAMILIES = ("linear", "logistic", "poisson")
LAWS = ("normal", "yes-no", "levels", "uniform", "gamma", "log-normal", "mixed")
SIZES = {1000: 2.0, 10_000: 5.0, 100: 10.0}  # records, and mu or epsilon
NOISES, TAKEN = ("gaussian", "laplace"), ("right", "wrong")
RANKED, DRAWS = 99, 250
CAP, COUNT_SD, FAR = 20, 0.4, 1e6
BATCH = 4
STATED = {"uniform": "uniform(low=-1.7320508, high=1.7320508)", "gamma": "gamma(shape=4, rate=2)"}


@dataclass(frozen=True, slots=True)
class Cell:
    """One world: the response, the covariates, how many records, the noise, and what covariates are taken to be."""

    family: str
    law: str
    n: int
    noise: str
    taken: str

    @property
    def is_wrong(self) -> bool:
        return self.taken == "wrong"

    @property
    def names(self) -> tuple[str, ...]:
        return {"levels": ("c",), "mixed": ("x1", "x2", "x3", "b1", "b2")}.get(self.law, ("x",))

    @property
    def features(self) -> list[Feature]:
        """As they are released; taken to be normal, a yes/no column is a number."""
        if self.law == "levels":
            return [column("c").equals("one"), column("c").equals("two")]
        own = [column(name) for name in self.names]
        if self.law == "log-normal" and not self.is_wrong:
            own = [column("x").log()]
        is_yes_no = {"yes-no": [True], "mixed": [False, False, False, True, True]}.get(self.law, [False])
        return [
            each.equals(1) if yes_no and not self.is_wrong else each
            for each, yes_no in zip(own, is_yes_no, strict=True)
        ]

    @property
    def columns(self) -> dict[str, Bounded | Levels]:
        yes_no: Bounded | Levels = Bounded(-4, 5) if self.is_wrong else Levels([0, 1])
        bounds: dict[str, Bounded | Levels] = {
            "x": {"gamma": Bounded(-6, 14), "log-normal": Bounded(math.exp(-6), math.exp(6))}.get(
                self.law, yes_no if self.law == "yes-no" else Bounded(-6, 6)
            ),
            "c": Levels(["one", "two", "three"]),
            "b1": yes_no,
            "b2": yes_no,
        }
        return {name: bounds.get(name, Bounded(-6, 6)) for name in self.names} | {"y": self.response_column}

    @property
    def response_column(self) -> Bounded | Levels:
        if self.family == "logistic":
            return Levels([0, 1])
        return Bounded(-40, 40) if self.family == "linear" else Bounded(0, CAP)

    @property
    def response(self) -> Feature:
        return column("y").equals(1) if self.family == "logistic" else column("y")

    @property
    def plan(self) -> Plan:
        """Moments with a public centre and scale of numbers."""
        schema = Schema(self.columns, n=self.n, neighbours="change-one")
        scale = ", scale={y: 3}" if self.family == "linear" else ""
        centre = ", centre={x: 2}" if self.law == "gamma" else ""
        kind, number = ("gaussian-dp", "mu") if self.noise == "gaussian" else ("pure-dp", "epsilon")
        guarantee = guarantee_from_dict({"kind": kind, number: f"{SIZES[self.n]:g}"})
        features = ", ".join(map(str, self.features))
        return plan(statistic(f"moments([{features}], {self.response}{centre}{scale})"), schema, guarantee=guarantee)

    @property
    def sd(self) -> float:
        """Of a coefficient."""
        return COUNT_SD if self.family == "poisson" else 1.0

    @property
    def model(self) -> Written:
        """The regression that is fitted."""
        named = {"features": [str(feature) for feature in self.features], "response": str(self.response)}
        text = ", ".join(f"{name}={value!r}" for name, value in named.items())
        text += f", coefficients=norm(0, {self.sd})"
        if self.family == "linear":
            text += ", noise=invgamma(3, scale=2)"
        elif self.law in STATED and not self.is_wrong:
            text += f", covariates={{'x': {STATED[self.law]!r}}}"
        return population_from_text(f"{self.family}_regression({text})")

    @property
    def coefficients(self) -> tuple[str, ...]:
        """By name."""
        return ("intercept", *map(str, self.features))

    def records(self, rng: np.random.Generator) -> tuple[Floats, dict[str, Floats]]:
        """Coefficients from their prior, and columns of records (levels by their codes) that follow them."""
        n, root = self.n, math.sqrt(3)
        numbers: dict[str, Floats] = {
            "normal": rng.standard_normal(n),
            "uniform": rng.uniform(-root, root, n),
            "gamma": rng.gamma(4, 0.5, n),
            "log-normal": np.exp(rng.standard_normal(n)),
            "yes-no": (rng.random(n) < 0.2).astype(float),
        }
        x = numbers.get(self.law, np.zeros(n))
        columns: dict[str, Floats] = {"x": x}
        if self.law == "levels":
            code = rng.choice(3, n, p=[0.5, 0.3, 0.2]).astype(float)
            columns, design = {"c": code}, np.column_stack([code == 0, code == 1]).astype(float)
        elif self.law == "mixed":
            b = (rng.random((n, 2)) < [0.2, 0.4]).astype(float)
            z = rng.standard_normal((n, 3)) @ np.array([[1, 0.3, 0], [0, 1, 0.2], [0, 0, 1]]) + 0.5 * b[:, :1]
            design = np.column_stack([z, b])
            columns = dict(zip(self.names, design.T, strict=True))
        else:
            design = (np.log(x) if self.law == "log-normal" and not self.is_wrong else x)[:, None]
        beta = self.sd * rng.standard_normal(1 + design.shape[1])
        s = beta[0] + design @ beta[1:]
        if self.family == "linear":
            y = s + rng.standard_normal(n) * rng.standard_gamma(3) ** -0.5 * math.sqrt(2)
        elif self.family == "logistic":
            y = (rng.random(n) < 1 / (1 + np.exp(-s))).astype(float)
        else:
            y = np.minimum(rng.poisson(np.minimum(np.exp(np.minimum(s, 30.0)), FAR)), CAP).astype(float)
        return beta, columns | {"y": y}

    def trial(self, rng: np.random.Generator) -> tuple[float, bool]:
        """Where the truth lies among the draws of one coefficient, and whether the verdict warned."""
        beta, columns = self.records(rng)
        release = simulated_release(rng, self.plan, columns)
        found = infer(release, self.model, seed=int(rng.integers(2**31)), draws=DRAWS, warmup=DRAWS, progress=False)
        k = int(rng.integers(len(beta)))
        draws = np.asarray(found.draws[self.coefficients[k]]).ravel()
        some = rng.choice(draws, RANKED, replace=False)
        return float((np.sum(some < beta[k]) + rng.random()) / (RANKED + 1)), bool(found.verdict.warnings)


def simulated_release(rng: np.random.Generator, made: Plan, columns: dict[str, Floats]) -> Release:
    """A release of simulated records, with simulated noise."""
    law = additive_law(made.law)
    value = np.asarray(made.statistic.value(columns, made.part_schema), float).ravel()
    laplace = normal_mixture(law).laplace_scale
    noise = rng.laplace(0, laplace) if laplace is not None else rng.normal(0, law.sd)
    steps = [int(step) for step in np.round((value + noise) / np.array(law.step))]
    name = f"simulated-{int(rng.integers(2**62))}"
    return Release.of(made, steps, dataset=name, ledger_head=None, simulated=True)


def cells_of(setup: Setup) -> list[Cell]:
    """All that are asked for; the law of a linear regression's covariates is its own."""
    return [
        Cell(family, law, int(n), noise, taken)
        for family in setup["family"]
        for law in setup["law"]
        for n in setup["n"]
        for noise in setup["noise"]
        for taken in setup["taken"]
        if not (taken == "wrong" and law in ("normal", "levels", "mixed"))
    ]


def measure(setup: Setup) -> Rows:
    """One row for each cell."""
    trials = setup["trials"]
    batches = [(cell, min(BATCH, trials - done)) for cell in cells_of(setup) for done in range(0, trials, BATCH)]
    found = setup.map(some_trials, batches, "trials")
    gathered: dict[Cell, list[tuple[float, bool]]] = {}
    for (cell, _), each in zip(batches, found, strict=True):
        gathered.setdefault(cell, []).extend(each)
    return [row_of(cell, each) for cell, each in gathered.items()]


def some_trials(rng: np.random.Generator, batch: tuple[Cell, int]) -> list[tuple[float, bool]]:
    cell, count = batch
    return [cell.trial(rng) for _ in range(count)]


def row_of(cell: Cell, trials: list[tuple[float, bool]]) -> Row:
    """Coverage, the p-value of uniform ranks, and how often the verdict warned."""
    u = np.array([rank for rank, _ in trials])
    covered = Coverage(0.9, int(np.sum(np.abs(u - 0.5) <= 0.45)), u.size)
    return {
        "family": cell.family,
        "law": cell.law,
        "taken": cell.taken,
        "n": cell.n,
        "noise": cell.noise,
        "coverage90": covered.share,
        "p_value": covered.p_value,
        "ks_p": uniformity(u).p_value,
        "warned": float(np.mean([warned for _, warned in trials])),
        "trials": u.size,
    }


def draw(figure: Figure, rows: Rows) -> None:
    """Coverage of 90 % intervals by law, one panel for each family."""
    families = list(dict.fromkeys(row["family"] for row in rows))
    panels = figure.subplots(1, len(families), squeeze=False, sharey=True)[0]
    for axes, family in zip(panels, families, strict=True):
        mine = [row for row in rows if row["family"] == family]
        laws = list(dict.fromkeys(row["law"] for row in mine))
        for k, taken in enumerate(dict.fromkeys(row["taken"] for row in mine)):
            own = [row for row in mine if row["taken"] == taken]
            places = [laws.index(row["law"]) for row in own]
            axes.plot(places, [row["coverage90"] for row in own], "o", color=f"C{k}", label=taken, alpha=0.7)
        axes.axhline(0.9, color="0.6", zorder=0)
        axes.set_xticks(range(len(laws)), laws, rotation=40, ha="right")
        axes.set(title=family)
    panels[0].set_ylabel("share of 90 % intervals that hold the truth")
    panels[0].legend(fontsize="small", title="covariates are taken to be")


def note(rows: Rows) -> str:
    """How far each way of taking the covariates is from what it claims."""
    said = []
    for taken in dict.fromkeys(row["taken"] for row in rows):
        mine = [row for row in rows if row["taken"] == taken]
        held = sum(row["coverage90"] * row["trials"] for row in mine) / sum(row["trials"] for row in mine)
        outside = sum(row["p_value"] < 1e-6 for row in mine)
        said.append(
            f"{taken}: 90 % intervals hold the truth in {held:.3f} of {sum(row['trials'] for row in mine)} trials; "
            f"{outside} of {len(mine)} cells are outside the band of the 1e-6 level."
        )
    return " ".join(said)


STUDY = Study(
    name="regression-coverage",
    about="Whether intervals of coefficients hold with yes/no, uniform, skew and mixed covariates.",
    source="own; simulation-based calibration",
    settings={
        "family": Setting(str, ("linear", "logistic"), "the regression", full=FAMILIES, choices=FAMILIES),
        "law": Setting(str, ("yes-no",), "the covariates", full=LAWS, choices=LAWS),
        "n": Setting(str, ("1000",), "records", full=tuple(map(str, SIZES)), choices=tuple(map(str, SIZES))),
        "noise": Setting(str, ("gaussian",), "the noise", full=NOISES, choices=NOISES),
        "taken": Setting(str, ("right",), "what covariates are taken to be", choices=TAKEN),
        "trials": Setting(int, 8, "trials of each cell", full=400, at_least=1),
    },
    columns=("family", "law", "taken", "n", "noise", "coverage90", "p_value", "ks_p", "warned", "trials"),
    measure=measure,
    draw=draw,
    note=note,
)
