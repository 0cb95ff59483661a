"""Methods of populations: functions of a problem and settings.

    problem    releases and a population as a likelihood, and the target to be explored
    methods    direct computation ("exact"), Gibbs sampling of conjugate families, and the published samplers by name
A posterior falls into factors where columns are independent; each is computed by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.inference.methods import Found, Method, Methods, Option
from noisewise.inference.settings import Settings
from noisewise.inference.target import Target
from noisewise.inference.transform import Transform
from noisewise.inference.verdict import CENTRAL_LIMIT_LAW, OWN_LAW, TOLERANCE, Verdict
from noisewise.likelihood.joint import Product, joint_likelihood
from noisewise.likelihood.naive import NaiveLikelihood
from noisewise.populations.cleaned import is_possible
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import AnyPopulation, is_presence
from noisewise.release import NoisyValue
from noisewise.types import Floats

if TYPE_CHECKING:
    from noisewise.families.family import Family
    from noisewise.inference.kernels import MakeKernel
    from noisewise.inference.merging import Merging
    from noisewise.inference.mixed import MixedTarget
    from noisewise.likelihood.conjugate import BetaPosterior, DirichletPosterior, MergedPosterior

DEAR = 1e-3  # the roughness of a likelihood from which a quadrature would chase every jump of it
MOST_FITTED = 12  # parameters of which one t law may be the proposal; beyond, too few of its draws are accepted

__all__ = ["METHODS", "PopulationMethod", "PopulationProblem", "register_method"]


@dataclass(frozen=True, slots=True)
class PopulationMethod(Method):
    """A method of populations."""

    keeps_sums: bool = False  # as variables that are normal given theta
    is_conjugate: bool = False  # given the sums, which are normal whatever they are
    ignores_noise: bool = False


class PopulationProblem:
    """Releases and a population as a likelihood and the target to be explored."""

    def __init__(
        self,
        releases: tuple[NoisyValue, ...],
        population: AnyPopulation,
        likelihood: str,
        n: object,
        *,
        ignores: bool = False,
    ) -> None:
        self.releases, self.n = releases, n
        if ignores:
            self._explore(population, NaiveLikelihood(releases, population, n=n))
        else:
            self._explore(population, joint_likelihood(releases, population, likelihood=likelihood, n=n))

    def _explore(self, population: AnyPopulation, law: Product | NaiveLikelihood) -> None:
        from noisewise.inference.mixed import MixedTarget

        self.population = population
        self.likelihood: Product | NaiveLikelihood = law
        transform = Transform(population.supports)
        self.theta = Target(transform, population.log_prior, self._log_likelihood, population.sample_prior)
        self.target: Target | MixedTarget = self.theta
        if law.mixing:
            integrated = law.integrated()
            if integrated is None:
                self.target = MixedTarget(self.theta, law.log_likelihood_given, law.mixing_scale)
            self.likelihood = integrated or law

    def factors(self) -> tuple[PopulationProblem, ...]:
        """Problems of fewer unknowns, independent of each other, that make up this one; only itself if there are none.

        One without a likelihood of its own has a product of none: its posterior is its prior.
        """
        if not isinstance(self.likelihood, Product) or self.likelihood.mixing:
            return (self,)
        found = self.likelihood.factors(self.population)
        if len(found) < 2:
            return (self,)
        problems = []
        for population, law in found:
            problem = object.__new__(PopulationProblem)
            problem.releases, problem.n = (self.releases if law is None else law.releases), self.n
            problem._explore(population, law or Product(()))
            problems.append(problem)
        return tuple(problems)

    @property
    def quick(self) -> Target | None:
        """The same target under a law near its own that costs far less, where there is one."""
        near = self.likelihood.quick
        return None if near is None else replace(self.theta, likelihood=near.log_likelihood)

    def _log_likelihood(self, theta: Theta) -> Array:
        """Zero, not NaN, where theta puts no record inside bounds that all records respect."""
        values = np.asarray(self.likelihood.log_likelihood(theta))
        lost = np.flatnonzero(np.isnan(values))
        if lost.size:
            rows = {name: np.asarray(value)[lost] for name, value in theta.items()}
            for release in self.releases:
                columns = release.statistic.columns()
                impossible = ~is_possible(self.population, release.schema, columns, rows)
                values[lost[impossible]] = -np.inf
        return values

    @property
    def law(self) -> str:
        """Which law is scored, and why."""
        return self.likelihood.because

    @property
    def has_joint_sums(self) -> bool:
        """Whether several sums of few records are scored by their joint law, or by the tilted one."""
        return any(group.is_joint_sum for group in self.likelihood.groups)

    def by_parameter(self, positions: Array, target: Target | MixedTarget | None = None) -> dict[str, Array]:
        """Positions (chains, draws, size) as parameters (chains, draws, ...)."""
        chains, draws, size = positions.shape
        theta = (target or self.target).parameters(positions.reshape(-1, size))
        return {name: value.reshape(chains, draws, *value.shape[1:]) for name, value in theta.items()}

    def merged(self, merging: Merging) -> tuple[Target | MixedTarget, Target | None]:
        """The target, and the quick one, over levels that are told apart."""
        near = self.quick
        return self.target.over(merging.target(self.theta), merging.of_levels), near and merging.target(near)

    def conjugate(self) -> BetaPosterior | DirichletPosterior | MergedPosterior | None:
        """The posterior as a mixture over confidential counts, where the prior is conjugate; else None."""
        if len(self.likelihood.groups) != 1 or len(self.theta.names) != 1:
            return None
        found: BetaPosterior | DirichletPosterior | MergedPosterior | None = self.likelihood.groups[0].conjugate()
        return found


# ---- methods: functions of a problem and settings ----


def exactly(problem: PopulationProblem, settings: Settings) -> Found:
    """Quadrature, grids and mixtures, of each factor of the posterior by itself; a walk for many unknowns."""
    from noisewise.inference.verdict import joined_verdict

    parts = [_exact_factor(factor, settings) for factor in problem.factors()]
    if len(parts) == 1:
        return parts[0]
    drawn = {name: values for part in parts for name, values in part.draws.items()}
    evidences = [part.log_evidence for part in parts if part.log_evidence is not None]
    moments = {name: both for part in parts for name, both in (part.moments or _moments_of(part.draws)).items()}
    return Found(
        {name: drawn[name] for name in problem.theta.names},
        settings.method,
        f"{len(parts)} independent factors of the posterior: {'; '.join(dict.fromkeys(part.how for part in parts))}",
        problem.law,
        joined_verdict([part.verdict for part in parts]),
        log_evidence=sum(evidences) if len(evidences) == len(parts) else None,
        moments=moments if any(part.moments for part in parts) else None,
    )


def _moments_of(draws: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
    """Mean and sd by draws, beside those of other unknowns that are known better."""
    flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in draws.items()}
    return {name: (values.mean(axis=0), values.std(axis=0, ddof=1)) for name, values in flat.items()}


def _untold(problem: PopulationProblem, settings: Settings) -> Found:
    """Unknowns that no release tells about: draws from their prior."""
    from noisewise.inference.exact import independent

    chains, draws = settings.chains, settings.draws
    theta = problem.population.sample_prior(settings.rng, chains * draws)
    drawn = {name: value.reshape(chains, draws, *value.shape[1:]) for name, value in theta.items()}
    every = np.concatenate([value.reshape(chains, draws, -1) for value in drawn.values()], axis=2)
    judged = Verdict(independent(every, by="sampling the prior", law=OWN_LAW))
    how = f"no release tells about {', '.join(drawn)}: draws from the prior"
    return Found(drawn, settings.method, how, problem.law, judged, log_evidence=0.0)


def _exact_factor(problem: PopulationProblem, settings: Settings) -> Found:
    from noisewise.inference.exact import exact, fitted
    from noisewise.inference.merging import Merging

    if isinstance(problem.likelihood, Product) and not problem.likelihood.groups:
        return _untold(problem, settings)
    conjugate = problem.conjugate()
    if conjugate is not None:
        return _conjugate(problem, conjugate, settings)
    likelihood = problem.likelihood

    def law() -> str:
        return "" if not likelihood.groups else OWN_LAW if likelihood.is_exact else CENTRAL_LIMIT_LAW

    merging = Merging.of(problem.releases, problem.population)
    target, near = (problem.target, problem.quick) if merging is None else problem.merged(merging)
    found = None
    is_dear = likelihood.roughness >= DEAR
    if (is_dear or target.size > 2) and target.size <= MOST_FITTED:
        has_share = any(map(is_presence, problem.population.columns))
        found = fitted(
            settings.rng,
            target,
            settings.chains,
            settings.draws,
            settings.report,
            has_share=has_share,
            near=near if is_dear else None,
        )
    found = found or exact(
        settings.rng,
        target,
        chains=settings.chains,
        draws=settings.draws,
        warmup=settings.warmup,
        progress=settings.report,
        tolerance=max(TOLERANCE, likelihood.roughness),
        is_quick=likelihood.is_quick,
        quick=near,
        law=law,
    )
    drawn = problem.by_parameter(found.positions, target)
    return Found(
        drawn if merging is None else merging.draws(settings.rng, drawn),
        settings.method,
        found.how if merging is None else f"levels that no release tells apart are taken together; {found.how}",
        problem.law,
        found.verdict,
        log_evidence=found.log_evidence,
        moments=found.moments if merging is None else merging.moments(found.moments),
    )


def _conjugate(
    problem: PopulationProblem, mixture: BetaPosterior | DirichletPosterior | MergedPosterior, settings: Settings
) -> Found:
    """Independent draws from the mixture over the confidential counts."""
    from noisewise.inference.exact import independent

    values, _ = mixture.draw(settings.rng, settings.chains * settings.draws)
    drawn = values.reshape(settings.chains, settings.draws, *values.shape[1:])
    return Found(
        {mixture.prior.name: drawn},
        settings.method,
        f"conjugate: a mixture of {mixture.family} laws over the confidential counts, independent draws",
        problem.law,
        Verdict(independent(drawn, by="conjugate mixture", law=OWN_LAW)),
        log_evidence=mixture.log_evidence,
        moments={mixture.prior.name: (mixture.mean, np.sqrt(mixture.variance))},
    )


def population_family(releases: tuple[NoisyValue, ...], population: AnyPopulation, n: object) -> Family:
    """The conjugate family that a population and its releases form, or a refusal."""
    from noisewise.families.family import conjugate_family

    return conjugate_family(releases, population, n=n)


def gibbs(problem: PopulationProblem, settings: Settings, **options: Any) -> Found:
    """Gibbs sampling of a conjugate family."""
    from noisewise.families.gibbs import gibbs
    from noisewise.inference.diagnostics import verdict

    chains, draws = settings.chains, settings.draws
    family = population_family(problem.releases, problem.population, problem.n)
    made = gibbs(
        settings.rng, family, chains=chains, draws=draws, warmup=settings.warmup, progress=settings.report, **options
    )
    positions = np.concatenate([value.reshape(chains, draws, -1) for value in made.draws.values()], axis=2)
    names = tuple(made.draws) if positions.shape[2] == len(made.draws) else None
    non_finite = np.sum(~np.isfinite(positions).all(axis=2), axis=1)
    judged = verdict(positions, names=names, non_finite=non_finite).saying(notes=made.notes)
    return Found(made.draws, settings.method, made.how, problem.law, judged)


def walked(make_kernel: MakeKernel, how: str, problem: PopulationProblem, settings: Settings) -> Found:
    """A kernel, run."""
    from noisewise.inference.diagnostics import verdict
    from noisewise.inference.run import run

    trace = run(
        settings.rng,
        make_kernel,
        problem.target,
        chains=settings.chains,
        warmup=settings.warmup,
        draws=settings.draws,
        progress=settings.report,
    )
    size = problem.theta.size
    judged = verdict(
        trace.positions[:, :, :size],
        names=None if size != len(problem.theta.names) else problem.theta.names,
        non_finite=trace.non_finite,
        warmup_non_finite=trace.warmup_non_finite,
    )
    return Found(problem.by_parameter(trace.positions), settings.method, how, problem.law, judged)


def with_latent(kernel_of: KernelOf, problem: PopulationProblem, settings: Settings, **options: Any) -> Found:
    """A kernel that keeps what lies between theta and the release as a variable."""
    latent = problem.likelihood.latent(problem.theta.parameters)
    if latent is None:
        raise Unsupported(
            f"method={settings.method!r} keeps what lies between theta and the release as a variable, and this "
            f"likelihood ({problem.law}) has no such form. Use 'exact', 'slice' or 'mh', or likelihood='clt'."
        )
    # These kernels never ask for the marginal likelihood, so the noise is not mixed for them.
    problem.target = problem.theta
    kernel, how = kernel_of(latent, settings.method, options)
    return walked(partial(kernel, latent=latent, **options), how, problem, settings)


KernelOf = Callable[[Any, str, Mapping[str, object]], tuple[Any, str]]


def _mh() -> Callable[..., Found]:
    from noisewise.published.samplers.metropolis import Metropolis

    return partial(walked, Metropolis, "a random walk on the marginal posterior")


def _slice() -> Callable[..., Found]:
    from noisewise.inference.kernels.slice import Slice

    def run(problem: PopulationProblem, settings: Settings, **options: Any) -> Found:
        return walked(partial(Slice, **options), "slice sampling of the marginal posterior", problem, settings)

    return run


def _pmmh() -> Callable[..., Found]:
    from noisewise.published.samplers.pseudo_marginal import PseudoMarginal

    return partial(with_latent, lambda *_: (PseudoMarginal, "pseudo-marginal Metropolis-Hastings"))


def _cpm() -> Callable[..., Found]:
    from noisewise.published.samplers.correlated import Correlated

    return partial(with_latent, _of_sums(Correlated, "correlated pseudo-marginal"))


def _within_gibbs() -> Callable[..., Found]:
    from noisewise.published.samplers.within_gibbs import WithinGibbs

    return partial(with_latent, _of_sums(WithinGibbs, "Metropolis within Gibbs on theta and the statistic"))


def _of_sums(kernel: Any, how: str) -> KernelOf:
    """A kernel for statistics that are normal given theta."""
    from noisewise.published.samplers.latent import is_batch

    def chosen(latent: Any, method: str, _: Mapping[str, object]) -> tuple[Any, str]:
        if not is_batch(latent):
            raise Unsupported(f"method={method!r} is for sums, means and counts; use 'pmmh' or 'mhaar' here.")
        return kernel, how

    return chosen


def _highest() -> Callable[..., Found]:
    from noisewise.inference.maximum import highest

    return highest


def _mhaar() -> Callable[..., Found]:
    from noisewise.published.samplers.averaged import Averaged
    from noisewise.published.samplers.averaged_records import AveragedRecords
    from noisewise.published.samplers.averaged_sequential import AveragedSequential
    from noisewise.published.samplers.latent import is_batch

    def chosen(latent: Any, method: str, options: Mapping[str, object]) -> tuple[Any, str]:
        words = "Metropolis-Hastings with averaged acceptance ratios"
        if is_batch(latent):
            replace(METHODS[method], options=(PARTICLES, SHARE)).read(options)
            return Averaged, words
        if latent.is_sequential:
            replace(METHODS[method], options=(PARTICLES,)).read(options)
            return AveragedSequential, f"{words}, over the answers' base draws"
        replace(METHODS[method], options=(PARTICLES, SUBSET)).read(options)
        return AveragedRecords, f"{words}, over base draws of the records"

    return partial(with_latent, chosen)


# What each kernel takes; it checks the values itself, since some depend on the release.
PARTICLES, SHARE, SUBSET = Option("n_particles", 20), Option("share", 0.5), Option("subset")
METHODS: Methods[PopulationMethod] = Methods(
    "a population",
    PopulationMethod("exact", lambda: exactly, "direct computation"),
    PopulationMethod("mh", _mh, "a random walk"),
    PopulationMethod("mh-within-gibbs", _within_gibbs, "Metropolis within Gibbs", (SHARE,), keeps_sums=True),
    PopulationMethod("pmmh", _pmmh, "pseudo-marginal", (PARTICLES, SHARE), keeps_sums=True),
    PopulationMethod(
        "cpm", _cpm, "correlated pseudo-marginal", (PARTICLES, Option("correlation", 0.9), SHARE), keeps_sums=True
    ),
    PopulationMethod("mhaar", _mhaar, "averaged acceptance ratios", (PARTICLES, SHARE, SUBSET), keeps_sums=True),
    PopulationMethod("slice", _slice, "slice sampling", (Option("most_widths", 20),)),
    PopulationMethod("gibbs", lambda: gibbs, "a conjugate family", (Option("variant", "joint"),), is_conjugate=True),
    PopulationMethod("naive", lambda: exactly, "the noise ignored", ignores_noise=True),
    PopulationMethod("mle", _highest, "maximum likelihood, with standard errors", is_point=True),
    PopulationMethod("map", _highest, "the posterior mode, with standard errors", is_point=True),
    instead="exact",
)


# ---- methods of one's own ----


Sampler = Callable[..., Floats]  # (target, rng, *, chains, draws, warmup, **options) -> positions


def register_method(
    name: str, sampler: Sampler, *, words: str = "a method of one's own", options: Mapping[str, object] | None = None
) -> None:
    """Make a sampler of one's own known by its name, so that `infer(..., method=name)` runs it on any population.

    R-hat, ESS and steps that are no numbers are counted here, so the verdict is ours. Some of the positions are moved
    on by steps that leave the posterior as it is (`invariance`): if that changes what they are like, the verdict warns
    that they are not draws of it. That they are, is beyond this its author's word, and the verdict says so.

    Parameters
    ----------
    name
        How `infer` calls it; a name that is taken is refused.
    sampler
        A function `sampler(target, rng, *, chains, draws, warmup, **options)` that returns positions (chains, draws,
        target.size). The target is a posterior on the real line: `target.size`, `target.log_prior(position)`,
        `target.log_likelihood(position)` and `target.draw_prior(rng, count)` take and give K positions at once,
        Jacobians included; `infer` turns positions into parameters.
    words
        What it is, in the posterior's summary. Default "a method of one's own".
    options
        Those that it takes, each with its default; `infer(..., option=...)` hands them on. Default None.

    Examples
    --------
    >>> def prior_draws(target, rng, *, chains, draws, warmup):
    ...     return target.draw_prior(rng, chains * draws).reshape(chains, draws, target.size)
    >>> nw.register_method("prior_draws", prior_draws, words="draws from the prior")
    """
    if name != str(name) or not name.isidentifier() or not callable(sampler):
        raise InvalidArgument("register_method takes a name of letters and digits, and a function.", argument="name")
    if options is not None and "items" not in dir(options):
        raise InvalidArgument("options must be a mapping from names to defaults.", argument="options")
    given = tuple(Option(key, value) for key, value in (options or {}).items())

    def run(problem: PopulationProblem, settings: Settings, **chosen: object) -> Found:
        return _own(sampler, words, problem, settings, {**(options or {}), **chosen})

    METHODS.register(PopulationMethod(name, lambda: run, words, given))


def _own(
    sampler: Sampler, words: str, problem: PopulationProblem, settings: Settings, options: Mapping[str, object]
) -> Found:
    from noisewise.inference.diagnostics import verdict
    from noisewise.inference.invariance import moved_on

    chains, draws = settings.chains, settings.draws
    drawn = sampler(problem.target, settings.rng, chains=chains, draws=draws, warmup=settings.warmup, **options)
    positions: Floats = np.asarray(drawn)
    if positions.dtype.kind in "fiu":
        positions = positions.astype(np.float64)
    else:
        positions = np.empty(0)
    expected = (chains, draws, problem.target.size)
    if positions.shape != expected:
        raise InvalidArgument(
            f"method={settings.method!r} returned an array of shape {positions.shape}; it owes positions of shape "
            f"{expected}: chains, draws, and the target's size.",
            argument="method",
        )
    own = positions[:, :, : problem.theta.size]
    names = problem.theta.names if problem.theta.size == len(problem.theta.names) else None
    judged = verdict(own, names=names, non_finite=np.sum(~np.isfinite(own).all(axis=2), axis=1))
    note = f"That {settings.method!r} leaves the posterior invariant is its author's word: it was registered."
    judged = judged.saying(warnings=moved_on(problem.target, settings.rng, positions, settings.method), notes=(note,))
    return Found(problem.by_parameter(positions), settings.method, words, problem.law, judged)
