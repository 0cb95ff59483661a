"""What the analyst believes before the releases: about coefficients, noise and covariates, in the users' units.

    coefficients    None | norm | multivariate_normal | a norm for each | "learned"   theta ~ N(m, C)
    noise           None | invgamma(a, scale=b)                                       sigma^2 ~ InverseGamma(a, b)
    prior           NormalInverseGamma(mean, precision, shape, rate)                  theta | sigma^2 ~ N(m, sigma^2/P)
    covariates      None | NormalCovariates | GivenMoments | "released"
None is a weak prior from public numbers alone. With c and s the likely centre and standard deviation of each entry (the
release's centre and scale, else the middle and a quarter of the declared bounds),
    theta_i ~ N(0, (2.5 s_y/s_i)^2),        theta_0 + theta' c_x ~ N(c_y, (2.5 s_y)^2),
    sigma^2 ~ InverseGamma(1/2, s_y^2/50),
    mu | Sigma ~ N(c_x, 100 Sigma),   Sigma ~ InverseWishart(diag s_x^2/16, d + 1).
Declared bounds are often much wider than the records, so these leave room: nine tenths of the prior lie between s/10
and 3 s for the noise's standard deviation, s/10 and 0.8 s for a covariate's, with power tails above.
"learned" gives the slopes a common unknown scale: theta_i ~ N(0, tau^2 (s_y/s_i)^2), tau^2 ~ InverseGamma(1/2, 1/2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from noisewise.errors import InvalidArgument
from noisewise.populations.parameters import scipy_name
from noisewise.printable import shown
from noisewise.regression.problem import Floats, GivenX, NormalX, Prior
from noisewise.regression.units import Units

WIDE, NOISE_SHAPE, NOISE_SHARE = 2.5, 1 / 2, 1 / 50
STRENGTH, SPREAD_SHARE, MORE_DEGREES = 1 / 100, 1 / 16, 1.0
CONSTANT = 1e-6  # how far numbers written in decimals may be from the moments of the constant 1
LEARNED, RELEASED = "learned", "released"
INTERCEPT, NOISE_VARIANCE = "intercept", "noise_variance"
COVARIATE_MEAN, COVARIATE_COVARIANCE = "covariate_mean", "covariate_covariance"


@dataclass(frozen=True, slots=True, init=False, eq=False)
class NormalInverseGamma:
    """theta | sigma^2 ~ N(mean, sigma^2 precision^-1), sigma^2 ~ InverseGamma(shape, rate): conjugate, intercept first.

    Parameters
    ----------
    mean
        Of the coefficients; a number stands for all of them.
    precision
        A matrix, a list for its diagonal, or a number for all coefficients.
    shape, rate
        Of the inverse gamma law of the noise variance.

    Examples
    --------
    >>> nw.LinearRegression(["age"], "cost", prior=nw.NormalInverseGamma(0, 0.1, 3, 50)).prior.shape
    3.0
    """

    mean: Floats
    precision: Floats
    shape: float
    rate: float

    def __init__(self, mean: ArrayLike, precision: ArrayLike, shape: float, rate: float) -> None:
        object.__setattr__(self, "mean", _numbers(mean, "mean", most=1))
        object.__setattr__(self, "precision", _positive_definite(precision, "precision"))
        object.__setattr__(self, "shape", _positive(shape, "shape"))
        object.__setattr__(self, "rate", _positive(rate, "rate"))

    def sized(self, size: int) -> tuple[Floats, Floats]:
        """Mean (size,) and precision (size, size)."""
        return _vector(self.mean, size, "mean"), _matrix(self.precision, size, "precision")


@dataclass(frozen=True, slots=True, init=False, eq=False)
class NormalCovariates:
    """x ~ N(mu, Sigma), mu | Sigma ~ N(location, Sigma/strength), Sigma ~ InverseWishart(scale, degrees).

    Without intercept mu is the release's centre, and `location` and `strength` say nothing.

    Parameters
    ----------
    location
        Of the features' means, in their units; a number stands for all.
    strength
        How many records' worth the location is.
    scale
        A matrix, a list for its diagonal, or a number for all features.
    degrees
        More than the number of features less 1.

    Examples
    --------
    >>> nw.NormalCovariates([50, 27], 10, [225 * 7, 25 * 7], 10).degrees
    10.0
    """

    is_normal: ClassVar[bool] = True

    location: Floats
    strength: float
    scale: Floats
    degrees: float

    def __init__(self, location: ArrayLike, strength: float, scale: ArrayLike, degrees: float) -> None:
        object.__setattr__(self, "location", _numbers(location, "location", most=1))
        object.__setattr__(self, "strength", _positive(strength, "strength"))
        object.__setattr__(self, "scale", _positive_definite(scale, "scale"))
        object.__setattr__(self, "degrees", _positive(degrees, "degrees"))

    def sized(self, size: int) -> tuple[Floats, Floats]:
        """Location (size,) and scale (size, size); the law must be proper."""
        if self.degrees <= size - 1:
            raise InvalidArgument(
                f"degrees = {self.degrees:g} must exceed {size - 1} for {size} features.", argument="degrees"
            )
        return _vector(self.location, size, "location"), _matrix(self.scale, size, "scale")


@dataclass(frozen=True, slots=True, init=False, eq=False)
class GivenMoments:
    """E x_a x_b and E x_a x_b x_c x_d of ([1,] x), known from elsewhere: no law of x is assumed beyond them.

    Without intercept they are those of x less the release's centre.

    Parameters
    ----------
    second
        (d, d), of the entries ([1,] x), in the units of the features.
    fourth
        (d, d, d, d), of the same entries.

    Examples
    --------
    >>> rows = np.random.default_rng(1).normal(50, 10, (200, 1))
    >>> nw.GivenMoments.of_rows(rows).second.shape
    (2, 2)
    """

    second: Floats
    fourth: Floats

    def __init__(self, second: ArrayLike, fourth: ArrayLike) -> None:
        two, four = _numbers(second, "second", most=2), _numbers(fourth, "fourth", most=4)
        size = len(two) if two.ndim else 0
        if two.shape != (size, size) or not np.allclose(two, two.T) or np.linalg.eigvalsh(two)[0] <= 0:
            raise InvalidArgument("second must be a symmetric positive definite matrix.", argument="second")
        spread = four.reshape(size**2, -1) if four.shape == (size,) * 4 else np.empty((0, 0))
        if spread.shape != (size**2, size**2) or not np.allclose(spread, spread.T):
            raise InvalidArgument(
                f"fourth must be a symmetric array of shape {(size,) * 4}, fourth[a, b, c, d] = E x_a x_b x_c x_d.",
                argument="fourth",
            )
        rest = spread - np.outer(two.ravel(), two.ravel())
        if np.linalg.eigvalsh(rest)[0] < -1e-8 * np.abs(spread).max():
            raise InvalidArgument("No law has these second and fourth moments: a variance is negative.",
                                  argument="fourth")  # fmt: skip
        object.__setattr__(self, "second", two)
        object.__setattr__(self, "fourth", four)

    def require_constant(self) -> None:
        """Refuse moments whose first entry is not the constant 1, as it is with an intercept."""
        size = np.sqrt(np.diag(self.second))
        is_one = math.isclose(self.second[0, 0], 1.0, rel_tol=CONSTANT)
        if not is_one or np.any(np.abs(self.fourth[0, 0] - self.second) > CONSTANT * np.outer(size, size)):
            raise InvalidArgument(
                "With an intercept the given moments are those of (1, x), but here the first entry is not the constant "
                f"1: second[0, 0] = {self.second[0, 0]:g}, and fourth[0, 0] must equal second. Use "
                "GivenMoments.of_rows(rows), or put the constant first.",
                argument="covariates",
            )

    @classmethod
    def of_rows(cls, rows: ArrayLike, *, intercept: bool = True) -> GivenMoments:
        """Those of a public sample of covariates (rows, d)."""
        x = _numbers(rows, "rows", most=2)
        if x.ndim != 2 or len(x) <= x.shape[1]:
            raise InvalidArgument("rows must be an array (rows, features) with more rows than features.",
                                  argument="rows")  # fmt: skip
        w = np.column_stack([np.ones(len(x)), x]) if intercept else x
        products = (w[:, :, None] * w[:, None, :]).reshape(len(w), -1)
        size = w.shape[1]
        return cls(w.T @ w / len(w), (products.T @ products / len(w)).reshape((size,) * 4))


Coefficients = Any  # None, "learned", a frozen norm or multivariate_normal, a list or mapping of frozen norms


def coefficient_moments(given: Coefficients, names: Sequence[str]) -> tuple[Floats, Floats] | None:
    """Mean and covariance of the coefficients `names` (intercept first), or None for a default or learned prior."""
    if given is None or (isinstance(given, str) and given == LEARNED):
        return None
    size = len(names)
    if scipy_name(given) == "norm":
        mean, variance = _normal(given)
        return np.full(size, mean), np.eye(size) * variance
    if type(given).__name__ == "multivariate_normal_frozen":
        centre, covariance = np.atleast_1d(np.asarray(given.mean, float)), np.atleast_2d(np.asarray(given.cov, float))
        is_finite = np.all(np.isfinite(centre)) and np.all(np.isfinite(covariance))
        if centre.shape != (size,) or not is_finite or np.linalg.eigvalsh(covariance)[0] <= 0:
            raise InvalidArgument(
                f"The multivariate normal of the coefficients must be proper and of dimension {size}: "
                f"{', '.join(names)}.",
                argument="coefficients",
            )
        return centre, covariance
    each = [_normal(prior) for prior in _each(given, names)]
    return np.array([mean for mean, _ in each]), np.diag([variance for _, variance in each])


def _each(given: object, names: Sequence[str]) -> list[Any]:
    """One frozen norm for each coefficient, from a list in their order or a mapping by name."""
    expected = f"one stats.norm for each of {', '.join(names)}"
    if isinstance(given, Mapping):
        if set(given) != set(names):
            raise InvalidArgument(
                f"coefficients names {', '.join(map(str, given)) or 'nothing'}; give {expected}.",
                argument="coefficients",
            )
        given = [given[name] for name in names]
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise InvalidArgument(
            f"coefficients = {shown(given)}: give a stats.norm, a stats.multivariate_normal, {expected}, or 'learned'; "
            "'pooled', 'separate' and 'partial' say how holders share them.",
            argument="coefficients",
        )
    if len(given) != len(names) or any(scipy_name(prior) != "norm" for prior in given):
        raise InvalidArgument(f"coefficients lists {len(given)} priors; give {expected}.", argument="coefficients")
    return list(given)


def noise_shape(given: Any) -> tuple[float, float] | None:
    """Shape and rate of the inverse gamma prior of the noise variance, or None for the default."""
    if given is None:
        return None
    if scipy_name(given) == "invgamma":
        shape, low, rate = frozen_numbers(given)
        if low == 0 and 0 < shape < math.inf and 0 < rate < math.inf:
            return shape, rate
        raise InvalidArgument(
            "noise is a stats.invgamma(a, scale=b) whose a and b are not finite numbers above 0, one each, or whose "
            "loc is not 0.",
            argument="noise",
        )
    raise InvalidArgument(
        f"noise = {shown(given)}: give the prior of the noise *variance* as stats.invgamma(a, scale=b).",
        argument="noise",
    )


def _normal(prior: Any) -> tuple[float, float]:
    """Mean and variance of the frozen norm of a coefficient."""
    mean, sd = frozen_numbers(prior)
    variance = sd * sd
    if math.isfinite(mean) and sd > 0 and 0 < variance < math.inf:
        return mean, variance
    raise InvalidArgument(
        "coefficients has a stats.norm(mean, sd) whose mean is not one finite number, or whose sd is not one above 0 "
        "with a finite square.",
        argument="coefficients",
    )


def frozen_numbers(prior: Any) -> list[float]:
    """Shapes, location and scale of a frozen distribution; NaN where one of them is not a single number."""
    shapes, location, scale = prior.dist._parse_args(*prior.args, **prior.kwds)
    return [_number(value) for value in (*shapes, location, scale)]


def _number(value: Any) -> float:
    try:
        return float(_numbers(value, "prior", most=0))
    except InvalidArgument:
        return math.nan


def working_prior(
    coefficients: tuple[Floats, Floats] | None,
    noise: tuple[float, float] | None,
    joint: NormalInverseGamma | None,
    *,
    is_learned: bool,
    units: Units,
    centre: Floats,
    spread: Floats,
) -> Prior:
    """The prior of theta and sigma^2 in working units."""
    matrix, offset = units.coefficient_map
    inverse = np.linalg.inv(matrix)
    size = len(offset)
    if joint is not None:
        mean, precision = joint.sized(size)
        relative = units.variance_factor * _symmetric(inverse.T @ precision @ inverse)
        return Prior(matrix @ mean + offset, relative, joint.shape, units.variance_factor * joint.rate, True)
    if noise is None:
        shape, rate = NOISE_SHAPE, float(spread[-1]) ** 2 * NOISE_SHARE
    else:
        shape, rate = noise[0], units.variance_factor * noise[1]
    if coefficients is not None:
        mean, covariance = coefficients
        precision = _symmetric(inverse.T @ np.linalg.inv(covariance) @ inverse)
        return Prior(matrix @ mean + offset, precision, shape, rate)
    mean, precision = _default_coefficients(units.intercept, centre, spread, is_learned=is_learned)
    return Prior(mean, precision, shape, rate, is_learned=is_learned)


def _default_coefficients(
    intercept: bool, centre: Floats, spread: Floats, *, is_learned: bool
) -> tuple[Floats, Floats]:
    """Mean and precision of the default prior, the intercept first; a learned scale multiplies the slopes' variances.

    A learned scale needs slopes that are independent of the intercept, which then is as wide as the slopes allow.
    """
    response = float(spread[-1])
    slopes = np.square(spread[:-1] / response) / (1.0 if is_learned else WIDE**2)
    if not intercept:
        return np.zeros(len(slopes)), np.diag(slopes)
    mean = np.array([float(centre[-1]), *np.zeros(len(slopes))])
    if is_learned:
        wide = (WIDE * response) ** 2 * (1 + float(np.sum(np.square(centre[:-1] / spread[:-1]))))
        return mean, np.diag([1 / wide, *slopes])
    to_centre = np.eye(len(mean))
    to_centre[0, 1:] = centre[:-1]  # theta_0 + theta' c_x: the response where the covariates are likely to lie
    return mean, _symmetric(to_centre.T @ np.diag([1 / (WIDE * response) ** 2, *slopes]) @ to_centre)


def working_covariates(
    given: NormalCovariates | GivenMoments | None, *, units: Units, centre: Floats, spread: Floats
) -> NormalX | GivenX:
    """What is believed about x, in working units."""
    size = len(spread) - 1
    factor = units.factor[:-1]
    if given is None:
        scale = np.diag(np.square(spread[:-1]) * SPREAD_SHARE)
        return NormalX(centre[:-1] * units.intercept, STRENGTH, scale, size + MORE_DEGREES)
    if isinstance(given, NormalCovariates):
        location, scale = given.sized(size)
        moved = factor * (location - units.centre[:-1]) * units.intercept
        return NormalX(moved, given.strength, scale * np.outer(factor, factor), given.degrees)
    to_working = units.covariate_map
    if len(given.second) != len(to_working):
        raise InvalidArgument(
            f"The given moments are of {len(given.second)} entries; ([1,] x) has {len(to_working)} here.",
            argument="covariates",
        )
    fourth = np.einsum("abcd,ia,jb,kc,ld->ijkl", given.fourth, *(to_working,) * 4, optimize=True)
    return GivenX(_symmetric(to_working @ given.second @ to_working.T), np.asarray(fourth))


def _symmetric(matrix: Floats) -> Floats:
    return np.asarray((matrix + matrix.T) / 2)


def _numbers(given: Any, argument: str, *, most: int) -> Floats:
    try:
        array = np.array(given, dtype=float)
        is_text = np.asarray(given).dtype.kind in "SU"  # NumPy would read "3" as a number
    except (TypeError, ValueError, OverflowError):
        array, is_text = np.array(np.nan), True
    if array.ndim > most or array.size == 0 or not np.all(np.isfinite(array)) or isinstance(given, bool) or is_text:
        raise InvalidArgument(f"{argument} = {shown(given)} must hold finite numbers.", argument=argument)
    array.setflags(write=False)
    return array


def _positive(value: Any, argument: str) -> float:
    number = _numbers(value, argument, most=0)
    if not number > 0:
        raise InvalidArgument(f"{argument} = {shown(value)} must be greater than 0.", argument=argument)
    return float(number)


def _positive_definite(given: Any, argument: str) -> Floats:
    """A number, a diagonal, or a matrix."""
    array = _numbers(given, argument, most=2)
    is_square = array.ndim < 2 or (array.shape[0] == array.shape[1] and np.allclose(array, array.T))
    if not is_square or not np.all((np.linalg.eigvalsh(array) if array.ndim == 2 else array) > 0):
        raise InvalidArgument(
            f"{argument} must be positive: a number, a list (its diagonal) or a symmetric positive definite matrix.",
            argument=argument,
        )
    return array


def _vector(array: Floats, size: int, argument: str) -> Floats:
    if array.ndim == 1 and len(array) != size:
        raise InvalidArgument(f"{argument} lists {len(array)} numbers; {size} are needed.", argument=argument)
    return np.full(size, float(array)) if array.ndim == 0 else array


def _matrix(array: Floats, size: int, argument: str) -> Floats:
    if array.ndim and len(array) != size:
        raise InvalidArgument(f"{argument} is for {len(array)} numbers; {size} are needed.", argument=argument)
    return array if array.ndim == 2 else np.asarray(np.eye(size) * array)
