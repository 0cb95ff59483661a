"""Maximum likelihood as if the noisy tables were the true ones, made proper by a projection and a ridge.

    maximise  theta . m - A(theta) - ridge |theta|^2        over theta that change some probability       (`matching`)

m are the parameters' statistics, read from the published tables (Bernstein et al. 2017, section 3.2 of Bernstein 2020):
1. Each table's shares y/n are projected onto the simplex (Duchi et al. 2008): no share is negative, and they add up to
   what every person contributes to the table. A table that leaves out some cells is only held to that as its most.
2. A cell's share is that of the entry that counts it; cells that an entry adds up have equal parts of it. A table over
   more variables also tells of a factor's cells, by adding up. Several readings j of a cell, from one data set or many,
   are averaged with weights 1/(sigma_j^2 + s_j), sigma_j^2 the variance of the noise in the share, s_j that of sampling
   if all entries of the table were equally likely: an inverse variance that does not depend on the reading itself.
3. m of a parameter is the sum over its cells; cells of a shared parameter that nothing tells of count as the average of
   its others. A parameter of which nothing is told cannot be learned this way.
The tables need not agree with each other, so along directions in which no model moves (v . t(x) constant in x) the
objective would have a slope and no maximum; m is therefore moved along these to what every model has there.

A share of zero drives its parameter to minus infinity, so the ridge decides how good the answer is. Unless it is given,
    2 ridge = 1/n + x^2 / (x + v),       x the noise's standard deviation in m_j (root mean square over the parameters),
                                         v a twentieth of the average m_j.
A standard normal prior on the parameters pulls a fit back by 1/n where there is no noise, and by x^2/v where there is
and the statistic has variance v in one record: small, since it is the rare cells that noise hides. More than x, one
standard deviation of the noise for a parameter of size one, it never pulls. The twentieth is a rule of thumb, found on
chains and random graphs with parameters of order one; the best ridge depends on the truth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisewise.errors import Unsupported
from noisewise.graphical.gauge import gauge_free
from noisewise.graphical.matching import match
from noisewise.graphical.methods import positive_option
from noisewise.graphical.problem import Fit, Holder, Problem
from noisewise.graphical.structure import Regions, onto
from noisewise.types import Floats, Ints

__all__ = ["Statistics", "fit", "onto_simplex", "ridge_rule", "statistics"]

RARE = 0.05  # of the average share: the variance that the ridge's rule supposes
SETTLED = 1e-6  # the largest slope left, in probability, of a fit that is said to have settled


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """What the tables say of each parameter: m, and the variance of the noise in it; not told of: NaN and infinity."""

    shares: Floats  # (p,)
    noise: Floats  # (p,)

    @property
    def is_told(self) -> NDArray[np.bool_]:
        return np.isfinite(self.noise)


def fit(problem: Problem, *, ridge: float | None = None, hold_untold: bool = False) -> Fit:
    """The fit that takes the tables at their word; `hold_untold` leaves parameters of which they do not tell at 0."""
    given = None if ridge is None else positive_option(ridge, "ridge")  # a share of 0 has no finite estimate without
    read = statistics(problem)
    told = read.is_told
    if not (told.all() or hold_untold):
        raise Unsupported(
            f"The published tables do not tell of {np.sum(~told)} of the model's {len(told)} parameters, and "
            'method="naive" cannot learn those. Publish a table of each clique, leave the cliques that were not '
            'published out of the model, or use method="map" or "posterior", in which a prior speaks for them.'
        )
    held = _without(problem, ~told)
    strength = ridge_rule(problem, read) if given is None else given
    target = _agreeing(held, read.shares[told])
    theta = match(held, target, ridge=strength)
    _, mu = held.engine.marginals(held.potentials(theta))
    slope = np.max(np.abs(target - held.gather(mu) - 2 * strength * theta))
    notes = [f"Ridge {strength:.3g}" + (", by the rule for noise of this size." if ridge is None else ", as given.")]
    if slope > SETTLED:
        notes.append(f"The fit stopped before it settled: a slope of {slope:.2g} is left.")
    if not told.all():
        notes.append(f"{np.sum(~told)} parameters of which the tables do not tell were left at 0.")
    whole = np.zeros(len(told))
    whole[told] = theta
    return Fit(whole, 1, tuple(notes))


def ridge_rule(problem: Problem, read: Statistics) -> float:
    """(1/n + x^2 / (x + v)) / 2."""
    noise = float(np.sqrt(np.mean(read.noise[read.is_told])))
    rare = RARE * float(np.mean(read.shares[read.is_told]))
    return (1 / problem.n + noise**2 / (noise + rare)) / 2


def statistics(problem: Problem) -> Statistics:
    """Each parameter's statistic, read from all tables of all holders."""
    tables, spread = problem.engine.tables, problem.spread
    top, weight, noise = (np.zeros(tables.cells) for _ in range(3))
    for holder in problem.holders:
        for part in holder.tables or (slice(0, len(holder.observed)),):
            for reading in _readings(_read(problem, holder, part), tables):
                precision = np.where(reading.is_read, 1 / (reading.noise + reading.sampling), 0.0)
                top += precision * np.where(reading.is_read, reading.shares, 0.0)
                noise += precision**2 * np.where(reading.is_read, reading.noise, 0.0)
                weight += precision
    is_read = (weight > 0) & (spread >= 0)
    count = np.bincount(spread[spread >= 0], minlength=problem.parameters)
    told = np.bincount(spread[is_read], minlength=problem.parameters)
    factor = np.divide(count, told, out=np.full(len(count), np.nan), where=told > 0)

    def summed(values: Floats, power: int) -> Floats:
        part = values[is_read] / weight[is_read] ** power
        return np.asarray(np.bincount(spread[is_read], weights=part, minlength=problem.parameters) * factor**power)

    variance = summed(noise, 2)
    return Statistics(summed(top, 1), np.where(told > 0, variance, np.inf))


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    """Shares of cells as one table tells them, with the variances of noise and of sampling."""

    is_read: NDArray[np.bool_]
    shares: Floats
    noise: Floats
    sampling: float


