"""The optimal estimator: known answers, an independent program, privacy by arithmetic, and what makes the closed form
fail."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import cvxpy
import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

import noisewise as nw
from noisewise.errors import InvalidArgument, NoisewiseError, Unsupported
from noisewise.laws.finite import adjacent, satisfies
from noisewise.point import estimator, optimal, program
from noisewise.point.estimator import Estimator
from noisewise.point.exact_rows import exact_rows
from noisewise.point.losses import Squared
from noisewise.point.models import FiniteModel, read_problem
from noisewise.point.optimal import optimal_estimator

UNIFORM = nw.Bernoulli(p=stats.uniform())
PRIORS = {"uniform": (1, 1), "beta(2, 2)": (2, 2), "beta(1/2, 1/2)": (0.5, 0.5), "beta(5, 2)": (5, 2)}


def losses(kind: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """L(truth, answer), written once more."""
    if kind == "squared":
        return lambda g, a: (g - a) ** 2
    if kind == "absolute":
        return lambda g, a: np.abs(g - a)
    if kind[0] == "pinball":
        return lambda g, a: np.maximum(kind[1] * (g - a), (kind[1] - 1) * (g - a))
    return lambda g, a: (np.abs(g - a) > kind[1]).astype(float)


def risk_by_quadrature(estimator: Estimator, n: int, shapes: tuple[float, float], kind: Any) -> float:
    """The Bayes risk by the midpoint rule over the parameter: no posterior, no prices."""
    p = stats.beta.ppf((np.arange(40_000) + 0.5) / 40_000, *shapes)
    law = stats.binom.pmf(np.arange(n + 1)[:, None], n, p).T @ estimator.matrix
    return float((law * losses(kind)(p[:, None], estimator.actions)).sum(axis=1).mean())


def is_private(estimator: Estimator, pairs: list[tuple[int, int]]) -> bool:
    """Rows that sum to 1 and ratios of at most e^epsilon, by Fractions against 200 digits of e^epsilon."""
    epsilon, rows = estimator.guarantee.epsilon, estimator.rows
    with mpmath.workdps(200):
        most = mpmath.e ** (mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        below = Fraction(int(mpmath.floor(most * 2**400)), 2**400)
    ordered = [pair for one, two in pairs for pair in ((one, two), (two, one))]
    within = all(p <= below * q for one, two in ordered for p, q in zip(rows[one], rows[two], strict=True))
    return within and all(sum(row) == 1 for row in rows)


@pytest.mark.parametrize(("epsilon", "risk"), [("0.1", 0.078102), (1, 0.023236), (5, 0.013975)], ids=str)
def test_known_answers_for_ten_records_and_a_uniform_prior(epsilon: object, risk: float) -> None:
    found = optimal_estimator(UNIFORM, "squared", guarantee=nw.PureDP(epsilon), n=10)
    assert found.risk == pytest.approx(risk, abs=5e-7)
    assert found.method == "geometric"


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("n", [5, 10, pytest.param(20, marks=pytest.mark.slow)])
def test_the_closed_form_is_the_optimum_of_the_program(n: int, loss: str, prior: str) -> None:
    population, guarantee = nw.Bernoulli(p=stats.beta(*PRIORS[prior])), nw.PureDP(1)
    closed = optimal_estimator(population, loss, guarantee=guarantee, n=n)
    grid = optimal_estimator(population, loss, guarantee=guarantee, n=n, actions=np.linspace(0, 1, 150))
    free = optimal_estimator(population, loss, guarantee=guarantee, n=n, method="program", grid=30)
    assert (closed.method, grid.method, free.method) == ("geometric", "program", "program")
    # An answer moved to the grid costs at most half a step: squared under squared loss.
    step = 1 / 149
    assert closed.risk <= grid.risk * (1 + 1e-9) <= closed.risk + (step**2 if loss == "squared" else step)
    assert free.risk == pytest.approx(closed.risk, rel=2e-6)
    assert free.certificate.lower_bound <= closed.risk * (1 + 1e-9)


@pytest.mark.parametrize("loss", ["squared", "absolute", ("pinball", 0.9), ("window", 0.1)], ids=str)
@pytest.mark.parametrize("epsilon", ["0.3", 2])
def test_the_risk_is_that_of_simulating_the_whole_line(loss: Any, epsilon: object) -> None:
    found = optimal_estimator(nw.Bernoulli(p=stats.beta(2, 3)), loss, guarantee=nw.PureDP(epsilon), n=6)
    assert found.risk == pytest.approx(
        risk_by_quadrature(found, 6, (2, 3), loss), abs=5e-5 if loss[0] == "window" else 1e-7
    )


@pytest.mark.parametrize("loss", ["squared", "absolute", ("pinball", 0.8), ("window", 0.15)], ids=str)
def test_another_solver_finds_nothing_better(loss: Any) -> None:
    """CVXPY on the paper's program, over answers that include ours, with the belief by quadrature."""
    n, epsilon, found = 4, 0.7, optimal_estimator(UNIFORM, loss, guarantee=nw.PureDP("0.7"), n=4)
    answers = np.unique(np.concatenate([np.linspace(0, 1, 81), found.actions]))
    theta = (np.arange(4000) + 0.5) / 4000
    likelihood = stats.binom.pmf(np.arange(n + 1)[:, None], n, theta) / len(theta)
    costs = likelihood @ losses(loss)(theta[:, None], answers[None, :])
    law = cvxpy.Variable(costs.shape, nonneg=True)
    private = [law[1:] <= math.exp(epsilon) * law[:-1], law[:-1] <= math.exp(epsilon) * law[1:]]
    best = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(cvxpy.multiply(costs, law))), [cvxpy.sum(law, axis=1) == 1, *private])
    best.solve(solver="CLARABEL")
    assert found.risk == pytest.approx(float(best.value), abs=3e-4 if loss[0] == "window" else 1e-6)


