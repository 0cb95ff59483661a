"""A survey under local privacy: ask the next person the most informative question, learn from each noisy answer.

    survey = Survey(population, PureDP(1), seed=1)
    query = survey.query()                 plain data: send it to a person
    answer = respond(query, x)             there, with secure noise, before anything leaves; a survey never sees x
    survey.answer(answer)                  the posterior moves
    survey.posterior()

Each person is asked once, at the guarantee's price; every question after the first depends on earlier *answers* only,
so the whole survey keeps the guarantee for everyone (Yıldırım 2024, Proposition 1). Answers may come late, in any
order, twice, or never: each carries its query, a query counts once, and what this survey did not ask, or what its
question cannot produce, is refused.

Promise: the posterior is that of the exact law of every answer (`answer_law`); a survey that is saved and loaded
continues as if it had never stopped, with the same questions and the same particles.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.exact import integer
from noisewise.inference.posterior import Posterior
from noisewise.inference.target import Target
from noisewise.inference.transform import Transform
from noisewise.online import particles as smc
from noisewise.online.answer_law import AnswerLaw
from noisewise.online.answered import Group, joint_law
from noisewise.online.asked import Asked, Question, asked_by, asked_of, question_of
from noisewise.online.candidates import checked_families
from noisewise.online.design import SCORES, Design, grid_steps
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import Population
from noisewise.privacy.guarantee import Guarantee
from noisewise.query import Answer, Query

__all__ = ["Receipt", "Survey", "SurveyVerdict"]

FEWEST_PARTICLES, MOST_PARTICLES = 10, 1_000_000
SAMPLE = 8
HOPELESS = -1e6  # the log likelihood that stands for one that is not a number
ATTEMPTS = 20
Queries = str | Query | Iterable[str | Query]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of an answer."""

    is_counted: bool
    reason: str


@dataclass(frozen=True, slots=True)
class SurveyVerdict:
    """How far the particles can be trusted."""

    particles: int
    effective: float
    answers: int
    rejuvenations: int
    acceptance: float
    non_finite: int

    @property
    def is_converged(self) -> bool:
        return self.non_finite == 0 and (self.rejuvenations == 0 or self.acceptance > 0.05)

    def __str__(self) -> str:
        moves = "" if not self.rejuvenations else f", {self.acceptance:.0%} of their last moves accepted"
        words = (
            f"{self.effective:.0f} of {self.particles} particles effective after {self.answers} answers and "
            f"{self.rejuvenations} rejuvenations{moves}."
        )
        if self.non_finite:
            words += f" {self.non_finite} particles met a non-finite density and were left behind."
        if self.rejuvenations and not self.acceptance > 0.05:
            words += " They hardly move: use more particles."
        return words


class Survey:
    """Questions, answers and the posterior of one population; see the module."""

    def __init__(
        self,
        population: Population,
        guarantee: Guarantee,
        *,
        queries: Queries = "auto",
        score: str = "logdet",
        n_particles: int = 1000,
        seed: int | None = None,
    ) -> None:
        if seed is not None:
            integer(seed, "seed", minimum=0)
        self._set_up(population, guarantee, queries, score, n_particles, seed)
        self._rng = np.random.default_rng(seed)
        self.name = self._rng.bytes(6).hex()
        position = self._target.draw_prior(self._rng, self.n_particles)
        self._particles = smc.begin(position, self._target.log_prior(position))
        self._begin_design()

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
        if not listed:
            raise InvalidArgument("queries is empty: there is nothing to ask.", argument="queries")
        fixed = tuple(question_of(query).query() for query in listed if isinstance(query, Query))
        for query in fixed:
            if query.guarantee != self.guarantee:
                raise InvalidArgument(
                    f"A query keeps {query.guarantee!r}, but this survey promises {self.guarantee!r}.",
                    argument="queries",
                )
            self._law.check(asked_of(query))
        names = [name for name in listed if not isinstance(name, Query)]
        if names == ["auto"]:
            return checked_families("auto", self._law, self.guarantee), fixed
        return (checked_families(names, self._law, self.guarantee) if names else ()), fixed

    # ---- asking ----

    def query(self) -> Query:
        """What to ask the next person; as many may be asked before an answer comes as you like."""
        for _ in range(ATTEMPTS):
            question = self._next()
            label = f"{self.name}-{self.issued}"
            try:
                if question.edges is not None:
                    query = Query.cells(question.edges, self.guarantee, id=label)
                else:
                    query = Query.clip(question.low, question.high, self.guarantee, id=label)
            except NoisewiseError:  # a draw so far out that no double holds its question
                continue
            self._open[self.issued] = query
            self.issued += 1
            return query
        raise Unsupported("The prior is so wide that no question can be put in numbers; use a narrower one.")

    def _next(self) -> Asked:
        """The design's question at a particle drawn by its weight (Thompson), rounded to the public grid."""
        share = np.cumsum(smc.weights(self._particles.log_weight))
        chosen = min(int(np.searchsorted(share, self._rng.random() * share[-1], side="right")), share.size - 1)
        covariance = smc.covariance(self._particles)
        steps = grid_steps(covariance, self.answers)
        position = np.round(self._particles.position[chosen] / steps) * steps
        if not self._target.transform.is_inside(self._target.parameters(position)).all():
            position = self._particles.position[chosen]
        return self._design.choose(position, covariance)

    # ---- learning ----

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
        self._answered.setdefault(question_of(given.query), []).append(given.value)
        del self._open[number]
        self.answers += 1
        return Receipt(True, f"Answer {self.answers} is counted.")

    def _recognised(self, answer: Any, value: Any) -> tuple[int, Answer | None]:
        """The number of the query and its answer; None in place of a repeated answer."""
        query = answer.query if isinstance(answer, Answer) else answer
        if not isinstance(query, Query) or (value is not None and isinstance(answer, Answer)):
            raise InvalidArgument("Give an Answer, or a Query and its value.", argument="answer")
        name, _, text = (query.id or "").rpartition("-")
        if name != self.name or not text.isdecimal() or not int(text) < self.issued or str(int(text)) != text:
            raise InvalidArgument(
                f"The query {query.id!r:.60} was not asked by this survey. Nothing was learnt.", argument="query"
            )
        number = int(text)
        if number not in self._open:
            return number, None
        if query != self._open[number]:
            raise InvalidArgument(
                f"Query {number} is not as this survey asked it; an answer to another question has another law. "
                "Nothing was learnt.",
                argument="query",
            )
        given = answer if isinstance(answer, Answer) else Answer(query, value)
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
    def verdict(self) -> SurveyVerdict:
        """How far to trust the particles."""
        return SurveyVerdict(
            self.n_particles, self.effective_size, self.answers, self.rejuvenations, self._acceptance, self.non_finite
        )

    def posterior(self) -> Posterior:
        """The posterior of the answers so far; asking for it changes nothing."""
        rng = np.random.default_rng([int(self.name, 16), self.answers])
        chosen = rng.permutation(smc.systematic(rng, self._particles.log_weight))
        theta = self._target.parameters(self._particles.position[chosen])
        return Posterior(
            draws={name: value[None, :] for name, value in theta.items()},
            method="smc",
            because=f"particles on the parameters alone; exact law of {self.answers} local answers to "
            f"{self.distinct_queries} different questions",
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

    def __repr__(self) -> str:
        return (
            f"<Survey of {', '.join(self.population.free)} under {self.guarantee!r}: {self.answers} answers, "
            f"{self.waiting} waiting>"
        )


def _reading(asked: Asked, value: int) -> float:
    """An answer in the units of x, or the number of its cell."""
    return float(value) if asked.is_cells else value * asked.step
