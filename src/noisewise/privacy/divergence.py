"""The exact divergence of a law at neighbours, from its log-probabilities alone: what a claim of privacy has to show.

For neighbours whose sums differ by d_j steps in component j, with independent noise P_j,
    PureDP               sum_j max_k log P_j(k - d_j)/P_j(k)                              <= epsilon
    ZeroConcentratedDP   sum_j Renyi divergence of order a, over a                        <= rho, at several orders
    ApproxDP             sum_k max(0, P(k - d) - e^epsilon P(k))                          <= delta
    GaussianDP           the same at several epsilon                                      <= the curve of mu
in both directions. Sums run over all outputs but for a tail that is counted against the law. `check_claims` does this
for a mechanism at several budgets, on a coarse lattice (counts) and on a fine one, for one component and for two that
share the sensitivity, and refuses a mechanism that exceeds any guarantee it claims.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import singledispatch
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from noisewise.errors import Unregistered, Unsupported
from noisewise.exact import float_above
from noisewise.laws import AdditiveLaw
from noisewise.laws.numbers import Floats
from noisewise.privacy.calibration import gaussian_curve
from noisewise.privacy.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP

if TYPE_CHECKING:
    from noisewise.privacy.mechanism import Mechanism

BUDGETS = tuple(Fraction(level) for level in ("0.1", "1", "5"))
ORDERS = (1.25, 2.0, 8.0, 32.0)
CURVE = tuple(Fraction(k) for k in ("-9", "-1", "0", "1", "2"))  # epsilon = mu^2/2 + k mu, where delta is no dust
TAIL = 1e-18  # far below every delta that is checked
TOLERANCE = 1e-9
MOST_OUTPUTS, NEARBY, MOST_TOGETHER, MOST_AT_ONCE = 2**16, 2**10, 2**27, 2**21


def loss(guarantee: Guarantee, law: AdditiveLaw, steps: Sequence[int]) -> float:
    """How much of a guarantee a law uses at neighbours `steps` apart, both ways: at most 1 where it is kept."""
    return max(one_way_loss(guarantee, law, steps), one_way_loss(guarantee, law, [-d for d in steps]))


@singledispatch
def one_way_loss(guarantee: Guarantee, _law: AdditiveLaw, _steps: Sequence[int]) -> float:
    """How much of a guarantee a law uses when sums move by `steps`, in this direction."""
    raise Unregistered(
        f"The guarantee {type(guarantee).__name__} has no exact divergence: register one with "
        "`noisewise.privacy.divergence.one_way_loss`. Nothing was spent.",
        piece="divergence",
    )


@one_way_loss.register
def _(guarantee: PureDP, law: AdditiveLaw, steps: Sequence[int]) -> float:
    most = sum(float(np.max(pair.moved - pair.still)) for pair in _pairs(law, steps))
    return most / float(guarantee.epsilon)


@one_way_loss.register
def _(guarantee: ZeroConcentratedDP, law: AdditiveLaw, steps: Sequence[int]) -> float:
    pairs, rates = _pairs(law, steps), []
    for order in ORDERS:
        logs = [pair.log_weight + order * pair.moved + (1 - order) * pair.still for pair in pairs]
        rates.append(sum(_log_sum(terms) for terms in logs) / (order - 1) / order)
    return max(rates) / float(guarantee.rho)


@one_way_loss.register
def _(guarantee: ApproxDP, law: AdditiveLaw, steps: Sequence[int]) -> float:
    return _hockey_stick(law, steps, float(guarantee.epsilon)) / float(guarantee.delta)


@one_way_loss.register
def _(guarantee: GaussianDP, law: AdditiveLaw, steps: Sequence[int]) -> float:
    mu, used = Fraction(guarantee.mu), []
    for spread in CURVE:
        epsilon = max(Fraction(0), mu**2 / 2 + spread * mu)
        used.append(_hockey_stick(law, steps, float(epsilon)) / float(gaussian_curve(epsilon, guarantee.mu_squared)))
    return max(used)


def check_claims(mechanism: Mechanism) -> None:
    """Refuse a mechanism whose law exceeds a guarantee that it claims, at some budget, lattice or split."""
    noise = mechanism.added
    if noise is None:
        raise Unregistered(
            f"The mechanism {mechanism.name!r} does not say how its noise is fitted: give it added=AddedNoise(...). "
            "Nothing was registered.",
            piece="added",
        )
    for kind in mechanism.guarantees:
        for budget in BUDGETS:
            guarantee = guarantee_beside(kind, budget)
            for size, split in _splits(noise.norm, is_for_vectors=noise.is_for_vectors):
                scale = noise.scale(Fraction(1), guarantee)
                for step in (1.0, 2.0 ** math.floor(math.log2(float(scale)) - (7 if size == 1 else 5))):
                    law = noise.law((float_above(scale),) * size, (step,) * size, guarantee)
                    _check(mechanism.name, guarantee, law, [math.floor(share / step) for share in split])


def _check(name: str, guarantee: Guarantee, law: AdditiveLaw, steps: Sequence[int]) -> None:
    used = loss(guarantee, law, steps) if any(steps) else 0.0
    if not used <= 1 + TOLERANCE:
        raise Unsupported(
            f"The mechanism {name!r} is not registered: at {guarantee} with sums of sensitivity 1 on steps of "
            f"{law.step[0]:.3g}, moved by {steps} steps, its law {law.family!r} loses {used:.6g} times what the "
            "guarantee allows.",
            law=law.family,
            used=used,
        )


def _splits(norm: int, *, is_for_vectors: bool) -> list[tuple[int, tuple[float, ...]]]:
    """Ways in which one record moves sums of joint sensitivity 1."""
    alone = [(1, (share,)) for share in (1.0, 0.5, 0.26)]
    even = 0.5 if norm == 1 else math.sqrt(0.5)
    uneven = (0.25, 0.75) if norm == 1 else (0.6, 0.8)
    return [*alone, (2, (even, even)), (2, uneven)] if is_for_vectors else [*alone]


def guarantee_beside(kind: type[Guarantee], budget: Fraction) -> Guarantee:
    """The guarantee of a kind that stands beside epsilon: rho = epsilon^2/2, mu = epsilon, delta = 1e-6."""
    return kind.beside(budget)


class _Pair(NamedTuple):
    """log P(k - d) and log P(k) at outputs k of one moved component, and how many outputs each stands for."""

    moved: Floats
    still: Floats
    log_weight: Floats


def _pairs(law: AdditiveLaw, steps: Sequence[int]) -> list[_Pair]:
    """All outputs that matter of each moved component; on a lattice too fine for that, a hundred thousand of them."""
    pairs = []
    for component, d in enumerate(steps):
        if d == 0:
            continue
        reach = law.reach(TAIL, component) + 2 * abs(d)
        if reach <= MOST_OUTPUTS:
            k, weight = np.arange(-reach, reach + 1), np.ones(2 * reach + 1)
        else:
            stride = -(-reach // MOST_OUTPUTS)
            near = np.concatenate([np.arange(place - NEARBY, place + NEARBY) for place in (0, d, -d, d // 2)])
            k = np.unique(np.concatenate([np.arange(-reach, reach + 1, stride), near]))
            weight = np.gradient(k.astype(float))
        pairs.append(_Pair(law.log_pmf(k - d, component), law.log_pmf(k, component), np.log(weight)))
    return pairs


def _hockey_stick(law: AdditiveLaw, steps: Sequence[int], epsilon: float) -> float:
    """sum over outputs of max(0, P(k - d) - e^epsilon P(k)), the outputs of several components taken together."""
    one, *others = _pairs(law, steps)
    for other in others[:-1]:
        one = _Pair(*(np.add.outer(a, b).ravel() for a, b in zip(one, other, strict=True)))
    blocks: Iterable[_Pair] = (one,)
    for last in others[-1:]:
        if one.moved.size * last.moved.size > MOST_TOGETHER:
            raise Unsupported(f"The noise {law.family!r} on several components is too fine to be added up here.")
        rows = max(1, MOST_AT_ONCE // last.moved.size)
        blocks = (
            _Pair(*(np.add.outer(a[start : start + rows], b).ravel() for a, b in zip(one, last, strict=True)))
            for start in range(0, one.moved.size, rows)
        )
    return sum(_excess(block, epsilon) for block in blocks) + 2 * len(steps) * TAIL


def _excess(pair: _Pair, epsilon: float) -> float:
    excess = np.exp(pair.log_weight) * np.maximum(0.0, np.exp(pair.moved) - np.exp(epsilon + pair.still))
    return float(np.sum(excess))


def _log_sum(terms: Floats) -> float:
    top = float(terms.max())
    return top + math.log(float(np.sum(np.exp(terms - top))))
