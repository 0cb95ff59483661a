"""The law of one answer: against quadrature of its definition, enumeration, and the budget it must keep."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, special, stats

import noisewise as nw
from noisewise.audit.exact import exact_loss
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.likelihood import clipped_normal, clipped_normal_gaussian
from noisewise.online.answer_law import AnswerLaw
from noisewise.online.asked import Asked, asked_cells, asked_clip, asked_of
from noisewise.online.clipped_normal_sum import Listed, log_densities, log_total
from noisewise.online.mills import mills

UNKNOWN = {"loc": stats.norm(0, 1), "scale": stats.halfnorm()}
# population, parameter rows, and the same law straight from scipy
WORLDS = {
    "normal": (nw.Normal(mean=UNKNOWN["loc"], sd=UNKNOWN["scale"]),
               [({"mean": 0.3, "sd": 1.2}, stats.norm(0.3, 1.2)), ({"mean": -1.0, "sd": 0.4}, stats.norm(-1, 0.4))]),
    "laplace": (nw.LocationScale(stats.laplace, **UNKNOWN),
                [({"loc": 0.3, "scale": 1.2}, stats.laplace(0.3, 1.2)), ({"loc": 5.0, "scale": 0.4},
                                                                      stats.laplace(5, 0.4))]),
    "logistic": (nw.LocationScale(stats.logistic, **UNKNOWN),
                 [({"loc": 0.3, "scale": 1.2}, stats.logistic(0.3, 1.2)), ({"loc": -1.0, "scale": 0.3},
                                                                        stats.logistic(-1, 0.3))]),
    "t": (nw.LocationScale(stats.t(4), **UNKNOWN),
          [({"loc": 0.3, "scale": 1.2}, stats.t(4, 0.3, 1.2)), ({"loc": -1.0, "scale": 0.3}, stats.t(4, -1, 0.3))]),
    "exponential": (nw.Exponential(rate=stats.gamma(2)),
                    [({"rate": 0.5}, stats.expon(scale=2)), ({"rate": 3.0}, stats.expon(scale=1 / 3))]),
    "uniform": (nw.Uniform(low=UNKNOWN["loc"], width=UNKNOWN["scale"]),
                [({"low": 0.3, "width": 1.2}, stats.uniform(0.3, 1.2)), ({"low": -4.0, "width": 9.0},
                                                                      stats.uniform(-4, 9))]),
    "poisson": (nw.Poisson(rate=stats.gamma(2)), [({"rate": 0.5}, stats.poisson(0.5)), ({"rate": 4.0},
                                                                                     stats.poisson(4.0))]),
    "bernoulli": (nw.Bernoulli(p=stats.beta(2, 2)), [({"p": 0.5}, stats.bernoulli(0.5)), ({"p": 0.9},
                                                                                       stats.bernoulli(0.9))]),
}  # fmt: skip
GUARANTEES = {"laplace noise": nw.PureDP(2), "gaussian noise": nw.GaussianDP(1), "loud": nw.PureDP("0.1"),
              "quiet": nw.PureDP(9)}  # fmt: skip
INTERVALS = [(-0.7, 0.9), (0.0, 1.0), (-1.3, 4.6)]


def rows(world):
    return {name: np.array([row[name] for row, _ in world[1]]) for name in world[1][0][0]}


def by_definition(law, asked, y):
    """E g(y - clip(X, low, high)), by quadrature cut at every kink, or by enumeration."""

    def noise(x):
        if asked.is_laplace:
            return np.exp(-np.abs(y - x) / asked.noise) / (2 * asked.noise)
        return stats.norm.pdf(y, x, asked.noise)

    if hasattr(law, "pmf"):
        x = np.arange(0, 200)
        return float(np.sum(law.pmf(x) * noise(np.clip(x, asked.low, asked.high))))
    total = law.cdf(asked.low) * noise(asked.low) + law.sf(asked.high) * noise(asked.high)
    cuts = np.clip([y, *law.support(), *law.ppf([1e-6, 0.01, 0.2, 0.5, 0.8, 0.99, 1 - 1e-6])], asked.low, asked.high)
    cuts = np.unique([asked.low, *cuts, asked.high])
    for start, stop in itertools.pairwise(cuts):
        total += integrate.quad(lambda x: law.pdf(x) * noise(x), start, stop, epsabs=1e-14, epsrel=1e-12)[0]
    return total


@pytest.mark.parametrize("noise", GUARANTEES)
@pytest.mark.parametrize("name", WORLDS)
def test_a_clipped_answer_has_the_law_of_its_definition(name, noise):
    world = WORLDS[name]
    law = AnswerLaw(world[0])
    for low, high in INTERVALS:
        asked = asked_of(nw.Query.clip(low, high, guarantee=GUARANTEES[noise]))
        y = np.array([low - 3 * asked.noise, low, low + 0.013, 0.4 * high + 0.6 * low, high, high + 0.4 * asked.noise])
        found = law.log_density(asked, y, rows(world)) - np.log(asked.step)
        wanted = [[np.log(by_definition(oracle, asked, v)) for v in y] for _, oracle in world[1]]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9)


BASES = {"logistic": stats.logistic, "t": stats.t(4), "t of half a degree": stats.t(0.5), "cauchy": stats.cauchy,
         "hypsecant": stats.hypsecant, "gumbel": stats.gumbel_r, "mirrored gumbel": stats.gumbel_l,
         "norm": stats.norm}  # fmt: skip


def by_many_panels(law, asked, y):
    """log E g(y - clip(X, low, high)) on the log scale, by thousands of panels laid about everything that may bend."""
    centre, spread = law.median(), law.ppf(0.75) - law.median()
    away = spread * np.concatenate([[0.0], np.geomspace(1e-2, 1e10, 400), np.linspace(0.05, 60, 600)])
    cuts = np.concatenate([[y], centre + away, centre - away, np.linspace(asked.low, asked.high, 300)])
    cuts = np.unique(np.clip(cuts, asked.low, asked.high))
    unit, weights = np.polynomial.legendre.leggauss(12)
    half = 0.5 * np.diff(cuts)[:, None]
    x = cuts[:-1, None] + half * (1 + unit)

    def noise(x):
        return stats.laplace.logpdf(y, x, asked.noise) if asked.is_laplace else stats.norm.logpdf(y, x, asked.noise)

    with np.errstate(all="ignore"):
        logs = law.logpdf(x) + noise(x) + np.log(half * weights)
        ends = law.logcdf(asked.low) + noise(asked.low), law.logsf(asked.high) + noise(asked.high)
    return special.logsumexp([*ends, *logs.ravel()])


@pytest.mark.parametrize("noise", [nw.PureDP(1), nw.PureDP(80), nw.GaussianDP(1), nw.GaussianDP(60)], ids=str)
@pytest.mark.parametrize("name", BASES)
def test_a_smooth_population_has_its_law_whatever_its_scale_and_the_noise(name, noise):
    """Ten powers of ten of scales in one call: none is scored worse because another is narrow."""
    base = BASES[name]
    law = AnswerLaw(nw.LocationScale(base, **UNKNOWN))
    asked = asked_of(nw.Query.clip(-1, 3, guarantee=noise))
    y = np.array([-1 - 3 * asked.noise, 0.2, 2.3, 3 + 30 * asked.noise])
    loc, scale = np.array([0.2, 0.2, -1.0, 7.0, 1.0]), np.array([1e-6, 0.02, 0.9, 0.3, 300.0])
    found = law.log_density(asked, y, {"loc": loc, "scale": scale}) - np.log(asked.step)
    frozen = [getattr(base, "dist", base)(*getattr(base, "args", ()), m, c) for m, c in zip(loc, scale, strict=True)]
    wanted = [[by_many_panels(one, asked, v) for v in y] for one in frozen]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9)


def test_a_discrete_population_beside_the_whole_numbers_is_refused():
    rate = stats.expon(scale=5)
    for loc in (0.5, stats.norm(0, 1)):
        with pytest.raises(InvalidArgument, match="whole"):
            AnswerLaw(nw.Population(stats.poisson, mu=rate, loc=loc))
    law = AnswerLaw(nw.Population(stats.poisson, mu=rate, loc=2))
    asked = asked_of(nw.Query.clip(1, 6, guarantee=nw.PureDP(2)))
    found = law.log_density(asked, np.array([2.5]), {"mu": np.array([3.0])})[0, 0] - np.log(asked.step)
    x = np.arange(100)
    noise = stats.laplace.pdf(2.5, np.clip(x, 1, 6), asked.noise)
    assert found == pytest.approx(np.log(stats.poisson(3, loc=2).pmf(x) @ noise), abs=1e-9)


@pytest.mark.parametrize("name", WORLDS)
def test_an_answer_about_cells_has_the_law_of_its_definition(name):
    world = WORLDS[name]
    query = nw.Query.cells([0, 0.5, 2], guarantee=nw.PureDP(1))
    found = AnswerLaw(world[0]).log_density(asked_of(query), np.arange(4), rows(world))
    matrix = np.array(query.law.rows(), dtype=float)
    for row, (_, oracle) in zip(found, world[1], strict=True):
        # cell j is [edge, next edge): what lies on an edge belongs to the cell above it
        below = oracle.cdf(np.nextafter([0, 0.5, 2], -np.inf))
        np.testing.assert_allclose(row, np.log(np.diff([0, *below, 1]) @ matrix), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "query", [nw.Query.clip(0, 4, guarantee=nw.PureDP(1)), nw.Query.cells([1, 2], guarantee=nw.PureDP(1))]
)
def test_a_uniform_population_whose_ends_cross_is_impossible(query):
    law = AnswerLaw(nw.Uniform(low=stats.norm(), high=stats.norm(3)))
    found = law.log_density(
        asked_of(query), np.array([1.0]), {"low": np.array([1.0, 3.0]), "high": np.array([2.0, 2.0])}
    )
    assert np.isfinite(found[0, 0])
    assert np.isneginf(found[1, 0])


def test_populations_without_a_closed_law_can_be_asked_about_cells_only():
    law = AnswerLaw(nw.Gamma(shape=stats.gamma(3), rate=stats.gamma(3)))
    theta = {"shape": np.array([1.5]), "rate": np.array([2.0])}
    found = law.log_density(asked_cells((0.4,), nw.PureDP(1)), np.array([0, 1]), theta)
    p = stats.gamma(1.5, scale=0.5).cdf(0.4)
    keep = np.e / (1 + np.e)
    np.testing.assert_allclose(np.exp(found[0]), [keep * p + (1 - keep) * (1 - p), keep * (1 - p) + (1 - keep) * p])
    with pytest.raises(Unsupported, match="sign"):
        law.check(asked_clip(0, 1, nw.PureDP(1)))
    with pytest.raises(InvalidArgument, match="one column"):
        AnswerLaw(nw.Joint(a=nw.Bernoulli(p=stats.beta(1, 1))))
    levels = AnswerLaw(nw.Categorical(p=stats.dirichlet([1, 1, 1])))
    with pytest.raises(Unsupported, match=r"Query\.choice of 3"):
        levels.check(asked_cells((0.4,), nw.PureDP(1)))


QUERIES = {
    "clip, laplace": nw.Query.clip(-0.123, 0.456, guarantee=nw.PureDP("0.7")),
    "clip, gaussian": nw.Query.clip(-3, 4, guarantee=nw.GaussianDP(2)),
    "clip, concentrated": nw.Query.clip(0, 250, guarantee=nw.ZeroConcentratedDP("0.5")),
    "clip, approximate": nw.Query.clip(0, 250, guarantee=nw.ApproxDP(1, "1e-6")),
    "sign": nw.Query.cells([0.3], guarantee=nw.PureDP("0.7")),
    "cells": nw.Query.cells([0.3, 1, 2, 7], guarantee=nw.PureDP(3)),
}


@pytest.mark.parametrize("name", QUERIES)
def test_every_family_of_questions_keeps_its_guarantee_exactly(name):
    loss = exact_loss(QUERIES[name].plan())
    assert loss.holds, str(loss)
    assert loss.share > 0.99  # and wastes next to nothing of it


@pytest.mark.parametrize("epsilon", ["0.05", "1", "6"])
def test_no_answer_tells_two_populations_apart_by_more_than_epsilon(epsilon):
    """A mixture over x of laws within e^epsilon of each other: so are the answers of any two populations."""
    guarantee = nw.PureDP(epsilon)
    law = AnswerLaw(nw.Normal(mean=stats.norm(0, 1), sd=stats.halfnorm()))
    theta = {"mean": np.array([-100.0, 0.0, 0.3, 100.0]), "sd": np.array([1e-3, 1.0, 50.0, 1e-3])}
    questions = [
        asked_of(nw.Query.clip(-1, 2, guarantee=guarantee)),
        asked_of(nw.Query.cells([-1, 0.5], guarantee=guarantee)),
    ]
    reach = []
    for asked in questions:
        y = np.arange(3) if asked.is_cells else np.linspace(-1 - 9 * asked.noise, 2 + 9 * asked.noise, 41)
        reach.append(np.ptp(law.log_density(asked, y, theta), axis=0).max())
    limit = float(Fraction(epsilon))
    assert max(reach) <= limit + 1e-9
    assert min(reach) > 0.99 * limit  # the bound is reached, so a smaller noise would break it


@pytest.mark.parametrize("seed", range(6))
def test_the_compiled_normal_law_agrees_with_the_reference_form_everywhere(seed):
    rng = np.random.default_rng([71, seed])
    for _ in range(60):
        epsilon, low, width = (
            10 ** rng.uniform(-3, 2.5),
            rng.normal() * 10 ** rng.uniform(-1, 2),
            10 ** rng.uniform(-4, 3),
        )
        mean, sd = rng.normal(size=6) * 10 ** rng.uniform(-1, 2), 10 ** rng.uniform(-3, 3, size=6)
        at = np.array([-40, -0.3, 0, 1e-6, 0.2, 0.5, 0.999, 1, 1.5, 60.0])
        for is_laplace in (True, False):
            asked = Asked(low, low + width, width / epsilon, is_laplace)
            y = low + width * at
            place = {"mean": mean[:, None], "sd": sd[:, None], "low": low, "high": low + width}
            if is_laplace:
                wanted = clipped_normal.log_density(y, **place, scale=asked.noise)
            else:
                wanted = clipped_normal_gaussian.log_density(y, **place, noise_sd=asked.noise)
            found = log_densities(y, asked, mean, sd)
            np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)
            weight = rng.uniform(0, 5, y.size)
            listed = Listed(np.array([0, y.size]), *np.array([[low], [low + width], [asked.noise]]), y, weight)
            total = log_total(listed, mean, sd, is_laplace=is_laplace)
            np.testing.assert_allclose(total, wanted @ weight, rtol=1e-10, atol=1e-8)


def test_mills_ratio_by_table_has_its_digits():
    from scipy.special import erfcx

    x = np.concatenate([np.linspace(0, 40, 4001), [1e3, 1e8]])
    np.testing.assert_allclose([mills(v) for v in x], 0.5 * erfcx(x / np.sqrt(2)), rtol=2e-12)
