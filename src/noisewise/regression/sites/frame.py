"""A regression over several sites as numbers: what the sampler needs, and the way back to the units of the columns.

b are the numbers that vary between sites, in units of the default prior's standard deviations: the height of the line
where features are likely to lie (with an intercept), the slopes, and log sigma where there is a noise variance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from noisewise.regression.sites.sampler import CommonPrior, Site
from noisewise.regression.sites.sharing import NOISE_SCALE, SHARE_OF_DEFAULT, Sharing
from noisewise.types import Floats

__all__ = ["Frame", "SiteFit", "common_prior"]


@dataclass(frozen=True, slots=True, eq=False)
class SiteFit:
    """One site's draws by name, in the units of the columns, and what is to be said before and after them."""

    draws: Mapping[str, Floats]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


class Frame(Protocol):
    """What a regression gives the sampler, and how it reads its draws."""

    @property
    def names(self) -> tuple[str, ...]: ...  # of b
    @property
    def widths(self) -> Floats: ...  # (p,): one unit of b in the units of the columns (log noise variance)
    @property
    def sites(self) -> tuple[Site, ...]: ...
    @property
    def prior(self) -> CommonPrior: ...
    @property
    def law(self) -> str: ...  # which was scored, in words
    def fit(self, k: int, positions: Floats, seed: int) -> SiteFit: ...
    def centres(self, b: Floats) -> dict[str, Floats]: ...  # coefficients at b (..., p), in the units of the columns


def common_prior(
    sharing: Sharing,
    names: tuple[str, ...],
    widths: Floats,
    given: tuple[Floats, Floats],
    noise: tuple[float, float] | None = None,
) -> CommonPrior:
    """The prior of centre and spread, from the mean and covariance of the coefficients among b."""
    mean, covariance = given
    count, size = len(mean), len(names)
    centre, precision = np.zeros(size), np.zeros((size, size))
    centre[:count], precision[:count, :count] = mean, np.linalg.inv(covariance)
    scale = np.full(size, SHARE_OF_DEFAULT)
    for k, name in enumerate(names):
        stated = sharing.scale(name, is_noise=k >= count)
        if k >= count:
            scale[k] = NOISE_SCALE
        if stated is not None:
            scale[k] = stated / widths[k]
    return CommonPrior(centre, (precision + precision.T) / 2, scale, noise)
