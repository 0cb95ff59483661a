"""The closed form beside the linear program, and how far each can go, in one run.

    python benchmarks/point.py [PART ...]        parts: program records laplace; all of them by default

Times are of the processor; what takes less than a second is repeated, and the best of five is shown. Nothing fails
because a machine is slow.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from command import run_parts
from scipy import stats

import noisewise as nw
from noisewise.point import geometric
from noisewise.point.belief import BetaBelief
from noisewise.point.laplace import KINDS, LaplaceEstimator
from noisewise.point.losses import read_loss
from noisewise.point.models import read_problem

UNIFORM = nw.Bernoulli(p=stats.uniform())
SHORT, ROUNDS = 1.0, 5


def timed(act: Callable[[], Any]) -> tuple[Any, float]:
    """The result and the least time of a few runs; one run where it is long."""
    seconds: list[float] = []
    while not seconds or (sum(seconds) < SHORT and len(seconds) < ROUNDS):
        start = time.process_time()
        result = act()
        seconds.append(time.process_time() - start)
    return result, min(seconds)


def part_program() -> None:
    """K = 10, squared loss: the same optimum three ways."""
    print("\nK = 10, squared loss: closed form, closed form with exact rows, program with 1000 answers")
    print("epsilon   risk (closed)  risk (program)    seconds  with rows    program    ratio  ratio with rows")
    for epsilon in ("1/10", "1", "5"):
        guarantee = nw.PureDP(epsilon)
        belief = BetaBelief.of(10, 1, 1)
        closed, bare = timed(lambda: geometric.decide(read_loss("squared"), belief, float(guarantee.epsilon)))  # noqa: B023
        _, whole = timed(lambda: nw.optimal_estimator(UNIFORM, "squared", guarantee=guarantee, n=10))  # noqa: B023
        answers = np.linspace(0, 1, 1000)
        asked = {"guarantee": guarantee, "n": 10, "actions": answers}
        solved, long = timed(lambda: nw.optimal_estimator(UNIFORM, "squared", **asked))  # noqa: B023
        print(f"{epsilon:>7} {closed.risk:14.9f} {solved.risk:15.9f} {bare:10.6f} {whole:10.5f} {long:10.3f} "
              f"{long / bare:8.0f} {long / whole:10.0f}")  # fmt: skip


def part_records() -> None:
    """The closed form for more and more records."""
    print("\nClosed form at epsilon = 1: seconds by the number of records")
    for loss, sizes in (("squared", (100, 1000, 10_000, 100_000)), ("absolute", (100, 1000, 10_000))):
        for n in sizes:
            made, seconds = timed(lambda: nw.optimal_estimator(UNIFORM, loss, guarantee=nw.PureDP(1), n=n))  # noqa: B023
            exact = "exact rows" if made.certificate.is_exact else "structural certificate"
            print(f"{loss:>10} {n:8d} {seconds:10.3f}   risk {made.risk:.6g}, {exact}")


def part_laplace() -> None:
    """The risk of Laplace noise over that of the optimum."""
    print("\nK = 10: risk of Laplace noise / risk of the optimum")
    print("epsilon  loss      " + "".join(f"{kind:>12}" for kind in KINDS))
    for epsilon in (0.1, 1.0, 5.0):
        for name in ("squared", "absolute"):
            loss = read_loss(name)
            problem = read_problem(UNIFORM, loss, n=10, statistic=None, schema=None, estimand=None)
            best = geometric.decide(loss, problem.belief, epsilon).risk
            ratios = [LaplaceEstimator.of(problem, loss, epsilon, kind).risk / best for kind in KINDS]
            print(f"{epsilon:7g}  {name:10}" + "".join(f"{ratio:12.4f}" for ratio in ratios))


PARTS: dict[str, Callable[[], None]] = {"program": part_program, "records": part_records, "laplace": part_laplace}


if __name__ == "__main__":
    run_parts(PARTS)
