"""Loopy propagation: exact where there is no loop, consistent with itself where there is, and near on mild loops."""

import itertools

import numpy as np
import pytest
from graphs import chain, dirichlet_potentials, enumerated

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.graphical.engine import JunctionEngine
from noisewise.graphical.loopy import LoopyEngine, engine_for
from noisewise.graphical.structure import Regions

TREES = {
    "chain": chain(6, 3),
    "star with margins": Regions((2, 3, 2, 4), ((0, 1), (0, 2), (3, 0), (0,), (2,))),
    "triples that share a variable": Regions((2, 3, 2, 2, 2), ((0, 1, 2), (4, 3, 2))),
    "islands": Regions((2, 3, 2, 2), ((0, 1), (3, 2))),
    "one state": Regions((1, 3, 2), ((0, 1), (1, 2))),
    "a variable in no table": Regions((2, 3, 2), ((1, 0),)),
    "no table at all": Regions((2, 3), ()),
}
GRID = Regions((3,) * 6, ((0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (5, 2)))
LOOPS = {
    "grid": GRID,
    "ring with margins": Regions((2, 3, 2), ((0, 1), (1, 2), (2, 0), (1,))),
    "triples that share a pair": Regions((2, 3, 2, 2), ((0, 1, 2), (3, 2, 1))),
}
COMPLETE = Regions((2,) * 4, tuple(itertools.combinations(range(4), 2)))
# Four coins, each pair of which strongly wants to differ: no assignment pleases all.
FRUSTRATED = np.tile([-5.0, 5.0, 5.0, -5.0], 6) + np.arange(24) / 100


def each(graphs):
    return pytest.mark.parametrize("tables", [pytest.param(tables, id=name) for name, tables in graphs.items()])


@each(TREES)
def test_without_loops_it_is_exact(tables, rng):
    potentials = dirichlet_potentials(rng, tables)
    loopy, truth = LoopyEngine(tables), enumerated(tables, potentials)
    found = loopy.beliefs(potentials)
    assert found.converged
    assert found.total == pytest.approx(truth.A, abs=1e-8)
    assert found.mu == pytest.approx(truth.mu, abs=1e-8)
    assert loopy.covariance(potentials) == pytest.approx(truth.Sigma, abs=1e-7)


def test_a_long_chain_is_exact_after_two_passes(rng):
    tables = chain(10, 10)
    potentials = dirichlet_potentials(rng, tables)
    found, exact = LoopyEngine(tables).beliefs(potentials), JunctionEngine(tables).marginals(potentials)
    assert found.passes == 2
    assert found.total == pytest.approx(exact[0], rel=1e-12)
    assert found.mu == pytest.approx(exact[1], abs=1e-12)


@each(LOOPS)
def test_with_loops_mu_is_still_the_gradient_of_a_and_sigma_that_of_mu(tables, rng):
    """The Bethe approximation is stationary at a fixed point; damping and rounding must not spoil it."""
    loopy, potentials = LoopyEngine(tables, tolerance=1e-13), 0.5 * rng.uniform(-1, 1, tables.cells)
    step = 1e-4 * np.eye(tables.cells)
    up, down = loopy.marginals_of_rows(potentials + step), loopy.marginals_of_rows(potentials - step)
    assert loopy.marginals(potentials)[1] == pytest.approx((up[0] - down[0]) / 2e-4, abs=1e-7)
    assert loopy.covariance(potentials) == pytest.approx((up[1] - down[1]) / 2e-4, abs=1e-7)


@each(LOOPS)
def test_a_product_with_sigma_is_that_of_its_matrix(tables, rng):
    loopy, rows = LoopyEngine(tables), 0.5 * rng.uniform(-1, 1, (2, tables.cells))
    directions = rng.standard_normal(rows.shape)
    expected = [loopy.covariance(row) @ direction for row, direction in zip(rows, directions, strict=True)]
    assert loopy.linearised(rows)[2](directions) == pytest.approx(np.stack(expected), abs=1e-8)


@each(LOOPS)
def test_neighbouring_tables_agree_on_the_variables_they_share(tables, rng):
    mu = LoopyEngine(tables).marginals(0.5 * rng.uniform(-1, 1, tables.cells))[1]
    margins = {}
    for r, region in enumerate(tables.regions):
        table = mu[tables.part(r)].reshape(tables.shape(region))
        for a, v in enumerate(region):
            margin = table.sum(axis=tuple(b for b in range(len(region)) if b != a))
            assert margin == pytest.approx(margins.setdefault(v, margin), abs=1e-8)


def test_mild_loops_are_answered_nearly(rng):
    """To a few thousandths on a grid with mild potentials; a product of the tables' own margins is much further off."""
    for _ in range(5):
        potentials = 0.3 * rng.uniform(-1, 1, GRID.cells)
        truth, loopy = enumerated(GRID, potentials), LoopyEngine(GRID)
        total, mu = loopy.marginals(potentials)
        assert total == pytest.approx(truth.A, abs=0.02)
        assert mu == pytest.approx(truth.mu, abs=0.005)
        assert loopy.covariance(potentials) == pytest.approx(truth.Sigma, abs=0.005)
        assert np.abs(loopy.covariance(potentials) - truth.Sigma).max() > 1e-9  # it is an approximation


def test_messages_that_do_not_settle_are_reported_and_answered_within_regions():
    loopy = LoopyEngine(COMPLETE)
    found, sigma = loopy.beliefs(FRUSTRATED), loopy.covariance(FRUSTRATED)
    assert not found.converged
    assert (found.passes, found.change > loopy.tolerance) == (loopy.passes, True)
    for r, s in itertools.product(range(6), repeat=2):
        mu, other = found.mu[COMPLETE.part(r)], found.mu[COMPLETE.part(s)]
        block = np.diag(mu) - np.outer(mu, other) if r == s else np.zeros((4, 4))
        assert sigma[COMPLETE.part(r), COMPLETE.part(s)] == pytest.approx(block, abs=1e-15)


@pytest.mark.parametrize("size", [5.0, 50.0, 700.0])
def test_where_fixed_points_part_no_impossible_covariance_is_given(size):
    """Three coins that must agree, heads as likely as tails: the derivative of loopy beliefs has no bound there."""
    tables = Regions((2,) * 3, ((0, 1), (1, 2), (2, 0)))
    loopy, potentials = LoopyEngine(tables), np.tile([size, -size, -size, size], 3)
    assert loopy.beliefs(potentials).converged
    sigma = loopy.covariance(potentials)
    assert np.abs(sigma).max() <= 1
    assert loopy.linearised(potentials[None])[2](np.eye(12)[:1])[0] == pytest.approx(sigma[0], abs=1e-12)


def test_damping_settles_what_replacing_messages_does_not():
    mild = 0.4 * FRUSTRATED
    assert not LoopyEngine(COMPLETE, damping=0.0).beliefs(mild).converged
    assert LoopyEngine(COMPLETE).beliefs(mild).converged


@pytest.mark.parametrize("size", [700.0, 5000.0])
def test_huge_potentials_neither_overflow_nor_warn(size, rng):
    for tables in (TREES["chain"], GRID):
        potentials = size * rng.choice([-1.0, 1.0], tables.cells)
        total, mu = LoopyEngine(tables).marginals(potentials)
        assert np.isfinite(total)
        assert np.all((mu >= 0) & (mu <= 1 + 1e-12))
        assert np.all(np.isfinite(LoopyEngine(tables).covariance(potentials)))


def test_the_engine_is_exact_while_its_tree_is_small_enough():
    cells = JunctionEngine(GRID).tree_cells
    exact, approximate = engine_for(GRID, largest=cells), engine_for(GRID, largest=cells - 1)
    assert (exact.is_exact, exact.reason) == (True, "")
    assert not approximate.is_exact
    assert "approximate" in approximate.reason
    assert "over up to 3 variables" in approximate.reason


def test_a_graph_of_large_treewidth_is_answered_at_all(rng):
    side, states = 15, 4
    nodes = np.arange(side * side).reshape(side, side)
    starts, ends = np.append(nodes[:, :-1], nodes[:-1]), np.append(nodes[:, 1:], nodes[1:])
    edges = tuple(zip(starts.tolist(), ends.tolist(), strict=True))
    engine = engine_for(Regions((states,) * side**2, edges))
    assert not engine.is_exact
    _, mu = engine.marginals(0.3 * rng.uniform(-1, 1, engine.tables.cells))
    assert mu.reshape(len(edges), -1).sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize("ask", ["entropy", "sample", "sample_tables"])
def test_what_needs_the_whole_distribution_is_refused(ask, rng):
    arguments = () if ask == "entropy" else (10,)
    first = () if ask == "entropy" else (rng,)
    with pytest.raises(Unsupported, match="exact inference"):
        getattr(LoopyEngine(GRID), ask)(*first, np.zeros(GRID.cells), *arguments)


def test_a_damping_of_one_would_never_move():
    with pytest.raises(InvalidArgument, match="damping"):
        LoopyEngine(GRID, damping=1.0)
