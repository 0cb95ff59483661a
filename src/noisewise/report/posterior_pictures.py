"""A posterior in pictures: its parameters against their priors, laws of columns, groups, and what differs among them.

    parameters      prior and posterior of each unknown
    distribution    the fitted law of each column (in each group), with its band and the published numbers on it
    groups          a number of each group with its interval, sorted, and what was published beside it
    contrast        that number of one group less that of another; "ratio": divided by it
Everything is computed from draws and releases; nothing is simulated, and nothing costs privacy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol, cast

import numpy as np

from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.inference.answer_sources import AnswerSource
from noisewise.inference.answers import Quantity, summarised
from noisewise.inference.contrasts import contrast
from noisewise.inference.law_draws import MEAN, OF
from noisewise.inference.posterior import Posterior
from noisewise.inference.summary import plot_data
from noisewise.populations.parameters import missing_members
from noisewise.printable import did_you_mean, shown
from noisewise.report.canvas import WIDE, Target
from noisewise.report.densities import Panel, distribution_plot
from noisewise.report.dots import Row, contrast_plot, dot_plot
from noisewise.report.plots import posterior_plot
from noisewise.report.published import Published, group_means, published_bars, published_marks
from noisewise.types import Floats, Theta

__all__ = ["KINDS", "Sheet", "has_groups", "has_laws", "picture"]

MOST_PANELS = 12
MOST_PAIRED = 5  # groups of which every pair is compared; of more, each with the first
MOST_ROWS = 1000  # draws from which a band is taken
PLACES, MOST_VALUES = 300, 40
TAIL, SMALLEST = 0.004, 1e-12  # of the fitted law: left out on either side, and where it ends
NEAR = 0.25  # of the picture, within which it reaches to a bound


@dataclass(frozen=True, slots=True)
class Sheet:
    """What is drawn of a posterior, and how: the number of each group, the group all are compared with, the paper."""

    quantity: str = ""  # without a name what the sentence tells: a mean, a median where there is none, a level's share
    against: str | None = None
    level: float = 0.9
    width: float = WIDE
    is_clear: bool = False
    naive: Posterior | None = None
    panels: int = MOST_PANELS  # at most, of parameters or laws

    def left_out(self, there: int, what: str) -> str:
        """What is said where more are there than panels."""
        return f"The first {self.panels} of {there} {what}." if there > self.panels else ""


class Lawful(Protocol):
    """A source that has the law of a column at every draw (`inference.law_draws`)."""

    @property
    def column(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def levels(self) -> tuple[str, ...]: ...
    @property
    def theta(self) -> Theta: ...
    @property
    def rows(self) -> int: ...
    @property
    def law(self) -> ColumnLaw: ...


class ColumnLaw(Protocol):
    """What is asked of that law."""

    @property
    def is_discrete(self) -> bool: ...
    def log_density(self, x: Floats, theta: Theta) -> Floats: ...
    def quantile(self, u: Sequence[float], theta: Theta) -> Floats: ...


def picture(posterior: Posterior, kind: str | None = None, path: Target = None, sheet: Sheet | None = None) -> bytes:
    """One kind of picture as a PNG (also written to `path`); without a kind, groups where there are any."""
    if kind is None:
        kind = "groups" if has_groups(posterior) else "parameters"
    if kind not in KINDS:
        raise InvalidArgument(
            f"kind = {shown(kind)}{did_you_mean(kind, KINDS)}; there are {', '.join(KINDS)}.", argument="kind"
        )
    posterior.refuse_point("plot")
    return KINDS[kind](posterior, path, sheet or Sheet())


def has_groups(posterior: Posterior) -> bool:
    """Whether a number of each group can be told; False also for what has no answers."""
    try:
        return len(_grouped(posterior)) > 1
    except Unsupported:
        return False


def has_laws(posterior: Posterior) -> bool:
    """Whether there is a law of a column to draw; False also for what has no answers."""
    try:
        return bool(_laws(posterior))
    except NoisewiseError:
        return False


def parameters_picture(posterior: Posterior, path: Target, sheet: Sheet) -> bytes:
    """Each unknown's posterior against its prior and, where given, the posterior that ignores the noise."""
    ignoring = {} if sheet.naive is None else dict(sheet.naive.scalars())
    every = plot_data(posterior, sheet.level)
    entries = [{**entry, "naive": ignoring.get(entry["name"])} for entry in every[: sheet.panels]]
    note = sheet.left_out(len(every), "parameters")
    return posterior_plot(entries, path, width=sheet.width, is_clear=sheet.is_clear, note=note)


