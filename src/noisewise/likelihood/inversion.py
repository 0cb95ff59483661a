"""A noisy sum of n independent bounded records, without the central limit theorem: Fourier inversion.

With phi_theta the characteristic function of one record's value and V the noise, for any tilt tau,
    p(y | theta) = e^L (1/2 pi) int e^{-ity} phi_tau(t)^n psi_tau(t) dt,
    L = n log E e^{tau X} + log E e^{tau V} - tau y,
phi_tau, psi_tau those of the laws tilted by e^{tau x}. tau minimises L (the saddle point), which puts y at the centre
of the tilted law: the digits are relative digits of p, however unlikely y is under theta.
The integral is a trapezoidal sum. Its only error is aliasing, and the period covers all of the tilted sum (Bernstein's
inequality) and of the noise but e^{-27}. Under wide Laplace noise (range/b < 12) no tilt is needed, and the Fourier
series of the noise on twice the range has no aliasing at all. Outside the sum's range Laplace noise adds -distance/b.

The population enters as P panels of m Gauss-Legendre nodes (values s, monotone on a panel, and probability weights, one
row a theta) and at most two atoms, as clamping makes them. Atoms make the integrand fade slowly, so sums with at most
one record off the atoms are taken out and added in closed form (`inversion_atoms`); n = 1 is then exact as it stands.
Panels are refined, by their own polynomials, as long as the integrand has not faded at the frequency they resolve.

Promise: a relative error near 1e-10 plus the reported `error`, an estimate of what the cut-off frequency and unresolved
densities leave: below 1e-8 but for n = 2, 3 under noise far below the range, where 4096 nodes are not enough.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from noisewise.errors import InvalidArgument
from noisewise.likelihood.additive_noise import AdditiveNoise, LaplaceNoise
from noisewise.likelihood.inversion_atoms import log_all_on_atoms, log_one_off_atoms
from noisewise.likelihood.quadrature import gauss_legendre, interpolation_matrix
from noisewise.types import Floats

__all__ = ["Inverted", "log_density"]

Complexes = NDArray[np.complex128]
BLOCK = 256
TOLERANCE = 1e-9
MOST_NODES = 4096
UNTILTED_RANGE = 12.0
LARGEST_TILT = 1e4
MOST_TERMS = 40_000


class Inverted(NamedTuple):
    """log p(y | theta) and the estimated relative error of p, a row a theta."""

    log_density: Floats
    error: Floats


def log_density(
    y: float,
    *,
    n: int,
    nodes: ArrayLike,
    weights: ArrayLike,
    noise: AdditiveNoise,
    atoms: ArrayLike = (),
    atom_weights: ArrayLike | None = None,
    tolerance: float = TOLERANCE,
) -> Inverted:
    """log p(y | theta): nodes (P, m), weights (K, P, m), atoms (J,), atom_weights (K, J); y and noise of the sum.

    `tolerance` is the relative error at which frequencies are cut off.
    """
    sum_of = _Sum.of(n, nodes, weights, atoms, atom_weights)
    outside = 0.0
    if isinstance(noise, LaplaceNoise):
        low, high = n * sum_of.low, n * sum_of.high
        outside = max(low - y, y - high, 0.0) / noise.scale
        y = min(max(y, low), high)
    closed = _one_sided(sum_of, y, noise) if isinstance(noise, LaplaceNoise) else np.full(sum_of.rows, np.nan)
    left = np.flatnonzero(np.isnan(closed))
    error = sum_of.unresolved()
    if left.size:
        closed[left], error[left] = _inverted(sum_of.of_rows(left), y, noise, tolerance)
    return Inverted(np.asarray(closed - outside), error)


def _inverted(sum_of: _Sum, y: float, noise: AdditiveNoise, tolerance: float) -> Inverted:
    """By the characteristic function, with what lies on the atoms in closed form."""
    n = sum_of.n
    tilt = sum_of.saddle(y, noise)
    parts = [np.full(sum_of.rows, -np.inf)]
    is_split = sum_of.needs_split(tilt)
    if is_split:
        atoms, atom_weights = sum_of.atoms, sum_of.atom_weights
        parts.append(log_all_on_atoms(y, n=n, atoms=atoms, atom_weights=atom_weights, noise=noise))
        panels = {"nodes": sum_of.nodes, "weights": sum_of.weights, "atoms": atoms, "atom_weights": atom_weights}
        parts.append(log_one_off_atoms(y, n=n, noise=noise, **panels))
    error = sum_of.unresolved()
    if n > 1:
        known = logsumexp(np.stack(parts), axis=0)
        log_scale, value, leftover = _integrate(sum_of, y, noise, tilt, known if is_split else None, tolerance)
        with np.errstate(divide="ignore"):
            parts.append(log_scale + np.log(np.maximum(value, 0)))
        log_p = logsumexp(np.stack(parts), axis=0)
        with np.errstate(over="ignore", invalid="ignore"):
            error = error + np.exp(log_scale - log_p) * leftover
    else:
        log_p = logsumexp(np.stack(parts), axis=0)
    return Inverted(np.asarray(log_p), error)


class _Sum(NamedTuple):
    """A population on panels and atoms, summed n times."""

    n: int
    nodes: Floats  # (P, m)
    weights: Floats  # (K, P, m)
    atoms: Floats  # (J,)
    atom_weights: Floats  # (K, J)

    @classmethod
    def of(cls, n: int, nodes: ArrayLike, weights: ArrayLike, atoms: ArrayLike, atom_weights: ArrayLike | None) -> _Sum:
        nodes, weights = np.asarray(nodes, dtype=np.float64), np.asarray(weights, dtype=np.float64)
        atoms = np.asarray(atoms, dtype=np.float64)
        if nodes.ndim != 2 or weights.shape[1:] != nodes.shape:
            message = f"Weights must have shape (K, P, m) for nodes (P, m); got {weights.shape} for {nodes.shape}."
            raise InvalidArgument(message, argument="weights")
        if atoms.size > 2:
            raise InvalidArgument(f"At most two atoms can be taken out exactly, not {atoms.size}.", argument="atoms")
        shape = (weights.shape[0], atoms.size)
        given = np.zeros(shape) if atom_weights is None else np.asarray(atom_weights, dtype=np.float64)
        if given.shape != shape:
            raise InvalidArgument(f"Atom weights must have shape {shape}, not {given.shape}.", argument="atom_weights")
        return cls(n, nodes, weights, atoms, given)._with_points_as_atoms()

    def _with_points_as_atoms(self) -> _Sum:
        """Panels so short that all their values are one double are an atom there, as far as atoms can be taken out."""
        is_point = self.nodes.min(axis=1) == self.nodes.max(axis=1)
        if not is_point.any():
            return self
        weights, atoms, atom_weights = self.weights.copy(), self.atoms, self.atom_weights.copy()
        for value in np.unique(self.nodes[is_point, 0]):
            here = is_point & (self.nodes[:, 0] == value)
            if value not in atoms:
                if atoms.size == 2:
                    continue
                atoms, atom_weights = np.append(atoms, value), np.pad(atom_weights, ((0, 0), (0, 1)))
            atom_weights[:, atoms == value] += weights[:, here].sum(axis=(1, 2))[:, None]
            weights[:, here] = 0.0
        return self._replace(weights=weights, atoms=atoms, atom_weights=atom_weights)

    def of_rows(self, rows: NDArray[np.intp]) -> _Sum:
        """The same panels under some of the thetas."""
        return self._replace(weights=self.weights[rows], atom_weights=self.atom_weights[rows])

    @property
    def rows(self) -> int:
        return int(self.weights.shape[0])

    @property
    def ends(self) -> Floats:
        """The values at the ends of each panel, (P, 2)."""
        return np.asarray(self.nodes @ interpolation_matrix(self.nodes.shape[1], [-1.0, 1.0]).T)

    @property
    def low(self) -> float:
        return float(np.min(np.concatenate([self.ends.ravel(), self.atoms])))

    @property
    def high(self) -> float:
        return float(np.max(np.concatenate([self.ends.ravel(), self.atoms])))

    def points(self) -> tuple[Floats, Floats, Floats]:
        """All values (M,), the signs and the logs of their weights (K, M), nodes then atoms.

        A refined panel may carry weights a rounding error below zero.
        """
        weights = np.concatenate([self.weights.reshape(self.rows, -1), self.atom_weights], axis=1)
        with np.errstate(divide="ignore"):
            return np.concatenate([self.nodes.ravel(), self.atoms]), np.sign(weights), np.log(np.abs(weights))

    def tilted(self, tilt: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Under weights e^{tilt x}: log E e^{tilt X}, tilted probabilities (K, M), their mean and variance."""
        x, sign, logs = self.points()
        joint = logs + tilt[:, None] * x
        top = np.max(joint, axis=1, keepdims=True)
        law = sign * np.exp(joint - top)
        total = np.sum(law, axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_moment, law = (top + np.log(total))[:, 0], law / total
        mean = law @ x
        return log_moment, law, mean, np.sum(law * np.square(x - mean[:, None]), axis=1)

    def saddle(self, y: float, noise: AdditiveNoise) -> Floats:
        """The tilt at which the mean of the noisy sum is y, by bisection; none under wide Laplace noise."""
        if isinstance(noise, LaplaceNoise) and self.n * (self.high - self.low) < UNTILTED_RANGE * noise.scale:
            return np.zeros(self.rows)
        bracket = noise.bracket(y - self.n * self.high, y - self.n * self.low)
        low, high = np.full(self.rows, bracket[0]), np.full(self.rows, bracket[1])
        for _ in range(40):
            middle = 0.5 * (low + high)
            is_below = self.n * self.tilted(middle)[2] + noise.mean(middle) < y
            low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        return np.asarray(0.5 * (low + high))

    def needs_split(self, tilt: Floats) -> bool:
        """Whether sums with at most one record off the atoms matter under the tilted law."""
        if self.n == 1:
            return True
        on_atoms = np.sum(self.tilted(tilt)[1][:, self.nodes.size :], axis=1)
        return bool(np.any(self.n * np.power(on_atoms, self.n - 1) > 1e-18))

    def unresolved(self) -> Floats:
        """n times the share of the two highest Legendre coefficients: large where panels do not resolve the density."""
        order = self.nodes.shape[1]
        unit, unit_weights = gauss_legendre(order)
        top = np.polynomial.legendre.legvander(unit, order - 1)[:, -2:] * (order - np.array([1.5, 0.5]))
        size = np.sum(np.abs(self.weights @ top), axis=(1, 2)) / np.sqrt(order)
        return np.asarray(self.n * size * np.max(unit_weights) / np.sum(unit_weights))

    def resolved(self, law: Floats) -> tuple[float, float]:
        """The frequencies that the longest panel resolves, and the panels where the sharpest row has its mass.

        Zero where every panel is a point: nothing there needs a frequency.
        """
        panels, order = self.nodes.shape
        length = np.abs(np.diff(self.ends))[:, 0]
        mass = np.sum(np.abs(law[:, : self.nodes.size].reshape(-1, panels, order)), axis=-1)
        is_long = length > 0
        if not is_long.any():
            return 0.0, 0.0
        length, mass = length[is_long], mass[:, is_long]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            typical = np.append(mass @ length / np.sum(mass, axis=1), length.max())
            shortest = np.min(typical[typical > 0])  # of a row without mass there nothing is known
            return float(order / length.max()), float(order / shortest)

    def resolving(self, frequency: float, law: Floats) -> _Sum:
        """The same population, panels cut until each resolves this frequency; panels nearly empty under `law` stay."""
        panels, order = self.nodes.shape
        length = np.abs(np.diff(self.ends))[:, 0]
        is_empty = np.max(np.sum(np.abs(law[:, : self.nodes.size].reshape(-1, panels, order)), axis=-1), axis=0) < 1e-16
        times = np.where(is_empty, 1, np.ceil(length * frequency / order).clip(1)).astype(int)
        unit, unit_weights = gauss_legendre(order)
        nodes, weights = [], []
        for panel, pieces in enumerate(times):
            points = (-1 + 2 * np.arange(pieces)[:, None] / pieces + (1 + unit) / pieces).ravel()
            matrix = interpolation_matrix(order, points) if pieces > 1 else np.eye(order)
            heights = (self.weights[:, panel] / unit_weights) @ matrix.T
            nodes.append((matrix @ self.nodes[panel]).reshape(pieces, order))
            weights.append((heights * np.tile(unit_weights, pieces) / pieces).reshape(-1, pieces, order))
        return self._replace(nodes=np.concatenate(nodes), weights=np.concatenate(weights, axis=1))


def _one_sided(sum_of: _Sum, y: float, noise: LaplaceNoise) -> Floats:
    """log p where the sum all but surely lies on one side of y, else NaN.

    Then p = e^{-+y/b} E e^{+-S/b} / 2b up to the tilted probability of the other side, which is below e^{-36} by
    Chernoff's bound. Just there the saddle point nears the pole of the noise, and an inversion would be slow.
    """
    result = np.full(sum_of.rows, np.nan)
    for side in (1.0, -1.0):
        s = np.full(sum_of.rows, side / noise.scale)
        log_moment, _, mean, _ = sum_of.tilted(s)
        # Chernoff's exponent is convex: its best lambda puts the tilted mean at y, and is found by bisection.
        low, high = np.zeros(sum_of.rows), np.full(sum_of.rows, LARGEST_TILT / noise.scale)
        for _ in range(30):
            middle = 0.5 * (low + high)
            is_short = side * (y - sum_of.n * sum_of.tilted(s + side * middle)[2]) > 0
            low, high = np.where(is_short, middle, low), np.where(is_short, high, middle)
        is_beyond = side * (y - sum_of.n * mean) > 0
        further = sum_of.tilted(s + side * low)[0]
        bound = np.where(is_beyond, sum_of.n * (further - log_moment) - side * low * y, 0.0)
        certain = bound < -36
        result[certain] = (sum_of.n * log_moment - s * y)[certain] - np.log(2 * noise.scale)
    return result


def _integrate(
    sum_of: _Sum, y: float, noise: AdditiveNoise, tilt: Floats, known: Floats | None, tolerance: float
) -> tuple[Floats, Floats, Floats]:
    """L, the integral in units of e^L, and an estimate of what lies beyond the last frequency.

    `known` is the log of the part of p that is added in closed form, if it is.
    """
    log_moment, law, _, variance = sum_of.tilted(tilt)
    log_scale = sum_of.n * log_moment + noise.log_moment(tilt) - tilt * y
    period, is_series = _period(sum_of, noise, tilt, variance)
    step = 2 * np.pi / period
    stride = int(np.clip(0.5 / (step * np.sqrt(sum_of.n * max(float(np.max(variance)), 1e-300))), 1, BLOCK // 4))
    total, recent = np.zeros(sum_of.rows), np.zeros(sum_of.rows)
    with np.errstate(over="ignore"):
        closed = np.zeros(sum_of.rows) if known is None else period * np.exp(known - log_scale)
    given, typical = sum_of.resolved(law)
    first, last = 0, max(BLOCK // 8, int(min(given / step, MOST_TERMS)))
    while True:
        finer = sum_of.resolving(last * step, law)
        frequencies = _Frequencies(finer, tilt, log_moment, y, known is not None, step)
        for start in range(first, last, BLOCK):
            index = np.arange(start, min(start + BLOCK, last))
            if stride > 1 and start > 0:
                seen = np.max(np.abs(_terms(frequencies, noise, tilt, index[::stride], period, is_series)), axis=1)
                if np.all(seen < 1e-20 * (np.abs(total) + closed)):
                    recent = seen
                    continue
            terms = _terms(frequencies, noise, tilt, index, period, is_series)
            total += np.sum(terms.real, axis=1) * 2 - (terms[:, 0].real if start == 0 else 0)
            recent = np.max(np.abs(terms), axis=1)
        # Beyond the end the terms fade at least like t^-3.
        leftover = recent * last
        is_faded = np.all(leftover <= tolerance * (np.abs(total) + closed))
        first, last = last, 2 * last
        # Bumps of a panel's length may revive the integrand up to the frequency that such panels resolve.
        if finer.nodes.size > MOST_NODES or first > MOST_TERMS or (is_faded and first * step >= typical):
            return log_scale, total / period, leftover / period


def _period(sum_of: _Sum, noise: AdditiveNoise, tilt: Floats, variance: Floats) -> tuple[float, bool]:
    """The period of the trapezoidal sum, and whether the noise enters by its Fourier series on that period."""
    n, width = sum_of.n, sum_of.high - sum_of.low
    if isinstance(noise, LaplaceNoise) and n * width < UNTILTED_RANGE * noise.scale:
        return 2 * n * width, True
    third = 30 * width / 3
    spread = 2 * (third + np.sqrt(third**2 + 60 * n * variance))
    return float(np.max(np.minimum(spread, n * width) + noise.reach(tilt))), False


def _terms(
    frequencies: _Frequencies,
    noise: AdditiveNoise,
    tilt: Floats,
    index: NDArray[np.int64],
    period: float,
    is_series: bool,
) -> Complexes:
    """The integrand at frequencies index * step, (K, T)."""
    t = np.asarray(index * frequencies.step, dtype=np.float64)
    values = frequencies.sums(index)
    if is_series and isinstance(noise, LaplaceNoise):
        sign = np.where(index % 2 == 0, 1.0, -1.0)
        damping = (1 - sign * np.exp(-0.5 * period / noise.scale)) / (1 + np.square(noise.scale * t))
        return np.asarray(values * damping)
    return np.multiply(values, noise.ratio(tilt[:, None], t))


class _Frequencies:
    """phi_tau(t)^n e^{-ity}, less what is added in closed form, on blocks of an even grid of frequencies."""

    def __init__(self, sum_of: _Sum, tilt: Floats, log_moment: Floats, y: float, is_split: bool, step: float) -> None:
        self.n, self.step, self.is_split = sum_of.n, step, is_split
        x, sign, logs = sum_of.points()
        self.offsets = x - y / sum_of.n  # e^{-ity} shared out over the n factors
        self.law = sign * np.exp(logs + tilt[:, None] * x - log_moment[:, None])
        self.atoms = sum_of.atoms.size
        self.waves = np.exp(1j * step * np.outer(self.offsets, np.arange(BLOCK)))

    def sums(self, index: NDArray[np.int64]) -> Complexes:
        """At index * step: the waves of the first block, turned to where this block starts."""
        law = self.law * np.exp(1j * self.step * index[0] * self.offsets)
        waves = self.waves[:, index - index[0]]
        cut = self.offsets.size - self.atoms
        off, on = law[:, :cut] @ waves[:cut], law[:, cut:] @ waves[cut:]
        if not self.is_split:
            return np.asarray(_power(off + on, self.n))
        return np.asarray(_power(off + on, self.n) - _power(on, self.n - 1) * (on + self.n * off))


def _power(base: Complexes, n: int) -> Complexes:
    """Repeated squaring: its relative error is n rounding errors, in phase too."""
    result = np.ones_like(base)
    while n:
        if n & 1:
            result = result * base
        base = base * base
        n >>= 1
    return result
