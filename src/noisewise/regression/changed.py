"""The density of density.py where some holders' rows were shortened (radial.py) or clamped (shortened.py) beforehand.

Only M and C of such rows, and the way back from them to the mean P m and the factor P B of a single row, differ.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from noisewise.compilation import njit
from noisewise.inference.hamiltonian import walk_of
from noisewise.regression.coordinates import Belief, Floats
from noisewise.regression.density import (
    Scratch,
    add_mapped,
    begin,
    finish,
    holder_law,
    make_data,
    members_density,
    pull_back_normal,
)
from noisewise.regression.groups import AS_NORMAL, RADIALLY, Groups, Members
from noisewise.regression.moments import normal_covariance_at
from noisewise.regression.radial import pull_back_radial, radial_moments
from noisewise.regression.shortened import Bank, bank_moments, pull_back_bank
from noisewise.regression.sphere import Sphere


class ChangedData(NamedTuple):
    """Data with a bank for clamped rows and a sphere for shortened ones."""

    belief: Belief
    groups: Groups
    members: Members
    scratch: Scratch
    bank: Bank
    sphere: Sphere


@njit(cache=True)
def changed_density(position: Floats, data: ChangedData, gradient: Floats) -> float:
    """log posterior density (up to a constant) with normal covariates and changed rows; writes its gradient."""
    belief, groups, members, work, bank, sphere = data
    sigma = begin(position, belief, work, gradient)
    if not sigma > 0.0:
        return -np.inf
    value: float = 0.0
    for g in range(len(groups.n)):
        how, first = groups.is_shortened[g], belief.intercept
        root = math.sqrt(groups.block[g]) if how == AS_NORMAL else 1.0
        holder_law(g, groups, root, work)
        if how == AS_NORMAL:
            normal_covariance_at(work.s, work.n, groups.pairs[g], groups.size[g], work.covariance)
        elif how == RADIALLY:
            if not radial_moments(
                g, groups, sphere, work.holder_mean, work.holder_spread, first, work.s, work.covariance
            ):
                gradient.fill(0.0)
                return -np.inf
            work.n.fill(0.0)
        else:
            bank_moments(g, groups, bank, work.holder_mean, work.holder_spread, first, work.s, work.covariance)
            work.n.fill(0.0)
        value += members_density(g, position, belief, groups, members, work, gradient)
        if not math.isfinite(value):
            gradient.fill(0.0)
            return -np.inf
        if how == AS_NORMAL:
            pull_back_normal(g, groups, work)
        elif how == RADIALLY:
            pull_back_radial(
                g, groups, sphere, first, work.pull, work.grip, work.s, work.holder_spread, work.by_holder_mean,
                work.by_holder_spread,
            )  # fmt: skip
        else:
            pull_back_bank(
                g, groups, bank, first, work.pull, work.grip, work.s, work.by_holder_mean, work.by_holder_spread
            )
        add_mapped(groups.map[g], root, work)
    value += finish(position, sigma, belief, work, gradient)
    return value


changed_walk = walk_of(changed_density, "changed_rows_walk")


def make_changed_data(belief: Belief, groups: Groups, members: Members, bank: Bank, sphere: Sphere) -> ChangedData:
    """Everything the density needs, with its scratch."""
    return ChangedData(*make_data(belief, groups, members), bank, sphere)
