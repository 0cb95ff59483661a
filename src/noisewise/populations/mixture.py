"""Mixtures: a record is from one of several laws, and nobody knows which.

    Mixture([Normal(mean=stats.norm(30, 10), sd=5), Normal(mean=stats.norm(60, 10), sd=5)], weights=[0.3, 0.7])
        p(x) = sum_j w_j p_j(x | theta_j)
Components are populations of one column, all continuous or all discrete; weights are numbers that add up to 1, or have
a Dirichlet prior. The unknowns are `weights` and those of every component with its number: mean[1], mean[2].

A cleaned record of a mixture is a cleaned record of one of its components, so that the points by which every moment of
a feature is computed (`nodes`) are those of the components with their weights: nothing is lost where one of them is
narrow. Quantiles are found between the components' own, by Newton's steps that bisection keeps within their bracket.

**Labels.** Where components are alike (the same law and priors, weights that prefer none) the posterior is the same
under every exchange of labels, and a mean of mean[1] would be that of all. Such components are put in the order of
their first unknown, or of the one that `order=` names: the prior is cut to mean[1] < mean[2] < .., which loses nothing
but the names. Whatever is asked of the population (answers, plots, checks) does not depend on labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike

from noisewise.errors import InvalidArgument
from noisewise.populations.distribution import Distribution
from noisewise.populations.parameters import Array, Support, is_prior, offers
from noisewise.populations.population import Population
from noisewise.populations.written import value_text
from noisewise.printable import shown
from noisewise.types import Values

__all__ = ["Mixture", "MixtureLaw"]

WEIGHTS = "weights"
MOST_COMPONENTS = 20
STEPS = 100  # of Newton's method at most; bisection alone needs half of them
CLOSE = 1e-15


@dataclass(frozen=True, eq=False)
class MixtureLaw:
    """sum_j w_j p_j(x); parameters are named name[j], and weights is a vector."""

    components: tuple[Population, ...]
    weights: object  # as they were given
    order: str | None
    name: ClassVar[str] = "mixture"
    standard: ClassVar[tuple[Any, ...]] = ()
    scipy_law: ClassVar[None] = None

    @property
    def domains(self) -> Mapping[str, Support]:
        own = {f"{name}[{j}]": support for j, law in enumerate(self._laws, 1) for name, support in law.domains.items()}
        return {**own, WEIGHTS: Support(0.0, 1.0, size=len(self.components))}

    @property
    def is_discrete(self) -> bool:
        return self.components[0].is_discrete

    @property
    def in_unit(self) -> tuple[str, ...]:
        return tuple(f"{name}[{j}]" for j, law in enumerate(self._laws, 1) for name in law.in_unit)

    @property
    def _laws(self) -> tuple[Distribution, ...]:
        return tuple(component.distribution for component in self.components)

    def parts(self, p: Values) -> list[tuple[Distribution, dict[str, Array], Array]]:
        """Each component's law, its parameters, and its weight as a column."""
        weights = np.atleast_2d(np.asarray(p[WEIGHTS]))
        return [
            (law, {name: np.asarray(p[f"{name}[{j + 1}]"]) for name in law.domains}, weights[:, j : j + 1])
            for j, law in enumerate(self._laws)
        ]

    def log_density(self, x: ArrayLike, p: Values) -> Array:
        with np.errstate(divide="ignore"):
            terms = [np.log(weight) + law.log_density(x, own) for law, own, weight in self.parts(p)]
        return np.asarray(np.logaddexp.reduce(np.stack(np.broadcast_arrays(*terms)), axis=0))

    def cdf(self, x: ArrayLike, p: Values) -> Array:
        return np.asarray(sum(weight * law.cdf(x, own) for law, own, weight in self.parts(p)))

    def survival(self, x: ArrayLike, p: Values) -> Array:
        return np.asarray(sum(weight * law.survival(x, own) for law, own, weight in self.parts(p)))

    def quantile(self, u: ArrayLike, p: Values) -> Array:
        ends = [law.quantile(u, own) for law, own, _ in self.parts(p)]
        return self._inverted(np.asarray(u, dtype=float), p, ends, is_upper=False)

    def upper_quantile(self, v: ArrayLike, p: Values) -> Array:
        ends = [law.upper_quantile(v, own) for law, own, _ in self.parts(p)]
        return self._inverted(np.asarray(v, dtype=float), p, ends, is_upper=True)

    def _inverted(self, u: Array, p: Values, ends: list[Array], *, is_upper: bool) -> Array:
        """x between the components' own quantiles where the mass below (above) it is u."""
        every = np.stack(np.broadcast_arrays(*ends, u * np.ones_like(ends[0])))[:-1]
        low, high = every.min(axis=0), every.max(axis=0)
        if self.is_discrete:
            return self._searched(u, p, low, high, is_upper=is_upper)
        x = np.where(np.isfinite(low) & np.isfinite(high), 0.5 * (low + high), low)
        with np.errstate(all="ignore"):
            for _ in range(STEPS):
                excess = u - self.survival(x, p) if is_upper else self.cdf(x, p) - u
                low, high = np.where(excess < 0, x, low), np.where(excess > 0, x, high)
                middle = 0.5 * (low + high)
                step = x - excess / np.exp(self.log_density(x, p))
                # A step that leaves the bracket, or a bracket that is half infinite, is halved instead.
                fresh = np.where((step > low) & (step < high), step, middle)
                width = np.abs(fresh - x)
                x = np.where((excess == 0) | ~np.isfinite(middle), x, fresh)
                if not np.any(width > CLOSE * np.maximum(np.abs(x), np.abs(high - low))):
                    break
        return np.asarray(x)

    def _searched(self, u: Array, p: Values, low: Array, high: Array, *, is_upper: bool) -> Array:
        """The least value at which so much mass is reached, among those between two quantiles at whole steps."""
        low, high = np.array(low) - 1.0, np.array(high)
        with np.errstate(invalid="ignore"):
            while np.any(high - low > 1):
                middle = np.floor(0.5 * (low + high))
                reached = self.survival(middle, p) <= u if is_upper else self.cdf(middle, p) >= u
                low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return np.asarray(high)

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...], p: Values) -> Array:
        """Which component, then a record of it."""
        parts = self.parts(p)
        upto = np.cumsum(np.concatenate([weight for *_, weight in parts], axis=1), axis=1)
        which = (rng.random(shape)[..., None] > upto[:, None, :-1]).sum(axis=-1)
        drawn = [np.broadcast_to(law.sample(rng, shape, own), shape) for law, own, _ in parts]
        return np.asarray(np.choose(which, drawn))

    def location_scale(self, p: Values) -> tuple[Array, Array] | None:
        return None

    def moments(self, p: Values) -> tuple[Array, Array]:
        found = [(weight, *law.moments(own)) for law, own, weight in self.parts(p)]
        found = [(np.ravel(weight), np.ravel(mean), np.ravel(variance)) for weight, mean, variance in found]
        mean = sum(weight * own for weight, own, _ in found)
        return np.asarray(mean), np.asarray(sum(w * (v + np.square(m - mean)) for w, m, v in found))

    def __str__(self) -> str:
        order = "" if self.order is None else f", order={self.order!r}"
        inside = ", ".join(map(repr, self.components))
        return f"Mixture([{inside}], weights={value_text(self.weights)}{order})"


