"""Promises D1, D3, D4 in a real browser: the value stays, the asker cannot overcharge, a retry is the same answer."""

from __future__ import annotations

import functools
import http.server
import json
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest
from collecting import answered_lines
from scipy import stats
from serving_surveys import COUNTER, WORDS, altered_page, before_scripts, requests_of, served, sized, text_of, until

import noisewise as nw

keys = pytest.importorskip("selenium.webdriver.common.keys", reason="selenium is not installed (make browser)")
httpx = pytest.importorskip("httpx", reason="httpx is not installed (extra 'dev')")
web = pytest.importorskip("noisewise.collector.web", reason="starlette is not installed (extra 'survey')")
from noisewise.collector.board import ColumnWords, Handed, hand_out, invite  # noqa: E402
from noisewise.collector.desk import Desk  # noqa: E402
from noisewise.errors import SurveyError  # noqa: E402

CANARY = "61.80339887"
LATER = "const now = Date.now.bind(Date); Date.now = () => now() + 3 * 86400e3;"
NO_STORAGE = "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); };"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with served(tmp_path_factory.mktemp("page")) as server:
        yield server


def opened(driver, link):
    """The page at a link, loaded anew even if only its fragment differs."""
    driver.get("about:blank")
    driver.get(link)


def question(driver, link):
    opened(driver, link)
    return until(lambda: driver.find_elements("id", "send"))


def answer(driver, value=CANARY):
    driver.find_element("id", "value").send_keys(value)
    driver.find_element("id", "send").click()


def receipt(driver):
    return until(lambda: text_of(driver, "#receipt"))


def refusal(driver):
    return until(lambda: text_of(driver, "#refusal"))


def stored(driver):
    return json.loads(driver.execute_script("return JSON.stringify({...localStorage})"))


def kept_answers(driver):
    return json.loads(stored(driver).get("noisewise-account/1", '{"answers": []}'))["answers"]


def sent(driver):
    """The bodies of all answers that left the browser since the last time this was asked."""
    return [body for _, url, body, _ in requests_of(driver) if url.endswith("/api/answer")]


def logged(server, id):
    return [value for one, value in answered_lines(server.store) if one == id]


# ---- D1: the value never leaves ----


def check_silence(driver, server):
    """Answer with a canary; it is in nothing that was sent or kept, and nobody else was spoken to."""
    question(driver, server.link())
    requests_of(driver)
    length = driver.execute_script("return history.length")
    answer(driver)
    receipt(driver)
    made = requests_of(driver)
    digits = CANARY.replace(".", "")
    for method, url, body, headers in made:
        assert url.startswith(server.url + "/"), url
        for secret in (CANARY, digits, CANARY.replace(".", ",")):
            assert secret not in url + body + headers, method
    (body,) = (body for _, url, body, _ in made if url.endswith("/api/answer"))
    assert set(json.loads(body)) == {"id", "value"}
    kept = driver.execute_async_script(
        "const done = arguments[0]; (async () => done(JSON.stringify([{...localStorage}, {...sessionStorage}, "
        "document.cookie, location.href, history.length, document.documentElement.outerHTML, "
        "[...document.querySelectorAll('input')].map((i) => i.value), await indexedDB.databases(), "
        "await caches.keys()])))();"
    )
    assert CANARY not in kept
    assert digits not in kept
    assert json.loads(kept)[4] == length
    assert json.loads(kept)[2] == ""


def test_the_value_is_in_nothing_that_is_sent_or_kept(driver, place):
    check_silence(driver, place)
    assert [line for line in driver.get_log("browser") if line["level"] == "SEVERE"] == []


@pytest.mark.parametrize(
    "planted",
    [
        ("await deliver();\n}", "fetch(`/healthz?x=${value}`); await deliver();\n}"),
        ("await deliver();\n}", "sessionStorage.setItem('x', value); await deliver();\n}"),
        ("await deliver();\n}", "history.pushState({}, '', `#${value}`); await deliver();\n}"),
        ('"value": ${kept.value}}`', '"value": ${kept.value}, "x": ${globalThis.typed}}`'),
    ],
)
def test_a_page_that_lets_the_value_out_is_caught(driver, tmp_path, monkeypatch, planted):
    old, new = planted
    body = altered_page(
        (old, new), ("  isBusy = true;\n  byId", "  globalThis.typed = value;\n  isBusy = true;\n  byId")
    )
    monkeypatch.setattr(web, "page", lambda name="respond": body if name == "respond" else b"")
    with served(tmp_path, learns=False) as server, pytest.raises(AssertionError):
        check_silence(driver, server)


