"""Few records off the atoms: the part of a noisy sum whose transform fades too slowly to be inverted.

Of n records M are off the atoms and the others sum to one of few places. Under an exponential piece
e^{h - kappa (x - c)} on [c, c + w], M records sum to M c + s with density
    e^{M h - kappa s} w^{M-1} I_M(s/w),        I_M the density of a sum of M uniforms, a piecewise polynomial,
and its product with the noise is e^{a straight line or a parabola} times a polynomial between the kinks of both: panels
of 12 Gauss-Legendre nodes over which the exponent moves by 8 at most leave no error. Every term is positive.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from noisewise.compilation import njit
from noisewise.likelihood.quadrature import gauss_legendre
from noisewise.likelihood.sum_noise import PlainNoise, log_noise
from noisewise.populations.parameters import Array
from noisewise.types import Floats

__all__ = ["FEW", "few_off_atoms"]

FEW = 8  # fewer records off the atoms than this are summed here
MOST_PLACES = 1_000  # of the atoms' sums
ORDER = 12
PER_PANEL = 8.0
FAINT = 46.0


def _uniform_sums() -> Array:
    """I_M on [j, j+1] as a polynomial in u = s - j: (FEW, FEW, FEW) by M, j and the power of u.

    I_M(s) = int_{s-1}^{s} I_{M-1}, in fractions.
    """
    found = np.zeros((FEW, FEW, FEW))
    pieces = [[Fraction(1)]]
    found[1, 0, 0] = 1.0
    for m in range(2, FEW):
        raised = []
        for j in range(m):
            before = pieces[j - 1] if j > 0 else []  # its part from u to 1
            here = pieces[j] if j < m - 1 else []  # its part from 0 to u
            line = [sum((c / (k + 1) for k, c in enumerate(before)), Fraction(0))]
            for k in range(m - 1):
                line.append(((here[k] if here else 0) - (before[k] if before else 0)) / Fraction(k + 1))
            raised.append(line)
            found[m, j, :m] = [float(c) for c in line]
        pieces = raised
    return found


UNIFORM_SUMS = _uniform_sums()
NODES, WEIGHTS = (np.array(part) for part in gauss_legendre(ORDER))


@njit(cache=True)
def few_off_atoms(
    noise: PlainNoise,
    n: int,
    law: tuple[Floats, Floats, Floats],
    unit: float,
    tilt: float,
    log_moment: float,
) -> float:
    """The part of p, in units of e^unit, with fewer than FEW records off the atoms; NaN where there are too many."""
    atoms, logs, piece = law
    first, second = logs[0] + tilt * atoms[0], logs[1] + tilt * atoms[1]
    top = max(first, second)
    share = 0.0 if top == -np.inf else math.exp(second - top) / (math.exp(first - top) + math.exp(second - top))
    total = 0.0
    places = 0
    for m in range(min(FEW, n + 1)):
        left = n - m
        if (piece[0] == -np.inf and m > 0) or (top == -np.inf and left > 0):
            continue
        spread = 9.0 * math.sqrt(left * share * (1 - share)) + (0.0 if share == 0.0 or share == 1.0 else 30.0)
        start, stop = max(0, int(left * share - spread)), min(left, int(left * share + spread + 1))
        if share == 0.0:
            start, stop = 0, 0
        if share == 1.0:
            start, stop = left, left
        for upper in range(start, stop + 1):
            log_ways = math.lgamma(n + 1.0) - math.lgamma(m + 1.0)
            log_ways -= math.lgamma(upper + 1.0) + math.lgamma(left - upper + 1.0)
            log_ways += (left - upper) * logs[0] if left > upper else 0.0
            log_ways += upper * logs[1] if upper > 0 else 0.0
            place = (left - upper) * atoms[0] + upper * atoms[1]
            if m == 0:
                total += math.exp(log_ways + log_noise(noise, place) - unit)
                continue
            # h is at most 1 and the tilted probability of this case is known: rare cases are left out.
            log_case = log_ways + tilt * place - n * log_moment
            log_case += m * (piece[0] + math.log(piece[3]) + tilt * piece[2] + max(0.0, (tilt - piece[1]) * piece[3]))
            if log_case < -FAINT:
                continue
            places += 1
            if places > MOST_PLACES:
                return np.nan
            total += math.exp(log_ways - unit + _log_piece_sum(noise, m, place, piece))
    return total


@njit(cache=True)
def _log_piece_sum(noise: PlainNoise, m: int, place: float, piece: Floats) -> float:
    """log int f^{*m}(m c + s) g(place + m c + s) ds over s in [0, m w]."""
    is_gaussian, centre, sd, _, knots, _, _ = noise
    height, kappa, low, width = piece[0], piece[1], piece[2], piece[3]
    start = place + m * low
    cuts = np.empty(m + 1 + (26 if is_gaussian else knots.size))
    size = m + 1
    for j in range(m + 1):
        cuts[j] = j * width
    if is_gaussian:
        middle = centre - start - kappa * sd * sd
        for j in range(26):
            cuts[size + j] = min(max(middle + (j - 12.5) * sd, 0.0), m * width)
        size += 26
    else:
        for j in range(knots.size):
            cuts[size + j] = min(max(knots[j] - start, 0.0), m * width)
        size += knots.size
    cuts.sort()
    # The exponential and the noise: straight between cuts, or on stretches of one sd nearly so.
    top = -np.inf
    lines = np.empty(size)
    for j in range(size):
        lines[j] = log_noise(noise, start + cuts[j]) - kappa * cuts[j]
        top = max(top, lines[j])
    reach = 42.0 + 4.0 * m
    total = 0.0
    for j in range(size - 1):
        a, b, at_a, at_b = cuts[j], cuts[j + 1], lines[j], lines[j + 1]
        if b <= a or max(at_a, at_b) < top - reach:
            continue
        if min(at_a, at_b) < top - reach:
            a, b = _seen(noise, start, kappa, a, b, top - reach)
            at_a, at_b = log_noise(noise, start + a) - kappa * a, log_noise(noise, start + b) - kappa * b
        panels = max(1, math.ceil(abs(at_b - at_a) / PER_PANEL))
        half = 0.5 * (b - a) / panels
        for panel in range(panels):
            for i in range(ORDER):
                s = a + half * (2 * panel + 1 + NODES[i])
                weight = log_noise(noise, start + s) - kappa * s - top
                total += half * WEIGHTS[i] * math.exp(weight) * _uniform_sum(m, s / width)
    if total <= 0.0:
        return -np.inf
    return float(top + m * height + (m - 1) * math.log(width) + math.log(total))


@njit(cache=True)
def _seen(
    noise: PlainNoise,
    start: float,
    kappa: float,
    a: float,
    b: float,
    least: float,
) -> tuple[float, float]:
    """The part of [a, b], one end of which is above it, where a concave log density is above `least`."""
    from_a = log_noise(noise, start + a) - kappa * a >= log_noise(noise, start + b) - kappa * b
    inside, outside = (a, b) if from_a else (b, a)
    for _ in range(40):
        middle = 0.5 * (inside + outside)
        if log_noise(noise, start + middle) - kappa * middle >= least:
            inside = middle
        else:
            outside = middle
    return (a, outside) if from_a else (outside, b)


@njit(cache=True)
def _uniform_sum(m: int, s: float) -> float:
    """I_m(s), from the nearer end."""
    s = min(s, m - s)
    if s <= 0.0 and m > 1:
        return 0.0
    j = min(max(int(s), 0), m - 1)
    u = s - j
    value = 0.0
    for k in range(m - 1, -1, -1):
        value = value * u + UNIFORM_SUMS[m, j, k]
    return value
