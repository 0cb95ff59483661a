"""Spec files: one TOML grammar for every command.

[schema]            n or n_max, neighbours, outside, missing, and [schema.columns] with bounds or levels
[table]             order or key, where parts are used
[ledger]            limit, for a ledger that does not exist yet
[release]           statistic, guarantee, and optionally mechanism, weights, part
[[release]]         the same entries and a name, for several releases of the same records
[[candidates]]      the same entries, each an alternative to choose from
[population]        what the analyst believes: a population for each column, as text
[survey]            people asked one by one: guarantee, n, and how (`noisewise simulate-online`)
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from noisewise.cli.naming import NamedPlan, chosen, section_names
from noisewise.errors import InvalidSpec, NoisewiseError
from noisewise.files import check_depth, read_file
from noisewise.planning import Plan, plan
from noisewise.printable import printable
from noisewise.privacy.guarantee import Guarantee, guarantee_from_spec
from noisewise.schema import Schema, schema_from_dict
from noisewise.statistics import statistic

Read = TypeVar("Read")
LARGEST_FILE = 2**20
LONGEST_INTEGER = 4000  # bits
DOTTED_KEY = re.compile(r"""(?<![\w-])(?:(?>[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*+\.[ \t]*+){32}""")
SECTIONS = ("schema", "table", "ledger", "release", "candidates", "population", "survey")


@dataclass(frozen=True, slots=True)
class Spec:
    """A spec file, read and checked as far as it has no meaning of its own yet."""

    path: Path
    sections: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> Spec:
        def refuse(sentence: str) -> InvalidSpec:
            return InvalidSpec(sentence, where=printable(path))

        data = read_file(path, largest=LARGEST_FILE, refuse=refuse)
        try:
            sections = _toml(data.decode("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise refuse(f"{path} is not valid TOML: {printable(error)}.") from None
        except (ValueError, RecursionError):  # a number of thousands of digits, or brackets in brackets without end
            raise refuse(f"{path} is not valid TOML: it is nested too deep or a number is too long.") from None
        unknown = set(sections) - set(SECTIONS)
        if unknown:
            raise InvalidSpec(f"{path} has an unknown section [{sorted(unknown)[0]}]; there are {', '.join(SECTIONS)}.",
                              where=str(path))  # fmt: skip
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
        for number, (name, entry) in enumerate(zip(section_names(self.path, entries), entries, strict=True), 1):
            plain = {key: value for key, value in entry.items() if key != "name"}
            place = f"[[release]] {number if name is None else repr(name)}"
            named.append(NamedPlan(name, self._within(place, partial(_plan, plain, self.schema()))))
        return chosen(self.path, named, only)

    def candidates(self) -> tuple[Plan, ...]:
        """The plans of [[candidates]]; none where there are none."""
        return self._listed("candidates") if "candidates" in self.sections else ()

    def population(self) -> Any:
        """The population of [population]."""
        from noisewise.populations.text import population_from_spec

        return self._within("[population]", lambda: population_from_spec(self._section("population")))

    def check_population(self) -> None:
        """Refuse a [population], where there is one, that `infer` would refuse after the release was paid for."""
        if "population" not in self.sections:
            return
        population, schema = self.population(), self.schema()
        from noisewise.populations.cleaned import attach

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
            raise InvalidSpec(f"{self.path} needs a section [{name}].", where=name)
        return section

    def _within(self, place: str, act: Callable[[], Read]) -> Read:
        try:
            return act()
        except NoisewiseError as error:
            if isinstance(error, InvalidSpec) and str(error).startswith(("In [", str(self.path))):
                raise  # it names its place already
            raise InvalidSpec(f"In {place} of {self.path}: {error}", where=place.strip("[]")) from None


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
    unknown = set(section) - {"statistic", "guarantee", "mechanism", "weights", "part"}
    if unknown or not {"statistic", "guarantee"} <= set(section):
        wrong = f"unknown entry {sorted(unknown)[0]!r}" if unknown else "statistic and guarantee are needed"
        raise InvalidSpec(f"{wrong}.", where="release")
    part = section.get("part")
    return plan(
        statistic(section["statistic"]),
        schema,
        guarantee=guarantee_from_spec(section["guarantee"]),
        mechanism=section.get("mechanism"),
        weights=section.get("weights"),
        part=part,
    )
