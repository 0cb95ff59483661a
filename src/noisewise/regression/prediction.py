"""Prediction: the posterior predictive law of a response at new covariates, in the units of the columns.

    kind="response"   y | x = beta_0 + beta' x + e: the next observation, with the noise e ~ N(0, noise_variance)
    kind="mean"       beta_0 + beta' x: the mean of all observations at x
at every draw of the posterior. Nothing but those draws is random in the mean, the variance and the ends of intervals:
    E y = E beta' x,   Var y = Var beta' x + E noise_variance,   P(y <= t) = E Phi((t - beta' x)/sd),
the last solved for t by Newton steps; `draws` have one e each.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import integer
from noisewise.inference.frames import frame_columns
from noisewise.inference.intervals import checked_level, equal_tailed
from noisewise.inference.posterior import Posterior
from noisewise.printable import shown
from noisewise.regression.priors import INTERCEPT, NOISE_VARIANCE
from noisewise.regression.problem import Floats
from noisewise.regression.subject import MomentsRegression
from noisewise.schema import Levels, Schema
from noisewise.statistics.feature import Feature, NumPyAlgebra

if TYPE_CHECKING:
    from noisewise.regression.reliability import Reliability

KINDS = ("response", "mean")
MOST_NUMBERS = 40_000_000
MOST_LINES = 20
STREAM, STEPS, TOLERANCE = 4, 200, 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """The predictive law at each row of X: its mean, sd, the ends of its interval at `level`, and draws (K, rows)."""

    mean: Floats
    sd: Floats
    low: Floats
    high: Floats
    mean_low: Floats  # the ends of the interval of beta_0 + beta' x
    mean_high: Floats
    draws: Floats
    level: float
    kind: str
    x: Floats  # (rows, d): the features at which the response is predicted
    names: tuple[str, ...]
    response: str

    def __len__(self) -> int:
        return len(self.mean)

    def __str__(self) -> str:
        ends = [f"{50 * (1 + side * self.level):.4g} %" for side in (-1, 1)]
        lines = [[*self.names, "mean", "sd", *ends]]
        for k in range(min(len(self), MOST_LINES)):
            numbers = (*self.x[k], self.mean[k], self.sd[k], self.low[k], self.high[k])
            lines.append([f"{number:.6g}" for number in numbers])
        widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
        table = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        more = [f"... and {len(self) - MOST_LINES} more rows."] if len(self) > MOST_LINES else []
        what = "A new" if self.kind == "response" else "The mean"
        return "\n".join([f"{what} {self.response}, predicted:", *table, *more])

    def calibration(self, y: object, *, bins: int = 10) -> Reliability:
        """Predicted probabilities beside responses y (0 and 1) of these rows, or beside true probabilities.

        For rows whose response may be looked at: public ones, or simulated; no release shows a single response.
        """
        from noisewise.regression.reliability import reliability

        return reliability(self, y, bins=bins)

    def plot(self, path: str | PathLike[str] | None = None) -> bytes:
        """The mean and its band along the one feature that varies in X, as a PNG (also written to `path`)."""
        varying = [k for k in range(self.x.shape[1]) if np.ptp(self.x[:, k]) > 0]
        if len(varying) != 1:
            raise Unsupported(
                f"A band is drawn along one feature; {len(varying)} of {len(self.names)} vary in X. Hold all but one "
                "constant."
            )
        from noisewise.report.plots import band_plot

        along = self.x[:, varying[0]]
        order = np.argsort(along)
        name = f"{100 * self.level:g} % interval of"
        ends = {f"{name} the mean response": (self.mean_low, self.mean_high)}
        if self.kind == "response":
            ends = {f"{name} a new observation": (self.low, self.high), **ends}
        bands = [{"name": name, "low": low[order], "high": high[order]} for name, (low, high) in ends.items()]
        return band_plot(along[order], self.mean[order], bands, path, x_label=self.names[varying[0]],
                         y_label=self.response)  # fmt: skip


def predict(
    model: MomentsRegression, posterior: Posterior, X: Any, *, level: float, kind: str, seed: int | None
) -> Prediction:
    """The predictive law at each row of X."""
    x = feature_rows(model, posterior, X)
    if posterior.is_point:
        raise Unsupported(
            f"method={posterior.method!r} gives a point estimate, which has no predictive law. Ask for "
            f"predict_mean(posterior, X), or use method={posterior.instead!r}."
        )
    if kind not in KINDS:
        raise InvalidArgument(f"kind = {shown(kind, 40)}: it is 'response' or 'mean'.", argument="kind")
    share = checked_level(level)
    lines = line_draws(model, posterior, x)
    spread = lines.var(axis=0, ddof=1) if len(lines) > 1 else np.full(len(x), np.nan)  # one draw does not say
    inner = equal_tailed(lines, share)
    outer, draws, variance = inner, lines, np.zeros(len(lines))
    if kind == "response":
        if NOISE_VARIANCE not in posterior.draws:
            raise Unsupported(f"method={posterior.method!r} says nothing about the noise; ask for kind='mean'.")
        variance = posterior.draws[NOISE_VARIANCE].reshape(-1)
        stream = posterior.seed if seed is None else integer(seed, "seed", minimum=0)
        rng = np.random.default_rng(None if stream is None else [stream, STREAM])
        sd = np.sqrt(variance)[:, None]
        draws = lines + sd * rng.standard_normal(lines.shape)
        outer = mixture_quantile(lines, sd, (1 - share) / 2), mixture_quantile(lines, sd, (1 + share) / 2)
    return Prediction(
        mean=np.asarray(lines.mean(axis=0)),
        sd=np.sqrt(spread + variance.mean()),
        low=outer[0],
        high=outer[1],
        mean_low=inner[0],
        mean_high=inner[1],
        draws=draws,
        level=share,
        kind=kind,
        x=x,
        names=tuple(str(feature) for feature in model.features),
        response=str(model.response),
    )


def mixture_quantile(mean: Floats, sd: Floats, p: float) -> Floats:
    """t (rows,) with (1/K) sum_k Phi((t - mean_k)/sd_k) = p, for mean (K, rows) and sd (K, 1) or (K, rows).

    Newton steps from the normal law of the same mean and variance; where one leaves the bracket, or is more than half
    as long as the step before the last, the bracket is halved instead.
    """
    from scipy.special import ndtr, ndtri

    reach = float(ndtri(max(p, 1 - p))) + 1.0
    low, high = (mean - reach * sd).min(axis=0), (mean + reach * sd).max(axis=0)
    t = mean.mean(axis=0) + ndtri(p) * np.sqrt(mean.var(axis=0) + np.square(sd).mean(axis=0))
    before = last = high - low
    for _ in range(STEPS):
        z = (t - mean) / sd
        excess = ndtr(z).mean(axis=0) - p
        low, high = np.where(excess < 0, t, low), np.where(excess < 0, high, t)
        slope = np.maximum((np.exp(-0.5 * z * z) / sd).mean(axis=0) / np.sqrt(2 * np.pi), np.finfo(float).tiny)
        newton = t - excess / slope
        is_good = (newton > low) & (newton < high) & (np.abs(newton - t) < before / 2)
        is_found = np.abs(excess) < TOLERANCE  # such an end stays: it has no room to move within its bracket
        moved = np.where(is_found, t, np.where(is_good, newton, (low + high) / 2))
        t, before, last = moved, last, np.abs(moved - t)
        if np.all(is_found):
            break
    return np.asarray(t)


def predict_mean(model: MomentsRegression, posterior: Posterior, X: Any) -> Floats:
    """E beta_0 + beta' x at each row of X; point estimates have it too."""
    x = feature_rows(model, posterior, X)
    mean = posterior.mean
    slopes = np.array([mean[str(feature)] for feature in model.features], float)
    return np.asarray(float(mean.get(INTERCEPT, 0.0)) + x @ slopes)


