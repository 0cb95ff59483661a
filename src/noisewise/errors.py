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
    """Something a user can understand and put right: the base of every error here.

    Parameters
    ----------
    message
        What happened, what was expected, how to fix it and what it cost; never a record.
    fields
        Its numbers and names, as attributes.

    Examples
    --------
    >>> nw.NoisewiseError("Nothing was spent.", needed=1).needed
    1
    """

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
    """A parameter of a public function is out of its domain. Field: `argument`.

    Examples
    --------
    >>> try:
    ...     nw.PureDP(-1)
    ... except nw.InvalidArgument as error:
    ...     print(error.argument)
    epsilon
    """


class InvalidData(NoisewiseError, ValueError):
    """Records do not fit the declared schema. Fields: `column`, `fault`; never a value.

    Examples
    --------
    >>> schema = nw.Schema({"age": nw.Bounded(18, 90)}, n=2, neighbours="change-one", outside="refuse")
    >>> try:
    ...     nw.Table.read({"age": [23, 95]}, schema)
    ... except nw.InvalidData as error:
    ...     print(error.column)
    age
    """


class InvalidRelease(NoisewiseError, ValueError):
    """A release file is damaged, edited, or of an unknown version.

    Examples
    --------
    >>> try:
    ...     nw.Release.from_bytes(b'{"format": "noisewise-release/1"}')
    ... except nw.InvalidRelease:
    ...     print("not a release")
    not a release
    """


class InvalidSpec(NoisewiseError, ValueError):
    """A spec file (TOML) or a statistic written as text cannot be read. Field: `where`.

    Examples
    --------
    >>> try:
    ...     nw.statistic("average(income)")
    ... except nw.InvalidSpec as error:
    ...     print(error.where)
    average
    """


class Unsupported(NoisewiseError):
    """The parts asked for do not fit together (mechanism, statistic, guarantee, neighbours).

    Examples
    --------
    >>> schema = nw.Schema({"income": nw.Bounded(0, 250)}, n_max=4000, neighbours="add-remove")
    >>> try:
    ...     nw.plan(nw.Mean("income"), schema, guarantee=nw.PureDP(1))
    ... except nw.Unsupported:
    ...     print("publish a sum and a count")
    publish a sum and a count
    """


class Unregistered(Unsupported):
    """A law, statistic, guarantee or model lacks a piece that is asked for. Field: `piece`."""


class Incomparable(NoisewiseError, TypeError):
    """Two guarantees of kinds that have no common scale were compared or added.

    Examples
    --------
    >>> try:
    ...     nw.PureDP(1) + nw.GaussianDP(1)
    ... except nw.Incomparable:
    ...     print("no common scale")
    no common scale
    """


class BudgetExceeded(NoisewiseError):
    """A charge would pass the ledger's limit. Fields: `needed`, `remaining`, `limit`. Nothing was spent.

    Examples
    --------
    >>> query = nw.Query.clip(0, 100, guarantee=nw.PureDP(3))
    >>> try:
    ...     nw.respond(query, 37.5, cap=nw.PureDP(2))
    ... except nw.BudgetExceeded as error:
    ...     print(error.needed, error.limit)
    epsilon = 3 epsilon = 2
    """


class LedgerError(NoisewiseError):
    """The ledger cannot be opened, written or trusted. Field: `reason`.

    Examples
    --------
    >>> try:
    ...     nw.Ledger.open("nowhere.ledger")
    ... except nw.LedgerError as error:
    ...     print(error.reason)
    there is no such file
    """


class DifferentRecords(LedgerError):
    """The table is not the one this ledger has accounted for. Nothing was spent.

    Examples
    --------
    >>> schema = nw.Schema({"age": nw.Bounded(18, 90)}, n=3, neighbours="change-one")
    >>> ledger = nw.Ledger.open("people.ledger", limit=nw.PureDP(2))
    >>> made = nw.plan(nw.Mean("age"), schema, guarantee=nw.PureDP(1))
    >>> first = nw.make_release(nw.Table.read({"age": [23, 45, 37]}, schema), made, ledger=ledger)
    >>> try:
    ...     nw.make_release(nw.Table.read({"age": [61, 62, 63]}, schema), made, ledger=ledger)
    ... except nw.DifferentRecords:
    ...     print("other records")
    other records
    """


class SurveyError(NoisewiseError):
    """A survey cannot do this: it is closed, a query was withdrawn, its store is busy or damaged. Field: `reason`.

    Examples
    --------
    >>> survey = nw.Survey(nw.Normal(mean=stats.norm(40, 20), sd=15), guarantee=nw.PureDP(1), n_particles=200, seed=1)
    >>> survey.close()
    >>> try:
    ...     survey.ask()
    ... except nw.SurveyError as error:
    ...     print(error.reason)
    closed
    """


class PrecisionWarning(UserWarning):
    """A predicted precision rests on a formula that is too hopeful here: simulate before relying on it."""
