"""Chance in tests: fresh for every change of the code, the same until the next.

Tests ask NumPy for fresh entropy, so nothing rests on one seed. Under NOISEWISE_TEST_SEED (`make test` gives the
last commit that changed code) that entropy comes from this text and the test's name: a failure can be run again, a
mended test meets what it failed on, and what was green stays green. Without it every run is fresh. Privacy noise is
never touched: it does not come from NumPy.

A large grid of cells (`@pytest.mark.grid(cells=8)`) is not run whole each time: so many of its cells are drawn by the
same seed, other ones for every change of the code. NOISEWISE_GRIDS=whole runs them all.
"""

import datetime
import os
import random

import numpy as np
import numpy.random.bit_generator
import pytest

SEED = os.environ.get("NOISEWISE_TEST_SEED", "")
GRIDS = os.environ.get("NOISEWISE_GRIDS", "")
if SEED:
    numpy.random.bit_generator.randbits = random.Random(SEED).getrandbits  # for what modules draw while collected


def pytest_report_header():
    return f"NOISEWISE_TEST_SEED: {SEED or 'fresh entropy'}; NOISEWISE_GRIDS: {GRIDS or 'some cells of each'}"


def pytest_collection_modifyitems(config, items):
    """Keep so many cells of each grid as its mark says."""
    if GRIDS == "whole":
        return
    grids = {}
    for item in items:
        if item.get_closest_marker("grid"):
            grids.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out = set()
    for name, cells in grids.items():
        wanted = cells[0].get_closest_marker("grid").kwargs["cells"]
        # Workers that run side by side must collect the same cells, so without a seed the day decides.
        drawn = random.Random(f"{SEED or datetime.date.today()} {name}").sample(cells, min(wanted, len(cells)))
        left_out |= {item for item in cells if item not in drawn}
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True)
def repeatable_entropy(request, monkeypatch):
    if SEED:
        own = random.Random(f"{SEED} {request.node.nodeid}")
        monkeypatch.setattr(numpy.random.bit_generator, "randbits", own.getrandbits)


@pytest.fixture
def rng():
    """A generator with that entropy; its seed is printed with a failure."""
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    return np.random.default_rng(seed)
