from __future__ import annotations

import pandas as pd
import pytest
from curated_records import PUBLIC, drawn

import noisewise as nw


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return drawn()


@pytest.fixture(scope="module")
def table(data: pd.DataFrame) -> nw.Table:
    return nw.Table.read(data, PUBLIC)
