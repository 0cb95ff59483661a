"""The account inside a ledger's file: rows that form a hash chain.

    root = sha256(format, salt),    head_k = sha256(head_(k-1), every column of row k),    k = 0, 1, 2, ...

Row 0 opens the account and holds its limit; each later row is a release with its charge, or the word that the
records were replaced. The limit and the data-set id are read from the chain alone, so no cell can be edited and no
row but the last deleted without breaking it. (A lost tail shows when a release names a head that is gone.)

What a release says of itself is in its stored bytes, and those are in the chain: so is the neighbour relation under
which it was charged. The account has one relation for ever, that of its first release; see `Book.relations`.
A part by key also names the rule that says who is in it. Version 0.1 named none: it cut at 32 bits of the hash, and a
part that began above 1 - 2^-32 was compared as nine digits, so it held everyone from 1/16 on. Such a charge counts on
those people, whatever its row says (`counted`).

Heads are published inside releases, so nothing private enters them but the random salt. The fingerprint of the
records is sealed apart, by an HMAC under that salt, and is no part of the chain.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

from noisewise.errors import InvalidArgument, NoisewiseError
from noisewise.exact import fraction
from noisewise.holder.ledger_store import damaged, refusal
from noisewise.privacy.accounting import Charge, compose, for_two_records
from noisewise.privacy.guarantee import Guarantee, guarantee_from_dict

FORMAT = "noisewise-ledger/1"
OPENED, RELEASED, REPLACED = "open", "release", "replace-records"
CHANGE_ONE, ADD_REMOVE = "change-one", "add-remove"
KEY_RULE = "md5/128"  # who is in a part by key: its cuts are whole numbers of this many bits of this hash
MOST_REMEMBERED = 10_000

Part: TypeAlias = tuple[Fraction, Fraction]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of the account as anyone may see it."""

    sequence: int
    kind: str
    dataset: str
    guarantee: Guarantee | None
    part: Part | None
    request: str | None
    release_hash: str | None
    when: datetime
    head: str
    neighbours: str | None = None  # the relation of a release; None for other rows
    part_rule: str | None = None  # the rule of a part by key; None for other parts, and for parts by key of 0.1

    @property
    def is_old_key_part(self) -> bool:
        """True of a part by key that was sold under the rule of version 0.1."""
        return self.part is not None and self.neighbours == ADD_REMOVE and self.part_rule is None

    @property
    def held(self) -> Part | None:
        """The part whose people were truly charged: not always the one that version 0.1 wrote down."""
        if self.is_old_key_part and self.part is not None and math.ceil(self.part[0] * 2**32) == 2**32:
            return Fraction(1, 16), Fraction(1)
        return self.part


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """A verified account: every row, and the two things that stay with the holder."""

    entries: tuple[Entry, ...]
    limit: Guarantee
    salt: bytes = field(repr=False)
    fingerprint: str | None = field(repr=False)
    arrangement: str | None = field(repr=False)

    @property
    def dataset(self) -> str:
        return self.entries[-1].dataset

    @property
    def head(self) -> str:
        return self.entries[-1].head

    @property
    def relations(self) -> tuple[str, ...]:
        """The neighbour relations of all releases, in order of appearance: more than one is a fault of version 0.1."""
        return tuple(dict.fromkeys(entry.neighbours for entry in self.entries if entry.neighbours is not None))

    @property
    def has_old_key_parts(self) -> bool:
        """True where parts by key of the present records were sold under the rule of version 0.1."""
        return any(entry.is_old_key_part for entry in self.entries if entry.dataset == self.dataset)

    @property
    def has_swollen_parts(self) -> bool:
        """True where a charge fell on more people than its part says (version 0.1)."""
        return any(entry.held != entry.part for entry in self.entries)

    def stored(self, request: str) -> Entry | None:
        """The release already made for this request on the present records."""
        same = (entry for entry in self.entries if entry.request == request and entry.dataset == self.dataset)
        return next(same, None)

    def after(self, request: str, charge: Charge, relation: str | None) -> Book:
        """The account as it would be with one more release, which is not made: only its charge is there."""
        entry = Entry(
            sequence=len(self.entries),
            kind=RELEASED,
            dataset=self.dataset,
            guarantee=charge.guarantee,
            part=charge.part,
            request=request,
            release_hash=None,
            when=datetime.now(UTC),
            head=self.head,
            neighbours=relation,
            part_rule=rule_of(relation, charge.part),
        )
        return replace(self, entries=(*self.entries, entry))

    def about(self, fingerprint: str, arrangement: str | None) -> Book:
        """The account as it would be once these records, in these places if they matter, were released from."""
        return replace(self, fingerprint=fingerprint, arrangement=arrangement or self.arrangement)


