"""What a regression answers in people's terms: what one unit more of a feature goes with, and how well a line fits.

    coefficient    of each feature, in units of the response for one unit of the feature
    intercept      of the response
    residual sd    sqrt(noise variance): how far a record lies from the line
    odds ratio     e^coefficient of a logistic regression; of counts the rate ratio
    R2             b'Sb / (b'Sb + noise variance), S the covariance of the features, where the method draws it
"Goes with", never "causes": a regression of published moments says no more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noisewise.inference.answer_sources import AnswerSource, Drawn, Headline
from noisewise.inference.number_draws import NumberDraws
from noisewise.inference.units import singular
from noisewise.regression.priors import COVARIATE_COVARIANCE, INTERCEPT, NOISE_VARIANCE
from noisewise.release import NoisyValue
from noisewise.statistics.feature import Feature
from noisewise.statistics.units import feature_unit
from noisewise.types import Theta

__all__ = ["coefficient_units", "condition_words", "one_more", "regression_sources"]


def regression_sources(
    theta: Theta, features: Sequence[Feature], response: Feature, releases: Sequence[NoisyValue]
) -> tuple[AnswerSource, ...]:
    """One source for each coefficient, and one for the response."""
    units = coefficient_units(features, response, releases)
    name, unit = str(response), _unit(response, releases)
    sources = []
    for feature in features:
        drawn = Drawn("coefficient", np.asarray(theta[str(feature)]), units.get(str(feature), ""), str(feature))
        told = Drawn("coefficient", drawn.values, unit, str(feature))
        line = Headline(one_more(feature, releases), told, "goes with", f" of {name}", is_signed=True)
        sources.append(NumberDraws(str(feature), (drawn,), (line,)))
    numbers = [Drawn(INTERCEPT, np.asarray(theta[INTERCEPT]), unit, name)] if INTERCEPT in theta else []
    if NOISE_VARIANCE in theta:
        variance = np.asarray(theta[NOISE_VARIANCE])
        numbers.append(Drawn("residual sd", np.sqrt(variance), unit, name))
        if COVARIATE_COVARIANCE in theta:
            slopes = np.stack([np.asarray(theta[str(feature)]) for feature in features], axis=1)
            covariance = np.asarray(theta[COVARIATE_COVARIANCE]).reshape(len(slopes), len(features), len(features))
            explained = np.einsum("ki,kij,kj->k", slopes, covariance, slopes)
            numbers.append(Drawn("R2", explained / (explained + variance), "", name))
    return (*sources, *([NumberDraws(name, tuple(numbers))] if numbers else []))


def coefficient_units(features: Sequence[Feature], response: Feature, releases: Sequence[NoisyValue]) -> dict[str, str]:
    """The unit of each coefficient, as 'thousand EUR per year'; none where neither side has one."""
    of_response = _unit(response, releases)
    found = {INTERCEPT: of_response} if of_response else {}
    for feature in features:
        own = _unit(feature, releases)
        if feature.is_condition:
            found[str(feature)] = of_response
        elif own or of_response:
            found[str(feature)] = f"{of_response} per {singular(own) or 'unit'}".strip()
    return {name: unit for name, unit in found.items() if unit}


def _unit(feature: Feature, releases: Sequence[NoisyValue]) -> str:
    """The unit that every release gives a feature; none where they differ."""
    found = {feature_unit(feature, release.schema).strip() for release in releases if _has(feature, release)}
    return found.pop() if len(found) == 1 else ""


def _has(feature: Feature, release: NoisyValue) -> bool:
    return feature.columns() <= set(release.schema.columns)


def condition_words(feature: Feature) -> str:
    """A condition as people write it."""
    if feature.operation == "equals":
        return f"{feature.arguments[0]} = {feature.arguments[1]}"
    return str(feature)


def one_more(feature: Feature, releases: Sequence[NoisyValue]) -> str:
    """What a coefficient is about: a condition that holds, or one more unit of a number."""
    if feature.is_condition:
        return condition_words(feature)
    return f"one more {singular(_unit(feature, releases)) or 'unit'} of {feature}"
