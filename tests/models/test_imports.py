"""A model's constructor loads its own room and what it stands on; everything else waits until it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

GROUND = {"errors", "exact", "expressions", "models", "populations", "printable", "schema", "statistics"}
GROUND |= {"html", "types", "lattice", "laws", "privacy"}  # a statistic settles its own noise: common ground, and light
HEAVY = {"numba", "matplotlib", "arviz", "jax", "ibis", "duckdb", "opendp"}
MADE = {
    "regression": "nw.LinearRegression('x', 'y')",
    "graphical": "nw.GraphicalModel([['a', 'b']], {'a': [1, 2], 'b': [1, 2]})",
    "populations": "nw.Normal(mean=0, sd=1)",
}


@pytest.mark.parametrize("room", MADE)
def test_a_models_constructor_loads_only_its_room(room: str) -> None:
    code = f"import sys, noisewise as nw; {MADE[room]}; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = set(shown.split())
    rooms = {name.split(".")[1] for name in loaded if name.startswith("noisewise.")}
    assert room in rooms
    assert rooms <= GROUND | {room}
    assert not loaded & HEAVY
