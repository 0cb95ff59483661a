"""Sums of waiting times and of whole numbers: gamma and Poisson laws, the general inversion, simulation."""

from __future__ import annotations

import numpy as np
import pytest
from made_releases import release_of
from scipy import integrate, stats
from scipy.special import logsumexp

import noisewise as nw
from noisewise.likelihood.closed_sum import ClosedSum
from noisewise.likelihood.exact_sum import ExactSum
from noisewise.likelihood.joint import joint_likelihood
from noisewise.likelihood.normal_rows import NormalRows
from noisewise.likelihood.sum_features import common_steps
from noisewise.likelihood.sum_noise import SumNoise

X = nw.column("x")
WAITING = nw.Exponential(rate=stats.gamma(2))
COUNTING = nw.Poisson(rate=stats.gamma(2))
GUARANTEES = {
    "0.01": nw.PureDP("0.01"),
    "1": nw.PureDP(1),
    "10": nw.PureDP(10),
    "gaussian-1": nw.GaussianDP(1),
    "gaussian-20": nw.GaussianDP(20),
}
POWER = 5.5  # standard errors, estimated from 64 batches: a false alarm in 1e-6


def schema_of(low: float, high: float, n: int, outside: str = "clamp") -> nw.Schema:
    return nw.Schema({"x": nw.Bounded(low, high)}, n=n, neighbours="change-one", outside=outside)


def closed(statistic, schema, guarantee, y, population=WAITING) -> ClosedSum:
    release = release_of(statistic, schema, guarantee, [y])
    model = joint_likelihood([release], population).groups[0]
    assert isinstance(model, ClosedSum)
    return model


def over_gamma(model: ClosedSum, rate: float) -> float:
    """log p by quadrature over the sum of n waiting times that no bound touches, around the peak of the integrand."""
    law = stats.gamma(model.n, scale=1 / rate)

    def log_integrand(s: np.ndarray) -> np.ndarray:
        return np.where(s > 0, law.logpdf(np.maximum(s, 1e-300)) + model.noise.log_density(s), -np.inf)

    centre = model.noise.centre if model.noise.is_gaussian else float(model.noise.knots[0])
    ends = np.array([law.ppf(1e-300), law.isf(1e-300), centre])
    low, high = max(ends.min(), 0.0), ends.max()
    for _ in range(80):  # log-concave but for n = 1, where it is highest at the lowest end or at the kink
        grid = np.linspace(low, high, 400)
        heights = log_integrand(grid)
        top = int(np.argmax(heights))
        seen = np.flatnonzero(heights > heights[top] - 60)
        a, b = grid[max(seen[0] - 1, 0)], grid[min(seen[-1] + 1, 399)]
        if b - a > 0.5 * (high - low):
            break
        low, high = a, b
    cuts = np.unique(np.append(np.linspace(low, high, 400), np.clip(centre, low, high)))
    x, w = np.polynomial.legendre.leggauss(20)
    a, b = cuts[:-1, None], cuts[1:, None]
    s = 0.5 * (a + b) + 0.5 * (b - a) * x
    return float(logsumexp(log_integrand(s), b=0.5 * (b - a) * w))


@pytest.mark.parametrize("n", [1, 2, 7, 8, 30, 1000, 100_000])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_waiting_times_that_no_bound_touches_sum_to_a_gamma_law(n: int, guarantee: str) -> None:
    """Also far in the tails: the release says 0.4 or 2 where the mean is between 0.25 and 4."""
    for share in (0.4, 2.0):
        model = closed(nw.Sum(X), schema_of(0, 400, n), GUARANTEES[guarantee], share * n)
        rates = np.array([0.25, 0.5, 1.0, 4.0])
        expected = [over_gamma(model, rate) for rate in rates]
        assert model.log_likelihood({"rate": rates}) == pytest.approx(expected, abs=1e-8, rel=1e-10)


@pytest.mark.parametrize("n", [1, 2, 10, 300, 100_000])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_counts_that_no_bound_touches_sum_to_a_poisson_law(n: int, guarantee: str) -> None:
    """From rates at which all n counts are 0 nine times in ten."""
    rates = np.array([0.1 / n, 0.5, 4.0, 6.0])
    for share in (-0.3, 0.1, 4.2):
        model = closed(nw.Sum(X), schema_of(0, 90, n), GUARANTEES[guarantee], share * n, COUNTING)
        expected = []
        for rate in rates:
            s = np.arange(8.0 * n + 400)
            expected.append(logsumexp(stats.poisson.logpmf(s, n * rate) + model.noise.log_density(s)))
        found = model._on_lattice({"rate": rates})
        assert np.isnan(found).sum() <= 1  # a release in a gap of the law keeps the fallback's value
        assert model.log_likelihood({"rate": rates}) == pytest.approx(expected, abs=1e-8, rel=1e-9)


