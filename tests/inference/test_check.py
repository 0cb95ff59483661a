"""What a release can check and what it cannot (E9): numbers against unknowns, and local answers by their cells."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.errors import Unsupported
from noisewise.inference.cells import chi_square_tail
from noisewise.inference.check import Check
from noisewise.inference.degrees import Degrees, degrees, log_linear_terms
from noisewise.models.base import ModelBase
from noisewise.models.simulate import simulate

ALARM = 1e-6
X = nw.column("x")
SCHEMA = nw.Schema({"x": nw.Bounded(0, 100), "y": nw.Bounded(0, 1), "s": nw.Levels(["a", "b", "c"])}, n=1000,
                   neighbours="change-one")  # fmt: skip
ONE = nw.Normal(mean=stats.norm(40, 8), sd=15)
BOTH = nw.Normal(mean=stats.norm(40, 8), sd=stats.uniform(5, 20))
# Wide enough for what a normal must be to fit skewed records: with BOTH, prior and release may really disagree.
WIDE = nw.Normal(mean=stats.norm(40, 40), sd=stats.uniform(5, 95))
SKEWED = nw.LogNormal(log_mean=stats.norm(3.3, 0.1), log_sd=0.8)
AT = {"mean": np.array([40.0]), "sd": np.array([15.0])}


def released(statistic, *, dataset="people", part=None, guarantee=None, population=ONE, seed=1):
    made = nw.plan(statistic, SCHEMA, guarantee=guarantee or nw.GaussianDP(1), part=part)
    release = simulate(made, population, seed=seed)
    return nw.Release.of(made, release.value, dataset=dataset, ledger_head=None, simulated=True)


# ---- numbers told and unknowns ----


@pytest.mark.parametrize(
    ("statistics", "told"),
    [
        ((nw.Mean(X),), 1),
        ((nw.Mean(X, X**2),), 2),
        ((nw.Mean(X, 100 - X),), 1),
        ((nw.Mean(X), nw.Mean(2 * X)), 1),
        ((nw.Mean(X), nw.Sum(X)), 1),
        ((nw.Mean(X), nw.Count(X.between(0, 100))), 1),
        ((nw.Mean(X), nw.Mean(X, X**2, X**3)), 3),
        ((nw.Histogram("x", edges=[20, 40, 60]),), 3),
        ((nw.Histogram("x", edges=[20, 40, 60]), nw.Count(X.between(0, 50))), 4),
        ((nw.Median(X), nw.Mean(X)), 2),
    ],
    ids=str,
)
def test_numbers_are_counted_as_the_records_have_them(statistics, told):
    """Against the rank of the covariance of features of many drawn records."""
    releases = tuple(
        nw.Release.of(nw.plan(s, SCHEMA, guarantee=nw.PureDP(1)), [0] * len(s.labels(SCHEMA)), dataset="d",
                      ledger_head=None, simulated=True)
        for s in statistics
    )  # fmt: skip
    found = degrees(BOTH, releases, AT)
    assert found.told == found.shapes == told
    assert found.unknowns == 2
    assert found.is_checkable == (told > 2)
    assert bool(found.advice) == (told <= 2)


def test_parts_add_up_but_tell_of_one_law():
    parts = tuple(released(nw.Mean(X), part=part) for part in (("0", "1/2"), ("1/2", "1")))
    found = degrees(ONE, parts, {"mean": AT["mean"]})
    assert (found.told, found.shapes, found.unknowns) == (2, 1, 1)
    assert found.is_checkable
    assert not found.checks_shape
    assert "compares the parts with each other" in str(Check({"a": 0.5}, 0.5, 100, found))


def test_levels_and_local_answers_are_counted():
    three = nw.Categorical(p=stats.dirichlet([1, 1, 1]))
    release = released(nw.Histogram("s"), population=three)
    found = degrees(three, (release,), {"p": np.array([[0.2, 0.3, 0.5]])})
    assert (found.told, found.unknowns) == (2, 2)
    assert "no release of this column alone" in found.advice
    local = released(nw.Records(X, cells=[20, 40, 60]), guarantee=nw.PureDP(1))
    assert degrees(ONE, (local,), {"mean": AT["mean"]}).told == 3


def test_tables_of_several_cliques_tell_their_log_linear_terms(rng):
    """Against the rank of all indicator columns over all records there can be."""
    levels = {"a": 2, "b": 3, "c": 4}
    for cliques in ([["a"], ["b"]], [["a", "b"], ["b", "c"]], [["a", "b"], ["b", "c"], ["a", "c"]], [["a", "b", "c"]]):
        records = np.array(np.meshgrid(*(np.arange(k) for k in levels.values()), indexing="ij")).reshape(3, -1)
        columns = []
        for clique in cliques:
            index = np.zeros(records.shape[1], int)
            for name in clique:
                index = index * levels[name] + records["abc".index(name)]
            columns.append(np.eye(index.max() + 1)[index])
        table = np.concatenate(columns, axis=1)
        rank = np.linalg.matrix_rank(table - table.mean(axis=0))
        assert log_linear_terms(cliques, levels) == rank


class Uncounted(ModelBase):
    """A model that says nothing of itself."""


def test_a_model_that_does_not_count_its_unknowns_is_refused():
    with pytest.raises(Unsupported, match="Uncounted has no degrees"):
        Uncounted().degrees((), {})


# ---- the sentences ----


def test_a_release_with_no_more_numbers_than_unknowns_is_not_called_unsurprising(rng):
    """Log-normal records under a normal: two sums, two unknowns, and nothing could be surprising."""
    release = released(nw.Mean(X, X**2), population=SKEWED, seed=int(rng.integers(2**62)))
    text = str(nw.infer(release, WIDE, seed=1, progress=False, draws=250).check)
    assert "not surprising" not in text
    assert "cannot be checked by this release: it tells 2 numbers for 2 unknowns" in text
    assert "Release one more number" in text
    assert "count(between(x, 0, " in text


def test_what_the_check_advises_makes_it_checkable_and_finds_the_misfit(rng):
    """The same records with the histogram that the sentence asks for."""
    seed = int(rng.integers(2**62))
    release = released(nw.Histogram("x", edges=[10, 20, 40, 60]), population=SKEWED, seed=seed, guarantee=nw.PureDP(1))
    check = nw.infer(release, BOTH, seed=1, progress=False, draws=250).check
    assert check.is_checkable
    assert check.is_surprising


def test_a_prior_that_contradicts_the_release_is_still_seen():
    release = released(nw.Mean(X))
    tight = nw.Normal(mean=stats.norm(90, 0.1), sd=15)
    found = nw.infer(release, tight, seed=1, progress=False, draws=250).check
    assert not found.is_checkable
    assert found.is_surprising
    assert "prior and release disagree" in str(found)


def test_no_replicates_do_not_make_a_surprise():
    assert not Check({"a": 0.4}, 0.4, 0).is_surprising
    assert Check({"a": 0.001}, 0.001, 0).is_surprising
    assert not Check({"a": 0.4}, 0.4, 0, Degrees(1, 1, 1, "More.")).is_checkable


# ---- local answers by their cells ----


def test_the_chi_square_of_fitted_cells_has_its_level(rng):
    """Multinomial counts of five cells, two shares fitted by a posterior of their own: p-values are uniform."""
    n, found = 400, []
    for _ in range(400):
        a, b = rng.dirichlet([4, 4])
        p = np.array([a / 2, a / 2, b / 3, b / 3, b / 3])  # one unknown, a
        counts = rng.multinomial(n, p).astype(float)
        draws = rng.beta(4 + counts[:2].sum(), 4 + counts[2:].sum(), 400)
        fitted = np.stack([draws / 2, draws / 2, (1 - draws) / 3, (1 - draws) / 3, (1 - draws) / 3], axis=1)
        found.append(chi_square_tail(counts, fitted)[0])
    assert stats.kstest(found, "uniform").pvalue > ALARM
    assert np.mean(np.array(found) < 0.05) < stats.binom.isf(ALARM, 400, 0.05) / 400
    # Planted: four degrees of freedom, as if nothing had been fitted, and two, as if too much had.
    statistic = stats.chi2(3).isf(found)
    for wrong in (1, 6):
        assert stats.kstest(stats.chi2(wrong).sf(statistic), "uniform").pvalue < ALARM


@pytest.mark.parametrize("kind", ["cells", "laplace", "gaussian"])
def test_log_normal_answers_under_a_normal_are_found_by_their_cells(rng, kind):
    statistic = nw.Records(X, cells=[10, 20, 30, 45, 60]) if kind == "cells" else nw.Records(X)
    guarantee = nw.GaussianDP(8) if kind == "gaussian" else nw.PureDP(4 if kind == "cells" else 8)
    release = released(statistic, guarantee=guarantee, population=SKEWED, seed=int(rng.integers(2**62)))
    check = nw.infer(release, ONE, seed=1, progress=False, draws=100).check
    assert check.replicates == 0  # nothing was simulated
    assert check.is_surprising
    assert "most of all in" in str(check)


@pytest.mark.parametrize("kind", ["cells", "laplace", "gaussian"])
def test_answers_that_fit_are_seldom_surprising(rng, kind):
    statistic = nw.Records(X, cells=[10, 20, 30, 45, 60]) if kind == "cells" else nw.Records(X)
    guarantee = nw.GaussianDP(4) if kind == "gaussian" else nw.PureDP(2)
    tails = []
    for _ in range(8):
        release = released(statistic, guarantee=guarantee, seed=int(rng.integers(2**62)))
        tails.append(nw.infer(release, ONE, seed=1, progress=False, draws=100).check.overall)
    assert stats.combine_pvalues(tails).pvalue > ALARM


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cells", "laplace", "gaussian"])
def test_the_check_of_local_answers_has_its_level(rng, kind):
    statistic = nw.Records(X, cells=[10, 20, 30, 45, 60]) if kind == "cells" else nw.Records(X)
    guarantee = nw.GaussianDP(4) if kind == "gaussian" else nw.PureDP(2)
    tails = []
    for _ in range(150):
        release = released(statistic, guarantee=guarantee, seed=int(rng.integers(2**62)))
        tails.append(nw.infer(release, ONE, seed=1, progress=False, draws=100).check.overall)
    assert stats.kstest(tails, "uniform").pvalue > ALARM


def test_two_cells_of_answers_cannot_be_checked():
    release = released(nw.Records(X, cells=[40]), guarantee=nw.PureDP(1))
    text = str(nw.infer(release, ONE, seed=1, progress=False, draws=100).check)
    assert "cannot be checked by this release: it tells 1 number for 1 unknown" in text
    assert "Ask with 1 more cell than now" in text


@pytest.mark.parametrize(("n", "numbers"), [(1, "1 number"), (2, "2 numbers"), (8, "2 numbers")])
def test_too_few_answers_for_their_cells_cannot_be_checked(n, numbers):
    """An answer is a number, and it was published with noise already: what is missing is people."""
    few = nw.Schema({"x": nw.Bounded(0, 100)}, n=n, neighbours="change-one")
    two = nw.Normal(mean=stats.norm(50, 20), sd=stats.halfnorm(scale=20))
    release = simulate(nw.plan(nw.Records(X), few, guarantee=nw.PureDP(1)), two, seed=1)
    text = str(nw.infer(release, two, seed=1, progress=False, draws=100).check)
    assert f"cannot be checked by this release: it tells {numbers} for 2 unknowns" in text
    assert text.endswith("ask more people.")


def test_the_cells_at_the_ends_are_named_by_the_bounds(rng):
    release = released(nw.Records(X, cells=[20, 40, 60]), guarantee=nw.PureDP(2))
    check = nw.infer(release, ONE, seed=1, progress=False, draws=100).check
    assert list(check.components) == ["x in [0, 20)", "x in [20, 40)", "x in [40, 60)", "x in [60, 100]"]


@pytest.mark.parametrize(
    ("statistic", "is_new"),
    [
        ("mean(x)", True),
        ("mean(x/10, (x/10)**2)", False),
        ("mean(x, (x - 3)**2)", False),
        ("mean(clip(x, 0, 5), x)", True),
    ],
)
def test_advice_names_only_numbers_that_are_not_given_away_already(statistic: str, is_new: bool) -> None:
    """x and x**2 in other units are what was released; a name that is no word is quoted as the language needs it."""
    schema = nw.Schema({"CO(GT)": nw.Bounded(0, 10)}, n=400, neighbours="change-one")
    text = statistic.replace("x", "column('CO(GT)')")
    population = nw.Normal(mean=stats.norm(5, 3), sd=stats.halfnorm(scale=3))
    release = nw.simulate(nw.plan(nw.statistic(text), schema, guarantee=nw.PureDP(1)), population, seed=1)
    theta = {"mean": np.array([5.0]), "sd": np.array([2.0])}
    advice = degrees(population.named("CO(GT)"), (release,), theta).advice
    assert ("mean(column('CO(GT)'), column('CO(GT)')**2)" in advice) == is_new
    assert "count(between(column('CO(GT)'), 0, 5))" in advice
    assert "histogram(column('CO(GT)'), edges" in advice
