"""regression-real: releases with the noise they need and public constants alone, test rows that nobody uses."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisewise.errors import InvalidArgument
from noisewise.laws import RoundedGaussian
from noisewise.privacy.calibration import gaussian_delta
from noisewise.privacy.guarantee import ApproxDP
from noisewise_papers import regression_real
from noisewise_papers.real_data import DATASETS, Column, Dataset, read, stand_in
from noisewise_papers.regression_real import (
    METHOD_NAMES,
    OURS,
    PRINTED,
    STUDY,
    Trial,
    adassp_release,
    box_release,
    coefficients,
    mean_with_interval,
    plain_release,
    prediction_errors,
    printed,
    whole_release,
)

SMALL = replace(DATASETS["power-plant"], size=2000)
FOLDER = os.environ.get("NOISEWISE_DATA")
BAR = 0.0129  # the power plant at J = 1 by the three methods that the print proposes; one that it compares has 0.0128
real_data = pytest.mark.skipif(not FOLDER, reason="NOISEWISE_DATA names no folder of real data")


def fresh() -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence().entropy)


def trial(**given: Any) -> Trial:
    usual = {
        "dataset": "power-plant", "path": None, "holders": 1, "epsilon": 1.0, "split": "random",
        "neighbours": "change-one", "methods": (OURS,), "steps": 50,
    }  # fmt: skip
    return Trial(**(usual | given))


def parts_of(dataset: Dataset, holders: int = 2) -> Any:
    records = stand_in(dataset)
    return records[: len(records) // holders * holders].reshape(holders, -1, dataset.d + 1)


def distance(rows: Any, *, intercept: bool, parts: str) -> float:
    """The farthest that the products of two such rows, off-diagonals times sqrt 2, are apart."""
    if intercept:
        rows = np.column_stack([np.ones(len(rows)), rows])
    products = rows[:, :, None] * rows[:, None, :]
    if parts == "xx xy":
        products[:, -1, -1] = 0.0
    return float(max(np.linalg.norm(one - products, axis=(1, 2)).max() for one in products))


@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize("name", list(DATASETS))
def test_noise_is_what_the_guarantee_needs_for_any_records_at_all(name: str, neighbours: str) -> None:
    """Rows as far apart as the ball allows: true delta <= 1/n at epsilon = 1; the printed calibration misses it."""
    dataset = replace(DATASETS[name], size=400)
    parts = parts_of(dataset)
    release, _ = whole_release(fresh(), dataset, parts, trial(dataset=name, neighbours=neighbours))
    law, d = release.law, dataset.d
    assert isinstance(law, RoundedGaussian)
    pairs = release.statistic.pairs(release.schema)  # type: ignore[union-attr]
    weights = np.array([1.0 if a == b else math.sqrt(2) for a, b in pairs])
    sigma = float(np.min(weights * np.asarray(law.scale, float)))  # of the weighted sums
    radius = math.sqrt(d) * np.vstack([np.eye(d + 1), -np.eye(d + 1)])
    if neighbours == "change-one":
        farthest = distance(radius, intercept=True, parts="xx xy yy")
        assert farthest == pytest.approx(max(math.sqrt(8 * d), math.sqrt(2 * d * d + 4 * d)), rel=1e-9)
        farthest = max(farthest, distance(_worst_pair(d), intercept=True, parts="xx xy yy"))
    else:
        farthest = 1.0 + d
    allowed = 1 / (2 * parts.shape[1])
    as_released = gaussian_delta(sigma=sigma, sensitivity=Fraction(farthest), epsilon=Fraction(1))
    assert allowed * 0.95 < as_released <= allowed * (1 + 1e-2)  # the radius is rounded to 3 digits
    assert gaussian_delta(sigma=1.49 * farthest, sensitivity=Fraction(farthest), epsilon=Fraction(1)) > 10 * allowed


def _worst_pair(d: int) -> Any:
    """Two rows of norm sqrt d with u'v = -1: (1, u) and (1, v) are then orthogonal."""
    turn = math.acos(-1 / d)
    rows = np.zeros((2, d + 1))
    rows[0, 0], rows[1, 0], rows[1, 1] = math.sqrt(d), math.sqrt(d) * math.cos(turn), math.sqrt(d) * math.sin(turn)
    return rows


def price(guarantee: Any) -> tuple[Fraction, Fraction]:
    return guarantee.epsilon, guarantee.delta


