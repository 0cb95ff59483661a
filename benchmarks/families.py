"""Conjugate families: exact posteriors and compiled Gibbs chains beside a plain loop, on the same release, in one run.

    python benchmarks/families.py [FAMILY ...] [n=1000] [epsilon=0.01] [seconds=5]
    families: binomial multinomial poisson exponential normal; all of them by default

The plain loop is the noise-aware Gibbs sampler of Bernstein & Sheldon (2018), bounded or truncated, as anyone would
write the box: one chain, a Python loop, NumPy vectors and matrices, any family. It is corrected where the print is
wrong (the random sum's mean, the draw of the sum inside the bounds, both bounds of a count); that the parts inside and
outside the window are independent is left as published. For a count there is also a loop written out in scalars.

The unit is seconds of the processor for 4000 effective draws of the parameter that mixes worst. Independent draws count
as their number, chains by the smaller of bulk and tail effective size. `infer` is timed as a whole, set-up, warm-up and
diagnostics included, and scaled in proportion from the effective draws it gave to 4000. Where noise dominates, a plain
loop gives some ten of them in as many seconds; so its time is (iterations a draw) x (microseconds an iteration) x 4000,
with the first from a long run of the same chain, compiled, and the second its own. Nothing fails because a machine is
slow.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from command import asked, say_load
from scipy import stats
from scipy.special import ndtr, pdtr

import noisewise as nw
from noisewise.families.family import conjugate_family
from noisewise.families.gibbs import gibbs
from noisewise.inference.diagnostics import ess_bulk, ess_tail
from noisewise.release import Release

SEED, WANTED, WARMUP, TRIES = 1, 4000, 2000, 1000
SETTINGS = {"n": "1000", "epsilon": "0.01", "seconds": "5"}
Floats = np.ndarray[Any, np.dtype[np.float64]]
x = nw.column("x")


# --- the published loop, in plain NumPy -------------------------------------------------------------------------------


class Family(NamedTuple):
    """What Algorithm 2 and 3 ask of an exponential family with sufficient statistic t."""

    moments: Callable[[Any, float, float], tuple[Floats, Floats]]  # E[t; v <= x <= w] and E[t t'; v <= x <= w]
    update: Callable[[np.random.Generator, Floats, int], Any]  # theta ~ p(theta; Conjugate-Update(lambda, s, n))
    valid: Callable[[Floats, int], bool]  # could records have this sum?
    start: Any
    gap: float = 0.0  # between values: a count at the end of a window is inside it


def norm_product(mean: Floats, spread: Floats, y: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """The product of N(mean, spread) and N(y, diag(variance)), also where `spread` is singular."""
    gain = spread @ np.linalg.inv(spread + np.diag(variance))
    return mean + gain @ (y - mean), spread - gain @ spread


def draw_normal(rng: np.random.Generator, mean: Floats, spread: Floats) -> Floats:
    return rng.multivariate_normal(mean, spread, method="eigh", check_valid="ignore")


def draw_valid(rng: np.random.Generator, mean: Floats, spread: Floats, family: Family, n: int) -> Floats:
    """Sums are drawn until records could have them."""
    for _ in range(TRIES):
        s = draw_normal(rng, mean, spread)
        if family.valid(s, n):
            return s
    raise RuntimeError("no possible sum was found")


def mixing_variance(rng: np.random.Generator, noise: Floats, scale: Floats) -> Floats:
    """sigma^2 given the noise: 1/sigma^2 ~ InverseGaussian(1/(b |noise|), 1/b^2)."""
    return 1 / rng.wald(1 / (scale * np.maximum(np.abs(noise), 1e-9 * scale)), 1 / scale**2)


def random_sum(theta: Any, family: Family, n: int, v: float, w: float) -> tuple[Floats, Floats]:
    """RS-CLT: mean n q mu and covariance n q Sigma + n q (1 - q) mu mu', in moments over the window."""
    one, two = family.moments(theta, v, w)
    return n * one, n * (two - np.outer(one, one))


def bounded_loop(rng: np.random.Generator, y: Floats, b: Floats, n: int, family: Family, iterations: int) -> list[Any]:
    """Algorithm 3 of the thesis: the sufficient statistic itself is released."""
    theta, variance, draws = family.start, 2 * b**2, []
    for _ in range(iterations):
        mean, spread = random_sum(theta, family, n, -np.inf, np.inf)
        s = draw_valid(rng, *norm_product(mean, spread, y, variance), family, n)
        variance = mixing_variance(rng, y - s, b)
        theta = family.update(rng, s, n)
        draws.append(theta)
    return draws


