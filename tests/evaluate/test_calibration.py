"""Simulation-based calibration: what it passes, what it must fail, and that its own probabilities are right.

The model of the tests has a posterior in closed form, written here: records N(theta, 1) and theta ~ N(0, 1), published
as means with Gaussian noise of standard deviation tau. Bounds are wide enough that clamping never happens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.evaluate import trials as trials_module
from noisewise.evaluate.calibration import Calibration, calibrate
from noisewise.evaluate.coverage import Coverage
from noisewise.evaluate.discrepancy import uniformity
from noisewise.evaluate.simulate import data_sets, simulate_releases
from noisewise.inference.verdict import Verdict, Words
from noisewise.planning import Plan, plan
from noisewise.populations.population import Bernoulli, Categorical, Joint, Normal
from noisewise.privacy.guarantee import GaussianDP, PureDP
from noisewise.release import Release
from noisewise.schema import Bounded, Levels, Schema
from noisewise.statistics import Count, Histogram, Mean, Median, Sum, column

ALARM = 1e-6
N = 20
SCHEMA = Schema({"x": Bounded(-40, 40)}, n=N, neighbours="change-one")
X = column("x")
THETA = Normal(mean=stats.norm(0, 1), sd=1)
Draws = dict[str, Any]


def mean_plan(mu: float, part: tuple[Fraction, Fraction] | None = None, schema: Schema = SCHEMA) -> Plan:
    return plan(Mean(X), schema, guarantee=GaussianDP(mu), part=part)


def noise_variance(release: Release) -> float:
    """Of the published mean: the law's scale is that of the sum."""
    return float(release.law.scale[0] / release.schema.n) ** 2  # type: ignore[union-attr]


def normal_posterior(covariance: Any, y: Any, seed: int, *, squeeze: float = 1.0) -> Draws:
    """theta | y for y ~ N(theta 1, covariance), theta ~ N(0, 1); `squeeze` multiplies its standard deviation."""
    weight = np.linalg.solve(np.atleast_2d(covariance), np.ones(len(y)))
    variance = 1 / (1 + weight.sum())
    rng = np.random.default_rng(seed)
    return {"mean": variance * float(weight @ y) + squeeze * math.sqrt(variance) * rng.standard_normal((4, 50))}


def joined(releases: Sequence[Release], population: Any, seed: int, *, squeeze: float = 1.0) -> Draws:
    """The right posterior: releases of the same records share their sampling error."""
    records = [(release.dataset, release.part) for release in releases]
    covariance = [[(one == other) / a.schema.n + (a is b) * noise_variance(a)  # type: ignore[operator]
                   for b, other in zip(releases, records, strict=True)]
                  for a, one in zip(releases, records, strict=True)]  # fmt: skip
    return normal_posterior(covariance, [float(r.estimate[0]) for r in releases], seed, squeeze=squeeze)


def multiplied(releases: Sequence[Release], population: Any, seed: int) -> Draws:
    """Planted: the likelihoods multiplied as if every release had records of its own."""
    variances = [1 / r.schema.n + noise_variance(r) for r in releases]  # type: ignore[operator]
    return normal_posterior(np.diag(variances), [float(r.estimate[0]) for r in releases], seed)


def as_one(releases: Sequence[Release], population: Any, seed: int) -> Draws:
    """Planted: every release taken for one of the same records."""
    covariance = 1 / releases[0].schema.n + np.diag([noise_variance(r) for r in releases])  # type: ignore[operator]
    return normal_posterior(covariance, [float(r.estimate[0]) for r in releases], seed)


def naive(releases: Sequence[Release], population: Any, seed: int) -> Draws:
    """Planted: the noise ignored."""
    covariance = np.diag([1 / r.schema.n for r in releases])  # type: ignore[operator]
    return normal_posterior(covariance, [float(r.estimate[0]) for r in releases], seed)


def run(plans: Any, infer: Callable[..., Draws], trials: int = 400) -> Calibration:
    return calibrate(plans, THETA, trials=trials, infer=infer, progress=False)


