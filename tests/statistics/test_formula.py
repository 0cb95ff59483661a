"""Formulas: read as formulaic reads them, into features of the closed language, or refused in a sentence."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from moment_releases import SEED

import noisewise as nw
from noisewise.errors import InvalidArgument, NoisewiseError
from noisewise.statistics.evaluation import evaluated
from noisewise.statistics.formula import FAMILIES, Formula, read_formula

REGIONS = ["north", "south", "west"]
SCHEMA = nw.Schema(
    {
        "age": nw.Bounded(18, 90), "cost": nw.Bounded(0, 100), "smoker": nw.Levels(["no", "yes"]),
        "region": nw.Levels(REGIONS), "income": nw.Bounded(1, 300), "visits": nw.Bounded(0, 10),
        "net pay": nw.Bounded(-5, 5),
    },
    n=1000, neighbours="change-one",
)  # fmt: skip


def read(text: str, family: str = "linear") -> Formula:
    return read_formula(text, SCHEMA, family)


def names(text: str) -> list[str]:
    return [str(feature) for feature in read(text).features]


def records(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    return {
        "age": rng.uniform(18, 90, n), "cost": rng.uniform(0, 100, n), "income": rng.uniform(1, 300, n),
        "smoker": rng.integers(0, 2, n), "region": rng.integers(0, 3, n),
    }  # fmt: skip


def our_matrix(text: str, columns: dict[str, np.ndarray]) -> np.ndarray:
    formula = read(text)
    ours = evaluated(formula.features, columns, SCHEMA)
    return np.column_stack([*([np.ones(len(columns["age"]))] if formula.intercept else []), *ours])


def their_matrix(text: str, columns: dict[str, np.ndarray]) -> np.ndarray:
    import pandas as pd
    from formulaic import model_matrix

    frame = pd.DataFrame(columns)
    frame["smoker"] = pd.Categorical.from_codes(columns["smoker"], ["no", "yes"])
    frame["region"] = pd.Categorical.from_codes(columns["region"], REGIONS)
    return np.asarray(model_matrix(text.split("~")[1], frame), float)


def assert_same_columns(text: str, columns: dict[str, np.ndarray]) -> None:
    """The same columns in whatever order."""
    ours, theirs = our_matrix(text, columns), their_matrix(text, columns)
    assert ours.shape == theirs.shape, text
    near = np.abs(ours[:, :, None] - theirs[:, None, :]).max(axis=0) < 1e-9 * (1 + np.abs(theirs).max())
    assert near.sum(axis=0).tolist() == [1] * theirs.shape[1], text
    assert near.sum(axis=1).tolist() == [1] * theirs.shape[1], text


@pytest.mark.parametrize(
    "text",
    [
        "cost ~ age", "cost ~ age + smoker + C(region)", "cost ~ age + smoker + region", "cost ~ age*smoker",
        "cost ~ region*smoker", "cost ~ (age + income)*region - age:region", "cost ~ 0 + age + income",
        "cost ~ age + income - 1", "cost ~ age*income*smoker", "cost ~ log(income) + age:log(income)",
        "cost ~ (age + smoker + region):income + age + smoker*region + income", "cost ~ age + age:age + age*age",
        "cost ~ age*income + income:smoker",
    ],
)  # fmt: skip
def test_a_formula_has_the_columns_that_formulaic_gives_it(text: str) -> None:
    assert_same_columns(text, records(np.random.default_rng(1), 40))


def test_random_formulas_have_the_columns_that_formulaic_gives_them() -> None:
    rng = np.random.default_rng([SEED, 1])
    columns, main = records(rng, 40), ["age", "income", "smoker", "region", "log(income)"]
    for _ in range(40):
        chosen = [*rng.permutation(main)[: rng.integers(1, 5)]]
        # Every pair among the chosen has its main effects, so margins are there whatever is drawn.
        pairs = [f"{a}{rng.choice([':', '*'])}{b}" for a, b in itertools.combinations(chosen, 2) if rng.random() < 0.5]
        assert_same_columns(f"cost ~ {' + '.join([*chosen, *pairs])}", columns)


def test_indicators_are_told_by_their_levels_and_counted_from_a_stated_reference() -> None:
    assert names("cost ~ age + smoker + C(region)") == [
        "age", "equals(smoker, 'yes')", "equals(region, 'south')", "equals(region, 'west')",
    ]  # fmt: skip
    assert read("cost ~ smoker*region").references == (("smoker", "no"), ("region", "north"))
    assert names("cost ~ C(region, reference='south')") == ["equals(region, 'north')", "equals(region, 'west')"]
    assert "counted from region = west" in str(read("cost ~ C(region, reference='west')"))


@pytest.mark.parametrize(
    ("levels", "named"),
    [
        (["no", "yes"], "'yes'"), (["yes", "no"], "'yes'"), ([1, 0], "1"), ([0, 1], "1"), (["True", "False"], "'True'"),
        (["f", "m"], "'m'"), (["yes", "true"], "'true'"),
    ],
)  # fmt: skip
def test_of_two_levels_the_one_that_means_yes_is_named_else_the_second(levels: list[str | int], named: str) -> None:
    schema = nw.Schema({"x": nw.Levels(levels), "y": nw.Bounded(0, 1)}, n=10, neighbours="change-one")
    assert [str(feature) for feature in read_formula("y ~ x", schema, "linear").features] == [f"equals(x, {named})"]


def test_features_of_the_closed_language_are_terms_and_arithmetic_stands_in_i() -> None:
    text = "cost ~ I(age**2) + (age > 65) + between(age, 20, 30) + column('net pay') + equals(smoker, 'yes')"
    assert names(text) == [
        "age**2", "age > 65", "between(age, 20, 30)", "column('net pay')", "equals(smoker, 'yes')",
    ]  # fmt: skip
    assert names("cost ~ smoker + equals(smoker, 'yes')") == ["equals(smoker, 'yes')"]
    assert not read("cost ~ age - 1").intercept
    assert str(read("log(income) ~ age").response) == "log(income)"


@pytest.mark.parametrize(
    ("text", "family", "sentence"),
    [
        ("cost ~ agee", "linear", "did you mean 'age'"),
        ("cost ~ C(region, reference='sout')", "linear", "did you mean 'south'"),
        ("cost ~ equals(region, 'sout')", "linear", "not one of the levels"),
        ("cost ~ lg(age)", "linear", "did you mean 'log'"),
        ("cost ~ np.log(age)", "linear", "without the name of a library"),
        ("cost ~ .", "linear", "name each column"),
        ("cost ~ age**2", "linear", r"I\(age\*\*2\)"),
        ("cost ~ age^2", "linear", r"I\(age/10\)"),
        ("cost ~ age/10", "linear", r"I\(age/10\)"),
        ("cost ~ age + 2", "linear", "only 0 and 1"),
        ("cost ~ 1", "linear", "names nothing"),
        ("cost age", "linear", "one ~"),
        ("~ age", "linear", "one ~"),
        ("cost ~", "linear", "one ~"),
        ("cost ~ age ~ income", "linear", "one ~"),
        ("cost ~ age + + income", "linear", "without a term"),
        ("cost ~ age:", "linear", "without a term"),
        ("cost ~ ()", "linear", "empty"),
        ("cost ~ (age", "linear", "brackets"),
        ("cost ~ age - income", "linear", "no income to take away"),
        ("cost ~ cost + age", "linear", "both sides"),
        ("income > 50 ~ log(income)", "logistic", "both sides"),
        ("cost ~ age + smoker:income", "linear", r"without income.*smoker = no"),
        ("cost ~ smoker - 1", "linear", "without an intercept"),
        ("cost ~ C(age)", "linear", "number with bounds"),
        ("cost ~ C(region, 'north')", "linear", "reference="),
        ("cost ~ C(region) + C(region, reference='west')", "linear", "two references"),
        ("smoker ~ age", "linear", "family='logistic'"),
        ("smoker ~ age", "poisson", "family='logistic'"),
        ("region ~ age", "logistic", "names one of them"),
        ("cost ~ age", "logistic", "cost > 50"),
        ("log(income) ~ age", "poisson", "count"),
        ("cost ~ log(age - 50)", "linear", "above 0"),
        ("cost ~ (age > 10)", "linear", "in every record"),
        ("cost ~ age `b", "linear", "not part of the language"),
        ("", "linear", "formula such as"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(text: str, family: str, sentence: str) -> None:
    with pytest.raises(NoisewiseError, match=sentence):
        read(text, family)


@pytest.mark.parametrize("family", ["lineer", None, 3, "", True])
def test_a_family_that_is_none_is_refused(family: object) -> None:
    with pytest.raises(InvalidArgument, match="linear, logistic, probit, poisson"):
        read_formula("cost ~ age", SCHEMA, family)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="linear, logistic, probit, poisson"):
        nw.regression("cost ~ age", SCHEMA, family=family)


@pytest.mark.parametrize("text", [None, 3, "x" * 20_000, "cost ~ " + "*".join(f"I(age*{k})" for k in range(20))])
def test_hostile_formulas_are_refused_quickly(text: object) -> None:
    with pytest.raises(NoisewiseError):
        read_formula(text, SCHEMA, "linear")


def test_a_formula_needs_a_schema() -> None:
    with pytest.raises(InvalidArgument, match="schema"):
        nw.regression("cost ~ age", None)  # type: ignore[arg-type]
    with pytest.raises(NoisewiseError, match="only a schema can read"):
        nw.statistic("moments('cost ~ age')")


def test_the_same_text_gives_the_sums_and_the_model_that_learns_from_them() -> None:
    text = "moments('smoker ~ age + C(region)', family='logistic', scale={age: 10})"
    moments = nw.statistic(text, SCHEMA)
    assert moments == nw.Moments.from_formula("smoker ~ age + C(region)", SCHEMA, family="logistic", scale={"age": 10})
    region, smokes = nw.column("region"), nw.column("smoker").equals("yes")
    features = [nw.column("age"), region.equals("south"), region.equals("west")]
    assert moments == nw.Moments(features, smokes, parts=["xx", "xy"], centre={"age": 54}, scale={"age": 10})
    model = nw.regression("smoker ~ age + C(region)", SCHEMA, family="logistic")
    assert isinstance(model, nw.LogisticRegression)
    assert (model.features, model.response, model.intercept) == (moments.features, moments.response, True)  # type: ignore[attr-defined]


def test_numbers_are_centred_in_the_middle_of_their_bounds_and_conditions_are_not() -> None:
    centre = dict(nw.Moments.from_formula("cost ~ age*smoker + log(income)", SCHEMA).centre)
    assert centre.keys() == {"age", "log(income)", "cost"}
    assert (centre["age"], centre["cost"]) == (54, 50)
    assert float(centre["log(income)"]) == pytest.approx(np.log(300) / 2, abs=0.03)
    assert nw.Moments.from_formula("cost ~ age - 1", SCHEMA).centre == ()
    assert nw.Moments.from_formula("cost ~ age", SCHEMA, centre={}).centre == ()


@pytest.mark.parametrize(
    ("family", "text", "kind"),
    [("linear", "cost ~ age", "LinearRegression"), ("logistic", "smoker ~ age + C(region)", "LogisticRegression"),
     ("probit", "smoker ~ age", "ProbitRegression"), ("poisson", "visits ~ age + C(region)", "PoissonRegression")],
)  # fmt: skip
def test_every_family_learns_from_the_release_of_its_formula(family: str, text: str, kind: str) -> None:
    """Coefficients at which the release was simulated lie within six posterior sd (a normal tail of 2e-9 each)."""
    model = nw.regression(text, SCHEMA, family=family)
    assert type(model).__name__ == kind
    plan = nw.plan(nw.Moments.from_formula(text, SCHEMA, family=family), SCHEMA, guarantee=nw.GaussianDP(2))
    known = {"intercept": 0.3, "age": 0.01, "equals(region, 'south')": -0.3, "equals(region, 'west')": 0.4}
    truth: dict[str, object] = {name: known[name] for name in known if name in model.free}
    share = [0.5, 0.3, 0.2] if "region" in text else [1.0]
    law = {"configuration_share": share, "number_mean": [[50.0]] * len(share), "number_covariance": [[80.0]]}
    if family == "linear":
        law = {"noise_variance": 25.0, "covariate_mean": [50.0], "covariate_covariance": [[80.0]]}
    release = nw.simulate(plan, model, at=truth | law, seed=1)
    posterior = nw.infer(release, model, seed=1, draws=250, progress=False)
    for name in truth:
        assert abs(posterior.mean[name] - known[name]) < 6 * posterior.sd[name]


def test_every_family_has_parts() -> None:
    assert FAMILIES.keys() == {"linear", "logistic", "probit", "poisson"}
