"""Noisy counts against enumeration and quadrature; draws against the exact posterior at a false-alarm rate of 1e-6."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import gammaln, logsumexp

from noisewise.errors import InvalidArgument
from noisewise.laws import DiscreteGaussian, DiscreteLaplace, FiniteLaw, RoundedGaussian
from noisewise.likelihood import counts

ALPHA = 1e-6


def noise_rows(y, n):
    """log P(y | s), s = 0..n, for every law of a count."""
    s = np.arange(n + 1)
    laws = [
        kind(scale=(scale,), step=(1.0,))
        for kind in (DiscreteLaplace, DiscreteGaussian, RoundedGaussian)
        for scale in (0.3, 2.0, 40.0)
    ]
    rows = [law.log_pmf(y - s) for law in laws]
    fair = FiniteLaw(
        rows=((Fraction(3, 4), Fraction(1, 4)),) * (n // 2) + ((Fraction(1, 4), Fraction(3, 4)),) * (n + 1 - n // 2),
        actions=(0.0, 1.0),
    )
    return [*rows, np.log(np.array([float(row[1]) for row in fair.rows]))]


@pytest.mark.parametrize("y", [-3, 0, 4, 12])
def test_binomial_likelihood_and_score_by_enumeration(y):
    n, theta = 9, np.array([1e-6, 0.2, 0.7, 1 - 1e-6])
    s = np.arange(n + 1)
    for row in noise_rows(y, n):
        found = counts.binomial_log_likelihood(theta, row)
        expected = [logsumexp(stats.binom.logpmf(s, n, t) + row) for t in theta]
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
        for t, slope in zip(theta[1:3], counts.binomial_score(theta, row)[1:3], strict=True):
            chance = stats.binom.pmf(s, n, t)
            derivative = chance * (s / t - (n - s) / (1 - t))
            top = row.max()
            assert slope == pytest.approx(
                derivative @ np.exp(row - top) / (chance @ np.exp(row - top)), rel=1e-9, abs=1e-12
            )


def test_beta_mixture_is_the_posterior_by_quadrature():
    n, a, b = 12, 0.5, 5.0
    for row in noise_rows(3, n):
        log_weights, evidence = counts.beta_binomial_log_weights(row, a=a, b=b)
        assert logsumexp(log_weights) == pytest.approx(0, abs=1e-12)
        top = row.max()

        def joint(u, power, row=row, top=top):
            # theta = u^2 removes the pole of Beta(1/2, 5) at 0
            t = u * u
            return (
                t**power
                * float(np.exp(counts.binomial_log_likelihood(t, row)[0] - top))
                * stats.beta.pdf(t, a, b)
                * 2
                * u
            )

        mass, first, second = (integrate.quad(joint, 0, 1, (k,), epsabs=0, epsrel=1e-10)[0] for k in (0, 1, 2))
        assert evidence == pytest.approx(np.log(mass) + top, rel=1e-8, abs=1e-8)
        mean, variance = counts.beta_mixture_moments(log_weights, a=a, b=b)
        assert mean == pytest.approx(first / mass, rel=1e-8)
        assert variance == pytest.approx(second / mass - (first / mass) ** 2, rel=1e-6)
        found = np.exp(counts.beta_mixture_log_density(np.array([[0.1, 0.4]]), log_weights, a=a, b=b))[0]
        for t, value in zip((0.1, 0.4), found, strict=True):
            assert value == pytest.approx(joint(np.sqrt(t), 0) / (2 * np.sqrt(t)) / mass, rel=1e-8)


def test_two_releases_of_the_same_count_share_it():
    """Adding the noise rows is the joint law by enumeration; multiplying the marginal likelihoods is not."""
    n, theta = 8, 0.4
    s = np.arange(n + 1)
    first, second = (
        DiscreteLaplace(scale=(1.0,), step=(1.0,)).log_pmf(5 - s),
        RoundedGaussian(scale=(2.0,), step=(1.0,)).log_pmf(3 - s),
    )
    joint = counts.binomial_log_likelihood(theta, first + second)[0]
    by_hand = sum(stats.binom.pmf(k, n, theta) * np.exp(first[k]) * np.exp(second[k]) for k in s)
    assert joint == pytest.approx(np.log(by_hand), rel=1e-12)
    wrong = counts.binomial_log_likelihood(theta, first)[0] + counts.binomial_log_likelihood(theta, second)[0]
    assert abs(joint - wrong) > 0.01


def test_limits_of_the_beta_posterior():
    """No noise: Beta(a + y, b + n - y). Drowning noise: the prior."""
    n, a, b, y = 50, 2.0, 3.0, 17
    s = np.arange(n + 1)
    with np.errstate(divide="ignore"):
        silent = np.log((s == y).astype(float))
    t = np.linspace(0.05, 0.95, 7)
    log_weights, _ = counts.beta_binomial_log_weights(silent, a=a, b=b)
    np.testing.assert_allclose(
        counts.beta_mixture_log_density(t, log_weights, a=a, b=b), stats.beta.logpdf(t, a + y, b + n - y), rtol=1e-10
    )
    loud = DiscreteLaplace(scale=(1e9,), step=(1.0,)).log_pmf(y - s)
    log_weights, _ = counts.beta_binomial_log_weights(loud, a=a, b=b)
    np.testing.assert_allclose(
        counts.beta_mixture_log_density(t, log_weights, a=a, b=b), stats.beta.logpdf(t, a, b), rtol=1e-6
    )


def draws_fit(observed, expected):
    """A chi-square goodness of fit at the shared false-alarm rate, cells merged to an expectation of at least 8."""
    order = np.argsort(-expected)
    observed, expected = observed[order], expected[order]
    keep = max(int(np.searchsorted(-expected, -8)), 1)
    observed = np.append(observed[:keep], observed[keep:].sum())
    expected = np.append(expected[:keep], expected[keep:].sum())
    return (
        stats.chisquare(observed[expected > 0], expected[expected > 0] * observed.sum() / expected.sum()).pvalue > ALPHA
    )


def test_beta_binomial_draws_have_the_posterior_law_and_a_wrong_law_is_caught():
    rng = np.random.default_rng()
    n, a, b = 30, 1.5, 2.0
    row = DiscreteLaplace(scale=(3.0,), step=(1.0,)).log_pmf(11 - np.arange(n + 1))
    log_weights, _ = counts.beta_binomial_log_weights(row, a=a, b=b)
    theta, s = counts.draw_beta_binomial(rng, log_weights, a=a, b=b, size=20000)
    assert draws_fit(np.bincount(s, minlength=n + 1), 20000 * np.exp(log_weights))
    edges = np.linspace(0, 1, 41)
    mixture = np.exp(log_weights) @ np.diff(
        stats.beta.cdf(edges, a + np.arange(n + 1)[:, None], b + n - np.arange(n + 1)[:, None]), axis=1
    )
    assert draws_fit(np.histogram(theta, edges)[0], 20000 * mixture)
    naive = np.diff(stats.beta.cdf(edges, a + 11, b + n - 11))
    assert not draws_fit(np.histogram(theta, edges)[0], 20000 * naive)


def tables(n, m):
    return [t for t in product(range(n + 1), repeat=m) if sum(t) == n]


@pytest.mark.parametrize("scale", [0.2, 1.0, 30.0])
def test_dirichlet_multinomial_evidence_and_multinomial_likelihood_by_enumeration(scale):
    n, alpha, y = 6, np.array([0.3, 1.0, 4.0]), np.array([4, -2, 3])
    rows = np.stack([DiscreteLaplace(scale=(scale,), step=(1.0,)).log_pmf(v - np.arange(n + 1)) for v in y])
    every = np.array(tables(n, 3))
    noise = rows[np.arange(3), every].sum(axis=1)
    expected = logsumexp(stats.dirichlet_multinomial.logpmf(every, alpha, n) + noise)
    assert counts.dirichlet_multinomial_log_evidence(rows, alpha=alpha) == pytest.approx(expected, rel=1e-11)
    p = np.array([[0.2, 0.3, 0.5], [1e-9, 0.5, 0.5 - 1e-9]])
    expected = [logsumexp(stats.multinomial.logpmf(every, n, q) + noise) for q in p]
    np.testing.assert_allclose(counts.multinomial_log_likelihood(p, rows), expected, rtol=1e-10)


def test_dirichlet_multinomial_draws_have_the_joint_posterior_law():
    rng = np.random.default_rng()
    n, alpha, y, size = 7, np.array([0.5, 1.0, 2.0]), np.array([5, 0, 1]), 30000
    rows = np.stack([DiscreteLaplace(scale=(1.5,), step=(1.0,)).log_pmf(v - np.arange(n + 1)) for v in y])
    theta, s = counts.draw_dirichlet_multinomial(rng, rows, alpha=alpha, size=size)
    assert np.all(s.sum(axis=1) == n)
    np.testing.assert_allclose(theta.sum(axis=1), 1, rtol=1e-12)
    every = np.array(tables(n, 3))
    log_joint = stats.dirichlet_multinomial.logpmf(every, alpha, n) + rows[np.arange(3), every].sum(axis=1)
    law = np.exp(log_joint - logsumexp(log_joint))
    code = every @ [(n + 1) ** 2, n + 1, 1]
    order = np.argsort(code)
    observed = np.bincount(np.searchsorted(code[order], s @ [(n + 1) ** 2, n + 1, 1]), minlength=len(every))
    assert draws_fit(observed, size * law[order])
    prior = np.exp(stats.dirichlet_multinomial.logpmf(every, alpha, n))
    assert not draws_fit(observed, size * prior[order])
    edges = np.linspace(0, 1, 21)
    rest = alpha.sum() - alpha[0] + n - every[:, 0]
    mixture = law @ np.diff(stats.beta.cdf(edges, (alpha[0] + every[:, 0])[:, None], rest[:, None]), axis=1)
    assert draws_fit(np.histogram(theta[:, 0], edges)[0], size * mixture)


def test_large_tables_far_from_the_prior_do_not_underflow():
    """n = 20000 and noisy cells that contradict a tight prior: log evidence against a log-space recursion."""
    n, m = 400, 5
    y = np.array([380, 5, 5, 5, 5])
    rows = np.stack([DiscreteLaplace(scale=(0.7,), step=(1.0,)).log_pmf(v - np.arange(n + 1)) for v in y])
    alpha = np.array([0.01, 50.0, 300.0, 1.0, 1.0])
    s = np.arange(n + 1)
    g = gammaln(alpha[:, None] + s) - gammaln(alpha)[:, None] - gammaln(s + 1) + rows
    law = g[0]
    for j in range(1, m):
        law = np.array([logsumexp(law[: t + 1] + g[j, t::-1]) for t in range(n + 1)])
    expected = law[n] + gammaln(n + 1) + gammaln(alpha.sum()) - gammaln(alpha.sum() + n)
    assert counts.dirichlet_multinomial_log_evidence(rows, alpha=alpha) == pytest.approx(expected, rel=1e-11)
    n = 20000
    y = np.array([15000, 2000, 1000, 1500, 480])
    rows = np.stack([DiscreteLaplace(scale=(3.0,), step=(1.0,)).log_pmf(v - np.arange(n + 1)) for v in y])
    _, s = counts.draw_dirichlet_multinomial(np.random.default_rng(), rows, alpha=alpha, size=50)
    assert np.all(s.sum(axis=1) == n)
    assert np.all(np.abs(s - y) < 3.0 * 60 + 20)


def test_a_table_that_cannot_be_is_refused():
    with np.errstate(divide="ignore"):
        rows = np.log(np.array([[1.0, 0, 0], [1.0, 0, 0]]))  # both counts certainly 0, but n = 2
    assert counts.dirichlet_multinomial_log_evidence(rows, alpha=[1.0, 1.0]) == -np.inf
    with pytest.raises(InvalidArgument):
        counts.draw_dirichlet_multinomial(np.random.default_rng(), rows, alpha=[1.0, 1.0], size=3)
    with pytest.raises(InvalidArgument):
        counts.dirichlet_multinomial_log_evidence(rows, alpha=[1.0, 1.0, 1.0])


@pytest.mark.parametrize(("a", "b"), [(0.5, 5.0), (1.0, 1.0), (300.0, 4.0)])
@pytest.mark.parametrize(
    "law", [DiscreteLaplace(scale=(4.0,), step=(1.0,)), RoundedGaussian(scale=(9.0,), step=(1.0,))]
)
def test_a_window_of_counts_serves_as_well_as_all_of_them(a, b, law):
    """The prior may pull far from y (the third one does): the window follows the weights, not the noise."""
    n, y = 6000, 900

    def noise(s):
        return law.log_pmf(y - s)

    whole, evidence = counts.beta_binomial_log_weights(noise(np.arange(n + 1)), a=a, b=b)
    start, last = counts.beta_window(noise, a=a, b=b, n=n)
    assert 0 <= start < last <= n
    assert last - start < n
    part, part_evidence = counts.beta_binomial_log_weights(
        noise(np.arange(start, last + 1)), a=a, b=b, start=start, n=n
    )
    assert part_evidence == pytest.approx(evidence, rel=1e-12)
    np.testing.assert_allclose(np.exp(part), np.exp(whole[start : last + 1]), rtol=1e-9, atol=1e-300)
    assert np.exp(whole[:start]).sum() + np.exp(whole[last + 1 :]).sum() < 1e-40
    moments = counts.beta_mixture_moments(part, a=a, b=b, start=start, n=n)
    assert moments == pytest.approx(counts.beta_mixture_moments(whole, a=a, b=b), rel=1e-9)
    # Where the density is below e^-100 of its peak the counts that were dropped may be all that is left of it.
    t = np.linspace(0.05, 0.5, 400)
    density = counts.beta_mixture_log_density(t, whole, a=a, b=b)
    matters = density > density.max() - 100
    assert matters.sum() > 20
    found = counts.beta_mixture_log_density(t[matters], part, a=a, b=b, start=start, n=n)
    np.testing.assert_allclose(found, density[matters], rtol=1e-9, atol=1e-9)
    theta, s = counts.draw_beta_binomial(np.random.default_rng(), part, a=a, b=b, size=2000, start=start, n=n)
    assert np.all((s >= start) & (s <= last))
    mean, variance = moments
    assert abs(theta.mean() - mean) < stats.norm.isf(ALPHA / 2) * np.sqrt(variance / 2000)


def test_a_window_outside_the_counts_is_refused():
    with pytest.raises(InvalidArgument, match="do not lie"):
        counts.beta_binomial_log_weights(np.zeros(5), a=1.0, b=1.0, start=8, n=10)
