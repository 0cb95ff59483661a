"""Grouped through `infer`: against enumeration and quadrature, at its limits, for several sets of records, refused."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import noisewise as nw
from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.grouped import pooling
from noisewise.grouped.model import Grouped
from noisewise.report.published import group_means

X = nw.column("x")
FAST = {"draws": 1000, "chains": 4, "seed": 11, "progress": False}
FAR = 4.9  # standard deviations: a false alarm in a million


def schema_of(levels: list[str] | list[int], n: int, high: float = 100.0) -> nw.Schema:
    return nw.Schema({"x": nw.Bounded(0, high), "g": nw.Levels(levels)}, n=n, neighbours="change-one")


def release_of(plan: nw.Plan, components: list[float], dataset: str = "made-up") -> nw.Release:
    """A release of these numbers, to the nearest lattice step."""
    steps = [round(value / step) for value, step in zip(components, plan.law.step, strict=True)]
    return nw.Release.of(plan, steps, dataset=dataset, ledger_head=None, simulated=True)


def flat(posterior: nw.Posterior, name: str) -> np.ndarray:
    value = posterior.draws[name]
    return value.reshape(-1, *value.shape[2:])


def agree(draws: np.ndarray, cdf: object, slack: float = 0.002) -> None:
    """The oracle's distribution function at quantiles of the draws is what these quantiles are."""
    for p in (0.05, 0.25, 0.5, 0.75, 0.95):
        found = cdf(np.quantile(draws, p))
        assert abs(found - p) < FAR * np.sqrt(p * (1 - p) / len(draws)) + slack, (p, found)


def normal_laplace(y: float, mean: np.ndarray, sd: np.ndarray, b: float) -> np.ndarray:
    """The density of a normal sum with Laplace noise by the midpoint rule in probability."""
    z = stats.norm.ppf((np.arange(800) + 0.5) / 800)
    u = mean[..., None] + np.asarray(sd)[..., None] * z
    return (np.exp(-np.abs(y - u) / b) / (2 * b)).mean(axis=-1)


SIGMA, CENTRE, WIDTH = 8.0, 50.0, 15.0
LAW = nw.Normal(mean=stats.norm(CENTRE, WIDTH), sd=SIGMA)


class Enumerated:
    """Two groups of N people: every size, every mean on a grid, by sums over all of it."""

    def __init__(self, plan: nw.Plan, release: nw.Release, n: int) -> None:
        law, own = plan.law, np.array(release.value) * np.array(plan.law.step)
        self.m = np.linspace(CENTRE - 5 * WIDTH, CENTRE + 5 * WIDTH, 401)
        prior = stats.norm(CENTRE, WIDTH).pdf(self.m)
        self.sizes = np.arange(n + 1)
        tables = []
        for g in range(2):
            count, total = own[2 * g], own[2 * g + 1]
            b_count, b_sum = law.scale[2 * g], law.scale[2 * g + 1]
            mean = self.sizes[:, None] * self.m
            sd = np.sqrt(self.sizes)[:, None] * SIGMA + 0 * self.m
            noise = np.exp(-np.abs(count - self.sizes) / b_count)
            tables.append(noise[:, None] * prior * normal_laplace(total, mean, sd, b_sum))
        first, second = tables[0], tables[1][::-1]  # n_2 = n - n_1; all sizes equally likely before
        joint = first.sum(1) * second.sum(1)
        self.size = joint / joint.sum()
        self.means = [(self.size[:, None] * table / table.sum(1, keepdims=True)).sum(0) for table in (first, second)]
        self.n = n

    def mean_cdf(self, g: int):
        upto = np.cumsum(self.means[g]) - self.means[g] / 2
        return lambda at: np.interp(at, self.m, upto)

    def share_cdf(self):
        return lambda at: float(self.size @ stats.beta(1 + self.sizes, 1 + self.n - self.sizes).cdf(at))


@pytest.mark.parametrize(("components", "n"), [([4.0, 230.0, 21.0, 1100.0], 25), ([0.4, 20.0, 12.0, 500.0], 12)])
def test_two_groups_behind_laplace_noise_are_as_enumeration_says(components: list[float], n: int) -> None:
    plan = nw.plan(nw.Mean(X, by="g"), schema_of(["a", "b"], n), guarantee=nw.PureDP(4))
    release = release_of(plan, components)
    posterior = nw.infer(release, nw.Grouped("g", x=LAW), **FAST)
    oracle = Enumerated(plan, release, n)
    for g in range(2):
        agree(flat(posterior, "mean")[:, g], oracle.mean_cdf(g), slack=0.006)  # records beyond the bounds: 0.1 %
    agree(flat(posterior, "share")[:, 0], oracle.share_cdf())
    assert (flat(posterior, "size").sum(axis=1) == n).all()
    assert list(dict(posterior.scalars())) == ["mean[a]", "mean[b]", "share[a]", "share[b]"]


