"""The arrays that rooms hand to each other, named once; no code, so that every room may use them.

Shapes are said where they matter, in docstrings: (K, d) is K values of theta with d numbers each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Bools", "Floats", "Integers", "Ints", "Plain", "Theta", "Values"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Integers: TypeAlias = Ints
Plain: TypeAlias = dict[str, Any]  # an object as JSON has it
Theta: TypeAlias = Mapping[str, Array]  # free parameters, one row for each value: (K,), or (K, m) for a vector
Values: TypeAlias = Mapping[str, Any]  # every parameter of a law, as arrays that broadcast against records
