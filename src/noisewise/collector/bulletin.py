"""What may be seen of a survey while it runs: the posterior and its course, in steps.

Everything here is computed from noisy answers, so it costs nobody any privacy. But a page that moved with every answer
would show what the person who just answered has sent; so the public picture moves only after ten more answers, or
after a minute. The operator's numbers (how many are asked, how far the learner is behind, answers by the minute) are
shown to the operator alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from json import dumps, loads

import numpy as np

from noisewise.collector.board import Board, ColumnWords, Words
from noisewise.collector.learner import Learner
from noisewise.collector.store import Store
from noisewise.errors import NoisewiseError
from noisewise.online import particles as smc
from noisewise.online.engine import Engine, State
from noisewise.online.fit import fit_check
from noisewise.online.stopping import Stop, forecast
from noisewise.online.survey_law import Part
from noisewise.populations.parameters import Theta
from noisewise.query import Query
from noisewise.types import Floats, Plain

__all__ = ["Bulletin", "question_words"]

ANSWERS, SECONDS = 10, 60.0  # a step of the public picture
PAUSE_SECONDS = 1.0  # between two steps at least: workers look no more often, and a crowd makes ten answers in no time
LONGEST_COURSE = 240
PACE_SECONDS, PACE_MINUTES = 1.0, 30
GRID, DRAWS = 160, 200
LEVELS = (0.05, 0.5, 0.95)
PLAIN = {  # what people call a parameter, and whether it is told in the unit of the answers; others keep their names
    "mean": ("average", True),
    "sd": ("spread between people (standard deviation)", True),
    "loc": ("centre", True),
    "scale": ("spread between people", True),
    "low": ("lowest value", True),
    "high": ("highest value", True),
    "width": ("width", True),
    "log_mean": ("average of the logarithm", False),
    "log_sd": ("spread of the logarithm", False),
    "p": ("share", False),
    "shape": ("shape", False),
    "rate": ("rate", False),
    "poisson rate": ("average", True),
}


@dataclass(frozen=True, slots=True)
class Shown:
    """When the public picture was last drawn."""

    answers: int
    at: float
    is_closed: bool


class Bulletin:
    """Writes what may be shown on a survey's board; used by the learner's process."""

    def __init__(
        self, board: Board, learner: Learner, words: Words, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.board, self.learner, self.words, self._clock = board, learner, words, clock
        self._stop = None if words.close is None else Stop.read(words.close)
        self._course: list[Plain] = _course_before(board)
        self._shown: Shown | None = None
        self._pace: list[tuple[float, int]] = []

    def look(self, *, is_closed: bool) -> bool:
        """Draw the public picture again if a step is due, and the operator's numbers each second; whether it was."""
        now = self._clock()
        self._keep_pace(now)
        before, answers = self._shown, self.learner.state.answers
        is_due = (
            before is None
            or is_closed != before.is_closed
            or (answers >= before.answers + ANSWERS and now >= before.at + PAUSE_SECONDS)
            or (answers > before.answers and now >= before.at + SECONDS)
        )
        if is_due:
            self._shown = Shown(answers, now, is_closed)
            self._write(is_closed)
        return is_due

    def _write(self, is_closed: bool) -> None:
        engine, state = self.learner.engine, self.learner.state
        moments = engine.told(state)
        ranges = intervals(engine, state)
        if not self._course or self._course[-1]["answers"] < state.answers:
            self._course.append({"answers": state.answers, "intervals": ranges})
        if len(self._course) > LONGEST_COURSE:
            self._course = self._course[:1] + self._course[2::2]
        fit = fit_check(engine, state)
        picture: Plain = {
            "survey": self.board.store.name,
            "title": self.words.title,
            "question": self.words.question,
            "unit": self.words.unit,
            "guarantee": str(engine.settings.guarantee),
            "simulated": self.board.store.is_simulated,
            "answers": state.answers,
            "closed": is_closed,
            "mean": {name: mean for name, (mean, _) in moments.items()},
            "sd": {name: sd for name, (_, sd) in moments.items()},
            "intervals": ranges,
            "course": self._course,
            "unknowns": unknowns(engine, state, self.words),
            "fitted": [self._worded(one) for one in fitted(engine, state)],
            "asking": self._asking(),
            "fit": {
                "words": str(fit),
                "counts": list(fit.counts),
                "expected": list(fit.expected),
                "edges": list(fit.edges),
                "unit": self.words.about(fit.column).unit,
            },
            "close": self.words.close,
            "forecast": self._forecast(engine, state),
        }
        self.board.write("shown", dumps(picture), is_durable=False)

    def _forecast(self, engine: Engine, state: State) -> int | None:
        """How many more answers the closing rule takes; None where there is none, or nobody can tell."""
        try:
            return None if self._stop is None else forecast(engine, state, self._stop)
        except (NoisewiseError, np.linalg.LinAlgError):
            return None

    def _asking(self) -> str | None:
        """The question that the next person gets, in words."""
        with self.board.store.session() as session:
            found = session.rows("SELECT query FROM queries WHERE state = 'pooled' ORDER BY number LIMIT 1")
        if not found:
            return None
        query = Query.from_dict(loads(found[0][0]))
        own = self.words.about(query.column)
        return question_words(
            query, own.unit, own.levels, self.words.columns.get(query.column or "", ColumnWords()).question
        )

    def _worded(self, one: Plain) -> Plain:
        """A fitted column with the words that people read."""
        own = self.words.about(one["column"])
        levels = {"words": [own.levels.get(name, name) for name in one["levels"]]} if "levels" in one else {}
        is_own = one["column"] in self.words.columns
        return {**one, "unit": own.unit, "question": own.question if is_own else "", **levels}

    def _keep_pace(self, now: float) -> None:
        if self._pace and now < self._pace[-1][0] + PACE_SECONDS:
            return
        answers = self.learner.state.answers
        self._pace = [*((at, n) for at, n in self._pace if at > now - 60 * PACE_MINUTES), (now, answers)]
        counts = []
        for minute in range(PACE_MINUTES):
            before = [n for at, n in self._pace if at <= now - 60 * minute]
            earlier = [n for at, n in self._pace if at <= now - 60 * (minute + 1)]
            if not before:
                break
            counts.append(before[-1] - (earlier[-1] if earlier else self._pace[0][1]))
        pace = {"position": self.learner.position, "answers": answers, "minutes": counts}
        self.board.write("pace", dumps(pace), is_durable=False)


