"""What may be said of the features of a generalized linear model, each with the law it stands for.

    nothing             the schema's: conditions as such, numbers normal within their combinations, with weak priors
    NormalCovariates    all of them numbers, jointly normal, with the prior that it states
    GivenRows           the shape of given rows, tilted to what was released
    StatedCovariates    a population for every number, tilted likewise
    ReleasedHistograms  uniform within the cells of released histograms
Every function here is registered for these; of anything else the sentence says what is missing. Without the sums of an
intercept nothing tells where numbers lie: their means are then taken to be near the release's centre.
"""

# ruff: noqa: ARG001 (a registered function takes what some other one needs)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.regression.configurations import Configurations
from noisewise.regression.glm.extended import Seen, extended
from noisewise.regression.glm.given_rows import GivenRows
from noisewise.regression.glm.histograms import (
    ReleasedHistograms,
    observe_with_tables,
    require_same_cells,
    width_error,
    with_tables,
)
from noisewise.regression.glm.problem import GlmProblem
from noisewise.regression.glm.stated import StatedCovariates, point_configurations, point_law_x
from noisewise.regression.location import CONFIGURATION_SHARE, NUMBER_COVARIANCE, NUMBER_MEAN, location_model
from noisewise.regression.observed import Observed, likely_numbers, observe
from noisewise.regression.priors import NormalCovariates
from noisewise.regression.problem import LocationX
from noisewise.regression.replicate import DEFAULTS, inverse_wishart
from noisewise.schema import Schema
from noisewise.statistics.feature import Feature
from noisewise.types import Floats

__all__ = [
    "check_sites",
    "combinations",
    "completed",
    "expected_law",
    "expected_share",
    "law_in_words",
    "observed_by",
    "observed_combinations",
    "prior_law",
    "wide_cells",
    "working_law",
]

SAME, WIDE = 1e-9, 0.5
FEWEST_EFFECTIVE, FEWEST_POINTS = 150, 1000
NEAR_CENTRE = 0.1  # sd of a mean about the release's centre, in units of the number's sd


@singledispatch
def combinations(given: object, features: Sequence[Feature], schemas: Sequence[Schema]) -> Configurations:
    """The combinations of yes/no features, and what each feature is within them."""
    del features, schemas
    raise TypeError(f"a {type(given).__name__} has no combinations of features")


@combinations.register
def _(given: None, features: Sequence[Feature], schemas: Sequence[Schema]) -> Configurations:
    return Configurations.of(features, schemas)


@combinations.register
def _(given: NormalCovariates, features: Sequence[Feature], schemas: Sequence[Schema]) -> Configurations:
    d = len(given.sized(len(features))[0])
    return Configurations((), np.zeros((1, 0)), tuple(features), np.zeros((1, d)), np.eye(d)[None])


@combinations.register
def _(given: GivenRows, features: Sequence[Feature], schemas: Sequence[Schema]) -> Configurations:
    return given.configurations()


@combinations.register
def _(given: StatedCovariates, features: Sequence[Feature], schemas: Sequence[Schema]) -> Configurations:
    return point_configurations(given.points(features, schemas), features)


@combinations.register
def _(given: ReleasedHistograms, features: Sequence[Feature], schemas: Sequence[Schema]) -> Configurations:
    raise Unsupported(
        "The law of these features is made of the histograms that were released, and is known together with them "
        "alone: rows are not simulated by it, so there is no predictive check, and no confidential moments are drawn."
    )


@singledispatch
def observed_combinations(given: object, observed: Observed) -> Configurations:
    """The same, by what was observed."""
    return combinations(given, observed.features, observed.schemas)


@observed_combinations.register
def _(given: ReleasedHistograms, observed: Observed) -> Configurations:
    return point_configurations(given.points(observed), observed.features)


@singledispatch
def working_law(given: object, made: Configurations, observed: Observed, *, intercept: bool) -> LocationX:
    """The law in the units of the first release's rows, with its priors."""
    del made, observed, intercept
    raise TypeError(f"a {type(given).__name__} is no law of features")


@working_law.register
def _(given: None, made: Configurations, observed: Observed, *, intercept: bool) -> LocationX:
    units = observed.units
    x = location_model(made, centre=units.centre[:-1], factor=units.factor[:-1], likely=likely_numbers(made, observed))
    return x if intercept else _near_centre(x)


@working_law.register
def _(given: NormalCovariates, made: Configurations, observed: Observed, *, intercept: bool) -> LocationX:
    location, scale = given.sized(len(observed.units.centre) - 1)
    spread, units = np.sqrt(np.diag(scale)), observed.units
    x = location_model(made, centre=units.centre[:-1], factor=units.factor[:-1], likely=(location, spread))
    return replace(
        x,
        contrast=np.full((1, 1), given.strength**-0.5),
        scale=scale / np.outer(spread, spread),
        degrees=given.degrees,
    )


@working_law.register
def _(given: GivenRows, made: Configurations, observed: Observed, *, intercept: bool) -> LocationX:
    return given.law(centre=observed.units.centre[:-1], factor=observed.units.factor[:-1])


