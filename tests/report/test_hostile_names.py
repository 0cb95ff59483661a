"""Names that break tables and pictures: brackets and stars at a row's start, names longer than their panels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.inference.tables import TextTable
from noisewise.report import densities
from noisewise.report.dots import Row, _name
from noisewise.report.posterior_pictures import Sheet


def test_a_row_of_latex_never_begins_with_what_a_line_end_takes_for_its_own() -> None:
    lines = TextTable(("", "rank"), (("[x]", "1"), ("*", "2"), ("plain", "3"))).latex().split("\n")
    rows = [line for line in lines if line.endswith(r"\\")][1:]
    assert rows == [r"{}[x] & 1 \\", r"{}* & 2 \\", r"plain & 3 \\"]


def test_both_names_of_a_contrast_are_seen_beside_their_sign() -> None:
    long = Row("x" * 120, 0.0, 0.0, 0.0, sign="−", other="<script>alert(1)</script>")
    shown = _name(long, 40)
    assert " − <script" in shown
    assert shown.startswith("xx")
    assert len(shown) <= 40
    assert _name(Row("north", 0.0, 0.0, 0.0, sign="÷", other="south"), 40) == "north ÷ south"


def test_a_picture_says_how_much_it_leaves_out() -> None:
    assert Sheet(panels=6).left_out(200, "groups") == "The first 6 of 200 groups."
    assert Sheet().left_out(12, "groups") == ""


def test_panels_that_share_an_axis_have_ticks_as_far_as_the_tallest_law(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}
    monkeypatch.setattr(densities, "finish", lambda figure, *_, **__: seen.update(axes=figure.axes) or b"")
    x = np.linspace(0, 10, 50)
    panels = [
        densities.Panel("x", x, h * np.exp(-x), h * np.exp(-x), h * np.exp(-x), title=str(h), marks=[mark])
        for h, mark in ((0.1, densities.Mark("mean(x)", 1, 0.9, 1.1)), (0.9, densities.Mark("mean(x)", 1, 0.9, 1.1)))
    ]
    densities.distribution_plot(panels)
    for axes in seen["axes"]:
        assert max(axes.get_yticks()) > 0.6


def test_grouped_prints_as_it_was_written() -> None:
    law = nw.Gamma(shape=4, rate=stats.halfnorm(scale=0.2))
    wide = {"rate": stats.halfnorm(scale=1)}
    names = {"nw": nw, "stats": stats, "Grouped": nw.Grouped, "Gamma": nw.Gamma}
    for made, text in (
        (nw.Grouped("g", x=law), "Grouped('g', x=Gamma(shape=4, rate=stats.halfnorm(scale=0.2)))"),
        (nw.Grouped(holders=True, x=law, pooled="rate"), f"Grouped(holders=True, x={law}, pooled=('rate',))"),
        (
            nw.Grouped(["g", "h"], x=law, pooled=("rate",), spread=wide, shares=stats.dirichlet([1, 2.5]), present=0.8),
            f"Grouped(['g', 'h'], x={law}, pooled=('rate',), spread=stats.halfnorm(scale=1), "
            "shares=stats.dirichlet([1, 2.5]), present=0.8)",
        ),
    ):
        assert repr(made) == text
        assert repr(eval(text, names)) == text
