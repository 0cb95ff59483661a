"""Junction trees: every promise of one checked by brute force on random graphs."""

import itertools
import math

import numpy as np
import pytest
from graphs import chain, erdos_renyi, third_order

from noisewise.graphical.structure import JunctionTree, Regions, junction_tree, onto


def faults(tables, tree):
    """What a junction tree must not do."""
    found = []
    cliques = [set(clique) for clique in tree.cliques]
    if tree.parents[0] != -1 or any(not 0 <= parent < k for k, parent in enumerate(tree.parents) if k > 0):
        found.append("a clique comes before its parent")
    for v in range(len(tables.states)):
        holding = [k for k, clique in enumerate(cliques) if v in clique]
        # In a rooted tree a set of nodes is connected when all but one have their parent in it.
        if sum(tree.parents[k] not in holding for k in holding) != 1:
            found.append(f"the cliques that hold {v} are not connected")
    for region, home in zip(tables.regions, tree.homes, strict=True):
        if not set(region) <= cliques[home]:
            found.append(f"{region} is not at home in {cliques[home]}")
    for one, other in itertools.permutations(cliques, 2):
        if one <= other:
            found.append(f"{one} lies in {other}")
    return found


GRAPHS = {
    "chain": chain(6, 3),
    "third order": third_order(7, 2),
    "ring": Regions((2,) * 6, tuple((i, (i + 1) % 6) for i in range(6))),
    "star": Regions((2,) * 5, tuple((0, i) for i in range(1, 5))),
    "islands": Regions((2, 3, 2, 4, 5), ((3, 1), (0, 2))),
    "no table at all": Regions((2, 3), ()),
    "one table": Regions((2, 3, 4), ((2, 0, 1),)),
    "a table and its margin": Regions((2, 3), ((0, 1), (1,))),
}


@pytest.mark.parametrize("tables", [pytest.param(tables, id=name) for name, tables in GRAPHS.items()])
def test_a_junction_tree_keeps_its_promises(tables):
    assert faults(tables, junction_tree(tables)) == []


def test_random_graphs_with_tables_of_any_size_keep_them_too(rng):
    for _ in range(60):
        nodes = int(rng.integers(2, 12))
        sizes = rng.integers(1, min(nodes, 4) + 1, size=int(rng.integers(0, 15)))
        regions = tuple(tuple(int(v) for v in rng.permutation(nodes)[:size]) for size in sizes)
        tables = Regions(tuple(int(s) for s in rng.integers(1, 5, size=nodes)), regions)
        assert faults(tables, junction_tree(tables)) == []


def test_a_tree_that_breaks_a_promise_is_seen():
    tables = chain(4, 2)
    assert faults(tables, JunctionTree(((0, 1), (1, 2), (2, 3)), (-1, 0, 0), (0, 1, 2)))
    assert faults(tables, JunctionTree(((0, 1), (1, 2), (2, 3)), (-1, 0, 1), (0, 1, 1)))
    assert faults(tables, JunctionTree(((0, 1), (1, 2), (2, 3), (3,)), (-1, 0, 1, 2), (0, 1, 2)))


def test_a_chain_is_left_as_it_is():
    assert sorted(junction_tree(chain(8, 3)).cliques) == [(i, i + 1) for i in range(7)]


def test_a_third_order_chain_needs_cliques_of_four():
    assert sorted(junction_tree(third_order(8, 3)).cliques) == [tuple(range(i, i + 4)) for i in range(5)]


def test_a_ring_is_cut_into_triangles():
    assert [len(clique) for clique in junction_tree(GRAPHS["ring"]).cliques] == [3] * 4


def test_a_tree_of_variables_needs_no_clique_larger_than_an_edge(rng):
    for _ in range(20):
        edges = tuple((int(rng.integers(0, v)), v) for v in range(1, 12))
        assert all(len(clique) == 2 for clique in junction_tree(Regions((3,) * 12, edges)).cliques)


def test_cells_are_laid_end_to_end(rng):
    tables = erdos_renyi(rng, 6, 3, 0.5)
    sizes = [math.prod(tables.shape(region)) for region in tables.regions]
    assert tables.cells == sum(sizes)
    parts = [np.arange(tables.cells)[tables.part(r)] for r in range(len(sizes))]
    assert np.array_equal(np.concatenate(parts), np.arange(tables.cells))
    assert [len(part) for part in parts] == sizes


@pytest.mark.parametrize(("inner", "letters"), [((), ""), ((7,), "c"), ((2, 5), "ba"), ((7, 5, 2), "cab")])
def test_a_table_is_summed_onto_the_axes_asked_for_in_their_order(rng, inner, letters):
    table = rng.integers(100, size=(6, 2, 3, 4))
    found = onto(table, (5, 2, 7), inner)
    np.testing.assert_array_equal(found, np.einsum(f"kabc->k{letters}", table))
    np.testing.assert_array_equal(onto(table[0], (5, 2, 7), inner), found[0])
