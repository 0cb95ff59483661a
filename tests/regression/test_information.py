"""The information of a plan about a regression, and the choice among plans that rests on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from moment_releases import SEED
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.inference.posterior import Posterior

BELIEFS: dict[str, Any] = {
    "prior": nw.NormalInverseGamma(mean=0, precision=1, shape=3, rate=2),
    "covariates": nw.NormalCovariates(location=0, strength=1, scale=4, degrees=4),
}


def schema(n: int = 400, bound: float = 30.0) -> nw.Schema:
    return nw.Schema({"a": nw.Bounded(-bound, bound), "y": nw.Bounded(-2 * bound, 2 * bound)}, n=n,
                     neighbours="change-one")  # fmt: skip


def plan(guarantee: Any = None, n: int = 400, bound: float = 30.0, **options: Any) -> nw.Plan:
    return nw.plan(nw.Moments("a", "y", **options), schema(n, bound), guarantee=guarantee or nw.GaussianDP(1))


def moments(beta: float, noise: float, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of (x^2, x y, y^2), written out for x ~ N(0, spread), y = beta x + e."""
    s, c, v = spread, beta * spread, beta**2 * spread + noise
    mean = np.array([s, c, v])
    return mean, np.array([[2 * s**2, 2 * s * c, 2 * c**2], [2 * s * c, s * v + c**2, 2 * c * v],
                           [2 * c**2, 2 * c * v, 2 * v**2]])  # fmt: skip


def test_it_is_the_variance_of_the_score_with_the_covariates_spread_unknown() -> None:
    """Oracle: scipy's normal density of simulated releases, differentiated numerically, d = 1 without intercept."""
    made = plan(intercept=False)
    model = nw.LinearRegression("a", "y", intercept=False, **BELIEFS)
    at = np.array([0.7, 1.5, 2.0])  # beta, noise variance, spread
    noise = np.square(made.law.sd)

    def log_density(y: np.ndarray, point: np.ndarray) -> np.ndarray:
        mean, covariance = moments(*point)
        return stats.multivariate_normal(400 * mean, 400 * covariance + np.diag(noise)).logpdf(y)

    rng = np.random.default_rng([SEED, 1])
    mean, covariance = moments(*at)
    count = 100_000
    y = rng.multivariate_normal(400 * mean, 400 * covariance + np.diag(noise), count)
    steps = 1e-4 * np.eye(3)
    score = np.stack([(log_density(y, at + h) - log_density(y, at - h)) / 2e-4 for h in steps], axis=1)
    full = score.T @ score / count
    full[2, 2] += 0.5 * 4 / at[2] ** 2  # the curvature of the inverse Wishart prior: degrees/2 (1/spread)^2
    expected = full[:2, :2] - np.outer(full[:2, 2], full[2, :2]) / full[2, 2]
    found = nw.information(made, model, at={"a": at[0], "noise_variance": at[1], "covariate_mean": [0.0],
                                            "covariate_covariance": [[at[2]]]})  # fmt: skip
    assert found.parameters == ("a", "noise_variance")
    np.testing.assert_allclose(found.value, expected, rtol=5.6 * np.sqrt(10 / count))


def test_laplace_noise_tells_more_than_gaussian_noise_of_its_variance_about_twice_at_most() -> None:
    model = nw.LinearRegression("a", "y", **BELIEFS)
    at = {"intercept": 0.2, "a": 0.7, "noise_variance": 1.5}
    laplace = plan(nw.PureDP(1))
    found = nw.information(laplace, model, at=at, seed=SEED + 1, draws=2000)
    engine = model.information_engine(laplace)
    engine.is_laplace = False
    gauss = engine.rows(model.theta_at(at))[0][0]
    assert (np.diag(found.value) > np.diag(gauss) * (1 - 1e-3)).all()
    assert (
        np.diag(found.value) < 2.2 * np.diag(gauss)
    ).all()  # twice for each sum; the covariates are learnt better, too


def test_with_next_to_no_noise_it_is_the_information_of_the_records() -> None:
    """n E[x x']/sigma^2 for beta, n/(2 sigma^4) for the noise variance."""
    model = nw.LinearRegression("a", "y", **BELIEFS)
    at = {"intercept": 0.2, "a": 0.7, "noise_variance": 1.5, "covariate_mean": [0.5], "covariate_covariance": [[2.0]]}
    n = 10**5  # the normal law of the sums adds information of order 1, which n must drown
    found = nw.information(plan(nw.GaussianDP(10**7), n=n), model, at=at)
    expected = np.zeros((3, 3))
    expected[:2, :2] = n * np.array([[1, 0.5], [0.5, 2.25]]) / 1.5
    expected[2, 2] = n / (2 * 1.5**2)
    np.testing.assert_allclose(found.value, expected, rtol=2e-3, atol=1e-3 * n)


