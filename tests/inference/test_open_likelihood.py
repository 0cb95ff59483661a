"""The likelihood that `infer` uses, handed out; and samplers of one's own, named in `infer`."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import noisewise as nw
from noisewise.inference.population_methods import METHODS

SCHEMA = nw.Schema({"age": nw.Bounded(0, 100), "smoker": nw.Levels(["no", "yes"])}, n=50, neighbours="change-one")
SMOKERS = nw.Count(nw.column("smoker").equals("yes"))
SHARE = nw.Bernoulli(p=stats.beta(2, 3))
MEASURED = nw.measurement(SMOKERS, SCHEMA, 17, noise=nw.geometric_noise(scale=2))


def test_log_likelihood_is_the_law_by_enumeration():
    law = nw.likelihood_of(MEASURED, SHARE)
    p, s, a = np.array([0.1, 0.3, 0.5]), np.arange(51), np.exp(-0.5)
    noise = np.log((1 - a) / (1 + a)) - 0.5 * np.abs(17 - s)
    oracle = logsumexp(stats.binom.logpmf(s, 50, p[:, None]) + noise, axis=1)
    assert law.log_likelihood({"p": p}) == pytest.approx(oracle, rel=1e-9)
    assert law.log_likelihood({"p": 0.3}) == pytest.approx(oracle[1:2], rel=1e-9)
    assert law.free == ("p",)
    assert law.is_exact
    assert "binomial" in law.because


def test_score_is_the_slope_of_the_log_likelihood():
    law = nw.likelihood_of(MEASURED, SHARE)
    p, h = np.array([0.2, 0.35, 0.6]), 1e-5
    slope = (law.log_likelihood({"p": p + h}) - law.log_likelihood({"p": p - h})) / (2 * h)
    assert law.score({"p": p})["p"] == pytest.approx(slope, rel=1e-5)


def test_simulated_values_have_the_law_that_is_scored(rng):
    """Chi-square of 4000 simulated noisy counts against the probabilities of the log-likelihood, at 1e-6."""
    (drawn,) = nw.likelihood_of(MEASURED, SHARE).simulate(rng, {"p": np.full(4000, 0.3)})
    assert drawn.shape == (4000, 1)
    values = np.arange(-5, 40)
    at = [nw.measurement(SMOKERS, SCHEMA, int(y), noise=nw.geometric_noise(scale=2)) for y in values]
    chances = np.exp([nw.likelihood_of(one, SHARE).log_likelihood({"p": 0.3})[0] for one in at])
    counts = np.array([np.sum(drawn[:, 0] == y) for y in values])
    kept = 4000 * chances > 8
    expected = np.append(4000 * chances[kept], 4000 * (1 - chances[kept].sum()))
    observed = np.append(counts[kept], 4000 - counts[kept].sum())
    assert stats.chi2.sf(np.sum((observed - expected) ** 2 / expected), len(expected) - 1) > 1e-6


def test_releases_of_the_same_records_are_simulated_from_the_same_records(rng):
    """Under hardly any noise two means of the same records agree, and those of two data sets do not."""
    age = nw.Normal(mean=stats.norm(50, 20), sd=10.0)

    def mean(dataset, value):
        return nw.measurement(nw.Mean("age"), SCHEMA, value, noise=nw.laplace_noise(scale=1e-6), dataset=dataset)

    theta = {"mean": np.full(20, 50.0)}
    same = nw.likelihood_of([mean("a", 50.0), mean("a", 50.000001)], age).simulate(rng, theta)
    other = nw.likelihood_of([mean("a", 50.0), mean("b", 51.0)], age).simulate(rng, theta)
    assert np.abs(same[0] - same[1]).max() < 1e-3
    assert np.abs(other[0] - other[1]).max() > 1e-2
    assert np.abs(same[0] - 50).max() < 15


def test_parameters_that_are_missing_or_unknown_are_refused():
    law = nw.likelihood_of(MEASURED, SHARE)
    for bad in ({}, {"q": 0.3}, {"p": 0.3, "q": 1}, {"p": "x"}, {"p": np.nan}, 3, None):
        with pytest.raises(nw.NoisewiseError):
            law.log_likelihood(bad)
    with pytest.raises(nw.InvalidArgument, match="takes a population"):
        nw.likelihood_of(MEASURED, nw.LinearRegression(["age"], "income"))


@pytest.fixture
def registered():
    """Registrations of a test, taken back after it."""
    before = dict(METHODS._known)
    yield
    METHODS._known.clear()
    METHODS._known.update(before)


def walk(target, rng, *, chains, draws, warmup, step):
    """A random walk, as anybody would write it."""
    position = target.draw_prior(rng, chains)
    density = target.log_prior(position) + target.log_likelihood(position)
    kept = np.empty((chains, draws, target.size))
    for k in range(-warmup, draws):
        proposal = position + step * rng.standard_normal(position.shape)
        new = target.log_prior(proposal) + target.log_likelihood(proposal)
        moved = np.log(rng.random(chains)) < new - density
        position, density = np.where(moved[:, None], proposal, position), np.where(moved, new, density)
        kept[:, k] = position
    return kept


def test_a_method_of_ones_own_is_named_in_infer(registered):
    nw.register_method("my_walk", walk, words="a walk of my own", options={"step": 1.0})
    found = nw.infer(MEASURED, SHARE, method="my_walk", seed=1, draws=2000, step=0.7, progress=False)
    exact = nw.infer(MEASURED, SHARE, seed=1, progress=False)
    assert found.mean["p"] == pytest.approx(exact.mean["p"], abs=0.5 * exact.sd["p"])
    assert "a walk of my own" in found.summary()
    assert "author's word" in " ".join(found.summary().split())


def test_what_a_method_of_ones_own_gets_wrong_is_said(registered):
    nw.register_method("stuck", lambda target, _rng, **asked: np.zeros((asked["chains"], asked["draws"], target.size)))
    stuck = nw.infer(MEASURED, SHARE, method="stuck", seed=1, progress=False)
    assert not stuck.verdict.is_converged
    nw.register_method("short", lambda _target, _rng, **asked: np.zeros((asked["chains"], asked["draws"] - 1, 1)))
    with pytest.raises(nw.InvalidArgument, match="positions of shape"):
        nw.infer(MEASURED, SHARE, method="short", progress=False)
    with pytest.raises(nw.InvalidArgument, match="already"):
        nw.register_method("stuck", walk)
    with pytest.raises(nw.InvalidArgument, match="not an option"):
        nw.infer(MEASURED, SHARE, method="stuck", step=1, progress=False)
    for bad in ("", "two words", 3, None):
        with pytest.raises(nw.InvalidArgument):
            nw.register_method(bad, walk)
