"""SURVEY.toml: what a survey asks, in words and in numbers, and where it is served.

[survey]    title, question, unit          what people read
            input                          how a number is given: "number" (default) or "slider"
            levels, words                  the names of a categorical population's levels, and the words for them
            [survey.columns.NAME]          of one of several columns: question, unit, levels, words
            population, guarantee          what is believed before the first answer; what every answer keeps
            queries, particles, explore    how it asks and learns; the defaults are good
            close                          "90 % interval of the mean below 2", or nothing
            invited, expiry                only by invitation; seconds for which a query may be answered
[server]    host, port, store, workers     the store is a file beside the spec, or postgresql://...
            url                            the address people use, where a proxy stands before the server
            rate, origins, proxies         requests a minute from one address; whose pages may ask; trusted proxies
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, ValidationError

from noisewise.cli.simulate_online import question_families
from noisewise.cli.spec import Spec
from noisewise.errors import InvalidSpec, NoisewiseError
from noisewise.printable import did_you_mean, printable, shown, toml_text
from noisewise.privacy.guarantee import guarantee_from_spec

if TYPE_CHECKING:
    from noisewise.collector.board import Words
    from noisewise.collector.serving import Listening
    from noisewise.collector.store import Store
    from noisewise.online.survey import Survey
    from noisewise.online.survey_law import Part

__all__ = ["SurveySpec", "template"]

STORE_SUFFIX = ".survey"
YES_NO = {"0": "no", "1": "yes"}  # how people read a column of 0 and 1, where the spec has no words of its own
Read = TypeVar("Read")
Section = TypeVar("Section", bound=BaseModel)


class ColumnSection(BaseModel):
    """[survey.columns.NAME], as it is written."""

    model_config = ConfigDict(extra="forbid")
    question: StrictStr = ""
    unit: StrictStr = ""
    levels: list[StrictStr | StrictInt] | None = None
    words: dict[str, StrictStr] = {}


class SurveySection(BaseModel):
    """[survey], as it is written."""

    model_config = ConfigDict(extra="forbid")
    title: StrictStr
    question: StrictStr
    unit: StrictStr = ""
    guarantee: Any
    population: StrictStr
    queries: Any = "auto"
    particles: StrictInt = Field(default=1000, ge=10, le=1_000_000)
    explore: Any = None
    close: StrictStr | None = None
    invited: StrictBool = False
    expiry: StrictInt = 86_400
    input: StrictStr = "number"
    levels: list[StrictStr | StrictInt] | None = None
    words: dict[str, StrictStr] = {}
    columns: dict[str, ColumnSection] = {}

    @property
    def level_names(self) -> list[str | int] | dict[str, list[str | int]] | None:
        """The names of levels, as a `Survey` takes them."""
        if self.levels is not None:
            return self.levels
        return {name: own.levels for name, own in self.columns.items() if own.levels is not None} or None


class ServerSection(BaseModel):
    """[server], as it is written."""

    model_config = ConfigDict(extra="forbid")
    host: StrictStr = "127.0.0.1"
    port: StrictInt = Field(default=8000, ge=0, le=65_535)
    store: StrictStr | None = None
    workers: StrictInt = Field(default=2, ge=1, le=64)
    url: StrictStr | None = None
    rate: StrictInt = Field(default=120, ge=1, le=10_000_000)
    origins: list[StrictStr] | None = None
    proxies: list[StrictStr] = []


@dataclass(frozen=True, slots=True)
class SurveySpec:
    """A survey's spec, read and checked."""

    path: Path
    survey: SurveySection
    server: ServerSection

    @classmethod
    def read(cls, path: Path) -> SurveySpec:
        sections = Spec.read(path).sections
        if "survey" not in sections:
            raise InvalidSpec(
                f"{path} needs a section [survey]; `noisewise survey new {printable(path)}` writes one to begin with.",
                where="survey",
            )
        return cls(
            path,
            _section(path, "survey", SurveySection, sections["survey"]),
            _section(path, "server", ServerSection, sections.get("server", {})),
        )

    @property
    def where(self) -> str:
        """The store: its URL, or a file beside the spec."""
        given = self.server.store
        if given is not None and "://" in given:
            return given
        return str(self.path.parent / (given or f"{self.path.stem}{STORE_SUFFIX}"))

    @property
    def url(self) -> str:
        """The address that people use."""
        return (self.server.url or f"http://{self.server.host}:{self.server.port}").rstrip("/")

    def words(self) -> Words:
        """What people read."""
        from noisewise.collector.board import ColumnWords, Words
        from noisewise.online.stopping import Stop

        s = self.survey
        yes_no = {name: YES_NO for name, part in self.new_survey()._engine.law.parts.items() if is_yes_no(part)}
        columns = {
            name: ColumnWords(own.question, own.unit, own.words or yes_no.get(name, {}))
            for name, own in s.columns.items()
        }
        columns |= {name: ColumnWords(levels=YES_NO) for name in yes_no if name is not None and name not in columns}
        if s.close is not None:
            self._within("survey", lambda: Stop.read(str(s.close)))
        return self._within(
            "survey",
            lambda: Words(
                title=s.title,
                question=s.question,
                unit=s.unit,
                close=s.close,
                invited=s.invited,
                expiry=s.expiry,
                input=s.input,
                levels=s.words or yes_no.get(None, {}),
                columns=columns,
            ),
        )

    def new_survey(self, seed: int | None = None) -> Survey:
        """The survey before its first question; every mistake is named with its place."""
        from noisewise.online.stopping import Stop
        from noisewise.online.survey import Survey
        from noisewise.populations.text import population_from_text

        s = self.survey

        def made() -> Survey:
            guarantee = guarantee_from_spec(s.guarantee)
            options = {} if s.explore is None else {"explore": s.explore}
            population: Any = population_from_text(s.population)
            survey = Survey(
                population,
                guarantee=guarantee,
                queries=question_families(s.queries, guarantee),
                n_particles=s.particles,
                seed=seed,
                levels=s.level_names,
                **options,
            )
            _check_named(s, survey)
            if s.close is not None:
                Stop.read(s.close).check(survey._engine)
            return survey

        return self._within("survey", made)

    def listening(self) -> Listening:
        """Where and how the server listens."""
        from noisewise.collector.serving import Listening
        from noisewise.collector.web import ServerSettings

        s = self.server
        origins = None if s.origins is None else tuple(s.origins)
        return Listening(s.host, s.port, s.workers, ServerSettings(s.rate, origins, tuple(s.proxies)))

    def store(self) -> Store:
        """The survey's store, which must be there."""
        from noisewise.collector.store import open_store

        if "://" not in self.where and not Path(self.where).exists():
            raise InvalidSpec(
                f"There is no store {printable(self.where)!r} yet: start the survey with `noisewise survey serve "
                f"{printable(self.path)}`.",
                where="server",
            )
        return open_store(self.where)

    def _within(self, place: str, act: Callable[[], Read]) -> Read:
        try:
            return act()
        except NoisewiseError as error:
            raise InvalidSpec(f"In [{place}] of {self.path}: {error}", where=place) from None


