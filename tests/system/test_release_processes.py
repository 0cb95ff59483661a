"""make_release from several processes on one ledger: the limit holds, repeats are one release, kills lose nothing."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import noisewise as nw

WORKER = Path(__file__).with_name("release_worker.py")
BATCH = 4  # releases, as the worker makes them


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    values = np.random.default_rng().uniform(size=50)
    (tmp_path / "people.csv").write_text("x\n" + "\n".join(map(repr, values.tolist())) + "\n")
    return tmp_path


def start(act: str, folder: Path, name: int = 0, count: int = 0) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(WORKER), act, str(folder), str(name), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def go(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == b"ready\n", process.communicate()[1].decode()
    process.stdin.write(b"go\n")
    process.stdin.flush()


def together(act: str, folder: Path, *, n_processes: int, count: int) -> list[str]:
    processes = [start(act, folder, number, count) for number in range(n_processes)]
    for process in processes:
        go(process)
    shown: list[str] = []
    for process in processes:
        output, complaint = process.communicate(timeout=300)
        assert process.returncode == 0, complaint.decode()
        shown += output.decode().splitlines()
    return shown


def test_processes_that_disagree_on_the_relation_never_both_sell(folder: Path) -> None:
    shown = together("relate", folder, n_processes=4, count=3)
    with nw.Ledger.open(folder / "shared.ledger") as ledger:
        assert ledger.neighbours is not None
        assert sorted(shown) == sorted(["refused"] * 6 + [ledger.neighbours] * 6)
        assert len(ledger.releases()) == 6
        ledger.check()


def test_three_processes_release_exactly_the_limit(folder: Path) -> None:
    shown = together("spend", folder, n_processes=3, count=5)
    releases = [nw.Release.from_dict(json.loads(line)) for line in shown if line != "refused"]
    assert len(shown) == 15
    assert len(releases) == len({release.value for release in releases}) == 10
    with nw.Ledger.open(folder / "shared.ledger") as ledger:
        assert ledger.spent() == nw.PureDP(10)
        assert ledger.remaining() is None
        assert {release.to_bytes() for release in releases} == set(ledger.releases())
        ledger.check([release.to_bytes() for release in releases])


def test_processes_that_ask_the_same_get_the_same_release_for_one_charge(folder: Path) -> None:
    shown = together("repeat", folder, n_processes=3, count=3)
    assert len(shown) == 9
    assert len(set(shown)) == 1
    with nw.Ledger.open(folder / "shared.ledger") as ledger:
        assert ledger.spent() == nw.PureDP(1)


def kill_while_releasing(folder: Path) -> None:
    """Kill -9 a process that makes releases, at a random instant; what is stored is what was paid."""
    process = start("until killed", folder)
    go(process)
    time.sleep(random.uniform(0, 0.6))
    process.send_signal(signal.SIGKILL)
    output, complaint = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, complaint.decode()
    if not (folder / "shared.ledger").exists():
        assert output == b""
        return
    whole = [line for line in output.decode().split("\n")[:-1] if line != "refused"]
    shown = {nw.Release.from_dict(json.loads(line)).to_bytes() for line in whole}
    with nw.Ledger.open(folder / "shared.ledger") as ledger:
        stored = ledger.releases()
        ledger.check(list(stored))
        assert shown <= set(stored)
        paid = sum(nw.Release.from_bytes(release).guarantee.epsilon for release in stored)
        assert (nw.PureDP(paid) if paid else None) == ledger.spent()


def test_a_kill_in_the_midst_of_a_release_leaves_charge_and_release_together(folder: Path) -> None:
    for _ in range(3):
        kill_while_releasing(folder)


@pytest.mark.slow
def test_many_kills_leave_charge_and_release_together(folder: Path) -> None:
    for attempt in range(25):
        if attempt % 5 == 0:  # begin anew; a journal without its ledger would rightly be refused
            for name in ("shared.ledger", "shared.ledger-journal"):
                (folder / name).unlink(missing_ok=True)
        kill_while_releasing(folder)


# Batches: the four releases of one batch are stored together or not at all


def check_whole_batches(folder: Path, shown: list[str]) -> int:
    """Every stored release stands in a whole batch, and every batch shown is stored; how many batches there are."""
    with nw.Ledger.open(folder / "shared.ledger") as ledger:
        stored = ledger.releases()
        ledger.check(list(stored))
        assert len(stored) % BATCH == 0
        paid = sum(nw.Release.from_bytes(release).guarantee.epsilon for release in stored)
        assert (nw.PureDP(paid) if paid else None) == ledger.spent()
    batches = {stored[k : k + BATCH] for k in range(0, len(stored), BATCH)}
    for line in shown:
        assert tuple(nw.Release.from_dict(plain).to_bytes() for plain in json.loads(line)) in batches
    return len(batches)


def kill_during_batches(folder: Path, seconds: float) -> int:
    process = start("batches until killed", folder)
    go(process)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    output, complaint = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, complaint.decode()
    if not (folder / "shared.ledger").exists():
        assert output == b""
        return 0
    return check_whole_batches(folder, output.decode().split("\n")[:-1])


def kill_in_the_middle(act: str, folder: Path) -> None:
    process = start(act, folder)
    go(process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"holding\n"
    process.kill()
    assert process.communicate()[0] == b""


def test_a_kill_in_the_middle_of_a_batch_leaves_none_of_it(folder: Path) -> None:
    kill_in_the_middle("hold", folder)
    assert check_whole_batches(folder, []) == 0


def test_paying_one_by_one_is_caught_by_the_same_kill(folder: Path) -> None:
    kill_in_the_middle("hold apart", folder)
    with pytest.raises(AssertionError):
        check_whole_batches(folder, [])


def test_a_kill_at_any_instant_leaves_whole_batches(folder: Path) -> None:
    for _ in range(3):
        kill_during_batches(folder, random.uniform(0.3, 1.0))


@pytest.mark.slow
def test_many_kills_leave_whole_batches(folder: Path) -> None:
    assert max(kill_during_batches(folder, random.uniform(0.2, 1.5)) for _ in range(25)) > 0


def test_a_quota_met_in_the_midst_of_a_batch_leaves_none_of_it(folder: Path) -> None:
    process = start("quota", folder)
    go(process)
    output, complaint = process.communicate(timeout=300)
    assert process.returncode == 0, complaint.decode()
    *shown, refusal = output.decode().splitlines()
    assert "Nothing was spent." in refusal
    assert check_whole_batches(folder, shown) == len(shown) > 0
