"""Models by name: what a spec file and a saved posterior may hold, and one way to write and to read all of them.

    def _logistic_regression() -> type[ModelBase]:
    from noisewise.regression.glm.model import LogisticRegression

    return LogisticRegression


def _probit_regression() -> type[ModelBase]:
    from noisewise.regression.glm.model import ProbitRegression

    return ProbitRegression


def _poisson_regression() -> type[ModelBase]:
    from noisewise.regression.glm.model import PoissonRegression

    return PoissonRegression


register_model("LinearRegression", "linear_regression", load)
    linear_regression(features=['age'], response='cost', ...)        graphical_model(cliques=[...], levels={...})

`load` imports the model by a statement of its own, when it is first asked for. A file never says what is imported: a
name that is not here is refused. A model writes its arguments as texts and reads them from a syntax tree; that they are
its arguments, all by name and none left out, is checked here. Nothing is evaluated as code. A saved posterior's model
may be longer than what people write.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from noisewise.errors import InvalidArgument, InvalidSpec
from noisewise.expressions import parsed
from noisewise.models.base import ModelBase
from noisewise.populations.text import ANY_COLUMN, call_text, timed_call
from noisewise.printable import shown

__all__ = [
    "MODELS",
    "RegisteredModel",
    "literal",
    "model_from_spec",
    "model_of_nodes",
    "model_to_spec",
    "register_model",
    "written_as",
]

LONGEST_TEXT = 10_000_000


@dataclass(frozen=True, slots=True)
class RegisteredModel:
    """A model's name in saved files and in spec files, and what imports it."""

    name: str
    text_name: str
    load: Callable[[], type[ModelBase]]


_KNOWN: dict[str, RegisteredModel] = {}
MODELS: Mapping[str, RegisteredModel] = _KNOWN


def register_model(name: str, text_name: str, load: Callable[[], type[ModelBase]]) -> None:
    """Add a model under names that are not taken."""
    if name in _KNOWN or written_as(text_name) is not None:
        raise InvalidArgument(f"There is a model {name!r} already.", argument="name")
    _KNOWN[name] = RegisteredModel(name, text_name, load)


def written_as(name: str) -> RegisteredModel | None:
    """The model that a spec file calls so, by either name."""
    return next((entry for entry in _KNOWN.values() if name in (entry.name, entry.text_name)), None)


def model_to_spec(model: ModelBase) -> dict[str, str]:
    """The [population] section that reads back as this model."""
    return {ANY_COLUMN: call_text(model.text_name, [], model.text_arguments())}


def model_from_spec(spec: Mapping[str, str]) -> ModelBase | None:
    """The model that a [population] section describes; None where it describes something else."""
    text = spec.get(ANY_COLUMN) if isinstance(spec, Mapping) else None
    if isinstance(text, str) and len(spec) == 1 and len(text) <= LONGEST_TEXT:
        try:
            node = parsed(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise InvalidSpec("The model cannot be read.", where="population") from None
        match node:
            case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords) if entry := written_as(name):
                return model_of_nodes(entry, {str(keyword.arg): keyword.value for keyword in keywords})
    return None


def model_of_nodes(entry: RegisteredModel, nodes: Mapping[str, ast.expr]) -> ModelBase:
    """The model of that entry with these arguments."""
    kind, name = entry.load(), entry.text_name
    unknown = [given for given in nodes if given not in kind.takes]
    if unknown or not set(kind.needs) <= set(nodes):
        wrong = f"has no {shown(unknown[0])}" if unknown else f"needs {' and '.join(kind.needs)}"
        raise InvalidSpec(f"{name} {wrong}; it takes {', '.join(kind.takes)}.", where=name)
    return timed_call(kind.from_nodes, name, nodes)


def literal(node: ast.expr, name: str, where: str) -> Any:
    """Lists, mappings, texts, whole numbers and True."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise InvalidSpec(
            f"{where}: {name} must be written with lists, quoted texts and whole numbers.", where=where
        ) from None


def _linear_regression() -> type[ModelBase]:
    from noisewise.regression.model import LinearRegression

    return LinearRegression


def _graphical_model() -> type[ModelBase]:
    from noisewise.graphical.model import GraphicalModel

    return GraphicalModel


def _logistic_regression() -> type[ModelBase]:
    from noisewise.regression.glm.model import LogisticRegression

    return LogisticRegression


def _probit_regression() -> type[ModelBase]:
    from noisewise.regression.glm.model import ProbitRegression

    return ProbitRegression


def _poisson_regression() -> type[ModelBase]:
    from noisewise.regression.glm.model import PoissonRegression

    return PoissonRegression


def _grouped() -> type[ModelBase]:
    from noisewise.grouped.model import Grouped

    return Grouped


register_model("LinearRegression", "linear_regression", _linear_regression)
register_model("GraphicalModel", "graphical_model", _graphical_model)
register_model("LogisticRegression", "logistic_regression", _logistic_regression)
register_model("ProbitRegression", "probit_regression", _probit_regression)
register_model("PoissonRegression", "poisson_regression", _poisson_regression)
register_model("Grouped", "grouped", _grouped)
