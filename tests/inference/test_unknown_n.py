"""infer with a prior on the number of records: draws, verdicts, files, the command line, and calibration."""

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.evaluate.calibration import calibrate
from noisewise.evaluate.simulate import simulate_releases

X = nw.column("x")
SCHEMA = nw.Schema({"x": nw.Bounded(0, 100)}, n_max=200_000, neighbours="add-remove")
EVERYBODY = nw.Count(X.between(0, 100))
POPULATION = nw.Normal(mean=stats.norm(50, 20), sd=10)
PLANS = [
    nw.plan(nw.Sum(X), SCHEMA, guarantee=nw.PureDP(1)),
    nw.plan(EVERYBODY, SCHEMA, guarantee=nw.PureDP("1/2")),
]
ANYTHING = stats.randint(20, 100_001)


class LogUniform(stats.rv_discrete):
    """Whole numbers from a to b, each ten-fold stretch about as likely as the next."""

    def _pmf(self, k, a, b):
        return np.log1p(1 / k) / np.log((b + 1) / a)

    def _cdf(self, k, a, b):
        return np.log((np.floor(k) + 1) / a) / np.log((b + 1) / a)

    def _ppf(self, q, a, b):
        return np.clip(np.ceil(a * ((b + 1) / a) ** q - 1 - 1e-12), a, b)

    def _get_support(self, a, b):
        return a, b

    def _argcheck(self, a, b):
        return (a >= 1) & (b > a)


FROM_20_TO_100_000 = LogUniform(name="log_uniform", shapes="a, b")(20, 100_000)


def simulated(rng, *, n=1000, mean=33.0, plans=PLANS):
    return simulate_releases(rng, plans, POPULATION, {"mean": np.array([mean])}, n=n)


@pytest.fixture(scope="module")
def posterior():
    releases = simulated(np.random.default_rng(), n=1000)
    return nw.infer(releases, POPULATION, n=stats.poisson(1000), seed=1, draws=500, progress=False)


def test_n_is_drawn_shown_checked_and_saved(posterior, tmp_path):
    assert posterior.draws["n"].shape == posterior.draws["mean"].shape
    assert np.all(posterior.draws["n"] == np.rint(posterior.draws["n"]))
    assert abs(posterior.mean["n"] - 1000) < 60
    text = " ".join(posterior.summary().split())
    assert "n " in text
    assert "with the prior poisson(1000)" in text
    assert "private and unknown" in str(posterior.verdict)
    assert posterior.check.degrees.unknowns == 2
    assert posterior.check.degrees.told == 2
    assert posterior.statistic.draws.shape[1] == 2
    assert posterior.answers()["mean"].estimate == pytest.approx(posterior.mean["mean"], abs=0.5)
    posterior.save(tmp_path / "p.npz")
    again = nw.Posterior.load(tmp_path / "p.npz")
    assert again.summary() == posterior.summary()
    assert np.array_equal(again.draws["n"], posterior.draws["n"])
    assert again.stated_n.args == (1000,)


def test_the_posterior_is_that_of_n_and_mean_together(rng):
    """Against quadrature over both, where the count is all but silent and the prior of n is broad."""
    plans = [
        nw.plan(nw.Sum(X), SCHEMA, guarantee=nw.GaussianDP(2)),
        nw.plan(EVERYBODY, SCHEMA, guarantee=nw.PureDP("1/20")),
    ]
    releases = simulated(rng, n=400, mean=50.0, plans=plans)
    prior = stats.nbinom(20, 0.05)
    found = nw.infer(releases, POPULATION, n=prior, draws=5000, progress=False)
    step, noise = releases[0].law.step[0], releases[0].law.scale[0]
    every, means = np.arange(1, 2000)[:, None], np.linspace(0, 120, 601)[None]
    # Around 50 +- 10 nobody is beyond the bounds but one in a million, so that a record is normal as it is.
    log = stats.norm.logpdf(releases[0].value[0] * step, every * means, np.sqrt(every * 100 + noise**2))
    log = log + prior.logpmf(every) - np.abs(releases[1].value[0] - every) / 20 + stats.norm.logpdf(means, 50, 20)
    chance = np.exp(log - log.max())
    chance /= chance.sum()
    for name, at, weight in (("mean", means[0], chance.sum(axis=0)), ("n", every[:, 0], chance.sum(axis=1))):
        mean = weight @ at
        sd = np.sqrt(weight @ (at - mean) ** 2)
        drawn = found.draws[name]
        assert abs(drawn.mean() - mean) < 6 * sd / np.sqrt(drawn.size) + 0.01 * sd
        assert drawn.std() == pytest.approx(sd, rel=0.06)


def test_a_wrong_stated_n_is_caught_and_a_prior_mends_it(rng):
    """A thousand people with a mean of 33, learnt as if they were eight thousand: a mean of 4 without the count."""
    releases = simulated(rng, n=1000, mean=33.0)
    alone = nw.infer(releases[:1], POPULATION, n=8000, draws=100, progress=False)
    assert alone.mean["mean"] < 10
    assert "It holds if n = 8000, as stated" in str(alone.verdict)
    with pytest.raises(InvalidArgument, match="of the same records is"):
        nw.infer(releases, POPULATION, n=8000, progress=False)
    mended = nw.infer(releases, POPULATION, n=ANYTHING, draws=500, progress=False)
    assert abs(mended.mean["mean"] - 33) < 6
    unsure = nw.infer(releases[:1], POPULATION, n=stats.randint(500, 8001), draws=500, progress=False)
    low, high = unsure.interval(0.9)["mean"]
    assert high - low > 5 * (mended.interval(0.9)["mean"][1] - mended.interval(0.9)["mean"][0])


