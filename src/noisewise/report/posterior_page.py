"""The report of a posterior: one HTML page, with the answer first and what stands behind it after.

    headline        the answer in a sentence, with its picture
    answers         every number in people's terms, and what differs between groups
    how sure        what the intervals hold, what ignoring the noise would promise, prior and posterior, the fit
    released        what left the holder, and its price
    computed        method, verdict, draws: for those who check
Everything comes from releases and the population: nothing in it costs any privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from noisewise.errors import NoisewiseError
from noisewise.html import Picture, Section, Table, page
from noisewise.inference.answers import Answers, Quantity
from noisewise.inference.diagnostics import ess_bulk, ess_tail, mcse_mean, rhat
from noisewise.inference.intervals import equal_tailed
from noisewise.inference.posterior import Posterior
from noisewise.inference.sentence import SURE, price_words, sentence, told_words
from noisewise.inference.told import number_words
from noisewise.report.canvas import NARROW, WIDE
from noisewise.report.plots import trace_plot
from noisewise.report.posterior_pictures import Sheet, group_numbers, has_groups, has_laws, picture
from noisewise.report.release_tables import release_sections
from noisewise.report.words import plain_number
from noisewise.types import Floats

__all__ = [
    "answer_sentence",
    "answer_tables",
    "drawn",
    "headline_of",
    "headline_pictures",
    "lead_of",
    "posterior_page",
    "posterior_sections",
]

LEVEL = 0.9
MOST_TRACES = 6
MANY, FEW_PANELS = 40, 6
LAWS = "The distribution that was learnt for each group; the band holds it, place by place, with 90 %."
MOST_ROWS = 60


def chance_words(share: float) -> str:
    """A share of draws as a chance: that none or all of them say so is no certainty."""
    if share > 0.995:
        return "over 99 %"
    return "below 1 %" if share < 0.005 else f"{100 * share:.0f} %"


def posterior_page(posterior: Posterior, naive: Posterior | None = None, *, why_no_naive: str = "") -> str:
    """The whole page; `naive` is the posterior that ignores the noise, or `why_no_naive` says why there is none."""
    sections = posterior_sections(posterior, naive, why_no_naive=why_no_naive)
    headline, pictures = headline_of(posterior), headline_pictures(posterior)
    return page("Posterior report", lead_of(posterior), sections, headline=headline, pictures=pictures)


def posterior_sections(
    posterior: Posterior, naive: Posterior | None = None, *, why_no_naive: str = ""
) -> list[Section]:
    """What stands under the headline."""
    checked = posterior.check_sentence()  # first: the summary of a posterior tells what is known by then
    released = release_sections(posterior.releases) if posterior.releases else []
    fit = [Section("Does the model fit the release?", _sentence(checked))] if posterior.releases else []
    if posterior.is_point:
        return [*answers_section(posterior), Section("How it was computed", str(posterior.verdict)), *released]
    return [
        *answers_section(posterior),
        *_contrast_section(posterior),
        _sureness_section(posterior, naive, why_no_naive),
        *fit,
        *released,
        *_statistic_section(posterior),
        *_diagnostics_sections(posterior),
    ]


def answer_sentence(posterior: Posterior) -> str:
    """The answer in one sentence; what was learnt where there is none."""
    try:
        told = sentence(posterior).split("\n")[0]
    except NoisewiseError:  # a model without answers
        told = ""
    return told or f"What was learnt about {', '.join(posterior.draws)}"


def headline_of(posterior: Posterior) -> str:
    """The answer as a headline; of groups no more than is sure: which is highest, if one is."""
    if posterior.is_point or not has_groups(posterior):
        return answer_sentence(posterior)
    first = group_numbers(posterior, Sheet())[0]
    chance = float(posterior.rank(first.quantity, column=first.column)[first.group][0])
    sources = (source for source in posterior.answer_sources() if source.group == first.group)
    (headline,) = next(sources).headlines()[:1]
    told = told_words(first, headline)
    if chance >= SURE:
        return f"{headline.subject[:1].upper()}{headline.subject[1:]} is highest in {first.group}: {told}"
    return f"No group has surely the highest {headline.subject.removeprefix('the ')}; {first.group} may, with {told}"


def lead_of(posterior: Posterior) -> str:
    """Where the answer comes from; before it, in the verdict's words, why to take care."""
    count = len(posterior.releases)
    source = {0: "answers", 1: "a release"}.get(count, f"{count} releases")
    price = price_words(posterior.releases) if count else ""
    lead = (
        f"From {source} under differential privacy{price}. The noise that protects the records is part of the model, "
        "so the intervals hold it."
    )
    if not posterior.is_point and has_groups(posterior):
        lead = f"{answer_sentence(posterior)}\n\n{lead}"
    verdict = posterior.verdict
    cautions = " ".join(verdict.warnings if verdict.is_converged else (*verdict.warnings, verdict.evidence.sentence()))
    return f"Take care: {cautions}\n\n{lead}" if cautions else lead


