"""Populations known by a function that draws: what a bank says against the laws, and faulty functions told apart."""

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.populations.cleaned import cell_probabilities, row_moments, sample_records, sum_moments
from noisewise.populations.text import population_from_text
from noisewise.statistics.feature import as_feature

X = nw.column("x")
CLAMP = nw.Schema({"x": nw.Bounded(0, 100), "s": nw.Levels(["no", "yes"])}, n=400, neighbours="change-one")
REFUSE = nw.Schema({"x": nw.Bounded(0, 100)}, n=400, neighbours="change-one", outside="refuse")
MEAN, SD = stats.norm(50, 20), stats.halfnorm(scale=20)
THETA = {"mean": np.array([20.0, 50.0, 95.0]), "sd": np.array([15.0, 10.0, 20.0])}
NORMAL = nw.Normal(mean=MEAN, sd=SD)


def draw(rng, theta, n):
    x = theta["mean"] + theta["sd"] * rng.standard_normal(n)
    return {"x": x, "s": x > theta["mean"]}


SIMULATED = nw.Simulator(draw, mean=MEAN, sd=SD)
SIZE = SIMULATED.bank_size


@pytest.mark.parametrize("schema", [CLAMP, REFUSE])
def test_moments_of_features_are_those_of_the_law_to_the_error_of_the_bank(schema):
    """One bank at three theta: 6 standard errors of its own size; the fourth moments are bounded by the bounds."""
    row = (as_feature("x"), as_feature("x") ** 2, X.between(30, 60))
    mean, covariance = row_moments(SIMULATED, schema, row, THETA)
    exact, spread = row_moments(NORMAL, schema, row, THETA)
    sd = np.sqrt(np.einsum("kii->ki", spread))
    assert np.all(np.abs(mean - exact) < 6 * sd / np.sqrt(SIZE / 20))
    assert np.all(np.abs(covariance - spread) < 0.05 * sd[:, :, None] * sd[:, None, :])


def test_the_sum_of_n_records_has_the_error_of_the_bank_inside():
    mean, covariance = sum_moments(SIMULATED, CLAMP, (as_feature("x"),), THETA, 400)
    one, spread = row_moments(SIMULATED, CLAMP, (as_feature("x"),), THETA)
    assert mean == pytest.approx(400 * one, rel=1e-12)
    assert covariance == pytest.approx(400 * (1 + 400 / SIZE) * spread, rel=1e-12)


def test_cells_and_conditions_have_the_shares_of_the_law():
    edges = nw.Histogram("x", [20, 45, 70])
    for statistic in (edges, nw.Count(X.between(30, 60))):
        found = cell_probabilities(SIMULATED, CLAMP, statistic, THETA)
        exact = cell_probabilities(NORMAL, CLAMP, statistic, THETA)
        assert found.sum(axis=1) == pytest.approx(1, abs=1e-12)
        assert np.all(np.abs(found - exact) < 6 / np.sqrt(SIZE))
    assert cell_probabilities(SIMULATED, CLAMP, nw.Marginals(["s"]), THETA) == pytest.approx(0.5, abs=6 / np.sqrt(SIZE))


def test_a_cell_that_no_simulated_record_fell_into_is_not_impossible():
    found = cell_probabilities(SIMULATED, CLAMP, nw.Histogram("x", [99.99]), {"mean": [20.0], "sd": [5.0]})
    assert 0 < found[0, 1] < 1e-4


def test_one_bank_serves_all_questions_and_the_same_question_has_one_answer():
    first = row_moments(SIMULATED, CLAMP, (as_feature("x"),), THETA)[0]
    fresh = nw.Simulator(draw, mean=MEAN, sd=SD)
    assert np.array_equal(first, row_moments(fresh, CLAMP, (as_feature("x"),), THETA)[0])
    assert not np.array_equal(first, row_moments(fresh.without(3), CLAMP, (as_feature("x"),), THETA)[0])


