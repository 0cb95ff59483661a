"""The worlds of the expfam studies: what is released has the announced noise, and all methods see the same trial."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy import stats

from noisewise.errors import InvalidArgument
from noisewise.inference.infer import infer
from noisewise.published.baselines.non_private import non_private
from noisewise_papers.expfam import FAMILIES, KEPT, METHODS, PRIORS, Experiment, batches_of, read_prior
from noisewise_papers.expfam_calibration import STUDY, ranks
from noisewise_papers.setting import read_settings

FALSE_ALARM = 1e-6


def predicted(rng: np.random.Generator, family: str, size: int) -> Any:
    """Records of the prior predictive law, each with a parameter of its own, by numpy alone."""
    if family == "normal":
        m, k, a, b = PRIORS["normal"]
        variance = b / rng.standard_gamma(a, size)
        return rng.normal(rng.normal(m, np.sqrt(variance / k)), np.sqrt(variance))
    a, b = PRIORS[family]
    rate = rng.gamma(a, 1 / b, size)
    return rng.poisson(rate) if family == "poisson" else rng.exponential(1 / rate)


@pytest.mark.parametrize(("family", "inside"), [("poisson", 0.999), ("exponential", KEPT), ("normal", 0.999)])
def test_the_bounds_hold_their_share_of_the_prior_predictive_law(
    rng: np.random.Generator, family: str, inside: float
) -> None:
    low, high = Experiment.of(family, 10, 1.0).bounds
    x = predicted(rng, family, 200_000)
    kept = int(np.sum((x >= low) & (x <= high)))
    # The Poisson bound is a whole number, so it may keep more; the others are rounded to three digits.
    smallest, largest = inside - 0.0005, (1.0 if family == "poisson" else inside + 0.0005)
    assert stats.binom.sf(kept - 1, x.size, largest) > FALSE_ALARM / 2
    assert stats.binom.cdf(kept, x.size, smallest) > FALSE_ALARM / 2


@pytest.mark.parametrize("family", FAMILIES)
def test_a_release_is_the_records_statistic_with_noise_for_its_sensitivity(
    rng: np.random.Generator, family: str
) -> None:
    """The noise, released minus true, has the Laplace law of the change-one sensitivity over epsilon."""
    epsilon, n = 0.5, 20
    experiment = Experiment.of(family, n, epsilon)
    low, high = experiment.bounds
    scale = experiment.plan.law.scale[0]
    sensitivity = {"binomial": 1.0, "multinomial": 2.0, "poisson": high, "exponential": high}
    assert scale == pytest.approx(sensitivity.get(family, scale * epsilon) / epsilon, rel=1e-5)
    noise = []
    for _ in range(600):
        ((x, release),) = experiment.releases(rng, experiment.population.sample_prior(rng, 1))
        assert x.shape == (n,)
        true = {"multinomial": np.sum(x == 0), "exponential": x[(x >= low) & (x <= high)].sum()}
        noise.append(release.estimate[0] - true.get(family, np.clip(x, low, high).sum()))
    drawn, cdf = np.array(noise), stats.laplace(scale=scale).cdf
    if family in ("binomial", "multinomial"):
        # Whole numbers are smeared over their unit, and scored by their own law between units.
        law = stats.dlaplace(1 / scale)
        drawn = drawn + rng.uniform(-0.5, 0.5, drawn.size)
        cdf = lambda v: np.interp(v, np.arange(-400, 401) + 0.5, law.cdf(np.arange(-400, 401)))  # noqa: E731
    assert stats.kstest(drawn, cdf).pvalue > FALSE_ALARM
    assert stats.kstest(3 * drawn, cdf).pvalue < FALSE_ALARM  # planted: a scale three times too large


@pytest.mark.parametrize("family", FAMILIES)
def test_baselines_read_the_trial_s_own_records(rng: np.random.Generator, family: str) -> None:
    experiment = Experiment.of(family, 50, 1.0)
    data = experiment.releases(rng, experiment.population.sample_prior(rng, 1))
    drawn = experiment.sampler("non-private")(data, experiment.population, 7).draws
    own = non_private(np.random.default_rng(7), family, data[0].records, prior=PRIORS[family], draws=400)
    assert all(np.array_equal(drawn[name], own[name]) for name in own)
    assert set(drawn) == set(experiment.population.free)
    assert experiment.first(drawn).shape == (400,)
    assert set(experiment.methods) <= set(METHODS)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_gibbs_sampler_is_that_of_the_library_at_the_asked_length(rng: np.random.Generator, family: str) -> None:
    experiment = Experiment.of(family, 100, 1.0, iterations=150)
    data = experiment.releases(rng, experiment.population.sample_prior(rng, 1))
    drawn = experiment.sampler("gibbs")(data, experiment.population, 7).draws
    own = infer(
        data[0].release, experiment.population, method="gibbs", draws=150, warmup=75, seed=7, progress=False
    ).draws  # fmt: skip
    assert all(np.array_equal(drawn[name], own[name]) for name in experiment.population.free)
    assert experiment.first(drawn).shape == (600,)


def test_every_method_sees_the_same_trials() -> None:
    """Ranks of one method do not depend on which others are asked, nor on their order."""
    given = {"family": "binomial", "n": 30, "epsilon": 1, "trials": 4}

    def found(methods: str) -> dict[str, list[float]]:
        (batch,) = batches_of(read_settings(STUDY.settings, {**given, "method": methods}, full=False))
        return ranks(np.random.default_rng(3), batch)

    together, swapped, alone = found("exact,non-private"), found("non-private,exact"), found("exact")
    assert together == swapped
    assert together["exact"] == alone["exact"]
    assert together["exact"] != together["non-private"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_gives_the_same_ranks_in_another_process(family: str) -> None:
    given = {"family": family, "n": 20, "epsilon": 1, "trials": 3, "method": "naive,non-private"}
    (batch,) = batches_of(read_settings(STUDY.settings, given, full=False))
    again = pickle.loads(pickle.dumps(batch))
    assert ranks(np.random.default_rng(3), batch) == ranks(np.random.default_rng(3), again)


@pytest.mark.parametrize(
    ("family", "text", "numbers"),
    [
        ("binomial", None, (10.0, 10.0)),
        ("binomial", "0.5, 5", (0.5, 5.0)),
        ("binomial", "beta(0.5, 5)", (0.5, 5.0)),
        ("binomial", str((0.5, 5)), (0.5, 5.0)),
        ("multinomial", "1,2,3,4", (1.0, 2.0, 3.0, 4.0)),
        ("multinomial", "dirichlet([1, 2, 3, 4])", (1.0, 2.0, 3.0, 4.0)),
        ("poisson", "gamma(3, scale=0.25)", (3.0, 4.0)),
        ("exponential", "3,4", (3.0, 4.0)),
        ("normal", "-3,1,2,2", (-3.0, 1.0, 2.0, 2.0)),
        ("normal", "normal_inverse_gamma(-3, 1, 2, 2)", (-3.0, 1.0, 2.0, 2.0)),
    ],
)
def test_a_prior_is_read_as_numbers_or_as_in_a_spec_file(family: str, text: str | None, numbers: Any) -> None:
    assert read_prior(family, text) == pytest.approx(numbers, rel=1e-12)


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("binomial", "1"), ("poisson", "1,2,3"), ("exponential", "0,1"), ("multinomial", "1"), ("normal", "0,1"),
        ("binomial", "nan,1"), ("normal", "inf,1,1,1"), ("binomial", "gamma(2)"), ("poisson", "lognorm(1)"),
        ("binomial", "beta(1"), ("binomial", "0.5"), ("normal", "norm(0, 1)"), ("multinomial", "dirichlet([1])"),
    ],
)  # fmt: skip
def test_any_other_prior_is_refused(family: str, text: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        read_prior(family, text)
    assert raised.value.argument == "prior"


def test_the_prior_is_that_of_the_population() -> None:
    experiment = Experiment.of("binomial", 10, 1.0, (0.5, 5.0))
    assert experiment.population.parameters.priors["p"].mean() == pytest.approx(0.5 / 5.5)
    assert Experiment.of("multinomial", 10, 1.0, (1.0, 1.0, 1.0, 1.0)).plan.law.size == 4


def test_one_posterior_sampling_is_left_out_where_it_is_not_there() -> None:
    with pytest.raises(InvalidArgument, match="binomial, poisson, exponential"):
        batches_of(read_settings(STUDY.settings, {"family": "normal", "method": "one-posterior-sampling"}, full=False))
