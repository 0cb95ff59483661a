"""E1 and E2 for the conjugate families: exact posteriors of a proportion, a table, a count rate and a waiting rate are
calibrated through the mechanism at every n and epsilon, also where counts sit at 0 or n; the naive ones are not.

The quick tests run a few cells at a few hundred trials, the slow ones the whole grid at 2000. Every calibration has a
false-alarm rate of 1e-6 for all of its tests together: KS, bias, spread, and coverage at 50, 90 and 95 %.
"""

from __future__ import annotations

from typing import Any

import pytest

from noisewise.evaluate.calibration import Calibration, calibrate
from noisewise.inference.infer import infer
from noisewise.release import Release
from noisewise_papers.expfam import Experiment

ALARM = 1e-6
EXACT = ("binomial", "multinomial", "poisson", "exponential")
SIZES, BUDGETS = (10, 100, 1000), (0.01, 0.1, 1.0)
GRID = [(family, n, epsilon, ()) for family in EXACT for n in SIZES for epsilon in BUDGETS]
# Counts near 0, near n, at either; empty cells; rates so small that most records are 0; waits far beyond the window.
EDGES = [
    (family, n, epsilon, prior)
    for family, prior in (
        ("binomial", (0.5, 5.0)),
        ("binomial", (5.0, 0.5)),
        ("binomial", (0.1, 0.1)),
        ("multinomial", (0.2, 0.2, 3.0)),
        ("poisson", (0.5, 5.0)),
        ("exponential", (1.0, 1.0)),
    )
    for n in (10, 100)
    for epsilon in (0.1, 1.0)
]
Cell = tuple[str, int, float, tuple[float, ...]]


def name_of(cell: Cell) -> str:
    family, n, epsilon, prior = cell
    return f"{family}{prior or ''}-n{n}-eps{epsilon:g}".replace(" ", "")


def calibrated(cell: Cell, trials: int, method: str = "exact") -> Calibration:
    family, n, epsilon, prior = cell
    experiment = Experiment.of(family, n, epsilon, prior or None)
    return calibrate(experiment.plan, experiment.population, method=method, trials=trials, progress=False)


@pytest.mark.parametrize(
    ("cell", "trials"),
    [
        (("binomial", 10, 0.1, ()), 200),
        (("binomial", 1000, 0.01, ()), 200),
        (("binomial", 10, 1.0, (0.5, 5.0)), 200),
        (("binomial", 100, 1.0, (5.0, 0.5)), 200),
        (("multinomial", 10, 1.0, ()), 100),
        (("multinomial", 100, 0.1, (0.2, 0.2, 3.0)), 60),
        (("poisson", 10, 1.0, ()), 40),
        (("poisson", 100, 0.1, ()), 40),
        (("exponential", 10, 1.0, ()), 40),
        (("exponential", 1000, 0.01, ()), 40),
    ],
    ids=lambda value: name_of(value) if isinstance(value, tuple) else "",
)
def test_exact_posteriors_are_calibrated(cell: Cell, trials: int) -> None:
    found = calibrated(cell, trials)
    assert found.is_calibrated(ALARM), found.summary()


@pytest.mark.parametrize(
    ("cell", "trials"),
    [
        (("binomial", 1000, 0.01, ()), 60),
        (("multinomial", 1000, 0.01, ()), 40),
        (("poisson", 100, 0.1, ()), 60),
        (("exponential", 100, 0.1, ()), 60),
    ],
    ids=lambda value: name_of(value) if isinstance(value, tuple) else "",
)
def test_naive_posteriors_are_not(cell: Cell, trials: int) -> None:
    found = calibrated(cell, trials, "naive")
    assert not found.failures
    assert found.smallest_p_value < ALARM


@pytest.mark.grid(cells=16)
@pytest.mark.slow
@pytest.mark.parametrize("cell", GRID + EDGES, ids=name_of)
def test_exact_posteriors_are_calibrated_at_every_size_and_budget(cell: Cell) -> None:
    found = calibrated(cell, 2000)
    assert found.is_calibrated(ALARM), found.summary()


@pytest.mark.slow
def test_the_grid_sees_a_posterior_fifteen_percent_too_narrow() -> None:
    """Planted: exact draws, pulled towards their mean."""
    experiment = Experiment.of("binomial", 100, 0.1)

    def narrowed(releases: list[Release], population: Any, seed: int) -> dict[str, Any]:
        p = infer(releases, population, draws=100, seed=seed, progress=False).draws["p"]
        return {"p": p.mean() + 0.85 * (p - p.mean())}

    found = calibrate(experiment.plan, experiment.population, infer=narrowed, trials=2000, progress=False)
    assert found.smallest_p_value < ALARM
