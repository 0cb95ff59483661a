"""`map`: the most probable parameters under a normal prior whose width the tables themselves decide.

    y_h ~ N(n W mu(theta), S_h + V_h),   S_h = n W Sigma W',   V_h = diag(variance of the noise),   theta ~ N(0, tau^2)

for each holder h. With C_h = n Cov(t, W t'), the derivative of n W mu in theta,
    g = sum_h C_h (S_h + V_h)^-1 (y_h - n W mu),          I = sum_h C_h (S_h + V_h)^-1 C_h'
and theta solves g = theta / tau^2 with Sigma taken at theta itself (a quasi-likelihood: where the noise vanishes and
every table of the model is published it is maximum likelihood, g = y - n mu). In turn, until nothing moves:
    tau    goes to where the marginal likelihood is stationary (MacKay 1992), by the secant rule; I = Q diag(lambda) Q',
           tau^2 = |theta(tau)|^2 / sum_i lambda_i / (lambda_i + tau^-2),   theta(tau) = (I + tau^-2)^-1 (g + I theta)
    theta  minimises the squares of (S + V)^-1/2 (y - n W mu) plus |theta|^2 / tau^2, S held, by L-BFGS along
           Q (lambda + tau^-2)^-1/2
Nothing is tuned.

For comparing models of the same tables, Laplace's approximation at theta:
    log p(y | model) = sum_h log N(y_h; n W mu, S_h + V_h) - |theta|^2 / (2 tau^2) - 1/2 sum_i log(1 + tau^2 lambda_i)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize

from noisewise.errors import Unsupported
from noisewise.graphical.cell_laws import NormalTables, log_volume, total_factor
from noisewise.graphical.problem import Problem
from noisewise.graphical.score import score
from noisewise.types import Floats

__all__ = ["SMALLEST_TAU", "Look", "MapFit", "fit", "look", "told"]

STEPS, WHOLE = 40, 10  # further steps go half the way, as whole ones may be going in circles
TOLERANCE = 1e-3  # of a log potential and of log tau, between steps
GRADIENT = 1e-4  # within a step, in posterior standard deviations
SMALLEST_TAU = 1e-2
LARGEST = 4000  # parameters or entries: larger matrices take minutes to factor, again and again


@dataclass(frozen=True, slots=True, eq=False)
class MapFit:
    """The mode, the width of its prior, and the curvature there."""

    theta: Floats
    steps: int
    notes: tuple[str, ...]
    tau: float
    information: Floats  # I, (p, p); the posterior's precision is I + 1/tau^2
    effective: float  # parameters that the tables determine: sum_i lambda_i / (lambda_i + tau^-2)
    log_evidence: float

    @property
    def precision(self) -> Floats:
        """Of theta given the tables and tau, by the normal approximation."""
        return self.information + np.eye(len(self.theta)) / self.tau**2


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What the tables say about parameters near some theta."""

    factors: tuple[Floats, ...]  # of S_h + V_h, lower triangular
    gradient: Floats
    information: Floats
    log_density: float


def fit(problem: Problem) -> MapFit:
    """The empirical Bayes estimate."""
    _check_size(problem)
    theta, width, change, steps = np.zeros(problem.parameters), _Width(), math.inf, 0
    for _ in range(STEPS):
        here = look(problem, theta)
        values, vectors = np.linalg.eigh(here.information)
        values = np.maximum(values, 0.0)
        gap = width.towards(_wanted(values, vectors.T @ (here.gradient + here.information @ theta), width.tau))
        tau = width.tau
        if max(change, abs(gap)) < TOLERANCE:
            change = 0.0
            break
        after = _mode(problem, here, theta, tau, vectors / np.sqrt(values + tau**-2))
        change, steps = float(np.abs(after - theta).max()), steps + 1
        theta = after if steps <= WHOLE else (theta + after) / 2
    return MapFit(
        theta=theta,
        steps=steps,
        notes=told(tau, change, steps=STEPS),
        tau=tau,
        information=here.information,
        effective=float(np.sum(values / (values + tau**-2))),
        log_evidence=here.log_density - 0.5 * float(theta @ theta / tau**2 + np.sum(np.log1p(tau**2 * values))),
    )


