"""graphical and graphical-mobility: their worlds against definitions, their rows against what is known beforehand."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from noisewise_papers import graphical_mobility
from noisewise_papers.graphical import STUDY, row_of
from noisewise_papers.graphical_mobility import OFF, days
from noisewise_papers.graphical_worlds import GRAPHS, METHODS, World, counted, edges_of, is_connected, released

MOBILITY = graphical_mobility.STUDY
TINY = {"nodes": 4, "states": 2, "draws": 30, "seeds": 2}


# ---- worlds ----


def test_the_graphs_are_those_of_the_print(rng: np.random.Generator) -> None:
    assert edges_of(rng, "chain", 5) == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert len(edges_of(rng, "third-order", 10)) == 9 + 8 + 7
    for _ in range(5):
        edges = edges_of(rng, "erdos-renyi", 10)
        assert is_connected(edges, 10)
        assert len(edges) >= 9
    assert not is_connected([(0, 1), (2, 3)], 4)
    assert is_connected([(2, 3), (1, 2), (0, 3)], 4)


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_divergence_is_the_sum_over_all_records(rng: np.random.Generator, graph: str) -> None:
    world = World.drawn(rng, graph, 4, 3)
    theta = rng.standard_normal(len(world.potentials))
    tables = world.engine.tables

    def log_probabilities(potentials: Any) -> Any:
        logs = [
            sum(potentials[tables.starts[r] + 3 * x[v] + x[w]] for r, (v, w) in enumerate(tables.regions))
            for x in itertools.product(range(3), repeat=4)
        ]
        return np.array(logs) - np.logaddexp.reduce(logs)

    true, other = log_probabilities(world.potentials), log_probabilities(theta)
    assert world.divergence(theta) == pytest.approx(float(np.exp(true) @ (true - other)), rel=1e-9)
    assert world.divergence(world.potentials) == pytest.approx(0, abs=1e-9)


def test_tables_of_records_are_counted_cell_by_cell(rng: np.random.Generator) -> None:
    world = World.drawn(rng, "third-order", 4, 2)
    data = world.draw(rng, 50, with_records=True)
    assert data.records is not None
    wanted = []
    for v, w in world.engine.tables.regions:
        wanted += [
            sum((x[v], x[w]) == cell for x in data.records.tolist()) for cell in itertools.product((0, 1), repeat=2)
        ]
    assert data.counts.tolist() == wanted == counted(world.engine.tables, data.records).tolist()
    assert world.draw(rng, 50, with_records=False).counts.reshape(-1, 4).sum(axis=1).tolist() == [50] * 6


@pytest.mark.parametrize(("neighbours", "sensitivity"), [("change-one", 18), ("add-remove", 9)])
def test_the_noise_is_scaled_to_two_or_one_cells_an_edge(
    rng: np.random.Generator, neighbours: str, sensitivity: int
) -> None:
    """Nine edges; sd of Laplace noise sqrt(2) Delta/epsilon, estimated from 900 cells to 25 % (1e-6: 5 sd of 4.2 %)."""
    world = World.drawn(rng, "chain", 10, 10)
    planned = world.plan(1000, 0.1, neighbours=neighbours, mechanism="laplace")
    assert planned.sensitivity is not None
    assert planned.sensitivity.value == sensitivity
    data = world.draw(rng, 1000, with_records=False)
    noise = np.array(released(rng, planned, data.counts).value) - data.counts
    assert np.std(noise) == pytest.approx(math.sqrt(2) * sensitivity / 0.1, rel=0.25)


def test_gaussian_noise_is_smaller_here(rng: np.random.Generator) -> None:
    """24 tables: L2 sensitivity sqrt(48) against an L1 of 48."""
    world = World.drawn(rng, "third-order", 10, 2)
    sds = [world.plan(1000, 0.5, neighbours="change-one", mechanism=how).noise[0].sd for how in ("gaussian", "laplace")]
    assert sds[0] is not None
    assert sds[1] is not None
    assert sds[0] < 0.5 * sds[1]


# ---- graphical ----


def test_kl_is_a_geometric_mean_with_its_error() -> None:
    row = row_of("chain", 10, 1.0, "map", [(0.1, None, 1.0), (0.4, None, 3.0)])
    assert row["kl"] == pytest.approx(0.2)
    assert row["kl_se"] == pytest.approx(0.2 * math.log(2))  # sd of two logs that are 2 log 2 apart, over sqrt 2
    assert row["coverage90"] is None
    assert row["seconds"] == 2.0
    alone = row_of("chain", 10, 1.0, "direct", [(None, 0.9, 1.0)])
    assert (alone["kl"], alone["kl_se"], alone["coverage90"]) == (None, None, 0.9)


def test_every_method_has_its_row(rng: np.random.Generator, tmp_path: Any) -> None:
    """At n epsilon = 100 noise decides: without it far nearer, and the oracle is the best of its ridges."""
    given = TINY | {"graph": "chain", "n": 5000, "epsilon": 0.02, "method": ",".join(METHODS)}
    result = STUDY.run(given, seed=int(rng.integers(2**31)), workers=1)
    assert [row["method"] for row in result.rows] == list(METHODS)
    assert all(tuple(row) == STUDY.columns for row in result.rows)
    found = {row["method"]: row for row in result.rows}
    for method, row in found.items():
        assert (row["coverage90"] is not None) == (method in ("posterior", "direct"))
        assert (row["kl"] is None) == (method == "direct")
        assert row["seconds"] >= 0
    assert found["non-private"]["kl"] < found["naive-fixed"]["kl"]
    assert found["naive-oracle"]["kl"] <= found["naive-fixed"]["kl"]
    STUDY.plot(result.rows, tmp_path / "graphical.png")
    assert (tmp_path / "graphical.png").stat().st_size > 10_000


def test_almost_endless_records_tell_the_truth(rng: np.random.Generator) -> None:
    """10^9 of them, on every graph: (parameters)/2n is 1e-8, and a ridge of 1e-6 adds its square's worth."""
    given = TINY | {"graph": ",".join(GRAPHS), "n": 10**9, "epsilon": "1,2", "method": "non-private,naive"}
    rows = STUDY.run(given, seed=int(rng.integers(2**31)), workers=1).rows
    assert [(row["graph"], row["epsilon"]) for row in rows[::2]] == list(itertools.product(GRAPHS, (1.0, 2.0)))
    assert all(row["kl"] < 1e-4 for row in rows)


