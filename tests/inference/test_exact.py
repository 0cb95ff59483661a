"""Exact inference gives known posteriors, finds them wherever they are, and tells of broken densities (E3, E4, E6)."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

import noisewise as nw
from noisewise.errors import InvalidArgument, NoisewiseError
from noisewise.inference.density import Density
from noisewise.inference.exact import exact, fitted
from noisewise.inference.line import on_the_line
from noisewise.inference.modes import Frame
from noisewise.inference.plane import Grid, lay_grids, propose, sample
from noisewise.inference.target import Target
from noisewise.inference.transform import Transform
from noisewise.likelihood import inversion, normal_laplace
from noisewise.likelihood.additive_noise import LaplaceNoise
from noisewise.likelihood.quadrature import on_panels
from noisewise.populations.parameters import Support

ALARM = 1e-6
SIGMAS = stats.norm.isf(ALARM / 2)


def target_of(likelihood, **priors):
    """Independent priors by name; the likelihood is a function of the parameters in that order."""
    names = tuple(priors)

    def draw(rng, count):
        return {name: prior.rvs(size=count, random_state=rng) for name, prior in priors.items()}

    return Target(
        Transform({name: Support(*map(float, prior.support())) for name, prior in priors.items()}),
        lambda theta: np.sum([prior.logpdf(theta[name]) for name, prior in priors.items()], axis=0),
        lambda theta: likelihood(*(theta[name] for name in names)),
        draw,
    )


def flat(*theta):
    return np.zeros(len(theta[0]))


def conjugate(mean, sd, y, noise):
    """Evidence, mean and sd of theta ~ N(mean, sd^2), y ~ N(theta, noise^2)."""
    variance = 1 / (1 / sd**2 + 1 / noise**2)
    evidence = stats.norm.logpdf(y, mean, math.hypot(sd, noise))
    return evidence, variance * (mean / sd**2 + y / noise**2), math.sqrt(variance)


# ---- one parameter ----


def by_clt(theta):
    """mean |x| of 100 records N(0, theta), A = 10, Laplace epsilon = 5, y = 1.2, by the central limit theorem."""
    moments = {"mean": np.sqrt(2 * theta / np.pi), "variance": theta * (1 - 2 / np.pi) / 100}
    return normal_laplace.log_density(1.2, **moments, scale=0.02)


def by_inversion(theta):
    """The same without the central limit theorem."""
    nodes, unit = on_panels([0, 0.125, 0.25, 0.5, 1, 1.5, 2, 3, 4, 5, 6, 8, 10], 16)
    sd = np.sqrt(theta)[:, None, None]
    with np.errstate(under="ignore", over="ignore", divide="ignore"):
        weights = unit * 2 * stats.norm.pdf(nodes / sd) / sd
    atoms = {"atoms": [10.0], "atom_weights": 2 * stats.norm.sf(10.0 / sd[:, 0])}
    return inversion.log_density(120.0, n=100, nodes=nodes, weights=weights, noise=LaplaceNoise(2.0), **atoms)[0]


@pytest.mark.parametrize(("likelihood", "known"), [(by_clt, (2.3617, 0.3919)), (by_inversion, (2.3599, 0.3840))])
def test_known_posteriors_of_a_variance_to_four_digits(rng, likelihood, known):
    # Below 0.05 a record's density is narrower than the nodes above; no mass is there.
    low = 0.05 if likelihood is by_inversion else 0.0
    found = exact(rng, target_of(likelihood, theta=stats.uniform(low, 10 - low)), chains=2, draws=500)
    assert found.moments["theta"] == pytest.approx(known, abs=6e-5)
    assert str(found.verdict) == "Computed by quadrature: 1000 independent draws."


@pytest.mark.parametrize(
    ("prior_mean", "prior_sd", "y", "noise"),
    [
        (0, 1, 1, 1),
        (50, 50, 51.6, 0.5),
        (0, 1, 0.3, 1e-7),  # as narrow as 1e-7 of the prior
        (0, 1e6, 1.2345, 1e-3),
        (0, 1, 30, 0.1),  # 30 prior sds away
        (0, 1, 1000, 1e-3),
        (0, 1, 0, 1e7),  # nothing learnt
    ],
)
def test_the_conjugate_normal_posterior_wherever_it_lies(rng, prior_mean, prior_sd, y, noise):
    line = on_the_line(rng, target_of(lambda a: stats.norm.logpdf(y, a, noise), a=stats.norm(prior_mean, prior_sd)))
    evidence, mean, sd = conjugate(prior_mean, prior_sd, y, noise)
    # Where logs are large, so is their rounding.
    assert line.log_evidence == pytest.approx(evidence, rel=1e-12, abs=2e-8)
    assert line.mean == pytest.approx(mean, abs=1e-7 * sd + 1e-15 * abs(mean))
    assert line.sd == pytest.approx(sd, rel=1e-6)
    assert line.evaluations < 1000


PRIORS = {
    "normal": stats.norm(3, 2),
    "gamma": stats.gamma(2.5),
    "gamma with a pole": stats.gamma(0.3, scale=4),
    "uniform": stats.uniform(-1, 5),
    "arcsine, a pole at each end": stats.beta(0.5, 0.5),
    "half normal": stats.halfnorm(scale=50),
    "log normal": stats.lognorm(1.5),
    "double exponential, a kink": stats.laplace(1, 2),
    "triangular, a kink": stats.triang(0.3),
    "t with 5 degrees": stats.t(5),
}


@pytest.mark.parametrize("name", PRIORS)
def test_the_posterior_is_the_prior_where_nothing_is_learnt(rng, name):
    prior = PRIORS[name]
    target = target_of(flat, a=prior)
    line = on_the_line(rng, target)
    tolerance = 5e-7 if "kink" in name else 3e-8  # a kink may hide between two nodes
    assert line.log_evidence == pytest.approx(0, abs=tolerance)
    assert line.mean == pytest.approx(prior.mean(), abs=tolerance * prior.std())
    assert line.sd == pytest.approx(prior.std(), rel=tolerance)
    levels = np.linspace(0.001, 0.999, 401)
    theta = target.parameters(line.quantile(levels)[:, None])["a"]
    np.testing.assert_allclose(prior.cdf(theta), levels, atol=1e-6)
    np.testing.assert_allclose(line.cdf(line.quantile(levels)), levels, atol=1e-9)


def test_moments_that_do_not_exist_are_not_numbers(rng):
    line = on_the_line(rng, target_of(flat, a=stats.cauchy(1, 2)))
    assert math.isnan(line.mean)
    assert math.isnan(line.sd)
    assert line.log_evidence == pytest.approx(0, abs=1e-7)
    line = on_the_line(rng, target_of(flat, a=stats.halfcauchy()))
    assert math.isnan(line.mean)
    line = on_the_line(rng, target_of(flat, a=stats.t(1.5)))
    assert line.mean == pytest.approx(0, abs=1e-6)
    assert line.sd == math.inf


def test_a_beta_posterior_of_a_rare_event(rng):
    line = on_the_line(rng, target_of(lambda p: stats.binom.logpmf(30, 100_000, p), p=stats.uniform(0, 1)))
    posterior = stats.beta(31, 99_971)
    assert line.mean == pytest.approx(posterior.mean(), rel=1e-8)
    assert line.sd == pytest.approx(posterior.std(), rel=1e-7)
    assert line.log_evidence == pytest.approx(-math.log(100_001), abs=1e-7)


def test_a_gamma_posterior_of_a_rate(rng):
    line = on_the_line(rng, target_of(lambda r: 7 * np.log(r) - 12 * r, r=stats.gamma(2, scale=1 / 3)))
    posterior = stats.gamma(9, scale=1 / 15)
    assert (line.mean, line.sd) == pytest.approx((posterior.mean(), posterior.std()), rel=1e-8)


def test_two_modes_of_very_different_width_keep_their_shares(rng):
    def likelihood(a):
        return np.logaddexp(stats.norm.logpdf(a, -5, 0.1), math.log(3) + stats.norm.logpdf(a, 7, 0.01))

    target = target_of(likelihood, a=stats.norm(0, 10))
    line = on_the_line(rng, target)
    left, right = (conjugate(0, 10, y, noise)[0] for y, noise in ((-5, 0.1), (7, 0.01)))
    share = 1 / (1 + 3 * math.exp(right - left))
    assert line.cdf(np.array([0.0]))[0] == pytest.approx(share, abs=1e-7)
    drawn = line.draw(rng, (20_000,)) < 0
    assert abs(drawn.mean() - share) < SIGMAS * math.sqrt(share * (1 - share) / drawn.size)


@pytest.mark.parametrize(
    ("shares", "centres", "sds", "humps"),
    [
        ((1,), (0,), (1,), 1),
        ((0.5, 0.5), (-3, 3), (0.5, 0.5), 2),
        ((0.97, 0.03), (-3, 3), (0.5, 0.5), 2),
        ((0.999, 0.001), (-3, 3), (0.5, 0.5), 1),
        ((0.5, 0.5), (-1, 1), (1, 1), 1),
        ((0.5, 0.5), (-3, 3), (0.05, 2), 2),
        ((0.3, 0.3, 0.4), (-6, 0, 6), (0.5, 0.5, 0.5), 3),
    ],
)
def test_separate_humps_are_told(rng, shares, centres, sds, humps):
    def likelihood(x):
        return np.logaddexp.reduce(
            [np.log(w) + stats.norm(m, s).logpdf(x) for w, m, s in zip(shares, centres, sds, strict=True)]
        )

    found = exact(rng, target_of(likelihood, x=stats.norm(0, 30))).verdict.evidence
    assert found.humps == humps
    assert (f"{humps} separate humps" in found.sentence()) == (humps > 1)


def test_a_narrow_spike_on_a_wide_pedestal(rng):
    """Cauchy noise: far from the release the likelihood hardly falls, and the prior's mass there counts."""

    def likelihood(a):
        return stats.cauchy.logpdf(a, 3, 1e-4)

    line = on_the_line(rng, target_of(likelihood, a=stats.norm(0, 10)))

    def density(a):
        return stats.norm.pdf(a, 0, 10) * stats.cauchy.pdf(a, 3, 1e-4)

    edges = [-120, -3, *(3 + s * 10.0**-k for s in (-1, 1) for k in range(6, -1, -1)), 3, 9, 120]
    pieces = [
        integrate.quad(density, a, b, limit=200) for a, b in zip(sorted(edges)[:-1], sorted(edges)[1:], strict=True)
    ]
    assert line.log_evidence == pytest.approx(math.log(sum(piece[0] for piece in pieces)), abs=1e-7)


