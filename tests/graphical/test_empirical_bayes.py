import numpy as np
import pytest
from graph_problems import holder, problem, published
from graphs import chain, dirichlet_potentials, enumerated
from scipy import optimize, sparse, stats

from noisewise.errors import Unsupported
from noisewise.graphical import empirical_bayes
from noisewise.graphical.problem import GAUSSIAN, LAPLACE, Holder
from noisewise.graphical.structure import Regions

TIED = [0, 1, 2, 3, 0, 1, 2, 3, -1, -1, -1, -1]


def plain(rng):
    tables = chain(3, 2)
    return problem(tables, published(rng, tables, rng.normal(size=tables.cells), n=5000, variance=100.0))


def tied(rng):
    """Tied tables, a published table that is no factor, entries that count several cells, two holders."""
    tables = Regions((2, 2, 2), ((0, 1), (1, 2), (0, 2)))
    truth = np.concatenate([np.tile(rng.normal(size=4), 2), np.zeros(4)])
    adding = np.hstack([np.eye(4), np.eye(4), np.zeros((4, 4))])
    one = published(rng, tables, truth, n=2000, variance=100.0, family=GAUSSIAN)
    two = published(rng, tables, truth, n=5000, variance=400.0, family=LAPLACE, sums=adding)
    return problem(tables, one, two, spread=TIED)


PROBLEMS = {"plain": plain, "tied": tied}


def weighed(asked, theta):
    """For each holder, by enumeration: residual, covariance of the entries, and that of parameters with entries."""
    model = enumerated(asked.engine.tables, asked.potentials(theta))
    onto = np.array([[float(s == j) for s in asked.spread] for j in range(asked.parameters)])
    for held in asked.holders:
        w = held.sums.toarray()
        total = held.n * w @ model.Sigma @ w.T + np.diag(held.variance)
        yield held.observed - held.n * w @ model.mu, total, held.n * onto @ model.Sigma @ w.T


@pytest.mark.parametrize("name", PROBLEMS)
def test_gradient_and_information_are_the_formulas(rng, name):
    asked = PROBLEMS[name](rng)
    theta = rng.normal(size=asked.parameters)
    here = empirical_bayes.look(asked, theta)
    gradient = sum(cross @ np.linalg.solve(total, r) for r, total, cross in weighed(asked, theta))
    information = sum(cross @ np.linalg.solve(total, cross.T) for _, total, cross in weighed(asked, theta))
    log_density = sum(stats.multivariate_normal(cov=total).logpdf(r) for r, total, _ in weighed(asked, theta))
    assert here.gradient == pytest.approx(gradient, rel=1e-6, abs=1e-8 * np.abs(gradient).max())
    assert here.information == pytest.approx(information, rel=1e-6, abs=1e-8 * np.abs(information).max())
    assert here.log_density == pytest.approx(log_density, rel=1e-9)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_mode_is_that_of_another_optimiser(rng, name):
    asked = PROBLEMS[name](rng)
    found = empirical_bayes.fit(asked)
    assert found.notes == ()
    totals = [total for _, total, _ in weighed(asked, found.theta)]

    def loss(theta):
        squares = sum(
            r @ np.linalg.solve(total, r) for (r, _, _), total in zip(weighed(asked, theta), totals, strict=True)
        )
        return 0.5 * squares + 0.5 * theta @ theta / found.tau**2

    other = optimize.minimize(loss, found.theta + 0.3 * rng.normal(size=asked.parameters), method="BFGS")
    assert loss(found.theta) <= other.fun + 1e-4
    assert found.theta == pytest.approx(other.x, abs=0.02)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_priors_width_is_the_fixed_point(rng, name):
    found = empirical_bayes.fit(PROBLEMS[name](rng))
    share = np.trace(found.information @ np.linalg.inv(found.precision))
    assert found.effective == pytest.approx(share, rel=1e-6)
    assert found.tau**2 * share == pytest.approx(found.theta @ found.theta, rel=0.02)


def test_without_noise_it_is_maximum_likelihood_less_the_pull_of_the_prior(rng):
    tables, n = chain(3, 3), 100_000
    asked = problem(tables, published(rng, tables, rng.normal(size=tables.cells), n=n, variance=1e-6))
    found = empirical_bayes.fit(asked)
    mu = enumerated(tables, found.theta).mu
    assert np.abs(asked.holders[0].observed - n * mu - found.theta / found.tau**2).max() < 0.5


def test_two_holders_tables_are_worth_as_much_as_their_sum(rng):
    tables = chain(3, 2)
    truth = dirichlet_potentials(rng, tables)
    one, two = (published(rng, tables, truth, n=800, variance=300.0, family=GAUSSIAN) for _ in range(2))
    both = holder(one.observed + two.observed, n=1600.0, variance=600.0, family=GAUSSIAN)
    apart, pooled = empirical_bayes.fit(problem(tables, one, two)), empirical_bayes.fit(problem(tables, both))
    assert apart.theta == pytest.approx(pooled.theta, abs=1e-3)
    assert apart.tau == pytest.approx(pooled.tau, rel=1e-3)


def test_tables_that_are_all_noise_leave_the_parameters_at_zero_and_say_so(rng):
    tables = chain(3, 2)
    made = published(rng, tables, np.zeros(tables.cells), n=100, variance=1e12)
    dull = holder(np.full(tables.cells, 25.0), n=100.0, variance=made.variance[0])
    found = empirical_bayes.fit(problem(tables, dull))
    assert found.tau <= 1.01 * empirical_bayes.SMALLEST_TAU
    assert np.abs(found.theta).max() < 1e-3
    assert "too little" in found.notes[0]


def test_the_log_evidence_is_near_the_integral(rng):
    tables = Regions((2,), ((0,),))
    asked = problem(tables, published(rng, tables, np.array([1.0, -0.5]), n=500, variance=200.0, family=GAUSSIAN))
    found = empirical_bayes.fit(asked)
    ((_, total, _),) = weighed(asked, found.theta)
    axis = np.linspace(-8, 8, 641) * found.tau
    theta = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    mu = 1 / (1 + np.exp(theta[:, ::-1] - theta))
    log_f = stats.multivariate_normal(cov=total).logpdf(asked.holders[0].observed - 500 * mu)
    log_f = log_f + stats.norm.logpdf(theta, 0, found.tau).sum(axis=1)
    integral = np.log(np.sum(np.exp(log_f - log_f.max()))) + log_f.max() + 2 * np.log(axis[1] - axis[0])
    assert found.log_evidence == pytest.approx(integral, abs=0.3)


def test_the_log_evidence_prefers_the_structure_that_made_the_tables(rng):
    tables = Regions((3, 3), ((0, 1), (0,), (1,)))
    truth = np.concatenate([2.0 * np.eye(3).ravel(), np.zeros(6)])
    made = published(rng, tables, truth, n=2000, variance=100.0, family=GAUSSIAN)
    joined = empirical_bayes.fit(problem(tables, made, spread=list(range(9)) + [-1] * 6))
    apart = empirical_bayes.fit(problem(tables, made, spread=[-1] * 9 + list(range(6))))
    assert joined.log_evidence > apart.log_evidence + 10


def test_tables_too_large_to_be_factored_are_refused_before_any_work():
    tables = chain(3, 50)
    sums = sparse.eye_array(tables.cells, format="csr")
    held = Holder(1000.0, sums, np.zeros(tables.cells), np.ones(tables.cells), LAPLACE)
    with pytest.raises(Unsupported, match="5000 cells here; the limit is 4000"):
        empirical_bayes.fit(problem(tables, held))
