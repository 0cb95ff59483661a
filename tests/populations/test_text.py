"""Populations as text: writing and reading again changes nothing, and only populations can be written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from noisewise.errors import InvalidSpec, NoisewiseError, Unsupported
from noisewise.populations.cleaned import attach
from noisewise.populations.multivariate import MultivariateNormal
from noisewise.populations.population import (
    Bernoulli,
    Categorical,
    Exponential,
    Gamma,
    Joint,
    LocationScale,
    LogNormal,
    Normal,
    Poisson,
    Population,
    Uniform,
)
from noisewise.populations.text import (
    LONGEST_TEXT,
    population_from_spec,
    population_from_text,
    population_to_spec,
    population_to_text,
)
from noisewise.schema import Bounded, Schema

HALF = stats.halfnorm(scale=0.1 + 0.2)  # a number whose shortest exact form is long
POPULATIONS: list[Any] = [
    Normal(mean=stats.norm(50, 50), sd=HALF),
    Normal(mean=-1e-17, variance=stats.invgamma(3, scale=2 / 3)),
    Normal(prior=stats.normal_inverse_gamma(1.0, 2.5, 3.0, 4.0)),
    Uniform(low=-1, high=stats.uniform(0, 3)),
    Uniform(low=stats.norm(), width=HALF),
    Bernoulli(p=stats.beta(1, 1)),
    Categorical(p=[1 / 3, 1 / 3, 1 / 3]),
    Categorical(p=np.full(7, 1 / 7)),
    Categorical(p=stats.dirichlet([0.5, 1, 2])),
    Poisson(rate=stats.gamma(2.0, scale=3)),
    Exponential(rate=HALF),
    Gamma(shape=HALF, rate=1.5),
    LogNormal(log_mean=stats.norm(), log_sd=0.7),
    LocationScale(stats.t(5), loc=stats.norm(), scale=HALF),
    LocationScale(stats.beta(b=2, a=5), loc=0, scale=HALF),
    LocationScale(stats.logistic, loc=0, scale=HALF),
    Population(stats.weibull_min, c=1.7, scale=HALF),
    Population(stats.nbinom, n=4, p=stats.beta(2, 2)),
    Joint(income=Normal(mean=0, sd=HALF), smoker=Bernoulli(p=stats.beta(1, 1))),
    Joint(**{"with space": Poisson(rate=HALF), "self": Exponential(rate=1)}),
    Joint(income=Normal(mean=0, sd=HALF)),
    MultivariateNormal(columns=["a", "b'"], mean=[0, stats.norm()], sd=[1, HALF], correlation=stats.uniform(-1, 2)),
    MultivariateNormal(columns=["a", "b"], mean=[0, 1], sd=[1, 2], correlation=-0.1),
    MultivariateNormal(columns=["a", "b"], mean=[0, 1], sd=[1, HALF], correlation=[[1, 0.3], [0.3, 1]]),
    Normal(mean=0, sd=HALF).named("income"),
]


def facts(population: Any) -> Any:
    """Everything that a population is, to the bit: laws, known numbers, and the priors' densities."""
    if isinstance(population, Joint):
        return {name: facts(law) for name, law in population.columns.items()}
    if isinstance(population, MultivariateNormal):
        matrix = None if population.matrix is None else population.matrix.tolist()
        return facts(population.margins), matrix, parameter_facts(population.coupling)
    law = population.distribution
    return (type(law).__name__, law.name, getattr(law, "standard", None), list(law.domains), population.column,
            parameter_facts(population.parameters))  # fmt: skip


def parameter_facts(parameters: Any) -> Any:
    known = {name: value.tolist() for name, value in parameters.known.items()}
    drawn = parameters.sample(np.random.default_rng(5), 3)
    return known, parameters.supports, {name: value.tolist() for name, value in drawn.items()}


@pytest.mark.parametrize("population", POPULATIONS, ids=population_to_text)
def test_what_is_written_reads_back_to_the_bit(population: Any) -> None:
    read = population_from_spec(population_to_spec(population))
    assert type(read) is type(population)
    assert facts(read) == facts(population)
    assert read.free == population.free
    text = population_to_text(population)
    assert population_to_text(population_from_text(text)) == text


def test_a_wrong_number_is_noticed_by_this_comparison() -> None:
    assert facts(Normal(mean=0, sd=stats.halfnorm(scale=0.3))) != facts(Normal(mean=0, sd=HALF))


def test_the_examples_people_write_are_read() -> None:
    population = population_from_text(" normal(mean=norm(50, 50), sd=halfnorm(scale=50)) ")
    assert population.free == ("mean", "sd")
    assert population_from_text("LogNormal(log_mean=-3, log_sd=0.5)").distribution.name == "lognormal"
    assert population_from_text("LocationScale(t(5), loc=norm(0, 1), scale=2)").free == ("loc",)
    assert population_from_text("Joint(a=Poisson(rate=2), b=normal(mean=0, sd=1))").columns.keys() == {"a", "b"}
    assert population_from_text("normal(prior=normal_inverse_gamma(0, 1, 2, 3))").free == ("mean", "variance")


