"""Which structure the same releases speak for: evidence, by Laplace's approximation at each model's `map` fit.

    log p(y | model) = log N(y; n W mu, n W Sigma W' + noise) - |theta|^2/2 tau^2 - 1/2 sum_i log(1 + tau^2 lambda_i)
at the mode and the width tau that `map` learns (empirical_bayes). Every model is asked about the same published cells,
those of its cliques and any others, so the numbers can be compared: a difference of 3 is odds of 20 to 1 where the
models were equally likely before. It is approximate, most of all where the releases are weak.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noisewise.errors import InvalidArgument
from noisewise.graphical import empirical_bayes
from noisewise.graphical.observed import WEAK, observe

if TYPE_CHECKING:
    from noisewise.graphical.model import GraphicalModel

__all__ = ["Compared", "Comparison", "compare"]


@dataclass(frozen=True, slots=True)
class Compared:
    """One model: its log evidence, how far that is from the best, and the parameters that the releases determine."""

    name: str
    log_evidence: float
    behind: float
    effective: float
    potentials: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Models by their evidence, the best first."""

    ranking: tuple[Compared, ...]
    note: str = ""

    @property
    def best(self) -> str:
        return self.ranking[0].name

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Plain data, one row a model."""
        return [{name: getattr(one, name) for name in Compared.__slots__} for one in self.ranking]

    def __str__(self) -> str:
        table = [["model", "log evidence", "behind", "effective", "potentials"]]
        table += [
            [one.name, f"{one.log_evidence:.1f}", f"{one.behind:.1f}", f"{one.effective:.1f}", str(one.potentials)]
            for one in self.ranking
        ]
        widths = [max(len(row[k]) for row in table) for k in range(5)]
        lines = ["  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
                 for row in table]  # fmt: skip
        return "\n".join([*lines, *([self.note] if self.note else [])])


def compare(releases: object, models: object, *, n: object = None) -> Comparison:
    """The models ranked by their evidence."""
    named = _named(models)
    found, notes = [], []
    for name, model in named.items():
        observed = observe(model, releases, n=n)
        fit = empirical_bayes.fit(observed.problem)
        found.append((name, model, fit))
        notes += [f"{name}: {note}" for note in fit.notes]
        if not observed.problem.engine.is_exact:
            notes.append(f"{name} is computed approximately, by loopy belief propagation.")
        if observed.is_weak and not any("weak" in note for note in notes):
            notes.append(f"The releases are weak ({observed.strength:.0f}, below {WEAK:.0f}): differences are rough.")
    best = max(fit.log_evidence for _, _, fit in found)
    ranking = sorted(
        (Compared(name, fit.log_evidence, best - fit.log_evidence, fit.effective, model.parameters)
         for name, model, fit in found),
        key=lambda one: one.behind,
    )  # fmt: skip
    return Comparison(tuple(ranking), " ".join(notes))


def _named(models: object) -> dict[str, GraphicalModel]:
    from noisewise.graphical.model import GraphicalModel

    given: Any = models
    if isinstance(models, Sequence) and not isinstance(models, str):
        names = [repr(model) for model in models]
        unique = names if len(set(names)) == len(names) else [f"{k}. {name}" for k, name in enumerate(names, 1)]
        given = dict(zip(unique, models, strict=True))
    if not isinstance(given, Mapping) or not given or not all(isinstance(m, GraphicalModel) for m in given.values()):
        raise InvalidArgument("models must be a list of GraphicalModels, or a mapping from names to them.",
                              argument="models")  # fmt: skip
    if len({frozenset(model.columns) for model in given.values()}) > 1:
        raise InvalidArgument(
            "The models have different columns, so they do not describe the same records. Give a column that is on its "
            "own a clique of its own.",
            argument="models",
        )
    return {str(name): model for name, model in given.items()}
