"""Graphical models: every method's time for one fit, beside the published loop in plain NumPy, on one release, one run.

    OMP_NUM_THREADS=1 python benchmarks/graphical.py [GRAPH ...] [n=100000] [epsilon=0.5] [draws=200] [seed=1]
    graphs: chain (10 columns, 10 levels) and third-order (10 columns, 4 levels); both by default

The plain loop is the EM of Bernstein et al. (2017) as printed (Bernstein 2020, Algorithms 1 and 2): the E-step by
non-linear belief propagation with damping 0.1 and the subgradient sign(y - n)/b, until no table moves by more than
1e-4 of the noise or 200 passes are done; the M-step by L-BFGS; belief propagation in NumPy on the same junction tree,
table by table on the log scale, as anyone would write it. Ours solves the E-step's dual by the compiled engine, and has
no M-step to do. Both take the steps that our stopping rule takes; the plain loop is timed over its first three and
scaled.

Two duals are also solved by our descent and by L-BFGS-B, side by side. What an E-step is worth is told by its gap: how
far theta . n + H(n) + log p(y | n) is below its maximum, in nats. mbi (private-pgm) is no dependency; where it is
installed its mirror descent is run on the same tables, later calls apart from the first, which compiles. Seconds are of
the processor, over all threads.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from command import asked, say_load
from scipy import optimize

from noisewise.graphical import empirical_bayes, matrix_free
from noisewise.graphical.box_descent import MEMORY, least
from noisewise.graphical.problem import Holder, Problem
from noisewise.graphical.structure import Regions, junction_tree
from noisewise.published.graphical import collective, naive
from noisewise_papers.graphical_worlds import RIDGES, Case, World, posterior_tables

GRAPHS = ("chain", "third-order")
SETTINGS = {"n": "100000", "epsilon": "0.5", "draws": "200", "seed": "1"}
DAMPING, PASSES, SETTLED, TIMED_STEPS = 0.1, 200, 1e-4, 3
Floats = np.ndarray[Any, np.dtype[np.float64]]


# --- the published loop, in plain NumPy -------------------------------------------------------------------------------


class PlainPropagation:
    """Belief propagation on a junction tree, one NumPy array a clique."""

    def __init__(self, tables: Regions) -> None:
        self.tables, self.tree = tables, junction_tree(tables)

    def __call__(self, potentials: Floats) -> tuple[float, Floats]:
        """A and the probability of every cell."""
        cliques, parents = self.tree.cliques, self.tree.parents
        beliefs = [np.zeros(self.tables.shape(clique)) for clique in cliques]
        for r, home in enumerate(self.tree.homes):
            region = self.tables.regions[r]
            table = potentials[self.tables.part(r)].reshape(self.tables.shape(region))
            beliefs[home] = beliefs[home] + self.spread(table, region, cliques[home])
        messages: list[Floats] = [np.zeros(())] * len(cliques)
        for k in range(len(cliques) - 1, 0, -1):
            messages[k] = self.summed(beliefs[k], cliques[k], self.tree.separator(k))
            beliefs[parents[k]] = beliefs[parents[k]] + self.spread(
                messages[k], self.tree.separator(k), cliques[parents[k]]
            )
        total = float(self.summed(beliefs[0], cliques[0], ()))
        for k in range(1, len(cliques)):
            down = self.summed(beliefs[parents[k]], cliques[parents[k]], self.tree.separator(k)) - messages[k]
            beliefs[k] = beliefs[k] + self.spread(down, self.tree.separator(k), cliques[k])
        mu = [
            np.exp(self.summed(beliefs[home], cliques[home], self.tables.regions[r]) - total).ravel()
            for r, home in enumerate(self.tree.homes)
        ]
        return total, np.concatenate(mu)

    def spread(self, table: Floats, inner: tuple[int, ...], clique: tuple[int, ...]) -> Floats:
        order = sorted(range(len(inner)), key=lambda a: clique.index(inner[a]))
        shape = [self.tables.states[v] if v in inner else 1 for v in clique]
        return table.transpose(order).reshape(shape)

    def summed(self, table: Floats, clique: tuple[int, ...], inner: tuple[int, ...]) -> Floats:
        """log sum exp over the variables of the clique that are not in `inner`."""
        axes = tuple(a for a, v in enumerate(clique) if v not in inner)
        top = table.max(axis=axes, keepdims=True)
        left = [v for v in clique if v in inner]
        found = (np.log(np.exp(table - top).sum(axis=axes, keepdims=True)) + top).reshape(
            [self.tables.states[v] for v in left]
        )
        return found.transpose([left.index(v) for v in inner])


def printed_e_step(propagate: PlainPropagation, theta: Floats, y: Floats, b: float, n: float) -> tuple[Floats, int]:
    """Algorithm 1: the tables, and the passes they took."""
    tables = n * propagate(theta)[1]
    passes, step = 0, np.full(1, np.inf)
    while passes < PASSES and np.abs(step).max() >= DAMPING * SETTLED * b:
        moved = theta + np.sign(y - tables) / b
        other = n * propagate(moved)[1]
        step = DAMPING * (other - tables)
        tables, passes = tables + step, passes + 1
    return tables, passes


def printed_m_step(propagate: PlainPropagation, theta: Floats, tables: Floats, n: float) -> Floats:
    """argmax theta . n - N A(theta)."""

    def loss(theta: Floats) -> tuple[float, Floats]:
        total, mu = propagate(theta)
        return total - theta @ tables / n, mu - tables / n

    options = {"maxiter": 5000, "maxfun": 10_000, "maxcor": 20, "ftol": 0.0, "gtol": 1e-6}
    return optimize.minimize(loss, theta, jac=True, method="L-BFGS-B", options=options).x


# --- measuring --------------------------------------------------------------------------------------------------------


def timed(act: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = act()
    return result, time.process_time() - start


def best_of(act: Callable[[], Any], rounds: int = 3) -> tuple[Any, float]:
    """The result, and the best time of a few runs after one that loads compiled functions."""
    act()
    runs = [timed(act) for _ in range(rounds)]
    return runs[0][0], min(seconds for _, seconds in runs)


def worth(problem: Problem, holder: Holder, theta: Floats, tables: Floats) -> float:
    """theta . n + H(n) - |y - n|/b for tables of some model."""
    own = printed_m_step(PlainPropagation(problem.engine.tables), theta, tables, holder.n)
    entropy = holder.n * problem.engine.marginals(own)[0] - own @ tables  # least at the model with these tables
    return float(theta @ tables + entropy - np.sum(np.abs(holder.observed - tables) / holder.scale))


def propagation_rows(case: Case) -> tuple[float, float]:
    """Seconds of one pass, compiled and plain; both must agree."""
    engine, plain = case.world.engine, PlainPropagation(case.world.engine.tables)
    theta = case.world.potentials
    ours, seconds = best_of(lambda: [engine.marginals(theta) for _ in range(100)])
    theirs, slow = best_of(lambda: [plain(theta) for _ in range(20)])
    assert np.allclose(ours[0][1], theirs[0][1], atol=1e-9), "the plain propagation is wrong"
    return seconds / 100, slow / 20


class Counted:
    """A function that counts its calls."""

    def __init__(self, function: Callable[[Floats], Any]) -> None:
        self.function, self.calls = function, 0

    def __call__(self, x: Floats) -> Any:
        self.calls += 1
        return self.function(x)


def compare_descents(case: Case) -> None:
    """The E-step's dual at 0 and at the fit, from the middle of its box: our descent, and L-BFGS-B of SciPy.

    Both remember as many steps, and end once x - cut(x - slope) is at most the tolerance in every coordinate.
    """
    problem, (holder,) = case.problem, case.problem.holders
    end, start, tolerance = collective.reach(holder), np.zeros(len(holder.observed)), collective.TOLERANCE
    options = {"maxiter": 2000, "maxfun": 10_000, "maxcor": MEMORY, "ftol": 0.0, "gtol": tolerance}

    def ours(dual: Callable[[Floats], Any]) -> float:
        return least(dual, start, reach=end, tolerance=tolerance).value

    def by_scipy(dual: Callable[[Floats], Any]) -> float:
        bounds = optimize.Bounds(-end, end)
        return float(optimize.minimize(lambda x: dual(x)[:2], start, jac=True, method="L-BFGS-B", bounds=bounds,
                                       options=options).fun)  # fmt: skip

    for place, theta in (("at 0", np.zeros(problem.parameters)), ("at the fit", collective.fit(problem).theta)):
        dual = collective.dual(problem, holder, theta)
        rows = []
        for descend in (ours, by_scipy):
            value, seconds = best_of(partial(descend, dual))
            descend(counted := Counted(dual))
            rows.append((value, seconds, counted.calls))
        (lowest, fast, few), (other, slow, many) = rows
        print(f"  the dual {place}: {1e3 * fast:.1f} ms, {few} passes; L-BFGS-B {1e3 * slow:.1f} ms, {many} passes, "
              f"{slow / fast:.1f} x ours, {other - lowest:+.1g} nats higher")  # fmt: skip


def compare_em(case: Case) -> None:
    """Our EM and the printed one, step for step."""
    problem, (holder,) = case.problem, case.problem.holders
    plain, b = PlainPropagation(problem.engine.tables), float(holder.scale[0])
    fit, ours = best_of(lambda: collective.fit(problem))
    print(f"  collective, dual E-step: {ours:8.2f} s, {fit.steps} steps, KL {case.world.divergence(fit.theta):.4f}")
    _, middle = timed(lambda: collective.fit(problem, steps=TIMED_STEPS, inference="nlbp"))
    theta, spent, passes = np.zeros(problem.parameters), 0.0, []
    for _ in range(TIMED_STEPS):
        (tables, count), seconds = timed(lambda theta=theta: printed_e_step(plain, theta, holder.observed, b, holder.n))
        passes.append(count)
        before = theta
        theta, more = timed(lambda theta=theta, tables=tables: printed_m_step(plain, theta, tables, holder.n))
        spent += seconds + more
    exact = collective.complete(problem, holder, before)
    gap = exact.value - worth(problem, holder, before, tables)
    slow, middle = (seconds / TIMED_STEPS * fit.steps for seconds in (spent, middle))
    print(f"  as printed, compiled:    {middle:8.2f} s, {middle / ours:6.1f} x ours")
    print(
        f"  as printed, plain loop:  {slow:8.2f} s, {slow / ours:6.1f} x ours; {np.mean(passes):.0f} passes an E-step"
    )
    own = exact.value - worth(problem, holder, before, exact.tables)
    print(f"    gap of an E-step, in nats: ours {max(own, 0):.2g}, as printed {max(gap, 0):.2g}")


def compare_methods(case: Case, rng: np.random.Generator) -> None:
    """One fit by every method."""
    problem, world = case.problem, case.world
    _, base = best_of(lambda: naive.fit(problem))
    rows = [
        ("naive, by the rule", lambda: naive.fit(problem).theta),
        ("naive, 13 ridges", lambda: min((naive.fit(problem, ridge=r).theta for r in RIDGES), key=world.divergence)),
        ("map", lambda: matrix_free.estimate(problem).theta),
        ("map, by matrices", lambda: empirical_bayes.fit(problem).theta),
        (f"posterior, 4 x {case.draws} draws", lambda: posterior_tables(rng, problem, case.draws)[0]),
    ]
    for name, act in rows:
        theta, seconds = timed(act) if name.startswith("posterior") else best_of(act, 1)
        print(f"  {name:<24} {seconds:8.2f} s, {seconds / base:6.1f} x naive, KL {world.divergence(theta):.4f}")


def compare_mbi(case: Case) -> None:
    """mbi (private-pgm) on the same tables: its mirror descent as it comes, in double precision, and twice as long."""
    if importlib.util.find_spec("mbi") is None:
        print("  mbi (private-pgm) is not installed: not timed.")
        return
    import jax

    jax.config.update("jax_enable_x64", True)
    import mbi

    problem, model = case.problem, case.world.model
    (holder,) = problem.holders
    cells = holder.back(holder.observed)  # each published cell at its place among the model's
    spread = np.sqrt(holder.back(holder.variance))
    tables = problem.engine.tables
    parts = [tables.part(r) for r in range(len(tables.regions))]
    domain = mbi.Domain(list(model.columns), list(tables.states))
    measured = [
        mbi.LinearMeasurement(cells[part], clique, stddev=float(spread[part][0]))
        for part, clique in zip(parts, model.cliques, strict=True)
    ]

    def fit(steps: int) -> Floats:
        found = mbi.estimation.MirrorDescent().estimate(domain, measured, known_total=float(holder.n), iters=steps)
        potentials = [np.asarray(found.potentials[clique].project(clique).values) for clique in model.cliques]
        return np.concatenate([table.ravel() for table in potentials])

    for steps in (1000, 2000):
        first, later = timed(lambda steps=steps: fit(steps)), timed(lambda steps=steps: fit(steps))
        print(
            f"  mbi, mirror descent {steps:5}: {later[1]:8.3f} s ({first[1]:.2f} s at first), "
            f"KL {case.world.divergence(later[0]):.4f}"
        )


def main() -> None:
    graphs, given = asked(GRAPHS, SETTINGS)
    settings = {name: float(value) for name, value in given.items()}
    for graph in graphs:
        rng = np.random.default_rng(int(settings["seed"]))
        world = World.drawn(rng, graph, 10, None)
        case = Case.drawn(
            rng, world, int(settings["n"]), settings["epsilon"], neighbours="change-one", mechanism="laplace",
            draws=int(settings["draws"]), with_records=False,
        )  # fmt: skip
        print(f"{graph}: {len(world.model.cliques)} edges, {len(world.potentials)} potentials, n = {case.data.n}, "
              f"epsilon = {case.epsilon:g}")  # fmt: skip
        fast, slow = propagation_rows(case)
        print(f"  a pass: {1e6 * fast:.0f} us compiled, {1e6 * slow:.0f} us in NumPy, {slow / fast:.1f} x")
        compare_descents(case)
        compare_em(case)
        compare_methods(case, rng)
        compare_mbi(case)
    say_load()


if __name__ == "__main__":
    main()
