"""Diagnostics equal an independent implementation, known processes, and say what they found (promise E6)."""

import math
import warnings

import numpy as np
import pytest

from noisewise.inference import diagnostics as ours
from noisewise.inference.diagnostics import integrated_autocorrelation, missing_information, verdict
from noisewise.inference.verdict import Chains, Verdict


@pytest.fixture(scope="module")
def arviz():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz

        arviz.Numba.disable_numba()
        return arviz


def autoregression(rng, phi, shape):
    """A stationary AR(1) process: IAC (1 + phi)/(1 - phi)."""
    steps = rng.standard_normal(shape)
    x = np.empty(shape)
    x[..., 0] = steps[..., 0] / math.sqrt(1 - phi**2)
    for t in range(1, shape[-1]):
        x[..., t] = phi * x[..., t - 1] + steps[..., t]
    return x


CHAINS = {
    "independent": lambda rng: rng.standard_normal((4, 1000)),
    "odd length": lambda rng: rng.standard_normal((3, 333)),
    "one chain": lambda rng: rng.standard_normal((1, 500)),
    "heavy tails": lambda rng: rng.standard_cauchy((4, 500)),
    "slow": lambda rng: autoregression(rng, 0.95, (4, 1000)),
    "alternating": lambda rng: autoregression(rng, -0.6, (4, 1000)),
    "shifted": lambda rng: rng.standard_normal((4, 400)) + np.arange(4)[:, None],
    "other scale": lambda rng: rng.standard_normal((4, 400)) * np.array([[1], [1], [1], [5]]),
    "trend": lambda rng: rng.standard_normal((4, 400)) + np.linspace(0, 3, 400),
    "ties": lambda rng: np.repeat(rng.standard_normal((4, 100)), 10, axis=1),
    "random walk": lambda rng: np.cumsum(rng.standard_normal((4, 300)), axis=1),
    "one chain stuck": lambda rng: np.vstack([rng.standard_normal((3, 200)), np.full((1, 200), 0.3)]),
    "very short": lambda rng: rng.standard_normal((4, 8)),
}


@pytest.mark.parametrize("kind", CHAINS)
def test_r_hat_sizes_and_errors_equal_another_library(arviz, rng, kind):
    x = CHAINS[kind](rng)
    if len(x) > 1:  # theirs wants two chains; ours cuts one in two
        assert ours.rhat(x) == pytest.approx(arviz.rhat(x), rel=1e-8)
    for name, method in {"ess_bulk": "bulk", "ess_tail": "tail", "ess_mean": "mean"}.items():
        assert getattr(ours, name)(x) == pytest.approx(arviz.ess(x, method=method), rel=1e-8), name
    for name, method in {"mcse_mean": "mean", "mcse_sd": "sd"}.items():
        assert getattr(ours, name)(x) == pytest.approx(arviz.mcse(x, method=method), rel=1e-8), name
    for prob in (0.05, 0.5, 0.9):
        assert ours.ess_quantile(x, prob) == pytest.approx(arviz.ess(x, method="quantile", prob=prob), rel=1e-8)
        assert ours.mcse_quantile(x, prob) == pytest.approx(arviz.mcse(x, method="quantile", prob=prob), rel=1e-8)


def test_the_missing_information_fraction_equals_another_library(arviz, rng):
    energy = autoregression(rng, 0.7, (4, 500))
    assert missing_information(energy) == pytest.approx(arviz.bfmi(energy), rel=1e-12)
    assert missing_information(np.cumsum(rng.standard_normal((2, 2000)), axis=1)).max() < 0.3


@pytest.mark.parametrize("bad", ["constant", "nan", "inf", "short"])
def test_what_cannot_be_judged_is_nan_never_a_good_number(rng, bad):
    x = rng.standard_normal((4, 100))
    x = {
        "constant": np.ones((4, 100)),
        "nan": np.where(x > 2, np.nan, x) if np.any(x > 2) else np.full_like(x, np.nan),
        "inf": np.where(x == x.max(), np.inf, x),
        "short": x[:, :3],
    }[bad]
    for name in ("rhat", "ess_bulk", "ess_tail", "ess_mean"):
        assert math.isnan(getattr(ours, name)(x)), name
    assert math.isnan(integrated_autocorrelation(x))


