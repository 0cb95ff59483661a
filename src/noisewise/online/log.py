"""The log of a survey, and what each query has come to: one line for every act, none is ever changed.

    asked       a query has gone out; its question
    answered    its answer has come; the value
    expired     nobody waits for the answer any more; one that comes still counts
    withdrawn   the query is taken back; an answer to it is refused from now on
    closed      the survey asks nobody and takes no answer from now on
A query is asked once, answered at most once, and withdrawn only while it has no answer: what was learnt stays learnt.
The posterior is a function of the answered lines (`engine`); everything else here says who may still be answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from noisewise.errors import SurveyError
from noisewise.online.asked import Question

__all__ = ["KINDS", "Event", "Log"]

ASKED, ANSWERED, EXPIRED, WITHDRAWN, CLOSED = KINDS = ("asked", "answered", "expired", "withdrawn", "closed")


@dataclass(frozen=True, slots=True)
class Event:
    """One line: what happened to the query of this number; a closing is no query's."""

    kind: str
    number: int | None = None
    question: Question | None = None  # of one that was asked
    value: int | None = None  # of one that was answered


class Log:
    """The lines so far, and where every query stands."""

    __slots__ = ("expired", "is_closed", "is_whole", "lines", "open", "questions", "values", "withdrawn")

    def __init__(self, *, is_whole: bool = True) -> None:
        self.is_whole = is_whole  # False where a survey began before logs were kept
        self.lines: list[tuple[str, int | None]] = []
        self.questions: dict[int, Question] = {}
        self.values: dict[int, int] = {}
        self.open: set[int] = set()
        self.expired: set[int] = set()
        self.withdrawn: set[int] = set()
        self.is_closed = False

    def __iter__(self) -> Iterator[Event]:
        for kind, number in self.lines:
            question = self.questions[number] if kind == ASKED and number is not None else None
            value = self.values[number] if kind == ANSWERED and number is not None else None
            yield Event(kind, number, question, value)

    def takes(self, number: int) -> bool:
        """Whether an answer to this query would count."""
        return not self.is_closed and (number in self.open or number in self.expired)

    def append(self, event: Event) -> None:
        """One more line, if it may follow those before it."""
        refusal = self._refusal(event)
        if refusal is not None:
            raise SurveyError(refusal, reason=event.kind)
        number = event.number
        if number is not None:
            self.open.discard(number)
            self.expired.discard(number)
            _ENTER[event.kind](self, number, event)
        else:
            self.is_closed = True
        self.lines.append((event.kind, number))

    def _refusal(self, event: Event) -> str | None:
        if event.kind not in KINDS or (event.number is None) != (event.kind == CLOSED):
            return f"A line of a log is one of {', '.join(KINDS)}, about one query; closing is about none."
        if self.is_closed:
            return f"This survey was closed after {len(self.values)} answers. Nothing was changed."
        number = event.number
        if number is None:
            return None
        if event.kind == ASKED:
            return f"Query {number} was asked before." if number in self.questions else None
        if number not in self.questions:
            return f"Query {number} was not asked by this survey."
        if number in self.values:
            return f"Query {number} was answered, and what was learnt stays learnt. Nothing was changed."
        return f"Query {number} was withdrawn before. Nothing was changed." if number in self.withdrawn else None

    def _enter_asked(self, number: int, event: Event) -> None:
        assert event.question is not None
        self.questions[number] = event.question
        self.open.add(number)

    def _enter_answered(self, number: int, event: Event) -> None:
        assert event.value is not None
        self.values[number] = event.value

    def _enter_expired(self, number: int, event: Event) -> None:
        self.expired.add(number)

    def _enter_withdrawn(self, number: int, event: Event) -> None:
        self.withdrawn.add(number)


_ENTER = {
    ASKED: Log._enter_asked,
    ANSWERED: Log._enter_answered,
    EXPIRED: Log._enter_expired,
    WITHDRAWN: Log._enter_withdrawn,
}