def test_a_density_that_ends_abruptly(rng):
    """Uniform(0, theta) records with largest value 2: p(x | theta) = theta^-5 above 2, nothing below."""

    def likelihood(a):
        with np.errstate(divide="ignore"):
            return np.where(a > 2, -5 * np.log(a), -np.inf)

    line = on_the_line(rng, target_of(likelihood, a=stats.uniform(0, 10)))
    mass = (2**-4 - 10**-4) / 4
    mean = (2**-3 - 10**-3) / 3 / mass
    assert line.log_evidence == pytest.approx(math.log(mass / 10), abs=1e-7)
    assert line.mean == pytest.approx(mean, abs=1e-7)


def test_evidence_and_moments_equal_another_library(rng):
    prior = stats.lognorm(0.7)

    def likelihood(a):
        return -np.abs(a - 2.0) / 0.3 + np.sin(4 * a)  # a kink and bumps

    line = on_the_line(rng, target_of(likelihood, a=prior))

    def moment(k):
        def integrand(a):
            return a**k * prior.pdf(a) * math.exp(float(likelihood(np.array(a))))

        return sum(integrate.quad(integrand, *ends, limit=500)[0] for ends in ((0, 1), (1, 2), (2, 4), (4, 40)))

    mass, first, second = map(moment, range(3))
    assert line.log_evidence == pytest.approx(math.log(mass), abs=1e-7)
    assert line.mean == pytest.approx(first / mass, rel=1e-7)
    assert line.sd == pytest.approx(math.sqrt(second / mass - (first / mass) ** 2), rel=1e-6)


