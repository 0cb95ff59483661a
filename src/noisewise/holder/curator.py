"""make_release and make_releases: from records to published values, through the ledger.

The order is what makes it safe. The records are identified (fingerprint) and every statistic is computed first, as
integers and without noise; then, inside one ledger transaction, the budget is checked, the noise is drawn, and all
charges and releases are stored together; only then are they handed out. If anything fails before the commit, nothing is
spent and nothing was shown. The same request again returns the stored bytes and costs nothing. One release is a batch
of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from noisewise.errors import InvalidArgument, InvalidData, NoisewiseError
from noisewise.holder import draw
from noisewise.holder.evaluate import IbisRows, lattice_values
from noisewise.holder.ledger import Account, Ledger, Order
from noisewise.holder.table import Table
from noisewise.laws import Form, action_law, cell_law, quantile_law, smooth_law
from noisewise.planning import Plan
from noisewise.release import Release, checked_signature
from noisewise.statistics.order import quantile_statistic

Drawer = Callable[[], Sequence[int]]
NEARBY_RANKS = 2000  # order statistics fetched on each side of a private quantile before the rest is asked by rank


def make_release(table: Table, plan: Plan, *, ledger: Ledger, signed: str | None = None) -> Release:
    """Release `plan` from `table`, paid from `ledger`; the same request again is the same release, free.

    The guarantee is the plan's; noise is drawn from the system's source and cannot be seeded.

    Parameters
    ----------
    table
        The records.
    plan
        What is released; made with the table's schema.
    ledger
        Who pays. Charge and release are stored together or not at all.
    signed
        The holder's word for a statistic of one's own whose sensitivity nobody here has proved: who answers for it,
        and where it is shown. The release says it to every reader. Default None.

    Returns
    -------
    Release

    Examples
    --------
    >>> schema = nw.Schema({"age": nw.Bounded(18, 90)}, n=3, neighbours="change-one")
    >>> table = nw.Table.read({"age": [23, 45, 37]}, schema)
    >>> made = nw.plan(nw.Mean("age"), schema, guarantee=nw.PureDP(1))
    >>> release = nw.make_release(table, made, ledger=nw.Ledger.open("ages.ledger", limit=nw.PureDP(2)))
    >>> release.price
    'epsilon = 1 (pure-dp).'
    """
    return _made(table, {"plan": plan}, ledger, signed)[0]


def make_releases(table: Table, plans: Sequence[Plan], *, ledger: Ledger, signed: str | None = None) -> list[Release]:
    """Release every plan from `table`, paid from `ledger` in one transaction: all of them, or none and nothing spent.

    Parameters
    ----------
    table
        The records.
    plans
        Plans made with `table.schema`; equal ones are charged once, what the ledger stores costs nothing, disjoint
        parts are charged in parallel. `ledger.bill(plans)` says the sum beforehand.
    ledger
        Who pays.
    signed
        As in `make_release`, for those of the plans that need it. Default None.

    Returns
    -------
    list of Release
        In the order of the plans.

    Examples
    --------
    >>> schema = nw.Schema({"age": nw.Bounded(18, 90)}, n=3, neighbours="change-one")
    >>> table = nw.Table.read({"age": [23, 45, 37]}, schema)
    >>> plans = [nw.plan(s, schema, guarantee=nw.PureDP("1/2")) for s in (nw.Mean("age"), nw.Median("age"))]
    >>> ledger = nw.Ledger.open("both.ledger", limit=nw.PureDP(2))
    >>> len(nw.make_releases(table, plans, ledger=ledger)), str(ledger.spent())
    (2, 'epsilon = 1')
    """
    if isinstance(plans, Plan | str) or not isinstance(plans, Sequence) or not plans:
        raise InvalidArgument(
            "plans must list one plan or more, each made with plan(...). Nothing was spent.", argument="plans"
        )
    return _made(table, {f"plans[{k}]": plan for k, plan in enumerate(plans)}, ledger, signed)


def _made(table: Table, named: Mapping[str, Plan], ledger: Ledger, signed: str | None) -> list[Release]:
    """The releases of all plans, each under the name that a refusal calls it by."""
    _check_arguments(table, named, ledger)
    needed = [plan for plan in named.values() if plan.statistic.unproved]
    for plan in needed or named.values():
        checked_signature(plan.statistic, signed)
    plans = tuple(ledger.as_stored(tuple(named.values())))
    key = ledger.fingerprint_key()
    has_places = any(map(_depends_on_places, plans))
    identity = _identity(table, key, has_places=has_places)
    orders = [_order(plan, identity) for plan in plans]
    stored = ledger.find_all(orders)
    if None in stored:
        drawers: dict[bytes, Drawer] = {}
        for plan, order, found in zip(plans, orders, stored, strict=True):
            if found is None and order.request not in drawers:
                drawers[order.request] = _prepared(table, plan)
        # Free for files and frames, which cannot drift; a database may have changed while a statistic was computed.
        if _identity(table, key, has_places=has_places) != identity:
            raise InvalidData(
                "The records changed while the release was computed. Wait until their database is at rest, and read "
                "the table again. Nothing was spent.",
                fault="changed",
            )
        orders = [
            replace(order, produce=partial(_produced, plan, drawers[order.request], signed))
            if order.request in drawers
            else order
            for plan, order in zip(plans, orders, strict=True)
        ]
        stored = list(ledger.release_all(orders))
    return [Release.from_bytes(found) for found in stored if found is not None]


def _check_arguments(table: Table, named: Mapping[str, Plan], ledger: Ledger) -> None:
    given = ((table, Table, "table"), *((plan, Plan, name) for name, plan in named.items()), (ledger, Ledger, "ledger"))
    for value, kind, argument in given:
        if not isinstance(value, kind):
            raise InvalidArgument(
                f"{argument} must be a {kind.__name__}, not a {type(value).__name__}. Nothing was spent.",
                argument=argument,
            )
    for name, plan in named.items():
        if table.schema != plan.schema:
            raise InvalidArgument(
                f"{name} was made for another schema than the table's; make it with table.schema. Nothing was spent.",
                argument=name,
            )
        # Planned again from the statistic, the schema and the guarantee: noise and price are never taken on trust.
        if plan.again() != plan:
            raise InvalidArgument(
                f"{name} was altered after it was made: its noise is not what its guarantee asks for. Make it "
                "with plan(...). Nothing was spent.",
                argument=name,
            )


def _order(plan: Plan, identity: tuple[str, str | None]) -> Order:
    """A plan as the ledger knows it, before it is known whether it must be drawn."""
    fingerprint, arrangement = identity
    places = arrangement if _depends_on_places(plan) else None
    return Order(plan.request(), plan.cost, plan.part, fingerprint, _gone, places)


def _produced(plan: Plan, drawer: Drawer, signed: str | None, account: Account) -> bytes:
    word = signed if plan.statistic.unproved else None
    release = Release.of(
        plan, drawer(), dataset=account.dataset, ledger_head=account.head, simulated=False, signed=word
    )
    # Read back before it is paid for: what nobody can open must not be sold.
    if Release.from_bytes(release.to_bytes()) != release:
        raise NoisewiseError("The release would not read back as it was written. Nothing was spent.")
    return release.to_bytes()


def _gone(_account: Account) -> bytes:
    raise NoisewiseError(
        "A release that was stored a moment ago is not there any more: the ledger's records were replaced meanwhile. "
        "Ask again. Nothing was spent."
    )


def _identity(table: Table, key: bytes, *, has_places: bool) -> tuple[str, str | None]:
    """Which records these are, and where they lie if that decides what they enter."""
    return table.fingerprint(key), table.fingerprint(key, arranged=True) if has_places else None


def _depends_on_places(plan: Plan) -> bool:
    """True where a record's position or key hash decides what it enters: parts and averaged rows."""
    return plan.part is not None or plan.statistic.block > 1


