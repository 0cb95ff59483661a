"""The pages of the documentation in a real browser: nothing is cut off, nothing comes from elsewhere, search finds."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from serving_surveys import requests_of, sized, until

ROOT = Path(__file__).parents[2]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing: a test prints what it finds."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Where the built pages are served, and the folder they are in."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(folder)], cwd=ROOT, check=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()
    server.server_close()


WIDER = """
const width = arguments[0];  // not the window's own: a phone zooms out of what is too wide
const wide = document.documentElement.scrollWidth - width;
const main = document.querySelector('.md-content');
const lost = [...main.querySelectorAll('p, li, h1, h2, h3, img, td, math, pre')].filter(one => {
  if (one.closest('.md-typeset__scrollwrap, .formula, pre > code, .highlight')) return false;
  const box = one.getBoundingClientRect();
  return box.width && box.right > width + 1;
});
return [wide, lost.slice(0, 5).map(one => one.tagName + ' ' + one.textContent.slice(0, 60))];
"""


def settled(driver, width: int) -> tuple[int, list[str]]:
    """What is too wide once styles and fonts are there; a page that is cut off stays so for five seconds."""
    end = time.monotonic() + 5
    while True:
        wide, lost = driver.execute_script(WIDER, width)
        if (wide <= 0 and not lost) or time.monotonic() > end:
            return wide, lost
        time.sleep(0.1)


@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_is_cut_off(driver, address, width) -> None:
    """What is wider than its window scrolls by itself (tables, code, formulas); the page never does."""
    url, folder = address
    found = []
    for path in sorted(folder.rglob("index.html")):
        driver.get(f"{url}/{path.parent.relative_to(folder).as_posix()}/")
        sized(driver, width, 900)
        wide, lost = settled(driver, width)
        if wide > 0 or lost:
            found.append((path.parent.name, wide, lost))
    assert not found
    planted = '<p style="width: 2000px">planted</p>'
    driver.execute_script(
        "document.querySelector('.md-content h1').insertAdjacentHTML('afterend', arguments[0])", planted
    )
    assert driver.execute_script(WIDER, width)[1] == ["P planted"]


@pytest.mark.parametrize("asked", ["variance", "group by", "confidence interval"])
def test_search_finds_the_words_of_statisticians(driver, address, asked) -> None:
    url, _ = address
    driver.get(f"{url}/?q={asked.replace(' ', '+')}")
    until(lambda: driver.find_elements("css selector", ".md-search-result__item a"), seconds=60)
    first = [one.get_attribute("href") for one in driver.find_elements("css selector", ".md-search-result__item a")][
        :12
    ]
    assert any("/glossary/" in link or "/faq/" in link for link in first), first


def test_pages_follow_the_readers_dark_scheme_and_ask_nobody_else(driver, address) -> None:
    url, _ = address
    for preferred, scheme in (("dark", "slate"), ("light", "default")):
        driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": preferred}]}
        )
        driver.get(f"{url}/reference/inference/")
        driver.execute_script("localStorage.clear()")
        driver.get(f"{url}/gallery/")
        told = "return document.body.getAttribute('data-md-color-scheme')"
        until(lambda told=told, scheme=scheme: driver.execute_script(told) == scheme)
    own = (url, "data:", "about:", "blob:")
    assert not [asked for _, asked, _, _ in requests_of(driver) if not asked.startswith(own)]
