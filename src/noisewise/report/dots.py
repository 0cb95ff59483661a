"""Estimates with their intervals, one for each row: groups in their order, and what differs between them.

A row shows a dot, its interval as a line, and faintly under it what the published numbers say by themselves (noisy sum
over noisy count, with the reach of the noise alone). What lies outside the picture, infinite ends included, is an arrow
at its edge: the picture is as wide as the estimates need, not as wide as the worst noise. Beyond `MOST_NAMED` rows the
lines draw together and only some of them are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from noisewise.errors import InvalidArgument
from noisewise.report.canvas import (
    BLACK,
    BLUE,
    EM,
    GREY,
    NARROW,
    RED,
    WIDE,
    Target,
    finish,
    plain,
    shared_legend,
    tidy,
    wrapped,
)
from noisewise.types import Bools, Floats

__all__ = ["Row", "contrast_plot", "dot_plot"]

MOST_NAMED, NAMED = 60, 40  # rows that are all named, and how many are where there are more
TALL, LOW = 0.27, 0.055  # inches for a row: with its name, and without
ROOM = 0.06  # on either side, as a share of the picture
LEVEL_WORDS = "{level:g} % interval"
REACH = 1.5  # how many widths of the estimates' picture the faint ones may add


@dataclass(frozen=True, slots=True)
class Row:
    """One estimate: its name, value and interval, and what the published numbers say by themselves where they do."""

    name: str
    value: float
    low: float
    high: float
    naive: tuple[float, float, float] | None = field(default=None)  # value, low, high
    sign: str = ""  # between the name and that of `other`, where two are compared
    other: str = ""


def dot_plot(
    rows: Sequence[Row],
    path: Target = None,
    *,
    x_label: str,
    level: float = 0.9,
    width: float = WIDE,
    is_sorted: bool = True,
    naive_label: str = "published sum over published count, with the reach of their noise",
    is_clear: bool = False,
) -> bytes:
    """Every group as a dot with its interval, the highest on top (`is_sorted`); `x_label` names the unit."""
    shown = sorted(_some(rows), key=lambda row: -row.value if np.isfinite(row.value) else np.inf) if is_sorted else rows
    figure, axes = _sheet(shown, width)
    places = np.arange(len(shown), dtype=float)
    value, low, high = _numbers(shown)
    left, right = _window(value, low, high, _naive(shown))
    is_dense = len(shown) > MOST_NAMED
    _draw_naive(axes, shown, places, (left, right), is_dense, naive_label)
    axes.hlines(
        places,
        np.clip(low, left, right),
        np.clip(high, left, right),
        color=BLUE,
        linewidth=1.2 if is_dense else 3,
        label=LEVEL_WORDS.format(level=100 * level),
        zorder=3,
    )
    inside = (value >= left) & (value <= right)
    axes.plot(
        value[inside], places[inside], "o", color=BLACK, markersize=2 if is_dense else 5, label="estimate", zorder=4
    )
    _arrows(axes, places, low < left, high > right, (left, right), BLUE)
    axes.set_xlim(left, right)
    axes.set_xlabel(wrapped(plain(x_label), 0.7 * width))
    shared_legend(figure, [axes], ("estimate", LEVEL_WORDS.format(level=100 * level)))
    return finish(figure, path, is_clear=is_clear)


def contrast_plot(
    rows: Sequence[Row],
    path: Target = None,
    *,
    x_label: str,
    reference: float,
    level: float = 0.9,
    width: float = WIDE,
    is_clear: bool = False,
) -> bytes:
    """Differences around a line at 0, or ratios around a line at 1; an interval that leaves the line out is strong."""
    figure, axes = _sheet(_some(rows), width)
    places = np.arange(len(rows), dtype=float)
    value, low, high = _numbers(rows)
    left, right = _window(np.append(value, reference), np.append(low, reference), np.append(high, reference), [])
    is_dense = len(rows) > MOST_NAMED
    axes.axvline(reference, color=GREY, linewidth=1.2, zorder=1)
    is_apart = (low > reference) | (high < reference)
    interval = LEVEL_WORDS.format(level=100 * level)
    for chosen, colour, words in (
        (is_apart, BLUE, interval),
        (~is_apart, GREY, f"{interval} that holds {reference:g}: the two may be equal"),
    ):
        if chosen.any():
            axes.hlines(
                places[chosen],
                np.clip(low[chosen], left, right),
                np.clip(high[chosen], left, right),
                color=colour,
                linewidth=1.2 if is_dense else 3,
                label=words,
                zorder=3,
            )
            _arrows(axes, places, chosen & (low < left), chosen & (high > right), (left, right), colour)
    inside = (value >= left) & (value <= right)
    axes.plot(
        value[inside], places[inside], "o", color=BLACK, markersize=2 if is_dense else 5, label="estimate", zorder=4
    )
    axes.set_xlim(left, right)
    axes.set_xlabel(wrapped(plain(x_label), 0.7 * width))
    shared_legend(figure, [axes], ("estimate", LEVEL_WORDS.format(level=100 * level)))
    return finish(figure, path, is_clear=is_clear)


def _sheet(rows: Sequence[Row], width: float) -> tuple[Figure, Axes]:
    """An empty picture with a line for each row, named as far as names fit."""
    count = len(rows)
    is_dense = count > MOST_NAMED
    height = 1.25 + (LOW * count if is_dense else TALL * max(count, 2)) + (0.45 if width <= NARROW else 0.0)
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    letters = max(8, int(0.36 * width / EM))
    named = np.unique(np.linspace(0, count - 1, NAMED).round().astype(int)) if is_dense else np.arange(count)
    axes.set_yticks(named, [_name(rows[k], letters) for k in named.tolist()], fontsize=6 if is_dense else None)
    axes.set_ylim(count - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GREY, alpha=0.2, linewidth=0.7)
    if not is_dense:
        axes.grid(axis="y", color=GREY, alpha=0.12, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_locator(MaxNLocator(5 if width <= NARROW else 9))
    tidy(axes)
    axes.spines["left"].set_visible(False)
    return figure, axes


def _name(row: Row, letters: int) -> str:
    """A row's name in so many letters; of two names that stand beside a sign, each keeps its share of them."""
    if not row.sign:
        return plain(row.name, letters)
    room = letters - len(row.sign) - 2
    lengths = len(row.name), len(row.other)
    least = max(4, room // 2)
    first, second = (max(least, room - min(other, room - least)) for other in reversed(lengths))
    return f"{plain(row.name, first)} {row.sign} {plain(row.other, second)}"


def _draw_naive(
    axes: Axes, rows: Sequence[Row], places: Floats, window: tuple[float, float], is_dense: bool, label: str
) -> None:
    kept = [(place, row.naive) for place, row in zip(places, rows, strict=True) if row.naive is not None]
    if not kept:
        return
    left, right = window
    below = np.array([place for place, _ in kept]) + (0.0 if is_dense else 0.26)
    value, low, high = np.array([numbers for _, numbers in kept], float).T
    axes.hlines(
        below,
        np.clip(low, left, right),
        np.clip(high, left, right),
        color=RED,
        alpha=0.45,
        linewidth=0.8 if is_dense else 1.4,
        zorder=2,
    )
    inside = (value >= left) & (value <= right)
    axes.plot(
        value[inside],
        below[inside],
        "D",
        color=RED,
        alpha=0.55,
        markersize=1.5 if is_dense else 3.2,
        label=label,
        zorder=2,
    )
    _arrows(axes, below, low < left, high > right, window, RED)


def _arrows(
    axes: Axes, places: Floats, leaves_left: Bools, leaves_right: Bools, window: tuple[float, float], colour: str
) -> None:
    for leaves, end, mark in ((leaves_left, window[0], "<"), (leaves_right, window[1], ">")):
        if leaves.any():
            axes.plot(
                np.full(int(leaves.sum()), end),
                places[leaves],
                mark,
                color=colour,
                alpha=0.8,
                markersize=4,
                clip_on=False,
                zorder=5,
            )


def _window(
    value: Floats, low: Floats, high: Floats, naive: Sequence[tuple[float, float, float]]
) -> tuple[float, float]:
    """All of the estimates' finite ends, and of the faint ones what adds at most `REACH` times that on either side."""
    ends = np.concatenate([value, low, high])
    ends = ends[np.isfinite(ends)]
    if not ends.size:
        raise InvalidArgument("There is no finite number among the rows to draw.", argument="rows")
    left, right = float(ends.min()), float(ends.max())
    wide = (right - left) or abs(right) or 1.0
    faint = np.array(naive, float).ravel()
    faint = faint[np.isfinite(faint) & (faint > left - REACH * wide) & (faint < right + REACH * wide)]
    if faint.size:
        left, right = min(left, float(faint.min())), max(right, float(faint.max()))
    room = ROOM * ((right - left) or wide)
    return left - room, right + room


def _numbers(rows: Sequence[Row]) -> tuple[Floats, Floats, Floats]:
    table = np.array([(row.value, row.low, row.high) for row in rows], float)
    return table[:, 0], table[:, 1], table[:, 2]


def _naive(rows: Sequence[Row]) -> list[tuple[float, float, float]]:
    return [row.naive for row in rows if row.naive is not None]


def _some(rows: Sequence[Row]) -> Sequence[Row]:
    if not rows:
        raise InvalidArgument("rows is empty: there is nothing to plot.", argument="rows")
    return rows
