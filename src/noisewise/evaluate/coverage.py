"""How often intervals cover what they claim to, with the exact uncertainty of a finite number of trials.

If an interval at level p is right, the number of m trials it covers is Binomial(m, p). `band` is the Clopper–Pearson
interval for the true coverage; `p_value` is the exact two-sided test of the claim. Neither rests on a normal law.
"""

from __future__ import annotations

from dataclasses import dataclass

from noisewise.errors import InvalidArgument
from noisewise.exact import integer

LEVELS = (0.5, 0.9, 0.95)
CONFIDENCE = 0.99


@dataclass(frozen=True, slots=True)
class Coverage:
    """`covered` of `trials` intervals at `level` held the true value."""

    level: float
    covered: int
    trials: int

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise InvalidArgument(f"level = {self.level!r} must lie between 0 and 1.", argument="level")
        integer(self.trials, "trials", minimum=1)
        if integer(self.covered, "covered", minimum=0) > self.trials:
            raise InvalidArgument(f"covered = {self.covered} is more than {self.trials} trials.", argument="covered")

    @property
    def share(self) -> float:
        return self.covered / self.trials

    @property
    def p_value(self) -> float:
        """The probability of a count at least as unlikely, if intervals cover as they claim."""
        from scipy.stats import binomtest

        return float(binomtest(self.covered, self.trials, self.level).pvalue)

    def band(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Where the true coverage lies, with the given confidence (Clopper & Pearson 1934)."""
        from scipy.stats import binomtest

        found = binomtest(self.covered, self.trials).proportion_ci(confidence, method="exact")
        return float(found.low), float(found.high)

    def __str__(self) -> str:
        low, high = self.band()
        return f"{self.share:.3f} ({low:.3f} to {high:.3f})"