CASES = {
    "clamped": (nw.Sum(X), 0, 5, "clamp"),
    "above-zero": (nw.Sum(X), 1, 5, "clamp"),
    "below-zero": (nw.Mean(X), -1, 4, "clamp"),
    "truncated": (nw.Sum(X), 0.5, 2, "refuse"),
    "redacted": (nw.TruncatedSum([X], "x", 0.5, 3.0), 0, 10, "clamp"),
    "falling": (nw.Sum(1 - 2 * X), 0, 5, "clamp"),
    "clipped": (nw.Sum(X.clip(0.5, 3)), 0, 5, "clamp"),
    "nearly-all-at-the-bound": (nw.Sum(X), 0, 0.05, "clamp"),
    "nearly-all-redacted": (nw.TruncatedSum([X], "x", 0.0, 0.02), 0, 10, "clamp"),
}


@pytest.mark.parametrize("name", CASES)
def test_bounds_truncation_and_redaction_agree_with_the_general_inversion(name: str) -> None:
    """Where that is resolved: 12 and 60 records, noise not far wider than the sum."""
    statistic, low, high, outside = CASES[name]
    theta = {"rate": np.exp(np.linspace(-1, 1, 4))}
    for n, guarantee in ((12, nw.PureDP(12)), (12, nw.GaussianDP(3)), (60, nw.PureDP(2))):
        plan = nw.plan(statistic, schema_of(low, high, n, outside), guarantee=nw.PureDP(10**6))
        typical = float(nw.simulate(plan, WAITING, at={"rate": 0.9}, seed=1).estimate[0])
        model = closed(statistic, plan.schema, guarantee, typical)
        found = model.log_likelihood(theta)
        expected = ExactSum(model.releases[0], WAITING, n=n).log_likelihood(theta)
        is_near = expected > expected.max() - 60  # far below, the general law keeps its fallback
        assert is_near.sum() >= 3
        assert found[is_near] == pytest.approx(expected[is_near], abs=3e-6)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_the_density_is_the_average_noise_density_over_simulated_records(name: str, n: int) -> None:
    statistic, low, high, outside = CASES[name]
    schema, rate = schema_of(low, high, n, outside), 0.8
    rng = np.random.default_rng(n)
    x = rng.exponential(1 / rate, 60_000 * n * (4 if outside == "refuse" else 1))
    x = x[(x >= low) & (x <= high)] if outside == "refuse" else np.clip(x, low, high)
    x = x[: x.size // n * n].reshape(-1, n)
    sums = np.asarray(statistic.value({"x": x}, schema))[:, 0] * (n if isinstance(statistic, nw.Mean) else 1)
    divisor = n if isinstance(statistic, nw.Mean) else 1
    for guarantee in (nw.PureDP(3), nw.GaussianDP(3)):
        model = closed(statistic, schema, guarantee, float(np.quantile(sums, 0.7)) / divisor)
        each = np.exp(model.noise.log_density(sums))
        each = each[: each.size // 64 * 64].reshape(64, -1).mean(axis=1)
        error = each.std(ddof=1) / 8
        assert error < 0.02 * each.mean()
        assert np.exp(model.log_likelihood({"rate": np.array([rate])})[0]) == pytest.approx(
            each.mean(), abs=POWER * error + 1e-12 * each.mean()
        )


def test_clamped_and_truncated_counts_agree_with_their_convolution() -> None:
    theta = {"rate": np.exp(np.linspace(-6, 2.5, 8))}
    for statistic, low, high, outside in [
        (nw.Sum(X), 0, 6, "clamp"),
        (nw.Sum(X), 2, 6, "clamp"),
        (nw.Mean(X), 1, 5, "refuse"),
        (nw.TruncatedSum([X], "x", 1.0, 3.0), 0, 10, "clamp"),
        (nw.Sum(X.between(1, 2) * 2 + 1), 0, 4, "clamp"),
    ]:
        for n in (1, 25):
            for guarantee in (nw.PureDP("0.05"), nw.PureDP(1), nw.PureDP(15), nw.GaussianDP(1)):
                for share in (-0.2, 0.45):
                    place = low + share * (high - low)
                    y = place if isinstance(statistic, nw.Mean) else place * n
                    model = closed(statistic, schema_of(low, high, n, outside), guarantee, y, COUNTING)
                    convolved = ExactSum(model.releases[0], COUNTING, n=n).log_likelihood(theta)
                    is_near = convolved > convolved.max() - 200
                    found = model.log_likelihood(theta)
                    assert found[is_near] == pytest.approx(convolved[is_near], abs=2e-8)


def test_beyond_every_possible_sum_laplace_noise_adds_the_distance_alone() -> None:
    theta = {"rate": np.array([0.2, 1.0, 3.0])}
    for population, top in ((WAITING, 5.0), (COUNTING, 5.0)):
        for n in (1, 12, 5000):
            found = [
                closed(nw.Sum(X), schema_of(0, 5, n), nw.PureDP(2), y, population).log_likelihood(theta)
                for y in (top * n, top * n + 30, -10, 0)
            ]
            b = 1 / closed(nw.Sum(X), schema_of(0, 5, n), nw.PureDP(2), 0, population).noise.slopes[0]
            assert found[0] - found[1] == pytest.approx(np.full(3, 30 / b), rel=1e-6)
            assert found[3] - found[2] == pytest.approx(np.full(3, 10 / b), rel=1e-6)


def test_two_releases_of_one_sum_multiply_their_noise_given_the_sum() -> None:
    """Waiting times over the gamma law and counts over the Poisson law of their sum, Laplace or Gaussian noise."""
    n, rate = 30, 0.9
    for first, second in ((nw.PureDP(20), nw.PureDP(50)), (nw.GaussianDP(20), nw.GaussianDP(50))):
        for population, high in ((WAITING, 60), (COUNTING, 60)):
            releases = [
                release_of(nw.Sum(X), schema_of(0, high, n), guarantee, [y])
                for guarantee, y in ((first, 36.0), (second, 30.0))
            ]
            likelihood = joint_likelihood(releases, population)
            assert likelihood.is_exact
            assert "2 releases" in likelihood.because
            noises = [SumNoise.of(one.normal.noise, one.normal.observed) for one in
                      (ClosedSum((release,), population, n=n) for release in releases)]  # fmt: skip
            joined = likelihood.groups[0].noise
            s = np.linspace(-10, 100, 23)
            assert joined.log_density(s) == pytest.approx(sum(one.log_density(s) for one in noises), rel=1e-12)
            if population is COUNTING:
                s = np.arange(400.0)
                expected = logsumexp(stats.poisson.logpmf(s, n * rate) + sum(one.log_density(s) for one in noises))
            else:
                expected = np.log(integrate.quad(
                    lambda s: stats.gamma.pdf(s, n, scale=1 / rate) * np.exp(joined.log_density(np.array(s))),  # noqa: B023
                    0, 200, points=[30.0, 36.0], limit=500, epsabs=0, epsrel=1e-11,
                )[0])  # fmt: skip
            found = likelihood.log_likelihood({"rate": np.array([rate])})[0]
            assert found == pytest.approx(expected, abs=1e-8)
            product = sum(joint_likelihood([release], population).log_likelihood({"rate": np.array([rate])})[0]
                          for release in releases)  # fmt: skip
            assert abs(product - found) > 0.02


def brute_force(model: ClosedSum, rng: np.random.Generator, rates: np.ndarray, draw) -> np.ndarray:
    """64 independent estimates of p(y | rate) on a grid, each the average noise density over simulated data sets."""
    found = np.empty((64, rates.size))
    for batch in range(64):
        for j, rate in enumerate(rates):
            found[batch, j] = np.exp(model.noise.log_density(draw(rng, rate, (400, model.n)))).mean()
    return found


@pytest.mark.parametrize("kind", ["truncated", "redacted"])
def test_the_posterior_of_a_truncated_waiting_time_matches_brute_force_simulation(kind: str) -> None:
    n, high = 12, 2.0
    rates = np.linspace(0.02, 8, 60)
    weights = np.full(rates.size, rates[1] - rates[0]) * stats.gamma(2).pdf(rates)

    def redacted(rng: np.random.Generator, rate: float, shape: tuple[int, int]) -> np.ndarray:
        x = rng.exponential(1 / rate, shape)
        return np.where(x <= high, x, 0.0).sum(axis=1)

    def truncated(rng: np.random.Generator, rate: float, shape: tuple[int, int]) -> np.ndarray:
        return (-np.log1p(rng.random(shape) * np.expm1(-rate * high)) / rate).sum(axis=1)

    if kind == "truncated":
        model, draw, other = closed(nw.Sum(X), schema_of(0, high, n, "refuse"), nw.PureDP(4), 6.0), truncated, redacted
    else:
        statistic = nw.TruncatedSum([X], "x", 0.0, high)
        model, draw, other = closed(statistic, schema_of(0, 9, n), nw.PureDP(4), 6.0), redacted, truncated
    posterior = nw.infer(model.releases[0], WAITING, draws=4, seed=1, progress=False)
    assert posterior.mean["rate"] == pytest.approx(
        _moments(np.exp(model.log_likelihood({"rate": rates})) * weights, rates)[0], abs=1e-3
    )

    def summaries(p: np.ndarray) -> np.ndarray:
        return _moments(p * weights, rates)

    exact = summaries(np.exp(model.log_likelihood({"rate": rates})))
    rng = np.random.default_rng(5)
    simulated = brute_force(model, rng, rates, draw)
    # A mean of ratios is biased; leaving one batch out each time gives the ratio of means and its error.
    total = simulated.sum(axis=0)
    jackknife = np.array([summaries(total - one) for one in simulated])
    centre, error = summaries(total), np.sqrt(63 / 64 * np.sum(np.square(jackknife - jackknife.mean(axis=0)), axis=0))
    assert np.all(np.abs(exact - centre) < POWER * error)
    planted = summaries(brute_force(model, rng, rates, other).sum(axis=0))
    assert np.any(np.abs(exact - planted) > 2 * POWER * error)


def _moments(density: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Mean, sd and three values of the distribution function on a grid."""
    p = density / density.sum()
    mean = p @ rates
    return np.array([mean, np.sqrt(p @ np.square(rates - mean)), *np.cumsum(p)[[8, 14, 24]]])


def test_what_is_not_closed_is_left_to_others() -> None:
    kinds = [
        (nw.Sum(X**2), WAITING, 10),
        (nw.Sum(X), nw.Gamma(shape=2, rate=stats.gamma(2)), 10),
        (nw.Sum(X.clip(1, 2) + X.clip(3, 4)), WAITING, 10),
        (nw.Sum(X, X**2), WAITING, 10),
        (nw.Sum(X), WAITING, 10**7),
        (nw.Sum(abs(X) ** 0.5), COUNTING, 10),
    ]
    for statistic, population, n in kinds:
        release = release_of(statistic, schema_of(0, 5, n), nw.PureDP(1), [1.0] * len(statistic.features))
        assert ClosedSum.of((release,), population, n=n) is None
    mixed = [release_of(nw.Sum(X), schema_of(0, 5, 9), g, [4.0]) for g in (nw.PureDP(1), nw.GaussianDP(1))]
    assert ClosedSum.of(tuple(mixed), WAITING, n=9) is None


def summed_outcomes(model: ClosedSum, rates: np.ndarray, low: float, high: float, outside: str) -> np.ndarray:
    """log p by convolving one record at a time the outcomes of clamped or truncated Poisson records, as floats."""
    inner = np.arange(np.ceil(low), np.floor(high) + 1)
    found = []
    for rate in rates:
        p = stats.poisson(rate).pmf(inner)
        if outside == "clamp":
            values = np.array([low, *inner, high])
            p = np.array([stats.poisson.cdf(np.nextafter(low, -np.inf), rate), *p, stats.poisson.sf(high, rate)])
        else:
            values, p = inner, p / p.sum()
        sums = {0.0: 1.0}
        for _ in range(model.n):
            grown: dict[float, float] = {}
            for total, weight in sums.items():
                for value, chance in zip(values, p, strict=True):
                    key = round(total + value, 9)
                    grown[key] = grown.get(key, 0.0) + weight * chance
            sums = grown
        s, weight = np.array([*sums]), np.array([*sums.values()])
        found.append(logsumexp(model.noise.log_density(s), b=weight))
    return np.array(found)


@pytest.mark.parametrize("outside", ["clamp", "refuse"])
@pytest.mark.parametrize("bounds", [(0.0, 5.5), (-2.5, 6.0), (0.0, 3.37), (0.2, 4.7)], ids=str)
def test_counts_between_bounds_that_are_not_whole_are_convolved_too(bounds: tuple, outside: str) -> None:
    """A clamp at 5.5 makes a lattice of halves; where outside records are refused whole numbers are left."""
    rates = np.exp(np.linspace(-3, 2.5, 6))
    for n in (1, 4, 7):
        for guarantee in (nw.PureDP(1), nw.PureDP(30), nw.GaussianDP(2)):
            model = closed(nw.Sum(X), schema_of(*bounds, n, outside), guarantee, 2.1 * n, COUNTING)
            expected = summed_outcomes(model, rates, *bounds, outside)
            assert model.log_likelihood({"rate": rates}) == pytest.approx(expected, abs=1e-8)
            assert model.is_exact


def test_bounds_without_a_whole_number_between_them_are_refused_at_once() -> None:
    for n in (4, 40):
        release = release_of(nw.Sum(X), schema_of(0.2, 0.8, n, "refuse"), nw.PureDP(1), [0.5 * n])
        with pytest.raises(nw.InvalidArgument, match="no mass inside the declared bounds"):
            joint_likelihood([release], COUNTING)


@pytest.mark.parametrize(
    ("values", "steps"),
    [
        ([0, 1, 2, 3], 3),
        ([0, 1, 2, 2.5], 5),
        ([0.2, 1, 2, 2.7], 25),
        ([0, 0.1, 0.2, 0.30000000000000004], 3),
        ([0, 1, 2**0.5], None),
        ([1.0], None),
    ],
    ids=str,
)
def test_values_on_a_lattice_are_recognised(values: list, steps: int | None) -> None:
    assert common_steps(np.array(values, dtype=float)) == steps


def test_rows_by_the_central_limit_theorem_are_told() -> None:
    """Nearly all of 1000 waiting times at one of two clipped ends: the normal law stands in, and says so."""
    narrow = closed(nw.Sum(X.clip(3, 3.1)), schema_of(0, 1000, 1000), nw.ZeroConcentratedDP(1), 3040)
    assert narrow.is_exact
    likely = {"rate": np.linspace(0.27, 0.33, 9)}
    assert narrow.log_likelihood(likely) == pytest.approx(narrow.normal.log_likelihood(likely), rel=1e-12)
    assert not narrow.is_exact
    assert "at the most likely parameters the central limit theorem" in narrow.because
    posterior = nw.infer(narrow.releases[0], WAITING, draws=4, seed=1, progress=False)
    assert "the central limit theorem" in posterior.because
    assert "Computed by quadrature under the central limit law" in str(posterior.verdict)
    usual = closed(nw.Sum(X), schema_of(0, 5, 1000), nw.ZeroConcentratedDP(1), 950)
    usual.log_likelihood({"rate": np.geomspace(0.1, 10, 40)})
    assert usual.is_exact
    assert "central limit" not in usual.because


def test_normal_rows_are_told_only_where_they_could_be_seen() -> None:
    rows = NormalRows()
    rows.add(np.array([-3.0, -40.0]), np.array([False, True]))
    assert not rows.matter
    assert rows.words() == ""
    rows.add(np.array([-12.0, np.nan]), np.array([True, True]))
    assert rows.matter
    assert "some likely" in rows.words()
    rows.add(np.array([5.0, 0.0]), np.array([False, False]))
    assert not rows.matter
    rows.add(np.array([6.0]), np.array([True]))
    assert "the most likely" in rows.words()


@pytest.mark.parametrize(("normal", "is_warned"), [(1, False), (2, True), (100, True)])
def test_normal_rows_are_warned_of_where_the_posterior_has_two_percent_of_its_mass(normal, is_warned) -> None:
    rows = NormalRows()

    def log_likelihood(theta):
        found = np.zeros(100)
        rows.add(found, np.arange(100) < normal)
        return found

    theta = {"mean": np.zeros(100)}
    log_likelihood(theta)
    assert rows.matter
    assert bool(rows.cautions_at(log_likelihood, theta, 20)) == is_warned


# ---- features of several discrete columns ----

VISITS = nw.Joint(x=nw.Poisson(rate=stats.gamma(2)), s=nw.Categorical(p=stats.dirichlet([1, 1, 1])))
VISITS_AT = {"x.rate": np.array([0.6, 2.5]), "s.p": np.array([[0.2, 0.3, 0.5], [0.7, 0.2, 0.1]])}


def every_sum(values: np.ndarray, chances: np.ndarray, n: int) -> dict[float, float]:
    """The law of a sum of n records, record by record, as a dictionary."""
    law = {0.0: 1.0}
    for _ in range(n):
        grown: dict[float, float] = {}
        for total, p in law.items():
            for value, q in zip(values.tolist(), chances.tolist(), strict=True):
                grown[total + value] = grown.get(total + value, 0.0) + p * q
        law = grown
    return law


@pytest.mark.parametrize("outside", ["clamp", "refuse"])
@pytest.mark.parametrize(
    "guarantee", [nw.PureDP(4), nw.GaussianDP(3), nw.GaussianDP("0.3"), nw.ZeroConcentratedDP(2)], ids=str
)
@pytest.mark.parametrize(
    ("feature", "plain"),
    [
        (X * nw.column("s").equals("b"), lambda x, s: x * (s == 1)),
        (X + 2 * nw.column("s").equals("c"), lambda x, s: x + 2 * (s == 2)),
    ],
    ids=["product", "sum"],
)
def test_a_feature_of_several_discrete_columns_is_summed_over_all_records(feature, plain, guarantee, outside) -> None:
    n, columns = 7, {"x": nw.Bounded(0, 4), "s": nw.Levels(["a", "b", "c"])}
    schema = nw.Schema(columns, n=n, neighbours="change-one", outside=outside)
    release = release_of(nw.Mean(feature), schema, guarantee, [1.1])
    model = joint_likelihood([release], VISITS).groups[0]
    assert type(model) is ClosedSum
    assert model.is_exact
    found = model.log_likelihood(VISITS_AT)
    x, s = (part.ravel() for part in np.meshgrid(np.arange(5.0), np.arange(3), indexing="ij"))
    for k, (rate, p) in enumerate(zip(VISITS_AT["x.rate"], VISITS_AT["s.p"], strict=True)):
        visits = stats.poisson.pmf(np.arange(5), rate)
        visits[4] += stats.poisson.sf(4, rate) if outside == "clamp" else 0.0
        law = every_sum(plain(x, s), np.outer(visits / visits.sum(), p).ravel(), n)
        sums = np.array([*law])
        logs = release.law.log_pmf(release.value[0] - sums / release.law.step[0])
        assert found[k] == pytest.approx(logsumexp(logs, b=np.array([*law.values()])), abs=1e-6)


def test_sums_of_several_discrete_columns_are_drawn_from_their_own_law(rng: np.random.Generator) -> None:
    """With two unknowns the confidential mean given the release follows the enumeration, within chance of 1e-6."""
    n, columns = 6, {"x": nw.Bounded(0, 3), "s": nw.Levels(["no", "yes"])}
    schema = nw.Schema(columns, n=n, neighbours="change-one", outside="clamp")
    release = release_of(nw.Mean(X * nw.column("s").equals("yes")), schema, nw.PureDP(3), [0.8])
    population = nw.Joint(x=nw.Poisson(rate=stats.gamma(2)), s=nw.Bernoulli(p=stats.beta(1, 1)))
    count, rate, p = 4000, 1.4, 0.6
    model = joint_likelihood([release], population).groups[0]
    drawn = model.draw_statistic(rng, {"x.rate": np.full(count, rate), "s.p": np.full(count, p)})[:, 0]
    visits = np.array([*stats.poisson.pmf([0, 1, 2], rate), stats.poisson.sf(2, rate)])
    law = every_sum(np.array([0.0, 0.0, 1.0, 2.0, 3.0]), np.array([1 - p, *(p * visits)]), n)
    sums = np.array([*law])
    weight = np.array([*law.values()]) * np.exp(release.law.log_pmf(release.value[0] - sums / release.law.step[0]))
    mean = np.average(sums, weights=weight) / n
    sd = np.sqrt(np.average((sums / n - mean) ** 2, weights=weight))
    assert np.all(np.isin(np.rint(drawn * n), sums))
    assert abs(drawn.mean() - mean) < stats.norm.isf(2.5e-7) * sd / np.sqrt(count)
