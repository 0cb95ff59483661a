"""A2, and the audit as people run it: planted faults are caught, and one table says so."""

import json
import sys

import pytest

from noisewise.audit.faults import FAULTS
from noisewise.audit.run import audit, table_of
from noisewise.errors import InvalidArgument
from noisewise.privacy.mechanism import mechanism_names

PROMISED = {
    "scale 10 % too small",
    "clamping skipped",
    "wrong norm",
    "data-derived bounds",
    "add-remove sensitivity under change-one",
    "off-by-one randomized response",
    "position parts under add-remove",
    "parts ordered by a private column",
    "smooth scale written into the release",
    "intercept left out of the joint-ball sensitivity",
    "uncapped respondent",
    "nine-digit key parts",
    "relation switched by `replace_records`",
    "complete rows counted without noise",
    "presence left out of the fingerprint",
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught_by_its_check_and_the_library_passes_it(name):
    fault = FAULTS[name]
    assert fault.passes_without()
    assert fault.is_caught(), f"{fault.caught_by} let {name} pass"


def test_every_promised_fault_is_planted():
    assert set(FAULTS) >= PROMISED
    assert all(fault.caught_by for fault in FAULTS.values())


def test_one_mechanism_is_audited_and_written_down():
    (row,) = audit("finite", runs=50, processes=1)
    assert row.is_sound
    assert row.verdict.startswith("sound")
    assert 0.99 < row.exact_loss <= 1
    assert 0 <= row.empirical_lower_bound <= 1
    assert json.loads(json.dumps(row.to_dict()))["mechanism"] == "finite"
    assert table_of([row]).row_count == 1


def test_an_unsound_mechanism_gets_an_unsound_row(monkeypatch):
    """Planted: every estimator is made for twice its epsilon, and the planner's own check is blinded."""
    from noisewise.audit import cases, targets
    from noisewise.audit.cases import geometric_estimator

    for module in (cases, targets):
        monkeypatch.setattr(module, "geometric_estimator", lambda n, epsilon: geometric_estimator(n, 2 * epsilon))
    monkeypatch.setattr(sys.modules["noisewise.planning"], "satisfies", lambda *_: True)
    (row,) = audit("finite", runs=50, processes=1)
    assert not row.is_sound
    assert row.verdict.startswith("UNSOUND")
    assert row.exact_loss > 1.9


@pytest.mark.parametrize("bad", ["laplce", "", 3, True])
def test_an_unknown_mechanism_is_refused_with_the_names(bad):
    with pytest.raises(InvalidArgument) as caught:
        audit(bad)
    assert all(name in str(caught.value) for name in mechanism_names())


@pytest.mark.parametrize("bad", [0, -1, 1.5, None, True, float("nan"), 10**9])
def test_bad_numbers_of_runs_are_refused(bad):
    with pytest.raises(InvalidArgument, match="runs"):
        audit("finite", runs=bad)