def drawn(posterior: Posterior, kind: str, alt: str, caption: str = "", sheet: Sheet | None = None) -> Picture:
    """A picture for a page: wide, and again narrow, on clear ground."""
    given = sheet or Sheet()
    wide, narrow = (
        picture(posterior, kind, None, replace(given, width=width, is_clear=True)) for width in (WIDE, NARROW)
    )
    return Picture(wide, alt, narrow, caption)


def headline_pictures(posterior: Posterior) -> list[Picture]:
    """The one picture that shows the answer: groups, else the law of the column, else its unknowns; none of a point."""
    if posterior.is_point:
        return []
    if has_groups(posterior):
        told = group_numbers(posterior, Sheet())
        alt = (
            f"{told[0].quantity} {told[0].column} of {len(told)} groups, from {told[0].group} down to {told[-1].group}"
        )
        caption = (
            "Each dot is an estimate, the blue line its 90 % interval. Beside it, faint, what dividing the published "
            "sum by the published count would say, with the reach of the noise; where it is missing the count is too "
            "small to divide by."
        )
        return [drawn(posterior, "groups", alt, caption)]
    try:
        alt = "The fitted distribution with its band, and the published numbers on it"
        caption = "The curve is the distribution that was learnt; the band holds it, place by place, with 90 %."
        return [drawn(posterior, "distribution", alt, caption)]
    except NoisewiseError:  # a model without laws of columns
        return [_parameters_picture(posterior, None)]


def answers_section(posterior: Posterior) -> list[Section]:
    """Every number in people's terms as a table."""
    try:
        answers = posterior.answers(level=LEVEL)
    except NoisewiseError:  # a model without answers: its parameters stand in the section on sureness
        return []
    notes = "\n\n".join(answers.notes)
    return [Section("The answers", tables=answer_tables(answers), ending=notes)]


def answer_tables(answers: Answers) -> list[Table]:
    """Answers with the digits that their intervals warrant: a row for each group, then what is of no group."""
    grouped, rest = [one for one in answers if one.group], [one for one in answers if not one.group]
    tables = [_group_table(answers.level, grouped)] if grouped else []
    return [*tables, answer_table(answers.level, rest)] if rest or not tables else tables


def answer_table(level: float, rows: Sequence[Quantity]) -> Table:
    """A row for each number, without columns in which nothing stands."""
    header = ["quantity", "column", "group", "estimate", f"{100 * level:g} % interval", "unit"]
    cells = [_answer_row(one) for one in rows[:MOST_ROWS]]
    kept = [k for k in range(len(header)) if k in (0, 3) or any(row[k] for row in cells)]
    more = f"The first {MOST_ROWS} of {len(rows)}." if len(rows) > MOST_ROWS else ""
    return Table([header[k] for k in kept], [[row[k] for k in kept] for row in cells], more)


