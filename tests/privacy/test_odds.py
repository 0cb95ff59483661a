"""What a guarantee means for one person: trade-offs against mechanisms, linear programs and direct optimisation."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize, special, stats

import noisewise as nw
from noisewise.errors import InvalidArgument
from noisewise.privacy.odds import budget_of, caution, largest_odds, largest_power, meaning, with_budget

ALPHAS = [0.001, 0.05, 0.3, 0.5, 0.9]
GUARANTEES = [nw.PureDP("0.7"), nw.ApproxDP(1, "1e-3"), nw.ZeroConcentratedDP("0.3"), nw.GaussianDP("1.2")]


def best_test(p: np.ndarray, q: np.ndarray, alpha: float) -> float:
    """Neyman & Pearson on finitely many outcomes, as a linear program: max p.t subject to q.t <= alpha, 0 <= t <= 1."""
    found = optimize.linprog(-p, A_ub=q[None], b_ub=[alpha], bounds=[(0, 1)] * len(p), method="highs")
    assert found.success
    return float(-found.fun)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_under_pure_dp_randomized_response_is_the_easiest_to_see_through(epsilon: float, alpha: float) -> None:
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    reached = best_test(np.array([keep, 1 - keep]), np.array([1 - keep, keep]), alpha)
    assert largest_power(nw.PureDP(epsilon), alpha) == pytest.approx(reached, rel=1e-9)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-3), (1.0, 0.05), (3.0, 1e-6)])
def test_under_approx_dp_it_is_the_mechanism_that_sometimes_tells_all(
    epsilon: float, delta: float, alpha: float
) -> None:
    """Four outcomes (Kairouz, Oh & Viswanath 2015): the truth is told with probability delta, else randomized."""
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    p = np.array([delta, 0, (1 - delta) * keep, (1 - delta) * (1 - keep)])
    q = np.array([0, delta, (1 - delta) * (1 - keep), (1 - delta) * keep])
    assert largest_power(nw.ApproxDP(epsilon, delta), alpha) == pytest.approx(best_test(p, q, alpha), rel=1e-8)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("mu", [0.1, 1.0, 4.0])
def test_under_gaussian_dp_it_is_the_threshold_test_of_two_normal_laws(mu: float, alpha: float) -> None:
    threshold = optimize.brentq(lambda t: stats.norm.sf(t) - alpha, -10, 10, xtol=1e-13)
    assert largest_power(nw.GaussianDP(mu), alpha) == pytest.approx(stats.norm.sf(threshold - mu), rel=1e-9)


ORDERS = 1 + np.geomspace(1e-5, 1e5, 40_000)


def worst_excess(power: float, alpha: float, rho: float) -> float:
    """The largest of D_r - rho r over 40 000 orders and r = 1, in both directions: scipy's entropies as oracle."""
    found = []
    for p, q in ((power, alpha), (alpha, power)):
        pair = np.array([p, 1 - p]), np.array([q, 1 - q])
        moments = special.logsumexp(
            [ORDERS * np.log(a) + (1 - ORDERS) * np.log(b) for a, b in zip(*pair, strict=True)], axis=0
        )
        found += [special.rel_entr(*pair).sum() - rho, (moments / (ORDERS - 1) - rho * ORDERS).max()]
    return float(max(found))


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("rho", [0.005, 0.5, 5.0])
def test_under_zcdp_it_is_the_most_unlike_pair_of_yes_no_answers_that_keeps_rho(rho: float, alpha: float) -> None:
    found = largest_power(nw.ZeroConcentratedDP(rho), alpha)
    if found > 1 - 1e-9:
        assert worst_excess(1 - 1e-9, alpha, rho) <= 0
        return
    reached = optimize.brentq(lambda t: worst_excess(t, alpha, rho), alpha + 1e-9, 1 - 1e-12, xtol=1e-10)
    assert found == pytest.approx(reached, abs=2e-6)
    assert found >= reached - 1e-6  # finitely many orders: never less is said than is so


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_a_gaussian_release_is_never_easier_to_see_through_than_its_zcdp_says(mu: float, alpha: float) -> None:
    rho = Fraction(mu) ** 2 / 2
    assert largest_power(nw.GaussianDP(mu), alpha) <= largest_power(nw.ZeroConcentratedDP(rho), alpha) + 1e-12


