"""A stated n against the noisy totals of the same records: tails are exact, wrong numbers are named or refused (E9)."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.inference.fit import moved_by_n, n_sentences, some_rows
from noisewise.joining import stated_sizes
from noisewise.likelihood.simulate import simulate_values
from noisewise.likelihood.stated_n import (
    all_are_counted,
    component_ranges,
    contradictions,
    noisy_totals,
    partial_counts,
    total_components,
)

X = nw.column("income")
SCHEMA = nw.Schema(
    {"income": nw.Bounded(0, 250), "smoker": nw.Levels(["no", "yes"]), "sex": nw.Levels(["f", "m"])},
    n_max=10_000,
    neighbours="add-remove",
)
POPULATION = nw.Normal(mean=stats.norm(50, 50), sd=20)
SMOKER = nw.column("smoker")


def released(statistic, value, *, guarantee=None, part=None, dataset="people", schema=SCHEMA):
    """A release whose noise-free value in people's units is `value`."""
    plan = nw.plan(statistic, schema, guarantee=guarantee or nw.PureDP(1), part=part)
    steps = [round(v / step) for v, step in zip(np.atleast_1d(value), plan.lattice.step, strict=True)]
    return nw.Release.of(plan, steps, dataset=dataset, ledger_head=None, simulated=True)


EVERYBODY = {
    "a count within the bounds": lambda n: released(nw.Count(X.between(0, 250)), n),
    "a count of both levels": lambda n: released(nw.Sum(SMOKER.equals("no") + SMOKER.equals("yes")), n),
    "a histogram": lambda n: released(nw.Histogram("income", edges=[50, 100]), [n - 900, 500, 400]),
    "a histogram of levels": lambda n: released(nw.Histogram("smoker"), [n - 900, 900]),
    "two cliques": lambda n: released(
        nw.Marginals(["smoker"], ["smoker", "sex"]), [n - 900, 900, n - 900, 300, 300, 300]
    ),
    "moments": lambda n: released(
        nw.Moments([X], SMOKER.equals("yes")), [n, 30 * n, n / 2, 1500 * n, 15 * n], guarantee=nw.PureDP(100)
    ),
}


@pytest.mark.parametrize("kind", EVERYBODY)
def test_everybody_is_found_wherever_everybody_is_counted(kind):
    release = EVERYBODY[kind](4000)
    totals = noisy_totals(release)
    assert [round(total.value) for total in totals] == [4000] * len(totals)
    assert totals
    assert all_are_counted((release,))
    assert stated_sizes((release,), 4000) == [4000]
    assert contradictions((release,), [4000]) == ()
    with pytest.raises(InvalidArgument, match=r"n = 2000 was stated, but .* is 4000, with a noise sd of") as error:
        stated_sizes((release,), 2000)
    assert "(tail probability below 1e-06)" in str(error.value)
    assert error.value.argument == "n"


def test_what_does_not_count_everybody_is_no_total():
    for release in (
        released(nw.Sum(X), 33 * 4000),
        released(nw.Count(X.between(0, 249)), 4000),
        released(nw.Count(SMOKER.equals("yes")), 900),
    ):
        assert noisy_totals(release) == ()
        assert not all_are_counted((release,))
        assert stated_sizes((release,), 4000) == [4000]
    public = nw.Schema({"income": nw.Bounded(0, 250)}, n=100, neighbours="change-one")
    assert noisy_totals(released(nw.Histogram("income", edges=[50]), [40, 70], schema=public)) == ()


@pytest.mark.parametrize("guarantee", [nw.PureDP(1), nw.PureDP("0.01"), nw.GaussianDP("0.5")], ids=str)
@pytest.mark.parametrize("cells", [1, 2, 5])
def test_the_tail_is_that_of_the_summed_noise(rng, guarantee, cells):
    """Against the convolution of pmfs, summed term by term."""
    statistic = (
        nw.Count(X.between(0, 250)) if cells == 1 else nw.Histogram("income", edges=list(range(10, 10 * cells, 10)))
    )
    release = released(statistic, [100 * cells] + [0] * (cells - 1), guarantee=guarantee)
    (total,) = noisy_totals(release)
    law, sd = release.law, total.sd
    reach = int(30 * sd) + 30
    k = np.arange(-reach, reach + 1)
    pmf = np.exp(law.log_pmf(k))
    summed = pmf
    for _ in range(cells - 1):
        summed = np.convolve(summed, pmf, mode="same")
    for away in (0, 1, round(sd), round(3 * sd), round(6 * sd)):
        expected = min(1.0, 2 * summed[k >= away].sum())
        assert total.tail(100 * cells + away) == pytest.approx(expected, rel=0.02, abs=1e-12)
        assert total.tail(100 * cells - away) == pytest.approx(expected, rel=0.02, abs=1e-12)


