"""Gaussian noise on whole steps: the discrete law, exact under zCDP, and the rounded one for GaussianDP, ApproxDP."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from noisewise.errors import InvalidArgument
from noisewise.laws.numbers import Floats, floats, from_upper_tail, log1mexp
from noisewise.laws.protocol import (
    NOISES,
    AddedToPublished,
    AdditiveLaw,
    Mixing,
    NormalMixture,
    StatedNoise,
    register_law,
    stated_scale,
)

FLAT = 0.03  # a cell is flat if the log-density moves by less over half of it


@dataclass(frozen=True, slots=True)
class GaussianSteps(AdditiveLaw):
    """What the two laws share. Abstract: how the normal law is brought onto whole steps is the law's own."""

    mechanism: ClassVar[str] = "gaussian"
    is_log_concave: ClassVar[bool] = True

    def mixture(self) -> NormalMixture:
        return NormalMixture(Mixing.NONE, self.sd)

    def reach(self, tail: float, component: int = 0) -> int:
        """By P(Z > z) <= exp(-z^2/2)."""
        return math.ceil(math.sqrt(-2 * math.log(tail)) * self._ratio(component)) + 1


@register_law
@dataclass(frozen=True, slots=True)
class DiscreteGaussian(GaussianSteps):
    """P(k) proportional to exp(-(k step)^2/(2 scale^2)): (d/scale)^2/2-zCDP when the sum moves by d."""

    family: ClassVar[str] = "discrete-gaussian"

    def log_pmf(self, k: ArrayLike, component: int = 0) -> Floats:
        r = self._ratio(component)
        with np.errstate(over="ignore"):
            return -0.5 * np.square(floats(k) / r) - _log_theta(r)

    def cdf(self, k: ArrayLike, component: int = 0) -> Floats:
        r = self._ratio(component)
        if r > 100:
            return _discrete_gaussian_cdf(floats(k), r)
        furthest = math.ceil(39 * r) + 1  # exp(-39^2/2) is below the smallest float
        pmf = np.exp(self.log_pmf(np.arange(furthest + 1), component))
        tail = np.append(np.cumsum(pmf[::-1])[::-1], 0.0)
        return from_upper_tail(k, lambda m: tail[np.minimum(m, furthest + 1).astype(np.int64)])

    @property
    def sd(self) -> tuple[float, ...]:
        # From r = 4 on the variance is r^2 up to exp(-2 pi^2 r^2) < 1e-136.
        return tuple(
            self.scale[j] if r >= 4 else self.step[j] * _sd_by_summation(self, j) for j, r in enumerate(self.ratio)
        )


@register_law
@dataclass(frozen=True, slots=True)
class RoundedGaussian(GaussianSteps):
    """K = round(scale Z/step): the continuous Gaussian mechanism followed by rounding, so (d/scale)-GDP."""

    family: ClassVar[str] = "rounded-gaussian"

    def log_pmf(self, k: ArrayLike, component: int = 0) -> Floats:
        r = self._ratio(component)
        m, half = np.asarray(np.abs(floats(k))), 0.5 / r
        if half >= 0.5:
            return _log_wide_cell(m, r)
        bend = m / r * half  # what the log-density falls by over half a cell
        is_wide, is_flat = bend >= 2, bend < (FLAT if half < FLAT else 0.0)
        found = np.empty(m.shape)
        found[is_wide] = _log_wide_cell(m[is_wide], r)
        found[is_flat] = _log_flat_cell(m[is_flat] / r, half)
        if not (is_known := is_wide | is_flat).all():
            found[~is_known] = _log_narrow_cell(m[~is_known] / r, half)
        return found

    def cdf(self, k: ArrayLike, component: int = 0) -> Floats:
        from scipy.special import ndtr

        return np.asarray(ndtr((floats(k) + 0.5) / self._ratio(component)))

    @property
    def sd(self) -> tuple[float, ...]:
        # From r = 4 on rounding adds the variance of a uniform, 1/12, up to exp(-2 pi^2 r^2) < 1e-136.
        return tuple(
            self.step[j] * (math.sqrt(r * r + 1 / 12) if r >= 4 else _sd_by_summation(self, j))
            for j, r in enumerate(self.ratio)
        )


# ---- as a publisher states it ----


@dataclass(frozen=True, slots=True)
class _Gaussian(AddedToPublished):
    kind: ClassVar[str] = "gaussian"

    def family(self) -> type[AdditiveLaw]:
        return DiscreteGaussian if self.is_whole else RoundedGaussian

    @property
    def is_exact_on_counts(self) -> bool:
        return True

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "sd": list(self.scale), "discrete": self.is_whole, "rounded": self.is_rounded}

    def words(self) -> str:
        return f"{'discrete ' if self.is_whole else ''}Gaussian noise of sd {self._spread()}."


