"""What a likelihood offers: the law of the releases of one group of records, as a function of the unknown parameters.

A `Likelihood` is chosen from the releases by their structure (`joint.py`). It says which law it is and why
(`because`), and whether that law is the statistic's own (`is_exact`) or the central limit theorem's.
Log-likelihoods are log-probabilities of the published integers, so those of different laws can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.likelihood.differences import central_difference
from noisewise.populations.parameters import Array, Support, Theta
from noisewise.populations.population import AnyPopulation
from noisewise.printable import shown
from noisewise.release import NoisyValue

if TYPE_CHECKING:
    from noisewise.likelihood.conjugate import BetaPosterior, DirichletPosterior, MergedPosterior

Parameters = Callable[[Array], Theta]  # a sampler's position (K, size) to theta


@runtime_checkable
class Likelihood(Protocol):
    """p(releases | theta) of one group of records."""

    @property
    def releases(self) -> tuple[NoisyValue, ...]: ...
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


class GroupLaw:
    """What the law of a group is unless it says otherwise: nothing mixed, nothing rough, nothing conjugate."""

    __slots__ = ()

    @property
    def mixing(self) -> int:
        """How many mixing variances are to be sampled with theta (`log_likelihood_given`)."""
        return 0

    @property
    def mixing_scale(self) -> Array:
        """The Laplace scale behind each of them."""
        return np.empty(0)

    @property
    def roughness(self) -> float:
        """The relative error of the likelihood itself: finer quadrature is not worth it."""
        return 0.0

    @property
    def is_quick(self) -> bool:
        """Whether it is a closed form, which may be asked hundreds of thousands of times."""
        return False

    @property
    def quick(self) -> Any:
        """A law near this one at a small part of its cost, which may propose; None where there is none."""
        return None

    @property
    def is_table(self) -> bool:
        """Whether it is the law of cells of which a record is in one (`count_models.TableLaw`)."""
        return False

    @property
    def by_columns(self) -> tuple[Any, ...]:
        """The laws of independent columns that it is made of: only itself, unless it says otherwise."""
        return (self,)

    def integrated(self) -> Any:
        """The same with mixing variances integrated out, itself where there are none; None where that is felt."""
        return self

    @property
    def is_joint_sum(self) -> bool:
        """Whether it is the joint law of several sums of few records, or the tilted one."""
        return False

    def log_likelihood_given(self, theta: Theta, variances: Array) -> Array:
        """log p(y | theta, w) at mixing variances w (K, mixing)."""
        raise Unsupported(
            f"{type(self).__name__} mixes none of {variances.shape[1]} variances beside {len(theta)} unknowns."
        )

    def latent(self, parameters: Parameters) -> Any:
        """What lies between theta and the release, for kernels that keep it as a variable; None if there is no form."""
        return None

    def left_out_logs(self, theta: Theta) -> Array | None:
        """log p without each of the batches of a bank that it rests on, (K, batches); None where it rests on none."""
        del theta
        return None

    @property
    def settled(self) -> Any:
        """The population as this law took it, where it settled something of it (how large a bank is); else None."""
        return None

    def conjugate(self) -> BetaPosterior | DirichletPosterior | MergedPosterior | None:
        """The posterior as a mixture over confidential counts, where the prior is conjugate; else None."""
        return None


def check_likelihood(likelihood: object) -> None:
    """Refuse a name that is neither the best law there is nor the normal one."""
    if likelihood not in ("auto", "clt"):
        raise InvalidArgument(f"likelihood = {shown(likelihood, 40)}: it is 'auto' or 'clt'.", argument="likelihood")


def scalar_supports(population: AnyPopulation) -> dict[str, Support]:
    """The unknowns that are single numbers, and where they live."""
    return {name: support for name, support in population.supports.items() if support.size is None}


def numerical_score(
    log_likelihood: Callable[[Theta], Array], theta: Theta, supports: Mapping[str, Support]
) -> dict[str, Array]:
    """The score by differences of the log-likelihood itself."""
    return {name: central_difference(log_likelihood, theta, name, support) for name, support in supports.items()}
