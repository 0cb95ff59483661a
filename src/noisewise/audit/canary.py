"""Canaries: does anything that leaves the holder's wing carry a number that must not?

A secret number (a record, a smooth-sensitivity scale) is searched for in bytes, printed forms, logs and tracebacks in
every form a program would plausibly write it: plain and scientific, 4 to 17 digits, hexadecimal, as a Fraction, in
lattice steps, and as the eight bytes of a double in either order. A form of fewer than four significant digits would
be found by accident and is not looked for; a secret to search for should be 60 or more, so that no clock shows it.
"""

from __future__ import annotations

import io
import logging
import struct
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from fractions import Fraction

FEWEST_DIGITS = 4


def forms(number: float) -> frozenset[bytes]:
    """The ways a program would write a number, as bytes."""
    texts = {repr(number), str(abs(number)), str(Fraction(number))}
    for digits in range(1, 18):
        texts |= {f"{number:.{digits}g}", f"{number:.{digits}e}", f"{number:.{digits}f}"}
    if float(number).is_integer():
        texts |= {str(int(number)), hex(int(number))}
    long = {text for text in texts if sum(c.isdigit() for c in text.split("e")[0].strip("0.-")) >= FEWEST_DIGITS}
    long.add(float(number).hex())
    doubles = {struct.pack("<d", number), struct.pack(">d", number)}
    return frozenset({text.encode() for text in long} | doubles)


def leaks(secrets: Iterable[float | str], *outputs: bytes | str) -> list[str]:
    """The secrets, in the form found, that any output carries. Empty is good."""
    found = []
    data = [output if isinstance(output, bytes) else output.encode("utf-8", "replace") for output in outputs]
    for secret in secrets:
        wanted = {secret.encode()} if isinstance(secret, str) else forms(secret)
        found += [form.decode("latin-1") for form in sorted(wanted) if any(form in text for text in data)]
    return found


def whole_story(error: BaseException) -> str:
    """An error with its traceback, causes, contexts, notes and fields: everything a log could hold."""
    story = "".join(traceback.TracebackException.from_exception(error, capture_locals=False).format(chain=True))
    suppressed, seen = [error.__context__, error.__cause__], []
    while suppressed:
        inner = suppressed.pop()
        if inner is not None and inner not in seen:
            seen.append(inner)
            suppressed += [inner.__context__, inner.__cause__]
    return "\n".join([story, repr(error), repr(getattr(error, "fields", {})), *map(repr, seen)])


@contextmanager
def everything_said() -> Iterator[io.StringIO]:
    """Collect all that is printed or logged, at every level, while the block runs."""
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with redirect_stdout(said), redirect_stderr(said):
            yield said
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
