"""What every noise law owes, driven over the validity table: a law that is registered joins by itself."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
import staircase
from scipy import stats

import noisewise as nw
from noisewise.audit.cases import plans, rows_of
from noisewise.audit.exact import exact_loss
from noisewise.audit.fit import fit_of_plan
from noisewise.audit.targets import FIT_LEVEL, LEVEL, target
from noisewise.laws import Form, additive_law, law_from_dict, smooth_law
from noisewise.likelihood.simulate import simulated_steps
from noisewise.privacy import divergence
from noisewise.privacy.mechanism import mechanism_named

ALARM = 1e-6


@pytest.fixture(scope="module", autouse=True)
def all_laws():
    """The staircase stands for a law from outside: it has to pass what the others pass."""
    with staircase.registered(*staircase.PIECES):
        yield


ROWS = [*rows_of(None), ("staircase", nw.PureDP)]


def driven(rows):
    return pytest.mark.parametrize(("mechanism", "kind"), rows, ids=[f"{name}-{kind.__name__}" for name, kind in rows])


def adds_noise(mechanism):
    return mechanism == "staircase" or mechanism_named(mechanism).added is not None


EVERY = driven(ROWS)
ADDED = driven([row for row in ROWS if adds_noise(row[0])])
STEPS = driven([row for row in ROWS if adds_noise(row[0]) or row[0].startswith("smooth")])


def laws_of(mechanism, kind):
    return [next(plans(mechanism, kind, Fraction(level))).law for level in ("0.1", "1", "5")]


@EVERY
def test_a_law_is_plain_data_with_words(mechanism, kind):
    for law in laws_of(mechanism, kind):
        assert law_from_dict(json.loads(json.dumps(law.to_dict()))) == law
        assert law.family in law.words() or len(law.words()) > 20
        assert law.brief()
        assert set(mechanism_named(law.mechanism).guarantees) >= {kind}
        assert law.share_of_noise(law) == 1
        if law.form is not Form.ACTION:  # an estimator's rows are checked exactly by its plan
            assert law.smaller(Fraction(9, 10)).share_of_noise(law) < 0.91


@EVERY
def test_the_exact_divergence_of_a_law_is_within_its_guarantee_and_a_smaller_one_is_not(mechanism, kind):
    for level in ("0.1", "1", "5"):
        made = list(islice(plans(mechanism, kind, Fraction(level)), 6))
        assert all(exact_loss(one).holds for one in made)
        # Smooth and exponential laws are not tight for every statistic; for some a tenth of the noise shows.
        assert not all(exact_loss(replace(one, law=one.law.smaller(Fraction(1, 10)))).holds for one in made)


@EVERY
def test_what_is_drawn_is_the_law_and_a_tenth_less_is_not(mechanism, kind):
    made = target(mechanism, kind, FIT_LEVEL.get(mechanism, LEVEL)).plan
    assert fit_of_plan(made).fits
    assert not fit_of_plan(made, drawn=made.law.smaller(Fraction(9, 10))).fits


@STEPS
def test_what_is_simulated_is_the_law(mechanism, kind, rng):
    for law in laws_of(mechanism, kind):
        if law.form is Form.NUMBER:
            one = additive_law(law)
            ratio, cdf = one.ratio[0], one.cdf
        else:
            scale = 900 * float(smooth_law(law).alpha) * smooth_law(law).step
            ratio, cdf = 900.0, lambda k, law=law, scale=scale: smooth_law(law).cdf(k, smooth_scale=scale)
        drawn = simulated_steps(law, rng, np.asarray(ratio), 4000)
        assert drawn.dtype == np.int64
        if ratio < 20:
            for k in range(-3, 4):
                below = int(np.sum(drawn <= k))
                assert stats.binomtest(below, 4000, float(np.clip(cdf(k), 0, 1))).pvalue > ALARM
        else:
            spread = cdf(drawn) - rng.random(4000) * (cdf(drawn) - cdf(drawn - 1))
            assert stats.kstest(spread, "uniform").pvalue > ALARM


@ADDED
def test_probabilities_sum_to_one_and_agree_with_each_other(mechanism, kind):
    for law in laws_of(mechanism, kind):
        coarse = replace(additive_law(law), scale=(7.3,), step=(1.0,))
        reach = coarse.reach(1e-13)
        k = np.arange(-reach, reach + 1)
        p = np.exp(coarse.log_pmf(k))
        assert p.sum() == pytest.approx(1, abs=1e-11)
        np.testing.assert_allclose(coarse.cdf(k), np.cumsum(p), atol=1e-11)
        assert np.sqrt(p @ (k * k.astype(float))) == pytest.approx(coarse.sd[0], rel=1e-6)
        for tail in (1e-3, 1e-9):
            assert coarse.cdf(-coarse.reach(tail) - 1) <= tail
        if (mixture := coarse.mixture()) is not None:
            assert mixture.variance[0] == pytest.approx(coarse.sd[0] ** 2, rel=0.02)
        if coarse.is_log_concave:
            assert np.all(np.diff(coarse.log_pmf(k), 2) <= 1e-9)


@ADDED
def test_the_divergence_from_the_pmf_agrees_with_the_closed_forms(mechanism, kind):
    """One component moved by its sensitivity uses all of a pure or concentrated guarantee, and no more."""
    added = mechanism_named(mechanism).added
    guarantee = divergence.guarantee_beside(kind, Fraction(1))
    law = added.law((float(added.scale(Fraction(1), guarantee)),), (2.0**-6,), guarantee)
    used = divergence.loss(guarantee, law, [64])
    assert used <= 1 + 1e-9
    assert used >= (0.999 if kind in (nw.PureDP, nw.ZeroConcentratedDP) else 0.5)
