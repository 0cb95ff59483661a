"""A private quantile is scored by the law of the exponential mechanism, its normaliser averaged over the records."""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import noisewise as nw
from noisewise.likelihood.quantile_bank import QuantileBank
from noisewise.likelihood.simulate import noisy_values

UNKNOWN = nw.Normal(mean=stats.norm(50, 30), sd=15.0)


def planned(n, epsilon, q, **facts):
    schema = nw.Schema({"x": nw.Bounded(0, 100)}, n=n, neighbours="change-one", **facts)
    return nw.plan(nw.Quantile("x", q), schema, guarantee=nw.PureDP(epsilon))


def chance(y, x, *, q, epsilon, step, bounds=(0.0, 100.0)):
    """The probability of a lattice point y given sorted records (.., n): as METHODS writes it, and by nothing else.

    The lower bound is a point, too: where nobody is below it, so the first gap is a step longer.
    """
    n = x.shape[-1]
    below = np.sum(x < y, axis=-1)
    ends = np.broadcast_to(bounds[0] - step, (*x.shape[:-1], 1)), np.broadcast_to(bounds[1], (*x.shape[:-1], 1))
    away = np.abs(np.arange(n + 1) - q * n)
    with np.errstate(divide="ignore"):
        logs = np.log(np.diff(np.concatenate([ends[0], x, ends[1]], axis=-1)) / step) - epsilon / 2 * away
    return np.exp(-epsilon / 2 * np.abs(below - q * n) - logsumexp(logs, axis=-1))


@pytest.mark.parametrize(
    ("n", "epsilon", "q"), [(1, "1", "0.5"), (3, "2", "0.3"), (40, "0.3", "0.5"), (40, "2", "0.9")]
)
def test_it_is_the_mean_over_records_of_the_mechanism(n, epsilon, q, rng):
    made = planned(n, epsilon, q)
    release = nw.simulate(made, UNKNOWN, at={"mean": 45.0}, seed=int(rng.integers(2**31)))
    bank = QuantileBank.of(release, UNKNOWN)
    at = np.array([40.0, 52.0])
    for m, log_p, error in zip(at, *(one({"mean": at}) for one in (bank.log_likelihood, bank.error)), strict=True):
        x = np.sort(np.clip(rng.normal(m, 15, (20_000, n)), 0, 100), axis=1)
        p = chance(release.estimate[0], x, q=float(made.statistic.q), epsilon=float(epsilon), step=made.law.step)
        relative = np.hypot(p.std() / p.mean() / np.sqrt(len(p)), error)
        assert abs(log_p - np.log(p.mean())) < 6 * relative + 0.01


def test_two_values_of_a_record_are_enumerated():
    """Records that are 20 or 60: three records make four sorted tables, and the law is a sum over them."""
    schema = nw.Schema({"x": nw.Bounded(0, 100)}, n=3, neighbours="change-one")
    made = nw.plan(nw.Quantile(20 + 40 * nw.column("x").between(50, 100), "0.5"), schema, guarantee=nw.PureDP(2))
    population = nw.Uniform(low=stats.uniform(0, 40), high=100.0)
    release = nw.simulate(made, population, at={"low": 20.0}, seed=1)
    y, step, low = release.estimate[0], made.law.step, np.array([5.0, 30.0])
    bounds = made.statistic.bounds(schema)
    share = 50 / (100 - low)  # that x is above 50
    found = QuantileBank.of(release, population).log_likelihood({"low": low})
    exact = np.zeros(2)
    for x in itertools.product((20.0, 60.0), repeat=3):
        edges = np.array([bounds[0], *sorted(x), bounds[1]])
        z = np.sum(np.diff(edges) * np.exp(-np.abs(np.arange(4) - 1.5))) / step
        up = x.count(60.0)
        exact += share**up * (1 - share) ** (3 - up) * np.exp(-abs(np.sum(np.array(x) < y) - 1.5)) / z
    assert found == pytest.approx(np.log(exact), abs=1e-6)


def test_simulated_points_have_the_law_of_the_mechanism(rng):
    made = planned(4, "2", "0.5")
    x = np.array([10.0, 30.0, 35.0, 80.0])
    drawn = noisy_values(rng, made, {"x": np.tile(x, (20_000, 1))})[:, 0] * made.law.step
    edges = np.array([0.0, 10, 30, 35, 80, 100])
    weights = np.diff(edges) * np.exp(-np.abs(np.arange(5) - 2.0))
    counts = np.histogram(drawn, edges)[0]
    assert stats.chisquare(counts, 20_000 * weights / weights.sum()).pvalue > 1e-7
    inside = drawn[(drawn > 35) & (drawn <= 80)]
    assert stats.kstest((inside - 35) / 45, "uniform").pvalue > 1e-7


def test_epsilon_near_zero_tells_nothing_and_a_large_one_the_quantile(rng):
    seed = int(rng.integers(2**31))
    little = nw.simulate(planned(100, "0.0001", "0.5"), UNKNOWN, at={"mean": 45.0}, seed=seed)
    law = QuantileBank.of(little, UNKNOWN).log_likelihood({"mean": np.array([20.0, 50.0, 80.0])})
    assert np.ptp(law) < 0.05
    much = nw.simulate(planned(100, "50", "0.5"), UNKNOWN, at={"mean": 45.0}, seed=seed)
    bank = QuantileBank.of(much, UNKNOWN)
    # The median of 100 normal records is normal around theirs with sd 15 sqrt(pi/200), nearly.
    y, at = much.estimate[0], np.array([42.0, 45.0, 48.0])
    wanted = stats.norm.logpdf(y, at, 15 * np.sqrt(np.pi / 200))
    found = bank.log_likelihood({"mean": at})
    assert found - found[1] == pytest.approx(wanted - wanted[1], abs=0.35)


