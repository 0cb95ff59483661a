"""GraphicalModel: what it is made of, what releases say to it, and what infer returns."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from graphical_models import LEVELS, joint_law, released, schema_of, table_of
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, InvalidSpec, Unsupported
from noisewise.graphical import learn, loopy, null_pairs, observed, probabilities
from noisewise.graphical.methods import METHODS
from noisewise.populations.text import population_from_spec
from noisewise.release import Release

CLIQUES = [["a", "b"], ["b", "c"], ["c", "d"]]
FAST = {"draws": 60, "warmup": 60, "chains": 2, "progress": False, "seed": 1}


@pytest.fixture
def model():
    return nw.GraphicalModel(CLIQUES, LEVELS)


def some_records(rng, n, levels=LEVELS):
    return {name: [one[k] for k in rng.integers(0, len(one), n)] for name, one in levels.items()}


def tally(records, columns, levels=LEVELS):
    """Counts of every combination of levels, the last column's changing first."""
    rows = list(zip(*(records[name] for name in columns), strict=True))
    return np.array([rows.count(cell) for cell in itertools.product(*(levels[name] for name in columns))], float)


# ---- structure ----


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
    with pytest.raises(InvalidArgument, match="not a graphical model"):
        nw.GraphicalModel.from_spec({"*": "normal(mean=norm(0, 1), sd=1)"})


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


def test_a_private_n_is_stated_and_a_contradiction_is_mentioned_or_refused(model, rng):
    schema, records = schema_of(LEVELS, n_max=3000), some_records(rng, 1000)
    release = released(nw.Marginals(*CLIQUES), schema, records, guarantee=nw.PureDP(10))
    with pytest.raises(InvalidArgument) as caught:
        model.problem(release)
    assert caught.value.argument == "n"
    point = nw.infer(release, model, method="map", n=1000, **FAST)
    assert "n = 1000, as stated" in point.verdict
    assert point.stated_n == 1000
    assert "a table adds up to 1000" in str(observed.observe(model, release, n=1050).notes)
    with pytest.raises(InvalidArgument, match="State a number near it"):
        model.problem(release, n=1500)


def test_a_tied_table_contradicts_a_stated_n_too(rng):
    levels = {name: ["k", "l"] for name in "stu"}
    chain = nw.GraphicalModel.chain(["s", "t", "u"], levels, tied=True)
    statistic = nw.Marginals(["s", "t"], ["t", "u"], tied=True)
    release = released(statistic, schema_of(levels, n_max=3000), some_records(rng, 1000, levels),
                       guarantee=nw.PureDP(10))  # fmt: skip
    assert "adds up" not in str(observed.observe(chain, release, n=1000).notes)
    with pytest.raises(InvalidArgument, match="State a number near it"):
        chain.problem(release, n=1500)


@pytest.mark.parametrize("method", ["map", "collective"])
def test_a_method_without_a_prior_does_not_speak_of_one(model, rng, method):
    schema, records = schema_of(LEVELS, n=500), some_records(rng, 500)
    release = released(nw.Marginals(["a", "b"], ["c"]), schema, records)
    point = nw.infer(release, model, method=method, **FAST)
    assert "No release counts d" in point.verdict
    assert "[b, c] together" in point.verdict
    assert ("there the prior rules" in point.verdict) == (method == "map")
    assert ("and the prior only" in point.verdict) == (method == "map")
    if method == "collective":
        np.testing.assert_allclose(model.marginal(point, "d").mean, 0.5, atol=1e-6)


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


# ---- infer ----


def strong_release(model, rng, *, n=200_000, guarantee=None):
    theta = rng.normal(0, 0.7, model.parameters)
    schema = schema_of(LEVELS, n=n)
    plan = nw.plan(nw.Marginals(*model.cliques), schema, guarantee=nw.PureDP(4) if guarantee is None else guarantee)
    return theta, nw.simulate(plan, model, at={"potentials": theta}, seed=rng)


