"""Sites of a generalized linear model: b are coefficients in units of their default prior, theta = base + turn b."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from noisewise.inference.hamiltonian import walk_of
from noisewise.inference.settings import Settings
from noisewise.inference.verdict import Words
from noisewise.regression.glm.covariates import check_sites
from noisewise.regression.glm.density import GlmData, glm_density
from noisewise.regression.glm.learn import columns_coefficients, columns_draws, problem_of, remarks, seen_problem
from noisewise.regression.glm.problem import CoefficientBelief, GlmProblem, glm_data
from noisewise.regression.glm.sampler import fit_of, found_mode
from noisewise.regression.glm.words import law_in_words
from noisewise.regression.observed import Observed
from noisewise.regression.sites.density import CommonLaw, SiteData, with_common_law
from noisewise.regression.sites.frame import SiteFit, common_prior
from noisewise.regression.sites.sampler import CommonPrior, Site
from noisewise.regression.sites.sharing import changed_copy
from noisewise.types import Floats

if TYPE_CHECKING:
    from noisewise.regression.glm.model import MomentsGlm

__all__ = ["GlmFrame"]

glm_site = with_common_law(glm_density, "glm_site")
glm_site_walk = walk_of(glm_site, "glm_site_walk")


@dataclass(frozen=True, slots=True, eq=False)
class GlmFrame:
    """See `frame.Frame`."""

    model: MomentsGlm
    by_site: tuple[Observed, ...]
    problems: tuple[GlmProblem, ...]  # with what holders saw besides the features: clamped ones, cells
    belief: CoefficientBelief  # the default prior of the coefficients alone, in which b is told
    data: tuple[GlmData, ...]
    sites: tuple[Site, ...]
    prior: CommonPrior
    widths: Floats

    @classmethod
    def of(cls, model: MomentsGlm, by_site: tuple[Observed, ...], settings: Settings) -> GlmFrame:
        """Each site at its own mode under the default prior."""
        del settings
        plain = changed_copy(model, coefficients=None)
        check_sites(model.covariates, by_site)
        problems = tuple(seen_problem(plain, one) for one in by_site)
        default, believed = (problem_of(one, by_site[0]).prior for one in (plain, model))
        back = np.linalg.pinv(default.turn)
        root = back @ believed.turn
        given = back @ (believed.base - default.base), root @ root.T
        o = int(model.intercept)
        widths = np.full(default.turn.shape[1], float(model.link.width))
        widths[o:] = np.diag(default.turn[1:, o:]) * by_site[0].units.factor[:-1]
        prior = common_prior(model.sharing, model.names, widths, given)
        data = tuple(glm_data(problem) for problem in problems)
        return cls(model, by_site, problems, default, data, tuple(map(_site, data)), prior, widths)

    @property
    def names(self) -> tuple[str, ...]:
        return self.model.names

    @property
    def law(self) -> str:
        holders = tuple(holder for problem in self.problems for holder in problem.holders)
        caps = tuple(cap for problem in self.problems for cap in problem.caps)
        return law_in_words(self.model, replace(self.problems[0], holders=holders, caps=caps))

    def fit(self, k: int, positions: Floats, seed: int) -> SiteFit:
        """Draws of one site by name."""
        fit = fit_of(self.problems[k], self.data[k], positions, Words(""), "")
        warnings, notes = remarks(self.model, self.problems[k], self.by_site[k], fit, seed)
        fit = replace(fit, theta=fit.theta[..., : len(self.model.features) + 1])
        return SiteFit(columns_draws(self.model, self.by_site[k], self.problems[k], fit), warnings, notes)

    def centres(self, b: Floats) -> dict[str, Floats]:
        """Coefficients at b (..., p)."""
        return columns_coefficients(self.model, self.by_site[0], self.belief.base + b @ self.belief.turn.T)


def _site(data: GlmData) -> Site:
    p, mode = data.coefficients.turn.shape[1], found_mode(data)
    law = CommonLaw(np.eye(p), np.zeros(p), np.ones(p), np.ones(p), np.zeros(p))
    return Site(
        glm_site, glm_site_walk, SiteData(data, law), mode.position, mode.factor, int(data.belief.mixing), np.eye(p)
    )
