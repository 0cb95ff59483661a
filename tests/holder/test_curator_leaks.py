"""make_release: nothing else gets out (F4)."""

from __future__ import annotations

import logging
import traceback
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from curated_records import PUBLIC, STATISTICS, secret_scale, y

import noisewise as nw
from noisewise.errors import NoisewiseError
from noisewise.holder import curator
from noisewise.report.words import describe_release

CANARY = 123.456789
CANARY_TEXTS = ("123.456789", "123.45678", "123,456789", "1.23456789e")


def leaks(text: str) -> list[str]:
    return [canary for canary in CANARY_TEXTS if canary in text]


def test_a_value_of_a_record_is_in_no_message_log_repr_release_or_ledger(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    n = 30
    public = nw.Schema({"y": nw.Bounded(0, 250)}, n=n, neighbours="change-one")
    path = tmp_path / "people.csv"
    path.write_text("y\n" + f"{CANARY}\n" * n)
    table = nw.Table.read(path, public)
    ledger = nw.Ledger.open(tmp_path / "people.ledger", nw.PureDP(3))
    told = [repr(table), str(table)]
    for statistic in (nw.Mean(y), nw.Median(y), nw.Maximum(y), nw.Quantile(y, "1/2"), nw.Records(y)):
        plan = nw.plan(statistic, public, guarantee=nw.PureDP("1/2"))
        release = nw.make_release(table, plan, ledger=ledger)
        told += [release.to_bytes().decode(), repr(release), describe_release(release), repr(plan), plan.describe()]

    def attempts() -> Any:
        yield lambda: nw.make_release(table, nw.plan(nw.Sum(y), public, guarantee=nw.PureDP(2)), ledger=ledger)
        other = nw.Table.read(pd.DataFrame({"y": [CANARY] * (n - 1) + [1.0]}), public)
        yield lambda: nw.make_release(other, nw.plan(nw.Sum(y), public, guarantee=nw.PureDP("1/4")), ledger=ledger)
        monkeypatch.setattr(curator.draw, "noise", lambda _: [CANARY / 0])
        yield lambda: nw.make_release(table, nw.plan(nw.Sum(y), public, guarantee=nw.PureDP("1/4")), ledger=ledger)
        monkeypatch.setattr(curator.draw, "noise", lambda _: [{CANARY: 1}])
        yield lambda: nw.make_release(table, nw.plan(nw.Sum(y), public, guarantee=nw.PureDP("1/4")), ledger=ledger)
        path.write_text("y\n" + f"{CANARY}\n" * (n + 1))
        yield lambda: nw.make_release(table, nw.plan(nw.Sum(y), public, guarantee=nw.PureDP("1/5")), ledger=ledger)
        path.write_text("y\n" + f"{CANARY} years\n" * n)
        yield lambda: nw.Table.read(path, public)

    n_refused = 0
    for attempt in attempts():
        with pytest.raises(NoisewiseError) as caught:
            attempt()
        told += [str(caught.value), repr(caught.value), repr(caught.value.fields)]
        told += traceback.format_exception_only(caught.value)
        n_refused += 1
    assert n_refused == 6
    told += [
        str(ledger),
        repr(ledger),
        repr(ledger.entries()),
        repr(ledger.charges()),
        caplog.text,
        *capfd.readouterr(),
    ]
    assert [text for text in told if leaks(text)] == []
    assert leaks((tmp_path / "people.ledger").read_bytes().decode("latin-1")) == []
    assert leaks(f"a planted {CANARY}")


def numbers_like(value: float) -> set[str]:
    """How a number might be written: at several precisions, and as a ratio."""
    return {
        repr(value),
        f"{value:.12g}",
        f"{value:.9g}",
        f"{value:.7f}",
        f"{value:.6e}",
        value.hex(),
        str(Fraction(value)),
    }


def test_the_smooth_scale_is_in_no_file_ledger_or_printed_form(
    data: pd.DataFrame, table: nw.Table, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ledger = nw.Ledger.open(tmp_path / "l", nw.ApproxDP(10, "1e-3"))
    for name in ("median", "maximum"):
        plan = nw.plan(STATISTICS[name], PUBLIC, guarantee=nw.ApproxDP(1, "1e-4"))
        release = nw.make_release(table, plan, ledger=ledger)
        release.save(tmp_path / f"{name}.json")
        scale, alpha, step = secret_scale(plan, data), float(plan.law.alpha), plan.law.step
        secrets = set().union(*(numbers_like(s) for s in (scale, scale / alpha, scale / step, scale / alpha / step)))
        told = [(tmp_path / f"{name}.json").read_text(), repr(release), describe_release(release), plan.describe()]
        told += [repr(plan), str(ledger), repr(ledger.entries()), caplog.text]
        told.append((tmp_path / "l").read_bytes().decode("latin-1"))
        assert [secret for secret in secrets for text in told if secret in text] == []
        assert set(release.law.to_dict()) == {"family", "alpha", "beta", "step"}
        planted = replace(plan.law, beta=scale).to_dict()
        assert any(secret in str(planted) for secret in secrets)
