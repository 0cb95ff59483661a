import pytest
from graphical_models import CLIQUES, LEVELS

import noisewise as nw


@pytest.fixture
def model():
    """A chain of four columns."""
    return nw.GraphicalModel(CLIQUES, LEVELS)
