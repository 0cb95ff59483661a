"""Draws of all sites' coefficients, of their centre and of their spread, by Gibbs steps and two ways to see a centre.

    b_j ~ N(centre, diag spread^2),     spread_k ~ half-normal(scale_k),     centre ~ its prior
    t_j | b_j, rest_j                   the site's likelihood, with nothing latent (density.py)
One sweep:
    sites     (b_j, rest_j) given centre and spread, each by steps of Hamiltonian Monte Carlo: given these two, sites
              are independent. The metric is (H_j + T' diag(1/spread^2) T)^-1, H_j the site's own curvature, so that a
              step is as long as the present spread allows, be it 0.001 or 1000
    centred   spread_k given b (a slice, its centre integrated out), then centre given b and spread (normal)
    as drawn  with z_j = (b_j - centre)/spread held instead of b_j: (centre, log spread) by Hamiltonian Monte Carlo
              through all sites' likelihoods
The second step alone stands still where releases say little of b_j, the third alone where they say much; one after the
other they are good for both (Yu & Meng 2011), which is what "centred for strong holders, non-centred for weak ones"
amounts to, without anybody having to say which holder is which.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from noisewise.inference import hamiltonian
from noisewise.inference.diagnostics import rhat
from noisewise.inference.progress import Progress
from noisewise.regression.marginal import inverse_factor
from noisewise.regression.sites.density import SiteData
from noisewise.types import Floats, Integers

__all__ = ["CommonPrior", "Site", "SiteDraws", "sample"]

ACCEPTANCE = 0.8
DIFFERENCE = 1e-4
LARGEST_HESSIAN = 80
CURVATURES = 8  # positions over which a site's curvature is averaged after the first part of the warm-up
FIRST_PART = 0.4
LEANING = 5.0  # draws for each coordinate that a curvature counts for, beside those of the warm-up
STEPS = 2  # of a site in one sweep
LEAPS = 4  # of the third step: centre and spread are few, and a step there asks every site
CONTINUATIONS, RHAT_LIMIT = 2, 1.01
WIDTH, MOST_WIDTHS, MOST_SHRINKS = 1.0, 1000, 200
FARTHEST = 30.0  # |log(spread/scale)| beyond which no spread is followed


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """One site's density, where its chains may start, and its curvature there without the common law."""

    density: Callable[[Floats, SiteData, Floats], float]
    walk: Callable[..., None]
    data: SiteData
    mode: Floats  # (size,)
    factor: Floats  # (size, size): of its own posterior's covariance there
    mixing: int  # where coordinates begin of which the prior N(0, 1) is curvature enough
    back: Floats  # the inverse of the law's turn

    @property
    def shared(self) -> int:
        return len(self.data.law.centre)

    def numbers(self, position: Floats) -> Floats:
        """b of a position."""
        return np.asarray(self.data.law.turn @ position[: self.shared] - self.data.law.shift)

    def place(self, position: Floats, b: Floats) -> None:
        """Write b into a position."""
        law = self.data.law
        position[: self.shared] = self.back @ (b + law.shift)

    def likelihood(self, position: Floats, gradient: Floats) -> float:
        """log p(t | b, rest) p(rest); its gradient by b and rest."""
        self.data.law.spread[:] = np.inf
        value = self.density(position, self.data, gradient)
        gradient[: self.shared] = gradient[: self.shared] @ self.back
        return value


@dataclass(frozen=True, slots=True, eq=False)
class CommonPrior:
    """centre ~ N(mean, precision^-1), but for its last number where `noise` is given.

    That is log sigma, with sigma^2 ~ InverseGamma(*noise) and no precision of its own. spread_k ~ half-normal(scale_k).
    """

    mean: Floats  # (p,)
    precision: Floats  # (p, p)
    scale: Floats  # (p,)
    noise: tuple[float, float] | None = None

    @property
    def independent(self) -> list[Integers]:
        """Coefficients that can be moved together: all where their priors are independent, else one by one."""
        count = len(self.mean) - (self.noise is not None)
        own = self.precision[:count, :count]
        together = np.arange(count)
        return [together] if not np.any(own - np.diag(np.diag(own))) else [together[k : k + 1] for k in range(count)]

    def centre(self, centre: Floats) -> tuple[float, Floats]:
        """log density of a centre (p,), and its gradient."""
        away = centre - self.mean
        gradient = -self.precision @ away
        value = 0.5 * float(away @ gradient)
        if self.noise is not None:
            shape, rate = self.noise
            inverse = rate * math.exp(min(-2.0 * centre[-1], 600.0))
            value += -2.0 * shape * centre[-1] - inverse
            gradient[-1] += -2.0 * shape + 2.0 * inverse
        return value, gradient


