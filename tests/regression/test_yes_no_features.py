"""Yes/no features of a regression are modelled as such, or refused with the way out, or warned of before a number."""

import math

import numpy as np
import pytest
from moment_releases import noisy_release

import noisewise as nw
from noisewise.errors import Unsupported
from noisewise.inference.posterior import Posterior
from noisewise.regression import marginal
from noisewise.regression.cleaning import clamped_shares, cleaned_share, predictive_rows
from noisewise.regression.learn import natural_draws
from noisewise.regression.problem import Fit
from noisewise.regression.words import collinear_caution

SMOKES, AGE = nw.column("smoker").equals("yes"), nw.column("age")
FEW = {"draws": 250, "warmup": 250, "chains": 2, "seed": 1, "progress": False}


def schema(n=1000, columns=None, **changes):
    plain = {"smoker": nw.Levels(["no", "yes"]), "age": nw.Bounded(-6, 6), "y": nw.Bounded(-10, 10)}
    size = {"n": n, "neighbours": "change-one"} if n else {"n_max": 4000, "neighbours": "add-remove"}
    return nw.Schema(columns or plain, **{**size, **changes})


def records(rng, n=1000, share=0.3):
    smokes = rng.random(n) < share
    age = rng.normal(0.5 * smokes, 1.0)
    y = 1 + 2 * smokes + 0.5 * age + rng.normal(size=n)
    return {"smoker": smokes.astype(int), "age": age, "y": y}


def release(rng, features=(SMOKES, AGE), response="y", guarantee=None, n=1000, rows=None, made=None, dataset="a", **kw):
    plan = nw.plan(
        nw.Moments(list(features), response, **kw), made or schema(n), guarantee=guarantee or nw.GaussianDP(2)
    )
    return noisy_release(plan, rows or records(rng, n), rng, dataset=dataset)


def test_the_slope_of_one_condition_is_found_and_as_sharp_as_with_known_moments(rng):
    """The case that a clamped normal law takes for .06 instead of 2, 12 times."""
    held, widths = 0, []
    model = nw.LinearRegression([SMOKES], "y")
    for _ in range(12):
        smokes = rng.random(1000) < 0.3
        rows = {"smoker": smokes.astype(int), "y": 1 + 2 * smokes + rng.normal(size=1000), "age": np.zeros(1000)}
        given = nw.LinearRegression([SMOKES], "y", covariates=nw.GivenMoments.of_rows(smokes[:, None].astype(float)))
        observed = model.observed(release(rng, [SMOKES], rows=rows))
        ends = []
        for each in (model, given):
            fit = marginal.sample(each.problem_of(observed), rng, chains=2, draws=500, warmup=200)
            ends.append(np.quantile(natural_draws(each, observed, fit)[str(SMOKES)], [0.005, 0.995]))
        ols = rows["y"][smokes].mean() - rows["y"][~smokes].mean()
        held += ends[0][0] < ols < ends[0][1]
        widths.append(np.diff(ends[0])[0] / np.diff(ends[1])[0])
    assert held >= 8  # fewer has probability 1e-7 where each holds it with 99 %
    assert np.median(widths) < 1.3


def test_two_holders_in_other_units_laplace_noise_and_add_remove_are_one_regression(rng):
    other = schema(None)
    releases = [
        release(rng, guarantee=nw.PureDP(8), dataset="a"),
        release(rng, guarantee=nw.GaussianDP(4), dataset="b", centre={"age": 1, "y": 2}, scale={"age": 2, "y": 3}),
        release(rng, guarantee=nw.PureDP(8), dataset="c", made=other),
    ]
    found = nw.infer(releases, nw.LinearRegression([SMOKES, AGE], "y"), n=[1000, 1000, 1000], **FEW)
    assert not found.verdict.warnings
    for name, truth in ((str(SMOKES), 2.0), ("age", 0.5), ("noise_variance", 1.0)):
        assert abs(found.mean[name] - truth) < 6 * found.sd[name]
    assert found.sd[str(SMOKES)] < 0.3


