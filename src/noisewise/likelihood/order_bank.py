"""A noisy order statistic under smooth sensitivity, by a bank of base draws shared by all theta.

The release is y = s + (S/alpha) V where the statistic s and the secret scale S come from the same n records, so
    p(y | theta) = E_x h(y | s(x), S(x))
has no closed form (Alparslan & Yıldırım 2022, sections 4.3 and 5.4). But s_(i) = G_theta(u_(i)), G the quantile
function of the feature (`feature_quantile`) and u_(i) order statistics of uniforms, and S only sees the ranks near m.
The whole expectation is therefore over
    ell = logit u_(m),        with the closed density e^(m ell) / ((1 + e^ell)^(n+1) B(m, n+1-m)), and
    the ranks beside it:      u_(m-a)/u_(m) and (1-u_(m+b))/(1-u_(m)), products of independent Beta ratios,
which are drawn directly: the cost does not grow with n. Base draws are free of theta, so log p is smooth in theta.

ell carries most of the variance, and noise may be far narrower than its spread. So it is drawn from three laws at once,
    its own;   a Cauchy law around the ell_y with G(ell_y) = y, as wide as the noise is there;   a wide Cauchy law,
each by randomised quasi-Monte Carlo, weighted by p(ell) over their mixture (the balance heuristic; Veach & Guibas
1995): weights are bounded, and wherever the noise puts the integrand there are points. Eight independent scrambles of
the points give the Monte Carlo error of log p. The seed is part of a quadrature rule, not of a result: any seed gives
the same likelihood within that error, and the same seed the same numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import betaln, polygamma

from noisewise.compilation import njit
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.laws import Form, SmoothLaw, SmoothShape, smooth_law, smooth_shape
from noisewise.likelihood.bank_law import BankLaw
from noisewise.likelihood.feature_quantile import FeatureQuantile, Table, inverse, read
from noisewise.likelihood.model import Parameters
from noisewise.likelihood.order_draws import SHARES, WIDTH_OF_WIDE, Bank, Window, draw_bank, window_of
from noisewise.likelihood.scrambles import N_SCRAMBLES, log_mean, log_sum
from noisewise.likelihood.smooth_scale import Side, discounted_gap, of_sorted, steep
from noisewise.populations.cleaned import records_from_base, single_rows
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.populations.population import AnyPopulation
from noisewise.privacy.smooth import reach, scale_floor
from noisewise.release import NoisyValue
from noisewise.statistics.order import OrderStatistic
from noisewise.types import Bools, Floats

__all__ = ["N_SCRAMBLES", "OrderBank", "OrderRecords"]

FEWEST_PER_SHARE, MOST_PER_SHARE = 4, 32
MOST_KNOTS = 128  # parameters at which the statistic is drawn
N_SKETCHED = 16
FURTHEST_NEAR = 60.0


class Points(NamedTuple):
    """The bank at one theta: log importance weights, the statistic and its floored smooth scale."""

    log_weight: Array
    statistic: Array
    scale: Array


@dataclass(frozen=True)
class OrderBank(BankLaw):
    """The likelihood of one noisy median, maximum, minimum or quantile."""

    release: NoisyValue
    population: AnyPopulation
    law: SmoothLaw
    rank: int
    low: float
    high: float
    floor: float
    quantile: FeatureQuantile
    bank: Bank
    window: Window
    sketch: Window
    seed: int
    tried: Theta | None = None

    @classmethod
    def of(cls, release: NoisyValue, population: AnyPopulation, *, seed: int = 0, size: int | None = None) -> OrderBank:
        """`size` is the number of base draws; by default 288 to 2304, so that the error is about half a percent."""
        if size is None:
            return cls.grown(
                lambda per_share: cls._of(release, population, seed, per_share),
                fewest=FEWEST_PER_SHARE,
                most=MOST_PER_SHARE,
            )
        return cls._of(release, population, seed, _per_share(size))

    @classmethod
    def _of(cls, release: NoisyValue, population: AnyPopulation, seed: int, per_share: int) -> OrderBank:
        statistic, law, schema = release.statistic, release.law, release.schema
        if not isinstance(statistic, OrderStatistic) or law.form is not Form.SCALED:
            raise Unsupported(
                f"A bank of order statistics scores a median, maximum, minimum or quantile under smooth sensitivity, "
                f"not {statistic} with the law {law.family!r}."
            )  # fmt: skip
        law = smooth_law(law)
        n, (low, high) = schema.largest_n, statistic.bounds(schema)
        m, floor = statistic.rank(n), scale_floor(step=law.step, alpha=law.alpha)
        centre = expected_logit(m, n)
        spread = math.sqrt(float(polygamma(1, m) + polygamma(1, n + 1 - m)))
        furthest = reach(beta=steep(law.beta), low=low, high=high, floor=floor)
        sides = Side.of(m - 1, furthest), Side.of(n - m, furthest)
        quantile = FeatureQuantile.of(population, schema, statistic.feature, centre=centre, spread=spread)
        bank = draw_bank(np.random.default_rng(seed), sides, m, n, centre, spread, per_share)
        window, sketch = (window_of(bank, sides, law.beta, most) for most in (None, N_SKETCHED))
        return cls(release, population, law, m, low, high, floor, quantile, bank, window, sketch, seed)

    @property
    def n(self) -> int:
        return self.release.schema.largest_n

    @property
    def releases(self) -> tuple[NoisyValue, ...]:
        return (self.release,)

    @cached_property
    def because(self) -> str:
        return (
            f"exact law by a bank of {len(self.bank.own)} base draws ({self.error_words}): "
            "the scale of the noise depends on the records, so no closed form exists"
        )

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        """s given y and theta: a base draw picked in proportion to its weight times the noise density.

        Many values of one unknown are drawn at fewer knots, each at one of the two beside it, so that the law of s is
        interpolated linearly between them.
        """
        knots, knot_of = _knots(rng, theta)
        drawn = np.empty((rows_of(theta), 1))
        for k, table in enumerate(self.quantile.tables(knots)):
            points, own = self._points(table), np.flatnonzero(knot_of == k)
            logs = points.log_weight + self._log_noise(points)
            upto = np.cumsum(np.exp(logs - logs.max()))
            drawn[own, 0] = points.statistic[np.searchsorted(upto, upto[-1] * rng.random(own.size), side="right")]
        return drawn

    def latent(self, parameters: Parameters) -> OrderRecords:
        return OrderRecords(self, parameters)

    def log_noise_of(self, values: Array) -> Array:
        """log h(y | s, S) of data sets given as feature values (M, n); NaN where they are not numbers."""
        values = np.sort(values, axis=-1)
        if not np.isfinite(values).all():
            return np.full(len(values), np.nan)
        scale = of_sorted(values, rank=self.rank, low=self.low, high=self.high, beta=self.law.beta)
        return self._log_noise(Points(scale, values[:, self.rank - 1], np.maximum(scale, self.floor)))

    def _log_noise(self, points: Points) -> Array:
        return self.law.log_pmf(self.release.value[0] - points.statistic / self.law.step, smooth_scale=points.scale)

    def _scramble_logs(self, theta: Theta) -> Array:
        """log p of each scramble alone, (K, N_SCRAMBLES); NaN where theta gives no law."""
        logs = np.full((rows_of(theta), N_SCRAMBLES), np.nan)
        for k, table in enumerate(self.quantile.tables(theta)):
            if np.all(np.isfinite(table.values)) and not np.any(np.isnan(table.edges)):
                points = self._points(table)
                each = (points.log_weight + self._log_noise(points)).reshape(N_SCRAMBLES, -1)
                logs[k] = log_mean(each)
        return logs

    def _points(self, table: Table) -> Points:
        near, width = self._near_release(table)
        bank, m, n = self.bank, self.rank, self.n
        ell = np.choose(bank.component, [bank.own, near + width * bank.cauchy, bank.wide])
        log_own = m * _log_expit(ell) + (n + 1 - m) * _log_expit(-ell) - betaln(m, n + 1 - m)
        wide = _log_cauchy(ell, self.quantile.centre, WIDTH_OF_WIDE * self.quantile.spread)
        laws = np.stack([log_own, _log_cauchy(ell, near, width), wide], axis=-1)
        log_weight = log_own - log_sum(laws + np.log(np.array(SHARES) / sum(SHARES)))
        # The weights of a scramble average 1 in expectation; made to do so exactly, they add no noise of their own.
        blocks = log_weight.reshape(N_SCRAMBLES, -1)
        log_weight = (blocks - log_mean(blocks)[:, None]).ravel()
        statistic, scale = self._scales(table, ell, np.ones(ell.size, bool), self.window)
        return Points(log_weight, statistic, scale)

    def _near_release(self, table: Table) -> tuple[Array, Array]:
        """Where to look for ell beside its own law, and how widely, (N,) each.

        Around ell_y, which puts the statistic on the release, as far as noise reaches. But z spreads away from ell's
        own law, Laplace noise of 1/r spreads makes the integrand exp(-t^2/2 - r |z - t|): its top is at t = min(r, z).
        Each base draw has its own scale, read here from few ranks: a proposal need not be exact, only known.
        """
        centre, spread, size = self.quantile.centre, self.quantile.spread, len(self.bank.own)
        y = self.release.value[0] * self.law.step
        z = float(np.clip((inverse(y, *plain_table(table)) - centre) / spread, -FURTHEST_NEAR, FURTHEST_NEAR))
        ell = centre + spread * z
        _, scale = self._scales(table, np.full(size, ell), np.ones(size, bool), self.sketch)
        beside = np.array([ell - spread / 8, ell + spread / 8])
        rise = float(np.ptp(read_all(beside, *plain_table(table)))) * 4  # of the statistic, over one spread of ell
        noise = scale / float(self.law.alpha)
        width = np.clip(noise / np.maximum(rise, noise), 1e-9, 1.0)
        if smooth_shape(self.law) is not SmoothShape.LAPLACE:
            return np.full(size, ell), spread * width
        excess = np.maximum(abs(z) - 1 / width, 0.0)
        return ell - spread * math.copysign(1.0, z) * excess, spread * np.clip(excess, width, 1.0)

    def _scales(self, table: Table, ell: Array, wanted: Any, window: Window) -> tuple[Array, Array]:
        bounds = (self.low, self.high, math.exp(steep(self.law.beta)))
        statistic, scale = _window_scales(ell, wanted, *window, bounds, *plain_table(table))
        return statistic, np.maximum(scale, self.floor)


@dataclass(frozen=True, slots=True)
class OrderRecords:
    """The same law with all n records as latent base draws z ~ Uniform(0, 1), for averaged acceptance ratios."""

    model: OrderBank
    parameters: Parameters
    is_sequential: ClassVar[bool] = False

    @property
    def n(self) -> int:
        return self.model.n

    def base(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return rng.random((*shape, self.n))

    def log_noise(self, z: Array, position: Array) -> Array:
        """log h(y | z, theta), (K, N), for z (K, N, n)."""
        model, quantile = self.model, self.model.quantile
        found = np.empty(z.shape[:2])
        for k, theta in enumerate(single_rows(self.parameters(position))):
            base = {quantile.column: z[k]}
            x = records_from_base(model.population, model.release.schema, base, theta, (quantile.column,))
            found[k] = model.log_noise_of(quantile.feature_of(x[quantile.column][0]))
        return found


def _per_share(size: int) -> int:
    """The power of two of points that one share takes in one scramble."""
    if isinstance(size, bool) or not isinstance(size, int) or size < N_SCRAMBLES * sum(SHARES):
        raise InvalidArgument(
            f"size = {size!r}: a bank needs at least {N_SCRAMBLES * sum(SHARES)} base draws.", argument="size"
        )
    return 1 << max(0, round(math.log2(size / (N_SCRAMBLES * sum(SHARES)))))


def _knots(rng: np.random.Generator, theta: Theta) -> tuple[Theta, Any]:
    """Rows of theta that stand for all of them, and for each row (K,) the index of the one it is drawn at.

    Between two knots a row takes either, with chances that make the knot's expectation the row itself.
    """
    rows = rows_of(theta)
    if len(theta) != 1 or rows <= MOST_KNOTS or next(iter(theta.values())).ndim > 1:
        return theta, np.arange(rows)
    ((name, value),) = theta.items()
    ordered = np.sort(value)
    knots = np.unique(ordered[np.linspace(0, rows - 1, MOST_KNOTS).round().astype(int)])
    right = np.clip(np.searchsorted(knots, value), 1, max(len(knots) - 1, 1))
    if len(knots) == 1:
        return {name: knots}, np.zeros(rows, int)
    share = (value - knots[right - 1]) / (knots[right] - knots[right - 1])
    return {name: knots}, np.where(rng.random(rows) < share, right, right - 1)


def expected_logit(m: int, n: int) -> float:
    return float(polygamma(0, m) - polygamma(0, n + 1 - m))


def _log_expit(ell: Array) -> Array:
    return np.asarray(-np.logaddexp(0.0, -ell))


def _log_cauchy(x: Array, centre: float | Array, width: float | Array) -> Array:
    return np.asarray(-np.log(np.pi * width * (1 + ((x - centre) / width) ** 2)))


def plain_table(table: Table) -> tuple[Any, ...]:
    """A table as the arguments of compiled functions."""
    layout = (table.centre, table.spread, table.first, table.cell, table.least_until, table.largest_from)
    return table.values, table.slopes, table.edges, table.is_step, layout


@njit(cache=True)
def read_all(
    ell: Floats,
    values: Floats,
    slopes: Floats,
    edges: Floats,
    is_step: bool,
    layout: tuple[float, float, float, float, float, float],
) -> Floats:
    found = np.empty(ell.size)
    for k in range(ell.size):
        found[k] = read(ell[k], values, slopes, edges, is_step, layout)
    return found


@njit(cache=True)
def _window_scales(
    ell: Floats,
    wanted: Bools,
    log_below: Floats,
    log_above: Floats,
    down_weight: Floats,
    up_weight: Floats,
    has_end: tuple[bool, bool],
    bounds: tuple[float, float, float],
    values: Floats,
    slopes: Floats,
    edges: Floats,
    is_step: bool,
    layout: tuple[float, float, float, float, float, float],
) -> tuple[Floats, Floats]:
    """The statistic and S at each point of the bank, from no more ranks than can matter; bounds = (low, high, e^b)."""
    low, high, lift = bounds
    n_up, n_down = up_weight.size, down_weight.size
    up, down = np.empty(n_up), np.empty(n_down)
    statistic, scale = np.empty(ell.size), np.full(ell.size, high - low)
    reach_up, reach_down = lift * (high - low) * up_weight, lift * (high - low) * down_weight
    for j in range(ell.size):
        centre = read(ell[j], values, slopes, edges, is_step, layout)
        statistic[j] = up[0] = down[0] = centre
        if not wanted[j]:
            continue
        to_low, to_high = -np.logaddexp(0.0, -ell[j]), -np.logaddexp(0.0, ell[j])  # log u_(m), log (1 - u_(m))
        best, b, a = 0.0, 1, 1
        while (b < n_up and reach_up[b] > best) or (a < n_down and reach_down[a] > best):
            if b < n_up and reach_up[b] > best:
                if has_end[1] and b == n_up - 1:
                    up[b] = high
                else:
                    x = to_high + log_above[j, b - 1]
                    up[b] = read(np.log(-np.expm1(x)) - x, values, slopes, edges, is_step, layout)
                best = max(best, lift * up_weight[b] * (up[b] - centre))
                b += 1
            if a < n_down and reach_down[a] > best:
                if has_end[0] and a == n_down - 1:
                    down[a] = low
                else:
                    x = to_low + log_below[j, a - 1]
                    down[a] = read(x - np.log(-np.expm1(x)), values, slopes, edges, is_step, layout)
                best = max(best, lift * down_weight[a] * (centre - down[a]))
                a += 1
            best = max(best, lift * up_weight[b - 1] * down_weight[a - 1] * (up[b - 1] - down[a - 1]))
        scale[j] = max(best, lift * discounted_gap(up, up_weight, b, down, down_weight, a))
    return statistic, scale