def test_every_group_of_methods_pays_the_same() -> None:
    """The guarantees of one holder's releases add up to (1, 1/n)."""
    parts = parts_of(SMALL)
    for publish in (whole_release, plain_release, adassp_release, box_release):
        releases = publish(fresh(), SMALL, parts, trial())
        own = [release.guarantee for release in releases if release.dataset == "holder-0"]
        assert all(isinstance(each, ApproxDP) for each in own)
        assert sum(price(each)[0] for each in own) == 1
        assert sum(price(each)[1] for each in own) == Fraction(1, parts.shape[0] * parts.shape[1])


def test_a_release_does_not_depend_on_what_the_records_look_like() -> None:
    """Other records, even absurd ones: the same statistic, law and lattice. Data-derived bounds would differ."""
    parts = parts_of(SMALL)
    one, other = (whole_release(fresh(), SMALL, some, trial())[0] for some in (parts, 1e6 * parts - 7e7))
    assert (one.statistic, one.law, one.schema) == (other.statistic, other.law, other.schema)


def test_with_next_to_no_noise_our_method_is_least_squares_on_the_shortened_rows() -> None:
    """Against numpy: rows centred, scaled, shortened to sqrt d, then regressed on (1, x)."""
    parts = parts_of(SMALL, holders=1)
    found = coefficients(fresh(), SMALL, parts, trial(epsilon=1e6, methods=(OURS, "naive", "fixed-s")))
    centre, scale = (np.array([getattr(column, fact) for column in SMALL.columns]) for fact in ("centre", "scale"))
    rows = (parts[0] - centre) / scale
    rows *= np.minimum(1, float(f"{math.sqrt(SMALL.d):.3f}") / np.linalg.norm(rows, axis=1))[:, None]
    theta = np.linalg.lstsq(np.column_stack([np.ones(len(rows)), rows[:, :-1]]), rows[:, -1], rcond=None)[0]
    slopes = theta[1:] * scale[-1] / scale[:-1]
    expected = np.array([centre[-1] + scale[-1] * theta[0] - slopes @ centre[:-1], *slopes])
    x = np.column_stack([np.ones(len(parts[0])), parts[0, :, :-1]])
    for beta in found.values():
        assert np.abs(x @ (beta - expected)).max() < 0.05 * SMALL.columns[-1].scale


def test_no_estimate_uses_a_test_row(tmp_path: Path) -> None:
    """Test responses moved by +-h: the errors' mean rises by exactly (h/unit)^2 if predictions stay where they were."""
    dataset = DATASETS["power-plant"]
    records = stand_in(dataset)
    count = math.ceil(0.8 * len(records))
    errors = []
    for h in (0.0, 9.0, -9.0):
        moved = records.copy()
        moved[count:, -1] += h
        path = tmp_path / f"moved{h}.csv"
        np.savetxt(path, moved, delimiter=",", fmt="%.17g")
        given = trial(path=path, split="file", holders=5, methods=(OURS, "fixed-s", "non-private"))
        errors.append(prediction_errors(np.random.default_rng(5), given))
    for method, still in errors[0].items():
        rise = (errors[1][method] + errors[2][method]) / 2 - still
        assert rise == pytest.approx((9.0 / dataset.unit) ** 2, rel=1e-6)


def test_every_method_runs_on_every_number_of_holders_and_both_relations() -> None:
    for neighbours in ("change-one", "add-remove"):
        given = {
            "dataset": "power-plant", "holders": "1,3", "repeats": 2, "steps": 20, "neighbours": neighbours,
        }  # fmt: skip
        rows = STUDY.run(given, workers=1, data=_nowhere()).rows
        assert [row["method"] for row in rows] == 2 * list(METHOD_NAMES)
        assert all(list(row) == list(STUDY.columns) for row in rows)
        assert all(row["low"] < row["prediction_mse"] < row["high"] for row in rows)
        for holders in (1, 3):  # the methods of a cell share its divisions
            error = {row["method"]: row["prediction_mse"] for row in rows if row["holders"] == holders}
            assert error["non-private"] < 1.05 * min(error.values())
        assert all(row["paper"] is None for row in rows)  # records were simulated
        assert "uci.edu/dataset/294" in STUDY.note(rows)


def _nowhere() -> Path:
    """A folder that is there and holds no data."""
    return Path(regression_real.__file__).parent


@pytest.mark.parametrize("name", list(DATASETS))
def test_shortened_rows_need_far_less_noise_than_rows_in_a_box(name: str) -> None:
    """The same products in the same units and at the same price; the box is that of the public bounds."""
    dataset = replace(DATASETS[name], size=400)
    box, ball = (
        publish(fresh(), dataset, parts_of(dataset), trial(dataset=name))[0] for publish in (box_release, whole_release)
    )
    noise = {
        kind: dict(zip(release.labels, np.asarray(release.law.scale, float), strict=True))  # type: ignore[union-attr]
        for kind, release in (("box", box), ("ball", ball))
    }
    ratios = np.array([noise["box"][label] / noise["ball"][label] for label in noise["box"]])
    assert np.median(ratios) > 3