def test_draws_are_independent_and_of_the_posterior(rng):
    target = target_of(lambda a: stats.norm.logpdf(1.0, a, 1.0), a=stats.norm(0, 1))
    found = exact(rng, target, chains=4, draws=5000)
    x = found.positions[:, :, 0]
    assert found.is_independent
    assert stats.kstest(x.ravel(), stats.norm(0.5, math.sqrt(0.5)).cdf).pvalue > ALARM
    assert stats.kstest(x.ravel(), stats.norm(0.5, 1.1 * math.sqrt(0.5)).cdf).pvalue < ALARM  # the test has power
    lagged = np.corrcoef(x[:, 1:].ravel(), x[:, :-1].ravel())[0, 1]
    assert abs(lagged) < SIGMAS / math.sqrt(x.size)


def test_the_same_seed_gives_the_same_draws(rng):
    seed = int(rng.integers(2**62))
    for target in (target_of(flat, a=stats.gamma(2)), target_of(flat, a=stats.gamma(2), b=stats.norm())):
        one, same, other = (
            exact(np.random.default_rng(s), target, chains=2, draws=50).positions for s in (seed, seed, seed + 1)
        )
        assert np.array_equal(one, same)
        assert not np.array_equal(one, other)


# ---- broken densities ----


def test_a_density_that_is_nan_on_one_side_is_reported(rng):
    target = target_of(lambda a: np.where(a > 1, np.nan, 0.0), a=stats.norm())
    # One grid in twenty has no node where the density is NaN: none of eight is no chance.
    several = [exact(rng, target, chains=4, draws=100) for _ in range(8)]
    found = next(one for one in several if sum(one.non_finite) > 0)
    assert not found.verdict.is_converged
    assert "were not finite and were left out" in str(found.verdict)
    assert found.positions.max() <= 1 + 1e-6  # what is left is the rest of the posterior
    kept = stats.truncnorm(-np.inf, 1)
    assert found.moments["a"] == pytest.approx((kept.mean(), kept.std()), abs=1e-6)


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_density_that_is_broken_everywhere_is_an_error(rng, broken, size):
    priors = {name: stats.norm() for name in "abc"[:size]}
    with pytest.raises(NoisewiseError, match=r"prior"):
        exact(rng, target_of(lambda *theta: np.full(len(theta[0]), broken), **priors), chains=2, draws=10, warmup=10)


