"""What the records themselves tell: conjugate posteriors without privacy, the yardstick of every private method.

    family        record        prior                                 posterior, s = sum x
    binomial      0 or 1        p ~ Beta(a, b)                        Beta(a + s, b + n - s)
    multinomial   0 .. m-1      p ~ Dirichlet(alpha)                  Dirichlet(alpha + counts)
    poisson       0, 1, 2 ..    rate ~ Gamma(a, rate b)               Gamma(a + s, rate b + n)
    exponential   x > 0         rate ~ Gamma(a, rate b)               Gamma(a + n, rate b + s)
    normal        any number    mean | v ~ N(m, v/k), v ~ InvGamma(a, b): v the variance; (m, k, a, b) in that order

Nothing here is private and nothing is published: records go in, draws of the parameter come out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from noisewise.errors import InvalidArgument
from noisewise.exact import integer
from noisewise.populations.parameters import Array
from noisewise.printable import shown

Draw = Callable[[np.random.Generator, Array, Sequence[float], int], dict[str, Array]]


def non_private(
    rng: np.random.Generator, family: str, records: ArrayLike, *, prior: Sequence[float], draws: int
) -> dict[str, Array]:
    """Independent draws, by parameter, from the posterior given the records (n,) as they are."""
    if family not in FAMILIES:
        raise InvalidArgument(f"family = {shown(family, 40)}: there are {', '.join(FAMILIES)}.", argument="family")
    integer(draws, "draws", minimum=1)
    return FAMILIES[family](rng, np.asarray(records, float).ravel(), prior, draws)


def _binomial(rng: np.random.Generator, x: Array, prior: Sequence[float], draws: int) -> dict[str, Array]:
    a, b = prior
    return {"p": rng.beta(a + x.sum(), b + x.size - x.sum(), draws)}


def _multinomial(rng: np.random.Generator, x: Array, prior: Sequence[float], draws: int) -> dict[str, Array]:
    counts = np.bincount(x.astype(np.int64), minlength=len(prior))
    return {"p": rng.dirichlet(np.array(prior) + counts, draws)}


def _poisson(rng: np.random.Generator, x: Array, prior: Sequence[float], draws: int) -> dict[str, Array]:
    a, b = prior
    return {"rate": rng.gamma(a + x.sum(), 1 / (b + x.size), draws)}


def _exponential(rng: np.random.Generator, x: Array, prior: Sequence[float], draws: int) -> dict[str, Array]:
    a, b = prior
    return {"rate": rng.gamma(a + x.size, 1 / (b + x.sum()), draws)}


def _normal(rng: np.random.Generator, x: Array, prior: Sequence[float], draws: int) -> dict[str, Array]:
    m, k, a, b = prior
    n, mean = x.size, x.mean()
    spread = np.square(x - mean).sum() + k * n / (k + n) * (mean - m) ** 2
    variance = (b + spread / 2) / rng.standard_gamma(a + n / 2, draws)
    return {"mean": rng.normal((k * m + n * mean) / (k + n), np.sqrt(variance / (k + n))), "variance": variance}


FAMILIES: dict[str, Draw] = {
    "binomial": _binomial,
    "multinomial": _multinomial,
    "poisson": _poisson,
    "exponential": _exponential,
    "normal": _normal,
}
