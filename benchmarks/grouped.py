"""Groups learnt from one release, beside a NumPyro model of the same law, in one run.

    python benchmarks/grouped.py [PART ...]        parts: seconds nuts; both by default

`seconds`: processor seconds of `infer` on mean(x, x**2, by=g) of 4, 20 and 100 groups of 5 to 5000 people, means
pooled, mean and sd of each group unknown; the first call of the process beside the best of three.
`nuts`: effective draws per second of the processor, of the number that mixes worst among means, standard deviations,
centre and spread, for 50 groups, and the same in NumPyro, as one who knows NUTS would write it there: no discrete
unknown (a size is a positive number with a flat prior, known by its noisy count; that sizes add up to n, which matters
for shares alone, is left out in its favour), sums integrated out, Laplace noise as normal with exponential variance,
means centred in groups about which the release says more than their common law and not centred in the others, chains
begun at what was published. Warm-up counts, compiling does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from command import run_parts
from scipy import stats

import noisewise as nw
from noisewise.models.simulate import simulate
from noisewise.release import Release

SEED = 1
SPREAD = 5.0  # standard deviation of the true means
NOISES = {"laplace": nw.PureDP(2), "gaussian": nw.GaussianDP(2)}
LAW = nw.Normal(mean=stats.norm(50, 10), sd=stats.lognorm(0.4, scale=12))
x = nw.column("x")


def released(groups: int, noise: str) -> Release:
    """One release of groups whose sizes are spread evenly, in logarithm, from 5 to 5000."""
    rng = np.random.default_rng(3)
    size = np.exp(rng.uniform(np.log(5), np.log(5000), groups))
    names = [f"g{k}" for k in range(groups)]
    columns: dict[str, nw.Bounded | nw.Levels] = {"x": nw.Bounded(0, 100), "g": nw.Levels(names)}
    schema = nw.Schema(columns, n=int(size.sum()), neighbours="change-one")
    plan = nw.plan(nw.Mean(x, x**2, by="g"), schema, guarantee=NOISES[noise])
    at = {"mean": rng.normal(50, SPREAD, groups), "sd": 12 * np.exp(0.2 * rng.standard_normal(groups)),
          "share": size / size.sum()}  # fmt: skip
    return simulate(plan, nw.Grouped("g", x=LAW, names=names), at=at, seed=SEED)


def timed(act: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = act()
    return result, time.process_time() - start


def inferred(release: Release) -> Any:
    return nw.infer(release, nw.Grouped("g", x=LAW, pooled=("mean",)), seed=SEED, progress=False)


def part_seconds() -> None:
    print(f"processor seconds, 4000 draws\n{'groups':>8s}{'noise':>12s}{'first':>9s}{'best of 3':>11s}")
    for groups in (4, 20, 100):
        for noise in NOISES:
            release = released(groups, noise)
            first, *others = [timed(lambda r=release: inferred(r))[1] for _ in range(4)]
            print(f"{groups:8d}{noise:>12s}{first:9.2f}{min(others):11.2f}")


def part_nuts(groups: int = 50) -> None:
    print(f"\n{groups} groups, one release\n{'':22s}{'effective':>10s}{'seconds':>9s}{'per second':>12s}{'worst':>14s}")
    for noise in NOISES:
        release = released(groups, noise)
        inferred(release)
        posterior, seconds = timed(lambda r=release: inferred(r))
        told = {name: float(np.min(value)) for name, value in posterior.ess.items() if name not in ("share", "size")}
        worst = min(told, key=told.__getitem__)
        ours = told[worst] / seconds
        print(f"{noise + ', infer':22s}{told[worst]:10.0f}{seconds:9.2f}{ours:12.0f}{worst:>14s}")
        try:
            found, seconds = by_numpyro(release, groups, is_laplace=noise == "laplace")
        except ImportError:
            print("NumPyro is not installed (extra [nuts]), so its model was not run.")
            return
        effective = effective_draws(found)
        worst = min(effective, key=effective.__getitem__)
        rate = effective[worst] / seconds
        print(f"{noise + ', NumPyro':22s}{effective[worst]:10.0f}{seconds:9.2f}{rate:12.1f}{worst:>14s}"
              f"{ours / rate:9.0f}x")  # fmt: skip
        ours_mean = posterior.draws["mean"].reshape(-1, groups)
        theirs = np.asarray(found["mean"]).reshape(-1, groups)
        apart = np.abs(ours_mean.mean(0) - theirs.mean(0)) / ours_mean.std(0)
        print(f"{'':22s}group means are {np.median(apart):.2f} sd apart in the middle, at most {apart.max():.2f}")


def effective_draws(found: dict[str, Any]) -> dict[str, float]:
    from numpyro.diagnostics import effective_sample_size

    return {name: float(np.min(effective_sample_size(np.asarray(found[name]))))
            for name in ("mean", "sd", "centre", "spread")}  # fmt: skip


def by_numpyro(release: Release, groups: int, *, is_laplace: bool) -> tuple[dict[str, Any], float]:
    """NUTS on centre, spread, means, standard deviations and sizes, and on variances where noise is Laplace."""
    import jax
    import numpyro
    import numpyro.distributions as dist
    from jax import numpy as jnp
    from numpyro.infer import MCMC, NUTS, init_to_value

    jax.config.update("jax_enable_x64", True)
    scale = np.array(release.law.scale, dtype=float).reshape(groups, 3)
    y = np.array(release.value, dtype=float).reshape(groups, 3) * np.array(release.law.step).reshape(groups, 3)
    noise = scale * (2**0.5 if is_laplace else 1.0)
    count = np.maximum(y[:, 0], noise[:, 0])
    published = y[:, 1] / count
    is_told = np.hypot(noise[:, 1], 50 * noise[:, 0]) / count < SPREAD

    def model() -> None:
        centre = numpyro.sample("centre", dist.Normal(50.0, 10.0))
        spread = numpyro.sample("spread", dist.HalfNormal(10.0))
        common = dist.Normal(jnp.where(is_told, centre, 0.0), jnp.where(is_told, spread, 1.0))
        place = numpyro.sample("place", common.to_event(1))
        mean = numpyro.deterministic("mean", jnp.where(is_told, place, centre + spread * place))
        sd = numpyro.sample("sd", dist.LogNormal(np.log(12.0), 0.4).expand([groups]).to_event(1))
        size = numpyro.sample("size", dist.ImproperUniform(dist.constraints.positive, (), (groups,)))
        seen = dist.Laplace(size, scale[:, 0]) if is_laplace else dist.Normal(size, scale[:, 0])
        numpyro.sample("count", seen.to_event(1), obs=y[:, 0])
        variance = scale[:, 1:] ** 2
        if is_laplace:
            variance = 2 * variance * numpyro.sample("mixed", dist.Exponential(1.0).expand([groups, 2]).to_event(2))
        # Sums of normal records without the clamp: mean n (m, m^2 + s^2), covariance n s^2 (1, 2m; 2m, 4m^2 + 2s^2).
        a = size * sd**2 + variance[:, 0]
        b = size * sd**2 * (4 * mean**2 + 2 * sd**2) + variance[:, 1]
        c = 2 * size * sd**2 * mean
        one, two = y[:, 1] - size * mean, y[:, 2] - size * (mean**2 + sd**2)
        det = a * b - c * c
        numpyro.factor("sums", -0.5 * ((b * one**2 - 2 * c * one * two + a * two**2) / det + jnp.log(det)).sum())

    start = {"centre": 50.0, "spread": SPREAD, "sd": jnp.full(groups, 12.0), "size": count,
             "place": jnp.where(is_told, jnp.clip(published, 20, 80), 0.0)}  # fmt: skip

    def sampled(count: int) -> Any:
        kernel = NUTS(model, init_strategy=init_to_value(values=start), target_accept_prob=0.9)
        chains = MCMC(kernel, num_warmup=500, num_samples=500, num_chains=count, chain_method="sequential",
                      progress_bar=False)  # fmt: skip
        chains.run(jax.random.PRNGKey(SEED))
        return jax.block_until_ready(chains.get_samples(group_by_chain=True))

    sampled(1)  # compiles
    return timed(lambda: sampled(4))


PARTS: dict[str, Callable[[], None]] = {"seconds": part_seconds, "nuts": part_nuts}


if __name__ == "__main__":
    run_parts(PARTS)
