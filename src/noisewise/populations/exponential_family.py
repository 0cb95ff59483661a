"""Exponential families of one's own, known by their log-partition function.

    p(x | eta) = h(x) exp(sum_j eta_j t_j(x) - A(eta))        on an interval, or on whole numbers
Density, statistic and log-partition are written down; everything else is computed. A row of parameters has a table: of
whole numbers all that have mass; of an interval the density at NODES of v, x = low + (high - low)/(1 + e^-v), low + e^v
or sinh v, equally spaced where the density of v is within e^-FALL of its top, summed from either end by Simpson's rule.
Between two nodes the cdf is the cubic that has the density as its slope at both: about 1e-9. That A is the logarithm of
the integral is checked when a family is made, at several parameters; a family whose A is another's is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

from noisewise.errors import InvalidArgument
from noisewise.populations.parameters import REAL, Array, Support, offers
from noisewise.populations.population import Population
from noisewise.types import Values

__all__ = ["ExponentialFamily", "ExponentialFamilyLaw"]

NODES, SCAN, FALL = 2049, 2001, 46.0
FURTHEST = 300.0  # of v, as a logarithm; sinh 300 is 1e130
MOST_VALUES = 100_000  # of a discrete record
TOLERANCE = 1e-6  # of the log-partition, beside its own size
KEPT = 8  # tables of parameters that were asked for last
LEVELS = (0.02, 0.5, 0.98)
DRAWN = 16  # places between those, of several parameters


class _Prior(Protocol):
    """A frozen distribution."""

    def median(self) -> float: ...
    def ppf(self, q: float | tuple[float, ...]) -> Array: ...


@dataclass(frozen=True, slots=True)
class _Table:
    """The law at K rows of parameters: places, mass below and above them, log of the total."""

    v: Array  # (K, M): the places, as v or as whole numbers
    x: Array
    density: Array  # of v, or the probabilities
    below: Array
    above: Array
    log_total: Array  # (K,): of h exp(eta t), which A should be


@dataclass(frozen=True, eq=False)
class ExponentialFamilyLaw:
    """h(x) exp(eta . t(x) - A(eta)); see the module."""

    statistic: tuple[Callable[[Array], Array], ...]
    log_partition: Callable[..., Array]
    log_base: Callable[[Array], Array] | None
    natural: Callable[..., object] | None
    names: tuple[str, ...]
    support: tuple[float, float]
    is_discrete: bool
    _tables: dict[bytes, _Table] = field(default_factory=dict, repr=False)
    name: ClassVar[str] = "exponential family"
    standard: ClassVar[tuple[object, ...]] = ()
    scipy_law: ClassVar[None] = None
    in_unit: ClassVar[tuple[str, ...]] = ()

    @property
    def domains(self) -> Mapping[str, Support]:
        return dict.fromkeys(self.names, REAL)

    def eta(self, p: Values) -> tuple[Array, ...]:
        """The natural parameters, shaped as the parameters."""
        own = [np.asarray(p[name], float) for name in self.names]
        found = own if self.natural is None else self.natural(**dict(zip(self.names, own, strict=True)))
        listed = (found,) if offers(found, "shape") or np.isscalar(found) else cast("Sequence[Array]", found)
        return tuple(np.asarray(one, float) for one in listed)

    def log_unnormalised(self, x: Array, eta: tuple[Array, ...]) -> Array:
        """log h(x) + eta . t(x); -inf where there is no record."""
        low, high = self.support
        inside = (x >= low) & (x <= high) & (np.floor(x) == x if self.is_discrete else np.isfinite(x))
        some = low if np.isfinite(low) else high if np.isfinite(high) else 0.0
        middle = 0.5 * (low + high) if np.isfinite(low + high) else some + (1.0 if np.isfinite(low) else -1.0)
        safe = np.where(inside, x, some if self.is_discrete else middle)
        with np.errstate(all="ignore"):
            total = sum(one * np.asarray(t(safe), float) for one, t in zip(eta, self.statistic, strict=True))
            if self.log_base is not None:
                total = total + np.asarray(self.log_base(safe), float)
            found = np.where(inside, total, -np.inf)
        return np.asarray(np.where(np.isnan(found), -np.inf, found))

    def log_density(self, x: ArrayLike, p: Values) -> Array:
        eta = self.eta(p)
        with np.errstate(all="ignore"):
            return np.asarray(
                self.log_unnormalised(np.asarray(x, float), eta) - np.asarray(self.log_partition(*eta), float)
            )

    def cdf(self, x: ArrayLike, p: Values) -> Array:
        return self._read(x, p, is_upper=False)

    def survival(self, x: ArrayLike, p: Values) -> Array:
        return self._read(x, p, is_upper=True)

    def _read(self, x: ArrayLike, p: Values, *, is_upper: bool) -> Array:
        shape = np.broadcast_shapes(np.shape(x), *(np.shape(one) for one in self.eta(p)))
        if 0 in shape:
            return np.zeros(shape)
        table = self.table(p)
        return _by_row(x, table, lambda k, some: self._row(table, k, some, is_upper=is_upper))

    def _row(self, table: _Table, k: int, x: Array, *, is_upper: bool) -> Array:
        mass = table.above[k] if is_upper else table.below[k]
        if self.is_discrete:
            place = np.searchsorted(table.x[k], np.floor(x), side="right") - 1
            outside = 1.0 if is_upper else 0.0
            return np.where(place < 0, outside, mass[np.clip(place, 0, len(mass) - 1)])
        with np.errstate(all="ignore"):
            v = np.clip(self.to_line(np.clip(x, *self.support)), table.v[k, 0], table.v[k, -1])
        slope = -table.density[k] if is_upper else table.density[k]
        return np.clip(_cubic(v, table.v[k], mass, slope), 0.0, 1.0)

    def quantile(self, u: ArrayLike, p: Values) -> Array:
        return self._inverse(u, p, is_upper=False)

    def upper_quantile(self, v: ArrayLike, p: Values) -> Array:
        return self._inverse(v, p, is_upper=True)

    def _inverse(self, u: ArrayLike, p: Values, *, is_upper: bool) -> Array:
        shape = np.broadcast_shapes(np.shape(u), *(np.shape(one) for one in self.eta(p)))
        if 0 in shape:
            return np.zeros(shape)
        table = self.table(p)
        return _by_row(u, table, lambda k, some: self._row_inverse(table, k, some, is_upper=is_upper))

    def _row_inverse(self, table: _Table, k: int, u: Array, *, is_upper: bool) -> Array:
        mass = table.above[k] if is_upper else table.below[k]
        rising = mass[::-1] if is_upper else mass
        if self.is_discrete:
            if is_upper:
                place = len(mass) - np.searchsorted(rising, u, side="right")
            else:
                place = np.searchsorted(rising, u * (1 - 1e-15))
            return np.asarray(table.x[k][np.clip(place, 0, len(mass) - 1)])
        order = table.v[k][::-1] if is_upper else table.v[k]
        slope = -table.density[k] if is_upper else table.density[k]
        place = np.clip(np.searchsorted(rising, u) - 1, 0, len(mass) - 2)
        low, high = order[place], order[place + 1]
        for _ in range(34):  # the cubic between two nodes rises, so halving finds its place
            middle = 0.5 * (low + high)
            reached = _cubic(middle, table.v[k], mass, slope) < u
            low, high = np.where(reached, middle, low), np.where(reached, high, middle)
        return self.from_line(0.5 * (low + high))

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...], p: Values) -> Array:
        return self.quantile(rng.random(shape), p)

    def location_scale(self, p: Values) -> tuple[Array, Array] | None:
        return None

    def moments(self, p: Values) -> tuple[Array, Array]:
        table = self.table(p)
        if self.is_discrete:
            weight = table.density
        else:
            weight = table.density * _simpson(table.v)
        mean = (weight * table.x).sum(axis=1) / weight.sum(axis=1)
        variance = (weight * np.square(table.x - mean[:, None])).sum(axis=1) / weight.sum(axis=1)
        shape = np.broadcast_shapes(*(one.shape for one in self.eta(p)))
        return mean.reshape(shape), variance.reshape(shape)

    # ---- the line and its tables ----

    def to_line(self, x: Array) -> Array:
        low, high = self.support
        if np.isfinite(low) and np.isfinite(high):
            return np.asarray(np.log(x - low) - np.log(high - x))
        if np.isfinite(low):
            return np.asarray(np.log(x - low))
        return np.asarray(-np.log(high - x) if np.isfinite(high) else np.arcsinh(x))

    def from_line(self, v: Array) -> Array:
        low, high = self.support
        if np.isfinite(low) and np.isfinite(high):
            half = np.exp(-np.logaddexp(0.0, np.abs(v))) * (high - low)  # from the nearer end
            return np.asarray(np.where(v < 0, low + half, high - half))
        if np.isfinite(low):
            return np.asarray(low + np.exp(v))
        return np.asarray(high - np.exp(-v) if np.isfinite(high) else np.sinh(v))

    def log_stretch(self, v: Array) -> Array:
        """log dx/dv."""
        low, high = self.support
        if np.isfinite(low) and np.isfinite(high):
            return np.asarray(np.log(high - low) - np.logaddexp(0.0, v) - np.logaddexp(0.0, -v))
        if np.isfinite(low) or np.isfinite(high):
            return np.asarray(v if np.isfinite(low) else -v)
        return np.asarray(np.logaddexp(v, -v) - np.log(2.0))

    def table(self, p: Values) -> _Table:
        """The table of these parameters; the last few are kept."""
        eta = tuple(np.reshape(one, (-1, 1)) for one in np.broadcast_arrays(*self.eta(p)))
        key = np.concatenate(eta).tobytes()
        if key not in self._tables:
            while len(self._tables) >= KEPT:
                self._tables.pop(next(iter(self._tables)))
            self._tables[key] = self._listed(eta) if self.is_discrete else self._summed(eta)
        return self._tables[key]

    def _summed(self, eta: tuple[Array, ...]) -> _Table:
        scan = np.linspace(-FURTHEST, FURTHEST, SCAN)

        def logs(v: Array) -> Array:
            with np.errstate(all="ignore"):
                found = self.log_unnormalised(self.from_line(v), eta) + self.log_stretch(v)
            return np.where(np.isfinite(found), found, -np.inf)

        v = np.broadcast_to(scan, (len(eta[0]), SCAN))
        lost = np.zeros(len(v), bool)
        for turn in range(6):  # narrower by turns, for a law that is a needle among the first places
            seen = logs(v)
            top = seen.max(axis=1, keepdims=True)
            wanted = seen >= top - FALL
            lost = wanted[:, [0, -1]].any(axis=1) if turn == 0 else lost  # mass as far as doubles go
            first = np.maximum(wanted.argmax(axis=1) - 1, 0)
            last = np.minimum(SCAN - wanted[:, ::-1].argmax(axis=1), SCAN - 1)
            rows = np.arange(len(v))
            low, high = v[rows, first], v[rows, last]
            v = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, SCAN)
            if np.all(last - first > SCAN // 4):
                break
        places = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, 2 * NODES - 1)
        seen = logs(places)
        top = seen.max(axis=1, keepdims=True)
        with np.errstate(all="ignore"):
            density = np.where(np.isfinite(top), np.exp(seen - top), np.nan)
        step = (high - low)[:, None] / (NODES - 1)
        each = step / 6 * (density[:, :-2:2] + 4 * density[:, 1::2] + density[:, 2::2])
        total = each.sum(axis=1, keepdims=True)
        zero = np.zeros_like(total)
        below = np.concatenate([zero, np.cumsum(each, axis=1)], axis=1) / total
        above = np.concatenate([zero, np.cumsum(each[:, ::-1], axis=1)], axis=1)[:, ::-1] / total
        at = places[:, ::2]
        with np.errstate(all="ignore"):
            log_total = np.where(lost, np.nan, (np.log(total) + top)[:, 0])
        return _Table(at, self.from_line(at), density[:, ::2] / total, below, above, log_total)

    def _listed(self, eta: tuple[Array, ...]) -> _Table:
        low, high = self.support
        if np.isfinite(low) and np.isfinite(high):
            x = np.arange(low, high + 1)
        else:
            count = 64
            while True:
                x = np.arange(low, low + count) if np.isfinite(low) else np.arange(high - count + 1, high + 1)
                seen = self.log_unnormalised(x[None], eta)
                end = seen[:, -count // 4 :] if np.isfinite(low) else seen[:, : count // 4]
                if np.all(end.max(axis=1) < seen.max(axis=1) - FALL) or count >= MOST_VALUES:
                    break
                count *= 4
        seen = self.log_unnormalised(x[None], eta)
        top = seen.max(axis=1, keepdims=True)
        with np.errstate(all="ignore"):
            mass = np.where(np.isfinite(top), np.exp(seen - top), np.nan)
            total = mass.sum(axis=1, keepdims=True)
            mass = mass / total
            log_total = (np.log(total) + top)[:, 0]
        places = np.broadcast_to(x, mass.shape)
        above = np.cumsum(mass[:, ::-1], axis=1)[:, ::-1] - mass
        return _Table(places, places, mass, np.cumsum(mass, axis=1), np.maximum(above, 0.0), log_total)

    def check(self, places: Sequence[Values]) -> None:
        """Refuse a log-partition that is not the logarithm of the integral at these parameters, with the difference."""
        for p in places:
            eta = self.eta(p)
            try:
                stated = float(np.ravel(np.asarray(self.log_partition(*eta), float))[0])
            except (TypeError, ValueError) as error:
                raise InvalidArgument(
                    f"log_partition does not give a number for {len(eta)} natural parameters: {error}.",
                    argument="log_partition",
                ) from error
            found = float(self.table(p).log_total[0])
            where = ", ".join(f"{key} = {np.ravel(value)[0]:.4g}" for key, value in p.items())
            how = "sum" if self.is_discrete else "integral"
            if not np.isfinite(found):
                raise InvalidArgument(
                    f"At {where} the {how} of h(x) exp(eta t(x)) is no number: there is no law. Choose priors "
                    "inside the natural parameters' domain.",
                    argument=next(iter(p)),
                )
            if not abs(stated - found) <= TOLERANCE * max(1.0, abs(found)):
                raise InvalidArgument(
                    f"log_partition says {stated:.8g} at {where}, and the logarithm of the {how} is {found:.8g}: "
                    f"they differ by {stated - found:.3g}.",
                    argument="log_partition",
                )


def _places(known: Values, priors: Mapping[str, _Prior]) -> list[Values]:
    """Where a log-partition is looked at: along every parameter by itself, and where all of them are drawn."""
    middle = {**known, **{name: np.asarray([prior.median()]) for name, prior in priors.items()}}
    along = [{**middle, name: np.asarray([level])} for name, prior in priors.items() for level in prior.ppf(LEVELS)]
    shares = np.random.default_rng(0).uniform(LEVELS[0], LEVELS[-1], size=(DRAWN, len(priors)))
    drawn = [
        {**middle, **{name: np.asarray([prior.ppf(u)]) for (name, prior), u in zip(priors.items(), row, strict=True)}}
        for row in shares
    ]
    return [middle, *along, *drawn] if len(priors) > 1 else [middle, *along]


def ExponentialFamily(
    *,
    statistic: Callable[[Array], Array] | Sequence[Callable[[Array], Array]],
    log_partition: Callable[..., Array],
    support: tuple[float, float],
    log_base: Callable[[Array], Array] | None = None,
    natural: Callable[..., object] | None = None,
    discrete: bool = False,
    **parameters: object,
) -> Population:
    """Records with the density h(x) exp(eta . t(x) - A(eta)), as it was written down.

    Parameters
    ----------
    statistic
        t, a function of an array of records, or a list of such.
    log_partition
        A, a function of the natural parameters (arrays), one argument for each statistic. It is compared with the
        integral (or the sum) at several parameters, and refused where it is another number.
    support
        (low, high) of the records; either may be infinite. Of discrete records one end must be a number.
    log_base
        log h, a function of an array. Default None: 0.
    natural
        The natural parameters from the named ones, one number or a tuple. Default None: they are the named ones.
    discrete
        Whether records are the whole numbers of the support. Default False.
    parameters
        Each a number if you know it, else a scipy.stats distribution.

    Returns
    -------
    Population

    Examples
    --------
    >>> waits = nw.ExponentialFamily(statistic=lambda x: x, log_partition=lambda eta: -np.log(-eta),
    ...                              natural=lambda rate: -rate, support=(0, np.inf), rate=stats.gamma(2))
    >>> waits.free
    ('rate',)
    """
    functions = (statistic,) if callable(statistic) else tuple(statistic)
    given = {"log_partition": log_partition, "log_base": log_base, "natural": natural}
    if not functions or not all(map(callable, functions)):
        raise InvalidArgument("statistic must be a function of records, or a list of such.", argument="statistic")
    for name, one in given.items():
        if not callable(one) and (one is not None or name == "log_partition"):
            raise InvalidArgument(f"{name} must be a function.", argument=name)
    ends = _ends(support, is_discrete=bool(discrete))
    if not parameters:
        raise InvalidArgument("Give the parameters by name, as in rate=stats.gamma(2).", argument="parameters")
    law = ExponentialFamilyLaw(functions, log_partition, log_base, natural, tuple(parameters), ends, bool(discrete))
    found = Population(law, **parameters)
    known, priors = found.parameters.known, found.parameters.priors
    some = {**known, **{name: np.asarray([prior.median()]) for name, prior in priors.items()}}
    try:
        count = len(law.eta(some))
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"natural does not take {', '.join(parameters)}: {error}.", argument="natural") from error
    if count != len(functions):
        raise InvalidArgument(
            f"There are {count} natural parameters for {len(functions)} statistics; they must be as many.",
            argument="natural",
        )
    law.check(_places(known, priors))
    return found


def _ends(support: object, *, is_discrete: bool) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in cast("Sequence[float]", support))
    except (TypeError, ValueError):
        low = high = np.nan
    whole = [end for end in (low, high) if np.isfinite(end)]
    is_listed = not is_discrete or (bool(whole) and all(end == np.floor(end) for end in whole))
    if not low < high or not is_listed or (is_discrete and high - low > MOST_VALUES and len(whole) == 2):
        raise InvalidArgument(
            f"support must be (low, high) with low < high; of discrete records whole numbers, at most {MOST_VALUES} of "
            "them, or one end infinite.",
            argument="support",
        )
    return low, high


def _by_row(asked: ArrayLike, table: _Table, read: Callable[[int, Array], Array]) -> Array:
    """(K, M) of what is asked (M,) or (K, M): row by row, with the only row of parameters where there is one."""
    given = np.atleast_2d(np.asarray(asked, float))
    rows = max(len(given), len(table.v))
    last, most = len(given) - 1, len(table.v) - 1
    return np.stack([read(min(k, most), given[min(k, last)]) for k in range(rows)])


def _cubic(v: Array, at: Array, mass: Array, slope: Array) -> Array:
    """The cubic between nodes with these values and slopes."""
    cell = np.clip(np.searchsorted(at, v, side="right") - 1, 0, len(at) - 2)
    width = at[cell + 1] - at[cell]
    t = (v - at[cell]) / width
    rise = mass[cell + 1] - mass[cell]
    start, end = slope[cell] * width, slope[cell + 1] * width
    return np.asarray(mass[cell] + t * (start + t * (3 * rise - 2 * start - end + t * (start + end - 2 * rise))))


def _simpson(v: Array) -> Array:
    """Weights (K, M) of Simpson's rule on an odd number of equal steps."""
    weight = np.full(v.shape, 2.0)
    weight[:, 1::2], weight[:, 0], weight[:, -1] = 4.0, 1.0, 1.0
    return np.asarray(weight * (v[:, 1:2] - v[:, :1]) / 3)
