"""Sums of n bounded records under noise, against laws that are known in closed form."""

from __future__ import annotations

import itertools
from math import comb, factorial

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from noisewise.errors import InvalidArgument
from noisewise.likelihood import inversion, normal_laplace
from noisewise.likelihood.additive_noise import GaussianNoise, LaplaceNoise
from noisewise.likelihood.quadrature import on_panels


def irwin_hall(x, m):
    """Density of the sum of m uniforms on [0, 1], exactly in rationals for the alternating sum."""
    with mpmath.workdps(60):
        x = mpmath.mpf(x)
        if not 0 <= x <= m:
            return mpmath.mpf(0)
        total = mpmath.fsum((-1) ** k * comb(m, k) * (x - k) ** (m - 1) for k in range(int(mpmath.floor(x)) + 1))
        return total / factorial(m - 1)


def irwin_hall_noisy(y, m, noise):
    """E g(y - S_m) by mpmath quadrature, split at the integers and at y."""
    scale = mpmath.mpf(noise.scale if isinstance(noise, LaplaceNoise) else noise.sd)

    def g(v):
        return (
            mpmath.exp(-abs(v) / scale) / (2 * scale) if isinstance(noise, LaplaceNoise) else mpmath.npdf(v, 0, scale)
        )

    if m == 0:
        return g(mpmath.mpf(y))
    near = [y + s * scale * c for c in (3, 10, 30) for s in (-1, 1)]
    points = sorted({mpmath.mpf(p) for p in [*range(m + 1), y, *near] if 0 <= p <= m})
    return mpmath.quad(lambda s: irwin_hall(s, m) * g(y - s), points, maxdegree=8)


def clamped_uniform(y, n, noise, low_mass, high_mass):
    """Each record is 0 with low_mass, 1 with high_mass, else uniform on [0, 1]."""
    middle = 1 - mpmath.mpf(low_mass) - mpmath.mpf(high_mass)
    total = mpmath.mpf(0)
    for j in range(n + 1):
        for i in range(n - j + 1):
            chance = (
                comb(n, j)
                * comb(n - j, i)
                * middle**j
                * mpmath.mpf(high_mass) ** i
                * mpmath.mpf(low_mass) ** (n - j - i)
            )
            if chance > 0:
                total += chance * irwin_hall_noisy(mpmath.mpf(y) - i, j, noise)
    return total


def uniform_panels(middle, panels=4, order=12):
    nodes, weights = on_panels(np.linspace(0, 1, panels + 1), order)
    return nodes, np.asarray(middle)[:, None, None] * weights


NOISES = [*map(LaplaceNoise, (50.0, 1.0, 0.2, 0.02)), *map(GaussianNoise, (5.0, 0.3, 0.03))]
FEW = [LaplaceNoise(50.0), LaplaceNoise(0.2), GaussianNoise(0.3)]
SUMS = [*((n, noise) for n in (1, 2) for noise in NOISES), *((3, noise) for noise in FEW)]


@pytest.mark.parametrize(("n", "noise"), SUMS, ids=repr)
def test_clamped_uniform_records_with_heavy_atoms(n, noise):
    """Atoms of 20 %, 45 % and none, together in one call; y inside, at the bound, on an atom and outside."""
    masses = np.array([[0.2, 0.2], [0.45, 0.1], [0.0, 0.0]])
    nodes, weights = uniform_panels(1 - masses.sum(axis=1))
    far = noise.scale if isinstance(noise, LaplaceNoise) else noise.sd
    for y in (0.37 * n, 1.0, float(n), -0.6 * far):
        found = inversion.log_density(
            y, n=n, nodes=nodes, weights=weights, noise=noise, atoms=[0.0, 1.0], atom_weights=masses
        )
        for row, (low_mass, high_mass) in enumerate(masses):
            with mpmath.workdps(30):
                exact = float(mpmath.log(clamped_uniform(y, n, noise, low_mass, high_mass)))
            tolerance = max(1e-9, 5 * found.error[row])
            assert found.log_density[row] == pytest.approx(exact, abs=tolerance)
            assert found.error[row] < (1e-4 if far < 0.1 and n > 1 else 1e-7)


@pytest.mark.parametrize("n", [6, 15])
def test_more_uniform_records_without_atoms(n):
    nodes, weights = uniform_panels(np.ones(1))
    for noise in (LaplaceNoise(0.3), GaussianNoise(0.2)):
        for y in (0.5 * n, 0.9 * n):
            found = inversion.log_density(y, n=n, nodes=nodes, weights=weights, noise=noise)
            with mpmath.workdps(30):
                exact = float(mpmath.log(irwin_hall_noisy(mpmath.mpf(y), n, noise)))
            assert found.log_density[0] == pytest.approx(exact, abs=1e-9)
            assert found.error[0] < 2e-9