def test_the_right_posterior_is_calibrated() -> None:
    found = run(mean_plan(2), joined)
    assert found.is_calibrated(ALARM)
    assert found.trials == 400
    assert not found.failures
    assert found.ranks.shape == found.uniforms.shape == found.truths.shape == (400, 1)
    assert "Calibrated" in found.verdict()


def test_the_naive_posterior_fails_calibration() -> None:
    found = run(mean_plan(2), naive)
    assert not found.is_calibrated(ALARM)
    assert found.coverage[0.95]["mean"].share < 0.8
    assert "Not calibrated" in found.summary()


def test_3000_trials_see_a_posterior_whose_sd_is_15_percent_too_small() -> None:
    one = mean_plan(2)
    found = run(one, lambda r, p, s: joined(r, p, s, squeeze=0.85), trials=3000)
    assert not found.is_calibrated(ALARM)
    assert found.noticeable(ALARM) > 0.85
    assert run(one, joined, trials=3000).is_calibrated(ALARM)


def test_two_releases_of_the_same_records_are_simulated_from_the_same_records() -> None:
    """E1b: the joint law passes, and multiplying the two likelihoods fails."""
    twice = [mean_plan(200), mean_plan(300)]
    assert run(twice, joined, trials=600).is_calibrated(ALARM)
    assert not run(twice, multiplied, trials=600).is_calibrated(ALARM)


def test_disjoint_parts_and_other_data_sets_are_independent() -> None:
    """E1b: multiplying is right here, and taking them for releases of the same records (planted) fails."""
    halves = [mean_plan(200, (Fraction(0), Fraction(1, 2))), mean_plan(200, (Fraction(1, 2), Fraction(1)))]
    holders = [[mean_plan(200)], [mean_plan(200, schema=Schema({"x": Bounded(-50, 50)}, n=N, neighbours="change-one"))]]
    for plans in (halves, holders):
        assert run(plans, multiplied, trials=600).is_calibrated(ALARM)
        assert not run(plans, as_one, trials=600).is_calibrated(ALARM)


def test_releases_of_one_part_differ_by_their_noise_alone() -> None:
    """Statistics of every kind see the same records: at a huge budget they agree with each other."""
    schema = Schema({"x": Bounded(-40, 40), "c": Levels(["a", "b"])}, n=N, neighbours="change-one")
    made = Joint(x=THETA, c=Bernoulli(p=stats.beta(2, 2)))
    sure = PureDP(10**6)
    plans = [plan(s, schema, guarantee=sure) for s in
             (Mean(X), Sum(X), Count(column("c").equals("b")), Histogram("c"), Median(X))]  # fmt: skip
    rng = np.random.default_rng()
    for _ in range(20):
        mean, total, count, table, median = simulate_releases(rng, plans, made, made.sample_prior(rng, 1))
        assert mean.estimate[0] * N == pytest.approx(total.estimate[0], abs=1e-2)
        assert tuple(table.value) == (N - count.value[0], count.value[0])
        assert abs(median.estimate[0] - mean.estimate[0]) < 2
        assert len({r.dataset for r in (mean, total, count, table, median)}) == 1
        assert mean.simulated


def test_the_result_does_not_depend_on_the_number_of_workers() -> None:
    one = calibrate(mean_plan(2), THETA, trials=12, infer=joined, seed=5, progress=False)
    two = calibrate(mean_plan(2), THETA, trials=12, infer=joined, seed=5, progress=False, workers=2)
    other = calibrate(mean_plan(2), THETA, trials=12, infer=joined, seed=6, progress=False)
    assert np.array_equal(one.uniforms, two.uniforms)
    assert not np.array_equal(one.uniforms, other.uniforms)


def test_an_unseeded_calibration_tells_the_seed_that_repeats_it() -> None:
    first = calibrate(mean_plan(2), THETA, trials=5, infer=joined, progress=False)
    again = calibrate(mean_plan(2), THETA, trials=5, infer=joined, progress=False, seed=first.seed)
    assert np.array_equal(first.ranks, again.ranks)


