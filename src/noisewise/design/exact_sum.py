"""Information of one noisy sum of few records, from the sum's own law: no central limit theorem.

The law is that of `likelihood.exact_sum`, wanted here at every y at once. With phi_theta the characteristic function
of one record's feature, on its panels and atoms, and psi that of the noise,
    p(y)     = (1/2 pi) int e^{-ity} phi^n psi dt,        dp(y) = (1/2 pi) int e^{-ity} n phi^{n-1} dphi psi dt,
    F        = int dp dp'/p dy,
all by one fast Fourier transform a row, about the row's own mean. The period covers the sum (14 standard deviations
and ten of the largest records) and the noise (e^-36); frequencies run until the integrand has faded below 1e-11, or to
MOST_FREQUENCIES, or as far as MOST_NODES nodes resolve the density; beyond that only the atoms of a clamp are kept.
A discrete population is convolved instead, P(s) = f^{*n}(s), dP = n f^{*(n-1)} * df, and p(y) = sum_s P(s) g(y - s) is
integrated by Gauss-Legendre nodes between neighbouring sums, where Laplace noise has its kinks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.fft import next_fast_len
from scipy.signal import fftconvolve

from noisewise.design.additive import NormalSumInformation
from noisewise.design.blank import blank_release
from noisewise.design.coordinates import coordinate_slopes
from noisewise.design.record_score import scored_record
from noisewise.likelihood.additive_noise import GaussianNoise, LaplaceNoise
from noisewise.likelihood.exact_sum import ExactSum, Layout, similar
from noisewise.likelihood.integers import sum_log_pmf
from noisewise.likelihood.inversion import _Sum
from noisewise.likelihood.quadrature import on_panels
from noisewise.planning import Plan
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import AnyPopulation

BLOCK = 256
MOST_FREQUENCIES = 2**14
VISIBLE = 1e-6  # an integrand cut off above this leaves an error that could be seen
EMPTY = 1e-17
NARROWEST = 0.02  # of the gap between sums
MOST_NODES = 1024
FADED = 1e-11
OVERSAMPLED = 4
NEGLIGIBLE = 1e-13  # of the largest density: what lies below tells nothing that could be seen
DIRECT = 2_000_000


class ExactSumInformation:
    """Information of one sum over n records, exactly."""

    shares_draws = False
    method = "quadrature"

    def __init__(self, plan: Plan, population: AnyPopulation, *, n: int) -> None:
        self.is_exact = True  # until the normal law had to stand in for some parameters
        self.model = ExactSum(blank_release(plan), population, n=n)
        self.normal = NormalSumInformation(plan, population, n=n, seed=None, draws=None)
        self.population, self.n = population, n
        scale = float(self.model.normal.noise.scale[0])
        self.noise = LaplaceNoise(scale) if self.model.normal.noise.is_laplace[0] else GaussianNoise(scale)

    def rows(self, theta: Theta) -> tuple[Array, Array]:
        """F (K, P, P); its standard error is zero."""
        if self.model.one.is_discrete:
            found = np.stack([self._convolved(one) for one in _single(theta)])
            return found, np.zeros_like(found)
        parts: dict[int, Array] = {}
        own = self.population.theta_of(self.model.column, theta)
        for group in similar(self.model.one, own, rows_of(theta)):
            chosen = {name: np.asarray(value)[group] for name, value in theta.items()}
            parts.update(zip(group.tolist(), self._inverted(chosen), strict=True))
        found = np.stack([parts[k] for k in range(rows_of(theta))])
        return found, np.zeros_like(found)

    def _inverted(self, theta: Theta) -> Array:
        """One transform a row, all rows on the same frequencies."""
        mean, variance = (np.asarray(v).reshape(rows_of(theta)) / self.n for v in self.model.normal.moments(theta))
        layout = self._layout(theta)
        width = _width(layout)
        reach = 36 * self.noise.scale if isinstance(self.noise, LaplaceNoise) else 9 * self.noise.sd
        spread = np.minimum(self.n * width, 14 * np.sqrt(self.n * variance.max()) + 10 * width)
        period = 2 * float(spread + reach)
        t, has_faded = self._frequencies(layout, 2 * np.pi / period)
        if not has_faded:  # bounds far wider than the records and the noise: the sum is then normal enough
            self.is_exact = False
            return np.asarray(self.normal.rows(theta)[0])

        def characteristic(at: Theta) -> Array:
            value = _characteristic(self._layout(at), t)
            return np.stack([value.real, value.imag], axis=-1)

        slope = coordinate_slopes(characteristic, theta, self.population.supports)
        d_phi = slope[..., 0] + 1j * slope[..., 1]
        phi, turn = _characteristic(layout, t), np.exp(-1j * mean[:, None] * t)
        noise = self.noise.ratio(np.zeros((1, 1)), t)
        before = (phi * turn) ** (self.n - 1) * noise
        size = next_fast_len(2 * OVERSAMPLED * t.size, real=True)
        p = _on_grid(before * phi * turn, size, period)
        d_p = _on_grid(self.n * before[:, None] * d_phi * turn[:, None], size, period)
        return _integrated(p, d_p, np.full(size, period / size))

    def _layout(self, theta: Theta) -> Layout:
        rows = rows_of(theta)
        return self.model.layout(self.population.theta_of(self.model.column, theta), rows)

    def _frequencies(self, layout: Layout, step: float) -> tuple[Array, bool]:
        """Multiples of step until the integrand has faded, and whether it has as far as can be seen."""
        last = BLOCK
        while last < MOST_FREQUENCIES:
            t = step * np.linspace(last / 2, last, BLOCK)
            sizes = np.abs(_characteristic(layout, t)) ** self.n * np.abs(self.noise.ratio(np.zeros((1, 1)), t))
            if np.max(sizes) < FADED:
                break
            last *= 2
        t = np.asarray(step * np.arange(last), dtype=float)
        end = np.array([min(_resolved(layout), t[-1])])
        sizes = np.abs(_characteristic(layout, end)) ** self.n * np.abs(self.noise.ratio(np.zeros((1, 1)), end))
        return t, bool(np.max(sizes) < VISIBLE)

    def _convolved(self, theta: Theta) -> Array:
        """One row of a discrete population."""
        record = scored_record(self.population, self.model.releases[0].schema, self.model.column, theta)
        values = np.broadcast_to(
            self.model.feature.value({self.model.column: record.x[0]}, self.model.releases[0].schema), record.x[0].shape
        )
        unique, gap = np.unique(values), 1.0
        if unique.size > 1:
            gap = float(np.diff(unique).min())
        place = np.rint((values - unique[0]) / gap).astype(int)
        size = int(place.max()) + 1
        pmf = np.bincount(place, record.weight[0], size)
        d_pmf = np.stack([np.bincount(place, record.weight[0] * slope, size) for slope in record.slope[0].T])
        with np.errstate(divide="ignore"):
            others = np.exp(sum_log_pmf(np.log(pmf), n=self.n - 1)[0]) if self.n > 1 else np.ones(1)
        law = np.convolve(others, pmf)
        d_law = self.n * np.stack([np.convolve(others, slope) for slope in d_pmf])
        kept = np.flatnonzero(law > 1e-18 * law.max())
        inside = slice(kept[0], kept[-1] + 1)
        return self._between_sums(law[inside], d_law[:, inside], gap)

    def _between_sums(self, law: Array, d_law: Array, gap: float) -> Array:
        """int dp dp'/p over y = (s + delta) gap, for nodes delta between neighbouring sums."""
        scale = self.noise.scale if isinstance(self.noise, LaplaceNoise) else self.noise.sd
        inner = scale * np.array([0.5, 1.5, 4.0, 10.0, 20.0, 40.0])
        edges = np.unique(np.clip(np.concatenate([[0, gap], inner, gap - inner]), 0, gap))
        offsets, weights = (v.ravel() for v in on_panels(edges, 8))
        reach = int(np.ceil(40 * scale / gap)) + 1
        steps = np.arange(-reach, reach)
        total = np.zeros((len(d_law), len(d_law)))
        if scale < NARROWEST * gap:  # the noise hides nothing between neighbouring sums
            return np.asarray(_integrated(law[None], d_law[None], np.ones(law.size))[0])
        for offset, weight in zip(offsets, weights, strict=True):
            kernel = np.exp(self.noise.log_density(steps * gap + offset))
            p = _convolve(law, kernel)
            d_p = np.stack([_convolve(slope, kernel) for slope in d_law])
            total += _integrated(p[None], d_p[None], np.full(p.size, weight))[0]
        return total


