"""A regression from a spec file: real records, the real release, and the command that learns from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_line import run_here
from moment_releases import SEED, records

from noisewise.inference.posterior import Posterior

SPEC = """\
[schema]
n = 1000
neighbours = "change-one"
[schema.columns]
age = { bounds = [-20, 120] }
bmi = { bounds = [0, 60] }
cost = { bounds = [-100, 500] }

[ledger]
limit = { mu = "3" }

[release]
statistic = "moments([age, bmi], cost, centre={age: 45, bmi: 26, cost: 180}, scale={age: 12, bmi: 4, cost: 45})"
guarantee = { mu = "3" }

[population]
"*" = "linear_regression(features=['age', 'bmi'], response='cost', coefficients=norm(0, 200))"
"""


def test_release_and_infer_from_one_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    columns = records(np.random.default_rng([SEED, 1]), 1000)
    rows = np.column_stack(list(columns.values()))
    np.savetxt("people.csv", rows, delimiter=",", header=",".join(columns), comments="", fmt="%.6f")
    Path("spec.toml").write_text(SPEC, "utf-8")
    run_here(monkeypatch, capsys, "release", "spec.toml", "--data", "people.csv", "--ledger", "l", "--out", "cost.json")
    learn = ("infer", "cost.json", "--spec", "spec.toml", "--out", "found", "--seed", str(SEED))
    _, shown, _ = run_here(monkeypatch, capsys, *learn)
    assert "noise_variance" in shown
    assert "covariate_mean" not in shown
    assert "age" in Path("found/report.html").read_text("utf-8")
    posterior = Posterior.load("found/posterior.npz")
    assert posterior.mean["age"] == pytest.approx(3, abs=6 * posterior.sd["age"])
    assert posterior.population.predict(posterior, {"age": [45], "bmi": [26]}).mean == pytest.approx([183], abs=10)