def test_p_values_are_uniform_when_ranks_are() -> None:
    """The tests' own false alarms: 300 calibrations of 25 trials, ranks of 7 draws, each p-value against uniform."""
    rng = np.random.default_rng()
    found = []
    for _ in range(300):
        ranks = rng.integers(0, 8, (25, 1))
        made = _calibration(ranks, (ranks + rng.random(ranks.shape)) / 8, draws=7)
        found.append([made.ks["a"], made.bias["a"], made.spread["a"]])
    for p_values in np.array(found).T:
        assert uniformity(p_values).p_value > ALARM


def test_ties_and_any_number_of_draws_leave_ranks_uniform() -> None:
    """A posterior on a grid (prior draws, rounded as the truth is) ties with the truth often."""

    class Rounded:
        free = ("mean",)
        columns = None

        def sample_prior(self, rng: np.random.Generator, count: int) -> Draws:
            return {"mean": np.round(rng.standard_normal(count), 0)}

    def again(releases: Any, population: Any, seed: int) -> Draws:
        return dict(population.sample_prior(np.random.default_rng(seed), 13))

    world = SimpleNamespace(population=Rounded(), releases=lambda *_: [], sizes=lambda _: [], size_names=lambda: ())
    sample = trials_module.given_posterior(again)
    found = trials_module.run_trials(world, sample, 13, np.random.SeedSequence().spawn(2000))  # type: ignore[arg-type]
    uniforms = np.array([trial.uniforms[0] for trial in found])
    ranks = np.array([trial.ranks[0] for trial in found])
    assert uniformity(uniforms).p_value > ALARM
    assert stats.chisquare(np.bincount(ranks, minlength=14)).pvalue > ALARM
    assert np.array_equal(np.floor(uniforms * 14), ranks)


def test_failed_trials_are_counted_and_certify_nothing() -> None:
    def sometimes(releases: Sequence[Release], population: Any, seed: int) -> Draws:
        if seed % 3 == 0:
            raise NoisewiseError("The chain never moved.")
        return joined(releases, population, seed)

    found = run(mean_plan(2), sometimes, trials=60)
    assert 0 < len(found.failures) < 60
    assert found.trials + len(found.failures) == 60
    assert not found.is_calibrated(ALARM)
    assert "trials failed" in found.verdict()
    assert "The chain never moved." in found.verdict()


def test_draws_that_are_not_finite_or_too_few_are_failures() -> None:
    broken, short = {"mean": np.full(100, np.nan)}, {"mean": np.zeros(99)}
    with pytest.raises(NoisewiseError, match=r"10 trials of 10 failed.*not finite"):
        run(mean_plan(2), lambda *_: broken, trials=11)
    with pytest.raises(NoisewiseError, match=r"Every trial failed.*holds 99 draws; 100"):
        run(mean_plan(2), lambda *_: short, trials=3)


def test_a_vector_is_ranked_component_by_component() -> None:
    schema = Schema({"c": Levels(["a", "b", "c"])}, n=N, neighbours="change-one")
    levels = Categorical(p=stats.dirichlet([1.0, 2.0, 3.0]))

    def prior(releases: Sequence[Release], population: Any, seed: int) -> Draws:
        return {"p": population.sample_prior(np.random.default_rng(seed), 200)["p"].reshape(4, 50, 3)}

    found = calibrate(plan(Histogram("c"), schema, guarantee=PureDP(1)), levels, trials=300, infer=prior,
                      progress=False)  # fmt: skip
    assert found.names == ("p[0]", "p[1]", "p[2]")
    assert found.is_calibrated(ALARM)
    assert np.allclose(found.truths.sum(axis=1), 1)


