"""Figures of a survey from plain data: its course, and its estimates over many runs (Yıldırım 2024, Figures 1 to 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from noisewise.report.canvas import BLACK, BLUE, GREEN, GREY, RED, Target, finish, tidy
from noisewise.types import Floats


def course_plot(
    courses: Mapping[str, Mapping[str, Any]], truth: Mapping[str, float] | None = None, path: Target = None
) -> bytes:
    """How the posterior drew together, answer by answer; one column a survey, one row a parameter.

    A course is a mapping with `mean` (parameter -> (n,) posterior means), `clouds` (a sequence of (answers, parameter
    -> particles)) and `edges` (for each answer the ends, threshold or edges of its question). Edges are shown with
    the first parameter, which is where a location stands.
    """
    names = list(next(iter(courses.values()))["mean"])
    width = 1.0 + 3.8 * len(courses)
    figure = Figure(figsize=(width, 0.6 + 2.6 * len(names)), layout="constrained")
    grid = figure.subplots(len(names), len(courses), squeeze=False, sharex=True, sharey="row")
    for column, (label, course) in enumerate(courses.items()):
        for row, name in enumerate(names):
            axes = grid[row][column]
            _draw_course(axes, course, name, with_edges=row == 0)
            if truth is not None:
                axes.axhline(truth[name], color=BLACK, linewidth=1, label="truth")
            tidy(axes)
        grid[0][column].set_title(label)
        grid[-1][column].set_xlabel("answers")
    for row, name in enumerate(names):
        grid[row][0].set_ylabel(name)
        values = np.concatenate([_settled(course, name) for course in courses.values()])
        if truth is not None:
            values = np.append(values, truth[name])
        low, high = float(values.min()), float(values.max())
        room = 0.25 * (high - low) or 1.0
        grid[row][0].set_ylim(low - room if low < 0 else max(0.0, low - room), high + room)
    grid[0][0].legend(fontsize="small", loc="best")
    return finish(figure, path)


def runs_plot(
    estimates: Mapping[str, Mapping[str, Sequence[float]]], truth: Mapping[str, float], path: Target = None
) -> bytes:
    """Box plots of the posterior means over runs; `estimates` maps a survey to parameter -> one number a run."""
    names = list(truth)
    figure = Figure(figsize=(1.0 + 3.6 * len(names), 3.6), layout="constrained")
    panels = np.atleast_1d(np.asarray(figure.subplots(1, len(names))))
    for axes, name in zip(panels, names, strict=True):
        boxes = [np.asarray(each[name], float) for each in estimates.values()]
        axes.axhline(truth[name], color=BLACK, linewidth=1)
        axes.boxplot(boxes, tick_labels=list(estimates), medianprops={"color": RED})
        axes.set_title(f"posterior mean of {name}")
        tidy(axes)
    return finish(figure, path)


def _draw_course(axes: Axes, course: Mapping[str, Any], name: str, *, with_edges: bool) -> None:
    if with_edges and len(course["edges"]):
        times = np.concatenate([np.full(len(e), t + 1) for t, e in enumerate(course["edges"])])
        ends = np.concatenate([np.asarray(e, float) for e in course["edges"]])
        axes.plot(times, ends, ".", color=GREEN, alpha=0.6, markersize=1.5, label="questions", rasterized=True)
    for k, (answers, particles) in enumerate(course["clouds"]):
        values = np.asarray(particles[name], float)
        label = "particles" if k == 0 else None
        axes.plot(np.full(values.size, answers), values, ".", color=BLUE, alpha=0.25, markersize=3, label=label)
    mean = np.asarray(course["mean"][name], float)
    axes.plot(np.arange(1, mean.size + 1), mean, color=RED, linewidth=1.2, label="posterior mean")
    axes.tick_params(colors=GREY)


def _settled(course: Mapping[str, Any], name: str) -> Floats:
    """What a panel must show: the particles and means after the first tenth, when the prior has lost its reach."""
    mean = np.asarray(course["mean"][name], float)
    start = mean.size // 10
    parts = [np.asarray(p[name], float) for answers, p in course["clouds"] if answers > start]
    particles = np.concatenate([mean[start:], *parts])
    return np.asarray(np.quantile(particles, [0.002, 0.998]))
