"""Every error a user can meet.

An error says what happened, what was expected, how to fix it and what it cost; it never quotes a record.
All of them derive from `NoisewiseError`, carry their numbers as fields, and print as one message. The
command line turns any of them into that message and exit code 2. A message may quote a name that a stranger chose, so
characters that are not printable are shown as escapes.
"""

from __future__ import annotations

from noisewise.printable import printable_lines

LONGEST_MESSAGE = 4000


class NoisewiseError(Exception):
    """Something a user can understand and put right."""

    def __init__(self, message: str, **fields: object) -> None:
        super().__init__(printable_lines(_shortened(str(message))))
        self.fields = fields

    def __getattr__(self, name: str) -> object:
        fields = self.__dict__.get("fields", {})
        if name in fields:
            return fields[name]
        raise AttributeError(f"{type(self).__name__} has no field {name!r}")

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), str(self), self.fields))


def _shortened(message: str) -> str:
    """A message as long as people read: one that lists a stranger's million names ends early."""
    left = len(message) - LONGEST_MESSAGE
    return message if left <= 0 else f"{message[:LONGEST_MESSAGE]}... ({left} more characters)"


def _rebuild(kind: type[NoisewiseError], message: str, fields: dict[str, object]) -> NoisewiseError:
    return kind(message, **fields)


class InvalidArgument(NoisewiseError, ValueError):
    """A parameter of a public function is out of its domain. Field: `argument`."""


class InvalidData(NoisewiseError, ValueError):
    """Records do not fit the declared schema. Fields: `column`, `fault`; never a value."""


class InvalidRelease(NoisewiseError, ValueError):
    """A release file is damaged, edited, or of an unknown version."""


class InvalidSpec(NoisewiseError, ValueError):
    """A spec file (TOML) or a statistic written as text cannot be read. Field: `where`."""


class Unsupported(NoisewiseError):
    """The parts asked for do not fit together (mechanism, statistic, guarantee, neighbours)."""


class Unregistered(Unsupported):
    """A law, statistic, guarantee or model lacks a piece that is asked for. Field: `piece`."""


class Incomparable(NoisewiseError, TypeError):
    """Two guarantees of kinds that have no common scale were compared or added."""


class BudgetExceeded(NoisewiseError):
    """A charge would pass the ledger's limit. Fields: `needed`, `remaining`, `limit`."""


class LedgerError(NoisewiseError):
    """The ledger cannot be opened, written or trusted. Field: `reason`."""


class DifferentRecords(LedgerError):
    """The table is not the one this ledger has accounted for."""


class SurveyError(NoisewiseError):
    """A survey cannot do this: it is closed, a query was withdrawn, its store is busy or damaged. Field: `reason`."""


class PrecisionWarning(UserWarning):
    """A predicted precision rests on a formula that is too hopeful here: simulate before relying on it."""
