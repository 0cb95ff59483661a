"""Posteriors on disk: one file, whole or not at all, read without running anything in it.

The file is a NumPy archive (whatever its name): the draws as arrays and one JSON header with every other field. The
population is written in the grammar of spec files, the releases in their own checked form. Nothing is pickled; a model
is written by its own `to_spec()` under its name in `models.registry`. A name that is not there is refused: a file never
says what is imported. Files of format 1 are read as they were.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, cast

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.inference import archive
from noisewise.inference.check import Check
from noisewise.inference.posterior import Posterior
from noisewise.inference.verdict import Verdict
from noisewise.likelihood.size_prior import Sizes, is_size_law, listed_sizes
from noisewise.measuring import noisy_value_from_dict
from noisewise.models.protocol import Model
from noisewise.models.registry import MODELS
from noisewise.noisy_value import NoisyValue
from noisewise.populations.text import population_from_spec, prior_text, size_from_text
from noisewise.printable import shown
from noisewise.statistics.sensitivity import one_file
from noisewise.types import Floats

__all__ = ["FORMAT", "load", "save"]

FORMAT, OLD_FORMAT = "noisewise-posterior/2", "noisewise-posterior/1"
PLAIN = ("method", "how", "law", "likelihood", "seed", "is_point", "log_evidence", "seconds", "instead")
FAR = 5  # sds between a stored mean and that of the draws
OLD_NAMES = {
    "noisewise.regression.model:LinearRegression": "LinearRegression",
    "noisewise.graphical.model:GraphicalModel": "GraphicalModel",
}


def save(posterior: Posterior, path: str | PathLike[str]) -> None:
    """Write a posterior to one file."""
    where = archive.checked_path(path)
    header = {
        "format": FORMAT,
        **{name: getattr(posterior, name) for name in PLAIN},
        "names": list(posterior.draws),
        "stated_n": _stated(posterior.stated_n),
        "moments": _moments_to_plain(posterior.moments),
        "verdict": posterior.verdict.to_dict(),
        "check": None if posterior.known_check is None else posterior.known_check.to_dict(),
        "population": _population_to_plain(posterior.model),
        "releases": [release.to_dict() for release in posterior.releases],
    }
    arrays = {f"draws_{k}": value for k, value in enumerate(posterior.draws.values())}
    if posterior.energy is not None:
        arrays["energy"] = np.asarray(posterior.energy)
    if posterior.covariance is not None:
        arrays["covariance"] = np.asarray(posterior.covariance)
    archive.write(where, header, arrays)


def load(path: str | PathLike[str]) -> Posterior:
    """Read a posterior; anything wrong with the file is one sentence."""
    where = archive.checked_path(path)
    with archive.reading(where, "posterior"):
        header, arrays = archive.read(where, forms=(FORMAT, OLD_FORMAT))
        if header["format"] == OLD_FORMAT:
            header |= _renewed(header)
        header |= _checked_header(header)
        draws = {name: arrays[f"draws_{k}"] for k, name in enumerate(header["names"])}
        found = Posterior(
            draws=draws,
            verdict=Verdict.from_dict(header["verdict"]),
            population=_population_from_plain(header["population"]),
            releases=_releases_from_plain(header["releases"]),
            moments=_moments_from_plain(header["moments"]),
            stated_n=_stated_again(header["stated_n"]),
            energy=arrays.get("energy"),
            covariance=arrays.get("covariance"),
            **{name: header[name] for name in PLAIN},
        )
        if header["check"] is not None:
            found = found.with_check(Check.from_dict(header["check"]))
        _ = str(found.verdict), found.check_sentence(is_asked=False)  # numbers that cannot be said are none
        _check_numbers(found)
        return found


def _releases_from_plain(listed: Sequence[object]) -> tuple[NoisyValue, ...]:
    with one_file():
        return tuple(noisy_value_from_dict(plain) for plain in listed)


class _Header(BaseModel):
    """The kinds of what a header holds beside verdict, check, population and releases, which check themselves."""

    model_config = ConfigDict(strict=True, extra="ignore")

    method: str
    how: str
    law: str
    likelihood: str
    instead: str
    seed: int | None
    is_point: bool
    log_evidence: float | None
    seconds: float
    names: list[str]
    stated_n: int | str | list[int | str] | None


def _checked_header(header: Mapping[str, object]) -> dict[str, object]:
    """Its plain entries, read as what they are; those of a wrong kind and names given twice are refused."""
    try:
        read = _Header.model_validate_json(json.dumps({name: header.get(name) for name in _Header.model_fields}))
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]
        raise InvalidArgument(f"its {'.'.join(map(str, detail['loc']))}: {detail['msg']}.", argument="path") from None
    if len(set(read.names)) != len(read.names):
        raise InvalidArgument("it names a parameter twice.", argument="path")
    return read.model_dump()


def _check_numbers(found: Posterior) -> None:
    """Refuse draws outside what they are draws of, and stored moments that are not theirs."""
    if any(values.ndim < 2 or 0 in values.shape[:2] for values in found.draws.values()):
        raise InvalidArgument("it holds a parameter of which there are no draws.", argument="path")
    if found.verdict.is_converged and not all(np.isfinite(values).all() for values in found.draws.values()):
        raise InvalidArgument("its draws are not all finite, and its verdict does not say so.", argument="path")
    supports = {} if found.population is None else found.model.supports
    told = [name for name in supports if name in found.draws]
    others = () if found.population is None else found.model.unlisted  # from which a model's parameters may follow
    if told and len(told) < len(supports) and not any(name in found.draws for name in others):
        raise InvalidArgument("it holds draws of some of its parameters only.", argument="path")
    for name in told:
        values, support = found.draws[name], supports[name]
        if np.any(values < support.low) or np.any(values > support.high):
            raise InvalidArgument(f"its draws of {shown(name)} lie outside {support}.", argument="path")
    if found.moments is not None and not set(found.moments) >= set(told):
        raise InvalidArgument("its moments are not of all its parameters.", argument="path")
    if found.covariance is not None:
        _check_covariance(found.covariance, sum(support.unknowns for support in supports.values()))
    for name, (mean, sd) in (found.moments or {}).items():
        values = found.draws.get(name, np.empty((0, 0)))
        if np.shape(mean) != values.shape[2:] or np.shape(sd) != values.shape[2:] or np.any(np.asarray(sd) < 0):
            raise InvalidArgument(f"its moments of {shown(name)} are not of its draws.", argument="path")
        if found.verdict.is_converged and np.any(np.abs(mean - values.mean((0, 1))) > FAR * (sd + values.std((0, 1)))):
            raise InvalidArgument(f"its mean of {shown(name)} is far from its draws.", argument="path")


def _check_covariance(covariance: Floats, size: int) -> None:
    """Refuse what is no covariance of the unknowns."""
    is_one = covariance.shape == (size, size) and bool(np.isfinite(covariance).all())
    if not is_one or not np.allclose(covariance, covariance.T) or np.linalg.eigvalsh(covariance)[0] < -1e-9:
        raise InvalidArgument("its covariance is none of its unknowns.", argument="path")


def _renewed(header: dict[str, Any]) -> dict[str, Any]:
    """What format 1 has otherwise: how and law in one sentence, and no check."""
    how, _, law = str(header["because"]).partition("; ")
    return {"how": how, "law": law, "check": None}


def _stated(n: Sizes) -> int | str | list[int | str] | None:
    """A number, a prior in the grammar of spec files, or a list of such."""
    entries = listed_sizes(n)
    if entries is not None:
        return list(map(_one_stated, entries))
    return None if n is None else _one_stated(n)


def _one_stated(n: object) -> int | str:
    return prior_text(n) if is_size_law(n) else int(cast("int", n))


def _stated_again(plain: object) -> Sizes:
    entries = listed_sizes(plain)
    if entries is not None:
        return [size_from_text(str(one)) for one in entries]
    return None if plain is None else size_from_text(str(plain))


def _moments_to_plain(moments: Mapping[str, tuple[Any, Any]] | None) -> Any:
    if moments is None:
        return None
    return {name: [np.asarray(value, float).tolist() for value in pair] for name, pair in moments.items()}


def _moments_from_plain(plain: Any) -> dict[str, tuple[Any, Any]] | None:
    if plain is None:
        return None
    return {name: (np.asarray(mean, float), np.asarray(sd, float)) for name, (mean, sd) in plain.items()}


def _population_to_plain(model: Model) -> dict[str, Any]:
    """What was learnt in the grammar of spec files, under its name if it is a model of `models.registry`."""
    try:
        spec = model.to_spec()
    except NoisewiseError as error:
        raise Unsupported(
            f"This posterior cannot be saved, because its population cannot be written: {error} "
            "Keep the draws with numpy.savez(path, **posterior.draws)."
        ) from error
    kind = model.described.__class__
    known = kind.__name__ in MODELS and MODELS[kind.__name__].load() is kind
    return {"class": kind.__name__, "spec": spec} if known else {"spec": spec}


def _population_from_plain(plain: dict[str, Any]) -> object:
    if "class" not in plain:
        return population_from_spec(plain["spec"])
    name = OLD_NAMES.get(plain["class"], plain["class"])
    if name not in MODELS:
        raise InvalidArgument(f"its model {shown(name)} is not one of {', '.join(MODELS)}.", argument="path")
    return MODELS[name].load().from_spec(plain["spec"])
