"""How far an answer can be trusted: one verdict, over whatever evidence there is.

    Chains             draws of chains: R-hat, effective sizes, chains that stood still or met a non-finite density
    IndependentDraws   by quadrature or a closed form: nothing to converge; only the density itself can be at fault
    WeightedDraws      by importance sampling: how many proposals the draws are worth, and whether one outweighs them
    Particles          of a survey: how many are effective, and whether they still move
    PointEstimate      no draws to judge
    HighestPoint       a point that is the top of a likelihood or of a posterior density
    Words              what was said, where nothing else was kept
Evidence is plain data that says whether it holds (`is_converged`) and says so in a sentence. A `Verdict` is evidence
with the sentences that stand before it (`warnings`: why the numbers may not be what they seem) and after it (`notes`:
what was assumed). `KINDS` names every evidence in a saved file.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from noisewise.printable import printable

__all__ = [
    "KINDS",
    "Chains",
    "Evidence",
    "HighestPoint",
    "IndependentDraws",
    "Particles",
    "PointEstimate",
    "Verdict",
    "WeightedDraws",
    "Words",
    "joined_verdict",
]

RHAT_LIMIT = 1.01
ESS_A_CHAIN = 100
# A chain that repeats itself for this share of its draws (and this many) has been caught somewhere.
STUCK_SHARE, STUCK_DRAWS = 0.1, 20
OWN_LAW, CENTRAL_LIMIT_LAW = "the release's own law", "the central limit law"
TOLERANCE = 1e-8  # error of a quadrature that is not worth telling
TOO_ROUGH = 1e-3  # error of a quadrature whose draws are not to be used
STILL_CLIMBING = 0.05  # standard errors between a point and the top
HEAVY = 0.02  # of all the weight on one proposal: the proposals missed something
HARDLY = 0.05  # share of accepted moves below which particles stand still


class Evidence(Protocol):
    """What a verdict rests on."""

    kind: ClassVar[str]
    are_independent: ClassVar[bool]

    @property
    def draws(self) -> int: ...
    @property
    def rhat(self) -> float: ...
    @property
    def smallest_ess(self) -> float: ...
    @property
    def is_converged(self) -> bool: ...
    def sentence(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Chains:
    """Draws of chains, which are counted from 1."""

    kind: ClassVar[str] = "chains"
    are_independent: ClassVar[bool] = False

    rhat: float
    smallest_ess: float
    worst: str | None
    draws: int
    chains: int
    non_finite: tuple[int, ...]
    warmup_non_finite: tuple[int, ...]
    longest_standstill: tuple[int, ...]

    @property
    def has_mixed(self) -> bool:
        return self.rhat <= RHAT_LIMIT and self.smallest_ess >= ESS_A_CHAIN * self.chains

    @property
    def stuck(self) -> tuple[int, ...]:
        """The chains that repeated one position for a tenth of their draws or more."""
        limit = max(STUCK_DRAWS, STUCK_SHARE * self.draws / self.chains)
        return tuple(k for k, still in enumerate(self.longest_standstill, 1) if still >= limit)

    @property
    def is_converged(self) -> bool:
        return self.has_mixed and not self.stuck and not any(self.non_finite)

    def sentence(self) -> str:
        parts = (self._non_finite_sentence(), self._stuck_sentence(), self._mixing_sentence(), self._warmup_sentence())
        return " ".join(part for part in parts if part)

    def _non_finite_sentence(self) -> str:
        bad = [k for k, count in enumerate(self.non_finite, 1) if count]
        if not bad:
            return ""
        count = sum(self.non_finite)
        return f"{count} of {self.draws} steps met a non-finite density; {_chains(bad)} should be run again."

    def _stuck_sentence(self) -> str:
        if not self.stuck:
            return ""
        still, steps = max(self.longest_standstill), self.draws // self.chains
        return (
            f"{_chains(self.stuck).capitalize()} stood still for up to {still} of {steps} steps and should be run "
            "again, longer or with another method."
        )

    def _mixing_sentence(self) -> str:
        size = f"smallest ESS {self.smallest_ess:.0f} of {self.draws}"
        if self.is_converged:
            return f"Converged: R-hat {self.rhat:.2f}, {size}."
        if self.has_mixed:
            return ""
        place = "" if self.worst is None else f" ({self.worst})"
        return f"Not converged: R-hat {self.rhat:.3f}, {size}{place}. Ask for more draws and a longer warm-up."

    def _warmup_sentence(self) -> str:
        count = sum(self.warmup_non_finite)
        return f"{count} warm-up steps met a non-finite density and were rejected." if count else ""


@dataclass(frozen=True, slots=True)
class IndependentDraws:
    """Independent draws: there is nothing to converge; only the density itself can be at fault."""

    kind: ClassVar[str] = "independent"
    are_independent: ClassVar[bool] = True

    draws: int
    chains: int
    error: float  # of the quadrature, in units of the whole mass
    evaluations: int
    non_finite: tuple[int, ...]
    rhat: float
    smallest_ess: float
    by: str = "quadrature"
    humps: int = 1  # separate ones, each with a share of the mass worth telling
    law: str = ""  # of the release, as the likelihood takes it: OWN_LAW, CENTRAL_LIMIT_LAW, or not told

    @property
    def is_converged(self) -> bool:
        return not any(self.non_finite) and self.error < TOO_ROUGH

    def sentence(self) -> str:
        count = sum(self.non_finite)
        if count:
            return (
                f"{count} of {self.evaluations} evaluations of the density were not finite and were left out; "
                "do not trust these draws before the reason is known."
            )
        if not self.is_converged:
            return (
                f"The density is too rough for quadrature (error {self.error:.0e} after {self.evaluations} "
                "evaluations); compare with method='slice'."
            )
        error = f" (error {self.error:.0e})" if self.error > TOLERANCE else ""
        if self.law == OWN_LAW:
            words = f"Exact: {self.draws} independent draws by {self.by}{error}."
        else:
            under = f" under {self.law}" if self.law else ""
            words = f"Computed by {self.by}{under}: {self.draws} independent draws{error}."
        if self.humps > 1:
            words += f" The posterior has {self.humps} separate humps: look at the plot, not at the mean."
        return words


@dataclass(frozen=True, slots=True)
class WeightedDraws:
    """Draws taken from weighted proposals in proportion to their weights, so that all of them count the same."""

    kind: ClassVar[str] = "weighted"
    are_independent: ClassVar[bool] = True

    draws: int
    chains: int
    proposals: int
    effective: float  # (sum w)^2 / sum w^2
    largest: float  # share of the weight on one proposal
    rhat: float

    @property
    def smallest_ess(self) -> float:
        """Of the draws: the error of the weights and that of drawing from them add up."""
        return 1 / (1 / self.draws + 1 / self.effective)

    @property
    def is_converged(self) -> bool:
        return self.effective >= ESS_A_CHAIN * self.chains and self.largest <= HEAVY

    def sentence(self) -> str:
        size = f"{self.effective:.0f} of {self.proposals} proposals effective"
        if self.is_converged:
            return f"Computed by importance sampling: {size}, {self.draws} draws worth {self.smallest_ess:.0f}."
        heavy = f", one of them with {self.largest:.0%} of the weight" if self.largest > HEAVY else ""
        return f"Not converged: {size}{heavy}. Ask for method='auto', which takes chains where weights are uneven."


@dataclass(frozen=True, slots=True)
class Particles:
    """The particles of a survey."""

    kind: ClassVar[str] = "particles"
    are_independent: ClassVar[bool] = False
    rhat: ClassVar[float] = math.nan

    particles: int
    effective: float
    answers: int
    rejuvenations: int
    acceptance: float  # of the last moves; NaN before the first
    non_finite: int

    @property
    def draws(self) -> int:
        return self.particles

    @property
    def smallest_ess(self) -> float:
        return self.effective

    @property
    def is_converged(self) -> bool:
        return self.non_finite == 0 and (self.rejuvenations == 0 or self.acceptance > HARDLY)

    def sentence(self) -> str:
        moves = "" if not self.rejuvenations else f", {self.acceptance:.0%} of their last moves accepted"
        words = (
            f"{self.effective:.0f} of {self.particles} particles effective after {self.answers} answers and "
            f"{self.rejuvenations} rejuvenations{moves}."
        )
        if self.non_finite:
            words += f" {self.non_finite} particles met a non-finite density and were left behind."
        if self.rejuvenations and not self.acceptance > HARDLY:
            words += " They hardly move: use more particles."
        return words


@dataclass(frozen=True, slots=True)
class PointEstimate:
    """One value for each parameter: there is nothing to converge, and nothing to judge."""

    kind: ClassVar[str] = "point"
    are_independent: ClassVar[bool] = False
    draws: ClassVar[int] = 1
    rhat: ClassVar[float] = math.nan
    smallest_ess: ClassVar[float] = math.nan
    is_converged: ClassVar[bool] = True

    def sentence(self) -> str:
        return "A point estimate: there are no draws to judge."


@dataclass(frozen=True, slots=True)
class HighestPoint:
    """The highest point of a likelihood or a posterior density, by climbs from several starts."""

    kind: ClassVar[str] = "maximum"
    are_independent: ClassVar[bool] = False
    draws: ClassVar[int] = 1
    rhat: ClassVar[float] = math.nan
    smallest_ess: ClassVar[float] = math.nan

    of: str  # what is highest
    starts: int
    agreeing: int  # climbs that ended at this top
    others: int  # tops elsewhere that are nearly as high
    log_value: float
    distance: float  # of the gradient, in standard errors
    edges: tuple[str, ...] = ()  # unknowns at an end of their support
    flat: tuple[str, ...] = ()  # those along which it is flat

    @property
    def is_converged(self) -> bool:
        return self.distance < STILL_CLIMBING and not self.others

    def sentence(self) -> str:
        words = f"The highest {self.of}: {self.agreeing} of {self.starts} climbs ended there."
        if not self.flat:
            words += (
                " Standard errors are those of its curvature; where Laplace noise outweighs the records they are too "
                "small."
            )
        if self.others:
            words += (
                f" {self.others} other top{'s lie' if self.others > 1 else ' lies'} nearly as high elsewhere, of which "
                "a point and its errors say nothing: use method='exact'."
            )
        if not self.distance < STILL_CLIMBING:
            words += f" The climb has not settled ({self.distance:.1g} standard errors to go)."
        return words


@dataclass(frozen=True, slots=True)
class Words:
    """What was said of draws, where the numbers behind it were not kept."""

    kind: ClassVar[str] = "words"
    are_independent: ClassVar[bool] = False
    draws: ClassVar[int] = 0
    rhat: ClassVar[float] = math.nan
    smallest_ess: ClassVar[float] = math.nan

    text: str = ""
    is_converged: bool = True

    def sentence(self) -> str:
        return self.text


KINDS = {
    made.kind: made for made in (Chains, IndependentDraws, WeightedDraws, Particles, PointEstimate, HighestPoint, Words)
}
OLD_KINDS = {"Verdict": "chains", "IndependentVerdict": "independent", "SavedVerdict": "words"}  # of files of 0.1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an answer is worth: evidence, what is to be said before it and what after it; `str` is all of that."""

    evidence: Evidence
    notes: tuple[str, ...] = ()  # what was assumed, what was passed over
    warnings: tuple[str, ...] = ()  # sentences that stand first: why the numbers may not be what they seem

    @property
    def is_converged(self) -> bool:
        """Whether the computation itself holds, as far as can be told."""
        return self.evidence.is_converged

    @property
    def warns(self) -> bool:
        """Whether a reader should hesitate before using the numbers."""
        return bool(self.warnings) or not self.is_converged

    @property
    def draws(self) -> int:
        return self.evidence.draws

    @property
    def rhat(self) -> float:
        return self.evidence.rhat

    @property
    def smallest_ess(self) -> float:
        return self.evidence.smallest_ess

    def saying(self, *, warnings: Sequence[str] = (), notes: Sequence[str] = ()) -> Verdict:
        """The same with more to say: warnings and notes beside those there are, none of them twice."""
        return Verdict(
            self.evidence,
            notes=tuple(dict.fromkeys((*self.notes, *notes))),
            warnings=tuple(dict.fromkeys((*self.warnings, *warnings))),
        )

    def __str__(self) -> str:
        return " ".join(printable(part) for part in (*self.warnings, self.evidence.sentence(), *self.notes) if part)

    def to_dict(self) -> dict[str, object]:
        """Plain data, for a file."""
        said = {"notes": list(self.notes), "warnings": list(self.warnings)}
        return {"kind": self.evidence.kind, **_fields(self.evidence), **said}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any] | str | None) -> Verdict:
        """The verdict that was written; of 0.1 also its words alone, or nothing."""
        if not isinstance(plain, Mapping):
            return cls(Words(plain or ""))
        entries = {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}
        kind = str(entries.pop("kind"))
        said = {name: tuple(map(str, entries.pop(name, ()))) for name in ("notes", "warnings")}
        make: Callable[..., Evidence] = KINDS[OLD_KINDS.get(kind, kind)]
        return cls(make(**entries), **said)


