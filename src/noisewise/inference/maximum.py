"""Points: maximum likelihood and the posterior mode of a population, with standard errors.

    mle    the parameters at which the releases are most likely, within the support of the prior
    map    the highest point of prior times likelihood, as a density of the parameters themselves
Both are found on the real line (`transform`), where a maximum of a function of theta is the same point, from several
starts among draws of the prior (`ascent`). The observed information there, minus the Hessian, gives the covariance of
the position, and by the delta method standard errors of the parameters and of all that is computed from them
(`point_errors`). An estimate at an end of its support is said to be there, and has no standard error; information that
is no covariance, because the releases do not settle a direction, gives none at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from noisewise.errors import NoisewiseError, Unsupported
from noisewise.inference.ascent import Climb, climbed, separate_starts
from noisewise.inference.methods import Found
from noisewise.inference.population_methods import PopulationProblem
from noisewise.inference.settings import Settings
from noisewise.inference.transform import Transform
from noisewise.inference.verdict import HighestPoint, Verdict
from noisewise.types import Bools, Floats

__all__ = ["highest"]

QUICK_POINTS, SLOW_POINTS, MOST_UNKNOWNS = 512, 96, 60
QUICK_STEPS, SLOW_STEPS, SLOW_STARTS = 60, 15, 4
BATCH = 512
SAME, NEAR = 1e-2, 3.0  # of log values: the same top; another one that matters
AT_EDGE, BESIDE = 1e-5, 18.0  # no loss of log value there; how far from the prior's middle, as a logarithm
FLAT = 1e-6  # smallest eigenvalue of the information, scaled to a unit diagonal
TOO_WEAK = 1e-6  # information, in widths of the prior
SETTLED, ELSEWHERE = 0.05, 3.0  # standard errors: how far a top may still be, and how far another one is
WORDS = {"mle": "likelihood", "map": "posterior density"}


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """The real line of the unknowns, with the middle and the widths of the prior there."""

    transform: Transform
    middle: Floats
    widths: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Summit:
    """The best climb, which coordinates are held at an end of their support, and what is there."""

    best: Climb
    held: Bools
    edges: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Top:
    """The highest point of one factor of the problem, and what is known about it."""

    position: Floats
    covariance: Floats | None
    evidence: HighestPoint
    warnings: tuple[str, ...]


def highest(problem: PopulationProblem, settings: Settings) -> Found:
    """The highest point, factor by factor where the unknowns are independent."""
    parts = problem.factors()
    tops = [_top(part, settings) for part in parts]
    places = {name: (top, part) for top, part in zip(tops, parts, strict=True) for name in part.theta.names}
    values: dict[str, Floats] = {}
    for top, part in zip(tops, parts, strict=True):
        values |= part.theta.parameters(top.position[None, :])
    names = problem.theta.names
    words = WORDS[settings.method]
    starts = sum(top.evidence.starts for top in tops)
    return Found(
        {name: np.asarray(values[name])[None, ...] for name in names},
        settings.method,
        f"the highest {words}, by Newton steps from {starts} starts",
        problem.law,
        Verdict(_joined([top.evidence for top in tops]), warnings=tuple(w for top in tops for w in top.warnings)),
        is_point=True,
        covariance=_together(problem.theta.transform, places),
    )


def _top(problem: PopulationProblem, settings: Settings) -> Top:
    target, transform = problem.theta, problem.theta.transform
    words = WORDS[settings.method]
    _refuse(problem, settings)
    has_prior = settings.method == "map"

    def function(position: Floats) -> Floats:
        batches = [position[k : k + BATCH] for k in range(0, len(position), BATCH)]
        return np.concatenate([_values(problem, batch, has_prior=has_prior) for batch in batches])

    rng = settings.rng
    is_quick = bool(problem.likelihood.is_quick)
    points = target.draw_prior(rng, QUICK_POINTS if is_quick else SLOW_POINTS)
    points = points[np.isfinite(points).all(axis=1)]
    values = function(points)
    if not np.isfinite(values).any():
        raise NoisewiseError(
            f"The {words} is not a positive number at any of {len(points)} draws from the prior. Check that the prior "
            "allows what was released."
        )
    widths = np.maximum(np.ptp(np.quantile(points, [0.16, 0.84], axis=0), axis=0) / 2, 1e-12)
    is_rough = problem.likelihood.roughness > 0
    starts = separate_starts(points, values, widths)
    none_held = np.zeros(transform.size, bool)
    climbs: list[Climb] = []
    for start in starts if is_quick else starts[:SLOW_STARTS]:
        steps = QUICK_STEPS if is_quick else SLOW_STEPS
        known = list({id(one): one for one in climbs}.values())
        climbs.append(climbed(function, start, widths, none_held, is_rough=is_rough, known=known, most_steps=steps))
    best = max(climbs, key=lambda climb: climb.value)
    line = Line(transform, np.median(points, axis=0), widths)
    best, held, edges = _at_edges(function, best, line, is_rough=is_rough)
    return _told(settings, Summit(best, held, edges), climbs, line)


def _refuse(problem: PopulationProblem, settings: Settings) -> None:
    names = ", ".join(problem.theta.names)
    if problem.theta.size > MOST_UNKNOWNS:
        raise Unsupported(
            f"method={settings.method!r} finds at most {MOST_UNKNOWNS} unknowns, and there are {problem.theta.size}; "
            "use method='exact'."
        )
    if settings.method == "mle" and not problem.likelihood.groups:
        raise Unsupported(f"No release tells about {names}: every value is as likely as another. Use method='map'.")
    if problem.likelihood.mixing:
        raise Unsupported(
            f"method={settings.method!r} needs the likelihood as a number, and with {problem.likelihood.mixing} "
            "components under Laplace noise it is an integral that is only sampled. Use method='exact'."
        )


def _values(problem: PopulationProblem, position: Floats, *, has_prior: bool) -> Floats:
    """The function at positions (K, d): -inf outside the prior's support and where it is no number."""
    theta = problem.theta.parameters(position)
    with np.errstate(all="ignore"):
        prior = np.asarray(problem.theta.prior(theta), np.float64)
    inside = problem.theta.transform.is_inside(theta) & np.isfinite(prior)
    found = np.full(len(position), -np.inf)
    if inside.any() and problem.likelihood.groups:
        rows = {name: value[inside] for name, value in theta.items()}
        with np.errstate(all="ignore"):
            found[inside] = problem.theta.likelihood(rows)
    elif inside.any():
        found[inside] = 0.0
    found += np.where(inside & has_prior, prior, 0.0)
    return np.where(np.isfinite(found), found, -np.inf)


