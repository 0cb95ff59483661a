"""What a survey keeps beside its log: its words, its keys, its invitations, and what may be shown of it.

    board          name, body: "words", "signing-key", "admin" (a hash), "shown" (to all), "pace" (to the operator)
    invitations    hash, used, sealed: no time, and no key to the answers

**An invitation** is a secret that stands in a link. Only its hash is stored. It is bound to the first query it is used
for, for good: the same link on another device gets the same query, so a person cannot be asked twice by one link. The
id of that query is stored sealed under the invitation itself,
    sealed = id XOR SHAKE256("query" | invitation),
so whoever reads the tables, but not the links, cannot tell which answer an invitation gave. (The operator made the
links and sees requests arrive; the guarantee protects the value, not the fact of taking part.)
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import asdict, dataclass, field
from json import dumps, loads
from typing import NamedTuple

from noisewise.collector.desk import Desk
from noisewise.collector.store import Session, Store
from noisewise.errors import InvalidArgument, SurveyError
from noisewise.printable import shown
from noisewise.types import Plain

__all__ = ["Board", "ColumnWords", "Handed", "Words", "hand_out", "invite"]

TABLES = (
    "CREATE TABLE IF NOT EXISTS board (name TEXT PRIMARY KEY, body TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS invitations (hash TEXT PRIMARY KEY, used INTEGER NOT NULL, sealed BYTEA)",
)
MOST_INVITATIONS = 100_000  # at a time
LONGEST_WORDS = 2000
LONGEST_IN_ALL = 20_000
INPUTS = ("number", "slider")
DAY = 86_400


@dataclass(frozen=True, slots=True)
class ColumnWords:
    """What people read where one of several columns is asked about; what is empty is as for the whole survey."""

    question: str = ""
    unit: str = ""
    levels: dict[str, str] = field(default_factory=dict)  # words for levels, by their names


@dataclass(frozen=True, slots=True)
class Words:
    """What people read, and how they are asked."""

    title: str
    question: str
    unit: str = ""
    close: str | None = None  # the rule, in words
    invited: bool = False  # only by invitation
    expiry: int = DAY  # seconds for which a handed out query may be answered on the device
    input: str = "number"  # how a number is given: one of INPUTS
    levels: dict[str, str] = field(default_factory=dict)  # words for levels, by their names
    columns: dict[str, ColumnWords] = field(default_factory=dict)

    def __post_init__(self) -> None:
        said = {"title": self.title, "question": self.question, "unit": self.unit}
        for name, text in said.items():
            if len(text) > LONGEST_WORDS:
                raise InvalidArgument(f"{name} is longer than {LONGEST_WORDS} characters.", argument=name)
        if not self.title.strip() or not self.question.strip():
            raise InvalidArgument("A survey has a title and a question in words.", argument="title")
        if not 60 <= self.expiry <= 30 * DAY:
            raise InvalidArgument("expiry is a number of seconds from 60 to 30 days.", argument="expiry")
        if self.input not in INPUTS:
            raise InvalidArgument(
                f"input = {shown(self.input, 40)}; a number is given by {' or '.join(INPUTS)}.", argument="input"
            )
        if len(dumps(self.to_dict())) > LONGEST_IN_ALL:
            raise InvalidArgument(
                f"A survey's words have at most {LONGEST_IN_ALL} characters in all: they travel with every question.",
                argument="columns",
            )

    def about(self, column: str | None) -> ColumnWords:
        """The words for a question about this column."""
        own = self.columns.get(column or "", ColumnWords())
        return ColumnWords(own.question or self.question, own.unit or self.unit, own.levels or self.levels)

    def to_dict(self) -> Plain:
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Plain) -> Words:
        columns = {name: ColumnWords(**own) for name, own in plain.get("columns", {}).items()}
        return cls(**{**plain, "columns": columns})


class Handed(NamedTuple):
    """A query as it goes out."""

    id: str
    query: str  # its JSON
    is_answered: bool  # before, by the same invitation


class Board:
    """The board of one store; `open` makes its tables where there are none."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @classmethod
    def open(cls, store: Store) -> Board:
        with store.session() as session, session.transaction():
            for statement in TABLES:
                session.run(statement)
        return cls(store)

    def read(self, name: str) -> str | None:
        """What stands under a name."""
        with self.store.session() as session:
            found = session.rows("SELECT body FROM board WHERE name = ?", name)
        return None if not found else str(found[0][0])

    def write(self, name: str, body: str, *, is_durable: bool = True) -> None:
        """Put something under a name, in place of what stands there; what can be made again need not be durable."""
        with self.store.session(is_durable=is_durable) as session, session.transaction(is_aside=True):
            write(session, name, body)

    def settle(self, name: str, body: str) -> str:
        """Put something under a name unless there is something already; what stands there in the end."""
        with self.store.session() as session, session.transaction(is_aside=True):
            session.run("INSERT INTO board VALUES (?, ?) ON CONFLICT (name) DO NOTHING", name, body)
            return str(session.rows("SELECT body FROM board WHERE name = ?", name)[0][0])

    @property
    def words(self) -> Words:
        found = self.read("words")
        if found is None:
            raise SurveyError(
                "This store has no words for people: begin it with `noisewise survey serve SURVEY.toml`.",
                reason="words",
            )
        return Words.from_dict(loads(found))

    def put_words(self, words: Words) -> None:
        self.write("words", dumps(words.to_dict(), sort_keys=True))

    # ---- the operator ----

    def new_admin_token(self) -> str:
        """A token for the operator; only its hash is stored, and one made before is worth nothing from now on."""
        token = secrets.token_urlsafe(24)
        self.write("admin", _digest("admin", token))
        return token


