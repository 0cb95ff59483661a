"""A generalized linear model and what was observed, as arrays: priors, holders, covariates, responses.

Working units are the rows of the first release for the features, v = k (f - c), and the units of its column for the
response, which is 0 or 1 or a count whatever centre and scale a release gives it. The row is always (1, v, y), with or
without an intercept: a holder's row is P (1, v, y), and
    s = beta_0 + beta' f = theta_0 + theta' v,      theta_i = beta_i/k_i,     theta_0 = beta_0 + beta' c.
Without prior, by public numbers alone (c and s the likely centre and sd of a feature; of one made of conditions alone
its range stands for s), w = 2.5 for logistic regression, 1.5 for probit and Poisson:
    beta_i ~ N(0, (w/s_i)^2),       beta_0 + beta' c ~ N(0, w^2) for yes/no responses, N(log(B/4), w^2) for counts,
and coefficients="learned": beta_i ~ N(0, (tau w/s_i)^2), tau^2 ~ InverseGamma(1/2, 1/2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from noisewise.regression.configurations import Configurations, is_discrete
from noisewise.regression.coordinates import Belief
from noisewise.regression.density import make_data
from noisewise.regression.glm.density import Coefficients, Covariates, GlmData, Shared
from noisewise.regression.glm.links import Link
from noisewise.regression.glm.row_moments import row_scratch
from noisewise.regression.groups import group_holders
from noisewise.regression.observed import Observed
from noisewise.regression.problem import Holder, LocationX, Prior, Problem
from noisewise.regression.units import Units
from noisewise.statistics.feature import Feature
from noisewise.types import Floats


@dataclass(frozen=True, slots=True, eq=False)
class CoefficientBelief:
    """xi ~ N(0, I): theta = base + turn xi; with a learned scale those of `is_scaled` are N(0, tau^2)."""

    base: Floats
    turn: Floats
    is_scaled: Floats
    is_learned: bool


@dataclass(frozen=True, slots=True, eq=False)
class Cap:
    """The largest count that a holder's rows hold, and whether records above it were refused."""

    cap: float
    is_kept: bool


@dataclass(frozen=True, slots=True, eq=False)
class GlmProblem:
    """All that a sampler needs, in working units; the features' units lead back."""

    link: Link
    holders: tuple[Holder, ...]  # rows P (1, v, y), pairs into them
    caps: tuple[Cap, ...]
    prior: CoefficientBelief
    covariates: LocationX
    units: Units  # of the features; the response's are its own

    @property
    def d(self) -> int:
        return int(self.covariates.offset.shape[1])


def feature_units(units: Units) -> Units:
    """Those of a release's features, the response as it is, and a row that begins with 1."""
    return Units(np.append(units.centre[:-1], 0.0), np.append(units.factor[:-1], 1.0), True)


def whole_row_map(units: Units, own: Units) -> Floats:
    """P (m, m): a holder's row (1, v, y) from the working one, also where the holder's has no 1 of its own."""
    return units.row_map(replace(own, intercept=True))


def whole_rows(holder: Holder, mapping: Floats, *, intercept: bool) -> Holder:
    """The holder with rows that begin with 1: indices of a release without intercept are one higher there."""
    return replace(holder, map=mapping, pairs=holder.pairs if intercept else holder.pairs + 1)


def default_widths(features: Sequence[Feature], observed: Observed, made: Configurations, link: Link) -> Floats:
    """The prior sd of theta_i (d,), in working units."""
    spread = np.array(observed.spread[:-1], float)
    for i, feature in enumerate(features):
        if is_discrete(feature):
            spread[i] = np.ptp(made.constant[:, i]) * observed.units.factor[i] or spread[i]
    return np.asarray(link.width / spread)


