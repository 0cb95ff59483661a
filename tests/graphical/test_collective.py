"""Collective learning: the E-step against a cone solver, EM's promise to rise, and when it stops."""

from itertools import islice

import cvxpy
import numpy as np
import pytest
from graphs import cells_of, chain, dirichlet_potentials, enumerated, every_record
from scipy import sparse, stats

from noisewise.errors import InvalidArgument
from noisewise.graphical.engine import JunctionEngine
from noisewise.graphical.gauge import gauge_free
from noisewise.graphical.problem import GAUSSIAN, LAPLACE, Holder, Problem
from noisewise.graphical.structure import Regions
from noisewise.published.graphical import collective

N = 200
FAMILIES = [LAPLACE, GAUSSIAN]
SMALL = Regions((2, 3, 2), ((0, 1), (1, 2)))


def noisy(rng, tables, sums, truth, *, n, sd, family):
    """What a holder of n records from the truth publishes."""
    entries = sums @ JunctionEngine(tables).sample_tables(rng, truth, n)
    noise = (
        rng.laplace(scale=sd / np.sqrt(2), size=len(entries)) if family == LAPLACE else rng.normal(0, sd, len(entries))
    )
    return Holder(float(n), sums, entries + noise, np.full(len(entries), sd**2), family)


def every_cell(tables):
    return sparse.csr_array(sparse.eye_array(tables.cells))


def plain_problem(rng, tables, *, n, sd, family=LAPLACE, truth=None):
    truth = dirichlet_potentials(rng, tables) if truth is None else truth
    holder = noisy(rng, tables, every_cell(tables), truth, n=n, sd=sd, family=family)
    return Problem(JunctionEngine(tables), np.arange(tables.cells), (holder,)), truth


def pooled_problem(rng, family):
    """A chain whose two pairs share parameters; one pooled table, in which a person's two pairs weigh a half each."""
    tables = chain(3, 2)
    sums = sparse.csr_array(sparse.hstack([sparse.eye_array(4)] * 2) / 2)
    spread = np.tile(np.arange(4), 2)
    holder = noisy(rng, tables, sums, rng.normal(size=4)[spread], n=N, sd=10.0, family=family)
    return Problem(JunctionEngine(tables), spread, (holder,))


def foreign_problem(rng, family):
    """Two pairs as factors; what is published is the table of all three, which is none."""
    tables = Regions((2, 3, 2), ((0, 1), (1, 2), (0, 1, 2)))
    spread = np.where(np.arange(tables.cells) < 12, np.arange(tables.cells), -1)
    truth = np.where(spread >= 0, rng.normal(size=tables.cells), 0.0)
    holder = noisy(rng, tables, every_cell(tables)[12:], truth, n=N, sd=6.0, family=family)
    return Problem(JunctionEngine(tables), spread, (holder,))


def untied_release_problem(rng, family):
    """Shared parameters, but each pair's table published on its own."""
    tables = chain(3, 2)
    spread = np.tile(np.arange(4), 2)
    holder = noisy(rng, tables, every_cell(tables), rng.normal(size=4)[spread], n=N, sd=10.0, family=family)
    return Problem(JunctionEngine(tables), spread, (holder,))


def two_holder_problem(rng, family):
    one, truth = plain_problem(rng, SMALL, n=N, sd=9.0, family=family)
    other, _ = plain_problem(rng, SMALL, n=3 * N, sd=30.0, family=family, truth=truth)
    return Problem(one.engine, one.spread, (*one.holders, *other.holders))


def one_holder_problem(rng, family):
    return plain_problem(rng, SMALL, n=N, sd=9.0, family=family)[0]


SHAPES = [one_holder_problem, two_holder_problem, pooled_problem, foreign_problem, untied_release_problem]
NAMES = ["one data set", "two data sets", "pooled entries", "a table that is no factor", "ties not published"]


