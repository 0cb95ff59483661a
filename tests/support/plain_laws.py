"""Records and noise drawn and scored plainly: scipy's laws and the formulas of the noise, written down a second time.

Nothing here knows the likelihoods of the package. A law of records is a name of `scipy.stats` with parameters that
broadcast; records outside the bounds are moved to them (clamp) or drawn again until they lie inside (refuse).

    laplace      P(k) ~ exp(-|k|/r)               gaussian     P(k) ~ exp(-k^2/2r^2)
    rounded      P(k) = Phi((k+1/2)/r) - Phi((k-1/2)/r)        all in whole steps k, with r = scale/step
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import special, stats

Array = np.ndarray
Values = Mapping[str, Array]
FINE = 200.0  # noise this wide beside its step is as good as continuous


def scipy_law(kind: str, p: Values):
    """The frozen scipy law of one column; parameters are called as the populations call them."""
    if kind == "normal":
        sd = p["sd"] if "sd" in p else np.sqrt(p["variance"])
        return stats.norm(p["mean"], sd)
    if kind == "lognormal":
        return stats.lognorm(s=p["log_sd"], scale=np.exp(p["log_mean"]))
    if kind == "uniform":
        return stats.uniform(p["low"], p["width"] if "width" in p else p["high"] - p["low"])
    if kind == "exponential":
        return stats.expon(scale=1 / p["rate"])
    if kind == "gamma":
        return stats.gamma(p["shape"], scale=1 / p["rate"])
    if kind == "poisson":
        return stats.poisson(p["rate"])
    if kind == "bernoulli":
        return stats.bernoulli(p["p"])
    if kind == "logistic":
        return stats.logistic(p["loc"], p["scale"])
    if kind == "weibull":
        return stats.weibull_min(p["c"], scale=p["scale"])
    raise LookupError(kind)


def draw_records(kind: str, rng: np.random.Generator, p: Values, shape: tuple[int, ...]) -> Array:
    """Records by the fastest plain generator there is; the same law as `scipy_law`."""
    if kind == "normal":
        return p["mean"] + (p["sd"] if "sd" in p else np.sqrt(p["variance"])) * rng.standard_normal(shape)
    if kind == "lognormal":
        return np.exp(p["log_mean"] + p["log_sd"] * rng.standard_normal(shape))
    if kind == "uniform":
        return p["low"] + (p["width"] if "width" in p else p["high"] - p["low"]) * rng.random(shape)
    if kind == "exponential":
        return rng.standard_exponential(shape) / p["rate"]
    if kind == "gamma":
        return rng.standard_gamma(np.broadcast_to(p["shape"], shape)) / p["rate"]
    if kind == "poisson":
        return rng.poisson(np.broadcast_to(np.minimum(p["rate"], 1e9), shape)).astype(float)
    if kind == "bernoulli":
        return (rng.random(shape) < p["p"]).astype(float)
    if kind == "logistic":
        u = rng.random(shape)
        return p["loc"] + p["scale"] * (np.log(u) - np.log1p(-u))
    if kind == "weibull":
        return p["scale"] * rng.standard_exponential(shape) ** (1 / p["c"])
    if kind == "categorical":  # p["p"] is (K, 1, ..., levels)
        steps = np.cumsum(p["p"], axis=-1)[..., :-1]
        u = rng.random(shape)
        return sum((u > steps[..., j]).astype(float) for j in range(steps.shape[-1]))
    raise LookupError(kind)


def bounded_records(
    kind: str,
    rng: np.random.Generator,
    p: Values,
    shape: tuple[int, ...],
    bounds: tuple[float, float] | None,
    outside: str,
) -> Array:
    """Records as the holder keeps them. NaN where the law has no mass inside the bounds."""
    x = draw_records(kind, rng, p, shape)
    if bounds is None or outside == "clamp":
        return x if bounds is None else np.clip(x, *bounds)
    low, high = bounds
    flat = x.reshape(-1)
    whole = {name: np.broadcast_to(value, shape).reshape(-1) for name, value in p.items()}
    wrong = np.flatnonzero((flat < low) | (flat > high))
    for _ in range(12):
        if not wrong.size:
            break
        again = draw_records(kind, rng, {name: value[wrong] for name, value in whole.items()}, wrong.shape)
        flat[wrong] = again
        wrong = wrong[(again < low) | (again > high)]
    if wrong.size:
        rest = {name: value[wrong] for name, value in whole.items()}
        flat[wrong] = quantiles_inside(kind, rest, rng.random(wrong.size), bounds)
    return flat.reshape(shape)


def quantiles_inside(kind: str, p: Values, u: Array, bounds: tuple[float, float]) -> Array:
    """Quantiles of the law given that it lies inside the bounds, from the nearer tail."""
    law, (low, high) = scipy_law(kind, p), bounds
    before = np.nextafter(low, -np.inf)
    with np.errstate(all="ignore"):
        below, above = law.cdf(before), law.sf(before)
        from_below = law.ppf(below + u * (law.cdf(high) - below))
        from_above = law.isf(above - u * (above - law.sf(high)))
        is_near = below < above
        mass = np.where(is_near, law.cdf(high) - below, above - law.sf(high))
        x = np.clip(np.where(is_near, from_below, from_above), low, high)
    return np.where(mass > 0, x, np.nan)


def record_quantiles(kind: str, p: Values, u: Array, bounds: tuple[float, float], outside: str) -> Array:
    """The quantiles of one record as the holder keeps it."""
    if outside == "refuse":
        return quantiles_inside(kind, p, u, bounds)
    return np.clip(scipy_law(kind, p).ppf(u), *bounds)


# ---- noise ----


def log_noise(family: str, ratio: float, k: Array) -> Array:
    """The log-probability of k steps of noise, up to a constant."""
    if family == "laplace":
        return -np.abs(k) / ratio
    if family == "cauchy":
        return -np.log1p(np.square(k / ratio))
    if family == "gaussian" or ratio > FINE:
        return -0.5 * np.square(k / ratio)
    upper, lower = (-np.abs(k) + 0.5) / ratio, (-np.abs(k) - 0.5) / ratio
    high, low = special.log_ndtr(upper), special.log_ndtr(lower)
    return high + np.log(-np.expm1(low - high))


def draw_noise(family: str, ratio: float, rng: np.random.Generator, size: int) -> list[int]:
    """Whole steps of noise."""
    if family == "laplace":
        leave = -np.expm1(-1 / ratio)
        return [int(a) - int(b) for a, b in zip(rng.geometric(leave, size), rng.geometric(leave, size), strict=True)]
    if family == "rounded" or ratio > FINE:
        return [int(value) for value in np.rint(ratio * rng.standard_normal(size))]
    k = np.arange(-int(12 * ratio) - 12, int(12 * ratio) + 13)
    weights = np.exp(-0.5 * np.square(k / ratio))
    return [int(value) for value in rng.choice(k, size, p=weights / weights.sum())]


def smooth_scales(ranked: Array, rank: int, bounds: tuple[float, float], beta: float) -> Array:
    """S = max over a, b of e^(-beta (a+b-1)) (s_(m+b) - s_(m-a)) for each row of ranked records, pair by pair."""
    rows, n = ranked.shape
    padded = np.concatenate([np.full((rows, 1), bounds[0]), ranked, np.full((rows, 1), bounds[1])], axis=1)
    best = np.zeros(rows)
    for a in range(rank + 1):
        width = padded[:, rank:] - padded[:, rank - a, None]
        b = np.arange(n + 2 - rank)
        best = np.maximum(best, np.max(np.exp(-beta * (a + b - 1)) * np.where(a + b > 0, width, 0.0), axis=1))
    return best


def log_mean(values: Array) -> Array:
    """The log of the average of exp over the last axis; NaN (no data set at all) counts as never."""
    with np.errstate(invalid="ignore", divide="ignore"):
        values = np.where(np.isnan(values), -np.inf, values)
        top = np.max(values, axis=-1, keepdims=True)
        safe = np.where(np.isfinite(top), top, 0.0)
        return np.log(np.mean(np.exp(values - safe), axis=-1)) + safe[..., 0]