def test_a_plane_with_a_nan_half_is_reported(rng):
    target = target_of(lambda a, _: np.where(a > 0.5, np.nan, 0.0), a=stats.norm(), b=stats.norm())
    found = exact(rng, target, chains=4, draws=500)
    assert not found.verdict.is_converged or "non-finite" in str(found.verdict)
    assert found.positions[:, :, 0].max() <= 0.5


def test_a_rough_density_is_said_to_be_rough(rng):
    """A density with fresh noise in it is no function; quadrature must not call that exact."""
    noise = np.random.default_rng(int(rng.integers(2**32)))
    target = target_of(lambda a: noise.normal(0, 1, len(a)), a=stats.norm())
    found = exact(rng, target, chains=2, draws=10)
    assert not found.verdict.is_converged
    assert "too rough" in str(found.verdict)


@pytest.mark.parametrize("bad", [{"chains": 0}, {"draws": 0}, {"warmup": -1}, {"chains": True}, {"draws": 1.5}])
def test_counts_that_make_no_sense_are_refused(rng, bad):
    with pytest.raises(InvalidArgument) as error:
        exact(rng, target_of(flat, a=stats.norm()), **bad)
    assert error.value.argument == next(iter(bad))


# ---- two parameters ----


def banana(a, b):
    return stats.norm.logpdf(b, 2 * a**2, 0.3)


def plane_moments(function, low, high, order=400):
    """log mass, means and sds of a density on a rectangle, by one Gauss-Legendre rule a side."""
    (x, wx), (y, wy) = (
        (low[k] + (high[k] - low[k]) * (1 + n) / 2, w * (high[k] - low[k]) / 2)
        for k, (n, w) in enumerate([np.polynomial.legendre.leggauss(order)] * 2)
    )
    values = np.exp(function(x[:, None], y[None, :])) * wx[:, None] * wy
    mass = values.sum()
    means = [(values * v).sum() / mass for v in (x[:, None], y[None, :])]
    sds = [
        math.sqrt((values * (v - m) ** 2).sum() / mass) for v, m in zip((x[:, None], y[None, :]), means, strict=True)
    ]
    return math.log(mass), means, sds


