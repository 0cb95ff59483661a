"""Text of others, made fit to print: the one place that does it.

A release, a posterior or a survey from a stranger may name a column so that the name moves the cursor, recolours the
terminal, turns the reading direction round or begins a line of its own. Whatever Unicode does not call printable
(control and format characters, line separators, lone surrogates, private use, unassigned) is shown as its escape,
`\\x1b` or `\\u202e`; everything else stays as it is, so honest names in any script look as they are written.

    printable(text)           one line: line ends are escaped, too
    printable_lines(text)     our own paragraphs around such text: line ends stay
    shown(value)              a short repr of anything, a number of a million digits included
    did_you_mean(word, known) what a misspelt word was meant to be, as the end of a sentence
    toml_key(name)            a name as it stands before = in a spec file: CO(GT) needs quotes there
    toml_text(text)           a text as it stands after =
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

__all__ = ["did_you_mean", "printable", "printable_lines", "shown", "toml_key", "toml_text"]

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
LONGEST_WORD, MOST_WORDS = 80, 1000  # that are compared: the cost is their product


def printable(text: object) -> str:
    """The text on one line, with an escape in place of every character that is not printable."""
    plain = str(text)
    return plain if plain.isprintable() else "".join(_escaped(character) for character in plain)


def printable_lines(text: object) -> str:
    """The same line by line; only the line feed is kept."""
    return "\n".join(printable(line) for line in str(text).split("\n"))


def shown(value: object, longest: int = 60) -> str:
    """What a refusal says it was given: a repr of at most `longest` characters."""
    try:
        text = printable(repr(value))
    except (ValueError, RecursionError, MemoryError):  # Python writes no integer of more than 4300 digits
        return "a number too long to show" if isinstance(value, int) else f"a {type(value).__name__}"
    return text if len(text) <= longest else text[: longest - 3] + "..."


def did_you_mean(word: object, known: Iterable[object]) -> str:
    """` (did you mean 'income'?)` where one of the known words is near, else nothing."""
    plain = str(word)[:LONGEST_WORD]
    words = {str(one)[:LONGEST_WORD].casefold(): str(one) for one in islice(known, MOST_WORDS)}
    near = get_close_matches(plain.casefold(), words, n=1, cutoff=0.7)
    return f" (did you mean {printable(words[near[0]])!r}?)" if near else ""


def toml_key(name: object) -> str:
    """A name as a key of TOML: bare where that is allowed, else in quotes."""
    plain = str(name)
    return plain if BARE_KEY.fullmatch(plain) else toml_text(plain)


def toml_text(text: object) -> str:
    """A text in TOML's quotes, with its escapes; it stays on one line."""
    return '"' + "".join(_toml_escaped(character) for character in str(text)) + '"'


def _toml_escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