@dataclass(frozen=True, slots=True, eq=False)
class SiteDraws:
    """Draws by chain: centre and spread (chains, draws, p), and each site's positions (chains, draws, size)."""

    centre: Floats
    spread: Floats
    positions: tuple[Floats, ...]
    divergent: int
    non_finite: int

    def numbers(self, sites: Sequence[Site]) -> Floats:
        """b (chains, draws, sites, p)."""
        return np.stack(
            [
                x[..., : site.shared] @ site.data.law.turn.T - site.data.law.shift
                for site, x in zip(sites, self.positions, strict=True)
            ],
            axis=2,
        )


@dataclass(slots=True, eq=False)
class _State:
    """One chain."""

    positions: list[Floats]
    centre: Floats
    spread: Floats
    tuning: list[Floats]
    third: Floats
    divergent: int = 0
    non_finite: int = 0
    factors: list[Floats] = field(default_factory=list)


def sample(
    sites: Sequence[Site],
    prior: CommonPrior,
    rng: np.random.Generator,
    *,
    chains: int = 4,
    draws: int = 1000,
    warmup: int = 1000,
    progress: Progress | None = None,
) -> SiteDraws:
    """Warm up and draw; run on, four times as long each time, where chains disagree."""
    sampler = _Sampler(sites, prior, rng)
    states = [sampler.start() for _ in range(chains)]
    total, done = chains * (warmup + draws), 0

    def advance(steps: int, *, is_warmup: bool, thin: int = 1) -> SiteDraws:
        nonlocal done
        kept = [sampler.run(state, steps, thin, is_warmup=is_warmup) for state in states]
        done += chains * steps
        if progress is not None:
            progress(min(done, total), total)
        return _stacked(kept, states)

    first = int(FIRST_PART * warmup)
    if first >= CURVATURES:
        sampler.learn(advance(first, is_warmup=True))
        for state in states:
            sampler.restart(state)
    advance(warmup - first, is_warmup=True)
    for state in states:
        state.divergent = state.non_finite = 0
    found = advance(draws, is_warmup=False)
    runs, limit = 1, max(RHAT_LIMIT, 1 + 20 / (chains * draws))
    while runs <= CONTINUATIONS and _worst_rhat(found, sites) > limit:
        found = advance(draws, is_warmup=False, thin=4**runs)
        runs += 1
    return found


