"""What a noise law is: plain data with its probabilities. Nothing here is random, and nothing here is a branch by law.

A release publishes value + step*K, an integer number K of public lattice steps drawn from one of
    discrete Laplace    P(k) = (1-a)/(1+a) a^|k|,  a = exp(-1/r)        r = scale/step
    discrete Gaussian   P(k) = exp(-k^2/2r^2) / sum_j exp(-j^2/2r^2)
    rounded Gaussian    K = round(r Z),  P(k) = Phi((k+1/2)/r) - Phi((k-1/2)/r)
    smooth Laplace      K = round(r V),  V ~ Laplace(1)                 r = S/(alpha step), S secret
    smooth Cauchy       K = round(r C),  C ~ Cauchy(0, 1)
or is an index drawn from a row of exact Fractions (randomized response, a finite law), or a point near a quantile.
Rounding a continuous law is post-processing, so a continuous proof of privacy holds on the lattice as it stands.

Behaviour that needs another room (drawing in `holder.draw`, simulating in `likelihood.simulate`) is registered there
for each law, and asking for it without a registration raises `Unregistered`, which names the piece. Formulas that are
closed only for Laplace and normal noise ask for `normal_mixture(law)`: a law that is no such mixture is refused by it,
never taken for a Gaussian one.

Promise: the log-probabilities are right to rounding for every r between 1e-3 and 2^55, in the far tails too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar, Protocol, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from noisewise import exact
from noisewise.errors import InvalidArgument, Unregistered, Unsupported
from noisewise.laws.numbers import Floats, floats, positive_number, positive_numbers, power_of_two, refusal

LARGEST_RATIO = 2.0**55  # below it the chance that noise reaches 2^63 steps is under exp(-256)
MOST_COMPONENTS = 2**20
SMALLEST_RATIO = 2.0**-200  # nothing overflows when 2^63 steps are scored


class Form(Enum):
    """What a release under a law holds."""

    NUMBER = "numbers with noise of a public scale"
    SCALED = "a number with noise of a secret scale"
    CELL = "counts of answers that may be untrue"
    ACTION = "the index of an action"
    POINT = "a point near a quantile"


class Law(Protocol):
    """A noise law as plain data, compared by value."""

    family: ClassVar[str]  # its name in files
    mechanism: ClassVar[str]  # the name in the validity table under which a plan gives it
    form: ClassVar[Form]

    def to_dict(self) -> dict[str, object]:
        """Plain data, read back unchanged by `law_from_dict`."""

    def read(self, values: Floats) -> Floats:
        """Published integers in the units of the sum, or as what they stand for."""

    def share_of_noise(self, due: Self) -> float:
        """How much it hides of what `due`, a law of its own kind, does: their ratio, or 0 or 1 if only that counts."""

    def smaller(self, factor: Fraction) -> Self:
        """The same law with less noise: scales shrink by `factor`, odds and rates grow by 1/factor (planted faults)."""

    def brief(self) -> str:
        """What happens to one component, in a few words."""

    def words(self) -> str:
        """The law in a sentence for readers of a release."""


class Mixing(Enum):
    """Of which law the variance is, where noise is normal given its variance."""

    NONE = "Gaussian"  # the variance is fixed: sd^2
    EXPONENTIAL = "Laplace"  # the variance is exponential with mean 2 b^2


@dataclass(frozen=True, slots=True)
class NormalMixture:
    """Noise that is normal given its variance: `scale` holds the sd, or Laplace's b, of each component."""

    mixing: Mixing
    scale: tuple[float, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.mixing, Mixing):
            raise InvalidArgument("mixing must be one of Mixing: closed forms know no other.", argument="mixing")

    @property
    def is_laplace(self) -> bool:
        return self.mixing is Mixing.EXPONENTIAL

    @property
    def laplace_scale(self) -> tuple[float, ...] | None:
        """b of each component; None where the variance is fixed."""
        return self.scale if self.is_laplace else None

    @property
    def variance(self) -> tuple[float, ...]:
        """The variance of each component, its mixing integrated out."""
        return tuple((2 if self.is_laplace else 1) * scale * scale for scale in self.scale)