def told(tau: float, change: float, *, steps: int) -> tuple[str, ...]:
    """What is to be said of a fit; `change`: how far the last step moved a parameter, 0 if the steps settled."""
    notes = []
    if change:
        notes.append(f"The steps of map had not settled after {steps}: the last moved a parameter by {change:.1g}.")
    if tau <= 1.01 * SMALLEST_TAU:
        notes.append("The tables say too little to tell any parameter from zero.")
    return tuple(notes)


def _check_size(problem: Problem) -> None:
    size = max(problem.parameters, *(len(holder.observed) for holder in problem.holders))
    if size > LARGEST:
        raise Unsupported(
            f"posterior and compare factor matrices as large as the tables, {size} cells here; the limit is {LARGEST}. "
            "method='map' needs none where tables are published whole and inference is exact; 'naive' and 'collective' "
            "need none at all. These give a point, no intervals."
        )


def look(problem: Problem, theta: Floats, variances: tuple[Floats, ...] | None = None) -> Look:
    """g and I at theta; `variances` stand in for those of the noise."""
    potentials = problem.potentials(theta)
    _, mu = problem.engine.marginals(potentials)
    sigma = problem.engine.covariance(potentials)
    rows = problem.gather(sigma.T).T  # Cov(t, cells), (p, cells)
    gradient, information = np.zeros(problem.parameters), np.zeros((problem.parameters,) * 2)
    log_density, factors = 0.0, []
    for h, holder in enumerate(problem.holders):
        noise = holder.variance if variances is None else variances[h]
        factor = total_factor(holder.covariance(sigma), noise)
        cross = holder.n * (holder.sums @ rows.T)  # C', (entries, p)
        both = np.column_stack([cross, holder.observed - holder.mean(mu)])
        solved = linalg.solve_triangular(factor, both, lower=True, overwrite_b=True, check_finite=False)
        white, residual = solved[:, :-1], solved[:, -1]
        gradient += white.T @ residual
        information += white.T @ white
        log_density -= 0.5 * float(residual @ residual) + log_volume(factor)
        factors.append(factor)
    return Look(tuple(factors), gradient, information, log_density)


class _Width:
    """log tau on its way to the fixed point, by the secant rule: repeating the fixed-point map may go in circles."""

    def __init__(self) -> None:
        self.log, self.before, self.most = 0.0, (math.nan, math.nan), 4.0

    @property
    def tau(self) -> float:
        return math.exp(self.log)

    def towards(self, tau: float) -> float:
        """Move towards where the map leads, tau; how far that was, in log tau."""
        gap = math.log(tau) - self.log
        step, difference = self.log - self.before[0], gap - self.before[1]
        share = -step / difference if step * difference < 0 else 1.0
        self.before = (self.log, gap)
        self.log += min(max(share, 0.2), self.most) * gap
        self.most = max(0.9 * self.most, 0.1)
        return gap


def _wanted(values: Floats, pull: Floats, tau: float) -> float:
    """The tau that |theta(tau)|^2 = tau^2 sum_i lambda_i / (lambda_i + tau^-2) asks for, its right side being held."""
    shrunk = values + tau**-2
    held = float(np.sum(values / shrunk))
    return max(math.sqrt(float(np.sum(np.square(pull / shrunk))) / max(held, 1e-300)), SMALLEST_TAU)


def _mode(problem: Problem, here: Look, theta: Floats, tau: float, scaled: Floats) -> Floats:
    """The maximum with tau and the tables' covariances held, in coordinates in which the curvature is near I."""
    laws = [NormalTables(holder, factor) for holder, factor in zip(problem.holders, here.factors, strict=True)]

    def loss(z: Floats) -> tuple[float, Floats]:
        at = theta + scaled @ z
        log_density, gradient = score(problem, laws, at[None])
        return float(0.5 * at @ at / tau**2 - log_density[0]), scaled.T @ (at / tau**2 - gradient[0])

    options = {"maxiter": 200, "ftol": 0.0, "gtol": GRADIENT}
    found = optimize.minimize(loss, np.zeros(len(theta)), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(theta + scaled @ found.x)