def operator_numbers(board: Board, store: Store) -> Plain:
    """What only the operator sees: asked and waiting, lines that are not learnt yet, answers by the minute."""
    standing, kept = store.standing(), board.read("pace")
    pace: Plain = {"position": 0, "minutes": []} if kept is None else loads(kept)
    return {
        "received": standing.answers,
        "outstanding": standing.outstanding,
        "pooled": standing.pooled,
        "lag": max(standing.position - int(pace["position"]), 0),
        "minutes": pace["minutes"],
    }


def intervals(engine: Engine, state: State) -> dict[str, list[float]]:
    """5 %, 50 % and 95 % of each unknown number; shares of levels by level, named as `Engine.told` names them."""
    weight = smc.weights(state.particles.log_weight)
    values = engine.target.parameters(state.particles.position).values()
    columns = np.concatenate([np.reshape(value, (len(weight), -1)) for value in values], axis=1)
    return dict(zip(engine.told(state), map(_quantiles(weight), columns.T), strict=True))


def unknowns(engine: Engine, state: State, words: Words) -> dict[str, Plain]:
    """Each unknown in words that people know, with its unit, by its name as `Engine.told` has it."""
    found: dict[str, Plain] = {}
    for part in engine.law.parts.values():
        own, before = words.about(part.column), "" if part.column is None else f"{part.column}."
        about = "" if part.column is None else words.columns.get(part.column, ColumnWords()).question or part.column
        if part.levels is not None:
            named = {f"{before}p[{level}]": own.levels.get(str(level), str(level)) for level in part.levels}
            found |= {name: _unknown(f"share: {level}", about, is_share=True) for name, level in named.items()}
            continue
        population = part.honest.population
        for name in population.free:
            plain, has_unit = PLAIN.get(f"{population.distribution.name} {name}", PLAIN.get(name, (name, False)))
            if name == "p" and "1" in own.levels:
                plain = f"{plain}: {own.levels['1']}"
            found[f"{before}{name}"] = _unknown(plain, about, own.unit if has_unit else "", is_share=name == "p")
    return {name: found.get(name, _unknown(name, "")) for name in engine.told(state)}


def _unknown(words: str, about: str, unit: str = "", *, is_share: bool = False) -> Plain:
    return {"words": words, "about": about, "unit": unit, "share": is_share}


