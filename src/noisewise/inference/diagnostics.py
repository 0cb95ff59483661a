"""How far draws can be trusted, and the sentence that says so.

Draws of one parameter are (chains, draws). Rank-normalised split R-hat, bulk and tail effective sample sizes and Monte
Carlo standard errors follow Vehtari, Gelman, Simpson, Carpenter & Buerkner (2021): each chain is cut in two, so that a
trend shows as disagreement; ranks replace values, so that heavy tails do no harm; autocorrelations rho_t are combined
over chains and summed by Geyer's (1992) initial monotone sequence:
    tau = -1 + 2 sum_k P_k,  P_k = min_{j<=k}(rho_2j + rho_2j+1) while positive;      ESS = draws / tau.
The integrated autocorrelation time 1 + 2 sum_t rho_t is also given with Sokal's (1997) window, the smallest M with
M >= 5 tau(M), which is what the papers' tables report.

What cannot be judged is NaN, never a good number: constant draws, a NaN among them, fewer than 4.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from noisewise.inference.verdict import Chains, Verdict
from noisewise.types import Floats


def rhat(draws: ArrayLike) -> float:
    """Rank-normalised split R-hat: the larger of that of the draws and that of their distances from the median."""
    x = _checked(draws)
    if x is None:
        return math.nan
    halves = _split(x)
    return max(_rhat(_normal_scores(halves)), _rhat(_normal_scores(np.abs(halves - np.median(halves)))))


def ess_bulk(draws: ArrayLike) -> float:
    """Effective sample size for the centre of the distribution."""
    x = _checked(draws)
    return math.nan if x is None else _ess(_normal_scores(_split(x)))


def ess_tail(draws: ArrayLike) -> float:
    """Effective sample size for the 5 % and 95 % quantiles, whichever is smaller."""
    return float(np.min([ess_quantile(draws, 0.05), ess_quantile(draws, 0.95)]))


def ess_mean(draws: ArrayLike) -> float:
    """Effective sample size for the mean."""
    x = _checked(draws)
    return math.nan if x is None else _ess(_split(x))


def ess_quantile(draws: ArrayLike, probability: float) -> float:
    """Effective sample size for a quantile: that of the indicator of lying below it."""
    x = _checked(draws)
    return math.nan if x is None else _ess(_split((x <= np.quantile(x, probability)).astype(float)))


def mcse_mean(draws: ArrayLike) -> float:
    """Monte Carlo standard error of the mean."""
    return float(np.std(np.asarray(draws, float), ddof=1)) / math.sqrt(ess_mean(draws))


def mcse_sd(draws: ArrayLike) -> float:
    """Monte Carlo standard error of the standard deviation, from the variance of the squared deviations."""
    x = np.asarray(draws, float)
    squares = (x - x.mean()) ** 2
    variance = float(squares.mean())
    if not variance > 0:
        return math.nan
    return math.sqrt((float((squares**2).mean()) - variance**2) / ess_mean(squares) / variance / 4)


def mcse_quantile(draws: ArrayLike, probability: float) -> float:
    """Monte Carlo standard error of a quantile: half of its central 68 % interval among order statistics."""
    from scipy.special import betaincinv

    x, ess = np.sort(np.asarray(draws, float), axis=None), ess_quantile(draws, probability)
    if not ess > 0:
        return math.nan
    ends = betaincinv(ess * probability + 1, ess * (1 - probability) + 1, [0.1586553, 0.8413447]) * x.size - 1
    low, high = math.floor(max(ends[0], 0.0)), math.ceil(min(ends[1], x.size - 1.0))
    return float(x[high] - x[low]) / 2


def integrated_autocorrelation(draws: ArrayLike, *, window: float = 5.0) -> float:
    """1 + 2 sum of autocorrelations to the smallest M >= window * tau(M), chains about their common mean (Sokal)."""
    x = _checked(draws)
    if x is None:
        return math.nan
    covariance = _autocovariance(x - x.mean(), centre=False).mean(axis=0)
    tau = 2.0 * np.cumsum(covariance / covariance[0]) - 1.0
    # At least `window` lags: the partial sums of an alternating chain pass through zero.
    enough = np.flatnonzero(np.arange(tau.size) >= window * np.maximum(tau, 1.0))
    return float(tau[enough[0]] if enough.size else tau[-1])


def missing_information(energy: ArrayLike) -> Floats:
    """The Bayesian fraction of missing information of each chain of a Hamiltonian sampler (Betancourt 2016).

    E (E_t - E_{t-1})^2 / Var E: near 1 or above where momentum resampling explores the energies, below 0.3 where not.
    """
    x = np.atleast_2d(np.asarray(energy, float))
    fraction: Floats = np.mean(np.diff(x, axis=1) ** 2, axis=1) / np.var(x, axis=1, ddof=1)
    return fraction


def verdict(
    positions: ArrayLike,
    *,
    names: tuple[str, ...] | None = None,
    non_finite: ArrayLike = (),
    warmup_non_finite: ArrayLike = (),
) -> Verdict:
    """The verdict on draws (chains, draws, size) and on the non-finite steps counted by chain."""
    return Verdict(judged(positions, names=names, non_finite=non_finite, warmup_non_finite=warmup_non_finite))


def judged(
    positions: ArrayLike,
    *,
    names: tuple[str, ...] | None = None,
    non_finite: ArrayLike = (),
    warmup_non_finite: ArrayLike = (),
) -> Chains:
    """The evidence in draws (chains, draws, size) and in the non-finite steps counted by chain."""
    x = np.asarray(positions, float)
    chains, draws, size = x.shape
    ratios = [rhat(x[:, :, i]) for i in range(size)]
    sizes = [float(np.min([ess_bulk(x[:, :, i]), ess_tail(x[:, :, i])])) for i in range(size)]
    is_known = np.isfinite(ratios) & np.isfinite(sizes)
    worst = int(np.argmax(ratios if is_known.all() else ~is_known))
    return Chains(
        rhat=float(np.max(ratios)),
        smallest_ess=float(np.min(sizes)),
        worst=None if names is None else names[worst],
        draws=chains * draws,
        chains=chains,
        non_finite=tuple(int(count) for count in np.asarray(non_finite)),
        warmup_non_finite=tuple(int(count) for count in np.asarray(warmup_non_finite)),
        longest_standstill=tuple(_longest_standstill(chain) for chain in x),
    )


def _longest_standstill(chain: Floats) -> int:
    """The largest number of successive steps that left (draws, size) where it was."""
    still = np.concatenate([[0], np.all(chain[1:] == chain[:-1], axis=1), [0]]).astype(int)
    edges = np.flatnonzero(np.diff(still))
    return int(np.max(edges[1::2] - edges[::2], initial=0))


def _checked(draws: ArrayLike) -> Floats | None:
    """Draws as (chains, draws), or None if nothing can be said about them."""
    x = np.atleast_2d(np.asarray(draws, float))
    if x.shape[1] < 4 or not np.all(np.isfinite(x)) or np.ptp(x) == 0:
        return None
    return x


def _split(x: Floats) -> Floats:
    """Each chain as two, the middle draw of an odd number left out."""
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def _normal_scores(x: Floats) -> Floats:
    """Phi^-1((rank - 3/8)/(size + 1/4)), ties sharing their average rank."""
    from scipy.special import ndtri

    _, where, counts = np.unique(x, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[where].reshape(x.shape)
    scores: Floats = ndtri((ranks - 0.375) / (x.size + 0.25))
    return scores


def _rhat(x: Floats) -> float:
    """sqrt of the pooled over the within-chain variance."""
    chains, draws = x.shape
    within = float(np.mean(np.var(x, axis=1, ddof=1)))
    between = float(np.var(x.mean(axis=1), ddof=1)) if chains > 1 else 0.0
    if within == 0:
        return math.inf if between > 0 else math.nan
    return math.sqrt((draws - 1) / draws + between / within)


def _ess(x: Floats) -> float:
    """Draws over Geyer's autocorrelation time, from autocorrelations that know the spread between chains."""
    chains, draws = x.shape
    covariance = _autocovariance(x, centre=True)
    within = float(covariance[:, 0].mean()) * draws / (draws - 1)
    pooled = within * (draws - 1) / draws + (float(np.var(x.mean(axis=1), ddof=1)) if chains > 1 else 0.0)
    if not pooled > 0:
        return math.nan
    rho = 1.0 - (within - covariance.mean(axis=0)) / pooled
    rho[0] = 1.0
    # The last lags, of which one or two products remain, are left out.
    pairs = rho[: 2 * (max(draws - 3, 0) // 2 + 1)].reshape(-1, 2)
    sums = pairs.sum(axis=1)
    negative = np.flatnonzero(sums <= 0)
    last = int(negative[0]) if negative.size else len(sums) - 1
    kept = np.minimum.accumulate(sums[:last]) if last else np.empty(0)
    # Beyond the last pair that counts, the first half of the next one still does if it is positive.
    tail = max(float(pairs[last, 0]), 0.0)
    tau = -1.0 + 2.0 * float(kept.sum()) + tail
    return float(chains * draws / max(tau, 1 / math.log10(chains * draws)))


def _autocovariance(x: Floats, *, centre: bool) -> Floats:
    """sum_t x_t x_{t+k} / draws for every lag k, by the fast Fourier transform, (chains, draws)."""
    draws = x.shape[1]
    length = 1 << (2 * draws - 1).bit_length()
    spectrum = np.fft.rfft(x - x.mean(axis=1, keepdims=True) if centre else x, n=length, axis=1)
    covariance: Floats = np.fft.irfft(np.abs(spectrum) ** 2, n=length, axis=1)[:, :draws] / draws
    return covariance
