"""What is said of an answer about groups: which law was taken, which groups say nothing, what the answer leans on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from noisewise.grouped.few_normals import is_normal
from noisewise.grouped.present import left_out_columns
from noisewise.inference.fit import FAR, Sentences, group_bounds_sentences
from noisewise.types import Floats

if TYPE_CHECKING:
    from noisewise.grouped.learn import Observed
    from noisewise.grouped.terms import SumsTerm

__all__ = ["law_words", "sentences"]

FEW_GROUPS = 4
SKEWED = 0.25  # skewness of a sum with its noise, from which a normal law of it is told
HARDLY = 0.3  # share of accepted proposals below which a table was too rough
MOST_NAMED, MOST_CONTRADICTED = 6, 3
MOST_ROWS, LEAST_ROWS = 4000, 20  # draws by which sums are foretold: of all groups together, and of each
MOVED = 0.5  # prior sds on the line: farther, and what is shown is not the prior


def law_words(observed: Observed) -> str:
    """The law that was scored."""
    if observed.holders is not None:
        return f"{len(observed.holders.terms)} holders: {observed.holders.words}"
    first = observed.sets[0]
    kinds = {one.is_laplace for term in first.terms for one in term.law.seen}
    noise = " and ".join(name for name, kind in (("Laplace", True), ("Gaussian", False)) if kind in kinds)
    sizes = "group sizes are summed over their whole numbers"
    if not noise:
        return f"{sizes}; there are no sums beside the counts"
    two = first.terms[0].two_values is not None
    law = "binomial where few, normal where many" if two else "normal given the size, a group of one by its own law"
    if any(term.squared is not None for term in first.terms):
        law += ", few normal numbers by the exact law of their sum and sum of squares"
    return f"{sizes}; sums are {law}, with the clamp in their moments, behind {noise} noise"


def sentences(observed: Observed, draws: Mapping[str, Floats], accepted: float) -> Sentences:
    """Warnings and notes."""
    model, warnings, notes = observed.model, [], []
    if accepted < HARDLY:
        warnings.append(
            f"Only {accepted:.0%} of what a table proposed was accepted by the law, so draws repeat each other: "
            "intervals may be off; ask for more draws and compare."
        )
    if observed.holders is not None:
        warnings += list(observed.holders.cautions)
    count = len(model.groups)
    if model.pooled and count <= FEW_GROUPS:
        names = " and ".join(f"{name}.spread" for name in model.pooled)
        notes.append(
            f"With {count} groups the releases say little of how much groups differ: the answer leans on the prior of "
            f"{names} (spread= sets it)."
        )
    silent = _silent(observed, draws)
    if silent:
        many = f"{', '.join(silent[:MOST_NAMED])}{' and others' if len(silent) > MOST_NAMED else ''}"
        notes.append(
            f"The release tells next to nothing about {many}: what is shown there is the prior"
            f"{' and the other groups' if model.pooled else ''}."
        )
    skewed = _skewed(observed, draws)
    if skewed:
        warnings.append(
            f"In {', '.join(skewed[:MOST_NAMED])} few people stand behind little noise, and their sums are taken as "
            "normal: intervals there may be off."
        )
    warnings += _contradicted(observed, draws)
    shown: dict[tuple[str, str], Sentences] = {}
    for release in observed.releases:
        key = str(release.schema.columns.get(model.column)), release.schema.outside
        if key not in shown:
            shown[key] = group_bounds_sentences(release, model.column, model.laws_by_group(draws))
    warnings += [words for one in shown.values() for words in one.warnings]
    notes += [words for one in shown.values() for words in one.notes]
    for one in observed.sets:
        if one.present is not None:
            columns = " and ".join(left_out_columns(one.releases))
            share = "an unknown share" if one.present.share.known is None else f"{one.present.share.known:.4g}"
            notes.append(
                f"Missing values of {columns} were left out: they are taken as missing at random (those present are "
                f"like the others, in all groups), with {share} present."
            )
        elif one.totals.prior is not None:
            notes.append(f"The number of records is private and unknown: its prior is {one.totals.prior}.")
        if one.totals.prior in (None, one.present) and not one.is_public:
            notes.append("The number of records is as the analyst stated it.")
    return Sentences(tuple(warnings), tuple(notes))


def _silent(observed: Observed, draws: Mapping[str, Floats]) -> list[str]:
    """Groups whose parameters are as wide as their prior and where it has them, within Monte Carlo error."""
    found = []
    for g, group in enumerate(observed.model.groups):
        ratios: list[float] = []
        moved: list[float] = []
        for line in observed.model.lines:
            if line.name in observed.model.pooled:
                return []
            with np.errstate(all="ignore"):
                u = line.place(draws[line.name][:, g])
                ratios.append(float(np.std(u) / line.sd))
                moved.append(abs(float(np.mean(u)) - line.mean) / line.sd)
        if min(ratios) > 0.9 and max(moved) < MOVED:
            found.append(group)
    return found


def _contradicted(observed: Observed, draws: Mapping[str, Floats]) -> list[str]:
    """Released sums that are far from what the fitted population says they should be, as `inference.fit` has it."""
    found = []
    for d, one in enumerate(observed.sets):
        if not one.moments.features:
            continue
        every = draws["size"] if draws["size"].ndim == 2 else draws["size"][:, d]
        rows = np.linspace(0, len(every) - 1, min(len(every), max(LEAST_ROWS, MOST_ROWS // every.shape[1])))
        some = rows.round().astype(int)
        for g, term in enumerate(one.terms):
            places = [line.place(np.asarray(draws[line.name])[some, g]) for line in observed.model.lines]
            mean, covariance = one.moments.exactly(np.stack(places, axis=1))
            n = np.asarray(every[some, g], np.float64)[:, None]
            expected, own = n * mean, n * np.diagonal(covariance, axis1=1, axis2=2)
            fitted, variance = expected.mean(axis=0), own.mean(axis=0) + expected.var(axis=0)
            for seen in term.law.seen:
                noise = (2 if seen.is_laplace else 1) * seen.scale**2
                sd = float(np.sqrt(variance[seen.feature] + noise))
                if abs(seen.value - fitted[seen.feature]) > FAR * sd:
                    found.append(
                        f"The sum of {one.moments.features[seen.feature]} in {observed.model.groups[g]} was released "
                        f"as {seen.value:.4g}, but should be {fitted[seen.feature]:.4g} +- {sd:.2g} under the fitted "
                        "population: population and prior do not describe the records."
                    )
    return found[:MOST_CONTRADICTED]


def _skewed(observed: Observed, draws: Mapping[str, Floats]) -> list[str]:
    """Groups with a sum whose skewness, n k_3/(n v + noise)^1.5, is more than a normal law can pass over."""
    found: dict[str, None] = {}
    model = observed.model
    for d, one in enumerate(observed.sets):
        if not one.moments.features or one.terms[0].two_values is not None:
            continue
        sizes = draws["size"] if draws["size"].ndim == 2 else draws["size"][:, d]
        middle = np.stack([np.median(line.place(draws[line.name]), axis=0) for line in model.lines], axis=1)
        third, variance = one.moments.skewness(middle)
        n = np.maximum(np.median(sizes, axis=0), 1.0)[:, None]
        noise = np.stack([term.law.noise_variance for term in one.terms])
        skewness = np.abs(n * third) / (n * variance + noise) ** 1.5
        is_exact = [_is_exact(term, *one.moments.exactly(middle[g : g + 1])) for g, term in enumerate(one.terms)]
        for g in np.flatnonzero((skewness > SKEWED).any(axis=1) & (n[:, 0] > 1.5) & ~np.array(is_exact)):
            found[model.groups[g]] = None
    return list(found)


def _is_exact(term: SumsTerm, mean: Floats, covariance: Floats) -> bool:
    """Whether skewed sums of a group have their own law."""
    if term.squared is None:
        return False
    pair = np.array(term.squared)
    return bool(is_normal(mean[:, pair], covariance[:, pair[:, None], pair])[0])
