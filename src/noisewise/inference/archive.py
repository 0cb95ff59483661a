"""One file for a thing made of arrays: a NumPy archive with a JSON header, written whole or not at all.

Nothing is pickled, and reading runs nothing in the file. What is wrong with a file is one sentence that names it.

A file from a stranger costs no more than its own size: before anything is unpacked, its directory must say that every
member is stored as it is (as `write` stores it; a compressed member could be a thousand times larger), that all
members together fit into the file, and each member's own header that it is an array of plain numbers that fills it.
"""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.lib import format as npy

from noisewise.errors import InvalidArgument, NoisewiseError
from noisewise.files import checked_path, open_file, read_json, write_whole
from noisewise.printable import printable, shown

DAMAGED = (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, EOFError, BadZipFile, zlib.error,
           RuntimeError, MemoryError, ArithmeticError, NotImplementedError)  # fmt: skip
LARGEST_FILE = 2**34
LARGEST_HEADER = 200 * 2**20  # characters, of four bytes each in the file
MOST_CONTAINERS = 5_000_000  # in a header: a survey's every question has eight
MOST_MEMBERS = 10_000
NUMBERS = "biuf"  # kinds of NumPy's plain numbers
DIMENSIONS = 16

__all__ = ["arrays_of", "checked_path", "read", "reading", "write"]


def write(where: Path, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write the header and the arrays to one file."""
    stream = io.BytesIO()
    np.savez(stream, header=np.array(json.dumps(header)), **arrays)
    try:
        write_whole(where, stream.getvalue())
    except NoisewiseError as error:
        reason = error.__context__
        raise NoisewiseError(
            f"Cannot write {printable(where)!r}: {getattr(reason, 'strerror', None) or reason}."
        ) from None


def read(where: Path, *, forms: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the arrays of a file of one of these formats, the newest first."""
    header, arrays = arrays_of(where, text="header")
    if header["format"] not in forms:
        found = shown(header["format"])
        raise InvalidArgument(
            f"its format is {found}; this version reads {forms[0]!r}. A newer Noisewise may be needed.",
            argument="path",
        )
    return header, arrays


def arrays_of(where: Path, *, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The JSON object in member `text` and all other members as arrays; no more memory than the file's own size."""
    with open_file(where, largest=LARGEST_FILE, refuse=_refused) as stream, zipfile.ZipFile(stream) as file:
        members = _checked_members(file, os.fstat(stream.fileno()).st_size)
        arrays = {name: _array(file.read(member), is_text=name == text) for name, member in members.items()}
    written = str(arrays.pop(text))
    if len(written) > LARGEST_HEADER:
        raise _refused(f"its header is longer than {LARGEST_HEADER // 2**20} MB.")
    header = read_json(written, is_finite=False, most_containers=MOST_CONTAINERS)
    if not isinstance(header, dict):
        raise TypeError("a header that is no object")
    return header, arrays


def _checked_members(file: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The members by the names of their arrays, once the directory has shown that they fit into the file."""
    listed = file.infolist()
    if len(listed) > MOST_MEMBERS:
        raise _refused(f"it has more than {MOST_MEMBERS} members.")
    if any(member.compress_type != zipfile.ZIP_STORED for member in listed):
        raise _refused("its arrays are compressed, and a saved file's are not: unpacked they could fill the memory.")
    if any(member.file_size != member.compress_size or member.flag_bits & 1 for member in listed):
        raise BadZipFile("members of other sizes than stored")
    if sum(member.file_size for member in listed) > size:
        raise _refused("its arrays are said to be larger than the whole file.")
    members = {member.filename.removesuffix(".npy"): member for member in listed}
    if len(members) != len(listed):
        raise BadZipFile("a member twice")
    return members


def _array(data: bytes, *, is_text: bool) -> Any:
    """A member of the archive, whose header must describe plain numbers (or one text) that fill it."""
    stream = io.BytesIO(data)
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError("an array of an unknown version")
    describe = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, by_columns, kind = describe(stream)
    if not (kind.kind == "U" and shape == () if is_text else kind.kind in NUMBERS) or kind.itemsize == 0:
        raise ValueError("an array of another kind")
    if len(shape) > DIMENSIONS or math.prod(shape) * kind.itemsize != len(data) - stream.tell():
        raise ValueError("an array of another size")
    if any(not 0 <= length < 2**31 for length in shape):
        raise ValueError("an array of impossible lengths")
    flat = np.frombuffer(data, dtype=kind, offset=stream.tell())
    return flat.reshape(shape, order="F" if by_columns else "C").copy()


def _refused(sentence: str) -> InvalidArgument:
    return InvalidArgument(sentence, argument="path")


@contextmanager
def reading(where: Path, thing: str) -> Iterator[None]:
    """Turn whatever a damaged or foreign file brings about into one sentence."""
    try:
        yield
    except NoisewiseError as error:
        raise InvalidArgument(f"{printable(where)} is not a saved {thing}: {error}", argument="path") from None
    except DAMAGED as error:
        raise InvalidArgument(
            f"{printable(where)} is not a whole saved {thing} ({type(error).__name__}). Save it again.", argument="path"
        ) from None
