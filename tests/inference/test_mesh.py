"""Thin bent ridges of two parameters: the mesh and the sampler on it agree with nested quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import noisewise as nw
from noisewise.inference.density import Density
from noisewise.inference.exact import exact
from noisewise.inference.mesh import lay_mesh
from noisewise.inference.modes import find_frames
from noisewise.inference.plane import lay_grids, sample


class Ridge:
    """A standard normal prior seen through one number, y = x2 + bend x1^2 with a little noise: a thin parabola."""

    size = 2

    def __init__(self, bend: float, noise: float) -> None:
        self.bend, self.noise = bend, noise

    def log_prior(self, x):
        return -0.5 * np.sum(np.atleast_2d(x) ** 2, axis=1) - np.log(2 * np.pi)

    def log_likelihood(self, x):
        x = np.atleast_2d(x)
        return -0.5 * ((x[:, 1] + self.bend * x[:, 0] ** 2 - 0.5) / self.noise) ** 2

    def draw_prior(self, rng, count):
        return rng.standard_normal((count, 2))

    def parameters(self, x):
        x = np.atleast_2d(x)
        return {"a": x[:, 0], "b": x[:, 1]}

    def moments(self) -> tuple[float, float, float, float]:
        """Mean and sd of both coordinates: x2 given x1 is normal in closed form, x1 by the trapezoidal rule."""
        a = np.linspace(-9, 9, 200_001)
        level, variance = 0.5 - self.bend * a**2, self.noise**2
        weight = np.exp(-0.5 * a**2 - 0.5 * level**2 / (1 + variance))
        weight /= weight.sum()
        b = level / (1 + variance)
        mean_a, mean_b = weight @ a, weight @ b
        second = weight @ (b**2 + variance / (1 + variance))
        return mean_a, np.sqrt(weight @ (a - mean_a) ** 2), mean_b, np.sqrt(second - mean_b**2)


def z_scores(draws, wanted) -> list[float]:
    """How far sample means and sds are from the truth, in Monte Carlo errors."""
    from noisewise.inference.diagnostics import mcse_mean, mcse_sd

    found = []
    for k in (0, 1):
        x = draws[:, :, k]
        found += [(x.mean() - wanted[2 * k]) / mcse_mean(x), (x.std() - wanted[2 * k + 1]) / mcse_sd(x)]
    return found


@pytest.mark.parametrize("noise", [0.1, 0.01, 0.002])
def test_a_parabola_is_followed_along_all_its_length(rng, noise) -> None:
    target = Ridge(2.0, noise)
    found = exact(rng, target, chains=4, draws=1000)
    assert noise == 0.1 or "mesh" in found.how
    assert found.verdict.is_converged
    assert np.max(np.abs(z_scores(found.positions, target.moments()))) < 6


def test_grids_alone_would_lose_part_of_it(rng) -> None:
    """The test above has power: in the frames of ellipses the ends of the parabola are missed."""
    target = Ridge(2.0, 0.001)
    density = Density(target)
    drawn = sample(rng, density, lay_grids(rng, density), chains=4, draws=1000)
    is_wrong = np.max(np.abs(z_scores(drawn.positions, target.moments()))) > 6
    assert is_wrong or drawn.acceptance < 0.5


def test_the_interpolant_is_a_density_and_draws_come_from_it(rng) -> None:
    density = Density(Ridge(1.0, 0.2))
    mesh = lay_mesh(rng, density, find_frames(rng, density).frames)
    assert mesh is not None
    z = mesh.draw(rng, 20_000)
    # E 1/q over draws of q inside a box is the box's area: importance sampling of 1.
    box = np.array([-0.5, 0.5])
    inside = np.all(np.abs(z) < box[1], axis=1)
    heights = np.exp(mesh.log_interpolant(z[inside]))
    grid = np.stack(np.meshgrid(*[np.linspace(*box, 400)] * 2), axis=-1).reshape(-1, 2)
    mass = float(np.exp(mesh.log_interpolant(grid)).mean())
    assert np.all(heights > 0)
    error = np.sqrt(mass * (1 - mass) / len(z))
    assert abs(inside.mean() - mass) < 6 * error + 1e-3


def test_one_precise_count_of_a_normal_population_with_both_parameters_unknown() -> None:
    """The posterior of the mean is as good as symmetric about the middle of the counted interval."""
    schema = nw.Schema({"x": nw.Bounded(0, 1)}, n=1_000_000, neighbours="change-one")
    plan = nw.plan(nw.Count(nw.column("x").between("0.3", "0.6")), schema, guarantee=nw.PureDP(1))
    population = nw.Normal(mean=stats.norm(0, 10), sd=stats.halfnorm(scale=10))
    release = nw.simulate(plan, population, at={"mean": 0.5, "sd": 0.2}, seed=1)
    posterior = nw.infer(release, population, seed=1, progress=False)
    assert posterior.verdict.is_converged
    # An oracle of its own: the share p is known; each mean has at most two sds with that share, found by bisection.
    share = float(release.value[0]) / 1_000_000
    mean = np.linspace(0.3, 0.6, 3001)[1:-1]
    low, high = np.full(mean.size, 0.02), np.full(mean.size, 5.0)
    for _ in range(80):
        middle = (low + high) / 2
        above = stats.norm.cdf((0.6 - mean) / middle) - stats.norm.cdf((0.3 - mean) / middle) > share
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    # Inside the interval the share falls with the sd, so p(mean | p) is prior over |d share / d sd|.
    h = 1e-6
    slope = [stats.norm.cdf((0.6 - mean) / (low + s)) - stats.norm.cdf((0.3 - mean) / (low + s)) for s in (-h, h)]
    weight = stats.norm.pdf(mean, 0, 10) * stats.halfnorm.pdf(low, scale=10) / np.abs((slope[1] - slope[0]) / (2 * h))
    drawn = posterior.draws["mean"]
    inside = (drawn > 0.3) & (drawn < 0.6)
    wanted = np.average(mean, weights=weight)
    wanted_sd = np.sqrt(np.average((mean - wanted) ** 2, weights=weight))
    assert abs(drawn[inside].mean() - wanted) < 6 * wanted_sd / np.sqrt(400)
    assert abs(drawn[inside].std() / wanted_sd - 1) < 0.1
