"""GraphicalModel: what it is made of, and which structures and specs are refused."""

from __future__ import annotations

import numpy as np
import pytest
from graphical_models import CLIQUES, LEVELS, schema_of

import noisewise as nw
from noisewise.errors import InvalidArgument, InvalidSpec
from noisewise.populations.text import population_from_spec


def test_the_first_columns_of_a_clique_change_last(model):
    assert model.columns == ("a", "b", "c", "d")
    assert model.parameters == 6 + 6 + 4
    assert model.cell_labels(["a", "b"])[:4] == ("a=x, b=u", "a=x, b=v", "a=x, b=w", "a=y, b=u")
    assert model.tables.regions == ((0, 1), (1, 2), (2, 3))


def test_a_schema_gives_levels_and_may_have_other_columns():
    columns = {"z": nw.Bounded(0, 1), "a": nw.Levels(["x", "y"]), "b": nw.Levels(["u", "v"])}
    schema = nw.Schema(columns, n=5, neighbours="change-one")
    assert nw.GraphicalModel([["b", "a"]], schema).columns == ("a", "b")


def test_a_tied_chain_has_one_table_a_step_and_one_for_its_first_column():
    model = nw.GraphicalModel.chain(list("stuv"), ["k", "l", "m"], order=2, tied=True)
    assert model.cliques == (("s",), ("s", "t"), ("t", "u"), ("u", "v"), ("s", "u"), ("t", "v"))
    assert model.ties == ((1, 2, 3), (4, 5))
    assert model.parameters == 3 + 9 + 9
    spread = model.spread
    np.testing.assert_array_equal(spread[3:12], spread[12:21])
    assert len(np.unique(spread)) == model.parameters == spread.max() + 1


def test_tied_true_ties_pairs_with_the_same_levels():
    levels = {"a": ["k", "l"], "b": ["k", "l"], "c": ["k", "l"], "d": ["p", "q"]}
    model = nw.GraphicalModel([["a", "b"], ["b", "c"], ["c", "d"], ["a"]], levels, tied=True)
    assert model.ties == ((0, 1),)
    named = nw.GraphicalModel([["a", "b"], ["b", "c"], ["c", "d"], ["a"]], levels, tied=[[["a", "b"], ["b", "c"]]])
    assert named.ties == model.ties


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: nw.GraphicalModel([], LEVELS), "cliques"),
        (lambda: nw.GraphicalModel("ab", LEVELS), "cliques"),
        (lambda: nw.GraphicalModel([["a", "a"]], {"a": ["x", "y"]}), "cliques"),
        (lambda: nw.GraphicalModel([["a", "b"], ["b", "a"]], {"a": [0, 1], "b": [0, 1]}), "cliques"),
        (lambda: nw.GraphicalModel([["a", 3]], LEVELS), "cliques"),
        (lambda: nw.GraphicalModel([["a"]], LEVELS), "cliques"),
        (lambda: nw.GraphicalModel([["a", "z"]], {"a": [0, 1]}), "levels"),
        (lambda: nw.GraphicalModel([["a"]], {"a": [0]}), "levels"),
        (lambda: nw.GraphicalModel([["a"]], 3), "levels"),
        (lambda: nw.GraphicalModel([["z"]], schema_of(LEVELS, n=3)), "levels"),
        (lambda: nw.GraphicalModel(CLIQUES, LEVELS, tied=True), "tied"),
        (lambda: nw.GraphicalModel(CLIQUES, LEVELS, tied="ab"), "tied"),
        (lambda: nw.GraphicalModel(CLIQUES, LEVELS, tied=[[["a", "b"], ["b", "c"]]]), "tied"),
        (lambda: nw.GraphicalModel(CLIQUES, LEVELS, tied=[[["a", "c"], ["b", "c"]]]), "tied"),
        (lambda: nw.GraphicalModel(CLIQUES, LEVELS, tied=[3]), "tied"),
        (lambda: nw.GraphicalModel(CLIQUES, LEVELS, tied=[[]]), "tied"),
        (lambda: nw.GraphicalModel(CLIQUES, LEVELS, tied=[["a", "b"]]), "tied"),
        (lambda: nw.GraphicalModel(CLIQUES, LEVELS, tied=[[["a", 3]]]), "tied"),
        (lambda: nw.GraphicalModel(CLIQUES, LEVELS, tied=[[["a", "b"], ["b", "a"]]]), "tied"),
        (lambda: nw.GraphicalModel.chain(["a"], [0, 1]), "columns"),
        (lambda: nw.GraphicalModel.chain(["a", "b"], [0, 1], order=2), "order"),
        (lambda: nw.GraphicalModel.chain(["a", "b"], [0, 1], tied="yes"), "tied"),
        (lambda: nw.GraphicalModel([["a", "b", "c"]], {name: list(range(101)) for name in "abc"}), "cliques"),
    ],
    ids=[str(k) for k in range(23)],
)
def test_bad_structures_are_refused_by_name(make, argument):
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert caught.value.argument == argument
    if argument == "tied":
        assert "cliques must" not in str(caught.value)


