"""A survey: the posterior of exactly the answers it counted, whatever becomes of the others, and across processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.online.asked import asked_of, question_of
from noisewise.online.simulate import simulated_answer
from noisewise.online.survey import Survey

NORMAL = nw.Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50))


def people(survey, n, rng, draw):
    """Ask n people; give back what they were asked and what they answered."""
    answers = []
    for _ in range(n):
        answer = simulated_answer(rng, survey.query(), float(draw(rng)))
        assert survey.answer(answer).is_counted
        answers.append(answer)
    return answers


def income(rng):
    return rng.normal(50, 20)


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
    survey = Survey(NORMAL, nw.PureDP(epsilon), queries=queries, n_particles=5000, seed=1)
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
    survey = Survey(NORMAL, nw.PureDP(4), n_particles=500, seed=3)
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
    survey = Survey(NORMAL, nw.PureDP(1), n_particles=300, seed=5)
    people(survey, 400, np.random.default_rng(6), income)
    assert survey.distinct_queries < 250


# ---- answers that are late, lost, twice, strange ----


def test_the_order_of_answers_does_not_matter_and_lost_ones_are_as_if_never_asked():
    fixed = nw.Query.clip(20, 80, nw.PureDP(3))
    found = []
    for order in (1, -1):
        survey = Survey(NORMAL, nw.PureDP(3), queries=fixed, n_particles=3000, seed=8)
        asked = [survey.query() for _ in range(60)]
        answers = [simulated_answer(np.random.default_rng([9, k]), query, income(np.random.default_rng([10, k])))
                   for k, query in enumerate(asked[:50])][::order]  # fmt: skip
        for answer in answers:
            survey.answer(answer)
        assert survey.waiting == 10
        found.append((survey.mean, survey.sd, survey.log_evidence))
    assert found[0][0]["mean"] == pytest.approx(found[1][0]["mean"], abs=0.15 * found[0][1]["mean"])
    assert found[0][2] == pytest.approx(found[1][2], abs=0.3)


def test_an_answer_counts_once():
    survey = Survey(NORMAL, nw.PureDP(1), n_particles=200, seed=11)
    rng = np.random.default_rng(12)
    first = simulated_answer(rng, survey.query(), 40.0)
    assert survey.answer(first).is_counted
    mean, evidence = survey.mean, survey.log_evidence
    again = survey.answer(first)
    assert not again.is_counted
    assert "before" in again.reason
    other = nw.Answer(first.query, 1 - first.value if first.query.edges else first.value + 1)
    assert not survey.answer(other).is_counted  # the first answer stays
    assert (survey.mean, survey.log_evidence, survey.answers, survey.repeated) == (mean, evidence, 1, 2)


def strangers(survey, query):
    """Answers that this survey cannot have received."""
    guarantee = nw.PureDP(1)
    name = survey.name
    return {
        "no id": (nw.Query.cells([3], guarantee), 0),
        "another survey's": (nw.Query.cells([3], guarantee, id="abc-0"), 0),
        "never issued": (nw.Query.cells([3], guarantee, id=f"{name}-99"), 0),
        "odd number": (nw.Query.cells([3], guarantee, id=f"{name}-00"), 0),
        "negative": (nw.Query.cells([3], guarantee, id=f"{name}--1"), 0),
        "another question": (nw.Query.cells([3.25], guarantee, id=query.id), 0),
        "another law": (nw.Query(nw.PureDP(9), query.low, query.high, query.edges, query.id), 0),
        "no cell": (query, 7),
        "negative cell": (query, -1),
        "half a cell": (query, 0.5),
        "true": (query, True),
        "nothing": (query, None),
        "text": (query, "1"),
        "no query": ("query", 1),
        "a number": (3, 1),
    }


def test_what_was_not_asked_or_cannot_be_answered_is_refused_and_teaches_nothing():
    survey = Survey(NORMAL, nw.PureDP(1), queries="sign", n_particles=200, seed=13)
    query = survey.query()
    mean = survey.mean
    cases = strangers(survey, query)
    for case, (asked, value) in cases.items():
        with pytest.raises(InvalidArgument):
            survey.answer(asked, value)
        assert survey.mean == mean, case
    assert survey.refused == len(cases)
    assert survey.answers == 0
    assert survey.answer(query, 1).is_counted  # and the query itself is still open


@pytest.mark.parametrize("value", [0.5, 2**70, None, "1", True], ids=repr)
def test_a_clipped_answer_off_its_lattice_is_refused(value):
    survey = Survey(NORMAL, nw.PureDP(1), queries="clip", n_particles=100, seed=14)
    query = survey.query()
    with pytest.raises(InvalidArgument):
        survey.answer(query, value)
    assert survey.refused == 1


@pytest.mark.parametrize(
    ("guarantee", "reach"), [(nw.PureDP(1), 900), (nw.GaussianDP(1), 40)], ids=["laplace", "gaussian"]
)
def test_an_answer_far_out_is_counted_while_its_noise_can_reach_it_and_refused_beyond(guarantee, reach):
    survey = Survey(NORMAL, guarantee, queries="clip", n_particles=200, seed=15)
    for side in (-1, 1):
        query = survey.query()
        asked = asked_of(query)
        end = asked.high if side > 0 else asked.low
        for beyond in (2**62, int((abs(end) + 3 * reach * asked.noise) / asked.step)):
            with pytest.raises(InvalidArgument, match="noise"):
                survey.answer(query, side * beyond)
        assert survey.answer(query, int((end + side * reach * asked.noise) / asked.step)).is_counted
    assert survey.refused == 4
    assert np.isfinite(list(survey.mean.values())).all()
    assert np.isfinite(survey.log_evidence)


# ---- keeping ----

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
    survey = Survey(NORMAL, nw.PureDP(2), queries=queries, n_particles=200, seed=16)
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
    survey = Survey(NORMAL, nw.PureDP(2), n_particles=100, seed=30)
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
    with pytest.raises(InvalidArgument, match="not asked by this survey"):
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


def test_surveys_that_differ_in_anything_do_not_take_each_other_s_answers():
    def survey(population=NORMAL, epsilon=2, **options):
        return Survey(population, nw.PureDP(epsilon), **{"n_particles": 50, "seed": 7, **options})

    wider = nw.Normal(mean=stats.norm(50, 51), sd=stats.halfnorm(scale=50))
    named = [survey(), survey(wider), survey(epsilon=1), survey(queries="sign"), survey(score="harmonic"),
             survey(n_particles=51), survey(seed=8), survey(seed=None), survey(seed=None),
             survey(queries=nw.Query.clip(0, 1, nw.PureDP(2))), survey(nw.Poisson(rate=stats.gamma(3)))]  # fmt: skip
    assert len({one.name for one in named}) == len(named)
    with pytest.raises(InvalidArgument, match="not asked by this survey"):
        named[0].answer(named[1].query(), 0)
    assert survey().name == named[0].name  # the same seed and the same everything is the same survey


def test_numbers_of_numpy_are_kept_as_numbers(tmp_path):
    survey = Survey(NORMAL, nw.PureDP(2), n_particles=np.int64(50), seed=np.int64(3), queries="clip")
    query = survey.query()
    answer = nw.Answer(query, np.int64(100))
    assert json.loads(json.dumps(answer.to_dict()))["value"] == 100
    assert survey.answer(query, np.int64(100)).is_counted
    survey.save(tmp_path / "s")
    assert nw.Survey.load(tmp_path / "s").mean == survey.mean


def test_a_second_answer_to_an_edited_question_is_refused_not_called_a_repetition():
    survey = Survey(NORMAL, nw.PureDP(1), queries="sign", n_particles=50, seed=32)
    query = survey.query()
    survey.answer(query, 1)
    for edited in (nw.Query.cells([7.25], nw.PureDP(1), id=query.id), nw.Query.clip(0, 1, nw.PureDP(9), id=query.id)):
        with pytest.raises(InvalidArgument, match="not as this survey asked it"):
            survey.answer(edited, 0)
    with pytest.raises(InvalidArgument, match="value"):
        survey.answer(query, "1")
    assert not survey.answer(query, 0).is_counted
    assert (survey.refused, survey.repeated) == (3, 1)


# ---- people and priors that are hard to ask ----


def test_a_heavy_tailed_prior_does_not_lock_the_survey_on_one_question(rng):
    population = nw.Normal(mean=stats.cauchy(0, 10), sd=stats.halfcauchy(scale=10))
    survey = Survey(population, nw.PureDP(1), seed=2)
    answers = people(survey, 150, rng, lambda rng: rng.normal(20, 5))
    asked = Counter(question_of(answer.query) for answer in answers)
    assert len(asked) > 20
    assert max(asked.values()) < 75


@pytest.mark.parametrize(("value", "queries"), [(50.0, "auto"), (50.0, "clip"), (-1e6, "auto")])
def test_a_survey_of_people_who_are_all_alike_goes_on(value, queries, rng):
    population = nw.Normal(mean=stats.norm(value, 50), sd=stats.halfnorm(scale=50))
    survey = Survey(population, nw.PureDP(10), queries=queries, n_particles=200, seed=33)
    people(survey, 150, rng, lambda _: value)
    assert survey.mean["mean"] == pytest.approx(value, abs=1e-3)
    assert survey.sd["mean"] < 1e-3


def test_a_survey_that_cannot_ask_any_finer_says_so_and_keeps_its_posterior(rng):
    tiny, huge = (
        nw.Normal(mean=m, sd=stats.halfnorm(scale=m.std())) for m in (stats.norm(0, 1e-90), stats.norm(9e120, 1e120))
    )
    survey = Survey(tiny, nw.PureDP(20), n_particles=50, seed=34)
    with pytest.raises(Unsupported, match="the same value"):
        people(survey, 1000, rng, lambda _: 0.0)
    assert survey.answers > 10
    assert abs(survey.mean["mean"]) < 1e-92
    with pytest.raises(Unsupported, match="wide"):
        Survey(huge, nw.PureDP(1), n_particles=50, seed=35).query()


@pytest.mark.parametrize("score", ["location", "a-optimal"])
@pytest.mark.parametrize(
    ("population", "value"),
    [(nw.Bernoulli(p=stats.beta(0.01, 0.01)), 1.0), (nw.Normal(mean=stats.norm(50, 10), sd=stats.gamma(0.05)), 50.0)],
    ids=["bernoulli", "normal"],
)
def test_priors_whose_draws_lie_on_the_end_of_their_support_are_learnt_from(population, value, score):
    survey = Survey(population, nw.PureDP(5), score=score, n_particles=200, seed=36)
    people(survey, 40, np.random.default_rng(37), lambda _: value)
    assert np.isfinite(survey._particles.position).all()
    assert np.isfinite([*survey.mean.values(), survey.log_evidence]).all()


def test_everything_a_survey_knows_survives_the_file(tmp_path):
    survey = Survey(nw.Poisson(rate=stats.gamma(3)), nw.PureDP(2), queries=("sign", nw.Query.clip(0, 4, nw.PureDP(2))),
                    score="a-optimal", n_particles=150)  # fmt: skip
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


def test_the_same_seed_gives_the_same_survey_and_asking_for_the_posterior_changes_nothing():
    one, two = (Survey(NORMAL, nw.PureDP(2), n_particles=200, seed=19) for _ in range(2))
    for k in range(30):
        a, b = one.query(), two.query()
        assert a == b
        one.posterior()
        answer = simulated_answer(np.random.default_rng([20, k]), a, 55.0)
        one.answer(answer)
        two.answer(answer)
    np.testing.assert_array_equal(one.posterior().draws["sd"], two.posterior().draws["sd"])
    assert Survey(NORMAL, nw.PureDP(2), n_particles=200, seed=21).query() != Survey(
        NORMAL, nw.PureDP(2), n_particles=200, seed=22).query()  # fmt: skip


def test_a_posterior_of_a_survey_can_be_saved_like_any_other(tmp_path):
    survey = Survey(NORMAL, nw.PureDP(2), n_particles=100, seed=23)
    people(survey, 10, np.random.default_rng(24), income)
    posterior = survey.posterior()
    posterior.save(tmp_path / "p")
    again = nw.Posterior.load(tmp_path / "p")
    assert again.mean == posterior.mean
    assert str(again.verdict) == str(posterior.verdict)
    assert again.log_evidence == survey.log_evidence


def test_files_that_are_no_surveys_are_refused_in_one_sentence(tmp_path):
    survey = Survey(NORMAL, nw.PureDP(2), n_particles=50, seed=25)
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
    survey = Survey(NORMAL, nw.PureDP(2), n_particles=20, seed=26)
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
        assert is_refused(header, {**arrays, name: np.full_like(arrays[name], np.nan)}), name
    twice = [[number, query] for number, query in header["open"] for _ in range(2)]
    assert is_refused({**header, "open": twice}, arrays)
    assert is_refused({**header, "answered": header["answered"][1:]}, arrays)


def test_a_damaged_archive_is_refused_whatever_it_brings_about(tmp_path):
    survey = Survey(NORMAL, nw.PureDP(2), n_particles=20, seed=28)
    survey.save(tmp_path / "good")
    whole = bytearray((tmp_path / "good").read_bytes())
    start = whole.rindex(b"PK\x01\x02")
    for at, byte in [(start + 10, 99), (start + 8, 1), (start + 6, 255)]:  # compression, encryption, version
        bad = bytes(whole[:at]) + bytes([byte]) + bytes(whole[at + 1 :])
        (tmp_path / "bad").write_bytes(bad)
        with pytest.raises(InvalidArgument, match="saved survey"):
            nw.Survey.load(tmp_path / "bad")


WRONG = {
    "guarantee": [1, None, "epsilon"],
    "population": [None, 3, nw.Normal(mean=0, sd=1)],
    "queries": [[], "nonsense", 3, [None], [np.array([1, 2])], nw.Query.cells([0], nw.PureDP(1))],
    "score": ["best", None, 1],
    "n_particles": [1, 2.5, True, 10**9, "many"],
    "seed": [-1, "x", 1.5, True],
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_arguments_are_refused_by_name(name):
    for value in WRONG[name]:
        arguments = {"population": NORMAL, "guarantee": nw.PureDP(2), name: value}
        with pytest.raises(InvalidArgument) as error:
            Survey(arguments.pop("population"), arguments.pop("guarantee"), **arguments)
        assert error.value.argument == name


def test_a_survey_that_cannot_be_kept_private_is_refused():
    with pytest.raises(Unsupported):
        Survey(NORMAL, nw.GaussianDP(1), queries="cells")
    with pytest.raises(Unsupported):
        Survey(nw.Gamma(shape=stats.gamma(2), rate=1), nw.GaussianDP(1))


@pytest.mark.parametrize(
    "guarantee",
    [nw.PureDP(2), nw.GaussianDP(1), nw.ZeroConcentratedDP(1), nw.ApproxDP(1, "1e-6")],
    ids=lambda guarantee: guarantee.kind,
)
def test_every_question_a_survey_asks_keeps_the_survey_s_guarantee_and_can_be_answered(guarantee):
    from noisewise.audit.exact import exact_loss

    survey = nw.Survey(NORMAL, guarantee, n_particles=100, seed=26)
    rng = np.random.default_rng(27)
    for _ in range(12):
        query = survey.query()
        assert query.guarantee == guarantee
        assert exact_loss(query.plan()).holds
        assert survey.answer(
            nw.respond(nw.Query.from_dict(json.loads(json.dumps(query.to_dict()))), rng.normal(50, 20))
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
