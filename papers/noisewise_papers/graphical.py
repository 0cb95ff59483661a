"""graphical: how well a graphical model is learned from noisy tables of its edges, and whether its intervals hold.

Graphs, truths and methods are those of `graphical_worlds` (Bernstein 2020, thesis, Figures 3.1 to 3.5). In each cell
(graph, n, epsilon) there are `seeds` data sets; the graphs and potentials are the same for every n and epsilon, and all
methods meet the same records and the same release.

    kl            exp(mean of log KL(p_true || p_fit)) over the data sets: a geometric mean, as divergences range over
                  orders of magnitude. Each divergence is exact, by the junction tree
    kl_se         kl times the standard error of the mean of log KL
    coverage90    the share of the cells of all edge tables whose true probability is in its 90 % interval
    seconds       of the processor, for one fit (an oracle: all its tries)

Sensitivity and noise come from a plan of all edge tables: with k edges 2 k under change-one neighbours, k under
add-remove. `dp-sgd` has the weaker guarantee (epsilon, 1/n), for records added or removed, whatever the setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noisewise_papers.graphical_worlds import GRAPHS, LEVEL, MECHANISMS, METHODS, NEIGHBOURS, Case, World, colour
from noisewise_papers.setting import Setting
from noisewise_papers.study import Row, Rows, Setup, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORACLE = "naive-oracle"
PANEL, PANEL_TICKS = (0.5, 4.0), (0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0)  # of divergences over the oracle's
ENOUGH, PLENTY = 5e3, 5e4  # of n epsilon: from here the claims are made, on divergences and on average coverage


class Cell(NamedTuple):
    """One data set of one cell of the grid, and what is asked of it."""

    graph: str
    n: int
    epsilon: float
    world: int  # seeds the graph and its potentials
    settings: dict[str, Any]


Facts = dict[str, tuple[float | None, float | None, float]]  # by method: divergence, coverage, seconds


def measure(setup: Setup) -> Rows:
    """One row a graph, n, epsilon and method."""
    settings = dict(setup.settings)
    bases = setup.rng("graphs").integers(2**62, size=settings["seeds"]).tolist()
    grid = [(graph, n, epsilon) for graph in setup["graph"] for n in setup["n"] for epsilon in setup["epsilon"]]
    cells = [Cell(*place, base, settings) for place in grid for base in bases]
    found = setup.map(facts_of, cells, "data sets")
    rows = []
    for k, (graph, n, epsilon) in enumerate(grid):
        some = found[k * len(bases) : (k + 1) * len(bases)]
        rows += [row_of(graph, n, epsilon, method, [facts[method] for facts in some]) for method in setup["method"]]
    return rows


def facts_of(rng: np.random.Generator, cell: Cell) -> Facts:
    """Every method on the same release."""
    settings = cell.settings
    base = np.random.default_rng([cell.world, GRAPHS.index(cell.graph)])
    world = World.drawn(base, cell.graph, settings["nodes"], settings["states"])
    case = Case.drawn(
        rng, world, cell.n, cell.epsilon, neighbours=settings["neighbours"], mechanism=settings["mechanism"],
        draws=settings["draws"], with_records="dp-sgd" in settings["method"],
    )  # fmt: skip
    _, truth = world.truth
    found: Facts = {}
    for method, own in zip(settings["method"], rng.spawn(len(settings["method"])), strict=True):
        fit = case.fit(own, method)
        divergence = None if fit.theta is None else world.divergence(fit.theta)
        held = None
        if fit.interval is not None:
            low, high = fit.interval
            held = float(np.mean((low <= truth) & (truth <= high)))
        found[method] = divergence, held, fit.seconds
    return found


def row_of(
    graph: str, n: int, epsilon: float, method: str, found: list[tuple[float | None, float | None, float]]
) -> Row:
    """One method over the data sets of a cell."""
    logs = np.log([kl for kl, _, _ in found if kl is not None])
    held = [coverage for _, coverage, _ in found if coverage is not None]
    middle = float(np.exp(np.mean(logs))) if len(logs) else None
    spread = float(np.std(logs, ddof=1) / np.sqrt(len(logs))) if len(logs) > 1 else None
    return {
        "graph": graph,
        "n": n,
        "epsilon": epsilon,
        "method": method,
        "kl": middle,
        "kl_se": None if middle is None or spread is None else middle * spread,
        "coverage90": float(np.mean(held)) if held else None,
        "seconds": float(np.mean([seconds for _, _, seconds in found])),
    }


# ---- what the rows show ----


def cells_of(rows: Rows) -> dict[tuple[str, int, float], dict[str, Row]]:
    """The rows of each cell, by method."""
    cells: dict[tuple[str, int, float], dict[str, Row]] = {}
    for row in rows:
        cells.setdefault((row["graph"], row["n"], row["epsilon"]), {})[row["method"]] = row
    return cells


def ratios(rows: Rows, method: str, other: str, least: float = 0.0) -> dict[tuple[str, int, float], float]:
    """kl of one method over that of another, in every cell with n epsilon >= least that has both."""
    return {
        place: cell[method]["kl"] / cell[other]["kl"]
        for place, cell in cells_of(rows).items()
        if method in cell and other in cell and place[1] * place[2] >= least * (1 - 1e-9)
    }


def coverages(rows: Rows, method: str, least: float) -> list[float]:
    """coverage90 of a method in every cell with n epsilon >= least."""
    return [
        row["coverage90"] for row in rows if row["method"] == method and row["n"] * row["epsilon"] >= least * (1 - 1e-9)
    ]


def note(rows: Rows) -> str:
    """The claims, one by one, as far as the rows tell."""
    return " ".join([*_divergence_words(rows), *_coverage_words(rows), *_printed_words(rows)])


def _divergence_words(rows: Rows) -> Iterable[str]:
    for method in ("posterior", "map"):
        found = list(ratios(rows, method, ORACLE, ENOUGH).values())
        if found:
            yield (
                f"Over {len(found)} cells with n epsilon >= {ENOUGH:g} the divergence of {method} is "
                f"{np.exp(np.mean(np.log(found))):.2f} times that of {ORACLE} in geometric mean "
                f"({min(found):.2f} to {max(found):.2f})."
            )


def _coverage_words(rows: Rows) -> Iterable[str]:
    enough, plenty = (coverages(rows, "posterior", least) for least in (ENOUGH, PLENTY))
    if enough:
        average = f", and {np.mean(plenty):.3f} on average from n epsilon = {PLENTY:g} on" if plenty else ""
        yield f"There the {100 * LEVEL:.0f} % intervals of posterior hold {min(enough):.3f} or more{average}."


def _printed_words(rows: Rows) -> Iterable[str]:
    yield "In print collective beats naive for all graphs, sizes and epsilon."
    for other in ("naive-fixed", "naive", ORACLE):
        found = ratios(rows, "collective", other)
        if found:
            won = sum(ratio < 1 for ratio in found.values())
            yield (
                f"Here it beats {other} in {won} of {len(found)} cells (divergence {min(found.values()):.2g} to "
                f"{max(found.values()):.2g} times as large)."
            )


def draw(figure: Figure, rows: Rows) -> None:
    """Divergence against n, a panel a graph and epsilon, as in Figure 3.4; at the right coverage against n epsilon.

    Divergences range over ten orders of magnitude and methods over one, so they are drawn over that of `naive-oracle`,
    if it ran; what is off the panel is far behind, or had no noise.
    """
    from matplotlib.ticker import NullFormatter

    graphs, epsilons = (list(dict.fromkeys(row[name] for row in rows)) for name in ("graph", "epsilon"))
    figure.set_size_inches(2.8 * (len(epsilons) + 1) + 1.0, 2.5 * len(graphs) + 0.9)
    panels = figure.subplots(len(graphs), len(epsilons) + 1, squeeze=False)
    oracle = {place: cell[ORACLE]["kl"] for place, cell in cells_of(rows).items() if ORACLE in cell}
    for i, graph in enumerate(graphs):
        for j, epsilon in enumerate(epsilons):
            axes = panels[i, j]
            some = [row for row in rows if (row["graph"], row["epsilon"]) == (graph, epsilon) and row["kl"] is not None]
            if oracle:
                some = [row | {"kl": row["kl"] / oracle[row["graph"], row["n"], row["epsilon"]]} for row in some]
            _lines(axes, some, "kl", lambda row: row["n"])
            axes.set(xscale="log", yscale="log", title=f"{graph}, ε = {epsilon:g}")
            if oracle:
                axes.set(ylim=PANEL, yticks=PANEL_TICKS, yticklabels=[f"{tick:g}" for tick in PANEL_TICKS])
                axes.yaxis.set_minor_formatter(NullFormatter())
            axes.title.set_fontsize("medium")
        own = [row for row in rows if row["graph"] == graph and row["coverage90"] is not None]
        _lines(panels[i, -1], own, "coverage90", lambda row: row["n"] * row["epsilon"])
        panels[i, -1].axhline(LEVEL, color="#6b7885", linestyle=":", linewidth=1)
        panels[i, -1].set(xscale="log", ylim=(0.5, 1), title="coverage of 90 % intervals")
        panels[i, -1].title.set_fontsize("medium")
        panels[i, 0].set_ylabel(f"KL over that of {ORACLE}" if oracle else "KL to the truth")
    for axes in panels[-1, :-1]:
        axes.set_xlabel("records")
    for axes in panels.ravel():
        axes.xaxis.set_minor_formatter(NullFormatter())
    panels[-1, -1].set_xlabel("records × ε")
    named = {
        label: line for axes in panels.ravel() for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=5, fontsize="small")


def _lines(axes: Any, rows: Rows, name: str, at: Callable[[Row], float]) -> None:
    for method in dict.fromkeys(row["method"] for row in rows):
        points = sorted((at(row), row[name]) for row in rows if row["method"] == method)
        axes.plot(*zip(*points, strict=True), marker="o", ms=3, linewidth=1.2, color=colour(method), label=method)


STUDY = Study(
    name="graphical",
    about="Graphical models from noisy edge tables: divergence from the truth, and coverage of intervals.",
    source="Bernstein (2020, thesis), Figures 3.1-3.5",
    settings={
        "graph": Setting(str, ("chain",), "which graphs", full=GRAPHS, choices=GRAPHS),
        "nodes": Setting(int, 10, "columns", at_least=2),
        "states": Setting(int, None, "levels of a column; null: 10 in a chain, 4 elsewhere", at_least=2),
        "n": Setting(int, (10_000, 100_000), "records", full=(1_000, 10_000, 100_000, 1_000_000), at_least=2),
        "epsilon": Setting(float, (0.5,), "the privacy of the release", full=(0.1, 0.5, 1.0), above=0),
        "seeds": Setting(int, 2, "data sets a cell", full=10, at_least=1),
        "neighbours": Setting(str, "change-one", "which data sets are neighbours", choices=NEIGHBOURS),
        "mechanism": Setting(str, "laplace", "laplace, geometric: epsilon-DP; gaussian: (epsilon, 1/n)-DP",
                             choices=MECHANISMS),
        "method": Setting(str, METHODS, "who learns", choices=METHODS),
        "draws": Setting(int, 80, "of each of 4 chains of posterior, after as many of warm-up", full=200, at_least=10),
    },
    columns=("graph", "n", "epsilon", "method", "kl", "kl_se", "coverage90", "seconds"),
    measure=measure,
    draw=draw,
    note=note,
)  # fmt: skip