class SmoothShape(Enum):
    """The continuous laws of unit scale that formulas of order statistics are written for."""

    LAPLACE = "Laplace"
    CAUCHY = "Cauchy"


@dataclass(frozen=True, slots=True)
class AdditiveLaw(ABC):
    """Independent noise on every component, in whole steps; `scale` and `step` are in units of the sum."""

    scale: tuple[float, ...]
    step: tuple[float, ...]
    family: ClassVar[str]
    mechanism: ClassVar[str]
    form: ClassVar[Form] = Form.NUMBER
    is_log_concave: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive_numbers(self.scale, "scale"))
        object.__setattr__(self, "step", positive_numbers(self.step, "step"))
        if len(self.scale) != len(self.step):
            raise refusal("step", f"{len(self.scale)} scales need as many steps, not {len(self.step)}")
        for scale, step in zip(self.scale, self.step, strict=True):
            power_of_two(step, "step")
            if not Fraction(SMALLEST_RATIO) <= Fraction(scale) / Fraction(step) < Fraction(LARGEST_RATIO):
                raise refusal("scale", f"scale/step = {scale!r}/{step!r} must lie between 2**-200 and 2**55")

    @property
    def size(self) -> int:
        """The number of components."""
        return len(self.scale)

    @property
    def ratio(self) -> tuple[float, ...]:
        """r = scale/step of each component; exact, since the step is a power of two."""
        return tuple(scale / step for scale, step in zip(self.scale, self.step, strict=True))

    def ratio_of(self, component: int) -> float:
        """r of one component, at a cost that does not grow with their number."""
        return self.scale[component] / self.step[component]

    def to_dict(self) -> dict[str, object]:
        return {"family": self.family, "scale": list(self.scale), "step": list(self.step)}

    def read(self, values: Floats) -> Floats:
        return values * (np.array(self.step) if self.size == len(values) else self.step[0])

    def share_of_noise(self, due: Self) -> float:
        return min(scale / least for scale, least in zip(self.scale, due.scale, strict=True))

    def smaller(self, factor: Fraction) -> Self:
        return replace(self, scale=tuple(float(factor) * scale for scale in self.scale))

    def repeated(self, count: int) -> Self:
        """`count` independent vectors as one long one."""
        return replace(self, scale=self.scale * count, step=self.step * count)

    def brief(self) -> str:
        return f"{self.family} noise"

    def words(self) -> str:
        return f"{self.family}, on a lattice of step {', '.join(f'{step:.4g}' for step in sorted(set(self.step))[:4])}."

    def mixture(self) -> NormalMixture | None:
        """The law as a normal one with a variance of its own law, where it is one up to its lattice; else None."""
        return None

    def reach(self, tail: float, component: int = 0) -> int:
        """A number of steps that the noise exceeds, on one side, with probability at most `tail`."""
        high = 1
        while float(self.cdf(-high, component)) > tail:
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if float(self.cdf(-middle, component)) > tail else (low, middle)
        return high

    def _ratio(self, component: int) -> float:
        k = exact.integer(component, "component", minimum=0, maximum=self.size - 1)
        return self.scale[k] / self.step[k]

    @property
    @abstractmethod
    def sd(self) -> tuple[float, ...]:
        """The standard deviation of each component, in units of the sum."""

    @abstractmethod
    def log_pmf(self, k: ArrayLike, component: int = 0) -> Floats:
        """log P(noise = k steps)."""

    @abstractmethod
    def cdf(self, k: ArrayLike, component: int = 0) -> Floats:
        """P(noise <= k steps)."""