def Mixture(components: Sequence[Population], *, weights: object, order: str | None = None) -> Population:
    """Records each from one of several laws of one column: sum_j w_j p_j(x).

    Parameters
    ----------
    components
        Two to twenty populations of one column, all continuous or all discrete, with numbers where parameters are
        known and priors where they are not.
    weights
        Numbers that add up to 1, or `stats.dirichlet([...])` with one entry for each component.
    order
        The parameter by which components are told apart: the prior is cut to mean[1] < mean[2] < ... Components that
        are alike (same law, same priors, weights that prefer none) are put in the order of their first unknown anyhow,
        since nothing else tells their labels apart; components that are not alike cannot be ordered. Default None.

    Returns
    -------
    Population
        Its unknowns are `mean[1]`, `mean[2]`, .., and `weights` if these have a prior.

    Examples
    --------
    >>> nw.Mixture([nw.Normal(mean=stats.norm(40, 20), sd=8)] * 2, weights=stats.dirichlet([1, 1])).free
    ('mean[1]', 'mean[2]', 'weights')
    """
    made = _checked_components(components)
    alike = _are_alike(made, weights)
    if order is not None and (order not in made[0].free or not alike):
        raise InvalidArgument(
            f"order = {shown(order)}: name an unknown of the components that are put in order, as order='mean'; all "
            "must be of the same law with the same priors, and weights must prefer none.",
            argument="order",
        )
    by = order or (made[0].free[0] if alike and made[0].free else None)
    law = MixtureLaw(made, weights, order)
    parameters: dict[str, object] = {}
    for j, component in enumerate(made, 1):
        own = component.parameters
        parameters |= {f"{name}[{j}]": float(value[0]) for name, value in own.known.items()}
        parameters |= {f"{name}[{j}]": prior for name, prior in own.priors.items()}
    found = Population(law, **{**parameters, WEIGHTS: weights})
    _check_weights(found, len(made))
    return found.mixing(made, () if by is None else tuple(f"{by}[{j}]" for j in range(1, len(made) + 1)))


def _checked_components(components: object) -> tuple[Population, ...]:
    try:
        given = tuple(cast("Sequence[Population]", components))
    except TypeError:
        given = ()
    if not 2 <= len(given) <= MOST_COMPONENTS or not all(offers(one, "distribution", "parameters") for one in given):
        raise InvalidArgument(
            f"components must list 2 to {MOST_COMPONENTS} populations of one column, as in Mixture([Normal(...), "
            "Normal(...)], weights=[0.3, 0.7]).",
            argument="components",
        )
    if len({one.is_discrete for one in given}) > 1:
        raise InvalidArgument(
            "components are partly discrete and partly continuous; a mixture is of one kind.", argument="components"
        )
    for one in given:
        if one.column is not None or one.parameters.joint is not None:
            raise InvalidArgument(
                "A component of a mixture has no column of its own, and a prior for each parameter.",
                argument="components",
            )
        if one.parameters.order or any(support.size is not None for support in one.distribution.domains.values()):
            raise InvalidArgument(
                f"{one.distribution.name} cannot be a component: neither levels nor mixtures are mixed again. A "
                "mixture of mixtures is one mixture of all components.",
                argument="components",
            )
    return given


def _check_weights(found: Population, count: int) -> None:
    known = found.parameters.known.get(WEIGHTS)
    size = known.shape[1] if known is not None else found.supports[WEIGHTS].size
    if size != count:
        raise InvalidArgument(
            f"weights are {size} for {count} components: give one for each, or stats.dirichlet with as many entries.",
            argument=WEIGHTS,
        )


def _are_alike(components: tuple[Population, ...], weights: object) -> bool:
    """Whether an exchange of labels changes nothing."""
    try:
        entries = np.asarray(vars(weights).get("alpha", np.nan) if is_prior(weights) else weights, dtype=float)
    except (TypeError, ValueError):
        return False
    texts = {repr(component) for component in components}
    return len(texts) == 1 and entries.size > 1 and bool(np.all(entries == entries.flat[0]))