@pytest.mark.parametrize("n", [1, 2, 10, 200])
@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 50.0])
def test_normal_records_give_the_normal_laplace_law_deep_into_the_tails(n, epsilon):
    """Bounds at ten standard deviations: the sum is N(n mean, n sd^2) to 1e-23, at every y."""
    mean, sd = np.array([0.4, 1.0, -3.0]), np.array([1.0, 0.8, 1.3])
    nodes, unit = on_panels(np.linspace(-16, 16, 33), 16)
    weights = unit * stats.norm.pdf(nodes, mean[:, None, None], sd[:, None, None])
    scale = 32 / epsilon
    for y in (0.3 * n, n + 4.0, -12.0 * n):
        found = inversion.log_density(y, n=n, nodes=nodes, weights=weights, noise=LaplaceNoise(scale))
        exact = normal_laplace.log_density(y, mean=n * mean, variance=n * sd**2, scale=scale)
        np.testing.assert_allclose(found.log_density, exact, atol=1e-9 if n > 1 else 1e-10)
        assert np.all(found.error < 1e-8)
    found = inversion.log_density(2.0 * n, n=n, nodes=nodes, weights=weights, noise=GaussianNoise(scale / 3))
    exact = stats.norm.logpdf(2.0 * n, n * mean, np.sqrt(n * sd**2 + scale**2 / 9))
    np.testing.assert_allclose(found.log_density, exact, atol=1e-9)


def test_bernoulli_records_are_a_binomial_mixture():
    """No density at all: both atoms, closed form only."""
    p = np.array([0.02, 0.5, 0.97])
    nodes, weights = uniform_panels(np.zeros(3))
    n, noise = 40, LaplaceNoise(0.3)
    for y in (0.0, 17.3, 40.0, 60.0):
        found = inversion.log_density(
            y, n=n, nodes=nodes, weights=weights, noise=noise, atoms=[0.0, 1.0], atom_weights=np.stack([1 - p, p], 1)
        )
        s = np.arange(n + 1)
        exact = np.log(stats.binom.pmf(s, n, p[:, None]) @ np.exp(noise.log_density(y - s)))
        np.testing.assert_allclose(found.log_density, exact, rtol=1e-11)


def test_squares_of_normals_have_a_pole_and_still_invert():
    """x^2 of N(0, theta), clamped far out: the sum is gamma; nodes are Gauss-Legendre in x, values x^2."""
    theta, bound, n, scale = np.array([0.7, 2.0]), 14.0, 8, 3.0
    x, unit = on_panels(np.linspace(0, bound, 29), 16)
    weights = unit * 2 * stats.norm.pdf(x / np.sqrt(theta)[:, None, None]) / np.sqrt(theta)[:, None, None]
    for y in (0.5, 9.0):
        found = inversion.log_density(y, n=n, nodes=x**2, weights=weights, noise=LaplaceNoise(scale))
        for row, t in enumerate(theta):
            law = stats.gamma(n / 2, scale=2 * t)
            points = [
                0,
                y,
                *[q for q in law.ppf([0.01, 0.5, 0.99, 1 - 1e-9]) if q != y],
                law.ppf(1 - 1e-9) + 40 * scale,
            ]
            points = sorted(points)
            exact = sum(
                integrate.quad(
                    lambda s, law=law, y=y: law.pdf(s) * np.exp(-abs(y - s) / scale) / (2 * scale), lo, hi, epsabs=1e-15
                )[0]
                for lo, hi in itertools.pairwise(points)
            )
            assert found.log_density[row] == pytest.approx(np.log(exact), abs=1e-8)


def test_a_bimodal_population_whose_characteristic_function_revives():
    """Two narrow bumps: |phi| returns near 1 at high frequency and must not be cut off there."""
    n, sd = 12, 0.004
    edges = np.sort(
        np.concatenate([np.linspace(0.25 - 9 * sd, 0.25 + 9 * sd, 9), np.linspace(0.75 - 9 * sd, 0.75 + 9 * sd, 9)])
    )
    edges = np.concatenate([[0.0], edges, [1.0]])
    nodes, unit = on_panels(edges, 16)
    weights = (unit * 0.5 * (stats.norm.pdf(nodes, 0.25, sd) + stats.norm.pdf(nodes, 0.75, sd)))[None]
    scale = 0.02
    heads = np.arange(n + 1)
    for y in (5.0, 6.02, 6.25, 7.5):
        found = inversion.log_density(y, n=n, nodes=nodes, weights=weights, noise=LaplaceNoise(scale))
        parts = normal_laplace.log_density(y, mean=0.25 * n + 0.5 * heads, variance=n * sd**2, scale=scale)
        exact = np.log(stats.binom.pmf(heads, n, 0.5) @ np.exp(parts))
        assert found.log_density[0] == pytest.approx(exact, abs=1e-9)


