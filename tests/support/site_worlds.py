"""Sites drawn from their own prior: a common line, each site's line, its records, its noisy moments.

Everything is in units in which the likely centre is 0 and the likely sd 1, so that spreads are as they are given.
"""

import math
from dataclasses import dataclass

import numpy as np
from moment_releases import noisy_release
from scipy import special, stats

import noisewise as nw

BOUND, WIDTH, NOISE = 12.0, 0.4, (10.0, 10.0)
YES = nw.column("y").equals("yes")
COVARIATES = nw.NormalCovariates([0.0], 20.0, [[12.0]], 12.0)
UNIT = {"centre": {"x": 0, "y": 0}, "scale": {"x": 1, "y": 1}}


@dataclass(frozen=True)
class World:
    """The truth behind releases: by name the centre and spread, and each site's numbers."""

    releases: list
    centre: dict
    spread: dict
    sites: dict  # name: (sites,)


def model(kind, **changes):
    """The regression whose prior the worlds are drawn from."""
    given = {"coefficients": "partial", "prior": stats.norm(0, 1), "covariates": COVARIATES, **changes}
    spread = {"intercept": stats.halfnorm(scale=WIDTH), "x": stats.halfnorm(scale=WIDTH)}
    if kind == "linear":
        spread["noise_variance"] = stats.halfnorm(scale=WIDTH)
        given["noise"] = stats.invgamma(NOISE[0], scale=NOISE[1])
    if given["coefficients"] == "partial":
        given = {"spread": spread, **given}
    if kind == "linear":
        return nw.LinearRegression(["x"], "y", **given)
    return nw.LogisticRegression(["x"], YES, **given)


def draw_world(rng, kind, guarantee, sizes, *, widths=None):
    """Unknowns from the prior (or spreads as given), records from the model, releases with noise of the plan."""
    names = ("intercept", "x", "noise_variance")[: 3 if kind == "linear" else 2]
    centre = {"intercept": rng.standard_normal(), "x": rng.standard_normal()}
    spread = {name: abs(WIDTH * rng.standard_normal()) if widths is None else widths for name in names}
    sites = {name: centre[name] + spread[name] * rng.standard_normal(len(sizes)) for name in names[:2]}
    if kind == "linear":
        centre["noise_variance"] = NOISE[1] / rng.gamma(NOISE[0])
        away = spread["noise_variance"] * rng.standard_normal(len(sizes))
        sites["noise_variance"] = centre["noise_variance"] * np.exp(away)
    releases = []
    for j, n in enumerate(sizes):
        variance = float(np.atleast_2d(stats.invwishart(df=12.0, scale=[[12.0]]).rvs(random_state=rng))[0, 0])
        mean = math.sqrt(variance / 20.0) * rng.standard_normal()
        x = mean + math.sqrt(variance) * rng.standard_normal(n)
        s = sites["intercept"][j] + sites["x"][j] * x
        y = s + math.sqrt(sites["noise_variance"][j]) * rng.standard_normal(n) if kind == "linear" else None
        releases.append(released(rng, kind, x, s, y, guarantee, f"site-{j}"))
    return World(releases, centre, spread, sites)


def released(rng, kind, x, s, y, guarantee, dataset):
    columns = {"x": nw.Bounded(-BOUND, BOUND)}
    if kind == "linear":
        columns["y"] = nw.Bounded(-BOUND, BOUND)
        statistic, y = nw.Moments(["x"], "y", **UNIT), np.clip(y, -BOUND, BOUND)
    else:
        columns["y"] = nw.Levels(["no", "yes"])
        statistic = nw.Moments(["x"], YES, parts=("xx", "xy"), centre={"x": 0}, scale={"x": 1})
        y = (rng.random(len(x)) < special.expit(s)).astype(int)
    plan = nw.plan(statistic, nw.Schema(columns, n=len(x), neighbours="change-one"), guarantee=guarantee)
    return noisy_release(plan, {"x": np.clip(x, -BOUND, BOUND), "y": y}, rng, dataset=dataset)


def uniforms(rng, world, posterior, keep=49):
    """(rank + V)/(draws + 1) of each centre, spread and site's number: uniform if the posterior is calibrated."""
    found = []
    for name, values in world.sites.items():
        if f"{name}.centre" in posterior.draws:
            found.append((posterior.draws[f"{name}.centre"].ravel(), world.centre[name]))
            found.append((posterior.draws[f"{name}.spread"].ravel(), world.spread[name]))
        found += [(posterior.draws[name][..., j].ravel(), value) for j, value in enumerate(values)]
    ranks = []
    for draws, truth in found:
        kept = draws[:: max(1, len(draws) // keep)][:keep]
        ranks.append((np.sum(kept < truth) + rng.random()) / (len(kept) + 1))
    return np.array(ranks)
