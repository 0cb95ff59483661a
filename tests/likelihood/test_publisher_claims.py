"""A measurement that cannot be what is said of it is refused or doubted, at the tail probability that it has."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.joining import joined
from noisewise.likelihood.publisher_claims import claim_warnings, refuse_false_claims

COLUMNS = {"age": nw.Bounded(0, 100), "smoker": nw.Levels(["no", "yes"])}
PEOPLE = nw.Schema(COLUMNS, n=4000, neighbours="change-one")
AGES, SMOKERS = nw.Mean("age"), nw.Count(nw.column("smoker").equals("yes"))
TABLE = nw.Histogram("age", edges=[30, 60])


def mean(value, scale=0.25, **more):
    return nw.measurement(AGES, PEOPLE, value, noise=nw.laplace_noise(scale=scale), **more)


def count(value, noise):
    return nw.measurement(SMOKERS, PEOPLE, value, noise=noise)


IMPOSSIBLE = {
    "a mean beyond its bounds": (mean(4130), "at most 100"),
    "a mean below its bounds": (mean(-5), "at least 0"),
    "more people than there are": (count(5000, nw.geometric_noise(scale=2)), "at most 4000"),
    "a share for a count": (count(0.203, nw.laplace_noise(scale=0.0005)), "is it a share"),
    "a table of other people": (
        nw.measurement(TABLE, PEOPLE, [1000, 1500, 1000], noise=nw.geometric_noise(scale=2)), "n = 4000 was stated"
    ),
    "a cell of minus hundred": (
        nw.measurement(TABLE, PEOPLE, [-100, 2100, 2000], noise=nw.geometric_noise(scale=2)), "at least 0"
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", IMPOSSIBLE)
def test_what_no_records_can_bring_about_is_refused_everywhere(kind):
    measured, words = IMPOSSIBLE[kind]
    population = nw.Joint(age=nw.Normal(mean=stats.norm(40, 20), sd=15), smoker=nw.Bernoulli(p=stats.beta(1, 1)))
    with pytest.raises(nw.InvalidArgument, match=words) as error:
        nw.infer(measured, population, progress=False)
    assert "tail probability below 1e-06" in str(error.value)
    with pytest.raises(nw.InvalidArgument, match=words):
        nw.likelihood_of(measured, population)


@pytest.mark.parametrize(
    ("measured", "tail"),
    [
        # Laplace noise of scale 1/4 beyond 100; of whole numbers, P(K >= k) = a^k/(1+a).
        (mean(102.0), np.exp(-8) / 2),
        (count(4016, nw.geometric_noise(scale=2)), np.exp(-8) / (1 + np.exp(-0.5))),
        (count(811.4, nw.gaussian_noise(sd=0.09)), 2 * stats.norm.sf(0.4 / 0.09)),
    ],
)
def test_what_is_hardly_possible_is_doubted_at_its_tail_probability(measured, tail):
    refuse_false_claims([measured])
    (sentence,) = claim_warnings([measured])
    told = float(sentence.split("tail probability ")[1].split(")")[0])
    assert told == pytest.approx(tail, rel=0.5)  # one digit is told
    assert sentence in joined((measured,), None).warnings


def test_a_doubt_opens_the_verdict():
    posterior = nw.infer(mean(102.0), nw.Normal(mean=stats.norm(90, 20), sd=15), seed=1, draws=100, progress=False)
    assert str(posterior.verdict).startswith("mean(age) was published as 102 ")


def test_two_values_of_one_sum_that_contradict_each_other_are_refused():
    first, second = mean(41.3, dataset="registry"), mean(61.2, scale=0.5, dataset="registry")
    with pytest.raises(nw.InvalidArgument, match=r"published as 41\.3 and as 61\.2"):
        nw.likelihood_of([first, second], nw.Normal(mean=stats.norm(40, 20), sd=15))
    refuse_false_claims([first, mean(61.2, dataset="other people")])
    assert claim_warnings([first, mean(61.2, dataset="other people")]) == ()


def test_other_levels_are_refused_as_such():
    """Tables of one name over other levels are not compared cell by cell."""
    more = nw.Schema({**COLUMNS, "smoker": nw.Levels(["no", "yes", "unknown"])}, n=4000, neighbours="change-one")
    noise = nw.geometric_noise(scale=2)
    two = [
        nw.measurement(nw.Histogram("smoker"), PEOPLE, [3000, 1000], noise=noise, dataset="registry"),
        nw.measurement(nw.Histogram("smoker"), more, [2900, 1000, 100], noise=noise, dataset="registry"),
    ]
    with pytest.raises(nw.Unsupported, match="declare column 'smoker' differently"):
        nw.likelihood_of(two, nw.Categorical(p=stats.dirichlet([1, 1])))


def test_the_bound_on_a_difference_is_never_below_its_tail(rng):
    """P(|V - W| > d) by simulation, beside what is told: between it and a hundred times it where it matters."""
    v, w = rng.laplace(scale=0.25, size=10**6), rng.laplace(scale=0.5, size=10**6)
    for away in (2.0, 3.0, 4.0):
        (sentence,) = claim_warnings([mean(40, dataset="a"), mean(40 + away, scale=0.5, dataset="a")]) or ("",)
        exact = float(np.mean(np.abs(v - w) > away))
        if sentence:
            told = float(sentence.split("tail probability ")[1].split(")")[0])
            assert 0.9 * exact < told < 100 * exact
        else:
            assert exact > 1e-4


def test_a_number_from_two_sources_is_told():
    one, other = mean(41.3, dataset="registry", source="report"), mean(41.3, dataset="registry", source="website")
    (sentence,) = claim_warnings([one, other])
    assert "given twice" in sentence
    assert claim_warnings([one, mean(41.4, dataset="registry")]) == ()
    posterior = nw.infer([one, other], nw.Normal(mean=stats.norm(40, 20), sd=15), seed=1, draws=100, progress=False)
    assert sentence in str(posterior.verdict)


def test_honest_measurements_are_seldom_doubted(rng):
    """True n, bounds and noise, all records at a bound: at most one in fifty of 300 is doubted (5e-7), none refused."""
    doubted = 0
    for _ in range(100):
        whole = rng.geometric(1 - np.exp(-0.5), size=(2, 3))  # the difference of two is geometric noise of scale 2
        honest = [
            mean(100 + rng.laplace(scale=0.25)),
            count(rng.laplace(scale=0.05), nw.laplace_noise(scale=0.05)),
            nw.measurement(TABLE, PEOPLE, [0, 4000, 0] + whole[0] - whole[1], noise=nw.geometric_noise(scale=2)),
        ]
        for one in honest:
            refuse_false_claims([one])
            doubted += bool(claim_warnings([one]))
    assert doubted <= stats.binom(300, 0.02).isf(5e-7)


def test_releases_of_our_own_are_left_to_what_was_paid_for():
    plan = nw.plan(SMOKERS, PEOPLE, guarantee=nw.PureDP(1))
    release = nw.Release.of(plan, [5000], dataset="d", ledger_head=None, simulated=True)
    refuse_false_claims([release])
    assert claim_warnings([release]) == ()
