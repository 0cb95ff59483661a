"""Compiled functions that are always those of the sources.

Numba keeps compiled code on disk under a stamp of the *one* file a function stands in. A function that calls another
file's, or reads its constants, has these inside its own machine code: after an edit there the old code runs on. So
every compiled function of this package goes through `njit` below, which keeps it in a folder named by a hash of all
sources of the package:
    <place>/noisewise-compiled/<sha256 of every path and its text>/<room>/...
Other sources, another folder: what is found there was made from exactly these sources. The last few folders are kept
(two versions may take turns), older ones are removed whenever a new one is made.

A process that has sources in memory that are no longer those on disk (somebody edits, switches branches or installs
while it runs) neither reads nor writes the folder from then on: it compiles what it needs. Where nothing can be
written, or a folder vanishes under a running process, it compiles, too; nothing fails.

The place is NUMBA_CACHE_DIR if that is set, else `__pycache__` of the package, else the user's cache folder.

`inner` is for functions that compiled code alone calls: they are compiled without the two wrappers by which Python and
C would call them, and, unless they make arrays, without counting references. With arguments that hold dozens of arrays
that is most of what compiling and calling them costs. Called from Python, such a function runs as Python.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cache as once
from pathlib import Path
from typing import Any, TypeVar, cast, overload

import numba
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserWideCacheLocator, _CacheLocator
from numba.core.dispatcher import Dispatcher

Function = TypeVar("Function", bound=Callable[..., Any])  # to its callers a compiled function is what it was
SOURCES = Path(__file__).parent
# When the package was first imported. Sources that changed later may be in memory in part.
IMPORTED_AT: int = sys.modules[__package__].IMPORTED_AT
FOLDER = "noisewise-compiled"
KEPT = 3  # folders of other sources, besides the one in use
CLOCK_TICK = 10_000_000  # nanoseconds by which the times of files may lag behind the clock
RECHECK = 1.0  # seconds for which sources that were unchanged are taken to be so when code is read


@overload
def njit(function: Function, /) -> Function: ...
@overload
def njit(*, cache: bool = True, **options: object) -> Callable[[Function], Function]: ...
def njit(function: Callable[..., object] | None = None, /, *, cache: bool = True, **options: object) -> object:
    """`numba.njit`, kept on disk under a hash of all sources; a function from elsewhere is never kept."""
    if function is None:
        return lambda function: _compiled(function, cache=cache, options=options)
    return _compiled(function, cache=cache, options=options)


def _compiled(function: Callable[..., object], *, cache: bool, options: Mapping[str, object]) -> object:
    compiled = numba.njit(**options)(function)
    if cache and isinstance(compiled, Dispatcher) and is_ours(compiled):
        folder = _folder()
        if folder is not None:
            compiled._cache = _SourceCache(function)  # type: ignore[attr-defined]
    return compiled


def inner(*, allocates: bool = False, **options: object) -> Callable[[Function], Function]:
    """`njit` for a function that only compiled code calls; one that makes arrays must say so."""
    options = {"_nrt": allocates, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, **options}

    def compiled(function: Function) -> Function:
        found = _compiled(function, cache=True, options=options)
        if found is not function:  # as it is where compiling is switched off
            found.__class__ = _Inner
        return cast("Function", found)

    return compiled


class _Inner(Dispatcher):
    """A function without a wrapper: Python that called its machine code would crash, so it runs the source."""

    def __call__(self, *arguments: object) -> object:
        return self.py_func(*arguments)


def is_ours(compiled: Dispatcher) -> bool:
    """Whether the function stands in a file of this package."""
    return Path(compiled.py_func.__code__.co_filename).is_relative_to(SOURCES)


class _Locator(_CacheLocator):  # type: ignore[misc]
    """Where a function's compiled code lies: the folder of the sources, a subfolder for each room."""

    def __init__(self, function: Callable[..., Any]) -> None:
        code = function.__code__
        folder = _folder()
        assert folder is not None
        self._py_file, self._lineno = code.co_filename, code.co_firstlineno
        self._path = str(folder / Path(code.co_filename).relative_to(SOURCES).parent)

    def get_cache_path(self) -> str:
        return self._path

    def get_source_stamp(self) -> str:
        return sources_hash()

    def get_disambiguator(self) -> str:
        return str(self._lineno)


