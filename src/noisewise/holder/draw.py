"""Privacy noise: the only module that draws it. It cannot be seeded, and every draw is exact.

Discrete Laplace and Gaussian noise comes from OpenDP. Everything else is drawn here from uniform bits of the operating
system (`secrets`) without one floating-point operation: a uniform number is a binary fraction known to some bits,
    u in [n/2^b, (n+1)/2^b),
and whenever a comparison or a rounding is not yet settled by the bits at hand, more bits are drawn. The law of the
result is therefore exactly the one `laws` scores, not a nearby one.

    standard normal    Karney (2016), "Sampling exactly from the normal distribution", ACM TOMS 42(1), Algorithm N
    exponential        von Neumann (1951): whole part by failures, fraction x accepted with probability e^-x
    Cauchy             u/v for (u, v) uniform on the half disc
    finite rows        an integer uniform below the common denominator
    e^-x weights       one uniform inverted against sums enclosed in integer intervals that shrink until they decide

No state outlives a call, so a forked process cannot repeat its parent's noise.
"""

from __future__ import annotations

import functools
import math
import secrets
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from noisewise import exact
from noisewise.errors import InvalidArgument, Unregistered
from noisewise.laws import Form, Law, action_law, additive_law, cell_law, smooth_law
from noisewise.laws.finite import exp_interval
from noisewise.laws.protocol import FAMILIES
from noisewise.printable import shown

Number = Fraction | float | int
WORD = 32  # bits by which a uniform is refined


class Sampler(Protocol):
    """`count` exact draws in whole steps at r = scale/step, made of this module's primitives and nothing else.

    `law` is there for parameters beside its scale. A sampler uses no other source of chance and no floating point.
    """

    def __call__(self, primitives: Primitives, law: Law, ratio: Fraction, count: int, /) -> list[int]: ...


_SAMPLERS: dict[str, Sampler] = {}


def register_sampler(family: str, sampler: Sampler) -> None:
    """Say how the noise of a law is drawn, by the name of its family; a registered law is not replaced."""
    if family not in FAMILIES:
        raise _refuse("family", f"there is no law {shown(family)} to draw; register it first (laws.register_law)")
    if family in _SAMPLERS:
        raise _refuse("family", f"{family!r} has a sampler already")
    _SAMPLERS[family] = sampler


def noise(law: Law) -> list[int]:
    """One noise vector, in steps: an independent draw of every component of an additive law."""
    law = additive_law(law)
    drawn = [0] * law.size
    components: dict[float, list[int]] = {}
    for component, ratio in enumerate(law.ratio):
        components.setdefault(ratio, []).append(component)
    for ratio, alike in components.items():
        for component, k in zip(alike, _steps(law, Fraction(ratio), len(alike)), strict=True):
            drawn[component] = k
    return drawn


def noise_per_record(law: Law, count: int) -> NDArray[np.int64]:
    """`count` independent draws, in steps, of a law with one component (the local model)."""
    law = additive_law(law)
    count = exact.integer(count, "count", minimum=0)
    if law.size != 1:
        raise _refuse("law", f"law must have one component, not {law.size}")
    return np.array(_steps(law, Fraction(law.ratio_of(0)), count) if count else [], dtype=np.int64)


def smooth_noise(law: Law, smooth_scale: Number) -> int:
    """Noise in steps of a smooth law at its secret scale S: round(S/(alpha step) V), V Laplace or Cauchy.

    A Cauchy draw has no bound: keep the sum with the statistic in Python integers.
    """
    law = smooth_law(law)
    ratio = _ratio(smooth_scale, "smooth_scale") / law.alpha / Fraction(law.step)
    (drawn,) = _steps(law, ratio, 1)
    return drawn


def rounded_gaussian(ratio: Number) -> int:
    """round(ratio Z) for an exact standard normal Z."""
    return _rounded_gaussian(_ratio(ratio, "ratio"), _Bits())


def rounded_laplace(ratio: Number) -> int:
    """round(ratio V) for an exact standard Laplace V."""
    exact_ratio, bits = _ratio(ratio, "ratio"), _Bits()
    whole = 0
    while not _accept_exp_minus(x := _Uniform(bits), bits):
        whole += 1
    return _signed(_rounded(exact_ratio, whole, x), bits)