def test_a_line_without_intercept_through_a_condition(rng):
    smokes = rng.random(1000) < 0.3
    rows = {"smoker": smokes.astype(int), "age": np.zeros(1000), "y": 2 * smokes + rng.normal(size=1000)}
    made = release(rng, [SMOKES], rows=rows, intercept=False)
    found = nw.infer(made, nw.LinearRegression([SMOKES], "y", intercept=False), **FEW)
    assert abs(found.mean[str(SMOKES)] - 2) < 6 * found.sd[str(SMOKES)] < 2


def test_everything_that_is_asked_of_a_posterior_knows_the_conditions(rng, tmp_path):
    rows = records(rng)
    made = release(rng, [SMOKES, AGE, SMOKES * AGE], rows=rows)
    model = nw.LinearRegression([SMOKES, AGE, SMOKES * AGE], "y")
    found = nw.infer(made, model, **FEW)
    assert "4" not in found.verdict.notes[0]
    assert "2 combinations" in found.verdict.notes[0]
    assert not found.check.is_surprising
    assert found.statistic.draws.shape[1] == len(made.value)
    true = made.statistic.value({k: np.asarray(v) for k, v in rows.items()}, made.schema)
    away = (found.statistic.draws.mean(axis=0) - true) / found.statistic.draws.std(axis=0)
    assert np.abs(away).max() < 7
    found.save(tmp_path / "posterior")
    again = Posterior.load(tmp_path / "posterior")
    assert again.verdict == found.verdict
    assert again.check.overall == found.check.overall
    predicted = model.predict(again, {"smoker": ["no", "yes"], "age": [0.0, 0.0]}, kind="mean")
    assert abs(predicted.mean[1] - predicted.mean[0] - 2) < 6 * math.hypot(*predicted.sd)


def test_what_choose_says_after_a_first_release_is_what_the_second_brings(rng):
    """Two-stage selection: the information at the first posterior against the spread of a posterior of such a plan."""
    plan = nw.plan(nw.Moments([SMOKES, AGE], "y"), schema(4000), guarantee=nw.GaussianDP(4))
    model = nw.LinearRegression([SMOKES, AGE], "y")
    first = nw.infer(noisy_release(plan, records(rng, 4000), rng, dataset="a"), model, **FEW)
    middle = {name: value.mean(axis=(0, 1))[None] for name, value in first.draws.items()}
    (told,), _ = model.information_engine(plan).rows(middle)
    sd = np.sqrt(np.diag(np.linalg.inv(told)))
    assert sd[1] == pytest.approx(first.sd[str(SMOKES)], rel=0.35)
    assert sd[2] == pytest.approx(first.sd["age"], rel=0.35)
    far, near = (
        nw.plan(nw.Moments([SMOKES, AGE], "y", centre={"age": centre}), schema(4000), guarantee=nw.GaussianDP(4))
        for centre in (5, 0)
    )  # where ages lie far from the centre their products are larger, and so is the noise
    assert nw.choose([far, near], first, score="age", draws=4, progress=False).winner == near


REFUSED = [
    ({"shrink": 2}, {}, "shrink"),
    ({"average": 4}, {}, "average"),
    ({}, {"covariates": nw.NormalCovariates(0, 1, 1, 4)}, "NormalCovariates"),
]


@pytest.mark.parametrize(("of_release", "of_model", "what"), REFUSED)
def test_what_has_no_law_that_is_right_is_refused_and_warned_of_where_it_is_asked_for(rng, of_release, of_model, what):
    made, model = release(rng, n=100, **of_release), nw.LinearRegression([SMOKES, AGE], "y", **of_model)
    with pytest.raises(Unsupported, match=what):
        nw.infer(made, model, **FEW)
    if what == "average":
        found = nw.infer(made, model, method="marginal", **FEW)
        assert "never normal" in found.verdict.warnings[0]
        assert str(found.verdict).startswith(str(SMOKES))


