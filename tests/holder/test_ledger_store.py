"""Promise C6: places, files and disks that fail give a clear error, and nothing is spent. Real files throughout."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from accounts import FINGERPRINT, filled, produce, spend

from noisewise.errors import (
    LedgerError,
)
from noisewise.holder import ledger_store
from noisewise.holder.ledger import Account, Ledger
from noisewise.privacy.guarantee import PureDP, ZeroConcentratedDP


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "survey.ledger"


def failing_commit(monkeypatch: pytest.MonkeyPatch, *, is_stored: bool) -> None:
    """The system reports an error at the commit, which happened or did not."""
    patiently = ledger_store._patiently

    def faulty(connection: sqlite3.Connection, statement: str, wait_seconds: float) -> None:
        if statement != "COMMIT" or is_stored:
            patiently(connection, statement, wait_seconds)
        if statement == "COMMIT":
            error = sqlite3.OperationalError("disk I/O error at canary-cell")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_DIR_FSYNC
            raise error

    monkeypatch.setattr(ledger_store, "_patiently", faulty)


def test_a_commit_that_failed_for_certain_spends_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.open(path, PureDP(1))
    with monkeypatch.context() as patch:
        failing_commit(patch, is_stored=False)
        with pytest.raises(LedgerError, match=r"the disk reported an error.*Nothing was spent\.") as caught:
            spend(ledger, PureDP(1))
    assert caught.value.__context__ is None
    assert ledger.spent() is None


def test_a_commit_of_unknown_fate_says_so_and_the_repeat_is_free(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.open(path, PureDP(1))
    with monkeypatch.context() as patch:
        failing_commit(patch, is_stored=True)
        with pytest.raises(LedgerError, match="not certain whether the charge was stored") as caught:
            ledger.release_once(b"request", PureDP(1), None, FINGERPRINT, produce)
    assert "noisewise ledger check" in str(caught.value)
    assert "Nothing was spent" not in str(caught.value)
    (stored,) = ledger.releases()
    assert ledger.release_once(b"request", PureDP(1), None, FINGERPRINT, produce) == stored
    assert ledger.spent() == PureDP(1)


def test_a_ledger_is_created_once_and_opened_after(path: Path) -> None:
    with Ledger.open(path, PureDP(2)) as ledger:
        dataset, head, key = ledger.dataset, ledger.head, ledger.fingerprint_key()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == [path.name], "nothing is left beside it"
    for again in (Ledger.open(path), Ledger.open(str(path), PureDP(2))):
        assert (again.dataset, again.head, again.fingerprint_key(), again.path) == (dataset, head, key, path)
    other = Ledger.open(path.with_name("other.ledger"), PureDP(2))
    assert other.dataset != dataset
    assert other.fingerprint_key() != key
    assert len(dataset) == 32
    assert len(key) == 32
    with pytest.raises(LedgerError, match="it was closed"):
        ledger.spent()


def test_another_limit_than_the_stored_one_is_refused_with_both_printed(path: Path) -> None:
    Ledger.open(path, PureDP(2))
    for limit in (PureDP(3), PureDP(1), ZeroConcentratedDP(2)):
        with pytest.raises(LedgerError, match=rf"its limit is epsilon = 2, not {limit}.*Nothing was spent\."):
            Ledger.open(path, limit)


def make_text_file(path: Path) -> None:
    path.write_text("income\n51.63\n" * 100)


def make_other_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE entries (sequence INTEGER PRIMARY KEY)")


def make_half_a_ledger(path: Path) -> None:
    filled(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def make_damaged_pages(path: Path) -> None:
    filled(path)
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))


def make_stray_journal(path: Path) -> None:
    path.with_name(path.name + "-journal").write_bytes(b"a journal of a ledger that is gone")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (make_text_file, "not a ledger"),
        (Path.touch, "not a ledger"),
        (make_other_database, "not a ledger"),
        (make_half_a_ledger, "damaged"),
        (make_damaged_pages, "damaged"),
        (make_stray_journal, "journal .* lies there without it"),
        (Path.mkdir, "it is a folder"),
        (os.mkfifo, "not a plain file"),
        (lambda path: path.symlink_to(path), "symbolic links"),
    ],
)
def test_what_is_not_a_ledger_is_refused(path: Path, make: Callable[[Path], object], reason: str) -> None:
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(LedgerError, match=rf"{reason}.*Nothing was spent\.") as caught:
        Ledger.open(path, PureDP(4))
    assert caught.value.__context__ is None
    assert before is None or path.read_bytes() == before, "and left as it was"


def test_a_missing_file_folder_or_limit_is_named(path: Path) -> None:
    with pytest.raises(LedgerError, match=r"no such file.*limit=.*Nothing was spent\."):
        Ledger.open(path)
    with pytest.raises(LedgerError, match=r"there is no folder .*nowhere.*Nothing was spent\."):
        Ledger.open(path.parent / "nowhere" / "x.ledger", PureDP(1))
    path.touch()
    with pytest.raises(LedgerError, match=r"there is no folder"):
        Ledger.open(path / "x.ledger", PureDP(1))
    with pytest.raises(LedgerError, match=r"Nothing was spent\."):
        Ledger.open(path.with_name("x" * 300), PureDP(1))


def test_a_path_with_marks_that_mean_something_in_an_address_is_a_path(tmp_path: Path) -> None:
    path = tmp_path / "a?mode=memory&b#c%20 é.ledger"
    spend(Ledger.open(path, PureDP(1)), PureDP(1))
    assert Ledger.open(path).spent() == PureDP(1)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_ledger_that_was_moved_or_put_back_is_refused(path: Path) -> None:
    ledger = Ledger.open(path, PureDP(4))
    spend(ledger, PureDP(1))
    backup = path.read_bytes()
    spend(ledger, PureDP(1))
    moved = path.rename(path.with_name("moved.ledger"))
    with pytest.raises(LedgerError, match="its file is gone"):
        spend(ledger, PureDP(1))
    path.write_bytes(backup)
    with pytest.raises(LedgerError, match="entries that were there when it was opened are gone"):
        spend(ledger, PureDP(1))
    moved.rename(path)
    spend(ledger, PureDP(1))
    assert ledger.spent() == PureDP(3)


@pytest.fixture
def ordinary_folder() -> Iterator[Path]:
    """A folder, and the eyes of a user whom file modes bind (the superuser's are not)."""
    folder = Path(tempfile.mkdtemp())
    is_superuser = os.geteuid() == 0
    if is_superuser:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if is_superuser:
            os.seteuid(0)
        folder.chmod(0o700)
        shutil.rmtree(folder)


@pytest.mark.skipif(os.name != "posix", reason="file modes are a matter of POSIX")
def test_a_read_only_place_is_refused_and_free(ordinary_folder: Path) -> None:
    path = ordinary_folder / "survey.ledger"
    ledger = Ledger.open(path, PureDP(2))
    spend(ledger, PureDP(1))
    drawn: list[Account] = []

    def recorded(account: Account) -> bytes:
        drawn.append(account)
        return produce(account)

    path.chmod(0o400)
    with pytest.raises(LedgerError, match=r"read-only for this user.*Nothing was spent\."):
        ledger.release_once(b"r", PureDP(1), None, FINGERPRINT, recorded)
    assert drawn == []
    path.chmod(0o600)
    ordinary_folder.chmod(0o500)
    with pytest.raises(LedgerError, match=r"Nothing was spent\."):
        ledger.release_once(b"r", PureDP(1), None, FINGERPRINT, recorded)
    with pytest.raises(LedgerError, match=r"permission denied.*Nothing was spent\."):
        Ledger.open(ordinary_folder / "new.ledger", PureDP(1))
    assert ledger.spent() == PureDP(1), "what is stored can still be read"
    path.chmod(0o000)
    with pytest.raises(LedgerError, match=r"Nothing was spent\."):
        Ledger.open(path)
    ordinary_folder.chmod(0o000)
    with pytest.raises(LedgerError, match=r"permission denied.*Nothing was spent\."):
        Ledger.open(path)


def test_a_database_that_may_not_grow_is_refused_and_free(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's own way to be full, wherever no small disk can be mounted."""
    ledger = Ledger.open(path, PureDP(100))
    first = spend(ledger, PureDP(1))
    monkeypatch.setattr(ledger_store, "PRAGMAS", (*ledger_store.PRAGMAS, "max_page_count=4"))
    with pytest.raises(LedgerError, match=r"the disk is full.*Nothing was spent\."):
        ledger.release_once(b"r", PureDP(1), None, FINGERPRINT, lambda _: b"x" * 100_000)
    assert ledger.releases() == (first,)
    ledger.check([first])


# One file, one name


def test_a_ledger_under_a_second_name_is_refused_under_both(tmp_path: Path) -> None:
    """Two paths, one file: SQLite would look for the journal of a crash under one name only."""
    ledger = Ledger.open(tmp_path / "one.ledger", PureDP(2))
    spend(ledger, PureDP(1))
    os.link(tmp_path / "one.ledger", tmp_path / "two.ledger")
    for act in (
        lambda: spend(ledger, PureDP(1)),
        lambda: Ledger.open(tmp_path / "two.ledger"),
        lambda: Ledger.open(tmp_path / "one.ledger", PureDP(2)),
    ):
        with pytest.raises(LedgerError, match=r"hard links.*symbolic link\. Nothing was spent\."):
            act()
    (tmp_path / "two.ledger").unlink()
    (tmp_path / "two.ledger").symlink_to(tmp_path / "one.ledger")
    spend(Ledger.open(tmp_path / "two.ledger"), PureDP(1))
    assert ledger.spent() == PureDP(2)


def test_a_name_left_by_a_creator_that_was_killed_does_not_close_the_ledger(tmp_path: Path) -> None:
    Ledger.open(tmp_path / "survey.ledger", PureDP(1))
    os.link(tmp_path / "survey.ledger", tmp_path / ".ledger-abc123.new")
    os.link(tmp_path / "survey.ledger", tmp_path / ".ledger-def456.new")
    (tmp_path / ".ledger-other.new").write_bytes(b"a ledger that is being made beside it")
    spend(Ledger.open(tmp_path / "survey.ledger"), PureDP(1))
    assert sorted(file.name for file in tmp_path.iterdir()) == [".ledger-other.new", "survey.ledger"]


def test_a_copied_ledger_shows_in_the_release_that_was_made_from_it(tmp_path: Path) -> None:
    """Nobody can keep a file from being copied; but its releases do not pass for those of the original."""
    ledger = Ledger.open(tmp_path / "one.ledger", PureDP(2))
    spend(ledger, PureDP(1))
    copy = Ledger.open(shutil.copyfile(tmp_path / "one.ledger", tmp_path / "copy.ledger"))
    stray = spend(copy, PureDP(1))
    with pytest.raises(LedgerError, match="entry 2, of which a release is given, is missing"):
        ledger.check([stray])
    spend(ledger, PureDP(1))
    with pytest.raises(LedgerError, match="not the one stored as entry 2"):
        ledger.check([stray])
    ledger.check(ledger.releases())