def assert_means(draws, means, sds, ess):
    for x, mean, sd, size in zip(draws, means, sds, ess, strict=True):
        assert abs(x.mean() - mean) < SIGMAS * sd / math.sqrt(size)


def test_a_banana_by_grid_equals_quadrature(rng):
    target = target_of(banana, a=stats.norm(0, 1), b=stats.norm(0, 2))

    def log_density(a, b):
        return banana(a, b) + stats.norm.logpdf(a, 0, 1) + stats.norm.logpdf(b, 0, 2)

    evidence, means, sds = plane_moments(log_density, (-3, -2), (3, 9))
    found = exact(rng, target, chains=4, draws=2000)
    assert found.log_evidence == pytest.approx(evidence, abs=1e-4)
    for name, mean, sd in zip("ab", means, sds, strict=True):
        assert found.moments[name][0] == pytest.approx(mean, abs=1e-3 * sd)
        assert found.moments[name][1] == pytest.approx(sd, rel=1e-3)
    assert found.verdict.is_converged
    theta = target.parameters(found.positions.reshape(-1, 2))
    assert_means([theta["a"], theta["b"]], means, sds, [found.verdict.smallest_ess / 2] * 2)


@pytest.mark.parametrize(("y", "noise"), [((0.3, -1.0), (1e-6, 1e-5)), ((30.0, -40.0), (0.1, 0.02))])
def test_two_parameters_far_and_narrow(rng, y, noise):
    """theta ~ N(0, I), y = (theta_1, theta_1 + theta_2) + noise."""
    slope = np.array([[1.0, 0.0], [1.0, 1.0]])

    def likelihood(a, b):
        return stats.norm.logpdf(y[0], a, noise[0]) + stats.norm.logpdf(y[1], a + b, noise[1])

    precision = np.eye(2) + slope.T @ np.diag(1 / np.square(noise)) @ slope
    covariance = np.linalg.inv(precision)
    mean = covariance @ slope.T @ (np.array(y) / np.square(noise))
    evidence = stats.multivariate_normal.logpdf(y, np.zeros(2), slope @ slope.T + np.diag(np.square(noise)))
    found = exact(rng, target_of(likelihood, a=stats.norm(), b=stats.norm()), chains=4, draws=500)
    sd = np.sqrt(np.diag(covariance))
    assert found.log_evidence == pytest.approx(evidence, abs=1e-5)
    np.testing.assert_allclose([found.moments[k][0] for k in "ab"], mean, atol=1e-4 * sd.min())
    np.testing.assert_allclose([found.moments[k][1] for k in "ab"], sd, rtol=1e-4)


def test_a_bounded_pair_keeps_its_prior_and_its_proposals(rng):
    priors = {"a": stats.uniform(0, 1), "b": stats.gamma(2)}
    target = target_of(flat, **priors)
    density = Density(target)
    drawn = sample(rng, density, lay_grids(rng, density), chains=4, draws=2500)
    assert drawn.acceptance > 0.95
    theta = target.parameters(drawn.positions.reshape(-1, 2))
    for name, prior in priors.items():
        # Rejections repeat draws: every fifth is as good as independent.
        assert stats.kstest(theta[name][::5], prior.cdf).pvalue > ALARM
        assert stats.kstest(theta[name][::5] * 1.15, prior.cdf).pvalue < 1e-3  # and would show


def test_planted_draws_of_the_interpolant_without_metropolis_are_caught(rng):
    """On a grid that is far too coarse, accepting everything has another law; the accepted draws have the right one."""
    axis = np.linspace(-6, 6, 7)  # a step of two sds
    values = -0.5 * (axis[:, None] ** 2 + axis**2)
    grids = (Grid(Frame(np.zeros(2), np.eye(2)), axis, axis, values),)
    density = Density(target_of(flat, a=stats.norm(), b=stats.norm()))
    kept = sample(rng, density, grids, chains=50, draws=4000).positions[:, ::20, 0].ravel()
    assert stats.kstest(kept, stats.norm.cdf).pvalue > ALARM
    assert stats.kstest(propose(rng, grids, kept.size)[0][:, 0], stats.norm.cdf).pvalue < ALARM


