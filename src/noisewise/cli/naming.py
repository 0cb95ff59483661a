"""The names of releases: [[release]] may stand several times in a spec, each with name = "...".

A name becomes a file, NAME.release.json, so it is made of letters, digits, - _ and . and two names differ in more than
capital letters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from noisewise.errors import InvalidSpec
from noisewise.planning import Plan
from noisewise.printable import did_you_mean, shown

__all__ = ["NamedPlan", "chosen", "file_of", "section_names"]

ENTRIES = ("name", "statistic", "guarantee", "mechanism", "weights", "part")
LONGEST_NAME = 100
VALID_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class NamedPlan:
    """A plan of a spec, and its name; None where the spec has one [release] without a name."""

    name: str | None
    plan: Plan


def section_names(path: Path, entries: Sequence[Mapping[str, object]]) -> list[str | None]:
    """The names of all [[release]] sections, None for those without; refused where they are no names, or not one's own.

    What is misspelt in a section is said here, where its number is known.
    """
    names: list[str | None] = []
    for number, entry in enumerate(entries, 1):
        where = f"In [[release]] {number} of {path}"
        for key in sorted(set(entry) - set(ENTRIES)):
            raise InvalidSpec(
                f"{where}: unknown entry {shown(key)}{did_you_mean(key, ENTRIES)}; there are {', '.join(ENTRIES)}.",
                where="release",
            )
        names.append(_name(entry["name"], where) if "name" in entry else None)
    known: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        before = known.setdefault((name or f"/{number}").casefold(), number)
        if before != number:
            raise InvalidSpec(
                f"In {path} [[release]] {before} and {number} are both called {name!r} (capital letters do not count: "
                "names become files). Give each a name of its own.",
                where="name",
            )
    return names


def chosen(path: Path, releases: Sequence[NamedPlan], only: str | None) -> tuple[NamedPlan, ...]:
    """The release of that name; all of them without one."""
    if only is None:
        return tuple(releases)
    names = [one.name for one in releases if one.name is not None]
    if not names:
        raise InvalidSpec(
            f'--only {shown(only)} chooses a [[release]] by its name = "...", and {path} names none. Leave --only out, '
            "or write [[release]] with a name.",
            where="--only",
        )
    if only not in names:
        raise InvalidSpec(
            f"--only {shown(only)}: {path} has no [[release]] of that name{did_you_mean(only, names)}; there are "
            f"{', '.join(names)}.",
            where="--only",
        )
    return tuple(one for one in releases if one.name == only)


def file_of(name: str) -> str:
    """The file that a release of this name is written to."""
    return f"{name}.release.json"


def _name(name: object, where: str) -> str:
    if isinstance(name, str) and VALID_NAME.fullmatch(name) and len(name) <= LONGEST_NAME:
        return name
    raise InvalidSpec(
        f"{where}: name = {shown(name)} cannot be a file's: expected letters, digits, - _ and . in quotes, a letter or "
        f'digit first, at most {LONGEST_NAME} of them, as in name = "mean-income".',
        where="name",
    )
