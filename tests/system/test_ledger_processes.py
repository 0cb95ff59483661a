"""Promises C1, C2, C3 and C6 with real processes, real files, real kills.

A kill stops a process at any instant but leaves the system's own cache intact, so these tests show atomicity, not
survival of a power cut; for that we rely on SQLite's synchronous=EXTRA.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from noisewise.errors import BudgetExceeded, LedgerError
from noisewise.holder.ledger import Ledger
from noisewise.privacy.guarantee import PureDP

WORKER = Path(__file__).with_name("spend_worker.py")
FINGERPRINT = "v1:4000:canary-fingerprint"


def start(act: str, path: Path, name: str = "w", count: int = 1, within: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start a worker and wait until it is ready to act."""
    command = [*within, sys.executable, str(WORKER), act, str(path), name, str(count)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n", process.communicate()[1].decode()
    return process


def go(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"go\n")
    process.stdin.flush()


def finish(process: subprocess.Popen[bytes]) -> list[bytes]:
    """What the worker showed; it must end well."""
    shown, complaint = process.communicate(timeout=300)
    assert process.returncode == 0, complaint.decode()
    return shown.splitlines()


def together(act: str, path: Path, *, n_processes: int = 8, count: int) -> list[bytes]:
    """Everything that several workers showed, acting at the same time."""
    processes = [start(act, path, f"w{number}", count) for number in range(n_processes)]
    for process in processes:
        go(process)
    return [line for process in processes for line in finish(process)]


def kill_while_spending(act: str, path: Path, after_seconds: float) -> list[bytes]:
    """Kill -9 a worker in the midst of its work; what it had shown by then."""
    process = start(act, path)
    go(process)
    time.sleep(after_seconds)
    process.send_signal(signal.SIGKILL)
    shown, complaint = process.communicate()
    assert process.returncode == -signal.SIGKILL, complaint.decode()
    return shown.splitlines()


def lost(shown: Sequence[bytes], path: Path) -> set[bytes]:
    """Releases that were shown and are not stored."""
    return set(shown) - set(Ledger.open(path).releases())


def epsilons(releases: Sequence[bytes]) -> Fraction:
    """The sum of the charges that the stored releases themselves declare."""
    return sum((Fraction(json.loads(release)["epsilon"]) for release in releases), Fraction(0))


def spent(ledger: Ledger) -> Fraction:
    total = ledger.spent()
    return Fraction(0) if total is None else Fraction(total.to_dict()["epsilon"])


def test_eight_processes_spend_exactly_the_limit_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "shared.ledger"
    shown = together("spend", path, count=100)
    releases = [line for line in shown if line != b"refused"]
    ledger = Ledger.open(path)
    assert len(shown) == 800
    assert len(releases) == len(set(releases)) == 100
    assert set(releases) == set(ledger.releases())
    assert ledger.spent() == PureDP(100)
    assert ledger.remaining() is None
    ledger.check(releases)


def test_checking_in_one_transaction_and_charging_in_another_overspends(tmp_path: Path) -> None:
    path = tmp_path / "naive.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE charges (request TEXT)")
    shown = together("spend_naively", path, count=100)
    assert sum(line != b"refused" for line in shown) > 100


def test_concurrent_repeats_of_a_request_get_the_same_bytes_for_one_charge(tmp_path: Path) -> None:
    path = tmp_path / "shared.ledger"
    shown = together("repeat", path, n_processes=6, count=10)
    ledger = Ledger.open(path)
    assert len(shown) == 60
    assert set(shown) == set(ledger.releases())
    assert len(ledger.releases()) == 1
    assert ledger.spent() == PureDP(1)


def test_several_processes_creating_one_ledger_all_get_the_same_one(tmp_path: Path) -> None:
    for attempt in range(3):
        path = tmp_path / f"new-{attempt}.ledger"
        shown = together("create", path, n_processes=6, count=1)
        assert len(shown) == 6
        assert {line.decode() for line in shown} == {Ledger.open(path).dataset}
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"new-{attempt}.ledger" for attempt in range(3)]


def check_kills(path: Path, n_kills: int) -> int:
    """C3: after each kill the account is whole and nothing shown is missing. Returns how many were stored."""
    Ledger.open(path, PureDP(10**6))
    for _ in range(n_kills):
        shown = kill_while_spending("spend_for_ever", path, random.uniform(0.0, 0.4))
        with Ledger.open(path) as ledger:
            stored = ledger.releases()
            assert set(shown) <= set(stored)
            assert spent(ledger) == epsilons(stored)
            ledger.check(stored)
    return len(stored)


