"""Losses: what an answer a costs where the truth is g.

    "squared"         (g - a)^2                              the posterior mean is best
    "absolute"        |g - a|                                the posterior median
    ("pinball", q)    q (g - a) if g > a else (1-q) (a - g)  the posterior q-quantile
    ("window", h)     1 if |g - a| > h else 0                the middle of the likeliest window of width 2h
    f                 any function f(g, a) of arrays         searched for

The first four are *ordered*: for a < a' the difference L(g, a) - L(g, a') passes from negative to positive once, as g
grows. With a belief that is monotone in s this makes the geometric mechanism optimal (`geometric`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize.elementwise import find_root

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.point.belief import Belief, PointBelief
from noisewise.populations.parameters import Array
from noisewise.printable import shown

SEARCHED = 513  # actions looked at before the best is refined
STEPS = 8  # answers beyond the range of the estimand, for each doubling of the distance
HALVINGS = 50
GOLDEN = (5**0.5 - 1) / 2


class Loss(Protocol):
    """What an answer costs on average, and which answer costs least."""

    @property
    def name(self) -> str: ...

    @property
    def is_ordered(self) -> bool: ...

    def cost(self, truth: Array, answer: Array) -> Array:
        """L(g, a), elementwise."""
        ...

    def expected(self, belief: Belief, actions: Array) -> Array:
        """E[L(g, a) | s], (S, M)."""
        ...

    def best_actions(self, belief: Belief, joint: Array) -> Array:
        """The Bayes action of each output z, (Z,), from P(s, z) (S, Z)."""
        ...

    def reach(self, belief: Belief) -> tuple[float, float]:
        """Where answers are looked for."""
        ...


@dataclass(frozen=True, slots=True)
class Squared:
    """(g - a)^2."""

    name: ClassVar[str] = "squared"
    is_ordered: ClassVar[bool] = True

    def cost(self, truth: Array, answer: Array) -> Array:
        return np.asarray((truth - answer) ** 2)

    def expected(self, belief: Belief, actions: Array) -> Array:
        return np.asarray(belief.variance[:, None] + (belief.mean[:, None] - actions) ** 2)

    def best_actions(self, belief: Belief, joint: Array) -> Array:
        return np.asarray(belief.mean @ joint / joint.sum(axis=0))

    def reach(self, belief: Belief) -> tuple[float, float]:
        return belief.range


@dataclass(frozen=True, slots=True)
class Pinball:
    """`scale` times the pinball loss of the q-quantile; twice that of the median is the absolute loss."""

    q: float
    scale: float = 1.0
    is_ordered: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "absolute" if (self.q, self.scale) == (0.5, 2.0) else f"pinball({self.q:g})"

    def cost(self, truth: Array, answer: Array) -> Array:
        return np.asarray(self.scale * np.where(truth > answer, self.q, self.q - 1) * (truth - answer))

    def expected(self, belief: Belief, actions: Array) -> Array:
        """q (E[g] - a) + E[max(a - g, 0)], times the scale."""
        return self.scale * (self.q * (belief.mean[:, None] - actions) + belief.shortfall(actions))

    def best_actions(self, belief: Belief, joint: Array) -> Array:
        """Where the distribution function of g given z passes q."""
        given, outputs = joint / joint.sum(axis=0), np.arange(joint.shape[1])

        def excess(actions: Array, z: NDArray[np.intp]) -> Array:
            return np.asarray((given[:, z] * belief.below(actions)).sum(axis=0) - self.q)

        low, high = belief.range
        return np.asarray(find_root(excess, (np.nextafter(low, -np.inf), high), args=(outputs,)).x)

    def reach(self, belief: Belief) -> tuple[float, float]:
        return belief.range


@dataclass(frozen=True, slots=True)
class Window:
    """1 where the answer misses the truth by more than `half_width`, else 0."""

    half_width: float
    is_ordered: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"window({self.half_width:g})"

    def cost(self, truth: Array, answer: Array) -> Array:
        return np.asarray(np.abs(truth - answer) > self.half_width, dtype=float)

    def expected(self, belief: Belief, actions: Array) -> Array:
        before = np.nextafter(actions - self.half_width, -np.inf)
        return np.asarray(1 - belief.below(actions + self.half_width) + belief.below(before))

    def best_actions(self, belief: Belief, joint: Array) -> Array:
        return searched_actions(self, belief, joint)

    def reach(self, belief: Belief) -> tuple[float, float]:
        return belief.range


@dataclass(frozen=True, slots=True)
class Custom:
    """Any function of the truth and the answer, given as arrays that broadcast."""

    function: Callable[[Array, Array], Any]
    name: ClassVar[str] = "custom"
    is_ordered: ClassVar[bool] = False

    def cost(self, truth: Array, answer: Array) -> Array:
        values = self._called(truth, answer)
        if not np.all(np.isfinite(values)):
            raise InvalidArgument(
                "loss must give one finite number for each pair of truth and answer; some were not finite.",
                argument="loss",
            )
        return values

    def expected(self, belief: Belief, actions: Array) -> Array:
        if not isinstance(belief, PointBelief):
            raise Unsupported("A loss given as a function needs a belief on points of the parameter.")
        return belief.expected(self.cost, actions)

    def best_actions(self, belief: Belief, joint: Array) -> Array:
        return searched_actions(self, belief, joint)

    def reach(self, belief: Belief) -> tuple[float, float]:
        """The range of the estimand, and as far beyond it as some value of s has a better answer.

        Looked for at ever wider steps, up to 2^20 times the range away; where the loss is not finite, it is not.
        """
        low, high = belief.range
        if not isinstance(belief, PointBelief):
            return low, high
        width = (high - low) or max(abs(low), 1.0)
        beyond = width * 2.0 ** np.linspace(-6, 20, 26 * STEPS + 1)
        answers = np.concatenate([low - beyond[::-1], np.linspace(low, high, SEARCHED // 4), high + beyond])
        with np.errstate(all="ignore"):
            costs = self._called(belief.values[:, None], answers[None, :])
            is_finite = np.asarray(np.isfinite(costs).all(axis=0))
            risks = np.full((len(belief.posterior), len(answers)), np.inf)
            risks[:, is_finite] = belief.posterior @ costs[:, is_finite]
        least = risks[:, (answers >= low) & (answers <= high)].min(axis=1)
        if not np.all(np.isfinite(least)):
            return low, high
        best = np.argmin(risks, axis=1)[np.flatnonzero(risks.min(axis=1) < least - 1e-9 * np.abs(least))]
        around = np.clip(np.concatenate([best - 1, best, best + 1]), 0, len(answers) - 1)
        found = [low, high, *answers[around[is_finite[around]]].tolist()]
        return min(found), max(found)

    def _called(self, truth: Array, answer: Array) -> Array:
        shape = np.broadcast_shapes(truth.shape, answer.shape)
        try:
            values = np.asarray(self.function(truth, answer), dtype=float)
        except Exception as fault:
            raise InvalidArgument(
                f"loss must be a function of two arrays, truth and answer, that gives numbers; it failed with "
                f"{type(fault).__name__}: {fault!s:.100}",
                argument="loss",
            ) from fault
        if values.shape != shape:
            raise InvalidArgument(
                f"loss must give one finite number for each pair of truth and answer, in shape {shape}; it gave shape "
                f"{values.shape}. Write it for arrays, as in lambda g, a: np.abs(g - a)**1.5.",
                argument="loss",
            )
        return values


def searched_actions(loss: Loss, belief: Belief, joint: Array) -> Array:
    """The best of many actions for each output, then refined between its neighbours by golden sections."""
    given = joint / joint.sum(axis=0)
    grid = np.linspace(*loss.reach(belief), SEARCHED)
    risks = given.T @ loss.expected(belief, grid)
    best = np.argmin(risks, axis=1)
    low, high = grid[np.maximum(best - 1, 0)], grid[np.minimum(best + 1, SEARCHED - 1)]
    for _ in range(HALVINGS):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        is_left = _risk_at(loss, belief, given, left) <= _risk_at(loss, belief, given, right)
        low, high = np.where(is_left, low, left), np.where(is_left, right, high)
    refined = (low + high) / 2
    is_better = _risk_at(loss, belief, given, refined) < risks[np.arange(len(best)), best]
    return np.asarray(np.where(is_better, refined, grid[best]))


def _risk_at(loss: Loss, belief: Belief, given: Array, actions: Array) -> Array:
    """The expected loss of one action for each output, (Z,)."""
    return np.asarray((given * loss.expected(belief, actions)).sum(axis=0))


def read_loss(given: object) -> Loss:
    """A loss from its name, from a pair such as ("pinball", 0.9) or its text "pinball(0.9)", or from a function."""
    if isinstance(given, str) and given in ("squared", "absolute"):
        return Squared() if given == "squared" else Pinball(0.5, 2.0)
    if isinstance(given, str) and (found := re.fullmatch(r"\s*(pinball|window)\(\s*([^()]{1,40})\)\s*", given)):
        given = (found[1], found[2])
    if isinstance(given, tuple) and len(given) == 2 and given[0] in ("pinball", "window"):
        number = _positive(given[1], str(given[0]))
        return Pinball(number) if given[0] == "pinball" else Window(number)
    if callable(given):
        return Custom(given)
    raise InvalidArgument(
        f"loss = {shown(given)}: expected 'squared', 'absolute', ('pinball', q) with 0 < q < 1, ('window', h) with h > "
        "0, or a function of the truth and the answer.",
        argument="loss",
    )


def _positive(value: object, kind: str) -> float:
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else np.nan
    except (ValueError, OverflowError):
        number = np.nan
    if not 0 < number < (1 if kind == "pinball" else np.inf):
        wanted = "a number between 0 and 1" if kind == "pinball" else "a number above 0"
        raise InvalidArgument(f"loss = ({kind!r}, {shown(value)}): expected {wanted}.", argument="loss")
    return number
