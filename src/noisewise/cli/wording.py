"""Hints in the words of the command line: the library's own speak Python, and here people write TOML and options.

An error that knows both tongues carries the second in its field `toml`. The others are put into words here, so that
every message leaves by this one door.
"""

from __future__ import annotations

import re

from noisewise.errors import NoisewiseError

__all__ = ["as_typed", "in_toml"]

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
        (r"as in Grouped\('region', income=\.\.\.\)",
         """as in "*" = "grouped(by=['region'], column='income', law=normal(mean=..., sd=...))\""""),
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


def in_toml(error: NoisewiseError) -> str:
    """What an error says to those who write spec files, as far as it knows."""
    return str(error.fields.get("toml", error))


def as_typed(error: NoisewiseError) -> str:
    """The name and the message of an error for someone who types commands and spec files."""
    message = f"{type(error).__name__}: {in_toml(error)}"
    for pattern, words in _SAID:
        message = pattern.sub(words, message)
    return message
