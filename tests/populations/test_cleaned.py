"""The population through the schema: moments, cells and draws of cleaned records against independent oracles."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.populations.cleaned import (
    attach,
    base_size,
    cell_probabilities,
    records_from_base,
    row_moments,
    sample_records,
)
from noisewise.populations.nodes import quadrature_nodes
from noisewise.populations.population import (
    Bernoulli,
    Categorical,
    Exponential,
    Gamma,
    Joint,
    LocationScale,
    Normal,
    Poisson,
    Population,
    Uniform,
)
from noisewise.schema import Bounded, Levels, Schema
from noisewise.statistics import Count, Histogram, Marginals, Records, column

x, y, g, h = column("x"), column("y"), column("g"), column("h")
FALSE_ALARM = 1e-6
HALF = stats.halfnorm(scale=2)


def schema(outside: str = "clamp", x: tuple[float, float] = (0, 5), y: tuple[float, float] = (-1, 3)) -> Schema:
    columns = {"x": Bounded(*x), "y": Bounded(*y), "g": Levels(["a", "b"]), "h": Levels(["u", "v", "w"])}
    return Schema(columns, n=10, neighbours="change-one", outside=outside)


JOINT = Joint(
    x=Normal(mean=stats.norm(), sd=HALF),
    y=Gamma(shape=2, rate=HALF),
    g=Bernoulli(p=stats.beta(1, 1)),
    h=Categorical(p=stats.dirichlet([1, 1, 1])),
)
THETA = {
    "x.mean": np.array([1.0, 4.0]),
    "x.sd": np.array([1.0, 3.0]),
    "y.rate": np.array([1.0, 2.0]),
    "g.p": np.array([0.3, 0.8]),
    "h.p": np.array([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]),
}


def laws(k: int) -> tuple[Any, Any]:
    return stats.norm(THETA["x.mean"][k], THETA["x.sd"][k]), stats.gamma(2, scale=1 / THETA["y.rate"][k])


def expectation(law: Any, bounds: tuple[float, float], outside: str, f: Any, kinks: tuple[float, ...] = ()) -> float:
    """E f of a cleaned record by adaptive quadrature between the kinks, with the clamp's atoms."""
    low, high = bounds
    marks = sorted({low, high, *(k for k in (*law.ppf([1e-9, 0.01, 0.5, 0.99]), 0.0, *kinks) if low < k < high)})
    inside = sum(
        integrate.quad(lambda v: f(v) * law.pdf(v), a, b, epsabs=1e-14, epsrel=1e-12)[0]
        for a, b in itertools.pairwise(marks)
    )
    if outside == "refuse":
        return float(inside / (law.cdf(high) - law.cdf(low)))
    return float(inside + law.cdf(low) * f(low) + law.sf(high) * f(high))


@pytest.mark.parametrize("outside", ["clamp", "refuse"])
def test_products_of_independent_columns_have_products_of_moments(outside: str) -> None:
    features = [x, x * y * g.equals("b"), (x + 2 * y) ** 2, abs(x * y), x.between(1, 2) * h.equals("w")]
    mean, covariance = row_moments(JOINT, schema(outside), features, THETA)
    for k in range(2):
        a, b = laws(k)
        ex = [expectation(a, (0, 5), outside, lambda v, j=j: v**j) for j in range(5)]
        ey = [expectation(b, (-1, 3), outside, lambda v, j=j: v**j) for j in range(5)]
        ay = [expectation(b, (-1, 3), outside, lambda v, j=j: abs(v) ** j) for j in range(3)]
        inside = (a.cdf(2) - a.cdf(1)) / (1.0 if outside == "clamp" else a.cdf(5) - a.cdf(0))
        p, w = THETA["g.p"][k], THETA["h.p"][k, 2]
        square = ex[2] + 4 * ex[1] * ey[1] + 4 * ey[2]
        expected = [ex[1], ex[1] * ey[1] * p, square, ex[1] * ay[1], inside * w]
        np.testing.assert_allclose(mean[k], expected, rtol=1e-9)
        assert covariance[k, 0, 1] == pytest.approx((ex[2] - ex[1] ** 2) * ey[1] * p, rel=1e-8)
        assert covariance[k, 1, 1] == pytest.approx(ex[2] * ey[2] * p - (ex[1] * ey[1] * p) ** 2, rel=1e-8)
        cross = ex[3] + 4 * ex[2] * ey[1] + 4 * ex[1] * ey[2] - ex[1] * square
        assert covariance[k, 0, 2] == pytest.approx(cross, rel=1e-8)
        assert covariance[k, 4, 4] == pytest.approx(inside * w * (1 - inside * w), rel=1e-8)