def _prepared(table: Table, plan: Plan) -> Drawer:
    """The drawer of a plan; of an unforeseen failure only the kind is told, for its words may quote a record."""
    try:
        return _drawer(table, plan)
    except NoisewiseError:
        raise
    except Exception as error:
        fault = type(error).__name__
    raise NoisewiseError(f"Computing {plan.statistic} stopped with {fault}. Nothing was spent.")


def _drawer(table: Table, plan: Plan) -> Drawer:
    """Compute the statistic now; return the function that adds fresh noise to it."""
    return _DRAWERS[plan.law.form](table, plan)


def _number_drawer(table: Table, plan: Plan) -> Drawer:
    law = plan.law
    values = lattice_values(table, plan)
    if not plan.statistic.is_local:
        return lambda: [value + noise for value, noise in zip(values, draw.noise(law), strict=True)]
    # Sorted: in row order an answer would name its person.
    return lambda: sorted(v + int(e) for v, e in zip(values, draw.noise_per_record(law, len(values)), strict=True))


def _cell_drawer(table: Table, plan: Plan) -> Drawer:
    values, cells = np.array(lattice_values(table, plan), dtype=np.int64), cell_law(plan.law).cells
    return lambda: np.bincount(draw.answers(plan.law, values), minlength=cells).tolist()


