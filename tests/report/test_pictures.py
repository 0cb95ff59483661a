"""Pictures of groups, contrasts and distributions: they draw what they are given, at any size, without a warning."""

from __future__ import annotations

import math
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from noisewise.errors import InvalidArgument
from noisewise.report.canvas import BLUE, GREY, NARROW, RED, WIDE, plain
from noisewise.report.densities import Bars, Mark, Panel, distribution_plot
from noisewise.report.dots import Row, contrast_plot, dot_plot

NASTY = ["$", "$x_1", "a_b^c", r"\frac{1}{", "<b>&amp;</b>", "x" * 300, "", "日本 😀", "‮evil", "%s {0}"]
ROWS = [Row(name, k, k - 1.0, k + 2.0, (k + 0.5, k - 3.0, k + 3.0)) for k, name in enumerate(NASTY)]
X = np.linspace(0, 10, 60)
HEIGHT = np.exp(-X)


def pixels(data: bytes) -> np.ndarray:
    return imread(BytesIO(data), format="png")[..., :3]


def share_of(data: bytes, colour: str) -> float:
    """The share of pixels in exactly this colour."""
    return float(np.mean(np.all(np.abs(pixels(data) - np.array(to_rgb(colour))) < 0.02, axis=-1)))


def rows_in(data: bytes, colour: str) -> int:
    """How many separate horizontal strips of this colour the picture's body has."""
    found = np.any(np.all(np.abs(pixels(data) - np.array(to_rgb(colour))) < 0.02, axis=-1), axis=1)
    return int(np.sum(np.diff(np.concatenate([[0], found.astype(int)])) == 1))


