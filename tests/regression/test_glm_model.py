"""Logistic, probit and Poisson regression as people meet them: releases, answers, refusals, files."""

import numpy as np
import pytest
from moment_releases import exact_release, noisy_release
from scipy import special, stats

import noisewise as nw
from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.inference.settings import Settings
from noisewise.regression.glm.fitness import misfit

COLUMNS = {
    "age": nw.Bounded(0, 120), "smoker": nw.Levels(["no", "yes"]), "region": nw.Levels(["n", "s", "w"]),
    "relapse": nw.Levels(["no", "yes"]), "flag": nw.Bounded(0, 1), "visits": nw.Bounded(0, 10),
    "cost": nw.Bounded(0, 10.5),
}  # fmt: skip
N = 3000
SMOKES, RELAPSE = nw.column("smoker").equals("yes"), nw.column("relapse").equals("yes")
PUBLIC = {"centre": {"age": 50}, "scale": {"age": 12}}
FAST = {"seed": 1, "draws": 500, "chains": 2, "progress": False}


def schema(**changes):
    return nw.Schema(COLUMNS, **{"n": N, "neighbours": "change-one", **changes})


def people(rng, n=N):
    """Records with log odds -1 + .04 (age - 50) + .8 smoker of a relapse; log rate .4 + .02 (age - 50) of visits."""
    smoker = rng.random(n) < 0.3
    age = rng.normal(50, 12, n) - 3 * smoker
    s = -1 + 0.04 * (age - 50) + 0.8 * smoker
    relapse = (rng.random(n) < special.expit(s)).astype(int)
    visits = np.minimum(rng.poisson(np.exp(0.4 + 0.02 * (age - 50) + 0.3 * smoker)), 10)
    return {
        "age": np.clip(age, 0, 120), "smoker": smoker.astype(int), "region": rng.integers(0, 3, n), "relapse": relapse,
        "flag": relapse.astype(float), "visits": visits.astype(float), "cost": visits.astype(float),
    }  # fmt: skip


def logistic(rng, *, guarantee=None, response=RELAPSE, **changes):
    plan = nw.plan(nw.Moments(["age", SMOKES], response, parts=("xx", "xy"), **PUBLIC), schema(**changes),
                   guarantee=guarantee or nw.GaussianDP(3))  # fmt: skip
    return noisy_release(plan, people(rng), rng, dataset="made")


def within(posterior, truth, sds=6.0):
    return all(abs(posterior.mean[name] - value) < sds * posterior.sd[name] for name, value in truth.items())


SLOPES = {"intercept": -3.0, "age": 0.04, "equals(smoker, 'yes')": 0.8}


def test_the_readers_regression_finds_what_the_records_were_made_with(rng):
    model = nw.LogisticRegression(["age", SMOKES], RELAPSE)
    posterior = nw.infer(logistic(rng), model, **FAST)
    assert within(posterior, SLOPES)
    assert posterior.sd["age"] < 0.02
    assert "proposals effective" in str(posterior.verdict)
    assert "normal within each of 2 combinations" in str(posterior.verdict)
    assert "Moments alone cannot test that" in str(posterior.verdict)
    assert "logistic response" in posterior.law


@pytest.mark.parametrize("guarantee", [nw.GaussianDP(3), nw.PureDP(6)])
def test_counts_are_those_before_the_clamp(rng, guarantee):
    model = nw.PoissonRegression(["age", SMOKES], "visits")
    units = {"centre": {"age": 50, "visits": 2}, "scale": {"age": 12, "visits": 2}}
    plan = nw.plan(nw.Moments(["age", SMOKES], "visits", **units), schema(), guarantee=guarantee)
    posterior = nw.infer(noisy_release(plan, people(rng), rng, dataset="made"), model, **FAST)
    assert within(posterior, {"intercept": 0.4 - 1.0, "age": 0.02, "equals(smoker, 'yes')": 0.3})
    assert "Poisson counts clamped at 10" in posterior.law


def test_two_holders_with_other_units_tell_as_much_as_their_records(rng):
    """Holders differ in n, centre, scale and the response's units; the coefficients are those of all."""
    other = nw.Moments(["age", SMOKES], RELAPSE, centre={"age": 30, str(RELAPSE): "1/2"}, scale={"age": 20})
    plan = nw.plan(other, schema(), guarantee=nw.GaussianDP(3))
    model = nw.LogisticRegression(["age", SMOKES], RELAPSE)
    one = logistic(rng)
    second = noisy_release(plan, people(rng), rng, dataset="other")
    alone, both = nw.infer(one, model, **FAST), nw.infer([one, second], model, **FAST)
    assert within(both, SLOPES)
    assert both.sd["equals(smoker, 'yes')"] < alone.sd["equals(smoker, 'yes')"]


