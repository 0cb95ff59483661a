"""Laplace noise on two correlated normal components: Y_j = U_j + V_j, U ~ N(mu, Sigma), V_j ~ Laplace(b_j) independent.

Given u_1 the second component is `normal_laplace` (N plus Laplace, closed), so one integral is left. With
x = (u_1 - mu_1)/tau_1, z_j = (y_j - mu_j)/tau_j, beta_j = b_j/tau_j and rho the correlation,
    p(y) = 1/(2 b_1 tau_2) int phi(x) e^{-|z_1 - x|/beta_1} f(z_2; rho x, 1 - rho^2, beta_2) dx,
f the normal-Laplace density. Its logarithm is concave with curvature at most -1, so the peak lies between those of its
factors, and everything above e^{-38} of it lies within 9 of it: both are found by bisection. That stretch is split
at the kink x = z_1, at the peak, and where f turns from normal to exponential (rho x = z_2 +- (1 - rho^2)/beta_2) or is
nearly a kink (rho x = z_2, as |rho| -> 1), with 20 Gauss-Legendre nodes a panel.
The component with the smaller beta is integrated out, so nothing is sharper than the variable of integration, and x is
measured from the peak of the first two factors, so that no digit is lost when beta_1 is tiny.

`is_quick` goes another way, for tables of a hundred thousand cells. Laplace noise is normal with a Rayleigh standard
deviation s (`normal_laplace`, w = s^2), and given s the first component is normal and the second normal-Laplace again:
    p(y) = int_0^inf (s/b_1^2) e^{-s^2/(2 b_1^2)} N(d_1; 0, tau_1^2 + s^2) f(d_2 - c d_1; tau_2^2 - c Sigma_12, b_2) ds,
    d = y - mu,   c = Sigma_12/(tau_1^2 + s^2).
With X = (tau_1^2 + s^2)/b_1^2 and q = |d_1|/b_1 the exponent is -(sqrt X - q/sqrt X)^2/2, whose ends are closed, so
that 12 Gauss-Legendre nodes in asinh(s/tau_1) between them do: no cusp is left, and nothing is searched for.

Promise: at least 10 digits of p for 1e-6 < beta < 1e6 and any correlation; rho = +-1 and tau_j = 0 allowed. A
covariance in floating point knows 1 - rho^2 only to 1e-16, and so does the result. `is_quick`: log p to 0.001.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from noisewise.compilation import njit
from noisewise.likelihood import normal_laplace
from noisewise.likelihood.compiled import log_density_and_pull
from noisewise.likelihood.quadrature import gauss_legendre
from noisewise.types import Floats

__all__ = ["log_density"]

LOG_2PI = float(np.log(2 * np.pi))
FALL = 38.0
WIDEST = 9.0
NODES, QUICK_NODES = 20, 12
QUICK_FALL = 12.0
STILL = 1e-12  # of its noise: a smaller deviation is none, and its square would be lost


def log_density(
    y: ArrayLike, *, mean: ArrayLike, covariance: ArrayLike, scale: ArrayLike, is_quick: bool = False
) -> Floats:
    """log p(y), (K,): y (2,) or (K, 2), mean (K, 2), covariance (K, 2, 2), scale (2,) or (K, 2), positive.

    `is_quick` knows log p to 0.001 only, in a tenth of the time.
    """
    mean = np.asarray(mean, dtype=np.float64)
    covariance = np.asarray(covariance, dtype=np.float64)
    rows = np.broadcast_shapes(mean.shape[:-1], covariance.shape[:-2], np.shape(y)[:-1], np.shape(scale)[:-1])
    y, mean, scale = (
        np.broadcast_to(np.asarray(v, dtype=np.float64), (*rows, 2)).reshape(-1, 2) for v in (y, mean, scale)
    )
    covariance = np.broadcast_to(covariance, (*rows, 2, 2)).reshape(-1, 2, 2)
    return _rows(y - mean, covariance, scale, is_quick=is_quick).reshape(rows)


def _rows(d: Floats, covariance: Floats, b: Floats, *, is_quick: bool) -> Floats:
    """The smaller beta first; then one integral a row."""
    with np.errstate(all="ignore"):
        tau = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
        swap = b[:, 0] * tau[:, 1] > b[:, 1] * tau[:, 0]
        first = swap.astype(np.intp)
        index = np.arange(len(d))
        d1, d2 = d[index, first], d[index, 1 - first]
        tau1, tau2 = tau[index, first], tau[index, 1 - first]
        b1, b2 = b[index, first], b[index, 1 - first]
        product = tau1 * tau2
        cross = covariance[:, 0, 1]
        rho = np.where(product > 0, np.clip(cross / product, -1, 1), 0.0)
        left = np.where(product > 0, (product - np.abs(cross)) * (product + np.abs(cross)) / np.square(product), 1.0)
        # Two features that a population ties together are correlated by 1 up to what their moments were rounded to.
        valid = (np.abs(cross) <= product * (1 + 1e-9)) & (b1 > 0) & (b2 > 0)
        integrals = _log_mixtures if is_quick else _log_integrals
        rule = gauss_legendre(QUICK_NODES if is_quick else NODES)
        # A first component that does not vary is Laplace by itself, and so independent of the second.
        is_still = tau1 <= STILL * b1
        integral = integrals(d1, d2, np.where(is_still, 0.0, tau1), tau2, b1, b2, rho, np.maximum(left, 0.0), *rule)
        apart = normal_laplace.log_density(d1, mean=0.0, variance=0.0, scale=b1)
        apart = apart + normal_laplace.log_density(d2, mean=0.0, variance=np.square(tau2), scale=b2)
        return np.where(valid, np.where(is_still, apart, integral), np.nan)


@njit(cache=True)
def _log_integrals(
    d1: Floats, d2: Floats, tau1: Floats, tau2: Floats, b1: Floats, b2: Floats, rho: Floats, left: Floats,
    nodes: Floats, weights: Floats,
) -> Floats:  # fmt: skip
    """log p of each row: where the integrand has its weight, then Gauss-Legendre panels over that."""
    result = np.empty(d1.size)
    tolerance = 1e-13
    for k in range(d1.size):
        if not (tau1[k] > 0 and math.isfinite(d1[k] + d2[k] + tau2[k] + rho[k] + left[k])):
            result[k] = np.nan
            continue
        beta, z = b1[k] / tau1[k], d1[k] / tau1[k]
        centre = min(max(z, -1 / beta), 1 / beta)
        slope = rho[k] * tau2[k]
        row = (beta, centre, z - centre, slope, d2[k] - slope * centre, math.sqrt(left[k]) * tau2[k], b2[k])
        peak = _peak(row, tolerance)
        top = _value(row, peak)[0]
        low, high = peak - _fall(row, peak, -1.0, top), peak + _fall(row, peak, 1.0, top)
        edges = _edges(row, peak, low, high)
        total = 0.0
        for j in range(edges.size - 1):
            half = 0.5 * (edges[j + 1] - edges[j])
            if half > 0:
                for i in range(nodes.size):
                    # From the nearer edge: a node close to an edge keeps its distance to that edge.
                    t = edges[j] + half * (1 + nodes[i]) if nodes[i] < 0 else edges[j + 1] - half * (1 - nodes[i])
                    total += half * weights[i] * math.exp(_value(row, t)[0] - top)
        result[k] = math.log(total) + top - 0.5 * centre * centre - 0.5 * LOG_2PI - math.log(2 * b1[k])
    return result


@njit(cache=True)
def _log_mixtures(
    d1: Floats,
    d2: Floats,
    tau1: Floats,
    tau2: Floats,
    b1: Floats,
    b2: Floats,
    rho: Floats,
    left: Floats,
    nodes: Floats,
    weights: Floats,
) -> Floats:
    """log p of each row by the mixture over the standard deviation of the first noise, in units of tau_1."""
    result = np.empty(d1.size)
    logs = np.empty(nodes.size)
    for k in range(d1.size):
        if not (tau1[k] > 0 and math.isfinite(d1[k] + d2[k] + tau2[k] + rho[k] + left[k])):
            result[k] = np.nan
            continue
        r, q, z = tau1[k] / b1[k], abs(d1[k]) / b1[k], d1[k] / tau1[k]
        fall = math.sqrt(2 * QUICK_FALL + (0.0 if r * r < q else (r - q / r) ** 2))
        reach = math.sqrt(fall * fall + 4 * q)
        least = max((reach - fall) ** 2 / (4 * r * r) - 1, 0.0) if r * r < q else 0.0
        low, high = math.asinh(math.sqrt(least)), math.asinh(math.sqrt(max((reach + fall) ** 2 / (4 * r * r) - 1, 0.0)))
        half, top = 0.5 * (high - low), -np.inf
        for i in range(nodes.size):
            v = low + half * (1 + nodes[i])
            s = math.sinh(v)
            widened = 1 + s * s
            sd = tau2[k] * math.sqrt((left[k] + s * s) / widened)
            second = log_density_and_pull(d2[k] - rho[k] * tau2[k] * z / widened, sd, b2[k])[0]
            # s ds = s cosh(v) dv, and 1/sqrt(tau_1^2 + s^2) takes the cosh away again.
            logs[i] = math.log(s * weights[i]) - 0.5 * (s * s * r * r + z * z / widened) + second
            top = max(top, logs[i])
        total = 0.0
        for i in range(nodes.size):
            total += math.exp(logs[i] - top)
        result[k] = math.log(total * half) + top + 2 * math.log(r) - math.log(tau1[k]) - 0.5 * LOG_2PI
    return result


@njit(cache=True)
def _value(row: tuple[float, ...], t: float) -> tuple[float, float]:
    """log of phi(c + t) e^{-|delta - t|/beta_1} f(y_2 | c + t) and its slope; t is measured from the peak c."""
    beta, centre, delta, slope, offset, sd, b2 = row
    second, pull = log_density_and_pull(offset - slope * t, sd, b2)
    value = -t * (centre + 0.5 * t) - abs(delta - t) / beta + second
    side = 1.0 if delta > t else -1.0 if delta < t else 0.0
    return value, -(centre + t) + side / beta + slope * pull


@njit(cache=True)
def _peak(row: tuple[float, ...], tolerance: float) -> float:
    """Between the peak of the first two factors, t = 0, and that of the third, as far as it can pull."""
    slope, offset, b2 = row[3], row[4], row[6]
    if slope == 0.0:
        return 0.0
    target = offset / slope
    reach = min(abs(target), abs(slope) / b2)
    low, high = (-reach, 0.0) if target < 0 else (0.0, reach)
    for _ in range(64):
        middle = 0.5 * (low + high)
        if _value(row, middle)[1] > 0:
            low = middle
        else:
            high = middle
        if high - low <= tolerance * (abs(low) + abs(high)):
            break
    return 0.5 * (low + high)


@njit(cache=True)
def _fall(row: tuple[float, ...], peak: float, sign: float, top: float) -> float:
    """How far from the peak the logarithm has fallen by FALL, from outside."""
    inner, outer = 0.0, WIDEST
    for _ in range(48):
        middle = 0.5 * (inner + outer)
        if _value(row, peak + sign * middle)[0] > top - FALL:
            inner = middle
        else:
            outer = middle
        if outer - inner < 0.05 * outer:
            break
    return outer


@njit(cache=True)
def _edges(row: tuple[float, ...], peak: float, low: float, high: float) -> Floats:
    """Panels split at the kink, at the peak, and where f turns from normal to exponential or is nearly a kink."""
    delta, slope, offset, sd, b2 = row[2], row[3], row[4], row[5], row[6]
    edges = np.full(15, low)
    edges[:6] = (low, high, peak, delta, 0.5 * (low + peak), 0.5 * (peak + high))
    if slope != 0.0:
        target, turn, width = offset / slope, sd * sd / b2 / abs(slope), sd / abs(slope)
        edges[6] = target
        for i, multiple in enumerate((-6.0, -2.0, 2.0, 6.0)):
            edges[7 + i] = target - turn + multiple * width
            edges[11 + i] = target + turn + multiple * width
    return np.sort(np.minimum(np.maximum(edges, low), high))
