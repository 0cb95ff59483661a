"""Draws from a graphical model: its prior, its records, its releases, and calibration with them."""

from __future__ import annotations

import numpy as np
import pytest
from graphical_models import LEVELS, joint_law, schema_of, table_of
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument


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
