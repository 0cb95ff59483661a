"""Models of counts, tables and cells: likelihood, score, draws and conjugate posteriors against enumeration."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import logsumexp

import noisewise as nw
from noisewise.errors import Unsupported
from noisewise.laws.finite import FiniteLaw, truncated_geometric
from noisewise.likelihood.conjugate import BetaPrior, DirichletPrior
from noisewise.likelihood.count_models import CellsModel, CountModel, TableModel
from noisewise.likelihood.model import Likelihood
from noisewise.populations.population import Bernoulli, Categorical, Joint, Normal

ALARM = 1e-6
X, S = nw.column("x"), nw.column("s")
COLUMNS = {"x": nw.Bounded(-3, 3), "s": nw.Levels(["no", "yes"]), "g": nw.Levels(["a", "b", "c"])}
GUARANTEES = [nw.PureDP("1/2"), nw.ZeroConcentratedDP("1/10"), nw.GaussianDP(1)]


def released(statistic, value, *, n=12, guarantee=GUARANTEES[0], mechanism=None, columns=COLUMNS):
    schema = nw.Schema(columns, n=n, neighbours="change-one")
    plan = nw.plan(statistic, schema, guarantee=guarantee, mechanism=mechanism)
    return nw.Release.of(plan, value, dataset="made", ledger_head=None, simulated=True)


def estimator(n):
    return FiniteLaw(rows=truncated_geometric(n + 1, Fraction(1, 2)), actions=tuple(float(v) for v in range(n + 1)))


NORMAL = Normal(mean=stats.norm(0, 2), sd=stats.halfnorm(scale=2))
THETA = {"mean": np.array([-1.0, 0.3, 2.0]), "sd": np.array([0.5, 1.0, 3.0])}


def inside(low, high):
    """P(low <= x <= high) of the clamped normal, from scipy."""
    law = stats.norm(THETA["mean"], THETA["sd"])
    return law.cdf(high) - law.cdf(low)


def numerical(model, theta, name):
    """A sixth-order difference of the log-likelihood."""
    h, weights = 1e-3, {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}
    moved = {k: model.log_likelihood({**theta, name: theta[name] + k * h}) for k in (-3, -2, -1, 1, 2, 3)}
    return sum(w * (moved[k] - moved[-k]) for k, w in weights.items()) / h


def scored(value, *, several=False, n=12):
    count = nw.Count(X.between(-1, 1))
    releases = [released(count, [value], n=n, guarantee=g) for g in GUARANTEES]
    finite = released(count, [min(max(value, 0), n)], n=n, guarantee=nw.PureDP("1/2"), mechanism=estimator(n))
    groups = [(release,) for release in (*releases, finite)]
    return [*groups, tuple(releases[:2]), (releases[0], finite)] if several else groups


def log_noise(release, s):
    if isinstance(release.law, FiniteLaw):
        return np.log([float(release.law.rows[k][release.value[0]]) for k in s])
    return release.law.log_pmf(release.value[0] - s)


@pytest.mark.parametrize("value", [-2, 0, 5, 12, 15])
def test_a_count_by_enumeration_under_every_law_alone_and_together(value):
    s, p = np.arange(13), inside(-1, 1)
    for releases in scored(value, several=True):
        model = CountModel.of(releases, NORMAL, n=12)
        assert isinstance(model, Likelihood)
        noise = sum(log_noise(release, s) for release in releases)
        expected = [logsumexp(stats.binom.logpmf(s, 12, q) + noise) for q in p]
        np.testing.assert_allclose(model.log_likelihood(THETA), expected, rtol=1e-9)
        score = model.score(THETA)
        for name in ("mean", "sd"):
            np.testing.assert_allclose(score[name], numerical(model, THETA, name), rtol=1e-6, atol=1e-7)
        assert model.is_exact
        assert "binomial" in model.because
        assert model.latent(lambda _: THETA) is None


def fits(observed, chances):
    expected = chances / chances.sum() * observed.sum()
    kept = expected > 8
    observed = np.append(observed[kept], observed[~kept].sum())
    expected = np.append(expected[kept], expected[~kept].sum())
    kept = expected > 0
    total = observed[kept].sum()
    return stats.chisquare(observed[kept], expected[kept] * total / expected[kept].sum()).pvalue > ALARM


def test_the_confidential_count_is_drawn_from_its_law_given_the_release():
    rng, s, rows = np.random.default_rng(), np.arange(13), 8000
    theta = {"mean": np.full(rows, 0.3), "sd": np.full(rows, 1.0)}
    prior = stats.binom.pmf(s, 12, inside(-1, 1)[1])
    for releases in scored(5, several=True):
        drawn = CountModel.of(releases, NORMAL, n=12).draw_statistic(rng, theta)
        assert drawn.shape == (rows, 1)
        counts = np.bincount(drawn[:, 0].astype(int), minlength=13)
        noise = sum(log_noise(release, s) for release in releases)
        assert fits(counts, prior * np.exp(noise))
        assert not fits(counts, prior), "draws that forget the release are caught"


def test_a_count_costs_and_answers_the_same_at_a_billion_records():
    """n = 10^9: the normal law with the noise's variance, which is right there to some 1e-4."""
    n, y = 10**9, 300_010_000
    p = np.array([0.29999, 0.3, 0.30002])
    for guarantee in GUARANTEES:
        release = released(nw.Count(S.equals("yes")), [y], n=n, guarantee=guarantee)
        model = CountModel.of((release,), Bernoulli(p=stats.beta(1, 1)), n=n)
        sd = np.sqrt(n * p * (1 - p) + release.law.sd[0] ** 2)
        np.testing.assert_allclose(model.log_likelihood({"p": p}), stats.norm.logpdf(y, n * p, sd), atol=2e-3)
        score = model.score({"p": p})["p"]
        np.testing.assert_allclose(score, (y - n * p) * n / sd**2, rtol=1e-3, atol=20)
        drawn = model.draw_statistic(np.random.default_rng(), {"p": np.repeat(p, 50)})
        assert np.all(np.abs(drawn - y) < 60 * release.law.sd[0] + 60)


