"""What a law can be replaced by, asked of every law in one way: each law that has something to say registers it.

quick_law        a law near it at a small part of its cost, which may propose (`inference.exact`); None by default
integrated_law   the same with noise that would be sampled integrated out; None where that is felt; itself by default
separate_laws    the laws of independent unknowns that it is made of; itself alone by default
"""

from __future__ import annotations

from functools import singledispatch

from noisewise.likelihood.model import Likelihood

__all__ = ["integrated_law", "quick_law", "separate_laws"]


@singledispatch
def quick_law(law: Likelihood) -> Likelihood | None:
    """A law near this one that costs far less; None where there is none."""
    del law
    return None


@singledispatch
def integrated_law(law: Likelihood) -> Likelihood | None:
    """This law without mixing variances; None where integrating them out would be felt."""
    return law


@singledispatch
def separate_laws(law: Likelihood) -> tuple[Likelihood, ...]:
    """The laws of independent unknowns whose product this is."""
    return (law,)
