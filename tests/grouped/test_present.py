"""Groups learnt from releases that leave missing values out: against enumeration, at their limits, refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.grouped.model import Grouped
from noisewise.grouped.present import SharePresent

X = nw.column("x")
FAST = {"draws": 1000, "chains": 4, "progress": False}
FAR = 4.9  # standard deviations: a false alarm in a million
SIGMA, CENTRE, WIDTH = 8.0, 50.0, 15.0
LAW = nw.Normal(mean=stats.norm(CENTRE, WIDTH), sd=SIGMA)


def schema_of(n: int, missing: object = "leave-out", **size: object) -> nw.Schema:
    columns = {"x": nw.Bounded(0, 100), "g": nw.Levels(["a", "b"])}
    given = size or {"n": n, "neighbours": "change-one"}
    return nw.Schema(columns, missing=missing, **given)


def release_of(plan: nw.Plan, components: list[float]) -> nw.Release:
    steps = [round(value / step) for value, step in zip(components, plan.law.step, strict=True)]
    return nw.Release.of(plan, steps, dataset="made-up", ledger_head=None, simulated=True)


def flat(posterior: nw.Posterior, name: str) -> np.ndarray:
    value = posterior.draws[name]
    return value.reshape(-1, *value.shape[2:])


def agree(draws: np.ndarray, cdf: object, slack: float = 0.002) -> None:
    """The oracle's distribution function at quantiles of the draws is what these quantiles are."""
    for p in (0.05, 0.25, 0.5, 0.75, 0.95):
        found = cdf(np.quantile(draws, p))
        assert abs(found - p) < FAR * np.sqrt(p * (1 - p) / len(draws)) + slack, (p, found)


class Enumerated:
    """Every pair of sizes of two groups among n records, the others absent; every mean on a grid."""

    def __init__(self, plan: nw.Plan, release: nw.Release, n: int, share: tuple[float, float] | float) -> None:
        law, own = plan.law, np.array(release.value) * np.array(plan.law.step)
        self.m, self.n, self.share = np.linspace(CENTRE - 5 * WIDTH, CENTRE + 5 * WIDTH, 401), n, share
        prior = stats.norm(CENTRE, WIDTH).pdf(self.m)
        sizes = np.arange(n + 1)
        z = stats.norm.ppf((np.arange(800) + 0.5) / 800)
        tables = []
        for g in range(2):
            count, total = own[2 * g : 2 * g + 2]
            b_count, b_sum = law.scale[2 * g : 2 * g + 2]
            u = (sizes[:, None] * self.m)[..., None] + np.sqrt(sizes)[:, None, None] * SIGMA * z
            noise = np.exp(-np.abs(count - sizes) / b_count)
            tables.append(noise[:, None] * prior * np.exp(-np.abs(total - u) / b_sum).mean(axis=-1))
        weight = {}
        for first, second in itertools.product(sizes, sizes):
            if first + second <= n:
                present = first + second
                law_of_total = stats.binom(n, share) if np.ndim(share) == 0 else stats.betabinom(n, *share)
                before = law_of_total.pmf(present) / (present + 1)  # sizes given their sum are all alike
                weight[first, second] = before * tables[0][first].sum() * tables[1][second].sum()
        total = sum(weight.values())
        self.weight = {pair: value / total for pair, value in weight.items()}
        self.tables = [table / np.maximum(table.sum(1, keepdims=True), 1e-300) for table in tables]

    def mean_cdf(self, g: int):
        density = sum(value * self.tables[g][pair[g]] for pair, value in self.weight.items())
        upto = np.cumsum(density) - density / 2
        return lambda at: np.interp(at, self.m, upto)

    def share_cdf(self):
        return lambda at: sum(v * stats.beta.cdf(at, 1 + a, 1 + b) for (a, b), v in self.weight.items())

    def present_cdf(self):
        one, two = self.share
        return lambda at: sum(
            v * stats.beta.cdf(at, one + a + b, two + self.n - a - b) for (a, b), v in self.weight.items()
        )


