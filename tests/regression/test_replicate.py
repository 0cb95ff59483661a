"""Simulated releases of a regression, the check and the confidential moments that rest on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from moment_releases import SEED, noisy_release
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.likelihood.simulate import simulate_values
from noisewise.regression import replicate
from noisewise.regression.confidential import MomentsLaw
from noisewise.regression.row_law import RowLaw

ALARM = 1e-6
SHORT: dict[str, Any] = {"method": "exact-gibbs", "seed": SEED, "draws": 300, "warmup": 300, "chains": 2}
BELIEFS: dict[str, Any] = {
    "prior": nw.NormalInverseGamma(mean=0, precision=1, shape=3, rate=2),
    "covariates": nw.NormalCovariates(location=[0, 0], strength=2, scale=[3, 3], degrees=6),
}
MODEL = nw.LinearRegression(["a", "b"], "y", **BELIEFS)
AT = {"intercept": 0.3, "a": 1.0, "b": -0.5, "noise_variance": 0.25, "covariate_mean": [0.2, -0.4],
      "covariate_covariance": [[1.0, 0.3], [0.3, 0.5]]}  # fmt: skip
# The same law of (a, b, y), written as a population: mean, sd and correlation of the joint normal.
JOINT_MEAN = [0.2, -0.4, 0.3 + 0.2 + 0.2]
JOINT_COVARIANCE = np.array([[1.0, 0.3, 0.85], [0.3, 0.5, 0.05], [0.85, 0.05, 0.85 - 0.025 + 0.25]])


def population() -> nw.MultivariateNormal:
    sd = np.sqrt(np.diag(JOINT_COVARIANCE))
    return nw.MultivariateNormal(columns=["a", "b", "y"], mean=JOINT_MEAN, sd=list(sd),
                                 correlation=JOINT_COVARIANCE / np.outer(sd, sd))  # fmt: skip


def plan(n: int = 50, *, bound: float = 20.0, neighbours: str = "change-one", outside: str = "clamp",
         **options: Any) -> nw.Plan:  # fmt: skip
    columns = {name: nw.Bounded(-bound, bound) for name in ("a", "b", "y")}
    size = {"n": n} if neighbours == "change-one" else {"n_max": 10 * n}
    schema = nw.Schema(columns, neighbours=neighbours, outside=outside, **size)
    return nw.plan(nw.Moments(["a", "b"], "y", **options), schema, guarantee=nw.GaussianDP(1000))


def theta(count: int) -> dict[str, Any]:
    return {name: np.repeat(value, count, axis=0) for name, value in MODEL.theta_at(AT).items()}


def same_law(one: Any, other: Any) -> float:
    """The smallest p-value that two samples of vectors are one law: each component, and each product of two."""
    one, other = np.asarray(one, float), np.asarray(other, float)
    centre, scale = other.mean(axis=0), other.std(axis=0)
    (u, v) = ((sample - centre) / scale for sample in (one, other))
    p_values = [stats.ks_2samp(u[:, k], v[:, k]).pvalue for k in range(u.shape[1])]
    pairs = [(i, j) for i in range(u.shape[1]) for j in range(i)]
    p_values += [stats.ttest_ind(u[:, i] * u[:, j], v[:, i] * v[:, j], equal_var=False).pvalue for i, j in pairs]
    return min(p_values) * len(p_values)


VARIANTS: dict[str, dict[str, Any]] = {
    "rows": {"n": 50},
    "centred and scaled": {"n": 50, "centre": {"a": 1, "y": 2}, "scale": {"b": 3, "y": 0.5}},
    "clamped": {"n": 50, "bound": 1.5},
    "shortened": {"n": 50, "shrink": 1.2},
    "averaged": {"n": 60, "average": 3},
    "fourth": {"n": 20, "fourth": True},
    "parts": {"n": 50, "parts": ["xy"]},
    "wishart": {"n": 3000},
    "averaged wishart": {"n": 9000, "average": 3},
    "normal": {"n": 4000, "shrink": 1.2},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_simulates_what_records_would_give(variant: str) -> None:
    """Oracle: records drawn from the same normal law of the columns, and the statistic's own arithmetic on them."""
    made = plan(**VARIANTS[variant])
    rng = np.random.default_rng([SEED, 1])
    count = 300 if made.schema.n > 1000 else 1500
    ours = MODEL.simulate_values(rng, made, theta(count))
    theirs = simulate_values(rng, made, population(), {"none": np.zeros(count)})
    assert same_law(ours, theirs) > ALARM


