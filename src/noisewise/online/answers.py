"""All answers so far, by question: a value that many states share, one more answer at a constant price.

    answers = Answers()
    later   = answers.and_one(question, value)       `answers` is what it was
    later[question]                                  the values in order of arrival

A state must not change when another follows it, and a copy for each of n answers costs n^2. So states share one book,
in which nothing is ever changed or taken out, and each knows how many entries of it are its own:
    entry k of the book belongs to every `Answers` that counts more than k.
Whoever is last writes on; whoever is not (a second continuation of the same state) begins a book of its own with a copy
of its entries. Any number of threads may read and write.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, overload

from noisewise.online.asked import Question

__all__ = ["Answers"]


class Entries(NamedTuple):
    """The answers to one question: their places in the book, rising, and their values."""

    places: list[int]
    values: list[int]


class Book:
    """What was written, by question, questions in the order in which they were first answered."""

    __slots__ = ("entries", "firsts", "length", "lock", "questions")

    def __init__(self) -> None:
        self.entries: dict[Question, Entries] = {}
        self.questions: list[Question] = []
        self.firsts: list[int] = []  # the place of the first answer to each question
        self.length = 0
        self.lock = threading.Lock()

    def write(self, question: Question, value: int) -> None:
        """One entry more, whose place is the book's length."""
        own = self.entries.get(question)
        if own is None:
            own = self.entries[question] = Entries([], [])
            self.questions.append(question)
            self.firsts.append(self.length)
        own.values.append(value)
        own.places.append(self.length)  # after the value: a reader goes by the places
        self.length += 1


class Answers(Mapping[Question, tuple[int, ...]]):
    """The first `count` entries of a book, by question, in order of arrival."""

    __slots__ = ("_book", "count")

    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, book: Book, count: int) -> None: ...
    def __init__(self, book: Book | None = None, count: int = 0) -> None:
        self._book, self.count = Book() if book is None else book, count

    @classmethod
    def of(cls, answers: Iterable[tuple[Question, int]]) -> Answers:
        """From answers with their questions, in order."""
        book = Book()
        for question, value in answers:
            book.write(question, value)
        return cls(book, book.length)

    def and_one(self, question: Question, value: int) -> Answers:
        """These, and one more."""
        book = self._book
        with book.lock:
            if book.length == self.count:
                book.write(question, value)
                return Answers(book, self.count + 1)
        return Answers.of(self.in_order()).and_one(question, value)

    def in_order(self) -> list[tuple[Question, int]]:
        """Every answer with its question, in order of arrival."""
        found = []
        for question in self:
            own = self._book.entries[question]
            found += [(place, question, value) for place, value in zip(own.places, own.values, strict=False)]
        found.sort(key=lambda entry: entry[0])
        return [(question, value) for _, question, value in found[: self.count]]

    def __getitem__(self, question: Question) -> tuple[int, ...]:
        own = self._book.entries[question]
        known = bisect_left(own.places, self.count)
        if not known:
            raise KeyError(question)
        return tuple(own.values[:known])

    def __iter__(self) -> Iterator[Question]:
        return iter(self._book.questions[: len(self)])

    def __len__(self) -> int:
        """How many different questions were answered."""
        return bisect_left(self._book.firsts, self.count)
