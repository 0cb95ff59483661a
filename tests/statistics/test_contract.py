"""What every statistic owes: a kind that is registered is driven by this test, or the test says what it lacks."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import plain_evaluation
import pytest
from curated_records import COLUMNS, PUBLIC, STATISTICS, N, columns, drawn, x, y
from own_statistics import Shortfall, Spread, registered
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, InvalidRelease, InvalidSpec, Unregistered
from noisewise.holder.evaluate import IbisRows
from noisewise.laws import Form
from noisewise.privacy.mechanism import TABLE
from noisewise.statistics import Sort, Statistic, statistic_from_dict
from noisewise.statistics.evaluation import NumPyRows
from noisewise.statistics.registry import KINDS, register_statistic, statistic_kinds

OWN = {"shortfall": Shortfall(y, 60.0), "spread": Spread(x)}
EXAMPLES: dict[str, Statistic] = {**STATISTICS, **OWN}
OWN_PLAIN = {
    "shortfall": lambda plan, records: plain_evaluation.summed(
        ["60 - clip(y, 0, 60)", "between(y, 0, 60)"], plan, records
    ),
    "spread": lambda plan, records: [
        (found := plain_evaluation.ranked(plan, records))[-1] - found[0],
    ],
}
PLAIN = {**plain_evaluation.BY_KIND, **OWN_PLAIN}
BUDGETS = {
    nw.PureDP: nw.PureDP(2), nw.ApproxDP: nw.ApproxDP(1, "1e-6"), nw.ZeroConcentratedDP: nw.ZeroConcentratedDP(2),
    nw.GaussianDP: nw.GaussianDP(2),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def outsiders():
    """Two statistics from outside have to pass what the others pass."""
    with registered(Shortfall, Spread):
        yield


@pytest.fixture(params=sorted(EXAMPLES))
def statistic(request) -> Statistic:
    return EXAMPLES[request.param]


def plan_for(statistic: Statistic, schema: nw.Schema = PUBLIC) -> nw.Plan:
    """By the first mechanism of the table that serves it."""
    kind = next(row.guarantees[0] for row in TABLE if row.serves(statistic))
    return nw.plan(statistic, schema, guarantee=BUDGETS[kind])


def test_every_registered_kind_is_driven_here_and_has_a_third_evaluation_in_plain_python() -> None:
    kinds = {kind.kind for kind in statistic_kinds()}
    assert kinds == set(EXAMPLES)
    assert kinds == set(PLAIN)


def test_a_statistic_is_plain_data_that_texts_and_files_name(statistic: Statistic) -> None:
    assert statistic_from_dict(json.loads(json.dumps(statistic.to_dict()))) == statistic
    assert nw.statistic(str(statistic)) == statistic
    assert hash(statistic) == hash(nw.statistic(str(statistic)))
    assert isinstance(statistic.sort, Sort)


def test_it_reads_the_columns_it_names_and_no_other(statistic: Statistic) -> None:
    data = drawn()
    named = statistic.columns()
    assert list(named) == sorted(named)
    assert set(named) <= set(COLUMNS)
    before = statistic.value({name: columns(data)[name] for name in named}, PUBLIC)  # needs no other column
    for name in named:
        others = [{**columns(data), name: columns(drawn())[name]} for _ in range(30)]  # a count may come out the same
        assert any(not np.array_equal(before, statistic.value(changed, PUBLIC)) for changed in others), name


def test_a_plan_is_what_settling_gives_and_settling_again_shows_that_it_was_altered(statistic: Statistic) -> None:
    made = plan_for(statistic)
    assert made.again() == made
    assert len(statistic.labels(PUBLIC)) == len(made.lattice.step) == len(made.noise)
    assert statistic.divisor(PUBLIC) == (N if statistic.kind == "mean" else 1)
    if made.law.form is Form.NUMBER:
        less = replace(made, law=made.law.smaller(Fraction(1, 2)))
        assert less.again() != less
        assert less.again() == made


def test_weights_are_taken_or_refused(statistic: Statistic) -> None:
    made = plan_for(statistic)
    if statistic.takes_weights:
        weights = [2 * weight for weight in made.weights]
        again = nw.plan(statistic, PUBLIC, guarantee=made.guarantee, weights=weights)
        assert again.weights == tuple(weights)
        assert again.law.share_of_noise(made.law) == pytest.approx(1, rel=1e-6)  # only the ratio of weights matters
    else:
        with pytest.raises(InvalidArgument, match="takes no weights"):
            nw.plan(statistic, PUBLIC, guarantee=made.guarantee, weights=[1])


@pytest.mark.parametrize("source", ["a frame", "two parts"])
def test_ibis_numpy_and_plain_python_give_the_same_whole_numbers(statistic: Statistic, source: str) -> None:
    data = drawn()
    beyond = data.assign(x=data.x * 1.3 - 1, y=data.y * 1.1)  # some records are clamped
    made = plan_for(statistic)
    records = plain_evaluation.cleaned(beyond.to_dict("records"), PUBLIC)
    expected = PLAIN[statistic.kind](made, records)
    by_database = statistic.evaluate(IbisRows(nw.Table.read(beyond, PUBLIC), made), made.lattice)[0].tolist()
    own = columns(pd.DataFrame(records))
    pieces = [{name: values[None] for name, values in own.items()}]
    if source == "two parts":
        pieces = [{name: v[None, part] for name, v in own.items()} for part in (slice(17), slice(17, None))]
    by_numpy = statistic.evaluate(NumPyRows(PUBLIC, pieces, N), made.lattice)[0].tolist()
    if statistic.is_local:
        by_database, by_numpy, expected = sorted(by_database), sorted(by_numpy), sorted(expected)
    tolerance = 2 if statistic.kind == "smallest-eigenvalue" else 0
    assert np.max(np.abs(np.array(by_database) - np.array(by_numpy))) <= tolerance
    assert np.max(np.abs(np.array(by_database) - np.array(expected))) <= tolerance


def test_no_record_moves_it_farther_than_its_sensitivity(statistic: Statistic, rng: np.random.Generator) -> None:
    made = plan_for(statistic)
    if made.sensitivity is None:  # smooth sensitivity, randomized response: audited with their mechanisms
        assert made.law.form is not Form.NUMBER
        return
    weights, step = np.array(made.weights, dtype=float), np.array(made.lattice.step)
    one = {name: values[:1] for name, values in columns(drawn()).items()}
    for _ in range(30):
        before, after = columns(drawn()), columns(drawn())
        corner = {"x": rng.choice([-3.0, 7.0]), "y": rng.choice([0.0, 250.0]), "g": rng.integers(3)}
        changed = {n: np.append(v[1:], after[n][:1] if rng.random() < 0.5 else corner[n]) for n, v in before.items()}
        rows = [{n: (v[:1] if statistic.is_local else v)[None] for n, v in each.items()} for each in (before, changed)]
        if statistic.is_local:
            rows[1] = {n: np.atleast_1d(v[-1])[None] for n, v in changed.items()}
        first, second = (
            statistic.evaluate(NumPyRows(PUBLIC, [each], len(one["x"]) if statistic.is_local else N), made.lattice)[0]
            for each in rows
        )
        moved = weights * step * np.abs(np.asarray(first - second, dtype=float))
        size = moved.sum() if made.sensitivity.norm == 1 else np.sqrt((moved**2).sum())
        assert size <= float(made.sensitivity.value) * (1 + 1e-12)


def test_it_is_released_read_back_and_simulated(statistic: Statistic, tmp_path) -> None:
    made = plan_for(statistic)
    ledger = nw.Ledger.open(tmp_path / "ledger", limit=made.guarantee)
    word = "a test" if made.statistic.unproved else None
    nw.make_release(nw.Table.read(drawn(), PUBLIC), made, ledger=ledger, signed=word).save(tmp_path / "r.json")
    release = nw.Release.load(tmp_path / "r.json")
    assert release.statistic == statistic
    population = nw.Joint(
        x=nw.Normal(mean=2, sd=2), y=nw.Gamma(shape=2, rate=0.02), g=nw.Categorical(p=[0.2, 0.3, 0.5])
    )
    assert nw.simulate(made, population, seed=1).statistic == statistic


# ---- from outside ----


def test_a_row_of_features_from_outside_is_learnt_from_like_any_sum() -> None:
    schema = nw.Schema({"y": nw.Bounded(0, 250)}, n=2000, neighbours="change-one")
    population = nw.Normal(mean=stats.norm(80, 30), sd=20)
    made = nw.plan(OWN["shortfall"], schema, guarantee=nw.PureDP(5))
    truth = {"mean": 75.0}
    release = nw.simulate(made, population, at=truth, seed=3)
    posterior = nw.infer(release, population, seed=1, progress=False)
    by_hand = nw.simulate(nw.plan(nw.Sum(60 - y.clip(0, 60), y.between(0, 60)), schema, guarantee=nw.PureDP(5)),
                          population, at=truth, seed=3)  # fmt: skip
    same = nw.infer(by_hand, population, seed=1, progress=False)
    assert posterior.mean["mean"] == pytest.approx(same.mean["mean"], rel=1e-12)
    assert abs(posterior.mean["mean"] - 75) < 6 * posterior.sd["mean"]
    assert len(nw.choose([made, nw.plan(nw.Mean(y), schema, guarantee=nw.PureDP(5))], population).ranking) == 2


def test_a_statistic_without_a_row_is_refused_wherever_one_is_needed_and_the_piece_is_named() -> None:
    schema = nw.Schema({"x": nw.Bounded(-3, 7)}, n=200, neighbours="change-one")
    population = nw.Normal(mean=stats.norm(2, 2), sd=1)
    made = nw.plan(OWN["spread"], schema, guarantee=nw.PureDP(5))
    release = nw.simulate(made, population, at={"mean": 2.0}, seed=3)
    for act in (
        lambda: nw.infer(release, population, seed=1, progress=False),
        lambda: nw.infer(release, population, likelihood="clt", seed=1, progress=False),
        lambda: nw.information(made, population, at={"mean": 2.0}),
        lambda: nw.choose([made, nw.plan(nw.Mean(x), schema, guarantee=nw.PureDP(5))], population),
    ):
        with pytest.raises(Unregistered, match="row") as refused:
            act()
        assert refused.value.piece == "row"


def test_a_kind_that_nobody_registered_is_known_to_no_text_and_no_file() -> None:
    release = nw.simulate(nw.plan(OWN["spread"], PUBLIC, guarantee=nw.PureDP(1)), nw.Joint(
        x=nw.Normal(mean=2, sd=2)), seed=1)  # fmt: skip
    written = release.to_dict()
    KINDS.pop("spread")
    try:
        with pytest.raises(InvalidSpec, match="spread"):
            nw.statistic("spread(x)")
        with pytest.raises(InvalidRelease, match="spread"):
            nw.Release.from_dict(written)
    finally:
        register_statistic(Spread)
    assert nw.Release.from_dict(written) == release
    with pytest.raises(InvalidArgument, match="already"):
        register_statistic(Spread)


def test_rows_that_pass_by_once_are_not_asked_twice() -> None:
    rows = NumPyRows(PUBLIC, [{name: values[None] for name, values in columns(drawn()).items()}], N)
    lattice = plan_for(EXAMPLES["median"]).lattice
    rows.answers(x, lattice)
    with pytest.raises(nw.NoisewiseError, match="pass by once"):
        rows.answers(x, lattice)
