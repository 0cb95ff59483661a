"""One person's answer: the law that is promised, the law that is drawn, and nothing about x in any error."""

from __future__ import annotations

import itertools
import logging
import math
import random
import traceback
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, NoisewiseError
from noisewise.holder import respond as respond_module
from noisewise.lattice import lattice_for
from noisewise.laws import DiscreteGaussian, DiscreteLaplace, RoundedGaussian

FALSE_ALARM = 1e-6
EPSILONS = ["0.01", "1", "5", "20"]


def steps_of(query: nw.Query, x: float) -> int:
    """The noise-free answer in steps, by exact arithmetic."""
    lattice = query.plan().lattice
    inside = min(max(Fraction(x), Fraction(query.low)), Fraction(query.high))
    nearest = math.floor(inside / Fraction(lattice.step[0]) + Fraction(1, 2))
    return min(max(nearest, lattice.low[0]), lattice.high[0])


def p_value(counts: Any, probabilities: Any) -> float:
    expected = np.sum(counts) * np.asarray(probabilities)
    return float(stats.chi2.sf(np.sum((counts - expected) ** 2 / expected), len(expected) - 1))


def answers(monkeypatch: pytest.MonkeyPatch, query: nw.Query, x: float, count: int) -> list[int]:
    """Many answers to one query; its plan, which depends on the query alone, is made once to save time."""
    plan = query.plan()
    with monkeypatch.context() as patched:
        patched.setattr(nw.Query, "plan", lambda _: plan)
        return [nw.respond(query, x, cap=query.guarantee).value for _ in range(count)]


@pytest.mark.parametrize(
    "guarantee", [nw.PureDP(1), nw.GaussianDP(1), nw.ZeroConcentratedDP("0.5"), nw.ApproxDP(1, "1e-5")], ids=str
)
@pytest.mark.parametrize("x", [-50.0, 0.3, 1e300])
def test_numeric_answers_follow_the_law_of_the_query(guarantee: Any, x: float, monkeypatch: pytest.MonkeyPatch) -> None:
    query = nw.Query.clip(-1, 2, guarantee=guarantee)
    draws = np.array(answers(monkeypatch, query, x, 2000)) - steps_of(query, x)
    law = query.law
    sd = law.sd[0] / law.step[0]
    cuts = np.floor(sd * np.array([-1.6, -1.1, -0.7, -0.4, -0.2, 0, 0.2, 0.4, 0.7, 1.1, 1.6]))
    counts = np.bincount(np.searchsorted(cuts, draws, side="left"), minlength=len(cuts) + 1)
    assert p_value(counts, np.diff([0.0, *law.cdf(cuts), 1.0])) > FALSE_ALARM
    shifted = np.diff([0.0, *law.cdf(cuts - 0.4 * sd), 1.0])  # planted: a clip at another place
    assert p_value(counts, shifted) < FALSE_ALARM


def test_an_answer_on_a_coarse_lattice_has_the_pmf_point_by_point(monkeypatch: pytest.MonkeyPatch) -> None:
    query = nw.Query.clip(0, 1, guarantee=nw.PureDP(1))
    plan = query.plan()
    coarse = replace(plan, law=DiscreteLaplace((1.0,), (0.5,)), lattice=lattice_for([0.5], [(0.0, 1.0, 0.0)]))
    monkeypatch.setattr(nw.Query, "plan", lambda _: coarse)
    draws = [nw.respond(query, 0.6, cap=query.guarantee).value for _ in range(4000)]
    k = np.arange(-8, 11)
    pmf = np.exp(coarse.law.log_pmf(k - 1))  # 0.6 is 1 step of 0.5
    counts = np.array([draws.count(int(point)) for point in k] + [sum(d < -8 or d > 10 for d in draws)])
    assert p_value(counts, [*pmf, 1 - pmf.sum()]) > FALSE_ALARM


@pytest.mark.parametrize("x", [-7.0, 0.0, 1.9, 2.0, 99.0])
def test_cells_are_answered_with_the_rows_of_randomized_response(x: float, monkeypatch: pytest.MonkeyPatch) -> None:
    query = nw.Query.cells([0, 2, 5], guarantee=nw.PureDP("1.5"))
    draws = answers(monkeypatch, query, x, 4000)
    true = sum(edge <= x for edge in (0, 2, 5))
    row = [float(p) for p in query.law.rows()[true]]
    counts = np.array([draws.count(cell) for cell in range(4)])
    assert p_value(counts, row) > FALSE_ALARM
    off_by_one = [float(p) for p in query.law.rows()[(true + 1) % 4]]
    assert p_value(counts, off_by_one) < FALSE_ALARM


