"""All answers of a survey in one release file: for each question its law and its answers, sorted or as counts.

A survey's answers are releases of the local model, one for each question that was asked: the people who got it, each
of whom answered once. Every one carries its own law, and they are of different people, so that
    p(answers | theta) = product over questions of p(answers to it | theta),
whatever made the survey choose its questions: they depend on earlier answers alone. `infer` takes all of them at once.

What the file leaves out is when who answered. Questions stand in the order of their own numbers, answers are sorted or
counted; and *all* answers are there: a selection would have another law.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import overload

from noisewise.errors import InvalidArgument, InvalidRelease, NoisewiseError
from noisewise.files import checked_path, read_file, read_json, write_whole
from noisewise.measuring import Measurement
from noisewise.planning import canonical
from noisewise.printable import printable
from noisewise.privacy.guarantee import Guarantee
from noisewise.query import Query
from noisewise.release import FORMAT_2, LARGEST_FILE, MEASURED, Release, published_answers
from noisewise.statistics.local import Records
from noisewise.types import Plain

__all__ = ["SurveyRelease", "load_releases"]

MOST_CONTAINERS = 1_000_000
OTHERS = "A survey releases the answers of single people, nothing else."
ENTRIES = {"format", "survey", "simulated", "answers", "releases", "hash"}


class SurveyRelease(Sequence[Release]):
    """The answers of a survey, question by question; `infer(answers, population)` learns from all of them.

    Parameters
    ----------
    name
        The survey's.
    releases
        The answers to each question, as a release of local answers.
    simulated
        Whether the people were simulated.

    Examples
    --------
    >>> yes_no = nw.Query.choice(["no", "yes"], guarantee=nw.PureDP(1))
    >>> nw.SurveyRelease.of("smoking", {yes_no: [0, 1, 1, 0, 0]}, simulated=True).answers
    5
    """

    __slots__ = ("name", "releases", "simulated")

    def __init__(self, name: str, releases: Sequence[Release], *, simulated: bool) -> None:
        self.name, self.releases, self.simulated = name, tuple(releases), simulated
        if not self.releases:
            raise InvalidArgument("A survey without answers has nothing to release.", argument="releases")
        if any(release.simulated is not simulated for release in self.releases):
            raise InvalidRelease("The answers of a survey are all simulated, or none is.")
        if any(not release.statistic.is_local for release in self.releases):
            raise InvalidRelease(OTHERS)
        expected = [_dataset(name, place) for place in range(len(self.releases))]
        if [release.dataset for release in self.releases] != expected:
            raise InvalidRelease("The questions of a survey are numbered one by one, under its name.")
        if len({release.guarantee for release in self.releases}) != 1:
            raise InvalidRelease("All answers of a survey keep the same guarantee.")

    @classmethod
    def of(cls, name: str, answers: Mapping[Query, Sequence[int]], *, simulated: bool) -> SurveyRelease:
        """From all answers by question; ids of queries and the order of answers are left behind."""
        releases = []
        for place, query in enumerate(sorted(answers, key=_place)):
            made = query.plan(n=len(answers[query]))
            value = published_answers(made, answers[query])
            releases.append(
                Release.of(made, value, dataset=_dataset(name, place), ledger_head=None, simulated=simulated)
            )
        return cls(name, releases, simulated=simulated)

    @overload
    def __getitem__(self, place: int) -> Release: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Release]: ...
    def __getitem__(self, place: int | slice) -> Release | Sequence[Release]:
        return self.releases[place]

    def __len__(self) -> int:
        return len(self.releases)

    def __iter__(self) -> Iterator[Release]:
        return iter(self.releases)

    @property
    def answers(self) -> int:
        """How many people answered."""
        return sum(release.schema.largest_n for release in self.releases)

    @property
    def guarantee(self) -> Guarantee:
        """What every answer keeps."""
        return self.releases[0].guarantee

    def __str__(self) -> str:
        simulated = " (simulated)" if self.simulated else ""
        return f"{self.answers} answers to {len(self)} questions, each at {self.guarantee}{simulated}"

    def __repr__(self) -> str:
        return f"<SurveyRelease {self}>"

    def _plain(self) -> Plain:
        return {
            "format": FORMAT_2,
            "survey": self.name,
            "simulated": self.simulated,
            "answers": self.answers,
            "releases": [release.to_dict() for release in self.releases],
        }

    def to_bytes(self) -> bytes:
        """The bytes that `save` writes."""
        plain = self._plain()
        return (json.dumps({**plain, "hash": _digest(plain)}, indent=1, allow_nan=False) + "\n").encode()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the answers as JSON; the file appears whole or not at all."""
        write_whole(checked_path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SurveyRelease:
        """Read and check a file; anything wrong with it is one clear sentence."""
        where, plain = _read(path)
        return cls.from_dict(plain, where=where)

    @classmethod
    def from_dict(cls, plain: Plain, *, where: str = "this release") -> SurveyRelease:
        """Check and read the plain form, every question's release by its own rules."""
        try:
            if set(plain) != ENTRIES or plain["format"] != FORMAT_2:
                raise InvalidRelease(f"{where} is not a survey's release of the format {FORMAT_2!r}.")
            if plain["hash"] != _digest({name: value for name, value in plain.items() if name != "hash"}):
                raise InvalidRelease(f"{where} was changed after it was made: its hash does not match.")
            if any(one["statistic"]["kind"] != Records.kind for one in plain["releases"]):
                raise InvalidRelease(OTHERS)  # before their noise is checked: that of other statistics takes long
            listed = [Release.from_dict(one, where=where) for one in plain["releases"]]
            found = cls(str(plain["survey"]), listed, simulated=plain["simulated"])
            if found.answers != plain["answers"]:
                raise InvalidRelease(f"{where} does not hold all answers: some were left out.")
            return found
        except InvalidRelease:
            raise
        except (TypeError, ValueError, LookupError, NoisewiseError):
            raise InvalidRelease(f"{where} is not a valid release: its values cannot be read.") from None


def load_releases(path: str | os.PathLike[str]) -> tuple[Release | Measurement, ...]:
    """The releases of a file: one, or a survey's, one for each question; or the measurement that it holds."""
    where, plain = _read(path)
    if plain.get("format") == MEASURED:
        return (Measurement.from_dict(plain, where=where),)
    return SurveyRelease.from_dict(plain, where=where).releases if "survey" in plain else (Release.load(path),)


def _read(path: str | os.PathLike[str]) -> tuple[str, Plain]:
    where = printable(path)
    data = read_file(checked_path(path), largest=LARGEST_FILE, refuse=InvalidRelease)
    try:
        return where, {**read_json(data, most_containers=MOST_CONTAINERS)}
    except (TypeError, ValueError, MemoryError):
        return where, {}


def _dataset(name: str, place: int) -> str:
    """The people who got one question."""
    return f"survey-{name}-{place}"


def _place(query: Query) -> tuple[str, int, tuple[float, ...], tuple[str, ...]]:
    """Where a question stands in a file: by what is asked."""
    about, levels = query.asks_about, tuple(map(str, query.levels or ()))
    if query.edges is not None:
        return about, 0, query.edges, levels
    return about, 1, (query.low or 0.0, query.high or 0.0), levels


def _digest(plain: Plain) -> str:
    return "sha256:" + hashlib.sha256(canonical(plain)).hexdigest()
