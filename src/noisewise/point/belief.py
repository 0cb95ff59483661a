"""What a value of the statistic says about the estimand, before any noise.

A belief holds, for every value s of a finite statistic, its probability P(s) and the law of the estimand g given s.
That is all a decision needs: an estimator P(action | s) has the Bayes risk
    R = sum_s P(s) sum_a P(a | s) E[L(g, a) | s].

    BetaBelief    s successes of n, p ~ Beta(a, b): p | s ~ Beta(a + s, b + n - s), in closed form, no grid
    PointBelief   weighted points of the parameter: any prior, any likelihood, any estimand g(theta). Where they are
                  points of a continuous prior and g is theta itself, P(g <= a | s) comes from `panels`, without steps
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.point.panels import PriorPanels
from noisewise.populations.parameters import Array
from noisewise.printable import shown

LARGEST = 1e100  # of an estimand: its square is a number
MOST_ENTRIES = 2**25  # of the posterior over points, one row a value of the statistic


class Belief(Protocol):
    """P(s), and the law of the estimand given s; arrays have one row a value of s."""

    @property
    def log_weights(self) -> Array:
        """log P(s), (S,)."""
        ...

    @property
    def mean(self) -> Array:
        """E[g | s], (S,)."""
        ...

    @property
    def variance(self) -> Array:
        """Var(g | s), (S,)."""
        ...

    @property
    def range(self) -> tuple[float, float]:
        """Where the estimand can be."""
        ...

    @property
    def is_monotone(self) -> bool:
        """Known to grow (or to fall) with s in the likelihood-ratio order."""
        ...

    def below(self, actions: Array) -> Array:
        """P(g <= a | s), (S, M)."""
        ...

    def shortfall(self, actions: Array) -> Array:
        """E[max(a - g, 0) | s], (S, M)."""
        ...

    def only(self, rows: NDArray[np.bool_]) -> Belief:
        """The belief at some values of s, with their probabilities as they are."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class BetaBelief:
    """A proportion with a beta prior behind a count: p | s ~ Beta(a[s], b[s])."""

    log_weights: Array
    a: Array
    b: Array

    @classmethod
    def of(cls, n: int, a: float, b: float, *, is_complement: bool = False) -> BetaBelief:
        """n records, each counted with probability p ~ Beta(a, b), or with 1 - p."""
        successes = np.arange(n + 1.0)[::-1] if is_complement else np.arange(n + 1.0)
        ways = -special.betaln(successes + 1, n - successes + 1) - np.log(n + 1)
        log_weights = ways + special.betaln(a + successes, b + n - successes) - special.betaln(a, b)
        return cls(log_weights - special.logsumexp(log_weights), a + successes, b + n - successes)

    @property
    def mean(self) -> Array:
        return self.a / (self.a + self.b)

    @property
    def variance(self) -> Array:
        return self.a * self.b / ((self.a + self.b) ** 2 * (self.a + self.b + 1))

    @property
    def range(self) -> tuple[float, float]:
        return 0.0, 1.0

    @property
    def is_monotone(self) -> bool:
        return True

    def below(self, actions: Array) -> Array:
        return np.asarray(special.betainc(self.a[:, None], self.b[:, None], np.clip(actions, 0, 1)))

    def shortfall(self, actions: Array) -> Array:
        """a I_a(alpha, beta) - mean I_a(alpha + 1, beta)."""
        inside = np.clip(actions, 0, 1)
        partial_mean = self.mean[:, None] * special.betainc(self.a[:, None] + 1, self.b[:, None], inside)
        return np.asarray(actions * self.below(actions) - partial_mean)

    def only(self, rows: NDArray[np.bool_]) -> BetaBelief:
        return BetaBelief(self.log_weights[rows], self.a[rows], self.b[rows])


