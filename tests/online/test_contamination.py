"""People who do not tell the truth: the law that allows for them, what it repairs, and what it refuses."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats
from surveys import NORMAL, income, people

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.online.asked import asked_of
from noisewise.online.contamination import LIES, log_prior, sample_prior
from noisewise.online.simulate import simulated_answer
from noisewise.online.survey_law import SurveyLaw

SHARES = {"lies.top": 0.1, "lies.bottom": 0.03, "lies.anywhere": 0.06}
THETA = {name: np.array([value]) for name, value in {"mean": 48.0, "sd": 21.0, **SHARES}.items()}


def told(rng, query):
    """What a device is told by one person of such a population, lies included."""
    kind = rng.choice(4, p=[1 - sum(SHARES.values()), *SHARES.values()])
    if kind == 0:
        return float(rng.normal(48, 21))
    if kind == 3:
        edges = query.edges or (query.low, query.high)
        places = [edges[0] - 1, *(0.5 * (a + b) for a, b in pairwise(edges)), edges[-1] + 1]
        return float(rng.choice(places if query.edges else [query.low, query.high]))
    return 1e9 if kind == 1 else -1e9


def test_cells_have_the_shares_that_people_who_lie_give_them():
    """By hand: what is told is a mixture, and randomized response turns every cell into every other alike."""
    law = SurveyLaw(NORMAL, contamination=0.1)
    query = nw.Query.cells([20, 50, 90], guarantee=nw.PureDP(2))
    found = np.exp(law.log_density(asked_of(query), np.arange(4), THETA)[0])
    honest = np.diff(stats.norm.cdf([-np.inf, 20, 50, 90, np.inf], 48, 21))
    said = 0.81 * honest + np.array([0.03, 0, 0, 0.1]) + 0.06 / 4
    keep = np.exp(2) / (np.exp(2) + 3)
    np.testing.assert_allclose(found, said * keep + (1 - said) * (1 - keep) / 3, rtol=1e-12)
    assert found.sum() == pytest.approx(1)


@pytest.mark.parametrize("guarantee", [nw.PureDP(2), nw.GaussianDP(1)])
def test_a_clipped_answer_has_the_density_of_the_mixture(guarantee):
    """Against quadrature over what the device is told."""
    law = SurveyLaw(NORMAL, contamination=0.1)
    query = nw.Query.clip(30, 70, guarantee=guarantee)
    asked = asked_of(query)
    noise = stats.laplace(0, asked.noise) if asked.is_laplace else stats.norm(0, asked.noise)
    for y in (-20.0, 33.0, 55.0, 90.0):
        inside, _ = integrate.quad(
            lambda x, y=y: stats.norm.pdf(x, 48, 21) * noise.pdf(y - x), 30, 70, points=[np.clip(y, 31, 69)]
        )
        ends = stats.norm.cdf(30, 48, 21) * noise.pdf(y - 30) + stats.norm.sf(70, 48, 21) * noise.pdf(y - 70)
        expected = 0.81 * (inside + ends) + 0.13 * noise.pdf(y - 70) + 0.06 * noise.pdf(y - 30)
        found = np.exp(law.log_density(asked, np.array([y]), THETA)[0, 0]) / asked.step
        assert found == pytest.approx(expected, rel=1e-6)


def test_all_answers_together_are_the_sum_of_single_ones(rng):
    """The summed law of many questions against one answer after the other."""
    from noisewise.online.answered import Group

    law = SurveyLaw(NORMAL, contamination=0.2)
    theta = {name: np.concatenate([value, 0.8 * value]) for name, value in THETA.items()}
    groups, total = [], 0.0
    for query in (nw.Query.clip(20, 60, guarantee=nw.PureDP(1)), nw.Query.cells([30, 60], guarantee=nw.PureDP(1))):
        asked = asked_of(query)
        y = np.array([simulated_answer(rng, query, told(rng, query)).reading for _ in range(60)])
        groups.append(Group(asked, y))
        total = total + law.log_density(asked, y, theta).sum(axis=1)
    np.testing.assert_allclose(law.joint(groups, theta)(theta), total, atol=1e-6)


def test_the_prior_of_the_shares_is_the_dirichlet_it_says():
    at = {name: np.array([0.02, 0.5]) for name in LIES}
    weights = [13.5, 0.5, 0.5, 0.5]
    assert log_prior(at, 0.1)[0] == pytest.approx(stats.dirichlet(weights).logpdf([0.94, 0.02, 0.02, 0.02]))
    assert log_prior(at, 0.1)[1] == -np.inf  # shares that leave nobody honest
    drawn = sample_prior(np.random.default_rng(1), 40_000, 0.1)
    assert sum(drawn.values()).mean() == pytest.approx(0.1, abs=0.003)


def test_a_survey_that_allows_for_lies_finds_them_and_the_honest_mean(rng, tmp_path):
    """One liar in three at the top moves the plain mean by more than ten; both surveys see the same kind of people."""
    plain = nw.Survey(NORMAL, guarantee=nw.PureDP(3), n_particles=300)
    wary = nw.Survey(NORMAL, guarantee=nw.PureDP(3), n_particles=300, contamination=0.2)
    for survey in (plain, wary):
        people(survey, 900, rng, lambda rng: 1e6 if rng.random() < 1 / 3 else income(rng))
    assert plain.mean["mean"] > 58
    assert abs(wary.mean["mean"] - 50) < 6 * wary.sd["mean"] + 1
    assert wary.mean["mean"] < plain.mean["mean"] - 4
    assert wary.mean["lies.top"] > 0.12
    assert set(wary.posterior().draws) == {"mean", "sd", *LIES}
    assert "lies.top" in wary.posterior().summary()
    wary.save(tmp_path / "s")
    again = nw.Survey.load(tmp_path / "s")
    assert again.contamination == 0.2
    assert again.mean == wary.mean == wary.replay().mean
    assert wary.forecast("90 % interval of the mean below 0.5") > 0


def test_populations_are_compared_with_the_same_allowance_for_lies(rng):
    """The survey's own population has the survey's own evidence, up to the particles' error."""
    survey = nw.Survey(NORMAL, guarantee=nw.PureDP(3), n_particles=1000, contamination=0.3)
    people(survey, 40, rng, lambda rng: 1e6 if rng.random() < 0.5 else income(rng))
    far = nw.Normal(mean=stats.norm(-1e4, 1), sd=1)
    found = survey.compare({"own": NORMAL, "far": far}, seed=1)
    assert found.log_evidence["own"] == pytest.approx(survey.log_evidence, abs=1.5)
    assert found.ranking[0] == "own"


