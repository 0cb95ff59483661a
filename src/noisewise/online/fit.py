"""Does the population fit the people? A chi-square on the answers to one wide question that was fixed early.

An adaptive survey is nearly blind to misfit: it asks where the model is sure. With `explore=0.1` one person in ten is
asked a question of six cells instead, whose edges are the quantiles of the fitted population at 10, 30, 50, 70, 90 %
after the first 50 answers and stay as they are. The counts of those answers are compared with what the posterior
expects; the statistic's law allows for the unknowns that the same answers helped to settle (`inference.cells`):
    T = sum (count - n p)^2 / (n p),     p averaged over the posterior,
approximately a weighted sum of chi-squares, from whose first two moments the tail probability is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewise.inference.cells import chi_square_tail
from noisewise.online import particles as smc
from noisewise.online.asked import Question, asked_by
from noisewise.online.engine import CHECKING, Engine, State

__all__ = ["FitCheck", "fit_check"]

LEVEL = 0.05
FEWEST = 30  # exploring answers
DRAWS = 400


@dataclass(frozen=True, slots=True)
class FitCheck:
    """How surprising the exploring answers are under the fitted population."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    expected: tuple[float, ...]
    tail: float | None  # None where there is nothing to check

    @property
    def is_surprising(self) -> bool:
        """Rarer than one in twenty."""
        return self.tail is not None and self.tail < LEVEL

    def __str__(self) -> str:
        n = sum(self.counts)
        if self.tail is None:
            return (
                f"The fit cannot be checked: {n} answers to a fixed wide question of {len(self.edges) + 1} cells. Ask "
                f"with explore=0.1, and wait for {FEWEST} of them, of more cells than there are unknowns."
            )
        if self.is_surprising:
            return (
                f"The population does not describe these people: {n} answers to a fixed wide question would be as far "
                f"off as these with probability {self.tail:.2g}. Compare others with survey.compare(...)."
            )
        return f"Nothing surprising in {n} answers to a fixed wide question (tail probability {self.tail:.2g})."


def fit_check(engine: Engine, state: State) -> FitCheck:
    """The check at what is known."""
    edges = state.wide or ()
    question = Question(engine.settings.guarantee, None, None, edges)
    values = state.answered.get(question, ())
    counts = np.bincount(values, minlength=len(edges) + 1).astype(float)
    nothing = FitCheck(edges, tuple(int(count) for count in counts), (), None)
    if len(values) < FEWEST or len(edges) <= engine.target.size:
        return nothing
    rng = engine.generator(CHECKING, state.answers)
    chosen = rng.permutation(smc.systematic(rng, state.particles.log_weight))[:DRAWS]
    asked = asked_by(question)
    mass = engine.law.mass(*asked.cell_ends, engine.target.parameters(state.particles.position[chosen]))
    p = asked.other + (asked.keep - asked.other) * mass
    tail, _ = chi_square_tail(counts, p)
    return FitCheck(edges, nothing.counts, tuple((len(values) * p.mean(axis=0)).tolist()), tail)
