"""One file for a thing made of arrays: a NumPy archive with a JSON header, written whole or not at all.

Nothing is pickled, and reading runs nothing in the file. What is wrong with a file is one sentence that names it.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from noisewise.errors import InvalidArgument, NoisewiseError
from noisewise.release import write_whole

DAMAGED = (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, EOFError, BadZipFile, zlib.error,
           RuntimeError, MemoryError)  # fmt: skip

__all__ = ["checked_path", "read", "reading", "write"]


def checked_path(path: object) -> Path:
    """The path of a file, or a sentence."""
    if not isinstance(path, str | PathLike) or not str(path):
        raise InvalidArgument(f"path = {path!r:.60} is not the path of a file.", argument="path")
    return Path(path)


def write(where: Path, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write the header and the arrays to one file."""
    stream = io.BytesIO()
    np.savez(stream, header=np.array(json.dumps(header)), **arrays)
    try:
        write_whole(where, stream.getvalue())
    except NoisewiseError as error:
        reason = error.__context__
        raise NoisewiseError(f"Cannot write {str(where)!r}: {getattr(reason, 'strerror', None) or reason}.") from None


def read(where: Path, *, form: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the arrays of a file of that format."""
    with where.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
        if not hasattr(file, "files"):
            raise ValueError("one array, not an archive")
        arrays = {key: file[key] for key in file.files}
    header: dict[str, Any] = json.loads(str(arrays.pop("header")))
    if header["format"] != form:
        raise InvalidArgument(
            f"its format is {header['format']!r:.60}; this version reads {form!r}. A newer Noisewise may be needed.",
            argument="path",
        )
    return header, arrays


@contextmanager
def reading(where: Path, thing: str) -> Iterator[None]:
    """Turn whatever a damaged or foreign file brings about into one sentence."""
    try:
        yield
    except NoisewiseError as error:
        raise InvalidArgument(f"{where} is not a saved {thing}: {error}", argument="path") from None
    except DAMAGED as error:
        raise InvalidArgument(
            f"{where} is not a whole saved {thing} ({type(error).__name__}). Save it again.", argument="path"
        ) from None
