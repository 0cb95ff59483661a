"""Spec files: one TOML grammar for every command.

[schema]            n or n_max, neighbours, outside, missing, and [schema.columns] with bounds or levels
[table]             order or key, where parts are used
[data]              how the file writes its fields, and clamp_at_most
[ledger]            limit, for a ledger that does not exist yet
[release]           statistic, guarantee, and optionally mechanism, weights, part
[[release]]         the same entries and a name, for several releases of the same records
[[candidates]]      the same entries, each an alternative to choose from
[population]        what the analyst believes: a population for each column, as text
[survey]            people asked one by one: guarantee, n, and how (`noisewise simulate-online`, `noisewise survey`)
[server]            where a survey is served (`noisewise survey`)
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from noisewise.cli.kinds import SPEC, check_kind
from noisewise.cli.naming import NamedPlan, chosen, section_names
from noisewise.cli.wording import in_toml
from noisewise.errors import InvalidSpec, NoisewiseError
from noisewise.files import check_depth, read_file
from noisewise.planning import Plan, plan
from noisewise.printable import did_you_mean, printable, shown
from noisewise.privacy.guarantee import Guarantee, guarantee_from_spec
from noisewise.privacy.mechanism import mechanism_names
from noisewise.schema import Schema, schema_from_dict
from noisewise.statistics import statistic
from noisewise.statistics.sensitivity import one_file

Read = TypeVar("Read")
CLAMP_AT_MOST = Fraction(1, 100)
LARGEST_FILE = 2**20
LONGEST_INTEGER = 4000  # bits
DOTTED_KEY = re.compile(r"""(?<![\w-])(?:(?>[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*+\.[ \t]*+){32}""")
_SECTION_EXAMPLES = {
    "schema": ", with n, neighbours and [schema.columns], as in income = { bounds = [0, 250] }",
    "release": ', as in statistic = "mean(income)" and guarantee = { epsilon = "1" }',
    "population": ', as in income = "normal(mean=norm(50, 50), sd=halfnorm(scale=50))"',
}
RELEASE_ENTRIES = ("statistic", "guarantee", "mechanism", "weights", "part")
SECTIONS = ("schema", "table", "data", "ledger", "release", "candidates", "population", "survey", "server")


@dataclass(frozen=True, slots=True)
class DataOptions:
    """What a spec says about its records beside the schema."""

    reader: Mapping[str, object]
    clamp_at_most: Fraction
    order: str | None
    key: str | None


@dataclass(frozen=True, slots=True)
class Spec:
    """A spec file, read and checked as far as it has no meaning of its own yet."""

    path: Path
    sections: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> Spec:
        def refuse(sentence: str) -> InvalidSpec:
            return InvalidSpec(sentence, where=printable(path))

        check_kind(path, SPEC, place="the place of a spec")
        data = read_file(path, largest=LARGEST_FILE, refuse=refuse)
        try:
            sections = _toml(data.decode("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise refuse(f"{path} is not valid TOML: {printable(error)}.") from None
        except (ValueError, RecursionError):  # a number of thousands of digits, or brackets in brackets without end
            raise refuse(f"{path} is not valid TOML: it is nested too deep or a number is too long.") from None
        unknown = set(sections) - set(SECTIONS)
        if unknown:
            first = sorted(unknown)[0]
            raise InvalidSpec(
                f"{path} has an unknown section [{first}]{did_you_mean(first, SECTIONS)}; there are "
                f"{', '.join(SECTIONS)}.",
                where=str(path),
            )
        return cls(path, sections)

    def schema(self) -> Schema:
        return self._within("[schema]", lambda: schema_from_dict(self._section("schema")))

    def plan(self, only: str | None = None) -> Plan:
        """The one plan of [release], or that of the [[release]] with this name."""
        plans = self.plans(only)
        if len(plans) != 1:
            names = [one.name for one in self.releases() if one.name is not None]
            which = f"say which with --only {'|'.join(names)}" if names else 'give each a name = "...", and say --only'
            raise InvalidSpec(
                f"{self.path} lists {len(plans)} releases, and this takes one: {which}. Nothing was spent.",
                where="release",
            )
        return plans[0]

    def plans(self, only: str | None = None) -> tuple[Plan, ...]:
        """The plans of [release], or of every [[release]] (of this name): all of one data set."""
        return tuple(one.plan for one in self.releases(only))

    def releases(self, only: str | None = None) -> tuple[NamedPlan, ...]:
        """The plans with their names; one [release] has none."""
        if not isinstance(self.sections.get("release"), list):
            self._section("release")
            return chosen(self.path, [NamedPlan(None, *self._listed("release"))], only)
        entries = self._entries("release")
        named = []
        with one_file():
            for number, (name, entry) in enumerate(zip(section_names(self.path, entries), entries, strict=True), 1):
                plain = {key: value for key, value in entry.items() if key != "name"}
                place = f"[[release]] {number if name is None else repr(name)}"
                named.append(NamedPlan(name, self._within(place, partial(_plan, plain, self.schema()))))
        return chosen(self.path, named, only)

    def candidates(self) -> tuple[Plan, ...]:
        """The plans of [[candidates]]; none where there are none."""
        return self._listed("candidates") if "candidates" in self.sections else ()

    def population(self, schema: Schema | None = None) -> Any:
        """The population of [population], or of a survey's [survey]; a formula is read under this schema, or the
        spec's own."""
        from noisewise.populations.text import population_from_spec, population_from_text

        if "population" not in self.sections and "survey" in self.sections:
            survey = self._section("survey")
            if "population" in survey:
                return self._within("[survey]", lambda: population_from_text(survey["population"]))
        section = self._section("population")
        if any("formula" in str(text) for text in section.values()):
            from noisewise.regression.formula import written_out

            under = self.schema() if schema is None else schema
            section = self._within("[population]", lambda: written_out(section, under))
        return self._within("[population]", lambda: population_from_spec(section))

    def check_population(self) -> None:
        """Refuse a [population], where there is one, that `infer` would refuse after the release was paid for."""
        if "population" not in self.sections:
            return
        population, schema = self.population(), self.schema()
        from noisewise.populations.cleaned import attach

        for name in self._section("population"):
            hint = "" if name in schema.columns else did_you_mean(name, schema.columns)
            if hint:
                raise InvalidSpec(
                    f"In [population] of {self.path}: {name!r} is no column of [schema.columns]{hint}.",
                    where="population",
                )
        columns = tuple(name for name in self._section("population") if name in schema.columns)
        if columns:
            self._within("[population]", lambda: attach(population, schema, columns))

    def limit(self) -> Guarantee | None:
        """The limit of a new ledger, or None."""
        if "ledger" not in self.sections:
            return None
        section = self._section("ledger")
        if set(section) != {"limit"}:
            raise InvalidSpec('[ledger] needs exactly limit = { epsilon = "2" }.', where="ledger")
        return self._within("[ledger]", lambda: guarantee_from_spec(section["limit"]))

    def table_options(self) -> dict[str, str]:
        """order= or key= for Table.read."""
        section = self.sections.get("table", {})
        if not isinstance(section, Mapping) or set(section) - {"order", "key"}:
            raise InvalidSpec("[table] takes order or key, a column name.", where="table")
        return dict(section)

    def data(self) -> DataOptions:
        """How the file is read, and how much of a column may be clamped, from [data]; order= or key= from [table]."""
        from noisewise.holder.cleaning import checked_share
        from noisewise.holder.reader import Reader

        given = dict(self._section("data")) if "data" in self.sections else {}
        most = self._within("[data]", lambda: checked_share(given.pop("clamp_at_most", CLAMP_AT_MOST)))
        self._within("[data]", lambda: Reader.of(given))
        places = self.table_options()
        return DataOptions(given, most, places.get("order"), places.get("key"))

    def _listed(self, name: str) -> tuple[Plan, ...]:
        entries = self._entries(name)
        if any("name" in entry for entry in entries):
            raise InvalidSpec(
                f"In [{name}] of {self.path}: name = ... belongs to [[release]], in double brackets, which may stand "
                "several times. Leave it out here.",
                where=name,
            )
        return self._within(f"[{name}]", lambda: tuple(_plan(entry, self.schema()) for entry in entries))

    def _entries(self, name: str) -> Sequence[Mapping[str, Any]]:
        entries = self.sections[name] if isinstance(self.sections[name], list) else [self.sections[name]]
        if not entries or not all(isinstance(entry, Mapping) for entry in entries):
            raise InvalidSpec(f"{self.path}: [{name}] needs statistic = ... and guarantee = ... .", where=name)
        return entries

    def _section(self, name: str) -> Mapping[str, Any]:
        section = self.sections.get(name)
        if not isinstance(section, Mapping):
            raise InvalidSpec(f"{self.path} needs a section [{name}]{_SECTION_EXAMPLES.get(name, '')}.", where=name)
        return section

    def _within(self, place: str, act: Callable[[], Read]) -> Read:
        try:
            return act()
        except NoisewiseError as error:
            if isinstance(error, InvalidSpec) and str(error).startswith(("In [", str(self.path))):
                raise  # it names its place already
            raise InvalidSpec(f"In {place} of {self.path}: {in_toml(error)}", where=place.strip("[]")) from None


def _toml(text: str) -> dict[str, Any]:
    """The sections of a TOML text, within limits that Python's own reader does not have."""
    if DOTTED_KEY.search(text):  # its reader takes a time quadratic in the number of words
        raise ValueError("a key of too many words")
    sections = tomllib.loads(text)
    check_depth(sections)
    pending: list[Any] = [sections]
    while pending:
        value = pending.pop()
        if isinstance(value, dict | list):
            pending.extend(value.values() if isinstance(value, dict) else value)
        elif isinstance(value, int) and value.bit_length() > LONGEST_INTEGER:
            raise ValueError("a number that is too long")
    return sections


def _plan(section: Mapping[str, Any], schema: Schema) -> Plan:
    unknown = sorted(set(section) - set(RELEASE_ENTRIES))
    if unknown:
        hint = did_you_mean(unknown[0], RELEASE_ENTRIES)
        raise InvalidSpec(
            f"unknown entry {unknown[0]!r}{hint}; there are {', '.join(RELEASE_ENTRIES)}.", where="release"
        )
    if not {"statistic", "guarantee"} <= set(section):
        raise InvalidSpec(
            'statistic and guarantee are needed, as in statistic = "mean(income)" and guarantee = { epsilon = "1" }.',
            where="release",
        )
    mechanism, known = section.get("mechanism"), mechanism_names()
    if mechanism is not None and mechanism not in known:
        raise InvalidSpec(
            f"mechanism = {shown(mechanism)}{did_you_mean(mechanism, known)}; there are {', '.join(known)}, or leave "
            "it out.",
            where="mechanism",
        )
    part = section.get("part")
    return plan(
        statistic(section["statistic"], schema),
        schema,
        guarantee=guarantee_from_spec(section["guarantee"]),
        mechanism=mechanism,
        weights=section.get("weights"),
        part=part,
    )
