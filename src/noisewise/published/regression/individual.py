"""`individual`: every person's row is an unknown, all sampled by NUTS (Bernstein & Sheldon 2019, MCMC-Ind).

    x_i = mu + R z_i,  y_i = theta'u_i + sigma e_i,   z_i, e_i standard normal,   t_j = moments of the rows + noise

Rows are cleaned as the holder cleaned them (clamped, shortened, averaged), so that nothing is approximated; but the
cost grows with the number of people, and precise releases make a geometry that NUTS walks slowly. A yardstick for small
n. Needs numpyro, the extra `nuts`.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from noisewise.errors import Unsupported
from noisewise.inference.progress import Progress
from noisewise.regression.loadings import require_normal_covariates
from noisewise.regression.problem import Fit, Holder, NormalX, Problem


def is_installed() -> bool:
    """Whether numpyro can be imported; nothing is imported to find out."""
    return importlib.util.find_spec("numpyro") is not None and importlib.util.find_spec("jax") is not None


def sample(
    problem: Problem,
    rng: np.random.Generator,
    *,
    chains: int,
    draws: int,
    warmup: int,
    progress: Progress | None = None,
    accept: float = 0.9,
) -> Fit:
    """Draws of theta, sigma^2, mu and Sigma; `accept` is NUTS's target acceptance."""
    x = require_normal_covariates(problem, "individual")
    if not is_installed():
        raise Unsupported(
            "method 'individual' needs numpyro, which is not installed. "
            "Install it with: pip install 'noisewise[nuts]'. Every other method works without it."
        )
    jax, infer = importlib.import_module("jax"), importlib.import_module("numpyro.infer")
    with _double_precision(jax):
        kernel = infer.NUTS(_model(problem, x), target_accept_prob=accept)
        run = infer.MCMC(
            kernel, num_warmup=warmup, num_samples=draws, num_chains=chains, chain_method="sequential",
            progress_bar=False,
        )  # fmt: skip
        run.run(jax.random.PRNGKey(int(rng.integers(2**31))), extra_fields=("diverging",))
        drawn = {name: np.asarray(value, float) for name, value in run.get_samples(group_by_chain=True).items()}
        diverged = int(np.asarray(run.get_extra_fields()["diverging"]).sum())
    if progress:
        progress(chains * (warmup + draws), chains * (warmup + draws))
    notes = (f"{diverged} of {chains * draws} NUTS steps diverged.",) if diverged else ()
    if any(not holder.clamps for holder in problem.holders):
        notes = (*notes, "Records outside the bounds were refused; the rows here are not held inside them.")
    return Fit(
        theta=drawn["theta"],
        variance=drawn["variance"],
        how="individual: NUTS over every row (Bernstein & Sheldon 2019)",
        mean_x=drawn["mean_x"],
        covariance_x=drawn["covariance_x"],
        notes=notes,
        details={"diverged": diverged},
    )


def _double_precision(jax: Any) -> Any:
    """A context in which jax computes in double precision, and after which it is as it was."""
    experimental = importlib.import_module("jax.experimental")
    return experimental.enable_x64() if hasattr(experimental, "enable_x64") else jax.enable_x64(True)


def _model(problem: Problem, x: NormalX) -> Callable[[], None]:
    """The joint law of parameters, rows and releases, in numpyro's words."""
    pyro, dist = importlib.import_module("numpyro"), importlib.import_module("numpyro.distributions")
    jnp = importlib.import_module("jax.numpy")

    def model() -> None:
        theta, variance = _coefficients(problem, pyro, dist, jnp)
        mean, root = _covariates(problem, x, pyro, dist, jnp)
        for j, holder in enumerate(problem.holders):
            people = holder.n * holder.block
            z = pyro.sample(f"z_{j}", dist.Normal(0.0, 1.0).expand([people, problem.d]).to_event(2))
            e = pyro.sample(f"e_{j}", dist.Normal(0.0, 1.0).expand([people]).to_event(1))
            covariates = mean + z @ root.T
            u = jnp.concatenate([jnp.ones((people, 1)), covariates], 1) if problem.intercept else covariates
            y = u @ theta + jnp.sqrt(variance) * e
            rows = _cleaned(holder, problem, jnp.concatenate([u, y[:, None]], 1), jnp)
            sums = (rows.T @ rows)[holder.pairs[:, 0], holder.pairs[:, 1]]
            is_laplace = holder.laplace > 0
            for kind, chosen, law in (("gaussian", ~is_laplace, dist.Normal), ("laplace", is_laplace, dist.Laplace)):
                if chosen.any():
                    scale = (np.sqrt(holder.variance) if kind == "gaussian" else holder.laplace)[chosen]
                    pyro.sample(f"{kind}_{j}", law(sums[chosen], scale).to_event(1), obs=holder.observed[chosen])

    return model


def _coefficients(problem: Problem, pyro: Any, dist: Any, jnp: Any) -> tuple[Any, Any]:
    """theta and sigma^2 from their priors."""
    prior, q = problem.prior, problem.q
    variance = pyro.sample("variance", dist.InverseGamma(prior.shape, prior.rate))
    root = np.linalg.cholesky(np.linalg.inv(prior.precision))
    away = root @ pyro.sample("theta_base", dist.Normal(0.0, 1.0).expand([q]).to_event(1))
    if prior.is_learned:
        tau = jnp.sqrt(pyro.sample("tau_squared", dist.InverseGamma(0.5, 0.5)))
        away = away * jnp.where(np.arange(q) < int(problem.intercept), 1.0, tau)
    if prior.is_relative:
        away = away * jnp.sqrt(variance)
    return pyro.deterministic("theta", prior.mean + away), variance


def _covariates(problem: Problem, x: NormalX, pyro: Any, dist: Any, jnp: Any) -> tuple[Any, Any]:
    """mu and a root of Sigma, by the Bartlett form of the inverse Wishart law."""
    d = problem.d
    squares = pyro.sample("squares", dist.Gamma(0.5 * (x.degrees - np.arange(d)), 0.5).to_event(1))
    bartlett = jnp.diag(jnp.sqrt(squares))
    if d > 1:
        below = pyro.sample("below", dist.Normal(0.0, 1.0).expand([d * (d - 1) // 2]).to_event(1))
        bartlett = bartlett.at[np.tril_indices(d, -1)].set(below)
    root = jnp.linalg.solve(bartlett, np.linalg.cholesky(x.scale).T).T  # L A^-T
    mean = jnp.zeros(d)
    if problem.intercept:
        base = pyro.sample("mean_base", dist.Normal(0.0, 1.0).expand([d]).to_event(1))
        mean = x.location + root @ base / np.sqrt(x.strength)
    pyro.deterministic("covariance_x", root @ root.T)
    return pyro.deterministic("mean_x", mean), root


def _cleaned(holder: Holder, problem: Problem, rows: Any, jnp: Any) -> Any:
    """The holder's rows: in its units, clamped, shortened, averaged in blocks."""
    start = int(problem.intercept)
    rows = rows @ np.asarray(holder.map, float).T
    entries = rows[:, start:]
    if holder.clamps:
        entries = jnp.clip(entries, holder.low, holder.high)
    if holder.shrink is not None:
        norm = jnp.sqrt(jnp.sum(entries**2, 1, keepdims=True))
        entries = entries * jnp.minimum(1.0, holder.shrink / norm)
    rows = jnp.concatenate([rows[:, :start], entries], 1)
    if holder.block > 1:
        rows = rows.reshape(holder.n, holder.block, -1).sum(1) / np.sqrt(holder.block)
    return rows
