"""What is common to a release and to a measurement made elsewhere: numbers with noise, and the file that holds them.

`NoisyValue` is what likelihoods, models and reports read; `NoisyFile` is how both kinds say what their components are,
show themselves, and are written and read: one JSON file with a hash, which appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol, Self

from pydantic import ValidationError

from noisewise.errors import InvalidArgument, InvalidRelease
from noisewise.files import checked_path, read_file, read_json, write_whole
from noisewise.html import MOST_SHOWN, Section, pieces
from noisewise.laws import Law
from noisewise.planning import Part, Simulable, canonical
from noisewise.printable import printable
from noisewise.privacy.guarantee import Guarantee
from noisewise.schema import Schema
from noisewise.statistics import Statistic
from noisewise.types import Floats

__all__ = ["LARGEST_FILE", "NoisyFile", "NoisyValue", "checked_words", "digest", "first_fault"]

LARGEST_FILE = 200 * 2**20


class NoisyValue(Protocol):
    """What likelihoods, models and reports read: of a release, and of a measurement that was made elsewhere.

    `value` is in whole steps of the law's lattice; `estimate` is what people read.
    """

    @property
    def dataset(self) -> str: ...
    @property
    def part(self) -> Part | None: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def statistic(self) -> Statistic: ...
    @property
    def law(self) -> Law: ...
    @property
    def value(self) -> tuple[int, ...]: ...
    @property
    def guarantee(self) -> Guarantee | None: ...
    @property
    def simulated(self) -> bool: ...
    @property
    def is_foreign(self) -> bool: ...
    @property
    def is_categorical(self) -> bool: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def divisor(self) -> int: ...
    @property
    def estimate(self) -> Floats: ...
    @property
    def price(self) -> str: ...
    @property
    def noise_words(self) -> str: ...
    @property
    def origin(self) -> str: ...
    @property
    def hash(self) -> str: ...
    def with_schema(self, schema: Schema, statistic: Statistic | None = None) -> Self: ...
    def some_components(self, chosen: Sequence[int], statistic: Statistic) -> Self: ...
    def as_plan(self) -> Simulable: ...
    def to_dict(self) -> dict[str, object]: ...


class NoisyFile(ABC):
    """Numbers with noise that are a file: its components, its pages, its bytes. Not a kind of its own."""

    __slots__ = ()
    noun: ClassVar[str]  # what it is called where a file is refused
    comfort: ClassVar[str] = ""  # what is said where it cannot be written
    schema: Schema
    statistic: Statistic
    law: Law
    value: tuple[int, ...]

    @property
    @abstractmethod
    def estimate(self) -> Floats: ...

    @property
    def labels(self) -> tuple[str, ...]:
        """What its components are."""
        return self.statistic.labels(self.schema)

    @property
    def divisor(self) -> int:
        """What sums are divided by for reading: n for a mean, the whole weight of one record for a tied table, or 1."""
        return self.statistic.divisor(self.schema)

    @property
    def size_words(self) -> str:
        """How many records it is of, as far as that is public."""
        schema = self.schema
        return f"{schema.n} records" if schema.is_change_one else f"at most {schema.n_max} records"

    @property
    def estimate_words(self) -> str:
        """Its first numbers."""
        return ", ".join(f"{value:.6g}" for value in self.estimate[:6]) + (", ..." if len(self.value) > 6 else "")

    def __repr__(self) -> str:
        return f"<{self.noun.capitalize()} {self}>"

    def page(self, text: str, sd: Sequence[float] | None) -> str:
        """Its numbers as a table in HTML, under a text; `sd` is that of the noise on the sums, where it has one."""
        spreads = [""] * len(self.value) if sd is None else [f"{one / self.divisor:.4g}" for one in sd]
        labels, values = list(self.labels), [f"{value:.6g}" for value in self.estimate]
        if self.statistic.is_local:
            labels, values, spreads = [f"{len(self.value)} answers"], ["sorted or counted"], [""]
        rows = list(zip(labels, values, spreads, strict=False))[:MOST_SHOWN]
        if len(values) > len(rows):
            text += f"\n\n{len(values) - len(rows)} more components."
        title = f"{self.noun.capitalize()}: {self.statistic}"
        return pieces(Section(title, text=text, header=("component", "noisy value", "noise sd"), rows=rows))

    @abstractmethod
    def _plain(self) -> dict[str, object]:
        """The plain form, without its hash."""

    @property
    def hash(self) -> str:
        return digest(self._plain())

    def to_dict(self) -> dict[str, object]:
        """The plain form, with its hash."""
        plain = self._plain()
        return {**plain, "hash": digest(plain)}

    def to_bytes(self) -> bytes:
        """The bytes that `save` writes."""
        return (json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n").encode()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON; the file appears whole or not at all."""
        write_whole(checked_path(path), self.to_bytes(), told=self.comfort)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read and check a file; anything wrong with it is one clear sentence."""
        file = checked_path(path)
        return cls.from_bytes(read_file(file, largest=LARGEST_FILE, refuse=InvalidRelease), where=printable(path))

    @classmethod
    def from_bytes(cls, data: bytes, *, where: str = "") -> Self:
        where = where or f"this {cls.noun}"
        if not isinstance(data, bytes | bytearray):
            raise InvalidRelease(f"{where} must be the bytes of a file, not a {type(data).__name__}.")
        if len(data) > LARGEST_FILE:
            raise InvalidRelease(f"{where} is larger than {LARGEST_FILE // 2**20} MB; that is no {cls.noun}.")
        try:
            plain = read_json(bytes(data))
        except (json.JSONDecodeError, UnicodeDecodeError, MemoryError):
            raise InvalidRelease(f"{where} is not a whole JSON file. Ask for it again.") from None
        except ValueError as error:
            raise InvalidRelease(f"{where} is not a whole JSON file: {error}. Ask for it again.") from None
        return cls.from_dict(plain, where=where)

    @classmethod
    @abstractmethod
    def from_dict(cls, plain: object, *, where: str = "") -> Self:
        """Check and read the plain form."""


def digest(plain: Mapping[str, object]) -> str:
    """The hash of a plain form, which names it and shows that it was not changed."""
    return "sha256:" + hashlib.sha256(canonical(dict(plain))).hexdigest()


def checked_words(text: object, argument: str, longest: int, *, is_needed: bool = False) -> str:
    """Words that stand in a file for its readers: printable, short, and some where they are needed."""
    if not isinstance(text, str) or len(text) > longest or not text.isprintable() or (is_needed and not text.strip()):
        raise InvalidArgument(f"{argument} must be printable text of at most {longest} characters.", argument=argument)
    return text


def first_fault(error: Exception) -> str:
    """What is wrong with a file, in a few words that quote nothing of it."""
    if isinstance(error, ValidationError):
        detail = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in detail["loc"]) or "the file"
        return f"{where}: {detail['msg']}"
    return "its values cannot be read"
