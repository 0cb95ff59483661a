"""Every model keeps the protocol: each member is driven for each model of the registry, and for populations (HOUSE).

A model joins these tests by itself when it is registered; it needs an example below, and is named where it has none.
`spare_parts.Coin` lives outside the package, in one folder and one line.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import pkgutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spare_parts  # registers the coin
from scipy import stats
from spare_parts.coin import METHODS as COIN_METHODS
from spare_parts.coin import Coin

import noisewise as nw
from noisewise.design.coordinates import coordinate_names
from noisewise.errors import InvalidArgument, InvalidSpec, NoisewiseError, Unsupported
from noisewise.graphical.methods import METHODS as GRAPHICAL_METHODS
from noisewise.grouped.learn import METHODS as GROUPED_METHODS
from noisewise.inference.methods import Method, Methods, Option
from noisewise.inference.population_methods import METHODS as POPULATION_METHODS
from noisewise.inference.verdict import Verdict
from noisewise.models.base import ModelBase
from noisewise.models.protocol import Model, model_of
from noisewise.models.registry import MODELS, register_model
from noisewise.planning import Plan
from noisewise.populations.parameters import missing_members, rows_of
from noisewise.populations.population import AnyPopulation
from noisewise.populations.text import population_from_spec
from noisewise.regression.methods import METHODS as REGRESSION_METHODS

assert spare_parts
FAST = {"draws": 60, "warmup": 60, "chains": 2, "seed": 7, "progress": False}
X = nw.column("x")
SCHEMA = nw.Schema({"x": nw.Bounded(0, 10), "y": nw.Bounded(0, 10)}, n=400, neighbours="change-one")
TABLE = nw.Schema({"a": nw.Levels(["u", "v"]), "b": nw.Levels(["p", "q"])}, n=900, neighbours="change-one")
PRICE = nw.PureDP(2)
BY_LEVEL = nw.Schema({"x": nw.Bounded(0, 10), "a": nw.Levels(["u", "v"])}, n=300, neighbours="change-one")


@dataclass(frozen=True)
class Example:
    """A model, a plan it learns from, parameter values, another release's worth of trouble, and what it refuses."""

    given: Any
    plan: Plan
    at: dict[str, Any]
    refuses: dict[str, str]  # member: what the sentence holds