def test_published_samplers_warn_first_unless_they_have_no_law_of_the_covariates(rng):
    model = nw.LinearRegression([SMOKES, AGE], "y", prior=nw.NormalInverseGamma(0, 0.1, 2, 2))
    made = release(rng)
    for method in ("exact-gibbs", "gibbs-update", "normal-x"):
        found = nw.infer(made, model, method=method, **{**FEW, "draws": 60, "warmup": 60})
        assert "not to be trusted" in found.verdict.warnings[0]
        with pytest.raises(Unsupported, match="yes/no"):
            found.check  # noqa: B018
    assert "yes/no" not in str(nw.infer(made, model, method="naive", **FEW).verdict)
    assert not nw.infer(made, model, method="fixed-s", **FEW).verdict.warnings


def test_a_yes_no_response_is_warned_of_first_and_not_taken_for_a_clamped_one(rng):
    n = 2000
    age = rng.normal(size=n)
    smoker = (rng.random(n) < np.clip(0.4 + 0.1 * age, 0, 1)).astype(int)
    made = release(rng, [AGE], SMOKES, n=n, rows={"smoker": smoker, "age": age, "y": age})
    found = nw.infer(made, nw.LinearRegression([AGE], SMOKES), **FEW)
    assert found.verdict.warnings[0].startswith("The response")
    assert abs(found.mean["age"] - np.polyfit(age, smoker, 1)[0]) < 6 * found.sd["age"] < 1


def test_numbers_alone_are_as_before(rng):
    found = nw.infer(release(rng, [AGE]), nw.LinearRegression([AGE], "y"), **FEW)
    assert not found.verdict.warnings
    assert "Covariates are taken to be normal." in found.verdict.notes


@pytest.mark.parametrize(
    ("sd", "spread", "is_doubtful"),
    [(0.29, 0.02, True), (0.10, 0.02, False), (0.15, 0.9, False)],
    ids=["uniform", "well inside", "vague"],
)
def test_a_covariate_that_ends_at_its_bounds_is_doubted_where_the_draws_agree_on_it(rng, sd, spread, is_doubtful):
    """Bounds 0 and 1, a fitted normal law about the middle; `spread` is how far its sd is known, on the log scale."""
    columns = {"age": nw.Bounded(0, 1), "y": nw.Bounded(-50, 50)}
    made = nw.Schema(columns, n=1000, neighbours="change-one")
    age = rng.uniform(0, 1, 1000)
    problem = nw.LinearRegression([AGE], "y").problem(release(rng, [AGE], rows={"age": age, "y": age}, made=made))
    drawn = sd * np.exp(spread * rng.standard_normal((2, 2000)))
    fit = Fit(
        theta=np.zeros((2, 2000, 2)), variance=np.ones((2, 2000)), how="made", mean_x=np.full((2, 2000, 1), 0.5),
        covariance_x=np.square(drawn)[..., None, None],
    )  # fmt: skip
    assert cleaned_share(rng, problem, fit).is_doubtful == is_doubtful


def fitted(rng, made, rows, features=(SMOKES, AGE), draws=60):
    model = nw.LinearRegression(list(features), "y")
    problem = model.problem(release(rng, features, rows=rows, made=made, guarantee=nw.GaussianDP(5)))
    return problem, marginal.sample(problem, rng, chains=2, draws=draws, warmup=150)


def test_clamped_rows_are_counted_draw_by_draw_as_simulated_rows_are(rng):
    """Against 100 000 rows at one draw, with bounds that a twentieth to a fifth of them exceed."""
    narrow = schema(400, columns={"smoker": nw.Levels(["no", "yes"]), "age": nw.Bounded(-6, 6), "y": nw.Bounded(-3, 3)})
    problem, fit = fitted(rng, narrow, records(rng, 400))
    (holder,) = problem.holders
    shares = clamped_shares(problem.covariates, problem, holder, fit)
    assert len(shares) == 120
    for place in (0, 59, 119):
        own = (predictive_rows(rng, problem, fit, 100_000, divmod(place, 60)) @ holder.map.T)[:, 1:]
        outside = np.mean(np.any((own < holder.low - 1e-9) | (own > holder.high + 1e-9), axis=1))
        assert shares[place] == pytest.approx(outside, abs=6 * math.sqrt(outside / 1e5))
    share = cleaned_share(rng, problem, fit)
    assert share.is_sure
    assert share.rows == 400


