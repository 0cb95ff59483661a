"""Intervals that rest on no model: a published cell over n, give or take noise and sampling.

A cell holds y = c + noise, c ~ Binomial(n, p). Both ends are score ends: p is inside as long as y is not farther from
n p than the level allows,
    |y - n p| <= q(p),      P(|N(0, n p (1 - p)) + noise| <= q(p)) = level,
the noise with the law that was declared, so no smoothing helps and none can hurt. Where noise swamps a model (n epsilon
below some thousands) such an interval still covers what it claims; elsewhere the model's is up to several times
narrower. For Laplace noise q is solved from the closed law of normal + Laplace; q is widened by half a count, since
counts are whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from noisewise.errors import Unsupported
from noisewise.graphical.answers import Probabilities
from noisewise.inference.intervals import checked_level
from noisewise.joining import listed_releases, refuse_left_out, stated_sizes
from noisewise.laws import Form, additive_law, normal_mixture
from noisewise.likelihood import normal_laplace
from noisewise.likelihood.stated_n import contradictions
from noisewise.release import NoisyValue
from noisewise.statistics import Histogram, Marginals
from noisewise.types import Floats

__all__ = ["direct", "half_width"]

HALVINGS = 40
GRID = 500


def direct(release: NoisyValue, *, level: float, n: int | None) -> Probabilities:
    """The share of every published cell, with its interval."""
    (given,) = listed_releases(release)
    refuse_left_out((given,), "a graphical model")
    share, statistic, law = checked_level(level), given.statistic, given.law
    if not isinstance(statistic, Histogram | Marginals) or law.form is not Form.NUMBER:
        raise Unsupported(f"The cells of a table have shares; {statistic} has none.")
    if isinstance(statistic, Marginals) and statistic.tied:
        raise Unsupported(
            "A tied table shares each record among several cells, so its entries are no counts of records. Publish the "
            "cliques in tables of their own, or ask the model with model.marginal(posterior, columns)."
        )
    (size,) = stated_sizes((given,), n)
    said = " ".join(contradictions((given,), [size]))
    y, sd = np.asarray(given.estimate), np.array(additive_law(law).sd)
    is_laplace = normal_mixture(law).is_laplace
    # Widths are solved for once, on a fine grid of sampling deviations for each size of noise.
    grids = {noise: np.append(0.0, np.geomspace(noise / 100, max(noise, math.sqrt(size)), GRID)) for noise in set(sd)}
    widths = {noise: half_width(grid, np.full_like(grid, noise), share, is_laplace=is_laplace)
              for noise, grid in grids.items()}  # fmt: skip

    def is_inside(p: Floats) -> NDArray[np.bool_]:
        sampling, width = np.sqrt(size * p * (1 - p)), np.empty_like(p)
        for noise, grid in grids.items():
            alike = sd == noise
            width[alike] = np.interp(sampling[alike], grid, widths[noise])
        return np.asarray(np.abs(y - size * p) <= width + 0.5)

    middle = np.clip(y / size, 0.0, 1.0)
    low = _end(is_inside, middle, np.zeros_like(middle))
    high = _end(is_inside, middle, np.ones_like(middle))
    cliques = ((statistic.column,),) if isinstance(statistic, Histogram) else statistic.cliques
    return Probabilities(cliques[0] if len(cliques) == 1 else (), given.labels, middle, low, high, share, note=said)


def half_width(sampling_sd: Floats, noise_sd: Floats, level: float, *, is_laplace: bool) -> Floats:
    """q with P(|N(0, sampling_sd^2) + noise| <= q) = level, elementwise."""
    if not is_laplace:
        return np.asarray(float(ndtri((1 + level) / 2)) * np.hypot(sampling_sd, noise_sd))
    scale, variance, tail = noise_sd / math.sqrt(2), np.square(sampling_sd), (1 - level) / 2
    # The normal and the Laplace quantile of one half of the error each bound that of both together.
    high = np.maximum(-float(ndtri(tail / 2)) * sampling_sd - scale * math.log(tail), 1e-300)
    low = np.zeros_like(high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        is_short = normal_laplace.cdf(-middle, mean=0.0, variance=variance, scale=scale) > tail
        low, high = np.where(is_short, middle, low), np.where(is_short, high, middle)
    return np.asarray(high)


def _end(is_inside: Callable[[Floats], NDArray[np.bool_]], inner: Floats, outer: Floats) -> Floats:
    """The last p from `inner` towards `outer` that is inside, by halving."""
    for _ in range(HALVINGS):
        middle = (inner + outer) / 2
        holds = is_inside(middle)
        inner, outer = np.where(holds, middle, inner), np.where(holds, outer, middle)
    return np.asarray((inner + outer) / 2)
