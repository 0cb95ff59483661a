"""People with a normal income who answer a survey."""

from __future__ import annotations

from scipy import stats

import noisewise as nw
from noisewise.online.simulate import simulated_answer

NORMAL = nw.Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50))


def people(survey, n, rng, draw):
    """Ask n people; give back what they were asked and what they answered."""
    answers = []
    for _ in range(n):
        answer = simulated_answer(rng, survey.query(), float(draw(rng)))
        assert survey.answer(answer).is_counted
        answers.append(answer)
    return answers


def income(rng):
    return rng.normal(50, 20)
