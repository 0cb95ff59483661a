"""A person who is asked more than once: the cap holds over all answers, whatever the askers send (D3, D4)."""

from __future__ import annotations

import copy
import json
import multiprocessing
import os
import pickle
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import noisewise as nw
from noisewise.errors import BudgetExceeded, Incomparable, InvalidArgument, LedgerError, NoisewiseError, Unsupported
from noisewise.holder import respondent as module

CANARY = 123.456789


def clip(epsilon: Any, id: str | None = None, high: float = 250) -> nw.Query:
    return nw.Query.clip(0, high, guarantee=nw.PureDP(epsilon), id=id)


@pytest.fixture(params=["file", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "answers.account" if request.param == "file" else None


# ---- one answer ----


def test_respond_without_a_cap_is_refused_in_a_sentence() -> None:
    with pytest.raises(InvalidArgument, match=r"Say the most that this answer may cost: respond\(query, x, cap="):
        nw.respond(clip(1), 5.0)
    with pytest.raises(InvalidArgument, match="all answers together"):
        nw.Respondent()


@pytest.mark.parametrize("cap", [1, "1", 0.5, True, nw.PureDP, [nw.PureDP(1)]])
def test_a_cap_that_is_no_guarantee_is_refused(cap: Any) -> None:
    with pytest.raises(InvalidArgument, match="Say the most"):
        nw.respond(clip(1), 5.0, cap=cap)
    with pytest.raises(InvalidArgument, match="Say the most"):
        nw.Respondent(cap=cap)


@pytest.mark.parametrize("epsilon", ["1.0000000001", 2, 10**6])
def test_a_query_above_the_cap_is_refused_whatever_it_offers(epsilon: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    query = clip(epsilon)
    monkeypatch.setattr(nw.Query, "plan", never)  # no law is looked at, let alone drawn from
    with pytest.raises(BudgetExceeded, match="Nothing was answered") as caught:
        nw.respond(query, CANARY, cap=nw.PureDP(1))
    assert caught.value.limit == nw.PureDP(1)
    assert "123.4" not in str(caught.value)


def never(*_: Any) -> Any:
    raise AssertionError("a law was needed")


def test_kinds_that_do_not_compare_are_refused() -> None:
    for cap in (nw.GaussianDP(5), nw.ZeroConcentratedDP(5), nw.ApproxDP(5, "1e-6")):
        with pytest.raises(Incomparable, match="Nothing was spent"):
            nw.respond(clip(1), 5.0, cap=cap)
        with pytest.raises(Incomparable):
            nw.Respondent(cap=cap).respond(clip(1), 5.0)
    with pytest.raises(BudgetExceeded):  # of one kind and yet neither is the smaller
        nw.respond(nw.Query.clip(0, 1, guarantee=nw.ApproxDP(1, "1e-5")), 0.5, cap=nw.ApproxDP(2, "1e-6"))


# ---- all answers together ----


def test_all_answers_together_cost_at_most_the_cap_whatever_ids_the_asker_chooses(place: Path | None) -> None:
    me = nw.Respondent(cap=nw.PureDP(1), path=place)
    ids: list[str | None] = [None, "a", "A", "a ", "á", "a\u0301", "", "\x00", "'; DROP TABLE queries;--", "x" * 200]
    answered = refused = 0
    for k in range(20):
        query = clip("1/10", ids[k] if k < len(ids) else f"q{k}", high=100 + k)
        try:
            me.respond(query, CANARY)
            answered += 1
        except BudgetExceeded:
            refused += 1
    assert (answered, refused) == (10, 10)
    assert me.spent == me.cap == nw.PureDP(1)
    assert me.remaining is None
    with pytest.raises(BudgetExceeded, match="epsilon = 1 of epsilon = 1 is spent"):
        me.respond(clip("1/1000"), CANARY)


def test_gaussian_answers_add_by_their_squares() -> None:
    me = nw.Respondent(cap=nw.GaussianDP(2))
    for k in range(4):
        me.respond(nw.Query.clip(0, 1, guarantee=nw.GaussianDP(1), id=str(k)), 0.5)
    assert me.spent == nw.GaussianDP(2)
    with pytest.raises(BudgetExceeded):
        me.respond(nw.Query.clip(0, 1, guarantee=nw.GaussianDP("0.01"), id="more"), 0.5)


def test_the_same_query_gets_the_same_answer_and_one_charge(place: Path | None) -> None:
    me = nw.Respondent(cap=nw.PureDP(1), path=place)
    first = me.respond(clip(1, "a"), 5.0)
    again = [me.respond(nw.Query.from_dict(json.loads(json.dumps(clip(1, "a").to_dict()))), x) for x in (5.0, 200.0)]
    assert [answer.value for answer in again] == [first.value] * 2
    if place is not None:
        assert nw.Respondent(cap=nw.PureDP(1), path=place).respond(clip(1, "a"), 99.0) == first
    assert me.spent == nw.PureDP(1)


def test_a_query_without_id_is_known_by_its_content(place: Path | None) -> None:
    me = nw.Respondent(cap=nw.PureDP(3), path=place)
    assert me.remaining == nw.PureDP(3)
    first = me.respond(clip(1), 5.0)
    assert me.respond(clip(1), 5.0) == first
    assert me.spent == nw.PureDP(1)
    assert me.remaining == nw.PureDP(2)
    me.respond(clip(1, high=251), 5.0)
    me.respond(nw.Query.cells([100], guarantee=nw.PureDP(1)), 5.0)
    assert me.spent == nw.PureDP(3)


def test_an_id_with_other_content_is_refused_and_costs_nothing(place: Path | None) -> None:
    me = nw.Respondent(cap=nw.PureDP(9), path=place)
    me.respond(clip(1, "a"), 5.0)
    for other in (
        clip(2, "a"),
        clip("1/2", "a"),
        clip(1, "a", high=251),
        nw.Query.cells([100], guarantee=nw.PureDP(1), id="a"),
    ):
        with pytest.raises(InvalidArgument, match="an id is answered once"):
            me.respond(other, 5.0)
    assert me.spent == nw.PureDP(1)


@pytest.mark.parametrize("x", [float("nan"), None, True, "5", [CANARY]])
def test_a_value_that_cannot_be_answered_costs_nothing(x: Any, place: Path | None) -> None:
    me = nw.Respondent(cap=nw.PureDP(1), path=place)
    with pytest.raises(InvalidArgument, match="Nothing was answered"):
        me.respond(clip(1, "a"), x)
    with pytest.raises(InvalidArgument, match="must be a Query"):
        me.respond(clip(1, "a").to_dict(), 5.0)  # type: ignore[arg-type]
    assert me.spent is None


# ---- what is booked stays booked ----


def test_a_price_is_on_disk_before_its_noise_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "account"
    me = nw.Respondent(cap=nw.PureDP(3), path=path)
    seen: list[Any] = []

    def looks(query: nw.Query, value: float) -> nw.Answer:
        ask = "import sqlite3, sys; account = sqlite3.connect(sys.argv[1], timeout=0); "
        script = [sys.executable, "-c", ask + "print(account.execute('SELECT bookings FROM queries').fetchone())"]
        subprocess.run(["cp", path, tmp_path / "copy"], check=True)  # as a crash would leave it
        seen.append(subprocess.run([*script, tmp_path / "copy"], capture_output=True, text=True).stdout)
        seen.append(subprocess.run([*script, path], capture_output=True, text=True).stderr)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "drawn_answer", looks)
    with pytest.raises(KeyboardInterrupt):
        me.respond(clip(1, "a"), 5.0)
    assert seen[0] == "(1,)\n"
    assert "database is locked" in seen[1], "nobody else comes between booking and storing"
    monkeypatch.undo()
    # The first draw may have happened, so the retry pays again; and it is the one answer there is.
    answer = me.respond(clip(1, "a"), 5.0)
    assert me.spent == nw.PureDP(2)
    assert me.respond(clip(1, "a"), 5.0) == answer
    assert me.spent == nw.PureDP(2)


def test_a_lost_answer_is_not_drawn_again_beyond_the_cap(place: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    me = nw.Respondent(cap=nw.PureDP("1.5"), path=place)
    with monkeypatch.context() as patched:
        patched.setattr(module, "drawn_answer", lambda *_: (_ for _ in ()).throw(OSError("no entropy")))
        with pytest.raises(OSError, match="no entropy"):
            me.respond(clip(1, "a"), 5.0)
    with pytest.raises(BudgetExceeded, match="booked and never stored; it counts"):
        me.respond(clip(1, "a"), 5.0)
    assert me.spent == nw.PureDP(1)


KILLED = """
import sys, noisewise as nw
from noisewise.holder import respondent as module
me = nw.Respondent(cap=nw.PureDP(10**6), path=sys.argv[1])
kept = module.drawn_answer
def draws(query, value):
    answer = kept(query, value)
    sys.stderr.write("d"); sys.stderr.flush()
    return answer
module.drawn_answer = draws
print("ready", flush=True)
k = 0
while True:
    answer = me.respond(nw.Query.clip(0, 1, guarantee=nw.PureDP(1), id=str(k)), 0.5)
    print(k, answer.value, flush=True)
    k += 1
"""


def test_whoever_is_killed_has_booked_every_draw_and_shown_only_what_is_stored(tmp_path: Path) -> None:
    path, log = tmp_path / "account", tmp_path / "draws"
    shown: dict[int, int] = {}
    for _ in range(3):
        script = [sys.executable, "-c", KILLED, str(path)]
        with log.open("ab") as draws, subprocess.Popen(script, stdout=subprocess.PIPE, stderr=draws) as run:
            assert run.stdout is not None
            assert run.stdout.readline() == b"ready\n"
            time.sleep(random.uniform(0.05, 0.3))
            run.send_signal(signal.SIGKILL)
            whole = [line for line in run.stdout.read().decode().splitlines(keepends=True) if line.endswith("\n")]
            lines = [line.split() for line in whole]
        for k, value in lines:
            assert shown.setdefault(int(k), int(value)) == int(value), "a retry is the same answer"
    me = nw.Respondent(cap=nw.PureDP(10**6), path=path)
    spent = me.spent
    assert spent is not None
    assert spent.parts[0] >= log.stat().st_size, "every draw was booked"
    for k, value in shown.items():
        assert me.respond(nw.Query.clip(0, 1, guarantee=nw.PureDP(1), id=str(k)), 0.5).value == value
    assert me.spent == spent


def spend(path: str, who: int, queue: Any) -> None:
    me = nw.Respondent(cap=nw.PureDP(20), path=path)
    won, common = 0, {}
    for k in range(10):
        with_id = {"own": f"{who}-{k}", "common": f"common-{k}"}
        for kind, id in with_id.items():
            try:
                answer = me.respond(nw.Query.clip(0, 1, guarantee=nw.PureDP(1), id=id), 0.5)
            except BudgetExceeded:
                continue
            if kind == "own":
                won += 1
            else:
                common[id] = answer.value
    queue.put((won, common))


def test_processes_on_one_account_never_spend_more_than_the_cap_and_agree_on_every_answer(tmp_path: Path) -> None:
    path = str(tmp_path / "account")
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [context.Process(target=spend, args=(path, who, queue)) for who in range(4)]
    for worker in workers:
        worker.start()
    found = [queue.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    agreed: dict[str, int] = {}
    for _, common in found:
        for id, value in common.items():
            assert agreed.setdefault(id, value) == value
    assert sum(won for won, _ in found) + len(agreed) == 20
    assert nw.Respondent(cap=nw.PureDP(20), path=path).spent == nw.PureDP(20)


# ---- the file ----


def test_the_file_is_the_owners_alone_and_never_holds_the_value(tmp_path: Path) -> None:
    path = tmp_path / "account"
    before = os.umask(0)
    try:
        me = nw.Respondent(cap=nw.PureDP(5), path=path)
        me.respond(nw.Query.clip(0, 250, guarantee=nw.PureDP(1), id="income-of-ann"), CANARY)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["account"], "no journal is left"
    data = path.read_bytes()
    steps = round(Fraction(CANARY) / Fraction(nw.Query.clip(0, 250, guarantee=nw.PureDP(1)).plan().lattice.step[0]))
    for secret in (b"123.4", str(steps).encode(), b"income-of-ann"):
        assert secret not in data
    assert "123.4" not in repr(me)


def test_an_account_keeps_its_cap_and_is_told_from_other_files(tmp_path: Path) -> None:
    path = tmp_path / "account"
    nw.Respondent(cap=nw.PureDP(1), path=path).respond(clip(1, "a"), 5.0)
    for cap in (nw.PureDP(2), nw.PureDP("1/2"), nw.GaussianDP(1)):
        with pytest.raises(LedgerError, match="its cap is epsilon = 1, not"):
            nw.Respondent(cap=cap, path=path)
    (tmp_path / "text").write_text("not a database, and long enough to be looked at by SQLite" * 20)
    nw.Ledger.open(tmp_path / "ledger", limit=nw.PureDP(1)).close()
    os.mkfifo(tmp_path / "pipe")
    for name in ("text", "ledger", "pipe", "."):
        with pytest.raises(LedgerError):
            nw.Respondent(cap=nw.PureDP(1), path=tmp_path / name)
    with pytest.raises(LedgerError, match="cannot be made"):
        nw.Respondent(cap=nw.PureDP(1), path=tmp_path / "nowhere" / "account")
    for bad in (3, "", b"x", True):
        with pytest.raises(NoisewiseError):
            nw.Respondent(cap=nw.PureDP(1), path=bad)  # type: ignore[arg-type]


def test_an_account_that_is_taken_away_or_edited_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "account"
    me = nw.Respondent(cap=nw.PureDP(1), path=path)
    me.respond(clip(1, "a"), 5.0)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE queries SET price = 'free'")
    with pytest.raises(LedgerError, match="damaged"):
        me.respond(clip(1, "b"), 5.0)
    path.unlink()
    with pytest.raises(LedgerError, match="cannot be opened"):
        me.respond(clip(1, "b"), 5.0)


def test_an_account_in_memory_is_not_copied() -> None:
    me = nw.Respondent(cap=nw.PureDP(1))
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(Unsupported, match="not copied"):
            act(me)
    if (child := os.fork()) == 0:
        code = 1
        try:
            me.respond(clip(1, "a"), 5.0)
        except LedgerError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert me.spent is None


# ---- one file, one name ----


def test_an_account_under_a_second_name_is_refused_under_both(tmp_path: Path) -> None:
    """SQLite would look for the journal of a crash under one name only, and a price would be undone later."""
    one, two = tmp_path / "one.account", tmp_path / "two.account"
    me = nw.Respondent(cap=nw.PureDP(2), path=one)
    me.respond(clip(1, "a"), CANARY)
    os.link(one, two)
    for act in (
        lambda: me.respond(clip(1, "b"), CANARY),
        lambda: me.spent,
        lambda: nw.Respondent(cap=nw.PureDP(2), path=one),
        lambda: nw.Respondent(cap=nw.PureDP(2), path=two),
    ):
        with pytest.raises(LedgerError, match=r"hard links.*symbolic link\. Nothing was answered\.") as caught:
            act()
        assert "123.4" not in str(caught.value)
    two.unlink()
    two.symlink_to(one)
    nw.Respondent(cap=nw.PureDP(2), path=two).respond(clip(1, "b"), CANARY)
    assert me.spent == nw.PureDP(2)


def test_a_name_left_by_a_creator_that_was_killed_does_not_close_the_account(tmp_path: Path) -> None:
    path = tmp_path / "answers.account"
    nw.Respondent(cap=nw.PureDP(1), path=path)
    os.link(path, tmp_path / ".account-abc123.new")
    os.link(path, tmp_path / ".account-def456.new")
    (tmp_path / ".account-other.new").write_bytes(b"an account that is being made beside it")
    nw.Respondent(cap=nw.PureDP(1), path=path).respond(clip(1), CANARY)
    assert sorted(file.name for file in tmp_path.iterdir()) == [".account-other.new", "answers.account"]