def test_a_right_n_is_named_as_rarely_as_promised(rng):
    plan = nw.plan(nw.Histogram("smoker"), SCHEMA, guarantee=nw.PureDP("0.2"))
    population = nw.Bernoulli(p=stats.beta(2, 2))
    trials, named = 3000, 0
    theta = population.sample_prior(rng, trials)
    for value in simulate_values(rng, plan, population, theta, n=500):
        release = nw.Release.of(plan, value.tolist(), dataset="d", ledger_head=None, simulated=True)
        named += bool(contradictions((release,), [500]))
    assert 0 < named < stats.binom.isf(1e-6, trials, 0.01)


def test_many_totals_are_not_many_chances(rng):
    release = released(nw.Count(X.between(0, 250)), 4000)
    away = next(k for k in range(1, 50) if noisy_totals(release)[0].tail(4000 + k) < 0.009)
    assert contradictions((release,), [4000 + away])
    others = tuple(released(nw.Histogram("income", edges=[10 + k]), [4000 + away, 0]) for k in range(9))
    assert contradictions((release, *others), [4000 + away] * 10) == ()


def test_numbers_of_key_parts_must_fit_their_widths():
    def parts(n, m):
        half = released(nw.Sum(X), 33 * 1000, part=("0", "1/4")), released(nw.Sum(X), 33 * 3000, part=("1/4", "1"))
        return stated_sizes(half, [n, m]), contradictions(half, [n, m])

    assert parts(1000, 3000) == ([1000, 3000], ())
    assert parts(1040, 2960)[1] == ()
    sizes, said = parts(1100, 2900)
    assert sizes == [1100, 2900]
    assert "about 1000 (sd 27; tail probability" in said[0]
    with pytest.raises(InvalidArgument, match="of each part, one for each release"):
        parts(4000, 4000)


def test_the_binomial_tail_of_parts_is_exact():
    one, other = released(nw.Sum(X), 0, part=("0", "1/3")), released(nw.Sum(X), 0, part=("1/3", "1"))
    for n, m in itertools.product((90, 100, 130), (180, 200, 230)):
        law = stats.binom(n + m, 1 / 3)
        expected = 2 * min(law.cdf(n), law.sf(n - 1))
        assert bool(contradictions((one, other), [n, m])) == (expected < 0.01)


def test_a_wrong_n_is_named_first_in_the_verdict():
    mean = released(nw.Sum(X), 33 * 4000, guarantee=nw.GaussianDP(1))
    everybody = released(nw.Count(X.between(0, 250)), 4000, guarantee=nw.GaussianDP(1))
    found = nw.infer([mean, everybody], POPULATION, n=4004, seed=1, progress=False, draws=100)
    assert str(found.verdict).startswith(
        "n = 4004 was stated, but count(between(income, 0, 250)) of the same records is"
    )
    assert found.verdict.warns
    right = nw.infer([mean, everybody], POPULATION, n=4000, seed=1, progress=False, draws=100)
    assert not right.verdict.warns
    assert "of the same records, 4000 (noise sd 1), agrees with it." in str(right.verdict)


def test_a_mean_is_not_moved_from_33_to_4_without_a_word():
    """A wrong stated n: refused beside a count, and without one the verdict says which way the mean goes."""
    mean, everybody = released(nw.Sum(X), 33 * 1000), released(nw.Count(X.between(0, 250)), 1000)
    with pytest.raises(InvalidArgument, match=r"is 1000, with a noise sd of 1\.4"):
        nw.infer([mean, everybody], POPULATION, n=8000, progress=False)
    alone = nw.infer(mean, POPULATION, n=8000, seed=1, progress=False, draws=100)
    assert re.search(r"Of that the releases show only that n is at least 1[23]\d \(sum", str(alone.verdict))
    assert "was released as 33000): with 10 % more records it would be mean about" in str(alone.verdict)


@pytest.mark.parametrize(
    ("statistic", "value", "population"),
    [
        (nw.Sum(X), 50 * 4000, nw.Normal(mean=stats.norm(50, 50), sd=20)),
        (nw.Sum(X, X**2), [50 * 4000, 2900 * 4000], nw.Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50))),
        (nw.Count(SMOKER.equals("yes")), 1000, nw.Bernoulli(p=stats.beta(1, 1))),
    ],
)
def test_the_verdict_says_how_far_the_answer_moves_with_n(statistic, value, population):
    """Against the posterior at an n that is 10 % larger."""
    release = released(statistic, value)
    now, then = (nw.infer(release, population, n=n, seed=1, progress=False) for n in (4000, 4400))
    theta = some_rows(now.draws, population.free)
    told = moved_by_n((release,), population, theta, [4000])
    for name in population.free:
        moved = then.mean[name] - now.mean[name]
        assert told[name] - theta[name].mean() == pytest.approx(moved, rel=0.4, abs=0.2 * now.sd[name])