@working_law.register
def _(given: StatedCovariates, made: Configurations, observed: Observed, *, intercept: bool) -> LocationX:
    law = given.points(observed.features, observed.schemas)
    return point_law_x(law, made.constant, centre=observed.units.centre[:-1], factor=observed.units.factor[:-1])


@working_law.register
def _(given: ReleasedHistograms, made: Configurations, observed: Observed, *, intercept: bool) -> LocationX:
    law = given.points(observed)
    return point_law_x(law, made.constant, centre=observed.units.centre[:-1], factor=observed.units.factor[:-1])


@singledispatch
def observed_by(
    given: object, releases: object, features: Sequence[Feature], response: Feature, *, intercept: bool, n: object
) -> Observed:
    """What releases say, by holder."""
    return observe(releases, features, response, intercept=intercept, n=n)


@observed_by.register
def _(
    given: ReleasedHistograms,
    releases: object,
    features: Sequence[Feature],
    response: Feature,
    *,
    intercept: bool,
    n: object,
) -> Observed:
    return observe_with_tables(releases, features, response, intercept=intercept, n=n)


@singledispatch
def completed(given: object, problem: GlmProblem, observed: Observed) -> GlmProblem:
    """The problem with what holders saw of the features after clamping, and what they counted besides."""
    return problem


@completed.register
def _(given: StatedCovariates, problem: GlmProblem, observed: Observed) -> GlmProblem:
    law, units = given.points(observed.features, observed.schemas), observed.units
    entries, seen = list[Floats](), list[Seen]()
    for schema in observed.holder_schemas:
        view = units.factor[:-1] * (law.features(observed.features, schema) - units.centre[:-1])
        known = [k for k, one in enumerate((problem.covariates.offset, *entries)) if np.abs(one - view).max() <= SAME]
        if not known:
            entries.append(view)
        seen.append(Seen(problem.d * (known[0] if known else len(entries)) + np.arange(problem.d)))
    more = np.concatenate(entries, axis=1) if entries else np.zeros((problem.covariates.configurations, 0))
    return extended(problem, more, seen)


@completed.register
def _(given: ReleasedHistograms, problem: GlmProblem, observed: Observed) -> GlmProblem:
    return with_tables(problem, given.points(observed), observed.tables)


@singledispatch
def check_sites(given: object, by_site: Sequence[Observed]) -> None:
    """Refuse sites whose laws of the features cannot stand beside each other."""


@check_sites.register
def _(given: ReleasedHistograms, by_site: Sequence[Observed]) -> None:
    require_same_cells(by_site)


@singledispatch
def wide_cells(given: object, observed: Observed, share: Floats) -> list[str]:
    """What is to be said where cells are so wide that what happens within them shows in the released squares."""
    return []


@wide_cells.register
def _(given: ReleasedHistograms, observed: Observed, share: Floats) -> list[str]:
    units, noise = observed.units, dict[str, float]()
    for i, feature in enumerate(observed.features):
        found = [
            float(np.sqrt(holder.variance[k])) / units.factor[i] ** 2
            for holder in observed.holders
            for k in np.flatnonzero((holder.pairs == i + int(units.intercept)).all(axis=1))
        ]
        if found and feature.operation == "column":
            noise[str(feature)] = min(found)
    mean = share.mean(axis=(0, 1))
    error, said = width_error(given.points(observed), mean, observed.tables, noise), []
    if (effective := 1 / float(np.square(mean).sum())) < FEWEST_EFFECTIVE and len(mean) >= FEWEST_POINTS:
        said.append(
            f"The {len(mean)} points that stand for all combinations of numbers are worth {effective:.0f} under what "
            "was learnt: with so strong a dependence integrals are rough. Release coarser cells."
        )
    if error <= WIDE:
        return said
    return [
        *said,
        f"Cells of the released histograms are wide: a density that rises within them would move a sum of squares by "
        f"{error:.2g} of its standard deviations. Release narrower cells where most records are.",
    ]


def _near_centre(x: LocationX) -> LocationX:
    contrast = x.contrast.copy()
    contrast[:, 0] = NEAR_CENTRE
    return replace(x, contrast=contrast)


@singledispatch
def prior_law(given: object, rng: np.random.Generator, size: int, count: int) -> dict[str, Floats]:
    """`count` draws of the law of `size` features, by name."""
    del rng, size, count
    raise TypeError(f"a {type(given).__name__} is no law of features")


@prior_law.register
def _(given: None, rng: np.random.Generator, size: int, count: int) -> dict[str, Floats]:
    raise InvalidArgument(f"{DEFAULTS}covariates=NormalCovariates(...) or GivenRows(...).", argument="covariates")


@prior_law.register
def _(given: NormalCovariates, rng: np.random.Generator, size: int, count: int) -> dict[str, Floats]:
    location, scale = given.sized(size)
    covariance = inverse_wishart(rng, scale, given.degrees, count)
    z = rng.standard_normal((count, size)) / np.sqrt(given.strength)
    mean = location + np.einsum("kij,kj->ki", np.linalg.cholesky(covariance), z)
    return {CONFIGURATION_SHARE: np.ones((count, 1)), NUMBER_MEAN: mean[:, None], NUMBER_COVARIANCE: covariance}


