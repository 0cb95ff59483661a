"""Populations written as text, read by a whitelist parser.

    population_from_text("normal(mean=norm(50, 50), sd=halfnorm(scale=50))")
    population_from_spec({"income": "lognormal(log_mean=norm(3, 1), log_sd=0.7)", "smoker": "bernoulli(p=beta(1, 1))"})

The outermost name is one of our populations; names inside are scipy.stats distributions with numbers, frozen as priors.
The text is parsed to a syntax tree and walked; a node that is not on the list is refused. Nothing is ever evaluated as
code, so a spec or a posterior from a stranger can be read safely. Writing and reading again gives the same population,
to the last bit of every number.
"""

from __future__ import annotations

import ast
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import numpy as np
from scipy import stats

from noisewise.errors import InvalidSpec, NoisewiseError, Unsupported
from noisewise.expressions import parsed
from noisewise.populations.correlation import LKJ
from noisewise.populations.distribution import FromScipy, GammaLaw
from noisewise.populations.mixture import Mixture
from noisewise.populations.multivariate import MultivariateNormal
from noisewise.populations.parameters import is_prior, offers
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
from noisewise.printable import did_you_mean, printable, shown

if TYPE_CHECKING:
    from noisewise.likelihood.size_prior import Size
    from noisewise.populations.mixture import MixtureLaw

LONGEST_TEXT, LONGEST_NUMBER = 20_000, 30
LONGEST_SECONDS = 5.0  # of the processor, for one population: some distributions are slow to look at
ANY_COLUMN = "*"  # the entry of a spec for a population that names its columns itself, or none
Written = Population | Joint | MultivariateNormal
Model = TypeVar("Model")

NAMED: Mapping[str, Callable[..., Population]] = {
    "normal": Normal,
    "uniform": Uniform,
    "bernoulli": Bernoulli,
    "categorical": Categorical,
    "poisson": Poisson,
    "exponential": Exponential,
    "gamma": Gamma,
    "lognormal": LogNormal,
}
EXAMPLES: Mapping[str, str] = {
    "normal": "normal(mean=norm(50, 50), sd=halfnorm(scale=50))",
    "uniform": "uniform(low=0, high=halfnorm(scale=100))",
    "bernoulli": "bernoulli(p=beta(1, 1))",
    "categorical": "categorical(p=dirichlet([1, 1, 1]))",
    "poisson": "poisson(rate=gamma(2, scale=3))",
    "exponential": "exponential(rate=gamma(2, scale=1))",
    "gamma": "gamma(shape=gamma(2, scale=1), rate=gamma(2, scale=1))",
    "lognormal": "lognormal(log_mean=norm(3, 1), log_sd=halfnorm(scale=1))",
}
OTHERS = ("location_scale", "population", "mixture", "joint", "multivariate_normal")
CAMEL = {"LogNormal": "lognormal", "LocationScale": "location_scale", "MultivariateNormal": "multivariate_normal"}
SEVERAL: Mapping[str, object] = {
    "dirichlet": stats.dirichlet,
    "normal_inverse_gamma": stats.normal_inverse_gamma,
    "lkj": LKJ,
}


def population_from_text(text: str) -> Written:
    """Read a population such as 'normal(mean=norm(50, 50), sd=halfnorm(scale=50))'."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidSpec(
            f"Expected a population such as 'normal(mean=norm(0, 1), sd=2)', not {shown(text)}.", where="population"
        )
    if len(text) > LONGEST_TEXT:
        raise InvalidSpec(f"A population of {len(text)} characters is longer than {LONGEST_TEXT}.", where="population")
    try:
        with _timed():
            return _population(parsed(text))
    except NoisewiseError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        raise InvalidSpec(f"{_short(text)} cannot be read as a population.", where="population") from None


def population_from_spec(table: Mapping[str, str]) -> Written:
    """Read a spec's [population]: one text a column; one column keeps plain parameter names, several are a Joint."""
    if not isinstance(table, Mapping) or not table:
        raise InvalidSpec(
            '[population] needs an entry for each column, as in income = "normal(...)".', where="population"
        )
    if ANY_COLUMN in table:
        if len(table) > 1:
            raise InvalidSpec(
                f"[population] has {ANY_COLUMN!r}, which stands for all columns, and others beside it.",
                where="population",
            )
        return population_from_text(table[ANY_COLUMN])
    columns = {}
    with _timed():
        for column, text in table.items():
            population = population_from_text(text)
            if not isinstance(population, Population):
                raise InvalidSpec(
                    f"The entry of {shown(column)} describes several columns; write it under {ANY_COLUMN!r}.",
                    where=str(column),
                )
            columns[column] = population
    if len(columns) == 1:
        ((column, population),) = columns.items()
        return population.named(column)
    return Joint(**columns)


