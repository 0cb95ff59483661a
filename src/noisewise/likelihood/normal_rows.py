"""Which rows of theta a law was asked about, which of them kept the normal law's value, and whether that could show.

An exact law of a sum has parameters at which it would cost too much, and gives them the central limit theorem's value.
That is told where such a row comes within e^-10 of the best row that was seen: the posterior may have mass there. It is
warned of where the posterior, as drawn, has at least 2 % of its mass at such rows: with less, a stand-in that is wrong
by a factor e, three sds from the middle, moves a posterior mean by a tenth of its sd at most.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from noisewise.populations.parameters import Array, Theta, rows_of

__all__ = ["NormalRows", "SeenRows", "cautions_at"]

SEEN = 10.0
VISIBLE_SHARE = 0.02  # of the posterior
KEPT = 96  # rows that a law remembers, at most


class Cautious(Protocol):
    """A law that knows where it falls short."""

    @property
    def cautions(self) -> tuple[str, ...]: ...


@singledispatch
def cautions_at(model: Cautious, theta: Theta) -> tuple[str, ...]:
    """The cautions of a law, given rows of theta drawn from the posterior that it led to."""
    del theta
    return model.cautions


class NormalRows:
    """The best log-likelihood so far, over all rows and over those by the central limit theorem, and how many those."""

    def __init__(self) -> None:
        self.best, self.best_normal = -np.inf, -np.inf
        self.count = 0

    def add(self, log_likelihood: Array, is_normal: NDArray[np.bool_]) -> None:
        """Rows (K,) that were evaluated, and which of them are normal."""
        self.best = float(np.nanmax(log_likelihood, initial=self.best))
        self.best_normal = float(np.nanmax(log_likelihood[is_normal], initial=self.best_normal))
        self.count += int(np.sum(is_normal))

    @property
    def matter(self) -> bool:
        return self.best_normal > -np.inf and self.best_normal > self.best - SEEN

    def words(self) -> str:
        """What `because` adds; empty where no such row could be seen."""
        if not self.matter:
            return ""
        which = "the most likely" if self.best_normal >= self.best else "some likely"
        return f"; but at {which} parameters the central limit theorem, as the exact law would cost too much there"

    def cautions(self, n: int) -> tuple[str, ...]:
        """The same as a warning that opens the verdict."""
        if not self.matter:
            return ()
        return (
            f"At some likely parameters the law of sums of {n} records could not be computed at a bearable cost, and "
            "the central limit theorem stands in for it: intervals may be off there.",
        )

    def cautions_at(self, log_likelihood: Callable[[Theta], Array], theta: Theta, n: int) -> tuple[str, ...]:
        """The warning, where such rows hold a visible share of posterior draws theta."""
        if not self.matter:
            return ()
        before = self.count
        log_likelihood(theta)
        return self.cautions(n) if self.count - before >= VISIBLE_SHARE * rows_of(theta) else ()


class SeenRows:
    """Some of the rows of theta that explain the release about as well as the best one seen so far."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, dict[str, Array]]] = []
        self.asked = 0

    def add(self, theta: Theta, log_likelihood: Array) -> None:
        """The best rows of a batch; an old one makes room in turn."""
        best = max((value for value, _ in self.rows), default=-np.inf)
        close = np.flatnonzero(log_likelihood > max(best, float(np.nanmax(log_likelihood, initial=-np.inf))) - SEEN / 2)
        for k in close[:: max(1, close.size // 16)]:
            one = {name: np.array(value)[k : k + 1] for name, value in theta.items()}
            if len(self.rows) < KEPT:
                self.rows.append((float(log_likelihood[k]), one))
            else:
                self.rows[self.asked % KEPT] = (float(log_likelihood[k]), one)
            self.asked += 1

    def likely(self) -> tuple[dict[str, Array], Array]:
        """theta and log-likelihoods of the rows that are still close to the best."""
        best = max((value for value, _ in self.rows), default=-np.inf)
        kept = [(value, one) for value, one in self.rows if value > best - SEEN / 2]
        names = kept[0][1] if kept else {}
        return {name: np.concatenate([one[name] for _, one in kept]) for name in names}, np.array([v for v, _ in kept])