@pytest.mark.parametrize(
    ("components", "n", "present"),
    [
        ([4.0, 230.0, 11.0, 600.0], 25, None),
        ([0.4, 20.0, 5.0, 260.0], 12, stats.beta(2, 5)),
        ([6.0, 300.0, 9.0, 480.0], 18, 0.6),
    ],
)
def test_two_groups_of_those_present_are_as_enumeration_says(components, n, present, rng) -> None:
    plan = nw.plan(nw.Mean(X, by="g"), schema_of(n), guarantee=nw.PureDP(4))
    release = release_of(plan, components)
    seed = int(rng.integers(2**31))
    posterior = nw.infer(release, nw.Grouped("g", x=LAW, present=present), seed=seed, **FAST)
    share = present if isinstance(present, float) else (1.0, 1.0) if present is None else (2.0, 5.0)
    oracle = Enumerated(plan, release, n, share)
    for g in range(2):
        agree(flat(posterior, "mean")[:, g], oracle.mean_cdf(g), slack=0.006)  # records beyond the bounds: 0.1 %
    agree(flat(posterior, "share")[:, 0], oracle.share_cdf())
    assert (flat(posterior, "size").sum(axis=1) <= n).all()
    assert "missing at random" in str(posterior.verdict)
    if isinstance(present, float):
        assert "present" not in posterior.draws
        assert "with 0.6 present" in str(posterior.verdict)
    else:
        agree(flat(posterior, "present"), oracle.present_cdf())
        assert "present" in dict(posterior.scalars())
        assert posterior.answers()["share present"].estimate == pytest.approx(flat(posterior, "present").mean())
        wrong = Enumerated(plan, release, n, 1.0)  # the test has power: all n taken for present
        with pytest.raises(AssertionError):
            agree(flat(posterior, "share")[:, 0], wrong.share_cdf(), slack=0.01)


def test_a_share_present_of_1_is_a_release_of_complete_records(rng) -> None:
    """The law is the same: what differs are the noise scales, which are taken from the same plan here."""
    plan = nw.plan(nw.Mean(X, by="g"), schema_of(40), guarantee=nw.GaussianDP(3))
    release = release_of(plan, [12.0, 560.0, 29.0, 1500.0])
    complete = release.with_schema(schema_of(40, missing="refuse"))
    seed = int(rng.integers(2**31))
    one = nw.infer(release, nw.Grouped("g", x=LAW, present=1), seed=seed, **FAST)
    two = nw.infer(complete, nw.Grouped("g", x=LAW), seed=seed + 1, **FAST)
    assert (flat(one, "size").sum(axis=1) == 40).all()
    for name in ("mean", "share"):
        a, b = flat(one, name), flat(two, name)
        assert stats.ks_2samp(a[:, 0], b[:, 0]).pvalue > 1e-6


def test_all_present_and_hardly_anybody_present_are_told(rng) -> None:
    plan = nw.plan(nw.Mean(X, by="g"), schema_of(2000), guarantee=nw.GaussianDP(5))
    for a, b in ((800, 1200), (3, 5)):
        release = release_of(plan, [a, 50.0 * a, b, 50.0 * b])
        posterior = nw.infer(release, nw.Grouped("g", x=LAW), seed=int(rng.integers(2**31)), **FAST)
        m = flat(posterior, "size").sum(axis=1)
        assert np.all((m >= 0) & (m <= 2000))
        assert abs(flat(posterior, "present").mean() - (a + b) / 2000) < 0.01


def test_draws_of_the_prior_and_records_have_the_share_present(rng) -> None:
    schema = schema_of(4000)
    plan = nw.plan(nw.Mean(X, by="g"), schema, guarantee=nw.PureDP(1))
    model = nw.Grouped("g", x=LAW, names=["a", "b"]).with_presence([plan])
    assert model.free == ("mean", "share", "present")
    drawn = model.sample_prior(rng, 2000)["present"]
    assert stats.kstest(drawn, "uniform").pvalue > 1e-6
    theta = {"mean": np.array([[40.0, 60.0]]), "share": np.array([[0.3, 0.7]]), "present": np.array([0.7])}
    records = model.sample_records(rng, schema, 4000, theta, ("x", "g"))
    there = records["present(x)"][0]
    assert np.array_equal(records["present(g)"], records["present(x)"])
    assert abs(there.mean() - 0.7) < FAR * np.sqrt(0.21 / 4000)
    release = nw.simulate(plan, model, at={"mean": [40, 60], "share": [0.3, 0.7], "present": 0.7}, seed=rng)
    counts = np.array(release.value)[[0, 2]] * np.array(plan.law.step)[[0, 2]]
    sd = np.hypot(np.sqrt(4000 * 0.21), np.hypot(plan.law.sd[0], plan.law.sd[2]))
    assert abs(counts.sum() - 2800) < FAR * sd