@pytest.mark.parametrize("epsilon", ["0.001", "1/3", 1, 20])
@pytest.mark.parametrize("n", [1, 10, 60])
def test_closed_form_rows_are_private_by_arithmetic(n: int, epsilon: object) -> None:
    found = optimal_estimator(UNIFORM, "squared", guarantee=nw.PureDP(epsilon), n=n)
    assert found.certificate.is_exact
    assert is_private(found, adjacent(n + 1))
    assert np.allclose(found.matrix.sum(axis=1), 1)


def test_rows_of_two_hundred_records_are_private_by_arithmetic_and_short_enough_to_publish() -> None:
    found = optimal_estimator(UNIFORM, "squared", guarantee=nw.PureDP(1), n=200)
    assert is_private(found, adjacent(201))
    assert max(p.denominator.bit_length() for row in found.rows for p in row) <= 64


@pytest.mark.parametrize("epsilon", ["0.01", 1, 8])
def test_program_rows_are_private_by_arithmetic(epsilon: object) -> None:
    guarantee = nw.PureDP(epsilon)
    found = optimal_estimator(UNIFORM, "absolute", guarantee=guarantee, n=7, actions=np.linspace(0, 1, 60))
    assert is_private(found, adjacent(8))
    assert found.certificate.gap is not None
    assert found.certificate.gap < 1e-6


def test_the_solver_s_own_matrix_is_not_private() -> None:
    """Planted: the float answer of the program, its rows divided by their sums."""
    step = np.abs(np.subtract.outer(np.arange(8) / 7, np.linspace(0, 1, 60)))
    solved = program.solve(step / 8, adjacent(8), 1.0).matrix
    raw = [[Fraction(float(p)) for p in row] for row in np.clip(solved, 0, None)]
    assert not satisfies([[p / sum(row) for p in row] for row in raw], adjacent(8), Fraction(1))
    repaired = exact_rows(solved, adjacent(8), Fraction(1), spare=30).rows
    assert satisfies(repaired, adjacent(8), Fraction(1))
    assert np.allclose(np.array(repaired, dtype=float), solved, rtol=0, atol=1e-8)


