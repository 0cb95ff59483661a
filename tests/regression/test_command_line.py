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


FORMULA = """\
[schema]
n = 600
neighbours = "change-one"
[schema.columns]
age = { bounds = [18, 90] }
smoker = { levels = ["yes", "no"] }
relapse = { levels = ["no", "yes"] }

[ledger]
limit = { mu = "3" }

[release]
statistic = "moments('relapse ~ age + smoker', family='logistic', scale={age: 12})"
guarantee = { mu = "3" }

[population]
"*" = "logistic_regression(formula='relapse ~ age + smoker', coefficients=norm(0, 2))"
"""


def test_one_formula_serves_the_release_and_the_inference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the analyst's spec has no schema of its own: the release's is read."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng([SEED, 2])
    age, smokes = rng.normal(50, 10, 600).clip(18, 90), rng.random(600) < 0.4
    ill = rng.random(600) < 1 / (1 + np.exp(1.5 - 1.5 * smokes - 0.02 * (age - 50)))
    words = ["no", "yes"]
    lines = [f"{a:.3f},{words[s]},{words[r]}" for a, s, r in zip(age, smokes.astype(int), ill.astype(int), strict=True)]
    Path("people.csv").write_text("age,smoker,relapse\n" + "\n".join(lines), "utf-8")
    Path("spec.toml").write_text(FORMULA, "utf-8")
    Path("analyst.toml").write_text(FORMULA[FORMULA.index("[population]") :], "utf-8")
    run_here(monkeypatch, capsys, "release", "spec.toml", "--data", "people.csv", "--ledger", "l", "--out", "r.json")
    for spec in ("spec.toml", "analyst.toml"):
        learn = ("infer", "r.json", "--spec", spec, "--out", f"found-{spec}", "--seed", str(SEED), "--draws", "200")
        _, shown, _ = run_here(monkeypatch, capsys, *learn)
        assert "smoker = yes goes with" in shown
        posterior = Posterior.load(f"found-{spec}/posterior.npz")
        assert posterior.population.names == ("intercept", "age", "equals(smoker, 'yes')")
        smokes = "equals(smoker, 'yes')"
        assert posterior.mean[smokes] == pytest.approx(1.5, abs=6 * posterior.sd[smokes])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("formula='relapse ~ age + smoker'", "formula='relapse ~ age + smokr'"), "did you mean 'smoker'"),
        (("formula='relapse ~ age + smoker'", "formula='relapse ~ age', features=['age']"), "says already"),
        (("formula='relapse ~ age + smoker'", "formula=3"), "in quotes"),
        (("logistic_regression(formula", "normal(formula"), "takes no formula"),
        (("family='logistic'", "family='logit'"), "did you mean 'logistic'"),
    ],
)
def test_a_formula_that_cannot_be_read_is_refused_before_anything_is_paid(
    change: tuple[str, str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("spec.toml").write_text(FORMULA.replace(*change), "utf-8")
    code, shown, error = run_here(monkeypatch, capsys, "release", "spec.toml", "--dry-run")
    assert code != 0
    assert sentence in " ".join((shown + error).split())
