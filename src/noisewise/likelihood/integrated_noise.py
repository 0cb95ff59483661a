"""Laplace noise on three and more sums, integrated out: a fixed set of mixing variances shared by all theta.

Laplace(b) is N(0, w) with w ~ Exponential(mean 2 b^2), so with J such components
    p(y | theta) = E_w N(y; m(theta), V(theta) + diag(w))  ~  sum_i (prior/q)(w_i) N(y; m, V + diag(w_i)) / M,
w_i a quasi-random net from q, in eight independent scrambles that tell the error of log p. It is a smooth function of
theta alone, so a posterior of two unknowns stays one of two, whatever J is. q is, component by component, a gamma
law, as the prior is, fitted where the release is likely, and to a tenth the prior: far from zero noise only w of a
certain size explains a component, and the prior hardly ever draws it. Where the error stays visible (`is_affordable`)
the variances are better sampled along with theta (`inference.mixed`).
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.special import digamma, logsumexp, polygamma

from noisewise.compilation import njit
from noisewise.likelihood.model import GroupLaw, Parameters, numerical_score, scalar_supports
from noisewise.likelihood.normal_rows import cautions_at
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.likelihood.scrambles import N_SCRAMBLES, log_error, log_mean, net, weighted_error
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import AnyPopulation
from noisewise.release import NoisyValue
from noisewise.types import Floats

__all__ = ["IntegratedNoise", "MixedLaw", "affordable"]

FEWEST, MOST = 256, 4096  # variances of each component
ENOUGH, NEGLIGIBLE_ERROR = 3e-3, 0.02  # error of log p: more points are not worth it; it is not felt
ROUNDS = 2
SEARCHES, SEARCHED, SHRINKING = 30, 64, 0.7  # rounds of the search, rows in each, how they close in
LIKELY, KEPT = 4.0, 32  # logs below the best, and rows that proposals are fitted to
BOUND_STEPS = 40
PRIOR_SHARE = 0.1  # of the proposal: where nothing was seen of a component it decides
CHECKED, VISIBLE_ERROR = 64, 0.1  # draws at which the error is looked at again, and from where it is told
MOST_MIXED = 20  # components: a net in more dimensions is no net
STRETCH = 1.1
LOG_PLACES = np.linspace(-35.0, 6.0, 4101)  # of log w/2b^2, at which the laws of it are tabulated


class MixedLaw(Protocol):
    """A law that is normal given mixing variances: `normal_sum`, or `tilted_sum`."""

    n: int
    population: AnyPopulation

    @property
    def releases(self) -> tuple[NoisyValue, ...]: ...
    @property
    def plain(self) -> NormalSum: ...
    @property
    def is_exact(self) -> bool: ...
    @property
    def because(self) -> str: ...
    @property
    def cautions(self) -> tuple[str, ...]: ...
    def placed(self, theta: Theta) -> tuple[Array, Array, Array]: ...
    def remember(self, theta: Theta, log_likelihood: Array) -> None: ...
    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array: ...
    def latent(self, parameters: Parameters) -> Any: ...


@dataclass(frozen=True, slots=True, eq=False)
class _Nodes:
    """Mixing variances (M, J) of one block, in blocks of scrambles, and log prior/proposal (M,)."""

    variances: Array
    log_weights: Array


class IntegratedNoise(GroupLaw):
    """The likelihood of a law that is normal given mixing variances, with these integrated out."""

    roughness = 1e-4

    def __init__(self, law: MixedLaw) -> None:
        self.law = law
        self.releases, self.population, self.n = law.releases, law.population, law.n
        self.error = math.inf
        self.size = FEWEST
        plain = law.plain
        self._scales = {k: plain.noise.scale[part.laplace] for k, part in enumerate(plain.shares) if part.is_mixed}
        self._proposals = {k: [_PRIOR] * scale.size for k, scale in self._scales.items()}
        self._nodes: dict[int, _Nodes] = {}
        if max(scale.size for scale in self._scales.values()) <= MOST_MIXED:
            self._settle()

    @cached_property
    def quick(self) -> IntegratedNoise | None:
        """The same on the fewest variances, for proposals; None where there are no fewer."""
        if self.size <= FEWEST:
            return None
        fewer = copy(self)
        fewer._nodes = {}
        fewer._lay(FEWEST)
        return fewer

    def is_affordable(self) -> bool:
        """Whether the error of log p can be neglected wherever the posterior has its mass."""
        return self.error <= NEGLIGIBLE_ERROR

    @property
    def is_exact(self) -> bool:
        return self.law.is_exact

    @property
    def because(self) -> str:
        return (
            f"{self.law.because}; Laplace noise integrated over {self.size} mixing variances (error of the "
            f"log-likelihood about {self.error:.1g})"
        )

    @property
    def cautions(self) -> tuple[str, ...]:
        return self.law.cautions

    def log_likelihood(self, theta: Theta) -> Array:
        found = log_mean(self._scramble_logs(theta))
        self.law.remember(theta, found)
        return found

    def score(self, theta: Theta) -> dict[str, Array]:
        return numerical_score(self.log_likelihood, theta, scalar_supports(self.population))

    def draw_statistic(self, rng: np.random.Generator, theta: Theta) -> Array:
        return self.law.draw_statistic(rng, theta)

    def latent(self, parameters: Parameters) -> Any:
        return self.law.latent(parameters)

    def _settle(self) -> None:
        """The proposals fitted where the release is likely, and as many variances as are worth it."""
        theta = self._likely()
        if not theta:
            return
        for k, ratio in self._bound(theta)[1].items():
            # Of w/2b^2 = x given a residual of 2 x scales, log w has a variance of about 1/(1 + 2 x).
            v, spread = np.log(ratio), np.sqrt(np.mean(1 / (1 + 2 * ratio), axis=0) + np.var(np.log(ratio), axis=0))
            self._proposals[k] = [_Proposal.of(m, STRETCH * s) for m, s in zip(v.mean(axis=0), spread, strict=True)]
        for _ in range(ROUNDS):
            self._lay(FEWEST)
            self._fit(theta)
        self._lay(FEWEST)
        while True:
            self.error = weighted_error(self._scramble_logs(theta))
            if self.error <= ENOUGH or 2 * self.size > MOST:
                return
            self._lay(2 * self.size)

    def _likely(self) -> Theta:
        """Rows of theta at which the release is about as likely as anywhere, by the bound below; none if it never is.

        Prior draws are pulled ever closer to the best so far: supports are convex, so none leaves.
        """
        rng, best, seen = np.random.default_rng(0), None, list[tuple[float, dict[str, Array]]]()
        for reach in SHRINKING ** np.arange(SEARCHES if self.population.free else 1):
            theta = self.population.sample_prior(rng, SEARCHED)
            if best is not None:
                theta = {name: best[name] + reach * (value - best[name]) for name, value in theta.items()}
            logs = np.nan_to_num(self._bound(theta)[0], nan=-np.inf)
            rows = [(float(log), {name: v[k : k + 1] for name, v in theta.items()}) for k, log in enumerate(logs)]
            top = max([*seen, *rows], key=lambda row: row[0])
            best = top[1]
            seen = [row for row in (*seen, *rows) if row[0] > max(top[0] - LIKELY, -np.inf)]
        kept = [seen[k][1] for k in rng.permutation(len(seen))[:KEPT]]
        return {name: np.concatenate([row[name] for row in kept]) for name in kept[0]} if kept else {}

    def _bound(self, theta: Theta) -> tuple[Array, dict[int, Array]]:
        """The highest of the lower bounds of log p that are normal, up to a constant, and w/2b^2 there by block (K, J).

        |r| <= r^2/2x + x/2 for every x > 0, so Laplace noise is at least normal with w = b x, times a factor:
            log p >= log N(y; m, V + diag(w)) + sum_j log(2 pi w_j)/2 - log 2b_j - w_j/2b_j^2;
        the best w has w_j^2 = b_j^2 E r_j^2, the residual's second moment given it (Jordan et al. 1999).
        """
        factor, mean, covariance = self.law.placed(theta)
        plain, total, found = self.law.plain, factor.copy(), {}
        for k, part in enumerate(plain.shares):
            if not part.is_mixed:
                total = total + plain.log_density_of(part, mean, covariance, np.empty((len(mean), 0)))
                continue
            own, scale = np.concatenate([part.laplace, part.gauss]).astype(int), self._scales[k]
            away, spread, j = plain.observed[own] - mean[:, own], covariance[:, own[:, None], own], scale.size
            added = np.broadcast_to(np.square(plain.noise.scale[own]), away.shape).copy()
            added[:, :j] *= 2
            usable = np.isfinite(away).all(axis=1) & np.isfinite(spread).all(axis=(1, 2))
            away, spread = np.where(usable[:, None], away, 0.0), np.where(usable[:, None, None], spread, 0.0)
            for _ in range(BOUND_STEPS):
                inverse = np.linalg.inv(spread + added[:, :, None] * np.eye(len(own)))
                pulled = np.einsum("kij,kj->ki", inverse, away)
                residual = added * pulled
                second = np.square(residual) + added - np.square(added) * np.diagonal(inverse, axis1=1, axis2=2)
                added[:, :j] = scale * np.sqrt(np.maximum(second[:, :j], 1e-12 * np.square(scale)))
            noisy = spread + added[:, :, None] * np.eye(len(own))
            w = added[:, :j]
            logs = -0.5 * (
                np.linalg.slogdet(noisy)[1] + np.sum(away * np.linalg.solve(noisy, away[:, :, None])[:, :, 0], axis=1)
            )
            logs = logs + np.sum(0.5 * np.log(w) - w / (2 * np.square(scale)), axis=1)
            total = total + np.where(usable, logs, np.nan)
            found[k] = w / (2 * np.square(scale))
        return total, found

    def _lay(self, size: int) -> None:
        rng, self.size = np.random.default_rng(0), size
        for k, proposals in self._proposals.items():
            u = np.concatenate([net(rng, size // N_SCRAMBLES, len(proposals)) for _ in range(N_SCRAMBLES)])
            each = [proposal.draw(u[:, j]) for j, proposal in enumerate(proposals)]
            logs = np.stack([v for v, _ in each], axis=1)
            variances = 2 * np.square(self._scales[k]) * np.exp(logs)
            self._nodes[k] = _Nodes(variances, np.sum([weight for _, weight in each], axis=0))

    def _fit(self, theta: Theta) -> None:
        """Mean and sd of each log variance given the release, over these rows of theta."""
        placed = self.law.placed(theta)
        for k, nodes in self._nodes.items():
            logs = self._node_logs(k, nodes, placed)
            logs = logs - logsumexp(logs, axis=1, keepdims=True)
            share = np.exp(logs[np.isfinite(logs).all(axis=1)]).mean(axis=0)
            if not share.size or not np.isfinite(share).all():
                continue
            v = np.log(nodes.variances / (2 * np.square(self._scales[k])))
            mean = share @ v
            sd = np.sqrt(np.maximum(share @ np.square(v - mean), 0.05))
            self._proposals[k] = [_Proposal.of(float(m), STRETCH * float(s)) for m, s in zip(mean, sd, strict=True)]

    def _scramble_logs(self, theta: Theta) -> Array:
        """log p by each scramble, (K, N_SCRAMBLES)."""
        placed = factor, mean, covariance = self.law.placed(theta)
        plain = self.law.plain
        total = np.broadcast_to(factor[:, None], (len(factor), N_SCRAMBLES)) + np.log(plain.noise.step).sum()
        for k, part in enumerate(plain.shares):
            if part.is_mixed:
                logs = self._node_logs(k, self._nodes[k], placed)
                total = total + log_mean(logs.reshape(len(logs), N_SCRAMBLES, -1)) + plain.log_constant(part, mean)
            else:
                total = total + plain.log_density_of(part, mean, covariance, np.empty((len(mean), 0)))[:, None]
        if self.releases[0].schema.outside == "refuse":
            total = np.where(np.isnan(factor)[:, None], -np.inf, total)
        return np.asarray(total)

    def _node_logs(self, k: int, nodes: _Nodes, placed: tuple[Array, Array, Array]) -> Array:
        """log of weight and density at each of the variances, (K, M)."""
        _, mean, covariance = placed
        plain, part = self.law.plain, self.law.plain.shares[k]
        own = np.concatenate([part.laplace, part.gauss]).astype(int)
        fixed = np.square(plain.noise.scale[part.gauss])
        away = np.ascontiguousarray(plain.observed[own] - mean[:, own])
        spread = np.ascontiguousarray(covariance[:, own[:, None], own])
        return np.asarray(_log_densities(away, spread, nodes.variances, fixed) + nodes.log_weights)


def affordable(law: MixedLaw) -> IntegratedNoise | None:
    """A law with its mixing variances integrated out; None where the error of that is felt."""
    made = IntegratedNoise(law)
    return made if made.is_affordable() else None


@cautions_at.register
def _(model: IntegratedNoise, theta: Theta) -> tuple[str, ...]:
    some = {name: value[:CHECKED] for name, value in theta.items()}
    logs = model._scramble_logs(some)
    error = float(np.mean(log_error(logs - logs.mean(axis=0))))  # what all parameters share moves no posterior
    told = cautions_at(model.law, theta)
    if not error > VISIBLE_ERROR:
        return told
    return (
        *told,
        f"The noise was integrated with an error of about {error:.1g} of the log-likelihood where the posterior is: "
        "estimates may be off by about that part of their sd.",
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Proposal:
    """A law of v = log w/2b^2, tabulated: its distribution function and log prior/proposal at LOG_PLACES."""

    upto: Array
    log_weight: Array

    @classmethod
    def of(cls, mean: float | None = None, sd: float = 1.0) -> _Proposal:
        prior = np.exp(LOG_PLACES - np.exp(LOG_PLACES))
        prior /= prior.sum()
        law = prior
        if mean is not None:
            shape = _shape_of(sd**2)
            away = LOG_PLACES - (mean - digamma(shape))
            logs = shape * np.minimum(away, 700.0) - np.exp(np.minimum(away, 700.0))
            fitted = np.exp(logs - logs.max())
            law = PRIOR_SHARE * prior + (1 - PRIOR_SHARE) * fitted / fitted.sum()
        upto = np.concatenate([[0.0], np.cumsum(0.5 * (law[1:] + law[:-1]))])
        with np.errstate(divide="ignore"):
            return cls(upto / upto[-1], np.log(prior) - np.log(law))

    def draw(self, u: Array) -> tuple[Array, Array]:
        """v at uniform u by inversion, and log prior/proposal there."""
        v = np.interp(u, self.upto, LOG_PLACES)
        return v, np.interp(v, LOG_PLACES, self.log_weight)


_PRIOR = _Proposal.of()


def _shape_of(variance: float) -> float:
    """The shape of the gamma law whose logarithm has this variance: trigamma(shape), by bisection."""
    low, high = math.log(1e-3), math.log(1e5)
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if polygamma(1, math.exp(middle)) > variance else (low, middle)
    return math.exp(low)


@njit(cache=True)
def _log_densities(away: Floats, spread: Floats, variances: Floats, fixed: Floats) -> Floats:
    """log N(away; 0, spread + diag(variances, fixed)), (K, M): by a Cholesky factor row after row."""
    rows, d = away.shape
    size, mixed = variances.shape
    found = np.empty((rows, size))
    factor, z = np.empty((d, d)), np.empty(d)
    constant = -0.5 * d * math.log(2 * math.pi)
    for k in range(rows):
        for m in range(size):
            logs, square = 0.0, 0.0
            for i in range(d):
                added = variances[m, i] if i < mixed else fixed[i - mixed]
                for j in range(i + 1):
                    value = spread[k, i, j]
                    if i == j:
                        value += added
                    for h in range(j):
                        value -= factor[i, h] * factor[j, h]
                    if i == j:
                        factor[i, i] = math.sqrt(value) if value > 0 else np.nan
                    else:
                        factor[i, j] = value / factor[j, j]
                value = away[k, i]
                for h in range(i):
                    value -= factor[i, h] * z[h]
                z[i] = value / factor[i, i]
                square += z[i] * z[i]
                logs += math.log(factor[i, i])
            found[k, m] = constant - logs - 0.5 * square
    return found
