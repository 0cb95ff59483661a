"""Simulated releases: noise against the laws that are scored, integers against the holder's, one alarm in 10^6."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.holder.evaluate import lattice_values
from noisewise.laws import DiscreteGaussian, DiscreteLaplace, RoundedGaussian, SmoothCauchy, SmoothLaplace
from noisewise.laws.finite import FiniteLaw, RandomizedResponse
from noisewise.likelihood import simulate as simulation
from noisewise.likelihood.simulate import draw_answers, draw_noise, noisy_values, simulate_values
from noisewise.models.simulate import simulate
from noisewise.populations.population import Bernoulli, Categorical, Joint, Normal
from noisewise.statistics.evaluation import NumPyRows

ALARM = 1e-6
DRAWS = 400_000


def cells(cdf, scale):
    """At most 24 cells of a lattice law, cut at integers, each of probability above 1e-3 where the law allows it."""
    cuts = np.unique(np.round(scale * stats.laplace.ppf(np.arange(1, 24) / 24)))
    chances = np.diff([0.0, *cdf(cuts), 1.0])
    kept = chances[:-1] > 1e-3
    return cuts[kept]


def is_rejected(drawn, cuts, cdf):
    expected = np.diff([0.0, *cdf(cuts), 1.0]) * drawn.size
    counts = np.bincount(np.searchsorted(cuts, drawn, side="left"), minlength=expected.size)
    return stats.chisquare(counts, expected * drawn.size / expected.sum()).pvalue < ALARM


@pytest.mark.parametrize("ratio", [0.4, 1.0, 37.3, 2.0**40])
@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian, RoundedGaussian])
def test_additive_noise_has_the_law_that_is_scored_and_no_law_a_tenth_off(kind, ratio):
    law = kind(scale=(1.0, ratio / 4), step=(1.0, 0.25))
    drawn = draw_noise(np.random.default_rng(), law, (2, DRAWS // 2), component=1).ravel()
    assert drawn.dtype == np.int64
    cuts = cells(lambda k: law.cdf(k, 1), ratio)
    assert not is_rejected(drawn, cuts, lambda k: law.cdf(k, 1))
    for factor in (0.9, 1.1):
        other = kind(scale=(factor * ratio,), step=(1.0,))
        assert is_rejected(drawn, cuts, other.cdf)
    if ratio < 100:  # the pmf itself, on single integers
        near = np.arange(-3, 4)
        chance = np.exp(law.log_pmf(near, 1))
        seen = np.array([(drawn == k).sum() for k in near])
        rest = 1 - chance.sum()
        observed, expected = np.append(seen, DRAWS - seen.sum()), DRAWS * np.append(chance, rest)
        usable = expected > 8
        pooled = (
            np.append(observed[usable], observed[~usable].sum()),
            np.append(expected[usable], expected[~usable].sum()),
        )
        kept = pooled[1] > 0
        assert stats.chisquare(pooled[0][kept], pooled[1][kept] * DRAWS / pooled[1][kept].sum()).pvalue > ALARM


@pytest.mark.parametrize("kind", [SmoothLaplace, SmoothCauchy])
@pytest.mark.parametrize("ratio", [0.7, 55.5, 2.0**30])
def test_smooth_noise_has_the_law_that_is_scored_at_its_scale(kind, ratio):
    law = kind(alpha=Fraction(1, 3), beta=0.1, step=2.0**-20)
    scale = ratio * float(law.alpha) * law.step
    scales = np.stack([np.full(DRAWS, scale), np.full(DRAWS, 5 * scale)])
    one, other = draw_noise(np.random.default_rng(), law, (2, DRAWS), smooth_scale=scales)
    for drawn, own in ((one, scale), (other, 5 * scale)):
        cuts = cells(lambda k, own=own: law.cdf(k, smooth_scale=own), own / scale * ratio)
        assert not is_rejected(drawn, cuts, lambda k, own=own: law.cdf(k, smooth_scale=own))
        for factor in (0.9, 1.1):
            wrong = factor * own
            assert is_rejected(drawn, cuts, lambda k, wrong=wrong: law.cdf(k, smooth_scale=wrong))
    with pytest.raises(InvalidArgument, match="smooth_scale"):
        draw_noise(np.random.default_rng(), law, 3)


def test_cauchy_noise_never_wraps_around():
    law = SmoothCauchy(alpha=Fraction(1, 200), beta=0.1, step=2.0**-40)
    drawn = draw_noise(np.random.default_rng(), law, DRAWS, smooth_scale=2.0**6)
    assert np.max(np.abs(drawn)) == 2**62  # some 4 in 1000 draws are beyond
    assert abs(np.sum(np.sign(drawn))) < stats.norm.isf(ALARM / 2) * math.sqrt(DRAWS)


def test_answers_have_the_rows_of_their_law():
    rng = np.random.default_rng()
    response = RandomizedResponse(keep=Fraction(3, 5), cells=4)
    finite = FiniteLaw(
        rows=((Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)), (Fraction(1, 10), Fraction(1, 10), Fraction(4, 5))),
        actions=(0.0, 0.5, 1.0),
    )
    for law, rows in ((response, response.rows()), (finite, finite.rows)):
        for value, row in enumerate(rows):
            answers = draw_answers(rng, law, np.full((2, DRAWS // 2), value))
            counts = np.bincount(answers.ravel(), minlength=len(row))
            expected = DRAWS * np.array([float(p) for p in row])
            assert stats.chisquare(counts, expected).pvalue > ALARM
            assert stats.chisquare(counts, np.roll(expected, 1)).pvalue < ALARM, "an off-by-one is caught"
    with pytest.raises(Unsupported):
        draw_noise(rng, response, 3)


SCHEMA = nw.Schema(
    {"a": nw.Bounded(-3, 5), "b": nw.Bounded(0, 2), "g": nw.Levels(["x", "y", "z"]), "s": nw.Levels(["no", "yes"])},
    n=120,
    neighbours="change-one",
)
A, B = nw.column("a"), nw.column("b")
POPULATION = Joint(
    a=Normal(mean=1.0, sd=stats.halfnorm(scale=3)),
    b=Normal(mean=1.0, sd=1.0),
    g=Categorical(p=[0.2, 0.3, 0.5]),
    s=Bernoulli(p=stats.beta(2, 2)),
)


@pytest.mark.parametrize(
    "statistic",
    [
        nw.Mean(A, A**2, abs(A) ** 0.5),
        nw.Sum(A * B, B.clip(0.5, 1.5)),
        nw.Count(A.between(0, 2) * nw.column("s").equals("yes")),
        nw.TruncatedSum([A], "a", -1, 2),
        nw.Histogram("g"),
        nw.Histogram("a", edges=[-1, 0, 2.5]),
        nw.Marginals(["g", "s"], ["s"]),
        nw.Moments(["a"], "b"),
        nw.Moments(["a"], "b", shrink=1.5, centre={"a": 1}),
        nw.Moments(["a"], "b", average=4),
        nw.SmallestEigenvalue(["a", "b"], shrink=2),
    ],
    ids=str,
)
def test_the_integers_are_those_of_the_holder(statistic):
    """The same records through the database and through NumPy: equal before the noise, to the last integer."""
    rng = np.random.default_rng()
    plan = nw.plan(statistic, SCHEMA, guarantee=nw.PureDP(1))
    records = {
        "a": rng.normal(1, 3, (1, 120)).clip(-3, 5),
        "b": rng.normal(1, 1, (1, 120)).clip(0, 2),
        "g": rng.integers(0, 3, (1, 120)),
        "s": rng.integers(0, 2, (1, 120)),
    }
    frame = {name: values[0] for name, values in records.items()}
    frame["g"] = np.array(["x", "y", "z"])[frame["g"]]
    frame["s"] = np.array(["no", "yes"])[frame["s"]]
    table = nw.Table.read(pd.DataFrame(frame), SCHEMA)
    ours = statistic.evaluate(NumPyRows(plan.part_schema, [records], 120), plan.lattice)[0]
    assert tuple(int(v) for v in ours) == lattice_values(table, plan)


def smooth_scale_by_definition(values, rank, low, high, beta):
    """max_k e^{-k beta} max_t (s_{m+t} - s_{m+t-k-1}), term by term."""
    n = len(values)
    padded = [low] * (n + 2) + list(values) + [high] * (n + 2)
    m = n + 1 + rank
    return max(
        math.exp(-k * beta) * max(padded[m + t] - padded[m + t - k - 1] for t in range(k + 2)) for k in range(n + 1)
    )


@pytest.mark.parametrize("guarantee", [nw.PureDP(2), nw.ApproxDP(2, "1/1000")])
@pytest.mark.parametrize("statistic", [nw.Median(A), nw.Maximum(A)])
def test_order_statistics_get_noise_of_their_smooth_sensitivity(statistic, guarantee):
    rng = np.random.default_rng()
    schema = nw.Schema({"a": nw.Bounded(-3, 5)}, n=11, neighbours="change-one")
    plan = nw.plan(statistic, schema, guarantee=guarantee)
    one = np.sort(rng.normal(1, 2, 11)).clip(-3, 5)
    drawn = noisy_values(rng, plan, {"a": np.tile(one, (10_000, 1))})[:, 0]
    rank = statistic.rank(11)
    scale = smooth_scale_by_definition(one, rank, -3.0, 5.0, plan.law.beta)
    noise = drawn * plan.law.step - one[rank - 1]
    law = stats.laplace if isinstance(plan.law, SmoothLaplace) else stats.cauchy
    assert stats.kstest(noise, law(scale=scale / float(plan.law.alpha)).cdf).pvalue > ALARM
    assert stats.kstest(noise, law(scale=1.5 * scale / float(plan.law.alpha)).cdf).pvalue < ALARM


def test_local_answers_are_sorted_and_counted():
    rng = np.random.default_rng()
    theta = {"a.sd": np.full(50, 2.0), "s.p": np.full(50, 0.3)}
    plan = nw.plan(nw.Records(A), SCHEMA, guarantee=nw.PureDP(1))
    answers = simulate_values(rng, plan, POPULATION, theta)
    assert answers.shape == (50, 120)
    assert np.all(np.diff(answers, axis=1) >= 0)
    x = rng.normal(1, 2, 50 * 120).clip(-3, 5) + rng.laplace(scale=plan.law.scale[0], size=50 * 120)
    assert stats.ks_2samp(answers.ravel() * plan.law.step[0], x).pvalue > ALARM
    plan = nw.plan(nw.Records(nw.column("g")), SCHEMA, guarantee=nw.PureDP(1))
    counts = simulate_values(rng, plan, POPULATION, theta)
    assert np.all(counts.sum(axis=1) == 120)
    answered = np.array([0.2, 0.3, 0.5]) @ np.array(plan.law.rows(), dtype=float)
    assert stats.chisquare(counts.sum(axis=0), 6000 * answered).pvalue > ALARM
    assert stats.chisquare(counts.sum(axis=0), 6000 * np.array([0.2, 0.3, 0.5])).pvalue < ALARM


@pytest.mark.parametrize("piece", [37, 10**6])
def test_a_simulated_count_is_binomial_however_it_is_cut_into_pieces(piece, monkeypatch):
    monkeypatch.setattr(simulation, "PIECE", piece)
    plan = nw.plan(nw.Count(nw.column("s").equals("yes")), SCHEMA, guarantee=nw.PureDP(60))
    theta = {"a.sd": np.ones(1000), "s.p": np.repeat([0.3, 0.6], 500)}
    counts = simulate_values(np.random.default_rng(), plan, POPULATION, theta)[:, 0]
    for own, p, wrong in ((counts[:500], 0.3, 0.33), (counts[500:], 0.6, 0.63)):
        chance = stats.binom(120, p)
        cuts = chance.ppf(np.arange(1, 10) / 10)
        assert not is_rejected(own, cuts, chance.cdf)
        assert is_rejected(own, cuts, stats.binom(120, wrong).cdf)


def test_many_records_may_be_replaced_by_the_law_of_their_sum():
    n, rows = 300_000, 5000
    schema = nw.Schema(SCHEMA.columns, n=n, neighbours="change-one")
    theta = {"a.sd": np.full(rows, 0.5), "s.p": np.full(rows, 0.3)}
    rng = np.random.default_rng()
    mean = nw.plan(nw.Mean(A, B), schema, guarantee=nw.PureDP(50))
    y = simulate_values(rng, mean, POPULATION, theta, approximate=True) * np.array(mean.law.step) / n
    clipped = stats.norm(1, 1)  # b, clamped to [0, 2]: mean 1, variance 1 - 2 phi(1) by integration by parts
    variance = clipped.expect(lambda x: (np.clip(x, 0, 2) - 1) ** 2, lb=-9, ub=11)
    noise = np.square(np.array(mean.law.sd) / n)
    for k, (centre, spread) in enumerate(((1.0, 0.25 / n + noise[0]), (1.0, variance / n + noise[1]))):
        assert stats.kstest((y[:, k] - centre) / math.sqrt(spread), "norm").pvalue > ALARM
        assert stats.kstest((y[:, k] - centre) / math.sqrt(2 * spread), "norm").pvalue < ALARM
    table = nw.plan(nw.Histogram("g"), schema, guarantee=nw.PureDP(50))
    counts = simulate_values(rng, table, POPULATION, theta, approximate=True)
    assert np.all(np.abs(counts.sum(axis=1) - n) <= 3)
    assert stats.chisquare(counts.sum(axis=0), counts.sum() * np.array([0.2, 0.3, 0.5])).pvalue > ALARM


def test_a_simulated_release_says_so_wherever_it_goes(tmp_path):
    plan = nw.plan(nw.Mean(A), SCHEMA, guarantee=nw.PureDP(1))
    release = simulate(plan, POPULATION, at={"a.sd": 2.0, "s.p": 0.5}, seed=1)
    release.save(tmp_path / "made.json")
    again = nw.Release.load(tmp_path / "made.json")
    assert again == release
    assert again.simulated
    assert again.dataset.startswith("simulated-")
    assert "simulated" in str(again)
    assert simulate(plan, POPULATION, at={"a.sd": 2.0, "s.p": 0.5}, seed=1) == release
    other = simulate(plan, POPULATION, seed=2)
    assert other.value != release.value
    assert other.dataset != release.dataset
    # Two plans simulated from one seed are releases of different records, and must not look like the same data set.
    second = nw.plan(nw.Mean(B), SCHEMA, guarantee=nw.PureDP(1))
    assert simulate(second, POPULATION, seed=2).dataset != other.dataset


def test_a_private_number_of_records_must_be_said():
    schema = nw.Schema({"s": nw.Levels(["no", "yes"])}, n_max=1000, neighbours="add-remove")
    plan = nw.plan(nw.Count(nw.column("s").equals("yes")), schema, guarantee=nw.PureDP(60))
    population = Bernoulli(p=0.5)
    with pytest.raises(InvalidArgument, match="n="):
        simulate(plan, population)
    with pytest.raises(InvalidArgument):
        simulate(plan, population, n=1001)
    values = simulate_values(np.random.default_rng(), plan, population, {}, n=40)
    assert 0 <= values[0, 0] <= 40
    assert simulate(plan, population, n=40).schema.n_max == 1000


@pytest.mark.parametrize(
    "at",
    [{}, {"a.sd": 1.0}, {"a.sd": 1.0, "s.p": 0.5, "x": 1}, {"a.sd": np.nan, "s.p": 0.5}, {"a.sd": [1, 2], "s.p": 0.5}],
)
def test_parameters_that_are_not_the_unknown_ones_are_refused(at):
    plan = nw.plan(nw.Mean(A), SCHEMA, guarantee=nw.PureDP(1))
    with pytest.raises(InvalidArgument, match="at"):
        simulate(plan, POPULATION, at=at)


@pytest.mark.parametrize("piece", [2**12, 10**6])
def test_sums_beyond_64_bits_stay_whole_numbers(piece, monkeypatch):
    monkeypatch.setattr(simulation, "PIECE", piece)
    n = 2**18
    schema = nw.Schema({"a": nw.Bounded(10**6, 10**6 + 1)}, n=n, neighbours="change-one")
    plan = nw.plan(nw.Mean(A), schema, guarantee=nw.PureDP(1))
    assert n * plan.lattice.low[0] > 2**63
    (value,) = simulate(plan, Normal(mean=10**6 + 0.5, sd=1.0)).value
    assert value * plan.law.step[0] / n == pytest.approx(10**6 + 0.5, abs=0.02)
