"""What sites answer: each one's coefficients, those of a typical site, and the posterior of one site, or a new one.

A site that has released nothing is one more of the common law: at every draw b ~ N(centre, diag spread^2), with its
height where features are likely to lie by public numbers, and log sigma^2 likewise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from noisewise.errors import InvalidArgument
from noisewise.inference.answer_sources import AnswerSource, Asked, Drawn, Headline
from noisewise.inference.number_draws import NumberDraws
from noisewise.inference.posterior import Posterior
from noisewise.inference.settings import Settings
from noisewise.populations.parameters import offers
from noisewise.printable import did_you_mean, shown
from noisewise.regression.priors import INTERCEPT, NOISE_VARIANCE
from noisewise.regression.sites.sharing import NEW, PARTIAL
from noisewise.regression.sites.subject import BySite
from noisewise.release import NoisyValue
from noisewise.types import Floats, Theta

if TYPE_CHECKING:
    from noisewise.regression.sites.model import SiteRegression

__all__ = ["posterior_at", "site_sources"]

NEW_STREAM = 13


def site_sources(model: SiteRegression, theta: Theta, releases: Sequence[NoisyValue]) -> tuple[AnswerSource, ...]:
    """Those of the regression at each site, named by the site; before them those of a typical one, and of spreads."""
    regression, found = model.regression, []
    lines: list[Headline] = []
    if model.is_partial:
        centre = {name: np.asarray(theta[f"{name}.centre"]) for name in regression.free}
        for source in regression.answer_sources(centre, releases):
            numbers = [replace(one, quantity=f"{one.quantity}, typical site") for one in source.answers(Asked())]
            if source.column in regression.names:
                of_spread = np.asarray(theta[f"{source.column}.spread"])
                numbers.append(Drawn("spread between sites", of_spread, numbers[0].unit, source.column))
            found.append(NumberDraws(source.column, tuple(numbers)))
            lines += [replace(line, subject=f"at a typical site, {line.subject}") for line in source.headlines()]
    for k, site in enumerate(model.sites):
        own = {name: np.asarray(value)[:, k] for name, value in theta.items() if np.ndim(value) > 1}
        for source in regression.answer_sources(own, releases):
            numbers = [replace(one, group=site) for one in source.answers(Asked())]
            found.append(NumberDraws(source.column, tuple(numbers), group=site))
            if not model.is_partial:
                lines += [replace(line, subject=f"at site {site}, {line.subject}") for line in source.headlines()]
    return (NumberDraws("", (), tuple(lines)), *found)


def posterior_at(posterior: Posterior, site: str | None) -> Posterior:
    """The posterior of one site's regression, or of a new site's, as if there were no other.

    Where lines are pooled (and in what this returned) there are no sites, and none may be named.
    """
    population = posterior.population if offers(posterior, "population") else None
    if not offers(population, "sharing"):
        return posterior  # refused where it is used: it is of another model
    model = cast(BySite, population)
    names = model.sharing.sites or ()
    if not model.sharing.is_by_site:
        if site is not None:
            raise InvalidArgument(
                f"site = {shown(site)}, but this posterior is of one line for all holders. Infer with "
                "coefficients='separate' or 'partial'.",
                argument="site",
            )
        return posterior
    is_new = site == NEW and model.sharing.how == PARTIAL
    if site not in names and not is_new:
        new = f", or site={NEW!r} for one that released nothing" if model.sharing.how == PARTIAL else ""
        meant = "" if site is None else f"{shown(site)} is none{did_you_mean(str(site), names)}; "
        raise InvalidArgument(
            f"This posterior is by site: {meant}name one of {', '.join(names)} by site={new}.", argument="site"
        )
    if is_new:
        draws, releases, stated = _new_site(model, posterior), posterior.releases, posterior.stated_n
    else:
        k = names.index(str(site))
        kept = (INTERCEPT, *model.free, *model.unlisted)
        draws = {name: value[:, :, k] for name, value in posterior.draws.items() if name in kept}
        datasets = list(dict.fromkeys(release.dataset for release in posterior.releases))
        own = [i for i, release in enumerate(posterior.releases) if release.dataset == datasets[k]]
        releases = tuple(posterior.releases[i] for i in own)
        stated = posterior.stated_n
        if offers(stated, "__len__"):
            stated = [cast("Sequence[int]", stated)[i] for i in own]
    return replace(
        posterior,
        draws=draws,
        population=model.at_one_site(),
        releases=releases,
        stated_n=stated,
        energy=None,
        _answers={},
    )


def _new_site(model: BySite, posterior: Posterior) -> dict[str, Floats]:
    """Draws of the coefficients of a site of the common law, in the units of the columns."""
    observed = model.observe(posterior.releases, Settings(n=posterior.stated_n))
    rng = np.random.default_rng([posterior.seed or 0, NEW_STREAM])
    units = observed.units
    where = observed.centre[:-1] / units.factor[:-1] + units.centre[:-1]

    def drawn(name: str) -> Floats:
        centre, spread = posterior.draws[f"{name}.centre"], posterior.draws[f"{name}.spread"]
        return np.asarray(centre + spread * rng.standard_normal(centre.shape))

    slopes = {str(feature): drawn(str(feature)) for feature in model.features}
    found = dict(slopes)
    moved = sum(
        (value - posterior.draws[f"{name}.centre"]) * at
        for (name, value), at in zip(slopes.items(), where, strict=True)
    )
    if INTERCEPT in model.names:  # the height at `where` has the spread; the intercept follows
        found = {INTERCEPT: drawn(INTERCEPT) - moved, **found}
    elif INTERCEPT in posterior.draws:
        found = {INTERCEPT: units.implied_intercept(np.stack(list(slopes.values()), axis=-1)), **found}
    if NOISE_VARIANCE in model.free:
        centre, spread = (posterior.draws[f"{NOISE_VARIANCE}.{what}"] for what in ("centre", "spread"))
        found[NOISE_VARIANCE] = centre * np.exp(spread * rng.standard_normal(centre.shape))
    return found
