"""Methods by name: one registry for populations and for every model.

A `Method` says how it is called, what it is in words, whether its answer is a point, which options it takes (each with
its default and a check), and where its function is: `load` imports it by a statement of its own when it is first asked
for, so that naming a method costs nothing and every import can be seen. What else a room knows of its methods it adds
in a subclass. `Methods` is the list of one kind of model; a method that is registered is there in every sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from noisewise.errors import InvalidArgument
from noisewise.inference.verdict import Verdict
from noisewise.printable import shown
from noisewise.types import Floats

__all__ = ["AUTO", "Found", "Method", "Methods", "Option"]


AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a method: its name, its default, and what reads a given value or refuses it (None: taken as is)."""

    name: str
    default: object = None
    check: Callable[[object, str], object] | None = None

    def read(self, value: object) -> object:
        """The value as the method takes it; a sentence that names the option where it cannot be meant."""
        return value if self.check is None else self.check(value, self.name)


@dataclass(frozen=True, slots=True)
class Method:
    """How a method is called, where its function is, and what it takes."""

    name: str
    load: Callable[[], Callable[..., Any]]
    words: str = ""
    options: tuple[Option, ...] = ()
    is_point: bool = False

    @property
    def run(self) -> Callable[..., Any]:
        """The function, imported by now."""
        return self.load()

    def read(self, given: Mapping[str, object]) -> dict[str, object]:
        """The options that were given, checked; a sentence for one that this method does not take."""
        known = {option.name: option for option in self.options}
        if unknown := sorted(set(given) - set(known)):
            there = f"it takes {', '.join(known)}" if known else "it takes none"
            raise InvalidArgument(
                f"{unknown[0]!r} is not an option of method={self.name!r}; {there}.", argument=unknown[0]
            )
        return {name: known[name].read(value) for name, value in given.items()}


M = TypeVar("M", bound=Method)


class Methods(Generic[M]):
    """The methods of one kind of model, in the order in which they are listed; `instead` is one that has a spread."""

    def __init__(self, subject: str, *methods: M, instead: str) -> None:
        self.subject, self.instead = subject, instead
        self._known: dict[str, M] = {}
        for method in methods:
            self.register(method)

    def register(self, method: M) -> None:
        """Add a method under a name that is not taken."""
        if method.name in self._known or method.name == AUTO:
            raise InvalidArgument(f"There is a method {method.name!r} for {self.subject} already.", argument="method")
        self._known[method.name] = method

    def __getitem__(self, name: object) -> M:
        """The method of that name, or a sentence that lists them."""
        if not isinstance(name, str) or name not in self._known:
            raise InvalidArgument(
                f"method = {shown(name, 40)}: for {self.subject} there are {AUTO}, {', '.join(self._known)}.",
                argument="method",
            )
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __len__(self) -> int:
        return len(self._known)

    def values(self) -> list[M]:
        """Every method, in order."""
        return list(self._known.values())

    def items(self) -> list[tuple[str, M]]:
        """Every method by its name, in order."""
        return list(self._known.items())


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What a method found: draws by name (chains, draws, ...), how, under which law, and how far to trust them."""

    draws: Mapping[str, Floats]
    method: str
    how: str
    law: str
    verdict: Verdict
    likelihood: str = ""  # where it is another than the one asked for
    is_point: bool = False
    log_evidence: float | None = None
    moments: Mapping[str, tuple[Any, Any]] | None = None
    energy: Floats | None = None
    covariance: Floats | None = None  # of a point's position on the real line
    described: object = None  # the model, where what was observed completed it (which groups there are)