def test_pooled_groups_behind_gaussian_noise_are_as_quadrature_says() -> None:
    """Given sizes, S_g ~ N(n M, n sigma^2 + n^2 tau^2 + noise): closed, so that only (M, tau) and sizes are summed."""
    n, sizes = 60, np.arange(61)
    plan = nw.plan(nw.Mean(X, by="g"), schema_of(["a", "b"], n), guarantee=nw.GaussianDP(4))
    components = [7.0, 300.0, 52.0, 2900.0]
    release = release_of(plan, components)
    scale = np.array(plan.law.scale)
    centre, tau = np.linspace(0, 100, 241), np.exp(np.linspace(np.log(0.02), np.log(80), 161))
    prior = stats.norm(CENTRE, WIDTH).logpdf(centre)[:, None] + stats.halfnorm(scale=WIDTH).logpdf(tau) + np.log(tau)
    log = np.zeros((len(sizes), len(centre), len(tau)))
    for g, own in enumerate((sizes, n - sizes)):
        k = own[:, None, None]
        variance = k * SIGMA**2 + (k * tau[None, None, :]) ** 2 + scale[2 * g + 1] ** 2
        log += -0.5 * (components[2 * g + 1] - k * centre[None, :, None]) ** 2 / variance - 0.5 * np.log(variance)
        log += (-0.5 * ((components[2 * g] - own) / scale[2 * g]) ** 2)[:, None, None]
    weight = np.exp(log + prior - logsumexp(log + prior))
    posterior = nw.infer(release, nw.Grouped("g", x=LAW, pooled=("mean",)), **FAST)
    agree(
        flat(posterior, "mean.centre"),
        lambda at: np.interp(at, centre, np.cumsum(weight.sum((0, 2))) - weight.sum((0, 2)) / 2),
        slack=0.02,
    )
    agree(
        flat(posterior, "mean.spread"),
        lambda at: np.interp(at, tau, np.cumsum(weight.sum((0, 1))) - weight.sum((0, 1)) / 2),
        slack=0.02,
    )
    k = sizes[:, None, None]
    precision = 1 / tau**2 + k**2 / (k * SIGMA**2 + scale[1] ** 2)
    middle = (centre[:, None] / tau**2 + k * components[1] / (k * SIGMA**2 + scale[1] ** 2)) / precision
    agree(
        flat(posterior, "mean")[:, 0],
        lambda at: float(np.sum(weight * stats.norm.cdf((at - middle) * np.sqrt(precision)))),
        slack=0.01,
    )
    assert "leans on the prior of mean.spread" in str(posterior.verdict)


# ---- limits ----


