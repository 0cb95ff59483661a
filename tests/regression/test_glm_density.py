"""The density of a yes/no or count regression, against quadrature over rows, differences and known limits."""

import math

import numpy as np
import pytest
from glm_worlds import draw_world, responses
from scipy import special, stats

from noisewise.regression.glm.density import glm_density, many_densities
from noisewise.regression.glm.problem import glm_data, size_of
from noisewise.regression.glm.sampler import CHAINS, WEIGHTS, sample

CASES = [("logistic", False), ("probit", False), ("poisson", False), ("poisson", True)]


def drawn_position(rng, world):
    data = glm_data(world.problem)
    return data, 0.5 * rng.standard_normal(size_of(data))


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize(("link", "refuses"), CASES)
@pytest.mark.parametrize("kind", ["two", "interaction", "normal"])
def test_the_gradient_is_that_of_the_density(rng, kind, link, refuses, law):
    learned = kind == "interaction"
    world = draw_world(
        rng, kind, link, n=50, epsilon=2.0, law=law, holders=2, refuses=refuses, cap=6.0, learned=learned
    )
    data, position = drawn_position(rng, world)
    gradient, other = np.zeros_like(position), np.zeros_like(position)
    value = glm_density(position, data, gradient)
    assert many_densities(position[None], data)[0] == pytest.approx(value, rel=1e-12)
    step = 1e-5
    for i, slope in enumerate(gradient.tolist()):
        ends = [glm_density(position + sign * step * (np.arange(len(position)) == i), data, other) for sign in (1, -1)]
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(slope, rel=1e-5, abs=1e-5 * np.abs(gradient).max())


def response_table(link, s, cap, refuses):
    """Values of y and their probabilities (rows, values), summing to the share that was kept."""
    if link != "poisson":
        p = special.expit(s) if link == "logistic" else stats.norm.cdf(s)
        return np.arange(2), np.stack([1 - p, p], axis=1)
    y = np.arange(int(cap) + 1)
    mass = stats.poisson.pmf(y[None], np.exp(s)[:, None])
    if not refuses:
        mass[:, -1] += stats.poisson.sf(cap, np.exp(s))
    return y, mass


def oracle(position, world, link, cap, refuses):
    """log density by a product rule over the numbers, sums over y, and scipy's laws of the sums and the unknowns."""
    problem = world.problem
    x = problem.covariates
    k, r, p = x.numbers, x.contrast.shape[1], len(problem.prior.base)
    theta = position[:p]
    root = np.zeros((k, k))
    at = p
    for i in range(k):
        root[i, :i], root[i, i] = position[at : at + i], math.exp(position[at + i])
        at += i + 1
    effects, tilts = position[at : at + k * r].reshape(k, r), position[at + k * r : at + k * r + x.tilt.shape[1]]
    share = special.softmax(x.tilt @ tilts)
    nodes = np.linspace(-8, 8, 161)
    weights = stats.norm.pdf(nodes)
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*[nodes] * k)], axis=1) if k else np.zeros((1, 0))
    mass = np.prod(np.stack(np.meshgrid(*[weights] * k)), axis=0).ravel() if k else np.ones(1)
    rows, masses = [], []
    for c in range(len(share)):
        z = (effects @ x.contrast[c] + grid) @ root.T
        f = x.offset[c] + z @ x.slope[c].T
        values, table = response_table(link, theta[0] + f @ theta[1:], cap, refuses)
        for j, y in enumerate(values):
            rows.append(np.column_stack([np.ones(len(f)), f, np.full(len(f), float(y))]))
            masses.append(share[c] * mass / mass.sum() * table[:, j])
    w, weight = np.concatenate(rows), np.concatenate(masses)
    weight /= weight.sum()
    (holder,) = problem.holders
    products = w[:, holder.pairs[:, 0]] * w[:, holder.pairs[:, 1]]
    mean = weight @ products
    covariance = (weight[:, None] * (products - mean)).T @ (products - mean)
    law = stats.multivariate_normal(holder.n * mean, holder.n * covariance + np.diag(holder.variance))
    total = law.logpdf(holder.observed) + stats.norm.logpdf([*theta, *effects.ravel(), *tilts]).sum()
    if k:
        total += stats.invwishart(df=x.degrees, scale=x.scale).logpdf(root @ root.T)
        total += sum((k - i + 1) * math.log(root[i, i]) for i in range(k))  # |d Sigma / d(A, log diagonal)|
    return total


