"""Quadrature beside the published Monte Carlo, in one run: how much faster, and how much closer to the truth.

    python benchmarks/information.py

Each line computes the information of one plan both ways, in turns, and takes the best time of each. The error of
quadrature is its distance from a reference that does not share its code (a closed form, or adaptive quadrature); that
of Monte Carlo is the root mean square of its distance over several seeds, N = M = 1000 as a user gets it. A slow
machine makes the times larger and the ratios noisier; nothing fails because of it.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import integrate, special, stats

import noisewise as nw
from noisewise.design.information import information, information_rows
from noisewise.populations.population import Normal

THETA, N, BOUND = 2.0, 100, 10.0
SEEDS = 5
x = nw.column("x")
POPULATION = Normal(mean=0, variance=stats.uniform(0, 10))
SCHEMA = nw.Schema({"x": nw.Bounded(-BOUND, BOUND)}, n=N, neighbours="change-one")


def best(act: Callable[[], Any], rounds: int = 7) -> float:
    """The shortest of several times, in seconds; the first round warms up and does not count."""
    act()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        act()
        times.append(time.perf_counter() - start)
    return min(times)


def normal_laplace_reference(power: int, epsilon: float) -> float:
    """Information of N(mu, tau^2) + Laplace(b) on theta, by adaptive quadrature of the closed density's differences."""
    b = BOUND**power / (N * epsilon)

    def moments(theta: float) -> tuple[float, float]:
        mean = (2 * theta) ** (power / 2) * special.gamma((power + 1) / 2) / math.sqrt(math.pi)
        square = (2 * theta) ** power * special.gamma((2 * power + 1) / 2) / math.sqrt(math.pi)
        return mean, math.sqrt((square - mean**2) / N)

    def log_density(y: float, theta: float) -> float:
        mean, tau = moments(theta)
        z, r = (y - mean) / tau, tau / b
        one, other = (r * r / 2 - s * z * r + special.log_ndtr(s * z - r) for s in (1, -1))
        return float(np.logaddexp(one, other)) - math.log(2 * b)

    h = 1e-4

    def integrand(y: float) -> float:
        far, near = (log_density(y, THETA + k * h) - log_density(y, THETA - k * h) for k in (2, 1))
        return math.exp(log_density(y, THETA)) * ((8 * near - far) / (12 * h)) ** 2

    mean, tau = moments(THETA)
    cuts = [mean + sign * (k * tau + e * b) for sign in (-1, 1) for k, e in ((0, 0), (2, 0), (6, 0), (8, 5), (8, 30))]
    edges = sorted(set(cuts))
    parts = [
        integrate.quad(integrand, a, c, epsabs=0, epsrel=1e-11, limit=200)[0] for a, c in itertools.pairwise(edges)
    ]
    return float(sum(parts))


def normal_gaussian_reference(power: int, mu: float) -> float:
    mean = (2 * THETA) ** (power / 2) * special.gamma((power + 1) / 2) / math.sqrt(math.pi)
    variance = (2 * THETA) ** power * special.gamma((2 * power + 1) / 2) / math.sqrt(math.pi) - mean**2
    total = variance / N + (BOUND**power / (N * mu)) ** 2
    return (power / 2 * mean / THETA) ** 2 / total + 0.5 * (power * variance / THETA / N / total) ** 2


def compared(name: str, plan: nw.Plan, reference: float) -> None:
    common = {"at": {"variance": THETA}, "likelihood": "clt"}
    exact_time = best(lambda: information(plan, POPULATION, **common))
    exact_error = abs(information(plan, POPULATION, **common).value / reference - 1)
    start = time.perf_counter()
    drawn = [information(plan, POPULATION, method="monte-carlo", seed=s, **common).value for s in range(SEEDS)]
    drawn_time = (time.perf_counter() - start) / SEEDS
    drawn_error = math.sqrt(np.mean(np.square(np.array(drawn) / reference - 1)))
    print(
        f"{name:28s} {1e3 * exact_time:9.2f} ms {exact_error:10.1e} {1e3 * drawn_time:9.0f} ms {drawn_error:10.1e}"
        f" {drawn_time / exact_time:9.0f}x {drawn_error / max(exact_error, 1e-16):12.0f}x"
    )


def main() -> None:
    titles = "default", "error", "monte-carlo", "error", "faster", "closer"
    print(
        f"{'plan':28s}" + "".join(f"{title:>{w}s}" for title, w in zip(titles, (13, 11, 13, 11, 11, 14), strict=True))
    )
    for power, feature in ((1, abs(x)), (2, x**2)):
        for epsilon in (1, 5):
            made = nw.plan(nw.Mean(feature), SCHEMA, guarantee=nw.PureDP(epsilon))
            compared(f"{made.statistic}, PureDP({epsilon})", made, normal_laplace_reference(power, epsilon))
        made = nw.plan(nw.Mean(feature), SCHEMA, guarantee=nw.GaussianDP(1))
        compared(f"{made.statistic}, GaussianDP(1)", made, normal_gaussian_reference(power, 1))
    print("\n64 parameter values at once")
    theta = {"variance": np.linspace(0.5, 9.5, 64)}
    kinds = {
        "mean(abs(x)), normal law": (nw.Mean(abs(x)), "clt"),
        "mean(abs(x)), exact law": (nw.Mean(abs(x)), "auto"),
        "mean(x, x**2), normal law": (nw.Mean(x, x**2), "clt"),
        "count(between(x, -1, 1))": (nw.Count(x.between(-1, 1)), "auto"),
        "records(abs(x))": (nw.Records(abs(x)), "auto"),
        "median(abs(x))": (nw.Median(abs(x)), "auto"),
    }
    for name, (statistic, likelihood) in kinds.items():
        made = nw.plan(statistic, SCHEMA, guarantee=nw.PureDP(1))
        options = {"likelihood": likelihood, "seed": 0}
        rounds = 1 if name.startswith("median") else 5
        seconds = best(lambda m=made, o=options: information_rows(m, POPULATION, theta, **o), rounds)
        print(f"{name:28s} {1e3 * seconds:9.1f} ms")
    print("\nchoose, averaged over 64 prior draws")
    powers = [nw.Mean(abs(x) ** Fraction(k, 8)) for k in range(1, 21)]
    mixed = [*powers[7:10], nw.Count(x.between(-1, 1)), nw.Records(abs(x)), nw.Records(x, cells=[-1, 1])]
    for name, statistics, likelihood in (
        ("20 powers, normal law", powers, "clt"),
        ("20 powers, exact law", powers, "auto"),
        ("6 plans of mixed kinds", mixed, "auto"),
    ):
        plans = [nw.plan(statistic, SCHEMA, guarantee=nw.PureDP(1)) for statistic in statistics]
        options = {"likelihood": likelihood, "progress": False}
        seconds = best(lambda p=plans, o=options: nw.choose(p, POPULATION, **o), 1)
        print(f"{name:28s} {1e3 * seconds:9.1f} ms")


if __name__ == "__main__":
    main()
