"""Collective graphical models: the true tables are latent, and expectation-maximisation fits the model to them.

The tables n = N mu of N records are about as likely as entropy says (Sheldon & Dietterich 2011; Stirling's formula), so
    J(theta, n) = theta . n - N A(theta) + H(n) + log p(y | n),      H(n) = N H(the model whose tables are n/N),
and EM (Bernstein et al. 2017; Bernstein 2020, Algorithm 2) raises J in n, then in theta: the profile
    F(theta) = max over n of J(theta, n)                                                                    (`profile`)
never falls. Entries are W n. The Laplace term is not smooth, but it is a least value over a box,
    -|y - W n|/b = min over |u| <= 1/b of u . (W n - y),       -(y - W n)^2/2v = min over u of u . (W n - y) + v u^2/2,
and exchanging the minimum with the maximum over n, whose value is N A by definition, leaves the E-step's dual
    min over |u| <= 1/b of  N A(theta + W'u) - u . y              (Gaussian noise: no box, and + v u^2/2),
smooth and convex, solved by quasi-Newton steps in the box with the exact gradient N W mu - y (+ v u): no damping, no
smoothing (`box_descent`). The maximum is n = N mu(theta + W'u). For one data set whose entries are statistics of the
parameters these n are the tables of theta + W'u, so the M-step is theta <- theta + W'u and costs nothing; otherwise
`match` fits theta to the tables, added up over the data sets, each of which has its own.

After such a step J = log p(y | n): the method is a proximal descent of the distance between tables and release, and
where it ends it has fitted the noise. How good it is depends on when it stops. Unless `steps` is given it stops by the
discrepancy principle, as soon as what is left between release and model is no more than noise and sampling would leave:
    sum_e |y - n W mu|_e / S_e  <=  sum_e a_e sqrt(v_e) / S_e,        or after 1000 steps,
with s_e = n m (1 - m)/variance an entry's sampling variance at the fit and S_e^2 = 1 + s_e, both in units of the noise;
a_e = E|noise + sampling|/S_e, where E|Laplace(b) + N(0, s^2)| = s sqrt(2/pi) + b erfcx(s/(b sqrt 2)); and v_e what is
left of the variance. A step leaves about 1/(1 + s_e) of a residual, T steps the part l_e = (1 + s_e)^-T; where that is
the best part to leave, signal against noise, the mean square of what is left is l_e (1 + s_e). Of m entries only k
directions can be fitted (k: the dimension of the model), in the others all the noise is left:
    v_e = k/m l_e (1 + s_e) + 1 - k/m.
If the ratio of the two sides turns before it is 1, the step with the least is taken, among those that are as near to
the release as the truth is expected to be (T = 0).

`inference="nlbp"` does the E-step by non-linear belief propagation as printed (Sun et al. 2015; Bernstein 2020,
Algorithm 1), with the subgradient sign(y - W n)/b: u then jumps between the ends of the box, and the passes need not
settle. It is here for comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from scipy import sparse, special

from noisewise.errors import InvalidArgument
from noisewise.exact import integer
from noisewise.graphical.box_descent import least
from noisewise.graphical.gauge import gauge_free
from noisewise.graphical.matching import match
from noisewise.graphical.methods import positive_option
from noisewise.graphical.problem import LAPLACE, Fit, Holder, Problem
from noisewise.printable import shown
from noisewise.types import Floats

__all__ = ["Completion", "complete", "discrepancy", "dual", "fit", "mean_distance", "path", "profile", "reach"]

STEPS, MOST_STEPS = 1000, 10**8
PATIENCE = 20  # steps without a smaller discrepancy, besides half of those taken until then
PASSES = 200  # of non-linear belief propagation, in one E-step
TOLERANCE = 1e-3  # an entry's slope in the dual, in units of its noise's standard deviation
M_STEPS = 50  # of the M-step, where it has no closed form
FLAT = 1e-6  # the least curvature supposed of an entry, in these units
DUAL, PRINTED = "dual", "nlbp"


@dataclass(frozen=True, slots=True, eq=False)
class Completion:
    """One data set's tables as an E-step completes them."""

    tables: Floats  # n (cells,)
    pull: Floats  # u (entries,)
    value: float  # of the dual: theta . n + H(n) + log p(y | n) but for the noise's constant
    settled: bool


