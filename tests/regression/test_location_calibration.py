"""Regressions on yes/no covariates are calibrated over their own prior, at a false-alarm rate of 1e-6.

Ranks of every coefficient and of the noise variance are uniform, their spread is right, and 50, 90 and 95 % intervals
cover what they claim: one condition, two, three levels, a number beside a condition, and their product.
"""

import itertools

import numpy as np
import pytest
from location_worlds import KINDS, draw_world, uniforms
from regression_worlds import smallest_p_value

from noisewise.regression import marginal

ALARM = 1e-6
SIZES, EPSILONS, LAWS = (30, 500, 1000), (1.0, 10.0), ("gaussian", "laplace")


def ranks(rng, trials, kind, **options):
    found = []
    for _ in range(trials):
        world = draw_world(rng, kind, **options)
        fit = marginal.sample(world.problem, rng, chains=1, draws=400, warmup=300)
        found.append(uniforms(rng, world, fit))
    return np.array(found)


@pytest.mark.parametrize("kind", ["one", "number"])
def test_yes_no_covariates_are_calibrated(rng, kind):
    assert smallest_p_value(ranks(rng, 30, kind, n=500, epsilon=1.0)) > ALARM


@pytest.mark.grid(cells=8)
@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon", "law"), list(itertools.product(SIZES, EPSILONS, LAWS)))
@pytest.mark.parametrize("kind", list(KINDS))
def test_yes_no_covariates_are_calibrated_in_every_size(rng, kind, n, epsilon, law):
    assert smallest_p_value(ranks(rng, 300, kind, n=n, epsilon=epsilon, law=law)) > ALARM


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"holders": 5}, {"intercept": False}])
@pytest.mark.parametrize("kind", ["two", "number"])
def test_so_are_several_holders_and_a_line_without_intercept(rng, kind, options):
    assert smallest_p_value(ranks(rng, 300, kind, n=200, epsilon=2.0, **options)) > ALARM
