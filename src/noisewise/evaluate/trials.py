"""The trials of a calibration: one truth, its releases, a posterior, and the ranks of the truth in it.

Every trial owns a seed sequence, split into one for the world, one for the sampler and one for ties, so a trial is the
same in any process and in any order. Chains are thinned: ranks among draws that repeat each other pile up at both ends
and would accuse a right sampler.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from noisewise.errors import NoisewiseError, Unsupported
from noisewise.evaluate.simulate import simulate_releases
from noisewise.inference.progress import Progress, shown
from noisewise.likelihood.size_prior import Size, SizePrior, is_size_law
from noisewise.planning import Plan
from noisewise.release import Release
from noisewise.types import Floats

Infer = Callable[[list[Release], Any, int], Mapping[str, Any]]
# Draws made for each one ranked, at first: a few where draws are independent or nearly (they cost next to nothing, and
# a longer run is judged more surely), more where chains creep.
THIN = {"auto": 4, "exact": 4, "naive": 4}
CHAIN_THIN, MOST_THIN = 10, 40
# When this many trials have failed and none has succeeded, the rest would fail alike.
PATIENCE = 10


@dataclass(frozen=True, slots=True)
class World:
    """What is simulated: the plans of each data set, the population, and n, or its prior, where it is private."""

    holders: tuple[tuple[Plan, ...], ...]
    population: Any
    n: Size | None = None

    def sizes(self, rng: np.random.Generator) -> list[int | None]:
        """The number of records of each data set, drawn where it has a prior; none where it is public."""
        return [self._size(rng, plans) for plans in self.holders]

    def _size(self, rng: np.random.Generator, plans: tuple[Plan, ...]) -> int | None:
        if self.n is None or not is_size_law(self.n):
            return cast("int | None", self.n)
        if any(plan.part is not None for plan in plans):
            raise Unsupported("A prior of n is calibrated with plans of whole data sets; leave part= out, or state n.")
        return SizePrior.of(self.n, plans[0].schema.largest_n).sample(rng)

    def size_names(self) -> tuple[str, ...]:
        """How the unknown numbers of records are called, one for each data set; none where they are known."""
        if not is_size_law(self.n):
            return ()
        return ("n",) if len(self.holders) == 1 else tuple(f"n[{k + 1}]" for k in range(len(self.holders)))

    def releases(
        self, rng: np.random.Generator, theta: Mapping[str, Any], sizes: Sequence[int | None]
    ) -> list[Release]:
        """Every plan's release, at one value of theta, from so many records of each data set."""
        return [release for plans, n in zip(self.holders, sizes, strict=True)
                for release in simulate_releases(rng, plans, self.population, theta, n=n)]  # fmt: skip


class PublicSizes:
    """For worlds of one's own whose numbers of records are public: none is drawn."""

    __slots__ = ()

    def sizes(self, rng: np.random.Generator) -> list[int | None]:
        return []

    def size_names(self) -> tuple[str, ...]:
        return ()


class Sampled(NamedTuple):
    """Posterior draws by name, and how many independent ones they are worth (NaN where unknown)."""

    draws: Mapping[str, Any]
    effective: float


Sampler = Callable[[list[Release], Any, int], Sampled]


def given_posterior(infer: Infer) -> Sampler:
    """A function of one's own in place of `noisewise.infer`."""
    return lambda releases, population, seed: Sampled(infer(releases, population, seed), math.nan)


