"""What is spent adds up exactly, in parallel over disjoint parts, and never to less than the truth."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import product

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given
from hypothesis import strategies as st

from noisewise.errors import Incomparable, InvalidArgument
from noisewise.privacy.accounting import Charge, compose, fits, for_two_records, parallel_total, remaining
from noisewise.privacy.guarantee import ApproxDP, GaussianDP, PureDP, ZeroConcentratedDP

LIMIT = ApproxDP(1, "1e-6")
HALF = Fraction(1, 2)
EXAMPLES = [PureDP("0.1"), ApproxDP("0.1", "1e-7"), ZeroConcentratedDP("0.01"), GaussianDP("0.1")]


def test_one_tenth_ten_times_from_one_leaves_exactly_nothing():
    tenth = Charge(PureDP(0.1))
    assert remaining([tenth] * 9, PureDP(1)) == PureDP("0.1")
    assert fits([tenth] * 10, PureDP(1))
    assert remaining([tenth] * 10, PureDP(1)) is None
    assert not fits([tenth] * 11, PureDP(1))
    assert not fits([tenth] * 10 + [Charge(PureDP("1e-90"))], PureDP(1))


def test_each_limit_accepts_the_kinds_it_bounds():
    accepted = {
        PureDP: {PureDP},
        ZeroConcentratedDP: {PureDP, ZeroConcentratedDP},
        GaussianDP: {GaussianDP},
        ApproxDP: {PureDP, ApproxDP, ZeroConcentratedDP, GaussianDP},
    }
    for charge, like in product(EXAMPLES, EXAMPLES):
        if type(charge) in accepted[type(like)]:
            assert type(compose([charge], like=like)) is type(like)
        else:
            with pytest.raises(Incomparable, match="ApproxDP limit"):
                compose([charge], like=like)
    with pytest.raises(InvalidArgument, match="charges"):
        compose([], like=LIMIT)


def test_sums_within_a_kind_are_exact():
    assert compose([PureDP("1/3")] * 3, like=PureDP(5)) == PureDP(1)
    assert compose([GaussianDP(3), GaussianDP(4)], like=GaussianDP(9)) == GaussianDP(5)
    assert compose([PureDP(1), ZeroConcentratedDP("0.25")], like=ZeroConcentratedDP(1)) == ZeroConcentratedDP("0.75")
    spent = [ApproxDP("0.1", "1e-7")] * 10
    assert compose(spent, like=LIMIT) == LIMIT
    assert compose([*spent[:5], PureDP("0.5")], like=LIMIT) == ApproxDP(1, "5e-7")
    assert fits([Charge(one) for one in spent], LIMIT)
    assert not fits([Charge(one) for one in [*spent, PureDP("1e-50")]], LIMIT)


def test_many_small_pure_charges_cost_less_than_their_sum_when_a_delta_is_allowed():
    few, many = [PureDP("0.4")] * 2, [PureDP("0.01")] * 100
    assert compose(few, like=LIMIT) == ApproxDP("0.8", "1e-6")
    total = compose(many, like=LIMIT)
    assert total == ZeroConcentratedDP("0.005").to(ApproxDP, delta="1e-6")
    assert total < ApproxDP(1, "1e-6")
    assert fits([Charge(one) for one in [PureDP("0.01")] * 400], LIMIT)


def test_a_total_is_never_below_the_truth():
    """The true price of the worst mechanisms of each kind composed, by another library's privacy loss distributions."""
    cases = [
        ([PureDP("0.05")] * 40, [("pure", 0.05, 40)]),
        ([GaussianDP("0.2")] * 4, [("gauss", 0.2, 4)]),
        ([ZeroConcentratedDP("0.02"), PureDP("0.1")], [("gauss", 0.2, 1), ("pure", 0.1, 1)]),
        ([GaussianDP("0.2"), ZeroConcentratedDP("0.02"), PureDP("0.1")], [("gauss", 0.2, 2), ("pure", 0.1, 1)]),
        ([ApproxDP("0.2", "1e-7"), GaussianDP("0.3")], [("approx", 0.2, 1), ("gauss", 0.3, 1)]),
    ]
    for charges, truth in cases:
        total = compose(charges, like=ApproxDP(5, "1e-6"))
        exact = _true_epsilon(truth, float(total.delta))
        assert total.delta <= Fraction(1, 10**6)
        assert exact * (1 - 1e-6) <= float(total.epsilon) <= 1.6 * exact


def test_the_smallest_of_the_proved_bounds_is_taken():
    pure, rho, mu = PureDP("0.3"), ZeroConcentratedDP("0.005"), GaussianDP("0.1")
    delta = Fraction(1, 10**6)
    total = compose([pure, rho, mu], like=LIMIT).epsilon
    converted = min(
        rho.to(ApproxDP, delta=share * delta).epsilon + mu.to(ApproxDP, delta=(1 - share) * delta).epsilon
        for share in (HALF, Fraction(1, 4), Fraction(3, 4))
    )
    together = ZeroConcentratedDP("0.055").to(ApproxDP, delta=delta).epsilon  # 0.045 + 0.005 + 0.005
    assert total <= min(pure.epsilon + converted, together)
    assert compose([mu], like=LIMIT) == mu.to(ApproxDP, delta=delta)
    assert compose([rho, rho], like=LIMIT) == rho.times(2).to(ApproxDP, delta=delta)


