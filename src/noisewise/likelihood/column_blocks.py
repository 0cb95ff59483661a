"""Components that read independent columns: the releases of one group of records, block by block.

The columns of a `Joint` population are independent given theta, and so is the noise of every component. Components that
share no column with others are therefore independent of them, though all are of the same records:
    p(y | theta) = prod_b p(y_b | theta_b),      b the blocks of components that are linked by columns,
each with the law that its own structure allows (a mean of ages its joint law, a share of smokers a binomial count) and
with the parameters of its own columns only. A mean of several columns is cut into one of each block, with its part of
the noise; `releases` and the order of components stay those that were published.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from noisewise.likelihood.model import GroupLaw, Likelihood
from noisewise.likelihood.normal_rows import cautions_at
from noisewise.likelihood.normal_sum import NormalSum, row_of
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import AnyPopulation, Joint
from noisewise.release import NoisyValue
from noisewise.statistics import Mean, Sum

__all__ = ["ColumnBlocks"]

MakeLaw = Callable[[tuple[NoisyValue, ...], Any], Likelihood]
CUT: dict[str, type[Mean] | type[Sum]] = {"mean": Mean, "sum": Sum}  # statistics whose components can be taken apart


@dataclass(frozen=True, slots=True, eq=False)
class ColumnBlocks(GroupLaw):
    """Likelihoods of blocks of components, and the places (one array a block) of these among all components."""

    releases: tuple[NoisyValue, ...]
    parts: tuple[Any, ...]
    places: tuple[Any, ...]

    @classmethod
    def of(
        cls, releases: tuple[NoisyValue, ...], population: AnyPopulation, *, n: int, make: MakeLaw
    ) -> ColumnBlocks | None:
        """None where all columns are linked by components; `make` gives the law of the releases of one block."""
        if not isinstance(population, Joint):
            return None
        model, columns = NormalSum(releases, population, n=n), set(population.columns)
        blocks, read = model.blocks, frozenset[str]().union(*(feature.columns() for feature in model.row))
        if not read <= columns or (len(blocks) < 2 and read == columns):
            return None
        sizes = [len(release.value) for release in releases]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
        parts, places = [], []
        for block in blocks:
            chosen, place = [], []
            for release, start, size in zip(releases, starts, sizes, strict=False):
                own = [int(j) - int(start) for j in block if start <= j < start + size]
                if not own:
                    continue
                if len(own) < size and release.statistic.kind not in CUT:
                    return None
                chosen.append(release if len(own) == size else some_components(release, own))
                place += [int(start) + j for j in own]
            if len({release.divisor for release in chosen}) > 1 and len(place) == len(chosen):
                return None  # a count and a mean of the same condition are drawn as one number
            names = frozenset[str]().union(*(f.columns() for release in chosen for f in row_of(release)))
            parts.append(make(tuple(chosen), population.of_columns(names)))
            places.append(np.array(place))
        return cls(releases, tuple(parts), tuple(places))

    @property
    def by_columns(self) -> tuple[Any, ...]:
        return self.parts

    @property
    def is_exact(self) -> bool:
        return all(part.is_exact for part in self.parts)

    @property
    def because(self) -> str:
        each = "; ".join(part.because for part in self.parts)
        return each if len(self.parts) == 1 else f"{len(self.parts)} blocks of independent columns: {each}"

    @property
    def cautions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(caution for part in self.parts for caution in part.cautions))

    @property
    def roughness(self) -> float:
        return max(float(part.roughness) for part in self.parts)

    @property
    def mixing(self) -> int:
        return sum(part.mixing for part in self.parts)

    @property
    def mixing_scale(self) -> Array:
        return np.concatenate([part.mixing_scale for part in self.parts])

    def log_likelihood(self, theta: Theta) -> Array:
        return np.asarray(sum(part.log_likelihood(_own(part, theta)) for part in self.parts))

    def log_likelihood_given(self, theta: Theta, variances: Array) -> Array:
        total, start = np.zeros(len(variances)), 0
        for part in self.parts:
            own, size = _own(part, theta), part.mixing
            mixed = variances[:, start : start + size]
            total = total + (part.log_likelihood_given(own, mixed) if size else part.log_likelihood(own))
            start += size
        return total

    def score(self, theta: Theta) -> dict[str, Array]:
        """Of unknowns whose columns are not read, too: it is zero."""
        found = {name: np.zeros(len(value)) for name, value in theta.items() if np.ndim(value) == 1}
        for part in self.parts:
            found |= part.score(_own(part, theta))
        return found

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        rows = len(next(iter(theta.values())))
        drawn = np.empty((rows, sum(len(place) for place in self.places)))
        for part, place in zip(self.parts, self.places, strict=True):
            drawn[:, place] = part.draw_statistic(rng, _own(part, theta))
        return drawn

    def integrated(self) -> ColumnBlocks | None:
        """The same with the noise of every block integrated out; None where that is felt."""
        parts = tuple(part.integrated() for part in self.parts)
        return None if any(part is None for part in parts) else replace(self, parts=parts)

    @property
    def quick(self) -> ColumnBlocks | None:
        """The same with quicker laws near those of the blocks; None where no block has one."""
        parts = tuple(part.quick or part for part in self.parts)
        is_new = any(new is not old for new, old in zip(parts, self.parts, strict=True))
        return replace(self, parts=parts) if is_new else None


@cautions_at.register
def _(model: ColumnBlocks, theta: Theta) -> tuple[str, ...]:
    return tuple(dict.fromkeys(caution for part in model.parts for caution in cautions_at(part, _own(part, theta))))


def some_components(release: NoisyValue, chosen: list[int]) -> NoisyValue:
    """The components of a mean or a sum that are named by their places, as a release of their own."""
    row = row_of(release)
    return release.some_components(chosen, CUT[release.statistic.kind](*(row[j] for j in chosen)))


def _own(part: Any, theta: Theta) -> Theta:
    return {name: theta[name] for name in part.population.free}
