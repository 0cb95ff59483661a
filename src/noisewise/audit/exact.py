"""Exact privacy loss of the laws we publish with, at worst-case neighbours. Nothing here is random.

For neighbours moved by d lattice steps under an additive law of ratios r_k = scale_k/step_k:
    discrete Laplace    max log-ratio                sum |d_k|/r_k
    discrete Gaussian   Renyi divergence / order     sum (d_k/r_k)^2/2    (met where order*d is whole)
    rounded Gaussian    a rounded N(d, r^2), so its trade-off lies on or inside that of mu^2 = sum (d_k/r_k)^2, and
                        delta(eps) <= Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)
Those sums are Fractions and are compared with the guarantee without tolerance. Beside each closed form the same
quantity is computed from `law.log_pmf` or `law.cdf` itself (shift ratios, Renyi sums, half-line events), so that a
formula and a probability that disagree are caught; only this float evaluation gets a tolerance, 1e-12 relative.

Finite laws are decided by exact arithmetic. Smooth and exponential laws are audited on *every* neighbouring pair of
data sets of a tiny domain, with the order statistic and the secret scale computed as the curator does, and on the
worst pair their smoothness allows at all: statistics S apart, scales e^beta apart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from noisewise.audit.cases import EPSILONS, plans
from noisewise.audit.neighbours import neighbouring_pairs, weighted, worst_move
from noisewise.audit.order import exponential_log_ratio, extreme_pairs, order_noise, smooth_delta, smooth_log_ratio
from noisewise.errors import Unregistered
from noisewise.laws import (
    DiscreteGaussian,
    DiscreteLaplace,
    Form,
    Law,
    RandomizedResponse,
    RoundedGaussian,
    SmoothShape,
    action_law,
    additive_law,
    cell_law,
    smooth_law,
    smooth_shape,
)
from noisewise.laws.finite import adjacent, all_pairs, at_most_exp, largest_ratio
from noisewise.planning import Plan
from noisewise.privacy import divergence
from noisewise.privacy.calibration import gaussian_curve
from noisewise.privacy.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP

FLOAT_TOLERANCE = 1e-12
SUMMED_UP_TO = 200.0  # ratios r up to which Renyi sums are also added up term by term
ORDERS = (1.25, 2.0, 8.0, 64.0)
CURVE = tuple(Fraction(k) for k in ("0", "0.01", "0.1", "0.5", "1", "2", "4", "8"))


@dataclass(frozen=True, slots=True)
class Loss:
    """The exact privacy loss of one plan at its worst neighbours, and the most its guarantee allows."""

    subject: str
    measure: str
    value: float
    limit: float
    holds: bool

    @property
    def share(self) -> float:
        """How much of the guarantee is used; for a curve, 1 is touching it."""
        return self.value / self.limit if self.limit > 0 else 1.0 + self.value


def losses(mechanism: str, kind: type[Guarantee], epsilons: Sequence[Fraction] = EPSILONS) -> list[Loss]:
    """The exact loss of every audited plan of a mechanism at every level."""
    return [exact_loss(plan) for epsilon in epsilons for plan in plans(mechanism, kind, epsilon)]


def exact_loss(plan: Plan, *, steps: Sequence[int] | None = None) -> Loss:
    """The exact loss of a plan at its worst neighbours, or at neighbours known to be `steps` apart."""
    law, guarantee, subject = plan.law, plan.guarantee, _named(plan)
    if law.form is Form.NUMBER:
        moved = worst_move(plan).steps if steps is None else tuple(steps)
        return _additive_loss(law, moved, guarantee, subject)
    if law.form in (Form.CELL, Form.ACTION):
        return _finite_loss(plan)
    return _order_loss(plan)


# ---- additive laws ----


def _additive_loss(law: Law, steps: tuple[int, ...], guarantee: Guarantee, subject: str) -> Loss:
    """By the closed form of this law under this kind of guarantee, or by its log-probabilities over all outputs."""
    closed = CLOSED_FORMS.get((law.family, guarantee.kind))
    if closed is not None:
        return closed(law, steps, guarantee, subject)
    used = divergence.loss(guarantee, additive_law(law), steps)
    return Loss(subject, "share of the guarantee, from the pmf", used, 1.0, _at_most(used, 1.0, divergence.TOLERANCE))


def _laplace_loss(law: DiscreteLaplace, steps: tuple[int, ...], guarantee: PureDP, subject: str) -> Loss:
    ratio, probed = weighted(law, steps, 1), log_ratio(law, steps)
    return _loss(subject, "max log ratio", ratio, guarantee.epsilon, probed)


def _renyi_loss(law: DiscreteGaussian, steps: tuple[int, ...], guarantee: ZeroConcentratedDP, subject: str) -> Loss:
    rho, summed = weighted(law, steps, 2) / 2, renyi_rate(law, steps)
    return _loss(subject, "Renyi divergence / order", rho, guarantee.rho, summed)


def _curve_loss(law: RoundedGaussian, steps: tuple[int, ...], guarantee: GaussianDP, subject: str) -> Loss:
    mu_squared = weighted(law, steps, 2)
    excess, by_events = _curve_excess(law, steps, mu_squared, guarantee.mu_squared)
    holds = mu_squared <= guarantee.mu_squared and by_events <= FLOAT_TOLERANCE
    return Loss(subject, "excess over the mu curve", excess if holds else max(excess, by_events), 0.0, holds)


def _delta_loss(law: RoundedGaussian, steps: tuple[int, ...], guarantee: ApproxDP, subject: str) -> Loss:
    delta = Fraction(_curve(guarantee.epsilon, weighted(law, steps, 2)))
    by_events = hockey_stick(law, steps, float(guarantee.epsilon))
    return _loss(subject, "delta at epsilon", delta, guarantee.delta, by_events, rounding=1e-15)


CLOSED_FORMS: dict[tuple[str, str], Callable[..., Loss]] = {
    (DiscreteLaplace.family, PureDP.kind): _laplace_loss,
    (DiscreteGaussian.family, ZeroConcentratedDP.kind): _renyi_loss,
    (RoundedGaussian.family, GaussianDP.kind): _curve_loss,
    (RoundedGaussian.family, ApproxDP.kind): _delta_loss,
}


def log_ratio(law: DiscreteLaplace, steps: Sequence[int]) -> float:
    """The largest log P(k - d)/P(k) over probed outputs k, from the log-probabilities themselves."""
    total = 0.0
    for component, d in enumerate(steps):
        r = law.ratio_of(component)
        k = np.unique(np.round(np.concatenate([[0, d, -d, 2 * d, d / 2], np.outer([-30, -1, 1, 30], [r]).ravel()])))
        total += float(np.max(law.log_pmf(k - d, component) - law.log_pmf(k, component)))
    return total


def renyi_rate(law: DiscreteGaussian, steps: Sequence[int]) -> float:
    """The largest Renyi divergence divided by its order, summed term by term; 0 where a lattice is too fine."""
    if max(law.ratio) > SUMMED_UP_TO:
        return 0.0
    rates = []
    for order in ORDERS:
        divergence = 0.0
        for component, d in enumerate(steps):
            reach = math.ceil(40 * law.ratio_of(component) + (order + 1) * abs(d))
            k = np.arange(-reach, reach + 1)
            terms = order * law.log_pmf(k - d, component) + (1 - order) * law.log_pmf(k, component)
            top = float(terms.max())
            divergence += (top + math.log(np.sum(np.exp(terms - top)))) / (order - 1)
        rates.append(divergence / order)
    return max(rates)


def hockey_stick(law: RoundedGaussian, steps: Sequence[int], epsilon: float) -> float:
    """The largest P(k - d in E) - e^epsilon P(k in E) over half lines E, from the cdf; for one moved component.

    The likelihood ratio of a log-concave law and its shift is monotone, so the best event is a half line. Vectors
    are not half lines; for them the closed form stands alone and 0 is returned.
    """
    moved = [(component, abs(d)) for component, d in enumerate(steps) if d]
    if len(moved) != 1:
        return 0.0
    ((component, d),) = moved
    r = law.ratio_of(component)
    best = round(r * r * epsilon / d + d / 2)
    starts = best + np.arange(-3, 4)
    tails = law.cdf(-(starts - d), component) - math.exp(epsilon) * law.cdf(-starts, component)
    return max(0.0, float(tails.max()))


def _curve_excess(
    law: RoundedGaussian, steps: Sequence[int], mu_squared: Fraction, allowed: Fraction
) -> tuple[float, float]:
    """How far delta(epsilon) lies above the curve of the guarantee at most, by closed form and by events."""
    limits = {epsilon: gaussian_curve(epsilon, allowed) for epsilon in CURVE}
    closed = max(_curve(epsilon, mu_squared) - limit for epsilon, limit in limits.items())
    by_events = max(hockey_stick(law, steps, float(epsilon)) - float(limit) for epsilon, limit in limits.items())
    return float(closed), by_events


def _curve(epsilon: Fraction, mu_squared: Fraction) -> Decimal:
    """delta(epsilon) of neighbours mu apart; those that are not apart at all cannot be told apart."""
    return gaussian_curve(epsilon, mu_squared) if mu_squared else Decimal(0)


# ---- finite laws: exact arithmetic ----


def _finite_loss(plan: Plan) -> Loss:
    epsilon = _epsilon(plan)
    if plan.law.form is Form.CELL:
        law = cell_law(plan.law)
        ratio = max(largest_ratio(law.rows(), all_pairs(law.cells)), _counts_ratio(law, plan.part_schema.largest_n))
    else:
        rows = action_law(plan.law).rows
        ratio = largest_ratio(rows, adjacent(len(rows)))
    holds = isinstance(ratio, Fraction) and at_most_exp(ratio, epsilon)
    value = _log(ratio) if isinstance(ratio, Fraction) else math.inf
    return Loss(_named(plan), "max log ratio", value, float(epsilon), holds)


def _counts_ratio(law: RandomizedResponse, n: int) -> Fraction | float:
    """The same for what is published, the counts of n answers: every truth, every neighbour, every outcome."""
    rows = law.rows()
    published: dict[tuple[int, ...], dict[tuple[int, ...], Fraction]] = {}
    for truth in itertools.combinations_with_replacement(range(law.cells), n):
        outcome = {(0,) * law.cells: Fraction(1)}
        for person in truth:
            after: dict[tuple[int, ...], Fraction] = {}
            for counts, p in outcome.items():
                for answer in range(law.cells):
                    grown = tuple(c + (j == answer) for j, c in enumerate(counts))
                    after[grown] = after.get(grown, Fraction(0)) + p * rows[person][answer]
            outcome = after
        published[truth] = outcome
    outcomes = sorted(next(iter(published.values())))
    pairs = neighbouring_pairs(range(law.cells), n)
    return max(
        largest_ratio([[published[t][o] for o in outcomes] for t in (first, second)], [(0, 1)])
        for first, second in pairs
    )


# ---- order statistics: every neighbouring pair of a tiny domain ----


def _order_loss(plan: Plan) -> Loss:
    guarantee, n = plan.guarantee, plan.part_schema.largest_n
    low, high = plan.lattice.low[0], plan.lattice.high[0]
    near = low + (high - low) // 3
    values = (low, near, near + 1, low + (high - low) // 2, high)
    pairs = list(neighbouring_pairs(values, n))
    if plan.law.form is Form.POINT:
        worst = max(exponential_log_ratio(plan, first, second) for first, second in pairs)
        return _pure(plan, worst)
    law = smooth_law(plan.law)
    noise = {records: order_noise(plan, records) for records in {record for pair in pairs for record in pair}}
    laws = [(noise[first], noise[second]) for first, second in pairs] + extreme_pairs(law, high - low)
    if smooth_shape(law) is SmoothShape.CAUCHY:
        return _pure(plan, max(smooth_log_ratio(law, first, second) for first, second in laws))
    epsilon, limit = map(float, guarantee.parts)  # smooth Laplace noise gives ApproxDP alone
    delta = max(smooth_delta(law, first, second, epsilon) for first, second in laws)
    return Loss(_named(plan), "delta at epsilon", delta, limit, _at_most(delta, limit))


def _pure(plan: Plan, value: float) -> Loss:
    limit = float(_epsilon(plan))
    return Loss(_named(plan), "max log ratio", value, limit, _at_most(value, limit))


# ---- small pieces ----


def _epsilon(plan: Plan) -> Fraction:
    """The epsilon of a plan whose mechanism gives pure guarantees alone."""
    epsilon = plan.guarantee.pure_epsilon
    if epsilon is None:
        raise Unregistered(
            f"The loss of {plan.mechanism} is known as a ratio of probabilities, which {plan.guarantee!r} does not "
            "bound: give it `pure_epsilon`.",
            piece="pure_epsilon",
        )
    return epsilon


def _loss(
    subject: str, measure: str, closed: Fraction, limit: Fraction, evaluated: float, *, rounding: float = 1e-13
) -> Loss:
    """A closed form, compared without tolerance, and its evaluation in floats, which may be off by `rounding`."""
    agrees = _at_most(evaluated, float(limit), rounding)
    value = float(closed) if agrees else max(float(closed), evaluated)
    return Loss(subject, measure, value, float(limit), closed <= limit and agrees)


def _at_most(value: float, limit: float, rounding: float = 0.0) -> bool:
    return value <= limit * (1 + FLOAT_TOLERANCE) + rounding


def _log(ratio: Fraction) -> float:
    near_one = float(ratio - 1)
    return math.log1p(near_one) if near_one < 1 else math.log(ratio.numerator) - math.log(ratio.denominator)


def _named(plan: Plan) -> str:
    size = f"n = {plan.part_schema.largest_n}, {plan.schema.neighbours}"
    return f"{plan.statistic} at {plan.guarantee}; {size}"
