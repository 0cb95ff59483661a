"""Choosing what to share: plans ranked by what their releases would tell, before any record is touched.

Every plan is scored at the same parameter values (`belief`) by its Fisher information (`information`, the privacy noise
inside), turned into one number (`scores`) and averaged:
    score(plan) = E_theta[ score(F_plan(theta)) ],      theta from the prior, from a posterior, or as given.
Where F is simulated, the scatter of four independent replicates is the standard error.
With a posterior of an earlier release on *other* records this is two-stage selection (Alparslan & Yıldırım 2022;
Alparslan 2023, section 6.5): no record is spent on choosing that is not also used for the answer.

Only plans of one price are compared, over as many records: more epsilon or more people always tell more. Plans of
different kinds of guarantee are compared after conversion to (epsilon, delta) at a given delta, or despite it, aloud.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from textwrap import wrap
from typing import Any

import numpy as np

from noisewise.design.belief import Belief, believe, middle
from noisewise.design.information import Engine, engine_for
from noisewise.design.scores import Score, read_score
from noisewise.errors import Incomparable, InvalidArgument, NoisewiseError, Unsupported
from noisewise.exact import integer
from noisewise.html import Section, pieces
from noisewise.inference.progress import shown
from noisewise.models.protocol import population_for
from noisewise.planning import Plan
from noisewise.populations.parameters import Array, Theta, rows_of
from noisewise.privacy.guarantee import ApproxDP
from noisewise.statistics import Records
from noisewise.statistics.order import OrderStatistic

ROUNDING = 1e-3  # of epsilon: two guarantees that differ by less have one price
FEWER_DRAWS = 16  # where an order statistic is among the plans: its information takes a second a parameter value
REPLICATES = 4  # of what is simulated: their scatter is the standard error
# Simulated releases a replicate: over all parameter values, and at least at one; and the size of an order bank.
ALL_DRAWS, FEWEST_DRAWS, ORDER_DRAWS = 1024, 72, 144
CURVE_POINTS, FEW_CURVE_POINTS = 41, 9
MOST_CURVES, MOST_PANELS, LEGEND_WIDTH = 7, 6, 48
LOGARITHMIC = ("trace", "a-optimal", "parameter")  # scores whose size varies over magnitudes, and is positive


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """One plan and what it is worth."""

    plan: Plan
    name: str
    score: float
    standard_error: float  # 0 where nothing was simulated
    share: float | None  # of the best plan's information
    method: str
    likelihood: str  # "exact" or "clt"
    note: str


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Plans from best to worst. Made by `choose`; print it, plot it, or release the `winner`.

    Attributes
    ----------
    ranking
        A row for each plan: `plan`, `name`, `score`, `standard_error` (0 where nothing was simulated), `share` of the
        best one's information, `method`.
    score
        What was ranked by.
    belief
        The parameter values at which it was averaged.
    remarks
        What the reader should know of the ranking, in sentences.
    options
        How information was asked for, to draw it again.

    Examples
    --------
    >>> schema = nw.Schema({"income": nw.Bounded(0, 250)}, n=4000, neighbours="change-one")
    >>> means = [nw.Mean(nw.column("income").clip(0, top)) for top in (50, 120)]
    >>> plans = [nw.plan(mean, schema, guarantee=nw.GaussianDP(1)) for mean in means]
    >>> choice = nw.choose(plans, nw.Normal(mean=stats.norm(50, 20), sd=20), progress=False)
    >>> [row["statistic"] for row in choice.table]
    ['mean(clip(income, 0, 120))', 'mean(clip(income, 0, 50))']
    """

    ranking: tuple[Ranked, ...]
    score: Score
    belief: Belief
    remarks: tuple[str, ...]
    options: Mapping[str, Any]  # how information was asked for, to draw it again

    @property
    def winner(self) -> Plan:
        """The best plan, ready for `make_release`."""
        best = self.ranking[0]
        if not np.isfinite(best.score):
            raise Unsupported(
                f"No plan has a finite {self.score.name} score. {best.note} Use score='gain', which is always finite, "
                "a prior that excludes such parameter values, or at=."
            )
        return best.plan

    @property
    def table(self) -> list[dict[str, Any]]:
        """The ranking as plain rows, for a file or a data frame."""
        return [
            {
                "rank": k,
                "statistic": str(one.plan.statistic),
                "mechanism": one.plan.mechanism,
                "weights": [str(weight) for weight in one.plan.weights],
                "part": None if one.plan.part is None else [str(end) for end in one.plan.part],
                "guarantee": str(one.plan.guarantee),
                "kind": one.plan.guarantee.kind,
                "score": one.score,
                "standard_error": one.standard_error,
                "share": one.share,
                "likelihood": one.likelihood,
                "method": one.method,
                "note": one.note,
            }
            for k, one in enumerate(self.ranking, start=1)
        ]

    def __str__(self) -> str:
        return "\n".join([self._heading(), *_aligned(self._cells()), *self._notes()])

    def _repr_html_(self) -> str:
        header, *rows = self._cells()
        notes = [Section("Notes", text="\n\n".join(self._notes()))] if self._notes() else []
        return pieces(Section("Choice", text=self._heading(), header=header, rows=rows), *notes)

    def _heading(self) -> str:
        return f"Information about {', '.join(self.belief.names)} ({self.score.name}), {self.belief.words}."

    def _notes(self) -> list[str]:
        return [*(f"{k}: {one.note}" for k, one in enumerate(self.ranking, start=1) if one.note), *self.remarks]

    def _cells(self) -> list[tuple[str, ...]]:
        """The ranking as text, its header first."""
        has_error = any(one.standard_error > 0 for one in self.ranking)
        rows: list[tuple[str, ...]] = [
            ("", "score", *(("std. error",) if has_error else ()), "share", "plan", "price", "computed")
        ]
        for k, one in enumerate(self.ranking, start=1):
            error = (f"{one.standard_error:.2g}" if one.standard_error > 0 else "-",) if has_error else ()
            share = "" if one.share is None else f"{100 * one.share:.1f} %"
            law = "exact law" if one.likelihood == "exact" else "normal law"
            how = one.method.split(" (")[0]
            price = str(one.plan.guarantee)
            rows.append((str(k), f"{one.score:.5g}", *error, share, one.name, price, f"{law}, {how}"))
        return rows

    def plot(self, path: str | PathLike[str] | None = None) -> bytes:
        """The score of the (at most seven) best plans against each unknown parameter, the others at their middle."""
        from noisewise.report.plots import curve_plot

        curves = [curve for name in self.belief.names[:MOST_PANELS] for curve in self._curves(name)]
        finite = np.concatenate([np.asarray(curve["y"])[np.isfinite(curve["y"])] for curve in curves])
        if not finite.size:
            raise Unsupported(f"The {self.score.name} score is nowhere finite: there is nothing to plot.")
        several = len(self.belief.names) > 1
        return curve_plot(
            curves,
            path,
            x_label="value of the parameter" if several else self.belief.names[0],
            y_label=_y_label(self.score, several=several),
            log_y=self.score.kind in LOGARITHMIC and bool(finite.min() * 20 < finite.max()),
        )

    def _curves(self, name: str) -> list[dict[str, Any]]:
        shown_plans = self.ranking[:MOST_CURVES]
        is_slow = any(isinstance(one.plan.statistic, OrderStatistic) for one in shown_plans)
        x, theta = _line(self.belief, name, FEW_CURVE_POINTS if is_slow else CURVE_POINTS)
        found = []
        for one in shown_plans:
            y = self.score.rows(_rows(engine_for(one.plan, self.belief.population, **self.options), theta)[0])
            y = np.asarray(-y if self.score.kind == "a-optimal" else y, dtype=float)
            y[~np.isfinite(y) | ((y <= 0) & (self.score.kind in LOGARITHMIC))] = np.nan
            name_lines = "\n".join(wrap(one.name, LEGEND_WIDTH))
            found.append({"name": name_lines, "x": x, "y": y, "panel": name if len(self.belief.names) > 1 else ""})
        return found


