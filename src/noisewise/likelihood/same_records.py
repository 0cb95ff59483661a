"""Releases of the same records under one schema, so that their features can be stacked.

Releases may describe different columns of the same records; they must agree on those they share, since a clamp is part
of what was summed.
"""

from __future__ import annotations

from dataclasses import replace

from noisewise.errors import Unsupported
from noisewise.release import Release
from noisewise.schema import Schema


def one_schema(releases: tuple[Release, ...]) -> tuple[Release, ...]:
    """The releases, refused where their schemas describe the records in ways that cannot be reconciled."""
    first = releases[0].schema
    if len(releases) == 1:
        return releases
    for release in releases[1:]:
        for name in release.schema.columns.keys() & first.columns.keys():
            if release.schema.column(name) != first.column(name):
                raise Unsupported(
                    f"Two releases of the same records declare column {name!r} differently. Use the same bounds, and "
                    f"clip inside the statistic instead, as in mean({name}.clip(low, high))."
                )
        if release.schema.outside != first.outside or release.schema.neighbours != first.neighbours:
            raise Unsupported("Two releases of the same records have different policies for values outside the bounds.")
    columns = {name: entry for release in releases for name, entry in release.schema.columns.items()}
    size = {"n": first.n} if first.is_change_one else {"n_max": max(release.schema.largest_n for release in releases)}
    schema = Schema(columns, neighbours=first.neighbours, outside=first.outside, **size)
    return tuple(replace(release, schema=schema) for release in releases)
