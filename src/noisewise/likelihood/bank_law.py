"""What laws by a bank of base draws share: the mean over a few scrambles, its own error, and how a bank grows.

A bank is a quadrature rule whose points are free of theta: p(y | theta) = E h(y | x(u, theta)) over base draws u that
all theta share, so log p is as smooth in theta as x is. The points come in independent scrambles (`scrambles`), each of
which estimates p alone; a law of this kind says those estimates (`_scramble_logs`), and everything else is told here:
    log p        the logarithm of their mean
    error        the standard error of that, from how far they differ
    a bank that is large enough: the error where the release is explained is measured on a small one, and falls about
    as fast as points grow.
The seed is part of the rule, not of a result: any seed gives the same likelihood within that error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Self

from noisewise.likelihood.model import GroupLaw, numerical_score, scalar_supports
from noisewise.likelihood.scrambles import log_error, log_mean, typical_error, weighted_error
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import AnyPopulation

__all__ = ["AIM", "BankLaw"]

AIM = 0.006  # error of the log-likelihood up to which a bank is large enough


class BankLaw(GroupLaw):
    """The law of releases by a bank. Abstract: a dataclass adds its fields, `_scramble_logs` and `because`."""

    population: AnyPopulation
    seed: int
    tried: Theta | None  # parameters that explain the release well, where the error was measured

    @property
    def roughness(self) -> float:
        """How finely the likelihood is worth integrating: well below its own Monte Carlo error."""
        return 1e-4

    @property
    def cautions(self) -> tuple[str, ...]:
        return ()

    @property
    def is_exact(self) -> bool:
        return True

    def log_likelihood(self, theta: Theta) -> Array:
        return log_mean(self._scramble_logs(theta))

    def error(self, theta: Theta) -> Array:
        """The Monte Carlo standard error of log p(y | theta), (K,), from the scrambles of the base draws."""
        return log_error(self._scramble_logs(theta))

    def score(self, theta: Theta) -> dict[str, Array]:
        """By differences at common base draws: the derivative of the bank's own likelihood."""
        return numerical_score(self.log_likelihood, theta, scalar_supports(self.population))

    @cached_property
    def typical_error(self) -> float:
        """The error of log p where the releases are explained best."""
        if self.tried is None:
            return typical_error(self._scramble_logs, self.population, self.seed).error
        return weighted_error(self._scramble_logs(self.tried))

    @property
    def error_words(self) -> str:
        """The error, as a sentence tells it."""
        return f"Monte Carlo error of the log-likelihood about {self.typical_error:.1g}"

    @classmethod
    def grown(cls, make: Callable[[int], Self], *, fewest: int, most: int) -> Self:
        """The bank that `make` gives at a size from the fewest to the most, large enough by the error of the fewest."""
        pilot = make(fewest)
        error, tried = typical_error(pilot._scramble_logs, pilot.population, pilot.seed)
        wanted = enough(error, fewest=fewest, most=most)
        chosen = pilot if wanted == fewest else make(wanted)
        object.__setattr__(chosen, "tried", tried or None)  # it was made here, and nobody has seen it yet
        return chosen

    def _scramble_logs(self, theta: Theta) -> Array:
        """log p of each scramble alone, (K, N_SCRAMBLES); NaN where theta gives no law."""
        raise TypeError(f"{type(self).__name__} must give the log-likelihood of each scramble at {list(theta)}.")


def enough(error: float, *, fewest: int, most: int) -> int:
    """The size that is large enough when the fewest points leave this error: it falls about as fast as they grow."""
    if not error < AIM * most / fewest:
        return most
    return fewest << max(0, math.ceil(math.log2(max(error, 1e-9) / AIM)))