@dataclass(frozen=True, slots=True)
class SmoothLaw(ABC):
    """Noise whose scale S(x)/alpha is a beta-smooth bound of the local sensitivity: the rule is public, S is secret."""

    alpha: Fraction
    beta: float
    step: float
    family: ClassVar[str]
    mechanism: ClassVar[str]
    form: ClassVar[Form] = Form.SCALED

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", exact.fraction(self.alpha, "alpha", positive=True))
        object.__setattr__(self, "beta", positive_number(self.beta, "beta"))
        object.__setattr__(self, "step", power_of_two(self.step, "step"))

    def to_dict(self) -> dict[str, object]:
        return {"family": self.family, "alpha": str(self.alpha), "beta": self.beta, "step": self.step}

    def read(self, values: Floats) -> Floats:
        return values * self.step

    def share_of_noise(self, due: Self) -> float:
        """A margin of 1e-9 is for later rounding rules."""
        return float(self.alpha <= due.alpha and self.beta <= due.beta * (1 + 1e-9))

    def smaller(self, factor: Fraction) -> Self:
        return replace(self, alpha=self.alpha / factor)

    def brief(self) -> str:
        return "noise scaled to the smooth sensitivity of the records, which stays secret"

    def words(self) -> str:
        return (
            f"{self.family}: scaled to the smooth sensitivity of the records (alpha {self.alpha}, beta "
            f"{self.beta:.4g}); the scale itself is secret and in no file."
        )

    def _ratio(self, smooth_scale: ArrayLike) -> Floats:
        """r = S/(alpha step), elementwise."""
        scale = floats(smooth_scale)
        if not np.all((scale > 0) & np.isfinite(scale)):
            raise refusal(
                "smooth_scale", "a smooth scale must be positive and finite (it is secret, so it is not shown)"
            )
        return scale / (float(self.alpha) * self.step)

    def shape(self) -> SmoothShape | None:
        """The continuous law behind it, where a closed formula is written for it; else None."""
        return None

    @abstractmethod
    def log_pmf(self, k: ArrayLike, *, smooth_scale: ArrayLike) -> Floats:
        """log P(noise = k steps | S = smooth_scale)."""

    @abstractmethod
    def cdf(self, k: ArrayLike, *, smooth_scale: ArrayLike) -> Floats:
        """P(noise <= k steps | S = smooth_scale)."""


# ---- noise as a publisher states it ----

FINENESS = 2**36  # steps to a scale: continuous noise on such a lattice is scored to 1e-10
COARSEST = 32  # scales with fewer steps are felt where a law of sums takes noise as continuous
LARGEST_LATTICE = 2**60  # steps that a published number, or a sum of all records, may have


class StatedNoise(Protocol):
    """Noise in its publisher's words, on the numbers as they were published; a law once it is known what they are."""

    kind: ClassVar[str]  # its name in files
    counts_answers: ClassVar[bool]  # whether the published numbers count answers that may be untrue

    def settle(
        self, sums: Sequence[Fraction], *, divisor: int, largest: Sequence[Fraction], period: int, is_count: bool
    ) -> tuple[Law, tuple[int, ...]]:
        """The law of noise on sums, and the sums in its whole steps.

        `largest` is what each sum can be; components `period` apart are of one feature and share their step.
        """

    def some(self, chosen: Sequence[int]) -> StatedNoise:
        """The same noise, of some components."""

    def to_dict(self) -> dict[str, object]:
        """Plain data, read back unchanged by `noise_from_dict`."""

    def words(self) -> str:
        """The noise in a sentence, as its publisher states it."""


