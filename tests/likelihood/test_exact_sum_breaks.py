"""Sums of records whose density breaks off or has a pole: the inverted law against convolutions of its own."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

import noisewise as nw
from noisewise.likelihood import inversion
from noisewise.likelihood.additive_noise import GaussianNoise
from noisewise.likelihood.exact_sum import ExactSum

X = nw.column("x")


def model_of(population, at, n, outside="clamp", guarantee=None):
    schema = nw.Schema({"x": nw.Bounded(0, 1)}, n=n, neighbours="change-one", outside=outside)
    plan = nw.plan(nw.Mean(X), schema, guarantee=guarantee or nw.PureDP(1))
    release = nw.simulate(plan, population, at=at, seed=1)
    return release, ExactSum(release, population, n=n)


@pytest.mark.parametrize("outside", ["clamp", "refuse"])
@pytest.mark.parametrize("n", [2, 5])
def test_a_uniform_law_inside_the_bounds_sums_to_irwin_and_halls(n, outside) -> None:
    population = nw.Uniform(low=0, high=stats.uniform(0.1, 1.9))
    release, model = model_of(population, {"high": 0.9}, n, outside)
    high = np.array([0.3, 0.52, 0.53, 0.7, 0.95])
    found = model.log_likelihood({"high": high})
    y, scale, step = release.value[0] * release.law.step[0], release.law.scale[0], release.law.step[0]
    for h, value in zip(high, found, strict=True):
        law = stats.irwinhall(n, scale=h)
        knots = sorted({0.0, *(h * k for k in range(n + 1)), float(np.clip(y, 0, n * h))})
        density = sum(
            integrate.quad(lambda s, law=law: law.pdf(s) * stats.laplace.pdf(y - s, scale=scale), a, b)[0]
            for a, b in pairwise(knots)
        )
        assert abs(value - np.log(density * step)) < 1e-6


def test_a_row_does_not_depend_on_the_rows_it_is_asked_with() -> None:
    """Shared panels saw a break inside them as a ripple of 5 % in log p."""
    population = nw.Uniform(low=0, high=stats.uniform(0.1, 1.9))
    _, model = model_of(population, {"high": 0.9}, 5)
    high = np.linspace(0.21, 1.5, 12)
    together = model.log_likelihood({"high": high})
    alone = [model.log_likelihood({"high": high[k : k + 1]})[0] for k in range(high.size)]
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-7)


@pytest.mark.parametrize("shape", [0.5, 0.1])
def test_a_gamma_law_with_a_pole_sums_to_a_gamma_law(shape) -> None:
    """Far below the bound nothing is clamped: the sum of n gamma records is gamma of n times the shape."""
    population = nw.Gamma(shape=stats.gamma(2), rate=stats.gamma(2, scale=50))
    n, rate = 4, 60.0
    release, model = model_of(population, {"shape": shape, "rate": rate}, n)
    found = model.log_likelihood({"shape": np.array([shape]), "rate": np.array([rate])})[0]
    y, scale, step = release.value[0] * release.law.step[0], release.law.scale[0], release.law.step[0]
    # In probability, where the sum's own pole is none.
    law = stats.gamma(n * shape, scale=1 / rate)
    density = integrate.quad(lambda u: stats.laplace.pdf(y - law.ppf(u), scale=scale), 0, 1, limit=400)[0]
    assert abs(found - np.log(density * step)) < 3e-5


@pytest.mark.slow
def test_two_parts_of_a_uniform_are_integrated_without_complaint() -> None:
    population = nw.Uniform(low=0, high=stats.uniform(0.1, 1.9))
    schema = nw.Schema({"x": nw.Bounded(0, 1)}, n=10, neighbours="change-one")
    plans = [nw.plan(nw.Mean(X), schema, guarantee=nw.PureDP(1), part=part) for part in ((0, "1/2"), ("1/2", 1))]
    releases = [nw.simulate(plan, population, at={"high": 0.9}, seed=k) for k, plan in enumerate(plans)]
    posterior = nw.infer(releases, population, seed=1, draws=250, progress=False)
    assert not posterior.verdict.warns
    assert "quadrature" in posterior.because


@pytest.mark.parametrize("guarantee", [nw.ZeroConcentratedDP(12), nw.PureDP(8)])
@pytest.mark.parametrize("log_sd", [1e6, 1e9, 1e12])
def test_a_spread_that_leaves_no_value_between_the_bounds_leaves_a_binomial_law(log_sd, guarantee) -> None:
    """Half of the records are 0 in double precision, half at the upper bound: panels had no length to divide by."""
    n, top = 8, 5.5
    population = nw.LogNormal(log_mean=1, log_sd=stats.gamma(4, scale=0.15))
    schema = nw.Schema({"x": nw.Bounded(0, top)}, n=n, neighbours="change-one")
    release = nw.simulate(nw.plan(nw.Mean(X**0.5), schema, guarantee=guarantee), population, at={"log_sd": 0.6}, seed=1)
    found = ExactSum(release, population, n=n).log_likelihood({"log_sd": np.array([log_sd])})[0]
    y, scale, step = release.value[0] * release.law.step[0], release.law.scale[0], release.law.step[0]
    noise = stats.laplace if isinstance(guarantee, nw.PureDP) else stats.norm
    above = stats.norm.sf(np.log(top) - 1, scale=log_sd)
    k = np.arange(n + 1)
    density = np.sum(stats.binom.pmf(k, n, above) * noise.pdf(y - k * np.sqrt(top), scale=scale))
    # A record strictly between 1e-30 and the bound has a probability of 70 / log_sd / sqrt(2 pi).
    assert abs(found - np.log(density * step)) < 1e-8 + 1000 / log_sd


def test_points_beside_two_atoms_are_inverted_as_they_stand(rng) -> None:
    """A third value cannot be taken out, and is no panel of any length: the law is multinomial."""
    n, values, shares = 4, np.array([0.0, 0.5, 1.2]), rng.dirichlet(np.ones(3))
    noise = GaussianNoise(0.4)
    unit = np.polynomial.legendre.leggauss(8)[1] / 2
    found = inversion.log_density(
        1.7,
        n=n,
        nodes=np.full((1, 8), values[1]),
        weights=(shares[1] * unit)[None, None],
        atoms=values[[0, 2]],
        atom_weights=shares[None, [0, 2]],
        noise=noise,
    )
    counts = np.array([(i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)])
    density = stats.multinomial.pmf(counts, n, shares) @ stats.norm.pdf(1.7 - counts @ values, scale=0.4)
    assert found.log_density[0] == pytest.approx(np.log(density), abs=1e-8)
    assert found.error[0] < 1e-8
