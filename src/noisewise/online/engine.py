"""What a survey knows, as a function of its log: the same answers in the same order, the same posterior, bit by bit.

    engine = Engine(settings, entropy)          everything that does not change: the law, the prior's particles, a name
    state  = engine.begin()                     what is known before the first answer
    state  = engine.step(state, question, value)     what is known after one more
    asked  = engine.question(state, number)     what to ask next, from what is known and the number of the query

All three are pure: nothing is drawn but from generators that begin anew for every act, keyed by the survey's name and
    (LEARNING, how many answers came before)    or    (ASKING, the query's number),
so a state depends on the settings and on the sequence of (question, value) alone; what was asked in between, by whom
and when, does not matter. A step that fails leaves the state as it was. "The same" holds for the same versions of
Noisewise and NumPy on the same kind of processor.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import fraction, integer
from noisewise.inference.posterior import Value
from noisewise.inference.target import Target
from noisewise.inference.transform import Transform
from noisewise.online import particles as smc
from noisewise.online.answer_law import AnswerLaw
from noisewise.online.answered import Group
from noisewise.online.answers import Answers
from noisewise.online.asked import Asked, Question, asked_by, asked_cells, asked_of, question_of
from noisewise.online.candidates import FAMILIES, checked_families, checked_names
from noisewise.online.contamination import checked_share
from noisewise.online.design import Design, grid_steps, law_identity
from noisewise.online.scores import Score, ScoreLike
from noisewise.online.survey_law import LevelNames, Part, SurveyLaw
from noisewise.populations.parameters import Array, Supports, Theta
from noisewise.printable import shown
from noisewise.privacy.guarantee import Guarantee
from noisewise.query import Query

__all__ = ["Engine", "Queries", "Settings", "State", "reading"]

FEWEST_PARTICLES, MOST_PARTICLES = 10, 1_000_000
SAMPLE = 8
HOPELESS = -1e6  # the log likelihood that stands for one that is not a number
SMALLEST = 1e-300
ASKING, LEARNING, CHECKING = 0, 1, 2
MOST_WEIGHED = 1_000_000  # numbers remembered: what answers say about the particles as they are
WIDE_AT = 50  # answers, after which the wide question is fixed
WIDE_LEVELS = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
WIDE_PARTICLES = 256
FAR_LEVELS, FAR_EVERY = np.array([0.002, 0.998]), 4  # the question that tells lies from tails, and who gets it
WIDE_GRID = (np.arange(64) + 0.5) / 64
EXPLORED, MOST_EXPLORED = 0.1, 0.5
Queries = str | Query | Iterable[str | Query]


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that makes a survey but its seed."""

    law: SurveyLaw  # of answers, under the population and its priors
    guarantee: Guarantee
    families: tuple[str, ...]
    fixed: tuple[Query, ...]
    score: Score
    n_particles: int
    explore: float = 0.0  # the share of people who get the fixed wide question

    @classmethod
    def checked(
        cls,
        population: object,
        guarantee: Guarantee,
        queries: Queries,
        score: ScoreLike,
        n_particles: int,
        explore: float | None = None,
        *,
        contamination: float = 0.0,
        levels: LevelNames | None = None,
    ) -> Settings:
        """Settings that fit together; else a sentence that names the argument."""
        if not isinstance(guarantee, Guarantee):
            raise InvalidArgument(f"guarantee = {shown(guarantee)}; give one, as in PureDP(1).", argument="guarantee")
        settled = Score.of(score)
        law = SurveyLaw(population, contamination=checked_share(contamination), levels=levels)
        if not law.population.free:
            raise InvalidArgument(
                "Every parameter of this population is known, so there is nothing to ask. Give a prior for one.",
                argument="population",
            )
        count = integer(n_particles, "n_particles", minimum=FEWEST_PARTICLES, maximum=MOST_PARTICLES)
        settled.check(law.population.free, len(law.parts))
        families, fixed = _read_queries(queries, law, guarantee)
        usual = EXPLORED if "cells" in families else 0.0  # who allows no cells gets no question about cells
        share = usual if explore is None else float(fraction(explore, "explore", minimum=0))
        if share > MOST_EXPLORED:
            raise InvalidArgument(
                f"explore = {share}; the share of people who are asked a fixed question is at most {MOST_EXPLORED}.",
                argument="explore",
            )
        if share and guarantee.pure_epsilon is None:
            raise Unsupported(f"explore asks about cells, which need PureDP, not {guarantee!r}.")
        return cls(law, guarantee, families, fixed, settled, count, share)


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """What is known after some answers: the particles, and the answers themselves by question, in order of arrival."""

    particles: smc.Particles
    answered: Answers
    answers: int = 0
    log_evidence: float = 0.0
    rejuvenations: int = 0
    acceptance: float = float("nan")  # of the last rejuvenation's moves
    non_finite: int = 0
    wide: tuple[Question, ...] = ()  # what exploring people get, one question for each column of numbers

    def moments(self, target: Target) -> dict[str, tuple[Value, Value]]:
        """The posterior mean and standard deviation of each parameter; of a vector, by component."""
        w = smc.weights(self.particles.log_weight)
        found: dict[str, tuple[Value, Value]] = {}
        for name, value in target.parameters(self.particles.position).items():
            mean = w @ value
            sd = np.sqrt(w @ np.square(value - mean))
            found[name] = (float(mean), float(sd)) if value.ndim == 1 else (mean, sd)
        return found