@dataclass(frozen=True, slots=True)
class AddedToPublished(ABC):
    """Independent noise on every published number; one scale for all of them, or one for each."""

    scale: tuple[float, ...]
    is_whole: bool = False  # noise of whole numbers
    is_rounded: bool = False  # the noisy number was rounded to a whole one
    kind: ClassVar[str]
    counts_answers: ClassVar[bool] = False

    @abstractmethod
    def family(self) -> type[AdditiveLaw]:
        """The law on a lattice that this noise is."""

    def settle(
        self, sums: Sequence[Fraction], *, divisor: int, largest: Sequence[Fraction], period: int, is_count: bool
    ) -> tuple[Law, tuple[int, ...]]:
        size = len(largest)
        if len(self.scale) not in (1, size):
            raise stated(f"{len(self.scale)} numbers for the noise of {size} components; give one, or one for each")
        scale = [Fraction(one) * divisor for one in (self.scale * size if len(self.scale) == 1 else self.scale)]
        if self.is_whole or self.is_rounded:
            step = self._whole_steps(sums, scale, divisor=divisor, is_count=is_count)
        else:
            alike = [min(scale[j::period]) for j in range(period)], [max(largest[j::period]) for j in range(period)]
            step = [_fine_step(one, most) for one, most in zip(*alike, strict=True)] * (size // period)
            if is_count and all(value.denominator == 1 for value in sums) and min(scale) < COARSEST:
                raise stated(
                    "every published count is a whole number, which noise on all numbers gives with probability 0. If "
                    "the noise was of whole numbers, say geometric_noise(scale=...) or gaussian_noise(sd=..., "
                    "discrete=True); if the noisy counts were rounded, say rounded=True"
                )
        each = step if len(step) == len(sums) else step * len(sums)
        value = tuple(round(total / one) for total, one in zip(sums, each, strict=True))
        return self.family()(tuple(map(float, scale)), tuple(map(float, step))), value

    def _whole_steps(
        self, sums: Sequence[Fraction], scale: Sequence[Fraction], *, divisor: int, is_count: bool
    ) -> list[Fraction]:
        what = "rounded to whole numbers" if self.is_rounded else "of whole numbers"
        if divisor != 1 or any(value.denominator != 1 for value in sums):
            raise stated(f"the noise is stated as {what}, and what was published is no whole number")
        if not (is_count and self.is_exact_on_counts) and min(scale) < COARSEST:
            raise Unsupported(
                f"The noise is {what} and its scale is {float(min(scale)):.4g}. The law of a sum takes noise as "
                f"continuous, which would be felt below a scale of {COARSEST}; only counts with noise of whole numbers "
                "(or rounded Gaussian noise) are scored exactly. Ask for the value before it was rounded."
            )
        return [Fraction(1)] * len(scale)

    @property
    def is_exact_on_counts(self) -> bool:
        """Whether there is a law of exactly this noise on whole numbers."""
        return self.is_whole

    def some(self, chosen: Sequence[int]) -> Self:
        return self if len(self.scale) == 1 else replace(self, scale=tuple(self.scale[j] for j in chosen))

    def _spread(self) -> str:
        shown = ", ".join(f"{one:.6g}" for one in self.scale[:4]) + (", ..." if len(self.scale) > 4 else "")
        return f"{shown}{', rounded to a whole number' if self.is_rounded else ''}"


def _fine_step(scale: Fraction, largest: Fraction) -> Fraction:
    """A step on which noise of this scale is continuous: the largest power of two below scale/2^36, at most 1."""
    coarsest = exact.power_of_two_below(scale / 2**20)
    step = min(exact.power_of_two_below(scale / FINENESS), Fraction(1))
    while largest >= LARGEST_LATTICE * step and step < coarsest:
        step *= 2
    if largest >= LARGEST_LATTICE * step:
        raise stated(
            f"a scale of {float(scale):.3g} is too small beside sums up to {float(largest):.3g}: such noise is beyond "
            "the digits of the published number"
        )
    return step


def stated_scale(value: object, argument: str) -> tuple[float, ...]:
    """One scale, or one for each component, as floats."""
    entries = np.atleast_1d(np.asarray(value, dtype=object))
    if entries.ndim != 1 or not 0 < entries.size <= MOST_COMPONENTS:
        raise refusal(argument, f"{argument} must be one number, or list one for each component")
    return tuple(float(exact.fraction(one, argument, positive=True)) for one in entries)


def stated(reason: str) -> InvalidArgument:
    """What is said of noise that does not fit what was published."""
    return InvalidArgument(f"noise: {reason}.", argument="noise")


NOISES: dict[str, Callable[..., StatedNoise]] = {}


def noise_from_dict(entries: Mapping[str, object]) -> StatedNoise:
    """The noise written by `to_dict`; anything missing, unknown or out of its domain is refused by name."""
    given = dict(entries)
    kind = given.pop("kind", None)
    if kind not in NOISES:
        raise refusal("noise", f"the kind of noise must be one of {', '.join(NOISES)}")
    try:
        return NOISES[str(kind)](**given)
    except TypeError:
        raise refusal("noise", f"{kind} noise has other entries than these") from None


# ---- which laws there are ----

FAMILIES: dict[str, type[Law]] = {}
Kind = TypeVar("Kind", bound=type[Any])


def register_law(kind: Kind) -> Kind:
    """Make a law known by the name of its family, so that release files may hold it; a class decorator.

    Which guarantee it can give is claimed, and checked, when its mechanism is registered.
    """
    if kind.family in FAMILIES:
        raise InvalidArgument(f"There is a law {kind.family!r} already: choose another family.", argument="kind")
    FAMILIES[kind.family] = kind
    return kind


def law_from_dict(entries: Mapping[str, object]) -> Law:
    """The law written by `to_dict`; anything missing, unknown or out of its domain is refused by name."""
    if not isinstance(entries, Mapping):
        raise refusal("law", "a law is written as a mapping with a 'family'")
    family = entries.get("family")
    found = FAMILIES.get(family) if isinstance(family, str) else None
    if found is None:
        raise refusal("family", f"the noise family must be one of {', '.join(FAMILIES)}")
    kind = cast("type[Any]", found)
    expected = {entry.name for entry in fields(kind) if entry.init}
    if set(entries) != expected | {"family"}:
        raise refusal("law", f"a {family} law has exactly the entries family, {', '.join(sorted(expected))}")
    return cast(Law, kind(**{name: entries[name] for name in expected}))


# ---- what a formula may ask of a law ----


def wrong_form(law: Law, form: Form) -> Unsupported:
    """What is said to a law that publishes something else than is read."""
    return Unsupported(
        f"The law {law.family!r} publishes {law.form.value}; here only {form.value} can be read.", law=law.family
    )


def additive_law(law: Law) -> AdditiveLaw:
    """The law as noise of a public scale on numbers; other forms are refused."""
    if not isinstance(law, AdditiveLaw):
        raise wrong_form(law, Form.NUMBER)
    return law


def smooth_law(law: Law) -> SmoothLaw:
    """The law as noise of a secret scale; other forms are refused."""
    if not isinstance(law, SmoothLaw):
        raise wrong_form(law, Form.SCALED)
    return law


def normal_mixture(law: Law) -> NormalMixture:
    """The law as normal noise with a fixed or an exponential variance: what the closed formulas are written for."""
    found = additive_law(law).mixture()
    if found is None:
        raise Unregistered(
            f"The law {law.family!r} is neither normal nor Laplace noise (its `mixture()` is None), and this formula "
            "is closed for those two alone. One sum or one count under it can be learnt from; or give the law its "
            "`mixture()`.",
            law=law.family,
            piece="mixture",
        )
    return found


def smooth_shape(law: Law) -> SmoothShape:
    """The continuous law behind noise of a secret scale: Laplace or Cauchy, or a refusal."""
    found = smooth_law(law).shape()
    if found is None:
        raise Unregistered(
            f"The law {law.family!r} is neither Laplace nor Cauchy noise (its `shape()` is None), and this formula is "
            "written for those two alone.",
            law=law.family,
            piece="shape",
        )
    return found
