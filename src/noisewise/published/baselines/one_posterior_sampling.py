"""One-posterior sampling: privacy by drawing the parameter itself from a flattened posterior.

With p(x | theta) = h(x) exp(x eta(theta) - A(theta)) and theta kept to a stated interval [l, h], each sample is drawn
by the exponential mechanism with the log posterior as its utility (Wang et al. 2015; Foulds et al. 2016),
    q(theta) ~ (p(theta) p(x_1..n | theta))^tau   on [l, h].
One record moved from x to x' changes log q by tau ((x' - x) eta(theta) - c) with c free of theta, and since q
integrates to 1, c lies between the extremes of the first term. So q is epsilon-private for
    tau = epsilon / ((largest x - smallest x) (eta(h) - eta(l))),     eta = logit p, log rate or -rate,
which no smaller denominator allows. The sensitivity of the textbook, recentred by its best constant, is half that
denominator. `samples` of them at epsilon/samples each compose to epsilon (Bernstein & Sheldon 2018, section 4.4.1).

The flattened posterior is again a beta or gamma law on [l, h], drawn by its inverse cdf. It is wider than the posterior
by construction, so it is private and *not calibrated*: for comparison only. Change-one neighbours; simulated noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from noisewise.errors import InvalidArgument
from noisewise.exact import integer
from noisewise.populations.parameters import Array
from noisewise.printable import shown

PARAMETERS = {"binomial": "p", "poisson": "rate", "exponential": "rate"}
SMALLEST_MASS = 1e-290


def one_posterior_sampling(
    rng: np.random.Generator,
    family: str,
    records: ArrayLike,
    *,
    prior: Sequence[float],
    epsilon: float,
    support: tuple[float, float],
    bounds: tuple[float, float],
    samples: int = 100,
) -> dict[str, Array]:
    """`samples` draws of the parameter, epsilon-private together.

    `prior` is (a, b) of Beta(a, b), or of Gamma(a, rate b); `support` is where the parameter may lie, `bounds` where
    records are clamped to (0 and 1 for the binomial): both are public, and stated without a look at the records.
    """
    integer(samples, "samples", minimum=1)
    tau = flattening(family, epsilon=epsilon / samples, support=support, bounds=bounds)
    x = np.clip(np.asarray(records, float).ravel(), *bounds)
    law = flattened_posterior(family, x, prior=prior, tau=tau)
    return {PARAMETERS[family]: _draw_within(rng, law, support, samples)}


def flattening(family: str, *, epsilon: float, support: tuple[float, float], bounds: tuple[float, float]) -> float:
    """The power tau of one sample; at most 1, where a sample is one from the posterior itself."""
    if family not in PARAMETERS:
        raise InvalidArgument(
            f"family = {shown(family, 40)}: one-posterior sampling is offered for {', '.join(PARAMETERS)}.",
            argument="family",
        )
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise InvalidArgument(f"epsilon = {epsilon!r} must be above 0.", argument="epsilon")
    low, high = support
    if not 0 < low < high < (1 if family == "binomial" else math.inf):
        raise InvalidArgument(
            f"support = {support}: an interval inside the parameter's own is needed; at its ends one record can change "
            "the posterior without limit.",
            argument="support",
        )
    if not (0 <= bounds[0] < bounds[1] < math.inf) or (family == "binomial" and tuple(bounds) != (0, 1)):
        raise InvalidArgument(
            f"bounds = {bounds}: expected 0 <= low < high, and (0, 1) for the binomial.", argument="bounds"
        )
    natural = abs(_natural(family, high) - _natural(family, low))
    return min(1.0, epsilon / ((bounds[1] - bounds[0]) * natural))


def flattened_posterior(family: str, x: Array, *, prior: Sequence[float], tau: float) -> Any:
    """The law ~ (p(theta) p(x | theta))^tau as a scipy.stats distribution, not yet kept to the support."""
    from scipy import stats

    (a, b), n, s = prior, x.size, x.sum()
    if family == "binomial":
        return stats.beta(tau * (a + s - 1) + 1, tau * (b + n - s - 1) + 1)
    shape, rate = (a + s, b + n) if family == "poisson" else (a + n, b + s)
    return stats.gamma(tau * (shape - 1) + 1, scale=1 / (tau * rate))


def _natural(family: str, theta: float) -> float:
    if family == "binomial":
        return math.log(theta) - math.log1p(-theta)
    return math.log(theta) if family == "poisson" else -theta


def _draw_within(rng: np.random.Generator, law: Any, support: tuple[float, float], size: int) -> Array:
    """Draws of a law given that they lie in the support, by inverse cdf from the nearer tail."""
    low, high = support
    u = rng.random(size)
    if law.cdf(low) < 0.5:
        (start, end), inverse = law.cdf(support), law.ppf
    else:
        (start, end), inverse = law.sf(support), law.isf
    if abs(end - start) < SMALLEST_MASS:
        return _draw_at_end(rng, law, support, size)
    return np.asarray(np.clip(inverse(start + u * (end - start)), low, high))


def _draw_at_end(rng: np.random.Generator, law: Any, support: tuple[float, float], size: int) -> Array:
    """The same where the support holds less than 1e-290 of the law: its tail at the nearer end is exponential."""
    low, high = support
    is_below = law.median() < low
    end, h = (low if is_below else high), 1e-6 * (high - low)
    slope = abs(law.logpdf(end + h) - law.logpdf(end - h)) / (2 * h)
    step = rng.standard_exponential(size) / slope
    return np.asarray(np.clip(end + step if is_below else end - step, low, high))
