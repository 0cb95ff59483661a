"""Particles on theta alone: evidence and posterior against closed answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from noisewise.online import particles as smc

ALARM = 1e-6


def normal_problem(y, noise):
    """theta ~ N(0, 1), y_i ~ N(theta, noise^2): closed evidence and posterior."""
    n = len(y)
    covariance = noise**2 * np.eye(n) + np.ones((n, n))
    evidence = stats.multivariate_normal(np.zeros(n), covariance).logpdf(y)
    variance = 1 / (1 + n / noise**2)
    return float(evidence), variance * np.sum(y) / noise**2, np.sqrt(variance)


def run(rng, y, noise, count):
    def law(value):
        return lambda position: stats.norm.logpdf(value, position[:, 0], noise)

    def prior(position):
        return stats.norm.logpdf(position[:, 0])

    position = rng.standard_normal((count, 1))
    state, log_evidence, rejuvenations = smc.begin(position, prior(position)), 0.0, 0
    for t, value in enumerate(y):

        def past(t=t):
            return lambda position: sum((law(v)(position) for v in y[:t]), np.zeros(len(position)))

        found = smc.absorb(lambda: rng, state, law(value)(state.position), log_prior=prior, last=law(value), past=past)
        state, rejuvenations = found.particles, rejuvenations + found.rejuvenations
        log_evidence += found.log_evidence
    return state, log_evidence, rejuvenations


def test_the_evidence_is_unbiased_on_its_own_scale():
    rng = np.random.default_rng(11)
    y, noise = 0.8 + 0.7 * np.random.default_rng(12).standard_normal(12), 0.7
    exact, _, _ = normal_problem(y, noise)
    ratios = np.array([np.exp(run(rng, y, noise, 200)[1] - exact) for _ in range(120)])
    error = ratios.std(ddof=1) / np.sqrt(ratios.size)
    assert abs(ratios.mean() - 1) < 5 * error
    assert abs(ratios.mean() * np.exp(0.5) - 1) > 5 * error  # half a nat too much would be seen


@pytest.mark.parametrize("noise", [0.5, 0.02], ids=["plain", "taken in parts"])
def test_the_particles_are_the_posterior(noise):
    rng = np.random.default_rng(21)
    y = 0.4 + noise * np.random.default_rng(22).standard_normal(30)
    exact, mean, sd = normal_problem(y, noise)
    state, log_evidence, rejuvenations = run(rng, y, noise, 4000)
    w = smc.weights(state.log_weight)
    assert rejuvenations >= 2
    assert w @ state.position[:, 0] == pytest.approx(mean, abs=0.1 * sd)
    assert np.sqrt(smc.covariance(state)[0, 0]) == pytest.approx(sd, rel=0.1)
    assert log_evidence == pytest.approx(exact, abs=0.3)
    # every particle carries the log likelihood of the answers as it stands
    np.testing.assert_allclose(
        state.log_likelihood, sum(stats.norm.logpdf(v, state.position[:, 0], noise) for v in y), atol=1e-8
    )


def test_moves_leave_the_posterior_where_it_is():
    rng = np.random.default_rng(31)
    target = stats.norm(1.5, 0.3)
    position = target.rvs((3000, 1), random_state=rng)
    zero = lambda position: np.zeros(len(position))  # noqa: E731
    state = smc.Particles(position, np.zeros(3000), zero(position), target.logpdf(position[:, 0]))
    moved, acceptance = smc.rejuvenated(rng, state, zero, lambda position: target.logpdf(position[:, 0]))
    assert 0.3 < acceptance < 0.7
    assert np.mean(moved.position != state.position) > 0.5
    assert stats.kstest(moved.position[:, 0], target.cdf).pvalue > ALARM
    wrong, _ = smc.rejuvenated(rng, state, zero, lambda position: target.logpdf(position[:, 0] - 0.3))
    assert stats.kstest(wrong.position[:, 0], target.cdf).pvalue < ALARM


def test_systematic_resampling_gives_each_particle_its_share():
    rng = np.random.default_rng(41)
    log_weight = np.log(np.random.default_rng(42).dirichlet(np.ones(50)))
    for _ in range(20):
        counts = np.bincount(smc.systematic(rng, log_weight), minlength=50)
        assert counts.sum() == 50
        assert np.all(np.abs(counts - 50 * np.exp(log_weight)) < 1 + 1e-9)


def test_effective_size_and_weights_are_those_of_the_formula():
    w = np.array([0.5, 0.25, 0.125, 0.125])
    assert smc.effective_size(np.log(w) - 700) == pytest.approx(1 / np.sum(w**2))
    np.testing.assert_allclose(smc.weights(np.log(w) + 900), w)
    assert smc.effective_size(np.array([0.0, -1e9])) == pytest.approx(1.0)


def test_a_move_to_a_density_that_is_no_number_is_not_made():
    rng = np.random.default_rng(51)
    position = rng.standard_normal((500, 2))
    zero = np.zeros(500)
    state = smc.Particles(position, zero, zero, zero)
    moved, acceptance = smc.rejuvenated(
        rng, state, lambda position: np.zeros(len(position)), lambda position: np.full(len(position), np.nan)
    )
    assert acceptance == 0
    assert np.isin(moved.position, position).all()


def test_a_heavy_tail_does_not_set_the_spread_of_the_particles(rng):
    """Half the central 68 % range of a Cauchy distribution is 1.82 scales, with 1000 draws to a tenth of that."""
    position = 10 * np.column_stack([rng.standard_cauchy(1000), rng.standard_normal(1000)])
    state = smc.begin(position, np.zeros(1000))
    assert smc.bulk(state).spread == pytest.approx([18.2, 10], rel=0.5)
    sd = np.sqrt(np.diag(smc.covariance(state)))
    assert sd[0] < 60
    assert sd[1] == pytest.approx(position[:, 1].std(), rel=0.01)  # a light tail is left as it is
    one = smc.Particles(position, np.where(np.arange(1000) == 3, 0.0, -1e9), np.zeros(1000), np.zeros(1000))
    assert np.all(smc.bulk(one).spread < 1e-6)


def test_the_spread_is_that_of_the_weights(rng):
    position = rng.uniform(-1, 1, (4000, 1))
    state = smc.Particles(position, stats.norm.logpdf(position[:, 0], 0, 0.1), np.zeros(4000), np.zeros(4000))
    assert smc.bulk(state).spread[0] == pytest.approx(0.1, rel=0.3)
