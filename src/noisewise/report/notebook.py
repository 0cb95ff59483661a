"""What a posterior and a survey show of themselves in a notebook: the answer in a sentence, a table, and the verdict.

Nothing is simulated or drawn for it; pictures are asked for with `plot`, whose result shows itself, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noisewise.errors import NoisewiseError
from noisewise.html import Section, Table, pieces
from noisewise.report.posterior_page import answer_sentence, answer_tables

if TYPE_CHECKING:
    from noisewise.inference.posterior import Posterior
    from noisewise.online.survey import Survey

__all__ = ["posterior_html", "survey_html"]


def posterior_html(posterior: Posterior) -> str:
    """The answer, every number in people's terms (or each parameter), how it was computed and how far to trust it."""
    cautions = " ".join(posterior.verdict.warnings)
    facts = [("Take care", cautions)] if cautions else []
    facts += [("Verdict", str(posterior.verdict)), ("Computed", posterior.because)]
    return pieces(Section(answer_sentence(posterior), facts=facts, tables=_tables(posterior)))


def survey_html(survey: Survey) -> str:
    """How many answers there are, and what they have taught so far."""
    facts = [
        ("Guarantee", f"{survey.guarantee}, for each person"),
        ("Answers", f"{survey.answers} counted, {survey.waiting} waiting"),
        ("Verdict", str(survey.verdict)),
    ]
    known = [(name, f"{survey.mean[name]:.6g}", f"{survey.sd[name]:.4g}") for name in survey.mean]
    title = f"Survey of {', '.join(survey.population.free)}"
    return pieces(Section(title, facts=facts, tables=[Table(("parameter", "mean", "sd"), known)]))


def _tables(posterior: Posterior) -> list[Table]:
    try:
        return answer_tables(posterior.answers())
    except NoisewiseError:  # a model without answers
        rows = [(name, f"{draws.mean():.6g}", f"{draws.std():.4g}") for name, draws in posterior.scalars()]
        return [Table(("parameter", "mean", "sd"), rows[:60])]
