"""The report of a posterior: one HTML page that a reader can check.

It shows the posterior against the prior and against the posterior that ignores the noise, how the draws were made and
how far they can be trusted, how surprising the release is under the fitted model, what the confidential statistic
probably was, and what was released at what cost. Everything comes from releases and the population: nothing in it costs
any privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from noisewise.errors import NoisewiseError
from noisewise.html import Section, page
from noisewise.inference.diagnostics import ess_bulk, ess_tail, mcse_mean, rhat
from noisewise.inference.intervals import equal_tailed
from noisewise.inference.posterior import Posterior
from noisewise.inference.summary import plot_data
from noisewise.release import Release
from noisewise.report.plots import posterior_plot, trace_plot
from noisewise.report.words import describe_release

LEVEL = 0.9
MOST_PLOTS, MOST_ROWS = 12, 40


def posterior_page(posterior: Posterior, naive: Posterior | None = None, *, why_no_naive: str = "") -> str:
    """The whole page; `naive` is the posterior that ignores the noise, or `why_no_naive` says why there is none."""
    count = len(posterior.releases)
    source = "a release" if count == 1 else f"{count} releases"
    lead = f"What {source} under differential privacy can say about {', '.join(posterior.draws)}."
    return page("Posterior report", lead, posterior_sections(posterior, naive, why_no_naive=why_no_naive))


def posterior_sections(
    posterior: Posterior, naive: Posterior | None = None, *, why_no_naive: str = ""
) -> list[Section]:
    """The sections of the page, for reports that hold other things, too."""
    released = Section(
        "What was released, at what cost",
        "All that left the holder. Each file carries its own noise law, from which the likelihood was built.",
        block="\n\n".join(describe_release(release) for release in posterior.releases),
    )
    checked = posterior.check_sentence()  # before the summary, which shows what is known by then
    ending = [released, Section("How to state the guarantee", guarantee_sentence(posterior.releases))]
    if posterior.is_point:
        return [Section("Estimate", str(posterior.verdict), block=posterior.summary()), *ending]
    return [
        Section("Posterior", _reading(naive), block=posterior.summary(), png=posterior_picture(posterior, naive)),
        *_naive_section(posterior, naive, why_no_naive),
        _diagnostics_section(posterior),
        Section("Does the model fit the release?", checked),
        *_statistic_section(posterior),
        *ending,
    ]


def posterior_picture(posterior: Posterior, naive: Posterior | None = None, path: Any = None) -> bytes:
    """Each unknown's posterior against its prior and, where given, the naive posterior."""
    ignoring = {} if naive is None else dict(naive.scalars())
    entries = [{**entry, "naive": ignoring.get(entry["name"])} for entry in plot_data(posterior, LEVEL)[:MOST_PLOTS]]
    return posterior_plot(entries, path)


def guarantee_sentence(releases: Sequence[Release]) -> str:
    """A sentence to cite: what the guarantee is of, between which neighbours, and that inference spends nothing."""
    promises = dict.fromkeys(
        f"{release.statistic} satisfies {release.guarantee} ({release.guarantee.kind}) between data sets that differ "
        + ("in one record" if release.schema.is_change_one else "by one record more or less")
        for release in releases
    )
    simulated = any(release.simulated for release in releases)
    warning = " (Simulated releases: no real records stand behind them.)" if simulated else ""
    return (
        f"The published value of {'; that of '.join(promises)}. The estimates on this page are computed from published "
        "values and public assumptions alone: such post-processing keeps the guarantee and costs nothing more."
        + warning
    )


def _reading(naive: Posterior | None) -> str:
    compared = "" if naive is None else (
        " The orange curve takes the published value for the true one and promises more than is known."
    )  # fmt: skip
    return (
        f"The blue curve is what is known after the release, with its {100 * LEVEL:g} % interval; the dashed curve is "
        f"what was assumed before.{compared}"
    )


def _naive_section(posterior: Posterior, naive: Posterior | None, why: str) -> list[Section]:
    title = "If the noise were ignored"
    if naive is None:
        return [Section(title, f"There is no such posterior here: {why}")] if why else []
    rows, ignoring = [], dict(naive.scalars())
    for name, draws in islice(posterior.scalars(), MOST_ROWS):
        (low, high), (ignored_low, ignored_high) = _interval(draws), _interval(ignoring[name])
        ratio = (high - low) / (ignored_high - ignored_low) if ignored_high > ignored_low else math.inf
        rows.append((name, f"{low:.4g} to {high:.4g}", f"{ignored_low:.4g} to {ignored_high:.4g}", f"{ratio:.2f}"))
    text = "Intervals with the noise in the model, and with the published value taken for the true one."
    return [Section(title, text, header=("parameter", _level_words(), "noise ignored", "times as wide"), rows=rows)]


def _diagnostics_section(posterior: Posterior) -> Section:
    unknowns = list(posterior.scalars())
    rows = [
        (name, f"{ess_bulk(draws):.0f}", f"{ess_tail(draws):.0f}", f"{rhat(draws):.3f}", f"{mcse_mean(draws):.2g}")
        for name, draws in unknowns[:MOST_ROWS]
    ]
    name = "" if posterior.method == "exact" else f"{posterior.method}: "  # a word kept for a release's own law
    how = f"{name}{posterior.because}. {posterior.seconds:.1f} seconds, with seed {posterior.seed}."
    return Section(
        "How the draws were made",
        f"{how}\n\n{posterior.verdict}",
        header=("parameter", "effective draws", "in the tails", "R-hat", "Monte Carlo error of the mean"),
        rows=rows,
        png=trace_plot([{"name": name, "draws": draws} for name, draws in unknowns[:MOST_PLOTS]]),
    )


def _statistic_section(posterior: Posterior) -> list[Section]:
    title = "What the confidential statistic probably was"
    try:
        found = posterior.statistic
    except NoisewiseError as error:
        return [Section(title, f"It was not estimated: {error}")]
    low, high = found.interval(LEVEL)
    published = np.concatenate([release.estimate for release in posterior.releases])
    shown = (
        [f"{value:.6g}" for value in published] if len(published) == len(found.labels) else ["-"] * len(found.labels)
    )
    rows = [
        (label, value, f"{mean:.6g}", f"{sd:.3g}", f"{a:.6g} to {b:.6g}")
        for label, value, mean, sd, a, b in zip(found.labels, shown, found.mean, found.sd, low, high, strict=True)
    ]
    text = (
        "What the records said before noise, as far as the published value and the model can tell. It is an estimate "
        "from public values, not a look at the records."
    )
    header = ("statistic", "published", "mean", "sd", _level_words())
    return [Section(title, text, header=header, rows=rows[:MOST_ROWS])]


def _interval(draws: Any) -> tuple[float, float]:
    low, high = equal_tailed(np.ravel(draws), LEVEL)
    return float(low), float(high)


def _level_words() -> str:
    return f"{100 * LEVEL:g} % interval"