def open_account(connection: sqlite3.Connection, limit: Guarantee) -> None:
    """Write the first row. Privacy: the data-set id and the salt are random, never derived from records."""
    salt, dataset = secrets.token_bytes(32), secrets.token_hex(16)
    connection.execute("INSERT INTO private VALUES (?, NULL, NULL, ?)", (salt, _seal(salt, dataset, None, None)))
    append(connection, _root(salt), 0, OPENED, dataset=dataset, guarantee=limit)


def unopened(limit: Guarantee) -> Book:
    """An account that does not exist yet, to reckon with; it is not to be stored."""
    opened = Entry(
        sequence=0,
        kind=OPENED,
        dataset="",
        guarantee=limit,
        part=None,
        request=None,
        release_hash=None,
        when=datetime.now(UTC),
        head="",
    )
    return Book(entries=(opened,), limit=limit, salt=b"", fingerprint=None, arrangement=None)


def append(
    connection: sqlite3.Connection,
    previous: str,
    sequence: int,
    kind: str,
    *,
    dataset: str,
    request: str | None = None,
    guarantee: Guarantee | None = None,
    part: Part | None = None,
    part_rule: str | None = None,
    release: bytes | None = None,
) -> str:
    """Add one row after the head `previous` and return the new head."""
    cost = None if guarantee is None else guarantee_text(guarantee)
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    row = (sequence, kind, dataset, request, cost, part_text(part, part_rule), release, moment)
    head = _link(previous, row)
    connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, head))
    return head


def keep_fingerprint(
    connection: sqlite3.Connection, book: Book, dataset: str, fingerprint: str | None, arrangement: str | None
) -> None:
    """Remember (or, with None, forget) which records this account is about, and their places if parts were taken."""
    seal = _seal(book.salt, dataset, fingerprint, arrangement)
    connection.execute(
        "UPDATE private SET fingerprint = ?, arrangement = ?, seal = ?", (fingerprint, arrangement, seal)
    )


def read_book(connection: sqlite3.Connection, path: Path) -> Book:
    """Read the account and verify its chain from the first row."""
    private = connection.execute("SELECT salt, fingerprint, arrangement, seal FROM private").fetchall()
    if len(private) != 1 or not isinstance(private[0][0], bytes):
        raise damaged(path, "its private row is missing or edited")
    salt, fingerprint, arrangement, seal = private[0]
    entries = tuple(_verified(connection, path, salt))
    if not entries or entries[0].guarantee is None:
        raise damaged(path, "entry 0, which holds the limit, is missing", sequence=0)
    if seal != _seal(salt, entries[-1].dataset, fingerprint, arrangement):
        raise damaged(path, "its private row was edited")
    limit = entries[0].guarantee
    return Book(entries=entries, limit=limit, salt=salt, fingerprint=fingerprint, arrangement=arrangement)


def charges(entries: Iterable[Entry]) -> tuple[Charge, ...]:
    """What was charged, as it was recorded."""
    released = (entry for entry in entries if entry.kind == RELEASED)
    return tuple(Charge(entry.guarantee, entry.part) for entry in released if entry.guarantee is not None)


def counted(entries: Iterable[Entry], relations: Sequence[str]) -> tuple[Charge, ...]:
    """What was charged, on the people it truly fell on, under the one relation for which a total exists.

    If both relations were used, that is change-one, and an add-remove charge counts for two records: one that went
    and one that came. They may lie in different parts, but nothing keeps both from lying in the worst.
    """
    charged = []
    for entry in entries:
        if entry.kind == RELEASED and entry.guarantee is not None:
            is_doubled = len(relations) > 1 and entry.neighbours == ADD_REMOVE
            charged.append(Charge(for_two_records(entry.guarantee) if is_doubled else entry.guarantee, entry.held))
    return tuple(charged)


