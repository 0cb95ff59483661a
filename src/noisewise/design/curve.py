"""What budget and records buy: the predicted posterior sd of every candidate against epsilon and n.

Each point is `precision.predicted_sd` of one plan, so what is said there holds here: right where sampling outweighs the
noise or sums have Laplace noise, too hopeful where the noise of an order statistic outweighs everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from textwrap import wrap
from typing import Any

import numpy as np

from noisewise.design.belief import Belief, believe
from noisewise.design.precision import FEWER_DRAWS, guarantee_maker, predicted
from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.exact import fraction, integer
from noisewise.inference.progress import shown
from noisewise.laws import Form
from noisewise.planning import Plan, plan
from noisewise.privacy.guarantee import ApproxDP
from noisewise.schema import LARGEST_N, Schema, checked_schema, replace_n
from noisewise.statistics import Statistic
from noisewise.statistics.order import OrderStatistic

LEGEND_WIDTH = 48


@dataclass(frozen=True, slots=True, eq=False)
class DesignCurve:
    """Predicted sd of each parameter: one row a candidate, budget and n."""

    rows: tuple[Mapping[str, Any], ...]  # statistic, mechanism, guarantee, epsilon, n, and sd by parameter
    parameters: tuple[str, ...]
    before: Mapping[str, float]  # the sd believed before any release
    words: str

    def __str__(self) -> str:
        heading = ("release", "price", "n", *(f"sd of {name}" for name in self.parameters))
        cells = [heading]
        for row in self.rows:
            sd = (f"{row['sd'][name]:.4g}" for name in self.parameters)
            cells.append((f"{row['statistic']} by {row['mechanism']}", row["guarantee"], str(row["n"]), *sd))
        cells.append(("(before any release)", "", "", *(f"{self.before[name]:.4g}" for name in self.parameters)))
        widths = [max(len(row[k]) for row in cells) for k in range(len(heading))]
        sides = ["<", "<", *[">"] * (len(heading) - 2)]
        lines = [
            "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)).rstrip()
            for row in cells
        ]
        if any(row["mechanism"] == "smooth-cauchy" for row in self.rows):
            lines.append("Under Cauchy noise the posterior is wider than predicted, by half or more; see simulated_sd.")
        return "\n".join([f"Predicted posterior sd, {self.words}.", *lines])

    def plot(self, path: str | PathLike[str] | None = None) -> bytes:
        """Predicted sd against the budget, or against n where only one budget was asked for."""
        from noisewise.report.plots import curve_plot

        budgets, sizes = (sorted({row[key] for row in self.rows}) for key in ("epsilon", "n"))
        x, other = ("epsilon", "n") if len(budgets) > 1 or len(sizes) == 1 else ("n", "epsilon")
        several = len(sizes if x == "epsilon" else budgets) > 1
        groups: dict[str, list[Mapping[str, Any]]] = {}
        for row in self.rows:
            name = f"{row['statistic']} by {row['mechanism']}" + (f", {other} = {row[other]:g}" if several else "")
            groups.setdefault(name, []).append(row)
        curves = [
            {
                "name": "\n".join(wrap(name, LEGEND_WIDTH)),
                "x": [row[x] for row in rows],
                "y": [row["sd"][parameter] for row in rows],
                "marks": True,
                "panel": parameter if len(self.parameters) > 1 else "",
            }
            for parameter in self.parameters
            for name, rows in groups.items()
        ]
        label = "n" if x == "n" else self.rows[0]["budget"]
        y_label = "predicted sd" if len(self.parameters) > 1 else f"predicted sd of {self.parameters[0]}"
        return curve_plot(curves, path, x_label=label, y_label=y_label, log_x=True, log_y=True)


def design_curve(
    candidates: Any,
    population: Any,
    schema: Schema | None = None,
    *,
    epsilon: Sequence[Any],
    n: Sequence[int] | None = None,
    kind: str = "pure",
    delta: Any = None,
    at: Any = None,
    likelihood: str = "auto",
    seed: int | None = None,
    draws: int | None = None,
    progress: Any = True,
) -> DesignCurve:
    """Predicted posterior sd for every candidate, budget and number of records.

    Parameters
    ----------
    candidates
        Statistics (with a schema), or plans, whose own schema, mechanism, weights and kind of guarantee are kept while
        their budget and n are moved.
    population
        What is believed of the records, with a prior for each unknown.
    schema
        Of statistics. Default None.
    epsilon
        Budgets: epsilon, rho or mu.
    n
        Numbers of records; under add-remove it must be given, up to n_max. Default None: the schema's.
    kind, delta
        Of statistics: as for `epsilon_for`.
    at
        Values of the unknowns, by name. Default None: averaged over draws from the prior.
    likelihood
        "auto" (default) or "clt".
    seed, draws
        Of what is simulated, and how many draws from the prior.
    progress
        Whether progress is shown. Default True.

    Returns
    -------
    DesignCurve
        Print it, `.plot(path)` it, or take its `.rows`.

    Examples
    --------
    >>> schema = nw.Schema({"income": nw.Bounded(0, 250)}, n=4000, neighbours="change-one")
    >>> population = nw.Normal(mean=stats.norm(50, 20), sd=20)
    >>> curve = nw.design_curve([nw.Mean("income")], population, schema, epsilon=[1, 2], kind="gdp", progress=False)
    >>> [round(row["sd"]["mean"], 2) for row in curve.rows]
    [0.33, 0.32]
    """
    listed = _candidates(candidates, schema)
    budgets = _budgets(epsilon)
    if draws is None and any(isinstance(_statistic(one), OrderStatistic) for one in listed):
        draws = FEWER_DRAWS
    belief = believe(population, at=at, draws=draws)
    sizes: list[int | None] = [None] if n is None else [*_sizes(n)]
    points = [(one, budget, size) for one in listed for size in sizes for budget in budgets]
    rows = []
    with shown(progress, "Predicting precision") as report:
        for k, (one, budget, size) in enumerate(points):
            rows.append(_row(one, schema, budget, size, belief, kind, delta, likelihood, seed))
            if report is not None:
                report(k + 1, len(points))
    before = dict(zip(belief.names, np.sqrt(np.diag(belief.covariance)).tolist(), strict=True))
    return DesignCurve(tuple(rows), belief.names, before, belief.words)


def _row(
    candidate: Statistic | Plan,
    schema: Schema | None,
    budget: Any,
    size: int | None,
    belief: Belief,
    kind: str,
    delta: Any,
    likelihood: str,
    seed: int | None,
) -> dict[str, Any]:
    name = _statistic(candidate)
    try:
        made = _moved(candidate, budget, size) if isinstance(candidate, Plan) else plan(
            candidate, _resized(checked_schema(schema), size), guarantee=guarantee_maker(kind, delta)(budget)
        )  # fmt: skip
        stated = None if made.schema.is_change_one else size
        found = predicted(made, belief, likelihood=likelihood, seed=seed, n=stated)
    except NoisewiseError as refusal:
        raise type(refusal)(f"{name} at budget {budget}: {refusal}", **refusal.fields) from None
    records = made.part_schema.n if stated is None else stated
    return {
        "statistic": str(name),
        "mechanism": made.mechanism,
        "guarantee": str(made.guarantee),
        "budget": next(iter(made.guarantee.to_dict().keys() - {"kind", "delta"})).removesuffix("_squared"),
        "epsilon": float(budget),
        "n": records,
        "sd": found,
    }


def _moved(candidate: Plan, budget: Any, size: int | None) -> Plan:
    """A plan with another budget of its own kind, and another number of records."""
    if candidate.law.form is Form.ACTION:
        raise Unsupported("an optimal estimator belongs to one epsilon; give statistics instead.")
    own = candidate.guarantee
    guarantee = ApproxDP(budget, own.delta) if isinstance(own, ApproxDP) else type(own)(budget)
    return plan(
        candidate.statistic,
        _resized(candidate.schema, size),
        guarantee=guarantee,
        mechanism=candidate.mechanism,
        weights=candidate.weights if len(candidate.weights) > 1 else None,
        part=candidate.part,
    )


def _resized(schema: Schema, size: int | None) -> Schema:
    return schema if size is None or not schema.is_change_one else replace_n(schema, size)


def _statistic(candidate: Statistic | Plan) -> Statistic:
    return candidate.statistic if isinstance(candidate, Plan) else candidate


def _candidates(candidates: Any, schema: Schema | None) -> list[Statistic | Plan]:
    listed = [candidates] if isinstance(candidates, Plan | Statistic) else (
        [*candidates] if isinstance(candidates, Sequence) else [])  # fmt: skip
    if not listed or not all(isinstance(one, Plan | Statistic) for one in listed):
        raise InvalidArgument("candidates must list statistics or plans, at least one.", argument="candidates")
    if any(not isinstance(one, Plan) for one in listed):
        checked_schema(schema)
    return listed


def _budgets(epsilon: object) -> list[Any]:
    if isinstance(epsilon, str) or not isinstance(epsilon, Sequence | np.ndarray) or not len(epsilon):
        raise InvalidArgument("epsilon must list budgets, as in [0.1, 1, 10].", argument="epsilon")
    return sorted(fraction(one, "epsilon", positive=True) for one in epsilon)


def _sizes(n: object) -> list[int]:
    if isinstance(n, str) or not isinstance(n, Sequence | np.ndarray) or not len(n):
        raise InvalidArgument("n must list numbers of records, as in [100, 1000].", argument="n")
    return sorted(integer(one, "n", minimum=1, maximum=LARGEST_N) for one in n)
