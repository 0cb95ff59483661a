"""A simulated survey: everyone is asked once, and the Cramér-Rao value is that of the questions that were asked."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from noisewise.likelihood import clipped_normal
from noisewise.online.asked import asked_of, question_of
from noisewise.online.collect import collect, cramer_rao, kind_of
from noisewise.online.survey import Survey
from noisewise.populations.population import Normal
from noisewise.privacy.guarantee import PureDP
from noisewise.query import Query

POPULATION = Normal(mean=stats.norm(0, 10), sd=stats.lognorm(1))
AT = {"mean": 3.0, "sd": 2.0}
GUARANTEE = PureDP(2)


def cell_information(edges: tuple[float, ...]) -> np.ndarray:
    """F of randomized response on cells, from the normal density alone."""
    asked = asked_of(Query.cells(edges, guarantee=GUARANTEE))
    z = (np.array([-np.inf, *edges, np.inf]) - AT["mean"]) / AT["sd"]
    density = stats.norm.pdf(z)
    slopes = -np.stack([density, np.where(np.isfinite(z), z, 0.0) * density]) / AT["sd"]
    q = asked.other + (asked.keep - asked.other) * np.diff(stats.norm.cdf(z))
    moved = (asked.keep - asked.other) * np.diff(slopes)
    return np.asarray((moved / q) @ moved.T)


def test_the_cramer_rao_value_is_that_of_the_sum_of_informations() -> None:
    clip, cells = Query.clip(1, 4.5, guarantee=GUARANTEE), Query.cells((2.0, 3.5, 5.0), guarantee=GUARANTEE)
    asked = asked_of(clip)
    one = clipped_normal.information(mean=3.0, sd=2.0, low=1.0, high=4.5, scale=asked.noise)
    total = 3 * np.asarray(one) + 2 * cell_information((2.0, 3.5, 5.0))
    expected = np.sqrt(np.diag(np.linalg.inv(total)))
    questions = [question_of(query) for query in (clip, cells, clip, clip, cells)]
    found = cramer_rao(POPULATION, questions, AT)
    assert list(found) == ["mean", "sd"]
    np.testing.assert_allclose(list(found.values()), expected, rtol=1e-5)
    fewer = cramer_rao(POPULATION, questions[:-1], AT)
    assert fewer["mean"] > (1 + 1e-4) * found["mean"]


def test_one_threshold_alone_never_tells_two_parameters_apart() -> None:
    questions = [question_of(Query.cells((2.0,), guarantee=GUARANTEE))] * 50
    assert set(cramer_rao(POPULATION, questions, AT).values()) == {float("inf")}


def test_everyone_is_asked_once_and_what_is_kept_is_what_the_survey_said() -> None:
    people = np.random.default_rng(1).normal(3, 2, 25)
    survey = Survey(POPULATION, guarantee=GUARANTEE, n_particles=50, seed=1)
    seen = []
    found = collect(
        survey, people, np.random.default_rng(2), every=10, progress=lambda done, _: seen.append((done, survey.mean))
    )
    assert survey.answers == len(found.questions) == len(found.values) == 25
    assert [done for done, _ in seen] == list(range(1, 26))
    assert [cloud.answers for cloud in found.clouds] == [1, 11, 21, 25]
    for name in POPULATION.free:
        assert found.mean[name].tolist() == [mean[name] for _, mean in seen]
    assert found.kinds.total() == 25
    assert found.rejuvenations == survey.rejuvenations
    assert found.longest > 0
    assert found.seconds > 0
    bare = collect(Survey(POPULATION, guarantee=GUARANTEE, n_particles=50, seed=1), people, np.random.default_rng(2))
    assert list(bare.values) == list(found.values)  # looking changes nothing
    assert not bare.mean


@pytest.mark.parametrize(("query", "kind"), [
    (Query.clip(0, 1, guarantee=GUARANTEE), "clip"), (Query.cells((0.0,), guarantee=GUARANTEE), "sign"),
    (Query.cells((0.0, 1.0), guarantee=GUARANTEE), "3 cells"),
], ids=["clip", "sign", "cells"])  # fmt: skip
def test_questions_are_counted_by_kind(query: Query, kind: str) -> None:
    assert kind_of(question_of(query)) == kind