def test_features_of_different_columns_are_uncorrelated_to_the_bit() -> None:
    _, covariance = row_moments(JOINT, schema(), [x, y**2, h.equals("u")], THETA)
    assert np.count_nonzero(covariance * (1 - np.eye(3))) == 0


def test_a_covariance_far_from_zero_does_not_cancel() -> None:
    far = schema(x=(1e6 - 50, 1e6 + 50), y=(1e6 - 50, 1e6 + 50))
    population = Joint(x=Normal(mean=1e6, sd=HALF), y=Normal(mean=1e6, sd=1))
    _, covariance = row_moments(population, far, [x * y], {"x.sd": np.array([2.0])})
    exact = 1e12 * (4 + 1) + 4
    assert covariance[0, 0, 0] == pytest.approx(exact, rel=1e-9)  # E(xy)^2 - (E xy)^2 has 24 digits to lose


@pytest.mark.parametrize("d", [0.0, 0.7, 3.0])
def test_bends_that_mix_two_columns_meet_their_closed_forms(d: float) -> None:
    wide = schema(x=(-40, 40), y=(-40, 40))
    population = Joint(x=Normal(mean=stats.norm(), sd=1.2), y=Normal(mean=0, sd=0.5))
    features = [abs(x - y), (x - y).between(0, 1), (x + y).clip(-1, 2), (x - y) ** 2]
    mean, covariance = row_moments(population, wide, features, {"x.mean": np.array([d])})
    s = 1.3
    law = stats.norm(d, s)
    expected = [
        s * np.sqrt(2 / np.pi) * np.exp(-(d**2) / (2 * s**2)) + d * (1 - 2 * stats.norm.cdf(-d / s)),
        law.cdf(1) - law.cdf(0),
        expectation(law, (-1, 2), "clamp", lambda v: v),
        d**2 + s**2,
    ]
    np.testing.assert_allclose(mean[0], expected, rtol=1e-6)
    assert covariance[0, 0, 0] == pytest.approx(d**2 + s**2 - expected[0] ** 2, rel=1e-6)
    assert covariance[0, 1, 1] == pytest.approx(expected[1] * (1 - expected[1]), rel=1e-6)


@pytest.mark.parametrize("outside", ["clamp", "refuse"])
@pytest.mark.parametrize(
    "features", [[abs(x - y), x * y, (x - y).between(0, 1)], [abs(x - y) * g.equals("a"), g.equals("b")]]
)
def test_moments_match_brute_force_draws(outside: str, features: list[Any]) -> None:
    n = 40_000
    mean, covariance = row_moments(JOINT, schema(outside), features, THETA)
    rng = np.random.default_rng()
    drawn = sample_records(rng, JOINT, schema(outside), n, THETA, ["x", "y", "g"])
    values = np.stack([f.value(drawn, schema(outside)) for f in features], axis=-1)
    z = (values.mean(axis=1) - mean) / np.sqrt(np.diagonal(covariance, axis1=1, axis2=2) / n)
    assert np.max(np.abs(z)) < stats.norm.isf(FALSE_ALARM / 2 / z.size)
    other = {"clamp": "refuse", "refuse": "clamp"}[outside]  # planted: the other policy's moments
    wrong, _ = row_moments(JOINT, schema(other), features, THETA)
    z = (values.mean(axis=1) - wrong) / np.sqrt(np.diagonal(covariance, axis1=1, axis2=2) / n)
    assert np.max(np.abs(z)) > stats.norm.isf(FALSE_ALARM / 2 / z.size)