def test_other_noise_and_neighbours_can_be_asked_for(rng: np.random.Generator) -> None:
    given = TINY | {
        "n": 2000,
        "epsilon": 1,
        "neighbours": "add-remove",
        "mechanism": "gaussian",
        "method": "map,direct",
    }
    rows = STUDY.run(given, seed=int(rng.integers(2**31)), workers=1).rows
    assert [row["method"] for row in rows] == ["map", "direct"]
    assert {"graph", "nodes", "states", "n", "epsilon", "seeds", "neighbours", "mechanism"} <= set(STUDY.settings)


def test_the_note_counts_what_the_rows_say() -> None:
    def rows(n: int, **kl: float) -> list[dict[str, Any]]:
        shared = {"graph": "chain", "n": n, "epsilon": 0.5, "kl_se": None, "seconds": 1.0}
        held = {"posterior": 0.85}
        return [shared | {"method": name.replace("_", "-"), "kl": value, "coverage90": held.get(name)}
                for name, value in kl.items()]  # fmt: skip

    few = rows(1000, posterior=9.0, naive_oracle=1.0, collective=1.0, naive_fixed=100.0)
    some = rows(10_000, posterior=0.9, naive_oracle=1.0, collective=2.0, naive_fixed=1.0)
    more = rows(1_000_000, posterior=1.6, naive_oracle=1.0, collective=0.5, naive_fixed=1.0)
    said = STUDY.note([*few, *some, *more])
    assert "Over 2 cells with n epsilon >= 5000 the divergence of posterior is 1.20 times" in said
    assert "hold 0.850 or more, and 0.850 on average from n epsilon = 50000 on" in said
    assert "beats naive-fixed in 2 of 3 cells" in said
    assert "beats naive-oracle in 1 of 3 cells" in said


