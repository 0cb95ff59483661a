"""Promise D2: what the page draws in a real browser is the law in the query; α = 1e-6, and planted faults are caught.

The page itself is loaded, and its own `answerTo` draws, with the lattice that a real query has. A chi-square compares
the draws, in cells of about equal probability, with the probabilities that `noisewise.laws` scores answers by.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats
from serving_surveys import altered_page, served, until

import noisewise as nw
from noisewise.laws import Form, additive_law, cell_law

web = pytest.importorskip("noisewise.collector.web", reason="starlette is not installed (extra 'survey')")

LEVEL = 1e-6
DRAWS = 20_000
CELLS = 40
QUERIES = {
    "laplace": nw.Query.clip(10.5, 100, guarantee=nw.PureDP(1)),
    "laplace-odd-scale": nw.Query.clip(0, 250, guarantee=nw.PureDP("0.7")),
    "gaussian-gdp": nw.Query.clip(10.5, 100, guarantee=nw.GaussianDP("0.5")),
    "gaussian-zcdp": nw.Query.clip(-3, 7, guarantee=nw.ZeroConcentratedDP("1/3")),
    "gaussian-approx": nw.Query.clip(0, 1, guarantee=nw.ApproxDP(1, "1e-6")),
    **{
        f"response-{k}": nw.Query.cells([float(e) for e in range(1, k)], guarantee=nw.PureDP("1.5"))
        for k in range(2, 7)
    },
}
DRAW = """
const [query, value, count] = arguments;
const drawn = [];
for (let k = 0; k < count; k++) drawn.push(noisewise.answerTo(query, value).toString());
return drawn;
"""


@pytest.fixture(scope="module")
def page(chromium, tmp_path_factory):
    with served(tmp_path_factory.mktemp("page")) as server:
        chromium.get(server.link())
        until(lambda: chromium.execute_script("return !!globalThis.noisewise"))
        yield chromium


def drawn(page, query, value, count=DRAWS, prepare=""):
    return np.array([int(k) for k in page.execute_script(prepare + DRAW, plain(query), value, count)])


def plain(query):
    return json.loads(json.dumps(query.to_dict()))


def steps_of(query, value):
    """The lattice value of a private value, by the library's own plan."""
    lattice = query.plan().lattice
    clipped = min(max(value, query.low), query.high)
    return min(max(int(np.floor(clipped / lattice.step[0] + 0.5)), lattice.low[0]), lattice.high[0])


def tail(query, value, found):
    """The chi-square's tail probability of draws at a value."""
    law = query.law
    if law.form is Form.CELL:
        expected = np.array([float(p) for p in cell_law(law).rows()[value]])
        counts = np.bincount(found, minlength=expected.size)
        assert counts.size == expected.size
    else:
        law, noise = additive_law(law), found - steps_of(query, value)
        ratio = law.ratio[0]
        spread = stats.laplace if law.family == "discrete-laplace" else stats.norm
        edges = np.unique(np.floor(spread.ppf(np.arange(1, CELLS) / CELLS) * ratio))  # whole steps, any will do
        expected = np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]]))
        counts = np.bincount(np.searchsorted(edges, noise, side="left"), minlength=expected.size)
    return float(stats.chisquare(counts, expected * len(found)).pvalue)


def value_of(query):
    return 1 if query.edges is not None else 0.3 * query.low + 0.7 * query.high


@pytest.mark.parametrize("name", QUERIES)
def test_the_page_draws_the_law_in_the_query(page, name):
    query = QUERIES[name]
    assert tail(query, value_of(query), drawn(page, query, value_of(query))) > LEVEL


@pytest.mark.parametrize("name", ["laplace", "gaussian-gdp", "gaussian-zcdp", "gaussian-approx"])
def test_a_scale_ten_per_cent_off_is_caught(page, name):
    query = QUERIES[name]
    altered = plain(query)
    altered["law"]["scale"][0] *= 0.9
    found = np.array([int(k) for k in page.execute_script(DRAW, altered, value_of(query), DRAWS)])
    assert tail(query, value_of(query), found) < LEVEL


