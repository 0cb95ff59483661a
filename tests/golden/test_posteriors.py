"""Posteriors saved by 0.1 (format 1) load for ever: the same draws, the same words, and the same answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import noisewise as nw

HERE = Path(__file__).parent
KEPT = json.loads((HERE / "posteriors-1.json").read_text())


def table(summary: str) -> str:
    """From the table of parameters on: since 0.2 a summary opens with the answer in a sentence."""
    return summary if summary.startswith("parameter") else summary.partition("\n\n")[2]


def without_check(summary: str) -> str:
    return table(summary).partition("\nCheck: ")[0]


@pytest.mark.parametrize("name", KEPT)
def test_a_posterior_of_format_1_says_what_it_said(name: str, tmp_path: Path) -> None:
    kept, found = KEPT[name], nw.Posterior.load(HERE / f"posterior-1-{name}.npz")
    assert found.because == kept["because"] == f"{found.how}; {found.law}"
    assert str(found.verdict) == kept["verdict"]
    assert kept["is_converged"] in (None, found.verdict.is_converged)
    for parameter, mean in kept["mean"].items():
        np.testing.assert_array_equal(found.mean[parameter], mean)
    assert without_check(found.summary()) == without_check(kept["summary"])
    assert found.check_sentence() == kept["check"]
    if found.releases:
        assert table(found.summary()) == kept["summary"]
    found.save(tmp_path / "again")
    again = nw.Posterior.load(tmp_path / "again")
    assert again.summary() == found.summary()
    assert str(again.verdict) == str(found.verdict)
    assert (again.how, again.law, again.known_check) == (found.how, found.law, found.known_check)


def test_every_golden_posterior_is_read() -> None:
    assert {file.stem.removeprefix("posterior-1-") for file in HERE.glob("posterior-1-*.npz")} == set(KEPT)