CELLS: list[tuple[Any, Any]] = [
    (Histogram(x, [1, 2, 3]), lambda F: [F(1), F(2) - F(1), F(3) - F(2), 1 - F(3)]),
    (Records(x**2, cells=[1, 9]), lambda F: [F(1), F(3) - F(1), 1 - F(3)]),
    (Records((x - 2) ** 2, cells=[1e-6]), lambda F: [F(2.001) - F(1.999), 1 - F(2.001) + F(1.999)]),
    (Records((x - 1) * (x - 2), cells=[0]), lambda F: [F(2) - F(1), 1 - F(2) + F(1)]),
    (Records(x.clip(1, 4), cells=[1, 4]), lambda F: [0.0, F(4), 1 - F(4)]),
    (Records(x.between(0.5, 0.5001), cells=[0.5]), lambda F: [1 - F(0.5001) + F(0.5), F(0.5001) - F(0.5)]),
    (Records(x.between(1, 2)), lambda F: [1 - F(2) + F(1), F(2) - F(1)]),
    (Count((2 * x).between(1, 2)), lambda F: [1 - F(1) + F(0.5), F(1) - F(0.5)]),
]


@pytest.mark.parametrize(("statistic", "from_cdf"), CELLS, ids=lambda v: str(v) if not callable(v) else "")
@pytest.mark.parametrize("outside", ["clamp", "refuse"])
def test_cells_of_one_column_are_differences_of_its_cdf(statistic: Any, from_cdf: Any, outside: str) -> None:
    p = cell_probabilities(JOINT, schema(outside), statistic, THETA)
    for k in range(2):
        law, _ = laws(k)
        if outside == "clamp":
            expected = from_cdf(law.cdf)
        else:
            mass = law.cdf(5) - law.cdf(0)
            expected = from_cdf(lambda v, law=law, mass=mass: (law.cdf(v) - law.cdf(0)) / mass)
        np.testing.assert_allclose(p[k], expected, atol=1e-12)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-14)
    assert (p >= 0).all()


def test_an_atom_of_the_clamp_on_an_edge_belongs_to_the_cell_above() -> None:
    p = cell_probabilities(JOINT, schema(), Records(x, cells=[0, 5]), THETA)
    law, _ = laws(0)
    np.testing.assert_allclose(p[0], [0, law.cdf(5), law.sf(5)], atol=1e-15)
    p = cell_probabilities(JOINT, schema("refuse"), Records(x, cells=[0, 5]), THETA)
    np.testing.assert_allclose(p[0], [0, 1, 0], atol=1e-15)


def test_cells_deep_in_a_tail_keep_their_digits() -> None:
    far = schema("refuse", x=(9, 20))
    p = cell_probabilities(Normal(mean=stats.norm(), sd=1), far, Histogram(x, [9.01]), {"mean": np.array([0.0, -91.0])})
    assert p[0, 1] == pytest.approx(stats.norm.sf(9.01) / stats.norm.sf(9), rel=1e-10)
    assert p[1, 1] == pytest.approx(np.exp(stats.norm.logsf(100.01) - stats.norm.logsf(100)), rel=1e-8)


def test_discrete_records_and_levels_are_enumerated() -> None:
    counts = schema(x=(0, 5))
    poisson = Poisson(rate=HALF)
    p = cell_probabilities(poisson, counts, Histogram(x, [1, 3]), {"rate": np.array([2.0])})
    law = stats.poisson(2)
    np.testing.assert_allclose(p[0], [law.pmf(0), law.cdf(2) - law.pmf(0), law.sf(2)], atol=1e-14)
    np.testing.assert_allclose(cell_probabilities(JOINT, schema(), Records(h), THETA), THETA["h.p"], atol=1e-15)
    np.testing.assert_allclose(cell_probabilities(JOINT, schema(), Histogram(g), THETA)[:, 1], THETA["g.p"])
    table = cell_probabilities(JOINT, schema(), Marginals(["h", "g"]), THETA)
    by_hand = [[a * b for a in THETA["h.p"][k] for b in (1 - THETA["g.p"][k], THETA["g.p"][k])] for k in range(2)]
    np.testing.assert_allclose(table, by_hand, atol=1e-15)
    yes = cell_probabilities(JOINT, schema(), Count(x.between(1, 2) * g.equals("a")), THETA)[:, 1]
    expected = [(laws(k)[0].cdf(2) - laws(k)[0].cdf(1)) * (1 - THETA["g.p"][k]) for k in range(2)]
    np.testing.assert_allclose(yes, expected, atol=1e-13)
    with pytest.raises(Unsupported, match="one clique"):
        cell_probabilities(JOINT, schema(), Marginals(["h"], ["g"]), THETA)


