"""What continuous design maximises: the score of a plan's Fisher information, averaged over the belief (`scores`).

A gain is a ratio of information: of the scores themselves ("trace", a parameter), of the variances ("a-optimal"), or
the P-th root of that of the determinants of F ("logdet") or of the posterior precision ("gain"). The level of a score
is the logarithm of such a ratio; of a callable, which has no such scale, the score itself.

While searching, a sum counts as normal (central limit theorem) and a vector with Laplace noise as one with Gaussian
noise of the same variance, which is closed and smooth; plans that are reported are scored by the law that inference
would use. The loss is of second order: at its maximum a smooth score is flat.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from noisewise.design.additive import moment_slopes
from noisewise.design.belief import Belief, believe
from noisewise.design.blank import blank_release
from noisewise.design.information import information_rows
from noisewise.design.scores import Score, read_score
from noisewise.errors import Unsupported
from noisewise.joining import record_count
from noisewise.laws import normal_mixture
from noisewise.likelihood import normal_gaussian
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.planning import Plan
from noisewise.populations.parameters import Array
from noisewise.statistics import Mean, Statistic, Sum

SEED = 0  # common draws for every plan, so that simulated scores differ by the plans alone


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """The score of a plan under one belief."""

    belief: Belief
    score: Score
    likelihood: str
    n: int | None
    moments: dict[Statistic, tuple[Array, Array, Array]] = field(default_factory=dict)
    values: dict[bytes, float] = field(default_factory=dict)

    @classmethod
    def of(cls, source: object, *, at: object, score: object, likelihood: str, n: int | None) -> Objective:
        """Without a score: the nats told beyond the belief, or at given parameter values log det F."""
        belief = believe(source, at=at)
        asked = ("gain" if at is None else "logdet") if score is None else score
        return cls(belief, read_score(asked, None, belief.names, belief.covariance), likelihood, n)

    def value(self, plan: Plan) -> float:
        """The score of a plan, by the law that inference would use."""
        key = plan.request()
        if key not in self.values:
            found, _ = information_rows(
                plan, self.belief.population, self.belief.rows, likelihood=self.likelihood, n=self.n, seed=SEED
            )
            self.values[key] = self._average(found)
        return self.values[key]

    def quick_level(self, plan: Plan) -> float:
        """The level of a plan's score while searching; -inf where it has no finite information."""
        try:
            level = self.level(self._average(self._quick(plan)))
        except Unsupported:
            return -math.inf
        return -math.inf if math.isnan(level) else level

    def level(self, score: float) -> float:
        """A score on the logarithmic scale of gains."""
        match self.score.kind:
            case "callable":
                return score
            case "logdet" | "gain":
                return score / len(self.belief.names) * (2 if self.score.kind == "gain" else 1)
            case "a-optimal":
                return -math.log(-score) if math.isfinite(score) else -math.inf
        return math.log(score) if score > 0 else -math.inf

    def gain(self, score: float, baseline: float) -> float:
        """How many times the information of the baseline this is; NaN where that has no meaning."""
        if self.score.kind == "callable":
            return score / baseline if baseline > 0 else math.nan
        if self.level(baseline) == -math.inf:
            return math.inf if self.level(score) > -math.inf else math.nan
        return math.exp(self.level(score) - self.level(baseline))

    def is_close(self, score: float, best: float, tolerance: float) -> bool:
        """Whether a score is within a relative tolerance of the best."""
        if self.score.kind == "callable":
            return score >= best - tolerance * abs(best)
        return self.level(score) >= self.level(best) + math.log1p(-tolerance)

    def is_approximated(self, plan: Plan) -> bool:
        """Whether the search takes Laplace noise on several sums as Gaussian noise."""
        if not isinstance(plan.statistic, Mean | Sum):
            return False
        noise = normal_mixture(plan.law)
        return noise.is_laplace and len(noise.scale) > 1

    def _average(self, matrices: Array) -> float:
        return float(np.mean(self.score.rows(matrices)))

    def _quick(self, plan: Plan) -> Array:
        population, theta = self.belief.population, self.belief.rows
        if not isinstance(plan.statistic, Mean | Sum):
            return information_rows(plan, population, theta, n=self.n, seed=SEED)[0]
        if not self.is_approximated(plan):
            return information_rows(plan, population, theta, likelihood="clt", n=self.n)[0]
        model = NormalSum((blank_release(plan),), population, n=record_count(plan.part_schema, self.n))
        if plan.statistic not in self.moments:  # they do not depend on the weights
            self.moments[plan.statistic] = moment_slopes(model, population, theta)
        covariance, d_mean, d_covariance = self.moments[plan.statistic]
        return normal_gaussian.information(
            d_mean=d_mean, d_covariance=d_covariance, covariance=covariance, noise_variance=model.noise.variance
        )
