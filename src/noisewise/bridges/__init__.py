"""Releases inside models that are written elsewhere: `bridges.pymc.observe(...)`, `bridges.numpyro.observe(...)`.

A bridge adds one term to a model, log p(release | moments or chances of one record), and leaves the rest to the other
library. What is published is common to both and stands in `terms`; how each library writes an array is all they differ
in. The libraries are imported when `observe` is called, and are extras: `pip install 'noisewise[pymc]'`, `[nuts]`.
"""

from noisewise.bridges import numpyro, pymc

__all__ = ["numpyro", "pymc"]
