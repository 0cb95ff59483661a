"""The next question: the one whose answer is worth most, at a draw of theta from the posterior (Thompson sampling).

With the particles' covariance C (the prior included, nothing recomputed) and F(q) the information of one answer to q,
the question with the best score of F and C is asked (`scores`).
For a location-scale population F scales with the draw (m, c): a question [m + a c, m + b c] has F(a, b) of the base in
the coordinates (m/c, log c), so candidates are judged once and moved to each draw (Yıldırım 2024, Theorem 3). Other
populations are judged at the draw, and the judgement is kept for draws nearby.

Draws are rounded to a public grid, one posterior spread apart at first and 1/64 of the spread that one answer is worth
later: no more than a draw's own spread, and few distinct questions are left, so that answers can be summed. The spread
is that of the middle 68 % of the particles: the standard deviation of a heavy tail would put all draws on one point.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from noisewise.errors import Unsupported
from noisewise.inference.transform import Transform
from noisewise.online.answer_information import informations, stencil, units
from noisewise.online.answer_law import AnswerLaw
from noisewise.online.asked import Asked
from noisewise.online.candidates import NARROWEST, candidates, quantiles
from noisewise.online.interval import best_on_base
from noisewise.online.scores import Score
from noisewise.populations.parameters import Array
from noisewise.privacy.guarantee import Guarantee

__all__ = ["Choice", "Design", "grid_steps", "law_identity"]

FINEST, COARSEST = 1.0, 1 / 64
FINEST_NOISE = 2e-8  # of a location: finer noise cannot be added exactly
SMALLEST = 1e-100
MOST_TABLES, MOST_BASES = 512, 64
REFERENCES = 64  # draws of the prior
_BASES: dict[Hashable, Table] = {}


class Table(NamedTuple):
    """Candidate questions and the information of each."""

    questions: tuple[Asked, ...]
    information: Array  # (M, P, P)
    finest: Array  # (M,): the least scale, as a share of the location, at which doubles can still hold the question


class Place(NamedTuple):
    """Location and scale (no finer than doubles can tell) at a position, and the slopes of (loc/scale, log scale)."""

    loc: float
    scale: float
    slopes: Array  # (moving, size)


class Choice(NamedTuple):
    """The best question and its score."""

    asked: Asked
    value: float


class Design:
    """Chooses questions for one population, guarantee and score."""

    def __init__(
        self,
        law: AnswerLaw,
        guarantee: Guarantee,
        transform: Transform,
        *,
        families: tuple[str, ...],
        fixed: Sequence[Asked],
        score: Score,
    ) -> None:
        self.law, self.guarantee, self.transform = law, guarantee, transform
        self.families, self.fixed, self.score = families, tuple(fixed), score
        self.tables: dict[tuple[float, ...], Table] = {}
        self.is_one = not families and len(self.fixed) == 1
        self.reference = _reference(law, transform)
        self.moving = _moving(law, transform, self.reference)
        self.base = self._base() if self.moving and families else None

    def choose(self, position: Array, covariance: Array) -> Asked:
        """The best question at one position (size,), given the particles' covariance."""
        return self.fixed[0] if self.is_one else self.best(position, covariance).asked

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to ask."""
        return not self.families and not self.fixed

    def best(self, position: Array, covariance: Array) -> Choice:
        """The best question with its score."""
        placed: list[tuple[Asked, ...]] = []
        found: list[Array] = []
        place = _place(self.law, self.transform, position, self.moving) if self.base is not None else None
        if self.base is not None and place is not None:
            placed.append(self.base.questions)
            found.append(place.slopes.T @ self.base.information @ place.slopes)
        if self.base is None or self.fixed:
            table = self._at(position)
            placed.append(table.questions)
            found.append(table.information)
        scores = self.score.values(np.concatenate(found), self.transform, position, covariance)
        if self.base is not None and place is not None:
            is_lost = self.base.finest * abs(place.loc) > place.scale
            if not is_lost.all():
                scores[: is_lost.size][is_lost] = -np.inf
        best = _best(scores, np.concatenate(found))
        if self.base is not None and place is not None and best < len(placed[0]):
            moved = _moved(placed[0][best], place, float(self.base.finest[best]))
            return Choice(moved, float(scores[best]))
        return Choice([question for part in placed for question in part][best], float(scores[best]))

    def _base(self) -> Table:
        """Candidates judged once, at the reference, in the base's own units."""
        key = (
            law_identity(self.law),
            tuple(self.transform.supports.items()),
            self.guarantee,
            self.families,
            self.score.name,
        )
        if key not in _BASES:
            if len(_BASES) >= MOST_BASES:
                _BASES.clear()
            _BASES[key] = self._judged_base()
        return _BASES[key]

    def _judged_base(self) -> Table:
        reference = self.reference
        assert reference is not None
        place = _place(self.law, self.transform, reference, self.moving)
        quantile = quantiles(self.law.population, self.transform.parameters(reference[None, :]))
        directions = np.asarray(np.linalg.inv(place.slopes).T, np.float64)
        around = stencil(self.law, self.transform, reference, directions)
        questions: list[Asked] = []
        for family in self.families:
            questions += candidates(family, self.guarantee, quantile, is_discrete=False)
        if "clip" in self.families and len(self.moving) == 2:
            best = best_on_base(self.law, self.guarantee, around, (place.loc, place.scale), self.score.name)
            questions += best
        found = informations(self.law, questions, around)
        standard = tuple(_standard(question, place) for question in questions)
        finest = [NARROWEST if question.is_cells else FINEST_NOISE / question.noise for question in standard]
        return Table(standard, found, np.array(finest))

    def _at(self, position: Array) -> Table:
        """Candidates judged at a position, kept for the next draw that is rounded to it."""
        key = tuple(position.tolist())
        if key in self.tables:
            return self.tables[key]
        quantile = quantiles(self.law.population, self.transform.parameters(position[None, :]))
        unit = units(self.law, self.transform, position)
        around = stencil(self.law, self.transform, position, np.diag(unit))
        questions = list(self.fixed)
        for family in self.families if self.base is None else ():
            is_discrete = self.law.population.is_discrete
            laid = candidates(family, self.guarantee, quantile, is_discrete=is_discrete)
            questions += [asked for asked in laid if _has_law(self.law, asked)]
        if not questions:
            raise Unsupported(
                "Every question that would tell something has an interval over too many values. Ask in a larger unit, "
                "such as thousands, or under PureDP, where questions may be about cells."
            )
        table = Table(tuple(questions), informations(self.law, questions, around) / np.outer(unit, unit), np.empty(0))
        if len(self.tables) >= MOST_TABLES:
            self.tables.clear()
        self.tables[key] = table
        return table


