"""The demo's report: a story that a reader without statistics can follow, region by region.

What is learnt first, what differs, how sure it is and why; since the records of a demo are simulated, the truth beside
it; then what was released, what it cost, what more or less privacy would have bought; computation last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from noisewise.design.choice import Choice
from noisewise.design.expected import precision
from noisewise.html import Picture, Section, Table, page
from noisewise.inference.posterior import Posterior
from noisewise.planning import Plan
from noisewise.privacy.guarantee import Guarantee
from noisewise.report.posterior_page import (
    answer_sentence,
    drawn,
    headline_of,
    headline_pictures,
    posterior_sections,
)
from noisewise.report.release_tables import release_table

__all__ = ["Story", "demo_page"]


@dataclass(frozen=True, slots=True)
class Story:
    """What the demo did: two posteriors, the choice before them, the account, and the truth that it simulated."""

    regions: Posterior
    overall: Posterior
    choice: Choice
    choice_picture: bytes
    account: tuple[Guarantee, Guarantee | None, Guarantee | None]  # limit, spent, remaining
    truth: Mapping[str, float]
    plan: Plan  # of the means by region


def demo_page(story: Story) -> str:
    """The whole page."""
    sections = posterior_sections(story.regions)
    computed = sections.pop()
    place = next(k for k, section in enumerate(sections) if section.title.startswith("What was released"))
    sections[place:place] = [_truth_section(story), _overall_section(story)]
    sections += [_account_section(story), _price_section(story), _choice_section(story), computed]
    lead = (
        "An office holds the incomes of 4000 people in four regions and may show none of them. It published a handful "
        "of numbers with noise, so that what any one person earns hardly changes what is published. This page is what "
        "a reader of those numbers can say. (The people are simulated: this is a demonstration.)"
    )
    return page(
        "Noisewise demo: incomes by region",
        f"{lead}\n\n{answer_sentence(story.regions)}",
        sections,
        headline=headline_of(story.regions),
        pictures=headline_pictures(story.regions),
    )


def _truth_section(story: Story) -> Section:
    told = {one.group: one for one in story.regions.answers().of("mean")}
    rows = []
    for name, mean in story.truth.items():
        one = told[name]
        holds = one.low is not None and one.high is not None and one.low <= mean <= one.high
        ends = "" if one.low is None or one.high is None else f"{one.low:.1f} to {one.high:.1f}"
        rows.append((name, ends, f"{mean:.1f}", "yes" if holds else "no"))
    text = (
        "With real records nobody could show this table. These are simulated, so here is what the mean of the records "
        "in each region is. Nine in ten intervals should hold it; now and then one does not, and that is as it should "
        "be."
    )
    header = ("region", "90 % interval (thousand EUR)", "mean of the simulated records", "inside")
    return Section("Was it right?", text, tables=[Table(header, rows)])


def _overall_section(story: Story) -> Section:
    alt = "The fitted distribution of all incomes with its band, and the published mean"
    text = (
        "A second release, of two numbers about all 4000 people, says what incomes look like as a whole. "
        f"{answer_sentence(story.overall)}"
    )
    caption = "The curve is the distribution that was learnt; the band holds it, place by place, with 90 %."
    picture = drawn(story.overall, "distribution", alt, caption)
    return Section("All regions together", text, pictures=[picture], tables=[release_table(story.overall.releases[0])])


def _account_section(story: Story) -> Section:
    limit, spent, remaining = story.account
    facts = [("Limit", f"{limit}"), ("Spent", f"{spent or 'nothing'}"), ("Remaining", f"{remaining or 'nothing'}")]
    text = (
        "Every release is paid from one account, which is never overdrawn: charge and release are stored together or "
        "not at all. The smaller epsilon, the more noise and the better each person is hidden."
    )
    return Section("The account", text, facts=facts)


def _price_section(story: Story) -> Section:
    bought = precision(story.plan, progress=False)
    text = (
        f"Before anything was published, the office could see what each price would buy of {story.plan.statistic}. The "
        "curves show how wide a 90 % interval the noise alone would make: for less privacy further right, for more "
        "further left."
    )
    picture = Picture(bought.plot(), "Expected half-width of a 90 % interval against epsilon")
    return Section("What more or less privacy would buy", text, pictures=[picture])


def _choice_section(story: Story) -> Section:
    rows = [
        (entry["statistic"], entry["guarantee"], f"{entry['score']:.3f}", f"{entry['share']:.0%}".replace("%", " %"))
        for entry in story.choice.table
    ]
    text = "The candidates by what their noisy values would teach, before any record is read."
    picture = Picture(story.choice_picture, "What each candidate would teach")
    return Section(
        "Why these two numbers",
        text,
        pictures=[picture],
        header=("statistic", "price", "score", "of the best"),
        rows=rows,
    )
