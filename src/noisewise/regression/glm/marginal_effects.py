"""Average marginal effects: what a feature changes in the probability, or the rate, on the average of all records.

A coefficient speaks of log odds, and an odds ratio of odds; most people ask by how much a probability moves. Records
follow the law that was learnt with the coefficients, f = a(c) + D(c) z with z | c ~ N(mean(c), covariance), so at every
draw of the posterior
    a number z_k        sum_c p_c E[g'(s) | c] (beta' D(c))_k       per unit of z_k, interactions included
    a condition         sum_c p_c E[g(s_on) - g(s_off) | c], s_on and s_off with the condition on and the column at
                        its reference (all of its conditions off), everything else of the record as it is
with s given c normal: integrals over one dimension, by the trapezoidal rule. A number that stands in several features
of its own (age and age**2), or in a number and in a condition, does not move alone; it is left out, and said so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noisewise.errors import Unsupported
from noisewise.inference.intervals import checked_level, equal_tailed
from noisewise.inference.posterior import Posterior
from noisewise.regression.configurations import Configurations
from noisewise.regression.glm.answers import Effects
from noisewise.regression.glm.rows import covariate_arrays
from noisewise.regression.location import CONFIGURATION_SHARE, NUMBER_COVARIANCE, NUMBER_MEAN
from noisewise.regression.prediction import feature_rows
from noisewise.regression.priors import INTERCEPT
from noisewise.statistics.feature import Feature
from noisewise.types import Floats, Ints

if TYPE_CHECKING:
    from noisewise.regression.glm.model import MomentsGlm

__all__ = ["effect_draws", "marginal_effects"]

REACH, WIDEST_STEP, NARROWEST, MOST_NODES = 8.0, 0.4, 0.3, 400  # as in links.py: steps by the spread of s
MOST_NUMBERS = 4_000_000
STEP = 1e-2


def marginal_effects(model: MomentsGlm, posterior: Posterior, *, level: float) -> Effects:
    """The average effect of every number and condition, with its interval."""
    share = checked_level(level)
    found, left_out = effect_draws(model, posterior)
    if not found:
        raise Unsupported(f"No feature moves alone: {left_out[0]}. Compare predictions: predict(posterior, X).")
    draws = np.stack(list(found.values()), axis=1)
    low, high = equal_tailed(draws, share)
    name = "average change of the " + ("rate" if model.link.is_count else "probability")
    return Effects(name, tuple(found), np.median(draws, axis=0), low, high, share, tuple(left_out))


def effect_draws(model: MomentsGlm, posterior: Posterior) -> tuple[dict[str, Floats], list[str]]:
    """The effects at every draw, by feature, and sentences about those that have none."""
    feature_rows(model, posterior, np.zeros((1, len(model.features))))  # refuses another model's posterior
    if posterior.is_point or CONFIGURATION_SHARE not in posterior.draws:
        raise Unsupported(
            f"method={posterior.method!r} learnt no law of the features, over which an effect could be averaged; use "
            f"method={posterior.instead!r}."
        )
    made = model.configurations([release.schema for release in posterior.releases])
    law = _Law.of(model, posterior, made)
    moving, left_out = _moving(model, made)
    found = {str(number): law.number(k, number) for k, number in moving.numbers}
    found |= {str(made.conditions[k]): law.condition(k, group) for k, group in moving.conditions}
    ordered = [str(feature) for feature in model.features if str(feature) in found]
    return {name: found[name] for name in [*ordered, *(name for name in found if name not in ordered)]}, left_out


@dataclass(frozen=True, slots=True, eq=False)
class _Moving:
    """What moves alone: numbers with their place among made.numbers, conditions with all of their column."""

    numbers: tuple[tuple[int, Feature], ...]
    conditions: tuple[tuple[int, tuple[int, ...]], ...]


def _moving(model: MomentsGlm, made: Configurations) -> tuple[_Moving, list[str]]:
    numbers = made.numbers or tuple(f for f in model.features if f not in model.conditions)  # rows given one by one
    parts: list[Feature] = [*numbers, *made.conditions]
    left_out = []
    alone, conditions = [], []
    for k, number in enumerate(numbers):
        others = [part for part in parts if part is not number and part.columns() & number.columns()]
        if others:
            left_out.append(f"{number} does not move without {others[0]}")
        else:
            alone.append((k, number))
    for k, condition in enumerate(made.conditions):
        group = tuple(j for j, one in enumerate(made.conditions) if one.columns() & condition.columns())
        both = [number for number in numbers if number.columns() & condition.columns()]
        if both:
            left_out.append(f"{condition} does not move without {both[0]}")
        elif not _has_reference(made, group):
            left_out.append(f"{condition} has no level beside it to be compared with")
        else:
            conditions.append((k, group))
    return _Moving(tuple(alone), tuple(conditions)), left_out


def _has_reference(made: Configurations, group: Sequence[int]) -> bool:
    return bool(np.any(np.all(made.states[:, list(group)] == 0, axis=1)))


@dataclass(frozen=True, slots=True, eq=False)
class _Law:
    """The coefficients and the law of the features at K draws."""

    mean_of: Callable[[Floats], Floats]
    made: Configurations
    start: Floats  # (K,)
    slopes: Floats  # (K, d)
    share: Floats  # (K, C)
    middle: Floats  # (K, C, k): of the numbers
    root: Floats  # (K, k, k)
    names: tuple[str, ...]

    @classmethod
    def of(cls, model: MomentsGlm, posterior: Posterior, made: Configurations) -> _Law:
        def drawn(name: str) -> Floats:
            value = np.asarray(posterior.draws[name], float)
            return value.reshape(-1, *value.shape[2:])

        slopes = np.stack([drawn(str(feature)) for feature in model.features], axis=1)
        start = drawn(INTERCEPT) if model.intercept else np.zeros(len(slopes))
        known = [CONFIGURATION_SHARE, *((NUMBER_MEAN, NUMBER_COVARIANCE) if made.numbers else ())]
        theta = {name: drawn(name) for name in known}
        share, _, _ = covariate_arrays(made, theta)  # refuses draws of other combinations
        count, k = len(slopes), len(made.numbers)
        middle = theta[NUMBER_MEAN] if k else np.zeros((count, made.count, 0))
        root = np.asarray(np.linalg.cholesky(theta[NUMBER_COVARIANCE]), float) if k else np.zeros((count, 0, 0))
        names = tuple(str(feature) for feature in model.features)
        return cls(model.link.mean, made, start, slopes, share, middle, root, names)

    def number(self, k: int, number: Feature) -> Floats:
        """The mean derivative along the k-th number (K,)."""
        here = np.arange(self.made.count)
        m, sd = self.line(here)
        rise = (8 * (self.average(m + STEP, sd) - self.average(m - STEP, sd))
                - (self.average(m + 2 * STEP, sd) - self.average(m - 2 * STEP, sd))) / (12 * STEP)  # fmt: skip
        if not self.made.numbers:
            return np.asarray((self.share * rise).sum(axis=1) * self.slopes[:, self.names.index(str(number))])
        slope = np.einsum("ni,ci->nc", self.slopes, self.made.coefficient[:, :, k])
        return np.asarray((self.share * rise * slope).sum(axis=1))

    def condition(self, k: int, group: Sequence[int]) -> Floats:
        """The mean change (K,) from all conditions of a column off to this one on."""
        states = {tuple(state): c for c, state in enumerate(self.made.states)}
        on, off = self.made.states.copy(), self.made.states.copy()
        on[:, list(group)] = off[:, list(group)] = 0.0
        on[:, k] = 1.0
        places = [np.array([states[tuple(state)] for state in moved]) for moved in (on, off)]
        high, low = (self.average(*self.line(place)) for place in places)
        return np.asarray((self.share * (high - low)).sum(axis=1))

    def line(self, place: Ints) -> tuple[Floats, Floats]:
        """Mean and sd (K, C) of s where conditions are those of `place` and numbers are of their own combination."""
        loading = np.einsum("ni,cik->nck", self.slopes, self.made.coefficient[place])
        m = (
            self.start[:, None]
            + self.slopes @ self.made.constant[place].T
            + np.einsum("nck,nck->nc", loading, self.middle)
        )
        spread = np.einsum("nck,nkl->ncl", loading, self.root)
        return np.asarray(m), np.sqrt((spread**2).sum(axis=2))

    def average(self, m: Floats, sd: Floats) -> Floats:
        """E g(m + sd t), t ~ N(0, 1), for each entry."""
        step = min(WIDEST_STEP, NARROWEST / max(float(sd.max()), 1e-300))
        half = min(int(np.ceil(REACH / step)), MOST_NODES)
        t = np.linspace(-REACH, REACH, 2 * half + 1)
        weight = np.exp(-0.5 * t * t)
        weight /= weight.sum()
        found = np.empty_like(m)
        rows = max(1, MOST_NUMBERS // (m.shape[1] * len(t)))
        for first in range(0, len(m), rows):
            part = slice(first, first + rows)
            found[part] = self.mean_of(m[part, :, None] + sd[part, :, None] * t) @ weight
        return found
