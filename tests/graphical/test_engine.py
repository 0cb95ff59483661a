"""The exact engine against enumeration of every record, and a long chain against products of matrices."""

import itertools

import numpy as np
import pytest
from graphs import cells_of, chain, dirichlet_potentials, enumerated, erdos_renyi, third_order
from scipy import stats

from noisewise.errors import InvalidArgument
from noisewise.graphical.engine import JunctionEngine
from noisewise.graphical.loopy import LoopyEngine
from noisewise.graphical.structure import JunctionTree, Regions

FALSE_ALARM = 1e-6
# A pool of a hundred is a little skew: at a nominal 1e-8 a chi-square test's rate of false alarms is below 1e-6.
NOMINAL = 1e-8
GRAPHS = {
    "chain": chain(5, 3),
    "third order": third_order(6, 2),
    "ring": Regions((2, 3, 2, 3), ((0, 1), (1, 2), (2, 3), (3, 0))),
    "grid": Regions((2,) * 6, ((0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5))),
    "triples": Regions((2, 3, 2, 2), ((0, 1, 2), (3, 2, 1))),
    "islands": Regions((2, 3, 2, 2), ((0, 1), (3, 2))),
    "single variables": Regions((2, 3, 4), ((0,), (1,), (2,))),
    "a table and its margin": Regions((3, 2, 2), ((0, 1), (1,), (1, 2))),
    "a table given twice": Regions((3, 2), ((0, 1), (1, 0), (0, 1))),
    "one state": Regions((1, 3, 1, 2), ((0, 1), (1, 2), (2, 3), (0,))),
    "a variable in no table": Regions((2, 3, 2), ((0, 1),)),
    "out of order": Regions((2, 3, 4), ((2, 0), (1, 0), (2, 1))),
    "no table at all": Regions((2, 3), ()),
}
EACH = pytest.mark.parametrize("tables", [pytest.param(tables, id=name) for name, tables in GRAPHS.items()])


def assert_equal_to_enumeration(tables, potentials):
    engine, truth = JunctionEngine(tables), enumerated(tables, potentials)
    total, mu = engine.marginals(potentials)
    assert total == pytest.approx(truth.A, rel=1e-12, abs=1e-12)
    assert mu == pytest.approx(truth.mu, rel=1e-11, abs=1e-14)
    assert engine.covariance(potentials) == pytest.approx(truth.Sigma, abs=1e-13)
    assert engine.entropy(potentials) == pytest.approx(truth.entropy, abs=1e-11)


@EACH
def test_everything_is_as_enumerated(tables, rng):
    assert_equal_to_enumeration(tables, dirichlet_potentials(rng, tables))


def test_random_graphs_are_as_enumerated(rng):
    for p in (0.3, 0.5, 0.9):
        tables = erdos_renyi(rng, 6, 2, p)
        assert_equal_to_enumeration(tables, dirichlet_potentials(rng, tables))


def test_another_junction_tree_gives_the_same_answers(rng):
    tables = GRAPHS["ring"]
    potentials = dirichlet_potentials(rng, tables)
    whole = JunctionEngine(tables, JunctionTree(((0, 1, 2, 3),), (-1,), (0,) * 4))
    usual = JunctionEngine(tables)
    assert usual.marginals(potentials)[1] == pytest.approx(whole.marginals(potentials)[1], rel=1e-12)
    assert usual.covariance(potentials) == pytest.approx(whole.covariance(potentials), abs=1e-14)


def test_potentials_of_the_wrong_table_would_be_noticed(rng):
    tables = GRAPHS["out of order"]
    potentials = dirichlet_potentials(rng, tables)
    wrong = potentials.copy()
    wrong[:8] = potentials[:8].reshape(4, 2).T.ravel()  # region (2, 0) read as if it were (0, 2)
    assert np.abs(JunctionEngine(tables).marginals(wrong)[1] - enumerated(tables, potentials).mu).max() > 1e-6


@EACH
def test_the_probabilities_are_the_gradient_of_the_log_partition_function(tables, rng):
    engine, potentials = JunctionEngine(tables), dirichlet_potentials(rng, tables)
    step = 1e-5 * np.eye(tables.cells)
    up, _ = engine.marginals_of_rows(potentials + step)
    down, _ = engine.marginals_of_rows(potentials - step)
    assert engine.marginals(potentials)[1] == pytest.approx((up - down) / 2e-5, abs=1e-8)


@EACH
def test_a_product_with_sigma_is_that_of_the_enumerated_sigma(tables, rng):
    rows = np.stack([dirichlet_potentials(rng, tables) for _ in range(3)])
    directions = rng.standard_normal(rows.shape)
    expected = [enumerated(tables, row).Sigma @ direction for row, direction in zip(rows, directions, strict=True)]
    engine = JunctionEngine(tables)
    totals, mu, product = engine.linearised(rows)
    assert product(directions) == pytest.approx(np.stack(expected), abs=1e-12)
    assert product(2 * directions) == pytest.approx(2 * np.stack(expected), abs=1e-12)  # and once more
    assert np.array_equal(totals, engine.marginals_of_rows(rows)[0])
    assert np.array_equal(mu, engine.marginals_of_rows(rows)[1])


