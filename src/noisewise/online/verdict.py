"""How far the particles of a survey can be trusted, in numbers and in a sentence."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SurveyVerdict"]


@dataclass(frozen=True, slots=True)
class SurveyVerdict:
    """How far the particles can be trusted."""

    particles: int
    effective: float
    answers: int
    rejuvenations: int
    acceptance: float
    non_finite: int

    @property
    def is_converged(self) -> bool:
        return self.non_finite == 0 and (self.rejuvenations == 0 or self.acceptance > 0.05)

    def __str__(self) -> str:
        moves = "" if not self.rejuvenations else f", {self.acceptance:.0%} of their last moves accepted"
        words = (
            f"{self.effective:.0f} of {self.particles} particles effective after {self.answers} answers and "
            f"{self.rejuvenations} rejuvenations{moves}."
        )
        if self.non_finite:
            words += f" {self.non_finite} particles met a non-finite density and were left behind."
        if self.rejuvenations and not self.acceptance > 0.05:
            words += " They hardly move: use more particles."
        return words
