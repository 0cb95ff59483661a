"""Files that nobody should have to read: refused by kind and line, in bounded memory, without a word of content."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest
from people_tables import CANARY, WORD, one, refusal, write

from noisewise.holder import text_files
from noisewise.holder.table import Table
from noisewise.schema import Bounded

DECLARED = one(Bounded(0, 1e6), 3)
GOOD = "x,y\n1,a\n2,b\n3,c\n"
LINES = {
    "short row": (f"x,y\n1,a\n{CANARY}\n3,c\n", "ragged rows", 3),
    "row of ten times the length": ("x,y\n1,a\n" + ",".join([CANARY] * 20) + "\n", "ragged rows", 3),
    "open quote": (f'x,y\n1,a\n2,"{WORD}\n3,c\n', "broken quotes", 3),
    "text after a quote": (f'x,y\n1,a\n2,"b"{WORD}\n', "broken quotes", 3),
    "latin-1 far down": (b"x,y\n" + b"1,a\n" * 300_000 + f"é{WORD},b\n".encode("latin-1"), "wrong encoding", 300_002),
    "a line without end": ("x,y\n1,a\n2," + WORD * 300_000, "row too long", 3),
    "a quote over many lines": ('x,y\n1,a\n2,"' + f"{WORD}\n" * 20_000, "row too long", 3),
    "line ends of two kinds and a short row": (f"x,y\r\n1,a\n{CANARY}\r\n", "ragged rows", 3),
    "a header without end": ("x" * 3_000_000, "row too long", 1),
    "a header of too many columns": ("x" + "," * 50_000 + "\n", "row too long", 1),
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_fault_in_a_file_is_named_with_its_line(name: str, suffix: str, tmp_path: Path) -> None:
    content, fault, line = LINES[name]
    error = refusal(write(tmp_path / f"r{suffix}", content), DECLARED)
    assert (error.fault, error.fields["line"]) == (fault, line)
    assert f"(line {line})" in str(error)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_faults_have_lines_in_every_encoding(encoding: str, tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", f"x,y\n1,a\n{CANARY}\n3,c\n".encode(encoding))
    error = refusal(path, DECLARED, reader={"encoding": encoding})
    assert (error.fault, error.fields["line"]) == ("ragged rows", 3)


def test_text_of_another_encoding_than_declared_is_refused_with_a_hint(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", f"x,y\n1,é{WORD}\n")
    error = refusal(path, DECLARED, reader={"encoding": "ascii"})
    assert (error.fault, error.fields["line"]) == ("wrong encoding", 2)
    assert "utf-8" in str(error)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"\n\n\n", b"\xef\xbb\xbf", b"x,y\n", b"\0" * 5000, b"x,y\n1,\0\n2,a\n3,b\n"]
)
def test_files_with_nothing_in_them_are_refused_or_read_without_a_crash(content: bytes, tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", content)
    if content.startswith(b"x,y\n1"):
        Table.read(path, DECLARED)  # the column with the zero byte is not wanted
    else:
        refusal(path, DECLARED)


def test_a_compressed_file_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.csv.gz"
    whole = gzip.compress((GOOD + "".join(f"{k},d\n" for k in range(200_000))).encode())
    path.write_bytes(whole[: len(whole) // 2])
    assert refusal(path, DECLARED).fault in ("cut off", "not a gzip file", "unreadable")


@pytest.mark.parametrize("head", ["", "x,y\n1,a\n2,"])
def test_a_field_of_a_gigabyte_takes_a_few_megabytes(head: str, tmp_path: Path) -> None:
    """Compressed it is a megabyte of file; no more than a chunk and a line of it is ever held."""
    path = tmp_path / "r.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(head.encode())
        block = b"x" * 2**20
        for _ in range(1024):
            file.write(block)
    tracemalloc.start()
    try:
        error = refusal(path, DECLARED)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert error.fault == "row too long"
    assert peak < 50 * 2**20


def test_the_bound_on_a_line_is_what_keeps_memory_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: without it the same file is held whole."""
    monkeypatch.setattr(text_files, "LONGEST_LINE", 2**40)
    path = tmp_path / "r.csv.gz"
    path.write_bytes(gzip.compress(b"x" * 2**24, 1))
    tracemalloc.start()
    try:
        refusal(path, DECLARED)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak > 50 * 2**20


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    import os

    path = tmp_path / "r.csv"
    os.mkfifo(path)
    assert refusal(path, DECLARED).fault == "unreadable"
