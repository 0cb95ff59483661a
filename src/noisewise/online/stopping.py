"""When to stop, and how many answers that will take.

    Stop.read("90 % interval of the mean below 2")       the rule in words, as a spec file has it
    stop.width_of(engine, state)                         how wide that interval is now
    forecast(engine, state, stop)                        about how many more answers it will take

Stopping by what is known is no trick here: the posterior given the answers is the same whatever rule ended them.

The forecast counts the information of the questions that the survey would ask now. With C the particles' covariance on
the walking scale and F the mean information of one answer over the next few questions, m more answers leave about
    (C^-1 + m F)^-1,
and the interval shrinks with the standard deviation of the parameter in it. It is a forecast: questions get better as
more is known, and what is known may turn out to be wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.exact import fraction
from noisewise.online import particles as smc
from noisewise.online.answer_information import informations, parameter_slopes, stencil, units
from noisewise.online.engine import Engine, State
from noisewise.printable import shown
from noisewise.types import Floats

__all__ = ["Stop", "forecast"]

WORDS = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*interval of (?:the )?([A-Za-z_][\w.]*) below (\S+)\s*")
QUESTIONS = 16
MOST = 10**9


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop once the central interval of a parameter is narrower than `width`, in the parameter's unit."""

    parameter: str
    width: float
    level: float = 0.9

    def __post_init__(self) -> None:
        width = float(fraction(self.width, "width", positive=True))
        level = float(fraction(self.level, "level", positive=True))
        if not level < 1:
            raise InvalidArgument(f"level = {level}; an interval holds a share below 1.", argument="level")
        object.__setattr__(self, "width", width)
        object.__setattr__(self, "level", level)

    @classmethod
    def read(cls, text: str) -> Stop:
        """The rule from its words."""
        found = WORDS.fullmatch(text)
        if found is None:
            raise InvalidArgument(
                f"A closing rule reads like '90 % interval of the mean below 2', not {shown(text, 80)}.",
                argument="close",
            )
        percent, parameter, width = found.groups()
        return cls(parameter, float(fraction(width, "close", positive=True)), float(percent) / 100)

    def __str__(self) -> str:
        return f"{100 * self.level:g} % interval of the {self.parameter} below {self.width:g}"

    def check(self, engine: Engine) -> None:
        """Refuse a rule about what this survey does not learn."""
        free = [name for name, support in engine.target.transform.supports.items() if support.size is None]
        if self.parameter not in free:
            raise InvalidArgument(
                f"A closing rule is about a number this survey learns ({', '.join(free) or 'there is none'}), not "
                f"{self.parameter!r}.",
                argument="parameter",
            )

    def width_of(self, engine: Engine, state: State) -> float:
        """How wide the interval is now."""
        self.check(engine)
        values = engine.target.parameters(state.particles.position)[self.parameter]
        ranked = np.argsort(values)
        share = np.cumsum(smc.weights(state.particles.log_weight)[ranked])
        ends = np.searchsorted(share, [0.5 * (1 - self.level), 0.5 * (1 + self.level)])
        low, high = np.asarray(values)[ranked[np.minimum(ends, len(ranked) - 1)]]
        return float(high - low)

    def is_met(self, engine: Engine, state: State) -> bool:
        """Whether the interval is narrow enough, after a few answers at least."""
        return state.answers > 0 and self.width_of(engine, state) < self.width


def forecast(engine: Engine, state: State, stop: Stop) -> int | None:
    """About how many more answers it will take; 0 where the rule is met, None where no number will do."""
    width = stop.width_of(engine, state)
    if width < stop.width:
        return 0
    weight = smc.weights(state.particles.log_weight)
    position = weight @ state.particles.position
    covariance = smc.covariance(state.particles)
    known = np.linalg.inv(covariance)
    each = _information(engine, state, position)
    slope = _slope(engine, position, stop.parameter)

    def sd(more: float) -> float:
        return float(np.sqrt(slope @ np.linalg.solve(known + more * each, slope)))

    wanted = sd(0) * stop.width / width
    if not sd(MOST) < wanted:
        return None
    low, high = 0.0, 1.0
    while sd(high) >= wanted:
        low, high = high, 2 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if sd(middle) >= wanted else (low, middle)
    return int(np.ceil(high))


def _information(engine: Engine, state: State, position: Floats) -> Floats:
    """The mean information of one answer, on the walking scale, over questions as they would be asked now."""
    questions = [engine.question(state, state.answers + k) for k in range(QUESTIONS)]
    total = np.zeros((position.size, position.size))
    for part in engine.law.parts.values():
        asked = [question for question in questions if question.column == part.column]
        if asked:
            places, transform = engine.law.coordinates(part)
            own = position[places]
            unit = units(part.law, transform, own)
            around = stencil(part.law, transform, own, np.diag(unit))
            found = informations(part.law, asked, around).sum(axis=0) / np.outer(unit, unit)
            total[np.ix_(places, places)] += found
    return total / len(questions)


def _slope(engine: Engine, position: Floats, parameter: str) -> Floats:
    """How one scalar parameter moves with the coordinates."""
    sizes = {name: support.size or 1 for name, support in engine.target.transform.supports.items()}
    before = list(sizes)[: list(sizes).index(parameter)]
    return np.asarray(parameter_slopes(engine.target.transform, position)[sum(sizes[name] for name in before)])