def test_entries_that_repeat_others_change_nothing(rng):
    """y'y of a yes/no response is the sum of y once more: with noise of its own the answer is as good, and no crash."""
    statistic = nw.Moments(["age", SMOKES], RELAPSE, **PUBLIC)
    columns = people(rng)
    plan = nw.plan(statistic, schema(), guarantee=nw.GaussianDP(1000))
    posterior = nw.infer(exact_release(plan, columns), nw.LogisticRegression(["age", SMOKES], RELAPSE), **FAST)
    assert within(posterior, SLOPES)


@pytest.mark.parametrize("relation", ["change-one", "add-remove"])
def test_both_relations_are_learnt_from(rng, relation):
    size = {"n": N} if relation == "change-one" else {"n": None, "n_max": 10_000}
    statistic = nw.Moments(["age", SMOKES], RELAPSE, parts=("xx", "xy"), **PUBLIC)
    plan = nw.plan(statistic, schema(neighbours=relation, **size), guarantee=nw.GaussianDP(5))
    release = noisy_release(plan, people(rng), rng, dataset="made")
    stated = {} if relation == "change-one" else {"n": N}
    posterior = nw.infer(release, nw.ProbitRegression(["age", SMOKES], RELAPSE), **FAST, **stated)
    assert 0 < posterior.mean["age"] < 0.1


@pytest.mark.parametrize("make", [nw.LogisticRegression, nw.ProbitRegression])
def test_yes_no_features_alone_have_the_answers_of_a_table(rng, make):
    """Two groups: with little noise the coefficients are those of the two observed shares."""
    columns = people(rng)
    plan = nw.plan(nw.Moments([SMOKES], RELAPSE, parts=("xx", "xy")), schema(), guarantee=nw.GaussianDP(500))
    model = make([SMOKES], RELAPSE, coefficients=stats.norm(0, 10))
    posterior = nw.infer(exact_release(plan, columns), model, **FAST)
    shares = [columns["relapse"][columns["smoker"] == k].mean() for k in (0, 1)]
    scale = special.logit if make is nw.LogisticRegression else stats.norm.ppf
    low, high = scale(shares[0]), scale(shares[1])
    assert posterior.mean["intercept"] == pytest.approx(low, abs=posterior.sd["intercept"])
    assert posterior.mean[str(SMOKES)] == pytest.approx(high - low, abs=posterior.sd[str(SMOKES)])
    sizes = [np.sum(columns["smoker"] == k) for k in (0, 1)]
    if make is nw.LogisticRegression:  # the textbook's standard error of a log odds ratio
        error = np.sqrt(sum(1 / (n * p * (1 - p)) for n, p in zip(sizes, shares, strict=True)))
        assert posterior.sd[str(SMOKES)] == pytest.approx(error, rel=0.15)


def test_a_line_without_intercept_passes_through_the_origin_of_the_columns(rng):
    statistic = nw.Moments(["age"], RELAPSE, intercept=False, parts=("xx", "xy"), **PUBLIC)
    n = 20_000
    age = rng.normal(50, 12, n)
    columns = people(rng, n) | {"age": age, "relapse": (rng.random(n) < special.expit(0.02 * age)).astype(int)}
    plan = nw.plan(statistic, schema(n=n), guarantee=nw.GaussianDP(5))
    posterior = nw.infer(
        noisy_release(plan, columns, rng, dataset="made"),
        nw.LogisticRegression(["age"], RELAPSE, intercept=False),
        **FAST,
    )
    assert "intercept" not in posterior.draws
    assert within(posterior, {"age": 0.02})


