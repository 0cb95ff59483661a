"""A population as a model: every likelihood of `likelihood`, every method of `inference`.

    likelihood      from the releases by their structure (`likelihood.joint`): the statistic's own law where affordable,
                    else the central limit theorem
    method          "auto" is direct computation on that likelihood: independent draws by quadrature for one unknown,
                    by a grid proposal for two, conjugate mixtures for counts; a slice sampler for more
The published samplers (mh, mh-within-gibbs, pmmh, cpm, mhaar, and gibbs for conjugate families) are there by name, and
agree with it. method="exact" names a way to compute; what is printed says "exact" only of a release's own law, never of
the central limit theorem's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.inference.methods import AUTO, Found, Methods
from noisewise.inference.population_methods import METHODS, PopulationMethod, PopulationProblem, population_family
from noisewise.inference.settings import Settings
from noisewise.inference.verdict import Verdict
from noisewise.joining import Joined, joined_by_prior
from noisewise.likelihood.joint import Product, checked_releases, joint_likelihood
from noisewise.likelihood.presence import presence_note, present_plan, present_releases
from noisewise.likelihood.record_points import unlisted_records
from noisewise.likelihood.size_prior import has_size_law
from noisewise.models.base import InformationSettings, ModelBase
from noisewise.planning import Plan, Simulable
from noisewise.populations.multivariate import component_labels
from noisewise.populations.parameters import Array, Support, Theta
from noisewise.populations.population import AnyPopulation
from noisewise.populations.presence import sample_present
from noisewise.printable import shown
from noisewise.release import NoisyValue
from noisewise.schema import Schema

if TYPE_CHECKING:
    from noisewise.design.information import Engine
    from noisewise.inference.answer_sources import AnswerSource
    from noisewise.inference.degrees import Degrees

__all__ = ["PopulationModel"]

FEW = 64  # posterior draws at which a law is asked again that is known by its draws alone
WEIGHED = 400  # posterior draws at which a law is asked again, where a theorem stands in for it at some


class PopulationModel(ModelBase):
    """What is asked of a model, answered for a population."""

    __slots__ = ("population",)
    reads_absent: ClassVar[bool] = True

    def __init__(self, population: AnyPopulation) -> None:
        self.population = population

    @property
    def free(self) -> tuple[str, ...]:
        return tuple(self.population.free)

    @property
    def supports(self) -> Mapping[str, Support]:
        return self.population.supports

    @property
    def component_labels(self) -> Mapping[str, Sequence[str]]:
        return component_labels(self.population)

    @property
    def methods(self) -> Methods[PopulationMethod]:
        return METHODS

    @property
    def described(self) -> AnyPopulation:
        return self.population

    def observe(self, releases: object, settings: Settings) -> Joined:
        """Releases that a population can be learnt from, joined."""
        if not self.free:
            raise InvalidArgument(
                "This population has no unknown parameter: give a scipy.stats distribution where you do not know the "
                "number.",
                argument="population",
            )
        return joined_by_prior(checked_releases(releases), settings.n)

    def learn(self, observed: Joined, settings: Settings) -> Found:
        """One method on the likelihood of the releases, and what is to be said of the fit itself."""
        method = METHODS["exact" if settings.method == AUTO else settings.method]
        given = method.read(settings.options)
        likelihood = "clt" if method.is_conjugate else settings.likelihood
        if method.is_conjugate:  # what is no family is refused as such, before its law is asked for
            population_family(self.complete(observed.releases), self.population, settings.n)
        releases = self.complete(observed.releases)
        problem = PopulationProblem(releases, self.population, likelihood, settings.n, ignores=method.ignores_noise)
        if likelihood == "auto" and method.keeps_sums and problem.has_joint_sums:
            # These samplers keep the sums as variables that are normal given theta; the joint law has no such form.
            problem = PopulationProblem(releases, self.population, likelihood := "clt", settings.n)
        found: Found = method.run(problem, replace(settings, method=method.name), **given)
        found = self._with_sizes(problem, observed, found, settings)
        groups: tuple[Any, ...] = problem.likelihood.groups
        if settled := [group.settled for group in groups if group.settled is not None]:
            found = replace(found, described=settled[0])
        verdict = self._with_sentences(problem, found, settings.n).saying(notes=presence_note(observed.releases))
        return replace(found, likelihood=likelihood, verdict=verdict)

    def _with_sizes(self, problem: PopulationProblem, observed: Joined, found: Found, settings: Settings) -> Found:
        """Draws of every unknown number of records beside those of the parameters, given them; a point has none."""
        names = observed.size_names(self.free)
        if not names:
            return found
        every: tuple[Any, ...] = problem.likelihood.groups
        laws = {k: every[k] for k in names}
        warnings = tuple(sentence for law in laws.values() for sentence in law.contradictions())
        rng, draws, moments = np.random.default_rng([settings.seed, 1]), dict(found.draws), found.moments
        if found.is_point or not all(np.all(np.isfinite(draws[name])) for name in self.free):
            return replace(found, verdict=found.verdict.saying(warnings=warnings))
        theta = {name: draws[name].reshape(-1, *draws[name].shape[2:]) for name in self.free}
        shape = draws[self.free[0]].shape[:2]
        for k, name in names.items():
            sizes = laws[k].draw_sizes(rng, theta).astype(float)
            draws[name] = sizes.reshape(shape)
            if moments is not None:
                moments = {**moments, name: (np.asarray(sizes.mean()), np.asarray(sizes.std(ddof=1)))}
        return replace(found, draws=draws, moments=moments, verdict=found.verdict.saying(warnings=warnings))

    def complete(self, releases: tuple[NoisyValue, ...]) -> tuple[NoisyValue, ...]:
        """The releases as ones about complete records, where values were left out."""
        return present_releases(releases, self.population)

    def _with_sentences(self, problem: PopulationProblem, found: Found, n: object) -> Verdict:
        """The verdict with the mass beyond the bounds, and with what rests on a stated n."""
        from noisewise.inference.fit import (
            MOST_ROWS,
            Sentences,
            bank_sentences,
            bounds_sentences,
            label_sentences,
            level_sentences,
            n_sentences,
            some_rows,
            sum_sentences,
            unknown_n_sentences,
        )
        from noisewise.likelihood.normal_rows import cautions_at
        from noisewise.likelihood.publisher_claims import claim_warnings

        if not all(np.all(np.isfinite(found.draws[name])) for name in self.free):
            return found.verdict.saying(warnings=problem.likelihood.cautions)
        cautions = cautions_at(problem.likelihood, some_rows(found.draws, self.free, WEIGHED))
        judged = found.verdict.saying(warnings=cautions)
        count = FEW if unlisted_records(self.population) else MOST_ROWS
        theta = some_rows(found.draws if found.covariance is None else self._around(found), self.free, count)
        banks = bank_sentences(problem.likelihood.groups, theta)
        sd = {name: np.asarray(value.std(axis=0)) for name, value in theta.items()}
        bounds = bounds_sentences(problem.releases, self.population, theta)
        if has_size_law(n):
            stated, sums = unknown_n_sentences(problem.releases, n), Sentences()
        else:
            stated = n_sentences(problem.releases, self.population, theta, n, sd)
            sums = sum_sentences(problem.releases, self.population, theta, n)
        warnings = (
            *claim_warnings(problem.releases),
            *label_sentences(problem.releases, self.population, theta),
            *banks.warnings,
            *stated.warnings,
            *sums.warnings,
            *bounds.warnings,
        )
        levels = level_sentences(problem.releases, self.population)
        return judged.saying(warnings=warnings, notes=(*banks.notes, *levels, *bounds.notes, *stated.notes))

    def _around(self, found: Found) -> dict[str, Array]:
        """Draws (1, rows, ...) of the normal law that a point and its covariance stand for."""
        from noisewise.inference.fit import FEW_ROWS
        from noisewise.inference.transform import Transform

        transform = Transform(self.supports)
        centre = transform.position({name: value[0] for name, value in found.draws.items()})[0]
        rng = np.random.default_rng(0)
        drawn = rng.multivariate_normal(centre, np.asarray(found.covariance), FEW_ROWS, method="eigh")
        return {name: value[None] for name, value in transform.parameters(drawn).items()}

    # ---- simulation, checks, design, text ----

    def sample_prior(self, rng: np.random.Generator, count: int) -> dict[str, Array]:
        return dict(self.population.sample_prior(rng, count))

    def prior_rows(self, count: int) -> dict[str, Array]:
        """A fixed scrambled Sobol sequence through the quantiles of independent priors, else draws of a fixed seed."""
        from scipy.stats import qmc

        priors = self.population.independent_priors
        if priors is None or any(support.size is not None for support in self.supports.values()):
            return super().prior_rows(count)
        points = qmc.Sobol(len(self.free), scramble=True, rng=np.random.default_rng(0)).random(count)
        return {name: np.asarray(priors[name].ppf(points[:, k]), dtype=float) for k, name in enumerate(self.free)}

    def prior_of(self, name: str) -> Any:
        return self.population.prior_of(name)

    def simulate_values(
        self,
        rng: np.random.Generator,
        plan: Simulable,
        theta: Theta,
        *,
        n: int | None = None,
        approximate: bool = False,
    ) -> NDArray[np.int64]:
        from noisewise.likelihood.simulate import simulate_values

        return simulate_values(rng, plan, self.population, theta, n=n, approximate=approximate)

    def sample_records(
        self, rng: np.random.Generator, schema: Schema, n: int, theta: Theta, columns: Iterable[str]
    ) -> dict[str, Array]:
        return sample_present(rng, self.population, schema, n, theta, columns)

    def joint_likelihood(
        self, releases: tuple[NoisyValue, ...], *, likelihood: str = "auto", n: object = None
    ) -> Product:
        return joint_likelihood(self.complete(releases), self.population, likelihood=likelihood, n=n)

    def degrees(self, releases: tuple[NoisyValue, ...], theta: Theta) -> Degrees:
        from noisewise.inference.degrees import degrees

        return degrees(self.population, self.complete(releases), theta)

    def engine(self, plan: Plan, asked: InformationSettings) -> Engine:
        from noisewise.design.information import population_engine

        return population_engine(
            present_plan(plan, self.population),
            self.population,
            method=asked.method,
            likelihood=asked.likelihood,
            n=asked.n,
            seed=asked.seed,
            draws=asked.draws,
        )

    def answer_sources(self, theta: Theta, releases: Sequence[NoisyValue]) -> tuple[AnswerSource, ...]:
        from noisewise.inference.population_answers import population_sources

        if lost := [name for name in self.free if name not in theta]:
            raise Unsupported(f"These draws hold no {lost[0]}, so nothing can be said of the population.")
        return population_sources(self.population, {name: theta[name] for name in self.free}, releases)

    def parameter_units(self, releases: Sequence[NoisyValue]) -> dict[str, str]:
        from noisewise.inference.population_answers import parameter_units

        return parameter_units(self.population, releases)

    def to_spec(self) -> dict[str, str]:
        from noisewise.populations.text import Written, population_to_spec

        if unlisted_records(self.population):
            raise Unsupported("A Simulator is a function of Python, which no text can hold")
        if not isinstance(self.population, Written):
            raise Unsupported(f"{shown(type(self.population).__name__)} is neither a population nor one of our models.")
        return population_to_spec(self.population)
