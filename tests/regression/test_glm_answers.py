"""Average marginal effects against records moved one by one, and predicted probabilities against what happened."""

from __future__ import annotations

import numpy as np
import pytest
from moment_releases import SEED
from scipy import stats
from scipy.special import expit

import noisewise as nw
from noisewise.errors import InvalidArgument
from noisewise.inference.posterior import Posterior
from noisewise.regression.glm.marginal_effects import effect_draws
from noisewise.statistics.evaluation import evaluated

SCHEMA = nw.Schema(
    {
        "age": nw.Bounded(-100, 100), "smoker": nw.Levels(["no", "yes"]), "region": nw.Levels(["a", "b", "c"]),
        "ill": nw.Levels(["no", "yes"]), "visits": nw.Bounded(0, 200),
    },
    n=3000, neighbours="change-one",
)  # fmt: skip
RIGHT = "age*smoker + region"
TRUTH = {
    "intercept": -0.3, "age": 0.4, "equals(smoker, 'yes')": 0.8, "equals(region, 'b')": -0.5,
    "equals(region, 'c')": 0.3, "age*equals(smoker, 'yes')": -0.3,
}  # fmt: skip


def learnt(family: str) -> tuple[nw.LogisticRegression, Posterior]:
    formula = f"{'visits' if family == 'poisson' else 'ill'} ~ {RIGHT}"
    model = nw.regression(formula, SCHEMA, family=family)
    rng = np.random.default_rng([SEED, 1])
    law = {"configuration_share": rng.dirichlet([5.0] * 6), "number_mean": rng.normal(0, 0.5, (6, 1)),
           "number_covariance": [[1.5]]}  # fmt: skip
    plan = nw.plan(nw.Moments.from_formula(formula, SCHEMA, family=family), SCHEMA, guarantee=nw.GaussianDP(30))
    release = nw.simulate(plan, model, at=TRUTH | law, seed=1)  # type: ignore[arg-type]
    return model, nw.infer(release, model, seed=1, draws=40, progress=False)  # type: ignore[return-value]


@pytest.fixture(scope="module")
def logistic() -> tuple[nw.LogisticRegression, Posterior]:
    return learnt("logistic")


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_effects_are_those_of_records_that_are_moved_one_by_one(family: str) -> None:
    """At one draw of the posterior: simulated records, a column of which is changed, through the features themselves.

    Six standard errors of a paired mean for each of four effects.
    """
    model, posterior = learnt(family)
    found, left_out = effect_draws(model, posterior)
    assert not left_out
    assert list(found) == ["age", "equals(smoker, 'yes')", "equals(region, 'b')", "equals(region, 'c')"]
    theta = {name: np.asarray(value).reshape(-1, *np.shape(value)[2:])[7] for name, value in posterior.draws.items()}
    made, rng, n = model.configurations([SCHEMA]), np.random.default_rng([SEED, 2]), 200_000
    which = rng.choice(made.count, n, p=theta["configuration_share"])
    on = {str(condition): made.states[which, k] for k, condition in enumerate(made.conditions)}
    records = {
        "age": theta["number_mean"][which, 0] + np.sqrt(theta["number_covariance"][0, 0]) * rng.standard_normal(n),
        "smoker": on["equals(smoker, 'yes')"],
        "region": on["equals(region, 'b')"] + 2 * on["equals(region, 'c')"],
    }

    def mean_at(**changed: np.ndarray | float) -> np.ndarray:
        columns = records | {name: np.broadcast_to(value, n) for name, value in changed.items()}
        f = evaluated(model.features, columns, SCHEMA)
        s = theta["intercept"] + sum(theta[str(name)] * f[k] for k, name in enumerate(model.features))
        return np.asarray(np.exp(s) if family == "poisson" else expit(s))

    h = 1e-4
    differences = {
        "age": (mean_at(age=records["age"] + h) - mean_at(age=records["age"] - h)) / (2 * h),
        "equals(smoker, 'yes')": mean_at(smoker=1.0) - mean_at(smoker=0.0),
        "equals(region, 'b')": mean_at(region=1.0) - mean_at(region=0.0),
        "equals(region, 'c')": mean_at(region=2.0) - mean_at(region=0.0),
    }
    for name, moved in differences.items():
        assert found[name][7] == pytest.approx(moved.mean(), abs=6 * moved.std() / np.sqrt(n) + 1e-7), name


