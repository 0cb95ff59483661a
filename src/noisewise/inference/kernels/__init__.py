"""The grammar of kernels: what every sampler of a release is made of.

A kernel is made from a target and settings; `init` gives a State for K chains at once, `step` gives the next State
and an Info. Both are pure: all randomness comes from the generator passed in, nothing is changed in place. A State is
a tuple of arrays whose first axis is the chain, with `.position` (K, size) on the real line and `.log_density` (K,),
the log of the unnormalised density (or its estimate) the chain stands on. An Info says what happened.

Every kernel moves theta by a random walk theta' = theta + scale * L xi (`Walk`), so q(theta'|theta) cancels, and
decides in log space. A ratio that is NaN or +inf is rejected *and reported* (`Info.is_finite` is False): a broken
density is never silent. Where the prior density is zero the likelihood has no meaning and is not consulted.

    slice                 slice            no tuning beyond a width
    leaping_slice         exact            the same, and proposals from the prior: three parameters and more
Those of the papers stand in `published.samplers`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from noisewise.errors import InvalidArgument
from noisewise.types import Bools as Bools
from noisewise.types import Floats as Floats

Indices = NDArray[np.intp]
Tree = TypeVar("Tree")


class Target(Protocol):
    """What kernels ask of a posterior: log densities at K positions on the real line, Jacobian included."""

    @property
    def size(self) -> int: ...
    def log_prior(self, position: Floats) -> Floats: ...
    def log_likelihood(self, position: Floats) -> Floats: ...
    def draw_prior(self, rng: np.random.Generator, count: int) -> Floats: ...


class Info(NamedTuple):
    """What one step did in each of K chains; `acceptance` is the probability with which it was to be accepted."""

    accepted: Bools
    is_finite: Bools
    acceptance: Floats


class State(Protocol):
    """What the next step needs: a tuple of arrays (or of such tuples) whose first axis is the chain."""

    @property
    def position(self) -> Floats: ...
    @property
    def log_density(self) -> Floats: ...


class Kernel(Protocol):
    """`init` and `step`, and the walk they are best used with: its scale and its acceptance rate."""

    @property
    def ideal_scale(self) -> float: ...
    @property
    def ideal_acceptance(self) -> float | None: ...
    def init(self, rng: np.random.Generator, position: Floats) -> Any: ...
    def step(self, rng: np.random.Generator, state: Any) -> tuple[Any, Info]: ...


class MakeKernel(Protocol):
    """A kernel with every setting but the walk: `Metropolis`, or `partial(PseudoMarginal, latent=...)`."""

    def __call__(self, target: Any, *, walk: Walk) -> Kernel: ...


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """The random walk theta' = theta + scale * L xi, xi ~ N(0, I): symmetric, so it leaves no trace in the ratio."""

    scale: float
    factor: Floats  # L (size, size); its columns are the directions of a slice kernel

    def __post_init__(self) -> None:
        if not 0 < self.scale < math.inf:
            raise InvalidArgument(f"scale = {self.scale!r}: a walk needs a scale above 0.", argument="scale")

    @classmethod
    def isotropic(cls, size: int, scale: float) -> Walk:
        return cls(scale, np.eye(size))

    def propose(self, rng: np.random.Generator, position: Floats) -> Floats:
        return position + self.scale * (rng.standard_normal(position.shape) @ self.factor.T)


def ideal_walk_scale(size: int) -> float:
    """2.38/sqrt(d), best for a normal target walked with its own covariance (Roberts, Gelman & Gilks 1997)."""
    return 2.38 / math.sqrt(size)


def ideal_walk_acceptance(size: int) -> float:
    """0.44 in one dimension, falling to 0.234 in many."""
    return 0.234 + 0.206 / size


class Walking:
    """What kernels that walk share: the scale and acceptance rate their walk does best with. Abstract."""

    __slots__ = ()
    target: Target

    @property
    def ideal_scale(self) -> float:
        return ideal_walk_scale(self.target.size)

    @property
    def ideal_acceptance(self) -> float | None:
        return ideal_walk_acceptance(self.target.size)


def joint(log_prior: Floats, log_likelihood: Floats) -> Floats:
    """log prior + log likelihood, -inf where the prior is zero whatever the likelihood says there."""
    return np.where(log_prior == -np.inf, -np.inf, log_prior + log_likelihood)


def decide(rng: np.random.Generator, log_ratio: Floats) -> Info:
    """Accept with probability min(1, ratio); reject and report a ratio that is NaN or +inf."""
    is_finite = log_ratio < np.inf  # False for NaN
    accepted = (-rng.standard_exponential(log_ratio.shape) < log_ratio) & is_finite
    acceptance = np.where(is_finite, np.exp(np.minimum(log_ratio, 0.0)), 0.0)
    return Info(accepted, is_finite, acceptance)


def choose(accepted: Bools, new: Tree, old: Tree) -> Tree:
    """Row by row the new state where accepted, the old one elsewhere; states may hold arrays and tuples of arrays."""
    picked: Any
    if isinstance(new, tuple) and isinstance(old, tuple):
        make: Any = getattr(type(new), "_make", tuple)  # named or plain
        picked = make(choose(accepted, fresh, kept) for fresh, kept in zip(new, old, strict=True))
    else:
        fresh_array = np.asarray(new)
        mask = accepted.reshape(accepted.shape + (1,) * (fresh_array.ndim - 1))
        picked = np.where(mask, fresh_array, np.asarray(old))
    chosen: Tree = picked
    return chosen


@np.errstate(all="ignore")
def log_mean_exp(log_weights: Floats, axis: int = 1) -> Floats:
    """log of the mean of exp(log_weights): -inf if all are, NaN if any is."""
    top = np.max(log_weights, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    mean: Floats = np.log(np.mean(np.exp(log_weights - top), axis=axis)) + np.squeeze(top, axis=axis)
    return mean


@np.errstate(all="ignore")
def draw_index(rng: np.random.Generator, log_weights: Floats, axis: int = 1) -> Indices:
    """An index along `axis`, drawn with probability proportional to exp(log_weights).

    Index 0, where kernels keep their current latent, if the weights are not a distribution (a NaN, or all zero).
    """
    top = np.max(log_weights, axis=axis, keepdims=True)
    cumulated = np.cumsum(np.exp(log_weights - top), axis=axis)
    total = np.take(cumulated, [-1], axis=axis)
    level = (1.0 - rng.random(total.shape)) * total  # in (0, total], so an index of weight 0 is never drawn
    index: Indices = np.sum(cumulated < level, axis=axis, dtype=np.intp)
    return index


def take(values: Floats, index: Indices, axis: int = 1) -> Floats:
    """values[k, index[k], ...]: what was drawn by `draw_index`, one entry a chain (and an answer)."""
    shape = (*index.shape[:axis], 1, *index.shape[axis:])
    at = index.reshape(shape + (1,) * (values.ndim - len(shape)))
    picked: Floats = np.squeeze(np.take_along_axis(values, at, axis=axis), axis=axis)
    return picked