def test_a_non_monotone_estimand_falls_back_to_the_program_which_is_better() -> None:
    def distance(p: np.ndarray) -> np.ndarray:
        return (p - 0.5) ** 2

    found = optimal_estimator(UNIFORM, "squared", guarantee=nw.PureDP(1), n=10, estimand=distance)
    noise = optimal_estimator(UNIFORM, "squared", guarantee=nw.PureDP(1), n=10, estimand=distance, method="geometric")
    assert found.method == "program"
    assert found.risk < 0.99 * noise.risk
    assert is_private(found, adjacent(11))
    # Both bounds hold, and the noise knows that it is not the best.
    assert noise.certificate.gap > noise.risk - found.risk > 0
    assert found.certificate.lower_bound <= found.risk <= found.certificate.lower_bound * (1 + 2e-6)


def test_a_monotone_estimand_keeps_the_closed_form() -> None:
    for estimand in (lambda p: p**2, lambda p: -np.log1p(p)):
        found = optimal_estimator(UNIFORM, "squared", guarantee=nw.PureDP(1), n=6, estimand=estimand)
        free = optimal_estimator(
            UNIFORM, "squared", guarantee=nw.PureDP(1), n=6, estimand=estimand, method="program", grid=40
        )
        assert found.method == "geometric"
        assert found.risk == pytest.approx(free.risk, rel=2e-6)


def test_a_loss_given_as_a_function_is_decided_by_duality() -> None:
    named = optimal_estimator(UNIFORM, "absolute", guarantee=nw.PureDP(1), n=8)
    given = optimal_estimator(UNIFORM, lambda g, a: np.abs(g - a), guarantee=nw.PureDP(1), n=8)
    assert given.method == "geometric"
    assert given.risk == pytest.approx(named.risk, rel=1e-5)
    assert given.certificate.gap <= 1e-6 * given.risk
    # A loss that forgives the wrong end is not ordered: noise on the count is beaten.
    two_ended = optimal_estimator(
        UNIFORM, lambda g, a: np.minimum((g - a) ** 2, (g - 1 + a) ** 2), guarantee=nw.PureDP(1), n=8
    )
    assert two_ended.method == "program"


def test_priors_that_are_not_beta_agree_with_beta_ones_where_they_are_the_same_law() -> None:
    truncated = stats.truncnorm(-0.5 / 1000, 0.5 / 1000, loc=0.5, scale=1000)  # uniform but for its name
    for loss in ("squared", "absolute"):
        points = optimal_estimator(nw.Bernoulli(p=truncated), loss, guarantee=nw.PureDP(1), n=10)
        assert points.risk == pytest.approx(
            optimal_estimator(UNIFORM, loss, guarantee=nw.PureDP(1), n=10).risk, rel=1e-5
        )


def binomial_model(n: int, neighbours: list[tuple[int, int]] | None = None) -> FiniteModel:
    theta = np.linspace(0.02, 0.98, 49)
    likelihood = stats.binom.pmf(np.arange(n + 1)[:, None], n, theta)
    return FiniteModel(theta=theta, prior=np.full(49, 1 / 49), likelihood=likelihood, neighbours=neighbours)


def test_a_statistic_that_moves_by_two_is_left_to_the_program() -> None:
    pairs = [*adjacent(7), *((s, s + 2) for s in range(5))]
    found = optimal_estimator(binomial_model(6, pairs), "squared", guarantee=nw.PureDP(1), grid=60)
    path = optimal_estimator(binomial_model(6), "squared", guarantee=nw.PureDP(1))
    assert (found.method, path.method) == ("program", "geometric")
    assert is_private(found, pairs)
    assert found.risk > path.risk * 1.01
    # Halving epsilon would also be private, and is worse: this is why the program is asked.
    assert found.risk < optimal_estimator(binomial_model(6), "squared", guarantee=nw.PureDP("1/2")).risk
    with pytest.raises(Unsupported, match="move by one"):
        optimal_estimator(binomial_model(6, pairs), "squared", guarantee=nw.PureDP(1), method="geometric")