def histories(book: Book) -> tuple[tuple[Charge, ...], ...]:
    """Every way in which one person may have been charged: the account fits its limit if each of them does.

    Parts are disjoint within one data set only. Who stood in the first half of earlier records may stand in the second
    half of the present ones, so each stretch of each earlier data set may meet any part of the present one.
    """
    past: list[tuple[Charge, ...]] = [()]
    present: tuple[Charge, ...] = ()
    for dataset, entries in groupby(book.entries, key=lambda entry: entry.dataset):
        group = counted(entries, book.relations)
        if dataset == book.dataset:
            present = group
        else:
            past = [before + stretch for before in past for stretch in _stretches(group, book.limit)]
    return tuple(before + present for before in past)


def _stretches(group: Sequence[Charge], limit: Guarantee) -> list[tuple[Charge, ...]]:
    """What fell on each stretch of earlier records, as charges on everyone; what another stretch includes is left out.

    On a scale of one number totals are ordered, and the worst stretch stands for all.
    """
    points = {Fraction(0), *(charge.part[0] for charge in group if charge.part is not None)}
    covers = [
        tuple(one.guarantee for one in group if one.part is None or one.part[0] <= point < one.part[1])
        for point in sorted(points)
    ]
    if len(limit.parts) == 1:
        covers = [max(covers, key=lambda cover: compose(cover, like=limit).parts if cover else ())]
    largest: list[tuple[Guarantee, ...]] = []
    for cover in sorted(covers, key=len, reverse=True):
        if not any(Counter(cover) <= Counter(other) for other in largest):
            largest.append(cover)
    return [tuple(Charge(guarantee) for guarantee in cover) for cover in largest]


def check_release(release: bytes, book: Book, stored: Mapping[str, bytes], path: Path) -> None:
    """Refuse a release file unless it is the one stored right after the head it names.

    `stored` holds each release under the head before its own entry.
    """
    given = document(release)
    named = None if given is None else given.get("ledger_head")
    sequences = {entry.head: entry.sequence for entry in book.entries}
    if not isinstance(named, str):
        raise refusal(path, "a given file is not a release that names its ledger's head", "give release files")
    if named not in sequences:
        reason = f"a release names the entry with head {named[:12]!r}, which is not in it"
        raise damaged(path, f"{reason} (or that release belongs to another ledger)")
    sequence = sequences[named] + 1
    if named not in stored:
        raise damaged(path, f"entry {sequence}, of which a release is given, is missing", sequence=sequence)
    if json.dumps(given, sort_keys=True) != json.dumps(document(stored[named]), sort_keys=True):
        reason = f"a given release file is not the one stored as entry {sequence}"
        raise refusal(
            path, reason, "give the file as it was released; the ledger holds it unchanged", sequence=sequence
        )


