"""graphical-mobility: a chain of places learned from people's days, judged by days it has not seen.

After Bernstein (2020, thesis, section 3.3.4, Figure 3.6), whose wifi connections in an academic building are not
public. The days here are simulated to look like them: `hours` columns that say where somebody is in each hour, one of
`places` access points or "off". Most hours are off. Somebody comes at a random hour, of these or of as many before (one
in ten never), goes to a place by its popularity, and each hour stays (chance 0.5), goes next door (0.12), goes anywhere
by popularity (0.08), drops out for the hour (0.05) or goes home for the day (0.25). So a day is *not* a chain with the
same step at every hour, as real ones are not; the model is, and what is measured is how well it can be learned.

The model is time-homogeneous: one table of potentials for all steps, and one for the first hour. Nine people in ten are
in one tied table of all steps, in which each weighs 1 in all, so the sensitivity is 2 (change-one), however long the
day; the tenth is in a histogram of the first hour. These are disjoint parts, so each may have all of epsilon. With
`empty=left-out` steps from off to off are not counted and a person's weight is shared among the others, as in print:
the mass is then where people move, and people with few steps weigh more. `counted` keeps them.

`loglik` is the mean log-likelihood of a held-out person's day (a quarter of all people, as in print), averaged over
`seeds` worlds, and `loglik_se` its standard error (null where the noise leaves too little of the table to be learned
from); `n` is the number of people learned from. Methods are those of
`graphical_worlds`; dp-sgd has (epsilon, 1/n)-DP, and its constants are chosen on the held-out people, as in print.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noisewise.errors import Unsupported
from noisewise.graphical import empirical_bayes
from noisewise.graphical.engine import Floats, Ints, JunctionEngine
from noisewise.graphical.model import GraphicalModel
from noisewise.graphical.problem import Problem
from noisewise.likelihood.simulate import noisy_values
from noisewise.published.baselines.dp_sgd import dp_sgd
from noisewise.published.baselines.non_private_graphical import non_private_graphical
from noisewise.published.graphical import collective, naive
from noisewise.release import Release
from noisewise.statistics import Histogram, Marginals
from noisewise_papers.graphical_worlds import (
    BATCH,
    MECHANISMS,
    NEIGHBOURS,
    colour,
    counted,
    posterior_tables,
    tables_plan,
)
from noisewise_papers.setting import Setting
from noisewise_papers.study import Row, Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECORDS = ("dp-sgd", "non-private")  # read records
METHODS = ("naive", "collective", "map", "posterior", *RECORDS)
OFF, EMPTY = "off", ("counted", "left-out")
HELD_OUT, STEPS = 0.25, Fraction(9, 10)  # of all people; of those learned from, in the table of steps
NEVER, STAY, NEXT, ANYWHERE, DROP = 0.1, 0.5, 0.12, 0.08, 0.05
GRADIENTS = tuple(itertools.product((100, 400, 1600), (0.05, 0.2, 0.8)))  # steps and learning rates of dp-sgd


class Task(NamedTuple):
    """One world, one release of its people's days at each epsilon."""

    n: int
    settings: dict[str, Any]


def measure(setup: Setup) -> Rows:
    """One row an n, epsilon and method."""
    settings = dict(setup.settings)
    tasks = [Task(n, settings) for n in setup["n"] for _ in range(setup["seeds"])]
    found = setup.map(held_out, tasks, "worlds")
    rows = []
    for k, n in enumerate(setup["n"]):
        some = found[k * setup["seeds"] : (k + 1) * setup["seeds"]]
        rows += [
            row_of(n, *key, [one[key] for one in some]) for key in itertools.product(setup["epsilon"], setup["method"])
        ]
    return rows


def row_of(n: int, epsilon: float, method: str, found: list[float | None]) -> Row:
    """A method's log-likelihoods over the worlds; null if some world's table told too little."""
    known = [value for value in found if value is not None]
    is_known = len(known) == len(found)
    error = float(np.std(known, ddof=1) / np.sqrt(len(known))) if is_known and len(known) > 1 else None
    middle = float(np.mean(known)) if is_known else None
    return {"n": n, "epsilon": epsilon, "method": method, "loglik": middle, "loglik_se": error}


