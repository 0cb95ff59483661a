"""Several releases of the same few records: one joint law, against enumeration, brute force and other likelihoods."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from noisewise import (
    Bounded,
    Count,
    Histogram,
    Mean,
    Median,
    PureDP,
    Quantile,
    Records,
    Schema,
    Sum,
    ZeroConcentratedDP,
    column,
    plan,
)
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.likelihood.bank import RecordsBank
from noisewise.likelihood.exact_sum import ExactSum
from noisewise.likelihood.model import Likelihood
from noisewise.likelihood.order_bank import OrderBank
from noisewise.models.simulate import simulate
from noisewise.populations.population import Joint, Normal, Uniform
from noisewise.release import Release

X, W = column("x"), column("w")
Z = 4.9  # two-sided 1e-6
LOW, HIGH = -3.0, 4.0
POPULATION = Normal(mean=stats.norm(0, 5), sd=1.5)
THETA = {"mean": np.array([0.3, 1.2])}


def schema_of(n):
    return Schema({"x": Bounded(LOW, HIGH)}, n=n, neighbours="change-one")


def released(statistic, schema, guarantee, *values):
    """A release that reads as the given values."""
    made = plan(statistic, schema, guarantee=guarantee)
    steps = made.law.step if isinstance(made.law.step, tuple) else (made.law.step,)
    whole = [round(value * made.divisor / step) for value, step in zip(values, steps, strict=True)]
    return Release.of(made, whole, dataset="d", ledger_head=None, simulated=True)


TWO = PureDP(2)


def median_and_mean(n, guarantee=TWO):
    schema = schema_of(n)
    return (released(Median(X), schema, guarantee, 1.4), released(Mean(X), schema, guarantee, 0.2))


def test_alone_it_agrees_with_the_bank_of_order_statistics():
    n = 9
    release = released(Median(X), schema_of(n), PureDP(3), 1.0)
    bank, other = RecordsBank.of((release,), POPULATION, n=n), OrderBank.of(release, POPULATION)
    difference = bank.log_likelihood(THETA) - other.log_likelihood(THETA)
    # Errors have 7 degrees of freedom each; t_7 passes 13 with chance 1e-6 a side.
    assert np.all(np.abs(difference) < 13 * np.hypot(bank.error(THETA), other.error(THETA)))
    assert np.all(bank.error(THETA) < 0.02)


@pytest.mark.parametrize("guarantee", [PureDP(1), ZeroConcentratedDP("0.5")])
def test_alone_it_agrees_with_the_exact_law_of_a_sum(guarantee):
    n = 6
    release = released(Mean(X), schema_of(n), guarantee, 0.7)
    bank = RecordsBank.of((release,), POPULATION, n=n)
    wanted = ExactSum(release, POPULATION, n=n).log_likelihood(THETA)
    assert np.all(np.abs(bank.log_likelihood(THETA) - wanted) < 13 * bank.error(THETA) + 1e-4)
    assert np.all(bank.error(THETA) < 0.01)


def brute_force(releases, n, mean, count=40_000):
    """log p of a median and a mean of the same records, from simulated records and the definitions."""
    median, average = releases
    rng = np.random.default_rng(n)
    x = np.sort(np.clip(mean + 1.5 * rng.standard_normal((count, n)), LOW, HIGH), axis=1)
    m, beta = (n + 1) // 2, median.law.beta
    padded = np.concatenate([np.full((count, n + 1), LOW), x, np.full((count, n + 1), HIGH)], axis=1)
    scale = np.max(
        [
            math.exp(-k * beta) * (padded[:, n + m + t] - padded[:, n + m + t - k - 1])
            for k in range(n + 1)
            for t in range(k + 2)
        ],
        axis=0,
    )
    noise = scale / float(median.law.alpha)
    y_median, y_mean = median.estimate[0], average.estimate[0]
    b = average.law.scale[0] / n
    of_median = -np.log(np.pi * noise * (1 + ((y_median - x[:, m - 1]) / noise) ** 2)) + math.log(median.law.step)
    of_mean = -np.abs(y_mean - x.mean(axis=1)) / b - math.log(2 * b) + math.log(average.law.step[0] / n)
    joint = of_median + of_mean
    logs = logsumexp(joint) - math.log(count)
    error = np.exp(joint - logs).std() / math.sqrt(count)
    apart = logsumexp(of_median) + logsumexp(of_mean) - 2 * math.log(count)
    return logs, error, apart


@pytest.mark.parametrize("n", [1, 2, 7])
def test_a_median_and_a_mean_of_the_same_records_have_one_joint_law(n):
    releases = median_and_mean(n)
    bank = RecordsBank.of(releases, POPULATION, n=n)
    for k, mean in enumerate(THETA["mean"]):
        wanted, error, apart = brute_force(releases, n, mean)
        allowed = Z * error + 0.02
        assert abs(bank.log_likelihood(THETA)[k] - wanted) < allowed
        if n == 1:  # here the two releases tell about one and the same number: multiplying them is caught
            assert abs(apart - wanted) > allowed


def test_counts_of_the_same_records_are_enumerated():
    """Two overlapping counts and a histogram of 4 records: all assignments of records to cells."""
    n, edges = 4, (0.25, 0.5, 0.75)
    schema = Schema({"x": Bounded(0, 1)}, n=n, neighbours="change-one")
    first, second = Count(X.between(0, "0.5")), Count(X.between("0.25", "0.75"))
    releases = (
        released(first, schema, PureDP(1), 3),
        released(second, schema, PureDP(1), 1),
        released(Histogram("x", edges), schema, PureDP(1), 2, 0, 1, 2),
    )
    bank = RecordsBank.of(releases, Uniform(low=0, high=stats.uniform(1, 1)), n=n)
    high = 1.6
    cells = np.diff([0, *edges, high]) / high
    total = []
    for assigned in itertools.product(range(4), repeat=n):
        table = np.bincount(assigned, minlength=4)
        truth = (table[:2].sum(), table[1:3].sum(), *table)
        log_p = np.log(cells[list(assigned)]).sum()
        observed = [(release.law, k, y) for release in releases for k, y in enumerate(release.value)]
        log_p += sum(float(law.log_pmf(y - s, k)) for s, (law, k, y) in zip(truth, observed, strict=True))
        total.append(log_p)
    theta = {"high": np.array([high])}
    assert abs(bank.log_likelihood(theta)[0] - logsumexp(total)) < 13 * bank.error(theta)[0] + 1e-3
    assert bank.error(theta)[0] < 0.02


def test_columns_that_are_mixed_and_several_components():
    """A sum and a product over two columns of one record: a two-dimensional integral."""
    schema = Schema({"x": Bounded(-2, 2), "w": Bounded(0, 3)}, n=1, neighbours="change-one")
    release = released(Sum(X + W, X * W), schema, PureDP(2), 1.0, 0.5)
    population = Joint(x=Normal(mean=stats.norm(), sd=1), w=Normal(mean=1, sd=1))
    bank = RecordsBank.of((release,), population, n=1)
    u = (np.arange(800) + 0.5) / 800
    x = np.clip(0.4 + stats.norm.ppf(u), -2, 2)[:, None]
    w = np.clip(1 + stats.norm.ppf(u), 0, 3)[None, :]
    logs = sum(
        release.law.log_pmf(y - value / step, k)
        for k, (y, value, step) in enumerate(zip(release.value, (x + w, x * w), release.law.step, strict=True))
    )
    wanted = logsumexp(logs) - 2 * math.log(800)
    assert abs(bank.log_likelihood({"x.mean": np.array([0.4])})[0] - wanted) < 5e-3


def test_the_reported_error_is_the_spread_between_banks():
    releases = median_and_mean(70)  # plain draws: more coordinates than a net is good for
    banks = [RecordsBank.of(releases, POPULATION, n=70, seed=seed, size=256) for seed in range(24)]
    theta = {"mean": np.array([0.7])}
    spread = np.std([bank.log_likelihood(theta)[0] for bank in banks], ddof=1)
    reported = math.sqrt(np.mean([bank.error(theta)[0] ** 2 for bank in banks]))
    # 23 against 24 x 7 degrees of freedom, with room for the skewness of such errors.
    assert 0.08 < (spread / reported) ** 2 < 5


def test_it_says_what_it_is_and_whether_it_can_be_trusted():
    schema = schema_of(8)
    calm = RecordsBank.of(median_and_mean(8, PureDP(1)), POPULATION, n=8)
    assert isinstance(calm, Likelihood)
    assert calm.is_exact
    assert calm.is_affordable()
    assert "share their 8 records" in calm.because
    rough = (released(Median(X), schema, PureDP(4000), 0.5), released(Mean(X), schema, PureDP(4000), 0.6))
    assert not RecordsBank.of(rough, POPULATION, n=8).is_affordable()


def test_draws_of_the_statistics_come_near_releases_with_little_noise():
    n, rng = 3, np.random.default_rng(3)
    schema = schema_of(n)
    made = [plan(s, schema, guarantee=PureDP(60)) for s in (Median(X), Mean(X))]
    releases = [simulate(p, POPULATION, at={"mean": 0.3}, seed=5) for p in made]  # the same seed: the same records
    releases = [Release.of(p, r.value, dataset="d", ledger_head=None, simulated=True)
                for p, r in zip(made, releases, strict=True)]  # fmt: skip
    bank = RecordsBank.of(releases, POPULATION, n=n)
    drawn = bank.draw_statistic(rng, {"mean": np.full(200, 0.3)})
    assert drawn.shape == (200, 2)
    near = np.median(np.abs(drawn - [r.estimate[0] for r in releases]), axis=0)
    # Laplace noise on the mean has scale 7/(3 x 60); the median's is of the order of a gap over 30.
    assert np.all(near < 0.15)


def test_base_draws_of_all_records_average_to_the_same_likelihood():
    n, rng = 4, np.random.default_rng(4)
    schema = Schema({"x": Bounded(LOW, HIGH), "w": Bounded(0, 1)}, n=n, neighbours="change-one")
    releases = (released(Median(X), schema, PureDP(2), 1.0), released(Mean(X * W), schema, PureDP(2), 0.3))
    population = Joint(x=POPULATION, w=Uniform(low=0, high=1))
    bank = RecordsBank.of(releases, population, n=n)
    latent = bank.latent(lambda position: {"x.mean": position[:, 0]})
    position = np.array([[0.3], [1.0]])
    assert latent.n == 2 * n
    logs = latent.log_noise(latent.base(rng, (2, 20_000)), position)
    wanted = bank.log_likelihood({"x.mean": position[:, 0]})
    relative = np.exp(logs - wanted[:, None])
    assert np.all(np.abs(relative.mean(axis=1) - 1) < Z * relative.std(axis=1) / math.sqrt(20_000) + 0.02)


def test_the_score_is_the_slope_of_the_likelihood():
    bank = RecordsBank.of(median_and_mean(5), POPULATION, n=5)
    score = bank.score({"mean": np.array([0.7])})["mean"][0]
    ends = bank.log_likelihood({"mean": np.array([0.6, 0.8])})
    assert abs(score - (ends[1] - ends[0]) / 0.2) < 0.03


def test_a_parameter_that_gives_no_law_is_not_a_number():
    found = RecordsBank.of(median_and_mean(5), POPULATION, n=5).log_likelihood({"mean": np.array([0.0, np.nan])})
    assert np.isfinite(found[0])
    assert np.isnan(found[1])


def test_what_is_out_of_reach_is_refused_with_a_reason():
    local = simulate(plan(Records(X), schema_of(5), guarantee=PureDP(1)), POPULATION, seed=1)
    with pytest.raises(Unsupported, match="beside another release of the same records"):
        RecordsBank.of((*median_and_mean(5), local), POPULATION, n=5)
    quantile = plan(Quantile(X, "0.5"), schema_of(5), guarantee=PureDP(1))
    with pytest.raises(Unsupported, match="quantile"):
        RecordsBank.of((Release.of(quantile, [0], dataset="d", ledger_head=None, simulated=True),), POPULATION, n=5)
    with pytest.raises(Unsupported, match="disjoint parts"):
        RecordsBank.of(median_and_mean(10**6, PureDP(2)), POPULATION, n=10**6)
    with pytest.raises(InvalidArgument, match="size"):
        RecordsBank.of(median_and_mean(5), POPULATION, n=5, size=True)
