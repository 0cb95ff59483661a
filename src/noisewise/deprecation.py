"""Arguments that were once taken by their place and are now given by name; the standard library only.

A swap of two arguments would be a bug, above all a privacy bug, so a guarantee is given by name. Code that still gives
it by its place works, with a `DeprecationWarning` that says what to write.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


def by_name(argument: str, *, write: str, places: tuple[str, ...]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Take `argument`, now keyword-only, at its old place too, with a warning that shows how to `write` the call.

    `places` names the arguments in their old order, as far as they could be given by place (self or cls included).
    """
    first = places.index(argument)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def called(*given: object, **named: object) -> R:
            if len(given) <= first:
                return cast(Callable[..., R], function)(*given, **named)
            late = dict(zip(places[first:], given[first:], strict=False))
            twice = [name for name in late if name in named]
            if len(given) > len(places) or twice:
                asked = f"got {twice[0]!r} twice" if twice else f"takes {len(places)} places, not {len(given)}"
                raise TypeError(f"{function.__qualname__}() {asked}; write {write}.")
            warnings.warn(
                f"Give {argument} by its name: {write}. By its place it is taken until version 1.0.",
                DeprecationWarning,
                stacklevel=2,
            )
            return cast(Callable[..., R], function)(*given[:first], **named, **late)

        return cast(Callable[P, R], called)

    return decorate