def test_slow_chains_are_run_again_longer_and_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains worth 8 % of their draws are run again, with another seed, and so long that 100 of them may be ranked."""
    asked: list[tuple[int, int]] = []

    def slow(releases: Any, population: Any, *, draws: int, seed: int, chains: int, **others: Any) -> Any:
        asked.append((draws * chains, seed))
        made = {"mean": np.zeros((chains, draws))}
        return SimpleNamespace(draws=made, ess={"mean": 0.08 * draws * chains}, verdict=Verdict(Words("It creeps.")))

    monkeypatch.setattr("noisewise.inference.infer.infer", slow)
    sampled = trials_module.library_posterior("auto", "auto", 100, None, {})([], THETA, 4)
    assert [size for size, _ in asked] == [400, 1900]
    assert asked[0][1] != asked[1][1]
    assert sampled.effective == pytest.approx(152)
    asked.clear()
    trials_module.library_posterior("mh", "auto", 100, None, {"chains": 2})([], THETA, 4)
    assert [size for size, _ in asked] == [1000]


def test_a_scarcity_of_effective_draws_is_said() -> None:
    uniforms = np.random.default_rng().random((50, 1))
    made = _calibration((uniforms * 101).astype(int), uniforms, draws=100, effective=np.full(50, 20.0))
    assert "In 50 trials the chains held fewer than 50 effective draws" in made.verdict()


@pytest.mark.parametrize(("covered", "trials"), [(0, 7), (3, 7), (7, 7), (171, 200)])
def test_coverage_bands_are_exact(covered: int, trials: int) -> None:
    """Clopper–Pearson by its definition: at each end, the tail beyond what was seen has probability 0.5 %."""

    def tail(p: float, counts: range) -> float:
        return sum(math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in counts)

    low, high = Coverage(0.9, covered, trials).band()
    assert low == 0 if covered == 0 else tail(low, range(covered, trials + 1)) == pytest.approx(0.005)
    assert high == 1 if covered == trials else tail(high, range(covered + 1)) == pytest.approx(0.005)


def test_the_power_that_is_claimed_is_the_power_there_is() -> None:
    """At the ratio `noticeable` names, the spread test alone fails in 95 of 100 calibrations (600 are tried)."""
    rng = np.random.default_rng()
    made = _calibration(np.zeros((300, 1), int), np.full((300, 1), 0.5), draws=1)
    ratio = made.noticeable(ALARM)
    limit = stats.chi2.isf(ALARM / 12, 300)
    noticed = sum(float(np.sum((rng.standard_normal(300) / ratio) ** 2)) > limit for _ in range(600))
    assert stats.binomtest(noticed, 600, 0.95).pvalue > ALARM
    assert ratio == pytest.approx(0.75, abs=0.05)


def test_rows_are_plain_and_plots_are_pictures(tmp_path: Any) -> None:
    import json

    found = run(mean_plan(2), joined, trials=40)
    (row,) = json.loads(json.dumps(found.rows))
    assert row["parameter"] == "mean"
    assert row["coverage_90_low"] <= row["coverage_90"] <= row["coverage_90_high"]
    for kind in ("rank", "ecdf", "coverage"):
        file = tmp_path / f"{kind}.png"
        assert found.plot(file, kind=kind) == file.read_bytes()
        assert file.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InvalidArgument, match="kind"):
        found.plot(kind="pie")


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"plans": []}, "plans"),
        ({"plans": "mean(x)"}, "plans"),
        ({"plans": [[]]}, "plans"),
        ({"trials": 0}, "trials"),
        ({"trials": True}, "trials"),
        ({"draws": -1}, "draws"),
        ({"workers": 0}, "workers"),
        ({"seed": -1}, "seed"),
        ({"population": Normal(mean=0, sd=1)}, "population"),
    ],
)
def test_bad_arguments_are_named(change: dict[str, Any], argument: str) -> None:
    given: dict[str, Any] = {"plans": mean_plan(2), "population": THETA, "trials": 2, "progress": False} | change
    with pytest.raises(InvalidArgument) as caught:
        calibrate(given.pop("plans"), given.pop("population"), infer=joined, **given)
    assert caught.value.argument == argument


def test_plans_that_cannot_be_one_data_set_are_refused() -> None:
    other = Schema({"x": Bounded(-50, 50)}, n=N, neighbours="change-one")
    with pytest.raises(Unsupported, match="share its schema"):
        data_sets([mean_plan(2), mean_plan(2, schema=other)])
    with pytest.raises(Unsupported, match="overlap"):
        data_sets([mean_plan(2), mean_plan(2, (Fraction(0), Fraction(1, 2)))])


def _calibration(ranks: Any, uniforms: Any, *, draws: int, effective: Any = math.nan) -> Calibration:
    trials = len(ranks)
    known = np.broadcast_to(effective, trials)
    return Calibration(("a",), ranks, uniforms, np.zeros((trials, 1)), known, (), draws, 0, 0.0, "test")
