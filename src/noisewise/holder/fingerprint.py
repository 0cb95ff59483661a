"""The keyed, order-free fingerprint of records: whole-number sums that are the same in every order and engine.

Each record becomes u in [0, 1]^d; with secret constants from HMAC-SHA256(key, ...) and {w} the fractional part,

    v_j = q({k_j (u_j + b_j)}),   h = q({B + sum_j K_j v_j}),   q(w) = {m w (w + c)},

and two lanes of sum floor(h 2^bits) are exact, since only IEEE + - * / and floor are used.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, NamedTuple

from noisewise.holder.expressions import double, settled
from noisewise.holder.sources import named
from noisewise.schema import Column, Levels

if TYPE_CHECKING:
    import ibis.expr.types as ir


def unit(value: ir.Value, column: Column, engine: str) -> ir.Value:
    if isinstance(column, Levels):
        return value.cast("float64") / double(len(column))
    width = column.high - column.low
    return settled(value - double(column.low), engine, width * 2.0**-200) / double(width)


def hash_sums(units: ir.Table, key: bytes, largest_n: int) -> ir.Table:
    """The count and both lanes of the fingerprint, in stages so that no engine computes a fractional part twice."""
    names = units.columns
    secrets = {name: _secrets(key, name) for name in names}
    table = units.select(*named({name: (units[name] + s.offset) * s.factor for name, s in secrets.items()}))
    table = _scrambled(table, secrets)
    lanes = {lane: _secrets(key, lane) for lane in ("__lane0", "__lane1")}
    terms = {lane: [table[name] * _secrets(key, f"{lane}|{name}").whole for name in names] for lane in lanes}
    table = _scrambled(table.select(**{lane: sum(terms[lane], s.offset) for lane, s in lanes.items()}), lanes)
    bits = min(31, 62 - largest_n.bit_length())
    sums = {lane: (table[lane] * double(2.0**bits)).floor().sum() for lane in lanes}
    return table.aggregate(__count=table.count(), **sums)


class Secrets(NamedTuple):
    """Constants of few bits, which every engine reads alike."""

    factor: ir.Value  # an odd number over 2^17: a whole one would send 0 and 1, or any two halves, to one hash
    whole: ir.Value
    offset: ir.Value
    shift: ir.Value


def _secrets(key: bytes, name: str) -> Secrets:
    digest = hmac.new(key, name.encode(), hashlib.sha256).digest()
    k, odd, m, b, c = (int.from_bytes(digest[i : i + 2]) for i in range(0, 10, 2))
    factor = 2**16 + k + (2 * odd + 1) / 2**17
    return Secrets(*map(double, (factor, 2**16 + m, 1 + b / 2**16, 1 + c / 2**16)))


def _scrambled(table: ir.Table, secrets: dict[str, Secrets]) -> ir.Table:
    """w -> {m {w} ({w} + c)} in every column."""
    table = table.select(*named({name: table[name] - table[name].floor() for name in secrets}))
    table = table.select(*named({name: table[name] * (table[name] + s.shift) * s.whole for name, s in secrets.items()}))
    return table.select(*named({name: table[name] - table[name].floor() for name in secrets}))