def test_probabilities_and_odds_ratios_follow_from_the_draws(rng):
    model = nw.LogisticRegression(["age", SMOKES], RELAPSE)
    posterior = nw.infer(logistic(rng), model, **FAST)
    b0, b1, b2 = (posterior.draws[name].ravel() for name in model.names)
    at = {"age": [40, 60], "smoker": ["yes", "no"]}
    p = special.expit(np.stack([b0 + 40 * b1 + b2, b0 + 60 * b1], axis=1))
    found = model.predict(posterior, at, level=0.8)
    assert found.mean == pytest.approx(p.mean(axis=0))
    assert found.low == pytest.approx(np.quantile(p, 0.1, axis=0))
    assert found.high == pytest.approx(np.quantile(p, 0.9, axis=0))
    assert model.predict_proba(posterior, at) == pytest.approx(np.stack([1 - p.mean(axis=0), p.mean(axis=0)], axis=1))
    new = model.predict(posterior, [[40, 1]], kind="response")
    assert set(np.unique(new.draws)) <= {0.0, 1.0}
    ratios = model.effects(posterior)
    assert ratios.name == "odds ratio"
    assert ratios.median == pytest.approx([np.exp(np.median(b1)), np.exp(np.median(b2))])
    assert ratios.low[0] == pytest.approx(np.exp(np.quantile(b1, 0.05)))
    assert "goes with 1.0" in posterior.summary().splitlines()[0]
    assert "times the odds of relapse = yes, 90 % interval" in " ".join(posterior.summary().split())
    assert str(ratios).splitlines()[0].split() == ["feature", "odds", "ratio", "5", "%", "95", "%"]


def test_a_count_has_a_rate_and_no_probability_and_a_probit_no_ratio(rng):
    count, probit = nw.PoissonRegression("age", "visits"), nw.ProbitRegression("age", RELAPSE)
    plan = nw.plan(nw.Moments(["age"], "visits", **PUBLIC), schema(), guarantee=nw.GaussianDP(3))
    posterior = nw.infer(noisy_release(plan, people(rng), rng, dataset="made"), count, **FAST)
    rate = np.exp(posterior.draws["intercept"] + 50 * posterior.draws["age"]).ravel()
    assert count.predict(posterior, [[50.0]]).mean[0] == pytest.approx(rate.mean())
    assert count.effects(posterior).name == "rate ratio"
    new = count.predict(posterior, [[50.0]], kind="response")
    assert np.all(new.draws == np.round(new.draws))
    with pytest.raises(Unsupported, match="no probability of yes"):
        count.predict_proba(posterior, [[50.0]])
    with pytest.raises(InvalidArgument, match="not of a ProbitRegression"):
        probit.predict(posterior, [[50.0]])
    plan = nw.plan(nw.Moments(["age"], RELAPSE, **PUBLIC), schema(), guarantee=nw.GaussianDP(3))
    posterior = nw.infer(noisy_release(plan, people(rng), rng, dataset="made"), probit, **FAST)
    with pytest.raises(Unsupported, match="no logarithms of ratios"):
        probit.effects(posterior)


# ---- what is refused ----


def plan_of(statistic, **changes):
    return nw.plan(statistic, schema(**changes), guarantee=nw.GaussianDP(3))


@pytest.mark.parametrize(
    ("make", "statistic", "words"),
    [
        (nw.LogisticRegression, nw.Moments(["age"], "visits"), "response that is 0 or 1; of visits the schema says"),
        (nw.ProbitRegression, nw.Moments(["age"], 2 * RELAPSE), "takes the values 0, 2"),
        (
            nw.PoissonRegression,
            nw.Moments(["age"], "cost"),
            "whole bounds that begin at 0; cost lies between 0 and 10.5",
        ),
        (nw.PoissonRegression, nw.Moments(["age"], RELAPSE), "one column as its response"),
        (nw.LogisticRegression, nw.Moments(["age"], nw.column("age").between(65, 120)), "is made of column 'age'"),
    ],
)
def test_a_response_that_the_link_cannot_have_is_refused(rng, make, statistic, words):
    release = noisy_release(plan_of(statistic), people(rng), rng, dataset="made")
    with pytest.raises(InvalidArgument, match=words):
        nw.infer(release, make(statistic.features, statistic.response), **FAST)


@pytest.mark.parametrize(("option", "words"), [({"shrink": 2}, "shortened"), ({"average": 10}, "averaged")])
def test_shortened_and_averaged_rows_are_refused(rng, option, words):
    statistic = nw.Moments(["age"], RELAPSE, **PUBLIC, **option)
    release = noisy_release(plan_of(statistic), people(rng), rng, dataset="made")
    with pytest.raises(Unsupported, match=words):
        nw.infer(release, nw.LogisticRegression(["age"], RELAPSE), **FAST)


