"""The baseline: the non-private Bayes estimate plus Laplace noise, three ways.

    y = m_s + b V,   b = max |m_s - m_s'| / epsilon over neighbours,   V ~ exp(-|v|)/2        (Lakshminarayanan & Rojas,
                                                      A unified approach to differentially private Bayes estimation, 5)
    "printed"   the answer is y
    "clipped"   the answer is y, moved into the range of the estimand: same privacy, never worse
    "bayes"     the answer is the Bayes action given y: the best that can be made of y

All are private by post-processing of one noisy number. For squared loss and a uniform prior the printed one has risk
1/(6(K+2)) + 2/((K+2) epsilon)^2. Risks come by Gauss-Legendre rules between the kinks m_s.

Nothing continuous is drawn for a release. `written` cuts the line of noisy values into stretches and tells only in
which of them y fell: post-processing again, and a finite matrix, which becomes exact rows like that of any estimator.
With many stretches its risk is that of the clipped or the Bayes answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import integer
from noisewise.likelihood.quadrature import on_panels
from noisewise.point.estimator import Certificate, Estimator, pure_at, pure_guarantee
from noisewise.point.exact_rows import exact_rows
from noisewise.point.losses import Loss, read_loss
from noisewise.point.models import Problem, read_problem
from noisewise.populations.parameters import Array
from noisewise.printable import shown
from noisewise.privacy.guarantee import Guarantee

KINDS = ("printed", "clipped", "bayes")
REACH = 45.0  # scales beyond which Laplace noise has no mass
LONGEST = 4.0  # of a panel, in scales
ORDER = 16
STRETCHES = 64
MOST_EXACT = 50_000  # entries of a matrix of Fractions
WRITTEN = "Laplace noise on the non-private estimate, told by {count} stretches of the line: not the best there is."

__all__ = ["LaplaceEstimator", "laplace_estimator"]


class _Outputs(NamedTuple):
    """Noisy values and the joint probability P(s, y), (S, Y): nodes of a rule, and all that lies beyond its ends."""

    values: Array
    joint: Array


def laplace_estimator(
    model: object,
    loss: object,
    *,
    guarantee: Guarantee,
    n: int | None = None,
    statistic: object = None,
    schema: object = None,
    estimand: Callable[[Array], object] | None = None,
    kind: str = "bayes",
) -> LaplaceEstimator:
    """Laplace noise on the non-private Bayes estimate (LBaPP): the usual private estimate, and what it costs.

    Parameters
    ----------
    model, loss, n, statistic, schema, estimand
        As `optimal_estimator` takes them; of a Categorical population or of several numbers there is none.
    guarantee
        PureDP(epsilon).
    kind
        "printed": the noisy number itself; "clipped": moved into the range of the estimand; "bayes" (default): the
        Bayes action given the noisy number.

    Returns
    -------
    LaplaceEstimator
        `.risk`, its Bayes risk; `.scale`, the scale of the noise; `.written()`, an `Estimator` with exact rows,
        through which a holder can release.

    Examples
    --------
    >>> uniform = nw.Bernoulli(p=stats.uniform(0, 1))
    >>> round(nw.laplace_estimator(uniform, "squared", guarantee=nw.PureDP(1), n=10, kind="printed").risk, 5)
    0.02778
    """
    pure, wanted = pure_guarantee(guarantee, "Laplace noise on an estimate"), read_loss(loss)
    problem = read_problem(model, wanted, n=n, statistic=statistic, schema=schema, estimand=estimand)
    return LaplaceEstimator.of(problem, wanted, pure.epsilon, kind)


@dataclass(frozen=True, slots=True, eq=False)
class LaplaceEstimator:
    """Laplace noise on the Bayes estimate, then nothing, a clip, or the Bayes action. Made by `laplace_estimator`.

    Attributes
    ----------
    problem, loss
        What is estimated, and what an error costs.
    kind
        "printed", "clipped" or "bayes".
    guarantee
        PureDP(epsilon).
    centres
        The non-private estimate for every value of the statistic.
    scale
        Of the noise, in the units of the estimand.

    Examples
    --------
    >>> uniform = nw.Bernoulli(p=stats.uniform(0, 1))
    >>> estimator = nw.laplace_estimator(uniform, "squared", guarantee=nw.PureDP(1), n=10)
    >>> estimator.kind, len(estimator.centres)
    ('bayes', 11)
    """

    problem: Problem
    loss: Loss
    kind: str
    guarantee: Guarantee
    centres: Array  # the non-private estimate for every s
    scale: float

    @classmethod
    def of(cls, problem: Problem, loss: Loss, epsilon: float | Fraction, kind: str) -> LaplaceEstimator:
        if kind not in KINDS:
            raise InvalidArgument(f"kind = {shown(kind)}; there are {', '.join(KINDS)}.", argument="kind")
        centres = loss.best_actions(problem.belief, np.eye(problem.size))
        one, other = np.array(problem.neighbours).T
        widest = float(np.max(np.abs(centres[one] - centres[other])))
        if not widest > 0:
            raise Unsupported(
                "The best answer is the same whatever the records are, so there is nothing to hide: answer it as it is."
            )
        return cls(problem, loss, kind, pure_at(epsilon), centres, widest / float(epsilon))

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

    def written(self, stretches: int = STRETCHES) -> Estimator:
        """The estimator with exact rows that a holder can release through: y told by one of so many stretches.

        Stretches are of equal length over all that answers depend on; what lies beyond is in the first and the last.
        """
        if self.kind == "printed":
            raise Unsupported(
                "Answers as printed have no bounds, so they are not written out as a finite list: use kind='clipped' "
                "or kind='bayes', which are never worse."
            )
        count = integer(stretches, "stretches", minimum=2, maximum=MOST_EXACT)
        if count * self.problem.size > MOST_EXACT:
            raise Unsupported(
                f"{self.problem.size} values of the statistic and {count} stretches are more than {MOST_EXACT} exact "
                "probabilities. Ask for fewer stretches, or count fewer records."
            )
        pure, (low, high) = pure_guarantee(self.guarantee, "an estimator"), self._window()
        edges = np.linspace(low, high, count - 1)
        matrix = np.diff(self._upto(edges), axis=1, prepend=0.0, append=1.0).clip(0)
        actions = np.concatenate([[low], (edges[1:] + edges[:-1]) / 2, [high]])
        weights = np.exp(self.problem.belief.log_weights)[:, None]
        if self.kind == "bayes":
            actions = self.loss.best_actions(self.problem.belief, weights * matrix)
        costs = weights * self.loss.expected(self.problem.belief, actions)
        spare = int(np.argmin(costs.sum(axis=0)))
        rows, ratio = exact_rows(matrix, self.problem.neighbours, pure.epsilon, spare=spare)
        risk = float((np.array([[float(p) for p in row] for row in rows]) * costs).sum())
        certificate = Certificate(pure, ratio, None, None, WRITTEN.format(count=count))
        return Estimator(actions, risk, self.loss.name, "laplace", certificate, self.problem.size, rows)

    def __str__(self) -> str:
        return (
            f"Bayes risk {self.risk:.6g} under {self.loss.name} loss, by Laplace noise of scale {self.scale:.4g} on "
            f"the non-private estimate ({self.kind}).\nPrivate ({self.guarantee}), by post-processing of one number."
        )

    def _upto(self, edges: Array) -> Array:
        """P(y <= edge | s), (S, E)."""
        z = (edges[None, :] - self.centres[:, None]) / self.scale
        half = 0.5 * np.exp(-np.abs(z))
        return np.asarray(np.where(z < 0, half, 1 - half))

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
