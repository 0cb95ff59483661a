"""One record of a sum as atoms and an exponential piece: its moments under every tilt, compiled.

    X = x_j with probability e^{l_j};   else density e^{h - kappa (x - c)} on [c, c + w]
A tilt s multiplies the law by e^{sx}, which keeps this form (kappa becomes kappa - s), so that
    E e^{sX} = sum_j e^{l_j + s x_j} + w e^{h + s c} E((s - kappa) w),   E(z) = (e^z - 1)/z,
is closed for complex s too. A waiting time that is clamped, truncated or redacted is of this form, and so is every
whole number between bounds (no piece).

`ends` bounds the sum of n such records under a tilt by Chernoff's inequality: outside lies less than e^{-37} on either
side, whatever the law; any argument of the inequality is valid, so the search for a good one may be short.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from noisewise.compilation import njit
from noisewise.types import Floats

NEGLIGIBLE = 37.0  # e^-37 is below the rounding of a double
NO_PIECE = (-np.inf, 0.0, 0.0, 1.0)


@njit(cache=True, inline="always")
def log_mean_exp(z: float) -> float:
    """log((e^z - 1)/z)."""
    if abs(z) < 1e-5:
        return 0.5 * z + z * z / 24.0
    if z > 0.0:
        return z + math.log(-math.expm1(-z) / z)
    return math.log(math.expm1(z) / z)


@njit(cache=True)
def unit_moments(z: float) -> tuple[float, float]:
    """Mean and variance of the density proportional to e^{zu} on [0, 1]."""
    if abs(z) < 0.05:
        q = z * z
        return 0.5 + z / 12.0 - z * q / 720.0, 1.0 / 12.0 - q / 240.0 + q * q / 6048.0
    small = math.exp(-abs(z))
    away = 1.0 / abs(z) - small / (1.0 - small)  # the distance from the end where the mass is
    variance = 1.0 / (z * z) - small / (1.0 - small) ** 2
    return (1.0 - away if z > 0 else away), variance


@njit(cache=True)
def tilted(s: float, atoms: Floats, logs: Floats, piece: Floats) -> tuple[float, float, float, float]:
    """Under weights e^{sx}: log E e^{sX}, the mean and variance of X, and the log of the share off the atoms."""
    top, origin = -np.inf, 0.0  # moments are taken about the heaviest part, so that a small variance keeps its digits
    for j in range(atoms.size):
        at = logs[j] + s * atoms[j]
        if at > top:
            top, origin = at, atoms[j]
    height, kappa, low, width = piece[0], piece[1], piece[2], piece[3]
    log_piece, piece_mean, piece_variance = -np.inf, 0.0, 0.0
    if height > -np.inf:
        unit_mean, unit_variance = unit_moments((s - kappa) * width)
        piece_mean, piece_variance = low + width * unit_mean, width * width * unit_variance
        log_piece = height + math.log(width) + s * low + log_mean_exp((s - kappa) * width)
        if log_piece > top:
            top, origin = log_piece, piece_mean
    total, first, second = 0.0, 0.0, 0.0
    for j in range(atoms.size):
        weight = math.exp(logs[j] + s * atoms[j] - top)
        x = atoms[j] - origin
        total += weight
        first += weight * x
        second += weight * x * x
    if log_piece > -np.inf:
        weight = math.exp(log_piece - top)
        x = piece_mean - origin
        total += weight
        first += weight * x
        second += weight * (piece_variance + x * x)
    mean = first / total
    log_moment = top + math.log(total)
    return log_moment, origin + mean, max(second / total - mean * mean, 0.0), log_piece - log_moment


@njit(cache=True)
def transform(
    s: float, omega: float, centre: float, log_moment: float, atoms: Floats, logs: Floats, piece: Floats
) -> Any:
    """E e^{(s + i omega)(X - centre)} under the tilted law, as its parts on the atoms and off them."""
    on = 0j
    for j in range(atoms.size):
        angle = omega * (atoms[j] - centre)
        on += math.exp(logs[j] + s * atoms[j] - log_moment) * complex(math.cos(angle), math.sin(angle))
    if piece[0] == -np.inf:
        return on, 0j
    kappa, low, width = piece[1], piece[2], piece[3]
    x, y = (s - kappa) * width, omega * width
    scale, at = math.exp(piece[0] + s * low - log_moment), low
    if x > 0:  # from the upper end, where the mass is
        scale, at = math.exp(piece[0] + s * low + x - log_moment), low + width
        x, y = -x, -y
    half = math.sin(0.5 * y)
    e = math.exp(x)
    grown = complex(math.expm1(x) - 2.0 * e * half * half, e * math.sin(y))
    slope = complex(x, y)
    mean = grown / slope if slope != 0 else 1.0 + 0j
    angle = omega * (at - centre)
    return on, scale * width * mean * complex(math.cos(angle), math.sin(angle))


@njit(cache=True)
def span(law: tuple[Floats, Floats, Floats]) -> tuple[float, float]:
    """The smallest and the largest value of one record."""
    atoms, logs, piece = law
    low, high = np.inf, -np.inf
    for j in range(atoms.size):
        if logs[j] > -np.inf:
            low, high = min(low, atoms[j]), max(high, atoms[j])
    if piece[0] > -np.inf:
        low, high = min(low, piece[2]), max(high, piece[2] + piece[3])
    return low, high


@njit(cache=True)
def far_end(
    side: float, tilt: float, n: int, log_moment: float, variance: float, law: tuple[Floats, Floats, Floats]
) -> float:
    """side * s beyond which the tilted sum lies with probability below e^-37."""
    atoms, logs, piece = law
    if variance <= 0.0:  # one value holds all that a double can tell
        return float(side * n * tilted(tilt, atoms, logs, piece)[1])
    usual = math.sqrt(2.0 * NEGLIGIBLE / (n * variance))
    low, high = math.log(usual) - 10.0, math.log(usual) + 2.0
    lowest, highest = span(law)
    if highest > lowest:  # of a law all but surely constant the variance does not tell where the far end is
        low = min(low, math.log(0.1 / (highest - lowest)))
        high = min(high, math.log(1e7 / (highest - lowest)))
    at = min(math.log(usual), high)
    best = np.inf
    for _ in range(16):
        step = math.exp(at)
        grown, mean, _, _ = tilted(tilt + side * step, atoms, logs, piece)
        rise = n * (grown - log_moment)
        best = min(best, (NEGLIGIBLE + rise) / step)
        rate = side * step * n * mean - rise
        if 0.7 * NEGLIGIBLE < rate < 1.4 * NEGLIGIBLE:
            break
        if rate > NEGLIGIBLE:
            high = at
        else:
            low = at
        at = 0.5 * (low + high)
    return best


@njit(cache=True)
def ends(
    tilt: float, n: int, log_moment: float, variance: float, law: tuple[Floats, Floats, Floats]
) -> tuple[float, float]:
    """Between which the tilted sum lies, but for e^-37 on either side."""
    low, high = span(law)
    return (
        max(n * low, -far_end(-1.0, tilt, n, log_moment, variance, law)),
        min(n * high, far_end(1.0, tilt, n, log_moment, variance, law)),
    )


@njit(cache=True)
def tilt_to(
    target: float, n: int, curvature: float, low: float, high: float, law: tuple[Floats, Floats, Floats]
) -> float:
    """s in [low, high] at which n E_s X + curvature s is about `target`: within a thousandth of its spread."""
    atoms, logs, piece = law
    s = min(max(0.0, low), high)
    for _ in range(200):
        _, mean, variance, _ = tilted(s, atoms, logs, piece)
        excess = n * mean + curvature * s - target
        slope = n * variance + curvature
        if abs(excess) <= 1e-3 * math.sqrt(slope) or high - low <= 1e-14 * (abs(low) + abs(high)):
            break
        if excess > 0:
            high = s
        else:
            low = s
        newton = s - excess / slope if slope > 0 else np.inf
        s = newton if low < newton < high else 0.5 * (low + high)
    return s
