"""Ledgers of version 0.1, kept in tests/golden, and the records they are about.

The files `ledger-1-*.ledger` were made once, by this module run as a script with the code of version 0.1
(`python tests/support/golden_ledgers.py FOLDER`), in which key parts were stretches of the first 32 bits of the hash,
compared as text, and `replace_records` forgot the neighbour relation. Code of today makes other files, or refuses;
so the files are never made again. Salt, data-set ids and noise are those of that day; the records are made here,
by plain arithmetic, so that they are the same on every machine.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import noisewise as nw

FOLDER = Path(__file__).resolve().parents[1] / "golden"
N = 60
SLIVERS = [(1 - Fraction(k + 1, 2**34), 1 - Fraction(k, 2**34)) for k in range(3)]

# Each ledger by name: its limit, and what happened to it: (relation, epsilon, part), or None for replace_records().
Act = tuple[str, str, tuple[Any, Any] | None] | None
HISTORIES: dict[str, tuple[nw.PureDP, list[Act]]] = {
    "change-one": (nw.PureDP(2), [("change-one", "1/2", None), ("change-one", "1/4", None)]),
    "add-remove": (nw.PureDP(2), [("add-remove", "1/2", None), None, ("add-remove", "1/4", None)]),
    "position-parts": (
        nw.PureDP(2),
        [("change-one", "1", (0, "1/3")), ("change-one", "3/2", ("1/3", "1/2")), ("change-one", "1/4", None)],
    ),
    "key-parts": (
        nw.PureDP(2),
        [("add-remove", "1", (0, "1/3")), ("add-remove", "3/2", ("1/3", "1/2")), ("add-remove", "1/4", None)],
    ),
    "nine-digit-parts": (nw.PureDP(1), [("add-remove", "1", part) for part in SLIVERS]),
    "both-relations": (nw.PureDP(4), [("change-one", "1", None), None, ("add-remove", "1", None)]),
}


def path(name: str) -> Path:
    return FOLDER / f"ledger-1-{name}.ledger"


def columns() -> dict[str, list[Any]]:
    """Sixty people: a number between 0 and 100, and who they are."""
    return {"x": [float(37 * i % 101) for i in range(N)], "id": [f"person {i}" for i in range(N)]}


def schema(neighbours: str) -> nw.Schema:
    size = {"n": N} if neighbours == "change-one" else {"n_max": 100}
    return nw.Schema({"x": nw.Bounded(0, 100)}, neighbours=neighbours, **size)


def table(neighbours: str) -> nw.Table:
    return nw.Table.read(columns(), schema(neighbours), key=None if neighbours == "change-one" else "id")


def plan(neighbours: str, epsilon: object, part: tuple[Any, Any] | None = None) -> nw.Plan:
    return nw.plan(nw.Sum("x"), schema(neighbours), guarantee=nw.PureDP(epsilon), part=part)


def make(folder: Path) -> None:
    for name, (limit, acts) in HISTORIES.items():
        with nw.Ledger.open(folder / path(name).name, limit=limit) as ledger:
            for act in acts:
                if act is None:
                    ledger.replace_records()
                else:
                    nw.make_release(table(act[0]), plan(*act), ledger=ledger)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
