"""What a record gives to a published sum and to the sufficient one, below, inside and above a window.

A sum is published of r(x): x itself inside the window [v, w], its end (clamped) or nothing (redacted) outside. The
family's sufficient statistic sums t(x) = x, or (x, x^2), over everybody. All that the random-sum central limit theorem
needs of both are E[x^k; region], k up to twice the highest power, which are closed:
    exponential   E[x^k; x > v] = e^{-v rate} (moments of v + x);  between by incomplete gamma integrals
    Poisson       E[x(x-1)...(x-k+1); v <= x <= w] = rate^k P(v - k <= X <= w - k)
    normal        m_k = (k - 1) m_{k-2} + v^{k-1} phi(v) - w^{k-1} phi(w), of the standardised record
Every one is a sum of positive terms, or a quadrature where it would not be, so it is right to rounding however little
mass a region has. Region 0 lies below the window, 1 inside, 2 above.
"""

from __future__ import annotations

import math

from noisewise.compilation import njit
from noisewise.likelihood.quadrature import gauss_legendre
from noisewise.types import Floats

__all__ = ["exponential_regions", "joint_moments", "normal_regions", "poisson_regions"]

ROOT_2 = math.sqrt(2.0)
ROOT_2PI = math.sqrt(2.0 * math.pi)
NODES, WEIGHTS = gauss_legendre(16)
NARROW = 1.0  # a standardised window below this width is integrated by 16 nodes, right to rounding
SHORT = 2.0  # likewise for a window of the exponential, in units of its mean


@njit(cache=True)
def exponential_regions(rate: float, low: float, high: float, out: Floats) -> None:
    """E[x^k; region], k = 0..2, of an exponential record into out (3, 3)."""
    v, w = max(low, 0.0), max(high, 0.0)
    _exponential_between(rate, 0.0, v, out[0])
    _exponential_between(rate, v, w, out[1])
    tail, mean = math.exp(-rate * w), 1.0 / rate
    out[2, 0] = tail
    out[2, 1] = tail * (w + mean)
    out[2, 2] = tail * (w * w + 2.0 * mean * (w + mean))


@njit(cache=True)
def _exponential_between(rate: float, v: float, w: float, out: Floats) -> None:
    """e^{-v rate} int_0^{w-v} (v + u)^k rate e^{-rate u} du: short windows by nodes, long ones by incomplete gammas."""
    x, mean = rate * (w - v), 1.0 / rate
    out[:] = 0.0
    if x <= 0.0:
        return
    if x < SHORT:
        for j in range(NODES.size):
            u = 0.5 * x * (1.0 + NODES[j])
            weight, at = 0.5 * x * WEIGHTS[j] * math.exp(-rate * v - u), v + u * mean
            out[0] += weight
            out[1] += weight * at
            out[2] += weight * at * at
        return
    start, left = math.exp(-rate * v), math.exp(-x)
    zeroth = 1.0 - left
    first = mean * (1.0 - left * (1.0 + x))
    second = mean * mean * (2.0 - left * (2.0 + x * (2.0 + x)))
    out[0] = start * zeroth
    out[1] = start * (v * zeroth + first)
    out[2] = start * (v * (v * zeroth + 2.0 * first) + second)


@njit(cache=True)
def poisson_regions(rate: float, low: float, high: float, out: Floats) -> None:
    """E[x^k; region], k = 0..2, of a Poisson record into out (3, 3), by factorial moments."""
    first, last = max(math.ceil(low), 0.0), math.floor(high)
    below = _poisson_tail(rate, first - 1.0, True)
    above = _poisson_tail(rate, last + 1.0, False)
    for k in range(3):
        # rate^k P(X <= first - 1 - k) and rate^k P(X >= last + 1 - k).
        size = rate**k
        out[0, k], out[2, k] = size * below[2 - k], size * above[k]
    lower, upper = _poisson_tail(rate, last, True), _poisson_tail(rate, first, False)
    for k in range(3):
        # P(first - k <= X <= last - k), as the difference of whichever tails are the smaller.
        if last < first:
            inside = 0.0
        elif above[k] + below[2 - k] < 0.5:
            inside = 1.0 - above[k] - below[2 - k]
        elif above[k] > below[2 - k]:
            inside = lower[2 - k] - below[2 - k]
        else:
            inside = upper[k] - above[k]
        out[1, k] = rate**k * max(inside, 0.0)
    for region in range(3):
        out[region, 2] += out[region, 1]


