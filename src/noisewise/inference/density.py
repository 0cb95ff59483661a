"""The log posterior as exact inference asks for it: in batches, every value counted, none of them a NaN.

A density that is NaN or +inf is taken as zero *and counted*: quadrature can leave a point out, but must say so. Where
the prior is zero the likelihood has no meaning and is not asked.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from noisewise.errors import NoisewiseError
from noisewise.types import Floats

BATCH = 512
# A log density of this size is rounded to a ten-thousandth: what tells parameters apart is lost.
LARGEST_LOG = 4e11


class ExactTarget(Protocol):
    """What exact inference asks of a posterior; `inference.target.Target` is one."""

    @property
    def size(self) -> int: ...
    def log_prior(self, position: Any) -> Floats: ...
    def log_likelihood(self, position: Any) -> Floats: ...
    def draw_prior(self, rng: np.random.Generator, count: int) -> Floats: ...
    def parameters(self, position: Any) -> dict[str, Floats]: ...


class Density:
    """log prior + log likelihood of a target at positions (K, size), with a count of what it cost and met."""

    __slots__ = ("evaluations", "non_finite", "target")

    def __init__(self, target: ExactTarget) -> None:
        self.target, self.evaluations, self.non_finite = target, 0, 0

    def __call__(self, position: Floats) -> Floats:
        """(K,): never NaN, never +inf."""
        return np.asarray(self.parts(position).sum(axis=0))

    def parts(self, position: Floats) -> Floats:
        """(2, K): log prior and log likelihood, both -inf where either is not a finite number."""
        seen = self.seen(position)
        seen[:, ~np.isfinite(seen).all(axis=0)] = -np.inf
        return seen

    def seen(self, position: Floats) -> Floats:
        """(2, K): the same with NaN where the density was NaN or +inf, for those who count by chain."""
        batches = [self._batch(position[start : start + BATCH]) for start in range(0, len(position), BATCH)]
        return np.concatenate(batches, axis=1) if batches else np.empty((2, 0))

    def check_resolution(self, values: Floats) -> None:
        """Refuse a release so far from everything the model allows that doubles cannot tell parameters apart."""
        top = float(np.max(values, initial=-np.inf))
        if -np.inf < top < -LARGEST_LOG:
            raise NoisewiseError(
                f"Even at the parameters that fit best, of {len(values)} tried, this release has a log density of "
                f"{top:.1e}: noise of the declared law does not reach from any records within the schema's bounds to "
                "the released value. Check the value, the bounds and n; a posterior of it would be one of rounding "
                "errors.",
                log_density=top,
            )

    def _batch(self, position: Floats) -> Floats:
        prior = np.asarray(self.target.log_prior(position), np.float64)
        inside = prior != -np.inf
        parts = np.full((2, len(position)), -np.inf)
        if inside.any():
            with np.errstate(all="ignore"):
                parts[:, inside] = prior[inside], np.asarray(self.target.log_likelihood(position[inside]), np.float64)
        broken = (np.isnan(parts) | (parts == np.inf)).any(axis=0)
        parts[:, broken] = np.nan
        self.evaluations += int(inside.sum())
        self.non_finite += int(broken.sum())
        return parts
