"""Laplace noise on several sums, integrated out: the same law that mixing variances give when they are sampled."""

from __future__ import annotations

import numpy as np
import pytest
from made_releases import release_of
from scipy import stats

import noisewise as nw
from noisewise.likelihood.integrated_noise import IntegratedNoise
from noisewise.likelihood.near_law import integrated_law
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.likelihood.tilted_sum import TiltedSum

X = nw.column("x")
BOTH = nw.Normal(mean=stats.norm(0.5, 0.5), sd=stats.gamma(20, scale=0.1))
THETA = {"mean": np.array([0.3, 0.5]), "sd": np.array([1.8, 2.0])}


def schema(n: int) -> nw.Schema:
    return nw.Schema({"x": nw.Bounded(-4, 4)}, n=n, neighbours="change-one")


@pytest.mark.parametrize("kind", [NormalSum, TiltedSum])
def test_it_is_the_mean_of_the_noise_over_normal_sums(kind: type) -> None:
    release = release_of(nw.Mean(X, X**2, abs(X)), schema(150), nw.PureDP(6), [0.4, 3.4, 1.5])
    law = kind((release,), BOTH, n=150)
    made = IntegratedNoise(law)
    assert made.is_affordable()
    factor, mean, covariance = law.placed(THETA)
    rng, count = np.random.default_rng(3), 400_000
    for k, found in enumerate(made.log_likelihood(THETA)):
        root = np.linalg.cholesky(covariance[k])
        sums = mean[k] + rng.standard_normal((count, 3)) @ root.T
        logs = law.plain.noise.log_density(law.plain.observed - sums)
        weights = np.exp(logs - logs.max())
        expected = factor[k] + logs.max() + np.log(weights.mean() * np.prod(law.plain.noise.step))
        error = weights.std() / weights.mean() / np.sqrt(count)
        assert abs(found - expected) < 5 * np.hypot(error, made.error)
        assert error < 0.02


@pytest.mark.parametrize("value", [[0.45, 4.0], [0.45, 7.5], [-1.5, 7.5]], ids=["near", "one far", "both far"])
def test_it_is_the_closed_law_of_two_sums_however_far_the_release(value: list[float]) -> None:
    """Two Laplace components have a closed law by quadrature; their variances are integrated here instead."""
    release = release_of(nw.Mean(X, X**2), schema(400), nw.PureDP(20), value)
    closed, mixed = (NormalSum((release,), BOTH, n=400) for _ in range(2))
    mixed.__dict__["shares"] = tuple(part._replace(is_mixed=True) for part in mixed.shares)
    made = IntegratedNoise(mixed)
    assert made.is_affordable()
    best = np.argmax(closed.log_likelihood(grid := BOTH.sample_prior(np.random.default_rng(0), 2000)))
    theta = {name: values[best : best + 1] * np.array([0.98, 1.0, 1.02]) for name, values in grid.items()}
    found, expected = made.log_likelihood(theta), closed.log_likelihood(theta)
    assert found == pytest.approx(expected, abs=0.05)
    assert np.diff(found) == pytest.approx(np.diff(expected), abs=0.03)  # what a posterior sees


def test_more_components_than_a_net_resolves_are_left_to_a_sampler() -> None:
    edges = np.linspace(-3.8, 3.8, 25).tolist()
    value = np.full(26, 20).tolist()
    release = release_of(nw.Histogram("x", edges), schema(520), nw.PureDP(1), value)
    law = NormalSum((release,), BOTH, n=520)
    assert law.mixing > 20
    assert integrated_law(law) is None


def test_what_is_left_of_the_error_where_the_posterior_is_is_told() -> None:
    from noisewise.likelihood.normal_rows import cautions_at

    release = release_of(nw.Mean(X, X**2, abs(X)), schema(3000), nw.PureDP(6), [0.4, 3.4, 1.5])
    made = IntegratedNoise(NormalSum((release,), BOTH, n=3000))
    assert not any("integrated" in caution for caution in cautions_at(made, THETA))
    far = {"mean": np.array([-3.9, 3.9]), "sd": np.array([0.05, 0.05])}  # where no variances were laid
    assert any("integrated" in caution for caution in cautions_at(made, far))
