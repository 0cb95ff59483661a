"""What a registered sampler returns is moved on by the posterior's own steps: draws of another law are told."""

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.inference.invariance import moved_on
from noisewise.inference.population_methods import PopulationProblem

SCHEMA = nw.Schema({"x": nw.Bounded(-100, 100)}, n=400, neighbours="change-one")
RELEASE = nw.measurement(nw.Mean("x", nw.column("x") ** 2), SCHEMA, [4.0, 920.0], noise=nw.gaussian_noise(sd=[1, 40]))
POPULATION = nw.Normal(mean=stats.norm(0, 20), sd=stats.gamma(4, scale=10))


@pytest.fixture(scope="module")
def honest():
    """The posterior on the real line, and draws of it by the mesh that `infer` takes."""
    problem = PopulationProblem((RELEASE,), POPULATION, "clt", None)
    found = nw.infer(RELEASE, POPULATION, likelihood="clt", draws=1000, seed=1, progress=False)
    positions = problem.target.transform.position({name: found.draws[name].reshape(-1) for name in POPULATION.free})
    return problem.target, positions.reshape(4, 1000, 2)


@pytest.mark.parametrize("seed", range(20))
def test_draws_of_the_posterior_are_left_as_they_are(honest, seed):
    target, positions = honest
    assert moved_on(target, np.random.default_rng(seed), positions, "own") == ()


LIES = {
    "a third too narrow": lambda x: x.mean((0, 1)) + (x - x.mean((0, 1))) * 0.67,
    "half too wide": lambda x: x.mean((0, 1)) + (x - x.mean((0, 1))) * 1.5,
    "a needle": lambda x: x.mean((0, 1)) + (x - x.mean((0, 1))) * 1e-3,
    "one sd beside": lambda x: x + x.std((0, 1)),
    "one coordinate alone": lambda x: x * [1, 0] + (x.mean((0, 1)) + (x - x.mean((0, 1))) * 0.5) * [0, 1],
    "without the correlation": lambda x: np.stack([x[:, :, 0], 30 * (x[::-1, :, 1] - x[:, :, 1]) + x[:, :, 1]], axis=2),
    "beyond all numbers": lambda x: 1e300 * (x - x.mean((0, 1))),
}


@pytest.mark.parametrize("kind", LIES)
def test_draws_of_another_law_are_told(honest, kind):
    target, positions = honest
    (sentence,) = moved_on(target, np.random.default_rng(1), LIES[kind](positions), "own")
    assert "are not draws of this posterior" in sentence


def test_a_sampler_that_lies_opens_the_verdict_and_one_that_does_not_is_left_alone(honest):
    _, positions = honest

    def from_the_prior(target, rng, *, chains, draws, **_):
        return np.reshape(target.draw_prior(rng, chains * draws), (chains, draws, target.size))

    samplers = {"true_to_it": lambda *_, **__: positions, "prior_alone": from_the_prior}
    said = {}
    for name, sampler in samplers.items():
        nw.register_method(name, sampler)
        found = nw.infer(RELEASE, POPULATION, likelihood="clt", method=name, draws=1000, seed=1, progress=False)
        said[name] = str(found.verdict)
    assert "are not draws" not in said["true_to_it"]
    assert "What 'prior_alone' returned are not draws of this posterior" in said["prior_alone"]


@pytest.mark.parametrize("kind", ["text", "complex", "objects"])
def test_what_are_no_numbers_is_refused(kind):
    wrong = {"text": "a", "complex": 1j * np.ones((4, 100, 2)), "objects": np.ones((4, 100, 2)).astype(object)}[kind]
    nw.register_method(f"gives_{kind}", lambda *_, **__: wrong)
    with pytest.raises(nw.InvalidArgument, match="owes positions"):
        nw.infer(RELEASE, POPULATION, likelihood="clt", method=f"gives_{kind}", draws=100, seed=1, progress=False)
    with pytest.raises(nw.InvalidArgument, match="options"):
        nw.register_method("other", lambda **_: 0, options=3)