def joined_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on draws of unknowns that are independent of each other: the worst of theirs."""
    direct = [one.evidence for one in verdicts if isinstance(one.evidence, IndependentDraws)]
    walked = [one.evidence for one in verdicts if isinstance(one.evidence, Chains)]
    lost = sum(sum(one.non_finite) for one in direct)
    worst_rhat, fewest = max(one.rhat for one in verdicts), min(one.smallest_ess for one in verdicts)
    evidence: Evidence
    if not walked:
        laws = {one.law for one in direct}
        evidence = dataclasses.replace(
            direct[0],
            error=max(one.error for one in direct),
            evaluations=sum(one.evaluations for one in direct),
            non_finite=(lost,) if lost else (),
            by=" and ".join(dict.fromkeys(one.by for one in direct)),
            humps=max(one.humps for one in direct),
            law=laws.pop() if len(laws) == 1 else CENTRAL_LIMIT_LAW,
            rhat=worst_rhat,
            smallest_ess=fewest,
        )
    else:
        worst = max(walked, key=lambda one: one.rhat)
        longest = [max(each) for each in zip(*(one.longest_standstill for one in walked), strict=False)]
        evidence = dataclasses.replace(
            worst,
            non_finite=(lost + sum(sum(one.non_finite) for one in walked), *(0,) * (worst.chains - 1)),
            longest_standstill=tuple(longest),
            rhat=worst_rhat,
            smallest_ess=fewest,
        )
    notes = tuple(dict.fromkeys(note for one in verdicts for note in one.notes))
    return Verdict(evidence, notes, tuple(dict.fromkeys(warning for one in verdicts for warning in one.warnings)))


def _fields(evidence: Evidence) -> dict[str, object]:
    return {field.name: getattr(evidence, field.name) for field in dataclasses.fields(KINDS[evidence.kind])}


def _chains(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"chain {numbers[0]}"
    return f"chains {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
