"""The density of theta and sigma when second and fourth moments of the covariates are given, and its gradient.

A holder's row is P (u, theta'u + e) = L u + p e with u = ([1,] x), L = P_u + p theta', p the last column of P, so
    S = sigma^2 p p',   N = L eta L',   M = S + N,   C = (the normal formula in S and N) + Q xi Q',
with eta = E u u', xi = Cov(u_i u_j, u_k u_l) for i <= j, and Q_ab,ij = L_ai L_bj + L_aj L_bi (half of it where i = j).
Nothing is assumed of x beyond these moments (Bernstein & Sheldon 2019, with the indices of moments.py).
"""

from __future__ import annotations

import numpy as np

from noisewise.compilation import inner, njit
from noisewise.inference.hamiltonian import walk_of
from noisewise.regression.coordinates import REASSOCIATE, Floats, is_out_of_range, read_theta, theta_prior
from noisewise.regression.density import Data, members_density, pull_back_pairs
from noisewise.regression.groups import Groups
from noisewise.regression.moments import normal_covariance_at


@njit(cache=True)
def given_density(position: Floats, data: Data, gradient: Floats) -> float:
    """log posterior density (up to a constant) with given moments of the covariates; writes its gradient."""
    belief, groups, members, work = data
    q, m = len(work.theta), len(work.mean)
    gradient.fill(0.0)
    if is_out_of_range(position, belief, 0):
        return -np.inf
    sigma = read_theta(position, belief, work.theta)
    work.by_theta.fill(0.0)
    loadings = np.empty((m, q))
    value: float = 0.0
    quadratic = np.empty((groups.pairs.shape[1], groups.fourth.shape[1]))
    for g in range(len(groups.n)):
        for a in range(m):
            for i in range(q):
                loadings[a, i] = groups.map[g, a, i] + groups.map[g, a, q] * work.theta[i]
        half = np.dot(loadings, groups.second[g])
        explained = np.dot(half, loadings.T)
        for a in range(m):
            for b in range(m):
                work.s[a, b] = sigma**2 * groups.map[g, a, q] * groups.map[g, b, q]
                work.n[a, b] = explained[a, b]
        size = groups.size[g]
        normal_covariance_at(work.s, work.n, groups.pairs[g], size, work.covariance)
        _products(g, groups, loadings, quadratic)
        spread = np.dot(quadratic, groups.fourth[g])
        curved = np.dot(spread, quadratic.T)
        for r in range(size):
            for t in range(size):
                work.covariance[r, t] += curved[r, t]
        value += members_density(g, position, belief, groups, members, work, gradient)
        pull_back_pairs(g, groups, work)
        for a in range(m):
            for b in range(m):
                pull = (work.by_n[a, b] + work.by_n[b, a]) * groups.map[g, a, q]
                gradient[belief.log_sigma] += 2.0 * work.by_s[a, b] * work.s[a, b]
                for i in range(q):
                    work.by_theta[i] += pull * half[b, i]
        _pull_back_products(g, groups, loadings, np.dot(work.grip, spread), work.by_theta)
    value += theta_prior(position, belief, work.theta, work.by_theta, gradient)
    return value


@njit(cache=True)
def _products(g: int, groups: Groups, loadings: Floats, quadratic: Floats) -> None:
    """Q (K, Q): the row's products as combinations of u_i u_j; zero in the rows that only fill up."""
    quadratic.fill(0.0)
    q = loadings.shape[1]
    for r in range(groups.size[g]):
        a, b = groups.pairs[g, r, 0], groups.pairs[g, r, 1]
        at = 0
        for i in range(q):
            quadratic[r, at] = loadings[a, i] * loadings[b, i]
            at += 1
            for j in range(i + 1, q):
                quadratic[r, at] = loadings[a, i] * loadings[b, j] + loadings[a, j] * loadings[b, i]
                at += 1


@inner(fastmath=REASSOCIATE)
def _pull_back_products(g: int, groups: Groups, loadings: Floats, by_products: Floats, by_theta: Floats) -> None:
    """From the pull n G Q xi on Q to that on theta; `by_products` lacks the factor n."""
    q = loadings.shape[1]
    for r in range(groups.size[g]):
        a, b = groups.pairs[g, r, 0], groups.pairs[g, r, 1]
        # d L_ai = p_a d theta_i
        one, other = groups.n[g] * groups.map[g, a, q], groups.n[g] * groups.map[g, b, q]
        at = 0
        for i in range(q):
            by_theta[i] += by_products[r, at] * (one * loadings[b, i] + other * loadings[a, i])
            at += 1
            for j in range(i + 1, q):
                by_theta[i] += by_products[r, at] * (one * loadings[b, j] + other * loadings[a, j])
                by_theta[j] += by_products[r, at] * (one * loadings[b, i] + other * loadings[a, i])
                at += 1


given_walk = walk_of(given_density, "given_covariates_walk")
