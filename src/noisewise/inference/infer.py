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

    It reads no record and costs no privacy. The same seed gives the same draws.

    Parameters
    ----------
    releases
        One, or a list: of different records their likelihoods multiply, of the same records they have one joint law.
    population
        How a record comes about: a population, `Grouped`, a regression, a `GraphicalModel`, a `Simulator`.
    method
        Default "auto", which says what it took and why; the published ones are there by name (docs/inference.md).
    likelihood
        "auto" (default: exact where that is affordable), or "clt" for the central limit theorem alone.
    draws, warmup
        For each chain; default 1000 each. Methods that draw independently need no warm-up.
    chains
        Default 4.
    seed
        Default None: of the system's choice; it is told by `posterior.seed`.
    progress
        Whether progress is shown; or a function of (done, all). Default True.
    n
        The number of records where it is private (add-remove), or a prior of it, as `stats.poisson(1000)`: then n is
        an unknown beside the others, told by noisy counts of the same records and by every sum. Default None.
    method_options
        Options of the method, by name.

    Returns
    -------
    Posterior
        Draws, intervals, a verdict, answers in people's terms.

    Examples
    --------
    >>> schema = nw.Schema({"smokes": nw.Levels(["no", "yes"])}, n=500, neighbours="change-one")
    >>> count = nw.plan(nw.Count(nw.column("smokes").equals("yes")), schema, guarantee=nw.PureDP(1))
    >>> population = nw.Bernoulli(p=stats.beta(1, 1))
    >>> release = nw.simulate(count, population, at={"p": 0.3}, seed=1)
    >>> posterior = nw.infer(release, population, seed=1, progress=False)
    >>> low, high = posterior.interval(0.9)["p"]
    >>> bool(low < 0.3 < high)
    True
    """
    return model_for(population, releases).posterior(
        releases, method=method, likelihood=likelihood, draws=draws, warmup=warmup, chains=chains, seed=seed,
        progress=progress, n=n, **method_options,
    )  # fmt: skip
