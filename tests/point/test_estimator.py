"""An estimator as a mechanism: released for real, read from the file, and still a likelihood."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.point.optimal import optimal_estimator

N = 12
SCHEMA = nw.Schema({"smoker": nw.Levels(["no", "yes"])}, n=N, neighbours="change-one")
SMOKERS = nw.Count(nw.column("smoker").equals("yes"))
POPULATION = nw.Bernoulli(p=stats.beta(2, 3))
ONE = nw.PureDP(1)


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text("smoker\n" + "yes\n" * 4 + "no\n" * (N - 4), "utf-8")
    return path


def test_a_count_of_those_present_is_not_out_of_n() -> None:
    """Somebody whose answer is missing is not counted, and is no "no"."""
    holes = nw.Schema(SCHEMA.columns, n=N, neighbours="change-one", missing="leave-out")
    with pytest.raises(Unsupported, match=r"'smoker' were left out .* an estimator takes n for it"):
        optimal_estimator(POPULATION, "squared", guarantee=ONE, statistic=SMOKERS, schema=holes)
    estimator = optimal_estimator(POPULATION, "squared", guarantee=ONE, statistic=SMOKERS, schema=SCHEMA)
    made = nw.plan(SMOKERS, holes, guarantee=ONE, mechanism="geometric")
    release = nw.Release.of(made, [3], dataset="d", ledger_head=None, simulated=True)
    with pytest.raises(Unsupported, match="left out"):
        estimator.estimate(release)


def test_the_whole_line_from_records_to_a_posterior(records: Path, tmp_path: Path) -> None:
    estimator = optimal_estimator(POPULATION, "squared", guarantee=ONE, statistic=SMOKERS, schema=SCHEMA)
    made = nw.plan(SMOKERS, SCHEMA, guarantee=ONE, mechanism=estimator)
    with nw.Ledger.open(tmp_path / "people.ledger", limit=ONE) as ledger:
        nw.make_release(nw.Table.read(records, SCHEMA), made, ledger=ledger).save(tmp_path / "answer.json")
        assert ledger.spent() == ONE
    release = nw.Release.load(tmp_path / "answer.json")
    answer = estimator.estimate(release)
    assert answer == release.estimate[0]
    assert answer in estimator.actions
    # The answer under squared loss is the posterior mean given the answer; the file alone gives it back.
    posterior = nw.infer(release, POPULATION, seed=1, progress=False)
    draws = posterior.draws["p"].ravel()
    assert abs(draws.mean() - answer) < stats.norm.isf(5e-7) * draws.std() / math.sqrt(draws.size)
    given = np.array([float(row[release.value[0]]) for row in estimator.rows])
    weights = given * stats.betabinom.pmf(np.arange(N + 1), N, 2, 3)
    assert answer == pytest.approx(weights @ ((np.arange(N + 1) + 2) / (N + 5)) / weights.sum(), rel=1e-12)


def test_a_clipped_geometric_count_has_the_law_of_the_estimator() -> None:
    estimator = optimal_estimator(POPULATION, "squared", guarantee=ONE, n=N)
    law = nw.plan(SMOKERS, SCHEMA, guarantee=ONE, mechanism="geometric").law
    noisy = np.arange(-60, N + 61)
    for s in (0, 3, N):
        masses = np.exp(law.log_pmf(noisy - float(s)))
        clipped = np.bincount(np.clip(noisy, 0, N), weights=masses)
        assert np.allclose(clipped, estimator.matrix[s], rtol=0, atol=1e-12)


def test_an_answer_is_read_off_a_geometric_count(records: Path, tmp_path: Path) -> None:
    estimator = optimal_estimator(POPULATION, "absolute", guarantee=ONE, n=N)
    made = nw.plan(SMOKERS, SCHEMA, guarantee=ONE, mechanism="geometric")
    with nw.Ledger.open(tmp_path / "people.ledger", limit=ONE) as ledger:
        release = nw.make_release(nw.Table.read(records, SCHEMA), made, ledger=ledger)
    noisy = release.value[0]
    assert estimator.estimate(release) == estimator.actions[min(max(noisy, 0), N)]
    assert np.array_equal(estimator.estimate([-5, noisy, 99])[[0, 2]], estimator.actions[[0, -1]])
    with pytest.raises(InvalidArgument, match="whole numbers"):
        estimator.estimate([0.5])
    with pytest.raises(InvalidArgument, match="12 records"):
        optimal_estimator(POPULATION, "absolute", guarantee=nw.PureDP(2), n=N).estimate(release)
    with pytest.raises(InvalidArgument, match="13 records"):
        optimal_estimator(POPULATION, "absolute", guarantee=ONE, n=13).estimate(release)


def test_another_estimator_s_release_is_not_read() -> None:
    one, two = (optimal_estimator(POPULATION, loss, guarantee=ONE, n=N) for loss in ("squared", "absolute"))
    made = nw.plan(SMOKERS, SCHEMA, guarantee=ONE, mechanism=one)
    release = nw.Release.of(made, [3], dataset="simulated", ledger_head=None, simulated=True)
    assert one.estimate(release) == one.actions[3]
    with pytest.raises(InvalidArgument, match="another estimator"):
        two.estimate(release)


def test_a_plan_refuses_an_estimator_of_other_records_or_of_less_privacy() -> None:
    for estimator in (
        optimal_estimator(POPULATION, "squared", guarantee=ONE, n=N + 1),
        optimal_estimator(POPULATION, "squared", guarantee=nw.PureDP("1.01"), n=N),
    ):
        with pytest.raises(Unsupported):
            nw.plan(SMOKERS, SCHEMA, guarantee=ONE, mechanism=estimator)
    # More privacy than asked for is welcome.
    nw.plan(
        SMOKERS,
        SCHEMA,
        guarantee=ONE,
        mechanism=optimal_estimator(POPULATION, "squared", guarantee=nw.PureDP("0.9"), n=N),
    )


def test_a_large_estimator_says_how_to_release() -> None:
    large = optimal_estimator(POPULATION, "squared", guarantee=ONE, n=400)
    schema = nw.Schema({"smoker": nw.Levels(["no", "yes"])}, n=400, neighbours="change-one")
    with pytest.raises(Unsupported, match="mechanism='geometric'"):
        nw.plan(SMOKERS, schema, guarantee=ONE, mechanism=large)
    assert np.allclose(large.matrix.sum(axis=1), 1)
    released = nw.plan(SMOKERS, schema, guarantee=ONE, mechanism="geometric")
    noisy = nw.Release.of(released, [-3], dataset="simulated", ledger_head=None, simulated=True)
    assert large.estimate(noisy) == large.actions[0]


def test_only_geometric_estimators_read_counts() -> None:
    solved = optimal_estimator(POPULATION, "squared", guarantee=ONE, n=4, actions=[0.2, 0.5, 0.8])
    with pytest.raises(Unsupported, match="geometric"):
        solved.estimate([1])


def test_it_is_plain_data_and_can_be_seen(tmp_path: Path) -> None:
    estimator = optimal_estimator(POPULATION, "squared", guarantee=ONE, n=N)
    plain = json.loads(json.dumps(estimator.to_dict(), allow_nan=False))
    assert plain["risk"] == estimator.risk
    assert nw.plan(SMOKERS, SCHEMA, guarantee=ONE, mechanism=estimator).law == estimator.to_law()
    assert [len(row) for row in plain["rows"]] == [N + 1] * (N + 1)
    assert estimator.plot(tmp_path / "map.png")[:4] == (tmp_path / "map.png").read_bytes()[:4] == b"\x89PNG"
    # Equal answers are one line of the picture.
    folded = optimal_estimator(
        POPULATION, "squared", guarantee=ONE, n=4, estimand=lambda p: (p - 0.5) ** 2, method="geometric"
    )
    assert folded.plot()[:4] == b"\x89PNG"
    assert str(estimator).startswith("Bayes risk 0.0")
    assert "checked exactly" in str(estimator.certificate)
    with pytest.raises(InvalidArgument, match="path"):
        estimator.plot(5)  # type: ignore[arg-type]
    assert "13 values" in repr(estimator)