def _group_table(level: float, rows: Sequence[Quantity]) -> Table:
    """A row for each group, a column for each of its numbers, with their intervals; the highest first."""
    kinds = list(dict.fromkeys((one.quantity, one.column, _answer_row(one)[-1]) for one in rows))
    cells = {(one.group, one.quantity, one.column): one for one in rows}
    first = {one.group: one.estimate or 0.0 for one in rows if one.quantity == kinds[0][0]}
    groups = sorted(dict.fromkeys(one.group for one in rows), key=lambda group: -first.get(group, 0.0))
    table = []
    for group in groups[:MOST_ROWS]:
        numbers = [cells.get((group, quantity, column)) for quantity, column, _ in kinds]
        table.append([group, *("" if one is None else _with_interval(one) for one in numbers)])
    header = ["group", *(f"{quantity}{f' ({unit})' if unit else ''}" for quantity, _, unit in kinds)]
    more = f" The first {MOST_ROWS} of {len(groups)} groups." if len(groups) > MOST_ROWS else ""
    return Table(header, table, f"In brackets the {100 * level:g} % interval.{more}")


def _with_interval(one: Quantity) -> str:
    _, _, _, value, ends, _ = _answer_row(one)
    is_known = one.low is not None and one.low == one.high  # a number of the law, not an unknown
    return f"{value} ({ends})" if ends and not is_known else value


def _answer_row(one: Quantity) -> list[str]:
    if one.estimate is None:
        return [one.quantity, one.column, one.group, "-", "", one.unit]
    is_share = one.quantity.startswith("share ") and not one.unit  # told in per cent
    factor, unit = (100.0, "%") if is_share else (1.0, one.unit)
    value, low, high, sd = (None if x is None else factor * x for x in (one.estimate, one.low, one.high, one.sd))
    ends = ""
    if low is not None and high is not None:
        ends = " to ".join(number_words(end, low, high, sd) for end in (low, high))
    elif sd is not None:
        ends = f"± {sd:.2g} (standard error)"
    return [one.quantity, one.column, one.group, number_words(value or 0.0, low, high, sd), ends, unit]


def _contrast_section(posterior: Posterior) -> list[Section]:
    if not has_groups(posterior):
        return []
    told = group_numbers(posterior, Sheet())
    ranking = posterior.rank(told[0].quantity, column=told[0].column)
    chances = [
        (group, chance_words(float(row[0])), f"{float(place):.1f}")
        for group, row, place in zip(ranking.groups, ranking.probabilities, ranking.expected, strict=True)
    ]
    order = sorted(chances, key=lambda row: float(row[2]))[:MOST_ROWS]
    text = (
        "Differences are taken draw by draw, so what is uncertain about both groups is counted once. A grey line holds "
        "0: by these releases the two may be equal."
    )
    alt = "Differences between groups with 90 % intervals"
    tables = [Table(("group", "chance to be the highest", "expected place"), order)]
    alike = "The fitted distribution of each group with its band"
    laws = drawn(posterior, "distribution", alike, LAWS, _sheet(len(told)))
    return [
        Section("What differs", text, pictures=[drawn(posterior, "contrast", alt)], tables=tables),
        Section("The distribution in each group", pictures=[laws]),
    ]


def _sureness_section(posterior: Posterior, naive: Posterior | None, why: str) -> Section:
    text = (
        f"A {LEVEL:.0%} interval holds the true value nine times in ten where the population is as assumed. It counts "
        "two things: that only some records were asked, and the noise that was added to protect them."
    ).replace("90%", "90 %")
    tables = []
    if naive is None:
        text += f"\n\nIf the noise were ignored: there is no such posterior here. {_sentence(why)}" if why else ""
    else:
        text += (
            "\n\nIf the noise were ignored, the published value would be taken for the true one; the table shows what "
            "that promises. Intervals that are too narrow miss the truth more often than they say."
        )
        tables.append(_naive_table(posterior, naive))
    is_drawn = has_groups(posterior) or (naive is None and not has_laws(posterior))  # under the headline, or last
    pictures = [] if is_drawn else [_parameters_picture(posterior, naive)]
    return Section("How sure, and why", text, pictures=pictures, tables=tables)


def _parameters_picture(posterior: Posterior, naive: Posterior | None) -> Picture:
    compared = "" if naive is None else " The orange curve ignores the noise, and promises more than is known."
    names = [name for name, _ in posterior.scalars()]
    sheet = replace(_sheet(len(names)), naive=naive)
    has_priors = any(posterior.model.prior_of(name) is not None for name in names[: sheet.panels])
    before = "; dashed is what was assumed before" if has_priors else ""
    source = "release" if posterior.releases else "answers"
    caption = f"Blue is what is known after the {source}, with its {100 * LEVEL:g} % interval{before}.{compared}"
    return drawn(posterior, "parameters", "Prior and posterior of each parameter", caption, sheet)


