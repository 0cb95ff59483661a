"""Quick intervals: their widths by matrices, their coverage by simulation."""

import numpy as np
import pytest
from graph_problems import problem, published
from graphical_models import CLIQUES, LEVELS, released, schema_of, some_records
from graphs import chain, enumerated

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.graphical import empirical_bayes
from noisewise.graphical.problem import Fit
from noisewise.graphical.quick import errors


def release_of(rng, n=2000, **options):
    """Records whose first levels are the commonest, so that their tables are far from level."""
    lower = {name: np.minimum(*rng.integers(0, len(one), (2, n))) for name, one in LEVELS.items()}
    records = {name: [LEVELS[name][k] for k in index] for name, index in lower.items()}
    return released(nw.Marginals(*CLIQUES), schema_of(LEVELS, n=n), records, **options)


def test_errors_spread_as_the_normal_law_around_the_estimate_does(rng):
    tables = chain(4, 3)
    asked = problem(tables, published(rng, tables, rng.normal(size=tables.cells), n=5000, variance=400.0))
    fit = empirical_bayes.fit(asked)
    mu, wrong = errors(asked, Fit(fit.theta, 0, (), fit.tau), rng, 4000)
    model = enumerated(tables, fit.theta)
    law = model.Sigma @ np.linalg.solve(fit.precision, model.Sigma)
    assert mu == pytest.approx(model.mu, abs=1e-9)
    # A variance of 4000 draws is known to 2.2 %; 27 of them stay within six such.
    assert np.mean(np.square(wrong), axis=1) == pytest.approx(np.diag(law), rel=0.14)
    assert np.abs(wrong.mean(axis=1)).max() < 6 * np.sqrt(np.diag(law).max() / 4000)


def test_intervals_cover_what_they_claim():
    rng, schema, covered = np.random.default_rng(), schema_of({name: range(4) for name in "abcde"}, n=100_000), []
    model = nw.GraphicalModel.chain(list("abcde"), schema)
    plan = nw.plan(nw.Marginals(*model.cliques), schema, guarantee=nw.PureDP("0.5"))
    for _ in range(30):
        truth = np.concatenate([np.log(rng.dirichlet(np.ones(16))) for _ in model.cliques])
        seed = int(rng.integers(2**32))
        found = model.quick(nw.simulate(plan, model, at={"potentials": truth}, seed=seed), seed=seed)
        mu = np.concatenate([model_shares(model, truth, clique) for clique in model.cliques])
        covered.append(np.mean((found.low <= mu) & (mu <= found.high)))
    # Of 64 cells .90 are covered in the mean, with a standard deviation of .04 between data sets.
    assert 0.86 < np.mean(covered) < 0.94


def model_shares(model, potentials, clique):
    """P(clique) by summing over every record."""
    law = enumerated(model.tables, potentials)
    return law.mu[model.tables.part(model.cliques.index(clique))]


def test_a_table_within_a_clique_is_its_margin_and_other_columns_are_refused(rng):
    release, model = release_of(rng), nw.GraphicalModel(CLIQUES, schema_of(LEVELS, n=2000))
    whole, part = model.quick(release, ["b", "a"], seed=3), model.quick(release, "b", seed=3)
    assert whole.labels == model.cell_labels(["b", "a"])
    assert part.mean == pytest.approx(whole.mean.reshape(3, 2).sum(axis=1))
    assert part.interval("b=u")[0] < part["b=u"] < part.interval("b=u")[1]
    every = model.quick(release, seed=3)
    assert every.labels == tuple(label for clique in CLIQUES for label in model.cell_labels(clique))
    assert np.all((every.low >= 0) & (every.high <= 1))
    with pytest.raises(InvalidArgument, match="in no common clique"):
        model.quick(release, ["a", "d"])
    with pytest.raises(InvalidArgument, match="draws"):
        model.quick(release, draws=5)


def test_more_of_the_level_is_wider_and_a_seed_repeats(rng):
    release, model = release_of(rng), nw.GraphicalModel(CLIQUES, schema_of(LEVELS, n=2000))
    narrow, wide = model.quick(release, level=0.5, seed=1), model.quick(release, level=0.99, seed=1)
    assert np.all(wide.high - wide.low > narrow.high - narrow.low)
    assert np.array_equal(narrow.low, model.quick(release, level=0.5, seed=1).low)


def test_weak_releases_are_told(rng):
    model = nw.GraphicalModel(CLIQUES, schema_of(LEVELS, n=2000))
    assert "cover less than they claim" in model.quick(release_of(rng), seed=1).note
    assert "weak" not in model.quick(release_of(rng, guarantee=nw.PureDP(10)), seed=1).note


def test_where_next_to_nothing_is_known_no_interval_is_given(rng):
    model = nw.GraphicalModel(CLIQUES, schema_of(LEVELS, n=5))
    release = release_of(rng, n=5, guarantee=nw.PureDP("0.01"), noise=rng.integers(-9, 9, 16))
    with pytest.raises(Unsupported, match="direct"):
        model.quick(release, seed=1)


def test_tables_that_mix_cells_are_refused(rng):
    schema = schema_of({name: ["x", "y"] for name in "abc"}, n=50)
    records = some_records(rng, 50, {name: ["x", "y"] for name in "abc"})
    release = released(nw.Marginals(["a", "b"], ["b", "c"], tied=True), schema, records)
    with pytest.raises(Unsupported, match="method='posterior'"):
        nw.GraphicalModel.chain(list("abc"), schema, tied=True).quick(release)
