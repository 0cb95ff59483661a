"""Black-box attacks: lower bounds on the privacy loss of `make_release` itself, from what it returns.

The attacker knows the two neighbouring tables and sees releases of one of them, each paid from its own unspent ledger.
For any event E on the released value, with p = P(E | one table) and q = P(E | the other),
    PureDP, ApproxDP      epsilon >= log((p - delta)/q)
    GaussianDP            mu >= Phi^-1(p) - Phi^-1(q)
    ZeroConcentratedDP    rho >= sup over orders a of the Renyi divergence of Bernoulli(p) from Bernoulli(q), over a
(data processing). E is chosen on one part of the releases; p from below and q from above are then Clopper-Pearson
bounds on the rest, jointly wrong with probability at most 1e-6. So a lower bound above the guarantee is a defect, and
a sound mechanism is accused once in a million attacks.

One release costs some 30 ms, nearly all of it the database compiling the same two queries again. Here the records live
in a database that remembers its answers (the records do not change), and each ledger is a copy of one that was never
used, so the fingerprint's key and its query are the same. Everything of ours runs anew for every release: reading and
verifying the ledger, the budget, the noise, charge and storage, the door.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import singledispatch
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from noisewise.errors import Unregistered
from noisewise.laws import AdditiveLaw
from noisewise.planning import Plan
from noisewise.privacy.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from noisewise.types import Floats

FALSE_ALARM = 1e-6
CHOOSING = 0.3  # the share of the releases on which the event is chosen
THRESHOLDS = 24
DISCOUNT = 0.02
BATCH = 250
MEMORY = Path("/dev/shm")
Data = Mapping[str, Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Event:
    """Outputs whose score lies in (low, high], or outside it; `first` says on which table it is likelier."""

    low: float
    high: float
    is_outside: bool
    first: bool

    def count(self, scores: Floats) -> int:
        inside = (scores > self.low) & (scores <= self.high)
        return int(np.sum(~inside if self.is_outside else inside))


@dataclass(frozen=True, slots=True)
class Attack:
    """What an attack established: the loss is at least `lower_bound`, wrong once in a million attacks."""

    lower_bound: float
    limit: float
    event: Event
    runs: int

    @property
    def is_breach(self) -> bool:
        return self.lower_bound > self.limit


def attack(
    plan: Plan,
    one: Data,
    other: Data,
    *,
    runs: int,
    pool: Executor | None = None,
    progress: Callable[[int], None] | None = None,
    remember: bool = True,
    drawn: AdditiveLaw | None = None,
) -> Attack:
    """Release `plan` from two neighbouring data sets `runs` times each and bound its privacy loss from below.

    `drawn` plants a fault: noise is drawn from that law instead of the plan's.

    With `remember=False` every query is asked anew; it takes about six times as long. `pool` spreads the releases over
    processes (`workers`).
    """
    values = releases(plan, (one, other), runs=runs, pool=pool, progress=progress, remember=remember, drawn=drawn)
    return lower_bound(plan.guarantee, *_scores(*values))


def releases(
    plan: Plan,
    tables: Sequence[Data],
    *,
    runs: int,
    pool: Executor | None = None,
    progress: Callable[[int], None] | None = None,
    remember: bool = True,
    drawn: AdditiveLaw | None = None,
) -> list[NDArray[np.float64]]:
    """The values of `runs` releases of each table, each from a fresh ledger."""
    tell = progress or (lambda _: None)
    if pool is None:
        return [_released(plan, data, runs, remember, drawn, tell) for data in tables]
    sizes = [BATCH] * (runs // BATCH) + ([runs % BATCH] if runs % BATCH else [])
    jobs = [
        (side, pool.submit(_released, plan, data, size, remember, drawn, None))
        for size in sizes
        for side, data in enumerate(tables)
    ]
    values: list[list[Floats]] = [[] for _ in tables]
    for side, job in jobs:
        values[side].append(job.result())
        tell(len(values[side][-1]))
    return [np.concatenate(side) for side in values]


def workers(processes: int) -> Executor:
    """A pool of processes for `attack`: spawned, not forked, for a database's threads do not survive a fork."""
    return ProcessPoolExecutor(processes, mp_context=get_context("spawn"))


