"""Sums tied to each other: two releases of one sum, x beside 1 - x, a count of everybody; against quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from made_releases import release_of
from scipy import integrate, stats

import noisewise as nw
from noisewise.likelihood.independent_sums import IndependentSums
from noisewise.likelihood.normal_sum import NormalSum

X = nw.column("x")
EVERYBODY = nw.Count(X.between(-5, 5))
MEAN = nw.Normal(mean=stats.norm(0, 3), sd=1)
AT = {"mean": np.array([-0.4, 0.45, 0.5, 0.56, 3.0, 6.0])}


def schema(n: int) -> nw.Schema:
    return nw.Schema({"x": nw.Bounded(-5, 5)}, n=n, neighbours="change-one")


def tied(name: str, n: int, epsilon: int = 5) -> tuple[nw.Release, ...]:
    pure, gauss = nw.PureDP(epsilon), nw.GaussianDP(epsilon)

    def made(statistic, guarantee, *estimate):
        return release_of(statistic, schema(n), guarantee, estimate)

    return {
        "one sum twice": (made(nw.Mean(X), pure, 0.5), made(nw.Mean(X), pure, 0.53)),
        "one sum three times": tuple(made(nw.Mean(X), pure, v) for v in (0.5, 0.53, 0.44)),
        "x and 1 - x": (made(nw.Mean(X, 1 - X), pure, 0.5, 0.52),),
        "x and 2 x": (made(nw.Mean(X), pure, 0.5), made(nw.Mean(2 * X), pure, 1.04)),
        "x and the number of people": (made(nw.Mean(X), pure, 0.5), made(EVERYBODY, pure, n)),
        "Laplace and Gaussian": (made(nw.Mean(X), pure, 0.5), made(nw.Sum(1 - X), gauss, 0.51 * n)),
        "two of each": (
            made(nw.Mean(X, 3 - X), pure, 0.5, 2.44),
            made(nw.Mean(X), gauss, 0.5),
            made(nw.Sum(X), gauss, 0.6 * n),
        ),
        "Gaussian, and the number of people": (made(nw.Mean(X), gauss, 0.5), made(EVERYBODY, pure, n + 1)),
    }[name]


NAMES = [
    *("one sum twice", "one sum three times", "x and 1 - x", "x and 2 x", "x and the number of people"),
    *("Laplace and Gaussian", "two of each", "Gaussian, and the number of people"),
]


def noise_at(model: NormalSum, u: np.ndarray, n: int) -> np.ndarray:
    """log of the product of all noises, at sums u of x: the components are written down again by hand."""
    total = np.zeros(u.shape)
    index = 0
    for release in model.releases:
        for text in release.labels:
            shape = text.replace(" ", "")
            for wrapped in ("mean(", "sum(", "count("):
                shape = shape.removeprefix(wrapped)
            s = {"x": u, "1-x": n - u, "3-x": 3 * n - u, "2*x": 2 * u}.get(shape.rstrip(")"), np.full(u.shape, n))
            b = model.noise.scale[index]
            away = model.observed[index] - s
            laplace = -np.abs(away) / b - np.log(2 * b)  # SciPy's own logarithm is -inf beyond 745 scales
            total = total + (laplace if model.noise.is_laplace[index] else stats.norm.logpdf(away, scale=b))
            index += 1
    return total


@pytest.mark.parametrize("n", [3, 40, 2000])
@pytest.mark.parametrize("name", NAMES)
def test_every_noise_of_one_normal_sum_is_scored_on_that_sum(name: str, n: int) -> None:
    model = NormalSum(tied(name, n), MEAN, n=n)
    assert model.ties.rank == 1
    assert model.mixing == 0
    assert np.all(np.isfinite(model.log_likelihood({"mean": np.array([40.0])})))  # all records at the bound
    found = model.log_likelihood(AT) - np.log(model.noise.step).sum()
    mean, covariance = model.moments(AT)
    for k in range(len(found)):
        sd = covariance[k, 0, 0] ** 0.5
        places = [model.observed[0] + shift for shift in (-0.1 * n, 0.0, 0.1 * n)]
        knots = np.concatenate([p + np.linspace(-60, 60, 4001) * model.noise.scale.min() for p in places])
        near = np.concatenate([mean[k, 0] + sd * np.linspace(-12, 12, 40_001), knots])
        grid = np.unique(np.concatenate([near, np.linspace(near.min(), near.max(), 200_001)]))
        logs = stats.norm.logpdf(grid, mean[k, 0], sd) + noise_at(model, grid, n)
        expected = logs.max() + np.log(integrate.trapezoid(np.exp(logs - logs.max()), grid))
        assert found[k] == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("name", NAMES)
def test_the_sum_given_its_releases_has_its_own_law_and_keeps_the_ties(name: str, rng) -> None:
    n, rows = 40, 4000
    model = NormalSum(tied(name, n), MEAN, n=n)
    drawn = model.draw_statistic(rng, {"mean": np.full(rows, 0.6)})
    sums = n * drawn[:, 0]
    mean, covariance = (m[0] for m in model.moments({"mean": np.array([0.6])}))
    sd = covariance[0, 0] ** 0.5
    grid = mean[0] + sd * np.linspace(-9, 9, 40_001)
    logs = stats.norm.logpdf(grid, mean[0], sd) + noise_at(model, grid, n)
    cdf = np.cumsum(np.exp(logs - logs.max()))
    assert stats.kstest(np.interp(sums, grid, cdf / cdf[-1]), "uniform").pvalue > 1e-6
    assert np.all(np.isfinite(drawn))
    if name == "x and 1 - x":
        assert drawn[:, 1] == pytest.approx(1 - drawn[:, 0])
    if "number of people" in name:
        assert drawn[:, 1] == pytest.approx(n)


def test_a_constant_beside_two_sums_leaves_their_law_alone(rng) -> None:
    both = nw.Normal(mean=stats.norm(0, 3), sd=stats.halfnorm(scale=3))
    two = release_of(nw.Mean(X, X**2), schema(50), nw.PureDP(5), [0.5, 1.4])
    people = release_of(EVERYBODY, schema(50), nw.PureDP(1), [52])
    theta = {"mean": np.array([0.4, 0.9]), "sd": np.array([1.0, 1.3])}
    apart = NormalSum((two,), both, n=50).log_likelihood(theta)
    together = NormalSum((two, people), both, n=50)
    noise = stats.laplace.logpdf(2, scale=people.law.scale[0])
    assert together.log_likelihood(theta) == pytest.approx(apart + noise, abs=1e-9)
    drawn = together.draw_statistic(rng, {name: np.full(50, value[0]) for name, value in theta.items()})
    assert drawn[:, 2] == pytest.approx(50)


def test_three_releases_of_two_sums_are_mixed_over_two_sums(rng) -> None:
    """mean(x), mean(x, 2 x^2 - 1): draws stay on the ties, and the mixture averages to the likelihood."""
    both = nw.Normal(mean=stats.norm(0, 3), sd=stats.halfnorm(scale=3))
    releases = (
        release_of(nw.Mean(X), schema(50), nw.PureDP(5), [0.5]),
        release_of(nw.Mean(X, 2 * X**2 - 1), schema(50), nw.PureDP(5), [0.45, 1.9]),
    )
    model = NormalSum(releases, both, n=50)
    assert model.ties.rank == 2
    assert model.mixing == 3
    drawn = model.draw_statistic(rng, {"mean": np.full(500, 0.4), "sd": np.full(500, 1.1)})
    assert drawn[:, 1] == pytest.approx(drawn[:, 0])
    one = {"mean": np.array([0.4]), "sd": np.array([1.1])}
    variances = 2 * model.mixing_scale**2 * rng.standard_exponential((100_000, 3))
    mixed = np.exp(model.log_likelihood_given(one, variances) - np.log(model.noise.step).sum())
    mean, covariance = (m[0][np.ix_(*[[0, 2]] * (m.ndim - 1))] for m in model.moments(one))
    u = rng.multivariate_normal(mean, covariance, 100_000)
    direct = np.exp(model.noise.log_density(model.observed - u[:, [0, 0, 1]]))
    error = np.sqrt(mixed.var() / mixed.size + direct.var() / len(u))
    assert abs(mixed.mean() - direct.mean()) < 5 * error
    assert error < 0.05 * direct.mean()


@pytest.mark.parametrize(
    ("row", "population", "rank"),
    [
        ((X, 1 - X), MEAN, 1),
        ((X, X**2, 3 + 2 * X - X**2), MEAN, 2),
        ((X, X.between(-5, 5)), MEAN, 1),
        ((X, X.between(-5, 4.99)), MEAN, 2),
        ((X, X.clip(-5, 4.999)), MEAN, 2),
        ((X, abs(X)), MEAN, 2),
        ((X, abs(X)), nw.Exponential(rate=stats.gamma(2)), 1),  # never negative
        ((X, X.between(0, 5)), nw.Exponential(rate=stats.gamma(2)), 1),
        ((X, X**2), nw.Bernoulli(p=stats.beta(1, 1)), 1),
        ((X, X**2), nw.Poisson(rate=stats.gamma(2)), 2),
        ((X.between(-5, 0), X.between(0.5, 5), X.between(-5, 0.5)), MEAN, 3),
    ],
)
def test_ties_hold_where_a_record_can_be(row, population, rank: int) -> None:
    found = IndependentSums.of(row, schema(10), population)
    assert found.rank == rank
    if rank < len(row):
        x = np.array([0.0, 1.0, 0.0, 1.0, 1.0])
        values = np.stack([np.broadcast_to(f.value({"x": x}, schema(10)), x.shape) for f in row], axis=1)
        assert found.expanded(values[:, list(found.basis)], 1) == pytest.approx(values)


def test_population_ties_do_not_stop_the_compiled_pair() -> None:
    """At one rate the two sums may be tied by the records' law alone, and y may be where the first sum puts it."""
    from noisewise.likelihood import normal_laplace_pair

    tau = np.array([[1.0, 2.0], [2.0, 4.0]])
    at = {"mean": np.zeros((1, 2)), "covariance": tau[None], "scale": [0.5, 0.5]}
    assert np.isfinite(normal_laplace_pair.log_density([0.0, 0.0], **at)[0])
    assert np.isfinite(normal_laplace_pair.log_density([0.3, 0.6], **at)[0])