def test_a_quantile_is_learnt_from_alone(rng):
    made = planned(200, "1", "0.5")
    release = nw.simulate(made, UNKNOWN, at={"mean": 45.0}, seed=int(rng.integers(2**31)))
    mean = nw.measurement(nw.Mean("x"), made.schema, 45.0, noise=nw.laplace_noise(scale=1.0), dataset=release.dataset)
    with pytest.raises(nw.Unsupported, match="disjoint parts"):
        nw.infer([release, mean], UNKNOWN, progress=False)
    other = nw.measurement(nw.Mean("x"), made.schema, 45.0, noise=nw.laplace_noise(scale=1.0), dataset="others")
    law = nw.likelihood_of([release, other], UNKNOWN)
    assert np.isfinite(law.log_likelihood({"mean": [40.0, 45.0]})).all()


def test_where_every_record_is_clamped_the_point_is_anywhere():
    """All records at the lower bound: every point above it has the same chance, however small its weight is."""
    made = planned(1000, "4", "0.5")
    release = nw.simulate(made, UNKNOWN, at={"mean": 45.0}, seed=1)
    law = QuantileBank.of(release, UNKNOWN).log_likelihood({"mean": np.array([-400.0])})
    assert law == pytest.approx(np.log(made.law.step / 100), abs=1e-6)


ATOMS = {
    "many at the lower bound": (nw.Normal(mean=stats.norm(0, 30), sd=15.0), {"mean": [-10.0, -3.0]}, 100),
    "many at the upper bound": (nw.Normal(mean=stats.norm(100, 30), sd=15.0), {"mean": [103.0, 112.0]}, 100),
    "yes or no": (nw.Bernoulli(p=stats.beta(1, 1)), {"p": [0.1, 0.45]}, 1),
    "small counts": (nw.Poisson(rate=stats.gamma(2)), {"rate": [0.2, 1.5]}, 10),
}


@pytest.mark.parametrize("q", ["0.1", "0.5"])
@pytest.mark.parametrize("epsilon", ["0.2", "1", "4"])
@pytest.mark.parametrize("kind", ATOMS)
def test_records_that_are_equal_are_weighed_where_they_are(kind, epsilon, q, rng):
    population, theta, high = ATOMS[kind]
    n, at = 120, {name: np.array(value) for name, value in theta.items()}
    schema = nw.Schema({"x": nw.Bounded(0, high)}, n=n, neighbours="change-one")
    made = nw.plan(nw.Quantile("x", q), schema, guarantee=nw.PureDP(epsilon))
    true = {name: float(value[0]) for name, value in at.items()}
    release = nw.simulate(made, population, at=true, seed=int(rng.integers(2**31)))
    bank = QuantileBank.of(release, population)
    y, step = release.estimate[0], made.law.step
    for k, (log_p, error) in enumerate(zip(bank.log_likelihood(at), bank.error(at), strict=True)):
        ((_, value),) = at.items()
        drawn = {
            "normal": lambda m: rng.normal(m, 15, (20_000, n)),
            "bernoulli": lambda p: rng.binomial(1, p, (20_000, n)),
            "poisson": lambda rate: rng.poisson(rate, (20_000, n)),
        }[population.distribution.name](value[k])
        x = np.sort(np.clip(drawn, 0, high).astype(float), axis=1)
        p = chance(y, x, q=float(made.statistic.q), epsilon=float(epsilon), step=step, bounds=(0.0, float(high)))
        relative = np.hypot(p.std() / p.mean() / np.sqrt(len(p)), error)
        if relative < 0.05:  # else neither settles it
            assert abs(log_p - np.log(p.mean())) < 6 * relative + 0.1


def test_where_almost_everybody_is_at_the_lower_bound_it_is_the_likeliest_point():
    """A low quantile of 400 records of which 399 are 0: w there is e^72 of that of the gap above."""
    schema = nw.Schema({"x": nw.Bounded(0, 1)}, n=400, neighbours="change-one")
    made = nw.plan(nw.Quantile("x", "0.1"), schema, guarantee=nw.PureDP("0.5"))
    population = nw.Bernoulli(p=stats.beta(1, 1))
    release = nw.simulate(made, population, at={"p": 0.002}, seed=1)
    assert release.estimate[0] == 0.0
    bank = QuantileBank.of(release, population)
    assert bank.log_likelihood({"p": np.array([0.002])}) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 1000])
def test_what_a_quantile_tells_is_calibrated(n, rng):
    found = nw.calibrate(
        planned(n, "1", "0.5"), nw.Normal(mean=stats.norm(50, 10), sd=15.0), trials=60, draws=99,
        seed=int(rng.integers(2**31)), progress=False,
    )  # fmt: skip
    print(found)
    assert not found.failures
    assert found.is_calibrated
