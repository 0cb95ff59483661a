"""How surprising a release is under the fitted model: the posterior predictive check.

Replicate releases are simulated at posterior draws: records from the population, the statistic on its lattice, noise
of the declared law. A component's tail probability is two-sided,
    p_j = 2 min(P(y_rep <= y), P(y_rep >= y)),   at most 1,
with the release counted among its replicates. Over several components the largest distance from the median,
    d = max_j |y_j - median_j| / (the distance of the 5 % or 95 % quantile on that side),
is compared with that of every replicate, so that many components are not many chances to be surprised. A small value
says that the population does not describe these records (or that a bound or n is not what was said); a large one proves
nothing. The release was also used for the fit, which makes the check mild. Releases of the same records are replicated
one by one.

Where the releases tell no more numbers than there are unknowns (`degrees`) nothing could be surprising but the prior:
then the sentence is that they cannot be checked, and what to release so that they can. Local answers are checked by a
chi-square over their cells (`cells`), without simulation; several checks of different records are joined by
    overall = 1 - (1 - smallest)^checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisewise.errors import Unsupported
from noisewise.inference.cells import check_by_cells
from noisewise.inference.degrees import Degrees, more_answers, told_by_one
from noisewise.likelihood.stated_n import noisy_totals
from noisewise.models.protocol import Model
from noisewise.populations.parameters import Theta
from noisewise.release import NoisyValue
from noisewise.types import Floats, Ints

__all__ = ["Check", "overall_tail", "predictive_check", "replicate_count", "tail_probabilities"]

MOST_REPLICATES, FEWEST_REPLICATES = 1000, 50
MOST_RECORDS, MOST_NUMBERS = 50_000_000, 20_000_000
UNUSUAL, SURPRISING = 0.05, 0.01


@dataclass(frozen=True, slots=True)
class Check:
    """The tail probability of each component of the releases, and of all of them together."""

    components: Mapping[str, float]
    overall: float
    replicates: int  # 0 where nothing was simulated
    degrees: Degrees | None = None  # numbers told and unknowns, where they are known

    @property
    def is_checkable(self) -> bool:
        """Whether anything but the prior could be surprising: more numbers were told than there are unknowns."""
        return self.degrees is None or self.degrees.is_checkable

    @property
    def is_surprising(self) -> bool:
        """Rarer than one in a hundred, or beyond every replicate on one side."""
        is_beyond = self.replicates > 0 and self.overall <= 2 / (self.replicates + 1)
        return self.overall < SURPRISING or is_beyond

    def __str__(self) -> str:
        what = "The release is"
        number = f"(tail probability {self.overall:.2g})"
        if not self.is_checkable:
            return self._unchecked(number)
        if self.overall >= UNUSUAL and not self.is_surprising:
            return f"{what} not surprising under the fitted model {number}.{self._limits()}"
        worst = min(self.components, key=lambda label: self.components[label])
        where = f", most of all in {worst}" if len(self.components) > 1 else ""
        if not self.is_surprising:
            return f"{what} somewhat unusual under the fitted model {number}{where}."
        return (
            f"{what} surprising under the fitted model {number}{where}: the population, a bound or n may not be what "
            "was assumed."
        )

    def _unchecked(self, number: str) -> str:
        """Nothing but a prior that contradicts the release can be seen, and then only that is said."""
        assert self.degrees is not None
        if self.is_surprising:
            return (
                f"The release is surprising under the fitted model {number}: prior and release disagree, so that the "
                "prior, the population, a bound or n may not be what was assumed."
            )
        told = "1 number" if self.degrees.told == 1 else f"{self.degrees.told} numbers"
        unknowns = "1 unknown" if self.degrees.unknowns == 1 else f"{self.degrees.unknowns} unknowns"
        return (
            f"The population cannot be checked by this release: it tells {told} for {unknowns}, so some parameters fit "
            f"whatever the records are. {self.degrees.advice}"
        ).rstrip()

    def _limits(self) -> str:
        if self.degrees is None or self.degrees.checks_shape:
            return ""
        return " That compares the parts with each other, not the population's shape with the records."

    def to_dict(self) -> dict[str, object]:
        """Plain data, for a file."""
        counted = None if self.degrees is None else asdict(self.degrees)
        told = {"components": dict(self.components), "degrees": counted}
        return {**told, "overall": self.overall, "replicates": self.replicates}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Check:
        """The check that was written."""
        components = {str(name): float(tail) for name, tail in plain["components"].items()}
        counted = None if plain["degrees"] is None else Degrees(**plain["degrees"])
        return cls(components, float(plain["overall"]), int(plain["replicates"]), counted)


def predictive_check(
    rng: np.random.Generator,
    releases: tuple[NoisyValue, ...],
    model: Model,
    theta: Theta,
    sizes: Sequence[int | Ints],
    *,
    unknown: int = 0,
) -> Check:
    """The check at the K parameter values `theta`; `sizes` are the numbers of records behind each release.

    Where that number is unknown it is one for each row of theta. Of these `unknown` numbers each is settled by what is
    released, as a parameter is, and told by a noisy total, where there is one.
    """
    counted = model.degrees(releases, theta)
    if unknown:
        totals = len({(one.dataset, one.part) for one in releases if noisy_totals(one)})
        counted = replace(counted, told=counted.told + totals, unknowns=counted.unknowns + unknown)
    components: dict[str, float] = {}
    overall: list[float] = []
    columns: list[Floats] = []
    labels: list[str] = []
    for index, (release, n) in enumerate(zip(releases, sizes, strict=True)):
        suffix = f" (release {index + 1})" if len(releases) > 1 else ""
        if release.statistic.is_local:
            by_cells = check_by_cells(release, model.described, theta, counted.unknowns)
            if by_cells.overall is None:
                # The answers settle unknowns, as far as they go; nothing of them is left over for a check.
                more = counted.unknowns - told_by_one(release) + 1
                told = counted.told - told_by_one(release) + min(told_by_one(release), counted.unknowns)
                advice = more_answers(release, more)
                counted = replace(counted, told=told, shapes=min(counted.shapes, told), advice=advice)
            else:
                overall.append(by_cells.overall)
                components |= {f"{name}{suffix}": tail for name, tail in by_cells.components.items()}
            continue
        drawn = _replicates(rng, model, release, theta, n)
        columns.append(np.concatenate([np.array([release.value], dtype=float), np.asarray(drawn, dtype=float)]))
        labels += [f"{name}{suffix}" for name in release.labels]
    replicates = 0
    if columns:
        together = np.concatenate(columns, axis=1)
        components |= dict(zip(labels, tail_probabilities(together).tolist(), strict=True))
        overall.append(overall_tail(together))
        replicates = len(together) - 1
    smallest = min(overall, default=1.0)
    joined = smallest if len(overall) < 2 else -float(np.expm1(len(overall) * np.log1p(-min(smallest, 1 - 1e-16))))
    return Check(components, joined, replicates, counted)


def _replicates(
    rng: np.random.Generator, model: Model, release: NoisyValue, theta: Theta, n: int | Ints
) -> NDArray[np.int64]:
    """One simulated release for each row of theta, of the same number of records or of a number of its own."""
    plan = release.as_plan()
    if np.ndim(n) == 0:
        stated = None if release.schema.is_change_one else int(n)
        return model.simulate_values(rng, plan, theta, n=stated, approximate=True)
    drawn = np.zeros((np.size(n), len(release.value)), np.int64)
    every = np.asarray(n)
    for size in np.unique(every):
        some = np.flatnonzero(every == size)
        rows = {name: np.asarray(value)[some] for name, value in theta.items()}
        drawn[some] = model.simulate_values(rng, plan, rows, n=int(size), approximate=True)
    return drawn


def replicate_count(releases: tuple[NoisyValue, ...], sizes: list[int]) -> int:
    """As many replicates as are worth their time and memory."""
    if not releases:
        raise Unsupported("There is no release to check.")
    records, numbers = max(sizes), max(len(release.value) for release in releases)
    return max(FEWEST_REPLICATES, min(MOST_REPLICATES, MOST_RECORDS // records, MOST_NUMBERS // numbers))


def tail_probabilities(pooled: Floats) -> Floats:
    """The two-sided tail probability of the first row among all rows, component by component."""
    below, above = (pooled <= pooled[0]).mean(axis=0), (pooled >= pooled[0]).mean(axis=0)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(below, above)))


def overall_tail(pooled: Floats) -> float:
    """The share of rows at least as far out, in their farthest component, as the first."""
    if pooled.shape[1] == 1:
        return float(tail_probabilities(pooled)[0])
    low, median, high = np.quantile(pooled, [0.05, 0.5, 0.95], axis=0)
    deviation = pooled - median
    scale = np.where(deviation > 0, high - median, median - low)
    scale = np.where(scale > 0, scale, np.maximum(pooled.std(axis=0), np.finfo(float).tiny))
    distance = np.max(np.abs(deviation) / scale, axis=1)
    return float(np.mean(distance >= distance[0]))
