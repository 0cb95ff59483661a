"""How far a mean over independent runs or repeats can be trusted: its range under resampling (Efron 1979)."""

from __future__ import annotations

import numpy as np

from noisewise.populations.parameters import Array

RESAMPLES = 2000


def mean_with_range(rng: np.random.Generator, values: Array) -> tuple[float, float, float]:
    """The mean, and the 5 % and 95 % points of the mean of as many values drawn from these again."""
    again = [rng.choice(values, values.size).mean() for _ in range(RESAMPLES)]
    return float(values.mean()), float(np.quantile(again, 0.05)), float(np.quantile(again, 0.95))
