"""Posteriors on disk: one file, whole or not at all, read without running anything in it.

The file is a NumPy archive (whatever its name): the draws as arrays and one JSON header with every other field. The
population is written in the grammar of spec files, the releases in their own checked form. Nothing is pickled; a model
is written by its own `to_spec()` under its name in `MODELS`, the fixed list of what a file may hold. A name that is not
in it is refused: a file never says what is imported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any

import numpy as np

from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.inference import archive
from noisewise.inference.diagnostics import Verdict
from noisewise.inference.exact import IndependentVerdict
from noisewise.inference.posterior import Posterior
from noisewise.printable import shown
from noisewise.release import Release

__all__ = ["FORMAT", "load", "save"]

FORMAT = "noisewise-posterior/1"
VERDICTS: dict[str, Any] = {kind.__name__: kind for kind in (Verdict, IndependentVerdict)}
PLAIN = ("method", "because", "likelihood", "seed", "is_point", "log_evidence", "seconds", "instead")


@dataclasses.dataclass(frozen=True, slots=True)
class SavedVerdict:
    """The words of a verdict of another kind."""

    text: str
    is_converged: bool

    def __str__(self) -> str:
        return self.text


VERDICTS["SavedVerdict"] = SavedVerdict


def _linear_regression() -> Any:
    from noisewise.regression.model import LinearRegression

    return LinearRegression


def _graphical_model() -> Any:
    from noisewise.graphical.model import GraphicalModel

    return GraphicalModel


MODELS: dict[str, Callable[[], Any]] = {"LinearRegression": _linear_regression, "GraphicalModel": _graphical_model}
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
        "verdict": _verdict_to_plain(posterior.verdict),
        "population": _population_to_plain(posterior.population),
        "releases": [release.to_dict() for release in posterior.releases],
    }
    arrays = {f"draws_{k}": value for k, value in enumerate(posterior.draws.values())}
    if posterior.energy is not None:
        arrays["energy"] = np.asarray(posterior.energy)
    archive.write(where, header, arrays)


def load(path: str | PathLike[str]) -> Posterior:
    """Read a posterior; anything wrong with the file is one sentence."""
    where = archive.checked_path(path)
    with archive.reading(where, "posterior"):
        header, arrays = archive.read(where, form=FORMAT)
        draws = {name: arrays[f"draws_{k}"] for k, name in enumerate(header["names"])}
        return Posterior(
            draws=draws,
            verdict=_verdict_from_plain(header["verdict"]),
            population=_population_from_plain(header["population"]),
            releases=tuple(Release.from_dict(plain) for plain in header["releases"]),
            moments=_moments_from_plain(header["moments"]),
            stated_n=header["stated_n"],
            energy=arrays.get("energy"),
            **{name: header[name] for name in PLAIN},
        )


def _stated(n: Any) -> Any:
    return n if n is None or isinstance(n, int) else [int(value) for value in n]


def _moments_to_plain(moments: Mapping[str, tuple[Any, Any]] | None) -> Any:
    if moments is None:
        return None
    return {name: [np.asarray(value, float).tolist() for value in pair] for name, pair in moments.items()}


def _moments_from_plain(plain: Any) -> dict[str, tuple[Any, Any]] | None:
    if plain is None:
        return None
    return {name: (np.asarray(mean, float), np.asarray(sd, float)) for name, (mean, sd) in plain.items()}


def _verdict_to_plain(verdict: Any) -> Any:
    if verdict is None or isinstance(verdict, str):
        return verdict
    kind = type(verdict).__name__
    if VERDICTS.get(kind) is type(verdict):
        return {"kind": kind, **dataclasses.asdict(verdict)}
    return {"kind": "SavedVerdict", "text": str(verdict), "is_converged": bool(getattr(verdict, "is_converged", False))}


def _verdict_from_plain(plain: Any) -> Any:
    if not isinstance(plain, dict):
        return plain
    entries = {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}
    return VERDICTS[str(entries.pop("kind"))](**entries)


def _population_to_plain(population: Any) -> dict[str, Any]:
    for name, model in MODELS.items():
        if type(population).__name__ == name and type(population) is model():
            return {"class": name, "spec": population.to_spec()}
    from noisewise.populations.text import Written, population_to_spec

    try:
        if not isinstance(population, Written):
            raise Unsupported(f"{shown(type(population).__name__)} is neither a population nor one of our models.")
        return {"spec": population_to_spec(population)}
    except NoisewiseError as error:
        raise Unsupported(
            f"This posterior cannot be saved, because its population cannot be written: {error} "
            "Keep the draws with numpy.savez(path, **posterior.draws)."
        ) from error


def _population_from_plain(plain: dict[str, Any]) -> Any:
    if "class" not in plain:
        from noisewise.populations.text import population_from_spec

        return population_from_spec(plain["spec"])
    name = OLD_NAMES.get(plain["class"], plain["class"])
    if name not in MODELS:
        raise InvalidArgument(f"its model {shown(name)} is not one of {', '.join(MODELS)}.", argument="path")
    return MODELS[name]().from_spec(plain["spec"])