def _width(layout: Layout) -> float:
    """The range of values that carry any mass: declared bounds may lie far beyond the records."""
    heavy = layout.nodes.ravel()[layout.weights.reshape(len(layout.weights), -1).max(axis=0) > EMPTY]
    atoms = layout.atoms[layout.atom_weights.max(axis=0, initial=0.0) > EMPTY]
    return float(np.ptp(np.concatenate([heavy, atoms])))


def _resolved(layout: Layout) -> float:
    """The frequency up to which MOST_NODES nodes resolve the panels that carry any mass."""
    heavy = layout.weights.sum(axis=2).max(axis=0) > EMPTY
    return MOST_NODES / float(np.ptp(layout.nodes[heavy], axis=1).sum() + 1e-300)


def _characteristic(layout: Layout, t: Array) -> Any:
    """phi_theta(t) of one record's feature at even t, (K, T); beyond what MOST_NODES nodes resolve, its atoms alone."""
    rows = len(layout.weights)
    limit = _resolved(layout)
    law = np.concatenate([layout.weights.reshape(rows, -1), layout.atom_weights], axis=1)
    finer = _Sum.of(1, *layout).resolving(min(float(t[-1]), limit), law)
    weights, nodes = finer.weights.reshape(rows, -1), finer.nodes.ravel()
    value = layout.atom_weights @ np.exp(1j * np.outer(layout.atoms, t))
    resolved = int(np.searchsorted(t, limit, side="right"))
    # On an even grid every block is the first one, turned to where it starts.
    waves = np.exp(1j * np.outer(nodes, t[:BLOCK] - t[0]))
    for start in range(0, resolved, BLOCK):
        size = min(BLOCK, resolved - start)
        value[:, start : start + size] += (weights * np.exp(1j * t[start] * nodes)) @ waves[:, :size]
    return value


def _on_grid(coefficients: Any, size: int, period: float) -> Array:
    """(1/period) sum_m c_m e^{-i t_m y} over both signs of t, at y = 0, period/size, .."""
    return np.asarray(np.fft.irfft(np.conj(coefficients), size, axis=-1) * (size / period))


def _integrated(p: Array, d_p: Array, weights: Array) -> Array:
    """sum_y weight dp dp'/p, (K, P, P), from p (K, Y) and dp (K, P, Y)."""
    seen = p > NEGLIGIBLE * p.max(axis=-1, keepdims=True)
    half = np.where(seen[:, None], d_p * np.sqrt(weights / np.where(seen, p, 1.0))[:, None], 0.0)
    return np.asarray(half @ half.swapaxes(-1, -2))


def _convolve(law: Array, kernel: Array) -> Array:
    is_small = law.size * kernel.size < DIRECT
    return np.asarray(np.convolve(law, kernel) if is_small else fftconvolve(law, kernel))


def _single(theta: Theta) -> list[dict[str, Array]]:
    return [{name: np.asarray(value)[k : k + 1] for name, value in theta.items()} for k in range(rows_of(theta))]