def test_deltas_are_shared_never_spent_twice():
    """Convert by hand with the whole delta for each charge: the sum is a smaller epsilon, and a lie."""
    approx, mu = ApproxDP("0.2", "5e-7"), GaussianDP("0.2")
    total = compose([approx, mu], like=LIMIT)
    assert total.delta == LIMIT.delta
    assert total.epsilon == approx.epsilon + mu.to(ApproxDP, delta="5e-7").epsilon
    assert total.epsilon > approx.epsilon + mu.to(ApproxDP, delta="1e-6").epsilon


def test_two_conversions_share_one_delta():
    rho, mu = ZeroConcentratedDP("1e-8"), GaussianDP(1)  # so unequal that converting them apart is the better road
    total = compose([rho, mu], like=LIMIT)
    apart = {
        rho.to(ApproxDP, delta=share * LIMIT.delta).epsilon + mu.to(ApproxDP, delta=(1 - share) * LIMIT.delta).epsilon
        for share in (Fraction(k, 32) for k in range(1, 32))
    }
    assert total.epsilon in apart
    assert total.epsilon < ZeroConcentratedDP("0.50000001").to(ApproxDP, delta=LIMIT.delta).epsilon


def test_without_delta_left_a_conversion_goes_beyond_the_limit():
    spent = [ApproxDP("0.1", "1e-6"), ZeroConcentratedDP("1e-6")]
    assert compose(spent, like=LIMIT).delta > LIMIT.delta
    assert not fits([Charge(one) for one in spent], LIMIT)
    assert fits([Charge(one) for one in spent[:1]], LIMIT)
    assert fits([Charge(one) for one in [*spent[:1], PureDP("0.9")]], LIMIT)
    everything = ApproxDP(1, "0.9")
    assert compose([everything, ZeroConcentratedDP("0.1")], like=everything).delta > everything.delta
    assert not fits([Charge(everything)] * 3, everything)  # deltas of 2.7


def test_disjoint_parts_compose_in_parallel():
    left, right = (Fraction(0), HALF), (HALF, Fraction(1))
    charges = [Charge(PureDP("0.6"), left), Charge(PureDP("0.7"), right), Charge(PureDP("0.1"))]
    total = parallel_total(charges, like=PureDP(1))
    assert [(segment.part, segment.total) for segment in total.segments] == [
        (left, PureDP("0.7")),
        (right, PureDP("0.8")),
    ]
    assert total.worst == PureDP("0.8")
    assert remaining(charges, PureDP(1), left) == PureDP("0.3")
    assert remaining(charges, PureDP(1)) == PureDP("0.2")
    assert fits([*charges, Charge(PureDP("0.3"), left)], PureDP(1))
    assert not fits([*charges, Charge(PureDP("0.3"), right)], PureDP(1))
    assert not fits([*charges, Charge(PureDP("0.3"), (Fraction(49, 100), Fraction(51, 100)))], PureDP(1))
    assert parallel_total([], like=PureDP(1)).worst is None
    assert fits([], PureDP(1))
    assert remaining([], LIMIT) == LIMIT


edges = st.integers(0, 12).map(lambda k: Fraction(k, 12))
parts = st.one_of(st.none(), st.tuples(edges, edges).filter(lambda part: part[0] < part[1]))
charges_ = st.lists(st.tuples(st.integers(1, 9), parts), max_size=8)


@given(charges_, parts)
def test_parallel_totals_equal_the_sum_at_every_record(drawn, part):
    """Oracle: 24 records, each asked which charges touch it."""
    charges = [Charge(PureDP(Fraction(tenths, 10)), where) for tenths, where in drawn]
    records = [Fraction(2 * i + 1, 48) for i in range(24)]
    at = {r: sum(Fraction(t, 10) for t, where in drawn if where is None or where[0] <= r < where[1]) for r in records}
    total = parallel_total(charges, like=PureDP(1))
    for segment in total.segments:
        inside = [spent for record, spent in at.items() if segment.part[0] <= record < segment.part[1]]
        assert set(inside) == {segment.total.epsilon if segment.total else 0}
    assert max(at.values()) == (total.worst.epsilon if total.worst else 0)
    assert fits(charges, PureDP(1)) == (max(at.values()) <= 1)
    left = 1 - max(spent for record, spent in at.items() if part is None or part[0] <= record < part[1])
    assert remaining(charges, PureDP(1), part) == (PureDP(left) if left > 0 else None)