def distribution_picture(posterior: Posterior, path: Target, sheet: Sheet) -> bytes:
    """The fitted law of every column, in every group, as far as panels go."""
    laws = _laws(posterior)
    if not laws:
        raise Unsupported(
            "There is no law of a column to draw: kind='distribution' is for populations. Use kind='parameters'."
        )
    drawn = laws[: sheet.panels]
    if len({source.column for source in drawn}) == 1:
        x = [_at(posterior, source) for source in drawn]
        whole = np.linspace(min(one[0] for one, _ in x), max(one[-1] for one, _ in x), PLACES)
        is_curve = not any(labels for _, labels in x) and not any(source.law.is_discrete for source in drawn)
        panels = [_panel(posterior, source, sheet, whole if is_curve else None) for source in drawn]
    else:
        panels = [_panel(posterior, source, sheet) for source in drawn]
    note = sheet.left_out(len(laws), "groups" if drawn[0].group else "columns")
    return distribution_plot(panels, path, level=sheet.level, width=sheet.width, is_clear=sheet.is_clear, note=note)


def groups_picture(posterior: Posterior, path: Target, sheet: Sheet) -> bytes:
    """A number of every group with its interval, and for means what was published beside it."""
    told = group_numbers(posterior, sheet)
    is_mean = _quantity(posterior, sheet) in (MEAN, f"{OF}1")  # the share of 1 is the mean of 0 and 1
    published = _published_means(posterior, sheet) if is_mean else {}
    rows = [Row(one.group, *_numbers(one), published.get(one.group)) for one in told]
    return dot_plot(rows, path, x_label=_axis(told[0]), level=sheet.level, width=sheet.width, is_clear=sheet.is_clear)


def difference_picture(posterior: Posterior, path: Target, sheet: Sheet) -> bytes:
    """Every pair of a few groups, or each of many against one, as differences around 0."""
    return _contrasts(posterior, path, sheet, "difference")


def ratio_picture(posterior: Posterior, path: Target, sheet: Sheet) -> bytes:
    """The same as ratios around 1."""
    return _contrasts(posterior, path, sheet, "ratio")


KINDS: dict[str, Callable[[Posterior, Target, Sheet], bytes]] = {
    "parameters": parameters_picture,
    "distribution": distribution_picture,
    "groups": groups_picture,
    "contrast": difference_picture,
    "ratio": ratio_picture,
}


def group_numbers(posterior: Posterior, sheet: Sheet) -> list[Quantity]:
    """The number asked for, of each group, highest first."""
    sources, quantity = _grouped(posterior), _quantity(posterior, sheet)
    if not sources:
        raise Unsupported("There are no groups here: releases by group are learnt with Grouped. Use kind='parameters'.")
    found = [summarised(posterior, source.drawn(quantity), sheet.level) for source in sources]
    told = [one for one in found if one.estimate is not None]
    if not told:
        raise Unsupported(f"No group has a {quantity} that can be told; ask for another quantity=.")
    return sorted(told, key=lambda one: -(one.estimate or 0.0))


def pairs_of(names: Sequence[str], against: str | None) -> list[tuple[str, str]]:
    """Which groups are compared: each with `against`; without it every pair of a few, the first with each of many."""
    if against is not None and against not in names:
        raise InvalidArgument(
            f"against = {shown(against)}{did_you_mean(against, names)}; there are {', '.join(names[:20])}.",
            argument="against",
        )
    if against is None and len(names) <= MOST_PAIRED:
        return list(combinations(names, 2))
    first = names[0] if against is None else against
    return [(first, name) if against is None else (name, first) for name in names if name != first]


def _contrasts(posterior: Posterior, path: Target, sheet: Sheet, kind: str) -> bytes:
    told, quantity = group_numbers(posterior, sheet), _quantity(posterior, sheet)
    pairs = pairs_of([one.group for one in told], sheet.against)
    if not pairs:
        raise Unsupported("There is one group, and nothing to compare it with; use kind='groups'.")
    sign, reference = ("−", 0.0) if kind == "difference" else ("÷", 1.0)
    rows = []
    for first, second in pairs:
        found = contrast(posterior, quantity, first, second, kind=kind, column=told[0].column, level=sheet.level)
        rows.append(Row(first, *_numbers(found.told), sign=sign, other=second))
    label = f"{kind} of {_axis(told[0])}" if kind == "difference" else f"ratio of {_name(told[0])}"
    return contrast_plot(
        rows, path, x_label=label, reference=reference, level=sheet.level, width=sheet.width, is_clear=sheet.is_clear
    )


def _laws(posterior: Posterior) -> list[Lawful]:
    return [cast(Lawful, source) for source in posterior.answer_sources() if not missing_members(source, Lawful)]


def _grouped(posterior: Posterior) -> list[AnswerSource]:
    """The sources of groups of the first column that has them."""
    sources = [source for source in posterior.answer_sources() if source.group]
    return [source for source in sources if source.column == sources[0].column]


