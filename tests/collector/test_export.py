"""What a survey publishes: all answers, by question, without their order; what is learnt from the file is the same."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from collecting import NORMAL, answered_lines, caught_up, generator, new_store, visit
from scipy import stats

import noisewise as nw
from noisewise.collector.desk import Desk
from noisewise.collector.export import export
from noisewise.collector.learner import Learner
from noisewise.errors import InvalidRelease, SurveyError
from noisewise.likelihood.joint import joint_likelihood
from noisewise.survey_release import load_releases


def surveyed(where, n, seed, **given):
    learner = Learner(new_store(where, **given))
    learner.step()
    with Desk(learner.store) as desk:
        for k in range(n):
            visit(desk, generator(seed, k))
            learner.step()
    return caught_up(learner)


@pytest.fixture(scope="module", params=["clip", "cells"])
def learner(request, tmp_path_factory):
    return surveyed(tmp_path_factory.mktemp("s") / "s", 60, 1, queries=request.param, n_particles=100)


def plain_log_likelihood(store, mean, sd):
    """log p of every line of the log by itself: scipy's cdf for cells, quadrature over x for clipped answers."""
    with store.session() as session:
        queries = {id: json.loads(query) for id, query in session.rows("SELECT id, query FROM queries")}
    total = 0.0
    for id, value in answered_lines(store):
        query = nw.Query.from_dict(queries[id])
        if query.edges is not None:
            p = np.diff(stats.norm.cdf([-np.inf, *query.edges, np.inf], mean, sd))
            keep, other = float(query.law.keep), (1 - float(query.law.keep)) / len(query.edges)
            total += np.log(other + (keep - other) * p[value])
        else:
            x = np.linspace(mean - 12 * sd, mean + 12 * sd, 200_001)
            scale, step = float(query.law.scale[0]), float(query.law.step[0])
            noise = np.exp(-np.abs(value * step - np.clip(x, query.low, query.high)) / scale) / (2 * scale)
            total += np.log(np.trapezoid(noise * stats.norm.pdf(x, mean, sd), x))
    return total


def test_the_file_has_the_law_of_the_log(learner, tmp_path):
    export(learner.store).save(tmp_path / "answers.json")
    releases = load_releases(tmp_path / "answers.json")
    at = {"mean": np.array([45.0, 52.0, 60.0]), "sd": np.array([15.0, 21.0, 33.0])}
    found = joint_likelihood(releases, NORMAL).log_likelihood(at)
    expected = [plain_log_likelihood(learner.store, m, s) for m, s in zip(*at.values(), strict=True)]
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-4, atol=1e-4)


def test_all_answers_are_there_sorted_or_counted_and_no_id_is(learner, tmp_path):
    made = export(learner.store)
    made.save(tmp_path / "answers.json")
    text = (tmp_path / "answers.json").read_text()
    logged = answered_lines(learner.store)
    assert not any(id in text for id, _ in logged)
    assert made.answers == 60 == sum(release.schema.n for release in made)
    published = Counter()
    for release in made:
        if release.is_categorical:
            published.update({cell: count for cell, count in enumerate(release.value) if count})
        else:
            assert list(release.value) == sorted(release.value)
            published.update(release.value)
    assert published == Counter(value for _, value in logged)
    assert nw.SurveyRelease.load(tmp_path / "answers.json").to_bytes() == made.to_bytes()
    assert json.loads(text)["format"] == "noisewise-release/2"


def test_the_order_of_arrival_leaves_no_trace():
    query, other = (nw.Query.cells([edge], guarantee=nw.PureDP(1)) for edge in (3.0, 2.0))
    clip = nw.Query.clip(0, 1, guarantee=nw.PureDP(1))
    one = nw.SurveyRelease.of("a", {query: [0, 1, 1], other: [1, 0], clip: [7, -3]}, simulated=False)
    two = nw.SurveyRelease.of("a", {clip: [-3, 7], other: [0, 1], query: [1, 0, 1]}, simulated=False)
    assert one.to_bytes() == two.to_bytes()


def test_a_store_of_simulated_people_exports_a_simulated_release_and_a_real_one_does_not(learner, tmp_path):
    made = export(learner.store)
    assert made.simulated
    assert all(release.simulated for release in made)
    assert "simulated" in str(made)
    real = Learner(new_store(tmp_path / "real", simulated=False))
    real.step()
    with pytest.raises(SurveyError, match="Nobody"):
        export(real.store)
    with Desk(real.store) as desk:
        desk.answer(desk.ask().id, 0)
    assert not export(real.store).simulated


def test_what_is_learnt_from_the_file_is_what_the_survey_knows(tmp_path):
    fixed = [nw.Query.cells([edge], guarantee=nw.PureDP(2)) for edge in (35.0, 50.0, 65.0)]
    learner = surveyed(tmp_path / "s", 80, 2, queries=fixed, n_particles=4000)
    export(learner.store).save(tmp_path / "answers.json")
    posterior = nw.infer(nw.SurveyRelease.load(tmp_path / "answers.json"), NORMAL, seed=1)
    known = learner.posterior()
    for name in ("mean", "sd"):
        assert posterior.mean[name] == pytest.approx(known.mean[name], abs=0.15 * known.sd[name])
        assert posterior.sd[name] == pytest.approx(known.sd[name], rel=0.15)


def test_show_and_the_reader_of_single_releases_say_what_the_file_is(learner, tmp_path):
    from typer.testing import CliRunner

    from noisewise.cli.main import app

    file = tmp_path / "answers.json"
    export(learner.store).save(file)
    told = CliRunner().invoke(app, ["show", str(file)])
    assert told.exit_code == 0, told.output
    assert "60 people" in told.output
    assert "SIMULATED" in told.output
    with pytest.raises(InvalidRelease, match=r"SurveyRelease\.load"):
        nw.Release.load(file)


def test_a_file_that_was_changed_is_refused(learner, tmp_path):
    file = tmp_path / "answers.json"
    export(learner.store).save(file)
    good = json.loads(file.read_text())

    def is_refused(plain):
        file.write_text(json.dumps(plain))
        try:
            nw.SurveyRelease.load(file)
        except InvalidRelease:
            return True
        return False

    def resealed(plain):
        from noisewise.survey_release import _digest

        return {**plain, "hash": _digest({name: value for name, value in plain.items() if name != "hash"})}

    assert not is_refused(good)
    for name in good:
        for value in (None, 3, "x", [], {}, [{}], -1.5):
            assert is_refused({**good, name: value}), (name, value)
            if name != "hash" and not (name == "answers" and value == good["answers"]):
                assert is_refused(resealed({**good, name: value})), (name, value)
    assert is_refused(resealed({**good, "releases": good["releases"][:-1]}))  # a selection
    assert is_refused(resealed({**good, "releases": good["releases"][::-1]}))
    assert is_refused(resealed({**good, "simulated": False}))
    assert is_refused([good])
