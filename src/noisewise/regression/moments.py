"""How the sums of products of a row scatter: means and covariances of w_a w_b for a row w = ([1,] x, y).

    M_ab = E w_a w_b,      C_ab,cd = Cov(w_a w_b, w_c w_d) = E w_a w_b w_c w_d - M_ab M_cd

For a normal row with mean m (Isserlis): C_ab,cd = M_ac M_bd + M_ad M_bc - 2 m_a m_b m_c m_d, which with the covariance
S = M - m m' is a sum without cancellation:  S_ac S_bd + S_ad S_bc + S_ac m_b m_d + S_bd m_a m_c + S_ad m_b m_c +
S_bc m_a m_d.

For covariates u = ([1,] x) of which only second and fourth moments are given, w = B u + e with B = [I; theta'] and e
normal in the last entry: E w w w w is the fourth moment of B u, plus sigma^2 times the second moment of B u for each
of the six pairs of places that e can fill, plus 3 sigma^4 where it fills all four. Among them (Bernstein & Sheldon
2019, equation 5.3, where the printed indices of xi are another pair): Cov(x_i y, x_j y) = sigma^2 eta_ij +
sum_kl theta_k theta_l xi_ik,jl.

Rows averaged in blocks of k are v = (w_1 + .. + w_k)/sqrt k; their moments follow by sorting the four factors by row.
"""

from __future__ import annotations

import itertools

import numpy as np

from noisewise.compilation import njit
from noisewise.types import Floats, Integers


def all_pairs(size: int) -> Integers:
    """(K, 2): the indices a <= b of a symmetric matrix, row by row."""
    return np.array(list(itertools.combinations_with_replacement(range(size), 2)), np.int64)


def at_pairs(covariance: Floats, pairs: Integers) -> Floats:
    """(K, K): the entries C_ab,cd of (m, m, m, m) for the listed (a, b) and (c, d)."""
    a, b = pairs.T
    return np.asarray(covariance[a[:, None], b[:, None], a, b])


@njit(cache=True)
def normal_moment_covariance(second: Floats, mean: Floats) -> Floats:
    """C (m, m, m, m) of a normal row with second moments M (m, m) and mean m (m,); zeros where it has no intercept."""
    size = len(mean)
    covariance = np.empty((size, size, size, size))
    for a in range(size):
        for b in range(size):
            for c in range(size):
                for d in range(size):
                    covariance[a, b, c, d] = (
                        second[a, c] * second[b, d]
                        + second[a, d] * second[b, c]
                        - 2.0 * mean[a] * mean[b] * mean[c] * mean[d]
                    )
    return covariance


@njit(cache=True)
def normal_covariance_at(spread: Floats, square: Floats, pairs: Integers, size: int, covariance: Floats) -> None:
    """Write C at the first `size` pairs of a normal row with covariance S and square N = m m', free of cancellation."""
    for p in range(size):
        a, b = pairs[p, 0], pairs[p, 1]
        for q in range(p + 1):
            c, d = pairs[q, 0], pairs[q, 1]
            value = spread[a, c] * (spread[b, d] + square[b, d]) + spread[b, d] * square[a, c]
            value += spread[a, d] * (spread[b, c] + square[b, c]) + spread[b, c] * square[a, d]
            covariance[p, q] = value
            covariance[q, p] = value


def second_moments_given(theta: Floats, sigma2: float, second: Floats) -> Floats:
    """M (q + 1, q + 1) of w = (u, theta'u + e) from the second moments of u."""
    cross = second @ theta
    return np.block([[second, cross[:, None]], [cross[None, :], np.array([[theta @ cross + sigma2]])]])


def fourth_moments_given(theta: Floats, sigma2: float, second: Floats, fourth: Floats) -> Floats:
    """E w_a w_b w_c w_d (q + 1, ...) of w = (u, theta'u + e) from the second and fourth moments of u."""
    q = len(theta)
    moments = fourth
    for axis in range(4):  # B u: append theta'u along each axis in turn
        moments = np.concatenate([moments, np.expand_dims(np.tensordot(moments, theta, (axis, 0)), axis)], axis=axis)
    explained = second_moments_given(theta, 0.0, second)
    noise = np.zeros((q + 1, q + 1))
    noise[q, q] = sigma2
    result: Floats = moments + pairings(noise, explained) + pairings(explained, noise) + pairings(noise, noise)
    return result


def moment_covariance_given(theta: Floats, sigma2: float, second: Floats, fourth: Floats) -> Floats:
    """C (q + 1, q + 1, q + 1, q + 1) of w = (u, theta'u + e) from the second and fourth moments of u."""
    joint = second_moments_given(theta, sigma2, second)
    return fourth_moments_given(theta, sigma2, second, fourth) - np.multiply.outer(joint, joint)


def pairings(one: Floats, other: Floats) -> Floats:
    """one_ab other_cd + one_ac other_bd + one_ad other_bc."""
    product = np.multiply.outer(one, other)
    return np.asarray(product + product.transpose(0, 2, 1, 3) + product.transpose(0, 2, 3, 1))


def block_second(second: Floats, mean: Floats, k: int) -> Floats:
    """E v v' of v = (w_1 + .. + w_k)/sqrt k: M + (k - 1) m m'."""
    return np.asarray(second + (k - 1) * np.outer(mean, mean))


def block_fourth(fourth: Floats, third: Floats, second: Floats, mean: Floats, k: int) -> Floats:
    """E v_a v_b v_c v_d of v = (w_1 + .. + w_k)/sqrt k, from the moments of one row.

    k^2 E = k F + k(k-1) [4 third x mean, 3 second x second] + k(k-1)(k-2) [6 second x mean x mean]
    + k(k-1)(k-2)(k-3) mean^4, each bracket over the ways to sort four places by row.
    """
    alone = np.multiply.outer(third, mean)
    apart = alone + alone.transpose(0, 1, 3, 2) + alone.transpose(0, 3, 1, 2) + alone.transpose(3, 0, 1, 2)
    square = np.outer(mean, mean)
    mixed = pairings(second, square) + pairings(square, second)
    return np.asarray(
        fourth / k
        + (k - 1) / k * (apart + pairings(second, second))
        + (k - 1) * (k - 2) / k * mixed
        + (k - 1) * (k - 2) * (k - 3) / k * np.multiply.outer(square, square)
    )
