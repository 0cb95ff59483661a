"""Questions at the ends of a support, over many values, and where a prior lets a scale be negative."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import Unsupported
from noisewise.inference.transform import Transform
from noisewise.online.answer_information import information, informations, stencil, units
from noisewise.online.answer_law import AnswerLaw
from noisewise.online.asked import asked_cells, asked_clip
from noisewise.online.candidates import FAMILIES, candidates, quantiles
from noisewise.online.design import Design
from noisewise.online.scores import Score


def told(population, query, at):
    """The information of a query at one theta, on the walking scale."""
    law, transform = AnswerLaw(population), Transform(population.supports)
    position = transform.position({name: np.array([value]) for name, value in at.items()})[0]
    asked = (asked_clip(query.low, query.high, query.guarantee) if query.edges is None
             else asked_cells(query.edges, query.guarantee))  # fmt: skip
    return float(information(law, asked, stencil(law, transform, position, np.eye(1)))[0, 0])


def numbers(query):
    return query.edges or (query.low, query.high)


@pytest.mark.parametrize("queries", ["auto", "clip", "sign"])
@pytest.mark.parametrize("many", [10, 5000, 1e8], ids="{:.0e}".format)
def test_a_rare_zero_is_asked_about_as_a_rare_one_is(many, queries):
    rare_one, rare_zero = (
        nw.Survey(nw.Bernoulli(p=prior), guarantee=nw.PureDP(10), queries=queries, seed=1)
        for prior in (stats.beta(1, many), stats.beta(many, 1))
    )
    for _ in range(5):
        one, zero = rare_one.query(), rare_zero.query()
        assert tuple(1 - end for end in numbers(zero)[::-1]) == numbers(one)
        mirrored = (
            told(rare_one.population, one, {"p": 1 / many}),
            told(rare_zero.population, zero, {"p": 1 - 1 / many}),
        )
        assert mirrored[0] == pytest.approx(mirrored[1], rel=1e-6)
        assert mirrored[0] > 0


def sd_after(population, value, answers):
    """The sd of p when everyone has the same value and randomized response happens to tell the truth."""
    survey = nw.Survey(population, guarantee=nw.PureDP(4), queries=("sign", "cells"), seed=1)
    for _ in range(answers):
        query = survey.query()
        survey.answer(query, int(np.searchsorted(query.edges, value, side="right")))
    return survey.sd["p"]


def test_everyone_at_the_top_is_learnt_from_as_everyone_at_the_bottom_is():
    for population, top in (
        (nw.Bernoulli(p=stats.beta(1, 1)), 1),
        (nw.Population(stats.binom, n=10, p=stats.beta(1, 1)), 10),
    ):
        high, low = sd_after(population, top, 150), sd_after(population, 0, 150)
        assert high == pytest.approx(low, rel=0.35)  # the particles of the two surveys are not mirror images
        assert high < 0.03  # of 0.29 at first


def test_a_question_that_tells_nothing_is_not_asked_while_another_tells_something():
    population = nw.Bernoulli(p=stats.beta(1, 1))
    law, transform, guarantee = AnswerLaw(population), Transform(population.supports), nw.PureDP(1)
    useless, useful = asked_cells((1.5,), guarantee), asked_cells((0.5,), guarantee)
    for score in ("logdet", "a-optimal", "location", "harmonic"):
        design = Design(law, guarantee, transform, families=(), fixed=[useless, useful], score=Score.of(score))
        for place in (0.0, 25.0, -25.0):  # far out log det(1 + F) cannot tell F from 0
            assert design.choose(np.array([place]), np.eye(1)) == useful


# ---- many values ----

POISSON = nw.Poisson(rate=stats.gamma(100, scale=100))


def laid_out(population, position, guarantee, families):
    law, transform = AnswerLaw(population), Transform(population.supports)
    quantile = quantiles(population, transform.parameters(position[None]))
    questions = [asked for family in families
                 for asked in candidates(family, guarantee, quantile, is_discrete=True)]  # fmt: skip
    directions = np.diag(units(law, transform, position))
    return law, questions, stencil(law, transform, position, directions)


@pytest.mark.parametrize("guarantee", [nw.PureDP(1), nw.PureDP(8), nw.GaussianDP(1), nw.GaussianDP(4)], ids=str)
@pytest.mark.parametrize("rate", [300.0, 1e4])
def test_wide_intervals_are_judged_to_one_percent_of_the_best(rate, guarantee):
    law, questions, around = laid_out(POISSON, np.array([np.log(rate)]), guarantee, ("clip",))
    some = questions[::17]
    rough = informations(law, some, around)[:, 0, 0]
    exact = np.array([information(law, asked, around)[0, 0] for asked in some])
    np.testing.assert_allclose(rough, exact, rtol=0.01, atol=0.001 * exact.max())


@pytest.mark.parametrize(("rate", "guarantee"), [(1e4, nw.PureDP(2)), (1e9, nw.PureDP(5)), (1e9, nw.GaussianDP(1))],
                         ids=str)  # fmt: skip
def test_at_high_rates_the_best_question_is_that_of_the_normal_law(rate, guarantee):
    """Poisson counts are then normal, and one answer tells of the mean what it would tell there."""
    families = FAMILIES if isinstance(guarantee, nw.PureDP) else ("clip",)
    position = np.array([np.log(rate)])
    law, questions, around = laid_out(POISSON, position, guarantee, families)
    unit = float(units(law, Transform(POISSON.supports), position)[0])
    found = (
        informations(law, questions, around)[:, 0, 0].max() / unit**2 / rate
    )  # of what an answer without noise tells
    normal = nw.Normal(mean=stats.norm(0, 1), sd=1)
    design = Design(AnswerLaw(normal), guarantee, Transform(normal.supports), families=families, fixed=(),
                    score=Score.of("location"))  # fmt: skip
    assert design.base is not None
    assert found == pytest.approx(design.base.information[:, 0, 0].max(), rel=0.03)


@pytest.mark.parametrize("guarantee", [nw.PureDP(2), nw.GaussianDP(4)], ids=str)
@pytest.mark.parametrize("name", ["poisson", "geometric", "zipf"])
def test_large_and_heavy_discrete_populations_are_learnt(name, guarantee):
    population, draw, truth = {
        "poisson": (nw.Poisson(rate=stats.gamma(100, scale=1e7)), lambda rng: rng.poisson(1e9), 1e9),
        "geometric": (nw.Population(stats.geom, p=stats.beta(1, 20000)), lambda rng: rng.geometric(5e-5), 5e-5),
        "zipf": (nw.Population(stats.zipf, a=stats.uniform(1.5, 0.2)), lambda rng: rng.zipf(1.6), 1.6),
    }[name]
    rng = np.random.default_rng(3)
    survey = nw.Survey(population, guarantee=guarantee, n_particles=300, seed=3)
    (parameter,) = survey.sd
    before = survey.sd[parameter]
    for _ in range(20):
        query = survey.query()
        x = draw(rng)
        value = (int(np.searchsorted(query.edges, x, side="right")) if query.edges is not None
                 else round(float(np.clip(x, query.low, query.high)) / float(query.law.step[0])))  # fmt: skip
        survey.answer(query, value)
    assert survey.non_finite == 0
    assert survey.sd[parameter] < before
    assert abs(survey.mean[parameter] - truth) < 5 * max(survey.sd[parameter], 0.2 * before)


def test_a_tail_that_is_too_heavy_is_refused_with_a_way_out():
    population = nw.Population(stats.zipf, a=stats.uniform(1.05, 0.02))
    with pytest.raises(Unsupported, match=r"lighter tail, or one fixed question.*Query\.cells"):
        nw.Survey(population, guarantee=nw.PureDP(1), seed=1).query()
    survey = nw.Survey(
        population, guarantee=nw.PureDP(1), queries=nw.Query.cells([1.5, 10.5], guarantee=nw.PureDP(1)), seed=1
    )
    assert survey.answer(survey.query(), 2).is_counted


# ---- a scale that may be negative ----


def test_a_prior_under_which_the_origin_has_no_scale_is_judged_once_all_the_same():
    """low and high of a uniform law are both 0 at the origin of the walking scale; some prior draws have high < low."""
    population = nw.Uniform(low=stats.norm(0, 1), high=stats.norm(3, 1))
    law, transform = AnswerLaw(population), Transform(population.supports)
    design = Design(law, nw.PureDP(2), transform, families=FAMILIES, fixed=(), score=Score.of("logdet"))
    assert len(design.moving) == 2
    assert design.base is not None
    assert np.isfinite(design.base.information).all()
    asked = design.choose(np.array([1.0, 5.0]), np.eye(2))
    ends = asked.edges if asked.is_cells else (asked.low, asked.high)
    assert min(ends) >= 1 - 1e-9
    assert max(ends) <= 5 + 1e-9
    design.choose(np.array([2.0, 1.0]), np.eye(2))  # high < low: any question, and no warning
    assert nw.Survey(population, guarantee=nw.PureDP(2), seed=1).query()