def size_from_text(text: str) -> Size:
    """A number of records, or its prior, as a command line or a saved posterior writes it: '4000', 'poisson(1000)'."""
    if text.strip().isdecimal() and len(text) < LONGEST_NUMBER:
        return int(text)
    if len(text) > LONGEST_TEXT:
        raise InvalidSpec(f"A prior of {len(text)} characters is longer than {LONGEST_TEXT}.", where="n")
    try:
        with _timed():
            found = read_value(parsed(text))
    except NoisewiseError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        found = None
    if not offers(found, "logpmf"):
        raise InvalidSpec(
            f"n = {_short(text)}: give a whole number of records, as 4000, or a prior of it, as poisson(1000) or "
            "randint(500, 2001).",
            where="n",
        )
    return cast("Size", found)


def population_to_text(population: Written) -> str:
    """The text that reads back as this population (of whichever column: a spec also says which)."""
    if isinstance(population, Joint):
        entries = {name: population_to_text(law) for name, law in population.columns.items()}
        return f"joint({{{', '.join(f'{name!r}: {text}' for name, text in entries.items())}}})"
    if isinstance(population, MultivariateNormal):
        return _multivariate_text(population)
    law = population.distribution
    if population.components:
        mixed = cast("MixtureLaw", law)
        inside = ", ".join(map(population_to_text, population.components))
        order = {} if mixed.order is None else {"order": repr(mixed.order)}
        weights = prior_text(mixed.weights) if is_prior(mixed.weights) else number_text(mixed.weights)
        return call_text("mixture", [f"[{inside}]"], {"weights": weights, **order})
    parameters = _parameter_texts(population)
    if isinstance(law, FromScipy):
        base = _scipy_name(law.distribution)
        if law.standard:
            return call_text("location_scale", [f"{base}({', '.join(map(number_text, law.standard))})"], parameters)
        return call_text("population", [base], parameters)
    name = "exponential" if isinstance(law, GammaLaw) and not law.has_shape else law.name
    if name not in NAMED:
        raise Unsupported(f"A law of one's own ({shown(name)}) is made of functions of Python, which no text can hold.")
    return call_text(name, [], parameters)


def population_to_spec(population: Written) -> dict[str, str]:
    """The [population] section that reads back as this population."""
    if isinstance(population, Joint) and len(population.columns) > 1 and ANY_COLUMN not in population.columns:
        return {name: population_to_text(law) for name, law in population.columns.items()}
    column = population.column if isinstance(population, Population) else None
    return {ANY_COLUMN if column is None else column: population_to_text(population)}


def _population(node: ast.expr) -> Written:
    made: Written = _read_population(node)
    return made


def _read_population(node: ast.expr) -> Any:
    from noisewise.models.registry import MODELS, model_of_nodes, written_as

    match node:
        case ast.Call(func=ast.Name(id=given), args=args, keywords=keywords):
            name = CAMEL.get(given, given[:1].lower() + given[1:])
            if name in NAMED and not args:
                return _made(NAMED[name], given, [], {key: read_value(v) for key, v in _named(keywords, node).items()})
            if name in ("population", "location_scale") and len(args) == 1:
                make = Population if name == "population" else LocationScale
                base = _scipy(args[0].id) if isinstance(args[0], ast.Name) else read_value(args[0])
                return _made(make, given, [base], {key: read_value(v) for key, v in _named(keywords, node).items()})
            if name == "mixture" and len(args) == 1 and isinstance(args[0], ast.List):
                listed = [_one_column(entry) for entry in args[0].elts]
                return _made(Mixture, given, [listed], _mixture_arguments(_named(keywords, node)))
            if name == "joint":
                return Joint(**{column: _one_column(v) for column, v in _joint_entries(args, keywords, node).items()})
            if name == "multivariate_normal" and not args:
                return _made(MultivariateNormal, given, [], _multivariate_arguments(_named(keywords, node)))
            if not args and (entry := written_as(given)) is not None:
                return model_of_nodes(entry, _named(keywords, node))
            if name in NAMED:
                raise InvalidSpec(
                    f"{given} takes its parameters by name, as in {EXAMPLES[name]}, not as in {_shown(node)}.",
                    where=given,
                )
            known = (*NAMED, *OTHERS, *(entry.text_name for entry in MODELS.values()))
            raise InvalidSpec(
                f"There is no population {shown(given)}{did_you_mean(given, known)}; there are {', '.join(known)}.",
                where=given[:60],
            )
        case ast.Name(id=given) if given.lower() in NAMED:
            raise InvalidSpec(f"{given} needs its parameters, as in {EXAMPLES[given.lower()]}.", where=given)
    return _refuse(node)


