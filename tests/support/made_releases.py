"""Releases with a value of the test's choosing, for likelihoods to be checked at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import noisewise as nw


def release_of(
    statistic: object,
    schema: nw.Schema,
    guarantee: object,
    estimate: Sequence[float],
    *,
    dataset: str = "made",
    **options,
) -> nw.Release:
    """A simulated release whose published value reads `estimate`."""
    made = nw.plan(statistic, schema, guarantee=guarantee, **options)
    step = getattr(made.law, "step", (1,))
    value = np.rint(np.asarray(estimate, dtype=float) * made.divisor / np.asarray(step)).astype(int)
    return nw.Release.of(made, value.tolist(), dataset=dataset, ledger_head=None, simulated=True)
