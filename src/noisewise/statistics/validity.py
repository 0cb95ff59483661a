"""Which mechanism gives which guarantee to which statistic; anything else is refused with the table."""

from __future__ import annotations

from noisewise.errors import Unsupported
from noisewise.printable import shown
from noisewise.privacy.guarantee import Guarantee
from noisewise.privacy.mechanism import TABLE, mechanism_named
from noisewise.schema import Schema
from noisewise.statistics.protocol import Statistic
from noisewise.statistics.registry import statistic_kinds


def default_mechanism(statistic: Statistic, schema: Schema, guarantee: Guarantee) -> str:
    """The first mechanism of the table that serves this statistic under this guarantee."""
    if statistic.is_categorical(schema):
        return "randomized-response"
    for row in TABLE:
        if row.serves(statistic) and row.gives(guarantee):
            return row.name
    raise Unsupported(f"No mechanism gives {statistic.kind} a guarantee of kind {guarantee.kind}.\n{validity_table()}")


def check_validity(mechanism: object, statistic: Statistic, schema: Schema, guarantee: Guarantee) -> None:
    """Refuse a mechanism outside its row of the table, with the table."""
    row = mechanism_named(mechanism)
    if not row.serves(statistic) or not row.gives(guarantee):
        raise Unsupported(
            f"The mechanism {row.name!r} does not give {statistic.kind} a guarantee of kind {guarantee.kind}. "
            f"Nothing was spent. It is valid only as in this table:\n{validity_table()}"
        )
    check_left_out(statistic, schema)
    if statistic.needs_n(schema) and not schema.is_change_one:
        possible = (kind.kind for kind in statistic_kinds() if not kind.needs_public_n)
        raise Unsupported(
            f"{statistic.kind} needs neighbours='change-one': with a private number of records only "
            f"{', '.join(possible)} can be released. Nothing was spent."
        )


def check_left_out(statistic: Statistic, schema: Schema) -> None:
    """Refuse what cannot do without records in which a value is missing, with the reason and the ways out."""
    reason, columns = statistic.why_not_left_out(), [name for name in statistic.columns() if name in schema.left_out]
    if columns and reason is not None:
        raise Unsupported(
            f"{statistic.kind} cannot leave out records in which {shown(columns[0])} is missing: {reason}. Refuse "
            "missing values of this column, or fill them in with a public value "
            f"(missing={{{shown(columns[0])}: value}}), or release one of {', '.join(_leaving_out())}. Nothing was "
            "spent."
        )


def _leaving_out() -> list[str]:
    return [kind.kind for kind in statistic_kinds() if kind.leaves_out]


def validity_table() -> str:
    """The table as text."""
    lines = ["  mechanism            guarantee                                       statistics"]
    for row in TABLE:
        guarantees = ", ".join(kind.__name__ for kind in row.guarantees)
        kinds = ", ".join(kind.kind for kind in statistic_kinds() if row.serves(kind))
        lines.append(f"  {row.name:<20} {guarantees:<47} {kinds}")
    return "\n".join(lines)
