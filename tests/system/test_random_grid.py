"""The whole road from a release to a posterior, in settings nobody picked, against brute force.

Every setting comes from one printed number: `python -c "from grid_table import row_of; print(row_of(NUMBER))"` with
tests/support on the path draws it again. The whole grid takes about a quarter of an hour on one core.
"""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import BruteForce, Space, Unknown
from grid_table import ALLOWED, ERRORS, largest_difference, row_of
from made_releases import release_of
from plain_laws import log_noise
from plain_releases import Noise, PlainColumn, Sums
from random_grid import Setting
from scipy import special, stats

import noisewise as nw

SETTINGS = 150


@pytest.mark.slow
def test_random_settings_agree_with_brute_force_or_the_verdict_warns(rng):
    rows = []
    for seed in rng.integers(2**32, size=SETTINGS):
        rows.append(row_of(int(seed)))
        print(rows[-1], flush=True)
    crashed = [row for row in rows if row.crash]
    unsettled = [row for row in rows if not row.crash and not row.is_settled]
    settled = [row for row in rows if not row.crash and row.is_settled]
    silent = [row for row in settled if not row.agrees and not row.warns]
    agreeing = [row for row in settled if row.agrees]
    warned = [row for row in agreeing if row.warns]
    print(f"{len(crashed)} crashed, {len(unsettled)} unsettled, {len(silent)} differ without a warning, "
          f"{len(warned)} of {len(agreeing)} that agree are warned about")  # fmt: skip
    assert not crashed, "\n".join(map(str, crashed))
    assert not silent, "\n".join(map(str, silent))
    assert len(unsettled) <= 0.05 * SETTINGS, "\n".join(map(str, unsettled))
    assert len(warned) <= 0.1 * len(agreeing), "\n".join(map(str, warned))


# ---- brute force itself ----


def test_brute_force_finds_the_posterior_of_a_noisy_normal_mean(rng):
    """n normal records with known sd and Gaussian noise on their sum: the posterior is closed."""
    n, sd, noise_sd, prior_sd = 40, 2.0, 15.0, 3.0
    y = float(rng.normal(n * 1.0, np.hypot(np.sqrt(n) * sd, noise_sd)))
    column = PlainColumn("x", "normal", {"sd": sd}, {"mean": "mean"}, (-1e6, 1e6))
    step = 2.0**-10
    group = Sums((column,), n, (lambda r: r["x"],), (Noise("gaussian", noise_sd / step, step),), (round(y / step),))
    found = BruteForce(Space((Unknown("mean", stats.norm(0, prior_sd)),)), [group]).posterior(rng, seconds=2)
    precision = 1 / prior_sd**2 + n**2 / (n * sd**2 + noise_sd**2)
    mean, spread = y * n / (n * sd**2 + noise_sd**2) / precision, precision**-0.5
    assert found.is_settled
    assert abs(found.mean[0] - mean) < 0.03 * spread + 6 * found.mean_error[0]
    assert abs(found.sd[0] - spread) < 0.03 * spread + 6 * found.sd_error[0]


def test_brute_force_finds_the_posterior_of_a_noisy_count(rng):
    """A count under geometric noise: summed over every count, integrated over p."""
    n, ratio = 12, 1.5
    y = int(rng.binomial(n, 0.4)) + int(rng.geometric(0.5)) - int(rng.geometric(0.5))
    column = PlainColumn("s", "bernoulli", {}, {"p": "p"}, None)
    group = Sums((column,), n, (lambda r: r["s"],), (Noise("laplace", ratio, 1.0),), (y,))
    found = BruteForce(Space((Unknown("p", stats.beta(2, 3)),)), [group]).posterior(rng, seconds=2)
    k = np.arange(n + 1)
    weights = special.softmax(log_noise("laplace", ratio, y - k) + stats.betabinom(n, 2, 3).logpmf(k))
    each = stats.beta(2 + k, 3 + n - k)
    mean = float(weights @ each.mean())
    spread = float(np.sqrt(weights @ (each.var() + each.mean() ** 2) - mean**2))
    assert found.is_settled
    assert abs(found.mean[0] - mean) < 0.03 * spread + 6 * found.mean_error[0]
    assert abs(found.sd[0] - spread) < 0.03 * spread + 6 * found.sd_error[0]


