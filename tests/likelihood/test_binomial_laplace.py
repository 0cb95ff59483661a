"""The closed law of a count under discrete Laplace noise, against exact Fractions, mpmath and plain sums."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from noisewise.laws import DiscreteLaplace
from noisewise.likelihood import binomial_laplace
from noisewise.likelihood.discrete_laws import binomial_log_pmf, log_rising, poisson_log_pmf


def exactly(p, y, n, rate):
    """log p(y | p), E[s] and E[n - s] by 60-digit sums."""
    with mpmath.workdps(60):
        a, p = mpmath.exp(-mpmath.mpf(rate)), mpmath.mpf(p)
        terms = [mpmath.binomial(n, s) * p**s * (1 - p) ** (n - s) * a ** abs(y - s) for s in range(n + 1)]
        total = mpmath.fsum(terms)
        counted = mpmath.fsum(s * w for s, w in enumerate(terms)) / total
        return mpmath.log(total * (1 - a) / (1 + a)), counted, n - counted


@pytest.mark.parametrize("n", [1, 2, 7, 60])
@pytest.mark.parametrize("rate", [1e-6, 0.01, 0.5, 5.0, 50.0, 800.0])
def test_law_means_and_score_at_every_extreme(n, rate):
    p = np.array([1e-300, 1e-12, 1e-3, 0.2, 0.5, 0.9, 1 - 1e-6])
    for y in sorted({-5, -1, 0, 1, n // 2, n - 1, n, n + 1, n + 30}):
        found = binomial_laplace.log_likelihood(p, y=y, n=n, rate=rate)
        counted, others = binomial_laplace.mean_counts(p, y=y, n=n, rate=rate)
        slope = binomial_laplace.score(p, y=y, n=n, rate=rate)
        for k, value in enumerate(p):
            log_p, mean, rest = exactly(value, y, n, rate)
            assert found[k] == pytest.approx(float(log_p), rel=1e-12, abs=1e-12)
            assert counted[k] == pytest.approx(float(mean), rel=1e-9, abs=1e-300)
            assert others[k] == pytest.approx(float(rest), rel=1e-9)
            with mpmath.workdps(60):
                expected = float(mean / mpmath.mpf(value) - rest / (1 - mpmath.mpf(value)))
            size = float(mean) / value + float(rest) / (1 - value)
            assert slope[k] == pytest.approx(expected, rel=1e-9, abs=1e-9 * size)


def test_at_the_ends_of_the_unit_interval_it_is_exact_arithmetic():
    """p = 0 and p = 1: every record the same; and the one-sided derivatives there, with a = 1/3."""
    a, n = Fraction(1, 3), 6
    norm = (1 - a) / (1 + a)
    rate = float(np.log(3))
    for y in (-2, 0, 1, 5, 6, 9):

        def law(s, y=y):
            return norm * a ** abs(y - s)

        found = binomial_laplace.log_likelihood(np.array([0.0, 1.0]), y=y, n=n, rate=rate)
        np.testing.assert_allclose(found, np.log([float(law(0)), float(law(n))]), rtol=1e-13)
        slope = binomial_laplace.score(np.array([0.0, 1.0]), y=y, n=n, rate=rate)
        expected = [n * (law(1) / law(0) - 1), n * (1 - law(n - 1) / law(n))]
        np.testing.assert_allclose(slope, np.array(expected, dtype=float), rtol=1e-12)


@pytest.mark.parametrize("n", [1000, 10_000, 10**6])
@pytest.mark.parametrize("rate", [1e-3, 0.05, 1.0, 8.0])
def test_large_n_agrees_with_the_sum(n, rate):
    rng = np.random.default_rng()
    law = DiscreteLaplace(scale=(1 / rate,), step=(1.0,))
    for true in rng.beta(0.5, 0.5, 4):
        spread = np.sqrt(n * true * (1 - true))
        y = int(rng.normal(n * true, spread + 4 / rate))
        for p in np.clip(true + spread / n * rng.normal(0, 8, 3), 1e-9, 1 - 1e-9):
            ends = n * p, min(max(y, 0), n)
            reach = 40 * np.sqrt(n * p * (1 - p)) + 60
            s = np.arange(max(0, int(min(ends) - reach)), min(n, int(max(ends) + reach)) + 1)
            terms = binomial_log_pmf(s, n=n, p=p) + law.log_pmf(y - s)
            expected = logsumexp(terms)
            assert binomial_laplace.log_likelihood(p, y=y, n=n, rate=rate) == pytest.approx(
                expected, rel=1e-10, abs=1e-9
            )
            counted, _ = binomial_laplace.mean_counts(p, y=y, n=n, rate=rate)
            assert counted == pytest.approx(np.exp(terms - expected) @ s, rel=1e-7)


def test_the_chances_of_every_answer_sum_to_one():
    y = np.arange(-400, 700)
    for p in (1e-4, 0.37, 0.999):
        chances = [float(np.exp(binomial_laplace.log_likelihood(p, y=int(v), n=300, rate=0.2))) for v in y]
        assert sum(chances) == pytest.approx(1, abs=1e-12)
    shifted = [float(np.exp(binomial_laplace.log_likelihood(0.37, y=int(v), n=300, rate=0.21))) for v in y]
    assert abs(np.array(shifted) - [stats.binom.pmf(v, 300, 0.37) for v in y]).max() > 1e-3  # the noise is not lost


@pytest.mark.parametrize(
    ("n", "s", "p"),
    [(10, 3, 0.2), (10**6, 500_123, 0.5), (10**9, 300_005_000, 0.3), (10**12, 5 * 10**11, 0.5000001), (5, 0, 0.1),
     (5, 5, 0.1), (1, 1, 0.3), (10_000, 17, 1e-3)],
)  # fmt: skip
def test_laws_of_counts_keep_their_digits_at_every_size(n, s, p):
    with mpmath.workdps(50):
        q = mpmath.mpf(p)
        binomial = mpmath.loggamma(n + 1) - mpmath.loggamma(s + 1) - mpmath.loggamma(n - s + 1)
        binomial += s * mpmath.log(q) + (n - s) * mpmath.log(1 - q)
        poisson = s * mpmath.log(n * q) - n * q - mpmath.loggamma(s + 1)
        rising = mpmath.loggamma(q + s) - mpmath.loggamma(q) - mpmath.loggamma(s + 1)
    assert binomial_log_pmf(s, n=n, p=p) == pytest.approx(float(binomial), rel=1e-11, abs=1e-11)
    assert poisson_log_pmf(s, n * p) == pytest.approx(float(poisson), rel=1e-11, abs=1e-11)
    assert log_rising(p, s) == pytest.approx(float(rising), rel=1e-11, abs=1e-11)


def test_impossible_counts_have_no_chance():
    assert np.all(np.isneginf(binomial_log_pmf(np.array([-1, 6]), n=5, p=0.5)))
    np.testing.assert_array_equal(binomial_log_pmf(np.array([0, 1, 5]), n=5, p=0.0), [0, -np.inf, -np.inf])
    np.testing.assert_array_equal(poisson_log_pmf(np.array([0, 1, 5]), 0.0), [0, -np.inf, -np.inf])
    assert comb(5, 2) * 0.5**5 == pytest.approx(float(np.exp(binomial_log_pmf(2, n=5, p=0.5))), rel=1e-14)
