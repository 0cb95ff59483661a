"""Inputs made to cost more than they should, and a child process that measures what each of them takes.

`measured(name)` runs one case in a fresh process and returns (what happened, seconds of processor, megabytes at most);
what happened is "made" or the name and the sentence of the error. Run as a program with a name it is that child.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

MOST_SECONDS, MOST_MEGABYTES = 20.0, 500.0
QUICK: dict[str, Callable[[], object]] = {}
LONG: dict[str, Callable[[], object]] = {}


def quick(case):
    QUICK[case.__name__] = case
    return case


def long(case):
    LONG[case.__name__] = case
    return case


def entangled(terms: int, columns: int, seed: int = 0) -> str:
    """A sum of many products that no cheap bound is tight for, as a shallow text."""
    chance = random.Random(seed)
    parts = [
        f"abs(x{chance.randrange(columns)}*x{chance.randrange(columns)}-{chance.random():.2f})" for _ in range(terms)
    ]
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [f"({' - '.join(pair)})" if len(pair) > 1 else pair[0] for pair in pairs]
    return parts[0]


def schema(columns: int, *, n: int = 1000, low: float = 0, high: float = 1, neighbours: str = "change-one"):
    import noisewise as nw

    size = {"n": n} if neighbours == "change-one" else {"n_max": n}
    bounds = {f"x{i}": nw.Bounded(low, high) for i in range(columns)}
    return nw.Schema(bounds, neighbours=neighbours, **size)


def planned(text: str, columns: int, **options):
    import noisewise as nw

    return nw.plan(nw.statistic(text), schema(columns, **options), guarantee=nw.PureDP(1))


def levels(count: int):
    import noisewise as nw

    return nw.Schema({"g": nw.Levels([f"l{i}" for i in range(count)])}, n=10**6, neighbours="change-one")


def moments(
    features: int, *, rho: bool = False, n: int = 1000, low: float = -1, neighbours: str = "change-one", **options
):
    import noisewise as nw

    names = [f"x{i}" for i in range(features)]
    guarantee = nw.ZeroConcentratedDP(1) if rho else nw.PureDP(1)
    statistic = nw.Moments(names, f"x{features}", **options)
    return nw.plan(statistic, schema(features + 1, n=n, low=low, neighbours=neighbours), guarantee=guarantee)


def read_again(made) -> object:
    """The plan as a release file, read by `Release.from_bytes`."""
    import noisewise as nw

    release = nw.Release.of(made, [0] * made.law.size, dataset="made", ledger_head=None, simulated=True)
    return nw.Release.from_bytes(release.to_bytes())


# --- plan -----------------------------------------------------------------------------------------------------------


@quick
def whole_numbers_of_five_thousand_digits_as_levels():
    import noisewise as nw

    return nw.Levels([10**5000, 1])


@quick
def a_level_of_five_thousand_digits_in_a_feature():
    import noisewise as nw

    return nw.column("g").equals(10**5000)


@quick
def a_bound_of_five_thousand_digits():
    import noisewise as nw

    return nw.Bounded(0, 10**5000)


@quick
def bounds_near_the_largest_double():
    import noisewise as nw

    return nw.Bounded(0, 1e308)


@quick
def a_million_levels():
    return levels(10**6)


@quick
def a_million_cells():
    import noisewise as nw

    return nw.Histogram("x", list(range(10**6)))


@quick
def a_marginal_of_a_million_cells():
    import noisewise as nw

    columns = {f"g{i}": nw.Levels(list(range(10))) for i in range(6)}
    where = nw.Schema(columns, n=1000, neighbours="change-one")
    return nw.plan(nw.Marginals(list(columns)), where, guarantee=nw.PureDP(1))


@quick
def a_marginal_of_ten_to_the_hundred_cells():
    import noisewise as nw

    columns = {f"g{i}": nw.Levels(list(range(10))) for i in range(100)}
    where = nw.Schema(columns, n=1000, neighbours="change-one")
    return nw.plan(nw.Marginals(list(columns)), where, guarantee=nw.PureDP(1))


@quick
def a_power_of_a_million():
    import noisewise as nw

    return nw.statistic("mean(x**1000000)")


@quick
def a_feature_that_doubles_sixty_times():
    import noisewise as nw

    feature = nw.column("x")
    for _ in range(60):
        feature = feature + feature
    return nw.Mean(feature)


@quick
def records_beyond_two_to_the_forty():
    return planned("mean(x0)", 1, n=2**62)


@quick
def two_to_the_thirty_records():
    return moments(10, n=2**30)


@quick
def ten_thousand_features():
    import noisewise as nw

    return nw.Mean(*[nw.column("x") + k for k in range(10_000)])


@long
def a_feature_of_four_hundred_terms():
    return read_again(planned(f"mean({entangled(400, 6)})", 6))


@long
def thirty_large_features():
    return planned(f"mean({', '.join(entangled(30, 12, seed) for seed in range(30))})", 12)


def chained(terms: int, columns: int, seed: int) -> str:
    """The same products one after the other: each operation stands inside the next."""
    chance = random.Random(seed)
    products = (
        f"x{chance.randrange(columns)}*x{chance.randrange(columns)}-{chance.random():.2f}" for _ in range(terms)
    )
    return " - ".join(f"abs({product})" for product in products)


@long
def thirty_features_of_sixty_products():
    return read_again(planned(f"mean({', '.join(chained(60, 12, seed) for seed in range(30))})", 12))


@long
def as_many_operations_as_may_be():
    return read_again(planned(f"mean({', '.join(chained(88, 12, seed) for seed in range(32))})", 12))


@long
def moments_of_sixty_chained_features():
    import noisewise as nw

    rows = [nw.statistic(f"mean({chained(30, 12, seed)})").features[0] for seed in range(60)]
    return nw.plan(nw.Moments(rows, "x0"), schema(12), guarantee=nw.PureDP(1))


@long
def sums_of_a_few_of_a_hundred_thousand_levels():
    import noisewise as nw

    column = nw.column("g")
    row = [sum((column.equals(f"l{10 * i + j}") for j in range(6)), column.equals(f"l{10 * i + 6}") * (i + 2))
           for i in range(900)]  # fmt: skip
    return nw.plan(nw.Mean(*row), levels(100_000), guarantee=nw.PureDP(1))


@long
def noise_that_a_longer_search_cannot_show():
    """A release with less noise than is certified and more than records refute: the search for a proof is bounded."""
    from dataclasses import replace

    import noisewise as nw

    made = planned(f"mean({', '.join(chained(88, 12, seed) for seed in range(32))})", 12)
    less = replace(made, law=replace(made.law, scale=tuple(0.5 * scale for scale in made.law.scale)))
    release = nw.Release.of(less, [0] * made.law.size, dataset="made", ledger_head=None, simulated=True)
    return nw.Release.from_bytes(release.to_bytes())


@long
def products_along_two_thousand_columns():
    return planned(f"mean({', '.join(f'x{i}*x{i + 1}' for i in range(1900))})", 1901, low=-1)


@long
def sixty_four_fold_powers():
    return planned(f"mean({', '.join(f'(x0*{k}/100 + x1)**64' for k in range(1, 200))})", 2, high=0.5)


@long
def weights_of_thousands_of_digits():
    import noisewise as nw

    weights = [Fraction(10**700 + k, 10**700 + 2 * k + 1) for k in range(300)]
    row = [nw.column(f"x{i}") for i in range(300)]
    return nw.plan(nw.Mean(*row), schema(300), guarantee=nw.ZeroConcentratedDP(1), weights=weights)


@long
def moments_of_sixty_features():
    return read_again(moments(60))


@long
def moments_of_sixty_shortened_features():
    return moments(60, shrink="3.14159265358979", scale={f"x{i}": f"1.{i + 1}3456789" for i in range(60)})


@long
def gaussian_moments_of_ninety_shortened_features():
    return moments(90, rho=True, shrink=1)


@long
def averaged_moments_of_sixty_features():
    return moments(60, average=10)


@long
def fourth_moments_of_sixteen_features():
    return moments(16, fourth=True)


@long
def fourth_moments_of_sixty_features():
    return moments(60, fourth=True)


@long
def added_moments_of_ninety_features():
    return moments(90, neighbours="add-remove", shrink=2)


@long
def moments_of_thirty_large_features():
    import noisewise as nw

    rows = [nw.statistic(f"mean({entangled(30, 12, seed)})").features[0] for seed in range(30)]
    return nw.plan(nw.Moments(rows, "x0"), schema(12), guarantee=nw.PureDP(1))


@long
def the_smallest_eigenvalue_of_ninety_features():
    import noisewise as nw

    return nw.plan(nw.SmallestEigenvalue([f"x{i}" for i in range(90)], 1), schema(90), guarantee=nw.PureDP(1))


@long
def a_hundred_thousand_levels():
    import noisewise as nw

    return read_again(nw.plan(nw.Histogram("g"), levels(100_000), guarantee=nw.PureDP(1)))


@long
def five_thousand_tied_cliques():
    import noisewise as nw

    columns = {f"g{i}": nw.Levels(list(range(30))) for i in range(5001)}
    where = nw.Schema(columns, n=1000, neighbours="change-one")
    cliques = [[f"g{i}", f"g{i + 1}"] for i in range(5000)]
    return nw.plan(nw.Marginals(*cliques, tied=True), where, guarantee=nw.PureDP(1), weights=list(range(1, 901)))


# --- infer ----------------------------------------------------------------------------------------------------------


def learnt(release, population):
    import noisewise as nw

    return nw.infer(release, population, progress=False, draws=250)


@long
def a_histogram_of_twenty_thousand_cells_learnt_from():
    from scipy import stats

    import noisewise as nw

    where = nw.Schema({"x": nw.Bounded(-6, 6)}, n=4000, neighbours="change-one")
    edges = [-6 + 12 * k / 20_000 for k in range(1, 20_000)]
    made = nw.plan(nw.Histogram("x", edges), where, guarantee=nw.PureDP(3))
    truth = nw.Normal(mean=stats.norm(0, 3), sd=1.5)
    return learnt(nw.simulate(made, truth, at={"mean": 1.0}, seed=1), truth)


@long
def as_many_unknowns_as_cells():
    from scipy import stats

    import noisewise as nw

    made = nw.plan(nw.Histogram("g"), levels(20_000), guarantee=nw.PureDP(1))
    release = nw.Release.of(made, [50] * 20_000, dataset="made", ledger_head=None, simulated=True)
    return learnt(release, nw.Categorical(p=stats.dirichlet([1.0] * 20_000)))


@long
def answers_in_fifty_thousand_cells():
    import numpy as np
    from scipy import stats

    import noisewise as nw

    where = nw.Schema({"x": nw.Bounded(-6, 6)}, n=50_000, neighbours="change-one")
    edges = np.linspace(-6, 6, 50_001)[1:-1].tolist()
    made = nw.plan(nw.Records("x", cells=edges), where, guarantee=nw.PureDP(8))
    release = nw.Release.of(made, [1] * 50_000, dataset="made", ledger_head=None, simulated=True)
    return learnt(release, nw.Normal(mean=stats.norm(0, 3), sd=1.5))


def measured(name: str) -> tuple[str, float, float]:
    """What happened, the seconds of processor and the megabytes that a child process took for one case."""
    done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"killed: {done.stderr[-300:]}", float("inf"), float("inf")
    told = json.loads(done.stdout.splitlines()[-1])
    return told["what"], told["seconds"], told["megabytes"]


def main(name: str) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (90, 90))
    resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
    from noisewise import NoisewiseError

    try:
        {**QUICK, **LONG}[name]()
        what = "made"
    except NoisewiseError as error:
        what = f"{type(error).__name__}: {error}"
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = used.ru_utime + used.ru_stime
    # The peak since this program began: ru_maxrss would begin with that of the process it was forked from.
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
    print(json.dumps({"what": what, "seconds": seconds, "megabytes": peak / 1024}))


if __name__ == "__main__":
    main(sys.argv[1])
