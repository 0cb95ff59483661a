"""The next question: its information against independent formulas, and the choice against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.inference.transform import Transform
from noisewise.likelihood import cells, clipped_normal, clipped_normal_gaussian
from noisewise.online.answer_information import answer_information, information, informations, stencil
from noisewise.online.answer_law import AnswerLaw
from noisewise.online.asked import Asked, asked_cells, asked_clip, asked_of
from noisewise.online.candidates import FAMILIES, candidates, checked_families
from noisewise.online.design import Design, grid_steps
from noisewise.online.scores import Score

NORMAL = nw.Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50))
AT = {"mean": 40.0, "sd": 13.0}


@pytest.mark.parametrize(("low", "high"), [(38, 45), (-20, 90), (60, 70), (0, 400)])
@pytest.mark.parametrize("guarantee", [nw.PureDP("0.1"), nw.PureDP(4), nw.PureDP(30), nw.GaussianDP(1)], ids=str)
def test_information_of_a_clipped_answer_is_the_closed_one(low, high, guarantee):
    query = nw.Query.clip(low, high, guarantee=guarantee)
    asked = asked_of(query)
    place = {"mean": 40.0, "sd": 13.0, "low": low, "high": high}
    if asked.is_laplace:
        closed = clipped_normal.information(**place, scale=asked.noise)
    else:
        closed = clipped_normal_gaussian.information(**place, noise_sd=asked.noise)
    found = answer_information(NORMAL, query, AT)
    np.testing.assert_allclose(found, closed, rtol=1e-6, atol=1e-8 * np.trace(closed))


def test_information_of_cells_is_the_closed_one_and_the_same_in_bulk():
    edges = (30.0, 42.0, 60.0)
    query = nw.Query.cells(edges, guarantee=nw.PureDP(2))
    z = (np.array(edges) - 40) / 13
    inner = stats.norm.cdf(z)
    slopes = -np.stack([stats.norm.pdf(z), z * stats.norm.pdf(z)]) / 13
    closed = cells.information(np.diff([0, *inner, 1])[None], np.diff(slopes, prepend=0, append=0)[None],
                               keep=float(query.law.keep))[0]  # fmt: skip
    np.testing.assert_allclose(answer_information(NORMAL, query, AT), closed, rtol=1e-7)
    law, transform = AnswerLaw(NORMAL), Transform(NORMAL.supports)
    around = stencil(law, transform, np.array([40.0, np.log(13)]), np.array([[13.0, 0], [0, 1]]))
    questions = [asked_of(query), asked_clip(30, 50, nw.PureDP(2)), asked_cells((44.0,), nw.PureDP(2))]
    each = np.stack([information(law, asked, around) for asked in questions])
    np.testing.assert_allclose(informations(law, questions, around), each, rtol=1e-10)


def test_information_of_a_poisson_answer_is_that_of_its_enumeration():
    population = nw.Poisson(rate=stats.gamma(3))
    query = nw.Query.cells([0.5, 2.5], guarantee=nw.PureDP(1))
    matrix, h = np.array(query.law.rows(), float), 1e-5

    def probabilities(rate):
        x = np.arange(200)
        p = stats.poisson(rate).pmf(x)
        return np.array([p[:1].sum(), p[1:3].sum(), p[3:].sum()]) @ matrix

    slope = (probabilities(2 + h) - probabilities(2 - h)) / (2 * h)
    closed = np.sum(slope**2 / probabilities(2))
    assert answer_information(population, query, {"rate": 2.0})[0, 0] == pytest.approx(closed, rel=1e-7)


def designed(population, guarantee, families, score="logdet", fixed=()):
    law, transform = AnswerLaw(population), Transform(population.supports)
    return Design(law, guarantee, transform, families=families, fixed=fixed, score=Score.of(score))


COVARIANCES = {
    "start": np.diag([2500.0, 0.8]),
    "mean unknown": np.diag([4.0, 1e-6]),
    "sd unknown": np.diag([0.01, 0.05]),
}


def score_of(score, precision, found):
    """The scores as they are written, at sd = 13 and on (mean, log sd)."""
    units = np.diag([1.0, 13.0])
    if score == "logdet":
        return np.linalg.slogdet(precision + found)[1]
    if score == "a-optimal":
        return -np.trace(units @ np.linalg.inv(precision + found) @ units)
    each = np.diag(found) / [1, 13**2]
    return each[0] if score == "location" else 1 / np.sum(1 / np.maximum(each, 1e-300))


@pytest.mark.parametrize("score", ["logdet", "a-optimal", "location", "harmonic"])
@pytest.mark.parametrize("known", COVARIANCES)
def test_the_question_chosen_is_the_best_of_those_that_brute_force_lays_out(known, score):
    """The table is judged once, elsewhere; moved to this draw it must pick what judging here would pick."""
    covariance, guarantee, position = COVARIANCES[known], nw.PureDP(2), np.array([40.0, np.log(13.0)])
    chosen = designed(NORMAL, guarantee, FAMILIES, score).choose(position, covariance)
    theta = {"mean": np.array([40.0]), "sd": np.array([13.0])}
    others = [asked for family in FAMILIES for asked in candidates(
        family, guarantee, lambda u: np.ravel(NORMAL.quantile(u, theta)), is_discrete=False)]  # fmt: skip

    def value(asked):
        query = (
            nw.Query.cells(asked.edges, guarantee=guarantee)
            if asked.is_cells
            else nw.Query.clip(asked.low, asked.high, guarantee=guarantee)
        )
        scale = np.diag([1.0, 13.0])  # d theta / d position
        found = scale @ answer_information(NORMAL, query, AT) @ scale
        return score_of(score, np.linalg.inv(covariance), found)

    best = max(value(asked) for asked in others[::3])
    assert value(chosen) >= best - 1e-6 * abs(best)


def test_the_design_turns_to_what_is_not_yet_known():
    design = designed(NORMAL, nw.PureDP(2), ("sign",))
    position = np.array([40.0, np.log(13.0)])
    centre = design.choose(position, COVARIANCES["mean unknown"]).edges[0]
    aside = design.choose(position, COVARIANCES["sd unknown"]).edges[0]
    assert centre == pytest.approx(40, abs=1e-9)
    assert abs(aside - 40) > 10


def test_randomized_response_is_preferred_where_it_is_more_informative():
    """On the sign of a normal at epsilon = 1 it is a quarter better than the best clipped answer; at 10 it is worse."""
    known = np.diag([1.0, 1e-12])
    position = np.array([40.0, np.log(13.0)])
    gains = {}
    for epsilon in (1, 10):
        for family in ("clip", "sign"):
            asked = designed(NORMAL, nw.PureDP(epsilon), (family,)).choose(position, known)
            query = (nw.Query.cells(asked.edges, guarantee=nw.PureDP(epsilon)) if asked.is_cells
                     else nw.Query.clip(asked.low, asked.high, guarantee=nw.PureDP(epsilon)))  # fmt: skip
            gains[family, epsilon] = answer_information(NORMAL, query, AT)[0, 0]
    assert gains["sign", 1] / gains["clip", 1] == pytest.approx(1.25, abs=0.02)
    assert gains["sign", 10] < gains["clip", 10]
    assert designed(NORMAL, nw.PureDP(1), ("clip", "sign")).choose(position, known).is_cells
    assert not designed(NORMAL, nw.PureDP(10), ("clip", "sign")).choose(position, known).is_cells


OTHERS = {
    "poisson": nw.Poisson(rate=stats.gamma(3)),
    "bernoulli": nw.Bernoulli(p=stats.beta(2, 2)),
    "exponential": nw.Exponential(rate=stats.gamma(3)),
    "lognormal": nw.LogNormal(log_mean=stats.norm(0, 1), log_sd=0.5),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_populations_are_asked_where_their_values_are(name):
    population = OTHERS[name]
    law = AnswerLaw(population)
    families = checked_families("auto", law, nw.PureDP(2))
    design = designed(population, nw.PureDP(2), families)
    position = np.zeros(1)
    theta = design.transform.parameters(position[None])
    low, high = np.ravel(population.quantile(np.array([0.0005, 0.9995]), theta))
    for family in families:
        asked = designed(population, nw.PureDP(2), (family,)).choose(position, np.eye(1)) if (
            family != "cells" or population.distribution.name != "bernoulli") else None  # fmt: skip
        if asked is not None:
            ends = asked.edges if asked.is_cells else (asked.low, asked.high)
            assert low <= min(ends)
            assert max(ends) <= high
    again = design.choose(position, np.eye(1))
    assert again == design.choose(position, np.eye(1))


def test_questions_that_are_given_are_asked_as_they_are_and_the_better_one_wins():
    wide, narrow = (asked_of(nw.Query.clip(40 - w, 40 + w, guarantee=nw.PureDP(1))) for w in (130, 3))
    position, covariance = np.array([40.0, np.log(13.0)]), np.diag([1.0, 1e-12])
    assert designed(NORMAL, nw.PureDP(1), (), fixed=[wide]).choose(position, covariance) == wide
    assert designed(NORMAL, nw.PureDP(1), (), fixed=[wide, narrow]).choose(position, covariance) == narrow


def test_families_are_checked_against_guarantee_and_population():
    normal, gamma = AnswerLaw(NORMAL), AnswerLaw(nw.Gamma(shape=stats.gamma(3), rate=1))
    assert checked_families("auto", normal, nw.PureDP(1)) == FAMILIES
    assert checked_families("auto", normal, nw.GaussianDP(1)) == ("clip",)
    assert checked_families("auto", gamma, nw.PureDP(1)) == ("sign", "cells")
    with pytest.raises(Unsupported, match="PureDP"):
        checked_families("auto", gamma, nw.GaussianDP(1))
    with pytest.raises(Unsupported, match="PureDP"):
        checked_families("sign", normal, nw.GaussianDP(1))
    with pytest.raises(Unsupported, match="exact law"):
        checked_families(("sign", "clip"), gamma, nw.PureDP(1))
    with pytest.raises(InvalidArgument, match="there are"):
        checked_families("nonsense", normal, nw.PureDP(1))


def test_draws_are_rounded_no_coarser_than_they_are_spread():
    sd = np.array([2.0, 0.1])
    early, late = (grid_steps(sd, answers, np.array([30.0, -2.0])) for answers in (0, 10**6))
    assert np.all((early <= sd) & (early > sd / 2))
    assert np.all(late <= sd * 1000 / 64)
    assert np.all(np.log2(early) % 1 == 0)
    assert np.all(grid_steps(np.zeros(2), 0, np.array([50.0, -30.0])) > 1e-12)  # nor finer than doubles can tell


@pytest.mark.parametrize("unit", [1e-9, 1e-3, 1e12], ids="{:.0e}".format)
def test_the_information_of_given_questions_does_not_depend_on_the_unit(unit):
    def found(unit):
        guarantee = nw.PureDP(2)
        asked = [asked_of(nw.Query.clip(-0.3 * unit, 0.3 * unit, guarantee=guarantee)),
                 asked_of(nw.Query.cells([-unit, unit], guarantee=guarantee))]  # fmt: skip
        population = nw.Normal(mean=stats.norm(0, unit), sd=stats.halfnorm(scale=unit))
        table = designed(population, guarantee, (), fixed=asked)._at(np.array([0.1 * unit, np.log(unit)]))
        scale = np.array([unit, 1.0])
        return table.information * scale * scale[:, None]

    np.testing.assert_allclose(found(unit), found(1.0), rtol=1e-6, atol=1e-9)
    at = {"mean": 0.1 * unit, "sd": unit}
    population = nw.Normal(mean=stats.norm(0, unit), sd=stats.halfnorm(scale=unit))
    in_units = (
        answer_information(population, nw.Query.clip(-0.3 * unit, 0.3 * unit, guarantee=nw.PureDP(2)), at) * unit**2
    )
    np.testing.assert_allclose(in_units, found(1.0)[0], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("score", ["a-optimal", "location", "harmonic", "logdet"])
def test_a_draw_far_out_has_a_question_all_the_same(score):
    """Where a slope or a scale underflows, matrices are singular; the question is then any of them."""
    bernoulli = designed(nw.Bernoulli(p=stats.beta(0.05, 0.05)), nw.PureDP(1), ("sign", "clip"), score)
    assert isinstance(bernoulli.choose(np.array([-700.0]), np.array([[1e4]])), Asked)
    normal = designed(nw.Normal(mean=stats.norm(50, 10), sd=stats.gamma(0.05)), nw.PureDP(5), FAMILIES, score)
    assert isinstance(normal.choose(np.array([50.0, -600.0]), np.diag([100.0, 1e4])), Asked)


def test_a_question_is_never_finer_than_noise_can_be_added():
    for family in FAMILIES:
        design = designed(NORMAL, nw.PureDP(5), (family,))
        asked = design.choose(np.array([50.0, -60.0]), np.diag([1e-20, 1.0]))
        query = (nw.Query.cells(asked.edges, guarantee=nw.PureDP(5)) if asked.is_cells
                 else nw.Query.clip(asked.low, asked.high, guarantee=nw.PureDP(5)))  # fmt: skip
        assert query.plan()
    # and where only cells can be as fine as they should be, an interval that cannot is not preferred
    assert designed(NORMAL, nw.PureDP(10), FAMILIES).choose(np.array([1e10, 0.0]), np.diag([1.0, 1e-12])).is_cells
    assert not designed(NORMAL, nw.PureDP(10), ("clip", "sign")).choose(np.zeros(2), np.diag([1.0, 1e-12])).is_cells
