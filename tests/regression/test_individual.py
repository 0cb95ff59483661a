"""individual: the sampler over every row, where numpyro is installed; a clear sentence where it is not."""

from dataclasses import replace

import numpy as np
import pytest
from regression_oracles import same_law
from regression_worlds import draw_world

from noisewise.errors import Unsupported
from noisewise.published.regression import individual
from noisewise.regression import exact_gibbs
from noisewise.regression.problem import GivenX

RUN = {"chains": 1, "draws": 1000, "warmup": 500}


def test_without_numpyro_the_error_says_how_to_install_it(rng, monkeypatch):
    monkeypatch.setattr(individual, "is_installed", lambda: False)
    with pytest.raises(Unsupported, match=r"pip install 'noisewise\[nuts\]'"):
        individual.sample(draw_world(rng, n=5).problem, rng, **RUN)


def test_covariates_need_a_law(rng):
    problem = replace(draw_world(rng, n=5).problem, covariates=GivenX(np.eye(2), np.ones((2,) * 4)))
    with pytest.raises(Unsupported, match="normal"):
        individual.sample(problem, rng, **RUN)


@pytest.mark.slow
@pytest.mark.skipif(not individual.is_installed(), reason="numpyro is not installed")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"law": "laplace", "is_relative": True}, id="laplace"),
        pytest.param({"d": 2, "holders": 2, "intercept": False}, id="two-holders"),
        pytest.param({"n": 16, "block": 2, "is_learned": True}, id="averaged-learned"),
    ],
)
def test_it_agrees_with_the_exact_law_of_the_moments(rng, settings):
    world = draw_world(rng, **({"d": 1, "n": 8, "epsilon": 2.0, "bound": 1e6} | settings))
    one = individual.sample(world.problem, rng, **RUN)
    other = exact_gibbs.sample(world.problem, rng, chains=2, draws=6000, warmup=1000)
    for i in range(world.problem.q):
        assert same_law(one.theta[..., i], other.theta[..., i])
    assert same_law(np.log(one.variance), np.log(other.variance))
