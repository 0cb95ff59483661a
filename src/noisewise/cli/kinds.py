"""Which kind of file is this? So that a CSV given to `show` is called a CSV, and what it is good for is said.

A file is recognised by its first bytes, never by its name, and nothing of its content is quoted.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from noisewise.errors import InvalidSpec

__all__ = ["FileKind", "check_kind", "kind_of"]

LOOKED_AT = 2**16  # bytes
_TOML = re.compile(r"^\s*(\[\[?[A-Za-z_.\"' -]+\]\]?|[A-Za-z_][\w.-]*\s*=\s*\S)", re.M)
_JSON_FORMAT = re.compile(r'"format"\s*:\s*"noisewise-(release|measurement)/')


class FileKind(NamedTuple):
    """A kind of file: what it is called, and which commands read it."""

    name: str
    use: str


RELEASE = FileKind(
    "a release",
    "`noisewise show FILE` reads it aloud, `noisewise infer FILE --spec SPEC.toml --out FOLDER` learns from it",
)
SPEC = FileKind(
    "a spec (TOML)",
    "`noisewise release SPEC --dry-run` says what it would release, `noisewise precision SPEC` what that would buy",
)
LEDGER = FileKind(
    "a ledger", "`noisewise ledger show FILE` reads it, `noisewise release SPEC --ledger FILE ...` pays from it"
)
RECORDS = FileKind(
    "a table of records",
    "`noisewise release SPEC --data FILE --ledger LEDGER --out RELEASE` publishes a statistic of it",
)
ARCHIVE = FileKind(
    "an archive (a posterior, or an Excel file)",
    "`nw.Posterior.load(FILE)` reads a posterior in Python, and a table is saved as CSV or Parquet first",
)
PICTURE = FileKind("a picture", "it is there to be looked at")
JSON = FileKind("a JSON file without the format of a release", "release files come from `noisewise release`")
MEASUREMENT = FileKind(
    "a measurement made elsewhere",
    "`noisewise show FILE` reads it aloud, `noisewise infer FILE --spec SPEC.toml --out FOLDER` learns from it",
)
_BEGINNINGS = {
    b"SQLite format 3\0": LEDGER,
    b"PK\x03\x04": ARCHIVE,
    b"PAR1": RECORDS,
    b"\x1f\x8b": RECORDS,
    b"\x89PNG": PICTURE,
    b"%PDF": PICTURE,
}


def kind_of(path: Path) -> FileKind | None:
    """The kind of a file that can be read; None where it is of none that is known here."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            head = stream.read(LOOKED_AT)
    except OSError:
        return None
    for start, kind in _BEGINNINGS.items():
        if head.startswith(start):
            return kind
    text = head.decode("utf-8", errors="replace").lstrip("\ufeff \t\r\n")
    return _kind_of_text(text)


def _kind_of_text(text: str) -> FileKind | None:
    if text.startswith("{"):
        found = _JSON_FORMAT.search(text)
        return JSON if found is None else RELEASE if found[1] == "release" else MEASUREMENT
    lines = [line for line in text.splitlines()[:20] if line.strip() and not line.lstrip().startswith("#")]
    if lines and _TOML.match(lines[0]):
        return SPEC
    is_table = len(lines) > 1 and any(
        lines[0].count(mark) > 0 and len({line.count(mark) for line in lines[:5]}) == 1 for mark in ",;\t|"
    )
    return RECORDS if is_table or (len(lines) > 1 and _is_one_column(lines)) else None


def _is_one_column(lines: list[str]) -> bool:
    """A name, and numbers under it."""
    return bool(re.fullmatch(r"[\"']?[^\W\d][\w ]*[\"']?", lines[0])) and all(
        re.fullmatch(r"\s*-?\d+([.,]\d+)?\s*", line) for line in lines[1:-1] or lines[1:]
    )


def check_kind(path: Path, wanted: FileKind, *others: FileKind, place: str) -> None:
    """Refuse a file that is plainly of another kind than the command reads, and say which command reads it."""
    found = kind_of(path)
    if found is None or found in (wanted, *others):
        return
    raise InvalidSpec(
        f"{path} is {found.name}, and {place} takes {wanted.name}: {found.use}. Nothing was spent.", where=place
    )