def test_two_modes_in_the_plane_keep_their_shares(rng):
    def likelihood(a, b):
        one = stats.norm.logpdf(a, 3, 0.3) + stats.norm.logpdf(b, 2, 0.3)
        other = stats.norm.logpdf(a, -3, 0.5) + stats.norm.logpdf(b, -4, 0.4)
        return np.logaddexp(one, other)

    found = exact(rng, target_of(likelihood, a=stats.norm(0, 3), b=stats.norm(0, 3)), chains=4, draws=2000)
    one = sum(conjugate(0, 3, *pair)[0] for pair in ((3, 0.3), (2, 0.3)))
    other = sum(conjugate(0, 3, *pair)[0] for pair in ((-3, 0.5), (-4, 0.4)))
    share = 1 / (1 + math.exp(other - one))
    drawn = (found.positions[:, :, 0] > 0).ravel()
    assert abs(drawn.mean() - share) < SIGMAS * math.sqrt(share * (1 - share) / (drawn.size / 3))
    assert found.log_evidence == pytest.approx(np.logaddexp(one, other), abs=1e-4)


def test_narrow_modes_that_mirror_each_other_are_both_found(rng):
    """mean(|x|) and mean(x^2) do not know the sign of the mean: two modes, 200 of their sds apart."""

    def likelihood(a, b):
        return stats.norm.logpdf(48, np.abs(a), 0.5) + stats.norm.logpdf(20, b, 0.3)

    found = exact(rng, target_of(likelihood, a=stats.norm(0, 50), b=stats.halfnorm(scale=50)), chains=4, draws=2000)
    one = conjugate(0, 50, 48, 0.5)
    assert found.moments["a"][0] == pytest.approx(0, abs=1e-3 * one[1])
    assert found.moments["a"][1] == pytest.approx(math.hypot(one[1], one[2]), rel=1e-4)
    share = (found.positions[:, :, 0] > 0).mean()
    assert abs(share - 0.5) < SIGMAS * 0.5 / math.sqrt(8000 / 3)


def test_a_shape_no_grid_can_hold_falls_back_and_says_so(rng):
    """Two Cauchy laws: mass at every distance, along the axes."""
    found = exact(rng, target_of(flat, a=stats.cauchy(), b=stats.cauchy()), chains=2, draws=50, warmup=50)
    assert found.how.startswith(("slice sampling, because a grid's proposals", "an independence sampler"))
    assert found.log_evidence is None


def test_three_parameters_are_sliced(rng):
    target = target_of(lambda a, *_: stats.norm.logpdf(1.0, a, 1.0), a=stats.norm(), b=stats.norm(), c=stats.gamma(2))
    found = exact(rng, target, chains=4, draws=200, warmup=150)
    assert found.how.startswith("slice sampling of 3 parameters")
    assert not found.is_independent
    theta = target.parameters(found.positions.reshape(-1, 3))
    ess = found.verdict.smallest_ess / 2
    assert_means([theta["a"], theta["b"]], [0.5, 0.0], [math.sqrt(0.5), 1.0], [ess, ess])
    assert found.moments is None


def test_three_parameters_that_a_t_law_fits_are_proposed_by_it(rng):
    """Normal prior and likelihood: a given 1 with variance 1, c a gamma law that nothing tells about."""
    target = target_of(lambda a, *_: stats.norm.logpdf(1.0, a, 1.0), a=stats.norm(), b=stats.norm(), c=stats.gamma(2))
    found = fitted(rng, target, 4, 500, None)
    assert found.how.startswith("an independence sampler on a t law fitted to 3 parameters")
    theta = target.parameters(found.positions.reshape(-1, 3))
    ess = found.verdict.smallest_ess / 2
    means, sds = [0.5, 0.0, 2.0], [math.sqrt(0.5), 1.0, math.sqrt(2)]
    assert_means([theta["a"], theta["b"], theta["c"]], means, sds, [ess] * 3)


