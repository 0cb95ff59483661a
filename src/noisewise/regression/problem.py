"""A regression as numbers: what the holders published, and what the analyst believes, in common working units.

    y = theta' ([1,] x) + e,  e ~ N(0, sigma^2),     w = ([1,] x_1..x_d, y),     T_j = sum of w w' over holder j's rows

`LinearRegression` (model.py) turns releases and priors, in the units people use, into a `Problem`; every method is a
function from a Problem to a `Fit`, and the model turns that back. Working units are the rows of the first release
(centred and scaled by its public numbers); another holder's rows are `map @ w`. Arrays only: nothing here knows of
releases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from noisewise.types import Floats as Floats
from noisewise.types import Integers as Integers

SMALLEST_SLOPE = 0.01  # of a square that follows from a sum: what is known exactly is told with a little noise


@dataclass(frozen=True, slots=True, eq=False)
class Eigenvalue:
    """A noisy smallest eigenvalue of X'X, in the units of its holder's rows; `delta` is its guarantee's, if any."""

    value: float
    sd: float
    is_laplace: bool
    delta: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Holder:
    """One holder's noisy sums of products, in the units of its own rows.

    `pairs` (K, 2) are indices a <= b into w; `observed` (K,) the noisy T_ab; component k has Laplace noise of scale
    `laplace[k]` where that is positive, else Gaussian noise; `variance` (K,) is the noise variance in both cases. The
    constant T_11 = n is no component: it is public, or stated by the analyst. `low`, `high` (d + 1,) bound the entries
    (x, y) of a row before it is shortened to norm `shrink`; `clamps` says that records outside were clamped to them.
    With rows averaged in blocks of k, n counts the blocks and the intercept's entry is sqrt(k).
    """

    n: int
    pairs: Integers
    observed: Floats
    variance: Floats
    laplace: Floats
    map: Floats  # (m, m): this holder's row is map @ w
    low: Floats
    high: Floats
    clamps: bool = True
    shrink: float | None = None
    block: int = 1
    fourth: Mapping[tuple[int, int, int, int], tuple[float, float]] = field(default_factory=dict)
    """Noisy sums of four entries of ([1,] x), released for methods that need them: (value, noise variance)."""
    eigenvalue: Eigenvalue | None = None  # for adaSSP
    implied: Mapping[tuple[int, int], tuple[float, float]] = field(default_factory=dict)
    """Sums that were not released because they follow: T_ab = slope T_1b + constant n, as (slope, constant)."""

    def with_square_of_response(self) -> Holder:
        """With y'y as a sum of its own where it follows from that of y, for laws that do not know that y is yes/no.

        It is given the noise of the sum it follows from, as if that were another draw.
        """
        last = len(self.map) - 1
        if (last, last) not in self.implied:
            return self
        slope, constant = self.implied[last, last]
        (at,) = np.flatnonzero((self.pairs == (0, last)).all(axis=1))
        rest = {pair: line for pair, line in self.implied.items() if pair != (last, last)}
        return replace(
            self,
            pairs=np.concatenate([self.pairs, [[last, last]]]),
            observed=np.append(self.observed, slope * self.observed[at] + constant * self.n),
            variance=np.append(self.variance, max(slope**2, SMALLEST_SLOPE**2) * self.variance[at]),
            laplace=np.append(self.laplace, max(abs(slope), SMALLEST_SLOPE) * self.laplace[at]),
            implied=rest,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """theta ~ N(mean, scale precision^-1) and sigma^2 ~ InverseGamma(shape, rate), in working units.

    scale is sigma^2 where `is_relative` (normal-inverse-gamma, conjugate), else 1; where `is_learned` it is a common
    unknown tau^2 ~ InverseGamma(1/2, 1/2) on the coefficients but the intercept.
    """

    mean: Floats  # (q,), the intercept first where there is one
    precision: Floats  # (q, q)
    shape: float
    rate: float
    is_relative: bool = False
    is_learned: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class NormalX:
    """x ~ N(mu, Sigma), mu | Sigma ~ N(location, Sigma/strength), Sigma ~ InverseWishart(scale, degrees).

    Without intercept mu = 0. Density of the inverse Wishart: |Sigma|^{-(degrees + d + 1)/2} e^{-tr(scale Sigma^-1)/2}.
    """

    location: Floats
    strength: float
    scale: Floats
    degrees: float


@dataclass(frozen=True, slots=True, eq=False)
class GivenX:
    """Second and fourth moments of ([1,] x), known or estimated: no law of x is assumed beyond them."""

    second: Floats  # (q, q)
    fourth: Floats  # (q, q, q, q)


@dataclass(frozen=True, slots=True, eq=False)
class LocationX:
    """x = offset(c) + slope(c) z, a yes/no configuration c and numbers z that are normal given it (location.py).

    With C configurations and k numbers. `tilt` (C, s) and `contrast` (C, r) are what the log shares and the means of z
    are linear in, each column times the prior sd of its coefficient, which is then N(0, 1).
    """

    offset: Floats  # (C, d)
    slope: Floats  # (C, d, k)
    tilt: Floats
    contrast: Floats
    scale: Floats  # (k, k): of the inverse Wishart law of the numbers' covariance
    degrees: float
    centre: Floats  # (k,): z = 0 in the units of the columns
    spread: Floats  # (k,): z = 1 less z = 0, likewise
    log_weight: Floats | None = None  # (C,): of the shares where nothing is tilted; None where they are all the same

    @property
    def configurations(self) -> int:
        return len(self.offset)

    @property
    def numbers(self) -> int:
        return len(self.centre)


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """All that a method needs."""

    holders: tuple[Holder, ...]
    prior: Prior
    covariates: NormalX | GivenX | LocationX
    intercept: bool

    @property
    def q(self) -> int:
        """Coefficients, with the intercept."""
        return len(self.prior.mean)

    @property
    def d(self) -> int:
        """Covariates, without the intercept."""
        return self.q - int(self.intercept)

    @property
    def m(self) -> int:
        """The entries of w."""
        return self.q + 1


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """What a method found, in working units: draws by chain, or one point (chains = draws = 1, is_point)."""

    theta: Floats  # (chains, draws, q)
    variance: Floats | None  # sigma^2 (chains, draws); None where the method has none
    how: str
    mean_x: Floats | None = None  # (chains, draws, d)
    covariance_x: Floats | None = None  # (chains, draws, d, d)
    latent: Mapping[str, Floats] = field(default_factory=dict)  # the location model's draws, in the units of columns
    is_point: bool = False
    models_cleaning: bool = False  # rows as they were clamped or shortened
    notes: tuple[str, ...] = ()  # sentences for the verdict: what was assumed, projected, clamped
    non_finite: int = 0  # steps that met a non-finite density
    energy: Floats | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
