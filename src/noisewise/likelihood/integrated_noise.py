"""Laplace noise on three and more sums, integrated out: a fixed set of mixing variances shared by all theta.

Laplace(b) is N(0, w) with w ~ Exponential(mean 2 b^2), so with J such components
    p(y | theta) = E_w N(y; m(theta), V(theta) + diag(w))  ~  sum_i (prior/q)(w_i) N(y; m, V + diag(w_i)) / M,
w_i a quasi-random net from q, in eight independent scrambles that tell the error of log p. It is a smooth function of
theta alone, so a posterior of two unknowns stays one of two, whatever J is. q is, component by component, half the
prior and half a normal law of log w, fitted where the release is likely: far from zero noise only w of a certain size
explains a component, and the prior hardly ever draws it. Where the error stays visible (`is_affordable`) the variances
are better sampled along with theta (`inference.mixed`).
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.special import logsumexp

from noisewise.compilation import njit
from noisewise.likelihood.model import Parameters, numerical_score, scalar_supports
from noisewise.likelihood.normal_rows import cautions_at
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.likelihood.scrambles import N_SCRAMBLES, log_mean, net, typical_error, weighted_error
from noisewise.populations.parameters import Array, Theta
from noisewise.release import Release

__all__ = ["IntegratedNoise", "MixedLaw"]

FEWEST, MOST = 256, 4096  # variances of each component
ENOUGH, NEGLIGIBLE_ERROR = 3e-3, 0.02  # error of log p: more points are not worth it; it is not felt
ROUNDS = 3
MOST_MIXED = 20  # components: a net in more dimensions is no net
STRETCH = 1.3
LOG_PLACES = np.linspace(-35.0, 6.0, 4101)  # of log w/2b^2, at which the laws of it are tabulated


class MixedLaw(Protocol):
    """A law that is normal given mixing variances: `normal_sum`, or `tilted_sum`."""

    n: int
    population: Any

    @property
    def releases(self) -> tuple[Release, ...]: ...
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


class IntegratedNoise:
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
        self._lay(FEWEST)
        for _ in range(ROUNDS):
            typical = typical_error(self._scramble_logs, self.population, seed=0)
            if not typical.theta:
                return
            self._fit(typical.theta)
            self._lay(FEWEST)
        theta = typical.theta
        while True:
            self.error = weighted_error(self._scramble_logs(theta))
            if self.error <= ENOUGH or 2 * self.size > MOST:
                return
            self._lay(2 * self.size)

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


@cautions_at.register
def _(model: IntegratedNoise, theta: Theta) -> tuple[str, ...]:
    return cautions_at(model.law, theta)


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
            fitted = np.exp(-0.5 * np.square((LOG_PLACES - mean) / sd))
            law = 0.5 * prior + 0.5 * fitted / fitted.sum()
        upto = np.concatenate([[0.0], np.cumsum(0.5 * (law[1:] + law[:-1]))])
        with np.errstate(divide="ignore"):
            return cls(upto / upto[-1], np.log(prior) - np.log(law))

    def draw(self, u: Array) -> tuple[Array, Array]:
        """v at uniform u by inversion, and log prior/proposal there."""
        v = np.interp(u, self.upto, LOG_PLACES)
        return v, np.interp(v, LOG_PLACES, self.log_weight)


_PRIOR = _Proposal.of()


@njit(cache=True)  # type: ignore[untyped-decorator]
def _log_densities(away: Any, spread: Any, variances: Any, fixed: Any) -> Any:
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
