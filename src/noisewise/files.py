"""Files: read within limits whoever wrote them, and a place to write found before the work begins.

A file may come from a stranger. Before a byte of it is read its kind and size are known: a folder, a pipe or a device
such as /dev/zero is refused, and so is what is larger than its reader says. JSON is then counted before it is parsed,
because a parsed value takes far more memory than its text: containers and texts are limited in number, numbers in
length, nesting in depth.

What is written appears whole or not at all (`write_whole`), and is everyone's to read unless its mode says otherwise.

A command that pays or works for long asks `checked_place` or `checked_folder` first: whether the file can be written
is found out by writing one, not by reading permissions.
"""

from __future__ import annotations

import json
import math
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from noisewise.errors import InvalidArgument, NoisewiseError
from noisewise.printable import printable, shown

__all__ = [
    "check_depth", "checked_folder", "checked_path", "checked_place", "checked_plot", "has_one_name", "open_file",
    "read_file", "read_json", "synchronise", "write_whole",
]  # fmt: skip

MOST_CONTAINERS = 100_000  # lists and objects in a JSON text
TEXTS_OF_A_CONTAINER = 10  # on average, keys among them
LONGEST_NUMBER = 1000  # characters
DEEPEST = 64
SQLITE = b"SQLite format 3\0"  # how such a file begins
EVERYONES, OWN = 0o644, 0o600  # modes: for whoever reads files here, for their owner alone

Refuse = Callable[[str], NoisewiseError]


def checked_path(path: object, error: Callable[..., NoisewiseError] = InvalidArgument) -> Path:
    """The path of a file, or a sentence."""
    if not isinstance(path, str | os.PathLike) or not str(path) or "\0" in str(path):
        raise error(f"path = {shown(path)} is not the path of a file.", argument="path")
    return Path(path)


def read_file(path: Path, *, largest: int, refuse: Refuse) -> bytes:
    """All bytes of a plain file of at most `largest` bytes; what it is not is said by the error that `refuse` makes."""
    with open_file(path, largest=largest, refuse=refuse) as stream:
        data = stream.read(largest + 1)
    if len(data) > largest:  # it grew, or the system did not tell its size
        raise _too_large(path, largest, refuse)
    return data


@contextmanager
def open_file(path: Path, *, largest: int, refuse: Refuse) -> Iterator[BinaryIO]:
    """A plain file of at most `largest` bytes, open for reading."""
    name = printable(path)
    try:
        _check_plain(os.stat(path), name, refuse)  # before opening: to open a device may set it going
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(handle, "rb") as stream:
            found = os.fstat(stream.fileno())
            _check_plain(found, name, refuse)
            if found.st_size > largest:
                raise _too_large(path, largest, refuse)
            yield stream
    except OSError as error:
        raise refuse(f"Cannot read {name!r}: {error.strerror or type(error).__name__}.") from None


def _too_large(path: Path, largest: int, refuse: Refuse) -> NoisewiseError:
    return refuse(f"{printable(path)} is larger than {_megabytes(largest)}, the most that is read of such a file.")


def _check_plain(found: os.stat_result, name: str, refuse: Refuse) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise refuse(f"Cannot read {name!r}: it is a folder. Give the path of a file.")
    if not stat.S_ISREG(found.st_mode):
        raise refuse(f"Cannot read {name!r}: it is a pipe or a device. Give the path of a plain file.")


def _megabytes(size: int) -> str:
    return f"{size // 2**20} MB" if size >= 2**20 else f"{size // 2**10} kB"


def read_json(text: bytes | str, *, is_finite: bool = True, most_containers: int = MOST_CONTAINERS) -> Any:
    """A JSON text as plain data; a ValueError says what is wrong with it, before it has cost much.

    Keys are unique, numbers short, at most `DEEPEST` containers stand inside each other. With `is_finite=False` the
    words NaN and Infinity are numbers, as Python writes them.
    """
    constant: Callable[[str], object] = _no_constant if is_finite else float
    plain = text.decode("utf-8") if isinstance(text, bytes | bytearray) else text
    if plain.count("[") + plain.count("{") > most_containers:
        raise ValueError(f"it has more than {most_containers} lists and objects")
    if plain.count('"') > 2 * TEXTS_OF_A_CONTAINER * most_containers:
        raise ValueError(f"it has more than {TEXTS_OF_A_CONTAINER * most_containers} texts")
    try:
        read = json.loads(
            plain, parse_constant=constant, parse_int=_whole, parse_float=_finite, object_pairs_hook=_no_repeats
        )
    except RecursionError:
        raise ValueError(f"more than {DEEPEST} lists and objects stand inside each other") from None
    check_depth(read)
    return read


