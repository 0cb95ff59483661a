"""likelihood_of: p(releases | theta) for everybody: for a sampler, a model or a design of one's own.

What `infer` scores is handed out as it is: the log-likelihood of K values of theta at once, its score, and simulated
values of the same releases. Releases of the same records are scored by their joint law and simulated from the same
records; those of different records multiply.

Log-likelihoods are log-probabilities of the published lattice integers. For continuous noise of a measurement made
elsewhere the lattice is of our own making, so there, and between releases of different lattices, a constant that does
not depend on theta has no meaning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.inference.population_methods import PopulationProblem
from noisewise.joining import Joined, joined_by_prior, one_schema
from noisewise.likelihood.joint import Product, checked_releases
from noisewise.likelihood.presence import present_releases
from noisewise.likelihood.simulate import noisy_values
from noisewise.likelihood.size_prior import Sizes
from noisewise.models.protocol import population_for
from noisewise.populations.parameters import Array, Theta, missing_members, rows_at, rows_of
from noisewise.populations.population import AnyPopulation
from noisewise.populations.presence import sample_present
from noisewise.release import NoisyValue
from noisewise.types import Floats, Integers

__all__ = ["OpenLikelihood", "likelihood_of"]

MOST_RECORDS = 5_000_000  # numbers of simulated records that are held at once


@dataclass(frozen=True, slots=True, eq=False)
class OpenLikelihood:
    """p(releases | theta); make one with `likelihood_of(releases, population)`."""

    problem: PopulationProblem
    joined: Joined

    @property
    def free(self) -> tuple[str, ...]:
        """The unknowns that theta names."""
        return self.problem.population.free

    @property
    def releases(self) -> tuple[NoisyValue, ...]:
        return self.joined.releases

    @property
    def is_exact(self) -> bool:
        """Whether every law is the statistic's own, and not the central limit theorem's."""
        return self.problem.likelihood.is_exact

    @property
    def because(self) -> str:
        """Which law is scored, and why."""
        return self.problem.law

    def log_likelihood(self, theta: Mapping[str, object]) -> Floats:
        """log p(releases | theta), one number for each row of theta: (K,).

        Parameters: `theta` names every unknown, as in {"mean": [40, 45], "sd": [10, 10]}: K numbers each, or one;
        (K, m) for a vector. Minus infinity where theta lets no record be inside the bounds.
        """
        return np.asarray(self.problem.theta.likelihood(self._rows(theta)))

    def score(self, theta: Mapping[str, object]) -> dict[str, Floats]:
        """The slope of `log_likelihood` in each unknown that is a single number: (K,) by name."""
        law = cast(Product, self.problem.likelihood)  # the noise is never ignored here
        return {name: np.asarray(value) for name, value in law.score(self._rows(theta)).items()}

    def simulate(self, rng: np.random.Generator, theta: Mapping[str, object]) -> tuple[Floats, ...]:
        """Values of these releases from made-up records at theta, as people read them: for each release (K, size).

        One data set for each row of theta, with simulated noise of the same law; releases of the same records are
        simulated from the same records.
        """
        rows = self._rows(theta)
        found: dict[int, Floats] = {}
        for group in self.joined.groups:
            members = one_schema(self.joined.members(group))
            for index, values in zip(group, self._group(rng, members, self.joined.size(group), rows), strict=True):
                found[index] = values
        return tuple(found[index] for index in range(len(self.releases)))

    def _group(self, rng: np.random.Generator, members: Sequence[NoisyValue], n: int, theta: Theta) -> list[Floats]:
        """Values of releases of the same records."""
        plans, schema = [release.as_plan() for release in members], members[0].schema
        columns = sorted({name for release in members for name in release.statistic.columns()})
        each = max(1, MOST_RECORDS // (n * len(columns)))
        pieces: list[list[Floats]] = []
        for start in range(0, rows_of(theta), each):
            some = {name: np.asarray(value)[start : start + each] for name, value in theta.items()}
            records = sample_present(rng, self.problem.population, schema, n, some, columns)
            pieces.append(
                [_read(one, noisy_values(rng, plan, records)) for one, plan in zip(members, plans, strict=True)]
            )
        return [np.concatenate(parts) for parts in zip(*pieces, strict=True)]

    def _rows(self, theta: Mapping[str, object]) -> dict[str, Array]:
        given = rows_at(theta, self.problem.population.supports)
        rows = max(len(value) for value in given.values())
        return {name: np.broadcast_to(value, (rows, *value.shape[1:])) for name, value in given.items()}


def likelihood_of(
    releases: NoisyValue | Sequence[NoisyValue],
    population: AnyPopulation,
    *,
    likelihood: str = "auto",
    n: Sizes = None,
) -> OpenLikelihood:
    """The likelihood that `infer` uses, for one's own sampler or model.

    Parameters
    ----------
    releases
        One release or measurement, or several; joined as in `infer`.
    population
        What describes a record, with priors where a parameter is unknown (they are not in the likelihood).
    likelihood
        "auto" (default), or "clt" for the central limit theorem alone.
    n
        The number of records, where it is private (add-remove), or its prior, which is then summed over. Default None.

    Returns
    -------
    OpenLikelihood
        With `log_likelihood(theta)`, `score(theta)`, `simulate(rng, theta)`, and `free`, `because`, `is_exact` that
        say of what, by which law and why.

    Examples
    --------
    >>> schema = nw.Schema({"smokes": nw.Levels(["no", "yes"])}, n=500, neighbours="change-one")
    >>> count = nw.plan(nw.Count(nw.column("smokes").equals("yes")), schema, guarantee=nw.PureDP(1))
    >>> population = nw.Bernoulli(p=stats.beta(1, 1))
    >>> law = nw.likelihood_of(nw.simulate(count, population, at={"p": 0.3}, seed=1), population)
    >>> law.free, law.is_exact, law.log_likelihood({"p": [0.2, 0.3]}).shape
    (('p',), True, (2,))
    """
    described = population_for(population, releases)
    if missing_members(described, AnyPopulation):
        raise InvalidArgument(
            f"population is a {type(population).__name__}, whose likelihood is inside its own methods; likelihood_of "
            "takes a population, as Normal(...) or Joint(...).",
            argument="population",
        )
    own, together = cast(AnyPopulation, described), joined_by_prior(checked_releases(releases), n)
    problem = PopulationProblem(present_releases(together.releases, own), own, likelihood, n)
    return OpenLikelihood(problem, together)


def _read(release: NoisyValue, values: Integers) -> Floats:
    """Lattice integers (K, size) as people read them."""
    return np.array([release.law.read(np.asarray(row, dtype=float)) for row in values]) / release.divisor
