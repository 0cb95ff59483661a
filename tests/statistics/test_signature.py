"""A statistic whose sensitivity nobody has proved is sold on its holder's word alone, and its release says so."""

import json

import pytest
from own_statistics import Shortfall, Spread, registered

import noisewise as nw
from noisewise.noisy_value import digest
from noisewise.report.words import describe_release
from noisewise.statistics.registry import statistic_kinds

SCHEMA = nw.Schema({"x": nw.Bounded(0, 100)}, n=40, neighbours="change-one")
X = nw.column("x")
WORD = "A. Holder, audit note 7"


@pytest.fixture
def desk(tmp_path):
    with registered(Shortfall, Spread):
        yield (
            nw.Table.read({"x": [float(k) for k in range(40)]}, SCHEMA),
            nw.Ledger.open(tmp_path / "own.ledger", limit=nw.PureDP(3)),
        )


def planned(statistic):
    return nw.plan(statistic, SCHEMA, guarantee=nw.PureDP(1))


def test_everything_of_this_library_is_proved_and_what_is_written_elsewhere_is_not():
    assert not [kind for kind in statistic_kinds() if kind.unproved.fget(object.__new__(kind))]
    assert Shortfall(X, 30.0).unproved == ()  # a row of features: its sensitivity is computed
    assert {"sensitivity", "settle", "evaluate"} <= set(Spread(X).unproved)


def test_what_privacy_rests_on_cannot_be_changed_unseen():
    """A row of features that calls itself a count would be rounded to whole numbers: it is not proved either."""

    class Sly(Shortfall):
        sort = nw.Count(X.between(0, 1)).sort

    assert Sly(X, 30.0).unproved == ("sort",)


def test_a_ledger_refuses_the_unproved_until_the_holder_signs(desk, tmp_path):
    table, ledger = desk
    with pytest.raises(nw.InvalidArgument, match="author's word") as refusal:
        nw.make_release(table, planned(Spread(X)), ledger=ledger)
    assert "signed" in str(refusal.value)
    assert ledger.releases() == ()
    release = nw.make_release(table, planned(Spread(X)), ledger=ledger, signed=WORD)
    assert release.signed == WORD
    assert release.format == "noisewise-release/2"
    for told in (release.price, describe_release(release)):
        assert WORD in told
        assert "not proved" in told
    release.save(tmp_path / "own.json")
    assert nw.Release.load(tmp_path / "own.json") == release
    again = nw.make_release(table, planned(Spread(X)), ledger=ledger, signed="somebody else")
    assert again == release  # the same request is the same bytes, with the word that was given then


def test_a_row_of_features_needs_no_word_and_takes_none(desk):
    table, ledger = desk
    assert nw.make_release(table, planned(Shortfall(X, 30.0)), ledger=ledger).signed is None
    for statistic in (Shortfall(X, 30.0), nw.Mean(X)):
        with pytest.raises(nw.InvalidArgument, match="proved here"):
            nw.make_release(table, planned(statistic), ledger=ledger, signed=WORD)


@pytest.mark.parametrize("word", ["", "  ", "x" * 301, "a\nb", "\x1b[2J", 3, True, b"x"])
def test_a_word_is_short_and_printable(desk, word):
    table, ledger = desk
    with pytest.raises(nw.InvalidArgument, match="signed must be"):
        nw.make_release(table, planned(Spread(X)), ledger=ledger, signed=word)


def test_several_at_once_are_signed_where_they_need_it(desk):
    table, ledger = desk
    plans = [planned(nw.Mean(X)), planned(Spread(X))]
    with pytest.raises(nw.InvalidArgument, match="author's word"):
        nw.make_releases(table, plans, ledger=ledger)
    mean, spread = nw.make_releases(table, plans, ledger=ledger, signed=WORD)
    assert (mean.signed, spread.signed) == (None, WORD)
    assert mean.format == "noisewise-release/1"


def test_a_file_cannot_drop_the_word_or_make_one_up(desk):
    table, ledger = desk
    own = nw.make_release(table, planned(Spread(X)), ledger=ledger, signed=WORD).to_dict()
    mean = nw.make_release(table, planned(nw.Mean(X)), ledger=ledger).to_dict()
    without = {key: value for key, value in own.items() if key not in ("signed", "hash")}
    forged = {**{key: value for key, value in mean.items() if key != "hash"}, "signed": WORD}
    for plain in (without, {**without, "format": "noisewise-release/1"}, forged, {**forged, "format": own["format"]}):
        with pytest.raises(nw.InvalidRelease):
            nw.Release.from_bytes(json.dumps({**plain, "hash": digest(plain)}).encode())
