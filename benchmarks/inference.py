"""What `infer` does by default beside the published samplers, on the same release, in one run.

    python benchmarks/inference.py [PART ...]        parts: mean median pair local flat; all of them by default

The unit is effective draws of the parameter per second of the processor, warm-up and set-up included, so that a busy
machine hardly changes a ratio. Independent draws count as their number; chains by `posterior.ess`, the smaller of
centre and tails, of the parameter that mixes worst. Every sampler gets the draws and the chains that a user gets, and
its best number of particles in a small grid. Nothing fails because a machine is slow.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from command import run_parts
from scipy import stats

import noisewise as nw
from noisewise.inference.posterior import Posterior
from noisewise.models.simulate import simulate
from noisewise.release import Release

SEED = 1
SHORT, ROUNDS = 1.0, 5
BOUND, N = 10, 100
x = nw.column("x")
VARIANCE = nw.Normal(mean=0, variance=stats.uniform(0, 10))
TRUTH = {"variance": 2.0}


class Run(NamedTuple):
    """One way to the posterior: what it is called, its effective draws, and the seconds they took."""

    name: str
    effective: float
    seconds: float
    mean: float
    sd: float

    @property
    def rate(self) -> float:
        return self.effective / self.seconds

    def __str__(self) -> str:
        numbers = f"{self.effective:9.0f} {self.seconds:9.2f} {self.rate:11.0f} {self.mean:9.3f} {self.sd:8.3f}"
        return f"{self.name:34s} {numbers}"


def schema_of(n: int) -> nw.Schema:
    return nw.Schema({"x": nw.Bounded(-BOUND, BOUND)}, n=n, neighbours="change-one")


def released(statistic: Any, guarantee: Any, population: Any = VARIANCE, n: int = N, **at: float) -> Release:
    made = nw.plan(statistic, schema_of(n), guarantee=guarantee)
    return simulate(made, population, at=at or TRUTH, seed=SEED)


def timed(act: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = act()
    return result, time.process_time() - start


def inferred(name: str, release: Release, population: Any = VARIANCE, **options: Any) -> Run:
    """The time of one run, of the best of five if it is short; a first one, not counted, loads compiled functions."""
    nw.infer(release, population, seed=SEED, progress=False, **{**options, "draws": 4, "warmup": 10})
    seconds = []
    while len(seconds) < 1 or (sum(seconds) < SHORT and len(seconds) < ROUNDS):
        posterior, taken = timed(lambda: nw.infer(release, population, seed=SEED, progress=False, **options))
        seconds.append(taken)
    worst = min(posterior.ess, key=posterior.ess.__getitem__)
    return Run(name, effective_of(posterior), min(seconds), posterior.mean[worst], posterior.sd[worst])


def effective_of(posterior: Posterior) -> float:
    if "independent draws" in posterior.because:
        return float(next(iter(posterior.draws.values())).size)
    return float(min(posterior.ess.values()))


def best_of(method: str, counts: tuple[int, ...], release: Release, population: Any = VARIANCE, **options: Any) -> Run:
    """A sampler at the number of particles that serves it best."""
    runs = [
        inferred(
            f"{method}, {count} particles", release, population=population, method=method, n_particles=count, **options
        )
        for count in counts
    ]
    return max(runs, key=lambda run: run.rate)


def shown(title: str, runs: list[Run]) -> None:
    """A table whose last column is how many times faster the first line is."""
    print(f"\n{title}\n{'':34s} {'effective':>9s} {'seconds':>9s} {'per second':>11s} {'mean':>9s} {'sd':>8s}")
    for run in runs:
        print(run if run is runs[0] else f"{run} {runs[0].rate / run.rate:9.1f}x")


# --- the parts --------------------------------------------------------------------------------------------------------


def part_mean() -> None:
    """A mean of absolute values with Laplace noise: every method on the central limit theorem's law."""
    release = released(nw.Mean(abs(x)), nw.PureDP(1))
    runs = [inferred("auto", release, likelihood="clt")]
    runs += [best_of(method, (2, 5, 10, 20, 50), release, likelihood="clt") for method in ("pmmh", "mhaar", "cpm")]
    runs += [inferred(method, release, method=method, likelihood="clt") for method in ("mh-within-gibbs", "mh")]
    runs += [inferred("auto, exact law of the sum", release)]
    shown(f"mean(abs(x)) of {N} records, PureDP(1), variance unknown, normal law of the sum", runs)


def part_median() -> None:
    """A median under smooth sensitivity: particles are whole data sets."""
    for guarantee in (nw.ApproxDP("1", "1e-4"), nw.PureDP(1)):
        release = released(nw.Median(abs(x)), guarantee)
        runs = [inferred("auto", release)]
        runs += [best_of(method, (5, 20, 50), release) for method in ("pmmh", "mhaar")]
        shown(f"median(abs(x)) of {N} records, {guarantee}, variance unknown", runs)


