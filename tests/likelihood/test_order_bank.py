"""The law of a noisy order statistic: against brute force, quadrature, closed limits, and calibration."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import logsumexp

from noisewise import ApproxDP, Bounded, Maximum, Mean, Median, Minimum, PureDP, Schema, column, plan
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.likelihood import order_bank
from noisewise.likelihood.model import Likelihood
from noisewise.likelihood.order_bank import OrderBank
from noisewise.likelihood.smooth_scale import of_sorted
from noisewise.models.simulate import simulate
from noisewise.populations.population import Exponential, Joint, Normal, Poisson
from noisewise.privacy.smooth import scale_floor
from noisewise.release import Release

X = column("x")
Z = 4.9  # two-sided 1e-6
PERCENT = 0.015  # what the bank may be off in these tests, beside the error of the brute force
LARGE = 9216
LAPLACE, CAUCHY = ApproxDP("1", "1e-4"), PureDP(1)


def literal_scale(values, *, rank, low, high, beta):
    """max_k e^(-k beta) max_t (s_{m+t} - s_{m+t-k-1}), as the definition says, with s = low, high beyond the ends."""
    n = values.shape[1]
    ends = [np.full((len(values), n + 1), low), values, np.full((len(values), n + 1), high)]
    padded, m = np.concatenate(ends, axis=1), n + rank  # padded[:, m] is the statistic
    best = np.zeros(len(values))
    for k in range(n + 1):
        gaps = [padded[:, m + t] - padded[:, m + t - k - 1] for t in range(k + 2)]
        best = np.maximum(best, math.exp(-k * beta) * np.max(gaps, axis=0))
    return best


def brute_force(release, records, *, stretch=1.0):
    """log p(y), its standard error, weights and statistics of simulated records (M, n); `stretch` plants a fault."""
    law, statistic = release.law, release.statistic
    low, high = statistic.bounds(release.schema)
    values = np.sort(records, axis=1)
    rank = statistic.rank(values.shape[1])
    scale = np.maximum(literal_scale(values, rank=rank, low=low, high=high, beta=law.beta),
                       scale_floor(step=law.step, alpha=law.alpha))  # fmt: skip
    steps = np.floor(values[:, rank - 1] / law.step + 0.5)
    logs = law.log_pmf(release.value[0] - steps, smooth_scale=stretch * scale)
    weights = np.exp(logs - logs.max())
    error = weights.std() / weights.mean() / math.sqrt(weights.size)
    return math.log(weights.mean()) + logs.max(), error, weights, values[:, rank - 1]


def schema_of(n, low=-6, high=8, outside="clamp"):
    return Schema({"x": Bounded(low, high)}, n=n, neighbours="change-one", outside=outside)


def released(statistic, schema, guarantee, y):
    made = plan(statistic, schema, guarantee=guarantee)
    return Release.of(made, [round(y / made.law.step)], dataset="d", ledger_head=None, simulated=True)


POPULATION = Normal(mean=stats.norm(0, 5), sd=1.5)
THETA = {"mean": np.array([0.3])}


def normal_records(rng, count, n, low=-6, high=8):
    return np.clip(0.3 + 1.5 * rng.standard_normal((count, n)), low, high)


@pytest.mark.parametrize("n", [1, 2, 3, 17])
@pytest.mark.parametrize("beta", [0.004, 0.3, 5.0, 80.0])
def test_the_scale_of_simulated_data_is_the_literal_smooth_sensitivity(n, beta):
    rng = np.random.default_rng(n)
    values = np.sort(np.round(rng.uniform(-1, 2, (200, n)), 1).clip(-1, 1.5), axis=1)  # with ties and clamped ends
    for rank in {1, (n + 1) // 2, n}:
        found = of_sorted(values, rank=rank, low=-1.0, high=1.5, beta=beta)
        wanted = literal_scale(values, rank=rank, low=-1.0, high=1.5, beta=beta)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-20)


CASES = [
    (Median(X), 1, CAUCHY, 0.9),
    (Median(X), 2, LAPLACE, -0.4),
    (Median(X), 2, PureDP(20), 0.1),
    (Median(X), 5, PureDP(10), 0.5),
    (Median(X), 40, CAUCHY, 1.2),
    (Median(X), 40, LAPLACE, 0.2),
    (Median(X), 40, ApproxDP("5", "1e-4"), 0.5),
    (Maximum(X), 5, PureDP(50), 1.9),
    (Maximum(X), 40, LAPLACE, 4.0),
    (Minimum(X), 40, PureDP(4), -3.0),
]


@pytest.mark.parametrize(("statistic", "n", "guarantee", "y"), CASES)
def test_the_bank_agrees_with_brute_force(statistic, n, guarantee, y):
    release = released(statistic, schema_of(n), guarantee, y)
    rng = np.random.default_rng(n)
    wanted, error, *_ = brute_force(release, normal_records(rng, 20_000, n))
    found = OrderBank.of(release, POPULATION, size=LARGE).log_likelihood(THETA)[0]
    assert abs(found - wanted) < Z * error + PERCENT


def test_brute_force_would_catch_a_scale_ten_percent_off():
    statistic, n, guarantee, y = CASES[4]
    release = released(statistic, schema_of(n), guarantee, y)
    wanted, error, *_ = brute_force(release, normal_records(np.random.default_rng(n), 20_000, n), stretch=1.1)
    found = OrderBank.of(release, POPULATION, size=LARGE).log_likelihood(THETA)[0]
    assert abs(found - wanted) > Z * error + PERCENT


FEATURES = [
    (Median(abs(X)), np.abs, 1.0),
    (Maximum(abs(X)), np.abs, 2.4),
    (Median((X - 1) ** 2), lambda x: (x - 1) ** 2, 1.0),
    (Median(0 - X), np.negative, 0.1),
    (Median(X.clip("-0.2", "0.9")), lambda x: x.clip(-0.2, 0.9), 0.89),
    (Maximum(abs(X).clip("0.5", 2)), lambda x: np.abs(x).clip(0.5, 2), 1.999),
    (Minimum(abs(X) ** "1/2"), lambda x: np.sqrt(np.abs(x)), 0.1),
]


@pytest.mark.parametrize("outside", ["clamp", "refuse"])
@pytest.mark.parametrize(("statistic", "feature", "y"), FEATURES)
def test_features_and_cleaning_enter_the_law(statistic, feature, y, outside):
    n, low, high, rng = 15, -2.5, 3.0, np.random.default_rng(15)
    release = released(statistic, schema_of(n, "-2.5", 3, outside), PureDP(4), y)
    if outside == "clamp":
        records = normal_records(rng, 20_000, n, low, high)
    else:
        ends = (low - 0.3) / 1.5, (high - 0.3) / 1.5
        records = stats.truncnorm.rvs(*ends, loc=0.3, scale=1.5, size=(20_000, n), random_state=rng)
    wanted, error, *_ = brute_force(release, feature(records))
    bank = OrderBank.of(release, POPULATION, size=LARGE)
    # Where clamped records tie, S jumps to its floor; the bank's own error is then added.
    assert abs(bank.log_likelihood(THETA)[0] - wanted) < Z * error + PERCENT + 5 * bank.error(THETA)[0]
    assert bank.error(THETA)[0] < 0.03


def test_discrete_records_are_enumerated():
    n, rng, theta = 12, np.random.default_rng(12), {"rate": np.array([3.4])}
    release = released(Median(X), schema_of(n, 0, 20), PureDP(3), 3.8)
    wanted, error, *_ = brute_force(release, rng.poisson(3.4, (20_000, n)).clip(0, 20).astype(float))
    bank = OrderBank.of(release, Poisson(rate=stats.gamma(3)), size=LARGE)
    assert abs(bank.log_likelihood(theta)[0] - wanted) < Z * error + PERCENT + 5 * bank.error(theta)[0]


@pytest.mark.parametrize("guarantee", [PureDP("0.1"), PureDP(8), ApproxDP(8, "1e-3")])
def test_one_record_is_a_one_dimensional_integral(guarantee):
    """n = 1: S(x) = max(high - x, x - low, e^(-beta) (high - low)) and p(y) = int phi(x) h(y | x, S(x)) dx."""
    release = released(Median(X), schema_of(1), guarantee, 1.1)
    law, low, high = release.law, -6.0, 8.0

    def integrand(x):
        scale = max(high - x, x - low, math.exp(-law.beta) * (high - low))
        noise = math.exp(float(law.log_pmf(release.value[0] - x / law.step, smooth_scale=scale)) - math.log(law.step))
        return stats.norm.pdf(x, 0.3, 1.5) * noise

    wanted = integrate.quad(integrand, low, high, points=[1.1, 0.0], limit=200)[0]  # the clamp is 4 sd away: 3e-5
    found = OrderBank.of(release, POPULATION).log_likelihood(THETA)[0] - math.log(law.step)
    assert abs(found - math.log(wanted)) < 5e-3


@pytest.mark.parametrize("n", [1, 4, 101, 100_000])
@pytest.mark.parametrize("kind", [Median, Maximum])
def test_without_noise_it_is_the_density_of_the_order_statistic(n, kind):
    """epsilon = 4000: log p(y) - log step is the log-density of s_(m) at y, up to the last thousandth of a gap."""
    statistic = kind(X)
    m = statistic.rank(n)
    u = stats.beta(m, n + 1 - m).ppf(0.3)
    y = stats.norm(0.3, 1.5).ppf(u)
    release = released(statistic, schema_of(n), PureDP(4000), y)
    found = OrderBank.of(release, POPULATION).log_likelihood(THETA)[0] - math.log(release.law.step)
    wanted = stats.beta(m, n + 1 - m).logpdf(u) + stats.norm(0.3, 1.5).logpdf(y)
    assert abs(found - wanted) < 0.03


@pytest.mark.parametrize("guarantee", [CAUCHY, LAPLACE, PureDP(30)])
def test_the_reported_error_is_the_spread_between_banks(guarantee):
    release = released(Median(X), schema_of(30), guarantee, 0.6)
    banks = [OrderBank.of(release, POPULATION, seed=seed, size=576) for seed in range(24)]
    spread = np.std([bank.log_likelihood(THETA)[0] for bank in banks], ddof=1)
    reported = math.sqrt(np.mean([bank.error(THETA)[0] ** 2 for bank in banks]))
    # 23 against 24 x 7 degrees of freedom: F lies outside (0.1, 4.2) with chance 1e-6.
    assert 0.1 < (spread / reported) ** 2 < 4.2


@pytest.mark.parametrize("n", [5, 100, 100_000])
@pytest.mark.parametrize("guarantee", [PureDP("0.1"), CAUCHY, PureDP(50), LAPLACE, ApproxDP(10, "1e-4")])
def test_the_error_is_about_a_percent_wherever_the_posterior_lies(n, guarantee):
    release = simulate(plan(Median(X), schema_of(n), guarantee=guarantee), POPULATION, at={"mean": 0.3}, seed=n)
    bank = OrderBank.of(release, POPULATION, size=1152)
    near = float(release.estimate[0])
    theta = {"mean": np.concatenate([np.linspace(-8, 8, 9), near + np.linspace(-4, 4, 9) / math.sqrt(n)])}
    logs = bank.log_likelihood(theta)
    assert np.max(bank.error(theta)[logs > logs.max() - 3]) < 0.03


def test_the_same_seed_gives_the_same_likelihood_and_it_is_continuous():
    release = released(Median(X), schema_of(25), LAPLACE, 0.6)
    theta = {"mean": np.array([0.3, 0.3 + 1e-7])}
    first, again = (OrderBank.of(release, POPULATION).log_likelihood(theta) for _ in range(2))
    assert first.tolist() == again.tolist()
    assert abs(first[1] - first[0]) < 1e-6


def test_the_score_is_the_slope_of_the_likelihood():
    release = released(Median(X), schema_of(30), CAUCHY, 1.0)
    population = Normal(mean=stats.norm(0, 5), sd=stats.halfnorm(scale=3))
    bank = OrderBank.of(release, population, size=LARGE)
    theta = {"mean": np.array([0.3]), "sd": np.array([1.5])}
    score = bank.score(theta)
    for name, h in (("mean", 0.05), ("sd", 0.1)):
        up, down = ({**theta, name: theta[name] + sign * h} for sign in (1, -1))
        other = OrderBank.of(release, population, size=LARGE, seed=1)
        slope = (other.log_likelihood(up) - other.log_likelihood(down)) / (2 * h)
        assert abs(score[name][0] - slope[0]) < 0.05 * abs(slope[0]) + 0.05


def test_draws_of_the_statistic_follow_its_law_given_the_release():
    n, rng = 20, np.random.default_rng(20)
    release = released(Median(X), schema_of(n), CAUCHY, 1.5)
    *_, weights, statistics = brute_force(release, normal_records(rng, 20_000, n))
    drawn = OrderBank.of(release, POPULATION, size=1152).draw_statistic(rng, {"mean": np.full(300, 0.3)})
    assert drawn.shape == (300, 1)
    share = weights / weights.sum()
    mean = share @ statistics
    sd = math.sqrt(share @ (statistics - mean) ** 2)
    assert abs(drawn.mean() - mean) < Z * sd * math.sqrt(1 / 300 + np.sum(share**2)) + 0.01 * sd
    plain = statistics.mean()
    assert abs(plain - mean) > Z * sd / math.sqrt(300)  # the release has moved it, so the test has power


def test_many_parameters_drawn_at_few_knots_give_the_law_of_each_at_its_own(monkeypatch):
    """The statistic rises with the mean, so a knot that is too high or too low on average shows in its draws."""
    release, rng = released(Median(X), schema_of(20), CAUCHY, 1.5), np.random.default_rng(21)
    bank = OrderBank.of(release, POPULATION, size=144)
    mean = rng.uniform(-2, 4, 600)
    pieces = [bank.draw_statistic(rng, {"mean": mean[k : k + 100]}) for k in range(0, 600, 100)]  # each at its own
    each = np.concatenate(pieces)[:, 0]
    monkeypatch.setattr(order_bank, "MOST_KNOTS", 8)
    few = bank.draw_statistic(rng, {"mean": mean})[:, 0]
    allowed = Z * math.sqrt((each.var() + few.var()) / 600)
    assert few.shape == (600,)
    assert abs(few.mean() - each.mean()) < allowed
    monkeypatch.setattr(order_bank, "_knots", lambda *_: ({"mean": np.array([4.0])}, np.zeros(600, int)))
    assert abs(bank.draw_statistic(rng, {"mean": mean})[:, 0].mean() - each.mean()) > allowed  # planted: one high knot


def test_a_knot_is_the_parameter_itself_on_average():
    rng = np.random.default_rng(22)
    value = rng.standard_cauchy(1000)
    knots, first = order_bank._knots(rng, {"mean": value})
    repeated = np.mean([knots["mean"][order_bank._knots(rng, {"mean": value})[1]] for _ in range(400)], axis=0)
    assert len(knots["mean"]) == order_bank.MOST_KNOTS
    assert first.shape == (1000,)
    assert knots["mean"].min() == value.min()
    assert knots["mean"].max() == value.max()
    nearby = np.diff(knots["mean"])[np.clip(np.searchsorted(knots["mean"], value) - 1, 0, len(knots["mean"]) - 2)]
    # A choice between two knots has an sd of at most half their gap; 1000 values share the false-alarm rate.
    assert np.all(np.abs(repeated - value) <= 6.0 * nearby / 2 / math.sqrt(400))


def test_base_draws_of_all_records_average_to_the_same_likelihood():
    n, rng = 8, np.random.default_rng(8)
    release = released(Median(X), schema_of(n), CAUCHY, 1.0)
    bank = OrderBank.of(release, POPULATION, size=LARGE)
    latent = bank.latent(lambda position: {"mean": position[:, 0]})
    position = np.array([[0.3], [1.0]])
    logs = latent.log_noise(latent.base(rng, (2, 20_000)), position)
    wanted = bank.log_likelihood({"mean": position[:, 0]})
    relative = np.exp(logs - wanted[:, None])
    error = relative.std(axis=1) / math.sqrt(20_000)
    assert latent.n == n
    assert np.all(np.abs(relative.mean(axis=1) - 1) < Z * error + PERCENT)


def test_columns_of_a_joint_population_and_huge_n_cost_no_more():
    schema = Schema({"x": Bounded(0, 50), "w": Bounded(0, 1)}, n=10**9, neighbours="change-one")
    release = released(Median(X), schema, LAPLACE, 7.0)
    population = Joint(x=Exponential(rate=stats.gamma(2)), w=Normal(mean=0, sd=1))
    bank = OrderBank.of(release, population, size=144)
    assert isinstance(bank, Likelihood)
    assert bank.is_exact
    assert bank.releases == (release,)
    assert bank.bank.below.shape[1] < 500
    best, other = bank.log_likelihood({"x.rate": np.array([math.log(2) / 7, math.log(2) / 7.5])})
    assert best > other + 10
    assert "Monte Carlo error" in bank.because


def test_a_parameter_that_gives_no_law_is_not_a_number():
    release = released(Median(X), schema_of(10), CAUCHY, 1.0)
    found = OrderBank.of(release, POPULATION).log_likelihood({"mean": np.array([0.0, np.nan])})
    assert np.isfinite(found[0])
    assert np.isnan(found[1])


def test_what_is_out_of_reach_is_refused_with_a_reason():
    mean = plan(Mean(X), schema_of(10), guarantee=CAUCHY)
    release = Release.of(mean, [0], dataset="d", ledger_head=None, simulated=True)
    with pytest.raises(Unsupported, match="median, maximum, minimum or quantile"):
        OrderBank.of(release, POPULATION)
    schema = Schema({"x": Bounded(0, 1), "w": Bounded(0, 1)}, n=10, neighbours="change-one")
    both = Joint(x=Normal(mean=0, sd=1), w=Normal(mean=stats.norm(), sd=1))
    with pytest.raises(Unsupported, match="one column"):
        OrderBank.of(released(Median(X + column("w")), schema, CAUCHY, 1.0), both)
    with pytest.raises(InvalidArgument, match="size"):
        OrderBank.of(released(Median(X), schema_of(10), CAUCHY, 1.0), POPULATION, size=3)


def ranks(guarantee, n, trials, *, naive=False):
    """The posterior quantile of the true mean on a grid, one a simulated release; `naive` ignores the noise."""
    population = Normal(mean=stats.norm(0, 2), sd=1.5)
    grid = np.linspace(-7, 7, 71)
    log_prior = stats.norm(0, 2).logpdf(grid)
    made, rng = plan(Median(X), schema_of(n), guarantee=guarantee), np.random.default_rng(n)
    first = simulate(made, population, seed=int(rng.integers(2**32)))
    bank = OrderBank.of(first, population, size=144)  # its base draws serve them all
    found = []
    for _ in range(trials):
        truth = rng.normal(0, 2)
        release = simulate(made, population, at={"mean": truth}, seed=int(rng.integers(2**32)))
        if naive:
            log_p = stats.norm(grid, 1.5 * math.sqrt(math.pi / 2 / n)).logpdf(release.estimate[0])
        else:
            log_p = replace(bank, release=release).log_likelihood({"mean": grid})
        log_p = log_p + log_prior
        below = np.cumsum(np.exp(log_p - logsumexp(log_p)))
        found.append(np.interp(truth, grid + 0.1, below))
    return np.clip(found, 0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 100])
@pytest.mark.parametrize("guarantee", [CAUCHY, LAPLACE])
def test_the_posterior_of_a_median_is_calibrated(guarantee, n):
    assert stats.kstest(ranks(guarantee, n, 500), "uniform").pvalue > 1e-6


@pytest.mark.slow
def test_the_calibration_test_has_power():
    assert stats.kstest(ranks(CAUCHY, 20, 500, naive=True), "uniform").pvalue < 1e-6
