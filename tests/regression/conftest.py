import pytest
from moment_releases import SEED


@pytest.fixture(autouse=True)
def seed_is_shown():
    """The seed from which a module makes its data, printed with a failure."""
    print(f"SEED {SEED}")
