"""What a guarantee means for one person, in words: odds, and how often a well-informed guess can be right.

Someone who knows everything but one person's record wants to tell from a release which of two things is so (the record
is this or that; the person is among the records or not). Two ways to say how far they get:

    odds      under PureDP(epsilon) a release multiplies or divides their odds by at most e^epsilon
    test      a test with false positives in a share alpha of the cases has true positives in at most T(alpha)
              (Wasserman & Zhou 2010; Kairouz, Oh & Viswanath 2015; Dong, Roth & Su 2022)

    PureDP(e)        T = min(e^e a, 1 - e^-e (1 - a))
    ApproxDP(e, d)   T = min(e^e a + d, 1 - e^-e (1 - d - a), 1)
    GaussianDP(mu)   T = Phi(Phi^-1(a) + mu)
    zCDP(rho)        the largest t such that Bernoulli(t) and Bernoulli(a) keep rho themselves:
                     D_r(t, a) <= rho r and D_r(a, t) <= rho r for every order r > 1

All four are exact: no test does better under the guarantee, and for some mechanism one does as well. For zCDP finitely
many orders are looked at, so that what is said is never less than T.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TypeVar

import numpy as np

from noisewise.errors import InvalidArgument, Unregistered
from noisewise.laws.numbers import Floats
from noisewise.printable import shown
from noisewise.privacy.guarantee import Guarantee

__all__ = ["budget_of", "caution", "largest_odds", "largest_power", "meaning", "with_budget"]

Piece = TypeVar("Piece")
FALSE_POSITIVES = 0.05
LARGE = 10  # epsilon from which on a guarantee on its own says next to nothing
DELTA = 1e-6  # at which rho and mu are told as an epsilon, where it is asked whether they are large
ORDERS = 4000


def largest_odds(guarantee: Guarantee) -> float | None:
    """e^epsilon, by which a release multiplies the odds of who knows all other records; None where nothing does."""
    return math.exp(min(700.0, float(guarantee.parts[0]))) if guarantee.kind == "pure-dp" else None


def largest_power(guarantee: Guarantee, false_positives: float = FALSE_POSITIVES) -> float:
    """T(alpha): how often a test with this share of false positives can be right, when it is so."""
    if not 0 < false_positives < 1:
        raise InvalidArgument(
            f"false_positives = {shown(false_positives, 40)} must lie between 0 and 1.", argument="false_positives"
        )
    power = _known(_POWERS, guarantee)(false_positives, *map(float, guarantee.parts))
    return min(1.0, max(false_positives, power))


def meaning(guarantee: Guarantee, neighbours: str) -> str:
    """What a release at this price can tell about one person, for someone who must answer for it."""
    so, question = _QUESTIONS[neighbours]
    power = _percent(largest_power(guarantee))
    odds = largest_odds(guarantee)
    lines = []
    if odds is not None:
        half, rare = (_percent(p * odds / (1 - p + p * odds)) for p in (0.5, 0.01))
        lines.append(
            f"For someone who knows all other records, a release at {guarantee} makes it at most {_times(odds)} as "
            f"likely, in odds, or that much less likely, that {so}. A suspicion of 50 % becomes at most {half}, one of "
            f"1 % at most {rare}."
        )
    lines.append(
        f"Someone who knows all other records and tries to tell from a release at {guarantee} {question}, with false "
        f"alarms in 5 % of the cases, finds out in at most {power} of the cases in which it is so (by guessing: 5 %). "
        "What the records of all the others tell about one person, such as that everybody has it, is not hidden."
    )
    if guarantee.kind == "approx-dp":
        lines.append(f"With probability up to delta = {float(guarantee.parts[1]):g} the release may tell more.")
    return " ".join(lines)


def caution(guarantee: Guarantee) -> str:
    """A sentence where the guarantee alone protects hardly anyone; nothing else."""
    epsilon = _known(_EPSILONS, guarantee)(*map(float, guarantee.parts))
    if epsilon < LARGE:
        return ""
    about = (
        "" if guarantee.kind in ("pure-dp", "approx-dp") else f", about epsilon = {epsilon:.3g} at delta = {DELTA:g},"
    )
    return (
        f"Caution: {guarantee}{about} is large. By this guarantee alone, someone who knows all other records may find "
        f"out nearly anything about it (up to {_percent(largest_power(guarantee))} of the cases at 5 % false alarms). "
        "Ask for less, or say in public why the release is safe for other reasons."
    )


def budget_of(guarantee: Guarantee) -> tuple[str, float]:
    """The number that buys precision, by its name: epsilon, rho or mu."""
    name, power = _known(_BUDGETS, guarantee)
    return name, float(guarantee.parts[0]) ** (1 / power)


def with_budget(guarantee: Guarantee, number: Fraction) -> Guarantee:
    """A guarantee of the same kind (and delta) with another epsilon, rho or mu."""
    _, power = _known(_BUDGETS, guarantee)
    return guarantee.from_parts(number**power, *guarantee.parts[1:])


def _pure_power(alpha: float, epsilon: float) -> float:
    return _approx_power(alpha, epsilon, 0.0)


def _approx_power(alpha: float, epsilon: float, delta: float) -> float:
    factor = math.exp(min(700.0, epsilon))
    return min(factor * alpha + delta, 1 - (1 - delta - alpha) / factor)


def _gaussian_power(alpha: float, mu_squared: float) -> float:
    from scipy.special import ndtr, ndtri

    return float(ndtr(ndtri(alpha) + math.sqrt(mu_squared)))


def _concentrated_power(alpha: float, rho: float) -> float:
    order = 1 + np.geomspace(1e-4, 10 + 60 / rho, ORDERS)
    allowed = rho * order * (order - 1)

    def is_near(p: Floats, q: Floats) -> bool:
        """Every D_r of the pair with these log-probabilities is at most rho r; as r goes to 1, Kullback & Leibler's."""
        moment = np.logaddexp(order * p[0] + (1 - order) * q[0], order * p[1] + (1 - order) * q[1])
        return bool(np.exp(p) @ (p - q) <= rho and np.all(moment <= allowed))

    def is_allowed(power: float) -> bool:
        log_a, log_t = (np.array([math.log(share), math.log1p(-share)]) for share in (alpha, power))
        return is_near(log_t, log_a) and is_near(log_a, log_t)

    low, high = alpha, 1 - 2.0**-50
    if is_allowed(high):
        return 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if is_allowed(middle) else (low, middle)
    return high