def test_a_kill_at_any_instant_leaves_charge_and_release_together(tmp_path: Path) -> None:
    assert check_kills(tmp_path / "killed.ledger", n_kills=5) > 0


@pytest.mark.slow
def test_many_kills_leave_charge_and_release_together(tmp_path: Path) -> None:
    assert check_kills(tmp_path / "killed.ledger", n_kills=200) > 200


def test_showing_before_storing_is_caught_by_the_same_kills(tmp_path: Path) -> None:
    path = tmp_path / "killed.ledger"
    Ledger.open(path, PureDP(10**6))
    # Each kill finds the fault with probability well above one half, so forty miss it less than once in 1e12.
    assert any(
        lost(kill_while_spending("show_before_storing", path, random.uniform(0.3, 0.5)), path) for _ in range(40)
    )


def test_a_kill_in_the_middle_of_a_release_spends_nothing(tmp_path: Path) -> None:
    path = tmp_path / "killed.ledger"
    ledger = Ledger.open(path, PureDP(2))
    process = start("hold", path)
    go(process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"holding\n"
    process.kill()
    assert process.communicate()[0] == b""
    assert ledger.spent() is None
    ledger.check()


def test_a_ledger_that_another_process_keeps_locked_is_refused_and_free(tmp_path: Path) -> None:
    path = tmp_path / "locked.ledger"
    ledger = Ledger.open(path, PureDP(2), wait_seconds=0.2)
    process = start("hold", path)
    go(process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"holding\n"
    drawn: list[object] = []
    with pytest.raises(LedgerError, match=r"another process kept it locked.*Nothing was spent\.") as caught:
        ledger.release_once(b"mine", PureDP(1), None, FINGERPRINT, lambda account: drawn.append(account) or b"{}")
    assert caught.value.__context__ is None
    assert drawn == []
    assert ledger.spent() is None, "reading goes on while another process makes a release"
    finish(process)
    assert ledger.spent() == PureDP(1)


def check_refused_by_the_disk(path: Path, shown: list[bytes], reason: str) -> None:
    """C6: the last line is the refusal, all before it is stored, nothing else is."""
    *releases, last = shown
    refused = json.loads(last)
    assert refused["error"] == "LedgerError", refused
    assert reason in refused["message"]
    assert "Nothing was spent." in refused["message"]
    ledger = Ledger.open(path)
    assert list(ledger.releases()) == releases
    assert spent(ledger) == len(releases) > 0
    ledger.check(releases)


def test_a_quota_met_in_the_midst_of_spending_refuses_clearly_and_spends_nothing(tmp_path: Path) -> None:
    path = tmp_path / "quota.ledger"
    Ledger.open(path, PureDP(100))
    process = start("spend_under_a_quota", path, count=100)
    go(process)
    check_refused_by_the_disk(path, finish(process), "the disk reported an error")


def test_a_full_disk_refuses_clearly_and_spends_nothing(tmp_path: Path) -> None:
    kept = tmp_path / "kept.ledger"
    Ledger.open(kept, PureDP(100))
    small = tmp_path / "small"
    small.mkdir()
    # The small disk exists only for the worker and goes with it, so the worker's file is copied out before that.
    script = (
        f"mount -t tmpfs -o size=96k tmpfs {small} && cp {kept} {small}/full.ledger && "
        f'"$@"; code=$?; cp {small}/full.ledger* {tmp_path}/; exit $code'
    )
    within = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    if shutil.which("unshare") is None or subprocess.run([*within, "true"], capture_output=True).returncode != 0:
        pytest.skip("this system lets no ordinary process mount a small disk; the quota test covers the same code")
    process = start("spend_until_refused", small / "full.ledger", count=100, within=within)
    go(process)
    check_refused_by_the_disk(tmp_path / "full.ledger", finish(process), "the disk is full")


def test_an_interrupt_in_the_middle_of_a_release_spends_nothing(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "interrupted.ledger", PureDP(1))

    def interrupted(account: object) -> bytes:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ledger.release_once(b"request", PureDP(1), None, FINGERPRINT, interrupted)
    assert ledger.releases() == ()
    assert ledger.release_once(b"request", PureDP(1), None, FINGERPRINT, lambda _: b"{}") == b"{}"
    with pytest.raises(BudgetExceeded):
        ledger.release_once(b"another", PureDP(1), None, FINGERPRINT, lambda _: b"{}")