# ---- the law of the answer keeps its guarantee, by arithmetic ----


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("bounds", [(0, 1), (-0.3, 0.7), (1e6, 1e6 + 3), (0, 250)])
def test_two_people_are_within_epsilon_for_clip_and_laplace(epsilon: str, bounds: tuple[float, float]) -> None:
    query = nw.Query.clip(*bounds, guarantee=nw.PureDP(epsilon))
    law = query.law
    assert isinstance(law, DiscreteLaplace)
    ends = [steps_of(query, x) for x in (*bounds, -1e300, 1e300)]
    width = max(ends) - min(ends)
    # The log-ratio of two discrete Laplace laws `width` steps apart is at most width step/scale, attained in the tail.
    assert width * Fraction(law.step[0]) / Fraction(law.scale[0]) <= Fraction(epsilon)
    assert width * Fraction(law.step[0]) / Fraction(law.scale[0]) >= Fraction(epsilon) * Fraction(999, 1000)
    k = np.array([-width, -width // 3, 0, width // 2, width, 2 * width])
    loss = law.log_pmf(k) - law.log_pmf(k - width)
    assert np.max(np.abs(loss)) <= float(Fraction(epsilon)) * (1 + 1e-9)


@pytest.mark.parametrize("mu", ["0.1", "1", "4"])
def test_two_people_are_within_the_gaussian_curve_for_clip_and_gaussian(mu: str) -> None:
    query = nw.Query.clip(-0.3, 0.7, guarantee=nw.GaussianDP(mu))
    law = query.law
    assert isinstance(law, RoundedGaussian)
    width = steps_of(query, 0.7) - steps_of(query, -0.3)
    # delta(e) of two normals at distance m is Phi(m/2 - e/m) - e^e Phi(-m/2 - e/m), and it grows with m.
    m = Fraction(width) * Fraction(law.step[0]) / Fraction(law.scale[0])
    assert m <= Fraction(mu)
    # The rounded law itself, cell by cell, on a lattice coarsened 2^k times: coarsening is post-processing.
    ratio = law.ratio[0]
    edges = (np.arange(-4000, 4001) + 0.5) * ratio / 400
    p = np.diff(stats.norm.cdf(edges / ratio))
    q = np.diff(stats.norm.cdf((edges - width) / ratio))
    for e in (0.0, 0.3, 1.0, 3.0):
        delta = np.sum(np.maximum(p - math.exp(e) * q, 0))
        bound = float(mp.ncdf(float(Fraction(mu)) / 2 - e / float(Fraction(mu)))
                      - mp.exp(e) * mp.ncdf(-float(Fraction(mu)) / 2 - e / float(Fraction(mu))))  # fmt: skip
        assert delta <= bound * (1 + 1e-9) + 1e-14


def test_two_people_are_within_rho_for_clip_and_the_discrete_gaussian() -> None:
    query = nw.Query.clip(-0.3, 0.7, guarantee=nw.ZeroConcentratedDP("0.5"))
    law = query.law
    assert isinstance(law, DiscreteGaussian)
    width = steps_of(query, 0.7) - steps_of(query, -0.3)
    # D_a = a (width step)^2 / (2 scale^2) for every order a, exactly (Canonne, Kamath & Steinke 2020).
    assert (Fraction(width) * Fraction(law.step[0])) ** 2 / (2 * Fraction(law.scale[0]) ** 2) <= Fraction(1, 2)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("edges", [[0], [0, 1, 2], list(range(30))], ids=len)
def test_two_people_are_within_epsilon_for_cells_by_exact_ratios(epsilon: str, edges: list[float]) -> None:
    rows = nw.Query.cells(edges, guarantee=nw.PureDP(epsilon)).law.rows()
    assert all(sum(row) == 1 for row in rows)
    largest = max(
        (p / q for a, b in itertools.permutations(rows[:3], 2) for p, q in zip(a, b, strict=True)), default=Fraction(1)
    )
    with mp.workdps(60):
        bound = mp.exp(mp.mpf(epsilon))
        assert mp.mpf(largest.numerator) / largest.denominator <= bound
        assert mp.mpf(largest.numerator) / largest.denominator >= bound * (1 - mp.mpf(10) ** -4)


def test_the_answer_cannot_be_seeded() -> None:
    query = nw.Query.clip(0, 1, guarantee=nw.PureDP(1))
    seen = []
    for _ in range(2):
        random.seed(1)
        np.random.seed(1)  # noqa: NPY002
        seen.append([nw.respond(query, 0.5, cap=query.guarantee).value for _ in range(5)])
    assert seen[0] != seen[1]


# ---- what is said about x ----

CANARY = 123.456789


@pytest.mark.parametrize(
    "x",
    [math.nan, math.inf, -math.inf, None, True, str(CANARY), [CANARY], {"x": CANARY}, complex(CANARY, 1), 10**400,
     np.array([CANARY])],
    ids=lambda v: repr(v)[:20],
)  # fmt: skip
def test_a_value_that_cannot_be_answered_is_refused_without_being_repeated(
    x: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for query in (nw.Query.clip(0, 250, guarantee=nw.PureDP(1)), nw.Query.cells([100], guarantee=nw.PureDP(1))):
        with pytest.raises(InvalidArgument, match="Nothing was answered") as caught:
            nw.respond(query, x, cap=query.guarantee)
        told = str(caught.value) + repr(caught.value.fields) + caplog.text
        told += "".join(traceback.format_exception_only(caught.value))
        assert "123.45" not in told
        assert "0000000" not in told


def test_a_failure_while_answering_says_nothing_about_x(monkeypatch: pytest.MonkeyPatch) -> None:
    query = nw.Query.clip(0, 250, guarantee=nw.PureDP(1))
    with pytest.raises(InvalidArgument, match="query"):
        nw.respond(query.to_dict(), CANARY, cap=query.guarantee)  # type: ignore[arg-type]
    answer = nw.respond(query, CANARY, cap=query.guarantee)
    assert "123.456789" not in repr(answer) + str(answer.to_dict())

    def overflows(law: object) -> list[int]:
        return [2**80]

    monkeypatch.setattr(respond_module.draw, "noise", overflows)
    with pytest.raises(NoisewiseError) as caught:
        nw.respond(query, CANARY, cap=query.guarantee)
    assert "123.45" not in str(caught.value)


@pytest.mark.parametrize("x", [0.25, np.float32(0.25), np.float64(0.25), Fraction(1, 4), 0, np.int64(0)], ids=repr)
def test_numbers_of_every_kind_are_answered(x: Any) -> None:
    assert isinstance(nw.respond(nw.Query.clip(0, 1, guarantee=nw.PureDP(1)), x, cap=nw.PureDP(1)).value, int)
    assert nw.respond(nw.Query.cells([0.5], guarantee=nw.PureDP(100)), x, cap=nw.PureDP(100)).value == 0
