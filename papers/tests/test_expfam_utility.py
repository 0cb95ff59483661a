"""expfam-utility: nothing but Monte Carlo error between a posterior and itself, and less distance with less noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from noisewise_papers.expfam import batches_of
from noisewise_papers.expfam_utility import STUDY, discrepancies
from noisewise_papers.setting import read_settings

FIELDS = ["family", "n", "epsilon", "method", "mmd"]


def found(rng: np.random.Generator, **given: Any) -> dict[str, Any]:
    """MMD^2 of every trial, by method."""
    batches = batches_of(read_settings(STUDY.settings, given, full=False))
    each = [discrepancies(rng, batch) for batch in batches]
    return {method: np.concatenate([one[method] for one in each]) for method in each[0]}


def test_the_non_private_posterior_is_at_no_distance_from_itself() -> None:
    """The estimate is unbiased: its mean over 200 trials is 0 within its error, and noise moves it away."""
    rng = np.random.default_rng(np.random.SeedSequence().entropy)
    values = found(rng, family="exponential", n=20, epsilon=1, trials=200, method="non-private,one-posterior-sampling")
    own = values["non-private"]
    limit = stats.t.isf(1e-6 / 2, own.size - 1)
    assert abs(own.mean() / own.std(ddof=1)) * np.sqrt(own.size) < limit
    other = values["one-posterior-sampling"]
    assert abs(other.mean() / other.std(ddof=1)) * np.sqrt(other.size) > limit


def test_the_distance_is_that_of_the_two_beta_laws() -> None:
    """Two records, epsilon tiny: the exact posterior is the prior, so MMD^2 from the non-private one is an integral."""
    rng = np.random.default_rng(np.random.SeedSequence().entropy)
    values = found(rng, family="binomial", n=2, epsilon=1e-6, prior="1,1", trials=100, method="exact")["exact"]
    grid = np.linspace(0, 1, 401)
    kernel = np.exp(-0.5 * (grid[:, None] - grid) ** 2)
    each = []
    for s, weight in ((0, 1 / 3), (1, 1 / 3), (2, 1 / 3)):  # a uniform p gives every count the same chance
        difference = stats.beta(1 + s, 3 - s).pdf(grid) - 1
        cell = np.gradient(grid)
        each.append(weight * (difference * cell) @ kernel @ (difference * cell))
    error = values.std(ddof=1) / np.sqrt(values.size)
    assert abs(values.mean() - sum(each)) < stats.t.isf(1e-6 / 2, values.size - 1) * error + 1e-4


def test_less_noise_means_less_distance_and_the_naive_posterior_is_farther() -> None:
    rows = STUDY.run(
        {"family": "binomial", "n": 100, "epsilon": "0.01,1", "trials": 40, "method": "exact,naive"}, workers=1
    ).rows
    assert [list(row) for row in rows] == [FIELDS] * 4
    assert list(STUDY.columns) == FIELDS
    value = {(row["epsilon"], row["method"]): row["mmd"] for row in rows}
    assert value[1.0, "exact"] < value[0.01, "exact"] / 5
    assert value[0.01, "exact"] < value[0.01, "naive"] / 2
    assert "exact is nearer than naive in" in STUDY.note(rows)


def test_the_figure_is_drawn(tmp_path: Any) -> None:
    rows = STUDY.run(
        {"family": "binomial,multinomial", "n": "10,100", "epsilon": "1", "trials": 3, "method": "exact,non-private"},
        workers=1,
    ).rows
    STUDY.plot(rows, tmp_path / "utility.png")
    assert (tmp_path / "utility.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", ["family", "n", "epsilon", "trials", "prior", "method"])
def test_every_announced_setting_is_there(name: str) -> None:
    assert name in STUDY.settings