# ---- graphical-mobility ----


def test_days_are_mostly_off_and_alike_at_every_hour(rng: np.random.Generator) -> None:
    found = days(rng, 20_000, 12, 8)
    assert found.shape == (20_000, 12)
    assert found.min() == 0
    assert found.max() == 8
    share = (found == 0).mean(axis=0)  # sd 0.0025
    assert np.all((share > 0.8) & (share < 0.9))


def test_the_table_of_steps_has_sensitivity_two_whatever_the_day(rng: np.random.Generator) -> None:
    from noisewise.graphical.model import GraphicalModel

    people = days(rng, 400, 5, 3)
    model = GraphicalModel.chain([f"h{k}" for k in range(5)], [OFF, "a", "b", "c"], tied=True)
    settings = {"empty": "left-out", "neighbours": "change-one", "mechanism": "laplace"}
    (steps, first), sizes = graphical_mobility.releases_of(rng, model, people, 1.0, settings)
    assert sizes == [360, 40]
    for release in (steps, first):
        change = release.statistic.sensitivity(release.schema, norm=1).value
        assert float(change) / release.divisor == 2
    assert steps.part is not None
    assert first.part is not None
    assert steps.part[1] == first.part[0]


def test_unseen_days_are_likelier_without_privacy(rng: np.random.Generator, tmp_path: Any) -> None:
    """At epsilon = 0.02 the noise on a cell has sd 140 where 720 people share 16 cells."""
    given = {"n": 800, "hours": 4, "places": 3, "epsilon": "0.02,50", "method": "naive,non-private", "empty": "counted"}
    result = MOBILITY.run(given, seed=int(rng.integers(2**31)), workers=1)
    assert all(tuple(row) == MOBILITY.columns for row in result.rows)
    found = {(row["epsilon"], row["method"]): row["loglik"] for row in result.rows}
    assert found[0.02, "naive"] < found[50.0, "naive"]
    assert found[0.02, "naive"] < found[0.02, "non-private"] == found[50.0, "non-private"]
    MOBILITY.plot(result.rows, tmp_path / "mobility.png")
    assert (tmp_path / "mobility.png").stat().st_size > 5_000
    assert "not public" in MOBILITY.note(result.rows)


def test_a_table_that_is_all_noise_gives_no_row_of_numbers(rng: np.random.Generator, tmp_path: Any) -> None:
    """A table with so much noise adds up to 3 sd in one world of 500: in all of three worlds, in fewer than 1e-7."""
    given = {"n": 100, "hours": 4, "places": 3, "epsilon": 1e-4, "seeds": 3, "method": "map,non-private"}
    rows = MOBILITY.run(given | {"empty": "left-out"}, seed=int(rng.integers(2**31)), workers=1).rows
    assert rows[0]["loglik"] is None
    assert rows[0]["loglik_se"] is None
    assert rows[1]["loglik"] is not None
    MOBILITY.plot(rows, tmp_path / "mobility.png")
    assert "map" not in MOBILITY.note(rows)


def test_every_method_learns_the_days(rng: np.random.Generator) -> None:
    given = {"n": 2000, "hours": 4, "places": 3, "epsilon": 5, "seeds": 1, "draws": 30}
    rows = MOBILITY.run(given, seed=int(rng.integers(2**31)), workers=1).rows
    found = {row["method"]: row["loglik"] for row in rows}
    assert set(found) == {"naive", "collective", "map", "posterior", "dp-sgd", "non-private"}
    uniform = -4 * math.log(4)
    assert all(value > uniform for value in found.values())
