"""Take the pictures of a survey's pages again, in a real Chromium, from a survey of simulated people.

python tools/survey_pictures.py              those of the docs
python tools/survey_pictures.py --all DIR    every page on phone and desk, light and dark, to be looked at
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
from scipy import stats

import noisewise as nw
from noisewise.collector.board import ColumnWords
from noisewise.online.simulate import simulated_answer

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
from serving_surveys import WORDS, browser, served, sized, text_of, until  # noqa: E402

IMAGES = ROOT / "docs/images"
MINUTES = nw.Normal(mean=stats.norm(40, 30), sd=stats.halfnorm(scale=30))
WAYS = nw.Joint(minutes=MINUTES, way=nw.Categorical(p=stats.dirichlet([1, 1, 1])))
WORDED = {"walk": "on foot or by bicycle", "bus": "by bus or train", "car": "by car"}
COLUMNS = {
    "minutes": ColumnWords("How long was your way to work today?", "minutes"),
    "way": ColumnWords("How did you come to work today?", "", WORDED),
}
AS_SERVED = {"population": MINUTES, "queries": "auto", "n_particles": 1000, "explore": 0.1}  # the defaults of a spec
SURVEYS = {
    "number": {"population": MINUTES},
    "slider": {"population": MINUTES, "words": replace(WORDS, input="slider")},
    "choices": {"population": MINUTES, "queries": nw.Query.cells([20, 40, 60], guarantee=nw.PureDP(1))},
    "columns": {
        "population": WAYS, "queries": "auto", "levels": {"way": ["walk", "bus", "car"]},
        "words": replace(WORDS, title="Ways to work", question="Your way to work", columns=COLUMNS),
    },
}  # fmt: skip


def people(server, count: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(count):
        query = nw.Query.from_dict(httpx.post(f"{server.url}/api/query", json={}).json()["query"])
        value = int(rng.choice(3, p=[0.3, 0.5, 0.2])) if query.levels else float(rng.normal(38, 14))
        body = {"id": query.id, "value": simulated_answer(rng, query, value).value}
        httpx.post(f"{server.url}/api/answer", json=body).raise_for_status()


def taken(driver, place: Path, width: int, *, height: int | None = None) -> None:
    """The whole page, or its first `height` pixels."""
    sized(driver, width, 900)
    tall = driver.execute_script("return document.documentElement.scrollHeight")
    sized(driver, width, height or int(tall))
    driver.save_screenshot(str(place))


def schemed(driver, scheme: str) -> None:
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )


def opened(driver, link: str) -> None:
    driver.get("about:blank")
    driver.get(link)
    until(lambda: driver.find_elements("id", "send"))


def live(driver, server, answers: int) -> None:
    people(server, answers)
    driver.get(f"{server.url}/live#admin={server.token}")
    until(lambda: int(text_of(driver, "#facts dd") or 0) >= answers - 10, 120)
    until(lambda: driver.find_element("id", "operator").is_displayed())


def answered(driver) -> None:
    if driver.find_elements("id", "value"):
        driver.find_element("id", "value").send_keys("37")
    elif driver.find_elements("id", "slider"):
        driver.find_element("id", "slider").send_keys("5")
        driver.execute_script(
            "const s = document.getElementById('slider'); s.value = '30'; s.dispatchEvent(new Event('input'))"
        )
    else:
        driver.find_elements("css selector", ".choice")[1].click()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", type=Path, default=None)
    parser.add_argument("--answers", type=int, default=800)
    given = parser.parse_args()
    with browser() as driver, tempfile.TemporaryDirectory() as folder:
        if given.all is None:
            with served(folder, **SURVEYS["number"]) as server:
                opened(driver, server.link())
                answered(driver)
                taken(driver, IMAGES / "survey-phone.png", 390)
            with served(folder, **AS_SERVED) as server:
                live(driver, server, given.answers)
                driver.execute_script("document.getElementById('operator').hidden = true")
                taken(driver, IMAGES / "survey-live.png", 1200)
            return
        given.all.mkdir(parents=True, exist_ok=True)
        for name, options in SURVEYS.items():
            with served(folder, **options) as server:
                for scheme, width in (("light", 390), ("dark", 390), ("light", 1200)):
                    schemed(driver, scheme)
                    driver.get(server.url)
                    driver.execute_script("localStorage.clear()")
                    opened(driver, server.link())
                    answered(driver)
                    taken(driver, given.all / f"{name}-{width}-{scheme}.png", width)
                    driver.find_element("id", "send").click()
                    until(lambda: text_of(driver, "#receipt"))
                    taken(driver, given.all / f"{name}-receipt-{width}-{scheme}.png", width)
                if name in ("number", "columns"):
                    live(driver, server, given.answers)
                    for scheme, width in (("light", 1200), ("dark", 390)):
                        schemed(driver, scheme)
                        taken(driver, given.all / f"live-{name}-{width}-{scheme}.png", width)


if __name__ == "__main__":
    main()
