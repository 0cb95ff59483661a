"""The term of a bridge is the release's law: what `infer` scores, up to a constant, for every kind that is observed."""

import numpy as np
import pytest
from scipy import integrate, stats

import noisewise as nw
from noisewise.bridges.arrays import NumpyArrays, log_mills
from noisewise.bridges.terms import Given, term_of

ARRAYS = NumpyArrays()
COLUMNS = {"x": nw.Bounded(-1000, 1000), "g": nw.Levels(["a", "b", "c"]), "h": nw.Levels(["u", "v"])}
PURE, GAUSS = nw.PureDP(1), nw.GaussianDP(1)
X, IS_A = nw.column("x"), nw.column("g").equals("a")


def schema(n=500, **more):
    return nw.Schema(COLUMNS, **({"n": n, "neighbours": "change-one"} | more))


def released(statistic, guarantee, population, rng, facts=None):
    made = nw.plan(statistic, facts or schema(), guarantee=guarantee)
    return nw.simulate(made, population, seed=int(rng.integers(2**31)))


def density(release, exponentials=None, n=None, **given):
    own = Given(**given)
    return float(term_of(release, given=own, n=n).log_density(ARRAYS, own, exponentials))


def away_from_constant(found, wanted):
    """How far two log-densities are from differing by a constant."""
    gap = np.asarray(found) - np.asarray(wanted)
    return np.max(np.abs(gap - gap[0]))


def square_moments(m, s):
    """Mean and covariance of (x, x^2) of x ~ N(m, s^2)."""
    cross = 2 * m * s**2
    return [m, m * m + s * s], [[s * s, cross], [cross, 4 * m * m * s * s + 2 * s**4]]


@pytest.mark.parametrize("guarantee", [PURE, GAUSS, nw.PureDP(20), nw.PureDP("0.001")])
def test_one_sum_is_scored_as_infer_scores_it(guarantee, rng):
    population = nw.Normal(mean=stats.norm(0, 100), sd=30.0)
    release = released(nw.Mean(X), guarantee, population, rng)
    law = nw.likelihood_of(release, population, likelihood="clt")
    at = np.clip(release.estimate[0], -400, 400) + np.linspace(-60, 60, 9)  # far from the bounds: nothing is clamped
    found = [density(release, mean=m, covariance=900.0) for m in at]
    assert away_from_constant(found, law.log_likelihood({"mean": at})) < 1e-8
    as_arrays = [density(release, mean=[m], covariance=[[900.0]]) for m in at]
    assert as_arrays == found


def test_gaussian_sums_are_scored_as_infer_scores_them(rng):
    population = nw.Normal(mean=stats.norm(0, 20), sd=stats.halfnorm(scale=30))
    release = released(nw.Mean(X, X**2), GAUSS, population, rng, schema(5000))
    law = nw.likelihood_of(release, population, likelihood="clt")
    at = [(m, s) for m in (-10.0, 0.0, 7.0) for s in (15.0, 30.0)]
    found = [density(release, mean=square_moments(*one)[0], covariance=square_moments(*one)[1]) for one in at]
    m, s = map(np.array, zip(*at, strict=True))
    assert away_from_constant(found, law.log_likelihood({"mean": m, "sd": s})) < 1e-6


def test_two_laplace_sums_given_their_exponentials_integrate_to_the_law_of_infer(rng):
    population = nw.Normal(mean=stats.norm(0, 20), sd=stats.halfnorm(scale=30))
    release = released(nw.Mean(X, X**2), PURE, nw.Normal(mean=3.0, sd=30.0), rng, schema(5000))
    law = nw.likelihood_of(release, population, likelihood="clt")
    at = [(3.0, 30.0), (0.0, 25.0)]

    def integrated(m, s):
        mean, covariance = square_moments(m, s)
        # E = t^2 with weight 2 t exp(-t^2), which is smooth; beyond t = 8 nothing is left.
        u, w = np.polynomial.legendre.leggauss(48)
        t = 4 * (u + 1)
        e, w = t**2, 8 * w * t * np.exp(-(t**2))
        logs = [[density(release, np.array([a, b]), mean=mean, covariance=covariance) for b in e] for a in e]
        return np.log(np.einsum("i,j,ij", w, w, np.exp(np.array(logs) - np.max(logs)))) + np.max(logs)

    m, s = map(np.array, zip(*at, strict=True))
    assert away_from_constant([integrated(*one) for one in at], law.log_likelihood({"mean": m, "sd": s})) < 5e-4