def test_methods_that_need_a_number_say_so(rng):
    releases = simulated(rng)
    for method in ("naive", "gibbs"):
        with pytest.raises(Unsupported, match="n is a prior"):
            nw.infer(releases, POPULATION, n=stats.poisson(1000), method=method, progress=False)
    with pytest.raises(Unsupported, match="has no such form"):
        nw.infer(releases, POPULATION, n=stats.poisson(1000), method="pmmh", progress=False)


def test_a_point_sums_n_out(rng):
    point = nw.infer(simulated(rng), POPULATION, n=stats.poisson(1000), method="mle", progress=False)
    assert abs(point.mean["mean"] - 33) < 6
    assert set(point.draws) == {"mean"}


def test_n_is_public_under_change_one(rng):
    schema = nw.Schema({"x": nw.Bounded(0, 100)}, n=100, neighbours="change-one")
    releases = simulate_releases(
        rng, [nw.plan(nw.Mean(X), schema, guarantee=nw.PureDP(1))], POPULATION, {"mean": np.array([33.0])}
    )
    with pytest.raises(InvalidArgument, match="n is public"):
        nw.infer(releases, POPULATION, n=stats.poisson(100), progress=False)


def test_a_population_with_an_n_of_its_own_keeps_it(rng):
    population = nw.Population(stats.binom, n=20, p=stats.uniform(0.1, 0.8))
    plans = [nw.plan(nw.Sum(X), SCHEMA, guarantee=nw.PureDP(1)), PLANS[1]]
    releases = simulate_releases(rng, plans, population, {"p": np.array([0.3])}, n=300)
    found = nw.infer(releases, population, n=stats.poisson(300), draws=50, progress=False)
    assert set(found.draws) == {"p", "n"}


def test_values_left_out_are_learnt_beside_an_unknown_n(rng):
    schema = nw.Schema({"x": nw.Bounded(0, 100)}, n_max=20_000, neighbours="add-remove", missing="leave-out")
    plan = nw.plan(nw.Mean(X), schema, guarantee=nw.GaussianDP(2))
    release = nw.simulate(plan, POPULATION, at={"mean": 40.0, "present": 0.8}, n=2000, seed=int(rng.integers(2**31)))
    found = nw.infer(release, POPULATION, n=stats.poisson(2000), draws=200, progress=False)
    assert set(found.draws) == {"mean", "present", "n"}
    assert abs(found.mean["mean"] - 40) < 4
    assert abs(found.mean["present"] - 0.8) < 0.15


def test_intervals_hold_under_a_prior_on_n():
    found = calibrate(PLANS, POPULATION, n=stats.randint(20, 2001), trials=30, draws=40, progress=False)
    assert found.names == ("mean", "n")
    assert found.is_calibrated(), found.verdict()


def test_the_calibration_sees_an_n_taken_for_known():
    """Planted: the middle of the prior in place of n."""

    def careless(releases, population, seed):
        drawn = nw.infer(
            releases[:1], population, n=1000, seed=seed, draws=40, chains=1, likelihood="clt", progress=False
        ).draws
        return {**drawn, "n": np.full((1, 40), 1000.0) + np.arange(40) / 1e6}

    found = calibrate(PLANS, POPULATION, n=stats.randint(20, 2001), trials=40, draws=40, infer=careless, progress=False)
    assert not found.is_calibrated()


def test_a_prior_of_fewer_records_than_a_sum_needs_is_refused():
    """40 000 of records up to 100 are of 400 at least, whatever the population: 20 expected ones cannot be it."""
    noise = nw.laplace_noise(scale=100)
    total = nw.measurement(nw.Sum(X), SCHEMA, 40_000.5, noise=noise)
    with pytest.raises(nw.InvalidArgument, match=r"contradict each other: of .* records within the bounds"):
        nw.likelihood_of(total, POPULATION, n=stats.poisson(20))
    few = nw.likelihood_of(total, POPULATION, n=stats.poisson(380))  # possible, by a little
    assert np.isfinite(few.log_likelihood({name: [80.0] for name in POPULATION.free})).all()


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", [nw.PureDP("1/2"), nw.GaussianDP(1)], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("is_counted", [True, False], ids=["counted", "not counted"])
def test_intervals_hold_from_20_to_100_000_records(guarantee, is_counted):
    plans = [nw.plan(statistic, SCHEMA, guarantee=guarantee) for statistic in (nw.Sum(X), EVERYBODY)]
    found = calibrate(
        plans if is_counted else plans[0], POPULATION, n=FROM_20_TO_100_000, trials=400, draws=100, progress=False
    )
    assert found.is_calibrated(), found.verdict()


@pytest.mark.slow
def test_intervals_of_mean_sd_and_n_hold():
    population = nw.Normal(mean=stats.norm(50, 10), sd=stats.uniform(5, 15))
    plans = [nw.plan(statistic, SCHEMA, guarantee=nw.GaussianDP(2)) for statistic in (nw.Sum(X, X**2), EVERYBODY)]
    found = calibrate(plans, population, n=stats.randint(20, 2001), trials=200, draws=100, progress=False)
    assert found.is_calibrated(), found.verdict()


@pytest.mark.slow
def test_intervals_from_a_histogram_of_unknown_many_hold():
    plans = nw.plan(nw.Histogram("x", edges=[0, 30, 45, 60, 100]), SCHEMA, guarantee=nw.PureDP(1))
    found = calibrate(plans, POPULATION, n=stats.randint(20, 2001), trials=200, draws=100, progress=False)
    assert found.is_calibrated(), found.verdict()
