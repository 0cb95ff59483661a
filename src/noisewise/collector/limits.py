"""How much one visitor may ask: so many requests a minute, remembered only in memory and under a changing name.

An address is hashed with a salt that lives for a few minutes in this process alone, so what is remembered cannot be
turned into an address later, nor joined with what another process, or the same one before, remembered.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable

__all__ = ["Limiter"]

SALT_SECONDS = 300.0
MOST_REMEMBERED = 100_000


class Limiter:
    """A bucket for each visitor: `rate` a minute, all of them at once if need be."""

    def __init__(self, rate: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self._clock = rate, clock
        self._forget()

    def _forget(self) -> None:
        self._salt, self._begun = secrets.token_bytes(16), self._clock()
        self._left: dict[bytes, tuple[float, float]] = {}

    def admits(self, visitor: str) -> bool:
        """Whether this visitor may go on; whoever may not is not counted."""
        now = self._clock()
        if now - self._begun > SALT_SECONDS or len(self._left) > MOST_REMEMBERED:
            self._forget()
        name = hashlib.blake2b(visitor.encode("utf-8", "surrogatepass"), key=self._salt, digest_size=16).digest()
        left, at = self._left.get(name, (float(self.rate), now))
        left = min(self.rate, left + (now - at) * self.rate / 60)
        if left < 1:
            self._left[name] = left, now
            return False
        self._left[name] = left - 1, now
        return True
