"""Does the population fit the people? A chi-square on the answers to one wide question that was fixed early.

An adaptive survey is nearly blind to misfit: it asks where the model is sure. With `explore=0.1` one person in ten is
asked a question of six cells instead, whose edges are the quantiles of the fitted population at 10, 30, 50, 70, 90 %
after the first 50 answers and stay as they are. The counts of those answers are compared with what the posterior
expects; the statistic's law allows for the unknowns that the same answers helped to settle (`inference.cells`):
    T = sum (count - n p)^2 / (n p),     p averaged over the posterior,
approximately a weighted sum of chi-squares, from whose first two moments the tail probability is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
    column: str | None = None  # of several, the one that fits worst; the tail allows for their number

    @property
    def is_surprising(self) -> bool:
        """Rarer than one in twenty."""
        return self.tail is not None and self.tail < LEVEL

    def __str__(self) -> str:
        n = sum(self.counts)
        about = "" if self.column is None else f" about {self.column}"
        if not self.edges:
            return (
                "The fit cannot be checked yet: that takes answers to a fixed wide question, which one person in ten "
                "gets (explore=0.1) once enough have answered to lay it out."
            )
        if self.tail is None and n < FEWEST:
            return f"The fit cannot be checked yet: {n} of the {FEWEST} answers to a fixed wide question{about} came."
        if self.tail is None:
            return (
                f"The fit cannot be checked: the fixed wide question{about} has {len(self.edges) + 1} cells, which is "
                "too few for so many unknowns."
            )
        if self.is_surprising:
            return (
                f"The population does not describe these people: {n} answers to a fixed wide question{about} would be "
                f"as far off as these with probability {self.tail:.2g}. Compare others with survey.compare(...), or "
                "allow for false answers with contamination=."
            )
        return f"Nothing surprising in {n} answers to a fixed wide question{about} (tail probability {self.tail:.2g})."


def fit_check(engine: Engine, state: State) -> FitCheck:
    """The check at what is known; of several columns the one that fits worst."""
    found = [_checked(engine, state, question) for question in state.wide]
    checked = [one for one in found if one.tail is not None]
    if not checked:
        return found[0] if found else FitCheck((), (0,), (), None)
    worst = min(checked, key=lambda one: one.tail or 0.0)
    assert worst.tail is not None
    return replace(worst, tail=min(1.0, len(checked) * worst.tail))


def _checked(engine: Engine, state: State, question: Question) -> FitCheck:
    edges = question.edges or ()
    values = state.answered.get(question, ())
    counts = np.bincount(values, minlength=len(edges) + 1).astype(float)
    nothing = FitCheck(edges, tuple(int(count) for count in counts), (), None, question.column)
    part = engine.law.part(question.column)
    if len(values) < FEWEST or len(edges) <= part.transform.size:
        return nothing
    rng = engine.generator(CHECKING, state.answers)
    chosen = rng.permutation(smc.systematic(rng, state.particles.log_weight))[:DRAWS]
    theta = engine.target.parameters(state.particles.position[chosen])
    p = engine.law.answer_probabilities(asked_by(question), theta)
    tail, _ = chi_square_tail(counts, p)
    return FitCheck(edges, nothing.counts, tuple((len(values) * p.mean(axis=0)).tolist()), tail, question.column)
