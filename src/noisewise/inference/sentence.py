"""The answer in a sentence: what a summary opens with.

    The mean income is 50.3 thousand EUR, 90 % interval 49.4 to 51.1, from 4000 records at epsilon = 1.

It says no more than is known: where the verdict warns, the warning stands first and the sentence is said to be as
computed; a stated n is said to be assumed, a point to be one, and what ignores the noise to do so. Records are called
records: whether one is a person, a visit or an invoice no release says. Nothing is simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from noisewise.errors import Incomparable, NoisewiseError
from noisewise.inference.answer_sources import AnswerSource, Headline
from noisewise.inference.answers import Quantity, summarised
from noisewise.inference.told import interval_words, number_words
from noisewise.joining import same_records, stated_sizes
from noisewise.likelihood.size_prior import has_size_law
from noisewise.measuring import ELSEWHERE
from noisewise.printable import printable
from noisewise.release import NoisyValue

if TYPE_CHECKING:
    from noisewise.inference.posterior import Posterior

__all__ = ["opening_lines", "price_words", "sentence", "told_words"]

MOST_CLAUSES, MOST_GROUPS = 4, 6
LEVEL = 0.9
SURE = 0.95  # the chance from which a group is called the highest or the lowest


def opening_lines(posterior: Posterior) -> list[str]:
    """The lines that open a summary: the warnings, then the sentence; none where there is nothing to say."""
    try:
        told = sentence(posterior)
    except NoisewiseError:  # a model without answers, or whose numbers do not exist
        told = ""
    if not told:
        return []
    if not posterior.verdict.warns:
        return [told]
    verdict = posterior.verdict
    reasons = verdict.warnings if verdict.is_converged else (*verdict.warnings, verdict.evidence.sentence())
    return [f"Caution: {' '.join(reasons)}", f"As computed, {told[0].lower()}{told[1:]}"]


def sentence(posterior: Posterior, level: float = LEVEL) -> str:
    """The answer in one sentence (one more for each group); nothing where the model has no headline."""
    sources = posterior.answer_sources()
    grouped = [source for source in sources if source.group and source.headlines()]
    ending = f"{_from(posterior)}."
    if grouped:
        return _by_group(posterior, grouped, level, ending)
    lines = [headline for source in sources for headline in source.headlines()]
    if not lines:
        return ""
    clauses = [printable(_clause(posterior, headline, level)) for headline in lines[:MOST_CLAUSES]]
    more = f"; {len(lines) - MOST_CLAUSES} more in posterior.answers()" if len(lines) > MOST_CLAUSES else ""
    text = "; ".join(clauses) + more + ending
    return text[0].upper() + text[1:]


def _clause(posterior: Posterior, headline: Headline, level: float) -> str:
    told = summarised(posterior, headline.drawn, level)
    if told.estimate is None:
        return f"{headline.subject} cannot be told ({told.note.rstrip('.')})"
    return f"{_hedge(posterior)}{headline.subject} {headline.verb} {told_words(told, headline)}"


def told_words(told: Quantity, headline: Headline) -> str:
    """A number with its unit and interval; a share in per cent."""
    if headline.drawn.is_share:
        told = _scaled(told, 100.0, "%")
    assert told.estimate is not None
    value = number_words(told.estimate, told.low, told.high, told.sd)
    sign = "+" if headline.is_signed and told.estimate > 0 else ""
    unit = f" {told.unit}" if told.unit else ""
    interval = interval_words(told)
    return f"{sign}{value}{unit}{headline.ending}{', ' + interval if interval else ''}"


def _scaled(told: Quantity, factor: float, unit: str) -> Quantity:
    numbers = [None if value is None else factor * value for value in (told.estimate, told.low, told.high, told.sd)]
    estimate, low, high, sd = numbers
    return Quantity(
        told.quantity, told.column, told.group, estimate, low, high, sd, unit, told.level, told.draws, told.note
    )


def _hedge(posterior: Posterior) -> str:
    """What must be said before a number that is not a posterior of the release's law."""
    if posterior.method == "naive":
        return "if the noise is ignored, "
    return f"by {posterior.method}, " if posterior.is_point else ""