def line_draws(model: MomentsRegression, posterior: Posterior, x: Floats) -> Floats:
    """beta_0 + beta' x (K, rows) at every draw."""
    slopes = np.stack([posterior.draws[str(feature)].reshape(-1) for feature in model.features])
    if slopes.shape[1] * len(x) > MOST_NUMBERS:
        most = MOST_NUMBERS // slopes.shape[1]
        raise InvalidArgument(f"X has {len(x)} rows; predict at most {most} at once, or use predict_mean.",
                              argument="X")  # fmt: skip
    start = posterior.draws[INTERCEPT].reshape(-1, 1) if INTERCEPT in posterior.draws else 0.0
    return np.asarray(start + slopes.T @ x.T)


def feature_rows(model: MomentsRegression, posterior: Posterior, X: Any) -> Floats:
    """X as features (rows, d): an array in their order, or columns by name from which they are computed."""
    _require_posterior_of(model, posterior)
    names = _column_names(X)
    if names is not None:
        schema = posterior.releases[0].schema if posterior.releases else None
        columns = [_from_columns(feature, X, names, schema) for feature in model.features]
        try:
            x = np.stack(np.broadcast_arrays(*map(np.atleast_1d, columns)), axis=-1)
        except ValueError:
            raise InvalidArgument("The columns of X have different lengths.", argument="X") from None
    else:
        x = _array(X, len(model.features))
    if x.ndim != 2 or x.shape[1] != len(model.features) or not np.all(np.isfinite(x)):
        raise InvalidArgument(
            f"X must hold finite numbers, one column for each of {', '.join(map(str, model.features))}.", argument="X"
        )
    return x


