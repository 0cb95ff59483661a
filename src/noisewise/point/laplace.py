"""The baseline: the non-private Bayes estimate plus Laplace noise, three ways.

    y = m_s + b V,   b = max |m_s - m_s'| / epsilon over neighbours,   V ~ exp(-|v|)/2        (Lakshminarayanan & Rojas,
                                                      A unified approach to differentially private Bayes estimation, 5)
    "printed"   the answer is y
    "clipped"   the answer is y, moved into the range of the estimand: same privacy, never worse
    "bayes"     the answer is the Bayes action given y: the best that can be made of y

All are private by post-processing of one noisy number. For squared loss and a uniform prior the printed one has risk
1/(6(K+2)) + 2/((K+2) epsilon)^2. Risks come by Gauss-Legendre rules between the kinks m_s. For comparison only: nothing
here is drawn for a release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.likelihood.quadrature import on_panels
from noisewise.point.losses import Loss
from noisewise.point.models import Problem
from noisewise.populations.parameters import Array

KINDS = ("printed", "clipped", "bayes")
REACH = 45.0  # scales beyond which Laplace noise has no mass
LONGEST = 4.0  # of a panel, in scales
ORDER = 16


class _Outputs(NamedTuple):
    """Noisy values and the joint probability P(s, y), (S, Y): nodes of a rule, and all that lies beyond its ends."""

    values: Array
    joint: Array


@dataclass(frozen=True, slots=True, eq=False)
class LaplaceEstimator:
    """Laplace noise on the non-private Bayes estimate, then nothing, a clip, or the Bayes action."""

    problem: Problem
    loss: Loss
    kind: str
    centres: Array  # the non-private estimate for every s
    scale: float

    @classmethod
    def of(cls, problem: Problem, loss: Loss, epsilon: float, kind: str) -> LaplaceEstimator:
        if kind not in KINDS:
            raise InvalidArgument(f"kind = {kind!r:.40}; there are {', '.join(KINDS)}.", argument="kind")
        centres = loss.best_actions(problem.belief, np.eye(problem.size))
        one, other = np.array(problem.neighbours).T
        return cls(problem, loss, kind, centres, float(np.max(np.abs(centres[one] - centres[other]))) / epsilon)

    def answers(self, noisy: Array) -> Array:
        """The answer to each noisy value."""
        if self.kind == "printed":
            return noisy
        if self.kind == "clipped":
            return np.clip(noisy, *self.problem.belief.range)
        # Beyond the outermost centres nothing changes, so distances are taken from there and do not underflow.
        inside = np.clip(noisy, self.centres.min(), self.centres.max())
        log_joint = self.problem.belief.log_weights[:, None] - self._distance(inside)
        return self.loss.best_actions(self.problem.belief, np.exp(log_joint - log_joint.max(axis=0)))

    @property
    def risk(self) -> float:
        """The Bayes risk."""
        values, joint = self._outputs()
        return float((joint * self.loss.expected(self.problem.belief, self.answers(values))).sum())

    def _outputs(self) -> _Outputs:
        low, high = self._window()
        cuts = np.unique(np.concatenate([[low], np.clip(self.centres, low, high), [high]]))
        edges = [np.linspace(a, b, math.ceil((b - a) / (LONGEST * self.scale)) + 1)[:-1]
                 for a, b in pairwise(cuts)]  # fmt: skip
        nodes, weights = on_panels(np.append(np.concatenate(edges), high), ORDER)
        values = np.concatenate([nodes.ravel(), [low, high]])
        given = np.exp(-self._distance(values)) / 2
        given[:, :-2] *= weights.ravel() / self.scale
        return _Outputs(values, np.exp(self.problem.belief.log_weights)[:, None] * given)

    def _window(self) -> tuple[float, float]:
        """Where answers change; beyond it they are those at its ends, or have no mass."""
        low, high = float(self.centres.min()), float(self.centres.max())
        if self.kind == "clipped":
            ends = self.problem.belief.range
            return min(low, ends[0]), max(high, ends[1])
        reach = REACH * self.scale if self.kind == "printed" else 0.0
        return low - reach, high + reach

    def _distance(self, values: Array) -> Array:
        """|y - m_s| / b, (S, Y)."""
        return np.asarray(np.abs(values[None, :] - self.centres[:, None]) / self.scale)
