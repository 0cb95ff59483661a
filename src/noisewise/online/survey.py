"""A survey under local privacy: ask the next person the most informative question, learn from each noisy answer.

    survey = Survey(population, guarantee=PureDP(1), seed=1)
    query = survey.ask()                   plain data: send it to a person
    answer = respond(query, x, cap=...)    there, with secure noise, before anything leaves; a survey never sees x
    survey.learn(answer)                   the posterior moves
    survey.posterior()

Each person is asked once, at the guarantee's price; every question after the first depends on earlier *answers* only,
so the whole survey keeps the guarantee for everyone (Yıldırım 2024, Proposition 1). Answers may come late, in any
order, twice, or never: each carries its query, a query counts once, and what this survey did not ask, or what its
question cannot produce, is refused.

Promise: the posterior is that of the exact law of every answer (`answer_law`), and a function of the log alone
(`engine`, `log`); a survey that is saved and loaded continues as if it had never stopped, with the same questions and
the same particles, under ids of a new session. Any number of threads may ask and answer.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from noisewise.deprecation import by_name
from noisewise.errors import InvalidArgument, NoisewiseError, SurveyError, Unsupported
from noisewise.exact import integer
from noisewise.inference.posterior import Posterior
from noisewise.inference.verdict import Particles, Verdict
from noisewise.online import particles as smc
from noisewise.online.asked import asked_of, question_of
from noisewise.online.engine import Engine, Queries, Settings, State, reading
from noisewise.online.log import ANSWERED, ASKED, CLOSED, EXPIRED, WITHDRAWN, Event, Log
from noisewise.online.scores import ScoreLike
from noisewise.online.sessions import Sessions
from noisewise.online.survey_law import LevelNames
from noisewise.populations.parameters import Array
from noisewise.populations.population import AnyPopulation
from noisewise.privacy.guarantee import Guarantee
from noisewise.query import Answer, Query

if TYPE_CHECKING:
    from noisewise.online.compare import Comparison
    from noisewise.online.fit import FitCheck

__all__ = ["Receipt", "Survey"]

ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of an answer."""

    is_counted: bool
    reason: str