def test_shortened_rows_and_public_scales_are_ranked_by_what_they_tell() -> None:
    model = nw.LinearRegression("a", "y", **BELIEFS)
    plans = [plan(), plan(shrink=6), plan(shrink=0.5)]
    choice = nw.choose(plans, model, score="gain", draws=16, progress=False)
    assert choice.winner is plans[1]  # the bounds are far wider than the rows, and half a unit far narrower


def test_a_posterior_chooses_the_next_release() -> None:
    """Two-stage selection: the first release's posterior, covariates and all, is what plans are judged under."""
    model = nw.LinearRegression("a", "y", **BELIEFS)
    first = nw.simulate(plan(nw.GaussianDP(2)), model, seed=SEED + 3)
    posterior = nw.infer(first, model, method="exact-gibbs", seed=SEED, draws=200, chains=2)
    assert isinstance(posterior, Posterior)
    plans = [plan(), plan(shrink=8)]
    choice = nw.choose(plans, posterior, score="a", draws=16, progress=False)
    assert choice.winner is plans[1]


def test_predicted_and_actual_spread_agree_where_there_is_data() -> None:
    """1/sqrt(F + prior precision) against the posterior's sd of the slope, averaged over releases at one truth."""
    model = nw.LinearRegression("a", "y", **BELIEFS)
    at = {"intercept": 0.0, "a": 1.0, "noise_variance": 1.0, "covariate_mean": [0.0], "covariate_covariance": [[4.0]]}
    made = plan(nw.GaussianDP(20), n=2000, bound=12)
    matrix = np.asarray(nw.information(made, model, at=at).value)
    predicted = np.sqrt(np.linalg.inv(matrix + np.diag([1.0, 1.0, 1.0]))[1, 1])
    releases = [nw.simulate(made, model, at=at, seed=SEED + k) for k in range(4)]
    sds = [nw.infer(one, model, method="exact-gibbs", seed=SEED, draws=500, chains=2).sd["a"] for one in releases]
    assert np.mean(sds) == pytest.approx(predicted, rel=0.1)


def test_what_cannot_be_judged_is_refused() -> None:
    model = nw.LinearRegression("a", "y", **BELIEFS)
    with pytest.raises(Unsupported, match="Moments"):
        nw.information(nw.plan(nw.Mean("a"), schema(), guarantee=nw.PureDP(1)), model)
    with pytest.raises(InvalidArgument, match="default prior"):
        nw.choose([plan()], nw.LinearRegression("a", "y"), progress=False)
    with pytest.raises(Unsupported, match="clamped or shortened"):
        nw.information(plan(bound=0.5, average=4), model, at={"intercept": 0, "a": 1, "noise_variance": 1})


@pytest.mark.parametrize(("n", "epsilon"), [(100, 0.1), (100, 10), (10**4, 0.1), (10**4, 1), (10**4, 10)])
def test_laplace_noise_matched_sum_by_sum_tells_what_simulation_says(n: int, epsilon: float) -> None:
    """Every direction's information within 15 %: 3 % were seen, and simulation's own error is below 2 %."""
    model = nw.LinearRegression("a", "y", **BELIEFS)
    theta = model.theta_at({"intercept": 0.2, "a": 0.7, "noise_variance": 1.5})
    made = plan(nw.PureDP(epsilon), n=n, bound=5)
    matched, error = model.information_engine(made).rows(theta)
    assert not error.any()
    simulated, _ = model.information_engine(made, method="monte-carlo", seed=SEED, draws=3000).rows(theta)
    root = np.linalg.inv(np.linalg.cholesky(simulated[0]))
    ratios = np.linalg.eigvalsh(root @ matched[0] @ root.T)
    assert 0.85 < ratios.min() <= ratios.max() < 1.15


def test_matched_noise_is_exact_for_one_sum() -> None:
    """One noisy sum: the information about its centre, by quadrature of the score of normal plus Laplace."""
    from noisewise.design.laplace_vector import matched_variance

    for sd, b in ((0.1, 1.0), (1.0, 1.0), (30.0, 2.0)):
        x = np.linspace(-60 * b - 12 * sd, 60 * b + 12 * sd, 400_001)
        density = _normal_plus_laplace(x, sd, b)
        slope = np.gradient(density, x)
        told = np.trapezoid(np.where(density > 1e-290, slope**2 / np.maximum(density, 1e-290), 0), x)
        found = float(matched_variance(np.array([[[sd**2]]]), np.array([b]))[0, 0])
        assert 1 / (sd**2 + found) == pytest.approx(told, rel=1e-4)


def _normal_plus_laplace(x: np.ndarray, sd: float, b: float) -> np.ndarray:
    from scipy.special import log_ndtr

    sides = [r + log_ndtr(z) for r, z in ((x / b, -x / sd - sd / b), (-x / b, x / sd - sd / b))]
    return np.asarray(np.exp(sd**2 / (2 * b**2) + np.logaddexp(*sides)) / (2 * b))