class _Sampler:
    """The three steps of a sweep."""

    __slots__ = ("curvature", "middle", "prior", "rng", "sites")

    def __init__(self, sites: Sequence[Site], prior: CommonPrior, rng: np.random.Generator) -> None:
        self.sites, self.prior, self.rng = tuple(sites), prior, rng
        self.curvature = [_curvature(site, [site.mode]) for site in self.sites]
        self.middle = 0.5 * prior.scale  # a spread as it is on the whole, for the third step's metric

    def start(self) -> _State:
        """A draw of each site's own normal law, drawn in until its density is not negligible."""
        positions = [_start(self.rng, site) for site in self.sites]
        b = np.stack([site.numbers(x) for site, x in zip(self.sites, positions, strict=True)])
        precision = np.stack([np.diag(h)[: b.shape[1]] for h in self.curvature])
        weight = np.maximum(precision, 1e-6) + 1e-12
        state = _State(positions, (weight * b).sum(axis=0) / weight.sum(axis=0), self.middle.copy(), [], np.zeros(0))
        self.restart(state)
        return state

    def restart(self, state: _State) -> None:
        """Leaps to be found again."""
        state.tuning = [hamiltonian.fresh_tuning(len(site.mode), ACCEPTANCE) for site in self.sites]
        state.third = hamiltonian.fresh_tuning(2 * len(self.prior.scale), ACCEPTANCE)

    def learn(self, found: SiteDraws) -> None:
        """Curvatures averaged over where the chains have been, and a spread as it was there."""
        for j, site in enumerate(self.sites):
            seen = found.positions[j][:, found.centre.shape[1] // 2 :].reshape(-1, len(site.mode))
            hessian = _curvature(site, seen[:: max(1, len(seen) // CURVATURES)][:CURVATURES])
            self.curvature[j] = _with_spread(hessian, seen, site.shared)
        self.middle = np.median(found.spread[:, found.spread.shape[1] // 2 :], axis=(0, 1))

    def run(self, state: _State, draws: int, thin: int, *, is_warmup: bool) -> list[Floats]:
        """`draws` sweeps kept of draws * thin."""
        kept = []
        for _ in range(draws):
            for _ in range(thin):
                for j in range(len(self.sites)):
                    self._move_site(state, j, is_warmup)
                self._centred(state)
                self._as_drawn(state, is_warmup)
            kept.append(np.concatenate([state.centre, state.spread, *state.positions]))
        return kept

    def _move_site(self, state: _State, j: int, is_warmup: bool) -> None:
        site = self.sites[j]
        law, size = site.data.law, len(site.mode)
        law.centre[:], law.spread[:] = state.centre, state.spread
        hessian = self.curvature[j].copy()
        hessian[: site.shared, : site.shared] += law.turn.T @ (law.turn / np.square(state.spread)[:, None])
        records = np.empty((STEPS, size + hamiltonian.N_RECORDS))
        chain = hamiltonian.Chain(_inverse_root(hessian), state.positions[j], state.tuning[j])
        normals, uniforms = self.rng.standard_normal((STEPS, size)), self.rng.random((STEPS, 2))
        site.walk(site.data, chain, normals, uniforms, records, is_warmup)
        state.divergent += int(records[:, size + hamiltonian.DIVERGENT].sum())
        state.non_finite += int(records[:, size + hamiltonian.NON_FINITE].sum())

    def _centred(self, state: _State) -> None:
        """spread and centre given b: of one coefficient after the other, given the centres of the others."""
        b = np.stack([site.numbers(x) for site, x in zip(self.sites, state.positions, strict=True)])
        count, prior = len(b), self.prior
        mean, away = b.mean(axis=0), b - b.mean(axis=0)
        squares = np.square(away).sum(axis=0)
        normal = len(mean) - (prior.noise is not None)
        for some in prior.independent:
            own = np.diag(prior.precision)[some]  # its law given the others is N(middle, 1/own)
            middle = prior.mean[some] - (prior.precision @ (state.centre - prior.mean))[some] / own
            middle = middle + (state.centre - prior.mean)[some]
            scale, ss, height = prior.scale[some], squares[some], mean[some]

            def spread_density(x: Floats, args: tuple[Floats, ...] = (own, middle, scale, ss, height)) -> Floats:
                own, middle, scale, ss, height = args
                with np.errstate(over="ignore"):
                    variance = np.square(scale) * np.exp(2.0 * x)
                    wide = variance / count + 1 / own
                    value = -(count - 2) * x - 0.5 * ss / variance - 0.5 * np.exp(2.0 * x)
                    return np.asarray(value - 0.5 * np.log(wide) - 0.5 * np.square(height - middle) / wide)

            x = _slice(self.rng, spread_density, np.log(state.spread[some] / scale))
            state.spread[some] = scale * np.exp(x)
            weight = count / np.square(state.spread[some])
            centre = (own * middle + weight * height) / (own + weight)
            state.centre[some] = centre + self.rng.standard_normal(len(centre)) / np.sqrt(own + weight)
        if prior.noise is not None:
            self._centred_noise(state, b[:, normal])

    def _centred_noise(self, state: _State, b: Floats) -> None:
        """Likewise of log sigma, whose centre is not normal: one after the other."""
        assert self.prior.noise is not None
        (shape, rate), count, scale = self.prior.noise, len(b), self.prior.scale[-1]
        ss = float(np.square(b - state.centre[-1]).sum()) / scale**2

        def spread_density(x: Floats) -> Floats:
            with np.errstate(over="ignore"):
                return np.asarray(-(count - 1) * x - 0.5 * ss * np.exp(-2.0 * x) - 0.5 * np.exp(2.0 * x))

        state.spread[-1:] = scale * np.exp(_slice(self.rng, spread_density, np.log(state.spread[-1:] / scale)))
        mean, variance = b.mean(), state.spread[-1] ** 2 / count

        def noise_density(x: Floats) -> Floats:
            with np.errstate(over="ignore"):
                return np.asarray(-2.0 * shape * x - rate * np.exp(-2.0 * x) - 0.5 * (x - mean) ** 2 / variance)

        state.centre[-1:] = _slice(self.rng, noise_density, state.centre[-1:], width=2.0 * math.sqrt(variance))

    def _as_drawn(self, state: _State, is_warmup: bool) -> None:
        """One step of Hamiltonian Monte Carlo on (centre, log spread), with z held."""
        p = len(state.centre)
        b = np.stack([site.numbers(x) for site, x in zip(self.sites, state.positions, strict=True)])
        z = (b - state.centre) / state.spread
        moved = [x.copy() for x in state.positions]
        gradients = [np.empty(len(x)) for x in moved]
        scale = self.prior.scale

        def target(q: Floats) -> tuple[float, Floats]:
            centre, x = q[:p], q[p:]
            if np.max(np.abs(x)) > FARTHEST:
                return -math.inf, np.zeros(2 * p)
            spread = scale * np.exp(x)
            value, slope = self.prior.centre(centre)
            value += float(np.sum(x - 0.5 * np.square(spread / scale)))
            by_log = 1.0 - np.square(spread / scale)
            by_centre = slope.copy()
            for j, site in enumerate(self.sites):
                site.place(moved[j], centre + spread * z[j])
                value += site.likelihood(moved[j], gradients[j])
                by_centre += gradients[j][:p]
                by_log = by_log + gradients[j][:p] * z[j] * spread
            return value, np.concatenate([by_centre, by_log])

        start = np.concatenate([state.centre, np.log(state.spread / scale)])
        tuning = state.third
        leap = math.exp(tuning[0] if is_warmup else tuning[1])
        end, accepted, is_divergent, is_nan = _leapfrog(self.rng, target, start, self._metric(z), leap)
        if is_warmup:
            hamiltonian.tune(tuning, accepted)
        state.divergent += is_divergent
        state.non_finite += is_nan
        if end is None:
            return
        state.centre, state.spread = end[:p].copy(), scale * np.exp(end[p:])
        for j, site in enumerate(self.sites):
            site.place(state.positions[j], state.centre + state.spread * z[j])

    def _metric(self, z: Floats) -> Floats:
        """The factor of a covariance of (centre, log spread) by curvatures and z alone: both are held."""
        p = z.shape[1]
        centre, log_spread = self.prior.precision.copy(), np.full(p, 1.0)
        if self.prior.noise is not None:
            centre[-1, -1] += 4.0 * self.prior.noise[0]
        for j, site in enumerate(self.sites):
            own = site.back.T @ self.curvature[j][:p, :p] @ site.back
            centre += own
            log_spread += np.square(z[j] * self.middle) * np.maximum(np.diag(own), 0.0)
        factor = np.zeros((2 * p, 2 * p))
        factor[:p, :p] = _inverse_root(centre)
        factor[p:, p:] = np.diag(1 / np.sqrt(log_spread))
        return factor


def _leapfrog(
    rng: np.random.Generator,
    target: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    factor: Floats,
    leap: float,
) -> tuple[Floats | None, float, bool, bool]:
    """Where a step ends (None where it is refused), its acceptance, whether it diverged, met a density not a number."""
    momentum = rng.standard_normal(len(start))
    leaps = int(rng.integers(1, 2 * LEAPS))
    value, gradient = target(start)
    energy = -value + 0.5 * float(momentum @ momentum)
    position, slope = start, factor.T @ gradient
    proposed = value
    for _ in range(leaps):
        momentum = momentum + 0.5 * leap * slope
        position = position + leap * factor @ momentum
        proposed, gradient = target(position)
        if not math.isfinite(proposed):
            return None, 0.0, True, math.isnan(proposed)
        slope = factor.T @ gradient
        momentum = momentum + 0.5 * leap * slope
    error = -proposed + 0.5 * float(momentum @ momentum) - energy
    acceptance = math.exp(min(0.0, -error)) if math.isfinite(error) else 0.0
    return (position if rng.random() < acceptance else None), acceptance, not error < hamiltonian.DIVERGED, False


def _slice(
    rng: np.random.Generator, log_density: Callable[[Floats], Floats], x: Floats, width: float = WIDTH
) -> Floats:
    """One slice update (Neal 2003) of independent numbers x (k,), each with its own density (k,)."""
    level = log_density(x) - rng.standard_exponential(len(x))
    low = x - width * rng.random(len(x))
    high = low + width
    for _ in range(MOST_WIDTHS):
        is_in = log_density(low) > level
        if not is_in.any():
            break
        low = np.where(is_in, low - width, low)
    for _ in range(MOST_WIDTHS):
        is_in = log_density(high) > level
        if not is_in.any():
            break
        high = np.where(is_in, high + width, high)
    found, is_found = x.copy(), np.zeros(len(x), bool)
    for _ in range(MOST_SHRINKS):
        tried = low + (high - low) * rng.random(len(x))
        is_good = ~is_found & (log_density(tried) > level)
        found = np.where(is_good, tried, found)
        is_found |= is_good
        if is_found.all():
            break
        low, high = np.where(tried < x, tried, low), np.where(tried < x, high, tried)
    return found


def _curvature(site: Site, positions: Sequence[Floats] | Floats) -> Floats:
    """- d^2 log likelihood and prior of the rest, averaged over positions, in no direction negative."""
    size = len(site.mode)
    known = size if size <= LARGEST_HESSIAN else site.mixing
    site.data.law.spread[:] = np.inf
    total, up, down = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    for position in positions:
        hessian = np.eye(size)
        for i in range(known):
            moved = position.copy()
            moved[i] = position[i] + DIFFERENCE
            site.density(moved, site.data, up)
            moved[i] = position[i] - DIFFERENCE
            site.density(moved, site.data, down)
            hessian[i, :known] = (down - up)[:known] / (2 * DIFFERENCE)
        total += (hessian + hessian.T) / 2
    mean = np.where(np.isfinite(total), total, 0.0) / len(positions)
    values, vectors = np.linalg.eigh(mean)
    return np.asarray((vectors * np.maximum(values, 1e-3)) @ vectors.T)


def _with_spread(hessian: Floats, seen: Floats, shared: int) -> Floats:
    """The curvature with that of the rest given b as draws (K, size) have it: a weak site's is not the same everywhere.

    rest = B b + e with Cov e = R:  H_rr = R^-1, H_rb = -R^-1 B, and b keeps what the curvature says of it alone.
    """
    size = len(hessian)
    if size == shared or len(seen) <= 2 * size:
        return hessian
    weight = len(seen) / (len(seen) + LEANING * size)
    own = np.linalg.inv(hessian[shared:, shared:])
    slope = -own @ hessian[shared:, :shared]
    alone = hessian[:shared, :shared] - hessian[:shared, shared:] @ own @ hessian[shared:, :shared]
    b, rest = (part - part.mean(axis=0) for part in (seen[:, :shared], seen[:, shared:]))
    ridge = np.diag(np.maximum(np.square(b).mean(axis=0), 1e-300)) * (1 - weight)
    drawn = np.linalg.solve(b.T @ b / len(b) + ridge, b.T @ (rest - b @ slope.T) / len(b)).T
    slope = slope + drawn
    away = rest - b @ slope.T
    spread = weight * (away.T @ away) / len(away) + (1 - weight) * own
    precision = np.linalg.inv(spread)
    made = np.empty_like(hessian)
    made[shared:, shared:] = precision
    made[shared:, :shared] = -precision @ slope
    made[:shared, shared:] = made[shared:, :shared].T
    made[:shared, :shared] = alone + slope.T @ precision @ slope
    return (made + made.T) / 2 if np.all(np.isfinite(made)) else hessian


def _inverse_root(hessian: Floats) -> Floats:
    """The Cholesky factor of H^-1."""
    try:
        return np.ascontiguousarray(np.linalg.cholesky(np.linalg.inv(hessian)))
    except np.linalg.LinAlgError:
        return inverse_factor(hessian)


def _start(rng: np.random.Generator, site: Site) -> Floats:
    gradient = np.empty_like(site.mode)
    site.data.law.spread[:] = np.inf
    best = site.density(site.mode, site.data, gradient)
    step = site.factor @ rng.standard_normal(len(site.mode))
    for _ in range(20):
        if site.density(site.mode + step, site.data, gradient) > best - 3.0 * len(step) - 10.0:
            return np.asarray(site.mode + step)
        step *= 0.5
    return site.mode.copy()


def _stacked(kept: Sequence[Sequence[Floats]], states: Sequence[_State]) -> SiteDraws:
    rows = np.array(kept)
    p, sizes = len(states[0].centre), [len(x) for x in states[0].positions]
    ends = np.cumsum([p, p, *sizes])
    centre, spread, *positions = np.split(rows, ends[:-1], axis=2)
    return SiteDraws(
        centre, spread, tuple(positions), sum(s.divergent for s in states), sum(s.non_finite for s in states)
    )


def _worst_rhat(found: SiteDraws, sites: Sequence[Site]) -> float:
    """Over centres, log spreads and every site's numbers; 1 where the draws are too few to have one."""
    b = found.numbers(sites)
    columns = [found.centre, np.log(found.spread), b.reshape(*b.shape[:2], -1)]
    values = [rhat(x[:, :, i]) for x in columns for i in range(x.shape[2])]
    return max((value for value in values if not math.isnan(value)), default=1.0)
