"""Target: transforms invert each other, and densities keep their mass when moved to the real line."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from noisewise.inference.target import Target
from noisewise.inference.transform import Transform
from noisewise.populations.parameters import Support

SUPPORTS = {
    "real": Support(),
    "positive": Support(low=0.0),
    "above": Support(low=-3.0),
    "below": Support(high=2.0),
    "interval": Support(low=-1.0, high=4.0),
    "simplex": Support(0.0, 1.0, size=4),
}


def no_draws(rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    raise AssertionError("no prior draws are needed here")


def test_positions_and_parameters_invert_each_other() -> None:
    transform = Transform(SUPPORTS)
    position = np.random.default_rng().normal(size=(50, transform.size)) * 3
    theta = transform.parameters(position)
    np.testing.assert_allclose(transform.position(theta), position, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(theta["simplex"].sum(axis=1), 1)
    for name, support in SUPPORTS.items():
        assert np.all(theta[name] >= support.low)
        assert np.all(theta[name] <= support.high)


@pytest.mark.parametrize("name", SUPPORTS)
def test_the_log_jacobian_is_that_of_numerical_differences(name: str) -> None:
    transform = Transform({name: SUPPORTS[name]})
    d = transform.size
    position = np.random.default_rng().normal(size=(1, d))
    h = 1e-6
    columns = []
    for k in range(d):
        step = np.zeros((1, d))
        step[0, k] = h
        up, down = (transform.parameters(position + s)[name].reshape(1, -1)[:, :d] for s in (step, -step))
        columns.append(((up - down) / (2 * h))[0])
    expected = np.linalg.slogdet(np.array(columns))[1]
    assert transform.log_jacobian(position)[0] == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(
    "prior", [stats.norm(1, 2), stats.gamma(2), stats.uniform(-1, 5), stats.beta(0.5, 0.5), stats.halfnorm()]
)
def test_a_prior_keeps_its_mass_on_the_real_line(prior: object) -> None:
    support = Support(*map(float, prior.support()))
    target = Target(
        Transform({"a": support}), lambda t: prior.logpdf(t["a"]), lambda t: np.zeros(len(t["a"])), no_draws
    )
    mass = integrate.quad(lambda u: float(np.exp(target.log_prior([[u]])[0])), -60, 60, points=[-5, 0, 5], limit=400)[0]
    assert mass == pytest.approx(1, abs=1e-6)


def test_planted_a_walk_without_the_jacobian_has_another_mass() -> None:
    prior = stats.gamma(3)
    transform = Transform({"a": Support(low=0.0)})
    mass = integrate.quad(lambda u: float(prior.pdf(transform.parameters(np.array([[u]]))["a"][0])), -60, 20)[0]
    assert abs(mass - 1) > 0.1  # it is E[1/a] = 1/2


def test_rows_outside_the_prior_never_reach_the_likelihood() -> None:
    seen = []

    def likelihood(theta: dict[str, np.ndarray]) -> np.ndarray:
        seen.append(theta["a"])
        return np.zeros(len(theta["a"]))

    target = Target(Transform({"a": Support()}), lambda t: stats.uniform(0, 1).logpdf(t["a"]), likelihood, no_draws)
    density = target.log_density([[0.5], [2.0], [np.nan]])
    assert density.tolist() == [0.0, -np.inf, -np.inf]
    assert [len(rows) for rows in seen] == [1]


def test_a_likelihood_that_is_nan_is_passed_on() -> None:
    target = Target(
        Transform({"a": Support()}),
        lambda t: np.zeros(len(t["a"])),
        lambda t: np.full(len(t["a"]), np.nan),
        no_draws,
    )
    assert np.isnan(target.log_density([[0.5]])[0])
