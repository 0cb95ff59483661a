"""What the studies of the online model share: the published prior, the ways to ask, and one course of a survey each.

Every method of a study meets the same people in the same order:
    adaptive          Survey as it is by default: every query family, log det of the accumulated information
    clip, sign, cells the same with one family only: clamp and Laplace noise, one threshold and randomized response,
                      three to six cells and randomized response
    clip-location, clip-harmonic    clamp and Laplace noise by the published scores, which look at one answer alone
    fixed             everyone is asked the same interval
    mcmc              the answers of `fixed` in one batch, by MHAAR (Andrieu, Yıldırım, Doucet & Chopin 2020)
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewise.inference.infer import infer
from noisewise.inference.transform import Transform
from noisewise.online.answer_information import informations, stencil
from noisewise.online.answer_law import AnswerLaw
from noisewise.online.candidates import FAMILIES, candidates
from noisewise.online.collect import Collected, collect
from noisewise.online.survey import Survey
from noisewise.planning import plan
from noisewise.populations.parameters import Array
from noisewise.populations.population import Normal, Population
from noisewise.privacy.guarantee import PureDP
from noisewise.query import Query
from noisewise.release import Release
from noisewise.schema import Bounded, Schema
from noisewise.statistics import Records, column

ADAPTIVE, FIXED, MCMC = "adaptive", "fixed", "mcmc"
QUERIES = (*FAMILIES, "clip-location", "clip-harmonic")
DRAWS, WARMUP, CHAINS = 250, 250, 2


@dataclass(frozen=True, slots=True)
class Estimate:
    """Posterior means of one run of one method, and what it cost; `collected` where people were asked one by one."""

    mean: Mapping[str, float]
    seconds: float
    rejuvenations: int | None
    collected: Collected | None


def published_population() -> Population:
    """A normal population with mean ~ N(0, 100^2) and variance ~ inverse gamma(1, 1), as in print.

    P(variance <= v) = exp(-1/v), so P(sd <= s) = exp(-1/s^2): an inverse Weibull law of shape 2.
    """
    from scipy import stats

    return Normal(mean=stats.norm(0, 100), sd=stats.invweibull(2))


def surveyed(
    rng: np.random.Generator, people: Array, epsilon: float, way: str | Query, n_particles: int, *, every: int = 0
) -> Estimate:
    """Ask everyone, in one of the ways of the module or with one fixed query."""
    queries: Any = way
    score = "logdet"
    if isinstance(way, str):
        family, _, published = way.partition("-")
        queries, score = ("auto" if way == ADAPTIVE else family), published or score
    seed = int(rng.integers(2**31))
    survey = Survey(
        published_population(),
        guarantee=PureDP(epsilon),
        queries=queries,
        score=score,
        n_particles=n_particles,
        explore=0,  # as published: every question is the design's
        seed=seed,
    )
    found = collect(survey, people, rng, every=every)
    return Estimate(survey.mean, found.seconds, found.rejuvenations, found)


def batch(rng: np.random.Generator, answers: Collected) -> Estimate:
    """MHAAR on the answers to one fixed query, all at once."""
    question = answers.questions[0]
    assert question.low is not None
    assert question.high is not None
    schema = Schema({"x": Bounded(question.low, question.high)}, n=len(answers.values), neighbours="change-one")
    records = plan(Records(column("x")), schema, guarantee=question.guarantee)
    release = Release.of(records, sorted(answers.values), dataset="simulated", ledger_head=None, simulated=True)
    begun = time.process_time()
    posterior = infer(
        release, published_population(), method="mhaar", draws=DRAWS, warmup=WARMUP, chains=CHAINS,
        seed=int(rng.integers(2**31)), progress=False,
    )  # fmt: skip
    mean = {name: float(value) for name, value in posterior.mean.items()}
    return Estimate(mean, time.process_time() - begun, None, None)


def around(mean: float, sd: float, widths: float, epsilon: float) -> Query:
    """[mean - widths sd, mean + widths sd]."""
    return Query.clip(mean - widths * sd, mean + widths * sd, guarantee=PureDP(epsilon))


def oracle(mean: float, sd: float, epsilon: float) -> Query:
    """The one question that is best for everyone if mean and sd were known: of all families, by log det F."""
    population = published_population()
    law, transform = AnswerLaw(population), Transform(population.supports)
    theta = {"mean": np.array([mean]), "sd": np.array([sd])}
    guarantee = PureDP(epsilon)

    def quantile(u: Array) -> Array:
        return np.ravel(population.quantile(u, theta))

    asked = [one for family in FAMILIES for one in candidates(family, guarantee, quantile, is_discrete=False)]
    position = transform.position(theta)[0]
    found = informations(law, asked, stencil(law, transform, position, np.diag([sd, 1.0])))
    best = asked[int(np.argmax(np.linalg.det(found)))]
    return (
        Query.clip(best.low, best.high, guarantee=guarantee)
        if best.edges is None
        else Query.cells(best.edges, guarantee=guarantee)
    )
