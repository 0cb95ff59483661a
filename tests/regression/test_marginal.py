"""Promises of `marginal`: its density, its gradient, its posterior, its calibration, and what it does at the edges."""

import math
from dataclasses import replace

import numpy as np
import pytest
from regression_worlds import draw_world, pairs_of, uniforms
from scipy import stats

from noisewise.inference.diagnostics import ess_bulk, rhat
from noisewise.regression import marginal
from noisewise.regression.changed import changed_density, make_changed_data
from noisewise.regression.coordinates import belief, mixing_variance, unknowns
from noisewise.regression.density import make_data, normal_density
from noisewise.regression.given import given_density
from noisewise.regression.groups import AS_NORMAL, BY_BANK, RADIALLY, group_holders
from noisewise.regression.marginal import fitted, sample, size_of
from noisewise.regression.problem import GivenX, Holder, NormalX, Prior, Problem
from noisewise.regression.shortened import make_bank
from noisewise.regression.sphere import make_sphere

ALARM = 1e-6


def data_of(problem, **coordinates):
    return make_data(belief(problem, **coordinates), *group_holders(problem, [AS_NORMAL] * len(problem.holders)))


def changed_data_of(problem, how):
    groups, members = group_holders(problem, [how] * len(problem.holders))
    sizes = {"m": problem.m, "pairs": groups.pairs.shape[1]}
    bank = make_bank(problem.d + 1, **sizes, points=None if how == BY_BANK else 0)
    sphere = make_sphere(problem.d + 1, **sizes, is_used=how == RADIALLY)
    return make_changed_data(belief(problem), groups, members, bank, sphere)


def shifted_maps(rng, m, count, intercept):
    """Other holders' centres and scales."""
    maps = []
    for _ in range(count):
        mapping = np.diag(np.concatenate([np.ones(int(intercept)), rng.uniform(0.7, 1.4, m - int(intercept))]))
        if intercept:
            mapping[1:, 0] = 0.3 * rng.standard_normal(m - 1)
        maps.append(mapping)
    return maps


def with_given_moments(rng, problem):
    u = rng.exponential(size=(500, problem.q))
    if problem.intercept:
        u[:, 0] = 1.0
    fourth = np.einsum("si,sj,sk,sl->ijkl", u, u, u, u, optimize=True) / 500
    return replace(problem, covariates=GivenX(u.T @ u / 500, fourth))


def gradient_error(density, data, position, step=1e-4):
    """Against fourth-order central differences, relative to the largest slope."""
    size = len(position)
    gradient, ignored, differences = np.zeros(size), np.zeros(size), np.zeros(size)
    density(position, data, gradient)
    for i in range(size):
        along = step * np.eye(size)[i]
        values = [density(position + k * along, data, ignored) for k in (-2, -1, 1, 2)]
        differences[i] = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)
    return np.max(np.abs(differences - gradient)) / np.max(np.abs(gradient))


CASES = {
    "one holder": {},
    "no intercept": {"d": 2, "intercept": False, "holders": 3},
    "laplace, own units": {"d": 2, "law": "laplace", "holders": 2, "own_units": True},
    "averaged rows, relative prior": {"d": 3, "holders": 4, "block": 5, "is_relative": True},
    "learned prior scale": {"d": 2, "holders": 2, "is_learned": True},
    "no yy": {"d": 2, "parts": "no yy"},
    "add-remove": {"d": 1, "parts": "with n"},
    "many covariates": {"d": 6, "n": 50},
}


def case(rng, name):
    options = dict(CASES[name])
    d, intercept = options.get("d", 1), options.get("intercept", True)
    m = d + intercept + 1
    if options.pop("own_units", False):
        options["maps"] = shifted_maps(rng, m, options["holders"], intercept)
    parts = options.pop("parts", None)
    if parts is not None:
        options["pairs"] = pairs_of(m, False) if parts == "with n" else pairs_of(m, intercept)[:-1]
    return draw_world(rng, **options).problem


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_standardised", [True, False])
def test_the_gradient_is_that_of_the_density(rng, name, is_standardised):
    data = data_of(case(rng, name), is_scaled=is_standardised, is_whitened=is_standardised)
    assert gradient_error(normal_density, data, 0.3 * rng.standard_normal(size_of(data))) < 1e-7


