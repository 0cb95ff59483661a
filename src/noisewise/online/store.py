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
from noisewise.inference import archive
from noisewise.online.asked import question_of
from noisewise.online.particles import Particles
from noisewise.online.survey import Survey
from noisewise.populations.text import population_from_spec, population_to_spec
from noisewise.privacy.guarantee import guarantee_from_dict
from noisewise.query import Query

__all__ = ["FORMAT", "load", "save"]

FORMAT = "noisewise-survey/1"
PLAIN = ("name", "seed", "score", "n_particles", "log_evidence", "issued", "answers", "rejuvenations", "refused",
         "repeated", "non_finite")  # fmt: skip
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
        "open": [[number, query.to_dict()] for number, query in survey._open.items()],
        "answered": [[question.query().to_dict(), values] for question, values in survey._answered.items()],
    }
    arrays = {name: getattr(survey._particles, name) for name in ARRAYS}
    archive.write(where, header, arrays)


def load(path: str | PathLike[str]) -> Survey:
    """Read a survey; anything wrong with the file is one sentence."""
    where = archive.checked_path(path)
    with archive.reading(where, "survey"):
        return _survey(*archive.read(where, form=FORMAT))


def _survey(header: dict[str, Any], arrays: dict[str, Any]) -> Survey:
    survey = Survey.__new__(Survey)
    queries = [*header["families"], *(Query.from_dict(plain) for plain in header["fixed"])]
    survey._set_up(
        population_from_spec(header["population"]),
        guarantee_from_dict(header["guarantee"]),
        queries,
        header["score"],
        header["n_particles"],
        header["seed"],
    )
    for name in PLAIN:
        setattr(survey, name, header[name])
    survey._acceptance = float("nan") if header["acceptance"] is None else float(header["acceptance"])
    survey._rng = np.random.default_rng()
    survey._rng.bit_generator.state = header["generator"]
    survey._particles = _particles(arrays, survey)
    survey._open = {int(number): Query.from_dict(plain) for number, plain in header["open"]}
    survey._answered = {}
    for plain, values in header["answered"]:
        survey._answered[question_of(Query.from_dict(plain))] = [int(value) for value in values]
    survey._begin_design()
    return survey


def _particles(arrays: dict[str, Any], survey: Survey) -> Particles:
    found = Particles(**{name: arrays[name] for name in ARRAYS})
    shape = (survey.n_particles, survey._target.size)
    if found.position.shape != shape or any(getattr(found, name).shape != shape[:1] for name in ARRAYS[1:]):
        raise ValueError("particles of another shape")
    return found