def test_the_comparison_would_notice_a_wrong_coefficient() -> None:
    made = plan(n=50)
    rng = np.random.default_rng([SEED, 2])
    wrong = theta(1500)
    wrong["b"] = wrong["b"] + 0.1
    theirs = simulate_values(rng, made, population(), {"none": np.zeros(1500)})
    assert same_law(MODEL.simulate_values(rng, made, wrong), theirs) < ALARM


def test_refused_records_are_drawn_again() -> None:
    """Oracle: rejection, record by record."""
    made = plan(n=30, bound=1.5, outside="refuse")
    rng = np.random.default_rng([SEED, 3])
    kept = rng.multivariate_normal(JOINT_MEAN, JOINT_COVARIANCE, 200_000)
    kept = kept[(np.abs(kept) <= 1.5).all(axis=1)][: 30 * 1500].reshape(1500, 30, 3)
    theirs = made.statistic.value({name: kept[..., k] for k, name in enumerate("aby")}, made.part_schema)
    ours = MODEL.simulate_values(rng, made, theta(1500)) * np.array(made.law.step)
    assert same_law(ours, theirs + rng.normal(0, made.law.sd, theirs.shape)) > ALARM


def test_a_line_without_intercept_is_simulated_through_the_centre() -> None:
    model = nw.LinearRegression(
        ["a", "b"], "y", intercept=False, **{**BELIEFS, "prior": nw.NormalInverseGamma(0, 1, 3, 2)}
    )
    made = plan(n=100, intercept=False, centre={"a": 2, "b": 1, "y": 5})
    at = {name: value for name, value in AT.items() if name not in ("intercept", "covariate_mean")}
    rows = {name: np.repeat(value, 1000, axis=0) for name, value in model.theta_at(at).items()}
    drawn = model.simulate_values(np.random.default_rng([SEED, 4]), made, rows) * np.array(made.law.step) / 100
    expected, error = JOINT_COVARIANCE[np.triu_indices(3)], drawn.std(axis=0) / np.sqrt(1000)
    assert (np.abs(drawn.mean(axis=0) - expected) < 5.6 * error).all()


def test_under_add_remove_the_count_is_simulated_too() -> None:
    made = plan(n=50, neighbours="add-remove")
    drawn = MODEL.simulate_values(np.random.default_rng([SEED, 5]), made, theta(10), n=40)
    where = made.statistic.labels(made.part_schema).index("n")
    np.testing.assert_allclose(drawn[:, where] * made.law.step[where], 40, atol=6 * made.law.sd[where])
    with pytest.raises(InvalidArgument, match="n="):
        MODEL.simulate_values(np.random.default_rng([SEED, 5]), made, theta(10))


def test_simulate_takes_a_regression_as_it_takes_a_population() -> None:
    made = plan(n=400)
    one = nw.simulate(made, MODEL, at=AT, seed=SEED + 1)
    assert one.simulated
    np.testing.assert_allclose(one.estimate[:2] / 400, AT["covariate_mean"], atol=0.3)
    assert nw.simulate(made, MODEL, seed=SEED + 2).value != nw.simulate(made, MODEL, seed=SEED + 3).value
    default = {name: AT[name] for name in MODEL.free}
    drawn = nw.simulate(plan(n=4000), MODEL, at=default, seed=SEED + 1)
    # Covariates that are not given are as believed: mean 0 and covariance scale/(degrees - d - 1) = 1.
    np.testing.assert_allclose(drawn.estimate[[0, 3]] / 4000, [0, 1], atol=0.15)


@pytest.mark.parametrize(
    "at", [{}, {"a": 1}, {**AT, "c": 1}, {**AT, "a": "x"}, {**AT, "noise_variance": -1}, {**AT, "covariate_mean": 1},
           {**AT, "covariate_covariance": [[1, 2], [2, 1]]}, 3], ids=range(8),
)  # fmt: skip
def test_bad_parameters_are_refused(at: Any) -> None:
    with pytest.raises(InvalidArgument) as error:
        nw.simulate(plan(), MODEL, at=at)
    assert error.value.argument == "at"


def test_the_prior_is_the_one_that_was_given() -> None:
    """Oracle: scipy's inverse Wishart and Student's t for the margins of a conjugate prior."""
    drawn = MODEL.sample_prior(np.random.default_rng([SEED, 6]), 4000)
    t = stats.t(6, scale=np.sqrt(2 / 3))
    for name in MODEL.names:
        assert stats.kstest(drawn[name], t.cdf).pvalue > ALARM / 10
    assert stats.kstest(drawn["noise_variance"], stats.invgamma(3, scale=2).cdf).pvalue > ALARM / 10
    theirs = stats.invwishart(6, np.diag([3.0, 3.0])).rvs(4000, random_state=np.random.default_rng([SEED, 7]))
    for i, j in ((0, 0), (0, 1), (1, 1)):
        assert stats.ks_2samp(drawn["covariate_covariance"][:, i, j], theirs[:, i, j]).pvalue > ALARM / 10
    shape = (6 - 2 + 1) / 2
    margin = stats.t(2 * shape, scale=np.sqrt(3 / 2 / shape / 2))
    assert stats.kstest(drawn["covariate_mean"][:, 0], margin.cdf).pvalue > ALARM / 10


