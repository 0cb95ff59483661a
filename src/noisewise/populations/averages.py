"""What a bank of simulated records says, batch by batch, and how much of it is remembered.

A question (the moments of some features, the shares of cells) is answered by each of eight independent batches:
    records k    how many were inside the bounds
    mean k       of d numbers
    scatter k    the sum of products about that mean, where covariances are asked for
and read from all batches together, or from all but one. A posterior asks the same of many theta, and again of some of
them, so answers are remembered; the least used are forgotten first once the numbers kept would fill 128 MB. Threads
may share a memory.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

import numpy as np

from noisewise.types import Floats

__all__ = ["N_BATCHES", "Averages", "BankMoments", "Memory"]

N_BATCHES = 8
MOST_NUMBERS = 2**24  # that are remembered, of 8 bytes each
EACH = 128  # numbers' worth of a question and of its arrays themselves


class BankMoments(NamedTuple):
    """What a bank says of the features of a record."""

    records: float  # that were inside the bounds
    mean: Floats  # (d,)
    covariance: Floats  # (d, d); empty where only means were asked for


class Averages(NamedTuple):
    """The same by batches: how many records, their means, and their scatters about those."""

    records: Floats  # (8,)
    mean: Floats  # (8, d)
    scatter: Floats  # (8, d, d), or (8, 0, 0) where only means were asked for

    def pooled(self, left_out: int | None) -> BankMoments:
        """Of all batches together, but one that may be left out."""
        kept = np.arange(N_BATCHES) != (-1 if left_out is None else left_out)
        count, scatter = self.records[kept], self.scatter[kept].sum(axis=0)
        total = float(count.sum())
        if total == 0:
            return BankMoments(0.0, np.full(self.mean.shape[1], np.nan), np.full(scatter.shape, np.nan))
        mean = count @ self.mean[kept] / total
        away = self.mean[kept] - mean
        between = (count[:, None] * away).T @ away if scatter.size else scatter
        return BankMoments(total, mean, (scatter + between) / total)

    @property
    def numbers(self) -> int:
        """How many numbers it takes to remember this."""
        return EACH + sum(array.size for array in self)


class Memory:
    """Answers by question and theta, at most `most` numbers of them, the least used forgotten first."""

    def __init__(self, most: int = MOST_NUMBERS) -> None:
        self.most = most
        self.numbers = 0
        self._kept: OrderedDict[tuple[object, ...], Averages] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def __reduce__(self) -> tuple[object, tuple[int]]:
        """A copy for another process remembers nothing yet."""
        return type(self), (self.most,)

    def get(self, question: tuple[object, ...]) -> Averages | None:
        with self._lock:
            found = self._kept.get(question)
            if found is not None:
                self._kept.move_to_end(question)
            return found

    def keep(self, question: tuple[object, ...], answer: Averages) -> None:
        with self._lock:
            before = self._kept.pop(question, None)
            self._kept[question] = answer
            self.numbers += answer.numbers - (0 if before is None else before.numbers)
            while self.numbers > self.most:
                self.numbers -= self._kept.popitem(last=False)[1].numbers