def library_posterior(method: str, likelihood: str, draws: int, n: Size | None, options: Mapping[str, Any]) -> Sampler:
    """`noisewise.infer`, with chains run until they hold about `draws` effective draws."""
    settings = {"chains": 4, **options}

    def run(releases: list[Release], population: Any, seed: int, thin: int) -> Sampled:
        from noisewise.inference.infer import infer

        length = max(4, -(-draws * thin // int(settings["chains"])))
        posterior = infer(releases, population, method=method, likelihood=likelihood, draws=length, seed=seed,
                          progress=False, n=n, **settings)  # fmt: skip
        if posterior.verdict.evidence.are_independent:
            return Sampled(posterior.draws, float(posterior.verdict.draws))
        sizes = np.concatenate([np.ravel(size) for size in posterior.ess.values()])
        return Sampled(posterior.draws, float(np.nan_to_num(sizes, nan=1.0).min()))

    def sample(releases: list[Release], population: Any, seed: int) -> Sampled:
        thin = THIN.get(method, CHAIN_THIN)
        first = run(releases, population, seed, thin)
        if first.effective >= draws / 2:
            return first
        # A run with a seed of its own: prolonging the first only when it looks poor would bias the ranks.
        longer = math.ceil(1.5 * thin * draws / max(first.effective, 1.0))
        return run(releases, population, seed ^ 1, min(MOST_THIN, longer))

    return sample


class Trial(NamedTuple):
    """One trial, or why it failed."""

    names: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    uniforms: tuple[float, ...] = ()
    truths: tuple[float, ...] = ()
    effective: float = math.nan
    error: str = ""


def run_trial(world: World, sample: Sampler, draws: int, seed: np.random.SeedSequence) -> Trial:
    """Truth, releases, posterior, ranks."""
    for_world, for_sampler, for_ties = seed.spawn(3)
    rng, ties = np.random.default_rng(for_world), np.random.default_rng(for_ties)
    theta = dict(world.population.sample_prior(rng, 1))
    sizes = world.sizes(rng)
    releases = world.releases(rng, theta, sizes)
    theta |= {name: np.array([float(n or 0)]) for name, n in zip(world.size_names(), sizes, strict=False)}
    try:
        found = sample(releases, world.population, int(for_sampler.generate_state(1, np.uint64)[0]))
        pooled = {name: _pool(found.draws[name], np.ndim(value) - 1, name) for name, value in theta.items()}
        ranked = {name: _thin(values, draws, name) for name, values in _scalars(pooled).items()}
    except NoisewiseError as error:
        return Trial(error=str(error))
    truths = {name: float(value[0]) for name, value in _scalars(theta).items()}
    ranks = [_rank(ties, truth, ranked[name]) for name, truth in truths.items()]
    uniforms = [(rank + ties.random()) / (draws + 1) for rank in ranks]
    return Trial(tuple(truths), tuple(ranks), tuple(uniforms), tuple(truths.values()), found.effective)


def run_trials(
    world: World,
    sample: Sampler,
    draws: int,
    seeds: Sequence[np.random.SeedSequence],
    *,
    workers: int = 1,
    progress: bool | Progress = False,
) -> list[Trial]:
    """All trials, in order; the first ten failing all stops the rest."""
    from joblib import Parallel, delayed, parallel_config

    found: list[Trial] = []
    settings = {"backend": "loky", "inner_max_num_threads": 1} if workers > 1 else {}
    with parallel_config(**settings), shown(progress, "Calibrating") as report:
        jobs = Parallel(n_jobs=workers, return_as="generator")
        for trial in jobs(delayed(run_trial)(world, sample, draws, seed) for seed in seeds):
            found.append(trial)
            if report is not None:
                report(len(found), len(seeds))
            if len(found) == PATIENCE and all(each.error for each in found):
                raise NoisewiseError(
                    f"{PATIENCE} trials of {PATIENCE} failed. The first said: {found[0].error}", trials=PATIENCE
                )
    return found


def _pool(values: Any, components: int, name: str) -> Floats:
    """All draws of a parameter, chain after chain: (draws,), or (draws, m) for a vector."""
    array = np.asarray(values, float)
    if not np.all(np.isfinite(array)):
        raise NoisewiseError(f"The posterior of {name} holds draws that are not finite.")
    return array.reshape(-1, *array.shape[array.ndim - components :])


def _scalars(theta: Mapping[str, Any]) -> dict[str, Floats]:
    """Vectors component by component, as name[k]."""
    flat: dict[str, Floats] = {}
    for name, value in theta.items():
        array = np.asarray(value, float)
        for index in np.ndindex(array.shape[1:]):
            label = f"[{','.join(map(str, index))}]" if index else ""
            flat[f"{name}{label}"] = array[(slice(None), *index)]
    return flat


def _thin(values: Floats, draws: int, name: str) -> Floats:
    """`draws` of the pool, evenly spaced."""
    if len(values) < draws:
        raise NoisewiseError(f"The posterior of {name} holds {len(values)} draws; {draws} are to be ranked.")
    chosen: Floats = values[((np.arange(draws) + 0.5) * len(values) / draws).astype(int)]
    return chosen


def _rank(rng: np.random.Generator, truth: float, draws: Floats) -> int:
    """How many draws lie below the truth; ties fall either way at random."""
    return int(np.sum(draws < truth)) + int(rng.integers(0, int(np.sum(draws == truth)) + 1))
