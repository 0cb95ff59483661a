"""Every kernel draws from the posterior it claims: quadrature and algebra on the same release (promise E4)."""

import math

import numpy as np
import pytest

from noisewise.inference.run import run

BATCH = ("mh", "slice", "mh-within-gibbs", "pmmh", "pmmh from f alone", "cpm", "mhaar", "mhaar from f alone")
RECORDS = ("mhaar over z", "mhaar over z, subsets", "mhaar over z, all as a subset")
CHAINS = 250


def z_scores(draws, mean, sd):
    """Errors of the posterior mean and variance in standard errors, chains being independent of each other."""
    scores = []
    for values, true in ((draws, mean), ((draws - mean) ** 2, sd**2)):
        by_chain = values.mean(axis=1)
        scores.append((by_chain.mean(axis=0) - true) / (by_chain.std(axis=0, ddof=1) / math.sqrt(len(by_chain))))
    return np.abs(np.concatenate([np.ravel(score) for score in scores]))


def errors(rng, model, make_kernel, *, warmup=250, draws=200):
    trace = run(rng, make_kernel, model.target, chains=CHAINS, warmup=warmup, draws=draws)
    assert not trace.non_finite.any()
    return z_scores(model.theta(trace.positions), *model.reference)


@pytest.mark.parametrize("name", BATCH)
def test_a_conjugate_posterior_is_drawn(toys, rng, name):
    model = toys.NormalPair()
    assert errors(rng, model, toys.batch_kernels[name](model)).max() < 5


@pytest.mark.parametrize("name", BATCH)
def test_the_posterior_under_laplace_noise_is_drawn(toys, rng, name):
    model = toys.MeanOfAbsolutes()
    assert model.reference == pytest.approx((2.3617, 0.3919), abs=1e-4)
    assert errors(rng, model, toys.batch_kernels[name](model)).max() < 5


@pytest.mark.parametrize("name", ["mh", "pmmh", "cpm", "mhaar"])
@pytest.mark.parametrize("scale", [0.001, 1.0])
def test_noise_much_smaller_or_larger_than_the_statistics_own_spread(toys, rng, name, scale):
    """At the first scale nearly all of f(u|theta) misses y; at the second the normal fit has thin tails."""
    model = toys.MeanOfAbsolutes(scale=scale, y=1.9)
    assert errors(rng, model, toys.batch_kernels[name](model)).max() < 5


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize(("rank", "y"), [(10, 1.1), (20, 3.2)], ids=["median", "maximum"])
def test_the_posterior_of_an_order_statistic_is_drawn(toys, rng, name, rank, y):
    model = toys.OrderStatistic(rank, y=y)
    assert errors(rng, model, toys.record_kernels[name](model), warmup=400).max() < 5


def test_the_posterior_of_local_answers_is_drawn(toys, rng):
    model = toys.local_answers(rng)
    assert errors(rng, model, toys.sequential_kernels["mhaar sequential"](model)).max() < 5