@prior_law.register
def _(given: GivenRows, rng: np.random.Generator, size: int, count: int) -> dict[str, Floats]:
    from scipy.special import softmax

    tilt = given.tilt()
    return {CONFIGURATION_SHARE: np.asarray(softmax(rng.standard_normal((count, tilt.shape[1])) @ tilt.T, axis=1))}


@prior_law.register
def _(given: StatedCovariates, rng: np.random.Generator, size: int, count: int) -> dict[str, Floats]:
    raise InvalidArgument(
        "Which shares of levels and numbers a stated law begins with is known where a schema is: infer from a release "
        "first, or simulate at numbers (at=).",
        argument="covariates",
    )


@prior_law.register
def _(given: ReleasedHistograms, rng: np.random.Generator, size: int, count: int) -> dict[str, Floats]:
    raise InvalidArgument(
        "covariates='released' says nothing before histograms are released; state a law to simulate by.",
        argument="covariates",
    )


@singledispatch
def expected_law(given: object, size: int) -> dict[str, Floats]:
    """The law that is expected where none is given, by name; nothing where none is."""
    del size
    raise TypeError(f"a {type(given).__name__} is no law of features")


@expected_law.register
def _(given: None, size: int) -> dict[str, Floats]:
    return {}


@expected_law.register
def _(given: NormalCovariates, size: int) -> dict[str, Floats]:
    location, scale = given.sized(size)
    return {NUMBER_MEAN: location, NUMBER_COVARIANCE: scale / max(given.degrees - size - 1, 1.0)}


@expected_law.register
def _(given: GivenRows, size: int) -> dict[str, Floats]:
    count = len(given.sized(size))
    return {CONFIGURATION_SHARE: np.full(count, 1 / count)}


@expected_law.register
def _(given: StatedCovariates, size: int) -> dict[str, Floats]:
    return {}


@expected_law.register
def _(given: ReleasedHistograms, size: int) -> dict[str, Floats]:
    return {}


@singledispatch
def expected_share(given: object, features: Sequence[Feature], schema: Schema) -> Floats | None:
    """The shares (C,) of combinations that are expected under a schema; None where no law says so."""
    return None


@expected_share.register
def _(given: StatedCovariates, features: Sequence[Feature], schema: Schema) -> Floats | None:
    return np.exp(given.points(features, (schema,)).log_weight)


@singledispatch
def law_in_words(given: object, x: LocationX, name: str) -> tuple[str, str]:
    """The law in a few words, and a sentence of what it leaves untested."""
    del x, name
    raise TypeError(f"a {type(given).__name__} is no law of features")


@law_in_words.register
def _(given: None, x: LocationX, name: str) -> tuple[str, str]:
    if not x.numbers:
        few = f"{x.configurations} combinations of yes/no features with weak priors"
        return (
            few,
            f"Features are yes/no: the shares of {x.configurations} combinations are learnt with the coefficients.",
        )
    if x.configurations == 1:
        return "normal covariates with a weak prior from public numbers", _normal("Covariates are", "", name)
    few = f"{x.configurations} combinations of yes/no features, numbers normal within each, with weak priors"
    within = f" within each of {x.configurations} combinations of yes/no features"
    return few, _normal("Numbers among the features are", within, name)


@law_in_words.register
def _(given: NormalCovariates, x: LocationX, name: str) -> tuple[str, str]:
    return "normal covariates", _normal("Covariates are", "", name)


@law_in_words.register
def _(given: GivenRows, x: LocationX, name: str) -> tuple[str, str]:
    count = x.configurations
    return f"features as in {count} given rows", (
        f"The features' law has the shape of the {count} rows that were given, with means and spreads as released. "
        f"Moments alone cannot test that shape, and a {name} regression leans on it; that the rows are but a sample is "
        "not in the intervals."
    )


@law_in_words.register
def _(given: StatedCovariates, x: LocationX, name: str) -> tuple[str, str]:
    return f"features by stated populations ({given.in_words()})", (
        f"Numbers among the features have the shape of the populations that are stated ({given.in_words()}), with "
        "means, spreads and correlations as released. Moments alone cannot test that shape, and a "
        f"{name} regression leans on it."
    )


@law_in_words.register
def _(given: ReleasedHistograms, x: LocationX, name: str) -> tuple[str, str]:
    return f"features by released histograms, {x.configurations} points", (
        "Numbers among the features are uniform within the cells of their released histograms, whose shares are "
        "learnt, and depend on each other by a Gaussian copula. What happens within cells, and any other dependence, "
        "no release here can test."
    )


def _normal(what: str, within: str, name: str) -> str:
    return (
        f"{what} taken to be normal{within}. Moments alone cannot test that, and a {name} regression leans on it: "
        "where they are skew, or end at their bounds, intervals are too narrow. The logarithm of a skew number may be "
        "near normal, and can be a feature; covariates= states another law."
    )
