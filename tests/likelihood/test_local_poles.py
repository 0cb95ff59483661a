"""Local answers about laws with a pole or a spike at the edge: scored as quadrature in log x scores them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, special, stats

import noisewise as nw
from noisewise.likelihood.local_answers import LocalAnswers
from noisewise.populations.nodes import record_nodes

HIGH = 10.0
X = nw.column("x")
LAPLACE, GAUSSIAN = nw.PureDP(2), nw.ZeroConcentratedDP(1)
LAWS = {
    "lognormal": (
        nw.LogNormal(log_mean=stats.norm(0, 1), log_sd=stats.halfnorm(scale=1)),
        [{"log_mean": 0.3, "log_sd": 0.6}, {"log_mean": -3.0, "log_sd": 4.0}, {"log_mean": -40.0, "log_sd": 1e-3}],
        lambda log_mean, log_sd: stats.lognorm(log_sd, scale=np.exp(log_mean)),
    ),
    "gamma": (
        nw.Gamma(shape=stats.gamma(2), rate=stats.gamma(2)),
        [{"shape": 3.0, "rate": 1.0}, {"shape": 0.4, "rate": 0.3}, {"shape": 0.02, "rate": 0.1},
         {"shape": 0.5, "rate": 1e9}],
        lambda shape, rate: stats.gamma(shape, scale=1 / rate),
    ),
    "weibull": (
        nw.Population(stats.weibull_min, c=stats.gamma(2), loc=0, scale=stats.gamma(2)),
        [{"c": 2.0, "scale": 3.0}, {"c": 0.5, "scale": 1.0}, {"c": 0.05, "scale": 2.0}, {"c": 0.7, "scale": 1e-12}],
        lambda c, scale: stats.weibull_min(c, scale=scale),
    ),
}  # fmt: skip
CASES = [(name, k) for name, (_, thetas, _) in LAWS.items() for k in range(len(thetas))]


def oracle(law, feature, noise_pdf, y: float, outside: str) -> float:
    """The density of an answer: quadrature over log x of the law's density times the noise's, and the clamp's atom."""

    def integrand(t: float) -> float:
        x = np.exp(t)
        return float(np.exp(law.logpdf(x) + t)) * noise_pdf(y - feature(x))

    # Where log x has mass, and where the answer lies: panels that no rule can miss.
    with np.errstate(divide="ignore"):
        cuts = np.log(
            law.ppf(
                np.array([1e-14, 1e-9, 1e-6, 1e-4, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1 - 1e-6, 1 - 1e-10, 1 - 1e-14])
            )
        )
    inverse = y**2 if feature(4.0) == 2.0 else y
    cuts = [*cuts[np.isfinite(cuts)], *([np.log(inverse)] if inverse > 0 else [])]
    cuts = np.unique([-690.0, *np.clip(cuts, -690.0, np.log(HIGH)), np.log(HIGH)])
    pieces = [integrate.quad(integrand, a, b, epsabs=0, epsrel=1e-10, limit=200)[0]
              for a, b in pairwise(cuts)]  # fmt: skip
    lost = float(law.cdf(np.exp(-690.0))) * noise_pdf(y - feature(0.0))  # what lies below the first panel is 0
    if outside == "refuse":
        return (sum(pieces) + lost) / float(law.cdf(HIGH))
    return sum(pieces) + lost + float(law.sf(HIGH)) * noise_pdf(y - feature(HIGH))


@pytest.mark.parametrize("outside", ["clamp", "refuse"])
@pytest.mark.parametrize(("guarantee", "tolerance"), [(LAPLACE, 2e-4), (GAUSSIAN, 1e-7)], ids=["laplace", "gaussian"])
@pytest.mark.parametrize(("name", "k"), CASES)
@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
def test_an_answer_has_the_density_of_record_plus_noise(name, k, guarantee, tolerance, outside) -> None:
    population, thetas, frozen = LAWS[name]
    schema = nw.Schema({"x": nw.Bounded(0, HIGH)}, n=3, neighbours="change-one", outside=outside)
    for feature, plain in ((X, lambda x: x), (X ** "1/2", np.sqrt)):
        plan = nw.plan(nw.Records(feature), schema, guarantee=guarantee)
        release = nw.simulate(plan, population, at=thetas[0], seed=k)
        model = LocalAnswers(release, population, n=3)
        theta = {key: np.array([value]) for key, value in thetas[k].items()}
        scale = model.scale
        noise = stats.laplace(scale=scale) if guarantee == LAPLACE else stats.norm(scale=scale)
        at = np.array([0.0, 0.3, plain(HIGH) - 0.01])
        wanted = np.log([oracle(frozen(**thetas[k]), plain, noise.pdf, y, outside) for y in at])
        np.testing.assert_allclose(model.density(at, theta)[0], wanted, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", list(LAWS))
def test_a_shape_that_is_unknown_gives_a_posterior(name) -> None:
    """The search for the mass meets shapes far below 1 and scales beyond all bounds."""
    population, thetas, _ = LAWS[name]
    schema = nw.Schema({"x": nw.Bounded(0, HIGH)}, n=20, neighbours="change-one", outside="clamp")
    release = nw.simulate(nw.plan(nw.Records(X), schema, guarantee=LAPLACE), population, at=thetas[0], seed=1)
    posterior = nw.infer(release, population, seed=1, draws=250, progress=False)
    assert not posterior.verdict.warns
    assert all(np.isfinite(draws).all() for draws in posterior.draws.values())


def test_a_theta_without_mass_inside_the_bounds_is_impossible_not_an_error() -> None:
    population = nw.Uniform(low=stats.uniform(0, 30), width=1)
    schema = nw.Schema({"x": nw.Bounded(0, HIGH)}, n=4, neighbours="change-one", outside="refuse")
    release = nw.simulate(nw.plan(nw.Records(X), schema, guarantee=LAPLACE), population, at={"low": 5.0}, seed=1)
    model = LocalAnswers(release, population, n=4)
    found = model.log_likelihood({"low": np.array([5.0, 20.0])})
    assert np.isfinite(found[0])
    assert found[1] == -np.inf
    assert model.log_likelihood({"low": np.array([20.0])})[0] == -np.inf


@pytest.mark.parametrize("shape", [0.7, 0.3, 0.1, 0.02])
def test_moments_of_a_law_with_a_pole_are_those_of_the_incomplete_gamma_function(shape) -> None:
    """Gauss-Legendre panels alone were 7 % off at shape 0.1, and by a factor of two at 0.02."""
    population = nw.Gamma(shape=stats.gamma(2), rate=stats.gamma(2))
    theta = {"shape": np.array([2.0, shape]), "rate": np.array([1.0, 1.0])}
    for outside in ("clamp", "refuse"):
        schema = nw.Schema({"x": nw.Bounded(0, HIGH)}, n=9, neighbours="change-one", outside=outside)
        nodes = record_nodes(population, schema, "x", theta, ())
        for power in (1, 2):
            a = theta["shape"]
            inside = special.poch(a, power) * special.gammainc(a + power, HIGH)
            mass = special.gammainc(a, HIGH)
            wanted = inside / mass if outside == "refuse" else inside + HIGH**power * (1 - mass)
            np.testing.assert_allclose(nodes.mean(nodes.x**power), wanted, rtol=1e-8)