class Survey:
    """Questions, answers and the posterior of one population: ask the next person what tells most.

    Each person is asked once, at the guarantee's price; later questions depend on earlier *answers* only.

    Parameters
    ----------
    population
        What is asked about, with a prior for each unknown: of one column, or a Joint of several.
    guarantee
        What every answer keeps.
    queries
        Families of questions ("clip", "sign", "cells"), queries to be asked as they are, or "auto" (default).
    score
        What makes a question good: a name, weights by parameter, or a function. Default "logdet".
    n_particles
        How finely the posterior is held. Default 1000.
    explore
        The share of people who get the fixed wide question of the fit check. Default None: 0.1 where cells may be
        asked.
    contamination
        The share of false answers that is expected and allowed for. Default 0.0: everyone is taken to be honest.
    levels
        The names of levels of a Categorical population, by column where there are several. Default None.
    seed
        Of the particles and the choice of questions. Default None: of the system's choice.

    Examples
    --------
    >>> survey = nw.Survey(nw.Normal(mean=stats.norm(40, 20), sd=15), guarantee=nw.PureDP(1), n_particles=200, seed=1)
    >>> answer = nw.respond(survey.ask(), 37, cap=nw.PureDP(1))
    >>> survey.learn(answer).is_counted, survey.answers
    (True, 1)
    """

    @by_name("guarantee", write="Survey(population, guarantee=PureDP(1))", places=("self", "population", "guarantee"))
    def __init__(
        self,
        population: AnyPopulation,
        *,
        guarantee: Guarantee,
        queries: Queries = "auto",
        score: ScoreLike = "logdet",
        n_particles: int = 1000,
        explore: float | None = None,
        contamination: float = 0.0,
        levels: LevelNames | None = None,
        seed: int | None = None,
    ) -> None:
        seed = None if seed is None else integer(seed, "seed", minimum=0)
        settings = Settings.checked(
            population, guarantee, queries, score, n_particles, explore, contamination=contamination, levels=levels
        )
        engine = Engine(settings, _fresh() if seed is None else seed)
        self._take(engine, engine.begin(), Log(), Sessions(engine.name), seed)

    def _take(self, engine: Engine, state: State, log: Log, sessions: Sessions, seed: int | None) -> None:
        """Everything a survey consists of; the last four are what a file keeps."""
        self._engine, self._state, self._log, self._sessions, self.seed = engine, state, log, sessions, seed
        self.issued = len(log.questions)
        self.refused = self.repeated = 0
        self._lock = threading.RLock()

    # ---- asking ----

    def ask(self) -> Query:
        """What to ask the next person: `query` by the name of what it does."""
        return self.query()

    def query(self) -> Query:
        """What to ask the next person; as many may be asked before an answer comes as you like."""
        with self._lock:
            self._check_open("asks nobody")
            query = planned_query(self._engine, self._state, self.issued, self._sessions.label(self.issued))
            self._log.append(Event(ASKED, self.issued, question_of(query)))
            self.issued += 1
            return query

    def _check_open(self, what: str) -> None:
        if self._log.is_closed:
            raise SurveyError(
                f"This survey was closed after {self.answers} answers and {what} any more. The posterior stands.",
                reason="closed",
            )

    # ---- learning ----

    def learn(self, answer: Answer | Query, value: int | None = None) -> Receipt:
        """Take in an answer: `answer` by the name of what it does."""
        return self.answer(answer, value)

    def answer(self, answer: Answer | Query, value: int | None = None) -> Receipt:
        """Take in an Answer, or a query with its answer's value; refuse what this survey cannot have received.

        InvalidArgument for what was not asked like this or cannot be its answer; SurveyError where the query was
        withdrawn or the survey is closed.
        """
        with self._lock:
            try:
                number, given = self._recognised(answer, value)
                if given is None:
                    self.repeated += 1
                    return Receipt(False, f"Query {number} was answered before; the first answer stays.")
                self._check_open("takes no answer")
                if number in self._log.withdrawn:
                    raise SurveyError(f"Query {number} was withdrawn. Nothing was learnt.", reason="withdrawn")
            except (InvalidArgument, SurveyError):
                self.refused += 1
                raise
            self._state = self._engine.step(self._state, question_of(given.query), given.value)
            self._log.append(Event(ANSWERED, number, value=given.value))
            return Receipt(True, f"Answer {self.answers} is counted.")

    def _recognised(self, answer: Any, value: Any) -> tuple[int, Answer | None]:
        """The number of the query and its answer; None in place of a repeated answer."""
        query = answer.query if isinstance(answer, Answer) else answer
        if not isinstance(query, Query) or (value is not None and isinstance(answer, Answer)):
            raise InvalidArgument("Give an Answer, or a Query and its value.", argument="answer")
        number = self._sessions.number(query.id, self.issued)
        if question_of(query) != self._log.questions.get(number):
            raise InvalidArgument(
                f"Query {number} is not as this survey asked it; an answer to another question has another law. "
                "Nothing was learnt.",
                argument="query",
            )
        given = answer if isinstance(answer, Answer) else Answer(query, value)
        if number in self._log.values:
            return number, None
        check_reach(given, f"Query {number}")
        return number, given

    # ---- queries without an answer ----

    def expire(self, *ids: str | None) -> None:
        """Wait no longer for the queries of these ids; an answer that comes all the same counts until the closing."""
        self._enter(EXPIRED, ids)

    def withdraw(self, *ids: str | None) -> None:
        """Take the queries of these ids back: answers to them are refused from now on. What was answered stays."""
        self._enter(WITHDRAWN, ids)

    def close(self) -> None:
        """Ask nobody and take no answer from now on; the posterior stands as it is."""
        with self._lock:
            if not self._log.is_closed:
                self._log.append(Event(CLOSED))

    def _enter(self, kind: str, ids: Iterable[str | None]) -> None:
        with self._lock:
            for number in [self._sessions.number(one, self.issued) for one in ids]:
                if not (kind == EXPIRED and number in self._log.expired):
                    self._log.append(Event(kind, number))

    # ---- what is known ----

    @property
    def name(self) -> str:
        """What the ids of this survey's queries begin with."""
        return self._engine.name

    @property
    def population(self) -> AnyPopulation:
        """What is asked about, with its priors."""
        return self._engine.law.population

    @property
    def guarantee(self) -> Guarantee:
        """What every answer keeps."""
        return self._engine.settings.guarantee

    @property
    def families(self) -> tuple[str, ...]:
        """The families of questions that may be asked."""
        return self._engine.settings.families

    @property
    def fixed(self) -> tuple[Query, ...]:
        """The queries that may be asked as they are."""
        return self._engine.settings.fixed

    @property
    def score(self) -> ScoreLike:
        """What makes a question good."""
        return self._engine.settings.score.given

    @property
    def contamination(self) -> float:
        """The share of false answers that is expected and allowed for; 0 where everyone is taken to be honest."""
        return self._engine.law.contamination

    @property
    def n_particles(self) -> int:
        """How many particles hold the posterior."""
        return self._engine.settings.n_particles

    @property
    def answers(self) -> int:
        """How many answers are counted."""
        return self._state.answers

    @property
    def log_evidence(self) -> float:
        """The log probability of all answers under population and prior."""
        return self._state.log_evidence

    @property
    def rejuvenations(self) -> int:
        """How often the particles were resampled and moved."""
        return self._state.rejuvenations

    @property
    def non_finite(self) -> int:
        """How often a particle's likelihood was not a number."""
        return self._state.non_finite

    @property
    def _particles(self) -> smc.Particles:
        return self._state.particles

    @property
    def effective_size(self) -> float:
        """How many equally weighted particles the weighted ones are worth."""
        return smc.effective_size(self._state.particles.log_weight)

    @property
    def waiting(self) -> int:
        """Queries that were asked and not answered, and that are neither expired nor withdrawn."""
        return len(self._log.open)

    @property
    def is_closed(self) -> bool:
        """Whether the survey is over."""
        return self._log.is_closed

    @property
    def distinct_queries(self) -> int:
        """How many different questions have been answered."""
        return len(self._state.answered)

    @property
    def mean(self) -> dict[str, float]:
        """The posterior mean of each parameter; those of levels by level, as `p[north]`."""
        return {name: mean for name, (mean, _) in self._engine.told(self._state).items()}

    @property
    def sd(self) -> dict[str, float]:
        """The posterior standard deviation of each parameter."""
        return {name: sd for name, (_, sd) in self._engine.told(self._state).items()}

    @property
    def verdict(self) -> Verdict:
        """How far to trust the particles."""
        return verdict_of(self._state)

    def some_particles(self, count: int) -> dict[str, Array]:
        """A few parameter values by weight; looking changes nothing."""
        return {name: np.asarray(value)[0, :count] for name, value in self.posterior().draws.items()}

    def posterior(self) -> Posterior:
        """The posterior of the answers so far; asking for it changes nothing."""
        return posterior_of(self._engine, self._state, self.seed)

    @property
    def explore(self) -> float:
        """The share of people who get the fixed wide question, on which `fit` rests."""
        return self._engine.settings.explore

    @property
    def fit(self) -> FitCheck:
        """Whether the population fits the people, by the answers to the fixed wide question."""
        from noisewise.online.fit import fit_check

        return fit_check(self._engine, self._state)

    def forecast(self, rule: str) -> int | None:
        """About how many more answers it takes until a rule is met, such as "90 % interval of the mean below 2".

        0 where it is met, None where no number of such answers will do.
        """
        from noisewise.online.stopping import Stop, forecast

        return forecast(self._engine, self._state, Stop.read(rule))

    def compare(
        self, populations: Mapping[str, object], *, n_particles: int | None = None, seed: int | None = None
    ) -> Comparison:
        """Which of these populations the answers speak for, by the evidence of each.

        populations   by name; the survey's own is among them only if you put it there
        n_particles   as many as the survey has, if not given
        """
        from noisewise.online.compare import compare

        with self._lock:
            questions, values = self._log.questions, dict(self._log.values)
        answers = [(questions[number], value) for number, value in values.items()]
        particles = n_particles or self.n_particles
        return compare(answers, populations, n_particles=particles, seed=seed, contamination=self.contamination)

    # ---- keeping ----

    @property
    def log(self) -> tuple[Event, ...]:
        """Every act so far, in order; the posterior is a function of it."""
        with self._lock:
            if not self._log.is_whole:
                raise Unsupported(
                    "This survey was saved by a version that kept no log, so the order of its answers is not known. "
                    "Its posterior stands, and it goes on as before."
                )
            return tuple(self._log)

    def replay(self, events: Iterable[Event] | None = None) -> Survey:
        """The survey again from its log (or from the first part of one): the same posterior, bit for bit."""
        listed = self.log if events is None else tuple(events)
        engine = Engine(self._engine.settings, self._engine.entropy)
        state, log = engine.begin(), Log()
        for event in listed:
            log.append(event)
            if event.kind == ANSWERED and event.number is not None and event.value is not None:
                question = log.questions[event.number]
                check_reach(Answer(question.query(), event.value), f"Query {event.number}")
                state = engine.step(state, question, event.value)
        again = Survey.__new__(Survey)
        again._take(engine, state, log, Sessions(engine.name, self._sessions.begun), self.seed)
        return again

    def save(self, path: str | PathLike[str]) -> None:
        """Write the survey to one file, which appears whole or not at all."""
        from noisewise.online.store import save

        with self._lock:
            save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Survey:
        """Read a saved survey; it continues as if it had never stopped."""
        from noisewise.online.store import load

        return load(path)

    def __reduce__(self) -> NoReturn:
        raise Unsupported("A Survey is not copied: a copy would give the same ids to others. Save and load it.")

    def _repr_html_(self) -> str:
        from noisewise.report.notebook import survey_html

        return survey_html(self)

    def __repr__(self) -> str:
        closed = ", closed" if self.is_closed else ""
        return (
            f"<Survey of {', '.join(self.population.free)} under {self.guarantee!r}: {self.answers} answers, "
            f"{self.waiting} waiting{closed}>"
        )


