"""How precise an answer will be: the posterior's standard deviation, predicted before any record is touched.

    sd_j^2 = E_theta[ (F(theta) + Sigma^-1)^-1 ]_jj,
F the information of the plan's release, Sigma the covariance of what is believed before, theta from the prior, from a
posterior, or as given. It is what the normal approximation of the posterior says (Bernstein & von Mises), so it is
right where a release is informative and its law near normal: many records, noise below their own sampling spread.

Where noise dominates, information is too hopeful: a Laplace noise has F = 1/b^2 and leaves a posterior of variance
2b^2. For one location y = mu + e under a flat prior the posterior is e's own law, whatever that is, so its variance is
that of e (Pitman 1939). So for sums under Laplace noise F is also taken with normal noise of the *same variance*,
which is right at both ends, and never too small a variance for a release linear in theta with a normal prior (it is
then the error of the best linear estimator); the larger of the two variances counts. Cauchy noise has no variance:
there `epsilon_for` warns (`PrecisionWarning`). `simulated_sd` runs the whole line instead, and says what it really is.

    epsilon_for     the smallest budget that is predicted to reach a precision
Precision against budget and n, for several candidates: `curve.design_curve`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from noisewise.design.additive import moment_slopes
from noisewise.design.belief import Belief, believe
from noisewise.design.blank import blank_release, checked_plan
from noisewise.design.information import engine_for
from noisewise.errors import InvalidArgument, PrecisionWarning, Unsupported
from noisewise.exact import integer
from noisewise.inference.progress import shown as progress_shown
from noisewise.laws import Form, additive_law, normal_mixture
from noisewise.likelihood import normal_gaussian
from noisewise.likelihood.normal_sum import NormalSum
from noisewise.models.protocol import model_of, population_for
from noisewise.planning import Plan, plan
from noisewise.populations.multivariate import MultivariateNormal
from noisewise.populations.parameters import Array
from noisewise.populations.population import Joint, Population
from noisewise.printable import shown
from noisewise.privacy.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from noisewise.schema import Schema
from noisewise.statistics import Count, Histogram, Marginals, Mean, Statistic, Sum, TruncatedSum
from noisewise.statistics.order import OrderStatistic

KINDS = ("pure", "approx", "zcdp", "gdp")
LEAST, MOST, FACTOR = 1e-4, 1e3, 10.0
CLOSE = 1.003  # the search ends when its ends are this near
STEADY = 1.05  # a predicted sd that rises by more than this with the budget is not to be searched
FEWER_DRAWS = 16
MOST_SUMS = 40  # of which the normal law is computed beside
DOMINATED = 1.3  # a budget ten times as large that lowers the sd by more than this was spent on noise


def predicted_sd(
    plan: Plan,
    population: Any,
    *,
    at: Any = None,
    likelihood: str = "auto",
    seed: int | None = None,
    n: int | None = None,
    draws: int | None = None,
) -> dict[str, float]:
    """The standard deviation that the posterior of each unknown will have after this release, by prediction.

    `population` may be a posterior: then what it knows already counts. Without `at`, the root of the mean variance
    over its draws. A simplex of probabilities counts in all but its last.
    """
    belief = _belief(checked_plan(plan).statistic, population_for(population, [plan]), at, draws)
    return predicted(plan, belief, likelihood=likelihood, seed=seed, n=n)


def predicted(plan: Plan, belief: Belief, *, likelihood: str, seed: int | None, n: int | None) -> dict[str, float]:
    """The predicted sd of each coordinate under a belief."""
    engine = engine_for(plan, belief.population, likelihood=likelihood, seed=0 if seed is None else seed, n=n)
    matrices, _ = engine.rows(belief.rows)
    if not np.isfinite(matrices).all():
        raise Unsupported(f"The information of {plan} is not finite everywhere; give other parameter values by at=.")
    variance = posterior_variance(matrices, belief)
    spread = _spread_information(plan, belief, n)
    if spread is not None:
        variance = np.maximum(variance, posterior_variance(spread, belief))
    return dict(zip(belief.names, np.sqrt(variance).tolist(), strict=True))


def _spread_information(plan: Plan, belief: Belief, n: int | None) -> Array | None:
    """F (K, P, P) of sums under normal noise with the variance of their Laplace noise; None for other releases."""
    is_sum = isinstance(plan.statistic, Mean | Sum | Count | TruncatedSum | Histogram | Marginals)
    is_population = isinstance(belief.population, Population | Joint | MultivariateNormal)
    if not is_population:
        return model_of(belief.population).spread_information(plan, belief.rows, n=n)
    if not (is_sum and plan.law.form is Form.NUMBER):
        return None
    law = additive_law(plan.law)
    if not normal_mixture(law).is_laplace:
        return None
    size = plan.part_schema.n if plan.part_schema.n is not None else n
    if size is None or law.size > MOST_SUMS:
        return None
    model = NormalSum((blank_release(plan),), belief.population, n=size)
    covariance, d_mean, d_covariance = moment_slopes(model, belief.population, belief.rows)
    found = normal_gaussian.information(
        d_mean=d_mean, d_covariance=d_covariance, covariance=covariance, noise_variance=model.noise.variance
    )
    return found if np.isfinite(found).all() else None


def posterior_variance(matrices: Array, belief: Belief) -> Array:
    """E[(F + Sigma^-1)^-1]_jj over the rows, (P,), computed in units of the believed sd."""
    unit = np.sqrt(np.diag(belief.covariance))
    scaled = (matrices + belief.precision) * np.outer(unit, unit)
    return np.asarray(np.einsum("kjj->kj", np.linalg.inv(scaled)).mean(axis=0) * np.square(unit))


def simulated_sd(
    plan: Plan,
    population: Any,
    *,
    at: Any,
    releases: int = 20,
    likelihood: str = "auto",
    seed: int | None = None,
    n: int | None = None,
) -> dict[str, float]:
    """The root of the mean posterior variance over releases simulated at one parameter value: slow, no prediction."""
    from noisewise.inference.infer import infer
    from noisewise.models.simulate import simulate

    count = integer(releases, "releases", minimum=1, maximum=10**6)
    variances: dict[str, list[float]] = {}
    for one in np.random.SeedSequence(seed).generate_state(count, np.uint32):
        made = simulate(plan, population, at=at, seed=int(one), n=n)
        found = infer(made, population, likelihood=likelihood, seed=int(one), progress=False, n=n)
        for name, value in found.sd.items():
            flat = np.atleast_1d(value)
            for j, each in enumerate(flat):
                variances.setdefault(name if flat.size == 1 else f"{name}[{j}]", []).append(float(each) ** 2)
    return {name: math.sqrt(sum(each) / count) for name, each in variances.items()}


def epsilon_for(
    statistic: Statistic,
    population: Any,
    schema: Schema,
    *,
    sd: Mapping[str, float],
    kind: str = "pure",
    delta: Any = None,
    mechanism: Any = None,
    weights: Sequence[object] | None = None,
    part: tuple[object, object] | None = None,
    at: Any = None,
    n: int | None = None,
    likelihood: str = "auto",
    seed: int | None = None,
    draws: int | None = None,
    progress: Any = True,
) -> Guarantee:
    """The smallest budget for which the predicted posterior sd of every parameter named in `sd` is at most that.

    The answer is rounded up to three digits. A precision that sampling alone does not reach is refused, with the best
    that can be had. Where the noise of an order statistic dominates, no formula is right and a `PrecisionWarning` says
    so.

    Parameters
    ----------
    statistic, schema
        What would be released, of which records.
    population
        What is believed of the records, with a prior for each unknown.
    sd
        The sd that the posterior of each unknown may have, by name, in the parameter's unit.
    kind
        "pure" (epsilon; default), "approx" (epsilon at the given delta), "zcdp" (rho) or "gdp" (mu).
    delta
        Of kind "approx".
    mechanism, weights, part
        As for `plan`.
    at
        Values of the unknowns, by name. Default None: averaged over draws from the prior.
    n
        The number of records, where that is private.
    likelihood
        "auto" (default) or "clt".
    seed, draws
        Of what is simulated, and how many draws from the prior.
    progress
        Whether progress is shown. Default True.

    Returns
    -------
    Guarantee
        Of the kind asked for.

    Examples
    --------
    >>> schema = nw.Schema({"income": nw.Bounded(0, 250)}, n=4000, neighbours="change-one")
    >>> population = nw.Normal(mean=stats.norm(50, 20), sd=20)
    >>> print(nw.epsilon_for(nw.Mean("income"), population, schema, sd={"mean": 0.5}, kind="gdp", progress=False))
    mu = 0.172
    """
    belief = _belief(statistic, population, at, draws)
    wanted = _wanted(sd, belief.names)
    _check_prior(wanted, belief)
    make = guarantee_maker(kind, delta)

    def probe(number: float) -> _Probe:
        guarantee = make(_rounded_up(number))
        try:
            made = plan(statistic, schema, guarantee=guarantee, mechanism=mechanism, weights=weights, part=part)
        except Unsupported as refusal:
            if not probes:
                raise
            return _Probe(number, guarantee, None, False, str(refusal))
        found = predicted(made, belief, likelihood=likelihood, seed=seed, n=n)
        return _Probe(number, guarantee, found, all(found[name] <= value for name, value in wanted.items()), "")

    probes: list[_Probe] = []
    with progress_shown(progress, "Searching the smallest budget") as report:
        least, most = _bracket(probe, probes, report)
        while most.number > least.number * CLOSE:
            middle = probe(math.sqrt(least.number * most.number))
            probes.append(middle)
            is_above = middle.is_enough or (middle.sd is None and not most.is_enough)
            least, most = (least, middle) if is_above else (middle, most)
    _check_steady(probes, wanted)
    if not most.is_enough:
        raise _unreachable(statistic, wanted, least, most)
    if isinstance(statistic, OrderStatistic):
        _warn_of_heavy_noise(statistic, wanted, most, [*probes, probe(FACTOR * most.number)])
    return most.guarantee


class _Probe(NamedTuple):
    """One budget that was tried: the predicted sd, or why no plan can be made."""

    number: float
    guarantee: Guarantee
    sd: Mapping[str, float] | None
    is_enough: bool
    refusal: str


def _bracket(probe: Any, probes: list[_Probe], report: Any) -> tuple[_Probe, _Probe]:
    """A budget that is too small, and one that is enough, or that no plan allows, or the largest."""
    probes.append(probe(1.0))
    down = probes[-1].is_enough
    while True:
        last = probes[-1]
        if report is not None:
            report(len(probes), 16)
        if down and last.number <= LEAST:
            raise Unsupported(
                f"Already {last.guarantee} is predicted to be enough. That much is known before any release: "
                "ask for a smaller sd."
            )
        if not down and last.number >= MOST:
            return last, last
        following = probe(last.number / FACTOR if down else last.number * FACTOR)
        probes.append(following)
        if down and not following.is_enough:
            return following, last
        if not down and (following.is_enough or following.sd is None):
            return last, following


def _belief(statistic: Statistic, population: Any, at: Any, draws: int | None) -> Belief:
    if draws is None and isinstance(statistic, OrderStatistic):
        draws = FEWER_DRAWS
    return believe(population, at=at, draws=draws)


def _wanted(sd: object, names: tuple[str, ...]) -> dict[str, float]:
    if not isinstance(sd, Mapping) or not sd or set(sd) - set(names):
        raise InvalidArgument(
            f"sd must map parameters to the sd wanted, as in {{{names[0]!r}: 0.5}}; there are {', '.join(names)}.",
            argument="sd",
        )
    for name, value in sd.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e100:
            raise InvalidArgument(f"sd[{name!r}] = {shown(value, 40)} must be a number above 0.", argument="sd")
    return {name: float(value) for name, value in sd.items()}


def _check_prior(wanted: Mapping[str, float], belief: Belief) -> None:
    before = dict(zip(belief.names, np.sqrt(np.diag(belief.covariance)).tolist(), strict=True))
    if all(value >= before[name] for name, value in wanted.items()):
        listed = ", ".join(f"{name} {before[name]:.4g}" for name in wanted)
        raise InvalidArgument(f"The sd wanted is there before any release ({listed}): nothing need be spent.",
                              argument="sd")  # fmt: skip


def _check_steady(probes: Sequence[_Probe], wanted: Mapping[str, float]) -> None:
    tried = sorted(probes, key=lambda one: one.number)
    made = [(one.guarantee, one.sd) for one in tried if one.sd is not None]
    for (less, before), (more, after) in pairwise(made):
        for name in wanted:
            if after[name] > STEADY * before[name]:
                raise Unsupported(
                    f"The predicted sd of {name} rises from {before[name]:.4g} at {less} to {after[name]:.4g} at "
                    f"{more}, so there is no smallest budget; see design_curve."
                )


def _warn_of_heavy_noise(
    statistic: Statistic, wanted: Mapping[str, float], found: _Probe, probes: Sequence[_Probe]
) -> None:
    """Warn where a larger budget would still help much: there the noise dominates, with tails that F does not see."""
    assert found.sd is not None
    best = {name: min(one.sd[name] for one in probes if one.sd is not None) for name in wanted}
    worst = max(wanted, key=lambda name: found.sd[name] / best[name])  # type: ignore[index]
    if found.sd[worst] > DOMINATED * best[worst]:
        warnings.warn(
            f"At {found.guarantee} the noise on {statistic} outweighs the sampling of its records (more budget would "
            f"bring the sd of {worst} from {found.sd[worst]:.3g} down to {best[worst]:.3g}), and its tails are heavier "
            "than the formula knows: the sd may be two or three times what was asked. Ask simulated_sd what it is, or "
            "release a mean.",
            PrecisionWarning,
            stacklevel=3,
        )


def _unreachable(statistic: Statistic, wanted: Mapping[str, float], best: _Probe, beyond: _Probe) -> Unsupported:
    assert best.sd is not None
    listed = ", ".join(f"{name} {best.sd[name]:.4g} (wanted {value:.4g})" for name, value in wanted.items())
    why = f"Above that no plan can be made: {beyond.refusal}" if beyond.refusal else (
        "There the noise hardly matters: this is what the number of records allows."
    )  # fmt: skip
    return Unsupported(
        f"No budget makes {statistic} that precise. Predicted sd at {best.guarantee}: {listed}. {why} "
        "Ask for a larger sd, more records, or another statistic.",
        sd=dict(best.sd),
    )


def guarantee_maker(kind: object, delta: Any) -> Any:
    """A function from the budget's number to a guarantee of a kind."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidArgument(f"kind = {shown(kind, 40)}; there are {', '.join(KINDS)}.", argument="kind")
    if (kind == "approx") != (delta is not None):
        raise InvalidArgument("delta= goes with kind='approx', and that needs one, such as delta='1e-6'.",
                              argument="delta")  # fmt: skip
    if kind == "approx":
        return lambda number: ApproxDP(number, delta)
    return {"pure": PureDP, "zcdp": ZeroConcentratedDP, "gdp": GaussianDP}[kind]


def _rounded_up(number: float) -> Fraction:
    """To three digits, upwards: at most 1 % more."""
    return Fraction(Context(prec=3, rounding=ROUND_CEILING).create_decimal_from_float(number))