def _read(problem: Problem, holder: Holder, part: slice) -> _Reading:
    """The cells that a table's entries count, each with its part of the projected share."""
    sums, cells = holder.sums[part], problem.engine.tables.cells
    shares = _projected(holder.observed[part] / holder.n, sums, problem.engine.tables)
    pattern = sparse.csr_array((sums != 0).astype(float))
    weight, many = np.asarray(sums.sum(axis=1)), np.asarray(pattern.sum(axis=1))
    shares, noise = shares / weight, holder.variance[part] / holder.n**2 * many / weight**2
    is_plain = _is_of_one(pattern, problem.spread)
    is_read = np.asarray(pattern.T @ is_plain.astype(float)) > 0
    sampling = 1 / (len(shares) * holder.n)
    out = np.zeros((2, cells))
    out[0], out[1] = pattern.T @ np.where(is_plain, shares, 0.0), pattern.T @ np.where(is_plain, noise, 0.0)
    return _Reading(is_read, out[0], out[1], sampling)


def _is_of_one(pattern: sparse.csr_array, spread: Ints) -> NDArray[np.bool_]:
    """Whether an entry counts one cell, or several of the same parameter: only then its parts are known."""
    first = spread[pattern.indices[pattern.indptr[:-1]]]
    same = np.add.reduceat(spread[pattern.indices] != np.repeat(first, np.diff(pattern.indptr)), pattern.indptr[:-1])
    return np.asarray((np.diff(pattern.indptr) == 1) | ((same == 0) & (first >= 0)))


def _projected(shares: Floats, sums: sparse.csr_array, tables: Regions) -> Floats:
    """A table's shares on the simplex; where it leaves out cells, so that they add up to no more than they may."""
    column = np.asarray(sums.sum(axis=0))
    whole = [column[tables.part(r)] for r in range(len(tables.regions))]
    most = float(sum(part.max() for part in whole))
    clipped = np.maximum(shares, 0.0)
    if any(np.ptp(part) > 1e-9 * most for part in whole) and clipped.sum() <= most:
        return clipped
    return onto_simplex(shares, total=most)


def onto_simplex(shares: Floats, *, total: float = 1.0) -> Floats:
    """The nearest point with no negative entry and this sum: all less one threshold, cut at 0 (Duchi et al. 2008)."""
    falling = -np.sort(-shares)
    excess = (np.cumsum(falling) - total) / np.arange(1, len(shares) + 1)
    return np.asarray(np.maximum(shares - excess[np.flatnonzero(falling > excess)[-1]], 0.0))


def _readings(reading: _Reading, tables: Regions) -> list[_Reading]:
    """The table's own cells, and those of every other region within a region that it tells of wholly."""
    found = [reading]
    for r, region in enumerate(tables.regions):
        if not reading.is_read[tables.part(r)].all():
            continue
        for s, inner in enumerate(tables.regions):
            if s == r or not set(inner) <= set(region):
                continue
            is_read, (shares, noise) = np.zeros(tables.cells, dtype=bool), np.zeros((2, tables.cells))
            is_read[tables.part(s)] = True
            for whole, part in ((reading.shares, shares), (reading.noise, noise)):
                part[tables.part(s)] = onto(whole[tables.part(r)].reshape(tables.shape(region)), region, inner).ravel()
            found.append(_Reading(is_read, shares, noise, reading.sampling))
    return found


def _without(problem: Problem, dropped: NDArray[np.bool_]) -> Problem:
    """The model in which some parameters are 0 and no longer parameters."""
    if not dropped.any():
        return problem
    place = np.where(dropped, -1, np.cumsum(~dropped) - 1)
    return Problem(problem.engine, np.where(problem.spread >= 0, place[problem.spread], -1), problem.holders)


def _agreeing(problem: Problem, shares: Floats) -> Floats:
    """The nearest statistics that agree with each other as the statistics of every model do."""
    _, mu = problem.engine.marginals(np.zeros(problem.engine.tables.cells))
    uniform = problem.gather(mu)
    return np.asarray(uniform + gauge_free(problem)(shares - uniform))
