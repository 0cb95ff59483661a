"""The law of the features by a population that is stated for every number, column by column.

    x_j = Q_j(Phi(z_j)),      z on a fixed grid of normal scores with weights proportional to exp(-|z|^2/2),
    P(point) proportional to weight * exp(u' t),      t = z_j, z_j^2, z_i z_j, the directions of yes/no features, and
                                                          their products with one another and with the z_j,
so the law has the stated shape, while its means, spreads and correlations, the shares of yes/no features, and how
numbers differ between these are learnt from the release along with the coefficients: u ~ N(0, 1/2^2) for a mean (in
units of the normal score's sd), N(0, 1/10^2) for a spread, N(0, 1/2^2) for a correlation, N(0, 1) for a difference
between the two sides of a yes/no feature, and those of the general location model (location.py) for shares. Between
normal populations z_i z_j makes the bivariate normal law, elsewhere nearly the Gaussian copula.

A grid with step h integrates smooth functions of normal scores to about exp(-2 pi^2/h^2) (Trefethen & Weideman 2014).
Numbers beyond their bounds are clamped in the sums, but not in what the response follows; where a schema refuses such
records the law is the stated one within the bounds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING, ClassVar, Protocol, cast

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.populations.parameters import missing_members
from noisewise.populations.text import Written, population_from_text, population_to_text
from noisewise.printable import shown
from noisewise.regression.configurations import Configurations
from noisewise.regression.location import DIRECTION_SD, PRODUCT_SD
from noisewise.regression.points import base_points
from noisewise.regression.problem import LocationX
from noisewise.schema import Schema
from noisewise.statistics.evaluation import evaluated
from noisewise.statistics.feature import Feature
from noisewise.types import Floats, Theta

if TYPE_CHECKING:
    from noisewise.populations.distribution import Distribution

__all__ = [
    "PointLaw",
    "StatedCovariates",
    "crossed",
    "level_columns",
    "numbers_of",
    "point_configurations",
    "point_law_x",
]

MEAN_SD, SPREAD_SD, CORRELATION_SD, DIFFERENCE_SD = 0.5, 0.1, 0.5, 1.0
MOST_POINTS, FINEST, COARSEST = 512, 61, 9  # points in all; nodes of one number
REACH = 6.0  # normal scores of the finest grid; a coarser one reaches less far


@dataclass(frozen=True, slots=True, eq=False)
class PointLaw:
    """Records that stand for all: columns by name (levels as their codes), log weights, and what tilts them."""

    columns: Mapping[str, Floats]
    log_weight: Floats  # (C,)
    tilt: Floats  # (C, s): what log shares are linear in, times the prior sd of its coefficient
    schema: Schema  # by which levels have their codes

    def features(self, features: Sequence[Feature], bounds: Schema | None = None) -> Floats:
        """(C, d): features at the points, as they are or (`bounds`) as records that were clamped to a schema's."""
        columns = dict(self.columns) if bounds is None else _clamped(self.columns, bounds)
        with np.errstate(all="ignore"):
            found = np.stack([np.asarray(one, float) for one in evaluated(features, columns, self.schema)], axis=1)
        if not np.all(np.isfinite(found)):
            raise Unsupported(
                "By the populations that are stated a feature has no finite value at some records (the logarithm of a "
                "number below 0?). State populations that stay where the features are defined."
            )
        return found


class Margin(Protocol):
    """What is asked of the population of one column."""

    @property
    def free(self) -> tuple[str, ...]: ...
    @property
    def is_discrete(self) -> bool: ...
    @property
    def distribution(self) -> Distribution: ...
    def values(self, theta: Theta) -> dict[str, Floats]: ...
    def quantile(self, u: object, theta: Theta) -> Floats: ...