def is_admin(stored: str | None, token: str) -> bool:
    """Whether a token is the operator's."""
    return stored is not None and hmac.compare_digest(stored, _digest("admin", token))


def write(session: Session, name: str, body: str) -> None:
    """Put something on the board, inside a transaction."""
    session.run("INSERT INTO board VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET body = excluded.body", name, body)


# ---- invitations ----


def invite(store: Store, count: int) -> list[str]:
    """So many new invitations; they are shown now and never again."""
    if not 1 <= count <= MOST_INVITATIONS:
        raise InvalidArgument(f"Make 1 to {MOST_INVITATIONS} invitations at a time.", argument="count")
    made = [secrets.token_urlsafe(18) for _ in range(count)]
    with store.session() as session, session.transaction(is_aside=True):
        session.check_open()
        for hash in sorted(_digest("invitation", one) for one in made):  # the order tells nothing
            session.run("INSERT INTO invitations VALUES (?, 0, NULL)", hash)
    return made


def hand_out(desk: Desk, session: Session, invitation: str | None) -> Handed | None:
    """A query for the next person, or the one that their invitation is bound to; None where the pool is empty."""
    if invitation is None:
        fresh = desk.hand_out(session)
        return None if fresh is None else Handed(*fresh, False)
    hash = _digest("invitation", invitation)
    found = session.rows("SELECT sealed FROM invitations WHERE hash = ?", hash)
    if not found:
        raise SurveyError("This survey knows no such invitation. Check that the link is whole.", reason="invitation")
    sealed = found[0][0]
    if sealed is not None:
        id = _sealed(invitation, bytes(sealed)).decode()
        query, state = session.rows("SELECT query, state FROM queries WHERE id = ?", id)[0]
        if state == "withdrawn":
            raise SurveyError("The query of this invitation was withdrawn.", reason="withdrawn")
        return Handed(id, query, state == "answered")
    fresh = desk.hand_out(session)
    if fresh is None:
        return None
    session.run(
        "UPDATE invitations SET used = 1, sealed = ? WHERE hash = ?", _sealed(invitation, fresh[0].encode()), hash
    )
    return Handed(*fresh, False)


def _digest(purpose: str, secret: str) -> str:
    return hashlib.sha256(f"noisewise {purpose} {secret}".encode("utf-8", "surrogatepass")).hexdigest()


def _sealed(invitation: str, text: bytes) -> bytes:
    """The text under a pad that only the invitation gives; applied twice it is the text again."""
    pad = hashlib.shake_256(f"noisewise query {invitation}".encode("utf-8", "surrogatepass")).digest(len(text))
    return bytes(a ^ b for a, b in zip(text, pad, strict=True))