def test_what_remains_is_a_number_only_where_totals_are_sums():
    assert remaining([Charge(PureDP("0.3")), Charge(ApproxDP("0.2", "4e-7"))], LIMIT) == ApproxDP("0.5", "6e-7")
    assert remaining([Charge(ApproxDP("0.2", "1e-6"))], LIMIT) is None
    assert remaining([Charge(PureDP(1))], ZeroConcentratedDP(1)) == ZeroConcentratedDP("0.5")
    for other in (ZeroConcentratedDP("0.01"), GaussianDP("0.1")):
        with pytest.raises(Incomparable, match="fits"):
            remaining([Charge(other)], LIMIT)


@pytest.mark.parametrize(
    "part", [(0, 0), (HALF, 0), (-1, 1), (0, 2), (float("nan"), 1), (0,), "ab", (None, 1), (0, True), 5], ids=repr
)
def test_a_part_that_is_no_stretch_of_records_is_refused(part):
    with pytest.raises(InvalidArgument, match="part"):
        Charge(PureDP(1), part)
    with pytest.raises(InvalidArgument, match="part"):
        remaining([], PureDP(1), part)


def test_pure_sizes_may_be_chosen_after_seeing_earlier_answers():
    """Every adaptive tree of randomized responses whose paths each fit the limit is (epsilon, delta)-private.

    A path may fit by its plain sum or by its concentrated sum, whichever; the adversary picks the next size from a
    menu after each answer. Dynamic programming over the privacy loss finds the worst tree.
    """
    limit = ApproxDP("0.6", "0.1")

    def worst_delta(unit: str) -> float:
        one, two = Charge(PureDP(Fraction(unit))), Charge(PureDP(2 * Fraction(unit)))

        @cache
        def fit(ones: int, twos: int) -> bool:
            return fits([Charge(PureDP("0.1"))] * ones + [Charge(PureDP("0.2"))] * twos, limit)

        @cache
        def worst(loss: int, ones: int, twos: int) -> float:
            """sup over strategies of E_P[(1 - e^(epsilon - loss))_+] from here on; losses in units."""
            best = max(0.0, 1 - math.exp(float(limit.epsilon) - loss * float(one.guarantee.epsilon)))
            for size, charge, path in ((1, one, (ones + 1, twos)), (2, two, (ones, twos + 1))):
                if fit(*path):
                    p = 1 / (1 + math.exp(-float(charge.guarantee.epsilon)))
                    best = max(best, p * worst(loss + size, *path) + (1 - p) * worst(loss - size, *path))
            return best

        assert fit(8, 0)  # beyond the plain sum, so there is something to show
        return worst(0, 0, 0)

    assert 0 < worst_delta("0.1") <= float(limit.delta)
    assert worst_delta("0.2") > float(limit.delta)  # planted: answers that lose twice what they are charged


def _true_epsilon(parts, delta):
    total = pld.identity()
    for kind, size, count in parts:
        if kind == "gauss":
            one = pld.from_gaussian_mechanism(1 / size, value_discretization_interval=1e-4)
        else:
            law = pld.common.DifferentialPrivacyParameters(size, 1e-7 if kind == "approx" else 0)
            one = pld.from_privacy_parameters(law, value_discretization_interval=1e-4)
        total = total.compose(one.self_compose(count))
    return float(total.get_epsilon_for_delta(delta))


def test_two_records_together_cost_what_moving_twice_as_far_costs():
    """Laplace and Gaussian noise on a sum of sensitivity 1, asked at distance 2: the charge is met, not exceeded."""
    assert for_two_records(PureDP("1/3")) == PureDP("2/3")  # max log-ratio d/b, b = 1/epsilon
    assert for_two_records(ZeroConcentratedDP("1/3")) == ZeroConcentratedDP("4/3")  # d^2/(2 sigma^2)
    assert for_two_records(GaussianDP("1/3")) == GaussianDP("2/3")  # d/sigma


@given(epsilon=st.floats(0.01, 5), delta=st.floats(1e-9, 1e-3), least=st.floats(1e-9, 1e-3))
def test_two_records_together_cost_the_worst_that_an_approximate_promise_allows(epsilon, delta, least):
    """Three coins in a row, each as far from the next as (epsilon, delta) allows, meet the bound at 2 epsilon."""
    chain = [least]
    for _ in range(2):
        chain.append(math.exp(epsilon) * chain[-1] + delta)
    if chain[-1] > 1 / 2:
        return
    total = for_two_records(ApproxDP(epsilon, delta))
    assert total.epsilon == 2 * ApproxDP(epsilon, delta).epsilon
    needed = chain[2] - math.exp(2 * epsilon) * chain[0]
    slack = 1e-12 * chain[2]  # of the floats here
    assert needed - slack <= float(total.delta) <= needed * (1 + 1e-11) + slack


def test_a_promise_that_leaves_no_delta_for_two_records_is_refused():
    for guarantee in (ApproxDP(20, "1e-6"), ApproxDP(10**6, "1e-100")):
        with pytest.raises(Incomparable, match="two records"):
            for_two_records(guarantee)
    with pytest.raises(Incomparable, match="two records"):
        for_two_records("epsilon")
