"""selection-batch: does the more informative sum give the better estimate?

Records X ~ N(0, variance theta), clamped to [-bound, bound]; what is released is the mean of |x|^a with Gaussian or
Laplace noise for the sensitivity bound^a / n. For every mechanism and epsilon, `repeats` data sets are drawn at the
true theta, each is released by every statistic with the same standard noise, and the posterior mean under a flat prior
on (0, prior_high) is compared with theta (Alparslan & Yıldırım 2022, sections 5.1 and 5.2, Figures 6 and 7). Beside
the mean squared error stands the Fisher information of the release at theta, which is known before any record is seen.

Likelihood and information are those of the central limit theorem, as in the paper.
"""

from __future__ import annotations

import numpy as np

from noisewise.design.information import information_rows
from noisewise.statistics import Mean
from noisewise_papers.selection import (
    MECHANISMS,
    NoisySum,
    Point,
    Scene,
    draw,
    note,
    planned,
    points_of,
    power,
    standard_noise,
)
from noisewise_papers.setting import Setting
from noisewise_papers.study import Row, Rows, Setup, Study


def measure(setup: Setup) -> Rows:
    """One row a mechanism, epsilon and statistic."""
    found = setup.map(rows_at, points_of(setup.settings), "budgets")
    return [row for rows in found for row in rows]


def rows_at(rng: np.random.Generator, point: Point) -> list[Row]:
    """Every statistic at one mechanism and epsilon, on the same records and standard noise."""
    scene = Scene.of(rng, point)
    mechanism, epsilon, settings = point
    noise = standard_noise(rng, mechanism, settings["repeats"])
    rows = []
    for exponent in settings["exponent"]:
        plan = planned(Mean(power(exponent)), scene.schema, mechanism, epsilon)
        model = NoisySum.of(plan, scene.population, scene.grid.theta, exponent)
        matrices, _ = information_rows(plan, scene.population, {"variance": np.array([scene.theta])}, likelihood="clt")
        log_likelihood = model.log_likelihood(model.released(scene.records, noise))
        rows.append(scene.row(plan, float(matrices[0, 0, 0]), log_likelihood))
    return rows


STUDY = Study(
    name="selection-batch",
    about="Information of mean |x| and mean x^2 beside the error of the estimate.",
    source="Alparslan & Yıldırım (2022), Figures 6 and 7",
    settings={
        "n": Setting(int, 100, "records", at_least=2),
        "bound": Setting(float, 10.0, "records are clamped to [-bound, bound]", above=0),
        "theta": Setting(float, 2.0, "the true variance", above=0),
        "epsilon": Setting(
            float,
            (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, float("inf")),
            "of epsilon-GDP (gaussian) or epsilon-DP (laplace); inf: no privacy",
            above=0,
            may_be_infinite=True,
        ),
        "exponent": Setting(float, (1.0, 2.0), "the statistics are means of |x|^exponent", above=0),
        "mechanism": Setting(str, MECHANISMS, "the noise", choices=MECHANISMS),
        "prior_high": Setting(float, 100.0, "the prior is uniform on (0, prior_high)", above=0),
        "repeats": Setting(int, 1000, "data sets", full=10_000, at_least=2),
    },
    columns=("mechanism", "epsilon", "statistic", "information", "mse", "mse_se"),
    measure=measure,
    draw=draw,
    note=note,
)
