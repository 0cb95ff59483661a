"""A1b, B2: what plans draw is the law they publish; a tenth off is rejected."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from noisewise.audit.cases import rows_of
from noisewise.audit.fit import critical_value, draws_needed, fit_of_plan, goodness_of_fit
from noisewise.audit.targets import FIT_LEVEL, LEVEL, target

ROWS = rows_of(None)

ROW_IDS = [f"{mechanism}-{kind.__name__}" for mechanism, kind in ROWS]


@pytest.mark.parametrize(("mechanism", "kind"), ROWS, ids=ROW_IDS)
def test_what_a_plan_draws_is_its_law_and_a_tenth_off_is_rejected(mechanism, kind):
    plan = target(mechanism, kind, FIT_LEVEL.get(mechanism, LEVEL)).plan
    assert fit_of_plan(plan).fits
    assert not fit_of_plan(plan, drawn=plan.law.smaller(Fraction(9, 10))).fits


def test_the_critical_value_and_the_sample_size_are_those_of_the_chi_square():
    assert critical_value(24) == pytest.approx(stats.chi2.isf(1e-6, 23), rel=1e-9)
    true = np.full(10, 0.1)
    tilted = true * np.linspace(0.9, 1.1, 10)
    n = draws_needed(true, [tilted])
    shift = n * np.sum((true - tilted) ** 2 / tilted)
    assert stats.ncx2.sf(stats.chi2.isf(1e-6, 9), 9, shift) > 1 - 1e-6
    exact = goodness_of_fit((true * n).astype(int), true)
    assert exact.fits
    assert not goodness_of_fit((tilted * 2 * n).astype(int), true).fits