def test_no_going_back_and_no_reload_brings_a_typed_value_back(driver, place):
    question(driver, place.link())
    driver.find_element("id", "value").send_keys(CANARY)
    driver.get(f"{place.url}/healthz")
    driver.back()
    until(lambda: driver.find_elements("id", "send"))
    assert driver.find_element("id", "value").get_attribute("value") == ""
    driver.find_element("id", "value").send_keys(CANARY)
    driver.refresh()
    until(lambda: driver.find_elements("id", "send"))
    assert driver.find_element("id", "value").get_attribute("value") == ""
    assert driver.find_element("id", "value").get_attribute("autocomplete") == "off"


@contextmanager
def elsewhere(folder):
    """The saved page on another origin."""
    (folder / "copy.html").write_bytes(web.page())
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    handler.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/copy.html"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("kind", ["another origin", "a saved copy"])
def test_the_page_works_from_elsewhere(driver, place, tmp_path, kind, monkeypatch):
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    with elsewhere(tmp_path) as url:
        where = url if kind == "another origin" else (tmp_path / "copy.html").as_uri()
        question(driver, f"{where}#k={place.key}&c={place.url}")
        answer(driver)
        assert receipt(driver)
        (kept,) = kept_answers(driver)
    assert logged(place, kept["id"]) == [int(kept["value"])]


# ---- D3: the asker cannot overcharge ----


def check_refused(driver, link, words):
    """A sentence; nothing was drawn, nothing was sent, nothing is booked."""
    requests_of(driver)
    with before_scripts(driver, COUNTER):
        opened(driver, link)
        assert words in refusal(driver)
        assert driver.execute_script("return globalThis.chance") == 0
    assert sent(driver) == []
    assert kept_answers(driver) == []


def altered_queries(monkeypatch, change):
    """A dishonest asker: the query is altered and then signed."""

    def dishonest(desk, session, invitation):
        handed = hand_out(desk, session, invitation)
        if handed is None:
            return None
        plain = json.loads(handed.query)
        change(plain)
        return Handed(handed.id, json.dumps(plain), handed.is_answered)

    monkeypatch.setattr(web, "hand_out", dishonest)


def scaled(factor):
    def change(plain):
        plain["law"]["scale"][0] *= factor

    return change


