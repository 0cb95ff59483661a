"""Which population the answers speak for: the same answers learnt under each, compared by their evidence.

The evidence of a population is the probability of all answers under it and its prior,
    Z = integral p(answers | theta) p(theta) dtheta,
which the particles estimate as they learn. With equal odds beforehand, population k has the probability Z_k / sum Z.
Questions were chosen by the survey's own population; they depend on earlier answers alone, so their choice cancels.
Each population is learnt a few times with particles of their own; the spread of log Z tells how far it can be trusted.
Evidence depends on the prior: twice as wide a prior of an unknown that the answers settle halves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.exact import integer
from noisewise.online.asked import Question
from noisewise.online.engine import Engine, Settings
from noisewise.online.survey_law import LevelNames

__all__ = ["Comparison", "compare"]

REPEATS = 3
SETTLED = 3.0  # standard errors between the first and the second


@dataclass(frozen=True, slots=True)
class Comparison:
    """The log evidence of each population, its standard error, and its probability at equal odds."""

    log_evidence: Mapping[str, float]
    error: Mapping[str, float]
    answers: int

    @property
    def probability(self) -> dict[str, float]:
        """Of each population, had all been equally probable before the answers."""
        logs = np.array(list(self.log_evidence.values()))
        share = np.exp(logs - logs.max())
        return dict(zip(self.log_evidence, (share / share.sum()).tolist(), strict=True))

    @property
    def ranking(self) -> list[str]:
        """The names, the best first."""
        return sorted(self.log_evidence, key=lambda name: -self.log_evidence[name])

    @property
    def is_settled(self) -> bool:
        """Whether the particles tell the first from the second."""
        first, second = self.ranking[:2]
        gap = self.log_evidence[first] - self.log_evidence[second]
        return gap > SETTLED * float(np.hypot(self.error[first], self.error[second]))

    def __str__(self) -> str:
        width = max(map(len, self.log_evidence))
        lines = [
            f"  {name:<{width}}  {self.log_evidence[name]:.2f} ± {self.error[name]:.2f}  {self.probability[name]:.3f}"
            for name in self.ranking
        ]
        said = "" if self.is_settled else "\nThe first two are not told apart by these particles: take more."
        return "\n".join([f"Log evidence of {self.answers} answers, and probability at equal odds:", *lines]) + said


def compare(
    answers: Iterable[tuple[Question, int]],
    populations: Mapping[str, object],
    *,
    n_particles: int,
    seed: int | None,
    contamination: float = 0.0,
) -> Comparison:
    """The evidence of the same answers under each population, false ones allowed for as the survey does."""
    listed = list(answers)
    if len(populations) < 2 or not listed:
        raise InvalidArgument(
            "Give at least two populations by name, and a survey that has answers.", argument="populations"
        )
    seed = None if seed is None else integer(seed, "seed", minimum=0)
    found: dict[str, float] = {}
    errors: dict[str, float] = {}
    rng = np.random.default_rng(seed)
    for name, population in populations.items():
        seeds = rng.integers(2**62, size=REPEATS).tolist()
        logs = np.array([_log_evidence(listed, population, n_particles, one, contamination) for one in seeds])
        found[name] = float(np.logaddexp.reduce(logs) - np.log(REPEATS))
        errors[name] = float(logs.std(ddof=1) / np.sqrt(REPEATS))
    return Comparison(found, errors, len(listed))


def _log_evidence(
    answers: list[tuple[Question, int]], population: object, n_particles: int, seed: int, contamination: float
) -> float:
    first = answers[0][0].query()
    levels = _level_names({question for question, _ in answers})
    settings = Settings.checked(
        population, first.guarantee, first, "logdet", n_particles, contamination=contamination, levels=levels
    )
    engine = Engine(settings, seed)
    for question in {question for question, _ in answers}:
        engine.checked(question.query())  # refused before the long work
    state = engine.begin()
    for question, value in answers:
        state = engine.step(state, question, value)
    return state.log_evidence


def _level_names(questions: Iterable[Question]) -> LevelNames | None:
    """What levels are called, by the questions about them."""
    named = {question.column: question.levels for question in questions if question.levels is not None}
    if None in named:
        return named[None]
    return {column: levels for column, levels in named.items() if column is not None} or None
