"""Noisy tables by Fourier transforms, against enumeration of every table and against the convolution chain."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from noisewise.errors import InvalidArgument
from noisewise.laws import DiscreteGaussian, DiscreteLaplace, RoundedGaussian
from noisewise.likelihood import counts
from noisewise.likelihood.conjugate import DirichletPosterior, DirichletPrior
from noisewise.likelihood.table_sum import NegativeBinomialCells, PoissonCells, TableSum

ALARM = 1e-6


def noise_of(y, law):
    return lambda s: law.log_pmf(np.asarray(y, dtype=float).reshape(1, -1, *(1,) * (s.ndim - 2)) - s)


def tables(n, m):
    return np.array([t for t in product(range(n + 1), repeat=m) if sum(t) == n])


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian, RoundedGaussian])
def test_likelihood_means_and_evidence_over_every_table(kind, scale):
    n, y, alpha = 6, np.array([4, -2, 3]), np.array([0.3, 1.0, 4.0])
    law = kind(scale=(scale,), step=(1.0,))
    every = tables(n, 3)
    noise = law.log_pmf(y - every).sum(axis=1)
    p = np.array([[0.2, 0.3, 0.5], [1e-9, 0.5, 0.5 - 1e-9], [0.9, 0.05, 0.05], [0.0, 0.4, 0.6]])
    table = TableSum(n, PoissonCells(n, p), noise_of(y, law))
    terms = np.stack([stats.multinomial.logpmf(every, n, row) + noise for row in p])
    total = logsumexp(terms, axis=1)
    np.testing.assert_allclose(table.log_likelihood(), total, rtol=1e-10)
    np.testing.assert_allclose(table.means(), np.exp(terms - total[:, None]) @ every, rtol=1e-8, atol=1e-9)
    prior = TableSum(n, NegativeBinomialCells(n, alpha[None]), noise_of(y, law))
    terms = stats.dirichlet_multinomial.logpmf(every, alpha, n) + noise
    assert prior.log_likelihood()[0] == pytest.approx(logsumexp(terms), rel=1e-10)
    weights = np.exp(terms - logsumexp(terms))
    np.testing.assert_allclose(prior.means()[0], weights @ every, rtol=1e-8, atol=1e-9)
    variance = weights @ np.square(every) - np.square(weights @ every)
    np.testing.assert_allclose(prior.moments()[1][0], variance, rtol=1e-7, atol=1e-9)
    shares = (alpha + every) / (alpha.sum() + n)
    posterior = DirichletPosterior(DirichletPrior("p", tuple(alpha)), prior)
    mean = weights @ shares
    spread = weights @ (shares * (1 - shares) / (alpha.sum() + n + 1) + np.square(shares)) - mean**2
    np.testing.assert_allclose(posterior.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(posterior.variance, spread, rtol=1e-7)


@pytest.mark.parametrize(
    ("n", "m", "law"),
    [
        (300, 8, DiscreteLaplace(scale=(2.0,), step=(1.0,))),
        (3000, 5, DiscreteLaplace(scale=(20.0,), step=(1.0,))),
        (2000, 5, DiscreteGaussian(scale=(0.4,), step=(1.0,))),
    ],
)
def test_large_tables_agree_with_the_convolution_chain(n, m, law):
    rng = np.random.default_rng()
    true = rng.dirichlet(np.ones(m))
    y = rng.multinomial(n, true) + np.rint(rng.laplace(0, law.scale[0], m))
    p = np.concatenate([rng.dirichlet(1 + n * true, 2), rng.dirichlet(np.ones(m), 2)])  # near the data, and far away
    rows = np.stack([law.log_pmf(v - np.arange(n + 1)) for v in y])
    table = TableSum(n, PoissonCells(n, p), noise_of(y, law))
    np.testing.assert_allclose(table.log_likelihood(), counts.multinomial_log_likelihood(p, rows), rtol=1e-9)
    np.testing.assert_allclose(table.means().sum(axis=1), n, rtol=1e-9)
    alpha = rng.uniform(0.2, 3, m)
    prior = TableSum(n, NegativeBinomialCells(n, alpha[None]), noise_of(y, law))
    expected = counts.dirichlet_multinomial_log_evidence(rows, alpha=alpha)
    assert prior.log_likelihood()[0] == pytest.approx(expected, rel=1e-9, abs=1e-8)


def test_two_cells_are_a_binomial_count_at_a_million_records():
    """With the second cell drowned in noise the table is the count of the first."""
    n, y = 10**6, 300_400
    law = DiscreteLaplace(scale=(5.0,), step=(1.0,))
    p = np.array([0.2995, 0.3, 0.301, 0.35])
    table = TableSum(
        n,
        PoissonCells(n, np.stack([p, 1 - p], axis=1)),
        lambda s: np.stack([law.log_pmf(y - s[:, 0]), np.zeros_like(s[:, 1])], axis=1),
    )
    from noisewise.likelihood import binomial_laplace

    expected = binomial_laplace.log_likelihood(p, y=y, n=n, rate=0.2)
    np.testing.assert_allclose(table.log_likelihood(), expected, rtol=1e-9, atol=1e-8)


def is_fitting(drawn, every, law):
    base = int(every.max()) + 1
    key = base ** np.arange(every.shape[1])
    order = np.argsort(every @ key)
    found = np.bincount(np.searchsorted((every @ key)[order], drawn @ key), minlength=len(every))
    expected = law[order] / law.sum() * len(drawn)
    kept = expected > 8
    observed = np.append(found[kept], found[~kept].sum())
    expected = np.append(expected[kept], expected[~kept].sum())
    kept = expected > 0
    return stats.chisquare(observed[kept], expected[kept] * len(drawn) / expected[kept].sum()).pvalue > ALARM


def test_draws_are_tables_with_the_posterior_law():
    rng = np.random.default_rng()
    n, y, p, alpha = 7, np.array([5, 0, 1]), np.array([0.3, 0.3, 0.4]), np.array([0.5, 1.0, 2.0])
    law = DiscreteLaplace(scale=(1.5,), step=(1.0,))
    every = tables(n, 3)
    noise = law.log_pmf(y - every).sum(axis=1)
    table = TableSum(n, PoissonCells(n, np.tile(p, (30_000, 1))), noise_of(y, law))
    drawn = table.draw(rng)
    assert np.all(drawn.sum(axis=1) == n)
    assert is_fitting(drawn, every, np.exp(stats.multinomial.logpmf(every, n, p) + noise))
    assert not is_fitting(drawn, every, np.exp(stats.multinomial.logpmf(every, n, p)))
    prior = TableSum(n, NegativeBinomialCells(n, alpha[None]), noise_of(y, law))
    drawn = prior.draw(rng, 30_000)
    assert is_fitting(drawn, every, np.exp(stats.dirichlet_multinomial.logpmf(every, alpha, n) + noise))
    assert not is_fitting(drawn, every, np.exp(stats.dirichlet_multinomial.logpmf(every, alpha, n)))


def test_pieces_change_nothing(monkeypatch):
    rng = np.random.default_rng()
    law, y = DiscreteLaplace(scale=(2.0,), step=(1.0,)), np.array([20, 35, 40])
    table = TableSum(100, PoissonCells(100, rng.dirichlet([2, 3, 4], 25)), noise_of(y, law))
    whole = table.log_likelihood()
    monkeypatch.setattr("noisewise.likelihood.table_sum.MOST_CELLS", 1)
    np.testing.assert_allclose(table.log_likelihood(), whole, rtol=1e-10)


def test_a_table_that_cannot_be_is_refused():
    table = TableSum(
        2, PoissonCells(2, np.array([[0.5, 0.5]])), lambda s: np.where(s == 0, 0.0, -1e6 * s)
    )  # both cells surely 0, but n = 2
    assert table.log_likelihood()[0] < -1e5
    stuck = TableSum(2, PoissonCells(2, np.array([[0.0, 0.0]])), lambda s: np.zeros_like(s))
    with pytest.raises(InvalidArgument, match="No table"):
        stuck.draw(np.random.default_rng())
