"""Noise laws: one law, one file; what they have in common is in `protocol`."""

from noisewise.laws.exponential import ExponentialQuantile
from noisewise.laws.finite import FiniteLaw, RandomizedResponse, action_law, cell_law
from noisewise.laws.gaussian import DiscreteGaussian, RoundedGaussian
from noisewise.laws.laplace import DiscreteLaplace
from noisewise.laws.protocol import (
    AdditiveLaw,
    Form,
    Law,
    Mixing,
    NormalMixture,
    SmoothLaw,
    SmoothShape,
    additive_law,
    law_from_dict,
    normal_mixture,
    register_law,
    smooth_law,
    smooth_shape,
)
from noisewise.laws.smooth import SmoothCauchy, SmoothLaplace

__all__ = [
    "AdditiveLaw",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "ExponentialQuantile",
    "FiniteLaw",
    "Form",
    "Law",
    "Mixing",
    "NormalMixture",
    "RandomizedResponse",
    "RoundedGaussian",
    "SmoothCauchy",
    "SmoothLaplace",
    "SmoothLaw",
    "SmoothShape",
    "action_law",
    "additive_law",
    "cell_law",
    "law_from_dict",
    "normal_mixture",
    "register_law",
    "smooth_law",
    "smooth_shape",
]