def read_value(node: ast.expr) -> Any:
    """A number, a list of values, or a prior."""
    match node:
        case ast.Constant(value=number) if (
            isinstance(number, int | float) and number is not True and number is not False
        ):
            if abs(number) > 1e300 or not math.isfinite(number):
                raise InvalidSpec(f"The number {_shown(node)} is too large.", where="population")
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() as operand):
            return -read_value(operand)
        case ast.List(elts=entries) | ast.Tuple(elts=entries):
            return [read_value(entry) for entry in entries]
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            numbers = {key: _number(v) for key, v in _named(keywords, node).items()}
            return _made(_scipy(name), name, [_number(arg) for arg in args], numbers)
        case ast.Name(id=name) if name in SEVERAL or isinstance(getattr(stats, name, None), _SCIPY):
            raise InvalidSpec(f"{name} needs its numbers, as in {name}(...).", where=name)
    return _refuse(node)


def _number(node: ast.expr) -> Any:
    return read_value(node) if not isinstance(node, ast.Call) else _refuse(node)


_SCIPY = (stats.rv_continuous, stats.rv_discrete)


def _scipy(name: str) -> Any:
    """A scipy.stats distribution by its name, and nothing else that scipy.stats holds."""
    found = SEVERAL.get(name, getattr(stats, name, None))
    if name not in SEVERAL and not isinstance(found, _SCIPY):
        known = [one for one in dir(stats.distributions) if one.islower()]
        raise InvalidSpec(
            f"There is no distribution {shown(name)} in scipy.stats{did_you_mean(name, known)}; priors are its "
            "distributions, such as norm(50, 20), halfnorm(scale=20), beta(1, 1), uniform(0, 10).",
            where=name[:60],
        )
    return found


def _named(keywords: list[ast.keyword], node: ast.expr) -> dict[str, ast.expr]:
    named = {keyword.arg: keyword.value for keyword in keywords if keyword.arg is not None}
    if len(named) != len(keywords):
        _refuse(node)
    return named


def _one_column(node: ast.expr) -> Population:
    population = _population(node)
    return population if isinstance(population, Population) else _refuse(node)


def _joint_entries(args: list[ast.expr], keywords: list[ast.keyword], node: ast.expr) -> dict[str, ast.expr]:
    match args:
        case []:
            return _named(keywords, node)
        case [ast.Dict(keys=keys, values=values)] if not keywords:
            names = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
            if len(set(names)) == len(values):
                return dict(zip(names, values, strict=True))
    return _refuse(node)


def _mixture_arguments(named: Mapping[str, ast.expr]) -> dict[str, object]:
    """weights as values are read, order as a word."""
    return {key: ast.literal_eval(node) if key == "order" else read_value(node) for key, node in named.items()}


def _multivariate_arguments(named: Mapping[str, ast.expr]) -> dict[str, Any]:
    arguments = {}
    for key, node in named.items():
        if key == "columns" and isinstance(node, ast.List):
            arguments[key] = [entry.value if isinstance(entry, ast.Constant) else _refuse(entry) for entry in node.elts]
        else:
            arguments[key] = read_value(node)
    return arguments


_DEADLINE: ContextVar[float | None] = ContextVar("_DEADLINE", default=None)


