"""The public picture moves in steps, so that it does not show what the last person sent."""

from __future__ import annotations

import json

import numpy as np
import pytest
from collecting import generator, new_store, sqlite_path, visit
from scipy import stats

from noisewise import Bernoulli, Categorical, Gamma, Joint, LogNormal, Normal, Poisson, PureDP, Survey
from noisewise.collector.board import Board, ColumnWords, Words
from noisewise.collector.bulletin import Bulletin, question_words, unknowns
from noisewise.collector.desk import Desk
from noisewise.collector.learner import Learner
from noisewise.collector.store import create
from noisewise.online import particles as smc
from noisewise.online.simulate import simulated_answer
from noisewise.query import Query

WORDS = Words(title="Income", question="What do you earn?", unit="EUR", close="90 % interval of the mean below 3")
FIXED = Query.cells([30, 50, 70], guarantee=PureDP(2))


@pytest.fixture
def place(tmp_path):
    board = Board.open(new_store(sqlite_path(tmp_path), queries=FIXED))
    learner = Learner(board.store)
    now = [0.0]
    bulletin = Bulletin(board, learner, WORDS, clock=lambda: now[0])
    with Desk(board.store) as desk:
        learner.step()

        def answer(count):
            for _ in range(count):
                visit(desk, generator())
                while learner.step():
                    pass

        yield board, bulletin, now, answer


def shown(board):
    return json.loads(board.read("shown"))


def test_ten_answers_or_a_minute(place):
    board, bulletin, now, answer = place
    assert bulletin.look(is_closed=False)
    assert shown(board)["answers"] == 0
    answer(9)
    now[0] += 30
    assert not bulletin.look(is_closed=False)
    assert shown(board)["answers"] == 0
    answer(1)
    assert bulletin.look(is_closed=False)
    assert shown(board)["answers"] == 10
    answer(1)
    now[0] += 59
    assert not bulletin.look(is_closed=False)
    now[0] += 2
    assert bulletin.look(is_closed=False)
    assert shown(board)["answers"] == 11
    now[0] += 600
    assert not bulletin.look(is_closed=False)  # nobody answered: nothing moves
    assert bulletin.look(is_closed=True)
    assert shown(board)["closed"]


def test_a_crowd_does_not_make_it_move_more_than_once_a_second(place):
    board, bulletin, now, answer = place
    assert bulletin.look(is_closed=False)
    answer(25)
    now[0] += 0.9
    assert not bulletin.look(is_closed=False)
    now[0] += 0.2
    assert bulletin.look(is_closed=False)
    assert shown(board)["answers"] == 25


def test_what_is_shown_is_what_is_known(place):
    board, bulletin, _, answer = place
    answer(40)
    bulletin.look(is_closed=False)
    picture, learner = shown(board), bulletin.learner
    weight = smc.weights(learner.state.particles.log_weight)
    theta = learner.engine.target.parameters(learner.state.particles.position)
    for name in ("mean", "sd"):
        assert picture["mean"][name] == pytest.approx(weight @ theta[name])
        low, middle, high = picture["intervals"][name]
        for end, level in ((low, 0.05), (middle, 0.5), (high, 0.95)):
            assert weight[theta[name] < end].sum() <= level + 1e-9 <= weight[theta[name] <= end].sum() + 2e-9
    (curve,) = picture["fitted"]
    assert (curve["column"], curve["unit"], curve["question"]) == (None, "EUR", "")
    x, density = np.array(curve["x"]), np.array(curve["density"])
    mean, sd = theta["mean"][:, None], theta["sd"][:, None]
    assert weight @ np.diff(stats.norm.cdf(x[[0, -1]], mean, sd))[:, 0] > 0.9
    # 200 draws by weight give each of 50 particles its weight up to 1/200.
    most = stats.norm.pdf(x, mean, sd).sum(axis=0) / 200
    assert np.all(np.abs(density - weight @ stats.norm.pdf(x, mean, sd)) <= most + 1e-12)
    assert picture["unknowns"]["mean"] == {"words": "average", "about": "", "unit": "EUR", "share": False}
    assert list(picture["unknowns"]) == list(picture["mean"]) == ["mean", "sd"]
    assert picture["asking"] == "which of 4 ranges, split at 30, 50, 70 EUR"
    assert picture["forecast"] is None or picture["forecast"] > 0
    assert picture["simulated"]


def test_a_new_learner_goes_on_with_the_course(place):
    board, bulletin, now, answer = place
    bulletin.look(is_closed=False)
    answer(10)
    now[0] += 2
    bulletin.look(is_closed=False)
    again = Bulletin(board, Learner(board.store), WORDS, clock=lambda: now[0])
    answer(10)
    again.learner.step()
    while again.learner.step():
        pass
    again.look(is_closed=False)
    assert [point["answers"] for point in shown(board)["course"]] == [0, 10, 20]


def test_questions_in_words():
    assert question_words(Query.cells([37.5], guarantee=PureDP(1)), "min") == "below 37.5 min, or not"
    assert "between 0 and 120" in question_words(Query.clip(0, 120, guarantee=PureDP(1)), "")


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        ([45_321.57], "below 45321.6, or not"),
        ([12_345.5], "below 12345.5, or not"),  # between two counts
        ([100_000.2, 100_003.7], "which of 3 ranges, split at 100000.2, 100003.7"),
        ([4.961305, 27.038695], "which of 3 ranges, split at 4.961, 27.04"),
        ([0, 123_456.7], "which of 3 ranges, split at 0, 123457"),
        ([-1e-7, 2e-7], "which of 3 ranges, split at -1e-07, 2e-07"),
        ([0], "below 0, or not"),
    ],
)
def test_ranges_are_told_apart(edges, said):
    assert question_words(Query.cells(edges, guarantee=PureDP(1)), "") == said


