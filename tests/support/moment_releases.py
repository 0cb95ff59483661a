"""Releases of Moments made by hand from given rows, with or without noise, for tests of the regression room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import noisewise as nw
from noisewise.likelihood.simulate import noisy_values
from noisewise.planning import Plan
from noisewise.release import Release

# Fresh in every run: nothing that is tested rests on one seed. A failing test prints it.
SEED = int(np.random.SeedSequence().generate_state(1)[0])


def exact_release(plan: Plan, columns: Mapping[str, Any], *, dataset: str = "made") -> Release:
    """The release of a plan whose noise happened to be zero (up to the lattice)."""
    value = np.asarray(plan.statistic.value(columns, plan.part_schema))
    steps = np.round(value / np.array(plan.law.step)).astype(int)
    return Release.of(plan, steps.tolist(), dataset=dataset, ledger_head=None, simulated=True)


def noisy_release(plan: Plan, columns: Mapping[str, Any], rng: np.random.Generator, *, dataset: str) -> Release:
    """The release of a plan with simulated noise of its law."""
    rows = {name: np.asarray(column)[None, :] for name, column in columns.items()}
    return Release.of(
        plan, noisy_values(rng, plan, rows)[0].tolist(), dataset=dataset, ledger_head=None, simulated=True
    )


def records(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """age, bmi and cost, in units as people have them."""
    age, bmi = rng.normal(45, 12, n), rng.normal(26, 4, n)
    return {"age": age, "bmi": bmi, "cost": 100 + 3.0 * age - 2.0 * bmi + rng.normal(0, 20, n)}


def health_schema(n: int | None, **changes: Any) -> nw.Schema:
    columns = {"age": nw.Bounded(-50, 150), "bmi": nw.Bounded(-20, 80), "cost": nw.Bounded(-500, 1000)}
    size = {"n": n, "neighbours": "change-one"} if n is not None else {"n_max": 10_000, "neighbours": "add-remove"}
    return nw.Schema(columns, **{**size, **changes})
