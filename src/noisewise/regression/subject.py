"""What every regression on moments has, linear or not: enough to simulate its releases, count what they tell, predict.

place       where rows were summed: the release's units, its bounds and how it cleaned records
rows_at     the law of one such row at parameter values: M and C of its products, or rows one by one
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from noisewise.regression.sites.sharing import Sharing
from noisewise.regression.units import Units
from noisewise.schema import Schema
from noisewise.statistics.feature import Feature
from noisewise.types import Floats, Integers

if TYPE_CHECKING:
    from noisewise.regression.observed import Observed
    from noisewise.regression.problem import Problem

__all__ = ["LinearMoments", "MomentsRegression", "Place", "SummedRows"]


class Place(Protocol):
    """Where rows were summed."""

    @property
    def schema(self) -> Schema: ...
    @property
    def units(self) -> Units: ...
    @property
    def bounds(self) -> tuple[Floats, Floats]: ...  # of the entries (x, y), in those units
    @property
    def is_plain(self) -> bool: ...  # neither shortened nor averaged


class SummedRows(Protocol):
    """The law of one row at K parameter values."""

    def moments(self, pairs: Integers, *, intercept: bool, block: int = 1) -> tuple[Floats, Floats]:
        """M (K, size) and C (K, size, size) of the products of one row's entries."""
        ...


class MomentsRegression(Protocol):
    """A model of a response on features, learnt from releases of moments."""

    @property
    def features(self) -> tuple[Feature, ...]: ...
    @property
    def response(self) -> Feature: ...
    @property
    def intercept(self) -> bool: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def free(self) -> tuple[str, ...]: ...
    @property
    def conditions(self) -> tuple[Feature, ...]: ...
    @property
    def covariates(self) -> object: ...
    @property
    def rows_at(self) -> Callable[..., SummedRows]: ...  # (place, theta)


class LinearMoments(MomentsRegression, Protocol):
    """A linear one: what is believed of it, and the numbers its methods start from."""

    @property
    def coefficients(self) -> object: ...
    @property
    def noise(self) -> object: ...
    @property
    def prior(self) -> object: ...
    @property
    def sharing(self) -> Sharing: ...
    def problem_of(self, observed: Observed, *, as_normal: bool = False) -> Problem: ...