def choose(
    plans: Sequence[Plan],
    population: Any,
    *,
    at: Any = None,
    score: Any = "gain",
    weights: Mapping[str, float] | None = None,
    likelihood: str = "auto",
    seed: int | None = None,
    n: int | None = None,
    draws: int | None = None,
    delta: Any = None,
    despite_guarantees: bool = False,
    progress: Any = True,
) -> Choice:
    """Rank plans by the information of their releases about a population, or about what a posterior leaves open.

    No record is needed, and nothing is spent.

    Parameters
    ----------
    plans
        Two or more plans of one price, over as many records.
    population
        What is believed of the records, with a prior for each unknown; or a posterior of other records.
    at
        Values of the unknowns by name, one or several, to score at. Default None: averaged over draws.
    score
        "gain" (default: nats told beyond the belief), "trace", "logdet", "a-optimal", the name of a parameter, or a
        function of matrices (K, P, P); docs/choosing.md tells them apart.
    weights
        Of the parameters in "trace" and "a-optimal", by name. Default None: 1 each.
    likelihood
        "auto" (default), or "clt" for the central limit theorem alone.
    seed
        Of what is simulated. The same call gives the same ranking; another seed shows how much of it is simulation.
    n
        The number of records, where plans keep it private.
    draws
        From prior or posterior. Default None: 64, or 16 where an order statistic is among the plans.
    delta
        Converts all guarantees to ApproxDP at this delta first. Default None: they must be equal.
    despite_guarantees
        True ranks plans of unequal guarantees. Default False.
    progress
        Whether progress is shown; or a function of (done, all). Default True.

    Returns
    -------
    Choice
        The plans from best to worst.

    Examples
    --------
    >>> schema = nw.Schema({"income": nw.Bounded(0, 250)}, n=4000, neighbours="change-one")
    >>> x = nw.column("income")
    >>> plans = [nw.plan(nw.Mean(f), schema, guarantee=nw.GaussianDP(1)) for f in (x, x.clip(0, 120))]
    >>> population = nw.Normal(mean=stats.norm(50, 20), sd=20)
    >>> print(nw.choose(plans, population, progress=False).winner)
    mean(clip(income, 0, 120)) by gaussian at mu = 1
    """
    given = checked_plans(plans)
    remarks = _check_guarantees(given, delta, despite=despite_guarantees)
    _check_sizes(given)
    if draws is None and any(isinstance(one.statistic, OrderStatistic) for one in given):
        draws = FEWER_DRAWS
    belief = believe(population_for(population, given), at=at, draws=draws)
    rule = read_score(score, weights, belief.names, belief.covariance)
    start = 0 if seed is None else integer(seed, "seed", minimum=0)
    options = {"likelihood": likelihood, "seed": start, "n": n}
    found = []
    with shown(progress, f"Scoring {len(given)} plans") as report:
        for k, (one, name) in enumerate(zip(given, _names(given), strict=True)):
            found.append(_scored(one, name, belief, rule, options))
            if report is not None:
                report(k + 1, len(given))
    ranking = _ranked(found, rule, len(belief.names))
    return Choice(ranking, rule, belief, (*remarks, *_close(ranking), *_local(ranking)), options)