def test_one_column_keeps_plain_names_and_its_own_name() -> None:
    population = population_from_spec({"income": "normal(mean=norm(50, 50), sd=1)"})
    assert population.free == ("mean",)
    columns = {"income": Bounded(0, 250), "age": Bounded(0, 100)}
    schema = Schema(columns, n=4, neighbours="change-one")
    assert set(attach(population, schema, ["income"])) == {"income"}
    with pytest.raises(Unsupported, match="'age', which the population does not describe"):
        attach(population, schema, ["age"])
    several = population_from_spec({"income": "normal(mean=norm(50, 50), sd=1)", "age": "poisson(rate=halfnorm())"})
    assert several.free == ("income.mean", "age.rate")


DEEP = "(" * 5000 + "1" + ")" * 5000
HOSTILE = [
    "__import__('os').system('true')",
    "os.system('true')",
    "normal(mean=os.getcwd(), sd=1)",
    "normal(mean=().__class__, sd=1)",
    "normal(mean=stats.norm(0, 1), sd=1)",
    "normal(mean=lambda: 0, sd=1)",
    "(lambda: 0)()",
    "normal(mean=9**9**9, sd=1)",
    "normal(mean=1 + 1, sd=1)",
    "normal(mean=1e999, sd=1)",
    "normal(mean=" + "9" * 400 + ", sd=1)",
    "normal(mean=" + "9" * 6000 + ", sd=1)",
    "normal(mean=-1e999, sd=1)",
    "normal(mean=True, sd=1)",
    "normal(mean=-True, sd=1)",
    "normal(mean='0', sd=1)",
    "normal(mean=None, sd=1)",
    "normal(mean=1j, sd=1)",
    "normal(mean=[x for x in (1, 2)], sd=1)",
    "normal(mean=f'{1}', sd=1)",
    "normal(mean=(m := 1), sd=1)",
    "normal(**{'mean': 0, 'sd': 1})",
    "normal(*[0, 1])",
    "normal(0, 1)",
    "normal(mean=norm(norm(0, 1), 1), sd=1)",
    "normal(mean=norm, sd=1)",
    "normal(mean=gaussian_kde([1, 2]), sd=1)",
    "normal(mean=rv_histogram([1, 2]), sd=1)",
    "normal(mean=norm(0, 1, 2, 3, 4), sd=1)",
    "normal(mean=norm(colour=3), sd=1)",
    "normal(mean=norm(0, 1).rvs(10), sd=1)",
    "normal(mean=0, sd=1, skew=2)",
    "normal(mean=0, mean=1, sd=1)",
    "cauchy(loc=0)",
    "population(os)",
    "population(gaussian_kde)",
    "population(norm(0, 1), loc=0)",
    "location_scale(5, loc=0, scale=1)",
    "joint({1: normal(mean=0, sd=1)})",
    "joint(a=joint(b=normal(mean=0, sd=1)))",
    "joint(a=3)",
    "joint()",
    "multivariate_normal(columns=[a, b], mean=[0, 0], sd=[1, 1], correlation=0)",
    "categorical(p=dirichlet([-1, 2]))",
    "normal(mean=0, sd=1); import os",
    "normal(mean=0, sd=1",
    "normal(mean=0, sd=\x00)",
    "",
    "   ",
    "3",
    "normal",
    "[1, 2]",
    DEEP,
    "-" * 3000 + "1",
    "normal(mean=" + DEEP + ", sd=1)",
    "normal(mean=0, sd=" + "1" * 10**5 + ")",
    "a" * (LONGEST_TEXT + 1),
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:40])
def test_what_is_no_population_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(NoisewiseError) as refused:
        population_from_text(text)
    message = str(refused.value)
    assert len(message) < 400
    assert "\n" not in message
    assert message.endswith(".")


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("normal(mean=os.getcwd(), sd=1)", "os.getcwd()"),
        ("normal(mean=9**9, sd=1)", r"9 \*\* 9"),
        ("normal(mean=gaussian_kde([1, 2]), sd=1)", "gaussian_kde"),
        ("cauchy(loc=0)", "no population 'cauchy'"),
        ("normal(mean=norm, sd=1)", "norm needs its numbers"),
        ("normal(mean=0, sd=1, skew=2)", "skew"),
        ("normal(0, 1)", "by name"),
    ],
)
def test_the_refusal_names_the_offending_piece(text: str, piece: str) -> None:
    with pytest.raises(NoisewiseError, match=piece):
        population_from_text(text)


@pytest.mark.parametrize(
    "table",
    [{}, None, {"a": 3}, {"a": None}, {"*": "normal(mean=0, sd=1)", "a": "normal(mean=0, sd=1)"},
     {"a": "joint(b=normal(mean=0, sd=1))"}],
)  # fmt: skip
def test_a_population_section_that_says_nothing_clear_is_refused(table: Any) -> None:
    with pytest.raises(InvalidSpec):
        population_from_spec(table)


def test_a_distribution_of_ones_own_cannot_be_written() -> None:
    class Own(stats.rv_continuous):
        def _pdf(self, x: Any) -> Any:
            return np.exp(-x)

    population = Population(Own(a=0, name="own"))
    with pytest.raises(Unsupported, match="cannot be written"):
        population_to_text(population)
