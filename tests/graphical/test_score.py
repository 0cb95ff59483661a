import numpy as np
import pytest
from graph_problems import problem, published
from graphs import enumerated
from scipy import stats

from noisewise.graphical.cell_laws import NormalTables
from noisewise.graphical.problem import GAUSSIAN
from noisewise.graphical.score import log_likelihood, score
from noisewise.graphical.structure import Regions


def hard(rng):
    """Tied tables, a published table that is no factor, entries that count several cells, two holders."""
    tables = Regions((2, 2, 2), ((0, 1), (1, 2), (0, 2)))
    truth = np.concatenate([np.tile(rng.normal(size=4), 2), np.zeros(4)])
    adding = np.hstack([np.eye(4), np.eye(4), np.zeros((4, 4))])
    one = published(rng, tables, truth, n=200, variance=50.0, family=GAUSSIAN)
    two = published(rng, tables, truth, n=300, variance=80.0, family=GAUSSIAN, sums=adding)
    return problem(tables, one, two, spread=[0, 1, 2, 3, 0, 1, 2, 3, -1, -1, -1, -1])


def fixed_laws(asked, theta):
    sigma = enumerated(asked.engine.tables, asked.potentials(theta)).Sigma
    totals = [holder.covariance(sigma) + np.diag(holder.variance) for holder in asked.holders]
    return totals, [NormalTables(h, np.linalg.cholesky(c)) for h, c in zip(asked.holders, totals, strict=True)]


def test_the_log_likelihood_is_the_product_over_holders_of_their_tables_laws(rng):
    asked = hard(rng)
    totals, laws = fixed_laws(asked, np.zeros(4))
    theta = rng.normal(size=(3, 4))
    wanted = []
    for row in theta:
        mu = enumerated(asked.engine.tables, asked.potentials(row)).mu
        means = [holder.n * (holder.sums.toarray() @ mu) for holder in asked.holders]
        pairs = zip(asked.holders, means, totals, strict=True)
        wanted.append(sum(stats.multivariate_normal(m, c).logpdf(h.observed) for h, m, c in pairs))
    assert log_likelihood(asked, laws, theta) == pytest.approx(np.array(wanted), rel=1e-9)


def test_the_gradient_is_the_derivative_of_the_log_likelihood(rng):
    asked = hard(rng)
    _, laws = fixed_laws(asked, np.zeros(4))
    theta = rng.normal(size=(2, 4))
    value, gradient = score(asked, laws, theta)
    assert value == pytest.approx(log_likelihood(asked, laws, theta))
    for i in range(4):
        step = 1e-4 * np.eye(4)[i]
        difference = (log_likelihood(asked, laws, theta + step) - log_likelihood(asked, laws, theta - step)) / 2e-4
        assert gradient[:, i] == pytest.approx(difference, rel=1e-5, abs=1e-5 * np.abs(gradient).max())
