import numpy as np
import pytest


@pytest.fixture
def rng():
    """A fresh generator each time; its seed is printed with a failure."""
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    return np.random.default_rng(seed)
