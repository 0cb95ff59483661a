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

Promise: the posterior is that of the exact law of every answer (`answer_law`); a survey that is saved and loaded
continues as if it had never stopped, with the same questions and the same particles, under ids of a new session.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from noisewise.deprecation import by_name
from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.exact import integer
from noisewise.inference.posterior import Posterior
from noisewise.inference.target import Target
from noisewise.inference.transform import Transform
from noisewise.inference.verdict import Particles, Verdict
from noisewise.online import particles as smc
from noisewise.online.answer_law import AnswerLaw
from noisewise.online.answered import Group, joint_law
from noisewise.online.asked import Asked, Question, asked_by, asked_of, question_of
from noisewise.online.candidates import checked_families
from noisewise.online.design import SCORES, Design, grid_steps, law_identity
from noisewise.online.sessions import Sessions
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import Population
from noisewise.privacy.guarantee import Guarantee
from noisewise.query import Answer, Query

__all__ = ["Receipt", "Survey"]

FEWEST_PARTICLES, MOST_PARTICLES = 10, 1_000_000
SAMPLE = 8
HOPELESS = -1e6  # the log likelihood that stands for one that is not a number
ATTEMPTS = 20
SMALLEST = 1e-300
Queries = str | Query | Iterable[str | Query]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of an answer."""

    is_counted: bool
    reason: str


class Survey:
    """Questions, answers and the posterior of one population; see the module."""

    @by_name("guarantee", write="Survey(population, guarantee=PureDP(1))", places=("self", "population", "guarantee"))
    def __init__(
        self,
        population: Population,
        *,
        guarantee: Guarantee,
        queries: Queries = "auto",
        score: str = "logdet",
        n_particles: int = 1000,
        seed: int | None = None,
    ) -> None:
        seed = None if seed is None else integer(seed, "seed", minimum=0)
        self._set_up(population, guarantee, queries, score, n_particles, seed)
        self._rng = np.random.default_rng(seed)
        drawn = self._rng.bytes(6)
        position = self._target.position(inside(self._target.sample_prior(self._rng, self.n_particles), population))
        self._particles = smc.begin(position, self._target.log_prior(position))
        self._begin_design()
        self._sessions = Sessions(self._digest(drawn))

    def _digest(self, drawn: bytes) -> str:
        """A name from a random draw (the seed's, if there is one) and everything that makes this survey."""
        said = (law_identity(self._law), self.guarantee, self.families, self.fixed, self.score, self.n_particles)
        digest = hashlib.blake2b(drawn + repr(said).encode(), digest_size=6)
        for numbers in (self._particles.position, self._particles.log_prior):  # they are what the prior is
            digest.update(numbers.tobytes())
        return digest.hexdigest()

    @property
    def name(self) -> str:
        """What the ids of this survey's queries begin with."""
        return self._sessions.name

    def _set_up(
        self, population: Any, guarantee: Any, queries: Queries, score: str, n_particles: int, seed: int | None
    ) -> None:
        """Everything that does not change: the law, the target, what may be asked."""
        if not isinstance(guarantee, Guarantee):
            raise InvalidArgument(f"guarantee = {guarantee!r:.60}; give one, as in PureDP(1).", argument="guarantee")
        if not isinstance(score, str) or score not in SCORES:
            raise InvalidArgument(f"score = {score!r:.60}; there are {', '.join(SCORES)}.", argument="score")
        self._law = AnswerLaw(population)
        if not population.free:
            raise InvalidArgument(
                "Every parameter of this population is known, so there is nothing to ask. Give a prior for one.",
                argument="population",
            )
        self.population, self.guarantee, self.score, self.seed = population, guarantee, score, seed
        self.n_particles = integer(n_particles, "n_particles", minimum=FEWEST_PARTICLES, maximum=MOST_PARTICLES)
        self.families, self.fixed = self._read_queries(queries)
        self._target = Target(
            Transform(population.supports), population.log_prior, population.log_prior, population.sample_prior
        )
        self.log_evidence, self._acceptance = 0.0, float("nan")
        self.issued = self.answers = self.rejuvenations = self.refused = self.repeated = self.non_finite = 0
        self._open: dict[int, Query] = {}
        self._answered: dict[Question, list[int]] = {}
        self._numbers: dict[Question, list[int]] = {}  # of the queries answered, as _answered has their values

    def _begin_design(self) -> None:
        self._design = Design(
            self._law,
            self.guarantee,
            self._target.transform,
            families=self.families,
            fixed=[asked_of(query) for query in self.fixed],
            score=self.score,
        )

    def _read_queries(self, given: Queries) -> tuple[tuple[str, ...], tuple[Query, ...]]:
        """Families by name, and queries that are asked as they are."""
        listed = [given] if isinstance(given, str | Query) else given
        if not isinstance(listed, Iterable):
            raise InvalidArgument("queries must be a family, a Query, or a list of them.", argument="queries")
        listed = list(listed)
        for one in listed:
            if not isinstance(one, str | Query):
                raise InvalidArgument(f"queries holds {one!r:.60}: each is a family or a Query.", argument="queries")
        if not listed:
            raise InvalidArgument("queries is empty: there is nothing to ask.", argument="queries")
        fixed = tuple(self.checked(question_of(query).query()) for query in listed if isinstance(query, Query))
        names = [name for name in listed if not isinstance(name, Query)]
        if names == ["auto"]:
            return checked_families("auto", self._law, self.guarantee), fixed
        return (checked_families(names, self._law, self.guarantee) if names else ()), fixed

    def checked(self, query: Query) -> Query:
        """A query that this survey may ask; else a sentence."""
        if query.guarantee != self.guarantee:
            raise InvalidArgument(
                f"A query keeps {query.guarantee!r}, but this survey promises {self.guarantee!r}.", argument="queries"
            )
        self._law.check(asked_of(query))
        return query

    # ---- asking ----

    def query(self) -> Query:
        """What to ask the next person; as many may be asked before an answer comes as you like."""
        is_wide = False
        for _ in range(ATTEMPTS):
            question = self._next()
            label = self._sessions.label(self.issued)
            try:
                if question.edges is not None:
                    query = Query.cells(question.edges, guarantee=self.guarantee, id=label)
                else:
                    query = Query.clip(question.low, question.high, guarantee=self.guarantee, id=label)
            except NoisewiseError:  # a draw so far out, or so narrow, that no double holds its question
                is_wide = question.is_huge
                continue
            self._open[self.issued] = query
            self.issued += 1
            return query
        raise Unsupported(
            "The prior is so wide that no question can be put in numbers; use a narrower one."
            if is_wide
            else "By the answers so far everyone has the same value, and no question is fine enough to tell more. The "
            "posterior stands as it is."
        )

    def _next(self) -> Asked:
        """The design's question at a particle drawn by its weight (Thompson), rounded to the public grid."""
        share = np.cumsum(smc.weights(self._particles.log_weight))
        chosen = min(int(np.searchsorted(share, self._rng.random() * share[-1], side="right")), share.size - 1)
        drawn = self._particles.position[chosen]
        bulk = smc.bulk(self._particles)
        steps = grid_steps(bulk.spread, self.answers, drawn)
        position = np.round(drawn / steps) * steps
        if not self._target.transform.is_inside(self._target.parameters(position[None, :])).all():
            position = drawn
        return self._design.choose(position, bulk.covariance)

    def ask(self) -> Query:
        """What to ask the next person: `query` by the name of what it does."""
        return self.query()

    # ---- learning ----

    def learn(self, answer: Answer | Query, value: int | None = None) -> Receipt:
        """Take in an answer: `answer` by the name of what it does."""
        return self.answer(answer, value)

    def answer(self, answer: Answer | Query, value: int | None = None) -> Receipt:
        """Take in an Answer, or a query with its answer's value; refuse what this survey cannot have received."""
        try:
            number, given = self._recognised(answer, value)
        except InvalidArgument:
            self.refused += 1
            raise
        if given is None:
            self.repeated += 1
            return Receipt(False, f"Query {number} was answered before; the first answer stays.")
        asked = asked_of(given.query)
        reading = np.array([_reading(asked, given.value)])
        increment = self._likely(asked, reading)(self._particles.position)
        absorbed = smc.absorb(
            self._rng,
            self._particles,
            increment,
            log_prior=self._target.log_prior,
            last=self._likely(asked, reading),
            past=self._past,
        )
        self._particles = absorbed.particles
        self.log_evidence += absorbed.log_evidence
        self.rejuvenations += absorbed.rejuvenations
        self._acceptance = absorbed.acceptance if absorbed.rejuvenations else self._acceptance
        question = question_of(given.query)
        self._answered.setdefault(question, []).append(given.value)
        self._numbers.setdefault(question, []).append(number)
        del self._open[number]
        self.answers += 1
        return Receipt(True, f"Answer {self.answers} is counted.")

    def _recognised(self, answer: Any, value: Any) -> tuple[int, Answer | None]:
        """The number of the query and its answer; None in place of a repeated answer."""
        query = answer.query if isinstance(answer, Answer) else answer
        if not isinstance(query, Query) or (value is not None and isinstance(answer, Answer)):
            raise InvalidArgument("Give an Answer, or a Query and its value.", argument="answer")
        number = self._sessions.number(query.id, self.issued)
        is_open = number in self._open
        if (query != self._open[number]) if is_open else (number not in self._numbers.get(question_of(query), ())):
            raise InvalidArgument(
                f"Query {number} is not as this survey asked it; an answer to another question has another law. "
                "Nothing was learnt.",
                argument="query",
            )
        given = answer if isinstance(answer, Answer) else Answer(query, value)
        if not is_open:
            return number, None
        asked = asked_of(query)
        if not asked.can_be(_reading(asked, given.value)):
            raise InvalidArgument(
                f"Query {number} cannot have this answer: it lies farther out than its noise ever reaches. "
                "Nothing was learnt.",
                argument="value",
            )
        return number, given

    def _likely(self, asked: Asked, reading: Array) -> smc.Density:
        """position -> log P(reading | theta), with what is not a number counted and left behind."""

        def log_likelihood(position: Array) -> Array:
            with np.errstate(all="ignore"):
                found = self._law.log_density(asked, reading, self._target.parameters(position))[:, 0]
            return self._finite(found)

        return log_likelihood

    def _past(self) -> smc.Density:
        """position -> log P(all answers so far | theta)."""
        groups = [
            Group(asked, np.array([_reading(asked, value) for value in values]))
            for asked, values in ((asked_by(question), values) for question, values in self._answered.items())
        ]
        total = joint_law(self._law, groups, self._sample())

        def log_likelihood(position: Array) -> Array:
            with np.errstate(all="ignore"):
                return self._finite(total(self._target.parameters(position)))

        return log_likelihood

    def _finite(self, found: Array) -> Array:
        is_bad = ~np.isfinite(found)
        self.non_finite += int(np.isnan(found).sum())
        return np.where(is_bad, HOPELESS, found)

    def _sample(self) -> Theta:
        """A few values of theta that span the particles: some by weight, and the outermost."""
        position = self._particles.position
        share = np.cumsum(smc.weights(self._particles.log_weight))
        rows = np.searchsorted(share, (np.arange(SAMPLE) + 0.5) / SAMPLE * share[-1])
        rows = np.concatenate([rows, position.argmin(axis=0), position.argmax(axis=0)])
        return self._target.parameters(position[np.minimum(rows, len(position) - 1)])

    # ---- what is known ----

    @property
    def effective_size(self) -> float:
        """How many equally weighted particles the weighted ones are worth."""
        return smc.effective_size(self._particles.log_weight)

    @property
    def waiting(self) -> int:
        """Queries that were asked and not answered."""
        return len(self._open)

    @property
    def distinct_queries(self) -> int:
        """How many different questions have been answered."""
        return len(self._answered)

    @property
    def mean(self) -> dict[str, float]:
        """The posterior mean of each parameter."""
        return {name: mean for name, (mean, _) in self._moments().items()}

    @property
    def sd(self) -> dict[str, float]:
        """The posterior standard deviation of each parameter."""
        return {name: sd for name, (_, sd) in self._moments().items()}

    def _moments(self) -> dict[str, tuple[float, float]]:
        w = smc.weights(self._particles.log_weight)
        found = {}
        for name, value in self._target.parameters(self._particles.position).items():
            mean = float(w @ value)
            found[name] = mean, float(np.sqrt(w @ np.square(value - mean)))
        return found

    @property
    def verdict(self) -> Verdict:
        """How far to trust the particles."""
        return Verdict(
            Particles(
                self.n_particles,
                self.effective_size,
                self.answers,
                self.rejuvenations,
                self._acceptance,
                self.non_finite,
            )
        )

    def some_particles(self, count: int) -> dict[str, Array]:
        """A few parameter values by weight; looking changes nothing."""
        return {name: np.asarray(value)[0, :count] for name, value in self.posterior().draws.items()}

    def posterior(self) -> Posterior:
        """The posterior of the answers so far; asking for it changes nothing."""
        rng = np.random.default_rng([int(self.name, 16), self.answers])
        chosen = rng.permutation(smc.systematic(rng, self._particles.log_weight))
        theta = self._target.parameters(self._particles.position[chosen])
        return Posterior(
            draws={name: value[None, :] for name, value in theta.items()},
            method="smc",
            how="particles on the parameters alone",
            law=f"exact law of {self.answers} local answers to {self.distinct_queries} different questions",
            likelihood="auto",
            verdict=self.verdict,
            population=self.population,
            releases=(),
            seed=self.seed,
            log_evidence=self.log_evidence,
            moments=self._moments(),
        )

    # ---- keeping ----

    def save(self, path: str | PathLike[str]) -> None:
        """Write the survey to one file, which appears whole or not at all."""
        from noisewise.online.store import save

        save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Survey:
        """Read a saved survey; it continues as if it had never stopped."""
        from noisewise.online.store import load

        return load(path)

    def _repr_html_(self) -> str:
        from noisewise.report.notebook import survey_html

        return survey_html(self)

    def __repr__(self) -> str:
        return (
            f"<Survey of {', '.join(self.population.free)} under {self.guarantee!r}: {self.answers} answers, "
            f"{self.waiting} waiting>"
        )


def inside(theta: Theta, population: Population) -> dict[str, Array]:
    """Draws of theta strictly inside its support: a draw that doubles round to an end has no place on the line."""
    found = {}
    for name, support in population.supports.items():
        value = np.asarray(theta[name], np.float64)
        least = max(np.nextafter(support.low, np.inf), support.low + SMALLEST)
        found[name] = np.clip(value, least, np.nextafter(support.high, -np.inf))
    return found


def _reading(asked: Asked, value: int) -> float:
    """An answer in the units of x, or the number of its cell."""
    return float(value) if asked.is_cells else value * asked.step
