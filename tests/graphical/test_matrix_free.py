"""`map` by products: its algebra by enumeration, its estimate beside the one that factors matrices."""

import numpy as np
import pytest
from graph_problems import holder, problem, published
from graphs import chain, enumerated, third_order

from noisewise.graphical import empirical_bayes, matrix_free
from noisewise.graphical.matrix_free import Entries, Here, _solve, _whole
from noisewise.graphical.structure import Regions

TRIANGLE = Regions((2, 3, 2), ((0, 1), (1, 2), (0, 2)))


def two_holders(rng, *, spread=None):
    """One publishes two tables, their cells in another order, the other all three with less noise."""
    truth = rng.normal(size=TRIANGLE.cells)
    order = np.r_[rng.permutation(np.arange(6, 12)), rng.permutation(6)]
    one = published(rng, TRIANGLE, truth, n=3000, variance=50.0, sums=np.eye(TRIANGLE.cells)[order])
    two = published(rng, TRIANGLE, truth, n=8000, variance=20.0)
    return problem(TRIANGLE, one, two, spread=spread)


TIED = [0, 1, 2, 3, 4, 5, 0, 2, 4, 1, 3, 5, *range(6, 10)]
PARTLY = [*range(12), -1, -1, -1, -1]
SPREADS = {"free": None, "tied": TIED, "a table that is no factor": PARTLY}


@pytest.mark.parametrize("name", SPREADS)
def test_products_are_those_of_the_matrices(rng, name):
    asked, tau = two_holders(rng, spread=SPREADS[name]), 0.7
    entries, theta = Entries(asked), rng.normal(size=asked.parameters)
    model = enumerated(TRIANGLE, asked.potentials(theta))
    onto = np.array([[float(s == j) for s in asked.spread] for j in range(asked.parameters)])
    W = [held.sums.toarray() for held in asked.holders]
    C = np.hstack([held.n * onto @ model.Sigma @ w.T for held, w in zip(asked.holders, W, strict=True)])
    K = np.diag(entries.noise) + tau**2 * C.T @ C
    for held, w, part in zip(asked.holders, W, entries.parts, strict=True):
        K[part, part] += held.n * w @ model.Sigma @ w.T
    here, u, z = Here(asked, entries, theta, tau), rng.normal(size=(len(K), 3)), rng.normal(size=(len(C), 2))
    assert here.weighed(u) == pytest.approx(K @ u, rel=1e-9, abs=1e-9 * np.abs(K).max())
    assert here.crossed(z) == pytest.approx(C.T @ z, rel=1e-9, abs=1e-9 * np.abs(C).max())
    assert here.pulled(u) == pytest.approx(C @ u, rel=1e-9, abs=1e-9 * np.abs(C).max())
    assert here.mean == pytest.approx(np.concatenate([h.mean(model.mu) for h in asked.holders]))


def test_what_no_model_moves_is_projected_off_each_holders_entries(rng):
    asked = two_holders(rng)
    entries = Entries(asked)
    u = rng.normal(size=(len(entries.noise), 1))
    for held, part in zip(asked.holders, entries.parts, strict=True):
        moves = held.sums.toarray() @ enumerated(TRIANGLE, rng.normal(size=TRIANGLE.cells)).Sigma
        left, sizes, _ = np.linalg.svd(moves)
        kept = left[:, : np.sum(sizes > 1e-9)]
        assert entries.without_gauge(u)[part] == pytest.approx(kept @ kept.T @ u[part])


def test_the_solver_solves_what_it_can_and_stops_where_rounding_rules(rng):
    root = rng.normal(size=(30, 30))
    K, sides = root @ root.T + np.eye(30), rng.normal(size=(30, 4))
    weights, limit = np.ones(30), np.full(4, 1e-16)
    start = np.column_stack([np.linalg.solve(K, sides[:, 0]), 100 * sides[:, 1], np.zeros((30, 2))])
    found = _solve(lambda x: K @ x, lambda x: x / np.diag(K)[:, None], sides, start, weights, limit)
    assert found == pytest.approx(np.linalg.solve(K, sides), abs=1e-6)
    lost = _solve(lambda x: -x, lambda x: x, sides, np.zeros((30, 4)), weights, limit)
    assert np.all(lost == 0)


