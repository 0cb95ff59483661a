"""Mixtures over nodes against closed forms and plain sums."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from noisewise.likelihood import clipped_normal_gaussian, local_general
from noisewise.likelihood.quadrature import on_panels


def laplace(scale):
    return lambda v: -np.abs(v) / scale - np.log(2 * scale)


def test_discrete_populations_are_exact_also_where_exponentials_underflow():
    rng = np.random.default_rng(0)
    nodes = np.arange(6.0)
    rates = np.array([0.2, 3.0, 900.0])
    log_weights = stats.poisson.logpmf(nodes, rates[:, None])
    y = np.concatenate([rng.normal(size=20) * 3, [-500.0, 4000.0]])
    found = local_general.log_density(y, nodes=nodes, log_weights=log_weights, log_noise=laplace(0.002))
    for k in range(3):
        for i, answer in enumerate(y):
            expected = logsumexp(log_weights[k] + laplace(0.002)(answer - nodes))
            assert found[k, i] == pytest.approx(expected, rel=1e-13)


def test_shared_and_own_nodes_agree_across_chunks(monkeypatch):
    rng = np.random.default_rng(1)
    nodes, y = rng.normal(size=9), rng.normal(size=31)
    log_weights = np.log(rng.dirichlet(np.ones(9), size=5))
    shared = local_general.log_density(y, nodes=nodes, log_weights=log_weights, log_noise=laplace(0.5))
    monkeypatch.setattr(local_general, "MOST_CELLS", 40)
    own = np.broadcast_to(nodes, (5, 9))
    np.testing.assert_allclose(
        local_general.log_density(y, nodes=own, log_weights=log_weights, log_noise=laplace(0.5)), shared, rtol=1e-13
    )
    np.testing.assert_allclose(
        local_general.log_density(y, nodes=nodes, log_weights=log_weights, log_noise=laplace(0.5)), shared, rtol=1e-13
    )
    times = rng.integers(1, 5, size=31)
    total = local_general.log_likelihood(y, nodes=own, log_weights=log_weights, log_noise=laplace(0.5), times=times)
    np.testing.assert_allclose(total, shared @ times, rtol=1e-12)


def test_a_clipped_normal_with_gaussian_noise_and_its_score():
    mean, sd, low, high, noise_sd = np.array([0.2, -1.0]), 1.3, -1.0, 2.0, 0.5
    inside, unit = (v.ravel() for v in on_panels(np.linspace(low, high, 5), 16))
    nodes = np.concatenate([inside, [low, high]])
    z = (inside - mean[:, None]) / sd
    a, b = (low - mean[:, None]) / sd, (high - mean[:, None]) / sd
    log_weights = np.concatenate(
        [np.log(unit / sd) + stats.norm.logpdf(z), stats.norm.logcdf(a), stats.norm.logsf(b)], axis=1
    )
    slopes = np.concatenate(
        [
            z / sd,
            -np.exp(stats.norm.logpdf(a) - stats.norm.logcdf(a)) / sd,
            np.exp(stats.norm.logpdf(b) - stats.norm.logsf(b)) / sd,
        ],
        axis=1,
    )
    y = np.array([-3.0, 0.1, 1.9, 2.4])

    def gaussian(v):
        return stats.norm.logpdf(v, 0, noise_sd)

    law = {"mean": mean[:, None], "sd": sd, "low": low, "high": high, "noise_sd": noise_sd}
    found = local_general.log_density(y, nodes=nodes, log_weights=log_weights, log_noise=gaussian)
    np.testing.assert_allclose(found, clipped_normal_gaussian.log_density(y, **law), rtol=1e-11)
    score = local_general.score(
        y, nodes=nodes, log_weights=log_weights, d_log_weights=slopes[..., None], log_noise=gaussian
    )
    assert score.shape == (2, 4, 1)
    np.testing.assert_allclose(score[..., 0], clipped_normal_gaussian.score(y, **law)[0], rtol=1e-10)


def test_an_impossible_answer_is_minus_infinity_and_an_empty_node_moves_nothing():
    def only_zero(v):
        return np.where(v == 0, 0.0, -np.inf)

    log_weights = np.log(np.array([[0.25, 0.75]]))
    found = local_general.log_density([0.0, 1.0, 2.0], nodes=[0.0, 1.0], log_weights=log_weights, log_noise=only_zero)
    np.testing.assert_allclose(found[0, :2], log_weights[0])
    assert found[0, 2] == -np.inf
    with np.errstate(divide="ignore"):
        empty = np.log(np.array([[0.0, 1.0]]))
    slopes = np.array([[[np.inf], [2.0]]])
    score = local_general.score(
        [0.5], nodes=[0.0, 1.0], log_weights=empty, d_log_weights=slopes, log_noise=laplace(1.0)
    )
    np.testing.assert_allclose(score, [[[2.0]]])