def test_shares_and_levels_that_make_no_sense_are_refused():
    for wrong in (-0.1, 0.7, 1, "some", True, float("nan"), None):
        with pytest.raises(InvalidArgument) as error:
            nw.Survey(NORMAL, guarantee=nw.PureDP(2), contamination=wrong)
        assert error.value.argument == "contamination"
    with pytest.raises(Unsupported, match="levels"):
        nw.Survey(nw.Categorical(p=stats.dirichlet([1, 1])), guarantee=nw.PureDP(2), contamination=0.1)
    names = {nw.Survey(NORMAL, guarantee=nw.PureDP(2), seed=1, contamination=c).name for c in (0, 0.1, 0.2)}
    assert len(names) == 3


def told_falsely(rng, query, kind):
    """What a device is told: one person in ten lies, at the top or anywhere."""
    if rng.random() >= 0.1:
        return income(rng)
    if kind == "top":
        return 1e9
    edges = query.edges or (query.low, query.high)
    inner = [0.5 * (a + b) for a, b in pairwise(edges)] if query.edges else []
    return float(rng.choice([edges[0] - 1, *inner, edges[-1] + 1]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["top", "uniform"])
def test_intervals_hold_the_honest_mean_where_one_in_ten_lies(kind, rng):
    """50 surveys. 34 of 40 held when this was written (17 of 20 of each kind); at that rate fewer than 28 of 50 come
    less than once in a million runs. Surveys that allow for no lies held in 0 of 10 where they were one-sided."""
    held = 0
    for _ in range(50):
        survey = nw.Survey(NORMAL, guarantee=nw.PureDP(2), n_particles=500, contamination=0.1)
        for _ in range(1000):
            query = survey.query()
            survey.answer(simulated_answer(rng, query, told_falsely(rng, query, kind)))
        low, high = survey.posterior().interval(0.9)["mean"]
        held += low <= 50 <= high
    assert held >= 28
