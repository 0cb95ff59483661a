"""A process that makes releases from one file and one ledger, started by `test_release_processes.py`.

    python release_worker.py ACT FOLDER NAME COUNT

It reads the records, prints `ready`, waits for a line on its standard input, and acts. Each line it prints is something
shown to the world, so it is written at once and in one piece.
"""

from __future__ import annotations

import json
import os
import sys
from fractions import Fraction
from itertools import count as numbers
from pathlib import Path

import noisewise as nw
from noisewise.errors import BudgetExceeded, LedgerError

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


def main() -> None:
    act, folder, name, count = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    table = nw.Table.read(folder / "people.csv", SCHEMA)
    show("ready")
    sys.stdin.readline()
    if act == "spend":
        for number in range(count):
            release(folder, plan_of(name, number), table)
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
