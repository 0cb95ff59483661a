"""Which conjugate family a population and its releases form, and the sentences for those that form none."""

from __future__ import annotations

import numpy as np
import pytest
from made_releases import release_of
from scipy import stats

import noisewise as nw
from noisewise.errors import InvalidArgument, Unsupported
from noisewise.families.family import Window, conjugate_family, gamma_numbers

X = nw.column("x")
YES = nw.Count(X.equals("yes"))
GAMMA = stats.gamma(3, scale=0.5)
NIG = stats.normal_inverse_gamma(0, 0.5, 3, 8)
LAPLACE = nw.PureDP(1)


def numeric(n: int = 100, low: float = 0, high: float = 8, **options) -> nw.Schema:
    return nw.Schema({"x": nw.Bounded(low, high), "w": nw.Bounded(0, 1)}, n=n, neighbours="change-one", **options)


def levels(*names: str, n: int = 100) -> nw.Schema:
    return nw.Schema({"x": nw.Levels(list(names))}, n=n, neighbours="change-one")


def made(
    statistic: object, schema: nw.Schema, value: list[float], guarantee: object = LAPLACE, **options
) -> nw.Release:
    return release_of(statistic, schema, guarantee, value, **options)


@pytest.mark.parametrize(
    ("statistic", "window"),
    [
        (nw.Sum(X), Window(0, 8, True, True)),
        (nw.Mean(X.clip(1, 20)), Window(1, 8, True, True)),
        (nw.TruncatedSum([X], "x", 2, 5), Window(2, 5, False, False)),
        (nw.TruncatedSum([X], "x", -3, 5), Window(0, 5, True, False)),
        (nw.TruncatedSum([X], "x", 2, 9), Window(2, 8, False, True)),
        (nw.TruncatedSum([X], "x", 8, 9), Window(8, 8, False, True)),
    ],
    ids=str,
)
def test_a_window_says_what_becomes_of_records_beyond_each_end(statistic: object, window: Window) -> None:
    """A record clamped by the schema to an end that is not redacted is kept there."""
    family = conjugate_family(made(statistic, numeric(), [1.0]), nw.Poisson(rate=GAMMA))
    assert family.observations[0].window == window
    x = np.arange(0, 15.0)
    cleaned = statistic.value({"x": np.clip(x, 0, 8)[:, None]}, numeric())[:, 0]
    ends = (window.low if window.is_clamped_below else 0, window.high if window.is_clamped_above else 0)
    assert np.array_equal(cleaned, np.where(x < window.low, ends[0], np.where(x > window.high, ends[1], x)))
    assert window.range_from(0.0) == (cleaned.min(), cleaned.max())


@pytest.mark.parametrize(
    ("prior", "numbers"),
    [
        (stats.gamma(3, scale=0.5), (3, 2)),
        (stats.gamma(a=3), (3, 1)),
        (stats.expon(scale=4), (1, 0.25)),
        (stats.chi2(6), (3, 0.5)),
        (stats.erlang(2, 0, 0.1), (2, 10)),
        (stats.gamma(3, loc=1), None),
        (stats.lognorm(1), None),
        (stats.halfnorm(), None),
    ],
    ids=["gamma", "by name", "exponential", "chi-square", "erlang", "shifted", "lognormal", "halfnormal"],
)
def test_a_gamma_prior_is_known_under_all_its_names(prior: object, numbers: tuple[float, float] | None) -> None:
    found = gamma_numbers(prior)
    assert found == (None if numbers is None else pytest.approx(numbers))
    if found is not None:
        grid = np.array([0.1, 1.0, 3.0])
        assert stats.gamma(found[0], scale=1 / found[1]).logpdf(grid) == pytest.approx(prior.logpdf(grid))


def test_a_count_of_the_first_level_is_read_from_the_other_side() -> None:
    schema = levels("no", "yes")
    no = made(nw.Count(X.equals("no")), schema, [30])
    family = conjugate_family(no, nw.Bernoulli(p=stats.beta(2, 5)))
    assert family.prior == (2, 5)
    assert family.observations[0].observed == [70]
    assert conjugate_family(made(YES, schema, [30]), nw.Bernoulli(p=stats.uniform())).prior == (1, 1)


def test_refused_records_do_not_matter_where_none_can_be_outside() -> None:
    schema = nw.Schema({"x": nw.Levels(["no", "yes"])}, n=100, neighbours="change-one", outside="refuse")
    assert conjugate_family(made(YES, schema, [30]), nw.Bernoulli(p=stats.beta(2, 5))).prior == (2, 5)
    zero_one = made(nw.Sum(X), numeric(high=1, outside="refuse"), [30])
    assert conjugate_family(zero_one, nw.Bernoulli(p=stats.beta(2, 5))).observations[0].observed == pytest.approx([30])


def test_unknowns_keep_the_name_of_their_column() -> None:
    family = conjugate_family(made(nw.Sum(X), numeric(), [300]), nw.Joint(x=nw.Poisson(rate=GAMMA)))
    assert family.parameters == ("x.rate",)
    family = conjugate_family(made(nw.Sum(X, X**2), numeric(), [300, 900]), nw.Normal(prior=NIG))
    assert family.parameters == ("mean", "variance")
    assert family.prior == (0, 0.5, 3, 8)