@pytest.mark.parametrize("name", ["one holder", "no intercept", "laplace, own units", "averaged rows, relative prior"])
def test_the_gradient_with_given_covariates_is_that_of_the_density(rng, name):
    data = data_of(with_given_moments(rng, case(rng, name)))
    assert gradient_error(given_density, data, 0.3 * rng.standard_normal(size_of(data))) < 1e-7


@pytest.mark.parametrize(
    ("d", "block", "intercept"), [(1, 1, True), (2, 4, True), (2, 3, False), (3, 1, True), (4, 4, False)]
)
@pytest.mark.parametrize(("shift", "accuracy"), [(0.0, 1e-7), (6.0, 1e-5)])
def test_the_gradient_through_shortened_rows_is_that_of_the_density(rng, d, block, intercept, shift, accuracy):
    problem = draw_world(rng, d=d, n=60, shrink=1.5, block=block, intercept=intercept).problem
    data = changed_data_of(problem, RADIALLY)
    position = 0.3 * rng.standard_normal(size_of(data))
    position[0] += shift  # the intercept, in units of sigma
    # The direction of a tilted point close to the origin turns within a step; a shorter one does not reach it.
    assert min(gradient_error(changed_density, data, position, step=step) for step in (1e-4, 1e-5, 1e-6)) < accuracy


@pytest.mark.parametrize("d", [1, 2, 3])
def test_where_shortened_rows_are_beyond_numbers_the_density_is_zero_and_flat(rng, d):
    """A Hamiltonian step that strays there is turned down, as one that diverges."""
    data = changed_data_of(draw_world(rng, d=d, n=60, shrink=1.5).problem, RADIALLY)
    outside = 0
    for scale in np.geomspace(0.1, 1e4, 150):
        position, gradient = scale * rng.standard_normal(size_of(data)), np.full(size_of(data), np.nan)
        value = changed_density(position, data, gradient)
        assert np.all(np.isfinite(gradient)) if math.isfinite(value) else value == -np.inf
        if value == -np.inf:
            np.testing.assert_array_equal(gradient, 0.0)
            outside += 1
    assert 0 < outside < 150


@pytest.mark.parametrize(("shrink", "block", "intercept"), [(1.5, 1, True), (1.5, 4, True), (None, 3, False)])
def test_the_gradient_through_clamped_rows_is_that_of_the_density(rng, shrink, block, intercept):
    problem = draw_world(rng, d=2, n=60, shrink=shrink, bound=1.7, block=block, intercept=intercept).problem
    data = changed_data_of(problem, BY_BANK)
    # A point that crosses a bound within the step makes a kink: with a short step few do.
    errors = [
        gradient_error(changed_density, data, 0.3 * rng.standard_normal(size_of(data)), step=1e-6) for _ in range(5)
    ]
    assert np.median(errors) < 1e-5


def natural_density(problem, theta, variance, mu, factor, log_tau, mixing):
    """log prior and likelihood from scipy's laws, in theta, sigma^2, Sigma, mu, tau^2 and the noise's scores u."""
    prior, x, o = problem.prior, problem.covariates, int(problem.intercept)
    covariance = factor @ factor.T
    tau2 = math.exp(2 * log_tau)
    scales = np.full(problem.q, math.sqrt(variance) if prior.is_relative else 1.0)
    if prior.is_learned:
        scales[o:] = math.sqrt(tau2)
    spread = np.linalg.inv(prior.precision) * np.outer(scales, scales)
    value = stats.multivariate_normal(prior.mean, spread).logpdf(theta)
    value += stats.invgamma(prior.shape, scale=prior.rate).logpdf(variance)
    value += stats.invwishart(df=x.degrees, scale=x.scale).logpdf(covariance)
    if o:
        value += stats.multivariate_normal(x.location, covariance / x.strength).logpdf(mu)
    if prior.is_learned:
        value += stats.invgamma(0.5, scale=0.5).logpdf(tau2)
    m, q = problem.m, problem.q
    mean = np.concatenate([np.ones(o), mu if o else 0 * mu])
    mean = np.append(mean, theta @ mean)
    rows = np.zeros((m, m))
    rows[o:q, o:q] = covariance
    rows[q, o:q] = rows[o:q, q] = covariance @ theta[o:]
    rows[q, q] = theta[o:] @ covariance @ theta[o:] + variance
    at = 0
    for holder in problem.holders:
        own, centre = holder.map @ rows @ holder.map.T, math.sqrt(holder.block) * holder.map @ mean
        second = own + np.outer(centre, centre)
        a, b = holder.pairs.T
        c, d = a[None], b[None]
        a, b = a[:, None], b[:, None]
        spread = second[a, c] * second[b, d] + second[a, d] * second[b, c]
        spread -= 2 * centre[a] * centre[b] * centre[c] * centre[d]
        noise = holder.variance.copy()
        is_laplace = holder.laplace > 0
        noise[is_laplace] = -2 * holder.laplace[is_laplace] ** 2 * stats.norm.logsf(mixing[at : at + is_laplace.sum()])
        at += is_laplace.sum()
        law = stats.multivariate_normal(holder.n * second[holder.pairs[:, 0], holder.pairs[:, 1]],
                                        holder.n * spread + np.diag(noise))  # fmt: skip
        value += law.logpdf(holder.observed)
    return value + stats.norm.logpdf(mixing).sum()


