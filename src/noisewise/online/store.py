"""Surveys on disk: one file, whole or not at all, read without running anything in it.

The file is a NumPy archive: the particles and the log as arrays and one JSON header with everything else. The
population is written in the grammar of spec files and every query in its own checked form. Nothing is pickled. What is
computed from these (the design's tables, sums of answers) is computed again.

    noisewise-survey/2     with the log (kinds and numbers, in order) and the entropy the survey began with, null where
                           it began under format 1 and the true order of its first lines is not known
    noisewise-survey/1     without a log, with the state of one generator: it is read, not written
"""

from __future__ import annotations

import re
from os import PathLike
from typing import Any

import numpy as np

from noisewise.errors import NoisewiseError, Unsupported
from noisewise.exact import integer
from noisewise.inference import archive
from noisewise.online.answers import Answers
from noisewise.online.asked import Question, question_of
from noisewise.online.engine import Engine, Settings, State
from noisewise.online.log import ANSWERED, ASKED, CLOSED, KINDS, Event, Log
from noisewise.online.particles import Particles
from noisewise.online.sessions import Sessions
from noisewise.online.survey import Survey, check_reach
from noisewise.populations.text import population_from_spec, population_to_spec
from noisewise.privacy.guarantee import guarantee_from_dict
from noisewise.query import Answer, Query
from noisewise.statistics.tables import read_edges
from noisewise.types import Plain

__all__ = ["FORMAT", "load", "save", "settings_from_dict", "settings_to_dict", "state_from", "state_parts"]

FORMATS = FORMAT, FORMAT_1 = ("noisewise-survey/2", "noisewise-survey/1")
NAME_LENGTH = 12
LONGEST_ENTROPY = 4000  # digits
SETTINGS = ("n_particles", "explore")
COUNTS = ("answers", "rejuvenations", "non_finite")
OWN_COUNTS = ("issued", "refused", "repeated")
ARRAYS = ("position", "log_weight", "log_prior", "log_likelihood")


def save(survey: Survey, path: str | PathLike[str]) -> None:
    """Write a survey to one file."""
    where = archive.checked_path(path)
    log = survey._log
    numbers: dict[Question, list[int]] = {}
    for number in log.values:  # in order of arrival
        numbers.setdefault(log.questions[number], []).append(number)
    waiting = [number for number in log.questions if number not in log.values]
    counts, arrays = state_parts(survey._state)
    header = {
        "format": FORMAT,
        **settings_to_dict(survey._engine.settings),
        **counts,
        **{name: getattr(survey, name) for name in ("name", "seed", *OWN_COUNTS)},
        "entropy": str(survey._engine.entropy) if log.is_whole else None,
        "sessions": survey._sessions.begun,
        "open": [[number, log.questions[number].query(survey._sessions.label(number)).to_dict()] for number in waiting],
        "answered": [
            [question.query().to_dict(), list(values), numbers[question]]
            for question, values in survey._state.answered.items()
        ],
    }
    arrays["log_kind"] = np.array([KINDS.index(kind) for kind, _ in log.lines], np.uint8)
    arrays["log_number"] = np.array([-1 if number is None else number for _, number in log.lines], np.int64)
    archive.write(where, header, arrays)


def load(path: str | PathLike[str]) -> Survey:
    """Read a survey; anything wrong with the file is one sentence."""
    where = archive.checked_path(path)
    with archive.reading(where, "survey"):
        return _survey(*archive.read(where, forms=FORMATS))


def settings_to_dict(settings: Settings) -> Plain:
    """What makes a survey, as plain data."""
    try:
        population = population_to_spec(settings.law.population)
    except NoisewiseError as error:
        raise Unsupported(f"This survey cannot be saved, because its population cannot be written: {error}") from error
    return {
        **{name: getattr(settings, name) for name in SETTINGS},
        "score": settings.score.to_plain(),
        "population": population,
        "guarantee": settings.guarantee.to_dict(),
        **({"contamination": settings.law.contamination} if settings.law.contamination else {}),
        **_levels_to_dict(settings),
        "families": list(settings.families),
        "fixed": [query.to_dict() for query in settings.fixed],
    }


