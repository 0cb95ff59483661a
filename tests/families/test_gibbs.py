"""The noise-aware Gibbs samplers: they agree with exact inference where their approximation holds, and say so."""

from __future__ import annotations

import math

import numpy as np
import pytest
from made_releases import release_of
from scipy import stats

import noisewise as nw
from noisewise.families.family import conjugate_family
from noisewise.families.gibbs import gibbs
from noisewise.inference.diagnostics import mcse_mean, mcse_sd

X = nw.column("x")
YES = nw.Count(X.equals("b"))
BETA = nw.Bernoulli(p=stats.beta(2, 3))
DIRICHLET = nw.Categorical(p=stats.dirichlet([1, 2, 3]))
POISSON = nw.Poisson(rate=stats.gamma(3, scale=1))
EXPONENTIAL = nw.Exponential(rate=stats.gamma(3, scale=0.5))
NORMAL = nw.Normal(prior=stats.normal_inverse_gamma(0, 0.5, 3, 8))
# For redacted sums, which two places of the parameter may explain equally well: priors that hold one of them.
AROUND_ONE = nw.Exponential(rate=stats.gamma(20, scale=1 / 20))
INFORMED = nw.Normal(prior=stats.normal_inverse_gamma(1, 20, 10, 36))
# What the central limit theorem and unmatched conditionals may cost from n = 100 on, in posterior standard deviations.
ALLOWANCE = 0.03


def numeric(n: int, low: float, high: float) -> nw.Schema:
    return nw.Schema({"x": nw.Bounded(low, high)}, n=n, neighbours="change-one")


def levels(n: int, names: str) -> nw.Schema:
    return nw.Schema({"x": nw.Levels(list(names))}, n=n, neighbours="change-one")


def columns(posterior: nw.Posterior) -> dict[str, np.ndarray]:
    """Draws (chains, draws) of every scalar."""
    return dict(posterior.scalars())


def agrees(found: nw.Posterior, mean: dict, sd: dict, *, allowance: float = ALLOWANCE) -> None:
    """Within 5 Monte Carlo standard errors plus the allowance; `mean` and `sd` carry their own errors."""
    for label, draws in columns(found).items():
        (m, m_error), (s, s_error) = mean[label], sd[label]
        assert abs(draws.mean() - m) < 5 * math.hypot(mcse_mean(draws), m_error) + allowance * s, label
        assert abs(draws.std() - s) < 5 * math.hypot(mcse_sd(draws), s_error) + allowance * s, label
        assert mcse_mean(draws) < 0.1 * s, "the chain is too short for the comparison to mean anything"


def moments(exact: nw.Posterior) -> tuple[dict, dict]:
    """Mean and sd with their Monte Carlo errors; those of quadrature have none."""
    mean, sd = {}, {}
    means, sds = (np.concatenate([np.ravel(value) for value in each.values()]) for each in (exact.mean, exact.sd))
    for k, (label, draws) in enumerate(columns(exact).items()):
        if exact.moments is not None:
            mean[label], sd[label] = (means[k], 0.0), (sds[k], 0.0)
        else:
            mean[label], sd[label] = (draws.mean(), mcse_mean(draws)), (draws.std(), mcse_sd(draws))
    return mean, sd


