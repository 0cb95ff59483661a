"""A posterior in words and in plain data for its plot."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise.inference import diagnostics
from noisewise.inference.kernels import Floats
from noisewise.printable import printable

if TYPE_CHECKING:
    from noisewise.inference.posterior import Posterior

__all__ = ["plot_data", "summary"]

MOST_ROWS = 40
WIDTH = 100


def summary(posterior: Posterior) -> str:
    """The table of parameters; method and likelihood; the verdict; the check; the kind of interval."""
    rows: list[tuple[str, ...]] = [("parameter", "estimate")] if posterior.is_point else [_HEADINGS]
    labels = list(posterior.scalars())
    exact = _exact_moments(posterior)
    for label, draws in labels[:MOST_ROWS]:
        rows.append((label, f"{draws[0, 0]:.6g}") if posterior.is_point else _row(label, draws, exact.get(label)))
    lines = _table(rows)
    if len(labels) > MOST_ROWS:
        lines.append(f"... and {len(labels) - MOST_ROWS} more parameters.")
    if not posterior.is_point:
        lines.append("5 % and 95 % are the ends of the equal-tailed 90 % interval.")
    lines.append("")
    facts = [
        ("Method", _method(posterior.method, posterior.how)),
        ("Likelihood", f"{posterior.likelihood} ({posterior.law})." if posterior.law else posterior.likelihood),
        ("Stated n", _stated(posterior)),
        ("Evidence", "" if posterior.log_evidence is None else f"log p(releases) = {posterior.log_evidence:.6g}"),
        ("Verdict", str(posterior.verdict)),
        ("Check", posterior.check_sentence(is_asked=False) if posterior.releases else ""),
    ]
    for name, text in facts:
        if text:
            lines += textwrap.wrap(f"{name}: {text}", WIDTH, subsequent_indent="  ")
    return "\n".join(map(printable, lines))


_HEADINGS = ("parameter", "mean", "sd", "5 %", "50 %", "95 %", "ess", "rhat")


def _row(label: str, draws: Floats, exact: tuple[float, float] | None) -> tuple[str, ...]:
    mean, sd = (
        exact if exact is not None else (float(draws.mean()), float(draws.std(ddof=1)) if draws.size > 1 else 0.0)
    )
    quantiles = np.quantile(draws, [0.05, 0.5, 0.95])
    with np.errstate(all="ignore"):
        ess = float(np.min([diagnostics.ess_bulk(draws), diagnostics.ess_tail(draws)]))
        rhat = diagnostics.rhat(draws)
    numbers = [f"{mean:.6g}", f"{sd:.4g}", *(f"{q:.6g}" for q in quantiles)]
    return (label, *numbers, f"{ess:.0f}", f"{rhat:.3f}")


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        "  ".join([f"{row[0]:<{widths[0]}}", *(f"{cell:>{w}}" for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]


def _exact_moments(posterior: Posterior) -> dict[str, tuple[float, float]]:
    """Mean and sd of every scalar label, where the method knows them."""
    if posterior.moments is None or posterior.is_point:
        return {}
    labels = [label for label, _ in posterior.scalars()]
    means = np.concatenate([np.ravel(value) for value in posterior.mean.values()])
    sds = np.concatenate([np.ravel(value) for value in posterior.sd.values()])
    return {label: (float(m), float(s)) for label, m, s in zip(labels, means, sds, strict=True)}


def _method(name: str, how: str) -> str:
    """The method by its name; of "exact" what was done, since the word is kept for a release's own law."""
    return f"{how[:1].upper()}{how[1:]}." if name == "exact" else f"{name} ({how})."


def _stated(posterior: Posterior) -> str:
    if posterior.stated_n is None:
        return ""
    return f"{posterior.stated_n}, as the analyst assumed it; the number of records is private."


def plot_data(posterior: Posterior, level: float = 0.9) -> list[dict[str, Any]]:
    """One plain mapping a parameter, as `report.plots.posterior_plot` takes them."""
    shown = []
    model = posterior.model
    for label, draws in list(posterior.scalars())[:MOST_ROWS]:
        low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
        one: dict[str, Any] = {"name": label, "draws": draws, "interval": (float(low), float(high)), "level": level}
        support = model.supports.get(label.split("[")[0])
        if support is not None:
            one["support"] = (support.low, support.high)
        prior = model.prior_of(label)
        if prior is not None:
            one["prior_x"], one["prior_density"] = _curve(prior, draws)
        shown.append(one)
    return shown


def _curve(prior: Any, draws: Floats) -> tuple[Floats, Floats]:
    """The prior's density over its own bulk and the posterior's."""
    ends = prior.ppf([0.005, 0.995])
    low, high = min(float(ends[0]), float(draws.min())), max(float(ends[1]), float(draws.max()))
    x = np.union1d(np.linspace(low, high, 400), np.linspace(float(draws.min()), float(draws.max()), 200))
    with np.errstate(all="ignore"):
        density = np.asarray(prior.pdf(x), np.float64)
    return x, np.where(np.isfinite(density), density, np.nan)