@pytest.mark.parametrize("name", CASES)
def test_the_density_is_prior_times_normal_likelihood_with_all_jacobians(rng, name):
    problem = case(rng, name)
    data = data_of(problem)
    known, d = data.belief, problem.d
    differences = []
    for _ in range(3):
        position = 0.2 * rng.standard_normal(size_of(data))
        found = unknowns(position, known)
        log_tau = position[known.log_tau] if known.is_learned else 0.0
        diagonal = np.log(np.diag(found.factor))
        # d sigma^2, d Sigma (2^d prod A_ii^(d - i + 1)), d A_ii, d mu, d theta, d tau^2 over d position
        jacobian = math.log(found.variance) + np.sum((d - np.arange(d)) * diagonal) + diagonal.sum() + 2 * log_tau
        jacobian += diagonal.sum() if known.is_whitened else 0.0
        if known.is_scaled:
            scaled = problem.q - int(problem.intercept) if known.is_learned else 0
            jacobian += scaled * log_tau
            jacobian += (problem.q - scaled) * 0.5 * math.log(found.variance) if known.is_relative else 0.0
        expected = natural_density(problem, found.theta, float(found.variance), found.mu, found.factor, log_tau,
                                   position[known.mixing :])  # fmt: skip
        differences.append(normal_density(position, data, np.zeros(len(position))) - expected - jacobian)
    np.testing.assert_allclose(differences, differences[0], rtol=1e-9, atol=1e-7)  # all but a constant


def test_equal_holders_together_have_the_density_they_have_apart(rng):
    problem = draw_world(rng, d=2, holders=6).problem
    apart = replace(
        problem,
        holders=tuple(replace(h, variance=h.variance * (1 + 1e-15 * j)) for j, h in enumerate(problem.holders)),
    )
    together, separate = data_of(problem), data_of(apart)
    assert len(together.members.holders) == 1
    assert len(separate.members.holders) > 1
    position = 0.3 * rng.standard_normal(size_of(together))
    one, other = np.zeros(len(position)), np.zeros(len(position))
    values = [normal_density(position, together, one), normal_density(position, separate, other)]
    assert values[0] == pytest.approx(values[1], rel=1e-9)
    np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8 * np.abs(one).max())


def test_the_mixing_variance_has_its_exponential_law(rng):
    u = rng.standard_normal(2000)
    variances = np.array([mixing_variance(value, 1.3)[0] for value in u])
    assert stats.kstest(variances, stats.expon(scale=2 * 1.3**2).cdf).pvalue > ALARM
    for value in (-30.0, -5.0, 0.0, 3.0, 30.0):
        found, slope = mixing_variance(value, 0.5)
        assert found == pytest.approx(-0.5 * stats.norm.logsf(value), rel=1e-12)
        assert slope == pytest.approx(0.5 * np.exp(stats.norm.logpdf(value) - stats.norm.logsf(value)), rel=1e-10)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("is_relative", [True, False])