def check_depth(plain: object) -> None:
    """Refuse plain data in which too many containers stand inside each other."""
    level: list[Any] = [plain] if isinstance(plain, list | dict) else []
    for _ in range(DEEPEST):
        entries = (value.values() if isinstance(value, dict) else value for value in level)
        level = [entry for group in entries for entry in group if isinstance(entry, list | dict)]
    if level:
        raise ValueError(f"more than {DEEPEST} lists and objects stand inside each other")


def _whole(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"a number has more than {LONGEST_NUMBER} digits")
    return int(text)


def _finite(text: str) -> float:
    number = float(text) if len(text) <= LONGEST_NUMBER else math.inf
    if not math.isfinite(number):
        raise ValueError("a number is too large or too long")
    return number


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number")


def _no_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    plain = dict(pairs)
    if len(plain) != len(pairs):
        raise ValueError("a key appears twice")
    return plain


def checked_place(path: object, option: str = "") -> Path:
    """A path that a file can be written to: better to know before the work than after."""
    wanted = checked_path(path)
    if not wanted.parent.is_dir():
        raise _refused(option, wanted, f"there is no folder {printable(wanted.parent)!r}", "make it first")
    if wanted.is_dir():
        raise _refused(option, wanted, "it is a folder", "name a file in it")
    if wanted.exists() and not wanted.is_file():
        raise _refused(option, wanted, "it is a pipe or a device", "name a plain file")
    if _is_database(wanted):
        raise _refused(option, wanted, "a ledger or another database lies there", "give another name")
    _try_to_write(option, wanted, wanted.parent)
    return wanted


def checked_plot(path: object, option: str = "") -> Path:
    """A path that a picture can be written to."""
    wanted = checked_path(path)
    if wanted.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InvalidArgument(f"{printable(wanted)!r}: a plot is written as .png, .pdf or .svg.", argument="plot")
    return checked_place(wanted, option)


def checked_folder(path: object, option: str = "") -> Path:
    """A path that is a folder files can be written to, or where one can be made."""
    wanted = checked_path(path)
    if wanted.exists() and not wanted.is_dir():
        raise _refused(option, wanted, "it is a file", "give a folder")
    nearest = next((folder for folder in (wanted, *wanted.absolute().parents) if folder.exists()), wanted)
    if not nearest.is_dir():
        raise _refused(option, wanted, f"{printable(nearest)!r} is a file", "give a folder")
    _try_to_write(option, wanted, nearest)
    return wanted


def write_whole(path: Path, data: bytes, *, mode: int = EVERYONES, told: str = "") -> None:
    """Write a file that appears whole or not at all, and never over an account; `told` ends a failure's sentence."""
    if _is_database(path):
        sentence = (
            f"Cannot write {printable(path)!r}: a ledger or another database lies there; give another name. {told}"
        )
        raise NoisewiseError(sentence.strip())
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # made with mode 0600
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(temporary, mode)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise NoisewiseError(f"Cannot write {printable(path)!r}: {error.strerror}. {told}".strip()) from None


def has_one_name(path: Path, being_made: tuple[str, str]) -> bool:
    """Whether a file has no other name (hard link); one left by a creator that was killed in the middle is removed.

    `being_made` is how the name of such a file begins and ends until it is complete. SQLite names its journal after
    the path: under a second name the journal of a crash would not be seen, and would later undo what was written in
    between.
    """
    if path.stat().st_nlink == 1:
        return True
    begin, end = being_made
    for name in path.resolve().parent.glob(f"{begin}*{end}"):
        with suppress(OSError):
            if name.samefile(path):
                name.unlink()
    return path.stat().st_nlink == 1


def synchronise(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _is_database(path: Path) -> bool:
    """Whether a SQLite file lies there: a ledger that is written over is a budget that begins anew."""
    with suppress(OSError):
        if path.is_file():
            with path.open("rb") as stream:
                return stream.read(len(SQLITE)) == SQLITE
    return False


def _try_to_write(option: str, wanted: Path, folder: Path) -> None:
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise _refused(
            option, wanted, f"in {printable(folder)!r} the system says {reason!r}", "give another place"
        ) from None


def _refused(option: str, wanted: Path, reason: str, remedy: str) -> InvalidArgument:
    place = f"{option} {printable(wanted)!r}".strip()
    return InvalidArgument(f"Cannot write {place}: {reason}; {remedy}. Nothing was computed or spent.", argument="path")
