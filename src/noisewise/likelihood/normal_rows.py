"""Which rows of an exact law kept the normal law's value, and whether that could show in a posterior.

An exact law of a sum has parameters at which it would cost too much, and gives them the central limit theorem's value.
That is told where such a row comes within e^-10 of the best row that was seen: the posterior may have mass there.
"""

from __future__ import annotations

import numpy as np

from noisewise.populations.parameters import Array

__all__ = ["NormalRows"]

SEEN = 10.0


class NormalRows:
    """The best log-likelihood so far, over all rows and over those by the central limit theorem."""

    def __init__(self) -> None:
        self.best, self.best_normal = -np.inf, -np.inf

    def add(self, log_likelihood: Array, is_normal: Array) -> None:
        """Rows (K,) that were evaluated, and which of them are normal."""
        self.best = float(np.nanmax(log_likelihood, initial=self.best))
        self.best_normal = float(np.nanmax(log_likelihood[np.asarray(is_normal, bool)], initial=self.best_normal))

    @property
    def matter(self) -> bool:
        return self.best_normal > -np.inf and self.best_normal > self.best - SEEN

    def words(self) -> str:
        """What `because` adds; empty where no such row could be seen."""
        if not self.matter:
            return ""
        which = "the most likely" if self.best_normal >= self.best else "some likely"
        return f"; but at {which} parameters the central limit theorem, as the exact law would cost too much there"
