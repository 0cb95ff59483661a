"""Panels of a calibration study: how far ranks are from uniform, against n and as distributions, with their band.

`half_width(trials)` is Kolmogorov's: a calibrated posterior stays within it with probability BAND.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise.populations.parameters import Array
from noisewise_papers.study import Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_distances", "draw_distributions", "half_width", "share_legend"]

BAND = 0.99  # where a calibrated curve, or distance, lies with this probability
Colour = Callable[[str], Any]  # of a method


def half_width(trials: int) -> float:
    """Below this, Kolmogorov's distance is one that a calibrated posterior has."""
    from scipy.stats import kstwo

    return float(kstwo.isf(1 - BAND, trials))


def draw_distances(axes: Axes, rows: Rows, colour: Colour, *, trials: int) -> None:
    """ks against n, a line a method; the band is that of `trials` ranks (0: none is drawn)."""
    for method in dict.fromkeys(row["method"] for row in rows):
        line = sorted((row["n"], row["ks"]) for row in rows if row["method"] == method)
        axes.plot(*zip(*line, strict=True), marker="o", ms=4, color=colour(method), label=method)
    if trials:
        axes.axhspan(0, half_width(trials), color="0.88", lw=0)
    axes.set(xscale="log", xlabel="records n", ylim=(0, None))


def draw_distributions(axes: Axes, curves: Mapping[str, Array], colour: Colour) -> None:
    """The distribution of the ranks of each method."""
    line = np.linspace(0, 1, 101)
    half = half_width(min(u.size for u in curves.values()))
    axes.fill_between(line, np.maximum(line - half, 0), np.minimum(line + half, 1), color="0.88", lw=0)
    for method, u in curves.items():
        axes.ecdf(u, color=colour(method), label=method, lw=1.3)
    axes.set(xlim=(0, 1), ylim=(0, 1))


def share_legend(figure: Figure, panels: Any) -> None:
    """One legend for all panels, below them."""
    handles: dict[str, Any] = {}
    for axes in panels.ravel():
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles), fontsize="small")
