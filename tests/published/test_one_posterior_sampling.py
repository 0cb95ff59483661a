"""One-posterior sampling is private as it claims, no more cautious than it must be, and draws the law it says."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import stats

from noisewise.errors import InvalidArgument
from noisewise.published.baselines.non_private import non_private
from noisewise.published.baselines.one_posterior_sampling import flattening, one_posterior_sampling

FALSE_ALARM = 1e-6
SUPPORT = {"binomial": (0.1, 0.9), "poisson": (0.3, 9.0), "exponential": (0.2, 4.0)}
BOUNDS = {"binomial": (0.0, 1.0), "poisson": (0.0, 6.0), "exponential": (0.5, 3.0)}
PRIOR = {"binomial": (0.5, 5.0), "poisson": (2.0, 1.5), "exponential": (3.0, 2.0)}
FAMILIES = tuple(SUPPORT)
NODES = 20_001


def on_grid(family: str) -> Any:
    low, high = SUPPORT[family]
    return np.linspace(low, high, NODES)


def log_posterior(family: str, records: Any, times: Any = 1) -> Any:
    """Prior times likelihood on the grid, from scipy's densities; each record counts `times`."""
    theta, (a, b) = on_grid(family)[:, None], PRIOR[family]
    x = np.atleast_1d(np.asarray(records, float))
    if family == "binomial":
        return stats.beta.logpdf(theta[:, 0], a, b) + (times * stats.bernoulli.logpmf(x, theta)).sum(axis=1)
    prior = stats.gamma.logpdf(theta[:, 0], a, scale=1 / b)
    if family == "poisson":
        return prior + (times * stats.poisson.logpmf(x, theta)).sum(axis=1)
    return prior + (times * stats.expon.logpdf(x, scale=1 / theta)).sum(axis=1)


def log_density(family: str, records: Any, tau: float, times: Any = 1) -> Any:
    """The sampled law, normalised by the trapezoid rule."""
    found = tau * log_posterior(family, records, times)
    found = found - found.max()
    return found - np.log(np.trapezoid(np.exp(found), on_grid(family)))


def largest_ratio(family: str, tau: float, sizes: tuple[int, ...]) -> float:
    """The largest log-ratio of densities over neighbours at the bounds, among data sets of the bounds alone."""
    low, high = BOUNDS[family]
    worst = 0.0
    for n, lows in itertools.chain.from_iterable([(n, k) for k in {0, n // 2, n - 1}] for n in sizes):
        here = log_density(family, [low, high], tau, np.array([lows + 1, n - lows - 1]))
        there = log_density(family, [low, high], tau, np.array([lows, n - lows]))
        worst = max(worst, float(np.max(np.abs(here - there))))
    return worst


@pytest.mark.parametrize("epsilon", [0.001, 0.1, 1.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_no_neighbour_changes_the_law_of_a_sample_by_more_than_epsilon(family: str, epsilon: float) -> None:
    tau = flattening(family, epsilon=epsilon, support=SUPPORT[family], bounds=BOUNDS[family])
    sizes = (1, 5, 200, 20_000)
    assert largest_ratio(family, tau, sizes) <= epsilon * (1 + 1e-6)
    # Planted: a tenth less caution is caught, so the bound is within a tenth of the worst case.
    if epsilon == 1.0:
        assert largest_ratio(family, 1.1 * tau, sizes) > epsilon


@pytest.mark.parametrize("epsilon", [3.0, 300.0, 1e5])
@pytest.mark.parametrize("family", FAMILIES)
def test_samples_have_the_flattened_law_at_epsilon_over_their_number(
    rng: np.random.Generator, family: str, epsilon: float
) -> None:
    low, high = BOUNDS[family]
    records = np.round(rng.uniform(low, high, 40)) if family != "exponential" else rng.uniform(low, high, 40)
    settings: Any = {"prior": PRIOR[family], "support": SUPPORT[family], "bounds": BOUNDS[family], "epsilon": epsilon}
    draws = next(iter(one_posterior_sampling(rng, family, records, samples=3000, **settings).values()))
    tau = flattening(family, epsilon=epsilon / 3000, support=SUPPORT[family], bounds=BOUNDS[family])
    theta = on_grid(family)
    density = np.exp(log_density(family, records, tau))
    total = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(theta))])
    assert stats.kstest(draws, lambda x: np.interp(x, theta, total)).pvalue > FALSE_ALARM
    if epsilon == 300.0:
        # Planted: ten times the records.
        wrong = one_posterior_sampling(rng, family, np.tile(records, 10), samples=3000, **settings)
        assert stats.kstest(next(iter(wrong.values())), lambda x: np.interp(x, theta, total)).pvalue < FALSE_ALARM


@pytest.mark.parametrize("answer", [0, 1])
def test_a_posterior_far_outside_the_support_is_drawn_at_its_end(rng: np.random.Generator, answer: int) -> None:
    """A million equal answers: the support holds e^-10^4 of the law, and the density there is an exponential one."""
    settings: Any = {"prior": (1, 1), "support": (0.1, 0.9), "bounds": (0, 1), "epsilon": 100.0, "samples": 2000}
    draws = one_posterior_sampling(rng, "binomial", np.full(10**6, answer), **settings)["p"]
    distance = draws - 0.1 if answer == 0 else 0.9 - draws
    rate = 10**6 * flattening("binomial", epsilon=0.05, support=(0.1, 0.9), bounds=(0, 1)) / 0.9
    assert stats.kstest(distance, stats.expon(scale=1 / rate).cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("family", FAMILIES)
def test_samples_are_wider_than_the_posterior_until_epsilon_is_huge(rng: np.random.Generator, family: str) -> None:
    records = {
        "binomial": rng.integers(0, 2, 400),
        "poisson": rng.poisson(3, 400),
        "exponential": rng.exponential(1, 400),
    }
    settings: Any = {"prior": (4.0, 4.0), "support": SUPPORT[family], "bounds": BOUNDS[family], "samples": 500}
    x = np.clip(records[family], *BOUNDS[family])
    right = next(iter(non_private(rng, family, x, prior=(4.0, 4.0), draws=500).values())).std()
    wide, narrow = (next(iter(one_posterior_sampling(rng, family, x, epsilon=e, **settings).values())).std()
                    for e in (1.0, 1e6))  # fmt: skip
    assert wide > 3 * right
    assert narrow == pytest.approx(right, rel=0.35)


def test_records_beyond_the_bounds_count_as_the_bounds(rng: np.random.Generator) -> None:
    settings: Any = {"prior": (2, 2), "support": (0.3, 9.0), "bounds": (0, 6), "epsilon": 1e6}
    far, near = (one_posterior_sampling(np.random.default_rng(5), "poisson", x, **settings)["rate"]
                 for x in (np.full(50, 10**9), np.full(50, 6)))  # fmt: skip
    assert np.array_equal(far, near)


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"family": "normal"}, "family"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"support": (0.0, 0.9)}, "support"),
        ({"support": (0.1, 1.0)}, "support"),
        ({"support": (0.9, 0.1)}, "support"),
        ({"bounds": (0, 2)}, "bounds"),
    ],
    ids=str,
)
def test_what_cannot_be_private_is_refused(rng: np.random.Generator, change: Any, argument: str) -> None:
    given: Any = {"family": "binomial", "epsilon": 1.0, "support": (0.1, 0.9), "bounds": (0, 1), **change}
    with pytest.raises(InvalidArgument) as raised:
        one_posterior_sampling(rng, given.pop("family"), [0, 1, 1], prior=(1, 1), **given)
    assert raised.value.argument == argument