def coefficient_belief(
    given: tuple[Floats, Floats] | None,
    *,
    is_learned: bool,
    intercept: bool,
    observed: Observed,
    widths: Floats,
    link: Link,
    cap: float,
) -> CoefficientBelief:
    """The prior of theta (d + 1,); `given` are mean and covariance in the users' units, intercept first."""
    centre, factor = observed.units.centre[:-1], observed.units.factor[:-1]
    d, p = len(centre), len(centre) + int(intercept)
    to_working = np.zeros((d + 1, p))  # theta from beta
    to_working[1:, p - d :] = np.diag(1 / factor)
    to_working[0, p - d :] = centre
    if intercept:
        to_working[0, 0] = 1.0
    if given is not None:
        mean, covariance = given
        return CoefficientBelief(to_working @ mean, to_working @ np.linalg.cholesky(covariance), np.zeros(p), False)
    turn, base = np.zeros((d + 1, p)), np.zeros(d + 1)
    turn[1:, p - d :] = np.diag(widths)
    if intercept:  # theta_0 + theta' c_v, where the features are likely to lie
        turn[0, 0] = link.width
        turn[0, 1:] = -observed.centre[:-1] * widths
        base[0] = math.log(max(cap, 4.0) / 4) if link.is_count else 0.0
    else:
        turn[0] = centre * factor * widths  # beta' c
    scaled = np.array([0.0] * int(intercept) + [float(is_learned)] * d)
    return CoefficientBelief(base, turn, scaled, is_learned)


def glm_data(problem: GlmProblem) -> GlmData:
    """The problem as the density takes it."""
    x, d, p = problem.covariates, problem.d, problem.prior.turn.shape[1]
    k, r, s = x.numbers, x.contrast.shape[1], x.tilt.shape[1]
    cholesky = p + int(problem.prior.is_learned)
    effects = cholesky + k * (k + 1) // 2
    tilts = effects + k * r
    belief = Belief(
        mean=np.zeros(d + 1),
        precision=np.eye(d + 1),
        shape=1.0,
        rate=1.0,
        location=np.zeros(k),
        strength=1.0,
        wishart=np.ascontiguousarray(x.scale, np.float64),
        degrees=float(x.degrees),
        intercept=0,
        is_relative=0,
        is_learned=0,
        is_scaled=0,
        is_whitened=0,
        log_sigma=0,
        cholesky=cholesky,
        mu=effects,
        log_tau=p,
        mixing=tilts + s,
    )
    kinds = list(dict.fromkeys((cap.cap, cap.is_kept) for cap in problem.caps))
    how = [1 + kinds.index((cap.cap, cap.is_kept)) for cap in problem.caps]
    plain = Problem(problem.holders, Prior(belief.mean, belief.precision, 1.0, 1.0), x, True)
    groups, members = group_holders(plain, how)
    by_group = [kinds[flag - 1] for flag in groups.is_shortened]
    base = make_data(belief, groups, members)
    count, pairs = x.configurations, groups.pairs.shape[1]
    offset, slope, tilt, contrast = map(np.ascontiguousarray, (x.offset, x.slope, x.tilt, x.contrast))
    return GlmData(
        belief,
        groups,
        members,
        base.scratch,
        Coefficients(
            np.ascontiguousarray(problem.prior.base),
            np.ascontiguousarray(problem.prior.turn),
            problem.prior.is_scaled.astype(np.int64),
            p if problem.prior.is_learned else -1,
        ),
        Covariates(offset, slope, tilt, _log_weight(x), contrast, effects, tilts),
        np.array([[problem.link.code, cap, is_kept] for cap, is_kept in by_group], float),
        shared_arrays(count, d, k, r, pairs),
        row_scratch(d, k, pairs),
    )


def _log_weight(x: LocationX) -> Floats:
    return np.zeros(x.configurations) if x.log_weight is None else np.ascontiguousarray(x.log_weight)


def shared_arrays(count: int, d: int, k: int, r: int, pairs: int) -> Shared:
    """Room for `count` combinations of d features, k numbers and their r effects."""
    shapes = [
        (count,),
        (count,),
        (count,),
        (count, d),
        (count, d, k),
        (count, pairs),
        (count if k else 0, pairs, pairs),
        (pairs,),
        (pairs,),
        (pairs, pairs),
        (count,),
        (count, d),
        (count, d, k),
        (k, r),
        (k, r),
        (count, k),
        (d + 1,),
        (d + 1,),
    ]
    return Shared(*(np.zeros(shape) for shape in shapes))


def size_of(data: GlmData) -> int:
    """How many coordinates a position has."""
    return int(data.belief.mixing + data.members.mixing[-1])
