"""An estimator: which answer is given with which probability, for every value of the statistic.

It is plain data: exact rows and actions, the Bayes risk, and a certificate that says why the rows are private and how
far from the best possible they are. A holder releases through it by `plan(Count(...), schema, guarantee=...,
mechanism=estimator)`; who reads the release can still compute a posterior from it, because the rows travel along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike

import numpy as np
from numpy.typing import ArrayLike

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.joining import refuse_absent_values
from noisewise.laws import DiscreteLaplace, FiniteLaw, Form
from noisewise.point.geometric import log_geometric
from noisewise.populations.parameters import Array
from noisewise.printable import shown
from noisewise.privacy.guarantee import PureDP, checked_guarantee
from noisewise.release import Release

LARGEST_MATRIX = 2**26  # entries: half a gigabyte
LARGEST_PICTURE = 2**22
ROUNDING = 1e-7  # of a risk, relative: a solver's tolerance


@dataclass(frozen=True, slots=True)
class Certificate:
    """Why the rows are private, and how good they are.

    `largest_ratio` is the exact largest quotient of neighbouring probabilities, where rows are written out; without
    them privacy holds by construction. No private estimator of the kind that `because` names has a risk below
    `lower_bound`; `gap` is the risk minus that, None where no bound is known, or where it speaks of listed answers and
    this estimator gives others.
    """

    guarantee: PureDP
    largest_ratio: Fraction | None
    lower_bound: float | None
    gap: float | None
    because: str

    @property
    def is_exact(self) -> bool:
        """True where the rows were checked, entry by entry, in exact arithmetic."""
        return self.largest_ratio is not None

    def __str__(self) -> str:
        if self.largest_ratio is None:
            privacy = "by construction: neighbouring probabilities differ by a factor of at most e^epsilon"
        else:
            privacy = f"checked exactly: the largest ratio is {float(self.largest_ratio):.6g} <= e^epsilon"
        quality = f" Gap: at most {self.gap:.1e}." if self.gap else ""
        return f"Private ({self.guarantee}), {privacy}. {self.because}{quality}"


@dataclass(frozen=True, slots=True, eq=False)
class Estimator:
    """P(action | s) for every value s of the statistic. Made by `optimal_estimator`.

    Attributes
    ----------
    actions
        The answers, (A,), or (A, m) where the estimand is a vector.
    risk
        The Bayes risk.
    loss
        Which loss.
    method
        "geometric", "program" or "laplace".
    certificate
        What proves privacy, and bounds the risk of every other estimator from below.
    size
        How many values the statistic has.
    exact
        The rows as fractions, one for each value of the statistic; None where there are too many.

    Examples
    --------
    >>> best = nw.optimal_estimator(nw.Bernoulli(p=stats.uniform()), "squared", guarantee=nw.PureDP(1), n=10)
    >>> best.size, best.matrix.shape == (11, len(best.actions))
    (11, True)
    """

    actions: Array  # (A,), or (A, m) where the estimand is a vector
    risk: float
    loss: str
    method: str  # "geometric", "program" or "laplace"
    certificate: Certificate
    size: int  # how many values the statistic has
    exact: tuple[tuple[Fraction, ...], ...] | None  # rows, one a value of the statistic; None where there are too many

    @property
    def guarantee(self) -> PureDP:
        return self.certificate.guarantee

    @property
    def rows(self) -> tuple[tuple[Fraction, ...], ...]:
        """The exact matrix P(action | s)."""
        if self.exact is None:
            raise Unsupported(
                f"A matrix of {self.size} x {len(self.actions)} exact probabilities is not written out. Release the "
                "noisy count itself, plan(Count(...), schema, guarantee=..., mechanism='geometric'), and read the "
                "answer off it by estimator.estimate(release): the law of the answer is the same. Nothing was spent."
            )
        return self.exact

    @property
    def matrix(self) -> Array:
        """The same as floating-point numbers, (S, A); of a large count, computed on demand."""
        if self.exact is not None:
            return np.array([[float(p) for p in row] for row in self.exact])
        if self.size**2 > LARGEST_MATRIX:
            raise Unsupported(f"A matrix of {self.size} x {self.size} numbers is too large to hold.")
        return np.exp(log_geometric(self.size, float(self.guarantee.epsilon), np.arange(self.size)))

    def to_law(self) -> FiniteLaw:
        """The law that a release carries."""
        return FiniteLaw(self.rows, self.actions.tolist())

    def estimate(self, released: Release | ArrayLike) -> float | Array:
        """The answer behind a release made through this estimator, or behind geometric counts.

        A count with geometric noise, cut to 0..n, has exactly the law of this estimator's output: an estimate can be
        read off it after the fact.
        """
        if isinstance(released, Release) and released.law.form is Form.ACTION:
            if released.law != self.to_law():
                raise InvalidArgument("The release was made through another estimator.", argument="released")
            return float(released.estimate[0])
        if self.method != "geometric" or self.actions.ndim > 1:
            raise Unsupported("Only an estimator by geometric noise reads answers off noisy counts.")
        if isinstance(released, Release):
            return float(self.actions[self._noisy_count(released)])
        counts = np.asarray(released)
        if counts.dtype.kind not in "iu":
            raise InvalidArgument("released must be a release, or whole numbers: noisy counts.", argument="released")
        return np.asarray(self.actions[np.clip(counts, 0, self.size - 1)])

    def plot(self, path: str | PathLike[str] | None = None) -> bytes:
        """A heat map of P(answer | statistic); PNG bytes, and a file where `path` is given."""
        if self.actions.ndim > 1 or self.size * len(self.actions) > LARGEST_PICTURE:
            raise Unsupported("Only estimators of one number, of at most 2000 values, are drawn.")
        if path is not None and not isinstance(path, str | PathLike):
            raise InvalidArgument(f"path = {shown(path)} must name a file.", argument="path")
        from noisewise.report.plots import heat_map

        answers, place = np.unique(self.actions, return_inverse=True)
        merged = np.zeros((len(answers), self.size))
        np.add.at(merged, place, self.matrix.T)
        return heat_map(
            merged, path, x=np.arange(self.size), y=answers, x_label="value of the statistic", y_label="answer",
            value_label="probability", title=f"{self.guarantee}, {self.loss} loss",
        )  # fmt: skip

    def to_dict(self) -> dict[str, object]:
        """Plain data for JSON."""
        return {
            "guarantee": self.guarantee.to_dict(),
            "loss": self.loss,
            "method": self.method,
            "risk": self.risk,
            "lower_bound": self.certificate.lower_bound,
            "is_exact": self.certificate.is_exact,
            "because": self.certificate.because,
            "actions": self.actions.tolist(),
            "rows": None if self.exact is None else [[str(p) for p in row] for row in self.exact],
        }

    def __str__(self) -> str:
        lines = [f"Bayes risk {self.risk:.6g} under {self.loss} loss, by the {self.method} method.",
                 str(self.certificate)]  # fmt: skip
        if self.actions.ndim == 1:
            lines.append(f"Answers: {_shown(np.unique(self.actions).tolist())}.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Estimator({self.size} values, {len(self.actions)} answers, {self.guarantee}, risk {self.risk:.6g})"

    def _noisy_count(self, release: Release) -> int:
        law = release.law
        fits = law.family == DiscreteLaplace.family and release.statistic.kind == "count"
        if not fits or release.schema.n != self.size - 1 or release.guarantee != self.guarantee:
            raise InvalidArgument(
                f"This estimator reads counts of {self.size - 1} records released with mechanism='geometric' at "
                f"{self.guarantee}; the release is {release.statistic} at {release.guarantee}.",
                argument="released",
            )
        refuse_absent_values(release.statistic, release.schema, "an estimator")
        return int(np.clip(release.value[0], 0, self.size - 1))


def pure_guarantee(guarantee: object, who: str) -> PureDP:
    """The guarantee as PureDP; any other kind is refused."""
    epsilon = checked_guarantee(guarantee).pure_epsilon
    if epsilon is None:
        raise InvalidArgument(f"guarantee = {shown(guarantee)}: {who} keeps PureDP(epsilon).", argument="guarantee")
    return PureDP(epsilon)


def pure_at(epsilon: float | Fraction) -> PureDP:
    """The guarantee of an epsilon."""
    return PureDP(epsilon)


def gap_between(risk: float, bound: float) -> float | None:
    """The risk minus a bound on it; None where the risk lies below the bound, by more than rounding."""
    return max(risk - bound, 0.0) if risk >= bound - ROUNDING * abs(bound) else None


def _shown(values: Sequence[float]) -> str:
    words = [f"{value:.4g}" for value in values]
    return ", ".join(words) if len(words) <= 14 else ", ".join([*words[:6], "...", *words[-6:]])