def test_default_beliefs_cannot_be_simulated_before_a_release() -> None:
    for model, argument in (
        (nw.LinearRegression(["a", "b"], "y"), "coefficients"),
        (nw.LinearRegression(["a", "b"], "y", prior=BELIEFS["prior"]), "covariates"),
    ):
        with pytest.raises(InvalidArgument, match="default prior") as error:
            nw.simulate(plan(), model)
        assert error.value.argument == argument


def test_another_statistic_is_not_simulated() -> None:
    schema = nw.Schema({"a": nw.Bounded(0, 1)}, n=5, neighbours="change-one")
    with pytest.raises(Unsupported, match="Moments"):
        nw.simulate(nw.plan(nw.Mean("a"), schema, guarantee=nw.PureDP(1)), MODEL, at=AT)


# ---- the check ----


def records(rng: np.random.Generator, n: int, *, bend: float = 0.0) -> dict[str, Any]:
    a, b, y = rng.multivariate_normal(JOINT_MEAN, JOINT_COVARIANCE, n).T
    return {"a": a, "b": b, "y": y + bend * (a**2 - 1)}


def test_one_set_of_moments_cannot_check_a_regression_and_several_can() -> None:
    rng = np.random.default_rng([SEED, 8])
    made = plan(n=500)
    one = noisy_release(made, records(rng, 500), rng, dataset="a")
    found = nw.infer(one, nw.LinearRegression(["a", "b"], "y"), **SHORT)
    assert not found.check.is_surprising
    # Three coefficients, the noise, two means, three covariances; and nine sums, besides n.
    assert str(found.check).startswith("The population cannot be checked by this release: it tells 9 numbers for 9 unk")
    other = noisy_release(made, records(rng, 500), rng, dataset="b")
    both = nw.infer([one, other], nw.LinearRegression(["a", "b"], "y"), **SHORT)
    assert both.check.is_checkable
    assert not both.check.is_surprising
    assert "compares the parts with each other" in str(both.check) or both.check.overall < 0.05


def test_an_n_that_is_not_what_was_said_is_refused_by_the_noisy_count() -> None:
    rng = np.random.default_rng([SEED, 9])
    one = noisy_release(plan(n=500, neighbours="add-remove"), records(rng, 500), rng, dataset="a")
    with pytest.raises(InvalidArgument, match="n = 1500 was stated, but the noisy count"):
        nw.infer(one, nw.LinearRegression(["a", "b"], "y"), n=1500, **SHORT)


def test_a_method_without_covariates_says_why_there_is_no_check() -> None:
    rng = np.random.default_rng([SEED, 9])
    one = noisy_release(plan(n=500), records(rng, 500), rng, dataset="a")
    found = nw.infer(one, nw.LinearRegression(["a", "b"], "y"), method="naive", seed=SEED + 1, draws=50)
    assert "no law of the covariates" in found.check_sentence()
    assert "no law of the covariates" in found.summary()


# ---- the confidential moments ----


@pytest.mark.parametrize("guarantee", [nw.PureDP(5), nw.GaussianDP(2)], ids=["laplace", "gaussian"])
def test_the_confidential_moments_are_drawn_from_their_law(guarantee: Any) -> None:
    """Oracle: importance sampling, T from its normal law weighted by the density of the noise."""
    rng = np.random.default_rng([SEED, 10])
    made = nw.plan(nw.Moments("a", "y"), plan(n=300, bound=5).schema, guarantee=guarantee)
    one = noisy_release(made, records(rng, 300), rng, dataset="a")
    model, count = nw.LinearRegression("a", "y"), 3000
    at = {"intercept": 0.5, "a": 0.85, "noise_variance": 0.35, "covariate_mean": [0.2], "covariate_covariance": [[1.0]]}
    rows = {name: np.repeat(value, count, axis=0) for name, value in model.theta_at(at).items()}
    law = RowLaw.of(model, made.statistic, made.schema, {name: value[:1] for name, value in rows.items()})
    pairs = np.array(made.statistic.pairs(made.schema))
    mean, covariance = law.moments(pairs, intercept=True)
    believed = rng.multivariate_normal(300 * mean[0], 300 * covariance[0], 400_000, method="eigh")
    noise = one.estimate - believed
    log_weights = (-np.abs(noise) / one.law.scale).sum(axis=1) if isinstance(guarantee, nw.PureDP) else (
        -0.5 * np.square(noise / one.law.sd)).sum(axis=1)  # fmt: skip
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    size = 1 / np.square(weights).sum()
    drawn = MomentsLaw(model, one, 300).draw_statistic(rng, rows)
    expected = weights @ believed
    spread = np.sqrt(weights @ np.square(believed - expected))
    assert size > 200
    assert (np.abs(drawn.mean(axis=0) - expected) < 5.6 * spread * np.sqrt(1 / size + 1 / count)).all()
    assert (np.abs(drawn.std(axis=0) / spread - 1) < 5.6 * np.sqrt(1 / size + 1 / count)).all()


