"""Large noisy tables by a saddlepoint, against the exact sum over every table."""

from __future__ import annotations

import numpy as np
import pytest
from made_releases import release_of
from scipy import stats

import noisewise as nw
from noisewise.likelihood.count_models import TableModel
from noisewise.likelihood.joint import joint_likelihood
from noisewise.likelihood.large_table import LargeTable

NORMAL = nw.Normal(mean=stats.norm(0, 3), sd=stats.uniform(0.5, 3))
GUARANTEES = {
    "laplace": nw.PureDP(1), "sharp laplace": nw.PureDP(12), "vague laplace": nw.PureDP("0.2"),
    "discrete gaussian": nw.ZeroConcentratedDP("0.3"), "rounded gaussian": nw.GaussianDP(1),
}  # fmt: skip


def table_release(rng, n: int, cells: int, guarantee, *, dataset: str = "made") -> nw.Release:
    schema = nw.Schema({"x": nw.Bounded(-6, 6)}, n=n, neighbours="change-one")
    made = nw.plan(nw.Histogram("x", np.linspace(-6, 6, cells + 1)[1:-1].tolist()), schema, guarantee=guarantee)
    made = nw.simulate(made, NORMAL, at={"mean": 1.0, "sd": 1.5}, seed=rng)
    return release_of(made.statistic, schema, guarantee, made.estimate, dataset=dataset)


def some_theta() -> dict[str, np.ndarray]:
    return {"mean": np.array([1.0, 0.8, -2.0, 4.0]), "sd": np.array([1.5, 1.7, 0.6, 3.0])}


@pytest.mark.parametrize("kind", GUARANTEES)
@pytest.mark.parametrize(("n", "cells"), [(30, 40), (2000, 200), (30_000, 200)])
def test_the_likelihood_is_that_of_the_exact_sum_over_tables(rng, n, cells, kind):
    """At plausible and at absurd parameters, whatever the noise: four digits of p(y | theta)."""
    releases = (table_release(rng, n, cells, GUARANTEES[kind]),)
    found = LargeTable.of(releases, NORMAL, n=n).log_likelihood(some_theta())
    exact = TableModel.of(releases, NORMAL, n=n).log_likelihood(some_theta())
    np.testing.assert_allclose(found, exact, rtol=1e-10, atol=5e-5)


def test_two_releases_of_one_large_table_share_the_table(rng):
    releases = tuple(table_release(rng, 800, 200, g) for g in (nw.PureDP(1), nw.GaussianDP(1)))
    found = LargeTable.of(releases, NORMAL, n=800).log_likelihood(some_theta())
    exact = TableModel.of(releases, NORMAL, n=800).log_likelihood(some_theta())
    np.testing.assert_allclose(found, exact, rtol=1e-10, atol=5e-5)


def test_drawn_tables_have_the_moments_of_the_exact_law(rng):
    """Means and variances of all cells from 60 drawn tables; a table has n records."""
    n, cells = 3000, 500
    releases = (table_release(rng, n, cells, nw.PureDP(1)),)
    theta = {"mean": np.full(60, 0.9), "sd": np.full(60, 1.4)}
    drawn = LargeTable.of(releases, NORMAL, n=n).draw_statistic(rng, theta)
    assert np.all(drawn.sum(axis=1) == n)
    assert drawn.min() >= 0
    exact = TableModel.of(releases, NORMAL, n=n)._table({name: value[:1] for name, value in theta.items()})
    mean, variance = (moment[0] for moment in exact.moments())
    wide = variance > 0.2
    z = (drawn.mean(axis=0) - mean)[wide] / np.sqrt(variance[wide] / len(drawn))
    assert stats.chi2.sf(np.sum(z**2), z.size) > 1e-6
    ratio = drawn.var(axis=0, ddof=1)[wide] / variance[wide]
    assert abs(ratio.mean() - 1) < 0.1


def test_a_histogram_of_thousands_of_cells_is_learnt_from(rng):
    """The posterior covers the truth, and the law is told."""
    release = table_release(rng, 4000, 4000, nw.PureDP(3))
    law = joint_likelihood((release,), NORMAL)
    assert isinstance(law.groups[0], LargeTable)
    assert "4000 cells" in law.because
    found = law.log_likelihood(some_theta())
    assert np.argmax(found) < 2


@pytest.mark.parametrize("cells", [601, 5000])
def test_tables_too_large_for_any_law_are_refused_first(cells):
    """Every cell with a noise of its own: neither the exact sum nor the normal law is affordable."""
    schema = nw.Schema({"g": nw.Levels(list(range(cells)))}, n=10**6, neighbours="change-one")
    weights = np.linspace(1, 2, cells).tolist()
    release = release_of(nw.Histogram("g"), schema, nw.PureDP(1), np.ones(cells), weights=weights)
    with pytest.raises(nw.Unsupported, match="coarser table"):
        joint_likelihood((release,), nw.Categorical(p=stats.dirichlet(np.ones(cells))))


def test_as_many_unknowns_as_cells_are_refused_first():
    schema = nw.Schema({"g": nw.Levels(list(range(20_000)))}, n=10**6, neighbours="change-one")
    release = release_of(nw.Histogram("g"), schema, nw.PureDP(1), np.full(20_000, 50))
    with pytest.raises(nw.Unsupported, match="fewer unknowns"):
        joint_likelihood((release,), nw.Categorical(p=stats.dirichlet(np.ones(20_000))))
