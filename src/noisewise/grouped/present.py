"""How many records of all groups have their values, where missing ones were left out.

A record is present with probability s, whatever its group and its value (missing at random), s ~ Beta(a, b) or known.
Of n records m are present, m ~ BetaBinomial(n, a, b) or Binomial(n, s), and given m the sizes of the groups are what
they are without missing values: Dirichlet-multinomial. So a release of those present is one of complete records whose
number m is private and has that law (`group_sizes.Totals`), and afterwards s | m ~ Beta(a + m, b + n - m). The noisy
counts of the groups tell m, under both neighbour relations.

A record has one presence: what is summed and counted must all need the same columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, gammaln, xlog1py, xlogy

from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.exact import fraction
from noisewise.likelihood.conjugate import beta_shapes
from noisewise.populations.parameters import is_prior
from noisewise.populations.presence import Told, needs_of
from noisewise.printable import shown
from noisewise.types import Array, Floats, Ints

__all__ = ["PRESENT", "NumberPresent", "SharePresent", "left_out_columns", "read_present"]

PRESENT = "present"


@dataclass(frozen=True, slots=True)
class SharePresent:
    """The share of records whose values are present: Beta(a, b), or known."""

    a: float = 1.0
    b: float = 1.0
    known: float | None = None

    def of(self, n: int) -> NumberPresent:
        """The law of how many of n records are present."""
        return NumberPresent(self, n)


@dataclass(frozen=True, slots=True)
class NumberPresent:
    """The law of the number of records present among n."""

    share: SharePresent
    n: int

    def log_pmf(self, m: Array | Ints) -> Floats:
        """log P(m of n are present)."""
        some = np.asarray(m, dtype=float)
        inside = (some >= 0) & (some <= self.n)
        m = np.where(inside, some, 0.0)
        ways = gammaln(self.n + 1.0) - gammaln(m + 1) - gammaln(self.n - m + 1)
        if self.share.known is not None:
            log = ways + xlogy(m, self.share.known) + xlog1py(self.n - m, -self.share.known)
        else:
            log = ways + betaln(self.share.a + m, self.share.b + self.n - m) - betaln(self.share.a, self.share.b)
        return np.asarray(np.where(inside, log, -np.inf))

    def draw_share(self, rng: np.random.Generator, m: Floats) -> Floats:
        """The share present given how many are, one draw for each number."""
        return np.asarray(rng.beta(self.share.a + m, self.share.b + self.n - m))

    def __str__(self) -> str:
        return f"of {self.n} records those present"


def read_present(present: object) -> SharePresent | None:
    """A share present as it is given: a number between 0 and 1, stats.beta(a, b) or stats.uniform(0, 1)."""
    if present is None:
        return None
    if is_prior(present):
        shapes = beta_shapes(present)
        if shapes is None:
            raise _no_share(present)
        return SharePresent(*shapes)
    try:
        known = float(fraction(present, PRESENT))
    except NoisewiseError:
        raise _no_share(present) from None
    if not 0 < known <= 1:
        raise _no_share(present)
    return SharePresent(known=known)


def _no_share(present: object) -> InvalidArgument:
    return InvalidArgument(
        f"present = {shown(present)}: it is the share of records whose values are present, a number above 0 and up to "
        "1, or stats.beta(a, b) or stats.uniform(0, 1) where it is unknown.",
        argument=PRESENT,
    )


def left_out_columns(told: Sequence[Told]) -> tuple[str, ...]:
    """The columns that must be present for what plans or releases of the same records sum; none where all always are.

    Refused where some of them need other columns than others: one presence is then not enough.
    """
    found = {needed for one in told for needed in needs_of(one.statistic, one.schema) or [()]}
    if len(found) > 1:
        first, second = sorted(found, key=len)[-2:]
        raise Unsupported(
            f"Some of these sums and counts need {_named(second)} to be present, others {_named(first)}, and how those "
            "hang together is not modelled by Grouped. Infer from releases that need the same columns: mean(x, "
            "by=...) counts those of whom it sums."
        )
    return next(iter(found), ())


def _named(columns: tuple[str, ...]) -> str:
    return " and ".join(columns) or "nothing"
