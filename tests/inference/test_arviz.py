"""Posteriors go to ArviZ as draws by name, before its version 1 and from then on."""

import sys
import types
import warnings

import numpy as np
import pytest

from noisewise.inference.posterior import Posterior
from noisewise.inference.verdict import Verdict, Words


@pytest.fixture
def posterior(rng):
    draws = {"income.mean": rng.normal(5, 1, (4, 200)), "p": rng.dirichlet([1, 1, 1], (4, 200))}
    return Posterior(draws, "toy", "it is a toy", "auto", Verdict(Words()), None, ())


def test_the_installed_version_takes_every_draw_and_agrees_on_the_diagnostics(posterior):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ announces its own future on import
        import arviz

        data = posterior.to_arviz()
        group = data["posterior"] if int(arviz.__version__.split(".")[0]) >= 1 else data.posterior
        assert set(group.data_vars) == {"income.mean", "p"}
        assert group["income.mean"].dims == ("chain", "draw")
        for name, value in posterior.draws.items():
            np.testing.assert_array_equal(group[name].values, value)
        table = arviz.summary(data, round_to="none")
    assert float(table.loc["income.mean", "mean"]) == pytest.approx(posterior.mean["income.mean"], rel=1e-6)
    assert float(table.loc["income.mean", "r_hat"]) == pytest.approx(posterior.rhat["income.mean"], rel=1e-6)
    assert float(table.loc["p[1]", "mean"]) == pytest.approx(posterior.mean["p"][1], rel=1e-6)


@pytest.mark.parametrize(("version", "is_grouped"), [("0.23.4", False), ("1.0.0", True), ("2.1.0rc1", True)])
def test_each_version_is_called_in_its_own_form(posterior, monkeypatch, version, is_grouped):
    calls = []
    fake = types.SimpleNamespace(
        __version__=version, from_dict=lambda *args, **kwargs: calls.append((args, kwargs)) or "made"
    )
    monkeypatch.setitem(sys.modules, "arviz", fake)
    assert posterior.to_arviz() == "made"
    ((args, kwargs),) = calls
    given = args[0]["posterior"] if is_grouped else kwargs["posterior"]
    assert (len(args), len(kwargs)) == ((1, 0) if is_grouped else (0, 1))
    assert set(given) == {"income.mean", "p"}
