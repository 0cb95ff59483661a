"""What a rebuilding must not move: likelihoods, scores, informations, noise and posteriors of every kind of release."""

from __future__ import annotations

import json
from typing import Any

import golden_numbers
import numpy as np
import pytest

import noisewise as nw

GOLDEN = json.loads(golden_numbers.FILE.read_text())
# Closed forms agree to rounding; what an adaptive rule finds agrees to the rule's own error.
RELATIVE, POSTERIOR = 1e-12, 1e-7


def same(found: Any, kept: Any, tolerance: float, where: str) -> None:
    if isinstance(kept, dict):
        assert set(found) == set(kept), where
        for name in kept:
            same(found[name], kept[name], tolerance, f"{where}.{name}")
    elif isinstance(kept, str) or kept is None:
        assert found == kept, where
    else:
        scale = float(np.max(np.abs(kept), initial=1e-300))
        np.testing.assert_allclose(found, kept, rtol=tolerance, atol=tolerance * scale, err_msg=where)


@pytest.mark.parametrize("name", golden_numbers.CASES)
def test_the_numbers_of_a_case_stay_where_they_were(name: str) -> None:
    found, kept = golden_numbers.measured(name), GOLDEN["cases"][name]
    same(found.pop("posterior"), kept.pop("posterior"), POSTERIOR, "posterior")
    # Scores by differences of log p carry its rounding, divided by their step; an information is made of their like.
    same(found.pop("score"), kept.pop("score"), 1e-6, "score")
    same(found.pop("information", None), kept.pop("information", None), 1e-9, "information")
    same(found, kept, RELATIVE, name)


@pytest.mark.parametrize("name", golden_numbers.PLANS)
def test_the_noise_of_a_plan_stays_what_it_was(name: str) -> None:
    statistic, schema, guarantee, options = golden_numbers.PLANS[name]
    plan = nw.plan(statistic, schema, guarantee=guarantee, **options)
    same(golden_numbers.planned(plan), GOLDEN["plans"][name], RELATIVE, name)


def test_every_case_is_kept() -> None:
    assert set(GOLDEN["cases"]) == set(golden_numbers.CASES)
    assert set(GOLDEN["plans"]) == set(golden_numbers.PLANS)