def _quantity(posterior: Posterior, sheet: Sheet) -> str:
    """The number asked for, or what the sentence tells of groups."""
    headlines = [headline for source in _grouped(posterior)[:1] for headline in source.headlines()]
    return sheet.quantity or (headlines[0].drawn.quantity if headlines else MEAN)


def _published_means(posterior: Posterior, sheet: Sheet) -> dict[str, Published | None]:
    column = _grouped(posterior)[0].column
    found: dict[str, Published | None] = {}
    for release in posterior.releases:
        found |= group_means(release, sheet.level).get(column, {})
    return found


def _some_rows(source: Lawful) -> Theta:
    """The parameters of a source at some of its draws, evenly chosen."""
    chosen = np.unique(np.linspace(0, source.rows - 1, min(source.rows, MOST_ROWS)).round().astype(int))
    return {
        name: value[chosen] if len(np.atleast_1d(value)) == source.rows else value
        for name, value in source.theta.items()
    }


def _at(posterior: Posterior, source: Lawful) -> tuple[Floats, tuple[str, ...]]:
    """Where the law of a source is drawn, and the names of these places where it has few values."""
    if source.levels:
        return np.arange(len(source.levels), dtype=float), source.levels
    return _places(source.law, _some_rows(source), _bounds(posterior, source.column))


def _panel(posterior: Posterior, source: Lawful, sheet: Sheet, places: Floats | None = None) -> Panel:
    """The law of one source at some of its draws: the mean of its density and the band, place by place."""
    theta = _some_rows(source)
    bars = None if source.group else published_bars(posterior.releases, source.column, sheet.level)
    x, labels = _at(posterior, source) if places is None else (places, ())
    with np.errstate(all="ignore"):
        heights = np.atleast_2d(np.exp(source.law.log_density(x, theta)))
    heights = np.where(np.isfinite(heights), heights, np.nan)  # a density may have a pole at its end
    known = heights[:, np.isfinite(heights).any(axis=0)]
    x, labels = (x, labels) if known.shape == heights.shape else (x[np.isfinite(heights).any(axis=0)], ())
    low, high = np.nanquantile(known, [(1 - sheet.level) / 2, (1 + sheet.level) / 2], axis=0)
    middle = np.nanmean(known, axis=0)  # what a next record is drawn from; a median of densities is none
    marks = published_marks(posterior.releases, source.column, group=source.group, level=sheet.level)
    return Panel(
        source.column or "value",
        x,
        middle,
        low,
        high,
        unit=source.unit,
        title=source.group,
        labels=labels,
        bars=bars,
        marks=[] if source.levels else marks,
    )


def _places(law: ColumnLaw, theta: Theta, bounds: tuple[float, float]) -> tuple[Floats, tuple[str, ...]]:
    """Where a law is drawn: its bulk, as a grid, or as its whole numbers with their names."""
    ends = np.atleast_2d(law.quantile([TAIL, 1 - TAIL, SMALLEST, 1 - SMALLEST], theta))
    left, right = float(np.quantile(ends[:, 0], 0.1)), float(np.quantile(ends[:, 1], 0.9))
    if law.is_discrete and right - left < MOST_VALUES:
        x = np.arange(np.floor(left), np.ceil(right) + 1)
        return x, tuple(f"{value:g}" for value in x)
    if law.is_discrete:
        return np.unique(np.linspace(left, right, PLACES).round()), ()
    room = 0.04 * (right - left) or 1.0
    # Where the law ends, the picture does: beyond there is nothing to see.
    least, most = float(np.median(ends[:, 2])), float(np.median(ends[:, 3]))
    wide = right - left
    left = bounds[0] if 0 < left - bounds[0] < NEAR * wide and bounds[0] >= least - room else left - room
    right = bounds[1] if 0 < bounds[1] - right < NEAR * wide and bounds[1] <= most + room else right + room
    starts, ends_at = max(left, least - room), min(right, most + room)
    return np.linspace(starts, ends_at, PLACES), ()


def _bounds(posterior: Posterior, column: str) -> tuple[float, float]:
    """The declared bounds of a column; none where it has none."""
    for release in posterior.releases:
        if column in release.schema.numeric:
            bounds = release.schema.bounded(column)
            return float(bounds.low), float(bounds.high)
    return -np.inf, np.inf


def _numbers(one: Quantity) -> tuple[float, float, float]:
    numbers = (np.nan if value is None else float(value) for value in (one.estimate, one.low, one.high))
    value, low, high = numbers
    return value, low, high


def _axis(one: Quantity) -> str:
    unit = f" ({one.unit})" if one.unit else ""
    return f"{_name(one)}{unit}"


def _name(one: Quantity) -> str:
    """Mean income; share of smoker = yes."""
    if one.quantity.startswith(OF) and one.column:
        return f"{OF}{one.column} = {one.quantity.removeprefix(OF)}"
    return f"{one.quantity} {one.column}".strip()
