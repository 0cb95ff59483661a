"""How many numbers releases of Moments tell a regression, and how many unknowns they must settle."""

from __future__ import annotations

from noisewise.errors import Unsupported
from noisewise.inference.degrees import Degrees
from noisewise.joining import same_records
from noisewise.regression.configurations import Configurations
from noisewise.regression.priors import RELEASED, GivenMoments
from noisewise.regression.subject import MomentsRegression
from noisewise.release import NoisyValue
from noisewise.schema import Schema
from noisewise.statistics import Moments

__all__ = ["moment_degrees"]

MOST_RANKED = 600  # products of which a rank is computed


def moment_degrees(model: MomentsRegression, releases: tuple[NoisyValue, ...]) -> Degrees:
    """Released sums against what the model has free, and the law of the covariates where it is not given."""
    of_moments = [(release, statistic) for release in releases if isinstance(statistic := release.statistic, Moments)]
    schemas = tuple(release.schema for release, _ in of_moments)
    sums = [set(statistic.pairs(release.schema)) for release, statistic in of_moments]
    groups = same_records([release for release, _ in of_moments])
    told = sum(_told(model, schemas, set().union(*(sums[k] for k in group))) for group in groups)
    shapes = _told(model, schemas, set().union(*sums))
    unknowns = len(model.free) + _covariate_unknowns(model, schemas)
    advice = (
        "Moments of disjoint parts of the records, or of another holder, would show whether they agree, and "
        "Moments(..., fourth=True) whether the covariates are as the model has them."
    )
    return Degrees(told, shapes, unknowns, "" if told > unknowns else advice)


def _covariate_unknowns(model: MomentsRegression, schemas: tuple[Schema, ...]) -> int:
    """Of the law of the covariates: shares and means by what differs between combinations, or a normal law's."""
    if isinstance(model.covariates, GivenMoments):
        return 0
    d = len(model.features)
    if model.conditions and model.covariates != RELEASED:
        made = Configurations.of(model.features, schemas)
        directions, products, k = made.directions().shape[1], made.products().shape[1], len(made.numbers)
        return int(directions + products + k * (1 + directions) + k * (k + 1) // 2)
    return d * (d + 1) // 2 + d * model.intercept


def _told(model: MomentsRegression, schemas: tuple[Schema, ...], sums: set[tuple[int, ...]]) -> int:
    """How many of these sums of products tell something of a record that the others do not."""
    first = int(model.intercept)
    products = [tuple(k - first for k in factors) for factors in sorted(sums)]
    if len(products) <= MOST_RANKED:
        try:
            return Configurations.of((*model.features, model.response), schemas).told_by_products(products)
        except Unsupported:  # too many combinations to look into each
            pass
    return sum(1 for factors in products if max(factors) >= 0)
