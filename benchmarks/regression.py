"""Linear regression: every method on the same releases, and plain NumPy loops beside the compiled ones, in one run.

    OMP_NUM_THREADS=1 python benchmarks/regression.py [PART ...]
        [n=1000] [epsilon=1] [seconds=0.5] [d=2,5,10] [holders=1,5,10]
    parts: methods headline loops flat shortened; all of them by default

Rows are normal, without intercept (as published), each holder has n of them and publishes Moments under PureDP(epsilon)
or ApproxDP(epsilon, 1e-6). Times are of the processor, without progress bars and diagnostics. Draws per second are
effective ones of the worst coefficient (the smaller of bulk and tail), over set-up, warm-up and draws of four chains,
run for some `seconds`. An iteration of `marginal` is a Hamiltonian step of several gradients. R-hat stands beside where
chains disagree: an effective size means little there. The largest sd tells how much a method made of the releases:
where it is near that of the prior anything mixes well (`gibbs-noisy` pays for fourth moments, too). `fixed-s`,
`fixed-s-fast` and `naive` leave noise out and sample another law; they are listed and not counted as rivals.
`individual` is timed where numpyro is installed, on 100 rows. The loops are the published boxes (Alparslan 2023,
thesis, Algorithms 16 and 17) as anyone would write them. Nothing fails because a machine is slow.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from command import asked, say_load
from scipy import stats

import noisewise as nw
from noisewise.errors import NoisewiseError
from noisewise.inference.diagnostics import ess_bulk, ess_tail, rhat
from noisewise.published.regression.individual import is_installed
from noisewise.regression.methods import METHODS
from noisewise.regression.problem import Fit, Problem
from noisewise.release import Release

Floats = np.ndarray[Any, np.dtype[np.float64]]
SEED, CHAINS, WARMUP, SHORT, LONGEST = 1, 4, 1000, 100, 50_000
SLOW = 1.0  # seconds for 20 iterations, beyond which warm-up and draws are cut
DELTA, BOUND, SPREAD, FEW_ROWS = "1e-6", 4.0, 4.0, 100
SETTINGS = {"n": "1000", "epsilon": "1", "seconds": "0.5", "d": "2,5,10", "holders": "1,5,10"}
NOISE_AWARE = ("gibbs-noisy", "gibbs-prior", "gibbs-update", "bernstein-distributed", "normal-x")
LEAVE_NOISE_OUT = ("fixed-s", "fixed-s-fast", "naive")
OURS = ("marginal", "exact-gibbs")


# --- releases ---------------------------------------------------------------------------------------------------------


def features(d: int) -> list[str]:
    return [f"x{k + 1}" for k in range(d)]


def guarantee(law: str, epsilon: str) -> nw.PureDP | nw.ApproxDP:
    return nw.PureDP(epsilon) if law == "laplace" else nw.ApproxDP(epsilon, DELTA)


def radius(d: int) -> float:
    """One row (x, y) in a hundred thousand is longer: no method has to model the shortening."""
    return round(math.sqrt(stats.chi2(d + 1).ppf(0.99999)), 2)


def model(d: int, *, conjugate: bool = True) -> nw.LinearRegression:
    """Weak priors; the conjugate one, as the Gibbs samplers need, or coefficients and noise apart."""
    covariates = nw.NormalCovariates(0, 1, SPREAD, d + SPREAD + 1)
    if conjugate:
        prior = nw.NormalInverseGamma(0, 1, 3, 1)
        return nw.LinearRegression(features(d), "y", intercept=False, prior=prior, covariates=covariates)
    return nw.LinearRegression(
        features(d), "y", intercept=False, coefficients=stats.norm(0, 1), noise=stats.invgamma(3, scale=1),
        covariates=covariates,
    )  # fmt: skip


def releases(
    law: str, d: int, n: int, holders: int, epsilon: str, *, fourth: bool = False, shrink: float | None = None
) -> list[Release]:
    """What `holders` publish about rows of variance 1, half of which the covariates explain."""
    names = features(d)
    columns = {name: nw.Bounded(-BOUND, BOUND) for name in (*names, "y")}
    schema = nw.Schema(columns, n=n, neighbours="change-one")
    moments = nw.Moments(names, "y", intercept=False, fourth=fourth, shrink=shrink or radius(d))
    plan = nw.plan(moments, schema, guarantee=guarantee(law, epsilon))
    truth = {name: math.sqrt(0.5 / d) * (-1) ** k for k, name in enumerate(names)} | {"noise_variance": 0.5}
    truth |= {"covariate_mean": np.zeros(d), "covariate_covariance": np.eye(d)}
    return [nw.simulate(plan, model(d), at=truth, seed=SEED + j) for j in range(holders)]


def problem_of(law: str, d: int, n: int, holders: int, epsilon: str, *, fourth: bool = False, **kind: bool) -> Problem:
    """The releases as numbers. That one row in 100 000 was shortened is left out, as the published methods do."""
    problem = model(d, **kind).problem(releases(law, d, n, holders, epsilon, fourth=fourth))
    plain = tuple(replace(holder, shrink=None, clamps=False) for holder in problem.holders)
    return replace(problem, holders=plain)


# --- measuring --------------------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """One method on one problem."""

    milliseconds: float  # an iteration of one chain
    per_second: float  # effective draws of the worst coefficient
    rhat: float
    fit: Fit


def timed(act: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = act()
    return result, time.process_time() - start


def effective_of(theta: Floats) -> float:
    """The smaller of bulk and tail effective size, of the coefficient that mixes worst; theta (chains, draws, q)."""
    return min(min(ess_bulk(theta[..., k]), ess_tail(theta[..., k])) for k in range(theta.shape[2]))


def run(name: str, problem: Problem, seconds: float, *, warmup: int = WARMUP, most: int = LONGEST) -> Run:
    """A run that takes some seconds; an iteration is the difference of a longer and a shorter one."""

    def sample(draws: int, warmup: int) -> Fit:
        rng = np.random.default_rng(SEED)
        return METHODS[name].run(problem, rng, chains=CHAINS, draws=draws, warmup=warmup)

    sample(10, 10)  # loads what is compiled
    _, probe = timed(partial(sample, 10, 10))
    if probe > SLOW:  # one short run is enough to see
        warmup, most = SHORT // 2, SHORT
    _, short = (None, 0.0) if probe > SLOW else timed(partial(sample, SHORT, warmup))
    count = most if probe > SLOW else min(most, max(10 * SHORT, int(seconds * (SHORT + warmup) / short)))
    fit, taken = timed(partial(sample, count, warmup))
    worst = max(rhat(fit.theta[..., k]) for k in range(fit.theta.shape[2]))
    iterations = fit.theta.shape[1] + warmup if probe > SLOW else count - SHORT
    iteration = 1e3 * max(taken - short, 0.0) / (CHAINS * iterations)
    return Run(iteration, effective_of(fit.theta) / taken, worst, fit)


def shown(name: str, measured: Run) -> str:
    doubt = "" if measured.rhat < 1.02 else f"  R-hat {measured.rhat:.2f}"
    sd = measured.fit.theta.std(axis=(0, 1)).max()
    return f"  {name:<26} {measured.milliseconds:12.4f} {measured.per_second:12,.0f} {sd:9.3f}{doubt}"


# --- the published loops, in plain NumPy ------------------------------------------------------------------------------


class Published(NamedTuple):
    """J noisy matrices S and vectors z with their noise variances, and the priors."""

    s: Floats  # (J, d, d)
    z: Floats  # (J, d)
    s_variance: Floats
    z_variance: Floats
    n: Floats
    shape: float
    rate: float
    degrees: float

    @classmethod
    def of(cls, problem: Problem) -> Published:
        d, count = problem.d, len(problem.holders)
        s, z = np.zeros((count, d, d)), np.zeros((count, d))
        s_variance, z_variance = np.zeros_like(s), np.zeros_like(z)
        for j, holder in enumerate(problem.holders):
            for (a, b), value, variance in zip(holder.pairs, holder.observed, holder.variance, strict=True):
                if b < d:
                    s[j, a, b] = s[j, b, a] = value
                    s_variance[j, a, b] = s_variance[j, b, a] = variance
                elif a < d:
                    z[j, a], z_variance[j, a] = value, variance
        sizes = np.array([float(holder.n) for holder in problem.holders])
        return cls(s, z, s_variance, z_variance, sizes, problem.prior.shape, problem.prior.rate, d + SPREAD + 1)


def wishart(rng: np.random.Generator, root: Floats, degrees: float) -> Floats:
    """W ~ Wishart(degrees, root root')."""
    d = len(root)
    lower = np.tril(rng.standard_normal((d, d)), -1) + np.diag(np.sqrt(rng.chisquare(degrees - np.arange(d))))
    product = root @ lower
    return np.asarray(product @ product.T)


def log_normal(z: Floats, mean: Floats, covariance: Floats) -> float:
    away = z - mean
    return float(-0.5 * (np.linalg.slogdet(covariance)[1] + away @ np.linalg.solve(covariance, away)))


def log_cross(data: Published, j: int, s: Floats, theta: Floats, variance: float) -> float:
    """log p(z_j | S_j, theta, sigma^2), z integrated out."""
    return log_normal(data.z[j], s @ theta, variance * s + np.diag(data.z_variance[j]))


def move_matrix(
    rng: np.random.Generator, data: Published, j: int, s: Floats, precision: Floats, theta: Floats, variance: float,
    alpha: float,
) -> tuple[Floats, float]:  # fmt: skip
    """Algorithm 14: a Wishart step of S_j, and its acceptance probability."""
    d = len(s)
    moved = wishart(rng, np.asarray(np.linalg.cholesky(s / alpha), float), alpha)

    def log_target(s: Floats) -> float:
        free = np.triu_indices(d)
        noise = -0.5 * np.sum((data.s[j] - s)[free] ** 2 / data.s_variance[j][free])
        law = 0.5 * (data.n[j] - d - 1) * np.linalg.slogdet(s)[1] - 0.5 * np.trace(precision @ s)
        return float(noise + law + log_cross(data, j, s, theta, variance))

    shrunk = np.linalg.slogdet(s)[1] - np.linalg.slogdet(moved)[1]
    traces = np.trace(np.linalg.solve(s, moved)) - np.trace(np.linalg.solve(moved, s))
    ratio = (alpha - 0.5 * (d + 1)) * shrunk + 0.5 * alpha * traces + log_target(moved) - log_target(s)
    accepted = math.exp(min(0.0, ratio))
    return (moved if rng.random() < accepted else s), accepted


def draw_theta(rng: np.random.Generator, data: Published, s: Floats, variance: float) -> Floats:
    """Proposition 3, with theta ~ N(0, I)."""
    precision, weighted = np.eye(s.shape[1]), np.zeros(s.shape[1])
    for j in range(len(s)):
        gain = s[j] @ np.linalg.inv(variance * s[j] + np.diag(data.z_variance[j]))
        precision += gain @ s[j]
        weighted += gain @ data.z[j]
    spread = np.linalg.inv(precision)
    return np.asarray(spread @ weighted + np.linalg.cholesky(spread) @ rng.standard_normal(len(weighted)))


def move_variance(
    rng: np.random.Generator, data: Published, s: Floats, theta: Floats, variance: float, step: float
) -> tuple[float, float]:
    """Algorithm 15, on the log scale, and its acceptance probability."""

    def log_target(variance: float) -> float:
        prior = -data.shape * math.log(variance) - data.rate / variance
        return prior + sum(log_cross(data, j, s[j], theta, variance) for j in range(len(s)))

    moved = variance * math.exp(step * rng.standard_normal())
    accepted = math.exp(min(0.0, log_target(moved) - log_target(variance)))
    return (moved if rng.random() < accepted else variance), accepted


def possible(s: Floats) -> Floats:
    """The nearest positive semidefinite matrix, with a little room."""
    values, vectors = np.linalg.eigh(s)
    return np.asarray((vectors * np.maximum(values, 1e-3 * values.max())) @ vectors.T)


def normal_x_loop(rng: np.random.Generator, data: Published, iterations: int) -> Floats:
    """Algorithm 16 (MCMC-normalX), its steps tuned in the first half."""
    count, d, _ = data.s.shape
    s, theta, variance = np.array([possible(each) for each in data.s]), np.zeros(d), 1.0
    alpha, step, draws = np.log(data.n), 0.0, np.empty((iterations, d))
    for at in range(iterations):
        gain = (at + 1.0) ** -0.6 if at < iterations // 2 else 0.0
        lower = np.linalg.cholesky(SPREAD * np.eye(d) + s.sum(axis=0))
        precision = wishart(rng, np.asarray(np.linalg.inv(lower).T, float), data.degrees + data.n.sum())
        for j in range(count):
            s[j], accepted = move_matrix(rng, data, j, s[j], precision, theta, variance, d + math.exp(alpha[j]))
            alpha[j] -= 2 * gain * (accepted - 0.3)
        theta = draw_theta(rng, data, s, variance)
        variance, accepted = move_variance(rng, data, s, theta, variance, math.exp(step))
        step += gain * (accepted - 0.3)
        draws[at] = theta
    return draws


def fixed_s_loop(rng: np.random.Generator, data: Published, iterations: int) -> Floats:
    """Algorithm 17 (MCMC-fixedS)."""
    _, d, _ = data.s.shape
    s, theta, variance = np.array([possible(each) for each in data.s]), np.zeros(d), 1.0
    step, draws = 0.0, np.empty((iterations, d))
    for at in range(iterations):
        theta = draw_theta(rng, data, s, variance)
        variance, accepted = move_variance(rng, data, s, theta, variance, math.exp(step))
        step += (at + 1.0) ** -0.6 * (accepted - 0.3) if at < iterations // 2 else 0.0
        draws[at] = theta
    return draws


# --- parts ------------------------------------------------------------------------------------------------------------


def listed(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def part_methods(settings: dict[str, str]) -> None:
    """Every method at every d and number of holders."""
    n, epsilon, seconds = int(settings["n"]), settings["epsilon"], float(settings["seconds"])
    for law in ("gaussian", "laplace"):
        for d in listed(settings["d"]):
            for holders in listed(settings["holders"]):
                print(f"\n{guarantee(law, epsilon)}, {law} noise: d = {d}, {holders} holders of {n} rows")
                print("  method                     ms/iteration   ESS/second  largest sd")
                _methods_at(law, d, n, holders, epsilon, seconds)


def _methods_at(law: str, d: int, n: int, holders: int, epsilon: str, seconds: float) -> None:
    problem = problem_of(law, d, n, holders, epsilon)
    with_fourth = None if d > 5 else problem_of(law, d, n, holders, epsilon, fourth=True)
    for name in (*OURS, *NOISE_AWARE, *LEAVE_NOISE_OUT):
        given = with_fourth if name == "gibbs-noisy" else problem
        if given is None:
            print(f"  {name:<26} {'-':>12} {'-':>12}  (fourth moments of {d} covariates: too many to be of use)")
            continue
        try:
            print(shown(name, run(name, given, seconds)), flush=True)
        except NoisewiseError as refused:
            print(f"  {name:<26} {'-':>12} {'-':>12}  {str(refused).split('. ')[0]}.")
    print(f"  {'adassp':<26} {_adassp(law, d, n, holders, epsilon):12.4f} {'-':>12}  (a point estimate: ms a fit)")
    if is_installed() and holders == 1 and d == 2:
        few = problem_of(law, d, FEW_ROWS, 1, epsilon)
        print(shown(f"individual, n = {FEW_ROWS}", run("individual", few, seconds, warmup=300, most=10 * SHORT)))


def _adassp(law: str, d: int, n: int, holders: int, epsilon: str) -> float:
    """Milliseconds of one estimate, from moments and the smallest eigenvalue of the same records."""
    names = features(d)
    schema = nw.Schema({name: nw.Bounded(-BOUND, BOUND) for name in (*names, "y")}, n=n, neighbours="change-one")
    plan = nw.plan(nw.SmallestEigenvalue(names, shrink=radius(d)), schema, guarantee=guarantee(law, epsilon))
    moments = releases(law, d, n, holders, epsilon)
    value = [round(0.5 * n / step) for step in plan.law.step]  # type: ignore[union-attr]
    others = [Release.of(plan, value, dataset=one.dataset, ledger_head=None, simulated=True) for one in moments]
    problem = model(d).problem([*moments, *others])
    act = partial(METHODS["adassp"].run, problem, np.random.default_rng(SEED))
    return 1e3 * min(timed(act)[1] for _ in range(5))


def part_headline(settings: dict[str, str]) -> None:
    """marginal beside the published samplers that have the noise of X'X in their law, at d = 2 and five holders."""
    n, epsilon, seconds = int(settings["n"]), settings["epsilon"], float(settings["seconds"])
    for law in ("gaussian", "laplace"):
        for rows, what in ((n, "each"), (n // 5, "in all")):
            problem = problem_of(law, 2, rows, 5, epsilon)
            fourth = problem_of(law, 2, rows, 5, epsilon, fourth=True)
            ours = run("marginal", problem, seconds)
            rivals = {
                name: run(name, fourth if name == "gibbs-noisy" else problem, 2 * seconds) for name in NOISE_AWARE
            }
            best = max(rivals, key=lambda name: rivals[name].per_second)
            ratio = ours.per_second / rivals[best].per_second
            print(f"\n{guarantee(law, epsilon)}, d = 2, five holders, {n} rows {what}: ESS/second of the worst "
                  f"coefficient\n  marginal {ours.per_second:,.0f}; best published {best} "
                  f"{rivals[best].per_second:,.0f}: {ratio:.0f} times as many (aim: 20)")  # fmt: skip
            for name, measured in rivals.items():
                print(shown(name, measured), flush=True)
            print(shown("marginal", ours))


def part_loops(settings: dict[str, str]) -> None:
    """normal-x and fixed-s beside the plain loops, an iteration of one chain."""
    n, epsilon, seconds = int(settings["n"]), settings["epsilon"], float(settings["seconds"])
    print("\nAn iteration, compiled and as a plain NumPy loop (d, holders, both posterior means of x1 and its sd)")
    for name, loop in (("normal-x", normal_x_loop), ("fixed-s", fixed_s_loop)):
        for d in listed(settings["d"]):
            for holders in listed(settings["holders"]):
                problem = problem_of("gaussian", d, n, holders, epsilon, conjugate=False)
                compiled = run(name, problem, seconds)
                data, iterations = Published.of(problem), 2000
                draws, taken = timed(partial(loop, np.random.default_rng(SEED), data, iterations))
                each = 1e3 * taken / iterations
                theta, second = compiled.fit.theta[..., 0], draws[iterations // 2 :, 0]
                print(f"  {name:<9} d = {d:<3} J = {holders:<3} {compiled.milliseconds:8.4f} ms  loop {each:8.4f} ms  "
                      f"{each / compiled.milliseconds:5.0f} times    x1 {theta.mean():.2f} and {second.mean():.2f} "
                      f"+- {theta.std():.2f}", flush=True)  # fmt: skip


def part_flat(settings: dict[str, str]) -> None:
    """What more rows and more equal holders cost."""
    epsilon, seconds = settings["epsilon"], float(settings["seconds"])
    names = ("marginal", "exact-gibbs", "gibbs-update", "normal-x", "fixed-s")
    _table(names, "rows of a holder (five holders)", {f"n = {n:g}": (n, 5) for n in (1e3, 1e5, 1e7)}, epsilon, seconds)
    _table(names, "equal holders (1000 rows each)", {f"J = {j}": (1e3, j) for j in (1, 10, 100)}, epsilon, seconds)


def _table(names: Sequence[str], by: str, cells: dict[str, tuple[float, int]], epsilon: str, seconds: float) -> None:
    print(f"\nms/iteration by {by}, d = 2, gaussian noise")
    print("  " + " " * 14 + "".join(f"{label:>12}" for label in cells))
    problems = [problem_of("gaussian", 2, int(n), j, epsilon) for n, j in cells.values()]
    for name in names:
        measured = [run(name, problem, seconds, most=4000).milliseconds for problem in problems]
        print(f"  {name:<14}" + "".join(f"{each:12.4f}" for each in measured), flush=True)


def part_shortened(settings: dict[str, str]) -> None:
    """What it costs `marginal` that rows were shortened to a good radius, R = sqrt(d + 1), and it models that."""
    n, epsilon, seconds = int(settings["n"]), settings["epsilon"], float(settings["seconds"])
    print("\nmarginal where rows were shortened (modelled), and on the noisier release where they were not")
    print("                             ms/iteration   ESS/second  largest sd")
    for law in ("gaussian", "laplace"):
        for d in (1, 2):
            short = model(d).problem(releases(law, d, n, 1, epsilon, shrink=round(math.sqrt(d + 1), 2)))
            for name, problem in (("shortened", short), ("not", problem_of(law, d, n, 1, epsilon))):
                measured = run("marginal", problem, seconds)
                print(shown(f"{law}, d = {d}, {name}", measured), flush=True)


PARTS = {
    "methods": part_methods,
    "headline": part_headline,
    "loops": part_loops,
    "flat": part_flat,
    "shortened": part_shortened,
}


def main() -> None:
    chosen, settings = asked(PARTS, SETTINGS)
    for name in chosen:
        PARTS[name](settings)
    say_load()


if __name__ == "__main__":
    main()
