"""A list of numbers with their intervals, one a line."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from noisewise.report.canvas import BLACK, BLUE, finish, tidy

__all__ = ["interval_plot"]

MOST = 60


def interval_plot(
    labels: Sequence[str],
    values: ArrayLike,
    low: ArrayLike | None,
    high: ArrayLike | None,
    path: str | PathLike[str] | None = None,
    *,
    x_label: str,
) -> bytes:
    """Each value as a point by its label, with its interval as a line where there is one; the first sixty."""
    shown = min(len(labels), MOST)
    numbers, places = np.asarray(values, float)[:shown], np.arange(shown)
    figure = Figure(figsize=(5.6, 1.0 + 0.24 * shown), layout="constrained")
    axes = figure.add_subplot()
    if low is not None and high is not None:
        axes.hlines(places, np.asarray(low, float)[:shown], np.asarray(high, float)[:shown], color=BLUE, linewidth=3)
    axes.plot(numbers, places, "o", color=BLACK, markersize=4)
    axes.set_yticks(places, [str(label) for label in labels[:shown]])
    axes.invert_yaxis()
    axes.set(xlabel=x_label)
    axes.set_xlim(left=0)
    tidy(axes)
    return finish(figure, path)