def settings_from_dict(plain: Plain) -> Settings:
    """Settings read and checked as if they were new."""
    queries = [*plain["families"], *(Query.from_dict(query) for query in plain["fixed"])] or "auto"  # levels alone
    population, guarantee = population_from_spec(plain["population"]), guarantee_from_dict(plain["guarantee"])
    explore = plain.get("explore", 0.0) if plain.get("format") == FORMAT_1 else plain["explore"]
    return Settings.checked(
        population,
        guarantee,
        queries,
        plain["score"],
        plain["n_particles"],
        explore,
        contamination=plain.get("contamination", 0.0),
        levels=plain.get("levels"),
    )


def _levels_to_dict(settings: Settings) -> Plain:
    """The names of levels: of one column as a list, else by column."""
    named = {column: list(part.levels) for column, part in settings.law.parts.items() if part.levels is not None}
    return {"levels": named.get(None, named)} if named else {}


def state_parts(state: State) -> tuple[Plain, Plain]:
    """What is known, but for the answers: numbers and arrays."""
    counts: Plain = {name: getattr(state, name) for name in (*COUNTS, "log_evidence")}
    counts["wide"] = _wide_to_plain(state.wide)
    counts["acceptance"] = None if np.isnan(state.acceptance) else state.acceptance
    return counts, {name: getattr(state.particles, name) for name in ARRAYS}


def state_from(engine: Engine, counts: Plain, arrays: Plain, answered: Answers) -> State:
    """What is known, from its parts and the answers."""
    state = State(
        _particles(arrays, engine),
        answered,
        log_evidence=_number(counts["log_evidence"]),
        acceptance=float("nan") if counts["acceptance"] is None else _number(counts["acceptance"], 0.0, 1.0),
        wide=_wide_from(engine, counts.get("wide")),
        **{name: integer(counts[name], name, minimum=0) for name in COUNTS},
    )
    if state.answers != answered.count:
        raise ValueError("answers that do not add up")
    return state


def _wide_to_plain(wide: tuple[Question, ...]) -> Any:
    """Edges where there is one column, else queries."""
    if not wide:
        return None
    return [question.query().to_dict() for question in wide] if wide[0].column else list(wide[0].edges or ())


def _wide_from(engine: Engine, plain: Any) -> tuple[Question, ...]:
    if plain is None:
        return ()
    if engine.law.is_one:
        return (Question(engine.settings.guarantee, None, None, read_edges(plain)),)
    return tuple(question_of(engine.checked(Query.from_dict(one))) for one in plain)


def _survey(header: Plain, arrays: Plain) -> Survey:
    settings = settings_from_dict(header)
    seed = None if header["seed"] is None else integer(header["seed"], "seed", minimum=0)
    issued = integer(header["issued"], "issued", minimum=0)
    entropy = None
    if header["format"] == FORMAT_1:
        np.random.default_rng().bit_generator.state = header["generator"]
    elif header["entropy"] is not None:
        entropy = _whole(header["entropy"])
        if seed is not None and seed != entropy:
            raise ValueError("a seed that is not its own")
    engine = Engine(settings, entropy, name=_name(header))
    sessions = _sessions(header, issued)
    log = _log(header, arrays, engine, issued)
    answered = Answers.of(
        (question_of(query), value)
        for query, values in ((Query.from_dict(plain), values) for plain, values, _ in header["answered"])
        for value in values
    )
    survey = Survey.__new__(Survey)
    survey._take(engine, state_from(engine, header, arrays, answered), log, sessions, seed)
    for name in OWN_COUNTS:
        setattr(survey, name, integer(header[name], name, minimum=0))
    return survey


def _name(header: Plain) -> str:
    name = header["name"]
    bytes.fromhex(name)
    if len(name) != NAME_LENGTH:
        raise ValueError("a name of another length")
    return str(name)


