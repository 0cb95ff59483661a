"""Surveys on disk: one file, whole or not at all, read without running anything in it.

The file is a NumPy archive: the particles as arrays and one JSON header with everything else, the state of the
generator included. The population is written in the grammar of spec files and every query in its own checked form.
Nothing is pickled. What is computed from these (the design's tables, sums of answers) is computed again.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from noisewise.errors import NoisewiseError, Unsupported
from noisewise.exact import integer
from noisewise.inference import archive
from noisewise.online.asked import question_of
from noisewise.online.particles import Particles
from noisewise.online.sessions import Sessions
from noisewise.online.survey import Survey
from noisewise.populations.text import population_from_spec, population_to_spec
from noisewise.privacy.guarantee import guarantee_from_dict
from noisewise.query import Answer, Query

__all__ = ["FORMAT", "load", "save"]

FORMAT = "noisewise-survey/1"
NAME_LENGTH = 12
COUNTS = ("issued", "answers", "rejuvenations", "refused", "repeated", "non_finite")
PLAIN = ("name", "seed", "score", "n_particles", "log_evidence", *COUNTS)
ARRAYS = ("position", "log_weight", "log_prior", "log_likelihood")


def save(survey: Survey, path: str | PathLike[str]) -> None:
    """Write a survey to one file."""
    where = archive.checked_path(path)
    try:
        population = population_to_spec(survey.population)
    except NoisewiseError as error:
        raise Unsupported(f"This survey cannot be saved, because its population cannot be written: {error}") from error
    header = {
        "format": FORMAT,
        **{name: getattr(survey, name) for name in PLAIN},
        "acceptance": None if np.isnan(survey._acceptance) else survey._acceptance,
        "population": population,
        "guarantee": survey.guarantee.to_dict(),
        "families": list(survey.families),
        "fixed": [query.to_dict() for query in survey.fixed],
        "generator": survey._rng.bit_generator.state,
        "sessions": survey._sessions.begun,
        "open": [[number, query.to_dict()] for number, query in survey._open.items()],
        "answered": [
            [question.query().to_dict(), values, survey._numbers[question]]
            for question, values in survey._answered.items()
        ],
    }
    arrays = {name: getattr(survey._particles, name) for name in ARRAYS}
    archive.write(where, header, arrays)


def load(path: str | PathLike[str]) -> Survey:
    """Read a survey; anything wrong with the file is one sentence."""
    where = archive.checked_path(path)
    with archive.reading(where, "survey"):
        return _survey(*archive.read(where, forms=(FORMAT,)))


def _survey(header: dict[str, Any], arrays: dict[str, Any]) -> Survey:
    survey = Survey.__new__(Survey)
    queries = [*header["families"], *(Query.from_dict(plain) for plain in header["fixed"])]
    survey._set_up(
        population_from_spec(header["population"]),
        guarantee_from_dict(header["guarantee"]),
        queries,
        header["score"],
        header["n_particles"],
        None if header["seed"] is None else integer(header["seed"], "seed", minimum=0),
    )
    for name in COUNTS:
        setattr(survey, name, integer(header[name], name, minimum=0))
    survey.log_evidence = _number(header["log_evidence"])
    survey._acceptance = float("nan") if header["acceptance"] is None else _number(header["acceptance"], 0.0, 1.0)
    survey._sessions = _sessions(header, survey.issued)
    survey._rng = np.random.default_rng()
    survey._rng.bit_generator.state = header["generator"]
    survey._particles = _particles(arrays, survey)
    _read_queries(header, survey)
    survey._begin_design()
    return survey


def _sessions(header: dict[str, Any], issued: int) -> Sessions:
    """The sessions so far, and the one that begins with this load."""
    name = header["name"]
    bytes.fromhex(name)
    if len(name) != NAME_LENGTH:
        raise ValueError("a name of another length")
    begun = [(session, integer(first, "sessions", minimum=0, maximum=issued)) for session, first in header["sessions"]]
    if not all(isinstance(session, str) for session, _ in begun):
        raise ValueError("a session without a name")
    sessions = Sessions(name, begun)
    sessions.begin(issued)
    return sessions


def _read_queries(header: dict[str, Any], survey: Survey) -> None:
    """What was asked, open and answered: every number once, every value one that its question can have."""
    numbers: list[int] = []
    for number, plain in header["open"]:
        numbers.append(integer(number, "open", minimum=0, maximum=survey.issued - 1))
        survey._open[numbers[-1]] = survey.checked(Query.from_dict(plain))
    for plain, values, those in header["answered"]:
        query = survey.checked(Query.from_dict(plain))
        question = question_of(query)
        survey._answered[question] = [Answer(query, value).value for value in values]
        survey._numbers[question] = [integer(one, "answered", minimum=0, maximum=survey.issued - 1) for one in those]
        if len(values) != len(those) or not those:
            raise ValueError("answers without numbers")
        numbers += those
    answered = sum(map(len, survey._answered.values()))
    if answered != survey.answers or len(set(numbers)) != len(numbers):
        raise ValueError("answers that do not add up")


def _particles(arrays: dict[str, Any], survey: Survey) -> Particles:
    found = Particles(**{name: np.asarray(arrays[name], np.float64) for name in ARRAYS})
    shape = (survey.n_particles, survey._target.size)
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
