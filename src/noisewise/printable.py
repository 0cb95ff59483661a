"""Text of others, made fit to print: the one place that does it.

A release, a posterior or a survey from a stranger may name a column so that the name moves the cursor, recolours the
terminal, turns the reading direction round or begins a line of its own. Whatever Unicode does not call printable
(control and format characters, line separators, lone surrogates, private use, unassigned) is shown as its escape,
`\\x1b` or `\\u202e`; everything else stays as it is, so honest names in any script look as they are written.

    printable(text)           one line: line ends are escaped, too
    printable_lines(text)     our own paragraphs around such text: line ends stay
    shown(value)              a short repr of anything, a number of a million digits included
"""

from __future__ import annotations

__all__ = ["printable", "printable_lines", "shown"]


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


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