def test_the_posterior_is_what_brute_force_importance_sampling_finds(rng, law, is_relative):
    effective = 0.0
    while effective < 300:  # a release far out in its own law leaves brute force with few draws
        problem = draw_world(rng, d=1, n=100, epsilon=0.3, law=law, is_relative=is_relative).problem
        theta, variance, mu, second, weights = prior_draws_and_weights(rng, problem, 60_000)
        effective = 1 / np.sum(weights**2)
    fit = sample(problem, rng, chains=4, draws=1000, warmup=400)
    functions = [(theta[:, 0], fit.theta[..., 0]), (theta[:, 1], fit.theta[..., 1]),
                 (np.log(variance), np.log(fit.variance)), (mu, fit.mean_x[..., 0]),
                 (np.log(second), np.log(fit.covariance_x[..., 0, 0]))]  # fmt: skip
    for brute, drawn in functions:
        mean = weights @ brute
        sd = math.sqrt(weights @ (brute - mean) ** 2)
        error = sd * math.sqrt(1 / effective + 1 / max(ess_bulk(drawn), 1.0))
        assert abs(drawn.mean() - mean) < 5.5 * error
        # The spread of a spread is larger where tails are: twice that of a normal law.
        assert abs(drawn.std() / sd - 1) < 5.5 * math.sqrt(2 / effective + 2 / max(ess_bulk(drawn), 1.0))


def prior_draws_and_weights(rng, problem, count):
    """Unknowns of d = 1 from the prior, sums from their normal law, weighted by the density of the noise."""
    prior, x, (holder,) = problem.prior, problem.covariates, problem.holders
    variance = 1 / rng.gamma(prior.shape, 1 / prior.rate, count)
    scale = np.sqrt(variance) if prior.is_relative else np.ones(count)
    theta = scale[:, None] * rng.standard_normal((count, 2)) @ np.linalg.cholesky(np.linalg.inv(prior.precision)).T
    spread = stats.invwishart(df=x.degrees, scale=x.scale).rvs(count, random_state=rng)
    mu = np.sqrt(spread / x.strength) * rng.standard_normal(count)
    means = np.column_stack([np.ones(count), mu, theta[:, 0] + theta[:, 1] * mu])
    second = means[:, :, None] * means[:, None, :]
    second[:, 1, 1] += spread
    second[:, 1, 2] += theta[:, 1] * spread
    second[:, 2, 1] = second[:, 1, 2]
    second[:, 2, 2] += theta[:, 1] ** 2 * spread + variance
    a, b = holder.pairs.T
    covariance = (
        second[:, a[:, None], a] * second[:, b[:, None], b] + second[:, a[:, None], b] * second[:, b[:, None], a]
    )
    products = means[:, a] * means[:, b]
    covariance -= 2 * products[:, :, None] * products[:, None, :]
    root = np.linalg.cholesky(covariance + 1e-9 * np.eye(len(a)))
    sums = holder.n * second[:, a, b] + math.sqrt(holder.n) * (root @ rng.standard_normal((count, len(a), 1)))[..., 0]
    residual = holder.observed - sums
    noise = stats.laplace(scale=holder.laplace) if holder.laplace.any() else stats.norm(scale=np.sqrt(holder.variance))
    log_weights = np.sum(noise.logpdf(residual), axis=1)
    weights = np.exp(log_weights - log_weights.max())
    return theta, variance, mu, spread, weights / weights.sum()


def calibration_p_value(u):
    """The smallest of Kolmogorov's and the spread's p-values over all unknowns, times their number."""
    squares = np.sum(stats.norm.ppf(u) ** 2, axis=0)
    spread = 2 * np.minimum(stats.chi2.cdf(squares, len(u)), stats.chi2.sf(squares, len(u)))
    found = [*(stats.kstest(column, "uniform").pvalue for column in u.T), *spread]
    return min(1.0, len(found) * min(found))


def ranks_of(rng, trials, *, is_naive=False, **options):
    found = []
    for _ in range(trials):
        world = draw_world(rng, **options)
        problem = world.problem
        if is_naive:  # as if there were next to no noise, and nothing were shortened
            quiet = [replace(h, variance=h.variance * 1e-4, laplace=h.laplace * 1e-2, shrink=None, low=h.low * 1e3,
                             high=h.high * 1e3) for h in problem.holders]  # fmt: skip
            problem = replace(problem, holders=tuple(quiet))
        found.append(uniforms(rng, world, sample(problem, rng, chains=1, draws=200, warmup=150)))
    return np.array(found)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("holders", [1, 5])
