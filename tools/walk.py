"""The walk: which modules a few everyday calls enter, in order, and how often they go from one room to another.

    python tools/walk.py                 the table of all walks
    python tools/walk.py infer choose    these walks, with the modules in the order in which they are first entered

A room is a package or module right under `noisewise`. A call that enters a function of another room than its caller's
is a room change; calls through other libraries count by the nearest caller of ours. Going back is not counted, nor is a
comparison or a hash (a dictionary's business), nor what a module runs when it is imported: everything is run once
before it is watched. The script needs nothing but the package it finds, so that it can be pointed at another version of
it with PYTHONPATH.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import stats

import noisewise as nw

PACKAGE = Path(nw.__file__).parent
SCHEMA = nw.Schema({"income": nw.Bounded(0, 250)}, n=4000, neighbours="change-one")
X = nw.column("income")
NORMAL = nw.Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50))
CAP = {"cap": nw.PureDP(2)} if "cap" in inspect.signature(nw.respond).parameters else {}  # 0.1 had none
UNSEEN = {"<module>", "__hash__", "__eq__"}
Walk = tuple[list[str], int]


class Watch:
    """Counts what the interpreter says about calls."""

    def __init__(self) -> None:
        self.modules: dict[str, None] = {}
        self.changes = 0
        self._stack: list[str] = []

    def seen(self, frame, event, _argument) -> None:  # type: ignore[no-untyped-def]
        if event == "call":
            file = Path(frame.f_code.co_filename)
            here = self._stack[-1] if self._stack else ""
            if PACKAGE in file.parents and frame.f_code.co_name not in UNSEEN:
                place = file.relative_to(PACKAGE)
                self.modules[".".join(place.with_suffix("").parts)] = None
                room = place.parts[0].removesuffix(".py")
                self.changes += bool(here) and room != here
                here = room
            self._stack.append(here)
        elif event == "return" and self._stack:
            self._stack.pop()


def watched(act: Callable[[], object]) -> Walk:
    """Run once unwatched, so that everything is imported and compiled, then once watched."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an old name may be deprecated in a newer version
        act()
        watch = Watch()
        sys.setprofile(watch.seen)
        try:
            act()
        finally:
            sys.setprofile(None)
    return list(watch.modules), watch.changes


# ---- the walks ----


def release_and_infer() -> None:
    """Table.read -> plan -> make_release -> Release.load -> infer -> summary."""
    records = np.linspace(0, 250, 4000)
    with tempfile.TemporaryDirectory() as folder:
        table = nw.Table.read({"income": records}, SCHEMA)
        plan = nw.plan(nw.Mean(X), SCHEMA, guarantee=nw.PureDP(1))
        ledger = nw.Ledger.open(Path(folder, "a.ledger"), limit=nw.PureDP(2))
        nw.make_release(table, plan, ledger=ledger).save(Path(folder, "a.json"))
        posterior = nw.infer(nw.Release.load(Path(folder, "a.json")), NORMAL, seed=1)
        print(posterior.summary())


def choose() -> None:
    """The three plans of the README."""
    statistics = (nw.Mean(X), nw.Mean(X, X**2), nw.Mean(X.clip(0, 120), X.clip(0, 120) ** 2))
    print(nw.choose([nw.plan(one, SCHEMA, guarantee=nw.PureDP(1)) for one in statistics], NORMAL))


def regression() -> None:
    """Moments of two columns, and the coefficients from them."""
    schema = nw.Schema({"x": nw.Bounded(-3, 3), "y": nw.Bounded(-10, 10)}, n=1000, neighbours="change-one")
    model = nw.LinearRegression(["x"], "y")
    plan = nw.plan(nw.Moments(["x"], "y"), schema, guarantee=nw.ZeroConcentratedDP(1))
    x = np.linspace(-3, 3, 1000)
    with tempfile.TemporaryDirectory() as folder:
        table = nw.Table.read({"x": x, "y": 1 + 2 * x + np.sin(37 * x)}, schema)
        ledger = nw.Ledger.open(Path(folder, "b.ledger"), limit=nw.ZeroConcentratedDP(1))
        release = nw.make_release(table, plan, ledger=ledger)
    print(nw.infer(release, model, seed=1).summary())


def survey() -> None:
    """Twenty questions, answered and learnt from."""
    asked = nw.Survey(NORMAL, guarantee=nw.PureDP(2), n_particles=200, seed=1)
    for x in np.linspace(20, 90, 20):
        query = asked.query()
        asked.answer(nw.respond(query, float(x), **CAP))
    print(asked.posterior().summary())


WALKS: dict[str, Callable[[], None]] = {
    "infer": release_and_infer,
    "choose": choose,
    "regression": regression,
    "survey": survey,
}


def main(names: list[str]) -> None:
    print(f"{'walk':<12} {'modules':>8} {'rooms':>6} {'room changes':>13}")
    for name in names or WALKS:
        modules, changes = watched(WALKS[name])
        rooms = list(dict.fromkeys(module.split(".")[0] for module in modules))
        print(f"{name:<12} {len(modules):>8} {len(rooms):>6} {changes:>13}")
        if names:
            print("rooms:   " + " ".join(rooms))
            print("modules: " + " ".join(modules))


if __name__ == "__main__":
    main(sys.argv[1:])