CASES = {
    "count, geometric": (YES, levels(200, "ab"), nw.PureDP("0.5"), [60], BETA),
    "count, gaussian": (YES, levels(200, "ab"), nw.ZeroConcentratedDP("0.05"), [60], BETA),
    "first level": (nw.Count(X.equals("a")), levels(200, "ab"), nw.PureDP("0.1"), [60], BETA),
    "sum of 0/1": (nw.Sum(X), numeric(150, 0, 1), nw.GaussianDP(1), [60], BETA),
    "table, geometric": (nw.Histogram("x"), levels(300, "abc"), nw.PureDP("0.5"), [60, 90, 140], DIRICHLET),
    "table, gaussian": (nw.Histogram("x"), levels(300, "abc"), nw.GaussianDP("0.5"), [60, 90, 140], DIRICHLET),
    "poisson, clamped": (nw.Sum(X), numeric(200, 0, 5), nw.PureDP(1), [560], POISSON),
    "poisson, redacted": (nw.TruncatedSum([X], "x", 1, 4), numeric(200, 0, 20), nw.GaussianDP(1), [400], POISSON),
    "exponential, clamped": (nw.Mean(X), numeric(200, 0, 2), nw.GaussianDP(1), [0.6], EXPONENTIAL),
    "exponential, redacted": (nw.TruncatedSum([X], "x", 1, 5), numeric(300, 0, 20), nw.PureDP(1), [200], AROUND_ONE),
    "normal, clamped": (nw.Mean(X, X**2), numeric(200, -2, 4), nw.PureDP(4), [1.1, 3.5], NORMAL),
    "normal, clamped gaussian": (nw.Sum(X, X**2), numeric(200, -2, 3), nw.GaussianDP(2), [180, 500], NORMAL),
    "normal, redacted": (nw.TruncatedSum([X, X**2], "x", -3, 6), numeric(300, -9, 9), nw.PureDP(4), [300, 1400],
                         INFORMED),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_gibbs_agrees_with_exact_inference_from_a_hundred_records_on(name: str) -> None:
    """Against the statistic's own law; for two sums, whose law has no such form, against the CLT likelihood's grid."""
    statistic, schema, guarantee, value, population = CASES[name]
    release = release_of(statistic, schema, guarantee, value)
    is_normal = len(population.free) == 2
    exact = nw.infer(release, population, seed=1, likelihood="clt" if is_normal else "auto", draws=2500)
    found = nw.infer(release, population, method="gibbs", seed=2, draws=6000 if not is_normal else 15_000, chains=4)
    agrees(found, *moments(exact))
    assert found.method == "gibbs"
    assert found.likelihood == "clt"
    assert "Gibbs sampling of the" in found.because
    assert "central limit theorem" in found.because
    assert found.verdict.is_converged


def test_an_allowance_of_three_percent_would_show_a_noise_scale_a_fifth_off() -> None:
    """The comparison has power: a release with a fifth more noise has a posterior outside the allowance."""
    value = [60]
    louder = release_of(YES, levels(200, "ab"), nw.PureDP("0.1"), value)
    exact = nw.infer(release_of(YES, levels(200, "ab"), nw.PureDP("0.125"), value), BETA, seed=1)
    found = nw.infer(louder, BETA, method="gibbs", seed=2, draws=6000)
    with pytest.raises(AssertionError):
        agrees(found, *moments(exact))


def windowed(low: float, high: float, n: int, epsilon: str) -> tuple[nw.Release, nw.Population]:
    """A redacted sum of exponential records with its expected value at rate 1, and a prior around that."""
    inside = math.exp(-low) * (1 + low) - math.exp(-high) * (1 + high)
    release = release_of(nw.TruncatedSum([X], "x", low, high), numeric(n, 0, 100), nw.PureDP(epsilon), [n * inside])
    return release, AROUND_ONE


def spreads(release: nw.Release, population: nw.Population) -> dict[str, float]:
    """The sd of each variant over that of exact inference."""
    exact = nw.infer(release, population, seed=1).sd["rate"]
    return {
        variant: nw.infer(release, population, method="gibbs", variant=variant, seed=3, draws=10_000).sd["rate"] / exact
        for variant in ("joint", "published", "as-printed")
    }


def test_line_ten_as_printed_is_too_wide_and_corrected_is_not() -> None:
    """A tail window: the parts hardly overlap, so the only fault is the sum drawn without the release."""
    ratio = spreads(*windowed(1, 5, 300, "0.5"))
    assert ratio["joint"] == pytest.approx(1, abs=0.05)
    assert ratio["published"] == pytest.approx(1, abs=0.05)
    assert ratio["as-printed"] > 1.08


def test_parts_that_are_not_independent_must_not_be_taken_so() -> None:
    """A middle window at high accuracy: independent parts make the posterior a tenth too narrow, joint ones do not."""
    ratio = spreads(*windowed(0.5, 3, 1000, "10"))
    assert ratio["joint"] == pytest.approx(1, abs=0.04)
    assert ratio["published"] < 0.92


def test_without_noise_to_speak_of_it_is_the_conjugate_posterior() -> None:
    sharp = nw.PureDP(10**6)
    n, a, b = 100, 53.0, 8 + 0.5 * (350 - 100) + 0.5 * 0.5 * 100 / 100.5
    mean, variance = stats.t(2 * a, 100 / 100.5, math.sqrt(b / a / 100.5)), stats.invgamma(a, scale=b)
    cases = [
        (YES, levels(n, "ab"), [30], BETA, {"p": stats.beta(32, 73)}),
        (nw.Histogram("x"), levels(n, "abc"), [20, 30, 50], DIRICHLET,
         {"p[0]": stats.beta(21, 85), "p[1]": stats.beta(32, 74), "p[2]": stats.beta(53, 53)}),
        (nw.Sum(X), numeric(n, 0, 90), [300], POISSON, {"rate": stats.gamma(303, scale=1 / 101)}),
        (nw.Sum(X), numeric(n, 0, 500), [80], EXPONENTIAL, {"rate": stats.gamma(103, scale=1 / 82)}),
        (nw.Sum(X, X**2), numeric(n, -90, 90), [100, 350], NORMAL, {"mean": mean, "variance": variance}),
    ]  # fmt: skip
    for statistic, schema, value, population, law in cases:
        release = release_of(statistic, schema, sharp if population is not NORMAL else nw.PureDP(10**8), value)
        found = nw.infer(release, population, method="gibbs", seed=4, draws=4000)
        assert set(law) == set(columns(found))
        truth = [{name: (getattr(one, f)(), 0.0) for name, one in law.items()} for f in ("mean", "std")]
        agrees(found, *truth, allowance=1e-3)


def test_without_a_release_to_speak_of_it_is_the_prior() -> None:
    """n = 20, where the price of the central limit theorem is larger: a tenth of the prior's spread is allowed."""
    silent, n = nw.PureDP("0.0001"), 20
    informed = nw.Normal(prior=stats.normal_inverse_gamma(1, 4, 8, 14))
    cases = [
        (YES, levels(n, "ab"), [5], BETA, {"p": stats.beta(2, 3)}),
        (nw.Histogram("x"), levels(n, "abc"), [9, 9, 9], nw.Categorical(p=stats.dirichlet([2, 3, 4])),
         {"p[0]": stats.beta(2, 7), "p[1]": stats.beta(3, 6), "p[2]": stats.beta(4, 5)}),
        (nw.Sum(X), numeric(n, 0, 8), [50], POISSON, {"rate": stats.gamma(3)}),
        (nw.TruncatedSum([X], "x", 1, 2), numeric(n, 0, 8), [9], EXPONENTIAL, {"rate": stats.gamma(3, scale=0.5)}),
        (nw.Sum(X, X**2), numeric(n, -5, 5), [10, 50], informed,
         {"mean": stats.t(16, 1, math.sqrt(14 / 8 / 4)), "variance": stats.invgamma(8, scale=14)}),
    ]  # fmt: skip
    for statistic, schema, value, population, law in cases:
        found = nw.infer(
            release_of(statistic, schema, silent, value), population, method="gibbs", seed=5, draws=15_000, chains=8
        )
        truth = [{name: (getattr(one, f)(), 0.0) for name, one in law.items()} for f in ("mean", "std")]
        agrees(found, *truth, allowance=0.1)


def test_releases_of_different_records_add_up() -> None:
    """Two holders, a clamped sum with Laplace noise and a redacted one with Gaussian: likelihoods multiply."""
    one = release_of(nw.Sum(X), numeric(150, 0, 8), nw.PureDP(1), [450], dataset="one")
    two = release_of(nw.TruncatedSum([X], "x", 1, 5), numeric(200, 0, 8), nw.GaussianDP(1), [520], dataset="two")
    exact = nw.infer([one, two], POISSON, seed=1, likelihood="clt")
    found = nw.infer([one, two], POISSON, method="gibbs", seed=2, draws=6000)
    agrees(found, *moments(exact))
    alone = nw.infer(one, POISSON, method="gibbs", seed=2, draws=6000)
    assert found.sd["rate"] < 0.95 * alone.sd["rate"]
    assert "2 independent groups" in found.because


def test_disjoint_parts_and_tables_of_two_holders_add_up() -> None:
    halves = [
        release_of(YES, levels(300, "ab"), nw.PureDP("0.3"), [value], part=part)
        for value, part in ((40, (0, "1/2")), (55, ("1/2", 1)))
    ]
    agrees(nw.infer(halves, BETA, method="gibbs", seed=2, draws=6000), *moments(nw.infer(halves, BETA, seed=1)))
    tables = [
        release_of(nw.Histogram("x"), levels(n, "abc"), nw.GaussianDP("0.3"), value, dataset=str(n))
        for n, value in ((150, [30, 50, 70]), (200, [35, 70, 90]))
    ]
    found = nw.infer(tables, DIRICHLET, method="gibbs", seed=2, draws=6000)
    whole = release_of(nw.Histogram("x"), levels(350, "abc"), nw.ZeroConcentratedDP("0.0225"), [65, 120, 160])
    # Two Gaussian noises of one sd on the parts are one of root two times that on the whole.
    noise = [float(release.law.sd[0]) for release in (*tables, whole)]
    assert noise[2] == pytest.approx(math.hypot(*noise[:2]), rel=3e-3)
    assert np.allclose(found.mean["p"], nw.infer(whole, DIRICHLET, seed=1).mean["p"], atol=0.01)


@pytest.mark.parametrize("value", [-5000, -40, 0, 1, 41, 5000])
@pytest.mark.parametrize("guarantee", [nw.PureDP(1), nw.GaussianDP(1)], ids=["laplace", "gaussian"])
def test_one_record_and_releases_far_outside_stay_finite_and_possible(value: int, guarantee: object) -> None:
    for statistic, schema, values, population in (
        (YES, levels(1, "ab"), [value], BETA),
        (nw.Histogram("x"), levels(1, "abc"), [value, 0, -value], DIRICHLET),
        (nw.Sum(X), numeric(1, 0, 8), [value], POISSON),
        (nw.TruncatedSum([X], "x", 1, 3), numeric(40, 0, 8), [value], EXPONENTIAL),
        (nw.Sum(X, X**2), numeric(1, -5, 5), [value, -value], NORMAL),
        (nw.TruncatedSum([X, X**2], "x", -1, 3), numeric(40, -5, 5), [value, value], NORMAL),
    ):
        found = nw.infer(
            release_of(statistic, schema, guarantee, values), population, method="gibbs", seed=6, draws=200, warmup=50
        )
        for draws in columns(found).values():
            assert np.isfinite(draws).all()
            assert draws.std() > 0
        if "p" in found.draws:
            assert (found.draws["p"] >= 0).all()
            assert (found.draws["p"] <= 1).all()


def test_a_count_far_below_zero_is_explained_like_by_exact_inference() -> None:
    """At the edge the truncated normal stands in for a binomial count: 15 % of the spread is the price."""
    release = release_of(YES, levels(100, "ab"), nw.GaussianDP(1), [-6])
    found = nw.infer(release, BETA, method="gibbs", seed=7, draws=6000)
    agrees(found, *moments(nw.infer(release, BETA, seed=1)), allowance=0.15)


def test_a_posterior_with_two_modes_is_not_called_converged() -> None:
    """A redacted sum of 1000 exponential records is the same at rate 1 and at rate 0.26; chains stay where they are."""
    release, _ = windowed(0.0253, 3.689, 1000, "0.3")
    vague = nw.Exponential(rate=stats.gamma(1))
    exact = nw.infer(release, vague, seed=1)
    assert exact.sd["rate"] > 0.3
    found = nw.infer(release, vague, method="gibbs", seed=8, chains=24, draws=500)
    assert not found.verdict.is_converged
    assert {True, False} == {bool(chain.mean() > 0.6) for chain in found.draws["rate"]}  # both were found


def test_sums_that_no_records_have_are_counted_and_told() -> None:
    """One record, and a square below 0 with hardly any noise: nothing possible lies near."""
    release = release_of(nw.Sum(X, X**2), numeric(2, -5, 5), nw.GaussianDP(1000), [6, 2])
    family = conjugate_family(release, NORMAL)
    made = gibbs(np.random.default_rng(1), family, draws=200, warmup=0, chains=2)
    assert made.projections > 0.001 * made.sweeps
    assert f"{made.projections} of {made.sweeps} sweeps" in made.how
    calm = gibbs(
        np.random.default_rng(1), conjugate_family(release_of(*CASES["normal, clamped"][:4]), NORMAL), draws=200
    )
    assert calm.projections == 0
    assert "sweeps met" not in calm.how


def test_the_same_seed_gives_the_same_draws_and_another_seed_others() -> None:
    for name in ("count, geometric", "table, geometric", "poisson, redacted", "normal, clamped"):
        *made, population = CASES[name]
        release = release_of(*made)
        one, again, other = (
            nw.infer(release, population, method="gibbs", seed=seed, draws=50, warmup=20) for seed in (1, 1, 2)
        )
        for key in one.draws:
            assert np.array_equal(one.draws[key], again.draws[key])
            assert not np.array_equal(one.draws[key], other.draws[key])
        chains = one.draws[key]
        assert len(np.unique(chains[:, 0].reshape(len(chains), -1)[:, 0])) == len(chains)  # each chain is its own


def test_a_mean_two_hundred_standard_deviations_from_zero_loses_no_digits() -> None:
    release = release_of(nw.Mean(X, X**2), numeric(400, 1980, 2020), nw.PureDP(10**4), [2000, 2000**2 + 4])
    population = nw.Normal(prior=stats.normal_inverse_gamma(2000, 0.5, 3, 8))
    exact = nw.infer(release, population, seed=1, likelihood="clt", draws=2500)
    agrees(nw.infer(release, population, method="gibbs", seed=2, draws=6000), *moments(exact))


def test_progress_is_told_by_chain() -> None:
    seen: list[tuple[int, int]] = []
    *made, population = CASES["count, geometric"]
    nw.infer(release_of(*made), population, method="gibbs", seed=1, draws=10, warmup=0, chains=3,
             progress=lambda done, total: seen.append((done, total)))  # fmt: skip
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_the_verdict_says_where_converged_chains_may_still_be_wrong() -> None:
    """A redacted sum may have a hump that no chain has met, and few records are not normal; a clamped sum is silent."""

    def verdict(statistic: object, n: int, population: object = EXPONENTIAL) -> str:
        release = release_of(statistic, numeric(n, 0, 50), nw.PureDP(1), [0.9 * n])
        return str(nw.infer(release, population, method="gibbs", draws=200, seed=1, progress=False).verdict)

    redacted = nw.TruncatedSum([X], "x", 0, 4)
    for population in (EXPONENTIAL, POISSON):
        assert "two explanations" in verdict(redacted, 400, population)
        assert "two explanations" not in verdict(nw.Sum(X.clip(0, 4)), 400, population)
    assert "poor at n = 29" in verdict(nw.Sum(X), 29)
    assert "poor at n" not in verdict(nw.Sum(X), 30)
