"""What a learnt model answers, against adding up every possible record."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from graphical_models import LEVELS, joint_law, posterior_at, table_of
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.graphical import loopy, probabilities, synthetic

CLIQUES = [["a", "b"], ["c", "b"], ["d", "a"]]
QUERIES = [["a"], ["b", "a"], ["a", "b"], ["a", "c"], ["d", "c"], ["c", "a", "d"], ["a", "b", "c", "d"]]


@pytest.fixture
def model():
    return nw.GraphicalModel(CLIQUES, LEVELS)


@pytest.fixture
def rows(model, rng):
    return rng.normal(0, 1.5, (7, model.parameters))


@pytest.mark.parametrize("columns", QUERIES, ids=["-".join(query) for query in QUERIES])
def test_a_marginal_of_any_columns_adds_up_records(model, rows, columns):
    found = model.marginal(posterior_at(model, rows), columns, level=0.5)
    truth = np.array([table_of(model, row, columns) for row in rows])
    np.testing.assert_allclose(found.mean, truth.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(found.low, np.quantile(truth, 0.25, axis=0), atol=1e-12)
    np.testing.assert_allclose(found.high, np.quantile(truth, 0.75, axis=0), atol=1e-12)
    assert len(found.labels) == len(found) == truth.shape[1]


def test_columns_may_be_an_array_of_names(model, rows):
    posterior = posterior_at(model, rows)
    found, listed = (model.marginal(posterior, names) for names in (np.array(["d", "c"]), ["d", "c"]))
    assert found.labels == listed.labels
    assert found.columns == ("d", "c")
    np.testing.assert_array_equal(found.mean, listed.mean)


def test_an_arrow_table_without_a_column_is_refused(model, rows):
    records = pa.table({"a": ["x"], "b": ["u"], "c": [0]})
    with pytest.raises(InvalidArgument, match="no column 'd'"):
        model.log_likelihood(posterior_at(model, rows), records)


def test_labels_name_the_cells_they_stand_for(model, rows):
    found = model.marginal(posterior_at(model, rows[:1]), ["c", "b"])
    table = table_of(model, rows[0], ["c", "b"]).reshape(2, 3)
    assert found["c=1, b=u"] == pytest.approx(table[1, 0])
    assert found.interval("c=1, b=u") == pytest.approx((table[1, 0], table[1, 0]))
    assert found.title == "P(c, b)"
    with pytest.raises(InvalidArgument, match="no cell"):
        found["c=2"]


@pytest.mark.parametrize(
    ("columns", "given"),
    [("a", {"b": "v"}), (["c", "d"], {"a": "y"}), (["b"], {"d": "q", "c": 1}), (["a", "c"], {"b": "w", "d": "p"})],
    ids=["neighbour", "two-far", "two-given", "between"],
)
def test_a_conditional_keeps_the_records_with_the_given_levels(model, rows, columns, given):
    found = model.conditional(posterior_at(model, rows), columns, given=given)
    names = [columns] if isinstance(columns, str) else columns
    truth = np.array([table_of(model, row, names, given) for row in rows])
    np.testing.assert_allclose(found.mean, truth.mean(axis=0), atol=1e-12)
    assert found.mean.sum() == pytest.approx(1.0)


def test_a_rare_condition_is_still_conditioned_on(model):
    theta = np.zeros(model.parameters)
    theta[:3] = -60.0  # a = x has probability e^-60
    found = model.conditional(posterior_at(model, theta[None]), "d", given={"a": "x"})
    np.testing.assert_allclose(found.mean, table_of(model, theta, ["d"], {"a": "x"}), rtol=1e-9)


def test_tied_cliques_share_their_potentials(rng):
    model = nw.GraphicalModel.chain(["s", "t", "u"], ["k", "l"], tied=True)
    theta = rng.normal(size=model.parameters)
    assert model.parameters == 2 + 4
    found = model.marginal(posterior_at(model, theta[None]), ["s", "u"])
    np.testing.assert_allclose(found.mean, table_of(model, theta, ["s", "u"]), atol=1e-12)


def test_a_point_answers_without_an_interval(model, rows):
    point = posterior_at(model, rows[:1], is_point=True)
    found = model.marginal(point, "a")
    assert found.low is None
    assert found.high is None
    assert "%" not in str(found)
    with pytest.raises(InvalidArgument, match="posterior"):
        found.interval("a=x")
    assert model.log_likelihood(point, {name: [one[0]] for name, one in LEVELS.items()}).low is None


def test_the_log_likelihood_is_the_mean_log_probability(model, rows):
    records = {"a": ["x", "y", "x"], "b": ["u", "w", "u"], "c": [0, 1, 0], "d": ["p", "q", "p"]}
    each = []
    for row in rows:
        known, p = joint_law(model, row)
        index = [known.index(record) for record in zip(*(records[name] for name in model.columns), strict=True)]
        each.append(np.log(p[index]))
    each = np.array(each)
    arrow = pa.table({**records, "a": pa.array(records["a"]).dictionary_encode()})
    for given in (records, pd.DataFrame(records), pa.Table.from_pydict(records), arrow):
        found = model.log_likelihood(posterior_at(model, rows), given, level=0.8)
        assert found.mean == pytest.approx(each.mean())
        assert (found.low, found.high) == pytest.approx(tuple(np.quantile(each.mean(axis=1), [0.1, 0.9])))
        assert found.predictive == pytest.approx(np.log(np.exp(each).mean(axis=0)).mean())
        assert found.records == 3
        assert found.predictive >= found.mean
    assert "3 records" in str(found)


def test_synthetic_records_have_the_law_of_the_mixture_of_draws(model, rows):
    count = 40_000
    made = model.synthetic(posterior_at(model, rows), count, seed=np.random.SeedSequence().entropy % 2**60)
    known, _ = joint_law(model, rows[0])
    p = np.mean([joint_law(model, row)[1] for row in rows], axis=0)
    tally = dict.fromkeys(known, 0)
    for record in zip(*(made[name].tolist() for name in model.columns), strict=True):
        tally[record] += 1
    counts = np.array([tally[record] for record in known])
    common = p * count >= 5
    pooled = np.append(counts[common], counts[~common].sum())
    expected = np.append(p[common], p[~common].sum()) * count
    keep = expected > 0
    # Shared out evenly among draws, so if anything the counts vary less than multinomial ones.
    assert stats.chisquare(pooled[keep], expected[keep]).pvalue > 1e-6
    assert stats.chisquare(pooled[keep], np.roll(expected[keep], 1)).pvalue < 1e-6  # another law would be seen


def test_synthetic_records_repeat_with_their_seed_and_keep_the_kind_of_levels(model, rows):
    one, two = (model.synthetic(posterior_at(model, rows), 30, seed=5) for _ in range(2))
    assert all(np.array_equal(one[name], two[name]) for name in LEVELS)
    assert one["c"].dtype.kind == "i"
    assert set(one["b"]) <= set(LEVELS["b"])
    assert len(model.synthetic(posterior_at(model, rows), 3, seed=5)["a"]) == 3


def test_the_estimate_has_the_mean_tables_of_the_draws(model, rows):
    theta = model.estimate(posterior_at(model, rows))
    for clique in CLIQUES:
        mean = np.mean([table_of(model, row, clique) for row in rows], axis=0)
        np.testing.assert_allclose(table_of(model, theta, clique), mean, atol=1e-6)
    np.testing.assert_array_equal(model.estimate(posterior_at(model, rows[:1], is_point=True)), rows[0])


def test_answers_are_written_and_drawn(model, rows, tmp_path):
    found = model.conditional(posterior_at(model, rows), ["b"], given={"a": "x"})
    assert str(found).splitlines()[0] == "P(b | a=x)"
    assert "95 %" in str(found)
    assert list(found.to_dict()) == ["cell", "estimate", "low", "high"]
    assert found.plot(tmp_path / "b.png").startswith(b"\x89PNG")
    assert (tmp_path / "b.png").exists()
    point = model.marginal(posterior_at(model, rows[:1], is_point=True), ["b"])
    assert point.plot().startswith(b"\x89PNG")
    assert point.to_dict()["low"] == [None] * 3


def too_large(tables):
    return loopy.engine_for(tables, largest=1)


def test_a_model_too_large_answers_for_its_cliques_and_says_so(model, rows, monkeypatch):
    monkeypatch.setattr(probabilities, "engine_for", too_large)
    posterior = posterior_at(model, rows)
    found = model.marginal(posterior, ["b", "a"])
    truth = np.mean([table_of(model, row, ["b", "a"]) for row in rows], axis=0)
    np.testing.assert_allclose(found.mean, truth, atol=1e-6)  # a tree: loopy propagation is exact there
    assert "Approximate" in str(found)
    given = model.conditional(posterior, ["b"], given={"d": "q"})
    truth = np.mean([table_of(model, row, ["b"], {"d": "q"}) for row in rows], axis=0)
    np.testing.assert_allclose(given.mean, truth, atol=1e-6)
    with pytest.raises(Unsupported, match="no common clique"):
        model.marginal(posterior, ["c", "d"])


def test_records_of_a_model_too_large_are_refused(model, rows, monkeypatch):
    monkeypatch.setattr(synthetic, "engine_for", too_large)
    with pytest.raises(Unsupported, match="junction tree"):
        model.synthetic(posterior_at(model, rows), 10)


def other_model():
    return nw.GraphicalModel([["a", "b"], ["c", "d"]], LEVELS)


@pytest.mark.parametrize(
    ("ask", "argument"),
    [
        (lambda m, p: m.marginal(p, "z"), "columns"),
        (lambda m, p: m.marginal(p, []), "columns"),
        (lambda m, p: m.marginal(p, ["a", "a"]), "columns"),
        (lambda m, p: m.marginal(p, 3), "columns"),
        (lambda m, p: m.marginal(p, "a", level=1.0), "level"),
        (lambda _m, p: other_model().marginal(p, "a"), "posterior"),
        (lambda m, _p: m.marginal("p", "a"), "posterior"),
        (lambda m, p: m.conditional(p, "a", given={}), "given"),
        (lambda m, p: m.conditional(p, "a", given={"z": 1}), "given"),
        (lambda m, p: m.conditional(p, "a", given={"a": "x"}), "given"),
        (lambda m, p: m.conditional(p, "a", given={"b": "nope"}), "given"),
        (lambda m, p: m.log_likelihood(p, {"a": ["x"]}), "records"),
        (lambda m, p: m.log_likelihood(p, [1, 2]), "records"),
        (lambda m, p: m.log_likelihood(p, {"a": ["x"], "b": ["no"], "c": [0], "d": ["p"]}), "records"),
        (lambda m, p: m.log_likelihood(p, {"a": ["x"], "b": ["u", "u"], "c": [0], "d": ["p"]}), "records"),
        (lambda m, p: m.log_likelihood(p, {"a": [], "b": [], "c": [], "d": []}), "records"),
        (lambda m, p: m.synthetic(p, 0), "count"),
        (lambda m, p: m.synthetic(p, 5, seed=-1), "seed"),
    ],
    ids=[str(k) for k in range(18)],
)
def test_bad_questions_are_refused_by_name(model, rows, ask, argument):
    with pytest.raises(InvalidArgument) as caught:
        ask(model, posterior_at(model, rows))
    assert caught.value.argument == argument


def test_a_table_too_large_is_refused():
    wide = nw.GraphicalModel.chain([f"t{k}" for k in range(6)], list(range(10)))
    with pytest.raises(InvalidArgument, match="cells"):
        wide.marginal(posterior_at(wide, np.zeros((1, wide.parameters))), [f"t{k}" for k in range(6)])
