"""Text that people write, as a syntax tree: the one entry to every grammar of ours.

Statistics, features, populations and models are written in a corner of Python's syntax and read by whitelist walkers
that never evaluate anything. Before Python's parser sees a text it is cut into words here, so that its length, the
number of its words, the length of its numbers and the depth of its brackets are bounded, and so that nothing in it
makes the parser warn (a backslash that escapes nothing, a number run into a name) or read a literal that no grammar
of ours has (f'...', b'...').
"""

from __future__ import annotations

import ast
import re

__all__ = ["LONGEST_NUMBER", "MOST_WORDS", "parsed", "words"]

MOST_WORDS = 200_000
LONGEST_NUMBER = 400  # characters
DEEPEST = 100  # brackets inside each other

_ESCAPE = r"""\\(?:[\\'"abfnrtv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"""
_WORD = re.compile(
    rf"""
    (?P<space>   [ \t\r\n\f]+ )
  | (?P<name>    [^\W\d]\w*+ (?!['"]) )
  | (?P<number>  (?> 0[xX][0-9a-fA-F]+ | (?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9_]+)? ) (?!\w) )
  | (?P<text>    '(?:[^'\\\n]|{_ESCAPE})*'  |  "(?:[^"\\\n]|{_ESCAPE})*" )
  | (?P<opening> [(\[{{] )
  | (?P<closing> [)\]}}] )
  | (?P<mark>    [-+*/,:=.<>!%&|^~@] )
    """,
    re.VERBOSE,
)


def parsed(text: str) -> ast.expr:
    """The tree of one expression; ValueError (with the reason), SyntaxError or RecursionError where it is none."""
    words(text)
    try:
        return ast.parse(text.strip(), mode="eval").body
    except MemoryError:
        raise ValueError("it is nested too deep") from None


def words(text: str) -> list[re.Match[str]]:
    """The words of a text, each with its kind (`lastgroup`) and its place, without spaces; ValueError as above."""
    found, place, depth = [], 0, 0
    while place < len(text):
        word = _WORD.match(text, place)
        if word is None:
            raise ValueError("it holds a character or a literal that is not part of the language")
        kind, place = word.lastgroup, word.end()
        if kind == "space":
            continue
        found.append(word)
        if len(found) > MOST_WORDS:
            raise ValueError(f"it has more than {MOST_WORDS} words")
        if kind == "number" and place - word.start() > LONGEST_NUMBER:
            raise ValueError(f"a number is longer than {LONGEST_NUMBER} characters")
        depth += (kind == "opening") - (kind == "closing")
        if depth > DEEPEST:
            raise ValueError(f"more than {DEEPEST} brackets stand inside each other")
    return found
