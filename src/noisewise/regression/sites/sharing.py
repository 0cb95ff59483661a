"""How holders share coefficients: one line for all, one for each, or lines of a common law.

    coefficients="pooled"      theta_j = theta
    coefficients="separate"    theta_j ~ the prior, each by itself
    coefficients="partial"     theta_j ~ N(theta, diag tau^2), theta ~ the prior, tau_k ~ half-normal(scale_k)
A site is a data set. `coefficients=` also takes the prior itself, as it always did (then lines are pooled); beside one
of the three words the prior is `prior=`. With "partial" the noise variance of a linear regression has a common law,
too: log sigma_j^2 ~ N(log sigma^2, tau^2). What differs between sites is told where it is free of each other: the
height of the line where features are likely to lie by public numbers (the intercept's), and the slopes.

Scales are those of public numbers unless `spread=` says otherwise: a fifth of the default prior's standard deviation
of a coefficient, that is half a standard deviation of the response (half a unit of log odds; 0.3 of a probit or a log
rate) for one standard deviation of the feature, and 0.5 for the logarithm of the noise variance. Half-normal laws of
this size are what is advised for differences between studies (Roever et al. 2021).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar, cast

from noisewise.errors import InvalidArgument
from noisewise.populations.parameters import offers, scipy_name
from noisewise.printable import shown
from noisewise.regression.priors import frozen_numbers

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["NEW", "PARTIAL", "POOLED", "SEPARATE", "Sharing", "changed_copy", "read_sharing"]

POOLED, SEPARATE, PARTIAL = WORDS = ("pooled", "separate", "partial")
LEARNED = "learned"
NEW = "new"  # a site of which there is no release
SHARE_OF_DEFAULT = 0.2
NOISE_SCALE = 0.25  # of log sigma: half of that of log sigma^2


@dataclass(frozen=True, slots=True)
class Sharing:
    """Which of the three it is; the scales that were given (all of them under ""), and the sites by name."""

    how: str = POOLED
    is_said: bool = False  # by a word, beside which prior= holds the coefficients' prior
    scales: tuple[tuple[str, float], ...] = ()
    sites: tuple[str, ...] | None = None

    @property
    def is_by_site(self) -> bool:
        return self.how != POOLED

    def scale(self, name: str, *, is_noise: bool = False) -> float | None:
        """The scale that was given for one number, in the units of the columns; None where it is by public numbers."""
        given = dict(self.scales)
        return given.get(name, None if is_noise else given.get(""))

    def of_sites(self, count: int) -> tuple[str, ...]:
        """The sites by name: as given, else 1, 2, ..."""
        if self.sites is None:
            return tuple(str(k + 1) for k in range(count))
        if len(self.sites) != count:
            raise InvalidArgument(
                f"sites= names {len(self.sites)} sites, but the releases are of {count} data sets.", argument="sites"
            )
        return self.sites

    def belief(self, coefficients: object, prior: object, *, joint: object = None) -> object:
        """The prior of the coefficients: `coefficients=` itself, or beside a word `prior=`; `joint` is another kind."""
        if not self.is_said:
            if prior is not None:
                raise InvalidArgument(
                    "prior= stands beside coefficients='pooled', 'separate' or 'partial'; else coefficients= is the "
                    "prior.",
                    argument="prior",
                )
            return coefficients
        is_learned = offers(prior, "casefold") and prior == LEARNED
        if self.how == PARTIAL and (is_learned or joint is not None):
            what = "a learned scale" if is_learned else "a NormalInverseGamma, which ties coefficients to the noise,"
            raise InvalidArgument(
                f"With coefficients='partial' the prior is that of a typical site's coefficients; {what} is not "
                "offered there. Give stats.norm(...) or stats.multivariate_normal(...), or leave prior= out.",
                argument="prior",
            )
        return prior

    def text(self, coefficients: str | None, prior: str | None) -> dict[str, str]:
        """The arguments of a spec file, from the texts of the coefficients' prior and of a joint one."""
        found = {"coefficients": repr(self.how) if self.is_said else coefficients}
        found["prior"] = coefficients if self.is_said and prior is None else prior
        given = {name: f"halfnorm(scale={scale!r})" for name, scale in self.scales}
        if given:
            found["spread"] = given.get("") or f"{{{', '.join(f'{name!r}: {text}' for name, text in given.items())}}}"
        if self.sites is not None:
            found["sites"] = repr(list(self.sites))
        return {name: text for name, text in found.items() if text is not None}


def read_sharing(
    coefficients: object, *, spread: object, sites: object, names: Sequence[str], noise: Sequence[str] = ()
) -> Sharing:
    """What the arguments of a regression say; `names` are its coefficients, `noise` its noise variance if any."""
    is_said = offers(coefficients, "casefold") and coefficients in WORDS
    how = str(coefficients) if is_said else POOLED
    if how != PARTIAL and spread is not None:
        raise InvalidArgument(
            "spread= is the prior of how much sites differ, which coefficients='partial' has.", argument="spread"
        )
    if how == POOLED and sites is not None:
        raise InvalidArgument(
            "sites= names holders whose coefficients differ: coefficients='separate' or 'partial'.", argument="sites"
        )
    return Sharing(how, is_said, _scales(spread, (*names, *noise)), _sites(sites))


def _scales(spread: object, names: Sequence[str]) -> tuple[tuple[str, float], ...]:
    if spread is None:
        return ()
    given = cast("Mapping[object, object]", spread) if offers(spread, "items") else {"": spread}
    for name, prior in given.items():
        if name and name not in names:
            raise InvalidArgument(
                f"spread= names {shown(name)}; sites differ in {', '.join(names)}.", argument="spread"
            )
        if scipy_name(prior) != "halfnorm":
            raise InvalidArgument(
                "spread= must be stats.halfnorm(scale=...), or one by the name of a coefficient, as in "
                f"{{{names[-1]!r}: stats.halfnorm(scale=0.5)}}.",
                argument="spread",
            )
    return tuple((str(name), _scale(prior)) for name, prior in given.items())


def _scale(prior: object) -> float:
    """The scale of a half-normal law that begins at 0."""
    low, scale = frozen_numbers(prior)
    if low != 0 or not (scale > 0 and 0 < scale * scale < math.inf):
        raise InvalidArgument(
            "spread= is a stats.halfnorm(scale=...) whose scale is not one finite number above 0, or whose loc is not "
            "0.",
            argument="spread",
        )
    return scale


def _sites(sites: object) -> tuple[str, ...] | None:
    if sites is None:
        return None
    is_listed = offers(sites, "__iter__") and not offers(sites, "casefold")
    given = tuple(cast("Iterable[str]", sites)) if is_listed else ()
    if len(given) < 2 or not all(offers(name, "casefold") and name.strip() for name in given):
        raise InvalidArgument("sites= lists the names of at least two data sets.", argument="sites")
    if len(set(given)) != len(given) or NEW in given:
        raise InvalidArgument(
            f"sites= lists each site once, and {NEW!r} is none: predictions for a site without release are asked for "
            "under that name.",
            argument="sites",
        )
    return given


Copied = TypeVar("Copied")


def changed_copy(model: Copied, **changes: object) -> Copied:
    """A frozen model with some fields changed; nothing is checked again."""
    copy = object.__new__(type(model))
    for one in fields(cast("DataclassInstance", model)):
        object.__setattr__(copy, one.name, changes.get(one.name, object.__getattribute__(model, one.name)))
    return copy
