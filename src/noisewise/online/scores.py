"""What makes a question good: a number for each candidate, from the information F of one answer and what is known.

With C the posterior covariance (the prior included), after an answer it is about (C^-1 + F)^-1:
    logdet        log det(I + C^1/2 F C^1/2)                     the default: what all answers together will know
    a-optimal     tr C - tr (C^-1 + F)^-1                        how much the variances sink, in the parameters' units
    {name: w}     the same with a weight for each parameter; what is not named weighs nothing
    location      F_11, of the first parameter                   Yıldırım's (2024) scores look at one answer alone: a
    trace         sum_i F_ii                                     question that is best by itself may never tell all of
    harmonic      1 / sum_i 1/F_ii                               theta; in the parameters' units
    a function    score(information, covariance) -> one number for each candidate: yours, in the parameters' units
The first three compare questions about different columns, too; the others look at one column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import fraction
from noisewise.inference.transform import Transform
from noisewise.online.answer_information import parameter_slopes
from noisewise.populations.parameters import Array
from noisewise.printable import shown

__all__ = ["SCORES", "Score", "ScoreFunction", "ScoreLike"]

SCORES = ("logdet", "a-optimal", "location", "trace", "harmonic")
OF_ONE_ANSWER = ("location", "trace", "harmonic")
ScoreFunction = Callable[[Array, Array], Array]  # information (M, P, P), covariance (P, P) -> (M,)
ScoreLike = str | Mapping[str, float] | ScoreFunction


@dataclass(frozen=True, slots=True)
class Score:
    """One of the scores above: by its name, by weights, or a function."""

    name: str
    weights: tuple[tuple[str, float], ...] = ()
    function: ScoreFunction | None = None

    @classmethod
    def of(cls, given: ScoreLike) -> Score:
        """A score as it was given; else a sentence."""
        if given in SCORES:
            return cls(str(given))
        if isinstance(given, Mapping):
            weights = tuple((str(name), float(fraction(w, "score", minimum=0))) for name, w in given.items())
            if not any(weight > 0 for _, weight in weights):
                raise InvalidArgument("score gives no parameter a weight above 0.", argument="score")
            return cls("weighted", weights)
        if callable(given):
            return cls("own", function=given)
        raise InvalidArgument(
            f"score = {shown(given)}; there are {', '.join(SCORES)}, weights such as {{'mean': 1}}, or a function of "
            "information and covariance.",
            argument="score",
        )

    def check(self, free: Iterable[str], columns: int) -> None:
        """Refuse weights of what is not unknown, and scores that cannot compare columns."""
        free = tuple(free)
        for name, _ in self.weights:
            if name not in free:
                raise InvalidArgument(
                    f"score weighs {shown(name)}, but this survey learns {', '.join(free)}.", argument="score"
                )
        if columns > 1 and (self.name in OF_ONE_ANSWER or self.function is not None):
            raise Unsupported(
                f"score={self.name!r} looks at one column and cannot say which of {columns} to ask about; use "
                "'logdet', 'a-optimal' or weights by parameter."
            )

    @property
    def given(self) -> ScoreLike:
        """As it was given."""
        return dict(self.weights) if self.weights else self.name if self.function is None else self.function

    @property
    def identity(self) -> object:
        """What tells it from others: for a function only its name."""
        return self.name if self.function is None and not self.weights else self.weights or _name(self.function)

    def to_plain(self) -> str | dict[str, float]:
        """As it is written to a file."""
        if self.function is not None:
            raise Unsupported(
                f"A survey whose score is a function ({_name(self.function)}) cannot be saved; give weights, or one of "
                f"{', '.join(SCORES)}."
            )
        return dict(self.weights) if self.weights else self.name

    def of_column(self, names: Mapping[str, str]) -> Score:
        """The same for one column whose parameters are called by their own names; `names` has those of the whole."""
        own = dict(self.weights)
        if not self.weights:
            return self
        return Score(self.name, tuple((plain, own.get(whole, 0.0)) for plain, whole in names.items()))

    def values(self, found: Array, transform: Transform, position: Array, covariance: Array) -> Array:
        """The score of each F (M, P, P), which is given on the walking scale, as the covariance is."""
        found = np.where(np.isfinite(found).all(axis=(1, 2), keepdims=True), found, 0.0)
        if self.function is not None or self.name in OF_ONE_ANSWER:
            return self._alone(found, np.diag(parameter_slopes(transform, position)), covariance)
        # det(C^-1 + F) = det(I + L'FL)/det C with C = LL': no inverse of what may be close to singular.
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        gained = root.T @ found @ root
        if self.name == "logdet":
            return np.asarray(np.linalg.slogdet(np.eye(len(covariance)) + gained)[1])
        values, vectors = np.linalg.eigh(gained)
        shown = self._weighted(transform)[:, None] * parameter_slopes(transform, position) @ root @ vectors
        told = np.maximum(values, 0.0)
        return np.asarray(np.sum(np.square(shown).sum(axis=1) * told / (1 + told), axis=1))

    def _weighted(self, transform: Transform) -> Array:
        """The root of the weight of each number that the parameters are, vectors by component."""
        own, is_weighted = dict(self.weights), self.name == "weighted"
        each = [[own.get(n, 0.0) if is_weighted else 1.0] * (s.size or 1) for n, s in transform.supports.items()]
        return np.asarray(np.sqrt([weight for some in each for weight in some]))

    def _alone(self, found: Array, slopes: Array, covariance: Array) -> Array:
        """Scores in the parameters' units, each of which moves with one coordinate."""
        slopes = np.where(np.abs(slopes) < 1e-150, 1e-150, slopes)
        units = np.outer(slopes, slopes)
        if self.function is not None:
            values = np.asarray(self.function(found / units, covariance * units), np.float64)
            if values.shape != (len(found),):
                raise InvalidArgument(
                    f"score gave an array of shape {values.shape} for {len(found)} candidates; it must give one "
                    "number for each.",
                    argument="score",
                )
            return np.where(np.isnan(values), -np.inf, values)
        each = np.diagonal(found, axis1=1, axis2=2) / np.diag(units)
        if self.name == "trace":
            return np.asarray(each.sum(axis=1))
        return np.asarray(each[:, 0] if self.name == "location" else 1 / np.sum(1 / np.maximum(each, 1e-300), axis=1))


def _name(function: object) -> str:
    """A function's own name, where it has one."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))
