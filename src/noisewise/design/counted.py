"""Information of counts, two-cell tables, finite estimators and answers by randomized response: by enumeration.

With q(theta) the probability that a record is counted, s ~ Binomial(n, q) and
    dP(s)/dq = n (Binomial(s-1; n-1, q) - Binomial(s; n-1, q)),        p(y) = sum_s P(s) P(y | s),
    F = (sum_y (dp/dq)^2/p) dq dq'.
The sums run over every whole y that has probability above 1e-14. A table of two cells is summed over both its noisy
cells. Answers in cells are independent, F = n dp R diag(1/pR) R' dp' (`likelihood.cells`), and so is an estimator's
output, whose channel R has a row for every count.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.signal import fftconvolve

from noisewise.design.coordinates import coordinate_slopes
from noisewise.laws import AdditiveLaw, Form, action_law, additive_law, cell_law
from noisewise.likelihood import cells
from noisewise.likelihood.discrete_laws import binomial_log_pmf
from noisewise.planning import Plan
from noisewise.populations.cleaned import CellStatistic, cell_probabilities
from noisewise.populations.parameters import Array, Theta
from noisewise.populations.population import AnyPopulation
from noisewise.statistics import Count, Histogram, Marginals, Records

MOST_PAIRS = 3000  # values of one cell of a two-cell table
DIRECT = 2_000_000
TAIL = 1e-14


class CellInformation:
    """Information of a count, a two-cell table, or cells answered locally."""

    is_exact = True
    shares_draws = False

    def __init__(self, plan: Plan, population: AnyPopulation, *, n: int) -> None:
        assert isinstance(plan.statistic, Count | Histogram | Marginals | Records)
        self.statistic: CellStatistic = plan.statistic
        self.schema, self.law, self.n, self.population = plan.part_schema, plan.law, n, population

    @property
    def method(self) -> str:
        return "closed form" if self.law.form is Form.CELL else "enumeration"

    @classmethod
    def is_affordable(cls, plan: Plan, *, n: int) -> bool:
        """Whether a table has two cells, and noise narrow enough to enumerate both."""
        statistic, law = plan.statistic, additive_law(plan.law)
        is_one = isinstance(statistic, Histogram) or (isinstance(statistic, Marginals) and len(statistic.cliques) == 1)
        return is_one and law.size == 2 and 9 * np.sqrt(n) + 2 * _reach(law, 0) <= MOST_PAIRS

    def rows(self, theta: Theta) -> tuple[Array, Array]:
        """F (K, P, P); its standard error is zero."""

        def probabilities(at: Theta) -> Array:
            return cell_probabilities(self.population, self.schema, self.statistic, at)

        p, d_p = probabilities(theta), coordinate_slopes(probabilities, theta, self.population.supports)
        if self.law.form is Form.CELL:
            found = self.n * cells.information(p, d_p, keep=float(cell_law(self.law).keep))
        else:
            in_q = np.array([self._of_probability(float(q)) for q in p[:, 1]])
            found = in_q[:, None, None] * d_p[:, :, None, 1] * d_p[:, None, :, 1]
        return found, np.zeros_like(found)

    def _of_probability(self, q: float) -> float:
        """Information of one release about q, the probability of the second cell."""
        s, law, slope = _binomial(self.n, q)
        if self.law.form is Form.ACTION:
            channel = np.array([[float(v) for v in action_law(self.law).rows[k]] for k in s])
            return float(cells.information(law[None], slope[None, None], channel=channel)[0, 0, 0])
        noise = additive_law(self.law)
        if noise.size == 1:
            kernel = _kernel(noise, 0)
            return _summed(_convolve(law, kernel), _convolve(slope, kernel))
        # Both cells are noisy: y_2 about s, y_1 about n - s.
        second, first = (_shifted(noise, k, s.size) for k in (1, 0))
        mirrored = first[::-1]
        return _summed(second.T @ (law[:, None] * mirrored), second.T @ (slope[:, None] * mirrored))


def _binomial(n: int, q: float) -> tuple[Any, Array, Array]:
    """Counts s with probability above about 1e-18, their probabilities, and the derivatives of those in q."""
    spread = 9 * np.sqrt(n * q * (1 - q)) + 40
    s = np.arange(max(0, int(n * q - spread)), min(n, int(np.ceil(n * q + spread))) + 1)
    law = np.exp(binomial_log_pmf(s, n=n, p=q))
    if n == 1:
        return s, law, np.where(s == 1, 1.0, -1.0)
    fewer = np.exp(binomial_log_pmf(np.append(s[0] - 1, s), n=n - 1, p=q))
    return s, law, np.asarray(n * -np.diff(fewer))


def _reach(law: AdditiveLaw, component: int) -> int:
    """How many steps noise reaches but for 1e-14."""
    return law.reach(TAIL, component) + 2


def _kernel(law: AdditiveLaw, component: int) -> Array:
    reach = _reach(law, component)
    return np.exp(law.log_pmf(np.arange(-reach, reach + 1), component))


def _shifted(law: AdditiveLaw, component: int, size: int) -> Array:
    """P(y | s) for neighbouring counts s = 0..size-1 and every y they reach, (size, Y)."""
    reach = _reach(law, component)
    y = np.arange(-reach, size + reach)
    return np.exp(law.log_pmf(y - np.arange(size)[:, None], component))


def _convolve(law: Array, kernel: Array) -> Array:
    is_small = law.size * kernel.size < DIRECT
    return np.asarray(np.convolve(law, kernel) if is_small else fftconvolve(law, kernel))


def _summed(p: Array, d_p: Array) -> float:
    seen = p > TAIL * p.max()
    return float(np.sum(np.square(d_p[seen]) / p[seen]))