# ---- ends of supports ----


def _at_edges(
    function: Callable[[Floats], Floats], best: Climb, line: Line, *, is_rough: bool
) -> tuple[Climb, Bools, tuple[str, ...]]:
    """The top with every coordinate held that leads to an end of its support without loss; and what is at an end."""
    edges: list[str] = []
    held = np.zeros(line.transform.size, bool)
    for _ in range(line.transform.size):
        beside = _beside(best.position, line, held)
        if not beside:
            break
        values = function(np.array([position for _, _, position in beside]))
        k = int(np.argmax(values))
        if not values[k] >= best.value - AT_EDGE:
            break
        name, coordinate, position = beside[k]
        edges.append(name)
        held[coordinate] = True
        best = climbed(function, position, line.widths, held, is_rough=is_rough)
    return best, held, tuple(edges)


def _beside(position: Floats, line: Line, held: Bools) -> list[tuple[str, int, Floats]]:
    """Positions right beside each end of each support: what is there, which coordinate is held for it, the position."""
    found: list[tuple[str, int, Floats]] = []
    start = 0
    for name, support in line.transform.supports.items():
        size = support.unknowns
        ends = []
        if support.size is None:
            is_bounded = np.isfinite(support.low) and np.isfinite(support.high)
            if np.isfinite(support.low) or np.isfinite(support.high):
                ends = [(start, -BESIDE)] + ([(start, BESIDE)] if is_bounded else [])
        elif (
            support.is_simplex
        ):  # a probability of 0; of the last, by which all others are measured, where all of these are large
            ends = [(start + j, -BESIDE) for j in range(size)]
            own = slice(start, start + size)
            largest = start + int(np.argmax(position[own]))
            if not held[own].any():
                moved = position.copy()
                moved[own] += max(BESIDE - position[largest], 0.0)
                found.append((f"{name}[{size}]", largest, moved))
        for at, away in ends:
            if not held[at]:
                moved, end = position.copy(), line.middle[at] + away
                moved[at] = min(position[at], end) if away < 0 else max(position[at], end)
                found.append((name if support.size is None else f"{name}[{at - start}]", at, moved))
        start += size
    return found


# ---- what it is worth ----