def test_groups_of_those_present_are_calibrated(rng) -> None:
    population = nw.Grouped("g", x=LAW, names=["a", "b"], shares=stats.dirichlet([1.0, 6.0]))
    plan = nw.plan(nw.Mean(X, by="g"), schema_of(150), guarantee=nw.PureDP(3))
    found = nw.calibrate(plan, population, trials=30, draws=49, seed=int(rng.integers(2**31)), progress=False)
    assert "present" in found.names
    assert found.is_calibrated(), found.summary()


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("pooled", [(), ("mean",)])
@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
def test_groups_of_those_present_are_calibrated_at_length(noise, pooled, neighbours, rng) -> None:
    """100 trials: means, sds, shares, the share present, centres and spreads, four groups of very different sizes."""
    columns = {"x": nw.Bounded(0, 100), "g": nw.Levels(list("abcd"))}
    size = {"n": 1500} if neighbours == "change-one" else {"n_max": 5000}
    schema = nw.Schema(columns, neighbours=neighbours, missing="leave-out", **size)
    plan = nw.plan(nw.Mean(X, by="g"), schema, guarantee=nw.PureDP(1) if noise == "laplace" else nw.GaussianDP(1))
    law = nw.Normal(mean=stats.norm(50, 10), sd=12.0)
    shares = stats.dirichlet([0.5, 2.0, 10.0, 40.0])
    population = nw.Grouped("g", x=law, pooled=pooled, names=list("abcd"), shares=shares)
    n = None if neighbours == "change-one" else 1500
    seed = int(rng.integers(2**31))
    found = nw.calibrate(plan, population, trials=100, draws=99, seed=seed, n=n, progress=False)
    assert found.is_calibrated(), found.summary()


def test_a_posterior_of_those_present_is_saved_and_read_back(tmp_path) -> None:
    plan = nw.plan(nw.Mean(X, by="g"), schema_of(40), guarantee=nw.GaussianDP(3))
    release = release_of(plan, [12.0, 560.0, 19.0, 900.0])
    posterior = nw.infer(release, nw.Grouped("g", x=LAW), seed=1, **FAST)
    posterior.save(tmp_path / "one")
    again = nw.Posterior.load(tmp_path / "one")
    assert again.population.free == ("mean", "share", "present")
    assert again.check_sentence() == posterior.check_sentence()
    for present in (None, 0.25, stats.beta(2, 3)):
        model = nw.Grouped("g", x=LAW, present=present)
        assert Grouped.from_spec(model.to_spec()).present == model.present
    assert nw.Grouped("g", present=LAW).column == "present"  # a column may be called so
    assert nw.Grouped("g", x=LAW, present=stats.uniform(0, 1)).present == SharePresent(1.0, 1.0)


HOSTILE = [np.nan, np.inf, -np.inf, -1, 0, "", True, 1e308, 10**5000, 1.01, [0.5]]


def test_a_share_present_that_is_none_is_refused() -> None:
    for present in (*HOSTILE, stats.norm(0, 1), stats.beta(-1, 2), stats.beta(2, 3, loc=1)):
        with pytest.raises(NoisewiseError) as refused:
            nw.Grouped("g", x=LAW, present=present)
        assert refused.value.argument == "present"


def test_what_one_presence_cannot_tell_is_refused() -> None:
    schema = schema_of(40)
    mean = nw.plan(nw.Mean(X, by="g"), schema, guarantee=nw.PureDP(1))
    one = release_of(mean, [12.0, 560.0, 19.0, 900.0])
    count = nw.plan(nw.Count(by="g"), schema, guarantee=nw.PureDP(1))
    with pytest.raises(Unsupported, match="to be present, others"):
        nw.infer([one, release_of(count, [14.0, 22.0])], nw.Grouped("g", x=LAW), **FAST)
    complete = nw.plan(nw.Mean(X, by="g"), schema_of(40, missing="refuse"), guarantee=nw.PureDP(1))
    with pytest.raises(InvalidArgument, match="present= is for releases"):
        nw.infer(release_of(complete, [12.0, 560.0, 28.0, 900.0]), nw.Grouped("g", x=LAW, present=0.5), **FAST)
    private = nw.plan(nw.Mean(X, by="g"), schema_of(0, n_max=100, neighbours="add-remove"), guarantee=nw.PureDP(1))
    with pytest.raises(Unsupported, match="known number of records"):
        nw.infer(release_of(private, [12.0, 560.0, 19.0, 900.0]), nw.Grouped("g", x=LAW), n=stats.poisson(50), **FAST)
    ungrouped = nw.plan(nw.Mean(X), schema, guarantee=nw.PureDP(1))
    with pytest.raises(Unsupported, match="holders=True"):
        nw.infer(release_of(ungrouped, [30.0, 1500.0]), nw.Grouped(holders=True, x=LAW), **FAST)
    with pytest.raises(InvalidArgument, match="not for holders"):
        nw.Grouped(holders=True, x=LAW, present=0.5)
