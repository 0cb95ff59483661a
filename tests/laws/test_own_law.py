"""A law from outside the package: planned, drawn, released, learnt from, audited; refused where a piece is missing."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import staircase
from scipy import integrate, stats
from staircase import PIECES, STAIRCASE, registered

import noisewise as nw
from noisewise.audit.run import audit
from noisewise.errors import InvalidArgument, InvalidRelease, NoisewiseError, Unregistered, Unsupported
from noisewise.graphical.direct import direct
from noisewise.privacy.mechanism import mechanism_names, register_mechanism

SCHEMA = nw.Schema({"x": nw.Bounded(0, 10)}, n=400, neighbours="change-one")
X = nw.column("x")
NORMAL = nw.Normal(mean=stats.norm(5, 3), sd=2.0)


def released(tmp_path, statistic, rng, n=400, epsilon=1):
    """A release file made of real records by the holder's whole way."""
    schema = nw.Schema({"x": nw.Bounded(0, 10)}, n=n, neighbours="change-one")
    plan = nw.plan(statistic, schema, guarantee=nw.PureDP(epsilon), mechanism="staircase")
    table = nw.Table.read({"x": np.clip(rng.normal(4, 2, n), 0, 10)}, schema)
    with nw.Ledger.open(tmp_path / "own.ledger", limit=nw.PureDP(epsilon)) as ledger:
        nw.make_release(table, plan, ledger=ledger).save(tmp_path / "own.json")
    return nw.Release.load(tmp_path / "own.json")


def test_a_sum_under_a_law_of_ones_own_goes_the_whole_way(tmp_path, rng):
    with registered(*PIECES):
        release = released(tmp_path, nw.Mean("x"), rng)
        posterior = nw.infer(release, NORMAL, seed=1, progress=False)
        law, y = release.law, release.value[0] * release.law.step[0]
        mean = np.linspace(2, 6, 401)
        # By another road: the density of the noise (flat on its stairs) integrated against the normal sum directly.
        low, high = stats.norm(mean, 2).cdf(0), stats.norm(mean, 2).sf(10)
        x = np.linspace(0, 10, 2001)
        p = stats.norm.pdf(x, mean[:, None], 2.0)
        first = integrate.trapezoid(x * p, x) + 10 * high
        second = integrate.trapezoid(x * x * p, x) + 100 * high
        assert np.all(low + high <= 1.01)
        u = np.linspace(-12, 12, 4001)
        log_p = []
        for m, v in zip(400 * first, 400 * (second - first**2), strict=True):
            sums = m + np.sqrt(v) * u
            noise = np.exp(law.log_pmf(np.round((y - sums) / law.step[0])))
            log_p.append(np.log(integrate.trapezoid(stats.norm.pdf(u) * noise, u) + 1e-300))
        weight = np.exp(np.array(log_p) + stats.norm(5, 3).logpdf(mean))
        weight /= weight.sum()
        expected = weight @ mean
        spread = np.sqrt(weight @ (mean - expected) ** 2)
    assert posterior.mean["mean"] == pytest.approx(expected, abs=0.02 * spread + 5 * spread / 60)
    assert posterior.sd["mean"] == pytest.approx(spread, rel=0.1)
    assert "staircase" in posterior.because


def test_a_count_under_a_law_of_ones_own_is_exact(tmp_path, rng):
    with registered(*PIECES):
        release = released(tmp_path, nw.Count(nw.column("x").between(0, 3)), rng, n=60)
        p = np.linspace(0.0005, 0.9995, 1000)
        s = np.arange(61)
        noise = np.exp(release.law.log_pmf(release.value[0] - s))
        likelihood = stats.binom.pmf(s, 60, p[:, None]) @ noise
        schema = nw.Schema({"x": nw.Bounded(0, 10)}, n=60, neighbours="change-one")
        assert release.schema == schema
        posterior = nw.infer(release, nw.Uniform(low=0, width=stats.uniform(3, 20)), seed=1, progress=False)
        share = np.clip(3 / np.linspace(3.001, 23, 20000), 0, 1)
        weight = np.interp(share, p, likelihood)
        expected = (weight @ np.linspace(3.001, 23, 20000)) / weight.sum()
    assert posterior.mean["width"] == pytest.approx(expected, rel=0.05)


def test_few_records_under_a_law_of_ones_own_are_learnt_from_a_bank(tmp_path, rng):
    with registered(*PIECES):
        release = released(tmp_path, nw.Mean("x"), rng, n=10, epsilon=5)
        posterior = nw.infer(release, NORMAL, seed=1, progress=False)
    assert abs(posterior.mean["mean"] - release.estimate[0]) < 3


@pytest.mark.slow
def test_a_law_of_ones_own_is_audited_with_the_rest():
    with registered(*PIECES):
        (row,) = audit("staircase", runs=40, processes=1)
    assert row.is_sound
    assert 0.9 < row.exact_loss <= 1 + 1e-9


def test_a_law_with_too_little_noise_is_not_registered():
    small = replace(STAIRCASE, added=replace(STAIRCASE.added, scale=lambda d, g: Fraction(9, 10) * d / g.epsilon))
    with registered("law"):
        with pytest.raises(Unsupported, match="not registered"):
            register_mechanism(small)
        assert "staircase" not in mechanism_names()


def test_a_law_that_hides_one_number_cannot_claim_to_hide_several():
    bold = replace(STAIRCASE, added=replace(STAIRCASE.added, is_for_vectors=True))
    with registered("law"), pytest.raises(Unsupported, match="not registered"):
        register_mechanism(bold)


