"""noisewise check: the records before anything is paid, for the holder's eyes only."""

from __future__ import annotations

import json as json_format
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from noisewise.cli.actions import check_outputs, console
from noisewise.cli.spec import Spec
from noisewise.errors import InvalidSpec
from noisewise.files import OWN, write_whole

if TYPE_CHECKING:
    from noisewise.holder.check import RecordCheck


def check_records(spec: Path, data: Path, *, json: Path | None, html: Path | None) -> None:
    """Print what does not fit, and write it where it was asked for."""
    from noisewise.holder.table import Table

    for place, option in ((json, "--json"), (html, "--html")):
        if place is not None and place.resolve() in {spec.resolve(), data.resolve()}:
            raise InvalidSpec(f"{option} would overwrite the spec or the records. Give another name.", where=option)
    check_outputs(json=json, html=html)
    read = Spec.read(spec)
    schema, plans, options = read.schema(), read.plans() if "release" in read.sections else (), read.data()
    with console.status("Looking at the records..."):
        found = Table.check(data, schema, plans=plans, order=options.order, key=options.key, reader=options.reader)
    console.print(found.text(in_toml=True), markup=False)
    _tell_of_the_stop(found, options.clamp_at_most)
    if json is not None:
        write_private(json, (json_format.dumps(found.to_dict(), indent=1, allow_nan=False) + "\n").encode())
    if html is not None:
        write_private(html, found.to_html(in_toml=True).encode())


def _tell_of_the_stop(found: RecordCheck, most: Fraction) -> None:
    """Say beforehand where `noisewise release` would stop, so that nobody is surprised there."""
    from noisewise.holder.cleaning import Clamped, over_share

    clamped = [Clamped(column.name, column.below, column.above, column.rows) for column in found.columns]
    over = over_share(clamped, most) if found.schema.outside == "clamp" else []
    if over:
        console.print(
            f"\nnoisewise release would stop: {'; '.join(map(str, over))}, and at most {float(100 * most):.4g} % of a "
            "column is accepted (clamp_at_most under [data]). --accept-clamping goes on.",
            markup=False,
        )


def write_private(path: Path, data: bytes) -> None:
    """Write a file that its owner alone may read, and say that it is not to be shared."""
    write_whole(path, data, mode=OWN)
    console.print(f"Written to {path}, for you alone: not for publication.", markup=False)
