"""Regressions beside what others would use: NUTS on the same law, data augmentation, diffprivlib; and what size costs.

    OMP_NUM_THREADS=1 python benchmarks/regression_rivals.py [PART ...]
    parts: samplers predictions size clamp; all of them by default

samplers      effective draws per second of the processor, of the worst coefficient, at d = 2 and five holders of 1000
              rows. `marginal` and NumPyro's NUTS have one law (the normal law of the noisy moments, Laplace noise as a
              scale mixture); the data augmentation is a compiled one of our own after Ju, Awan, Gong & Rao (2022):
              every confidential row is proposed anew from the model and kept by the noise, coefficients and covariance
              are drawn from their conjugate laws. Posterior means stand beside: all three have the same priors.
              Compiling does not count, warm-up does.
predictions   diffprivlib's LinearRegression and LogisticRegression (extra [peers]) beside ours at equal epsilon, equal
              public bounds, on the same records, alternating: mean squared error, and log loss, on fresh rows. Both
              sides are epsilon-DP under change-one; diffprivlib's points have no intervals. diffprivlib 0.6 reads
              names that scikit-learn dropped after 1.5, and is told as not installed beside a newer one.
size          processor seconds of `infer` with its defaults (four chains of 1000 draws after 1000) at d = 10 and 20.
clamp         the same of a release whose bounds touch nobody, over one with the clamp taken out of the problem.
Nothing fails because a machine is slow; what is not installed is said.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numba import njit
from scipy import special, stats

import noisewise as nw
from noisewise.regression.methods import METHODS
from noisewise.regression.problem import Problem
from noisewise_papers.regression_coverage import simulated_release
from regression import SEED, SPREAD, Floats, effective_of, features, model, problem_of, releases, run, timed

HOLDERS, ROWS, DIMENSION = 5, 1000, 2
SWEEPS, NUTS_DRAWS = 4000, 1000
DATA_SETS, TESTED = 10, 4000


# --- samplers ---------------------------------------------------------------------------------------------------------


@njit(cache=True)
def log_noise(away: Floats, variance: Floats, laplace: Floats) -> float:
    """log density of the noise, up to a constant."""
    total = 0.0
    for k in range(len(away)):
        if laplace[k] > 0:
            total -= abs(away[k]) / laplace[k]
        else:
            total -= 0.5 * away[k] ** 2 / variance[k]
    return total


@njit(cache=True)
def renew_rows(
    rng: np.random.Generator, rows: Floats, sums: Floats, pairs: Any, observed: Floats, variance: Floats,
    laplace: Floats, root: Floats, theta: Floats, sigma: float,
) -> int:  # fmt: skip
    """Propose every row anew from the model; keep it by how well the noise explains the sums. Rows kept."""
    n, d = rows.shape[0], rows.shape[1] - 1
    size, kept = len(sums), 0
    moved, new = np.empty(size), np.empty(d + 1)
    here = log_noise(observed - sums, variance, laplace)
    for i in range(n):
        z = rng.standard_normal(d)
        new[d] = sigma * rng.standard_normal()
        for a in range(d):
            new[a] = 0.0
            for b in range(a + 1):
                new[a] += root[a, b] * z[b]
            new[d] += theta[a] * new[a]
        for k in range(size):
            a, b = pairs[k, 0], pairs[k, 1]
            moved[k] = sums[k] + new[a] * new[b] - rows[i, a] * rows[i, b]
        there = log_noise(observed - moved, variance, laplace)
        if math.log(rng.random()) < there - here:
            here, kept = there, kept + 1
            rows[i] = new
            sums[:] = moved
    return kept


def augmented(rng: np.random.Generator, problem: Problem, sweeps: int) -> tuple[Floats, float]:
    """Draws (sweeps, d) of the coefficients by data augmentation, and the share of rows that moved."""
    d, prior, total = problem.d, problem.prior, sum(int(holder.n) for holder in problem.holders)
    rows = [rng.standard_normal((int(holder.n), d + 1)) for holder in problem.holders]
    draws, kept = np.empty((sweeps, d)), 0
    for at in range(sweeps):
        w = np.concatenate(rows)
        x, y = w[:, :d], w[:, d]
        wishart = stats.wishart(total + d + SPREAD + 1, np.linalg.inv(x.T @ x + SPREAD * np.eye(d)))
        covariance = np.linalg.inv(np.atleast_2d(wishart.rvs(random_state=rng)))
        precision = x.T @ x + prior.precision
        mean = np.linalg.solve(precision, x.T @ y + prior.precision @ prior.mean)
        rate = prior.rate + 0.5 * (y @ y + prior.mean @ prior.precision @ prior.mean - mean @ precision @ mean)
        variance = rate / rng.standard_gamma(prior.shape + 0.5 * total)
        theta = mean + math.sqrt(variance) * np.linalg.solve(np.linalg.cholesky(precision).T, rng.standard_normal(d))
        root = np.ascontiguousarray(np.linalg.cholesky(covariance))
        for holder, own in zip(problem.holders, rows, strict=True):
            a, b = holder.pairs.T
            sums = np.einsum("ik,ik->k", own[:, a], own[:, b])
            kept += renew_rows(rng, own, sums, holder.pairs, holder.observed, holder.variance, holder.laplace, root,
                               theta, math.sqrt(variance))  # fmt: skip
        draws[at] = theta
    return draws, kept / (total * sweeps)


def by_numpyro(problem: Problem, draws: int) -> tuple[Floats, float]:
    """Draws (chains, draws, d) of the coefficients by NUTS on the law of `marginal`, and processor seconds."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    jax.config.update("jax_enable_x64", True)
    d, prior = problem.d, problem.prior
    root = np.linalg.cholesky(np.linalg.inv(prior.precision))

    def law() -> None:
        variance = numpyro.sample("variance", dist.InverseGamma(prior.shape, prior.rate))
        z = numpyro.sample("z", dist.Normal(jnp.zeros(d), 1.0))
        theta = numpyro.deterministic("theta", prior.mean + jnp.sqrt(variance) * (root @ z))
        lower = numpyro.sample(
            "precision", dist.WishartCholesky(d + SPREAD + 1.0, scale_tril=jnp.eye(d) / math.sqrt(SPREAD))
        )
        inverse = jax.scipy.linalg.solve_triangular(lower, jnp.eye(d), lower=True)
        covariance = inverse.T @ inverse
        cross = covariance @ theta
        second = jnp.block([[covariance, cross[:, None]], [cross[None], (theta @ cross + variance)[None, None]]])
        for j, holder in enumerate(problem.holders):
            a, b = holder.pairs.T
            spread = holder.n * (second[a][:, a] * second[b][:, b] + second[a][:, b] * second[b][:, a])
            noise = jnp.asarray(holder.variance)
            if np.any(holder.laplace > 0):  # Laplace noise of scale s: variance 2 s^2 e, e exponential
                mixing = numpyro.sample(f"mixing{j}", dist.Exponential(jnp.ones(len(a))))
                noise = 2 * jnp.square(jnp.asarray(holder.laplace)) * mixing
            told = dist.MultivariateNormal(holder.n * second[a, b], spread + jnp.diag(noise))
            numpyro.sample(f"told{j}", told, obs=jnp.asarray(holder.observed))

    mcmc = numpyro.infer.MCMC(
        numpyro.infer.NUTS(law, dense_mass=True), num_warmup=draws, num_samples=draws, num_chains=4,
        chain_method="sequential", progress_bar=False,
    )  # fmt: skip
    mcmc.run(jax.random.PRNGKey(SEED))  # compiles
    _, seconds = timed(lambda: jax.block_until_ready(_rerun(mcmc, jax.random.PRNGKey(SEED + 1))))
    return np.asarray(mcmc.get_samples(group_by_chain=True)["theta"]), seconds


