"""Posteriors made of given draws, and releases made of given plans: what answers are tested on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import noisewise as nw
from noisewise.inference.posterior import Posterior
from noisewise.inference.verdict import Verdict, Words
from noisewise.release import Release

X = nw.column("income")


def schema(n: int = 4000, *, unit: str | None = "thousand EUR", outside: str = "clamp", **more):
    columns = {"income": nw.Bounded(0, 250, unit=unit), **more}
    return nw.Schema(columns, n=n, neighbours="change-one", outside=outside)


def release(statistic=None, *, of=None, price=None, dataset="holder", value=None, part=None) -> Release:
    """A release of a plan, as if real; its value is of no account where draws are given."""
    made = nw.plan(statistic or nw.Mean(X), of or schema(), guarantee=price or nw.PureDP(1), part=part)
    size = len(made.statistic.labels(made.part_schema))
    return Release.of(made, value or [0] * size, dataset=dataset, ledger_head=None, simulated=False)


def posterior(draws: Mapping[str, object], population, releases=(), **more) -> Posterior:
    """Draws by name, (K,) or (K, m), as two chains."""
    shaped = {}
    for name, value in draws.items():
        rows = np.asarray(value, float)
        shaped[name] = rows.reshape(2, len(rows) // 2, *rows.shape[1:])
    said = {"method": "exact", "how": "given", "likelihood": "auto", "verdict": Verdict(Words("Given."))}
    return Posterior(draws=shaped, population=population, releases=tuple(releases), **(said | more))