def _by_group(posterior: Posterior, sources: Sequence[AnswerSource], level: float, ending: str) -> str:
    """Which group has the largest number and which the smallest, then a line for each of a few."""
    lines = [(source.group, headline) for source in sources for headline in source.headlines()[:1]]
    told = [(group, headline, summarised(posterior, headline.drawn, level)) for group, headline in lines]
    known = [entry for entry in told if entry[2].estimate is not None]
    if not known:
        return ""
    known.sort(key=lambda entry: -(entry[2].estimate or 0.0))
    top, bottom = known[0], known[-1]
    ends = [
        f"is {which} in {group} ({told_words(one, headline)})"
        for which, sign, (group, headline, one) in (("highest", 1, top), ("lowest", -1, bottom))[: len(known)]
        if posterior.is_point or _share_of_first([other for *_, other in known][::sign], sign) >= SURE
    ]
    text = f"{_hedge(posterior)}{top[1].subject} {' and '.join(ends).replace(' and is ', ' and ')}"
    if not ends:
        text = (
            f"{_hedge(posterior)}{top[1].subject} is told by group, and which is highest or lowest is not sure: "
            f"estimates go from {bottom[0]} ({told_words(bottom[2], bottom[1])}) to {top[0]} "
            f"({told_words(top[2], top[1])})"
        )
    text = printable(text[0].upper() + text[1:] + ending)  # a level may be named with a line end in it
    if len(known) > MOST_GROUPS:
        return text
    return "\n".join([text, *(printable(f"  {group}: {told_words(one, headline)}") for group, headline, one in known)])


def _share_of_first(told: Sequence[Quantity], sign: int) -> float:
    """The share of draws in which the first number is the largest of all (the smallest, where the sign is -1)."""
    draws = [np.ravel(np.asarray(one.draws, float)) for one in told]
    with np.errstate(invalid="ignore"):
        return float(np.mean(np.argmax(sign * np.stack(draws), axis=0) == 0))


def _from(posterior: Posterior) -> str:
    """How many records, at which price; of a survey how many answers."""
    releases = posterior.releases
    if not releases:
        return ""
    try:
        if has_size_law(posterior.stated_n):
            return f", from records whose number is unknown{price_words(releases)}"
        sizes = stated_sizes(releases, posterior.stated_n)
    except NoisewiseError:
        return price_words(releases)
    total = sum(sizes[group[0]] for group in same_records(releases))
    assumed = "" if posterior.stated_n is None else ", as assumed,"
    holders = len({release.dataset for release in releases})
    several = "" if holders == 1 else f" of {holders} data sets"
    made_up = " (simulated)" if any(release.simulated for release in releases) else ""
    return f", from {total} record{'' if total == 1 else 's'}{several}{made_up}{assumed}{price_words(releases)}"


def price_words(releases: Sequence[NoisyValue]) -> str:
    """What was paid here, and that nothing is known of the price of what was measured elsewhere."""
    own = [release for release in releases if not release.is_foreign]
    paid = f" at {_paid_words(own)}" if own else ""
    if len(own) == len(releases):
        return paid
    named = f" (of {len(releases) - len(own)} numbers of {len(releases)})" if own else ""
    return f"{paid}, {ELSEWHERE}{named}"


def _paid_words(releases: Sequence[NoisyValue]) -> str:
    """What was paid: the sum where the same records were published several times, by data set where those differ."""
    totals: dict[str, dict[str, None]] = {}
    for release in releases:
        totals.setdefault(release.dataset, {})
    for dataset in totals:
        own = [release for release in releases if release.dataset == dataset]
        totals[dataset] = dict.fromkeys(_paid(own))
    prices = list(dict.fromkeys(price for own in totals.values() for price in own))
    if len(totals) > 1 and len(prices) == 1:
        return f"{prices[0]} each"
    if len(prices) > 3:
        return f"{prices[0]} and {len(prices) - 1} other prices"
    return " and ".join(prices)


def _paid(releases: Sequence[NoisyValue]) -> list[str]:
    """The price of one data set's releases, part by part; guarantees of different kinds do not add."""
    paid = []
    for group in same_records(releases):
        prices = [price for index in group if (price := releases[index].guarantee) is not None]
        total, is_sum = prices[0], len(prices) > 1
        try:
            for other in prices[1:]:
                total = total + other
        except Incomparable:
            paid += [str(price) for price in prices]
            continue
        paid.append(f"{total}{' in all' if is_sum else ''}")
    return paid