def gaussian_noise(*, sd: float | Sequence[float], discrete: bool = False, rounded: bool = False) -> StatedNoise:
    """Gaussian noise as a publisher states it: its standard deviation on the published value.

    Parameters
    ----------
    sd
        Of each published number, in its units: on a mean it is that of the mean, not of the sum. One number serves all
        components, a list has one for each.
    discrete
        Whether the noise is of whole numbers, P(k) proportional to exp(-k^2/2 sd^2), as in the 2020 US Census. Default
        False.
    rounded
        Whether a noisy count was rounded to a whole number. Default False.

    Returns
    -------
    StatedNoise

    Examples
    --------
    >>> nw.gaussian_noise(sd=1.5)
    _Gaussian(scale=(1.5,), is_whole=False, is_rounded=False)
    """
    if discrete and rounded:
        raise InvalidArgument("Noise of whole numbers needs no rounding: say discrete or rounded.", argument="rounded")
    return _Gaussian(stated_scale(sd, "sd"), is_whole=bool(discrete), is_rounded=bool(rounded))


NOISES |= {"gaussian": gaussian_noise}


# ---- stable pieces of the formulas ----


def _log_theta(r: float) -> float:
    """log sum_k exp(-k^2/2r^2); above r = 0.4 by Poisson summation, r sqrt(2 pi) (1 + 2 sum_j exp(-2 pi^2 r^2 j^2))."""
    rate = 0.5 / (r * r) if r < 0.4 else 2 * (math.pi * r) ** 2
    rest = math.log1p(2 * math.fsum(math.exp(-rate * j * j) for j in range(1, 6)))
    return rest if r < 0.4 else rest + math.log(r) + 0.5 * math.log(2 * math.pi)


def _discrete_gaussian_cdf(k: Floats, r: float) -> Floats:
    """Euler-Maclaurin at the midpoint u = (k+1/2)/r: Phi(u) + phi(u) sum_n c_n He_{2n-1}(u) r^{-2n}.

    c_n = -B_{2n}(1/2)/(2n)!. The relative error is about 2 (u/2 pi r)^12, below 1e-14 for r > 100 wherever Phi(u) > 0.
    """
    from numpy.polynomial.hermite_e import hermeval
    from scipy.special import ndtr

    u = (k + 0.5) / r
    coefficients = np.zeros(10)
    coefficients[1::2] = [1 / 24, -7 / 5760, 31 / 967680, -127 / 154828800, 73 / 3503554560]
    coefficients[1::2] /= r ** np.arange(2.0, 11.0, 2.0)
    near = np.clip(u, -40, 40)
    correction = hermeval(near, coefficients) * np.exp(-0.5 * near * near) / math.sqrt(2 * math.pi)
    return np.asarray(np.clip(ndtr(u) + correction, 0.0, 1.0))


def _log_narrow_cell(x: Floats, half: float) -> Floats:
    """log of the mass of phi on [x-half, x+half] = phi(x) 2 int_0^half cosh(x u) exp(-u^2/2) du, by Gauss."""
    nodes, weights = np.polynomial.legendre.leggauss(12)
    u = half * (nodes + 1) / 2
    mean = np.cosh(np.multiply.outer(x, u)) @ (weights / 2 * np.exp(-0.5 * u * u))
    return -0.5 * x * x + np.log(mean) + math.log(2 * half) - 0.5 * math.log(2 * math.pi)


def _log_flat_cell(x: Floats, half: float) -> Floats:
    """The same mass by Taylor, phi(x) 2 half (1 + sum_n He_{2n}(x) half^{2n}/(2n+1)!), to (x half)^8/9! < 2e-16."""
    a, z = half * half, np.square(x * half)
    rest = (z - a) / 6 + (z * (z - 6 * a) + 3 * a * a) / 120 + (z * (z * (z - 15 * a) + 45 * a * a) - 15 * a**3) / 5040
    return -0.5 * x * x + np.log1p(rest) + math.log(2 * half) - 0.5 * math.log(2 * math.pi)


def _log_wide_cell(m: Floats, r: float) -> Floats:
    """log(Phi(-a) - Phi(-b)), a, b = (m -+ 1/2)/r >= 0, by Phi(-a) = exp(-a^2/2) erfcx(a/sqrt 2)/2; m = 0 by erf."""
    from scipy.special import erf, erfc, erfcx

    half = 0.5 / r / math.sqrt(2)
    centre = math.log1p(-erfc(half)) if half > 0.5 else math.log(erf(half))
    beside = np.maximum(m, 1.0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        a, b = (beside - 0.5) / r, (beside + 0.5) / r
        inner, outer = erfcx(a / math.sqrt(2)), erfcx(b / math.sqrt(2))
        fall = beside / r / r + np.where(outer > 0, np.log(inner) - np.log(outer), 0.0)
        log_cell = -0.5 * a * a + np.log(inner / 2) + log1mexp(fall)
    return np.where(m == 0, centre, log_cell)


def _sd_by_summation(law: AdditiveLaw, component: int) -> float:
    k = np.arange(1, 170)  # covers 40 standard deviations for r < 4
    return math.sqrt(2 * math.fsum(k * k * np.exp(law.log_pmf(k, component))))