def document(release: bytes) -> dict[str, object] | None:
    """The JSON object in the bytes of a release, if that is what they are."""
    try:
        content = json.loads(release)
    except (ValueError, TypeError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def relation_of(content: bytes) -> str | None:
    """The neighbour relation that a request or a release names in its schema; None where it names none."""
    schema = (document(content) or {}).get("schema")
    named = schema.get("neighbours") if isinstance(schema, dict) else None
    return named if named in (CHANGE_ONE, ADD_REMOVE) else None


def rule_of(relation: str | None, part: Part | None) -> str | None:
    """The rule that says who is in a part, where that goes by key."""
    return KEY_RULE if relation == ADD_REMOVE and part is not None else None


def digest_of(request: bytes) -> str:
    """The name under which a request is stored."""
    return hashlib.sha256(request).hexdigest()


def guarantee_text(guarantee: Guarantee) -> str:
    """A guarantee as it is stored; one that could not be read back would close the ledger for ever."""
    try:
        text = json.dumps(guarantee.to_dict(), sort_keys=True)
        if _guarantee(text) == guarantee:
            return text
    except ValueError:
        pass
    raise _too_long("guarantee")


def part_text(part: Part | None, rule: str | None = None) -> str | None:
    """A part as it is stored, with its rule if it is one by key: version 0.1 cannot read that, and must not."""
    try:
        return None if part is None else json.dumps([*(str(end) for end in part), *([rule] if rule else [])])
    except ValueError:  # Python writes no integer of more than 4300 digits.
        pass
    raise _too_long("part")


def _too_long(argument: str) -> InvalidArgument:
    return InvalidArgument(
        f"{argument} has too many digits to be stored exactly: expected numbers such as 0.1 or 1/3. Nothing was spent.",
        argument=argument,
    )


def _verified(connection: sqlite3.Connection, path: Path, salt: bytes) -> Iterator[Entry]:
    previous, dataset = _root(salt), None
    rows = connection.execute("SELECT * FROM entries ORDER BY sequence")
    for expected, (*row, head) in enumerate(rows):
        if row[0] != expected:
            raise damaged(path, f"entry {expected} is missing", sequence=expected)
        try:
            entry = _entry(row, head) if head == _link(previous, row) else None
        except (TypeError, ValueError, NoisewiseError):
            entry = None
        if entry is None or not _may_follow(entry, dataset):
            reason = f"entry {expected} was edited, or the one before it was replaced"
            raise damaged(path, reason, sequence=expected)
        yield entry
        previous, dataset = head, entry.dataset


def _may_follow(entry: Entry, dataset: str | None) -> bool:
    """Whether the entry may come next in an account that is about `dataset` (None: not opened yet)."""
    if entry.kind == OPENED:
        return dataset is None and entry.guarantee is not None
    if entry.kind == RELEASED:
        return dataset == entry.dataset and None not in (entry.guarantee, entry.request, entry.release_hash)
    return entry.kind == REPLACED and dataset is not None and dataset != entry.dataset


def _entry(row: Sequence[object], head: str) -> Entry:
    sequence, kind, dataset, request, guarantee, part, release, moment = row
    place, rule = (None, None) if part is None else _part(str(part))
    digest = _digest(release)
    return Entry(
        sequence=int(str(sequence)),
        kind=str(kind),
        dataset=str(dataset),
        guarantee=None if guarantee is None else _guarantee(str(guarantee)),
        part=place,
        request=None if request is None else str(request),
        release_hash=digest,
        when=datetime.fromisoformat(str(moment)),
        head=head,
        neighbours=None if digest is None else _remembered_relation(digest, release),
        part_rule=rule,
    )


@lru_cache(maxsize=1024)
def _guarantee(text: str) -> Guarantee:
    return guarantee_from_dict(json.loads(text))


@lru_cache(maxsize=1024)
def _part(text: str) -> tuple[Part, str | None]:
    start, stop, *rule = json.loads(text)
    if rule not in ([], [KEY_RULE]):
        raise ValueError("a part by a rule that is not known here")
    # Fraction itself would write out '1e999999999'.
    return (fraction(start, "part"), fraction(stop, "part")), (rule[0] if rule else None)


_relations: dict[str, str | None] = {}  # by the hash of the release, for ledgers are read anew at every question


def _remembered_relation(digest: str, release: object) -> str | None:
    if digest not in _relations:
        if len(_relations) >= MOST_REMEMBERED:
            _relations.clear()
        _relations[digest] = relation_of(release if isinstance(release, bytes) else b"")
    return _relations[digest]


def _root(salt: bytes) -> str:
    return hashlib.sha256(FORMAT.encode() + salt).hexdigest()


def _link(previous: str, row: Sequence[object]) -> str:
    *before, release, moment = row
    text = json.dumps([previous, *before, _digest(release), moment])
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(release: object) -> str | None:
    if release is None:
        return None
    if not isinstance(release, bytes):
        raise TypeError("a stored release is bytes")
    return hashlib.sha256(release).hexdigest()


def _seal(salt: bytes, dataset: str, *fingerprints: object) -> str:
    message = json.dumps([dataset, *(None if entry is None else str(entry) for entry in fingerprints)])
    return hmac.new(salt, message.encode(), hashlib.sha256).hexdigest()