def lower_bound(guarantee: Guarantee, one: Floats, other: Floats) -> Attack:
    """The lower bound that scores of releases from two neighbouring tables prove."""
    cut = [round(CHOOSING * len(scores)) for scores in (one, other)]
    event = _chosen(guarantee, one[: cut[0]], other[: cut[1]], len(one) - cut[0])
    likely, unlikely = (one[cut[0] :], other[cut[1] :]) if event.first else (other[cut[1] :], one[cut[0] :])
    p, q = _clopper_pearson(event.count(likely), len(likely), event.count(unlikely), len(unlikely))
    return Attack(float(proven_loss(guarantee, p, q)), allowed_loss(guarantee), event, len(one))


def power(guarantee: Guarantee, p: float, q: float, runs: int) -> float:
    """The probability that `runs` releases a side prove a breach, for an event of true probabilities p and q.

    This is for an event known beforehand. Choosing it on the releases costs some power, which only a simulation of
    the whole attack shows (tests/audit/test_attack.py).
    """
    n = runs - round(CHOOSING * runs)
    k = np.arange(n + 1)
    below, above = _clopper_pearson(k, n, k, n)
    is_breach = proven_loss(guarantee, below[:, None], above[None, :]) > allowed_loss(guarantee)
    return float(_binomial(n, p) @ is_breach @ _binomial(n, q))


def _binomial(n: int, p: float) -> Floats:
    from scipy.special import gammaln, xlog1py, xlogy

    k = np.arange(n + 1)
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return np.asarray(np.exp(ways + xlogy(k, p) + xlog1py(n - k, -p)))


# ---- releases ----


def _released(
    plan: Plan,
    data: Data,
    runs: int,
    remember: bool,
    drawn: AdditiveLaw | None,
    tell: Callable[[int], None] | None,
) -> NDArray[np.float64]:
    from noisewise.holder.curator import make_release
    from noisewise.holder.ledger import Ledger
    from noisewise.holder.table import Table

    table = Table.read(_remembering(data) if remember else data, plan.schema)
    values = []
    # Synchronising to a disk protects an account for years; these live for milliseconds.
    with _drawing(drawn), tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        unspent, path = Path(folder, "unspent.ledger"), Path(folder, "run.ledger")
        Ledger.open(unspent, limit=plan.guarantee).close()
        for k in range(runs):
            shutil.copyfile(unspent, path)
            with Ledger.open(path) as ledger:
                values.append(make_release(table, plan, ledger=ledger).value)
            path.unlink()
            if tell is not None and k % 50 == 49:
                tell(50)
    return np.array(values, dtype=float)


@contextmanager
def _drawing(law: AdditiveLaw | None) -> Iterator[None]:
    """While inside, noise comes from another law than the one asked for; with None all is as it should be."""
    from noisewise.holder import draw

    if law is None:
        yield
        return
    sound = draw.noise

    def faulty(_: AdditiveLaw) -> list[int]:
        return sound(law)

    with patch.object(draw, "noise", faulty):
        yield


def _remembering(data: Data) -> Any:
    """The records in a database that answers a query it has met before from memory."""
    import ibis
    import pyarrow as pa

    database = ibis.duckdb.connect(threads=1)
    ask, memory = database.to_pyarrow, {}

    def answer(expression: Any, /, **options: Any) -> Any:
        question = expression.op()
        if question not in memory:
            memory[question] = ask(expression, **options)
        return memory[question]

    database.to_pyarrow = answer
    return database.create_table("records", pa.table(dict(data)))


# ---- events ----