@pytest.mark.parametrize("phi", [-0.5, 0.0, 0.5, 0.9])
def test_the_integrated_autocorrelation_of_a_known_process(rng, phi):
    """Sokal: the estimate has variance 2(2M + 1)/n tau^2 at window M, and leaves out the terms beyond M."""
    chains, draws = 400, 4000
    tau = (1 + phi) / (1 - phi)
    window = math.ceil(5 * max(tau, 1))
    error = 5 * tau * math.sqrt(2 * (2 * window + 1) / (chains * draws)) + 2 * abs(phi) ** window / (1 - phi)
    estimate = integrated_autocorrelation(autoregression(rng, phi, (chains, draws)))
    assert abs(estimate - tau) < error
    assert abs(estimate - 1.25 * tau) > error  # a quarter off would show


def test_a_good_run_is_said_to_have_converged(rng):
    found = verdict(rng.standard_normal((4, 1000, 3)), names=("a", "b", "c"), non_finite=np.zeros(4, int))
    assert found.is_converged
    assert str(found) == f"Converged: R-hat {found.rhat:.2f}, smallest ESS {found.smallest_ess:.0f} of 4000."
    assert found.rhat < 1.01
    assert found.smallest_ess > 2500


def test_the_verdict_names_the_parameter_that_has_not_mixed(rng):
    x = rng.standard_normal((4, 500, 3))
    x[:, :, 1] += np.arange(4)[:, None]
    found = verdict(x, names=("a", "b", "c"))
    assert not found.is_converged
    assert str(found).startswith("Not converged: R-hat ")
    assert "(b)" in str(found)


def test_the_sentences_of_broken_runs():
    good = {"rhat": 1.0, "smallest_ess": 3812.4, "worst": None, "draws": 4000, "chains": 4}
    still = (3, 2, 5, 1)
    assert str(Verdict(Chains(**good, non_finite=(0,) * 4, warmup_non_finite=(0,) * 4, longest_standstill=still))) == (
        "Converged: R-hat 1.00, smallest ESS 3812 of 4000."
    )
    assert str(
        Verdict(Chains(**good, non_finite=(0, 0, 12, 0), warmup_non_finite=(0,) * 4, longest_standstill=still))
    ) == ("12 of 4000 steps met a non-finite density; chain 3 should be run again.")
    assert str(Verdict(Chains(**good, non_finite=(1, 0, 2, 1), warmup_non_finite=(), longest_standstill=still))) == (
        "4 of 4000 steps met a non-finite density; chains 1, 3 and 4 should be run again."
    )
    assert str(
        Verdict(Chains(**good, non_finite=(0,) * 4, warmup_non_finite=(0, 7, 0, 0), longest_standstill=still))
    ) == (
        "Converged: R-hat 1.00, smallest ESS 3812 of 4000. 7 warm-up steps met a non-finite density and were rejected."
    )
    assert str(
        Verdict(Chains(**good, non_finite=(0,) * 4, warmup_non_finite=(), longest_standstill=(3, 400, 5, 1)))
    ) == ("Chain 2 stood still for up to 400 of 1000 steps and should be run again, longer or with another method.")


def test_a_standstill_is_counted_in_steps(rng):
    x = rng.standard_normal((2, 300, 2))
    x[1, 100:150] = x[1, 100]
    x[0, 10:40, 0] = 1.0  # the other coordinate still moves
    found = verdict(x)
    assert found.evidence.longest_standstill == (0, 49)
    assert found.evidence.stuck == (2,)


def test_constant_draws_are_never_called_converged():
    found = verdict(np.ones((4, 100, 1)))
    assert not found.is_converged
    assert found.evidence.stuck == (1, 2, 3, 4)
    assert "Not converged" in str(found)
