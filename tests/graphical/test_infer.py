"""infer with a graphical model: every method, what it finds and what it says of itself."""

from __future__ import annotations

import numpy as np
import pytest
from graphical_models import CLIQUES, FAST, LEVELS, joint_law, released, schema_of, some_records, table_of, tally

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.graphical import learn, loopy, observed, probabilities
from noisewise.graphical.methods import METHODS


@pytest.mark.parametrize("method", ["map", "collective"])
def test_a_method_without_a_prior_does_not_speak_of_one(model, rng, method):
    schema, records = schema_of(LEVELS, n=500), some_records(rng, 500)
    release = released(nw.Marginals(["a", "b"], ["c"]), schema, records)
    point = nw.infer(release, model, method=method, **FAST)
    assert "No release counts d" in str(point.verdict)
    assert "[b, c] together" in str(point.verdict)
    assert ("there the prior rules" in str(point.verdict)) == (method == "map")
    assert ("and the prior only" in str(point.verdict)) == (method == "map")
    if method == "collective":
        np.testing.assert_allclose(model.marginal(point, "d").mean, 0.5, atol=1e-6)


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
    assert "point estimate" in str(point.verdict)


def test_summary_names_levels_and_the_posterior_can_be_kept(model, rng, tmp_path):
    _, release = strong_release(model, rng, n=20_000)
    posterior = nw.infer(release, model, **FAST)
    assert posterior.check is posterior.known_check
    text = posterior.summary()
    assert "P(a=x)" in text
    assert "P(a, b)" not in text.split("\n\n")[0]
    assert "cannot be checked by this release" in text
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
    assert "No release counts e" in str(posterior.verdict)
    assert "[c, d] together" in str(posterior.verdict)
    np.testing.assert_allclose(posterior.mean["P(e)"], 0.5, atol=0.05)


def test_a_weak_release_is_said_to_be_weak(model, rng):
    schema = schema_of(LEVELS, n=1000)
    for epsilon, is_weak in (("1", True), ("4.9", True), ("20", False), ("100", False)):
        release = released(nw.Marginals(*CLIQUES), schema, some_records(rng, 1000), guarantee=nw.PureDP(epsilon))
        found = observed.observe(model, release)
        assert found.is_weak == is_weak
        assert found.strength == pytest.approx(1000 * float(epsilon), rel=1e-6)
        posterior = nw.infer(release, model, method="map", **FAST)
        assert ("are weak" in str(posterior.verdict)) == is_weak
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
    assert "loopy belief propagation" in str(posterior.verdict)
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
