"""Unknown correlation matrices: their prior, their unconstrained numbers, and what is learnt of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import special, stats
from scipy.stats import qmc

import noisewise as nw
from noisewise.inference.transform import Transform
from noisewise.populations.cleaned import row_moments
from noisewise.populations.correlation import LKJ
from noisewise.populations.parameters import Support
from noisewise.populations.text import population_from_text, population_to_text

FALSE_ALARM = 1e-7
NAMES = ("a", "b", "c")
A, B, C = map(nw.column, NAMES)
PAIRS = [(0, 1), (0, 2), (1, 2)]
STANDARD = nw.MultivariateNormal(columns=NAMES, mean=[0, 0, 0], sd=[1, 1, 1], correlation=LKJ(1))


def schema(bound=50.0, n=400):
    return nw.Schema({name: nw.Bounded(-bound, bound) for name in NAMES}, n=n, neighbours="change-one")


@pytest.mark.parametrize(("order", "eta"), [(2, 0.5), (3, 1.0), (4, 2.5), (6, 1.3)])
def test_a_single_correlation_has_its_beta_law(order, eta, rng):
    drawn = LKJ(eta).of(order).rvs(40_000, rng)
    shape = eta + order / 2 - 1
    for column in drawn.T:
        assert stats.kstest((1 + column) / 2, stats.beta(shape, shape).cdf).pvalue > FALSE_ALARM
        assert stats.kstest((1 + column) / 2, stats.beta(shape + 1, shape + 1).cdf).pvalue < 1e-3  # planted


def test_the_density_is_that_of_the_draws(rng):
    """It integrates to one over the cube of entries, and is zero where they are those of no correlation matrix."""
    entries = rng.uniform(-1, 1, (100_000, 3))
    for eta in (1.0, 3.0):
        density = np.exp(LKJ(eta).of(3).logpdf(entries))
        assert abs(8 * density.mean() - 1) < 5.5 * 8 * density.std() / np.sqrt(len(density))
    one = np.exp(LKJ(1).of(3).logpdf(entries))
    assert one.max() == pytest.approx(2 / np.pi**2)  # the volume of all 3 x 3 correlation matrices is pi^2 / 2
    determinants = np.linalg.det([[[1, r, s], [r, 1, t], [s, t, 1]] for r, s, t in entries[:2000]])
    np.testing.assert_array_equal(one[:2000] > 0, determinants > 0)


@pytest.mark.parametrize("order", [2, 3, 5])
def test_the_jacobian_is_the_determinant_of_the_slopes(order, rng):
    size = order * (order - 1) // 2
    line = Transform({"correlation": Support.correlations(order), "x": Support(0.0)})
    assert line.size == size + 1
    for _ in range(3):
        u = rng.normal(size=(1, size + 1))
        moved = u + 1e-5 * np.concatenate([np.eye(size + 1), -np.eye(size + 1)])
        theta = line.parameters(moved)
        flat = np.column_stack([theta["correlation"], theta["x"]])
        slopes = (flat[: size + 1] - flat[size + 1 :]) / 2e-5
        assert line.log_jacobian(u)[0] == pytest.approx(np.linalg.slogdet(slopes)[1], abs=1e-6)
        np.testing.assert_allclose(line.position(line.parameters(u)), u, atol=1e-9)


def test_far_out_the_walk_leaves_the_support_and_not_the_doubles():
    line = Transform({"correlation": Support.correlations(3)})
    theta = line.parameters(np.array([[40.0, 0.0, 0.0]]))
    assert not line.is_inside(theta)[0]
    assert np.isfinite(line.log_jacobian(np.array([[40.0, -300.0, 0.0]]))).all()


def test_two_columns_have_the_one_correlation_they_always_had():
    common = {"columns": ["a", "b"], "mean": [0.0, 0.0], "sd": [1.0, 1.0]}
    matrix = nw.MultivariateNormal(**common, correlation=LKJ(2))
    single = nw.MultivariateNormal(**common, correlation=stats.beta(2, 2, loc=-1, scale=2))
    release = nw.measurement(nw.Mean(A * B), schema(), 0.35, noise=nw.gaussian_noise(sd=0.1))
    one, two = (nw.infer(release, population, seed=1, progress=False) for population in (matrix, single))
    np.testing.assert_array_equal(one.draws["correlation"], two.draws["correlation"])


def isserlis(r):
    """Mean and covariance of x_i x_j over the three pairs, for standard normals."""
    m = np.eye(3)
    for (i, j), value in zip(PAIRS, r, strict=True):
        m[i, j] = m[j, i] = value
    return np.array(r), np.array([[m[i, s] * m[j, t] + m[i, t] * m[j, s] for s, t in PAIRS] for i, j in PAIRS])


def test_products_of_unclamped_columns_have_isserlis_moments(rng):
    drawn = LKJ(1).of(3).rvs(5, rng)
    mean, covariance = row_moments(STANDARD, schema(), [A * B, A * C, B * C], {"correlation": drawn})
    for k, r in enumerate(drawn):
        expected, spread = isserlis(r)
        np.testing.assert_allclose(mean[k], expected, atol=1e-12)
        np.testing.assert_allclose(covariance[k], spread, atol=1e-12)


@pytest.mark.parametrize("bound", [0.7, 2.0, 6.0])
def test_products_of_clamped_columns_are_those_of_clamped_draws(bound):
    r = np.array([0.6, -0.3, 0.2])
    features = [A, C, A * A, A * B, B * C, (A - 0.2) * C * 3]
    mean, covariance = row_moments(STANDARD, schema(bound), features, {"correlation": r[None]})
    root = np.linalg.cholesky([[1, 0.6, -0.3], [0.6, 1, 0.2], [-0.3, 0.2, 1]])
    z = special.ndtri(qmc.Sobol(3, rng=np.random.default_rng(5)).random(2**17))
    a, b, c = np.clip(z @ root.T, -bound, bound).T
    values = np.stack([a, c, a * a, a * b, b * c, 3 * (a - 0.2) * c])
    spread = values.std(axis=1)
    np.testing.assert_allclose((mean[0] - values.mean(axis=1)) / spread, 0, atol=2e-4)
    np.testing.assert_allclose((covariance[0] - np.cov(values)) / np.outer(spread, spread), 0, atol=2e-3)


def test_the_posterior_is_that_of_draws_from_the_prior_weighed_by_the_law(rng):
    """An oracle that shares nothing: uniform entries, positive ones kept, Isserlis moments, a normal density."""
    noise, n = 0.05, 400
    value = np.array([0.5, -0.2, 0.3])
    release = nw.measurement(nw.Mean(A * B, A * C, B * C), schema(n=n), value, noise=nw.gaussian_noise(sd=noise))
    posterior = nw.infer(release, STANDARD, draws=2000, seed=int(rng.integers(2**31)), progress=False)
    entries = rng.uniform([-0.1, -0.7, -0.3], [1, 0.4, 0.9], (60_000, 3))
    weights = np.zeros(len(entries))
    for k, r in enumerate(entries):
        if 1 + 2 * np.prod(r) - np.sum(r * r) > 0:
            mean, covariance = isserlis(r)
            spread = covariance / n + noise**2 * np.eye(3)
            gap = value - mean
            weights[k] = np.exp(-0.5 * gap @ np.linalg.solve(spread, gap)) / np.sqrt(np.linalg.det(spread))
    weights /= weights.sum()
    expected = weights @ entries
    sd = np.sqrt(weights @ (entries - expected) ** 2)
    error = sd * np.sqrt(np.sum(weights**2) + 1 / np.min(posterior.ess["correlation"]))
    assert np.all(np.abs(posterior.mean["correlation"] - expected) < 5.5 * error)
    assert np.all(np.abs(posterior.sd["correlation"] / sd - 1) < 0.12)
    assert [label for label, _ in posterior.scalars()] == [
        f"correlation[{i}, {j}]" for i, j in itertools.combinations(NAMES, 2)
    ]


def test_a_release_of_moments_teaches_a_population():
    release = nw.simulate(
        nw.plan(nw.Moments(["a", "b"], "c"), schema(9, n=20_000), guarantee=nw.GaussianDP(8)), STANDARD,
        at={"correlation": [0.6, -0.3, 0.2]}, seed=3,
    )  # fmt: skip
    posterior = nw.infer(release, STANDARD, seed=1, progress=False)
    assert np.all(np.abs(posterior.mean["correlation"] - [0.6, -0.3, 0.2]) < 6 * posterior.sd["correlation"])
    assert np.all(posterior.sd["correlation"] < 0.05)
    shortened = nw.Moments(["a", "b"], "c", shrink=3)
    with pytest.raises(nw.Unsupported, match="shortened"):
        nw.infer(nw.simulate(nw.plan(shortened, schema(4), guarantee=nw.GaussianDP(2)), STANDARD, seed=1), STANDARD)


def test_it_is_written_saved_and_read_again(tmp_path):
    text = population_to_text(STANDARD)
    assert "correlation=lkj(1.0)" in text
    assert population_to_text(population_from_text(text)) == text
    release = nw.measurement(nw.Mean(A * B, A * C, B * C), schema(), [0.5, -0.2, 0.3], noise=nw.gaussian_noise(sd=0.05))
    posterior = nw.infer(release, STANDARD, draws=300, seed=2, progress=False)
    posterior.save(tmp_path / "saved")
    again = nw.Posterior.load(tmp_path / "saved")
    np.testing.assert_array_equal(again.draws["correlation"], posterior.draws["correlation"])
    assert again.summary() == posterior.summary()
    assert "correlation[a, c]" in again.summary()
    assert repr(again.population) == repr(STANDARD)
    told = [one for one in posterior.answers() if one.quantity == "correlation"]
    assert [one.column for one in told] == ["a, b", "a, c", "b, c"]
    assert told[1].estimate == pytest.approx(posterior.mean["correlation"][1])


@pytest.mark.parametrize("eta", [0, -1, float("nan"), float("inf"), True, "1", None, 10**400])
def test_what_is_no_shape_is_refused(eta):
    with pytest.raises(nw.InvalidArgument, match="eta"):
        LKJ(eta)


def test_what_is_no_correlation_matrix_is_refused():
    for entries in ([0.9, 0.9, -0.9], [1.0, 0, 0], [0.1, 0.2]):
        with pytest.raises(nw.InvalidArgument, match="correlation"):
            nw.simulate(
                nw.plan(nw.Mean(A * B), schema(), guarantee=nw.PureDP(1)), STANDARD, at={"correlation": entries}
            )
    with pytest.raises(nw.InvalidArgument, match="LKJ"):
        nw.MultivariateNormal(columns=NAMES, mean=[0] * 3, sd=[1] * 3, correlation=stats.uniform(-1, 2))
    with pytest.raises(nw.InvalidArgument, match="one-dimensional"):
        nw.Normal(mean=LKJ(1), sd=1)


def test_information_counts_every_correlation():
    """Against the closed information of a normal mean: a large n, where the mean's slopes are all there is."""
    n, r = 10**6, [0.3, -0.2, 0.1]
    plan = nw.plan(nw.Mean(A * B, A * C, B * C), schema(8, n=n), guarantee=nw.GaussianDP(1))
    found = nw.information(plan, STANDARD, at={"correlation": r})
    assert found.parameters == ("correlation[a, b]", "correlation[a, c]", "correlation[b, c]")
    _, covariance = isserlis(r)
    expected = np.linalg.inv(covariance / n + np.diag([one.sd**2 for one in plan.noise]))
    np.testing.assert_allclose(found.matrix, expected, rtol=0.02)


@pytest.mark.slow
def test_unknown_correlations_are_calibrated(rng):
    """Ranks of all three correlations, their means and sds unknown, over made-up data sets of 300 records."""
    population = nw.MultivariateNormal(
        columns=NAMES, mean=[stats.norm(0, 1)] * 3, sd=[stats.gamma(16, scale=1 / 16)] * 3, correlation=LKJ(2)
    )
    plan = nw.plan(nw.Moments(["a", "b"], "c"), schema(4, n=300), guarantee=nw.GaussianDP(4))
    trials, ranks = 60, []
    for _ in range(trials):
        theta = population.sample_prior(rng, 1)
        release = nw.simulate(plan, population, at={k: v[0] for k, v in theta.items()}, seed=int(rng.integers(2**31)))
        posterior = nw.infer(release, population, draws=250, seed=int(rng.integers(2**31)), progress=False)
        drawn = posterior.draws["correlation"].reshape(-1, 3)
        ranks.append(np.mean(drawn < theta["correlation"][0], axis=0))
    u = np.array(ranks)
    print("90 % intervals hold", np.mean(np.abs(u - 0.5) < 0.45, axis=0))
    for column in u.T:
        assert stats.kstest(column, "uniform").pvalue > FALSE_ALARM
