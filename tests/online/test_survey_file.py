"""A survey that is kept: across processes as if it had never stopped, and no other file is taken for one."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats
from surveys import NORMAL, income, people

import noisewise as nw
from noisewise.errors import InvalidArgument, NoisewiseError
from noisewise.online.asked import question_of
from noisewise.online.simulate import simulated_answer
from noisewise.online.survey import Survey

CONTINUE = """
import sys, json, numpy as np
import noisewise as nw
from noisewise.online.simulate import simulated_answer
survey = nw.Survey.load(sys.argv[1])
rng = np.random.default_rng(99)
asked = []
for _ in range(40):
    query = survey.query()
    asked.append({**query.to_dict(), "id": None})
    survey.answer(simulated_answer(rng, query, rng.normal(50, 20)))
print(json.dumps([asked, survey.mean, survey.sd, survey.log_evidence, survey._particles.position.sum()]))
assert not any(name.startswith("noisewise.holder") for name in sys.modules)
"""


@pytest.mark.parametrize(("queries", "n"), [("auto", 500), ("clip", 60)])
def test_a_survey_saved_and_loaded_in_a_new_process_continues_as_if_it_had_never_stopped(tmp_path, queries, n):
    survey = Survey(NORMAL, guarantee=nw.PureDP(2), queries=queries, n_particles=200, seed=16)
    people(survey, n, np.random.default_rng(17), income)
    survey.query()  # one question is still out
    survey.save(tmp_path / "s.survey")
    done = subprocess.run([sys.executable, "-c", CONTINUE, str(tmp_path / "s.survey")], capture_output=True, text=True,
                          check=True)  # fmt: skip
    there = json.loads(done.stdout)
    rng, asked = np.random.default_rng(99), []
    for _ in range(40):
        query = survey.query()
        asked.append(json.loads(json.dumps({**query.to_dict(), "id": None})))
        survey.answer(simulated_answer(rng, query, rng.normal(50, 20)))
    assert there == [asked, survey.mean, survey.sd, survey.log_evidence, survey._particles.position.sum()]


def crashed(tmp_path):
    """A survey that was saved, asked three more people, counted one of them, and was lost; and what it asked them."""
    survey = Survey(NORMAL, guarantee=nw.PureDP(2), n_particles=100, seed=30)
    rng = np.random.default_rng(31)
    people(survey, 5, rng, income)
    early = survey.query()
    survey.save(tmp_path / "s")
    late = [simulated_answer(rng, survey.query(), 50.0) for _ in range(3)]
    survey.answer(late[0])
    return early, late


def test_a_survey_that_is_loaded_never_gives_an_id_twice_and_says_what_became_of_those_it_forgot(tmp_path):
    early, late = crashed(tmp_path)
    first, second = (nw.Survey.load(tmp_path / "s") for _ in range(2))
    asked = [survey.query() for survey in (first, second) for _ in range(3)]
    ids = [query.id for query in asked] + [answer.query.id for answer in late] + [early.id]
    assert len(set(ids)) == len(ids)
    assert [question_of(query) for query in asked[:3]] == [question_of(query) for query in asked[3:]]
    for answer in late:  # whether it asked others meanwhile or not
        with pytest.raises(InvalidArgument, match="last saved"):
            first.answer(answer)
    with pytest.raises(InvalidArgument, match="another copy of this survey"):  # which is true: `second` asked it
        first.answer(asked[3], 0)
    assert first.answer(early, 0).is_counted  # what was out when it was saved is known
    assert first.answer(asked[1], 0).is_counted
    first.save(tmp_path / "t")
    third = nw.Survey.load(tmp_path / "t")
    assert not third.answer(early, 0).is_counted
    assert third.answer(asked[0], 0).is_counted
    assert not third.answer(asked[1], 0).is_counted
    with pytest.raises(InvalidArgument, match="last saved"):
        third.answer(first.query(), 0)
    assert third.query().id not in ids


def test_numbers_of_numpy_are_kept_as_numbers(tmp_path):
    survey = Survey(NORMAL, guarantee=nw.PureDP(2), n_particles=np.int64(50), seed=np.int64(3), queries="clip")
    query = survey.query()
    answer = nw.Answer(query, np.int64(100))
    assert json.loads(json.dumps(answer.to_dict()))["value"] == 100
    assert survey.answer(query, np.int64(100)).is_counted
    survey.save(tmp_path / "s")
    assert nw.Survey.load(tmp_path / "s").mean == survey.mean


def test_everything_a_survey_knows_survives_the_file(tmp_path):
    two, population = nw.PureDP(2), nw.Poisson(rate=stats.gamma(3))
    queries = ("sign", nw.Query.clip(0, 4, guarantee=two))
    survey = Survey(population, guarantee=two, queries=queries, score="a-optimal", n_particles=150)
    answers = people(survey, 40, np.random.default_rng(18), lambda rng: rng.poisson(2.5))
    late = survey.query()
    with pytest.raises(InvalidArgument):
        survey.answer("nonsense")
    survey.save(tmp_path / "s")
    again = nw.Survey.load(tmp_path / "s")
    names = ("name", "answers", "issued", "refused", "repeated", "waiting", "log_evidence", "rejuvenations", "score",
             "families", "fixed", "guarantee", "seed", "distinct_queries", "mean", "sd", "effective_size")  # fmt: skip
    for name in names:
        assert getattr(again, name) == getattr(survey, name), name
    assert not again.answer(answers[3]).is_counted
    assert again.answer(late, 0).is_counted
    np.testing.assert_array_equal(again._particles.position[:, 0].shape, survey._particles.position[:, 0].shape)


def test_a_posterior_of_a_survey_can_be_saved_like_any_other(tmp_path):
    survey = Survey(NORMAL, guarantee=nw.PureDP(2), n_particles=100, seed=23)
    people(survey, 10, np.random.default_rng(24), income)
    posterior = survey.posterior()
    posterior.save(tmp_path / "p")
    again = nw.Posterior.load(tmp_path / "p")
    assert again.mean == posterior.mean
    assert str(again.verdict) == str(posterior.verdict)
    assert again.log_evidence == survey.log_evidence


def test_files_that_are_no_surveys_are_refused_in_one_sentence(tmp_path):
    survey = Survey(NORMAL, guarantee=nw.PureDP(2), n_particles=50, seed=25)
    survey.save(tmp_path / "good")
    whole = (tmp_path / "good").read_bytes()
    (tmp_path / "short").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text").write_text("nothing")
    np.savez(tmp_path / "other.npz", header=np.array(json.dumps({"format": "noisewise-survey/9"})))
    np.savez(tmp_path / "bare.npz", header=np.array(json.dumps({"format": "noisewise-survey/1"})))
    np.save(tmp_path / "array.npy", np.zeros(3))
    for name in ("short", "text", "other.npz", "bare.npz", "array.npy", "missing"):
        with pytest.raises(InvalidArgument, match="saved survey"):
            nw.Survey.load(tmp_path / name)
    with pytest.raises(InvalidArgument, match="path"):
        nw.Survey.load(None)  # type: ignore[arg-type]
    with pytest.raises(NoisewiseError, match="Cannot write"):
        survey.save(tmp_path / "no" / "such" / "folder")


def test_a_survey_file_with_anything_out_of_range_is_refused_in_one_sentence(tmp_path):
    survey = Survey(NORMAL, guarantee=nw.PureDP(2), n_particles=20, seed=26)
    people(survey, 5, np.random.default_rng(27), income)
    survey.query()
    survey.save(tmp_path / "good.npz")
    with np.load(tmp_path / "good.npz") as file:
        arrays = dict(file)
    header = json.loads(str(arrays.pop("header")))

    def is_refused(header, arrays):
        np.savez(tmp_path / "bad.npz", header=np.array(json.dumps(header)), **arrays)
        try:
            nw.Survey.load(tmp_path / "bad.npz")
        except InvalidArgument as error:
            return "saved survey" in str(error)
        return False

    assert not is_refused(header, arrays)
    for name in header:
        values = (float("nan"), "x", True) if name == "log_evidence" else (float("nan"), "x", -1, True, 1.5, [[0, 0]])
        for value in values:
            assert is_refused({**header, name: value}, arrays), (name, value)
    for name in arrays:
        wrong = np.nan if arrays[name].dtype.kind == "f" else 99
        assert is_refused(header, {**arrays, name: np.full_like(arrays[name], wrong)}), name
        assert is_refused(header, {**arrays, name: arrays[name][:-1]}), name
    swapped = {name: arrays[name][::-1].copy() for name in ("log_kind", "log_number")}
    assert is_refused(header, {**arrays, **swapped})  # answered before it was asked
    twice = [[number, query] for number, query in header["open"] for _ in range(2)]
    assert is_refused({**header, "open": twice}, arrays)
    assert is_refused({**header, "answered": header["answered"][1:]}, arrays)


def test_a_damaged_archive_is_refused_whatever_it_brings_about(tmp_path):
    survey = Survey(NORMAL, guarantee=nw.PureDP(2), n_particles=20, seed=28)
    survey.save(tmp_path / "good")
    whole = bytearray((tmp_path / "good").read_bytes())
    start = whole.rindex(b"PK\x01\x02")
    for at, byte in [(start + 10, 99), (start + 8, 1), (start + 6, 255)]:  # compression, encryption, version
        bad = bytes(whole[:at]) + bytes([byte]) + bytes(whole[at + 1 :])
        (tmp_path / "bad").write_bytes(bad)
        with pytest.raises(InvalidArgument, match="saved survey"):
            nw.Survey.load(tmp_path / "bad")