def test_rows_are_answered_one_by_one(rng):
    tables = GRAPHS["grid"]
    engine, rows = JunctionEngine(tables), np.stack([dirichlet_potentials(rng, tables) for _ in range(4)])
    totals, mu = engine.marginals_of_rows(rows)
    for j, row in enumerate(rows):
        total, marginals = engine.marginals(row)
        assert totals[j] == total
        assert np.array_equal(mu[j], marginals)


@pytest.mark.parametrize("size", [700.0, 5000.0])
def test_huge_potentials_neither_overflow_nor_lose_the_answer(size, rng):
    for name in ("chain", "ring", "triples"):
        tables = GRAPHS[name]
        potentials = size * rng.choice([-1.0, 1.0], tables.cells)
        engine, truth = JunctionEngine(tables), enumerated(tables, potentials)
        total, mu = engine.marginals(potentials)
        assert total == pytest.approx(truth.A, rel=1e-13)
        assert mu == pytest.approx(truth.mu, abs=1e-10)
        assert engine.covariance(potentials) == pytest.approx(truth.Sigma, abs=1e-10)
        assert np.all(np.isfinite(engine.sample_tables(rng, potentials, 1000)))
        records = engine.sample(rng, potentials, 1000)
        possible = {tuple(state) for state, p in zip(truth.states, truth.probabilities, strict=True) if p > 0}
        assert {tuple(record) for record in records} <= possible


@pytest.mark.parametrize("engine", [JunctionEngine(chain(4, 3)), LoopyEngine(chain(4, 3))], ids=["exact", "loopy"])
def test_a_vector_of_the_wrong_length_is_refused(engine):
    for cells in (0, 26, 28):
        with pytest.raises(InvalidArgument, match="27 entries"):
            engine.marginals(np.zeros(cells))
        with pytest.raises(InvalidArgument, match="27 entries"):
            engine.marginals_of_rows(np.zeros((2, cells)))


def test_potentials_that_are_no_numbers_give_no_numbers():
    """A sampler that strayed meets a density that is not finite, not an error."""
    for stray in (np.nan, np.inf):
        total, mu = JunctionEngine(chain(3, 2)).marginals(np.full(8, stray))
        assert not np.isfinite(total)
        assert not np.any(np.isfinite(mu))


def test_states_too_rare_for_a_float_are_never_drawn_and_never_a_fault(rng):
    tables = chain(3, 2)
    potentials = np.array([0, 0, -5000, -5000, 0, 0, 0, 0.0])  # x_0 = 1 has probability e^-5000
    engine = JunctionEngine(tables)
    assert engine.sample(rng, potentials, 500)[:, 0].sum() == 0
    assert engine.sample_tables(rng, potentials, 500)[2:4].tolist() == [0, 0]


def test_a_long_chain_equals_products_of_matrices(rng):
    nodes, states = 10, 10
    tables = chain(nodes, states)
    potentials = dirichlet_potentials(rng, tables)
    factors = np.exp(potentials).reshape(nodes - 1, states, states)
    ahead, behind = [np.ones(states)], [np.ones(states)]
    for factor in factors:
        ahead.append(ahead[-1] @ factor)
    for factor in factors[::-1]:
        behind.insert(0, factor @ behind[0])
    Z = ahead[-1].sum()
    edges = np.stack([np.outer(ahead[i], behind[i + 1]) * factors[i] / Z for i in range(nodes - 1)])
    engine = JunctionEngine(tables)
    total, mu = engine.marginals(potentials)
    assert total == pytest.approx(np.log(Z), rel=1e-13)
    assert mu == pytest.approx(edges.ravel(), rel=1e-11)
    # The far ends: P(x_0, x_1 and x_8, x_9), by the product of all that lies between.
    between = np.linalg.multi_dot([*factors[1:-1]])
    joint = np.einsum("ab,bc,cd->abcd", factors[0], between, factors[-1]) / Z
    block = joint.reshape(100, 100) - np.outer(edges[0], edges[-1])
    assert engine.covariance(potentials)[:100, -100:] == pytest.approx(block, abs=1e-14)


def chi_square_p(counts, probabilities):
    """Of counts over all records; the rarest are pooled until each pool expects a hundred."""
    expected = probabilities * counts.sum()
    pool, waiting, pools = np.zeros(len(counts), dtype=int), 0.0, 0
    for i in np.argsort(-expected):
        pool[i] = pools
        waiting += expected[i]
        if waiting >= 100:
            waiting, pools = 0.0, pools + 1
    pool = np.minimum(pool, pools - 1)
    observed, wanted = np.bincount(pool, counts), np.bincount(pool, expected)
    return stats.chi2.sf(np.sum((observed - wanted) ** 2 / wanted), pools - 1) if pools > 1 else 1.0


