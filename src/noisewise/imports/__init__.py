"""Measurements from what other tools put out: their own objects and tables, read by their shape.

None of those tools is imported here: an object is asked for the members it is known by, and refused by a sentence where
it lacks one. What was done to a value after the noise is part of its law, so clipped, folded, thresholded or averaged
output is read only where that changes nothing, and refused else.
"""

from noisewise.imports.tables import table
from noisewise.imports.tools import census, diffprivlib, mbi, opendp, pipelinedp

__all__ = ["census", "diffprivlib", "mbi", "opendp", "pipelinedp", "table"]