def checked_plans(plans: object) -> tuple[Plan, ...]:
    """At least one plan, or a refusal."""
    listed = (plans,) if isinstance(plans, Plan) else tuple(plans) if isinstance(plans, Sequence) else ()
    if not listed or not all(isinstance(one, Plan) for one in listed):
        raise InvalidArgument("plans must list at least one plan(statistic, schema, guarantee=...).", argument="plans")
    return listed


def _scored(plan: Plan, name: str, belief: Belief, rule: Score, options: Mapping[str, Any]) -> tuple[Ranked, int]:
    """One plan's entry (its share still open), and at how many parameter values its score is infinite."""
    try:
        replicates, engine = _replicates(plan, belief, options)
    except NoisewiseError as refusal:
        raise type(refusal)(f"{name}: {refusal}", **refusal.fields) from None
    each = rule.rows(replicates.mean(axis=0))
    untold = int(np.sum(~np.isfinite(each)))
    error = 0.0
    if len(replicates) > 1 and not untold:
        averages = [float(rule.rows(matrices).mean()) for matrices in replicates]
        is_finite = bool(np.isfinite(averages).all())
        error = float(np.std(averages, ddof=1) / np.sqrt(len(averages))) if is_finite else np.inf
    law = "exact" if engine.is_exact else "clt"
    note = _untold(untold, len(each), belief.names) if untold else ""
    return Ranked(plan, name, float(each.mean()), error, None, engine.method, law, note), untold


