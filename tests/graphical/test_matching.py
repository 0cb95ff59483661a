import numpy as np
from graph_problems import problem
from graphs import chain, dirichlet_potentials, enumerated, erdos_renyi

from noisewise.graphical.matching import match


def test_the_model_that_matches_a_models_tables_is_that_model(rng):
    tables = erdos_renyi(rng, 5, 3, p=0.4)
    truth = dirichlet_potentials(rng, tables)
    wanted = enumerated(tables, truth)
    asked = problem(tables)
    found = enumerated(tables, match(asked, asked.gather(wanted.mu)))
    assert np.abs(found.mu - wanted.mu).max() < 1e-7
    assert np.abs(np.log(found.probabilities) - np.log(wanted.probabilities)).max() < 1e-2


def test_tied_parameters_match_the_sums_of_their_cells(rng):
    tables = chain(4, 2)
    asked = problem(tables, spread=[0, 1, 2, 3] * 3)
    truth = rng.normal(size=4)
    wanted = asked.gather(enumerated(tables, asked.potentials(truth)).mu)
    found = match(asked, wanted)
    assert np.abs(asked.gather(enumerated(tables, asked.potentials(found)).mu) - wanted).max() < 1e-7


def test_a_ridge_holds_back_tables_that_no_distribution_has(rng):
    tables, ridge = chain(3, 3), 1e-3
    target = np.concatenate([rng.dirichlet(np.ones(9)) for _ in range(2)])  # the two tables disagree on the middle
    found = match(problem(tables), target, ridge=ridge)
    assert np.abs(target - enumerated(tables, found).mu - 2 * ridge * found).max() < 1e-7


def test_matching_the_mean_table_minimises_the_expected_divergence(rng):
    tables = chain(3, 2)
    asked = problem(tables)
    draws = [enumerated(tables, rng.normal(size=tables.cells)) for _ in range(20)]
    best = match(asked, np.mean([draw.mu for draw in draws], axis=0))

    def expected(theta):
        log_q = np.log(enumerated(tables, theta).probabilities)
        return np.mean([np.sum(draw.probabilities * (np.log(draw.probabilities) - log_q)) for draw in draws])

    for _ in range(20):
        assert expected(best) <= expected(best + 0.1 * rng.normal(size=tables.cells)) + 1e-12
