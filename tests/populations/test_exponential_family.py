"""Exponential families of one's own, against the laws that are built in."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

import noisewise as nw

X = nw.column("x")
SHAPE, RATE = stats.gamma(6, scale=0.5), stats.gamma(4, scale=0.25)


def gamma(**parameters):
    return nw.ExponentialFamily(
        statistic=[np.log, lambda x: x],
        log_partition=lambda a, b: special.gammaln(a + 1) - (a + 1) * np.log(-b),
        natural=lambda shape, rate: (shape - 1, -rate),
        support=(0, np.inf),
        **parameters,
    )


def poisson(**parameters):
    return nw.ExponentialFamily(
        statistic=lambda x: x, log_partition=np.exp, log_base=lambda x: -special.gammaln(x + 1),
        natural=lambda rate: np.log(rate), support=(0, np.inf), discrete=True, **parameters,
    )  # fmt: skip


def beta(**parameters):
    return nw.ExponentialFamily(
        statistic=[np.log, lambda x: np.log1p(-x)],
        log_partition=lambda a, b: special.betaln(a + 1, b + 1),
        natural=lambda a, b: (a - 1, b - 1),
        support=(0, 1),
        **parameters,
    )


def cut(**parameters):
    """Exponential waiting times that are never longer than 5."""
    return nw.ExponentialFamily(
        statistic=lambda x: x, log_partition=lambda eta: np.log(-np.expm1(5 * eta)) - np.log(-eta),
        natural=lambda rate: -rate, support=(0, 5), **parameters,
    )  # fmt: skip


def test_the_tables_are_the_laws():
    theta = {"shape": np.array([0.3, 3.0, 40.0]), "rate": np.array([1.0, 0.2, 3.0])}
    own, built = gamma(shape=SHAPE, rate=RATE), nw.Gamma(shape=SHAPE, rate=RATE)
    x, u = np.array([1e-6, 0.01, 1, 5, 14, 40]), np.array([1e-3, 0.1, 0.5, 0.99])
    np.testing.assert_allclose(own.log_density(x, theta), built.log_density(x, theta), atol=1e-11)
    np.testing.assert_allclose(own.cdf(x, theta), built.cdf(x, theta), atol=1e-7)
    np.testing.assert_allclose(own.quantile(u, theta), built.quantile(u, theta), rtol=1e-5)
    for mine, theirs in zip(
        own.distribution.moments(own.values(theta)), built.distribution.moments(built.values(theta)), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-8)
    theta, x = {"rate": np.array([0.1, 4.0, 200.0])}, np.arange(0, 230.0, 7)
    own, built = poisson(rate=RATE), nw.Poisson(rate=RATE)
    np.testing.assert_allclose(own.cdf(x, theta), built.cdf(x, theta), atol=1e-12)
    np.testing.assert_array_equal(own.quantile(u, theta), built.quantile(u, theta))
    wide = nw.ExponentialFamily(
        statistic=[lambda x: x, np.square], support=(-np.inf, np.inf), mean=0.3, sd=stats.gamma(4),
        natural=lambda mean, sd: (mean / sd**2, -0.5 / sd**2),
        log_partition=lambda a, b: -a * a / (4 * b) + 0.5 * np.log(np.pi / -b),
    )  # fmt: skip
    theta = {"sd": np.array([1e-3, 1.0, 1e4])}
    np.testing.assert_allclose(
        wide.cdf([0.3, 0.301, 50.0], theta), nw.Normal(mean=0.3, sd=SHAPE).cdf([0.3, 0.301, 50.0], theta), atol=1e-9
    )


CASES = {
    "gamma": (gamma(shape=3, rate=RATE), nw.Gamma(shape=3, rate=RATE), (0.0, 30.0), 9.0),
    "gamma, clamped": (gamma(shape=3, rate=RATE), nw.Gamma(shape=3, rate=RATE), (1.0, 4.0), 2.5),
    "poisson": (poisson(rate=RATE), nw.Poisson(rate=RATE), (0.0, 20.0), 3.1),
    "beta": (beta(a=SHAPE, b=2), nw.Population(stats.beta, a=SHAPE, b=2), (0.0, 1.0), 0.4),
    "truncated": (cut(rate=RATE), nw.Population(stats.truncexpon, b=5, scale=1), (0.0, 5.0), 1.2),
}


@pytest.mark.parametrize("kind", ["gamma", "gamma, clamped", "poisson", "beta"])
@pytest.mark.parametrize(
    "statistic", [pytest.param(nw.Mean(X), marks=pytest.mark.slow), nw.Count(X.between(0, 2.5))], ids=str
)
def test_the_posterior_is_that_of_the_population_that_is_built_in(kind, statistic):
    own, built, bounds, value = CASES[kind]
    schema = nw.Schema({"x": nw.Bounded(*bounds)}, n=40, neighbours="change-one")
    is_mean = isinstance(statistic, nw.Mean)
    noise = nw.laplace_noise(scale=0.1) if is_mean else nw.geometric_noise(scale=2)
    release = nw.measurement(statistic, schema, value if is_mean else 12, noise=noise)
    mine, theirs = (nw.infer(release, one, draws=200, seed=1, progress=False) for one in (own, built))
    (name,) = own.free
    assert mine.mean[name] == pytest.approx(theirs.mean[name], rel=2e-4)
    assert mine.sd[name] == pytest.approx(theirs.sd[name], rel=2e-3)


def test_a_truncated_law_is_the_one_that_was_cut(rng):
    own = cut(rate=RATE)
    for rate in (0.05, 0.7, 9.0):
        law = stats.truncexpon(5 * rate, scale=1 / rate)
        x = np.array([0.01, 1.0, 4.0])
        np.testing.assert_allclose(own.cdf(x, {"rate": np.array([rate])})[0], law.cdf(x), atol=1e-9)
        drawn = own.sample(rng, 2000, {"rate": np.array([rate])})[0]
        assert stats.kstest(drawn, law.cdf).pvalue > 1e-7


@pytest.mark.parametrize(
    "wrong", [lambda eta: -np.log(-eta) + 1e-3, lambda eta: np.log(-eta), lambda eta: eta * np.nan]
)
def test_a_wrong_log_partition_is_refused_with_the_difference(wrong):
    with pytest.raises(nw.InvalidArgument, match=r"log_partition says .* differ by"):
        nw.ExponentialFamily(
            statistic=lambda x: x, log_partition=wrong, natural=lambda r: -r, support=(0, np.inf), r=RATE
        )


def test_what_is_no_law_is_refused():
    with pytest.raises(nw.InvalidArgument, match="no law"):
        nw.ExponentialFamily(statistic=lambda x: x, log_partition=np.exp, support=(0, np.inf), eta=stats.norm(3, 0.1))
    with pytest.raises(nw.InvalidArgument, match="support"):
        nw.ExponentialFamily(statistic=lambda x: x, log_partition=np.exp, support=(1, 0), eta=-1)
    with pytest.raises(nw.InvalidArgument, match="support"):
        nw.ExponentialFamily(
            statistic=lambda x: x, log_partition=np.exp, support=(-np.inf, np.inf), discrete=True, eta=-1
        )
    with pytest.raises(nw.InvalidArgument, match="natural parameters for 2"):
        nw.ExponentialFamily(
            statistic=[np.log, np.square], log_partition=np.exp, support=(0, 1), natural=lambda a: a, a=1
        )


def test_it_cannot_be_written_and_says_so(tmp_path):
    schema = nw.Schema({"x": nw.Bounded(0, 20)}, n=40, neighbours="change-one")
    release = nw.measurement(nw.Mean(X), schema, 3.1, noise=nw.laplace_noise(scale=0.1))
    posterior = nw.infer(release, poisson(rate=RATE), draws=100, seed=1, progress=False)
    with pytest.raises(nw.Unsupported, match="functions of Python"):
        posterior.save(tmp_path / "saved")
    assert "mean" in posterior.summary()


def test_a_log_partition_that_is_wrong_only_where_two_parameters_are_away_is_refused():
    """Right along each parameter by itself, through the medians of the others."""

    def normal(wrong):
        def log_partition(a, b):
            return -(a**2) / (4 * b) + 0.5 * np.log(np.pi / -b) + wrong * a * (b + 0.75)

        return nw.ExponentialFamily(
            statistic=[lambda x: x, lambda x: x**2], log_partition=log_partition, support=(-np.inf, np.inf),
            a=stats.norm(0, 0.5), b=stats.uniform(-1, 0.5),
        )  # fmt: skip

    assert normal(0.0).free == ("a", "b")
    with pytest.raises(nw.InvalidArgument, match="they differ by"):
        normal(0.3)
