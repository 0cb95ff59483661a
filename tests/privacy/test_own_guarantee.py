"""A guarantee from outside the package: planned, released, added up, converted; refused where a piece is missing."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import pytest
import renyi_rate
from renyi_rate import PIECES, RenyiRate, registered, without
from scipy import stats

import noisewise as nw
from noisewise.audit.attack import proven_loss
from noisewise.audit.exact import exact_loss
from noisewise.errors import BudgetExceeded, Incomparable, InvalidArgument, InvalidRelease, Unregistered, Unsupported
from noisewise.holder import ledger_chain
from noisewise.privacy import mechanism
from noisewise.privacy.accounting import Charge, compose, fits, for_two_records, remaining
from noisewise.privacy.guarantee import CONVERSIONS, KINDS, Guarantee, register_guarantee

SCHEMA = nw.Schema({"x": nw.Bounded(0, 10)}, n=400, neighbours="change-one")
ONE = RenyiRate(1)


def released(folder, guarantee=ONE, limit=ONE):
    table = nw.Table.read({"x": [4.0] * 400}, SCHEMA)
    plan = nw.plan(nw.Mean("x"), SCHEMA, guarantee=guarantee)
    with nw.Ledger.open(folder / "own.ledger", limit=limit) as ledger:
        release = nw.make_release(table, plan, ledger=ledger)
        release.save(folder / "own.json")
        return release, ledger.spent()


def test_a_guarantee_of_ones_own_goes_the_whole_way(tmp_path):
    with registered(*PIECES):
        release, spent = released(tmp_path)
        assert spent == ONE
        assert release == nw.Release.load(tmp_path / "own.json")
        # The same noise as zCDP of half the rate, which is what the rate means.
        twin = nw.plan(nw.Mean("x"), SCHEMA, guarantee=nw.ZeroConcentratedDP("1/2"))
        assert release.law == twin.law
        assert exact_loss(nw.plan(nw.Mean("x"), SCHEMA, guarantee=ONE)).holds
        posterior = nw.infer(release, nw.Normal(mean=stats.norm(5, 3), sd=2.0), seed=1, progress=False)
        assert abs(posterior.mean["mean"] - 4) < 1


def test_charges_of_ones_own_add_up_with_others(tmp_path):
    with registered(*PIECES):
        limit = nw.ZeroConcentratedDP(1)
        charges = [Charge(ONE), Charge(nw.PureDP("0.5"))]
        assert compose([one.guarantee for one in charges], like=limit) == nw.ZeroConcentratedDP("0.625")
        assert remaining(charges, limit) == nw.ZeroConcentratedDP("0.375")
        assert not fits([*charges, Charge(ONE)], limit)
        approx = nw.ApproxDP(10, "1e-6")
        twins = [nw.ZeroConcentratedDP("0.5"), nw.PureDP("0.5"), nw.ApproxDP("0.1", "1e-7")]
        assert compose([ONE, *twins[1:]], like=approx) == compose(twins, like=approx)
        with pytest.raises(Incomparable, match="fixed price"):
            compose([ONE], like=nw.PureDP(1))
        with pytest.raises(BudgetExceeded):
            released(tmp_path, guarantee=RenyiRate(2), limit=ONE)
        assert released(tmp_path)[1] == ONE  # the refusal cost nothing


MISSING = {
    renyi_rate.register_kind: "guarantee",
    renyi_rate.register_divergence: "divergence",
    renyi_rate.register_steps: "gaussian_steps",
}


@pytest.mark.parametrize("piece", MISSING, ids=lambda piece: piece.__name__)
def test_without_a_piece_whoever_needs_it_raises_and_names_it(piece, tmp_path):
    with pytest.raises(Unregistered) as caught, registered(*without(piece)):
        released(tmp_path)
    assert caught.value.piece == MISSING[piece]
    assert "RenyiRate" in str(caught.value)
    assert not (tmp_path / "own.json").exists()
    assert RenyiRate not in [kind for row in mechanism.TABLE for kind in row.guarantees]


def test_without_a_mechanism_no_plan_is_made(tmp_path):
    with registered(*without(renyi_rate.register_mechanism)), pytest.raises(Unsupported, match="renyi-rate"):
        released(tmp_path)


def test_without_conversions_it_stands_alone(tmp_path):
    with registered(*without(renyi_rate.register_conversions)):
        assert released(tmp_path)[1] == ONE
        with pytest.raises(Incomparable, match="cannot be converted"):
            ONE.to(nw.ZeroConcentratedDP)
        with pytest.raises(Unregistered, match="shares") as caught:
            compose([ONE], like=nw.ApproxDP(10, "1e-6"))
        assert caught.value.piece == "shares"
        with pytest.raises(Incomparable, match="fixed price"):
            compose([ONE], like=nw.ZeroConcentratedDP(1))


def test_what_no_one_registered_is_never_guessed(tmp_path):
    with registered(*PIECES):
        with pytest.raises(Incomparable, match="for_two_records"):
            for_two_records(ONE)
        with pytest.raises(Unregistered, match="proven_loss"):
            proven_loss(ONE, 0.5, 0.1)
        with pytest.raises(InvalidArgument, match="PureDP"):
            nw.optimal_estimator(nw.Bernoulli(p=stats.beta(2, 2)), "squared", guarantee=ONE, n=10)
        with pytest.raises(Unsupported, match="exponential"):
            nw.plan(nw.Quantile("x", "0.5"), SCHEMA, guarantee=ONE)


def test_a_release_and_a_ledger_of_a_kind_that_nobody_registered_here_are_refused(tmp_path):
    with registered(*PIECES):
        released(tmp_path)
    with pytest.raises(InvalidRelease, match="register_guarantee"):
        nw.Release.load(tmp_path / "own.json")
    ledger_chain._guarantee.cache_clear()  # another process has not read this text before
    with pytest.raises(nw.NoisewiseError):
        nw.Ledger.open(tmp_path / "own.ledger").spent()


def test_too_little_noise_is_not_admitted():
    @dataclass(frozen=True, slots=True, repr=False)
    class Hopeful(Guarantee):
        kind: ClassVar[str] = "hopeful"
        norm: ClassVar[int] = 2
        rate: Fraction

        @classmethod
        def beside(cls, epsilon):
            return cls(epsilon**2)

        def calibrate(self, sensitivity):
            return Fraction(9, 10) * RenyiRate(self.rate).calibrate(sensitivity)

    from noisewise.laws import DiscreteGaussian
    from noisewise.privacy.divergence import one_way_loss

    mechanism.gaussian_steps.register(Hopeful, lambda _: DiscreteGaussian)
    one_way_loss.register(Hopeful, lambda own, law, d: one_way_loss(nw.ZeroConcentratedDP(own.rate / 2), law, d))
    with pytest.raises(Unsupported, match="not registered"):
        mechanism.admit(Hopeful, "gaussian")
    with pytest.raises(Unsupported, match="norm 1"):
        mechanism.admit(Hopeful, "laplace")


def test_a_kind_says_what_it_lacks():
    @dataclass(frozen=True, slots=True, repr=False)
    class Bare(Guarantee):
        kind: ClassVar[str] = "bare"
        norm: ClassVar[int] = 1
        level: Fraction

    for ask, piece in (
        (lambda: Bare(1).calibrate(Fraction(1)), "calibrate"),
        (lambda: Bare.beside(Fraction(1)), "beside"),
    ):
        with pytest.raises(Unregistered) as caught:
            ask()
        assert caught.value.piece == piece
    with pytest.raises(TypeError, match="PureDP"):
        Guarantee()
    assert Bare("0.1").times(10) == Bare(1)


def test_a_kind_is_registered_once_and_with_a_norm():
    with pytest.raises(InvalidArgument, match="already"):
        register_guarantee(nw.PureDP)

    class Strange(Guarantee):
        kind: ClassVar[str] = "strange"
        norm: ClassVar[int] = 3

    with pytest.raises(InvalidArgument, match="norm"):
        register_guarantee(Strange)
    assert len(KINDS) == 4
    assert len(CONVERSIONS) == 5
