"""The audit as one table: for every mechanism and guarantee the exact loss, what an attack proves, and a verdict.

exact loss       the largest over all audited plans at epsilon = 1: the max log-ratio, delta at epsilon, Renyi
                 divergence over order, or for GaussianDP the worst excess over the mu curve
empirical bound  what black-box releases prove about the same guarantee (`attack`), in its own unit
verdict          sound if the exact loss keeps the guarantee at *every* level from 0.01 to 20, the draws fit the
                 published law (`fit`), and no attack proves more than was promised
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from noisewise.audit.attack import attack, workers
from noisewise.audit.cases import EPSILONS, plans, rows_of
from noisewise.audit.exact import exact_loss
from noisewise.audit.fit import fit_of_plan
from noisewise.audit.targets import FIT_LEVEL, LEVEL, target
from noisewise.exact import integer
from noisewise.privacy.divergence import guarantee_beside
from noisewise.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.table import Table

FEWEST_RUNS = 20
MOST_RUNS = 10**6


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One mechanism under one guarantee: its exact loss, what an attack proves about it, and the verdict."""

    mechanism: str
    guarantee: str
    measure: str
    exact_loss: float
    empirical_lower_bound: float
    plans: int
    runs: int
    verdict: str
    is_sound: bool

    def to_dict(self) -> dict[str, object]:
        """Plain data for JSON."""
        return asdict(self)


def audit(
    mechanism: str | None = None, *, runs: int = 2000, progress: Console | None = None, processes: int = 2
) -> list[AuditRow]:
    """Audit every mechanism, or one: exact divergences, goodness of fit, and `runs` black-box releases a side.

    `progress` is a rich console to draw on. With two processes or more the releases are spread over them, so a script
    calls this under `if __name__ == "__main__":`.
    """
    rows = rows_of(mechanism)
    runs = integer(runs, "runs", minimum=FEWEST_RUNS, maximum=MOST_RUNS)
    processes = integer(processes, "processes", minimum=1, maximum=256)
    with _pool(processes) as pool, _bar(progress) as bar:
        return [_row(name, kind, runs, pool, bar) for name, kind in rows]


def table_of(rows: list[AuditRow]) -> Table:
    """The rows as a table to print."""
    from rich.table import Table

    grid = Table(title="Audit: what was promised, what is lost, what an attack can prove")
    for title in ("mechanism", "guarantee", "exact loss", "empirical lower bound", "verdict"):
        grid.add_column(title, overflow="fold")
    for row in rows:
        grid.add_row(
            row.mechanism,
            row.guarantee,
            f"{row.exact_loss:.6g} ({row.measure})",
            f"{row.empirical_lower_bound:.3g} ({row.runs} runs a side)",
            row.verdict,
            style=None if row.is_sound else "bold red",
        )
    return grid


def _row(name: str, kind: type[Guarantee], runs: int, pool: Executor | None, bar: _Bar) -> AuditRow:
    guarantee = guarantee_beside(kind, LEVEL)
    bar.start(f"{name}, {guarantee.kind}", len(EPSILONS) + 1 + 2 * runs)
    found = {epsilon: _losses(name, kind, epsilon, bar) for epsilon in EPSILONS}
    aimed = target(name, kind)
    fitted = fit_of_plan(target(name, kind, FIT_LEVEL.get(name, LEVEL)).plan)
    bar.advance(1)
    struck = attack(aimed.plan, aimed.one, aimed.other, runs=runs, pool=pool, progress=bar.advance)
    every = [loss for losses in found.values() for loss in losses]
    exceeded = [loss for loss in every if not loss.holds]
    faults = [f"exceeds its guarantee: {loss.subject}" for loss in exceeded[:1]]
    faults += [] if fitted.fits else ["what is drawn is not the published law"]
    faults += [f"an attack proves {struck.lower_bound:.4g} > {struck.limit:.4g}"] if struck.is_breach else []
    kept = [epsilon for epsilon, losses in found.items() if losses]
    levels = f"epsilon {float(min(kept)):g} to {float(max(kept)):g}"
    refused = "" if len(kept) == len(EPSILONS) else "; refused above"
    sound = f"sound: {len(every)} plans, {levels}{refused}; {fitted.draws} draws fit; no breach"
    worst = max(found[LEVEL], key=lambda loss: loss.value)
    return AuditRow(
        mechanism=name,
        guarantee=str(guarantee),
        measure=worst.measure,
        exact_loss=worst.value,
        empirical_lower_bound=struck.lower_bound,
        plans=len(every),
        runs=runs,
        verdict=sound if not faults else f"UNSOUND: {'; '.join(faults)}",
        is_sound=not faults,
    )


def _losses(name: str, kind: type[Guarantee], epsilon: Fraction, bar: _Bar) -> list[Any]:
    losses = [exact_loss(plan) for plan in plans(name, kind, epsilon)]
    bar.advance(1)
    return losses


@contextmanager
def _pool(processes: int) -> Iterator[Executor | None]:
    if processes == 1:
        yield None
        return
    with workers(processes) as pool:
        yield pool


class _Bar:
    """One line of progress a row; silent without a console."""

    def __init__(self, shown: Progress | None) -> None:
        self.shown = shown
        self.task: TaskID | None = None

    def start(self, words: str, total: int) -> None:
        if self.shown is not None:
            self.task = self.shown.add_task(words, total=total)

    def advance(self, steps: int) -> None:
        if self.shown is not None and self.task is not None:
            self.shown.advance(self.task, steps)


@contextmanager
def _bar(console: Console | None) -> Iterator[_Bar]:
    if console is None:
        yield _Bar(None)
        return
    from rich.progress import Progress

    with Progress(console=console) as shown:
        yield _Bar(shown)