def test_several_columns_and_levels_are_shown_one_by_one(tmp_path):
    """A density for numbers and shares for levels, each of its own column's draws, in the words of the survey."""
    population = Joint(
        way=Categorical(p=stats.dirichlet([1, 1, 1])),
        minutes=Normal(mean=stats.norm(40, 30), sd=stats.halfnorm(scale=9)),
    )
    survey = Survey(population, guarantee=PureDP(2), n_particles=60, levels={"way": ["walk", "bus", 3]})
    board = Board.open(create(sqlite_path(tmp_path), survey, simulated=True))
    columns = {"way": ColumnWords("How did you come?", "", {"walk": "on foot", "3": "otherwise"})}
    words = Words(title="Ways", question="Your way", unit="minutes", columns=columns)
    learner = Learner(board.store)
    learner.step()
    with Desk(board.store) as desk:
        for _ in range(30):
            query = desk.ask(wait=0)
            desk.answer(query.id, 1 if query.levels else simulated_answer(generator(), query, 46.0).value)
            learner.step()
    Bulletin(board, learner, words).look(is_closed=False)
    picture = shown(board)
    way, minutes = sorted(picture["fitted"], key=lambda one: str(one["column"]), reverse=True)
    assert (way["column"], way["question"], minutes["column"], minutes["unit"]) == (
        "way", "How did you come?", "minutes", "minutes",
    )  # fmt: skip
    assert (way["levels"], way["words"]) == (["walk", "bus", "3"], ["on foot", "bus", "otherwise"])
    assert set(picture["mean"]) == {"way.p[walk]", "way.p[bus]", "way.p[3]", "minutes.mean", "minutes.sd"}
    weight = smc.weights(learner.state.particles.log_weight)
    theta = learner.engine.target.parameters(learner.state.particles.position)
    for k, (low, middle, high) in enumerate(way["shares"]):
        own = theta["way.p"][:, k]
        for end, level in ((low, 0.05), (middle, 0.5), (high, 0.95)):
            assert weight[own < end].sum() <= level + 1e-9 <= weight[own <= end].sum() + 2e-9
        name = f"way.p[{way['levels'][k]}]"
        assert picture["intervals"][name] == [low, middle, high]
        assert picture["mean"][name] == pytest.approx(weight @ own)
    x = np.array(minutes["x"])
    mean, sd = theta["minutes.mean"][:, None], theta["minutes.sd"][:, None]
    most = stats.norm.pdf(x, mean, sd).sum(axis=0) / 200
    assert np.all(np.abs(minutes["density"] - weight @ stats.norm.pdf(x, mean, sd)) <= most + 1e-12)
    told = {name: (one["words"], one["about"], one["share"]) for name, one in picture["unknowns"].items()}
    spread = "spread between people (standard deviation)"
    assert told == {
        "way.p[walk]": ("share: on foot", "How did you come?", True),
        "way.p[bus]": ("share: bus", "How did you come?", True),
        "way.p[3]": ("share: otherwise", "How did you come?", True),
        "minutes.mean": ("average", "minutes", False),
        "minutes.sd": (spread, "minutes", False),
    }
    assert question_words(Query.choice(["walk", "bus"], guarantee=PureDP(1)), "", {"walk": "on foot"}) == (
        "which of on foot, bus"
    )
    assert picture["asking"].startswith(("How did you come? \N{EN DASH} which of on foot, bus, ", "minutes: "))


def test_a_column_of_0_and_1_is_asked_and_told_in_words():
    asked, words = Query.cells([0.5], guarantee=PureDP(1)), {"0": "no", "1": "yes"}
    assert question_words(asked, "", words) == "which of no, yes"
    assert question_words(Query.cells([37.5], guarantee=PureDP(1)), "min", words) == "below 37.5 min, or not"
    survey = Survey(Bernoulli(p=stats.uniform()), guarantee=PureDP(2), n_particles=20)
    told = unknowns(survey._engine, survey._engine.begin(), Words(title="T", question="Q", levels=words))
    assert told["p"]["words"] == "share: yes"


@pytest.mark.parametrize(
    ("population", "said"),
    [
        (Poisson(rate=stats.gamma(2)), {"rate": ("average", "EUR", False)}),
        (
            Gamma(shape=stats.gamma(2), rate=stats.gamma(2)),
            {"shape": ("shape", "", False), "rate": ("rate", "", False)},
        ),
        (Bernoulli(p=stats.uniform()), {"p": ("share", "", True)}),
        (
            LogNormal(log_mean=stats.norm(3, 1), log_sd=stats.halfnorm()),
            {"log_mean": ("average of the logarithm", "", False), "log_sd": ("spread of the logarithm", "", False)},
        ),
    ],
)
def test_an_unknown_has_a_unit_only_where_it_is_in_the_unit_of_the_answers(population, said):
    survey = Survey(population, guarantee=PureDP(2), n_particles=20)
    told = unknowns(survey._engine, survey._engine.begin(), WORDS)
    assert {name: (one["words"], one["unit"], one["share"]) for name, one in told.items()} == said
