"""`auto` is calibrated over the prior: data from the exact model, every n, epsilon, number of holders and noise.

One test a cell, at a false-alarm rate of 1e-6: ranks of every unknown are uniform, their spread is right, and 50, 90
and 95 % intervals cover what they claim. Rows shortened to sqrt(d) are modelled as such, and then calibrated too.
"""

import itertools
import math

import numpy as np
import pytest
from regression_worlds import draw_world, smallest_p_value, uniforms

from noisewise.regression.methods import METHODS, automatic

ALARM = 1e-6
TRIALS, SHORTENED_TRIALS = {1: 1000, 2: 1000, 4: 300}, {1: 300, 2: 200}
SIZES, EPSILONS, HOLDERS, LAWS = (10, 100, 1000), (0.1, 1.0, 10.0), (1, 5), ("gaussian", "laplace")
LENGTHS = {"marginal": (400, 400), "exact-gibbs": (2000, 500)}
SHORTENED_LENGTHS = {"marginal": (200, 150)}  # an iteration is dear, and chains start at the mode


def ranks(rng, trials, lengths=LENGTHS, **options):
    found = []
    for _ in range(trials):
        world = draw_world(rng, **options)
        name, _ = automatic(world.problem, likelihood="auto")
        draws, warmup = lengths[name]
        fit = METHODS[name].run(world.problem, rng, chains=1, draws=draws, warmup=warmup)
        found.append(uniforms(rng, world, fit))
    return np.array(found)


@pytest.mark.grid(cells=8)
@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon", "holders", "law"), list(itertools.product(SIZES, EPSILONS, HOLDERS, LAWS)))
@pytest.mark.parametrize("d", list(TRIALS))
def test_auto_is_calibrated(rng, d, n, epsilon, holders, law):
    u = ranks(rng, TRIALS[d], d=d, n=n, epsilon=epsilon, holders=holders, law=law)
    assert smallest_p_value(u) > ALARM


@pytest.mark.grid(cells=2)
@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon", "law"), list(itertools.product((100, 1000), (1.0, 10.0), LAWS)))
@pytest.mark.parametrize("d", [1, 2])
def test_auto_is_calibrated_through_shortened_rows(rng, d, n, epsilon, law):
    u = ranks(rng, SHORTENED_TRIALS[d], SHORTENED_LENGTHS, d=d, n=n, epsilon=epsilon, law=law, shrink=math.sqrt(d))
    assert smallest_p_value(u) > ALARM