def test_limits() -> None:
    """Without privacy the posterior means; with nothing but privacy the prior mean."""
    free = optimal_estimator(UNIFORM, "squared", guarantee=nw.PureDP(60), n=10)
    assert free.risk == pytest.approx(1 / 72, rel=1e-12)
    assert np.allclose(free.actions, (np.arange(11) + 1) / 12)
    closed = optimal_estimator(UNIFORM, "squared", guarantee=nw.PureDP("1e-9"), n=10)
    assert closed.risk == pytest.approx(1 / 12, rel=1e-9)
    assert np.allclose(closed.actions, 0.5)


def test_a_count_of_any_population_with_one_unknown() -> None:
    """Exceedances of a normal mean: the belief against quadrature over the mean."""
    schema = nw.Schema({"x": nw.Bounded(-5, 5)}, n=8, neighbours="change-one")
    above = nw.Count(nw.column("x").between(0, 5))
    population = nw.Normal(mean=stats.norm(0, 1), sd=1)
    found = optimal_estimator(population, "squared", guarantee=nw.PureDP(1), statistic=above, schema=schema)
    assert (found.method, found.size) == ("geometric", 9)

    def at(mean: float) -> float:
        law = stats.binom.pmf(np.arange(9), 8, stats.norm.cdf(mean)) @ found.matrix
        return float(stats.norm.pdf(mean) * law @ (mean - found.actions) ** 2)

    assert found.risk == pytest.approx(integrate.quad(at, -8, 8, epsabs=1e-10)[0], rel=1e-6)


def test_counting_the_other_level_mirrors_the_answers() -> None:
    schema = nw.Schema({"smoker": nw.Levels(["no", "yes"])}, n=6, neighbours="change-one")
    population = nw.Bernoulli(p=stats.beta(2, 5))
    yes, no = (
        optimal_estimator(population, "squared", guarantee=nw.PureDP(1), schema=schema,
                          statistic=nw.Count(nw.column("smoker").equals(level)))
        for level in ("yes", "no")
    )  # fmt: skip
    assert np.allclose(yes.actions, no.actions[::-1], rtol=1e-12)
    assert yes.risk == pytest.approx(no.risk, rel=1e-12)


def test_ten_thousand_records_have_a_structural_certificate() -> None:
    found = optimal_estimator(UNIFORM, "squared", guarantee=nw.PureDP(1), n=10_000)
    assert not found.certificate.is_exact
    # Noise of variance 2a/(1-a)^2 on the count, where its ends are far away, and no gain from knowing them.
    a = math.exp(-1)
    linear = 1 / (6 * 10_002) + 2 * a / (1 - a) ** 2 / 10_002**2
    assert found.risk == pytest.approx(linear, rel=1e-3)
    assert found.risk < linear
    with pytest.raises(Unsupported, match="geometric"):
        _ = found.rows


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_blocks_and_passes_agree_with_the_matrix(loss: str) -> None:
    """A belief that is almost impossible at one end: weights underflow there, answers do not."""
    population = nw.Bernoulli(p=stats.beta(900, 1))
    found = optimal_estimator(population, loss, guarantee=nw.PureDP(3), n=400)
    assert np.all(np.diff(found.actions) >= -1e-12)
    assert np.all((found.actions > 0) & (found.actions < 1))


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"loss": "cubic"}, "loss"),
    ({"loss": ("pinball", 1)}, "between 0 and 1"),
    ({"loss": ("window", math.nan)}, "above 0"),
    ({"loss": lambda g, a: (g + a).sum()}, "one finite number"),
    ({"guarantee": nw.ApproxDP(1, "1e-6")}, "PureDP"),
    ({"guarantee": 1}, "PureDP"),
    ({"n": None}, "Give n"),
    ({"n": 0}, "at least 1"),
    ({"n": True}, "whole number"),
    ({"n": 10**9}, "at most"),
    ({"model": nw.Bernoulli(p=0.3)}, "Bernoulli"),
    ({"model": nw.Normal(mean=stats.norm(), sd=1)}, "Bernoulli"),
    ({"model": "bernoulli"}, "Bernoulli"),
    ({"estimand": lambda p: p[:3]}, "one finite number"),
    ({"estimand": 3}, "function"),
    ({"loss": ("pinball", 10**400)}, "between 0 and 1"),
    ({"loss": ("window", 10**400)}, "above 0"),
    ({"loss": lambda _g, _a: "text"}, "loss"),
    ({"loss": lambda _g, _a: {}}, "loss"),
    ({"loss": lambda _g, _a: 10**400}, "loss"),
    ({"loss": lambda g: g}, "two arrays"),
    ({"loss": lambda g, a: np.where(g > 0.5, np.inf, 0) + a}, "not finite"),
    ({"estimand": lambda _p: "text"}, "estimand"),
    ({"estimand": lambda _p: 10**400}, "estimand"),
    ({"estimand": lambda p, _q: p}, "one array"),
    ({"estimand": lambda p: np.where(p > 0.5, np.inf, p)}, "not finite"),
    ({"model": nw.Bernoulli(p=stats.beta(1e300, 1e300))}, "too narrow"),
    ({"actions": [True, 0.5]}, "numbers"),
    ({"actions": [10**400, 0.5]}, "finite"),
    ({"actions": [0.1, math.inf]}, "finite"),
    ({"actions": []}, "finite"),
    ({"actions": [0.5], "method": "geometric"}, "program"),
    ({"method": "magic"}, "method"),
    ({"grid": 1}, "at least 2"),
    ({"statistic": nw.Mean(nw.column("x"))}, "Count"),
    ({"statistic": nw.Count(nw.column("x").between(0, 1))}, "schema"),
]