NEAR = nw.NormalCovariates([5.0], 10.0, [[4.0]], 6.0)
ANSWERS = nw.Schema({"x": nw.Bounded(-10, 20), "y": nw.Levels(["no", "yes"])}, n=400, neighbours="change-one")
COUNTS = nw.Schema({"x": nw.Bounded(-10, 20), "y": nw.Bounded(0, 8)}, n=400, neighbours="change-one")
YES = nw.column("y").equals("yes")
NO_RECORDS = {"sample_records": "Regression has no sample_records"}
EXAMPLES = {
    "LinearRegression": Example(
        nw.LinearRegression(
            "x", "y", coefficients=stats.norm(0, 2), noise=stats.invgamma(3, scale=2),
            covariates=nw.NormalCovariates([5.0], 1.0, [[4.0]], 5.0),
        ),
        nw.plan(nw.Moments(["x"], "y"), SCHEMA, guarantee=PRICE),
        {"intercept": 1.0, "x": 0.5, "noise_variance": 1.0},
        {"sample_records": "LinearRegression has no sample_records"},
    ),
    "GraphicalModel": Example(
        nw.GraphicalModel([["a", "b"]], TABLE),
        nw.plan(nw.Marginals(["a", "b"]), TABLE, guarantee=PRICE),
        {"potentials": [0.0, 0.5, 0.2, -0.3]},
        {"coordinates": "is not computed", "information_engine": "GraphicalModel has no information_engine"},
    ),
    "Grouped": Example(
        nw.Grouped("a", x=nw.Normal(mean=stats.norm(5, 3), sd=2.0), pooled=("mean",), names=["u", "v"]),
        nw.plan(nw.Mean(X, by="a"), BY_LEVEL, guarantee=PRICE),
        {"mean": [4.0, 6.0], "share": [0.3, 0.7], "mean.centre": 5.0, "mean.spread": 1.0},
        {"coordinates": "is not computed", "information_engine": "Grouped has no information_engine"},
    ),
    "LogisticRegression": Example(
        nw.LogisticRegression("x", YES, coefficients=stats.norm(0, 1), covariates=NEAR),
        nw.plan(nw.Moments(["x"], YES, parts=["xx", "xy"]), ANSWERS, guarantee=PRICE),
        {"intercept": -1.0, "x": 0.2},
        NO_RECORDS,
    ),
    "ProbitRegression": Example(
        nw.ProbitRegression("x", YES, coefficients=stats.norm(0, 1), covariates=NEAR),
        nw.plan(nw.Moments(["x"], YES), ANSWERS, guarantee=PRICE),
        {"intercept": -1.0, "x": 0.2},
        NO_RECORDS,
    ),
    "PoissonRegression": Example(
        nw.PoissonRegression("x", "y", coefficients=stats.norm(0, 1), covariates=NEAR),
        nw.plan(nw.Moments(["x"], "y"), COUNTS, guarantee=PRICE),
        {"intercept": 0.1, "x": 0.1},
        NO_RECORDS,
    ),
    "Coin": Example(
        Coin(2.0, 3.0), nw.plan(nw.Count(X.between(0, 5)), SCHEMA, guarantee=PRICE), {"share": 0.4},
        {"answer_sources": "Coin has no answer_sources"},
    ),
    "Population": Example(
        nw.Normal(mean=stats.norm(5, 3), sd=2.0), nw.plan(nw.Mean(X), SCHEMA, guarantee=PRICE), {"mean": 5.0}, {}
    ),
    "Joint": Example(
        nw.Joint(x=nw.Normal(mean=stats.norm(5, 3), sd=2.0), y=nw.Normal(mean=4.0, sd=stats.halfnorm(scale=3))),
        nw.plan(nw.Mean(X, nw.column("y")), SCHEMA, guarantee=PRICE),
        {"x.mean": 5.0, "y.sd": 2.0},
        {},
    ),
    "MultivariateNormal": Example(
        nw.MultivariateNormal(columns=["x", "y"], mean=[stats.norm(5, 3), 4.0], sd=[2.0, 2.0], correlation=0.3),
        nw.plan(nw.Mean(X, nw.column("y")), SCHEMA, guarantee=PRICE),
        {"x.mean": 5.0},
        {},
    ),
}  # fmt: skip
EVERY = pytest.mark.parametrize("name", sorted({*MODELS, *EXAMPLES}))
METHOD_LISTS = {
    "population": POPULATION_METHODS, "regression": REGRESSION_METHODS, "graphical": GRAPHICAL_METHODS,
    "coin": COIN_METHODS, "grouped": GROUPED_METHODS,
}  # fmt: skip


def refused(example: Example, member: str) -> bool:
    """Whether a member is not had; then the refusal is checked here and the drive ends."""
    return member in example.refuses


@EVERY
def test_every_member_of_the_protocol_is_there(name: str) -> None:
    assert name in EXAMPLES, f"{name} is registered and has no example here"
    assert not missing_members(model_of(EXAMPLES[name].given), Model)
    if name in MODELS:
        assert MODELS[name].load() is type(EXAMPLES[name].given)
        assert MODELS[name].text_name == EXAMPLES[name].given.text_name


@EVERY
def test_names_supports_and_labels_agree(name: str) -> None:
    example = EXAMPLES[name]
    model = model_of(example.given)
    assert model.described is example.given
    drawn = model.sample_prior(np.random.default_rng(1), 9)
    assert {len(value) for value in drawn.values()} == {9}
    assert set(model.free) <= set(drawn)
    shown = {label for free in model.free for label in model.component_labels.get(free, (free,))}
    assert set(model.supports) == shown
    again, same = model.prior_rows(16), model.prior_rows(16)
    assert all(np.array_equal(again[free], same[free]) for free in model.free)
    assert not set(model.free) & set(model.unlisted)
    if refused(example, "coordinates"):
        with pytest.raises(Unsupported, match=example.refuses["coordinates"]):
            coordinate_names(example.given)
    else:
        assert len(coordinate_names(example.given)) >= 1
    for free in model.free:
        prior = model.prior_of(free)
        assert prior is None or np.isfinite(prior.ppf(0.5))


@EVERY
def test_a_model_answers_in_peoples_terms_or_is_refused_by_name(name: str) -> None:
    example = EXAMPLES[name]
    model = model_of(example.given)
    theta = model.sample_prior(np.random.default_rng(4), 12)
    release = nw.simulate(example.plan, example.given, at=example.at, seed=3)
    assert set(model.parameter_units((release,))) <= set(model.supports)
    if refused(example, "answer_sources"):
        with pytest.raises(Unsupported, match=example.refuses["answer_sources"]):
            model.answer_sources(theta, (release,))
        return
    for source in model.answer_sources(theta, (release,)):
        for quantity in source.quantities:
            drawn = source.drawn(quantity)
            assert drawn.values.shape == (12,)
            assert (drawn.column, drawn.group) == (source.column, source.group)
        for headline in source.headlines():
            assert headline.subject
        with pytest.raises(InvalidArgument):
            source.drawn("nothing of the kind")