@pytest.mark.parametrize("guarantee", [None, nw.ZeroConcentratedDP(2)], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_finds_the_probabilities_when_there_is_much_to_learn_from(model, rng, method, guarantee):
    theta, release = strong_release(model, rng, guarantee=guarantee)
    posterior = nw.infer(release, model, method=method, **FAST)
    assert posterior.method == method
    assert posterior.is_point == (method != "posterior")
    for clique in CLIQUES:
        truth = table_of(model, theta, clique)
        found = np.ravel(posterior.mean[f"P({', '.join(clique)})"])
        # Sampling and noise have a standard deviation of at most 0.0012; 0.01 leaves eight of them.
        np.testing.assert_allclose(found, truth, atol=0.01)
    for name in LEVELS:
        np.testing.assert_allclose(posterior.mean[f"P({name})"], table_of(model, theta, [name]), atol=0.015)
    assert method in ("naive", "collective") or posterior.mean["tau"] > 0


def test_auto_is_the_posterior_and_the_same_seed_gives_the_same_draws(model, rng):
    _, release = strong_release(model, rng, n=20_000)
    one, two = (nw.infer(release, model, **FAST) for _ in range(2))
    assert one.method == "posterior"
    np.testing.assert_array_equal(one.draws["potentials"], two.draws["potentials"])
    assert set(one.draws) == {*model.free, *model.unlisted}
    assert one.draws["P(a, b)"].shape == (2, 60, 2, 3)


def test_draws_are_probabilities_of_potentials_without_their_gauge(model, rng):
    _, release = strong_release(model, rng, n=20_000)
    posterior = nw.infer(release, model, **FAST)
    theta = posterior.draws["potentials"][1, 17]
    np.testing.assert_allclose(
        posterior.draws["P(b, c)"][1, 17].ravel(), table_of(model, theta, ["b", "c"]), atol=1e-10
    )
    np.testing.assert_allclose(posterior.draws["P(d)"][1, 17], table_of(model, theta, ["d"]), atol=1e-10)
    moved = theta.copy()
    moved[:6] += 3.0  # a constant on one table changes nothing, and is not kept
    np.testing.assert_allclose(joint_law(model, moved)[1], joint_law(model, theta)[1], atol=1e-12)
    assert abs(theta[:6].sum()) < 1e-8


def test_a_point_has_no_spread_and_names_the_method_that_has(model, rng):
    _, release = strong_release(model, rng, n=20_000)
    point = nw.infer(release, model, method="map", **FAST)
    for name in ("sd", "ess"):
        with pytest.raises(Unsupported, match="posterior"):
            getattr(point, name)
    assert point.log_evidence is not None
    assert "point estimate" in point.verdict


def test_summary_names_levels_and_the_posterior_can_be_kept(model, rng, tmp_path):
    _, release = strong_release(model, rng, n=20_000)
    posterior = nw.infer(release, model, **FAST)
    text = posterior.summary()
    assert "P(a=x)" in text
    assert "P(a, b)" not in text.split("\n\n")[0]
    assert "not surprising" in text or "unusual" in text or "surprising" in text
    posterior.save(tmp_path / "p.npz")
    again = nw.Posterior.load(tmp_path / "p.npz")
    np.testing.assert_array_equal(again.draws["potentials"], posterior.draws["potentials"])
    one, two = model.marginal(again, ["a", "d"]), again.population.marginal(posterior, ["a", "d"])
    np.testing.assert_array_equal(one.mean, two.mean)
    assert posterior.plot().startswith(b"\x89PNG")


def test_confidential_counts_are_near_the_published_ones_and_add_up_to_n(model, rng):
    schema, records = schema_of(LEVELS, n=400), some_records(rng, 400)
    for guarantee in (nw.PureDP(60), nw.ZeroConcentratedDP(400)):
        release = released(nw.Marginals(*CLIQUES), schema, records, guarantee=guarantee)
        posterior = nw.infer(release, model, **FAST)
        found = posterior.statistic
        counts = np.concatenate([tally(records, clique) for clique in CLIQUES])
        np.testing.assert_allclose(found.mean, counts, atol=1.0)  # the noise has sd 0.1 or less
        np.testing.assert_allclose(found.draws[:, :6].sum(axis=1), 400, atol=1e-6)


def test_columns_and_cliques_that_no_release_counts_are_named(rng):
    model = nw.GraphicalModel([*CLIQUES, ["d", "e"]], {**LEVELS, "e": [0, 1]})
    schema, records = schema_of(LEVELS, n=5000), some_records(rng, 5000)
    releases = [released(nw.Marginals(*CLIQUES[:2]), schema, records), released(nw.Histogram("d"), schema, records)]
    posterior = nw.infer(releases, model, method="map", **FAST)
    assert "No release counts e" in posterior.verdict
    assert "[c, d] together" in posterior.verdict
    np.testing.assert_allclose(posterior.mean["P(e)"], 0.5, atol=0.05)


def test_a_weak_release_is_said_to_be_weak(model, rng):
    schema = schema_of(LEVELS, n=1000)
    for epsilon, is_weak in (("1", True), ("4.9", True), ("20", False), ("100", False)):
        release = released(nw.Marginals(*CLIQUES), schema, some_records(rng, 1000), guarantee=nw.PureDP(epsilon))
        found = observed.observe(model, release)
        assert found.is_weak == is_weak
        assert found.strength == pytest.approx(1000 * float(epsilon), rel=1e-6)
        posterior = nw.infer(release, model, method="map", **FAST)
        assert ("are weak" in posterior.verdict) == is_weak
    gaussian = released(nw.Marginals(*CLIQUES), schema, some_records(rng, 1000), guarantee=nw.ZeroConcentratedDP("0.5"))
    # n sqrt(2) 2k / sd with sd = sqrt(2k): sqrt(2) sqrt(6) n
    assert observed.observe(model, gaussian).strength == pytest.approx(1000 * np.sqrt(12), rel=0.01)


def test_a_model_too_large_for_a_tree_says_so_and_refuses_tables_across_it(model, rng, monkeypatch):
    def too_large(tables):
        return loopy.engine_for(tables, largest=1)

    for module in (observed, probabilities):
        monkeypatch.setattr(module, "engine_for", too_large)
    theta, release = strong_release(model, rng)
    posterior = nw.infer(release, model, method="map", **FAST)
    assert "loopy belief propagation" in posterior.verdict
    np.testing.assert_allclose(np.ravel(posterior.mean["P(a, b)"]), table_of(model, theta, ["a", "b"]), atol=0.01)
    schema = schema_of(LEVELS, n=200_000)
    single = nw.simulate(nw.plan(nw.Histogram("b"), schema, guarantee=nw.PureDP(4)), model,
                         at={"potentials": theta}, seed=rng)  # fmt: skip
    (holder,) = model.problem(single).holders
    assert holder.sums.shape[0] == 3
    across = nw.simulate(nw.plan(nw.Marginals(["a", "d"]), schema, guarantee=nw.PureDP(4)), model,
                         at={"potentials": theta}, seed=rng)  # fmt: skip
    with pytest.raises(Unsupported, match="no common clique"):
        model.problem(across)


def test_many_draws_of_many_cells_are_thinned_or_left_out(model, rng, monkeypatch):
    _, release = strong_release(model, rng, n=20_000)
    monkeypatch.setattr(learn, "MOST_NUMBERS", 2 * 60 * model.parameters)
    posterior = nw.infer(release, model, **FAST)
    assert "P(a, b)" not in posterior.draws
    assert "not kept" in str(posterior.verdict)
    assert model.marginal(posterior, ["a", "b"]).mean.sum() == pytest.approx(1)
    monkeypatch.setattr(learn, "MOST_NUMBERS", 2 * 20 * model.parameters)
    assert nw.infer(release, model, **FAST).draws["potentials"].shape == (2, 20, model.parameters)


@pytest.mark.parametrize(
    ("options", "argument"),
    [({"method": "exact"}, "method"), ({"method": "map", "ridge": 1}, "ridge"), ({"likelihood": "exact"}, "likelihood"),
     ({"draws": 0}, "draws"), ({"steps": 3}, "steps")],
    ids=["method", "option", "likelihood", "draws", "steps"],
)  # fmt: skip
def test_bad_settings_are_refused_by_name(model, rng, options, argument):
    _, release = strong_release(model, rng, n=2000)
    with pytest.raises(InvalidArgument) as caught:
        nw.infer(release, model, **{**FAST, **options})
    assert caught.value.argument == argument


def test_options_reach_their_method(model, rng):
    _, release = strong_release(model, rng, n=20_000)
    shrunk = nw.infer(release, model, method="naive", ridge=100.0, **FAST)
    np.testing.assert_allclose(shrunk.mean["potentials"], 0, atol=0.01)
    assert "1 step" in nw.infer(release, model, method="collective", steps=1, **FAST).because


# ---- simulation ----


def test_the_prior_has_the_width_and_the_probabilities_it_says(model, rng):
    drawn = model.sample_prior(rng, 4000)
    assert stats.kstest(drawn["tau"] ** 2, stats.invgamma(2, scale=0.5).cdf).pvalue > 1e-6
    assert stats.kstest(drawn["tau"] ** 2, stats.invgamma(2, scale=0.8).cdf).pvalue < 1e-6
    np.testing.assert_allclose(
        drawn["P(a, b)"][3].ravel(), table_of(model, drawn["potentials"][3], ["a", "b"]), atol=1e-10
    )
    # One column with two levels: the log odds are tau times the difference of two t_4, whose law does not need tau.
    coin = nw.GraphicalModel([["a"]], {"a": ["x", "y"]})
    one = coin.sample_prior(rng, 4000)
    odds = np.log(one["P(a)"][:, 0] / one["P(a)"][:, 1]) / one["tau"]
    other = rng.standard_t(4, 40_000) - rng.standard_t(4, 40_000)
    assert stats.ks_2samp(odds, other).pvalue > 1e-6
    assert stats.ks_2samp(odds, 2 * other).pvalue < 1e-6


def test_simulated_releases_have_the_tables_and_the_noise_they_should(model, rng):
    theta = rng.normal(size=model.parameters)
    schema = schema_of({**LEVELS, "b": ["w", "v", "u"]}, n=500)  # another order of levels than the model's
    plan = nw.plan(nw.Marginals(["b", "a"], ["d", "a"]), schema, guarantee=nw.PureDP(1))
    rows = model.theta_at({"potentials": np.tile(theta, (3000, 1))})
    values = model.simulate_values(rng, plan, rows)
    first = table_of(model, theta, ["b", "a"]).reshape(3, 2)[::-1].ravel()
    mean = 500 * np.concatenate([first, table_of(model, theta, ["d", "a"])])
    variance = mean * (1 - mean / 500) + plan.law.sd[0] ** 2
    z = (values.mean(axis=0) - mean) / np.sqrt(variance / 3000)
    assert np.all(np.abs(z) < 6)
    ratio = values.var(axis=0) / variance
    assert np.all((ratio > 0.7) & (ratio < 1.4))


def test_a_simulation_of_tied_tables_counts_as_the_holder_does(rng):
    levels = {name: ["off", "on"] for name in "stu"}
    model = nw.GraphicalModel.chain(list("stu"), levels, tied=True)
    schema = schema_of(levels, n=400)
    theta = rng.normal(0, 0.7, model.parameters)
    records, p = joint_law(model, theta)
    for null in (None, "off"):
        statistic = nw.Marginals(["s", "t"], ["t", "u"], tied=True, **({} if null is None else {"null": null}))
        plan = nw.plan(statistic, schema, guarantee=nw.PureDP(1))
        values = model.simulate_values(rng, plan, model.theta_at({"potentials": np.tile(theta, (300, 1))}))
        codes = {name: np.array([[record[v] == "on" for record in records]], int).T for v, name in enumerate("stu")}
        each = statistic.value(codes, schema).reshape(len(records), -1)  # one record a data set
        mean = 400 * p @ each
        variance = 400 * (p @ each**2 - (p @ each) ** 2) + plan.law.sd[0] ** 2
        z = (values.mean(axis=0) - mean) / np.sqrt(variance / 300)
        assert np.all(np.abs(z) < 6)


def test_simulation_needs_potentials_and_an_n(model, rng):
    schema = schema_of(LEVELS, n_max=50)
    plan = nw.plan(nw.Marginals(["a", "b"]), schema, guarantee=nw.PureDP(1))
    with pytest.raises(InvalidArgument) as caught:
        nw.simulate(plan, model, seed=1)
    assert caught.value.argument == "n"
    assert nw.simulate(plan, model, seed=1, n=20).simulated
    for at in ({}, {"potentials": [1.0]}, {"potentials": [np.nan] * 16}, {"potentials": "x"}, 3):
        with pytest.raises(InvalidArgument) as caught:
            nw.simulate(plan, model, at=at, seed=1, n=20)
        assert caught.value.argument == "at"
    with pytest.raises(InvalidArgument):
        model.sample_prior(3, 1)


def test_a_trial_of_calibration_runs_through(rng):
    model = nw.GraphicalModel([["a", "b"], ["b", "c"]], {"a": [0, 1], "b": [0, 1], "c": [0, 1]})
    schema = schema_of({"a": [0, 1], "b": [0, 1], "c": [0, 1]}, n=4000)
    plan = nw.plan(nw.Marginals(["a", "b"], ["b", "c"]), schema, guarantee=nw.PureDP("0.5"))
    again = nw.plan(nw.Histogram("c"), schema, guarantee=nw.PureDP("0.5"))
    for plans in (plan, [plan, again]):
        found = nw.calibrate(plans, model, trials=2, draws=10, seed=int(rng.integers(2**32)), progress=False, warmup=50)
        assert found.trials == 2
        assert not found.failures
        assert "P(a)[0]" in found.names


def test_records_are_numbered_as_the_schema_numbers_levels(model, rng):
    theta = np.zeros((1, model.parameters))
    theta[0, 0:6] = [9, 0, 0, 0, 0, 0]  # a = x with b = u, nearly always
    schema = schema_of({**LEVELS, "b": ["w", "v", "u"]}, n=50)
    records = model.sample_records(rng, schema, 200, {"potentials": theta}, ["b", "a"])
    assert records["b"].shape == (1, 200)
    assert np.mean(records["b"] == 2) > 0.9
    assert np.mean(records["a"] == 0) > 0.9


@pytest.mark.slow
def test_the_posterior_is_calibrated_where_the_truth_comes_from_the_prior(rng):
    levels = {"a": [0, 1], "b": [0, 1, 2], "c": [0, 1]}
    model = nw.GraphicalModel([["a", "b"], ["b", "c"]], levels)
    plan = nw.plan(nw.Marginals(["a", "b"], ["b", "c"]), schema_of(levels, n=5000), guarantee=nw.PureDP("0.3"))
    settings = {"trials": 60, "draws": 30, "warmup": 200, "chains": 2, "progress": False}
    found = nw.calibrate(plan, model, seed=int(rng.integers(2**32)), **settings)
    assert not found.failures
    assert found.is_calibrated()
