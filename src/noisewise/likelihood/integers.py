"""A noisy sum of n independent whole numbers, exactly: n-fold convolution, then the noise.

If X_i in {0..B} has probabilities f_theta, S = X_1 + .. + X_n has the n-fold convolution f^{*n}, and
    p(y | theta) = sum_s f^{*n}(s) P(y | s).
Convolution is by repeated squaring of positive numbers: nothing cancels. Each factor is tilted by e^{lambda x}, which
multiplies f^{*n}(s) by e^{lambda s}, with lambda chosen row by row so that the tilted mean of S is `centre`:
probabilities there are relatively exact however rare they are under theta.
Cost about (n B)^2 multiplications a row; meant for n B up to some 10^4.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from noisewise.types import Floats

__all__ = ["log_likelihood", "sum_log_pmf"]

SMALLEST = 1e-290


def sum_log_pmf(log_pmf: ArrayLike, *, n: int, centre: float | None = None) -> Floats:
    """log P(S = s), (K, nB + 1), from log_pmf (K, B + 1); relatively exact near `centre` (by default near E S).

    Probabilities more than e^{-650} below the tilted peak are reported as -inf.
    """
    log_pmf = np.atleast_2d(np.asarray(log_pmf, dtype=np.float64))
    return np.stack([_row(row, n, centre) for row in log_pmf])


def log_likelihood(log_pmf: ArrayLike, log_noise: ArrayLike, *, n: int, centre: float | None = None) -> Floats:
    """log p(y | theta), (K,), from log_noise (nB + 1,), the log P(y | s)."""
    logs = sum_log_pmf(log_pmf, n=n)
    if centre is not None:
        # A release beyond the largest sum tilts all mass to that end, and the bulk, which wide noise reaches, is lost.
        # Each of the two is relatively exact or -inf, so the larger is right.
        logs = np.maximum(logs, sum_log_pmf(log_pmf, n=n, centre=centre))
    return np.asarray(logsumexp(logs + np.asarray(log_noise), axis=-1))


def _row(log_pmf: Floats, n: int, centre: float | None) -> Floats:
    x = np.arange(log_pmf.size)
    tilt = 0.0 if centre is None else _tilt(log_pmf, centre / n)
    tilted = log_pmf + tilt * x
    scale = float(logsumexp(tilted))
    law = _power(np.exp(tilted - scale), n)
    with np.errstate(divide="ignore"):
        logs = np.where(law > SMALLEST, np.log(law), -np.inf)
    return np.asarray(logs + n * scale - tilt * np.arange(law.size))


def _power(law: Floats, n: int) -> Floats:
    """law convolved with itself n times."""
    result = np.ones(1)
    while n:
        if n & 1:
            result = np.convolve(result, law)
        n >>= 1
        if n:
            law = np.convolve(law, law)
    return result


def _tilt(log_pmf: Floats, mean: float) -> float:
    """lambda at which the tilted law of one value has this mean, as far as its support allows."""
    x = np.arange(log_pmf.size)
    low, high = -200.0, 200.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        tilted = log_pmf + middle * x
        law = np.exp(tilted - np.max(tilted))
        low, high = (middle, high) if float(law @ x) < mean * float(law.sum()) else (low, middle)
    return 0.5 * (low + high)
