"""What a study is: settings in, rows out, with the paper's figure beside ours.

A study is one file that defines

    STUDY = Study(name=..., about=..., source=..., settings={...}, columns=(...), measure=..., draw=..., note=...)

`measure(setup)` returns the rows. Its grid goes through `setup.map(task, points, what)`, which calls
`task(rng, point)` for every point on `setup.workers` processes. Each point has its own generator, keyed by the seed,
the name of the grid and the point's place in it, so the rows do not depend on how many processes there are.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.exact import integer
from noisewise.files import checked_plot
from noisewise_papers.setting import Setting, read_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]
Rows = Sequence[Row]
Progress = Callable[[str, int, int], None]  # what, done, total
Point = TypeVar("Point")
Found = TypeVar("Found")

DATA_FOLDER = "NOISEWISE_DATA"


@dataclass(frozen=True, slots=True)
class Setup:
    """What a study is run with: its settings, the seed, where real data lie (or None), and how to use the machine."""

    settings: Mapping[str, Any]
    seed: int
    data: Path | None = None
    workers: int = 2
    progress: Progress | None = None

    def __getitem__(self, name: str) -> Any:
        return self.settings[name]

    def rng(self, what: str, place: int = 0) -> np.random.Generator:
        """The generator of one place of the grid `what`."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(crc32(what.encode()), place)))

    def map(
        self, task: Callable[[np.random.Generator, Point], Found], points: Sequence[Point], what: str
    ) -> list[Found]:
        """`task(rng, point)` for every point, in order; `task` is a function of a module, so processes can share it."""
        calls = [(task, self.rng(what, place), point) for place, point in enumerate(points)]
        found: list[Found] = []
        self._say(what, 0, len(points))
        for result in self._results(calls):
            found.append(result)
            self._say(what, len(found), len(points))
        return found

    def _results(self, calls: list[tuple[Any, np.random.Generator, Any]]) -> Iterable[Any]:
        if self.workers == 1 or len(calls) < 2:
            return (task(rng, point) for task, rng, point in calls)
        from joblib import Parallel, delayed

        in_order = Parallel(n_jobs=self.workers, return_as="generator", pre_dispatch="all")
        results: Iterable[Any] = in_order(delayed(task)(rng, point) for task, rng, point in calls)
        return results

    def _say(self, what: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(what, done, total)


@dataclass(frozen=True, slots=True)
class Result:
    """The rows of one run of a study, with everything needed to run it again."""

    study: str
    settings: Mapping[str, Any]
    rows: Rows
    seconds: float
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; a number that is not finite becomes null."""
        return {
            "study": self.study,
            "settings": _plain(dict(self.settings)),
            "rows": _plain(list(self.rows)),
            "seconds": self.seconds,
        }

    def to_bytes(self) -> bytes:
        return (json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n").encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One table or figure of a paper."""

    name: str
    about: str  # one line
    source: str  # the paper, its table or figure
    settings: Mapping[str, Setting]
    columns: tuple[str, ...]  # the fields of a row, in the order of the table
    measure: Callable[[Setup], Rows]
    draw: Callable[[Figure, Rows], None]
    note: Callable[[Rows], str]  # what the rows show, in a few sentences

    def run(
        self,
        given: Mapping[str, object] | None = None,
        *,
        full: bool = False,
        seed: int = 1,
        data: str | os.PathLike[str] | None = None,
        workers: int = 2,
        progress: Progress | None = None,
    ) -> Result:
        """Measure the rows; `given` overrides settings, as text or as values."""
        setup = Setup(
            read_settings(self.settings, given or {}, full=full),
            integer(seed, "seed", minimum=0),
            data_folder(data),
            integer(workers, "workers", minimum=1, maximum=4096),
            progress,
        )
        begun = time.perf_counter()
        rows = self.measure(setup)
        return Result(self.name, setup.settings, rows, time.perf_counter() - begun, setup.seed)

    def plot(self, rows: Rows, path: str | os.PathLike[str]) -> None:
        """Draw the rows into a file (PNG, PDF or SVG, by its ending)."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8.0, 4.5), layout="constrained")
        self.draw(figure, rows)
        figure.savefig(checked_plot(path), dpi=150)


def data_folder(given: str | os.PathLike[str] | None) -> Path | None:
    """Where real data lie: as given, else as the environment says, else None (studies then simulate a stand-in)."""
    named = os.fspath(given) if given is not None else os.environ.get(DATA_FOLDER) or None
    if named is None:
        return None
    if not Path(named).is_dir():
        origin = "--data" if given is not None else DATA_FOLDER
        raise InvalidArgument(f"{origin}: there is no folder {named!r}.", argument="data")
    return Path(named)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value
