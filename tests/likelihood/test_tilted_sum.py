"""The central limit theorem where the release is: right where the plain one is, and better where that falls short."""

from __future__ import annotations

import numpy as np
import pytest
from made_releases import release_of
from scipy import stats

import noisewise as nw
from noisewise.likelihood.joint import joint_likelihood
from noisewise.likelihood.joint_sum import JointSum
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.likelihood.record_tilt import Pull, Record, best_tilt
from noisewise.likelihood.tilted_sum import TiltedSum

X = nw.column("x")
BOTH = nw.Normal(mean=stats.norm(0, 3), sd=stats.halfnorm(scale=3))
SKEWED = nw.LogNormal(log_mean=stats.norm(0, 1), log_sd=0.8)


def made(statistic, estimate, *, n: int, bounds=(-40, 40), guarantee=None) -> nw.Release:
    schema = nw.Schema({"x": nw.Bounded(*bounds)}, n=n, neighbours="change-one")
    return release_of(statistic, schema, guarantee or nw.PureDP(5), estimate)


@pytest.mark.parametrize("guarantee", [nw.PureDP(5), nw.GaussianDP(2)], ids=["Laplace", "Gaussian"])
def test_a_tilt_leaves_normal_records_normal(guarantee) -> None:
    """Under any tilt the sum of normal records is normal, so both laws are the same, however far out the release."""
    release = made(nw.Mean(X), [3.0], n=20, guarantee=guarantee)
    theta = {"mean": np.array([0.0, 2.0, 2.9]), "sd": np.array([1.0, 1.5, 2.0])}
    plain = NormalSum((release,), BOTH, n=20).log_likelihood(theta)
    assert TiltedSum((release,), BOTH, n=20).log_likelihood(theta) == pytest.approx(plain, abs=1e-6)


def test_the_best_tilt_puts_the_sums_where_noise_and_records_balance() -> None:
    """n K' - y + K_V' = 0, also where a covariance is singular and where no sum reaches the release."""
    x = np.linspace(0, 1, 40)
    values = np.stack([x, 1 - x], axis=1)[None]
    record = Record(np.full((1, 40), -np.log(40)), values)
    for place in ([7.0, 3.5], [25.0, -4.0]):
        pull = Pull(np.array(place), np.array([0.5, 2.0]), np.array([True, False]))
        tilt = best_tilt(record, 10, pull)
        slope = 10 * record.tilted(tilt).mean - pull.place + pull.slopes(tilt)[0]
        spread = 10 * record.tilted(tilt).covariance[0].diagonal() + pull.slopes(tilt)[1][0]
        assert np.all(np.abs(slope[0]) < 1e-3 * np.sqrt(spread))
        assert abs(0.5 * tilt[0, 0]) < 1


def posterior_mean(log_p: np.ndarray, theta: np.ndarray, prior) -> tuple[float, float]:
    weight = np.exp(log_p - log_p.max()) * prior.pdf(theta)
    mean = np.average(theta, weights=weight)
    return mean, float(np.sqrt(np.average((theta - mean) ** 2, weights=weight)))


@pytest.mark.parametrize("estimate", [[1.0, 0.9], [2.2, 1.6], [3.5, 1.9]], ids=["low", "middle", "high"])
def test_it_is_closer_to_the_joint_law_of_skewed_records(estimate) -> None:
    release = made(nw.Mean(X, X.clip(0, 3)), estimate, n=35, bounds=(0, 20), guarantee=nw.PureDP(8))
    grid = np.linspace(-2, 3, 161)
    theta = {"log_mean": grid}
    laws = [law((release,), SKEWED, n=35).log_likelihood(theta) for law in (JointSum, TiltedSum, NormalSum)]
    (exact, sd), (tilted, _), (plain, _) = (posterior_mean(logs, grid, stats.norm(0, 1)) for logs in laws)
    assert abs(tilted - exact) < 0.1 * sd
    assert abs(tilted - exact) < abs(plain - exact) + 0.01 * sd


