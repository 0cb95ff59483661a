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

Promise: at least 10 digits of p for 1e-6 < beta < 1e6 and any correlation; rho = +-1 and tau_j = 0 allowed. A
covariance in floating point knows 1 - rho^2 only to 1e-16, and so does the result.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noisewise.likelihood import normal_laplace
from noisewise.likelihood.quadrature import on_panels

__all__ = ["log_density"]

Floats = NDArray[np.float64]
LOG_2PI = float(np.log(2 * np.pi))
FALL = 38.0
WIDEST = 9.0
NODES = 20
MOST_ROWS = 4096


def log_density(y: ArrayLike, *, mean: ArrayLike, covariance: ArrayLike, scale: ArrayLike) -> Floats:
    """log p(y), (K,): y (2,) or (K, 2), mean (K, 2), covariance (K, 2, 2), scale (2,) or (K, 2), positive."""
    mean = np.asarray(mean, dtype=np.float64)
    covariance = np.asarray(covariance, dtype=np.float64)
    rows = np.broadcast_shapes(mean.shape[:-1], covariance.shape[:-2], np.shape(y)[:-1], np.shape(scale)[:-1])
    y, mean, scale = (
        np.broadcast_to(np.asarray(v, dtype=np.float64), (*rows, 2)).reshape(-1, 2) for v in (y, mean, scale)
    )
    covariance = np.broadcast_to(covariance, (*rows, 2, 2)).reshape(-1, 2, 2)
    pieces = [slice(start, start + MOST_ROWS) for start in range(0, len(y), MOST_ROWS)]
    done = [_rows(y[p] - mean[p], covariance[p], scale[p]) for p in pieces]
    return (np.concatenate(done) if done else np.empty(0)).reshape(rows)


def _rows(d: Floats, covariance: Floats, b: Floats) -> Floats:
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
        valid = (np.abs(cross) <= product * (1 + 1e-14)) & (b1 > 0) & (b2 > 0)
        integral = _Integrand(d1, d2, tau1, tau2, b1, b2, rho, np.maximum(left, 0.0)).log_integral()
        # A first component that does not vary is Laplace by itself, and so independent of the second.
        apart = normal_laplace.log_density(d1, mean=0.0, variance=0.0, scale=b1)
        apart = apart + normal_laplace.log_density(d2, mean=0.0, variance=np.square(tau2), scale=b2)
        return np.where(valid, np.where(tau1 == 0, apart, integral), np.nan)


class _Integrand:
    """log of phi(c + t) e^{-|delta - t|/beta_1} f(y_2 | c + t), t measured from the peak c of its first two factors."""

    def __init__(
        self,
        d1: Floats,
        d2: Floats,
        tau1: Floats,
        tau2: Floats,
        b1: Floats,
        b2: Floats,
        rho: Floats,
        left: Floats,
    ) -> None:
        self.beta, self.b1 = b1 / tau1, b1
        z = d1 / tau1
        self.centre = np.clip(z, -1 / self.beta, 1 / self.beta)
        self.delta = z - self.centre
        self.slope = rho * tau2
        self.offset = d2 - self.slope * self.centre
        self.variance, self.b2 = left * np.square(tau2), b2

    def value(self, t: Floats) -> Floats:
        column = (slice(None), *[None] * (t.ndim - 1))
        noise = np.abs(self.delta[column] - t) / self.beta[column]
        normal = -t * (self.centre[column] + 0.5 * t)
        return normal - noise + self._second(t, column)

    def _second(self, t: Floats, column: tuple[slice | None, ...]) -> Floats:
        residual = self.offset[column] - self.slope[column] * t
        return normal_laplace.log_density(residual, mean=0.0, variance=self.variance[column], scale=self.b2[column])

    def _rises(self, t: Floats) -> NDArray[np.bool_]:
        residual = self.offset - self.slope * t
        pull, _ = normal_laplace.score(residual, mean=0.0, variance=self.variance, scale=self.b2)
        return -(self.centre + t) + np.sign(self.delta - t) / self.beta + self.slope * pull > 0

    def _peak(self) -> Floats:
        """Between the peak of the first two factors, t = 0, and that of the third, as far as it can pull."""
        target = np.where(self.slope == 0, 0.0, self.offset / self.slope)
        reach = np.minimum(np.abs(target), np.abs(self.slope) / self.b2)
        low, high = np.where(target < 0, -reach, 0.0), np.where(target > 0, reach, 0.0)
        for _ in range(64):
            middle = 0.5 * (low + high)
            rises = self._rises(middle)
            low, high = np.where(rises, middle, low), np.where(rises, high, middle)
        return 0.5 * (low + high)

    def _ends(self, peak: Floats) -> tuple[Floats, Floats]:
        """Where the logarithm has fallen by FALL on either side, from outside."""
        floor = self.value(peak)[:, None] - FALL
        sign = np.array([-1.0, 1.0])
        inner, outer = np.zeros((peak.size, 2)), np.full((peak.size, 2), WIDEST)
        for _ in range(48):
            middle = 0.5 * (inner + outer)
            above = self.value(peak[:, None] + sign * middle) > floor
            inner, outer = np.where(above, middle, inner), np.where(above, outer, middle)
        return peak - outer[:, 0], peak + outer[:, 1]

    def log_integral(self) -> Floats:
        peak = self._peak()
        low, high = self._ends(peak)
        width = np.sqrt(self.variance) / np.abs(self.slope)
        turn = self.variance / self.b2 / np.abs(self.slope)
        target = self.offset / self.slope
        marks = [low, high, peak, self.delta, target, 0.5 * (low + peak), 0.5 * (peak + high)]
        marks += [target + s * turn + m * width for s in (-1, 1) for m in (-6.0, -2.0, 2.0, 6.0)]
        edges = np.stack([np.where(np.isnan(m), low, m) for m in marks], axis=-1)
        edges = np.sort(np.clip(edges, low[:, None], high[:, None]), axis=-1)
        t, weights = on_panels(edges, NODES)
        top = self.value(peak)
        total = np.sum(weights * np.exp(self.value(t) - top[:, None, None]), axis=(-2, -1))
        constant = -0.5 * np.square(self.centre) - 0.5 * LOG_2PI - np.log(2 * self.b1)
        return np.asarray(np.log(total) + top + constant)