def _rerun(mcmc: Any, key: Any) -> Any:
    mcmc.run(key)
    return mcmc.get_samples()


def part_samplers() -> None:
    """marginal, NUTS and data augmentation on the same releases."""
    for law, epsilon in (("gaussian", "1"), ("laplace", "1"), ("laplace", "10")):
        problem = problem_of(law, DIMENSION, ROWS, HOLDERS, epsilon)
        print(f"\n{law} noise, epsilon = {epsilon}, d = {DIMENSION}, {HOLDERS} holders of {ROWS} rows")
        ours = run("marginal", problem, 2.0)
        theta = ours.fit.theta
        print(f"  {'marginal':<20}{ours.per_second:12,.0f} ESS/second   {_means(theta)}")
        augmented(np.random.default_rng(SEED), problem, 5)
        (draws, moved), seconds = timed(partial(augmented, np.random.default_rng(SEED), problem, SWEEPS))
        later = draws[SWEEPS // 4 :].reshape(3, -1, DIMENSION)
        rate = effective_of(later) / seconds
        print(f"  {'data augmentation':<20}{rate:12,.1f} ESS/second   {_means(later)}   {100 * moved:.0f} % of rows "
              f"moved; {ours.per_second / rate:,.0f} times as many by marginal")  # fmt: skip
        try:
            found, seconds = by_numpyro(problem, NUTS_DRAWS)
        except ImportError:
            print("  NumPyro is not installed (extra [nuts]).")
            continue
        rate = effective_of(found) / seconds
        print(f"  {'NumPyro, NUTS':<20}{rate:12,.1f} ESS/second   {_means(found)}   "
              f"{ours.per_second / rate:,.0f} times as many by marginal", flush=True)  # fmt: skip


def _means(theta: Floats) -> str:
    flat = theta.reshape(-1, theta.shape[-1])
    pairs = zip(flat.mean(axis=0), flat.std(axis=0), strict=True)
    return ", ".join(f"{mean:.3f} +- {sd:.3f}" for mean, sd in pairs)


# --- predictions ------------------------------------------------------------------------------------------------------


def part_predictions() -> None:
    """Ours and diffprivlib's on the same records at the same epsilon, alternating."""
    try:
        import diffprivlib.models as peer
    except ImportError:
        print("\ndiffprivlib is not installed (extra [peers]).")
        return
    rng, d = np.random.default_rng(SEED), 3
    for n in (1000, 10_000):
        for epsilon in (1.0, 4.0):
            found: dict[str, list[float]] = {}
            for _ in range(DATA_SETS):
                x = np.clip(rng.standard_normal((n + TESTED, d)), -3, 3)
                beta = rng.normal(0, 0.7, d + 1)
                s = beta[0] + x @ beta[1:]
                line = np.clip(s + rng.standard_normal(len(s)), -6, 6)
                yes = (rng.random(len(s)) < special.expit(s)).astype(float)
                for kind, y in (("line", line), ("yes/no", yes)):
                    for who, errors in (("ours", _ours), ("theirs", partial(_theirs, peer))):
                        predicted = errors(rng, kind, x[:n], y[:n], x[n:], epsilon)
                        found.setdefault(f"{kind} {who}", []).append(_error(kind, predicted, y[n:]))
                    found.setdefault(f"{kind} at best", []).append(
                        _error(kind, s[n:] if kind == "line" else special.expit(s[n:]), y[n:])
                    )
            print(f"\nn = {n}, epsilon = {epsilon:g}, d = {d}, {DATA_SETS} data sets")
            for name, errors in found.items():
                what = "squared error" if name.startswith("line") else "log loss"
                print(
                    f"  {name:<16} {what:<14} {np.mean(errors):8.4f} on average, {np.median(errors):8.4f} in the middle"
                )
            for kind in ("line", "yes/no"):
                won = np.mean(np.array(found[f"{kind} ours"]) < np.array(found[f"{kind} theirs"]))
                print(f"  {kind}: ours is nearer in {100 * won:.0f} % of the data sets", flush=True)


def _error(kind: str, predicted: Floats, y: Floats) -> float:
    if kind == "line":
        return float(np.mean(np.square(predicted - y)))
    p = np.clip(predicted, 1e-9, 1 - 1e-9)
    return float(-np.mean(y * np.log(p) + (1 - y) * np.log1p(-p)))


def _ours(rng: np.random.Generator, kind: str, x: Floats, y: Floats, new: Floats, epsilon: float) -> Floats:
    names = features(x.shape[1])
    columns: dict[str, Any] = {name: nw.Bounded(-3, 3) for name in names}
    columns["y"] = nw.Bounded(-6, 6) if kind == "line" else nw.Levels([0, 1])
    response = nw.column("y") if kind == "line" else nw.column("y").equals(1)
    scale = {"scale": {"y": 2}} if kind == "line" else {}
    schema = nw.Schema(columns, n=len(x), neighbours="change-one")
    plan = nw.plan(nw.Moments(names, response, **scale), schema, guarantee=nw.PureDP(epsilon))
    release = simulated_release(rng, plan, dict(zip(names, x.T, strict=True)) | {"y": y})
    fitted: Any = (nw.LinearRegression if kind == "line" else nw.LogisticRegression)(names, response)
    posterior = nw.infer(release, fitted, seed=SEED, draws=500, warmup=500, progress=False)
    return np.asarray(fitted.predict_mean(posterior, new))


def _theirs(
    peer: Any, rng: np.random.Generator, kind: str, x: Floats, y: Floats, new: Floats, epsilon: float
) -> Floats:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "line":
            bounds = {"bounds_X": (-3.0, 3.0), "bounds_y": (-6.0, 6.0)}
            fitted = peer.LinearRegression(epsilon=epsilon, random_state=int(rng.integers(2**31)), **bounds)
            return np.asarray(fitted.fit(x, y).predict(new))
        fitted = peer.LogisticRegression(
            epsilon=epsilon, data_norm=3 * math.sqrt(x.shape[1]), random_state=int(rng.integers(2**31))
        )
        return np.asarray(fitted.fit(x, y).predict_proba(new)[:, 1])


# --- size and clamps --------------------------------------------------------------------------------------------------


def part_size() -> None:
    """Seconds of infer at d = 10 and 20, after compiling."""
    print("\nprocessor seconds of infer, 4000 draws, one holder of 10 000 rows, epsilon = 10")
    for law in ("gaussian", "laplace"):
        for d, aim in ((10, 10), (20, 120)):
            (release,) = releases(law, d, 10_000, 1, "10")
            ask = partial(nw.infer, release, model(d), seed=SEED, progress=False)
            ask(draws=10, warmup=10)  # compiles
            posterior, seconds = timed(ask)
            effective = min(float(np.min(value)) for value in posterior.ess.values())
            print(f"  {law:<9} d = {d:<3} {seconds:8.1f} s (aim: {aim})   smallest ESS {effective:,.0f}", flush=True)


def part_clamp() -> None:
    """What a clamp costs that touches nobody."""
    print("\nmarginal on a release whose bounds touch nobody, over the same with the clamp taken out")
    rng = np.random.default_rng(SEED)
    for d in (1, 2):
        names = features(d)
        schema = nw.Schema({name: nw.Bounded(-9, 9) for name in (*names, "y")}, n=ROWS, neighbours="change-one")
        plan = nw.plan(nw.Moments(names, "y"), schema, guarantee=nw.GaussianDP(20))
        x = rng.standard_normal((ROWS, d))
        columns = dict(zip(names, x.T, strict=True)) | {"y": x.sum(axis=1) + rng.standard_normal(ROWS)}
        problem = nw.LinearRegression(names, "y").problem(simulated_release(rng, plan, columns))
        plain = replace(problem, holders=tuple(replace(holder, clamps=False) for holder in problem.holders))
        seconds = []
        for one in (problem, plain):
            ask = partial(METHODS["marginal"].run, one, chains=4, draws=1000, warmup=1000)
            ask(np.random.default_rng(SEED))
            seconds.append(min(timed(partial(ask, np.random.default_rng(SEED)))[1] for _ in range(3)))
        print(f"  d = {d}: {seconds[0]:.3f} s over {seconds[1]:.3f} s: {seconds[0] / seconds[1]:.2f} times", flush=True)


PARTS = {"samplers": part_samplers, "predictions": part_predictions, "size": part_size, "clamp": part_clamp}


def main(chosen: Sequence[str]) -> None:
    if unknown := set(chosen) - set(PARTS):
        sys.exit(f"There is no {', '.join(sorted(unknown))}; parts: {', '.join(PARTS)}.")
    for name in chosen or PARTS:
        PARTS[name]()
    if hasattr(os, "getloadavg"):
        print("\nload average " + " ".join(f"{load:.1f}" for load in os.getloadavg()))


if __name__ == "__main__":
    main(sys.argv[1:])
