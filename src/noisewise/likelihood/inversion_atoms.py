"""The parts of a noisy sum that Fourier inversion handles badly, in closed form: at most one record off the atoms.

Clamping puts probability on its bounds. If all n records sit on atoms c_1, c_2 the sum has atoms too, and with Laplace
noise kinks there; with one record off them, kinks smoothed once. In frequency these parts fade only like t^-2, t^-3. So
    p0 = sum_i C(n, i) p_1^i p_2^{n-i} g(y - i c_1 - (n - i) c_2),
    p1 = n sum_i C(n-1, i) p_1^i p_2^{n-1-i} int f(x) g(y - i c_1 - (n-1-i) c_2 - x) dx
are added here and left out there. f is the polynomial through the population's Gauss-Legendre nodes on each panel, and
each panel is cut where the noise bends, so p1 is as exact as f, for any noise scale; for n = 1 it is the whole answer.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp, xlogy

from noisewise.likelihood.additive_noise import AdditiveNoise
from noisewise.likelihood.counts import log_choose
from noisewise.likelihood.quadrature import gauss_legendre, interpolation_matrix, on_panels
from noisewise.types import Floats

__all__ = ["log_all_on_atoms", "log_one_off_atoms"]

SUBNODES = 20


def log_all_on_atoms(y: float, *, n: int, atoms: Floats, atom_weights: Floats, noise: AdditiveNoise) -> Floats:
    """log p0, (K,)."""
    places, log_probability = _sums(n, atoms, atom_weights)
    if not places.size:
        return np.full(atom_weights.shape[0], -np.inf)
    return np.asarray(logsumexp(log_probability + noise.log_density(y - places), axis=-1))


def log_one_off_atoms(
    y: float, *, n: int, nodes: Floats, weights: Floats, atoms: Floats, atom_weights: Floats, noise: AdditiveNoise
) -> Floats:
    """log p1, (K,): nodes (P, m), weights (K, P, m)."""
    places, log_probability = _sums(n - 1, atoms, atom_weights)
    if not places.size:
        return np.full(weights.shape[0], -np.inf)
    flat = weights.reshape(weights.shape[0], -1)
    logs = np.empty(log_probability.shape)
    for i, place in enumerate(places):
        kernel, log_scale = _kernel_weights(y - place, nodes, noise)
        with np.errstate(divide="ignore"):
            logs[:, i] = log_probability[:, i] + log_scale + np.log(np.maximum(flat @ kernel.ravel(), 0))
    return np.asarray(np.log(n) + logsumexp(logs, axis=-1))


def _sums(n: int, atoms: Floats, atom_weights: Floats) -> tuple[Floats, Floats]:
    """Where n records on the atoms can sum to, and the log probabilities (K, .)."""
    rows = atom_weights.shape[0]
    if n == 0:
        return np.zeros(1), np.zeros((rows, 1))
    if atoms.size == 0:
        return np.empty(0), np.empty((rows, 0))
    if atoms.size == 1:
        return n * atoms, xlogy(n, atom_weights)
    i = np.arange(n + 1)
    log_probability = log_choose(n) + xlogy(i, atom_weights[:, :1]) + xlogy(n - i, atom_weights[:, 1:])
    return i * atoms[0] + (n - i) * atoms[1], log_probability


def _kernel_weights(centre: float, nodes: Floats, noise: AdditiveNoise) -> tuple[Floats, float]:
    """W (P, m) and a log scale: int f(x) g(centre - x) dx = e^scale sum W w, w the probability weights at the nodes."""
    panels, order = nodes.shape
    unit_weights = gauss_legendre(order)[1]
    bends = np.concatenate([-noise.bends[::-1], noise.bends[1:]])
    xi = _inverse(nodes, np.broadcast_to(centre + bends, (panels, bends.size)))
    edges = np.concatenate([np.broadcast_to([-1.0, -0.5, 0.0, 0.5, 1.0], (panels, 5)), xi], axis=-1)
    points, lengths = on_panels(np.sort(edges, axis=-1), SUBNODES)
    points, lengths = points.reshape(panels, -1), lengths.reshape(panels, -1)
    matrix = interpolation_matrix(order, points)
    places = np.einsum("psm,pm->ps", matrix, nodes)
    low, high = np.min(places), np.max(places)
    log_scale = float(noise.log_density(max(low - centre, centre - high, 0.0)))
    kernel = lengths * np.exp(noise.log_density(centre - places) - log_scale)
    return np.einsum("ps,psm->pm", kernel, matrix) / unit_weights, log_scale


def _inverse(nodes: Floats, targets: Floats) -> Floats:
    """xi in [-1, 1] at which each panel's value, monotone in xi, passes the targets (P, E); ends where it does not."""
    order = nodes.shape[1]
    rising = nodes[:, -1:] >= nodes[:, :1]
    low, high = np.full(targets.shape, -1.0), np.ones(targets.shape)
    ends = np.einsum("sm,pm->ps", interpolation_matrix(order, [-1.0, 1.0]), nodes)
    with np.errstate(divide="ignore", invalid="ignore"):
        affine = np.clip((2 * targets - ends.sum(axis=1, keepdims=True)) / np.diff(ends), -1, 1)
    straight = ends[:, :1] + 0.5 * (1 + gauss_legendre(order)[0]) * np.diff(ends)
    if np.all(np.abs(straight - nodes) <= 1e-12 * np.max(np.abs(ends))):
        return np.where(np.isnan(affine), 1.0, affine)
    for _ in range(45):
        middle = 0.5 * (low + high)
        value = np.einsum("pem,pm->pe", interpolation_matrix(order, middle), nodes)
        below = (value < targets) == rising
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)