def test_a_law_that_hides_one_number_is_refused_two():
    with registered(*PIECES), pytest.raises(Unsupported, match="one number"):
        nw.plan(nw.Mean(X, X**2), SCHEMA, guarantee=nw.PureDP(1), mechanism="staircase")


# ---- a missing piece is named, and nothing is spent ----


def test_without_its_mechanism_a_law_is_not_planned():
    with registered("law", "sampler", "simulated_steps"), pytest.raises(InvalidArgument, match="mechanism"):
        nw.plan(nw.Mean("x"), SCHEMA, guarantee=nw.PureDP(1), mechanism="staircase")


def test_without_its_sampler_nothing_is_released_or_spent(tmp_path):
    table = nw.Table.read({"x": [1.0] * 400}, SCHEMA)
    with registered("law", "mechanism", "simulated_steps"):
        plan = nw.plan(nw.Mean("x"), SCHEMA, guarantee=nw.PureDP(1), mechanism="staircase")
        with nw.Ledger.open(tmp_path / "l", limit=nw.PureDP(1)) as ledger:
            with pytest.raises(Unregistered) as caught:
                nw.make_release(table, plan, ledger=ledger)
            assert ledger.spent() is None
    assert caught.value.piece == "sampler"


def test_without_its_simulation_a_law_is_not_simulated():
    with registered("law", "mechanism", "sampler"):
        plan = nw.plan(nw.Mean("x"), SCHEMA, guarantee=nw.PureDP(1), mechanism="staircase")
        with pytest.raises(Unregistered) as caught:
            nw.simulate(plan, NORMAL, seed=1)
    assert caught.value.piece == "simulated_steps"


def test_a_release_file_under_an_unknown_law_is_not_read(tmp_path, rng):
    with registered(*PIECES):
        released(tmp_path, nw.Mean("x"), rng)
    with pytest.raises(InvalidRelease, match="noise family"):
        nw.Release.load(tmp_path / "own.json")


def made_up(statistic, schema, guarantee=None):
    """A release under the staircase that no plan would make, as a forger or a careless bridge might."""
    plan = nw.plan(statistic, schema, guarantee=guarantee or nw.PureDP(1))
    law = staircase.Staircase(plan.law.scale, plan.law.step, 1)
    count = schema.n if statistic.kind == "records" else law.size
    size = plan.lattice.high[0] // 2 if statistic.kind != "records" else 0
    value = tuple(sorted(size for _ in range(count)))
    return nw.Release(
        dataset="d", schema=schema, statistic=statistic, weights=plan.weights, law=law, guarantee=plan.guarantee,
        value=value, simulated=True,
    )  # fmt: skip


TWO = nw.Schema({"x": nw.Bounded(0, 10), "y": nw.Bounded(0, 10)}, n=400, neighbours="change-one")
LEVELS = nw.Schema({"a": nw.Levels([0, 1]), "b": nw.Levels([0, 1])}, n=400, neighbours="change-one")
NORMALS = nw.Normal(mean=stats.norm(5, 3), sd=stats.halfnorm(scale=3))
ROUTES = {
    "two sums": lambda: nw.infer(made_up(nw.Mean(X, X**2), SCHEMA), NORMALS, seed=1, progress=False),
    "clt": lambda: nw.infer(made_up(nw.Mean("x"), SCHEMA), NORMAL, likelihood="clt", seed=1, progress=False),
    "gibbs": lambda: nw.infer(made_up(nw.Mean("x"), SCHEMA), NORMAL, method="gibbs", seed=1, progress=False),
    "local answers": lambda: nw.infer(made_up(nw.Records("x"), SCHEMA), NORMAL, seed=1, progress=False),
    "histogram": lambda: nw.infer(made_up(nw.Histogram("x", [3, 6]), SCHEMA), NORMAL, seed=1, progress=False),
    "regression": lambda: nw.infer(
        made_up(nw.Moments(["x"], "y"), TWO), nw.LinearRegression(["x"], "y"), seed=1, progress=False
    ),
    "tables": lambda: nw.infer(
        made_up(nw.Marginals(["a", "b"]), LEVELS), nw.GraphicalModel([["a", "b"]], LEVELS), seed=1, progress=False
    ),
    "shares of a table": lambda: direct(made_up(nw.Marginals(["a", "b"]), LEVELS), level=0.9, n=None),
    "choosing for a regression": lambda: nw.LinearRegression(["x"], "y").information_engine(
        replace(
            nw.plan(nw.Moments(["x"], "y"), TWO, guarantee=nw.PureDP(1)), law=made_up(nw.Moments(["x"], "y"), TWO).law
        ),
        n=None,
        seed=1,
        draws=None,
    ),
    "information": lambda: nw.information(
        nw.plan(nw.Mean("x"), SCHEMA, guarantee=nw.PureDP(1), mechanism="staircase"), NORMAL
    ),
}


@pytest.mark.parametrize("route", ROUTES)
def test_no_formula_takes_an_unknown_law_for_a_gaussian_one(route):
    """G1: where a formula is closed for Laplace and normal noise alone, another law is refused, by a sentence."""
    with registered("law", "mechanism"), pytest.raises(NoisewiseError) as caught:
        ROUTES[route]()
    # The conjugate families say which noise they take; everywhere else the missing piece is named.
    assert "Laplace" in str(caught.value) if route == "gibbs" else isinstance(caught.value, Unregistered)
