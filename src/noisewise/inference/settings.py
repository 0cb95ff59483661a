"""How a method is asked to run: checked once for every population and model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from noisewise.exact import integer
from noisewise.inference.progress import Progress
from noisewise.likelihood.model import check_likelihood

__all__ = ["Settings", "whole_seed"]


@dataclass(frozen=True, slots=True)
class Settings:
    """A method by name with its options, draws and warm-up for each chain, a whole seed, and the n that was stated."""

    method: str = "auto"
    likelihood: str = "auto"
    draws: int = 1000
    warmup: int = 1000
    chains: int = 4
    seed: int = 0
    n: object = None
    options: Mapping[str, object] = field(default_factory=dict)
    report: Progress | None = None

    def __post_init__(self) -> None:
        integer(self.draws, "draws", minimum=1, maximum=10**8)
        integer(self.warmup, "warmup", minimum=0, maximum=10**8)
        integer(self.chains, "chains", minimum=1, maximum=10**5)
        check_likelihood(self.likelihood)

    @property
    def rng(self) -> np.random.Generator:
        """A generator at its start."""
        return np.random.default_rng(self.seed)


def whole_seed(seed: object) -> int:
    """The seed that was given, or a fresh one to be kept with the posterior."""
    if seed is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(1))
    return integer(seed, "seed", minimum=0)
