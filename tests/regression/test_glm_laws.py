"""Laws of numbers among the features of a generalized linear model: stated populations and released histograms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.regression.glm import histograms
from noisewise.regression.glm.density import glm_density
from noisewise.regression.glm.learn import seen_problem
from noisewise.regression.glm.problem import glm_data, size_of

N = 500
ILL = nw.column("ill").equals("yes")
SMOKES = nw.column("smoker").equals("yes")
GAMMA = nw.Gamma(shape=4, rate=2)
EDGES = [0.5, 1, 1.5, 2, 3, 5]


def schema_of(*, high=4, outside="clamp"):
    columns = {
        "dose": nw.Bounded(0, high), "age": nw.Bounded(0, 12), "smoker": nw.Levels(["no", "yes"]),
        "ill": nw.Levels(["no", "yes"]), "visits": nw.Bounded(0, 6),
    }  # fmt: skip
    return nw.Schema(columns, n=N, neighbours="change-one", outside=outside)


def release_of(statistic, schema, value, *, dataset="one", part=None, guarantee=None):
    """A release with a value of our own choice."""
    made = nw.plan(statistic, schema, guarantee=guarantee or nw.GaussianDP(2), part=part)
    steps = np.round(np.asarray(value, float) / np.array(made.law.step))
    return nw.Release.of(made, [int(step) for step in steps], dataset=dataset, ledger_head=None, simulated=True)


def density_of(model, releases):
    """log density and its gradient, as functions of a position."""
    observed = model.observe(releases, settings())
    data = glm_data(seen_problem(model, observed))
    size = size_of(data)

    def at(position):
        gradient = np.zeros(size)
        return glm_density(np.asarray(position, float), data, gradient), gradient

    return at, size


def settings():
    class Plain:
        n = None

    return Plain()


def normal_law(rows, weight, value, variance, n):
    """log N(value; n M, n C + noise) by the products of rows (P, K) with probabilities (P,): M and C by sums."""
    mean = weight @ rows
    away = rows - mean
    covariance = n * (away * weight[:, None]).T @ away + np.diag(variance)
    return stats.multivariate_normal(n * mean, covariance).logpdf(value)


def yes_no_rows(x_true, x_seen, share, beta, extra=()):
    """Products (x, y, x^2, xy, extra) of rows with y = 0 and y = 1, and their probabilities."""
    yes = special.expit(beta[0] + beta[1] * x_true)
    rows = []
    for y in (0.0, 1.0):
        own = [x_seen, np.full_like(x_seen, y), x_seen**2, x_seen * y]
        rows.append(np.column_stack([*own, *extra]))
    return np.concatenate(rows), np.concatenate([share * (1 - yes), share * yes])


@pytest.mark.parametrize("outside", ["clamp", "refuse"])
def test_the_density_by_a_stated_population_is_that_of_a_dense_grid(outside):
    """An oracle of its own: 200 000 quantiles of the gamma law, clamped in the sums or refused, y by its two values."""
    schema = schema_of(outside=outside)
    statistic = nw.Moments(["dose"], ILL, parts=["xx", "xy"])
    value = np.array([950.0, 260.0, 2250.0, 600.0])
    release = release_of(statistic, schema, value)
    model = nw.LogisticRegression(["dose"], ILL, covariates={"dose": GAMMA}, coefficients=stats.norm(0, 1))
    at, size = density_of(model, [release])
    assert size == 4  # two coefficients, a mean and a spread
    u = (np.arange(200_000) + 0.5) / 200_000
    x, z = stats.gamma(4, scale=0.5).ppf(u), stats.norm.ppf(u)
    variance = np.square(release.law.sd)

    def oracle(position):
        beta, tilt = position[:2], position[2:]
        weight = np.exp(0.5 * tilt[0] * z + 0.1 * tilt[1] * (z**2 - 1))
        inside = x <= 4 if outside == "refuse" else np.ones(len(x), bool)
        share = np.where(inside, weight, 0.0) / weight[inside].sum()
        rows, p = yes_no_rows(x, np.minimum(x, 4), share, beta)
        return normal_law(rows, p, release.estimate, variance, N) - 0.5 * np.square(position).sum()

    places = np.array([[0.1, 0.2, 0.3, -0.4], [-0.8, 0.5, -0.2, 0.6], [0.5, -0.3, 0.1, 0.1]])
    ours, theirs = np.array([at(place)[0] for place in places]), np.array([oracle(place) for place in places])
    tolerance = 0.05 if outside == "refuse" else 0.01  # a grid of 61 nodes ends at a bound only so exactly
    assert ours - ours[0] == pytest.approx(theirs - theirs[0], rel=tolerance, abs=0.02)


def test_counts_and_sums_of_the_same_records_are_one_normal_law():
    """The oracle lays 400 points into every cell, and takes the covariances of cells with products from them."""
    schema = schema_of(high=12)
    moments = release_of(nw.Moments(["dose"], ILL, parts=["xx", "xy"]), schema, [1000.0, 260.0, 2600.0, 600.0])
    counts = release_of(nw.Histogram("dose", EDGES), schema, [20, 90, 120, 100, 110, 50, 10])
    model = nw.LogisticRegression(["dose"], ILL, covariates="released", coefficients=stats.norm(0, 1))
    at, size = density_of(model, [moments, counts])
    assert size == 2 + 7
    ends = np.array([0, *EDGES, 12], float)
    cell = np.repeat(np.arange(7), 400)
    x = (ends[:-1, None] + np.diff(ends)[:, None] * (np.arange(400) + 0.5) / 400).ravel()
    value = np.concatenate([moments.estimate, counts.estimate])
    variance = np.square([*moments.law.sd, *counts.law.sd])

    def oracle(position, *, is_joint=True):
        logits = 3.0 * position[2:]
        share = special.softmax(logits)[cell] / 400
        rows, p = yes_no_rows(x, x, share, position[:2], extra=[(cell == k).astype(float) for k in range(7)])
        prior = -0.5 * np.square(position).sum()
        if is_joint:
            return normal_law(rows, p, value, variance, N) + prior
        parts = [slice(0, 4), slice(4, None)]
        return sum(normal_law(rows[:, part], p, value[part], variance[part], N) for part in parts) + prior

    logits = np.log([0.04, 0.18, 0.24, 0.2, 0.22, 0.1, 0.02]) / 3
    places = [np.concatenate([[0.1, -0.2], logits]), np.concatenate([[-0.5, 0.3], 0.9 * logits + 0.02])]
    ours = at(places[1])[0] - at(places[0])[0]
    assert ours == pytest.approx(oracle(places[1]) - oracle(places[0]), rel=1e-3)
    apart = oracle(places[1], is_joint=False) - oracle(places[0], is_joint=False)
    assert abs(apart - ours) > 1  # multiplying the two would be seen
    # Counts of other records are a holder of their own, and there the two do multiply.
    others = release_of(nw.Histogram("dose", EDGES), schema, [20, 90, 120, 100, 110, 50, 10], dataset="two")
    beside, _ = density_of(model, [moments, others])
    assert beside(places[1])[0] - beside(places[0])[0] == pytest.approx(apart, rel=1e-3)


@pytest.mark.parametrize("is_count", [False, True])
def test_the_gradient_is_the_slope_of_the_density(is_count):
    schema = schema_of(high=3)
    response, kind = ("visits", nw.PoissonRegression) if is_count else (ILL, nw.LogisticRegression)
    statistic = nw.Moments(["dose", "age", SMOKES], response)
    size = len(statistic.labels(schema))
    release = release_of(statistic, schema, np.linspace(200, 900, size))
    model = kind(
        ["dose", "age", SMOKES], response, covariates={"dose": GAMMA, "age": GAMMA}, coefficients=stats.norm(0, 0.3)
    )
    at, size = density_of(model, [release])
    place = np.random.default_rng().normal(0, 0.3, size)
    gradient = at(place)[1]
    slopes = [(at(place + 1e-5 * unit)[0] - at(place - 1e-5 * unit)[0]) / 2e-5 for unit in np.eye(size)]
    assert gradient == pytest.approx(np.array(slopes), rel=1e-4, abs=1e-4 * np.abs(gradient).max())


def test_the_verdict_names_the_stated_law_and_what_it_cannot_test():
    schema = schema_of(high=12)
    release = release_of(nw.Moments(["dose"], ILL, parts=["xx", "xy"]), schema, [1000.0, 260.0, 2500.0, 600.0])
    model = nw.LogisticRegression(["dose"], ILL, covariates={"dose": GAMMA}, coefficients=stats.norm(0, 1))
    found = nw.infer(release, model, seed=1, draws=100, progress=False)
    assert "dose ~ gamma(shape=4.0, rate=2.0)" in str(found.verdict)
    assert "Moments alone cannot test that shape" in str(found.verdict)
    assert "taken to be normal." not in str(found.verdict)
    assert "cannot be checked by this release" in str(found.check)  # four numbers for four unknowns


def test_a_stated_law_is_text_that_reads_back():
    model = nw.LogisticRegression(["dose"], ILL, covariates={"dose": GAMMA})
    text = model.text_arguments()["covariates"]
    assert text == "{'dose': 'gamma(shape=4.0, rate=2.0)'}"
    again = nw.LogisticRegression(["dose"], ILL, covariates={"dose": "gamma(shape=4, rate=2)"})
    assert again.text_arguments()["covariates"] == text
    assert nw.LogisticRegression(["dose"], ILL, covariates="released").text_arguments()["covariates"] == "'released'"


@pytest.mark.parametrize(
    "covariates",
    [
        {},
        {"dose": 3},
        {"dose": nw.Bernoulli(p=0.5)},
        {"dose": nw.Gamma(shape=stats.uniform(1, 5), rate=2)},
        {1: GAMMA},
        "histograms",
        3,
    ],
)
def test_what_is_no_law_is_refused(covariates):
    with pytest.raises(InvalidArgument, match="covariates"):
        nw.LogisticRegression(["dose"], ILL, covariates=covariates)


def test_every_number_needs_its_law_and_nothing_else_has_one():
    schema = schema_of(high=12)
    release = release_of(nw.Moments(["dose"], ILL), schema, [1000.0, 260.0, 2500.0, 600.0])
    for covariates, word in (({"age": GAMMA}, "dose"), ({"dose": GAMMA, "age": GAMMA}, "age")):
        model = nw.LogisticRegression(["dose"], ILL, covariates=covariates)
        with pytest.raises(InvalidArgument, match=word):
            nw.infer(release, model, seed=1, progress=False)
    with pytest.raises(InvalidArgument, match="needs a released Histogram of column 'dose'"):
        nw.infer(release, nw.LogisticRegression(["dose"], ILL, covariates="released"), seed=1, progress=False)


def test_histograms_alone_and_too_many_cells_are_refused():
    schema = schema_of(high=12)
    model = nw.LogisticRegression(["dose", "age"], ILL, covariates="released")
    fine = [k / 10 for k in range(1, 60)]
    tables = [release_of(nw.Histogram(name, fine), schema, np.full(60, 8)) for name in ("dose", "age")]
    with pytest.raises(Unsupported, match="Moments"):
        nw.infer(tables, model, seed=1, progress=False)
    statistic = nw.Moments(["dose", "age"], ILL)
    moments = release_of(statistic, schema, np.full(len(statistic.labels(schema)), 500.0))
    with pytest.raises(Unsupported, match="120 cells in all"):
        nw.infer([moments, *tables], model, seed=1, progress=False)


# ---- how numbers depend on each other, by released histograms ----

SKEW = stats.gamma(2, scale=1)
TWO_EDGES = [0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8]
THREE_EDGES = [*TWO_EDGES[:-1], 7, 8, 10]


def two_tables(schema):
    """Moments of dose and age, and histograms that are exactly those of a gamma law."""
    ends = np.array([0, *TWO_EDGES, 12.0])
    share = np.diff(SKEW.cdf(ends)) / SKEW.cdf(12.0)
    tables = [release_of(nw.Histogram(name, TWO_EDGES), schema, N * share) for name in ("dose", "age")]
    statistic = nw.Moments(["dose", "age"], ILL, parts=["xx", "xy"])
    mean, square = SKEW.mean(), SKEW.moment(2)  # sums of dose, age, y, dose^2, dose age, dose y, age^2, age y
    value = N * np.array([mean, mean, 0.5, square, 1.3 * mean**2, 0.6 * mean, square, 0.5 * mean])
    return [release_of(statistic, schema, value), *tables], share


def points_of(model, releases):
    return model.covariates.points(model.observe(releases, settings()))


def test_the_dependence_is_that_of_a_gaussian_copula():
    """Its table of cells, r = 0.7 by quadrature, is one of the law's; with the number itself for scores it is not."""
    schema = schema_of(high=12)
    model = nw.LogisticRegression(["dose", "age"], ILL, covariates="released")
    releases, share = two_tables(schema)
    law, size = points_of(model, releases), len(share)
    ends = stats.norm.ppf(np.clip(np.concatenate([[0], np.cumsum(share)]), 1e-12, 1 - 1e-12))
    u = (np.arange(400) + 0.5) / 400
    z = stats.norm.ppf(np.clip(np.cumsum(share)[:, None] - share[:, None] * (1 - u), 1e-12, 1 - 1e-12))
    rest = np.diff(stats.norm.cdf((ends[None, None] - 0.7 * z[..., None]) / np.sqrt(1 - 0.49)), axis=2)
    wanted = share[:, None] * rest.mean(axis=1)  # (cell of dose, cell of age)

    def nearest(scores):
        """The largest difference of a cell from the wanted table, over u, with margins as they are."""
        cells = np.stack([np.argmax(law.tilt[:, k * size : (k + 1) * size] > 0, axis=1) for k in (0, 1)])
        best = 1.0
        for u in np.linspace(0.2, 3, 57):
            p = np.exp(law.log_weight + u * scores[0] * scores[1])
            for _ in range(60):
                for k in (0, 1):
                    p *= (share / np.bincount(cells[k], p, size))[cells[k]]
            found = np.bincount(cells[0] * size + cells[1], p, size * size).reshape(size, size)
            best = min(best, np.abs(found - wanted).max())
        return best

    product = law.tilt[:, 2 * size]
    scores = [stats.norm.ppf(np.clip(np.interp(law.columns[name], [0, *TWO_EDGES, 12],
              np.concatenate([[0], np.cumsum(share)])), 1e-3, 1 - 1e-3)) for name in ("dose", "age")]  # fmt: skip
    middle = np.all(np.abs(scores) < 2, axis=0)  # beyond, counts rounded to whole people move a score
    np.testing.assert_allclose(product[middle], (scores[0] * scores[1])[middle], atol=0.1)
    own = [(law.columns[name] - 2) / np.sqrt(2) for name in ("dose", "age")]
    assert nearest(scores) < 0.003
    assert nearest(own) > 3 * nearest(scores)


