"""selection-local: which question should each person answer?

As `selection-batch`, but nobody collects the records: each person answers |x|^a with noise of their own, for the
sensitivity bound^a (Alparslan & Yıldırım 2022, section 5.5, Figure 9). All n answers are kept; their likelihood is
the product of the exact densities of one noisy answer, and the information is n times that of one answer.

Noise on every answer is much more noise: interesting epsilons are larger. Without privacy every power of |x| tells |x|
itself, so all statistics are then equal.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from noisewise.design.blank import blank_release
from noisewise.design.information import information_rows
from noisewise.likelihood.local_answers import LocalAnswers
from noisewise.planning import Plan
from noisewise.populations.parameters import Array
from noisewise.populations.population import Population
from noisewise.statistics import Records
from noisewise_papers.selection import (
    MECHANISMS,
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

PIECE = 4_000_000  # densities at once


def measure(setup: Setup) -> Rows:
    """One row a mechanism, epsilon and statistic."""
    found = setup.map(rows_at, points_of(setup.settings), "budgets")
    return [row for rows in found for row in rows]


def rows_at(rng: np.random.Generator, point: Point) -> list[Row]:
    """Every statistic at one mechanism and epsilon, on the same records and standard noise."""
    scene = Scene.of(rng, point)
    mechanism, epsilon, settings = point
    records, bound, theta = scene.records, settings["bound"], scene.grid.theta
    noise = standard_noise(rng, mechanism, records.shape)
    rows = []
    for exponent in settings["exponent"]:
        plan = planned(Records(power(exponent)), scene.schema, mechanism, epsilon)
        if math.isinf(epsilon):
            told = told_by_records(settings["n"], bound, scene.theta)
            log_likelihood = records_log_likelihood(records, bound, theta)
        else:
            told = float(information_rows(plan, scene.population, {"variance": np.array([scene.theta])})[0][0, 0, 0])
            answers = np.abs(records) ** exponent + noise_scale(plan, scene.population) * noise
            log_likelihood = answers_log_likelihood(plan, scene.population, answers, theta)
        rows.append(scene.row(plan, told, log_likelihood))
    return rows


def noise_scale(plan: Plan, population: Population) -> float:
    """Laplace b, or the Gaussian sd, on one answer."""
    return LocalAnswers(blank_release(plan), population, n=1).scale


def answers_log_likelihood(plan: Plan, population: Population, answers: Array, theta: Array) -> Array:
    """log p of each data set of noisy answers (R, n) at each theta: (G, R)."""
    model = LocalAnswers(blank_release(plan), population, n=1)
    repeats, n = answers.shape
    pieces = np.array_split(answers, min(repeats, max(1, answers.size * theta.size // PIECE)))
    found = [model.density(piece.ravel(), {"variance": theta}).reshape(theta.size, -1, n) for piece in pieces]
    return np.concatenate([piece.sum(axis=2) for piece in found], axis=1)


def records_log_likelihood(records: Array, bound: float, theta: Array) -> Array:
    """log p of the clamped records themselves, (G, R): a density inside, atoms Phi(-bound / sqrt(theta)) outside."""
    is_inside = np.abs(records) < bound
    count, squares = is_inside.sum(axis=1), np.where(is_inside, np.square(records), 0.0).sum(axis=1)
    beyond = log_ndtr(-bound / np.sqrt(theta))[:, None] * (records.shape[1] - count)
    return np.asarray(-0.5 * (squares / theta[:, None] + count * np.log(theta)[:, None]) + beyond)


def told_by_records(n: int, bound: float, theta: float) -> float:
    """The information of n clamped records on theta.

    With a = bound / sqrt(theta), T = 2 Phi(-a): inside, E[(x^2/theta - 1)^2; |x| < bound] / (4 theta^2), and the atom
    adds (dT/dtheta)^2 / T with dT/dtheta = a phi(a) / theta.
    """
    a = bound / math.sqrt(theta)
    bell, beyond = math.exp(-0.5 * a * a) / math.sqrt(2 * math.pi), math.erfc(a / math.sqrt(2))
    inside = 2 * (1 - beyond) - 2 * bell * a * (a * a + 1)
    atom = (a * bell) ** 2 / beyond if beyond > 0 else 0.0
    return n * (0.25 * inside + atom) / theta**2


STUDY = Study(
    name="selection-local",
    about="Information of local answers |x| and x^2 beside the error of the estimate.",
    source="Alparslan & Yıldırım (2022), Figure 9",
    settings={
        "n": Setting(int, 100, "people", at_least=2),
        "bound": Setting(float, 10.0, "records are clamped to [-bound, bound]", above=0),
        "theta": Setting(float, 2.0, "the true variance", above=0),
        "epsilon": Setting(
            float,
            (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, float("inf")),
            "of epsilon-DP (laplace) or epsilon-GDP (gaussian); inf: no privacy",
            above=0,
            may_be_infinite=True,
        ),
        "exponent": Setting(float, (1.0, 2.0), "the answers are |x|^exponent", above=0),
        "mechanism": Setting(str, ("laplace",), "the noise", choices=MECHANISMS),
        "prior_high": Setting(float, 100.0, "the prior is uniform on (0, prior_high)", above=0),
        "repeats": Setting(int, 150, "data sets", full=500, at_least=2),
    },
    columns=("mechanism", "epsilon", "statistic", "information", "mse", "mse_se"),
    measure=measure,
    draw=draw,
    note=note,
)
