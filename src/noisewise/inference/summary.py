"""A posterior in words and in plain data for its plot.

A summary opens with the answer in a sentence (`sentence`), then a table of the parameters, how it was computed, and how
far to trust it. It computes closed forms and quadratures at the draws there are, and simulates nothing.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise.inference import diagnostics
from noisewise.inference.sentence import opening_lines
from noisewise.inference.units import with_unit
from noisewise.likelihood.size_prior import has_size_law, sizes_text
from noisewise.printable import printable
from noisewise.types import Floats

if TYPE_CHECKING:
    from noisewise.inference.posterior import Posterior

__all__ = ["plot_data", "summary"]

MOST_ROWS = 40
WIDTH = 100


def summary(posterior: Posterior) -> str:
    """The answer in a sentence; the table of parameters; method and likelihood; the verdict; the check."""
    labels, units = list(posterior.scalars()), parameter_units(posterior)
    if posterior.is_point:
        rows = _point_rows(posterior, [(label, draws) for label, draws in labels[:MOST_ROWS]], units)
    else:
        exact = _exact_moments(posterior)
        rows = [_row(_unit(label, units), draws, exact.get(label)) for label, draws in labels[:MOST_ROWS]]
        rows.insert(0, _HEADINGS)
    lines = [*_opening(posterior), *_table(rows)]
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
            lines += textwrap.wrap(printable(f"{name}: {text}"), WIDTH, subsequent_indent="  ")
    return "\n".join(map(printable, lines))


Row = tuple[str, ...]
_HEADINGS: Row = ("parameter", "mean", "sd", "5 %", "50 %", "95 %", "ess", "rhat")


def _row(label: str, draws: Floats, exact: tuple[float, float] | None) -> Row:
    mean, sd = (
        exact if exact is not None else (float(draws.mean()), float(draws.std(ddof=1)) if draws.size > 1 else 0.0)
    )
    quantiles = np.quantile(draws, [0.05, 0.5, 0.95])
    with np.errstate(all="ignore"):
        ess = float(np.min([diagnostics.ess_bulk(draws), diagnostics.ess_tail(draws)]))
        rhat = diagnostics.rhat(draws)
    numbers = [f"{mean:.6g}", f"{sd:.4g}", *(f"{q:.6g}" for q in quantiles)]
    return (label, *numbers, f"{ess:.0f}", f"{rhat:.3f}")


def _opening(posterior: Posterior) -> list[str]:
    """The answer in a sentence, and an empty line under it."""
    lines = [part for line in opening_lines(posterior) for part in line.split("\n")]
    told = [one for line in lines for one in textwrap.wrap(line, WIDTH, subsequent_indent="  ")]
    return [*told, ""] if told else []


def _point_rows(posterior: Posterior, labels: list[tuple[str, Floats]], units: Mapping[str, str]) -> list[Row]:
    """Estimates, with their standard errors where the method has them."""
    errors: dict[str, float] = {}
    if posterior.covariance is not None:
        names = [label for label, _ in posterior.scalars()]
        errors = dict(
            zip(names, np.concatenate([np.ravel(e) for e in posterior.standard_errors.values()]), strict=True)
        )
    rows: list[Row] = [("parameter", "estimate", *(["standard error"] if errors else []))]
    for label, draws in labels:
        error = [f"{errors[label]:.4g}" if np.isfinite(errors[label]) else "-"] if errors else []
        rows.append((_unit(label, units), f"{draws[0, 0]:.6g}", *error))
    return rows


def parameter_units(posterior: Posterior) -> dict[str, str]:
    """The units of the parameters, by label; none where the draws are of no model."""
    return {} if posterior.population is None else dict(posterior.model.parameter_units(posterior.releases))


def _unit(label: str, units: Mapping[str, str]) -> str:
    return with_unit(label, units.get(label, ""))


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    rows = [tuple(map(printable, row)) for row in rows]  # before they are measured: an escape is longer
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
    if has_size_law(posterior.stated_n):
        return f"unknown, with the prior {sizes_text(posterior.stated_n)}; the number of records is private."
    return f"{posterior.stated_n}, as the analyst assumed it; the number of records is private."


def plot_data(posterior: Posterior, level: float = 0.9) -> list[dict[str, Any]]:
    """One plain mapping a parameter, as `report.plots.posterior_plot` takes them."""
    shown = []
    model, units = posterior.model, parameter_units(posterior)
    for label, draws in list(posterior.scalars())[:MOST_ROWS]:
        low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
        one: dict[str, Any] = {
            "name": label,
            "unit": units.get(label, ""),
            "draws": draws,
            "interval": (float(low), float(high)),
            "level": level,
        }
        support = model.supports.get(label, model.supports.get(label.split("[")[0]))
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
