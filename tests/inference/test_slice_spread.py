"""The spread of sliced draws is that of the posterior: known moments, and an error of 1 % in an sd would show.

Many chains of few steps leave a Monte Carlo error of an sd below 0.1 %. Warm-up learns one walk from all chains and
then leaves it alone, so they are as good as independent, and the error is told by their differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from noisewise.inference.kernels.leaping_slice import LeapingSlice
from noisewise.inference.kernels.slice import Slice
from noisewise.inference.run import run

Array = np.ndarray
ALARM = stats.norm.isf(0.5e-6)  # two-sided, 1e-6
CHAINS, WARMUP, DRAWS = 30_000, 60, 110


@dataclass(frozen=True)
class Rate:
    """theta ~ Exponential(1), 3 waiting times of total 2: theta | y ~ Gamma(4, 3), walked as x = log theta."""

    size = 1
    mean, sd = np.array([4 / 3]), np.array([2 / 3])

    def log_prior(self, x: Array) -> Array:
        return x[:, 0] - np.exp(x[:, 0])

    def log_likelihood(self, x: Array) -> Array:
        return 3 * x[:, 0] - 2 * np.exp(x[:, 0])

    def draw_prior(self, rng: np.random.Generator, count: int) -> Array:
        return np.log(rng.standard_exponential((count, 1)))

    def theta(self, x: Array) -> Array:
        return np.exp(x)


@dataclass(frozen=True)
class Share:
    """theta ~ Uniform(0, 1), 1 of 5: theta | y ~ Beta(2, 5), walked as x = logit theta."""

    size = 1
    mean, sd = np.array([stats.beta.mean(2, 5)]), np.array([stats.beta.std(2, 5)])

    def log_prior(self, x: Array) -> Array:
        return special.log_expit(x[:, 0]) + special.log_expit(-x[:, 0])

    def log_likelihood(self, x: Array) -> Array:
        return special.log_expit(x[:, 0]) + 4 * special.log_expit(-x[:, 0])

    def draw_prior(self, rng: np.random.Generator, count: int) -> Array:
        return rng.logistic(size=(count, 1))

    def theta(self, x: Array) -> Array:
        return special.expit(x)


@dataclass(frozen=True)
class MeanAndPrecision:
    """tau ~ Gamma(3, 3), mu | tau ~ N(0, 1/tau); 4 values of sum 4, of squares 10: normal-gamma, closed.

    tau | y ~ Gamma(5, 3 + (10 - 4^2/5)/2 = 6.4), mu | tau, y ~ N(4/5, 1/(5 tau)); walked as (mu, log tau).
    """

    size = 2
    mean = np.array([0.8, 5 / 6.4])
    sd = np.array([np.sqrt(6.4 / 4 / 5), np.sqrt(5) / 6.4])  # E 1/tau = 6.4/4

    def log_prior(self, x: Array) -> Array:
        mu, log_tau = x.T
        return 3.5 * log_tau - (3 + mu**2 / 2) * np.exp(log_tau)

    def log_likelihood(self, x: Array) -> Array:
        mu, log_tau = x.T
        return 2 * log_tau - (10 - 8 * mu + 4 * mu**2) / 2 * np.exp(log_tau)

    def draw_prior(self, rng: np.random.Generator, count: int) -> Array:
        tau = rng.gamma(3, 1 / 3, count)
        return np.column_stack([rng.standard_normal(count) / np.sqrt(tau), np.log(tau)])

    def theta(self, x: Array) -> Array:
        return np.stack([x[..., 0], np.exp(x[..., 1])], axis=-1)


TARGETS = {"rate": Rate(), "share": Share(), "mean and precision": MeanAndPrecision()}
KERNELS: dict[str, Any] = {
    "slice": Slice,
    "slice of few widths": partial(Slice, most_widths=2),
    "slice with leaps": LeapingSlice,
}


def standard_scores(make_kernel: Any, target: Any, seed: int) -> tuple[Array, Array, Array]:
    """How far mean and sd are from the known ones in Monte Carlo errors, and the error of the sd in sds."""
    found = run(np.random.default_rng(seed), make_kernel, target, chains=CHAINS, warmup=WARMUP, draws=DRAWS)
    away = (target.theta(found.positions) - target.mean) / target.sd
    scores = []
    for moment in (away.mean(axis=1), np.square(away).mean(axis=1) - 1):  # one number for each chain
        error = moment.std(axis=0) / np.sqrt(CHAINS)
        scores.append((moment.mean(axis=0) / error, error))
    (mean_score, _), (sd_score, square_error) = scores
    return mean_score, sd_score, square_error / 2  # an sd is off by half of what its square is


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_mean_and_sd_of_sliced_draws_are_the_known_ones(kernel: str, name: str, rng: np.random.Generator) -> None:
    mean_score, sd_score, error = standard_scores(KERNELS[kernel], TARGETS[name], int(rng.integers(2**32)))
    assert np.all(2 * ALARM * error < 0.01)  # an sd 1 % off lies twice as far out as the alarm
    assert np.all(np.abs(mean_score) < ALARM)
    assert np.all(np.abs(sd_score) < ALARM)
