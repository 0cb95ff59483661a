"""The ids of a survey's queries: who asked, in which session, and how many had been asked before.

    name-number              asked by a survey since it was made
    name-session-number      asked since it was last loaded
The name is made of the seed and of everything that makes the survey, so that two different surveys never take each
other's answers. Every load begins a session with a name of the system's choice: a survey that stopped without being
saved has asked people whom its file does not know, and the next one to continue from that file must not give their ids
to others. Numbers go on from session to session, and with them everything that depends on numbers alone. So an id with
this name that is not known here may have been given by another session, and only one that could not is called foreign.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from itertools import pairwise

from noisewise.errors import InvalidArgument
from noisewise.printable import shown

__all__ = ["Sessions"]


class Sessions:
    """Writes the ids of one survey, and reads them back as numbers."""

    __slots__ = ("begun", "name")

    def __init__(self, name: str, begun: Iterable[tuple[str, int]] = (("", 0),)) -> None:
        self.name, self.begun = name, list(begun)  # (session, its first number), in order
        if not self.begun or self.begun[0][1] != 0 or any(a[1] > b[1] for a, b in pairwise(self.begun)):
            raise ValueError("sessions out of order")

    def begin(self, number: int) -> None:
        """A new session, whose first query has that number; one that asked nothing is forgotten."""
        self.begun = [(session, first) for session, first in self.begun if first < number]
        self.begun.append((uuid.uuid4().hex[:8], number))

    def label(self, number: int) -> str:
        """The id of the query with this number, which may be the next to be asked."""
        session = next(session for session, first in reversed(self.begun) if first <= number)
        return self._written(session, number)

    def number(self, label: str | None, issued: int) -> int:
        """The number of the query with this id, of those issued so far; else a sentence that is true."""
        session, _, text = f"{label}".removeprefix(f"{self.name}-").rpartition("-")
        ends = [first for _, first in self.begun[1:]] + [issued]
        ranges = {session: (first, end) for (session, first), end in zip(self.begun, ends, strict=True)}
        is_ours = text.isascii() and text.isdecimal() and len(text) < 20 and label == self._written(session, int(text))
        first, end = ranges.get(session, (0, 0))
        if is_ours and first <= int(text) < end:
            return int(text)
        if is_ours and int(text) >= first:
            raise InvalidArgument(
                f"The query {shown(label)} bears the name of this survey, but it is not known here: it was asked after "
                "what you loaded was last saved, or by another copy of this survey, or by nobody. Nothing was learnt. "
                "Save before you send, and let one copy ask.",
                argument="query",
            )
        raise InvalidArgument(
            f"The query {shown(label)} was not asked by this survey. Nothing was learnt.", argument="query"
        )

    def _written(self, session: str, number: int) -> str:
        return f"{self.name}-{session}-{number}" if session else f"{self.name}-{number}"
