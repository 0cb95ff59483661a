"""A setting of a study: a number, a word or a list of them, with a default and a value at the paper's scale.

On the command line a setting is text: `--set epsilon=5`, lists by commas (`--set theta=0.5,1,2`), `null` for "not
given". Text and Python values pass the same checks, so what a study reads is always of its declared kind.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from noisewise.errors import InvalidArgument

WORDS = {float: "a number", int: "a whole number", str: "a word"}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. A default that is a tuple makes it a list; a default of None, or of an empty list, allows null."""

    kind: type[float] | type[int] | type[str]
    default: Any
    about: str
    full: Any = ...  # the value under --full; the default if not given
    above: float | None = None
    at_least: float | None = None
    choices: tuple[str, ...] = ()
    may_be_infinite: bool = False  # `inf` is a value, as for an epsilon that means no privacy

    @property
    def is_list(self) -> bool:
        return isinstance(self.default, tuple)

    @property
    def may_be_null(self) -> bool:
        return self.default is None or self.default == ()

    @property
    def at_full_scale(self) -> Any:
        return self.default if self.full is ... else self.full

    @property
    def wanted(self) -> str:
        """What may be given, in words."""
        if self.choices:
            one = " or ".join(self.choices)
        else:
            limit = f" above {self.above:g}" if self.above is not None else ""
            limit += f" of at least {self.at_least:g}" if self.at_least is not None else ""
            one = WORDS[self.kind] + limit + (" (or inf)" if self.may_be_infinite else "")
        many = f"{one}, or several with commas between them" if self.is_list else one
        return f"{many}, or null" if self.may_be_null else many

    def read(self, given: object, name: str) -> Any:
        """The value of what was given as text or as a Python value; refused by name if it is not wanted."""
        try:
            if self.may_be_null and (given is None or (isinstance(given, str | tuple) and given in ("null", ()))):
                return self.default
            if not self.is_list:
                return self._one(given)
            several = given.split(",") if isinstance(given, str) else given
            values = tuple(map(self._one, several if isinstance(several, Iterable) else [several]))
            if values:
                return values
        except (ValueError, TypeError, OverflowError):
            pass
        raise InvalidArgument(f"{name} = {given!r:.60}: expected {self.wanted}.", argument=name)

    def _one(self, given: object) -> Any:
        if isinstance(given, bool):
            raise ValueError
        if self.kind is str:
            word = str(given).strip()
            if self.choices and word not in self.choices:
                raise ValueError
            return word
        number = float(given.strip() if isinstance(given, str) else given)  # type: ignore[arg-type]
        if not math.isfinite(number) and not (self.may_be_infinite and number == math.inf):
            raise ValueError
        if self.above is not None and not number > self.above:
            raise ValueError
        if self.at_least is not None and not number >= self.at_least:
            raise ValueError
        if self.kind is int:
            if number != int(number):
                raise ValueError
            return int(number)
        return number


def read_settings(settings: Mapping[str, Setting], given: Mapping[str, object], *, full: bool) -> dict[str, Any]:
    """The value of every setting: as given, else its default (or its value at full scale)."""
    unknown = [name for name in given if name not in settings]
    if unknown:
        raise InvalidArgument(
            f"{unknown[0]!r:.60} is not a setting of this study. {describe(settings)}", argument=str(unknown[0])
        )
    values = {}
    for name, setting in settings.items():
        start = setting.at_full_scale if full else setting.default
        values[name] = setting.read(given[name], name) if name in given else start
    return values


def describe(settings: Mapping[str, Setting]) -> str:
    """The settings and their defaults in one sentence."""
    return "Its settings are " + ", ".join(f"{name} ({shown(s.default)})" for name, s in settings.items()) + "."


def shown(value: Any) -> str:
    """A value as it would be typed."""
    if value is None or value == ():
        return "null"
    if isinstance(value, tuple | list):
        return ",".join(map(shown, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def parse_assignments(texts: Iterable[str]) -> dict[str, str]:
    """`key=value` texts as a dictionary; a key given twice is refused."""
    given: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise InvalidArgument(f"--set {text!r:.60}: expected key=value, as in --set epsilon=5.", argument="set")
        if name in given:
            raise InvalidArgument(f"--set {name}: given twice.", argument=name)
        given[name] = value.strip()
    return given
