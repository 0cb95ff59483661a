"""Logistic regressions that read records, for comparison: without privacy, by a noisy objective, by noisy gradients.

Rows are x (n, d) and y in {0, 1}; an intercept is a column of ones, which counts in a row's length.

    non-private              the mode of prod_i P(y_i | x_i) N(beta; 0, sd^2), by Newton steps, with its curvature
    objective perturbation   Chaudhuri, Monteleoni & Sarwate (2011), Algorithm 2: rows shortened to |x| <= R, in its
                             units minimise  mean log(1 + exp(-y f'x)) + b'f/n + (L + D)|f|^2/2,  b with density ~
                             exp(-e|b|/2), e = epsilon - log(1 + 2c/(nL) + c^2/(nL)^2), c = 1/4; where that is not above
                             0, e = epsilon/2 and D = c/(n (exp(epsilon/4) - 1)) - L. epsilon-DP under change-one.
    private gradients        Abadi et al. (2016), private_gradients.py: (epsilon, delta)-DP for records added or removed
    discriminant             from sums alone, as if they were exact: Fisher's linear discriminant, whose coefficients
                             are those of a logistic regression where x is normal within y = 0 and y = 1 (Efron 1975)

Noise is simulated, from the generator that is given. The minimiser of the noisy objective is private where it is exact;
Newton steps stop at a gradient of 1e-10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from noisewise.errors import InvalidArgument
from noisewise.published.baselines.private_gradients import PrivateGradients
from noisewise.types import Floats, Ints

__all__ = ["LogisticFit", "discriminant", "dp_sgd_logistic", "non_private_logistic", "objective_perturbation"]

CURVATURE = 0.25  # the largest second derivative of log(1 + exp(-t))
GRADIENT, STEPS = 1e-10, 200


@dataclass(frozen=True, slots=True, eq=False)
class LogisticFit:
    """Coefficients (d,), their covariance where the method has one, and what it cost."""

    coefficients: Floats
    covariance: Floats | None
    note: str

    def probabilities(self, x: ArrayLike) -> Floats:
        """P(y = 1) at each row of x."""
        return np.asarray(expit(np.asarray(x, float) @ self.coefficients))


def non_private_logistic(x: ArrayLike, y: ArrayLike, *, prior_sd: float = math.inf) -> LogisticFit:
    """The mode given the records, and the inverse of its curvature."""
    rows, response = _checked(x, y)
    beta = _minimised(rows, response, linear=np.zeros(rows.shape[1]), ridge=prior_sd**-2)
    p = expit(rows @ beta)
    curvature = (rows * (p * (1 - p))[:, None]).T @ rows + prior_sd**-2 * np.eye(len(beta))
    return LogisticFit(beta, np.asarray(np.linalg.inv(curvature), float), "not private")


def objective_perturbation(
    rng: np.random.Generator, x: ArrayLike, y: ArrayLike, *, epsilon: float, radius: float, ridge: float = 1e-3
) -> LogisticFit:
    """The minimiser of a noisy objective; `radius` is R, `ridge` is L, both public."""
    rows, response = _checked(x, y)
    if not (math.isfinite(epsilon) and epsilon > 0 and radius > 0 and ridge > 0):
        raise InvalidArgument("epsilon, radius and ridge must be above 0.", argument="epsilon")
    n, d = rows.shape
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), radius)
    spent = CURVATURE / (n * ridge)
    left, more = epsilon - math.log(1 + 2 * spent + spent**2), 0.0
    if left <= 0:
        left, more = epsilon / 2, CURVATURE / (n * math.expm1(epsilon / 4)) - ridge
    direction = rng.standard_normal(d)
    noise = np.asarray(rng.gamma(d, 2 / left) * direction / np.linalg.norm(direction), float)
    beta = _minimised(unit, response, linear=noise, ridge=n * (ridge + more))
    return LogisticFit(
        beta / radius, None, f"{epsilon:g}-DP under change-one, noise of length {2 * d / left:.4g} on average"
    )


def dp_sgd_logistic(
    rng: np.random.Generator,
    x: ArrayLike,
    y: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    clip: float,
    steps: int = 200,
    sampling_rate: float = 0.1,
    learning_rate: float = 2.0,
) -> LogisticFit:
    """Noisy gradients of minibatches, each record's shortened to `clip`; the mean of the later half of the steps."""
    rows, response = _checked(x, y)
    gradients = PrivateGradients(
        epsilon=epsilon, delta=delta, clip=clip, steps=steps, sampling_rate=sampling_rate, learning_rate=learning_rate
    )

    def clipped_sum(batch: Ints, beta: Floats) -> Floats:
        gradient = rows[batch] * (response[batch] - expit(rows[batch] @ beta))[:, None]
        gradient /= np.maximum(1.0, np.linalg.norm(gradient, axis=1, keepdims=True) / clip)
        return np.asarray(gradient.sum(axis=0))

    beta, said = gradients.climb(rng, len(rows), rows.shape[1], clipped_sum)
    return LogisticFit(beta, None, said)