def fit(
    problem: Problem, *, steps: int | None = None, inference: str = DUAL, damping: float = 0.1, limit: int = STEPS
) -> Fit:
    """EM from the uniform model: exactly `steps` steps, or as many as the discrepancy principle says."""
    asked = None if steps is None else integer(steps, "steps", minimum=1, maximum=MOST_STEPS)
    free, walk = gauge_free(problem), path(problem, inference=inference, damping=damping)
    if asked is None:
        found = _stopped(problem, islice(walk, limit), dimension=free.dimension)
    else:
        found = Fit(np.zeros(problem.parameters), 0, (f"{asked} step{'' if asked == 1 else 's'} of EM, as asked.",))
        unsettled = 0
        for taken, (theta, settled) in enumerate(islice(walk, asked), start=1):
            unsettled += not settled
            found = Fit(theta, taken, (found.notes[0], *_said(unsettled, taken)))
    return Fit(free(found.theta), found.steps, found.notes)


def _stopped(problem: Problem, walk: Iterator[tuple[Floats, bool]], *, dimension: int) -> Fit:
    """The first step whose discrepancy is at most 1, or else the step with the least, once the truth's was reached."""
    theta, best, least_left, unsettled, taken = np.zeros(problem.parameters), 0, np.inf, 0, 0
    for taken, (reached, settled) in enumerate(walk, start=1):
        unsettled += not settled
        _, mu = problem.engine.marginals(problem.potentials(reached))
        left = discrepancy(problem, mu, taken, dimension=dimension)
        is_past_truth = discrepancy(problem, mu, 0, dimension=dimension) <= 1
        if left < least_left or not is_past_truth:
            theta, best, least_left = reached, taken, left if is_past_truth else np.inf
        if left <= 1 or (is_past_truth and taken > PATIENCE + 1.5 * best):
            break
    if least_left <= 1:
        note = f"Stopped after {best} steps, where the tables are as near to the release as noise would have it."
    elif np.isfinite(least_left):
        note = (
            f"In {taken} steps the tables never came as near to the release as noise would have it; "
            f"step {best} was taken, where they were {least_left:.3g} times as far."
        )
    else:
        note = f"Stopped at the limit of {taken} steps, the tables still farther from the release than noise puts them."
    return Fit(theta, best, (note, *_said(unsettled, taken)))


def _said(unsettled: int, taken: int) -> tuple[str, ...]:
    return (f"The inference of the tables did not settle in {unsettled} of {taken} steps.",) if unsettled else ()


def path(problem: Problem, *, inference: str = DUAL, damping: float = 0.1) -> Iterator[tuple[Floats, bool]]:
    """theta after each step of EM, without end, and whether its E-step settled."""
    if not isinstance(inference, str) or inference not in (DUAL, PRINTED):
        raise InvalidArgument(f'inference is "dual" or "nlbp"; it is {shown(inference, 40)}.', argument="inference")
    part = positive_option(damping, "damping", most=1.0)
    theta = np.zeros(problem.parameters)
    shifts = [_shift(problem, holder) for holder in problem.holders]
    found: list[Completion | None] = [None] * len(shifts)
    while True:
        for h, holder in enumerate(problem.holders):
            if inference == DUAL:
                found[h] = complete(problem, holder, theta, start=found[h])
            else:
                found[h] = _complete_as_printed(problem, holder, theta, part)
        done = [completion for completion in found if completion is not None]
        theta = _maximised(problem, theta, done, shifts, is_dual=inference == DUAL)
        yield theta, all(completion.settled for completion in done)


def profile(problem: Problem, theta: Floats) -> float:
    """F(theta), but for the noise's constant: what EM never lowers."""
    total, _ = problem.engine.marginals(problem.potentials(theta))
    return sum(complete(problem, holder, theta).value - holder.n * total for holder in problem.holders)


def complete(
    problem: Problem,
    holder: Holder,
    theta: Floats,
    *,
    start: Completion | None = None,
    tolerance: float = TOLERANCE,
) -> Completion:
    """The E-step: n that maximises theta . n + H(n) + log p(y | n), by its dual."""
    sd = np.sqrt(holder.variance)
    first = np.zeros(len(sd)) if start is None else start.pull * sd
    found = least(dual(problem, holder, theta), first, reach=reach(holder), tolerance=tolerance)
    pull = found.x / sd
    _, mu = problem.engine.marginals(problem.potentials(theta) + holder.back(pull))
    return Completion(holder.n * mu, pull, found.value, found.settled)


