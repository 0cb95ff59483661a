"""A regression from a formula: `nw.regression("relapse ~ age + smoker", schema, family="logistic")`.

The formula is read by `statistics/formula.py`, under the schema alone, so that the model learns exactly from what
`Moments.from_formula` of the same text releases. In spec files the model's text has `formula='...'` in the place of
features, response and intercept, which are written out before it is read.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, cast

from noisewise.errors import InvalidSpec
from noisewise.expressions import words
from noisewise.models.registry import written_as
from noisewise.regression.subject import MomentsRegression
from noisewise.schema import Schema
from noisewise.statistics.formula import FAMILIES, checked_family, read_formula

__all__ = ["regression", "written_out"]

REPLACED = ("features", "response", "intercept")


def regression(formula: str, schema: Schema, *, family: str = "linear", **beliefs: Any) -> MomentsRegression:
    """The regression that a formula describes, to be learnt from a release of `Moments.from_formula(formula, schema)`.

    Parameters
    ----------
    formula
        Such as 'cost ~ age + smoker + C(region)'; docs/formulas.md has the language.
    schema
        The public facts about the records, as in the release (`release.schema`).
    family
        "linear" (default), "logistic", "probit" or "poisson".
    beliefs
        `coefficients`, `covariates`, and what else the model of that family takes.

    Returns
    -------
    LinearRegression, LogisticRegression, ProbitRegression or PoissonRegression

    Examples
    --------
    >>> schema = nw.Schema({"age": nw.Bounded(18, 90), "cost": nw.Bounded(0, 50)}, n=400, neighbours="change-one")
    >>> nw.regression("cost ~ age", schema).free
    ('intercept', 'age', 'noise_variance')
    """
    entry = written_as(f"{checked_family(family)}_regression")
    assert entry is not None  # every family is a model of this room
    read = read_formula(formula, schema, family)
    make = cast(Any, entry.load())
    return cast(MomentsRegression, make(read.features, read.response, intercept=read.intercept, **beliefs))


def written_out(section: Mapping[str, str], schema: Schema) -> dict[str, str]:
    """A spec's [population] with the features, the response and the intercept in the place of every formula."""
    return {name: _written_out(str(text), schema) for name, text in section.items()}


def _written_out(text: str, schema: Schema) -> str:
    try:
        found = words(text)
    except ValueError:
        return text  # the reader of populations says what is wrong
    said = [word[0] for word in found]
    at = next((i for i in range(2, len(said) - 1) if said[i : i + 2] == ["formula", "="]), None)
    if at is None:
        return text
    name, family = said[0], said[0].removesuffix("_regression")
    if family == name or family not in FAMILIES:
        models = ", ".join(f"{one}_regression" for one in FAMILIES)
        raise InvalidSpec(f"{name} takes no formula; {models} do.", where=name)
    if said[at + 2 : at + 3] == [] or found[at + 2].lastgroup != "text":
        raise InvalidSpec(f"{name}: formula is a text in quotes, as in formula='cost ~ age'.", where=name)
    if beside := [word for word, mark in pairwise(said) if word in REPLACED and mark == "="]:
        raise InvalidSpec(f"{name} has a formula and {beside[0]} beside it, which it says already.", where=name)
    read = read_formula(ast.literal_eval(said[at + 2]), schema, family)
    instead = f"features={[str(feature) for feature in read.features]!r}, response={str(read.response)!r}"
    if not read.intercept:
        instead += ", intercept=False"
    return text[: found[at].start()] + instead + text[found[at + 2].end() :]
