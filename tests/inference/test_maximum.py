"""Points: maximum likelihood and posterior mode against closed forms, grids and quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.inference.ascent import climbed
from noisewise.inference.transform import Transform
from noisewise.likelihood.joint import joint_likelihood
from noisewise.release import Release

X = nw.column("x")
WIDE = nw.Schema({"x": nw.Bounded(-100, 100)}, n=400, neighbours="change-one")
QUIET = {"progress": False, "seed": 1}


def real(statistic, schema, guarantee, estimate) -> Release:
    """A release whose value is next to the estimate."""
    made = nw.plan(statistic, schema, guarantee=guarantee)
    blank = Release.of(made, [0] * len(statistic.labels(schema)), dataset="d", ledger_head=None, simulated=False)
    steps = np.asarray(blank.law.read(np.ones(len(blank.value)))) / blank.divisor
    return Release.of(
        made, [round(value / step) for value, step in zip(estimate, steps, strict=True)], dataset="d",
        ledger_head=None, simulated=False,
    )  # fmt: skip


def test_without_noise_to_speak_of_it_is_the_closed_estimate():
    release = real(nw.Mean(X, X**2), WIDE, nw.GaussianDP(10_000), [12.5, 12.5**2 + 9.0])
    population = nw.Normal(mean=stats.norm(0, 100), sd=stats.halfnorm(scale=100))
    found = nw.infer(release, population, method="mle", **QUIET)
    assert found.mean["mean"] == pytest.approx(12.5, abs=1e-3)
    assert found.mean["sd"] == pytest.approx(3.0, rel=5e-3)  # the sum of squares is normal only in the limit
    assert found.standard_errors["mean"] == pytest.approx(3 / np.sqrt(400), rel=5e-3)
    assert found.standard_errors["sd"] == pytest.approx(3 / np.sqrt(800), rel=5e-3)
    share = nw.Schema({"b": nw.Levels(["no", "yes"])}, n=400, neighbours="change-one")
    counted = real(nw.Count(nw.column("b").equals("yes")), share, nw.PureDP(40), [100])
    found = nw.infer(counted, nw.Bernoulli(p=stats.beta(2, 3)), method="mle", **QUIET)
    assert found.mean["p"] == pytest.approx(0.25, abs=1e-6)
    assert found.standard_errors["p"] == pytest.approx(np.sqrt(0.25 * 0.75 / 400), rel=1e-3)
    mode = nw.infer(counted, nw.Bernoulli(p=stats.beta(2, 3)), method="map", **QUIET)
    assert mode.mean["p"] == pytest.approx((100 + 1) / (400 + 1 + 2), abs=1e-5)  # of Beta(102, 303)


@pytest.fixture(scope="module")
def noisy():
    """A release with Laplace noise, a population with two unknowns, and log prior and likelihood of both."""
    schema = nw.Schema({"x": nw.Bounded(0, 10)}, n=1500, neighbours="change-one")
    population = nw.Gamma(shape=stats.gamma(3, scale=1), rate=stats.gamma(3, scale=0.5))
    plan = nw.plan(nw.Mean(X, X**2), schema, guarantee=nw.PureDP(1))
    release = nw.simulate(plan, population, at={"shape": 3.0, "rate": 1.0}, seed=5)
    return release, population


@pytest.mark.parametrize("method", ["mle", "map"])
def test_no_point_of_a_grid_is_higher(noisy, method):
    release, population = noisy
    found = nw.infer(release, population, method=method, **QUIET)
    law = joint_likelihood((release,), population)

    def height(shape, rate):
        theta = {"shape": np.ravel(shape), "rate": np.ravel(rate)}
        return law.log_likelihood(theta) + (population.log_prior(theta) if method == "map" else 0.0)

    best = height(found.mean["shape"], found.mean["rate"])[0]
    errors = found.standard_errors
    wide = np.meshgrid(np.linspace(0.3, 12, 60), np.linspace(0.1, 5, 60))
    near = np.meshgrid(*(found.mean[name] + errors[name] * np.linspace(-3, 3, 61) for name in ("shape", "rate")))
    assert height(*wide).max() <= best + 1e-6
    assert height(*near).max() <= best + 1e-6


def test_standard_errors_are_the_inverse_of_the_observed_information(noisy):
    release, population = noisy
    found = nw.infer(release, population, method="mle", **QUIET)
    law, centre = joint_likelihood((release,), population), np.array([found.mean["shape"], found.mean["rate"]])

    def height(at):
        return law.log_likelihood({"shape": np.array([at[0]]), "rate": np.array([at[1]])})[0]

    step = 0.01 * np.array([found.standard_errors["shape"], found.standard_errors["rate"]])
    hessian = np.zeros((2, 2))
    for i in range(2):
        for j in range(2):
            a, b = np.eye(2)[i] * step, np.eye(2)[j] * step
            hessian[i, j] = (
                height(centre + a + b) - height(centre + a - b) - height(centre - a + b) + height(centre - a - b)
            ) / (4 * step[i] * step[j])
    by_hand = np.sqrt(np.diag(np.linalg.inv(-hessian)))
    assert found.standard_errors["shape"] == pytest.approx(by_hand[0], rel=0.01)
    assert found.standard_errors["rate"] == pytest.approx(by_hand[1], rel=0.01)


def test_answers_of_a_point_have_standard_errors_by_the_delta_method(noisy):
    release, population = noisy
    found = nw.infer(release, population, method="mle", **QUIET)
    shape, rate = found.mean["shape"], found.mean["rate"]
    transform = Transform(population.supports)
    scale = np.diag([shape, rate])  # d theta / d log theta
    covariance = scale @ found.covariance @ scale
    gradient = np.array([1 / rate, -shape / rate**2])
    mean = found.answers()["mean"]
    assert transform.size == 2
    assert mean.estimate == pytest.approx(shape / rate)
    assert mean.sd == pytest.approx(np.sqrt(gradient @ covariance @ gradient), rel=1e-4)
    assert mean.low is None
    assert f"standard error {mean.sd:.2g}" in found.sentence
    twice = found.quantity(lambda p: 2 * p.mean())
    assert twice.sd == pytest.approx(2 * mean.sd)
    above = found.answers(shares=(4,))["share above 4"]
    at = [stats.gamma(shape + d, scale=1 / (rate + e)).sf(4) for d, e in ((1e-5, 0), (-1e-5, 0), (0, 1e-5), (0, -1e-5))]
    gradient = np.array([at[0] - at[1], at[2] - at[3]]) / 2e-5
    assert above.sd == pytest.approx(np.sqrt(gradient @ covariance @ gradient), rel=1e-3)


def test_with_much_data_and_gaussian_noise_it_is_the_posterior():
    schema = nw.Schema({"x": nw.Bounded(0, 100)}, n=100_000, neighbours="change-one")
    population = nw.Normal(mean=stats.norm(50, 30), sd=stats.halfnorm(scale=30))
    plan = nw.plan(nw.Mean(X, X**2), schema, guarantee=nw.GaussianDP(1))
    release = nw.simulate(plan, population, at={"mean": 52.0, "sd": 12.0}, seed=6, approximate=True)
    exact = nw.infer(release, population, **QUIET)
    for method in ("mle", "map"):
        point = nw.infer(release, population, method=method, **QUIET)
        for name in ("mean", "sd"):
            assert abs(point.mean[name] - exact.mean[name]) < 0.1 * exact.sd[name]
            assert point.standard_errors[name] == pytest.approx(exact.sd[name], rel=0.05)


def test_of_two_hills_the_higher_one_is_found_and_the_other_is_told():
    schema = nw.Schema({"x": nw.Bounded(-10, 10)}, n=2000, neighbours="change-one")
    release = real(nw.Mean(abs(X)), schema, nw.GaussianDP(1), [3.0])
    both = nw.Normal(mean=stats.norm(0, 5), sd=1.0)
    found = nw.infer(release, both, method="mle", likelihood="clt", **QUIET)
    assert abs(found.mean["mean"]) == pytest.approx(3.0, abs=0.01)
    assert "1 other top lies nearly as high elsewhere" in str(found.verdict)
    assert found.sentence.startswith("Caution: ")
    leaning = nw.Normal(mean=stats.norm(3, 1), sd=1.0)
    alone = nw.infer(release, leaning, method="map", likelihood="clt", **QUIET)
    assert alone.mean["mean"] == pytest.approx(3.0, abs=0.01)


def test_an_estimate_at_the_end_of_its_support_is_said_to_be_there():
    share = nw.Schema({"b": nw.Levels(["no", "yes"])}, n=100, neighbours="change-one")
    counted = real(nw.Count(nw.column("b").equals("yes")), share, nw.PureDP(1), [-4])
    found = nw.infer(counted, nw.Bernoulli(p=stats.beta(1, 1)), method="mle", **QUIET)
    assert found.mean["p"] < 1e-6
    assert np.isnan(found.standard_errors["p"])
    assert "p lies at an end of the prior's support" in str(found.verdict)
    assert found.verdict.warns
    assert "nan" not in found.summary()
    four = nw.Schema({"c": nw.Levels(list("abcd"))}, n=100, neighbours="change-one")
    for order in ([40, 30, 38, -8], [-8, 40, 30, 38]):
        told = nw.infer(
            real(nw.Histogram("c"), four, nw.PureDP(1), order), nw.Categorical(p=stats.dirichlet([1] * 4)),
            method="mle", **QUIET,
        )  # fmt: skip
        place = int(np.argmin(order))
        assert told.mean["p"][place] < 1e-6
        assert f"p[{place}] lies at an end" in str(told.verdict)
        assert told.mean["p"].sum() == pytest.approx(1)


def test_what_the_release_does_not_settle_has_no_standard_errors():
    population = nw.Normal(mean=stats.norm(0, 100), sd=stats.halfnorm(scale=100))
    release = real(nw.Count(X.between(0, 100)), WIDE, nw.PureDP(1), [300])
    found = nw.infer(release, population, method="mle", **QUIET)
    assert found.covariance is None
    assert "not positive definite" in str(found.verdict)
    assert found.verdict.warns
    with pytest.raises(Unsupported, match=r"has no standard errors here: .*Use method='exact'"):
        _ = found.standard_errors
    assert found.answers()["mean"].sd is None


def test_a_point_has_no_sd_and_names_what_has_one(noisy, tmp_path):
    release, population = noisy
    found = nw.infer(release, population, method="map", **QUIET)
    assert found.is_point
    for member in ("sd", "ess"):
        with pytest.raises(Unsupported, match="Use method='exact'"):
            getattr(found, member)
    with pytest.raises(Unsupported, match="has no interval"):
        found.interval()
    with pytest.raises(Unsupported, match="has no rank"):
        found.rank("mean")
    with pytest.raises(Unsupported, match="gives a point"):
        _ = found.evidence
    assert "standard error" in found.summary()
    found.save(tmp_path / "point")
    again = nw.Posterior.load(tmp_path / "point")
    assert again.standard_errors == found.standard_errors
    assert again.summary() == found.summary()
    with pytest.raises(Unsupported, match=r"a posterior has posterior\.sd"):
        _ = nw.infer(release, population, draws=50, **QUIET).standard_errors


def test_a_forged_covariance_is_refused(noisy, tmp_path):
    from dataclasses import replace

    release, population = noisy
    found = nw.infer(release, population, method="map", **QUIET)
    for wrong in (np.eye(3), -np.eye(2), np.full((2, 2), np.nan), np.array([[1.0, 5.0], [0.0, 1.0]])):
        replace(found, covariance=wrong).save(tmp_path / "point")
        with pytest.raises(InvalidArgument, match="its covariance is none of its unknowns"):
            nw.Posterior.load(tmp_path / "point")


def test_several_columns_and_a_stated_n():
    schema = nw.Schema({"x": nw.Bounded(0, 10), "b": nw.Levels(["no", "yes"])}, n_max=10_000, neighbours="add-remove")
    population = nw.Joint(x=nw.Normal(mean=stats.norm(5, 3), sd=2.0), b=nw.Bernoulli(p=stats.beta(1, 1)))
    at = {"x.mean": 4.0, "b.p": 0.3}
    plans = [nw.Sum(X), nw.Count(nw.column("b").equals("yes"))]
    releases = [
        nw.simulate(nw.plan(s, schema, guarantee=nw.PureDP(1)), population, at=at, seed=7, n=2000) for s in plans
    ]
    exact = nw.infer(releases, population, n=2000, **QUIET)
    found = nw.infer(releases, population, n=2000, method="mle", **QUIET)
    for name in at:
        assert abs(found.mean[name] - exact.mean[name]) < 0.2 * exact.sd[name]
        assert found.standard_errors[name] == pytest.approx(exact.sd[name], rel=0.2)
    assert "It holds if n = 2000, as stated" in str(found.verdict)


def test_what_no_release_tells_about_has_no_maximum_likelihood():
    schema = nw.Schema({"x": nw.Bounded(0, 10), "y": nw.Bounded(0, 10)}, n=500, neighbours="change-one")
    population = nw.Joint(x=nw.Normal(mean=stats.norm(5, 3), sd=2.0), y=nw.Normal(mean=stats.norm(5, 3), sd=2.0))
    release = real(nw.Mean(X), schema, nw.PureDP(1), [4.0])
    with pytest.raises(Unsupported, match=r"No release tells about y\.mean"):
        nw.infer(release, population, method="mle", **QUIET)
    mode = nw.infer(release, population, method="map", **QUIET)
    assert mode.mean["y.mean"] == pytest.approx(5.0, abs=1e-6)
    assert mode.standard_errors["y.mean"] == pytest.approx(3.0, rel=1e-3)


def test_a_climb_finds_the_top_of_a_bent_hill():
    def banana(z):
        return -100 * (z[:, 1] - z[:, 0] ** 2) ** 2 - (1 - z[:, 0]) ** 2

    top = climbed(banana, np.array([-1.2, 1.0]), np.ones(2), np.zeros(2, bool))
    np.testing.assert_allclose(top.position, [1, 1], atol=1e-3)
    np.testing.assert_allclose(top.information, [[802, -400], [-400, 200]], rtol=0.01)
