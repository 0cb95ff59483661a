"""Progress of long work: a bar on a terminal, nothing elsewhere, or whatever the caller's own function does with it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int], None]


@contextmanager
def shown(progress: object, text: str) -> Iterator[Progress | None]:
    """A function of (done, total): the caller's own, a bar if asked for and someone is looking, or None."""
    if callable(progress):
        yield progress
        return
    if not progress or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield report
