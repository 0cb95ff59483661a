"""A survey: the posterior of exactly the answers it counted, from people and priors that are easy or hard to ask."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from surveys import NORMAL, income, people

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.online.asked import asked_of, question_of
from noisewise.online.simulate import simulated_answer
from noisewise.online.survey import Survey


def grid_posterior(population, answers, centre, spread):
    """Mean, sd and log evidence on a grid of two parameters, from the closed law of each answer alone."""
    from noisewise.likelihood import cells, clipped_normal

    axes = []
    for k, (c, s) in enumerate(zip(centre, spread, strict=True)):  # midpoints, so that an end at 0 costs nothing
        edges = np.linspace(max(c - 7 * s, 0.0) if k else c - 7 * s, c + 7 * s, 162)
        axes.append(0.5 * (edges[1:] + edges[:-1]))
    mean, sd = (v.ravel() for v in np.meshgrid(*axes, indexing="ij"))
    log = population.log_prior({"mean": mean, "sd": sd})
    for answer in answers:
        query, asked = answer.query, asked_of(answer.query)
        if query.edges is None:
            log = log + np.log(asked.step) + clipped_normal.log_density(
                answer.reading, mean=mean, sd=sd, low=query.low, high=query.high, scale=asked.noise)  # fmt: skip
        else:
            inner = stats.norm.cdf((np.array(query.edges) - mean[:, None]) / sd[:, None])
            p = np.diff(inner, axis=1, prepend=0, append=1)
            log = log + np.log(cells.answer_probabilities(p, keep=float(query.law.keep)))[:, answer.value]
    weight = np.exp(log - log.max())
    area = np.prod([axis[1] - axis[0] for axis in axes])
    evidence = np.log(weight.sum() * area) + log.max()
    weight /= weight.sum()
    means = np.array([weight @ mean, weight @ sd])
    return means, np.sqrt([weight @ (mean - means[0]) ** 2, weight @ (sd - means[1]) ** 2]), evidence


@pytest.mark.parametrize(("epsilon", "queries"), [(2, "auto"), (5, "clip"), (1, "sign")])
def test_the_posterior_is_that_of_a_grid_on_the_same_answers(epsilon, queries):
    survey = Survey(NORMAL, guarantee=nw.PureDP(epsilon), queries=queries, n_particles=5000, seed=1)
    answers = people(survey, 150, np.random.default_rng(2), income)
    centre, spread = list(survey.mean.values()), list(survey.sd.values())
    mean, sd, evidence = grid_posterior(NORMAL, answers, centre, spread)
    assert np.all(np.abs(np.array(centre) - mean) < 0.1 * sd)
    np.testing.assert_allclose(spread, sd, rtol=0.12)
    assert survey.log_evidence == pytest.approx(evidence, abs=0.5)
    posterior = survey.posterior()
    assert posterior.mean == survey.mean
    assert posterior.draws["mean"].mean() == pytest.approx(mean[0], abs=0.15 * sd[0])


def test_a_survey_learns_and_says_how_far_it_can_be_trusted():
    survey = Survey(NORMAL, guarantee=nw.PureDP(4), n_particles=500, seed=3)
    before = survey.sd
    people(survey, 150, np.random.default_rng(4), income)
    assert survey.sd["mean"] < before["mean"] / 8
    assert abs(survey.mean["mean"] - 50) < 6 * survey.sd["mean"]
    assert survey.answers == survey.issued == 150
    assert survey.waiting == survey.refused == survey.repeated == 0
    assert 1 <= survey.distinct_queries <= 150
    assert survey.rejuvenations > 0
    posterior = survey.posterior()
    assert posterior.verdict.is_converged
    assert "150 answers" in posterior.summary()
    assert "answers" in repr(survey)


def test_queries_repeat_so_that_answers_can_be_summed():
    survey = Survey(NORMAL, guarantee=nw.PureDP(1), n_particles=300, seed=5)
    people(survey, 400, np.random.default_rng(6), income)
    assert survey.distinct_queries < 250


# ---- people and priors that are hard to ask ----


def test_a_heavy_tailed_prior_does_not_lock_the_survey_on_one_question(rng):
    population = nw.Normal(mean=stats.cauchy(0, 10), sd=stats.halfcauchy(scale=10))
    survey = Survey(population, guarantee=nw.PureDP(1), seed=2)
    answers = people(survey, 150, rng, lambda rng: rng.normal(20, 5))
    asked = Counter(question_of(answer.query) for answer in answers)
    assert len(asked) > 20
    assert max(asked.values()) < 75


@pytest.mark.parametrize(("value", "queries"), [(50.0, "auto"), (50.0, "clip"), (-1e6, "auto")])
def test_a_survey_of_people_who_are_all_alike_goes_on(value, queries, rng):
    population = nw.Normal(mean=stats.norm(value, 50), sd=stats.halfnorm(scale=50))
    survey = Survey(population, guarantee=nw.PureDP(10), queries=queries, n_particles=200, seed=33)
    people(survey, 150, rng, lambda _: value)
    assert survey.mean["mean"] == pytest.approx(value, abs=1e-3)
    assert survey.sd["mean"] < 1e-3


def test_a_survey_that_cannot_ask_any_finer_says_so_and_keeps_its_posterior(rng):
    tiny, huge = (
        nw.Normal(mean=m, sd=stats.halfnorm(scale=m.std())) for m in (stats.norm(0, 1e-90), stats.norm(9e120, 1e120))
    )
    survey = Survey(tiny, guarantee=nw.PureDP(20), n_particles=50, seed=34)
    with pytest.raises(Unsupported, match="the same value"):
        people(survey, 1000, rng, lambda _: 0.0)
    assert survey.answers > 10
    assert abs(survey.mean["mean"]) < 1e-92
    with pytest.raises(Unsupported, match="wide"):
        Survey(huge, guarantee=nw.PureDP(1), n_particles=50, seed=35).query()


@pytest.mark.parametrize("score", ["location", "a-optimal"])
@pytest.mark.parametrize(
    ("population", "value"),
    [(nw.Bernoulli(p=stats.beta(0.01, 0.01)), 1.0), (nw.Normal(mean=stats.norm(50, 10), sd=stats.gamma(0.05)), 50.0)],
    ids=["bernoulli", "normal"],
)
def test_priors_whose_draws_lie_on_the_end_of_their_support_are_learnt_from(population, value, score):
    survey = Survey(population, guarantee=nw.PureDP(5), score=score, n_particles=200, seed=36)
    people(survey, 40, np.random.default_rng(37), lambda _: value)
    assert np.isfinite(survey._particles.position).all()
    assert np.isfinite([*survey.mean.values(), survey.log_evidence]).all()


# ---- seeds, arguments, guarantees ----


def test_the_same_seed_gives_the_same_survey_and_asking_for_the_posterior_changes_nothing():
    one, two = (Survey(NORMAL, guarantee=nw.PureDP(2), n_particles=200, seed=19) for _ in range(2))
    for k in range(30):
        a, b = one.query(), two.query()
        assert a == b
        one.posterior()
        answer = simulated_answer(np.random.default_rng([20, k]), a, 55.0)
        one.answer(answer)
        two.answer(answer)
    np.testing.assert_array_equal(one.posterior().draws["sd"], two.posterior().draws["sd"])
    assert Survey(NORMAL, guarantee=nw.PureDP(2), n_particles=200, seed=21).query() != Survey(
        NORMAL, guarantee=nw.PureDP(2), n_particles=200, seed=22).query()  # fmt: skip


WRONG = {
    "guarantee": [1, None, "epsilon"],
    "population": [None, 3, nw.Normal(mean=0, sd=1)],
    "queries": [[], "nonsense", 3, [None], [np.array([1, 2])], nw.Query.cells([0], guarantee=nw.PureDP(1))],
    "score": ["best", None, 1],
    "n_particles": [1, 2.5, True, 10**9, "many"],
    "seed": [-1, "x", 1.5, True],
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_arguments_are_refused_by_name(name):
    for value in WRONG[name]:
        arguments = {"population": NORMAL, "guarantee": nw.PureDP(2), name: value}
        with pytest.raises(InvalidArgument) as error:
            Survey(arguments.pop("population"), guarantee=arguments.pop("guarantee"), **arguments)
        assert error.value.argument == name


def test_a_survey_that_cannot_be_kept_private_is_refused():
    with pytest.raises(Unsupported):
        Survey(NORMAL, guarantee=nw.GaussianDP(1), queries="cells")
    with pytest.raises(Unsupported):
        Survey(nw.Gamma(shape=stats.gamma(2), rate=1), guarantee=nw.GaussianDP(1))


@pytest.mark.parametrize(
    "guarantee",
    [nw.PureDP(2), nw.GaussianDP(1), nw.ZeroConcentratedDP(1), nw.ApproxDP(1, "1e-6")],
    ids=lambda guarantee: guarantee.kind,
)
def test_every_question_a_survey_asks_keeps_the_survey_s_guarantee_and_can_be_answered(guarantee):
    from noisewise.audit.exact import exact_loss

    survey = nw.Survey(NORMAL, guarantee=guarantee, n_particles=100, seed=26)
    rng = np.random.default_rng(27)
    for _ in range(12):
        query = survey.query()
        assert query.guarantee == guarantee
        assert exact_loss(query.plan()).holds
        assert survey.answer(
            nw.respond(nw.Query.from_dict(json.loads(json.dumps(query.to_dict()))), rng.normal(50, 20), cap=guarantee)
        )
    assert survey.answers == 12


def test_the_survey_module_never_loads_the_holder_s_wing():
    source = Path(nw.__file__).parent / "online"
    assert source.is_dir()
    program = (
        "import sys, noisewise as nw; nw.Survey; print([m for m in sys.modules if 'holder' in m or m == 'opendp'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
