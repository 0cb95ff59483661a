"""The framework of studies: what is written, what is refused before anything runs, and what rows depend on."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from command_line import run_here

from noisewise.errors import InvalidArgument
from noisewise_papers import named, studies
from noisewise_papers.setting import Setting
from noisewise_papers.study import DATA_FOLDER, Rows, Setup, Study, data_folder

TINY = {"chains": 3, "steps": 60, "n_particles": (2, 5)}
TIMED = ("microseconds_per_step", "ess_per_second")


def draw_one(rng: np.random.Generator, point: float) -> dict[str, object]:
    return {"point": point, "drawn": float(rng.random()), "missing": math.nan, "count": np.int64(3)}


def measure(setup: Setup) -> Rows:
    return setup.map(draw_one, setup["points"], "points")


TOY = Study(
    name="toy",
    about="Nothing.",
    source="nobody",
    settings={"points": Setting(float, (1.0, 2.0, 3.0), "places")},
    columns=("point", "drawn", "missing", "count"),
    measure=measure,
    draw=lambda figure, rows: figure.subplots().plot([row["drawn"] for row in rows]),
    note=lambda rows: f"{len(rows)} rows.",
)


def test_every_study_is_whole_and_is_found_by_its_name() -> None:
    names = [study.name for study in studies()]
    assert {"mixing", "order-statistics", "posterior-gallery"} <= set(names)
    assert len(set(names)) == len(names)
    for study in studies():
        assert named(study.name) is study
        assert study.about.endswith(".")
        for name, setting in study.settings.items():
            for value in (setting.default, setting.at_full_scale):
                assert setting.read(value, name) == value
            assert setting.about


def test_the_same_seed_gives_the_same_rows_and_another_seed_others() -> None:
    assert str(TOY.run(seed=4, workers=1).rows) == str(TOY.run(seed=4, workers=1).rows)
    assert str(TOY.run(seed=4, workers=1).rows) != str(TOY.run(seed=5, workers=1).rows)
    drawn = [row["drawn"] for row in TOY.run(seed=4, workers=1).rows]
    assert len(set(drawn)) == len(drawn)  # every point has a generator of its own


def test_rows_do_not_depend_on_the_number_of_processes() -> None:
    runs = [named("mixing").run(TINY, seed=3, workers=workers).rows for workers in (1, 2)]
    stripped = [[{k: v for k, v in row.items() if k not in TIMED} for row in rows] for rows in runs]
    assert stripped[0] == stripped[1]


def test_the_json_form_has_four_entries_and_no_number_that_json_lacks() -> None:
    written = json.loads(TOY.run({"points": "1,2"}, seed=1, workers=1).to_bytes())
    assert list(written) == ["study", "settings", "rows", "seconds"]
    assert written["study"] == "toy"
    assert written["settings"] == {"points": [1.0, 2.0]}
    assert [row["point"] for row in written["rows"]] == [1.0, 2.0]
    assert all(row["missing"] is None and row["count"] == 3 for row in written["rows"])


def test_progress_counts_every_point() -> None:
    seen: list[tuple[str, int, int]] = []
    TOY.run(workers=1, progress=lambda what, done, total: seen.append((what, done, total)))
    assert seen == [("points", done, 3) for done in range(4)]


def test_real_data_are_looked_for_where_one_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_FOLDER, raising=False)
    assert data_folder(None) is None
    assert data_folder(tmp_path) == tmp_path
    monkeypatch.setenv(DATA_FOLDER, str(tmp_path))
    assert data_folder(None) == tmp_path
    monkeypatch.setenv(DATA_FOLDER, str(tmp_path / "gone"))
    with pytest.raises(InvalidArgument, match=DATA_FOLDER):
        data_folder(None)


def test_the_command_lists_the_studies(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, _ = run_here(monkeypatch, capsys, "study")
    assert code == 0
    assert all(study.name in printed for study in studies())


def test_the_command_prints_and_writes_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ("--json", str(tmp_path / "m.json"), "--plot", str(tmp_path / "m.png"))
    settings = ("--set", "chains=3", "--set", "steps=60", "--set", "n_particles=2", "--workers", "1")
    code, printed, _ = run_here(monkeypatch, capsys, "study", "mixing", *settings, *files)
    assert code == 0
    written = json.loads((tmp_path / "m.json").read_text("utf-8"))
    assert written["settings"]["steps"] == 60
    assert written["settings"]["n_particles"] == [2]
    assert all(row["kernel"] in printed for row in written["rows"])
    assert "44.03" in printed  # the paper's figure beside ours
    assert (tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nonsense",), ("nonsense", "mixing", "order-statistics")),
        (("mixing", "--set", "step=5"), ("'step'", "steps", "epsilon")),
        (("mixing", "--set", "steps=few"), ("steps", "whole number")),
        (("mixing", "--set", "steps"), ("key=value",)),
        (("mixing", "--seed", "-1"), ("seed",)),
        (("mixing", "--workers", "0"), ("workers",)),
        (("mixing", "--data", "no-such-folder"), ("--data", "no-such-folder")),
        (("mixing", "--json", "no-such-folder/m.json"), ("no-such-folder",)),
        (("mixing", "--plot", "m.doc"), (".png",)),
    ],
)
def test_a_slip_is_one_sentence_before_anything_runs(
    arguments: tuple[str, ...],
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, errors = run_here(monkeypatch, capsys, "study", *arguments)
    assert code == 2
    assert "Traceback" not in errors
    assert errors.count("\n") == 1
    assert all(word in errors for word in words), errors
