"""Noise laws: one law, one file; what they have in common is in `protocol`."""

from noisewise.laws.exponential import ExponentialQuantile, quantile_law
from noisewise.laws.finite import FiniteLaw, RandomizedResponse, action_law, cell_law, stated_response
from noisewise.laws.gaussian import DiscreteGaussian, RoundedGaussian, gaussian_noise
from noisewise.laws.laplace import DiscreteLaplace, geometric_noise, laplace_noise
from noisewise.laws.protocol import (
    AdditiveLaw,
    Form,
    Law,
    Mixing,
    NormalMixture,
    SmoothLaw,
    SmoothShape,
    StatedNoise,
    additive_law,
    law_from_dict,
    noise_from_dict,
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
    "StatedNoise",
    "action_law",
    "additive_law",
    "cell_law",
    "gaussian_noise",
    "geometric_noise",
    "laplace_noise",
    "law_from_dict",
    "noise_from_dict",
    "normal_mixture",
    "quantile_law",
    "register_law",
    "smooth_law",
    "smooth_shape",
    "stated_response",
]
