"""Naive learning: the projection, what the tables tell of parameters, and the ridge fit, each against other solvers."""

import cvxpy
import numpy as np
import pytest
from graphs import cells_of, chain, dirichlet_potentials, enumerated, every_record
from scipy import sparse

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.graphical.engine import JunctionEngine
from noisewise.graphical.problem import GAUSSIAN, LAPLACE, Holder, Problem
from noisewise.graphical.structure import Regions
from noisewise.published.graphical import naive

SMALL = Regions((2, 3, 2), ((0, 1), (1, 2)))


def parts(tables):
    return tuple(tables.part(r) for r in range(len(tables.regions)))


def plain_holder(tables, observed, *, n, sd, family=LAPLACE):
    """Every cell of every region published with noise of this standard deviation."""
    every = sparse.csr_array(sparse.eye_array(tables.cells))
    return Holder(float(n), every, observed, np.full(tables.cells, sd**2), family, parts(tables))


def plain_problem(tables, *holders):
    return Problem(JunctionEngine(tables), np.arange(tables.cells), holders)


def noisy_problem(rng, tables, *, n, sd):
    truth = dirichlet_potentials(rng, tables)
    counts = JunctionEngine(tables).sample_tables(rng, truth, n)
    observed = counts + rng.laplace(scale=sd / np.sqrt(2), size=tables.cells)
    return plain_problem(tables, plain_holder(tables, observed, n=n, sd=sd)), truth


def divergence(problem, truth, theta):
    """KL(truth || fit)."""
    at_truth, mu = problem.engine.marginals(truth)
    at_fit, _ = problem.engine.marginals(problem.potentials(theta))
    return (truth - problem.potentials(theta)) @ mu - at_truth + at_fit


def nearest_on_simplex(shares, total):
    point = cvxpy.Variable(len(shares), nonneg=True)
    cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(point - shares)), [cvxpy.sum(point) == total]).solve(
        solver=cvxpy.CLARABEL, tol_gap_abs=1e-14, tol_gap_rel=1e-14, tol_feas=1e-13
    )
    return point.value


@pytest.mark.parametrize(("size", "total"), [(1, 1.0), (6, 1.0), (40, 1.0), (40, 3.0)])
def test_the_projection_is_the_nearest_table_of_another_solver(rng, size, total):
    shares = rng.normal(total / size, 2 * total / size, size)
    found = naive.onto_simplex(shares, total=total)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total)
    np.testing.assert_allclose(found, nearest_on_simplex(shares, total), atol=1e-5)


def test_a_table_on_the_simplex_is_left_alone(rng):
    shares = rng.dirichlet(np.ones(12))
    np.testing.assert_allclose(naive.onto_simplex(shares), shares, atol=1e-15)


def test_the_fit_is_the_ridge_maximum_of_another_solver(rng):
    """By log-sum-exp over all twelve records, on parameters without gauge; the two noisy tables disagree on x_1."""
    problem, _ = noisy_problem(rng, SMALL, n=100, sd=8.0)
    (holder,) = problem.holders
    shares = np.concatenate([nearest_on_simplex(holder.observed[part] / 100, 1.0) for part in holder.tables])
    values, vectors = np.linalg.eigh(enumerated(SMALL, np.zeros(SMALL.cells)).Sigma)
    theta, ridge = cvxpy.Variable(SMALL.cells), 0.01
    marks = cells_of(SMALL, every_record(SMALL))
    objective = theta @ shares - cvxpy.log_sum_exp(marks @ theta) - ridge * cvxpy.sum_squares(theta)
    cvxpy.Problem(cvxpy.Maximize(objective), [vectors[:, values < 1e-9].T @ theta == 0]).solve(solver=cvxpy.CLARABEL)
    np.testing.assert_allclose(naive.fit(problem, ridge=ridge).theta, theta.value, atol=5e-3)


def test_the_fit_has_no_part_that_changes_no_probability(rng):
    problem, _ = noisy_problem(rng, SMALL, n=100, sd=8.0)
    values, vectors = np.linalg.eigh(enumerated(SMALL, np.zeros(SMALL.cells)).Sigma)
    np.testing.assert_allclose(vectors[:, values < 1e-9].T @ naive.fit(problem).theta, 0, atol=1e-7)


def test_true_tables_and_hardly_any_ridge_give_back_the_truth(rng):
    truth = rng.normal(size=SMALL.cells)
    mu = enumerated(SMALL, truth).mu
    problem = plain_problem(SMALL, plain_holder(SMALL, 500 * mu, n=500, sd=1.0))
    theta = naive.fit(problem, ridge=1e-9).theta
    np.testing.assert_allclose(enumerated(SMALL, theta).mu, mu, atol=1e-6)


@pytest.mark.parametrize("is_pooled", [False, True])
def test_shared_parameters_are_read_from_tables_of_each_clique_and_from_pooled_ones(rng, is_pooled):
    tables = chain(4, 3)
    spread = np.tile(np.arange(9), 3)
    truth = rng.normal(size=9)
    mu = enumerated(tables, truth[spread]).mu
    pooled = sparse.csr_array(sparse.hstack([sparse.eye_array(9)] * 3) / 3)  # a person's three pairs weigh one
    sums = pooled if is_pooled else sparse.csr_array(sparse.eye_array(27))
    boundaries = () if is_pooled else parts(tables)
    entries = sums.shape[0]
    holder = Holder(800.0, sums, 800 * (sums @ mu), np.full(entries, 4.0), GAUSSIAN, boundaries)
    problem = Problem(JunctionEngine(tables), spread, (holder,))
    read = naive.statistics(problem)
    np.testing.assert_allclose(read.shares, mu.reshape(3, 9).sum(axis=0), atol=1e-12)
    # A pooled entry is a third of the statistic; three separate entries add up to it.
    np.testing.assert_allclose(read.noise, (9 if is_pooled else 3) * 4.0 / 800**2)
    theta = naive.fit(problem, ridge=1e-9).theta
    np.testing.assert_allclose(enumerated(tables, theta[spread]).mu, mu, atol=1e-6)