def rounded_cauchy(ratio: Number) -> int:
    """round(ratio C) for an exact standard Cauchy C."""
    exact_ratio, bits = _ratio(ratio, "ratio"), _Bits()
    while not _inside_disc(u := _Uniform(bits), v := _Uniform(bits)):
        pass
    p, q = exact_ratio.numerator, exact_ratio.denominator
    while True:  # floor(p u/(q v) + 1/2) at both ends of the intervals of u and v, known to equally many bits
        if v.n > 0:
            low = (2 * p * u.n + q * (v.n + 1)) // (2 * q * (v.n + 1))
            high = -(-(2 * p * (u.n + 1) + q * v.n) // (2 * q * v.n)) - 1
            if low == high:
                return _signed(low, bits)
        u.refine()
        v.refine()


def from_row(row: Sequence[Fraction]) -> int:
    """An index drawn with exactly these rational probabilities."""
    support, cumulative = _cumulative(row)
    return support[bisect_right(cumulative, secrets.randbelow(cumulative[-1]))]


def answers(law: Law, true: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """One independent answer for each true cell (or statistic value), with exactly the law's probabilities."""
    rows = cell_law(law).cells if law.form is Form.CELL else len(action_law(law).rows)
    given = np.asarray(true)
    if given.dtype.kind not in "iu" or np.any((given < 0) | (given >= rows)):
        raise _refuse("true", f"true must be whole numbers from 0 to {rows - 1}")
    flat = given.astype(np.int64).ravel()
    if law.form is Form.CELL:
        # Answer true + shift, where shift = 0 is kept and the other shifts are equally likely.
        keep = cell_law(law).keep
        lied = _from_row_many((keep, 1 - keep), flat.size) == 1
        shift = np.zeros(flat.size, dtype=np.int64)
        shift[lied] = 1 + _uniform_below(rows - 1, int(lied.sum())).astype(np.int64)
        return ((flat + shift) % rows).reshape(given.shape)
    drawn = np.empty(flat.size, dtype=np.int64)
    for value in np.unique(flat):
        asked = flat == value
        drawn[asked] = _from_row_many(action_law(law).rows[value], int(asked.sum()))
    return drawn.reshape(given.shape)


def uniform_below(bound: int) -> int:
    """A whole number uniform on 0..bound-1."""
    return secrets.randbelow(bound)


def bernoulli_exp(exponent: Fraction) -> bool:
    """True with probability exp(-exponent), exactly (Canonne, Kamath & Steinke 2020, Algorithm 1)."""
    if exponent < 0:
        raise _refuse("exponent", "exponent must be at least 0: a probability is at most 1")
    whole, rest = divmod(exponent, 1)
    return all(_bernoulli_exp_unit(Fraction(1)) for _ in range(int(whole))) and _bernoulli_exp_unit(rest)


def _bernoulli_exp_unit(exponent: Fraction) -> bool:
    """For exponent <= 1: the first k with U_k > exponent/k is odd with probability exp(-exponent)."""
    k = 1
    while secrets.randbelow(exponent.denominator * k) < exponent.numerator:
        k += 1
    return k % 2 == 1


def weighted_index(lengths: Sequence[int], exponents: Sequence[Fraction]) -> int:
    """An index j drawn with probability exactly proportional to lengths[j] exp(-exponents[j]).

    A lazily refined uniform is inverted against the cumulative weights, enclosed in integer intervals; bits and
    precision are doubled until one index is certain, so a weight of e^-500 has its chance of e^-500 and not zero.
    """
    if len(lengths) != len(exponents):
        raise _refuse("exponents", "exponents must be as many as lengths")
    if not all(isinstance(x, Fraction | int) and x >= 0 for x in exponents):
        raise _refuse("exponents", "exponents must be Fractions of at least 0")
    lengths = [exact.integer(length, "lengths", minimum=0) for length in lengths]
    positive = [j for j, length in enumerate(lengths) if length > 0]
    if not positive:
        raise _refuse("lengths", "lengths must hold a positive one")
    smallest = min(exponents[j] for j in positive)
    weights = [(lengths[j], Fraction(exponents[j] - smallest)) for j in positive]
    u = _Uniform(_Bits())
    precision = 64 + sum(lengths).bit_length()
    while True:
        while u.precision < precision:
            u.refine()
        index = _invert(u, weights, precision)
        if index is not None:
            return positive[index]
        precision *= 2


# ---- uniform numbers that grow bits when asked ----


class _Bits:
    """Uniform bits of the operating system, fetched in small blocks and forgotten with the call that made them."""

    __slots__ = ("_left", "_pool")
    BLOCK = 512

    def __init__(self) -> None:
        self._pool = self._left = 0

    def take(self, count: int) -> int:
        if count > self._left:
            self._pool = int.from_bytes(secrets.token_bytes(self.BLOCK // 8), "big")
            self._left = self.BLOCK
        self._left -= count
        taken = self._pool >> self._left
        self._pool ^= taken << self._left
        return taken


class _Uniform:
    """A uniform number on (0, 1), so far known to lie in [n, n+1)/2^precision."""

    __slots__ = ("_bits", "n", "precision")

    def __init__(self, bits: _Bits) -> None:
        self._bits = bits
        self.n = bits.take(WORD)
        self.precision = WORD

    def refine(self) -> None:
        self.n = self.n << WORD | self._bits.take(WORD)
        self.precision += WORD

    def __lt__(self, other: _Uniform) -> bool:
        while True:
            common = min(self.precision, other.precision)
            mine, theirs = self.n >> (self.precision - common), other.n >> (other.precision - common)
            if mine != theirs:
                return mine < theirs
            for number in (self, other):
                if number.precision == common:
                    number.refine()


def _accept_exp_minus(x: _Uniform, bits: _Bits) -> bool:
    """True with probability e^-x: the run x > u_1 > u_2 > ... has even length (von Neumann)."""
    even, last = True, x
    while (u := _Uniform(bits)) < last:
        even, last = not even, u
    return even


def _accept_exp_minus_half(bits: _Bits) -> bool:
    """True with probability e^(-1/2): the same run, started at 1/2 (Karney, Algorithm H)."""
    x = _Uniform(bits)
    return x.n >> (WORD - 1) == 1 or not _accept_exp_minus(x, bits)


def _accept_normal_fraction(k: int, x: _Uniform, bits: _Bits) -> bool:
    """True with probability exp(-x (2k+x)/(2k+2)): a run each link of which survives a trial (Karney, Algorithm B)."""
    even, last = True, x
    while (u := _Uniform(bits)) < last and _below_share(_Uniform(bits), k, x):
        even, last = not even, u
    return even


def _below_share(r: _Uniform, k: int, x: _Uniform) -> bool:
    """Decide r < (2k+x)/(2k+2)."""
    while True:
        while r.precision < x.precision:
            r.refine()
        while x.precision < r.precision:
            x.refine()
        one = 1 << x.precision
        if (r.n + 1) * (2 * k + 2) <= 2 * k * one + x.n:
            return True
        if r.n * (2 * k + 2) >= 2 * k * one + x.n + 1:
            return False
        r.refine()


def _rounded_gaussian(ratio: Fraction, bits: _Bits) -> int:
    """Karney's Algorithm N: |Z| = k + x, k of probability e^(-k/2) e^(-k(k-1)/2), x accepted by exp(-x(2k+x)/2)."""
    while True:
        k = 0
        while _accept_exp_minus_half(bits):
            k += 1
        if not all(_accept_exp_minus_half(bits) for _ in range(k * (k - 1))):
            continue
        x = _Uniform(bits)
        if all(_accept_normal_fraction(k, x, bits) for _ in range(k + 1)):
            return _signed(_rounded(ratio, k, x), bits)


def _rounded(ratio: Fraction, whole: int, x: _Uniform) -> int:
    """floor(ratio (whole + x) + 1/2), refining x until both ends of its interval agree."""
    p, q = ratio.numerator, ratio.denominator
    while True:
        start = (whole << x.precision) + x.n
        half, unit = q << x.precision, 2 * q << x.precision
        low = (2 * p * start + half) // unit
        high = -(-(2 * p * (start + 1) + half) // unit) - 1  # x never reaches the end of its interval
        if low == high:
            return low
        x.refine()


def _inside_disc(u: _Uniform, v: _Uniform) -> bool:
    """Decide u^2 + v^2 < 1, refining u and v together."""
    while True:
        one = 1 << 2 * u.precision
        if (u.n + 1) ** 2 + (v.n + 1) ** 2 <= one:
            return True
        if u.n**2 + v.n**2 >= one:
            return False
        u.refine()
        v.refine()


def _signed(magnitude: int, bits: _Bits) -> int:
    return -magnitude if bits.take(1) else magnitude


# ---- vectors ----


def _steps(law: Law, ratio: Fraction, count: int) -> list[int]:
    """`count` draws of the law's family at r = scale/step."""
    if ratio <= 0:  # OpenDP would return the true value at scale 0
        raise _refuse("scale", "scale must be greater than 0: no noise is no privacy")
    if law.family not in _SAMPLERS or FAMILIES.get(law.family) is not law.__class__:
        raise Unregistered(
            f"No noise can be drawn for the law {law.family!r}: register a sampler with "
            "`noisewise.holder.draw.register_sampler`. Nothing was spent.",
            law=law.family,
            piece="sampler",
        )
    drawn = _SAMPLERS[law.family](PRIMITIVES, law, ratio, count)
    if len(drawn) != count or not all(type(k) is int for k in drawn):
        raise Unregistered(
            f"The sampler of {law.family!r} did not return {count} whole numbers. Nothing was spent.",
            law=law.family,
            piece="sampler",
        )
    return drawn


class Primitives:
    """What a sampler is made of: exact draws from the operating system's bits, on whole numbers and Fractions."""

    def uniform_below(self, bound: int) -> int:
        """A whole number uniform on 0..bound-1."""
        return uniform_below(bound)

    def bernoulli(self, p: Fraction) -> bool:
        """True with probability p."""
        return uniform_below(p.denominator) < p.numerator

    def bernoulli_exp(self, exponent: Fraction) -> bool:
        """True with probability exp(-exponent)."""
        return bernoulli_exp(exponent)

    def geometric_exp(self, exponent: Fraction) -> int:
        """k >= 0 with probability (1 - a) a^k, a = exp(-exponent)."""
        k = 0
        while bernoulli_exp(exponent):
            k += 1
        return k

    def sign(self) -> int:
        """1 or -1."""
        return 1 - 2 * uniform_below(2)

    def from_row(self, row: Sequence[Fraction]) -> int:
        """An index with exactly these probabilities."""
        return from_row(row)

    def discrete_laplace(self, ratio: Fraction, count: int) -> list[int]:
        """k with probability proportional to exp(-|k|/ratio); the ratio must be exact as a float."""
        return _opendp_noise(laplace=True, ratio=_as_float(ratio), count=count)

    def discrete_gaussian(self, ratio: Fraction, count: int) -> list[int]:
        """k with probability proportional to exp(-k^2/2 ratio^2); the ratio must be exact as a float."""
        return _opendp_noise(laplace=False, ratio=_as_float(ratio), count=count)

    def rounded_gaussian(self, ratio: Fraction, count: int) -> list[int]:
        """round(ratio Z), Z standard normal."""
        bits = _Bits()
        return [_rounded_gaussian(ratio, bits) for _ in range(count)]

    def rounded_laplace(self, ratio: Fraction) -> int:
        """round(ratio V), V standard Laplace."""
        return rounded_laplace(ratio)

    def rounded_cauchy(self, ratio: Fraction) -> int:
        """round(ratio C), C standard Cauchy."""
        return rounded_cauchy(ratio)


PRIMITIVES = Primitives()
register_sampler("discrete-laplace", lambda primitives, _, ratio, count: primitives.discrete_laplace(ratio, count))
register_sampler("discrete-gaussian", lambda primitives, _, ratio, count: primitives.discrete_gaussian(ratio, count))
register_sampler("rounded-gaussian", lambda primitives, _, ratio, count: primitives.rounded_gaussian(ratio, count))
register_sampler(
    "smooth-laplace", lambda primitives, _, ratio, count: [primitives.rounded_laplace(ratio) for _ in range(count)]
)
register_sampler(
    "smooth-cauchy", lambda primitives, _, ratio, count: [primitives.rounded_cauchy(ratio) for _ in range(count)]
)


@functools.cache
def _allow_opendp() -> None:
    """Its discrete samplers count as contributed; they are asked for once."""
    from opendp.mod import enable_features

    enable_features("contrib")


def _opendp_noise(*, laplace: bool, ratio: float, count: int) -> list[int]:
    """Exact discrete noise added to zeros, one call for the whole vector.

    By its modules, not by its prelude, which imports scikit-learn wherever that is installed.
    """
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.metrics import l1_distance, l2_distance

    _allow_opendp()
    make, distance = (make_laplace, l1_distance) if laplace else (make_gaussian, l2_distance)
    return list(make(vector_domain(atom_domain(T="i64")), distance(T="i64"), scale=ratio)([0] * count))


def _uniform_below(bound: int, count: int) -> NDArray[np.uint64]:
    """`count` independent integers uniform on 0..bound-1, bound <= 2^64, by rejection."""
    mask = np.uint64((1 << (bound - 1).bit_length()) - 1)
    drawn = np.empty(count, dtype=np.uint64)
    filled = 0
    while filled < count:
        words = np.frombuffer(secrets.token_bytes(8 * (count - filled)), dtype=np.uint64) & mask
        kept = words[words <= np.uint64(bound - 1)]
        drawn[filled : filled + kept.size] = kept
        filled += kept.size
    return drawn


def _from_row_many(row: Sequence[Fraction], count: int) -> NDArray[np.int64]:
    """`count` independent indices with these exact probabilities."""
    support, cumulative = _cumulative(row)
    values = np.array(support, dtype=np.int64)
    if cumulative[-1] > 2**64:
        return values[[bisect_right(cumulative, secrets.randbelow(cumulative[-1])) for _ in range(count)]]
    last_of_each = np.array([total - 1 for total in cumulative], dtype=np.uint64)
    return values[np.searchsorted(last_of_each, _uniform_below(cumulative[-1], count), side="left")]


def _cumulative(row: Sequence[Fraction]) -> tuple[list[int], list[int]]:
    """The indices of positive probability, and their cumulative sums in units of the common denominator."""
    if any(p < 0 for p in row) or sum(row) != 1:
        raise _refuse("row", "row must hold probabilities that sum to exactly 1")
    support = [j for j, p in enumerate(row) if p > 0]
    unit = math.lcm(*(Fraction(row[j]).denominator for j in support))
    return support, list(accumulate(int(row[j] * unit) for j in support))


# ---- weights e^-x ----


def _invert(u: _Uniform, weights: Sequence[tuple[int, Fraction]], precision: int) -> int | None:
    """The index in which u falls, or None if the intervals of u and the sums cannot tell yet."""
    enclosed = [_enclose_exp_minus(exponent, precision) for _, exponent in weights]
    below = list(accumulate(length * low for (length, _), (low, _) in zip(weights, enclosed, strict=True)))
    above = list(accumulate(length * high for (length, _), (_, high) in zip(weights, enclosed, strict=True)))
    # u times the total lies in [start, stop): inside index j if above[j-1] <= start and stop <= below[j].
    start, stop = u.n * below[-1] >> u.precision, -(-(u.n + 1) * above[-1] >> u.precision)
    index = bisect_right(above, start)
    return index if index < len(below) and stop <= below[index] else None


def _enclose_exp_minus(x: Fraction, precision: int) -> tuple[int, int]:
    """Integers low <= 2^precision e^-x <= high, for x >= 0."""
    if x > precision:  # e^-x < 2^-precision: no need to say by how much yet
        return 0, 1
    low, high, shift = exp_interval(-x, precision)
    move = -shift - precision
    return (low >> move, -(-high >> move)) if move >= 0 else (low << -move, high << -move)


# ---- refusals ----


def _as_float(ratio: Fraction) -> float:
    """The ratio as OpenDP takes it: rounded it would be another law, perhaps with less noise than is due."""
    if Fraction(float(ratio)) != ratio:
        raise _refuse("ratio", "ratio must be exact as a float; draw by another primitive where it is not")
    return float(ratio)


def _ratio(value: Number, argument: str) -> Fraction:
    """A positive finite number, exactly as it is stored; errors never show it, for it may be a secret scale."""
    if isinstance(value, bool) or not isinstance(value, Fraction | float | int) or not 0 < value <= 1e100:
        raise _refuse(argument, f"{argument} must be greater than 0 and finite")
    return Fraction(value)


def _refuse(argument: str, reason: str) -> InvalidArgument:
    return InvalidArgument(f"{reason}. Nothing was spent.", argument=argument)
