"""Output perturbation of many small regressions, as the Opportunity Atlas does it (Chetty & Friedman 2019).

For groups g of N_g records in [0, 1]^2, theta_g is the least-squares prediction of y at one x. One more record can move
it by at most the local sensitivity LS_g, the largest change over added records at the corners of the square. Then

    chi = max_g N_g LS_g,      published_g = theta_g + (chi/(epsilon N_g)) Laplace(1)   (or a normal of the same sd)

**Not differentially private**: LS_g and chi are read from the records, and chi is published. The noise is small because
of it. For comparison only (Bernstein 2020, thesis, section 5.4); simulated noise from the generator that is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from noisewise.errors import InvalidArgument
from noisewise.printable import shown
from noisewise.types import Floats

CORNERS = ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Perturbed:
    """What would be published of each group, and how far off it may be."""

    published: Floats  # (groups,)
    exact: Floats  # (groups,) the least-squares predictions themselves
    noise_sd: Floats  # (groups,)
    chi: float  # the largest N_g LS_g


def output_perturbation(
    rng: np.random.Generator,
    groups: Sequence[tuple[ArrayLike, ArrayLike]],
    *,
    at: float,
    epsilon: float,
    law: str = "laplace",
) -> Perturbed:
    """Noisy least-squares predictions at x = `at` of groups of records (x, y) in [0, 1]^2."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise InvalidArgument(f"epsilon = {epsilon!r} must be above 0.", argument="epsilon")
    if law not in ("laplace", "gaussian"):
        raise InvalidArgument(f"law = {shown(law, 40)}: there are laplace and gaussian.", argument="law")
    records = [(np.asarray(x, float).ravel(), np.asarray(y, float).ravel()) for x, y in groups]
    if not records or any(len(x) != len(y) or len(x) < 2 for x, y in records):
        raise InvalidArgument("groups must hold pairs (x, y) of equal length, at least 2.", argument="groups")
    if any(min(x.min(), y.min()) < 0 or max(x.max(), y.max()) > 1 for x, y in records):
        raise InvalidArgument("groups: records must lie in [0, 1]; scale them by public bounds.", argument="groups")
    sizes = np.array([len(x) for x, _ in records], float)
    exact = np.array([prediction(x, y, at) for x, y in records])
    chi = float(max(size * local_sensitivity(x, y, at) for size, (x, y) in zip(sizes, records, strict=True)))
    scale = chi / (epsilon * sizes)
    noise = rng.laplace(size=len(sizes)) if law == "laplace" else math.sqrt(2) * rng.standard_normal(len(sizes))
    return Perturbed(exact + scale * noise, exact, math.sqrt(2) * scale, chi)


def prediction(x: Floats, y: Floats, at: float) -> float:
    """The least-squares line at x = `at`; the mean of y where all x are equal."""
    away = x - x.mean()
    spread = float(away @ away)
    slope = float(away @ y) / spread if spread > 1e-24 * len(x) else 0.0  # less is rounding: all x are equal
    return float(y.mean()) + slope * (at - float(x.mean()))


def local_sensitivity(x: Floats, y: Floats, at: float) -> float:
    """The largest change of the prediction when one record at a corner of the square is added."""
    now = prediction(x, y, at)
    return max(abs(prediction(np.append(x, a), np.append(y, b), at) - now) for a, b in CORNERS)
