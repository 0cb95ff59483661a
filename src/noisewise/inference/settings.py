"""How long a method runs and from which seed: checked once for `infer` and for every model it calls."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from noisewise.exact import integer
from noisewise.likelihood.joint import check_likelihood

__all__ = ["POINT", "check_settings", "whole_seed"]

POINT = "A point estimate: there are no draws to judge."


def check_settings(settings: Mapping[str, object], likelihood: object) -> None:
    """Refuse numbers of draws, warm-up and chains, and likelihoods, that there are not."""
    integer(settings["draws"], "draws", minimum=1, maximum=10**8)
    integer(settings["warmup"], "warmup", minimum=0, maximum=10**8)
    integer(settings["chains"], "chains", minimum=1, maximum=10**5)
    check_likelihood(likelihood)


def whole_seed(seed: object) -> int:
    """The seed that was given, or a fresh one to be kept with the posterior."""
    if seed is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(1))
    return integer(seed, "seed", minimum=0)