# fmt: off
PROBLEMS = {
    "chain": lambda rng: problem(
        chain(5, 4), published(rng, chain(5, 4), rng.normal(size=64), n=20_000, variance=200.0)
    ),
    "third order": lambda rng: problem(
        third_order(6, 2), published(rng, third_order(6, 2), rng.normal(size=48), n=5000, variance=400.0)
    ),
    "two holders": two_holders,
    "tied": lambda rng: problem(
        chain(5, 3), published(rng, chain(5, 3), np.tile(rng.normal(size=9), 4), n=20_000, variance=100.0),
        spread=[*range(9)] * 4,
    ),
}
# fmt: on


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_estimate_is_the_one_of_factored_matrices(rng, monkeypatch, name):
    asked = PROBLEMS[name](rng)
    monkeypatch.setattr(matrix_free, "PROBES", 2000)  # so that the random signs say nothing
    dense, found = empirical_bayes.fit(asked), matrix_free.fit(asked)
    assert dense.notes == found.notes == ()
    assert found.tau == pytest.approx(dense.tau, rel=0.1)
    gap = found.theta - dense.theta
    assert gap @ dense.precision @ gap <= 0.05 * dense.effective


def test_nothing_breaks_where_tables_say_nothing_or_everything(rng):
    tables = chain(4, 3)
    t = np.full(tables.cells, 10.0)
    for n, variance, observed in [
        (1.0, 1e12, rng.normal(0, 1e6, tables.cells)),
        (90.0, 1e-4, t),
        (90.0, 1e-4, np.tile([90.0, *[0.0] * 8], 3)),
        (1e9, 1.0, t * 1e9 / 90),
        (90.0, 1.0, -1e6 * t),
    ]:
        found = matrix_free.fit(problem(tables, holder(observed, n=n, variance=variance)))
        assert np.all(np.isfinite(found.theta))
        assert np.isfinite(found.tau)


def test_the_way_of_products_is_taken_for_large_tables_of_whole_regions_alone(rng, monkeypatch):
    asked = two_holders(rng)
    adding = problem(TRIANGLE, holder(np.full(2, 50.0), n=100.0, variance=1.0, sums=np.eye(16)[:2] + np.eye(16)[2:4]))
    assert matrix_free.is_able(asked)
    assert not matrix_free.is_able(adding)
    assert _whole(TRIANGLE, holder(np.full(5, 9.0), n=100.0, variance=1.0, sums=np.eye(16)[:5])) is None
    assert isinstance(matrix_free.estimate(asked), empirical_bayes.MapFit)
    monkeypatch.setattr(matrix_free, "SMALL", 10)
    assert not isinstance(matrix_free.estimate(asked), empirical_bayes.MapFit)
    assert isinstance(matrix_free.estimate(adding), empirical_bayes.MapFit)


def test_tables_of_seven_thousand_cells_are_learnt(rng):
    tables = chain(10, 29)
    truth = rng.normal(size=tables.cells)
    _, mu = problem(tables).engine.marginals(truth)
    observed = 1e6 * mu + np.sqrt(1e6 * mu + 1e4) * rng.normal(size=tables.cells)
    found = matrix_free.estimate(problem(tables, holder(observed, n=1e6, variance=1e4)))
    assert found.notes == ()
    _, close = problem(tables).engine.marginals(found.theta)
    assert np.abs(close - mu).sum() < 0.98 * np.abs(observed / 1e6 - mu).sum()
    assert found.tau == pytest.approx(1.0, abs=0.12)
