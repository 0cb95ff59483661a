"""The unknowns of a regression as points of the real space, with their prior there.

    theta      as it is, or in units of its own prior scale: theta = mean + s eta, s = sigma, tau or 1
    sigma      log sigma;                      sigma^2 ~ InverseGamma(a, b):   -2 a log sigma - b/sigma^2
    Sigma_x    A A', A lower triangular with log diagonal:  InverseWishart(S, v) is, with both Jacobians,
               -sum_i (v + i - 1) log A_ii - |A^-1 S^(1/2)|^2/2,   i = 1..d
    mu_x       as it is, or mu = location + A zeta/sqrt(strength), zeta ~ N(0, I)
    tau        log tau, where it is learned;   tau^2 ~ InverseGamma(1/2, 1/2)
    mixing     Laplace(b) noise is normal with a variance v ~ Exponential(mean 2 b^2) of its own:
               v = -2 b^2 log Phi(-u), u ~ N(0, 1)

u instead of log v: its prior is normal, so a chain that learns nothing about v has nothing to learn. Units of the prior
scale likewise, where the scale is unknown. All functions are compiled, write into given arrays, and add to gradients.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from noisewise.compilation import inner, njit
from noisewise.likelihood.compiled import ROOT_2, erfcx
from noisewise.regression.problem import GivenX, LocationX, Problem
from noisewise.types import Floats as Floats

ROOT_2_OVER_PI = math.sqrt(2.0 / math.pi)
# Beyond e^+-OVERFLOW a scale is no number that squares could hold.
OVERFLOW = 150.0
REASSOCIATE = {"reassoc", "contract", "nsz"}


class Belief(NamedTuple):
    """The prior, and where each unknown stands in a position."""

    mean: Floats  # (q,)
    precision: Floats  # (q, q)
    shape: float
    rate: float
    location: Floats  # (d,)
    strength: float
    wishart: Floats  # (d, d): the scale matrix
    degrees: float
    intercept: int
    is_relative: int
    is_learned: int
    is_scaled: int  # theta in units of its prior scale
    is_whitened: int  # mu in units of A
    log_sigma: int
    cholesky: int  # A row by row
    mu: int
    log_tau: int
    mixing: int


def belief(problem: Problem, *, is_scaled: bool = True, is_whitened: bool = True) -> Belief:
    """The prior of a problem as plain numbers. Given covariates have neither A nor mu."""
    prior, x, q = problem.prior, problem.covariates, problem.q
    if isinstance(x, LocationX):
        raise TypeError("covariates of a location model have coordinates of their own (location_density.py)")
    d = 0 if isinstance(x, GivenX) else problem.d
    has_mean = problem.intercept and d > 0
    cholesky = q + 1
    mu = cholesky + d * (d + 1) // 2
    log_tau = mu + (d if has_mean else 0)
    is_scaled = is_scaled and (prior.is_relative or prior.is_learned)
    return Belief(
        np.ascontiguousarray(prior.mean, np.float64), np.ascontiguousarray(prior.precision, np.float64),
        float(prior.shape), float(prior.rate),
        np.zeros(0) if isinstance(x, GivenX) else np.ascontiguousarray(x.location, np.float64),
        1.0 if isinstance(x, GivenX) else float(x.strength),
        np.zeros((0, 0)) if isinstance(x, GivenX) else np.ascontiguousarray(x.scale, np.float64),
        1.0 if isinstance(x, GivenX) else float(x.degrees),
        int(problem.intercept), int(prior.is_relative), int(prior.is_learned), int(is_scaled),
        int(is_whitened and has_mean), q, cholesky, mu, log_tau, log_tau + int(prior.is_learned),
    )  # fmt: skip


@inner()
def _scale_of(i: int, sigma: float, tau: float, belief: Belief) -> float:
    """The prior scale of the i-th coefficient."""
    if belief.is_learned and not (belief.intercept and i == 0):
        return tau
    return sigma if belief.is_relative else 1.0


@inner()
def read_theta(position: Floats, belief: Belief, theta: Floats) -> float:
    """Write theta and return sigma."""
    sigma = math.exp(position[belief.log_sigma])
    tau = math.exp(position[belief.log_tau]) if belief.is_learned else 1.0
    for i in range(len(theta)):
        theta[i] = position[i]
        if belief.is_scaled:
            theta[i] = belief.mean[i] + _scale_of(i, sigma, tau, belief) * position[i]
    return sigma


@inner()
def read_covariates(position: Floats, belief: Belief, factor: Floats, mu: Floats) -> None:
    """Write A (d, d), lower triangular, and mu (d,)."""
    d, at = len(mu), belief.cholesky
    for i in range(d):
        for j in range(i):
            factor[i, j] = position[at]
            factor[j, i] = 0.0
            at += 1
        factor[i, i] = math.exp(position[at])
        at += 1
    for i in range(d):
        mu[i] = 0.0
        if belief.intercept and belief.is_whitened:
            mu[i] = belief.location[i]
            for j in range(i + 1):
                mu[i] += factor[i, j] * position[belief.mu + j] / math.sqrt(belief.strength)
        elif belief.intercept:
            mu[i] = position[belief.mu + i]


@inner()
def theta_prior(position: Floats, belief: Belief, theta: Floats, by_theta: Floats, gradient: Floats) -> float:
    """log prior of theta, sigma and tau; adds its gradient and the pull `by_theta` of the likelihood."""
    sigma = math.exp(position[belief.log_sigma])
    tau = math.exp(position[belief.log_tau]) if belief.is_learned else 1.0
    value: float = -2.0 * belief.shape * position[belief.log_sigma] - belief.rate / sigma**2
    gradient[belief.log_sigma] += -2.0 * belief.shape + 2.0 * belief.rate / sigma**2
    if belief.is_learned:
        value += -position[belief.log_tau] - 0.5 / tau**2
        gradient[belief.log_tau] += -1.0 + 1.0 / tau**2
    q = len(theta)
    for i in range(q):
        scale = _scale_of(i, sigma, tau, belief)
        own = position[i] if belief.is_scaled else (theta[i] - belief.mean[i]) / scale
        pull = 0.0
        for j in range(q):
            other = position[j] if belief.is_scaled else (theta[j] - belief.mean[j]) / _scale_of(j, sigma, tau, belief)
            pull += belief.precision[i, j] * other
        value -= 0.5 * own * pull
        if belief.is_scaled:
            gradient[i] += scale * by_theta[i] - pull
            by_log_scale = by_theta[i] * scale * own
        else:
            value -= math.log(scale)
            gradient[i] += by_theta[i] - pull / scale
            by_log_scale = pull * own - 1.0
        if belief.is_learned and not (belief.intercept and i == 0):
            gradient[belief.log_tau] += by_log_scale
        elif belief.is_relative:
            gradient[belief.log_sigma] += by_log_scale
    return value


@inner(fastmath=REASSOCIATE)
def covariates_prior(
    position: Floats, belief: Belief, factor: Floats, mu: Floats, by_factor: Floats, by_mu: Floats, gradient: Floats,
    inverse: Floats, product: Floats,
) -> float:  # fmt: skip
    """log prior of (A, mu); adds its gradient and the pulls of the likelihood. The last two arrays are scratch."""
    d, value, root = len(mu), 0.0, math.sqrt(belief.strength)
    _invert_lower(factor, inverse)
    for j in range(d):  # W S W', lower half enough: it is symmetric
        for i in range(d):
            product[i, j] = 0.0
            for k in range(i + 1):
                product[i, j] += inverse[i, k] * belief.wishart[k, j]
    for i in range(d):
        for k in range(i + 1):
            value -= 0.5 * product[i, k] * inverse[i, k]
        value -= (belief.degrees + i) * math.log(factor[i, i])
    # d/dA of -tr(W S W')/2 is W' (W S W') = W' product W'.
    for i in range(d):
        for j in range(i + 1):
            total = 0.0
            for k in range(i, d):
                inner = 0.0
                for s in range(j + 1):
                    inner += product[k, s] * inverse[j, s]
                total += inverse[k, i] * inner
            by_factor[i, j] += total
    for i in range(d if belief.intercept else 0):
        if belief.is_whitened:
            zeta = position[belief.mu + i]
            value -= 0.5 * zeta * zeta
            gradient[belief.mu + i] -= zeta
            for j in range(i + 1):
                by_factor[i, j] += by_mu[i] * position[belief.mu + j] / root
                gradient[belief.mu + j] += factor[i, j] * by_mu[i] / root
        else:
            zeta = 0.0
            for j in range(i + 1):
                zeta += inverse[i, j] * (mu[j] - belief.location[j])
            value -= 0.5 * belief.strength * zeta * zeta + math.log(factor[i, i])
            product[0, i] = zeta  # the scratch is free again
            by_factor[i, i] -= 1.0 / factor[i, i]
    if belief.intercept and not belief.is_whitened:
        for j in range(d):  # r = W' zeta: the pull on mu is -strength r, on A strength r zeta'
            pull = 0.0
            for i in range(j, d):
                pull += inverse[i, j] * product[0, i]
            gradient[belief.mu + j] += by_mu[j] - belief.strength * pull
            for i in range(j + 1):
                by_factor[j, i] += belief.strength * pull * product[0, i]
    at = belief.cholesky
    for i in range(d):
        for j in range(i):
            gradient[at] += by_factor[i, j]
            at += 1
        gradient[at] += by_factor[i, i] * factor[i, i] - (belief.degrees + i)
        at += 1
    return value


@inner(fastmath=REASSOCIATE)
def _invert_lower(factor: Floats, inverse: Floats) -> None:
    d = len(factor)
    for j in range(d):
        for i in range(d):
            inverse[i, j] = 0.0
        inverse[j, j] = 1.0 / factor[j, j]
        for i in range(j + 1, d):
            total = 0.0
            for k in range(j, i):
                total += factor[i, k] * inverse[k, j]
            inverse[i, j] = -total / factor[i, i]


@inner()
def mixing_variance(u: float, scale: float) -> tuple[float, float]:
    """v = -2 b^2 log Phi(-u) and dv/du = 2 b^2 phi(u)/Phi(-u)."""
    if u > 0.0:
        tail = erfcx(u / ROOT_2)
        return -2.0 * scale**2 * (math.log(0.5 * tail) - 0.5 * u * u), 2.0 * scale**2 * ROOT_2_OVER_PI / tail
    below = 0.5 * math.erfc(-u / ROOT_2)
    density = 0.5 * ROOT_2_OVER_PI * math.exp(-0.5 * u * u)
    return -2.0 * scale**2 * math.log1p(-below), 2.0 * scale**2 * density / (1.0 - below)


@inner()
def is_out_of_range(position: Floats, belief: Belief, d: int) -> bool:
    """Whether a scale would overflow or vanish, or a coordinate is no number."""
    for i in range(len(position)):
        if not abs(position[i]) < 1e100:
            return True
    at = belief.cholesky - 1
    for i in range(d):
        at += i + 1
        if abs(position[at]) > OVERFLOW:
            return True
    tau = position[belief.log_tau] if belief.is_learned else 0.0
    return bool(max(abs(position[belief.log_sigma]), abs(tau)) > OVERFLOW)


class Unknowns(NamedTuple):
    """Positions (..., size) read back: theta (..., q), sigma^2 (...), mu (..., d), A (..., d, d)."""

    theta: Floats
    variance: Floats
    mu: Floats
    factor: Floats


def unknowns(positions: Floats, belief: Belief) -> Unknowns:
    """What positions stand for, many at once."""
    q, d, shape = len(belief.mean), len(belief.location), positions.shape[:-1]
    flat = np.ascontiguousarray(positions.reshape(-1, positions.shape[-1]))
    theta, factor, mu = np.empty((len(flat), q)), np.empty((len(flat), d, d)), np.empty((len(flat), d))
    variance = np.empty(len(flat))
    _read_all(flat, belief, theta, variance, factor, mu)
    return Unknowns(
        theta.reshape(*shape, q), variance.reshape(shape), mu.reshape(*shape, d), factor.reshape(*shape, d, d)
    )


@njit(cache=True)
def _read_all(positions: Floats, belief: Belief, theta: Floats, variance: Floats, factor: Floats, mu: Floats) -> None:
    for k in range(len(positions)):
        variance[k] = read_theta(positions[k], belief, theta[k]) ** 2
        read_covariates(positions[k], belief, factor[k], mu[k])


def first_guess(belief: Belief, size: int, *, spread: float = 1.0) -> Floats:
    """The middle of the prior, with all standard deviations of x and y multiplied by `spread`."""
    position = np.zeros(size)
    q, d = len(belief.mean), len(belief.location)
    if not belief.is_scaled:
        position[:q] = belief.mean
    position[belief.log_sigma] = 0.5 * math.log(belief.rate / (belief.shape + 0.5)) + math.log(spread)
    factor = np.linalg.cholesky(belief.wishart / (belief.degrees + d)) * spread
    at = belief.cholesky
    for i in range(d):
        position[at : at + i] = factor[i, :i]
        position[at + i] = math.log(factor[i, i])
        at += i + 1
    if belief.intercept and d and not belief.is_whitened:
        position[belief.mu : belief.mu + d] = belief.location
    return position
