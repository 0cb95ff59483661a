"""Information of a noisy order statistic under smooth sensitivity: quadrature over the statistic, a bank for its scale.

The release is y = s + c V, c = S/alpha, and s and the secret scale S come from the same records. Given ell = logit
u_(m), whose law f is closed, s = G_theta(ell) is certain, and c depends on the spacings z of the ranks beside m too,
which are independent of ell (`likelihood.order_bank`). So with h the density of the noise,
    p(y) = int f(ell) mean_j h(y - s(ell); c(ell, z_j)) dell,        F = int dp dp'/p dy.
As theta moves, s moves by ds at fixed ell, which is to say ell by -q = -ds/s' at fixed s. Taken at fixed s the
derivative never differentiates the noise in y, however narrow it is:
    dp(y) = int mean_j [-(f q)' h + f (d log c - q (log c)') c h_c] dell,      (f q)' = f ((m - (n+1) u) q + q'),
    Laplace  h = e^{-|r|/c}/2c,   c h_c = h (|r|/c - 1);      Cauchy  h = c/(pi(c^2 + r^2)),   c h_c = h (1 - 2 pi c h).
Both integrals are trapezoidal sums, that over y in t, y = centre + spread sinh t, which serves a centre as narrow as
the sampling spread and tails as long as a Cauchy law's. Noise narrower than 0.7 steps in s (1/400 of the sampling
spread at most) is taken to be as wide as that, which hides about one part in a hundred.
The spacings come in blocks that were scrambled independently; products of dp from *different* blocks have no bias from
the noise of each (Alparslan & Yıldırım 2022, Algorithm 2, squares a noisy score instead), and leaving out one block at
a time gives the standard error.
A discrete population moves its order statistic in jumps, for which none of this holds: use `method="monte-carlo"`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline, PchipInterpolator
from scipy.special import betainccinv, betaincinv, betaln, expit

from noisewise.compilation import njit
from noisewise.design.blank import blank_release
from noisewise.design.coordinates import coordinate_slopes
from noisewise.errors import Unsupported
from noisewise.laws import SmoothShape, smooth_shape
from noisewise.likelihood.order_bank import N_SCRAMBLES, OrderBank
from noisewise.planning import Plan
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import AnyPopulation

SIZE = 576  # of the bank, of which 4/9 are used: 32 spacings a block
EVEN, CENTRAL = 13, 36  # values of ell at which scales are computed, evenly spaced and equally likely ones
FEWEST, MOST = 200, 3200  # values of ell in the integral
STEP = 0.15
LONGEST = 1e5  # noise scales into the tail of a Cauchy law
EDGE = 1e-9  # of the law of ell, left out on each side


class Places(NamedTuple):
    """Where the integral over ell is taken: coarse values for scales, fine ones with their probabilities."""

    coarse: Array
    fine: Array
    probability: Array


class OrderInformation:
    """Information of one noisy median, maximum or minimum."""

    is_exact = True
    shares_draws = True

    def __init__(self, plan: Plan, population: AnyPopulation, *, seed: object, draws: int | None) -> None:
        entropy = 0 if seed is None else int(np.random.default_rng(seed).integers(2**32))  # type: ignore[arg-type]
        self.model = OrderBank.of(blank_release(plan), population, seed=entropy, size=SIZE if draws is None else draws)
        if population.marginal(self.model.quantile.column).is_discrete:
            raise Unsupported(
                f"{plan.statistic} of a discrete population moves in jumps, so its information is not found by "
                "differentiating base draws; use method='monte-carlo'."
            )
        self.population, self.law = population, self.model.law
        own = np.flatnonzero(self.model.bank.component == 0)
        whole = self.model.window
        self.window = whole._replace(below=whole.below[own], above=whole.above[own])
        self.spacings = own.size

    @property
    def method(self) -> str:
        return f"monte-carlo (quadrature over the statistic, {self.spacings} spacings for its scale)"

    def rows(self, theta: Theta) -> tuple[Array, Array]:
        """F and its standard error, (K, P, P)."""
        found = []
        for k in range(rows_of(theta)):
            one = {name: np.asarray(value)[k : k + 1] for name, value in theta.items()}
            places = self._places(one)

            def packed(at: Theta, places: Places = places) -> Array:
                return self._points(at, places)

            slope = coordinate_slopes(packed, one, self.population.supports)[0]
            found.append(self._row(packed(one)[0], slope, places))
        return np.stack([f for f, _ in found]), np.stack([e for _, e in found])

    def _places(self, theta: Theta) -> Places:
        """As many values of ell as the narrowest noise asks for."""
        m, n = self.model.rank, self.model.n
        u = np.concatenate([[EDGE], np.linspace(0.002, 0.998, CENTRAL), [1 - EDGE]])
        likely = np.log(betaincinv(m, n + 1 - m, u)) - np.log(betainccinv(n + 1 - m, m, u))
        low, high = float(likely[0]), float(likely[-1])
        coarse = np.unique(np.concatenate([likely, np.linspace(low, high, EVEN)]))
        s, log_c = _parted(self._points(theta, Places(coarse, coarse, coarse))[0], coarse.size, coarse.size)
        narrow = float(np.exp(np.quantile(log_c, 0.02)))
        fine = np.linspace(low, high, int(np.clip(3 * float(np.ptp(s)) / narrow, FEWEST, MOST)))
        log_f = m * -np.logaddexp(0, -fine) + (n + 1 - m) * -np.logaddexp(0, fine) - betaln(m, n + 1 - m)
        probability = np.exp(log_f)
        return Places(coarse, fine, probability / probability.sum())

    def _points(self, theta: Theta, places: Places) -> Array:
        """s at the fine values of ell, and log c at the coarse ones for each spacing, packed (K, L + E J)."""
        rows = []
        for table in self.model.quantile.tables(theta):
            unwanted = np.zeros(places.fine.size, dtype=bool)
            s, _ = self.model._scales(table, places.fine, unwanted, self.window)
            wanted = np.ones(self.spacings, dtype=bool)
            scale = [
                self.model._scales(table, np.full(self.spacings, ell), wanted, self.window)[1] for ell in places.coarse
            ]
            rows.append(np.concatenate([s, np.log(np.concatenate(scale) / float(self.law.alpha))]))
        return np.stack(rows)

    def _row(self, points: Array, slope: Array, places: Places) -> tuple[Array, Array]:
        """One theta: points (L + E J), slope (P, L + E J)."""
        size, known = places.fine.size, places.coarse.size
        s, at_coarse = _parted(points, size, known)
        move, d_at_coarse = slope[:, :size], slope[:, size:].reshape(len(slope), known, -1)
        scale = PchipInterpolator(places.coarse, at_coarse)
        log_c, rise = scale(places.fine), scale.derivative()(places.fine)  # (L, J)
        d_log_c = PchipInterpolator(places.coarse, d_at_coarse, axis=1)(places.fine)  # (P, L, J)
        in_density, q = self._flow(s, move, places)
        narrowest = np.log(0.7 * places.probability @ np.gradient(s))
        in_scale = np.where(log_c > narrowest, d_log_c - q[..., None] * rise, 0.0) * places.probability[:, None]
        c = np.exp(np.maximum(log_c, narrowest))
        y, weights = self._grid(s, c, places.probability)
        is_laplace = smooth_shape(self.law) is SmoothShape.LAPLACE
        by_spacing = np.ascontiguousarray(c.T), np.ascontiguousarray(in_scale.transpose(2, 0, 1))
        density, moved = _densities(y, s, *by_spacing, places.probability, in_density, is_laplace, N_SCRAMBLES)
        return _between_blocks(density, moved, weights)

    def _flow(self, s: Array, move: Array, places: Places) -> tuple[Array, Array]:
        """-(f q)' as a probability, and q = ds/s', (P, L); where a clamp holds s still nothing flows."""
        m, n, ell = self.model.rank, self.model.n, places.fine
        steep = CubicSpline(ell, s).derivative()(ell)
        moves = steep > 1e-9 * steep.max()
        q = np.where(moves, move / np.where(moves, steep, 1.0), 0.0)
        bend = np.gradient(q, ell, axis=1, edge_order=2)
        flow = -places.probability * ((m - (n + 1) * expit(ell)) * q + bend)
        return flow - places.probability * flow.sum(axis=1, keepdims=True), q

    def _grid(self, s: Array, c: Array, probability: Array) -> tuple[Array, Array]:
        below = np.cumsum(probability)
        low, centre, high = (float(v) for v in np.interp([0.16, 0.5, 0.84], below, s))
        spread = max((high - low) / 2, 1e-3 * float(np.median(c)))
        tail = 40.0 if smooth_shape(self.law) is SmoothShape.LAPLACE else LONGEST
        furthest = np.arcsinh((float(np.ptp(s)) + tail * float(c.max())) / spread)
        t = STEP * np.arange(-np.ceil(furthest / STEP), np.ceil(furthest / STEP) + 1)
        return centre + spread * np.sinh(t), STEP * spread * np.cosh(t)


def _parted(points: Array, size: int, known: int) -> tuple[Array, Array]:
    """s (L,) and log c (E, J)."""
    return points[:size], points[size:].reshape(known, -1)


def _between_blocks(density: Array, moved: Array, weights: Array) -> tuple[Array, Array]:
    """sum_y weight dp dp'/p with dp from different blocks, and its jackknife standard error, (P, P)."""

    def estimate(kept: Array) -> Array:
        p = kept[:, 0].mean(axis=0)
        d_p, count = kept[:, 1:], len(kept)
        share = weights / np.maximum(p, 1e-300)
        whole = np.einsum("py,qy,y->pq", d_p.sum(axis=0), d_p.sum(axis=0), share)
        same = np.einsum("bpy,bqy,y->pq", d_p, d_p, share, optimize=True)
        return np.asarray((whole - same) / (count * (count - 1)))

    blocks = np.concatenate([density[:, None], moved], axis=1)
    count = len(blocks)
    each = np.stack([estimate(np.delete(blocks, k, axis=0)) for k in range(count)])
    error = np.sqrt((count - 1) / count * np.square(each - each.mean(axis=0)).sum(axis=0))
    return estimate(blocks), np.asarray(error)


@njit(cache=True)
def _densities(
    y: Any, s: Any, c: Any, in_scale: Any, probability: Any, in_density: Any, is_laplace: bool, blocks: int
) -> Any:
    """p (blocks, Y) and dp (blocks, P, Y); spacings of one block follow each other in the bank."""
    size, spacings, parameters = s.size, len(c), in_density.shape[0]
    per = spacings // blocks
    density, moved = np.zeros((blocks, y.size)), np.zeros((blocks, parameters, y.size))
    h, in_log_c = np.empty(size), np.empty(size)
    for j in range(spacings):
        block = j // per
        for k in range(y.size):
            for i in range(size):
                r, width = y[k] - s[i], c[j, i]
                if is_laplace:
                    z = abs(r) / width
                    h[i] = math.exp(-z) / (2 * width)
                    in_log_c[i] = h[i] * (z - 1)
                else:
                    h[i] = width / (math.pi * (width * width + r * r))
                    in_log_c[i] = h[i] * (1 - 2 * math.pi * width * h[i])
            density[block, k] += np.dot(probability, h)
            for p in range(parameters):
                moved[block, p, k] += np.dot(in_density[p], h) + np.dot(in_scale[j, p], in_log_c)
    return density / per, moved / per
