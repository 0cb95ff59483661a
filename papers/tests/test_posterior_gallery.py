"""The gallery: every case has its own likelihood, deviations are standard normal where all is well, rows are whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from noisewise.inference.diagnostics import mcse_mean, mcse_sd
from noisewise.likelihood.joint import joint_likelihood
from noisewise.models.simulate import simulate
from noisewise.planning import plan
from noisewise_papers.posterior_gallery import STUDY, cases, deviation, note, rows_of, schema_of
from noisewise_papers.setting import read_settings

FALSE_ALARM = 1e-6
FIELDS = ["release", "parameter", "method", "mean", "sd", "ess_per_second", "deviation", "deviation_sd"]


def settings(**given: Any) -> dict[str, Any]:
    return read_settings(STUDY.settings, given, full=False)


@pytest.mark.parametrize(("summary", "error"), [(np.mean, mcse_mean), (np.std, mcse_sd)])
def test_deviations_between_equal_laws_are_standard_normal_and_a_shift_shows(
    rng: np.random.Generator, summary: Any, error: Any
) -> None:
    pairs = rng.standard_normal((200, 2, 4, 250))
    found = np.array([deviation(one, two, summary, error) for one, two in pairs])
    # 10 % for the standard errors, which are estimates themselves.
    assert (
        0.9**2 * stats.chi2.ppf(FALSE_ALARM / 2, 200) < np.sum(found**2) < 1.1**2 * stats.chi2.isf(FALSE_ALARM / 2, 200)
    )
    shifted = [deviation(1.5 * one + 0.6, two, summary, error) for one, two in pairs[:20]]  # 10 standard errors off
    assert np.min(shifted) > stats.norm.isf(1e-3)


def test_every_release_has_its_own_likelihood() -> None:
    laws = set()
    for name, case in cases().items():
        made = plan(case.statistic, schema_of(case), guarantee=case.guarantee, mechanism=case.mechanism)
        release = simulate(made, case.population, at=case.truth, seed=1)
        model = joint_likelihood([release], case.population, likelihood=case.likelihood).groups[0]
        laws.add((type(model).__name__, release.law.family, str(release.statistic)))
        assert set(case.truth) == set(case.population.free), name
    assert len(laws) == len(cases())


@pytest.mark.parametrize("name", ["count", "local cells"])
def test_kernels_agree_with_exact_computation_on_the_same_release(rng: np.random.Generator, name: str) -> None:
    rows = rows_of(rng, (name, 1, settings()))
    assert all(list(row) == FIELDS == list(STUDY.columns) for row in rows)
    assert [row["method"] for row in rows] == ["exact", "mh", "slice"]
    # Standard errors come from some 400 effective draws in 20 chains: a t law with few degrees of freedom bounds it.
    limit = stats.t.isf(FALSE_ALARM / 8, 38)
    assert all(abs(row[field]) < limit for row in rows[1:] for field in ("deviation", "deviation_sd"))
    assert rows[0]["deviation"] is None
    assert "4 comparisons" in note(rows)
