"""noisewise estimate: the best private point estimate behind a spec's count, and a release through it."""

from __future__ import annotations

import json as json_format
from pathlib import Path

from noisewise.cli.actions import check_outputs, check_release_options, console, release_by
from noisewise.cli.spec import Spec
from noisewise.errors import InvalidSpec
from noisewise.files import write_whole
from noisewise.planning import plan
from noisewise.point.optimal import optimal_estimator
from noisewise.statistics import Count


def estimate_spec(
    spec: Path,
    *,
    loss: str,
    data: Path | None,
    ledger: Path | None,
    out: Path | None,
    json: Path | None,
    plot: Path | None,
    accept_clamping: bool = False,
    only: str | None = None,
) -> None:
    """Print the optimal estimator of a spec; release one answer through it where records are given."""
    check_outputs(json=json, plot=plot)
    is_release = any(path is not None for path in (data, ledger, out))
    if is_release:
        check_release_options(spec, data, ledger, out)
    read = Spec.read(spec)
    given = read.plan(only)
    if not isinstance(given.statistic, Count) or given.guarantee.pure_epsilon is None:
        raise InvalidSpec(
            f'An estimate needs [release] with statistic = "count(...)" and guarantee = {{ epsilon = "1" }}, not '
            f"{given.statistic} at {given.guarantee}. Nothing was spent.",
            where="release",
        )
    found = optimal_estimator(
        read.population(), loss, guarantee=given.guarantee, statistic=given.statistic, schema=given.part_schema
    )
    if is_release and found.exact is None:
        raise InvalidSpec(
            f"An estimator of {found.size - 1} records is not written out, so nothing is released through it. Put "
            'mechanism = "geometric" into [release], run noisewise release, and read the answer off the noisy count '
            "with optimal_estimator(...).estimate(release): its law is the same. Nothing was spent.",
            where="release",
        )
    console.print(str(found), markup=False)
    if json is not None:
        write_whole(json, (json_format.dumps(found.to_dict(), indent=1, allow_nan=False) + "\n").encode())
        console.print(f"Written to {json}.", markup=False)
    if plot is not None:
        found.plot(plot)
        console.print(f"Written to {plot}.", markup=False)
    if is_release:
        through = plan(given.statistic, given.schema, guarantee=given.guarantee, mechanism=found, part=given.part)
        release_by(read, through, data, ledger, out, accept_clamping=accept_clamping)