def truncated_loop(
    rng: np.random.Generator, y: Floats, b: Floats, n: int, family: Family, iterations: int, window: tuple[float, float]
) -> list[Any]:
    """Algorithm 2 of the thesis: the sum over the records in the window is released; three parts, as if independent."""
    (low, high), gap = window, family.gap
    theta, variance, draws = family.start, 2 * b**2, []
    for _ in range(iterations):
        below, v_below = random_sum(theta, family, n, -np.inf, low - gap)
        above, v_above = random_sum(theta, family, n, high + gap, np.inf)
        inside, v_inside = norm_product(*random_sum(theta, family, n, low, high), y, variance)
        s = draw_valid(rng, below + inside + above, v_below + v_inside + v_above, family, n)
        theta = family.update(rng, s, n)
        again = norm_product(*random_sum(theta, family, n, low, high), y, variance)
        variance = mixing_variance(rng, y - draw_normal(rng, *again), b)
        draws.append(theta)
    return draws


def bernoulli_moments(p: float, *_: float) -> tuple[Floats, Floats]:
    return np.array([p]), np.array([[p]])


def categorical_moments(p: Floats, *_: float) -> tuple[Floats, Floats]:
    return p, np.diag(p)


def exponential_moments(rate: float, v: float, w: float) -> tuple[Floats, Floats]:
    one, two = 0.0, 0.0
    for end, sign in ((max(v, 0.0), 1), (w, -1)):
        if end < np.inf:
            weight = sign * np.exp(-rate * end)
            one += weight * (end + 1 / rate)
            two += weight * (end**2 + 2 * end / rate + 2 / rate**2)
    return np.array([one]), np.array([[two]])


def poisson_moments(rate: float, v: float, w: float) -> tuple[Floats, Floats]:
    """E[x; .] = rate P(v - 1 <= x <= w - 1), E[x(x - 1); .] = rate^2 P(v - 2 <= x <= w - 2)."""

    def chance(v: float, w: float) -> float:
        return float((pdtr(w, rate) if w >= 0 else 0.0) - (pdtr(v - 1, rate) if v >= 1 else 0.0))

    one = rate * chance(v - 1, w - 1)
    return np.array([one]), np.array([[one + rate**2 * chance(v - 2, w - 2)]])


