"""Progress of long work: a bar on a terminal, a line now and then where nobody looks, or the caller's own function.

Work that takes minutes must not be silent: written to a file or a pipe, the error stream gets one line for every
`EVERY` seconds, whether or not the work itself reports how far it is (a search for the posterior cannot know).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

Progress = Callable[[int, int], None]
EVERY = 30.0  # seconds


@contextmanager
def shown(progress: object, text: str) -> Iterator[Progress | None]:
    """A function of (done, total): the caller's own, a bar or lines if asked for, or None."""
    if callable(progress):
        yield progress
        return
    if not progress or sys.stderr is None:
        yield None
        return
    if not sys.stderr.isatty():
        with _lines(text) as report:
            yield report
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=None)

        def report_bar(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield report_bar


@contextmanager
def _lines(text: str) -> Iterator[Progress]:
    """A line on the error stream for every so many seconds, from a thread of its own."""
    started, far, ended = time.monotonic(), [""], Event()

    def report(done: int, total: int) -> None:
        far[0] = f", {done} of {total} steps" if total else ""

    def tell() -> None:
        while not ended.wait(EVERY):
            print(f"{text}: {time.monotonic() - started:.0f} s so far{far[0]}", file=sys.stderr, flush=True)

    teller = Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield report
    finally:
        ended.set()
        teller.join()
