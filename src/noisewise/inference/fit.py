"""What the verdict says of the fitted population: mass beyond the bounds, sums it does not explain, a stated n.

Bounds. Under outside="clamp" a record beyond a bound is counted at it; under "refuse" no record is beyond, and the
population is taken as cut off there. Either way the parameters describe the population *before* that, and a release of
sums does not show whether anybody is where the fitted population puts them: a normal law fitted to log-normal incomes
puts a third of the people below 0 and a "mean" of 21 beside a released mean of 33. So
    share_theta = P(X < low | theta) + P(X > high | theta)
is told from 1 % on (as much as the desk lets be clamped), with the population's own mean, that of records as they are
cleaned, and the released one.

A warning is for what speaks against the population; what the model takes into account is a statement. Clamping is in
the likelihood: a population with a third of its people beyond the bounds gives the right answer wherever people are
indeed beyond them, and a release cannot tell that world from one in which nobody is. The share is said, with what it
rests on, and the reader knows which world it is. A schema that refuses such records has told which: nobody is there, so
a share that is all but surely (its 5 % quantile) at least 10 % contradicts the schema, and warns. So does one that is
at least 10 % on average where the population's own mean is more than its posterior sd away from that of records within
the bounds: then "mean" and its interval are no longer about the records. With more numbers than unknowns neither does:
the check is there to say whether the shape fits; what the answer rests on is said all the same, since few numbers more
show only a gross misfit.

Released sums. Under either rule the fitted population says what the sums should be. A released sum y_j that is more
than five sds away from that,
    |y_j - E[n mu_j(theta)]| > 5 sqrt(E[n Sigma_jj(theta)] + noise variance + Var[n mu_j(theta)]),
mu and Sigma those of the features of one cleaned record, expectations over the posterior, contradicts population or
prior, and warns.

A stated n. Where a noisy total of the same records bears it out, that is said; where none can, what 10 % more records
would do to the answer, by the first-order response of a posterior mean to a change of the log-likelihood,
    d E[u]/d n = Cov(u, d log p(y | theta, n)/d n),      u the parameters on the real line (`transform`),
over posterior draws, with the releases' sums taken as normal. All draws are moved by that on the real line, so that the
answer stays in its support. A response that would more than halve or double a parameter's distance from an end of its
support (or its odds) is no longer of first order, and is called too far to say. No simulation, no second run.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from noisewise.errors import NoisewiseError
from noisewise.inference.degrees import degrees
from noisewise.inference.transform import Transform
from noisewise.joining import joined_by_prior, stated_sizes
from noisewise.likelihood.joint import joint_likelihood
from noisewise.likelihood.model import GroupLaw
from noisewise.likelihood.simulated import bank_effect
from noisewise.likelihood.stated_n import Partial, all_are_counted, contradictions, noisy_totals, partial_counts
from noisewise.populations.cleaned import row_moments
from noisewise.populations.parameters import Theta
from noisewise.populations.population import AnyPopulation, is_presence
from noisewise.release import NoisyValue
from noisewise.schema import Bounded, Schema
from noisewise.statistics.feature import as_feature
from noisewise.types import Floats

__all__ = [
    "Sentences",
    "bank_sentences",
    "bounds_sentences",
    "group_bounds_sentences",
    "label_sentences",
    "level_sentences",
    "n_sentences",
    "some_rows",
    "sum_sentences",
    "unknown_n_sentences",
]

TOLD, LARGE = 0.01, 0.10  # shares beyond the bounds: from here on told, from here on a warning
SURE = 0.05
CHANGING = 0.05  # share of draws in which two components of a mixture stand the other way round
MOST_ROWS, FEW_ROWS = 1000, 200
QUANTILES, COARSE_QUANTILES, STEADY = 2000, 500, 0.01
MORE, NUDGE = 0.10, 0.01  # more records to speak of; how far n is moved to see which way the answer goes
FARTHEST = float(np.log(2))  # a longer step on a logarithmic line is no longer of first order
MOST_SUMS = 60
MOST_NAMED = 3
HARDLY = 0.1  # of a posterior sd
VISIBLE_SHIFT = 0.3  # sds by which a bank may move an answer before it is warned of
SHAPE = "The answer rests on their being there; the check would show only a gross misfit of the population's shape."
FAR = 5.0  # sds of noise, records and posterior: beyond, a released sum contradicts the fitted population


@dataclass(frozen=True, slots=True)
class Sentences:
    """What opens a verdict, and what ends it."""

    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def some_rows(draws: Mapping[str, Floats], names: tuple[str, ...], count: int = MOST_ROWS) -> dict[str, Floats]:
    """At most `count` rows of theta, at equal distances among draws (chains, draws, ...)."""
    flat = {name: np.asarray(draws[name]).reshape(-1, *draws[name].shape[2:]) for name in names}
    total = len(next(iter(flat.values())))
    chosen = np.unique(np.linspace(0, total - 1, min(count, total)).round().astype(int))
    return {name: value[chosen] for name, value in flat.items()}


# ---- bounds ----


def bounds_sentences(releases: tuple[NoisyValue, ...], population: AnyPopulation, theta: Theta) -> Sentences:
    """The share of records that the fitted population puts beyond the bounds of each column, from 1 % on."""
    try:
        counted = degrees(population, releases, theta)
    except NoisewiseError:
        return Sentences()
    warnings: list[str] = []
    notes: list[str] = []
    seen = set()
    middle = {name: np.mean(np.asarray(value), axis=0, keepdims=True) for name, value in theta.items()}
    some = {name: value[:: max(1, len(value) // FEW_ROWS)] for name, value in theta.items()}
    ranges = _clipped_ranges(releases)
    for release in releases:
        for column in release.statistic.columns():
            entry = release.schema.column(column)
            if not isinstance(entry, Bounded) or (column, entry.low, entry.high) in seen:
                continue
            seen.add((column, entry.low, entry.high))
            if _is_clipped_answer(release) and len(ranges[column]) != 1:
                continue
            below, above = shares_beyond(population, column, entry, theta)
            share = below + above
            if not np.all(np.isfinite(share)) or float(share.mean()) < TOLD:
                continue
            where = sides_beyond(entry, float(below.mean()), float(above.mean()))
            sentence = _beyond(release, where, column)
            (fine,), _ = _own_and_cleaned(population, release.schema, column, middle, QUANTILES)
            (coarse,), (cleaned,) = _own_and_cleaned(population, release.schema, column, middle)
            has_mean = _has_mean(population, column, middle)
            sentence += _means(releases, column, fine, coarse, cleaned) if has_mean else "."
            is_large = float(np.quantile(share, SURE)) >= LARGE or (
                float(share.mean()) >= LARGE and _is_apart(*_own_and_cleaned(population, release.schema, column, some))
            )
            is_refused = release.schema.outside == "refuse"
            if is_large and counted.checks_shape:
                sentence += "" if is_refused else f" {SHAPE}"
            elif is_large:
                sentence += f" {_resting(release)}"
            warns = is_large and is_refused and not counted.checks_shape
            (warnings if warns else notes).append(sentence)
    for column, entries in ranges.items():
        notes += _ranges_sentence(population, column, entries, some) if len(entries) > 1 else ()
    return Sentences(tuple(warnings), tuple(notes))


def _is_clipped_answer(release: NoisyValue) -> bool:
    """Whether single people answered, each after clipping to the bounds of their question."""
    return release.statistic.is_local and release.schema.outside == "clamp"


def _clipped_ranges(releases: tuple[NoisyValue, ...]) -> dict[str, list[Bounded]]:
    """To which ranges questions clip each column. Cells are open at their ends: there nobody is clipped."""
    found: dict[str, dict[Bounded, None]] = {}
    for release in filter(_is_clipped_answer, releases):
        for column in release.statistic.columns():
            entry, own = release.schema.column(column), found.setdefault(column, {})
            if isinstance(entry, Bounded) and not release.statistic.is_categorical(release.schema):
                own[entry] = None
    return {column: list(own) for column, own in found.items()}


def _ranges_sentence(population: AnyPopulation, column: str, entries: list[Bounded], theta: Theta) -> tuple[str, ...]:
    """What the fitted population puts beyond the ranges of many questions: a survey asks about hundreds of them."""
    shares = [float(np.add(*shares_beyond(population, column, entry, theta)).mean()) for entry in entries]
    least, most = min(shares), max(shares)
    if not np.isfinite(shares).all() or most < TOLD:
        return ()
    return (
        f"Questions clip {column} to {len(entries)} ranges, beyond which the fitted population puts {100 * least:.2g} "
        f"to {100 * most:.2g} %; their answers are taken as clipped.",
    )


def group_bounds_sentences(
    release: NoisyValue, column: str, groups: Mapping[str, tuple[AnyPopulation, Mapping[str, Floats]]]
) -> Sentences:
    """The same for a law of one column in every group, those with the largest shares first."""
    if column not in release.schema.numeric:
        return Sentences()
    entry = release.schema.bounded(column)
    told, is_large, has_mean = list[tuple[float, str]](), False, True
    for group, (population, rows) in groups.items():
        theta = {name: value[:: max(1, len(value) // FEW_ROWS)] for name, value in rows.items()}
        below, above = shares_beyond(population, column, entry, theta)
        share = below + above
        if not np.all(np.isfinite(share)) or float(share.mean()) < TOLD:
            continue
        mean, cleaned = _own_and_cleaned(population, release.schema, column, theta)
        both, has_mean = "", has_mean and (bool(told) or _has_mean(population, column, theta))
        if has_mean and np.isfinite(cleaned).all() and np.isfinite(mean).all():
            both = f" (its own mean {mean.mean():.4g}, that of its records as they were summed {cleaned.mean():.4g})"
        sides = sides_beyond(entry, float(below.mean()), float(above.mean()))
        told.append((float(share.mean()), f"{sides} in {group}{both}"))
        is_large |= float(np.quantile(share, SURE)) >= LARGE or (
            float(share.mean()) >= LARGE and _is_apart(mean, cleaned)
        )
    if not told:
        return Sentences()
    named = [words for _, words in sorted(told, key=lambda one: -one[0])[:MOST_NAMED]]
    more = len(told) - MOST_NAMED
    others = f", and some in {'one other group' if more == 1 else f'{more} other groups'}" if more > 0 else ""
    where = ", ".join(named) + others
    sentence = f"{_beyond(release, where, column)}."
    if is_large:
        sentence += f" {_resting(release)}"
    return Sentences((sentence,)) if is_large and release.schema.outside == "refuse" else Sentences((), (sentence,))


def shares_beyond(population: AnyPopulation, column: str, entry: Bounded, theta: Theta) -> tuple[Floats, Floats]:
    """The shares of a column below and above its bounds at each row of theta."""
    law, own = population.marginal(column), population.theta_of(column, theta)
    below = np.ravel(law.cdf([np.nextafter(entry.low, -np.inf)], own))
    return below, np.ravel(law.distribution.survival(np.array([entry.high], float), law.values(own)))


def sides_beyond(entry: Bounded, below: float, above: float) -> str:
    """Such shares in words, the sides that matter."""
    sides = [
        f"{100 * share:.2g} % {side} {bound:g}"
        for share, side, bound in ((below, "below", entry.low), (above, "above", entry.high))
        if share >= TOLD / 4
    ]
    return " and ".join(sides)


def _beyond(release: NoisyValue, where: str, column: str) -> str:
    if release.schema.outside == "clamp":
        return f"The fitted population puts {where} of {column}, taken as clamped to the bounds"
    return f"The fitted population would put {where} of {column}, where no record can be (all are within the bounds)"


def _resting(release: NoisyValue) -> str:
    """What an answer rests on that puts many beyond the bounds."""
    if release.schema.outside == "refuse":
        return "This population does not describe the records, and its parameters are not theirs."
    return (
        "The answer rests on their being there, which no release shows: if nobody is, this population does not "
        "describe the records, and its parameters are not theirs."
    )


def _own_and_cleaned(
    population: AnyPopulation, schema: Schema, column: str, theta: Theta, size: int = COARSE_QUANTILES
) -> tuple[Floats, Floats]:
    """The mean of a column at each row of theta, by quantiles: the population's own, and that of cleaned records."""
    own = population.theta_of(column, theta)
    means = np.mean(population.marginal(column).quantile((np.arange(size) + 0.5) / size, own), axis=-1)
    try:
        cleaned = row_moments(population, schema, (as_feature(column),), theta)[0][:, 0]
    except NoisewiseError:
        cleaned = np.full(len(means), np.nan)
    return np.asarray(means), np.asarray(cleaned)