COIN = {"family": "randomized-response", "keep": "9/10", "cells": 2}
CHANGES = {
    "less noise": scaled(0.999),
    "half the noise": scaled(0.5),
    "more noise": scaled(2),
    "wider ends": lambda plain: plain.update(high=240.0),
    "coarse steps": lambda plain: plain["law"].update(step=[64.0]),
    "no noise": lambda plain: plain["law"].update(scale=[0.0]),
    "another family": lambda plain: plain["law"].update(family="rounded-gaussian"),
    "an unknown family": lambda plain: plain["law"].update(family="none"),
    "two scales": lambda plain: plain["law"].update(scale=[120.0, 120.0]),
    "not a number": lambda plain: plain["law"].update(scale=["120"]),
    "a cheaper promise": lambda plain: plain["guarantee"].update(epsilon="1/2"),
    "cells without edges": lambda plain: plain.update(law=COIN),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_altered_law_is_refused_although_it_is_signed(driver, place, monkeypatch, name):
    altered_queries(monkeypatch, CHANGES[name])
    check_refused(driver, place.link(), "noise is not what the promised guarantee asks for")


def test_a_yes_or_no_is_asked_in_words_and_a_chance_of_guessing_is_not_rounded_down(driver, tmp_path):
    population, words = nw.Bernoulli(p=stats.beta(1, 1)), replace(WORDS, unit="", levels={"0": "no", "1": "yes"})
    with served(tmp_path, population=population, queries="auto", words=words, guarantee=nw.PureDP("1/1000")) as server:
        question(driver, server.link())
        assert [one.text for one in driver.find_elements("css selector", ".choice")] == ["no", "yes"]
        assert "right with probability at most 50.1%." in text_of(driver, "#screen")
        driver.find_elements("css selector", ".choice")[1].click()
        driver.find_element("id", "send").click()
        receipt(driver)
        (kept,) = kept_answers(driver)
        assert text_of(driver, "#sent") == ["no", "yes"][int(kept["value"])]


def test_numbers_that_differ_in_late_digits_are_told_apart(driver, tmp_path):
    ends = (100_000.2, 100_003.7)
    with served(tmp_path, queries=nw.Query.cells(ends, guarantee=nw.PureDP(1))) as server:
        question(driver, server.link())
        assert [one.text for one in driver.find_elements("css selector", ".choice")] == [
            "below 100,000.2 minutes", "100,000.2 to below 100,003.7 minutes", "100,003.7 minutes or more",
        ]  # fmt: skip
    with served(tmp_path, queries=nw.Query.clip(*ends, guarantee=nw.PureDP(1))) as server:
        question(driver, server.link())
        told = text_of(driver, "#screen")
        assert "A number below 100,000.2 minutes counts as 100,000.2, one above 100,003.7 minutes as 100,003.7;" in told


def test_an_altered_share_of_true_answers_is_refused(driver, tmp_path, monkeypatch):
    cells = nw.Query.cells([20.0, 40.0, 60.0], guarantee=nw.PureDP(1))
    with served(tmp_path, queries=cells) as server:
        assert question(driver, server.link())
        for keep in ("48/100", "9/10", "1", "0", "1/100"):  # e/(e+3) = .4754
            driver.execute_script("localStorage.clear()")
            altered_queries(monkeypatch, lambda plain, keep=keep: plain["law"].update(keep=keep))
            check_refused(driver, server.link(), "noise is not what the promised guarantee asks for")


@pytest.mark.parametrize(
    "guarantee",
    [nw.PureDP(5), nw.GaussianDP(3), nw.ZeroConcentratedDP(2), nw.ApproxDP(5, "1e-6"), nw.ApproxDP(1, "1e-3")],
)
def test_a_query_above_the_cap_is_refused(driver, tmp_path, guarantee):
    with served(tmp_path, guarantee=guarantee, learns=False) as server:
        check_refused(driver, server.link(), "more than your limit")


@pytest.mark.parametrize(
    "guarantee", [nw.PureDP("0.1"), nw.GaussianDP("0.5"), nw.ZeroConcentratedDP("1/3"), nw.ApproxDP(1, "1e-6")]
)
def test_every_kind_of_guarantee_within_the_cap_is_answered(driver, tmp_path, guarantee):
    with served(tmp_path, guarantee=guarantee, learns=False) as server:
        question(driver, server.link())
        answer(driver)
        assert receipt(driver)


def test_the_cap_counts_all_answers_of_the_device_and_may_be_lowered(driver, tmp_path):
    """Four answers of epsilon 1 are all there is; after lowering the cap to 2, two."""
    words = replace(WORDS, invited=True)
    with served(tmp_path, words=words) as server:
        links = [server.link(f"&i={one}") for one in invite(server.store, 5)]
        for link in links[:4]:
            question(driver, link)
            answer(driver)
            receipt(driver)
        opened(driver, links[4])
        assert "more than your limit" in refusal(driver)
        driver.execute_script("localStorage.clear()")
        more = [server.link(f"&i={one}") for one in invite(server.store, 2)]
        question(driver, more[0])
        driver.find_element("css selector", "details summary").click()
        field = driver.find_element("id", "cap")
        for value, shown in (("9", "4"), ("1/2", "1/2")):
            field.clear()
            field.send_keys(value)
            driver.find_element("id", "set-cap").click()
            assert driver.find_element("id", "cap").get_attribute("value") == shown
        answer(driver)
        assert "more than your limit" in refusal(driver)
        assert sent(driver)[4:] == []
        assert kept_answers(driver) == []


def test_another_key_no_key_and_an_expired_query_are_refused(driver, place, tmp_path):
    with served(tmp_path, learns=False) as other:
        check_refused(driver, f"{place.url}/#k={other.key}", "not signed by the survey in your link")
    check_refused(driver, f"{place.url}/#k=nonsense", "not signed by the survey in your link")
    check_refused(driver, f"{place.url}/", "lacks the survey's key")
    with before_scripts(driver, LATER):
        check_refused(driver, place.link(), "expired")


def test_a_signed_query_under_another_surveys_name_is_refused(driver, place, monkeypatch):
    altered_queries(monkeypatch, lambda plain: plain.update(id="elsewhere-" + plain["id"]))
    check_refused(driver, place.link(), "another survey")


def test_nothing_is_drawn_for_a_query_that_expires_while_it_is_read(driver, place):
    question(driver, place.link())
    driver.execute_script(LATER)
    answer(driver)
    assert "expired" in refusal(driver)
    assert sent(driver) == []
    assert kept_answers(driver) == []


def test_where_nothing_can_be_stored_nothing_is_drawn(driver, place):
    question(driver, place.link())
    driver.execute_script(NO_STORAGE + COUNTER)
    answer(driver)
    assert "store" in refusal(driver)
    assert driver.execute_script("return globalThis.chance") == 0
    assert sent(driver) == []


# ---- D4: a retry is the same answer ----


def open_everything(driver):
    driver.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")


def press_everything(driver, but=()):
    """Every button that is there, and every word that opens something."""
    open_everything(driver)
    driver.execute_script(
        "[...document.querySelectorAll('button')].filter((one) => !arguments[0].includes(one.id)).forEach((one) => "
        "one.click())",
        list(but),
    )
    time.sleep(0.2)  # for what a press may have begun


def check_one_draw(driver, server):
    """No path draws before sending, draws again, or shows a draw that is not stored and sent."""
    with before_scripts(driver, COUNTER):
        question(driver, server.link())
        requests_of(driver)
        driver.find_element("id", "value").send_keys(CANARY)
        before = driver.execute_script("return globalThis.chance")
        press_everything(driver, but=("send",))
        assert driver.execute_script("return globalThis.chance") == before, "drawn before sending"
        assert kept_answers(driver) == []
        driver.execute_script("const send = document.getElementById('send'); send.click(); send.click();")
        receipt(driver)
        used = driver.execute_script("return globalThis.chance")
        (kept,) = kept_answers(driver)
        assert text_of(driver, "#sent") == kept["value"]
        press_everything(driver, but=("remove",))
        press_everything(driver, but=("remove",))
        assert driver.execute_script("return globalThis.chance") == used, "drawn again"
        driver.refresh()
        receipt(driver)
        press_everything(driver, but=("remove",))
        assert text_of(driver, "#sent") == kept["value"]
        assert driver.execute_script("return globalThis.chance") == 0, "drawn again after a reload"
        bodies = sent(driver)
    assert {json.loads(body)["value"] for body in bodies} == {int(kept["value"])}
    assert logged(server, kept["id"]) == [int(kept["value"])]


def test_there_is_one_draw_whatever_is_pressed(driver, place):
    check_one_draw(driver, place)


AGAIN = (
    'element("h2", { textContent: t().receipt })',
    'element("button", { type: "button", textContent: "Draw again", onclick: () => { changeAnswer(query.id, { value: '
    "answerTo(query, 50).toString(), receipt: null }); deliver(); } }), "
    'element("h2", { textContent: t().receipt })',
)
PREVIEW = (
    "sentCard(query, words), pretendCard",
    'element("button", { type: "button", textContent: "Preview", onclick: () => say(String(answerTo(query, '
    "typedValue(query)))) }), sentCard(query, words), pretendCard",
)


@pytest.mark.parametrize("planted", [AGAIN, PREVIEW], ids=["draw again", "preview"])
def test_a_planted_second_draw_is_caught(driver, tmp_path, monkeypatch, planted):
    body = altered_page(planted)
    monkeypatch.setattr(web, "page", lambda name="respond": body if name == "respond" else b"")
    with served(tmp_path, learns=False) as server, pytest.raises(AssertionError):
        check_one_draw(driver, server)


def test_a_lost_response_is_sent_again_as_it_was(driver, place, monkeypatch):
    take, lost = Desk.take, []

    def losing(self, session, id, value):
        taken = take(self, session, id, value)
        if not lost:
            lost.append(id)
            raise SurveyError("The line broke after the answer was written.", reason="store")
        return taken

    monkeypatch.setattr(Desk, "take", losing)
    question(driver, place.link())
    requests_of(driver)
    answer(driver)
    until(lambda: driver.find_elements("id", "again"))
    assert text_of(driver, "#sent") == ""  # what waits is not shown: it could still be withheld
    (kept,) = kept_answers(driver)
    assert kept["value"] not in driver.find_element("tag name", "main").text
    until(
        lambda: (
            "again" in driver.page_source and not driver.execute_script("return false") and text_of(driver, "#status")
        )
    )
    driver.refresh()
    assert receipt(driver)
    bodies = sent(driver)
    assert len(bodies) >= 2
    assert len(set(bodies)) == 1
    assert logged(place, kept["id"]) == [int(kept["value"])]


def offline(driver, is_offline):
    driver.execute_cdp_cmd(
        "Network.emulateNetworkConditions",
        {"offline": is_offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1},
    )


def test_after_the_query_has_come_no_network_is_needed_to_answer(driver, place):
    question(driver, place.link())
    offline(driver, True)
    try:
        answer(driver)
        until(lambda: driver.find_elements("id", "waiting"))
        until(lambda: "cannot be reached" in text_of(driver, "#status"))
        (kept,) = kept_answers(driver)
        assert logged(place, kept["id"]) == []
    finally:
        offline(driver, False)
    assert receipt(driver)  # by itself, when the network is back
    assert logged(place, kept["id"]) == [int(kept["value"])]


def test_two_tabs_send_one_answer(driver, place):
    question(driver, place.link())
    first = driver.current_window_handle
    driver.switch_to.new_window("tab")
    second = driver.current_window_handle
    try:
        question(driver, place.link())
        answer(driver, "10")
        receipt(driver)
        shown = text_of(driver, "#sent")
        driver.switch_to.window(first)
        answer(driver, "110")
        receipt(driver)
        assert text_of(driver, "#sent") == shown
        (kept,) = kept_answers(driver)
        assert logged(place, kept["id"]) == [int(kept["value"])]
    finally:
        driver.switch_to.window(second)
        driver.close()
        driver.switch_to.window(first)


def test_an_invitation_answered_elsewhere_is_not_answered_again(driver, tmp_path):
    with served(tmp_path, words=replace(WORDS, invited=True), learns=False) as server:
        (one,) = invite(server.store, 1)
        question(driver, server.link(f"&i={one}"))
        answer(driver)
        receipt(driver)
        assert all(one not in f"{url} {headers}" for _, url, _, headers in requests_of(driver) if "#" not in url)
        driver.execute_script("localStorage.clear()")  # another device
        check_refused(driver, server.link(f"&i={one}"), "answered already")


def test_of_two_devices_at_once_the_second_is_told_that_it_does_not_count(driver, tmp_path):
    """Both got the question before either had answered; each has drawn noise of its own."""
    with served(tmp_path, words=replace(WORDS, invited=True), learns=False) as server:
        (one,) = invite(server.store, 1)
        question(driver, server.link(f"&i={one}"))
        query = httpx.post(f"{server.url}/api/query", json={"invite": one}).json()["query"]
        other = round(60 / query["law"]["step"][0])
        first = httpx.post(f"{server.url}/api/answer", json={"id": query["id"], "value": other}).json()
        assert first["counted"] is True
        answer(driver)
        until(lambda: "on another device at the same time" in text_of(driver, "#screen"))
        assert first["receipt"] not in driver.page_source
        assert logged(server, query["id"]) == [other]
        (kept,) = kept_answers(driver)
        assert kept["receipt"] == ""  # and what it cost is noted
        driver.refresh()
        until(lambda: "on another device at the same time" in text_of(driver, "#screen"))
        assert not driver.find_elements("id", "receipt")


@pytest.mark.parametrize("typed", ["1,500", "1.500", "-12,345,678", "250.000"])
def test_a_number_that_can_be_read_in_two_ways_is_not_drawn_for(driver, place, typed):
    question(driver, place.link())
    answer(driver, typed)
    said = text_of(driver, "#hint")
    assert "without separators for thousands" in said
    assert kept_answers(driver) == []


def test_the_noisy_answer_can_be_removed_and_what_it_cost_stays(driver, place):
    question(driver, place.link())
    answer(driver)
    receipt(driver)
    value = text_of(driver, "#sent")
    driver.find_element("id", "remove").click()
    (kept,) = kept_answers(driver)
    assert kept["value"] is None
    assert kept["guarantee"] == {"kind": "pure-dp", "epsilon": "1"}
    assert value not in json.dumps(stored(driver))
    driver.refresh()
    assert receipt(driver)
    assert not driver.find_elements("id", "send")


# ---- for everyone ----


def test_cells_are_chosen_not_typed(driver, tmp_path):
    cells = nw.Query.cells([20.0, 40.0], guarantee=nw.PureDP(1))
    with served(tmp_path, queries=cells, learns=False) as server:
        question(driver, server.link())
        labels = [label.text for label in driver.find_elements("css selector", ".choice")]
        assert labels == ["below 20 minutes", "20 to below 40 minutes", "40 minutes or more"]
        driver.find_element("id", "send").click()
        assert text_of(driver, "#hint") == "Please choose one."
        driver.find_elements("css selector", ".choice")[1].click()
        driver.find_element("id", "send").click()
        receipt(driver)
        assert text_of(driver, "#sent") in labels
        (kept,) = kept_answers(driver)
        assert logged(server, kept["id"]) == [labels.index(text_of(driver, "#sent"))]


def test_levels_are_chosen_by_name_and_the_column_is_told(driver, tmp_path):
    """A survey of several columns: this person is asked about one of them."""
    regions = nw.Joint(region=nw.Categorical(p=stats.dirichlet([1, 1, 1])))
    levels = {"region": ["north", "<b>south</b>", "east"]}
    with served(tmp_path, population=regions, levels=levels, queries="auto", learns=False) as server:
        question(driver, server.link())
        assert text_of(driver, "#about") == "You are asked about one thing only: region."
        labels = [label.text for label in driver.find_elements("css selector", ".choice")]
        assert labels == levels["region"]
        driver.find_elements("css selector", ".choice")[1].click()
        driver.find_element("id", "send").click()
        receipt(driver)
        (kept,) = kept_answers(driver)
        assert logged(server, kept["id"]) == [labels.index(text_of(driver, "#sent"))]


@pytest.mark.parametrize("typed", ["", "abc", "1e999", "1,2,3", "--5", "NaN"])
def test_what_is_no_number_is_not_drawn_for(driver, place, typed):
    question(driver, place.link())
    answer(driver, typed)
    assert text_of(driver, "#hint") == "Please enter a number."
    assert kept_answers(driver) == []


def test_the_keyboard_alone_answers_and_everything_has_a_name(driver, place):
    question(driver, place.link())
    open_everything(driver)
    for field in driver.find_elements("css selector", "input, button, select, summary"):
        assert field.accessible_name.strip(), field.get_attribute("outerHTML")
    seen = []
    driver.find_element("tag name", "body").send_keys(keys.Keys.TAB)
    for _ in range(20):
        active = driver.switch_to.active_element
        seen.append(active.get_attribute("id"))
        if seen[-1] == "value":
            active.send_keys("30")
        if seen[-1] == "send":
            active.send_keys(keys.Keys.ENTER)
            break
        active.send_keys(keys.Keys.TAB)
    assert "value" in seen
    assert receipt(driver)
    assert driver.switch_to.active_element.tag_name == "h1"  # the reader is told where it is


CONTRAST = """
const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\\)$/.test(c)) return c; } return "rgb(255, 255, 255)"; };
return [...document.querySelectorAll("h1, h2, p, label, legend, button, summary, th, td, span, code")].filter((e) => e.textContent.trim()).map((e) => { const a = light(getComputedStyle(e).color), b = light(ground(e)); return [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), e.outerHTML.slice(0, 80)]; });
"""  # noqa: E501


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_and_nothing_runs_off_a_small_phone(driver, place, scheme):
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    sized(driver, 320, 640)
    try:
        question(driver, place.link())
        open_everything(driver)
        for ratio, what in driver.execute_script(CONTRAST):
            assert ratio >= 4.5, what
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 320
        heights = driver.execute_script(
            "return [...document.querySelectorAll('button, summary, select')].map((e) => e.offsetHeight)"
        )
        assert min(heights) >= 44
    finally:
        sized(driver, 390, 844)
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_the_other_language_says_everything(driver, place):
    question(driver, place.link())
    driver.find_element("id", "value").send_keys("30")
    driver.execute_script(
        "const s = document.getElementById('language'); s.value = 'de'; s.dispatchEvent(new Event('change'));"
    )
    text = driver.find_element("tag name", "main").text
    assert "Meine verrauschte Antwort senden" in text
    assert "undefined" not in text
    assert driver.execute_script("return document.documentElement.lang") == "de"
    assert driver.find_element("id", "value").get_attribute("value") == "30"
    driver.find_element("id", "send").click()
    receipt(driver)
    text = driver.find_element("tag name", "main").text
    assert "Ihre Antwort zählt" in text
    assert "undefined" not in text


# ---- the slider, and words of their own ----


@pytest.fixture(scope="module")
def sliding(tmp_path_factory):
    with served(tmp_path_factory.mktemp("slider"), words=replace(WORDS, input="slider")) as server:
        yield server


def spoken(driver):
    """What a screen reader says of the slider."""
    return driver.find_element("id", "slider").get_attribute("aria-valuetext")


def test_a_slider_that_was_not_moved_is_no_answer(driver, sliding):
    question(driver, sliding.link())
    assert not driver.find_elements("id", "value")
    assert "Nothing is chosen" in spoken(driver)
    driver.find_element("id", "send").click()
    assert "move the slider" in text_of(driver, "#hint")
    assert driver.switch_to.active_element.get_attribute("id") == "slider"
    assert kept_answers(driver) == []
    assert sent(driver) == []


def test_the_slider_is_moved_by_keys_and_reads_its_value_out(driver, sliding):
    question(driver, sliding.link())
    slider = driver.find_element("id", "slider")
    assert slider.accessible_name == "Your answer, in minutes"
    slider.send_keys(keys.Keys.ARROW_RIGHT)
    assert spoken(driver) == text_of(driver, "#chosen") == "62 minutes"
    slider.send_keys(keys.Keys.HOME)
    assert spoken(driver) == "0 minutes or less"
    slider.send_keys(keys.Keys.END)
    assert spoken(driver) == "120 minutes or more"
    driver.find_element("css selector", "#language option[value=de]").click()
    assert spoken(driver) == "120 minutes oder mehr"
    driver.find_element("css selector", "#language option[value=en]").click()
    driver.find_element("id", "send").click()
    assert receipt(driver)
    (kept,) = kept_answers(driver)
    assert logged(sliding, kept["id"]) == [int(kept["value"])]


def test_what_the_slider_says_is_what_gets_noise_and_it_is_forgotten(driver, sliding):
    """The value given to the sampler is the one shown, and neither a reload nor going back brings it back."""
    question(driver, sliding.link())
    slider = driver.find_element("id", "slider")
    slider.send_keys(keys.Keys.ENTER)  # where it stands is the answer
    assert spoken(driver) == "60 minutes"
    driver.get(f"{sliding.url}/healthz")
    driver.back()
    until(lambda: driver.find_elements("id", "send"))
    assert "Nothing is chosen" in spoken(driver)
    driver.find_element("id", "slider").send_keys(keys.Keys.ARROW_LEFT)
    assert spoken(driver) == "58 minutes"
    # The same bits twice: the sampler asked from here must give what the page sends for the value that it showed.
    driver.execute_script(
        "globalThis.bits = 12345; crypto.getRandomValues = (words) => words.map((_, k) => { globalThis.bits = "
        "(Math.imul(globalThis.bits, 1664525) + 1013904223) >>> 0; words[k] = globalThis.bits; return words[k]; });"
    )
    query = json.loads(stored(driver)[next(name for name in stored(driver) if name.startswith("noisewise-query"))])
    driver.execute_script("globalThis.asked = JSON.parse(arguments[0]).query", query["signed"])
    expected, other = driver.execute_script(
        "return [58, 59].map((x) => { globalThis.bits = 12345; "
        "return noisewise.answerTo(globalThis.asked, x).toString(); })"
    )
    assert expected != other
    driver.execute_script("globalThis.bits = 12345")
    driver.find_element("id", "send").click()
    receipt(driver)
    assert kept_answers(driver)[0]["value"] == expected


def test_columns_and_levels_are_asked_about_in_their_own_words(driver, tmp_path):
    words = replace(
        WORDS, columns={"way": ColumnWords("How did you come?", "", {"walk": "on foot", "constructor": "x"})}
    )
    population = nw.Joint(way=nw.Categorical(p=stats.dirichlet([1, 1, 1])))
    given = {
        "population": population,
        "queries": "auto",
        "levels": {"way": ["walk", "bus", "toString"]},
        "words": words,
    }
    with served(tmp_path, **given) as server:
        question(driver, server.link())
        assert text_of(driver, "#question") == "How did you come?"
        assert not driver.find_elements("id", "about")
        shown = [one.text for one in driver.find_elements("css selector", ".choice")]
        assert shown == ["on foot", "bus", "toString"]  # a level without words of its own is shown by its name
        driver.find_elements("css selector", ".choice")[1].click()
        driver.find_element("id", "send").click()
        assert receipt(driver)
        assert text_of(driver, "#sent") in shown