def test_moments_are_no_law_of_the_covariates():
    given = nw.GivenMoments.of_rows(np.random.default_rng().standard_normal((50, 1)))
    with pytest.raises(InvalidArgument, match="whole law of the features"):
        nw.LogisticRegression(["age"], RELAPSE, covariates=given)
    with pytest.raises(InvalidArgument, match="never is"):
        nw.LogisticRegression([SMOKES], RELAPSE, covariates=nw.NormalCovariates(0, 1, 1, 5))


def test_more_combinations_than_can_be_listed_are_refused():
    columns = {f"c{k}": nw.Levels(["no", "yes"]) for k in range(9)} | {"y": nw.Levels(["no", "yes"])}
    many = nw.Schema(columns, n=100, neighbours="change-one")
    features, response = [nw.column(f"c{k}").equals("yes") for k in range(9)], nw.column("y").equals("yes")
    plan = nw.plan(nw.Moments(features, response), many, guarantee=nw.GaussianDP(3))
    release = exact_release(plan, {name: np.zeros(100, int) for name in columns})
    with pytest.raises(Unsupported, match="256 combinations"):
        nw.infer(release, nw.LogisticRegression(features, response), **FAST)


def test_bad_arguments_are_refused_in_a_sentence():
    with pytest.raises(InvalidArgument, match="needs a list of features"):
        nw.LogisticRegression([], RELAPSE)
    with pytest.raises(InvalidArgument, match="True or False"):
        nw.LogisticRegression(["age"], RELAPSE, intercept=1)
    with pytest.raises(InvalidArgument, match="response and a feature too"):
        nw.PoissonRegression(["age"], "age")
    with pytest.raises(InvalidArgument, match="cannot be named 'intercept'"):
        nw.PoissonRegression(["intercept"], "visits")
    with pytest.raises(NoisewiseError, match="coefficients"):
        nw.PoissonRegression(["age"], "visits", coefficients=3)


# ---- what is said ----


def test_a_column_of_zeros_and_ones_is_taken_at_its_word_and_said_so(rng):
    posterior = nw.infer(logistic(rng, response="flag"), nw.LogisticRegression(["age", SMOKES], "flag"), **FAST)
    assert within(posterior, SLOPES)
    assert "flag is taken to be 0 or 1 in every record" in str(posterior.verdict)


def test_numbers_beyond_their_bounds_are_named_first(rng):
    tight = COLUMNS | {"age": nw.Bounded(40, 60)}
    plan = nw.plan(nw.Moments(["age"], RELAPSE), nw.Schema(tight, n=N, neighbours="change-one"),
                   guarantee=nw.GaussianDP(10))  # fmt: skip
    columns = people(rng)
    columns["age"] = np.clip(columns["age"], 40, 60)
    posterior = nw.infer(
        noisy_release(plan, columns, rng, dataset="made"), nw.LogisticRegression("age", RELAPSE), **FAST
    )
    assert posterior.verdict.warns
    assert "have a number beyond its bounds and were clamped" in str(posterior.verdict)


def test_parts_that_were_not_released_are_named(rng):
    for parts, words in ((("xx",), "X'y was not released"), (("xy",), "X'X was not released")):
        plan = plan_of(nw.Moments(["age"], RELAPSE, parts=parts, **PUBLIC))
        posterior = nw.infer(noisy_release(plan, people(rng), rng, dataset="made"),
                             nw.LogisticRegression("age", RELAPSE), **FAST)  # fmt: skip
        assert words in str(posterior.verdict)


# ---- priors, files, simulation ----


@pytest.mark.parametrize(
    "coefficients",
    [
        stats.norm(0, 1),
        "learned",
        {"intercept": stats.norm(-3, 1), "age": stats.norm(0, 0.1), "equals(smoker, 'yes')": stats.norm(0, 1)},
        stats.multivariate_normal([-3, 0, 0], np.diag([1.0, 0.01, 1.0])),
    ],
)
def test_every_form_of_prior_is_taken_and_written(rng, coefficients):
    model = nw.LogisticRegression(["age", SMOKES], RELAPSE, coefficients=coefficients)
    posterior = nw.infer(logistic(rng), model, **FAST)
    assert posterior.mean["age"] > 0
    again = nw.LogisticRegression.from_spec(model.to_spec())
    assert again.to_spec() == model.to_spec()


def test_a_sharp_prior_is_what_the_posterior_says(rng):
    sharp = {
        "intercept": stats.norm(5, 1e-4),
        "age": stats.norm(-1, 1e-4),
        "equals(smoker, 'yes')": stats.norm(2, 1e-4),
    }
    model = nw.LogisticRegression(["age", SMOKES], RELAPSE, coefficients=sharp)
    posterior = nw.infer(logistic(rng, guarantee=nw.GaussianDP("1/100")), model, **FAST)
    assert posterior.mean["age"] == pytest.approx(-1, abs=1e-3)
    assert posterior.mean["intercept"] == pytest.approx(5, abs=1e-3)


