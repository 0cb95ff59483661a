"""`noisewise ARGUMENTS` inside this process, to save starting Python for every command."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from noisewise.cli.main import main

Shown = tuple[int, str, str]  # exit code, output, errors
Run = Callable[..., Shown]


def run_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> Shown:
    """The exit code of `noisewise ARGUMENTS`, and what this command alone wrote to output and errors."""
    monkeypatch.setattr(sys, "argv", ["noisewise", *arguments])
    capsys.readouterr()
    code: object = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code
    shown = capsys.readouterr()
    return int(str(code or 0)), shown.out, shown.err