def test_two_laplace_releases_of_one_count_at_a_million_records():
    n = 10**6
    count = nw.Count(S.equals("yes"))
    releases = tuple(
        released(count, [y], n=n, guarantee=nw.PureDP(e)) for y, e in ((300_040, "1/10"), (299_990, "1/5"))
    )
    model = CountModel.of(releases, Bernoulli(p=stats.beta(1, 1)), n=n)
    p = np.array([0.2996, 0.3, 0.3005])
    s = np.arange(295_000, 305_001)
    for found, q in zip(model.log_likelihood({"p": p}), p, strict=True):
        terms = stats.binom.logpmf(s, n, q) + sum(r.law.log_pmf(r.value[0] - s) for r in releases)
        assert found == pytest.approx(logsumexp(terms), abs=1e-7)


@pytest.mark.parametrize("level", ["yes", "no"])
def test_the_beta_posterior_is_prior_times_likelihood(level):
    """By quadrature over p, also where the count is of the other level, and in a Joint where p has a longer name."""
    prior, grid = stats.beta(2, 3.5), np.linspace(0, 1, 2001)
    for release in [released(nw.Count(S.equals(level)), [4], guarantee=g) for g in GUARANTEES]:
        model = CountModel.of((release,), Bernoulli(p=prior), n=12)
        assert model.beta_prior == BetaPrior("p", 2.0, 3.5, is_complement=level == "no")
        posterior = model.beta_posterior(model.beta_prior)

        def joint(p, power=0, model=model):
            return p**power * prior.pdf(p) * np.exp(model.log_likelihood({"p": np.array([p])})[0])

        mass, first, second = (integrate.quad(joint, 0, 1, (k,), epsrel=1e-10, epsabs=0)[0] for k in (0, 1, 2))
        assert posterior.log_evidence == pytest.approx(np.log(mass), rel=1e-8)
        assert posterior.mean == pytest.approx(first / mass, rel=1e-8)
        assert posterior.variance == pytest.approx(second / mass - (first / mass) ** 2, rel=1e-6)
        assert np.exp(posterior.log_density(0.3)) == pytest.approx(joint(0.3) / mass, rel=1e-8)
        p, s = posterior.draw(np.random.default_rng(), 20_000)
        density = np.exp(posterior.log_density(grid[1:-1]))
        cdf = np.concatenate([[0], np.cumsum(density), [density.sum()]]) / density.sum()
        assert stats.kstest(p, lambda v, cdf=cdf: np.interp(v, grid, cdf)).pvalue > ALARM
        assert stats.kstest(p, prior.cdf).pvalue < ALARM
        assert s.min() >= 0
        assert s.max() <= 12
    joined = Joint(x=NORMAL, s=Bernoulli(p=stats.uniform(0, 1)))
    found = CountModel.of((release,), joined, n=12).beta_prior
    assert found == BetaPrior("s.p", 1.0, 1.0, is_complement=level == "no")


