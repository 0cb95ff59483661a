"""A survey's answers as a release file: all of them, by question, in no order that tells who came when.

    export(store).save("people.release.json")       `noisewise show` reads it aloud, `infer` learns from it

A store whose respondents are simulated exports a simulated release, which says so in its file; no ledger takes it.
"""

from __future__ import annotations

from noisewise.collector.learner import answers_of
from noisewise.collector.store import Store
from noisewise.errors import SurveyError
from noisewise.query import Query
from noisewise.survey_release import SurveyRelease

__all__ = ["export"]


def export(store: Store) -> SurveyRelease:
    """Everything that was answered so far; close the survey first if nothing is to follow."""
    with store.session() as session:
        lines = store.lines(session)
        people = int(session.rows("SELECT count(*) FROM queries WHERE state = 'answered'")[0][0])  # or more, by now
    answers: dict[Query, list[int]] = {}
    for question, value in answers_of(lines, {}):
        answers.setdefault(question.query(), []).append(value)
    if not answers:
        raise SurveyError("Nobody has answered yet, so there is nothing to export.", reason="empty")
    counted = sum(map(len, answers.values()))
    if counted > people:
        raise SurveyError(
            f"The log holds {counted} answers, but {people} queries were answered: the store was damaged or changed. "
            "Take it back from a backup. Nothing was exported.",
            reason="damaged",
        )
    return SurveyRelease.of(store.name, answers, simulated=store.is_simulated)