def test_a_bank_of_points_has_the_density_of_all_combinations(monkeypatch):
    schema = schema_of(high=12)
    model = nw.LogisticRegression(["dose", "age"], ILL, covariates="released", coefficients=stats.norm(0, 1))
    releases, share = two_tables(schema)
    at, size = density_of(model, releases)
    monkeypatch.setattr(histograms, "_grid", histograms._bank)
    banked, same = density_of(model, releases)
    assert size == same == 3 + 2 * len(share) + 1
    first = np.concatenate([[-0.6, 0.3, 0.0], np.log(share) / 3, np.log(share) / 3, [0.4]])
    rng = np.random.default_rng(1)  # places, not draws that are tested
    places = [first, *(first + 0.05 * rng.standard_normal(size) for _ in range(4))]
    exact, bank = (np.array([density(place)[0] for place in places]) for density in (at, banked))
    assert np.ptp(exact) > 10
    np.testing.assert_allclose(bank - bank[0], exact - exact[0], rtol=0.05, atol=0.6)


def test_three_numbers_have_a_law_by_their_histograms():
    columns = {name: nw.Bounded(0, 12) for name in ("dose", "age", "bmi")}
    schema = nw.Schema({**columns, "ill": nw.Levels(["no", "yes"])}, n=N, neighbours="change-one")
    ends = np.array([0, *THREE_EDGES, 12.0])
    share = np.diff(SKEW.cdf(ends)) / SKEW.cdf(12.0)
    tables = [release_of(nw.Histogram(name, THREE_EDGES), schema, N * share) for name in columns]
    statistic = nw.Moments(list(columns), ILL, parts=["xx", "xy"])
    value = np.full(len(statistic.labels(schema)), 500.0)
    model = nw.LogisticRegression(list(columns), ILL, covariates="released")
    law = points_of(model, [release_of(statistic, schema, value), *tables])
    assert len(law.log_weight) == 1024 < 13**3
    size = len(share)
    tilt = np.concatenate([np.tile(np.log(share) / 3, 3), np.zeros(3)])
    p = special.softmax(law.log_weight + law.tilt @ tilt)
    middle = np.sum(share * (ends[1:] + ends[:-1]) / 2)
    square = np.sum(share * (ends[1:] ** 3 - ends[:-1] ** 3) / np.diff(ends) / 3)
    for name in columns:
        assert p @ law.columns[name] == pytest.approx(middle, rel=0.01)
        assert p @ law.columns[name] ** 2 == pytest.approx(square, rel=0.03)
    assert p @ (law.columns["dose"] * law.columns["bmi"]) == pytest.approx(middle**2, rel=0.02)
    assert 1 / np.square(p).sum() > 400
    assert law.tilt.shape[1] == 3 * size + 3


def test_a_histogram_belongs_to_the_holder_of_its_records_in_any_order():
    schema = schema_of(high=12)
    model = nw.LogisticRegression(["dose"], ILL, covariates="released")
    statistic, table = nw.Moments(["dose"], ILL, parts=["xx", "xy"]), nw.Histogram("dose", EDGES)
    value, counts = [1000.0, 260.0, 2600.0, 600.0], [20, 90, 120, 100, 110, 50, 10]
    one, two = (release_of(statistic, schema, value, dataset=name) for name in ("one", "two"))
    of_two = release_of(table, schema, counts, dataset="two")
    for given in ([one, two, of_two], [of_two, one, two]):
        observed = model.observe(given, settings())
        assert observed.datasets == ("one", "two")
        assert [t.holder for t in observed.tables] == [1]