def by_cone_solver(problem, holder, theta):
    """max over n, as a distribution over all records: the entropy of its most random extension is then exact."""
    tables = problem.engine.tables
    marks = cells_of(tables, every_record(tables))
    share = cvxpy.Variable(len(marks), nonneg=True)
    left = holder.observed - holder.n * (holder.sums.toarray() @ marks.T) @ share
    if holder.family == LAPLACE:
        score = -cvxpy.sum(cvxpy.multiply(cvxpy.abs(left), 1 / np.sqrt(holder.variance / 2)))
    else:
        score = -cvxpy.sum_squares(cvxpy.multiply(left, 1 / np.sqrt(2 * holder.variance)))
    value = holder.n * ((marks @ problem.potentials(theta)) @ share + cvxpy.sum(cvxpy.entr(share))) + score
    best = cvxpy.Problem(cvxpy.Maximize(value), [cvxpy.sum(share) == 1])
    best.solve(solver=cvxpy.CLARABEL)
    return best.value, holder.n * (share.value @ marks)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape", SHAPES, ids=NAMES)
def test_the_dual_completes_the_tables_as_a_cone_solver_does(rng, shape, family):
    problem = shape(rng, family)
    theta = rng.normal(size=problem.parameters)
    for holder in problem.holders:
        found = collective.complete(problem, holder, theta, tolerance=1e-7)
        value, tables = by_cone_solver(problem, holder, theta)
        assert found.settled
        assert found.value == pytest.approx(value, abs=1e-3)
        np.testing.assert_allclose(found.tables, tables, atol=0.02)


def test_the_pull_stays_in_its_box_and_entries_inside_it_are_met(rng):
    problem, _ = plain_problem(rng, SMALL, n=N, sd=9.0)
    (holder,) = problem.holders
    theta = np.zeros(12)
    found = collective.complete(problem, holder, theta, tolerance=1e-9)
    end = 1 / holder.scale
    assert np.all(np.abs(found.pull) <= end * (1 + 1e-12))
    is_inside = np.abs(found.pull) < end * (1 - 1e-6)
    left = holder.observed - found.tables
    np.testing.assert_allclose(left[is_inside], 0, atol=1e-6)
    np.testing.assert_array_equal(np.sign(left[~is_inside]), np.sign(found.pull[~is_inside]))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape", SHAPES, ids=NAMES)
def test_no_step_lowers_the_objective(rng, shape, family):
    problem = shape(rng, family)
    values = [collective.profile(problem, np.zeros(problem.parameters))]
    values += [collective.profile(problem, theta) for theta, _ in islice(collective.path(problem), 20)]
    assert np.min(np.diff(values)) > -1e-4
    assert values[-1] > values[0]


def test_a_step_the_wrong_way_lowers_the_objective(rng):
    """The planted fault: a sign."""
    problem, _ = plain_problem(rng, SMALL, n=N, sd=9.0)
    theta, _ = next(collective.path(problem))
    assert collective.profile(problem, -theta) < collective.profile(problem, np.zeros(12)) - 1e-4


@pytest.mark.parametrize("shape", SHAPES, ids=NAMES)
def test_after_a_step_the_model_has_the_completed_tables(rng, shape):
    problem = shape(rng, LAPLACE)
    before, after = (theta for theta, _ in islice(collective.path(problem), 2))
    tables = sum(collective.complete(problem, holder, before, tolerance=1e-8).tables for holder in problem.holders)
    mu = enumerated(problem.engine.tables, problem.potentials(after)).mu
    np.testing.assert_allclose(problem.n * problem.gather(mu), problem.gather(tables), atol=0.1)


def test_two_data_sets_with_the_same_tables_are_fitted_like_one(rng):
    problem, _ = plain_problem(rng, SMALL, n=N, sd=9.0)
    twice = Problem(problem.engine, problem.spread, problem.holders * 2)
    one, two = collective.fit(problem, steps=4), collective.fit(twice, steps=4)
    np.testing.assert_allclose(enumerated(SMALL, one.theta).mu, enumerated(SMALL, two.theta).mu, atol=1e-4)


