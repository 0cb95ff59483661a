"""The published particle method: it finds the posterior that a grid finds, and not another one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.likelihood import clipped_normal
from noisewise.online import latent_particles
from noisewise.online.asked import asked_of
from noisewise.online.latent_particles import LatentSurvey
from noisewise.online.simulate import simulated_answer
from noisewise.populations.population import Exponential, Normal
from noisewise.privacy.guarantee import GaussianDP, PureDP
from noisewise.query import Answer, Query

PRIOR = {"mean": stats.norm(2, 3), "sd": stats.lognorm(0.5)}


def answered(query: Query, count: int, rng: np.random.Generator) -> list[Answer]:
    return [simulated_answer(rng, query, x) for x in rng.normal(1.0, 1.5, count)]


def grid_moments(answers: list[Answer]) -> dict[str, tuple[float, float]]:
    """Posterior mean and sd by brute force over a grid of mean and sd, from the closed density of an answer."""
    mean, sd = np.meshgrid(np.linspace(-10, 14, 241), np.exp(np.linspace(-2.2, 2.2, 161)), indexing="ij")
    asked = asked_of(answers[0].query)
    logs = PRIOR["mean"].logpdf(mean) + PRIOR["sd"].logpdf(sd) + np.log(sd)  # even steps of log sd
    for answer in answers:
        logs += clipped_normal.log_density(
            answer.reading, mean=mean, sd=sd, low=asked.low, high=asked.high, scale=asked.noise
        )
    w = np.exp(logs - logs.max())
    w /= w.sum()
    return {
        name: (float((w * value).sum()), float(np.sqrt((w * value**2).sum() - (w * value).sum() ** 2)))
        for name, value in (("mean", mean), ("sd", sd))
    }


def estimates(answers: list[Answer], seeds: range, particles: int = 400) -> dict[str, np.ndarray]:
    found = []
    for seed in seeds:
        survey = LatentSurvey(Normal(**PRIOR), PureDP(4), query=answers[0].query, n_particles=particles, seed=seed)
        for answer in answers:
            survey.answer(answer)
        found.append((survey.mean, survey.sd))
    return {f"{what} {name}": np.array([one[k][name] for one in found]) for k, what in enumerate(("mean of", "sd of"))
            for name in PRIOR}  # fmt: skip


def test_it_finds_the_posterior_of_a_grid_and_a_fault_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query.clip(-2, 4, guarantee=PureDP(4))
    answers = answered(query, 25, np.random.default_rng(5))
    exact = grid_moments(answers)

    def standardised(found: dict[str, np.ndarray]) -> list[float]:
        """Distances of the average over independent runs from the grid, in standard errors (Student, 11 degrees)."""
        truth = {f"{what} {name}": exact[name][k] for k, what in enumerate(("mean of", "sd of")) for name in PRIOR}
        return [
            abs(value.mean() - truth[key]) / (value.std(ddof=1) / np.sqrt(value.size) + 0.02 * exact["mean"][1])
            for key, value in found.items()
        ]

    assert max(standardised(estimates(answers, range(12)))) < stats.t(11).isf(1e-6)
    true_noise = latent_particles.log_noise
    monkeypatch.setattr(latent_particles, "log_noise", lambda *a, **k: 0.3 * true_noise(*a, **k))
    assert max(standardised(estimates(answers, range(12)))) > stats.t(11).isf(1e-6)


def test_adaptive_questions_close_in_on_the_population() -> None:
    survey = LatentSurvey(Normal(mean=stats.norm(0, 100), sd=stats.lognorm(1)), PureDP(5), n_particles=300, seed=1)
    rng = np.random.default_rng(2)
    queries = []
    for x in rng.normal(50, 3, 150):
        queries.append(survey.query())
        survey.answer(simulated_answer(rng, queries[-1], x))
    first, last = (
        np.mean([abs(sum(q.to_dict()[end] for end in ("low", "high")) - 100) / 2 for q in some])
        for some in (queries[:5], queries[-20:])
    )
    assert last < 3 < first
    assert abs(survey.mean["mean"] - 50) < 8 * survey.sd["mean"]
    assert survey.answers == 150
    assert survey.rejuvenations == 149


def test_a_bounded_number_of_values_is_moved_and_gaussian_noise_is_understood() -> None:
    survey = LatentSurvey(Normal(**PRIOR), GaussianDP(3), n_particles=50, values=3, seed=1)
    rng = np.random.default_rng(1)
    for x in rng.normal(1, 1, 10):
        survey.answer(simulated_answer(rng, survey.query(), x))
    before = survey._particles.x.copy()
    moved = survey._moved_values(survey._particles).x
    changed = (moved != before).any(axis=0)
    assert 1 <= changed.sum() <= 3
    assert np.isfinite(list(survey.mean.values())).all()


def test_what_it_cannot_do_is_refused() -> None:
    with pytest.raises(Unsupported, match="use Survey"):
        LatentSurvey(Exponential(rate=stats.gamma(2)), PureDP(1))
    with pytest.raises(InvalidArgument, match="clips"):
        LatentSurvey(Normal(**PRIOR), PureDP(1), query=Query.cells([0.0], guarantee=PureDP(1)))