def test_averages_are_smooth_in_theta_where_the_function_is():
    near = {"mean": np.array([50.0, 50.0 + 1e-7]), "sd": np.array([10.0, 10.0])}
    mean = row_moments(SIMULATED, CLAMP, (as_feature("x"),), near)[0][:, 0]
    assert mean[1] - mean[0] == pytest.approx(1e-7, rel=1e-3)
    is_smooth = nw.Simulator(lambda rng, theta, n: {"x": theta["m"] + rng.standard_normal(n)}, m=MEAN).is_smooth
    assert is_smooth
    assert not nw.Simulator(lambda rng, theta, n: {"x": rng.gamma(theta["a"], 1, n)}, a=stats.gamma(4)).is_smooth
    assert not nw.Simulator(lambda rng, theta, n: {"x": rng.poisson(theta["r"], n)}, r=stats.gamma(4)).is_smooth


def test_records_are_drawn_inside_the_bounds_in_full_number(rng):
    theta = {"mean": np.array([20.0, 50.0]), "sd": np.array([30.0, 10.0])}
    for schema in (CLAMP, REFUSE):
        x = sample_records(rng, SIMULATED, schema, 5000, theta, ("x",))["x"]
        assert x.shape == (2, 5000)
        assert x.min() >= 0 <= 100 >= x.max()
        exact, spread = row_moments(NORMAL, schema, (as_feature("x"),), theta)
        assert np.all(np.abs(x.mean(axis=1) - exact[:, 0]) < 6 * np.sqrt(spread[:, 0, 0] / 5000))


def test_answers_about_one_column_are_those_of_its_law():
    column, own = SIMULATED.marginal("x"), {"mean": np.array([50.0]), "sd": np.array([10.0])}
    assert column.cdf([40.0, 55.0], own)[0] == pytest.approx(stats.norm(50, 10).cdf([40, 55]), abs=6 / np.sqrt(SIZE))
    assert column.quantile([0.1, 0.5, 0.9], own)[0] == pytest.approx(stats.norm(50, 10).ppf([0.1, 0.5, 0.9]), abs=0.5)
    mean, variance = column.distribution.moments(column.values(own))
    assert (float(mean[0, 0]), float(variance[0, 0])) == (pytest.approx(50, abs=0.3), pytest.approx(100, rel=0.05))
    level = SIMULATED.marginal("s")
    assert np.exp(level.log_density([0.0, 1.0], own))[0] == pytest.approx(0.5, abs=6 / np.sqrt(SIZE))
    with pytest.raises(Unsupported, match="no density"):
        column.log_density([50.0], own)


