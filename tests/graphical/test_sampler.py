import numpy as np
import pytest
from graph_problems import holder, problem, published
from graphs import cells_of, chain, every_record
from scipy import stats

from noisewise.graphical import empirical_bayes
from noisewise.graphical.cell_laws import IndependentCells, MixedTables, NormalTables
from noisewise.graphical.problem import GAUSSIAN, LAPLACE
from noisewise.graphical.sampler import COUNTED, FULL, INDEPENDENT, laws_of, sample

FALSE_ALARM = 1e-6
TABLES = chain(2, 2)
MANY = 400_000


def prior(rng, count, size):
    tau = np.sqrt(0.5 / rng.gamma(2.0, size=count))
    return tau, tau[:, None] * rng.standard_t(4, size=(count, size))


def probabilities(theta):
    """Of the four records, which are the four cells."""
    weight = np.exp(theta - theta.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def laplace(residual, scale):
    return -np.sum(np.abs(residual), axis=1) / scale


def expected(log_weights, *columns):
    """Means under the weights, and the standard error of the first columns' mean."""
    weight = np.exp(log_weights - log_weights.max())
    weight /= weight.sum()
    return [(mean := weight @ column, np.sqrt(np.square(weight) @ np.square(column - mean))) for column in columns]


def compared(draws, wanted):
    """Two-sided p-values of each column's mean over independent chains against a weighted mean with its error."""
    (mean, error), chains = wanted, draws.mean(axis=1)
    spread = np.sqrt(chains.var(axis=0, ddof=1) / len(chains) + np.square(error))
    return 2 * stats.t.sf(np.abs(chains.mean(axis=0) - mean) / spread, len(chains) - 1)


def run(rng, asked, *, fit=None):
    found = sample(asked, rng, chains=60, draws=100, warmup=250, fit=fit)
    shape = found.theta.shape
    return found, probabilities(found.theta.reshape(-1, 4)).reshape(shape)


@pytest.mark.parametrize(
    ("family", "variance", "law"),
    [(LAPLACE, 800.0, IndependentCells), (LAPLACE, 60.0, MixedTables), (GAUSSIAN, 60.0, NormalTables)],
    ids=["independent", "mixed", "normal"],
)
def test_draws_have_the_means_of_the_posterior_by_importance_sampling(rng, family, variance, law):
    entries = np.array([70.0, -5.0, 30.0, 10.0])
    asked = problem(TABLES, holder(entries, n=100.0, variance=variance, family=family))
    fit = empirical_bayes.fit(asked)
    found, shares = run(rng, asked, fit=fit)
    (used,) = laws_of(asked, fit, 1)
    assert isinstance(used, law)
    assert found.likelihood == (INDEPENDENT if law is IndependentCells else FULL)

    tau, theta = prior(rng, MANY, 4)
    p = probabilities(theta)
    observed, means = asked.holders[0].observed, 100 * p
    if law is MixedTables:
        sampled = rng.multivariate_normal(np.zeros(4), used.sampling, size=MANY, method="eigh")
        log_weights = laplace(observed - means - sampled, np.sqrt(variance / 2))
    else:
        log_weights = used.score(means)[0]
    wanted_p, wanted_tau = expected(log_weights, p, np.log(tau))
    assert compared(shares, wanted_p).min() > FALSE_ALARM / 5
    assert compared(np.log(found.tau), wanted_tau) > FALSE_ALARM / 5
    wrong_p, _ = expected(2 * log_weights, p, np.log(tau))
    assert compared(shares, wrong_p).min() < FALSE_ALARM  # the likelihood squared


def test_held_covariances_change_little_against_the_multinomial_law_of_the_counts(rng):
    n, variance = 100, 60.0
    asked = problem(TABLES, holder(np.array([55.0, 12.0, 30.0, 8.0]), n=float(n), variance=variance))
    _, shares = run(rng, asked)
    _, theta = prior(rng, MANY, 4)
    p = probabilities(theta)
    counts = rng.multinomial(n, p)
    log_weights = laplace(asked.holders[0].observed - counts, np.sqrt(variance / 2))
    ((mean, _), (square, _)) = expected(log_weights, p, np.square(p))
    away = (shares.mean(axis=(0, 1)) - mean) / np.sqrt(square - np.square(mean))
    assert np.abs(away).max() < 0.2
    assert shares.std(axis=(0, 1)) == pytest.approx(np.sqrt(square - np.square(mean)), rel=0.2)


@pytest.mark.parametrize("family", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize("unit", [1.0, 0.25], ids=["records", "quarters"])
def test_an_empty_cell_is_no_stronger_evidence_than_a_count_of_zero(family, unit):
    """log p(0 | m) of a Poisson count falls by m; the variance of a fit that is empty there would let it crash."""
    n, sums = 1e6, unit * np.eye(4)
    counts = np.array([0.0, n / 2, n / 2, 0.0])
    held = holder(unit * counts, n=n, variance=1e-4, family=family, sums=sums)
    (law,) = laws_of(problem(TABLES, held), fit_at(np.array([-40.0, 0.0, 0.0, -40.0])), 1)
    for m in (0.5, 1.0, 2.0):
        moved = np.array([[0, 0, 0, 0], [m, -m / 2, -m / 2, 0]])
        means = unit * (counts + moved)
        first, second = (law.score(row[None])[0][0] for row in means)
        assert 0 < first - second < m


def least_coverage(added):
    """Of y +- 1.645 sqrt(y + added) over Poisson means from 0.05 to 30: on a grid, and beside every end within it."""
    y = np.arange(150)  # a mean of 30 has more with probability 1e-50
    low, high = y - 1.645 * np.sqrt(y + added), y + 1.645 * np.sqrt(y + added)
    ends = np.concatenate([low, high])
    means = np.concatenate([np.linspace(0.05, 30, 2000), ends - 1e-9, ends + 1e-9])
    means = means[(means >= 0.05) & (means <= 30), None]
    return np.min(np.sum(stats.poisson.pmf(y, means) * ((low <= means) & (means <= high)), axis=1))


def test_the_records_added_to_a_cells_variance_let_an_interval_cover_any_poisson_mean():
    assert least_coverage(COUNTED) == pytest.approx(0.884, abs=0.001)
    assert least_coverage(COUNTED / 2) < 0.81
    assert least_coverage(0.0) < 0.05


def fit_at(theta):
    """A fit that was found there."""
    size = len(theta)
    return empirical_bayes.MapFit(theta, 1, (), 1.0, np.zeros((size, size)), 0.0, 0.0)


def test_without_information_the_draws_are_the_priors(rng):
    made = published(rng, TABLES, np.zeros(4), n=100, variance=1e10)
    found = sample(problem(TABLES, made), rng, chains=1000, draws=1, warmup=100)
    tau, theta = found.tau[:, 0], found.theta[:, 0]
    assert stats.kstest(np.square(tau), stats.invgamma(2, scale=0.5).cdf).pvalue > FALSE_ALARM / 2
    assert stats.kstest(theta[:, 0] / tau, stats.t(4).cdf).pvalue > FALSE_ALARM / 2
    assert stats.kstest(np.square(tau), stats.invgamma(2, scale=1.0).cdf).pvalue < FALSE_ALARM
    assert stats.kstest(theta[:, 0] / tau, stats.norm(0, 2).cdf).pvalue < FALSE_ALARM


def test_the_same_seed_gives_the_same_draws_and_progress_is_told(rng):
    tables = chain(3, 2)
    asked = problem(tables, published(rng, tables, np.zeros(tables.cells), n=200, variance=50.0))
    told = []
    one, two = (
        sample(asked, np.random.default_rng(7), chains=2, draws=10, warmup=10, progress=lambda *at: told.append(at))
        for _ in range(2)
    )
    assert np.array_equal(one.theta, two.theta)
    assert np.array_equal(one.tau, two.tau)
    assert told[19] == (20, 20)
    assert one.theta.shape == (2, 10, tables.cells)
    assert one.divergent.tolist() == [0, 0]


def test_several_holders_and_tied_tables_are_drawn(rng):
    tables = chain(3, 2)
    spread = [0, 1, 2, 3] * 2
    truth = np.array([1.0, -1.0, -1.0, 1.0])
    adding = np.hstack([np.eye(4), np.eye(4)])
    one = published(rng, tables, np.tile(truth, 2), n=20_000, variance=100.0, sums=adding)
    two = published(rng, tables, np.tile(truth, 2), n=20_000, variance=400.0, family=GAUSSIAN)
    asked = problem(tables, one, two, spread=spread)
    found = sample(asked, rng, chains=4, draws=100, warmup=100)
    flat = found.theta.reshape(-1, 4)
    _, mu = asked.engine.marginals_of_rows(asked.potentials(flat))
    states = every_record(tables)
    t = cells_of(tables, states)
    weight = np.exp(t @ np.tile(truth, 2))
    wanted = weight @ t / weight.sum()
    assert np.abs(mu.mean(axis=0) - wanted).max() < 0.03
    assert mu.std(axis=0).max() < 0.02


@pytest.mark.slow
def test_ranks_of_the_truth_are_uniform_where_truths_come_from_the_prior(rng):
    """Simulation-based calibration (Talts et al. 2018); noise said to be ten times smaller than it is is found out."""
    right, wrong = [], []
    for _ in range(100):
        _, (theta,) = prior(rng, 1, 4)
        made = published(rng, TABLES, theta, n=100, variance=800.0)
        for ranks, variance in ((right, 800.0), (wrong, 8.0)):
            asked = problem(TABLES, holder(made.observed, n=100.0, variance=variance))
            found = sample(asked, rng, chains=12, draws=12, warmup=60)
            shares = probabilities(found.theta[:, [3, 7, 11]].reshape(-1, 4))[:, 0]
            below = np.sum(shares < probabilities(theta[None])[0, 0])
            ranks.append((below + rng.random()) / (len(shares) + 1))
    folded = np.abs(2 * np.array([right, wrong]) - 1)
    assert stats.kstest(right, "uniform").pvalue > FALSE_ALARM / 2
    assert stats.kstest(folded[0], "uniform").pvalue > FALSE_ALARM / 2
    assert stats.kstest(folded[1], "uniform").pvalue < FALSE_ALARM
