"""The confidential tables behind a release: what the holder counted before noise was added.

Given the potentials the counts are nearly N(n W mu, n W Sigma W'), and the release is counts + noise
(`models.confidential`). Sigma is taken once, at the mean of the draws. Tables of one clique keep
their sum n. Nothing here can see a record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from noisewise.errors import Unsupported
from noisewise.graphical.model import POTENTIALS
from noisewise.graphical.observed import observe
from noisewise.graphical.probabilities import pieces
from noisewise.graphical.problem import LAPLACE, Holder, Problem
from noisewise.models.confidential import TURNS, behind_noise
from noisewise.populations.parameters import Theta
from noisewise.release import NoisyValue
from noisewise.statistics import Marginals
from noisewise.types import Floats

if TYPE_CHECKING:
    from noisewise.graphical.model import GraphicalModel

__all__ = ["TableLaw", "TableLaws"]

MOST_WORK = 3e11  # operations: about a minute


@dataclass(frozen=True, slots=True, eq=False)
class TableLaw:
    """The law of one holder's confidential counts, given its releases and the potentials."""

    problem: Problem
    holder: Holder
    releases: tuple[NoisyValue, ...]

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Floats:
        """Counts (K, entries), one draw a row of theta."""
        rows = np.asarray(theta[POTENTIALS])
        holder, problem = self.holder, self.problem
        entries = len(holder.observed)
        is_laplace = holder.family == LAPLACE
        if is_laplace and len(rows) * TURNS * entries**3 > MOST_WORK:
            raise Unsupported(
                f"The confidential counts of {entries} cells under Laplace noise take too long to draw. Ask for their "
                "probabilities with model.marginal(posterior, columns)."
            )
        _, mu = problem.engine.marginals_of_rows(problem.potentials(rows))
        covariance = holder.covariance(problem.engine.covariance(problem.potentials(rows.mean(axis=0))))
        mean = holder.mean(mu)
        laplace, out = holder.scale if is_laplace else None, np.empty_like(mean)
        for piece in pieces(len(mean), entries**2):
            out[piece] = behind_noise(
                rng, mean[piece], covariance, holder.observed, variance=holder.variance, laplace=laplace
            )
        return out


@dataclass(frozen=True, slots=True, eq=False)
class TableLaws:
    """One law a holder."""

    groups: tuple[TableLaw, ...]

    @classmethod
    def of(cls, model: GraphicalModel, releases: tuple[NoisyValue, ...], *, n: object = None) -> TableLaws:
        """The laws of the tables behind releases."""
        if any(isinstance(release.statistic, Marginals) and release.statistic.null is not None for release in releases):
            raise Unsupported("A table tied with null= is read by an approximation that has no law of its counts.")
        observed = observe(model, releases, n=n)
        problem = replace(observed.problem, holders=())
        return cls(tuple(
            TableLaw(problem, holder, tuple(observed.releases[index] for index in members))
            for holder, members in zip(observed.problem.holders, observed.groups, strict=True)
        ))  # fmt: skip
