"""Noisy counts, exactly: sums over every value the confidential count can take.

The noise enters as log P(y | s) for s = 0..n, one number a possible count, so any law serves: discrete Laplace,
discrete or rounded Gaussian, a finite row. Two releases of the same count: add their arrays, since both are given s.

Beta-binomial (the model of Bernstein & Sheldon 2018, not approximated): theta ~ Beta(a, b), s ~ Binomial(n, theta),
    p(theta | y) = sum_s w_s Beta(theta; a + s, b + n - s),    w_s proportional to BetaBinomial(s; n, a, b) P(y | s).
Dirichlet-multinomial: with g_j(s) = Gamma(alpha_j + s)/(Gamma(alpha_j) s!) P(y_j | s), counts s_1..s_m that sum to n
have posterior weight prod_j g_j(s_j): convolve forward, F_j = F_{j-1} * g_j, then draw backward s_j, given that the
first j sum to t, with weights g_j(s) F_{j-1}(t - s), and theta ~ Dirichlet(alpha + s). Draws are independent and exact.

All terms are positive, so a plain convolution loses nothing but what underflows; a common tilt g_j(s) e^{lambda s},
which leaves every conditional law as it is, puts the total n where the product has its weight. Terms below e^{-150} of
the largest are dropped: a total variation below 1e-60.

Cost O(n) a row: for up to some 10^4 records. The beta mixture also takes the noise on a window of counts (`start`, n),
which `beta_window` finds, and is then flat in n. Likelihoods at any n: `binomial_laplace`, `binomial_sum`, `table_sum`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln, gammaln, logsumexp, xlog1py, xlogy

from noisewise.errors import InvalidArgument
from noisewise.likelihood import log_concave
from noisewise.likelihood.discrete_laws import log_rising
from noisewise.types import Floats, Integers

__all__ = [
    *("beta_binomial_log_weights", "beta_mixture_log_density", "beta_mixture_moments", "beta_window"),
    *("draw_beta_binomial",),
    *("binomial_log_likelihood", "binomial_score", "draw_dirichlet_multinomial"),
    *("dirichlet_multinomial_log_evidence", "multinomial_log_likelihood"),
]

MOST_CELLS = 4_000_000
NEGLIGIBLE = 150.0


def beta_binomial_log_weights(
    log_noise: ArrayLike, *, a: float, b: float, start: int = 0, n: int | None = None
) -> tuple[Floats, float]:
    """log w_s, normalised, and the log evidence log p(y), for s = start, start + 1, ...: all of 0..n, or a window."""
    log_noise = np.asarray(log_noise, dtype=np.float64)
    n, s = _window(log_noise.size, start, n)
    joint = log_rising(a, s) + log_rising(b, n - s) - log_rising(a + b, n) + log_noise
    evidence = float(logsumexp(joint))
    return joint - evidence, evidence


def beta_window(log_noise: Callable[[Floats], Floats], *, a: float, b: float, n: int) -> tuple[int, int]:
    """The first and last s that can matter to the weights; log_noise(s) must be concave in s.

    For a, b >= 1 the weights are log-concave too. A smaller a or b changes them by a factor of at most n, far less
    than the e^{150} by which what lies beyond has fallen.
    """
    a, b = max(a, 1.0), max(b, 1.0)

    def rises(s: Floats) -> NDArray[np.bool_]:
        s = np.minimum(s, n - 1)
        slope = np.log((a + s) / (s + 1)) - np.log((b + n - s - 1) / (n - s))
        return np.asarray(slope + log_noise(s + 1) - log_noise(s) > 0)

    def log_weight(s: Floats) -> Floats:
        return log_rising(a, s) + log_rising(b, n - s) + log_noise(s)

    low, high = np.zeros(1), np.full(1, float(n))
    peak = log_concave.mode(rises, low, high)
    first, last = log_concave.reach(log_weight, peak, low, high, fall=NEGLIGIBLE)
    return int(first[0]), int(last[0])


def beta_mixture_log_density(
    theta: ArrayLike, log_weights: ArrayLike, *, a: float, b: float, start: int = 0, n: int | None = None
) -> Floats:
    """log p(theta | y), for theta of any shape; from a window, right down to e^-100 of the peak and too low beyond."""
    theta, log_weights = np.asarray(theta, dtype=np.float64), np.asarray(log_weights, dtype=np.float64)
    n, s = _window(log_weights.size, start, n)
    constant = log_weights - betaln(a + s, b + n - s)
    result = np.empty(theta.size)
    for rows in _chunks(theta.size, s.size):
        t = theta.ravel()[rows, None]
        result[rows] = logsumexp(constant + xlogy(a + s - 1, t) + xlog1py(b + n - s - 1, -t), axis=-1)
    return result.reshape(theta.shape)


def beta_mixture_moments(
    log_weights: ArrayLike, *, a: float, b: float, start: int = 0, n: int | None = None
) -> tuple[float, float]:
    """Posterior mean and variance of theta, in closed form."""
    w = np.exp(np.asarray(log_weights, dtype=np.float64))
    n, s = _window(w.size, start, n)
    total = a + b + n
    means = (a + s) / total
    mean = float(w @ means)
    return mean, float(w @ (means * (1 - means) / (total + 1) + np.square(means - mean)))


def draw_beta_binomial(
    rng: np.random.Generator,
    log_weights: ArrayLike,
    *,
    a: float,
    b: float,
    size: int,
    start: int = 0,
    n: int | None = None,
) -> tuple[Floats, Integers]:
    """Independent posterior draws of (theta, s)."""
    w = np.exp(np.asarray(log_weights, dtype=np.float64))
    n, _ = _window(w.size, start, n)
    s = start + rng.choice(w.size, size=size, p=w / w.sum())
    return rng.beta(a + s, b + n - s), s


def binomial_log_likelihood(theta: ArrayLike, log_noise: ArrayLike) -> Floats:
    """log p(y | theta) = log sum_s Binomial(s; n, theta) P(y | s), (K,)."""
    return _binomial(theta, log_noise)[0]


def binomial_score(theta: ArrayLike, log_noise: ArrayLike) -> Floats:
    """d log p(y | theta)/d theta = (E[s | y, theta] - n theta)/(theta (1 - theta)), (K,)."""
    theta = np.atleast_1d(np.asarray(theta, dtype=np.float64))
    n = np.size(log_noise) - 1
    return np.asarray((_binomial(theta, log_noise)[1] - n * theta) / (theta * (1 - theta)))


def multinomial_log_likelihood(probabilities: ArrayLike, log_noise: ArrayLike) -> Floats:
    """log p(y | theta), (K,): probabilities (K, m), noise independent over cells, log_noise (m, n + 1)."""
    probabilities = np.atleast_2d(np.asarray(probabilities, dtype=np.float64))
    log_noise = np.asarray(log_noise, dtype=np.float64)
    s = np.arange(log_noise.shape[-1])
    base = log_noise - gammaln(s + 1)
    total = gammaln(s.size)
    return np.array([total + _Chain.of(base + xlogy(s, p[:, None])).log_total for p in probabilities])


def dirichlet_multinomial_log_evidence(log_noise: ArrayLike, *, alpha: ArrayLike) -> float:
    """log p(y) under theta ~ Dirichlet(alpha)."""
    terms, constant = _dirichlet_terms(log_noise, alpha)
    return constant + _Chain.of(terms).log_total


def draw_dirichlet_multinomial(
    rng: np.random.Generator, log_noise: ArrayLike, *, alpha: ArrayLike, size: int
) -> tuple[Floats, Integers]:
    """Independent joint posterior draws of theta (size, m) and s (size, m); log_noise (m, n + 1)."""
    chain = _Chain.of(_dirichlet_terms(log_noise, alpha)[0])
    s = chain.draw(rng, size)
    gammas = rng.standard_gamma(np.asarray(alpha, dtype=np.float64) + s)
    return gammas / np.sum(gammas, axis=-1, keepdims=True), s


def log_choose(n: int) -> Floats:
    """log of n choose s, s = 0..n."""
    s = np.arange(n + 1)
    return np.asarray(gammaln(n + 1) - gammaln(s + 1) - gammaln(n - s + 1))


def _binomial(theta: ArrayLike, log_noise: ArrayLike) -> tuple[Floats, Floats]:
    """log p(y | theta) and E[s | y, theta]."""
    theta = np.atleast_1d(np.asarray(theta, dtype=np.float64))
    log_noise = np.asarray(log_noise, dtype=np.float64)
    n = log_noise.size - 1
    s = np.arange(n + 1)
    base = log_choose(n) + log_noise
    log_p, mean = np.empty(theta.size), np.empty(theta.size)
    for rows in _chunks(theta.size, n + 1):
        t = theta[rows, None]
        joint = base + xlogy(s, t) + xlog1py(n - s, -t)
        log_p[rows] = logsumexp(joint, axis=-1)
        with np.errstate(invalid="ignore"):
            mean[rows] = np.exp(joint - log_p[rows, None]) @ s
    return log_p, mean


def _dirichlet_terms(log_noise: ArrayLike, alpha: ArrayLike) -> tuple[Floats, float]:
    log_noise, alpha = np.asarray(log_noise, dtype=np.float64), np.asarray(alpha, dtype=np.float64)
    if log_noise.ndim != 2 or alpha.shape != log_noise.shape[:1]:
        message = f"{log_noise.shape[0]} rows of noise need as many concentrations, not shape {alpha.shape}."
        raise InvalidArgument(message, argument="alpha")
    s = np.arange(log_noise.shape[1])
    terms = gammaln(alpha[:, None] + s) - gammaln(alpha)[:, None] - gammaln(s + 1) + log_noise
    whole = float(np.sum(alpha))
    return terms, float(gammaln(s.size) + gammaln(whole) - gammaln(whole + s.size - 1))


def _window(size: int, start: int, n: int | None) -> tuple[int, Integers]:
    """n, and the counts that an array of `size` entries from `start` on stands for."""
    n = start + size - 1 if n is None else n
    if not 0 <= start <= start + size - 1 <= n:
        raise InvalidArgument(f"{size} entries from {start} on do not lie in 0..{n}.", argument="start")
    return n, np.arange(start, start + size)


def _chunks(rows: int, width: int) -> list[slice]:
    step = max(1, MOST_CELLS // width)
    return [slice(start, start + step) for start in range(0, rows, step)]


class _Chain(NamedTuple):
    """Tilted terms on their windows, their forward convolutions, and log sum prod_j g_j over totals of n."""

    n: int
    starts: tuple[int, ...]
    terms: tuple[Floats, ...]
    forward: tuple[Floats, ...]  # forward[j] is the law of s_1 + .. + s_{j+1}, from sum(starts[:j+1]) on, scaled
    log_total: float

    @classmethod
    def of(cls, log_terms: Floats) -> _Chain:
        """log_terms (m, n + 1)."""
        n = log_terms.shape[1] - 1
        tilt = _tilt(log_terms, n)
        tilted = log_terms + tilt * np.arange(n + 1)
        starts: list[int] = []
        terms: list[Floats] = []
        forward: list[Floats] = []
        log_scale = -tilt * n
        for row in tilted:
            high = float(np.max(row))
            if not np.isfinite(high):
                return cls(n, (), (), (), -np.inf if high == -np.inf else np.nan)
            kept = np.flatnonzero(row > high - NEGLIGIBLE)
            starts.append(int(kept[0]))
            terms.append(np.exp(row[kept[0] : kept[-1] + 1] - high))
            log_scale += high
            law = terms[0] if not forward else np.convolve(forward[-1], terms[-1])[: n + 1]
            log_scale += float(np.log(law.max()))
            forward.append(law / law.max())
        place = n - sum(starts)
        reached = forward[-1][place] if 0 <= place < forward[-1].size else 0.0
        log_total = log_scale + float(np.log(reached)) if reached > 0 else -np.inf
        return cls(n, tuple(starts), tuple(terms), tuple(forward), log_total)

    def draw(self, rng: np.random.Generator, size: int) -> Integers:
        """Backward: s_j given the total of the first j, for all draws that share a total at once."""
        if not np.isfinite(self.log_total):
            raise InvalidArgument("No table of n records can give this release.", argument="log_noise")
        m = len(self.terms)
        s = np.empty((size, m), dtype=np.int64)
        totals = np.full(size, self.n)
        for j in range(m - 1, 0, -1):
            before, offset = self.forward[j - 1], sum(self.starts[:j])
            for total in np.unique(totals):
                rows = np.flatnonzero(totals == total)
                candidates = self.starts[j] + np.arange(self.terms[j].size)
                place = total - candidates - offset
                usable = (place >= 0) & (place < before.size)
                weights = np.where(usable, self.terms[j] * before[np.where(usable, place, 0)], 0.0)
                s[rows, j] = rng.choice(candidates, size=rows.size, p=weights / weights.sum())
            totals = totals - s[:, j]
        s[:, 0] = totals
        return s


def _tilt(log_terms: Floats, n: int) -> float:
    """lambda with sum_j E[s_j] = n under the laws proportional to g_j(s) e^{lambda s}, by bisection."""
    s = np.arange(n + 1)
    low, high = -800.0, 800.0
    with np.errstate(invalid="ignore"):
        for _ in range(60):
            middle = 0.5 * (low + high)
            tilted = log_terms + middle * s
            law = np.exp(tilted - np.max(tilted, axis=1, keepdims=True))
            mean = float(np.sum(law @ s / np.sum(law, axis=1)))
            low, high = (middle, high) if mean < n else (low, middle)
    return 0.5 * (low + high)