def _scores(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Each released vector as one number: its projection on the direction between the means of the two sides.

    The direction is learnt from the releases on which the event is chosen, so the rest stays untouched.
    """
    if one.shape[1] == 1:
        return one[:, 0], other[:, 0]
    first, second = (side[: round(CHOOSING * len(side))] for side in (one, other))
    spread = np.concatenate([first, second]).std(axis=0)
    direction = (second.mean(axis=0) - first.mean(axis=0)) / np.where(spread > 0, spread, np.inf) ** 2
    return one @ direction, other @ direction


def _chosen(guarantee: Guarantee, one: Floats, other: Floats, size: int) -> Event:
    """The event that promises most on `size` further releases: half lines, intervals, and their complements.

    Among hundreds of candidates the luckiest rare one looks best. So each is first discounted by what its own counts
    leave uncertain, at 1 %; without that 2.5 % of simulated attacks missed a halved Laplace scale.
    """
    pooled = np.concatenate([one, other])
    inner = np.unique(np.quantile(pooled, np.linspace(0.01, 0.99, THRESHOLDS), method="nearest"))
    cuts = np.concatenate([[-np.inf], inner, [np.inf]])
    i, j = np.triu_indices(len(cuts), 1)
    sides = []
    for side in (one, other):
        below = np.searchsorted(np.sort(side), cuts, side="right")
        sides.append((below[j] - below[i], len(side)))
    best, chosen = -math.inf, Event(-math.inf, float(inner[0]), False, True)
    for is_outside in (False, True):
        for first in (True, False):
            (a, n), (b, m) = ((n - c if is_outside else c, n) for c, n in (sides if first else sides[::-1]))
            p, q = _clopper_pearson(a, n, b, m, DISCOUNT)
            bounds = proven_loss(guarantee, *_clopper_pearson(p * size, size, q * size, size))
            k = int(np.argmax(bounds))
            if bounds[k] > best:
                best, chosen = float(bounds[k]), Event(float(cuts[i[k]]), float(cuts[j[k]]), is_outside, first)
    return chosen


def _clopper_pearson(likely: Any, n: int, unlikely: Any, m: int, wrong: float = FALSE_ALARM) -> tuple[Any, Any]:
    """A lower bound on one probability and an upper bound on another, jointly wrong with probability `wrong`."""
    from scipy.special import betaincinv

    a, b = np.asarray(likely, dtype=float), np.asarray(unlikely, dtype=float)
    p = np.where(a > 0, betaincinv(np.maximum(a, 1e-9), n - a + 1, wrong / 2), 0.0)
    q = np.where(b < m, betaincinv(b + 1, np.maximum(m - b, 1e-9), 1 - wrong / 2), 1.0)
    return p, q


# ---- what p and q prove ----


@singledispatch
def proven_loss(guarantee: Guarantee, _p: Floats, _q: Floats) -> Floats:
    """The smallest epsilon, rho or mu at which an event of probability >= p and <= q is possible; 0 if p <= q."""
    raise _unattacked(guarantee)


@proven_loss.register
def _(_guarantee: PureDP, p: Floats, q: Floats) -> Floats:
    return _log_odds(p, q)


@proven_loss.register
def _(guarantee: ApproxDP, p: Floats, q: Floats) -> Floats:
    return _log_odds(p - float(guarantee.delta), q)


@proven_loss.register
def _(_guarantee: GaussianDP, p: Floats, q: Floats) -> Floats:
    from scipy.special import ndtri

    inner = np.where(p > 0, ndtri(np.maximum(p, 1e-300)), -np.inf)
    return np.asarray(np.maximum(0.0, inner - ndtri(np.minimum(q, 1.0))))


@proven_loss.register
def _(_guarantee: ZeroConcentratedDP, p: Floats, q: Floats) -> Floats:
    return _bernoulli_rho(p, q)


def _log_odds(p: Floats, q: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(0.0, np.log(np.maximum(p, 1e-300)) - np.log(q)))


def _bernoulli_rho(p: Floats, q: Floats) -> Floats:
    """sup over orders a of D_a(Bernoulli(p) || Bernoulli(q))/a; orders above 1 only, on a grid, so from below."""
    p, q = np.clip(p, 1e-12, 1 - 1e-12), np.clip(q, 1e-12, 1 - 1e-12)
    best: Floats = np.zeros(np.broadcast(p, q).shape)
    for order in (1.05, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0):
        terms = np.logaddexp(
            order * np.log(p) + (1 - order) * np.log(q), order * np.log1p(-p) + (1 - order) * np.log1p(-q)
        )
        best = np.maximum(best, np.where(p > q, terms / (order - 1) / order, 0.0))
    return best


@singledispatch
def allowed_loss(guarantee: Guarantee) -> float:
    """What `proven_loss` is compared with: epsilon, rho or mu."""
    raise _unattacked(guarantee)


@allowed_loss.register(PureDP)
@allowed_loss.register(ApproxDP)
@allowed_loss.register(ZeroConcentratedDP)
def _(guarantee: Guarantee) -> float:
    return float(guarantee.parts[0])


@allowed_loss.register
def _(guarantee: GaussianDP) -> float:
    return math.sqrt(float(guarantee.mu_squared))


def _unattacked(guarantee: Guarantee) -> Unregistered:
    return Unregistered(
        f"No attack is known on the guarantee {type(guarantee).__name__}: register what an event proves with "
        "`noisewise.audit.attack.proven_loss` and what is allowed with `noisewise.audit.attack.allowed_loss`.",
        piece="attack",
    )
