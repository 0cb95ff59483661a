"""A process that makes releases from one file and one ledger, started by `test_release_processes.py`.

    python release_worker.py ACT FOLDER NAME COUNT

It reads the records, prints `ready`, waits for a line on its standard input, and acts. Each line it prints is something
shown to the world, so it is written at once and in one piece.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import count as numbers
from pathlib import Path

import noisewise as nw
from noisewise.errors import BudgetExceeded, LedgerError
from noisewise.holder import curator
from noisewise.laws import Law

SCHEMA = nw.Schema({"x": nw.Bounded(0, 1)}, n=50, neighbours="change-one")
LIMIT = nw.PureDP(10)


def show(line: str) -> None:
    os.write(1, line.encode() + b"\n")


def plan_of(name: str, number: int) -> nw.Plan:
    """Different requests of one price: the clip makes each of them its own."""
    top = Fraction(1, 2) + Fraction(int(name) * 1000 + number + 1, 10**6)
    return nw.plan(nw.Mean(nw.column("x").clip(0, top)), SCHEMA, guarantee=nw.PureDP(1))


def release(folder: Path, plan: nw.Plan, table: nw.Table) -> None:
    try:
        made = nw.make_release(table, plan, ledger=nw.Ledger.open(folder / "shared.ledger", LIMIT))
        show(json.dumps(made.to_dict()))
    except BudgetExceeded:
        show("refused")


def release_by_relation(folder: Path, name: str, count: int) -> None:
    """Processes of even number release under change-one, the others under add-remove, from one new ledger."""
    schema = SCHEMA if int(name) % 2 == 0 else nw.Schema(SCHEMA.columns, n_max=60, neighbours="add-remove")
    table = nw.Table.read(folder / "people.csv", schema)
    ledger = nw.Ledger.open(folder / "shared.ledger", LIMIT)
    for number in range(count):
        guarantee = nw.PureDP(Fraction(1, 100 + 10 * int(name) + number))
        try:
            made = nw.make_release(table, nw.plan(nw.Sum("x"), schema, guarantee=guarantee), ledger=ledger)
            show(made.schema.neighbours)
        except LedgerError:
            show("refused")


BATCH = 4


def batch_of(number: int) -> list[nw.Plan]:
    """Four requests that stand in no other batch."""
    return [plan_of(str(number), k) for k in range(BATCH)]


def release_together(folder: Path, table: nw.Table) -> None:
    """A batch, and what it shows, in one line."""
    number = int.from_bytes(os.urandom(3))
    with nw.Ledger.open(folder / "shared.ledger", nw.PureDP(10**6)) as account:
        made = nw.make_releases(table, batch_of(number), ledger=account)
    show(json.dumps([release.to_dict() for release in made]))


def release_one_by_one(folder: Path, table: nw.Table) -> None:
    """Planted fault: a batch in which each release is paid in a transaction of its own."""
    with nw.Ledger.open(folder / "shared.ledger", nw.PureDP(10**6)) as account:
        for plan in batch_of(0):
            nw.make_release(table, plan, ledger=account)


def hold_in_the_middle(release_batch: Callable[[Path, nw.Table], None], folder: Path, table: nw.Table) -> None:
    """Stop when two of four releases are drawn, charged and written, until killed."""
    drawn: list[object] = []
    sound = curator.draw.noise

    def held(law: Law) -> list[int]:
        drawn.append(law)
        if len(drawn) == 3:
            show("holding")
            sys.stdin.read()
        return sound(law)

    curator.draw.noise = held
    release_batch(folder, table)


def release_under_a_quota(folder: Path, table: nw.Table) -> None:
    """Batches until the system lets the ledger grow no more."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    nw.Ledger.open(folder / "shared.ledger", nw.PureDP(10**6))
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
    try:
        while True:
            release_together(folder, table)
    except LedgerError as error:
        show(str(error))


def main() -> None:
    act, folder, name, count = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    table = nw.Table.read(folder / "people.csv", SCHEMA)
    show("ready")
    sys.stdin.readline()
    if act == "spend":
        for number in range(count):
            release(folder, plan_of(name, number), table)
    elif act == "hold":
        hold_in_the_middle(release_together, folder, table)
    elif act == "hold apart":
        hold_in_the_middle(release_one_by_one, folder, table)
    elif act == "quota":
        release_under_a_quota(folder, table)
    elif act == "batches until killed":
        while True:
            release_together(folder, table)
    elif act == "relate":
        release_by_relation(folder, name, count)
    elif act == "repeat":
        for _ in range(count):
            release(folder, plan_of("0", 0), table)
    else:  # until killed
        for number in numbers(int.from_bytes(os.urandom(3))):
            release(folder, plan_of("0", number), table)


if __name__ == "__main__":
    main()
