"""Hints in the words of the command line: the library's own speak Python, and here people write TOML and options."""

from __future__ import annotations

import re

__all__ = ["as_typed"]

_SAID: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"PureDP\(epsilon\), ApproxDP\(epsilon, delta\), ZeroConcentratedDP\(rho\) or GaussianDP\(mu\)",
         '{ epsilon = "1" }, { epsilon = "1", delta = "1e-6" }, { rho = "0.5" } or { mu = "1" }'),
        (r"column\('([^']+)'\)\s*\.equals\((level|'[^']*')\)", r"equals(\1, \2)"),
        (r"ledger\.replace_records\(\)", "`noisewise ledger replace-records LEDGER --yes`"),
        (r"call `noisewise", "run `noisewise"),
        (r"infer\(\.\.\., n=(\d+)\)", r"--n \1"),
        (r"Table\.read\(\.\.\., order=\)", '[table] order = "..."'),
        (r"Table\.read\(\.\.\., key=\)", '[table] key = "..."'),
        (r"\border=(?=[ ,.)]|$)", "[table] order"),
        (r"\bkey=(?=[ ,.)]|$)", "[table] key"),
        (r"as in Joint\(([\w., =]+)\)", r'with a line each in [population], as in age = "normal(mean=..., sd=...)"'),
        (r"PureDP\(([\d./']+)\)", r"{ epsilon = \1 }"),
        (r"neighbours='([a-z-]+)'", r'neighbours = "\1"'),
        (r"give n=\.\.\., not n_max", "write n = ..., not n_max"),
        (r"give n_max=\.\.\., not n\b", "write n_max = ..., not n"),
        (r"Bounded\(lo, hi\)", "{ bounds = [lo, hi] }"),
        (r"Levels\(\[\.\.\.\]\)", "{ levels = [...] }"),
        (r"start with column\('name'\)", "write the name of a column, or column('name with spaces')"),
        (r"Mean\(column\('(\w+)'\)\)", r"mean(\1)"),
        (r"Sum\(column\('(\w+)'\)\)", r"sum(\1)"),
    )
)  # fmt: skip


def as_typed(message: str) -> str:
    """A message of the library for someone who types commands and spec files."""
    for pattern, words in _SAID:
        message = pattern.sub(words, message)
    return message
