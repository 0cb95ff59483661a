"""The output of OpenDP, PipelineDP, diffprivlib, mbi and the 2020 US Census, as measurements.

    OpenDP         a value with its row of `summarize()`: "Integer Laplace", "Float Gaussian", ... and their scale
    PipelineDP     one named tuple for each partition, with `count_noise_stddev`, `sum_noise_stddev` beside the values
    diffprivlib    a value with the mechanism object that made it
    mbi            linear measurements of whole marginals: clique, noisy vector, stddev
    US Census      a row of a noisy measurement file: a vector of counts with discrete Gaussian noise, and its variance

A value that was clipped to bounds after the noise and lies strictly between them has the density of one that was not:
only at a bound is it another law, and there it is refused. Output is read by its shape, and what has another shape is
refused as that (`reads`), whatever is found missing in it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ParamSpec, Protocol, TypeVar, cast

import numpy as np

from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.laws import StatedNoise, gaussian_noise, geometric_noise, laplace_noise
from noisewise.measuring import Measurement, measurement, randomized_response
from noisewise.planning import checked_statistic
from noisewise.printable import shown
from noisewise.privacy.guarantee import Guarantee
from noisewise.schema import Schema, checked_schema
from noisewise.statistics import Statistic, statistic_from_dict

__all__ = ["Row", "census", "diffprivlib", "mbi", "opendp", "pipelinedp", "table_rows"]

MOST_ROWS = 100_000
Row = Mapping[str, object]
P = ParamSpec("P")
T = TypeVar("T")


def reads(tool: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Refuse what does not have the shape of a tool's output, whichever member of it is missing or of another kind."""

    def decorated(read: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(read)
        def checked(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return read(*args, **kwargs)
            except NoisewiseError:
                raise
            except (LookupError, TypeError, ValueError, ArithmeticError) as error:
                raise InvalidArgument(
                    f"What was given is not as {tool} puts it out ({type(error).__name__}: {error!s:.100}).",
                    argument=read.__name__,
                ) from error

        return checked

    return decorated


@reads("OpenDP")
def opendp(
    statistic: Statistic,
    schema: Schema,
    value: object,
    summary: object,
    *,
    dataset: str | None = None,
    guarantee: Guarantee | None = None,
) -> Measurement:
    """A value that OpenDP released, with the noise that its `summarize()` states.

    Parameters
    ----------
    statistic, schema, dataset, guarantee
        As of `measurement`.
    value
        The released number or numbers.
    summary
        The table of `query.summarize()` (Polars or pandas), its rows as mappings, or one such row: `distribution`
        ("Integer Laplace", "Float Laplace", "Integer Gaussian", "Float Gaussian") and `scale`; one row for all
        components, or one for each. Of a query of the plain context, {"distribution": "Float Laplace",
        "scale": query.param()}.

    A summary with a threshold (groups were dropped) or with more rows than numbers (a mean made of a noisy sum and a
    noisy count) is refused: ask for the sums and counts themselves, with public groups.

    Examples
    --------
    >>> schema = nw.Schema({"age": nw.Bounded(0, 100)}, n_max=5000, neighbours="add-remove")
    >>> summary = {"distribution": "Float Laplace", "scale": 100.0}
    >>> nw.imports.opendp(nw.Sum("age"), schema, 44_640, summary).estimate
    array([44640.])
    """
    rows = table_rows(summary, "summary")
    if any(row.get("threshold") is not None for row in rows):
        raise Unsupported(
            "This query drops groups whose noisy count is below a threshold, so that which groups are there is part of "
            "what was published. Ask it of groups that are public (margins with public keys), without a threshold."
        )
    numbers = np.size(np.asarray(value, dtype=object))
    if len(rows) not in (1, numbers):
        raise Unsupported(
            f"{numbers} numbers were published, and the summary has {len(rows)} noises: a number made of several noisy "
            "ones (a mean of a sum and a count) has no noise of its own. Release the sum and the count by themselves."
        )
    kinds = {str(row.get("distribution")).lower() for row in rows}
    if len(kinds) != 1 or not all("scale" in row for row in rows):
        raise InvalidArgument("summary must state one distribution and a scale in each row.", argument="summary")
    scale = [cast(float, row["scale"]) for row in rows]
    makers = {
        "integer laplace": lambda: geometric_noise(scale=scale),
        "float laplace": lambda: laplace_noise(scale=scale),
        "integer gaussian": lambda: gaussian_noise(sd=scale, discrete=True),
        "float gaussian": lambda: gaussian_noise(sd=scale),
    }
    kind = kinds.pop()
    if kind not in makers:
        raise Unsupported(f"The distribution {shown(kind, 40)} is not one of {', '.join(makers)}.")
    made = makers[kind]()
    return measurement(statistic, schema, value, noise=made, dataset=dataset, guarantee=guarantee, source="OpenDP")


class _Tuple(Protocol):
    """A named tuple, as PipelineDP gives for each partition."""

    def _asdict(self) -> dict[str, object]: ...


@reads("PipelineDP")
def pipelinedp(
    statistic: Statistic,
    schema: Schema,
    partitions: Iterable[tuple[object, object]],
    *,
    metric: str,
    noise_kind: str,
    public_partitions: bool,
    dataset: str | None = None,
    guarantee: Guarantee | None = None,
) -> Measurement:
    """One number for each partition that PipelineDP aggregated with `output_noise_stddev=True`.

    Parameters
    ----------
    statistic
        What the partitions hold: Histogram("region") of their counts, Sum("age", by="region") of their sums.
    partitions
        The collected result, pairs of a partition key and its metrics; keys are the levels of the column.
    metric
        "count", "privacy_id_count" or "sum".
    noise_kind
        "laplace" or "gaussian", as in the aggregation's parameters (a NoiseKind is read by its name).
    public_partitions
        Whether the partitions were given beforehand. Private ones are dropped below a noisy threshold,
        which is part of what was published and is not modelled: they are refused.
    schema, dataset, guarantee
        As of `measurement`. Sums and counts are those of all records: contribution bounds that
        drop or clip some of them must not have been reached.

    Examples
    --------
    >>> schema = nw.Schema({"region": nw.Levels(["north", "south"])}, n_max=5000, neighbours="add-remove")
    >>> from collections import namedtuple
    >>> noisy = namedtuple("MetricsTuple", ["count", "count_noise_stddev"])
    >>> found = [("north", noisy(812.4, 1.41)), ("south", noisy(376.7, 1.41))]
    >>> nw.imports.pipelinedp(nw.Histogram("region"), schema, found, metric="count", noise_kind="laplace",
    ...                       public_partitions=True).estimate
    array([812.4, 376.7])
    """
    checked_statistic(statistic)
    checked_schema(schema)
    if metric not in ("count", "privacy_id_count", "sum"):
        raise Unsupported(
            f"metric = {shown(metric)}: PipelineDP states the noise of count, privacy_id_count and sum alone. A mean "
            "is made of a noisy sum and a noisy count: ask for those."
        )
    if public_partitions is not True:
        raise Unsupported(
            "Private partitions are published only where a noisy count of people passes a threshold, so the others are "
            "missing for a reason, which no law here knows. Aggregate with public_partitions=..., and say so."
        )
    levels = _level_names(statistic, schema)
    found: dict[str, tuple[float, float]] = {}
    for key, metrics in _some(partitions, "partitions"):
        if "_asdict" not in dir(metrics):
            raise InvalidArgument("partitions must pair a key with PipelineDP's metrics.", argument="partitions")
        fields = cast(_Tuple, metrics)._asdict()
        if metric not in fields or f"{metric}_noise_stddev" not in fields:
            raise InvalidArgument(
                f"The metrics hold no {metric} with its noise: aggregate with Metrics.{metric.upper()} and "
                "output_noise_stddev=True.",
                argument="partitions",
            )
        if str(key) in found:
            raise InvalidArgument(f"The partition {shown(key, 40)} is there twice.", argument="partitions")
        found[str(key)] = cast(float, fields[metric]), cast(float, fields[f"{metric}_noise_stddev"])
    if set(found) != set(levels):
        raise InvalidArgument(
            f"{len(found)} partitions were published and the schema declares {len(levels)} levels; a public partition "
            "is there even where nobody is in it, so both must be the same.",
            argument="partitions",
        )
    sd = [found[level][1] for level in levels]
    noise = _by_name(str(getattr(noise_kind, "value", noise_kind)), sd)
    value = [found[level][0] for level in levels]
    return measurement(statistic, schema, value, noise=noise, dataset=dataset, guarantee=guarantee, source="PipelineDP")


@reads("diffprivlib")
def diffprivlib(
    statistic: Statistic, schema: Schema, value: object, mechanism: object, *, dataset: str | None = None
) -> Measurement:
    """A value with the diffprivlib mechanism that randomised it.

    Parameters
    ----------
    statistic, schema, value, dataset
        As of `measurement`.
    mechanism
        A Laplace, LaplaceTruncated, Gaussian, GaussianAnalytic, GaussianDiscrete, Geometric, GeometricTruncated
        or Binary of diffprivlib.mechanisms: the same for all components. A truncated one clips to its bounds: a value
        strictly between them has the same law as without, one at a bound is refused. Binary is randomized response:
        `value` counts the answers. Folded, bounded-domain, snapping, staircase and uniform noise is refused.

        nw.imports.diffprivlib(nw.Count(smokers), schema, mechanism.randomise(count), mechanism)
    """
    name, members = type(mechanism).__name__, vars(mechanism)
    if name not in _DIFFPRIVLIB:
        raise Unsupported(
            f"The mechanism {shown(name)} is not one of {', '.join(_DIFFPRIVLIB)}; what it does to a value is no "
            "noise that is added and left alone, and has no law here."
        )
    if "lower" in members:
        numbers = np.asarray(value, dtype=float)
        if not np.all((numbers > members["lower"]) & (numbers < members["upper"])):
            raise Unsupported(
                f"{name} clipped this value to its bound {members['lower']} or {members['upper']}: how far beyond it "
                "the noise had gone is lost, and there is no law here for what is left."
            )
    noise = _DIFFPRIVLIB[name](members)
    return measurement(statistic, schema, value, noise=noise, dataset=dataset, source=f"diffprivlib {name}")


def _pure_scale(members: Mapping[str, float]) -> float:
    """sensitivity/(epsilon - log(1 - delta)), diffprivlib's Laplace scale."""
    return members["sensitivity"] / (members["epsilon"] - math.log1p(-members["delta"]))


_DIFFPRIVLIB = {
    "Laplace": lambda m: laplace_noise(scale=_pure_scale(m)),
    "LaplaceTruncated": lambda m: laplace_noise(scale=_pure_scale(m)),
    "Gaussian": lambda m: gaussian_noise(sd=float(m["_scale"])),
    "GaussianAnalytic": lambda m: gaussian_noise(sd=float(m["_scale"])),
    "GaussianDiscrete": lambda m: gaussian_noise(sd=float(m["_scale"]), discrete=True),
    "Geometric": lambda m: geometric_noise(scale=m["sensitivity"] / m["epsilon"]),
    "GeometricTruncated": lambda m: geometric_noise(scale=m["sensitivity"] / m["epsilon"]),
    "Binary": lambda m: randomized_response(keep=1 / (1 + math.exp(-m["epsilon"])), cells=2),
}


class _Linear(Protocol):
    """mbi's LinearMeasurement."""

    noisy_measurement: object
    clique: tuple[str, ...]
    stddev: float
    query: object


@reads("mbi")
def mbi(measurements: object, schema: Schema, *, dataset: str | None = None) -> list[Measurement]:
    """mbi's linear measurements, each of one whole marginal with Gaussian noise: a Measurement of Marginals for each.

    Parameters
    ----------
    measurements
        One LinearMeasurement or several. Its query must be the plain data vector of its clique: weighted and
        sliced ones are other numbers, and refused.
    schema
        With Levels for every column of the cliques, in the order of mbi's domain.
    dataset
        Whose records they are. Several marginals of one data set are learnt from together only with it.

        nw.infer(nw.imports.mbi(measurements, schema, dataset="adult"), nw.GraphicalModel(cliques, schema))
    """
    is_one = "noisy_measurement" in dir(measurements)
    found = []
    for one in _some((measurements,) if is_one else measurements, "measurements"):
        if any(name not in dir(one) for name in ("noisy_measurement", "clique", "stddev", "query")):
            raise InvalidArgument("measurements must hold mbi's LinearMeasurement objects.", argument="measurements")
        made = cast(_Linear, one)
        query = type(made.query).__name__
        if query != "DatavectorQuery" and not str(made.query).split(" at ")[0].endswith("datavector"):
            raise Unsupported(
                f"The measurement of {made.clique!s:.80} is of a {query:.40}, not of the whole marginal: only the "
                "data vector of a clique is a table that is read here."
            )
        statistic = statistic_from_dict({"kind": "marginals", "cliques": [list(made.clique)]})
        value = np.asarray(made.noisy_measurement, dtype=float).ravel()
        noise = gaussian_noise(sd=float(made.stddev))
        found.append(measurement(statistic, schema, value, noise=noise, dataset=dataset, source="mbi"))
    return found


@reads("the US Census")
def census(
    statistic: Statistic, schema: Schema, row: Row, *, dataset: str | None = None, guarantee: Guarantee | None = None
) -> Measurement:
    """One row of a noisy measurement file of the 2020 US Census: counts with discrete Gaussian noise.

    Parameters
    ----------
    statistic, schema, dataset, guarantee
        As of `measurement`; the schema's n_max is what the geography can hold
        (add-remove, since its population is not published without noise, or change-one where an invariant states it).
    row
        A mapping with `value` (the noisy counts, as the query lists them) and `variance` of their noise; further
        fields (geocode, query_name, query_shape, ...) are kept in the source line as far as they are text.

    Written by the published description of those files: no real file was at hand to test it with. The tables of
    persons after post-processing (the top-down algorithm) are other numbers, without a law, and not what this reads.

    Examples
    --------
    >>> schema = nw.Schema({"adult": nw.Levels(["no", "yes"])}, n_max=5000, neighbours="add-remove")
    >>> row = {"geocode": "44", "value": [5, 12], "variance": 9.2}
    >>> nw.imports.census(nw.Histogram("adult"), schema, row).estimate
    array([ 5., 12.])
    """
    if "value" not in row or "variance" not in row:
        raise InvalidArgument("row must be a mapping with value and variance.", argument="row")
    try:
        sd = math.sqrt(float(cast(float, row["variance"])))
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument("variance must be a number greater than 0.", argument="row") from None
    place = ", ".join(f"{key} {row[key]!s:.60}" for key in ("geocode", "query_name") if key in row)
    source = f"2020 US Census noisy measurements{': ' if place else ''}{place}"
    noise = gaussian_noise(sd=sd, discrete=True)
    return measurement(
        statistic, schema, row["value"], noise=noise, dataset=dataset, guarantee=guarantee, source=source
    )


# ---- shapes ----


class _Frame(Protocol):
    def to_dict(self, orient: str) -> list[Row]: ...


class _PolarsFrame(Protocol):
    def to_dicts(self) -> list[Row]: ...


def table_rows(given: object, argument: str) -> list[Row]:
    """A table as rows: of Polars, of pandas, a list of mappings, or one mapping."""
    if "to_dicts" in dir(given):
        return cast(_PolarsFrame, given).to_dicts()
    if "iterrows" in dir(given):
        return cast(_Frame, given).to_dict("records")
    rows = [given] if "keys" in dir(given) else _some(given, argument)
    if not rows or any("keys" not in dir(row) for row in rows):
        raise InvalidArgument(f"{argument} must be a table, or list its rows as mappings.", argument=argument)
    return cast(list[Row], rows)


def _some(given: object, argument: str) -> list[tuple[object, object]]:
    """The members of a list, at most so many."""
    try:
        members = list(cast(Sequence[tuple[object, object]], given))
    except TypeError:
        raise InvalidArgument(f"{argument} is a {type(given).__name__}; give a list.", argument=argument) from None
    if len(members) > MOST_ROWS:
        raise InvalidArgument(f"{argument} has {len(members)} rows; at most {MOST_ROWS} are read.", argument=argument)
    return members


def _level_names(statistic: Statistic, schema: Schema) -> list[str]:
    """The levels that a table's cells or groups are of, in their order; of one column alone."""
    by, _ = statistic.by_group()
    columns = by or statistic.columns()
    if len(columns) != 1:
        raise Unsupported(f"{statistic!s:.80} is of several columns; partitions by the levels of one are read.")
    return [str(level) for level in schema.levels(columns[0]).levels]


def _by_name(kind: str, sd: Sequence[float]) -> StatedNoise:
    if kind.lower() == "gaussian":
        return gaussian_noise(sd=sd)
    if kind.lower() == "laplace":
        return laplace_noise(scale=[one / math.sqrt(2) for one in sd])
    raise InvalidArgument(f"noise_kind = {shown(kind, 40)} is neither 'laplace' nor 'gaussian'.", argument="noise_kind")
