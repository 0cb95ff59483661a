"""Why a posterior has no evidence: in a sentence, with what has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noisewise.inference.posterior import Posterior

__all__ = ["why_no_evidence"]


def why_no_evidence(posterior: Posterior) -> str:
    """The reason, by what was computed."""
    method = posterior.method
    if posterior.is_point:
        return (
            f"method={method!r} gives a point, and the evidence is an average over all parameters. Use "
            f"method={posterior.instead!r}."
        )
    if method == posterior.instead == "exact":
        return (
            "The evidence is not known here: it comes with quadrature of one unknown, a grid of two that resolves the "
            f"posterior, and conjugate counts. This posterior was found by {posterior.how}. Describe the records with "
            "fewer unknowns, or compare populations by posterior.check."
        )
    instead = f" Use method={posterior.instead!r}." if method != posterior.instead else ""
    return (
        f"method={method!r} draws from the posterior without its normalising constant, which is the evidence.{instead}"
    )