def dual(problem: Problem, holder: Holder, theta: Floats) -> Callable[[Floats], tuple[float, Floats, Floats]]:
    """The E-step's dual in units of the noise, u = t/sd: its value at t, its slope, and about its curvature."""
    base, sd, own = problem.potentials(theta), np.sqrt(holder.variance), float(holder.family != LAPLACE)
    seen = holder.observed / sd

    def at(t: Floats) -> tuple[float, Floats, Floats]:
        total, mu = problem.engine.marginals(base + holder.back(t / sd))
        value = holder.n * total - t @ seen + own * (t @ t) / 2
        curvature = _sampling(holder, mu) + own
        return float(value), holder.mean(mu) / sd - seen + own * t, np.maximum(curvature, FLAT)

    return at


def reach(holder: Holder) -> float:
    """The end of the dual's box: |t| = sd/b for Laplace noise."""
    return math.sqrt(2) if holder.family == LAPLACE else math.inf


def _complete_as_printed(problem: Problem, holder: Holder, theta: Floats, damping: float) -> Completion:
    """Algorithm 1: theta' = theta + grad log p(y | n); n' = N mu(theta'); n <- (1 - alpha) n + alpha n'."""
    base, sd = problem.potentials(theta), np.sqrt(holder.variance)
    _, mu = problem.engine.marginals(base)
    tables, pull, settled = holder.n * mu, np.zeros(len(sd)), False
    for _ in range(PASSES):
        residual = holder.observed - holder.sums @ tables
        pull = np.sign(residual) / holder.scale if holder.family == LAPLACE else residual / holder.variance
        _, mu = problem.engine.marginals(base + holder.back(pull))
        move = damping * (holder.n * mu - tables)
        tables = tables + move
        settled = bool(np.max(np.abs(holder.sums @ move) / sd) < damping * TOLERANCE)
        if settled:
            break
    return Completion(tables, pull, math.nan, settled)


def _maximised(
    problem: Problem, theta: Floats, found: list[Completion], shifts: list[sparse.csr_array | None], *, is_dual: bool
) -> Floats:
    """The M-step: theta whose tables are those of all data sets, added up.

    With several data sets it is a convex problem, of which some steps are taken: the objective rises all the same, and
    tables with empty cells, which no finite theta has, do not hold EM up.
    """
    if is_dual and len(found) == 1 and shifts[0] is not None:
        return np.asarray(theta + shifts[0] @ found[0].pull)
    target = problem.gather(sum((each.tables for each in found), np.zeros(len(problem.spread)))) / problem.n
    start = theta
    for each, holder, shift in zip(found, problem.holders, shifts, strict=True):
        if shift is not None:
            start = start + holder.n / problem.n * (shift @ each.pull)
    return match(problem, target, start=start, limit=M_STEPS)


def _shift(problem: Problem, holder: Holder) -> sparse.csr_array | None:
    """B' (p, entries) with W'u = potentials(B'u) for every u, or None: some entry is no statistic of the parameters."""
    is_factor = problem.spread >= 0
    cells = np.flatnonzero(is_factor)
    shape = (len(problem.spread), problem.parameters)
    share = sparse.csr_array((np.ones(len(cells)), (cells, problem.spread[cells])), shape=shape)
    many = np.bincount(problem.spread[cells], minlength=problem.parameters)
    shift = sparse.csr_array((holder.sums @ share).T / many[:, None])
    left = abs(holder.sums.T - share @ shift)
    return shift if left.max() <= 1e-9 * abs(holder.sums).max() else None


def discrepancy(problem: Problem, mu: Floats, steps: int, *, dimension: int) -> float:
    """What is left between release and model after so many steps, over what noise and sampling would leave of it."""
    fitted = min(1.0, dimension / sum(len(holder.observed) for holder in problem.holders))
    found, expected = 0.0, 0.0
    for holder in problem.holders:
        sampling = _sampling(holder, mu)
        whole = np.sqrt(1 + sampling)
        left = fitted * (1 + sampling) ** (1.0 - steps) + 1 - fitted
        found += np.sum(np.abs(holder.observed - holder.mean(mu)) / np.sqrt(holder.variance) / whole)
        expected += np.sum(mean_distance(sampling, family=holder.family) * np.sqrt(left) / whole**2)
    return float(found / expected)


def mean_distance(sampling: Floats, *, family: str) -> Floats:
    """E|noise + N(0, sampling)| for noise of variance one."""
    if family == LAPLACE:
        return np.asarray(np.sqrt(2 * sampling / np.pi) + special.erfcx(np.sqrt(sampling)) / math.sqrt(2))
    return np.asarray(np.sqrt(2 * (1 + sampling) / np.pi))


def _sampling(holder: Holder, mu: Floats) -> Floats:
    """Each entry's sampling variance over its noise's; the cells that it adds up are taken as independent."""
    return np.asarray(holder.n * (holder.sums.power(2) @ (mu * (1 - mu))) / holder.variance)