def _has_mean(population: AnyPopulation, column: str, theta: Theta) -> bool:
    """Whether a column has a mean at the middle row of theta: a Cauchy law has none, though its quantiles have one."""
    law, rows = population.marginal(column), population.theta_of(column, theta)
    middle = {name: value[len(value) // 2 :][:1] for name, value in rows.items()}
    return bool(np.isfinite(law.distribution.moments(law.values(middle))[0]).all())


def _is_apart(own: Floats, cleaned: Floats) -> bool:
    """Whether the own mean is more than its posterior sd away from the other; not where one of them is infinite."""
    return bool(abs(float(np.mean(own)) - float(np.mean(cleaned))) > float(np.std(own)))


def _means(releases: tuple[NoisyValue, ...], column: str, fine: float, coarse: float, cleaned: float) -> str:
    """Its own mean beside that of cleaned records, and beside the released one; a full stop where there is none."""
    if not np.isfinite([fine, cleaned]).all() or abs(fine - coarse) > STEADY * max(abs(fine), abs(cleaned)):
        return "."
    released = _released_mean(releases, column)
    beside = "" if released is None else f"; released: {released:.4g}"
    return f": its own mean is {fine:.4g}, that of the records as they were summed {cleaned:.4g}{beside}."


def _released_mean(releases: tuple[NoisyValue, ...], column: str) -> float | None:
    """The released mean of a column, where one was released."""
    for release in releases:
        if release.statistic.kind == "mean":
            row = [str(feature) for feature in release.statistic.row(release.schema)]
            if column in row:
                return float(release.estimate[row.index(column)])
    return None


def level_sentences(releases: tuple[NoisyValue, ...], population: AnyPopulation) -> tuple[str, ...]:
    """Whose share a Bernoulli's p is, for every column with two levels."""
    found: dict[str, None] = {}
    for release in releases:
        for column in release.statistic.columns():
            law = population.marginal(column)
            if is_presence(column):
                continue
            if law.distribution.name != "bernoulli" or "p" not in law.free:
                continue
            try:
                second = release.schema.levels(column).levels[1]
            except NoisewiseError:  # a number, 0 or 1
                continue
            name = "p" if "p" in population.free else f"{column}.p"
            found[f"{name} is the share of {second!r}, the second level of {column}."] = None
    return tuple(found)


def label_sentences(releases: tuple[NoisyValue, ...], population: AnyPopulation, theta: Theta) -> tuple[str, ...]:
    """Whether components of a mixture that are not kept in an order change places within the posterior."""
    found: dict[str, None] = {}
    for column in sorted({name for release in releases for name in release.statistic.columns()}):
        law = population.marginal(column)
        if law.parameters.order:
            continue
        for (j, one), (k, other) in itertools.combinations(enumerate(law.components, 1), 2):
            shared = [name for name in one.free if name in other.free]
            for name in shared[:1] if one.distribution.name == other.distribution.name else ():
                pair = [own if own in theta else f"{column}.{own}" for own in (f"{name}[{j}]", f"{name}[{k}]")]
                above = float(np.mean(np.asarray(theta[pair[0]]) > np.asarray(theta[pair[1]])))
                if CHANGING < above < 1 - CHANGING:
                    found[
                        f"{pair[0]} is above {pair[1]} in {100 * above:.0f} % of the draws: these components change "
                        "places within the posterior, so that what is said of each is said of both. Answers about the "
                        "population do not depend on it."
                    ] = None
    return tuple(found)


# ---- a bank of simulated records ----


def bank_sentences(groups: Sequence[GroupLaw], theta: Theta) -> Sentences:
    """What the Monte Carlo error of a simulated likelihood does to the answer; a warning where that is not small."""
    effect = bank_effect(groups, theta)
    if effect is None:
        is_simulated = any(group.settled is not None for group in groups)
        note = "The likelihood is simulated, and its noise sampled with the unknowns: its error could not be stated."
        return Sentences((note,)) if is_simulated else Sentences()
    sentence = (
        f"The likelihood is simulated: its Monte Carlo error of about {effect.error:.1g} moves the posterior mean of "
        f"{effect.unknown} by about {effect.shift:.1g} of its sd"
    )
    if effect.shift <= VISIBLE_SHIFT:
        return Sentences((), (f"{sentence}.",))
    return Sentences((f"{sentence}. A larger bank would say more: infer with population.sized(2**22), for instance.",))


# ---- released sums ----


def sum_sentences(releases: tuple[NoisyValue, ...], population: AnyPopulation, theta: Theta, n: object) -> Sentences:
    """Every released sum that is far from what the fitted population says it should be."""
    if sum(len(release.value) for release in releases) > MOST_SUMS:
        return Sentences()
    some = {name: value[:: max(1, len(value) // FEW_ROWS)] for name, value in theta.items()}
    try:
        groups = joint_likelihood(releases, population, likelihood="clt", n=n).groups
        moments = [group.moments(some) for group in groups]
    except NoisewiseError:  # not sums, or sums without moments
        return Sentences()
    warnings = []
    for group, (mean, covariance) in zip(groups, moments, strict=True):
        variance = np.einsum("kii->ki", covariance).mean(axis=0) + group.noise.variance + mean.var(axis=0)
        fitted = mean.mean(axis=0)
        labels = [(label, release.divisor) for release in group.releases for label in release.labels]
        for (label, divisor), y, expected, sd in zip(labels, group.observed, fitted, np.sqrt(variance), strict=True):
            if abs(y - expected) > FAR * sd:
                warnings.append(
                    f"{label} was released as {y / divisor:.4g}, but should be {expected / divisor:.4g} +- "
                    f"{sd / divisor:.2g} under the fitted population: population and prior do not describe the records."
                )
    return Sentences(tuple(warnings[:MOST_NAMED]))


# ---- a stated n ----


def n_sentences(
    releases: tuple[NoisyValue, ...], population: AnyPopulation, theta: Theta, n: object, sd: Mapping[str, Floats]
) -> Sentences:
    """What bears out a stated n or speaks against it; where nothing does, how the answer moves with it."""
    if n is None:
        return Sentences()
    sizes = stated_sizes(releases, n)
    warnings = contradictions(releases, sizes)
    holds = f"It holds if n = {n}, as stated: the number of records is private."
    if warnings:
        return Sentences(warnings, (holds,))
    if all_are_counted(releases):
        total = next(total for release in releases for total in noisy_totals(release))
        agrees = f"{total.label} of the same records, {total.value:.6g} (noise sd {total.sd:.2g}), agrees with it."
        return Sentences((), (holds, agrees[0].upper() + agrees[1:]))
    checked = _partly_checked(releases, sizes) or "No release here can check that"
    return Sentences((), (holds, f"{checked}{_moved(releases, population, theta, sizes, sd)}"))


def unknown_n_sentences(releases: tuple[NoisyValue, ...], n: object) -> Sentences:
    """Which n are unknown, what tells them, and what is assumed where nothing does."""
    together = joined_by_prior(releases, n)
    notes = []
    for group in together.groups:
        prior, members = together.prior(group), together.members(group)
        if prior is None:
            continue
        part = members[0].part
        held = "" if part is None else f", of which the part {part[0]} to {part[1]} holds each with that width's chance"
        sentence = f"The number of records is private and unknown: its prior is {prior}{held}."
        if all_are_counted(members):
            total = next(total for release in members for total in noisy_totals(release))
            sentence += f" {total.label} of the same records, {total.value:.6g} (noise sd {total.sd:.2g}), tells it."
        else:
            sentence += " No release here counts everybody, so that n is told by this prior and by the sums alone."
        notes.append(sentence)
    return Sentences((), tuple(notes))


def _partly_checked(releases: tuple[NoisyValue, ...], sizes: list[int]) -> str:
    """The sharpest statement that sums make of n: they allow at least so many, at most so many records."""
    least: tuple[float, str] = (0.0, "")
    most: tuple[float, str] = (np.inf, "")
    for release, n in zip(releases, sizes, strict=True):
        for partial in partial_counts(release):
            fewest, largest = partial.allowed(n)
            if fewest > 1 and fewest / n > least[0]:
                least = fewest / n, f"at least {fewest} ({_released(partial)})"
            if largest is not None and largest / n < most[0]:
                most = largest / n, f"at most {largest} ({_released(partial)})"
    said = [words for _, words in (least, most) if words]
    return f"Of that the releases show only that n is {' and '.join(said)}" if said else ""


def _released(partial: Partial) -> str:
    return f"{partial.label} of the same records was released as {partial.released:.6g}"


def _moved(
    releases: tuple[NoisyValue, ...],
    population: AnyPopulation,
    theta: Theta,
    sizes: list[int],
    sd: Mapping[str, Floats],
) -> str:
    if len(next(iter(theta.values()))) == 1:  # a point alone does not tell how far it would move
        return "."
    try:
        moved = moved_by_n(releases, population, theta, sizes)
    except NoisewiseError:
        return "."
    moves = []
    for name, value in moved.items():
        then, spread = np.ravel(value), np.ravel(sd[name])
        middle = np.ravel(np.mean(np.asarray(theta[name]), axis=0))
        for j, (one, width, now) in enumerate(zip(then, spread, middle, strict=True)):
            label = name if len(then) == 1 else f"{name}[{j}]"
            away = abs(one - now) / max(width, 1e-300)
            moves.append((np.inf if np.isnan(one) else away, label, now, one))
    moves.sort(key=lambda move: move[0], reverse=True)
    felt = [move for move in moves if move[0] >= HARDLY][:MOST_NAMED]
    if not felt:
        return f": with {100 * MORE:.0f} % more records the answer would hardly move (by less than a tenth of its sd)."
    told = [f"{label} about {then:.3g} instead of {now:.3g}" for _, label, now, then in felt if not np.isnan(then)]
    told += [f"{label} too far from {now:.3g} to say" for _, label, now, then in felt if np.isnan(then)]
    return f": with {100 * MORE:.0f} % more records it would be {', '.join(told)}."


def moved_by_n(
    releases: tuple[NoisyValue, ...], population: AnyPopulation, theta: Theta, sizes: list[int]
) -> dict[str, Floats]:
    """E[theta] if there were 10 % more records, all private n moved together; NaN where that is too far to say."""
    product = joint_likelihood(releases, population, likelihood="clt", n=sizes)
    change = np.zeros(len(next(iter(theta.values()))))
    for group in product.groups:
        if group.releases[0].schema.is_change_one:
            continue
        mean, covariance = group.moments(theta)
        mean, covariance = mean / group.n, covariance / group.n
        if mean.shape[1] > MOST_SUMS:
            covariance = np.einsum("kii->ki", covariance)[:, :, None] * np.eye(mean.shape[1])
        up, down = (
            _log_normal(group.observed, n * mean, n * covariance, group.noise.variance)
            for n in (group.n * (1 + NUDGE), group.n * (1 - NUDGE))
        )
        change += (up - down) / (2 * NUDGE)
    centred = change - change.mean()
    found = {}
    for name in theta:
        line = Transform({name: population.supports[name]})
        here = line.position(theta)
        step = MORE * np.mean(here * centred[:, None], axis=0)
        then = np.asarray(line.parameters(here + step)[name].mean(axis=0))
        is_far = not line.is_straight and not np.max(np.abs(step)) <= FARTHEST
        found[name] = np.full_like(then, np.nan) if is_far else then
    return found


def _log_normal(y: Floats, mean: Floats, covariance: Floats, noise: Floats) -> Floats:
    """log N(y; mean, covariance + noise) up to a constant, one for each row."""
    total = covariance + np.diag(noise)
    residual = y - mean
    _, logdet = np.linalg.slogdet(total)
    return np.asarray(
        -0.5 * (np.einsum("ki,ki->k", residual, np.linalg.solve(total, residual[..., None])[..., 0]) + logdet)
    )
