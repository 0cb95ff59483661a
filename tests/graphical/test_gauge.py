"""The gauge: what is projected away moves nothing, what is left moves the distribution; both by enumeration."""

import numpy as np
import pytest
from graphs import cells_of, chain, dirichlet_potentials, enumerated, erdos_renyi, every_record, third_order

from noisewise.graphical import gauge
from noisewise.graphical.engine import JunctionEngine
from noisewise.graphical.gauge import gauge_free
from noisewise.graphical.problem import Problem
from noisewise.graphical.structure import Regions

GRAPHS = {
    "chain": chain(4, 3),
    "third order": third_order(5, 2),
    "triples that share a pair": Regions((2, 3, 2, 2), ((0, 1, 2), (3, 2, 1), (1, 2))),
    "out of order": Regions((2, 3, 4), ((2, 0), (1, 0), (2, 1))),
    "a table and its margin": Regions((3, 2), ((0, 1), (1,), (0,))),
    "a table given twice": Regions((3, 2), ((0, 1), (1, 0))),
    "two islands": Regions((2, 3, 2), ((0, 1), (2,))),
    "one state": Regions((1, 3, 2), ((0, 1), (1, 2), (0,))),
    "a variable in no table": Regions((2, 3, 2), ((0, 1),)),
}
# Tables, and of each cell its parameter; -1 where a table is asked for but is no factor.
TIED = {
    "tied chain": (chain(5, 3), np.tile(np.arange(9), 4)),
    "tied chain with its start": (
        Regions((3,) * 4, ((0, 1), (1, 2), (2, 3), (0,))),
        np.r_[np.tile(np.arange(9), 3), 9:12],
    ),
    "a table that is no factor": (Regions((2, 3, 2), ((0, 1), (0, 2), (1, 2))), np.r_[0:6, [-1] * 4, 6:12]),
    "cells tied within a table": (Regions((3, 3), ((0, 1),)), np.array([0, 1, 1, 1, 0, 1, 1, 1, 0])),
    "cells without a parameter": (Regions((2, 2), ((0, 1), (1,))), np.array([-1, 0, 1, 2, 3, -1])),
    "parameters in another order": (Regions((2, 3), ((0, 1), (0,))), np.array([7, 3, 1, 0, 2, 4, 6, 5])),
}


def problem_of(tables, spread=None):
    return Problem(JunctionEngine(tables), np.arange(tables.cells) if spread is None else spread, ())


CASES = [pytest.param(problem_of(tables), id=name) for name, tables in GRAPHS.items()]
CASES += [pytest.param(problem_of(*case), id=name) for name, case in TIED.items()]


def statistics_of(problem):
    """t(x) of each record, summed parameter by parameter."""
    t = cells_of(problem.engine.tables, every_record(problem.engine.tables))
    return np.stack([t[:, problem.spread == a].sum(axis=1) for a in range(problem.parameters)], axis=1)


def projector_by_enumeration(problem):
    """Onto the span of the differences t(x) - mean t: the complement of the null space of Sigma at equal weights."""
    t = statistics_of(problem)
    _, sizes, directions = np.linalg.svd(t - t.mean(axis=0))
    kept = directions[: np.sum(sizes > 1e-9)]
    return kept.T @ kept


@pytest.mark.parametrize("problem", CASES)
def test_the_projection_removes_exactly_the_null_space_of_sigma(problem):
    free = gauge_free(problem)
    assert free(np.eye(problem.parameters)) == pytest.approx(projector_by_enumeration(problem), abs=1e-12)
    assert free.dimension == np.linalg.matrix_rank(projector_by_enumeration(problem), tol=0.5)


@pytest.mark.parametrize("problem", CASES)
def test_the_basis_spans_what_is_left(problem):
    basis = gauge_free(problem).basis
    assert basis.T @ basis == pytest.approx(np.eye(basis.shape[1]), abs=1e-12)
    assert basis @ basis.T == pytest.approx(projector_by_enumeration(problem), abs=1e-12)


@pytest.mark.parametrize("problem", CASES)
def test_the_distribution_is_the_same_before_and_after(problem, rng):
    theta = 2 * rng.standard_normal(problem.parameters)
    free = gauge_free(problem)(theta)
    before, after = (enumerated(problem.engine.tables, problem.potentials(one)) for one in (theta, free))
    assert after.probabilities == pytest.approx(before.probabilities, rel=1e-11)
    assert np.linalg.norm(free) <= np.linalg.norm(theta) * (1 + 1e-12)


def test_rows_are_projected_one_by_one(rng):
    problem = problem_of(GRAPHS["third order"])
    free, rows = gauge_free(problem), rng.standard_normal((3, problem.parameters))
    assert free(rows) == pytest.approx(np.stack([free(row) for row in rows]), abs=1e-14)
    assert free(rows[0]).shape == rows[0].shape


def test_models_too_large_for_a_matrix_are_projected_by_means(rng, monkeypatch):
    problem = problem_of(GRAPHS["triples that share a pair"])
    theta = rng.standard_normal((2, problem.parameters))
    by_matrix = gauge_free(problem)(theta)
    monkeypatch.setattr(gauge, "LARGE", 0)
    assert gauge_free(problem)(theta) == pytest.approx(by_matrix, abs=1e-13)


def test_sigma_of_a_random_graph_has_the_gauge_as_its_null_space(rng):
    problem = problem_of(erdos_renyi(rng, 6, 2, 0.4))
    free = gauge_free(problem)
    sigma = enumerated(problem.engine.tables, dirichlet_potentials(rng, problem.engine.tables)).Sigma
    assert sigma @ (np.eye(problem.parameters) - free(np.eye(problem.parameters))) == pytest.approx(0.0, abs=1e-12)
    assert np.all(np.linalg.eigvalsh(free.basis.T @ sigma @ free.basis) > 0)


def test_an_answer_with_a_gauge_direction_left_in_would_be_noticed():
    problem = problem_of(GRAPHS["chain"])
    shift = np.zeros(problem.parameters)
    shift[:9], shift[9:18] = 1, -1  # a constant moved from one table to the next
    assert np.abs(projector_by_enumeration(problem) @ shift).max() < 1e-12
    assert np.abs(gauge_free(problem)(shift)).max() < 1e-12