def test_density_integrates_to_one_over_the_line():
    masses = np.array([[0.2, 0.15]])
    nodes, weights = uniform_panels(1 - masses.sum(axis=1))
    n, b = 4, 0.5
    y, w = on_panels([0.0, 0.5, 1, 1.5, 2, 3, 4], 5)
    panels = {"n": n, "nodes": nodes, "weights": weights, "atoms": [0.0, 1.0], "atom_weights": masses}
    logs = [inversion.log_density(v, noise=LaplaceNoise(b), **panels).log_density[0] for v in [*y.ravel(), 0.0, 4.0]]
    p = np.exp(logs)
    assert w.ravel() @ p[:-2] + b * (p[-2] + p[-1]) == pytest.approx(1, abs=1e-6)
    outside = inversion.log_density(7.0, noise=LaplaceNoise(b), **panels).log_density[0]
    assert outside == pytest.approx(logs[-1] - 3.0 / b, rel=1e-13)


def test_limits_of_no_noise_and_of_drowning_noise():
    nodes, weights = uniform_panels(np.ones(1))
    quiet = inversion.log_density(2.2, n=5, nodes=nodes, weights=weights, noise=LaplaceNoise(1e-5)).log_density[0]
    assert quiet == pytest.approx(float(mpmath.log(irwin_hall(2.2, 5))), abs=1e-7)
    loud = inversion.log_density(2.2, n=5, nodes=nodes, weights=weights, noise=LaplaceNoise(1e8)).log_density[0]
    assert loud == pytest.approx(float(LaplaceNoise(1e8).log_density(0.0)), abs=1e-7)


def test_an_unresolved_density_is_reported():
    """A spike far narrower than a panel cannot be integrated by its nodes; the error says so."""
    nodes, unit = on_panels(np.linspace(0, 10, 6), 12)
    sd = np.array([1.0, 0.01])
    weights = unit * stats.norm.pdf(nodes, 5.1, sd[:, None, None])
    found = inversion.log_density(52.0, n=10, nodes=nodes, weights=weights, noise=LaplaceNoise(3.0))
    assert found.error[0] < 1e-4
    assert found.error[1] > 1e-2


def test_three_atoms_and_wrong_shapes_are_refused():
    nodes, weights = uniform_panels(np.ones(2))
    with pytest.raises(InvalidArgument):
        inversion.log_density(
            1.0,
            n=2,
            nodes=nodes,
            weights=weights,
            noise=LaplaceNoise(1.0),
            atoms=[0, 1, 2],
            atom_weights=np.zeros((2, 3)),
        )
    with pytest.raises(InvalidArgument):
        inversion.log_density(1.0, n=2, nodes=nodes, weights=weights[:, :2], noise=LaplaceNoise(1.0))


def posterior(theta, weights, log_likelihood):
    p = weights * np.exp(log_likelihood - np.max(log_likelihood))
    mean = p @ theta / p.sum()
    return mean, np.sqrt(p @ np.square(theta - mean) / p.sum())


def test_known_posterior_of_a_variance_from_a_noisy_mean_absolute_value():
    """N(0, theta), mean |x|, n = 100, A = 10, Laplace epsilon = 5, y = 1.2, theta ~ Uniform(0, 10)."""
    n, bound, epsilon, y = 100, 10.0, 5.0, 1.2
    theta, prior = (v.ravel() for v in on_panels([0.0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 7, 10], 12))
    by_clt = normal_laplace.log_density(
        y, mean=np.sqrt(2 * theta / np.pi), variance=theta * (1 - 2 / np.pi) / n, scale=bound / (n * epsilon)
    )
    np.testing.assert_allclose(posterior(theta, prior, by_clt), (2.3617, 0.3919), atol=6e-5)
    nodes, unit = on_panels([0, 0.125, 0.25, 0.5, 1, 1.5, 2, 3, 4, 5, 6, 8, 10], 16)
    sd = np.sqrt(theta)[:, None, None]
    found = inversion.log_density(
        y * n,
        n=n,
        nodes=nodes,
        weights=unit * 2 * stats.norm.pdf(nodes / sd) / sd,
        noise=LaplaceNoise(bound / epsilon),
        atoms=[bound],
        atom_weights=2 * stats.norm.sf(bound / sd[:, 0]),
    )
    np.testing.assert_allclose(posterior(theta, prior, found.log_density), (2.3599, 0.3840), atol=6e-5)