def test_it_is_calibrated_over_the_prior(rng, law, holders):
    assert calibration_p_value(ranks_of(rng, 40, law=law, holders=holders, epsilon=1.0, n=100)) > ALARM


def test_it_is_calibrated_through_shortened_rows(rng):
    assert calibration_p_value(ranks_of(rng, 25, shrink=1.0, epsilon=5.0, n=200)) > ALARM


def test_noise_left_out_of_the_model_is_caught_by_the_same_test(rng):
    assert calibration_p_value(ranks_of(rng, 60, is_naive=True, epsilon=0.5, n=100)) < ALARM


def test_shortening_left_out_of_the_model_is_caught_by_the_same_test(rng):
    ranks = []
    for _ in range(50):
        world = draw_world(rng, shrink=1.0, epsilon=20.0, n=300)
        blind = [replace(h, shrink=None, low=h.low * 1e3, high=h.high * 1e3) for h in world.problem.holders]
        problem = replace(world.problem, holders=tuple(blind))
        ranks.append(uniforms(rng, world, sample(problem, rng, chains=1, draws=200, warmup=150)))
    assert calibration_p_value(np.array(ranks)) < ALARM


def is_sound(fit, draws):
    """All draws are numbers, variances positive, covariances positive definite, chains agree."""
    finite = np.isfinite(fit.theta).all() and np.isfinite(fit.variance).all() and np.all(fit.variance > 0)
    positive = np.linalg.eigvalsh(fit.covariance_x).min() > 0
    agree = max(rhat(fit.theta[..., i]) for i in range(fit.theta.shape[-1])) < 1.1
    return finite and positive and agree and fit.non_finite == 0 and fit.theta.shape[1] == draws


def holder_of(rows, sd, rng, pairs):
    total = (rows.T @ rows)[pairs[:, 0], pairs[:, 1]]
    wide = np.full(rows.shape[1] - 1, 1e3)
    return Holder(n=len(rows), pairs=pairs, observed=total + sd * rng.standard_normal(len(pairs)),
                  variance=np.full(len(pairs), sd**2), laplace=np.zeros(len(pairs)), map=np.eye(rows.shape[1]),
                  low=-wide, high=wide)  # fmt: skip


def vague(d):
    prior = Prior(np.zeros(d + 1), 0.1 * np.eye(d + 1), 2.0, 1.0)
    return prior, NormalX(np.zeros(d), 1.0, np.eye(d), d + 2.0)


def test_collinear_features_give_a_sound_posterior_along_the_ridge(rng):
    x = rng.standard_normal(200)
    rows = np.column_stack([np.ones(200), x, x, x + 0.3 * rng.standard_normal(200)])
    prior, normal = vague(2)
    problem = Problem((holder_of(rows, 0.5, rng, pairs_of(4, True)),), prior, normal, True)
    fit = sample(problem, rng, draws=600, warmup=600)
    assert is_sound(fit, 600)
    total, difference = fit.theta[..., 1] + fit.theta[..., 2], fit.theta[..., 1] - fit.theta[..., 2]
    assert abs(total.mean() - 1) < 0.3
    assert difference.std() > 5 * total.std()


def test_more_features_than_rows_leave_the_prior_where_nothing_is_known(rng):
    rows = np.column_stack([np.ones(4), rng.standard_normal((4, 7))])
    prior, normal = vague(6)
    problem = Problem((holder_of(rows, 1.0, rng, pairs_of(8, True)),), prior, normal, True)
    assert is_sound(sample(problem, rng, draws=200, warmup=250), 200)


def test_a_matrix_that_is_not_positive_is_no_problem(rng):
    rows = np.column_stack([np.ones(10), rng.standard_normal((10, 3))])
    holder = holder_of(rows, 60.0, rng, pairs_of(4, True))
    observed = np.where(holder.pairs[:, 0] == holder.pairs[:, 1], -80.0, 100.0)
    prior, normal = vague(2)
    problem = Problem((replace(holder, observed=observed),), prior, normal, True)
    assert is_sound(sample(problem, rng, draws=400, warmup=500), 400)


