"""E1 through the holder's own door: records in a table, `make_release` with a ledger, `infer` on what it published.

Elsewhere releases are simulated; here the clamp, the lattice, the noise and the file are the real ones. Noise that
cannot be seeded is part of the trial, so no two runs are alike.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import noisewise as nw
from noisewise.evaluate.calibration import Calibration
from noisewise.evaluate.trials import PublicSizes, library_posterior, run_trials
from noisewise.privacy.guarantee import Guarantee

ALARM = 1e-6
DRAWS = 100
PEOPLE = nw.Joint(x=nw.Normal(mean=stats.norm(0, 1), sd=1), c=nw.Bernoulli(p=stats.beta(2, 3)))
# A third of all records lie outside these bounds, and the table clamps them.
SCHEMA = nw.Schema({"x": nw.Bounded(-1, 2), "c": nw.Levels(["no", "yes"])}, n=30, neighbours="change-one")


@dataclass(frozen=True)
class Holder(PublicSizes):
    """A world whose releases are made, not simulated: a new table and a new ledger for every truth."""

    population: Any
    guarantee: Guarantee
    folder: Path

    def releases(self, rng: np.random.Generator, theta: Any, sizes: Any = ()) -> list[nw.Release]:
        x = rng.normal(theta["x.mean"][0], 1, 30)
        c = rng.random(30) < theta["c.p"][0]
        table = nw.Table.read(pd.DataFrame({"x": x, "c": np.where(c, "yes", "no")}), SCHEMA)
        name = uuid.uuid4().hex
        statistics = nw.Mean(nw.column("x")), nw.Count(nw.column("c").equals("yes"))
        with nw.Ledger.open(self.folder / f"{name}.ledger", limit=self.guarantee + self.guarantee) as ledger:
            for k, statistic in enumerate(statistics):
                asked = nw.plan(statistic, SCHEMA, guarantee=self.guarantee)
                nw.make_release(table, asked, ledger=ledger).save(self.folder / f"{name}-{k}.json")
        return [nw.Release.load(self.folder / f"{name}-{k}.json") for k in range(len(statistics))]


def calibrated(holder: Holder, trials: int, method: str = "auto") -> Calibration:
    sample = library_posterior(method, "clt", DRAWS, None, {})
    found = run_trials(holder, sample, DRAWS, np.random.SeedSequence().spawn(trials))  # type: ignore[arg-type]
    assert not any(trial.error for trial in found)
    ranks, uniforms, truths = (np.array([getattr(trial, part) for trial in found])
                               for part in ("ranks", "uniforms", "truths"))  # fmt: skip
    known = np.array([trial.effective for trial in found])
    return Calibration(found[0].names, ranks, uniforms, truths, known, (), DRAWS, 0, 0.0, "real releases")


def test_posteriors_from_real_releases_are_calibrated(tmp_path: Path) -> None:
    found = calibrated(Holder(PEOPLE, nw.PureDP(1), tmp_path), trials=20)
    assert found.names == ("x.mean", "c.p")
    assert found.is_calibrated(ALARM), found.summary()


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", [nw.PureDP(1), nw.ZeroConcentratedDP(1)], ids=str)
def test_posteriors_from_real_releases_are_calibrated_at_length(guarantee: Guarantee, tmp_path: Path) -> None:
    found = calibrated(Holder(PEOPLE, guarantee, tmp_path), trials=300)
    assert found.is_calibrated(ALARM), found.summary()


@pytest.mark.slow
def test_the_naive_posterior_from_real_releases_fails(tmp_path: Path) -> None:
    found = calibrated(Holder(PEOPLE, nw.PureDP("1/4"), tmp_path), trials=100, method="naive")
    assert found.smallest_p_value < ALARM