def _replicates(plan: Plan, belief: Belief, options: Mapping[str, Any]) -> tuple[Array, Engine]:
    """F at every row, (R, K, P, P): several independent ones where it is simulated, else one."""
    is_order = isinstance(plan.statistic, OrderStatistic)
    draws = ORDER_DRAWS if is_order else max(FEWEST_DRAWS, ALL_DRAWS // rows_of(belief.rows))
    found = []
    for k in range(REPLICATES):
        seed = int(np.random.SeedSequence(options["seed"], spawn_key=(k,)).generate_state(1)[0])
        engine = engine_for(plan, belief.population, **{**options, "seed": seed}, draws=draws)
        matrices, errors = _rows(engine, belief.rows)
        found.append(matrices)
        if not errors.any():
            break
    return np.stack(found), engine


def _rows(engine: Engine, theta: Theta) -> tuple[Array, Array]:
    matrices, errors = engine.rows(theta)
    if not np.isfinite(matrices).all():
        k = int(np.flatnonzero(~np.isfinite(matrices).all(axis=(1, 2)))[0])
        where = ", ".join(f"{name} = {np.asarray(value)[k]}" for name, value in theta.items())
        raise Unsupported(
            f"The information is not a finite number at {where}: the law does not vary smoothly there; use at=."
        )
    return matrices, errors


def _ranked(found: Sequence[tuple[Ranked, int]], rule: Score, parameters: int) -> tuple[Ranked, ...]:
    """Best first; among plans of equal score, the one whose score is infinite less often."""
    ordered = [one for one, untold in sorted(found, key=lambda entry: (-entry[0].score, entry[1]))]
    best = ordered[0].score
    return tuple(
        Ranked(one.plan, one.name, one.score, one.standard_error, rule.share_of(one.score, best, parameters),
               one.method, one.likelihood, one.note)
        for one in ordered
    )  # fmt: skip


def _check_guarantees(plans: Sequence[Plan], delta: Any, *, despite: bool) -> tuple[str, ...]:
    """Refuse plans of different prices; what is to be said where they are compared all the same."""
    relations = {one.schema.neighbours for one in plans}
    priced = [one.guarantee if delta is None else one.guarantee.to(ApproxDP, delta=delta) for one in plans]
    is_one_kind = len({type(one) for one in priced}) == 1
    is_equal = is_one_kind and all(
        abs(float(a / b) - 1) <= ROUNDING for one in priced for a, b in zip(one.parts, priced[0].parts, strict=True)
    )
    converted = sorted({str(one) for one in priced})
    if is_equal and len(relations) == 1:
        is_converted = any(type(one.guarantee) is not ApproxDP for one in plans) and delta is not None
        return (f"As (epsilon, delta), every plan costs about {converted[0]}.",) if is_converted else ()
    if despite:
        as_converted = "" if delta is None else f" As (epsilon, delta): {'; '.join(converted)}."
        return (f"These plans do not cost the same: a higher place may only mean weaker privacy.{as_converted}",)
    if len(relations) > 1:
        why = "their guarantees protect against different changes (change-one and add-remove)"
    elif not is_one_kind:
        why = f"their guarantees are of kinds without a common scale ({', '.join(sorted({p.kind for p in priced}))})"
    else:
        why = f"their guarantees differ ({'; '.join(converted)}), and more budget always tells more"
    how = "" if is_one_kind or len(relations) > 1 else " Convert them with delta=, to (epsilon, delta) at that delta."
    raise Incomparable(
        f"These plans cannot be ranked: {why}. Give all of them the same guarantee.{how} "
        "With despite_guarantees=True they are ranked as they are.",
        guarantees=tuple(one.guarantee for one in plans),
    )


def _check_sizes(plans: Sequence[Plan]) -> None:
    sizes = {(one.part_schema.largest_n, None if one.schema.is_change_one else _length(one)) for one in plans}
    if len(sizes) > 1:
        listed = ", ".join(str(size) for size, _ in sorted(sizes, key=str))
        raise InvalidArgument(
            f"These plans read different numbers of records ({listed}, or different parts), and more records always "
            "tell more. Plan them over as many; design_curve shows what n is worth.",
            argument="plans",
        )


def _length(plan: Plan) -> str:
    return "1" if plan.part is None else str(plan.part[1] - plan.part[0])


def _close(ranking: Sequence[Ranked]) -> tuple[str, ...]:
    """A sentence where simulation does not settle which plan is best."""
    if not np.isfinite(ranking[0].score):
        return ("No plan has a finite score, so none is best. score='gain' is always finite.",)
    if len(ranking) < 2 or not np.isfinite(ranking[1].score):
        return ()
    first, second = ranking[:2]
    error = float(np.hypot(first.standard_error, second.standard_error))
    if error == 0 or first.score - second.score > 2 * error:
        return ()
    return ("The first two are within 2 standard errors of each other: which of them is better is not settled.",)


def _local(ranking: Sequence[Ranked]) -> tuple[str, ...]:
    kinds = {isinstance(one.plan.statistic, Records) for one in ranking}
    if len(kinds) < 2:
        return ()
    return ("The price of records(...) is paid by each person before answering: it also protects from the holder.",)


def _untold(count: int, total: int, names: Sequence[str]) -> str:
    where = "" if count == total == 1 else f" at {count} of {total} parameter values"
    what = f"{names[0]}" if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} apart"
    return f"Cannot tell {what}{where}."