def test_a_published_table_over_more_variables_tells_of_the_cliques_within(rng):
    """The model has two pairs, the release one table of all three variables, which is no factor."""
    tables = Regions((2, 3, 2), ((0, 1), (2, 1), (0, 1, 2)))
    spread = np.where(np.arange(tables.cells) < 12, np.arange(tables.cells), -1)
    truth = rng.normal(size=12)
    mu = enumerated(tables, np.append(truth, np.zeros(12))).mu
    sums = sparse.csr_array(sparse.eye_array(tables.cells))[12:]
    holder = Holder(300.0, sums, 300 * mu[12:], np.full(12, 9.0), LAPLACE, (slice(0, 12),))
    read = naive.statistics(Problem(JunctionEngine(tables), spread, (holder,)))
    np.testing.assert_allclose(read.shares, mu[:12], atol=1e-12)
    np.testing.assert_allclose(read.noise, np.repeat([2.0, 2.0], 6) * 9 / 300**2)


def test_a_table_that_leaves_cells_out_is_not_scaled_up():
    tables = Regions((3,), ((0,),))
    sums = sparse.csr_array(sparse.eye_array(3))[:2]
    holder = Holder(10.0, sums, np.array([2.0, -1.0]), np.ones(2), LAPLACE, (slice(0, 2),))
    problem = Problem(JunctionEngine(tables), np.array([0, 1, -1]), (holder,))
    np.testing.assert_allclose(naive.statistics(problem).shares, [0.2, 0.0])


def test_what_no_table_tells_of_is_refused_or_held_at_zero(rng):
    sums = sparse.csr_array(sparse.eye_array(SMALL.cells))[:6]
    holder = Holder(100.0, sums, rng.uniform(5, 30, 6), np.full(6, 4.0), LAPLACE, (slice(0, 6),))
    problem = Problem(JunctionEngine(SMALL), np.arange(12), (holder,))
    with pytest.raises(Unsupported, match="6 of the model's 12 parameters"):
        naive.fit(problem)
    held = naive.fit(problem, hold_untold=True)
    np.testing.assert_array_equal(held.theta[6:], 0)
    assert np.abs(held.theta[:6]).max() > 1e-3
    assert any("left at 0" in note for note in held.notes)


def test_two_data_sets_are_averaged_by_their_inverse_variances(rng):
    tables = Regions((4,), ((0,),))
    shares = rng.dirichlet(np.ones(4), 2)
    sizes, spreads = (50.0, 400.0), (3.0, 20.0)
    holders = [plain_holder(tables, n * s, n=n, sd=sd) for n, s, sd in zip(sizes, shares, spreads, strict=True)]
    weights = np.array([1 / ((sd / n) ** 2 + 1 / (4 * n)) for n, sd in zip(sizes, spreads, strict=True)])
    read = naive.statistics(plain_problem(tables, *holders))
    np.testing.assert_allclose(read.shares, weights @ shares / weights.sum())
    noise = weights**2 @ [(sd / n) ** 2 for n, sd in zip(sizes, spreads, strict=True)] / weights.sum() ** 2
    np.testing.assert_allclose(read.noise, noise)


def test_a_data_set_drowned_in_noise_changes_nothing(rng):
    problem, _ = noisy_problem(rng, SMALL, n=200, sd=3.0)
    drowned = plain_holder(SMALL, rng.normal(scale=1e6, size=12), n=200, sd=1e6)
    both = plain_problem(SMALL, *problem.holders, drowned)
    np.testing.assert_allclose(naive.fit(both, ridge=0.01).theta, naive.fit(problem, ridge=0.01).theta, atol=1e-6)


def test_the_rule_asks_for_more_ridge_with_more_noise_and_fewer_records(rng):
    def ridge(n, sd):
        problem = plain_problem(SMALL, plain_holder(SMALL, np.full(12, n / 6), n=n, sd=sd))
        return naive.ridge_rule(problem, naive.statistics(problem))

    assert ridge(1000, 100.0) > ridge(1000, 10.0) > ridge(1000, 0.001)
    assert ridge(1000, 10.0) > ridge(10_000, 10.0)
    assert ridge(1000, 1e-9) == pytest.approx(1 / 2000)  # a standard normal prior
    assert ridge(1000, 1e6) == pytest.approx(1e6 / 2000, rel=1e-3)  # one standard deviation of the noise


def test_the_rule_does_far_better_than_hardly_any_ridge(rng):
    problem, truth = noisy_problem(rng, chain(6, 4), n=1000, sd=28.0)
    by_rule = divergence(problem, truth, naive.fit(problem).theta)
    assert by_rule < divergence(problem, truth, naive.fit(problem, ridge=1e-6).theta)


@pytest.mark.parametrize(
    "ridge",
    [0, -1.0, float("nan"), float("inf"), True, "0.1", [0.1], np.array([0.1]), 10**5000],
    ids=["zero", "negative", "nan", "infinite", "bool", "text", "list", "array", "huge"],
)
def test_a_ridge_is_a_finite_number_above_zero(rng, ridge):
    problem, _ = noisy_problem(rng, SMALL, n=100, sd=8.0)
    with pytest.raises(InvalidArgument, match=r"ridge = .* above 0") as refused:
        naive.fit(problem, ridge=ridge)
    assert refused.value.argument == "ridge"