def test_the_posterior_of_the_statistic_holds_the_confidential_sums() -> None:
    rng = np.random.default_rng([SEED, 11])
    made = plan(n=300, bound=5)
    columns = records(rng, 300)
    one = noisy_release(nw.plan(made.statistic, made.schema, guarantee=nw.GaussianDP(1)), columns, rng, dataset="a")
    found = nw.infer(one, nw.LinearRegression(["a", "b"], "y"), **SHORT)
    true = made.statistic.value(columns, made.schema)
    statistic = found.statistic
    assert statistic.labels == one.labels
    assert (np.abs(statistic.mean - true) < 5.6 * statistic.sd).all()
    # What the model knows about sums of products hardly makes them wider than the noise alone.
    assert (statistic.sd < 1.6 * np.array(one.law.sd)).all()


def test_averaged_rows_have_confidential_moments_too() -> None:
    rng = np.random.default_rng([SEED, 12])
    columns, made = records(rng, 600), plan(n=600, average=3)
    one = noisy_release(made, columns, rng, dataset="a")
    rows = theta(200)
    drawn = MomentsLaw(MODEL, one, 600).draw_statistic(rng, rows)
    true = made.statistic.value(columns, made.schema)
    assert (np.abs(drawn.mean(axis=0) - true) < 6 * np.array(one.law.sd)).all()
    law = RowLaw.of(MODEL, made.statistic, made.schema, {name: value[:1] for name, value in rows.items()})
    (mean,), (covariance,) = law.moments(np.array(made.statistic.pairs(made.schema)), intercept=True, block=3)
    sums = MODEL.simulate_values(rng, made, theta(2000)) * np.array(made.law.step)
    spread = np.sqrt(200 * np.diag(covariance))
    assert (np.abs(sums.mean(axis=0) - 200 * mean) < 5.6 * spread / np.sqrt(2000)).all()
    assert (np.abs(sums.std(axis=0) / spread - 1) < 5.6 * np.sqrt(0.6 / 2000)).all()


def test_where_the_confidential_moments_are_not_drawn_it_is_said() -> None:
    rng = np.random.default_rng([SEED, 12])
    model = nw.LinearRegression(["a", "b"], "y")
    one = noisy_release(plan(n=60, fourth=True), records(rng, 60), rng, dataset="a")
    with pytest.raises(Unsupported, match="fourth"):
        model.joint_likelihood((one,))
    cleaned = noisy_release(plan(n=60, average=3, bound=0.5), records(rng, 60), rng, dataset="a")
    with pytest.raises(Unsupported, match="clamped or shortened"):
        model.joint_likelihood((cleaned,)).groups[0].draw_statistic(rng, theta(2))


def test_calibration_takes_a_regression() -> None:
    """A small run through `calibrate`: the ranks of coefficients, noise and covariates are uniform."""
    model = nw.LinearRegression("a", "y", prior=nw.NormalInverseGamma(0, 1, 3, 2),
                                covariates=nw.NormalCovariates(0, 1, 3, 5))  # fmt: skip
    schema = nw.Schema({"a": nw.Bounded(-30, 30), "y": nw.Bounded(-60, 60)}, n=100, neighbours="change-one")
    made = nw.plan(nw.Moments("a", "y"), schema, guarantee=nw.GaussianDP(20))
    found = nw.calibrate([[made], [made]], model, method="exact-gibbs", trials=20, draws=40, seed=SEED, warmup=200,
                         chains=2, progress=False)  # fmt: skip
    assert found.names == ("intercept", "a", "noise_variance", "covariate_mean[0]", "covariate_covariance[0,0]")
    assert found.is_calibrated()


def test_the_rows_in_pieces_are_all_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicate, "PIECE", 40)
    made = plan(n=60, average=3)
    rng = np.random.default_rng([SEED, 13])
    ours = MODEL.simulate_values(rng, made, theta(1000))
    theirs = simulate_values(rng, made, population(), {"none": np.zeros(1000)})
    assert same_law(ours, theirs) > ALARM
