"""Running a kernel: start, warm-up, draws; to be stopped and resumed at any step.

A `Run` holds everything the rest of the run depends on: the kernel's state, what warm-up has learned, the generator,
and the draws so far. Saved to a file and loaded, it continues exactly as if it had never stopped (the same draws, bit
for bit, on the same machine). All chains move together, as rows of one array.

Chains start at draws from the prior, spread out but not where the release is all but impossible, unless positions are
given. Steps that met a
non-finite density are counted by chain, for the verdict.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisewise.errors import InvalidArgument, NoisewiseError
from noisewise.exact import integer
from noisewise.inference import adapt, archive
from noisewise.inference.adapt import Adaptation, Progress
from noisewise.inference.kernels import Floats, Kernel, MakeKernel, Target, Walk

FORMAT = "noisewise-run/1"
Counts = NDArray[np.int64]
# A prior whose draws have no density this often is not worth more of them.
PRIOR_DRAWS_A_CHAIN = 100
SPREAD = 5


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The draws of a finished run, and what happened on the way."""

    positions: Floats  # (chains, draws, size), on the real line
    log_density: Floats  # (chains, draws)
    acceptance: Floats  # (chains,): share of proposals accepted among the draws
    non_finite: Counts  # (chains,): draws that met a non-finite density
    warmup_non_finite: Counts  # (chains,)
    walk: Walk  # as tuned


def run(
    rng: np.random.Generator,
    make_kernel: MakeKernel,
    target: Target,
    *,
    chains: int = 4,
    warmup: int = 1000,
    draws: int = 1000,
    position: Floats | None = None,
    progress: Progress | None = None,
) -> Trace:
    """Warm up, draw, and return the trace; `progress(done, total)` is called now and then."""
    session = Run.begin(rng, make_kernel, target, chains=chains, warmup=warmup, draws=draws, position=position)
    session.advance(progress=progress)
    return session.trace()