@pytest.mark.parametrize(("change", "words"), REFUSED, ids=["-".join(change) for change, _ in REFUSED])
def test_bad_input_is_refused_by_name(change: dict[str, Any], words: str) -> None:
    given = {"model": UNIFORM, "loss": "squared", "guarantee": nw.PureDP(1), "n": 5, **change}
    with pytest.raises(NoisewiseError, match=words) as refused:
        optimal_estimator(given.pop("model"), given.pop("loss"), guarantee=given.pop("guarantee"), **given)
    if isinstance(refused.value, InvalidArgument):
        assert refused.value.argument in {*change, "schema"}


@pytest.mark.parametrize(
    "change",
    [
        {"theta": [[1, 2]]},
        {"prior": [0.5, 0.6]},
        {"likelihood": [[0.5, 0.5]]},
        {"likelihood": [[0.5, 0.5], [0.4, 0.5]]},
        {"theta": [10**400, 1]},
        {"prior": [10**400, 1]},
        {"likelihood": [[10**400, 0.4], [0.5, 0.6]]},
        {"neighbours": []},
        {"neighbours": ""},
        {"neighbours": {}},
        {"neighbours": 5},
        {"neighbours": [5]},
        {"neighbours": [None]},
        {"neighbours": [(0, 1, 1)]},
        {"neighbours": [(0, 2)]},
        {"neighbours": [(1, 1)]},
        {"theta": ["a", "b"]},
    ],
    ids=repr,
)
def test_a_model_that_does_not_fit_together_is_refused(change: dict[str, Any]) -> None:
    given = {"theta": [0, 1], "prior": [0.5, 0.5], "likelihood": [[0.5, 0.4], [0.5, 0.6]], **change}
    with pytest.raises(InvalidArgument):
        FiniteModel(**given)


def test_values_that_no_neighbours_join_are_named_as_not_hidden() -> None:
    apart = optimal_estimator(binomial_model(3, [(0, 1), (2, 3)]), "squared", guarantee=nw.PureDP(1), grid=20)
    joined = optimal_estimator(
        binomial_model(3, [(0, 1), (1, 2), (2, 3), (0, 2)]), "squared", guarantee=nw.PureDP(1), grid=20
    )
    assert "not hidden" in str(apart)
    assert "not hidden" not in str(joined)
    # Off a path answers are free but the program's are listed: no bound on all of them is claimed.
    assert apart.certificate.gap is apart.certificate.lower_bound is None