def panel(name: str = "income", **more: object) -> Panel:
    return Panel(name, X, HEIGHT, 0.9 * HEIGHT, 1.1 * HEIGHT, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("count", [1, 2, 60, 61, 200])
def test_any_number_of_groups_is_drawn_within_a_page(count: int, width: float) -> None:
    rows = [Row(f"region {k}", k % 7, k % 7 - 1.0, k % 7 + 1.0, (k % 5, -20.0, 20.0)) for k in range(count)]
    height, wide, _ = pixels(dot_plot(rows, x_label="mean income (thousand EUR)", width=width)).shape
    assert wide == round(150 * width)
    assert height < 150 * 20


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_names_are_drawn_as_they_are_written_whatever_they_hold(width: float) -> None:
    for data in (
        dot_plot(ROWS, x_label="mean $ (a_b)", width=width),
        contrast_plot(ROWS, x_label="difference ($)", reference=0.0, width=width),
        *(distribution_plot([panel(name, unit=name[:40], title=name)], width=width) for name in NASTY),
        distribution_plot([panel(marks=[Mark(name, 3.0, 2.0, 4.0) for name in NASTY])], width=width),
        distribution_plot([Panel("r", np.arange(10.0), X[:10], X[:10], X[:10], labels=NASTY)], width=width),
    ):
        assert data.startswith(b"\x89PNG")


def test_a_long_name_keeps_its_ends_and_a_formula_stays_text() -> None:
    assert plain("abcdefghij", 5) == "ab…ij"
    assert len(plain("x" * 300, 20)) == 20
    assert plain("$x$") == r"\$x\$"


def test_every_row_has_its_interval_and_the_faint_one_only_where_it_was_given() -> None:
    rows = [Row("a", 1, 0, 2), Row("b", 5, 4, 6), Row("c", 9, 8, 10)]
    assert rows_in(dot_plot(rows, x_label="x"), BLUE) >= 3
    assert share_of(dot_plot(rows, x_label="x"), RED) == 0
    assert dot_plot(rows, x_label="x") != dot_plot([Row("a", 1, 0, 2, (1, 0, 3)), *rows[1:]], x_label="x")


def test_rows_are_sorted_by_estimate_unless_told_otherwise() -> None:
    rows = [Row("low", 1, 0, 2), Row("high", 9, 8, 10), Row("middle", 5, 4, 6)]
    assert dot_plot(rows, x_label="x") == dot_plot(rows[::-1], x_label="x")
    assert dot_plot(rows, x_label="x", is_sorted=False) != dot_plot(rows[::-1], x_label="x", is_sorted=False)


@pytest.mark.parametrize(
    "row",
    [
        Row("both", 1.0, -math.inf, math.inf),
        Row("one end", 1.0, 0.0, math.inf),
        Row("no value", math.nan, math.nan, math.nan),
        Row("one draw", 1.0, 1.0, 1.0),
        Row("naive ends", 1.0, 0.0, 2.0, (math.nan, -math.inf, math.inf)),
        Row("naive far away", 1.0, 0.0, 2.0, (1e12, -1e300, 1e300)),
        Row("huge", 1e300, -1e300, 1e300),
    ],
    ids=lambda row: row.name,
)
def test_ends_without_a_number_are_arrows_and_no_fault(row: Row) -> None:
    rows = [Row("plain", 3.0, 2.0, 4.0), row]
    assert dot_plot(rows, x_label="x").startswith(b"\x89PNG")
    assert contrast_plot(rows, x_label="x", reference=1.0).startswith(b"\x89PNG")


def test_noise_far_beyond_the_estimates_does_not_squeeze_them() -> None:
    """A naive interval a million times as wide leaves the estimates' own picture as it is."""
    near = [Row("a", 1, 0, 2), Row("b", 5, 4, 6)]
    wild = [Row("a", 1, 0, 2, (1, -1e6, 1e6)), Row("b", 5, 4, 6)]
    assert share_of(dot_plot(wild, x_label="x"), BLUE) > 0.6 * share_of(dot_plot(near, x_label="x"), BLUE)


def test_a_contrast_that_holds_its_reference_is_grey_and_one_that_leaves_it_out_is_not() -> None:
    apart = contrast_plot([Row("a − b", 3, 2, 4)], x_label="x", reference=0)
    equal = contrast_plot([Row("a − b", 1, -2, 4)], x_label="x", reference=0)
    assert share_of(apart, BLUE) > 5 * share_of(equal, BLUE)
    assert share_of(equal, GREY) > 2 * share_of(apart, GREY)


def test_nothing_to_draw_is_a_sentence() -> None:
    for draw in (
        lambda: dot_plot([], x_label="x"),
        lambda: contrast_plot([], x_label="x", reference=0),
        lambda: distribution_plot([]),
        lambda: dot_plot([Row("a", math.nan, math.nan, math.nan)], x_label="x"),
    ):
        with pytest.raises(InvalidArgument):
            draw()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 12])
def test_panels_of_groups_fit_on_one_sheet(count: int) -> None:
    for width in (WIDE, NARROW):
        data = distribution_plot([panel(title=f"group {k}") for k in range(count)], width=width)
        assert pixels(data).shape[1] == round(150 * width)


def test_published_bars_stand_behind_the_curve_and_a_pole_does_not_flatten_it() -> None:
    bars = Bars(np.arange(0.0, 11.0), np.full(10, 0.1), np.full(10, 0.05), np.full(10, 0.15))
    assert distribution_plot([panel(bars=bars)]) != distribution_plot([panel()])
    with_pole = HEIGHT.copy()
    with_pole[0] = 1e9
    shown = distribution_plot([Panel("income", X, HEIGHT, HEIGHT, with_pole)])
    assert share_of(shown, BLUE) > 0.5 * share_of(distribution_plot([panel()]), BLUE)


def test_pictures_are_written_in_the_format_of_the_ending_and_clear_ones_have_no_ground(tmp_path: Path) -> None:
    data = dot_plot(ROWS, tmp_path / "groups.svg", x_label="x", is_clear=True)
    assert "<svg" in (tmp_path / "groups.svg").read_text("utf-8")
    assert imread(BytesIO(data), format="png")[0, 0, 3] == 0
    assert imread(BytesIO(dot_plot(ROWS, x_label="x")), format="png")[0, 0].tolist() == [1, 1, 1, 1]
