"""infer: from releases and a population to a calibrated posterior, saying which method was used and why.

    likelihood      from the releases by their structure (`likelihood.joint`): the statistic's own law where affordable,
                    else the central limit theorem
    method          "auto" is direct computation on that likelihood: independent draws by quadrature for one unknown,
                    by a grid proposal for two, conjugate mixtures for counts; a slice sampler for more
The published samplers (mh, mh-within-gibbs, pmmh, cpm, mhaar, and gibbs for conjugate families) are there by name, and
agree with it.
method="exact" names a way to compute; what is printed says "exact" only of a release's own law, never of the central
limit theorem's. Nothing here can see a record.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.inference.diagnostics import verdict
from noisewise.inference.exact import CENTRAL_LIMIT_LAW, OWN_LAW, IndependentVerdict, exact, joined_verdict
from noisewise.inference.fit import Sentences, bounds_sentences, n_sentences, some_rows, sum_sentences
from noisewise.inference.kernels.averaged import Averaged
from noisewise.inference.kernels.averaged_records import AveragedRecords
from noisewise.inference.kernels.averaged_sequential import AveragedSequential
from noisewise.inference.kernels.correlated import Correlated
from noisewise.inference.kernels.latent import is_batch
from noisewise.inference.kernels.metropolis import Metropolis
from noisewise.inference.kernels.pseudo_marginal import PseudoMarginal
from noisewise.inference.kernels.slice import Slice
from noisewise.inference.kernels.within_gibbs import WithinGibbs
from noisewise.inference.line import TOLERANCE
from noisewise.inference.mixed import MixedTarget
from noisewise.inference.posterior import Posterior
from noisewise.inference.progress import Progress, shown
from noisewise.inference.run import run
from noisewise.inference.settings import check_settings, whole_seed
from noisewise.inference.target import Target
from noisewise.inference.transform import Transform
from noisewise.likelihood.conjugate import BetaPosterior, DirichletPosterior
from noisewise.likelihood.count_models import CountModel, TableModel
from noisewise.likelihood.joint import Product, checked_releases, joint_likelihood
from noisewise.likelihood.joint_sum import JointSum
from noisewise.likelihood.model import Described
from noisewise.likelihood.naive import NaiveLikelihood
from noisewise.likelihood.normal_rows import cautions_at
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.likelihood.simulate import columns_of
from noisewise.likelihood.tilted_sum import TiltedSum
from noisewise.populations.cleaned import is_possible
from noisewise.populations.parameters import Array, Theta
from noisewise.release import Release

METHODS = ("auto", "exact", "mh", "mh-within-gibbs", "pmmh", "cpm", "mhaar", "slice", "gibbs", "naive")
WEIGHED = 400  # posterior draws at which a law is asked again, where a theorem stands in for it at some
KEEPS_SUMS = ("mh-within-gibbs", "pmmh", "cpm", "mhaar")
OPTIONS = {
    "mh": (),
    "mh-within-gibbs": ("share",),
    "pmmh": ("n_particles", "share"),
    "cpm": ("n_particles", "correlation", "share"),
    "mhaar": ("n_particles", "share", "subset"),
    "slice": ("most_widths",),
    "gibbs": ("variant",),
}


def infer(
    releases: Release | Sequence[Release],
    population: Any,
    *,
    method: str = "auto",
    likelihood: str = "auto",
    draws: int = 1000,
    warmup: int = 1000,
    chains: int = 4,
    seed: int | None = None,
    progress: bool | Callable[[int, int], None] = True,
    n: int | Sequence[int] | None = None,
    **method_options: Any,
) -> Posterior:
    """The posterior of a population's unknown parameters given one or several releases.

    `n` states the number of records where it is private (add-remove). `draws` and `warmup` are per chain; methods that
    draw independently need no warm-up. The same seed gives the same draws.
    """
    check_settings({"draws": draws, "warmup": warmup, "chains": chains}, likelihood)
    seed = whole_seed(seed)
    settings = {"method": method, "draws": draws, "warmup": warmup, "chains": chains, "seed": seed}
    if hasattr(population, "posterior"):  # a model with methods of its own, such as LinearRegression
        made: Posterior = population.posterior(
            releases, likelihood=likelihood, progress=progress, n=n, **settings, **method_options
        )
        return made
    _check_population(population)
    _check_method(method, method_options)
    given = checked_releases(releases)
    started = time.perf_counter()
    rng = np.random.default_rng(seed)
    if method == "gibbs":  # conjugate given the statistic, which is normal given theta
        family, likelihood = _family(given, population, n), "clt" if likelihood == "auto" else likelihood
    problem = _Problem(given, population, likelihood, n, is_naive=method == "naive")
    if likelihood == "auto" and method in KEEPS_SUMS and problem.has_joint_sums:
        # These samplers keep the sums as variables that are normal given theta; the joint law has no such form.
        likelihood = "clt"
        problem = _Problem(given, population, likelihood, n, is_naive=False)
    with shown(progress, f"Inferring {', '.join(population.free)}") as report:
        if method in ("auto", "exact", "naive"):
            found = _exact(problem, rng, chains, draws, warmup, report)
        elif method == "gibbs":
            found = _gibbs(family, rng, chains, draws, warmup, report, method_options)
        else:
            make_kernel, how = _kernel(method, problem, method_options)
            found = _sampled(problem, rng, make_kernel, how, chains, draws, warmup, report)
    fitted = _fit_sentences(given, population, found.draws, n)
    return Posterior(
        draws=found.draws,
        method="exact" if method == "auto" else method,
        because=f"{found.how}; {problem.because}",
        likelihood=likelihood,
        verdict=replace(
            found.verdict,
            warnings=(*found.verdict.warnings, *_cautions(problem, found.draws), *fitted.warnings),
            notes=(*found.verdict.notes, *fitted.notes),
        ),
        population=population,
        releases=given,
        seed=seed,
        log_evidence=found.log_evidence,
        moments=found.moments,
        seconds=time.perf_counter() - started,
        stated_n=n,
    )


class _Problem:
    """Releases and a population as a likelihood and the target to be explored."""

    def __init__(
        self, releases: tuple[Release, ...], population: Any, likelihood: str, n: object, *, is_naive: bool
    ) -> None:
        self.releases = releases
        if is_naive:
            self._explore(population, NaiveLikelihood(releases, population, n=n))
        else:
            self._explore(population, joint_likelihood(releases, population, likelihood=likelihood, n=n))

    def _explore(self, population: Described, likelihood: Product | NaiveLikelihood) -> None:
        self.population = population
        self.likelihood: Product | NaiveLikelihood = likelihood
        transform = Transform(population.supports)
        self.theta = Target(transform, population.log_prior, self._log_likelihood, population.sample_prior)
        self.target: Target | MixedTarget = self.theta
        if isinstance(likelihood, Product) and likelihood.mixing:
            integrated = likelihood.integrated()
            if integrated is None:
                self.target = MixedTarget(self.theta, likelihood.log_likelihood_given, likelihood.mixing_scale)
            self.likelihood = integrated or likelihood

    def factors(self) -> tuple[_Problem, ...]:
        """Problems of fewer unknowns, independent of each other, that make up this one; only itself if there are none.

        Of unknowns that no release tells about the posterior is the prior.
        """
        found = self.likelihood.factors(self.population)
        if len(found) < 2 or self.likelihood.mixing:
            return (self,)
        problems = []
        for population, likelihood in found:
            problem = object.__new__(_Problem)
            problem.releases = likelihood.releases
            problem._explore(population, likelihood)
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
                columns = columns_of(release.statistic, release.schema)
                impossible = ~is_possible(self.population, release.schema, columns, rows)
                values[lost[impossible]] = -np.inf
        return values

    @property
    def because(self) -> str:
        return self.likelihood.because

    @property
    def law(self) -> str:
        """What a verdict calls the law that was computed with, once it was."""
        if isinstance(self.likelihood, NaiveLikelihood):
            return ""
        return OWN_LAW if self.likelihood.is_exact else CENTRAL_LIMIT_LAW

    @property
    def is_quick(self) -> bool:
        """Whether the likelihood is a closed form, which may be asked hundreds of thousands of times."""
        if not isinstance(self.likelihood, Product):
            return False
        return all(isinstance(group, CountModel | NormalSum) for group in self.likelihood.groups)

    @property
    def has_joint_sums(self) -> bool:
        """Whether several sums of few records are scored by their joint law, or by the tilted one."""
        groups = self.likelihood.groups if isinstance(self.likelihood, Product) else ()
        return any(isinstance(group, JointSum | TiltedSum) for group in groups)

    def conjugate(self) -> BetaPosterior | DirichletPosterior | None:
        """The posterior as a mixture over confidential counts, where the prior is conjugate; else None."""
        if not isinstance(self.likelihood, Product) or len(self.likelihood.groups) != 1 or len(self.theta.names) != 1:
            return None
        (group,) = self.likelihood.groups
        if isinstance(group, CountModel) and (beta := group.beta_prior) is not None:
            try:
                return group.beta_posterior(beta)
            except Unsupported:  # too many counts to mix over: the parameter is integrated instead
                return None
        if isinstance(group, TableModel) and (dirichlet := group.dirichlet_prior) is not None:
            return group.dirichlet_posterior(dirichlet)
        return None

    def latent(self) -> Any:
        """What lies between theta and the release, for kernels that sample it."""
        assert isinstance(self.likelihood, Product)
        return self.likelihood.latent(self.theta.parameters)


class _Found(NamedTuple):
    """What a method returns: draws by parameter (chains, draws, ...), and how far to trust them."""

    draws: Mapping[str, Array]
    how: str
    verdict: Any
    log_evidence: float | None = None
    moments: Any = None


def _exact(
    problem: _Problem, rng: np.random.Generator, chains: int, draws: int, warmup: int, report: Progress | None
) -> _Found:
    """Direct computation, of each factor of the posterior by itself."""
    parts = [_exact_factor(factor, rng, chains, draws, warmup, report) for factor in problem.factors()]
    if len(parts) == 1:
        return parts[0]
    drawn = {name: values for part in parts for name, values in part.draws.items()}
    evidences = [part.log_evidence for part in parts if part.log_evidence is not None]
    moments = {name: both for part in parts for name, both in (part.moments or _moments_of(part.draws)).items()}
    is_known = len(evidences) == len(parts)
    return _Found(
        {name: drawn[name] for name in problem.theta.names},
        f"{len(parts)} independent factors of the posterior: {'; '.join(dict.fromkeys(part.how for part in parts))}",
        joined_verdict([part.verdict for part in parts]),
        sum(evidences) if is_known else None,
        moments if any(part.moments for part in parts) else None,
    )


def _moments_of(draws: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
    """Mean and sd by draws, beside those of other unknowns that are known better."""
    flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in draws.items()}
    return {name: (values.mean(axis=0), values.std(axis=0, ddof=1)) for name, values in flat.items()}


def _exact_factor(
    problem: _Problem, rng: np.random.Generator, chains: int, draws: int, warmup: int, report: Progress | None
) -> _Found:
    if not problem.likelihood.releases:
        return _untold(problem, rng, chains, draws)
    conjugate = problem.conjugate()
    if conjugate is not None:
        return _conjugate(conjugate, rng, chains, draws)
    tolerance = max(TOLERANCE, getattr(problem.likelihood, "roughness", 0.0))
    found = exact(
        rng, problem.target, chains=chains, draws=draws, warmup=warmup, progress=report, tolerance=tolerance,
        is_quick=problem.is_quick, quick=problem.quick,
    )  # fmt: skip
    theta = _by_parameter(problem, found.positions)
    judged = found.verdict
    if isinstance(judged, IndependentVerdict):
        judged = replace(judged, law=problem.law)
    return _Found(theta, found.how, judged, found.log_evidence, found.moments)


def _untold(problem: _Problem, rng: np.random.Generator, chains: int, draws: int) -> _Found:
    """Unknowns that no release tells about: draws from their prior."""
    theta = problem.population.sample_prior(rng, chains * draws)
    drawn = {name: value.reshape(chains, draws, *value.shape[1:]) for name, value in theta.items()}
    every = np.concatenate([value.reshape(chains, draws, -1) for value in drawn.values()], axis=2)
    judged = replace(IndependentVerdict.of(every, by="sampling the prior"), law=OWN_LAW)
    return _Found(drawn, f"no release tells about {', '.join(drawn)}: draws from the prior", judged, 0.0)


def _conjugate(
    posterior: BetaPosterior | DirichletPosterior, rng: np.random.Generator, chains: int, draws: int
) -> _Found:
    """Independent draws from the mixture over the confidential counts."""
    values, _ = posterior.draw(rng, chains * draws)
    drawn = values.reshape(chains, draws, *values.shape[1:])
    family = "beta" if isinstance(posterior, BetaPosterior) else "Dirichlet"
    moments = {posterior.prior.name: (posterior.mean, np.sqrt(posterior.variance))}
    return _Found(
        {posterior.prior.name: drawn},
        f"conjugate: a mixture of {family} laws over the confidential counts, independent draws",
        replace(IndependentVerdict.of(drawn, by="conjugate mixture"), law=OWN_LAW),
        posterior.log_evidence,
        moments,
    )


def _family(releases: tuple[Release, ...], population: Any, n: object) -> Any:
    """The conjugate family that a population and its releases form (`families`)."""
    from noisewise.families.family import conjugate_family

    return conjugate_family(releases, population, n=n)


def _gibbs(
    family: Any,
    rng: np.random.Generator,
    chains: int,
    draws: int,
    warmup: int,
    report: Progress | None,
    options: Mapping[str, Any],
) -> _Found:
    from noisewise.families.gibbs import gibbs

    made = gibbs(rng, family, chains=chains, draws=draws, warmup=warmup, progress=report, **options)
    positions = np.concatenate([value.reshape(chains, draws, -1) for value in made.draws.values()], axis=2)
    names = tuple(made.draws) if positions.shape[2] == len(made.draws) else None
    non_finite = np.sum(~np.isfinite(positions).all(axis=2), axis=1)
    judged = replace(verdict(positions, names=names, non_finite=non_finite), notes=made.notes)
    return _Found(made.draws, made.how, judged)


def _sampled(
    problem: _Problem,
    rng: np.random.Generator,
    make_kernel: Any,
    how: str,
    chains: int,
    draws: int,
    warmup: int,
    report: Progress | None,
) -> _Found:
    trace = run(rng, make_kernel, problem.target, chains=chains, warmup=warmup, draws=draws, progress=report)
    size = problem.theta.size
    judged = verdict(
        trace.positions[:, :, :size],
        names=None if size != len(problem.theta.names) else problem.theta.names,
        non_finite=trace.non_finite,
        warmup_non_finite=trace.warmup_non_finite,
    )
    return _Found(_by_parameter(problem, trace.positions), how, judged)


def _by_parameter(problem: _Problem, positions: Array) -> dict[str, Array]:
    """Positions (chains, draws, size) as parameters (chains, draws, ...)."""
    chains, draws, size = positions.shape
    theta = problem.target.parameters(positions.reshape(-1, size))
    return {name: value.reshape(chains, draws, *value.shape[1:]) for name, value in theta.items()}


def _kernel(method: str, problem: _Problem, options: Mapping[str, Any]) -> tuple[Any, str]:
    """The kernel of a method with its settings, and what it is in words."""
    if method == "mh":
        return Metropolis, "a random walk on the marginal posterior"
    if method == "slice":
        return partial(Slice, **options), "slice sampling of the marginal posterior"
    latent = problem.latent()
    name = f"method={method!r}"
    if latent is None:
        raise Unsupported(
            f"{name} keeps what lies between theta and the release as a variable, and this likelihood "
            f"({problem.because}) has no such form. Use 'exact', 'slice' or 'mh', or likelihood='clt'."
        )
    if isinstance(problem.target, MixedTarget):
        # These kernels never ask for the marginal likelihood, so the noise is not mixed for them.
        problem.target = problem.theta
    if method == "pmmh":
        return partial(PseudoMarginal, latent=latent, **options), "pseudo-marginal Metropolis-Hastings"
    if method == "mhaar":
        return _averaged(latent, options)
    if not is_batch(latent):
        raise Unsupported(f"{name} is for sums, means and counts; for this release use 'pmmh' or 'mhaar'.")
    if method == "cpm":
        return partial(Correlated, latent=latent, **options), "correlated pseudo-marginal"
    return partial(WithinGibbs, latent=latent, **options), "Metropolis within Gibbs on theta and the statistic"


def _averaged(latent: Any, options: Mapping[str, Any]) -> tuple[Any, str]:
    words = "Metropolis-Hastings with averaged acceptance ratios"
    chosen: Any = Averaged
    allowed = {"n_particles", "share"}
    if not is_batch(latent):
        is_sequential = getattr(latent, "is_sequential", False)
        chosen = AveragedSequential if is_sequential else AveragedRecords
        allowed = {"n_particles"} if is_sequential else {"n_particles", "subset"}
        words += ", over the answers' base draws" if is_sequential else ", over base draws of the records"
    _check_options("mhaar", options, allowed)
    return partial(chosen, latent=latent, **options), words


def _check_method(method: object, options: Mapping[str, Any]) -> None:
    if not isinstance(method, str) or method not in METHODS:
        raise InvalidArgument(
            f"method = {method!r:.40}: for a population there are {', '.join(METHODS)}.", argument="method"
        )
    _check_options(method, options, set(OPTIONS.get(method, ())))


def _check_options(method: str, options: Mapping[str, Any], allowed: set[str]) -> None:
    unknown = sorted(set(options) - allowed)
    if unknown:
        there = f"it takes {', '.join(sorted(allowed))}" if allowed else "it takes none"
        raise InvalidArgument(f"{unknown[0]!r} is not an option of method={method!r} here; {there}.",
                              argument=unknown[0])  # fmt: skip


def _check_population(population: Any) -> None:
    if not all(hasattr(population, name) for name in ("free", "supports", "log_prior", "sample_prior")):
        raise InvalidArgument(
            f"population is a {type(population).__name__}; describe the records, as in "
            "Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=50)).",
            argument="population",
        )
    if not population.free:
        raise InvalidArgument(
            "This population has no unknown parameter: give a scipy.stats distribution where you do not know the "
            "number.",
            argument="population",
        )


def _cautions(problem: _Problem, draws: Mapping[str, Array]) -> tuple[str, ...]:
    """Where the law that was computed with falls short, as far as the posterior goes."""
    names = problem.theta.names
    if not all(np.all(np.isfinite(draws[name])) for name in names):
        return problem.likelihood.cautions
    return cautions_at(problem.likelihood, some_rows(draws, names, WEIGHED))


def _fit_sentences(releases: tuple[Release, ...], population: Any, draws: Mapping[str, Array], n: object) -> Sentences:
    """What is to be said of the fit itself: mass beyond the bounds, and a stated n."""
    if not all(np.all(np.isfinite(draws[name])) for name in population.free):
        return Sentences()
    theta = some_rows(draws, population.free)
    sd = {name: np.asarray(value.std(axis=0)) for name, value in theta.items()}
    bounds, stated = bounds_sentences(releases, population, theta), n_sentences(releases, population, theta, n, sd)
    sums = sum_sentences(releases, population, theta, n)
    return Sentences((*stated.warnings, *sums.warnings, *bounds.warnings), (*bounds.notes, *stated.notes))