KEPT = np.random.default_rng(0)
FAULTS = {
    "scalar": (lambda rng, _theta, _n: {"x": rng.normal()}, "records at once"),
    "too many": (lambda rng, _theta, n: {"x": rng.normal(size=n + 1)}, "records at once"),
    "one size": (lambda rng, _theta, _n: {"x": rng.normal(size=2048)}, "records at once"),
    "two axes": (lambda rng, _theta, n: {"x": rng.normal(size=(n, 2))}, "records at once"),
    "an array": (lambda rng, _theta, n: rng.normal(size=n), "mapping"),
    "nothing": (lambda _rng, _theta, _n: {}, "mapping"),
    "None": (lambda _rng, _theta, _n: None, "mapping"),
    "numbered": (lambda rng, _theta, n: {0: rng.normal(size=n)}, "mapping"),
    "words": (lambda rng, _theta, n: {"x": rng.choice(["a", "b"], n)}, "by their index"),
    "nan": (lambda rng, _theta, n: {"x": np.log(rng.normal(size=n))}, "no finite numbers"),
    "inf": (lambda _rng, _theta, n: {"x": np.full(n, np.inf)}, "no finite numbers"),
    "ignores": (lambda _rng, theta, n: {"x": np.arange(n) * theta["m"]}, "whatever rng is"),
    "its own": (lambda _rng, _theta, n: {"x": KEPT.normal(size=n)}, "all randomness from rng"),
    "one for all": (lambda rng, _theta, n: {"x": np.full(n, rng.normal())}, "independently of each other"),
    "raises": (lambda rng, theta, n: {"x": rng.normal(theta["mean"], 1, n)}, "KeyError"),
    "columns": (lambda rng, _theta, n: {"x" if n > 100 else "y": rng.normal(size=n)}, "other columns"),
    "arguments": (lambda rng, n: {"x": rng.normal(size=n)}, "TypeError"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_function_is_refused_with_its_fault(fault):
    function, words = FAULTS[fault]
    with pytest.raises(InvalidArgument, match=words) as caught:
        nw.Simulator(function, m=MEAN)
    assert caught.value.argument == "draw"


HOSTILE = [np.nan, np.inf, -np.inf, "", None, True, 10**400]


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_hostile_arguments_are_named(value):
    with pytest.raises(InvalidArgument) as caught:
        nw.Simulator(draw, mean=MEAN, sd=value)
    assert caught.value.argument == "sd"
    with pytest.raises(InvalidArgument) as caught:
        nw.Simulator(value, mean=MEAN)
    assert caught.value.argument == "draw"


@pytest.mark.parametrize("value", [*HOSTILE, -1, 0, 1e308, 3000, 2**12 + 1, 2**40], ids=lambda v: repr(v)[:20])
def test_a_hostile_size_of_the_bank_is_named(value):
    with pytest.raises(InvalidArgument) as caught:
        SIMULATED.sized(value)
    assert caught.value.argument == "size"


def test_a_flat_prior_and_a_function_that_fails_later_are_told():
    with pytest.raises(InvalidArgument, match="proper"):
        nw.Simulator(draw, mean=stats.uniform(0, np.inf), sd=1)

    def fails(rng, theta, n):
        if theta["m"] > 90:
            raise ValueError("too large")
        return {"x": theta["m"] + rng.standard_normal(n)}

    late = nw.Simulator(fails, m=stats.norm(50, 1))
    with pytest.raises(Unsupported, match=r"m = 95.*ValueError: too large"):
        row_moments(late, CLAMP, (as_feature("x"),), {"m": np.array([95.0])})


def test_levels_are_drawn_by_their_index():
    wrong = nw.Simulator(lambda rng, _theta, n: {"s": rng.integers(0, 3, n)}, m=MEAN)
    with pytest.raises(Unsupported, match="index of the level"):
        cell_probabilities(wrong, CLAMP, nw.Marginals(["s"]), {"m": np.array([50.0])})


def test_probabilities_of_a_dirichlet_prior_reach_the_function_as_an_array():
    def levels(rng, theta, n):
        return {"s": rng.choice(3, n, p=theta["p"])}

    three = nw.Simulator(levels, p=stats.dirichlet([1, 2, 3]))
    schema = nw.Schema({"s": nw.Levels(["a", "b", "c"])}, n=100, neighbours="change-one")
    p = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    found = cell_probabilities(three, schema, nw.Histogram("s"), {"p": p})
    assert found == pytest.approx(p, abs=6 / np.sqrt(SIZE))


def test_it_prints_as_it_was_written_and_no_text_holds_it():
    assert repr(nw.Simulator(draw, mean=MEAN, sd=3)) == "Simulator(draw, mean=stats.norm(50, 20), sd=3)"
    with pytest.raises(NoisewiseError, match="population"):
        population_from_text("simulator(draw, mean=norm(0, 1))")


@pytest.mark.parametrize(
    "use",
    [
        lambda one: nw.Joint(x=one),
        lambda one: nw.Mixture([one, one], weights=[0.5, 0.5]),
        lambda one: nw.Grouped("s", x=one),
        lambda one: nw.Survey(one, guarantee=nw.PureDP(1)),
    ],
)
def test_rooms_that_need_a_law_refuse_it_in_a_sentence(use):
    with pytest.raises(InvalidArgument):
        use(SIMULATED)