def test_a_release_with_yes_no_features_is_simulated_at_a_stated_law(rng):
    model = nw.PoissonRegression(["age", SMOKES], "visits")
    plan = plan_of(nw.Moments(["age", SMOKES], "visits", **PUBLIC))
    at = {
        "intercept": -0.6, "age": 0.02, "equals(smoker, 'yes')": 0.3, "configuration_share": [0.7, 0.3],
        "number_mean": [[50.0], [47.0]], "number_covariance": [[144.0]],
    }  # fmt: skip
    posterior = nw.infer(nw.simulate(plan, model, at=at, seed=rng), model, **FAST)
    assert within(posterior, {name: at[name] for name in model.names})
    assert 0 <= posterior.check.overall <= 1
    with pytest.raises(InvalidArgument, match="say nothing of the features' law"):
        nw.simulate(plan, model, at={name: at[name] for name in model.names})
    with pytest.raises(InvalidArgument, match="sum to 1"):
        nw.simulate(plan, model, at=at | {"configuration_share": [0.7, 0.7]})


def test_rows_one_by_one_and_their_normal_law_have_the_same_sums(rng):
    """Under refusal of counts above 3, too: sums of drawn rows scatter about n M with covariance n C."""
    model = nw.PoissonRegression(["age", SMOKES], "visits")
    columns = COLUMNS | {"visits": nw.Bounded(0, 3)}
    at = {
        "intercept": -0.6, "age": 0.02, "equals(smoker, 'yes')": 0.3, "configuration_share": [0.7, 0.3],
        "number_mean": [[50.0], [47.0]], "number_covariance": [[144.0]],
    }  # fmt: skip
    for outside in ("clamp", "refuse"):
        own = nw.Schema(columns, n=500, neighbours="change-one", outside=outside)
        plan = nw.plan(nw.Moments(["age", SMOKES], "visits", **PUBLIC), own, guarantee=nw.GaussianDP(10**6))
        law = model.joint_likelihood((nw.simulate(plan, model, at=at, seed=rng),)).groups[0]
        theta = {name: np.repeat(value, 400, axis=0) for name, value in model.theta_at(at).items()}
        values = model.simulate_values(rng, plan, theta) * np.array(plan.law.step)
        from noisewise.regression.row_law import row_law

        pairs = np.array(plan.statistic.pairs(own))
        mean, covariance = row_law(law.model, plan.statistic, own, model.theta_at(at)).moments(pairs, intercept=True)
        z = (values.mean(axis=0) - 500 * mean[0]) / np.sqrt(500 * np.diag(covariance[0]) / 400)
        assert np.abs(z).max() < 6
        spread = values.var(axis=0) / (500 * np.diag(covariance[0]))
        assert spread == pytest.approx(1.0, abs=0.5)


# ---- features by example ----


def skewed(rng, n):
    """An income with a gamma law, and a yes/no feature that goes with it."""
    income = rng.gamma(2.0, 10.0, n)
    return income, (rng.random(n) < special.expit((income - 20) / 10)).astype(float)


def test_rows_that_are_given_state_the_law_of_skew_features(rng):
    columns = {"income": nw.Bounded(0, 200), "home": nw.Levels(["no", "yes"]), "ill": nw.Levels(["no", "yes"])}
    own = nw.Schema(columns, n=5000, neighbours="change-one")
    home, ill = nw.column("home").equals("yes"), nw.column("ill").equals("yes")
    income, has_home = skewed(rng, 5000)
    y = (rng.random(5000) < special.expit(-1 + 0.06 * income - 0.7 * has_home)).astype(int)
    statistic = nw.Moments(["income", home], ill, parts=("xx", "xy"), centre={"income": 20}, scale={"income": 14})
    plan = nw.plan(statistic, own, guarantee=nw.GaussianDP(10))
    release = noisy_release(plan, {"income": income.clip(0, 200), "home": has_home.astype(int), "ill": y}, rng,
                            dataset="made")  # fmt: skip
    given = nw.GivenRows(np.column_stack(skewed(rng, 100)))
    model = nw.LogisticRegression(["income", home], ill, covariates=given, coefficients=stats.norm(0, 2))
    posterior = nw.infer(release, model, seed=1, draws=200, chains=2, progress=False)
    assert within(posterior, {"income": 0.06, "equals(home, 'yes')": -0.7}, sds=7)
    assert "shape of the 100 rows that were given" in str(posterior.verdict)
    assert "features as in 100 given rows" in posterior.law
    assert nw.LogisticRegression.from_spec(model.to_spec()).to_spec() == model.to_spec()
    again = nw.simulate(plan, model, seed=rng)  # from its own prior
    assert len(again.estimate) == len(release.estimate)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.zeros((5, 1)), "20 to 500 rows"),
        (np.ones((50, 1)), "the same in all rows"),
        ([["a"]] * 50, "finite numbers"),
        (np.full((50, 1), np.nan), "finite numbers"),
        (np.zeros(50), "20 to 500 rows"),
    ],
)
def test_rows_that_are_no_law_are_refused(rows, words):
    with pytest.raises(InvalidArgument, match=words):
        nw.GivenRows(rows)


