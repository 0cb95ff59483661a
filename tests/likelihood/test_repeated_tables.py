"""A table released twice from the same records: every table enumerated with both noises, and calibration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from made_releases import release_of
from scipy import stats
from scipy.special import gammaln, logsumexp

import noisewise as nw
from noisewise.likelihood.count_models import TableModel
from noisewise.likelihood.joint import joint_likelihood

X = nw.column("x")
ALPHA = (0.6, 1.5, 2.0)
LEVELS = nw.Categorical(p=stats.dirichlet(ALPHA))
FALSE_ALARM = 1e-6
TABLE, BUDGETS = nw.Histogram("g"), (nw.PureDP(1), nw.PureDP(3))


def schema(n: int) -> nw.Schema:
    columns = {"g": nw.Levels(["a", "b", "c"]), "x": nw.Bounded(-5, 5)}
    return nw.Schema(columns, n=n, neighbours="change-one")


def twice(n: int, first, second, statistic=TABLE, guarantees=BUDGETS) -> list[nw.Release]:
    return [release_of(statistic, schema(n), g, y) for g, y in zip(guarantees, (first, second), strict=True)]


def tables(n: int) -> np.ndarray:
    return np.array([t for t in itertools.product(range(n + 1), repeat=3) if sum(t) == n])


def log_noise(releases: list[nw.Release], every: np.ndarray) -> np.ndarray:
    return sum(r.law.log_pmf(r.value[j] - every[:, j], j) for r in releases for j in range(3))


@pytest.mark.parametrize("guarantees", [(nw.PureDP(1), nw.PureDP(3)), (nw.PureDP(1), nw.GaussianDP(2))],
                         ids=["laplace", "mixed"])  # fmt: skip
@pytest.mark.parametrize("statistic", [nw.Histogram("g"), nw.Marginals(["g"])], ids=["histogram", "marginals"])
@pytest.mark.parametrize("n", [1, 6])
def test_two_releases_of_one_table_are_summed_over_the_table_once(guarantees, statistic, n: int) -> None:
    releases = twice(n, [n, 1, -1], [n - 1, 2, 0], statistic, guarantees)
    likelihood = joint_likelihood(releases, LEVELS)
    assert likelihood.is_exact
    assert isinstance(likelihood.groups[0], TableModel)
    every, p = tables(n), np.array([[0.2, 0.3, 0.5], [0.7, 0.2, 0.1]])
    expected = [logsumexp(stats.multinomial.logpmf(every, n, q) + log_noise(releases, every)) for q in p]
    assert likelihood.log_likelihood({"p": p}) == pytest.approx(expected, rel=1e-9)


def test_a_binned_column_released_twice_is_exact_too() -> None:
    population = nw.Normal(mean=stats.norm(), sd=1)
    releases = twice(6, [2, 3, 1], [1, 4, 0], nw.Histogram("x", edges=[-1, 1]))
    found = joint_likelihood(releases, population).log_likelihood({"mean": np.array([0.3])})[0]
    cdf = stats.norm.cdf([-np.inf, -1, 1, np.inf], 0.3)
    every = tables(6)
    expected = logsumexp(stats.multinomial.logpmf(every, 6, np.diff(cdf)) + log_noise(releases, every))
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("count", [1, 2])
def test_draws_of_infer_match_every_table_enumerated(count: int) -> None:
    """A mixture over the tables of Dirichlet laws, whose margins are beta laws; one release, and two."""
    n = 6
    releases = twice(n, [4, 0, 3], [5, 1, 1])[:count]
    posterior = nw.infer(releases, LEVELS, draws=5000, seed=11, progress=False)
    every = tables(n)
    logs = stats.dirichlet_multinomial.logpmf(every, np.array(ALPHA), n) + log_noise(releases, every)
    weights = np.exp(logs - logsumexp(logs))
    draws = posterior.draws["p"].reshape(-1, 3)
    edges = np.linspace(0, 1, 16)
    for j in range(3):
        own = every[:, j] + ALPHA[j]
        cells = weights @ np.diff(stats.beta.cdf(edges, own[:, None], (n + sum(ALPHA) - own)[:, None]), axis=1)
        assert fits(draws[:, j], edges, cells)
        one_fewer = np.diff(stats.beta.cdf(edges, ALPHA[j], sum(ALPHA) - ALPHA[j]))
        assert not fits(draws[:, j], edges, one_fewer)


def fits(draws: np.ndarray, edges: np.ndarray, cells: np.ndarray) -> bool:
    """A chi-square test of draws in cells, those rarer than a few draws put together."""
    seen, expected = np.histogram(draws, edges)[0].astype(float), cells * len(draws)
    order = np.argsort(expected)
    rare = order[np.cumsum(expected[order]) < 10]
    kept = np.setdiff1d(np.arange(len(cells)), rare)
    seen, expected = (np.append(v[kept], v[rare].sum()) for v in (seen, expected))
    seen, expected = seen[expected > 0], expected[expected > 0]
    return bool(stats.chi2.sf(np.sum(np.square(seen - expected) / expected), len(seen) - 1) > FALSE_ALARM)


def counted_twice(releases: list[nw.Release], at: float) -> float:
    """The distribution function at `at` of the last probability, if the releases were of different records."""
    n = releases[0].schema.n
    every = tables(n)
    ways = gammaln(n + 1) - gammaln(every + 1).sum(axis=1)
    one, two = (ways + log_noise([release], every) for release in releases)
    shapes = every[:, None] + every + np.array(ALPHA)
    logs = one[:, None] + two + gammaln(shapes).sum(axis=-1)
    weights = np.exp(logs - logs.max())
    below = stats.beta.cdf(at, shapes[..., 2], shapes[..., 0] + shapes[..., 1])
    return float((weights * below).sum() / weights.sum())


def test_a_table_released_twice_is_calibrated_and_counting_its_records_twice_is_not() -> None:
    """The rank of the true probability among 64 draws, jittered, is uniform; as normal scores it has variance 1."""
    rng = np.random.default_rng(8)
    n, trials = 14, 250
    plans = [nw.plan(TABLE, schema(n), guarantee=nw.PureDP(epsilon)) for epsilon in (10, 12)]
    found, planted = np.empty(trials), np.empty(trials)
    for k in range(trials):
        p = rng.dirichlet(ALPHA)
        table = rng.multinomial(n, p)
        releases = []
        for plan in plans:
            q = -math.expm1(-1 / plan.law.scale[0])
            noisy = table + rng.geometric(q, 3) - rng.geometric(q, 3)
            releases.append(nw.Release.of(plan, noisy.tolist(), dataset="made", ledger_head=None, simulated=True))
        model = joint_likelihood(releases, LEVELS).groups[0]
        draws, _ = model.dirichlet_posterior(model.dirichlet_prior).draw(rng, 64)
        rank = int((draws[:, 2] < p[2]).sum())
        found[k] = stats.norm.ppf((rank + rng.random()) / 65)
        planted[k] = stats.norm.ppf(np.clip(counted_twice(releases, p[2]), 1e-9, 1 - 1e-9))
    low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], trials)
    assert low < np.sum(np.square(found)) < high
    assert abs(found.sum()) < 4.9 * math.sqrt(trials)
    assert np.sum(np.square(planted)) > high