def test_the_beta_posterior_at_a_hundred_million_records_and_with_an_estimator():
    n, y = 10**8, 30_000_000
    release = released(nw.Count(S.equals("yes")), [y], n=n)
    model = CountModel.of((release,), Bernoulli(p=stats.beta(1, 1)), n=n)
    posterior = model.beta_posterior(model.beta_prior)
    assert posterior.mean == pytest.approx(0.3, abs=1e-8)
    assert posterior.variance == pytest.approx(0.21 / n + (release.law.sd[0] / n) ** 2, rel=1e-4)
    drowned = released(nw.Count(S.equals("yes")), [y], n=10**9, guarantee=nw.PureDP("1/100000"))
    model = CountModel.of((drowned,), Bernoulli(p=stats.beta(1, 1)), n=10**9)
    with pytest.raises(Unsupported, match="too many"):
        model.beta_posterior(model.beta_prior)
    finite = released(nw.Count(S.equals("yes")), [4], guarantee=nw.PureDP("1/2"), mechanism=estimator(12))
    model = CountModel.of((finite,), Bernoulli(p=stats.beta(1, 1)), n=12)
    s = np.arange(13)
    evidence = logsumexp(log_noise(finite, s) - np.log(13))  # a uniform p makes every count equally likely
    assert model.beta_posterior(model.beta_prior).log_evidence == pytest.approx(evidence, rel=1e-10)


@pytest.mark.parametrize(
    ("population", "statistic"),
    [
        (NORMAL, nw.Count(X.between(-1, 1))),
        (Bernoulli(p=stats.beta(1, 1, loc=0.1, scale=0.5)), nw.Count(S.equals("yes"))),
        (Bernoulli(p=0.3), nw.Count(S.equals("yes"))),
        (Joint(x=NORMAL, s=Bernoulli(p=stats.beta(1, 1))), nw.Count(S.equals("yes") * X.between(0, 1))),
        (Categorical(p=stats.dirichlet([1, 1, 1])), nw.Count(nw.column("g").equals("a"))),
    ],
)
def test_where_the_probability_is_not_the_parameter_there_is_no_shortcut(population, statistic):
    assert CountModel.of((released(statistic, [3]),), population, n=12).beta_prior is None


def tables(n, m):
    return np.array([t for t in product(range(n + 1), repeat=m) if sum(t) == n])


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_histogram_by_enumeration_of_every_table(guarantee):
    y = np.array([5, -1, 4, 3])
    release = released(nw.Histogram("x", edges=[-1, 0, 1]), y, guarantee=guarantee)
    model = TableModel.of((release,), NORMAL, n=12)
    assert isinstance(model, Likelihood)
    p = np.stack([inside(-np.inf, -1), inside(-1, 0), inside(0, 1), inside(1, np.inf)], axis=1)
    every = tables(12, 4)
    noise = sum(release.law.log_pmf(y[j] - every[:, j], j) for j in range(4))
    expected = [logsumexp(stats.multinomial.logpmf(every, 12, q / q.sum()) + noise) for q in p]
    np.testing.assert_allclose(model.log_likelihood(THETA), expected, rtol=1e-9)
    score = model.score(THETA)
    for name in ("mean", "sd"):
        np.testing.assert_allclose(score[name], numerical(model, THETA, name), rtol=1e-6, atol=1e-6)
    theta = {name: np.repeat(value[1], 20_000) for name, value in THETA.items()}
    drawn = model.draw_statistic(np.random.default_rng(), theta)
    law = stats.multinomial.pmf(every, 12, p[1] / p[1].sum())
    for j in range(4):
        seen = np.bincount(drawn[:, j].astype(int), minlength=13)
        marginal = np.bincount(every[:, j], law * np.exp(noise - noise.max()), minlength=13)
        assert fits(seen, marginal)
    assert not fits(np.bincount(drawn[:, 0].astype(int), minlength=13), np.bincount(every[:, 0], law, minlength=13))


