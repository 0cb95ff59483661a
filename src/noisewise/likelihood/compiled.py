"""The normal-Laplace density as compiled scalar functions, for integrals that evaluate it millions of times.

Same formula as `normal_laplace`: with z = d/tau, r = tau/b,
    log f = logaddexp(l1, l2) - log 2b,   l1,2 = r^2/2 -+ z r + log Phi(+-z - r),
each term written with erfcx where its argument is in the tail, so that nothing cancels.
"""

from __future__ import annotations

import math

from noisewise.compilation import njit

ROOT_2 = math.sqrt(2.0)
ROOT_PI = math.sqrt(math.pi)


@njit(cache=True)
def erfcx(t: float) -> float:
    """e^{t^2} erfc(t) for t >= 0."""
    if t < 25.0:
        return math.exp(t * t) * math.erfc(t)
    u = 1.0 / (t * t)
    return (1.0 - 0.5 * u * (1.0 - 1.5 * u * (1.0 - 2.5 * u * (1.0 - 3.5 * u)))) / (t * ROOT_PI)


@njit(cache=True)
def _term(z: float, r: float) -> float:
    """r^2/2 - z r + log Phi(z - r)."""
    a = (r - z) / ROOT_2
    if a <= 0.0:
        return r * (0.5 * r - z) + math.log(0.5 * math.erfc(a))
    return -0.5 * z * z + math.log(0.5 * erfcx(a))


@njit(cache=True)
def log_density_and_pull(d: float, tau: float, b: float) -> tuple[float, float]:
    """log f at distance d = y - mean, and its slope in the mean."""
    if tau == 0.0 or (tau < 1e-7 * b and abs(d) > 40.0 * tau):
        side = 1.0 if d > 0 else -1.0 if d < 0 else 0.0
        return -abs(d) / b - math.log(2.0 * b), side / b
    z, r = d / tau, tau / b
    one, two = _term(z, r), _term(-z, r)
    top = max(one, two)
    return top + math.log1p(math.exp(-abs(one - two))) - math.log(2.0 * b), math.tanh(0.5 * (one - two)) / b
