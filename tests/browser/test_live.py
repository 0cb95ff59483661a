"""The live page in a real browser: what is learnt, drawn by its own script; the operator's part for the operator."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from scipy import stats
from serving_surveys import WORDS, requests_of, served, sized, text_of, until

import noisewise as nw
from noisewise.collector.board import ColumnWords
from noisewise.online.simulate import simulated_answer

pytest.importorskip("noisewise.collector.web", reason="starlette is not installed (extra 'survey')")
httpx = pytest.importorskip("httpx", reason="httpx is not installed (extra 'dev')")


def answer(server, rng, count):
    for _ in range(count):
        query = nw.Query.from_dict(httpx.post(f"{server.url}/api/query", json={}).json()["query"])
        value = simulated_answer(rng, query, float(rng.normal(46, 18))).value
        httpx.post(f"{server.url}/api/answer", json={"id": query.id, "value": value}).raise_for_status()


def test_the_live_page_follows_what_is_learnt(driver, tmp_path, rng):
    with served(tmp_path) as server:
        until(lambda: server.board.read("shown"))  # steps are counted from the first picture
        answer(server, rng, 12)
        driver.get(f"{server.url}/live")
        until(lambda: text_of(driver, "#facts dd") in ("10", "11", "12"))  # a step may end at any
        assert text_of(driver, "h1") == WORDS.title
        assert len(driver.find_elements("css selector", "#courses section svg path")) == 4  # mean and sd: band and line
        assert driver.find_elements("css selector", "#fitted svg path")
        assert "next person is asked: a number between 0 and 120 minutes" in text_of(driver, "#asking")
        assert not driver.find_element("id", "operator").is_displayed()
        answer(server, rng, 30)
        until(lambda: int(text_of(driver, "#facts dd")) >= 33)  # fewer than ten are missing
        for width in (320, 1200):
            sized(driver, width, 800)
            assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        sized(driver, 390, 844)
        made = requests_of(driver)
        assert made
        assert all(url.startswith(server.url) for _, url, _, _ in made if url.startswith("http"))
        assert [line for line in driver.get_log("browser") if line["level"] == "SEVERE"] == []


def test_the_operators_page_shows_more_and_closes(driver, tmp_path, rng):
    with served(tmp_path) as server:
        answer(server, rng, 3)
        driver.get("about:blank")
        driver.get(f"{server.url}/live#admin={server.token}")
        until(lambda: driver.find_element("id", "operator").is_displayed())
        assert "outstanding" in text_of(driver, "#numbers")
        assert text_of(driver, "#numbers dd") == "3"
        for _, url, body, _ in requests_of(driver):
            assert server.token not in url.partition("#")[0] + body
        driver.execute_script("globalThis.confirm = () => true; document.getElementById('close').click()")
        until(lambda: server.store.standing().is_closed)
        until(lambda: "closed" in text_of(driver, "#tags"))
        assert until(lambda: driver.find_elements("css selector", "#export a"))
        assert json.loads(httpx.get(f"{server.url}/api/export").content)["answers"] == 3


def test_a_question_with_markup_in_it_is_shown_as_text(driver, tmp_path):
    """What the operator writes is never taken for HTML, on either page."""
    long = "w" * 300  # has no place to break
    words = replace(WORDS, title=f"<img src=x onerror=alert(1)>{long}", question="<script>alert(2)</script>")
    with served(tmp_path, words=words) as server:
        driver.get("about:blank")
        driver.get(server.link())
        until(lambda: driver.find_elements("id", "send"))
        for url in (None, f"{server.url}/live"):
            if url is not None:
                driver.get(url)
            sized(driver, 390, 844)
            until(lambda: text_of(driver, "h1") == words.title)
            assert not driver.find_elements("css selector", "img")
            assert driver.execute_script("return document.documentElement.scrollWidth") <= 390


def test_axes_and_numbers_with_late_digits_are_told_apart_and_not_cut_off(driver, tmp_path):
    population = nw.Normal(mean=stats.norm(1_000_005, 2), sd=stats.halfnorm(scale=2))
    query = nw.Query.clip(1_000_000, 1_000_010, guarantee=nw.PureDP(1))
    with served(tmp_path, population=population, queries=query) as server:
        driver.get(f"{server.url}/live")
        until(lambda: driver.find_elements("css selector", "#courses strong"))
        middle, low, high = re.findall(r"[\d,.]*\d(?= minutes| and| with)", text_of(driver, "#courses p"))
        sized(driver, 390, 844)
        for canvas in driver.find_elements("css selector", "#courses svg, #fitted svg"):
            names = canvas.find_elements("css selector", "text")
            assert all(one.rect["x"] >= canvas.rect["x"] for one in names)
            labels = [one.text for one in names if one.text.startswith(("1,00", "999,"))]
            assert len(set(labels)) == len(labels)
        assert len({low, middle, high}) == 3


def test_several_columns_are_drawn_one_by_one(driver, tmp_path, rng):
    """A density for numbers, bars for levels, in the survey's words."""
    columns = {
        "minutes": ColumnWords("How long was your way?", "minutes"),
        "way": ColumnWords("How did you come?", "", {"walk": "on <b>foot</b>"}),
    }
    population = nw.Joint(
        minutes=nw.Normal(mean=stats.norm(40, 30), sd=stats.halfnorm(scale=30)),
        way=nw.Categorical(p=stats.dirichlet([1, 1, 1])),
    )
    words = replace(WORDS, columns=columns)
    given = {"population": population, "queries": "auto", "levels": {"way": ["walk", "bus", "car"]}, "words": words}
    with served(tmp_path, **given) as server:
        for _ in range(25):
            query = nw.Query.from_dict(httpx.post(f"{server.url}/api/query", json={}).json()["query"])
            value = simulated_answer(rng, query, 1 if query.levels else 46.0).value
            httpx.post(f"{server.url}/api/answer", json={"id": query.id, "value": value}).raise_for_status()
        driver.get(f"{server.url}/live")
        until(lambda: int(text_of(driver, "#facts dd") or 0) >= 16)  # fewer than ten are missing
        heads = [one.text for one in driver.find_elements("css selector", "#fitted h3")]
        assert heads == ["How long was your way?", "How did you come?"]
        assert len(driver.find_elements("css selector", "#fitted svg path")) == 2  # the density and its line
        bars = [one.text for one in driver.find_elements("css selector", ".bars li")]
        assert len(bars) == 3
        assert bars[0].startswith("on <b>foot</b> ")
        assert all("%, between" in bar for bar in bars)
        courses = [one.text for one in driver.find_elements("css selector", "#courses h2")]
        spread = "Spread between people (standard deviation) minutes.sd"
        shares = ["Share: on <b>foot</b>", "Share: bus", "Share: car"]
        assert courses == ["Average minutes.mean", spread, *shares]
        about = [one.text for one in driver.find_elements("css selector", "#courses .soft")]
        assert about == ["How long was your way?"] * 2 + ["How did you come?"] * 3
        for width in (320, 390, 1400):
            sized(driver, width, 800)
            assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        sized(driver, 390, 844)
        assert [line for line in driver.get_log("browser") if line["level"] == "SEVERE"] == []
