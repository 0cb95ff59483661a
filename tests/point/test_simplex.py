"""Tables: folded noise on the simplex against brute force, and against the program."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import NoisewiseError
from noisewise.laws.finite import satisfies
from noisewise.point.optimal import optimal_estimator
from noisewise.point.simplex import compositions, folded_noise, neighbouring

THREE = nw.Categorical(p=stats.dirichlet([1, 1, 1]))


def test_folded_noise_is_the_noise_on_the_whole_lattice_cut_to_the_table() -> None:
    n, epsilon, reach = 3, 1.0, 40
    tables = compositions(n, 3)
    matrix = folded_noise(tables, epsilon)
    assert np.allclose(matrix.sum(axis=1), 1, rtol=0, atol=1e-12)
    # Brute force: every shift of hexagonal distance up to 40, from one table, its cells cut to 0..n.
    table, masses = tables[4], {}
    for i, j in product(range(-reach, reach + 1), repeat=2):
        shift = np.array([i, j, -i - j])
        c = tuple(np.clip(table + shift, 0, n).astype(int))
        masses[c] = masses.get(c, 0.0) + math.exp(-epsilon * np.abs(shift).sum() / 2)
    expected = np.sort(np.array(list(masses.values())) / sum(masses.values()))
    found = np.sort(matrix[4])[-len(expected) :]
    assert np.allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_neighbouring_tables_differ_by_one_move() -> None:
    tables = compositions(4, 3)
    assert len(tables) == math.comb(6, 2)
    pairs = {frozenset(pair) for pair in neighbouring(tables)}
    every = {frozenset((i, j)) for i in range(len(tables)) for j in range(i)
             if np.abs(tables[i] - tables[j]).sum() == 2}  # fmt: skip
    assert pairs == every


def test_two_cells_are_a_count() -> None:
    """A table of two cells has the risk of both proportions: twice that of one."""
    table = optimal_estimator(
        nw.Categorical(p=stats.dirichlet([2, 3])), "squared", guarantee=nw.PureDP(1), n=6, method="geometric"
    )
    count = optimal_estimator(nw.Bernoulli(p=stats.beta(2, 3)), "squared", guarantee=nw.PureDP(1), n=6)
    assert table.risk == pytest.approx(2 * count.risk, rel=1e-6)


def test_the_program_on_a_small_table_is_private_and_a_little_better() -> None:
    best = optimal_estimator(THREE, "squared", guarantee=nw.PureDP(1), n=3)
    noise = optimal_estimator(THREE, "squared", guarantee=nw.PureDP(1), n=3, method="geometric")
    pairs = neighbouring(compositions(3, 3))
    for found in (best, noise):
        assert satisfies(found.rows, pairs, found.guarantee.epsilon)
        assert np.allclose(found.actions.sum(axis=1), 1)
    assert best.method == "program"
    assert best.risk < noise.risk < 1.03 * best.risk
    # How good all private estimators can be is not known, and not claimed.
    assert best.certificate.gap is best.certificate.lower_bound is noise.certificate.gap is None


@pytest.mark.parametrize(("cells", "n", "epsilon"), [(4, 3, 4), (3, 4, 1), (2, 10, 1)], ids=str)
def test_the_default_is_never_worse_than_geometric_noise(cells: int, n: int, epsilon: int) -> None:
    population = nw.Categorical(p=stats.dirichlet(np.ones(cells)))
    best = optimal_estimator(population, "squared", guarantee=nw.PureDP(epsilon), n=n)
    noise = optimal_estimator(population, "squared", guarantee=nw.PureDP(epsilon), n=n, method="geometric")
    assert best.risk <= noise.risk
    assert best.certificate.lower_bound is None


def test_risk_by_simulation() -> None:
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    rng, draws = np.random.default_rng(seed), 20_000
    found = optimal_estimator(THREE, "squared", guarantee=nw.PureDP(1), n=8)
    assert (found.method, found.certificate.gap) == ("geometric", None)
    truth = rng.dirichlet([1, 1, 1], draws)
    place = {tuple(table): k for k, table in enumerate(compositions(8, 3).astype(int).tolist())}
    states = np.array([place[tuple(rng.multinomial(8, p))] for p in truth])
    passed = np.cumsum(found.matrix, axis=1)[states] < rng.random((draws, 1))
    costs = ((truth - found.actions[passed.sum(axis=1)]) ** 2).sum(axis=1)
    limit = stats.norm.isf(5e-7) * costs.std(ddof=1) / math.sqrt(draws)
    assert abs(costs.mean() - found.risk) < limit


@pytest.mark.parametrize(("change", "words"), [
    ({"loss": "absolute"}, "squared"),
    ({"n": None}, "Give n"),
    ({"n": 1000}, "too many"),
    ({"estimand": np.sum}, "FiniteModel"),
], ids=["loss", "no n", "large n", "estimand"])  # fmt: skip
def test_what_a_table_cannot_do_is_refused(change: dict[str, object], words: str) -> None:
    given = {"loss": "squared", "n": 4, **change}
    with pytest.raises(NoisewiseError, match=words):
        optimal_estimator(THREE, given.pop("loss"), guarantee=nw.PureDP(1), **given)  # type: ignore[arg-type]