def _sheet(there: int) -> Sheet:
    """A few panels where nobody would look at all of them."""
    return Sheet(panels=FEW_PANELS) if there > MANY else Sheet()


def _naive_table(posterior: Posterior, naive: Posterior) -> Table:
    rows, ignoring = [], dict(naive.scalars())
    for name, draws in islice(posterior.scalars(), MOST_ROWS):
        if name not in ignoring:
            continue
        (low, high), (ignored_low, ignored_high) = _interval(draws), _interval(ignoring[name])
        ratio = (high - low) / (ignored_high - ignored_low) if ignored_high > ignored_low else math.inf
        rows.append((name, f"{low:.4g} to {high:.4g}", f"{ignored_low:.4g} to {ignored_high:.4g}", f"{ratio:.2f}"))
    return Table(("parameter", _level_words(), "noise ignored", "times as wide"), rows)


def _statistic_section(posterior: Posterior) -> list[Section]:
    title = "What the confidential statistic probably was"
    if not posterior.releases:
        return []
    try:
        found = posterior.statistic
    except NoisewiseError as error:
        return [Section(title, f"It was not estimated: {error}")]
    low, high = found.interval(LEVEL)
    published = np.concatenate([release.estimate for release in posterior.releases])
    is_told = len(published) == len(found.labels)
    shown = [plain_number(float(value), 6) for value in published] if is_told else ["-"] * len(found.labels)
    rows = [
        (label, value, plain_number(mean, 6), plain_number(sd, 3), f"{plain_number(a, 6)} to {plain_number(b, 6)}")
        for label, value, mean, sd, a, b in zip(found.labels, shown, found.mean, found.sd, low, high, strict=True)
    ]
    text = (
        "What the records said before noise, as far as the published value and the model can tell. It is an estimate "
        "from public values, not a look at the records."
    )
    header = ("statistic", "published", "mean", "sd", _level_words())
    return [Section(title, text, header=header, rows=rows[:MOST_ROWS])]


def _diagnostics_sections(posterior: Posterior) -> list[Section]:
    unknowns = list(posterior.scalars())
    rows = [
        (
            name,
            f"{draws.mean():.6g}",
            f"{draws.std():.4g}",
            f"{ess_bulk(draws):.0f}",
            f"{ess_tail(draws):.0f}",
            f"{rhat(draws):.3f}",
            f"{mcse_mean(draws):.2g}",
        )
        for name, draws in unknowns[:MOST_ROWS]
    ]
    name = "" if posterior.method == "exact" else f"{posterior.method}: "  # a word kept for a release's own law
    how = f"{name}{posterior.because}. {posterior.seconds:.1f} seconds, with seed {posterior.seed}."
    header = ("parameter", "mean", "sd", "effective draws", "in the tails", "R-hat", "Monte Carlo error of the mean")
    trace = trace_plot([{"name": name, "draws": draws} for name, draws in unknowns[:MOST_TRACES]], is_clear=True)
    priors = [_parameters_picture(posterior, None)] if has_groups(posterior) else []
    evidence = "" if posterior.log_evidence is None else f"{posterior.log_evidence:.6g}"
    facts = [("Computed", how), ("Verdict", str(posterior.verdict)), ("Log evidence", evidence)]
    return [
        Section(
            "How it was computed",
            "For those who check: the draws behind the intervals, and how far they can be trusted.",
            facts=[(term, told) for term, told in facts if told],
            tables=[Table(header, rows)],
            pictures=[*priors, Picture(trace, "Traces and ranks of the chains")],
        )
    ]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _interval(draws: Floats) -> tuple[float, float]:
    low, high = equal_tailed(np.ravel(draws), LEVEL)
    return float(low), float(high)


def _level_words() -> str:
    return f"{100 * LEVEL:g} % interval"
