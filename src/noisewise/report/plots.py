"""Plots from plain data: arrays in, a PNG out.

Every function returns the bytes of a PNG and, where `path` is given, also writes the figure there, in the format of
its ending (.png, .pdf, .svg). Nothing here touches a display or matplotlib's global state, so it works in a server, a
worker or a test. The colours are those of Okabe and Ito, which stay apart for every kind of colour vision.

Densities of draws use a normal kernel of the normal-reference width, reflected where the parameter's range ends:
    f(x) = sum_i [phi_h(x - x_i) + phi_h(x - (2 low - x_i)) + phi_h(x - (2 high - x_i))] / m.
Without the reflection a posterior that leans on a bound would seem to fall to half its height there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
from numpy.typing import ArrayLike

from noisewise.errors import InvalidArgument
from noisewise.report.canvas import (
    BLACK,
    BLUE,
    CYCLE,
    EM,
    GREY,
    MARKERS,
    PALE,
    RED,
    Target,
    finish,
    headed,
    label_of,
    panels_of,
    shared_legend,
    tidy,
)
from noisewise.types import Floats

GRID, FEW_TICKS = 400, 5
# A curve this many times as high as the posterior is cut off, or the posterior would be a line on the floor.
TALLEST = 2.0


def posterior_plot(
    parameters: Sequence[Mapping[str, Any]],
    path: Target = None,
    *,
    width: float | None = None,
    is_clear: bool = False,
    note: str = "",
) -> bytes:
    """The posterior of each parameter, against its prior and against the posterior that ignores the noise.

    Each parameter is a mapping with `name` and `draws` (any shape), and optionally `prior_x` and `prior_density`,
    `naive` (draws), `truth` (a number), `interval` (low, high; shaded), `level` (what the interval claims, such as
    0.9), `support` (low, high; where the parameter can be) and `unit`.
    """
    height = 3.2 if width is None else 2.5
    figure, panels = panels_of(_some(parameters, "parameters"), width=4.6, height=height, across=width)
    for axes, parameter in zip(panels, parameters, strict=True):
        panel = figure.get_figwidth() * axes.get_position().width
        _draw_posterior(axes, parameter, max(8, int(panel / EM)))
    shared_legend(figure, panels, ("posterior",))
    headed(figure, note)
    return finish(figure, path, is_clear=is_clear)


def trace_plot(parameters: Sequence[Mapping[str, Any]], path: Target = None, *, is_clear: bool = False) -> bytes:
    """How the chains moved: for each parameter its trace, and the ranks of each chain's draws among all of them.

    Each parameter is a mapping with `name` and `draws` (chains, draws). Chains that agree have level rank histograms.
    """
    rows = len(_some(parameters, "parameters"))
    figure = Figure(figsize=(9.2, 0.5 + 2.0 * rows), layout="constrained")
    grid = np.atleast_2d(np.asarray(figure.subplots(rows, 2, squeeze=False)))
    for (left, right), parameter in zip(grid, parameters, strict=True):
        draws = np.atleast_2d(np.asarray(parameter["draws"], float))
        ranks = np.argsort(np.argsort(draws, axis=None)).reshape(draws.shape) / draws.size
        bins = np.linspace(0, 1, max(2, min(20, draws.shape[1] // 5)) + 1)
        right.axhline(1.0, color=GREY, linewidth=0.8)
        for k, chain in enumerate(draws):
            colour = CYCLE[k % len(CYCLE)]
            left.plot(chain, color=colour, linewidth=0.5, alpha=0.8, rasterized=True)
            right.stairs(np.histogram(ranks[k], bins=bins, density=True)[0], bins, color=colour, baseline=None)
        left.set(ylabel=label_of(parameter), xlim=(0, draws.shape[1]))
        right.set(ylim=(0, None), xlim=(0, 1), yticks=[0, 1])
        tidy(left, right)
    grid[0, 0].set_title("trace, one colour a chain")
    grid[0, 1].set_title("ranks within each chain (level if chains agree)")
    grid[-1, 0].set_xlabel("draw")
    grid[-1, 1].set_xlabel("rank among all draws")
    return finish(figure, path, is_clear=is_clear)


def rank_plot(parameters: Sequence[Mapping[str, Any]], path: Target = None) -> bytes:
    """Simulation-based calibration: how often the true value had each rank among the posterior draws.

    Each parameter is a mapping with `name`, `counts` (one a bin), `expected` (the level height) and `band` (low, high):
    the counts that all bins together stay within when the posterior is calibrated.
    """
    figure, panels = panels_of(_some(parameters, "parameters"), width=4.2, height=2.9)
    for axes, parameter in zip(panels, parameters, strict=True):
        counts = np.asarray(parameter["counts"], float)
        low, high = parameter["band"]
        edges = np.linspace(0, 1, counts.size + 1)
        axes.axhspan(low, high, color=PALE, label="where calibrated bins lie")
        axes.axhline(parameter["expected"], color=GREY, linewidth=1)
        outside = (counts < low) | (counts > high)
        centres, width = (edges[1:] + edges[:-1]) / 2, 0.9 / counts.size
        axes.bar(centres, counts, width=width, color=np.where(outside, RED, BLUE).tolist())
        axes.set(xlabel=f"rank of the true {label_of(parameter)}", ylabel="trials", xlim=(0, 1))
        axes.set_xticks([0, 0.5, 1], ["lowest", "middle", "highest"])
        tidy(axes)
    shared_legend(figure, panels)
    return finish(figure, path)


def ecdf_plot(parameters: Sequence[Mapping[str, Any]], path: Target = None) -> bytes:
    """The empirical distribution of the ranks minus the uniform one, within its simultaneous band.

    Each parameter is a mapping with `name`, `values` (ranks as numbers in [0, 1]) and `half_width` of the band. A bump
    is bias, an S is a posterior too narrow (rising first) or too wide (falling first).
    """
    figure, panels = panels_of(_some(parameters, "parameters"), width=4.2, height=2.9)
    for axes, parameter in zip(panels, parameters, strict=True):
        values = np.sort(np.asarray(parameter["values"], float))
        steps = np.arange(values.size + 1) / values.size
        x = np.concatenate([[0.0], np.repeat(values, 2), [1.0]])
        difference = np.repeat(steps, 2) - x
        half = float(parameter["half_width"])
        axes.axhspan(-half, half, color=PALE, label="where a calibrated curve lies")
        axes.axhline(0, color=GREY, linewidth=1)
        is_outside = bool(np.max(np.abs(difference)) > half)
        axes.plot(x, difference, color=RED if is_outside else BLUE, linewidth=1.4)
        axes.set(xlabel=f"rank of the true {label_of(parameter)}", ylabel="share below, minus rank", xlim=(0, 1))
        reach = 1.15 * max(half, float(np.max(np.abs(difference))))
        axes.set_ylim(-reach, reach)
        tidy(axes)
    shared_legend(figure, panels)
    return finish(figure, path)


def coverage_plot(rows: Sequence[Mapping[str, Any]], path: Target = None) -> bytes:
    """What intervals covered against what they claim.

    Each row is a mapping with `name`, `level` (claimed), `coverage` (seen) and its exact band `low`, `high`.
    """
    names = list(dict.fromkeys(str(row["name"]) for row in _some(rows, "rows")))
    figure = Figure(figsize=(4.8, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, label="as claimed")
    for k, name in enumerate(names):
        mine = sorted((row for row in rows if row["name"] == name), key=lambda row: float(row["level"]))
        level, seen, low, high = (np.array([float(row[key]) for row in mine])
                                  for key in ("level", "coverage", "low", "high"))  # fmt: skip
        shift = 0.008 * (k - (len(names) - 1) / 2)
        axes.errorbar(level + shift, seen, yerr=np.maximum([seen - low, high - seen], 0.0), fmt=MARKERS[k % 7],
                      markersize=5, capsize=3, linewidth=1.2, color=CYCLE[k % 7], label=name)  # fmt: skip
    least = min(min(float(row["low"]), float(row["level"])) for row in rows)
    axes.set(xlabel="coverage claimed", ylabel="coverage seen")
    axes.set(xlim=(max(0, least - 0.05), 1.01), ylim=(max(0, least - 0.05), 1.01))
    axes.legend(frameon=False, loc="upper left")
    tidy(axes)
    return finish(figure, path)


def curve_plot(
    series: Sequence[Mapping[str, Any]],
    path: Target = None,
    *,
    x_label: str,
    y_label: str,
    title: str = "",
    log_x: bool = False,
    log_y: bool = False,
    plain_numbers: bool = False,
) -> bytes:
    """Lines with bands, for studies. `plain_numbers` writes 0.1, 0.2, 0.5, 1 on logarithmic axes, not powers of ten.

    Each series is a mapping with `name`, `x`, `y`, and optionally `low`, `high` (a band), `marks` (True: points on the
    line; "only": no line), `dashed` (True for what is cited rather than computed), `colour` (0 to 6, to pair a cited
    series with ours) and `panel` (a title; series are drawn in one panel a title).
    """
    titles = list(dict.fromkeys(str(one.get("panel", title)) for one in _some(series, "series")))
    figure, panels = panels_of(titles, width=5.4 if len(titles) == 1 else 4.4, height=3.6)
    for axes, panel in zip(panels, titles, strict=True):
        mine = [one for one in series if str(one.get("panel", title)) == panel]
        for k, one in enumerate(mine):
            _draw_curve(axes, one, int(one.get("colour", k)) % len(CYCLE))
        axes.set(xlabel=x_label, ylabel=y_label, title=panel)
        if log_x:
            axes.set_xscale("log")
        if log_y:
            axes.set_yscale("log")
        if plain_numbers:
            for axis in [axes.xaxis] * log_x + [axes.yaxis] * log_y:
                axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
                axis.set_major_formatter(lambda value, _: f"{value:g}")
                axis.set_minor_formatter(NullFormatter())
        tidy(axes)
    shared_legend(figure, panels)
    return finish(figure, path)


def band_plot(
    x: ArrayLike,
    y: ArrayLike,
    bands: Sequence[Mapping[str, Any]],
    path: Target = None,
    *,
    x_label: str,
    y_label: str,
    points: tuple[ArrayLike, ArrayLike] | None = None,
) -> bytes:
    """A line with bands around it, each a mapping with `name`, `low` and `high`, widest first; and public points."""
    figure = Figure(figsize=(5.4, 3.9), layout="constrained")
    axes = figure.add_subplot()
    across = np.asarray(x, float)
    for k, band in enumerate(bands):
        low, high = np.asarray(band["low"], float), np.asarray(band["high"], float)
        axes.fill_between(across, low, high, color=BLUE, alpha=0.16 + 0.14 * k, linewidth=0, label=str(band["name"]))
    axes.plot(across, np.asarray(y, float), color=BLUE, linewidth=1.8, label="mean")
    if points is not None:
        axes.plot(*points, linestyle="none", marker="o", markersize=3, color=GREY, zorder=0)
    axes.set(xlabel=x_label, ylabel=y_label)
    tidy(axes)
    shared_legend(figure, [axes])
    return finish(figure, path)


def reliability_plot(
    predicted: tuple[ArrayLike, ArrayLike, ArrayLike],
    observed: tuple[ArrayLike, ArrayLike, ArrayLike],
    path: Target = None,
    *,
    x_label: str,
    y_label: str,
) -> bytes:
    """Observed shares against predictions, each (value, low, high), beside the diagonal."""
    figure = Figure(figsize=(4.6, 4.4), layout="constrained")
    axes = figure.add_subplot()
    x, y = (np.array([np.asarray(part, float) for part in side]) for side in (predicted, observed))
    ends = [max(0.0, min(x.min(), y.min()) - 0.02), min(1.0, max(x.max(), y.max()) + 0.02)]
    axes.plot(ends, ends, color=GREY, linewidth=1, linestyle="--", label="predicted = observed")
    axes.hlines(y[0], x[1], x[2], color=BLUE, linewidth=1.2)
    axes.vlines(x[0], y[1], y[2], color=BLUE, linewidth=1.2)
    axes.plot(x[0], y[0], linestyle="none", marker="o", markersize=5, color=BLUE, label="a bin of rows")
    axes.set(xlabel=x_label, ylabel=y_label, xlim=ends, ylim=ends, aspect="equal")
    tidy(axes)
    shared_legend(figure, [axes])
    return finish(figure, path)


def heat_map(
    values: ArrayLike,
    path: Target = None,
    *,
    x: ArrayLike,
    y: ArrayLike,
    x_label: str,
    y_label: str,
    value_label: str,
    title: str = "",
    log: bool = False,
    best: tuple[float, float] | None = None,
) -> bytes:
    """A function of two variables: values (len(y), len(x)), with the point `best` marked."""
    table, across, up = np.asarray(values, float), np.asarray(x, float), np.asarray(y, float)
    if table.shape != (up.size, across.size):
        raise InvalidArgument(
            f"values has shape {table.shape}; {up.size} values of y and {across.size} of x need "
            f"({up.size}, {across.size}).",
            argument="values",
        )
    figure = Figure(figsize=(5.6, 4.2), layout="constrained")
    axes = figure.add_subplot()
    norm = LogNorm() if log else None
    mesh = axes.pcolormesh(across, up, table, cmap="cividis", norm=norm, shading="nearest", rasterized=True)
    figure.colorbar(mesh, ax=axes, label=value_label)
    if best is not None:
        axes.plot(*best, marker="*", markersize=14, color="white", markeredgecolor=BLACK)
    axes.set(xlabel=x_label, ylabel=y_label, title=title)
    return finish(figure, path)


def density(draws: ArrayLike, x: Floats, support: tuple[float, float] = (-math.inf, math.inf)) -> Floats:
    """The kernel density of draws at the equally spaced points x, reflected at the ends of its support."""
    values = np.asarray(draws, float).ravel()
    quartiles = np.quantile(values, [0.25, 0.75])
    spread = min(float(values.std()), float(quartiles[1] - quartiles[0]) / 1.349) or float(values.std())
    step = float(x[1] - x[0])
    width = max(1.06 * spread * values.size**-0.2, step)
    mirrored = [values]
    mirrored += [2 * end - values for end in support if math.isfinite(end)]
    edges = np.concatenate([x - step / 2, [x[-1] + step / 2]])
    reach = math.ceil(4 * width / step)
    wide = np.concatenate(
        [edges[0] - step * np.arange(reach, 0, -1), edges, edges[-1] + step * np.arange(1, reach + 1)]
    )
    binned = np.histogram(np.concatenate(mirrored), bins=wide)[0] / (values.size * step)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) * step / width) ** 2)
    smooth: Floats = np.convolve(binned, kernel / kernel.sum(), mode="valid")
    return np.where((x >= support[0]) & (x <= support[1]), smooth, 0.0)


def _draw_posterior(axes: Axes, parameter: Mapping[str, Any], letters: int) -> None:
    draws = _finite(parameter["draws"], str(parameter["name"]))
    support = tuple(float(end) for end in parameter.get("support", (-math.inf, math.inf)))
    truth = parameter.get("truth")
    axes.set(xlabel=label_of(parameter, letters), yticks=[])
    axes.xaxis.set_major_locator(MaxNLocator(FEW_TICKS))
    tidy(axes)
    axes.spines["left"].set_visible(False)
    if np.ptp(draws) == 0:
        axes.axvline(float(draws[0]), color=BLUE, linewidth=2, label="estimate")
    else:
        _draw_densities(axes, parameter, draws, (support[0], support[1]))
    if truth is not None:
        axes.axvline(float(truth), color=BLACK, linestyle=":", linewidth=1.6, label="true value")


def _draw_densities(axes: Axes, parameter: Mapping[str, Any], draws: Floats, support: tuple[float, float]) -> None:
    naive = None if parameter.get("naive") is None else _finite(parameter["naive"], f"naive {parameter['name']}")
    low, high = _window(draws, naive, parameter.get("truth"), support)
    x = np.linspace(low, high, GRID)
    height = density(draws, x, support)
    tallest = float(height.max())
    axes.plot(x, height, color=BLUE, linewidth=2, zorder=3, label="posterior")
    axes.fill_between(x, height, color=BLUE, alpha=0.12, linewidth=0)
    if parameter.get("interval") is not None:
        left, right = (float(end) for end in parameter["interval"])
        inside = np.linspace(max(left, low), min(right, high), GRID)
        level = f"{100 * parameter['level']:g} % interval" if "level" in parameter else "interval"
        axes.fill_between(inside, np.interp(inside, x, height), color=BLUE, alpha=0.22, linewidth=0, label=level)
    if parameter.get("prior_x") is not None:
        prior = np.asarray([parameter["prior_x"], parameter["prior_density"]], float)
        prior = prior[:, np.isfinite(prior[1])]  # a density may be infinite at its bound
        prior_height = np.interp(x, *prior)
        axes.plot(x, prior_height, color=GREY, linestyle="--", linewidth=1.4, label="prior")
        tallest = max(tallest, min(float(prior_height.max()), TALLEST * float(height.max())))
    if naive is not None and np.ptp(naive) > 0:
        fine = np.linspace(max(low, naive.min()), min(high, naive.max()), GRID)
        naive_height = density(naive, fine, support)
        axes.plot(fine, naive_height, color=RED, linewidth=1.4, label="posterior that ignores the noise")
        tallest = max(tallest, min(float(naive_height.max()), TALLEST * float(height.max())))
    axes.set(xlim=(low, high), ylim=(0, 1.06 * tallest))


def _window(
    draws: Floats, naive: Floats | None, truth: float | None, support: tuple[float, float]
) -> tuple[float, float]:
    """What of the axis is shown: nearly all of the posterior, and the bulk of the naive one."""
    low, high = np.quantile(draws, [0.001, 0.999])
    margin = 0.08 * (high - low)
    ends = [low - margin, high + margin]
    if naive is not None:
        ends += np.quantile(naive, [0.005, 0.995]).tolist()
    if truth is not None and math.isfinite(truth):
        ends.append(truth)
    return max(float(min(ends)), support[0]), min(float(max(ends)), support[1])


def _draw_curve(axes: Axes, one: Mapping[str, Any], k: int) -> None:
    x, y = np.asarray(one["x"], float), np.asarray(one["y"], float)
    marks = one.get("marks", False)
    if one.get("low") is not None:
        low, high = np.asarray(one["low"], float), np.asarray(one["high"], float)
        if marks == "only":
            bars = np.maximum([y - low, high - y], 0.0)
            axes.errorbar(x, y, yerr=bars, fmt="none", ecolor=CYCLE[k], capsize=2, linewidth=1)
        else:
            axes.fill_between(x, low, high, color=CYCLE[k], alpha=0.18, linewidth=0)
    line = "none" if marks == "only" else "--" if one.get("dashed") else "-"
    axes.plot(x, y, color=CYCLE[k], linestyle=line, linewidth=1.7, marker=MARKERS[k] if marks else "", markersize=4.5,
              markerfacecolor="white" if one.get("dashed") else CYCLE[k], label=str(one["name"]))  # fmt: skip


def _finite(draws: ArrayLike, name: str) -> Floats:
    values = np.asarray(draws, float).ravel()
    kept: Floats = values[np.isfinite(values)]
    if not kept.size:
        raise InvalidArgument(f"draws of {name}: there is no finite number among them to plot.", argument="draws")
    return kept


def _some(items: Sequence[Mapping[str, Any]], argument: str) -> Sequence[Mapping[str, Any]]:
    if not items:
        raise InvalidArgument(f"{argument} is empty: there is nothing to plot.", argument=argument)
    return items