def test_a_combination_that_is_all_but_empty_clamps_nobody(rng):
    """n = 30, one smoker: the smokers' coefficient follows its prior, some draws of which throw them far away."""
    rows = {"smoker": np.eye(1, 30, dtype=int)[0], "age": rng.normal(size=30), "y": 1 + rng.normal(size=30)}
    problem, fit = fitted(rng, schema(30), rows)
    share = cleaned_share(rng, problem, fit)
    assert not share.is_sure
    assert share.rows * share.clamped >= 1 or share.sentences() == []


def test_sums_that_are_far_from_normal_are_warned_of_first(rng):
    """Three smokers among 200, hardly any noise; with half of 2000 smoking nothing is said."""
    rare = {**records(rng, 200), "smoker": (np.arange(200) < 3).astype(int)}
    for rows, n, is_said in ((rare, 200, True), (records(rng, 2000, 0.5), 2000, False)):
        given = release(rng, rows=rows, made=schema(n), guarantee=nw.GaussianDP(20))
        verdict = nw.infer(given, nw.LinearRegression([SMOKES, AGE], "y"), **FEW).verdict
        said = [warning for warning in verdict.warnings if "intervals may be too narrow" in warning]
        assert bool(said) == is_said
        assert verdict.warns or not is_said
        assert str(verdict).startswith("The noisy sums") or not is_said


LEVELS = nw.column("town")
TOWNS = {"town": nw.Levels(["a", "b", "c", "d"]), "age": nw.Bounded(-6, 6), "y": nw.Bounded(-10, 10)}


@pytest.mark.parametrize(
    ("features", "told", "unknowns"),
    [
        (
            [LEVELS.equals(level) for level in "abc"],
            8,
            8,
        ),  # 3 shares, y and y*y, 3 means; 4 coefficients, noise, shares
        ([2 * LEVELS.equals(level) - 1 for level in "abc"], 8, 8),
        ([LEVELS.equals(level) for level in "ab"], 6, 6),
        ([LEVELS.equals("a"), AGE], 8, 8),
        ([LEVELS.equals("a"), 1 - LEVELS.equals("a")], 4, 5),
        ([AGE.between(0, 6), LEVELS.equals("a")], 7, 7),  # the product of two conditions is a number of its own
        ([AGE], 5, 5),
        ([AGE, 2 * AGE], 5, 9),  # a normal law of both has a covariance that no record contradicts
    ],
)
def test_numbers_and_unknowns_are_counted_as_functions_of_a_record(rng, features, told, unknowns):
    made = nw.Schema(TOWNS, n=300, neighbours="change-one")
    rows = {"town": rng.integers(0, 4, 300), "age": rng.normal(size=300), "y": rng.normal(size=300)}
    given = release(rng, features, rows=rows, made=made)
    counted = nw.LinearRegression(features, "y").degrees((given,), {})
    assert (counted.told, counted.shapes, counted.unknowns) == (told, told, unknowns)


def test_features_that_add_up_to_a_constant_are_named_first(rng):
    smokes_not = nw.column("smoker").equals("no")
    for features, words in (
        ([SMOKES, smokes_not], "equals(smoker, 'yes') and equals(smoker, 'no') add up to a constant, as the intercept"),
        ([SMOKES, AGE, SMOKES - 2 * AGE], "equals(smoker, 'yes'), age and "),
        ([SMOKES, AGE, SMOKES * AGE], ""),
    ):
        model = nw.LinearRegression(features, "y")
        said = collinear_caution(model, model.observed(release(rng, features)))
        assert len(said) == bool(words)
        assert all(sentence.startswith(words) for sentence in said)
    free = nw.LinearRegression([SMOKES, smokes_not], "y", intercept=False)
    given = release(rng, [SMOKES, smokes_not], intercept=False)
    assert collinear_caution(free, free.observed(given)) == []
    verdict = nw.infer(
        release(rng, [SMOKES, smokes_not]), nw.LinearRegression([SMOKES, smokes_not], "y"), **FEW
    ).verdict
    assert verdict.warns
    assert str(verdict).startswith("equals(smoker, 'yes') and equals(smoker, 'no') add up to a constant")
