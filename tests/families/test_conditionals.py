"""The draws that sweeps are made of follow their laws, in the far tails too."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from noisewise.families.conditionals import mixing_variance, truncated_normal
from noisewise.families.normal_gibbs import normal_inverse_gamma
from noisewise.families.table_gibbs import draw_table, move_between, proportions

FALSE_ALARM = 1e-6
SIZE = 5000


def follows(draws: np.ndarray, law) -> bool:
    return stats.kstest(draws, law.cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    ("mean", "sd", "low", "high"),
    [(1, 2, 0, 5), (3, 2, 0, math.inf), (-4, 2, 0, math.inf), (-60, 2, 0, math.inf), (9, 1, 0, 1), (0.5, 3, 0, 1),
     (-7, 1, 0, 0.05), (50, 0.5, -1, 2), (0.1, 1, 0, math.inf)],
)  # fmt: skip
def test_truncated_normals_follow_their_law(mean: float, sd: float, low: float, high: float) -> None:
    rng = np.random.default_rng(1)
    draws = np.array([truncated_normal(rng, mean, sd, low, high) for _ in range(SIZE)])
    assert draws.min() >= low
    assert draws.max() <= high
    law = stats.truncnorm((low - mean) / sd, (high - mean) / sd, mean, sd)
    assert follows(draws, law)
    wrong = stats.truncnorm((low - mean) / (1.2 * sd), (high - mean) / (1.2 * sd), mean, 1.2 * sd)
    is_flat = high - low < 0.5 * sd or math.isclose(law.std(), wrong.std(), rel_tol=0.1)
    assert is_flat or not follows(draws, wrong)


def test_a_point_outside_goes_to_the_nearest_end() -> None:
    rng = np.random.default_rng(1)
    assert truncated_normal(rng, -3.0, 0.0, 0.0, 1.0) == 0.0
    assert truncated_normal(rng, math.inf, 1.0, 0.0, 1.0) == 1.0


@pytest.mark.parametrize("ratio", [1e-9, 0.01, 0.5, 3.0, 200.0])
def test_mixing_variances_are_inverse_gaussian(ratio: float) -> None:
    rng, b = np.random.default_rng(2), 3.0
    precision = 1 / np.array([mixing_variance(rng, -ratio * b, b) for _ in range(SIZE)])
    shape, mean = 1 / b**2, 1 / (b * ratio * b)
    assert follows(precision, stats.invgauss(mean / shape, scale=shape))
    assert not follows(1.3 * precision, stats.invgauss(mean / shape, scale=shape))


def test_a_released_value_without_noise_has_the_limiting_variance() -> None:
    rng = np.random.default_rng(3)
    variance = np.array([mixing_variance(rng, 0.0, 2.0) for _ in range(SIZE)])
    assert follows(variance / 4.0, stats.chi2(1))


def test_normals_given_mixing_variances_are_laplace() -> None:
    """Gibbs between a Laplace number and its mixing variance keeps the Laplace law."""
    rng, b = np.random.default_rng(4), 1.7
    v = rng.laplace(scale=b, size=SIZE)
    for _ in range(3):
        v = np.array([math.sqrt(mixing_variance(rng, x, b)) for x in v]) * rng.standard_normal(SIZE)
    assert follows(v, stats.laplace(scale=b))
    assert not follows(v, stats.laplace(scale=1.3 * b))


def test_the_normal_inverse_gamma_draw_is_the_conjugate_posterior() -> None:
    rng, x = np.random.default_rng(5), np.array([1.0, 4.0, 2.5, 3.0, 7.0])
    prior = np.array([1.0, 0.5, 3.0, 4.0])
    old_mean, old_variance = 2.0, 9.0  # sums are told in units of these, and must not matter
    z = (x - old_mean) / 3.0
    total = np.array([z.sum(), np.square(z).sum()])
    drawn = np.array([normal_inverse_gamma(rng, prior, 5.0, total, old_mean, old_variance) for _ in range(SIZE)])
    mu, lmbda, a, b = prior
    weight, centre, shape = lmbda + 5, (lmbda * mu + x.sum()) / (lmbda + 5), a + 2.5
    scale = b + 0.5 * (np.square(x).sum() + lmbda * mu**2 - weight * centre**2)
    assert follows(drawn[:, 1], stats.invgamma(shape, scale=scale))
    assert follows(drawn[:, 0], stats.t(2 * shape, centre, math.sqrt(scale / shape / weight)))


@pytest.mark.parametrize("alpha", [[0.05, 0.2, 3.0], [2.0, 5.0, 1.0]], ids=["sparse", "full"])
def test_proportions_are_dirichlet(alpha: list[float]) -> None:
    rng, counts, p = np.random.default_rng(6), np.array([[0.0, 3.5, 1.0], [0.0, 1.0, 0.0]]), np.empty(3)
    drawn = np.empty((SIZE, 3))
    for row in drawn:
        proportions(rng, np.array(alpha), counts, p)
        row[:] = p
    total = np.array(alpha) + counts.sum(axis=0)
    for k in range(3):
        assert follows(drawn[:, k], stats.beta(total[k], total.sum() - total[k]))
    assert np.allclose(drawn.sum(axis=1), 1)


def conditioned(n: float, p: np.ndarray, y: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """N(n p, n (diag p - p p')) times N(y; s, diag d), by the usual matrix formula."""
    prior = n * (np.diag(p) - np.outer(p, p))
    gain = prior @ np.linalg.inv(prior + np.diag(d))
    return n * p + gain @ (y - n * p), prior - gain @ prior


def cells(n: float, p: np.ndarray, y: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    w = n * p
    gain = w / (w + d)
    return w + gain * (y - w), gain * d


def test_a_table_of_independent_cells_moved_onto_the_sum_is_the_singular_normal() -> None:
    rng, n = np.random.default_rng(7), 1000.0
    p, y, d = np.array([0.2, 0.5, 0.3]), np.array([230.0, 480.0, 310.0]), np.array([40.0, 900.0, 7.0])
    centre, spread = cells(n, p, y, d)
    s, scratch, drawn = n * p, np.empty(3), np.empty((SIZE, 3))
    for row in drawn:
        draw_table(rng, centre, spread, n, s, scratch)
        row[:] = s
    mean, covariance = conditioned(n, p, y, d)
    assert np.allclose(drawn.sum(axis=1), n)
    for k in range(3):
        assert follows(drawn[:, k], stats.norm(mean[k], math.sqrt(covariance[k, k])))
    direction = np.array([1.0, -2.0, 0.5])
    assert follows(drawn @ direction, stats.norm(direction @ mean, math.sqrt(direction @ covariance @ direction)))


def test_moves_between_cells_keep_the_law_of_a_table_at_its_edge() -> None:
    """Where a whole table of cells above 0 is hard to hit, moves between pairs of cells reach the same law."""
    rng, n = np.random.default_rng(8), 10.0
    p, y, d = np.array([0.05, 0.05, 0.9]), np.array([-4.0, -3.0, 13.0]), np.array([2.0, 2.0, 3.0])
    centre, spread = cells(n, p, y, d)
    u = centre + np.sqrt(spread) * rng.standard_normal((400_000, 3))
    tables = u + spread / spread.sum() * (n - u.sum(axis=1, keepdims=True))
    kept = tables[(tables >= 0).all(axis=1)]
    assert 1000 < len(kept) < 100_000  # rejection is a poor sampler here
    s, moved = np.array([3.0, 3.0, 4.0]), []
    for sweep in range(12_000):
        for k in range(3):
            move_between(rng, centre, spread, s, k, (k + 1) % 3)
        if sweep % 6 == 5:
            moved.append(s.copy())
    for k in range(3):
        assert stats.ks_2samp(np.array(moved)[:, k], kept[:, k]).pvalue > FALSE_ALARM
    assert np.allclose(np.sum(moved, axis=1), n)
