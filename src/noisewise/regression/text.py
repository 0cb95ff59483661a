"""A linear regression in the grammar of spec files.

    linear_regression(features=['age', 'bmi'], response='cost', coefficients=norm(0, 10), noise=invgamma(3, scale=2))

Features and response are quoted, as a statistic writes them; priors are scipy.stats distributions with numbers;
`prior=normal_inverse_gamma(mean=, precision=, shape=, rate=)` and `covariates=normal_covariates(location=, strength=,
scale=, degrees=)`, `given_moments(second=, fourth=)`, `given_rows(rows=)` or 'released' are ours. Nothing is
evaluated as code.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from noisewise.errors import InvalidSpec
from noisewise.populations.parameters import offers
from noisewise.populations.text import call_text, number_text, prior_text, read_value
from noisewise.regression.glm.given_rows import GivenRows
from noisewise.regression.priors import GivenMoments, NormalCovariates, NormalInverseGamma
from noisewise.statistics.text import feature_from_text

OURS: Mapping[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "normal_inverse_gamma": (NormalInverseGamma, ("mean", "precision", "shape", "rate")),
    "normal_covariates": (NormalCovariates, ("location", "strength", "scale", "degrees")),
    "given_moments": (GivenMoments, ("second", "fourth")),
    "given_rows": (GivenRows, ("rows",)),
}
NAME_OF = {make: name for name, (make, _) in OURS.items()}


def arguments_of(nodes: Mapping[str, ast.expr]) -> dict[str, Any]:
    """What these texts say, as the regression takes it."""
    given = {name: _read(node) for name, node in nodes.items()}
    listed = [given["features"]] if isinstance(given["features"], str) else given["features"]
    given["features"] = [_feature(text) for text in listed] if isinstance(listed, list) else listed
    return {**given, "response": _feature(given["response"])}


def _feature(text: Any) -> Any:
    return feature_from_text(text) if isinstance(text, str) else text


def belief_text(value: Any) -> str:
    """What is believed, as the text that reads back as it."""
    if isinstance(value, str):
        return repr(value)
    if offers(value, "law_text"):
        return str(value.law_text())
    if type(value) in NAME_OF:
        name = NAME_OF[type(value)]
        return call_text(name, [], {field: number_text(getattr(value, field)) for field in OURS[name][1]})
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{str(key)!r}: {prior_text(prior)}' for key, prior in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(prior_text, value))}]"
    return prior_text(value)


def _read(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=str() | bool() as plain):
            return plain
        case ast.List(elts=entries) | ast.Tuple(elts=entries):
            return [_read(entry) for entry in entries]
        case ast.Dict(keys=keys, values=values) if all(isinstance(key, ast.Constant) for key in keys):
            return {key.value: _read(value) for key, value in zip(keys, values, strict=True)}  # type: ignore[union-attr]
        case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords) if name in OURS:
            make, fields = OURS[name]
            given = {str(keyword.arg): read_value(keyword.value) for keyword in keywords}
            if set(given) != set(fields):
                raise InvalidSpec(f"{name} takes {', '.join(fields)}, by name.", where=name)
            return make(**given)
        case ast.Call(func=ast.Name(id="multivariate_normal"), args=[mean, covariance], keywords=[]):
            from scipy.stats import multivariate_normal

            return multivariate_normal(read_value(mean), read_value(covariance))
    return read_value(node)