def test_a_laplace_release_keeps_its_odds_and_one_with_less_noise_would_not() -> None:
    """The law at two neighbours one sensitivity apart: the likelihood ratio never passes e^epsilon (planted: 0.9)."""
    x = np.linspace(-30, 30, 4001)
    for scale, holds in ((1.0, True), (0.9, False)):
        ratio = stats.laplace.pdf(x, 0, scale) / stats.laplace.pdf(x, 1, scale)
        assert bool(ratio.max() <= largest_odds(nw.PureDP(1)) * (1 + 1e-9)) is holds


def test_only_pure_dp_bounds_the_odds() -> None:
    assert [largest_odds(one) is None for one in GUARANTEES] == [False, True, True, True]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_power_grows_with_the_budget_and_is_guessing_without_one(guarantee: nw.PureDP) -> None:
    powers = [largest_power(with_budget(guarantee, Fraction(number))) for number in ("1e-6", "0.1", "1", "3", "60")]
    assert powers == sorted(powers)
    assert powers[0] == pytest.approx(0.05, abs=2e-3)
    assert powers[-1] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("bad", [0, 1, -0.1, 2])
def test_a_share_of_false_positives_lies_between_0_and_1(bad: float) -> None:
    with pytest.raises(InvalidArgument, match="false_positives"):
        largest_power(nw.PureDP(1), bad)


def test_budgets_are_read_and_moved_by_their_own_name() -> None:
    assert [budget_of(one) for one in GUARANTEES] == [
        ("epsilon", 0.7), ("epsilon", 1.0), ("rho", 0.3), ("mu", pytest.approx(1.2)),
    ]  # fmt: skip
    moved = [with_budget(one, Fraction(2)) for one in GUARANTEES]
    assert moved == [nw.PureDP(2), nw.ApproxDP(2, "1e-3"), nw.ZeroConcentratedDP(2), nw.GaussianDP(2)]


def test_the_words_say_the_numbers_rounded_against_us() -> None:
    told = meaning(nw.PureDP(1), "change-one")
    assert "at most 2.72 times" in told  # e = 2.71828
    assert "50 % becomes at most 73.2 %" in told  # e/(1+e) = 0.73106
    assert "1 % at most 2.7 %" in told  # 0.02672
    assert "at most 13.6 %" in told  # 0.13591
    assert "which of two records" in told
    assert "is among the records" in meaning(nw.PureDP(1), "add-remove")
    assert "odds" not in meaning(nw.GaussianDP(1), "change-one")
    assert "at most 26 %" in meaning(nw.GaussianDP(1), "change-one")  # Phi(-0.6449) = 0.25951
    assert "delta = 1e-06" in meaning(nw.ApproxDP(1, "1e-6"), "change-one")


@pytest.mark.parametrize(
    ("guarantee", "is_large"),
    [
        (nw.PureDP("9.99"), False), (nw.PureDP(10), True), (nw.ApproxDP(12, "1e-9"), True),
        (nw.ApproxDP(2, "1e-9"), False),
        (nw.ZeroConcentratedDP("0.5"), False), (nw.ZeroConcentratedDP("2.63"), True), (nw.GaussianDP(1), False),
        (nw.GaussianDP(4), True),
    ],
)  # fmt: skip
def test_a_large_budget_gets_a_caution_and_no_other_does(guarantee: nw.PureDP, is_large: bool) -> None:
    assert caution(guarantee).startswith("Caution") is is_large
    assert ("about epsilon" in caution(guarantee)) is (is_large and guarantee.kind not in ("pure-dp", "approx-dp"))
