import numpy as np
import pytest
from moment_releases import SEED


@pytest.fixture(autouse=True)
def seed_is_shown():
    """The seed from which a module makes its data, printed with a failure."""
    print(f"SEED {SEED}")


@pytest.fixture
def rng():
    """A fresh generator each time; its seed is printed with a failure."""
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    return np.random.default_rng(seed)
