"""infer: the right posterior from a release, the same by every method, in words that say how and why."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from made_releases import release_of
from scipy import integrate, stats

import noisewise as nw

X = nw.column("x")
YES = nw.Count(nw.column("s").equals("yes"))
KNOWN_SD = nw.Normal(mean=stats.norm(0, 3), sd=1)
VARIANCE = nw.Normal(mean=0, variance=stats.uniform(0, 10))


def schema(n: int, low: float = -10, high: float = 10) -> nw.Schema:
    return nw.Schema({"x": nw.Bounded(low, high), "s": nw.Levels(["no", "yes"])}, n=n, neighbours="change-one")


NEAR = nw.Normal(mean=stats.norm(0.5, 0.5), sd=stats.gamma(20, scale=0.1))


ABSOLUTE = release_of(nw.Mean(abs(X)), schema(100), nw.PureDP(5), [1.2])


@pytest.mark.parametrize(("likelihood", "mean", "sd"), [("clt", 2.3617, 0.3919), ("auto", 2.3599, 0.3840)])
def test_the_known_posterior_to_four_digits(likelihood: str, mean: float, sd: float) -> None:
    posterior = nw.infer(ABSOLUTE, VARIANCE, likelihood=likelihood, seed=1)
    assert posterior.mean["variance"] == pytest.approx(mean, abs=5e-5)
    assert posterior.sd["variance"] == pytest.approx(sd, abs=5e-5)
    assert posterior.method == "exact"
    assert ("central limit" in posterior.because) is (likelihood == "clt")
    assert "quadrature" in posterior.because


METHODS = {
    "mh": {},
    "slice": {},
    "mh-within-gibbs": {},
    "pmmh": {"n_particles": 20},
    "cpm": {"n_particles": 10},
    "mhaar": {"n_particles": 10},
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("guarantee", [nw.PureDP(5), nw.GaussianDP(1)], ids=["laplace", "gaussian"])
def test_every_kernel_agrees_with_quadrature_on_the_same_release(method: str, guarantee: object) -> None:
    release = release_of(nw.Mean(abs(X)), schema(100), guarantee, [1.2])
    truth = nw.infer(release, VARIANCE, likelihood="clt", seed=1)
    drawn = nw.infer(
        release, VARIANCE, likelihood="clt", method=method, seed=2, chains=16, draws=250, warmup=200, **METHODS[method]
    )
    error = drawn.mcse["variance"]
    assert abs(drawn.mean["variance"] - truth.mean["variance"]) < 5 * error
    assert error < 0.1 * truth.sd["variance"]
    assert drawn.method == method


@pytest.mark.parametrize(
    "method", ["mh", pytest.param("slice", marks=pytest.mark.slow), "mh-within-gibbs", "pmmh", "mhaar"]
)
def test_every_kernel_agrees_with_the_grid_on_a_vector_with_two_unknowns(method: str) -> None:
    release = release_of(nw.Mean(X, X**2), schema(200), nw.PureDP(4), [0.6, 4.4])
    drawn = nw.infer(release, NEAR, method=method, seed=2, chains=16, draws=200, warmup=200)
    # Samplers that keep the sums as variables take them as normal, and say so.
    assert drawn.likelihood == ("auto" if method in ("mh", "slice") else "clt")
    truth = nw.infer(release, NEAR, seed=1, draws=1000, likelihood=drawn.likelihood)
    for name in ("mean", "sd"):
        error = np.hypot(drawn.mcse[name], truth.mcse[name])
        assert abs(drawn.mean[name] - truth.mean[name]) < 5 * error
        assert error < 0.2 * truth.sd[name]


def test_three_laplace_components_agree_with_importance_sampling() -> None:
    """The mixing variances are integrated out; plain importance sampling over theta and the sums is the oracle."""
    release = release_of(nw.Mean(X, X**2, abs(X)), schema(150, -4, 4), nw.PureDP(6), [0.4, 3.4, 1.5])
    posterior = nw.infer(release, NEAR, seed=3, chains=16, draws=60, warmup=60, likelihood="clt")
    assert "mixing variances" in posterior.because
    rng = np.random.default_rng(4)
    theta = NEAR.sample_prior(rng, 40_000)
    from noisewise.likelihood.normal_sum import NormalSum

    model = NormalSum((release,), NEAR, n=150)
    mean, covariance = model.moments(theta)
    root = np.linalg.cholesky(covariance + 1e-9 * np.eye(3))
    log_w = np.full(40_000, -np.inf)
    for _ in range(20):
        u = mean + np.einsum("kij,kj->ki", root, rng.standard_normal(mean.shape))
        log_w = np.logaddexp(log_w, model.noise.log_density(model.observed - u))
    w = np.exp(log_w - log_w.max())
    for name in ("mean", "sd"):
        expected = np.average(theta[name], weights=w)
        error = np.sqrt(np.sum(w**2 * (theta[name] - expected) ** 2)) / w.sum()
        assert abs(posterior.mean[name] - expected) < 5 * np.hypot(error, posterior.mcse[name])
        assert error < 0.3 * posterior.sd[name]


def test_a_count_with_a_beta_prior_is_the_exact_mixture() -> None:
    release = release_of(YES, schema(30), nw.PureDP("0.5"), [-2])
    posterior = nw.infer(release, nw.Bernoulli(p=stats.beta(0.5, 5)), seed=1)
    s = np.arange(31)

    def density(p: float) -> float:
        noise = np.exp(release.law.log_pmf(-2 - s))
        return float(stats.beta.pdf(p, 0.5, 5) * (stats.binom.pmf(s, 30, p) * noise).sum())

    moments = [integrate.quad(lambda p, k=k: p**k * density(p), 0, 1, limit=400)[0] for k in range(3)]
    assert posterior.mean["p"] == pytest.approx(moments[1] / moments[0], rel=1e-6)
    assert posterior.log_evidence == pytest.approx(np.log(moments[0]), abs=1e-6)
    assert posterior.sd["p"] == pytest.approx(
        np.sqrt(moments[2] / moments[0] - (moments[1] / moments[0]) ** 2), rel=1e-5
    )


def test_the_cost_does_not_grow_with_n_in_evaluations() -> None:
    """A count of ten million people is answered from the same closed form as one of a hundred."""
    for n in (100, 10**7):
        release = release_of(YES, schema(n), nw.PureDP(1), [n * 0.3])
        posterior = nw.infer(release, nw.Bernoulli(p=stats.beta(1, 1)), seed=1)
        assert posterior.mean["p"] == pytest.approx(0.3, abs=6 * posterior.sd["p"])


def test_huge_epsilon_gives_the_posterior_of_the_records() -> None:
    n, y = 400, 0.7
    release = release_of(nw.Mean(X), schema(n), nw.PureDP(10_000), [y])
    posterior = nw.infer(release, KNOWN_SD, seed=1)
    variance = 1 / (1 / 9 + n)
    assert posterior.mean["mean"] == pytest.approx(variance * n * y, abs=0.01 * variance**0.5)
    assert posterior.sd["mean"] == pytest.approx(variance**0.5, rel=0.01)


@pytest.mark.parametrize("statistic", [nw.Mean(X), YES, nw.Median(X), nw.Records(X, cells=[0, 1])], ids=str)
def test_tiny_epsilon_gives_back_the_prior(statistic: object) -> None:
    population = nw.Bernoulli(p=stats.beta(2, 3)) if statistic is YES else KNOWN_SD
    name = "p" if statistic is YES else "mean"
    plan = nw.plan(statistic, schema(40), guarantee=nw.PureDP("0.0001"))
    release = nw.simulate(plan, population, seed=5)
    posterior = nw.infer(release, population, seed=1)
    prior = population.parameters.priors[name]
    assert posterior.mean[name] == pytest.approx(prior.mean(), abs=0.05 * prior.std())
    assert posterior.sd[name] == pytest.approx(prior.std(), rel=0.05)


def test_a_statistic_at_its_bound_still_has_a_posterior() -> None:
    release = release_of(nw.Mean(X), schema(50, 0, 1), nw.PureDP(2), [1.2])
    posterior = nw.infer(release, nw.Normal(mean=stats.norm(0.5, 1), sd=0.3), seed=1)
    assert posterior.interval(0.9)["mean"][1] > 1
    assert posterior.verdict.is_converged


def test_the_same_seed_gives_the_same_draws_and_another_does_not() -> None:
    one, two, other = (nw.infer(ABSOLUTE, VARIANCE, likelihood="clt", method="mh", seed=s, draws=50) for s in (1, 1, 2))
    assert np.array_equal(one.draws["variance"], two.draws["variance"])
    assert not np.array_equal(one.draws["variance"], other.draws["variance"])
    assert nw.infer(ABSOLUTE, VARIANCE, likelihood="clt").seed != nw.infer(ABSOLUTE, VARIANCE, likelihood="clt").seed


def test_a_density_that_is_nan_somewhere_is_never_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    from noisewise.likelihood.normal_sum import NormalSum

    plain = NormalSum.log_likelihood_given

    def poisoned(self, theta, variances):
        value = plain(self, theta, variances)
        return np.where((theta["variance"] > 2.3) & (theta["variance"] < 2.4), np.nan, value)

    monkeypatch.setattr(NormalSum, "log_likelihood_given", poisoned)
    for method in ("exact", "mh", "slice"):
        posterior = nw.infer(ABSOLUTE, VARIANCE, likelihood="clt", method=method, seed=1, draws=300, warmup=100)
        assert not posterior.verdict.is_converged
        assert "finite" in str(posterior.verdict)


def test_a_population_that_no_parameter_can_explain_is_a_sentence() -> None:
    refused = nw.Schema({"x": nw.Bounded(5, 6)}, n=20, neighbours="change-one", outside="refuse")
    release = release_of(nw.Mean(X), refused, nw.PureDP(1), [5.5])
    population = nw.Uniform(low=0, width=stats.uniform(1, 2))
    with pytest.raises(nw.NoisewiseError, match=r"[a-z]"):
        nw.infer(release, population, seed=1)


@pytest.mark.parametrize(
    ("population", "words"),
    [
        (nw.Normal(mean=0, sd=1), "no unknown parameter"),
        (3, "describe the records"),
        (None, "describe the records"),
        (nw.Joint(income=KNOWN_SD), "does not describe"),
        (nw.Categorical(p=stats.dirichlet([1, 1])), "bounds|levels|numeric"),
    ],
)
def test_a_population_that_cannot_produce_the_statistic_is_refused(population: object, words: str) -> None:
    with pytest.raises(nw.NoisewiseError, match=words):
        nw.infer(ABSOLUTE, population)


def test_improper_priors_are_refused_with_the_reason() -> None:
    with pytest.raises(nw.InvalidArgument, match="proper"):
        nw.Normal(mean=0, variance=stats.uniform(0, np.inf))


@pytest.mark.parametrize("options", [{"method": "hmc"}, {"method": 3}, {"n_particles": 3}, {"likelihood": "normal"}])
def test_unknown_methods_and_options_are_refused_by_name(options: dict) -> None:
    with pytest.raises(nw.InvalidArgument):
        nw.infer(ABSOLUTE, VARIANCE, **options)
    with pytest.raises(nw.InvalidArgument, match="subset"):
        nw.infer(ABSOLUTE, VARIANCE, likelihood="clt", method="mhaar", subset=3)


WRONG = [-1, 2.5, "many", True, float("nan"), 10**30]


@pytest.mark.parametrize(
    ("name", "wrong"),
    # A seed may be any whole number, however long.
    [(name, w) for name in ("draws", "warmup", "chains", "seed") for w in WRONG if (name, w) != ("seed", 10**30)],
)
def test_bad_numbers_are_refused_by_name(name: str, wrong: object) -> None:
    with pytest.raises(nw.InvalidArgument) as refused:
        nw.infer(ABSOLUTE, VARIANCE, **{name: wrong})
    assert refused.value.argument == name


def test_methods_without_a_latent_say_what_to_use_instead() -> None:
    with pytest.raises(nw.Unsupported, match="likelihood='clt'"):
        nw.infer(ABSOLUTE, VARIANCE, method="pmmh")


def test_inference_has_no_way_to_be_given_records() -> None:
    for function in (nw.infer, nw.calibrate, nw.simulate):
        names = inspect.signature(function).parameters
        assert not {"table", "data", "records", "ledger"} & set(names)
        assert "Table" not in str(inspect.signature(function))


PRIVATE_N = nw.Schema({"x": nw.Bounded(0, 10), "s": nw.Levels(["no", "yes"])}, n_max=5000, neighbours="add-remove")


@pytest.mark.parametrize("method", ["exact", "gibbs", "slice", "naive", "conjugate"])
def test_the_verdict_says_that_n_was_stated(method: str) -> None:
    population = nw.Exponential(rate=stats.gamma(2))
    release = release_of(nw.Sum(X), PRIVATE_N, nw.PureDP(1), [950.0])
    chosen = {"method": method}
    if method == "conjugate":
        release, population, chosen = release_of(YES, PRIVATE_N, nw.PureDP(1), [30]), PROPORTION, {}
    posterior = nw.infer(release, population, n=900, draws=50, warmup=50, seed=1, progress=False, **chosen)
    assert "n = 900, as stated" in str(posterior.verdict)
    known = nw.infer(ABSOLUTE, VARIANCE, draws=50, seed=1, progress=False)
    assert "as stated" not in str(known.verdict)


PROPORTION = nw.Bernoulli(p=stats.beta(1, 1))


def test_proportions_of_a_table_have_exact_moments() -> None:
    """Mean and sd over every table of 6 records, not those of the few draws."""
    n, y, alpha = 6, np.array([4, -2, 3]), np.array([0.5, 1.0, 4.0])
    levels = nw.Schema({"s": nw.Levels(["a", "b", "c"])}, n=n, neighbours="change-one")
    release = release_of(nw.Histogram("s"), levels, nw.PureDP(1), y)
    posterior = nw.infer(release, nw.Categorical(p=stats.dirichlet(alpha)), draws=4, seed=1, progress=False)
    every = np.array([(a, b, n - a - b) for a in range(n + 1) for b in range(n + 1 - a)])
    log_weights = stats.dirichlet_multinomial.logpmf(every, alpha, n) - 0.5 * np.abs(y - every).sum(axis=1)
    weights = np.exp(log_weights) / np.exp(log_weights).sum()
    shares = (alpha + every) / (alpha.sum() + n)
    mean = weights @ shares
    variance = weights @ (shares * (1 - shares) / (alpha.sum() + n + 1) + shares**2) - mean**2
    assert posterior.mean["p"] == pytest.approx(mean, rel=1e-9)
    assert posterior.sd["p"] == pytest.approx(np.sqrt(variance), rel=1e-8)


@pytest.mark.parametrize("statistic", [nw.Mean(nw.column("x"), nw.column("x") ** 2), nw.Median(nw.column("x"))])
def test_parameters_that_put_no_record_inside_the_bounds_are_impossible_not_broken(statistic) -> None:
    population = nw.Uniform(low=stats.norm(30, 20), width=stats.gamma(2, scale=20))
    schema = nw.Schema({"x": nw.Bounded(0, 100)}, n=5, neighbours="change-one", outside="refuse")
    release = nw.simulate(
        nw.plan(statistic, schema, guarantee=nw.ApproxDP(1, "1e-6")),
        population,
        at={"low": 20.0, "width": 30.0},
        seed=1,
    )
    posterior = nw.infer(release, population, seed=1, draws=100, progress=False)
    assert "non-finite" not in str(posterior.verdict)
    low, width = posterior.draws["low"], posterior.draws["width"]
    assert np.all((low < 100) & (low + width > 0))