def test_the_interval_is_students() -> None:
    """Against tables: t(0.95, 2) = 2.919986."""
    mean, low, high = mean_with_interval([1.0, 2.0, 3.0])
    assert (mean, low, high) == pytest.approx((2, 2 - 2.919986 / math.sqrt(3), 2 + 2.919986 / math.sqrt(3)), rel=1e-6)
    assert math.isnan(mean_with_interval([1.0])[1])


def test_the_print_stands_beside_its_own_method_and_its_best_beside_ours() -> None:
    assert printed("bike-sharing", 10, "fixed-s") == 0.0082
    assert printed("air-quality", 5, "adassp") == 0.0227
    assert printed("power-plant", 5, OURS) == 0.0133
    assert printed("power-plant", 7, OURS) is None
    assert printed("power-plant", 5, "naive") is None
    assert len(PRINTED) == 9


def test_public_constants_are_consistent() -> None:
    """Centres lie within bounds, and obey the one identity that is known: casual + registered = count."""
    for dataset in DATASETS.values():
        for column in dataset.columns:
            assert column.low <= column.centre <= column.high
            assert 0 < column.scale < column.high - column.low
    by_name = {column.name: column for column in DATASETS["bike-sharing"].columns}
    assert by_name["casual"].centre + by_name["registered"].centre == by_name["count"].centre


@pytest.mark.parametrize(
    "text", ["1,2,3\n4,5,6\n", "1,2,3,4,5,6\n" * 3, "1,2,3,4,x\n1,2,3,4,5\n", "", "1,2,3,4,5\n", "1,2,3,4,5\n1,2\n"]
)
def test_a_file_that_is_not_the_data_set_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "power_plant.csv"
    path.write_text(text)
    with pytest.raises(InvalidArgument, match="expected rows of 5 numbers: temperature"):
        read(path, DATASETS["power-plant"])


def test_blank_rows_blank_columns_and_a_header_are_left_out(tmp_path: Path) -> None:
    pair = Dataset("pair.csv", 3, 1.0, "here", (Column("x", 0, 1, 0.5, 0.5), Column("y", 0, 1, 0.5, 0.5)))
    path = tmp_path / "pair.csv"
    path.write_text("x,y,\n1,2,\n3,4,\n,,\n,,\n")
    assert read(path, pair).tolist() == [[1, 2], [3, 4]]


def test_the_figure_is_drawn(tmp_path: Path) -> None:
    rows = [
        {"dataset": name, "holders": holders, "method": method, "prediction_mse": 0.01 * (1 + k), "low": 0.009,
         "high": 0.1, "paper": printed(name, holders, method)}
        for name in DATASETS for holders in (1, 5, 10) for k, method in enumerate(METHOD_NAMES)
    ]  # fmt: skip
    STUDY.plot(rows, tmp_path / "real.png")
    assert (tmp_path / "real.png").stat().st_size > 10_000
    said = STUDY.note(rows)
    assert "not at its stated privacy" in said
    assert "of 9 cases" in said


@pytest.mark.parametrize("name", ["dataset", "holders", "epsilon", "repeats", "split", "neighbours"])
def test_every_announced_setting_is_there(name: str) -> None:
    assert name in STUDY.settings


@real_data
def test_the_power_plant_is_predicted_as_well_as_in_print_with_the_noise_that_is_needed() -> None:
    """The test rows of the print, and four noises: the mean is 9 of its deviations below the print, or more."""
    given = {"dataset": "power-plant", "holders": "1,10", "repeats": 4, "method": OURS, "split": "file"}
    for row in STUDY.run(given, workers=1).rows:
        assert row["prediction_mse"] <= max(row["paper"], BAR)


@real_data
@pytest.mark.slow
@pytest.mark.parametrize(("name", "repeats"), [("power-plant", 40), ("bike-sharing", 4), ("air-quality", 4)])
def test_no_figure_in_print_is_missed(name: str, repeats: int) -> None:
    """One, five and ten holders: half the noise and bounds from the data in print, public constants here."""
    rows = STUDY.run({"dataset": name, "repeats": repeats, "method": OURS, "split": "file"}).rows
    assert [row["holders"] for row in rows] == [1, 5, 10]
    for row in rows:
        assert row["prediction_mse"] <= (max(row["paper"], BAR) if name == "power-plant" else row["paper"])