def test_a_laplace_noise_beside_a_gaussian_one_stands_in_its_own_place(rng):
    """Against the normal law with the two variances written out by hand."""
    population = nw.Joint(x=nw.Normal(mean=0.0, sd=30.0), g=nw.Categorical(p=[0.5, 0.3, 0.2]))
    laplace, gauss = (released(nw.Mean(X), one, population, rng) for one in (PURE, GAUSS))
    named = [
        nw.measurement(nw.Mean(X), schema(), one.estimate[0], noise=noise, dataset="d")
        for one, noise in ((laplace, nw.laplace_noise(scale=3.0)), (gauss, nw.gaussian_noise(sd=5.0)))
    ]
    covariance = np.full((2, 2), 900.0)
    found = density(named, np.array([0.7]), mean=[1.0, 1.0], covariance=covariance)
    by_hand = stats.multivariate_normal([1.0, 1.0], covariance / 500 + np.diag([2 * 9.0 * 0.7, 25.0]))
    assert found == pytest.approx(by_hand.logpdf([one.estimate[0] for one in named]) + np.log(15), abs=1e-6)


@pytest.mark.parametrize("guarantee", [PURE, nw.PureDP("0.05"), nw.ZeroConcentratedDP(1), nw.PureDP(10)])
def test_a_count_has_its_exact_law(guarantee, rng):
    population = nw.Categorical(p=stats.dirichlet([3.0, 2.0, 1.0]))
    release = released(nw.Count(IS_A), guarantee, population, rng, schema(60))
    p = np.array([0.01, 0.2, 0.5, 0.8, 0.99])
    s, law = np.arange(61), release.law
    logs = stats.binom.logpmf(s, 60, p[:, None]) + law.log_pmf(release.value[0] - s)
    found = [density(release, probabilities=one) for one in p]
    assert away_from_constant(found, np.logaddexp.reduce(logs, axis=1)) < 1e-9


@pytest.mark.parametrize(("n", "guarantee", "error"), [
    (20, PURE, 0.04), (20, nw.PureDP(5), 0.13), (200, PURE, 0.016), (200, GAUSS, 1e-3),
])  # fmt: skip
def test_a_table_is_near_its_exact_law(n, guarantee, error, rng):
    """Where a posterior can be (shares drawn given the table itself), in most of 15 tables; one in 30 may be worse."""
    population, truth = nw.Categorical(p=stats.dirichlet([1.0, 1.0, 1.0])), nw.Categorical(p=[0.5, 0.3, 0.2])
    errors = []
    for _ in range(15):
        release = released(nw.Histogram("g"), guarantee, truth, rng, schema(n))
        law = nw.likelihood_of(release, population)
        at = rng.dirichlet(np.maximum(release.estimate, 0) + 1, 8)
        exact = law.log_likelihood({"p": at})
        assert law.is_exact
        near = exact > exact.max() - 8
        errors.append(away_from_constant([density(release, probabilities=one) for one in at[near]], exact[near]))
    assert np.median(errors) < error


def test_a_cell_that_cannot_be_is_no_crash(rng):
    release = released(nw.Histogram("g"), PURE, nw.Categorical(p=[0.599, 0.4, 0.001]), rng)
    found = [density(release, probabilities=p) for p in ([0.6, 0.4, 0.0], [0.6, 0.2, 0.2])]
    assert np.isfinite(found).all()
    assert found[0] > found[1]


def test_answers_in_cells_have_their_exact_law(rng):
    population = nw.Categorical(p=stats.dirichlet([1.0, 1.0, 1.0]))
    release = released(nw.Records("g"), PURE, nw.Categorical(p=[0.5, 0.3, 0.2]), rng)
    at = rng.dirichlet([1, 1, 1], 5)
    wanted = nw.likelihood_of(release, population).log_likelihood({"p": at})
    assert away_from_constant([density(release, probabilities=one) for one in at], wanted) < 1e-9