@EVERY
def test_a_simulated_release_is_learnt_from_checked_saved_and_read_back(name: str, tmp_path: Any) -> None:
    example = EXAMPLES[name]
    model = model_of(example.given)
    theta = model.theta_at(example.at)
    assert rows_of(theta) == 1
    values = model.simulate_values(np.random.default_rng(2), example.plan, theta, n=None, approximate=True)
    assert values.shape == (1, len(example.plan.statistic.labels(example.plan.part_schema)))
    release = nw.simulate(example.plan, example.given, at=example.at, seed=3)
    found = nw.infer(release, example.given, **FAST)
    assert found.population is example.given
    assert found.how
    assert found.law
    assert found.because == f"{found.how}; {found.law}"
    assert found.method in model.methods
    assert isinstance(found.verdict, Verdict)
    assert set(model.free) <= set(found.draws)
    for free in model.free:
        assert np.array_equal(found.draws[free], nw.infer(release, example.given, **FAST).draws[free])
    counted = model.degrees((release,), {n: np.asarray(v).reshape(-1, *v.shape[2:]) for n, v in found.draws.items()})
    assert counted.told >= 1
    assert 0 <= found.check.overall <= 1
    assert found.statistic.draws.shape[1] == values.shape[1]
    assert sum(len(group.releases) for group in model.joint_likelihood((release,)).groups) == 1
    found.save(tmp_path / "p")
    again = nw.Posterior.load(tmp_path / "p")
    assert type(again.population) is type(example.given)
    assert again.summary() == found.summary()
    assert again.verdict == found.verdict
    assert type(population_from_spec(model.to_spec())) is type(example.given)


@EVERY
def test_information_and_records_are_there_or_refused_by_name(name: str) -> None:
    example = EXAMPLES[name]
    model = model_of(example.given)
    theta = model.theta_at(example.at)
    if refused(example, "information_engine"):
        with pytest.raises(Unsupported, match=example.refuses["information_engine"]):
            model.information_engine(example.plan)
    else:
        found = nw.information(example.plan, example.given, at=example.at)
        assert np.all(np.diag(np.atleast_2d(found.value)) > 0)
        nw.choose([example.plan], example.given)
    columns = sorted(example.plan.part_schema.columns)
    used = columns if name != "Population" and name != "Coin" else columns[:1]
    if refused(example, "sample_records"):
        with pytest.raises(Unsupported, match=example.refuses["sample_records"]):
            model.sample_records(np.random.default_rng(4), example.plan.part_schema, 5, theta, used)
    else:
        records = model.sample_records(np.random.default_rng(4), example.plan.part_schema, 5, theta, used)
        assert {name: value.shape for name, value in records.items()} == dict.fromkeys(used, (1, 5))


@EVERY
def test_methods_and_options_that_are_not_there_are_refused_before_anything_is_read(name: str) -> None:
    example = EXAMPLES[name]
    with pytest.raises(InvalidArgument, match="there are auto, ") as error:
        nw.infer("no release", example.given, method="no such method")
    assert error.value.argument == "method"
    for method in model_of(example.given).methods:
        with pytest.raises(InvalidArgument, match=f"'shape' is not an option of method='{method}'"):
            nw.infer("no release", example.given, method=method, shape=3)


@pytest.mark.parametrize("name", METHOD_LISTS)
def test_every_method_can_be_loaded_and_its_options_are_what_its_function_takes(name: str) -> None:
    for method in METHOD_LISTS[name].values():
        function = method.load()
        assert callable(function), method.name
        named = inspect.signature(function).parameters
        if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in named.values()):
            continue
        for option in method.options:
            assert named[option.name].default == option.default, (method.name, option.name)


def test_a_method_can_be_registered_once() -> None:
    methods = Methods("a toy", Method("one", lambda: min), instead="one")
    methods.register(Method("two", lambda: max, options=(Option("key"),), is_point=True))
    assert list(methods) == ["one", "two"]
    assert methods["two"].run is max
    assert methods["two"].read({"key": 3}) == {"key": 3}
    for taken in ("one", "auto"):
        with pytest.raises(InvalidArgument, match="already"):
            methods.register(Method(taken, lambda: min))
    with pytest.raises(InvalidArgument, match="for a toy there are auto, one, two"):
        methods["three"]


