"""Local answers: closed forms chosen by structure, and thousands of answers summed through few nodes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.likelihood.answers import Summed
from noisewise.likelihood.local_answers import LocalAnswers
from noisewise.populations.population import Exponential, Normal, Poisson

X = nw.column("x")


def answers_of(feature, population, theta, n, guarantee, seed, bounds=(-4, 4), outside="clamp") -> nw.Release:
    schema = nw.Schema({"x": nw.Bounded(*bounds)}, n=n, neighbours="change-one", outside=outside)
    plan = nw.plan(nw.Records(feature), schema, guarantee=guarantee)
    rng = np.random.default_rng(seed)
    x = np.clip(population.sample(rng, n, theta)[0], *bounds)
    noise = rng.laplace(size=n) if isinstance(guarantee, nw.PureDP) else rng.standard_normal(n)
    values = np.broadcast_to(feature.value({"x": x}, schema), x.shape) + noise * plan.law.scale[0]
    steps = np.sort(np.rint(values / plan.law.step[0]).astype(int))
    return nw.Release.of(plan, steps.tolist(), dataset="made", ledger_head=None, simulated=True)


CENTRED = Normal(mean=0, variance=stats.uniform(0, 10))
CASES = [
    (X, Normal(mean=stats.norm(), sd=1), {"mean": 0.5}, "clipped normal"),
    (X.clip(-1, 2), Normal(mean=stats.norm(), sd=1), {"mean": 0.5}, "clipped normal"),
    (abs(X), CENTRED, {"variance": 2.0}, "centred normal"),
    (X**2, CENTRED, {"variance": 2.0}, "centred normal"),
    (abs(X) ** 0.5, CENTRED, {"variance": 2.0}, "mixture"),
    (X, Exponential(rate=stats.gamma(2)), {"rate": 0.7}, "mixture"),
    (X, Poisson(rate=stats.gamma(2)), {"rate": 1.5}, "mixture"),
]


@pytest.mark.parametrize(("feature", "population", "at", "form"), CASES, ids=[f"{c[0]}-{c[3]}" for c in CASES])
@pytest.mark.parametrize("guarantee", [nw.PureDP(2), nw.GaussianDP(1)], ids=["laplace", "gaussian"])
def test_each_answer_has_the_average_noise_density_over_simulated_records(
    feature, population, at, form, guarantee
) -> None:
    theta = {k: np.array([v]) for k, v in at.items()}
    release = answers_of(feature, population, theta, 3, guarantee, seed=1)
    model = LocalAnswers(release, population, n=3)
    if isinstance(guarantee, nw.PureDP) or "clipped" in form:
        assert form in model.because
    x = np.clip(population.sample(np.random.default_rng(2), 400_000, theta)[0], -4, 4)
    s = np.broadcast_to(feature.value({"x": x}, release.schema), x.shape)
    b = release.law.scale[0] if model.is_laplace else release.law.sd[0]
    law = stats.laplace(scale=b) if model.is_laplace else stats.norm(scale=b)
    total, variance = 0.0, 0.0
    for value in release.value:
        each = law.pdf(value * model.step - s) * model.step
        total += np.log(each.mean())
        variance += each.var() / each.size / each.mean() ** 2
    assert model.log_likelihood(theta)[0] == pytest.approx(total, abs=5 * np.sqrt(variance) + 1e-6)


@pytest.mark.parametrize(("feature", "population", "at", "form"), CASES[:6], ids=[f"{c[0]}" for c in CASES[:6]])
def test_many_answers_through_nodes_equal_their_plain_sum(feature, population, at, form) -> None:
    theta = {k: v * np.array([0.7, 1.0, 1.4]) for k, v in at.items()}
    release = answers_of(feature, population, {k: v[1:2] for k, v in theta.items()}, 4000, nw.PureDP(2), seed=3)
    model = LocalAnswers(release, population, n=4000)
    assert model.summed is not None
    through_nodes = model.log_likelihood(theta)
    model.summed = None
    assert through_nodes == pytest.approx(model.log_likelihood(theta), abs=5e-3 if form == "mixture" else 1e-4)


def test_a_population_too_narrow_for_the_nodes_is_summed_directly() -> None:
    """At an sd far below a panel's width the interpolation fails, says so, and the direct sum takes over."""
    population = Normal(mean=stats.norm(), sd=stats.halfnorm())
    release = answers_of(X, population, {"mean": np.array([0.3]), "sd": np.array([1.0])}, 4000, nw.PureDP(20), seed=4)
    model = LocalAnswers(release, population, n=4000)
    theta = {"mean": np.array([0.3, 0.3]), "sd": np.array([1e-4, 1.0])}
    _, error = model.summed.total(model.density(model.summed.points, theta))
    assert error[0] > 1e-2 > 1e-6 > error[1]
    through_nodes = model.log_likelihood(theta)
    model.summed = None
    assert through_nodes == pytest.approx(model.log_likelihood(theta), abs=1e-4)


def test_weighted_nodes_sum_any_smooth_function() -> None:
    y = np.random.default_rng(5).gamma(3, size=20_000)
    summed = Summed.of(y)
    values = np.stack([np.sin(summed.points), np.exp(-0.2 * summed.points)])
    total, error = summed.total(values)
    assert total == pytest.approx([np.sin(y).sum(), np.exp(-0.2 * y).sum()], abs=1e-6)
    assert np.all(error < 1e-6)


def test_the_mean_of_the_true_answers_is_found_within_its_own_uncertainty() -> None:
    population = Normal(mean=stats.norm(), sd=1)
    inside = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = np.clip(rng.normal(0.5, 1, 200), -4, 4)
        schema = nw.Schema({"x": nw.Bounded(-4, 4)}, n=200, neighbours="change-one")
        plan = nw.plan(nw.Records(X), schema, guarantee=nw.PureDP(4))
        y = np.sort(np.rint((x + rng.laplace(size=200) * plan.law.scale[0]) / plan.law.step[0]).astype(int))
        release = nw.Release.of(plan, y.tolist(), dataset="made", ledger_head=None, simulated=True)
        drawn = LocalAnswers(release, population, n=200).draw_statistic(rng, {"mean": np.full(60, 0.5)})
        low, high = np.quantile(drawn, [0.05, 0.95])
        inside += low <= x.mean() <= high
    assert stats.binom.cdf(inside, 40, 0.9) > 1e-6
    assert inside < 40 or stats.binom.sf(39, 40, 0.9) > 1e-6


def test_columns_cannot_be_mixed_in_one_answer() -> None:
    schema = nw.Schema({"x": nw.Bounded(0, 1), "z": nw.Bounded(0, 1)}, n=2, neighbours="change-one")
    plan = nw.plan(nw.Records(X * nw.column("z")), schema, guarantee=nw.PureDP(1))
    release = nw.Release.of(plan, [0, 1], dataset="made", ledger_head=None, simulated=True)
    with pytest.raises(nw.Unsupported, match="one column at a time"):
        LocalAnswers(release, CENTRED, n=2)
