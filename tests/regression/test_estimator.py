"""The scikit-learn style wrapper: it fits releases, and keeps scikit-learn's conventions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from moment_releases import SEED, exact_release, health_schema, records
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.release import Release

FEATURES = ["age", "bmi"]
N = 200
X = [[30, 20], [60, 30]]


@pytest.fixture(scope="module")
def release() -> Release:
    plan = nw.plan(nw.Moments(FEATURES, "cost"), health_schema(N), guarantee=nw.PureDP(10**6))
    return exact_release(plan, records(np.random.default_rng([SEED, 1]), N))


def test_it_fits_releases_and_predicts_as_the_model_does(release: Release) -> None:
    estimator = nw.PrivateLinearRegression(FEATURES, "cost", method="naive", seed=SEED + 1, draws=500)
    assert estimator.fit(release) is estimator
    model = nw.LinearRegression(FEATURES, "cost")
    posterior = model.posterior(release, method="naive", seed=SEED + 1, draws=500)
    np.testing.assert_array_equal(estimator.coef_, [posterior.mean[name] for name in FEATURES])
    assert estimator.intercept_ == posterior.mean["intercept"]
    mean, sd = estimator.predict(X, return_std=True)
    expected = model.predict(posterior, X)
    np.testing.assert_allclose(mean, expected.mean)
    np.testing.assert_allclose(sd, expected.sd)
    np.testing.assert_allclose(estimator.predict(X), estimator.intercept_ + np.array(X) @ estimator.coef_)
    assert estimator.n_features_in_ == 2
    assert list(estimator.feature_names_in_) == FEATURES


def test_a_model_can_be_given_instead(release: Release) -> None:
    model = nw.LinearRegression(FEATURES, "cost")
    estimator = nw.PrivateLinearRegression(model=model, method="naive", seed=SEED + 1, draws=100).fit([release])
    assert estimator.model_ is model


def test_parameters_are_kept_as_given_and_can_be_changed() -> None:
    estimator = nw.PrivateLinearRegression(FEATURES, "cost", draws=7)
    params = estimator.get_params()
    assert (params["features"], params["draws"], params["method"]) == (FEATURES, 7, "auto")
    assert params["features"] is FEATURES
    copy = nw.PrivateLinearRegression(**params)
    assert copy.get_params() == params
    assert estimator.set_params(draws=9, method="naive") is estimator
    assert (estimator.draws, estimator.method) == (9, "naive")
    with pytest.raises(InvalidArgument, match="not a parameter"):
        estimator.set_params(depth=3)
    assert repr(copy) == "PrivateLinearRegression(features=['age', 'bmi'], response='cost', draws=7)"


def test_bad_use_is_explained(release: Release) -> None:
    with pytest.raises(NoisewiseError, match="fit"):
        nw.PrivateLinearRegression(FEATURES, "cost").predict(X)
    with pytest.raises(InvalidArgument, match="features and response"):
        nw.PrivateLinearRegression().fit(release)
    with pytest.raises(InvalidArgument, match="not both"):
        nw.PrivateLinearRegression(FEATURES, "cost", model=nw.LinearRegression(FEATURES, "cost")).fit(release)
    with pytest.raises(InvalidArgument, match="leave y out"):
        nw.PrivateLinearRegression(FEATURES, "cost").fit(release, [1, 2])  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="LinearRegression"):
        nw.PrivateLinearRegression(model="ols").fit(release)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [("intercept", False), ("coefficients", stats.norm(0, 1)), ("noise", stats.invgamma(2)), ("covariates", "released"),
     ("prior", nw.NormalInverseGamma(0, 1, 1, 1)), ("coefficients", np.ones(3))],
    ids=["intercept", "coefficients", "noise", "covariates", "prior", "an-array"],
)  # fmt: skip
def test_what_would_be_ignored_beside_a_model_is_refused(name: str, value: Any, release: Release) -> None:
    model = nw.LinearRegression(FEATURES, "cost")
    with pytest.raises(InvalidArgument, match=f"LinearRegression\\(features, response, {name}=") as error:
        nw.PrivateLinearRegression(model=model, **{name: value}).fit(release)
    assert error.value.argument == name


def test_a_model_goes_with_parameters_that_say_nothing_of_their_own(release: Release) -> None:
    model = nw.LinearRegression(FEATURES, "cost", intercept=True)
    given = nw.PrivateLinearRegression(model=model, intercept=True, noise=None, method="naive", draws=10)
    assert given.fit(release).model_ is model


def test_it_prints_arrays_too() -> None:
    names = np.array(FEATURES)
    shown = repr(nw.PrivateLinearRegression(names, "cost", n=np.array([3, 4])))
    assert shown == f"PrivateLinearRegression(features={names!r}, response='cost', n=array([3, 4]))"
    assert repr(nw.PrivateLinearRegression(method="auto", draws=10**3)) == "PrivateLinearRegression()"
    assert "coefficients=array" in repr(nw.PrivateLinearRegression(coefficients=np.array([None, None])))


def test_without_a_predictive_sd_it_says_what_it_can_do(release: Release) -> None:
    """The sentence names only what the estimator has."""
    estimator = nw.PrivateLinearRegression(FEATURES, "cost", method="fixed-s-fast", seed=SEED, draws=50).fit(release)
    with pytest.raises(Unsupported, match="Leave return_std out, or fit by method='marginal'") as error:
        estimator.predict(X, return_std=True)
    assert "kind" not in str(error.value)
    np.testing.assert_allclose(estimator.predict(X), estimator.intercept_ + np.array(X) @ estimator.coef_)


def test_a_point_estimate_has_no_predictive_sd_either() -> None:
    made = records(np.random.default_rng([SEED, 2]), N)
    centre = {"age": 45, "bmi": 26}
    releases = [
        exact_release(nw.plan(statistic, health_schema(N), guarantee=nw.PureDP(10**6)), made)
        for statistic in (
            nw.Moments(FEATURES, "cost", intercept=False, centre={**centre, "cost": 180}),
            nw.SmallestEigenvalue(FEATURES, shrink=100, centre=centre),
        )
    ]
    estimator = nw.PrivateLinearRegression(FEATURES, "cost", intercept=False, method="adassp").fit(releases)
    with pytest.raises(Unsupported, match="Leave return_std out"):
        estimator.predict(X, return_std=True)
    assert np.isfinite(estimator.predict(X)).all()