class CountingEngine:
    """An engine that counts its passes."""

    def __init__(self, engine):
        self.engine, self.tables, self.passes = engine, engine.tables, 0

    def marginals(self, potentials):
        self.passes += 1
        return self.engine.marginals(potentials)


def empty_cell_problem():
    """Two holders whose tables disagree, with a cell that both publish below zero."""
    tables = chain(3, 4)
    engine, cell = JunctionEngine(tables), np.arange(tables.cells)
    _, mu = engine.marginals(np.where(cell == 0, -50.0, 3 * np.cos(cell**1.5)))
    holders = tuple(
        Holder(n, every_cell(tables), np.round(n * mu) - np.cos(turn * cell), np.ones(tables.cells), LAPLACE)
        for n, turn in ((200.0, 2), (600.0, 3))
    )
    return Problem(CountingEngine(engine), cell, holders)


def test_an_empty_cell_does_not_hold_up_the_steps_of_several_data_sets(monkeypatch):
    """No finite theta has an empty cell, so nothing but a limit ends the M-step soon; the tables are hardly moved."""
    problem, match = empty_cell_problem(), collective.match

    def walked(limit):
        """The probabilities after five steps, and the passes of each M-step."""
        passes = []

        def counted(*arguments, **options):
            before = problem.engine.passes
            found = match(*arguments, **options)
            passes.append(problem.engine.passes - before)
            return found

        monkeypatch.setattr(collective, "match", counted)
        monkeypatch.setattr(collective, "M_STEPS", limit)
        theta = [theta for theta, _ in islice(collective.path(problem), 5)][-1]
        return problem.engine.marginals(theta)[1], passes

    most = collective.M_STEPS
    held, short = walked(most)
    free, long = walked(100 * most)
    assert len(short) == len(long) == 5
    assert most < max(short) < 2 * most  # a step is one pass, and some more where it is halved
    assert max(long) > 4 * most
    np.testing.assert_allclose(problem.n * held, problem.n * free, atol=0.1)  # in records, next to noise of one
    assert held[0] * problem.n < 0.5


def test_as_many_steps_are_taken_as_are_asked_for(rng):
    problem, _ = plain_problem(rng, SMALL, n=N, sd=9.0)
    assert collective.fit(problem, steps=1).steps == 1
    found = collective.fit(problem, steps=7)
    last = list(islice(collective.path(problem), 7))[-1][0]
    assert found.steps == 7
    np.testing.assert_allclose(enumerated(SMALL, found.theta).mu, enumerated(SMALL, last).mu, atol=1e-9)
    np.testing.assert_allclose(found.theta, gauge_free(problem)(found.theta), atol=1e-9)