@dataclass(frozen=True, slots=True, init=False, eq=False)
class StatedCovariates:
    """A population with known parameters for every number among the columns of a regression's features.

    Parameters
    ----------
    columns : mapping from a column to a population (or its text), in the units of the column and before clamping; every
        parameter is a number.

    Examples
    --------
    `LogisticRegression(["income"], ill, covariates={"income": Gamma(shape=2, rate=0.05)})`
    """

    is_normal: ClassVar[bool] = False

    columns: Mapping[str, Margin]

    def __init__(self, columns: Mapping[str, object]) -> None:
        if not columns or any(name != str(name) for name in columns):
            raise InvalidArgument(
                'covariates must name columns, as in {"income": Gamma(shape=2, rate=0.05)}.', argument="covariates"
            )
        object.__setattr__(self, "columns", {name: _population(name, given) for name, given in columns.items()})

    def sized(self, size: int) -> int:
        """Any number of features can be made of stated columns."""
        return size

    def law_text(self) -> str:
        """As a spec file writes it."""
        pairs = (f"{name!r}: {_text(law)!r}" for name, law in self.columns.items())
        return f"{{{', '.join(pairs)}}}"

    def in_words(self) -> str:
        """income ~ gamma(shape=2, rate=0.05)."""
        return ", ".join(f"{name} ~ {_text(law)}" for name, law in self.columns.items())

    def points(self, features: Sequence[Feature], schemas: Sequence[Schema]) -> PointLaw:
        """The records that stand for all, under every holder's schema."""
        schema = schemas[0]
        names = numbers_of(features, schema)
        if unstated := [name for name in names if name not in self.columns]:
            raise InvalidArgument(
                f"covariates states no population for column {unstated[0]!r}; name one for every number, or leave out "
                "covariates=.",
                argument="covariates",
            )
        if unused := [name for name in self.columns if name not in names]:
            raise InvalidArgument(
                f"covariates names {unused[0]!r}, which is no number among the features.", argument="covariates"
            )
        levels, made = level_columns(features, schemas)
        z, log_weight = score_grid(len(names), MOST_POINTS // made.count)
        columns = {name: self._quantiles(name, z[:, j]) for j, name in enumerate(names)}
        law = crossed(levels, made, columns, z, log_weight, _own_tilt(z), schema)
        return _kept(law, names, schemas)

    def _quantiles(self, name: str, z: Floats) -> Floats:
        from scipy.special import ndtr

        law = self.columns[name]
        one: dict[str, Floats] = {}
        below = law.quantile(ndtr(np.minimum(z, 0.0)), one)[0]
        above = law.distribution.upper_quantile(ndtr(-np.maximum(z, 0.0)), law.values(one))[0]
        return np.asarray(np.where(z < 0, below, above), float)


def _clamped(columns: Mapping[str, Floats], bounds: Schema) -> dict[str, Floats]:
    found = dict(columns)
    for name in (name for name in columns if name in bounds.numeric):
        column = bounds.bounded(name)
        found[name] = np.clip(columns[name], column.low, column.high)
    return found


def _text(law: Margin) -> str:
    return population_to_text(cast("Written", law))


@singledispatch
def _margin(given: object) -> object:
    return given


@_margin.register
def _(given: str) -> object:
    return population_from_text(given)


def _population(name: str, given: object) -> Margin:
    found = cast("Margin", _margin(given))
    if missing_members(found, Margin) or found.is_discrete:
        raise InvalidArgument(
            f"covariates[{name!r}] = {shown(given)} is no population of a number, such as Gamma(shape=2, rate=0.05).",
            argument="covariates",
        )
    if found.free:
        raise InvalidArgument(
            f"covariates[{name!r}] has a prior for {', '.join(found.free)}. State a law with numbers: its mean and "
            "spread are learnt from the release anyway, its shape cannot be. Where the shape is not known, release a "
            "Histogram of the column and write covariates='released'.",
            argument="covariates",
        )
    return found


def numbers_of(features: Sequence[Feature], schema: Schema) -> list[str]:
    """The columns with bounds that features are made of, in the order of reading."""
    names = dict.fromkeys(name for feature in features for name in feature.columns())
    return [name for name in names if name in schema.numeric]


def level_columns(features: Sequence[Feature], schemas: Sequence[Schema]) -> tuple[dict[str, Floats], Configurations]:
    """Codes (C,) of every column with levels in all combinations that features tell apart, and these combinations."""
    nodes = dict.fromkeys(node for feature in features for node in feature.nodes() if node.operation == "equals")
    nothing = Configurations((), np.zeros((1, 0)), (), np.zeros((1, 0)), np.zeros((1, 0, 0)))
    made = Configurations.of(tuple(nodes), schemas) if nodes else nothing
    columns: dict[str, Floats] = {}
    for name in dict.fromkeys(str(condition.arguments[0]) for condition in made.conditions):
        own = schemas[0].levels(name)
        at = [j for j, condition in enumerate(made.conditions) if str(condition.arguments[0]) == name]
        named = [made.conditions[j].arguments[1] for j in at]
        other = next((k for k, level in enumerate(own.levels) if level not in named), 0)
        codes = np.full(made.count, float(other))
        for j, level in zip(at, named, strict=True):
            codes[made.states[:, j] == 1] = float(own.levels.index(level))
        columns[name] = codes
    return columns, made


def score_grid(numbers: int, most: int) -> tuple[Floats, Floats]:
    """Normal scores (P, numbers) and log weights: a grid, or, where that would be too coarse, a quasi-random bank."""
    if numbers == 0:
        return np.zeros((1, 0)), np.zeros(1)
    nodes = min(FINEST, math.floor(max(most, 1) ** (1 / numbers) + 1e-9))
    nodes -= 1 - nodes % 2
    if nodes < COARSEST:
        z, weights = base_points(numbers, 2 ** int(math.log2(max(most, 64))))
        return z, np.log(np.maximum(weights, 1e-12))
    reach = REACH - 2.0 * (FINEST - nodes) / (FINEST - COARSEST)
    axis = np.linspace(-reach, reach, nodes)
    z = np.array(list(itertools.product(axis, repeat=numbers)))
    return z, -0.5 * np.square(z).sum(axis=1)


def _own_tilt(z: Floats) -> list[Floats]:
    """Of one number: mean and spread."""
    return [column for own in z.T for column in (MEAN_SD * own, SPREAD_SD * (np.square(own) - 1.0))]


def crossed(
    levels: Mapping[str, Floats],
    made: Configurations,
    numbers: Mapping[str, Floats],
    z: Floats,
    log_weight: Floats,
    own_tilt: Sequence[Floats],
    schema: Schema,
    correlation: float = CORRELATION_SD,
) -> PointLaw:
    """Every combination of levels with every point of the numbers, and what tilts them together."""
    count, points = made.count, len(z)
    first = np.repeat(made.directions(), points, axis=0)
    both = np.repeat(made.products(), points, axis=0)
    scores = np.tile(z, (count, 1))
    pairs = itertools.combinations(range(scores.shape[1]), 2)
    tilt = [
        *(DIRECTION_SD * first).T,
        *(PRODUCT_SD * both).T,
        *(np.tile(column, count) for column in own_tilt),
        *(correlation * scores[:, i] * scores[:, j] for i, j in pairs),
        *(DIFFERENCE_SD * first[:, i] * scores[:, j] for i in range(first.shape[1]) for j in range(scores.shape[1])),
    ]
    columns = {name: np.repeat(codes, points) for name, codes in levels.items()}
    columns |= {name: np.tile(values, count) for name, values in numbers.items()}
    weight = np.tile(log_weight, count)
    weight = weight - np.logaddexp.reduce(weight)
    return PointLaw(columns, weight, np.stack(tilt, axis=1) if tilt else np.zeros((count * points, 0)), schema)


def _kept(law: PointLaw, names: Sequence[str], schemas: Sequence[Schema]) -> PointLaw:
    """Without the points that no record can be, where records outside their bounds are refused."""
    refusing = [schema for schema in schemas if schema.outside != "clamp"]
    if not refusing:
        return law
    bounds = {tuple((s.bounded(name).low, s.bounded(name).high) for name in names) for s in schemas}
    if len(bounds) > 1 or len(refusing) < len(schemas):
        raise Unsupported(
            "Some holders refused records outside bounds that others do not have: what each of them kept follows "
            "another law. Use releases whose schemas agree, or outside='clamp'."
        )
    inside = np.ones(len(law.log_weight), bool)
    for name in names:
        column = schemas[0].bounded(name)
        inside &= (law.columns[name] >= column.low) & (law.columns[name] <= column.high)
    if inside.sum() < 2:
        raise Unsupported("By the populations that are stated hardly any record lies within the bounds.")
    columns = {name: values[inside] for name, values in law.columns.items()}
    return PointLaw(columns, law.log_weight[inside], law.tilt[inside], law.schema)


def point_configurations(law: PointLaw, features: Sequence[Feature]) -> Configurations:
    """Every point as a combination of its own, with no numbers left."""
    constant = law.features(features)
    count, d = constant.shape
    return Configurations((), np.zeros((count, 0)), (), constant, np.zeros((count, d, 0)))


def point_law_x(law: PointLaw, constant: Floats, *, centre: Floats, factor: Floats) -> LocationX:
    """The law in the units factor * (f - centre) of a release's rows."""
    count, d = constant.shape
    nothing = np.zeros(0)
    return LocationX(
        offset=factor * (constant - centre),
        slope=np.zeros((count, d, 0)),
        tilt=law.tilt,
        contrast=np.zeros((count, 1)),
        scale=np.zeros((0, 0)),
        degrees=1.0,
        centre=nothing,
        spread=nothing,
        log_weight=law.log_weight,
    )