@contextmanager
def _timed() -> Iterator[None]:
    """Within this block populations are made as long as the processor's time lasts; blocks inside share it."""
    if _DEADLINE.get() is not None:
        yield
        return
    token = _DEADLINE.set(time.thread_time() + LONGEST_SECONDS)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def _made(make: Any, name: str, positional: list[Any], named: Mapping[str, Any]) -> Any:
    deadline = _DEADLINE.get()
    if deadline is not None and time.thread_time() > deadline:
        raise InvalidSpec(
            f"The population takes more than {LONGEST_SECONDS:g} seconds to read; scipy computes its distributions by "
            "numerical integration. Use others, or fewer of them.",
            where="population",
        )
    try:
        with np.errstate(all="ignore"):
            return make(*positional, **named)
    except NoisewiseError:
        raise
    except TypeError:  # a scipy distribution with other arguments than it has
        shapes = getattr(make, "shapes", None)
        taken = f"{shapes}, loc and scale" if shapes else "loc and scale"
        raise InvalidSpec(
            f"{name} cannot be called like this: it takes {taken}, as in {name}({'2, ' if shapes else ''}loc=0, "
            "scale=1).",
            where=name,
        ) from None
    except ValueError as error:
        raise InvalidSpec(f"{name}: {printable(error).rstrip('.')}.", where=name) from None


def timed_call(make: Callable[[Mapping[str, ast.expr]], Model], name: str, nodes: Mapping[str, ast.expr]) -> Model:
    """What a model makes of its arguments, within the time that is left."""
    with _timed():
        made: Model = _made(make, name, [nodes], {})
    return made


def _refuse(node: ast.AST) -> NoReturn:
    raise InvalidSpec(
        f"{_shown(node)} is not part of the language of populations: write numbers, lists, and distributions by name.",
        where="population",
    )


def _shown(node: ast.AST) -> str:
    return _short(ast.unparse(node))


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _multivariate_text(population: MultivariateNormal) -> str:
    texts = {name: _parameter_texts(law) for name, law in population.columns.items()}
    parts = {key: f"[{', '.join(text[key] for text in texts.values())}]" for key in ("mean", "sd")}
    if population.matrix is not None:
        parts["correlation"] = number_text(population.matrix)
    else:
        (known,) = population.coupling.known.values() or (None,)
        prior = population.coupling.priors.get("correlation")
        parts["correlation"] = prior_text(prior) if known is None else number_text(known[0])
    return call_text("multivariate_normal", [], {"columns": repr(list(population.columns)), **parts})


def _parameter_texts(population: Population) -> dict[str, str]:
    parameters = population.parameters
    if parameters.joint is not None:
        return {"prior": prior_text(parameters.joint[1])}
    known = {name: number_text(value[0]) for name, value in parameters.known.items()}
    priors = {name: prior_text(prior) for name, prior in parameters.priors.items()}
    return {name: (known | priors)[name] for name in population.distribution.domains}


def prior_text(prior: Any) -> str:
    """A frozen scipy.stats distribution as text that reads back as the same one."""
    kind = type(prior).__name__.removesuffix("_frozen")
    if kind == "LKJ":
        return call_text("lkj", [number_text(prior.eta)], {})
    if kind == "multivariate_normal":
        return call_text(kind, [number_text(prior.mean), number_text(prior.cov)], {})
    if kind == "dirichlet":
        return call_text("dirichlet", [number_text(prior.alpha)], {})
    if kind == "normal_inverse_gamma":
        return call_text(kind, [number_text(value) for value in prior._shapes], {})
    named = {name: number_text(value) for name, value in prior.kwds.items()}
    return call_text(_scipy_name(prior.dist), [number_text(value) for value in prior.args], named)


def _scipy_name(distribution: Any) -> str:
    name = str(distribution.name)
    if type(getattr(stats, name, None)) is not type(distribution):
        raise Unsupported(f"{shown(name)} is not a distribution of scipy.stats, so it cannot be written as text.")
    return name


def call_text(name: str, positional: list[str], named: Mapping[str, str]) -> str:
    """name(positional, key=value)."""
    return f"{name}({', '.join([*positional, *(f'{key}={value}' for key, value in named.items())])})"


def number_text(value: Any) -> str:
    """A number or a nested list of numbers, exactly: repr gives the shortest text that reads back to the same bits."""
    plain = np.asarray(value).tolist()
    return repr(plain)
