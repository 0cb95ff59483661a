"""The fitted distribution of a column, with the band in which it lies, and what was published drawn on it.

For each panel the law of one column under the posterior: the median of its density at every place and the band that
holds it with the level stated, place by place. A published histogram stands behind it as bars with the reach of its
noise; a published mean, median or total turned into a mean is a mark on the axis with the same. Laws of few values
(levels, counts) are dots with intervals instead of a curve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from noisewise.errors import InvalidArgument
from noisewise.report.canvas import (
    BLACK,
    BLUE,
    EM,
    NARROW,
    RED,
    WIDE,
    Target,
    finish,
    headed,
    plain,
    shared_legend,
    tidy,
    with_unit,
    wrapped,
)
from noisewise.types import Floats

__all__ = ["Bars", "Mark", "Panel", "distribution_plot"]

MOST_MARKS = 6  # with a line of their own under the curve
FEW_LABELS = 14


@dataclass(frozen=True, slots=True)
class Bars:
    """A published histogram: edges, the height of each bar (share for each unit), and the reach of its noise."""

    edges: Floats
    height: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class Mark:
    """A published number on the axis of the column, with the reach of its noise."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Panel:
    """The law of one column: places `x`, the middle of its density (or probability) there, and the ends of its band.

    `labels` names the places of a law of few values; without them the law is continuous. `title` says which group.
    """

    name: str
    x: Floats
    middle: Floats
    low: Floats
    high: Floats
    unit: str = ""
    title: str = ""
    labels: Sequence[str] = ()
    bars: Bars | None = None
    marks: Sequence[Mark] = ()


def distribution_plot(
    panels: Sequence[Panel],
    path: Target = None,
    *,
    level: float = 0.9,
    width: float = WIDE,
    is_clear: bool = False,
    note: str = "",
) -> bytes:
    """Each panel's law with its band and what was published; panels of one column share their axes."""
    if not panels:
        raise InvalidArgument("panels is empty: there is nothing to plot.", argument="panels")
    columns = 1 if width <= NARROW or len(panels) == 1 else 2 if len(panels) in (2, 4) else 3
    rows = math.ceil(len(panels) / columns)
    is_one = len({(panel.name, tuple(panel.labels)) for panel in panels}) == 1
    height = (3.4 if columns == 1 else 2.4) if rows == 1 else 2.1
    figure = Figure(figsize=(width, height * rows + 0.9), layout="constrained")
    grid = np.asarray(figure.subplots(rows, columns, squeeze=False, sharex=is_one, sharey=is_one)).ravel().tolist()
    for empty in grid[len(panels) :]:
        empty.set_axis_off()
    tops = [1.08 * _highest(np.asarray(panel.high, float), panel.bars) for panel in panels]
    for k, (axes, panel) in enumerate(zip(grid, panels, strict=False)):
        _draw(axes, panel, level, width / columns, max(tops) if is_one else tops[k])
        is_lowest = not is_one or k + columns >= len(panels)
        axes.set_xlabel(wrapped(with_unit(panel.name, panel.unit), 0.8 * width / columns) if is_lowest else "")
        axes.tick_params(axis="x", labelbottom=is_lowest)
        axes.set_ylabel(_share(panel) if k % columns == 0 or not is_one else "")
        axes.set_title(plain(panel.title, int(0.8 * width / columns / EM)), fontsize=10, loc="left")
    if is_one and not panels[0].labels:
        grid[0].set_xlim(min(float(panel.x[0]) for panel in panels), max(float(panel.x[-1]) for panel in panels))
    shared_legend(figure, grid[: len(panels)], ("fitted", f"{100 * level:g}", "published", "reach"))
    headed(figure, note)
    return finish(figure, path, is_clear=is_clear)


def _draw(axes: Axes, panel: Panel, level: float, width: float, top: float) -> None:
    x, middle, low, high = (np.asarray(part, float) for part in (panel.x, panel.middle, panel.low, panel.high))
    band = f"{100 * level:g} % band"
    if panel.bars is not None:
        _draw_bars(axes, panel.bars, is_discrete=bool(panel.labels))
    if panel.labels:
        axes.vlines(x, low, high, color=BLUE, linewidth=4, alpha=0.45, label=band, zorder=3)
        axes.plot(x, middle, "o", color=BLUE, markersize=5, label="fitted distribution", zorder=4)
        step = math.ceil(len(x) / FEW_LABELS)
        most = max(4, int(width / EM / min(len(x), FEW_LABELS)))
        axes.set_xticks(x[::step], [plain(label, most) for label in list(panel.labels)[::step]])
        axes.set_xlim(x[0] - 0.6, x[-1] + 0.6)
    else:
        axes.fill_between(x, low, high, color=BLUE, alpha=0.28, linewidth=0, label=band, zorder=3)
        axes.plot(x, middle, color=BLUE, linewidth=2, label="fitted distribution", zorder=4)
        axes.set_xlim(x[0], x[-1])
        axes.xaxis.set_major_locator(MaxNLocator(5 if width <= NARROW else 10))
    axes.set_ylim(0, top)
    _draw_marks(axes, panel.marks, top)
    axes.yaxis.set_major_formatter(lambda share, _: f"{round(100 * share, 6):g} %")
    tidy(axes)


def _highest(high: Floats, bars: Bars | None) -> float:
    """What the picture must hold: the band and the bars, but no spike of the band's upper end (a pole at its edge)."""
    finite = high[np.isfinite(high)]
    tallest = float(np.quantile(finite, 0.995)) if finite.size > 50 else float(finite.max(initial=0.0))
    return max(tallest, 0.0 if bars is None else float(np.max(bars.height, initial=0.0)), 1e-12)


def _draw_bars(axes: Axes, bars: Bars, *, is_discrete: bool) -> None:
    edges, height = np.asarray(bars.edges, float), np.asarray(bars.height, float)
    centre, wide = (edges[1:] + edges[:-1]) / 2, np.diff(edges) * (0.6 if is_discrete else 0.96)
    axes.bar(centre, np.maximum(height, 0.0), width=wide, color=RED, alpha=0.28, label="published counts", zorder=1)
    beside = centre + (0.12 if is_discrete else 0.0)
    axes.vlines(
        beside,
        np.maximum(bars.low, 0.0),
        np.maximum(bars.high, 0.0),
        color=RED,
        alpha=0.8,
        linewidth=1.2,
        label="reach of their noise",
        zorder=5,
    )


def _draw_marks(axes: Axes, marks: Sequence[Mark], top: float) -> None:
    """Each published number under the curve, on a line of its own."""
    shown = marks[:MOST_MARKS]
    for k, mark in enumerate(shown):
        height = -0.07 * top * (k + 1)
        axes.plot([mark.low, mark.high], [height] * 2, color=RED, linewidth=2.2, alpha=0.5, solid_capstyle="butt")
        label = f"published {plain(mark.name, 60)}, with the reach of its noise"
        axes.plot([mark.value], [height], "Ddsv^o"[k], color=RED, markersize=5.5, label=label, zorder=5)
    if shown:
        axes.set_ylim(-0.07 * top * (len(shown) + 0.8), top)
        axes.axhline(0, color=BLACK, linewidth=0.8)
        axes.spines["bottom"].set_visible(False)
        axes.set_yticks([tick for tick in axes.get_yticks() if 0 <= tick <= top])


def _share(panel: Panel) -> str:
    """What the height of a curve is a share of."""
    if panel.labels:
        return "share"
    return plain(f"share per {panel.unit.strip() or 'unit'}")