@pytest.mark.parametrize(("apart", "turned", "has_spline"), [(3.0, 0.05, True), (12.0, 0.3, True), (3.0, 0.05, False)])
def test_two_pooled_parameters_of_groups_known_exactly_are_as_quadrature_says(
    apart: float, turned: float, has_spline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight groups so large that their means and sds are known: each pair (M, tau) then has a law of two numbers.

    A grid of all four numbers once missed it where groups are alike, and called the draws independent. Where no spline
    is near enough the law itself accepts.
    """
    if not has_spline:
        monkeypatch.setattr(pooling, "LEFT_OVER", ())
    size, quantiles = 100_000, stats.norm.ppf((np.arange(8) + 0.5) / 8)
    means, logs = 50 + apart * quantiles, np.log(12) + turned * quantiles[[3, 6, 1, 4, 7, 2, 5, 0]]
    schema = nw.Schema(
        {"x": nw.Bounded(-1000, 1100), "g": nw.Levels(list("abcdefgh"))}, n=8 * size, neighbours="change-one"
    )
    plan = nw.plan(nw.Mean(X, X**2, by="g"), schema, guarantee=nw.GaussianDP(10_000))
    told = [size * f for m, s in zip(means, logs, strict=True) for f in (1, m, m**2 + np.exp(2 * s))]
    law = nw.Normal(mean=stats.norm(50, 10), sd=stats.lognorm(0.4, scale=12))
    posterior = nw.infer(release_of(plan, told), nw.Grouped("g", x=law, pooled=("mean", "sd")), **FAST)
    for name, known, prior in (("mean", means, stats.norm(50, 10)), ("sd", logs, stats.norm(np.log(12), 0.4))):
        # Given tau, M is normal and integrated out: prod_g N(u_g; M, tau^2) is N(mean of u; M, tau^2/8) times the rest.
        tau = (np.arange(20_000) + 0.5) / 20_000 * 4.5 * prior.std()
        density = stats.halfnorm(scale=prior.std()).pdf(tau) * stats.norm.pdf(
            known.mean(), prior.mean(), np.sqrt(prior.var() + tau**2 / 8)
        )
        density *= np.exp(-7 * np.log(tau / known.std()) - 8 * known.var() / (2 * tau**2))
        upto = np.cumsum(density) / density.sum()
        agree(flat(posterior, f"{name}.spread"), lambda t, tau=tau, upto=upto: np.interp(t, tau, upto), slack=0.005)
        precision = 8 / tau**2 + 1 / prior.var()
        middle = (8 * known.mean() / tau**2 + prior.mean() / prior.var()) / precision
        normal, share = stats.norm(middle, precision**-0.5), density / density.sum()
        centre = flat(posterior, f"{name}.centre")
        agree(np.log(centre) if name == "sd" else centre, lambda m, law=normal, w=share: w @ law.cdf(m), slack=0.005)


def test_without_noise_the_answer_is_that_of_the_confidential_counts_and_sums() -> None:
    """One person, five, and 94: normal records with known sd have a normal posterior given n_g and S_g."""
    sizes, sums = np.array([1, 5, 94]), np.array([41.0, 260.0, 5100.0])
    plan = nw.plan(nw.Mean(X, by="g"), schema_of(["a", "b", "c"], 100), guarantee=nw.PureDP(20_000))
    components = np.stack([sizes, sums], axis=1).ravel().tolist()
    posterior = nw.infer(release_of(plan, components), nw.Grouped("g", x=LAW), **FAST)
    precision = 1 / WIDTH**2 + sizes / SIGMA**2
    mean, sd = (CENTRE / WIDTH**2 + sums / SIGMA**2) / precision, precision**-0.5
    for g in range(3):
        agree(flat(posterior, "mean")[:, g], stats.norm(mean[g], sd[g]).cdf, slack=0.01)
    assert (flat(posterior, "size") == sizes).all()


def test_mean_and_sd_of_a_few_people_without_noise_are_those_of_their_numbers() -> None:
    """2, 5 and 93 normal numbers: p(m, s | records) on a grid, which depends on sums and sums of squares alone."""
    sizes, means, sds = np.array([2, 5, 93]), np.array([47.0, 55.0, 50.0]), np.array([5.0, 14.0, 9.0])
    plan = nw.plan(nw.Mean(X, X**2, by="g"), schema_of(["a", "b", "c"], 100), guarantee=nw.PureDP(100_000))
    squares = sizes * (means**2 + sds**2)
    components = np.stack([sizes, sizes * means, squares], axis=1).ravel().tolist()
    law = nw.Normal(mean=stats.norm(50, 6), sd=stats.lognorm(0.4, scale=9))
    posterior = nw.infer(release_of(plan, components), nw.Grouped("g", x=law), **FAST)
    m, s = np.linspace(20, 80, 601)[:, None], np.exp(np.linspace(np.log(1), np.log(60), 601))
    prior = stats.norm(50, 6).logpdf(m) + stats.lognorm(0.4, scale=9).logpdf(s) + np.log(s)
    for g, n in enumerate(sizes):
        log = prior - n * np.log(s) - 0.5 * (squares[g] - 2 * m * n * means[g] + n * m**2) / s**2
        weight = np.exp(log - logsumexp(log))
        for name, grid, own in (("mean", m[:, 0], weight.sum(1)), ("sd", s, weight.sum(0))):
            upto = np.cumsum(own) - own / 2
            agree(flat(posterior, name)[:, g], lambda at, grid=grid, upto=upto: np.interp(at, grid, upto), slack=0.012)
    assert "exact law of their sum and sum of squares" in posterior.law
    assert "taken as" not in str(posterior.verdict)


def test_with_nothing_but_noise_the_answer_is_the_prior() -> None:
    plan = nw.plan(nw.Mean(X, by="g"), schema_of(["a", "b", "c"], 30), guarantee=nw.PureDP("1/10000"))
    posterior = nw.infer(release_of(plan, [0.0] * 6), nw.Grouped("g", x=LAW), **FAST)
    for g in range(3):
        agree(flat(posterior, "mean")[:, g], stats.norm(CENTRE, WIDTH).cdf)
        agree(flat(posterior, "share")[:, g], stats.beta(1, 2).cdf)
    assert "next to nothing about a, b, c" in str(posterior.verdict)


def test_a_group_that_nobody_is_in_keeps_its_prior() -> None:
    plan = nw.plan(nw.Mean(X, by="g"), schema_of(["a", "b"], 500), guarantee=nw.PureDP(50))
    posterior = nw.infer(release_of(plan, [0.0, 0.0, 500.0, 24_000.0]), nw.Grouped("g", x=LAW), **FAST)
    agree(flat(posterior, "mean")[:, 0], stats.norm(CENTRE, WIDTH).cdf, slack=0.02)


def test_no_spread_is_one_common_mean_and_a_wide_one_separate_means() -> None:
    plan = nw.plan(nw.Mean(X, by="g"), schema_of(["a", "b"], 200), guarantee=nw.GaussianDP(20))
    release = release_of(plan, [80.0, 4000.0, 120.0, 6240.0])
    same = nw.Grouped("g", x=LAW, pooled="mean", spread=stats.halfnorm(scale=1e-3))
    posterior = nw.infer(release, same, **FAST)
    means = flat(posterior, "mean")
    assert np.abs(means[:, 0] - means[:, 1]).max() < 0.02
    precision = 1 / WIDTH**2 + 200 / SIGMA**2
    mean = (CENTRE / WIDTH**2 + 10_240 / SIGMA**2) / precision
    agree(means[:, 0], stats.norm(mean, precision**-0.5).cdf, slack=0.05)  # a little noise is left
    wide = nw.Grouped("g", x=LAW, pooled="mean", spread=stats.uniform(500, 1))
    apart = flat(nw.infer(release, wide, **FAST), "mean")
    for g, (count, total) in enumerate(((80, 4000), (120, 6240))):
        agree(apart[:, g], stats.norm(total / count, SIGMA / np.sqrt(count)).cdf, slack=0.05)


def test_indicator_features_of_the_old_way_tell_the_same() -> None:
    """Sums of 1[g] and x 1[g] as one normal row over all records, p and both means on a grid: the law of `mean`."""
    n, noise = 400, nw.GaussianDP(3)
    plan = nw.plan(nw.Mean(X, by="g"), schema_of(["a", "b"], n), guarantee=noise)
    y = np.array([150.0, 7000.0, 251.0, 13_200.0])
    scale = np.array(plan.law.scale)
    p, a, b = np.linspace(0.25, 0.52, 61), np.linspace(40, 54, 81), np.linspace(48, 57, 81)
    share, first, second = (part.ravel() for part in np.meshgrid(p, a, b, indexing="ij"))
    mean = np.stack([share, share * first, 1 - share, (1 - share) * second], axis=1)
    seconds = np.stack([share, share * (first**2 + SIGMA**2), 1 - share, (1 - share) * (second**2 + SIGMA**2)], axis=1)
    covariance = np.einsum("ki,ij->kij", seconds, np.eye(4)) - mean[:, :, None] * mean[:, None, :]
    covariance[:, 0, 1] = covariance[:, 1, 0] = share * first - mean[:, 0] * mean[:, 1]
    covariance[:, 2, 3] = covariance[:, 3, 2] = (1 - share) * second - mean[:, 2] * mean[:, 3]
    total = n * covariance + np.diag(scale**2)
    residual = y - n * mean
    log = -0.5 * np.einsum("ki,ki->k", residual, np.linalg.solve(total, residual[..., None])[..., 0])
    log += -0.5 * np.linalg.slogdet(total)[1] + stats.norm(CENTRE, WIDTH).logpdf(first)
    log += stats.norm(CENTRE, WIDTH).logpdf(second)
    weight = np.exp(log - logsumexp(log))
    posterior = nw.infer(release_of(plan, y.tolist()), nw.Grouped("g", x=LAW), **FAST)
    for value, draws in (
        (first, flat(posterior, "mean")[:, 0]),
        (second, flat(posterior, "mean")[:, 1]),
        (share, flat(posterior, "share")[:, 0]),
    ):
        middle = weight @ value
        sd = np.sqrt(weight @ (value - middle) ** 2)
        assert abs(draws.mean() - middle) < 0.1 * sd + FAR * sd / np.sqrt(len(draws))
        assert draws.std() == pytest.approx(sd, rel=0.1)


def test_eight_indicator_features_and_groups_give_the_same_posterior() -> None:
    """The old way, one normal law of sums of 1[g] and x 1[g], by importance draws: same noise, same answer as by=."""
    levels, n, guarantee = ["a", "b", "c", "d"], 3000, nw.GaussianDP(3)
    group = nw.column("g")
    features = [one for level in levels for one in (group.equals(level), X * group.equals(level))]
    old = nw.plan(nw.Mean(*features), schema_of(levels, n), guarantee=guarantee)
    new = nw.plan(nw.Mean(X, by="g"), schema_of(levels, n), guarantee=guarantee)
    assert np.allclose(old.law.scale, new.law.scale, rtol=1e-5)
    assert old.law.step == new.law.step
    y = np.array([301.0, 13_900.0, 598.2, 29_800.0, 899.0, 47_100.0, 1200.9, 58_300.0])
    release = release_of(new, y.tolist())
    y = np.array(release.value) * np.array(new.law.step)

    def log_posterior(theta: np.ndarray) -> np.ndarray:
        p = np.column_stack([theta[:, :3], 1 - theta[:, :3].sum(1)])
        m = theta[:, 3:]
        row = np.stack([p, p * m], axis=2)  # (K, 4, 2): 1[g] and x 1[g] of one record
        covariance = -np.einsum("ki,kj->kij", row.reshape(-1, 8), row.reshape(-1, 8))
        for g in range(4):
            covariance[:, 2 * g, 2 * g] += p[:, g]
            covariance[:, 2 * g, 2 * g + 1] += p[:, g] * m[:, g]
            covariance[:, 2 * g + 1, 2 * g] += p[:, g] * m[:, g]
            covariance[:, 2 * g + 1, 2 * g + 1] += p[:, g] * (m[:, g] ** 2 + SIGMA**2)
        total = n * covariance + np.diag(np.square(new.law.scale))
        left = y - n * row.reshape(-1, 8)
        found = -0.5 * np.einsum("ki,ki->k", left, np.linalg.solve(total, left[..., None])[..., 0])
        found += -0.5 * np.linalg.slogdet(total)[1] + stats.norm(CENTRE, WIDTH).logpdf(m).sum(1)
        return np.where((p > 0).all(axis=1), found, -np.inf)

    count, sums = y[0::2], y[1::2]
    centre = np.concatenate([count[:3] / n, sums / count])
    spread = np.diag(np.concatenate([(2 / n) ** 2 + count[:3] / n**2, 3 * SIGMA**2 / count + (140 / count) ** 2]))
    rng = np.random.default_rng(5)
    for _ in range(3):  # a wide start, then its own moments twice
        proposal = stats.multivariate_t(centre, spread, df=8, seed=rng)
        theta = proposal.rvs(30_000)
        log = log_posterior(theta) - proposal.logpdf(theta)
        weight = np.exp(log - logsumexp(log))
        centre = weight @ theta
        spread = np.einsum("k,ki,kj->ij", weight, theta - centre, theta - centre)
    assert 1 / np.square(weight).sum() > 10_000
    posterior = nw.infer(release, nw.Grouped("g", x=LAW), **FAST)
    found = np.column_stack([flat(posterior, "share")[:, :3], flat(posterior, "mean")])
    sd = np.sqrt(np.diag(spread))
    assert np.all(np.abs(found.mean(0) - centre) < (0.05 + FAR * (4000**-0.5 + 0.01)) * sd)
    assert found.std(0) == pytest.approx(sd, rel=0.08)


# ---- several sets of records ----


def test_two_releases_of_the_same_records_are_one_law() -> None:
    """A count and sums of the same people, with little noise: the answer is that of both, and n_g is one number."""
    schema = schema_of(["a", "b"], 60)
    count = nw.plan(nw.Count(by="g"), schema, guarantee=nw.PureDP(40))
    sums = nw.plan(nw.Sum(X, by="g"), schema, guarantee=nw.PureDP(400))
    releases = [release_of(count, [12.0, 48.0]), release_of(sums, [480.0, 2640.0])]
    posterior = nw.infer(releases, nw.Grouped("g", x=LAW), **FAST)
    assert (flat(posterior, "size") == [12, 48]).mean() > 0.99
    for g, (n, total) in enumerate(((12, 480), (48, 2640))):
        precision = 1 / WIDTH**2 + n / SIGMA**2
        agree(
            flat(posterior, "mean")[:, g],
            stats.norm((CENTRE / WIDTH**2 + total / SIGMA**2) / precision, precision**-0.5).cdf,
            slack=0.02,
        )


def test_several_data_sets_share_the_parameters_and_have_sizes_of_their_own() -> None:
    plans = [nw.plan(nw.Mean(X, by="g"), schema_of(["a", "b"], n), guarantee=nw.PureDP(2000)) for n in (40, 100)]
    releases = [
        release_of(plans[0], [10.0, 400.0, 30.0, 1650.0], "one"),
        release_of(plans[1], [60.0, 2700.0, 40.0, 2200.0], "other"),
    ]
    posterior = nw.infer(releases, nw.Grouped("g", x=LAW), **FAST)
    assert (flat(posterior, "size") == [[10, 30], [60, 40]]).mean() > 0.99
    for g, (n, total) in enumerate(((70, 3100), (70, 3850))):
        precision = 1 / WIDTH**2 + n / SIGMA**2
        agree(
            flat(posterior, "mean")[:, g],
            stats.norm((CENTRE / WIDTH**2 + total / SIGMA**2) / precision, precision**-0.5).cdf,
            slack=0.02,
        )
    agree(flat(posterior, "share")[:, 0], stats.beta(71, 71).cdf, slack=0.01)


def test_holders_apart_are_each_what_their_own_release_says() -> None:
    schema = nw.Schema({"x": nw.Bounded(0, 100)}, n=200, neighbours="change-one")
    plan = nw.plan(nw.Mean(X), schema, guarantee=nw.PureDP(1))
    releases = [nw.simulate(plan, LAW, at={"mean": mean}, seed=k) for k, mean in enumerate((35.0, 60.0))]
    posterior = nw.infer(releases, nw.Grouped(holders=True, x=LAW, names=["first", "second"]), **FAST)
    assert [label for label, _ in posterior.scalars()] == ["mean[first]", "mean[second]"]
    for g, release in enumerate(releases):
        alone = nw.infer(release, LAW, seed=1, progress=False)
        sd = alone.sd["mean"]
        assert abs(flat(posterior, "mean")[:, g].mean() - alone.mean["mean"]) < 0.1 * sd
        assert flat(posterior, "mean")[:, g].std() == pytest.approx(sd, rel=0.1)


def test_a_yes_and_no_column_is_beta_binomial_without_noise() -> None:
    plan = nw.plan(nw.Mean(X, by="g"), schema_of(["a", "b"], 50, high=1.0), guarantee=nw.PureDP(2000))
    posterior = nw.infer(
        release_of(plan, [10.0, 3.0, 40.0, 1.0]), nw.Grouped("g", x=nw.Bernoulli(p=stats.beta(1, 2))), **FAST
    )
    for g, (yes, no) in enumerate(((3, 7), (1, 39))):
        agree(flat(posterior, "p")[:, g], stats.beta(1 + yes, 2 + no).cdf, slack=0.01)
    assert "binomial" in posterior.law


def test_a_private_number_of_records_is_stated() -> None:
    schema = nw.Schema({"x": nw.Bounded(0, 100), "g": nw.Levels(["a", "b"])}, n_max=500, neighbours="add-remove")
    plan = nw.plan(nw.Mean(X, by="g"), schema, guarantee=nw.PureDP(2000))
    release = release_of(plan, [30.0, 1500.0, 70.0, 3400.0])
    posterior = nw.infer(release, nw.Grouped("g", x=LAW), n=100, **FAST)
    assert (flat(posterior, "size") == [30, 70]).mean() > 0.99
    assert "as the analyst stated it" in str(posterior.verdict)
    with pytest.raises(InvalidArgument, match="private"):
        nw.infer(release, nw.Grouped("g", x=LAW), **FAST)


# ---- what does not fit is refused in a sentence ----


def test_what_is_not_meant_is_refused_where_it_is_written() -> None:
    with pytest.raises(InvalidArgument, match="holders=True"):
        nw.Grouped(x=LAW)
    with pytest.raises(InvalidArgument, match="exactly one column"):
        nw.Grouped("g", x=LAW, y=LAW)
    with pytest.raises(InvalidArgument, match="cannot both make the groups"):
        nw.Grouped("x", x=LAW)
    with pytest.raises(InvalidArgument, match="name unknown parameters"):
        nw.Grouped("g", x=LAW, pooled=("sd",))
    with pytest.raises(InvalidArgument, match="law of one column"):
        nw.Grouped("g", x=nw.Joint(x=LAW, y=LAW))
    with pytest.raises(InvalidArgument, match="one or two"):
        nw.Grouped("g", x=nw.Normal(mean=1.0, sd=2.0))
    with pytest.raises(InvalidArgument, match="above 0"):
        nw.Grouped("g", x=LAW, pooled="mean", spread=stats.norm(0, 1))
    with pytest.raises(InvalidArgument, match="2 numbers, but there are 3"):
        nw.Grouped("g", x=LAW, names=["a", "b", "c"], shares=stats.dirichlet([1, 1]))
    with pytest.raises(InvalidArgument, match="not known yet"):
        nw.Grouped("g", x=LAW).sample_prior(np.random.default_rng(1), 2)


def test_releases_that_do_not_fit_are_refused_with_the_reason() -> None:
    columns = {"x": nw.Bounded(0, 9), "y": nw.Bounded(0, 9), "g": nw.Levels(["a", "b"]), "h": nw.Levels(["c", "d"])}
    schema = nw.Schema(columns, n=50, neighbours="change-one")
    y = nw.column("y")
    for statistic, words in (
        (nw.Mean(X), "says nothing by group"),
        (nw.Mean(X, by="h"), "is by h, but the population is grouped by g"),
        (nw.Mean(y, by="g"), "reads column 'y'"),
        (nw.Mean(X * nw.column("h").equals("c"), by="g"), "reads column 'h'"),
    ):
        plan = nw.plan(statistic, schema, guarantee=nw.PureDP(1))
        release = release_of(plan, [0.0] * len(plan.law.step))
        with pytest.raises(Unsupported, match=words):
            nw.infer(release, nw.Grouped("g", x=LAW), **FAST)
    plan = nw.plan(nw.Mean(X, by="g"), schema, guarantee=nw.PureDP(1))
    release = release_of(plan, [0.0] * 4)
    with pytest.raises(Unsupported, match="names the groups"):
        nw.infer(release, nw.Grouped("g", x=LAW, names=["u", "v"]), **FAST)
    with pytest.raises(Unsupported, match="is by group"):
        nw.infer(release, nw.Grouped(holders=True, x=LAW), **FAST)


def test_two_columns_make_groups_by_pairs() -> None:
    columns = {"x": nw.Bounded(0, 100), "g": nw.Levels(["a", "b"]), "h": nw.Levels(["c", "d"])}
    schema = nw.Schema(columns, n=200, neighbours="change-one")
    population = nw.Grouped(["g", "h"], x=LAW).of_schema(schema)
    assert population.groups == ("a, c", "a, d", "b, c", "b, d")
    plan = nw.plan(nw.Mean(X, by=["g", "h"]), schema, guarantee=nw.GaussianDP(50))
    at = {"mean": [30.0, 40.0, 50.0, 60.0], "share": [0.1, 0.2, 0.3, 0.4]}
    release = nw.simulate(plan, population, at=at, seed=5)
    posterior = nw.infer(release, nw.Grouped(["g", "h"], x=LAW), **FAST)
    assert np.all(np.abs(flat(posterior, "mean").mean(0) - at["mean"]) < 5 * flat(posterior, "mean").std(0))


def test_groups_of_two_columns_that_would_be_called_the_same_are_told_apart() -> None:
    """'a, b' with 'c' and 'a' with 'b, c': one of them was lost, and another called the highest in its place."""
    columns = {"x": nw.Bounded(0, 100), "g": nw.Levels(["a, b", "a"]), "h": nw.Levels(["c", "b, c"])}
    schema = nw.Schema(columns, n=400, neighbours="change-one")
    population = nw.Grouped(["g", "h"], x=LAW)
    names = ("'a, b', 'c'", "'a, b', 'b, c'", "'a', 'c'", "'a', 'b, c'")
    assert population.of_schema(schema).groups == names
    plan = nw.plan(nw.Mean(X, by=["g", "h"]), schema, guarantee=nw.GaussianDP(50))
    release = release_of(plan, [number for mean in (20, 40, 60, 80) for number in (100, 100 * mean)])
    posterior = nw.infer(release, population, **FAST)
    assert len(posterior.answers().of("mean")) == 4
    assert posterior.sentence.startswith(f"The mean x is highest in {names[3]} (")
    assert set(group_means(release)["x"]) == set(names)


def test_levels_that_are_numbers_are_named_by_numbers() -> None:
    schema = schema_of([2019, 2020], 200)
    plan = nw.plan(nw.Mean(X, by="g"), schema, guarantee=nw.GaussianDP(50))
    posterior = nw.infer(release_of(plan, [100, 4000, 100, 6000]), nw.Grouped("g", x=LAW), **FAST)
    assert posterior.contrast("mean", 2020, 2019).estimate == posterior.contrast("mean", "2020", "2019").estimate
    assert posterior.answers()["mean", 2019] is not None
    assert posterior.answers().of("mean", group=2020).rows[0].estimate == posterior.answers()["mean", 2020].estimate
    assert np.all(posterior.rank("mean")[2020] == posterior.rank("mean")["2020"])
    with pytest.raises(InvalidArgument, match="no group or column '2021'"):
        posterior.contrast("mean", 2020, 2021)


def test_shares_of_groups_are_compared_and_ranked_draw_by_draw() -> None:
    plan = nw.plan(nw.Mean(X, by="g"), schema_of(["a", "b", "c"], 300), guarantee=nw.GaussianDP(2))
    posterior = nw.infer(release_of(plan, [150, 6000, 80, 4000, 70, 4200]), nw.Grouped("g", x=LAW), **FAST)
    share = flat(posterior, "share")
    found = posterior.contrast("share", "a", "b")
    np.testing.assert_allclose(found.draws, share[:, 0] - share[:, 1])
    assert (found.low, found.high) == pytest.approx(np.quantile(share[:, 0] - share[:, 1], [0.05, 0.95]))
    assert found.probability == np.mean(share[:, 0] > share[:, 1])
    assert found.unit == ""
    assert str(found).startswith("share of records, a less b: ")
    ratio = posterior.contrast("share", "a", "b", kind="ratio")
    np.testing.assert_allclose(ratio.draws, share[:, 0] / share[:, 1])
    ranks = posterior.rank("share")
    for g, group in enumerate("abc"):
        place = 1 + (share > share[:, [g]]).sum(axis=1)
        np.testing.assert_allclose(ranks[group], [np.mean(place == k) for k in (1, 2, 3)], atol=1e-12)
    assert "Rank 1 has the largest share of records" in str(ranks)
    total = posterior.contrast(lambda law: law.group_share() * law.mean(), "a", "b")
    weighted = share * flat(posterior, "mean")
    np.testing.assert_allclose(total.draws, weighted[:, 0] - weighted[:, 1])
    assert posterior.answers()["share of a"].estimate == pytest.approx(share[:, 0].mean())


def test_a_share_that_nobody_learns_is_refused() -> None:
    schema = nw.Schema({"x": nw.Bounded(0, 100)}, n=300, neighbours="change-one")
    plan = nw.plan(nw.Mean(X), schema, guarantee=nw.GaussianDP(2))
    releases = [release_of(plan, [value], dataset=name) for name, value in (("one", 9000.0), ("two", 12000.0))]
    posterior = nw.infer(releases, nw.Grouped(holders=True, x=LAW), **FAST)
    with pytest.raises(InvalidArgument, match="no shares here"):
        posterior.contrast("share", "1", "2")
    for hostile in (np.nan, np.inf, -1, 0, "", None, True, 1e308, 10**5000):
        with pytest.raises(NoisewiseError) as refused:
            posterior.contrast(hostile, "1", "2")
        assert refused.value.argument == "quantity"
        with pytest.raises(NoisewiseError):
            posterior.rank(hostile)


def test_a_level_named_with_a_line_end_begins_no_line_of_its_own() -> None:
    names = ["low\nVerdict: all is well", "high\x1b[2K"]
    plan = nw.plan(nw.Mean(X, by="g"), schema_of(names, 200), guarantee=nw.GaussianDP(50))
    posterior = nw.infer(release_of(plan, [100, 4000, 100, 6000]), nw.Grouped("g", x=LAW), **FAST)
    told = posterior.contrast("mean", names[0], names[1])
    texts = [posterior.summary(), posterior.sentence, str(told), repr(told), str(posterior.answers())]
    texts += [str(posterior.rank("share")), str(posterior.answers()["mean", names[0]])]
    for text in texts:
        assert "\x1b" not in text
        assert not any(line.startswith("Verdict: all is well") for line in text.splitlines())
        assert "low\\nVerdict" in text
    table = [line for line in posterior.summary().splitlines() if line.startswith(("parameter", "mean[", "share["))]
    assert len(set(map(len, table))) == 1  # escapes are measured as they are shown


def test_a_population_is_written_and_read_back() -> None:
    law = nw.Normal(mean=stats.norm(50, 20), sd=stats.halfnorm(scale=20))
    for population in (
        nw.Grouped("g", x=law),
        nw.Grouped(["g", "h"], x=law, pooled=("sd", "mean"), spread={"mean": stats.halfnorm(scale=3)}),
        nw.Grouped(holders=True, x=law, pooled="mean", names=["a", "b"]),
        nw.Grouped("g", x=law, names=["a", "b"], shares=stats.dirichlet([1.5, 2.0])),
    ):
        again = Grouped.from_spec(population.to_spec())
        assert again.to_spec() == population.to_spec()
        assert again.free == population.free
        assert again.by == population.by


def test_every_group_has_its_law_and_its_rows() -> None:
    population = nw.Grouped("g", x=LAW, names=["a", "b"])
    draws = {"mean": np.arange(12.0).reshape(2, 3, 2), "share": np.full((2, 3, 2), 0.5)}
    laws = population.laws_by_group(draws)
    assert list(laws) == ["a", "b"]
    assert laws["b"][0] is LAW
    assert laws["b"][1]["mean"].tolist() == [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]
    with pytest.raises(InvalidArgument, match="no group 'c'"):
        population.population_of(draws, "c")


def test_the_verdict_tells_the_share_that_the_fitted_law_puts_beyond_the_bounds_of_a_group() -> None:
    """Normal laws fitted to groups near a bound and far from it; the shares are taken from the draws here."""
    wide = nw.Normal(mean=stats.norm(30, 30), sd=stats.halfnorm(scale=40))
    plan = nw.plan(nw.Mean(X, X**2, by="g"), schema_of(["low", "mid"], 800), guarantee=nw.PureDP(8))
    release = release_of(plan, [400.0, 400 * 15.0, 400 * 500.0, 400.0, 400 * 50.0, 400 * 2516.0])
    posterior = nw.infer(release, nw.Grouped("g", x=wide), **FAST)
    mean, sd = flat(posterior, "mean"), flat(posterior, "sd")
    below = stats.norm.cdf((0 - mean) / sd).mean(axis=0)
    assert below[0] > 0.2
    assert below[1] < 0.001
    said = str(posterior.verdict)
    (told,) = re.findall(r"puts ([\d.]+) % below 0 in low", said)
    assert float(told) == pytest.approx(100 * below[0], abs=1.5)
    assert "in mid" not in said
    assert "taken as clamped to the bounds" in said
    own, cleaned = map(
        float, re.findall(r"its own mean (\S+), that of its records as they were summed ([\d.]+)", said)[0]
    )
    assert own == pytest.approx(mean[:, 0].mean(), abs=0.6)
    assert cleaned == pytest.approx(15, abs=1)
