"""The compiled bank of polynomial sums: equal to the general one, and to brute force over whole data sets."""

from __future__ import annotations

import numpy as np
import pytest
from made_releases import release_of
from scipy import stats

import noisewise as nw
from noisewise.likelihood.bank import RecordsBank
from noisewise.likelihood.bank_sums import PolynomialSums, polynomial

X = nw.column("x")
BOTH = nw.Normal(prior=stats.normal_inverse_gamma(0, 1, 3, 3))
POWER = 5.5  # standard errors, estimated from 64 batches: a false alarm in 1e-6


def schema_of(n: int, low: float = -5, high: float = 5) -> nw.Schema:
    return nw.Schema({"x": nw.Bounded(low, high)}, n=n, neighbours="change-one")


@pytest.mark.parametrize("guarantee", [nw.PureDP(2), nw.GaussianDP(2)], ids=["laplace", "gaussian"])
@pytest.mark.parametrize(
    ("population", "at"),
    [
        (BOTH, {"mean": [0.1, 3.0, -6.0], "variance": [1.0, 0.2, 9.0]}),
        (nw.Exponential(rate=stats.gamma(2)), {"rate": [0.1, 1.0, 6.0]}),
        (nw.Uniform(low=0, width=stats.uniform(1, 20)), {"width": [1.5, 4.0, 12.0]}),
    ],
    ids=["normal", "exponential", "uniform"],
)
def test_the_compiled_sums_score_as_the_general_bank(guarantee, population, at) -> None:
    """With a known release too, whose features are X + 1 and the fourth power."""
    schema = schema_of(6, -4, 5)
    releases = (
        release_of(nw.Mean(X, X**2), schema, guarantee, [0.8, 1.9]),
        release_of(nw.Sum(X + 1, X**4 - X), schema, guarantee, [9.0, 30.0]),
    )
    bank = RecordsBank.of(releases, population, n=6, size=64)
    theta = {name: np.array(value) for name, value in at.items()}
    assert bank._sums is not None
    logs = bank._scramble_logs(theta)
    for k in range(3):
        records = bank._records(bank.base, {name: value[k : k + 1] for name, value in theta.items()})
        general = bank._log_noise(records).reshape(8, -1)
        assert logs[k] == pytest.approx(np.log(np.exp(general).mean(axis=1)), abs=1e-7)


def test_only_polynomials_of_one_clamped_column_are_compiled() -> None:
    schema = schema_of(5)
    assert polynomial(2 * X**3 - X + 4, schema, "x") == pytest.approx([4, -1, 0, 2, 0], abs=1e-11)
    assert polynomial(abs(X), schema, "x") is None
    assert polynomial(X.clip(-4.9, 5), schema, "x") is None
    base = np.random.default_rng(0).random((64, 5))
    for statistic in (nw.Sum(X, abs(X)), nw.Sum(X.between(0, 1), X)):
        release = release_of(statistic, schema, nw.PureDP(1), [1.0, 1.0])
        assert PolynomialSums.of((release,), BOTH, base) is None
    refusing = nw.Schema({"x": nw.Bounded(-5, 5)}, n=5, neighbours="change-one", outside="refuse")
    assert PolynomialSums.of((release_of(nw.Sum(X), refusing, nw.PureDP(1), [1.0]),), BOTH, base) is None


def test_wide_noise_is_content_with_a_small_bank_and_narrow_noise_is_not() -> None:
    sizes = {}
    for epsilon in ("0.01", "1", "10"):
        release = release_of(nw.Sum(X, X**2), schema_of(10), nw.PureDP(epsilon), [9.0, 20.0])
        bank = RecordsBank.of((release,), BOTH, n=10)
        sizes[epsilon] = bank.size
        assert bank.typical_error <= 2e-3 or bank.size == 8192
    assert sizes["0.01"] == 1024
    assert sizes["10"] == 8192


@pytest.mark.parametrize("n", [2, 8])
def test_the_posterior_of_mean_and_variance_matches_importance_sampling_over_data_sets(n: int) -> None:
    """Parameters from the prior, records, clamp and sums; each weighted by the noise density of the release."""
    release = release_of(nw.Sum(X, X**2), schema_of(n), nw.PureDP(8), [1.1 * n, 2.0 * n])
    posterior = nw.infer(release, BOTH, seed=1, progress=False)
    assert "bank" in posterior.because
    rng = np.random.default_rng(3)
    variance = 1 / rng.gamma(3, 1 / 3, (64, 12_000))
    mean = rng.normal(0, np.sqrt(variance))
    x = np.clip(mean[..., None] + np.sqrt(variance)[..., None] * rng.standard_normal((64, 12_000, n)), -5, 5)
    noise = np.array(release.law.scale)
    residual = np.stack([1.1 * n - x.sum(axis=2), 2.0 * n - np.square(x).sum(axis=2)], axis=-1)
    weight = np.exp(-np.sum(np.abs(residual) / noise, axis=-1))

    def farthest(posterior: nw.Posterior) -> float:
        """The largest distance of four posterior expectations from the weighted ones, in standard errors."""
        found = []
        for name, value in (("mean", mean), ("variance", variance)):
            for test in (lambda v: v, lambda v: v < 1.0):
                each = np.stack([(weight * test(value)).sum(axis=1), weight.sum(axis=1)])
                total = each.sum(axis=1, keepdims=True)
                left_out = (total - each)[0] / (total - each)[1]
                error = np.sqrt(63 / 64 * np.sum(np.square(left_out - left_out.mean())))
                drawn = np.asarray(test(posterior.draws[name].ravel()), dtype=float)
                spread = np.hypot(error, 1.3 * drawn.std() / np.sqrt(drawn.size))  # proposals are not all accepted
                found.append(abs(drawn.mean() - total[0, 0] / total[1, 0]) / spread)
        return max(found)

    assert farthest(posterior) < POWER
    if n == 2:
        by_the_clt = nw.infer(release, BOTH, likelihood="clt", draws=4000, seed=1, progress=False)
        assert farthest(by_the_clt) > POWER
