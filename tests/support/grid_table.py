"""One row for each setting of the random grid: what the package said, what brute force said, and how far apart."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from brute_force import BrutePosterior
from random_grid import Setting

ALLOWED, ERRORS = 0.1, 5.0  # a difference of a tenth of a posterior sd and five Monte Carlo errors


@dataclass(frozen=True)
class Row:
    """The largest difference of a setting, in posterior sds, beside the one allowed."""

    seed: int
    text: str
    difference: float = np.nan
    error: float = np.nan  # the Monte Carlo error of that difference, both sides
    what: str = ""
    warns: bool = False
    verdict: str = ""
    because: str = ""
    is_settled: bool = True
    crash: str = ""
    seconds: float = 0.0
    oracle_seconds: float = 0.0

    @property
    def agrees(self) -> bool:
        return not self.crash and self.difference <= ALLOWED + ERRORS * self.error

    @property
    def state(self) -> str:
        if self.crash:
            return "CRASH"
        if not self.is_settled:
            return "unsettled"
        return ("agrees" if self.agrees else "DIFFERS") + (", warns" if self.warns else "")

    def __str__(self) -> str:
        told = self.crash or f"{self.what} off by {self.difference:.3f} sd (MC error {self.error:.3f})"
        return (
            f"{self.seed:>12}  {self.state:<15} {told}; {self.seconds:.1f} s + {self.oracle_seconds:.1f} s  {self.text}"
        )


def batch_errors(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Monte Carlo errors of mean and sd of draws (chains, draws, size), from five batches of each chain."""
    chains, length, size = draws.shape
    cut = length // 5
    batches = draws[:, : 5 * cut].reshape(chains * 5, cut, size)
    return tuple(  # type: ignore[return-value]
        np.std(each, axis=0, ddof=1) / np.sqrt(chains * 5) for each in (batches.mean(axis=1), batches.std(axis=1))
    )


def moments_of(posterior: Any, names: Iterable[str]) -> tuple[np.ndarray, ...]:
    """Means and sds of the package, flat, and their Monte Carlo errors: none where quadrature gave them."""
    found = []
    for name in names:
        draws = np.asarray(posterior.draws[name])
        flat = draws.reshape(*draws.shape[:2], -1)
        errors = batch_errors(flat) if posterior.moments is None else (np.zeros(flat.shape[2]),) * 2
        found.append([np.ravel(posterior.mean[name]), np.ravel(posterior.sd[name]), *errors])
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))


def largest_difference(posterior: Any, oracle: BrutePosterior, names: Iterable[str]) -> tuple[float, float, str]:
    """The mean or sd that is furthest beyond what is allowed: difference and error in sds, and its name."""
    mean, sd, mean_error, sd_error = moments_of(posterior, names)
    candidates = []
    for j, label in enumerate(oracle.labels):
        unit = oracle.sd[j]
        for what, gap, errors in (
            ("mean", mean[j] - oracle.mean[j], (mean_error[j], oracle.mean_error[j])),
            ("sd", sd[j] - oracle.sd[j], (sd_error[j], oracle.sd_error[j])),
        ):
            candidates.append((abs(gap) / unit, float(np.hypot(*errors)) / unit, f"{what} of {label}"))
    return max(candidates, key=lambda c: c[0] - ERRORS * c[1] if np.isfinite(c[0]) else np.inf)


def row_of(seed: int, *, seconds: float = 4.0, **options: Any) -> Row:
    """Draw the setting, ask both, compare; where they differ or nothing is settled, brute force gets more time."""
    setting = Setting.drawn(seed)
    started = time.process_time()
    try:
        posterior = setting.infer(**options)
        warns, verdict = bool(posterior.verdict.warns), str(posterior.verdict)
    except Exception as error:  # every exception is a finding
        where = traceback.extract_tb(error.__traceback__)[-1]
        crash = f"{type(error).__name__}: {str(error)[:300]} ({where.filename.rsplit('/', 1)[-1]}:{where.lineno})"
        return Row(seed, setting.text, crash=crash, seconds=time.process_time() - started)
    spent = time.process_time() - started
    names = [unknown.name for unknown in setting.space.unknowns]
    rng = np.random.default_rng([seed, 1])
    total = 0.0
    for budget in (seconds, 5 * seconds):
        oracle = setting.brute_force().posterior(rng, seconds=budget)
        total += oracle.seconds
        difference, error, what = largest_difference(posterior, oracle, names)
        row = Row(seed, setting.text, difference, error, what, warns, verdict, posterior.because, oracle.is_settled,
                  seconds=spent, oracle_seconds=total)  # fmt: skip
        if row.is_settled and row.agrees:
            break
    return row