def test_a_private_n_is_stated(rng):
    facts = schema(None, n_max=1000, neighbours="add-remove")
    release = released(nw.Sum(X), PURE, nw.Normal(mean=0.0, sd=30.0), rng, schema())
    private = nw.measurement(nw.Sum(X), facts, release.estimate, noise=nw.laplace_noise(scale=release.law.scale[0]))
    at = {"mean": 1.0, "covariance": 900.0}
    assert density(private, n=500, **at) == pytest.approx(density(release, **at), abs=1e-6)
    with pytest.raises(nw.InvalidArgument, match="private"):
        density(private, **at)
    with pytest.raises(nw.InvalidArgument, match="public"):
        density(release, n=500, **at)


def test_what_cannot_be_observed_is_refused_in_a_sentence(rng):
    population = nw.Joint(x=nw.Normal(mean=0.0, sd=30.0), g=nw.Categorical(p=[0.5, 0.3, 0.2]))
    mean, table, median = (
        released(one, nw.PureDP(1), population, rng) for one in (nw.Mean(X), nw.Histogram("g"), nw.Median(X))
    )
    several = released(nw.Marginals(("g",), ("h",)), PURE, nw.Joint(
        g=nw.Categorical(p=[0.5, 0.3, 0.2]), h=nw.Categorical(p=[0.5, 0.5])), rng)  # fmt: skip
    for given, match in (
        ({"mean": 1.0}, "covariance is missing"),
        ({}, "mean is missing"),
        ({"mean": 1.0, "covariance": 1.0, "probabilities": 1.0}, "mean has no place"),
        ({"mean": [1.0, 2.0], "covariance": 1.0}, "shape"),
        ({"mean": [1.0], "covariance": 1.0}, "shape"),
    ):
        with pytest.raises(nw.InvalidArgument, match=match):
            density(mean, **given)
    with pytest.raises(nw.InvalidArgument, match="shape"):
        density(table, probabilities=[0.5, 0.5])
    with pytest.raises(nw.Unsupported, match="one count or one table"):
        density(mean, probabilities=0.5)
    with pytest.raises(nw.Unsupported, match="overlap"):
        density(several, probabilities=[0.5, 0.3, 0.2, 0.5, 0.5])
    with pytest.raises(nw.Unsupported, match="likelihood_of"):
        density(median, mean=0.0, covariance=1.0)
    with pytest.raises(nw.InvalidArgument, match="same records together"):
        density([mean, table], mean=[0.0] * 4, covariance=np.eye(4))


def test_noise_too_wide_for_whole_numbers_is_referred_to_moments(rng):
    facts = nw.Schema({"g": nw.Levels([f"l{k}" for k in range(50)])}, n=10**6, neighbours="change-one")
    release = released(nw.Histogram("g"), nw.PureDP("0.001"), nw.Categorical(p=[0.02] * 50), rng, facts)
    with pytest.raises(nw.Unsupported, match="mean= and covariance="):
        density(release, probabilities=[0.02] * 50)
    p = np.full(50, 0.02)
    assert np.isfinite(density(release, np.ones(50), mean=p, covariance=np.diag(p) - np.outer(p, p)))


def test_the_ratio_of_tail_and_density_is_right_everywhere():
    import mpmath

    for x in (-30.0, -3.0, 0.0, 5.0, 24.99, 25.0, 60.0, 1e6):
        mpmath.mp.dps = 60
        wanted = mpmath.log(mpmath.erfc(mpmath.mpf(x) / mpmath.sqrt(2)) / 2) + mpmath.mpf(x) ** 2 / 2
        assert float(log_mills(ARRAYS, np.array(x))) == pytest.approx(float(wanted), rel=1e-9, abs=1e-9)


def test_the_density_of_one_laplace_sum_integrates_to_one(rng):
    facts = schema(20)
    values = [
        nw.measurement(nw.Sum(X), facts, v, noise=nw.laplace_noise(scale=40.0)) for v in np.linspace(-2500, 2500, 1201)
    ]
    logs = [density(one, mean=2.0, covariance=900.0) for one in values]
    total = integrate.simpson(np.exp(logs), x=np.linspace(-2500, 2500, 1201)) / 40.0
    assert total == pytest.approx(1, abs=1e-6)
