"""Several noisy sums of the same few records, without the central limit theorem: Fourier inversion in r dimensions.

With S the sums of n records, g_k the noise on sum k and tilt tau (`record_tilt`),
    p(y) = e^{n K(tau)} E_tau prod_k g_k(S_k) e^{-tau_k S_k}
         = e^{n K(tau)} prod_k (1/L_k) sum_t phi_tau(t)^n prod_k G_k(t_k),      t_k = 2 pi j/L_k,
the sum over a lattice of frequencies, G_k the transform of the noise over a window of length L_k (`noise_on_sum`). What
the tilted sum has outside its window, +-(5.5 + 2.5 |skewness|) standard deviations, is all that is wrong with it.
A sum that takes evenly spaced values (an indicator) has a window of whole numbers, and all frequencies of it are few.
Gaussian noise alone on a sum is taken over the whole line, and counts in the window and in how far frequencies reach.

Frequencies are taken in strips over an ellipsoid t' (n C) t <= R^2 (`sum_frame`), and R grows by 1.4 until what lies
beyond, judged by how the terms fade at the end, adds less than TOLERANCE. Where nearly all records are at one value (a
bound, a clip) phi^n does not fade; what keeps it up is taken out and added point by point.

Rows whose sum is not positive, or whose rim stays visible at an affordable cost, are NaN, and `error` says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from noisewise.likelihood.record_tilt import Record
from noisewise.likelihood.sum_draw import GRID, draw_sums
from noisewise.likelihood.sum_frame import Frame
from noisewise.likelihood.sum_setting import SumSetting
from noisewise.populations.parameters import Array

__all__ = ["Inverted", "draw", "log_probability", "products"]

GROWTH, MOST_GROWTHS = 1.4, 6
TOLERANCE, DRAWN_TOLERANCE = 3e-4, 1e-2
MOST_PRODUCTS = 2e7  # complex products for one row
MOST_SPAN = 1e6  # frequencies of one sum between the lowest and 0: a table of the noise's transform holds them all
PER_BATCH = 3e5  # numbers in one array: few enough to stay near the processor
HOPELESS, VISIBLE_ROW = 90.0, 45.0  # logs below the best bound, or the best row, at which nothing could be seen


class Inverted(NamedTuple):
    """log p (K,), and what the frequencies left out may add, relative to p: the error."""

    log_probability: Array
    error: Array


def log_probability(
    setting: SumSetting, record: Record, atoms: Array, *, reached: float = -np.inf, most: float = MOST_PRODUCTS
) -> Inverted:
    """log p of K rows; atoms (A, r) are values that may hold a visible part of all records.

    `reached` is a log p that some row is known to have: rows that cannot come near it are given their bound. Rows that
    would take more than `most` products are left out.
    """
    rows = len(record.logs)
    found, error = np.full(rows, np.nan), np.full(rows, np.inf)
    usable = np.flatnonzero(np.isfinite(record.logs.max(axis=1)) & np.isfinite(record.values).all(axis=(1, 2)))
    if usable.size == 0:
        return Inverted(found, error)
    frame = Frame.of(setting, record.rows(usable), atoms)
    # No expectation of the noise exceeds its highest value: far below the best of these rows nothing is seen.
    bound = frame.log_unit
    hopeless = bound < max(np.nanmax(bound) - HOPELESS, reached - VISIBLE_ROW)
    found[usable[hopeless]], error[usable[hopeless]] = bound[hopeless], 0.0
    left = np.flatnonzero(~frame.is_lone & ~hopeless)
    for _ in range(MOST_GROWTHS + 1):
        for chosen in _batches(frame, left, most):
            value, rim = frame.rows(chosen).log_probability()
            part = usable[chosen]
            better = np.isfinite(value) & ~(rim > error[part])
            found[part[better]], error[part[better]] = value[better], rim[better]
        left = left[~(error[usable[left]] < TOLERANCE)]
        if left.size == 0:
            break
        frame = replace(frame, radius=GROWTH * frame.radius)
    return Inverted(found, error)


def products(setting: SumSetting, record: Record) -> Array:
    """How many complex products each row would take at first, (K,)."""
    frame = Frame.of(setting, record, np.empty((0, len(setting.noises))))
    return np.asarray(frame.counts.astype(float).prod(axis=1) * frame.seen.sum(axis=1))


def draw(rng: np.random.Generator, setting: SumSetting, record: Record, atoms: Array) -> Array:
    """The sums (K, r) given the release, one draw for each row; NaN where the inversion is not resolved."""
    drawn = np.full((len(record.logs), len(setting.noises)), np.nan)
    usable = np.flatnonzero(np.isfinite(record.logs.max(axis=1)) & np.isfinite(record.values).all(axis=(1, 2)))
    if usable.size == 0:
        return drawn
    frame = Frame.of(setting, record.rows(usable), atoms)
    left = np.flatnonzero(~frame.is_lone)
    for _ in range(MOST_GROWTHS + 1):
        for chosen in _batches(frame, left, MOST_PRODUCTS, extra=GRID):
            sums, rim = draw_sums(rng, frame.rows(chosen))
            good = rim < DRAWN_TOLERANCE
            drawn[usable[chosen[good]]] = sums[good]
        left = left[np.isnan(drawn[usable[left]]).any(axis=1)]
        if left.size == 0:
            break
        frame = replace(frame, radius=GROWTH * frame.radius)
    return drawn


def _batches(frame: Frame, rows: Any, most: float, extra: int = 0) -> list[Any]:
    """Rows in groups of similar cost that fit into memory; rows beyond the budget are left out.

    A row's cost is that of the points it sees itself, whatever rows it is asked with.
    """
    counts, spans, seen = frame.counts, frame.spans, frame.seen
    points = seen.sum(axis=1) + extra
    # Rows of unlike shape would pad each other: the outermost count sorts first.
    order = rows[np.lexsort(tuple(counts[rows, k] for k in range(frame.rank)))]
    order = order[counts[order].astype(float).prod(axis=1) * points[order] <= most]
    order = order[spans[order] <= MOST_SPAN]
    batches, first = [], 0
    union = np.zeros(seen.shape[1], bool)
    for k in range(1, order.size + 1):
        union |= seen[order[k - 1]]
        shape = counts[order[first:k]].max(axis=0)
        size = (k - first) * float(np.prod(shape[1:])) * (shape[0] + int(union.sum()) + extra)
        is_full = size > PER_BATCH or (k < order.size and counts[order[k], -1] > 2 * counts[order[first], -1] + 8)
        is_full = is_full or spans[order[first : k + 1]].max() * (k + 1 - first) > PER_BATCH
        if k == order.size or is_full:
            batches.append(order[first:k])
            first = k
            union[:] = False
    return batches