# ---- yes/no responses ----

YES_NO = nw.Schema({"x": nw.Levels(["no", "yes"]), "y": nw.Levels(["no", "yes"])}, n=500, neighbours="change-one")


def logistic_plan(guarantee: Any) -> nw.Plan:
    return nw.plan(nw.Moments.from_formula("y ~ x", YES_NO, family="logistic"), YES_NO, guarantee=guarantee)


def test_of_a_logistic_regression_it_is_that_of_four_cells() -> None:
    """Oracle: shares and covariances of (x, y, x y) by enumeration, slopes by differences, the normal formula by hand.

    The share of x is unknown, with the prior that is stated for its log odds: sd DIRECTION_SD.
    """
    from noisewise.regression.location import DIRECTION_SD

    made = logistic_plan(nw.GaussianDP(1))
    model = nw.regression("y ~ x", YES_NO, family="logistic")
    pairs = made.statistic.pairs(YES_NO)  # type: ignore[attr-defined]

    def law(point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        b0, b1, h = point
        p = 1 / (1 + np.exp(-h))
        rows, weights = [], []
        for x in (0, 1):
            q = 1 / (1 + np.exp(-b0 - b1 * x))
            for y in (0, 1):
                w = (1, x, y)
                rows.append([w[i] * w[j] for i, j in pairs])
                weights.append((p if x else 1 - p) * (q if y else 1 - q))
        table, each = np.array(rows, float), np.array(weights)
        mean = each @ table
        return 500 * mean, 500 * ((table - mean).T * each) @ (table - mean) + np.diag(np.square(made.law.sd))

    at = np.array([-0.4, 0.9, np.log(0.3 / 0.7)])
    inverse = np.linalg.inv(law(at)[1])
    slopes = [[(a - b) / 2e-5 for a, b in zip(law(at + h), law(at - h), strict=True)] for h in 1e-5 * np.eye(3)]
    full = np.array([[m @ inverse @ k + np.trace(inverse @ c @ inverse @ d) / 2 for k, d in slopes] for m, c in slopes])
    full[2, 2] += DIRECTION_SD**-2
    expected = full[:2, :2] - np.outer(full[:2, 2], full[2, :2]) / full[2, 2]
    told = nw.information(
        made, model, at={"intercept": at[0], "equals(x, 'yes')": at[1], "configuration_share": [0.7, 0.3]}
    )
    np.testing.assert_allclose(told.value, expected, rtol=1e-5)


@pytest.mark.parametrize("guarantee", [nw.GaussianDP(2), nw.PureDP(4)], ids=["gaussian", "laplace"])
def test_the_spread_that_is_predicted_for_a_logistic_regression_is_the_posteriors(guarantee: Any) -> None:
    model = nw.regression("y ~ x", YES_NO, family="logistic", coefficients=stats.norm(0, 2))
    made = logistic_plan(guarantee)
    at = {"intercept": -0.4, "equals(x, 'yes')": 0.9, "configuration_share": [0.6, 0.4]}
    matrix = np.asarray(nw.information(made, model, at=at).value)
    predicted = np.sqrt(np.linalg.inv(matrix + np.eye(2) / 4)[1, 1])
    found = nw.infer(nw.simulate(made, model, at=at, seed=1), model, seed=1, draws=500, progress=False)
    assert found.sd["equals(x, 'yes')"] == pytest.approx(predicted, rel=0.3)


def test_plans_of_a_logistic_regression_are_ranked_and_priced() -> None:
    schemas = [
        nw.Schema({"a": nw.Bounded(-bound, bound), "y": nw.Levels(["no", "yes"])}, n=1000, neighbours="change-one")
        for bound in (6, 60)
    ]
    covariates = nw.NormalCovariates(location=0, strength=1, scale=4, degrees=4)
    model = nw.regression("y ~ a", schemas[0], family="logistic", coefficients=stats.norm(0, 1), covariates=covariates)
    for guarantee in (nw.GaussianDP(1), nw.PureDP(1)):
        plans = [
            nw.plan(nw.Moments.from_formula("y ~ a", one, family="logistic"), one, guarantee=guarantee)
            for one in schemas
        ]
        choice = nw.choose(plans, model, score="a", draws=8, progress=False)
        assert choice.winner is plans[0]
        assert choice.ranking[0].standard_error == 0
    wide = nw.epsilon_for(plans[1].statistic, model, schemas[1], sd={"a": 0.3}, draws=8, progress=False)
    narrow = nw.epsilon_for(plans[0].statistic, model, schemas[0], sd={"a": 0.3}, draws=8, progress=False)
    assert narrow.parts[0] < wide.parts[0]
