"""A Grouped population as spec files and saved posteriors write it.

    grouped(by=['region'], column='income', law=normal(mean=norm(50, 50), sd=halfnorm(scale=50)), pooled=['mean'])
    grouped(holders=True, column='income', law=..., pooled=['mean'], spread=[halfnorm(scale=10)])
Nothing is evaluated as code: texts and lists are literals, laws and priors go through the language of populations.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from noisewise.errors import InvalidSpec
from noisewise.grouped.model import Grouped
from noisewise.models.registry import literal
from noisewise.populations.text import population_from_text, read_value

__all__ = ["grouped_from_nodes"]


def grouped_from_nodes(nodes: Mapping[str, ast.expr]) -> Grouped:
    """The population that these arguments describe."""
    plain = {
        name: literal(nodes[name], name, "grouped")
        for name in ("by", "holders", "column", "pooled", "names")
        if name in nodes
    }
    column = plain.pop("column")
    if column != f"{column}" or not column:
        raise InvalidSpec("grouped: column must be the name of a column in quotes.", where="grouped")
    if "spread" in nodes:
        priors = read_value(nodes["spread"])
        pooled = plain.get("pooled", [])
        if len(priors) != len(pooled):
            raise InvalidSpec("grouped: spread lists one distribution for each pooled parameter.", where="grouped")
        plain["spread"] = dict(zip(pooled, priors, strict=True))
    if "present" in nodes:
        plain["present"] = read_value(nodes["present"])
    if "shares" in nodes:
        plain["shares"] = read_value(nodes["shares"])
    by = plain.pop("by", None)
    law = population_from_text(ast.unparse(nodes["law"]))
    plain[column] = law
    return Grouped(by, **plain)
