"""Answers to compare samplers of a regression with, found without the code under test."""

import math

import numpy as np
from scipy import stats

ALARM = 1e-6


def exact_moments(problem):
    """The moments of all rows together, read off releases in working units whose noise is negligible."""
    total = np.zeros((problem.m, problem.m))
    for holder in problem.holders:
        a, b = holder.pairs.T
        own = np.zeros_like(total)
        own[a, b] = own[b, a] = holder.observed
        if problem.intercept:
            own[0, 0] = holder.n * holder.block
        total += own
    return total, sum(holder.n for holder in problem.holders)


def student_posterior(prior, total, n):
    """Student laws of each coefficient and the inverse gamma of the variance, for a relative prior."""
    q = len(prior.mean)
    precision = prior.precision + total[:q, :q]
    mean = np.linalg.solve(precision, prior.precision @ prior.mean + total[:q, q])
    shape = prior.shape + n / 2
    square = total[q, q] + prior.mean @ prior.precision @ prior.mean - mean @ precision @ mean
    rate = prior.rate + square / 2
    sd = np.sqrt(np.diag(np.linalg.inv(precision)) * rate / shape)
    return [stats.t(2 * shape, mean[i], sd[i]) for i in range(q)], stats.invgamma(shape, scale=rate)


def agrees(draws, law, *, effective=None):
    """Whether draws (chains, draws) have the law: Kolmogorov's test at their effective size, at the 1e-6 level."""
    import arviz

    flat = np.sort(np.ravel(draws))
    size = effective or float(arviz.ess(np.asarray(draws), method="mean"))
    cdf = law.cdf(flat)
    steps = np.arange(len(flat) + 1) / len(flat)
    distance = max(np.max(steps[1:] - cdf), np.max(cdf - steps[:-1]))
    return stats.kstwo.sf(distance, max(2, int(0.7 * min(size, len(flat))))) > ALARM


def same_law(one, other, *, slack=0.05):
    """Whether two samplers' draws (chains, draws) have one mean and one spread, Monte Carlo error at 1e-6 counted.

    `slack` (of a standard deviation) is what approximations may differ by.
    """
    import arviz

    def mean_agrees(a, b, allowed):
        error = math.hypot(*(np.std(x) / math.sqrt(max(1.0, 0.7 * float(arviz.ess(np.asarray(x))))) for x in (a, b)))
        return abs(np.mean(a) - np.mean(b)) < 5.0 * error + allowed

    sd = np.std(other)
    squares = ((one - np.mean(one)) ** 2, (other - np.mean(other)) ** 2)
    return mean_agrees(one, other, slack * sd) and mean_agrees(*squares, 2 * slack * sd**2)


def smallest_rank_p_value(rng, trials, draw_world, sampler, *, uniforms, draws=594, warmup=300):
    """The smallest p-value, times their number, of tests that ranks are uniform and as spread as uniform ones."""
    found = []
    for _ in range(trials):
        world = draw_world(rng)
        fit = sampler(world.problem, rng, chains=1, draws=draws, warmup=warmup)
        assert fit.non_finite == 0
        found.append(uniforms(rng, world, fit))
    columns = np.array(found).T
    distances = [stats.kstest(column, "uniform").pvalue for column in columns]
    squares = [float(np.sum(stats.norm.ppf(column) ** 2)) for column in columns]
    tails = [2 * min(stats.chi2(trials).cdf(s), stats.chi2(trials).sf(s)) for s in squares]
    return min(*distances, *tails) * 2 * len(columns)


def importance_posterior(rng, problem, size=400_000):
    """Draws of the parameters from the prior, weighted by the exact chance of the release: d = 1, one or more holders.

    Rows are simulated, their moments made, and the noise's density taken: nothing but the model's own words.
    """
    prior, x, o = problem.prior, problem.covariates, int(problem.intercept)
    variance = prior.rate / rng.standard_gamma(prior.shape, size)
    root = np.linalg.cholesky(np.linalg.inv(prior.precision))
    scale = np.sqrt(variance) if prior.is_relative else np.ones(size)
    theta = prior.mean + scale[:, None] * (rng.standard_normal((size, problem.q)) @ root.T)
    spread = x.scale[0, 0] / (2 * rng.standard_gamma(x.degrees / 2, size))
    mean = (x.location[0] + np.sqrt(spread / x.strength) * rng.standard_normal(size)) * o
    log_weight = np.zeros(size)
    for holder in problem.holders:
        covariate = mean[:, None] + np.sqrt(spread)[:, None] * rng.standard_normal((size, holder.n))
        response = theta[:, -1:] * covariate + np.sqrt(variance)[:, None] * rng.standard_normal((size, holder.n))
        response += theta[:, :1] * o
        w = [np.ones_like(covariate), covariate, response] if o else [covariate, response]
        for (a, b), t, v, laplace in zip(holder.pairs, holder.observed, holder.variance, holder.laplace, strict=True):
            away = t - np.sum(w[a] * w[b], axis=1)
            log_weight -= np.abs(away) / laplace if laplace > 0 else 0.5 * away**2 / v
    weight = np.exp(log_weight - log_weight.max())
    return {"theta": theta, "variance": variance, "spread": spread}, weight / weight.sum()


def weighted_mean_agrees(draws, values, weight):
    """Whether a chain's mean is the weighted mean, at the 1e-6 level, with both errors counted."""
    import arviz

    expected = weight @ values
    error = math.sqrt(np.sum(weight**2 * (values - expected) ** 2))
    own = np.std(draws) / math.sqrt(float(arviz.ess(np.asarray(draws))))
    return abs(np.mean(draws) - expected) < 4.9 * math.hypot(error, own)
