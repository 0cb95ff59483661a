"""What a likelihood offers: the law of the releases of one group of records, as a function of the unknown parameters.

A `Likelihood` is chosen from the releases by their structure (`joint.py`). It says which law it is and why
(`because`), and whether that law is the statistic's own (`is_exact`) or the central limit theorem's.
Log-likelihoods are log-probabilities of the published integers, so those of different laws can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from noisewise.likelihood.differences import central_difference
from noisewise.populations.parameters import Array, Support, Theta
from noisewise.populations.population import AnyPopulation
from noisewise.release import Release

Described = AnyPopulation  # records, as far as a likelihood asks
Parameters = Callable[[Array], Theta]  # a sampler's position (K, size) to theta


@runtime_checkable
class Likelihood(Protocol):
    """p(releases | theta) of one group of records."""

    @property
    def releases(self) -> tuple[Release, ...]: ...
    @property
    def is_exact(self) -> bool: ...
    @property
    def because(self) -> str:
        """One sentence: which law this is, and why it was chosen."""
        ...

    @property
    def cautions(self) -> tuple[str, ...]:
        """Where this law is known to fall short for these releases: sentences that open the verdict."""
        ...

    def log_likelihood(self, theta: Theta) -> Array:
        """log p(y | theta), (K,)."""
        ...

    def score(self, theta: Theta) -> dict[str, Array]:
        """d log p(y | theta) / d theta for each scalar unknown, (K,)."""
        ...

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """The confidential statistic given y and theta, one draw a row, in the units people read: (K, d)."""
        ...

    def latent(self, parameters: Parameters) -> Any:
        """What lies between theta and the release, for kernels that keep it as a variable; None if there is no form."""
        ...


def scalar_supports(population: Any) -> dict[str, Support]:
    """The unknowns that are single numbers, and where they live."""
    return {name: support for name, support in population.supports.items() if support.size is None}


def numerical_score(
    log_likelihood: Callable[[Theta], Array], theta: Theta, supports: Mapping[str, Support]
) -> dict[str, Array]:
    """The score by differences of the log-likelihood itself."""
    return {name: central_difference(log_likelihood, theta, name, support) for name, support in supports.items()}
