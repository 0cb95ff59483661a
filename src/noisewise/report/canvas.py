"""What every picture shares: colours, sizes, labels, and the way a figure becomes a file.

A picture is drawn at the width at which it is looked at, in inches of 96 pixels: `WIDE` on a desk, `NARROW` on a
telephone, where the letters keep their size and the labels grow shorter. Nothing here touches a display or matplotlib's
global state, so it works in a server, a worker or a test. The colours are those of Okabe and Ito, which stay apart for
every kind of colour vision.
"""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from noisewise.errors import InvalidArgument
from noisewise.printable import printable

Target = str | PathLike[str] | None

BLUE, ORANGE, GREEN, SKY, RED, PINK, BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#56B4E9", "#D55E00", "#CC79A7", "#1d2733",
)  # fmt: skip
CYCLE = (BLUE, RED, GREEN, ORANGE, PINK, SKY, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY, PALE = "#6b7885", "#e6eaee"
FORMATS = (".png", ".pdf", ".svg")
WIDE, NARROW = 8.6, 3.6  # inches
LEAST_PANEL = 2.6  # inches that a panel needs
EM = 0.085  # inches: about the width of one letter of 10 points


class Png(bytes):
    """The bytes of a picture, which a notebook shows as one."""

    def _repr_png_(self) -> bytes:
        return bytes(self)

    def __repr__(self) -> str:
        width, height = (int.from_bytes(self[start : start + 4], "big") for start in (16, 20))
        return f"<PNG of {width} x {height} pixels>"

    def __str__(self) -> str:
        return repr(self)


def plain(text: object, most: int = 200) -> str:
    """A name as it is written: no formula, one line, and shortened in its middle beyond `most` characters."""
    line = printable(text)
    if len(line) > most:
        line = f"{line[: (most - 1) // 2]}…{line[len(line) - most // 2 :]}"
    return line.replace("$", r"\$")


def with_unit(name: str, unit: str = "") -> str:
    """A label of an axis: the name, and the unit behind it."""
    return plain(f"{name} ({unit.strip()})" if unit.strip() else name)


def panels_of(
    items: Sequence[object], *, width: float, height: float, across: float | None = None
) -> tuple[Figure, list[Axes]]:
    """A figure with one panel an item, at most three a row; empty places stay empty.

    A panel is `width` by `height` inches; where `across` is given the sheet is that wide, and holds what fits.
    """
    columns = min(3, len(items)) if len(items) != 4 else 2
    if across is not None:
        columns = min(columns, max(1, int(across / LEAST_PANEL)))
        width = across / columns
    rows = math.ceil(len(items) / columns)
    figure = Figure(figsize=(width * columns, height * rows + 0.35), layout="constrained")
    grid = np.asarray(figure.subplots(rows, columns, squeeze=False)).ravel().tolist()
    for empty in grid[len(items) :]:
        empty.set_axis_off()
    return figure, grid[: len(items)]


def shared_legend(figure: Figure, panels: Sequence[Axes], order: Sequence[str] = ()) -> None:
    """One legend for all panels, below them; labels that begin as `order` says come first."""
    entries = {
        label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if not entries:
        return
    ranks = {
        label: next((k for k, start in enumerate(order) if label.startswith(start)), len(order)) for label in entries
    }
    labels = sorted(entries, key=lambda label: ranks[label])
    written = [wrapped(label, figure.get_figwidth() - 0.8) if "\n" not in label else label for label in labels]
    longest = max(len(line) for label in written for line in label.split("\n"))
    columns = max(1, int(figure.get_figwidth() / max(1.8, 0.6 + 0.09 * longest)))
    handles = [entries[label] for label in labels]
    figure.legend(handles, written, loc="outside lower center", ncols=columns, frameon=False)


def headed(figure: Figure, note: str) -> None:
    """A line above all panels: what is left out of them."""
    if note:
        figure.suptitle(wrapped(note, figure.get_figwidth() - 0.2), x=0.01, ha="left", fontsize=9, color=GREY)


def tidy(*panels: Axes) -> None:
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)


def wrapped(text: str, width: float) -> str:
    """Words on as many lines as a label of this width in inches takes."""
    return "\n".join(textwrap.wrap(text, max(12, int(width / EM)))) or text


def label_of(parameter: Mapping[str, Any], most: int = 200) -> str:
    """A parameter's name, in at most so many letters, with its unit."""
    unit = str(parameter.get("unit") or "").strip()
    return plain(parameter["name"], most) + (f" ({plain(unit)})" if unit else "")


def finish(figure: Figure, path: Target, *, is_clear: bool = False) -> bytes:
    """The figure as PNG bytes, on transparent ground if `is_clear`; also in a file, in the format of its ending."""
    with warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes; it is no fault of the reader's.
        warnings.filterwarnings("ignore", message="Glyph")
        return _written(figure, path, is_clear)


def _written(figure: Figure, path: Target, is_clear: bool) -> bytes:
    stream = BytesIO()
    figure.savefig(stream, format="png", dpi=150, metadata={"Software": None}, transparent=is_clear)
    data = Png(stream.getvalue())
    if path is not None:
        ending = Path(path).suffix.lower()
        if ending not in FORMATS:
            raise InvalidArgument(
                f"path = {str(path)!r} must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}.", argument="path"
            )
        if ending == ".png":
            Path(path).write_bytes(data)
        else:
            figure.savefig(path, format=ending[1:])
    return data
