"""A discrete law of one's own that says only its probabilities, beside the old path through scipy, in one run.

    python benchmarks/own_laws.py

The law is a zero-inflated Poisson law (`class ZeroInflated(stats.rv_discrete)` with a `_pmf`). The rival is what was
done before: scipy's own cdf and quantiles, which add up the probabilities for every x and every row of parameters, one
after the other. Processor seconds at 200 rows. The likelihood of a release is not compared: it asks for the quantile
at 1 - 1e-16, which scipy searches without end where the probabilities add up to a little less than that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
from command import run_parts
from scipy import special, stats

import noisewise as nw

ROWS = 200
ADDED_UP = "noisewise.populations.distribution.is_added_up"


class ZeroInflated(stats.rv_discrete):
    """Poisson counts, and a share of zeros beside them."""

    def _pmf(self, k: Any, empty: Any, rate: Any) -> Any:
        counts = np.exp(special.xlogy(k, rate) - rate - special.gammaln(k + 1))
        return np.where(k == 0, empty, 0.0) + (1 - empty) * counts

    def _argcheck(self, empty: Any, rate: Any) -> Any:
        return (empty >= 0) & (empty <= 1) & (rate > 0)


LAW = ZeroInflated(name="zero_inflated", shapes="empty, rate")
VISITS = nw.Population(LAW, empty=stats.beta(2, 2), rate=stats.gamma(4, scale=1.5))


def compared(what: str, act: Callable[[], Any]) -> None:
    """Processor seconds now and by the old path, and whether both say the same."""
    seconds, found = [], []
    for is_old in (False, True):
        with patch(ADDED_UP, lambda _: False) if is_old else nullcontext():
            start = time.process_time()
            found.append(np.asarray(act()))
            seconds.append(time.process_time() - start)
    off = float(np.nanmax(np.abs(found[0] - found[1])))
    now, before = seconds
    print(f"{what:20s} now {now:8.3f} s   before {before:8.3f} s   {before / now:6.0f} x   differ by {off:.1g}")


def part_cdf() -> None:
    theta = VISITS.sample_prior(np.random.default_rng(1), ROWS)
    compared("cdf at 40 values", lambda: VISITS.cdf(np.arange(40.0), theta))
    compared("3 quantiles", lambda: VISITS.quantile([0.05, 0.5, 0.95], theta))


if __name__ == "__main__":
    run_parts({"cdf": part_cdf})
