"""What values show of themselves in a notebook: well-formed, escaped, and without a record in it."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import noisewise as nw

NASTY = '<script>alert("x")</script>&amp;\u202e'
LEVEL = "<b>north</b>"
CANARY = 83.7519
VOID = {"br", "img"}


class Page(HTMLParser):
    """The tags that are opened, each checked to be closed in its place, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The HTML of one value of every kind, about columns and levels with HTML in their names."""
    columns = {NASTY: nw.Bounded(0, 100, unit="<i>EUR</i>"), "region": nw.Levels([LEVEL, "south"])}
    schema = nw.Schema(columns, n=200, neighbours="change-one")
    x = nw.column(NASTY)
    values = np.append(CANARY, np.arange(199) % 90)
    values[1:31] = -200
    frame = pd.DataFrame({NASTY: values, "region": [LEVEL, "south"] * 100})
    guarantee = nw.PureDP(1)
    plans = [nw.plan(one, schema, guarantee=guarantee) for one in (nw.Mean(x), nw.Mean(x, by="region"))]
    population = nw.Joint(**{NASTY: nw.Normal(mean=stats.norm(50, 50), sd=20)})
    choice = nw.choose([plans[0], nw.plan(nw.Mean(x.clip(0, 90)), schema, guarantee=guarantee)], population,
                       at={f"{NASTY}.mean": [50.0]}, likelihood="clt", progress=False)  # fmt: skip
    path = tmp_path_factory.mktemp("notebook") / "<u>people<u>.ledger"
    table = nw.Table.read(frame, schema)
    with nw.Ledger.open(path, limit=nw.PureDP(3)) as ledger:
        releases = nw.make_releases(table, plans, ledger=ledger)
        told = ledger._repr_html_()
    return {
        "Schema": schema._repr_html_(),
        "Plan": plans[1]._repr_html_(),
        "Choice": choice._repr_html_(),
        "RecordCheck": nw.Table.check(frame, schema, plans=plans)._repr_html_(),
        "Ledger": told,
        "closed ledger": ledger._repr_html_(),
        "Release": releases[1]._repr_html_(),
        "simulated": nw.simulate(plans[0], population, at={f"{NASTY}.mean": 50.0}, seed=1)._repr_html_(),
    }


KINDS = ["Schema", "Plan", "Choice", "RecordCheck", "Ledger", "closed ledger", "Release", "simulated"]


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_well_formed_and_names_are_text_in_it(shown: dict[str, str], kind: str) -> None:
    page = Page(shown[kind])
    assert page.tags <= {"div", "style", "h2", "p", "pre", "table", "thead", "tbody", "tr", "th", "td"}
    assert "\u202e" not in shown[kind]
    if kind in ("Schema", "Plan", "Choice", "RecordCheck", "Release"):
        assert 'alert("x")' in page.text
    if kind in ("Plan", "Release"):
        assert LEVEL in page.text


@pytest.mark.parametrize("kind", KINDS)
def test_no_record_is_in_it(shown: dict[str, str], kind: str) -> None:
    assert "83.75" not in shown[kind]
    assert ("-200" in shown[kind]) == (kind == "RecordCheck")  # a code that many rows share, for the holder alone


def test_a_check_says_that_it_is_not_for_publication(shown: dict[str, str]) -> None:
    assert "Not for publication" in Page(shown["RecordCheck"]).text


def test_a_simulated_release_says_so(shown: dict[str, str]) -> None:
    assert "SIMULATED" in Page(shown["simulated"]).text
    assert "SIMULATED" not in shown["Release"]


def test_a_ledger_lists_what_was_bought(shown: dict[str, str]) -> None:
    text = Page(shown["Ledger"]).text
    assert "in 2 releases" in text
    assert text.count("epsilon = 1") >= 3


def test_long_ones_are_cut(tmp_path: Path) -> None:
    schema = nw.Schema({"g": nw.Levels(range(300))}, n=10, neighbours="change-one")
    made = nw.plan(nw.Histogram("g"), schema, guarantee=nw.PureDP(1))
    wide = nw.Schema({f"x{k}": nw.Bounded(0, 1) for k in range(500)}, n=10, neighbours="change-one")
    with nw.Ledger.open(tmp_path / "ledger", limit=nw.PureDP(1)) as ledger:
        release = nw.make_release(nw.Table.read({"g": [3] * 10}, schema), made, ledger=ledger)
    for value in (schema, made, wide, release):
        assert len(value._repr_html_()) < 10_000
