"""Parameter values of a generalized linear model: from its prior, from numbers by name, and the rows they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import integer
from noisewise.populations.parameters import Theta, rows_of
from noisewise.regression.glm.covariates import expected_law, expected_share, prior_law
from noisewise.regression.glm.responses import check_response, response_cap
from noisewise.regression.glm.rows import GlmRows, covariate_arrays
from noisewise.regression.location import CONFIGURATION_SHARE, NUMBER_COVARIANCE, NUMBER_MEAN
from noisewise.regression.priors import INTERCEPT, coefficient_moments
from noisewise.regression.replicate import DEFAULTS
from noisewise.regression.subject import Place
from noisewise.types import Floats

if TYPE_CHECKING:
    from noisewise.regression.glm.model import MomentsGlm

LAW = (CONFIGURATION_SHARE, NUMBER_MEAN, NUMBER_COVARIANCE)


def sample_prior(model: MomentsGlm, rng: np.random.Generator, count: int) -> dict[str, Floats]:
    """`count` draws of the coefficients and of the features' law."""
    theta = sample_coefficients(model, rng, count)
    return theta | prior_law(model.covariates, rng, len(model.features), count)


def sample_coefficients(model: MomentsGlm, rng: np.random.Generator, count: int) -> dict[str, Floats]:
    """`count` draws of the coefficients."""
    count = integer(count, "count", minimum=0, maximum=10**8)
    given = coefficient_moments(model.coefficients, model.names)
    if given is None:
        raise InvalidArgument(f"{DEFAULTS}coefficients=.", argument="coefficients")
    beta = given[0] + rng.standard_normal((count, len(given[0]))) @ np.linalg.cholesky(given[1]).T
    return {name: beta[:, k] for k, name in enumerate(model.names)}


def theta_at(model: MomentsGlm, at: object) -> dict[str, Floats]:
    """Rows of theta from numbers by name, one for each, or the features' law with one row too."""
    if not isinstance(at, Mapping) or not set(model.free) <= set(at) <= {*model.free, *LAW}:
        raise InvalidArgument(
            f"at= must give a number for each of {', '.join(model.free)}; it may give {', '.join(LAW)}.", argument="at"
        )
    theta = {name: np.atleast_1d(_numbers(at, name, 0)) for name in model.free}
    count = rows_of(theta)
    if any(value.shape != (count,) for value in theta.values()):
        raise InvalidArgument("at= lists different numbers of values for its parameters.", argument="at")
    law = expected_law(model.covariates, len(model.features)) | {
        name: _numbers(at, name, None) for name in LAW if name in at
    }
    if NUMBER_MEAN in law and law[NUMBER_MEAN].ndim == 1:
        law[NUMBER_MEAN] = law[NUMBER_MEAN][None]
    share = law.get(CONFIGURATION_SHARE, np.ones(1))
    if np.any(share < 0) or abs(float(share.sum()) - 1) > 1e-9:
        raise InvalidArgument(f"at[{CONFIGURATION_SHARE!r}] must be shares that sum to 1.", argument="at")
    if NUMBER_COVARIANCE in law and not np.all(np.linalg.eigvalsh(law[NUMBER_COVARIANCE]) > 0):
        raise InvalidArgument("Variances must be positive.", argument="at")
    law[CONFIGURATION_SHARE] = share
    return theta | {name: np.array(np.broadcast_to(value, (count, *value.shape))) for name, value in law.items()}


def _numbers(at: Mapping[str, object], name: str, most: int | None) -> Floats:
    try:
        value = np.asarray(at[name])
        found = np.asarray(np.nan) if value.dtype.kind in "SUb" else np.asarray(value, float)
    except (TypeError, ValueError, OverflowError):
        found = np.asarray(np.nan)
    if not np.all(np.isfinite(found)) or (most == 0 and found.ndim > 1) or found.size == 0:
        raise InvalidArgument(
            f"at[{name!r}] must be {'a finite number' if most == 0 else 'finite numbers'}.", argument="at"
        )
    return found


def rows_at(model: MomentsGlm, place: Place, theta: Theta) -> GlmRows:
    """The law of a release's rows at parameter values in the units of the columns."""
    if not place.is_plain:
        raise Unsupported("Shortened or averaged rows of a yes/no response or a count cannot be simulated.")
    check_response(model.link, model.response, model.features, (place.schema,))
    made, units = model.configurations((place.schema,)), place.units
    expected = expected_share(model.covariates, model.features, place.schema)
    if expected is not None and np.shape(theta.get(CONFIGURATION_SHARE, np.ones((1, 1))))[-1] == 1:
        theta = {**theta, CONFIGURATION_SHARE: np.tile(expected, (rows_of(theta), 1))}
    needed = [CONFIGURATION_SHARE, *((NUMBER_MEAN, NUMBER_COVARIANCE) if made.numbers else ())]
    if missing := [name for name in needed if name not in theta]:
        raise InvalidArgument(
            f"These parameters say nothing of the features' law, without which no rows can be simulated: give "
            f"{', '.join(missing)}, or a model with covariates=.",
            argument="at",
        )
    slopes = np.stack([np.asarray(theta[str(feature)], float) for feature in model.features], axis=1)
    start = np.asarray(theta[INTERCEPT], float) if model.intercept else np.zeros(len(slopes))
    low, high = place.bounds
    clamps = place.schema.outside == "clamp"
    cap = response_cap(model.link, float(high[-1] / units.factor[-1] + units.centre[-1]), clamps=clamps)
    share, mean, factor = covariate_arrays(made, theta)
    return GlmRows(model.link, share, mean, factor, np.column_stack([start, slopes]), units, low, high, clamps, cap)