SUM = made(nw.Sum(X), numeric(), [300])
COUNT = made(YES, levels("no", "yes"), [30])
REFUSED = {
    "shifted gamma": (SUM, nw.Poisson(rate=stats.gamma(3, loc=1)), "stats.gamma"),
    "normal priors apart": (made(nw.Sum(X, X**2), numeric(), [1, 2]),
                            nw.Normal(mean=stats.norm(), variance=GAMMA), "stats.normal_inverse_gamma"),
    "narrow beta": (COUNT, nw.Bernoulli(p=stats.beta(2, 3, loc=0, scale=0.5)), "stats.beta"),
    "other prior of p": (COUNT, nw.Bernoulli(p=stats.truncnorm(0, 1)), "stats.beta"),
    "known variance": (made(nw.Sum(X, X**2), numeric(), [1, 2]), nw.Normal(mean=stats.norm(), variance=2),
                       "every parameter"),
    "other population": (SUM, nw.LogNormal(log_mean=stats.norm(), log_sd=GAMMA), "Bernoulli, Categorical, Poisson"),
    "gamma with a shape": (SUM, nw.Gamma(shape=2, rate=GAMMA), "Bernoulli, Categorical, Poisson"),
    "square of a count": (made(nw.Sum(X**2), numeric(), [1]), nw.Poisson(rate=GAMMA), r"Sum\(x\), Mean\(x\)"),
    "square alone": (made(nw.Sum(X), numeric(), [1]), nw.Normal(prior=NIG), r"Sum\(x, x\*\*2\)"),
    "squares first": (made(nw.Sum(X**2, X), numeric(), [1, 2]), nw.Normal(prior=NIG), r"Sum\(x, x\*\*2\)"),
    "truncated twice": (made(nw.TruncatedSum([X.clip(1, 3)], "x", 0, 5), numeric(), [1]), nw.Poisson(rate=GAMMA),
                        "TruncatedSum"),
    "count of a window": (made(nw.Count(X.between(1, 3)), numeric(), [10]), nw.Poisson(rate=GAMMA), "not count"),
    "bounds within 0 and 1": (made(nw.Sum(X), numeric(high=0.9), [10]), nw.Bernoulli(p=stats.beta(1, 1)), "hold 0 and"),
    "histogram of two": (made(nw.Histogram("x"), levels("no", "yes"), [1, 2]), nw.Bernoulli(p=stats.beta(1, 1)),
                         "of one level"),
    "one level of three": (made(nw.Count(X.equals("a")), levels("a", "b", "c"), [1]),
                           nw.Categorical(p=stats.dirichlet([1, 1, 1])), "Histogram"),
    "median": (made(nw.Median(X), numeric(), [1], nw.ApproxDP(1, "0.000001")), nw.Exponential(rate=GAMMA),
               "Laplace, geometric or Gaussian"),
    "refused records": (made(nw.Sum(X), numeric(outside="refuse"), [300]), nw.Poisson(rate=GAMMA), "truncated law"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_conjugate_family_is_refused_with_what_it_would_need(name: str) -> None:
    release, population, words = REFUSED[name]
    with pytest.raises((Unsupported, InvalidArgument), match=words) as refused:
        nw.infer(release, population, method="gibbs")
    assert "method='exact'" in str(refused.value)


def test_releases_of_the_same_records_are_for_exact_inference() -> None:
    other = made(nw.TruncatedSum([X], "x", 0, 5), numeric(), [250])
    with pytest.raises(Unsupported, match=r"same records.*method='exact'"):
        nw.infer([SUM, other], nw.Poisson(rate=GAMMA), method="gibbs")


def test_releases_about_different_unknowns_are_refused() -> None:
    other = made(nw.Sum(nw.column("w")), numeric(), [20], dataset="other")
    population = nw.Joint(x=nw.Poisson(rate=GAMMA), w=nw.Exponential(rate=GAMMA))
    with pytest.raises(Unsupported, match="same unknowns"):
        nw.infer([SUM, other], population, method="gibbs")
    with pytest.raises(Unsupported, match=r"x\.rate only"):
        nw.infer(SUM, population, method="gibbs")


def test_two_columns_at_once_are_refused() -> None:
    both = made(nw.Sum(X, nw.column("w")), numeric(), [300, 20])
    population = nw.Joint(x=nw.Poisson(rate=GAMMA), w=nw.Exponential(rate=GAMMA))
    with pytest.raises(Unsupported, match="one column"):
        nw.infer(both, population, method="gibbs")


def test_a_private_n_is_stated_or_asked_for() -> None:
    schema = nw.Schema({"x": nw.Bounded(0, 8)}, n_max=500, neighbours="add-remove")
    release = made(nw.Sum(X), schema, [300])
    with pytest.raises(InvalidArgument, match="State the n"):
        conjugate_family(release, nw.Poisson(rate=GAMMA))
    assert conjugate_family(release, nw.Poisson(rate=GAMMA), n=120).observations[0].n == 120


def test_an_unknown_variant_or_option_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="joint, published, as-printed"):
        nw.infer(SUM, nw.Poisson(rate=GAMMA), method="gibbs", variant="fast")
    with pytest.raises(InvalidArgument, match="variant"):
        nw.infer(SUM, nw.Poisson(rate=GAMMA), method="gibbs", n_particles=3)
    with pytest.raises(InvalidArgument, match="likelihood"):
        nw.infer(SUM, nw.Poisson(rate=GAMMA), method="gibbs", likelihood="exact")