def counts_of(records, truth):
    where = {tuple(state): i for i, state in enumerate(truth.states)}
    return np.bincount([where[tuple(record)] for record in records], minlength=len(truth.states))


@EACH
def test_records_are_drawn_from_the_model(tables, rng):
    potentials = dirichlet_potentials(rng, tables)
    truth = enumerated(tables, potentials)
    records = JunctionEngine(tables).sample(rng, potentials, 20_000)
    assert chi_square_p(counts_of(records, truth), truth.probabilities) > NOMINAL


def test_records_from_other_potentials_are_seen():
    tables = chain(3, 2)
    potentials = np.log([4, 1, 1, 4, 4, 1, 1, 4.0])
    other = np.log([4, 1, 1, 4, 3, 1, 1, 3.0])
    truth = enumerated(tables, potentials)
    expected = np.round(20_000 * enumerated(tables, other).probabilities)
    assert chi_square_p(expected, truth.probabilities) < NOMINAL**2


@EACH
def test_tables_are_those_of_whole_records(tables, rng):
    """Every draw of tables is consistent: all of them sum to n, and tables agree on the margins that they share."""
    drawn = JunctionEngine(tables).sample_tables(rng, dirichlet_potentials(rng, tables), 1234)
    margins = {}
    for r, region in enumerate(tables.regions):
        table = drawn[tables.part(r)].reshape(tables.shape(region))
        assert table.sum() == 1234
        for size in range(1, len(region) + 1):
            for inner in itertools.combinations(range(len(region)), size):
                names = [region[a] for a in inner]
                margin = table.sum(axis=tuple(a for a in range(len(region)) if a not in inner))
                margin = margin.transpose(np.argsort(names))
                assert np.array_equal(margins.setdefault(tuple(sorted(names)), margin), margin)


def test_tables_of_one_record_have_the_law_of_a_record(rng):
    tables = GRAPHS["ring"]
    potentials = dirichlet_potentials(rng, tables)
    truth, engine = enumerated(tables, potentials), JunctionEngine(tables)
    where = {tuple(row): i for i, row in enumerate(cells_of(tables, truth.states).astype(int))}
    drawn = [where[tuple(engine.sample_tables(rng, potentials, 1))] for _ in range(3000)]
    assert chi_square_p(np.bincount(drawn, minlength=len(truth.states)), truth.probabilities) > NOMINAL


def spread_p(z):
    """Whether the columns of z have variance 1, each of them; the smallest p-value times their number."""
    square, sums = stats.chi2(len(z)), np.sum(z**2, axis=0)
    return 2 * z.shape[1] * np.minimum(square.cdf(sums), square.sf(sums)).min()


@pytest.mark.parametrize("name", ["third order", "ring", "triples", "out of order", "islands"])
def test_tables_of_many_records_have_mean_n_mu_and_covariance_n_sigma(name, rng):
    tables, n, draws = GRAPHS[name], 100_000_000, 600
    potentials = 0.3 * rng.standard_normal(tables.cells)
    truth, engine = enumerated(tables, potentials), JunctionEngine(tables)
    values, vectors = np.linalg.eigh(truth.Sigma)
    kept = values > 1e-9
    counts = np.stack([engine.sample_tables(rng, potentials, n) for _ in range(draws)])
    # Standardised, the tables of many records are independent standard normals.
    z = (counts - n * truth.mu) @ vectors[:, kept] / np.sqrt(n * values[kept])
    mean_p = stats.chi2.sf(draws * np.sum(z.mean(axis=0) ** 2), z.shape[1])
    products = (z.T @ z)[np.triu_indices(z.shape[1], 1)] / np.sqrt(draws)
    assert mean_p > FALSE_ALARM
    assert spread_p(z) > FALSE_ALARM
    # A product of two normals has heavier tails than a normal; 600 of them are averaged, and the bound is a wide one.
    assert np.abs(products).max() < 8


def test_tables_drawn_as_if_cells_were_independent_would_be_seen(rng):
    tables, n = chain(3, 3), 1000
    truth = enumerated(tables, 0.3 * rng.standard_normal(tables.cells))
    values, vectors = np.linalg.eigh(truth.Sigma)
    kept = values > 1e-9
    counts = rng.poisson(n * truth.mu, size=(6000, tables.cells))
    z = (counts - n * truth.mu) @ vectors[:, kept] / np.sqrt(n * values[kept])
    # Two tables that share a column agree on it; drawn apart, their sum there has half the variance.
    assert spread_p(z) < FALSE_ALARM**2
