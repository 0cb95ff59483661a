"""The density of a regression with yes/no covariates, against quadrature, enumeration and differences."""

import math

import numpy as np
import pytest
from location_worlds import draw_world
from scipy import stats

from noisewise.regression.location_density import location_data, location_density
from noisewise.regression.marginal import size_of


def drawn_position(rng, world):
    data = location_data(world.problem, is_scaled=True)
    return data, 0.5 * rng.standard_normal(size_of(data))


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize(("kind", "intercept"), [("two", True), ("interaction", True), ("number", False)])
def test_the_gradient_is_that_of_the_density(rng, kind, intercept, law):
    world = draw_world(rng, kind, n=50, epsilon=2.0, law=law, holders=2, intercept=intercept)
    data, position = drawn_position(rng, world)
    gradient, other = np.zeros_like(position), np.zeros_like(position)
    location_density(position, data, gradient)
    step = 1e-5
    for i, slope in enumerate(gradient.tolist()):
        ends = [location_density(position + sign * step * (np.arange(len(position)) == i), data, other)
                for sign in (1, -1)]  # fmt: skip
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(slope, rel=1e-5, abs=1e-5 * np.abs(gradient).max())


def oracle(position, problem):
    """log density by Gauss-Hermite quadrature over rows, scipy's normal law of the sums and scipy's priors."""
    x, o, q = problem.covariates, int(problem.intercept), problem.q
    k, r = x.numbers, x.contrast.shape[1]
    theta, sigma = position[:q], math.exp(position[q])
    root = np.array([[math.exp(position[q + 1])]]) if k else np.zeros((0, 0))
    at = q + 1 + k
    effects, tilts = position[at : at + k * r].reshape(k, r), position[at + k * r : at + k * r + x.tilt.shape[1]]
    logits = x.tilt @ tilts
    share = np.exp(logits) / np.exp(logits).sum()
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    weights = weights / weights.sum()
    rows, masses = [], []
    for c in range(len(share)):
        for e, we in zip(nodes, weights, strict=True):
            for g, wg in zip(nodes, weights, strict=True) if k else ((0.0, 1.0),):
                z = root @ (effects @ x.contrast[c] + g)
                u = np.concatenate([np.ones(o), x.offset[c] + x.slope[c] @ z])
                rows.append(np.append(u, u @ theta + sigma * e))
                masses.append(share[c] * we * wg)
    (holder,) = problem.holders
    w, mass = np.array(rows), np.array(masses)
    products = w[:, holder.pairs[:, 0]] * w[:, holder.pairs[:, 1]]
    mean = mass @ products
    covariance = (mass[:, None] * (products - mean)).T @ (products - mean)
    law = stats.multivariate_normal(holder.n * mean, holder.n * covariance + np.diag(holder.variance))
    prior = problem.prior
    total = law.logpdf(holder.observed)
    total += stats.multivariate_normal(prior.mean, np.linalg.inv(prior.precision)).logpdf(theta)
    total += stats.invgamma(prior.shape, scale=prior.rate).logpdf(sigma**2) + math.log(2 * sigma**2)
    total += stats.norm.logpdf([*effects.ravel(), *tilts]).sum()
    if k:
        variance = float(root[0, 0] ** 2)
        total += stats.invgamma(x.degrees / 2, scale=x.scale[0, 0] / 2).logpdf(variance) + math.log(2 * variance)
    return total


@pytest.mark.parametrize("kind", ["one", "two", "levels", "number", "interaction"])
def test_the_density_is_the_oracles_up_to_a_constant(rng, kind):
    world = draw_world(rng, kind, n=80, epsilon=1.0)
    data, first = drawn_position(rng, world)
    second, gradient = drawn_position(rng, world)[1], np.zeros_like(first)
    difference = location_density(first, data, gradient) - location_density(second, data, gradient)
    expected = oracle(first, world.problem) - oracle(second, world.problem)
    assert difference == pytest.approx(expected, rel=1e-7, abs=1e-6)
