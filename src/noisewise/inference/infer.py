"""infer: from releases and a population or a model to a calibrated posterior, saying which method was used and why.

What is learnt decides how: a population by the methods of `models.population`, a model by its own. Nothing here can see
a record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from noisewise.models.protocol import model_for
from noisewise.release import NoisyValue

if TYPE_CHECKING:
    from noisewise.inference.posterior import Posterior
    from noisewise.likelihood.size_prior import Sizes
    from noisewise.models.protocol import Model
    from noisewise.populations.population import AnyPopulation

__all__ = ["infer"]


def infer(
    releases: NoisyValue | Sequence[NoisyValue],
    population: AnyPopulation | Model,
    *,
    method: str = "auto",
    likelihood: str = "auto",
    draws: int = 1000,
    warmup: int = 1000,
    chains: int = 4,
    seed: int | None = None,
    progress: bool | Callable[[int, int], None] = True,
    n: Sizes = None,
    **method_options: Any,
) -> Posterior:
    """The posterior of what a population or a model does not know, given one or several releases, or measurements.

    `n` states the number of records where it is private (add-remove), or is a prior of it, as stats.poisson(1000): then
    n is an unknown beside the others, told by noisy counts of the same records and by every sum. `draws` and `warmup`
    are per chain; methods that draw independently need no warm-up. The same seed gives the same draws.
    """
    return model_for(population, releases).posterior(
        releases, method=method, likelihood=likelihood, draws=draws, warmup=warmup, chains=chains, seed=seed,
        progress=progress, n=n, **method_options,
    )  # fmt: skip
