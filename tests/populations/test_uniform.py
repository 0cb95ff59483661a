"""Records uniform on (-t, t): bounds that depend on the unknown, against quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

import noisewise as nw
from noisewise.populations.text import population_from_text, population_to_text

X = nw.column("x")
PRIOR = stats.gamma(4, scale=1.5)
POPULATION = nw.Uniform(half_width=PRIOR)


def schema(bound, n):
    return nw.Schema({"x": nw.Bounded(-bound, bound)}, n=n, neighbours="change-one")


@pytest.mark.parametrize("form", [
    {"half_width": 3.0}, {"half_width": 3.0, "centre": 0.0}, {"low": -3.0, "high": 3.0}, {"low": -3.0, "width": 6.0},
])  # fmt: skip
def test_every_way_of_writing_it_is_the_same_law(form):
    law = nw.Uniform(**form)
    x, u = np.array([-4, -3 + 1e-9, 0.3, 2.9, 3.1]), np.array([0.01, 0.4, 0.99])
    base = stats.uniform(-3, 6)
    np.testing.assert_allclose(law.cdf(x, {})[0], base.cdf(x))
    np.testing.assert_allclose(law.log_density(x, {})[0], base.logpdf(x))
    np.testing.assert_allclose(law.quantile(u, {})[0], base.ppf(u))
    np.testing.assert_allclose(law.between(x[:-1], x[1:], {})[0], np.diff(base.cdf(x)))
    text = population_to_text(law)
    assert population_to_text(population_from_text(text)) == text


def test_the_centre_may_be_unknown_too():
    law = nw.Uniform(centre=stats.norm(0, 5), half_width=PRIOR)
    assert law.free == ("centre", "half_width")
    assert repr(law) == "Uniform(centre=stats.norm(0, 5), half_width=stats.gamma(4, scale=1.5))"
    with pytest.raises(nw.InvalidArgument, match="low"):
        nw.Uniform(half_width=PRIOR, low=0)
    with pytest.raises(nw.InvalidArgument, match="half_width"):
        nw.Uniform(half_width=stats.norm(0, 1))


@pytest.mark.parametrize("bound", [5.0, 30.0])
def test_a_noisy_count_has_the_posterior_of_quadrature(bound):
    """P(|x| < 2) = min(1, 2/t), binomial behind geometric noise; bounds that clamp and bounds that do not."""
    n, seen, scale = 40, 22, 2.0
    release = nw.measurement(nw.Count(X.between(-2, 2)), schema(bound, n), seen, noise=nw.geometric_noise(scale=scale))
    counts = np.arange(n + 1)
    noise = np.exp(-np.abs(seen - counts) / scale)

    def weight(t):
        return float(PRIOR.pdf(t) * stats.binom.pmf(counts, n, min(1.0, 2 / t)) @ noise)

    total, first, second = (
        sum(integrate.quad(lambda t, k=k: t**k * weight(t), a, b)[0] for a, b in ((0, 2), (2, 5), (5, 60)))
        for k in (0, 1, 2)
    )
    posterior = nw.infer(release, POPULATION, seed=1, progress=False)
    assert posterior.mean["half_width"] == pytest.approx(first / total, rel=1e-4)
    assert posterior.sd["half_width"] == pytest.approx(np.sqrt(second / total - (first / total) ** 2), rel=1e-4)


def test_a_noisy_sum_of_clamped_squares_has_the_posterior_of_a_convolution():
    """Three records of min(|x|, 4), folded on a fine grid: an atom at 4 where t is larger; Laplace noise."""
    bound, n, value, scale = 4.0, 3, 7.0, 0.5
    release = nw.measurement(nw.Sum(abs(X)), schema(bound, n), value, noise=nw.laplace_noise(scale=scale))
    cells = 800
    width = bound / cells

    def law(t):
        edges = width * np.arange(cells + 1)
        row = np.diff(np.minimum(edges / t, 1.0))
        row = np.append(row, max(0.0, 1 - bound / t))  # the atom lies on the last edge, not in a middle
        places = np.append(edges[:-1] + width / 2, bound)
        return places, row

    def density(t):
        places, row = law(t)
        two = np.add.outer(places, places).ravel()
        order = np.argsort(two)
        mass = np.multiply.outer(row, row).ravel()[order]
        # Noise around a third record: E exp(-|v - x| / b), read where v = value - x1 - x2.
        v = value - two[order]
        grid = np.linspace(v.min(), v.max(), 4001)
        at = np.exp(-np.abs(grid[:, None] - places) / scale) @ row / (2 * scale)
        return float(np.interp(v, grid, at) @ mass)

    t = np.linspace(1.8, 20, 15)
    ours = nw.likelihood_of(release, POPULATION)
    # Ours is the chance of a lattice point, the convolution's a density: they differ by the logarithm of the step.
    apart = ours.log_likelihood({"half_width": t}) - np.log([density(one) for one in t])
    np.testing.assert_allclose(apart, np.log(float(release.law.step[0])), atol=2e-3)


def test_the_verdict_names_the_share_that_is_clamped():
    release = nw.measurement(nw.Mean(abs(X)), schema(2.0, 500), 1.9, noise=nw.laplace_noise(scale=0.01))
    posterior = nw.infer(release, POPULATION, seed=1, progress=False)
    assert posterior.mean["half_width"] > 8
    assert "beyond" in str(posterior.verdict) or "bounds" in str(posterior.verdict)