def test_tails_that_a_t_law_does_not_reach_are_left_to_a_walk(rng):
    """Cauchy laws: weights of proposals grow without bound, however many are accepted."""
    target = target_of(flat, a=stats.cauchy(), b=stats.cauchy(), c=stats.cauchy())
    assert fitted(rng, target, 4, 500, None) is None


def test_two_humps_are_both_proposed_or_left_to_a_walk(rng):
    def humps(a, b, c):
        return np.logaddexp(stats.norm.logpdf(a, -2.5, 0.5), stats.norm.logpdf(a, 2.5, 0.5)) + 0 * b + 0 * c

    target = target_of(humps, a=stats.norm(0, 3), b=stats.norm(), c=stats.norm())
    found = fitted(rng, target, 4, 1000, None)
    above = 0.5 if found is None else float(np.mean(found.positions[:, :, 0] > 0))
    assert abs(above - 0.5) < 0.25


def test_progress_is_told(rng):
    for target in (target_of(flat, a=stats.norm()), target_of(flat, a=stats.norm(), b=stats.norm())):
        seen = []
        exact(rng, target, chains=2, draws=400, progress=lambda done, total: seen.append((done, total)))  # noqa: B023
        assert seen[-1][0] == seen[-1][1]


def test_a_density_too_rough_for_quadrature_is_sampled_with_its_help(rng):
    """Noise in the density itself, the same at the same place: no quadrature settles, a sampler does not mind."""

    def rough(a):
        return -0.5 * (a - 1) ** 2 / 0.04 + 0.5 * np.sin(1e9 * a)

    found = exact(rng, target_of(rough, a=stats.norm()), chains=4, draws=500, warmup=200)
    assert "independence sampler on the quadrature" in found.how
    assert "too rough for quadrature" in str(found.verdict)
    assert "use method" not in str(found.verdict)
    assert found.verdict.is_converged
    mean, sd = 1 / 1.04, math.sqrt(0.04 / 1.04)
    assert_means([found.positions[:, :, 0].ravel()], [mean], [sd], [found.verdict.smallest_ess / 2])


def test_what_a_line_proposes_is_told_with_its_own_density(rng):
    """Importance sampling of 1: the mean of density over proposal is 1 where the proposal's density is right."""
    line = on_the_line(rng, target_of(lambda a: -np.abs(a - 1) / 0.1, a=stats.norm()))
    x, log_proposal = line.propose(rng, 40_000)
    width = 1e-3
    truth = np.log((line.cdf(x[:, 0] + width) - line.cdf(x[:, 0] - width)) / (2 * width))
    weight = np.exp(truth - log_proposal)
    assert abs(weight.mean() - 1) < SIGMAS * weight.std() / 200 + 1e-3
    assert weight.max() < 1 / 0.9 + 0.05


def test_a_long_posterior_of_three_parameters_is_leapt_along(rng):
    """One sum of three unknowns with wide priors: a slice alone creeps along the plane that it leaves."""
    target = target_of(
        lambda a, b, c: stats.norm.logpdf(a + b + c, 3.0, 3.0), a=stats.cauchy(), b=stats.t(2), c=stats.norm(0, 5)
    )
    found = exact(rng, target, chains=4, draws=500, warmup=300)
    assert found.verdict.is_converged


@pytest.mark.parametrize("unknown_sd", [False, True])
def test_a_release_beyond_all_noise_is_refused_in_a_sentence(rng, unknown_sd):
    schema = nw.Schema({"x": nw.Bounded(0, 1)}, n=1000, neighbours="change-one")
    plan = nw.plan(nw.Mean(nw.column("x")), schema, guarantee=nw.PureDP(1))
    value = int(1e20 * 1000 / float(plan.law.step[0]))
    release = nw.Release.of(plan, [value], dataset="d", ledger_head=None, simulated=True)
    sd = stats.halfnorm(scale=0.2) if unknown_sd else 0.1
    with pytest.raises(NoisewiseError, match="noise of the declared law does not reach"):
        nw.infer(release, nw.Normal(mean=stats.norm(0.5, 0.2), sd=sd), seed=1, progress=False)
