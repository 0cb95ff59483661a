"""The exponential mechanism's law of a private quantile."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from noisewise import exact
from noisewise.laws.numbers import Floats, power_of_two
from noisewise.laws.protocol import Form, Law, register_law, wrong_form


@register_law
@dataclass(frozen=True, slots=True)
class ExponentialQuantile:
    """P(lattice point y) proportional to exp(-epsilon/2 |#{x_i < y} - q n|); it has no pmf without the records."""

    epsilon: Fraction
    step: float
    family: ClassVar[str] = "exponential"
    mechanism: ClassVar[str] = "exponential"
    form: ClassVar[Form] = Form.POINT

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact.fraction(self.epsilon, "epsilon", positive=True))
        object.__setattr__(self, "step", power_of_two(self.step, "step"))

    def to_dict(self) -> dict[str, object]:
        return {"family": self.family, "epsilon": str(self.epsilon), "step": self.step}

    def read(self, values: Floats) -> Floats:
        return values * self.step

    def share_of_noise(self, due: ExponentialQuantile) -> float:
        return float(self.epsilon <= due.epsilon)

    def smaller(self, factor: Fraction) -> ExponentialQuantile:
        return ExponentialQuantile(self.epsilon / factor, self.step)

    def brief(self) -> str:
        return "a point near the quantile, by the exponential mechanism"

    def words(self) -> str:
        return "a point near the quantile, by the exponential mechanism: its chance depends on the records beside it."


def quantile_law(law: Law) -> ExponentialQuantile:
    """The law as that of a private quantile; other forms are refused."""
    if not isinstance(law, ExponentialQuantile):
        raise wrong_form(law, Form.POINT)
    return law
