"""A private quantile is scored by the law of the exponential mechanism, its normaliser averaged over the records."""

import itertools

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.likelihood.quantile_bank import QuantileBank
from noisewise.likelihood.simulate import noisy_values

UNKNOWN = nw.Normal(mean=stats.norm(50, 30), sd=15.0)


def planned(n, epsilon, q, **facts):
    schema = nw.Schema({"x": nw.Bounded(0, 100)}, n=n, neighbours="change-one", **facts)
    return nw.plan(nw.Quantile("x", q), schema, guarantee=nw.PureDP(epsilon))


def chance(y, x, *, q, epsilon, step):
    """The probability of a lattice point y given sorted records (.., n): as METHODS writes it, and by nothing else."""
    n = x.shape[-1]
    below = np.sum(x < y, axis=-1)
    ends = [(0, 0)] * (x.ndim - 1) + [(1, 1)]
    edges = np.pad(x, ends, constant_values=((0, 0),) * (x.ndim - 1) + ((0.0, 100.0),))
    away = np.abs(np.arange(n + 1) - q * n)
    log_z = np.log(np.sum(np.diff(edges, axis=-1) * np.exp(-epsilon / 2 * away), axis=-1) / step)
    return np.exp(-epsilon / 2 * np.abs(below - q * n) - log_z)


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
