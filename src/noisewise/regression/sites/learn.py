"""From releases of several sites to what each one's line is, and what they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.inference.diagnostics import judged
from noisewise.inference.methods import Found, Method, Methods
from noisewise.inference.settings import Settings
from noisewise.inference.verdict import Chains, Verdict
from noisewise.regression.observed import Observed
from noisewise.regression.sites.frame import Frame
from noisewise.regression.sites.sampler import SiteDraws, sample
from noisewise.regression.sites.sharing import Sharing
from noisewise.regression.sites.subject import BySite
from noisewise.release import NoisyValue

__all__ = ["METHODS", "SiteReleases", "learn_partial", "learn_separate", "site_releases"]

FEW_SITES = 4
MOST_NAMED = 6
SITE_STREAM = 11
METHODS: Methods[Method] = Methods(
    "a regression with coefficients='partial'",
    Method("sites", lambda: sample, "site by site, then what sites have in common"),
    instead="sites",
)


@dataclass(frozen=True, slots=True, eq=False)
class SiteReleases:
    """What was published, site by site, in common units."""

    releases: tuple[NoisyValue, ...]
    names: tuple[str, ...]
    by_site: tuple[Observed, ...]
    warnings: tuple[str, ...]


def site_releases(sharing: Sharing, observed: Observed) -> SiteReleases:
    """Holders by data set, in the order of their first release; parts of one data set are one site."""
    by_data_set: dict[str, list[int]] = {}
    for k, dataset in enumerate(observed.datasets):
        by_data_set.setdefault(dataset, []).append(k)
    if strange := [table for table in observed.tables if table.dataset not in by_data_set]:
        raise InvalidArgument(
            f"The histogram of {strange[0].column!r} is of a data set without Moments, which is no site: with "
            "coefficients by site every site has a law of its features of its own. Leave it out.",
            argument="releases",
        )
    if len(by_data_set) < 2:
        raise InvalidArgument(
            f"coefficients={sharing.how!r} needs releases of at least two data sets, and these are of one. Leave it "
            "out, or add the other sites' releases.",
            argument="releases",
        )
    by_site = tuple(
        replace(
            observed,
            holders=tuple(observed.holders[k] for k in which),
            holder_schemas=tuple(observed.holder_schemas[k] for k in which),
            datasets=(dataset,) * len(which),
            releases=tuple(release for release in observed.releases if release.dataset == dataset),
            tables=tuple(
                replace(table, holder=None if table.holder is None else which.index(table.holder))
                for table in observed.tables
                if table.dataset == dataset
            ),
            warnings=(),
        )
        for dataset, which in by_data_set.items()
    )
    return SiteReleases(observed.releases, sharing.of_sites(len(by_site)), by_site, observed.warnings)


# ---- each by itself ----


def learn_separate(model: BySite, told: SiteReleases, settings: Settings) -> Found:
    """The regression learnt from each site alone, with draws that are independent of each other."""
    alone = model.at_one_site()
    found = []
    for k, observed in enumerate(told.by_site):
        seed = int(np.random.SeedSequence([settings.seed, SITE_STREAM, k]).generate_state(1)[0])
        found.append(alone.learn(observed, replace(settings, seed=seed)))
    evidence = [one.verdict.evidence for one in found]
    least = min(range(len(found)), key=lambda k: (evidence[k].is_converged, evidence[k].smallest_ess))
    draws = min(next(iter(one.draws.values())).shape[1] for one in found)
    shared = [name for name in found[0].draws if all(name in one.draws for one in found)]
    said = _by_site(told.names, [(one.verdict.warnings, one.verdict.notes) for one in found])
    notes = (
        f"Sites are learnt each by itself; least sure of all is {told.names[least]}, of which this is said.",
        *said[1],
    )
    ways = dict.fromkeys((one.method, one.how) for one in found)
    return Found(
        draws={name: np.stack([one.draws[name][:, :draws] for one in found], axis=2) for name in shared},
        method=found[least].method,
        how="; ".join(f"{how} ({method})" if len(ways) > 1 else how for method, how in ways),
        law=f"{len(found)} sites, each by itself: {found[least].law}",
        verdict=Verdict(evidence[least], notes, (*told.warnings, *said[0])),
        is_point=found[0].is_point,
        described=model.with_sites(told.names),
    )


# ---- with a common law ----


def learn_partial(model: BySite, told: SiteReleases, settings: Settings) -> Found:
    """All sites together, with unknown centre and spread."""
    frame = model.site_frame(told.by_site, settings)
    drawn = sample(
        frame.sites,
        frame.prior,
        settings.rng,
        chains=settings.chains,
        draws=settings.draws,
        warmup=settings.warmup,
        progress=settings.report,
    )
    fits = [frame.fit(k, positions, settings.seed) for k, positions in enumerate(drawn.positions)]
    draws = {name: np.stack([fit.draws[name] for fit in fits], axis=2) for name in fits[0].draws}
    centres, spreads = frame.centres(drawn.centre), drawn.spread * frame.widths
    for k, name in enumerate(frame.names):
        draws |= {f"{name}.centre": centres[name], f"{name}.spread": spreads[..., k]}
    said = _by_site(told.names, [(fit.warnings, fit.notes) for fit in fits])
    return Found(
        draws=draws,
        method="sites",
        how="the normal law of each site's noisy moments, nothing latent; sites by Hamiltonian Monte Carlo, their "
        "centre and spread by Gibbs steps, centred and not",
        law=f"{len(fits)} sites whose coefficients have a common law, covariates of their own; {frame.law}",
        verdict=Verdict(
            _evidence(frame, drawn, told.names),
            (*_leaning(frame, told, drawn), *_stumbles(frame, drawn), *said[1]),
            (*told.warnings, *said[0]),
        ),
        described=model.with_sites(told.names),
    )


def _evidence(frame: Frame, drawn: SiteDraws, sites: Sequence[str]) -> Chains:
    """Of everything that sites have a common law of."""
    b = drawn.numbers(frame.sites)
    labels = [f"{name}.centre" for name in frame.names] + [f"{name}.spread" for name in frame.names]
    labels += [f"{name}[{site}]" for site in sites for name in frame.names]
    positions = np.concatenate([drawn.centre, np.log(drawn.spread), b.reshape(*b.shape[:2], -1)], axis=2)
    with np.errstate(all="ignore"):
        return judged(positions, names=tuple(labels))


def _leaning(frame: Frame, told: SiteReleases, drawn: SiteDraws) -> list[str]:
    """What the answer rests on beside the releases."""
    count, prior = len(told.names), frame.prior
    said = [
        "Each site has a law of its covariates of its own; its coefficients are drawn towards those of the others as "
        "far as releases say that sites are alike.",
    ]
    sizes = zip(frame.names, prior.scale * frame.widths, strict=True)
    scales = ", ".join(f"{name} {scale:.3g}" for name, scale in sizes)
    if count <= FEW_SITES:
        said.insert(
            0,
            f"With {count} sites the releases say little of how much sites differ: what is said of the spread, of a "
            f"site with little to say and of a new one leans on the prior of the spread (half-normal; {scales}). "
            "spread= sets it.",
        )
    else:
        said.append(f"Spreads are half-normal a priori ({scales}); spread= sets it.")
    # A half-normal law of scale s has mean 0.8 s and sd 0.6 s.
    unmoved = [
        name
        for k, name in enumerate(frame.names)
        if drawn.spread[..., k].std() > 0.9 * 0.6028 * prior.scale[k]
        and abs(drawn.spread[..., k].mean() / prior.scale[k] - 0.7979) < 0.1
    ]
    if unmoved:
        said.append(f"Of how much sites differ in {', '.join(unmoved[:MOST_NAMED])} the releases say next to nothing.")
    return said


def _stumbles(frame: Frame, drawn: SiteDraws) -> list[str]:
    notes = []
    if drawn.divergent > 0.01 * drawn.centre[..., 0].size * len(frame.sites):
        notes.append(f"{drawn.divergent} steps diverged: a corner of the posterior may be under-explored.")
    if drawn.non_finite:
        notes.append(f"{drawn.non_finite} steps met a non-finite density and were rejected.")
    return notes


def _by_site(
    names: Sequence[str], said: Sequence[tuple[Sequence[str], Sequence[str]]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Warnings and notes of all sites: once where all say the same, else with the sites that do."""

    def gathered(by_site: Sequence[Sequence[str]]) -> tuple[str, ...]:
        who: dict[str, list[str]] = {}
        for name, sentences in zip(names, by_site, strict=True):
            for sentence in sentences:
                who.setdefault(sentence, []).append(name)
        return tuple(
            sentence if len(sites) == len(names) else f"{_sites(sites)}: {sentence}" for sentence, sites in who.items()
        )

    return gathered([warnings for warnings, _ in said]), gathered([notes for _, notes in said])


def _sites(names: Sequence[str]) -> str:
    more = " and others" if len(names) > MOST_NAMED else ""
    return f"Site{'s' if len(names) > 1 else ''} {', '.join(names[:MOST_NAMED])}{more}"
