"""The command line that benchmarks share: which parts are run, with which settings, and on how busy a machine.

    python benchmarks/NAME.py [PART ...] [SETTING=VALUE ...]

A word that is neither a part nor a setting is refused before anything is measured.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping


def asked(
    parts: Collection[str], settings: Mapping[str, str] | None = None, *, on_request: Collection[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """The parts and settings of the command line; by default all parts but those that are run on request alone."""
    known, words = settings or {}, sys.argv[1:]
    given = dict(word.split("=", 1) for word in words if "=" in word)
    chosen = [word for word in words if "=" not in word] or [name for name in parts if name not in on_request]
    if unknown := sorted({*given, *chosen} - {*known, *parts}):
        there = f"; settings: {', '.join(known)}" if known else ""
        sys.exit(f"There is no {', '.join(unknown)}; parts: {', '.join(parts)}{there}.")
    return chosen, {**known, **given}


def run_parts(parts: Mapping[str, Callable[[], None]]) -> None:
    """Run the parts that were asked for, of a benchmark without settings."""
    for name in asked(parts)[0]:
        parts[name]()
    say_load()


def say_load() -> None:
    """How busy the machine was: without it a time says little."""
    if hasattr(os, "getloadavg"):
        print("\nload average " + " ".join(f"{load:.1f}" for load in os.getloadavg()))