def grid_steps(spread: Array, answers: int, near: Array) -> Array:
    """The public grid that draws `near` a position are rounded to, a power of two in each coordinate."""
    spread = np.maximum(spread, np.maximum(NARROWEST * np.abs(near), 1e-300))
    return np.asarray(2.0 ** np.floor(np.log2(spread * max(FINEST, COARSEST * np.sqrt(answers)))))


def _place(law: AnswerLaw, transform: Transform, position: Array, moving: tuple[int, ...]) -> Place:
    size = position.size
    step = 1e-4 * np.maximum(1.0, np.abs(position))
    moves = np.concatenate([np.zeros((1, size)), np.diag(step), -np.diag(step)])
    theta = transform.parameters(position + moves)
    loc, scale = law.place(theta)
    up, down = slice(1, 1 + size), slice(1 + size, None)
    width = max(float(scale[0]), NARROWEST * abs(float(loc[0])), SMALLEST)
    with np.errstate(invalid="ignore", divide="ignore"):  # where a prior lets the scale be negative
        slopes = np.stack([(loc[up] - loc[down]) / width, np.log(scale[up] / scale[down])]) / (2 * step)
    return Place(float(loc[0]), width, slopes[list(moving)])


def law_identity(law: AnswerLaw) -> tuple[object, ...]:
    """What makes two laws the same but for their priors."""
    distribution = law.population.distribution
    known = tuple((name, _plain(value)) for name, value in law.population.parameters.known.items())
    shapes = tuple(float(shape) for shape in distribution.standard)
    return (distribution.name, shapes, tuple(distribution.domains), known)


def _plain(value: Array) -> float | tuple[float, ...]:
    """A known parameter as a number, or a list of numbers."""
    listed = np.ravel(value).tolist()
    return float(listed[0]) if len(listed) == 1 else tuple(listed)


def _reference(law: AnswerLaw, transform: Transform) -> Array | None:
    """A position with a positive scale: the origin of the walking scale, else the first draw of the prior that has one.

    None where the family is no location-scale one, or where hardly a draw has.
    """
    origin = np.zeros((1, transform.size))
    if law.population.distribution.location_scale(law.population.values(transform.parameters(origin))) is None:
        return None
    drawn = transform.position(law.population.sample_prior(np.random.default_rng(0), REFERENCES))
    for position in np.concatenate([origin, drawn]):
        place = _place(law, transform, position, (0, 1))
        if place.scale > SMALLEST and np.isfinite([place.loc, place.scale, *place.slopes.ravel()]).all():
            return np.asarray(position, np.float64)
    return None


def _moving(law: AnswerLaw, transform: Transform, reference: Array | None) -> tuple[int, ...]:
    """Which of location and scale the unknowns move: one each, or none where the family is no location-scale one."""
    if reference is None:
        return ()
    slopes = _place(law, transform, reference, (0, 1)).slopes
    moving = tuple(int(row) for row in np.flatnonzero(np.abs(slopes).max(axis=1) > 1e-9))
    return moving if len(moving) == reference.size else ()


def _best(scores: Array, found: Array) -> int:
    """The question with the best score; one that tells nothing is not asked while another tells something."""
    best = int(np.argmax(scores))
    told = np.einsum("mpp->m", np.where(np.isfinite(found), found, 0.0))
    if told[best] > 0 or not (told[np.isfinite(scores)] > 0).any():
        return best
    return int(np.argmax(np.where(np.isfinite(scores), told, -np.inf)))


def _has_law(law: AnswerLaw, asked: Asked) -> bool:
    try:
        law.check(asked)
    except Unsupported:
        return False
    return True


def _standard(asked: Asked, place: Place) -> Asked:
    """A question in the base's units."""
    if asked.edges is not None:
        edges = tuple((edge - place.loc) / place.scale for edge in asked.edges)
        return Asked(edges=edges, keep=asked.keep, other=asked.other)
    low, high = (asked.low - place.loc) / place.scale, (asked.high - place.loc) / place.scale
    return Asked(low, high, asked.noise / place.scale, asked.is_laplace)


def _moved(asked: Asked, place: Place, finest: float) -> Asked:
    """A question of the base at a location and scale, which is never finer than doubles can tell."""
    loc, scale = place.loc, max(place.scale, finest * abs(place.loc))
    if asked.edges is not None:
        edges = tuple(loc + scale * edge for edge in asked.edges)
        return Asked(edges=edges, keep=asked.keep, other=asked.other)
    return Asked(loc + scale * asked.low, loc + scale * asked.high, scale * asked.noise, asked.is_laplace)
