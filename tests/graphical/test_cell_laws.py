import itertools

import numpy as np
import pytest
from graph_problems import holder
from scipy import integrate, stats

from noisewise.graphical.cell_laws import IndependentCells, MixedTables, NormalTables
from noisewise.graphical.problem import GAUSSIAN

FALSE_ALARM = 1e-6


def covariance(rng, size):
    half = rng.normal(size=(size, size - 1))  # singular, as that of tables is
    return half @ half.T


def by_quadrature(d, spread, scale):
    """log of the integral of normal(u) laplace(d - u), piece by piece, against its largest value."""

    def log_f(u):
        return stats.norm.logpdf(u, 0, spread) - abs(d - u) / scale - np.log(2 * scale)

    centres = np.array([0.0, d, min(d, spread**2 / scale)])
    top = max(log_f(u) for u in centres)
    ends = np.unique(np.add.outer(centres, spread * np.array([-40, -12, -4, 0, 4, 12, 40])))
    parts = [
        integrate.quad(lambda u: np.exp(log_f(u) - top), *pair, epsabs=0, limit=200)[0]
        for pair in itertools.pairwise(ends)
    ]
    return top + np.log(sum(parts))


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
@pytest.mark.parametrize("spread", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("far", [0.0, 0.3, 5.0, 60.0])
def test_an_independent_cell_has_the_convolved_density_out_to_its_tails(spread, far):
    entry = holder(np.array([3.0]), n=10.0, variance=2.0)
    law = IndependentCells(entry, np.array([spread**2]))
    d = far * max(spread, 1.0)
    log_density, _ = law.score(np.array([[3.0 - d], [3.0 + d]]))
    assert log_density == pytest.approx(by_quadrature(d, spread, 1.0), rel=1e-6, abs=1e-6)


def test_normal_tables_have_the_normal_density(rng):
    sampling, means = covariance(rng, 5), rng.normal(size=(3, 5))
    entries = holder(rng.normal(size=5), n=10.0, variance=0.7, family=GAUSSIAN)
    total = sampling + 0.7 * np.eye(5)
    log_density, _ = NormalTables(entries, np.linalg.cholesky(total)).score(means)
    wanted = [stats.multivariate_normal(mean, total).logpdf(entries.observed) for mean in means]
    assert log_density == pytest.approx(np.array(wanted), rel=1e-10)


def test_mixed_tables_have_the_normal_density_of_each_rows_own_variances(rng):
    sampling, means = covariance(rng, 5), rng.normal(size=(3, 5))
    entries = holder(rng.normal(size=5), n=10.0, variance=2.0)
    law = MixedTables(entries, sampling, 3)
    law.refresh(rng, means)
    assert np.unique(law.omega).size == law.omega.size
    log_density, _ = law.score(means)
    wanted = [
        stats.multivariate_normal(mean, sampling + np.diag(omega)).logpdf(entries.observed)
        for mean, omega in zip(means, law.omega, strict=True)
    ]
    assert log_density == pytest.approx(np.array(wanted), rel=1e-8)


def laws(rng, entries, sampling):
    mixed = MixedTables(entries, sampling, 2)
    mixed.refresh(rng, rng.normal(size=(2, len(entries.observed))))
    factor = np.linalg.cholesky(sampling + np.diag(entries.variance))
    return {
        "independent": IndependentCells(entries, np.diag(sampling)),
        "normal": NormalTables(entries, factor),
        "mixed": mixed,
    }


@pytest.mark.parametrize("name", ["independent", "normal", "mixed"])
def test_the_slope_is_the_derivative_in_the_means(rng, name):
    entries = holder(3 * rng.normal(size=4), n=10.0, variance=2.0)
    law = laws(rng, entries, covariance(rng, 4))[name]
    means = rng.normal(size=(2, 4))
    _, slope = law.score(means)
    for i in range(4):
        step = 1e-5 * np.eye(4)[i]
        difference = (law.score(means + step)[0] - law.score(means - step)[0]) / 2e-5
        assert slope[:, i] == pytest.approx(difference, rel=1e-5, abs=1e-6)


def geweke(rng, rows, scale_of_law):
    """Mixing variances drawn from their prior, gaps from their law, and then refreshed: their law is to stay."""
    sampling, b = covariance(rng, 3), 1.0
    law = MixedTables(holder(np.zeros(3), n=10.0, variance=2 * scale_of_law**2), sampling, rows)
    law.omega = rng.exponential(2 * b**2, size=(rows, 3))
    law.factors = [law._factor(row) for row in law.omega]
    before = law.omega.copy()
    gaps = np.stack([factor @ rng.standard_normal(3) for factor in law.factors])
    law.refresh(rng, -gaps)
    return before, law.omega


def test_drawing_the_mixing_variances_anew_keeps_their_law(rng):
    before, after = geweke(rng, 3000, 1.0)
    for i in range(3):
        assert stats.kstest(after[:, i], stats.expon(scale=2.0).cdf).pvalue > FALSE_ALARM / 3
        assert abs(stats.spearmanr(before[:, i], after[:, i]).statistic) < 0.9


def test_a_wrong_scale_of_the_noise_does_not_keep_it(rng):
    _, after = geweke(rng, 3000, 2.5)
    assert stats.kstest(after[:, 0], stats.expon(scale=2.0).cdf).pvalue < FALSE_ALARM


def test_the_mixing_variance_of_one_entry_reaches_its_law_given_the_entry(rng):
    b, s, gap, rows = 1.0, 0.5, 3.0, 1500
    law = MixedTables(holder(np.array([gap]), n=10.0, variance=2 * b**2), np.array([[s]]), rows)
    for _ in range(25):
        law.refresh(rng, np.zeros((rows, 1)))
    grid = np.geomspace(1e-7, 200, 40_001)
    density = np.exp(-grid / (2 * b**2) - gap**2 / (2 * (s + grid))) / np.sqrt(s + grid)
    cdf = integrate.cumulative_trapezoid(density, grid, initial=0)
    assert stats.kstest(law.omega[:, 0], lambda w: np.interp(w, grid, cdf / cdf[-1])).pvalue > FALSE_ALARM
