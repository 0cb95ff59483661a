"""What is believed before a release: parameter values to average over, and how well they are known already.

The belief is the prior of a population, or a posterior from earlier releases. Its `rows` are the parameter values at
which information is computed: 64 fixed quasi-random draws from the prior, as many draws taken at equal distances from
a posterior, or the values given by `at`. They are the same for every plan that is compared, so that plans are compared
on common ground. Its `covariance` Sigma is that of the prior or of the posterior's draws, never of `at`: to look at
one parameter value is not to know it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewise.design.coordinates import PRIOR_DRAWS, coordinate_names, given_rows, prior_rows
from noisewise.exact import integer
from noisewise.inference.posterior import Posterior
from noisewise.models.protocol import model_of
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import AnyPopulation

MOST_ROWS = 2**16
COVARIANCE_DRAWS = 2**12


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """A population, the parameter values it is looked at, and the covariance of what is unknown about them."""

    population: AnyPopulation
    rows: Theta  # where information is computed
    draws: Theta  # of the prior or the posterior, whatever the rows
    covariance: Array  # (P, P), in the coordinates of `names`
    words: str  # which rows these are

    @property
    def names(self) -> tuple[str, ...]:
        """The coordinates: one a scalar unknown, all but the last of a simplex."""
        return coordinate_names(self.population)

    @property
    def precision(self) -> Array:
        """Sigma^-1: what is known already, in the currency of Fisher information."""
        scale = np.sqrt(np.diag(self.covariance))
        return np.asarray(np.linalg.inv(self.covariance / np.outer(scale, scale)) / np.outer(scale, scale))


def believe(source: Any, *, at: object = None, draws: object = None) -> Belief:
    """What a population's prior or a posterior believes, looked at in `draws` of its draws, or `at` given values."""
    count = PRIOR_DRAWS if draws is None else integer(draws, "draws", minimum=1, maximum=MOST_ROWS)
    population = source.population if isinstance(source, Posterior) else source
    model = model_of(population)
    coordinate_names(population)  # refuses a population without unknowns
    if isinstance(source, Posterior):
        kept = (*model.free, *model.unlisted)
        known = {name: _flat(source.draws[name]) for name in kept if name in source.draws}
        drawn, words = _spaced(known, count), "the posterior"
    else:
        known = prior_rows(population, COVARIANCE_DRAWS)
        drawn, words = prior_rows(population, count), "the prior"
    covariance = _covariance(population, known)
    if at is None:
        return Belief(population, drawn, drawn, covariance, f"averaged over {rows_of(drawn)} draws from {words}")
    rows = given_rows(population, at)
    return Belief(population, rows, drawn, covariance, _at(rows))


def middle(belief: Belief) -> dict[str, Array]:
    """The parameter value in the middle of the rows: medians, or means of probabilities on a simplex."""
    return {
        name: np.median(value, axis=0, keepdims=True) if np.ndim(value) == 1 else np.mean(value, axis=0, keepdims=True)
        for name, value in belief.rows.items()
    }


def _covariance(population: AnyPopulation, known: Theta) -> Array:
    columns = np.concatenate(
        [np.reshape(value, (len(value), -1))[:, : population.supports[name].unknowns]
         for name, value in ((name, known[name]) for name in population.free)], axis=1
    )  # fmt: skip
    columns = columns[np.isfinite(columns).all(axis=1)]
    if len(columns) < 2 or not np.all(np.ptp(columns, axis=0) > 0):
        # A point estimate: nothing says how well it is known, so nothing is taken to be known beside the release.
        return np.diag(np.full(columns.shape[1], 1e100))
    return np.atleast_2d(np.cov(columns, rowvar=False))


def _flat(draws: Array) -> Array:
    return draws.reshape(-1, *draws.shape[2:])


def _spaced(known: Theta, count: int) -> dict[str, Array]:
    """`count` draws at equal distances, all of them where there are fewer."""
    total = rows_of(known)
    chosen = np.unique(np.linspace(0, total - 1, min(count, total)).round().astype(int))
    return {name: value[chosen] for name, value in known.items()}


def _at(rows: Theta) -> str:
    if rows_of(rows) > 1:
        return f"averaged over the {rows_of(rows)} parameter values given"
    shown = (f"{name} = {', '.join(f'{one:.4g}' for one in np.ravel(value))}" for name, value in rows.items())
    return f"at {'; '.join(shown) if any(np.ndim(value) > 1 for value in rows.values()) else ', '.join(shown)}"