def normal_moments(theta: tuple[float, float], v: float, w: float) -> tuple[Floats, Floats]:
    """E[x^k; .] for k <= 4 by parts."""
    mean, variance = theta
    sd = np.sqrt(variance)

    def edge(end: float, k: int) -> float:
        return (
            end**k * np.exp(-0.5 * ((end - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi)) if abs(end) < np.inf else 0.0
        )

    m = [float(ndtr((w - mean) / sd) - ndtr((v - mean) / sd))]
    m.append(mean * m[0] - variance * (edge(w, 0) - edge(v, 0)))
    for k in range(2, 5):
        m.append(mean * m[-1] + (k - 1) * variance * m[-2] - variance * (edge(w, k - 1) - edge(v, k - 1)))
    return np.array([m[1], m[2]]), np.array([[m[2], m[3]], [m[3], m[4]]])


def normal_update(rng: np.random.Generator, s: Floats, n: int) -> tuple[float, float]:
    """(mean, variance) with the prior NormalInverseGamma(0, 1, 3, 3)."""
    squares = s[1] - s[0] ** 2 / n + n / (1 + n) * (s[0] / n) ** 2
    variance = (3 + 0.5 * squares) / rng.gamma(3 + 0.5 * n)
    return rng.normal(s[0] / (1 + n), np.sqrt(variance / (1 + n))), variance


BERNOULLI = Family(
    bernoulli_moments, lambda rng, s, n: rng.beta(2 + s[0], 2 + n - s[0]), lambda s, n: 0 < s[0] < n, 0.5
)
CATEGORICAL = Family(
    categorical_moments, lambda rng, s, _: rng.dirichlet(1 + s), lambda s, _: s.min() > 0, np.full(4, 0.25)
)
POISSON = Family(poisson_moments, lambda rng, s, n: rng.gamma(2 + s[0]) / (2 + n), lambda s, _: s[0] > 0, 1.0, 1.0)
EXPONENTIAL = Family(exponential_moments, lambda rng, s, n: rng.gamma(2 + n) / (2 + s[0]), lambda s, _: s[0] > 0, 1.0)
NORMAL = Family(normal_moments, normal_update, lambda s, n: s[1] > s[0] ** 2 / n, (0.0, 1.5))


def binomial_by_hand(rng: np.random.Generator, y: float, b: float, n: int, iterations: int) -> list[float]:
    """The bounded loop for a count, with every vector and matrix written out as a number."""
    p, variance, draws = 0.5, 2 * b**2, []
    for _ in range(iterations):
        mean, spread = n * p, n * p * (1 - p)
        gain = spread / (spread + variance)
        s = -1.0
        while not 0 < s < n:
            s = rng.normal(mean + gain * (y - mean), math.sqrt(spread * (1 - gain)))
        variance = 1 / rng.wald(1 / (b * max(abs(y - s), 1e-9 * b)), 1 / b**2)
        p = rng.beta(2 + s, 2 + n - s)
        draws.append(p)
    return draws


# --- the models -------------------------------------------------------------------------------------------------------


class Model(NamedTuple):
    """A family: what is released of what records, and what the plain loop needs."""

    statistic: Any
    column: Any
    population: Any
    truth: dict[str, Any]
    family: Family
    window: tuple[float, float] | None = None

    def plain(self, rng: np.random.Generator, y: Floats, b: Floats, n: int, iterations: int) -> Floats:
        """Draws (iterations, parameters) of the plain loop."""
        if self.window is None:
            draws = bounded_loop(rng, y, b, n, self.family, iterations)
        else:
            draws = truncated_loop(rng, y, b, n, self.family, iterations, self.window)
        return np.array(draws, dtype=float).reshape(iterations, -1)


def redacted(law: Any, *features: Any) -> tuple[Any, tuple[float, float]]:
    """The sums over the middle 95 % of the records, as in the paper, and that window."""
    low, high = float(law.ppf(0.025)), float(law.ppf(0.975))
    return nw.TruncatedSum(list(features), "x", low, high), (low, high)


def models() -> dict[str, Model]:
    gamma = stats.gamma(2, scale=0.5)
    count, levels = nw.Count(x.equals("yes")), nw.Levels(["a", "b", "c", "d"])
    poisson, exponential = redacted(stats.poisson(4), x), redacted(stats.expon(), x)
    normal = redacted(stats.norm(0.5, 1), x, x**2)
    wide = nw.Bounded(0, 50)
    return {
        "binomial": Model(
            count, nw.Levels(["no", "yes"]), nw.Bernoulli(p=stats.beta(2, 2)), {"p": 0.3}, BERNOULLI
        ),
        "multinomial": Model(
            nw.Histogram("x"), levels, nw.Categorical(p=stats.dirichlet([1, 1, 1, 1])), {"p": [0.1, 0.2, 0.3, 0.4]},
            CATEGORICAL,
        ),
        "poisson": Model(poisson[0], wide, nw.Poisson(rate=gamma), {"rate": 4.0}, POISSON, poisson[1]),
        "exponential": Model(
            exponential[0], wide, nw.Exponential(rate=gamma), {"rate": 1.0}, EXPONENTIAL, exponential[1]
        ),
        "normal": Model(
            normal[0], nw.Bounded(-20, 20), nw.Normal(prior=stats.normal_inverse_gamma(0, 1, 3, 3)),
            {"mean": 0.5, "variance": 1.0}, NORMAL, normal[1],
        ),
    }  # fmt: skip


# --- measuring --------------------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """One way to the posterior: draws (count, parameters), how many they are worth, and seconds for 4000 of those."""

    name: str
    draws: Floats
    effective: float
    wanted: float
    microseconds: float = math.nan  # an iteration of one chain
    iac: float = math.nan  # iterations a draw


def timed(act: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = act()
    return result, time.process_time() - start


def effective_of(draws: Floats) -> float:
    """The smaller of bulk and tail effective size, of the parameter that mixes worst; draws (chains, draws, size)."""
    return min(min(ess_bulk(draws[..., k]), ess_tail(draws[..., k])) for k in range(draws.shape[2]))


def inferred(release: Release, population: Any, **options: Any) -> tuple[Floats, float, str]:
    """Draws (chains, draws, size), the best time of a few runs, and why; a first run loads compiled functions."""
    nw.infer(release, population, seed=SEED, progress=False, **{**options, "draws": 10, "warmup": 10})
    best, total, rounds = math.inf, 0.0, 0
    while rounds == 0 or (total < 1 and rounds < 5):
        posterior, seconds = timed(lambda: nw.infer(release, population, seed=SEED, progress=False, **options))
        best, total, rounds = min(best, seconds), total + seconds, rounds + 1
    draws = [value.reshape(*value.shape[:2], -1) for value in posterior.draws.values()]
    return np.concatenate(draws, axis=2), best, posterior.because


def by_exact(release: Release, model: Model) -> Run:
    draws, seconds, because = inferred(release, model.population)
    count = draws.shape[0] * draws.shape[1]
    effective = float(count) if "independent draws" in because else effective_of(draws)
    return Run("exact", draws.reshape(count, -1), effective, seconds * WANTED / effective)


def by_gibbs(release: Release, model: Model, most: float, variant: str) -> Run:
    """Four compiled chains for some seconds. An iteration is timed without set-up and diagnostics."""
    family = conjugate_family(release, model.population)
    sample = partial(gibbs, family=family, variant=variant, warmup=0)
    sample(np.random.default_rng(SEED), draws=10)
    made, seconds = timed(lambda: sample(np.random.default_rng(SEED), draws=20_000))
    count = max(5000, int(20_000 * most / seconds / 4))  # judging draws takes longer than drawing them
    options = {"method": "gibbs", "variant": variant, "draws": count, "warmup": WARMUP}
    draws, taken, _ = inferred(release, model.population, **options)
    effective, flat = effective_of(draws), draws.reshape(-1, draws.shape[2])
    microseconds, iac = 1e6 * seconds / made.sweeps, len(flat) / effective
    return Run("gibbs, 4 compiled chains", flat, effective, taken * WANTED / effective, microseconds, iac)


def by_loop(name: str, loop: Callable[[np.random.Generator, int], Floats], most: float, iac: float) -> Run:
    """One chain of a plain loop for some seconds; what a draw takes is known from the same chain, compiled."""
    _, seconds = timed(lambda: loop(np.random.default_rng(SEED), 500))
    count = WARMUP + max(2000, int(500 * most / seconds))
    draws, taken = timed(lambda: loop(np.random.default_rng(SEED), count))
    each = taken / count
    return Run(name, draws[WARMUP:], effective_of(draws[None, WARMUP:]), WANTED * iac * each, 1e6 * each, iac)


def loops(release: Release, model: Model, most: float, iac: float) -> list[Run]:
    y, b, n = given(release)
    runs = [by_loop("plain loop", lambda rng, count: model.plain(rng, y, b, n, count), most, iac)]
    if model.family is BERNOULLI:
        hand = partial(binomial_by_hand, y=float(y[0]), b=float(b[0]), n=n)
        runs.append(
            by_loop(
                "plain loop in scalars", lambda rng, count: np.array(hand(rng, iterations=count))[:, None], most, iac
            )
        )
    return runs


def given(release: Release) -> tuple[Floats, Floats, int]:
    """What a release says: the noisy sums, the scale of their noise, the number of records."""
    y = np.array(release.estimate, dtype=float)
    scale = np.array([float(value) for value in release.law.scale])  # type: ignore[union-attr]
    return y, np.broadcast_to(scale, y.shape).copy(), release.schema.largest_n


def shown(title: str, exact: Run, compiled: Run, plain: list[Run]) -> None:
    print(f"\n{title}")
    words = ("effective", "iteration", "IAC", "for 4000", "mean", "sd")
    print(f"{'':26s}" + "".join(f"{word:>12s}" for word in words))
    for run in (exact, compiled, *plain):
        step, iac = (f"{run.microseconds:.2f} us", f"{run.iac:.0f}") if run.iac > 0 else ("-", "-")
        first = run.draws[:, 0]
        print(
            f"{run.name:26s}{run.effective:12.0f}{step:>12s}{iac:>12s}{run.wanted:10.4f} s"
            f"{first.mean():12.4f}{first.std():12.4f}"
        )
    for run in plain:
        print(
            f"against {run.name}: exact {run.wanted / exact.wanted:.0f}x, gibbs {run.wanted / compiled.wanted:.1f}x to "
            f"{WANTED} effective draws; gibbs {run.microseconds / compiled.microseconds:.0f}x an iteration"
        )


def main() -> None:
    known = models()
    names, settings = asked(known, SETTINGS)
    n, epsilon, most = int(settings["n"]), float(settings["epsilon"]), float(settings["seconds"])
    for name in names:
        model = known[name]
        schema = nw.Schema({"x": model.column}, n=n, neighbours="change-one")
        plan = nw.plan(model.statistic, schema, guarantee=nw.PureDP(str(epsilon)))
        release = nw.simulate(plan, model.population, at=model.truth, seed=SEED)
        exact, compiled = by_exact(release, model), by_gibbs(release, model, most, "joint")
        same = compiled if model.window is None else by_gibbs(release, model, most, "published")
        plain = loops(release, model, most, same.iac)
        shown(f"{name}: {plan.statistic}, n = {n}, epsilon = {epsilon:g}", exact, compiled, plain)
    say_load()


if __name__ == "__main__":
    main()