def test_a_kept_share_ten_per_cent_off_is_caught(page):
    query = QUERIES["response-4"]
    altered = plain(query)
    altered["law"]["keep"] = "7/10"  # for .599
    found = np.array([int(k) for k in page.execute_script(DRAW, altered, 1, DRAWS)])
    assert tail(query, 1, found) < LEVEL


def test_values_beyond_the_ends_count_as_the_ends(page):
    query = QUERIES["laplace"]
    for value in (-1e9, 1e9):
        assert tail(query, value, drawn(page, query, value)) > LEVEL


def test_one_in_a_million_bits_is_not_missing(page):
    """The lowest and highest bits of a draw are fair: no rounding by doubles on the way."""
    query = QUERIES["laplace-odd-scale"]
    found = drawn(page, query, 100.0)
    for bit in range(4):
        assert stats.binomtest(int(np.sum(found >> bit & 1)), len(found)).pvalue > LEVEL


FIXED = """
crypto.getRandomValues = (words) => words.map((_, k) => (2654435761 * (k + 17)) >>> 0);
"""
WEAK = ("crypto.getRandomValues(new Uint32Array(64))", "new Uint32Array(64).map(() => Math.random() * 2 ** 32)")


def check_chance(page):
    """With the device's generator held still every draw is the same: nothing else moves it."""
    for name in ("laplace", "gaussian-gdp", "gaussian-zcdp", "response-4"):
        query = QUERIES[name]
        assert len(set(drawn(page, query, value_of(query), 50, FIXED).tolist())) == 1, name


def test_all_chance_comes_from_the_devices_generator(chromium, tmp_path):
    with served(tmp_path, learns=False) as server:
        chromium.get(server.link())
        until(lambda: chromium.execute_script("return !!globalThis.noisewise"))
        check_chance(chromium)


def test_a_planted_weak_generator_is_caught(chromium, tmp_path, monkeypatch):
    planted = altered_page(WEAK)
    monkeypatch.setattr(web, "page", lambda _="respond": planted)
    with served(tmp_path, learns=False) as server:
        chromium.get(server.link())
        until(lambda: chromium.execute_script("return !!globalThis.noisewise"))
        with pytest.raises(AssertionError):
            check_chance(chromium)


def random_query(rng):
    """A query as a survey might ask it: any place, any width, any price within the cap."""
    if rng.random() < 0.3:
        edges = np.unique(rng.normal(0, 10.0 ** rng.uniform(-3, 6), int(rng.integers(1, 6))))
        return nw.Query.cells(edges.tolist(), guarantee=nw.PureDP(str(round(float(rng.uniform(0.01, 4)), 4))))
    centre, width = float(rng.normal(0, 10.0 ** rng.uniform(-3, 6))), 10.0 ** float(rng.uniform(-3, 6))
    width = max(width, 1e-6 * abs(centre))
    amount = str(round(float(rng.uniform(0.01, 1)), 4))
    guarantee = [
        nw.PureDP(amount), nw.GaussianDP(amount), nw.ZeroConcentratedDP(amount), nw.ApproxDP(amount, "1e-6"),
        nw.PureDP("1/3"),
    ][int(rng.integers(5))]  # fmt: skip
    return nw.Query.clip(centre, centre + width, guarantee=guarantee)


def test_every_honest_query_passes_the_pages_check_and_a_hair_less_noise_does_not(page, rng):
    check = """
    return arguments[0].map((query) => { try { noisewise.checkLaw(query); return "good"; } catch (problem) { return problem.reason ?? String(problem); } });
    """  # noqa: E501
    honest = [plain(random_query(rng)) for _ in range(400)]
    found = page.execute_script(check, honest)
    assert [query for query, said in zip(honest, found, strict=True) if said != "good"] == []
    cheats = []
    for query in honest:
        cheat = json.loads(json.dumps(query))
        if "edges" in query:
            keep = nw.Query.from_dict(query).law.keep
            cheat["law"]["keep"] = str(keep + (1 - keep) / 10**6)
        else:
            cheat["law"]["scale"][0] *= 1 - 1e-6
        cheats.append(cheat)
    assert set(page.execute_script(check, cheats)) == {"law"}
