"""Private estimates of the probabilities of a table: geometric noise on the simplex, or a linear program.

A table s of n records in m cells has neighbours s - e_i + e_j, so the graph distance is d(s, t) = sum_j |s_j - t_j|/2.
Noise k with sum_j k_j = 0 and probability a^d(0, k)/Z on that lattice (for m = 3, hexagons) is exactly epsilon-private,
    Z = sum_i C(m-1, i)^2 a^i / (1 - a)^(m-1)                                     (Conway & Sloane 1997, the lattice A).
What lies outside the possible tables tells of s only through its cells cut to 0..n: with c = clip(s + k, 0, n), h cells
of it at n and l at 0,
    P(c | s) = a^(sum_j |s_j - c_j|/2) / Z * sum over e, f >= 0 with e - f = n - sum c of N_h(e) N_l(f) a^((e+f)/2),
N_h(e) = C(e+h-1, h-1) ways to write e as h numbers. So the outputs are finitely many, and the mean of p given c is the
answer. It is not the optimum: the program on small tables, begun with these answers, is up to a few percent better, and
takes over there. How far either is from the best of *all* private estimators is not known: the program's bound speaks
of the answers it was given, and its own are the Bayes answers of its columns, which are better than those.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
from scipy.special import betaln, comb, gammaln, logsumexp

from noisewise.errors import InvalidArgument, Unsupported
from noisewise.exact import integer
from noisewise.point import program
from noisewise.point.estimator import Certificate, Estimator
from noisewise.point.exact_rows import exact_rows
from noisewise.point.vectors import bayes_answers, possible_columns, solved_matrix, squared_costs
from noisewise.populations.distribution import CategoricalLaw
from noisewise.populations.parameters import Array
from noisewise.populations.population import Population
from noisewise.privacy.guarantee import PureDP

MOST_TABLES = 28  # up to here the program is tried by default: three cells of six records
MOST_OUTPUTS = 100_000
MOST_ENTRIES = 4_000_000
MOST_EXACT = 400_000
SERIES = 100.0  # natural logarithms after which a geometric series, times a polynomial, has ended
SMALLEST_EPSILON = 0.001  # with less, the noise is wider than any table that can be written out

UNKNOWN = "Geometric noise on the simplex, then the Bayes answer; how much better an estimator can be is not known."


def dirichlet_alpha(model: object) -> Array | None:
    """The prior of the cell probabilities of a Categorical population; None for other models."""
    if not isinstance(model, Population) or not isinstance(model.distribution, CategoricalLaw) or not model.free:
        return None
    prior: Any = model.parameters.priors["p"]
    return np.asarray(prior.alpha, dtype=float)


def table_estimator(alpha: Array, n: object, guarantee: PureDP, *, method: str, answers: int) -> Estimator:
    """Estimate all cell probabilities, under the sum of squared errors."""
    if n is None:
        raise InvalidArgument("Give n, the number of records in the table.", argument="n")
    records = integer(n, "n", minimum=1, maximum=10_000)
    count = math.comb(records + len(alpha) - 1, len(alpha) - 1)
    if method == "auto" and count > MOST_TABLES:
        method = "geometric"
    if count > MOST_OUTPUTS or (method == "geometric" and (records + 1) ** len(alpha) > MOST_OUTPUTS):
        raise Unsupported(
            f"A table of {len(alpha)} cells and {records} records has too many values for an estimator that is written "
            "out. Release Histogram(...) and use infer, or count one cell."
        )
    if method == "geometric" and guarantee.epsilon < SMALLEST_EPSILON:
        raise Unsupported(
            f"On a table, epsilon = {guarantee.epsilon} leaves nothing but the prior; ask for 0.001 or more."
        )
    tables = compositions(records, len(alpha))
    weights, mean, variance = _posterior(tables, alpha)
    epsilon = float(guarantee.epsilon)
    has_noise = guarantee.epsilon >= SMALLEST_EPSILON and (records + 1) ** len(alpha) <= MOST_OUTPUTS
    noise = possible_columns(folded_noise(tables, epsilon)) if has_noise else np.ones((count, 1))
    found: list[Estimator] = []
    if method != "geometric":
        likeliest = np.argsort(-(weights @ noise), kind="stable")[: 2 * count]
        begun = np.concatenate([_spread(len(alpha), answers), bayes_answers(weights, mean, noise[:, likeliest])])
        solved = solved_matrix(weights, mean, variance, neighbouring(tables), epsilon, begun)
        found.append(_decided("program", guarantee, tables, alpha, solved))
    if method != "program" and has_noise:
        found.append(_decided("geometric", guarantee, tables, alpha, noise))
    return min(found, key=lambda estimator: estimator.risk)


def _decided(method: str, guarantee: PureDP, tables: Array, alpha: Array, matrix: Array) -> Estimator:
    """The Bayes answer of every output, with exact rows."""
    if matrix.size > MOST_EXACT:
        raise Unsupported(f"A matrix of {matrix.shape} exact probabilities is too large; use infer on a Histogram.")
    weights, mean, variance = _posterior(tables, alpha)
    actions, spare = bayes_answers(weights, mean, matrix), int(np.argmax(weights @ matrix))
    rows, ratio = exact_rows(matrix, neighbouring(tables), guarantee.epsilon, spare=spare)
    exact = np.array([[float(p) for p in row] for row in rows])
    risk = float((exact * squared_costs(weights, mean, variance, actions)).sum())
    certificate = Certificate(guarantee, ratio, None, None, UNKNOWN if method == "geometric" else program.CHOSEN)
    return Estimator(actions, risk, "squared", method, certificate, len(tables), rows)


def compositions(total: int, parts: int) -> Array:
    """All ways to write `total` as `parts` whole numbers, (S, parts), in lexicographic order."""
    if parts == 1:
        return np.array([[float(total)]])
    return np.array([(first, *rest) for first in range(total + 1) for rest in compositions(total - first, parts - 1)])


def neighbouring(tables: Array) -> list[tuple[int, int]]:
    """Pairs of tables that differ by one record's move."""
    place = {tuple(table): k for k, table in enumerate(tables.astype(int).tolist())}
    cells = range(tables.shape[1])
    found = []
    for table, k in place.items():
        for i, j in product(cells, cells):
            if i != j and table[i]:
                moved = list(table)
                moved[i], moved[j] = moved[i] - 1, moved[j] + 1
                if (other := place[tuple(moved)]) > k:
                    found.append((k, other))
    return found