def test_cells_with_their_own_weights_get_their_own_noise():
    schema = nw.Schema(COLUMNS, n=9, neighbours="change-one")
    plan = nw.plan(nw.Histogram("g"), schema, guarantee=nw.PureDP(1), weights=[1, 2, 3])
    release = nw.Release.of(plan, [3, 3, 4], dataset="made", ledger_head=None, simulated=True)
    assert len(set(release.law.scale)) == 3
    model = TableModel.of((release,), Categorical(p=stats.dirichlet([1, 1, 1])), n=9)
    every, p = tables(9, 3), np.array([[0.2, 0.3, 0.5]])
    noise = sum(release.law.log_pmf(release.value[j] - every[:, j], j) for j in range(3))
    expected = logsumexp(stats.multinomial.logpmf(every, 9, p[0]) + noise)
    assert model.log_likelihood({"p": p})[0] == pytest.approx(expected, rel=1e-10)
    assert model.score({"p": p}) == {}


def test_the_dirichlet_posterior_against_every_table():
    alpha, y = (0.5, 2.0, 1.0), np.array([7, 2, 1])
    release = released(nw.Histogram("g"), y, n=10)
    for population, name in (
        (Categorical(p=stats.dirichlet(alpha)), "p"),
        (Joint(g=Categorical(p=stats.dirichlet(alpha)), x=NORMAL), "g.p"),
    ):
        model = TableModel.of((release,), population, n=10)
        assert model.dirichlet_prior == DirichletPrior(name, alpha)
    posterior = model.dirichlet_posterior(model.dirichlet_prior)
    every = tables(10, 3)
    terms = stats.dirichlet_multinomial.logpmf(every, np.array(alpha), 10) + release.law.log_pmf(y - every).sum(axis=1)
    weights = np.exp(terms - logsumexp(terms))
    assert posterior.log_evidence == pytest.approx(logsumexp(terms), rel=1e-10)
    np.testing.assert_allclose(posterior.mean, weights @ (every + alpha) / (10 + sum(alpha)), rtol=1e-9)
    p, s = posterior.draw(np.random.default_rng(), 20_000)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    assert np.all(s.sum(axis=1) == 10)
    edges = np.linspace(0, 1, 21)
    for j in range(3):
        own = every[:, j] + alpha[j]
        cells = np.diff(stats.beta.cdf(edges, own[:, None], (10 + sum(alpha) - own)[:, None]), axis=1)
        assert fits(np.histogram(p[:, j], edges)[0], weights @ cells)
    assert not fits(np.histogram(p[:, 0], edges)[0], np.diff(stats.beta.cdf(edges, alpha[0], sum(alpha[1:]))))


def test_a_clique_of_two_columns_is_one_table():
    population = Joint(s=Bernoulli(p=stats.beta(1, 1)), g=Categorical(p=[0.2, 0.3, 0.5]))
    y = np.array([1, 0, 2, 1, 1, 1])
    release = released(nw.Marginals(["s", "g"]), y, n=5)
    model = TableModel.of((release,), population, n=5)
    every = tables(5, 6)
    noise = release.law.log_pmf(y - every).sum(axis=1)
    cells = np.outer([0.6, 0.4], [0.2, 0.3, 0.5]).ravel()
    expected = logsumexp(stats.multinomial.logpmf(every, 5, cells) + noise)
    assert model.log_likelihood({"s.p": np.array([0.4])})[0] == pytest.approx(expected, rel=1e-10)
    assert model.dirichlet_prior is None


def test_a_table_says_what_it_can_afford():
    schema = nw.Schema({"g": nw.Levels([f"l{k}" for k in range(40)])}, n=10**6, neighbours="change-one")

    def table(epsilon):
        plan = nw.plan(nw.Histogram("g"), schema, guarantee=nw.PureDP(epsilon))
        return nw.Release.of(plan, [25_000] * 40, dataset="made", ledger_head=None, simulated=True)

    assert TableModel.is_affordable(table(1), n=10**6)
    assert not TableModel.is_affordable(table("1/1000"), n=10**6)