def discriminant(n: float, sum_x: ArrayLike, sum_xx: ArrayLike, sum_y: float, sum_xy: ArrayLike) -> LogisticFit:
    """Intercept and slopes from sums over n rows, taken as exact; noisy sums may have no answer, which is nan.

    The covariance is that of slopes at beta = 0, 1/(n q (1 - q)) Cov(x)^-1, q the share of yes: a naive one.
    """
    total, products, yes = np.asarray(sum_x, float), np.asarray(sum_xx, float), np.asarray(sum_xy, float)
    d = len(total)
    nothing = LogisticFit(np.full(d + 1, np.nan), None, "the noisy sums describe no records")
    if not 0 < sum_y < n:
        return nothing
    one, zero, share = yes / sum_y, (total - yes) / (n - sum_y), sum_y / n
    within = (products - sum_y * np.outer(one, one) - (n - sum_y) * np.outer(zero, zero)) / n
    mean = total / n
    spread = products / n - np.outer(mean, mean)
    if min(np.linalg.eigvalsh(within)[0], np.linalg.eigvalsh(spread)[0]) <= 0:
        return nothing
    slopes = np.linalg.solve(within, one - zero)
    start = math.log(share / (1 - share)) - 0.5 * float(slopes @ (one + zero))
    rows = np.zeros((d + 1, d + 1))
    rows[0, 0], rows[0, 1:], rows[1:, 0], rows[1:, 1:] = 1.0, mean, mean, products / n
    return LogisticFit(
        np.array([start, *slopes]),
        np.asarray(np.linalg.inv(rows) / (n * share * (1 - share)), float),
        "the noise of the sums is ignored",
    )


def _minimised(rows: Floats, response: Floats, *, linear: Floats, ridge: float) -> Floats:
    """The minimiser of sum_i log(1 + exp(s_i)) - y_i s_i + linear' beta + ridge |beta|^2/2, by damped Newton steps."""

    def value(beta: Floats) -> float:
        s = rows @ beta
        return float(np.sum(np.logaddexp(0, s) - response * s) + linear @ beta + 0.5 * ridge * beta @ beta)

    beta = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        p = expit(rows @ beta)
        gradient = rows.T @ (p - response) + linear + ridge * beta
        if np.linalg.norm(gradient) <= GRADIENT * max(1.0, len(rows)):
            return beta
        curvature = (rows * (p * (1 - p))[:, None]).T @ rows + (ridge + 1e-12) * np.eye(len(beta))
        step, length, here = np.linalg.solve(curvature, gradient), 1.0, value(beta)
        while length > 1e-10 and value(beta - length * step) > here - 1e-4 * length * float(step @ gradient):
            length /= 2
        beta = beta - length * step
    return beta


def _checked(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    rows, response = np.asarray(x, float), np.asarray(y, float).ravel()
    if rows.ndim != 2 or len(rows) != len(response) or not len(rows):
        raise InvalidArgument("x must be rows (n, d) and y one response for each.", argument="x")
    if not np.isin(response, (0.0, 1.0)).all():
        raise InvalidArgument("y must hold 0 and 1.", argument="y")
    return rows, response
