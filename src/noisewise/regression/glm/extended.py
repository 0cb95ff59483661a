"""Rows with more entries than the features: what a holder saw of them, where that is not what the response follows.

    (1, v, y)   becomes   (1, v, e, y)          e: features as they were clamped, cells of histograms
The response follows v alone, so the coefficients of e are 0; a holder's sums are of whichever entries it saw. All that
is computed of rows then holds for these, the joint law of sums of products and counts of cells among it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from noisewise.regression.glm.problem import CoefficientBelief, GlmProblem
from noisewise.regression.problem import Holder
from noisewise.types import Floats, Integers

__all__ = ["Seen", "extended"]


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """Where a holder's features stand among the entries (v, e): v themselves, or e as it saw them."""

    features: Integers  # (d,)


def extended(problem: GlmProblem, entries: Floats, seen: Sequence[Seen]) -> GlmProblem:
    """The problem with entries e (C, E) at the points of its law, one `Seen` for each holder."""
    extra = entries.shape[1]
    if not extra:
        return problem
    x, d = problem.covariates, problem.d
    offset = np.concatenate([x.offset, entries], axis=1)
    slope = np.concatenate([x.slope, np.zeros((len(entries), extra, x.slope.shape[2]))], axis=1)
    return replace(
        problem,
        covariates=replace(x, offset=offset, slope=slope),
        prior=_with_zeros(problem.prior, extra),
        holders=tuple(_with_entries(h, one, d, extra) for h, one in zip(problem.holders, seen, strict=True)),
    )


def _with_zeros(prior: CoefficientBelief, extra: int) -> CoefficientBelief:
    turn = np.concatenate([prior.turn, np.zeros((extra, prior.turn.shape[1]))])
    return replace(prior, base=np.append(prior.base, np.zeros(extra)), turn=turn)


def _with_entries(holder: Holder, seen: Seen, d: int, extra: int) -> Holder:
    """P for rows (1, v, e, y), and the same pairs: y is the last entry there, too."""
    size, last = d + extra + 2, d + extra + 1
    mapping = np.eye(size)
    places = np.concatenate([[0], 1 + seen.features, [last]])
    for row in range(d + 2):
        at = last if row == d + 1 else row
        mapping[at] = 0.0
        mapping[at, places] = holder.map[row]
    free = np.full(extra, np.inf)
    return replace(
        holder,
        map=mapping,
        pairs=np.where(holder.pairs == d + 1, last, holder.pairs),
        low=np.concatenate([holder.low[:-1], -free, holder.low[-1:]]),
        high=np.concatenate([holder.high[:-1], free, holder.high[-1:]]),
    )
