"""choose: plans ranked by what they tell, scores checked against plain linear algebra, unfair races refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from noisewise.design.belief import believe
from noisewise.design.choice import Ranked, _close, choose
from noisewise.design.coordinates import prior_rows
from noisewise.design.information import information, information_rows
from noisewise.design.scores import read_score
from noisewise.errors import Incomparable, InvalidArgument, Unsupported
from noisewise.inference.infer import infer
from noisewise.inference.posterior import Posterior
from noisewise.models.simulate import simulate
from noisewise.planning import Plan, plan
from noisewise.populations.population import Bernoulli, Categorical, Normal
from noisewise.privacy.guarantee import ApproxDP, GaussianDP, PureDP
from noisewise.schema import Bounded, Levels, Schema
from noisewise.statistics import Count, Histogram, Mean, Median, Records, Statistic, Sum, column

SCHEMA = Schema({"x": Bounded(-10, 10)}, n=100, neighbours="change-one")
X = column("x")
VARIANCE = Normal(mean=0, variance=stats.uniform(1, 6))
BOTH = Normal(mean=stats.norm(0, 2), sd=stats.uniform(1, 2))
GDP = GaussianDP(1)


def plans(*statistics: Statistic, guarantee: object = GDP, schema: Schema = SCHEMA) -> list[Plan]:
    return [plan(one, schema, guarantee=guarantee) for one in statistics]  # type: ignore[arg-type]


# ---- the ranking ----


def test_the_known_order_of_the_normal_variance_is_found_at_a_parameter_value() -> None:
    # Alparslan & Yıldırım 2022, Example 2, unclamped, theta = 2: F is 4.630626 for |x| and 0.928669 for x^2.
    wide = Schema({"x": Bounded(-10, 10)}, n=100, neighbours="change-one")
    race = plans(Mean(X**2), Mean(abs(X)), schema=wide)
    choice = choose(race, VARIANCE, at={"variance": 2.0}, likelihood="clt", score="trace")
    assert [str(one.plan.statistic) for one in choice.ranking] == ["mean(abs(x))", "mean(x**2)"]
    assert [one.score for one in choice.ranking] == pytest.approx([4.630626, 0.928669], rel=1e-4)
    assert choice.winner.statistic == Mean(abs(X))
    assert choice.ranking[1].share == pytest.approx(0.928669 / 4.630626, rel=1e-4)


def test_the_average_is_over_the_same_fixed_prior_draws_for_every_plan() -> None:
    pair = plans(Mean(abs(X)), Mean(X**2))
    choice = choose(pair, VARIANCE, likelihood="clt", score="trace")
    for one in choice.ranking:
        assert one.score == information(one.plan, VARIANCE, likelihood="clt").value
    again = choose(pair[::-1], VARIANCE, likelihood="clt", score="trace")
    assert [(str(one.plan), one.score) for one in again.ranking] == [(str(o.plan), o.score) for o in choice.ranking]


def test_a_posterior_takes_the_place_of_the_prior() -> None:
    first = plan(Mean(abs(X)), SCHEMA, guarantee=GDP, part=(0, "1/2"))
    posterior = infer(simulate(first, VARIANCE, at={"variance": 6.0}, seed=3), VARIANCE, likelihood="clt", seed=1,
                      progress=False)  # fmt: skip
    rest = [plan(one, SCHEMA, guarantee=GDP, part=("1/2", 1)) for one in (Mean(abs(X)), Mean(X**2))]
    choice = choose(rest, posterior, score="a-optimal", likelihood="clt")
    drawn = posterior.draws["variance"].ravel()
    rows = np.asarray(choice.belief.rows["variance"])
    assert len(rows) == 64
    assert set(rows) <= set(drawn)
    assert stats.kstest(rows, drawn).pvalue > 1e-6
    # The score of Alparslan 2023, section 6.5: the mean of 1/F over the draws of the first posterior.
    for one in choice.ranking:
        each = information_rows(one.plan, VARIANCE, {"variance": rows}, likelihood="clt")[0][:, 0, 0]
        assert one.score == pytest.approx(-np.mean(1 / each), rel=1e-12)


def test_a_point_estimate_is_one_value_to_look_at() -> None:
    point = Posterior.point({"variance": 2.0}, method="map", how="", population=VARIANCE, releases=(), instead="mh")
    choice = choose(plans(Mean(abs(X))), point, likelihood="clt", score="trace")
    at = choose(plans(Mean(abs(X))), VARIANCE, at={"variance": 2.0}, likelihood="clt", score="trace")
    assert choice.ranking[0].score == at.ranking[0].score


# ---- scores, against plain linear algebra ----


def matrices(count: int = 20, size: int = 3) -> np.ndarray:
    root = np.random.default_rng(5).standard_normal((count, size, size + 2))
    return np.asarray(root @ root.transpose(0, 2, 1))


NAMES = ("a", "b", "c")


def score_rows(score: object, f: np.ndarray, weights: dict[str, float] | None = None) -> np.ndarray:
    return read_score(score, weights, NAMES, np.diag([1.0, 4.0, 0.25])).rows(f)


def test_every_score_is_what_its_formula_says() -> None:
    f = matrices()
    inverse = np.linalg.inv(f)
    assert score_rows("trace", f) == pytest.approx(np.trace(f, axis1=1, axis2=2))
    assert score_rows("trace", f, {"b": 2.0}) == pytest.approx(2 * f[:, 1, 1])
    assert score_rows("logdet", f) == pytest.approx(np.log(np.linalg.det(f)))
    assert score_rows("a-optimal", f) == pytest.approx(-np.trace(inverse, axis1=1, axis2=2))
    assert score_rows("a-optimal", f, {"a": 1, "c": 3}) == pytest.approx(-inverse[:, 0, 0] - 3 * inverse[:, 2, 2])
    assert score_rows("gain", f) == pytest.approx(np.log(np.linalg.det(np.eye(3) + np.diag([1, 4, 0.25]) @ f)) / 2)
    for j, name in enumerate(NAMES):
        assert score_rows(name, f) == pytest.approx(1 / inverse[:, j, j])
    assert score_rows(lambda m: m[:, 0, 0] - m[:, 2, 2], f) == pytest.approx(f[:, 0, 0] - f[:, 2, 2])


def test_what_cannot_be_told_scores_nothing_and_hides_nothing() -> None:
    alike = np.ones((1, 3, 3)) * 5.0  # only a + b + c is told
    silent = np.diag([3.0, 0.0, 7.0])[None]  # nothing of b
    tied = np.array([[[2.0, 2.0, 0], [2.0, 2.0, 0], [0, 0, 1.0]]])  # a + b, and c by itself
    for f in (alike, silent, tied):
        assert score_rows("logdet", f) == [-np.inf]
        assert score_rows("a-optimal", f) == [-np.inf]
        assert np.isfinite(score_rows("gain", f)).all()
    assert [score_rows(name, alike)[0] for name in NAMES] == [0, 0, 0]
    assert [score_rows(name, silent)[0] for name in NAMES] == pytest.approx([3, 0, 7])
    assert [score_rows(name, tied)[0] for name in NAMES] == pytest.approx([0, 0, 1])
    assert score_rows("a-optimal", silent, {"a": 1, "c": 1}) == pytest.approx([-1 / 3 - 1 / 7])


def test_one_count_cannot_tell_two_parameters_apart_and_says_so() -> None:
    pair = plans(Count(X.between(0, 10)), Histogram("x", edges=[-2, 0, 2]), guarantee=PureDP(1))
    choice = choose(pair, BOTH, score="a-optimal")
    assert str(choice.winner.statistic).startswith("histogram")
    last = choice.ranking[-1]
    assert last.score == -np.inf
    assert "Cannot tell mean and sd apart" in last.note
    assert last.note in str(choice)
    alone = choose(pair[:1], BOTH, score="logdet")
    assert "none is best" in str(alone)
    with pytest.raises(Unsupported, match="gain"):
        _ = alone.winner


def test_the_prior_covariance_is_that_of_the_prior() -> None:
    belief = believe(BOTH)
    assert belief.covariance == pytest.approx(np.diag([4.0, 1 / 3]), rel=5e-3, abs=5e-3)
    assert belief.precision @ belief.covariance == pytest.approx(np.eye(2), abs=1e-9)
    shares = believe(Categorical(p=stats.dirichlet([2, 3, 5])))
    exact = stats.dirichlet([2, 3, 5]).cov()[:2, :2]
    assert shares.names == ("p[0]", "p[1]")
    assert np.abs(shares.covariance - exact).max() < 0.1 * exact.max()  # 4096 draws: about 4.5 standard errors


# ---- simulation ----


def test_the_standard_error_of_a_simulated_score_is_honest() -> None:
    vector = plans(Mean(X, X**2), guarantee=PureDP(1))
    at = {"mean": 1.0, "sd": 2.0}
    found = [choose(vector, BOTH, at=at, likelihood="clt", seed=seed, score="gain").ranking[0] for seed in range(12)]
    scores, errors = np.array([one.score for one in found]), np.array([one.standard_error for one in found])
    assert (errors > 0).all()
    # 11 degrees of freedom against 36: the ratio of variances follows F, at 1e-6 on either side.
    ratio = scores.var(ddof=1) / np.mean(np.square(errors))
    low, high = stats.f(11, 36).ppf([1e-6, 1 - 1e-6])
    assert low < ratio < high
    # Errors thirty times too small would be caught, however lucky they were.
    assert ratio * 900 > high


@pytest.mark.parametrize(
    ("gap", "errors", "is_open"), [(1.0, (0.4, 0.4), True), (1.0, (0.3, 0.3), False), (0.0, (0, 0), False)]
)
def test_a_race_that_simulation_does_not_settle_is_said_to_be_open(
    gap: float, errors: tuple[float, float], is_open: bool
) -> None:
    one = plans(Mean(X))[0]
    first, second = (Ranked(one, "", 5 - k * gap, errors[k], None, "", "clt", "") for k in range(2))
    assert any("not settled" in remark for remark in _close([first, second])) == is_open


def test_a_simulated_score_agrees_with_the_closed_form_it_approaches() -> None:
    # With next to no noise the two Laplace sums are two normal sums, whose information is closed.
    vector = plans(Mean(X, X**2), guarantee=PureDP(10**5))
    gauss = plans(Mean(X, X**2), guarantee=GaussianDP(10**5))
    one, two = (choose(race, BOTH, score="gain", likelihood="clt").ranking[0] for race in (vector, gauss))
    assert two.standard_error == 0
    assert one.score == pytest.approx(two.score, rel=1e-4)


def test_the_same_call_gives_the_same_ranking() -> None:
    vector = plans(Mean(X, X**2), Mean(X, abs(X)), guarantee=PureDP(1))
    at = {"mean": 1.0, "sd": 2.0}
    one, two = (choose(vector, BOTH, at=at, likelihood="clt").table for _ in range(2))
    assert one == two
    assert one != choose(vector, BOTH, at=at, likelihood="clt", seed=5).table


# ---- fair races only ----


def test_unequal_prices_are_refused_with_the_reason() -> None:
    dear = plan(Mean(X), SCHEMA, guarantee=GaussianDP(2))
    with pytest.raises(Incomparable, match=r"mu = 1; mu = 2.*more budget always tells more"):
        choose([*plans(Mean(abs(X))), dear], VARIANCE)
    choice = choose([*plans(Mean(abs(X))), dear], VARIANCE, despite_guarantees=True, likelihood="clt")
    assert "do not cost the same" in str(choice)
    assert "mu = 2" in str(choice)


def test_kinds_without_a_common_scale_meet_as_epsilon_and_delta() -> None:
    gauss = plan(Mean(abs(X)), SCHEMA, guarantee=GDP)
    epsilon = gauss.guarantee.to(ApproxDP, delta="1e-6").epsilon
    approx = plan(Mean(X**2), SCHEMA, guarantee=ApproxDP(epsilon, "1e-6"))
    pure = plan(Mean(abs(X)), SCHEMA, guarantee=PureDP(1))
    with pytest.raises(Incomparable, match="delta="):
        choose([gauss, approx], VARIANCE)
    choice = choose([gauss, approx], VARIANCE, delta="1e-6", likelihood="clt")
    assert choice.winner is gauss
    assert any("every plan costs about" in remark for remark in choice.remarks)
    with pytest.raises(Incomparable, match="differ"):
        choose([gauss, pure], VARIANCE, delta="1e-6")


def test_more_records_and_other_neighbours_are_refused() -> None:
    half = plan(Mean(X), SCHEMA, guarantee=GDP, part=(0, "1/2"))
    other_half = plan(Mean(abs(X)), SCHEMA, guarantee=GDP, part=("1/2", 1))
    with pytest.raises(InvalidArgument, match="different numbers of records"):
        choose([half, *plans(Mean(X))], BOTH)
    assert len(choose([half, other_half], BOTH, likelihood="clt").ranking) == 2
    private = Schema({"x": Bounded(-10, 10)}, n_max=100, neighbours="add-remove")
    with pytest.raises(Incomparable, match="add-remove"):
        choose([plan(Sum(X), private, guarantee=GDP), plan(Sum(X), SCHEMA, guarantee=GDP)], BOTH, n=100)


def test_a_private_number_of_records_must_be_stated() -> None:
    private = Schema({"x": Bounded(-10, 10)}, n_max=100, neighbours="add-remove")
    pair = plans(Sum(X), Sum(abs(X)), schema=private)
    with pytest.raises(InvalidArgument, match="n"):
        choose(pair, BOTH, likelihood="clt")
    few, many = (choose(pair, BOTH, n=n, likelihood="clt").ranking[0].score for n in (20, 90))
    assert many > few


# ---- mixed kinds, words and plots ----


def test_sums_counts_answers_and_a_median_race_together() -> None:
    known = Normal(mean=stats.norm(0, 1), sd=2)
    race = plans(Mean(X), Count(X.between(0, 10)), Records(X, cells=[0]), Median(X), guarantee=PureDP(2))
    choice = choose(race, known, at={"mean": 0.5}, likelihood="auto", score="trace")
    assert len(choice.ranking) == 4
    assert {one.likelihood for one in choice.ranking} <= {"exact", "clt"}
    assert "by each person before answering" in str(choice)
    scores = {type(one.plan.statistic): one.score for one in choice.ranking}
    assert scores[Mean] > scores[Count] > scores[Records]
    for one in choice.ranking:
        alone = information(one.plan, known, at={"mean": 0.5}, seed=1)
        assert isinstance(alone.value, float)
        assert isinstance(alone.standard_error, float)
        slack = 6 * np.hypot(one.standard_error, alone.standard_error) + 1e-9
        assert abs(one.score - alone.value) <= slack


def test_the_printed_table_names_every_plan_its_price_and_its_share() -> None:
    weighted = [plan(Mean(X, X**2), SCHEMA, guarantee=GDP, weights=w) for w in ([1, 1], [1, "1/10"])]
    choice = choose([*weighted, *plans(Mean(X))], BOTH, likelihood="clt")
    lines = str(choice).split("\n")
    assert lines[0] == "Information about mean, sd (gain), averaged over 64 draws from the prior."
    assert re.match(r"1 +[\d.]+ +100\.0 %  mean", lines[2])
    assert sum("mu = 1" in line for line in lines) == 3
    assert sum("weights 1:0.1 " in line for line in lines) == 1
    assert len({one.name for one in choice.ranking}) == 3


def test_the_default_picks_right_where_the_trace_picks_the_worst_of_three() -> None:
    """Two unknowns and a vague prior: the corner where incomes hardly vary decides the trace, for one mean alone."""
    incomes = Schema({"x": Bounded(0, 250)}, n=4000, neighbours="change-one")
    vague = Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50))
    wide = X.clip(0, 240)
    race = plans(Mean(X), Mean(X, X**2), Mean(wide, wide**2), schema=incomes)
    assert choose(race, vague, score="trace").winner is race[0]
    winner = choose(race, vague).winner
    assert winner is race[2]
    # What the posteriors say: the error of each plan, over its draws, at a typical parameter value.
    errors = []
    for one in race:
        found = infer(
            simulate(one, vague, at={"mean": 60.0, "sd": 25.0}, seed=1), vague, seed=1, progress=False, draws=200
        )
        errors.append(sum(float(np.mean((found.draws[name] - true) ** 2)) for name, true in (("mean", 60), ("sd", 25))))
    assert errors[0] > 100 * errors[2]
    assert errors[0] == max(errors)


@pytest.mark.parametrize("score", ["trace", "a-optimal", "gain", "sd"])
def test_the_curves_are_drawn(tmp_path: Path, score: str) -> None:
    choice = choose(plans(Mean(X, X**2), Mean(X)), BOTH, score=score, likelihood="clt")
    assert choice.plot(tmp_path / "curves.png")[:8] == b"\x89PNG\r\n\x1a\n"
    assert (tmp_path / "curves.png").stat().st_size > 10_000
    if score == "trace":
        (curve,) = [c for c in choice._curves("sd") if c["name"] == "mean(x) by gaussian"]
        middle = float(np.median(prior_rows(BOTH)["mean"]))
        one = information(plans(Mean(X))[0], BOTH, at={"mean": middle, "sd": curve["x"][7]}, likelihood="clt")
        assert curve["y"][7] == pytest.approx(np.trace(one.matrix))


def test_shares_of_a_simplex_are_drawn_too() -> None:
    schema = Schema({"region": Levels(["n", "s", "e"])}, n=200, neighbours="change-one")
    choice = choose(plans(Histogram("region"), schema=schema), Categorical(p=stats.dirichlet([2, 3, 5])))
    curve = choice._curves("p[1]")[0]
    assert np.isfinite(curve["y"]).all()
    assert choice.plot()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"score": "D-optimal"}, "score"),
        ({"score": lambda m: np.nan * m[:, 0, 0]}, "score"),
        ({"score": lambda m: m[:, 0]}, "score"),
        ({"weights": {"mean": 1}, "score": "logdet"}, "weights"),
        ({"weights": {"median": 1}}, "weights"),
        ({"weights": {"mean": -1}}, "weights"),
        ({"weights": {"mean": 0}}, "weights"),
        ({"at": {"mean": 1.0}}, "at"),
        ({"at": {"mean": 1.0, "sd": 77.0}}, "at"),
        ({"draws": 0}, "draws"),
        ({"seed": -1}, "seed"),
        ({"likelihood": "magic"}, "likelihood"),
        ({"plans": []}, "plans"),
        ({"plans": [Mean(X)]}, "plans"),
        ({"population": Normal(mean=0, sd=1)}, "population"),
        ({"population": "normal"}, "population"),
    ],
)
def test_what_is_wrong_is_refused_by_name(change: dict[str, object], word: str) -> None:
    given: dict[str, object] = {
        "plans": plans(Mean(X), Mean(abs(X))),
        "population": BOTH,
        "likelihood": "clt",
        **change,
    }
    race, population = given.pop("plans"), given.pop("population")
    with pytest.raises(InvalidArgument) as refusal:
        choose(race, population, **given)  # type: ignore[arg-type]
    assert refusal.value.argument == word


def test_a_plan_that_cannot_be_scored_is_named() -> None:
    race: Sequence[Plan] = plans(Mean(X), guarantee=PureDP(1))
    with pytest.raises(Unsupported, match=r"^median\(x\) by smooth-cauchy: .*clt"):
        choose([*race, *plans(Median(X), guarantee=PureDP(1))], BOTH, likelihood="clt", at={"mean": 0.0, "sd": 2.0})
    levels = Schema({"smoker": Levels(["no", "yes"])}, n=100, neighbours="change-one")
    count = plan(Count(column("smoker").equals("yes")), levels, guarantee=PureDP(1))
    assert choose([count], Bernoulli(p=stats.beta(1, 1))).ranking[0].likelihood == "exact"