@njit(cache=True)
def _poisson_tail(rate: float, at: float, is_lower: bool) -> tuple[float, float, float]:
    """P(X <= at - 2), P(X <= at - 1), P(X <= at); or P(X >= at), P(X >= at - 1), P(X >= at - 2): outermost first."""
    start = at - 2.0 if is_lower else at
    tail = _poisson_cdf(rate, start) if is_lower else _poisson_survival(rate, start)
    step = 1.0 if is_lower else -1.0
    one = tail + _poisson_mass(rate, start + step)
    two = one + _poisson_mass(rate, start + 2.0 * step)
    return tail, one, two


@njit(cache=True)
def _poisson_mass(rate: float, k: float) -> float:
    if k < 0.0:
        return 0.0
    return math.exp(k * math.log(rate) - rate - math.lgamma(k + 1.0))


@njit(cache=True)
def _poisson_cdf(rate: float, k: float) -> float:
    """P(X <= k)."""
    if k < 0.0:
        return 0.0
    p: float = _gamma_tail(k + 1.0, rate) if rate > k + 2.0 else 1.0 - _gamma_series(k + 1.0, rate)
    return p


@njit(cache=True)
def _poisson_survival(rate: float, k: float) -> float:
    """P(X >= k)."""
    if k <= 0.0:
        return 1.0
    p: float = 1.0 - _gamma_tail(k, rate) if rate > k + 1.0 else _gamma_series(k, rate)
    return p


@njit(cache=True)
def _gamma_series(shape: float, x: float) -> float:
    """The regularised lower incomplete gamma function for x <= shape + 1: a series of positive terms."""
    term = 1.0 / shape
    total = term
    k = shape
    while term > 1e-17 * total:
        k += 1.0
        term *= x / k
        total += term
    return total * math.exp(shape * math.log(x) - x - math.lgamma(shape))


@njit(cache=True)
def _gamma_tail(shape: float, x: float) -> float:
    """The regularised upper incomplete gamma function for x > shape + 1, by Lentz's continued fraction."""
    b = x + 1.0 - shape
    c, d = 1e300, 1.0 / b
    h = d
    for i in range(1, 100_000):
        a = -i * (i - shape)
        b += 2.0
        d = 1.0 / (a * d + b)
        c = b + a / c
        change = d * c
        h *= change
        if abs(change - 1.0) < 1e-16:
            break
    return h * math.exp(shape * math.log(x) - x - math.lgamma(shape))


@njit(cache=True)
def normal_regions(low: float, high: float, out: Floats) -> None:
    """E[z^k; region], k = 0..4, of a standard normal z into out (3, 5)."""
    _normal_between(-math.inf, low, out[0])
    _normal_between(low, high, out[1])
    _normal_between(high, math.inf, out[2])


