"""The search for a sensitivity stops after a counted amount of work, with a bound that still holds."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import noisewise as nw
from noisewise.statistics import sensitivity
from noisewise.statistics.sensitivity import joint_sensitivity, rounded_above, weights_above

X, Y, G = nw.column("x"), nw.column("y"), nw.column("g")
ROWS = {
    "entangled": (abs(X * Y - 0.3) - X**3, (X - Y) ** 2, X.clip(-0.2, 0.6) * Y),
    "powers": (X**2 - X**3, X**4 - X, abs(X - 0.1) ** Fraction(1, 2)),
    "levels": (G.equals("a") * X - X**2, G.equals("b") * X**3 - X),
}


def schema(neighbours: str) -> nw.Schema:
    columns = {"x": nw.Bounded(-1, 1), "y": nw.Bounded(-1, 0.5), "g": nw.Levels(["a", "b", "c"])}
    return nw.Schema(columns, neighbours=neighbours, **({"n": 9} if neighbours == "change-one" else {"n_max": 9}))


def farthest_of_a_grid(row, where: nw.Schema, norm: int) -> float:
    """Brute force: the largest distance between any two of a grid's records (or from nothing)."""
    x, y, g = (np.array(v, dtype=float) for v in zip(*itertools.product(
        np.linspace(-1, 1, 21), np.linspace(-1, 0.5, 16), range(3)), strict=True))  # fmt: skip
    values = np.stack([np.broadcast_to(f.value({"x": x, "y": y, "g": g}, where), x.shape) for f in row], axis=1)
    values = np.unique(values, axis=0)
    moved = values[:, None] - values[None] if where.is_change_one else values
    return float(np.max(np.linalg.norm(moved, ord=norm, axis=-1)))


@pytest.mark.parametrize("work", [0, 10**4, 10**6, 10**8])
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize("name", ROWS)
def test_the_bound_holds_whenever_the_search_stops(monkeypatch, name, neighbours, norm, work):
    where = schema(neighbours)
    monkeypatch.setattr(sensitivity, "LARGEST_WORK", work)
    found = joint_sensitivity(ROWS[name], where, norm=norm, weights=[Fraction(1)] * len(ROWS[name]))
    assert float(found.value) >= farthest_of_a_grid(ROWS[name], where, norm) * (1 - 1e-12)
    assert found.attained <= float(found.value) * (1 + 1e-9)


def test_more_work_gives_a_tighter_bound(monkeypatch):
    bounds = []
    for work in (0, 10**7, 10**8):
        monkeypatch.setattr(sensitivity, "LARGEST_WORK", work)
        found = joint_sensitivity(ROWS["entangled"], schema("change-one"), norm=2, weights=[Fraction(1)] * 3)
        bounds.append(found.value)
    assert bounds[0] > bounds[1] > bounds[2]


def test_the_work_is_counted_so_the_bound_does_not_depend_on_the_pieces(monkeypatch):
    where, ones = schema("change-one"), [Fraction(1)] * 3
    monkeypatch.setattr(sensitivity, "LARGEST_WORK", 10**7)
    monkeypatch.setattr(sensitivity, "CALL", 0)
    whole = joint_sensitivity(ROWS["entangled"], where, norm=1, weights=ones)
    monkeypatch.setattr(sensitivity, "LARGEST_PIECE", 5000)
    assert joint_sensitivity(ROWS["entangled"], where, norm=1, weights=ones) == whole


def test_long_weights_are_rounded_up_and_short_ones_kept(rng):
    short = [Fraction(int(k), 7) for k in rng.integers(1, 100, 50)]
    assert weights_above(short) is short
    long = [Fraction(10**700 + int(k), 10**690 + 3 * int(k) + 1) for k in rng.integers(1, 10**9, 50)]
    for exact, rounded in zip(long, weights_above(long), strict=True):
        assert exact <= rounded <= exact * (1 + Fraction(1, 2**120))
        assert rounded.denominator.bit_length() + rounded.numerator.bit_length() < 300
    assert rounded_above(Fraction(1, 3)) > Fraction(1, 3)
