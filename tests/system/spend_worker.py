"""A process that spends from a ledger, started by `test_ledger_processes.py`.

    python spend_worker.py ACT LEDGER NAME COUNT

It prints `ready`, waits for a line on its standard input, and acts. Each line it prints is something shown to the
world, so it is written at once and in one piece.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sqlite3
import sys
import time
from collections.abc import Callable

from noisewise.errors import BudgetExceeded, NoisewiseError
from noisewise.holder.ledger import Account, Ledger
from noisewise.privacy.guarantee import PureDP

FINGERPRINT = "v1:4000:canary-fingerprint"
LIMIT = PureDP(100)


def show(line: bytes | str) -> None:
    os.write(1, (line if isinstance(line, bytes) else line.encode()) + b"\n")


def maker(name: str, pause_seconds: float = 0.0) -> Callable[[Account], bytes]:
    """A release with random content, so that two of them are never equal by chance."""

    def produce(account: Account) -> bytes:
        time.sleep(pause_seconds)
        content = {"dataset": account.dataset, "ledger_head": account.head, "name": name, "value": os.urandom(8).hex()}
        return json.dumps(content | {"epsilon": "1"}).encode()

    return produce


def spend(path: str, name: str, count: int) -> None:
    """`count` different requests of epsilon 1."""
    ledger = Ledger.open(path, LIMIT)
    for number in range(count):
        request = f"{name}-{number}"
        try:
            show(ledger.release_once(request.encode(), PureDP(1), None, FINGERPRINT, maker(request, 0.001)))
        except BudgetExceeded:
            show("refused")


def spend_naively(path: str, name: str, count: int) -> None:
    """Planted fault: the budget is checked in one transaction and charged in another."""
    for number in range(count):
        connection = sqlite3.connect(path, timeout=60, isolation_level=None)
        (spent,) = connection.execute("SELECT count(*) FROM charges").fetchone()
        if spent < 100:
            time.sleep(0.001)
            connection.execute("INSERT INTO charges VALUES (?)", (f"{name}-{number}",))
            show(f"{name}-{number}")
        else:
            show("refused")
        connection.close()


def repeat(path: str, name: str, count: int) -> None:
    """One request, `count` times."""
    ledger = Ledger.open(path, LIMIT)
    for _ in range(count):
        show(ledger.release_once(b"the same request", PureDP(1), None, FINGERPRINT, maker(name, 0.001)))


def spend_for_ever(path: str, name: str, count: int) -> None:
    """Spend until killed."""
    ledger = Ledger.open(path)
    while True:
        request = os.urandom(8).hex()
        show(ledger.release_once(request.encode(), PureDP(1), None, FINGERPRINT, maker(request)))


def show_before_storing(path: str, name: str, count: int) -> None:
    """Planted fault: the release is shown while its charge is not yet stored."""
    ledger = Ledger.open(path)

    def produce(account: Account) -> bytes:
        release = maker(name)(account)
        show(release)
        time.sleep(0.02)
        return release

    while True:
        ledger.release_once(os.urandom(8), PureDP(1), None, FINGERPRINT, produce)


def create(path: str, name: str, count: int) -> None:
    """Open a ledger that may not exist yet."""
    show(Ledger.open(path, LIMIT).dataset)


def hold(path: str, name: str, count: int) -> None:
    """Keep the ledger locked in the middle of a release until the parent closes our input."""

    def produce(account: Account) -> bytes:
        show("holding")
        sys.stdin.read()
        return maker(name)(account)

    Ledger.open(path).release_once(name.encode(), PureDP(1), None, FINGERPRINT, produce)


def spend_until_refused(path: str, name: str, count: int) -> None:
    """Spend large releases until the disk refuses; show what came back, then the refusal."""
    ledger = Ledger.open(path)
    try:
        for number in range(count):
            release = ledger.release_once(
                f"{name}-{number}".encode(), PureDP(1), None, FINGERPRINT, lambda account: maker("x" * 3000)(account)
            )
            show(release)
    except NoisewiseError as error:
        show(json.dumps({"error": type(error).__name__, "message": str(error)}))


def spend_under_a_quota(path: str, name: str, count: int) -> None:
    """As above, where the system lets no file grow past 64 kB."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
    spend_until_refused(path, name, count)


ACTS = {
    act.__name__: act
    for act in (
        spend,
        spend_naively,
        repeat,
        spend_for_ever,
        show_before_storing,
        create,
        hold,
        spend_until_refused,
        spend_under_a_quota,
    )
}

if __name__ == "__main__":
    act, path, name, count = sys.argv[1:]
    show("ready")
    sys.stdin.readline()
    ACTS[act](path, name, int(count))
