"""The study of mixing: its posterior is the right one, every kernel finds it, and its rows are as announced."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from noisewise.inference.kernels import Kernel, Walk
from noisewise.inference.target import Target
from noisewise.published.samplers.metropolis import Metropolis
from noisewise_papers.absolutes import NormalAbsolutes
from noisewise_papers.mixing import STUDY, Model, release_of, run_chains
from noisewise_papers.resample import mean_with_range
from noisewise_papers.setting import read_settings

FALSE_ALARM = 1e-6
FIELDS = [
    "kernel", "n_particles", "iac", "iac_low", "iac_high", "mean", "sd", "microseconds_per_step", "ess_per_second",
    "paper",
]  # fmt: skip
CHAINS, STEPS = 200, 400


def settings(**given: Any) -> dict[str, Any]:
    return read_settings(STUDY.settings, given, full=False)


def deviations(rng: np.random.Generator, model: Model, kernel: Kernel) -> tuple[float, float]:
    """How far the chains' location and spread lie from quadrature, in standard errors between chains.

    They are means of tanh z and tanh^2 z, z the standardised draw: bounded, so that one excursion of one chain into
    the long tail of the posterior, which the others happened not to make, does not pass for an error.
    """
    nodes, weights = model.quadrature()
    mean = weights @ nodes
    sd = math.sqrt(weights @ (nodes - mean) ** 2)
    draws, _ = run_chains(rng, kernel, model, CHAINS, STEPS)
    found, wanted = np.tanh((draws - mean) / sd), np.tanh((nodes - mean) / sd)
    averages = [(found**p).mean(axis=1) - weights @ wanted**p for p in (1, 2)]
    first, second = (float(a.mean() / a.std(ddof=1) * math.sqrt(CHAINS)) for a in averages)
    return first, second


@pytest.mark.parametrize("bound", [0.5, 3.0, 10.0])
def test_the_closed_moments_are_those_of_clamped_absolute_normals(bound: float) -> None:
    model = NormalAbsolutes(n=7, bound=bound, scale=1.0, y=0.0)
    for theta in (0.1, 2.0, 30.0):
        law = stats.norm(0, math.sqrt(theta))
        moment = [
            2 * integrate.quad(lambda x, p=p, law=law: x**p * law.pdf(x), 0, bound, epsabs=1e-13)[0]
            + 2 * bound**p * law.sf(bound)
            for p in (1, 2)
        ]
        mean, variance = model.sums(np.array([theta]))
        assert mean[0] == pytest.approx(7 * moment[0], rel=1e-9)
        assert variance[0] == pytest.approx(7 * (moment[1] - moment[0] ** 2), rel=1e-8)


def test_the_likelihood_is_the_library_s_own_up_to_the_lattice_step() -> None:
    from noisewise.likelihood.joint import joint_likelihood
    from noisewise.populations.population import Normal

    release = release_of(settings(bound=3.0))
    theta = {"variance": np.linspace(0.2, 9.8, 25)}
    population = Normal(mean=0, variance=stats.uniform(0, 10))
    general = joint_likelihood([release], population, likelihood="clt").log_likelihood(theta)
    difference = NormalAbsolutes.of(release).log_likelihood(theta) - general
    assert np.ptp(difference) < 1e-8


def test_the_exact_row_has_the_known_answer() -> None:
    """y = 1.2: mean 2.3617, sd 0.3919 under a flat prior and the central limit theorem."""
    nodes, weights = Model.of(settings(y=1.2)).quadrature()
    mean = weights @ nodes
    assert mean == pytest.approx(2.3617, abs=6e-5)
    assert math.sqrt(weights @ (nodes - mean) ** 2) == pytest.approx(0.3919, abs=6e-5)


def test_the_own_law_has_another_known_answer() -> None:
    """y = 1.2 without the central limit theorem: mean 2.3599, sd 0.3840."""
    nodes, weights = Model.of(settings(y=1.2, likelihood="auto")).quadrature()
    mean = weights @ nodes
    assert mean == pytest.approx(2.3599, abs=6e-5)
    assert math.sqrt(weights @ (nodes - mean) ** 2) == pytest.approx(0.3840, abs=6e-5)


@pytest.mark.parametrize(
    ("likelihood", "name", "count"),
    [
        ("clt", "mh", None), ("clt", "pmmh", 10), ("clt", "pmmh-fitted", 5), ("clt", "cpm", 10), ("clt", "mhaar", 5),
        ("clt", "mh-within-gibbs", None), ("auto", "mh", None), ("auto", "pmmh", 10), ("auto", "mhaar", 10),
    ],
)  # fmt: skip
def test_every_kernel_has_the_posterior_of_quadrature(
    rng: np.random.Generator, likelihood: str, name: str, count: int | None
) -> None:
    model = Model.of(settings(y=1.2, likelihood=likelihood, n=100 if likelihood == "clt" else 30))
    limit = stats.t.isf(FALSE_ALARM / 4, CHAINS - 1)
    assert np.abs(deviations(rng, model, model.kernel(name, count, Walk.isotropic(1, 0.5)))).max() < limit


def test_a_walk_that_forgets_its_jacobian_would_be_caught(rng: np.random.Generator) -> None:
    """Planted: the prior 1/theta, which is what a walk on log theta without the Jacobian samples from."""
    model = Model.of(settings(y=1.2))
    target = model.target
    with np.errstate(invalid="ignore", divide="ignore"):
        wrong = Target(
            target.transform, lambda theta: target.prior(theta) - np.log(np.maximum(theta["variance"], 1e-9)),
            target.likelihood, target.sample_prior,
        )  # fmt: skip
        found = deviations(rng, model, Metropolis(wrong, Walk.isotropic(1, 0.5)))
    assert abs(found[0]) > stats.t.isf(FALSE_ALARM / 4, CHAINS - 1)


def test_the_paper_s_figures_stand_only_beside_its_own_setting() -> None:
    tiny = {"chains": 2, "steps": 50, "n_particles": "2"}
    for given, expected in ({}, 44.03), ({"epsilon": "1"}, None), ({"y": "1.2"}, None):
        rows = STUDY.run({**tiny, **given}, workers=1).rows
        assert next(row["paper"] for row in rows if row["kernel"] == "pmmh") == expected


def test_the_range_of_a_mean_holds_it_and_narrows_with_more_runs(rng: np.random.Generator) -> None:
    few, many = (mean_with_range(rng, rng.gamma(4, 5, size)) for size in (10, 1000))
    for mean, low, high in (few, many):
        assert low < mean < high
    assert many[2] - many[1] < few[2] - few[1]
    assert many[2] - many[1] == pytest.approx(2 * 1.645 * 10 / math.sqrt(1000), rel=0.3)


def test_there_is_one_row_a_kernel_and_count_with_the_announced_fields() -> None:
    rows = STUDY.run({"chains": 4, "steps": 80, "n_particles": "2,100"}, seed=2, workers=1).rows
    assert list(STUDY.columns) == FIELDS
    assert all(list(row) == FIELDS for row in rows)
    found = [(row["kernel"], row["n_particles"]) for row in rows]
    assert len(set(found)) == len(found)
    assert set(found) >= {("exact", None), ("mh", None), ("pmmh", 2), ("pmmh", 100), ("mhaar", 2), ("mhaar", 100)}
    for row in rows:
        if row["kernel"] != "exact":
            assert row["iac_low"] <= row["iac"] <= row["iac_high"]
            product = row["ess_per_second"] * row["iac"] * row["microseconds_per_step"]
            assert product == pytest.approx(1e6)