def test_a_holder_with_huge_noise_changes_nothing(rng):
    world = draw_world(rng, d=1, n=200, epsilon=5.0)
    (holder,) = world.problem.holders
    loud = replace(holder, variance=1e24 * holder.variance, observed=holder.observed + 1e12)
    alone = sample(world.problem, rng, draws=500)
    joined = sample(replace(world.problem, holders=(holder, loud)), rng, draws=500)
    assert is_sound(joined, 500)
    for one, other in [(alone.theta[..., 1], joined.theta[..., 1]), (alone.variance, joined.variance)]:
        error = math.hypot(one.std() / math.sqrt(ess_bulk(one)), other.std() / math.sqrt(ess_bulk(other)))
        assert abs(one.mean() - other.mean()) < 6 * error


def test_ten_rows_with_little_noise_give_a_sound_posterior(rng):
    world = draw_world(rng, d=1, n=10, epsilon=10.0, law="laplace")
    assert is_sound(sample(world.problem, rng, draws=500), 500)


def test_the_fit_says_what_was_assumed_and_how_much_was_changed(rng):
    problem = draw_world(rng, d=1, shrink=1.0).problem
    fit = sample(problem, rng, chains=2, draws=50, warmup=50)
    assert any("normal" in note for note in fit.notes)
    assert any("shortened" in note and "%" in note for note in fit.notes)
    assert fit.details["shares"][0] > 0.05
    refused = replace(problem, holders=(replace(problem.holders[0], shrink=None, clamps=False, low=np.full(2, -0.5),
                                                high=np.full(2, 0.5)),))  # fmt: skip
    fit = sample(refused, rng, chains=2, draws=50, warmup=50)
    assert any("outside bounds that hold all" in note for note in fit.notes)


def test_given_moments_of_normal_covariates_agree_with_the_normal_law(rng):
    """Where the moments given are those of the fitted normal law, theta has nearly the same posterior."""
    world = draw_world(rng, d=1, n=400, epsilon=5.0)
    mean, spread = world.mean_x[0], world.covariance_x[0, 0]
    raw = [1.0, mean, mean**2 + spread, mean**3 + 3 * mean * spread, mean**4 + 6 * mean**2 * spread + 3 * spread**2]
    second = np.array([[raw[i + j] for j in range(2)] for i in range(2)])
    fourth = np.array([raw[bin(code).count("1")] for code in range(16)]).reshape(2, 2, 2, 2)
    given = sample(replace(world.problem, covariates=GivenX(second, fourth)), rng, draws=800)
    normal = sample(world.problem, rng, draws=800)
    assert given.mean_x is None
    for i in range(2):
        one, other = given.theta[..., i], normal.theta[..., i]
        assert abs(one.mean() - other.mean()) < 1.5 * other.std()
        assert 0.3 < one.std() / other.std() < 1.5


def test_the_same_seed_gives_the_same_draws():
    problem = draw_world(np.random.default_rng(5), d=1).problem
    fits = [sample(problem, np.random.default_rng(6), chains=2, draws=20, warmup=40) for _ in range(2)]
    assert np.array_equal(fits[0].theta, fits[1].theta)
    assert np.array_equal(fits[0].covariance_x, fits[1].covariance_x)


@pytest.mark.slow  # about one world in eight takes hundreds of leaps with a learned scale
@pytest.mark.parametrize("prior", ["is_relative", "is_learned"])
def test_an_unknown_prior_scale_makes_no_funnel_for_the_chains(rng, prior):
    problem = draw_world(rng, d=2, n=1000, bound=1e6, **{prior: True}).problem
    fit = sample(problem, rng, chains=2, draws=200, warmup=300)
    assert fit.details["divergent"].sum() < 10
    assert fit.details["leaps"] < 12


def test_a_climb_that_runs_out_of_steps_goes_on_until_it_is_at_the_top(rng, monkeypatch):
    """With eight steps at a time the mode is that of a thousand; without going on it would not be."""
    problem = draw_world(rng, d=4, n=400, epsilon=20.0, holders=2).problem
    top, _ = fitted(problem, rng)
    monkeypatch.setattr(marginal, "MOST_STEPS", 8)
    again, _ = fitted(problem, rng)
    monkeypatch.setattr(marginal, "MOST_TURNS", 0)
    short, _ = fitted(problem, rng)

    def below(posterior):
        heights = [density_at(one) for one in (top, posterior)]
        return heights[0] - heights[1]

    def density_at(posterior):
        return posterior.density(posterior.mode, posterior.data, np.zeros(len(posterior.mode)))

    assert below(again) < 1e-2
    assert below(short) > 0.1