def _names(plans: Sequence[Plan]) -> list[str]:
    """A name for each plan: what is released and how, and whatever else sets it apart."""
    kinds: list[Callable[[Plan], str]] = [
        lambda one: f"{one.statistic} by {one.mechanism}",
        lambda one: f"weights {':'.join(f'{float(w / one.weights[0]):.3g}' for w in one.weights)}",
        lambda one: str(one.guarantee),
        lambda one: "all records" if one.part is None else f"part {one.part[0]} to {one.part[1]}",
        lambda one: ", ".join(f"{name} {column!r}" for name, column in one.schema.columns.items()),
    ]
    names = [kinds[0](one) for one in plans]
    for kind in kinds[1:]:
        same = {name: {kind(one) for one, own in zip(plans, names, strict=True) if own == name} for name in names}
        names = [
            f"{name}, {kind(one)}" if len(same[name]) > 1 else name for one, name in zip(plans, names, strict=True)
        ]
    return names


def _line(belief: Belief, name: str, count: int) -> tuple[Array, Theta]:
    """Values of one coordinate across what is believed, and theta there with the others at their middle."""
    owner, _, place = name.partition("[")
    draws = np.asarray(belief.draws[owner])
    own = draws if not place else draws[:, int(place.rstrip("]"))]
    low, high = np.quantile(own, [0.03, 0.97]) if own.size > 1 else (own[0] * 0.9, own[0] * 1.1)
    x = np.linspace(low, high, count)
    centre = middle(belief)
    theta = {other: np.repeat(value, count, axis=0) for other, value in centre.items()}
    if not place:
        return x, {**theta, name: x}
    p, j = theta[owner], int(place.rstrip("]"))
    moved = p * ((1 - x) / (1 - p[:, j]))[:, None]
    moved[:, j] = x
    return x, {**theta, owner: moved}


def _y_label(score: Score, *, several: bool) -> str:
    return {
        "trace": "trace of the information" if several else "information",
        "logdet": "log det of the information" if several else "log information",
        "a-optimal": "variance left by the release (lower is better)",
        "gain": "nats told beyond the belief",
        "parameter": f"information about {score.name}",
    }.get(score.kind, score.name)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns side by side: numbers to the right; plan, price and computed, the last three, to the left."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    sides = [*[">"] * (len(widths) - 3), "<", "<", "<"]
    return [
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)).rstrip()
        for row in rows
    ]
