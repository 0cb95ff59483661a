"""What the true tables tell of a graphical model: maximum likelihood without privacy, the yardstick.

    maximise  theta . m - A(theta) - ridge |theta|^2,       m the shares of the records in each parameter's cells

The ridge is so small that it only keeps the parameter of a cell that nobody is in finite (the likelihood alone would
send it to minus infinity). Tables of records go in, parameters come out; nothing here is private.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noisewise.errors import InvalidArgument
from noisewise.graphical.matching import match
from noisewise.graphical.problem import Fit, Problem

__all__ = ["TINY_RIDGE", "non_private_graphical"]

TINY_RIDGE = 1e-6


def non_private_graphical(problem: Problem, counts: ArrayLike, *, n: int, ridge: float = TINY_RIDGE) -> Fit:
    """Parameters from the true tables of n records: `counts` (cells,), laid out as the problem's own."""
    tables: NDArray[np.float64] = np.asarray(counts, dtype=float).ravel()
    if len(tables) != problem.engine.tables.cells:
        raise InvalidArgument(
            f"counts has {len(tables)} numbers; the model's tables have {problem.engine.tables.cells} cells.",
            argument="counts",
        )
    if n < 1 or ridge < 0:
        raise InvalidArgument("n must be at least 1, and ridge at least 0.", argument="n")
    return Fit(match(problem, problem.gather(tables) / n, ridge=ridge), 1, ("the true tables, without privacy",))