def _quantiles(weight: Floats) -> Callable[[Floats], list[float]]:
    """Values of weighted particles -> their values at `LEVELS`."""

    def found(values: Floats) -> list[float]:
        ranked = np.argsort(values)
        share = np.cumsum(weight[ranked])
        places = np.minimum(np.searchsorted(share, np.array(LEVELS) * share[-1]), len(ranked) - 1)
        return [float(v) for v in values[ranked[places]]]

    return found


def fitted(engine: Engine, state: State) -> list[Plain]:
    """The population as it is known, column by column: of numbers the density averaged over the posterior, on a grid,
    where there is one; of levels the share of each at 5 %, 50 % and 95 %."""
    weight = smc.weights(state.particles.log_weight)
    share = np.cumsum(weight)
    rows = np.minimum(np.searchsorted(share, (np.arange(DRAWS) + 0.5) / DRAWS * share[-1]), len(share) - 1)
    theta = engine.target.parameters(state.particles.position)
    some = {name: value[rows] for name, value in theta.items()}
    found: list[Plain] = []
    for part in engine.law.parts.values():
        if part.levels is not None:
            shares = np.atleast_2d(part.honest.population.parameters.full(engine.law.theta_of(part, theta))["p"])
            each = np.broadcast_to(shares, (len(weight), len(part.levels))).T
            names = [str(level) for level in part.levels]
            found.append({"column": part.column, "levels": names, "shares": list(map(_quantiles(weight), each))})
            continue
        curve = _density(part, engine.law.theta_of(part, some))
        found += [] if curve is None else [{"column": part.column, **curve}]
    return found


def _density(part: Part, theta: Theta) -> Plain | None:
    """A column's density averaged over draws of theta; None where there is none."""
    population = part.honest.population
    try:
        with np.errstate(all="ignore"):
            people = np.asarray(population.quantile((np.arange(100) + 0.5) / 100, theta))  # as many of each draw
            low, high = (float(v) for v in np.nanquantile(people, [0.005, 0.995]))
            x = _grid(low, high, is_discrete=population.is_discrete)
            density = np.exp(np.asarray(population.log_density(x, theta))).mean(axis=0)
    except (NoisewiseError, NotImplementedError):
        return None
    if not np.all(np.isfinite(density)):
        return None
    return {"x": x.tolist(), "density": density.tolist(), "discrete": bool(population.is_discrete)}


def _grid(low: float, high: float, *, is_discrete: bool) -> Floats:
    if is_discrete:
        return np.unique(np.round(np.linspace(np.floor(low), np.ceil(high), GRID)))
    return np.linspace(low - 0.05 * (high - low), high + 0.05 * (high - low), GRID)


def question_words(query: Query, unit: str, levels: Mapping[str, str] | None = None, about: str = "") -> str:
    """What a query asks, in words; of one of several columns with the column's own question, or its name."""
    of = f" {unit}" if unit else ""
    before = "" if query.column is None else f"{about} \N{EN DASH} " if about else f"{query.column}: "
    return before + _asked_words(query, of, levels or {})


def _asked_words(query: Query, of: str, levels: Mapping[str, str]) -> str:
    if query.levels is not None:
        return f"which of {', '.join(levels.get(str(level), str(level)) for level in query.levels)}"
    if query.edges is None:
        low, high = _told_apart([query.low or 0.0, query.high or 0.0])
        return f"a number between {low} and {high}{of}, with noise added"
    edges = _told_apart(query.edges)
    if len(edges) == 1 and {"0", "1"} <= set(levels) and 0 < query.edges[0] <= 1:
        return f"which of {levels['0']}, {levels['1']}"
    if len(edges) == 1:
        return f"below {edges[0]}{of}, or not"
    return f"which of {len(edges) + 1} ranges, split at {', '.join(edges)}{of}"


def _told_apart(numbers: Sequence[float]) -> list[str]:
    """Numbers in order: whole digits, as many as tell them apart and two more; a single one has a decimal at least.

    The pages tell the same numbers by the same rule, `digitsOf`.
    """
    top = max(map(abs, numbers)) or 1.0
    gaps = [after - before for before, after in pairwise(numbers) if after > before]
    whole = math.floor(math.log10(top)) + 1
    between = math.ceil(math.log10(top / min(gaps))) + 2 if gaps else whole + 1
    return [f"{number:.{min(max(4, whole, between), 15)}g}" for number in numbers]


def _course_before(board: Board) -> list[Plain]:
    """The course that an earlier learner drew."""
    kept = board.read("shown")
    return [] if kept is None else list(loads(kept)["course"])