def _told(settings: Settings, summit: Summit, climbs: list[Climb], line: Line) -> Top:
    words = WORDS[settings.method]
    best, held, edges = summit.best, summit.held, summit.edges
    covariance, flat = _covariance(line.transform, best, held, line.widths)
    others = [one for one in climbs if best.value - one.value < NEAR and _is_elsewhere(one, best, covariance, held)]
    agreeing = [one for one in climbs if best.value - one.value <= SAME and all(one is not other for other in others)]
    evidence = HighestPoint(
        of=words,
        starts=len(climbs),
        agreeing=len(agreeing),
        others=len({id(one) for one in others}),
        log_value=best.value,
        distance=best.distance(held) if covariance is not None else 0.0,
        edges=edges,
        flat=flat,
    )
    warnings = []
    if edges:
        are = "lies" if len(edges) == 1 else "lie"
        warnings.append(
            f"The {words} is highest where {', '.join(edges)} {are} at an end of the prior's support: there is no "
            f"standard error of {'it' if len(edges) == 1 else 'them'}, and those of the others take "
            f"{'it' if len(edges) == 1 else 'them'} as known."
        )
    if flat:
        warnings.append(
            f"The observed information is not positive definite: the {words} is flat along {', '.join(flat)}, which "
            "these releases do not settle, so there are no standard errors and the estimate is one of many."
        )
    return Top(best.position, covariance, evidence, tuple(warnings))


def _is_elsewhere(one: Climb, best: Climb, covariance: Floats | None, held: Bools) -> bool:
    """Whether a climb ended at a top of its own: settled there, and several standard errors away."""
    if covariance is None or held.any() or not one.distance(held) < SETTLED:
        return False
    away = one.position - best.position
    values = np.linalg.eigvalsh(one.information)
    return bool(values[0] > 0 and away @ best.information @ away > ELSEWHERE**2)


def _covariance(
    transform: Transform, best: Climb, held: Bools, widths: Floats
) -> tuple[Floats | None, tuple[str, ...]]:
    """The inverse of the information over the free coordinates; None, and along what, where it is no covariance."""
    free = np.flatnonzero(~held)
    found = np.zeros((len(held), len(held)))
    if not free.size:
        return found, ()
    inner = best.information[np.ix_(free, free)]
    diagonal = np.diag(inner)
    names = _coordinate_names(transform)
    weak = [names[i] for i, d in zip(free, diagonal, strict=True) if not d * widths[i] ** 2 > TOO_WEAK]
    if weak:
        return None, tuple(dict.fromkeys(weak))
    root = 1 / np.sqrt(diagonal)
    values, vectors = np.linalg.eigh(inner * np.outer(root, root))
    if not values[0] > FLAT:
        along = np.abs(vectors[:, 0]) > 0.2
        return None, tuple(dict.fromkeys(names[i] for i, is_there in zip(free, along, strict=True) if is_there))
    found[np.ix_(free, free)] = np.linalg.inv(inner)
    return found, ()


def _coordinate_names(transform: Transform) -> list[str]:
    return [
        name if support.size is None else f"{name}[{j}]"
        for name, support in transform.supports.items()
        for j in range(support.unknowns)
    ]


def _joined(evidences: list[HighestPoint]) -> HighestPoint:
    """The evidence of independent factors: all their starts, the worst of the rest."""
    if len(evidences) == 1:
        return evidences[0]
    return HighestPoint(
        of=evidences[0].of,
        starts=sum(one.starts for one in evidences),
        agreeing=sum(one.agreeing for one in evidences),
        others=max(one.others for one in evidences),
        log_value=sum(one.log_value for one in evidences),
        distance=max(one.distance for one in evidences),
        edges=tuple(name for one in evidences for name in one.edges),
        flat=tuple(name for one in evidences for name in one.flat),
    )


def _together(transform: Transform, places: dict[str, tuple[Top, PopulationProblem]]) -> Floats | None:
    """The covariance of the whole position, block by block; None where a factor has none."""
    whole, order = _coordinates(transform), transform.size
    found = np.zeros((order, order))
    for top, part in {id(top): (top, part) for top, part in places.values()}.values():
        if top.covariance is None:
            return None
        index = [whole[name, j] for name, j in _coordinates(part.theta.transform)]
        found[np.ix_(index, index)] = top.covariance
    return found


def _coordinates(transform: Transform) -> dict[tuple[str, int], int]:
    every = [(name, j) for name, support in transform.supports.items() for j in range(support.unknowns)]
    return {place: k for k, place in enumerate(every)}
