"""A prior on the number of records, where that is private.

    infer(releases, population, n=stats.poisson(1000))        "about a thousand, give or take thirty"
    infer(releases, population, n=stats.randint(20, 100_001)) "anything from 20 to 100 000"

Under add-remove the number of records n is private. Who knows it states it; who does not gives a law of whole numbers,
a frozen scipy.stats distribution, and n is an unknown beside the parameters. The law must be proper. It is cut to what
is public: at least one record, and no more than n_max.

A part by key hash holds each record of the data set with probability equal to its width, so the number of its records
is, given that of the data set, Binomial(n, width), and the prior of the part's own number is
    p(m) = sum_n p(n) Binomial(m; n, width),
computed on at most 4001 values of n and, where m has more than 1500 values, by a spline of its logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import CubicSpline
from scipy.special import betaln, logsumexp, xlog1py, xlogy

from noisewise.errors import InvalidArgument
from noisewise.exact import integer
from noisewise.populations.parameters import is_prior, offers, scipy_name
from noisewise.populations.written import value_text
from noisewise.types import Array, Floats, Ints

__all__ = [
    "Size",
    "SizeLaw",
    "SizePrior",
    "Sizes",
    "has_size_law",
    "is_size_law",
    "listed_sizes",
    "read_size",
    "sizes_text",
]

FALL = 50.0  # in logarithm: numbers of records less probable than the most probable one by so much are left out
MOST_THINNED, MOST_TABLED = 4001, 1500
LEAST_INSIDE = 0.5  # of the prior must lie between one record and n_max


class SizeLaw(Protocol):
    """A frozen law of whole numbers, as scipy.stats makes it."""

    def logpmf(self, k: ArrayLike) -> Array: ...
    def cdf(self, k: float) -> float: ...
    def median(self) -> float: ...
    def support(self) -> tuple[float, float]: ...
    def rvs(self, size: int, random_state: np.random.Generator) -> Array: ...


Size = int | SizeLaw  # the number of records, as the analyst knows it
Sizes = Size | Sequence[Size] | None  # of every data set, or one entry for each release


def is_size_law(n: object) -> bool:
    """Whether this is a law, or meant as one, and no number."""
    return is_prior(n)


def listed_sizes(n: object) -> list[object] | None:
    """The entries of a list with one for each release; None of anything else."""
    return list(n) if isinstance(n, Sequence) and not isinstance(n, str) else None


def has_size_law(n: object) -> bool:
    """Whether this is a law, or a list that holds one."""
    entries = listed_sizes(n)
    return is_size_law(n) if entries is None else any(map(is_size_law, entries))


def sizes_text(n: object) -> str:
    """What was given for n, as people write it: numbers, and laws by their names."""
    entries = listed_sizes(n)
    if entries is not None:
        return ", ".join(map(sizes_text, entries))
    return value_text(n).removeprefix("stats.") if is_size_law(n) else str(n)


def read_size(n: object, n_max: int) -> tuple[int, SizePrior | None]:
    """A number of records as stated, or the largest that is possible with its prior; refused where it is neither."""
    if is_size_law(n):
        return n_max, SizePrior.of(n, n_max)
    return integer(n, "n", minimum=1, maximum=n_max), None


@dataclass(frozen=True, eq=False)
class SizePrior:
    """The law of the number of records of a data set, or of a part of it, between 1 and n_max."""

    law: SizeLaw
    n_max: int
    width: float = 1.0  # of the part of the data set

    @classmethod
    def of(cls, law: object, n_max: int) -> SizePrior:
        """The prior, checked: proper, of whole numbers, mostly between 1 and n_max."""
        if not offers(law, "logpmf", "cdf", "median", "support", "dist"):
            raise InvalidArgument(
                "The prior of n must be of whole numbers, as in n=stats.poisson(1000), n=stats.nbinom(2, 0.001) or "
                "n=stats.randint(500, 2001).",
                argument="n",
            )
        given = cast("SizeLaw", law)
        with np.errstate(all="ignore"):
            ends = given.support()
            if np.ndim(ends[0]) or np.isnan(ends).any():
                raise InvalidArgument(
                    "The prior of n is no distribution: scipy.stats does not define it at these numbers (a rate must "
                    "be positive, for instance), or it is several at once.",
                    argument="n",
                )
            middle = float(given.median())
            inside = float(given.cdf(n_max)) - float(given.cdf(0))
            is_proper = math.isfinite(middle) and math.isfinite(float(given.logpmf(np.float64(middle))))
        if not is_proper:
            raise InvalidArgument("The prior of n is not a proper distribution of whole numbers.", argument="n")
        if not inside >= LEAST_INSIDE:
            raise InvalidArgument(
                f"The prior of n gives {inside:.2g} to the numbers from 1 to n_max = {n_max}, which the schema "
                "declares: the two contradict each other. Give a prior of the number of records.",
                argument="n",
            )
        return cls(given, n_max)

    def of_part(self, width: float) -> SizePrior:
        """The prior of the number of records of a part by key hash."""
        return SizePrior(self.law, self.n_max, width)

    @property
    def is_poisson(self) -> bool:
        """Whether numbers of different parts are independent of each other."""
        return scipy_name(self.law) == "poisson"

    @cached_property
    def whole(self) -> tuple[int, int]:
        """The numbers of records of the data set between which the prior has not fallen by FALL: they are looked at."""
        centre = min(max(round(float(self.law.median())), 1), self.n_max)
        near = np.arange(max(1, centre - 50), min(self.n_max, centre + 50) + 1, dtype=float)
        ends = []
        with np.errstate(all="ignore"):
            least = float(np.max(self.law.logpmf(near))) - FALL
            for side, room in ((-1, centre - 1), (1, self.n_max - centre)):
                step = 1
                while step < room and float(self.law.logpmf(np.float64(centre + side * step))) > least:
                    step *= 2
                ends.append(centre + side * min(step, room))
        low, high = (min(max(end, -(10**15)), 10**15) for end in self.law.support())
        return max(ends[0], int(low)), min(ends[1], int(high))

    @cached_property
    def ends(self) -> tuple[int, int]:
        """The least and the largest number of records of the part (of the data set, where that is all)."""
        if self.width == 1.0:
            return self.whole
        low, high = self.whole
        far = 10 * math.sqrt(high * self.width * (1 - self.width)) + 10
        return max(1, int(low * self.width - far)), min(self.n_max, int(high * self.width + far))

    def log_pmf(self, n: Array | Ints) -> Floats:
        """log P(n records), not normalised for what lies beyond 1 and n_max."""
        places = np.asarray(n, dtype=float)
        if self.width == 1.0:
            with np.errstate(divide="ignore"):
                found = np.asarray(self.law.logpmf(places))
        else:
            found = self._thinned(places)
        return np.asarray(np.where((places >= 1) & (places <= self.n_max), found, -np.inf))

    @cached_property
    def _table(self) -> tuple[Floats, Floats]:
        """log P(m) at numbers m of the part, all of them where there are few."""
        low, high = self.ends
        places = np.unique(np.linspace(low, high, min(high - low + 1, MOST_TABLED)).round())
        first, last = self.whole
        every = np.unique(np.linspace(first, last, min(last - first + 1, MOST_THINNED)).round())
        with np.errstate(divide="ignore"):
            log_prior = np.asarray(self.law.logpmf(every)) + np.log(np.gradient(every) if every.size > 1 else 1.0)
        found = np.empty(places.size)
        for start in range(0, places.size, 200):
            some = places[start : start + 200, None]
            held = np.minimum(some, every)
            ways = -np.log1p(every) - betaln(every - held + 1, held + 1)
            terms = ways + xlogy(held, self.width) + xlog1py(every - held, -self.width)
            found[start : start + 200] = logsumexp(np.where(some <= every, terms, -np.inf) + log_prior, axis=1)
        return places, found

    def _thinned(self, places: Floats) -> Floats:
        at, log = self._table
        inside = (places >= at[0]) & (places <= at[-1])
        if at.size < 4 or at[-1] - at[0] + 1 == at.size:  # whole numbers, looked up
            index = np.clip(np.rint(places - at[0]).astype(int), 0, at.size - 1)
            return np.asarray(np.where(inside, log[index], -np.inf))
        return np.asarray(np.where(inside, CubicSpline(at, log)(np.clip(places, at[0], at[-1])), -np.inf))

    def sample(self, rng: np.random.Generator) -> int:
        """One number of records: of the data set, then of the part."""
        for _ in range(1000):
            n = int(np.ravel(self.law.rvs(size=1, random_state=rng))[0])
            if 1 <= n <= self.n_max:
                m = n if self.width == 1.0 else int(rng.binomial(n, self.width))
                if m >= 1:
                    return m
        raise InvalidArgument("The prior of n hardly ever gives a number between 1 and n_max.", argument="n")

    def __str__(self) -> str:
        return sizes_text(self.law)