@pytest.mark.parametrize("outside", ["clamp", "refuse"])
@pytest.mark.parametrize("statistic", [Histogram(x, [1, 2, 3]), Histogram(y, [0.3, 1, 2]), Records(x * y, cells=[1, 4]),
                                       Records(h), Marginals(["g", "h"])], ids=str)  # fmt: skip
def test_drawn_records_fall_into_cells_with_their_probabilities(statistic: Any, outside: str) -> None:
    n = 20_000
    drawn = sample_records(np.random.default_rng(), JOINT, schema(outside), n, THETA, "xygh")
    assert all(values.shape == (2, n) for values in drawn.values())
    counts, p = statistic.value(drawn, schema(outside)), cell_probabilities(JOINT, schema(outside), statistic, THETA)
    for k in range(2):
        assert stats.chisquare(counts[k], n * p[k]).pvalue > FALSE_ALARM / 2
        planted = n * np.roll(p[k], 1)
        assert stats.chisquare(counts[k], planted).pvalue < FALSE_ALARM


def test_records_outside_are_redrawn_inside_even_where_hardly_any_mass_is() -> None:
    bounds = schema("refuse", x=(0, 50))
    drawn = sample_records(np.random.default_rng(), Normal(mean=stats.norm(), sd=1), bounds, 4000,
                           {"mean": np.array([-100.0, 25.0, 150.0])}, ["x"])["x"]  # fmt: skip
    # Given X > 0 a normal at -100 is nearly exponential with rate 100, and the one at 150 mirrors it at 50.
    for excess in (drawn[0], 50 - drawn[2]):
        assert stats.kstest(excess, stats.expon(scale=1 / 100.01).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(drawn[1], stats.norm(25, 1).cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("outside", ["clamp", "refuse"])
def test_base_draws_become_cleaned_records_and_are_shared_by_all_rows(outside: str) -> None:
    rng = np.random.default_rng()
    u = {name: rng.random((3, 2000)) for name in "xyg"}
    made = records_from_base(JOINT, schema(outside), u, THETA, "xyg")
    assert base_size("xyg") == 3
    assert all(values.shape == (2, 3, 2000) for values in made.values())
    for k in range(2):
        law, _ = laws(k)
        low, high = (0.0, 1.0) if outside == "clamp" else (law.cdf(0), law.cdf(5))
        expected = np.clip(law.ppf(low + (high - low) * u["x"]), 0, 5)
        np.testing.assert_allclose(made["x"][k], expected, atol=1e-9)
    nudged = records_from_base(JOINT, schema(outside), u, {**THETA, "x.mean": THETA["x.mean"] + 1e-7}, "xyg")
    assert np.max(np.abs(nudged["x"] - made["x"])) < 1.1e-7  # smooth in theta
    np.testing.assert_array_equal(nudged["y"], made["y"])


def test_a_population_without_unknowns_has_one_row() -> None:
    known = Joint(x=Normal(mean=1, sd=1), h=Categorical(p=[0.2, 0.3, 0.5]))
    mean, covariance = row_moments(known, schema(), [x, h.equals("u")], {})
    assert mean.shape == (1, 2)
    assert covariance.shape == (1, 2, 2)
    assert sample_records(np.random.default_rng(), known, schema(), 7, {}, "xh")["x"].shape == (1, 7)
    mixed = Joint(x=Normal(mean=1, sd=1), y=Normal(mean=stats.norm(), sd=1))
    drawn = sample_records(np.random.default_rng(), mixed, schema(), 7, {"y.mean": np.zeros(3)}, "xy")
    assert drawn["x"].shape == (3, 7)
    assert len(np.unique(drawn["x"], axis=0)) == 3  # rows do not share the records of a column that is known


@pytest.mark.parametrize(
    ("population", "columns", "word"),
    [
        (Normal(mean=0, sd=1), "xy", r"Joint\(x=..., y=...\)"),
        (Normal(mean=0, sd=1), "g", "Categorical"),
        (Normal(mean=0, sd=1).named("income"), "x", "'x', which the population does not describe; it describes income"),
        (Joint(x=Normal(mean=0, sd=1)), "xg", "does not describe"),
        (Categorical(p=[0.5, 0.5]), "h", "3 levels, but its Categorical lists 2"),
        (Categorical(p=stats.dirichlet([1, 1])), "h", "3 levels, but its Categorical lists 2"),
        (Categorical(p=[0.5, 0.5]), "x", "numeric"),
        (Bernoulli(p=0.5), "h", "Categorical"),
        (Poisson(rate=1), "g", "second level"),
    ],
)
def test_a_population_that_does_not_fit_the_columns_is_refused(population: Any, columns: str, word: str) -> None:
    with pytest.raises(Unsupported, match=word):
        attach(population, schema(), columns)


def test_what_fits_is_attached() -> None:
    normal = Normal(mean=0, sd=1)
    assert attach(normal, schema(), ["x"]) == {"x": normal}
    assert attach(normal.named("x"), schema(), "x")["x"].parameters is normal.parameters
    assert set(attach(JOINT, schema(), "xg")) == {"x", "g"}
    with pytest.raises(InvalidArgument, match="no column"):
        attach(normal, schema(), ["salary"])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Normal(mean=stats.uniform(0, np.inf), sd=1), "flat on an infinite range"),
        (lambda: Normal(mean=stats.norm(0, np.inf), sd=1), "flat on an infinite range"),
        (lambda: Normal(mean=0, sd=stats.halfnorm(scale=-1)), "not a proper distribution: scipy.stats does not define"),
        (lambda: Normal(mean=stats.norm([0, 1], 1), sd=1), "one-dimensional, not 2"),
        (lambda: Population(stats.weibull_min, c=-1), r"no density \(NaN\) at c = -1"),
        (lambda: Population(stats.beta, a=stats.norm(), b=2), "which its prior allows"),
        (lambda: Population(stats.norm(2, 3)), "loc=..., scale=..."),
        (lambda: LocationScale(stats.t(5, loc=3), loc=0, scale=1), "neither loc nor scale"),
    ],
)
def test_improper_priors_and_densities_that_are_nan_are_refused_in_words(make: Any, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        make()


def test_a_truncated_prior_with_infinite_shapes_is_proper() -> None:
    prior = stats.truncnorm(loc=1.0, scale=2.0, a=-0.5, b=np.inf)
    assert Normal(mean=0, sd=prior).supports["sd"].low == 0.0


def test_shapes_frozen_by_name_keep_their_names() -> None:
    population = LocationScale(stats.beta(b=2, a=5), loc=0, scale=1)
    assert population.cdf([0.5], {})[0, 0] == pytest.approx(stats.beta(5, 2).cdf(0.5), rel=1e-12)


def test_a_nan_row_stays_a_nan_row_and_does_not_spread() -> None:
    population = Population(stats.weibull_min, c=HALF)
    mean, _ = row_moments(population, schema(), [x], {"c": np.array([1.0, -1.0])})
    assert np.isfinite(mean[0, 0])
    assert np.isnan(mean[1, 0])
    uniform = Uniform(low=0, high=stats.uniform(1, 9))
    p = cell_probabilities(uniform, schema("refuse", x=(4, 5)), Histogram(x, [4.5]), {"high": np.array([2.0, 8.0])})
    assert np.isnan(p[0]).all()
    np.testing.assert_allclose(p[1], [0.5, 0.5])


@pytest.mark.parametrize(
    ("outside", "rate"),
    [*itertools.product(["clamp", "refuse"], [1e-200, 0.3, 4.0, 40.0, 1e3, 1e9]), ("clamp", 1e18), ("clamp", 1e300)],
)
def test_counts_at_any_rate_have_the_law_between_the_bounds(outside: str, rate: float) -> None:
    """A search over a wide prior asks for extreme rates; the oracle sums the mass function by value.

    Truncated, p(v) is proportional to rate^v / v!; a double holds the differences of log p(v) up to a rate of 1e15.
    """
    found = row_moments(Poisson(rate=stats.gamma(1)), schema(outside), [x, x**2], {"rate": np.array([rate])})[0][0]
    v = np.arange(6.0)
    if outside == "clamp":
        p = stats.poisson(rate).pmf(v)
        p[-1] += stats.poisson(rate).sf(5)
    else:
        log_p = v * np.log(rate) - special.gammaln(v + 1)
        p = np.exp(log_p - special.logsumexp(log_p))
    assert found == pytest.approx([p @ v, p @ v**2], rel=1e-12, abs=1e-15)


def test_an_extreme_rate_leaves_the_other_rows_alone() -> None:
    rates = np.array([0.3, 1e300, 4.0, 1e9])
    population = Poisson(rate=stats.gamma(1))
    together = row_moments(population, schema(), [x], {"rate": rates})[0]
    alone = [row_moments(population, schema(), [x], {"rate": np.array([rate])})[0][0] for rate in rates]
    assert together == pytest.approx(np.array(alone), rel=1e-13)


def test_far_bounds_cost_nothing_where_the_counts_stay_low() -> None:
    mean, covariance = row_moments(
        Poisson(rate=stats.gamma(1)), schema(x=(0, 1e12)), [x], {"rate": np.array([5.0, 300.0])}
    )
    assert mean[:, 0] == pytest.approx([5.0, 300.0], rel=1e-12)
    assert covariance[:, 0, 0] == pytest.approx([5.0, 300.0], rel=1e-9)


def test_counts_spread_over_too_many_values_between_the_bounds_are_refused() -> None:
    with pytest.raises(Unsupported, match="too many to enumerate"):
        row_moments(Poisson(rate=stats.gamma(1)), schema(x=(0, 1e7)), [x], {"rate": np.array([1.0, 5e6])})


@pytest.mark.parametrize("bounds", [(0.2, 0.8), (2.0, 3.0)])
def test_a_discrete_population_with_no_value_between_the_bounds_is_refused(bounds: tuple[float, float]) -> None:
    with pytest.raises(InvalidArgument, match="no mass inside"):
        row_moments(Bernoulli(p=stats.beta(1, 1)), schema("refuse", x=bounds), [x], {"p": np.array([0.3])})
    clamped, _ = row_moments(Bernoulli(p=stats.beta(1, 1)), schema(x=bounds), [x], {"p": np.array([0.3])})
    assert clamped[0, 0] == pytest.approx(0.7 * np.clip(0, *bounds) + 0.3 * np.clip(1, *bounds))


def test_counts_from_base_draws_are_clamped_quantiles() -> None:
    """Looked up in a list of their values: the same as scipy's quantiles, bounds whole or not."""
    u = np.random.default_rng().random(2000)
    rates = np.array([0.3, 4.0, 30.0])
    for low, high in ((0, 12), (2, 9.5), (-1.5, 6), (4.2, 4.8)):
        bounded = nw.Schema({"x": nw.Bounded(low, high)}, n=5, neighbours="change-one")
        made = records_from_base(nw.Poisson(rate=stats.gamma(2)), bounded, {"x": u}, {"rate": rates}, "x")["x"]
        assert np.array_equal(made, np.clip(stats.poisson.ppf(u, rates[:, None]), low, high))


def test_laws_almost_wholly_outside_may_have_kinks_of_their_own(rng: np.random.Generator) -> None:
    """Panels that shrink towards the bounds joined to kinks with one row for each theta: their rows did not match."""
    rates = np.array([2e-10, 1.0, 30.0, 200.0])
    kinks = np.sort(rng.uniform(0.1, 2.7, (4, 3)), axis=1)
    population = Exponential(rate=stats.gamma(2))
    for low in (0.0, 0.1):  # of the steepest, e^-20 lies above the second
        nodes = quadrature_nodes(population, Bounded(low, 2.7), "refuse", {"rate": rates}, kinks)
        assert nodes.x.shape[0] == 4
        np.testing.assert_allclose(nodes.weight.sum(axis=1), 1)
        for rate, found in zip(rates, nodes.mean(np.sqrt(nodes.x)), strict=True):
            pieces = np.minimum(np.array([0, 0.01, 0.1, 0.3, 1, 10]) / rate, 2.7 - low)

            def integral(power: float, rate: float = rate, pieces: Any = pieces, low: float = low) -> float:
                parts = itertools.pairwise(pieces if rate > 10 else (0.0, 2.7 - low))
                whole = [*parts, (pieces[-1], min(60 / rate, 2.7 - low))] if rate > 10 else list(parts)
                return sum(integrate.quad(lambda t: (low + t) ** power * np.exp(-rate * t), a, b)[0] for a, b in whole)

            assert found == pytest.approx(integral(0.5) / integral(0.0), rel=1e-6)