@njit(cache=True)
def _normal_between(v: float, w: float, out: Floats) -> None:
    """By nodes where the window is narrow, else by the recurrence from the nearer tail."""
    if w - v < NARROW:
        half, out[:] = 0.5 * (w - v), 0.0
        for j in range(NODES.size):
            z = v + half * (1.0 + NODES[j])
            weight = half * WEIGHTS[j] * math.exp(-0.5 * z * z) / ROOT_2PI
            for k in range(5):
                out[k] += weight
                weight *= z
        return
    at_v = math.exp(-0.5 * v * v) / ROOT_2PI
    at_w = math.exp(-0.5 * w * w) / ROOT_2PI
    if v > 0.0:
        out[0] = 0.5 * (math.erfc(v / ROOT_2) - math.erfc(w / ROOT_2))
    else:
        out[0] = 0.5 * (math.erfc(-w / ROOT_2) - math.erfc(-v / ROOT_2))
    out[1] = at_v - at_w
    for k in range(2, 5):
        # A density of 0 stands for an end that is infinite, or so far that its power does not matter.
        at_v = at_v * v if at_v != 0.0 else 0.0
        at_w = at_w * w if at_w != 0.0 else 0.0
        out[k] = (k - 1) * out[k - 2] + at_v - at_w


@njit(cache=True)
def joint_moments(
    regions: Floats, ends: Floats, is_independent: bool, mean: Floats, rr: Floats, sr: Floats, ss: Floats
) -> None:
    """Moments of one record's powers (1, x, x^2, ...) as published, r, and as they are, s.

    `ends` (2, powers) holds the powers that stand for a record below and above the window: those of the end it is
    clamped to, or zeros where it is redacted. Fills the mean of r and the covariances of (r, r), (s, r) and (s, s).
    The three regions' parts exclude each other, so they are negatively correlated (N_below + N_inside + N_above = n);
    with `is_independent` they are taken as independent, as in Bernstein & Sheldon (2018).
    """
    size = mean.size
    for k in range(size):
        mean[k] = regions[1, k] + ends[0, k] * regions[0, 0] + ends[1, k] * regions[2, 0]
    for k in range(size):
        for j in range(size):
            if is_independent:
                _independent_entry(regions, ends, k, j, rr, sr, ss)
            else:
                _joint_entry(regions, ends, k, j, mean, rr, sr, ss)


@njit(cache=True)
def _joint_entry(
    regions: Floats, ends: Floats, k: int, j: int, mean: Floats, rr: Floats, sr: Floats, ss: Floats
) -> None:
    """E[(s_k - E s_k)(r_j - E r_j)] and its like, about the means region by region: what is constant cancels there."""
    whole_k = regions[0, k] + regions[1, k] + regions[2, k]
    whole_j = regions[0, j] + regions[1, j] + regions[2, j]
    whole = regions[0, k + j] + regions[1, k + j] + regions[2, k + j]
    q, square = regions[1, 0], regions[1, k + j]
    below, above = ends[0, j] - mean[j], ends[1, j] - mean[j]
    rr[k, j] = (
        square - mean[k] * regions[1, j] - mean[j] * regions[1, k] + q * mean[k] * mean[j]
        + (ends[0, k] - mean[k]) * below * regions[0, 0] + (ends[1, k] - mean[k]) * above * regions[2, 0]
    )  # fmt: skip
    sr[k, j] = (
        square - whole_k * regions[1, j] - mean[j] * regions[1, k] + q * whole_k * mean[j]
        + below * (regions[0, k] - whole_k * regions[0, 0]) + above * (regions[2, k] - whole_k * regions[2, 0])
    )  # fmt: skip
    ss[k, j] = whole - whole_k * whole_j


@njit(cache=True)
def _independent_entry(regions: Floats, ends: Floats, k: int, j: int, rr: Floats, sr: Floats, ss: Floats) -> None:
    """The random-sum variance q V + q(1 - q) m m' of each region's part, added up."""
    inside = regions[1, k + j] - regions[1, k] * regions[1, j]
    rr[k, j] = sr[k, j] = ss[k, j] = inside
    for side in range(2):
        region = 2 * side
        q = regions[region, 0]
        rr[k, j] += ends[side, k] * ends[side, j] * q * (1.0 - q)
        sr[k, j] += ends[side, j] * regions[region, k] * (1.0 - q)
        ss[k, j] += regions[region, k + j] - regions[region, k] * regions[region, j]
