"""The estimators inside scikit-learn's own tools: clone, Pipeline, cross_val_score, search, scorers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from moment_releases import SEED
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline

import noisewise as nw
from noisewise.errors import InvalidArgument, NoisewiseError
from noisewise.release import Release

COLUMNS = {
    "age": nw.Bounded(-100, 100), "smoker": nw.Levels(["no", "yes"]), "ill": nw.Levels(["no", "yes"]),
    "visits": nw.Bounded(0, 20), "cost": nw.Bounded(-100, 100),
}  # fmt: skip
SCHEMA = nw.Schema(COLUMNS, n=2000, neighbours="change-one")
FORMULAS = {"linear": "cost ~ age", "logistic": "ill ~ age + smoker", "probit": "ill ~ age + smoker",
            "poisson": "visits ~ age + smoker"}  # fmt: skip
KINDS = {
    "linear": nw.PrivateLinearRegression, "logistic": nw.PrivateLogisticRegression,
    "probit": nw.PrivateProbitRegression, "poisson": nw.PrivatePoissonRegression,
}  # fmt: skip
LAW: dict[str, object] = {"configuration_share": [0.6, 0.4], "number_mean": [[0.0], [0.2]],
                          "number_covariance": [[1.0]]}  # fmt: skip


@pytest.fixture(scope="module")
def releases() -> dict[str, Release]:
    made = {}
    for family, formula in FORMULAS.items():
        model = nw.regression(formula, SCHEMA, family=family)
        moments = nw.Moments.from_formula(formula, SCHEMA, family=family)
        plan = nw.plan(moments, SCHEMA, guarantee=nw.GaussianDP(100))
        truth: dict[str, object] = {"intercept": 0.2, "age": 1.0}
        if family == "linear":
            truth |= {"noise_variance": 1.0, "covariate_mean": [0.0], "covariate_covariance": [[1.0]]}
        else:
            truth |= {"equals(smoker, 'yes')": 0.8} | LAW
        made[family] = nw.simulate(plan, model, at=truth, seed=1)
    return made


def rows(family: str, n: int = 300) -> tuple[Any, Any]:
    """Public rows: (age, smoker) as numbers, and responses of that family."""
    rng = np.random.default_rng([SEED, 5])
    age, smokes = rng.normal(size=n), (rng.random(n) < 0.4).astype(float)
    s = 0.2 + age + 0.8 * smokes
    if family == "linear":
        return age[:, None], 0.2 + age + rng.normal(size=n)
    y = rng.poisson(np.exp(s)) if family == "poisson" else (rng.random(n) < 1 / (1 + np.exp(-s))).astype(int)
    return np.column_stack([age, smokes]), y


def estimator(family: str, **given: Any) -> Any:
    return KINDS[family](formula=FORMULAS[family], seed=1, draws=100, warmup=200, **given)


@pytest.fixture(scope="module")
def fitted(releases: dict[str, Release]) -> dict[str, Any]:
    return {family: estimator(family).fit(releases[family]) for family in FORMULAS}


@pytest.mark.parametrize("family", FORMULAS)
def test_it_learns_from_releases_alone_and_predicts_as_its_model_does(family: str, fitted: dict[str, Any]) -> None:
    found, (X, _) = fitted[family], rows(family)
    assert found.coef_[0] == found.posterior_.mean["age"]
    means = found.model_.predict_mean(found.posterior_, X)
    if is_classifier(found):
        np.testing.assert_allclose(found.predict_proba(X), np.column_stack([1 - means, means]))
        np.testing.assert_array_equal(found.predict(X), means > 0.5)
        np.testing.assert_array_equal(found.classes_, [0, 1])
    else:
        assert is_regressor(found)
        np.testing.assert_allclose(found.predict(X), means)


@pytest.mark.parametrize("family", FORMULAS)
def test_clone_keeps_parameters_and_forgets_what_was_learnt(family: str, fitted: dict[str, Any]) -> None:
    copy = clone(fitted[family])
    assert copy.get_params() == fitted[family].get_params()
    with pytest.raises(NoisewiseError, match="learnt nothing"):
        copy.predict(rows(family)[0])


@pytest.mark.parametrize("family", FORMULAS)
def test_scores_are_those_of_scikit_learn(family: str, fitted: dict[str, Any]) -> None:
    found, (X, y) = fitted[family], rows(family)
    if family == "linear":
        expected = r2_score(y, found.predict(X))
    elif family == "poisson":
        theirs = PoissonRegressor()  # its score, with our coefficients in it
        theirs.fit(X, y)
        theirs.coef_, theirs.intercept_ = found.coef_, found.intercept_
        ratio = found.predict(X) / theirs.predict(X)
        assert np.abs(np.log(ratio)).max() < 0.2  # E exp(s) against exp(E s)
        assert found.score(X, y) == pytest.approx(theirs.score(X, y), abs=0.05)
        return
    else:
        expected = accuracy_score(y, found.predict(X))
    assert found.score(X, y) == pytest.approx(expected)


def test_a_cross_validation_scores_public_rows_and_learns_nothing_from_them(releases: dict[str, Release]) -> None:
    X, y = rows("logistic")
    given = estimator("logistic", releases=releases["logistic"])
    scores = cross_val_score(given, X, y, cv=3)
    assert scores.shape == (3,)
    assert scores.min() > 0.5
    upside_down = cross_val_score(given, X, 1 - y, cv=3)  # a model that had learnt from y would follow it
    assert np.mean(upside_down) == pytest.approx(1 - np.mean(scores))
    assert cross_val_score(given, X, y, cv=2, scoring="roc_auc").min() > 0.5
    assert cross_val_score(given, X, y, cv=2, scoring="neg_log_loss").max() < 0


def test_a_pipeline_hands_over_columns(releases: dict[str, Release]) -> None:
    X, y = rows("logistic")
    wide = np.column_stack([np.zeros(len(X)), X])
    select = ColumnTransformer([("kept", "passthrough", [1, 2])])
    pipe = Pipeline([("select", select), ("model", estimator("logistic", releases=releases["logistic"]))])
    pipe.fit(wide, y)
    np.testing.assert_allclose(pipe.predict_proba(wide), pipe.named_steps["model"].predict_proba(X))
    assert pipe.score(wide, y) > 0.5
    pipe.set_params(model__draws=50)
    assert pipe.get_params()["model__draws"] == 50


def test_a_search_over_beliefs_runs(releases: dict[str, Release]) -> None:
    from scipy import stats

    X, y = rows("linear")
    grid = {"coefficients": [stats.norm(0, 1), stats.norm(0, 1e-3)]}
    search = GridSearchCV(estimator("linear", releases=releases["linear"]), grid, cv=2).fit(X, y)
    assert search.best_index_ == 0
    assert search.best_estimator_.coefficients.args == (0, 1)


def test_bad_use_is_explained(releases: dict[str, Release], fitted: dict[str, Any]) -> None:
    X, y = rows("logistic")
    with pytest.raises(InvalidArgument, match="releases="):
        cross_val_score(estimator("logistic"), X, y, cv=2, error_score="raise")
    with pytest.raises(InvalidArgument, match="no releases"):
        estimator("logistic").fit()
    with pytest.raises(InvalidArgument, match="0 and 1"):
        fitted["logistic"].score(X, y + 1)
    with pytest.raises(InvalidArgument, match="0 and 1"):
        fitted["logistic"].score(X, np.where(y == 1, "yes", "no"))
    with pytest.raises(InvalidArgument, match="not both"):
        nw.PrivateLogisticRegression(["age"], formula="ill ~ age").fit(releases["logistic"])
    with pytest.raises(InvalidArgument, match="not a LogisticRegression"):
        nw.PrivateLogisticRegression(model=nw.LinearRegression(["age"], "cost")).fit(releases["linear"])
    with pytest.raises(InvalidArgument, match="not a parameter"):
        nw.PrivateLogisticRegression(["age"], "ill").set_params(noise=1)


def test_it_never_imports_scikit_learn_itself() -> None:
    import subprocess
    import sys

    code = "import sys, noisewise as nw; nw.PrivateLogisticRegression(['age'], 'ill').get_params(); " \
           "print('sklearn' in sys.modules)"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
