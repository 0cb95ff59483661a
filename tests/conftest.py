"""Chance in tests: fresh for every change of the code, the same until the next.

Tests ask NumPy for fresh entropy, so nothing rests on one seed. Under NOISEWISE_TEST_SEED (`make test` gives the last
commit that changed src) that entropy comes from this text and the test's name: a failure can be run again, a mended
test meets what it failed on, and what was green stays green. Without it every run is fresh. Privacy noise is never
touched: it does not come from NumPy.
"""

import os
import random

import numpy as np
import numpy.random.bit_generator
import pytest

SEED = os.environ.get("NOISEWISE_TEST_SEED", "")
if SEED:
    numpy.random.bit_generator.randbits = random.Random(SEED).getrandbits  # for what modules draw while collected


def pytest_report_header():
    return f"NOISEWISE_TEST_SEED: {SEED or 'fresh entropy'}"


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
