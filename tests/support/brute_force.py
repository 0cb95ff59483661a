"""Posteriors by brute force: simulate data sets, weigh each by the noise that would turn it into what was released.

For theta from a proposal q and data sets D drawn at theta,
    weight(theta) = prior(theta)/q(theta) * (average over D of P(noise = y - T(D)))
is an unbiased estimate of prior x likelihood over q, whatever the statistic T is: the noise is integrated, the data are
simulated, and nothing is taken to be normal. Sums are simulated in two halves of the records: M first halves and M
second halves make M^2 data sets, all of the right law. Answers of single records are integrated over their quantiles.

The proposal is found by tempering: points are weighed by weight^t, with t as large as an effective number of points
allows, and their kernel density estimate (heavy-tailed, with a share of the prior) proposes the next, until t = 1.
Errors come from batches left out in turn. A posterior whose own error is more than 0.02 of its sd is not settled.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from plain_laws import log_mean
from plain_releases import Theta
from scipy import special

Array = np.ndarray
SETTLED = 0.02  # of a posterior sd: five such errors are the tenth of an sd that is at stake
BATCHES = 20
FEWEST = 100  # points in a round
HEAVIEST = 0.02  # of all weight: no single point should carry more
KERNELS, KERNEL_FREEDOM, PRIOR_SHARE = 150, 5, 0.1


# ---- unknowns ----


@dataclass(frozen=True)
class Unknown:
    """One unknown parameter with its prior, on a line (or a space) without ends."""

    name: str
    prior: Any

    @property
    def size(self) -> int:
        return len(self.prior.alpha) if self.is_simplex else 1

    @property
    def is_simplex(self) -> bool:
        return hasattr(self.prior, "alpha")

    @property
    def free_size(self) -> int:
        return self.size - 1 if self.is_simplex else 1

    def draw(self, rng: np.random.Generator, count: int) -> Array:
        """(count, size) values from the prior."""
        return np.asarray(self.prior.rvs(count, random_state=rng)).reshape(count, self.size)

    def _ends(self) -> tuple[float, float]:
        low, high = self.prior.support()
        return float(low), float(high)

    def to_line(self, value: Array) -> Array:
        if self.is_simplex:
            return np.log(value[:, :-1]) - np.log(value[:, -1:])
        low, high = self._ends()
        if np.isinf(low):
            return value
        return np.log(value - low) if np.isinf(high) else np.log(value - low) - np.log(high - value)

    def from_line(self, z: Array) -> tuple[Array, Array]:
        """The value and the log-density of the prior on the line, Jacobian included."""
        if self.is_simplex:
            p = special.softmax(np.concatenate([z, np.zeros((len(z), 1))], axis=1), axis=1)
            p = np.maximum(p, 1e-300)
            return p, ((self.prior.alpha - 1) * np.log(p)).sum(axis=1) + np.log(p).sum(axis=1)
        low, high = self._ends()
        if np.isinf(low):
            value, log_jacobian = z, np.zeros(len(z))
        elif np.isinf(high):
            value, log_jacobian = low + np.exp(z), z[:, 0]
        else:
            value = low + (high - low) * special.expit(z)
            log_jacobian = np.log(high - low) + special.log_expit(z[:, 0]) + special.log_expit(-z[:, 0])
        with np.errstate(all="ignore"):
            return value, self.prior.logpdf(value[:, 0]) + log_jacobian


@dataclass(frozen=True)
class Space:
    """All unknowns together."""

    unknowns: tuple[Unknown, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(
            u.name if u.size == 1 else f"{u.name}[{j}]" for u in self.unknowns for j in range(u.size)
        )  # fmt: skip

    def draw_lines(self, rng: np.random.Generator, count: int) -> Array:
        return np.concatenate([u.to_line(u.draw(rng, count)) for u in self.unknowns], axis=1)

    def read(self, z: Array) -> tuple[dict[str, Array], Array]:
        """Values by name, (K,) or (K, size), and the log-prior on the line."""
        values, total, start = {}, np.zeros(len(z)), 0
        for unknown in self.unknowns:
            value, log_prior = unknown.from_line(z[:, start : start + unknown.free_size])
            values[unknown.name] = value[:, 0] if unknown.size == 1 else value
            total, start = total + log_prior, start + unknown.free_size
        return values, total

    def columns(self, values: Theta) -> Array:
        return np.concatenate([np.reshape(values[u.name], (-1, u.size)) for u in self.unknowns], axis=1)


# ---- the posterior ----


@dataclass(frozen=True)
class BrutePosterior:
    """Means and sds with their Monte Carlo errors, by label; in the units of the parameter."""

    labels: tuple[str, ...]
    mean: Array
    sd: Array
    mean_error: Array
    sd_error: Array
    ess: float
    largest_share: float
    points: int
    seconds: float

    @property
    def error(self) -> float:
        """The largest error, in posterior sds."""
        return float(max(np.max(self.mean_error / self.sd), np.max(self.sd_error / self.sd)))

    @property
    def is_settled(self) -> bool:
        return bool(self.error <= SETTLED and self.largest_share < HEAVIEST and self.ess > 300)


@dataclass
class BruteForce:
    """The posterior of `space` given groups of independent records."""

    space: Space
    groups: Sequence[Any]
    log_weights: list[Array] = field(default_factory=list)
    values: list[Array] = field(default_factory=list)

    def posterior(self, rng: np.random.Generator, *, seconds: float = 4.0, target: float = 0.012) -> BrutePosterior:
        """Simulate until the error is below `target` posterior sds, or the time is over.

        A single point that outweighs the others shows where the proposal is too thin: it is found anew around all
        points seen, and what was weighed before is left out.
        """
        started = time.process_time()
        kernels = self._proposal(rng, started + seconds / 2)
        halves, found, points, count = 16, None, [], 1000
        while found is None or (time.process_time() < started + seconds and not found.error <= target):
            begun = time.process_time()
            z = kernels.draw(rng, count)
            values, log_prior = self.space.read(z)
            weights = finite(log_prior - kernels.log_density(z) + self._log_likelihood(rng, values, halves))
            self.log_weights.append(weights)
            self.values.append(self.space.columns(values))
            points.append(z)
            found = self._judged(time.process_time() - started)
            each = (time.process_time() - begun) / len(z)
            if effective(weights) < 0.25 * len(z):  # the likelihood is the noisy part: more data sets for each point
                more = min(2 * halves, 200)
                halves, each = more, each * more / halves
            count = int(np.clip(seconds / 8 / max(each, 1e-9), FEWEST, 1000))  # no round takes much of the time
            if found.largest_share > HEAVIEST and time.process_time() < started + 0.7 * seconds:
                kernels = self._around(rng, np.concatenate(points), np.concatenate(self.log_weights))
                self.log_weights, self.values, points = [], [], []
        return found

    def _around(self, rng: np.random.Generator, z: Array, log_weights: Array) -> Kernels:
        return Kernels.around(rng, self.space, z, special.softmax(tempering(log_weights, 150) * log_weights))

    def _log_likelihood(self, rng: np.random.Generator, theta: Theta, halves: int) -> Array:
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            return np.sum([group.log_likelihood(rng, theta, halves) for group in self.groups], axis=0)

    def _proposal(self, rng: np.random.Generator, until: float) -> Kernels:
        """Tempered rounds from the prior to a kernel density near the posterior."""
        prior = self.space
        kernels = None
        for turn in range(12):
            count = 1000 if turn == 0 else 600
            z = prior.draw_lines(rng, count) if kernels is None else kernels.draw(rng, count)
            values, log_prior = prior.read(z)
            weights = self._log_likelihood(rng, values, 24 if turn < 4 else 48)
            if kernels is not None:
                weights = weights + log_prior - kernels.log_density(z)
            weights = finite(weights)
            power = tempering(weights, 70)
            kernels = Kernels.around(rng, self.space, z, special.softmax(power * weights))
            if (power == 1 and turn > 0) or (kernels is not None and time.process_time() > until):
                break
        return kernels

    def _judged(self, seconds: float) -> BrutePosterior:
        log_weights, values = np.concatenate(self.log_weights), np.concatenate(self.values)
        top = np.max(log_weights)
        if not np.isfinite(top):
            raise ArithmeticError("No simulated data set explains the release.")
        w = np.exp(log_weights - top)
        batch = np.arange(len(w)) % BATCHES
        totals = np.stack([_moments_of(w[batch == b], values[batch == b]) for b in range(BATCHES)])
        mean, sd = _mean_sd(totals.sum(axis=0))
        left_out = [_mean_sd(totals.sum(axis=0) - totals[b]) for b in range(BATCHES)]
        spread = np.sqrt(BATCHES - 1) * np.std([np.stack(pair) for pair in left_out], axis=0)
        share = w / w.sum()
        return BrutePosterior(
            labels=self.space.labels,
            mean=mean,
            sd=sd,
            mean_error=spread[0],
            sd_error=spread[1],
            ess=float(1 / np.sum(share**2)),
            largest_share=float(share.max()),
            points=len(w),
            seconds=seconds,
        )


@dataclass(frozen=True)
class Kernels:
    """A mixture of Student kernels around points, and a share of the prior."""

    space: Space
    centres: Array
    root: Array  # of the kernels' scale matrix

    @classmethod
    def around(cls, rng: np.random.Generator, space: Space, z: Array, share: Array) -> Kernels:
        size = z.shape[1]
        mean = share @ z
        spread = (share[:, None] * (z - mean)).T @ (z - mean) + 1e-12 * np.eye(size)
        ess = 1 / np.sum(share**2)
        width = 1.2 * ess ** (-1 / (size + 4))
        return cls(space, z[rng.choice(len(z), KERNELS, p=share)], max(width, 0.45) * np.linalg.cholesky(spread))

    def draw(self, rng: np.random.Generator, count: int) -> Array:
        size = self.centres.shape[1]
        normal = rng.standard_normal((count, size)) / np.sqrt(
            rng.chisquare(KERNEL_FREEDOM, (count, 1)) / KERNEL_FREEDOM
        )
        z = self.centres[rng.integers(len(self.centres), size=count)] + normal @ self.root.T
        from_prior = rng.random(count) < PRIOR_SHARE
        z[from_prior] = self.space.draw_lines(rng, count)[from_prior]
        return z

    def log_density(self, z: Array) -> Array:
        size = z.shape[1]
        away = np.linalg.solve(self.root, (z[:, None, :] - self.centres[None]).reshape(-1, size).T).T
        distance = np.square(away).sum(axis=1).reshape(len(z), -1)
        log_kernel = -(KERNEL_FREEDOM + size) / 2 * np.log1p(distance / KERNEL_FREEDOM)
        constant = (special.gammaln((KERNEL_FREEDOM + size) / 2) - special.gammaln(KERNEL_FREEDOM / 2)
                    - size / 2 * np.log(KERNEL_FREEDOM * np.pi) - np.log(np.diag(self.root)).sum())  # fmt: skip
        mixture = log_mean(log_kernel) + constant
        return np.logaddexp(np.log1p(-PRIOR_SHARE) + mixture, np.log(PRIOR_SHARE) + self._log_prior(z))

    def _log_prior(self, z: Array) -> Array:
        """The normalised prior on the line; that of a simplex lacks its constant in `read`."""
        constants = [
            special.gammaln(np.sum(u.prior.alpha)) - special.gammaln(u.prior.alpha).sum()
            for u in self.space.unknowns
            if u.is_simplex
        ]
        return self.space.read(z)[1] + sum(constants)


def tempering(log_weights: Array, wanted: float) -> float:
    """The largest power of the weights up to 1 that keeps this effective number of points."""
    low, high = 0.0, 1.0
    if effective(log_weights) >= wanted:
        return 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if effective(middle * log_weights) >= wanted else (low, middle)
    return low


def effective(log_weights: Array) -> float:
    share = special.softmax(log_weights)
    return float(1 / np.sum(share**2))


def finite(log_weights: Array) -> Array:
    """What is not a number weighs nothing, but stays a finite logarithm."""
    return np.where(np.isfinite(log_weights), np.maximum(log_weights, -1e300), -1e300)


def _moments_of(w: Array, x: Array) -> Array:
    return np.stack([np.full(x.shape[1], w.sum()), w @ x, w @ np.square(x)])


def _mean_sd(total: Array) -> tuple[Array, Array]:
    mean = total[1] / total[0]
    return mean, np.sqrt(np.maximum(total[2] / total[0] - np.square(mean), 0.0))