class Run:
    """A run in progress. `begin` or `load` it, `advance` it, `save` it at any step."""

    __slots__ = (
        "accepted", "draws", "known", "log_density", "make_kernel", "non_finite", "positions", "rng", "state", "step",
        "target", "warmup", "warmup_non_finite",
    )  # fmt: skip

    def __init__(
        self,
        rng: np.random.Generator,
        make_kernel: MakeKernel,
        target: Target,
        state: Any,
        known: Adaptation,
        *,
        warmup: int,
        draws: int,
    ) -> None:
        chains, size = state.position.shape
        self.rng, self.make_kernel, self.target, self.state, self.known = rng, make_kernel, target, state, known
        self.warmup, self.draws, self.step = warmup, draws, 0
        self.positions: Floats = np.full((chains, draws, size), np.nan)
        self.log_density: Floats = np.full((chains, draws), np.nan)
        self.accepted: Counts = np.zeros(chains, np.int64)
        self.non_finite: Counts = np.zeros(chains, np.int64)
        self.warmup_non_finite: Counts = np.zeros(chains, np.int64)

    @classmethod
    def begin(
        cls,
        rng: np.random.Generator,
        make_kernel: MakeKernel,
        target: Target,
        *,
        chains: int = 4,
        warmup: int = 1000,
        draws: int = 1000,
        position: Floats | None = None,
    ) -> Run:
        """A run at its first step."""
        integer(chains, "chains", minimum=1)
        integer(warmup, "warmup", minimum=0)
        integer(draws, "draws", minimum=1)
        kernel = make_kernel(target, walk=Walk.isotropic(target.size, 1.0))
        state = start(rng, kernel, target, chains=chains, position=position)
        known = adapt.begin(kernel, state.position, warmup)
        return cls(rng, make_kernel, target, state, known, warmup=warmup, draws=draws)

    @property
    def total(self) -> int:
        return self.warmup + self.draws

    def advance(self, steps: int | None = None, progress: Progress | None = None) -> None:
        """`steps` more steps, or all that remain."""
        end = self.total if steps is None else min(self.total, self.step + integer(steps, "steps", minimum=0))
        stride = max(1, self.total // 100)
        while self.step < min(end, self.warmup):
            kernel = self.make_kernel(self.target, walk=self.known.walk)
            self.state, info = kernel.step(self.rng, self.state)
            self.known = adapt.learn(self.known, self.state.position, info)
            self.warmup_non_finite += ~info.is_finite
            self._count_step(stride, progress)
        kernel = self.make_kernel(self.target, walk=self.known.walk)
        while self.step < end:
            self.state, info = kernel.step(self.rng, self.state)
            at = self.step - self.warmup
            self.positions[:, at], self.log_density[:, at] = self.state.position, self.state.log_density
            self.accepted += info.accepted
            self.non_finite += ~info.is_finite
            self._count_step(stride, progress)

    def trace(self) -> Trace:
        """The draws so far."""
        drawn = max(0, self.step - self.warmup)
        return Trace(
            self.positions[:, :drawn].copy(),
            self.log_density[:, :drawn].copy(),
            self.accepted / max(1, drawn),
            self.non_finite.copy(),
            self.warmup_non_finite.copy(),
            self.known.walk,
        )

    def save(self, path: str | Path) -> None:
        """Write the run to one file; a crash leaves the old file or the new one, never half of it."""
        numbers = {
            "format": FORMAT,
            "kernel": _kernel_name(self.make_kernel, self.target),
            "step": self.step,
            "warmup": self.warmup,
            "draws": self.draws,
            "rng": _plain(self.rng.bit_generator.state),
            "known": {name: _plain(value) for name, value in self.known._asdict().items()},
        }
        arrays: dict[str, Any] = {f"state_{i}": leaf for i, leaf in enumerate(_leaves(self.state))}
        arrays |= {key: getattr(self, key) for key in _KEPT} | {"numbers": np.array(json.dumps(numbers))}
        temporary = Path(path).with_name(Path(path).name + ".part")
        with temporary.open("wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    @classmethod
    def load(
        cls, path: str | Path, make_kernel: MakeKernel, target: Target, *, rng: np.random.Generator | None = None
    ) -> Run:
        """The run that was saved, given the same kernel and target; `rng` if it was not numpy's default kind."""
        numbers, arrays = _read(Path(path))
        name = _kernel_name(make_kernel, target)
        if numbers["kernel"] != name:
            raise InvalidArgument(
                f"make_kernel: {path} holds a run of {numbers['kernel']}, not of {name}.", argument="make_kernel"
            )
        generator = np.random.default_rng() if rng is None else rng
        generator.bit_generator.state = _restored_rng(numbers["rng"], generator)
        known = Adaptation(**{key: _array_or_number(value) for key, value in numbers["known"].items()})
        kernel = make_kernel(target, walk=known.walk)
        pattern = kernel.init(np.random.default_rng(), arrays["state_0"])  # a state begins with its position
        state = _rebuild(pattern, iter([arrays[f"state_{i}"] for i in range(len(list(_leaves(pattern))))]))
        session = cls(generator, make_kernel, target, state, known, warmup=numbers["warmup"], draws=numbers["draws"])
        session.step = numbers["step"]
        for key in _KEPT:
            setattr(session, key, arrays[key])
        return session

    def _count_step(self, stride: int, progress: Progress | None) -> None:
        self.step += 1
        if progress is not None and (self.step % stride == 0 or self.step == self.total):
            progress(self.step, self.total)


_KEPT = ("positions", "log_density", "accepted", "non_finite", "warmup_non_finite")


def start(
    rng: np.random.Generator, kernel: Kernel, target: Target, *, chains: int, position: Floats | None = None
) -> Any:
    """A state of finite density for every chain: at `position`, or at the first prior draws that have one."""
    if position is not None:
        given = np.array(position, np.float64)
        if given.shape != (chains, target.size):
            raise InvalidArgument(
                f"position has shape {given.shape}; {chains} chains of {target.size} parameters need "
                f"({chains}, {target.size}).",
                argument="position",
            )
        state = kernel.init(rng, given)
        bad = np.flatnonzero(~np.isfinite(state.log_density)) + 1
        if bad.size:
            raise InvalidArgument(
                f"position: the posterior has no finite density where chain {', '.join(map(str, bad))} would start.",
                argument="position",
            )
        return state
    candidates = kernel.init(rng, target.draw_prior(rng, PRIOR_DRAWS_A_CHAIN * chains))
    good = np.flatnonzero(np.isfinite(candidates.log_density))
    if good.size > chains:
        log_likelihood = (candidates.log_density - target.log_prior(candidates.position))[good]
        good = good[_spread_out(rng, log_likelihood, chains)]
    if good.size < chains:
        raise NoisewiseError(
            f"Of {PRIOR_DRAWS_A_CHAIN * chains} draws from the prior only {good.size} have a finite likelihood; "
            f"{chains} chains need {chains}. Check that the prior allows what was released, or give `position`.",
            finite=int(good.size),
        )
    return _rows(candidates, good)


def _spread_out(rng: np.random.Generator, log_likelihood: Floats, count: int) -> NDArray[np.intp]:
    """`count` draws without replacement, proportional to the likelihood tempered so that it tells little.

    Power t in (0, 1] is the largest at which the weights still spread over SPREAD * count draws: chains start far
    apart, but none where the posterior is so flat and faint that a walk of its size would never come back.
    """
    relative = log_likelihood - log_likelihood.max()
    low, high = 0.0, 1.0
    for _ in range(40):
        power = 0.5 * (low + high)
        weights = np.exp(power * relative)
        is_spread = weights.sum() ** 2 / np.square(weights).sum() >= SPREAD * count
        low, high = (power, high) if is_spread else (low, power)
    keys = low * relative + rng.gumbel(size=relative.size)
    return np.argsort(-keys)[:count]


def _rows(tree: Any, rows: NDArray[np.intp]) -> Any:
    return type(tree)(*(_rows(leaf, rows) for leaf in tree)) if isinstance(tree, tuple) else tree[rows]


def _leaves(tree: Any) -> Iterator[Floats]:
    if isinstance(tree, tuple):
        for branch in tree:
            yield from _leaves(branch)
    else:
        yield tree


def _rebuild(pattern: Any, leaves: Iterator[Floats]) -> Any:
    if isinstance(pattern, tuple):
        return type(pattern)(*(_rebuild(branch, leaves) for branch in pattern))
    return next(leaves)


def _kernel_name(make_kernel: MakeKernel, target: Target) -> str:
    return type(make_kernel(target, walk=Walk.isotropic(target.size, 1.0))).__name__


def _plain(value: Any) -> Any:
    """Numbers, and nested lists and dictionaries of numbers; a float keeps every bit in JSON."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _array_or_number(value: Any) -> Any:
    return np.array(value, np.float64) if isinstance(value, list) else value


def _restored_rng(saved: dict[str, Any], generator: np.random.Generator) -> dict[str, Any]:
    kind = generator.bit_generator.state["bit_generator"]
    if saved["bit_generator"] != kind:
        raise InvalidArgument(
            f"rng: the run was drawn with {saved['bit_generator']}; pass a generator of that kind, not {kind}.",
            argument="rng",
        )
    restored: dict[str, Any] = _arrays_inside(saved)
    return restored


def _arrays_inside(saved: Any) -> Any:
    """Lists back to the unsigned arrays some generators keep."""
    if isinstance(saved, dict):
        return {key: _arrays_inside(value) for key, value in saved.items()}
    return np.array(saved, np.uint64) if isinstance(saved, list) else saved


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        numbers, arrays = archive.arrays_of(path, text="numbers")
        if numbers["format"] != FORMAT:
            raise ValueError(numbers["format"])
    except archive.DAMAGED as error:
        raise InvalidArgument(f"path: {path} is not a saved run ({type(error).__name__}).", argument="path") from error
    return numbers, arrays
