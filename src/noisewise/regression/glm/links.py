"""The moments of a response given s = beta_0 + beta' x, and their integrals over a normal s.

    logistic    m_k(s) = 1/(1 + e^-s)            for k = 1..4, since y is 0 or 1
    probit      m_k(s) = Phi(s)
    Poisson     m_k(s) = E min(y, B)^k, y ~ Poisson(e^s):  sums over y <= B, and what lies above at B. Where records
                above B were refused instead of clamped, m_k(s) = E y^k 1[y <= B], k = 0 too, divided by the share kept
With s = m + sigma t, t ~ N(0, 1), everything a row's moments need of the response is
    T_ij = E t^i m_j(s),      i + j <= 4,
by the trapezoidal rule on [-8, 8]. Its error is exp(-2 pi w/h) for steps h and a link that is smooth in a strip of
half-width w about the real line, w = pi/sigma (logistic), pi/2 sigma (Poisson): 41 nodes, and more where sigma is
large. No polynomial stands in for the link.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from noisewise.compilation import inner
from noisewise.types import Floats

LOGISTIC, PROBIT, POISSON = 0, 1, 2
ORDER = 5  # powers 0..4
REACH, WIDEST_STEP, MOST_NODES = 8.0, 0.4, 400  # nodes on each side of 0
STRIPS = np.array([0.75, 0.75, 0.3])  # h sigma at most, by link
ROOT_2 = math.sqrt(2.0)
ROOT_2_PI = math.sqrt(2.0 * math.pi)
NEGLIGIBLE = 1e-20  # a Poisson probability beside the largest


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """How a response follows s: its name, its compiled code, its mean, its draws, and what e^beta is called."""

    name: str
    code: int
    mean: Callable[[Floats], Floats]
    draw_at: Callable[[np.random.Generator, Floats], Floats]  # responses with these means
    width: float  # prior sd of s at a likely place, and of a slope times a likely sd
    is_count: bool = False
    ratio: str | None = None

    def draw(self, rng: np.random.Generator, s: Floats) -> Floats:
        """One response for each s."""
        return self.draw_at(rng, self.mean(s))


def _expit(s: Floats) -> Floats:
    from scipy.special import expit

    return np.asarray(expit(s))


def _ndtr(s: Floats) -> Floats:
    from scipy.special import ndtr

    return np.asarray(ndtr(s))


def _rate(s: Floats) -> Floats:
    return np.asarray(np.exp(np.minimum(s, 40.0)))


def _yes_no(rng: np.random.Generator, share: Floats) -> Floats:
    return np.asarray(rng.random(share.shape) < share, float)


def _counts(rng: np.random.Generator, rate: Floats) -> Floats:
    return np.asarray(rng.poisson(np.minimum(rate, 1e15)), float)


LOGIT_LINK = Link("logistic", LOGISTIC, _expit, _yes_no, 2.5, ratio="odds ratio")
PROBIT_LINK = Link("probit", PROBIT, _ndtr, _yes_no, 1.5)
POISSON_LINK = Link("Poisson", POISSON, _rate, _counts, 1.5, is_count=True, ratio="rate ratio")


@inner()
def response_moments(response: Floats, s: float, value: Floats, slope: Floats) -> None:
    """Write m_k(s) and dm_k/ds, k = 0..4, for (code, cap, whether counts above the cap were refused)."""
    code = int(response[0])
    if code == POISSON:
        _count_moments(response[1], response[2] > 0.0, s, value, slope)
        return
    if code == LOGISTIC:
        small = math.exp(-abs(s))
        share = 1.0 / (1.0 + small) if s > 0 else small / (1.0 + small)
        rise = small / (1.0 + small) ** 2
    elif code == PROBIT:
        share = 0.5 * math.erfc(-s / ROOT_2)
        rise = math.exp(-0.5 * s * s) / ROOT_2_PI
    else:
        share = math.nan
        rise = math.nan
    value[0] = 1.0
    slope[0] = 0.0
    for k in range(1, ORDER):
        value[k] = share
        slope[k] = rise


@inner()
def _count_moments(cap: float, is_kept: bool, s: float, value: Floats, slope: Floats) -> None:
    """Those of a Poisson count, from its likeliest value within the cap downwards and upwards."""
    value.fill(0.0)
    slope.fill(0.0)
    s = min(max(s, -600.0), 600.0)
    rate = math.exp(s)
    start = cap if rate >= cap else float(math.floor(rate))
    top = math.exp(start * s - rate - math.lgamma(start + 1.0)) if rate < 1e15 else 0.0
    y, p = start, top
    for direction in (-1, 1):
        if direction == 1:
            y, p = start + 1.0, top * rate / (start + 1.0)
        while 0.0 <= y <= cap and p > NEGLIGIBLE * top:
            power = 1.0
            for k in range(ORDER):
                value[k] += power * p
                if is_kept:
                    slope[k] += power * (y - rate) * p
                elif y < cap:
                    slope[k] += rate * p * ((y + 1.0) ** k - power)
                power *= y
            step = (y + 1.0) if direction == 1 else y
            p = p * rate / step if direction == 1 else p * step / rate
            y += direction
    if not is_kept and y > cap:
        above = max(0.0, 1.0 - value[0])
        if rate < y + 1.0:  # 1 - sum is rounding where hardly anything lies above: no more than a geometric tail does
            above = min(above, p / (1.0 - rate / (y + 1.0)))
        power = 1.0
        for k in range(ORDER):
            value[k] += power * above
            power *= cap


@inner(allocates=True)
def scalar_moments(response: Floats, m: float, sigma: float, moment: Floats, by_m: Floats, by_sigma: Floats) -> float:
    """Write T (5, 5) at i + j <= 4 and its slopes in m and sigma, of the rows that were kept; return their share.

    Where the response alone matters (sigma = 0) t is 0.
    """
    value, slope = np.empty(ORDER), np.empty(ORDER)
    moment.fill(0.0)
    by_m.fill(0.0)
    by_sigma.fill(0.0)
    step = min(WIDEST_STEP, STRIPS[int(response[0])] / max(sigma, 1e-300))
    half = min(math.ceil(REACH / step), MOST_NODES) if sigma > 0.0 else 0
    step = REACH / max(half, 1)
    for node in range(-half, half + 1):
        t = node * step
        weight = step * math.exp(-0.5 * t * t) / ROOT_2_PI if half else 1.0
        response_moments(response, m + sigma * t, value, slope)
        for j in range(ORDER):
            power = weight
            for i in range(ORDER - j):
                moment[i, j] += power * value[j]
                by_m[i, j] += power * slope[j]
                by_sigma[i, j] += power * t * slope[j]
                power *= t
    share = moment[0, 0]
    if not share > 0.0:
        return 0.0
    _divide(moment, by_m, by_sigma)
    return float(share)


@inner()
def _divide(moment: Floats, by_m: Floats, by_sigma: Floats) -> None:
    """T/T_00 in place, with its slopes; those of T_00 itself stay, of its logarithm."""
    share = moment[0, 0]
    first_m, first_sigma = by_m[0, 0] / share, by_sigma[0, 0] / share
    for i in range(ORDER):
        for j in range(ORDER - i):
            moment[i, j] /= share
            by_m[i, j] = by_m[i, j] / share - moment[i, j] * first_m
            by_sigma[i, j] = by_sigma[i, j] / share - moment[i, j] * first_sigma
    by_m[0, 0], by_sigma[0, 0] = first_m, first_sigma