class _Place(CompileResultCacheImpl):  # type: ignore[misc]
    """Numba's way to write compiled code, at our place whatever the settings say of locators."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._lineno = function.__code__.co_firstlineno
        self._locator = _Locator(function)
        name = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}"
        self._filename_base = self.get_filename_base(name, "")


class _SourceCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function, silent when the sources moved on or the folder cannot be used."""

    _impl_class = _Place

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        if not _is_current(RECHECK):
            return None
        try:
            return super().load_overload(sig, target_context)
        except (OSError, EOFError, pickle.UnpicklingError):
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if not _is_current(0.0):
            return
        try:
            super().save_overload(sig, data)
        except OSError:
            return


@once
def sources_hash() -> str:
    """sha256 of every source file's path in the package and its text."""
    total = hashlib.sha256()
    for path in sorted(_paths()):
        total.update(path.relative_to(SOURCES).as_posix().encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def _paths() -> list[Path]:
    paths: list[Path] = []
    for folder, folders, names in os.walk(SOURCES):
        folders[:] = [name for name in folders if name != "__pycache__"]
        paths.extend(Path(folder, name) for name in names if name.endswith(".py"))
    return paths


def _stamp() -> frozenset[tuple[str, int, int, int]]:
    """Each file with its length and the times of its last change: of the text, of anything."""
    stats = ((str(path), path.stat()) for path in _paths())
    return frozenset((path, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for path, stat in stats)


class _Watch:
    """Whether the sources are still those that the process began with and that the hash is of."""

    def __init__(self) -> None:
        self.stamp = _stamp()
        # The time of a change of any kind cannot be set by copying, but means the file's birth under Windows.
        newest = max(mtime if os.name == "nt" else ctime for _, _, mtime, ctime in self.stamp)
        self.holds = newest <= IMPORTED_AT - CLOCK_TICK
        sources_hash()
        self.looked = time.monotonic()
        self.look(0.0)

    def look(self, patience: float) -> bool:
        """Look again if the last look is longer ago than that; once changed is changed for this process."""
        if self.holds and time.monotonic() - self.looked >= patience:
            try:
                self.holds = _stamp() == self.stamp
            except OSError:
                self.holds = False
            self.looked = time.monotonic()
        return self.holds


@once
def _watch() -> _Watch:
    return _Watch()


def _is_current(patience: float) -> bool:
    return _watch().look(patience)


@once
def _folder() -> Path | None:
    """The folder of these sources, made if need be; None where none can be written."""
    try:
        if not _is_current(RECHECK):
            return None
        name = sources_hash()[:32]
    except OSError:  # a zip file, or sources that vanish
        return None
    for place in _places():
        folder = place / FOLDER / name
        try:
            is_new = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            os.utime(folder)
        except OSError:
            continue
        if is_new:
            _remove_old(folder)
        return folder
    return None


def _places() -> list[Path]:
    """Where compiled code may lie, best first; outside the package under a name made of its path."""
    file = str(SOURCES / "__init__.py")
    own = _CacheLocator.get_suitable_cache_subpath(file)
    given = [Path(config.CACHE_DIR) / own] if config.CACHE_DIR else []
    return [*given, SOURCES / "__pycache__", Path(UserWideCacheLocator(_places, file).get_cache_path())]


def _remove_old(folder: Path) -> None:
    """Remove all but the last folders used by other sources of the same package."""
    others = []
    for other in folder.parent.iterdir():
        try:
            if other != folder and other.is_dir():
                others.append((other.stat().st_mtime, other))
        except OSError:  # another process removed it
            continue
    for _, other in sorted(others)[:-KEPT]:
        shutil.rmtree(other, ignore_errors=True)