@dataclass(frozen=True, slots=True, eq=False)
class PointBelief:
    """Points of the estimand, in increasing order, and their probability given s (S, I)."""

    log_weights: Array
    values: Array
    posterior: Array
    is_monotone: bool
    panels: PriorPanels | None = None  # where the points stand for a continuous law of the estimand itself

    @classmethod
    def of(
        cls, values: Array, prior: Array, likelihood: Array, *, is_monotone: bool, panels: PriorPanels | None = None
    ) -> PointBelief:
        """From the estimand (I,) and the probability (I,) of each point, and P(s | point) (S, I)."""
        order = np.argsort(values, kind="stable")
        joint = likelihood[:, order] * prior[order]
        weights = joint.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            posterior = np.where(weights[:, None] > 0, joint / weights[:, None], prior[order])
            log_weights = np.log(weights / weights.sum())
        return cls(log_weights, values[order], posterior, is_monotone, panels)

    @property
    def mean(self) -> Array:
        return np.asarray(self.posterior @ self.values)

    @property
    def variance(self) -> Array:
        return np.asarray(self.posterior @ self.values**2 - self.mean**2).clip(0)

    @property
    def range(self) -> tuple[float, float]:
        return float(self.values[0]), float(self.values[-1])

    def below(self, actions: Array) -> Array:
        return self._cumulative(self.posterior, actions)

    def shortfall(self, actions: Array) -> Array:
        return actions * self.below(actions) - self._cumulative(self.posterior * self.values, actions)

    def expected(self, loss: Callable[[Array, Array], Array], actions: Array) -> Array:
        """E[loss(g, a) | s], (S, M)."""
        return np.asarray(self.posterior @ loss(self.values[:, None], actions[None, :]))

    def only(self, rows: NDArray[np.bool_]) -> PointBelief:
        return PointBelief(self.log_weights[rows], self.values, self.posterior[rows], self.is_monotone, self.panels)

    def _cumulative(self, terms: Array, actions: Array) -> Array:
        if self.panels is not None:
            return self.panels.below(terms, actions)
        sums = np.concatenate([np.zeros((len(terms), 1)), np.cumsum(terms, axis=1)], axis=1)
        return np.asarray(sums[:, np.searchsorted(self.values, actions, side="right")])


def binomial_belief(
    n: int,
    probability: Array,
    prior: Array,
    values: Array,
    *,
    is_monotone: bool | None = None,
    panels: PriorPanels | None = None,
) -> PointBelief:
    """A count of n records, each counted with `probability` (I,), where the estimand is `values` (I,).

    The binomial law has a monotone likelihood ratio, so the belief is monotone where the estimand is a monotone
    function of the probability.
    """
    if (n + 1) * len(values) > MOST_ENTRIES:
        raise Unsupported(
            f"n = {n} records and {len(values)} points of the prior make a table of more than {MOST_ENTRIES} entries. "
            "Use a beta prior on the proportion itself, which needs no points, or fewer records."
        )
    s = np.arange(n + 1.0)[:, None]
    ways = -special.betaln(s + 1, n - s + 1) - np.log(n + 1)
    likelihood = np.exp(ways + special.xlogy(s, probability) + special.xlog1py(n - s, -probability))
    if is_monotone is None:
        steps = np.diff(values[np.argsort(probability, kind="stable")])
        is_monotone = bool(np.all(steps >= 0) or np.all(steps <= 0))
    return PointBelief.of(values, prior, likelihood, is_monotone=is_monotone, panels=panels)


def estimand_values(estimand: Callable[[Array], Any] | None, theta: Array) -> Array:
    """g(theta) at every point, checked."""
    if estimand is None:
        return theta
    if not callable(estimand):
        raise InvalidArgument(f"estimand = {shown(estimand)} must be a function of the parameter.", argument="estimand")
    try:
        values = np.asarray(estimand(theta), dtype=float)
    except Exception as fault:
        raise InvalidArgument(
            f"estimand must be a function of one array, the parameter, that gives numbers; it failed with "
            f"{type(fault).__name__}: {fault!s:.100}",
            argument="estimand",
        ) from fault
    if values.shape != theta.shape[:1]:
        raise InvalidArgument(
            f"estimand must give one finite number for each of {len(theta)} parameter values; it gave shape "
            f"{values.shape}. Write it for arrays, as in lambda p: (p - 0.5)**2.",
            argument="estimand",
        )
    if not np.all(np.abs(values) < LARGEST):
        raise InvalidArgument(
            f"estimand must give one finite number for each of {len(theta)} parameter values; it is not finite, or not "
            f"below {LARGEST:g}, at {theta[~(np.abs(values) < LARGEST)][0]!s:.60}.",
            argument="estimand",
        )
    return values