def test_the_table_of_effects_has_intervals(logistic: tuple[nw.LogisticRegression, Posterior]) -> None:
    model, posterior = logistic
    effects, (draws, _) = model.marginal_effects(posterior, level=0.8), effect_draws(model, posterior)
    assert effects.features == tuple(draws)
    np.testing.assert_allclose(effects.low, [np.quantile(value, 0.1) for value in draws.values()])
    assert "average change of the probability" in str(effects)


def test_what_does_not_move_alone_is_left_out_and_said_so() -> None:
    age, ill = nw.column("age"), nw.column("ill").equals("yes")
    model = nw.LogisticRegression([age, age**2, nw.column("smoker").equals("yes")], ill)
    plan = nw.plan(nw.Moments(model.features, ill, parts=["xx", "xy"]), SCHEMA, guarantee=nw.GaussianDP(5))
    at = {"intercept": 0, "age": 0.1, "age**2": 0.0, "equals(smoker, 'yes')": 0.5, "configuration_share": [0.5, 0.5],
          "number_mean": [[0, 1.0]] * 2, "number_covariance": [[1, 0], [0, 2.0]]}  # fmt: skip
    posterior = nw.infer(nw.simulate(plan, model, at=at, seed=1), model, seed=1, draws=20, progress=False)
    effects = model.marginal_effects(posterior)
    assert effects.features == ("equals(smoker, 'yes')",)
    assert "age does not move without age**2" in str(effects)


# ---- predicted probabilities and what happened ----


def test_bins_hold_the_rows_in_the_order_of_their_predictions(
    logistic: tuple[nw.LogisticRegression, Posterior],
) -> None:
    model, posterior = logistic
    rng = np.random.default_rng([SEED, 3])
    X = np.column_stack([rng.normal(size=400), *np.zeros((4, 400))])
    predicted = model.predict(posterior, X)
    y = (rng.random(400) < predicted.mean).astype(int)
    table = predicted.calibration(y, bins=4)
    order = np.argsort(predicted.mean)
    np.testing.assert_array_equal(table.count, [100] * 4)
    np.testing.assert_allclose(table.predicted, [predicted.mean[order[k : k + 100]].mean() for k in range(0, 400, 100)])
    np.testing.assert_allclose(table.observed, [y[order[k : k + 100]].mean() for k in range(0, 400, 100)])
    yes = round(table.observed[0] * 100)
    ends = stats.binomtest(yes, 100).proportion_ci(0.9, "wilson")
    assert (table.observed_low[0], table.observed_high[0]) == (pytest.approx(ends.low), pytest.approx(ends.high))
    assert table.plot()[:4] == b"\x89PNG"
    assert "observed" in str(table)


def test_true_probabilities_have_no_sampling_error(logistic: tuple[nw.LogisticRegression, Posterior]) -> None:
    model, posterior = logistic
    X = np.column_stack([np.linspace(-2, 2, 50), *np.zeros((4, 50))])
    truth = expit(TRUTH["intercept"] + TRUTH["age"] * X[:, 0])
    table = model.predict(posterior, X).calibration(truth, bins=5)
    np.testing.assert_array_equal(table.observed_low, table.observed_high)
    assert np.all(np.diff(table.observed) > 0)


def test_bad_comparisons_are_explained(logistic: tuple[nw.LogisticRegression, Posterior]) -> None:
    model, posterior = logistic
    X = np.zeros((3, 5))
    with pytest.raises(InvalidArgument, match="3 numbers"):
        model.predict(posterior, X).calibration([1, 0])
    with pytest.raises(InvalidArgument, match="y == 'yes'"):
        model.predict(posterior, X).calibration(["yes", "no", "yes"])
    with pytest.raises(InvalidArgument, match="kind='mean'"):
        model.predict(posterior, X, kind="response").calibration([0, 1, 1])
    with pytest.raises(InvalidArgument, match="bins"):
        model.predict(posterior, X).calibration([0, 1, 1], bins=0)
    other = nw.LogisticRegression(["age"], nw.column("ill").equals("yes"))
    with pytest.raises(InvalidArgument, match="differ in features"):
        other.marginal_effects(posterior)