@pytest.mark.parametrize("scale", [3.0, 30.0, 1000.0])
def test_the_answer_for_more_records_is_never_outside_its_support(rng, scale):
    """Sums that so many records hardly fit pull the sd by many times its size: a straight step goes below 0."""
    release = released(nw.Sum(X, X**2), [40 * 4000, 1700 * 4000], guarantee=nw.PureDP(10))
    population = nw.Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50))
    theta = {"mean": rng.normal(40, 0.1, 500), "sd": scale * np.exp(rng.normal(0, 0.3, 500))}
    told = moved_by_n((release,), population, theta, [4000])["sd"]
    spread = {name: value.std() for name, value in theta.items()}
    said = " ".join(n_sentences((release,), population, theta, 4000, spread).notes)
    now = theta["sd"].mean()
    assert np.isnan(told) == (f"sd too far from {now:.3g} to say" in said)
    assert np.isnan(told) or now / 2.01 < told < 2.01 * now
    assert "sd about -" not in said


PARTLY = {
    "a count": (nw.Count(X.between(0, 30)), 390, 390),
    "a sum of a condition": (nw.Sum(X.between(0, 30)), 390, 390),
    "a sum within bounds": (nw.Sum(X), 250 * 390, 390),
    "a sum below 0": (nw.Sum(X - 250), -250 * 390, 390),
    "a cell of a table with a noisy total": (
        nw.Histogram("income", edges=list(range(1, 200))),
        [390] + 199 * [-2],
        390,
    ),
}


@pytest.mark.parametrize("kind", PARTLY)
def test_a_sum_that_so_few_records_cannot_have_refuses_n(kind):
    """n = 100 was stated, and 390 of the same records were counted: there are at least about 390."""
    statistic, value, least = PARTLY[kind]
    release = released(statistic, value)
    with pytest.raises(InvalidArgument, match=r"n = 100 was stated, but .* of the same records") as error:
        stated_sizes((release,), 100)
    assert error.value.argument == "n"
    if not noisy_totals(release):
        assert stated_sizes((release,), least + 30) == [least + 30]
        assert contradictions((release,), [least + 30]) == ()


def test_a_partial_count_speaks_on_its_side_only_with_the_tail_of_its_noise():
    release = released(nw.Count(X.between(0, 30)), 390, guarantee=nw.PureDP("0.5"))
    (partial,) = partial_counts(release)
    law = stats.dlaplace(0.5)
    for n in (360, 380, 389):
        assert partial.tail(n) == pytest.approx(law.sf(389 - n), rel=1e-9)
        assert bool(contradictions((release,), [n])) == (law.sf(389 - n) < 0.01)
    assert partial.tail(390) == partial.tail(9000) == 1
    least, most = partial.allowed(5000)
    assert most is None
    assert law.sf(389 - least) >= 0.01 > law.sf(390 - least)


def test_a_label_with_braces_is_told_as_it_is():
    odd = nw.Schema({"town": nw.Levels(["{0}", "{tail}", "x"])}, n_max=10_000, neighbours="add-remove")
    for level in ("{0}", "{tail}"):
        release = released(nw.Count(nw.column("town").equals(level)), 390, schema=odd)
        with pytest.raises(InvalidArgument, match="n = 100 was stated, but count"):
            stated_sizes((release,), 100)


def test_a_sum_above_a_positive_bound_says_how_many_there_are_at_most():
    ages = nw.Schema({"age": nw.Bounded(20, 100)}, n_max=10_000, neighbours="add-remove")
    release = released(nw.Sum(nw.column("age")), 40_000, schema=ages)
    (partial,) = partial_counts(release)
    least, most = partial.allowed(1000)
    assert 380 <= least <= 400
    assert 2000 <= most <= 2100
    with pytest.raises(InvalidArgument, match="at least"):
        stated_sizes((release,), 4000)
    population = nw.Normal(mean=stats.norm(50, 20), sd=10)
    said = " ".join(n_sentences((release,), population, {"mean": np.linspace(39, 41, 50)}, 1000, {"mean": 0.5}).notes)
    assert f"at least {least} (sum(age) of the same records was released as 40000) and at most {most}" in said
    assert "No release here can check" not in said


def test_all_but_every_record_at_a_bound_is_no_contradiction(rng):
    """n is right and everybody meets the condition: named as rarely as promised."""
    plan = nw.plan(nw.Count(X.between(0, 249)), SCHEMA, guarantee=nw.PureDP("0.2"))
    population = nw.Normal(mean=stats.norm(100, 1), sd=1)
    trials = 2000
    named = 0
    for value in simulate_values(rng, plan, population, population.sample_prior(rng, trials), n=50):
        release = nw.Release.of(plan, value.tolist(), dataset="d", ledger_head=None, simulated=True)
        named += bool(contradictions((release,), [50]))
    assert 0 < named < stats.binom.isf(1e-6, trials, 0.01)


def test_an_unknown_statistic_is_refused_and_not_passed_over():
    with pytest.raises(Unsupported, match="not known"):
        total_components(object(), SCHEMA)
    with pytest.raises(Unsupported, match="not known"):
        component_ranges(object(), SCHEMA)
