"""Holders sorted for speed: those whose rows have one law form a group, and those whose noise agrees too, a member.

Of the J holders of a member only the mean and the scatter of their answers matter, so the density costs the same for
one holder as for twenty. A holder with Laplace noise is a member of its own: its mixing variances are its own.
Arrays are padded to the longest list of pairs, for compiled code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noisewise.regression.moments import all_pairs, at_pairs, block_fourth, block_second
from noisewise.regression.problem import GivenX, Holder, Problem
from noisewise.types import Floats, Integers

# How the moments of a group's rows are found.
AS_NORMAL, BY_BANK, RADIALLY = 0, 1, 2


class Groups(NamedTuple):
    """Laws of rows: (G, ...) arrays."""

    n: Floats
    block: Floats
    size: Integers  # how many pairs
    pairs: Integers  # (G, K, 2)
    map: Floats  # (G, m, m)
    is_shortened: Integers  # AS_NORMAL, BY_BANK (shortened.py) or RADIALLY (radial.py)
    radius: Floats
    low: Floats  # (G, m): bounds of the row's entries before it is shortened
    high: Floats
    first: Integers  # (G + 1,): members first[g] .. first[g + 1] - 1 belong to group g
    second: Floats  # (G, q, q): E u u' of given covariates u = ([1,] x), as blocks
    fourth: Floats  # (G, Q, Q): the covariance of u_i u_j, i <= j


class Members(NamedTuple):
    """Holders with the same group and noise (J of them), or one holder with Laplace noise."""

    holders: Floats  # J
    observed: Floats  # (members, K): the mean of their answers
    rank: Integers
    residual: Floats  # (members, K, r): scatter = residual residual'
    variance: Floats  # (members, K): of the noise
    laplace: Floats  # (members, K): its scale where it is Laplace, else 0
    mixing: Integers  # where its mixing variances begin among all


def group_holders(problem: Problem, how: Sequence[int]) -> tuple[Groups, Members]:
    """The holders of a problem; `how` says of each whether its rows are AS_NORMAL, or shortened, and how so."""
    laws: dict[object, list[Holder]] = {}
    flags: dict[object, int] = {}
    for holder, flag in zip(problem.holders, how, strict=True):
        key = _law(holder, flag)
        laws.setdefault(key, []).append(holder)
        flags[key] = flag
    parts = [_members(holders) for holders in laws.values()]
    firsts = [holders[0] for holders in laws.values()]
    longest = max(len(holder.pairs) for holder in firsts)
    given = [_given_moments(problem, holder.block) for holder in firsts]
    groups = Groups(
        n=np.array([holder.n for holder in firsts], float),
        block=np.array([holder.block for holder in firsts], float),
        size=np.array([len(holder.pairs) for holder in firsts], np.int64),
        pairs=np.stack([_padded(holder.pairs, longest) for holder in firsts]).astype(np.int64),
        map=np.stack([np.asarray(holder.map, float) for holder in firsts]),
        is_shortened=np.array(list(flags.values()), np.int64),
        radius=np.array([np.inf if holder.shrink is None else holder.shrink for holder in firsts], float),
        low=np.stack([_bounds(problem, holder, holder.low, -np.inf) for holder in firsts]),
        high=np.stack([_bounds(problem, holder, holder.high, np.inf) for holder in firsts]),
        first=np.cumsum([0, *(len(part) for part in parts)]).astype(np.int64),
        second=np.stack([second for second, _ in given]),
        fourth=np.stack([fourth for _, fourth in given]),
    )
    return groups, _stacked([member for part in parts for member in part], longest)


def _law(holder: Holder, flag: int) -> object:
    bounds = (holder.shrink, holder.low.tobytes(), holder.high.tobytes(), holder.clamps) if flag else ()
    return holder.n, holder.block, holder.pairs.tobytes(), np.asarray(holder.map, float).tobytes(), flag, bounds


def _members(holders: Sequence[Holder]) -> list[list[Holder]]:
    """Holders of one law, those with equal Gaussian noise together."""
    members: dict[object, list[Holder]] = {}
    for j, holder in enumerate(holders):
        is_gaussian = not np.any(holder.laplace > 0)
        members.setdefault(holder.variance.tobytes() if is_gaussian else j, []).append(holder)
    return list(members.values())


def _stacked(members: Sequence[Sequence[Holder]], longest: int) -> Members:
    residuals = [_residual(np.stack([holder.observed for holder in member])) for member in members]
    widest = max(residual.shape[1] for residual in residuals)
    residual = np.zeros((len(members), longest, widest))
    for j, own in enumerate(residuals):
        residual[j, : own.shape[0], : own.shape[1]] = own
    mixed = [int(np.sum(member[0].laplace > 0)) for member in members]
    return Members(
        holders=np.array([len(member) for member in members], float),
        observed=np.stack([_padded(np.mean([h.observed for h in member], axis=0), longest) for member in members]),
        rank=np.array([own.shape[1] for own in residuals], np.int64),
        residual=residual,
        variance=np.stack([_padded(member[0].variance, longest) for member in members]),
        laplace=np.stack([_padded(member[0].laplace, longest) for member in members]),
        mixing=np.cumsum([0, *mixed]).astype(np.int64),
    )


def _residual(answers: Floats) -> Floats:
    """R (K, r) with R R' the scatter of answers (J, K) about their mean, r <= min(J - 1, K)."""
    if len(answers) == 1:
        return np.zeros((answers.shape[1], 0))
    left, values, _ = np.linalg.svd((answers - answers.mean(axis=0)).T, full_matrices=False)
    kept = values > 1e-14 * max(float(values[0]), np.finfo(float).tiny)
    return np.asarray((left * values)[:, kept])


def _given_moments(problem: Problem, block: int) -> tuple[Floats, Floats]:
    """E u u' and the covariance of u_i u_j, i <= j, of the block sums of given covariates over sqrt k."""
    x = problem.covariates
    if not isinstance(x, GivenX):
        return np.zeros((0, 0)), np.zeros((0, 0))
    second, fourth = np.asarray(x.second, float), np.asarray(x.fourth, float)
    if block > 1:  # without intercept the covariates' mean is taken as 0, as for normal ones
        mean = second[0] if problem.intercept else np.zeros(problem.q)
        third = fourth[0] if problem.intercept else np.zeros((problem.q,) * 3)
        second, fourth = block_second(second, mean, block), block_fourth(fourth, third, second, mean, block)
    return second, at_pairs(fourth - np.multiply.outer(second, second), all_pairs(problem.q))


def _bounds(problem: Problem, holder: Holder, bounds: Floats, open_end: float) -> Floats:
    """Bounds of all entries of a row, the intercept's open; all open where nothing is clamped."""
    entries = np.full(problem.m, open_end)
    if holder.clamps:
        entries[int(problem.intercept) :] = bounds
    return entries


def _padded(values: NDArray[np.generic], longest: int) -> NDArray[np.generic]:
    padded = np.zeros((longest, *values.shape[1:]), values.dtype)
    padded[: len(values)] = values
    return padded