def held_out(rng: np.random.Generator, task: Task) -> dict[tuple[float, str], float | None]:
    """The log-likelihood of unseen days, by epsilon and method."""
    settings, n = task.settings, task.n
    people = days(rng, round(n / (1 - HELD_OUT)), settings["hours"], settings["places"])
    seen, unseen = people[:n], people[n:]
    names = [f"h{hour + 1}" for hour in range(settings["hours"])]
    model = GraphicalModel.chain(names, [OFF, *(f"p{k + 1}" for k in range(settings["places"]))], tied=True)
    plain = Problem(JunctionEngine(model.tables), model.spread, ())
    tables = counted(plain.engine.tables, unseen) / len(unseen)

    def score(theta: Floats) -> float:
        potentials = plain.potentials(theta)
        return float(potentials @ tables - plain.engine.marginals(potentials)[0])

    found: dict[tuple[float, str], float | None] = {}
    for epsilon in settings["epsilon"]:
        releases, sizes = releases_of(rng, model, seen, epsilon, settings)
        try:
            problem = model.problem(releases, n=sizes if settings["neighbours"] == "add-remove" else None)
        except Unsupported:  # the noise leaves too little of the table
            problem = None
        for method in settings["method"]:
            given = plain if method in RECORDS else problem
            fits = [] if given is None else fitted(rng, method, given, seen, epsilon, settings["draws"])
            found[epsilon, method] = max(map(score, fits), default=None)
    return found


def days(rng: np.random.Generator, count: int, hours: int, places: int) -> Ints:
    """People's days (count, hours): 0 is off, 1 to `places` an access point."""
    popularity = rng.dirichlet(np.ones(places))
    arrival = np.where(rng.random(count) < NEVER, hours, rng.integers(-hours, hours, size=count))
    at = rng.choice(places, size=count, p=popularity)
    found = np.zeros((count, hours), dtype=np.int64)
    is_there = np.zeros(count, dtype=bool)
    for hour in range(-hours, hours):
        comes = arrival == hour
        step = np.digitize(rng.random(count), np.cumsum([STAY, NEXT, ANYWHERE, DROP]))
        door = (at + rng.choice([-1, 1], size=count)) % places
        anywhere = rng.choice(places, size=count, p=popularity)
        at = np.where(is_there, np.choose(step, [at, door, anywhere, at, at]), at)
        is_there = (is_there & (step < 4)) | comes
        is_seen = is_there & ((step != 3) | comes)
        if hour >= 0:
            found[is_seen, hour] = at[is_seen] + 1
    return found


def releases_of(
    rng: np.random.Generator, model: GraphicalModel, people: Ints, epsilon: float, settings: dict[str, Any]
) -> tuple[list[Release], list[int]]:
    """The tied table of all steps and the histogram of the first hour, with simulated noise, and how many are in it."""
    steps = [clique for clique in model.cliques if len(clique) == 2]
    null = OFF if settings["empty"] == "left-out" else None
    columns = dict(zip(model.columns, model.levels, strict=True))
    name = f"simulated-{rng.bytes(8).hex()}"
    releases, sizes, last = [], [], math.floor(STEPS * len(people))
    for statistic, part, some in (
        (Marginals(*steps, tied=True, null=null), (Fraction(0), STEPS), people[:last]),
        (Histogram(model.columns[0]), (STEPS, Fraction(1)), people[last:]),
    ):
        planned = tables_plan(
            statistic, columns, len(people), epsilon, settings["neighbours"], settings["mechanism"], part
        )
        by_column = {name: some[None, :, v].astype(float) for v, name in enumerate(model.columns)}
        value = noisy_values(rng, planned, by_column)[0].tolist()
        releases.append(Release.of(planned, value, dataset=name, ledger_head=None, simulated=True))
        sizes.append(len(some))
    return releases, sizes