def is_yes_no(part: Part) -> bool:
    """Whether a column is 0 or 1: people read words for both, not "below 0.5" and "0.5 or more"."""
    return part.levels is None and part.honest.population.distribution.name == "bernoulli"


def _check_named(section: SurveySection, survey: Survey) -> None:
    """Refuse words for a column or a level that is not there: nobody would ever read them."""
    parts = survey._engine.law.parts
    for name in section.columns:
        if name not in parts:
            known = [str(column) for column in parts if column is not None]
            there = f"; there are {', '.join(known)}" if known else ": this population has one, which needs no name"
            raise InvalidSpec(
                f"[survey.columns] names {shown(name)}, no column of the population{there}.", where="survey"
            )
    worded = {None: section.words} if None in parts else {name: own.words for name, own in section.columns.items()}
    for column, words in worded.items():
        levels = [str(level) for level in parts[column].levels or (YES_NO if is_yes_no(parts[column]) else ())]
        unknown = [name for name in words if name not in levels]
        if unknown:
            there = f"the levels are {', '.join(levels)}" if levels else "it has no levels"
            raise InvalidSpec(f"words names {shown(unknown[0])}, no level of the population: {there}.", where="survey")


def _section(path: Path, name: str, form: type[Section], given: Mapping[str, object]) -> Section:
    entries = tuple(form.model_fields)
    unknown = sorted(set(given) - set(entries)) if given.__class__ is dict else []
    if unknown:
        raise InvalidSpec(
            f"In [{name}] of {path}: unknown entry {unknown[0]!r}{did_you_mean(unknown[0], entries)}; there are "
            f"{', '.join(entries)}.",
            where=name,
        )
    try:
        return form.model_validate(given)
    except ValidationError as error:
        problem = error.errors()[0]
        entry = ".".join(map(str, problem["loc"])) or name
        raise InvalidSpec(f"In [{name}] of {path}: {entry}: {problem['msg']}.", where=name) from None


def template(given: Mapping[str, str | None]) -> str:
    """A survey's spec to begin with; what is not given is an example to be changed."""
    said = {name: value for name, value in given.items() if value}
    title = said.get("title", "Time to work")
    question = said.get("question", "How long was your way to work today, in minutes?")
    unit = said.get("unit", "minutes")
    population = said.get("population", "normal(mean=norm(40, 30), sd=halfnorm(scale=30))")
    epsilon = said.get("epsilon", "1")
    close = said.get("close", "90 % interval of the mean below 3")
    return f"""# A private survey: every answer gets its noise on the person's own device.
[survey]
title = {toml_text(title)}
question = {toml_text(question)}
unit = {toml_text(unit)}
guarantee = {{ epsilon = {toml_text(epsilon)} }}        # what every single answer keeps
population = {toml_text(population)}   # what is believed before
close = {toml_text(close)}      # when to stop; leave it out to stop by hand
# invited = true                     # only by invitation links (`noisewise survey invite`)

[server]
host = "127.0.0.1"                   # people reach it through a proxy with TLS, see the documentation
port = 8000
workers = 2
# url = "https://survey.example.org" # the address that people use
# store = "postgresql://..."         # default: a file beside this one
"""