def _require_posterior_of(model: MomentsRegression, posterior: object) -> None:
    """The same response on the same features, in whatever order: draws are found by name, X is in the model's order."""
    population = posterior.population if isinstance(posterior, Posterior) else None
    if not isinstance(population, type(model)):
        raise InvalidArgument(
            f"posterior is not of a {type(model).__name__}. Give what infer(releases, model) returned.",
            argument="posterior",
        )
    if set(population.names) != set(model.names) or str(population.response) != str(model.response):
        raise InvalidArgument(
            f"posterior is of {population}, not of {model}: the two differ in features, response or intercept. Predict "
            "by the model that was given to infer; it is posterior.population.",
            argument="posterior",
        )


def _column_names(X: Any) -> Container[str] | None:
    """The names by which X has columns (a mapping, a data frame, an Arrow table, a structured array), if it has any."""
    if isinstance(X, Mapping):
        return X
    if isinstance(X, np.ndarray):
        fields: tuple[str, ...] | None = X.dtype.names
        return fields
    if type(X).__name__ == "LazyFrame":
        raise InvalidArgument("X is a LazyFrame, which has no rows yet; give X.collect().", argument="X")
    return frame_columns(X)


def _array(X: Any, size: int) -> Floats:
    x = _numbers(X)
    if x.ndim == 1:
        return x.reshape(-1, 1) if size == 1 else x.reshape(1, -1)
    return x


def _numbers(X: Any) -> Floats:
    try:
        found = np.asarray(X)
        objects = found.flat if found.dtype.kind == "O" else ()
        if found.dtype.kind not in "SU" and not any(isinstance(value, str | bytes) for value in objects):
            # NumPy would read "3" as a number.
            return np.asarray(found, dtype=float)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InvalidArgument("X must hold numbers: an array (rows, features), or columns by name.", argument="X")


def _from_columns(feature: Feature, X: Any, names: Container[str], schema: Schema | None) -> Any:
    """One feature from columns by name; or the column that is called as the feature is written."""
    if str(feature) in names:
        return _numbers(_column(X, str(feature)))
    missing = sorted(name for name in feature.columns() if name not in names)
    if missing or schema is None:
        raise InvalidArgument(f"X has no column {(missing or [str(feature)])[0]!r}.", argument="X")
    columns = {name: _codes(_column(X, name), schema, name) for name in feature.columns()}
    return feature.fold(NumPyAlgebra(columns, schema), {})


def _column(X: Any, name: str) -> Any:
    try:
        return X[name]
    except (LookupError, TypeError, ValueError) as error:  # as of an Arrow table with two columns of one name
        raise InvalidArgument(
            f"Column {name!r} of X cannot be read; give an array, or a mapping from names to columns.", argument="X"
        ) from error


def _codes(values: Any, schema: Schema, name: str) -> Floats:
    """Levels as their indices, numbers as they are."""
    column = schema.column(name)
    try:
        if isinstance(column, Levels):
            index = {level: k for k, level in enumerate(column.levels)}
            return np.array([index[value] for value in np.atleast_1d(np.asarray(values, dtype=object))], float)
        return _numbers(values)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InvalidArgument(f"Column {name!r} of X holds values that the schema does not know.",
                              argument="X") from None  # fmt: skip