@pytest.mark.parametrize("method", ["mh", "mh-within-gibbs", "pmmh", "cpm", "mhaar"])
def test_every_sampler_walks_on_tied_sums(method: str) -> None:
    releases = tied("x and 1 - x", 200)
    exact = nw.infer(releases, MEAN, likelihood="clt", seed=1, progress=False)
    walked = nw.infer(releases, MEAN, likelihood="clt", method=method, seed=1, draws=1500, progress=False)
    error = exact.sd["mean"] / np.sqrt(walked.verdict.smallest_ess)
    assert abs(walked.mean["mean"] - exact.mean["mean"]) < 6 * error


@pytest.mark.parametrize("n", [20, 400])
def test_the_information_of_tied_sums_is_that_of_one_sum_with_two_noises(n: int) -> None:
    plan = nw.plan(nw.Mean(X, 1 - X), schema(n), guarantee=nw.PureDP(5))
    population = nw.Normal(mean=stats.norm(0, 3), sd=1)
    found = nw.information(plan, population, at={"mean": 0.5}, likelihood="clt", seed=1, draws=4000)
    b = plan.law.scale[0]
    # E of the squared score of (u + v1, u + v2): the sum's normal law about its mean, its slope n per unit of mean.
    sd = np.sqrt(n)
    u = sd * np.linspace(-9, 9, 1201)
    weight = stats.norm.pdf(u, 0, sd) * (u[1] - u[0])
    y = b * np.sinh(np.linspace(-4.5, 4.5, 241)) + 0.0
    y = np.unique(np.concatenate([y, np.linspace(-6 * sd, 6 * sd, 241)]))
    kernel = np.exp(-np.abs(y[:, None] - u) / b) / (2 * b)
    p = np.einsum("iu,ju,u->ij", kernel, kernel, weight, optimize=True)
    slope = np.einsum("iu,ju,u->ij", kernel, kernel, weight * u / sd**2, optimize=True) * n
    ratio = np.where(p > 1e-14 * p.max(), slope**2 / np.maximum(p, 1e-300), 0.0)
    expected = integrate.trapezoid(integrate.trapezoid(ratio, y, axis=1), y)
    assert found.value == pytest.approx(expected, rel=0.02, abs=6 * float(found.standard_error))
    simulated = nw.information(
        plan, population, at={"mean": 0.5}, likelihood="clt", method="monte-carlo", seed=1, draws=2000
    )
    assert simulated.value == pytest.approx(expected, rel=0.02, abs=6 * float(simulated.standard_error))


def test_choosing_among_tied_plans_works() -> None:
    plans = [nw.plan(s, schema(50), guarantee=nw.PureDP(2)) for s in (nw.Mean(X), nw.Mean(X, 1 - X), nw.Mean(2 * X))]
    choice = nw.choose(plans, MEAN, seed=1)
    assert choice.winner in (plans[0], plans[2])
