"""A survey server in this process, on loopback, with its learner beside it; and a real browser where there is one."""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from collecting import NORMAL

import noisewise as nw
from noisewise.collector.board import Board, Words
from noisewise.collector.store import Store, create

WORDS = Words(title="Time to work", question="How long was your way to work today?", unit="minutes")
CLIP = (0.0, 120.0)


@dataclass(frozen=True)
class Served:
    """A running server."""

    url: str
    store: Store
    board: Board
    key: str
    token: str
    folder: Path

    def link(self, rest: str = "") -> str:
        return f"{self.url}/#k={self.key}{rest}"


def new_served_store(
    where, *, guarantee=None, population=None, queries=None, levels=None, words=WORDS, simulated=True, n_particles=50,
    explore=0,
):  # fmt: skip
    """A store with its words, key and operator's token."""
    from noisewise.collector.signing import SigningKey

    guarantee = guarantee or nw.PureDP(1)
    queries = queries or nw.Query.clip(*CLIP, guarantee=guarantee)
    options = {} if levels is None else {"levels": levels}
    survey = nw.Survey(
        population or NORMAL, guarantee=guarantee, queries=queries, n_particles=n_particles, explore=explore, **options
    )
    board = Board.open(create(where, survey, simulated=simulated))
    board.put_words(words)
    return board, SigningKey.of(board).public, board.new_admin_token()


def needs_server():
    for name in ("starlette", "uvicorn", "httpx", "cryptography"):
        pytest.importorskip(name, reason=f"{name} is not installed (extra 'survey')")


@contextmanager
def served(folder, *, settings=None, learns=True, **given) -> Iterator[Served]:
    """A server that lives as long as the block."""
    needs_server()
    import uvicorn

    from noisewise.collector.learner import Learner
    from noisewise.collector.serving import follow, server_config
    from noisewise.collector.web import Front, ServerSettings, application

    where = str(Path(folder) / f"{time.monotonic_ns()}.survey")
    board, key, token = new_served_store(where, **given)
    Learner(board.store).step()  # the first queries are there before the first visitor
    front = Front(board.store, settings or ServerSettings(rate=1_000_000))
    server = uvicorn.Server(server_config(application(front)))
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    stop = threading.Event()
    threads = [threading.Thread(target=server.run, kwargs={"sockets": [listening]})]
    if learns:
        threads.append(threading.Thread(target=follow, args=(where, stop.is_set)))
    for thread in threads:
        thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield Served(f"http://127.0.0.1:{listening.getsockname()[1]}", board.store, board, key, token, Path(folder))
    finally:
        stop.set()
        front.is_leaving = server.should_exit = True
        for thread in threads:
            thread.join()
        listening.close()


# ---- the browser ----


@contextmanager
def browser(*, width=390, height=844) -> Iterator[object]:
    """A headless Chromium with nothing in it; skipped with the reason where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (make browser)")
    chromium = next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no Chromium with its driver is installed (make browser)")
    with tempfile.TemporaryDirectory(prefix="chromium") as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for flag in (
            "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-quic",
            "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--lang=en",
            f"--user-data-dir={profile}", f"--window-size={width},{height}",
        ):  # fmt: skip
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        running = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
        try:
            running.set_script_timeout(120)
            yield running
        finally:
            running.quit()


def sized(driver, width, height):
    """The viewport of a phone or a desk."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
    )


def until(act, seconds=30):
    """What an act gives once it gives something."""
    end = time.monotonic() + seconds
    while True:
        try:
            found = act()
        except Exception as error:
            found, problem = None, error
        else:
            problem = None
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"nothing came within {seconds} s") from problem
        time.sleep(0.05)


def text_of(driver, selector):
    found = driver.find_elements("css selector", selector)
    return found[0].text if found else ""


def requests_of(driver):
    """Every request that the browser made since the last time this was asked: method, URL, body, headers."""
    found = []
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            request = message["params"]["request"]
            found.append(
                (request["method"], request["url"], request.get("postData", ""), json.dumps(request["headers"]))
            )
    return found


def altered_page(*changes):
    """The respondent's page as another might have written it: each (old, new) in its script, its policy renewed."""
    import sys

    from noisewise.collector.web import page

    sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
    from pages import sealed

    body = page().decode()
    for old, new in changes:
        assert body.count(old) >= 1, old
        body = body.replace(old, new)
    return sealed(body.encode())


COUNTER = """
globalThis.chance = 0;
const draw = crypto.getRandomValues.bind(crypto);
crypto.getRandomValues = (words) => { globalThis.chance += 1; return draw(words); };
"""


@contextmanager
def before_scripts(driver, script):
    """A script that runs in every page before its own."""
    added = driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