def test_four_sums_get_the_tilted_law_with_their_noises_mixed(rng) -> None:
    """Given the mixing variances it is normal at the tilted moments; averaged over them it is near the joint law."""
    release = made(nw.Mean(X, X**2, abs(X), X.clip(0, 1)), [0.5, 1.3, 0.9, 0.4], n=40, bounds=(-5, 5))
    model = joint_likelihood([release], BOTH)
    (group,) = model.groups
    assert isinstance(group, TiltedSum)
    assert model.mixing == 4
    one = {"mean": np.array([0.4]), "sd": np.array([1.0])}
    variances = 2 * group.mixing_scale**2 * rng.standard_exponential((4000, 4))
    mixed = np.exp(model.log_likelihood_given(one, variances) - np.log(group.normal.noise.step).sum())
    x = np.clip(rng.normal(0.4, 1.0, (100_000, 40)), -5, 5)
    sums = np.stack([x.sum(1), (x**2).sum(1), abs(x).sum(1), x.clip(0, 1).sum(1)], axis=1)
    direct = np.exp(group.normal.noise.log_density(group.normal.observed - sums))
    error = np.sqrt(mixed.var() / mixed.size + direct.var() / len(direct))
    assert abs(mixed.mean() - direct.mean()) < 5 * error + 0.05 * direct.mean()
    assert error < 0.1 * direct.mean()
    drawn = group.draw_statistic(rng, {name: np.full(300, value[0]) for name, value in one.items()})
    mean = np.average(sums, axis=0, weights=direct) / 40
    assert drawn.mean(axis=0) == pytest.approx(mean, abs=0.1)


def test_the_same_theta_is_not_tilted_twice(monkeypatch) -> None:
    release = made(nw.Mean(X, X**2, abs(X), X.clip(0, 1)), [0.5, 1.3, 0.9, 0.4], n=40, bounds=(-5, 5))
    model = TiltedSum((release,), BOTH, n=40)
    theta = {"mean": np.array([0.4]), "sd": np.array([1.0])}
    first = model.log_likelihood_given(theta, np.ones((1, 4)))
    monkeypatch.setattr("noisewise.likelihood.tilted_sum.best_tilt", None)
    assert model.log_likelihood_given(theta, np.ones((1, 4))) == pytest.approx(first)


def test_the_plain_law_says_where_it_falls_short() -> None:
    """Three sds out in the tail of few skewed records, and not where records are many or symmetric."""
    line = nw.LogNormal(log_mean=stats.norm(0, 1), log_sd=1)
    off = made(nw.Mean(X, X.clip(0, 2)), [5.5, 1.2], n=20, bounds=(0, 20), guarantee=nw.PureDP(20))
    found = nw.infer(off, line, likelihood="clt", seed=1, draws=100, progress=False)
    assert "taken as normal over 20 records, which they visibly are not" in found.verdict.warnings[0]
    assert str(found.verdict).startswith("These 2 sums")
    assert not nw.infer(off, line, seed=1, draws=100, progress=False).verdict.warns
    centred = nw.Normal(mean=stats.norm(0, 3), sd=1)
    for release in (made(nw.Mean(X, X**2), [0.5, 1.3], n=5000, bounds=(-5, 5)), made(nw.Mean(X), [0.5], n=100)):
        assert not nw.infer(release, centred, likelihood="clt", seed=1, draws=100, progress=False).verdict.warns


def test_features_that_mix_columns_are_told_to_be_few() -> None:
    schema = nw.Schema({name: nw.Bounded(-5, 5) for name in "ab"}, n=60, neighbours="change-one")
    a, b = nw.column("a"), nw.column("b")
    release = release_of(nw.Mean(a * b, a), schema, nw.PureDP(5), [0.2, 0.1])
    population = nw.Joint(a=nw.Normal(mean=stats.norm(), sd=1), b=nw.Normal(mean=stats.norm(), sd=1))
    found = nw.infer(release, population, seed=1, draws=50, progress=False)
    assert "normal over only 60 records" in found.verdict.warnings[0]
