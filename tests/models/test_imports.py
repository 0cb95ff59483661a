"""A model's constructor loads its own room and what it stands on; everything else waits until it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

GROUND = {"errors", "exact", "expressions", "models", "populations", "printable", "schema", "statistics"}
MADE = {
    "regression": "nw.LinearRegression('x', 'y')",
    "graphical": "nw.GraphicalModel([['a', 'b']], {'a': [1, 2], 'b': [1, 2]})",
}


@pytest.mark.parametrize("room", MADE)
def test_a_models_constructor_loads_only_its_room(room: str) -> None:
    listed = "sorted({name.split('.')[1] for name in sys.modules if name.startswith('noisewise.')})"
    code = f"import sys, noisewise as nw; {MADE[room]}; print(*{listed})"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert set(shown.split()) <= GROUND | {room}