def fitted(
    rng: np.random.Generator, method: str, problem: Problem, people: Ints, epsilon: float, draws: int
) -> list[Floats]:
    """What a method finds; several answers where its constants are tuned."""
    n = len(people)
    if method == "naive":
        # The table leaves the step from off to off to the rest, so its potential may be held at 0 without loss.
        return [naive.fit(problem, hold_untold=True).theta]
    if method == "collective":
        return [collective.fit(problem).theta]
    if method == "map":
        return [empirical_bayes.fit(problem).theta]
    if method == "posterior":
        return [posterior_tables(rng, problem, draws)[0]]
    if method == "non-private":
        return [non_private_graphical(problem, counted(problem.engine.tables, people), n=n).theta]
    return [
        dp_sgd(rng, problem, people, epsilon=epsilon, delta=1 / n, steps=steps, learning_rate=rate,
               sampling_rate=min(0.1, BATCH / n)).theta
        for steps, rate in GRADIENTS
    ]  # fmt: skip


def draw(figure: Figure, rows: Rows) -> None:
    """Held-out log-likelihood against epsilon, a panel an n, as in Figure 3.6."""
    sizes = list(dict.fromkeys(row["n"] for row in rows))
    panels = figure.subplots(1, len(sizes), squeeze=False, sharey=True)[0]
    for axes, n in zip(panels, sizes, strict=True):
        for method in dict.fromkeys(row["method"] for row in rows):
            some = sorted((row["epsilon"], row["loglik"], row["loglik_se"] or 0.0)
                          for row in rows
                          if (row["n"], row["method"]) == (n, method) and row["loglik"] is not None)  # fmt: skip
            if not some:
                continue
            epsilon, middle, error = zip(*some, strict=True)
            axes.errorbar(epsilon, middle, yerr=error, marker="o", ms=4, linewidth=1.2, color=colour(method),
                          label=method)  # fmt: skip
        axes.set(xscale="log", xlabel="ε", title=f"{n} people")
    panels[0].set_ylabel("log-likelihood of an unseen day")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize="small")


def note(rows: Rows) -> str:
    """The order of the figure beside ours."""
    said = [
        "In print (a figure) collective is ahead of naive at every epsilon, and both are ahead of dp-sgd. The wifi "
        "data are not public; these days are simulated. dp-sgd has the weaker guarantee (epsilon, 1/n), and its "
        "constants are chosen on the days it is judged by."
    ]
    by_cell: dict[tuple[int, float], dict[str, float]] = {}
    for row in rows:
        if row["loglik"] is None:
            continue
        by_cell.setdefault((row["n"], row["epsilon"]), {})[row["method"]] = row["loglik"]
    for (n, epsilon), found in by_cell.items():
        order = sorted(found, key=lambda method: -found[method])
        shown = ", ".join(f"{method} {found[method]:.3f}" for method in order)
        said.append(f"Here, {n} people at epsilon = {epsilon:g}: {shown}.")
    return " ".join(said)


STUDY = Study(
    name="graphical-mobility",
    about="A time-homogeneous chain of places from one tied table: log-likelihood of unseen days.",
    source="Bernstein (2020, thesis), Figure 3.6",
    settings={
        "n": Setting(int, (5_000,), "people learned from; a third as many are held out", full=(5_000, 93_299),
                     at_least=10),
        "epsilon": Setting(float, (0.1, 1.0), "the privacy of the release", full=(0.01, 0.03, 0.1, 0.3, 1.0), above=0),
        "hours": Setting(int, 12, "columns: hours of a day", full=24, at_least=3),
        "places": Setting(int, 8, "access points, beside off", full=10, at_least=3),
        "seeds": Setting(int, 2, "worlds: popularities, people and noise", full=10, at_least=1),
        "empty": Setting(str, "left-out", "steps from off to off", choices=EMPTY),
        "neighbours": Setting(str, "change-one", "which data sets are neighbours", choices=NEIGHBOURS),
        "mechanism": Setting(str, "laplace", "laplace, geometric: epsilon-DP; gaussian: (epsilon, 1/n)-DP",
                             choices=MECHANISMS),
        "method": Setting(str, METHODS, "who learns", choices=METHODS),
        "draws": Setting(int, 100, "of each of 4 chains of posterior, after as many of warm-up", full=500, at_least=10),
    },
    columns=("n", "epsilon", "method", "loglik", "loglik_se"),
    measure=measure,
    draw=draw,
    note=note,
)  # fmt: skip