# ---- what lacks a member ----


@pytest.mark.parametrize("member", [name for name in vars(Model) if name[0] != "_" and name != "posterior"])
def test_a_thing_that_lacks_a_member_of_a_model_is_refused_by_its_name(member: str) -> None:
    whole = {name: None for name in vars(Model) if name[0] != "_"}
    lame = type("Lame", (), {name: value for name, value in whole.items() if name != member})
    assert missing_members(type("Whole", (), whole)(), Model) == []
    for ask in (
        lambda thing: nw.infer([], thing),
        coordinate_names,
        lambda thing: nw.simulate(EXAMPLES["Coin"].plan, thing),
    ):
        with pytest.raises(InvalidArgument, match=f"Lame.*As a model it lacks {member}\\."):
            ask(lame())


@pytest.mark.parametrize("member", [name for name in vars(AnyPopulation) if name[0] != "_" and name != "free"])
def test_a_thing_that_lacks_a_member_of_a_population_is_refused_by_its_name(member: str) -> None:
    whole = {name: None for name in vars(AnyPopulation) if name[0] != "_" and name != member}
    with pytest.raises(InvalidArgument, match=f"Lame.*As a population it lacks {member}\\."):
        nw.infer([], type("Lame", (), whole)())


LACKED = {
    "free": lambda model: model.free,
    "supports": lambda model: model.supports,
    "methods": lambda model: nw.infer([], model, method="any"),
    "observe": lambda model: model.observe([], None),
    "learn": lambda model: model.learn(None, None),
    "sample_prior": lambda model: nw.simulate(EXAMPLES["Coin"].plan, model),
    "simulate_values": lambda model: model.simulate_values(None, None, {}),
    "sample_records": lambda model: model.sample_records(None, None, 1, {}, ()),
    "joint_likelihood": lambda model: model.joint_likelihood(()),
    "degrees": lambda model: model.degrees((), {}),
    "information_engine": lambda model: model.information_engine(EXAMPLES["Coin"].plan),
    "text_arguments": lambda model: model.to_spec(),
    "from_nodes": lambda model: type(model).from_nodes({"a": ast.Constant(1)}),
}


@pytest.mark.parametrize("member", LACKED)
def test_a_model_on_the_base_is_refused_where_it_is_asked_for_what_it_has_not(member: str) -> None:
    class Bare(ModelBase):
        pass

    with pytest.raises(Unsupported, match=f"Bare has no {member}:"):
        LACKED[member](Bare())


def test_the_posterior_of_a_model_is_final() -> None:
    with pytest.raises(TypeError, match=r"Stubborn\.posterior"):
        type("Stubborn", (ModelBase,), {"posterior": None})


# ---- the list of models ----


def test_a_name_is_registered_once_and_no_file_names_another() -> None:
    for name, text in (("Coin", "other"), ("Other", "coin"), ("Other", "Coin")):
        with pytest.raises(InvalidArgument, match="already"):
            register_model(name, text, lambda: Coin)
    with pytest.raises(InvalidSpec, match=r"linear_regression, graphical_model, .*, coin"):
        population_from_spec({"*": "no_such_model(a=1)"})
    for text, words in (("coin(heads=1)", "needs heads and tails"), ("coin(heads=1, tails=2, edge=3)", "no 'edge'")):
        with pytest.raises(InvalidSpec, match=words):
            Coin.from_spec({"*": text})
    with pytest.raises(NoisewiseError, match="does not describe a Coin"):
        Coin.from_spec(EXAMPLES["GraphicalModel"].given.to_spec())


def test_no_population_or_model_is_asked_for_a_member_by_its_name_in_quotes() -> None:
    """The one place that looks for members is `models.protocol`, and it names what is missing."""
    members = {name for protocol in (Model, AnyPopulation) for name in vars(protocol) if name[0] != "_"}
    found = []
    for module in pkgutil.walk_packages(nw.__path__, "noisewise."):
        tree = ast.parse(Path(str(importlib.util.find_spec(module.name).origin)).read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("hasattr", "getattr"):
                named = {part.value for part in node.args[1:2] if isinstance(part, ast.Constant)}
                found += [f"{module.name}:{node.lineno}" for name in named & (members - {"columns"})]
    assert not found
