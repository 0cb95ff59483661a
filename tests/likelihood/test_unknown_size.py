"""Laws summed over an unknown number of records, against plain sums over every n, term by term."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

import noisewise as nw
from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.evaluate.simulate import simulate_releases
from noisewise.likelihood.count_models import TableModel
from noisewise.likelihood.joint import joint_likelihood
from noisewise.likelihood.size_prior import SizePrior
from noisewise.likelihood.unknown_size import UnknownSize

X = nw.column("x")
SCHEMA = nw.Schema({"x": nw.Bounded(0, 100)}, n_max=200_000, neighbours="add-remove")
EVERYBODY = nw.Count(X.between(0, 100))
POPULATION = nw.Normal(mean=stats.norm(50, 20), sd=10)


def releases_of(rng, statistics, *, n, guarantee=None, population=POPULATION, theta=None):
    each = guarantee or nw.PureDP(1)
    plans = [nw.plan(statistic, SCHEMA, guarantee=each) for statistic in statistics]
    return simulate_releases(rng, plans, population, theta or {"mean": np.array([40.0])}, n=n)


def clamped_moments(mean, sd, low=0.0, high=100.0):
    """Of a normal record clamped to its bounds, by quadrature."""
    law = stats.norm(mean, sd)
    below, above = law.cdf(low), law.sf(high)
    first, second = (
        integrate.quad(lambda x, k=k: x**k * law.pdf(x), low, high, epsabs=1e-13)[0] + below * low**k + above * high**k
        for k in (1, 2)
    )
    return first, second - first**2


def log_geometric(k, scale):
    """log P of discrete Laplace noise of k, by its formula."""
    a = math.exp(-1 / scale)
    return math.log((1 - a) / (1 + a)) - np.abs(k) / scale


def log_sum_of_normals(release, mean, every):
    """log p of a sum with Gaussian noise at every number of records."""
    m, c = clamped_moments(mean, 10.0)
    step, noise = release.law.step[0], release.law.scale[0]
    sd = np.sqrt(every * c + noise**2)
    return stats.norm.logpdf(release.value[0] * step, every * m, sd) + math.log(step)


@pytest.mark.parametrize(
    ("n", "prior"),
    [(25, stats.randint(20, 400)), (1000, stats.poisson(1000)), (30_000, stats.randint(20, 100_001))],
)
@pytest.mark.parametrize("is_counted", [True, False])
def test_the_likelihood_is_the_plain_sum_over_every_number_of_records(rng, n, prior, is_counted):
    plans = [
        nw.plan(nw.Sum(X), SCHEMA, guarantee=nw.GaussianDP(1)),
        nw.plan(EVERYBODY, SCHEMA, guarantee=nw.PureDP("1/2")),
    ]
    both = simulate_releases(rng, plans, POPULATION, {"mean": np.array([40.0])}, n=n)
    released, counted = both[:1], both[1:]
    law = joint_likelihood(both if is_counted else released, POPULATION, n=prior)
    means = np.array([30.0, 39.7, 40.0, 40.3, 60.0])
    every = np.arange(1, 200_001)
    expected = []
    for mean in means:
        terms = prior.logpmf(every) + log_sum_of_normals(released[0], mean, every)
        if is_counted:
            terms = terms + log_geometric(counted[0].value[0] - every, 2.0)
        top = terms.max()
        expected.append(top + math.log(np.exp(terms - top).sum()))
    found, expected = law.log_likelihood({"mean": means}), np.array(expected)
    likely = expected > expected.max() - 60  # beyond, n would lie where the noise of a count has no room to be
    assert found[likely] == pytest.approx(expected[likely], abs=2e-3)
    assert np.all(found[~likely] < found.max() - 60)
    assert likely.sum() >= 2


def test_counts_of_a_condition_are_scored_by_their_own_law(rng):
    schema = nw.Schema({"s": nw.Bounded(0, 1)}, n_max=10_000, neighbours="add-remove")
    population = nw.Bernoulli(p=stats.uniform(0, 1))
    plans = [
        nw.plan(nw.Count(nw.column("s") > 0.5), schema, guarantee=nw.PureDP(1)),
        nw.plan(nw.Count(nw.column("s").between(0, 1)), schema, guarantee=nw.PureDP(1)),
    ]
    releases = simulate_releases(rng, plans, population, {"p": np.array([0.1])}, n=40)
    prior = stats.nbinom(2, 0.03)
    law = joint_likelihood(releases, population, n=prior)
    assert law.is_exact
    every = np.arange(1, 1500)
    expected = []
    for p in (0.02, 0.1, 0.4):
        count = np.arange(0, 1500)
        noise = log_geometric(releases[0].value[0] - count, 1.0)
        given = [np.logaddexp.reduce(stats.binom.logpmf(count[: n + 1], n, p) + noise[: n + 1]) for n in every]
        terms = prior.logpmf(every) + log_geometric(releases[1].value[0] - every, 1.0) + np.array(given)
        expected.append(np.logaddexp.reduce(terms))
    assert law.log_likelihood({"p": np.array([0.02, 0.1, 0.4])}) == pytest.approx(expected, abs=2e-3)


def test_a_prior_that_knows_n_gives_the_law_of_that_n(rng):
    plans = [nw.plan(statistic, SCHEMA, guarantee=nw.PureDP(1)) for statistic in (nw.Sum(X, X**2), EVERYBODY)]
    releases = simulate_releases(rng, plans, POPULATION, {"mean": np.array([40.0])}, n=700)
    theta = {"mean": np.linspace(38, 42, 3)}
    known = joint_likelihood(releases, POPULATION, n=700, likelihood="clt").log_likelihood(theta)
    found = joint_likelihood(releases, POPULATION, n=stats.randint(700, 701)).log_likelihood(theta)
    # The count of everybody is the same number in every row; on its lattice it has another norm than a density.
    assert np.diff(found) == pytest.approx(np.diff(known), abs=1e-6)


@pytest.mark.parametrize("n", [8, 90])
@pytest.mark.parametrize("guarantee", [nw.PureDP(1), nw.GaussianDP(1)], ids=["laplace", "gaussian"])
def test_a_table_is_the_sum_over_n_of_its_own_law(rng, n, guarantee):
    plans = [nw.plan(nw.Histogram("x", edges=[0, 30, 40, 50, 100]), SCHEMA, guarantee=guarantee)]
    releases = simulate_releases(rng, plans, POPULATION, {"mean": np.array([40.0])}, n=n)
    total, prior = max(sum(releases[0].value), 5), stats.randint(1, 2001)
    law = joint_likelihood(releases, POPULATION, n=prior)
    assert law.is_exact
    theta = {"mean": np.array([38.0, 41.0])}
    near = [k for k in range(total - 60, total + 61) if k >= 1]
    given = [TableModel.of(tuple(releases), POPULATION, n=k).log_likelihood(theta) for k in near]
    terms = np.array(given) + prior.logpmf(near)[:, None]
    # Of a convolution 1e-13 of its largest term is lost to rounding, which an improbable release feels.
    assert law.log_likelihood(theta) == pytest.approx(np.logaddexp.reduce(terms), abs=1e-3)


def test_histograms_tell_the_number_of_records(rng):
    plans = [nw.plan(nw.Histogram("x", edges=[0, 30, 40, 50, 100]), SCHEMA, guarantee=nw.PureDP(1))]
    releases = simulate_releases(rng, plans, POPULATION, {"mean": np.array([40.0])}, n=3000)
    (law,) = joint_likelihood(releases, POPULATION, n=stats.randint(1, 200_001)).groups
    assert isinstance(law, UnknownSize)
    drawn = law.draw_sizes(rng, {"mean": np.full(2000, 40.0)})
    total = sum(releases[0].value)
    noise_sd = math.sqrt(4 * 2)
    assert abs(drawn.mean() - total) < 6 * noise_sd
    assert 0.3 * noise_sd < drawn.std() < 1.5 * noise_sd


def test_numbers_of_records_are_drawn_from_their_terms(rng):
    plans = [nw.plan(nw.Sum(X), SCHEMA, guarantee=nw.GaussianDP(1)), nw.plan(EVERYBODY, SCHEMA, guarantee=nw.PureDP(1))]
    both = simulate_releases(rng, plans, POPULATION, {"mean": np.array([40.0])}, n=300)
    prior = stats.poisson(310)
    (law,) = joint_likelihood(both, POPULATION, n=prior).groups
    drawn = law.draw_sizes(rng, {"mean": np.full(20_000, 41.0)})
    every = np.arange(1, 2000)
    terms = prior.logpmf(every) + log_sum_of_normals(both[0], 41.0, every)
    terms += log_geometric(both[1].value[0] - every, 1.0)
    chance = np.exp(terms - terms.max())
    chance /= chance.sum()
    # Kolmogorov's distance of 20 000 draws exceeds .02 with probability below 1e-6.
    upto = np.searchsorted(np.sort(drawn), every, side="right") / drawn.size
    assert np.max(np.abs(upto - np.cumsum(chance))) < 0.02


@pytest.mark.parametrize("law", [stats.randint(200, 801), stats.poisson(500), stats.nbinom(3, 0.01)])
def test_a_part_by_key_is_a_binomial_share(law):
    width = 0.3
    part = SizePrior.of(law, 10_000).of_part(width)
    m = np.array([1, 30, 90, 150, 200])
    every = np.arange(0, 5000)
    expected = [np.log(np.sum(law.pmf(every) * stats.binom.pmf(one, every, width))) for one in m]
    assert part.log_pmf(m) == pytest.approx(expected, abs=5e-4)


def test_the_statistic_of_everybody_is_the_number_of_records(rng):
    plans = [nw.plan(EVERYBODY, SCHEMA, guarantee=nw.PureDP(1)), nw.plan(nw.Sum(X), SCHEMA, guarantee=nw.PureDP(1))]
    releases = simulate_releases(rng, plans, POPULATION, {"mean": np.array([40.0])}, n=1000)
    (law,) = joint_likelihood(releases, POPULATION, n=stats.poisson(1000)).groups
    drawn = law.draw_statistic(rng, {"mean": np.full(300, 40.0)})
    assert drawn.shape == (300, 2)
    assert np.all(drawn[:, 0] == np.rint(drawn[:, 0]))
    assert np.all(np.abs(drawn[:, 0] - 1000) < 60)
    assert np.all(np.abs(drawn[:, 1] / drawn[:, 0] - 40) < 10)


def test_a_prior_that_a_total_contradicts_is_refused(rng):
    releases = releases_of(rng, [nw.Sum(X), EVERYBODY], n=1000)
    with pytest.raises(InvalidArgument, match="contradict each other"):
        joint_likelihood(releases, POPULATION, n=stats.poisson(100))


def test_a_prior_that_a_total_makes_improbable_is_named(rng):
    releases = releases_of(rng, [nw.Sum(X), EVERYBODY], n=1000)
    (law,) = joint_likelihood(releases, POPULATION, n=stats.poisson(1200)).groups
    assert "hardly agrees" in law.contradictions()[0]
    (right,) = joint_likelihood(releases, POPULATION, n=stats.nbinom(2, 0.002)).groups
    assert right.contradictions() == ()


def test_parts_of_one_data_set_need_a_poisson_prior(rng):
    from fractions import Fraction

    halves = [(Fraction(0), Fraction(1, 2)), (Fraction(1, 2), Fraction(1))]
    plans = [nw.plan(nw.Sum(X), SCHEMA, guarantee=nw.PureDP(1), part=part) for part in halves]
    releases = simulate_releases(rng, plans, POPULATION, {"mean": np.array([40.0])}, n=500)
    with pytest.raises(Unsupported, match="depend on each other"):
        joint_likelihood(releases, POPULATION, n=stats.randint(800, 1201))
    law = joint_likelihood(releases, POPULATION, n=stats.poisson(1000))
    assert np.all(np.isfinite(law.log_likelihood({"mean": np.array([39.0, 41.0])})))


HOSTILE = [
    math.nan, math.inf, -math.inf, -1, 0, "", "poisson(1000)", True, 1e308, 10**40, object(), [], {},
    stats.norm(1000, 3), stats.poisson(-1), stats.poisson(math.nan), stats.poisson(math.inf), stats.poisson([3, 4]),
    stats.poisson(1e12), stats.randint(-5, 0), stats.dirichlet([1, 1]), stats.poisson,
]  # fmt: skip


@pytest.mark.parametrize("n", HOSTILE, ids=lambda value: str(value)[:20])
def test_what_is_no_number_and_no_prior_is_refused_by_name(rng, n):
    releases = releases_of(rng, [nw.Sum(X)], n=50)
    with pytest.raises(NoisewiseError) as refusal:
        nw.infer(releases, POPULATION, n=n, progress=False)
    assert "n" in str(refusal.value)
    if isinstance(refusal.value, InvalidArgument):
        assert refusal.value.argument == "n"
