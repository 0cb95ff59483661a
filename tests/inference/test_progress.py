"""Long work is never silent: a line now and then where output is piped, nothing where it was not asked for."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from noisewise.inference import progress


class Lines(io.StringIO):
    """A stream that tells when it was written to."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def write(self, text: str) -> int:
        size = super().write(text)
        if "\n" in text:
            self.written.set()
        return size


def test_a_piped_error_stream_gets_lines_that_say_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Lines()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "EVERY", 0.01)
    with progress.shown(True, "Inferring mean") as report:
        assert report is not None
        report(3, 10)
        assert stream.written.wait(60)
    first = stream.getvalue().splitlines()[0]
    assert first.startswith("Inferring mean: ")
    assert first.endswith("s so far, 3 of 10 steps")
    told = stream.getvalue()
    stream.written.clear()
    assert not stream.written.wait(0.1), "the thread went on after the work"
    assert stream.getvalue() == told


def test_short_work_and_silenced_work_print_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for wanted in (True, False):
        stream = Lines()
        monkeypatch.setattr(sys, "stderr", stream)
        with progress.shown(wanted, "Inferring mean") as report:
            assert (report is not None) is wanted
        assert stream.getvalue() == ""


def test_an_error_inside_ends_the_lines_and_comes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Lines())
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), progress.shown(True, "Inferring mean"):
        raise ZeroDivisionError
    assert threading.active_count() == before