def folded_noise(tables: Array, epsilon: float) -> Array:
    """P(c | s) for every table s and every possible output c, (S, Z)."""
    n, m = int(tables[0].sum()), tables.shape[1]
    outputs = np.array(list(product(range(n + 1), repeat=m)), dtype=float)
    log_tails = np.array([_log_tail(n, output, epsilon) for output in outputs])
    outputs, log_tails = outputs[log_tails > -np.inf], log_tails[log_tails > -np.inf]
    if len(tables) * len(outputs) > MOST_ENTRIES:
        raise Unsupported(f"{len(tables)} tables and {len(outputs)} outputs are too many to write out.")
    i = np.arange(m)
    log_z = float(logsumexp(2 * np.log(comb(m - 1, i)) - epsilon * i)) - (m - 1) * math.log(-math.expm1(-epsilon))
    distance = 0.5 * np.abs(tables[:, None, :] - outputs[None, :, :]).sum(axis=-1)
    return np.asarray(np.exp(log_tails - log_z - epsilon * distance))


def _log_tail(n: int, output: Array, epsilon: float) -> float:
    """log of the sum over what was cut off: e above n in h cells, f below 0 in l cells, e - f = n - sum c."""
    highs, lows = int(np.sum(output == n)), int(np.sum(output == 0))
    excess = n - int(output.sum())
    e = np.arange(max(excess, 0), max(excess, 0) + math.ceil(SERIES / epsilon) + 1.0)
    log_terms = _log_ways(e, highs) + _log_ways(e - excess, lows) - epsilon * (2 * e - excess) / 2
    return float(logsumexp(log_terms))


def _log_ways(total: Array, parts: int) -> Array:
    """log C(total + parts - 1, parts - 1): how many ways `parts` numbers have that total; none have 0 in all."""
    if parts == 0:
        return np.where(total == 0, 0.0, -np.inf)
    return np.asarray(-betaln(total + 1, parts) - np.log(total + parts) + 0.0)


def _posterior(tables: Array, alpha: Array) -> tuple[Array, Array, Array]:
    """P(s), Dirichlet-multinomial; E[p | s] (S, m) and the summed variances of p | s, Dirichlet(alpha + s)."""
    n, total = tables[0].sum(), alpha.sum()
    log_weights = (
        gammaln(n + 1) - gammaln(tables + 1).sum(axis=1) + gammaln(total) - gammaln(total + n)
        + (gammaln(alpha + tables) - gammaln(alpha)).sum(axis=1)
    )  # fmt: skip
    mean = (alpha + tables) / (total + n)
    variance = (mean * (1 - mean)).sum(axis=1) / (total + n + 1)
    return np.exp(log_weights - logsumexp(log_weights)), mean, variance


def _spread(cells: int, answers: int) -> Array:
    """About `answers` points spread over the simplex."""
    resolution = 1
    while math.comb(resolution + cells, cells - 1) <= answers:
        resolution += 1
    return compositions(resolution, cells) / resolution
