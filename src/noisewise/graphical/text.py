"""A graphical model in the grammar of spec files.

    graphical_model(cliques=[['age', 'sex'], ['sex', 'smoker']], levels={'age': ['young', 'old'], ...},
                    tied=[[['t1', 't2'], ['t2', 't3']]])

Columns and levels that are texts are quoted. The text is parsed to literals and checked by the model itself; nothing is
evaluated as code.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from noisewise.errors import InvalidArgument, InvalidSpec
from noisewise.expressions import parsed
from noisewise.graphical.model import GraphicalModel
from noisewise.populations.text import ANY_COLUMN, call_text

__all__ = ["NAME", "model_from_spec", "model_of", "model_to_text"]

NAME = "graphical_model"
ARGUMENTS = ("cliques", "levels", "tied")
LONGEST_TEXT = 10_000_000  # of a saved posterior's model


def model_to_text(model: GraphicalModel) -> str:
    """The text that reads back as this model."""
    levels = {name: list(one.levels) for name, one in zip(model.columns, model.levels, strict=True)}
    named = {"cliques": repr([list(clique) for clique in model.cliques]), "levels": repr(levels)}
    if model.ties:
        named["tied"] = repr([[list(model.cliques[index]) for index in group] for group in model.ties])
    return call_text(NAME, [], named)


def model_of(nodes: Mapping[str, ast.expr]) -> GraphicalModel:
    """The model that a call's arguments describe."""
    unknown = [name for name in nodes if name not in ARGUMENTS]
    if unknown or not {"cliques", "levels"} <= set(nodes):
        wrong = f"has no {unknown[0]!r:.60}" if unknown else "needs cliques and levels"
        raise InvalidSpec(f"{NAME} {wrong}; it takes {', '.join(ARGUMENTS)}.", where=NAME)
    return GraphicalModel(**{name: _literal(node, name) for name, node in nodes.items()})


def model_from_spec(spec: Mapping[str, str]) -> GraphicalModel:
    """Read a [population] section; a saved model may be longer than what people write."""
    text = spec.get(ANY_COLUMN) if isinstance(spec, Mapping) else None
    if not isinstance(text, str) or len(spec) > 1 or len(text) > LONGEST_TEXT:
        raise InvalidArgument("This section describes a population, not a graphical model.", argument="spec")
    try:
        node = parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InvalidSpec("The graphical model cannot be read.", where=NAME) from None
    match node:
        case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords) if name in (NAME, "GraphicalModel"):
            return model_of({str(keyword.arg): keyword.value for keyword in keywords})
    raise InvalidArgument("This section describes a population, not a graphical model.", argument="spec")


def _literal(node: ast.expr, name: str) -> Any:
    """Lists, mappings, texts, whole numbers and True."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise InvalidSpec(f"{NAME}: {name} must be written with lists, quoted texts and whole numbers.",
                          where=NAME) from None  # fmt: skip