@pytest.mark.parametrize(
    ("cliques", "both"),
    [([["a", "b"], ["a, b"]], ("['a, b']", "['a', 'b']")),
     ([["a", "b, c"], ["a, b", "c"]], ("['a', 'b, c']", "['a, b', 'c']"))],
    ids=["column", "clique"],
)  # fmt: skip
def test_tables_that_would_share_a_name_are_refused(cliques, both):
    levels = {name: [0, 1] for clique in cliques for name in clique}
    with pytest.raises(InvalidArgument) as caught:
        nw.GraphicalModel(cliques, levels)
    assert caught.value.argument == "cliques"
    assert all(name in str(caught.value) for name in both)
    nw.GraphicalModel(cliques[1:], {name: [0, 1] for name in cliques[1]})  # a comma by itself is no harm


@pytest.mark.parametrize("columns", [None, 3, [], "", "z", [None], ["a", "a"], [["a"]], b"a", {"a": 1}, [10**5000]],
                         ids=lambda given: str(given)[:9] if given != [10**5000] else "huge")  # fmt: skip
def test_columns_that_are_none_are_refused(model, columns):
    for asked in (model.region, model.cell_labels):
        with pytest.raises(InvalidArgument) as caught:
            asked(columns)
        assert caught.value.argument == "columns"


@pytest.mark.parametrize("count", [-1, 1.0, True, "3", 10**400], ids=["negative", "float", "bool", "text", "huge"])
def test_a_number_of_prior_draws_is_a_whole_one(model, rng, count):
    with pytest.raises(InvalidArgument) as caught:
        model.sample_prior(rng, count)
    assert caught.value.argument == "count"


@pytest.mark.parametrize("tied", [False, True], ids=["free", "tied"])
def test_a_model_reads_back_from_its_spec(tied):
    model = nw.GraphicalModel.chain(["s", "t", "u"], ["it's", 'a "k"', 3], tied=tied)
    for again in (nw.GraphicalModel.from_spec(model.to_spec()), population_from_spec(model.to_spec())):
        assert all(getattr(again, name) == getattr(model, name) for name in ("columns", "levels", "cliques", "ties"))


@pytest.mark.parametrize(
    "text",
    ["graphical_model(cliques=[['a']])", "graphical_model(cliques=[['a']], levels={'a': [0, 1]}, prior=3)",
     "graphical_model(cliques=[[open('x')]], levels={'a': [0, 1]})"],
    ids=["no-levels", "unknown", "code"],
)  # fmt: skip
def test_a_spec_that_is_no_model_is_refused(text):
    with pytest.raises(InvalidSpec):
        population_from_spec({"*": text})


def test_a_section_of_something_else_is_no_model():
    with pytest.raises(InvalidArgument, match="does not describe a GraphicalModel"):
        nw.GraphicalModel.from_spec({"*": "normal(mean=norm(0, 1), sd=1)"})