def part_pair() -> None:
    """A mean and a mean of squares with Laplace noise, mean and sd unknown."""
    population = nw.Normal(mean=stats.norm(0, 5), sd=stats.halfnorm(scale=5))
    release = released(nw.Mean(x, x**2), nw.PureDP(1), population, mean=0.3, sd=1.5)
    runs = [inferred("auto", release, population, likelihood="clt")]
    runs += [best_of(method, (5, 20), release, population=population, likelihood="clt") for method in ("pmmh", "mhaar")]
    title = f"mean(x, x**2) of {N} records, PureDP(1), mean and sd unknown, normal law of the sums"
    try:
        runs.append(by_numpyro(release))
        shown(title, runs)
    except ImportError:
        shown(title, runs)
        print("NumPyro is not installed (extra [nuts]), so its model with the statistic as a latent was not run.")


def part_local() -> None:
    """Local answers: all of them at once."""
    print("\nrecords(abs(x)), PureDP(1), one answer a person\n   answers   seconds    of 100     effective per second")
    first = 0.0
    for n in (10**2, 10**3, 10**4, 10**5):
        run = inferred("auto", released(nw.Records(abs(x)), nw.PureDP(1), n=n))
        first = first or run.seconds
        print(f"{n:10d} {run.seconds:9.3f} {run.seconds / first:8.1f}x {run.rate:24.0f}")


def part_flat() -> None:
    """What a posterior costs as the number of records grows: the release is one number either way."""
    print(
        "\nseconds of infer by n\n"
        + f"{'':26s}"
        + "".join(f"{f'10^{k}':>9s}" for k in range(2, 8))
        + "  largest/smallest"
    )
    rate = nw.Normal(mean=stats.norm(0, 5), sd=2)
    kinds: dict[str, tuple[Any, str]] = {
        "mean(x)": (nw.Mean(x), "auto"),
        "mean(x), normal law": (nw.Mean(x), "clt"),
        "count(between(x, -1, 1))": (nw.Count(x.between(-1, 1)), "auto"),
    }
    for name, (statistic, likelihood) in kinds.items():
        times = []
        for k in range(2, 8):
            release = released(statistic, nw.PureDP(1), rate, n=10**k, mean=0.5)
            times.append(inferred(name, release, rate, likelihood=likelihood).seconds)
        print(f"{name:26s}" + "".join(f"{t:9.3f}" for t in times) + f"{max(times) / min(times):16.1f}x")


# --- the same model in NumPyro ----------------------------------------------------------------------------------------


def by_numpyro(release: Release) -> Run:
    """NUTS on mean, sd and the two sums: the sums normal given theta, the release Laplace around them."""
    import jax
    import numpyro
    import numpyro.distributions as dist
    from jax import numpy as jnp
    from numpyro.diagnostics import summary
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)
    scale = jnp.asarray(np.array(release.law.scale, dtype=float)) / N
    y = jnp.asarray(release.estimate)

    def model() -> None:
        mean = numpyro.sample("mean", dist.Normal(0.0, 5.0))
        sd = numpyro.sample("sd", dist.HalfNormal(5.0))
        # Moments of the records without the clamp, which lies more than five standard deviations away.
        centre = jnp.stack([mean, mean**2 + sd**2])
        cross = 2 * mean * sd**2
        spread = jnp.array([[sd**2, cross], [cross, 4 * mean**2 * sd**2 + 2 * sd**4]]) / N
        white = numpyro.sample("white", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
        statistic = centre + jnp.linalg.cholesky(spread) @ white
        numpyro.sample("y", dist.Laplace(statistic, scale).to_event(1), obs=y)

    def sampled(draws: int, warmup: int) -> Any:
        chains = MCMC(NUTS(model), num_warmup=warmup, num_samples=draws, num_chains=4, chain_method="vectorized",
                      progress_bar=False)  # fmt: skip
        chains.run(jax.random.PRNGKey(SEED))
        return jax.block_until_ready(chains.get_samples(group_by_chain=True))

    sampled(1000, 1000)  # compiles; NUTS compiles anew for other lengths
    found, seconds = timed(lambda: sampled(1000, 1000))
    effective = {name: float(summary({name: found[name]})[name]["n_eff"]) for name in ("mean", "sd")}
    worst = min(effective, key=effective.__getitem__)
    drawn = np.asarray(found[worst])
    return Run("NumPyro, NUTS with the sums latent", effective[worst], seconds, float(drawn.mean()), float(drawn.std()))


PARTS: dict[str, Callable[[], None]] = {
    "mean": part_mean, "median": part_median, "pair": part_pair, "local": part_local, "flat": part_flat,
}  # fmt: skip


if __name__ == "__main__":
    run_parts(PARTS)
