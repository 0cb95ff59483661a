"""What a release costs beside the work it cannot avoid: one table of ratios, measured in one run.

    python benchmarks/release.py [ROWS]          ROWS defaults to 10 000 000

Each line sets what Noisewise does beside what one would write by hand for the same answer, on the same file, in turns,
and takes the best of several rounds of each. Parts run in processes of their own, so that peak memory is theirs alone.
A slow machine makes the numbers larger and the ratios noisier; nothing fails because of it. Only sums that are not
bit-identical end the program with an error.
"""

from __future__ import annotations

import contextlib
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

LOW, HIGH = 0.0, 250.0
FEATURES = 14
REGIONS = ["north", "south", "east", "west"]
ROUNDS = 7
FULL = 10**7
CARE = {"full": "same cleaning", "values": "values clamped only", "none": "no cleaning"}

Row = tuple[str, str, str, str]  # what, measured, beside it, verdict


def best_in_turns(acts: dict[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, float]:
    """The shortest time of each act, taken in turns so that a busy moment falls on all of them."""
    times = dict.fromkeys(acts, math.inf)
    for _ in range(rounds):
        for name, act in acts.items():
            start = time.perf_counter()
            act()
            times[name] = min(times[name], time.perf_counter() - start)
    return times


def run_query(connection: Any, query: str) -> Any:
    return connection.execute(query).fetchall()


def timed(act: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = act()
    return result, time.perf_counter() - start


# --- records ----------------------------------------------------------------------------------------------------------


def write_records(folder: Path, rows: int) -> None:
    """One column of `rows` doubles, the same shuffled, and a wide table a hundredth as long."""
    import duckdb

    uniform = "(hash(i, {k}) / 18446744073709551616.0::DOUBLE)"
    x = f"{HIGH}::DOUBLE * {uniform.format(k=0)} AS x"
    wide = ", ".join(f"2 * {uniform.format(k=k + 1)} - 1 AS c{k}" for k in range(FEATURES + 1))
    connection = duckdb.connect()
    for name, columns, count, order in (
        ("tall", x, rows, ""),
        ("shuffled", x, rows, f"ORDER BY {uniform.format(k=99)}"),
        ("regions", f"{x}, ({REGIONS!r})[1 + i % 4] AS region", rows, ""),
        ("wide", wide, max(1, rows // 100), ""),
    ):
        connection.execute(
            f"COPY (SELECT {columns} FROM range({count}) AS t(i) {order}) TO '{folder / name}.parquet' (FORMAT parquet)"
        )


def tall_plan(rows: int) -> Any:
    import noisewise as nw

    schema = nw.Schema({"x": nw.Bounded(LOW, HIGH)}, n=rows, neighbours="change-one")
    x = nw.column("x")
    return nw.plan(nw.Mean(x, x**2), schema, guarantee=nw.PureDP(1))


def by_hand(plan: Any, file: Path, care: str) -> str:
    """SQL for the same integers, with more or less care for what a file may hold.

    "full" fills nulls and NaN, clamps values and then integers, as Noisewise does; "values" leaves the integers;
    "none" trusts the file, and gives the same integers only because this one holds nothing wrong.
    """
    x = f"'{file}'"
    if care != "none":
        cleaned = (
            f"CASE WHEN x IS NULL OR isnan(x) OR x < {LOW}::DOUBLE THEN {LOW}::DOUBLE "
            f"WHEN x > {HIGH}::DOUBLE THEN {HIGH}::DOUBLE ELSE x END AS x"
        )
        x = f"(SELECT {cleaned} FROM '{file}')"
    steps = [
        f"CAST(floor({value} * {1 / step!r}::DOUBLE + 0.5::DOUBLE) AS BIGINT)"
        for value, step in zip(("x", "x * x"), plan.lattice.step, strict=True)
    ]
    if care == "full":
        steps = [
            f"CASE WHEN {s} < {low} THEN {low} WHEN {s} > {high} THEN {high} ELSE {s} END"
            for s, low, high in zip(steps, plan.lattice.low, plan.lattice.high, strict=True)
        ]
    return f"SELECT count(*), {', '.join(f'sum({s})' for s in steps)} FROM {x}"


# --- the parts, each in its own process -------------------------------------------------------------------------------


def part_sums(folder: Path, rows: int) -> Iterator[Row]:
    """Mean(x, x**2): lattice sums beside hand-written SQL."""
    import duckdb

    import noisewise as nw
    from noisewise.holder.evaluate import lattice_values

    plan, file = tall_plan(rows), folder / "tall.parquet"
    table = nw.Table.read(file, plan.schema)
    hand = duckdb.connect()
    queries = {care: by_hand(plan, file, care) for care in CARE} | {"plain": f"SELECT sum(x) FROM '{file}'"}
    acts = {name: partial(run_query, hand, query) for name, query in queries.items()}
    times = best_in_turns({"ours": lambda: lattice_values(table, plan), **acts})
    aim = 1.5 if rows >= FULL else None  # on small files fixed costs rule
    for care, words in CARE.items():
        yield ratio_row("sums of x and x**2", times["ours"], f"SQL by hand, {words}", times[care], aim)
    yield ratio_row("sums of x and x**2", times["ours"], "SELECT sum(x)", times["plain"], None)


def part_groups(folder: Path, rows: int) -> Iterator[Row]:
    """Mean(x, by="region"): one scan, beside hand-written GROUP BY with the same cleaning."""
    import duckdb

    import noisewise as nw
    from noisewise.holder.evaluate import lattice_values

    file = folder / "regions.parquet"
    schema = nw.Schema({"x": nw.Bounded(LOW, HIGH), "region": nw.Levels(REGIONS)}, n=rows, neighbours="change-one")
    plan = nw.plan(nw.Mean(nw.column("x"), by="region"), schema, guarantee=nw.PureDP(1))
    table, hand = nw.Table.read(file, schema), duckdb.connect()
    step, low, high = plan.lattice.step[1], plan.lattice.low[1], plan.lattice.high[1]
    codes = " ".join(f"WHEN '{name}' THEN {k}" for k, name in enumerate(REGIONS))
    cleaned = (
        f"SELECT CASE WHEN x IS NULL OR isnan(x) OR x < {LOW}::DOUBLE THEN {LOW}::DOUBLE "
        f"WHEN x > {HIGH}::DOUBLE THEN {HIGH}::DOUBLE ELSE x END AS x, CASE region {codes} END AS region FROM '{file}'"
    )
    rounded = f"CAST(floor(x * {1 / step!r}::DOUBLE + 0.5::DOUBLE) AS BIGINT)"
    clamped = f"CASE WHEN {rounded} < {low} THEN {low} WHEN {rounded} > {high} THEN {high} ELSE {rounded} END"
    query = f"SELECT region, count(*), sum({clamped}) FROM ({cleaned}) GROUP BY region ORDER BY region"
    times = best_in_turns({"ours": lambda: lattice_values(table, plan), "hand": partial(run_query, hand, query)})
    ours = lattice_values(table, plan)
    theirs = [
        value for _, count, total in run_query(hand, query) for value in (int(count / plan.lattice.step[0]), total)
    ]
    is_same = list(ours) == [int(value) for value in theirs]
    aim = 1.5 if rows >= FULL else None
    yield ratio_row("means of x by region", times["ours"], "GROUP BY by hand, same cleaning", times["hand"], aim)
    yield "means by region, bit by bit", "ours", "by hand", "identical" if is_same else "DIFFERENT"


def part_identical(folder: Path, rows: int) -> Iterator[Row]:
    """The sums on the file, on a shuffled copy, and in Python integers."""
    import duckdb

    import noisewise as nw
    from noisewise.holder.evaluate import lattice_values

    plan = tall_plan(rows)
    found = [
        lattice_values(nw.Table.read(folder / f"{name}.parquet", plan.schema), plan) for name in ("tall", "shuffled")
    ]
    first, second = (1 / step for step in plan.lattice.step)
    expected = [0, 0]
    reader = duckdb.connect().execute(f"SELECT x FROM '{folder / 'tall.parquet'}'")
    while chunk := reader.fetchmany(500_000):
        expected[0] += sum(math.floor(x * first + 0.5) for (x,) in chunk)
        expected[1] += sum(math.floor(x * x * second + 0.5) for (x,) in chunk)
    is_same = found[0] == found[1] == tuple(expected)
    yield "sums, bit by bit", "file and shuffled copy", "Python integers", "identical" if is_same else "DIFFERENT"


def part_release(folder: Path, rows: int) -> Iterator[Row]:
    """The whole way from file to stored release."""
    import duckdb

    import noisewise as nw

    plan, file = tall_plan(rows), folder / "tall.parquet"
    hand = duckdb.connect()
    alone = best_in_turns({"hand": partial(run_query, hand, by_hand(plan, file, "full"))}, rounds=3)["hand"]
    table, reading = timed(lambda: nw.Table.read(file, plan.schema))
    ledger = nw.Ledger.open(folder / "tall.ledger", limit=nw.PureDP(1))
    _, releasing = timed(lambda: nw.make_release(table, plan, ledger=ledger))
    yield ratio_row("Table.read, engine loaded, all checked", reading, f"SQL by hand, {CARE['full']}", alone, None)
    yield ratio_row("make_release, with fingerprint", releasing, f"SQL by hand, {CARE['full']}", alone, None)
    yield memory_row("memory of that process")


def part_median(folder: Path, rows: int) -> Iterator[Row]:
    """A median with smooth sensitivity."""
    import duckdb

    import noisewise as nw

    file = folder / "tall.parquet"
    schema = tall_plan(rows).schema
    table = nw.Table.read(file, schema)
    ledger = nw.Ledger.open(folder / "median.ledger", limit=nw.PureDP(100))
    table.fingerprint(ledger.fingerprint_key())
    hand = duckdb.connect()
    prices = iter(range(1, 100))
    times = best_in_turns(
        {
            "ours": lambda: nw.make_release(
                table, nw.plan(nw.Median("x"), schema, guarantee=nw.PureDP(f"{next(prices)}/2")), ledger=ledger
            ),
            "hand": lambda: hand.execute(f"SELECT quantile_disc(x, 0.5) FROM '{file}'").fetchall(),
        },
        rounds=3,
    )
    yield ratio_row("median release (smooth-cauchy)", times["ours"], "quantile_disc(x, 0.5)", times["hand"], None)
    yield memory_row("memory of that process")


def part_moments(folder: Path, rows: int) -> Iterator[Row]:
    """All products of fourteen features, a response and the intercept."""
    import duckdb

    import noisewise as nw

    n = max(1, rows // 100)
    columns = [f"c{k}" for k in range(FEATURES + 1)]
    schema = nw.Schema({name: nw.Bounded(-1, 1) for name in columns}, n=n, neighbours="change-one")
    statistic = nw.Moments(columns[:-1], columns[-1], shrink=2)
    plan, planning = timed(lambda: nw.plan(statistic, schema, guarantee=nw.GaussianDP(1)))
    table, reading = timed(lambda: nw.Table.read(folder / "wide.parquet", schema))
    ledger = nw.Ledger.open(folder / "wide.ledger", limit=nw.GaussianDP(1))
    _, releasing = timed(lambda: nw.make_release(table, plan, ledger=ledger))
    products = [f"sum({a} * {b})" for i, a in enumerate(columns) for b in columns[i:]]
    sums = ", ".join([*(f"sum({name})" for name in columns), *products])
    hand = duckdb.connect()
    query = f"SELECT {sums} FROM '{folder / 'wide.parquet'}'"
    alone = best_in_turns({"hand": lambda: hand.execute(query).fetchall()}, rounds=3)["hand"]
    what = f"moments of {FEATURES} features, {n} rows"
    beside = f"{len(columns) + len(products)} sums by hand, in floats"
    yield ratio_row(f"{what}: plan", planning, beside, alone, None)
    yield ratio_row(f"{what}: read, engine loaded", reading, beside, alone, None)
    yield ratio_row(f"{what}: release", releasing, beside, alone, None)


def part_start(_folder: Path, _rows: int) -> Iterator[Row]:
    """How long it takes until something can be asked."""

    def run(*arguments: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, *arguments], capture_output=True, check=True)

    show_help = "import sys; sys.argv = ['noisewise', '--help']\nfrom noisewise.cli.main import main\nmain()"
    times = best_in_turns(
        {
            "numpy": run("-c", "import numpy"),
            "import": run("-c", "import noisewise"),
            "help": run("-c", show_help),
            "typer": run("-c", "import typer, rich.console"),
        },
        rounds=5,
    )
    yield ratio_row("import noisewise", times["import"], "import numpy", times["numpy"], 1)
    yield ratio_row("noisewise --help", times["help"], "import typer, rich", times["typer"], 2)


PARTS: dict[str, Callable[[Path, int], Iterator[Row]]] = {
    "sums": part_sums,
    "groups": part_groups,
    "identical": part_identical,
    "release": part_release,
    "median": part_median,
    "moments": part_moments,
    "start": part_start,
}


# --- the table --------------------------------------------------------------------------------------------------------


def ratio_row(what: str, ours: float, beside: str, theirs: float, aim: float | None) -> Row:
    ratio = ours / theirs
    verdict = f"x {ratio:.2f}"
    if aim is not None:
        verdict += f"   aim <= {aim:g}: {'met' if ratio <= aim else 'NOT MET'}"
    return what, f"{ours:.3f} s", f"{theirs:.3f} s  {beside}", verdict


def memory_row(what: str) -> Row:
    """The largest memory this process ever had (kilobytes on Linux, bytes on macOS)."""
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30
    return what, f"{peak:.2f} GB", "", f"aim < 1 GB: {'met' if peak < 1 else 'NOT MET'}"


def run_part(name: str, folder: Path, rows: int) -> list[Row]:
    """The rows of one part, measured in a process of its own; a part that cannot run says why."""
    command = [sys.executable, __file__, "--part", name, str(folder), str(rows)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["it was stopped"])[-1]
        return [(name, "", "", f"not measured: {reason}")]
    return [tuple(row) for row in json.loads(done.stdout)]


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--part"]:
        name, folder, rows = arguments[1:]
        print(json.dumps(list(PARTS[name](Path(folder), int(rows)))))
        return 0
    rows = int(float(arguments[0])) if arguments else FULL
    with tempfile.TemporaryDirectory(prefix="noisewise-benchmark-") as name:
        folder = Path(name)
        _, writing = timed(lambda: write_records(folder, rows))
        print(f"{rows} records, written in {writing:.1f} s; each time is the best of several, taken in turns.\n")
        found = [row for part in PARTS for row in run_part(part, folder, rows)]
    widths = [max(len(row[k]) for row in found) for k in range(3)]
    for row in found:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False))
        print("  ".join([*cells, row[3]]))
    return 1 if any("DIFFERENT" in row[3] for row in found) else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
