"""A whole survey of simulated people: each is asked, answers with seeded noise, and is forgotten.

What is kept is what the survey's figures show (Yıldırım 2024, Figures 1 and 3): the questions, and if wanted the
posterior mean and sd after each answer with, every so often, a handful of particles. None of the noise here is privacy
noise.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from noisewise.design.coordinates import given_rows
from noisewise.inference.transform import Transform
from noisewise.online.answer_information import informations, parameter_slopes, stencil, units
from noisewise.online.answer_law import AnswerLaw
from noisewise.online.asked import Question, asked_by, question_of
from noisewise.online.simulate import simulated_answer
from noisewise.populations.parameters import Array
from noisewise.populations.population import Population
from noisewise.query import Answer, Query

__all__ = ["Cloud", "Collected", "collect", "cramer_rao"]

SHOWN = 40  # particles of one cloud


class Asker(Protocol):
    """What `Survey` and `LatentSurvey` have in common."""

    @property
    def rejuvenations(self) -> int: ...
    @property
    def mean(self) -> dict[str, float]: ...
    @property
    def sd(self) -> dict[str, float]: ...
    def some_particles(self, count: int) -> dict[str, Array]:
        """A few parameter values by weight; looking changes nothing."""
        ...

    def query(self) -> Query: ...
    def answer(self, answer: Answer) -> object: ...


@dataclass(frozen=True, slots=True, eq=False)
class Cloud:
    """A few particles after some answers."""

    answers: int
    particles: Mapping[str, Array]


@dataclass(frozen=True, slots=True, eq=False)
class Collected:
    """A survey's course: one entry an answer in `questions` and `values`, and in `mean` and `sd` if they were kept."""

    mean: Mapping[str, Array]
    sd: Mapping[str, Array]
    questions: Sequence[Question]
    values: Sequence[int]
    clouds: Sequence[Cloud]
    seconds: float  # of the processor, without the respondents' share
    longest: float  # by the clock, on one question and its answer
    rejuvenations: int

    @property
    def kinds(self) -> Counter[str]:
        """How many people were asked each kind of question."""
        return Counter(kind_of(question) for question in self.questions)


def kind_of(question: Question) -> str:
    """The family of a question."""
    if question.levels is not None:
        return f"{len(question.levels)} levels"
    if question.edges is None:
        return "clip"
    return "sign" if len(question.edges) == 1 else f"{len(question.edges) + 1} cells"


def collect(
    survey: Asker,
    people: Array,
    rng: np.random.Generator,
    *,
    every: int = 0,
    progress: Callable[[int, Asker], None] | None = None,
) -> Collected:
    """Ask everyone; keep means and sds, and a cloud of particles every `every` answers (0: keep neither)."""
    count = len(people)
    track: dict[str, Array] = {}
    spread: dict[str, Array] = {}
    questions: list[Question] = []
    values: list[int] = []
    clouds: list[Cloud] = []
    on_survey = longest = 0.0
    clock, begun_process = time.perf_counter, time.process_time()  # the processor's clock is too slow to ask often
    begun_clock = clock()
    for t, x in enumerate(people):
        begun = clock()
        query = survey.query()
        asked = clock()
        answer = simulated_answer(rng, query, float(x))
        answered = clock()
        survey.answer(answer)
        spent = asked - begun + clock() - answered
        on_survey, longest = on_survey + spent, max(longest, spent)
        questions.append(question_of(query))
        values.append(answer.value)
        for kept, now in ((track, survey.mean), (spread, survey.sd)) if every else ():
            for name, value in now.items():
                kept.setdefault(name, np.empty(count))[t] = value
        if every and (t % every == 0 or t == count - 1):
            clouds.append(_cloud(survey, t + 1))
        if progress is not None:
            progress(t + 1, survey)
    share = on_survey / max(clock() - begun_clock, 1e-9)
    seconds = share * (time.process_time() - begun_process)
    return Collected(track, spread, questions, values, clouds, seconds, longest, survey.rejuvenations)


def _cloud(survey: Asker, answers: int) -> Cloud:
    """Particles in proportion to their weights."""
    return Cloud(answers, survey.some_particles(SHOWN))


def cramer_rao(population: Population, questions: Sequence[Question], at: Mapping[str, float]) -> dict[str, float]:
    """The least standard error of an unbiased estimate from answers to these questions, of each parameter:
    sqrt((sum_t F_t)^-1)_ii. Infinite where the questions do not tell all parameters apart."""
    law, transform = AnswerLaw(population), Transform(population.supports)
    position = transform.position(given_rows(population, at))[0]
    unit = units(law, transform, position)
    counts = Counter(questions)
    around = stencil(law, transform, position, np.diag(unit))
    found = informations(law, [asked_by(question) for question in counts], around)
    total = np.einsum("m,mij->ij", np.array(list(counts.values()), float), found)
    values, vectors = np.linalg.eigh(total)
    if values[0] <= 1e-9 * values[-1]:
        return dict.fromkeys(population.free, float("inf"))
    slope = np.abs(np.diag(parameter_slopes(transform, position)))
    sd = np.sqrt(np.square(vectors) @ (1 / values)) * unit * slope
    return dict(zip(population.free, sd.tolist(), strict=True))
