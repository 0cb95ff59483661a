"""Sites of a linear regression: each one's posterior by `marginal`, without the prior of its line and its scatter.

b = T (theta - m), T'T the default prior's precision and m its mean;      log sigma
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from noisewise.inference import hamiltonian
from noisewise.inference.hamiltonian import walk_of
from noisewise.inference.settings import Settings
from noisewise.regression import marginal
from noisewise.regression.changed import changed_density
from noisewise.regression.density import normal_density
from noisewise.regression.given import given_density
from noisewise.regression.learn import natural_draws, remarks
from noisewise.regression.location_density import location_density
from noisewise.regression.observed import Observed
from noisewise.regression.priors import INTERCEPT, NOISE_VARIANCE
from noisewise.regression.problem import Problem
from noisewise.regression.sites.density import CommonLaw, SiteData, with_common_law
from noisewise.regression.sites.frame import SiteFit, common_prior
from noisewise.regression.sites.sampler import CommonPrior, Site
from noisewise.regression.sites.sharing import changed_copy
from noisewise.regression.subject import LinearMoments
from noisewise.regression.words import law_in_words
from noisewise.types import Floats

__all__ = ["LinearFrame"]

_OF = {
    normal_density: with_common_law(normal_density, "normal_site"),
    changed_density: with_common_law(changed_density, "changed_site"),
    given_density: with_common_law(given_density, "given_site"),
    location_density: with_common_law(location_density, "location_site"),
}
_WALKS = {of: walk_of(site, f"{site.__name__}_walk") for of, site in _OF.items()}


@dataclass(frozen=True, slots=True, eq=False)
class LinearFrame:
    """See `frame.Frame`."""

    model: LinearMoments
    by_site: tuple[Observed, ...]
    problems: tuple[Problem, ...]
    fitted: tuple[marginal.Posterior, ...]
    shares: tuple[tuple[float, ...], ...]
    turn: Floats  # T (q, q)
    middle: Floats  # m (q,)
    sites: tuple[Site, ...]
    prior: CommonPrior
    widths: Floats

    @classmethod
    def of(cls, model: LinearMoments, by_site: tuple[Observed, ...], settings: Settings) -> LinearFrame:
        """Each site fitted by itself under the default prior, for a start and a metric."""
        units = by_site[0].units
        plain = changed_copy(model, coefficients=None, prior=None)
        default = plain.problem_of(by_site[0]).prior
        turn = np.ascontiguousarray(np.linalg.cholesky(default.precision).T)
        problems = tuple(model.problem_of(one) for one in by_site)
        believed = problems[0].prior
        back = np.linalg.inv(believed.precision)
        given = turn @ (believed.mean - default.mean), turn @ back @ turn.T
        # What one unit of b is: the diagonal of T^-1 for slopes and for the height, in the units of the columns.
        natural = np.ones(len(turn)) / units.factor[-1]
        natural[len(turn) - len(units.factor) + 1 :] *= units.factor[:-1]
        widths = np.append(natural / np.diag(turn), 2.0)
        names = (*model.names, NOISE_VARIANCE)
        prior = common_prior(model.sharing, names, widths, given, (believed.shape, believed.rate))
        rng = settings.rng
        pairs = [marginal.fitted(plain.problem_of(one), rng) for one in by_site]
        fitted = tuple(posterior for posterior, _ in pairs)
        sites = tuple(_site(posterior, turn, turn @ default.mean) for posterior in fitted)
        shares = tuple(share for _, share in pairs)
        return cls(model, by_site, problems, fitted, shares, turn, default.mean, sites, prior, widths)

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.model.names, NOISE_VARIANCE)

    @property
    def law(self) -> str:
        holders = tuple(holder for problem in self.problems for holder in problem.holders)
        return law_in_words(self.model, replace(self.problems[0], holders=holders))

    def fit(self, k: int, positions: Floats, seed: int) -> SiteFit:
        """Draws of one site by name."""
        zeros = np.zeros(positions.shape[:2])
        none = np.zeros(len(positions), np.int64)
        trace = hamiltonian.Trace(positions, zeros, zeros, zeros[:, 0], none, none, 0.0, self.fitted[k].factor, ())
        fit = marginal.fit_of(self.problems[k], self.fitted[k], trace, self.shares[k], False)
        warnings, notes = remarks(self.model, self.problems[k], self.by_site[k], fit, seed)
        return SiteFit(natural_draws(self.model, self.by_site[k], fit), warnings, notes)

    def centres(self, b: Floats) -> dict[str, Floats]:
        """Coefficients and noise variance at b (..., p)."""
        units = self.by_site[0].units
        theta = self.middle + np.linalg.solve(self.turn, b[..., :-1, None])[..., 0]
        beta = units.natural(theta)
        found = {name: beta[..., i] for i, name in enumerate(self.model.names)}
        if not self.model.intercept and np.any(units.centre != 0):
            found = {INTERCEPT: units.implied_intercept(beta), **found}
        return found | {NOISE_VARIANCE: np.exp(2.0 * b[..., -1]) / units.variance_factor}


def _site(posterior: marginal.Posterior, turn: Floats, shift: Floats) -> Site:
    """A site whose theta and sigma have no prior but the common law; b = T theta - shift."""
    q, belief = len(turn), posterior.belief
    flat = belief._replace(mean=np.zeros(q), precision=np.zeros((q, q)), shape=0.0, rate=0.0)
    whole = np.eye(q + 1)
    whole[:q, :q] = turn
    law = CommonLaw(whole, np.zeros(q + 1), np.ones(q + 1), np.zeros(q + 1), np.append(shift, 0.0))
    return Site(
        _OF[posterior.density],
        _WALKS[posterior.density],
        SiteData(posterior.data._replace(belief=flat), law),
        posterior.mode,
        posterior.factor,
        int(belief.mixing),
        np.asarray(np.linalg.inv(whole), np.float64),
    )
