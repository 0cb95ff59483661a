"""Structures compared on the same releases."""

from __future__ import annotations

import numpy as np
import pytest
from graphical_models import schema_of

import noisewise as nw
from noisewise.errors import InvalidArgument

LEVELS = {"a": ["x", "y"], "b": ["u", "v"], "c": ["k", "l"]}


def strong_chain(seed, n=20_000):
    """A release of a chain in which neighbours agree nine times in ten."""
    schema = schema_of(LEVELS, n=n)
    model = nw.GraphicalModel.chain(list(LEVELS), schema)
    agree = np.log([0.9, 0.1, 0.1, 0.9])
    plan = nw.plan(nw.Marginals(["a", "b"], ["b", "c"], ["a", "c"]), schema, guarantee=nw.PureDP(1))
    return model, nw.simulate(plan, model, at={"potentials": [*agree, *agree]}, seed=seed)


def test_the_structure_behind_the_tables_beats_one_without_its_edges(rng):
    model, release = strong_chain(rng)
    alone = nw.GraphicalModel([["a"], ["b"], ["c"]], LEVELS)
    half = nw.GraphicalModel([["a", "b"], ["c"]], LEVELS)
    found = nw.GraphicalModel.compare(release, {"chain": model, "half": half, "alone": alone})
    assert found.best == "chain"
    assert [one.name for one in found.ranking] == ["chain", "half", "alone"]
    assert found.ranking[1].behind > 100
    assert found.ranking[0].behind == 0
    assert [row["potentials"] for row in found.rows] == [8, 6, 6]
    assert "log evidence" in str(found)


def test_the_evidence_does_not_depend_on_how_the_model_is_written(rng):
    model, release = strong_chain(rng)
    turned = nw.GraphicalModel([["c", "b"], ["b", "a"]], {name: LEVELS[name][::-1] for name in ("c", "a", "b")})
    found = nw.GraphicalModel.compare(release, [model, turned])
    assert found.ranking[1].behind == pytest.approx(0, abs=1e-3)
    assert found.ranking[0].effective == pytest.approx(found.ranking[1].effective, abs=1e-2)


def test_a_weak_release_says_that_differences_are_rough(rng):
    model, release = strong_chain(rng, n=100)
    assert "rough" in str(nw.GraphicalModel.compare(release, [model]))


@pytest.mark.parametrize(
    "models",
    [[], "chain", [1], [nw.GraphicalModel([["a"]], {"a": ["x", "y"]}), nw.GraphicalModel([["b"]], {"b": ["u", "v"]})]],
    ids=["none", "text", "number", "other-columns"],
)
def test_bad_models_are_refused(models, rng):
    with pytest.raises(InvalidArgument) as caught:
        nw.GraphicalModel.compare(strong_chain(rng)[1], models)
    assert caught.value.argument == "models"
