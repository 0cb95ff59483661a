"""The word "exact" is kept for a release's own law: of a central limit law it is never said."""

from __future__ import annotations

import pytest
from made_releases import release_of
from scipy import stats

import noisewise as nw

X = nw.column("x")
LINE = nw.Normal(mean=stats.norm(0, 3), sd=1)
BOTH = nw.Normal(mean=stats.norm(0, 3), sd=stats.halfnorm(scale=3))


def schema(n: int) -> nw.Schema:
    return nw.Schema({"x": nw.Bounded(-5, 5)}, n=n, neighbours="change-one")


@pytest.mark.parametrize(
    ("statistic", "estimate", "population", "n", "likelihood"),
    [
        (nw.Mean(X), [0.5], LINE, 100, "clt"),
        (nw.Mean(X), [0.5], LINE, 100_000, "auto"),
        (nw.Mean(X, X**2), [0.5, 1.4], BOTH, 100_000, "auto"),
        (nw.Histogram("x", edges=[0, 1]), [40, 30, 30], LINE, 100, "clt"),
    ],
)
def test_nothing_that_is_printed_calls_a_central_limit_law_exact(statistic, estimate, population, n, likelihood):
    release = release_of(statistic, schema(n), nw.PureDP(5), estimate)
    found = nw.infer(release, population, likelihood=likelihood, seed=1, draws=200, progress=False)
    assert found.method == "exact"  # the name of the way to compute stays what programs know
    for text in (found.summary(), str(found.verdict), found.because):
        assert "exact" not in text.lower()
    assert "central limit" in found.summary()


def test_the_information_under_a_normal_law_is_not_called_exact():
    plan = nw.plan(nw.Mean(X, X**2), schema(5000), guarantee=nw.PureDP(5))
    found = nw.information(plan, LINE, at={"mean": 0.5}, seed=1)
    assert found.likelihood == "clt"
    assert "exact" not in str(found).lower()
    assert "exact" not in str(nw.choose([plan], LINE, seed=1)).lower()


@pytest.mark.parametrize(
    ("statistic", "estimate"), [(nw.Mean(X), [0.5]), (nw.Count(X.between(0, 1)), [30])], ids=["mean", "count"]
)
def test_a_releases_own_law_is_called_exact(statistic, estimate):
    release = release_of(statistic, schema(100), nw.PureDP(5), estimate)
    found = nw.infer(release, LINE, seed=1, draws=200, progress=False)
    assert "Verdict: Exact: 800 independent draws by quadrature" in found.summary()