def _sessions(header: Plain, issued: int) -> Sessions:
    """The sessions so far, and the one that begins with this load."""
    begun = [(session, integer(first, "sessions", minimum=0, maximum=issued)) for session, first in header["sessions"]]
    if not all(isinstance(session, str) for session, _ in begun):
        raise ValueError("a session without a name")
    sessions = Sessions(_name(header), begun)
    sessions.begin(issued)
    return sessions


def _log(header: Plain, arrays: Plain, engine: Engine, issued: int) -> Log:
    """What was asked and answered: every number once, every value one that its question can have."""
    questions: dict[int, Question] = {}
    values: dict[int, int] = {}
    orders: list[list[int]] = []

    def ask(number: int, query: Query, place: str) -> int:
        number = integer(number, place, minimum=0, maximum=issued - 1)
        if number in questions:
            raise ValueError("a number twice")
        questions[number] = question_of(engine.checked(query))
        return int(number)

    for number, plain in header["open"]:
        ask(number, Query.from_dict(plain), "open")
    for plain, given, numbers in header["answered"]:
        query = Query.from_dict(plain)
        if len(given) != len(numbers) or not numbers:
            raise ValueError("answers without numbers")
        orders.append([ask(number, query, "answered") for number in numbers])
        for number, value in zip(orders[-1], given, strict=True):
            answer = Answer(query, value)
            check_reach(answer, "A query")
            values[number] = answer.value
    log = Log(is_whole=engine.entropy is not None)
    is_old = header["format"] == FORMAT_1
    for event in _unordered(questions, values) if is_old else _events(arrays, questions, values):
        log.append(event)
    if log.questions.keys() != questions.keys() or log.values != values or (log.is_whole and len(questions) != issued):
        raise ValueError("a log that does not add up")
    places = {number: place for place, number in enumerate(log.values)}
    if any(order != sorted(order, key=places.__getitem__) for order in orders):
        raise ValueError("answers out of order")
    return log


def _events(arrays: Plain, questions: dict[int, Question], values: dict[int, int]) -> list[Event]:
    kinds, numbers = arrays["log_kind"], arrays["log_number"]
    if kinds.dtype != np.uint8 or numbers.dtype != np.int64 or kinds.ndim != 1 or kinds.shape != numbers.shape:
        raise ValueError("a log of another shape")
    found = []
    for kind, number in zip((KINDS[kind] for kind in kinds.tolist()), numbers.tolist(), strict=True):
        question = questions[number] if kind == ASKED else None
        value = values[number] if kind == ANSWERED else None
        found.append(Event(kind, None if kind == CLOSED and number == -1 else number, question, value))
    return found


def _unordered(questions: dict[int, Question], values: dict[int, int]) -> list[Event]:
    """Lines in an order that is allowed, where the true one is not known."""
    asked = [Event(ASKED, number, question) for number, question in sorted(questions.items())]
    return asked + [Event(ANSWERED, number, value=value) for number, value in values.items()]


def _particles(arrays: Plain, engine: Engine) -> Particles:
    found = Particles(**{name: np.asarray(arrays[name], np.float64) for name in ARRAYS})
    shape = (engine.settings.n_particles, engine.target.size)
    if found.position.shape != shape or any(getattr(found, name).shape != shape[:1] for name in ARRAYS[1:]):
        raise ValueError("particles of another shape")
    if not all(np.isfinite(getattr(found, name)).all() for name in ARRAYS if name != "log_weight"):
        raise ValueError("particles that are not numbers")
    if not np.isfinite(found.log_weight.max()) or np.isnan(found.log_weight).any():
        raise ValueError("weights that are not numbers")
    return found


def _number(value: Any, low: float = -np.inf, high: float = np.inf) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise ValueError("not a number")
    if not low <= value <= high:
        raise ValueError("a number out of range")
    return float(value)


def _whole(text: str) -> int:
    """A whole number written out."""
    if not re.fullmatch(f"[0-9]{{1,{LONGEST_ENTROPY}}}", text):
        raise ValueError("not a whole number")
    return int(text)