@pytest.mark.parametrize(("link", "refuses"), CASES)
@pytest.mark.parametrize("kind", ["one", "levels", "number", "normal"])
def test_the_density_is_the_oracles_up_to_a_constant(rng, kind, link, refuses):
    world = draw_world(rng, kind, link, n=80, epsilon=1.0, refuses=refuses, cap=5.0)
    data, first = drawn_position(rng, world)
    second, gradient = 0.5 * rng.standard_normal(len(first)), np.zeros_like(first)
    difference = glm_density(first, data, gradient) - glm_density(second, data, gradient)
    expected = oracle(first, world, link, 5.0, refuses) - oracle(second, world, link, 5.0, refuses)
    assert difference == pytest.approx(expected, rel=1e-5, abs=1e-4)


def test_two_equal_holders_count_as_two(rng):
    """A holder who repeats another's answer adds the same log likelihood once more."""
    world = draw_world(rng, "number", "logistic", n=80, epsilon=1.0)
    problem = world.problem
    twice = type(problem)(
        problem.link, problem.holders * 2, problem.caps * 2, problem.prior, problem.covariates, problem.units
    )
    data, position = drawn_position(rng, world)
    other, both = 0.5 * rng.standard_normal(len(position)), glm_data(twice)
    gradient = np.zeros_like(position)
    ends = {}
    for name, own in (("one", data), ("two", both)):
        ends[name] = glm_density(position, own, gradient) - glm_density(other, own, gradient)
    free = 0.5 * (np.square(other).sum() - np.square(position).sum())  # the N(0, 1) coordinates
    at = data.belief.cholesky  # the spread of the number has a prior of its own: one by one from the oracle's formula
    x = problem.covariates

    def spread_prior(u):
        return -x.degrees * u - 0.5 * x.scale[0, 0] * math.exp(-2 * u)

    prior = free - 0.5 * (other[at] ** 2 - position[at] ** 2) + spread_prior(position[at]) - spread_prior(other[at])
    assert ends["two"] - prior == pytest.approx(2 * (ends["one"] - prior), rel=1e-8, abs=1e-6)


def test_importance_sampling_and_chains_agree(rng):
    world = draw_world(rng, "number", "logistic", n=300, epsilon=5.0)
    weighted = sample(world.problem, rng, chains=2, draws=1000, by=WEIGHTS)
    walked = sample(world.problem, rng, chains=2, draws=1000, warmup=500, by=CHAINS)
    assert (weighted.method, walked.method) == (WEIGHTS, CHAINS)
    one, other = (fit.theta.reshape(-1, fit.theta.shape[-1]) for fit in (weighted, walked))
    spread = one.std(axis=0)
    # Of 2000 draws worth at least 400 each, three means apart by 7 standard errors once in 10^11.
    assert np.abs(one.mean(axis=0) - other.mean(axis=0)).max() < 7 * math.sqrt(2 / 400) * spread.max()
    assert other.std(axis=0) == pytest.approx(spread, rel=0.35)


@pytest.mark.parametrize("link", ["logistic", "poisson"])
def test_without_information_the_posterior_is_the_prior(rng, link):
    world = draw_world(rng, "number", link, n=20, epsilon=1e-5)
    fit = sample(world.problem, rng, chains=2, draws=2000)
    theta = fit.theta.reshape(-1, 3)
    assert np.abs(theta.mean(axis=0)).max() < 0.2  # N(0, 1) each, 4000 draws
    assert theta.std(axis=0) == pytest.approx(1.0, abs=0.15)


def test_responses_of_the_test_worlds_are_what_their_names_say(rng):
    """The oracle itself: shares and rates of what is drawn."""
    s = np.full(200_000, 0.4)
    assert responses(rng, "logistic", s, 1).mean() == pytest.approx(special.expit(0.4), abs=0.007)
    assert responses(rng, "probit", s, 1).mean() == pytest.approx(stats.norm.cdf(0.4), abs=0.007)
    assert responses(rng, "poisson", s, 1).mean() == pytest.approx(math.exp(0.4), abs=0.02)
