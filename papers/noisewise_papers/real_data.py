"""Public data sets as the public knows them: what each column is, what it is like, where the file is to be had.

A release needs bounds, and is better with a centre and a scale near a column's mean and standard deviation. Taken from
the records these would leak; here they are round numbers from what is known of weather, calendars, counts and devices,
none of them tuned to the errors of a study. Files are read, never copied; where there is none, records are simulated.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.regression.problem import Floats


@dataclass(frozen=True, slots=True)
class Column:
    """Public facts of a column: its bounds, a typical value, and a typical distance from it."""

    name: str
    low: float
    high: float
    centre: float
    scale: float


@dataclass(frozen=True, slots=True)
class Dataset:
    """A data set as the public knows it; the last column is the response. `unit` is that of the printed errors."""

    file: str
    size: int
    unit: float
    source: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def d(self) -> int:
        return len(self.columns) - 1

    def found_in(self, folder: Path | None) -> Path | None:
        """The file in a folder of real data, if it is there."""
        path = None if folder is None else folder / self.file
        return path if path is not None and path.is_file() else None


def _columns(facts: str) -> tuple[Column, ...]:
    rows = [line.split() for line in facts.strip().splitlines()]
    return tuple(Column(name, *map(float, numbers)) for name, *numbers in rows)


UCI = "https://archive.ics.uci.edu/dataset"
DATASETS: Mapping[str, Dataset] = {
    # The weather of a mild climate, and a plant that gives 480 MW at its best and less on hot days.
    "power-plant": Dataset("power_plant.csv", 9568, 41.4, f"{UCI}/294", _columns("""
        temperature  -10    45    20   8
        vacuum        20    90    55  13
        pressure     980  1045  1013   6
        humidity       0   105    70  15
        output       400   520   455  17""")),
    # A calendar, weather scaled to [0, 1], and counts: the operator reports 3.3 million rides in two years, 190 an
    # hour, of which casual riders take a fifth. Counts have an sd like their mean. casual + registered = count, so
    # their centres add up.
    "bike-sharing": Dataset("bike_sharing.csv", 17379, 787.5, f"{UCI}/275", _columns("""
        season        1     4   2.5  1.1
        year          0     1   0.5  0.5
        month         1    12   6.5  3.5
        hour          0    23  11.5    7
        holiday       0     1  0.03 0.17
        weekday       0     6     3    2
        workingday    0     1   0.7 0.46
        weather       1     4   1.5  0.6
        temperature   0     1   0.5  0.2
        felt          0     1   0.5  0.2
        humidity      0     1   0.6  0.2
        wind          0     1   0.2 0.12
        casual        0   500    35   35
        registered    0  1000   155  155
        count         0  1500   190  190""")),
    # A missing value is coded -200. The centre is a typical reading; the scale a quarter of the way from the code to a
    # high one: 10 mg/m3 of carbon monoxide, 45 degrees, 2000 for each metal oxide sensor, ...
    "air-quality": Dataset("air_quality.csv", 9357, 193.2, f"{UCI}/360", _columns("""
        co           -200    20     2   52
        sensor_co    -200  3000  1100  550
        nmhc         -200  2000   200  300
        benzene      -200   100    10   62
        sensor_nmhc  -200  3000   950  550
        nox          -200  2000   250  425
        sensor_nox   -200  3500   850  550
        no2          -200   500   110  125
        sensor_no2   -200  3500  1450  550
        sensor_o3    -200  3500  1000  550
        temperature  -200    50    18   61
        humidity     -200   100    50   72
        absolute     -200     5     1   51""")),
}  # fmt: skip


@lru_cache(maxsize=4)
def read(path: Path, dataset: Dataset) -> Floats:
    """The records (n, d + 1), without rows and columns that hold no number (blank ones, a header)."""
    try:
        with warnings.catch_warnings(action="ignore"):  # an empty file is refused below, by name
            table = np.atleast_2d(np.genfromtxt(path, delimiter=","))
    except ValueError:  # rows of different lengths
        table = np.zeros((0, 0))
    is_number = ~np.isnan(table)
    records = table[is_number.any(axis=1)][:, is_number.any(axis=0)]
    if records.shape[1:] != (dataset.d + 1,) or len(records) < 2 or np.isnan(records).any():
        raise InvalidArgument(
            f"{path.name}: expected rows of {dataset.d + 1} numbers: {', '.join(dataset.names)}. "
            f"The data are at {dataset.source}.",
            argument="data",
        )
    return np.asarray(records)


@lru_cache(maxsize=4)
def stand_in(dataset: Dataset) -> Floats:
    """Normal records of the size, centres and scales of a data set: correlated covariates, a response linear in them.

    They are always the same: a stand-in for a file, not for its noise.
    """
    rng = np.random.default_rng(dataset.size)
    d = dataset.d
    common, own = rng.standard_normal((dataset.size, 1)), rng.standard_normal((dataset.size, d + 1))
    x = 0.6 * common + 0.8 * own[:, :-1]
    y = x.mean(axis=1) + 0.3 * own[:, -1]
    centre, scale, low, high = (
        np.array([getattr(column, fact) for column in dataset.columns]) for fact in ("centre", "scale", "low", "high")
    )
    return np.asarray(np.clip(centre + scale * np.column_stack([x, y]), low, high))