def _action_drawer(table: Table, plan: Plan) -> Drawer:
    (count,) = lattice_values(table, plan)
    return lambda: [draw.from_row(action_law(plan.law).rows[count])]


def _smooth_drawer(table: Table, plan: Plan) -> Drawer:
    """The order statistic and its smooth sensitivity; the scale stays in here."""
    law = smooth_law(plan.law)
    rows = IbisRows(table, plan)
    (value,), (secret,) = plan.statistic.scaled(rows, plan.lattice, alpha=law.alpha, beta=law.beta)
    return lambda: [int(value[0]) + draw.smooth_noise(law, float(secret) * law.step)]


def _quantile_drawer(table: Table, plan: Plan) -> Drawer:
    """Draw y on the lattice with probability proportional to exp(-eps/2 |#{x < y} - q n|), exactly.

    Between neighbouring order statistics the exponent is constant, so intervals near the target are weighed exactly.
    Each far side is weighed by its largest density, and a point drawn there is kept with the ratio of its own
    density to that bound: rejection, so the law is exact while only ranks near the target are fetched.
    """
    statistic, law = quantile_statistic(plan.statistic), quantile_law(plan.law)
    rows, n = IbisRows(table, plan), plan.part_schema.largest_n
    target, rate = statistic.q * n, law.epsilon / 2
    low, high = plan.lattice.low[0], plan.lattice.high[0]
    window = rows.window(statistic.feature, plan.lattice, rank=statistic.rank(n), reach=NEARBY_RANKS)
    values, first = window.values[0].tolist(), window.first
    last = first + len(values) - 1
    # Interval i holds the points y with #{x < y} = i, i.e. s_i < y <= s_{i+1}; the two outer ones are the far sides.
    starts = [low, *(v + 1 for v in values)]
    stops = [v + 1 for v in values] + [high + 1]
    ranks = list(range(first - 1, last + 1))
    exponents = [rate * abs(rank - target) for rank in ranks]

    def drawn() -> list[int]:
        while True:
            k = draw.weighted_index([stop - start for start, stop in zip(starts, stops, strict=True)], exponents)
            point = starts[k] + draw.uniform_below(stops[k] - starts[k])
            is_far = (k == 0 and first > 1) or (k == len(ranks) - 1 and last < n)
            if not is_far:
                return [point]
            own = rate * abs(rows.rank_below(statistic.feature, plan.lattice, point) - target)
            if draw.bernoulli_exp(own - exponents[k]):
                return [point]

    return drawn


_DRAWERS: dict[Form, Callable[[Table, Plan], Drawer]] = {
    Form.NUMBER: _number_drawer,
    Form.CELL: _cell_drawer,
    Form.ACTION: _action_drawer,
    Form.SCALED: _smooth_drawer,
    Form.POINT: _quantile_drawer,
}
