"""What an inversion of several sums is about: n records, the noise on each sum, and where each sum is looked for.

The window of a sum is +-(5.5 + 2.5 |skewness|) of its standard deviations under the tilt, cropped to what n records can
reach; that of a sum of evenly spaced values is a stretch of whole numbers, a few more on either side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewise.likelihood.noise_on_sum import NoiseOnSum, Window
from noisewise.likelihood.record_tilt import Pull, Record
from noisewise.populations.parameters import Array

__all__ = ["POINT", "SumSetting"]

WIDTH, PER_SKEWNESS = 5.5, 2.5
FEW_POINTS = 5  # whole numbers added to a lattice's window: a small count has a long tail
POINT = 1e-7  # of the noise: a sum this sure is a point


@dataclass(frozen=True, eq=False)
class SumSetting:
    """n records, the noise on each of r sums, and the lattice of each record's value: lowest, gap, how many."""

    n: int
    noises: tuple[NoiseOnSum, ...]
    lattices: tuple[tuple[float, float, int] | None, ...]
    smears: bool = True  # Gaussian noise alone over the whole line; False where the sums themselves are looked at
    is_whole: bool = False  # whether every frequency of a lattice is taken, however far out

    @cached_property
    def pull(self) -> Pull:
        place, scale, kind = zip(*(noise.pull for noise in self.noises), strict=True)
        return Pull(np.array(place), np.array(scale), np.array(kind))

    def is_smeared(self, k: int) -> bool:
        """Whether sum k is seen through Gaussian noise over the whole line."""
        return self.smears and self.noises[k].is_gaussian and self.lattices[k] is None

    def window(self, k: int, record: Record, centre: Array, sd: Array, skewness: Array) -> tuple[Window, int]:
        """The window of one sum, and how many whole numbers it holds if the sum is one."""
        half = (WIDTH + PER_SKEWNESS * skewness) * sd
        lattice, noise, n = self.lattices[k], self.noises[k], self.n
        if lattice is not None:
            lowest, gap, size = lattice
            half = half + FEW_POINTS * gap
            most = n * (size - 1) + 1
            period = min(most, int(np.ceil(2 * half.max() / gap)) + 1)
            start = np.clip(np.floor((centre - half - n * lowest) / gap), 0, most - period)
            return Window(n * lowest + gap * start, np.full(len(sd), gap * period), centre), period
        if self.is_smeared(k):
            return Window(centre - half, np.maximum(2 * half, 1e-300), centre), 0
        seen = record.logs > -np.inf
        own = record.values[:, :, k]
        lowest, highest = (
            n * np.where(seen, own, np.inf).min(axis=1),
            n * np.where(seen, own, -np.inf).max(axis=1),
        )
        slack = 0.05 * (highest - lowest)
        low, high = np.maximum(centre - half, lowest - slack), np.minimum(centre + half, highest + slack)
        # A sum that cannot move still needs a window, far narrower than the noise.
        least = 4 * POINT * noise.finest
        middle, length = 0.5 * (low + high), np.maximum(high - low, least)
        return Window(middle - 0.5 * length, length, centre), 0
