"""People who do not tell their device the truth: shares of answers that are about the top, the bottom, or anywhere.

The device draws its noise honestly; what it is told may be false. Of all people a share `lies.top` say they are above
everything, `lies.bottom` below everything, `lies.anywhere` pick a cell (or an end of an interval) at random, so that

    cells    P(told cell j) = honest P(x in j) + top 1[j last] + bottom 1[j first] + anywhere / cells
    clip     p(y) = honest p(y | theta) + (top + anywhere/2) g(y - high) + (bottom + anywhere/2) g(y - low)

with honest = 1 - top - bottom - anywhere and g the density of the noise. The shares are unknown, with the prior
    (honest, top, bottom, anywhere) ~ Dirichlet(3 (1 - c)/(2c), 1/2, 1/2, 1/2),
c the share of false answers that one expects: the 1/2 make it likely that false answers are mostly of one kind.

Promise: posteriors allow for such answers at a price. What is a tail of the population and what is a lie is known from
the population's shape alone, so intervals are wider when nobody lies (docs/online.md has the factor), and lies of other
kinds, such as everyone rounding up, are not allowed for.
"""

from __future__ import annotations

import numpy as np

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import fraction
from noisewise.online.answer_law import AnswerLaw
from noisewise.online.asked import Asked
from noisewise.online.clipped_record import log_noise
from noisewise.populations.parameters import UNIT, Array, Supports, Theta

__all__ = ["LIES", "ContaminatedLaw", "checked_share", "log_prior", "sample_prior"]

LIES = ("lies.top", "lies.bottom", "lies.anywhere")
SUPPORTS: Supports = dict.fromkeys(LIES, UNIT)
EACH = 0.5  # of the prior's weight on each kind of lie
MOST = 0.5


def checked_share(given: object) -> float:
    """The share of false answers that is expected; 0 where everyone is taken to be honest."""
    share = float(fraction(given, "contamination", minimum=0))
    if share > MOST:
        raise InvalidArgument(
            f"contamination = {share}; the share of false answers that is expected is at most {MOST}.",
            argument="contamination",
        )
    return share


def sample_prior(rng: np.random.Generator, count: int, share: float) -> dict[str, Array]:
    """Draws of the three shares."""
    drawn = rng.dirichlet(_weights(share), size=count)
    return {name: np.asarray(drawn[:, 1 + k]) for k, name in enumerate(LIES)}


def log_prior(theta: Theta, share: float) -> Array:
    """The log density of the three shares; -inf where nobody would be honest."""
    from scipy.special import gammaln

    weights = _weights(share)
    lies = np.stack([np.asarray(theta[name], np.float64) for name in LIES])
    all_shares = np.concatenate([1 - lies.sum(axis=0, keepdims=True), lies])
    with np.errstate(divide="ignore", invalid="ignore"):
        found = gammaln(weights.sum()) - gammaln(weights).sum() + (weights - 1) @ np.log(all_shares)
    return np.where((all_shares > 0).all(axis=0), found, -np.inf)


def _weights(share: float) -> Array:
    return np.array([len(LIES) * EACH * (1 - share) / share, *[EACH] * len(LIES)])


class ContaminatedLaw:
    """The law of answers about one column some of whose people do not tell the truth; theta holds their shares."""

    __slots__ = ("honest", "population")
    form = "contaminated"

    def __init__(self, honest: AnswerLaw) -> None:
        if honest.level_count is not None:
            raise Unsupported(
                "contamination= is for numbers: of levels there is no top or bottom, and a share of false answers "
                "cannot be told from the shares of the levels themselves."
            )
        self.honest = honest
        self.population = honest.population  # of those who are honest

    def place(self, theta: Theta) -> tuple[Array, Array]:
        """Location and scale (K,) of those who are honest."""
        return self.honest.place(theta)

    def cell_mass(self, low: Array, high: Array, cells: Array, theta: Theta) -> Array:
        """P(the device is told the cell [low, high)), (K, M), of a question with so many cells."""
        top, bottom, anywhere = _shares(theta)
        false = top * np.isposinf(high) + bottom * np.isneginf(low) + anywhere / np.asarray(cells)
        return np.asarray((1 - top - bottom - anywhere) * self.honest.mass(low, high, theta) + false)

    def log_density(self, asked: Asked, y: Array, theta: Theta) -> Array:
        """log P(answer y_i | theta_k), (K, n): readings in the units of x, or the numbers of cells."""
        y = np.asarray(y, np.float64)
        if asked.is_cells:
            low, high = (end[y.astype(int)] for end in asked.cell_ends)
            told = self.cell_mass(low, high, np.full(y.shape, asked.answer_count), theta)
            return np.asarray(np.log(asked.other + (asked.keep - asked.other) * told))
        top, bottom, anywhere = _shares(theta)
        step = np.log(asked.step)
        with np.errstate(divide="ignore"):
            parts = (
                np.log(1 - top - bottom - anywhere) + self.honest.log_density(asked, y, theta),
                np.log(top + 0.5 * anywhere) + log_noise(asked, y - asked.high) + step,
                np.log(bottom + 0.5 * anywhere) + log_noise(asked, y - asked.low) + step,
            )
        return np.asarray(np.logaddexp.reduce(parts))


def _shares(theta: Theta) -> tuple[Array, Array, Array]:
    """Each as a column that broadcasts against answers."""
    top, bottom, anywhere = (np.reshape(np.asarray(theta[name], np.float64), (-1, 1)) for name in LIES)
    return top, bottom, anywhere
