"""What releases say to a graphical model: which cells they count, of whom, and which are refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from graphical_models import CLIQUES, FAST, LEVELS, released, schema_of, some_records, table_of, tally

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.graphical import null_pairs, observed
from noisewise.release import Release

# ---- what releases say ----


def test_tables_are_read_whatever_the_order_of_columns_and_levels(model, rng):
    levels = {"d": ["q", "p"], "b": ["w", "u", "v"], "a": ["y", "x"], "c": [1, 0]}
    schema = schema_of(levels, n=40)
    statistic = nw.Marginals(["b", "a"], ["d", "a"], ["c"], ["d", "c", "b"])
    records = some_records(rng, 40)
    problem = model.problem(released(statistic, schema, records))
    (holder,) = problem.holders
    counts = np.concatenate([tally(records, clique, levels) for clique in statistic.cliques])
    np.testing.assert_array_equal(holder.observed, counts)
    theta = rng.normal(size=model.parameters)
    _, mu = problem.engine.marginals(problem.potentials(theta))
    found = holder.sums @ mu
    turned = nw.GraphicalModel(CLIQUES, levels)  # the levels in the release's order
    order = {name: [LEVELS[name].index(level) for level in levels[name]] for name in LEVELS}
    pieces = []
    for clique in model.cliques:
        table = theta[model.spread[model.tables.part(model.cliques.index(clique))]]
        table = table.reshape([len(LEVELS[name]) for name in clique])
        pieces.append(table[np.ix_(*(order[name] for name in clique))].ravel())
    expected = np.concatenate([table_of(turned, np.concatenate(pieces), clique) for clique in statistic.cliques])
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert [part.stop - part.start for part in holder.tables] == [6, 4, 2, 12]


def test_a_tied_table_is_read_in_persons(rng):
    levels = {name: ["k", "l"] for name in "stu"}
    model = nw.GraphicalModel.chain(list("stu"), levels, tied=True)
    records = some_records(rng, 30, levels)
    release = released(nw.Marginals(["s", "t"], ["t", "u"], tied=True), schema_of(levels, n=30), records)
    (holder,) = model.problem(release).holders
    mean = (tally(records, ["s", "t"], levels) + tally(records, ["t", "u"], levels)) / 2
    np.testing.assert_allclose(holder.observed, mean)
    theta = rng.normal(size=model.parameters)
    problem = model.problem(release)
    _, mu = problem.engine.marginals(problem.potentials(theta))
    expected = (table_of(model, theta, ["s", "t"]) + table_of(model, theta, ["t", "u"])) / 2
    np.testing.assert_allclose(holder.sums @ mu, expected, atol=1e-12)
    assert holder.variance[0] == pytest.approx((release.law.sd[0] / 2) ** 2)


def test_a_first_column_that_only_a_tied_table_counts_is_named(rng):
    levels = {name: ["k", "l"] for name in "stu"}
    model = nw.GraphicalModel.chain(list("stu"), levels, tied=True)
    schema, records = schema_of(levels, n=30), some_records(rng, 30, levels)
    tied = released(nw.Marginals(["s", "t"], ["t", "u"], tied=True), schema, records)
    assert "[s] is counted only in a tied table" in str(observed.observe(model, tied).notes)
    both = [tied, released(nw.Histogram("s"), schema, records)]
    assert "tied table" not in str(observed.observe(model, both).notes)


def test_the_same_records_stack_and_others_multiply(model, rng):
    schema, records = schema_of(LEVELS, n=20), some_records(rng, 20)
    one = released(nw.Marginals(["a", "b"]), schema, records, dataset="one")
    two = released(nw.Histogram("c"), schema, records, dataset="one")
    three = released(nw.Marginals(["a", "b"]), schema, records, dataset="two")
    found = observed.observe(model, [one, two, three])
    assert [len(holder.observed) for holder in found.problem.holders] == [6 + 2, 6]
    assert found.problem.n == 40
    # n epsilon: the same records add it up, other records in squares.
    assert found.strength == pytest.approx(np.hypot(40, 20), rel=0.1)


def test_laplace_and_gaussian_noise_on_the_same_records_is_refused(model, rng):
    schema, records = schema_of(LEVELS, n=20), some_records(rng, 20)
    one = released(nw.Marginals(["a", "b"]), schema, records)
    two = released(nw.Marginals(["b", "c"]), schema, records, guarantee=nw.ZeroConcentratedDP("0.5"))
    with pytest.raises(Unsupported, match="one kind of noise"):
        model.problem([one, two])


def test_overlapping_parts_are_refused(model, rng):
    schema, records = schema_of(LEVELS, n=20), some_records(rng, 10)
    releases = [released(nw.Marginals(["a", "b"]), schema, records, part=part) for part in ((0, "1/2"), ("1/4", "3/4"))]
    with pytest.raises(Unsupported, match="overlapping"):
        model.problem(releases)


def test_a_private_n_is_stated_and_a_contradiction_is_named_or_refused(model, rng):
    schema, records = schema_of(LEVELS, n_max=3000), some_records(rng, 1000)
    release = released(nw.Marginals(*CLIQUES), schema, records, guarantee=nw.PureDP(10))
    with pytest.raises(InvalidArgument) as caught:
        model.problem(release)
    assert caught.value.argument == "n"
    point = nw.infer(release, model, method="map", n=1000, **FAST)
    assert "n = 1000, as stated" in str(point.verdict)
    assert point.stated_n == 1000
    named = next(n for n in range(1000, 1050) if observed.observe(model, release, n=n).warnings)
    assert "the sum of the table of" in str(observed.observe(model, release, n=named).warnings)
    assert str(nw.infer(release, model, method="map", n=named, **FAST).verdict).startswith(
        f"n = {named} was stated, but"
    )
    with pytest.raises(InvalidArgument, match="State a number that agrees"):
        model.problem(release, n=1050)


def test_a_tied_table_contradicts_a_stated_n_too(rng):
    levels = {name: ["k", "l"] for name in "stu"}
    chain = nw.GraphicalModel.chain(["s", "t", "u"], levels, tied=True)
    statistic = nw.Marginals(["s", "t"], ["t", "u"], tied=True)
    release = released(statistic, schema_of(levels, n_max=3000), some_records(rng, 1000, levels),
                       guarantee=nw.PureDP(10))  # fmt: skip
    assert observed.observe(chain, release, n=1000).warnings == ()
    with pytest.raises(InvalidArgument, match="State a number that agrees"):
        chain.problem(release, n=1500)


def test_releases_of_other_things_are_refused(model):
    other = released(nw.Histogram("z"), schema_of({"z": [0, 1]}, n=5), {"z": [0, 1, 0, 1, 1]})
    with pytest.raises(InvalidArgument, match="does not have"):
        model.problem(other)
    levels = released(nw.Histogram("a"), schema_of({"a": ["x", "z"]}, n=2), {"a": ["x", "z"]})
    with pytest.raises(InvalidArgument, match="has the levels"):
        model.problem(levels)
    plan = nw.plan(nw.Count(nw.column("a").equals("x")), schema_of(LEVELS, n=5), guarantee=nw.PureDP(1))
    with pytest.raises(Unsupported, match="learns from tables"):
        model.problem(Release.of(plan, [3], dataset="made", ledger_head=None, simulated=True))


def test_a_numeric_column_is_refused(model):
    schema = nw.Schema({"a": nw.Bounded(0, 1)}, n=5, neighbours="change-one")
    plan = nw.plan(nw.Histogram("a", edges=[0.5]), schema, guarantee=nw.PureDP(1))
    release = Release.of(plan, [3, 2], dataset="made", ledger_head=None, simulated=True)
    with pytest.raises(Unsupported, match="numeric"):
        model.problem(release)


def test_populations_refuse_a_design_with_a_graphical_model(model):
    plan = nw.plan(nw.Marginals(*CLIQUES), schema_of(LEVELS, n=100), guarantee=nw.PureDP(1))
    for ask in (lambda: nw.choose([plan], model), lambda: nw.information(plan, model)):
        with pytest.raises(Unsupported, match="Gaussian noise is less"):
            ask()


# ---- people with nothing to count ----


def test_the_share_of_empty_steps_solves_its_equation():
    for first, idle, steps in ((0.2, 0.3, 5), (0.05, 1e-4, 9), (0.4, 0.9, 2)):
        s = null_pairs.empty_share(first, idle, steps)
        p = s + (1 - s) * first
        assert p * (s / p) ** steps == pytest.approx(idle)
    assert null_pairs.empty_share(0.2, 0.3, 5) < null_pairs.empty_share(0.2, 0.4, 5)


def test_a_table_without_empty_steps_is_that_of_the_others(rng):
    """A chain that forgets at once: the empty share is the product of the empty levels' probabilities."""
    names, n, off = list("stuv"), 60_000, 0.6
    levels = ["off", "k", "l"]
    schema = schema_of(dict.fromkeys(names, levels), n=n)
    records = {name: rng.choice(levels, size=n, p=[off, 0.3, 0.1]).tolist() for name in names}
    pairs = list(itertools.pairwise(names))
    release = released(nw.Marginals(*pairs, tied=True, null="off"), schema, records)
    model = nw.GraphicalModel.chain(names, levels, tied=True)
    found = observed.observe(model, release)
    (holder,) = found.problem.holders
    assert holder.n == pytest.approx(n * (1 - off**4), rel=0.02)
    assert len(holder.observed) == 8
    assert "not 'off'" in str(found.notes)
    share = 1 - 1 / (holder.sums.data[0] * 3)
    assert share == pytest.approx(off**2, abs=0.06)  # an approximation: people with few steps weigh more


def test_a_table_without_empty_steps_joins_no_other_of_the_same_records(rng):
    levels = {name: ["off", "on"] for name in "stu"}
    schema, records = schema_of(levels, n=300), some_records(rng, 300, levels)
    model = nw.GraphicalModel.chain(list("stu"), levels, tied=True)
    tied = released(nw.Marginals(["s", "t"], ["t", "u"], tied=True, null="off"), schema, records)
    with pytest.raises(Unsupported, match="only some of the people"):
        model.problem([tied, released(nw.Histogram("s"), schema, records)])
    swamped = released(nw.Marginals(["s", "t"], ["t", "u"], tied=True, null="off"), schema, records,
                       guarantee=nw.PureDP("0.001"))  # fmt: skip
    with pytest.raises(Unsupported, match="too little is left"):
        model.problem(swamped)
