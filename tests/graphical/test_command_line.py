"""A graphical model from a spec file: real records, the real release, and the command that learns from it."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from command_line import run_here

from noisewise.inference.posterior import Posterior

SPEC = """\
[schema]
n = 20000
neighbours = "change-one"
[schema.columns]
age = { levels = ["young", "old"] }
smokes = { levels = ["yes", "no"] }
ill = { levels = ["yes", "no"] }

[ledger]
limit = { epsilon = "2" }

[release]
statistic = "marginals([age, smokes], [smokes, ill])"
guarantee = { epsilon = "2" }

[population]
"*" = "graphical_model(cliques=[['age', 'smokes'], ['smokes', 'ill']], \
levels={'age': ['young', 'old'], 'smokes': ['yes', 'no'], 'ill': ['yes', 'no']})"
"""


def test_release_and_infer_from_one_spec(tmp_path, monkeypatch, capsys, rng):
    monkeypatch.chdir(tmp_path)
    smokes = rng.random(20_000) < 0.3
    ill = rng.random(20_000) < np.where(smokes, 0.6, 0.2)
    age = rng.random(20_000) < 0.5
    with Path("people.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "smokes", "ill"])
        words = zip(
            np.where(age, "young", "old"), np.where(smokes, "yes", "no"), np.where(ill, "yes", "no"), strict=True
        )
        writer.writerows(words)
    Path("spec.toml").write_text(SPEC, "utf-8")
    run_here(monkeypatch, capsys, "release", "spec.toml", "--data", "people.csv", "--ledger", "l", "--out", "r.json")
    options = ("--draws", "100", "--warmup", "100", "--seed", "1")
    _, printed, _ = run_here(monkeypatch, capsys, "infer", "r.json", "--spec", "spec.toml", "--out", "found", *options)
    assert "P(smokes=yes)" in printed
    posterior = Posterior.load("found/posterior.npz")
    # Sampling has sd 0.005 at most, and the noise less: 0.04 is eight of both.
    share = posterior.population.conditional(posterior, "ill", given={"smokes": "yes", "age": "old"})["ill=yes"]
    assert abs(share - 0.6) < 0.06
    assert abs(float(np.mean(posterior.draws["P(smokes)"][..., 0])) - 0.3) < 0.04
    page = Path("found/report.html").read_text("utf-8")
    assert "gives a point estimate here" in page
    run_here(
        monkeypatch, capsys, "infer", "r.json", "--spec", "spec.toml", "--out", "point", "--method", "map", "--quiet"
    )
    assert "point estimate" in Path("point/summary.txt").read_text("utf-8")