@pytest.mark.parametrize("prior", [stats.uniform(0.03, 0.17), stats.uniform(-40, 90), stats.gamma(3), stats.norm(2, 5)])
def test_the_prior_on_its_line_is_a_density(prior):
    """Proposals are partly from the prior, at its own density: a constant left out would weigh them wrongly."""
    unknown = Unknown("a", prior)
    z = np.linspace(-60, 60, 200_001)[:, None]
    assert np.trapezoid(np.exp(unknown.from_line(z)[1]), z[:, 0]) == pytest.approx(1, abs=1e-6)


def test_the_comparison_catches_a_posterior_that_ignores_the_noise(rng):
    """The naive posterior is too narrow: the grid would name it."""
    schema = nw.Schema({"x": nw.Bounded(-10, 10)}, n=50, neighbours="change-one")
    release = release_of(nw.Mean("x"), schema, nw.PureDP("0.5"), [float(rng.normal(1, 0.5))])
    population = nw.Normal(mean=stats.norm(0, 3), sd=2)
    column = PlainColumn("x", "normal", {"sd": 2.0}, {"mean": "mean"}, (-10.0, 10.0))
    step = release.law.step[0]
    noise = Noise("laplace", release.law.scale[0] / step, step)
    group = Sums((column,), 50, (lambda r: r["x"],), (noise,), release.value)
    oracle = BruteForce(Space((Unknown("mean", stats.norm(0, 3)),)), [group]).posterior(rng, seconds=2)
    for method, is_right in (("auto", True), ("naive", False)):
        posterior = nw.infer(release, population, method=method, seed=1, progress=False)
        difference, error, _ = largest_difference(posterior, oracle, ["mean"])
        assert (difference <= ALLOWED + ERRORS * error) == is_right


def test_a_setting_is_drawn_again_from_its_number(rng):
    seed = int(rng.integers(2**32))
    one, other = Setting.drawn(seed), Setting.drawn(seed)
    assert [release.value for release in one.releases] == [release.value for release in other.releases]
    assert one.text == other.text


# ---- populations that do not describe the records, with more sums than unknowns ----

X = nw.column("x")
MISFITS = {
    "log-normal incomes taken for normal ones": (
        lambda rng: np.exp(rng.normal(3.5, 0.9, 4000)),
        (0, 400),
        (X, X**2, X.between(0, 20)),
        nw.Normal(mean=stats.norm(50, 50), sd=stats.halfnorm(scale=60)),
    ),
    "gamma waiting times taken for exponential ones": (
        lambda rng: rng.gamma(4, 0.5, 4000),
        (0, 20),
        (X, X**2),
        nw.Exponential(rate=stats.gamma(2, scale=0.5)),
    ),
    "two humps taken for one normal law": (
        lambda rng: np.where(rng.random(4000) < 0.5, rng.normal(-4, 1, 4000), rng.normal(4, 1, 4000)),
        (-12, 12),
        (X, X**2, X.between(-2, 2)),
        nw.Normal(mean=stats.norm(0, 5), sd=stats.halfnorm(scale=5)),
    ),
    "overdispersed counts taken for Poisson ones": (
        lambda rng: rng.negative_binomial(1.5, 0.25, 4000),
        (0, 60),
        (X, X**2),
        nw.Poisson(rate=stats.gamma(2, scale=3)),
    ),
    "uniform values taken for normal ones": (
        lambda rng: rng.uniform(0, 10, 4000),
        (-5, 15),
        (X, X**2, X.between(0, 10)),
        nw.Normal(mean=stats.norm(5, 5), sd=stats.halfnorm(scale=5)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISFITS)
def test_a_population_that_does_not_describe_the_records_is_flagged(name, rng):
    draw, bounds, features, population = MISFITS[name]
    schema = nw.Schema({"x": nw.Bounded(*bounds)}, n=4000, neighbours="change-one")
    plan = nw.plan(nw.Mean(*features), schema, guarantee=nw.GaussianDP(1))
    records = {"x": np.clip(np.asarray(draw(rng), dtype=float), *bounds)}
    sums = [float(np.sum(feature.value(records, schema))) for feature in features]
    value = [
        round(total / step) + round(rng.normal(scale=scale) / step)
        for total, scale, step in zip(sums, plan.law.scale, plan.law.step, strict=True)
    ]
    release = nw.Release.of(plan, value, dataset="made", ledger_head=None, simulated=True)
    posterior = nw.infer(release, population, seed=1, progress=False)
    assert posterior.check.is_surprising or posterior.verdict.warns, posterior.summary()
