"""What makes a question good: every score against its formula with plain inverses, and functions of one's own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from surveys import NORMAL, income, people

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.inference.transform import Transform
from noisewise.online.scores import SCORES, Score

TRANSFORM = Transform(NORMAL.supports)
POSITION = np.array([48.0, np.log(20.0)])  # the mean as it is, the sd by its logarithm
SLOPES = np.diag([1.0, 20.0])


def matrices(rng, count):
    roots = rng.normal(size=(count, 2, 2))
    return roots @ np.swapaxes(roots, 1, 2)


def formula(name, found, covariance):
    """In the parameters' units: C = S c S', F = S^-1 f S^-1."""
    c = SLOPES @ covariance @ SLOPES
    f = np.linalg.inv(SLOPES) @ found @ np.linalg.inv(SLOPES)
    after = np.linalg.inv(np.linalg.inv(c) + f)
    each = np.diagonal(f, axis1=1, axis2=2)
    return {
        "logdet": np.log(np.linalg.det(np.linalg.inv(c) + f) * np.linalg.det(c)),
        "a-optimal": np.trace(c) - np.trace(after, axis1=1, axis2=2),
        "weighted": 3 * (c[0, 0] - after[:, 0, 0]) + 0.5 * (c[1, 1] - after[:, 1, 1]),
        "location": each[:, 0],
        "trace": each.sum(axis=1),
        "harmonic": 1 / (1 / each).sum(axis=1),
    }[name]


@pytest.mark.parametrize("name", [*SCORES, "weighted"])
def test_scores_are_their_formulas(name, rng):
    score = Score.of({"mean": 3, "sd": 0.5} if name == "weighted" else name)
    found, covariance = matrices(rng, 40), matrices(rng, 1)[0] + 0.1 * np.eye(2)
    values = score.values(found, TRANSFORM, POSITION, covariance)
    np.testing.assert_allclose(values, formula(name, found, covariance), rtol=1e-4)


def test_a_function_of_one_s_own_sees_the_parameters_units(rng):
    seen = []

    def mine(information, covariance):
        seen.append((information, covariance))
        return -information[:, 1, 1]

    found, covariance = matrices(rng, 7), np.diag([4.0, 0.01])
    values = Score.of(mine).values(found, TRANSFORM, POSITION, covariance)
    np.testing.assert_allclose(seen[0][1], np.diag([4.0, 4.0]), rtol=1e-6)
    np.testing.assert_allclose(values, -found[:, 1, 1] / 400, rtol=1e-6)
    with pytest.raises(InvalidArgument, match="one number for each"):
        Score.of(np.matmul).values(found, TRANSFORM, POSITION, covariance)


def of_the_mean(information, covariance):
    return information[:, 0, 0] + 0 * covariance[0, 0]


def test_a_score_is_used_saved_and_named(rng, tmp_path):
    names = set()
    for score in ("trace", {"sd": 1}, "logdet"):
        survey = nw.Survey(NORMAL, guarantee=nw.PureDP(2), score=score, n_particles=60, seed=1)
        people(survey, 12, rng, income)
        survey.save(tmp_path / "s")
        again = nw.Survey.load(tmp_path / "s")
        assert again.score == survey.score == score
        first, second = again.ask(), survey.ask()
        assert (first.low, first.high, first.edges) == (second.low, second.high, second.edges)
        names.add(survey.name)
    assert len(names) == 3
    own = nw.Survey(NORMAL, guarantee=nw.PureDP(2), score=of_the_mean, n_particles=60, seed=1)
    people(own, 5, rng, income)
    with pytest.raises(Unsupported, match="function"):
        own.save(tmp_path / "t")
    assert own.score is of_the_mean


def test_the_weight_of_a_parameter_draws_questions_to_it(rng):
    """Who cares for the sd alone asks at least as well about it as who cares for the mean alone."""
    found = {}
    for name in ("mean", "sd"):
        survey = nw.Survey(NORMAL, guarantee=nw.PureDP(3), score={name: 1}, explore=0, n_particles=300)
        people(survey, 250, rng, income)
        found[name] = survey.sd
    assert found["sd"]["sd"] < found["mean"]["sd"]


def test_scores_that_are_none_are_refused():
    for wrong in ("best", {}, {"mean": 0}, {"mean": -1}, {"mean": "much"}, {"rate": 1}, 3, None):
        with pytest.raises(InvalidArgument) as error:
            nw.Survey(NORMAL, guarantee=nw.PureDP(2), score=wrong)
        assert error.value.argument == "score"
    with pytest.raises(InvalidArgument, match="learns rate"):
        nw.Survey(nw.Poisson(rate=stats.gamma(3)), guarantee=nw.PureDP(2), score={"mean": 1})