def test_randomized_response_by_every_true_assignment():
    """Three people, three cells: all 27 truths and all orders of the answers."""
    release = released(nw.Records(X, cells=[-1, 1]), [2, 0, 1], n=3, guarantee=nw.PureDP(1))
    model = CellsModel.of((release,), NORMAL, n=3)
    assert isinstance(model, Likelihood)
    p = np.stack([inside(-np.inf, -1), inside(-1, 1), inside(1, np.inf)], axis=1)
    rows = np.array(release.law.rows(), dtype=float)
    orders = {(0, 0, 2), (0, 2, 0), (2, 0, 0)}
    for k in range(3):
        chances, truths = [], []
        for truth in product(range(3), repeat=3):
            own = np.prod(p[k][list(truth)])
            chances.append(own * sum(np.prod([rows[t, a] for t, a in zip(truth, o, strict=True)]) for o in orders))
            truths.append(np.bincount(truth, minlength=3))
        assert model.log_likelihood(THETA)[k] == pytest.approx(np.log(sum(chances)), rel=1e-9)
    for name in ("mean", "sd"):
        np.testing.assert_allclose(model.score(THETA)[name], numerical(model, THETA, name), rtol=1e-6, atol=1e-8)
    theta = {name: np.repeat(value[2], 20_000) for name, value in THETA.items()}
    drawn = model.draw_statistic(np.random.default_rng(), theta)
    assert np.all(drawn.sum(axis=1) == 3)
    code = np.array(truths) @ [16, 4, 1]
    expected = np.bincount(code, chances, minlength=64)
    seen = np.bincount((drawn @ [16, 4, 1]).astype(int), minlength=64)
    assert fits(seen, expected)
    blind = np.bincount(code, [np.prod(p[2][list(t)]) for t in product(range(3), repeat=3)], minlength=64)
    assert not fits(seen, blind)


def test_what_has_no_exact_law_is_refused_in_a_sentence():
    count, other = released(nw.Count(X.between(-1, 1)), [3]), released(nw.Count(X.between(0, 1)), [3])
    with pytest.raises(Unsupported, match="different counts"):
        CountModel.of((count, other), NORMAL, n=12)
    with pytest.raises(Unsupported, match="independent"):
        CountModel.of((count, replace(count, dataset="another")), NORMAL, n=12)
    with pytest.raises(Unsupported, match="Count only"):
        CountModel.of((released(nw.Histogram("g"), [3, 4, 5]),), NORMAL, n=12)
    finite = released(nw.Count(S.equals("yes")), [4], guarantee=nw.PureDP("1/2"), mechanism=estimator(12))
    with pytest.raises(Unsupported, match="made for counts up to 12"):
        CountModel.of((finite,), Bernoulli(p=0.5), n=11)
    with pytest.raises(Unsupported, match="several cliques"):
        TableModel.of((released(nw.Marginals(["s"], ["g"]), [3, 4, 5, 4, 3]),), NORMAL, n=12)
    with pytest.raises(Unsupported, match="randomized response"):
        CellsModel.of((count,), NORMAL, n=12)
    answers = released(nw.Records(S), [6, 6])
    with pytest.raises(Unsupported, match="disjoint parts"):
        CellsModel.of((answers, answers), Bernoulli(p=0.5), n=12)
    with pytest.raises(Unsupported, match="levels"):
        CellsModel.of((answers,), NORMAL, n=12)


def test_parameters_that_leave_no_record_inside_the_bounds_have_no_table_and_spoil_no_other() -> None:
    schema = nw.Schema({"x": nw.Bounded(0.02, 2.3)}, n=6, neighbours="change-one", outside="refuse")
    plan = nw.plan(nw.Histogram("x", edges=[0.53, 0.88]), schema, guarantee=nw.PureDP(3))
    release = nw.Release.of(plan, [4, 2, 1], dataset="made", ledger_head=None, simulated=True)
    population = nw.Population(stats.weibull_min, c=2.0, scale=stats.gamma(2, scale=0.5))
    model = TableModel.of((release,), population, n=6)
    with np.errstate(over="ignore"):
        alone = model.log_likelihood({"scale": np.array([1e-300])})
        found = model.log_likelihood({"scale": np.array([0.5, 1e-300, 0.8])})
    assert np.isnan(alone).all()
    assert np.isnan(found[1])
    assert found[[0, 2]] == pytest.approx(model.log_likelihood({"scale": np.array([0.5, 0.8])}), abs=1e-12)
    # Records far from where their law has its mass are all at the bound next to it, however far.
    expected = float(np.sum(release.law.log_pmf(np.array([4 - 6, 2, 1]))))
    with np.errstate(over="ignore"):
        near_the_bound = model.log_likelihood({"scale": np.array([1e-3, 1e-8, 1e-12, 1e-20, 1e-100])})
    assert near_the_bound == pytest.approx(np.full(5, expected), abs=1e-9)
