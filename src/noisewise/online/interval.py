"""The most informative interval for a location-scale population, solved once for its base (Yıldırım 2024, Theorem 3).

An answer clipped to [m + a c, m + b c] has information F(a, b) about (m/c, log c) whatever m and c are, so the best
(a, b) is a number of the base distribution and the guarantee:
    location    max F_11(a, b)                          normal, Laplace noise: +-0.0706, 0.2234, 0.7281, 1.2244
    harmonic    max 1/(1/F_11 + 1/F_22)                 at epsilon = 1, 2, 5, 10 for F_11
The search walks in (centre, log half-width) by Newton steps on a nine-point stencil, from the best of several starts.
Under the harmonic score and epsilon up to about 2 there are two mirrored optima; the upper one is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewise.deprecation import by_name
from noisewise.errors import InvalidArgument
from noisewise.inference.transform import Transform
from noisewise.online.answer_information import Stencil, information, stencil
from noisewise.online.answer_law import AnswerLaw
from noisewise.online.asked import Asked, asked_clip
from noisewise.populations.parameters import Array
from noisewise.populations.population import LocationScale, Normal
from noisewise.printable import shown
from noisewise.privacy.guarantee import Guarantee

__all__ = ["Interval", "best_interval", "best_on_base"]

CENTRES = np.array([0.0, 0.35, 0.8, 1.3])
HALF_WIDTHS = np.array([0.05, 0.15, 0.4, 0.8, 1.3, 2.2])
STENCIL = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [1, -1], [-1, 1], [-1, -1]], float)
FINEST, LONGEST, MOST_STEPS = 4e-3, 0.5, 40
NARROWEST = 0.01  # half a width, in scales: narrower than this an answer is all noise and a sign
SCORES = ("location", "harmonic")


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """An interval in units of (x - loc)/scale, its information on (loc/scale, log scale), and its score."""

    low: float
    high: float
    information: Array
    value: float


@by_name("guarantee", write="best_interval('normal', guarantee=PureDP(1))", places=("base", "guarantee"))
def best_interval(base: Any, *, guarantee: Guarantee, score: str = "location") -> Interval:
    """The best interval for a standard distribution: "normal", or one of scipy.stats such as stats.t(5)."""
    from scipy import stats

    if score not in SCORES:
        raise InvalidArgument(f"score = {shown(score)}; there are {' and '.join(SCORES)}.", argument="score")
    unknown = {"loc": stats.norm(0, 1), "scale": stats.lognorm(1)}
    if base == "normal":
        population = Normal(mean=unknown["loc"], sd=unknown["scale"])
    else:
        population = LocationScale(base, **unknown)
    law, transform = AnswerLaw(population), Transform(population.supports)
    law.check(asked_clip(0, 1, guarantee))
    around = stencil(law, transform, np.zeros(2), np.eye(2))
    return _search(law, guarantee, around, (0.0, 1.0), score)


def best_on_base(
    law: AnswerLaw, guarantee: Guarantee, around: Stencil, place: tuple[float, float], score: str
) -> list[Asked]:
    """The best intervals of both scores at a place, with their mirror images, as candidates for any score."""
    loc, scale = place
    found = [_search(law, guarantee, around, place, one) for one in (SCORES if score not in SCORES else (score,))]
    ends = {(one.low, one.high) for one in found} | {(-one.high, -one.low) for one in found}
    return [asked_clip(loc + scale * low, loc + scale * high, guarantee) for low, high in sorted(ends)]


def _search(law: AnswerLaw, guarantee: Guarantee, around: Stencil, place: tuple[float, float], score: str) -> Interval:
    loc, scale = place

    def judged(point: Array) -> tuple[float, Array]:
        half = max(float(np.exp(point[1])), NARROWEST)
        low, high = point[0] - half, point[0] + half
        found = information(law, asked_clip(loc + scale * low, loc + scale * high, guarantee), around)
        each = np.maximum(np.diag(found), 1e-300)
        return float(each[0] if score == "location" else 1 / np.sum(1 / each)), found

    def height(point: Array) -> float:
        return judged(point)[0]

    # The harmonic score has up to three hills (on the centre and beside it), so each centre gets a rough climb.
    # A base that is its own mirror image is searched on one side.
    tops = []
    for centre in CENTRES if _is_symmetric(law, around) else np.union1d(CENTRES, -CENTRES):
        starts = [np.array([centre, np.log(half)]) for half in HALF_WIDTHS]
        tops.append(climbed(height, max(starts, key=height), finest=0.1, most_steps=2))
    best = climbed(height, max(tops, key=height))
    value, found = judged(best)
    half = max(float(np.exp(best[1])), NARROWEST)
    return Interval(float(best[0]) - half, float(best[0]) + half, found, value)


def _is_symmetric(law: AnswerLaw, around: Stencil) -> bool:
    """Whether the population at the stencil's centre is its own mirror image about its location."""
    theta = {name: np.asarray(value)[:1] for name, value in around.theta.items()}
    loc = law.place(theta)[0]
    below, above = np.ravel(law.population.quantile(np.array([0.2, 0.8]), theta)) - loc
    return bool(abs(below + above) < 1e-9 * (above - below))


def climbed(
    height: Callable[[Array], float], point: Array, *, finest: float = FINEST, most_steps: int = MOST_STEPS
) -> Array:
    """The top of a smooth hill of two coordinates, by Newton steps on a shrinking stencil."""
    size = 0.1
    for _ in range(most_steps):
        values = np.array([height(point + size * move) for move in STENCIL])
        slope = np.array([values[1] - values[2], values[3] - values[4]]) / (2 * size)
        cross = (values[5] - values[6] - values[7] + values[8]) / 4
        bend = np.array([[values[1] + values[2] - 2 * values[0], cross],
                         [cross, values[3] + values[4] - 2 * values[0]]]) / size**2  # fmt: skip
        if np.all(np.linalg.eigvalsh(bend) < 0):
            step = -np.linalg.solve(bend, slope)
            length = float(np.linalg.norm(step))
            step *= min(1.0, LONGEST / max(length, 1e-300))
        else:
            step = size * STENCIL[int(np.argmax(values))]
            length = float(np.linalg.norm(step))
        point = point + step
        if length < 1e-4 and size <= finest:
            break
        size = max(finest, min(size, length)) if length > 0 else finest
    return point