def planned_query(engine: Engine, state: State, number: int, label: str) -> Query:
    """The query of this number under an id, from what is known; a sentence where none can be put in numbers."""
    is_wide = False
    for attempt in range(ATTEMPTS):
        question = engine.question(state, number, attempt)
        try:
            return engine.query(question, label)
        except NoisewiseError:  # a draw so far out, or so narrow, that no double holds its question
            is_wide = question.is_huge
    raise Unsupported(
        "The prior is so wide that no question can be put in numbers; use a narrower one."
        if is_wide
        else "By the answers so far everyone has the same value, and no question is fine enough to tell more. The "
        "posterior stands as it is."
    )


def check_reach(answer: Answer, what: str) -> None:
    """Refuse an answer that lies farther out than its noise ever reaches."""
    asked = asked_of(answer.query)
    if not asked.can_be(reading(asked, answer.value)):
        raise InvalidArgument(
            f"{what} cannot have this answer: it lies farther out than its noise ever reaches. Nothing was learnt.",
            argument="value",
        )


def verdict_of(state: State) -> Verdict:
    """How far to trust the particles."""
    particles = state.particles
    effective = smc.effective_size(particles.log_weight)
    return Verdict(
        Particles(particles.count, effective, state.answers, state.rejuvenations, state.acceptance, state.non_finite)
    )


def posterior_of(engine: Engine, state: State, seed: int | None) -> Posterior:
    """Draws by weight, always the same ones for the same state."""
    rng = engine.generator(state.answers)
    chosen = rng.permutation(smc.systematic(rng, state.particles.log_weight))
    theta = engine.target.parameters(state.particles.position[chosen])
    return Posterior(
        draws={name: value[None, :] for name, value in theta.items()},
        method="smc",
        how="particles on the parameters alone",
        law=f"exact law of {state.answers} local answers to {len(state.answered)} different questions",
        likelihood="auto",
        verdict=verdict_of(state),
        population=engine.law.population,
        releases=(),
        seed=seed,
        log_evidence=state.log_evidence,
        moments=state.moments(engine.target),
    )


def _fresh() -> int:
    """A seed of the system's choice, kept so that the survey can be replayed."""
    return uuid.uuid4().int
