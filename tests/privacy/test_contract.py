"""What every kind of guarantee owes, driven over the kinds that are registered: a new one joins by itself."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import pairwise

import pytest
import renyi_rate

import noisewise as nw
from noisewise.errors import Incomparable, InvalidArgument
from noisewise.privacy import divergence
from noisewise.privacy.accounting import Charge, compose, fits, remaining
from noisewise.privacy.guarantee import (
    CONVERSIONS,
    KINDS,
    checked_guarantee,
    guarantee_from_dict,
    guarantee_from_spec,
)
from noisewise.privacy.mechanism import TABLE

DELTA = Fraction(1, 10**6)
ENOUGH = 1 + 1e-9  # what adding up in floats may lose
LEVELS = tuple(Fraction(level) for level in ("0.1", "1", "5"))


@pytest.fixture(scope="module", autouse=True)
def all_kinds():
    """A kind from outside has to pass what the others pass."""
    with renyi_rate.registered(*renyi_rate.PIECES):
        yield


EVERY = pytest.mark.parametrize("kind", [*KINDS.values(), renyi_rate.RenyiRate], ids=lambda kind: kind.__name__)


def noise_of(kind):
    """The additive noise that gives a kind: that of the first row of the validity table."""
    return next(row.added for row in TABLE if kind in row.guarantees and row.added is not None)


def law_at(guarantee, sensitivity=Fraction(1), step=2.0**-6, factor=1.0):
    return noise_of(type(guarantee)).law((factor * float(guarantee.calibrate(sensitivity)),), (step,), guarantee)


@EVERY
def test_the_list_of_kinds_is_whole(kind):
    assert KINDS[kind.kind] is kind
    assert checked_guarantee(kind.beside(Fraction(1))) == kind.beside(Fraction(1))


@EVERY
def test_one_tenth_of_a_guarantee_ten_times_is_all_of_it_and_leaves_nothing(kind):
    whole = kind.beside(Fraction(1))
    tenth = kind.from_parts(*(part / 10 for part in whole.parts))
    total = tenth
    for _ in range(9):
        total = total + tenth
    assert total == whole == tenth.times(10)
    charges = [Charge(tenth)] * 9
    assert remaining(charges, whole) == tenth
    assert remaining([*charges, Charge(tenth)], whole) is None
    assert fits([*charges, Charge(tenth)], whole)
    crumb = kind.from_parts(*(part / 10**12 for part in whole.parts))
    assert not fits([*charges, Charge(tenth), Charge(crumb)], whole)
    assert compose([tenth] * 10, like=whole) == whole


@EVERY
def test_what_is_written_is_read_back_exactly(kind):
    for level in (*LEVELS, Fraction(1, 3)):
        value = kind.beside(level)
        for one in (value, value.times(2)):  # twice a mu is no rational number
            plain = json.loads(json.dumps(one.to_dict()))
            assert guarantee_from_dict(plain) == one
            assert kind.from_parts(*one.parts) == one
            assert len({one, guarantee_from_dict(plain)}) == 1
        assert str(value)
        assert kind.__name__ in repr(value)
        assert guarantee_from_spec({"kind": kind.kind} | value.numbers()) == value
        with pytest.raises(InvalidArgument):
            guarantee_from_dict(value.to_dict() | {"more": "1"})


@EVERY
@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), True, "one", None])
def test_a_number_that_means_nothing_is_refused_by_name(kind, bad):
    for name in kind.number_names():
        numbers = dict.fromkeys(kind.number_names(), "1e-3") | {name: bad}
        with pytest.raises(InvalidArgument) as caught:
            kind(**numbers)
        assert caught.value.argument == name


@EVERY
def test_order_is_by_parts_and_partial(kind):
    values = [kind.beside(level) for level in LEVELS]
    for small, large in pairwise(values):
        assert small <= large
        assert small < large
        assert large > small
        assert not large <= small
        assert small <= small
        assert not small < small
    one = values[1]
    if len(one.parts) > 1:
        crossed = kind.from_parts(one.parts[0] * 2, *(part / 2 for part in one.parts[1:]))
        assert not any([one <= crossed, crossed <= one, one < crossed, crossed < one])
    for other in KINDS.values():
        if other is not kind:
            stranger = other.beside(Fraction(1))
            assert one != stranger
            for act in ("__add__", "__le__", "__lt__", "__ge__", "__gt__"):
                with pytest.raises(Incomparable):
                    getattr(one, act)(stranger)


@EVERY
def test_the_noise_it_asks_for_is_enough_by_exact_divergence_and_a_tenth_less_is_not(kind):
    for level in LEVELS:
        guarantee = kind.beside(level)
        step = 2.0**-6
        assert divergence.loss(guarantee, law_at(guarantee, step=step), [64]) <= ENOUGH
        assert divergence.loss(guarantee, law_at(guarantee, step=step, factor=0.9), [64]) > 1
        # Noise grows in proportion to what has to be hidden; rounding may add a hair, never take one.
        five = guarantee.calibrate(Fraction(5))
        assert five >= 5 * guarantee.calibrate(Fraction(1)) * (1 - Fraction(1, 10**14))
        assert divergence.loss(guarantee, law_at(guarantee, Fraction(5), step=2.0**-4), [80]) <= ENOUGH


@EVERY
def test_its_norm_is_that_of_the_mechanisms_that_give_it(kind):
    added = [row.added for row in TABLE if kind in row.guarantees and row.added is not None]
    assert added
    assert {noise.norm for noise in added} == {kind.norm}


@pytest.mark.parametrize("row", [row for row in TABLE if row.added is not None], ids=lambda row: row.name)
def test_what_the_validity_table_claims_would_be_registered_today(row):
    divergence.check_claims(row)


def conversions():
    with renyi_rate.registered(*renyi_rate.PIECES):
        return [(KINDS[source], KINDS[target]) for source, target in CONVERSIONS]


@pytest.mark.parametrize(("source", "target"), conversions(), ids=lambda kind: kind.__name__)
def test_a_conversion_never_understates(source, target):
    """What just keeps a guarantee keeps the converted one, by its own probabilities; a fifth of it, it does not."""
    for level in (Fraction(1, 2), Fraction(2)):
        guarantee = source.beside(level)
        said = guarantee.to(target, delta=DELTA) if target.takes_delta else guarantee.to(target)
        law = law_at(guarantee)
        assert divergence.loss(said, law, [64]) <= ENOUGH
        understated = target.from_parts(said.parts[0] / 5, *said.parts[1:])
        assert divergence.loss(understated, law, [64]) > 1


@EVERY
def test_a_conversion_that_no_theorem_allows_is_refused_with_what_is(kind):
    for target in KINDS.values():
        if (kind.kind, target.kind) not in CONVERSIONS and target is not kind:
            with pytest.raises(Incomparable, match=r"\.to\("):
                kind.beside(Fraction(1)).to(target)


@EVERY
def test_it_is_released_under_a_ledger_of_its_kind_and_read_back(kind, tmp_path):
    schema = nw.Schema({"x": nw.Bounded(0, 10)}, n=40, neighbours="change-one")
    guarantee = kind.beside(Fraction(1))
    plan = nw.plan(nw.Mean("x"), schema, guarantee=guarantee)
    with nw.Ledger.open(tmp_path / "a.ledger", limit=guarantee.times(2)) as ledger:
        release = nw.make_release(nw.Table.read({"x": [4.0] * 40}, schema), plan, ledger=ledger)
        assert ledger.spent() == guarantee == ledger.remaining()
    release.save(tmp_path / "a.json")
    assert nw.Release.load(tmp_path / "a.json") == release
    with nw.Ledger.open(tmp_path / "a.ledger") as ledger:
        assert ledger.limit == guarantee.times(2)
        assert ledger.spent() == guarantee
