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
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from noisewise.likelihood.model import Described, Likelihood
from noisewise.likelihood.near_law import quick_law, separate_laws
from noisewise.likelihood.normal_rows import cautions_at
from noisewise.likelihood.normal_sum import NormalSum, row_of, some_components
from noisewise.populations.parameters import Array, Theta
from noisewise.release import Release

__all__ = ["ColumnBlocks"]

CUT = ("mean", "sum")  # kinds of statistics whose components can be taken apart


class OwnLaw(Likelihood, Protocol):
    """A likelihood that knows whose parameters it reads."""

    @property
    def population(self) -> Described: ...


MakeLaw = Callable[[tuple[Release, ...], Described], Likelihood | None]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnBlocks:
    """Likelihoods of blocks of components, and the places (one array a block) of these among all components."""

    releases: tuple[Release, ...]
    parts: tuple[OwnLaw, ...]
    places: tuple[NDArray[np.int64], ...]

    @classmethod
    def of(cls, releases: tuple[Release, ...], population: Described, *, n: int, make: MakeLaw) -> ColumnBlocks | None:
        """None where all columns are linked by components; `make` gives the law of the releases of one block."""
        model = NormalSum(releases, population, n=n)
        blocks, read = model.blocks, frozenset[str]().union(*(feature.columns() for feature in model.row))
        columns = set(population.independent_columns)
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
            law = make(tuple(chosen), population.of_columns(names))
            if law is None:
                return None
            parts.append(cast(OwnLaw, law))
            places.append(np.array(place))
        return cls(releases, tuple(parts), tuple(places))

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

    def log_likelihood(self, theta: Theta) -> Array:
        return np.asarray(sum(part.log_likelihood(_own(part, theta)) for part in self.parts))

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

    def latent(self, parameters: object) -> None:
        """None: every block is summed or integrated by itself."""


@quick_law.register
def _(model: ColumnBlocks) -> ColumnBlocks | None:
    quick = tuple(quick_law(part) for part in model.parts)
    parts = tuple(cast(OwnLaw, new or old) for new, old in zip(quick, model.parts, strict=True))
    return replace(model, parts=parts) if any(quick) else None


@separate_laws.register
def _(model: ColumnBlocks) -> tuple[OwnLaw, ...]:
    return model.parts


@cautions_at.register
def _(model: ColumnBlocks, theta: Theta) -> tuple[str, ...]:
    return tuple(dict.fromkeys(caution for part in model.parts for caution in cautions_at(part, _own(part, theta))))


def _own(part: OwnLaw, theta: Theta) -> Theta:
    return {name: theta[name] for name in part.population.free}
