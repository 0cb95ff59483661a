"""Every kind of model answers in people's terms: all that a posterior offers is asked of each, with heavy tails, too.

Draws are from the prior, so nothing is learnt here: what is tested is that every number, table and picture is there, or
refused in a sentence, never a NaN, a traceback or a warning.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from drawn_posteriors import posterior, release
from scipy import stats

import noisewise as nw
from noisewise.errors import NoisewiseError
from noisewise.models.protocol import model_of

K = 60
INCOME = nw.Bounded(0, 250, unit="thousand EUR")
REGION, SMOKER = nw.Levels(["north", "south", "west"]), nw.Levels(["no", "yes"])
YES = nw.column("smoker").equals("yes")
PEOPLE = nw.Schema({"income": INCOME, "age": nw.Bounded(0, 100, unit="years"), "region": REGION, "smoker": SMOKER,
                    "visits": nw.Bounded(0, 20)}, n=4000, neighbours="change-one")  # fmt: skip
HOLES = nw.Schema({"income": INCOME, "region": REGION}, n=400, neighbours="change-one", missing="leave-out")
NORMAL = nw.Normal(mean=stats.norm(50, 20), sd=stats.halfnorm(scale=20))
NEAR = nw.NormalCovariates([40.0], 10.0, [[100.0]], 6.0)


def told(statistic, of=PEOPLE):
    return (release(statistic, of=of),)


CASES = {
    "normal": (NORMAL, told(nw.Mean("income"))),
    "known": (nw.Normal(mean=stats.norm(50, 20), sd=4), told(nw.Mean("income"))),
    "cauchy": (
        nw.LocationScale(stats.cauchy, loc=stats.norm(50, 9), scale=stats.halfnorm(scale=9)),
        told(nw.Count(nw.column("income") > 50)),
    ),
    "wide log-normal": (
        nw.LogNormal(log_mean=stats.norm(3, 2), log_sd=stats.halfnorm(scale=8)), told(nw.Mean("income")),
    ),
    "gamma": (nw.Gamma(shape=stats.gamma(2), rate=stats.gamma(2, scale=0.1)), told(nw.Mean("income"))),
    "poisson": (nw.Poisson(rate=stats.gamma(2)), told(nw.Mean("visits"))),
    "yes or no": (nw.Bernoulli(p=stats.beta(1, 3)), told(nw.Count(YES))),
    "three levels": (nw.Categorical(p=stats.dirichlet([1, 2, 3])), told(nw.Histogram("region"))),
    "joint": (
        nw.Joint(income=NORMAL, smoker=nw.Bernoulli(p=stats.beta(1, 3)), region=nw.Categorical(p=[0.2, 0.3, 0.5])),
        told(nw.Mean(nw.column("income"), YES)),
    ),
    "two columns": (
        nw.MultivariateNormal(
            columns=["income", "age"], mean=[stats.norm(50, 9), 40.0], sd=[9.0, stats.halfnorm(scale=9)],
            correlation=0.3,
        ),
        told(nw.Mean(nw.column("income"), nw.column("age"))),
    ),
    "groups": (
        nw.Grouped("region", income=NORMAL, pooled=("mean",), names=list(REGION.levels)),
        told(nw.Mean("income", by="region")),
    ),
    "values absent": (
        nw.Joint(income=NORMAL, **{"present(income)": nw.Bernoulli(p=stats.uniform(0, 1))}),
        told(nw.Mean("income"), HOLES),
    ),
    "linear": (
        nw.LinearRegression(
            "age", "income", coefficients=stats.norm(0, 2), noise=stats.invgamma(3, scale=2), covariates=NEAR,
        ),
        told(nw.Moments(["age"], "income")),
    ),
    "logistic": (
        nw.LogisticRegression("age", YES, coefficients=stats.norm(0, 1), covariates=NEAR),
        told(nw.Moments(["age"], YES, parts=["xx", "xy"])),
    ),
    "probit": (
        nw.ProbitRegression("age", YES, coefficients=stats.norm(0, 1), covariates=NEAR),
        told(nw.Moments(["age"], YES)),
    ),
    "counts": (
        nw.PoissonRegression("age", "visits", coefficients=stats.norm(0, 1), covariates=NEAR),
        told(nw.Moments(["age"], "visits")),
    ),
    "graphical": (nw.GraphicalModel([["region", "smoker"]], PEOPLE), told(nw.Marginals(["region", "smoker"]))),
    "survey": (NORMAL, ()),
}  # fmt: skip
EVERY = pytest.mark.parametrize("name", CASES)


def surveyed(population):
    survey = nw.Survey(population, guarantee=nw.PureDP(4), queries="sign", n_particles=100, seed=1)
    for k in range(6):
        survey.answer(survey.query(), k % 2)
    return survey.posterior()


@pytest.fixture(scope="module")
def made():
    kept = {}

    def of(name):
        if name not in kept:
            population, releases = CASES[name]
            if name == "survey":
                kept[name] = surveyed(population)
                return kept[name]
            drawn = model_of(population).sample_prior(np.random.default_rng(5), K)
            kept[name] = posterior(drawn, population, releases)
        return kept[name]

    return of


@EVERY
def test_every_row_is_a_number_with_its_interval_or_says_why_not(made, name):
    found = made(name).answers()
    assert len(found) > 0
    for row in found:
        if row.estimate is None:
            assert row.note, row
            continue
        assert math.isfinite(row.estimate), row
        assert row.low <= row.high, row
    table = found.to_pandas()
    assert len(table) == len(found)
    for text in (str(found), found.to_markdown(), found.to_latex(), found._repr_html_()):
        assert text
        assert "nan" not in text.lower().replace("finance", "")


@EVERY
@pytest.mark.parametrize("asked", [{"quantiles": [0.1, 0.9]}, {"shares": [1]}])
def test_what_is_asked_beyond_is_answered_where_there_is_a_law_of_a_number_and_else_refused(made, name, asked):
    has_law = "median" in {row.quantity for row in made(name).answers()}
    found, refusal = asked_or_refused(lambda: made(name).answers(**asked))
    if not has_law:
        assert next(iter(asked)) in refusal, refusal
        return
    added = {"quantile 0.1", "quantile 0.9"} if "quantiles" in asked else {"share above 1"}
    assert added <= {row.quantity for row in found}


@EVERY
def test_the_mean_of_the_one_law_is_its_own_row_or_refused_in_a_sentence(made, name):
    means = [row for row in made(name).answers() if row.quantity == "mean"]
    found, refusal = asked_or_refused(lambda: made(name).quantity(lambda p: p.mean()))
    if len(means) != 1:
        assert ("Say of which" in refusal) == bool(means), refusal
        assert ("no law of a number" in refusal) == (not means), refusal
        return
    np.testing.assert_allclose(found.draws, means[0].draws)


@EVERY
def test_the_summary_opens_with_a_sentence_and_shows_every_unknown(made, name):
    found = made(name)
    text = found.summary()
    assert "nan" not in text.lower()
    assert found.sentence.strip()
    assert text.startswith(found.sentence.splitlines()[0][:20])
    assert "<table" in found._repr_html_()


@EVERY
def test_numbers_are_compared_and_ranked_where_there_are_several_and_refused_in_a_sentence_where_not(made, name):
    found = made(name)
    rows = found.answers()
    by_quantity: dict[str, list[object]] = {}
    for row in rows:
        by_quantity.setdefault(row.quantity, []).append(row)
    for quantity, some in list(by_quantity.items())[:4]:
        names = [row.group or row.column for row in some]
        ranked, refusal = asked_or_refused(lambda quantity=quantity: found.rank(quantity))
        assert (ranked is None) == bool(refusal)
        assert ranked is not None or refusal.endswith("."), refusal
        if ranked is not None:
            assert len(names) > 1
            np.testing.assert_allclose(sum(ranked.best), 1.0)
            assert all((ranked.to_markdown(), ranked.to_latex(), ranked._repr_html_(), str(ranked)))
            assert len(ranked.to_pandas()) == len(names)
        for kind in ("difference", "ratio"):
            contrast, refusal = asked_or_refused(
                lambda quantity=quantity, names=names, kind=kind: found.contrast(
                    quantity, names[0], names[-1], kind=kind
                )
            )
            assert contrast is not None or refusal.endswith("."), refusal
            if contrast is not None:
                assert contrast.low <= contrast.estimate <= contrast.high
                assert all((contrast._repr_html_(), str(contrast)))


def asked_or_refused(ask):
    """What is answered, or the sentence of the refusal."""
    try:
        return ask(), ""
    except NoisewiseError as error:
        return None, str(error)


@EVERY
def test_any_function_of_the_draws_has_an_interval(made, name):
    found = made(name)
    free = next(iter(found.draws))

    def first(population):
        values = np.asarray(population[free])
        return values.reshape(len(values), -1)[:, 0]

    asked = found.quantity(first, name="the first unknown")
    assert math.isfinite(asked.estimate)
    assert asked.low <= asked.high
    assert str(asked)


@EVERY
def test_the_picture_is_drawn(made, name, tmp_path):
    made(name).plot(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 2000