def test_given_rows_have_one_column_for_each_feature(rng):
    with pytest.raises(InvalidArgument, match="rows has 2 columns; the model has 1 features"):
        nw.LogisticRegression("age", RELAPSE, covariates=nw.GivenRows(rng.standard_normal((50, 2))))


# ---- counts that scatter more than Poisson counts ----


def scattered_counts(rng, spread, n=10_000):
    """A release and its model: counts whose rate varies by a gamma law of this variance (0: a Poisson count)."""
    x = rng.standard_normal(n)
    rate = np.exp(0.5 + 0.3 * x) * (rng.gamma(1 / spread, spread, n) if spread else 1.0)
    rows = {"x": x, "y": np.minimum(rng.poisson(rate), 20).astype(float)}
    schema = nw.Schema({"x": nw.Bounded(-6, 6), "y": nw.Bounded(0, 20)}, n=n, neighbours="change-one")
    plan = nw.plan(nw.Moments(["x"], "y"), schema, guarantee=nw.GaussianDP(5))
    return noisy_release(plan, rows, rng, dataset="people"), nw.PoissonRegression(["x"], "y")


def test_counts_that_scatter_more_than_poisson_counts_are_warned_of(rng):
    release, model = scattered_counts(rng, 1.0)
    found = nw.infer(release, model, seed=1, draws=100, progress=False)
    assert "counts scatter more than Poisson counts do" in " ".join(found.verdict.warnings)


def test_poisson_counts_are_as_far_from_the_model_as_chance_allows(rng):
    release, model = scattered_counts(rng, 0.0)
    found = nw.infer(release, model, seed=1, draws=100, progress=False)
    seen = misfit(model, model.observe(release, Settings(seed=1)), found.draws)
    assert stats.chi2(1).ppf(0.99) <= seen.bound < stats.chi2(2).ppf(0.99)  # five sums, nearly four settled unknowns
    assert seen.distance < 40  # a chi-square of one degree exceeds it twice in 1e10


@pytest.mark.parametrize("guarantee", [nw.GaussianDP("1/1000"), nw.PureDP("1/1000")])
def test_sums_that_are_all_noise_contradict_nothing(rng, guarantee):
    """Where noise hides everything the posterior is the prior, and all nine sums scatter as their noise."""
    names = ["a", "b"]
    columns = {name: nw.Bounded(-6, 6) for name in names} | {"y": nw.Bounded(0, 20)}
    schema = nw.Schema(columns, n=1000, neighbours="change-one")
    plan = nw.plan(nw.Moments(names, "y"), schema, guarantee=guarantee)
    covariates = nw.NormalCovariates(0, 1, 4, 7)
    model = nw.PoissonRegression(names, "y", coefficients=stats.norm(0, 0.4), covariates=covariates)
    rows = dict(zip(names, rng.standard_normal((2, 1000)), strict=True)) | {"y": rng.poisson(1, 1000).astype(float)}
    prior = {name: np.asarray(value)[None] for name, value in model.sample_prior(rng, 32).items()}
    seen = []
    for k in range(60):
        release = noisy_release(plan, rows, rng, dataset=f"d{k}")
        seen.append(misfit(model, model.observe(release, Settings(seed=1)), prior))
    assert sum(one.is_felt for one in seen) <= 8  # of sixty at one in a hundred: more once in 1e8
    few = stats.chi2(1).ppf(0.99)  # of one degree, as sums are settled that noise does not hide
    assert sum(one.distance > few for one in seen) > 10