def test_it_stops_at_the_first_step_whose_discrepancy_is_what_noise_would_leave_or_at_the_least(rng):
    problem, _ = plain_problem(rng, chain(6, 4), n=5000, sd=28.0)
    found = collective.fit(problem)
    dimension = gauge_free(problem).dimension

    def left(step, theta):
        _, mu = problem.engine.marginals(theta)
        return [collective.discrepancy(problem, mu, t, dimension=dimension) for t in (step, 0)]

    walk = enumerate(islice(collective.path(problem), 20 + 2 * found.steps), start=1)
    ratios, at_truth = np.array([left(i, theta) for i, (theta, _) in walk]).T
    stop = found.steps - 1
    if ratios[stop] <= 1:
        assert np.all(ratios[:stop] > 1)
        assert "as near to the release as noise" in found.notes[0]
    else:
        assert "never came as near" in found.notes[0]
        searched = slice(int(np.argmax(at_truth <= 1)), 20 + (3 * found.steps) // 2)
        assert stop == searched.start + np.argmin(ratios[searched])


def test_stopping_at_the_limit_is_said(rng):
    problem, _ = plain_problem(rng, chain(6, 4), n=50_000, sd=28.0)
    found = collective.fit(problem, limit=2)
    assert found.steps == 2
    assert "limit of 2 steps" in found.notes[0]


@pytest.mark.parametrize("sampling", [0.0, 0.3, 20.0])
@pytest.mark.parametrize(("family", "law"), [(LAPLACE, stats.laplace(scale=0.5**0.5)), (GAUSSIAN, stats.norm())])
def test_the_mean_distance_is_that_of_a_fine_grid_of_quantiles(family, law, sampling):
    levels = (np.arange(1500) + 0.5) / 1500
    noise, drawn = law.ppf(levels), np.sqrt(sampling) * stats.norm.ppf(levels)
    grid = np.mean(np.abs(noise[:, None] + drawn))
    found = collective.mean_distance(np.array([sampling]), family=family)[0]
    assert found == pytest.approx(grid, rel=2e-3)


def test_with_more_steps_the_divergence_falls_and_then_rises(rng):
    """The method's limit has fitted the noise; the rule stops before that. Four data sets, added up."""
    divergence, by_rule = np.zeros(200), 0.0
    for _ in range(4):
        problem, truth = plain_problem(rng, chain(6, 4), n=600, sd=28.0)
        at_truth, mu = problem.engine.marginals(truth)
        fits = np.array([*(theta for theta, _ in islice(collective.path(problem), 200)), collective.fit(problem).theta])
        totals, _ = problem.engine.marginals_of_rows(fits)
        along = (truth - fits) @ mu - at_truth + totals
        divergence, by_rule = divergence + along[:-1], by_rule + along[-1]
    assert divergence.min() < 0.9 * divergence[0]
    assert divergence.min() < 0.8 * divergence[-1]
    assert by_rule < divergence[-1]


def test_belief_propagation_as_printed_finds_the_same_tables_where_it_settles(rng):
    """Gaussian noise that is large against sampling: the printed passes contract."""
    problem, _ = plain_problem(rng, SMALL, n=N, sd=25.0, family=GAUSSIAN)
    printed, dual = (collective.fit(problem, steps=3, inference=name, damping=0.5) for name in ("nlbp", "dual"))
    assert len(printed.notes) == 1
    np.testing.assert_allclose(enumerated(SMALL, printed.theta).mu, enumerated(SMALL, dual.theta).mu, atol=2e-3)


def test_where_the_printed_passes_do_not_settle_it_is_said(rng):
    """An entry met exactly within the box: sign(y - n)/b jumps between its ends for ever."""
    tables = Regions((2,), ((0,),))
    holder = Holder(100.0, every_cell(tables), np.array([50.3, 49.7]), np.full(2, 2.0), LAPLACE)
    problem = Problem(JunctionEngine(tables), np.arange(2), (holder,))
    found = collective.fit(problem, steps=2, inference="nlbp")
    assert "did not settle in 2 of 2 steps" in found.notes[-1]
    assert len(collective.fit(problem, steps=2).notes) == 1


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        *(({"steps": value}, "steps") for value in (-1, 0, 1.0, True, "3", [], 10**400, float("nan"))),
        *(({"inference": value}, "inference") for value in ("bp", 3, None, np.array(["dual", "nlbp"]))),
        *(({"damping": value}, "damping") for value in (0, -1, 1.01, True, "1", None, [0.5], 10**5000, float("nan"))),
    ],
    ids=[str(k) for k in range(21)],
)
def test_options_out_of_their_domain_are_refused(rng, options, argument):
    problem, _ = plain_problem(rng, SMALL, n=N, sd=9.0)
    for inference in ("dual", "nlbp"):
        with pytest.raises(InvalidArgument) as refused:
            collective.fit(problem, **{"inference": inference, **options})
        assert refused.value.argument == argument


def test_damping_may_be_one(rng):
    problem, _ = plain_problem(rng, SMALL, n=N, sd=9.0)
    assert collective.fit(problem, steps=1, inference="nlbp", damping=1).steps == 1
