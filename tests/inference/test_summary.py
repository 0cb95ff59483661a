"""Printing computes nothing: a summary simulates no release, of any model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.models.protocol import model_of

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("posterior-1-*.npz"))


class Simulated(Exception):
    """Something was simulated."""


def forbid(monkeypatch, posterior):
    def refuse(*_given, **_named):
        raise Simulated

    monkeypatch.setattr(np.random, "default_rng", refuse)
    monkeypatch.setattr(type(model_of(posterior.population)), "simulate_values", refuse)
    monkeypatch.setattr(type(model_of(posterior.population)), "sample_records", refuse)


def fresh():
    schema = nw.Schema({"x": nw.Bounded(0, 10)}, n=400, neighbours="change-one")
    population = nw.Normal(mean=stats.norm(5, 3), sd=2.0)
    plan = nw.plan(nw.Mean("x"), schema, guarantee=nw.PureDP(1))
    return nw.infer(nw.simulate(plan, population, at={"mean": 4.0}, seed=1), population, seed=2, progress=False)


@pytest.mark.parametrize("path", [None, *GOLDEN], ids=lambda path: "fresh" if path is None else path.stem)
def test_a_summary_simulates_nothing(path, monkeypatch):
    posterior = fresh() if path is None else nw.Posterior.load(path)
    forbid(monkeypatch, posterior)
    text = posterior.summary()
    assert "Verdict" in text
    assert str(posterior) or repr(posterior)
    if path is None:  # the check itself does, so the test would see it
        with pytest.raises(Simulated):
            _ = posterior.check