@pytest.mark.parametrize(("slope", "shift"), [(2, 0), (1000, 5000), (-3, 1)], ids=str)
def test_the_best_answer_may_lie_outside_the_range_of_the_estimand(slope: float, shift: float) -> None:
    """(slope g + shift - a)^2 is squared loss about another unit: its optimum is known."""
    found = optimal_estimator(UNIFORM, lambda g, a: (slope * g + shift - a) ** 2, guarantee=nw.PureDP(1), n=10)
    named = optimal_estimator(UNIFORM, "squared", guarantee=nw.PureDP(1), n=10)
    assert found.risk == pytest.approx(slope**2 * named.risk, rel=1e-6)
    assert found.certificate.lower_bound == pytest.approx(found.risk, rel=1e-6)
    assert np.allclose(np.sort(found.actions), np.sort(slope * named.actions + shift), rtol=0, atol=1e-3 * abs(slope))


def test_a_loss_that_is_finite_inside_the_range_alone_is_searched_there() -> None:
    """Bernoulli log loss, whose best answer is the posterior mean."""
    found = optimal_estimator(
        UNIFORM, lambda g, a: -(g * np.log(a) + (1 - g) * np.log1p(-a)), guarantee=nw.PureDP(1), n=6
    )
    named = optimal_estimator(UNIFORM, "squared", guarantee=nw.PureDP(1), n=6)
    assert np.allclose(found.actions, named.actions, rtol=0, atol=1e-5)
    log_odds = optimal_estimator(
        UNIFORM, "squared", guarantee=nw.PureDP(1), n=6, estimand=lambda p: np.log(p / (1 - p))
    )
    assert np.allclose(log_odds.actions, -log_odds.actions[::-1], atol=1e-6)


def test_the_best_round_of_the_program_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: rounds whose risk rises after the second."""
    problem = read_problem(UNIFORM, Squared(), n=4, statistic=None, schema=None, estimand=None)
    solve, risks = optimal._solved, iter([3.0, 1.0, 2.0, 2.5, 2.6, 2.7])

    def worsening(*given: Any, **options: Any) -> Any:
        found = solve(*given, **options)
        risk = next(risks)
        certificate = replace(found.estimator.certificate, gap=risk)
        return found._replace(estimator=replace(found.estimator, risk=risk, certificate=certificate))

    monkeypatch.setattr(optimal, "_solved", worsening)
    assert optimal._by_program(problem, Squared(), nw.PureDP(1), None, 11).risk == 1.0


def test_a_bound_found_at_listed_answers_says_so() -> None:
    steps = optimal_estimator(UNIFORM, lambda g, a: (np.abs(g - a) > 0.1).astype(float), guarantee=nw.PureDP(1), n=3)
    assert "whose answers are among" in str(steps)
    assert "points of the prior" in str(steps)
    assert estimator.gap_between(1.0, 1.1) is None
    assert estimator.gap_between(1.1, 1.0) == pytest.approx(0.1)


def test_a_narrow_window_under_a_prior_that_is_not_beta_has_the_risk_of_the_continuous_law() -> None:
    prior, h = stats.uniform(0.2, 0.3), 0.01
    found = optimal_estimator(nw.Bernoulli(p=prior), ("window", h), guarantee=nw.PureDP(1), n=10)
    p = prior.ppf((np.arange(400_000) + 0.5) / 400_000)
    inside = np.abs(p[:, None] - found.actions) <= h
    missed = 1 - (stats.binom.pmf(np.arange(11)[:, None], 10, p).T @ found.matrix * inside).sum(axis=1).mean()
    assert found.risk == pytest.approx(float(missed), abs=2e-5)
    # With another estimand the law is one of points, and the certificate says so instead of a proof.
    squares = optimal_estimator(nw.Bernoulli(p=prior), ("window", h), guarantee=nw.PureDP(1), n=10, estimand=np.square)
    assert "2416 points" in str(squares)
    assert squares.certificate.lower_bound is None
