"""Made-up records that look like the population, computed from a release alone.

Records are drawn at draws of the potentials, shared out evenly, so that a table of them differs from the truth by about
as much as is not known (and by sampling). They are post-processing: they cost no privacy, and no one's record is
among them but by chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from noisewise.errors import Unsupported
from noisewise.exact import integer
from noisewise.graphical.answers import parameter_rows
from noisewise.graphical.engine import JunctionEngine
from noisewise.graphical.loopy import engine_for
from noisewise.inference.posterior import Posterior
from noisewise.schema import Levels
from noisewise.types import Ints

if TYPE_CHECKING:
    from noisewise.graphical.model import GraphicalModel

__all__ = ["record_engine", "synthetic"]

MOST_DRAWS = 500  # that records are shared out among
STREAM = 5


def synthetic(model: GraphicalModel, posterior: Posterior, count: int, *, seed: int | None) -> dict[str, NDArray[Any]]:
    """`count` records by column, in random order."""
    rows = parameter_rows(model, posterior)
    size = integer(count, "count", minimum=1, maximum=10**9)
    stream = posterior.seed if seed is None else integer(seed, "seed", minimum=0)
    rng = np.random.default_rng(None if stream is None else [stream, STREAM])
    used = rng.choice(len(rows), min(size, len(rows), MOST_DRAWS), replace=False)
    each = np.full(len(used), size // len(used)) + (np.arange(len(used)) < size % len(used))
    engine, spread = record_engine(model), model.spread
    drawn = [engine.sample(rng, rows[k][spread], int(m)) for k, m in zip(used, each, strict=True)]
    records = np.concatenate(drawn)[rng.permutation(size)]
    return {name: _named(levels, records[:, v])
            for v, (name, levels) in enumerate(zip(model.columns, model.levels, strict=True))}  # fmt: skip


def record_engine(model: GraphicalModel) -> JunctionEngine:
    """The engine that records are drawn from."""
    engine = engine_for(model.tables)
    if not isinstance(engine, JunctionEngine):
        raise Unsupported(
            "Records are drawn from a junction tree, and this model's is too large for that. Make its cliques fewer or "
            "smaller."
        )
    return engine


def _named(levels: Levels, index: Ints) -> NDArray[Any]:
    """Numbers of levels as the levels themselves."""
    is_mixed = len({type(level) for level in levels.levels}) > 1
    return np.array(levels.levels, dtype=object if is_mixed else None)[index]