class Engine:
    """Asks and learns for one survey; holds nothing that an answer changes.

    settings    what is asked about, under which guarantee
    entropy     the seed of the prior's particles and of the name: a whole number
    name        given for a survey that has its name and its particles already; then `begin` is not to be called
    """

    def __init__(self, settings: Settings, entropy: int | None, *, name: str | None = None) -> None:
        self.settings, self.entropy = settings, entropy
        self.law = settings.law
        law = self.law
        self.target = Target(Transform(law.supports), law.log_prior, law.log_prior, law.sample_prior)
        self._first: smc.Particles | None = None
        self._weighed: tuple[Array | None, dict[tuple[Question, int], tuple[Array, int]]] = (None, {})
        if name is None:
            rng = np.random.default_rng(entropy)
            drawn = rng.bytes(6)
            position = self.target.position(_inside(self.target.sample_prior(rng, settings.n_particles), law.supports))
            self._first = smc.begin(position, self.target.log_prior(position))
            name = self._digest(drawn, self._first)
        self.name = name
        made = [(part, self._design(part)) for part in law.parts.values() if part.transform.size]
        self._designs = [(part, design) for part, design in made if not design.is_empty]

    def _design(self, part: Part) -> Design:
        """What may be asked about one column; only honest answers are thought of."""
        settings, own = self.settings, part.honest
        fixed = [asked_of(query) for query in settings.fixed if query.column == part.column]
        names = {name: name if part.column is None else f"{part.column}.{name}" for name in own.population.free}
        families = _valid(settings.families, own, settings.guarantee)
        if part.levels is not None:
            families, fixed = (), [asked_of(self._query_of_levels(part, None))]
        return Design(
            own,
            settings.guarantee,
            part.transform,
            families=families,
            fixed=fixed,
            score=settings.score.of_column(names),
        )

    def _query_of_levels(self, part: Part, label: str | None) -> Query:
        assert part.levels is not None
        return Query.choice(part.levels, guarantee=self.settings.guarantee, id=label, column=part.column)

    def _digest(self, drawn: bytes, first: smc.Particles) -> str:
        """A name from a random draw (the seed's, if there is one) and everything that makes this survey."""
        s = self.settings
        about = [
            law_identity(part.honest) if part.column is None else (part.column, *law_identity(part.honest))
            for part in self.law.parts.values()
        ]
        said: tuple[object, ...] = (*about, s.guarantee, s.families, s.fixed, s.score.identity, s.n_particles)
        said += (s.explore,) if s.explore else ()
        said += ("contamination", self.law.contamination) if self.law.contamination else ()
        said += tuple(part.levels for part in self.law.parts.values() if part.levels is not None)
        digest = hashlib.blake2b(drawn + repr(said).encode(), digest_size=6)
        for numbers in (first.position, first.log_prior):  # they are what the prior is
            digest.update(numbers.tobytes())
        return digest.hexdigest()

    def generator(self, *key: int) -> np.random.Generator:
        """A generator of this survey's own for one act."""
        return np.random.default_rng([int(self.name, 16), *key])

    def begin(self) -> State:
        """What is known before the first answer: draws from the prior."""
        assert self._first is not None
        return State(self._first, Answers())

    def told(self, state: State) -> dict[str, tuple[float, float]]:
        """The posterior mean and standard deviation of each number that is unknown; the shares of levels by level."""
        found: dict[str, tuple[float, float]] = {}
        named = {("p" if part.column is None else f"{part.column}.p"): part.levels for part in self.law.parts.values()}
        for name, (mean, sd) in state.moments(self.target).items():
            if not np.ndim(mean):
                found[name] = float(mean), float(sd)
                continue
            levels = named.get(name) or range(np.size(mean))
            each = zip(levels, np.ravel(mean).tolist(), np.ravel(sd).tolist(), strict=True)
            found |= {f"{name}[{level}]": (own, spread) for level, own, spread in each}
        return found

    # ---- asking ----

    def question(self, state: State, number: int, attempt: int = 0) -> Asked:
        """The design's question at a particle drawn by its weight (Thompson), rounded to the public grid."""
        if state.wide and self.explores(number):
            turn = int((number + 1) * self.settings.explore)
            return asked_by(state.wide[turn % len(state.wide)])
        rng = self.generator(ASKING, number, attempt)
        particles = state.particles
        share = np.cumsum(smc.weights(particles.log_weight))
        chosen = min(int(np.searchsorted(share, rng.random() * share[-1], side="right")), share.size - 1)
        drawn = particles.position[chosen]
        bulk = smc.bulk(particles)
        steps = grid_steps(bulk.spread, state.answers, drawn)
        position = np.round(drawn / steps) * steps
        if not self.target.transform.is_inside(self.target.parameters(position[None, :])).all():
            position = drawn
        far = self._far(position, number)
        if far is not None:
            return far
        if len(self._designs) == 1:
            part, design = self._designs[0]
            asked = design.choose(position[part.start : part.stop], part.block(bulk.covariance))
            return asked if part.column is None else replace(asked, column=part.column)
        best = [
            (part, design.best(position[part.start : part.stop], part.block(bulk.covariance)))
            for part, design in self._designs
        ]
        part, choice = max(best, key=lambda one: one[1].value)
        return replace(choice.asked, column=part.column)

    def _far(self, position: Array, number: int) -> Asked | None:
        """The question whose outer cells hold hardly an honest person, for some of the people where some may lie."""
        if not self.law.contamination or "cells" not in self.settings.families or (number + 1) % FAR_EVERY:
            return None
        part, _ = self._designs[(number + 1) // FAR_EVERY % len(self._designs)]
        own = part.transform.parameters(position[None, part.start : part.stop])
        edges = np.ravel(part.honest.population.quantile(FAR_LEVELS, own))
        if part.honest.population.is_discrete:
            edges = edges + np.array([-0.5, 0.5])
        if not (np.isfinite(edges).all() and edges[0] < edges[1]):
            return None
        return replace(asked_cells((float(edges[0]), float(edges[1])), self.settings.guarantee), column=part.column)

    def query(self, asked: Asked, label: str) -> Query:
        """A question as a query with an id; a refusal where no double holds it."""
        part, guarantee = self.law.part(asked.column), self.settings.guarantee
        if part.levels is not None:
            return self._query_of_levels(part, label)
        if asked.edges is not None:
            return Query.cells(asked.edges, guarantee=guarantee, id=label, column=part.column)
        return Query.clip(asked.low, asked.high, guarantee=guarantee, id=label, column=part.column)

    def explores(self, number: int) -> bool:
        """Whether the query of this number goes to an exploring person, as soon as there is a wide question."""
        return int((number + 1) * self.settings.explore) > int(number * self.settings.explore)

    def _wide(self, state: State) -> tuple[Question, ...]:
        """Questions about the whole fitted population: at its quantiles, averaged over the posterior."""
        chosen = smc.systematic(self.generator(CHECKING), state.particles.log_weight)
        rows = chosen[np.linspace(0, len(chosen) - 1, min(WIDE_PARTICLES, len(chosen))).astype(int)]
        theta = self.target.parameters(state.particles.position[rows])
        found = []
        for part in (part for part, _ in self._designs if part.levels is None):
            population = part.honest.population
            own = self.law.theta_of(part, theta)
            edges = np.quantile(np.asarray(population.quantile(WIDE_GRID, own), float), WIDE_LEVELS)
            if population.is_discrete:
                edges = np.floor(edges) + 0.5
            if np.isfinite(edges).all():
                wide = tuple(float(edge) for edge in np.unique(edges))
                found.append(Question(self.settings.guarantee, None, None, wide, column=part.column))
        return tuple(found)

    def checked(self, query: Query) -> Query:
        """A query that this survey may ask; else a sentence."""
        return _checked(query, self.law, self.settings.guarantee)

    # ---- learning ----

    def step(self, state: State, question: Question, value: int) -> State:
        """What is known after one more answer."""
        asked = asked_by(question)
        seen = _Finite()
        last = self._likely(asked, np.array([reading(asked, value)]), seen)
        absorbed = smc.absorb(
            lambda: self.generator(LEARNING, state.answers),
            state.particles,
            self._increment(state.particles.position, asked, (question, value), last, seen),
            log_prior=self.target.log_prior,
            last=last,
            past=lambda: self._past(state, seen),
        )
        after = replace(
            state,
            particles=absorbed.particles,
            answered=state.answered.and_one(question, value),
            answers=state.answers + 1,
            log_evidence=state.log_evidence + absorbed.log_evidence,
            rejuvenations=state.rejuvenations + absorbed.rejuvenations,
            acceptance=absorbed.acceptance if absorbed.rejuvenations else state.acceptance,
            non_finite=state.non_finite + seen.missing,
        )
        is_due = self.settings.explore > 0 and after.answers == WIDE_AT
        return replace(after, wide=self._wide(after)) if is_due else after

    def _increment(
        self, position: Array, asked: Asked, answer: tuple[Question, int], last: smc.Density, seen: _Finite
    ) -> Array:
        """log P(answer | theta) at the particles. Where many give the same answer, as a crowd does to a question about
        cells, it is computed once for as long as the particles stay where they are."""
        if not asked.is_cells:
            return last(position)
        where, known = self._weighed
        if where is not position:
            known = {}
            self._weighed = position, known
        if answer not in known:
            if len(known) * len(position) >= MOST_WEIGHED:
                known.clear()
            before = seen.missing
            known[answer] = last(position), seen.missing - before
            return known[answer][0]
        increment, missing = known[answer]
        seen.missing += missing
        return increment

    def _likely(self, asked: Asked, given: Array, seen: _Finite) -> smc.Density:
        """position -> log P(reading | theta)."""

        def log_likelihood(position: Array) -> Array:
            with np.errstate(all="ignore"):
                return seen(self.law.log_density(asked, given, self.target.parameters(position))[:, 0])

        return log_likelihood

    def _past(self, state: State, seen: _Finite) -> smc.Density:
        """position -> log P(all answers so far | theta)."""
        groups = [
            Group(asked, np.array([reading(asked, value) for value in values]))
            for asked, values in ((asked_by(question), values) for question, values in state.answered.items())
        ]
        total = self.law.joint(groups, self._sample(state.particles))

        def log_likelihood(position: Array) -> Array:
            with np.errstate(all="ignore"):
                return seen(total(self.target.parameters(position)))

        return log_likelihood

    def _sample(self, particles: smc.Particles) -> Theta:
        """A few values of theta that span the particles: some by weight, and the outermost."""
        position = particles.position
        share = np.cumsum(smc.weights(particles.log_weight))
        rows = np.searchsorted(share, (np.arange(SAMPLE) + 0.5) / SAMPLE * share[-1])
        rows = np.concatenate([rows, position.argmin(axis=0), position.argmax(axis=0)])
        return self.target.parameters(position[np.minimum(rows, len(position) - 1)])


class _Finite:
    """Puts a hopeless number where a log likelihood is none, and counts how often it was not even infinite."""

    __slots__ = ("missing",)

    def __init__(self) -> None:
        self.missing = 0

    def __call__(self, found: Array) -> Array:
        self.missing += int(np.isnan(found).sum())
        return np.where(~np.isfinite(found), HOPELESS, found)


def reading(asked: Asked, value: int) -> float:
    """An answer in the units of x, or the number of its cell."""
    return float(value) if asked.is_cells else value * asked.step


def _read_queries(given: Queries, law: SurveyLaw, guarantee: Guarantee) -> tuple[tuple[str, ...], tuple[Query, ...]]:
    """Families by name, and queries that are asked as they are."""
    listed = [given] if isinstance(given, str | Query) else given
    if not isinstance(listed, Iterable):
        raise InvalidArgument("queries must be a family, a Query, or a list of them.", argument="queries")
    names: list[str] = []
    queries: list[Query] = []
    for one in listed:
        if isinstance(one, Query):
            queries.append(one)
        elif isinstance(one, str):
            names.append(one)
        else:
            raise InvalidArgument(f"queries holds {shown(one)}: each is a family or a Query.", argument="queries")
    if not names and not queries:
        raise InvalidArgument("queries is empty: there is nothing to ask.", argument="queries")
    fixed = tuple(_checked(question_of(query).query(), law, guarantee) for query in queries)
    wanted: object = "auto" if names == ["auto"] else names
    found: set[str] = set()
    for part in law.parts.values():
        if part.levels is not None:
            if guarantee.pure_epsilon is None:
                raise Unsupported(
                    f"Levels are asked for by randomized response, which needs PureDP, not {guarantee!r}."
                )
        elif names and law.is_one:
            return checked_families(wanted, part.honest, guarantee), fixed
        elif names:
            own = checked_families("auto", part.honest, guarantee)
            found |= {name for name in own if wanted == "auto" or name in names}
            if wanted != "auto" and not set(own) & set(checked_names(names)):
                raise Unsupported(
                    f"Nobody can be asked about {part.column!r} with queries={names!r}; it takes {own!r}."
                )
    return tuple(name for name in FAMILIES if name in found), fixed


def _valid(families: tuple[str, ...], law: AnswerLaw, guarantee: Guarantee) -> tuple[str, ...]:
    """Those of the survey's families that a column can be asked with."""
    own = checked_families("auto", law, guarantee) if families and law.level_count is None else ()
    return tuple(name for name in families if name in own)


def _checked(query: Query, law: SurveyLaw, guarantee: Guarantee) -> Query:
    if query.guarantee != guarantee:
        raise InvalidArgument(
            f"A query keeps {query.guarantee!r}, but this survey promises {guarantee!r}.", argument="queries"
        )
    law.check(query)
    return query


def _inside(theta: Theta, supports: Supports) -> dict[str, Array]:
    """Draws of theta strictly inside its support: a draw that doubles round to an end has no place on the line."""
    found = {}
    for name, support in supports.items():
        value = np.asarray(theta[name], np.float64)
        least = max(np.nextafter(support.low, np.inf), support.low + SMALLEST)
        found[name] = np.clip(value, least, np.nextafter(support.high, -np.inf))
    return found