def _concentrated_epsilon(rho: float) -> float:
    """rho + 2 sqrt(rho log(1/delta)) (Bun & Steinke 2016, Proposition 1.3)."""
    return rho + 2 * math.sqrt(rho * math.log(1 / DELTA))


_POWERS: Mapping[str, Callable[..., float]] = {
    "pure-dp": _pure_power,
    "approx-dp": _approx_power,
    "zero-concentrated-dp": _concentrated_power,
    "gaussian-dp": _gaussian_power,
}
_EPSILONS: Mapping[str, Callable[..., float]] = {
    "pure-dp": lambda epsilon: epsilon,
    "approx-dp": lambda epsilon, _delta: epsilon,
    "zero-concentrated-dp": _concentrated_epsilon,
    "gaussian-dp": lambda mu_squared: _concentrated_epsilon(mu_squared / 2),
}
_BUDGETS: Mapping[str, tuple[str, int]] = {  # the name of the number, and the power of it that adds up
    "pure-dp": ("epsilon", 1),
    "approx-dp": ("epsilon", 1),
    "zero-concentrated-dp": ("rho", 1),
    "gaussian-dp": ("mu", 2),
}
_QUESTIONS = {
    "change-one": ("one person's record is one thing rather than another", "which of two records one person has"),
    "add-remove": ("one person is among the records", "whether one person is among the records"),
}


def _known(pieces: Mapping[str, Piece], guarantee: Guarantee) -> Piece:
    if guarantee.kind not in pieces:
        raise Unregistered(f"What {guarantee.kind} means as odds is not known here.", piece="odds")
    return pieces[guarantee.kind]


def _percent(share: float) -> str:
    """A share in per cent, rounded up: at most so much is said."""
    return f"{math.ceil(share * 1000 - 1e-9) / 10:g} %"


def _times(odds: float) -> str:
    shown = math.ceil(odds * 100) / 100 if odds < 100 else math.ceil(odds)
    return f"{shown:g} times" if odds < 1e6 else f"{odds:.1e} times"
